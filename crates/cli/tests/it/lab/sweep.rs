//! Sweep files, and batches in parts.

use crate::commands::harness::Parts as _;
use crate::process::Scratch;

const SWEEP: &str = "\
title = \"Rates\"
about = \"Completion times;\"
scenario = \"carob/default\"
seeds = 2

[[row]]
label = \"as is\"

[parameters]
\"down.rate\" = { from = \"20 kbit/s\", to = \"60 kbit/s\", steps = 3 }

[[column]]
name = \"medians, s\"
quantities = [
  \"p50(fct_s, default, default-none)\",
  \"p50(fct_s, cocoa-plus, default-none)\",
]
decimals = 1

[[column]]
name = \"retransmissions\"
quantities = [\"mean(retransmissions, default, default-none)\"]
decimals = 1
";

fn folder() -> Scratch {
    let folder = Scratch::new();
    folder.with("rates.toml", SWEEP);
    folder
}

#[test]
fn sweep_has_row_per_setting_and_column_per_quantity() {
    let folder = folder();
    let table = folder.stdout_of("lab sweep rates.toml");
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines[0], "# Rates");
    assert_eq!(lines.len(), 5 + 2 + 4, "{table}");
    assert!(lines[7].starts_with("| as is |  | "), "{table}");
    assert!(
        lines[10].starts_with("| down.rate=60 kbit/s | `down.rate=60 kbit/s` | "),
        "{table}"
    );
    // Single runs give the same numbers.
    let json = folder.lines("lab sweep rates.toml --json");
    let rows =
        folder.lines("lab run carob/default-none --seeds 2 --set 'down.rate=60 kbit/s' --json");
    let of = |algorithm: &str| {
        let row = rows.iter().find(|row| row["algorithm"] == algorithm);
        row.expect("it was run")["metrics"].clone()
    };
    let quantities = |column: usize| json[3]["columns"][column]["quantities"].clone();
    assert_eq!(quantities(0)[0]["value"], of("default")["fct_s"]["p50"]);
    assert_eq!(quantities(0)[1]["value"], of("cocoa-plus")["fct_s"]["p50"]);
    assert_eq!(
        quantities(1)[0]["value"],
        of("default")["retransmissions"]["mean"]
    );
}

#[test]
fn invalid_sweep_is_refused_with_line_and_remedy() {
    let folder = folder();
    for (from, to, place, remedy) in [
        ("down.rate", "down.ratio", "line 10: ", "`carob lab keys`"),
        (
            "default-none)\",\n]",
            "default-nine)\",\n]",
            "no cell \"default-nine\"",
            "`carob lab show",
        ),
        ("mean(", "mode(", "line 22: ", "a quantity is such as"),
        (
            "carob/default",
            "carob/defualt",
            "unknown scenario",
            "`carob lab list`",
        ),
    ] {
        folder.with("wrong.toml", SWEEP.replace(from, to));
        let error = folder.usage_error("lab sweep wrong.toml");
        error.has(&["wrong.toml: ", place, remedy]);
    }
}

#[test]
fn every_metric_of_a_result_is_in_the_dictionary_with_its_unit() {
    let folder = folder();
    let dictionary = folder.lines("lab metrics --json");
    let unit = |name: &str| {
        let found = dictionary.iter().find(|metric| metric["name"] == name);
        found.map(|metric| metric["unit"].as_str().expect("text").to_owned())
    };
    for (name, expected) in [
        ("fct_s", "s"),
        ("goodput_bps", "bit/s"),
        ("carried_Bps", "B/s"),
        ("throughput_rps", "1/s"),
        ("queue_bytes", "B"),
        ("retransmissions", "1"),
        ("within_1_s", "1"),
    ] {
        assert_eq!(unit(name).as_deref(), Some(expected), "{name}");
    }
    let run = ["lab", "run", "carob/default-none", "--seed", "1", "--json"];
    for row in folder.lines(&run) {
        let metrics = row["metrics"].as_object().expect("metrics").keys();
        for name in metrics {
            assert!(unit(name).is_some(), "{name}");
        }
    }
    let csv = folder.stdout_of("lab metrics --csv");
    assert_eq!(csv.lines().next(), Some("name,unit,meaning,of"));
    assert_eq!(csv.lines().count(), dictionary.len() + 1);
}
