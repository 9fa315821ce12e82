//! Generated documents are up to date: `xtask/documents.toml` lists them.

use std::{
    fs,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    path::PathBuf,
    process::Command,
    time::Instant,
};

use anyhow::{Context, Result, ensure};

use super::{Finding, Tree, has_extension};
use crate::{process, suite, workspace::Workspace};

/// A committed file, and the program and arguments that print it.
struct Document {
    path: String,
    program: String,
    arguments: Vec<String>,
}

impl Document {
    /// Reads the words of a line: arguments of `carob`, unless the first names `carob-studies` or a Python script.
    fn read(path: &str, line: &str) -> Self {
        let mut arguments = words(line);
        let program = match arguments.first() {
            Some(first) if first == "carob-studies" => arguments.remove(0),
            Some(first) if has_extension(first, "py") => PYTHON.to_owned(),
            _ => "carob".to_owned(),
        };
        Self {
            path: path.to_owned(),
            program,
            arguments,
        }
    }
}

const PYTHON: &str = "python3";

/// The documents that git has.
fn documents() -> Result<Vec<Document>> {
    let mut table: toml::Table = include_str!("../../documents.toml").parse()?;
    table.remove("site");
    read(&table)
}

/// The documents that are made when the site is built.
fn site_documents() -> Result<Vec<Document>> {
    let table: toml::Table = include_str!("../../documents.toml").parse()?;
    let site = table.get("site").and_then(toml::Value::as_table);
    read(site.context("documents.toml has no [site]")?)
}

fn read(table: &toml::Table) -> Result<Vec<Document>> {
    let document = |(path, arguments): (&String, &toml::Value)| {
        let arguments = arguments.as_str().context("arguments are one string")?;
        Ok(Document::read(path, arguments))
    };
    table.iter().map(document).collect()
}

/// Paths of the documents that are made when the site is built.
pub(super) fn site_paths() -> Vec<String> {
    let documents = site_documents().expect("a valid list");
    documents.into_iter().map(|one| one.path).collect()
}

/// The words of a line; a word in single quotes may have spaces.
fn words(line: &str) -> Vec<String> {
    let parts = line.split('\'').enumerate().flat_map(|(index, part)| {
        let plain = index % 2 == 0;
        let words = part.split(' ').filter(|word| !word.is_empty());
        let words: Vec<_> = if plain { words.collect() } else { vec![part] };
        words
    });
    parts.map(str::to_owned).collect()
}

/// Compares all documents, figures of runs only on request. Nothing is done if no file of the repository has changed
/// since the last comparison without findings.
pub(super) fn check(
    workspace: &Workspace,
    tree: &Tree,
    with_figures: bool,
) -> Result<Vec<Finding>> {
    let mut hasher = DefaultHasher::new();
    (&tree.files, with_figures).hash(&mut hasher);
    let stamp = hasher.finish().to_string();
    let stamp_file = workspace.target()?.join("generated-documents");
    if fs::read_to_string(&stamp_file).is_ok_and(|known| known == stamp) {
        println!("no file has changed since the last comparison of generated documents");
        return Ok(Vec::new());
    }
    let mut findings = Vec::new();
    build(workspace)?;
    for document in documents()? {
        if with_figures || !has_extension(&document.path, "svg") {
            let fresh = contents(workspace, &document)?;
            findings.extend(compare(&document.path, tree, &fresh));
        }
    }
    if findings.is_empty() {
        fs::write(stamp_file, stamp)?;
    }
    Ok(findings)
}

/// Rewrites the generated documents with one of `parts` in their path, or all.
pub(crate) fn generate(workspace: &Workspace, parts: &[String]) -> Result<()> {
    let is_selected = |path: &str| parts.is_empty() || parts.iter().any(|part| path.contains(part));
    let mut documents = documents()?;
    documents.extend(site_documents()?);
    documents.retain(|document| is_selected(&document.path));
    ensure!(
        !documents.is_empty(),
        "no generated document has {} in its path",
        parts.join(" or ")
    );
    if documents.iter().any(|document| document.program != PYTHON) {
        build(workspace)?;
    }
    for document in documents {
        write(workspace, &document.path, &contents(workspace, &document)?)?;
    }
    Ok(())
}

/// Writes the documents of the site.
pub(crate) fn generate_site(workspace: &Workspace) -> Result<()> {
    build(workspace)?;
    for document in site_documents()? {
        write(workspace, &document.path, &contents(workspace, &document)?)?;
    }
    Ok(())
}

fn write(workspace: &Workspace, path: &str, text: &str) -> Result<()> {
    let file = workspace.root.join(path);
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(file, text).with_context(|| format!("cannot write {path}"))
}

/// Builds the programs as the tests need them, so that nothing is compiled twice.
fn build(workspace: &Workspace) -> Result<()> {
    let built = suite::build_tests(workspace)?;
    ensure!(built.is_some(), "the programs do not build");
    Ok(())
}

/// Runs the document's program and returns its output.
fn contents(workspace: &Workspace, document: &Document) -> Result<String> {
    let start = Instant::now();
    let mut program = PathBuf::from(&document.program);
    if document.program != PYTHON {
        program = workspace.target()?.join("debug").join(program);
    }
    let mut command = Command::new(program);
    command.args(&document.arguments);
    let text = process::output(command.current_dir(&workspace.root))?;
    println!("{} ({:.1} s)", document.path, start.elapsed().as_secs_f64());
    Ok(text)
}

fn compare(path: &str, tree: &Tree, fresh: &str) -> Option<Finding> {
    let committed = tree.text(path).unwrap_or_default();
    let same = committed.lines().zip(fresh.lines());
    let same = same.take_while(|(old, new)| old == new).count();
    let finding = Finding::at_line(path, same + 1, "stale; run `cargo xtask generate`");
    (committed != fresh).then_some(finding)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_is_valid_and_quotes_group_words() {
        assert!(!documents().expect("a valid list").is_empty());
        assert_eq!(words("a 'b c'  d"), ["a", "b c", "d"]);
    }

    #[test]
    fn stale_and_missing_documents_are_found() {
        let tree = Tree::of(&[("a.md", "x\ny\n"), ("b.md", "x\n")]);
        assert_eq!(compare("a.md", &tree, "x\ny\n"), None);
        for path in ["a.md", "b.md"] {
            let finding = compare(path, &tree, "x\nz\n").expect("it differs");
            assert_eq!(finding.line, Some(2));
        }
        assert!(compare("c.md", &tree, "x").is_some());
    }
}
