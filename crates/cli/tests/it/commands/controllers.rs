//! `carob cc`: listing, explanation and comparison of controllers.

use serde_json::{Value, json};

use crate::commands::harness::{Members as _, Parts as _, Ran, carob, carob_reading};
use crate::process::Scratch;

/// Runs `carob cc trace` on a script, without a figure.
fn trace(script: &str, arguments: &[&str]) -> Ran {
    let all = [&["cc", "trace", "-", "--no-figure"], arguments].concat();
    carob_reading(&all, script.as_bytes())
}

#[test]
fn list_has_a_line_per_controller_grouped_by_family() {
    let ran = carob("cc list");
    let text = ran.quiet();
    assert!(text.starts_with("family "), "{text}");
    assert_eq!(text.matches("\ncocoa ").count(), 1, "{text}");
    let all: Value = serde_json::from_str(carob("cc list --json").quiet()).unwrap();
    for controller in all.as_array().unwrap() {
        let name = controller["name"].as_str().unwrap();
        assert!(text.contains(&format!(" {name} ")), "{name} in {text}");
        let choice = controller["choice"].is_string();
        assert_eq!(controller["project_choice"], choice, "{name}");
        assert_eq!(text.contains(&format!(" {name} *")), choice, "{name}");
        assert!(controller["family"].is_string(), "{name}");
    }
}

#[test]
fn an_explanation_has_source_family_suggestions_and_constants() {
    let ran = carob("cc show cocoa-001");
    let text = ran.quiet();
    text.has(&[
        "cocoa-001: ",
        "\nfamily: cocoa, with ",
        "\nsource: Pesola 2020",
        "\nsuggests MAX_RETRANSMIT = 20",
        "\nsuggests timers of at most 32 s",
        "\n  k_weak ",
        "\nits timers: carob cc trace --demo -a cocoa-001\n",
    ]);
}

#[test]
fn unknown_controller_of_a_trace_suggests_similar_names() {
    let said = trace("rtt 1 s", &["-a", "cocoa-3"]);
    said.refused(2).has(&[
        "--algorithm cocoa-3: unknown controller",
        "did you mean \"cocoa-03\"",
    ]);
}

#[test]
fn a_script_becomes_a_table_of_timers() {
    let script = "rtt 1 s\nlost 1, rtt 1 s\nrtt 3.5 s # too late for 2 s\nfail\n";
    let ran = trace(script, &["-a", "default,cocoa-03", "--dither", "low"]);
    // RTO of cocoa-03: (2 + 1 + 2)/2 = 2.5 at first. A weak sample of 2.5 + 1 s gives 3.5 + 1.75 = 5.25, so the RTO
    // is 3/4 x 2.5 + 1/4 x 5.25 = 3.1875. Another of 3.5 s gives 3.5 + 1.3125, so 3.59375. Four backoffs by 1.5
    // take 47.39 s, after which the RTO has aged to 1 + 3.59375/2.
    let expected = "\
stdin: 4 exchanges; every random draw is the low end of its range

#  event            default  ×   cocoa-03  ×    RTO
─  ───────────────  ───────  ──  ────────  ──  ────
1  rtt 1 s             2.00  1       2.00  1   2.50
2  lost 1, rtt 1 s     2.00  2       2.50  2   3.19
3  rtt 3.5 s           2.00  2!      3.19  2!  3.59
4  fail                2.00  5✗      3.59  5✗  2.80
Under each controller the first timer in seconds, × transmissions (! some spurious, \
✗ given up) and the RTO afterwards.

controller  took s  sent  retransmissions  spurious  given up  longest timer s
──────────  ──────  ────  ───────────────  ────────  ────────  ───────────────
default      69.50    10                6         1         1            32.00
cocoa-03     55.39    10                6         1         1            18.19
Times are in seconds, took without the script's pauses; spurious are transmissions although an \
earlier one was about to be answered.
";
    assert_eq!(ran.quiet(), expected);
}

#[test]
fn seed_draws_equally_for_controllers_and_settings_apply() {
    let with = |arguments: &[&str]| trace("lost 4, rtt 1 s x 3", arguments).quiet().to_owned();
    let seven = with(&["-a", "default,observe-static", "--seed", "7"]);
    assert_eq!(
        seven,
        with(&["-a", "default,observe-static", "--seed", "7"])
    );
    assert_ne!(
        seven,
        with(&["-a", "default,observe-static", "--seed", "8"])
    );
    assert!(seven.starts_with("stdin: 3 exchanges; every random draw is what seed 7 gives"));
    let totals = |text: &str, name: &str| {
        let line = text.lines().rfind(|line| line.starts_with(name)).unwrap();
        line[name.len()..].trim().to_owned()
    };
    assert_eq!(totals(&seven, "default"), totals(&seven, "observe-static"));
    let capped = with(&["-a", "default", "--set", "rto_max=6 s", "--dither", "low"]);
    assert!(totals(&capped, "default").ends_with(" 6.00"), "{capped}");
    let fewer = with(&["-a", "default", "--set", "max_retransmit=3"]);
    fewer.has(&["4✗"]);
}

