//! Runs of one stage of a comparison, their values and costs.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use carob_cc::time::Duration;
use carob_sim::link::{DirectionSpec, Impairments, LinkSpec, LossSpec, PathChange};
use carob_sim::registry::Registry;
use carob_sim::spec::{NetworkSpec, RunRecord, RunSpec};
use rayon::prelude::*;

use super::candidates::largest_block;
use super::configuration::Configuration;
use super::judge::{Measured, Pool, RunSummary, UNANSWERED, Weights, packets, resamples};
use super::link::Link;
use super::neighbourhood::Near;
use super::traffic::Traffic;
use super::{CompareError, Progress, Question};
use crate::scenario::Scenario;
use crate::scenario::value::{Value, Values, table};

/// Runs of one stage.
pub(super) struct Stage<'a> {
    pub(super) link: &'a Link,
    pub(super) traffic: &'a Traffic,
    pub(super) seeds: Vec<u64>,
    /// Whether a neighbour's time is measured.
    pub(super) with_harm: bool,
    /// The controllers that configurations name.
    pub(super) registry: Registry,
    /// Values of the scenario besides.
    pub(super) overrides: &'a Values,
    /// Ends the stage with an error once it is true.
    pub(super) is_stopped: &'a AtomicBool,
}

/// The flag of stages that nobody stops.
pub(super) static NEVER: AtomicBool = AtomicBool::new(false);
/// No values in addition to link, traffic and configuration.
pub(super) static NONE: Values = Values::new();

/// Exchanges of datagrams over a link that take as long as one in a wireless network.
const MESH_FACTOR: u64 = 40;

/// Work of one seed, about, in exchanges of datagrams over a link.
pub(super) fn work(link: &Link, traffic: &Traffic, block: u16, with_harm: bool) -> u64 {
    let factor = if link.is_mesh { MESH_FACTOR } else { 1 };
    traffic.exchanges(block) * factor * (1 + u64::from(with_harm))
}

/// A stage with as many seeds as a number of exchanges allows, within bounds.
pub(super) fn stage(
    question: &Question,
    first_seed: u64,
    exchanges: u64,
    configurations: usize,
    bounds: Range<u64>,
) -> Stage<'_> {
    let (link, traffic) = (&question.link, &question.traffic);
    let with_harm = Question::has_harm(link, traffic);
    let each = work(link, traffic, largest_block(link), with_harm);
    let seeds = exchanges / (each * configurations as u64).max(1);
    Stage {
        seeds: (first_seed..first_seed + seeds.clamp(bounds.start, bounds.end)).collect(),
        with_harm,
        ..idle(question, None)
    }
}

/// Seeds that are made for rare losses at most.
const RARE_LOSS_SEEDS_MAX: u64 = 5_000;

/// Seeds after which runs have had the losses needed, runs of losses counted once. Where fewer are made, the
/// recovery from a loss is seen in no run, and all configurations look alike.
pub(super) fn rare_loss_seeds(link: &Link, traffic: &Traffic, block: u16, needed: u64) -> u64 {
    // A request and a response.
    let packets = 2 * traffic.exchanges(block);
    let losses = u128::from(packets) * u128::from(link.mean_loss_ppm()) * 1_000;
    if link.is_mesh || losses == 0 {
        return 0;
    }
    let wanted = u128::from(needed) * 1_000_000 * u128::from(link.loss_burst_milli);
    let seeds = u64::try_from(wanted / losses).unwrap_or(u64::MAX);
    seeds.min(RARE_LOSS_SEEDS_MAX)
}

/// Loss processes of a link that are known before a run: the seed determines which packets they take.
pub(super) struct KnownLosses([LossSpec; 2]);

impl KnownLosses {
    /// None where chance decides by time or by something besides, and in a mesh.
    pub(super) fn of(
        question: &Question,
        near: Option<&Near>,
        one: &Configuration,
    ) -> Option<Self> {
        let stage = idle(question, near);
        let NetworkSpec::Link(network) = spec(&stage, one, false).ok()?.network else {
            return None;
        };
        let directions = [network.link.down, network.link.up];
        // A change at drawn times may lose packets, too, which is not known before the run.
        let is_fixed = |change: &PathChange| change.from.is_some() && change.every.is_none();
        let is_known = |one: &DirectionSpec| {
            let is_plain = one.replay.is_none() && one.impairments == Impairments::NONE;
            is_plain && one.changes.iter().all(is_fixed)
        };
        let losses = directions.each_ref().map(|one| one.loss);
        (directions.iter().all(is_known)).then_some(Self(losses))
    }

    /// Returns whether a run with this many packets per direction loses none of them.
    pub(super) fn spare(&self, seed: u64, packets: u64) -> bool {
        let both = self.0.iter().zip(["link/down", "link/up"]);
        let spares = |(loss, label): (&LossSpec, &str)| loss.spares(seed, label, packets);
        both.map(spares).all(|is_spared| is_spared == Some(true))
    }
}

