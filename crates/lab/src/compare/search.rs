//! Stages of a comparison: all controllers, settings, the best with fresh seeds, links nearby.

use std::ops::Range;

use carob_sim::engine;
use carob_sim::spec::RunRecord;
use rayon::prelude::*;

use super::configuration::{Configuration, Timers, controllers};
use super::judge::{
    Component, Cost, Measured, Pool, RESAMPLES, RunSummary, UNANSWERED, Weights, is_settled,
    resamples,
};
use super::link::{Link, time_text};
use super::traffic::{Traffic, TrafficKind};
use super::{Answer, CompareError, Flip, Progress, Question, Ranked, SEEDS_MAX};
use crate::scenario::Scenario;

/// Distance of the seeds of the first stages from those of the last, which are fresh.
const SEEDS_APART: u64 = 1_000_000;
/// Seeds of the first stages, unless runs are long.
const SEEDS_FIRST: u64 = 40;
/// The fewest seeds of any stage.
const SEEDS_LEAST: u64 = 5;
/// Seeds on each link of the neighbourhood, unless runs are long.
const SEEDS_NEAR: u64 = 40;
/// Exchanges simulated in each stage, about: a bound on its time that does not depend on the machine.
const EXCHANGES_MAX: u64 = 4_000_000;
/// Exchanges of datagrams over a link that take as long as one in a wireless network.
const MESH_FACTOR: u64 = 40;
/// Controllers whose settings are tried.
const TUNED_MAX: usize = 4;
/// Configurations of the last stages, default CoAP apart.
const FINALISTS_MAX: usize = 6;
/// Block sizes that are tried.
const BLOCKS: [u16; 5] = [1_024, 512, 256, 128, 64];
/// Bytes of headers around a block: IPv4 and UDP 28, CoAP 9, token 2.
const AROUND_A_BLOCK: u32 = 39;
/// A configuration that costs at most so many times the cheapest can be recommended in its place.
const NEAR_BEST: f64 = 1.04;
/// Failures above those of default CoAP, as a share, that rule a configuration out.
const FAILURES_MORE: f64 = 0.01;
/// The least gain of a setting that is kept, and of a recommendation.
const GAIN_LEAST: f64 = 0.02;

/// Runs of one stage.
struct Stage<'a> {
    link: &'a Link,
    traffic: &'a Traffic,
    seeds: Range<u64>,
    /// Whether a neighbour's time is measured.
    with_harm: bool,
}

/// A link of the neighbourhood.
struct Near {
    at: String,
    link: Link,
    traffic: Traffic,
    /// Whether a configuration must not be worse than default CoAP there.
    is_required: bool,
}

/// The search for an answer.
pub(super) struct Search<'a> {
    question: &'a Question,
    progress: &'a (dyn Fn(Progress) + Sync),
    /// Default CoAP.
    base: Configuration,
    with_harm: bool,
    runs: usize,
}

/// Configurations that were tried, with their costs.
struct Tried {
    configurations: Vec<Configuration>,
    costs: Vec<Vec<f64>>,
    /// Controllers under RFC 7252's parameters, the cheapest first.
    controllers: Vec<(&'static str, f64)>,
}

/// The best configurations with fresh seeds.
struct Finals {
    /// Default CoAP, then the others, the cheapest first.
    ranked: Vec<Ranked>,
    seeds: u64,
    is_settled: bool,
}

impl<'a> Search<'a> {
    pub(super) fn new(question: &'a Question, progress: &'a (dyn Fn(Progress) + Sync)) -> Self {
        let mut search = Self {
            question,
            progress,
            base: Configuration::default_coap(16),
            with_harm: Question::has_harm(&question.link, &question.traffic),
            runs: 0,
        };
        search.base.block = search.largest_block();
        search
    }

