//! Rust files stay short enough to be read in one go.

use super::{Finding, tree::Tree};

/// More lines than this need a reason in [`LONG_FILES`].
const LINES_MAX: usize = 900;

/// Files that may be longer, each with the reason why splitting it would hurt.
const LONG_FILES: &[(&str, &str)] = &[];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    check_against(tree, LONG_FILES)
}

fn check_against(tree: &Tree, long_files: &[(&str, &str)]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.texts_of("rs") {
        let lines = text.lines().count();
        let listed = long_files.iter().any(|(long, _)| *long == path);
        if lines > LINES_MAX && !listed {
            let message = format!("{lines} lines; split it by mechanism below {LINES_MAX}");
            findings.push(Finding::in_file(path, message));
        }
        if lines <= LINES_MAX && listed {
            let message = "no longer long; take it off the list in xtask/src/tidy/length.rs";
            findings.push(Finding::in_file(path, message));
        }
    }
    findings
}

/// The `count` longest Rust files with their lines.
pub(super) fn longest(tree: &Tree, count: usize) -> Vec<String> {
    let mut files: Vec<_> = tree
        .texts_of("rs")
        .map(|(path, text)| (text.lines().count(), path))
        .collect();
    files.sort_unstable_by(|a, b| b.cmp(a));
    files
        .into_iter()
        .take(count)
        .map(|(lines, path)| format!("{path} ({lines})"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_beyond_the_limit_is_too_many() {
        let (limit, beyond) = ("\n".repeat(LINES_MAX), "\n".repeat(LINES_MAX + 1));
        let tree = Tree::of(&[("a.rs", &limit), ("b.rs", &beyond), ("c.md", &beyond)]);
        let found: Vec<_> = check(&tree)
            .into_iter()
            .map(|finding| finding.path)
            .collect();
        assert_eq!(found, ["b.rs"]);
    }

    #[test]
    fn a_listed_file_may_be_long_and_must_be() {
        let beyond = "\n".repeat(LINES_MAX + 1);
        let tree = Tree::of(&[("a.rs", &beyond), ("b.rs", "")]);
        let found = check_against(&tree, &[("a.rs", "a table"), ("b.rs", "was a table")]);
        assert_eq!(found.len(), 1);
        assert!(found[0].message.contains("no longer long"));
    }
}
