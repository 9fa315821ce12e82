//! The runs that a study's text explains: which they are, how each is chosen, what happened in it.
//!
//! `papers/<study>/figures.toml` lists them. A seed picked by hand would show another thing as soon
//! as the simulator changes; so each run is chosen by a rule ([`Choice`]) from the runs of the
//! cell's first seeds, and its figure is what that rule finds today.

mod facts;

use serde::Deserialize;

pub use facts::{DuplicateAck, Facts, Interleaving, Stall};

use carob_cc::time::Duration;
use carob_sim::spec::RunRecord;

use carob_lab::run::{Plan, Recording, RunSetupError, Selection};
use carob_lab::scenario::{Scenario, builtin};
use carob_lab::statistics::Statistics;

/// The rule that chooses a run among the first seeds. Ties go to the lowest seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Choice {
    /// That whose slowest flow takes closest to the median of such times.
    Median,
    /// That with the slowest flow.
    Slowest,
    /// That with the flow that was longest without anything new of its response.
    LongestStall,
}

impl Choice {
    /// The rule in words.
    pub const fn about(self) -> &'static str {
        match self {
            Self::Median => "the one whose slowest flow takes closest to the median",
            Self::Slowest => "the one with the slowest flow",
            Self::LongestStall => "the one with the longest time without new data",
        }
    }

    /// The place of the run it chooses; `None` if there are none.
    pub fn of(self, records: &[&RunRecord]) -> Option<usize> {
        // The first of equals: `min_by` keeps it, `max_by` would not.
        let least = |badness: &dyn Fn(&RunRecord) -> f64| {
            let all = records.iter().enumerate();
            let all = all.map(|(place, record)| (place, badness(record)));
            all.min_by(|(_, a), (_, b)| a.total_cmp(b))
                .map(|(place, _)| place)
        };
        match self {
            Self::Median => {
                let times: Vec<f64> = records.iter().map(|record| slowest_s(record)).collect();
                let median = Statistics::of(&times)?.p50;
                least(&|record| (slowest_s(record) - median).abs())
            }
            Self::Slowest => least(&|record| -slowest_s(record)),
            Self::LongestStall => least(&|record| {
                let stalls = record
                    .flows
                    .iter()
                    .map(|flow| flow.stall.as_micros() as f64);
                -stalls.fold(0.0, f64::max)
            }),
        }
    }
}

/// The time of a run's slowest flow; one that was cut off took until the end.
fn slowest_s(record: &RunRecord) -> f64 {
    let times = record.flows.iter().map(|flow| {
        let until = flow.finished.unwrap_or(record.ended);
        until.since(flow.started).as_micros() as f64 / 1e6
    });
    times.fold(0.0, f64::max)
}

/// The event that a second, closer figure is centred on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Around {
    /// The first duplicate acknowledgment of any flow.
    FirstDuplicateAck,
    /// The first retransmission timer of any flow that ran out.
    FirstTimeout,
}

/// A part of a run to draw again, larger.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Detail {
    /// The event in its centre.
    pub around: Around,
    /// Seconds shown before that.
    pub before_s: f64,
    /// Seconds shown after that.
    pub after_s: f64,
}

/// A run that the text explains.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExplainedRun {
    /// Its name, also of its figure's file.
    pub id: String,
    /// Title, a few words.
    pub title: String,
    /// Where the text explains it.
    pub section: String,
    /// The statement of the study's text, paraphrased.
    pub says: String,
    /// The claims it shows, by id.
    pub claims: Vec<String>,
    /// Its cell.
    pub cell: String,
    /// Its algorithm.
    pub algorithm: String,
    /// Which of the cell's runs it is.
    pub choose: Choice,
    /// A part of it to draw larger.
    pub detail: Option<Detail>,
}

/// The runs that a study's text explains, and of how many seeds each is chosen.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExplainedRuns {
    /// Runs made of each cell and algorithm.
    pub seeds: u64,
    /// The runs, in the order of the text.
    pub run: Vec<ExplainedRun>,
}

/// The runs of Pesola 2020, `papers/thesis/figures.toml`.
pub fn thesis() -> ExplainedRuns {
    let text = include_str!("../../papers/thesis/figures.toml");
    toml::from_str(text).expect("a test reads the file")
}

/// Recording of a chosen run. Events beyond the limit are counted, and the caption states their
/// number.
const RECORDING: Recording = Recording {
    events: 60_000,
    events_of: None,
    samples: 0,
    log: 0,
    packets: 0,
    bin: Duration::ZERO,
    moments: 0,
};

/// A run that was chosen, made again and recorded.
#[derive(Clone, Debug)]
pub struct Chosen {
    /// The run's description.
    pub run: ExplainedRun,
    /// Its seed, which the rule found.
    pub seed: u64,
    /// The seeds it was chosen from: first and last.
    pub seeds: (u64, u64),
    /// Clients, each with a flow; the server is the host of that number.
    pub clients: u32,
    /// The complete record.
    pub record: RunRecord,
    /// Facts by flow.
    pub facts: Vec<Facts>,
}

