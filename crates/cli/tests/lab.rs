//! The lab as people and programs meet it.

use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;

/// A folder of a test's own, gone with it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("carob-lab-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder for temporary files");
        Self(path)
    }

    /// What the command does when it is called in this folder.
    fn carob(&self, arguments: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_carob"))
            .args(arguments)
            .current_dir(&self.0)
            .output()
            .expect("the command starts")
    }

    /// Stdout of a command that succeeds.
    fn says(&self, arguments: &[&str]) -> String {
        let output = self.carob(arguments);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {error}");
        assert_eq!(
            error, "",
            "{arguments:?}: nothing on stderr without a terminal"
        );
        String::from_utf8(output.stdout).expect("text")
    }

    /// Stdout of a command that succeeds, a JSON value a line.
    fn lines(&self, arguments: &[&str]) -> Vec<Value> {
        let read = |line: &str| serde_json::from_str(line).expect("nothing but JSON");
        self.says(arguments).lines().map(read).collect()
    }

    /// Stderr of a command that is used wrongly.
    fn refuses(&self, arguments: &[&str]) -> String {
        let output = self.carob(arguments);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {error}");
        assert_eq!(output.stdout, b"", "{arguments:?}: nothing on stdout");
        error
    }

    fn files(&self) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(&self.0)
            .expect("the folder")
            .map(|f| {
                f.expect("an entry")
                    .file_name()
                    .to_string_lossy()
                    .into_owned()
            })
            .collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn keys(value: &Value) -> Vec<&str> {
    let object = value.as_object().expect("an object");
    object.keys().map(String::as_str).collect()
}

const NONE: &str = "thesis/long-1c-none-2500";
const HIGH: &str = "thesis/long-1c-high-2500";

#[test]
fn list_groups_scenarios_by_study_and_names_the_studies() {
    let folder = Folder::new("list");
    let text = folder.says(&["lab", "list"]);
    assert!(
        text.contains("Laura Pesola: \"An Experimental Evaluation"),
        "{text}"
    );
    assert!(
        text.contains("  thesis/long\n") && text.contains("  carob/default\n"),
        "{text}"
    );
    assert!(text.contains("Studies without a scenario yet"), "{text}");
    let all: Value = serde_json::from_str(&folder.says(&["lab", "list", "--json"])).expect("JSON");
    let long = all
        .as_array()
        .expect("an array")
        .iter()
        .find(|s| s["name"] == "thesis/long");
    let long = long.expect("thesis/long");
    assert_eq!(
        (&long["year"], &long["study"]),
        (&2020.into(), &"thesis".into())
    );
    assert_eq!(long["cells"].as_array().map(Vec::len), Some(32));
    assert_eq!(long["algorithms"][0], "default");
}

#[test]
fn show_tells_every_key_with_unit_and_origin() {
    let folder = Folder::new("show");
    let text = folder.says(&["lab", "show", NONE, "--set", "block=64 B"]);
    let line = |key: &str| {
        let found = text.lines().find(|line| line.trim_start().starts_with(key));
        found
            .unwrap_or_else(|| panic!("{key} in {text}"))
            .to_owned()
    };
    assert!(line("link.down.rate").contains("30 kbit/s"));
    assert!(line("link.down.rate").contains("scenario, line "));
    assert!(line("link.error_burst_time").ends_with("default"));
    assert!(line("workload.clients").contains("sweep, line "));
    assert!(
        line("workload.block").contains("64 B") && line("workload.block").ends_with("command line")
    );
    assert!(
        text.contains("rto_max 60 s (scenario, line ") && text.contains("rto_max 32 s (profile)")
    );
    assert!(text.contains("cc.k_weak 1") && text.contains(&format!("carob lab run {NONE}")));
}

