//! What studies of wireless networks leave open, and what becomes of their results: tables.

use std::{fmt::Write as _, fs, path::Path};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::{carob, readings::Reading, workspace::Workspace};

/// A cell, a metric, its decimals, and what stands above the column.
type Column = (&'static str, &'static str, usize, &'static str);

/// A row per reading; each column has a number per algorithm, in the scenario's order.
struct Table {
    title: &'static str,
    about: &'static str,
    scenario: &'static str,
    seeds: &'static str,
    columns: &'static [Column],
    readings: &'static [Reading],
}

const RPL: Table = Table {
    title: "What the study of RPL leaves open, and what becomes of its central result",
    about: "Carried load in B/s and changes of parents (all nodes, in a run) of default CoAP / `cocoa-004-text` /\n\
            `cocoa-004-as-run`, means, in the PINT look-alike with a request every 2 s, 1 s, 500 and 100 ms from\n\
            each of 21 nodes (368, 735, 1470 and 7350 B/s offered). `docs/rpl.md` says what follows. Written by\n\
            `cargo xtask long rpl-sensitivity`;",
    scenario: "rpl/pint-rpl",
    seeds: "5",
    columns: &[
        ("pint-rpl-2s", "carried_Bps", 0, "carried, 2 s"),
        ("pint-rpl-1s", "carried_Bps", 0, "1 s"),
        ("pint-rpl-500ms", "carried_Bps", 0, "500 ms"),
        ("pint-rpl-100ms", "carried_Bps", 0, "100 ms"),
        ("pint-rpl-2s", "parent_resets", 0, "resets, 2 s"),
        ("pint-rpl-1s", "parent_resets", 0, "1 s"),
        ("pint-rpl-500ms", "parent_resets", 0, "500 ms"),
        ("pint-rpl-100ms", "parent_resets", 0, "100 ms"),
    ],
    readings: &[
        ("as in the scenario", &[]),
        ("static routes", &["rpl.routing=static"]),
        ("link cost up to 5", &["rpl.max_link_metric=5"]),
        ("6", &["rpl.max_link_metric=6"]),
        ("7", &["rpl.max_link_metric=7"]),
        ("8, Contiki 3.x's own", &["rpl.max_link_metric=8"]),
        ("10", &["rpl.max_link_metric=10"]),
        ("OF0", &["rpl.objective=of0"]),
        ("an hour", &["workload.duration=1 h"]),
        ("no noise", &["radio.noise=off"]),
        (
            "noise of 50 %",
            &["radio.noise_loss=50 %", "radio.noise_busy=50 %"],
        ),
        ("noise in 1 of 7 s", &["noise_on=1 s", "noise_off=6 s"]),
        (
            "noise in 60 of 420 s",
            &["noise_on=60 s", "noise_off=360 s"],
        ),
        ("noise half of the time", &["noise_off=10 s"]),
        ("4 MAC buffers", &["mac.buffers=4"]),
        ("32", &["mac.buffers=32"]),
        (
            "64, and 32 at CoAP and 64 without a route",
            &["mac.buffers=64", "coap_buffer=32", "no_route_buffer=64"],
        ),
        (
            "the same without noise",
            &[
                "radio.noise=off",
                "mac.buffers=64",
                "coap_buffer=32",
                "no_route_buffer=64",
            ],
        ),
        (
            "the same, link cost up to 10",
            &[
                "radio.noise=off",
                "mac.buffers=64",
                "coap_buffer=32",
                "no_route_buffer=64",
                "rpl.max_link_metric=10",
            ],
        ),
        (
            "without a route packets are dropped",
            &["no_route_buffer=0"],
        ),
        ("MAC sends up to 4 times", &["mac.transmissions_max=4"]),
        ("9 times", &["mac.transmissions_max=9"]),
        ("IEEE 802.15.4 CSMA", &["mac.csma=ieee802154"]),
        ("CSMA of Contiki 2.7", &["mac.csma=contiki27"]),
        ("relays take no time", &["node.forwarding=0 s"]),
        (
            "nodes take no time",
            &["node.forwarding=0 s", "node.processing=0 s"],
        ),
        ("no timer below 2 s", &["cc.rto_min=2 s"]),
        (
            "RTOs do not age",
            &["cc.ageing_small=off", "cc.ageing_large=off"],
        ),
        ("new links have ETX 1", &["rpl.initial_etx=1"]),
        (
            "new links are not averaged faster",
            &["etx_alpha_fresh=15 %"],
        ),
        (
            "the lowest rank is never forgotten",
            &["forgets_lowest_rank=off"],
        ),
        ("loops drop packets and repair nothing", &["rpl.loops=drop"]),
        ("storing mode", &["rpl.mode=storing"]),
        ("the server is the root", &["mesh.outside=none"]),
        ("another layout", &["mesh.layout_seed=1"]),
        ("and another", &["mesh.layout_seed=2"]),
        ("the WiLAB look-alike", &["mesh.topology=wilab"]),
        (
            "WiLAB, static routes",
            &["mesh.topology=wilab", "rpl.routing=static"],
        ),
        (
            "WiLAB, link cost up to 10",
            &["mesh.topology=wilab", "rpl.max_link_metric=10"],
        ),
        (
            "WiLAB, no noise",
            &["mesh.topology=wilab", "radio.noise=off"],
        ),
    ],
};

const IOTLAB: Table = Table {
    title: "What the study of NON and Observe leaves open about its testbed, and what becomes of its results",
    about: "PDR, mean delay in seconds and frames dropped by MACs of default CoAP / `observe-static` / `cocoa-002`,\n\
            means. `docs/notifications.md` says what follows. Written by `cargo xtask long iotlab-sensitivity`;",
    scenario: "nonobserve/iotlab60",
    seeds: "3",
    columns: &[
        ("iotlab60-20s1n", "pdr", 2, "PDR, 20s1n"),
        ("iotlab60-20s5n", "pdr", 2, "20s5n"),
        ("iotlab60-10s5n", "pdr", 2, "10s5n"),
        ("iotlab60-5s3n", "pdr", 2, "5s3n"),
        ("iotlab60-5s5n", "pdr", 2, "5s5n"),
        ("iotlab60-20s5n", "delay_s", 2, "delay, 20s5n"),
        ("iotlab60-5s5n", "delay_s", 2, "5s5n"),
        ("iotlab60-20s5n", "mac_drops", 0, "MAC drops, 20s5n"),
        ("iotlab60-5s5n", "mac_drops", 0, "5s5n"),
    ],
    readings: &[
        ("as in the scenario", &[]),
        ("RPL as in Contiki 2.7", &["rpl.version=contiki27"]),
        (
            "as in 3.x, storing",
            &["rpl.version=contiki3x", "rpl.mode=storing"],
        ),
        ("as in 3.x, non-storing", &["rpl.version=contiki3x"]),
        ("messages of 32 bytes", &["message=32 B"]),
        ("of 96 bytes, which are fragmented", &["message=96 B"]),
        ("CSMA of Contiki 2.7", &["mac.csma=contiki27"]),
        ("of 3.x", &["mac.csma=contiki3x"]),
        ("of IEEE 802.15.4", &["mac.csma=ieee802154"]),
        ("4 MAC buffers", &["mac.buffers=4"]),
        ("32", &["mac.buffers=32"]),
        ("the application holds 3", &["coap_buffer=3"]),
        ("20", &["coap_buffer=20"]),
        ("relays take no time", &["node.forwarding=0 s"]),
        ("another layout", &["mesh.layout_seed=1"]),
        ("and another", &["mesh.layout_seed=2"]),
        (
            "noise of 20 % in 10 of 70 s",
            &[
                "radio.noise=on",
                "radio.noise_loss=20 %",
                "radio.noise_busy=20 %",
            ],
        ),
        ("of 50 %", &["radio.noise=on"]),
    ],
};

/// Makes the table of the study of RPL.
pub(crate) fn rpl(workspace: &Workspace, results: &Path) -> Result<bool> {
    RPL.run(workspace, results)
}

/// Makes the table of the testbed with notifications.
pub(crate) fn iotlab(workspace: &Workspace, results: &Path) -> Result<bool> {
    IOTLAB.run(workspace, results)
}

impl Table {
    fn run(&self, workspace: &Workspace, results: &Path) -> Result<bool> {
        carob::build(workspace)?;
        let mut text = self.head();
        for (reading, settings) in self.readings {
            println!("{reading}");
            text.push_str(&self.row(workspace, reading, settings)?);
        }
        fs::write(results, text).with_context(|| format!("cannot write {}", results.display()))?;
        Ok(true)
    }

    fn head(&self) -> String {
        let mut text = format!(
            "# {}\n\n{} each row adds its settings to\n`carob lab run {} --seeds {}`.\n\n\
             | reading | settings |",
            self.title, self.about, self.scenario, self.seeds
        );
        // Writing to a String cannot fail.
        for (_, _, _, above) in self.columns {
            let _ = write!(text, " {above} |");
        }
        text.push_str("\n| --- | --- |");
        text.push_str(&" ---: |".repeat(self.columns.len()));
        text.push('\n');
        text
    }

    fn row(&self, workspace: &Workspace, reading: &str, settings: &[&str]) -> Result<String> {
        let arguments = ["run", self.scenario, "--seeds", self.seeds, "--no-report"];
        let rows = carob::lab(workspace, &arguments, settings)?;
        let written: Vec<String> = settings.iter().map(|set| format!("`{set}`")).collect();
        let mut text = format!("| {reading} | {} |", written.join(", "));
        for (cell, metric, decimals, _) in self.columns {
            let of_cell = |row: &&Value| {
                let name = row["scenario"].as_str().unwrap_or_default();
                name.ends_with(&format!("/{cell}"))
            };
            let numbers: Vec<String> = rows
                .iter()
                .filter(of_cell)
                .map(|row| {
                    let mean = row["metrics"][metric]["mean"].as_f64();
                    mean.map_or_else(|| "none".to_owned(), |mean| format!("{mean:.decimals$}"))
                })
                .collect();
            if numbers.is_empty() {
                anyhow::bail!("{cell} was not run");
            }
            let _ = write!(text, " {} |", numbers.join(" / "));
        }
        text.push('\n');
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_have_the_columns_and_rows_that_a_table_has_today() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/lab/results");
        for (table, file) in [
            (&RPL, "rpl-sensitivity.md"),
            (&IOTLAB, "iotlab-sensitivity.md"),
        ] {
            let kept = fs::read_to_string(root.join(file)).expect("the results");
            let rows = kept.strip_prefix(&table.head()).expect("the same columns");
            let rows: Vec<&str> = rows.lines().collect();
            assert_eq!(rows.len(), table.readings.len(), "{file}");
            for (row, (reading, settings)) in rows.iter().zip(table.readings) {
                assert!(row.starts_with(&format!("| {reading} |")), "{row}");
                assert!(settings.iter().all(|set| row.contains(set)), "{row}");
            }
        }
    }
}
