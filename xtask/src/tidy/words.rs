//! Paths of somebody's machine, which have no business in a published repository.

use super::{Finding, markers::find_word, tree::Tree};

/// Beginnings of such paths. Written in halves, so that this file does not find itself.
const FORBIDDEN: &[&str] = &[
    concat!("/ro", "ot/"),
    concat!("/ho", "me/"),
    concat!("/us", "ers/"),
];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.texts() {
        for (index, line) in text.lines().enumerate() {
            let line = line.to_lowercase();
            for word in FORBIDDEN
                .iter()
                .filter(|word| find_word(&line, word).is_some())
            {
                let what = format!("`{word}` begins a path of one machine");
                findings.push(Finding::at_line(path, index + 1, what));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_forbidden_path_is_found_in_any_case() {
        for word in FORBIDDEN {
            let text = format!("see {}x here", word.to_uppercase());
            assert!(!check(&Tree::of(&[("a.md", &text)])).is_empty(), "{word}");
        }
    }

    #[test]
    fn other_paths_are_fine() {
        assert!(check(&Tree::of(&[("a.md", "see /usr/bin and crates/cc")])).is_empty());
    }
}
