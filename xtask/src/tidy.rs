//! Checks of the repository as a whole. A check is a function from a [`Tree`] to findings.

mod book;
mod crates;
mod files;
mod generated;
mod links;
mod requirements;

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::{Context, Result, bail};

pub(crate) use files::MACRO_DECLARED;
pub(crate) use generated::{generate, generate_site};

use crate::workspace::Workspace;

/// The path from the repository's root of a link in the file `path`; `None` above the root.
fn resolved(path: &str, target: &str) -> Option<String> {
    normalised(&join(parent(path), target))
}

/// A place and its problem.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    /// Path from the repository's root.
    path: String,
    /// Line counted from 1.
    line: Option<usize>,
    /// The problem and its remedy.
    message: String,
}

impl Finding {
    fn in_file(path: &str, message: impl Into<String>) -> Self {
        Self {
            path: path.to_owned(),
            line: None,
            message: message.into(),
        }
    }

    fn at_line(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self {
            line: Some(line),
            ..Self::in_file(path, message)
        }
    }
}

impl core::fmt::Display for Finding {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.path, self.message),
            None => write!(f, "{}: {}", self.path, self.message),
        }
    }
}

type Check = fn(&Tree) -> Vec<Finding>;

const CHECKS: &[(&str, Check)] = &[
    ("files", files::check),
    ("links", links::check),
    ("book", book::check),
    ("changelog", changelog),
    ("citation", citation),
    ("requirements", requirements::check),
    ("fuzz", fuzz),
];
/// Check of dependencies; it runs `cargo metadata`.
const CRATES: &str = "crates";
/// Check of generated documents; it builds and runs `carob`.
const GENERATED: &str = "generated-documents";

/// Runs the named checks, or all, and prints the findings. Returns true if there are none.
pub(crate) fn run(workspace: &Workspace, names: &[String]) -> Result<bool> {
    let known: Vec<_> = CHECKS.iter().map(|(name, _)| *name).collect();
    let known = [&known[..], &[CRATES, GENERATED]].concat();
    if let Some(name) = names.iter().find(|name| !known.contains(&name.as_str())) {
        bail!("unknown check `{name}`; there are {}", known.join(", "));
    }
    let is_selected = |name: &str| names.is_empty() || names.iter().any(|known| known == name);
    let tree = Tree::load(&workspace.root)?;
    let mut success = true;
    for (name, check) in CHECKS.iter().filter(|(name, _)| is_selected(name)) {
        success &= report(name, check(&tree));
    }
    if is_selected(CRATES) {
        success &= report(CRATES, crates::check(&workspace.metadata()?));
    }
    if is_selected(GENERATED) {
        // Figures repeat many runs, so they are checked by name only.
        let findings = generated::check(workspace, &tree, !names.is_empty())?;
        success &= report(GENERATED, findings);
    }
    Ok(success)
}

fn report(name: &str, mut findings: Vec<Finding>) -> bool {
    findings.sort();
    for finding in &findings {
        println!("{finding}");
    }
    let word = if findings.is_empty() { "ok" } else { "NOT ok" };
    println!("{name}: {word}");
    findings.is_empty()
}

/// Checks that the changelog begins with a section for the next release.
fn changelog(tree: &Tree) -> Vec<Finding> {
    const FILE: &str = "CHANGELOG.md";
    let text = tree.text(FILE).unwrap_or_default();
    let first = text.lines().find(|line| line.starts_with("## "));
    if first.is_some_and(|heading| heading.starts_with("## [Unreleased]")) {
        return Vec::new();
    }
    let message = "the first section must be `## [Unreleased]`";
    vec![Finding::in_file(FILE, message)]
}

/// Checks that the citation file has the version of the workspace.
fn citation(tree: &Tree) -> Vec<Finding> {
    const FILE: &str = "CITATION.cff";
    let manifest = tree.text("Cargo.toml").unwrap_or_default();
    let version = manifest.lines().find_map(|line| {
        let version = line.strip_prefix("version = \"")?;
        version.strip_suffix('"')
    });
    let expected = format!("version: {}", version.unwrap_or_default());
    let mut lines = tree.text(FILE).unwrap_or_default().lines();
    if lines.any(|line| line == expected) {
        return Vec::new();
    }
    vec![Finding::in_file(FILE, format!("no line `{expected}`"))]
}

