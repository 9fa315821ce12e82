//! Validation on links set aside: the recommendation beside the best configuration in hindsight.
//!
//! [`cases`] is a Latin hypercube: each quantity takes each of 24 levels once, in an order drawn from
//! the number of the set. The proof uses a set that nothing was ever chosen by; other numbers give other links,
//! to develop with.

use std::collections::BTreeMap;

use carob_sim::random::Stream;
use serde::{Deserialize, Serialize};

use super::candidates::{combinations, largest_block, order, variations};
use super::configuration::{Configuration, Transfer, controllers};
use super::gate::{exclusion_here, shares_queue};
use super::judge::Cost;
use super::link::Link;
use super::neighbourhood::firsts_of;
use super::proof::{is_plain, named, unsafe_at};
use super::runs::{costs_of, make, point_costs, resampled, stage};
use super::traces::LinkTraces;
use super::traffic::{TRAFFIC, Traffic};
use super::{Answer, CompareError, Progress, Question};

/// Links of a set.
pub const CASES: usize = 24;
/// First seeds of the search for the best, and of the runs that judge. A comparison uses lower
/// seeds.
const SEARCH_SEEDS: u64 = 2_000_001;
pub(super) const FRESH_SEEDS: u64 = 3_000_001;
/// Exchanges of the search for the best settings of each controller, of the runs that judge all, and of
/// those that judge the cheapest.
const SEARCH_EXCHANGES: u64 = 2_000_000;
const FRESH_EXCHANGES: u64 = 1_500_000;
const MORE_EXCHANGES: u64 = 3_000_000;
/// Configurations that are judged with more seeds, default CoAP and the recommendation apart.
const CHEAPEST: usize = 8;

/// A link with traffic.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// The link.
    pub link: Link,
    /// The traffic.
    pub traffic: Traffic,
}

/// A recommendation beside the best configuration in hindsight.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Hindsight {
    /// The link in words.
    pub link: String,
    /// Name of the traffic.
    pub traffic: String,
    /// Devices.
    pub clients: u32,
    /// The recommended configuration.
    pub recommended: String,
    /// True if nothing is to set: default CoAP, or `carob` alone.
    pub is_plain: bool,
    /// The configuration with the lowest cost on the seeds that judge, of those that exceed no limit there and nearby.
    pub best: String,
    /// Cost of the recommendation beside the best: value, and ends of the 95 % interval.
    pub regret: [f64; 3],
    /// Cost of the recommendation beside default CoAP, likewise.
    pub cost: [f64; 3],
    /// The reason why the best one was not recommended.
    pub reason: String,
    /// Configurations that ran with fresh seeds.
    pub configurations: usize,
    /// Fresh seeds of the cheapest of them.
    pub seeds: u64,
}

/// The links of a set.
pub fn cases(set: u64) -> Vec<Case> {
    let levels = |name: &str| levels(set, name);
    let [down, up, rtt, jitter] = ["down", "up", "rtt", "jitter"].map(levels);
    let [loss, burst, buffer, clients] = ["loss", "burst", "buffer", "clients"].map(levels);
    let kind = levels("traffic");
    let case = |k: usize| {
        let down_bps = rounded(between(1e4, 1e7, down[k]));
        let up_bps = rounded(between(0.25, 2.0, up[k]) * down_bps as f64);
        let rtt_us = rounded(between(1e4, 1e7, rtt[k]));
        // The upper half of the levels is bursty.
        // In thousandths of a packet: runs of 1 to 6 packets.
        let burst_milli = (burst[k] - 0.5).max(0.0) * 10_000.0 + 1_000.0;
        let link = Link {
            up_bps: up_bps.clamp(10_000, 10_000_000),
            jitter_us: rounded(rtt_us as f64 / 4.0 * jitter[k]),
            loss_ppm: rounded(200_000.0 * loss[k] * loss[k]) as u32,
            loss_burst_milli: rounded(burst_milli) as u32,
            buffer_bytes: rounded(between(3e3, 128e3, buffer[k])),
            ..lossless(format!("link {}", k + 1), down_bps, rtt_us)
        };
        let (name, ..) = TRAFFIC[(kind[k] * (CASES - 1) as f64).round() as usize % TRAFFIC.len()];
        let mut traffic = Traffic::named(name).expect("it is in the table");
        traffic.clients = between(1.0, 200.0, clients[k]).round() as u32;
        Case { link, traffic }
    };
    (0..CASES).map(case).collect()
}

