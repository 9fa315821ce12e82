//! Figures of the runs that a study's text explains, with captions computed from the runs.

use std::fmt::Write as _;

use crate::claims::{ClaimStatuses, Part, StoredVerdicts};
use crate::explained::{Around, Chosen, ExplainedRun, ExplainedRuns, Facts};
use crate::papers;
use carob_lab::report::{FigureBlock, FlowsGraph, Kind, Picture, Section, number};
use carob_lab::run::RunSetupError;
use carob_lab::summary::{self, seconds};
use carob_lab::text::TextTable;

/// A figure with a name that its file has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drawn {
    /// Its name.
    pub id: String,
    /// The figure.
    pub picture: Picture,
    /// Title, a few words.
    pub title: String,
    /// Explanation of the figure and its findings.
    pub caption: String,
}

impl From<Drawn> for FigureBlock {
    fn from(drawn: Drawn) -> Self {
        Self::new(drawn.picture, drawn.title, &drawn.caption)
    }
}

/// A run that the text explains, drawn.
#[derive(Clone, Debug)]
pub struct Explained {
    /// The run's description.
    pub run: ExplainedRun,
    /// The rule that chose its seed, one sentence.
    pub rule: String,
    /// The command that makes it again.
    pub command: String,
    /// The whole run, and an enlarged part, if one was requested.
    pub figures: Vec<Drawn>,
    /// Its flows in numbers, if there are several.
    pub flows: Option<TextTable>,
    /// The claims it shows, with their verdicts from many runs.
    pub claims: TextTable,
}

/// Legend of these figures.
pub const READING: &str = "Each mark is a segment of data that the server sent, by the first of its \
bytes, counted from the beginning of the connection. A dropped or lost segment has a second mark on \
it; a loss on the way back is drawn at what the lost packet acknowledged. Lines are what the server \
knew to be acknowledged. Every segment is drawn, unless a caption says how many events are not.";

/// Draws every explained run; without tooltips if the figures are `still`.
pub fn explained(runs: &ExplainedRuns, still: bool) -> Result<Vec<Explained>, RunSetupError> {
    let all = runs.run.iter();
    all.map(|run| Ok(draw(&Chosen::new(run, runs.seeds)?, still)))
        .collect()
}

/// A figure of that name, without tooltips, if an explained run has one.
pub fn explained_figure(runs: &ExplainedRuns, id: &str) -> Result<Option<Drawn>, RunSetupError> {
    let name = id.strip_suffix(DETAIL).unwrap_or(id);
    let Some(run) = runs.run.iter().find(|run| run.id == name) else {
        return Ok(None);
    };
    let figures = draw(&Chosen::new(run, runs.seeds)?, true).figures;
    Ok(figures.into_iter().find(|figure| figure.id == id))
}

/// Suffix of the name of a closer figure.
const DETAIL: &str = "-detail";

fn draw(chosen: &Chosen, still: bool) -> Explained {
    let run = &chosen.run;
    let graph = FlowsGraph::of_streams(&chosen.record.events, chosen.clients);
    let picture = |graph: &FlowsGraph, label: &str| graph.picture(label, !still);
    let name = format!("{}, {}, seed {}", run.cell, run.algorithm, chosen.seed);
    let mut figures = vec![Drawn {
        id: run.id.clone(),
        picture: picture(&graph, &run.title),
        title: format!("{name}."),
        caption: caption(chosen),
    }];
    if let Some((around, (from, to))) = chosen.detail() {
        let part = graph.between(from, to);
        figures.push(Drawn {
            id: format!("{}{DETAIL}", run.id),
            picture: picture(&part, &format!("{}, in detail", run.title)),
            title: format!("{name}, from {from:.0} s to {to:.0} s."),
            caption: part_caption(&part, around),
        });
    }
    Explained {
        run: run.clone(),
        rule: chosen.rule(),
        command: chosen.command(),
        figures,
        flows: (chosen.clients > 1).then(|| flows(&chosen.facts)),
        claims: claims(run),
    }
}

