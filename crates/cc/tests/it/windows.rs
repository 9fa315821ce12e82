//! Replays transfers of the second implementation of `carob` (`vectors/timing/varying/windows.py`) with the first; the
//! format is described there.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use carob_cc::controller::{Controller, Timer};
use carob_cc::evidence::{
    Abandoned, Answer, Answered, Expired, Kind, LateAnswer, LossReason, Lost, Matched, Reason,
    SendCandidate, Sent, Signal, Start, Transmission,
};
use carob_cc::random::Fixed;
use carob_cc::registry::{self, Settings};
use carob_cc::time::{Duration, Instant};
use carob_cc::{AnyController, TransmissionParameters};

struct Message {
    timer: Timer,
    size: u32,
    transmissions: Vec<Transmission>,
}

struct Replay {
    controller: AnyController,
    parameters: TransmissionParameters,
    random: Fixed,
    messages: BTreeMap<u64, Message>,
    size: u32,
}

fn micros(text: &str) -> Duration {
    Duration::from_micros(text.parse().unwrap())
}

fn at(text: &str) -> Instant {
    Instant::ZERO + micros(text)
}

fn reason(text: &str) -> LossReason {
    match text {
        "gap" => LossReason::Gap,
        _ => LossReason::Timer,
    }
}

impl Replay {
    fn new(draw: &str, changes: &[(&str, &str)]) -> Self {
        let entry = registry::find("carob").unwrap();
        let settings: &'static mut Settings = Box::leak(Box::new(entry.settings()));
        for (name, value) in changes {
            settings.set(name, value).unwrap();
        }
        Self {
            controller: settings.build(),
            parameters: entry.suggested.apply(TransmissionParameters::DEFAULT),
            random: Fixed(draw.parse().unwrap()),
            messages: BTreeMap::new(),
            size: 0,
        }
    }

    fn transmit(&mut self, now: Instant, id: u64, more: &str) {
        let message = self.messages.get_mut(&id).unwrap();
        let copies = u8::try_from(message.transmissions.len()).unwrap();
        let sent = Sent::new(now, &self.parameters, message.size)
            .with_retransmissions(copies)
            .with_application_limited(more == "0");
        let state = self.controller.on_sent(&sent, &mut self.random);
        message.transmissions.push(Transmission { at: now, state });
    }

    /// Sends a notification; returns whether it is a CON, the departure of the next one, and the timer of a CON.
    fn notify(&mut self, now: Instant, id: u64) -> String {
        let next = SendCandidate::new(now, &self.parameters, self.size)
            .with_kind(Kind::Notification)
            .with_confirmable(false);
        assert_eq!(
            self.controller.earliest_departure_time(&next),
            now,
            "it may leave"
        );
        let confirmable = self.controller.must_confirm(&next);
        let mut text = "-".to_owned();
        let mut sent = Sent::new(now, &self.parameters, 4)
            .with_kind(Kind::Notification)
            .with_confirmable(confirmable);
        if confirmable {
            let start = Start::new(now, &self.parameters);
            let mut timer = self.controller.first_timeout(&start, &mut self.random);
            timer.timeout = self.parameters.limit_timer(timer.timeout, None);
            text = timer.timeout.as_micros().to_string();
            sent = sent.with_application_limited(true);
            let state = self.controller.on_sent(&sent, &mut self.random);
            let transmissions = vec![Transmission { at: now, state }];
            let size = 4;
            self.messages.insert(
                id,
                Message {
                    timer,
                    size,
                    transmissions,
                },
            );
        } else {
            self.controller.on_sent(&sent, &mut self.random);
        }
        let next = self.controller.earliest_departure_time(&next).max(now);
        let next = next.since(Instant::ZERO).as_micros();
        format!("{} {next} {text}", u8::from(confirmable))
    }

