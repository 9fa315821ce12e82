//! Documents that were found fresh, with hashes of what they were made from and of what they say.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    path::PathBuf,
};

use anyhow::{Context, Result};

use super::{Document, Tree};
use crate::workspace::Workspace;

/// Inputs of the lab's documents: the simulator, the lab, its command, and their data.
const LAB: &[&str] = &[
    "Cargo.lock",
    "Cargo.toml",
    "crates/cc/src/",
    "crates/cli/src/args/",
    "crates/cli/src/commands/lab/",
    "crates/cli/src/printer/",
    "crates/lab/results/",
    "crates/lab/src/",
    "crates/studies/results/",
    "crates/studies/src/",
    "crates/proto/src/",
    "crates/sim/src/",
    "papers/",
    "scenarios/",
];
/// Further inputs of all other documents.
const OTHERS: &[&str] = &["crates/carob/src/", "crates/cli/src/", "crates/emu/src/"];

pub(super) struct Stamps {
    file: PathBuf,
    lab: u64,
    all: u64,
    /// Path, inputs and contents of each fresh document.
    known: BTreeSet<(String, u64, u64)>,
}

impl Stamps {
    /// Reads the stamps of this build directory; there are none in a new one.
    ///
    /// # Errors
    /// When the build directory cannot be found.
    pub(super) fn load(workspace: &Workspace, tree: &Tree) -> Result<Self> {
        let file = workspace.target()?.join("generated-documents");
        let known = fs::read_to_string(&file).unwrap_or_default();
        Ok(Self::of(file, &known, tree))
    }

    fn of(file: PathBuf, known: &str, tree: &Tree) -> Self {
        Self {
            file,
            lab: inputs(tree, &[LAB]),
            all: inputs(tree, &[LAB, OTHERS]),
            known: known.lines().filter_map(parse).collect(),
        }
    }

    /// Returns whether a document was found fresh before, with the same inputs and contents.
    pub(super) fn is_fresh(&self, document: &Document, committed: Option<&str>) -> bool {
        committed.is_some_and(|text| self.known.contains(&self.stamp(document, text)))
    }

    pub(super) fn add(&mut self, document: &Document, contents: &str) {
        self.known.insert(self.stamp(document, contents));
    }

    /// # Errors
    /// When the file cannot be written.
    pub(super) fn save(&self) -> Result<()> {
        // The latest stamp of each document with today's inputs is all that can be of use.
        let current = self
            .known
            .iter()
            .filter(|(_, inputs, _)| [self.lab, self.all].contains(inputs));
        let lines: BTreeMap<_, _> = current.map(|stamp| (&stamp.0, stamp)).collect();
        let mut text = String::new();
        for (path, inputs, contents) in lines.values() {
            writeln!(text, "{path} {inputs:016x} {contents:016x}")?;
        }
        fs::write(&self.file, text).with_context(|| format!("cannot write {}", self.file.display()))
    }

    fn stamp(&self, document: &Document, contents: &str) -> (String, u64, u64) {
        let inputs = match document.arguments.first() {
            Some(&"lab") => self.lab,
            _ => self.all,
        };
        let mut hasher = DefaultHasher::new();
        (document.arguments, document.is_narrow, contents).hash(&mut hasher);
        (document.path(), inputs, hasher.finish())
    }
}

fn parse(line: &str) -> Option<(String, u64, u64)> {
    let mut words = line.split(' ');
    let path = words.next()?.to_owned();
    let mut number = || u64::from_str_radix(words.next()?, 16).ok();
    Some((path, number()?, number()?))
}

fn inputs(tree: &Tree, folders: &[&[&str]]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for (path, text) in tree.texts() {
        let mut prefixes = folders.iter().copied().flatten();
        if prefixes.any(|prefix| path.starts_with(prefix)) {
            (path, text).hash(&mut hasher);
        }
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIGURE: Document = Document::new("docs/a.svg", &["lab", "run"]);
    const LIMITS: Document = Document::new("docs/limits.md", &["serve", "--limits"]);

    fn stamps(known: &str, files: &[(&str, &str)]) -> Stamps {
        Stamps::of(PathBuf::new(), known, &Tree::of(files))
    }

    #[test]
    fn a_document_is_fresh_until_it_or_an_input_changes() {
        let mut stamps_now = stamps("", &[("crates/sim/src/lib.rs", "a")]);
        assert!(!stamps_now.is_fresh(&FIGURE, Some("x")));
        stamps_now.add(&FIGURE, "x");
        assert!(stamps_now.is_fresh(&FIGURE, Some("x")));
        assert!(!stamps_now.is_fresh(&FIGURE, Some("y")));
        assert!(!stamps_now.is_fresh(&FIGURE, None));
        let mut changed = stamps("", &[("crates/sim/src/lib.rs", "b")]);
        changed.known = stamps_now.known;
        assert!(!changed.is_fresh(&FIGURE, Some("x")));
    }

    #[test]
    fn figures_of_the_lab_do_not_depend_on_the_stack() {
        let mut before = stamps("", &[("crates/carob/src/lib.rs", "a")]);
        before.add(&FIGURE, "x");
        before.add(&LIMITS, "x");
        let mut after = stamps("", &[("crates/carob/src/lib.rs", "b")]);
        after.known = before.known;
        assert!(after.is_fresh(&FIGURE, Some("x")));
        assert!(!after.is_fresh(&LIMITS, Some("x")));
    }

    #[test]
    fn a_damaged_line_is_no_stamp() {
        assert_eq!(parse("a.md 1f 2"), Some(("a.md".to_owned(), 0x1f, 2)));
        assert_eq!(parse("a.md 1f"), None);
        assert_eq!(parse("a.md x y"), None);
    }
}
