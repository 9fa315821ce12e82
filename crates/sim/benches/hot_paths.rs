//! Nanoseconds per operation of what every simulated packet pays: `cargo bench -p carob-sim`.
//!
//! Prints the median of several rounds. No numbers are asserted; machines differ.

use std::hint::black_box;
use std::time::Instant as Clock;

use carob_cc::time::{Duration, Instant};
use carob_sim::link::{Direction, DirectionSpec, LossProfile, profile};
use carob_sim::queue::EventQueue;
use carob_sim::random::Stream;
use carob_sim::trace::{SimEvent, Trace};

const OPERATIONS: u32 = 1_000_000;
const ROUNDS: usize = 9;

fn measure(name: &str, mut round: impl FnMut()) {
    let mut nanos: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            #[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
            let start = Clock::now();
            round();
            start.elapsed().as_nanos() as f64 / f64::from(OPERATIONS)
        })
        .collect();
    nanos.sort_by(f64::total_cmp);
    let (median, best) = (nanos[ROUNDS / 2], nanos[0]);
    #[expect(clippy::print_stdout, reason = "a benchmark prints its figures")]
    {
        println!("{name:<44} {median:>7.1} ns  (best {best:.1})");
    }
}

fn main() {
    for pending in [1, 4, 16, 64, 1_024] {
        measure(
            &format!("queue push + pop, {pending} pending, 16 B events"),
            || {
                let mut queue = EventQueue::new();
                let mut stream = Stream::new(1, "bench");
                let high = Duration::from_secs(1);
                for k in 0..pending {
                    queue.push(
                        Instant::ZERO + stream.uniform(Duration::ZERO, high),
                        (k, 0_u64),
                    );
                }
                for k in 0..OPERATIONS {
                    let (now, event) = queue.pop().expect("never empty");
                    black_box(event);
                    queue.push(now + stream.uniform(Duration::ZERO, high), (k, 1));
                }
            },
        );
    }
    for name in ["none", "low", "high"] {
        let loss = profile(name)
            .expect("a profile")
            .per_packet(LossProfile::BURST_MILLIPACKETS);
        let spec = DirectionSpec {
            loss,
            ..DirectionSpec::new(30_000, 2_500)
        };
        measure(&format!("link offer, {name} loss"), || {
            let mut line = Direction::new(&spec, 1, "bench");
            for k in 0..u64::from(OPERATIONS) {
                black_box(line.offer(Instant::from_micros(k * 60_000), 296));
            }
        });
    }
    let spec = DirectionSpec {
        loss: profile("high")
            .expect("a profile")
            .per_time(Duration::from_millis(100), false),
        ..DirectionSpec::new(30_000, 2_500)
    };
    measure("link offer, high loss by time", || {
        let mut line = Direction::new(&spec, 1, "bench");
        for k in 0..u64::from(OPERATIONS) {
            black_box(line.offer(Instant::from_micros(k * 60_000), 296));
        }
    });
    measure("trace event, hash only", || {
        let mut trace = Trace::hashing();
        for k in 0..OPERATIONS {
            let what = SimEvent::Sent {
                item: k,
                attempt: 0,
                bytes: 296,
            };
            trace.add(Instant::from_micros(u64::from(k)), 1, what);
        }
        black_box(trace.hash());
    });
}