#[test]
fn trace_is_available_as_json_and_csv() {
    let script = "phase a, b\nrtt 3 s\nidle 10 s\nnotify, rtt 1 s\n";
    let arguments = ["-a", "default,cocoa-03", "--dither", "low"];
    let rows = trace(script, &[&arguments[..], &["--json"]].concat()).json();
    assert_eq!(rows.len(), 2);
    rows[0].includes(json!({"algorithm": "default", "dither": "low", "seed": null}));
    rows[0].includes(json!({"spurious": 1, "idle_s": 10.0}));
    let events = rows[1]["events"].as_array().unwrap();
    events[0].includes(json!({"what": "rtt 3 s", "phase": "a, b", "transmissions": 2}));
    let outcomes: Vec<_> = events.iter().map(|event| &event["outcome"]).collect();
    assert_eq!(outcomes, ["answered", "idle", "unconfirmed"]);

    let ran = trace(script, &[&arguments[..], &["--csv"]].concat());
    let lines: Vec<&str> = ran.quiet().lines().collect();
    assert_eq!(lines.len(), 1 + 2 * 3);
    assert!(
        lines[0].starts_with("algorithm,event,phase,what,"),
        "{}",
        lines[0]
    );
    assert!(lines[1].starts_with("default,1,\"a, b\",rtt 3 s,0,0,3,answered,2,0,1,2,2 4,"));
}

#[test]
fn demo_prints_a_table_and_draws_a_figure() {
    let scratch = Scratch::new();
    let text = scratch.stdout_of("cc trace --demo");
    assert!(text.starts_with("demo: "), "{text}");
    text.has(&[
        "steady",
        "one loss",
        "full buffer",
        "dead link",
        "idle 300 s",
    ]);
    text.has(&["\nFigure: reports/trace-demo.svg\n"]);
    let figure = scratch.read_text("reports/trace-demo.svg");
    assert!(figure.starts_with("<svg") && figure.contains("<style>"));
    assert!(figure.contains(">default</text>") && figure.contains(">cocoa-03</text>"));

    // `-a all` draws one panel per controller.
    let named = scratch.text("all.svg");
    scratch.stdout_of(&format!("cc trace --demo -a all --figure {named}"));
    let figure = scratch.read_text("all.svg");
    let all: Value = serde_json::from_str(carob("cc list --json").quiet()).unwrap();
    for controller in all.as_array().unwrap() {
        let name = controller["name"].as_str().unwrap();
        assert!(figure.contains(&format!(">{name}</text>")), "{name}");
    }
}

#[test]
fn each_option_lists_all_events() {
    let short = trace("rtt 1 s x 90", &["-a", "default"]);
    assert!(
        short
            .quiet()
            .contains("\n88 more events: --each shows them.\n")
    );
    let all = trace("rtt 1 s x 90", &["-a", "default", "--each"]);
    assert_eq!(all.quiet().matches("rtt 1 s").count(), 90);
    assert!(!all.quiet().contains("more events"));
}

#[test]
fn script_errors_have_file_and_line() {
    let scratch = Scratch::new();
    let file = scratch.with("path.txt", "rtt 1 s\nrtt fast\n");
    let ran = carob(&format!("cc trace {file}"));
    let said = ran.refused(2);
    let expected =
        format!("{file}:2: found \"fast\", expected a time with its unit, such as 400 ms");
    assert!(said.contains(&expected), "{said}");
    said.has(&["hint: `carob cc trace --help` lists the words"]);
    let ran = trace("idel 1 s", &[]);
    ran.refused(2)
        .has(&["stdin:1: found \"idel\"", "did you mean idle?"]);
    let binary = scratch.with("binary", [b"rtt 1 s\n", &[0xff, 0xfe, b'\n'][..]].concat());
    let ran = carob(&format!("cc trace {binary}"));
    assert!(
        ran.refused(2)
            .contains(&format!("{binary}:2: found bytes that are no text"))
    );
    let ran = carob(&["cc", "trace", &scratch.text("missing")]);
    ran.refused(1).has(&["cannot read"]);
    let ran = trace("rtt 1 s", &["--set", "cc.k_weka=4"]);
    ran.refused(2).has(&["did you mean cc.k_weak?"]);
}