/// Share of runs that lose a packet, in thousandths and at least 1, where only random losses are
/// ([`Search::make`](super::search::Search)). Half as many packets again are for retransmissions and a neighbour.
pub(super) fn share_with_loss(link: &Link, traffic: &Traffic, block: u16) -> u64 {
    if link.is_mesh || !link.traces.is_empty() {
        return 1_000;
    }
    let packets = u128::from(3 * traffic.exchanges(block));
    let ppm = packets * u128::from(link.mean_loss_ppm());
    u64::try_from(ppm / 1_000).map_or(1_000, |milli| milli.clamp(1, 1_000))
}

/// Values of configurations for all runs, then for each resample. With fewer runs of some, only the
/// seeds of all count.
pub(super) fn resampled(summaries: &[Vec<RunSummary>]) -> Vec<Vec<Measured>> {
    let runs = summaries.iter().map(Vec::len).min().unwrap_or_default();
    let counts = resamples(runs);
    let measured = |summaries: &Vec<RunSummary>| {
        let pool = Pool::of(&summaries[..runs]);
        counts.iter().map(|counts| pool.measured(counts)).collect()
    };
    summaries.par_iter().map(measured).collect()
}

/// Costs of configurations, the first of which is the reference.
pub(super) fn costs_of(all: &[Vec<Measured>], weights: &Weights) -> Vec<Vec<f64>> {
    let of = |values: &Vec<Measured>| {
        let pairs = values.iter().zip(&all[0]);
        pairs
            .map(|(values, reference)| values.cost(reference, weights))
            .collect()
    };
    all.iter().map(of).collect()
}

/// Costs of configurations, the first of which is the reference, without intervals. With fewer runs of
/// some, only the seeds of all count.
pub(super) fn point_costs(summaries: &[Vec<RunSummary>], weights: &Weights) -> Vec<f64> {
    let runs = summaries.iter().map(Vec::len).min().unwrap_or_default();
    let counts = vec![1; runs];
    let measured = |summaries: &Vec<RunSummary>| Pool::of(&summaries[..runs]).measured(&counts);
    let all: Vec<Measured> = summaries.par_iter().map(measured).collect();
    all.iter().map(|one| one.cost(&all[0], weights)).collect()
}

