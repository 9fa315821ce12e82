//! Doc comments begin with a noun phrase or a verb.

use std::collections::BTreeMap;

use super::{
    Finding,
    ratchet::{Ratchet, place_of},
    tree::Tree,
};

/// First words that begin a relative clause or a pronoun instead of naming the item.
const OPENERS: &[&str] = &["What", "Who", "Whether", "How", "It", "Of"];

/// Share of a crate's doc comments that may begin so, in per cent.
const SHARE_MAX: usize = 3;

/// Crates above [`SHARE_MAX`], with the doc comments that may still begin so.
const ALLOWANCES: &[(&str, usize)] = &[];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    check_against(tree, ALLOWANCES)
}

fn check_against(tree: &Tree, allowances: &[(&str, usize)]) -> Vec<Finding> {
    let mut crates: BTreeMap<&str, (usize, Vec<Finding>)> = BTreeMap::new();
    for (path, text) in tree.texts_of("rs") {
        if !path.contains("src/") {
            continue;
        }
        let (total, found) = crates.entry(place_of(path)).or_default();
        for (line, word) in openers(text) {
            *total += 1;
            if OPENERS.contains(&word) {
                let message = format!("doc comment begins with `{word}`; name the item first");
                found.push(Finding::at_line(path, line, message));
            }
        }
    }
    let ratchet = Ratchet {
        table: "xtask/src/tidy/doc_openers.rs",
        allowances,
    };
    let mut findings = Vec::new();
    for (place, (total, found)) in crates {
        judge(&ratchet, place, total, found, &mut findings);
    }
    findings
}

fn judge(
    ratchet: &Ratchet<'_>,
    place: &str,
    total: usize,
    found: Vec<Finding>,
    findings: &mut Vec<Finding>,
) {
    let (count, most) = (found.len(), total * SHARE_MAX / 100);
    let allowed = ratchet.allowance(place);
    if count > most.max(allowed) {
        let share = 100 * count / total.max(1);
        let message = format!(
            "{count} of {total} doc comments ({share} %) begin with {}; {} allowed",
            OPENERS.join(", "),
            most.max(allowed)
        );
        findings.push(Finding::in_file(place, message));
        findings.extend(found);
    } else if allowed > 0 && count <= most {
        findings.push(ratchet.lower(place, allowed, 0));
    } else if allowed > count {
        findings.push(ratchet.lower(place, allowed, count));
    }
}

/// The line and first word of each doc comment, a block of consecutive lines.
fn openers(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut before = None;
    for (index, line) in text.lines().enumerate() {
        let line = line.trim_start();
        let marker = ["///", "//!"]
            .into_iter()
            .find(|marker| line.starts_with(marker) && !line.starts_with("////"));
        if let Some(marker) = marker
            && before != Some(marker)
        {
            let words = line[marker.len()..].trim_start();
            let end = words.find(|c: char| !c.is_alphanumeric());
            found.push((index + 1, &words[..end.unwrap_or(words.len())]));
        }
        before = marker;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file with `bad` doc comments that break the rule out of `total`.
    fn file(bad: usize, total: usize) -> String {
        let good = "/// A thing\n/// It is.\nfn f() {}\n".repeat(total - bad);
        "/// What is\nfn f() {}\n".repeat(bad) + &good
    }

    fn found(bad: usize, allowances: &[(&str, usize)]) -> Vec<Finding> {
        let text = file(bad, 100);
        check_against(&Tree::of(&[("crates/a/src/x.rs", &text)]), allowances)
    }

    #[test]
    fn each_opener_is_found_and_only_at_the_beginning_of_a_block() {
        for word in OPENERS {
            let text = format!("//! {word} it is\n//! It\n\n    /// {word}'s\nfn f() {{}}\n");
            let found: Vec<_> = openers(&text);
            assert_eq!(found, [(1, *word), (4, *word)]);
        }
    }

    #[test]
    fn three_in_a_hundred_are_fine_and_a_fourth_is_not() {
        assert!(found(3, &[]).is_empty());
        let found = found(4, &[]);
        assert_eq!(found.len(), 5);
        assert!(found[0].message.starts_with("4 of 100 doc comments (4 %)"));
        assert_eq!(found[1].line, Some(1));
    }

    #[test]
    fn an_allowance_holds_and_must_shrink() {
        let allowed = [("crates/a", 10)];
        assert!(found(10, &allowed).is_empty());
        assert!(!found(11, &allowed).is_empty());
        let order = |bad| found(bad, &allowed)[0].message.clone();
        assert!(order(9).ends_with("lower it to 9"));
        assert!(order(3).ends_with("remove the row"));
    }

    #[test]
    fn tests_and_documents_are_not_counted() {
        let text = file(50, 100);
        let tree = Tree::of(&[("crates/a/tests/x.rs", &text), ("docs/src/x.md", &text)]);
        assert!(check_against(&tree, &[]).is_empty());
    }
}
