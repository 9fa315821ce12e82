//! The analysis as a page with figures.

use carob_analyze::Analysis;
use carob_lab::report::{FigureBlock, Report, Section, TimerTrace, distribution, timers};

use super::print::{controller_table, link_table};

/// Controllers in the figure.
const DRAWN: [&str; 4] = ["default", "cocoa-03", "fasor", "carob"];

pub(super) fn page(analysis: &Analysis, name: &str, command: &str) -> Report {
    let findings = analysis.findings();
    let (lead, rest) = findings.split_first().map_or_else(
        || (String::new(), Vec::new()),
        |(lead, rest)| (lead.clone(), rest.to_vec()),
    );
    let mut sections = vec![
        Section {
            heading: "Findings".to_owned(),
            text: rest,
            ..Section::default()
        },
        Section {
            heading: "Not known from this capture".to_owned(),
            text: analysis.unknowns(),
            ..Section::default()
        },
    ];
    let figures: Vec<FigureBlock> = round_trips(analysis).into_iter().collect();
    if !figures.is_empty() {
        sections.push(Section {
            heading: "Distribution of round trips".to_owned(),
            figures,
            ..Section::default()
        });
    }
    if analysis.points.iter().any(|point| point.timeouts.is_some()) {
        sections.push(Section {
            heading: "Round trips and timeouts".to_owned(),
            figures: vec![figure(analysis)],
            tables: vec![controller_table(analysis, true)],
            ..Section::default()
        });
    }
    if analysis.link.is_some() {
        sections.push(Section {
            heading: "Fitted link".to_owned(),
            tables: vec![link_table(analysis)],
            ..Section::default()
        });
    }
    sections.retain(|section| {
        let is_empty = section.text.is_empty() && section.tables.is_empty();
        !is_empty || !section.figures.is_empty()
    });
    Report {
        title: format!("Analysis of {name}"),
        lead,
        facts: vec![
            ("packets".to_owned(), analysis.contents.packets.to_string()),
            (
                "messages".to_owned(),
                analysis.contents.messages.to_string(),
            ),
            (
                "place".to_owned(),
                format!("{}, {}", analysis.place, analysis.basis),
            ),
            ("version".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
        ],
        command: command.to_owned(),
        sections,
    }
}

/// The distribution of round trips.
fn round_trips(analysis: &Analysis) -> Option<FigureBlock> {
    let values: Vec<f64> = (analysis.points.iter())
        .map(|point| point.round_trip_us as f64 / 1e6)
        .collect();
    let title = "Distribution of round trips";
    let caption = format!(
        "Share of {} round trips at or below each time, with the median and the 90th and 95th \
         percentiles. Of more than the limit, a uniform sample.",
        values.len()
    );
    let picture = distribution(&values, title, "Round trip, s", "s")?;
    Some(FigureBlock::new(picture, title.to_owned(), &caption))
}

/// Round trips over time, and the first timeouts of some controllers.
fn figure(analysis: &Analysis) -> FigureBlock {
    let point = |at_us: u64, value_us: u64| (at_us as f64 / 1e6, value_us as f64 / 1e6);
    let round_trips: Vec<(f64, f64)> = (analysis.points.iter())
        .map(|one| point(one.at_us, one.round_trip_us))
        .collect();
    let panel = |name: &str| {
        let place = analysis
            .controllers
            .iter()
            .position(|one| one.name == name)?;
        let timeouts = analysis.points.iter().filter_map(|one| {
            let timeout = one.timeouts.as_ref()?.get(place)?;
            Some(point(one.at_us, u64::from(*timeout)))
        });
        let trace = TimerTrace {
            rto_init: timeouts.collect(),
            rtt: round_trips.clone(),
            ..TimerTrace::default()
        };
        Some((name.to_owned(), trace))
    };
    let panels: Vec<(String, TimerTrace)> = DRAWN.into_iter().filter_map(panel).collect();
    let title = "Round trips, and first timeouts of controllers";
    let caption = "Each panel has the same round trips and the first timeouts that its controller \
                   would have set. A timeout below its round trip makes a spurious retransmission.";
    FigureBlock::new(timers(&panels, title), title.to_owned(), caption)
}
