//! The crates that `cargo xtask quick` looks at.

use std::{collections::BTreeSet, fs, process::Command};

use anyhow::{Result, bail};

use crate::{process, workspace::Workspace};

/// Package names: of the crates named, or of those with changes since the last commit.
///
/// # Errors
/// When a name is no crate's, or nothing is named and nothing changed.
pub(super) fn select(workspace: &Workspace, names: &[String]) -> Result<Vec<String>> {
    let known = folders(workspace)?;
    let mut chosen = BTreeSet::new();
    for name in names {
        let folder = name.strip_prefix("carob-").unwrap_or(name);
        if !known.contains(folder) {
            let known: Vec<_> = known.iter().map(String::as_str).collect();
            bail!(
                "no crate is called `{name}`; there are {}",
                known.join(", ")
            );
        }
        chosen.insert(package(folder));
    }
    if names.is_empty() {
        let mut status = Command::new("git");
        status.args(["status", "--porcelain", "--untracked-files=all"]);
        let status = process::output(status.current_dir(&workspace.root))?;
        chosen = changed(&status, &known);
        if chosen.is_empty() {
            bail!("no crate has uncommitted changes; name one: `cargo xtask quick proto`");
        }
    }
    Ok(chosen.into_iter().collect())
}

fn folders(workspace: &Workspace) -> Result<BTreeSet<String>> {
    let mut folders = BTreeSet::from(["xtask".to_owned()]);
    for entry in fs::read_dir(workspace.root.join("crates"))? {
        folders.insert(entry?.file_name().to_string_lossy().into_owned());
    }
    Ok(folders)
}

fn package(folder: &str) -> String {
    match folder {
        "carob" | "xtask" => folder.to_owned(),
        other => format!("carob-{other}"),
    }
}

/// The packages with files in the output of `git status --porcelain`.
fn changed(status: &str, known: &BTreeSet<String>) -> BTreeSet<String> {
    let mut packages = BTreeSet::new();
    for line in status.lines() {
        let path = line.get(3..).unwrap_or_default();
        let path = path.rsplit(" -> ").next().unwrap_or(path);
        let path = path.strip_prefix("crates/").unwrap_or(path);
        let folder = path.split('/').next().unwrap_or_default();
        if known.contains(folder) {
            packages.insert(package(folder));
        }
    }
    packages
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_crates_are_read_from_git_s_status() {
        let known = ["proto", "carob", "xtask"].map(str::to_owned).into();
        let status = " M crates/proto/src/lib.rs\n?? crates/carob/src/new.rs\n\
            R  crates/proto/a.rs -> xtask/src/a.rs\n M README.md\n";
        let expected = ["carob", "carob-proto", "xtask"].map(str::to_owned);
        assert_eq!(changed(status, &known), expected.into());
        assert!(changed(" M README.md\n", &known).is_empty());
    }

    #[test]
    fn an_unknown_crate_is_an_error_that_lists_the_known_ones() {
        let workspace = Workspace::find().expect("the workspace is there");
        let error = select(&workspace, &["protto".to_owned()]).expect_err("no such crate");
        assert!(error.to_string().contains("proto"), "{error}");
        let both = ["carob-proto".to_owned(), "proto".to_owned()];
        let selected = select(&workspace, &both).expect("both are one crate");
        assert_eq!(selected, ["carob-proto"]);
    }
}
