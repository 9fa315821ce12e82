//! Replays `vectors/timing/**/*.toml` with the registered controllers.
//!
//! A vector has a controller, settings, and steps with times since the start. `send` starts an exchange and may expect
//! its `timer`. `expire` ends the running timer and asks for the next. `answer` and `fail` end the exchange; an answer
//! may match a `copy`, or be an `empty` ACK. `wait` only advances time. Every step may expect the overall `rto`. The
//! engine's cap is applied.
//!
//! `notify` is a notification (NON unless `confirmable`), sent at its expected departure time `departs`. With `confirm`
//! the controller must turn it into a CON.

use std::collections::BTreeMap;
use std::fs;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};

use carob_cc::controller::{Controller, Timer};
use carob_cc::evidence::{
    Abandoned, Answer, Answered, Expired, Kind, Matched, Reason, SendCandidate, Sent, Start,
    Transmission,
};
use carob_cc::random::Fixed;
use carob_cc::registry::{self, Settings};
use carob_cc::time::{Duration, Instant};
use carob_cc::{AnyController, TransmissionParameters};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// Tolerance of times in microseconds: one of rounding per arithmetic step.
    #[serde(default = "two")]
    tolerance_us: u64,
    vector: Vec<Vector>,
}

fn two() -> u64 {
    2
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

/// Position of random draws within their range.
#[derive(Deserialize, Clone, Copy)]
#[serde(untagged)]
enum Dither {
    End(End),
    /// Fraction of the range.
    Part(f64),
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "lowercase")]
enum End {
    Low,
    High,
}

