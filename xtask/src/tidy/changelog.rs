//! The changelog always has a place for what comes next.

use super::{Finding, tree::Tree};

const FILE: &str = "CHANGELOG.md";
const HEADING: &str = "## [Unreleased]";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let Some(text) = tree.text(FILE) else {
        return vec![Finding::in_file(FILE, "missing")];
    };
    let first = text.lines().find(|line| line.starts_with("## "));
    if first.is_some_and(|heading| heading.starts_with(HEADING)) {
        Vec::new()
    } else {
        vec![Finding::in_file(
            FILE,
            format!("the first section must be `{HEADING}`"),
        )]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unreleased_comes_first() {
        let good = "# Changelog\n\n## [Unreleased]\n\n## [0.1.0]\n";
        assert!(check(&Tree::of(&[(FILE, good)])).is_empty());
        let bad = "# Changelog\n\n## [0.1.0]\n\n## [Unreleased]\n";
        assert_eq!(check(&Tree::of(&[(FILE, bad)])).len(), 1);
    }

    #[test]
    fn a_missing_changelog_is_found() {
        assert_eq!(check(&Tree::default()).len(), 1);
    }
}
