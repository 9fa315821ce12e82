//! Exhaustive scripts: every order of events up to a depth, from eight states, and the invariants after each event.
#![expect(clippy::disallowed_types, reason = "of the set only the size is used")]

extern crate std;

use std::collections::HashSet;
use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hasher as _};
use std::vec::Vec;

use super::tests::{at, carob, rounds, transfer};
use super::*;
use crate::evidence::Transmission;
use crate::random::Fixed;

const SEND: u8 = 0;
const EVENTS: u8 = 10;
/// Messages outstanding at most.
const MESSAGES: usize = 3;
const ANSWER_BYTES: u32 = 300;
const MS: Duration = Duration::from_millis(1);
const MINUTE: Duration = Duration::from_secs(60);

#[derive(Clone, Debug)]
struct Message {
    timer: Timer,
    copies: Vec<Transmission>,
    repairs: u8,
    timeouts: u8,
}

impl Message {
    fn last(&self) -> Transmission {
        *self.copies.last().expect("it was sent")
    }
}

/// A controller and the engine's part of its state.
#[derive(Clone, Debug)]
struct World {
    carob: Carob,
    parameters: TransmissionParameters,
    now: Instant,
    heard: Instant,
    messages: Vec<Message>,
    /// The last exchange given up: its first transmission.
    given_up: Option<Instant>,
    /// Timeouts while the window was in use, since the last certain answer.
    expired: u32,
}

impl World {
    fn new(carob: Carob, now: Instant) -> Self {
        Self {
            carob,
            parameters: Carob::PROFILES[0]
                .suggested
                .apply(TransmissionParameters::DEFAULT),
            now,
            heard: now,
            messages: Vec::new(),
            given_up: None,
            expired: 0,
        }
    }

    fn room(&self) -> u16 {
        self.carob.window(self.now, &self.parameters).exchanges
    }

    fn sampled(&self) -> bool {
        self.carob.path.srtt().is_some()
    }

    /// One of the events; false if it cannot happen now.
    fn step(&mut self, event: u8) -> bool {
        let happened = match event {
            SEND => self.send(),
            1 => self.answer(0, 100, true),
            2 => self.answer(0, 1_900, true),
            3 => self.answer(self.messages.len().wrapping_sub(1), 100, true),
            4 => self.answer(0, 100, false),
            5 => self.expire(),
            6 => self.repair(),
            7 => self.pause(5),
            8 => self.pause(70),
            9 => self.late() || self.slow_down(),
            _ => false,
        };
        if happened {
            self.check();
        }
        happened
    }

    fn send(&mut self) -> bool {
        let running = self.messages.len();
        if running >= MESSAGES || (running > 0 && running >= usize::from(self.room())) {
            return false;
        }
        let candidate = SendCandidate::new(self.now, &self.parameters, 30);
        let departs = self.carob.earliest_departure_time(&candidate);
        let longest = micros(self.carob.path.srtt().unwrap_or(0)).max(MINUTE);
        assert!(
            departs.since(self.now) <= longest,
            "paced for {:?}",
            departs.since(self.now)
        );
        self.now = departs;
        let idle = self.carob.transfer.idle(self.now);
        let running = u16::try_from(running).unwrap();
        let start = Start::new(self.now, &self.parameters).with_running(running);
        let mut timer = self.carob.first_timeout(&start, &mut Fixed::high());
        let used = self.carob.transfer.is_windowed();
        assert!(
            timer.timeout <= MINUTE && !timer.timeout.is_zero(),
            "{timer:?}"
        );
        if !self.sampled() {
            assert!(timer.timeout >= self.parameters.ack_timeout, "{timer:?}");
        } else if !used && running == 0 && idle > MS.times(4_000) {
            assert!(timer.timeout <= MS.times(3_000), "{timer:?} after idle");
        }
        timer.timeout = self.parameters.limit_timer(timer.timeout, None);
        self.messages.push(Message {
            timer,
            copies: Vec::new(),
            repairs: 0,
            timeouts: 0,
        });
        self.transmit(usize::from(running));
        true
    }

    fn transmit(&mut self, place: usize) {
        let message = &mut self.messages[place];
        let copies = u8::try_from(message.copies.len()).unwrap();
        let sent = Sent::new(self.now, &self.parameters, 30)
            .with_retransmissions(copies)
            .with_application_limited(false);
        let state = self.carob.on_sent(&sent, &mut Fixed::high());
        message.copies.push(Transmission {
            at: self.now,
            state,
        });
    }

