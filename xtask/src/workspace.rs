//! The repository, its files and its build directory.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::process;

/// The workspace this tool was built from.
pub(crate) struct Workspace {
    /// The directory that holds the workspace's `Cargo.toml`.
    pub(crate) root: PathBuf,
}

impl Workspace {
    /// Finds the workspace as the parent of this crate's directory.
    pub(crate) fn find() -> Result<Self> {
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
        let root = manifest
            .parent()
            .context("xtask has no parent directory")?
            .to_path_buf();
        if !root.join("Cargo.toml").is_file() {
            bail!(
                "{} holds no Cargo.toml; was the repository moved? rebuild xtask",
                root.display()
            );
        }
        Ok(Self { root })
    }

    /// Files that git tracks or would track, by path from `root`; ignored files are left out.
    pub(crate) fn files(root: &Path) -> Result<Vec<String>> {
        let mut list = Command::new("git");
        list.args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ]);
        let names = process::output(list.current_dir(root))?;
        let names = names.split_terminator('\0').map(str::to_owned);
        // The index lists deleted files until the next commit.
        Ok(names.filter(|name| root.join(name).is_file()).collect())
    }

    /// Output of `cargo metadata --no-deps`.
    pub(crate) fn metadata(&self) -> Result<serde_json::Value> {
        let mut command = process::cargo();
        command.args(["metadata", "--no-deps", "--format-version", "1"]);
        let text = process::output(command.current_dir(&self.root))?;
        serde_json::from_str(&text).context("`cargo metadata` printed no JSON")
    }

    /// Cargo's build directory, `CARGO_TARGET_DIR` and configuration considered.
    pub(crate) fn target(&self) -> Result<PathBuf> {
        let metadata = self.metadata()?;
        let directory = metadata["target_directory"].as_str();
        Ok(directory.context("no target directory")?.into())
    }
}
