//! Frames of a wireless network per second of real time: `cargo bench -p carob-sim --bench radio`.
//!
//! A grid of 36 nodes whose neighbours exchange frames of 96 bytes, without anything above the
//! MAC. Prints the best of several rounds. No numbers are asserted; machines differ.

use std::time::Instant as Clock;

use carob_cc::random::Random as _;
use carob_cc::time::{Duration, Instant};
use carob_mesh::Node;
use carob_mesh::radio::{Event, Ground, Radio};
use carob_mesh::spec::{Csma, Delivery, MacSpec, RadioSpec};
use carob_sim_core::queue::EventQueue;
use carob_sim_core::random::{Probability, Stream};

const SIDE: i32 = 6;
const NODES: usize = (SIDE * SIDE) as usize;
const BYTES: u16 = 96;
const SECONDS: u64 = 2_000;
const ROUNDS: usize = 7;

#[derive(Clone, Copy)]
enum Next {
    Radio(Event),
    Message(Node),
}

/// Counters of a run.
#[derive(Clone, Copy, Default)]
struct Done {
    events: u64,
    frames: u64,
    acknowledgements: u64,
}

/// Each node hands down a frame every `mean` on average.
fn run(radio: &RadioSpec, mac: &MacSpec, mean: Duration) -> Done {
    let positions: Vec<_> = (0..SIDE * SIDE)
        .map(|k| (k % SIDE * 10_000, k / SIDE * 10_000, 0))
        .collect();
    let ground = Ground {
        positions: &positions,
        regions: &[],
        table: None,
    };
    let mut medium = Radio::new(&ground, radio, mac, 1);
    let mut queue = EventQueue::new();
    let mut stream = Stream::new(1, "bench");
    let mut up = Vec::new();
    for node in 0..NODES {
        let first = Instant::ZERO + stream.exponential(mean);
        queue.push(first, Next::Message(node as Node));
    }
    let mut done = Done::default();
    let end = Instant::ZERO + Duration::from_secs(SECONDS);
    while let Some((now, next)) = queue.pop_until(end) {
        match next {
            Next::Radio(event) => {
                done.events += 1;
                let mut schedule = |at, event| queue.push(at, Next::Radio(event));
                medium.handle(now, event, &mut schedule, &mut up);
                up.clear();
            }
            Next::Message(node) => {
                let near = medium.links().receivers(node);
                let pick = (u64::from(stream.next_u32()) * near.len() as u64) >> 32;
                let to = Some(near[pick as usize].to);
                let mut schedule = |at, event| queue.push(at, Next::Radio(event));
                // A full queue is part of the load.
                let _ = medium.send(now, node, to, BYTES, 0_u32, &mut schedule);
                queue.push(now + stream.exponential(mean), Next::Message(node));
            }
        }
    }
    for node in 0..NODES as Node {
        done.frames += medium.counters(node).transmissions;
        done.acknowledgements += medium.counters(node).acknowledgements;
    }
    done
}

fn main() {
    let lossy = RadioSpec {
        delivery: Delivery::Drawn(vec![
            (Probability::of(75, 100), Probability::NEVER),
            (Probability::ALWAYS, Probability::ALWAYS),
        ]),
        ..RadioSpec::default()
    };
    for (name, radio, csma, mean) in [
        ("contiki27", RadioSpec::default(), Csma::Contiki27, 600),
        (
            "contiki27, saturated",
            RadioSpec::default(),
            Csma::Contiki27,
            20,
        ),
        ("contiki27, lossy", lossy.clone(), Csma::Contiki27, 600),
        ("ieee802154", RadioSpec::default(), Csma::Ieee802154, 600),
        (
            "ieee802154, saturated",
            RadioSpec::default(),
            Csma::Ieee802154,
            20,
        ),
        ("ieee802154, lossy", lossy, Csma::Ieee802154, 600),
    ] {
        let mac = MacSpec {
            csma,
            ..MacSpec::default()
        };
        let mut best = f64::MAX;
        let mut done = Done::default();
        for _ in 0..ROUNDS {
            #[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
            let start = Clock::now();
            done = run(&radio, &mac, Duration::from_millis(mean));
            best = best.min(start.elapsed().as_secs_f64());
        }
        let millions = |count: u64| count as f64 / best / 1e6;
        #[expect(clippy::print_stdout, reason = "a benchmark prints its figures")]
        {
            println!(
                "{name:<22} {:>6.1} frames/s simulated; of real time {:>5.2} M frames, {:>5.2} M with \
                 acknowledgements, {:>5.1} M events a second",
                done.frames as f64 / SECONDS as f64,
                millions(done.frames),
                millions(done.frames + done.acknowledgements),
                millions(done.events),
            );
        }
    }
}