/// Runs of each configuration under each seed.
pub(super) fn make(
    stage: &Stage<'_>,
    configurations: &[Configuration],
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<Vec<Vec<RunSummary>>, CompareError> {
    let specs = configurations.iter().map(|one| {
        let beside = stage.with_harm.then(|| spec(stage, one, true));
        Ok((spec(stage, one, false)?, beside.transpose()?))
    });
    let specs: Vec<(RunSpec, Option<RunSpec>)> = specs.collect::<Result<_, CompareError>>()?;
    let seeds = &stage.seeds;
    let jobs: Vec<(usize, u64)> = (0..specs.len())
        .flat_map(|place| seeds.iter().map(move |seed| (place, *seed)))
        .collect();
    progress(Progress::Planned(jobs.len()));
    let is_transfer = stage.traffic.is_blockwise();
    let one = |(place, seed): &(usize, u64)| {
        // Relaxed: no other data depends on the flag.
        if stage.is_stopped.load(Ordering::Relaxed) {
            return Err(CompareError::of("interrupted", "run the command again"));
        }
        let (alone, beside) = &specs[*place];
        let mut summary = RunSummary::of(&run(alone, *seed)?, is_transfer);
        if let Some(beside) = beside {
            let record = run(beside, *seed)?;
            summary.harm = harm(&record);
            summary.packets = summary.packets.max(packets(&record));
        }
        progress(Progress::Made);
        Ok(summary)
    };
    // One run per task, because runs of one stage differ in length.
    let made: Result<Vec<RunSummary>, CompareError> =
        jobs.par_iter().with_max_len(1).map(one).collect();
    let mut made = made?.into_iter();
    let per_configuration = specs
        .iter()
        .map(|_| made.by_ref().take(seeds.len()).collect());
    Ok(per_configuration.collect())
}

fn run(spec: &RunSpec, seed: u64) -> Result<RunRecord, CompareError> {
    let seeded = RunSpec {
        seed,
        ..spec.clone()
    };
    carob_sim::run(&seeded).map_err(|error| {
        CompareError::of(
            error,
            "change the link or the traffic so that runs are possible",
        )
    })
}

/// A stage without runs on the link of a question or one nearby.
pub(super) fn idle<'a>(question: &'a Question, near: Option<&'a Near>) -> Stage<'a> {
    Stage {
        link: near.map_or(&question.link, |near| &near.link),
        traffic: near.map_or(&question.traffic, |near| &near.traffic),
        seeds: Vec::new(),
        with_harm: false,
        registry: question.registry,
        overrides: near.map_or(&NONE, |near| &near.overrides),
        is_stopped: &NEVER,
    }
}

/// Returns true if a configuration can run on a link with its trouble. Only a run finds what connections lack, such as
/// sleepy devices, so one is begun.
pub(super) fn is_possible(question: &Question, near: Option<&Near>, one: &Configuration) -> bool {
    let stage = idle(question, near);
    spec(&stage, one, false).is_ok_and(|spec| {
        // A microsecond of simulated time: the check is part of the start of a run.
        let begun = RunSpec {
            time_limit: Duration::from_micros(1),
            ..spec
        };
        carob_sim::run(&begun).is_ok()
    })
}

/// The mean time of the neighbour's requests in seconds; unanswered ones as given up.
fn harm(record: &RunRecord) -> Option<f64> {
    let unanswered: u32 = record.others.iter().map(|flow| flow.unanswered).sum();
    let all = record.other_responses.count as f64 + f64::from(unanswered);
    let sum = record.other_responses.sum.as_micros() as f64 / 1e6;
    (all > 0.0).then(|| (sum + f64::from(unanswered) * UNANSWERED) / all)
}

/// The run of a configuration; with `beside`, a neighbour with default CoAP shares the link.
pub(super) fn spec(
    stage: &Stage<'_>,
    one: &Configuration,
    beside: bool,
) -> Result<RunSpec, CompareError> {
    let mut values = values(stage.link, stage.traffic, &[one.controller], one);
    values.extend(stage.overrides.clone());
    if beside {
        let neighbour = [
            ("second", "default".into()),
            ("second_kind", "exchanges".into()),
            ("second_requests", 20.into()),
            ("second_request", Value::Bytes(60)),
            ("second_response", Value::Bytes(60)),
            ("second_clients", 1.into()),
            // NSTART of RFC 7252 4.7, whatever the configuration of the others.
            ("second_nstart", 1.into()),
        ];
        values.extend(table("mix", neighbour));
    }
    let scenario = Scenario::of_values(stage.registry, "the comparison", values);
    let scenario = scenario.map_err(|errors| {
        CompareError::of(
            errors,
            "change the link or the traffic so that they go together",
        )
    })?;
    let mut spec = scenario.spec(&scenario.cells()[0], &scenario.algorithms()[0], 1);
    if let NetworkSpec::Link(network) = &mut spec.network {
        let LinkSpec { down, up } = &mut network.link;
        stage.link.replay(down, up);
    }
    Ok(spec)
}

/// Values of a scenario, traces of the link apart. The controller of the configuration does not count.
pub(super) fn values(
    link: &Link,
    traffic: &Traffic,
    controllers: &[&str],
    configuration: &Configuration,
) -> Values {
    let network = if link.is_mesh { "mesh" } else { "link" };
    let names = controllers.iter().map(|name| (*name).to_owned()).collect();
    let run = [
        ("network", network.into()),
        ("algorithms", Value::Texts(names)),
    ];
    let mut values = table("run", run).collect();
    traffic.set_in(&mut values, configuration, link.is_mesh);
    link.set_in(&mut values);
    configuration.set_in(&mut values);
    values
}

#[cfg(test)]
mod tests {
    use std::mem::discriminant;

    use super::super::neighbourhood::neighbourhood;
    use super::super::{BUILT_IN, TRAFFIC};
    use super::*;
    use crate::scenario::keys::exact;

    #[test]
    fn losses_are_known_before_the_run() {
        let link = Link {
            loss_ppm: 5_000,
            ..Link::built_in("lan").expect("built in")
        };
        for burst in [1_000, 3_000] {
            let link = Link {
                loss_burst_milli: burst,
                ..link.clone()
            };
            let question = Question::new(link, Traffic::named("command").expect("known"));
            let one = question.default_coap();
            let losses = KnownLosses::of(&question, None, &one).expect("random losses alone");
            let spec = spec(&idle(&question, None), &one, false).expect("possible");
            let mut spared = 0;
            for seed in 1..=60 {
                let record = run(&spec, seed).expect("possible");
                let (down, up) = (&record.link.down, &record.link.up);
                let is_spared = losses.spare(seed, packets(&record));
                if down.offered == up.offered {
                    assert_eq!(is_spared, down.lost + up.lost == 0, "seed {seed}");
                }
                spared += u32::from(is_spared);
            }
            assert!((20..60).contains(&spared), "{spared}");
        }
        let outages = Question::new(
            Link::built_in("starlink").expect("built in"),
            Traffic::named("command").expect("known"),
        );
        assert!(KnownLosses::of(&outages, None, &outages.default_coap()).is_none());
    }

    #[test]
    fn every_built_in_link_carries_every_traffic() {
        for known in BUILT_IN {
            for (name, ..) in TRAFFIC {
                let link = Link::built_in(known.name).expect("built in");
                let traffic = Traffic::named(name).expect("known");
                let question = Question::new(link, traffic);
                let one = question.default_coap();
                let near = neighbourhood(&question.link, &question.traffic);
                for near in near.iter().map(Some).chain([None]) {
                    let stage = idle(&question, near);
                    let values = values(stage.link, stage.traffic, &["default"], &one);
                    for (path, value) in values.iter().chain(stage.overrides) {
                        let kind = exact(path).expect(path).kind;
                        let read = Value::read(kind, &value.to_string()).expect(path);
                        assert_eq!(discriminant(&read), discriminant(value), "{path}");
                    }
                    let made = spec(&stage, &one, false);
                    let of = (known.name, name, near.map(|near| &near.at));
                    assert!(made.is_ok(), "{of:?}: {:?}", made.err());
                }
            }
        }
    }
}
