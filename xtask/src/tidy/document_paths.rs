//! Paths of Markdown documents in comments, strings and inline code name files and headings of
//! the repository, and so do paths of source files in inline code. Links of Markdown files are the
//! subject of [`super::links`].

use super::{
    Finding, links,
    tree::{Tree, has_extension, join, parent},
};

/// Folders whose tests make up paths.
const MADE_UP: &[&str] = &["xtask/src/tidy/", "xtask/src/steps/book/"];

/// Extensions of source files, whose paths Markdown may cut short at the front.
const SOURCES: &[&str] = &["rs", "toml", "py"];

/// Documents that commands write and git ignores.
const WRITTEN: &[&str] = &["fuzz/results.md"];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.texts() {
        if MADE_UP.iter().any(|folder| path.starts_with(folder)) {
            continue;
        }
        let markdown = has_extension(path, "md");
        for (line, word) in words(text, markdown) {
            let file = word.split('#').next().unwrap_or(&word);
            let message = if has_extension(file, "md") {
                missing(tree, path, &word)
            } else if markdown && SOURCES.iter().any(|source| has_extension(file, source)) {
                missing_source(tree, file)
            } else {
                None
            };
            findings.extend(message.map(|message| Finding::at_line(path, line, message)));
        }
    }
    findings
}

/// Describes the error of a source file named in Markdown, if there is one.
fn missing_source(tree: &Tree, file: &str) -> Option<String> {
    let end = format!("/{file}");
    let found = tree.has_file(file) || tree.texts().any(|(path, _)| path.ends_with(&end));
    (!found).then(|| format!("`{file}` is not a file of the repository"))
}

/// Describes the error of `document`, named in the file `path`, if there is one.
fn missing(tree: &Tree, path: &str, document: &str) -> Option<String> {
    let (file, anchor) = match document.split_once('#') {
        Some((file, anchor)) => (file, Some(anchor)),
        None => (document, None),
    };
    if WRITTEN.contains(&file) {
        return None;
    }
    // Generated documents are written from `docs`.
    let mut folders = above(path).chain(["docs"]);
    let Some(found) = folders.find_map(|folder| {
        let candidate = join(folder, file);
        tree.has_file(&candidate).then_some(candidate)
    }) else {
        return Some(format!("`{file}` is not a file of the repository"));
    };
    let anchor = anchor?;
    let known = links::anchors(tree.text(&found)?).any(|heading| heading == anchor);
    (!known).then(|| format!("`{found}` has no heading `#{anchor}`"))
}

/// The folders above `path`, from its own to the root.
fn above(path: &str) -> impl Iterator<Item = &str> {
    let own = Some(parent(path));
    std::iter::successors(own, |folder| (!folder.is_empty()).then(|| parent(folder)))
}

/// Paths with a folder, and their anchors, with line numbers; in Markdown only those in inline
/// code.
fn words(text: &str, markdown: bool) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    if markdown {
        for (number, line) in links::prose(text) {
            // Every second part lies between backticks.
            for code in line.split('`').skip(1).step_by(2) {
                found.extend(paths(code).map(|word| (number, word)));
            }
        }
    } else {
        for (index, line) in text.lines().enumerate() {
            found.extend(paths(line).map(|word| (index + 1, word)));
        }
    }
    found
}

fn paths(text: &str) -> impl Iterator<Item = String> {
    let part_of_path =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | '#');
    text.split(move |c| !part_of_path(c)).filter_map(|word| {
        let word = word.trim_end_matches(['.', '#']);
        let file = word.split('#').next().unwrap_or(word);
        // A leading slash is the rest of a URL or of a path that is put together.
        let named = file.contains('/') && !file.starts_with(['/', '.', '-']);
        named.then(|| word.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(path: &str, text: &str) -> Vec<String> {
        let tree = Tree::of(&[
            (path, text),
            ("docs/a.md", "# One two\n"),
            ("src/results/b.md", ""),
        ]);
        check(&tree)
            .into_iter()
            .map(|finding| finding.to_string())
            .collect()
    }

    #[test]
    fn a_comment_may_name_documents_and_headings_that_exist() {
        let text = "//! `docs/a.md#one-two`, and docs/a.md. results/b.md, fuzz/results.md\n\
                    // https://example.org/x/y.md {folder}/z.md self.md a.md\n";
        assert!(messages("src/x/lib.rs", text).is_empty());
    }

    #[test]
    fn a_document_that_does_not_exist_is_found_with_its_line() {
        assert_eq!(
            messages("src/lib.rs", "\n//! `docs/b.md` 3.1"),
            ["src/lib.rs:2: `docs/b.md` is not a file of the repository"]
        );
        assert_eq!(messages("a.toml", "source = \"x; docs/b.md#y\"").len(), 1);
    }

    #[test]
    fn a_heading_that_does_not_exist_is_found() {
        assert_eq!(
            messages("src/lib.rs", "// docs/a.md#three"),
            ["src/lib.rs:1: `docs/a.md` has no heading `#three`"]
        );
    }

    #[test]
    fn markdown_is_checked_in_inline_code_only() {
        let text = "see docs/b.md and [b](docs/b.md)\n```\ndocs/b.md\n```\n";
        assert!(messages("docs/c.md", text).is_empty());
        assert_eq!(
            messages("docs/c.md", "see `docs/b.md`"),
            ["docs/c.md:1: `docs/b.md` is not a file of the repository"]
        );
    }

    #[test]
    fn a_source_file_that_does_not_exist_is_found_in_markdown() {
        assert!(messages("src/x/lib.rs", "// gone/y.rs").is_empty());
        let text = "`x/lib.rs` `src/x/lib.rs:10` `a/b.bin` `{a,b}/c.rs` `x/gone.rs`";
        let tree = Tree::of(&[("src/x/lib.rs", ""), ("a.md", text)]);
        let found: Vec<_> = check(&tree).iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            ["a.md:1: `x/gone.rs` is not a file of the repository"]
        );
    }
}
