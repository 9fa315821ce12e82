//! Ledgers with one mistake each: every mistake is found.

use super::*;

const TESTS: &str = "#[test]\nfn a_thing_happens() {}\n\
    #[tokio::test]\nasync fn another_thing_happens() {}\n\
    #[test]\n#[cfg(unix)]\nfn a_third_thing() {}\nfn no_test() {}\n\
    #[test]\n#[ignore = \"slow\"]\nfn never_run() {}\n\
    // #[test]\n// fn only_a_comment() {}\n";

const GOOD: &str = r#"
id = "rfc7252-4.2-01"
section = "4.2"
level = "MUST"
who = "recipient"
about = "a thing happens"
status = "met"
tests = ["crates/x/tests/x.rs::a_thing_happens"]
"#;

/// A ledger of these entries whose headers count `counted` of RFC 7252.
fn ledger(entries: &[&str], counted: usize) -> String {
    let mut text = String::new();
    for (rfc, _) in RFCS {
        let counted = if *rfc == "rfc7252" { counted } else { 0 };
        for line in [
            &format!("[text.{rfc}]\n"),
            "text = \"read in full\"\n",
            &format!("keywords = {counted}\n"),
        ] {
            text.push_str(line);
        }
    }
    for entry in entries {
        text += "[[requirement]]\n";
        text += entry.trim_start();
    }
    text
}

fn messages(ledger: &str) -> Vec<String> {
    let interop = "    gets_a_resource => \"GET\", methods::get;";
    let tree = Tree::of(&[
        (LEDGER, ledger),
        ("crates/x/tests/x.rs", TESTS),
        ("crates/cli/tests/it/interop/cases.rs", interop),
    ]);
    check(&tree).into_iter().map(|f| f.message).collect()
}

/// The findings when one line of a good entry is replaced.
fn found_with(line: &str, replacement: &str) -> Vec<String> {
    assert!(GOOD.contains(line), "{line}");
    messages(&ledger(&[&GOOD.replace(line, replacement)], 1))
}

fn assert_found(found: &[String], what: &str) {
    assert!(
        found.iter().any(|message| message.contains(what)),
        "{what} is not in {found:?}"
    );
}

#[test]
fn a_good_ledger_has_no_findings() {
    assert_eq!(messages(&ledger(&[GOOD], 1)), [""; 0]);
    let tests = |list: &str| {
        let line = "tests = [\"crates/x/tests/x.rs::a_thing_happens\"]";
        found_with(line, &format!("tests = [{list}]"))
    };
    assert_eq!(
        tests("\"crates/x/tests/x.rs::another_thing_happens\""),
        [""; 0]
    );
    assert_eq!(tests("\"crates/x/tests/x.rs::a_third_thing\""), [""; 0]);
    assert_eq!(
        tests("\"crates/cli/tests/it/interop/cases.rs::gets_a_resource\""),
        [""; 0]
    );
}

#[test]
fn a_missing_or_broken_ledger_is_found() {
    assert_eq!(check(&Tree::of(&[("a.rs", "")])).len(), 1);
    assert_found(&messages("[[requirement"), "not TOML");
}

#[test]
fn a_test_that_does_not_exist_is_found() {
    for name in [
        "no_test",
        "only_a_comment",
        "never_run",
        "nothing_of_the_kind",
        "gets_a_resource",
    ] {
        assert_found(
            &found_with("x.rs::a_thing_happens", &format!("x.rs::{name}")),
            name,
        );
    }
    assert_found(&found_with("tests/x.rs", "tests/y.rs"), "y.rs has no test");
    assert_found(&found_with("x.rs::a_thing", "x.rs:a_thing"), "is not like");
}

#[test]
fn what_is_met_names_tests_and_needs_no_reason() {
    let line = "tests = [\"crates/x/tests/x.rs::a_thing_happens\"]";
    assert_found(&found_with(line, ""), "names no test");
    assert_found(&found_with(line, "tests = []"), "names no test");
    assert_found(&found_with(line, "tests = \"x\""), "is a list");
    assert_found(
        &found_with(line, &format!("{line}\nreason = \"x\"")),
        "no reason",
    );
    let twice = "tests = [\"crates/x/tests/x.rs::no_test\", \"crates/x/tests/x.rs::no_test\"]";
    assert_found(&found_with(line, twice), "twice");
}

