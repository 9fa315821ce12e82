//! Runs `carob bench` and checks invariants of its report.

use serde_json::Value;

use crate::commands::harness::{Ran, carob};

pub(crate) fn bench(words: &str) -> Ran {
    carob(&format!("bench {words}"))
}

/// Returns the JSON report and the exit code.
pub(crate) fn report(words: &str) -> (Value, i32) {
    let ran = bench(&format!("{words} --json"));
    let report: Value = serde_json::from_str(ran.stdout())
        .unwrap_or_else(|error| panic!("{words}: {error}: {ran:?}"));
    adds_up(words, &report);
    (report, ran.code.unwrap())
}

/// The report of a run without errors.
pub(crate) fn flawless(words: &str) -> Value {
    let (report, code) = report(words);
    assert_eq!(code, 0, "{words}: {report}");
    assert_eq!(report["errors"]["total"], 0, "{words}: {report}");
    assert!(count(&report["answered"]) > 0, "{words}: {report}");
    assert_eq!(report["messages"]["wrong"]["total"], 0, "{words}: {report}");
    report
}

pub(crate) fn count(value: &Value) -> u64 {
    value
        .as_u64()
        .unwrap_or_else(|| panic!("{value}: no count"))
}

/// Checks that the counters of a report are consistent.
pub(crate) fn adds_up(words: &str, report: &Value) {
    let sum = |of: &Value, keep: &dyn Fn(&str) -> bool| -> u64 {
        let all = of.as_object().unwrap().iter();
        all.filter(|(key, _)| keep(key))
            .map(|(_, n)| count(n))
            .sum()
    };
    let (answered, errors) = (count(&report["answered"]), &report["errors"]);
    assert_eq!(
        count(&report["requests"]),
        answered + count(&errors["total"]),
        "{words}: {report}"
    );
    assert_eq!(
        sum(errors, &|key| key != "total"),
        count(&errors["total"]),
        "{report}"
    );
    let codes = sum(&report["codes"], &|key| key.starts_with("2."));
    assert_eq!(codes, answered, "{report}");
    let wrong = &report["messages"]["wrong"];
    assert_eq!(
        sum(wrong, &|key| key != "total"),
        count(&wrong["total"]),
        "{report}"
    );
    let latency = &report["latency_us"];
    assert_eq!(latency.is_null(), answered == 0, "{words}: {report}");
    if !latency.is_null() {
        let values =
            ["min", "p50", "p90", "p99", "p999", "max"].map(|key| latency[key].as_f64().unwrap());
        assert!(values.is_sorted(), "{words}: {latency}");
        let mean = latency["mean"].as_f64().unwrap();
        assert!(
            (values[0]..=values[5]).contains(&mean),
            "{words}: {latency}"
        );
        assert_eq!(count(&latency["n"]), answered, "{words}: {report}");
    }
    let open = &report["open_loop"];
    if !open.is_null() && report["interrupted"] == false {
        let sent = count(&report["requests"]) + count(&report["unfinished"]);
        assert_eq!(
            count(&open["intended"]),
            sent + count(&open["not_sent"]),
            "{report}"
        );
    }
}