#[test]
fn show_marks_changed_constants_for_programs_too() {
    let folder = Folder::new("show-json");
    let arguments = [
        "lab",
        "show",
        "thesis/long",
        "--json",
        "--set",
        "cc.k_weak=4",
    ];
    let shown: Value = serde_json::from_str(&folder.says(&arguments)).expect("JSON");
    assert_eq!(shown["cells"].as_array().map(Vec::len), Some(32));
    let cocoa = &shown["algorithms"][1];
    let k_weak = &cocoa["constants"]["k_weak"];
    assert_eq!(
        (&k_weak["value"], &k_weak["changed"]),
        (&"4".into(), &true.into())
    );
    assert_eq!(cocoa["constants"]["k_strong"]["changed"], false);
    assert_eq!(cocoa["transmission"]["rto_max"]["value"], "32 s");
}

#[test]
fn run_json_has_exactly_the_fields_of_the_machine_interface() {
    let folder = Folder::new("json");
    let rows = folder.lines(&["lab", "run", NONE, "--seeds", "3", "--json"]);
    let algorithms = ["default", "cocoa-001", "tcp-newreno", "tcp-bbr1"];
    assert_eq!(rows.len(), algorithms.len());
    for (row, algorithm) in rows.iter().zip(algorithms) {
        assert_eq!(
            keys(row),
            ["algorithm", "cell", "metrics", "runs", "scenario"]
        );
        assert_eq!(
            (&row["scenario"], &row["algorithm"]),
            (&NONE.into(), &algorithm.into())
        );
        assert_eq!(keys(&row["cell"]), ["buffer", "clients", "error"]);
        assert_eq!(
            (&row["cell"]["clients"], &row["runs"]),
            (&1.into(), &3.into())
        );
        let statistics = keys(&row["metrics"]["fct_s"]);
        let expected = [
            "ci95", "max", "mean", "min", "n", "p10", "p25", "p50", "p75", "p90", "p95", "sd",
        ];
        assert_eq!(statistics, expected);
        assert_eq!(row["metrics"]["fct_s"]["n"], 3);
    }
    // Programs get no report they did not ask for.
    assert_eq!(folder.files(), [""; 0]);
}

#[test]
fn each_adds_seed_and_trace_hash_and_hash_adds_hashes() {
    let folder = Folder::new("each");
    let algorithm = ["--algorithm", "default"];
    let run = ["lab", "run", NONE, "--seeds", "2", "--json"];
    let each = folder.lines(&[&run[..], &algorithm, &["--each"]].concat());
    let fields = [
        "algorithm",
        "cell",
        "metrics",
        "scenario",
        "seed",
        "trace_hash",
    ];
    assert_eq!((keys(&each[0]), each.len()), (fields.to_vec(), 2));
    assert_eq!((&each[0]["seed"], &each[1]["seed"]), (&1.into(), &2.into()));
    assert_ne!(each[0]["trace_hash"], each[1]["trace_hash"]);
    let hashed = folder.lines(&[&run[..], &algorithm, &["--hash"]].concat());
    for hash in ["scenario_hash", "trace_hash"] {
        assert_eq!(hashed[0][hash].as_str().map(str::len), Some(16), "{hash}");
    }
}

#[test]
fn a_seed_replays_one_run_with_the_same_trace_on_any_number_of_threads() {
    let folder = Folder::new("seed");
    let run = |threads: &str| {
        let arguments = [
            "lab",
            "run",
            HIGH,
            "--seed",
            "7",
            "--threads",
            threads,
            "--no-report",
        ];
        let text = folder.says(&arguments);
        let line = text
            .lines()
            .find(|l| l.contains("cocoa-001"))
            .expect("its row");
        line.split_whitespace().last().expect("a hash").to_owned()
    };
    let hash = run("1");
    assert_eq!(
        (hash.len(), run("1"), run("2")),
        (16, hash.clone(), hash.clone())
    );
    let each = [
        "lab",
        "run",
        HIGH,
        "--seeds",
        "7",
        "--algorithm",
        "cocoa-001",
        "--each",
        "--json",
    ];
    // Among many seeds it is the same run.
    assert_eq!(folder.lines(&each)[6]["trace_hash"], *hash);
    assert_eq!(folder.files(), [""; 0]);
}

