//! The book (`docs/book.toml`): every page is in the summary, Rust code is compiled by a documentation test, and
//! code blocks marked as the text of a file are equal to it.

use super::{Finding, Tree, links, resolved};

const SUMMARY: &str = "docs/SUMMARY.md";
/// Folders without documentation tests: they show code of the repository, or no longer current code.
const NOT_COMPILED: &[&str] = &["docs/adr/"];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let summary = links::links(tree.text(SUMMARY).unwrap_or_default());
    let listed: Vec<String> = summary
        .into_iter()
        .filter_map(|(_, target)| resolved(SUMMARY, target.split('#').next()?))
        .collect();
    let mut findings = Vec::new();
    for (path, text) in tree.texts_of("md") {
        if !path.starts_with("docs/") || path == SUMMARY {
            continue;
        }
        let count = listed.iter().filter(|page| *page == path).count();
        if count != 1 {
            let message = format!("listed {count} times in {SUMMARY}, not once");
            findings.push(Finding::in_file(path, message));
        }
        findings.extend(differing(tree, path, text));
        findings.extend(uncompiled(tree, path, text));
    }
    findings
}

/// Finds Rust code on a page to which no crate has a link that its `src/lib.rs` includes.
fn uncompiled(tree: &Tree, path: &str, text: &str) -> Option<Finding> {
    let line = text.lines().position(|line| line.starts_with("```rust"))?;
    if NOT_COMPILED.iter().any(|folder| path.starts_with(folder)) {
        return None;
    }
    let mut links = tree.links.iter().filter(|(_, target)| *target == path);
    let is_included = |(link, _): (&String, _)| {
        let (folder, page) = link.split_once("/pages/")?;
        let library = tree.text(&format!("{folder}/src/lib.rs"))?;
        let include = format!("include_str!(\"../pages/{page}\")");
        library.contains(&include).then_some(())
    };
    if links.any(|link| is_included(link).is_some()) {
        return None;
    }
    let message = "Rust code that no documentation test compiles; include the page in a `lib.rs`";
    Some(Finding::at_line(path, line + 1, message))
}

/// Finds code blocks after a line `<!-- text of FILE -->` that differ from the file.
fn differing(tree: &Tree, path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        let marked = line.strip_prefix("<!-- text of ");
        let Some(file) = marked.and_then(|rest| rest.strip_suffix(" -->")) else {
            continue;
        };
        let block = lines.by_ref().map(|(_, line)| line).skip(1);
        let block: Vec<&str> = block.take_while(|line| *line != "```").collect();
        let text = tree.text(file);
        if text.is_none_or(|text| !text.lines().eq(block.iter().copied())) {
            let message = format!("the code block is not the text of {file}");
            findings.push(Finding::at_line(path, index + 1, message));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(summary: &str, page: &str) -> Vec<String> {
        let files = [(SUMMARY, summary), ("docs/a.md", page), ("x.rs", "a\nb\n")];
        let tree = Tree::of(&files);
        let findings = check(&tree).into_iter();
        findings.map(|finding| finding.to_string()).collect()
    }

    #[test]
    fn pages_outside_the_summary_or_listed_twice_are_found() {
        assert_eq!(messages("- [A](a.md)", ""), [""; 0]);
        let none = "docs/a.md: listed 0 times in docs/SUMMARY.md, not once";
        assert_eq!(messages("", ""), [none]);
        assert_eq!(messages("- [A](a.md)\n- [A](a.md)", "").len(), 1);
    }

    #[test]
    fn code_blocks_that_differ_from_their_file_are_found() {
        let page = |code: &str| format!("<!-- text of x.rs -->\n```\n{code}```\n");
        assert_eq!(messages("[A](a.md)", &page("a\nb\n")), [""; 0]);
        let differs = "docs/a.md:1: the code block is not the text of x.rs";
        assert_eq!(messages("[A](a.md)", &page("a\n")), [differs]);
    }

    #[test]
    fn rust_code_without_documentation_test_is_found() {
        let page = "# A\n\n```rust,no_run\nfn f() {}\n```\n";
        assert!(messages("[A](a.md)", page)[0].starts_with("docs/a.md:3: Rust code"));
        let mut tree = Tree::of(&[("crates/x/src/lib.rs", "include_str!(\"../pages/c.md\")")]);
        let link = ("crates/x/pages/c.md".to_owned(), "docs/a.md".to_owned());
        tree.links.extend([link]);
        assert_eq!(uncompiled(&tree, "docs/a.md", page), None);
    }
}