/// A link of one rate both ways without loss, jitter and buffer.
pub(super) fn lossless(name: String, bps: u64, rtt_us: u64) -> Link {
    Link {
        name,
        down_bps: bps,
        up_bps: bps,
        rtt_us,
        jitter_us: 0,
        loss_ppm: 0,
        loss_burst_milli: 1_000,
        buffer_bytes: 0,
        // The MTU that every link of IPv6 has (RFC 8200 5).
        mtu: 1_280,
        is_mesh: false,
        mesh: None,
        traces: LinkTraces::default(),
        more: BTreeMap::new(),
        is_unvalidated: false,
    }
}

/// The levels from 0 to 1 in the order of a quantity.
fn levels(set: u64, name: &str) -> Vec<f64> {
    let mut order: Vec<usize> = (0..CASES).collect();
    let mut stream = Stream::new(set, &format!("compare/links/{name}"));
    // Fisher and Yates' shuffle; the upper half of the product is uniform below `last + 1`.
    for last in (1..CASES).rev() {
        let other = (u128::from(stream.next_u64()) * (last as u128 + 1)) >> 64;
        order.swap(last, other as usize);
    }
    let level = |place: usize| place as f64 / (CASES - 1) as f64;
    order.into_iter().map(level).collect()
}

/// The value at a level of a logarithmic scale.
pub(super) fn between(low: f64, high: f64, level: f64) -> f64 {
    low * (high / low).powf(level)
}

/// A value with two digits.
pub(super) fn rounded(value: f64) -> u64 {
    let digits = value.max(1.0).log10().floor() as i32 - 1;
    let unit = 10_f64.powi(digits.max(0));
    ((value / unit).round() * unit) as u64
}

