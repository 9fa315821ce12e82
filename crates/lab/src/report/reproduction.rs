//! The report of a reproduction: a study's printed values beside ours.

use super::boxplot::{BoxMark, BoxPlot, Whiskers};
use super::comparison::printed_of;
use super::page::{Details, FigureBlock, Report, Section};
use super::scale::Mapping;
use crate::papers::{self, Study};
use crate::reproduce::{self, Comparison, Ours, label};

/// The report of our runs of a study.
pub fn reproduction(
    study: &Study,
    ours: &Ours,
    comparisons: &[Comparison],
    stale: &[String],
    command: &str,
) -> Report {
    let tally = reproduce::tally(comparisons);
    let medians = comparisons
        .iter()
        .filter(|c| c.statistic == crate::statistics::Statistic::P50);
    let of_medians = reproduce::tally(medians);
    let mut facts = vec![
        (
            "Study".to_owned(),
            format!(
                "{}: “{}”, {}, {}",
                study.authors.join(", "),
                study.title,
                study.venue,
                study.year
            ),
        ),
        (
            "Verdicts".to_owned(),
            format!(
                "{} of {} medians and {} of {} values hold; {} values of print were not run",
                of_medians.holds,
                of_medians.run,
                tally.holds,
                tally.run,
                tally.printed - tally.run
            ),
        ),
        (
            "Seeds".to_owned(),
            format!(
                "{} to {}",
                ours.first_seed,
                ours.first_seed + ours.seeds.saturating_sub(1)
            ),
        ),
        (
            "Scenario".to_owned(),
            format!("{}, hash {}", ours.scenario, ours.scenario_hash),
        ),
        ("Version".to_owned(), ours.version.clone()),
    ];
    if !stale.is_empty() {
        let why = format!("stale, --fresh computes anew: {}", stale.join("; "));
        facts.push(("Warning".to_owned(), why));
    }
    let explained = reproduce::thesis_readings()
        .into_iter()
        .map(|r| format!("{}: {}", label(&r.algorithm, &r.set), r.about));
    Report {
        title: format!("{} beside ours", study.citation()),
        lead: "Printed values, ours, their ratio, and whether it is within tolerance.".to_owned(),
        facts,
        command: command.to_owned(),
        sections: vec![
            Section {
                heading: "Medians of flow completion time".to_owned(),
                text: reproduce::remarks(comparisons),
                figures: figures(study, ours, comparisons),
                tables: vec![reproduce::medians(comparisons)],
                ..Section::default()
            },
            Section {
                heading: "Readings of what the study leaves open".to_owned(),
                text: explained.chain(reproduce::nearer(comparisons)).collect(),
                tables: vec![reproduce::readings(comparisons)],
                ..Section::default()
            },
            Section {
                heading: "All printed statistics".to_owned(),
                text: vec![
                    "Ours over print. A cross marks a ratio outside its tolerance.".to_owned(),
                ],
                tables: vec![reproduce::all_statistics(comparisons)],
                details: vec![Details {
                    summary: "As comma-separated values".to_owned(),
                    text: csv(comparisons),
                }],
                ..Section::default()
            },
            Section {
                heading: "Not run".to_owned(),
                text: reproduce::not_run(comparisons),
                ..Section::default()
            },
            Section {
                heading: "Tolerances".to_owned(),
                text: vec![
                    "The study states none; these are this project's acceptance bounds.".to_owned(),
                ],
                details: vec![Details {
                    summary: "papers/thesis/tolerances.toml".to_owned(),
                    text: include_str!("../../../../papers/thesis/tolerances.toml").to_owned(),
                }],
                ..Section::default()
            },
        ],
    }
}

/// The value of a row's key, such as `error`.
fn value(c: &Comparison, key: &str) -> String {
    let found = c.expected.row.iter().find(|(k, _)| *k == key);
    found.map_or_else(String::new, |(_, value)| value.clone())
}