    /// The answer to the last transmission of a message, this many ms after it or now.
    fn answer(&mut self, place: usize, delay: u64, certain: bool) -> bool {
        let Some(message) = self.messages.get(place) else {
            return false;
        };
        if !certain && message.copies.len() < 2 {
            return false;
        }
        let message = self.messages.remove(place);
        self.now = self.now.max(message.last().at + MS.times(delay));
        self.heard = self.now;
        let latest = u8::try_from(message.copies.len() - 1).unwrap();
        let matched = if certain {
            Matched::Exact(latest)
        } else {
            Matched::Ambiguous {
                earliest: 0,
                latest,
            }
        };
        let (before, backoff) = (
            self.carob.transfer.window_bytes(),
            self.carob.transfer.backoff(),
        );
        let Timer { timeout, state } = message.timer;
        let answered = Answered::new(self.now, &self.parameters, state, &message.copies, timeout)
            .with_matched(matched)
            .with_answer(Answer::Piggybacked, ANSWER_BYTES);
        self.carob.on_answered(&answered);
        let after = self.carob.transfer.window_bytes();
        if certain {
            self.expired = 0;
            assert_eq!(
                self.carob.transfer.backoff(),
                0,
                "a certain answer ends the back-off"
            );
            assert!(
                after <= 2 * before + 6 * ANSWER_BYTES,
                "{before} -> {after} bytes at an answer"
            );
        } else {
            assert_eq!(
                (after, self.carob.transfer.backoff()),
                (before, backoff),
                "Karn"
            );
        }
        true
    }

    /// The end of the timer that ends first.
    fn expire(&mut self) -> bool {
        let gap = self.carob.gap_detection();
        let path = gap.map_or(Duration::ZERO, |gap| gap.timeout);
        let due = |message: &Message| message.last().at + message.timer.timeout.max(path);
        let Some((place, due)) = self
            .messages
            .iter()
            .map(due)
            .enumerate()
            .min_by_key(|one| one.1)
        else {
            return false;
        };
        self.now = self.now.max(due);
        let message = &mut self.messages[place];
        message.timer.timeout = message.timer.timeout.max(path);
        message.repairs = 0;
        message.timeouts += 1;
        let before = self.carob.transfer.window_bytes();
        self.lose(place, LossReason::Timer);
        let after = self.carob.transfer.window_bytes();
        assert!(after <= before, "{before} -> {after} bytes at a timeout");
        if let (Some(_), Some(now)) = (gap, self.carob.gap_detection()) {
            assert!(
                now.timeout >= path,
                "{path:?} -> {:?} at a timeout",
                now.timeout
            );
            self.expired += 1;
            let steps = u32::from(self.carob.transfer.backoff());
            // At the limit of a minute the timeout of the path no longer doubles.
            let few = self.expired <= 2 * steps || path >= MINUTE;
            assert!(few, "{} timeouts in {steps} steps", self.expired);
        }
        let message = &self.messages[place];
        let age = self.now.since(message.copies[0].at);
        if !self
            .parameters
            .permits_retransmission(message.timeouts - 1, age)
        {
            let message = self.messages.remove(place);
            self.give_up(&message);
            return true;
        }
        self.again(place, LossReason::Timer);
        true
    }

    fn lose(&mut self, place: usize, reason: LossReason) {
        let last = self.messages[place].last();
        let lost = Lost::new(self.now, last, 30, self.heard <= last.at).with_reason(reason);
        self.carob.on_lost(&lost);
    }

    fn again(&mut self, place: usize, reason: LossReason) {
        let message = &mut self.messages[place];
        let Timer {
            timeout: before,
            state,
        } = message.timer;
        let retransmissions = u8::try_from(message.copies.len() - 1).unwrap();
        let expired = Expired::new(self.now, &self.parameters, state, retransmissions, before)
            .with_silent(self.heard <= message.last().at)
            .with_reason(reason);
        let timer = self.carob.next_timeout(&expired, &mut Fixed::high());
        let least = match reason {
            LossReason::Gap => before,
            LossReason::Timer => before.times(2).min(MINUTE),
        };
        let limited = self.parameters.limit_timer(timer.timeout, Some(before));
        assert!(
            limited >= least && timer.timeout <= MINUTE.max(before),
            "{before:?} -> {timer:?}"
        );
        message.timer = Timer {
            timeout: limited,
            ..timer
        };
        self.transmit(place);
    }

    fn give_up(&mut self, message: &Message) {
        let Timer { timeout, state } = message.timer;
        let retransmissions = u8::try_from(message.copies.len() - 1).unwrap();
        let (reason, now) = (Reason::TimedOut, self.now);
        let abandoned = Abandoned::new(
            now,
            &self.parameters,
            state,
            reason,
            retransmissions,
            timeout,
        );
        self.carob.on_abandoned(&abandoned);
        self.given_up = Some(message.copies[0].at);
    }

    /// A gap shows the oldest message lost.
    fn repair(&mut self) -> bool {
        let Some(gap) = self.carob.gap_detection() else {
            return false;
        };
        let evident = |message: &Message| {
            message.repairs < gap.repairs && gap.answered_departure > message.last().at
        };
        let Some(place) = self.messages.iter().position(evident) else {
            return false;
        };
        self.now = self
            .now
            .max(self.messages[place].last().at + gap.time_threshold);
        self.messages[place].repairs += 1;
        let before = (
            self.carob.transfer.window_bytes(),
            self.carob.transfer.backoff(),
        );
        self.lose(place, LossReason::Gap);
        let after = (
            self.carob.transfer.window_bytes(),
            self.carob.transfer.backoff(),
        );
        assert_eq!(after, before, "a gap is no timeout");
        self.again(place, LossReason::Gap);
        true
    }

