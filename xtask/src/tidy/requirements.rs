//! The ledger of requirements, `vectors/requirements.toml`: one entry for each key word of RFC 2119. A requirement
//! that is met names tests that exist, every other one a reason.

use std::collections::{BTreeMap, BTreeSet};

use super::{Finding, Tree};

const LEDGER: &str = "vectors/requirements.toml";
/// Programs whose tests a macro makes from lines `name => "title", ...`.
const CASES: &str = "crates/cli/tests/it/interop/";

const STATUSES: &[&str] = &["met", "departed", "not-applicable", "open"];
const KEYS: &[&str] = &[
    "id", "section", "level", "who", "about", "status", "tests", "reason", "note",
];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let text = tree.text(LEDGER).unwrap_or_default();
    let ledger: toml::Table = match text.parse() {
        Ok(ledger) => ledger,
        Err(error) => return vec![Finding::in_file(LEDGER, error.to_string())],
    };
    let (mut known, mut ids) = (BTreeMap::new(), BTreeSet::new());
    let mut messages = Vec::new();
    for entry in entries(&ledger) {
        let id = string(entry, "id");
        let mut problems = problems(entry, tree, &mut known);
        if !ids.insert(id) {
            problems.push("occurs twice".to_owned());
        }
        messages.extend(problems.iter().map(|problem| format!("`{id}` {problem}")));
    }
    // A count beside the entries finds one that is lost.
    let heads = ledger.get("text").and_then(toml::Value::as_table);
    for (rfc, head) in heads.into_iter().flatten() {
        let count = ids.iter().filter(|id| id.split('-').next() == Some(rfc));
        let count = count.count();
        let keywords = head.get("keywords").and_then(toml::Value::as_integer);
        if keywords != i64::try_from(count).ok() {
            messages.push(format!(
                "[text.{rfc}] counts {keywords:?} entries of {count}"
            ));
        }
    }
    if ids.is_empty() {
        messages.push("no entries".to_owned());
    }
    let findings = messages.into_iter();
    findings
        .map(|message| Finding::in_file(LEDGER, message))
        .collect()
}

fn entries(ledger: &toml::Table) -> impl Iterator<Item = &toml::Table> {
    let all = ledger.get("requirement").and_then(toml::Value::as_array);
    all.into_iter().flatten().filter_map(toml::Value::as_table)
}

fn string<'a>(entry: &'a toml::Table, key: &str) -> &'a str {
    let text = entry.get(key).and_then(toml::Value::as_str);
    text.map_or("", str::trim)
}

/// Errors of an entry; `known` holds the names of the tests of each file read so far.
fn problems<'a>(
    entry: &'a toml::Table,
    tree: &Tree,
    known: &mut BTreeMap<&'a str, BTreeSet<String>>,
) -> Vec<String> {
    let mut problems = Vec::new();
    for key in entry.keys().filter(|key| !KEYS.contains(&key.as_str())) {
        problems.push(format!("has an unknown key `{key}`"));
    }
    for key in ["section", "level", "who", "about"] {
        if string(entry, key).is_empty() {
            problems.push(format!("has no `{key}`"));
        }
    }
    let tests: Vec<&str> = match entry.get("tests").and_then(toml::Value::as_array) {
        Some(tests) => tests.iter().filter_map(toml::Value::as_str).collect(),
        None => Vec::new(),
    };
    let status = string(entry, "status");
    match status {
        "met" if tests.is_empty() => problems.push("is met, but names no test".to_owned()),
        "met" if entry.contains_key("reason") => {
            problems.push("is met and needs no reason; further facts go to `note`".to_owned());
        }
        "met" => {}
        _ if !STATUSES.contains(&status) => problems.push(format!("has the status `{status}`")),
        _ if string(entry, "reason").is_empty() => problems.push("gives no reason".to_owned()),
        _ => {}
    }
    for test in tests {
        let (path, name) = test.split_once("::").unwrap_or((test, ""));
        let names = known.entry(path).or_insert_with(|| names(tree, path));
        if !names.contains(name) {
            problems.push(format!("names `{test}`, which is no test"));
        }
    }
    problems
}