/// UDP by error; TCP, which has cells with several buffers, by buffer, each error apart.
fn figures(study: &Study, ours: &Ours, comparisons: &[Comparison]) -> Vec<FigureBlock> {
    let over_tcp = |c: &&Comparison| c.expected.algorithm.starts_with("tcp-");
    let run = || comparisons.iter().filter(|c| c.ours.is_some());
    let udp: Vec<&Comparison> = run().filter(|c| !over_tcp(c)).collect();
    let mut figures = vec![figure(study, ours, udp, "error", "")];
    let mut errors: Vec<String> = Vec::new();
    for c in run().filter(over_tcp) {
        let error = value(c, "error");
        if !errors.contains(&error) {
            errors.push(error);
        }
    }
    for error in errors {
        let own = |c: &&Comparison| over_tcp(c) && value(c, "error") == error;
        let some: Vec<&Comparison> = run().filter(own).collect();
        let about = format!(" over TCP with error {error}");
        figures.push(figure(study, ours, some, "buffer", &about));
    }
    figures
}

/// Box plots of some rows, a group for each value of `key` and number of clients.
fn figure(
    study: &Study,
    ours: &Ours,
    mut run: Vec<&Comparison>,
    key: &str,
    about: &str,
) -> FigureBlock {
    let (mut groups, mut cells) = (Vec::new(), Vec::<&str>::new());
    let (mut series, mut boxes) = (Vec::<String>::new(), Vec::new());
    // Fewer clients first, then in the order of print.
    let clients = |c: &Comparison| value(c, "clients").parse::<u32>().unwrap_or_default();
    run.sort_by_key(|c| clients(c));
    for c in run {
        let row = ours.rows.iter().find(|row| {
            row.cell == c.expected.cell && row.algorithm == c.expected.algorithm && row.set == c.set
        });
        let Some(row) = row else { continue };
        let (cell, name) = (c.expected.cell.as_str(), c.label());
        if !cells.contains(&cell) {
            cells.push(cell);
            let n = clients(c);
            groups.push((
                value(c, key),
                format!("{n} client{}", if n == 1 { "" } else { "s" }),
            ));
        }
        if !series.contains(&name) {
            series.push(name.clone());
        }
        let group = cells
            .iter()
            .position(|known| *known == cell)
            .unwrap_or_default();
        let index = series.iter().position(|s| *s == name).unwrap_or_default();
        let drawn = |b: &BoxMark| b.group == group && b.series == index;
        if !boxes.iter().any(drawn) {
            boxes.push(BoxMark {
                group,
                series: index,
                statistics: row.fct_s,
                printed: Some(printed_of(&c.expected)),
            });
        }
    }
    let plot = BoxPlot {
        y_label: "Flow completion time (s)".to_owned(),
        mapping: Mapping::Linear,
        groups,
        series,
        boxes,
        whiskers: Whiskers::P10P90,
        printed_label: study.citation(),
    };
    FigureBlock {
        svg: plot.svg("Box plots of flow completion times beside printed ones"),
        title: format!("Flow completion time by {key}{about}."),
        caption: plot.reading(),
    }
}

fn csv(comparisons: &[Comparison]) -> String {
    let header = [
        "table",
        "cell",
        "algorithm",
        "set",
        "statistic",
        "paper_s",
        "ours_s",
        "ratio",
        "tolerance",
        "verdict",
    ];
    let number = |value: Option<f64>| value.map_or_else(String::new, |v| v.to_string());
    let lines = comparisons.iter().map(|c| {
        vec![
            c.expected.table.to_string(),
            c.expected.cell.clone(),
            c.expected.algorithm.clone(),
            c.set.join("; "),
            c.statistic.name().to_owned(),
            c.paper.to_string(),
            number(c.ours),
            number(c.ratio()),
            c.tolerance.to_string(),
            c.verdict().name().to_owned(),
        ]
    });
    papers::csv_text(std::iter::once(header.map(str::to_owned).to_vec()).chain(lines))
}