    fn pause(&mut self, seconds: u64) -> bool {
        if !self.messages.is_empty() {
            return false;
        }
        self.now += Duration::from_secs(seconds);
        true
    }

    fn late(&mut self) -> bool {
        let Some(first) = self.given_up.take() else {
            return false;
        };
        let late = LateAnswer::new(self.now, 5, 1, self.now.since(first)).with_abandoned(true);
        self.carob.on_late_answer(&late);
        true
    }

    fn slow_down(&mut self) -> bool {
        let before = self.carob.transfer.window_bytes();
        self.carob.on_signal(self.now, Signal::SlowDown(MS));
        let after = self.carob.transfer.window_bytes();
        assert!(
            after <= before.div_ceil(2).max(2 * ANSWER_BYTES),
            "{before} -> {after} bytes"
        );
        true
    }

    fn check(&self) {
        assert!(self.room() >= 1);
        let window = self.carob.transfer.window_bytes();
        assert!(
            window > 0 || !self.carob.transfer.is_windowed(),
            "a window of nothing"
        );
        if let (Some(gap), Some(rto)) = (
            self.carob.gap_detection(),
            self.carob.path.rto(self.carob.constants),
        ) {
            assert!(gap.timeout >= rto, "{gap:?} below the RTO of {rto:?}");
            assert!(
                gap.time_threshold > micros(self.carob.path.latest()),
                "{gap:?}"
            );
        }
    }

    fn digest(&self) -> u64 {
        struct Digest(DefaultHasher);
        impl std::fmt::Write for Digest {
            fn write_str(&mut self, text: &str) -> std::fmt::Result {
                self.0.write(text.as_bytes());
                Ok(())
            }
        }
        let mut digest = Digest(DefaultHasher::new());
        write!(digest, "{self:?}").expect("a digest takes everything");
        digest.0.finish()
    }
}

/// Visits all states that scripts of `depth` events reach; equal ones once.
fn visit(world: &World, depth: u32, script: &mut Vec<u8>, seen: &mut HashSet<(u32, u64)>) {
    for event in 0..EVENTS {
        let mut next = world.clone();
        script.push(event);
        let step = std::panic::AssertUnwindSafe(|| next.step(event));
        let happened = std::panic::catch_unwind(step)
            .unwrap_or_else(|_| panic!("the events {script:?} break an invariant"));
        if happened && depth > 1 && seen.insert((depth, next.digest())) {
            visit(&next, depth - 1, script, seen);
        } else if happened && depth == 1 {
            seen.insert((1, next.digest()));
        }
        script.pop();
    }
}

/// The states from which scripts begin: new, slow start, delay without and with losses, competition, silence.
fn roots() -> [World; 8] {
    let begun = |messages: usize, lost: fn(usize) -> bool| {
        let mut carob = carob();
        transfer(&mut carob, messages, lost);
        let later = at(10_000_000);
        let idle = carob.transfer.idle(later);
        World::new(carob, later - idle)
    };
    let silence = || {
        let mut world = begun(100, |_| false);
        for event in [SEND, SEND, SEND, 5, 5, 5, 5] {
            world.step(event);
        }
        world
    };
    let competing = || {
        let mut carob = carob();
        transfer(&mut carob, 100, |_| false);
        for (began, round_trip) in (0..).zip([3_200, 4_600, 3_200, 4_600, 3_200]) {
            rounds(&mut carob, 60_000 + 5_000 * began, round_trip, &[0]);
        }
        assert_eq!(carob.transfer.mode(), "compete");
        World::new(carob, at(90_000))
    };
    let cautious = || {
        let mut carob = carob();
        transfer(&mut carob, 100, |_| false);
        rounds(&mut carob, 60_000, 2_000, &[0, 0, 0, 1, 1]);
        assert!(carob.transfer.caution() > 0);
        World::new(carob, at(71_000))
    };
    [
        World::new(carob(), at(0)),
        begun(8, |_| false),
        begun(100, |_| false),
        begun(100, |number| number % 5 == 3),
        begun(40, |number| number % 3 == 1),
        competing(),
        cautious(),
        silence(),
    ]
}

/// Returns the number of different states.
fn explore(depth: u32) -> usize {
    let mut states = 0;
    for root in roots() {
        let mut seen = HashSet::new();
        visit(&root, depth, &mut Vec::new(), &mut seen);
        states += seen.len();
    }
    states
}

#[test]
fn every_script_of_five_events_keeps_the_invariants() {
    assert!(explore(5) > 10_000);
}

#[test]
fn nightly_every_script_of_ten_events_keeps_the_invariants() {
    let states = explore(10);
    assert!(states > 10_000_000, "{states} states");
}
