//! Gate of a comparison: limits beside default CoAP that a recommendation keeps, here and on links nearby.

use std::fmt;

use serde::Serialize;

use super::candidates::{AROUND_A_BLOCK, GAIN_LEAST};
use super::configuration::Configuration;
use super::judge::{Component, Measured, RESAMPLES};
use super::link::Link;
use super::traffic::Traffic;
use super::words::{digits, percent, seconds};

/// A limit that a configuration exceeds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Exclusion {
    /// The link nearby; none for the link asked about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// The limit.
    pub limit: Limit,
    /// Its quantity with the configuration.
    pub value: f64,
    /// The same with default CoAP.
    pub default: f64,
}

/// A limit beside default CoAP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    /// Cost higher by 2 % beyond chance.
    Cost,
    /// Share of failures higher by a point beyond chance.
    Failures,
    /// Mean time longer by 5 % beyond chance.
    Time,
    /// Mean of the slowest 5 % longer by 5 % beyond chance.
    Tail,
    /// A neighbour's time longer by 25 % beyond chance.
    Harm,
    /// More than 0.1 spurious retransmissions per exchange, default CoAP fewer.
    Spurious,
    /// Any failure more, where several downloads by `carob` share a short queue.
    SharedQueue,
}

/// Limits beside default CoAP: mean and slowest times, a neighbour's time.
const LIMITS: [(Limit, Component, f64); 3] = [
    (Limit::Time, Component::Time, 1.05),
    (Limit::Tail, Component::Tail, 1.05),
    (Limit::Harm, Component::Harm, 1.25),
];
/// Share of resamples, in thousandths, that exceed a limit beyond chance; and that exceed it twice over, where few runs
/// have rare long waits and a recommendation would rest on luck.
const SURE: usize = 975;
const LIKELY: usize = 750;
/// Spurious retransmissions per exchange at most, where default CoAP has fewer.
const SPURIOUS_MAX: f64 = 0.1;
/// Share of failures beyond default CoAP's that rules a configuration out.
const FAILURES_MORE: f64 = 0.01;
/// Share of default CoAP's failures beyond which the traffic does not fit the link.
pub(super) const OVERLOADED: f64 = 0.5;
/// Downloads from which on, and queue in packets for each below which, `carob` fills the queue with
/// retransmissions: a download in a hundred failed with queues of 2 packets for 4 downloads to 8 for 8, and one in
/// 200 with 32 for 16; none with three packets for each (docs/carob-controller.md).
const SHARING_LEAST: u32 = 3;
const QUEUE_OF_EACH: u64 = 3;
/// Downloads by which failures of less than a point are seen.
const SHARED_DOWNLOADS: u32 = 600;

impl Exclusion {
    fn new(limit: Limit, value: f64, default: f64) -> Self {
        Self {
            at: None,
            limit,
            value,
            default,
        }
    }
}

impl fmt::Display for Exclusion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (value, default) = (self.value, self.default);
        let times = [value, default].map(seconds);
        let shares = [value, default].map(percent);
        if let Some(at) = &self.at {
            write!(f, "at {at}, ")?;
        }
        let coap = "default CoAP";
        match self.limit {
            Limit::Cost => write!(f, "its cost is {value:.2} of {coap}'s"),
            Limit::Failures => write!(f, "{} fail ({coap} {})", shares[0], shares[1]),
            Limit::Time => write!(f, "the average is {} ({coap} {})", times[0], times[1]),
            Limit::Tail => write!(f, "the slowest 5 % take {} ({coap} {})", times[0], times[1]),
            Limit::Harm => write!(f, "a neighbour waits {} ({coap} {})", times[0], times[1]),
            Limit::Spurious => write!(
                f,
                "{} spurious retransmissions per exchange ({coap} {})",
                digits(value),
                digits(default)
            ),
            Limit::SharedQueue => write!(
                f,
                "{} of downloads fail ({coap} {}): carob is no candidate for {SHARING_LEAST} and more downloads \
                 over a queue below {QUEUE_OF_EACH} packets each where it fails more often \
                 (docs/carob-controller.md)",
                shares[0], shares[1]
            ),
        }
    }
}