    /// Replays one line; returns the decisions in the format of the line.
    fn step(&mut self, words: &[&str]) -> String {
        let now = at(words[1]);
        match *words {
            ["send", _, id, running, size, more, _] => {
                let start =
                    Start::new(now, &self.parameters).with_running(running.parse().unwrap());
                let mut timer = self.controller.first_timeout(&start, &mut self.random);
                timer.timeout = self.parameters.limit_timer(timer.timeout, None);
                self.size = size.parse().unwrap();
                let message = Message {
                    timer,
                    size: self.size,
                    transmissions: Vec::new(),
                };
                let id = id.parse().unwrap();
                self.messages.insert(id, message);
                self.transmit(now, id, more);
                timer.timeout.as_micros().to_string()
            }
            ["notify", _, id, ..] => self.notify(now, id.parse().unwrap()),
            ["lost", _, id, why, silent] => {
                let message = self.messages.get_mut(&id.parse().unwrap()).unwrap();
                if let (LossReason::Timer, Some(gap)) =
                    (reason(why), self.controller.gap_detection())
                {
                    message.timer.timeout = message.timer.timeout.max(gap.timeout);
                }
                let last = *message.transmissions.last().unwrap();
                let lost =
                    Lost::new(now, last, message.size, silent == "1").with_reason(reason(why));
                self.controller.on_lost(&lost);
                String::new()
            }
            ["again", _, id, why, silent, more, _] => {
                let id = id.parse().unwrap();
                let message = self.messages.get_mut(&id).unwrap();
                let before = message.timer.timeout;
                let copies = u8::try_from(message.transmissions.len()).unwrap();
                let expired = Expired::new(
                    now,
                    &self.parameters,
                    message.timer.state,
                    copies - 1,
                    before,
                )
                .with_silent(silent == "1")
                .with_reason(reason(why));
                let mut timer = self.controller.next_timeout(&expired, &mut self.random);
                timer.timeout = self.parameters.limit_timer(timer.timeout, Some(before));
                if copies >= self.parameters.max_retransmit {
                    let age = now.since(message.transmissions[0].at);
                    timer.timeout = self.parameters.reach_span(timer.timeout, before, age);
                }
                message.timer = timer;
                self.transmit(now, id, more);
                timer.timeout.as_micros().to_string()
            }
            ["fail", _, id] => {
                let message = self.messages.remove(&id.parse().unwrap()).unwrap();
                let copies = u8::try_from(message.transmissions.len()).unwrap();
                self.controller.on_abandoned(&Abandoned::new(
                    now,
                    &self.parameters,
                    message.timer.state,
                    Reason::TimedOut,
                    copies - 1,
                    message.timer.timeout,
                ));
                String::new()
            }
            ["answer", _, id, earliest, latest, bytes, also, recent] => {
                let message = self.messages.remove(&id.parse().unwrap()).unwrap();
                let (earliest, latest) = (earliest.parse().unwrap(), latest.parse().unwrap());
                let matched = if earliest == latest {
                    Matched::Exact(latest)
                } else {
                    Matched::Ambiguous { earliest, latest }
                };
                let Timer { timeout, state } = message.timer;
                let answered = Answered::new(
                    now,
                    &self.parameters,
                    state,
                    &message.transmissions,
                    timeout,
                )
                .with_matched(matched)
                .with_answer(Answer::Piggybacked, bytes.parse().unwrap())
                .with_also(also.parse().unwrap(), recent.parse().unwrap());
                self.controller.on_answered(&answered);
                String::new()
            }
            ["gone", _, id] => {
                self.messages.remove(&id.parse().unwrap());
                String::new()
            }
            ["late", _, sent, since] => {
                let late = LateAnswer::new(now, sent.parse().unwrap(), 1, micros(since))
                    .with_abandoned(true);
                self.controller.on_late_answer(&late);
                String::new()
            }
            ["slow", _] => {
                self.controller
                    .on_signal(now, Signal::SlowDown(Duration::ZERO));
                String::new()
            }
            ["state", _, room, ..] => {
                let candidate = SendCandidate::new(now, &self.parameters, self.size);
                let room = match room {
                    "-" => "-".to_owned(),
                    _ => self
                        .controller
                        .window(now, &self.parameters)
                        .exchanges
                        .to_string(),
                };
                let departure = self.controller.earliest_departure_time(&candidate).max(now);
                let mut text = format!("{room} {}", departure.since(Instant::ZERO).as_micros());
                match self.controller.gap_detection() {
                    None => text.push_str(" - - -"),
                    Some(gap) => {
                        let (threshold, path) = (gap.time_threshold, gap.timeout);
                        let times = [threshold, path].map(Duration::as_micros);
                        write!(text, " {} {} {}", times[0], times[1], gap.repairs).unwrap();
                    }
                }
                text
            }
            _ => panic!("{words:?}"),
        }
    }
}

