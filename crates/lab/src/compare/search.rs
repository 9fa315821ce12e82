//! Stages of a comparison: all controllers, settings, the best with fresh seeds, links nearby.

use std::ops::Range;

use super::candidates::{
    GAIN_LEAST, combinations, finalists, largest_block, order, tuned, variations,
};
use super::configuration::{Configuration, controllers};
use super::judge::{Component, Cost, Measured, Pool, RESAMPLES, RunSummary, is_settled};
use super::neighbourhood::{Near, firsts_of, flips, neighbourhood, regret};
use super::runs::{Stage, costs_of, make, point_costs, resampled, work};
use super::traffic::Traffic;
use super::{Answer, CompareError, Progress, Question, Ranked, SEEDS_MAX};

/// Distance of the seeds of the first stages from those of the last, which are fresh.
const SEEDS_APART: u64 = 1_000_000;

/// Seeds of a stage.
#[derive(Clone, Copy, Debug)]
struct Seeds {
    /// Fewest, however long runs are.
    least: u64,
    /// Most, however short they are.
    most: u64,
    /// Exchanges simulated, about: a bound on time that does not depend on the machine.
    exchanges: u64,
}

/// All controllers, and then settings.
const FIRST: Seeds = Seeds {
    least: 2,
    most: 40,
    exchanges: 600_000,
};
/// The cheapest of them, with more seeds.
const NARROWED: Seeds = Seeds {
    least: 2,
    most: 40,
    exchanges: 800_000,
};
/// The best configurations; ten seeds are the fewest of a ranking.
const LAST: Seeds = Seeds {
    least: 10,
    most: 40,
    exchanges: 2_000_000,
};
/// The best configurations on all links nearby together.
const NEARBY: Seeds = Seeds {
    least: 3,
    most: 40,
    exchanges: 1_000_000,
};

