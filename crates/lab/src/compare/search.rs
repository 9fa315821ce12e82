//! Stages of a comparison: all controllers, settings, the best with fresh seeds, links nearby.

use std::cell::{Cell, RefCell};
use std::ops::Range;

use rayon::prelude::*;

use super::candidates::{
    FINALISTS_LONG, FINALISTS_MAX, SEEDS_MANY, TUNED_MAX, best_timers, combinations, finalists,
    largest_block, narrowed, order, refinements, tuned, variations, with_peer,
};
use super::configuration::{Configuration, REVIEWED, Transfer, controllers_of};
use super::gate::{Exclusion, exclusion, exclusion_here, shared_queue_seeds, shares_queue};
use super::judge::{Component, Cost, Pool, RESAMPLES, RunSummary, Weights};
use super::link::Link;
use super::neighbourhood::{Near, firsts_of, flips, neighbourhood};
use super::resumable::{Desk, RunBatch};
use super::runs::{
    KnownLosses, costs_of, is_possible, point_costs, rare_loss_seeds, resampled, share_with_loss,
    work,
};
use super::traffic::Traffic;
use super::{Answer, Question, Ranked, SEEDS_MAX};

/// Distance between the seeds of the first stages and the fresh ones of the last.
const SEEDS_APART: u64 = 1_000_000;

/// Seeds of a stage.
#[derive(Clone, Copy, Debug)]
struct Seeds {
    /// Fewest, however long runs are.
    least: u64,
    /// Most, however short they are, unless losses are rare.
    most: u64,
    /// Exchanges simulated, about: a bound on time that does not depend on the machine.
    exchanges: u64,
    /// Losses that the runs of a configuration need at least, where losses are rare.
    losses: u64,
}

/// All controllers, and then settings. Four seeds are the fewest by which the better settings of a crowd are found.
const FIRST: Seeds = Seeds {
    least: 4,
    most: 40,
    exchanges: 600_000,
    losses: 20,
};
/// The cheapest of them, with more seeds.
const NARROWED: Seeds = Seeds {
    least: 2,
    most: 160,
    exchanges: 1_600_000,
    losses: 20,
};
/// The best configurations; ten seeds are the fewest of a ranking.
const LAST: Seeds = Seeds {
    least: 10,
    most: 40,
    exchanges: 2_000_000,
    losses: 160,
};
/// The best configurations on all links nearby together.
const NEARBY: Seeds = Seeds {
    least: 3,
    most: 160,
    exchanges: 1_000_000,
    losses: 20,
};

/// The cheapest configurations on the links nearby where each must not be worse, before the last
/// stage.
const SCREENED: Seeds = Seeds {
    least: 0,
    most: 80,
    exchanges: 600_000,
    losses: 20,
};

/// The recommended configuration on all links nearby together.
const CONFIRMED: Seeds = Seeds {
    least: 10,
    most: 2_560,
    exchanges: 1_000_000,
    losses: 20,
};

/// Seeds of a batch of runs that are all run, also those without a loss.
const WHOLE: usize = 40;
/// Fewest seeds by which a screening rules a configuration out.
const SCREENED_LEAST: u64 = 3;
/// Cost relative to the cheapest up to which a configuration can be recommended in its place.
const NEAR_BEST: f64 = 1.05;
/// The same where the intervals of both costs overlap, so that which is cheaper depends on the seeds, and for reviewed
/// controllers in the place of others.
pub(super) const NEAR_UNSURE: f64 = 1.1;

/// The search for an answer.
pub(super) struct Search<'a> {
    question: &'a Question,
    desk: &'a Desk,
    /// Default CoAP.
    base: Configuration,
    with_harm: bool,
    /// The links nearby.
    near: Vec<Near>,
    /// Controllers under RFC 7252's parameters, the cheapest first, once they have run.
    controllers: RefCell<Vec<(&'static str, f64)>>,
    runs: Cell<usize>,
}

/// Configurations of the first stages, with their runs.
#[derive(Default)]
struct Trials {
    known: Vec<Configuration>,
    summaries: Vec<Vec<RunSummary>>,
}

impl Trials {
    fn costs(&self, weights: &Weights) -> Vec<f64> {
        point_costs(&self.summaries, weights)
    }
}

/// Configurations that were tried, with their costs.
struct Tried {
    configurations: Vec<Configuration>,
    costs: Vec<f64>,
}

