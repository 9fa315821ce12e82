//! The radio model on networks that analytical models and ns-3's lr-wpan can also run: saturated stars, with and
//! without hidden nodes, and chains.
//!
//! Prints a line per network: `kind,nodes,bytes,rate,seconds,measured...`, for stars with the value of the analytical
//! model. `cargo xtask long radio-validation` runs it and `tools/lrwpan/lrwpan.cc`, and writes
//! `crates/mesh/examples/radio_validation/README.md`.

#![allow(clippy::print_stdout, reason = "its output is its result")]

mod model;
mod network;

use carob_cc::time::Duration;

use network::{Network, Totals};

/// Simulated time of stars; longer for stars with hidden nodes and for chains.
const STAR_TIME: Duration = Duration::from_secs(40);
/// Ten hidden nodes deliver four frames per second, too few in 40 s for a precision of 5 %.
const HIDDEN_TIME: Duration = Duration::from_secs(400);
const CHAIN_TIME: Duration = Duration::from_secs(400);
/// Runs of each network.
const SEEDS: std::ops::RangeInclusive<u64> = 1..=5;
/// Number of nodes of the stars.
const STARS: [u16; 8] = [2, 3, 5, 8, 10, 15, 20, 30];
/// Number of nodes of the stars with hidden nodes.
const HIDDEN: [u16; 4] = [2, 3, 5, 10];
/// Frame sizes in bytes with FCS. Frames of hidden nodes have to be shorter than the pauses between frames.
const STAR_BYTES: [u16; 2] = [50, 100];
const HIDDEN_BYTES: u16 = 20;
const CHAIN_BYTES: u16 = 100;
/// Messages per second from the far end of a chain.
const RATES: [f64; 3] = [1.0, 4.0, 10.0];

fn main() {
    println!(
        "kind,nodes,bytes,rate,seconds,delivered_per_s,delivery,delay_ms,transmissions_per_frame,model_per_s"
    );
    for bytes in STAR_BYTES {
        for nodes in STARS {
            let totals = sum(|seed| Network::star(nodes, bytes, false, seed).run(STAR_TIME));
            let model = model::star(nodes.into(), bytes);
            print("star", nodes, bytes, 0.0, STAR_TIME, &totals, Some(model));
        }
    }
    for nodes in HIDDEN {
        let totals = sum(|seed| Network::star(nodes, HIDDEN_BYTES, true, seed).run(HIDDEN_TIME));
        let model = model::hidden(nodes.into(), HIDDEN_BYTES);
        print(
            "hidden",
            nodes,
            HIDDEN_BYTES,
            0.0,
            HIDDEN_TIME,
            &totals,
            Some(model),
        );
    }
    for hops in 2..=6 {
        for rate in RATES {
            let totals = sum(|seed| Network::chain(hops, CHAIN_BYTES, rate, seed).run(CHAIN_TIME));
            print("chain", hops, CHAIN_BYTES, rate, CHAIN_TIME, &totals, None);
        }
    }
}

fn sum(run: impl Fn(u64) -> Totals) -> Totals {
    SEEDS.map(run).fold(Totals::default(), Totals::plus)
}

fn print(
    kind: &str,
    nodes: u16,
    bytes: u16,
    rate: f64,
    time: Duration,
    totals: &Totals,
    model: Option<f64>,
) {
    let seconds = time.as_micros() as f64 / 1e6;
    let delivered = totals.delivered as f64;
    let model = model.map_or(String::new(), |model| format!("{model:.3}"));
    println!(
        "{kind},{nodes},{bytes},{rate},{seconds},{:.3},{:.5},{:.4},{:.5},{model}",
        delivered / seconds / SEEDS.count() as f64,
        delivered / totals.offered.max(1) as f64,
        totals.delay.as_micros() as f64 / 1e3 / delivered.max(1.0),
        totals.transmissions as f64 / totals.frames.max(1) as f64,
    );
}
