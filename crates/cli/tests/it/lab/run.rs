//! `carob lab run`: tables, JSON, reports.

use serde_json::{Value, json};

use crate::commands::harness::{Members as _, Parts as _};
use crate::lab::{HIGH, NONE, keys};
use crate::process::Scratch;

#[test]
fn run_json_has_exactly_the_fields_of_the_machine_interface() {
    let folder = Scratch::new();
    let rows = folder.lines(&format!("lab run {NONE} --seeds 3 --json"));
    let algorithms = ["default", "cocoa-001", "tcp-newreno", "tcp-bbr1"];
    assert_eq!(rows.len(), algorithms.len());
    for (row, algorithm) in rows.iter().zip(algorithms) {
        assert_eq!(
            keys(row),
            ["algorithm", "cell", "metrics", "runs", "scenario"]
        );
        row.includes(json!({"scenario": NONE, "algorithm": algorithm, "runs": 3}));
        assert_eq!(keys(&row["cell"]), ["buffer", "clients", "error"]);
        assert_eq!(row["cell"]["clients"], 1);
        let statistics = keys(&row["metrics"]["fct_s"]);
        let expected = [
            "ci95", "max", "mean", "min", "n", "p10", "p25", "p50", "p75", "p90", "p95", "p99",
            "sd",
        ];
        assert_eq!(statistics, expected);
        assert_eq!(row["metrics"]["fct_s"]["n"], 3);
    }
    // `--json` suppresses the default report.
    assert_eq!(folder.files(), [""; 0]);
}

#[test]
fn each_adds_seed_and_trace_hash_and_hash_adds_hashes() {
    let folder = Scratch::new();
    let run = format!("lab run {NONE} --seeds 2 --json --algorithm default");
    let each = folder.lines(&format!("{run} --each"));
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
    let hashed = folder.lines(&format!("{run} --hash"));
    for hash in ["scenario_hash", "trace_hash"] {
        assert_eq!(hashed[0][hash].as_str().map(str::len), Some(16), "{hash}");
    }
}