impl From<Explained> for Section {
    fn from(explained: Explained) -> Self {
        let Explained {
            run,
            rule,
            command,
            figures,
            flows,
            claims,
        } = explained;
        Self {
            heading: run.title,
            text: vec![
                format!("The text ({}): {}", run.section, run.says),
                format!("{rule} It is made again by: {command}"),
            ],
            figures: figures.into_iter().map(FigureBlock::from).collect(),
            tables: flows.into_iter().chain([claims]).collect(),
            ..Self::default()
        }
    }
}

/// Findings of a run, in numbers.
fn caption(chosen: &Chosen) -> String {
    let facts = &chosen.facts;
    let sum = |of: fn(&Facts) -> u64| whole(facts.iter().map(of).sum());
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = match &facts[..] {
        [one] => match one.fct_s() {
            Some(fct) => write!(text, "Done {} s after the request.", seconds(fct)),
            None => write!(text, "Not completed."),
        },
        several => {
            let times: Vec<String> = several
                .iter()
                .map(|f| f.fct_s().map_or_else(|| "never".to_owned(), seconds))
                .collect();
            let times: Vec<&str> = times.iter().map(String::as_str).collect();
            let times = summary::listed(&times);
            write!(text, "The flows were done {times} s after their requests.")
        }
    };
    let _ = write!(
        text,
        " The server sent {} data segments, {} of them again; a full buffer dropped {}.",
        sum(|f| f.segments),
        sum(|f| f.again),
        sum(|f| f.dropped),
    );
    if facts.iter().any(|f| f.lost + f.lost_back > 0) {
        let _ = write!(
            text,
            " On the link {} were lost, and {} packets on the way back.",
            sum(|f| f.lost),
            sum(|f| f.lost_back),
        );
    }
    text += &duplicate(facts);
    text += &recovery(facts);
    text += &stall(facts);
    if let Some(turns) = chosen.turns() {
        let _ = write!(
            text,
            " While all flows sent, from {:.1} s to {:.1} s, on average {:.1} segments of one flow went before one of another; mixed at random, it would be {:.1}.",
            turns.from_s, turns.to_s, turns.mean_segments, turns.at_random
        );
    }
    if chosen.record.events_unrecorded > 0 {
        let unrecorded = chosen.record.events_unrecorded;
        let _ = write!(text, " The last {unrecorded} events are not drawn.");
    }
    text
}

/// Findings of a part of a run.
fn part_caption(part: &FlowsGraph, around: Around) -> String {
    let count = |kind| {
        let marks = part.flows.iter().flat_map(|flow| &flow.marks);
        whole(marks.filter(|mark| mark.kind == kind).count() as u64)
    };
    let around = match around {
        Around::FirstDuplicateAck => "Around the first duplicate acknowledgment",
        Around::FirstTimeout => "Around the first timer that ran out",
    };
    format!(
        "{around}: {} segments sent for the first time, {} sent again, {} dropped, {} lost.",
        count(Kind::First),
        count(Kind::Again),
        count(Kind::Full),
        count(Kind::Lost),
    )
}

fn whole(count: u64) -> String {
    number(count as f64, 0)
}

/// `flow 2` where there are several.
fn of_flow(facts: &[Facts], flow: usize) -> String {
    if facts.len() > 1 {
        format!(" (flow {})", flow + 1)
    } else {
        String::new()
    }
}

fn duplicate(facts: &[Facts]) -> String {
    let all = facts.iter().enumerate();
    let found = all.filter_map(|(k, f)| Some((k, f.duplicate?)));
    let Some((flow, first)) = found.min_by(|(_, a), (_, b)| a.at_s.total_cmp(&b.at_s)) else {
        return " No acknowledgment came twice.".to_owned();
    };
    let bytes = facts[flow].bytes;
    let sent = if first.sent == bytes {
        format!("all {} bytes", whole(bytes.into()))
    } else {
        format!(
            "{} of {} bytes",
            whole(first.sent.into()),
            whole(bytes.into())
        )
    };
    format!(
        " The first duplicate acknowledgment came at {:.1} s{}, when {sent} had been sent once.",
        first.at_s,
        of_flow(facts, flow)
    )
}