impl From<Dither> for Fixed {
    fn from(dither: Dither) -> Self {
        match dither {
            Dither::End(End::Low) => Self::low(),
            Dither::End(End::High) => Self::high(),
            Dither::Part(part) => Self((part * 4_294_967_296.0) as u32),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    send: Option<String>,
    #[serde(default)]
    running: u16,
    expire: Option<String>,
    answer: Option<String>,
    copy: Option<u8>,
    #[serde(default)]
    empty: bool,
    fail: Option<String>,
    notify: Option<String>,
    #[serde(default)]
    confirmable: bool,
    #[serde(default)]
    confirm: bool,
    departs: Option<String>,
    wait: Option<String>,
    timer: Option<String>,
    rto: Option<String>,
}

fn duration(text: &str) -> Duration {
    text.parse().unwrap_or_else(|e| panic!("{text}: {e}"))
}

struct Replay {
    controller: AnyController,
    parameters: TransmissionParameters,
    random: Fixed,
    timer: Timer,
    sent: Vec<Transmission>,
    now: Instant,
    tolerance: Duration,
}

impl Replay {
    fn at(&mut self, text: &str) -> Instant {
        let at = Instant::ZERO + duration(text);
        assert!(at >= self.now, "time runs backwards at {text}");
        self.now = at;
        at
    }

    fn begin(&mut self, running: u16, sent: impl Fn(Sent<'_>) -> Sent<'_>) {
        let start = Start::new(self.now, &self.parameters).with_running(running);
        self.timer = self.controller.first_timeout(&start, &mut self.random);
        self.sent.clear();
        self.transmit(sent);
    }

    fn transmit(&mut self, adapt: impl Fn(Sent<'_>) -> Sent<'_>) {
        let copies = u8::try_from(self.sent.len()).unwrap();
        let sent = Sent::new(self.now, &self.parameters, 20).with_retransmissions(copies);
        let sent = adapt(sent);
        let state = self.controller.on_sent(&sent, &mut self.random);
        self.sent.push(Transmission {
            at: self.now,
            state,
        });
    }

    /// Handles a notification that the application generates at `now`, possibly before the departure
    /// of the previous one.
    fn notify(&mut self, now: Instant, step: &Step) {
        let candidate = SendCandidate::new(now, &self.parameters, 40)
            .with_kind(Kind::Notification)
            .with_confirmable(step.confirmable);
        let departs = self.controller.earliest_departure_time(&candidate);
        let expected = step.departs.as_ref().expect("`departs` of the step");
        let expected = Instant::ZERO + duration(expected);
        assert!(
            departs.since(expected).max(expected.since(departs)) <= self.tolerance,
            "notification at {now:?}: departs at {departs:?}, expected {expected:?}"
        );
        self.now = self.now.max(expected);
        let confirm = !step.confirmable && self.controller.must_confirm(&candidate);
        assert_eq!(confirm, step.confirm, "notification at {now:?}: as CON");
        if confirm {
            return self.begin(0, |sent| sent.with_kind(Kind::Notification));
        }
        let sent = Sent::new(expected, &self.parameters, 40)
            .with_kind(Kind::Notification)
            .with_confirmable(step.confirmable);
        self.controller.on_sent(&sent, &mut self.random);
    }

    fn step(&mut self, step: &Step) {
        if let Some(at) = &step.send {
            self.at(at);
            self.begin(step.running, |sent| sent);
        } else if let Some(at) = &step.expire {
            let now = self.at(at);
            let ran = now.since(self.sent.last().expect("an exchange is running").at);
            assert!(
                ran.abs_diff(self.timer.timeout) <= self.tolerance,
                "expires after {ran}"
            );
            let copies = u8::try_from(self.sent.len() - 1).unwrap();
            let before = self.timer.timeout;
            let expired = Expired::new(now, &self.parameters, self.timer.state, copies, before);
            self.timer = self.controller.next_timeout(&expired, &mut self.random);
            if let Some(cap) = self.parameters.rto_max {
                self.timer.timeout = self.timer.timeout.min(cap.max(before));
            }
            self.transmit(|sent| sent);
        } else if let Some(at) = &step.answer {
            let now = self.at(at);
            let (state, timeout) = (self.timer.state, self.timer.timeout);
            let mut answered = Answered::new(now, &self.parameters, state, &self.sent, timeout);
            if let Some(copy) = step.copy {
                answered = answered.with_matched(Matched::Exact(copy));
            }
            if step.empty {
                answered = answered.with_answer(Answer::Empty, 4);
            }
            self.controller.on_answered(&answered);
        } else if let Some(at) = &step.fail {
            let now = self.at(at);
            let copies = u8::try_from(self.sent.len() - 1).unwrap();
            let (state, timeout) = (self.timer.state, self.timer.timeout);
            let abandoned = Abandoned::new(
                now,
                &self.parameters,
                state,
                Reason::TimedOut,
                copies,
                timeout,
            );
            self.controller.on_abandoned(&abandoned);
        } else if let Some(at) = &step.notify {
            let now = Instant::ZERO + duration(at);
            self.notify(now, step);
        } else {
            self.at(step.wait.as_ref().expect("a step does something"));
        }
        if let Some(expected) = &step.timer {
            let (got, expected) = (self.timer.timeout, duration(expected));
            assert!(
                got.abs_diff(expected) <= self.tolerance,
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
                got.abs_diff(expected) <= self.tolerance,
                "rto {got}, expected {expected}"
            );
        }
    }
}

/// Replays a vector with further settings; returns the index of the first step that fails.
fn replay(vector: &Vector, tolerance: Duration, changes: &[(&str, &str)]) -> Option<usize> {
    let entry = registry::find(&vector.controller).unwrap();
    let settings: &'static mut Settings = Box::leak(Box::new(entry.settings()));
    let set = vector.set.iter().map(|(name, value)| (&**name, &**value));
    for (name, value) in set.chain(changes.iter().copied()) {
        settings
            .set(name, value)
            .unwrap_or_else(|e| panic!("{name}: {e}"));
    }
    let mut parameters = entry.suggested.apply(TransmissionParameters::DEFAULT);
    parameters.safeguards = false;
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
        random: vector.dither.into(),
        timer: Timer::default(),
        sent: Vec::new(),
        now: Instant::ZERO,
        tolerance,
    };
    (1..)
        .zip(&vector.steps)
        .find(|(_, step)| std::panic::catch_unwind(AssertUnwindSafe(|| replay.step(step))).is_err())
        .map(|(number, _)| number)
}

/// Vector files in a folder and its subfolders, sorted by name.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut entries: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    entries.sort();
    let below = |path: PathBuf| {
        if path.is_dir() {
            files(&path)
        } else {
            vec![path]
        }
    };
    let all = entries.into_iter().flat_map(below);
    all.filter(|path| path.extension().is_some_and(|end| end == "toml"))
        .collect()
}

fn read(path: &Path) -> File {
    let text = fs::read_to_string(path).unwrap();
    toml::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/timing")
}

#[test]
fn every_timing_vector_holds() {
    let mut failed = Vec::new();
    for path in files(&folder()) {
        let file = read(&path);
        let tolerance = Duration::from_micros(file.tolerance_us);
        for vector in &file.vector {
            let name = &vector.name;
            assert!(
                !vector.source.is_empty(),
                "{name}: a vector names its source"
            );
            if let Some(step) = replay(vector, tolerance, &[]) {
                failed.push(format!("{}: {name}: step {step}", path.display()));
            }
        }
    }
    assert!(failed.is_empty(), "vectors that do not hold: {failed:#?}");
}

/// Checks that without one defect of Californium the replay first differs at the step where the defect acts. Vectors
/// whose steps do not show it are skipped.
fn without(file: &str, change: (&str, &str), acts: impl Fn(&[Step]) -> Option<usize>) {
    let file = read(&folder().join("varying").join(file));
    let mut differ = 0;
    for vector in &file.vector {
        let tolerance = Duration::from_micros(file.tolerance_us);
        if let Some(first) = acts(&vector.steps) {
            let found = replay(vector, tolerance, &[change]);
            assert_eq!(found, Some(first + 1), "{}", vector.name);
            differ += 1;
        }
    }
    assert!(differ > 0, "the defect {change:?} never acts");
}

#[test]
fn californium_ages_the_rto_one_message_late() {
    // Its first timer is the RTO before ageing, which shows in later values.
    without(
        "californium-cocoa.toml",
        ("ageing_late", "false"),
        |steps| {
            steps
                .iter()
                .position(|step| step.send.is_some() && step.rto.is_some())
        },
    );
}

#[test]
fn californium_integer_division_differs_from_second_sample() {
    without(
        "californium-peak-hopper.toml",
        ("change", "real"),
        |steps| {
            let samples = steps.windows(2).enumerate().filter_map(|(index, two)| {
                let (sent, answered) = (two[0].send.as_deref()?, two[1].answer.as_deref()?);
                Some((index + 1, duration(answered).saturating_sub(duration(sent))))
            });
            let samples: Vec<_> = samples.take(2).collect();
            let [(_, first), (index, second)] = samples[..] else {
                return None;
            };
            // A round-trip time that doubled, or a slow decay longer than either, hides the difference.
            let hidden = first.abs_diff(second).times(2) >= second || first > second.times(2);
            (!hidden).then_some(index)
        },
    );
}
