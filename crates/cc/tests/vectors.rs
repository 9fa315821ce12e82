//! Replays `vectors/timing/*.toml` through the registry's controllers.
//!
//! A vector names a controller, what to set, and steps on one time line (times since the start):
//! `send` starts an exchange and may expect its `timer`; `expire` is the moment the running timer
//! runs out and asks for the next; `answer` and `fail` end the exchange; `tell` has a notification,
//! NON unless it is `confirmable`, ask when it may leave, which `leaves` says, and lets it go then;
//! `wait` only looks. Any step may expect the overall `rto` afterwards. The engine's cap is applied
//! as the endpoint does.

#![allow(clippy::unwrap_used)] // a vector that cannot be read should stop the test

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use carob_cc::controller::{Controller, Timer};
use carob_cc::evidence::{
    Abandoned, Answered, Departure, Expired, Kind, Reason, Sent, Start, Transmission,
};
use carob_cc::random::Fixed;
use carob_cc::registry::{self, Settings};
use carob_cc::time::{Duration, Instant};
use carob_cc::{AnyController, TransmissionParameters};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    vector: Vec<Vector>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Vector {
    name: String,
    source: String,
    controller: String,
    #[serde(default)]
    set: BTreeMap<String, String>,
    #[serde(default)]
    parameters: Parameters,
    dither: Dither,
    steps: Vec<Step>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Parameters {
    ack_timeout: Option<String>,
    rto_max: Option<String>,
    max_retransmit: Option<u8>,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "lowercase")]
enum Dither {
    Low,
    High,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    send: Option<String>,
    #[serde(default)]
    running: u16,
    expire: Option<String>,
    answer: Option<String>,
    fail: Option<String>,
    tell: Option<String>,
    #[serde(default)]
    confirmable: bool,
    leaves: Option<String>,
    wait: Option<String>,
    timer: Option<String>,
    rto: Option<String>,
}

fn duration(text: &str) -> Duration {
    text.parse().unwrap_or_else(|e| panic!("{text}: {e}"))
}

/// One microsecond of rounding per arithmetic step is all a vector may be off by.
const TOLERANCE: Duration = Duration::from_micros(2);

struct Replay {
    controller: AnyController,
    parameters: TransmissionParameters,
    random: Fixed,
    timer: Timer,
    sent: Vec<Transmission>,
    now: Instant,
}

impl Replay {
    fn at(&mut self, text: &str) -> Instant {
        let at = Instant::ZERO + duration(text);
        assert!(at >= self.now, "time runs backwards at {text}");
        self.now = at;
        at
    }

    fn transmit(&mut self) {
        let copies = u8::try_from(self.sent.len()).unwrap();
        let sent = Sent::new(self.now, 20).with_retransmissions(copies);
        let stamp = self.controller.on_sent(&sent, &mut self.random);
        self.sent.push(Transmission {
            at: self.now,
            stamp,
        });
    }

    /// A notification asks at `now`, which may be before the one before it left.
    fn tell(&mut self, now: Instant, step: &Step) {
        let departure = Departure::new(now, &self.parameters, 40)
            .with_kind(Kind::Notification)
            .with_confirmable(step.confirmable);
        let leaves = self.controller.departure(&departure);
        let expected = step.leaves.as_ref().expect("it is said when it leaves");
        assert_eq!(
            leaves,
            Instant::ZERO + duration(expected),
            "told at {now:?}"
        );
        let sent = Sent::new(leaves, 40)
            .with_kind(Kind::Notification)
            .with_confirmable(step.confirmable);
        self.controller.on_sent(&sent, &mut self.random);
        self.now = self.now.max(leaves);
    }

