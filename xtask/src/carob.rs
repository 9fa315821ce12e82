//! The `carob` command with all features.

use anyhow::Result;

use crate::{process, workspace::Workspace};

/// The package with everything in it, as arguments of cargo.
pub(crate) const FULL: [&str; 4] = ["--package", "carob-cli", "--features", "full"];

/// Builds the release profile.
pub(crate) fn build(workspace: &Workspace) -> Result<()> {
    let mut build = process::cargo();
    build.args(["build", "--release", "--quiet"]).args(FULL);
    process::must(build.current_dir(&workspace.root))
}
