//! The report of a reproduction: a study's published values and the measured ones.

use super::explained::{Explained, READING};
use super::published::completion_times;
use crate::reproduce::{self, MeasuredRuns};
use carob_lab::csv;
use carob_lab::expected::{Comparison, label, tally};
use carob_lab::report::{Details, FigureBlock, Report, Section};
use carob_lab::study::Study;

/// The report of our runs of a study, and of the runs its text explains.
pub fn reproduction(
    study: &Study,
    measured: &MeasuredRuns,
    comparisons: &[Comparison],
    stale: &[String],
    explained: Vec<Explained>,
    command: &str,
) -> Report {
    let of_all = tally(comparisons);
    let medians = comparisons
        .iter()
        .filter(|c| c.statistic == carob_lab::statistics::Statistic::P50);
    let of_medians = tally(medians);
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
                "{} of {} medians and {} of {} values hold; {} published values were not run",
                of_medians.holds,
                of_medians.run,
                of_all.holds,
                of_all.run,
                of_all.published - of_all.run
            ),
        ),
        (
            "Seeds".to_owned(),
            format!(
                "{} to {}",
                measured.first_seed,
                measured.first_seed + measured.seeds.saturating_sub(1)
            ),
        ),
        (
            "Scenario".to_owned(),
            format!("{}, hash {}", measured.scenario, measured.scenario_hash),
        ),
        ("Version".to_owned(), measured.version.clone()),
    ];
    if !stale.is_empty() {
        let why = format!("stale, --fresh computes anew: {}", stale.join("; "));
        facts.push(("Warning".to_owned(), why));
    }
    let readings = reproduce::thesis_readings()
        .into_iter()
        .map(|r| format!("{}: {}", label(&r.algorithm, &r.set), r.about));
    let (boxes, figures) = completion_times(study, measured, comparisons);
    let mut report = Report {
        title: format!("{}: published and measured", study.citation()),
        lead: "Published values, measured values, their ratio, and whether it is within tolerance."
            .to_owned(),
        facts,
        command: command.to_owned(),
        sections: vec![
            Section {
                heading: "Two verdicts by table".to_owned(),
                text: vec![
                    "Values of the profiles as they are: within the tolerance of their rule, within 10 % of the published \
                     value, and the tolerance at which half of them hold."
                        .to_owned(),
                ],
                tables: vec![reproduce::by_table(comparisons)],
                ..Section::default()
            },
            Section {
                heading: "Medians of flow completion time".to_owned(),
                text: std::iter::once(boxes)
                    .chain(reproduce::remarks(comparisons))
                    .collect(),
                figures: figures.into_iter().map(FigureBlock::from).collect(),
                tables: vec![reproduce::medians(comparisons)],
                ..Section::default()
            },
            Section {
                heading: "Interpretations of what the study leaves open".to_owned(),
                text: readings.chain(reproduce::nearer(comparisons)).collect(),
                tables: vec![reproduce::readings(comparisons)],
                ..Section::default()
            },
            Section {
                heading: "All published statistics".to_owned(),
                text: vec![
                    "Measured over published. A cross marks a ratio outside its tolerance.".to_owned(),
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
                    text: include_str!("../../papers/thesis/tolerances.toml").to_owned(),
                }],
                ..Section::default()
            },
        ],
    };
    if !explained.is_empty() {
        let reading = Section {
            heading: "Runs that the text explains".to_owned(),
            text: vec![READING.to_owned()],
            ..Section::default()
        };
        let all = std::iter::once(reading).chain(explained.into_iter().map(Section::from));
        // After the verdicts and the medians.
        report.sections.splice(2..2, all);
    }
    report
}

fn csv(comparisons: &[Comparison]) -> String {
    let header = [
        "table",
        "cell",
        "algorithm",
        "set",
        "statistic",
        "published_s",
        "measured_s",
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
            number(c.measured),
            number(c.ratio()),
            c.tolerance.to_string(),
            c.verdict().name().to_owned(),
        ]
    });
    csv::text(std::iter::once(header.map(str::to_owned).to_vec()).chain(lines))
}
