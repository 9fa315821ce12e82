//! Reports in a real browser (Debian's Chromium), in frames of 375 and 1440 pixels.

mod frames;

use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::lab::folder::Folder;

const PROBE: &str = include_str!("probe.js");
const WIDTHS: [u32; 2] = [375, 1440];
/// Runs whose reports have box plots, ratios, transfers and a long table; a crowd; a mesh.
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

/// A report with the probe: what a browser finds in it goes to the page around the frame.
fn probed(html: &str) -> String {
    let errors = "<script>window.probeErrors = [];\
                  addEventListener('error', (event) => probeErrors.push(event.message));</script>";
    html.replacen("<head>", &format!("<head>{errors}"), 1)
        .replacen("</body>", &format!("<script>{PROBE}</script></body>"), 1)
}

/// What the probe found in each file at each width.
fn open(folder: &Folder, files: &[String]) -> Vec<Value> {
    let at_widths = |file| WIDTHS.map(|width| (file, width));
    let frames: Vec<(&str, u32)> = files
        .iter()
        .map(|file| &**file)
        .flat_map(at_widths)
        .collect();
    frames::open(&folder.0, &frames, &folder.0.join("profile"), 20_000).expect("pages open")
}

fn numbers(values: &Value) -> Vec<f64> {
    let texts = values.as_array().expect("a list").iter();
    texts
        .filter_map(|text| text.as_str()?.replace('\u{202f}', "").parse().ok())
        .collect()
}

#[test]
fn slow_reports_work_at_both_widths() {
    if is_missing() {
        return;
    }
    let folder = Folder::new("browser");
    let mut files = Vec::new();
    for (k, run) in RUNS.into_iter().enumerate() {
        let report = format!("report-{k}.html");
        let arguments: Vec<&str> = ["lab", "run"]
            .iter()
            .chain(run)
            .chain(&["--report", &report])
            .copied()
            .collect();
        folder.says(&arguments);
        let path = folder.0.join(&report);
        let html = fs::read_to_string(&path).expect("the report");
        fs::write(&path, probed(&html)).unwrap();
        files.push(report);
    }
    let found = open(&folder, &files);
    assert_eq!(found.len(), files.len() * WIDTHS.len(), "{found:?}");
    for page in &found {
        assert_eq!(page["errors"], Value::from(Vec::<Value>::new()), "{page}");
        assert!(page["overflow"].as_i64() <= Some(0), "{page}");
        let marks = page["marks"].as_array().expect("figures");
        assert!(!marks.is_empty(), "{page}");
        assert!(marks.iter().all(|marks| marks.as_u64() > Some(0)), "{page}");
        assert_eq!(page["clipped"], Value::from(Vec::<Value>::new()), "{page}");
        assert_eq!(page["dead"], Value::from(Vec::<Value>::new()), "{page}");
        assert_eq!(page["buttons"], 2 * marks.len(), "SVG and PNG: {page}");
        assert_eq!(page["unnamed"], 0, "sorted rows keep their names: {page}");
        assert_ne!(page["tip"], "", "{page}");
        let (up, down) = (numbers(&page["ascending"]), numbers(&page["descending"]));
        assert!(up.is_sorted(), "{up:?}");
        assert!(down.is_sorted_by(|a, b| a >= b), "{down:?}");
        assert_eq!(up.len(), down.len());
    }
    let long = found.iter().filter(|page| page["filtered"].is_array());
    for page in long.clone() {
        let (left, all) = (&page["filtered"][0], &page["filtered"][1]);
        assert!(
            left.as_u64() > Some(0) && left.as_u64() < all.as_u64(),
            "{page}"
        );
    }
    assert_eq!(long.count(), WIDTHS.len(), "one report has a long table");
}