/// The first limit that a configuration exceeds by its costs and values of all runs and resamples. Where default CoAP
/// delivers less than half, the traffic does not fit the link, and only failures count.
pub(super) fn exclusion(
    costs: &[f64],
    values: &[Measured],
    reference: &[Measured],
) -> Option<Exclusion> {
    let found = failures(values, reference);
    if found.is_some() || reference[0].undelivered > OVERLOADED {
        return found;
    }
    exceeded(values, reference).or_else(|| {
        let is_costlier = is_above(costs.iter().copied(), 1.0 + GAIN_LEAST);
        is_costlier.then(|| Exclusion::new(Limit::Cost, costs[0], 1.0))
    })
}

/// The first limit that a configuration exceeds on the link asked about, where its cost is compared later.
pub(super) fn exclusion_here(
    values: &[Measured],
    reference: &[Measured],
    shares_queue: bool,
) -> Option<Exclusion> {
    let [value, default] = [values, reference].map(|all| all[0].undelivered);
    // Without a test against chance: `shared_queue_seeds` provides at least 600 downloads, and any failure
    // beyond default CoAP's counts.
    if shares_queue && value > default {
        return Some(Exclusion::new(Limit::SharedQueue, value, default));
    }
    failures(values, reference).or_else(|| exceeded(values, reference))
}

/// Failures by a point more than default CoAP's and beyond chance.
fn failures(values: &[Measured], reference: &[Measured]) -> Option<Exclusion> {
    // Values after the first are of resamples, with the same seeds in both.
    let pairs = values[1..].iter().zip(&reference[1..]);
    let more = pairs.filter(|(a, b)| a.undelivered > b.undelivered).count();
    let [value, default] = [values, reference].map(|all| all[0].undelivered);
    let by = |points: f64| value > default + points * FAILURES_MORE;
    let share = more * 1_000 / RESAMPLES;
    let is_more = by(1.0) && share >= SURE || by(2.0) && share >= LIKELY;
    is_more.then(|| Exclusion::new(Limit::Failures, value, default))
}

/// The first of the [`LIMITS`] that is exceeded beyond chance, or retransmissions that nobody needs. Where default CoAP
/// fails more often, its times and spurious retransmissions lack late responses, and the cost alone decides
/// about them.
fn exceeded(values: &[Measured], reference: &[Measured]) -> Option<Exclusion> {
    let is_late = failures(reference, values).is_some();
    let all = LIMITS.into_iter();
    for (limit, component, most) in all.filter(|(limit, ..)| *limit == Limit::Harm || !is_late) {
        let ratios = values.iter().zip(reference);
        if is_above(ratios.map(|(a, b)| a.ratio(b, component)), most) {
            let [value, default] = [values, reference].map(|all| all[0].get(component));
            return Some(Exclusion::new(limit, value, default));
        }
    }
    let [value, default] = [values, reference].map(|all| all[0].spurious);
    let is_more = value > SPURIOUS_MAX && default <= SPURIOUS_MAX && !is_late;
    is_more.then(|| Exclusion::new(Limit::Spurious, value, default))
}

/// Returns true if ratios of all runs and resamples are above a limit, or likely twice as far above 1.
fn is_above(ratios: impl Iterator<Item = f64>, limit: f64) -> bool {
    let ratios: Vec<f64> = ratios.collect();
    let above = |limit: f64| ratios.iter().filter(|ratio| **ratio > limit).count();
    let share = |limit| above(limit) * 1_000 / ratios.len().max(1);
    share(limit) >= SURE || share(2.0 * limit - 1.0) >= LIKELY
}

/// Returns true if [`Limit::SharedQueue`] holds for a configuration: several downloads by `carob` over a queue below
/// three packets each.
pub(super) fn shares_queue(one: &Configuration, link: &Link, traffic: &Traffic) -> bool {
    one.controller == "carob" && is_shared_queue(link, traffic, one.block)
}

fn is_shared_queue(link: &Link, traffic: &Traffic, block: u16) -> bool {
    let packet = u64::from(block) + u64::from(AROUND_A_BLOCK);
    // A buffer below one packet still carries one, as in the simulated link.
    let queue = link.buffer_bytes.max(u64::from(link.mtu)) / packet;
    let clients = traffic.clients;
    let is_shared = traffic.is_blockwise() && clients >= SHARING_LEAST && !link.is_mesh;
    is_shared && queue < QUEUE_OF_EACH * u64::from(clients)
}

