//! Parameters that the study of CoCoA+ leaves open about its networks, and the order of algorithms
//! under each interpretation.

use std::{fmt::Write as _, fs, path::Path};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::{
    carob::{self, Reading},
    workspace::Workspace,
};

const SEEDS: &str = "10";
/// The seeds of the table of delays around bursts, which has one reading.
const DELAY_SEEDS: &str = "30";
const PDR: u64 = 3;
const SETTLING: u64 = 2;
/// The rows of print, in the order of the columns.
const ROWS: [(&str, &str); 8] = [
    ("6x6", "ideal"),
    ("6x6", "lossy"),
    ("7x7", "ideal"),
    ("7x7", "lossy"),
    ("chain", "ideal"),
    ("chain", "lossy"),
    ("dumbbell", "ideal"),
    ("dumbbell", "lossy"),
];
const ALGORITHMS: [&str; 3] = ["default", "cocoa-v0", "cocoa-plus"];

/// The settings of `scenarios/cocoaplus` before their calibration, which all rows but the first start from.
const FIRST_CHOSEN: &[&str] = &[
    "traffic.delay_bins=generation",
    "traffic.burst_buffer=0",
    "traffic.burst_spread=0 s",
    "traffic.gaps=fixed",
    "radio.ratios=75:0 80:2.72 85:17.92 90:47.52 95:81.84 100:100",
    "mesh.root=usual",
    "mesh.sink=usual",
    "mac.buffers=8",
];

/// Open parameters (`scenarios/cocoaplus`) and their interpretations; the first row is the
/// scenarios' own.
const READINGS: &[Reading] = &[
    ("as in the scenarios", &[]),
    ("as first chosen", &[]),
    // Positions.
    ("the root is the sink", &["mesh.sink=root"]),
    (
        "root and sink in opposite corners",
        &["mesh.root=corner", "mesh.sink=opposite-corner"],
    ),
    ("the sink in the centre", &["mesh.sink=centre"]),
    ("the second sink at the root", &["mesh.second_sink=root"]),
    // Medium.
    (
        "interference reaches 20 m itself",
        &["radio.boundary=inclusive"],
    ),
    ("a CCA notices neighbours only", &["radio.cca=transmission"]),
    ("a CCA notices nothing", &["radio.cca=nothing"]),
    ("lossy links of 87.5 %", &["radio.ratios=75:0 100:100"]),
    ("of 95 %", &["radio.ratios=90:0 100:100"]),
    // MAC.
    ("MAC of Contiki 3.0", &["mac.csma=contiki30"]),
    ("of Contiki 3.x", &["mac.csma=contiki3x"]),
    ("IEEE 802.15.4, unslotted", &["mac.csma=ieee802154"]),
    (
        "frames are not acknowledged (AUTOACK off)",
        &["mac.acknowledged=off"],
    ),
    // Routing.
    ("RPL of Contiki 3.0", &["rpl.version=contiki30"]),
    ("of Contiki 3.x: non-storing", &["rpl.version=contiki3x"]),
    (
        "the same in storing mode",
        &["rpl.version=contiki3x", "rpl.mode=storing"],
    ),
    ("a new link has ETX 2", &["rpl.initial_etx=2"]),
    ("routes that never change", &["rpl.routing=static"]),
    (
        "MAC, 6LoWPAN and RPL of Contiki 3.x",
        &[
            "mac.csma=contiki3x",
            "lowpan.version=contiki3x",
            "rpl.version=contiki3x",
        ],
    ),
    (
        "all of them in storing mode",
        &[
            "mac.csma=contiki3x",
            "lowpan.version=contiki3x",
            "rpl.version=contiki3x",
            "rpl.mode=storing",
        ],
    ),
    // Messages and nodes.
    ("messages of 48 bytes: two fragments", &["message=48 B"]),
    (
        "of 96 bytes: two fragments",
        &["message=96 B", "lowpan.datagram=1280 B"],
    ),
    ("four messages wait for NSTART", &["node.coap_buffer=4"]),
    ("relays take no time", &["node.forwarding=0 s"]),
    ("relays take 20 ms", &["node.forwarding=20 ms"]),
    (
        "Erbium: given up with the last copy",
        &["node.gives_up_at_last_copy=on"],
    ),
    ("bursts are spread over a second", &["burst_first=60-61 s"]),
];

