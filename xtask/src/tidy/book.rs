//! The book (`docs/book.toml`) has every page of `docs` in its summary. Pages of its own folders name
//! their reader, prerequisite and next page, and link within the book. Code blocks that are the text of a
//! file are equal to it.

use super::{
    Finding, links,
    tree::{Tree, join, normalised, parent},
};

const SUMMARY: &str = "docs/SUMMARY.md";

/// Folders and files of pages that are read one after the other.
const READ_IN_ORDER: &[&str] = &[
    "docs/introduction.md",
    "docs/faq.md",
    "docs/start/",
    "docs/tutorials/",
    "docs/cookbook/",
    "docs/operate/",
    "docs/concepts/",
    "docs/reference/",
    "docs/evidence/",
    "docs/migrate/",
];

/// Lines at the start of a page among which its reader and prerequisite are named.
const INTRODUCTION: usize = 6;

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let Some(summary) = tree.text(SUMMARY) else {
        return vec![Finding::in_file(SUMMARY, "missing")];
    };
    let listed: Vec<String> = links::links(summary)
        .into_iter()
        .filter_map(|(_, target)| resolved(SUMMARY, &target))
        .collect();
    let mut findings = Vec::new();
    for (path, text) in tree.texts_of("md") {
        if !path.starts_with("docs/") || path == SUMMARY {
            continue;
        }
        match listed.iter().filter(|page| *page == path).count() {
            1 => {}
            0 => findings.push(Finding::in_file(path, format!("not listed in {SUMMARY}"))),
            _ => findings.push(Finding::in_file(path, format!("listed twice in {SUMMARY}"))),
        }
        findings.extend(differing(tree, path, text));
        if READ_IN_ORDER.iter().any(|start| path.starts_with(start)) {
            findings.extend(leaving(path, text));
            findings.extend(unframed(path, text));
            findings.extend(uncompiled(tree, path, text));
        }
    }
    findings
}

/// Missing lines at the start and the end of a page.
fn unframed(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut start = text.lines().take(INTRODUCTION);
    if !start.clone().any(|line| line.starts_with("For ")) {
        findings.push(Finding::at_line(path, 3, "name the reader: `For ...`"));
    }
    if !start.any(|line| line.contains("rerequisite")) {
        findings.push(Finding::at_line(path, 3, "name the prerequisite"));
    }
    let last = text.lines().rfind(|line| !line.trim().is_empty());
    if !last.is_some_and(|line| line.starts_with("Next: ")) {
        let message = "end the page with its next page: `Next: [...](...)`";
        findings.push(Finding::at_line(path, text.lines().count(), message));
    }
    findings
}

/// A page with Rust code that is in no documentation test: no crate has a link to it that its `src/lib.rs`
/// includes.
fn uncompiled(tree: &Tree, path: &str, text: &str) -> Option<Finding> {
    let line = text.lines().position(|line| line.starts_with("```rust"))?;
    let compiled = tree.links_to(path).any(|link| {
        let mut parts = link.splitn(3, '/');
        let (Some(crates), Some(name), Some(rest)) = (parts.next(), parts.next(), parts.next())
        else {
            return false;
        };
        let source = tree.text(&format!("{crates}/{name}/src/lib.rs"));
        source.is_some_and(|text| text.contains(&format!("include_str!(\"../{rest}\")")))
    });
    let message = "Rust code that no documentation test compiles; include the page in a `lib.rs`";
    (!compiled).then(|| Finding::at_line(path, line + 1, message))
}

/// Links of a page that leave the book.
fn leaving(path: &str, text: &str) -> Vec<Finding> {
    links::links(text)
        .into_iter()
        .filter(|(_, target)| {
            let relative = !target.contains("://") && !target.starts_with('#');
            relative && !resolved(path, target).is_some_and(|to| to.starts_with("docs/"))
        })
        .map(|(line, target)| {
            Finding::at_line(path, line, format!("`{target}` leaves the book (`docs`)"))
        })
        .collect()
}

/// Code blocks after a line `<!-- text of FILE -->` that differ from the file.
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
        let equal = tree
            .text(file)
            .is_some_and(|text| text.lines().eq(block.iter().copied()));
        if !equal {
            let message = format!("the code block is not the text of {file}");
            findings.push(Finding::at_line(path, index + 1, message));
        }
    }
    findings
}

fn resolved(path: &str, target: &str) -> Option<String> {
    let file = target.split('#').next()?;
    normalised(&join(parent(path), file))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(summary: &str, page: &str) -> Vec<String> {
        let tree = Tree::of(&[
            (SUMMARY, summary),
            ("docs/start/a.md", &format!("{TOP}{page}{END}")),
            ("docs/b.md", "[evidence](../crates/x/results.md)"),
            ("x.rs", "a\nb\n"),
            ("crates/x/src/lib.rs", "include_str!(\"../pages/a.md\")"),
        ])
        .with_link("crates/x/pages/a.md", "docs/start/a.md");
        check(&tree)
            .into_iter()
            .map(|finding| finding.to_string())
            .collect()
    }

    const TOP: &str = "For X. Prerequisite: none.\n";
    const END: &str = "\nNext: [b](../b.md).\n";
    const ALL: &str = "- [A](start/a.md)\n- [B](b.md)\n";

    #[test]
    fn a_complete_summary_and_links_within_the_book_are_fine() {
        let page = "[b](../b.md#x) [web](https://example.org) [here](#there)";
        assert!(messages(ALL, page).is_empty());
    }

    #[test]
    fn a_page_that_the_summary_does_not_list_once_is_found() {
        assert_eq!(
            messages("- [A](start/a.md)\n", ""),
            ["docs/b.md: not listed in docs/SUMMARY.md"]
        );
        let twice = format!("{ALL}- [B](b.md)\n");
        assert_eq!(
            messages(&twice, ""),
            ["docs/b.md: listed twice in docs/SUMMARY.md"]
        );
    }

    #[test]
    fn a_code_block_that_is_not_the_text_of_its_file_is_found() {
        let page = |code: &str| format!("<!-- text of x.rs -->\n```rust\n{code}```\n");
        assert!(messages(ALL, &page("a\nb\n")).is_empty());
        assert_eq!(
            messages(ALL, &page("a\n")),
            ["docs/start/a.md:2: the code block is not the text of x.rs"]
        );
    }

    #[test]
    fn a_page_names_its_reader_prerequisite_and_next_page() {
        assert!(
            unframed(
                "a.md",
                "# A\n\nFor X. Prerequisite: none.\n\nNext: [b](b.md).\n"
            )
            .is_empty()
        );
        assert_eq!(unframed("a.md", "# A\n\nText.\n").len(), 3);
    }

    #[test]
    fn a_page_with_code_is_in_a_documentation_test() {
        let tree = Tree::of(&[("crates/x/src/lib.rs", "include_str!(\"../pages/a.md\")")])
            .with_link("crates/x/pages/a.md", "docs/a.md")
            .with_link("crates/x/pages/b.md", "docs/b.md");
        let page = "# A\n\n```rust,no_run\nfn f() {}\n```\n";
        assert_eq!(uncompiled(&tree, "docs/a.md", page), None);
        let finding = uncompiled(&tree, "docs/b.md", page).expect("it is in none");
        assert_eq!(finding.line, Some(3));
    }

    #[test]
    fn a_link_that_leaves_the_book_is_found() {
        assert_eq!(
            messages(ALL, "\n[b](../../crates/x/results.md)"),
            ["docs/start/a.md:3: `../../crates/x/results.md` leaves the book (`docs`)"]
        );
    }
}
