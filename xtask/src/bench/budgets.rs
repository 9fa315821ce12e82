//! All budgets of the stack in one run, with the figures of libcoap and Californium.
//!
//! Each line is one of the other benchmarks, with its programs in turns. The budgets are this project's
//! (docs/performance.md says why they are what they are); nothing is asserted, because machines differ.

use std::{fmt::Write as _, fs, path::PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::statistics::{median, median_ratio};
use super::subjects::Subject;
use super::{block, codec, observe, options, server};
use crate::workspace::Workspace;

const HELP: &str = "\
cargo xtask bench budgets [OPTION...]

Every budget of the stack, measured beside libcoap and Californium where they can be: some 10 minutes.

  --rounds N         rounds of all programs in turn, in each benchmark (3)
  --out FILE         write the table as JSON, too
";

const KNOWN_PEERS: u32 = 10_000;
const PROGRAMS: [&str; 3] = ["carob", "libcoap", "californium"];

/// One budget: what is measured, how much it may be, and what each program needs of it.
struct Line {
    what: String,
    unit: &'static str,
    budget: f64,
    found: [Option<f64>; PROGRAMS.len()],
}

pub(super) fn run(workspace: &Workspace, arguments: &[String]) -> Result<()> {
    let (mut rounds, mut out) = (3_u32, None);
    let asked = options::read("budgets", arguments, |given| {
        match given.name {
            "--rounds" => rounds = given.number()?,
            "--out" => out = Some(PathBuf::from(given.value)),
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    if !asked {
        print!("{HELP}");
        return Ok(());
    }
    ensure!(rounds >= 1, "`--rounds` must be at least 1");

    let mut lines = servers(workspace, rounds)?;
    lines.extend(codecs(workspace)?);
    lines.extend(observers(workspace, rounds)?);
    lines.push(blocks(workspace, rounds)?);
    print!("\n{}", table(&lines));
    if let Some(out) = out {
        let text = serde_json::to_string_pretty(&document(rounds, &lines))?;
        fs::write(&out, text + "\n").with_context(|| format!("cannot write {}", out.display()))?;
        println!("\nwritten to {}", out.display());
    }
    Ok(())
}

fn servers(workspace: &Workspace, rounds: u32) -> Result<Vec<Line>> {
    let slices = |known_peers| {
        let options = server::Options {
            rounds,
            known_peers,
            ..server::Options::default()
        };
        server::slices(workspace, &options)
    };
    let of = |subjects: &[Subject], name| -> Option<Vec<f64>> {
        let subject = subjects.iter().find(|subject| subject.name == name)?;
        Some(subject.figures("us_per_req"))
    };
    // One after the other: the programs of the first are gone before the second begins.
    let fresh = slices(0)?;
    let without = PROGRAMS.map(|name| of(&fresh, name));
    let bases = of(&fresh, "bare").unwrap_or_default();
    drop(fresh);
    let crowded = slices(KNOWN_PEERS)?;
    let with = PROGRAMS.map(|name| of(&crowded, name));
    // The machine may be another by then: both are set against the bare loop of their own rounds.
    let crowd = of(&crowded, "bare").unwrap_or_default();
    let ratio = |figures: &Option<Vec<f64>>, bases: &[f64]| {
        figures
            .as_ref()
            .and_then(|figures| median_ratio(figures, bases))
    };
    let alone = without.each_ref().map(|figures| ratio(figures, &bases));
    let grown = [0, 1, 2].map(|at| {
        let (with, without) = (ratio(&with[at], &crowd)?, ratio(&without[at], &bases)?);
        Some(with / without)
    });
    Ok(vec![
        Line {
            what: "CON GET, CPU time over a bare loop's".to_owned(),
            unit: "x",
            budget: 1.2,
            found: alone,
        },
        Line {
            what: format!("the same with {KNOWN_PEERS} known peers, over that with none"),
            unit: "x",
            budget: 1.1,
            found: grown,
        },
    ])
}

fn codecs(workspace: &Workspace) -> Result<Vec<Line>> {
    let rows = codec::measure(workspace)?;
    let fastest = |kind: &str, ours: &str| -> [Option<f64>; 3] {
        let of = |row: &codec::Row| median(&row.figures);
        let own = rows.iter().find(|row| row.name == ours).and_then(of);
        // Its fastest way that does the same: with a PDU that is used again, and every option read.
        let same = |row: &&codec::Row| kind == "encode" || row.name.contains("every option");
        let libcoap = (rows.iter())
            .filter(|row| row.name.starts_with(&format!("libcoap {kind}")))
            .filter(same)
            .filter_map(of)
            .min_by(f64::total_cmp);
        [own, libcoap, None]
    };
    Ok(codec::KINDS
        .iter()
        .map(|(kind, ours)| Line {
            what: format!("{kind} a GET with 5 options"),
            unit: "ns",
            budget: 40.0,
            found: fastest(kind, ours),
        })
        .collect())
}

fn observers(workspace: &Workspace, rounds: u32) -> Result<Vec<Line>> {
    let options = observe::Options {
        rounds,
        ..observe::Options::default()
    };
    let figures = observe::slices(workspace, &options)?;
    let of = |get: fn(&observe::Figures) -> &[f64]| {
        PROGRAMS.map(|name| {
            let figures = figures.iter().find(|figures| figures.name == name)?;
            median(get(figures))
        })
    };
    Ok(vec![
        Line {
            what: "1,000 observers told once".to_owned(),
            unit: "ms",
            budget: 4.0,
            found: of(|figures| &figures.all_told_ms),
        },
        Line {
            what: "an observer, its peer included".to_owned(),
            unit: "B",
            budget: 300.0,
            found: of(|figures| &figures.bytes),
        },
    ])
}

fn blocks(workspace: &Workspace, rounds: u32) -> Result<Line> {
    let options = block::Options {
        rounds,
        ..block::Options::default()
    };
    let figures = block::slices(workspace, &options)?;
    let found = PROGRAMS.map(|name| {
        let figures = figures.iter().find(|figures| figures.name == name)?;
        median(&figures.alone_ms)
    });
    Ok(Line {
        what: "1 MiB by Block2, one block in flight".to_owned(),
        unit: "ms",
        budget: 30.0,
        found,
    })
}

fn verdict(line: &Line) -> &'static str {
    match line.found[0] {
        Some(found) if found <= line.budget => "met",
        Some(_) => "MISSED",
        None => "not measured",
    }
}

fn table(lines: &[Line]) -> String {
    let figure = |found: Option<f64>| match found {
        None => "-".to_owned(),
        Some(found) if found < 10.0 => format!("{found:.2}"),
        Some(found) if found < 100.0 => format!("{found:.1}"),
        Some(found) => format!("{found:.0}"),
    };
    let width = lines.iter().map(|line| line.what.len()).max().unwrap_or(0);
    let mut text = format!(
        "{:<width$}  unit  budget    carob              libcoap  californium\n",
        ""
    );
    for line in lines {
        let [carob, libcoap, californium] = line.found.map(figure);
        let _ = writeln!(
            text,
            "{:<width$}  {:<4}  {:>6}  {carob:>7}  {:<12}  {libcoap:>7}  {californium:>11}",
            line.what,
            line.unit,
            figure(Some(line.budget)),
            verdict(line),
        ); // a String takes every write
    }
    text.push_str("(medians of the rounds; ratios within a round)\n");
    text
}

fn document(rounds: u32, lines: &[Line]) -> serde_json::Value {
    let lines: Vec<_> = lines
        .iter()
        .map(|line| {
            let [carob, libcoap, californium] = line.found;
            json!({
                "what": line.what,
                "unit": line.unit,
                "budget": line.budget,
                "carob": carob,
                "libcoap": libcoap,
                "californium": californium,
                "verdict": verdict(line),
            })
        })
        .collect();
    json!({ "benchmark": "budgets", "rounds": rounds, "lines": lines })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(found: Option<f64>) -> Line {
        Line {
            what: "something".to_owned(),
            unit: "ms",
            budget: 4.0,
            found: [found, Some(7.25), None],
        }
    }

    #[test]
    fn a_budget_is_met_up_to_the_last_bit_and_missed_beyond() {
        assert_eq!(verdict(&line(Some(4.0))), "met");
        assert_eq!(verdict(&line(Some(4.001))), "MISSED");
        assert_eq!(verdict(&line(None)), "not measured");
    }

    #[test]
    fn what_was_not_measured_is_not_a_number() {
        let text = table(&[line(Some(3.5))]);
        assert!(text.contains("3.50  met"), "{text}");
        let row = text.lines().nth(1).expect("there is one line");
        assert!(row.ends_with("7.25            -"), "{text}");
    }
}