    pub(super) fn answer(mut self) -> Result<Answer, CompareError> {
        let tried = self.explore()?;
        let finalists = finalists(&tried.configurations, &tried.costs, &self.base);
        let mut finals = self.settle(&finalists)?;
        let near = self.neighbourhood();
        let there = self.visit(&near, &mut finals.ranked)?;
        let recommended = recommend(&finals.ranked, &there, &self.base);
        let flips = flips(&near, &there, &finals.ranked, recommended);
        let required = near.iter().filter(|one| one.is_required);
        Ok(Answer {
            link: self.question.link.clone(),
            traffic: self.question.traffic.clone(),
            weights: self.question.weights,
            ranked: finals.ranked,
            controllers: tried.controllers,
            recommended,
            neighbours: required.map(|one| one.at.clone()).collect(),
            flips,
            seeds: finals.seeds,
            is_settled: finals.is_settled,
            runs: self.runs,
        })
    }

    /// A stage on the link asked about.
    fn here(&self, seeds: Range<u64>) -> Stage<'a> {
        Stage {
            link: &self.question.link,
            traffic: &self.question.traffic,
            seeds,
            with_harm: self.with_harm,
        }
    }

    fn make(
        &mut self,
        stage: &Stage<'_>,
        configurations: &[Configuration],
    ) -> Result<Vec<Vec<RunSummary>>, CompareError> {
        let seeds = (stage.seeds.end - stage.seeds.start) as usize;
        self.runs += configurations.len() * seeds * (1 + usize::from(stage.with_harm));
        make(stage, configurations, self.progress)
    }