#[test]
fn seed_replays_same_trace_on_any_number_of_threads() {
    let folder = Scratch::new();
    let run = |threads: &str| {
        let text = folder.stdout_of(&format!(
            "lab run {HIGH} --seed 7 --threads {threads} --no-report"
        ));
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
    // The same run as one of many seeds.
    let each = format!("lab run {HIGH} --seeds 7 --algorithm cocoa-001 --each --json");
    assert_eq!(folder.lines(&each)[6]["trace_hash"], *hash);
    assert_eq!(folder.files(), [""; 0]);
}

#[test]
fn header_states_faults_and_server_where_there_are_any() {
    let folder = Scratch::new();
    let run = |set: &str| {
        let name = "carob/faults-outage";
        folder.stdout_of(&format!(
            "lab run {name} --seeds 1 --algorithm default --set '{set}'"
        ))
    };
    let plain = run("workload.requests=5");
    let faults = "\nFaults: outage 10 s, outage interval 20 s, outage duration 3 s\n";
    plain.has(&[faults]);
    assert!(!plain.contains("\nServer: "), "{plain}");
    let busy = run("server.service=20 ms");
    busy.has(&["\nServer: service 20 ms"]);
}

#[test]
fn set_option_changes_the_run() {
    let folder = Scratch::new();
    let median = |set: &str| {
        let run = format!("lab run {NONE} --seed 1 --algorithm default --json {set}");
        let row = folder.lines(&run).remove(0);
        row["metrics"]["fct_s"]["p50"].as_f64().expect("a number")
    };
    let usual = median("");
    assert!((usual - 285.7).abs() < 1.5, "{usual}");
    let half = median("--set 'workload.response=51200 B'");
    assert!((half - usual / 2.0).abs() < 1.0, "{half}");
    // 85 ms of additional one-way delay for 400 exchanges.
    let far = median("--set 'extra_delay=100 ms'");
    assert!((far - usual - 68.0).abs() < 0.5, "{far}");
}

#[test]
fn run_writes_a_self_contained_report() {
    let folder = Scratch::new();
    let text = folder.stdout_of(&format!(
        "lab run {HIGH} --seeds 5 --algorithm default,cocoa-03"
    ));
    text.has(&[
        "Report: reports/thesis-long-1c-high-2500.html\n",
        "Next:\n  carob lab run ",
    ]);
    let html = folder.read_text("reports/thesis-long-1c-high-2500.html");
    assert!(html.starts_with("<!DOCTYPE html>") && html.contains("<svg class=\"figure\""));
    for outside in ["<script ", "<link", "@import", "src="] {
        assert!(!html.contains(outside), "{outside}");
    }
    let command = "carob lab run thesis/long-1c-high-2500 --algorithm default,cocoa-03 --seeds 5";
    assert!(html.contains(command), "the command that repeats it");
    assert!(html.len() < 5_000_000);
}

#[test]
fn report_option_sets_the_path() {
    let folder = Scratch::new();
    folder.stdout_of(&format!(
        "lab run {HIGH} --seed 3 --json --report deep/er.html"
    ));
    let html = folder.read_text("deep/er.html");
    assert!(html.contains("Blocks over time") && html.contains("Timers"));
    let ran = folder
        .carob(&format!("lab run {NONE} --seed 1 --report deep/er.html/x"))
        .ended(1);
    ran.stderr.has(&["cannot write deep/er.html/x"]);
}

#[test]
fn csv_has_a_line_per_metric() {
    let folder = Scratch::new();
    let text = folder.stdout_of(&format!("lab run {NONE} --seeds 2 --csv"));
    let lines: Vec<&str> = text.lines().collect();
    assert!(
        lines[0]
            .starts_with("scenario,buffer,clients,error,algorithm,runs,trace_hash,metric,mean,")
    );
    let fct: Vec<&&str> = lines.iter().filter(|l| l.contains(",fct_s,")).collect();
    assert_eq!(fct.len(), 4, "{text}");
    assert!(
        fct[0].starts_with(&format!("{NONE},2500,1,none,default,2,")),
        "{text}"
    );
}

#[test]
fn scenario_runs_from_a_file() {
    let folder = Scratch::new();
    let text = "about = \"Mine.\"\nstudy = \"mine\"\nfamily = \"link\"\ncell = \"link-{error}\"\n\
        [sweep]\nerror = [\"none\", \"low\"]\n[run]\nalgorithms = [\"default\"]\nseeds = 2\n\
        [workload]\nkind = \"blockwise-get\"\nresponse = \"1 kB\"\n\
        [link]\ndown.rate = \"30 kbit/s\"\nup.rate = \"60 kbit/s\"\n";
    folder.with("link.toml", text);
    let rows = folder.lines("lab run link.toml --json");
    assert_eq!(
        (rows.len(), &rows[1]["scenario"]),
        (2, &"mine/link-low".into())
    );
    // Text output works for scenario files, too.
    assert!(
        folder
            .stdout_of(&["lab", "run", "./link.toml"])
            .contains("Report: reports/link.html")
    );

    let wrong = text.replace("down.rate", "down.rat");
    folder.with("link.toml", wrong);
    let error = folder.usage_error("lab run link.toml");
    error.has(&["link.toml:14:", "did you mean \"link.down.rate\"?"]);
    folder.carob("lab run missing.toml").refused(1);
}

#[test]
fn slow_default_scenario_compares_and_suggests_next_steps() {
    let folder = Scratch::new();
    let text = folder.stdout_of("lab run");
    text.has(&[
        "carob/default-high",
        "With error high, ",
        "(95 % interval ",
        "3 of 33 built-in controllers are compared",
        "Link: down 30 kbit/s, 400 ms; up 60 kbit/s, 200 ms",
        "low 2 %, medium 10 %, high 18 %",
        "Report: reports/carob-default.html\n",
        "Next:\n",
    ]);
    assert!(folder.path("reports/carob-default.html").exists());
    // `carob lab run` without arguments is the same comparison.
    let rows = folder.lines("lab run --json --seeds 2");
    assert_eq!(rows.len(), 4 * 3);
}

#[test]
fn event_log_covers_every_endpoint_without_changing_the_run() {
    let folder = Scratch::new();
    let words = "lab run thesis/long-1c-low-2500 --algorithm cocoa-03 --seed 7 --json --each";
    assert_eq!(
        folder.stdout_of(words),
        folder.stdout_of(&format!("{words} --log log"))
    );
    let lines = folder.json_lines("log");
    let of = |host: u64, event: &str| {
        let matching = |line: &&Value| line["host"] == host && line["event"] == event;
        lines.iter().filter(matching).count()
    };
    // A body of 400 blocks: both ends log each request and response.
    assert_eq!(of(0, "answered"), 400);
    assert!(of(0, "sent") >= 400 && of(1, "received") >= 400);
    assert!(of(1, "replied") >= 400 && of(0, "received") >= 400);
    let times: Vec<_> = lines.iter().map(|line| line["at_us"].as_u64()).collect();
    assert!(times.is_sorted());
}

#[test]
fn patterns_run_several_cells_with_many_controllers() {
    let folder = Scratch::new();
    let cells = "thesis/long-1c-*-2500";
    let text = folder.stdout_of(&format!("lab run {cells} -a cocoa-*,fasor --seeds 1"));
    let header = text.lines().find(|line| line.starts_with("algorithm"));
    let header = header.expect("a table of medians");
    for error in ["none", "low", "medium", "high"] {
        header.has(&[&format!("error {error}")]);
    }
    for line in ["cocoa-03 ", "cocoa-strong ", "fasor "] {
        assert!(text.lines().any(|l| l.starts_with(line)), "{line}: {text}");
    }
    text.has(&[&format!("carob lab run '{cells}'")]);
    let report = folder.read_text("reports/thesis-long-1c-all-2500.html");
    assert!(report.contains("Medians of flow completion times") && report.contains("cocoa-strong"));
}

#[test]
fn changed_settings_show_in_heading_cells_report_and_its_name() {
    let folder = Scratch::new();
    let run = "lab run carob/default --seeds 2";
    let plain = folder.stdout_of(run);
    plain.has(&["2 seeds: not enough to rank"]);
    let text = folder.stdout_of(&format!(
        "{run} --set 'response=20 kB' --set 'down.rate=60 kbit/s'"
    ));
    for part in [
        "carob/default with down.rate 60 kbit/s, response 20000 B: ",
        "a download of 20 kB over",
        "carob/default-none, down.rate 60 kbit/s, response 20000 B",
        "Report: reports/carob-default-response-20-kB-down.rate-60-kbit-s.html",
        "Link: down 60 kbit/s, 400 ms",
    ] {
        assert!(text.replace("\n  ", " ").contains(part), "{part} in {text}");
    }
    let report = "reports/carob-default-response-20-kB-down.rate-60-kbit-s.html";
    let html = folder.read_text(report);
    html.has(&["60 kbit/s, 400 ms", "scenario: 102400 B"]);
    assert!(folder.path("reports/carob-default.html").exists());
}

#[test]
fn clients_on_a_shared_link_have_rates_not_completion_times() {
    let folder = Scratch::new();
    let text = folder.stdout_of("lab run carob/fairness --seeds 1");
    assert!(
        text.contains("received bit/s") && !text.contains("median s"),
        "{text}"
    );
    assert!(!text.contains("Not every transfer"), "{text}");
    let html = folder.read_text("reports/carob-fairness.html");
    assert!(!html.contains("Typical transfers"));
    assert!(html.contains("Received rates"));
}
