//! Checks of the repository as a whole, each of which has once been a real mistake somewhere.
//!
//! A check is a function from a [`Tree`] to findings, so that a test can hand it a made-up tree and
//! prove that the check can fail.

mod adr;
mod book;
mod calls;
mod changelog;
mod dead_files;
mod doc_openers;
mod document_paths;
mod functions;
mod generated;
mod interface;
mod items;
mod layering;
mod length;
mod links;
mod markers;
mod names;
mod phrases;
mod prose;
mod ratchet;
mod reference;
mod requirements;
mod rust_source;
mod sentences;
mod tree;
mod words;

use anyhow::{Result, bail};

pub(crate) use dead_files::MACRO_DECLARED;
pub(crate) use generated::generate;
use ratchet::place_of;
use tree::Tree;
pub(crate) use tree::has_extension;

use crate::workspace::Workspace;

/// The targets of a Markdown text's links, with their line numbers.
pub(crate) fn links_of(text: &str) -> Vec<(usize, String)> {
    links::links(text)
}

/// The path from the repository's root of a link from the file `path`; `None` above the root.
pub(crate) fn resolved(path: &str, target: &str) -> Option<String> {
    tree::normalised(&tree::join(tree::parent(path), target))
}

/// Something to correct, and where.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    /// Path from the repository's root.
    path: String,
    /// Line counted from 1, where the finding has one.
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
            path: path.to_owned(),
            line: Some(line),
            message: message.into(),
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
    ("layering", layering::check),
    ("dead files", dead_files::check),
    ("file length", length::check),
    ("links", links::check),
    ("document paths", document_paths::check),
    ("book", book::check),
    ("markers", markers::check),
    ("words", words::check),
    ("doc comments", doc_openers::check),
    ("phrases", phrases::check),
    ("sentences", sentences::check),
    ("names", names::check),
    ("calls", calls::check),
    ("functions", functions::check),
    ("interface", interface::check),
    ("decision records", adr::check),
    ("changelog", changelog::check),
    ("requirements", requirements::check),
];

/// The check that builds and runs the command line.
const GENERATED: &str = "generated documents";

/// Findings of one check printed for one place, unless the check was named.
const PRINTED_MAX: usize = 11;

/// Runs the checks named, or all, and prints the findings; `false` where there are some.
///
/// Names are those in the output, with hyphens instead of spaces. All findings of a check that was
/// named are printed; otherwise the first of each place.
pub(crate) fn run(workspace: &Workspace, names: &[String]) -> Result<bool> {
    let names: Vec<_> = names.iter().map(|name| name.replace('-', " ")).collect();
    let known = || CHECKS.iter().map(|(name, _)| *name).chain([GENERATED]);
    if let Some(name) = names
        .iter()
        .find(|name| known().all(|known| known != **name))
    {
        let known: Vec<_> = known().map(|name| name.replace(' ', "-")).collect();
        bail!("unknown check `{name}`; there are {}", known.join(", "));
    }
    let is_wanted = |name: &str| names.is_empty() || names.iter().any(|known| known == name);
    let most = if names.is_empty() {
        PRINTED_MAX
    } else {
        usize::MAX
    };
    let tree = Tree::load(&workspace.root)?;
    let mut failed = Vec::new();
    for (name, check) in CHECKS.iter().filter(|(name, _)| is_wanted(name)) {
        if !report(name, check(&tree), most) {
            failed.push(*name);
        }
    }
    if is_wanted(GENERATED) {
        // Figures repeat many runs: only where the check is named.
        let findings = generated::check(workspace, &tree, !names.is_empty())?;
        if !report(GENERATED, findings, most) {
            failed.push(GENERATED);
        }
    }
    if names.is_empty() {
        summary(&tree);
    }
    if !failed.is_empty() {
        println!("NOT ok: {}", failed.join(", "));
    }
    Ok(failed.is_empty())
}

fn summary(tree: &Tree) {
    println!("longest files: {}", length::longest(tree, 5).join(", "));
    println!(
        "most fields: {}",
        functions::most_fields(tree, 5).join(", ")
    );
    for line in requirements::summary(tree) {
        println!("{line}");
    }
}

fn report(name: &str, mut findings: Vec<Finding>, most: usize) -> bool {
    findings.sort();
    for of_place in findings.chunk_by(|a, b| place_of(&a.path) == place_of(&b.path)) {
        for finding in of_place.iter().take(most) {
            println!("{finding}");
        }
        let left = of_place.len().saturating_sub(most);
        if left > 0 {
            let check = name.replace(' ', "-");
            println!("... and {left} more; `cargo xtask tidy {check}` prints all");
        }
    }
    println!(
        "{name}: {}",
        if findings.is_empty() { "ok" } else { "NOT ok" }
    );
    findings.is_empty()
}
