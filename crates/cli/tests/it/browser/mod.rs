//! Reports in a real browser (Debian's Chromium), in frames of 375 and 1440 pixels.

mod frames;

use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::process::Scratch;

const PROBE: &str = include_str!("probe.js");
const WIDTHS: [u32; 2] = [375, 1440];
const DARK: [bool; 2] = [false, true];
/// Runs whose reports cover box plots, ratios, transfers, a long table, a fleet and a mesh.
const RUNS: [&[&str]; 3] = [
    &[
        "thesis/long-*",
        "--seeds",
        "10",
        "--set",
        "response=2560 B",
        "--algorithm",
        "default,cocoa-03,tcp-newreno",
    ],
    &["thesis/short-random-50c-low-2500", "--seeds", "3"],
    &["rpl/pint-idle", "--seeds", "2"],
];

/// Size limit of a report with figures, values and script.
const BYTES_MAX: usize = 400_000;
/// Bytes that the intervals of ten seeds add to a report with 27 rows.
const INTERVAL_BYTES: usize = 40_000;

fn is_missing() -> bool {
    let missing = Command::new("chromium").arg("--version").output().is_err();
    if missing {
        let required = std::env::var_os("CAROB_REQUIRE_PEERS").is_some();
        assert!(
            !required,
            "chromium missing, but CAROB_REQUIRE_PEERS is set"
        );
        crate::skipped("chromium (apt-get install chromium)");
    }
    missing
}

/// Adds the probe script, which posts its findings to the parent page.
fn probed(html: &str) -> String {
    let errors = "<script>window.probeErrors = [];\
                  addEventListener('error', (event) => probeErrors.push(event.message));</script>";
    html.replacen("<head>", &format!("<head>{errors}"), 1)
        .replacen("</body>", &format!("<script>{PROBE}</script></body>"), 1)
}

/// Opens each file at each width and returns the findings.
fn open(folder: &Scratch, files: &[String], is_dark: bool) -> Vec<Value> {
    let at_widths = |file| WIDTHS.map(|width| (file, width));
    let frames: Vec<(&str, u32)> = files
        .iter()
        .map(|file| &**file)
        .flat_map(at_widths)
        .collect();
    let data = folder.path("profile");
    frames::open(&folder.path(""), &frames, &data, 20_000, is_dark).expect("pages open")
}

fn numbers(values: &Value) -> Vec<f64> {
    let texts = values.as_array().expect("a list").iter();
    texts
        .filter_map(|text| text.as_str()?.replace('\u{202f}', "").parse().ok())
        .collect()
}

/// Routes change all the time under these loads. Two seeds are run; [`INTERVAL_BYTES`] accounts for intervals of ten.
#[test]
fn nightly_report_of_changing_routes_is_short() {
    let folder = Scratch::new();
    let report = "report.html";
    folder.stdout_of(&format!("lab run rpl/pint-rpl --seeds 2 --report {report}"));
    let html = fs::read_to_string(folder.path(report)).expect("the report");
    assert!(
        html.contains("changes of the parent"),
        "no figure of a node"
    );
    let length = html.len() + INTERVAL_BYTES;
    assert!(length < BYTES_MAX, "{length} bytes");
}

#[test]
fn nightly_reports_work_at_both_widths() {
    if is_missing() {
        return;
    }
    let folder = Scratch::new();
    let mut files = Vec::new();
    for (k, run) in RUNS.into_iter().enumerate() {
        let report = format!("report-{k}.html");
        let arguments: Vec<&str> = ["lab", "run"]
            .iter()
            .chain(run)
            .chain(&["--report", &report])
            .copied()
            .collect();
        folder.stdout_of(&arguments);
        let path = folder.path(&report);
        let html = fs::read_to_string(&path).expect("the report");
        assert!(html.len() < BYTES_MAX, "{} bytes", html.len());
        fs::write(&path, probed(&html)).unwrap();
        files.push(report);
    }
    let mut found = Vec::new();
    for is_dark in DARK {
        let pages = open(&folder, &files, is_dark);
        assert_eq!(pages.len(), files.len() * WIDTHS.len(), "{pages:?}");
        for page in &pages {
            colours_fit(page, is_dark);
        }
        found.extend(pages);
    }
    for page in &found {
        assert_eq!(page["errors"], Value::from(Vec::<Value>::new()), "{page}");
        assert!(page["overflow"].as_i64() <= Some(0), "{page}");
        let marks = page["marks"].as_array().expect("figures");
        assert!(!marks.is_empty(), "{page}");
        assert!(marks.iter().all(|marks| marks.as_u64() > Some(0)), "{page}");
        assert_eq!(page["small"], Value::from(Vec::<Value>::new()), "{page}");
        assert_eq!(page["scrolls"], Value::from(Vec::<Value>::new()), "{page}");
        assert_eq!(page["clipped"], Value::from(Vec::<Value>::new()), "{page}");
        assert_eq!(page["dead"], Value::from(Vec::<Value>::new()), "{page}");
        assert_eq!(page["saves"], 2 * marks.len(), "SVG and PNG: {page}");
        assert_eq!(page["unnamed"], 0, "sorted rows keep their names: {page}");
        assert_ne!(page["tip"], "", "{page}");
        let (up, down) = (numbers(&page["ascending"]), numbers(&page["descending"]));
        assert!(up.is_sorted(), "{up:?}");
        assert!(down.is_sorted_by(|a, b| a >= b), "{down:?}");
        assert_eq!(up.len(), down.len());
        charts_change(page);
    }
    let long = found.iter().filter(|page| page["filtered"].is_array());
    for page in long.clone() {
        let (left, all) = (&page["filtered"][0], &page["filtered"][1]);
        assert!(
            left.as_u64() > Some(0) && left.as_u64() < all.as_u64(),
            "{page}"
        );
    }
    let views = WIDTHS.len() * DARK.len();
    assert_eq!(long.count(), views, "one report has a long table");
}

/// Checks contrast ratios in light or dark colours.
fn colours_fit(page: &Value, is_dark: bool) {
    assert_eq!(page["dark"], is_dark, "{page}");
    let number = |name: &str| page[name].as_f64().unwrap_or(f64::INFINITY);
    assert_eq!(number("background") < 0.05, is_dark, "{page}");
    // WCAG 2.2, 1.4.3 and 1.4.11.
    assert!(number("textContrast") >= 4.5, "{page}");
    assert!(number("markContrast") >= 3.0, "{page}");
}

/// Legends hide series, buttons change scales and a drag zooms; each is undone.
fn charts_change(page: &Value) {
    let list = |name: &str| page[name].as_array().expect("a list").clone();
    assert!(!list("scales").is_empty(), "{page}");
    for key in list("keys") {
        assert!(key["before"].as_u64() > Some(0), "{key}");
        assert_eq!(key["hidden"], 0, "{key}");
        assert_eq!(key["pressed"], "false", "{key}");
        assert_eq!(key["after"], key["before"], "{key}");
    }
    for scale in list("scales") {
        for property in ["moved", "relabelled", "renamed", "finite", "back"] {
            assert_eq!(scale[property], true, "{property}: {scale}");
        }
    }
    for zoom in list("zooms") {
        for property in [
            "moved",
            "relabelled",
            "clipped",
            "offered",
            "pinches",
            "pans",
            "back",
        ] {
            assert_eq!(zoom[property], true, "{property}: {zoom}");
        }
    }
}