/// Functions with the attribute `#[test]` or `#[tokio::test]`, without ignored ones, and cases of a macro.
fn names(tree: &Tree, path: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let (mut is_test, mut is_ignored) = (false, false);
    for line in tree.text(path).unwrap_or_default().lines().map(str::trim) {
        if let Some((name, _)) = line.split_once(" => \"")
            && path.starts_with(CASES)
        {
            names.insert(name.to_owned());
        }
        is_test |= line == "#[test]" || line.starts_with("#[tokio::test");
        is_ignored |= line.starts_with("#[ignore");
        let function = line.trim_start_matches("pub ").trim_start_matches("async ");
        if let Some((name, _)) = function.strip_prefix("fn ").and_then(|f| f.split_once('(')) {
            if is_test && !is_ignored {
                names.insert(name.to_owned());
            }
            (is_test, is_ignored) = (false, false);
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    const TESTS: &str = "#[test]\nfn works() {}\n#[tokio::test]\nasync fn works_async() {}\n\
        #[test]\n#[cfg(unix)]\nfn works_on_unix() {}\nfn no_test() {}\n\
        #[test]\n#[ignore = \"slow\"]\nfn never_run() {}\n// #[test]\n// fn only_a_comment() {}\n";
    const GOOD: &str = "id = \"rfc1-4.2-01\"\nsection = \"4.2\"\nlevel = \"MUST\"\nwho = \"recipient\"\n\
        about = \"a thing happens\"\nstatus = \"met\"\ntests = [\"x.rs::works\"]\n";

    fn messages(entries: &[&str]) -> Vec<String> {
        let mut ledger = format!("[text.rfc1]\nkeywords = {}\n", entries.len().min(1));
        for entry in entries {
            ledger += "[[requirement]]\n";
            ledger += entry;
        }
        let cases = "    gets_a_resource => \"GET\", methods::get;";
        let cases = ("crates/cli/tests/it/interop/cases.rs", cases);
        let tree = Tree::of(&[(LEDGER, &ledger), ("x.rs", TESTS), cases]);
        check(&tree).into_iter().map(|f| f.message).collect()
    }

    fn with(line: &str, replacement: &str) -> Vec<String> {
        assert!(GOOD.contains(line), "{line}");
        messages(&[&GOOD.replace(line, replacement)])
    }

    #[test]
    fn entries_with_existing_tests_pass() {
        let interop = "crates/cli/tests/it/interop/cases.rs::gets_a_resource";
        for test in [
            "x.rs::works",
            "x.rs::works_async",
            "x.rs::works_on_unix",
            interop,
        ] {
            assert_eq!(with("x.rs::works", test), [""; 0]);
        }
    }

    #[test]
    fn missing_tests_are_found() {
        for name in ["no_test", "never_run", "only_a_comment", "gets_a_resource"] {
            assert_eq!(
                with("x.rs::works", &format!("x.rs::{name}")).len(),
                1,
                "{name}"
            );
        }
        assert_eq!(with("[\"x.rs::works\"]", "[]").len(), 1);
        assert_eq!(with("[\"x.rs::works\"]", "\"x.rs::works\"").len(), 1);
    }

    #[test]
    fn status_decides_between_tests_and_reason() {
        for status in ["departed", "not-applicable", "open"] {
            let status = format!("status = \"{status}\"\n");
            assert_eq!(with("status = \"met\"\n", &status).len(), 1);
            let reasoned = format!("{status}reason = \"it binds a proxy\"\n");
            assert_eq!(with("status = \"met\"\n", &reasoned), [""; 0]);
        }
        assert_eq!(with("\"met\"", "\"met\"\nreason = \"x\"").len(), 1);
        assert_eq!(with("\"met\"", "\"done\"").len(), 1);
    }

    #[test]
    fn incomplete_lost_and_repeated_entries_are_found() {
        assert_eq!(
            with("about = \"a thing happens\"", "about = \" \"").len(),
            1
        );
        assert_eq!(with("who", "whom").len(), 2);
        assert_eq!(messages(&[GOOD, GOOD]), ["`rfc1-4.2-01` occurs twice"]);
        assert_eq!(with("rfc1", "rfc2").len(), 1);
        assert_eq!(messages(&[]), ["no entries"]);
    }
}
