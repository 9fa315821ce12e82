//! Recommendations judged with fresh seeds: their safety over all ranges, the same answer for other seeds, and the
//! recommendation for a link model over a measured trace of such a link.

use std::path::Path;

use carob_sim::random::Stream;
use serde::{Deserialize, Serialize};

use super::configuration::Configuration;
use super::gate::{exclusion, exclusion_here, shares_queue};
use super::hindsight::{Case, FRESH_SEEDS, between, lossless, rounded};
use super::judge::{Component, Cost};
use super::link::Link;
use super::neighbourhood::neighbourhood;
use super::runs::{Stage, costs_of, idle, make, resampled, stage};
use super::traffic::{TRAFFIC, Traffic};
use super::{CompareError, Progress, Question, WrittenLink};

/// Links over all ranges.
pub const DRAWN: usize = 100;
/// The set of [`cases`](super::hindsight::cases) whose answers are repeated, and the seed of the links over all ranges;
/// nothing was chosen by either.
pub const SET_OF_PROOF: u64 = 41;
/// Exchanges of the runs that judge a recommendation.
const EXCHANGES: u64 = 600_000;

/// Links over the ranges that the documentation states, each quantity drawn independently: rates 300 bit/s to 100 Mbit/s and
/// round trips 0.2 ms to 10 s on logarithmic scales, losses 0 to 30 %, every second link's in runs, 1 to 500 devices,
/// four kinds of traffic. Downloads are smaller in crowds: 1.6 MB together, at least 8 kB.
pub fn drawn() -> Vec<Case> {
    let mut stream = Stream::new(SET_OF_PROOF, "compare/drawn");
    // 53 bits, the mantissa of a double, so that each quotient is exact and below 1.
    let mut draw = || (stream.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
    let mut one = |k: usize| {
        let down_bps = rounded(between(300.0, 1e8, draw()));
        let up_bps = rounded(between(0.25, 2.0, draw()) * down_bps as f64);
        let rtt_us = rounded(between(200.0, 1e7, draw()));
        let link = Link {
            up_bps: up_bps.clamp(300, 100_000_000),
            jitter_us: rounded(rtt_us as f64 / 4.0 * draw()),
            loss_ppm: rounded(300_000.0 * draw()) as u32,
            loss_burst_milli: 1_000 + (k as u32 % 2) * rounded(5_000.0 * draw()) as u32,
            buffer_bytes: rounded(between(3e3, 128e3, draw())),
            ..lossless(format!("drawn {}", k + 1), down_bps, rtt_us)
        };
        let (name, ..) = TRAFFIC[k / 2 % TRAFFIC.len()];
        let mut traffic = Traffic::named(name).expect("it is in the table");
        traffic.clients = between(1.0, 500.0, draw()).round() as u32;
        traffic.size = (1_638_400 / traffic.clients).clamp(8_192, traffic.size);
        Case { link, traffic }
    };
    (0..DRAWN).map(&mut one).collect()
}

/// A recommendation judged beside default CoAP with fresh seeds, on its link and on all links nearby.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Checked {
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
    /// Cost beside default CoAP with fresh seeds: value, and ends of the 95 % interval.
    pub cost: [f64; 3],
    /// Limits that it exceeds, here and nearby.
    pub exceeded: Vec<String>,
    /// Fresh seeds on the link.
    pub seeds: u64,
}

/// Asks for a recommendation, and judges its safety with fresh seeds.
///
/// # Errors
///
/// A link or a traffic that cannot be simulated.
pub fn check(case: &Case, progress: &(dyn Fn(Progress) + Sync)) -> Result<Checked, CompareError> {
    let question = Question::new(case.link.clone(), case.traffic.clone());
    let recommended = question.answer(progress)?.recommended().configuration;
    let judged = [question.default_coap(), recommended];
    let here = stage(&question, FRESH_SEEDS, EXCHANGES, 2, 10..160);
    let values = resampled(&make(&here, &judged, progress)?);
    let costs = costs_of(&values, &question.weights);
    let is_worse = Cost::of(&costs[1]).low > 1.0;
    let mut exceeded: Vec<String> = is_worse
        .then(|| format!("costs {:.3}", costs[1][0]))
        .into_iter()
        .collect();
    exceeded.extend(recommended.exclusion().map(str::to_owned));
    let shares = shares_queue(&recommended, &case.link, &case.traffic);
    let found = exclusion_here(&values[1], &values[0], shares);
    exceeded.extend(found.map(|found| found.to_string()));
    exceeded.extend(unsafe_at(&question, &recommended, progress)?);
    let cost = Cost::of(&costs[1]);
    Ok(Checked {
        link: case.link.about(),
        traffic: case.traffic.name().to_owned(),
        clients: case.traffic.clients,
        recommended: named(&recommended, &case.traffic),
        is_plain: is_plain(&question, &recommended),
        cost: [cost.value, cost.low, cost.high],
        exceeded,
        seeds: here.seeds.len() as u64,
    })
}

