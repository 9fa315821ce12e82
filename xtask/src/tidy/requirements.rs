//! The ledger of requirements: every MUST and SHOULD of the RFCs, and the tests that show it is met.
//!
//! `vectors/requirements.toml` has one entry for each key word (RFC 2119) that asks something of
//! somebody. This check holds the ledger against the tests: what is called met names tests that
//! exist, everything else says why.

use std::collections::{BTreeMap, BTreeSet};

use super::rust_source::{code, tokens};
use super::{Finding, tree::Tree};

const LEDGER: &str = "vectors/requirements.toml";
/// The programs whose tests are made by a macro, from the cases it is given.
const CASES: &str = "crates/cli/tests/it/interop/";

/// The RFCs of the ledger, in its order, with the number of their last section.
const RFCS: &[(&str, u32)] = &[
    ("rfc7252", 13),
    ("rfc7959", 8),
    ("rfc7641", 8),
    ("rfc8323", 12),
    ("rfc8974", 6),
    ("rfc9177", 13),
];

const LEVELS: &[&str] = &[
    "MUST",
    "MUST NOT",
    "REQUIRED",
    "SHALL",
    "SHALL NOT",
    "SHOULD",
    "SHOULD NOT",
    "RECOMMENDED",
    "NOT RECOMMENDED",
];

/// States of a requirement; `open` is for work in progress.
const STATUSES: &[&str] = &["met", "departed", "not-applicable", "open"];

/// Knowledge of an RFC's text on which its entries are based.
const TEXTS: &[&str] = &["read in full", "from knowledge"];

const KEYS: &[&str] = &[
    "id", "section", "level", "who", "about", "status", "tests", "reason", "note",
];

/// One entry, as far as it is well formed.
#[derive(Debug)]
struct Entry<'a> {
    rfc: &'static str,
    section: Vec<u32>,
    /// Its number within the section.
    number: u32,
    level: &'a str,
    status: &'a str,
}

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let Some(text) = tree.text(LEDGER) else {
        return vec![Finding::in_file(LEDGER, "missing")];
    };
    let ledger: toml::Table = match text.parse() {
        Ok(ledger) => ledger,
        Err(error) => {
            let message = format!("not TOML: {}", error.message());
            return vec![Finding::in_file(LEDGER, message)];
        }
    };
    let mut findings = Vec::new();
    let mut known_tests = KnownTests::new(tree);
    let mut all = Vec::new();
    for entry in entries(&ledger) {
        let mut wrong = Vec::new();
        let read = read(entry, &mut wrong);
        if let Some(read) = &read {
            check_status(entry, read.status, &mut known_tests, &mut wrong);
        }
        let id = string(entry, "id").unwrap_or_default();
        let line = text
            .lines()
            .position(|line| line == format!("id = \"{id}\""))
            .map(|line| line + 1);
        findings.extend(wrong.into_iter().map(|message| Finding {
            path: LEDGER.to_owned(),
            line,
            message: format!("`{id}`: {message}"),
        }));
        all.extend(read.map(|read| (line, read)));
    }
    check_order(&all, &mut findings);
    check_texts(&ledger, &all, &mut findings);
    findings
}

/// Entries of each RFC by level and status, with open ones marked.
pub(super) fn summary(tree: &Tree) -> Vec<String> {
    let ledger: toml::Table = match tree.text(LEDGER).map(str::parse) {
        Some(Ok(ledger)) => ledger,
        _ => return Vec::new(),
    };
    let mut counts: BTreeMap<(usize, usize), [usize; 4]> = BTreeMap::new();
    for entry in entries(&ledger) {
        let Some(entry) = read(entry, &mut Vec::new()) else {
            continue;
        };
        let rfc = RFCS.iter().position(|(name, _)| *name == entry.rfc);
        let level = LEVELS.iter().position(|level| *level == entry.level);
        let status = STATUSES.iter().position(|status| *status == entry.status);
        if let (Some(rfc), Some(level), Some(status)) = (rfc, level, status) {
            counts.entry((rfc, level)).or_default()[status] += 1;
        }
    }
    let line = |rfc: &str, level: &str, counts: &[usize; 4]| {
        let [met, departed, foreign, open] = counts;
        let loud = if *open > 0 { "  <-- OPEN" } else { "" };
        format!(
            "  {rfc:<8} {level:<16} {met:>4} met {departed:>4} departed {foreign:>4} not applicable \
             {open:>4} open{loud}"
        )
    };
    let mut lines = Vec::new();
    for (place, (rfc, _)) in RFCS.iter().enumerate() {
        let mut sum = [0; 4];
        for ((_, level), counts) in counts.iter().filter(|((of, _), _)| *of == place) {
            lines.push(line(rfc, LEVELS[*level], counts));
            for (sum, count) in sum.iter_mut().zip(counts) {
                *sum += count;
            }
        }
        lines.push(line(rfc, "all", &sum));
    }
    lines
}

