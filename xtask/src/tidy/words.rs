//! Words that have no business in a published repository: somebody's paths, hosts and tools.

use super::{Finding, markers::find_word, tree::Tree};

/// Each word in lower case with the reason. Written in halves, so that this file does not find itself.
const FORBIDDEN: &[(&str, &str)] = &[
    (concat!("/wo", "rk/"), PATH),
    (concat!("/ro", "ot/"), PATH),
    (concat!("/ho", "me/"), PATH),
    (concat!("/tmp/br", "ief"), PATH),
    (concat!("crates", ".io"), HOST),
    (concat!("pypi", ".org"), HOST),
    (concat!("npmjs", ".org"), HOST),
    (concat!("proxy.golang", ".org"), HOST),
    (concat!("maven", ".org"), HOST),
    (concat!("maven.apache", ".org"), HOST),
    (concat!("deb.debian", ".org"), HOST),
    (concat!("chat", "gpt"), AUTHOR),
    (concat!("clau", "de"), AUTHOR),
    (concat!("anthro", "pic"), AUTHOR),
    (concat!("open", "ai"), AUTHOR),
    (concat!("copi", "lot"), AUTHOR),
    (concat!("language", " model"), AUTHOR),
    (concat!("ai", " assistant"), AUTHOR),
    (concat!("coding", " agent"), AUTHOR),
    (concat!("ll", "m"), AUTHOR),
];

const PATH: &str = "a path of one machine";
const HOST: &str = "a registry's host; name the package and its ordinary client";
const AUTHOR: &str = "about a tool, not about the project";

/// Files that a program writes and that must name hosts.
const EXEMPT: &[&str] = &["Cargo.lock", "fuzz/Cargo.lock"];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.texts().filter(|(path, _)| !EXEMPT.contains(path)) {
        for (index, line) in text.lines().enumerate() {
            let line = line.to_lowercase();
            for (word, reason) in FORBIDDEN {
                if find_word(&line, word).is_some() {
                    findings.push(Finding::at_line(
                        path,
                        index + 1,
                        format!("`{word}` is {reason}"),
                    ));
                }
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_forbidden_word_is_found_in_any_case() {
        for (word, _) in FORBIDDEN {
            let text = format!("see {} here", word.to_uppercase());
            assert!(!check(&Tree::of(&[("a.md", &text)])).is_empty(), "{word}");
        }
    }

    #[test]
    fn a_lock_file_may_name_its_registry() {
        let text = FORBIDDEN[4].0;
        assert!(check(&Tree::of(&[("Cargo.lock", text)])).is_empty());
        assert!(!check(&Tree::of(&[("crates/x/Cargo.toml", text)])).is_empty());
    }

    #[test]
    fn a_longer_word_that_contains_one_is_fine() {
        let text = format!("wi{} {}s", FORBIDDEN[19].0, FORBIDDEN[19].0);
        assert!(check(&Tree::of(&[("a.md", &text)])).is_empty());
    }
}