fn recovery(facts: &[Facts]) -> String {
    let recoveries: u64 = facts.iter().map(|f| f.recoveries).sum();
    let mut text = match (recoveries, facts) {
        (0, _) => " No fast recovery.".to_owned(),
        (n, [one]) => format!(
            " {n} fast recover{} took {} s.",
            if n == 1 { "y" } else { "ies" },
            seconds(one.recovery_s)
        ),
        (n, several) => {
            let shares = several.iter().map(|f| {
                let took = f.fct_s().filter(|fct| *fct > 0.0);
                format!(
                    "{:.0} %",
                    took.map_or(0.0, |fct| 100.0 * f.recovery_s / fct)
                )
            });
            let shares: Vec<String> = shares.collect();
            let shares: Vec<&str> = shares.iter().map(String::as_str).collect();
            let shares = summary::listed(&shares);
            format!(" {n} fast recoveries took {shares} of the flows' times.")
        }
    };
    let timeouts: u64 = facts.iter().map(|f| f.timeouts).sum();
    let first = facts.iter().filter_map(|f| f.first_timeout_s);
    let peak = facts.iter().map(|f| f.rto_peak_s).fold(0.0, f64::max);
    // Writing to a String cannot fail.
    let _ = match (timeouts, first.min_by(f64::total_cmp)) {
        (0, _) | (_, None) => write!(text, " No timer ran out."),
        (1, Some(first)) => write!(text, " One timer ran out, at {first:.1} s."),
        (n, Some(first)) => write!(
            text,
            " {n} timers ran out, the first at {first:.1} s; the longest one set was {} s.",
            seconds(peak)
        ),
    };
    text
}

fn stall(facts: &[Facts]) -> String {
    let all = facts.iter().enumerate();
    let found = all.filter_map(|(k, f)| Some((k, f.stall?)));
    let longest = found.max_by(|(_, a), (_, b)| a.length_s().total_cmp(&b.length_s()));
    longest.map_or_else(String::new, |(flow, stall)| {
        format!(
            " The longest time without new data at the client was {} s, from {:.1} s to {:.1} s{}.",
            seconds(stall.length_s()),
            stall.from_s,
            stall.to_s,
            of_flow(facts, flow)
        )
    })
}

/// Flows in numbers, a row each.
fn flows(facts: &[Facts]) -> TextTable {
    let columns = [
        "flow",
        "began s",
        "took s",
        "segments",
        "again",
        "dropped",
        "recoveries",
        "in recovery s",
        "timers out",
        "longest wait s",
    ];
    let mut table = TextTable::new(columns.map(|name| format!(">{name}")));
    for (k, f) in facts.iter().enumerate() {
        let stall = f.stall.map_or(0.0, |stall| stall.length_s());
        table.add(vec![
            (k + 1).to_string(),
            seconds(f.started_s),
            f.fct_s().map_or_else(summary::dash, seconds),
            f.segments.to_string(),
            f.again.to_string(),
            f.dropped.to_string(),
            f.recoveries.to_string(),
            seconds(f.recovery_s),
            f.timeouts.to_string(),
            seconds(stall),
        ]);
    }
    table
}

/// The claims a run shows, and their judgement by many runs.
fn claims(run: &ExplainedRun) -> TextTable {
    let kept: Vec<StoredVerdicts> = Part::of("thesis").filter_map(StoredVerdicts::of).collect();
    let all = papers::claims("thesis");
    let standings = ClaimStatuses::of("thesis");
    let mut table = TextTable::new(["claim", "the text", "verdict", "measured"]);
    for id in &run.claims {
        let claim = all.iter().find(|claim| claim.id == *id);
        let mut judged = kept.iter().flat_map(|kept| &kept.claims);
        let judged = judged.find(|judged| judged.id == *id);
        table.add(vec![
            id.clone(),
            claim.map_or_else(String::new, |claim| claim.claim.clone()),
            judged
                .map_or("undecided", |judged| standings.standing(judged).name())
                .to_owned(),
            judged.map_or_else(summary::dash, |judged| judged.text.measured()),
        ]);
    }
    let its_own = |kept: &&StoredVerdicts| {
        kept.claims
            .iter()
            .any(|judged| run.claims.contains(&judged.id))
    };
    if let Some(kept) = kept.iter().find(its_own) {
        table.add_note(&format!(
            "Verdicts and values are of {} seeds, not of this run alone.",
            kept.seeds
        ));
    }
    table
}