/// Makes the tables.
pub(crate) fn run(workspace: &Workspace, results: &Path) -> Result<bool> {
    carob::build(workspace)?;
    let mut text = head();
    for (index, (reading, settings)) in READINGS.iter().enumerate() {
        println!("{reading}");
        let base = if index == 0 { &[] } else { FIRST_CHOSEN };
        text.push_str(&row(workspace, reading, base, settings)?);
    }
    text.push_str(&delays(workspace)?);
    fs::write(results, text).with_context(|| format!("cannot write {}", results.display()))?;
    Ok(true)
}

/// The text above the rows.
fn head() -> String {
    let first: Vec<String> = FIRST_CHOSEN.iter().map(|set| format!("`{set}`")).collect();
    let first = first.join(", ");
    let mut text = format!(
        "# What the study of CoCoA+ leaves open about its networks, and who is before whom\n\n\
         Each row adds its settings to `carob lab reproduce cocoaplus --seeds {SEEDS}` (`docs/cocoaplus.md`). Columns of\n\
         cells: PDR in per cent of `cocoaplus/mixed-*-1n` under default CoAP, CoCoA and CoCoA+, and the sign of CoCoA+'s gap to\n\
         default CoAP where the 95 % interval of the differences of runs with the same seed excludes 0 (`~` where it does not).\n\
         Before them, of the 8 rows of Table 3 and then of Table 2: in how many CoCoA+ is better than default CoAP, worse, and\n\
         not to be told apart; the same of CoCoA. By print's means it is 7 1 0 and 1 7 0, then 7 0 1 and 3 5 0.\n\
         All rows but the first add their settings to those first chosen ({first}).\n\
         Written by `cargo xtask long mesh-sensitivity`.\n\n\
         | reading | settings | PDR: CoCoA+ | CoCoA | settling: CoCoA+ | CoCoA |",
    );
    for (topology, link) in ROWS {
        // Writing to a String cannot fail.
        let _ = write!(text, " {topology} {link} |");
    }
    text.push_str("\n| --- | --- | --- | --- | --- | --- |");
    text.push_str(&" --- |".repeat(ROWS.len()));
    text.push('\n');
    text
}

fn row(workspace: &Workspace, reading: &str, base: &[&str], settings: &[&str]) -> Result<String> {
    let arguments = ["reproduce", "cocoaplus", "--seeds", SEEDS, "--no-report"];
    let lines = carob::lab(workspace, &arguments, &[base, settings].concat())?;
    let written: Vec<String> = settings.iter().map(|set| format!("`{set}`")).collect();
    let mut text = format!("| {reading} | {} |", written.join(", "));
    for (table, better) in [(PDR, 1), (SETTLING, -1)] {
        for algorithm in ["cocoa-plus", "cocoa-v0"] {
            let signs: Result<Vec<i32>> = ROWS
                .iter()
                .map(|row| Ok(sign(find(&lines, table, *row, algorithm)?) * better))
                .collect();
            let signs = signs?;
            let count = |wanted: i32| signs.iter().filter(|sign| **sign == wanted).count();
            let _ = write!(text, " {} {} {} |", count(1), count(-1), count(0));
        }
    }
    for cell in ROWS {
        for algorithm in ALGORITHMS {
            let line = find(&lines, PDR, cell, algorithm)?;
            let pdr = line["measured"].as_f64();
            let pdr = pdr.map_or_else(|| "-".to_owned(), |pdr| format!("{:.1}", pdr * 100.0));
            let _ = write!(text, " {pdr}");
        }
        let mark = match sign(find(&lines, PDR, cell, "cocoa-plus")?) {
            1 => "+",
            -1 => "-",
            _ => "~",
        };
        let _ = write!(text, " {mark} |");
    }
    text.push('\n');
    Ok(text)
}