/// Asks for a recommendation, searches all controllers and settings with other seeds, and judges with
/// fresh ones.
///
/// # Errors
///
/// A link or a traffic that cannot be simulated.
pub fn validate(
    case: &Case,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<Hindsight, CompareError> {
    let question = Question::new(case.link.clone(), case.traffic.clone());
    let answer = question.answer(progress)?;
    let mut judged = best_of_each(&question, progress)?;
    let alone = answer.ranked.iter();
    for one in alone.filter(|one| one.configuration.transfer == Transfer::Block) {
        if !judged.contains(&one.configuration) {
            judged.push(one.configuration);
        }
    }
    let recommended = answer.recommended().configuration;
    let first = stage(&question, FRESH_SEEDS, FRESH_EXCHANGES, judged.len(), 4..40);
    let mut summaries = make(&first, &judged, progress)?;
    let all = judged.len();
    let costs = point_costs(&summaries, &question.weights);
    let mut cheapest = order(&costs);
    cheapest.truncate(CHEAPEST);
    let is_judged =
        |place: usize| place == 0 || cheapest.contains(&place) || judged[place] == recommended;
    let places: Vec<usize> = (0..all).filter(|place| is_judged(*place)).collect();
    judged = places.iter().map(|place| judged[*place]).collect();
    summaries = places
        .iter()
        .map(|place| std::mem::take(&mut summaries[*place]))
        .collect();
    // Continues behind the seeds of the stage before, so that no run counts twice.
    let more = stage(
        &question,
        first.seeds.last().map_or(0, |seed| seed + 1),
        MORE_EXCHANGES,
        judged.len(),
        10..160,
    );
    for (all, more) in summaries.iter_mut().zip(make(&more, &judged, progress)?) {
        all.extend(more);
    }
    let values = resampled(&summaries);
    // The seeds of both stages that judge, none of which chose the settings.
    let costs = costs_of(&values, &question.weights);
    let is_shared = |one: &Configuration| shares_queue(one, &case.link, &case.traffic);
    let place = judged.iter().position(|one| *one == recommended);
    let place = place.expect("it is among those judged");
    // The cheapest one that is safe on links nearby, with chance on its side.
    let mut best = place;
    for other in order(&firsts_of(&costs)) {
        let is_cheaper = costs[other][0] < costs[place][0];
        let is_safe = judged[other].exclusion().is_none()
            && exclusion_here(&values[other], &values[0], is_shared(&judged[other])).is_none();
        if is_cheaper && is_safe && unsafe_at(&question, &judged[other], progress)?.is_empty() {
            best = other;
            break;
        }
    }
    let ratios: Vec<f64> = costs[place]
        .iter()
        .zip(&costs[best])
        .map(|(recommended, best)| recommended / best)
        .collect();
    let [regret, cost] = [&ratios, &costs[place]].map(|costs| Cost::of(costs));
    Ok(Hindsight {
        link: case.link.about(),
        traffic: case.traffic.name().to_owned(),
        clients: case.traffic.clients,
        recommended: named(&recommended, &case.traffic),
        is_plain: is_plain(&question, &recommended),
        best: named(&judged[best], &case.traffic),
        regret: [regret.value, regret.low, regret.high],
        cost: [cost.value, cost.low, cost.high],
        reason: reason(&answer, &judged[best]),
        configurations: all,
        seeds: (first.seeds.len() + more.seeds.len()) as u64,
    })
}

/// Every controller with the parameters of RFC 7252 and with the best settings found, default CoAP
/// first.
fn best_of_each(
    question: &Question,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<Vec<Configuration>, CompareError> {
    let base = Configuration::default_coap(largest_block(&question.link));
    let of = |controller| Configuration { controller, ..base };
    let plain: Vec<Configuration> = controllers().into_iter().map(of).collect();
    let varied = plain.iter().map(|one| variations(*one, &question.traffic));
    let mut known: Vec<Configuration> = plain.clone();
    known.extend(varied.flatten());
    let stage = stage(question, SEARCH_SEEDS, SEARCH_EXCHANGES, known.len(), 2..40);
    let mut summaries = make(&stage, &known, progress)?;
    let costs = point_costs(&summaries, &question.weights);
    let mut more = Vec::new();
    for controller in controllers() {
        for one in combinations(controller, &base, &known, &costs) {
            if !known.contains(&one) && !more.contains(&one) {
                more.push(one);
            }
        }
    }
    summaries.extend(make(&stage, &more, progress)?);
    known.extend(more);
    let costs = point_costs(&summaries, &question.weights);
    let mut judged = plain;
    let by_cost = order(&costs);
    for controller in controllers() {
        let best = by_cost
            .iter()
            .map(|place| known[*place])
            .find(|one| one.controller == controller);
        judged.extend(best.filter(|one| *one != of(controller)));
    }
    Ok(judged)
}

/// The reason why a configuration was not recommended.
fn reason(answer: &Answer, best: &Configuration) -> String {
    let recommended = answer.recommended();
    if recommended.configuration == *best {
        return String::new();
    }
    let found = answer.ranked.iter().find(|one| one.configuration == *best);
    let Some(one) = found else {
        return "not in the last stage".to_owned();
    };
    if let Some(first) = one.excluded.first() {
        return format!("excluded: {first}");
    }
    let ratio = one.cost.value / recommended.cost.value;
    format!("{ratio:.2} of the cost in the last stage, more regret nearby")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_links_of_a_set_stay_the_same_and_span_the_ranges() {
        let all = cases(24);
        let line = |case: &Case| format!("{}; {}\n", case.link.about(), case.traffic.about());
        let lines: String = all.iter().map(line).collect();
        assert_eq!(
            carob_sim::hash::fnv1a(lines.as_bytes()),
            11_685_514_937_899_959_332,
            "{lines}"
        );
        let ends = |of: &dyn Fn(&Case) -> u64| {
            let values = || all.iter().map(of);
            (values().min().unwrap_or(0), values().max().unwrap_or(0))
        };
        assert_eq!(ends(&|one| one.link.down_bps), (10_000, 10_000_000));
        assert_eq!(ends(&|one| one.link.rtt_us), (10_000, 10_000_000));
        assert_eq!(ends(&|one| u64::from(one.link.loss_ppm)), (0, 200_000));
        assert_eq!(ends(&|one| u64::from(one.traffic.clients)), (1, 200));
        let bursty = all.iter().filter(|one| one.link.loss_burst_milli > 1_000);
        assert_eq!(bursty.count(), 12);
        for (name, kind, _) in TRAFFIC {
            let count = all.iter().filter(|one| one.traffic.kind == kind).count();
            assert_eq!(count, 6, "{name}");
        }
        assert_ne!(all, cases(25));
    }

    #[test]
    fn values_have_two_digits() {
        assert_eq!(
            [99_500.0, 1_234.0, 7.4, 0.0].map(rounded),
            [100_000, 1_200, 7, 0]
        );
    }
}