fn entries(ledger: &toml::Table) -> impl Iterator<Item = &toml::Table> {
    let all = ledger.get("requirement").and_then(toml::Value::as_array);
    all.into_iter().flatten().filter_map(toml::Value::as_table)
}

fn string<'a>(entry: &'a toml::Table, key: &str) -> Option<&'a str> {
    entry.get(key).and_then(toml::Value::as_str)
}

/// Reads an entry; what is wrong with its form goes to `wrong`.
fn read<'a>(entry: &'a toml::Table, wrong: &mut Vec<String>) -> Option<Entry<'a>> {
    for key in entry.keys().filter(|key| !KEYS.contains(&key.as_str())) {
        wrong.push(format!("`{key}` is no key of an entry"));
    }
    for key in ["who", "about"] {
        if string(entry, key).is_none_or(|text| text.trim().is_empty()) {
            wrong.push(format!("says nothing in `{key}`"));
        }
    }
    let one_of = |key: &str, allowed: &[&str], wrong: &mut Vec<String>| {
        let found = string(entry, key).filter(|text| allowed.contains(text));
        if found.is_none() {
            wrong.push(format!("`{key}` is one of: {}", allowed.join(", ")));
        }
        found
    };
    let level = one_of("level", LEVELS, wrong);
    let status = one_of("status", STATUSES, wrong);
    let place = place(string(entry, "id").unwrap_or_default());
    if place.is_none() {
        wrong.push("`id` is like rfc7252-4.2-03".to_owned());
    }
    let (rfc, section, number) = place?;
    let last = RFCS.iter().find(|(name, _)| *name == rfc)?.1;
    if section
        .first()
        .is_none_or(|first| !(1..=last).contains(first))
        || section.contains(&0)
    {
        wrong.push(format!("{rfc} has the sections 1 to {last}"));
    }
    let written: Vec<_> = section.iter().map(u32::to_string).collect();
    if string(entry, "section") != Some(&written.join(".")) {
        wrong.push("`section` is not that of the id".to_owned());
    }
    Some(Entry {
        rfc,
        section,
        number,
        level: level?,
        status: status?,
    })
}

/// The RFC, section and number that an id stands for.
fn place(id: &str) -> Option<(&'static str, Vec<u32>, u32)> {
    let mut parts = id.split('-');
    let (rfc, section, number) = (parts.next()?, parts.next()?, parts.next()?);
    let &(rfc, _) = RFCS.iter().find(|(name, _)| *name == rfc)?;
    let section: Option<Vec<u32>> = section.split('.').map(|part| part.parse().ok()).collect();
    let plain = parts.next().is_none() && number.len() == 2;
    Some((rfc, section?, number.parse().ok()?)).filter(|_| plain)
}

/// Checks that an entry that is met has tests, and another has a reason.
fn check_status(
    entry: &toml::Table,
    status: &str,
    known: &mut KnownTests<'_>,
    wrong: &mut Vec<String>,
) {
    let tests = entry.get("tests").map(toml::Value::as_array);
    let tests: Option<Vec<_>> = match tests {
        None => Some(Vec::new()),
        Some(array) => array.and_then(|all| all.iter().map(toml::Value::as_str).collect()),
    };
    let Some(tests) = tests else {
        wrong.push("`tests` is a list of `path.rs::name`".to_owned());
        return;
    };
    let reason = string(entry, "reason").is_some_and(|text| !text.trim().is_empty());
    match status {
        "met" if tests.is_empty() => wrong.push("met, but names no test".to_owned()),
        "met" if entry.contains_key("reason") => {
            wrong.push("met needs no reason; what should be known goes to `note`".to_owned());
        }
        "met" => {}
        _ if !reason => wrong.push(format!("{status}, but gives no reason")),
        _ => {}
    }
    let mut seen = BTreeSet::new();
    for test in tests {
        if !seen.insert(test) {
            wrong.push(format!("names `{test}` twice"));
        }
        match test.split_once("::") {
            Some((path, name)) if known.has(path, name) => {}
            Some((path, name)) => wrong.push(format!("{path} has no test `{name}`")),
            None => wrong.push(format!("`{test}` is not like `path.rs::name`")),
        }
    }
}