/// Seeds of the last stage by which [`Limit::SharedQueue`] decides; 0 where it does not hold.
pub(super) fn shared_queue_seeds(link: &Link, traffic: &Traffic, block: u16) -> u64 {
    let seeds = u64::from(SHARED_DOWNLOADS.div_ceil(traffic.clients.max(1)));
    if is_shared_queue(link, traffic, block) {
        seeds
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failing(undelivered: f64) -> Vec<Measured> {
        let one = Measured {
            undelivered,
            time_s: 1.0,
            tail_s: 2.0,
            ..Measured::default()
        };
        vec![one; RESAMPLES + 1]
    }

    #[test]
    fn downloads_that_share_a_short_queue_may_not_fail_more() {
        let link = |buffer_bytes| Link {
            buffer_bytes,
            ..Link::built_in("umts").expect("built in")
        };
        let mut traffic = Traffic::named("firmware").expect("known");
        let plain = Configuration::default_coap(1_024);
        let carob = plain.with_carob();
        // Packets of 1063 B: two are the cell `stress/neighbour-shallow`.
        assert!(!shares_queue(&carob, &link(2_500), &traffic), "one device");
        traffic.clients = 4;
        assert!(shares_queue(&carob, &link(2_500), &traffic));
        assert!(!shares_queue(&plain, &link(2_500), &traffic));
        assert!(shares_queue(&carob, &link(12_000), &traffic));
        assert!(!shares_queue(&carob, &link(13_000), &traffic));
        assert_eq!(shared_queue_seeds(&link(2_500), &traffic, 1_024), 150);
        assert_eq!(shared_queue_seeds(&link(13_000), &traffic, 1_024), 0);
        // 98.9 % against 100 %: within a point of each other, as everywhere else.
        let (worse, all) = (failing(0.009), failing(0.0));
        let found = exclusion_here(&worse, &all, true).expect("it fails more");
        assert_eq!(found.limit, Limit::SharedQueue);
        assert!(
            found.to_string().contains("below 3 packets each"),
            "{found}"
        );
        assert_eq!(exclusion_here(&worse, &all, false), None);
        assert_eq!(exclusion_here(&all, &worse, true), None);
    }

    #[test]
    fn an_exclusion_names_its_place_limit_and_values() {
        let slow = |tail_s| {
            let one = Measured {
                time_s: 1.0,
                tail_s,
                ..Measured::default()
            };
            vec![one; RESAMPLES + 1]
        };
        let costs = vec![1.0; RESAMPLES + 1];
        let found = exclusion(&costs, &slow(12.0), &slow(10.0)).expect("slower");
        let found = Exclusion {
            at: Some("an outage of 3 s".to_owned()),
            ..found
        };
        assert_eq!(
            found.to_string(),
            "at an outage of 3 s, the slowest 5 % take 12.0 s (default CoAP 10.0 s)"
        );
        assert_eq!(exclusion(&costs, &slow(10.4), &slow(10.0)), None);
        let more = exclusion(&costs, &failing(0.03), &failing(0.01)).expect("fails more");
        assert_eq!(more.limit, Limit::Failures);
        // A response after 12 s instead of none.
        let mut late = slow(12.0);
        assert!(exclusion(&costs, &late, &failing(0.0)).is_some());
        assert_eq!(exclusion(&costs, &late, &failing(0.05)), None);
        for one in &mut late {
            one.spurious = 0.2;
        }
        assert_eq!(exclusion(&costs, &late, &failing(0.05)), None);
        for one in &mut late {
            one.undelivered = 0.05;
        }
        assert!(exclusion(&costs, &late, &failing(0.05)).is_some());
        assert_eq!(exclusion(&costs, &slow(99.0), &failing(0.6)), None);
        let worse = exclusion(&costs, &failing(0.8), &failing(0.6)).expect("fails more");
        assert_eq!(worse.limit, Limit::Failures);
        let mut unlucky = vec![1.3; RESAMPLES + 1];
        unlucky[..80].fill(1.0);
        let found = exclusion(&unlucky, &slow(1.0), &slow(1.0)).expect("likely");
        assert_eq!(found.limit, Limit::Cost);
        unlucky[..140].fill(1.0);
        assert_eq!(exclusion(&unlucky, &slow(1.0), &slow(1.0)), None);
        let costlier = vec![1.1; RESAMPLES + 1];
        let found = exclusion(&costlier, &slow(1.0), &slow(1.0)).expect("costlier");
        assert_eq!(found.limit, Limit::Cost);
    }
}
