//! Phrases of a private dialect, for which the RFCs and the literature have a term.

use std::collections::BTreeMap;

use super::{
    Finding,
    prose::{self, Word},
    ratchet::Ratchet,
    rust_source::Kind,
    tree::{Tree, has_extension},
};

/// Kinds of text that a phrase must not occur in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    /// Comments of Rust files.
    Comments,
    /// Those, documents, and the strings that users of the command line read (help, errors, metrics).
    Everywhere,
}

/// The phrases, the words to write instead, and where the rule applies.
const PHRASES: &[(&str, &str, Scope)] = &[
    ("shown where it is", "validated address", Scope::Everywhere),
    (
        "shown where they are",
        "validated addresses",
        Scope::Everywhere,
    ),
    (
        "shown that they are where",
        "validated addresses",
        Scope::Everywhere,
    ),
    (
        "show where it is",
        "validate its address",
        Scope::Everywhere,
    ),
    (
        "show where they are",
        "validate their addresses",
        Scope::Everywhere,
    ),
    (
        "whoever",
        "name the role: peer, client, server, caller",
        Scope::Everywhere,
    ),
    (
        "whomever",
        "name the role: peer, client, server, caller",
        Scope::Everywhere,
    ),
    ("whose turn", "next in the queue", Scope::Everywhere),
    (
        "who has",
        "name the role: peer, client, server, caller",
        Scope::Comments,
    ),
    (
        "who have",
        "name the role: peers, clients, servers, callers",
        Scope::Comments,
    ),
    (
        "who is",
        "name the role: peer, client, server, caller",
        Scope::Comments,
    ),
    (
        "who are",
        "name the role: peers, clients, servers, callers",
        Scope::Comments,
    ),
    (
        "carried out twice",
        "executed twice; non-idempotent",
        Scope::Everywhere,
    ),
    (
        "done twice",
        "executed twice; non-idempotent",
        Scope::Everywhere,
    ),
    ("makes room", "is evicted", Scope::Everywhere),
    ("make room", "are evicted", Scope::Everywhere),
    ("nothing may exceed", "resource limits", Scope::Everywhere),
    ("is told", "is notified, receives", Scope::Everywhere),
    ("are told", "are notified, receive", Scope::Everywhere),
    (
        "be told",
        "be notified, receive; be distinguished",
        Scope::Everywhere,
    ),
    ("being told", "notifications", Scope::Everywhere),
    ("was told", "was notified, received", Scope::Everywhere),
    ("were told", "were notified, received", Scope::Everywhere),
    (
        "is asked",
        "is requested, receives a request",
        Scope::Everywhere,
    ),
    (
        "are asked",
        "are requested, receive a request",
        Scope::Everywhere,
    ),
    ("what is asked for", "the request", Scope::Everywhere),
    ("nobody needed", "spurious", Scope::Everywhere),
    ("becomes of", "handling of", Scope::Everywhere),
    ("gives way", "is shed, is evicted", Scope::Everywhere),
    ("waits no longer", "gives up", Scope::Everywhere),
    ("beside ours", "measured value", Scope::Everywhere),
    ("in print", "published", Scope::Everywhere),
    ("has hold of", "holds a reference to", Scope::Everywhere),
    ("have hold of", "hold references to", Scope::Everywhere),
    ("gets no place", "is rejected", Scope::Everywhere),
    ("get no place", "are rejected", Scope::Everywhere),
    ("what nothing", "state the limit", Scope::Everywhere),
];

/// Documents that are history, quotations or recorded results.
const DOCUMENTS_LEFT_OUT: &[&str] = &[
    "CHANGELOG.md",
    "papers/",
    "vectors/",
    "crates/lab/results/",
    "crates/studies/results/",
];

/// Sources whose strings are read by users of the command line.
const READ_BY_USERS: &[&str] = &["crates/cli/src/", "crates/lab/src/", "crates/studies/src/"];

/// Phrases that may still occur in each place.
const ALLOWANCES: &[(&str, usize)] = &[];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    check_against(tree, ALLOWANCES)
}