/// Returns true for configurations with nothing to set: default CoAP, and `carob` alone.
pub(super) fn is_plain(question: &Question, one: &Configuration) -> bool {
    let base = question.default_coap();
    [base, base.with_carob()].contains(one)
}

/// Limits that a configuration exceeds on links nearby with fresh seeds.
pub(super) fn unsafe_at(
    question: &Question,
    one: &Configuration,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<Vec<String>, CompareError> {
    let base = question.default_coap();
    let mut found = Vec::new();
    if *one == base {
        return Ok(found);
    }
    let weights = question.weights.without(Component::Harm);
    let near = neighbourhood(&question.link, &question.traffic);
    for one_near in near.iter().filter(|near| near.is_required) {
        let asked = Question::new(one_near.link.clone(), one_near.traffic.clone());
        let seeds = stage(&asked, FRESH_SEEDS, EXCHANGES, 2 * near.len(), 10..640).seeds;
        let there = Stage {
            seeds,
            ..idle(question, Some(one_near))
        };
        let values = resampled(&make(&there, &[base, *one], progress)?);
        let costs = costs_of(&values, &weights);
        let exceeded = exclusion(&costs[1], &values[1], &values[0]);
        found.extend(exceeded.map(|exceeded| format!("at {}, {exceeded}", one_near.at)));
    }
    Ok(found)
}

/// Share of other first seeds with which a comparison gives the same recommendation as with the first.
///
/// # Errors
///
/// A link or a traffic that cannot be simulated.
pub fn agreement(
    case: &Case,
    others: u64,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<(String, Vec<String>), CompareError> {
    let of = |first_seed| {
        let question = Question::new(case.link.clone(), case.traffic.clone());
        let answer = question.seeded(first_seed).answer(progress)?;
        Ok(named(&answer.recommended().configuration, &case.traffic))
    };
    let rest = (1..=others).map(|k| of(100_000 * k + 1));
    Ok((of(1)?, rest.collect::<Result<_, CompareError>>()?))
}

pub(super) fn named(one: &Configuration, traffic: &Traffic) -> String {
    match one.settings(traffic.is_blockwise()).as_str() {
        "-" => one.controller.to_owned(),
        settings => format!("{}, {settings}", one.controller),
    }
}

/// Traces of measured links in `crates/lab/links/measured`, and the built-in link nearest to each.
pub const TRACES: [(&str, &str); 7] = [
    ("nb-iot-telia-ecl0", "nb-iot"),
    ("nb-iot-telenor-ecl1", "nb-iot"),
    ("nb-iot-telia-ecl2", "nb-iot-deep"),
    ("nb-iot-telenor-ecl2", "nb-iot-deep"),
    ("starlink-us", "starlink"),
    ("hsdpa-oslo-train", "3g"),
    ("hsdpa-oslo-tram", "3g"),
];

/// The recommendation for a built-in link over a measured trace of such a link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OverTrace {
    /// The trace.
    pub trace: String,
    /// The built-in link.
    pub nearest: String,
    /// Name of the traffic.
    pub traffic: String,
    /// The recommendation for the built-in link.
    pub recommended: String,
    /// The recommendation for the trace.
    pub best: String,
    /// Cost of the first beside the second over the trace with fresh seeds: value, and ends of the 95 % interval.
    pub regret: [f64; 3],
    /// Fresh seeds.
    pub seeds: u64,
}

/// The built-in link with the delays, losses and rates of a trace instead of its own, and without its outages and
/// connection set-up, which the trace has.
///
/// # Errors
///
/// Files that cannot be read.
pub fn traced(trace: &str, nearest: &str, folder: &Path) -> Result<Link, CompareError> {
    let mut written = WrittenLink::built_in(nearest).unwrap_or_default();
    written.retain(|key| !key.ends_with("changes") && key != "idle_setup" && key != "idle_after");
    Link::read(&format!("trace {trace}"), &written.traced(trace, folder))
}

/// Judges the recommendation for a built-in link over a trace.
///
/// # Errors
///
/// A link that cannot be read, or simulated.
pub fn over_trace(
    (trace, nearest): (&str, &str),
    traffic: &Traffic,
    folder: &Path,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<OverTrace, CompareError> {
    let built_in = Link::built_in(nearest).unwrap_or(traced(trace, nearest, folder)?);
    let for_model = Question::new(built_in, traffic.clone()).answer(progress)?;
    let question = Question::new(traced(trace, nearest, folder)?, traffic.clone());
    let for_trace = question.answer(progress)?;
    let recommended = for_model.recommended().configuration;
    let best = for_trace.recommended().configuration;
    let judged = [question.default_coap(), recommended, best];
    let fresh = stage(&question, FRESH_SEEDS, EXCHANGES, judged.len(), 10..160);
    let values = resampled(&make(&fresh, &judged, progress)?);
    let costs = costs_of(&values, &question.weights);
    let pairs = costs[1].iter().zip(&costs[2]);
    let regret = Cost::of(&pairs.map(|(a, b)| a / b).collect::<Vec<f64>>());
    Ok(OverTrace {
        trace: trace.to_owned(),
        nearest: nearest.to_owned(),
        traffic: traffic.name().to_owned(),
        recommended: named(&recommended, traffic),
        best: named(&best, traffic),
        regret: [regret.value, regret.low, regret.high],
        seeds: fresh.seeds.len() as u64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drawn_links_stay_the_same_and_span_the_ranges() {
        let all = drawn();
        let line = |case: &Case| format!("{}; {}\n", case.link.about(), case.traffic.about());
        let lines: String = all.iter().map(line).collect();
        assert_eq!(
            carob_sim::hash::fnv1a(lines.as_bytes()),
            13_659_570_936_504_135_555,
            "{lines}"
        );
        let within = |of: &dyn Fn(&Case) -> u64, low, high| {
            let values = || all.iter().map(of);
            let (least, most) = (values().min().unwrap_or(0), values().max().unwrap_or(0));
            assert!(least >= low, "{least}");
            assert!(most <= high && most > high / 3, "{most}");
        };
        within(&|one| one.link.down_bps, 300, 100_000_000);
        within(&|one| one.link.rtt_us, 200, 10_000_000);
        within(&|one| u64::from(one.link.loss_ppm), 0, 300_000);
        within(&|one| u64::from(one.traffic.clients), 1, 500);
        let bursty = all.iter().filter(|one| one.link.loss_burst_milli > 1_000);
        assert!((45..=50).contains(&bursty.count()));
    }

    #[test]
    fn a_trace_takes_the_place_of_a_models_numbers() {
        let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/links/measured"));
        for (trace, nearest) in TRACES {
            let link = traced(trace, nearest, folder).expect("it is shipped");
            assert!(!link.traces.is_empty(), "{trace}");
            assert!(!link.about().contains("idle setup"), "{}", link.about());
        }
        assert!(
            Link::built_in("nb-iot")
                .expect("built in")
                .about()
                .contains("idle setup")
        );
    }

    #[test]
    fn nightly_a_recommendation_is_judged_with_fresh_seeds() {
        let case = Case {
            link: Link::built_in("lte-m").expect("built in"),
            traffic: Traffic::named("command").expect("known"),
        };
        let found = check(&case, &|_| {}).expect("possible");
        assert!(found.exceeded.is_empty() && found.seeds >= 10, "{found:?}");
        // A configuration that waits 9 s for each loss.
        let question = Question::new(case.link.clone(), case.traffic.clone());
        let slow = Configuration {
            timers: super::super::Timers::NineSeconds,
            ..question.default_coap()
        };
        let exceeded = unsafe_at(&question, &slow, &|_| {}).expect("possible");
        assert!(!exceeded.is_empty());
    }
}
