//! The book (`docs/book.toml`) has every page of `docs` in its summary, and links of the guide's
//! pages stay in it.

use super::{
    Finding, links,
    tree::{Tree, join, normalised, parent},
};

const SUMMARY: &str = "docs/SUMMARY.md";

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
        if path.starts_with("docs/guide/") {
            findings.extend(leaving(path, text));
        }
    }
    findings
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
            ("docs/guide/src/a.md", page),
            ("docs/b.md", "[evidence](../crates/x/results.md)"),
            ("README.md", ""),
        ]);
        check(&tree)
            .into_iter()
            .map(|finding| finding.to_string())
            .collect()
    }

    const ALL: &str = "- [A](guide/src/a.md)\n- [B](b.md)\n";

    #[test]
    fn a_complete_summary_and_links_within_the_book_are_fine() {
        let page = "[b](../../b.md#x) [web](https://example.org) [here](#there)";
        assert!(messages(ALL, page).is_empty());
    }

    #[test]
    fn a_page_that_the_summary_does_not_list_once_is_found() {
        assert_eq!(
            messages("- [A](guide/src/a.md)\n", ""),
            ["docs/b.md: not listed in docs/SUMMARY.md"]
        );
        let twice = format!("{ALL}- [B](b.md)\n");
        assert_eq!(
            messages(&twice, ""),
            ["docs/b.md: listed twice in docs/SUMMARY.md"]
        );
    }

    #[test]
    fn a_link_that_leaves_the_book_is_found() {
        assert_eq!(
            messages(ALL, "\n[b](../../../crates/x/results.md)"),
            ["docs/guide/src/a.md:2: `../../../crates/x/results.md` leaves the book (`docs`)"]
        );
    }
}