/// The best configurations with fresh seeds.
#[derive(Clone)]
struct Finals {
    /// Default CoAP, then the others, the cheapest first.
    ranked: Vec<Ranked>,
    seeds: u64,
    is_settled: bool,
}

impl<'a> Search<'a> {
    pub(super) fn new(question: &'a Question, desk: &'a Desk) -> Self {
        Self {
            question,
            desk,
            base: Configuration::default_coap(largest_block(&question.link)),
            with_harm: Question::has_harm(&question.link, &question.traffic),
            near: neighbourhood(&question.link, &question.traffic),
            controllers: RefCell::default(),
            runs: Cell::new(0),
        }
    }

    pub(super) async fn answer(self) -> Answer {
        let tried = self.explore().await;
        // Before the last stage: all of its places could go to one setting that loses on a link nearby.
        let is_out = self.screen(&tried.configurations).await;
        let is_long = self.seeds_here(LAST, FINALISTS_MAX) == LAST.least;
        let most = if is_long {
            FINALISTS_LONG
        } else {
            FINALISTS_MAX
        };
        let Tried {
            configurations,
            costs,
        } = &tried;
        let mut finalists = finalists(configurations, costs, &is_out, &self.base, most);
        let Question { link, traffic, .. } = self.question;
        let with_peer = with_peer(&self.base, link, traffic).into_iter();
        finalists.extend(with_peer.filter(|one| is_possible(self.question, None, one)));
        let mut finals = self.settle(&finalists).await;
        let there = self.visit(&mut finals).await;
        self.confirm(&mut finals, &there).await;
        self.answer_of(finals, &there)
    }

    /// Runs the recommended configuration with more fresh seeds beside default CoAP on the links nearby, until one is
    /// within all limits: with few seeds, the luckiest of several is chosen.
    async fn confirm(&self, finals: &mut Finals, there: &[Vec<Option<Vec<f64>>>]) {
        // Harm is measured on the link asked about alone: a neighbour doubles the runs.
        let weights = self.question.weights.without(Component::Harm);
        let required = self.near.iter().filter(|one| one.is_required).count();
        for _ in 0..finals.ranked.len() {
            let place = recommend(&finals.ranked, &self.base);
            if place == 0 {
                return;
            }
            let pair = [self.base, finals.ranked[place].configuration];
            for (at, one) in self.near.iter().enumerate() {
                if !one.is_required {
                    continue;
                }
                self.desk.keep(self.answer_of(finals.clone(), there));
                let together = pair.len() * required;
                let seeds = self.seeds(CONFIRMED, together, &one.link, &one.traffic, false);
                // A third set of seeds: the first two have chosen the configuration.
                let first = self.question.first_seed + 2 * SEEDS_APART;
                let values = self
                    .make(Some(at), first..first + seeds, &pair, false)
                    .await;
                let values = resampled(&values);
                let costs = costs_of(&values, &weights);
                if let Some(found) = exclusion(&costs[1], &values[1], &values[0]) {
                    let at = Some(one.at.clone());
                    let excluded = &mut finals.ranked[place].excluded;
                    excluded.push(Exclusion { at, ..found });
                    break;
                }
            }
            if finals.ranked[place].excluded.is_empty() {
                return;
            }
        }
    }

    /// The answer by ranked configurations, and by their costs on the links nearby on which they have run.
    fn answer_of(&self, finals: Finals, there: &[Vec<Option<Vec<f64>>>]) -> Answer {
        let recommended = recommend(&finals.ranked, &self.base);
        let required = |near: &[Near]| {
            let required = near.iter().filter(|one| one.is_required);
            required.map(|one| one.at.clone()).collect()
        };
        let (visited, unchecked) = self.near.split_at(there.len());
        Answer {
            with_peer: better_with_peer(&finals.ranked, recommended),
            link: self.question.link.clone(),
            traffic: self.question.traffic.clone(),
            weights: self.question.weights,
            flips: flips(visited, there, &finals.ranked, recommended),
            ranked: finals.ranked,
            controllers: self.controllers.borrow().clone(),
            recommended,
            neighbours: required(visited),
            unchecked: required(unchecked),
            seeds: finals.seeds,
            is_settled: finals.is_settled,
            runs: self.runs.get(),
        }
    }