/// Entries come in the order of the RFCs and their sections, numbered without gaps.
fn check_order(all: &[(Option<usize>, Entry<'_>)], findings: &mut Vec<Finding>) {
    let rank = |entry: &Entry<'_>| RFCS.iter().position(|(name, _)| *name == entry.rfc);
    let mut before: Option<&Entry<'_>> = None;
    for (line, entry) in all {
        let same = before.filter(|b| b.rfc == entry.rfc && b.section == entry.section);
        let expected = same.map_or(1, |before| before.number + 1);
        let descends =
            before.is_some_and(|b| (rank(b), &b.section) > (rank(entry), &entry.section));
        let message = if descends {
            Some("comes after a later section".to_owned())
        } else if entry.number != expected {
            Some(format!("number {expected:02} is expected here"))
        } else {
            None
        };
        findings.extend(message.map(|message| Finding {
            path: LEDGER.to_owned(),
            line: *line,
            message,
        }));
        before = Some(entry);
    }
}

/// Each RFC says how its text was read and how many key words that found; none is lost later.
fn check_texts(
    ledger: &toml::Table,
    all: &[(Option<usize>, Entry<'_>)],
    findings: &mut Vec<Finding>,
) {
    for (rfc, _) in RFCS {
        let head = ledger.get("text").and_then(|texts| texts.get(rfc));
        let head = head.and_then(toml::Value::as_table);
        let Some(head) = head else {
            findings.push(Finding::in_file(LEDGER, format!("[text.{rfc}] is missing")));
            continue;
        };
        if string(head, "text").is_none_or(|text| !TEXTS.contains(&text)) {
            let message = format!("[text.{rfc}]: `text` is one of: {}", TEXTS.join(", "));
            findings.push(Finding::in_file(LEDGER, message));
        }
        let found = all.iter().filter(|(_, entry)| entry.rfc == *rfc).count();
        let told = head.get("keywords").and_then(toml::Value::as_integer);
        if told != i64::try_from(found).ok() {
            let message = format!("[text.{rfc}]: `keywords` is not {found}, the number of entries");
            findings.push(Finding::in_file(LEDGER, message));
        }
    }
}

/// The names of the tests of each file, read when first asked for.
struct KnownTests<'a> {
    tree: &'a Tree,
    by_path: BTreeMap<String, BTreeSet<String>>,
}

impl<'a> KnownTests<'a> {
    fn new(tree: &'a Tree) -> Self {
        Self {
            tree,
            by_path: BTreeMap::new(),
        }
    }

    fn has(&mut self, path: &str, name: &str) -> bool {
        if !self.by_path.contains_key(path) {
            let text = self.tree.text(path).unwrap_or_default();
            let mut names = tests_of(text);
            if path.starts_with(CASES) {
                names.extend(cases_of(text));
            }
            self.by_path.insert(path.to_owned(), names);
        }
        self.by_path[path].contains(name)
    }
}

/// Every function with the attribute `#[test]` or `#[tokio::test]`, unless it is ignored.
fn tests_of(text: &str) -> BTreeSet<String> {
    let tokens = tokens(&code(text, false));
    let mut names = BTreeSet::new();
    let (mut is_test, mut is_ignored) = (false, false);
    let mut at = 0;
    while at < tokens.len() {
        let next = |n: usize| tokens.get(at + n).map(String::as_str);
        match tokens[at].as_str() {
            "#" if next(1) == Some("[") => {
                let length = attribute_length(&tokens[at..]);
                is_test |= is_test_attribute(&tokens[at + 2..at + length]);
                is_ignored |= next(2) == Some("ignore");
                at += length;
                continue;
            }
            "fn" => {
                if is_test && !is_ignored {
                    names.extend(next(1).map(str::to_owned));
                }
                (is_test, is_ignored) = (false, false);
            }
            // What may stand between an attribute and its function.
            "async" | "pub" | "const" => {}
            _ => (is_test, is_ignored) = (false, false),
        }
        at += 1;
    }
    names
}

/// Tokens from the `#` of an attribute to its closing bracket.
fn attribute_length(tokens: &[String]) -> usize {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate() {
        match token.as_str() {
            "[" => depth += 1,
            "]" if depth == 1 => return at + 1,
            "]" => depth -= 1,
            _ => {}
        }
    }
    tokens.len()
}

fn is_test_attribute(tokens: &[String]) -> bool {
    let words: Vec<_> = tokens.iter().map(String::as_str).collect();
    let path = words.split(|word| *word == "(").next().unwrap_or_default();
    let path = path.strip_suffix(&["]"]).unwrap_or(path);
    matches!(path, ["test"] | ["tokio", ":", ":", "test"])
}

/// The tests that a macro makes of a list of cases, a line each: `name => "title", ...`.
fn cases_of(text: &str) -> BTreeSet<String> {
    let is_name = |name: &str| {
        let lower = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        !name.is_empty() && name.chars().all(lower)
    };
    let lines = text.lines().filter_map(|line| line.split_once(" => \""));
    let names = lines.map(|(name, _)| name.trim().to_owned());
    names.filter(|name| is_name(name)).collect()
}

#[cfg(test)]
#[path = "requirements/tests.rs"]
mod tests;
