//! Cost of a step of each controller: `cargo bench -p carob-cc --bench step`.
//!
//! A step is one call of the engine. Of eight exchanges seven are answered at once (first timer,
//! sent, answered) and one after a retransmission (and next timer, sent); round trips vary from
//! 100 to 900 ms, pauses up to 30 s. One line a controller: its name and nanoseconds a step, the
//! median of several rounds.
#![allow(clippy::print_stdout, reason = "its output is its result")]
#![allow(clippy::disallowed_methods, reason = "it measures real time")]

use std::hint::black_box;
use std::time::Instant as Clock;

use carob_cc::contract::Lcg;
use carob_cc::controller::{Controller, Timer};
use carob_cc::evidence::{Answered, Expired, Sent, Start, Transmission};
use carob_cc::random::Random;
use carob_cc::registry::{Entry, entries};
use carob_cc::time::{Duration, Instant};
use carob_cc::{AnyController, TransmissionParameters};

const EXCHANGES: u32 = 200_000;
const ROUNDS: usize = 9;
/// Steps of eight exchanges.
const STEPS: u32 = 7 * 3 + 5;

struct Peer {
    controller: AnyController,
    parameters: TransmissionParameters,
    random: Lcg,
    now: Instant,
}

impl Peer {
    fn send(&mut self, copies: u8) -> Transmission {
        let sent = Sent::new(self.now, &self.parameters, 60).with_retransmissions(copies);
        let state = self.controller.on_sent(&sent, &mut self.random);
        Transmission {
            at: self.now,
            state,
        }
    }

    fn exchange(&mut self, lose: bool) {
        let pause = u64::from(self.random.next_u32() >> 7);
        self.now += Duration::from_micros(pause);
        let start = Start::new(self.now, &self.parameters);
        let mut timer: Timer = self.controller.first_timeout(&start, &mut self.random);
        let mut copies = [self.send(0); 2];
        if lose {
            self.now += timer.timeout;
            let (state, timeout) = (timer.state, timer.timeout);
            let expired = Expired::new(self.now, &self.parameters, state, 0, timeout);
            timer = self.controller.next_timeout(&expired, &mut self.random);
            copies[1] = self.send(1);
        }
        self.now += Duration::from_micros(100_000 + u64::from(self.random.next_u32() % 800_000));
        let copies = &copies[..=usize::from(lose)];
        let (state, timeout) = (timer.state, timer.timeout);
        let answered = Answered::new(self.now, &self.parameters, state, copies, timeout);
        self.controller.on_answered(black_box(&answered));
    }
}

fn round(entry: &Entry) -> f64 {
    let mut peer = Peer {
        controller: entry.build(),
        parameters: entry.suggested.apply(TransmissionParameters::DEFAULT),
        random: Lcg(1),
        now: Instant::ZERO,
    };
    let start = Clock::now();
    for n in 0..EXCHANGES {
        peer.exchange(n % 8 == 7);
    }
    black_box(&peer.controller);
    start.elapsed().as_secs_f64() * 1e9 / f64::from(EXCHANGES / 8 * STEPS)
}

fn main() {
    for entry in entries() {
        let mut rounds: Vec<f64> = (0..ROUNDS).map(|_| round(&entry)).collect();
        rounds.sort_by(f64::total_cmp);
        println!("{} {:.1} ns", entry.name, rounds[ROUNDS / 2]);
    }
}