fn find<'a>(
    lines: &'a [Value],
    table: u64,
    (topology, link): (&str, &str),
    algorithm: &str,
) -> Result<&'a Value> {
    let is_it = |line: &&Value| {
        line["table"] == table
            && line["row"]["topology"] == topology
            && line["row"]["link"] == link
            && line["algorithm"] == algorithm
    };
    let found = lines.iter().find(is_it);
    found.with_context(|| format!("no {algorithm} in {topology} {link} of Table {table}"))
}

/// Sign of the gap to default CoAP: 1 or -1 where its interval excludes 0.
fn sign(line: &Value) -> i32 {
    let number = |name: &str| line[name].as_f64();
    match number("measured_gap").zip(number("measured_gap_ci95")) {
        Some((gap, half)) if gap > half => 1,
        Some((gap, half)) if -gap > half => -1,
        _ => 0,
    }
}

/// Delays of messages around bursts.
fn delays(workspace: &Workspace) -> Result<String> {
    let mut text = format!(
        "\n## Delays around bursts\n\n\
         Mean delay in seconds of messages begun from the start of each burst to 10 s after it, with its 95 % interval, in the\n\
         scenarios as they are: `carob lab run 'cocoaplus/mixed-*-1n' --seeds {DELAY_SEEDS} --json`, metric `burst_delay_s`. We have no\n\
         printed numbers of it.\n\n| cell |"
    );
    for algorithm in ALGORITHMS {
        let _ = write!(text, " {algorithm} |");
    }
    text.push_str("\n| --- |");
    text.push_str(&" ---: |".repeat(ALGORITHMS.len()));
    text.push('\n');
    let arguments = [
        "run",
        "cocoaplus/mixed-*-1n",
        "--seeds",
        DELAY_SEEDS,
        "--no-report",
    ];
    let rows = carob::lab(workspace, &arguments, &[])?;
    for (topology, link) in ROWS {
        let _ = write!(text, "| {topology} {link} |");
        let scenario = format!("cocoaplus/mixed-{topology}-{link}-1n");
        for algorithm in ALGORITHMS {
            let is_it = |row: &&Value| row["scenario"] == scenario && row["algorithm"] == algorithm;
            let row = rows
                .iter()
                .find(is_it)
                .context("every cell and algorithm")?;
            let delay = &row["metrics"]["burst_delay_s"];
            let number = |name: &str| delay[name].as_f64().context("a delay");
            let _ = write!(text, " {:.2} ± {:.2} |", number("mean")?, number("ci95")?);
        }
        text.push('\n');
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_gap_has_a_sign_where_its_interval_excludes_nothing_at_all() {
        let of = |gap, half| sign(&json!({"measured_gap": gap, "measured_gap_ci95": half}));
        assert_eq!(
            (of(0.03, 0.02), of(-0.03, 0.02), of(0.01, 0.02)),
            (1, -1, 0)
        );
        assert_eq!(sign(&json!({"measured_gap": null})), 0);
    }

    #[test]
    fn results_have_the_columns_and_rows_there_are_today() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/lab/results");
        let kept = fs::read_to_string(root.join("mesh-sensitivity.md")).expect("the results");
        let rows = kept.strip_prefix(&head()).expect("the same columns");
        let (rows, delays) = rows.split_once("\n## ").expect("a table of delays");
        let rows: Vec<&str> = rows.lines().collect();
        assert_eq!(rows.len(), READINGS.len());
        for (row, (reading, settings)) in rows.iter().zip(READINGS) {
            assert!(row.starts_with(&format!("| {reading} |")), "{row}");
            assert!(settings.iter().all(|set| row.contains(set)), "{row}");
        }
        assert_eq!(
            delays.matches("\u{b1}").count(),
            ROWS.len() * ALGORITHMS.len()
        );
    }
}
