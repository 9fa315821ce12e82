//! The transmission profiles beside the defaults: on links that stand for theirs, on those of others,
//! and with other values.

use std::{fmt::Write as _, fs, path::Path};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::{carob, workspace::Workspace};

const PROFILES: [&str; 4] = ["nb-iot", "lte-m", "thread", "lan"];

/// A change of a profile, in words, and its settings.
type Change = (&'static str, &'static [&'static str]);

/// Cells of each profile and the values tried in them.
const CHANGES: [(&str, &[&str], &[Change]); 4] = [
    (
        "nb-iot",
        &["low", "fading", "far"],
        &[
            (
                "ACK_TIMEOUT 4.5 s",
                &["algorithm.nb-iot.ack_timeout=4500 ms"],
            ),
            ("18 s", &["algorithm.nb-iot.ack_timeout=18 s"]),
            ("MAX_RETRANSMIT 4", &["algorithm.nb-iot.max_retransmit=4"]),
            ("7", &["algorithm.nb-iot.max_retransmit=7"]),
            ("no cap", &["algorithm.nb-iot.rto_max=none"]),
        ],
    ),
    (
        "lte-m",
        &["low", "fading", "paging"],
        &[
            ("ACK_TIMEOUT 2 s", &["algorithm.lte-m.ack_timeout=2 s"]),
            ("8 s", &["algorithm.lte-m.ack_timeout=8 s"]),
            ("MAX_RETRANSMIT 4", &["algorithm.lte-m.max_retransmit=4"]),
            ("8", &["algorithm.lte-m.max_retransmit=8"]),
            ("no cap", &["algorithm.lte-m.rto_max=none"]),
        ],
    ),
    (
        "thread",
        &["2 s", "5 s", "30 s"],
        &[
            ("ACK_TIMEOUT 1 s", &["algorithm.thread.ack_timeout=1 s"]),
            ("4 s", &["algorithm.thread.ack_timeout=4 s"]),
            ("MAX_RETRANSMIT 7", &["algorithm.thread.max_retransmit=7"]),
            ("10", &["algorithm.thread.max_retransmit=10"]),
            ("no cap", &["algorithm.thread.rto_max=none"]),
        ],
    ),
    (
        "lan",
        &["low", "fading", "slow-server"],
        &[
            ("ACK_TIMEOUT 200 ms", &["algorithm.lan.ack_timeout=200 ms"]),
            ("2 s", &["algorithm.lan.ack_timeout=2 s"]),
            ("MAX_RETRANSMIT 4", &["algorithm.lan.max_retransmit=4"]),
            ("11", &["algorithm.lan.max_retransmit=11"]),
            ("no cap", &["algorithm.lan.rto_max=none"]),
        ],
    ),
];

/// Controllers that are tried with a profile's parameters.
const CONTROLLERS: [&str; 6] = [
    "default",
    "cocoa-03",
    "cocoa-004-text",
    "fasor",
    "rfc6298",
    "linux-rto-kernel",
];

const ABOUT: &str = "\
# Transmission profiles, measured

What `docs/profiles.md` has for four kinds of links, beside RFC 7252's controller and parameters (`default`). Answered are
requests; time is that of 50 requests one after the other (200 and 1,000 where it says so in the scenario), mean and 99th percentile
of 100 seeds, in the crowd the 95th of all clients; copies and spurious ones (whose earlier copy and answer were not lost)
are per flow. In the mesh, of 10 seeds: the delay of a message, its mean and 95th percentile, copies per node, and no spurious
ones are known. Links, and what of them has no source, are in `scenarios/carob/profile-*.toml`. Written by `cargo xtask long
profiles`; single tables by `carob lab run carob/profile-nb-iot` and so on.
";

const CALIBRATED: &str = "
## Other values

Controllers, MAX_RETRANSMIT and the cap were chosen by runs like these, on the same links with fewer seeds: they are
calibrated against them. ACK_TIMEOUT has the sources that `docs/profiles.md` names. Each row changes one value of the profile, or gives
its parameters to another controller; answered, mean time (of the mesh: mean delay) and copies.
";

/// Makes the tables.
pub(crate) fn run(workspace: &Workspace, results: &Path) -> Result<bool> {
    carob::build(workspace)?;
    let mut text = ABOUT.to_owned();
    for name in PROFILES {
        println!("{name}");
        let cells = format!("carob/profile-{name}");
        let arguments = ["run", &cells, "--no-report"];
        let algorithms = ["default", "nb-iot", "lte-m", "thread", "lan"].join(",");
        let rows = carob::lab(
            workspace,
            &[&arguments[..], &["--algorithm", &algorithms]].concat(),
            &[],
        )?;
        let each = if name == "thread" {
            Vec::new()
        } else {
            carob::lab(workspace, &[&arguments[..], &["--each"]].concat(), &[])?
        };
        own(&mut text, name, &rows, &each)?;
        others(&mut text, name, &rows)?;
    }
    text.push_str(CALIBRATED);
    for (name, cells, changes) in CHANGES {
        let parameters = parameters_of(workspace, name)?;
        let parameters: Vec<&str> = parameters.iter().map(String::as_str).collect();
        let _ = write!(text, "\n### {name}\n\n| |");
        for cell in cells {
            let _ = write!(text, " {cell} | | |");
        }
        text.push_str("\n|---|");
        text.push_str(&"---:|".repeat(3 * cells.len()));
        text.push('\n');
        let own = [("as it is", &[][..])];
        for (words, settings) in own.into_iter().chain(changes.iter().copied()) {
            println!("{name}: {words}");
            change(workspace, &mut text, (name, cells), words, name, settings)?;
        }
        for controller in CONTROLLERS {
            println!("{name}: {controller}");
            let words = format!("`{controller}`");
            change(
                workspace,
                &mut text,
                (name, cells),
                &words,
                controller,
                &parameters,
            )?;
        }
    }
    fs::write(results, text).with_context(|| format!("cannot write {}", results.display()))?;
    Ok(true)
}

/// A profile's parameters as settings of the lab.
fn parameters_of(workspace: &Workspace, profile: &str) -> Result<Vec<String>> {
    let profiles = carob::values(workspace, &["profiles", profile])?;
    let parameters = &profiles[0][0]["parameters"];
    ["ack_timeout", "max_retransmit", "rto_max"]
        .into_iter()
        .map(|name| {
            let value = &parameters[name];
            let text = value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned);
            Ok(format!("{name}={text}"))
        })
        .collect()
}

/// A cell's name as scenarios write it.
fn cell_of(profile: &str, cell: &str) -> String {
    format!("carob/profile-{profile}-{}", cell.replace(' ', ""))
}

/// A row of results.
fn found<'a>(rows: &'a [Value], cell: &str, algorithm: &str) -> Result<&'a Value> {
    rows.iter()
        .find(|row| row["scenario"] == cell && row["algorithm"] == algorithm)
        .with_context(|| format!("no {algorithm} in {cell}"))
}