    fn step(&mut self, step: &Step) {
        if let Some(at) = &step.send {
            let now = self.at(at);
            let start = Start::new(now, &self.parameters).with_running(step.running);
            self.timer = self.controller.first_timeout(&start, &mut self.random);
            self.sent.clear();
            self.transmit();
        } else if let Some(at) = &step.expire {
            let now = self.at(at);
            let ran = now.since(self.sent.last().expect("an exchange is running").at);
            assert!(
                ran.abs_diff(self.timer.timeout) <= TOLERANCE,
                "expires after {ran}"
            );
            let copies = u8::try_from(self.sent.len() - 1).unwrap();
            let before = self.timer.timeout;
            let expired = Expired::new(now, &self.parameters, self.timer.memo, copies, before);
            self.timer = self.controller.next_timeout(&expired, &mut self.random);
            if let Some(cap) = self.parameters.rto_max {
                self.timer.timeout = self.timer.timeout.min(cap.max(before));
            }
            self.transmit();
        } else if let Some(at) = &step.answer {
            let now = self.at(at);
            let (memo, timeout) = (self.timer.memo, self.timer.timeout);
            let answered = Answered::new(now, &self.parameters, memo, &self.sent, timeout);
            self.controller.on_answered(&answered);
        } else if let Some(at) = &step.fail {
            let now = self.at(at);
            let copies = u8::try_from(self.sent.len() - 1).unwrap();
            let (memo, timeout) = (self.timer.memo, self.timer.timeout);
            let abandoned = Abandoned::new(now, memo, Reason::TimedOut, copies, timeout);
            self.controller.on_abandoned(&abandoned);
        } else if let Some(at) = &step.tell {
            let now = Instant::ZERO + duration(at);
            self.tell(now, step);
        } else {
            self.at(step.wait.as_ref().expect("a step does something"));
        }
        if let Some(expected) = &step.timer {
            let (got, expected) = (self.timer.timeout, duration(expected));
            assert!(
                got.abs_diff(expected) <= TOLERANCE,
                "timer {got}, expected {expected}"
            );
        }
        if let Some(expected) = &step.rto {
            let got = self
                .controller
                .rto(self.now)
                .expect("the controller keeps an RTO");
            let expected = duration(expected);
            assert!(
                got.abs_diff(expected) <= TOLERANCE,
                "rto {got}, expected {expected}"
            );
        }
    }
}

fn replay(vector: &Vector) {
    let entry = registry::find(&vector.controller).unwrap();
    let settings: &'static mut Settings = Box::leak(Box::new(entry.settings));
    for (name, value) in &vector.set {
        settings
            .set(name, value)
            .unwrap_or_else(|e| panic!("{name}: {e}"));
    }
    let mut parameters = entry.suggested.apply(TransmissionParameters::DEFAULT);
    if let Some(text) = &vector.parameters.ack_timeout {
        parameters.ack_timeout = duration(text);
    }
    if let Some(text) = &vector.parameters.rto_max {
        parameters.rto_max = Some(duration(text));
    }
    if let Some(n) = vector.parameters.max_retransmit {
        parameters.max_retransmit = n;
    }
    let mut replay = Replay {
        controller: settings.build(),
        parameters,
        random: match vector.dither {
            Dither::Low => Fixed::low(),
            Dither::High => Fixed::high(),
        },
        timer: Timer::default(),
        sent: Vec::new(),
        now: Instant::ZERO,
    };
    for step in &vector.steps {
        replay.step(step);
    }
}

#[test]
fn every_timing_vector_holds() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/timing");
    let mut failed = Vec::new();
    let mut replayed = 0;
    for file in fs::read_dir(&folder).unwrap() {
        let path = file.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        let file: File = toml::from_str(&text).unwrap_or_else(|e| panic!("{path:?}: {e}"));
        for vector in &file.vector {
            assert!(
                !vector.source.is_empty(),
                "{}: a vector names its source",
                vector.name
            );
            let outcome = std::panic::catch_unwind(|| replay(vector));
            if outcome.is_err() {
                failed.push(vector.name.clone());
            }
            replayed += 1;
        }
    }
    assert!(replayed >= 20, "only {replayed} vectors found");
    assert!(failed.is_empty(), "vectors that do not hold: {failed:#?}");
}