#[test]
fn set_changes_what_is_run() {
    let folder = Folder::new("set");
    let median = |set: &[&str]| {
        let run = [
            "lab",
            "run",
            NONE,
            "--seed",
            "1",
            "--algorithm",
            "default",
            "--json",
        ];
        let row = folder.lines(&[&run[..], set].concat()).remove(0);
        row["metrics"]["fct_s"]["p50"].as_f64().expect("a number")
    };
    let usual = median(&[]);
    assert!((usual - 285.7).abs() < 1.5, "{usual}");
    let half = median(&["--set", "workload.response=51200 B"]);
    assert!((half - usual / 2.0).abs() < 1.0, "{half}");
    // 85 ms more each way, 400 times.
    let far = median(&["--set", "extra_delay=100 ms"]);
    assert!((far - usual - 68.0).abs() < 0.5, "{far}");
}

#[test]
fn run_writes_a_report_that_needs_nothing_else() {
    let folder = Folder::new("report");
    let text = folder.says(&[
        "lab",
        "run",
        HIGH,
        "--seeds",
        "5",
        "--algorithm",
        "default,cocoa-03",
    ]);
    assert!(
        text.contains("Report: reports/thesis-long-1c-high-2500.html\n"),
        "{text}"
    );
    assert!(text.contains("Next:\n  carob lab run "), "{text}");
    let file = folder.0.join("reports/thesis-long-1c-high-2500.html");
    let html = std::fs::read_to_string(file).expect("the report");
    assert!(html.starts_with("<!DOCTYPE html>") && html.contains("<svg class=\"figure\""));
    for outside in ["<script", "<link", "@import", "src="] {
        assert!(!html.contains(outside), "{outside}");
    }
    let command = "carob lab run thesis/long-1c-high-2500 --algorithm default,cocoa-03 --seeds 5";
    assert!(html.contains(command), "the command that repeats it");
    assert!(html.len() < 5_000_000);
}

#[test]
fn a_report_goes_where_it_is_told() {
    let folder = Folder::new("report-file");
    let run = [
        "lab",
        "run",
        HIGH,
        "--seed",
        "3",
        "--json",
        "--report",
        "deep/er.html",
    ];
    folder.says(&run);
    let html = std::fs::read_to_string(folder.0.join("deep/er.html")).expect("the report");
    assert!(html.contains("Blocks over time") && html.contains("Timers"));
    let output = folder.carob(&[
        "lab",
        "run",
        NONE,
        "--seed",
        "1",
        "--report",
        "deep/er.html/x",
    ]);
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("cannot write deep/er.html/x"), "{error}");
}

#[test]
fn csv_has_a_line_per_metric() {
    let folder = Folder::new("csv");
    let text = folder.says(&["lab", "run", NONE, "--seeds", "2", "--csv"]);
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("scenario,buffer,clients,error,algorithm,runs,metric,mean,"));
    let fct: Vec<&&str> = lines.iter().filter(|l| l.contains(",fct_s,")).collect();
    assert_eq!(fct.len(), 4, "{text}");
    assert!(
        fct[0].starts_with(&format!("{NONE},2500,1,none,default,2,fct_s,")),
        "{text}"
    );
}

