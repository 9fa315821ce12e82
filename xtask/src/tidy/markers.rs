//! No half-done work and no debugging left behind.

use super::{Finding, tree::Tree};

const EXTENSIONS: &[&str] = &["rs", "py", "c", "h", "toml", "md", "sh"];

/// Never allowed. Written in halves, so that this file does not find itself.
const FORBIDDEN: &[(&str, &str)] = &[
    (concat!("FIX", "ME"), "correct it, or file an issue"),
    (concat!("X", "XX"), "say what is meant"),
    (concat!("dbg", "!("), "remove the debugging aid"),
    (concat!("todo", "!("), "write the code"),
    (concat!("unimplemented", "!("), "write the code"),
    (concat!("(being", " written)"), "write the document"),
];

/// Allowed when an issue number follows.
const LATER: &str = concat!("TO", "DO");

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for extension in EXTENSIONS {
        for (path, text) in tree.texts_of(extension) {
            for (index, line) in text.lines().enumerate() {
                if let Some(message) = stray(line) {
                    findings.push(Finding::at_line(path, index + 1, message));
                }
            }
        }
    }
    findings
}

fn stray(line: &str) -> Option<String> {
    if let Some((marker, remedy)) = FORBIDDEN.iter().find(|(marker, _)| has_word(line, marker)) {
        return Some(format!("`{marker}`: {remedy}"));
    }
    let at = find_word(line, LATER)?;
    let has_issue = line[at..]
        .split_once('#')
        .is_some_and(|(_, number)| number.starts_with(|c: char| c.is_ascii_digit()));
    (!has_issue).then(|| format!("`{LATER}` without an issue, as in `{LATER}(#12)`"))
}

fn has_word(line: &str, word: &str) -> bool {
    find_word(line, word).is_some()
}

/// Where `word` stands with no letter, digit or `_` against its own letters.
pub(super) fn find_word(line: &str, word: &str) -> Option<usize> {
    let part_of_word = |c: char| c.is_alphanumeric() || c == '_';
    let joins = |inner: Option<char>, outer: Option<char>| {
        inner.is_some_and(part_of_word) && outer.is_some_and(part_of_word)
    };
    line.match_indices(word).map(|(at, _)| at).find(|at| {
        let before = line[..*at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        !joins(word.chars().next(), before) && !joins(word.chars().next_back(), after)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_forbidden_marker_is_found() {
        for (marker, _) in FORBIDDEN {
            assert!(stray(&format!("x {marker} y")).is_some(), "{marker}");
        }
    }

    #[test]
    fn later_work_needs_an_issue_number() {
        assert!(stray(&format!("// {LATER}: tidy up")).is_some());
        assert!(stray(&format!("// {LATER}(#12): tidy up")).is_none());
    }

    #[test]
    fn a_marker_inside_a_word_is_no_marker() {
        assert!(stray(&format!("a{} b_{}", FORBIDDEN[1].0, LATER)).is_none());
    }

    #[test]
    fn the_place_is_named() {
        let text = format!("ok\n{}", FORBIDDEN[0].0);
        let found = check(&Tree::of(&[("a.rs", &text), ("b.svg", &text)]));
        assert_eq!((found.len(), found[0].line), (1, Some(2)));
    }
}
