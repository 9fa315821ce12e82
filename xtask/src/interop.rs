//! The tests with other implementations, and the table of their results in the documents.

use std::fs;

use anyhow::{Context, Result};

use crate::{peers, process, steps::Outcome, workspace::Workspace};

const DOCUMENT: &str = "docs/interoperability.md";
/// The lines of the document between which the table stands.
const BEGIN: &str = "<!-- table: begin -->\n";
const END: &str = "<!-- table: end -->\n";

/// Runs the tests and holds the document's table against what they found.
///
/// # Errors
/// When the tests cannot be started, or the document has no place for the table.
pub(crate) fn check(workspace: &Workspace) -> Result<Outcome> {
    run(workspace, false)
}

/// Runs the tests and writes what they found into the document.
///
/// # Errors
/// As [`check`], or when the document cannot be written.
pub(crate) fn update(workspace: &Workspace) -> Result<Outcome> {
    run(workspace, true)
}

fn run(workspace: &Workspace, update: bool) -> Result<Outcome> {
    let table = workspace.target()?.join("interop-table.md");
    if table.exists() {
        fs::remove_file(&table)?;
    }
    let mut command = process::cargo();
    command.env("CAROB_INTEROP_TABLE", &table);
    // The lossy transfers mostly wait for retransmission timers, so many run side by side.
    command.args(["test", "--package", "carob-cli", "--test", "interop"]);
    command.args(["--", "--test-threads", "12"]);
    if !process::succeeds(command.current_dir(&workspace.root))? {
        return Ok(Outcome::Failed);
    }
    let missing = peers::missing(workspace);
    if !missing.is_empty() {
        let names = missing.join(", ");
        let note = format!("without {names} (install: cargo xtask peers)");
        return Ok(Outcome::PassedExcept(note));
    }
    let fresh =
        fs::read_to_string(&table).with_context(|| format!("no table in {}", table.display()))?;
    let path = workspace.root.join(DOCUMENT);
    let document = fs::read_to_string(&path).with_context(|| format!("cannot read {DOCUMENT}"))?;
    let wanted = with_table(&document, &fresh)
        .with_context(|| format!("{DOCUMENT} has no lines {BEGIN:?} and {END:?}"))?;
    if document == wanted {
        return Ok(Outcome::Passed);
    }
    if update {
        fs::write(&path, wanted).with_context(|| format!("cannot write {DOCUMENT}"))?;
        println!("{DOCUMENT}: the table is new; are the date and the text still right?");
        return Ok(Outcome::Passed);
    }
    println!("{DOCUMENT}: the table is stale; `cargo xtask interop` rewrites it");
    Ok(Outcome::Failed)
}

/// The document with another table between its two lines.
fn with_table(document: &str, table: &str) -> Option<String> {
    let (before, rest) = document.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n{}\n\n{END}{after}", table.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_stands_between_the_lines_is_replaced() {
        let document = format!("a\n{BEGIN}\nold\n\n{END}b\n");
        let new = with_table(&document, "new\n").expect("both lines are there");
        assert_eq!(new, document.replace("old", "new"));
        assert_eq!(with_table(&new, "new\n"), Some(new.clone()));
    }

    #[test]
    fn a_document_without_the_lines_is_left_alone() {
        assert_eq!(with_table("a\nb\n", "new"), None);
    }
}