#[test]
fn what_is_not_met_gives_a_reason() {
    for status in ["departed", "not-applicable", "open"] {
        let line = "status = \"met\"";
        let changed = format!("status = \"{status}\"");
        assert_found(&found_with(line, &changed), "gives no reason");
        let empty = format!("{changed}\nreason = \" \"");
        assert_found(&found_with(line, &empty), "gives no reason");
        let with = format!("{changed}\nreason = \"it binds a proxy\"");
        assert_eq!(found_with(line, &with), [""; 0]);
    }
}

#[test]
fn words_outside_the_vocabulary_are_found() {
    assert_found(&found_with("\"MUST\"", "\"must\""), "`level` is one of");
    assert_found(&found_with("\"met\"", "\"done\""), "`status` is one of");
    assert_found(&found_with("who = \"recipient\"", ""), "`who`");
    assert_found(&found_with("a thing happens", " "), "`about`");
    assert_found(
        &found_with("who =", "whom = \"x\"\nwho ="),
        "`whom` is no key",
    );
}

#[test]
fn implausible_places_are_found() {
    for id in [
        "rfc7252-4.2",
        "rfc9999-4.2-01",
        "rfc7252-4.x-01",
        "rfc7252-4.2-1",
        "4.2-01",
    ] {
        assert_found(
            &found_with("id = \"rfc7252-4.2-01\"", &format!("id = \"{id}\"")),
            "`id`",
        );
    }
    assert_found(
        &found_with("section = \"4.2\"", "section = \"4.3\""),
        "not that of the id",
    );
    let far = GOOD.replace("4.2", "14.2");
    assert_found(&messages(&ledger(&[&far], 1)), "sections 1 to 13");
    let zero = GOOD.replace("4.2", "4.0");
    assert_found(&messages(&ledger(&[&zero], 1)), "sections 1 to 13");
}

#[test]
fn entries_out_of_order_or_with_gaps_are_found() {
    let later = GOOD.replace("4.2", "4.10");
    assert_eq!(messages(&ledger(&[GOOD, &later], 2)), [""; 0]);
    assert_found(
        &messages(&ledger(&[&later, GOOD], 2)),
        "after a later section",
    );
    let other = GOOD.replace("rfc7252", "rfc7641");
    assert_found(
        &messages(&ledger(&[&other, GOOD], 1)),
        "after a later section",
    );
    assert_found(
        &messages(&ledger(&[GOOD, GOOD], 2)),
        "number 02 is expected",
    );
    let gap = GOOD.replace("-01", "-03");
    assert_found(
        &messages(&ledger(&[GOOD, &gap], 2)),
        "number 02 is expected",
    );
}

#[test]
fn a_lost_entry_is_found_by_the_count_of_key_words() {
    assert_found(&messages(&ledger(&[GOOD], 2)), "`keywords` is not 1");
    let headless = ledger(&[GOOD], 1).replace("[text.rfc7959]", "[text.rfc1]");
    assert_found(&messages(&headless), "[text.rfc7959] is missing");
    let vague = ledger(&[GOOD], 1).replacen("read in full", "skimmed", 1);
    assert_found(&messages(&vague), "`text` is one of");
}

#[test]
fn a_finding_names_the_line_of_its_entry() {
    let second = GOOD.replace("-01", "-02").replace("a_thing", "no_thing");
    let text = ledger(&[GOOD, &second], 2);
    let tree = Tree::of(&[(LEDGER, &text), ("crates/x/tests/x.rs", TESTS)]);
    let found = check(&tree);
    let line = text.lines().position(|line| line.contains("-02"));
    assert_eq!((found.len(), found[0].line), (1, line.map(|line| line + 1)));
}

#[test]
fn summary_counts_by_rfc_level_and_status_and_lists_open() {
    let second = GOOD
        .replace("-01", "-02")
        .replace("\"MUST\"", "\"SHOULD\"")
        .replace("\"met\"", "\"open\"\nreason = \"soon\"");
    let text = ledger(&[GOOD, &second], 2);
    let lines = summary(&Tree::of(&[(LEDGER, &text)]));
    let words: Vec<Vec<_>> = lines
        .iter()
        .map(|l| l.split_whitespace().collect())
        .collect();
    assert_eq!(words[0][..4], ["rfc7252", "MUST", "1", "met"]);
    assert_eq!(words[1][..2], ["rfc7252", "SHOULD"]);
    assert!(lines[1].ends_with("1 open  <-- OPEN"), "{}", lines[1]);
    assert_eq!(words[2][..4], ["rfc7252", "all", "1", "met"]);
    assert!(!lines[0].contains("<--"));
}