    /// Keeps the answer by the cheapest of some configurations, the first of them default CoAP.
    fn keep(&self, configurations: &[Configuration], summaries: &[Vec<RunSummary>]) {
        let costs = point_costs(summaries, &self.question.weights);
        let cheapest = order(&costs).into_iter().filter(|place| *place != 0);
        let places: Vec<usize> = std::iter::once(0).chain(cheapest.take(TUNED_MAX)).collect();
        let configurations: Vec<Configuration> =
            places.iter().map(|place| configurations[*place]).collect();
        let summaries: Vec<Vec<RunSummary>> = places
            .iter()
            .map(|place| summaries[*place].clone())
            .collect();
        let finals = self.ranked(&configurations, &summaries);
        self.desk.keep(self.answer_of(finals, &[]));
    }

    /// Summaries of runs on a link of the neighbourhood, or on the link asked about, by configuration. Beyond
    /// [`WHOLE`] seeds only those with a loss are run; each other one has the summary of one of the first that was
    /// without loss, too.
    async fn make(
        &self,
        near: Option<usize>,
        seeds: Range<u64>,
        configurations: &[Configuration],
        with_harm: bool,
    ) -> Vec<Vec<RunSummary>> {
        let mut seeds: Vec<u64> = seeds.collect();
        let rest = seeds.split_off(seeds.len().min(WHOLE));
        let mut made = self
            .run(near, seeds.clone(), configurations, with_harm)
            .await;
        let Some(base) = configurations.first().filter(|_| !rest.is_empty()) else {
            return made;
        };
        let losses = KnownLosses::of(self.question, near.map(|at| &self.near[at]), base);
        let packets = made.iter().flatten().map(|one| one.packets).max();
        let is_spared = |seed: &u64| {
            let losses = losses.as_ref();
            losses.is_some_and(|one| one.spare(*seed, packets.unwrap_or_default()))
        };
        let places = (0..seeds.len()).filter(|at| is_spared(&seeds[*at]));
        let without_loss: Vec<usize> = places.collect();
        let is_spared: Vec<bool> = rest
            .iter()
            .map(|seed| !without_loss.is_empty() && is_spared(seed))
            .collect();
        let with_loss = rest.iter().zip(&is_spared).filter(|(_, spared)| !**spared);
        let with_loss = with_loss.map(|(seed, _)| *seed).collect();
        let more = self.run(near, with_loss, configurations, with_harm).await;
        for (all, more) in made.iter_mut().zip(more) {
            let mut more = more.into_iter();
            let mut like = without_loss.iter().cycle();
            for spared in &is_spared {
                let next = match like.next().filter(|_| *spared) {
                    Some(at) => Some(all[*at].clone()),
                    None => more.next(),
                };
                all.extend(next);
            }
        }
        made
    }

    /// Summaries of runs, by configuration.
    async fn run(
        &self,
        near: Option<usize>,
        seeds: Vec<u64>,
        configurations: &[Configuration],
        with_harm: bool,
    ) -> Vec<Vec<RunSummary>> {
        let with_harm = with_harm && near.is_none();
        if seeds.is_empty() {
            return vec![Vec::new(); configurations.len()];
        }
        let runs = configurations.len() * seeds.len() * (1 + usize::from(with_harm));
        self.runs.set(self.runs.get() + runs);
        let configurations = configurations.to_vec();
        self.desk
            .make(RunBatch {
                near,
                with_harm,
                seeds,
                configurations,
            })
            .await
    }