#[cfg(test)]
mod tests {
    use carob_lab::report::Mark;

    use super::*;
    use crate::explained::{DuplicateAck, Stall, thesis};
    use carob_lab::run::on_threads;

    #[test]
    fn nightly_figures_are_the_same_on_one_and_on_two_threads() {
        let on = |threads| on_threads(Some(threads), || explained(&thesis(), true));
        let (one, two) = (on(1).expect("threads"), on(2).expect("threads"));
        let figures = |all: Result<Vec<Explained>, RunSetupError>| -> Vec<Drawn> {
            let all = all.expect("possible");
            all.into_iter().flat_map(|e| e.figures).collect()
        };
        let (one, two) = (figures(one), figures(two));
        assert!(one == two && one.len() > thesis().run.len());
        for figure in &one {
            assert!(figure.picture.0.len() < 200_000, "{}", figure.id);
            assert!(!figure.picture.0.contains("NaN"), "{}", figure.id);
            let again = explained_figure(&thesis(), &figure.id).expect("possible");
            assert_eq!(again.as_ref(), Some(figure));
        }
        assert!(matches!(explained_figure(&thesis(), "nothing"), Ok(None)));
    }

    #[test]
    fn nightly_every_retransmission_and_drop_is_drawn() {
        let explained = thesis();
        for run in &explained.run {
            let chosen = Chosen::new(run, explained.seeds).expect("possible");
            let graph = FlowsGraph::of_streams(&chosen.record.events, chosen.clients);
            for (flow, facts) in graph.flows.iter().zip(&chosen.facts) {
                let until = facts.finished_s.unwrap_or(f64::INFINITY);
                let count = |kind| {
                    let own = |m: &&Mark| m.kind == kind && m.at_s <= until;
                    flow.marks.iter().filter(own).count() as u64
                };
                assert_eq!(count(Kind::Again), facts.again, "{}", run.id);
                assert_eq!(count(Kind::Full), facts.dropped, "{}", run.id);
                assert_eq!(count(Kind::Lost), facts.lost, "{}", run.id);
            }
            let drawn = |class: &str, end: char| {
                let svg = graph.picture("a label", false).0;
                let (_, layers) = svg.split_once("class=\"layers\"").expect("a panel");
                let paths = layers
                    .split("<path class=\"")
                    .filter(|p| p.starts_with(class));
                paths.map(|p| p.matches(end).count()).sum::<usize>()
            };
            let all = |kind| {
                let marks = graph.flows.iter().flat_map(|flow| &flow.marks);
                marks.filter(|m| m.kind == kind).count()
            };
            let family = if graph.flows.len() == 1 {
                "seq"
            } else {
                "flow"
            };
            let class = |kind| format!("{family}-{kind}");
            assert_eq!(drawn(&class("again"), 'Z'), all(Kind::Again), "{}", run.id);
            assert_eq!(drawn(&class("first"), 'M'), all(Kind::First), "{}", run.id);
        }
    }

    #[test]
    fn a_caption_says_whether_anything_new_was_left_to_send() {
        let with = |sent| Facts {
            bytes: 100,
            duplicate: Some(DuplicateAck { at_s: 33.25, sent }),
            ..Facts::default()
        };
        assert!(duplicate(&[with(100)]).contains("33.2 s, when all 100 bytes had"));
        let text = duplicate(&[Facts::default(), with(80)]);
        assert!(
            text.contains("(flow 2), when 80 of 100 bytes had"),
            "{text}"
        );
        assert!(duplicate(&[Facts::default()]).contains("No acknowledgment came twice"));
    }

    #[test]
    fn a_caption_tells_the_longest_wait_of_all_flows() {
        let with = |from_s, to_s| Facts {
            stall: Some(Stall { from_s, to_s }),
            ..Facts::default()
        };
        let text = stall(&[with(1.0, 2.0), with(5.0, 9.5)]);
        assert!(
            text.contains("4.50 s, from 5.0 s to 9.5 s (flow 2)"),
            "{text}"
        );
        assert_eq!(stall(&[Facts::default()]), "");
    }
}