fn number(row: &Value, metric: &str, statistic: &str) -> Result<f64> {
    row["metrics"][metric][statistic]
        .as_f64()
        .with_context(|| format!("{} has no {statistic} of {metric}", row["scenario"]))
}

/// The names of the cells, in their order.
fn names(rows: &[Value]) -> Vec<String> {
    let mut names: Vec<String> = rows
        .iter()
        .filter_map(|row| row["scenario"].as_str().map(str::to_owned))
        .collect();
    names.dedup();
    names
}

/// The metric of time, and that of its tail.
fn metrics_of(profile: &str) -> (&'static str, &'static str) {
    if profile == "thread" {
        ("delay_s", "delay_p95_s")
    } else {
        ("fct_s", "fct_s")
    }
}

/// The profile beside the defaults, on its own link.
fn own(text: &mut String, name: &str, rows: &[Value], each: &[Value]) -> Result<()> {
    // Writing to a String cannot fail.
    let _ = write!(
        text,
        "\n## {name}\n\n\
         | cell | answered: `default` | `{name}` | time, s: `default` | `{name}` | tail, s: `default` | `{name}` | \
         copies: `default` | `{name}` | spurious: `default` | `{name}` |\n|---|{}\n",
        "---:|".repeat(10)
    );
    let (time, tail) = metrics_of(name);
    for cell in names(rows) {
        let short = cell.trim_start_matches("carob/profile-");
        let _ = write!(text, "| {short} |");
        let pair = ["default", name].map(|algorithm| found(rows, &cell, algorithm));
        let [without, with] = pair;
        let pair = [without?, with?];
        for row in pair {
            let answered = 100.0 * number(row, "answered_ratio", "mean")?;
            let _ = write!(text, " {answered:.2} % |");
        }
        for row in pair {
            let _ = write!(text, " {} |", seconds(number(row, time, "mean")?));
        }
        for (row, algorithm) in pair.into_iter().zip(["default", name]) {
            let percentile = percentile_99(each, &cell, algorithm);
            let percentile = match percentile {
                Some(time) => time,
                None if name == "thread" => number(row, tail, "mean")?,
                None => number(row, tail, "p95")?,
            };
            let _ = write!(text, " {} |", seconds(percentile));
        }
        for row in pair {
            let _ = write!(text, " {:.1} |", number(row, "retransmissions", "mean")?);
        }
        for row in pair {
            if name == "thread" {
                text.push_str(" |");
            } else {
                let _ = write!(text, " {:.1} |", number(row, "spurious", "mean")?);
            }
        }
        text.push('\n');
    }
    Ok(())
}