    /// Tries every controller under RFC 7252's timers and under those that are best for default CoAP,
    /// then single settings of the best, the gaining ones together, and the neighbours of the cheapest.
    async fn explore(&self) -> Tried {
        let (base, traffic) = (self.base, &self.question.traffic);
        let of = |controller| Configuration { controller, ..base };
        let controllers = controllers_of(self.question.registry);
        let mut first: Vec<Configuration> = controllers.into_iter().map(of).collect();
        let plain = first.len();
        first.extend(variations(base, traffic));
        let seeds = self.seeds_here(FIRST, first.len());
        let mut trials = Trials::default();
        self.add(&mut trials, first, seeds).await;
        let costs = trials.costs(&self.question.weights);
        let pairs = trials.known[..plain].iter().zip(costs);
        let mut by_cost: Vec<(&'static str, f64)> =
            pairs.map(|(one, cost)| (one.controller, cost)).collect();
        by_cost.sort_by(|a, b| a.1.total_cmp(&b.1));
        self.controllers.replace(by_cost.clone());
        self.keep(&trials.known, &trials.summaries);
        // Timers before the choice of controllers: RFC 7252's hide one that recovers fast under shorter ones.
        let best = self.best_of_each(&mut trials, &by_cost, seeds).await;
        let tuned = tuned(&best, seeds, TUNED_MAX);
        let alone = tuned.iter().flat_map(|one| variations(of(one), traffic));
        let more: Vec<Configuration> = alone.filter(|one| !trials.known.contains(one)).collect();
        let seeds = seeds.min(self.seeds_here(FIRST, more.len()));
        self.add(&mut trials, more, seeds).await;
        let costs = trials.costs(&self.question.weights);
        let mut more: Vec<Configuration> = Vec::new();
        for controller in tuned {
            for one in combinations(controller, &base, &trials.known, &costs) {
                if !trials.known.contains(&one) && !more.contains(&one) {
                    more.push(one);
                }
            }
        }
        self.add(&mut trials, more, seeds).await;
        let costs = trials.costs(&self.question.weights);
        let names: Vec<&str> = best.iter().map(|(name, _)| *name).collect();
        let more = refinements(&trials.known, &costs, &names, traffic);
        self.add(&mut trials, more, seeds).await;
        self.narrow(&trials.known, trials.summaries, seeds).await
    }

    /// Tries controllers under the timers that are best for default CoAP. Returns the lower cost of each,
    /// the cheapest first.
    async fn best_of_each(
        &self,
        trials: &mut Trials,
        by_cost: &[(&'static str, f64)],
        seeds: u64,
    ) -> Vec<(&'static str, f64)> {
        let mut best = by_cost.to_vec();
        let costs = trials.costs(&self.question.weights);
        let Some(timers) = best_timers(&trials.known, &costs) else {
            return best;
        };
        let names = tuned(by_cost, seeds, by_cost.len()).into_iter().skip(1);
        let with_timers = |controller| Configuration {
            controller,
            timers,
            ..self.base
        };
        let more: Vec<Configuration> = names.map(with_timers).collect();
        let first = trials.known.len();
        self.add(trials, more, seeds).await;
        let costs = trials.costs(&self.question.weights);
        for (one, cost) in trials.known.iter().zip(costs).skip(first) {
            let mut all = best.iter_mut();
            if let Some(entry) = all.find(|(name, _)| *name == one.controller) {
                entry.1 = entry.1.min(cost);
            }
        }
        best.sort_by(|a, b| a.1.total_cmp(&b.1));
        best
    }

    /// Whether a neighbour is measured before the last stage: not where runs are long.
    fn has_early_harm(&self) -> bool {
        let controllers = controllers_of(self.question.registry).len();
        self.with_harm && self.seeds_here(FIRST, controllers) >= SEEDS_MANY
    }

    /// Runs configurations with the seeds of the first stages.
    async fn add(&self, trials: &mut Trials, mut more: Vec<Configuration>, seeds: u64) {
        // ACK_TIMEOUT below 2 s needs a controller that measures round trips (RFC 7252 4.8.1).
        more.retain(|one| one.exclusion().is_none());
        let first_seed = self.question.first_seed + SEEDS_APART;
        let harm = self.has_early_harm();
        let made = self.make(None, first_seed..first_seed + seeds, &more, harm);
        trials.summaries.extend(made.await);
        trials.known.extend(more);
    }

    /// Runs default CoAP and the cheapest configurations with more seeds than the first `seeds`.
    async fn narrow(
        &self,
        known: &[Configuration],
        mut summaries: Vec<Vec<RunSummary>>,
        seeds: u64,
    ) -> Tried {
        let costs = point_costs(&summaries, &self.question.weights);
        let places = narrowed(known, &costs);
        let configurations: Vec<Configuration> = places.iter().map(|place| known[*place]).collect();
        let more = self.seeds_here(NARROWED, places.len());
        let first_seed = self.question.first_seed + SEEDS_APART + seeds;
        // `add` has used the seeds before these, so both sets together are distinct.
        let harm = self.has_early_harm();
        let more = first_seed..first_seed + more;
        let made = self.make(None, more, &configurations, harm);
        let made = made.await;
        let pooled = places.iter().zip(made).map(|(place, more)| {
            let mut all = std::mem::take(&mut summaries[*place]);
            all.truncate(seeds as usize);
            all.extend(more);
            all
        });
        let summaries: Vec<Vec<RunSummary>> = pooled.collect();
        self.keep(&configurations, &summaries);
        Tried {
            costs: point_costs(&summaries, &self.question.weights),
            configurations,
        }
    }

    /// Runs configurations, the first of them default CoAP, on links nearby with few seeds. Returns which
    /// of them cost more than default CoAP there, or fail more often, beyond chance. A link on which
    /// too few seeds are affordable is left to the last stage.
    async fn screen(&self, configurations: &[Configuration]) -> Vec<bool> {
        let (near, weights) = (&self.near, self.question.weights.without(Component::Harm));
        let places = (0..near.len()).filter(|place| near[*place].is_required);
        let required: Vec<usize> = places.collect();
        let mut is_out = vec![false; configurations.len()];
        let first_seed = self.question.first_seed + SEEDS_APART;
        for place in required.iter().copied() {
            let one = &near[place];
            let together = configurations.len() * required.len();
            let seeds = self.seeds(SCREENED, together, &one.link, &one.traffic, false);
            if seeds < SCREENED_LEAST {
                continue;
            }
            let seeds = first_seed..first_seed + seeds;
            let values = resampled(&self.make(Some(place), seeds, configurations, false).await);
            let costs = costs_of(&values, &weights);
            for ((is_out, cost), of_one) in is_out.iter_mut().zip(&costs).zip(&values) {
                *is_out |= exclusion(cost, of_one, &values[0]).is_some();
            }
        }
        is_out
    }

    /// Runs configurations, the first of them default CoAP, with twice as many fresh seeds again and
    /// again, until the recommendation is settled.
    async fn settle(&self, finalists: &[Configuration]) -> Finals {
        let Question { link, traffic, .. } = self.question;
        let shared = shared_queue_seeds(link, traffic, self.base.block);
        let limits = Seeds {
            most: LAST.most.max(shared),
            ..LAST
        };
        let mut seeds = self.seeds_here(limits, finalists.len());
        let mut summaries: Vec<Vec<RunSummary>> = vec![Vec::new(); finalists.len()];
        let mut made = 0;
        loop {
            let first = self.question.first_seed;
            let more = first + made..first + seeds;
            // Seeds that no earlier stage used: the stages before chose by theirs, so that costs under them
            // are too low for the chosen.
            let more = self.make(None, more, finalists, self.with_harm);
            for (all, more) in summaries.iter_mut().zip(more.await) {
                all.extend(more);
            }
            made = seeds;
            let finals = self.ranked(finalists, &summaries);
            seeds = made * 2;
            let limits = Seeds {
                most: seeds,
                ..LAST
            };
            let possible = self.seeds_here(limits, finalists.len());
            if finals.is_settled || seeds > u64::from(SEEDS_MAX) || possible < seeds {
                return finals;
            }
            self.desk.keep(self.answer_of(finals, &[]));
        }
    }

    /// Configurations by their costs, after the first, default CoAP. The recommendation is settled if 95 % of resamples
    /// have the same.
    fn ranked(&self, configurations: &[Configuration], summaries: &[Vec<RunSummary>]) -> Finals {
        let Question { link, traffic, .. } = self.question;
        let values = resampled(summaries);
        let costs = costs_of(&values, &self.question.weights);
        let ranked = |place: usize| Ranked {
            configuration: configurations[place],
            command: configurations[place].command(traffic),
            measured: Pool::of(&summaries[place]).all(),
            cost: Cost::of(&costs[place]),
            excluded: Vec::from_iter(exclusion_here(
                &values[place],
                &values[0],
                shares_queue(&configurations[place], link, traffic),
            )),
        };
        let others = order(&firsts_of(&costs)).into_iter();
        let places: Vec<usize> = std::iter::once(0)
            .chain(others.filter(|place| *place != 0))
            .collect();
        let ranked: Vec<Ranked> = places.iter().map(|place| ranked(*place)).collect();
        let base = &self.base;
        let of = |all: &[Ranked]| all[recommend(all, base)].configuration;
        let recommended = of(&ranked);
        let alike = (1..=RESAMPLES).into_par_iter().filter(|resample| {
            let again = places.iter().zip(&ranked).map(|(place, one)| Ranked {
                measured: values[*place][*resample],
                cost: one.cost.moved_to(costs[*place][*resample]),
                ..one.clone()
            });
            let mut again: Vec<Ranked> = again.collect();
            again[1..].sort_by(|a, b| a.cost.value.total_cmp(&b.cost.value));
            of(&again) == recommended
        });
        Finals {
            is_settled: alike.count() * 100 >= RESAMPLES * 95,
            seeds: summaries.iter().map(Vec::len).min().unwrap_or_default() as u64,
            ranked,
        }
    }

    /// Runs the ranked configurations on links nearby, and notes where they are worse than the first,
    /// default CoAP. Returns their costs there, of those that exceed no limit.
    async fn visit(&self, finals: &mut Finals) -> Vec<Vec<Option<Vec<f64>>>> {
        let near = &self.near;
        let configurations = finals.ranked.iter().map(|one| one.configuration);
        let configurations: Vec<Configuration> = configurations.collect();
        let weights = self.question.weights.without(Component::Harm);
        let mut all = Vec::with_capacity(near.len());
        for (place, one) in near.iter().enumerate() {
            // An interruption prints the answer so far, with the links that were not tried.
            self.desk.keep(self.answer_of(finals.clone(), &all));
            let together = configurations.len() * near.len();
            let seeds = self.seeds(NEARBY, together, &one.link, &one.traffic, false);
            let seeds = self.question.first_seed..self.question.first_seed + seeds;
            let possible = |one: &Configuration| {
                one.transfer == Transfer::Block
                    || is_possible(self.question, Some(&near[place]), one)
            };
            let places = (0..configurations.len()).filter(|at| possible(&configurations[*at]));
            let places: Vec<usize> = places.collect();
            let running: Vec<Configuration> = places.iter().map(|at| configurations[*at]).collect();
            let values = resampled(&self.make(Some(place), seeds, &running, false).await);
            let costs = costs_of(&values, &weights);
            let mut there = vec![None; configurations.len()];
            for ((at, cost), of_one) in places.iter().zip(costs).zip(&values) {
                let found = exclusion(&cost, of_one, &values[0]);
                there[*at] = found.is_none().then_some(cost);
                let found = found.filter(|_| one.is_required);
                let nearby = Some(one.at.clone());
                let found = found.map(|found| Exclusion {
                    at: nearby,
                    ..found
                });
                finals.ranked[*at].excluded.extend(found);
            }
            all.push(there);
        }
        all
    }

    /// Seeds of a stage by its number of configurations, on the link in question.
    fn seeds_here(&self, limits: Seeds, configurations: usize) -> u64 {
        let (link, traffic) = (&self.question.link, &self.question.traffic);
        self.seeds(limits, configurations, link, traffic, self.with_harm)
    }

    /// Seeds of a stage by its number of configurations. Where losses are rare, more than the most of other
    /// links, so that the runs have some.
    fn seeds(
        &self,
        limits: Seeds,
        configurations: usize,
        link: &Link,
        traffic: &Traffic,
        harm: bool,
    ) -> u64 {
        let each = work(link, traffic, self.base.block, harm) * configurations.max(1) as u64;
        let whole = limits.exchanges / each.max(1);
        // Beyond WHOLE seeds only those with a loss are run, so the same work covers more of them.
        let others = whole.saturating_sub(WHOLE as u64);
        let seeds =
            whole - others + others * 1_000 / share_with_loss(link, traffic, self.base.block);
        let most = limits.most.max(rare_loss_seeds(
            link,
            traffic,
            self.base.block,
            limits.losses,
        ));
        seeds.clamp(limits.least, most.max(limits.least))
    }
}

/// Gain below which default CoAP stays, as a share of its cost, and in seconds; seconds also decide whether a simpler
/// configuration than the cheapest will do.
const GAIN_WORTH: f64 = 0.1;
const GAIN_WORTH_S: f64 = 0.005;

/// Of the configurations that are nowhere worse than default CoAP, those that cost at most
/// [`NEAR_BEST`] times the cheapest, or up to [`NEAR_UNSURE`] times if chance decides or only they are reviewed, or take
/// at most [`GAIN_WORTH_S`] longer; of them the simplest: `carob` with nothing set, a setting of default CoAP, a reviewed controller, another one.
/// Default CoAP if none is worth a change.
fn recommend(ranked: &[Ranked], base: &Configuration) -> usize {
    let default = &ranked[0];
    // The larger of the times gained, in seconds, and of the share delivered more.
    let gain = |this: &Ranked, before: &Ranked| {
        let (this, before) = (&this.measured, &before.measured);
        let times = (before.time_s - this.time_s).max(before.tail_s - this.tail_s);
        times.max(before.undelivered - this.undelivered)
    };
    let is_fit = |one: &Ranked| {
        let is_cheaper = one.cost.high < 1.0 && one.cost.value < 1.0 - GAIN_WORTH;
        is_cheaper && gain(one, default) > GAIN_WORTH_S && one.excluded.is_empty()
    };
    let fit = || {
        let others = ranked.iter().enumerate().skip(1);
        let others = others.filter(|(_, one)| one.configuration.transfer == Transfer::Block);
        others.filter(|(_, one)| is_fit(one))
    };
    let Some((_, best)) = fit().next() else {
        return 0;
    };
    let near = fit().filter(|(_, one)| {
        let costs = one.cost.value / best.cost.value;
        let is_reviewed = |one: &Ranked| simplicity(&one.configuration, base, 0)[0] < UNREVIEWED;
        let may_cost_more =
            one.cost.low <= best.cost.high || is_reviewed(one) && !is_reviewed(best);
        costs <= NEAR_BEST
            || costs <= NEAR_UNSURE && may_cost_more
            || gain(best, one) <= GAIN_WORTH_S
    });
    near.min_by_key(|(place, one)| simplicity(&one.configuration, base, *place))
        .map(|(place, _)| place)
        .unwrap_or_default()
}

/// The cheapest configuration that needs support at the peer, if it exceeds no limit and costs at least
/// [`GAIN_WORTH`] less than the recommended one beyond chance.
fn better_with_peer(ranked: &[Ranked], recommended: usize) -> Option<usize> {
    let own = &ranked[recommended].cost;
    let is_better = |one: &Ranked| {
        let needs = one.configuration.transfer.needs().is_some();
        let gain = one.cost.value < own.value * (1.0 - GAIN_WORTH) && one.cost.high < own.low;
        needs && gain && one.excluded.is_empty()
    };
    ranked.iter().position(is_better)
}

/// Class of controllers that nobody reviewed, in the order of preference.
const UNREVIEWED: usize = 3;

/// Order of preference among configurations of about the same cost: class, settings changed, controller, timers, cost.
fn simplicity(one: &Configuration, base: &Configuration, place: usize) -> [usize; 5] {
    let changes = one.changes(base);
    let reviewed = REVIEWED.iter().position(|name| *name == one.controller);
    let known = carob_cc::registry::entries().position(|entry| entry.name == one.controller);
    let (class, order) = match (one.controller, changes, reviewed) {
        ("carob", 0, _) => (0, None),
        ("default", 1, _) => (1, None),
        (_, _, Some(order)) => (2, Some(order)),
        _ => (UNREVIEWED, known),
    };
    let order = order.unwrap_or(usize::MAX);
    [class, changes, order, one.timers as usize, place]
}

#[cfg(test)]
mod tests {
    use super::super::Measured;
    use super::*;

    #[test]
    fn milliseconds_justify_no_other_controller_than_carob() {
        let base = Configuration::default_coap(1_024);
        let ranked = |controller, time_s, cost| Ranked {
            configuration: Configuration { controller, ..base },
            command: String::new(),
            measured: Measured {
                time_s,
                tail_s: 10.0 * time_s,
                ..Measured::default()
            },
            cost: Cost {
                value: cost,
                low: cost,
                high: cost,
            },
            excluded: Vec::new(),
        };
        let recommended = |of_carob| {
            let default = ranked("default", 0.006, 1.0);
            let all = [default, ranked("rfc6298", 0.0013, 0.34), of_carob];
            all[recommend(&all, &base)].configuration.controller
        };
        // The slowest 5 % take 4 ms longer, then 7 ms.
        assert_eq!(recommended(ranked("carob", 0.0017, 0.39)), "carob");
        assert_eq!(recommended(ranked("carob", 0.0020, 0.39)), "rfc6298");
    }
}