/// Replays all scripts with these constants; returns the number of scripts, and the first difference of each that
/// differs.
fn replay(text: &str, changes: &[(&str, &str)]) -> (usize, Vec<String>) {
    let (mut scripts, mut differences) = (0, Vec::new());
    let mut replay: Option<Replay> = None;
    let mut name = "";
    for (number, line) in (1..).zip(text.lines()) {
        let words: Vec<&str> = line.split(' ').collect();
        if let ["script", script, draw] = *words {
            scripts += 1;
            (name, replay) = (script, Some(Replay::new(draw, changes)));
            continue;
        }
        let Some(running) = &mut replay else { continue };
        let decided = running.step(&words);
        // Compared as a word, because "21 s" also ends with "1 s".
        if !decided.is_empty() && !line.ends_with(&format!(" {decided}")) {
            let gauges = gauges(&running.controller, at(words[1]));
            differences.push(format!(
                "script {name}, line {number}: {line}\n  decided {decided}; {gauges}"
            ));
            replay = None;
        }
    }
    (scripts, differences)
}

fn gauges(controller: &AnyController, now: Instant) -> String {
    let mut text = String::new();
    controller.gauges(now, &mut |name, gauge| {
        let _ = write!(text, "{name} {gauge:?}, ");
    });
    text
}

/// Scripts 1 to `count` of the second implementation.
fn scripts(count: usize) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/timing/varying");
    let output = Command::new("python3")
        .arg(folder.join("windows.py"))
        .arg(count.to_string())
        .stderr(Stdio::inherit())
        .output()
        .expect("this test needs Python: install python3, version 3.9 or newer");
    assert!(output.status.success(), "windows.py: {}", output.status);
    String::from_utf8(output.stdout).unwrap()
}

fn agree(count: usize) {
    let (replayed, differences) = replay(&scripts(count), &[]);
    assert_eq!(replayed, 2 * count, "transfers and observers");
    let failed = differences.len();
    let list = differences.join("\n");
    assert!(failed == 0, "{failed} of {count} scripts differ:\n{list}");
}

#[test]
fn window_decisions_agree_with_the_reference_implementation() {
    agree(16);
}

#[test]
fn nightly_window_decisions_agree_with_a_thousand_reference_scripts() {
    agree(1_000);
}

#[test]
fn every_window_constant_changes_a_decision() {
    let text = scripts(80);
    for change in [
        ("alpha", "1/4"),
        ("beta", "1/8"),
        ("tolerance", "1/5"),
        ("memory", "50 s"),
        ("steady", "3"),
        ("time_threshold", "5/4"),
        ("gap_repairs", "3"),
        ("initial_window", "5"),
        ("loss_factor", "2/3"),
        ("loss_period", "12"),
        ("caution", "32"),
        ("shared", "1/3"),
        ("fraction", "12"),
        ("compete", "false"),
        ("pacing", "false"),
        ("rate_limit", "5/4"),
        ("non_interval", "2 s"),
        ("confirm_every", "6"),
    ] {
        let (_, differences) = replay(&text, &[change]);
        assert!(!differences.is_empty(), "{change:?} changes no decision");
    }
}
