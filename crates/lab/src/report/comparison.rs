//! The report of a run: completion times of every cell and algorithm, and typical transfers.

use super::figures::Drawing;
use super::page::{Details, FigureBlock, Report, Section};
use crate::export;
use crate::published::{self, Print};
use crate::run::{Outcome, Row, RunSetupError, Timed};
use crate::scenario::Cell;
use crate::summary::{self, delivery};

/// The longest values in bytes: a page stays below 400 kB.
const VALUES_MAX: usize = 120_000;
/// The subject of a report.
#[derive(Clone, Debug)]
pub struct Subject<'a> {
    /// Full name of the scenario or cell requested.
    pub name: &'a str,
    /// The outcome of its runs.
    pub outcome: &'a Outcome<'a>,
    /// Settings from the command line, as typed.
    pub set: &'a [String],
    /// The command that repeats it.
    pub command: String,
}

/// The report of a run, with published values where a study has some.
///
/// Typical transfers are run once more to record them, which may fail as any run.
pub fn comparison(subject: &Subject<'_>, print: &Print) -> Result<Report, RunSetupError> {
    let outcome = subject.outcome;
    let scenario = outcome.plan().scenario();
    let drawing = Drawing::new(outcome, print);
    let rows = &drawing.rows;
    let mut sections = Vec::new();
    let is_shared = summary::is_shared(rows);
    let timed = Timed::of(rows);
    let times = Section {
        heading: if is_shared {
            "Received rates".to_owned()
        } else {
            timed.heading()
        },
        text: summary::reading(outcome),
        figures: if rows
            .iter()
            .any(|row| timed.times(row).is_some_and(|s| s.n > 1))
        {
            drawing.blocks(&["ratios", "lines", "boxes"])?
        } else {
            Vec::new()
        },
        tables: summary::medians(rows)
            .into_iter()
            .chain([if rows.iter().any(|row| row.runs > 1) {
                summary::table(rows, print, false)
            } else {
                summary::each_table(&outcome.each())
            }])
            .collect(),
        details: vec![all_metrics(rows, &subject.command)],
    };
    if rows.iter().any(|row| delivery::is_of(&row.metrics)) {
        sections.push(delivered(&drawing, &subject.command)?);
    } else {
        let section = |heading: &str, figures: Vec<FigureBlock>| {
            (!figures.is_empty()).then(|| Section {
                heading: heading.to_owned(),
                figures,
                ..Section::default()
            })
        };
        sections.push(times);
        let network = drawing.blocks(&["circle", "depth"])?;
        sections.extend(section("Wireless network", network));
        // Where no flow completes, no run is the typical one.
        if !is_shared || rows.len() == 1 {
            let figures = drawing.blocks(&["transfers"])?;
            sections.extend(drawing.typical()?.section(outcome, rows, figures));
        }
    }
    sections.push(Section {
        heading: "Scenario".to_owned(),
        text: vec![format!(
            "Version {} of `carob` repeats these runs with the command above and this scenario.",
            env!("CARGO_PKG_VERSION")
        )],
        details: vec![Details {
            summary: format!("Text of {}", subject.name),
            text: scenario.source_text().to_owned(),
        }],
        ..Section::default()
    });
    Ok(Report {
        title: scenario.title(subject.name),
        lead: scenario.about().to_owned(),
        facts: facts(subject, rows),
        command: subject.command.clone(),
        sections,
    })
}

/// Delivery of notifications, or of messages in a wireless network, with figures.
fn delivered(drawing: &Drawing<'_>, command: &str) -> Result<Section, RunSetupError> {
    let Drawing { outcome, rows, .. } = drawing;
    Ok(Section {
        heading: if rows.iter().any(|row| delivery::is_network(&row.metrics)) {
            "Messages".to_owned()
        } else {
            "Notifications".to_owned()
        },
        text: summary::reading(outcome),
        figures: drawing.blocks(&["bars", "lines", "circle", "depth"])?,
        tables: vec![if rows.iter().any(|row| row.runs > 1) {
            delivery::table(rows, false)
        } else {
            delivery::each_table(&outcome.each())
        }],
        details: vec![all_metrics(rows, command)],
    })
}

/// All metrics to unfold, or the command for them where they are too long for a page.
fn all_metrics(rows: &[Row], command: &str) -> Details {
    let text = export::rows_csv(rows);
    let is_long = text.len() > VALUES_MAX;
    Details {
        summary: "All metrics as comma-separated values".to_owned(),
        text: if is_long {
            format!("{command} --csv")
        } else {
            text
        },
    }
}