    /// Tries every controller, then settings of the best alone, then those that gain together.
    fn explore(&mut self) -> Result<Tried, CompareError> {
        let base = self.base;
        let first_seed = self.question.first_seed + SEEDS_APART;
        let of = |controller| Configuration { controller, ..base };
        let mut known: Vec<Configuration> = controllers().into_iter().map(of).collect();
        let seeds = self.seeds(
            known.len(),
            SEEDS_FIRST,
            &self.question.traffic,
            self.with_harm,
        );
        let stage = self.here(first_seed..first_seed + seeds);
        let mut summaries = self.make(&stage, &known)?;
        let costs = self.costs(&summaries);
        let pairs = known.iter().zip(&costs);
        let mut by_cost: Vec<(&'static str, f64)> =
            pairs.map(|(one, cost)| (one.controller, cost[0])).collect();
        by_cost.sort_by(|a, b| a.1.total_cmp(&b.1));
        let tuned = tuned(&by_cost);
        let alone = tuned.iter().flat_map(|one| self.variations(of(one)));
        let mut more: Vec<Configuration> = alone.collect();
        let seeds = self.seeds(more.len(), seeds, &self.question.traffic, self.with_harm);
        let stage = self.here(first_seed..first_seed + seeds);
        summaries.extend(self.make(&stage, &more)?);
        known.append(&mut more);
        let costs = self.costs(&summaries);
        for controller in tuned {
            for one in combinations(controller, &base, &known, &costs) {
                if !known.contains(&one) && !more.contains(&one) {
                    more.push(one);
                }
            }
        }
        summaries.extend(self.make(&stage, &more)?);
        known.append(&mut more);
        Ok(Tried {
            configurations: known,
            costs: self.costs(&summaries),
            controllers: by_cost,
        })
    }

    /// Runs configurations, the first of them default CoAP, with twice as many fresh seeds again and
    /// again, until the order of the first three is settled.
    fn settle(&mut self, finalists: &[Configuration]) -> Result<Finals, CompareError> {
        let traffic = &self.question.traffic;
        let mut seeds = self.seeds(finalists.len(), SEEDS_FIRST, traffic, self.with_harm);
        let mut summaries: Vec<Vec<RunSummary>> = vec![Vec::new(); finalists.len()];
        let mut made = 0;
        let (costs, is_ordered) = loop {
            let first = self.question.first_seed;
            let stage = self.here(first + made..first + seeds);
            for (all, more) in summaries.iter_mut().zip(self.make(&stage, finalists)?) {
                all.extend(more);
            }
            made = seeds;
            let costs = self.costs(&summaries);
            let firsts: Vec<usize> = order(&costs).into_iter().take(3).collect();
            let mut pairs = firsts.windows(2);
            let is_ordered = pairs.all(|pair| is_settled(&costs[pair[0]], &costs[pair[1]]));
            seeds = made * 2;
            let possible = self.seeds(finalists.len(), seeds, traffic, self.with_harm);
            if is_ordered || seeds > u64::from(SEEDS_MAX) || possible < seeds {
                break (costs, is_ordered);
            }
        };
        let values = resampled(&summaries);
        let ranked = |place: usize| Ranked {
            configuration: finalists[place],
            measured: Pool::of(&summaries[place]).all(),
            cost: Cost::of(&costs[place]),
            fails_more: fails_more(&values[place], &values[0]),
            worse_at: Vec::new(),
        };
        let others = order(&costs).into_iter().filter(|place| *place != 0);
        Ok(Finals {
            ranked: std::iter::once(0).chain(others).map(ranked).collect(),
            seeds: made,
            is_settled: is_ordered,
        })
    }

    /// Runs the ranked configurations on links nearby, and notes where they are worse than the first,
    /// default CoAP. Returns their costs there.
    fn visit(
        &mut self,
        near: &[Near],
        ranked: &mut [Ranked],
    ) -> Result<Vec<Vec<Vec<f64>>>, CompareError> {
        let configurations: Vec<Configuration> =
            ranked.iter().map(|one| one.configuration).collect();
        let weights = self.question.weights.without(Component::Harm);
        let mut all = Vec::with_capacity(near.len());
        for one in near {
            let together = configurations.len() * near.len();
            let seeds = self.seeds(together, SEEDS_NEAR, &one.traffic, false);
            let stage = Stage {
                link: &one.link,
                traffic: &one.traffic,
                seeds: self.question.first_seed..self.question.first_seed + seeds,
                with_harm: false,
            };
            let values = resampled(&self.make(&stage, &configurations)?);
            let costs = costs_of(&values, &weights);
            for ((ranked, cost), of_one) in ranked.iter_mut().zip(&costs).zip(&values) {
                let is_worse = Cost::of(cost).low > 1.0 + GAIN_LEAST;
                if one.is_required && (is_worse || fails_more(of_one, &values[0])) {
                    ranked.worse_at.push(one.at.clone());
                }
            }
            all.push(costs);
        }
        Ok(all)
    }

    /// The largest block that fits a packet; in a mesh the largest that fits a frame.
    fn largest_block(&self) -> u16 {
        let fits = |block: &&u16| {
            if self.question.link.is_mesh {
                **block <= 64
            } else {
                u32::from(**block) + AROUND_A_BLOCK <= self.question.link.mtu
            }
        };
        BLOCKS.iter().find(fits).copied().unwrap_or(16)
    }

    /// Seeds of a stage, at most `wanted`: fewer where runs are long.
    fn seeds(&self, configurations: usize, wanted: u64, traffic: &Traffic, harm: bool) -> u64 {
        let mesh = if self.question.link.is_mesh {
            MESH_FACTOR
        } else {
            1
        };
        let each = traffic.exchanges(self.largest_block()) * mesh * (1 + u64::from(harm));
        let all = each * configurations.max(1) as u64;
        (EXCHANGES_MAX / all.max(1)).clamp(SEEDS_LEAST, wanted.max(SEEDS_LEAST))
    }

    fn costs(&self, summaries: &[Vec<RunSummary>]) -> Vec<Vec<f64>> {
        costs_of(&resampled(summaries), &self.question.weights)
    }

    /// A configuration with each other value of one setting.
    fn variations(&self, base: Configuration) -> Vec<Configuration> {
        let mut all = Vec::new();
        if self.question.traffic.is_blockwise() && self.question.traffic.kind != TrafficKind::Own {
            let smaller = BLOCKS.iter().filter(|block| **block < base.block).take(2);
            all.extend(smaller.map(|&block| Configuration { block, ..base }));
        }
        if self.question.traffic.is_concurrent() {
            all.extend([2, 4, 8].map(|nstart| Configuration { nstart, ..base }));
        }
        all.extend(Timers::PROFILES.map(|timers| Configuration { timers, ..base }));
        all
    }

    /// Links near the one asked about: loss and round-trip time halved and doubled, one client.
    /// Farther ones only show where another configuration would be better.
    fn neighbourhood(&self) -> Vec<Near> {
        let (link, traffic) = (&self.question.link, &self.question.traffic);
        let mut near = Vec::new();
        let mut add = |at: String, link: Link, traffic: Traffic, is_required| {
            near.push(Near {
                at,
                link,
                traffic,
                is_required,
            });
        };
        if !link.is_mesh {
            let losses = match link.loss_ppm {
                0 => vec![(10_000, true), (50_000, false)],
                ppm => vec![
                    (ppm / 2, true),
                    (ppm.saturating_mul(2).min(300_000), true),
                    (ppm.saturating_mul(5).min(300_000), false),
                ],
            };
            for (loss_ppm, required) in losses {
                if loss_ppm != link.loss_ppm {
                    let at = format!("loss {} %", f64::from(loss_ppm) / 10_000.0);
                    let link = Link {
                        loss_ppm,
                        ..link.clone()
                    };
                    add(at, link, traffic.clone(), required);
                }
            }
            for (numerator, denominator, required) in [(1, 2, true), (2, 1, true), (5, 1, false)] {
                let rtt_us = link.rtt_us * numerator / denominator;
                let at = format!("round trip {}", time_text(rtt_us));
                let link = Link {
                    rtt_us,
                    ..link.clone()
                };
                add(at, link, traffic.clone(), required);
            }
        }
        let clients = match traffic.clients {
            1 => vec![(5, false), (20, false)],
            n => vec![(1, true), (n.div_ceil(4), true)],
        };
        for (clients, required) in clients {
            if clients != traffic.clients {
                let at = format!("{clients} device{}", if clients == 1 { "" } else { "s" });
                let mut traffic = traffic.clone();
                traffic.clients = clients;
                add(at, link.clone(), traffic, required);
            }
        }
        near
    }
}

/// Values of configurations for all runs, then for each resample. With fewer runs of some, only the
/// seeds of all count.
fn resampled(summaries: &[Vec<RunSummary>]) -> Vec<Vec<Measured>> {
    let runs = summaries.iter().map(Vec::len).min().unwrap_or_default();
    let counts = resamples(runs);
    let measured = |summaries: &Vec<RunSummary>| {
        let pool = Pool::of(&summaries[..runs]);
        counts.iter().map(|counts| pool.measured(counts)).collect()
    };
    summaries.par_iter().map(measured).collect()
}

/// Costs of configurations, the first of which is the reference.
fn costs_of(all: &[Vec<Measured>], weights: &Weights) -> Vec<Vec<f64>> {
    let of = |values: &Vec<Measured>| {
        let pairs = values.iter().zip(&all[0]);
        pairs
            .map(|(values, reference)| values.cost(reference, weights))
            .collect()
    };
    all.iter().map(of).collect()
}

/// Whether a configuration fails more than default CoAP: by a point and beyond chance.
fn fails_more(values: &[Measured], reference: &[Measured]) -> bool {
    let pairs = values[1..].iter().zip(&reference[1..]);
    let more = pairs.filter(|(a, b)| a.undelivered > b.undelivered).count();
    values[0].undelivered > reference[0].undelivered + FAILURES_MORE
        && more * 1_000 >= RESAMPLES * 975
}

/// Controllers whose settings are tried: default CoAP and the best.
fn tuned(by_cost: &[(&'static str, f64)]) -> Vec<&'static str> {
    let best = by_cost.iter().map(|(name, _)| *name);
    let best = best.filter(|name| *name != "default").take(TUNED_MAX);
    std::iter::once("default").chain(best).collect()
}

/// Places by cost, the cheapest first.
fn order(costs: &[Vec<f64>]) -> Vec<usize> {
    let mut places: Vec<usize> = (0..costs.len()).collect();
    places.sort_by(|a, b| costs[*a][0].total_cmp(&costs[*b][0]));
    places
}

/// A controller with all settings that gain alone, and with those besides the timers.
fn combinations(
    controller: &'static str,
    base: &Configuration,
    known: &[Configuration],
    costs: &[Vec<f64>],
) -> Vec<Configuration> {
    let base = Configuration {
        controller,
        ..*base
    };
    let cost_of = |wanted: &Configuration| {
        let place = known.iter().position(|one| one == wanted);
        place.map_or(f64::INFINITY, |place| costs[place][0])
    };
    let plain = cost_of(&base);
    let best = |of: &dyn Fn(&Configuration) -> bool| {
        known
            .iter()
            .filter(|one| one.controller == controller && of(one))
            .filter(|one| cost_of(one) < plain * (1.0 - GAIN_LEAST))
            .min_by(|a, b| cost_of(a).total_cmp(&cost_of(b)))
    };
    let block = best(&|one| one.block != base.block).map_or(base.block, |one| one.block);
    let nstart = best(&|one| one.nstart != base.nstart).map_or(base.nstart, |one| one.nstart);
    let timers = best(&|one| one.timers != base.timers).map_or(base.timers, |one| one.timers);
    let without_timers = Configuration {
        block,
        nstart,
        ..base
    };
    let all = Configuration {
        timers,
        ..without_timers
    };
    vec![
        without_timers,
        all,
        Configuration {
            block: base.block,
            ..all
        },
    ]
}

/// Default CoAP, then the configurations that cost least: at most two of one controller.
fn finalists(
    known: &[Configuration],
    costs: &[Vec<f64>],
    base: &Configuration,
) -> Vec<Configuration> {
    let mut chosen: Vec<Configuration> = vec![*base];
    for place in order(costs) {
        let one = known[place];
        let of_same = chosen.iter().filter(|c| c.controller == one.controller);
        if chosen.len() <= FINALISTS_MAX && !chosen.contains(&one) && of_same.count() < 2 {
            chosen.push(one);
        }
    }
    chosen
}

/// Of the configurations that are nowhere worse than default CoAP, those that cost at most
/// [`NEAR_BEST`] times the cheapest; of them the one with the least regret on links nearby, and of
/// equals the one with the fewest settings changed. Default CoAP if none costs at least 2 % less.
fn recommend(ranked: &[Ranked], there: &[Vec<Vec<f64>>], base: &Configuration) -> usize {
    let is_fit = |one: &Ranked| {
        let gains = one.cost.high < 1.0 && one.cost.value < 1.0 - GAIN_LEAST;
        gains && !one.fails_more && one.worse_at.is_empty()
    };
    let fit = || {
        let others = ranked.iter().enumerate().skip(1);
        others.filter(|(_, one)| is_fit(one))
    };
    let Some((_, best)) = fit().next() else {
        return 0;
    };
    let near = fit().filter(|(_, one)| one.cost.value <= best.cost.value * NEAR_BEST);
    // In thousandths, so that differences without meaning do not decide.
    let key = |place: usize| {
        let thousandths = (regret(there, place) * 1_000.0).round() as i64;
        (
            thousandths,
            ranked[place].configuration.changes(base),
            place,
        )
    };
    near.map(|(place, _)| place)
        .min_by_key(|place| key(*place))
        .unwrap_or_default()
}

/// The mean over links nearby of the logarithm of the cost beside the cheapest there.
fn regret(there: &[Vec<Vec<f64>>], place: usize) -> f64 {
    let of = |costs: &Vec<Vec<f64>>| {
        let all = costs.iter().map(|costs| costs[0]);
        (costs[place][0] / all.fold(f64::INFINITY, f64::min)).ln()
    };
    let sum: f64 = there.iter().map(of).sum();
    sum / there.len().max(1) as f64
}

/// Links nearby where another configuration costs at least 5 % less than the recommended one, in 95 %
/// of resamples.
fn flips(
    near: &[Near],
    costs: &[Vec<Vec<f64>>],
    ranked: &[Ranked],
    recommended: usize,
) -> Vec<Flip> {
    let mut flips = Vec::new();
    for (one, costs) in near.iter().zip(costs) {
        let best = order(costs)[0];
        let ratios = costs[best]
            .iter()
            .zip(&costs[recommended])
            .map(|(a, b)| a / b);
        let ratios: Vec<f64> = ratios.collect();
        let sure = ratios[1..].iter().filter(|ratio| **ratio < 0.95).count();
        if best != recommended && sure * 100 >= RESAMPLES * 95 {
            flips.push(Flip {
                at: one.at.clone(),
                configuration: ranked[best].configuration,
                cost: ratios[0],
            });
        }
    }
    flips
}

/// Runs of each configuration under each seed.
fn make(
    stage: &Stage<'_>,
    configurations: &[Configuration],
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<Vec<Vec<RunSummary>>, CompareError> {
    let scenarios = configurations.iter().map(|configuration| {
        let alone = scenario(stage, configuration, false)?;
        let beside = stage
            .with_harm
            .then(|| scenario(stage, configuration, true));
        Ok((alone, beside.transpose()?))
    });
    let scenarios: Vec<(Scenario, Option<Scenario>)> =
        scenarios.collect::<Result<_, CompareError>>()?;
    let seeds: Vec<u64> = stage.seeds.clone().collect();
    let jobs: Vec<(usize, u64)> = (0..scenarios.len())
        .flat_map(|place| seeds.iter().map(move |seed| (place, *seed)))
        .collect();
    progress(Progress::Planned(jobs.len()));
    let is_transfer = stage.traffic.is_blockwise();
    let one = |(place, seed): &(usize, u64)| {
        let (alone, beside) = &scenarios[*place];
        let mut summary = RunSummary::of(&run(alone, *seed)?, is_transfer);
        if let Some(beside) = beside {
            summary.harm = harm(&run(beside, *seed)?);
        }
        progress(Progress::Made);
        Ok(summary)
    };
    let made: Result<Vec<RunSummary>, CompareError> =
        jobs.par_iter().with_max_len(1).map(one).collect();
    let mut made = made?.into_iter();
    let per_configuration = scenarios
        .iter()
        .map(|_| made.by_ref().take(seeds.len()).collect());
    Ok(per_configuration.collect())
}

fn run(scenario: &Scenario, seed: u64) -> Result<RunRecord, CompareError> {
    let spec = scenario.spec(&scenario.cells()[0], &scenario.algorithms()[0], seed);
    engine::run(&spec).map_err(|error| {
        CompareError::of(
            error,
            "change the link or the traffic so that runs are possible",
        )
    })
}

/// The mean time of the neighbour's requests in seconds; unanswered ones as given up.
fn harm(record: &RunRecord) -> Option<f64> {
    let unanswered: u32 = record.others.iter().map(|flow| flow.unanswered).sum();
    let all = record.other_responses.count as f64 + f64::from(unanswered);
    let sum = record.other_responses.sum.as_micros() as f64 / 1e6;
    (all > 0.0).then(|| (sum + f64::from(unanswered) * UNANSWERED) / all)
}

/// The scenario of a configuration; with `beside`, a neighbour with default CoAP shares the link.
fn scenario(
    stage: &Stage<'_>,
    configuration: &Configuration,
    beside: bool,
) -> Result<Scenario, CompareError> {
    let network = if stage.link.is_mesh { "mesh" } else { "link" };
    let mut text = format!(
        r#"about = "One configuration of a comparison."
study = "compare"
family = "compare"
cell = "compare"

[run]
network = "{network}"
algorithms = ["{}"]
time_limit = "12 h"

{}
{}
{}"#,
        configuration.controller,
        stage.traffic.toml(configuration.block, stage.link.is_mesh),
        stage.link.toml(),
        configuration.toml(),
    );
    if beside {
        text += r#"
[mix]
second = "default"
second_kind = "exchanges"
second_requests = 20
second_request = "60 B"
second_response = "60 B"
second_clients = 1
second_nstart = 1
"#;
    }
    Scenario::read("the comparison", &text, &[]).map_err(|errors| {
        CompareError::of(
            errors,
            "change the link or the traffic so that they go together",
        )
    })
}
