//! Configurations that a comparison tries.

use super::configuration::{Configuration, Timers};
use super::link::Link;
use super::traffic::{Traffic, TrafficKind};

/// Controllers whose settings are tried besides default CoAP, where runs are short and where they are
/// long.
const TUNED_MAX: [usize; 2] = [8, 4];
/// Seeds of the first stage from which on runs are short.
const SEEDS_MANY: u64 = 20;
/// Configurations of the last stages, default CoAP apart.
const FINALISTS_MAX: usize = 6;
/// Block sizes that are tried.
const BLOCKS: [u16; 5] = [1_024, 512, 256, 128, 64];
/// Bytes of headers around a block: IPv4 and UDP 28, CoAP 9, token 2.
const AROUND_A_BLOCK: u32 = 39;
/// The least gain of a setting that is kept, and of a recommendation.
pub(super) const GAIN_LEAST: f64 = 0.02;

/// The largest block that fits a packet; in a mesh the largest that fits a frame.
pub(super) fn largest_block(link: &Link) -> u16 {
    let fits = |block: &&u16| {
        if link.is_mesh {
            **block <= 64
        } else {
            u32::from(**block) + AROUND_A_BLOCK <= link.mtu
        }
    };
    BLOCKS.iter().find(fits).copied().unwrap_or(16)
}

/// A configuration with each other value of one setting.
pub(super) fn variations(base: Configuration, traffic: &Traffic) -> Vec<Configuration> {
    let mut all = Vec::new();
    if traffic.is_blockwise() && traffic.kind != TrafficKind::Own {
        let smaller = BLOCKS.iter().filter(|block| **block < base.block).take(2);
        all.extend(smaller.map(|&block| Configuration { block, ..base }));
    }
    if traffic.is_concurrent() {
        all.extend([2, 4, 8].map(|nstart| Configuration { nstart, ..base }));
    }
    all.extend(Timers::PROFILES.map(|timers| Configuration { timers, ..base }));
    all
}

/// Controllers whose settings are tried: default CoAP and the best.
pub(super) fn tuned(by_cost: &[(&'static str, f64)], seeds: u64) -> Vec<&'static str> {
    let most = TUNED_MAX[usize::from(seeds < SEEDS_MANY)];
    let best = by_cost.iter().map(|(name, _)| *name);
    let best = best.filter(|name| *name != "default").take(most);
    std::iter::once("default").chain(best).collect()
}

/// Places by cost, the cheapest first.
pub(super) fn order(costs: &[f64]) -> Vec<usize> {
    let mut places: Vec<usize> = (0..costs.len()).collect();
    places.sort_by(|a, b| costs[*a].total_cmp(&costs[*b]));
    places
}

/// A controller with all settings that gain alone, and with those besides the timers.
pub(super) fn combinations(
    controller: &'static str,
    base: &Configuration,
    known: &[Configuration],
    costs: &[f64],
) -> Vec<Configuration> {
    let base = Configuration {
        controller,
        ..*base
    };
    let cost_of = |wanted: &Configuration| {
        let place = known.iter().position(|one| one == wanted);
        place.map_or(f64::INFINITY, |place| costs[place])
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
pub(super) fn finalists(
    known: &[Configuration],
    costs: &[f64],
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
