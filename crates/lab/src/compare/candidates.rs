//! Configurations that a comparison tries.

use super::configuration::{BLOCKS, Configuration, REVIEWED, TCP, Timers, Transfer};
use super::link::Link;
use super::traffic::{Traffic, TrafficKind};

/// Controllers whose settings are tried besides default CoAP; half of them where runs are long.
pub(super) const TUNED_MAX: usize = 8;
/// Seeds of the first stage from which on runs are short.
pub(super) const SEEDS_MANY: u64 = 20;
/// Configurations that run with more seeds, default CoAP apart.
const NARROWED_MAX: usize = 14;
/// The candidates with the same settings: where the settings that gain here lose on a link nearby, others
/// must be left to choose from.
const NARROWED_ALIKE_MAX: usize = 5;
/// Configurations of the last stages, default CoAP apart.
pub(super) const FINALISTS_MAX: usize = 8;
/// The same where runs are so long that the last stage has its fewest seeds.
pub(super) const FINALISTS_LONG: usize = 5;
/// Bytes of headers around a block: IPv4 and UDP 28, CoAP 9, token 2.
pub(super) const AROUND_A_BLOCK: u32 = 39;
/// The least gain of a setting that is kept, and of a recommendation.
pub(super) const GAIN_LEAST: f64 = 0.02;

/// Configurations that need support at the peer, compared in the last stages alone: Q-Block for bodies in blocks, and
/// CoAP over TCP. Traffic of a file and meshes have none.
pub(super) fn with_peer(
    base: &Configuration,
    link: &Link,
    traffic: &Traffic,
) -> Vec<Configuration> {
    if link.is_mesh || traffic.kind == TrafficKind::Own {
        return Vec::new();
    }
    let mut all = vec![Configuration {
        controller: TCP,
        transfer: Transfer::Tcp,
        ..*base
    }];
    // The server sends the blocks: the client's controller changes nothing.
    all.extend(traffic.is_blockwise().then_some(Configuration {
        transfer: Transfer::QBlock,
        ..*base
    }));
    all
}

/// The largest block that fits a packet; in a mesh the largest that fits a frame.
pub(super) fn largest_block(link: &Link) -> u16 {
    let fits = |block: &&u16| {
        if link.is_mesh {
            // A frame of 802.15.4 has 127 bytes; a block of 128 would need fragments of 6LoWPAN.
            **block <= 64
        } else {
            u32::from(**block) + AROUND_A_BLOCK <= link.mtu
        }
    };
    // SZX 0, the smallest block (RFC 7959 2.2).
    BLOCKS.iter().find(fits).copied().unwrap_or(16)
}

/// A configuration with each other value of one setting.
pub(super) fn variations(base: Configuration, traffic: &Traffic) -> Vec<Configuration> {
    let mut all = Vec::new();
    if traffic.is_blockwise() && traffic.kind != TrafficKind::Own {
        let smaller = BLOCKS.iter().filter(|block| **block < base.block).take(2);
        all.extend(smaller.map(|&block| Configuration { block, ..base }));
    }
    all.extend(Timers::OTHERS.map(|timers| Configuration { timers, ..base }));
    all
}