fn check_against(tree: &Tree, allowances: &[(&str, usize)]) -> Vec<Finding> {
    let by_first = by_first_word();
    let mut violations = Vec::new();
    for (path, text) in tree.texts() {
        let mut search = |words: &[Word], comments| {
            for (line, (phrase, instead, _)) in occurrences(words, &by_first, comments) {
                let message = format!("`{phrase}`: write \"{instead}\"");
                violations.push(Finding::at_line(path, line, message));
            }
        };
        if has_extension(path, "rs") {
            search(&prose::of_source(text, Kind::Comment), true);
            if READ_BY_USERS.iter().any(|folder| path.starts_with(folder)) {
                search(&prose::of_source(text, Kind::Text), false);
            }
        } else if has_extension(path, "md")
            && !DOCUMENTS_LEFT_OUT.iter().any(|left| path.starts_with(left))
        {
            search(&prose::of_document(text), false);
        }
    }
    let ratchet = Ratchet {
        table: "xtask/src/tidy/phrases.rs",
        allowances,
    };
    ratchet.judge(&violations)
}

type Phrase = (&'static str, &'static str, Scope);

fn by_first_word() -> BTreeMap<&'static str, Vec<Phrase>> {
    let mut found: BTreeMap<_, Vec<Phrase>> = BTreeMap::new();
    for phrase in PHRASES {
        let first = phrase.0.split(' ').next().unwrap_or_default();
        found.entry(first).or_default().push(*phrase);
    }
    found
}

/// The lines where phrases begin that may not occur in such a text.
fn occurrences(
    words: &[Word],
    by_first: &BTreeMap<&str, Vec<Phrase>>,
    comments: bool,
) -> Vec<(usize, Phrase)> {
    let mut found = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let Some(phrases) = by_first.get(word.text.as_str()) else {
            continue;
        };
        let here = |phrase: &&Phrase| {
            let mut expected = phrase.0.split(' ').zip(at..);
            (comments || phrase.2 == Scope::Everywhere)
                && expected.all(|(part, at)| words.get(at).is_some_and(|word| word.text == part))
        };
        found.extend(
            phrases
                .iter()
                .filter(here)
                .map(|phrase| (word.line, *phrase)),
        );
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<Finding> {
        check_against(&Tree::of(&[(path, text)]), &[])
    }

    #[test]
    fn each_phrase_is_found_over_a_line_break_and_in_any_case() {
        for (phrase, ..) in PHRASES {
            let broken = phrase.to_uppercase().replace(' ', "\n/// ");
            let found = found("crates/a/src/x.rs", &format!("/// A\n/// {broken}, b.\n"));
            let named = |finding: &Finding| finding.message.starts_with(&format!("`{phrase}`"));
            assert!(
                found
                    .iter()
                    .any(|finding| named(finding) && finding.line == Some(2))
            );
        }
    }

    #[test]
    fn phrases_are_lower_case_and_have_replacements() {
        for (phrase, instead, _) in PHRASES {
            assert!(phrase.chars().all(|c| c.is_ascii_lowercase() || c == ' '));
            assert!(!instead.contains(phrase));
        }
    }

    #[test]
    fn documents_and_strings_for_users_are_searched() {
        assert!(!found("docs/x.md", "The peer is told so.").is_empty());
        assert!(!found("crates/cli/src/x.rs", "f(\"whoever\")").is_empty());
        assert!(found("crates/cc/src/x.rs", "f(\"whoever\")").is_empty());
        assert!(found("CHANGELOG.md", "whoever").is_empty());
    }

    #[test]
    fn people_may_be_called_who_in_a_document_but_not_in_a_comment() {
        assert!(found("docs/x.md", "Readers who have a Pi").is_empty());
        assert!(!found("crates/a/src/x.rs", "// the peer who has it").is_empty());
    }

    #[test]
    fn words_of_different_passages_are_no_phrase() {
        assert!(found("docs/x.md", "It is\n\ntold.").is_empty());
        assert!(found("crates/a/src/x.rs", "// it is\nfn f() {}\n// told").is_empty());
    }
}
