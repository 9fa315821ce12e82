//! Relative links of Markdown files lead to files and headings that exist.

use std::collections::BTreeMap;

use super::{
    Finding,
    tree::{Tree, has_extension, join, normalised, parent},
};

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.texts_of("md") {
        for (line, target) in links(text) {
            if let Some(message) = broken(tree, path, &target) {
                findings.push(Finding::at_line(path, line, message));
            }
        }
    }
    findings
}

/// The problem of a link from `path` to `target`, if there is one.
fn broken(tree: &Tree, path: &str, target: &str) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (file, anchor) = match target.split_once('#') {
        Some((file, anchor)) => (file, Some(anchor)),
        None => (target, None),
    };
    if file.starts_with('/') {
        return Some(format!(
            "`{target}` is absolute; links are relative to the file"
        ));
    }
    let resolved = if file.is_empty() {
        path.to_owned()
    } else {
        match normalised(&join(parent(path), &file.replace("%20", " "))) {
            Some(resolved) => resolved,
            None => return Some(format!("`{target}` leads out of the repository")),
        }
    };
    if !tree.has_file(&resolved) && !tree.has_directory(&resolved) {
        return Some(format!("`{target}` leads to nothing"));
    }
    let anchor = anchor?;
    // Anchors into source files (`#L10`) and folders are the viewer's business.
    let text = tree
        .text(&resolved)
        .filter(|_| has_extension(&resolved, "md"))?;
    let known = anchors(text).any(|heading| heading == anchor);
    (!known).then(|| format!("`{resolved}` has no heading `#{anchor}`"))
}

/// The targets of inline links, images and reference definitions, with their line numbers.
pub(super) fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in prose(text) {
        let line = without_code(line);
        let mut rest = line.as_str();
        while let Some(at) = rest.find("](") {
            rest = &rest[at + 2..];
            let Some(end) = rest.find([')', ' ']) else {
                break;
            };
            found.push((number, rest[..end].trim_matches(['<', '>']).to_owned()));
        }
        if line.starts_with('[')
            && let Some((label, target)) = line.split_once("]: ")
            && !label.starts_with("[^")
            && let Some(target) = target.split_whitespace().next()
        {
            found.push((number, target.trim_matches(['<', '>']).to_owned()));
        }
    }
    found
}

/// The lines outside fenced code, numbered from 1.
pub(super) fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let start = line.trim_start();
        if start.starts_with("```") || start.starts_with("~~~") {
            fenced = !fenced;
            return None;
        }
        (!fenced).then_some((index + 1, line))
    })
}

fn without_code(line: &str) -> String {
    // Every second part lies between backticks.
    line.split('`')
        .enumerate()
        .map(|(index, part)| if index % 2 == 0 { part } else { "``" })
        .collect()
}

/// The anchors of a file's headings, as the usual viewers derive them.
pub(super) fn anchors(text: &str) -> impl Iterator<Item = String> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    prose(text).filter_map(move |(_, line)| {
        let title = line.strip_prefix('#')?.trim_start_matches('#');
        let slug: String = title
            .strip_prefix(' ')?
            .trim()
            .to_lowercase()
            .chars()
            .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
            .map(|c| if c == ' ' { '-' } else { c })
            .collect();
        let count = seen.entry(slug.clone()).or_insert(0);
        *count += 1;
        Some(if *count == 1 {
            slug
        } else {
            format!("{slug}-{}", *count - 1)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(text: &str) -> Vec<String> {
        let tree = Tree::of(&[
            ("docs/a.md", text),
            ("docs/b.md", "# One two\n## One two\n```\n# code\n```"),
            ("src/lib.rs", ""),
        ]);
        check(&tree)
            .into_iter()
            .map(|finding| finding.to_string())
            .collect()
    }

    #[test]
    fn links_to_files_folders_headings_and_the_web_are_fine() {
        let text = "[b](b.md) [c](../src) ![d](../src/lib.rs#L1) [e](https://example.org/x)\n\
                    [f](b.md#one-two) [g](b.md#one-two-1)\n[h]: b.md \"title\"\n`[x](none)`\n\
                    ```\n[y](none)\n```";
        assert!(messages(text).is_empty(), "{:?}", messages(text));
    }

    #[test]
    fn a_link_to_nothing_is_found_with_its_line() {
        assert_eq!(
            messages("\n[b](c.md)"),
            ["docs/a.md:2: `c.md` leads to nothing"]
        );
        assert_eq!(messages("[b]: c.md").len(), 1);
    }

    #[test]
    fn a_link_to_a_missing_heading_is_found() {
        assert_eq!(
            messages("[b](b.md#code)"),
            ["docs/a.md:1: `docs/b.md` has no heading `#code`"]
        );
    }

    #[test]
    fn links_out_of_the_repository_and_absolute_ones_are_found() {
        assert_eq!(messages("[b](../../c.md) [c](/docs/b.md)").len(), 2);
    }
}
