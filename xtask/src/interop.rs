//! The tests with other implementations, and the tables of their results in the documents.

use std::{fs, path::PathBuf};

use anyhow::{Context, Result};

use crate::{
    peers,
    suite::{
        self, Outcome, Tally,
        binaries::{self, Variable},
    },
    workspace::Workspace,
};

/// A document with a table, and the variable with the path where tests write it.
struct Document {
    path: &'static str,
    variable: &'static str,
    /// Its name in the lines around the table.
    name: &'static str,
}

const DOCUMENTS: &[Document] = &[
    Document {
        path: "docs/evidence/interoperability.md",
        variable: "CAROB_INTEROP_TABLE",
        name: "table",
    },
    Document {
        path: "docs/evidence/interoperability.md",
        variable: "CAROB_STREAMS_TABLE",
        name: "connections",
    },
    Document {
        path: "crates/cli/tests/it/plugtest/README.md",
        variable: "CAROB_PLUGTEST_TABLE",
        name: "table",
    },
];

/// The binary with these tests.
const TESTS: &str = "carob-cli it";

/// Lines of a document around the table of this name.
fn lines(name: &str) -> [String; 2] {
    ["begin", "end"].map(|place| format!("<!-- {name}: {place} -->\n"))
}

/// Runs the tests and compares their tables with the documents.
///
/// # Errors
/// When the tests cannot be started, or a document has no place for its table.
pub(crate) fn check(workspace: &Workspace, tally: &mut Tally) -> Result<Outcome> {
    run(workspace, false, tally)
}

/// Runs the tests and writes their tables into the documents.
///
/// # Errors
/// As [`check`], or when a document cannot be written.
pub(crate) fn update(workspace: &Workspace) -> Result<Outcome> {
    run(workspace, true, &mut Tally::default())
}

fn run(workspace: &Workspace, update: bool, tally: &mut Tally) -> Result<Outcome> {
    let mut tables = Vec::new();
    for document in DOCUMENTS {
        let table = table_file(workspace, document)?;
        if table.exists() {
            fs::remove_file(&table)?;
        }
        tables.push((document, table));
    }
    let Some(built) = suite::build_tests(workspace)? else {
        return Ok(Outcome::Failed);
    };
    let binary = binaries::find(built, TESTS)?;
    // The tests mostly wait for timers, so 12 run side by side.
    let arguments = [suite::INTEROP_PREFIX, "--test-threads", "12"];
    let variables: Vec<Variable<'_>> = tables
        .iter()
        .map(|(document, table)| (document.variable, table.as_path()))
        .collect();
    let (success, tests) = binaries::run(vec![binary], &arguments, &variables)?;
    tally.add(tests);
    if !success {
        return Ok(Outcome::Failed);
    }
    let missing = peers::missing(workspace);
    if !missing.is_empty() {
        let names = missing.join(", ");
        let note = format!("without {names} (install: cargo xtask peers)");
        return Ok(Outcome::PassedExcept(note));
    }
    let mut outcome = Outcome::Passed;
    for (document, table) in tables {
        let fresh = fs::read_to_string(&table)
            .with_context(|| format!("no table in {}", table.display()))?;
        if !is_current(workspace, document, &fresh, update)? {
            outcome = Outcome::Failed;
        }
    }
    Ok(outcome)
}

/// Where the tests write a document's table.
fn table_file(workspace: &Workspace, document: &Document) -> Result<PathBuf> {
    Ok(workspace
        .target()?
        .join(format!("{}.md", document.variable)))
}

/// Compares the table with the document's, or writes it when it is to be updated. Returns true if
/// they are equal afterwards.
fn is_current(
    workspace: &Workspace,
    document: &Document,
    fresh: &str,
    update: bool,
) -> Result<bool> {
    let name = document.path;
    let path = workspace.root.join(name);
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {name}"))?;
    let wanted = with_table(&text, document.name, fresh)
        .with_context(|| format!("{name} has no lines {:?}", lines(document.name)))?;
    if text == wanted {
        return Ok(true);
    }
    if update {
        fs::write(&path, wanted).with_context(|| format!("cannot write {name}"))?;
        println!("{name}: the table is new; are the date and the text still right?");
        return Ok(true);
    }
    println!("{name}: the table is stale; `cargo xtask interop` rewrites it");
    Ok(false)
}

/// The document with another table between the two lines of this name.
fn with_table(document: &str, name: &str, table: &str) -> Option<String> {
    let [begin, end] = lines(name);
    let (before, rest) = document.split_once(&begin)?;
    let (_, after) = rest.split_once(&end)?;
    Some(format!("{before}{begin}\n{}\n\n{end}{after}", table.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_between_the_lines_is_replaced() {
        let [begin, end] = lines("this");
        let [other, same] = lines("that");
        let document = format!("{other}old\n{same}{begin}\nold\n\n{end}b\n");
        let new = with_table(&document, "this", "new\n").expect("both lines are there");
        let wanted = format!("{other}old\n{same}{begin}\nnew\n\n{end}b\n");
        assert_eq!(new, wanted);
        assert_eq!(with_table(&new, "this", "new\n"), Some(new.clone()));
    }

    #[test]
    fn a_document_without_the_lines_is_left_alone() {
        assert_eq!(with_table("a\nb\n", "this", "new"), None);
    }
}