/// Default CoAP and the best controllers: at most `most`, or half of them (at most half of
/// [`TUNED_MAX`]) where runs are long.
pub(super) fn tuned(by_cost: &[(&'static str, f64)], seeds: u64, most: usize) -> Vec<&'static str> {
    let most = if seeds < SEEDS_MANY {
        most.min(TUNED_MAX).div_ceil(2)
    } else {
        most
    };
    let best = by_cost.iter().map(|(name, _)| *name);
    let best = best.filter(|name| *name != "default").take(most);
    std::iter::once("default").chain(best).collect()
}

/// The timers under which default CoAP costs least, if it gains by them.
pub(super) fn best_timers(known: &[Configuration], costs: &[f64]) -> Option<Timers> {
    let plain = known.first()?;
    let pairs = known.iter().zip(costs).filter(|(one, _)| {
        let timers = one.timers;
        timers != plain.timers && **one == Configuration { timers, ..*plain }
    });
    let (best, cost) = pairs.min_by(|a, b| a.1.total_cmp(b.1))?;
    (*cost < 1.0 - GAIN_LEAST).then_some(best.timers)
}

/// Places of default CoAP, the first, and of the configurations that run with more seeds: the cheapest, a few
/// with the same settings.
pub(super) fn narrowed(known: &[Configuration], costs: &[f64]) -> Vec<usize> {
    let by_cost: Vec<usize> = order(costs)
        .into_iter()
        .filter(|place| *place != 0)
        .collect();
    let alike = |a: &Configuration, b: &Configuration| a.block == b.block && a.timers == b.timers;
    let mut places: Vec<usize> = Vec::new();
    for place in &by_cost {
        let same = places
            .iter()
            .filter(|other| alike(&known[**other], &known[*place]));
        if same.count() < NARROWED_ALIKE_MAX {
            places.push(*place);
        }
    }
    // Where settings are few, the rest are the next in cost.
    let rest: Vec<usize> = by_cost
        .into_iter()
        .filter(|place| !places.contains(place))
        .collect();
    places.truncate(NARROWED_MAX);
    places.extend(rest);
    places.truncate(NARROWED_MAX);
    // Preferred at about the same cost, so both stay although others are cheaper here: `carob` with nothing
    // set, and the reviewed controllers.
    let plain = known[0].with_carob();
    let plain = known.iter().position(|one| *one == plain);
    places.extend(plain.filter(|plain| !places.contains(plain)));
    for name in REVIEWED {
        let cheapest = order(costs)
            .into_iter()
            .find(|place| known[*place].controller == name);
        places.extend(cheapest.filter(|place| !places.contains(place)));
    }
    places.insert(0, 0);
    places
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
    let timers = best(&|one| one.timers != base.timers).map_or(base.timers, |one| one.timers);
    let without_timers = Configuration { block, ..base };
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

/// Untried configurations that differ from the cheapest in one setting, or only in the controller: a
/// setting can gain beside others that loses alone.
pub(super) fn refinements(
    known: &[Configuration],
    costs: &[f64],
    controllers: &[&'static str],
    traffic: &Traffic,
) -> Vec<Configuration> {
    let Some(place) = order(costs).into_iter().next() else {
        return Vec::new();
    };
    let cheapest = known[place];
    let mut all = variations(cheapest, traffic);
    let of = |controller: &&'static str| Configuration {
        controller,
        ..cheapest
    };
    all.extend(controllers.iter().map(of));
    all.retain(|one| !known.contains(one));
    all
}

/// Default CoAP, `carob` with nothing set, the cheapest of each reviewed controller, then the configurations that
/// cost least: at most two of one controller, and `most` in all. Those that are
/// out on a link nearby come last, apart from the cheapest of all, which the answer names.
pub(super) fn finalists(
    known: &[Configuration],
    costs: &[f64],
    is_out: &[bool],
    base: &Configuration,
    most: usize,
) -> Vec<Configuration> {
    let by_cost = order(costs);
    let (out, mut fit): (Vec<usize>, Vec<usize>) =
        by_cost.iter().copied().partition(|place| is_out[*place]);
    fit.extend(out);
    let mut chosen: Vec<Configuration> = vec![*base];
    let plain = base.with_carob();
    chosen.extend(known.contains(&plain).then_some(plain));
    // Timers that change nothing are not recommended.
    let simplest = |place: usize| {
        let timers = base.timers;
        let plain = Configuration {
            timers,
            ..known[place]
        };
        let same = known.iter().position(|one| *one == plain);
        same.filter(|same| !is_out[*same] && costs[*same] <= costs[place] * (1.0 + GAIN_LEAST))
            .unwrap_or(place)
    };
    for name in REVIEWED {
        let mut own = fit.iter().filter(|place| !is_out[**place]);
        let cheapest = own.find(|place| known[**place].controller == name);
        let one = cheapest.map(|place| known[simplest(*place)]);
        chosen.extend(one.filter(|one| !chosen.contains(one)));
    }
    for place in fit {
        let one = known[simplest(place)];
        let of_same = chosen.iter().filter(|c| c.controller == one.controller);
        if chosen.len() <= most && !chosen.contains(&one) && of_same.count() < 2 {
            chosen.push(one);
        }
    }
    let cheapest = by_cost.first().map(|place| known[*place]);
    chosen.extend(cheapest.filter(|one| !chosen.contains(one)));
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::controllers;

    #[test]
    fn carob_with_nothing_set_stays_among_the_narrowed() {
        let base = Configuration::default_coap(1_024);
        let controllers = controllers();
        let others = controllers.iter().filter(|name| **name != "carob");
        let known: Vec<Configuration> = others
            .chain(["carob"].iter())
            .map(|&controller| Configuration { controller, ..base })
            .collect();
        // The dearest of all.
        let costs: Vec<f64> = (0..known.len()).map(|place| 1.0 + place as f64).collect();
        let kept = narrowed(&known, &costs);
        assert_eq!(known[kept[0]].controller, "default");
        assert!(kept.iter().any(|place| known[*place].controller == "carob"));
        assert!(kept.len() <= NARROWED_MAX + 2 + REVIEWED.len(), "{kept:?}");
        for name in REVIEWED {
            assert!(kept.iter().any(|place| known[*place].controller == name));
        }
    }

    #[test]
    fn a_peer_helps_bodies_by_q_block_and_everything_by_tcp() {
        let base = Configuration::default_coap(1_024);
        let needs = |link: &str, traffic: &str| -> Vec<&str> {
            let link = Link::built_in(link).expect("built in");
            let traffic = Traffic::named(traffic).expect("known");
            let all = with_peer(&base, &link, &traffic);
            all.iter().filter_map(|one| one.transfer.needs()).collect()
        };
        assert_eq!(needs("umts", "firmware"), ["CoAP over TCP", "Q-Block"]);
        assert_eq!(needs("umts", "observe"), ["CoAP over TCP"]);
        assert!(needs("thread", "firmware").is_empty());
    }

    #[test]
    fn what_differs_in_one_thing_from_the_cheapest_is_tried_once() {
        let base = Configuration::default_coap(1_024);
        let traffic = Traffic::named("firmware").expect("it is in the table");
        let cheapest = Configuration {
            controller: "cocoa-plus",
            timers: Timers::NineSeconds,
            ..base
        };
        let known = [base, cheapest];
        let more = refinements(&known, &[1.0, 0.5], &["default", "cocoa-plus"], &traffic);
        let timers = Timers::NineSeconds;
        let of_default = Configuration { timers, ..base };
        assert!(more.contains(&of_default));
        let differs = |one: &Configuration| {
            usize::from(one.controller != cheapest.controller) + one.changes(&cheapest)
        };
        assert!(more.iter().all(|one| differs(one) == 1), "{more:?}");
        let again = |place: usize| more[..place].contains(&more[place]);
        assert!(!(0..more.len()).any(again));
    }
}