fn facts(subject: &Subject<'_>, rows: &[Row]) -> Vec<(String, String)> {
    let jobs = subject.outcome.plan().jobs();
    let scenario = subject.outcome.plan().scenario();
    let mut facts: Vec<(&str, String)> = Vec::new();
    if let Some(study) = published::study(scenario.study()) {
        let (authors, year) = (study.authors.join(", "), study.year);
        facts.push(("Study", format!("{authors}: “{}”, {year}", study.title)));
    }
    let algorithms = summary::algorithms(rows);
    let mut cells: Vec<&str> = rows.iter().map(|row| row.scenario.as_str()).collect();
    cells.dedup();
    let names: Vec<&str> = cells
        .iter()
        .filter_map(|cell| Some(cell.split_once('/')?.1))
        .collect();
    facts.push(("Algorithms", algorithms.join(", ")));
    let seeds = jobs.iter().map(|job| job.seed);
    let seeds = match (seeds.clone().min(), seeds.max()) {
        (Some(low), Some(high)) if low < high => format!("{low} to {high}"),
        (Some(one), _) => one.to_string(),
        _ => String::new(),
    };
    let cells = match cells.len() {
        1 => "one cell".to_owned(),
        n => format!("{n} cells"),
    };
    facts.push(("Runs", format!("{} in {cells}", jobs.len())));
    facts.push(("Seeds", seeds));
    let changes: Vec<String> = scenario
        .changes()
        .iter()
        .map(|change| match &change.before {
            Some(before) => format!("{} (scenario: {before})", change.text()),
            None => change.text(),
        })
        .collect();
    if !changes.is_empty() {
        facts.push(("Changed", changes.join("; ")));
    }
    let simulated: Vec<&Cell> = names
        .iter()
        .filter_map(|name| scenario.cell(name))
        .collect();
    let network = scenario.network(&simulated);
    facts.extend(
        network
            .iter()
            .map(|(name, value)| (name.as_str(), value.clone())),
    );
    facts.push(("Scenario hash", format!("{:016x}", scenario.hash())));
    facts.push(("Version", env!("CARGO_PKG_VERSION").to_owned()));
    let owned = facts
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value));
    owned.collect()
}

/// Keys whose values differ between cells, in the order of their names.
pub(super) fn varying(cells: &[&Cell]) -> Vec<String> {
    let Some(first) = cells.first() else {
        return Vec::new();
    };
    let differs = |key: &str, value| cells.iter().any(|cell| cell.value(key) != Some(value));
    first
        .values
        .iter()
        .filter(|(key, value)| differs(key, value))
        .map(|(key, _)| key.clone())
        .collect()
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::run::Selection;
    use crate::summary::tests::thesis;
    use crate::testing::{self, owned, seeds};

    fn report(set: &[&str], selection: &Selection) -> Report {
        let scenario = testing::scenario("thesis/long", set);
        let outcome = testing::outcome(scenario, selection, carob_sim::run);
        let subject = Subject {
            name: "thesis/long",
            outcome: &outcome,
            set: &owned(set),
            command: "carob lab run thesis/long".to_owned(),
        };
        comparison(&subject, &thesis()).expect("possible")
    }

    fn one(cell: &str, seed: u64) -> Selection {
        Selection {
            cell: Some(cell.to_owned()),
            seed: Some(seed),
            ..Selection::default()
        }
    }

    #[test]
    fn many_seeds_give_boxes_and_a_typical_transfer_each() {
        let selection = seeds(3, None);
        let set = ["clients=1", "buffer=2500 B", "response=2560 B"];
        let report = report(&set, &selection);
        let html = report.html();
        assert!(html.contains("Flow completion time (s)") && html.contains("Pesola 2020"));
        assert!(html.contains("Typical transfers"));
        // A reader repeats the runs from the report alone.
        assert!(html.contains("Text of thesis/long") && html.contains("[sweep]"));
        for algorithm in ["default, seed ", "cocoa-001, seed "] {
            // In the sequence graphs and in the timer traces.
            assert!(html.matches(algorithm).count() >= 2, "{algorithm}");
        }
        assert!(!html.contains("NaN"));
    }

    #[test]
    fn one_seed_of_one_cell_shows_its_transfer() {
        let selection = one("long-1c-high-2500", 3);
        let set = ["response=12800 B", "run.algorithms=default"];
        let html = report(&set, &selection).html();
        assert!(html.contains("The transfer") && html.contains("trace hash "));
        assert!(!html.contains("Box plots"));
    }

    #[test]
    fn tcp_transfers_have_separate_figures() {
        let selection = Selection {
            everywhere: true,
            ..seeds(2, Some("long-1c-none-28200"))
        };
        let mixed = report(&["run.algorithms=default,tcp-bbr1"], &selection).html();
        for text in [
            "Blocks over time.",
            "Sequence numbers over time.",
            "acknowledged",
            "Each dot is a segment",
        ] {
            assert!(mixed.contains(text), "{text}");
        }
        assert!(!mixed.contains("NaN"));
    }

    #[test]
    fn many_cells_are_split_into_several_box_plots() {
        let selection = Selection {
            seeds: Some(2),
            everywhere: true,
            ..Selection::default()
        };
        let html = report(&["response=512 B"], &selection).html();
        // 32 cells, by number of clients.
        assert_eq!(html.matches("Box plots of flow").count(), 2);
    }
}
