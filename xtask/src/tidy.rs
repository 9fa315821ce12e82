//! Checks of the repository as a whole, each of which has once been a real mistake somewhere.
//!
//! A check is a function from a [`Tree`] to findings, so that a test can hand it a made-up tree and
//! prove that the check can fail.

mod adr;
mod book;
mod changelog;
mod dead_files;
mod document_paths;
mod generated;
mod layering;
mod length;
mod links;
mod markers;
mod requirements;
mod rust_source;
mod tree;
mod words;

use anyhow::Result;

pub(crate) use dead_files::MACRO_DECLARED;
pub(crate) use generated::generate;
use tree::Tree;

use crate::workspace::Workspace;

/// Something to correct, and where.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    /// Path from the repository's root.
    path: String,
    /// Line counted from 1, where the finding has one.
    line: Option<usize>,
    /// What is wrong and what to do about it.
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
    ("decision records", adr::check),
    ("changelog", changelog::check),
    ("requirements", requirements::check),
];

/// Runs every check, prints the findings and says whether there were none.
pub(crate) fn run(workspace: &Workspace) -> Result<bool> {
    let tree = Tree::load(&workspace.root)?;
    let mut clean = true;
    for (name, check) in CHECKS {
        clean &= report(name, check(&tree));
    }
    clean &= report("generated documents", generated::check(workspace, &tree)?);
    let longest = length::longest(&tree, 5);
    println!("longest files: {}", longest.join(", "));
    for line in requirements::summary(&tree) {
        println!("{line}");
    }
    Ok(clean)
}

fn report(name: &str, mut findings: Vec<Finding>) -> bool {
    findings.sort();
    for finding in &findings {
        println!("{finding}");
    }
    println!(
        "{name}: {}",
        if findings.is_empty() { "ok" } else { "NOT ok" }
    );
    findings.is_empty()
}