/// Checks that every fuzz target has an entry in the manifest, a line in the list, and a corpus.
fn fuzz(tree: &Tree) -> Vec<Finding> {
    // Their inputs are sequences of steps.
    const WITHOUT_CORPUS: [&str; 2] = ["controllers", "stream"];
    let has = |file: &str, text: String| tree.text(file).is_some_and(|of| of.contains(&text));
    let mut findings = Vec::new();
    for (path, _) in tree.texts_of("rs") {
        let name = path.strip_prefix("fuzz/fuzz_targets/");
        let Some(name) = name.and_then(|name| name.strip_suffix(".rs")) else {
            continue;
        };
        let is_complete = has("fuzz/Cargo.toml", format!("name = \"{name}\""))
            && has("fuzz/README.md", format!("| `{name}` |"))
            && tree.has_file(&format!("vectors/corpus/{name}.bin"))
                != WITHOUT_CORPUS.contains(&name);
        if !is_complete {
            let message = "not in fuzz/Cargo.toml and fuzz/README.md, or without corpus";
            findings.push(Finding::in_file(path, message));
        }
    }
    findings
}

/// The repository's files by path from the root, with the text of those that are UTF-8. Symbolic
/// links have no text.
#[derive(Debug, Default)]
struct Tree {
    files: BTreeMap<String, Option<String>>,
    /// Target of each symbolic link.
    links: BTreeMap<String, String>,
}

impl Tree {
    /// Reads the files that git tracks or would track.
    fn load(root: &Path) -> Result<Self> {
        let mut tree = Self::default();
        for name in Workspace::files(root)? {
            let path = root.join(&name);
            let mut text = None;
            if let Ok(target) = fs::read_link(&path) {
                let target = resolved(&name, &target.to_string_lossy()).unwrap_or_default();
                tree.links.insert(name.clone(), target);
            } else {
                let bytes = fs::read(&path);
                let bytes = bytes.with_context(|| format!("cannot read {}", path.display()))?;
                text = String::from_utf8(bytes).ok();
            }
            tree.files.insert(name, text);
        }
        Ok(tree)
    }

    #[cfg(test)]
    fn of(files: &[(&str, &str)]) -> Self {
        let owned = |(path, text): &(&str, &str)| ((*path).to_owned(), Some((*text).to_owned()));
        Self {
            files: files.iter().map(owned).collect(),
            links: BTreeMap::new(),
        }
    }

    fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path)?.as_deref()
    }

    fn has_file(&self, path: &str) -> bool {
        self.files.contains_key(path)
    }

    fn has_directory(&self, path: &str) -> bool {
        let prefix = format!("{path}/");
        path.is_empty() || self.files.keys().any(|file| file.starts_with(&prefix))
    }

    /// Every text file, in path order.
    fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        let files = self.files.iter();
        files.filter_map(|(path, text)| Some((path.as_str(), text.as_deref()?)))
    }

    /// The text files with this extension.
    fn texts_of(&self, extension: &str) -> impl Iterator<Item = (&str, &str)> {
        self.texts()
            .filter(move |(path, _)| has_extension(path, extension))
    }
}

/// `path` with `.` and `..` resolved; `None` above the root.
fn normalised(path: &str) -> Option<String> {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

/// Returns true if the file's name ends in `.extension`, in exactly this case.
fn has_extension(path: &str, extension: &str) -> bool {
    path.rsplit_once('.')
        .is_some_and(|(_, found)| found == extension)
}

/// Everything before the last `/`, or nothing.
fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

fn join(directory: &str, name: &str) -> String {
    if directory.is_empty() {
        name.to_owned()
    } else {
        format!("{directory}/{name}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changelog_without_unreleased_section_is_found() {
        let check = |text| changelog(&Tree::of(&[("CHANGELOG.md", text)])).len();
        assert_eq!(check("# Changelog\n\n## [Unreleased]\n\n## [0.1.0]\n"), 0);
        assert_eq!(check("# Changelog\n\n## [0.1.0]\n\n## [Unreleased]\n"), 1);
        assert_eq!(changelog(&Tree::default()).len(), 1);
    }

    #[test]
    fn citation_of_another_version_is_found() {
        let manifest = ("Cargo.toml", "[workspace.package]\nversion = \"0.2.0\"\n");
        let check = |text| citation(&Tree::of(&[manifest, ("CITATION.cff", text)])).len();
        assert_eq!(check("cff-version: 1.2.0\nversion: 0.2.0\n"), 0);
        assert_eq!(check("cff-version: 1.2.0\nversion: 0.1.0\n"), 1);
    }

    #[test]
    fn incomplete_fuzz_targets_are_found() {
        let mut files = vec![
            ("fuzz/fuzz_targets/uri.rs", ""),
            ("fuzz/Cargo.toml", "name = \"uri\""),
            ("fuzz/README.md", "| `uri` | text |"),
        ];
        assert_eq!(fuzz(&Tree::of(&files)).len(), 1);
        files.push(("vectors/corpus/uri.bin", ""));
        assert_eq!(fuzz(&Tree::of(&files)).len(), 0);
    }

    #[test]
    fn paths_above_the_root_have_no_normal_form() {
        assert_eq!(normalised("a/./b/../c"), Some("a/c".to_owned()));
        assert_eq!(normalised("a/../../c"), None);
    }
}