/// Configurations that run with more seeds, default CoAP apart.
const NARROWED_MAX: usize = 14;
/// A configuration that costs at most so many times the cheapest can be recommended in its place.
const NEAR_BEST: f64 = 1.04;
/// Failures above those of default CoAP, as a share, that rule a configuration out.
const FAILURES_MORE: f64 = 0.01;

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
    costs: Vec<f64>,
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
        Self {
            question,
            progress,
            base: Configuration::default_coap(largest_block(&question.link)),
            with_harm: Question::has_harm(&question.link, &question.traffic),
            runs: 0,
        }
    }

    pub(super) fn answer(mut self) -> Result<Answer, CompareError> {
        let tried = self.explore()?;
        let finalists = finalists(&tried.configurations, &tried.costs, &self.base);
        let mut finals = self.settle(&finalists)?;
        let near = neighbourhood(&self.question.link, &self.question.traffic);
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
        let traffic = &self.question.traffic;
        let seeds = self.seeds(FIRST, known.len(), traffic, self.with_harm);
        let stage = self.here(first_seed..first_seed + seeds);
        let mut summaries = self.make(&stage, &known)?;
        let costs = point_costs(&summaries, &self.question.weights);
        let pairs = known.iter().zip(&costs);
        let mut by_cost: Vec<(&'static str, f64)> =
            pairs.map(|(one, cost)| (one.controller, *cost)).collect();
        by_cost.sort_by(|a, b| a.1.total_cmp(&b.1));
        let tuned = tuned(&by_cost, seeds);
        let alone = tuned.iter().flat_map(|one| variations(of(one), traffic));
        let mut more: Vec<Configuration> = alone.collect();
        let limits = Seeds {
            most: seeds,
            ..FIRST
        };
        let seeds = self.seeds(limits, more.len(), traffic, self.with_harm);
        let stage = self.here(first_seed..first_seed + seeds);
        summaries.extend(self.make(&stage, &more)?);
        known.append(&mut more);
        let costs = point_costs(&summaries, &self.question.weights);
        for controller in tuned {
            for one in combinations(controller, &base, &known, &costs) {
                if !known.contains(&one) && !more.contains(&one) {
                    more.push(one);
                }
            }
        }
        summaries.extend(self.make(&stage, &more)?);
        known.append(&mut more);
        let mut tried = self.narrow(&known, summaries, seeds)?;
        tried.controllers = by_cost;
        Ok(tried)
    }

    /// Runs default CoAP and the cheapest configurations with more seeds than the first `seeds`.
    fn narrow(
        &mut self,
        known: &[Configuration],
        mut summaries: Vec<Vec<RunSummary>>,
        seeds: u64,
    ) -> Result<Tried, CompareError> {
        let costs = point_costs(&summaries, &self.question.weights);
        let mut places = order(&costs);
        places.retain(|place| *place != 0);
        places.truncate(NARROWED_MAX);
        places.insert(0, 0);
        let configurations: Vec<Configuration> = places.iter().map(|place| known[*place]).collect();
        let traffic = &self.question.traffic;
        let more = self.seeds(NARROWED, places.len(), traffic, self.with_harm);
        let first_seed = self.question.first_seed + SEEDS_APART + seeds;
        let stage = self.here(first_seed..first_seed + more);
        let made = self.make(&stage, &configurations)?;
        let pooled = places.iter().zip(made).map(|(place, more)| {
            let mut all = std::mem::take(&mut summaries[*place]);
            all.truncate(seeds as usize);
            all.extend(more);
            all
        });
        let summaries: Vec<Vec<RunSummary>> = pooled.collect();
        Ok(Tried {
            costs: point_costs(&summaries, &self.question.weights),
            configurations,
            controllers: Vec::new(),
        })
    }

    /// Runs configurations, the first of them default CoAP, with twice as many fresh seeds again and
    /// again, until the order of the first three is settled.
    fn settle(&mut self, finalists: &[Configuration]) -> Result<Finals, CompareError> {
        let traffic = &self.question.traffic;
        let mut seeds = self.seeds(LAST, finalists.len(), traffic, self.with_harm);
        let mut summaries: Vec<Vec<RunSummary>> = vec![Vec::new(); finalists.len()];
        let mut made = 0;
        let (costs, is_ordered) = loop {
            let first = self.question.first_seed;
            let stage = self.here(first + made..first + seeds);
            for (all, more) in summaries.iter_mut().zip(self.make(&stage, finalists)?) {
                all.extend(more);
            }
            made = seeds;
            let costs = costs_of(&resampled(&summaries), &self.question.weights);
            let firsts: Vec<usize> = order(&firsts_of(&costs)).into_iter().take(3).collect();
            let mut pairs = firsts.windows(2);
            let is_ordered = pairs.all(|pair| is_settled(&costs[pair[0]], &costs[pair[1]]));
            seeds = made * 2;
            let limits = Seeds {
                most: seeds,
                ..LAST
            };
            let possible = self.seeds(limits, finalists.len(), traffic, self.with_harm);
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
        let others = order(&firsts_of(&costs))
            .into_iter()
            .filter(|place| *place != 0);
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
            let seeds = self.seeds(NEARBY, together, &one.traffic, false);
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

    /// Seeds of a stage with so many configurations.
    fn seeds(&self, limits: Seeds, configurations: usize, traffic: &Traffic, harm: bool) -> u64 {
        let each = work(&self.question.link, traffic, self.base.block, harm);
        let seeds = limits.exchanges / (each * configurations.max(1) as u64).max(1);
        seeds.clamp(limits.least, limits.most.max(limits.least))
    }
}

/// Whether a configuration fails more than default CoAP: by a point and beyond chance.
fn fails_more(values: &[Measured], reference: &[Measured]) -> bool {
    let pairs = values[1..].iter().zip(&reference[1..]);
    let more = pairs.filter(|(a, b)| a.undelivered > b.undelivered).count();
    values[0].undelivered > reference[0].undelivered + FAILURES_MORE
        && more * 1_000 >= RESAMPLES * 975
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