#[test]
fn a_scenario_of_ones_own_runs_from_its_file() {
    let folder = Folder::new("own");
    let text = "about = \"Mine.\"\nstudy = \"mine\"\nfamily = \"link\"\ncell = \"link-{error}\"\n\
        [sweep]\nerror = [\"none\", \"low\"]\n[run]\nalgorithms = [\"default\"]\nseeds = 2\n\
        [workload]\nkind = \"blockwise-get\"\nresponse = \"1 kB\"\n\
        [link]\ndown.rate = \"30 kbit/s\"\nup.rate = \"60 kbit/s\"\n";
    std::fs::write(folder.0.join("link.toml"), text).expect("a file");
    let rows = folder.lines(&["lab", "run", "link.toml", "--json"]);
    assert_eq!(
        (rows.len(), &rows[1]["scenario"]),
        (2, &"mine/link-low".into())
    );
    // What people see works for it too.
    assert!(
        folder
            .says(&["lab", "run", "./link.toml"])
            .contains("Report: reports/link.html")
    );

    let wrong = text.replace("down.rate", "down.rat");
    std::fs::write(folder.0.join("link.toml"), wrong).expect("a file");
    let error = folder.refuses(&["lab", "run", "link.toml"]);
    assert!(error.contains("link.toml:14:"), "{error}");
    assert!(
        error.contains("did you mean \"link.down.rate\"?"),
        "{error}"
    );
    let output = folder.carob(&["lab", "run", "missing.toml"]);
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn wrong_names_find_their_nearest() {
    let folder = Folder::new("names");
    for (arguments, expected) in [
        (&["thesis/lon"][..], "did you mean \"thesis/long\"?"),
        (&["long"], "did you mean \"thesis/long\"?"),
        (
            &["thesis/long-1c-non-2500"],
            "did you mean \"long-1c-none-2500\"?",
        ),
        (
            &[NONE, "--algorithm", "cocoa-3"],
            "--algorithm cocoa-3: unknown controller \"cocoa-3\"; did you mean \"cocoa-03\"?",
        ),
        (
            &[NONE, "--set", "rto_mx=3 s"],
            "did you mean \"transmission.rto_max\"?",
        ),
        (
            &[NONE, "--set", "rate=3 kbit/s"],
            "may be link.down.rate or link.up.rate",
        ),
        (
            &[NONE, "--set", "cc.k_week=1", "--algorithm", "cocoa-03"],
            "cocoa-03 has no constant \"k_week\"",
        ),
        (&["zzz"], "no scenario \"zzz\""),
    ] {
        let error = folder.refuses(&[&["lab", "run"], arguments].concat());
        assert!(error.contains(expected), "{arguments:?}: {error}");
    }
    let error = folder.refuses(&["lab", "reproduce", "thesys"]);
    assert!(
        error.contains("there are: ") && error.contains("thesis"),
        "{error}"
    );
}

#[test]
fn wrong_values_name_what_is_expected() {
    let folder = Folder::new("values");
    for (set, expected) in [
        (
            "down.rate=30",
            "link.down.rate = \"30\": expected a rate with its unit",
        ),
        (
            "rto_max=3 furlongs",
            "expected a time with its unit (us, ms, s, min, h)",
        ),
        ("error=severe", "expected none or low or medium or high"),
        ("block=100 B", "a block is a power of two (RFC 7959)"),
        ("buffer=100 B", "too small for a packet of link.mtu (296 B)"),
        ("down.rate", "write key=value"),
    ] {
        let error = folder.refuses(&["lab", "run", NONE, "--set", set]);
        assert!(error.contains(expected), "{set}: {error}");
        assert!(error.contains(&format!("--set {set}")), "{set}: {error}");
    }
    for arguments in [
        &["--seeds", "0"][..],
        &["--seeds", "2", "--seed", "1"],
        &["--threads", "0"],
        &["--json", "--csv"],
        &["--seeds", "99999999999"],
    ] {
        folder.refuses(&[&["lab", "run", NONE], arguments].concat());
    }
}

#[test]
fn without_arguments_it_compares_controllers_and_says_what_is_next() {
    let folder = Folder::new("default");
    let text = folder.says(&[]);
    for part in [
        "carob/default-high",
        "The choice matters most with error high: ",
        "Report: reports/carob-default.html\n",
        "Next:\n",
        "carob lab reproduce thesis",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(folder.0.join("reports/carob-default.html").exists());
    // `carob lab run` is the same, and its rows are what `--json` prints.
    let rows = folder.lines(&["lab", "run", "--json", "--seeds", "2"]);
    assert_eq!(rows.len(), 4 * 3);
}

#[test]
fn reproduce_shows_print_beside_ours_with_verdicts() {
    let folder = Folder::new("reproduce");
    let text = folder.says(&["lab", "reproduce", "thesis"]);
    for part in [
        "Laura Pesola: ",
        "long-1c-high-2500",
        "cocoa-001 (cc.vbf_on=init-dithered)",
        "nearest to print in",
        "Note: tcp-bbr1 in long-1c-none-2500, ",
        "25 % or p25-p75",
        "Report: reports/reproduce-thesis.html\n",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(
        !text.contains("STALE") && !text.contains("Undecided"),
        "{text}"
    );
    let html = std::fs::read_to_string(folder.0.join("reports/reproduce-thesis.html"));
    let html = html.expect("the report");
    assert!(html.contains("<svg class=\"figure\"") && html.contains("the stalled flow"));
}

#[test]
fn reproduce_draws_the_runs_that_the_text_explains() {
    let folder = Folder::new("reproduce-figures");
    let run =
        |arguments: &[&str]| folder.says(&[&["lab", "reproduce", "thesis"], arguments].concat());
    let page = run(&["--figures", "--threads", "1"]);
    assert_eq!(page, run(&["--figures", "--threads", "2"]));
    // Every figure of the page is there, as a file of its own.
    let names = page.split("](thesis/").skip(1);
    let names: Vec<&str> = names
        .filter_map(|rest| Some(rest.split_once(".svg)")?.0))
        .collect();
    assert!(names.contains(&"overshoot") && names.contains(&"fct-4c-low"));
    for name in names {
        let svg = run(&["--svg", name]);
        assert!(svg.starts_with("<svg") && svg.len() < 200_000, "{name}");
    }
    assert!(
        page.contains("carob lab run thesis/long-1c-none-28200 --algorithm tcp-newreno --seed")
    );
    let error = folder.refuses(&["lab", "reproduce", "thesis", "--svg", "nothing"]);
    assert!(error.contains("overshoot"), "{error}");
}

#[test]
fn reproduce_json_has_the_fields_of_the_machine_interface() {
    let folder = Folder::new("reproduce-json");
    let rows = folder.lines(&["lab", "reproduce", "thesis", "--json"]);
    let fields = [
        "algorithm",
        "ours",
        "paper",
        "ratio",
        "row",
        "study",
        "table",
        "verdict",
    ];
    // Of 52 printed rows 6 are of cocoa-001, which has two readings.
    assert_eq!(rows.len(), (52 + 6) * 8);
    let is_tcp = |row: &Value| {
        row["algorithm"]
            .as_str()
            .is_some_and(|a| a.starts_with("tcp-"))
    };
    assert_eq!(rows.iter().filter(|row| is_tcp(row)).count(), 40 * 8);
    for row in &rows {
        assert_ne!(row["verdict"], "undecided");
        if row.get("note").is_none() {
            assert_eq!(keys(row), fields);
        }
    }
    let medians = rows.iter().filter(|row| row["row"]["statistic"] == "p50");
    assert!(
        medians
            .clone()
            .all(|row| is_tcp(row) || row["verdict"] == "holds")
    );
    // Where a real kernel leaves the thesis, too, the verdict is ours and the note says so.
    let high = medians.clone().find(|row| {
        let kind = &row["row"];
        (&row["algorithm"], &kind["error"], &kind["buffer"])
            == (&"tcp-newreno".into(), &"high".into(), &14_100.into())
    });
    let high = high.expect("in print");
    assert_eq!(high["verdict"], "fails");
    assert!(
        high["note"]
            .as_str()
            .is_some_and(|note| note.contains("kernel")),
        "{high}"
    );
}

#[test]
fn reproduce_runs_again_with_another_number_of_seeds() {
    let folder = Folder::new("reproduce-fresh");
    let text = folder.says(&["lab", "reproduce", "thesis", "--seeds", "3", "--no-report"]);
    assert!(text.contains("thesis/long, 3 seeds, run in "), "{text}");
}

#[test]
fn an_event_log_has_every_endpoint_and_changes_nothing() {
    let folder = Folder::new("log");
    let words = "lab run thesis/long-1c-low-2500 --algorithm cocoa-03 --seed 7 --json --each";
    let plain: Vec<&str> = words.split(' ').collect();
    let logged: Vec<&str> = plain.iter().copied().chain(["--log", "log"]).collect();
    assert_eq!(folder.says(&plain), folder.says(&logged));
    let text = std::fs::read_to_string(folder.0.join("log")).expect("the log");
    let read = |line: &str| serde_json::from_str(line).expect("nothing but JSON");
    let lines: Vec<Value> = text.lines().map(read).collect();
    let of = |host: u64, event: &str| {
        let matching = |line: &&Value| line["host"] == host && line["event"] == event;
        lines.iter().filter(matching).count()
    };
    // A body of 400 blocks: each is asked for, answered and heard of at both ends.
    assert_eq!(of(0, "answered"), 400);
    assert!(of(0, "sent") >= 400 && of(1, "received") >= 400);
    assert!(of(1, "replied") >= 400 && of(0, "received") >= 400);
    let times: Vec<_> = lines.iter().map(|line| line["at_us"].as_u64()).collect();
    assert!(times.is_sorted());
}

#[test]
fn patterns_run_several_cells_under_many_controllers_side_by_side() {
    let folder = Folder::new("patterns");
    let cells = "thesis/long-1c-*-2500";
    let arguments = ["lab", "run", cells, "-a", "cocoa-*,fasor", "--seeds", "1"];
    let text = folder.says(&arguments);
    let header = text.lines().find(|line| line.starts_with("algorithm"));
    let header = header.expect("a table of medians");
    for error in ["none", "low", "medium", "high"] {
        assert!(header.contains(&format!("error {error}")), "{header}");
    }
    for line in ["cocoa-03 ", "cocoa-strong * ", "fasor "] {
        assert!(text.lines().any(|l| l.starts_with(line)), "{line}: {text}");
    }
    assert!(text.contains("this project's choice"), "{text}");
    assert!(text.contains(&format!("carob lab run '{cells}'")), "{text}");
    let report = folder.0.join("reports/thesis-long-1c-all-2500.html");
    let report = std::fs::read_to_string(report).expect("a report");
    assert!(
        report.contains("Medians of flow completion times") && report.contains("cocoa-strong *")
    );

    let error = folder.refuses(&["lab", "show", cells]);
    assert!(
        error.contains("a pattern, where one cell is meant"),
        "{error}"
    );
    let error = folder.refuses(&["lab", "run", "thesis/long-9c-*"]);
    assert!(error.contains("no cell \"long-9c-*\""), "{error}");
    let error = folder.refuses(&["lab", "run", cells, "-a", "kokoa-*"]);
    assert!(error.contains("unknown controller \"kokoa-*\""), "{error}");
}

const STREAM: &str = "thesis/long-1c-none-28200";

#[test]
fn notifications_are_told_in_numbers_and_figures_of_their_own() {
    let folder = Folder::new("notifications");
    let cell = "nonobserve/umts-1s-25S3n";
    let few = ["--seeds", "2", "--set", "duration=1 min", "--no-report"];
    let run = |more: &[&str]| folder.says(&[&["lab", "run", cell], &few[..], more].concat());
    let table = run(&[]);
    for part in [
        "PDR",
        "ratio",
        "buffer",
        "CON",
        "delay s",
        "of the notifications,",
    ] {
        assert!(table.contains(part), "{part}: {table}");
    }
    assert!(!table.contains("median s"), "{table}");
    let rows = folder.lines(&[&["lab", "run", cell, "--json"], &few[..4]].concat());
    let of = |row: usize, metric: &str| rows[row]["metrics"][metric]["mean"].as_f64();
    let [default, observe] = [of(0, "pdr"), of(1, "pdr")].map(|pdr| pdr.expect("a share"));
    // 75 packets meet a buffer of 50; Observe sends one of nine.
    assert!(
        (0.65..0.67).contains(&default) && observe < 0.15,
        "{default} {observe}"
    );
    assert_eq!(of(0, "notifications"), Some(60.0 * 75.0));
    let pdr = run(&["--svg", "pdr"]);
    let rto = run(&["--svg", "rto"]);
    assert!(
        pdr.starts_with("<svg") && pdr.contains("PDR over that of default"),
        "{pdr}"
    );
    assert!(
        rto.starts_with("<svg") && rto.contains("Retransmission timeout"),
        "{rto}"
    );
    let set = ["--set", "message=16 B", "--set", "token_bytes=8"];
    let refused = folder.refuses(&[&["lab", "run", cell], &set[..]].concat());
    assert!(
        refused.contains("workload.message") && refused.contains("at least 22 bytes"),
        "{refused}"
    );
}

#[test]
fn a_report_of_notifications_has_their_figures() {
    let folder = Folder::new("notifications-report");
    let set = ["--set", "duration=30 s", "--set", "subscribers=5"];
    let run = [
        "lab",
        "run",
        "nonobserve/umts",
        "--seeds",
        "1",
        "--report",
        "r.html",
    ];
    folder.says(&[&run[..], &set].concat());
    let html = std::fs::read_to_string(folder.0.join("r.html")).expect("a report");
    assert!(html.contains("What arrives.") && html.contains("Timeouts in the beginning."));
    assert!(!html.contains("Completion times") && !html.contains("NaN"));
}

#[test]
fn transfers_over_tcp_have_their_metrics_beside_print() {
    let folder = Folder::new("tcp");
    let run = ["lab", "run", STREAM, "--seeds", "2"];
    let rows = folder.lines(&[&run[..], &["--json"]].concat());
    let names: Vec<&Value> = rows.iter().map(|row| &row["algorithm"]).collect();
    assert_eq!(names, ["tcp-newreno", "tcp-bbr1"]);
    for row in &rows {
        for metric in [
            "fct_s",
            "setup_s",
            "segments",
            "retransmissions",
            "rto_count",
            "queue_bytes",
        ] {
            assert_eq!(row["metrics"][metric]["n"], 2, "{metric}");
        }
    }
    let newreno = &rows[0]["metrics"];
    let (segments, again) = (
        &newreno["segments"]["p50"],
        &newreno["retransmissions"]["p50"],
    );
    let new = segments
        .as_f64()
        .zip(again.as_f64())
        .map(|(all, again)| all - again);
    assert_eq!(new, Some(402.0));
    let text = folder.says(&[&run[..], &["--report", "tcp.html"]].concat());
    assert!(
        text.contains("tcp-newreno") && text.contains("95.14"),
        "{text}"
    );
    let html = std::fs::read_to_string(folder.0.join("tcp.html")).expect("a report");
    assert!(html.contains("Sequence numbers over time") && html.contains("Box plots"));
}

#[test]
fn settings_of_tcp_are_shown_and_changed_and_wrong_ones_name_the_nearest() {
    let folder = Folder::new("tcp-set");
    let show = [
        "lab",
        "show",
        STREAM,
        "--set",
        "rto_max=60 s",
        "--set",
        "tcp.sack=true",
    ];
    let text = folder.says(&show);
    assert!(
        text.contains("tcp.rto_max 60 s (changed)") && text.contains("tcp.sack true (changed)")
    );
    assert!(
        text.contains("tcp.mss 256,") && text.contains("tcp.bbr_era 2016"),
        "{text}"
    );
    let shown: Value =
        serde_json::from_str(&folder.says(&[&show[..], &["--json"]].concat())).expect("JSON");
    let newreno = &shown["algorithms"][2];
    assert_eq!(
        (&newreno["name"], &newreno["transport"]),
        (&"tcp-newreno".into(), &"tcp".into())
    );
    assert_eq!(newreno["constants"]["sack"]["changed"], true);
    assert_eq!(newreno["constants"]["ack_delay"]["value"], "200 ms");
    assert_eq!(shown["algorithms"][0]["transport"], "udp");

    let output = folder.carob(&["lab", "run", STREAM, "--set", "tcp.sakc=true"]);
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("did you mean \"tcp.sack\"?"), "{error}");

    let hash = |set: &[&str]| {
        let run = [
            "lab",
            "run",
            STREAM,
            "--algorithm",
            "tcp-newreno",
            "--seed",
            "1",
            "--each",
            "--json",
        ];
        folder.lines(&[&run[..], set].concat())[0]["trace_hash"].clone()
    };
    assert_eq!(hash(&[]), hash(&["--threads", "1"]));
    assert_ne!(hash(&[]), hash(&["--set", "tcp.sack=true"]));
    assert_ne!(hash(&[]), hash(&["--set", "queue=red"]));
}

/// Packets of a pcapng file: time in microseconds, and bytes from the IP header on.
fn packets(file: &std::path::Path) -> Vec<(u64, Vec<u8>)> {
    let bytes = std::fs::read(file).expect("a capture");
    let word = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    assert_eq!(
        (word(0), word(8)),
        (0x0a0d_0d0a, 0x1a2b_3c4d),
        "a section in big endian"
    );
    let (mut all, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        if word(at) == 6 {
            let nanoseconds = u64::from(word(at + 12)) << 32 | u64::from(word(at + 16));
            let length = word(at + 20) as usize;
            all.push((
                nanoseconds / 1_000,
                bytes[at + 28..at + 28 + length].to_vec(),
            ));
        }
        at += word(at + 4) as usize;
    }
    all
}

#[test]
fn a_run_is_written_as_a_capture_of_whole_packets_at_virtual_times() {
    let folder = Folder::new("pcap");
    for (algorithm, protocol, first) in [("tcp-newreno", 6, 48), ("default", 17, 38)] {
        let run = [
            "lab",
            "run",
            "thesis/long-1c-low-14100",
            "--algorithm",
            algorithm,
        ];
        let rest = ["--seed", "1", "--pcap", "run.pcapng", "--json"];
        let rows = folder.lines(&[&run[..], &rest].concat());
        let all = packets(&folder.0.join("run.pcapng"));
        assert!(all.len() > 600, "{algorithm}: {}", all.len());
        assert!(all.is_sorted_by(|a, b| a.0 <= b.0));
        assert!(
            all.iter()
                .all(|(_, p)| p[0] == 0x45 && p[9] == protocol && p.len() <= 296)
        );
        // A SYN with its options; a GET.
        assert_eq!(all[0].1.len(), first, "{algorithm}");
        // It ends with the run, which began with the client's first packet.
        let span = (all[all.len() - 1].0 - all[0].0) as f64 / 1e6;
        let fct = rows[0]["metrics"]["fct_s"]["p50"]
            .as_f64()
            .expect("a number");
        assert!(
            span <= fct + 1.0 && span > fct - 2.0,
            "{algorithm}: {span} {fct}"
        );
    }
    let several = [
        "lab",
        "run",
        "thesis/long-1c-low-2500",
        "--seed",
        "1",
        "--pcap",
        "all.pcapng",
    ];
    let output = folder.carob(&several);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("a capture is of one run"));
    let output = folder.carob(&["lab", "run", STREAM, "--pcap", "all.pcapng"]);
    assert_eq!(output.status.code(), Some(2), "it takes --seed");
}