/// The 99th percentile of the times of runs with one flow, nearest rank; none of crowds.
fn percentile_99(each: &[Value], cell: &str, algorithm: &str) -> Option<f64> {
    let of = |row: &&Value| row["scenario"] == cell && row["algorithm"] == algorithm;
    let mut times = Vec::new();
    for row in each.iter().filter(of) {
        let time = &row["metrics"]["fct_s"];
        if time["n"].as_u64() > Some(1) {
            return None;
        }
        // A flow that did not complete has none.
        times.extend(time["mean"].as_f64());
    }
    times.sort_by(f64::total_cmp);
    let rank = (times.len() * 99).div_ceil(100).checked_sub(1)?;
    times.get(rank).copied()
}

/// All profiles on one link: answered and mean time.
fn others(text: &mut String, name: &str, rows: &[Value]) -> Result<()> {
    let _ = write!(
        text,
        "\nAll profiles there: answered, mean time, copies.\n\n| cell |"
    );
    for profile in PROFILES {
        let _ = write!(text, " `{profile}` | | |");
    }
    let _ = writeln!(text, "\n|---|{}", "---:|".repeat(3 * PROFILES.len()));
    for cell in names(rows) {
        let _ = write!(text, "| {} |", cell.trim_start_matches("carob/profile-"));
        for profile in PROFILES {
            three(text, found(rows, &cell, profile)?, metrics_of(name).0)?;
        }
        text.push('\n');
    }
    Ok(())
}

/// Answered, mean time and copies.
fn three(text: &mut String, row: &Value, time: &str) -> Result<()> {
    let answered = 100.0 * number(row, "answered_ratio", "mean")?;
    let time = seconds(number(row, time, "mean")?);
    let copies = number(row, "retransmissions", "mean")?;
    let _ = write!(text, " {answered:.2} % | {time} | {copies:.1} |");
    Ok(())
}

/// Seconds with as many digits as say something.
fn seconds(time: f64) -> String {
    if time < 10.0 {
        format!("{time:.2}")
    } else {
        format!("{time:.1}")
    }
}

/// One row of a profile's other values.
fn change(
    workspace: &Workspace,
    text: &mut String,
    (profile, cells): (&str, &[&str]),
    words: &str,
    algorithm: &str,
    settings: &[&str],
) -> Result<()> {
    let _ = write!(text, "| {words} |");
    for cell in cells {
        let cell = cell_of(profile, cell);
        let arguments = ["run", &cell, "--no-report", "--algorithm", algorithm];
        let rows = carob::lab(workspace, &arguments, settings)?;
        three(text, found(&rows, &cell, algorithm)?, metrics_of(profile).0)?;
    }
    text.push('\n');
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn percentiles_are_those_of_runs_with_one_flow() {
        let row = |time: f64, n: u64| json!({"scenario": "c", "algorithm": "a", "metrics": {"fct_s": {"mean": time, "n": n}}});
        let runs: Vec<Value> = (1..=200).map(|time| row(f64::from(time), 1)).collect();
        assert_eq!(percentile_99(&runs, "c", "a"), Some(198.0));
        assert_eq!(percentile_99(&runs, "c", "b"), None);
        assert_eq!(percentile_99(&[row(1.0, 20)], "c", "a"), None);
    }

    #[test]
    fn results_have_a_table_of_each_profile_and_the_rows_of_today() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/lab/results/profiles.md");
        let kept = fs::read_to_string(root).expect("the results");
        assert!(kept.starts_with(ABOUT) && kept.contains(CALIBRATED));
        for (name, _, changes) in CHANGES {
            assert!(kept.contains(&format!("\n## {name}\n")), "{name}");
            let (_, own) = kept.split_once(&format!("\n### {name}\n")).expect(name);
            for (words, _) in changes {
                assert!(own.contains(&format!("\n| {words} |")), "{name}: {words}");
            }
        }
    }
}