impl Chosen {
    /// Makes the runs of the first `seeds` seeds and chooses.
    pub fn new(run: &ExplainedRun, seeds: u64) -> Result<Self, RunSetupError> {
        let (file, _) = builtin::find("thesis/long").expect("it is built in");
        let algorithms = [run.algorithm.clone()];
        let scenario = Scenario::with_algorithms(file.name, file.text, &[], Some(&algorithms))
            .expect("a test makes every explained run");
        let select = |seed, record| Selection {
            cell: Some(run.cell.clone()),
            everywhere: true,
            seeds: Some(seeds),
            seed,
            record,
        };
        let all = select(None, Recording::default());
        let plan = Plan::new(&scenario, &all).expect("a test makes every explained run");
        let outcome = plan.execute(carob_sim::run, |_, _| {})?;
        let records: Vec<_> = outcome.runs().map(|(_, record)| record).collect();
        let records: Vec<&RunRecord> = records.iter().map(AsRef::as_ref).collect();
        let place = run.choose.of(&records).expect("there are seeds");
        let job = plan.jobs()[place];
        let mut spec = plan.spec(&job);
        spec.record = RECORDING;
        let record = carob_sim::run(&spec).map_err(|why| RunSetupError::Run {
            cell: run.cell.clone(),
            why,
        })?;
        let facts = facts::of(&record, spec.clients);
        let first = scenario.first_seed();
        Ok(Self {
            run: run.clone(),
            seed: job.seed,
            seeds: (first, first + seeds - 1),
            clients: spec.clients,
            record,
            facts,
        })
    }

    /// The command that makes it again and draws it.
    pub fn command(&self) -> String {
        format!(
            "carob lab run thesis/{} --algorithm {} --seed {}",
            self.run.cell, self.run.algorithm, self.seed
        )
    }

    /// The rule that chose it, one sentence.
    pub fn rule(&self) -> String {
        format!(
            "Of seeds {} to {}, {}: seed {}.",
            self.seeds.0,
            self.seeds.1,
            self.run.choose.about(),
            self.seed
        )
    }

    /// The part to draw larger: its event, and start and end in seconds; none if the event did
    /// not happen.
    pub fn detail(&self) -> Option<(Around, (f64, f64))> {
        let detail = self.run.detail?;
        let facts = self.facts.iter();
        let times: Vec<f64> = match detail.around {
            Around::FirstDuplicateAck => facts.filter_map(|f| Some(f.duplicate?.at_s)).collect(),
            Around::FirstTimeout => facts.filter_map(|f| f.first_timeout_s).collect(),
        };
        let at = times.into_iter().min_by(f64::total_cmp)?;
        let window = ((at - detail.before_s).max(0.0), at + detail.after_s);
        Some((detail.around, window))
    }

    /// Interleaving of its flows, if there are several.
    pub fn turns(&self) -> Option<Interleaving> {
        Interleaving::of(&self.record, self.clients)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use carob_cc::time::{Duration, Instant};
    use carob_sim::spec::FlowRecord;

    use super::*;
    use crate::papers;
    use carob_lab::run::on_threads;

    fn record(took_ms: u64, stall_ms: u64) -> RunRecord {
        RunRecord {
            flows: vec![FlowRecord {
                finished: Some(Instant::from_micros(took_ms * 1_000)),
                stall: Duration::from_micros(stall_ms * 1_000),
                ..FlowRecord::default()
            }],
            ..RunRecord::default()
        }
    }

    #[test]
    fn a_rule_finds_its_run_and_of_equals_the_first() {
        let all = [(9, 1), (5, 1), (7, 4), (7, 4), (90, 2)].map(|(t, s)| record(t, s));
        let all: Vec<&RunRecord> = all.iter().collect();
        assert_eq!(Choice::Median.of(&all), Some(2));
        assert_eq!(Choice::Slowest.of(&all), Some(4));
        assert_eq!(Choice::LongestStall.of(&all), Some(2));
        assert_eq!(Choice::Median.of(&[]), None);
    }

    #[test]
    fn a_flow_that_was_cut_off_is_as_slow_as_its_run_was_long() {
        let mut cut = record(0, 0);
        cut.flows[0].finished = None;
        cut.ended = Instant::from_micros(50_000);
        let fast = record(49, 0);
        assert_eq!(Choice::Slowest.of(&[&fast, &cut]), Some(1));
    }

    #[test]
    fn nightly_explained_runs_name_claims_of_their_cell() {
        let ExplainedRuns { seeds, run: runs } = thesis();
        let ids: BTreeSet<&str> = runs.iter().map(|run| run.id.as_str()).collect();
        assert_eq!(ids.len(), runs.len(), "ids are file names");
        let claims = papers::claims("thesis");
        for run in &runs {
            for id in &run.claims {
                assert!(claims.iter().any(|c| c.id == *id), "{}: {id}", run.id);
            }
            let chosen = Chosen::new(run, seeds).expect("possible");
            assert_eq!(chosen.facts.len(), chosen.clients as usize, "{}", run.id);
            assert_eq!(chosen.record.events_unrecorded, 0, "{}", run.id);
            assert_eq!(
                chosen.detail().is_some(),
                run.detail.is_some(),
                "{}",
                run.id
            );
            assert_eq!(chosen.turns().is_some(), chosen.clients > 1, "{}", run.id);
        }
    }

    #[test]
    fn a_choice_does_not_depend_on_the_number_of_threads() {
        let ExplainedRuns { run: runs, .. } = thesis();
        for run in &runs {
            let on = |threads| {
                let chosen = on_threads(Some(threads), || Chosen::new(run, 6).expect("possible"));
                let chosen = chosen.expect("threads");
                (chosen.seed, chosen.record.trace_hash)
            };
            assert_eq!(on(1), on(2), "{}", run.id);
        }
    }
}
