//! Facts that several documents of a release state: version, licence, date.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::workspace::Workspace;

/// Files that a public repository is expected to have.
const FILES: &[&str] = &[
    "README.md",
    "CHANGELOG.md",
    "CITATION.cff",
    "CODE_OF_CONDUCT.md",
    "CONTRIBUTING.md",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "SECURITY.md",
    ".github/ISSUE_TEMPLATE/bug.yml",
    ".github/ISSUE_TEMPLATE/config.yml",
    ".github/ISSUE_TEMPLATE/controller.yml",
    ".github/ISSUE_TEMPLATE/feature.yml",
];

/// The workspace's version.
pub(super) fn version(workspace: &Workspace) -> Result<String> {
    let manifest: toml::Table = read(&workspace.root.join("Cargo.toml"))?.parse()?;
    let version = manifest["workspace"]["package"]["version"].as_str();
    Ok(version.context("no version in Cargo.toml")?.to_owned())
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Problems of the documents, a sentence each; none if they agree.
pub(super) fn problems(workspace: &Workspace) -> Result<Vec<String>> {
    let version = version(workspace)?;
    let root = &workspace.root;
    let mut problems: Vec<String> = (FILES.iter())
        .filter(|file| !root.join(file).is_file())
        .map(|file| format!("{file} is missing"))
        .collect();
    if let Ok(text) = read(&root.join("CITATION.cff")) {
        problems.extend(citation(&text, &version));
    }
    for (file, needed) in [
        ("SECURITY.md", "Supported versions"),
        ("SECURITY.md", "Report"),
        ("README.md", "CITATION.cff"),
        ("CONTRIBUTING.md", "release-check"),
    ] {
        if read(&root.join(file)).is_ok_and(|text| !text.contains(needed)) {
            problems.push(format!("{file} does not mention \"{needed}\""));
        }
    }
    Ok(problems)
}

/// Problems of a citation file (Citation File Format 1.2.0): fields that are required, and those that
/// repeat a fact of the workspace.
fn citation(text: &str, version: &str) -> Vec<String> {
    let field = |name: &str| {
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.map(|value| value.trim().trim_matches('"').to_owned())
    };
    let mut problems: Vec<String> = ["message", "title", "authors"]
        .into_iter()
        .filter(|name| field(name).is_none())
        .map(|name| format!("CITATION.cff has no {name}"))
        .collect();
    for (name, expected) in [
        ("cff-version", "1.2.0"),
        ("type", "software"),
        ("version", version),
    ] {
        let found = field(name).unwrap_or_default();
        if found != expected {
            problems.push(format!(
                "CITATION.cff: {name} is \"{found}\", expected \"{expected}\""
            ));
        }
    }
    problems
}

/// The changelog's heading of this version, which only a release has.
pub(super) fn has_heading(workspace: &Workspace) -> Result<bool> {
    let heading = format!("## [{}]", version(workspace)?);
    let changelog = read(&workspace.root.join("CHANGELOG.md"))?;
    Ok(changelog.lines().any(|line| line.starts_with(&heading)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documents_of_the_repository_agree() {
        let workspace = Workspace::find().unwrap();
        assert_eq!(problems(&workspace).unwrap(), Vec::<String>::new());
    }

    #[test]
    fn a_citation_of_another_version_is_a_problem() {
        let text = "cff-version: 1.2.0\nmessage: \"m\"\ntitle: t\ntype: software\nversion: 0.0.9\n";
        assert_eq!(
            citation(text, "0.1.0"),
            [
                "CITATION.cff has no authors",
                "CITATION.cff: version is \"0.0.9\", expected \"0.1.0\""
            ]
        );
    }
}
