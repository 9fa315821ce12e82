//! Scripts from event logs: what a path did, taken from what an endpoint or the simulator wrote.
//!
//! A log (`--log` of the commands, `carob lab run --log`) has the times when transmissions left and exchanges
//! were answered, but not which transmissions were lost. What is made of it is a reading: of an exchange
//! with several transmissions, as many count as lost as were never answered, and the first ones; the round
//! trip is that of the first transmission left. Exchanges follow each other, with the pauses that were
//! between them; those that overlapped come one after the other.

use std::collections::BTreeMap;
use std::fmt;

use carob_cc::time::Duration;
use serde::Deserialize;

use super::script::{EVENTS_MAX, Event, LOST_MAX, Script, ScriptError, Scripted, TIME_MAX};

/// The shortest pause between two exchanges that is kept.
pub const PAUSE_MIN: Duration = Duration::from_millis(10);
/// Largest delay in microseconds between the last timer of an exchange and its end by timeout.
const LATENESS: u64 = 100_000;
/// Assumed round-trip time of a notification in NON messages, where none is known.
const UNKNOWN_RTT: Duration = Duration::from_secs(1);

/// Returns true for an event log, false for a script.
pub fn is_log(text: &str) -> bool {
    text.trim_start().starts_with('{')
}

/// A script made of a log, and what should be known about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The script.
    pub script: Script,
    /// The sender of the exchanges.
    pub sender: String,
    /// Uncertainties and omissions, in sentences.
    pub remarks: Vec<String>,
}

/// Why no script could be made of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogError {
    /// A line is not what a log has.
    Line(ScriptError),
    /// There is no exchange in it that ended.
    Nothing {
        /// The file.
        file: String,
    },
    /// The log is of several senders, or lacks the one requested.
    Senders {
        /// The file.
        file: String,
        /// The sender requested.
        wanted: Option<String>,
        /// Those there are, or those of them that fit.
        senders: Vec<String>,
    },
}

impl fmt::Display for LogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(error) => error.fmt(f),
            Self::Nothing { file } => {
                write!(
                    f,
                    "{file}: no exchange of this log was answered or given up"
                )
            }
            Self::Senders {
                file,
                wanted,
                senders,
            } => {
                let count = senders.len();
                match wanted {
                    None => write!(f, "{file}: the log is of {count} senders"),
                    Some(text) => write!(f, "{file}: not one sender has \"{text}\" in its name"),
                }
            }
        }
    }
}

impl std::error::Error for LogError {}

/// The fields of a line that are evaluated.
#[derive(Deserialize)]
struct Line {
    at_us: u64,
    peer: String,
    event: String,
    id: Option<u16>,
    #[serde(rename = "type")]
    kind: Option<String>,
    purpose: Option<String>,
    retransmissions: Option<u8>,
    timeout_us: Option<u64>,
    /// Present in logs of the simulator only.
    cell: Option<String>,
    algorithm: Option<String>,
    host: Option<u32>,
}

impl Line {
    /// The endpoint of the event.
    fn sender(&self) -> String {
        let peer = &self.peer;
        let Some(host) = self.host else {
            return format!("exchanges with {peer}");
        };
        let mut name = String::new();
        if let Some(cell) = &self.cell {
            name = format!("{cell}, ");
        }
        if let Some(algorithm) = &self.algorithm {
            name += algorithm;
            name += ", ";
        }
        format!("{name}host {host} with {peer}")
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Answered,
    TimedOut,
    /// Refused, cancelled or given up for another reason.
    Other,
}

/// An exchange or a notification.
struct Exchange {
    /// When its transmissions left, in microseconds.
    sent: Vec<u64>,
    /// The timer of its last transmission.
    timeout: u64,
    confirmable: bool,
    answers: u8,
    ended: Option<(u64, End)>,
}

/// The exchanges of one sender.
#[derive(Default)]
struct Sender {
    exchanges: Vec<Exchange>,
    /// The latest exchange of each Message ID.
    by_id: BTreeMap<u16, usize>,
    /// An exchange whose message is replaced by a newer one.
    superseded: Option<usize>,
}

/// Reads a log; `file` is what errors call it. Of several senders, the one is taken whose name has
/// `from` in it.
pub fn read(file: &str, text: &str, from: Option<&str>) -> Result<Reading, LogError> {
    let mut senders: BTreeMap<String, Sender> = BTreeMap::new();
    for (index, text) in text.lines().enumerate() {
        if text.trim().is_empty() {
            continue;
        }
        let line: Line = serde_json::from_str(text).map_err(|error| {
            LogError::Line(ScriptError {
                file: file.to_owned(),
                line: index + 1,
                found: format!("what is no event ({error})"),
                expected: "a line of an event log, as --log writes it".to_owned(),
            })
        })?;
        // Endpoints that only answer are no senders.
        let begins = line.event == "sent";
        let name = line.sender();
        if begins {
            senders.entry(name).or_default().hear(&line);
        } else if let Some(sender) = senders.get_mut(&name) {
            sender.hear(&line);
        }
    }
    senders.retain(|_, sender| {
        sender
            .exchanges
            .iter()
            .any(|e| !e.confirmable || e.ended.is_some())
    });
    if senders.is_empty() {
        let file = file.to_owned();
        return Err(LogError::Nothing { file });
    }
    let names = |senders: &BTreeMap<String, Sender>| senders.keys().cloned().collect();
    let all: Vec<String> = names(&senders);
    if let Some(from) = from {
        senders.retain(|name, _| name.contains(from));
    }
    let mut found = senders.into_iter();
    match (found.next(), found.next()) {
        (Some((name, sender)), None) => sender.script(file, name).map_err(LogError::Line),
        (None, _) => Err(LogError::Senders {
            file: file.to_owned(),
            wanted: from.map(str::to_owned),
            senders: all,
        }),
        (Some((first, _)), Some((second, _))) => Err(LogError::Senders {
            file: file.to_owned(),
            wanted: None,
            senders: [first, second]
                .into_iter()
                .chain(found.map(|(name, _)| name))
                .collect(),
        }),
    }
}

impl Sender {
    fn hear(&mut self, line: &Line) {
        let at = line.at_us;
        let Some(id) = line.id else { return };
        let known = self.by_id.get(&id).copied();
        if line.event == "sent" {
            self.sent(line, id, known);
            return;
        }
        let Some(index) = known else { return };
        let exchange = &mut self.exchanges[index];
        match line.event.as_str() {
            "answered" if exchange.ended.is_none() => {
                exchange.answers = 1;
                exchange.ended = Some((at, End::Answered));
            }
            "answered_again" => exchange.answers = exchange.answers.saturating_add(1),
            "superseded" => self.superseded = Some(index),
            "abandoned" if exchange.ended.is_none() => {
                let ran_out = exchange
                    .sent
                    .last()
                    .map_or(0, |last| last.saturating_add(exchange.timeout));
                let timed_out = at.abs_diff(ran_out) <= LATENESS && exchange.timeout > 0;
                let end = if timed_out { End::TimedOut } else { End::Other };
                exchange.ended = Some((at, end));
            }
            _ => {}
        }
    }

    fn sent(&mut self, line: &Line, id: u16, known: Option<usize>) {
        let confirmable = line.kind.as_deref() == Some("CON");
        let again = line.retransmissions.unwrap_or(0) > 0;
        // A newer state takes over the transmissions and the timer of the older one.
        let continued = self.superseded.take().or(known).filter(|_| again);
        match continued {
            Some(index) => {
                let exchange = &mut self.exchanges[index];
                exchange.sent.push(line.at_us);
                exchange.timeout = line.timeout_us.unwrap_or(0);
                self.by_id.insert(id, index);
            }
            // A transmission of what began before the log did.
            None if again => {}
            // A NON request is not timed.
            None if !confirmable && line.purpose.as_deref() != Some("notification") => {}
            None => {
                self.by_id.insert(id, self.exchanges.len());
                self.exchanges.push(Exchange {
                    sent: vec![line.at_us],
                    timeout: line.timeout_us.unwrap_or(0),
                    confirmable,
                    answers: 0,
                    ended: None,
                });
            }
        }
    }

    /// The exchanges as a script.
    fn script(self, file: &str, sender: String) -> Result<Reading, ScriptError> {
        let mut script = Script::default();
        let (mut several, mut open, mut other, mut overlapped) = (0, 0, 0, 0);
        let (mut end_before, mut rtt_before): (Option<u64>, _) = (None, UNKNOWN_RTT);
        let mut group = 0;
        for exchange in &self.exchanges {
            let event = match (exchange.confirmable, exchange.ended) {
                (false, _) => Event::Notification { rtt: rtt_before },
                (true, None) => {
                    open += 1;
                    continue;
                }
                (true, Some((_, End::Other))) => {
                    other += 1;
                    continue;
                }
                (true, Some((_, End::TimedOut))) => Event::Failed,
                (true, Some((at, End::Answered))) => {
                    several += usize::from(exchange.sent.len() > 1);
                    let (lost, rtt) = exchange.reading(at);
                    rtt_before = rtt;
                    let known = false;
                    Event::Answered { lost, rtt, known }
                }
            };
            let began = exchange.sent[0];
            let since_end = |end: u64| Duration::from_micros(began.saturating_sub(end));
            let pause = end_before.map(since_end).unwrap_or_default();
            overlapped += usize::from(end_before.is_some_and(|end| began < end));
            // Uneventful exchanges in a row become one line.
            let calm = matches!(event, Event::Answered { lost: 0, .. });
            let mut add = |event, joins: bool| {
                let last = script
                    .events
                    .last()
                    .map(|scripted: &Scripted| scripted.event);
                let after_calm = matches!(last, Some(Event::Answered { lost: 0, .. }));
                group += usize::from(!(joins && after_calm));
                let phase = None;
                script.events.push(Scripted {
                    event,
                    group,
                    phase,
                });
            };
            if pause >= PAUSE_MIN {
                add(Event::Idle(pause.min(TIME_MAX)), false);
            }
            add(event, calm);
            let end = exchange.ended.map_or(began, |(at, _)| at);
            end_before = end_before.max(Some(end));
        }
        if script.events.len() > EVENTS_MAX {
            return Err(ScriptError {
                file: file.to_owned(),
                line: 1,
                found: format!("{} exchanges and pauses", script.events.len()),
                expected: format!("at most {EVENTS_MAX}; head -n takes the beginning of a log"),
            });
        }
        let all = [
            (
                several,
                "several transmissions; those never answered count as lost, the first ones first",
            ),
            (overlapped, "another was under way; it is taken after that"),
            (open, "the log ends before the exchange; it is left out"),
            (
                other,
                "the exchange was cancelled or refused; it is left out",
            ),
        ];
        let remarks = (all.iter().filter(|(count, _)| *count > 0))
            .map(|(count, what)| match count {
                1 => format!("once {what}"),
                n => format!("{n} times {what}"),
            })
            .collect();
        Ok(Reading {
            script,
            sender,
            remarks,
        })
    }
}

impl Exchange {
    /// Transmissions lost, and the round trip of the first that was not.
    fn reading(&self, answered: u64) -> (u8, Duration) {
        let transmissions = self.sent.len();
        let lost = transmissions - usize::from(self.answers).clamp(1, transmissions);
        let lost = lost.min(LOST_MAX.into());
        let rtt = Duration::from_micros(answered.saturating_sub(self.sent[lost]).max(1));
        (lost as u8, rtt.min(TIME_MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: &str = "\"peer\":\"[::1]:5683\"";

    fn sent(at: u64, id: u16, retransmissions: u8, timeout: u64) -> String {
        format!(
            "{{\"at_us\":{at},{PEER},\"event\":\"sent\",\"id\":{id},\"type\":\"CON\",\
             \"purpose\":\"request\",\"retransmissions\":{retransmissions},\
             \"timeout_us\":{timeout},\"bytes\":20}}"
        )
    }

    fn ended(at: u64, id: u16, event: &str) -> String {
        format!("{{\"at_us\":{at},{PEER},\"event\":\"{event}\",\"id\":{id},\"retransmissions\":0}}")
    }

    fn events(lines: &[String]) -> (Vec<String>, Vec<String>) {
        let reading = read("run.jsonl", &lines.join("\n"), None).expect("a log");
        let events = reading.script.events.iter();
        (
            events.map(|s| s.event.to_string()).collect(),
            reading.remarks,
        )
    }

    #[test]
    fn round_trips_pauses_losses_and_late_answers_are_read() {
        let (events, remarks) = events(&[
            sent(0, 1, 0, 2_000_000),
            ended(400_000, 1, "answered"),
            // A pause of 9.6 s, then a transmission without an answer.
            sent(10_000_000, 2, 0, 2_000_000),
            sent(12_000_000, 2, 1, 4_000_000),
            ended(12_500_000, 2, "answered"),
            // Both transmissions are answered.
            sent(12_500_000, 3, 0, 2_000_000),
            sent(14_500_000, 3, 1, 4_000_000),
            ended(15_000_000, 3, "answered"),
            sent(15_000_000, 4, 0, 2_000_000),
            ended(17_000_000, 3, "answered_again"),
            sent(17_000_000, 4, 1, 4_000_000),
            ended(21_000_000, 4, "abandoned"),
        ]);
        let expected = [
            "rtt 400 ms",
            "idle 9.6 s",
            "lost 1, rtt 500 ms",
            "rtt 2.5 s",
            "fail",
        ];
        assert_eq!(events, expected);
        assert_eq!(remarks.len(), 1);
        assert!(remarks[0].starts_with("2 times several transmissions"));
    }

    #[test]
    fn what_had_not_ended_or_was_refused_is_left_out_and_said() {
        let (events, remarks) = events(&[
            sent(0, 1, 0, 2_000_000),
            ended(5_000, 1, "abandoned"),
            sent(6_000, 2, 0, 2_000_000),
            ended(7_000, 2, "answered"),
            sent(8_000, 3, 0, 2_000_000),
        ]);
        assert_eq!(events, ["rtt 1 ms"]);
        assert_eq!(
            remarks,
            [
                "once the log ends before the exchange; it is left out",
                "once the exchange was cancelled or refused; it is left out"
            ]
        );
    }

    #[test]
    fn exchanges_side_by_side_come_one_after_the_other() {
        let (events, remarks) = events(&[
            sent(0, 1, 0, 2_000_000),
            sent(1_000, 2, 0, 2_000_000),
            ended(900_000, 2, "answered"),
            ended(1_000_000, 1, "answered"),
            sent(1_500_000, 3, 0, 2_000_000),
            ended(1_600_000, 3, "answered"),
        ]);
        assert_eq!(
            events,
            ["rtt 1 s", "rtt 899 ms", "idle 500 ms", "rtt 100 ms"]
        );
        assert_eq!(
            remarks,
            ["once another was under way; it is taken after that"]
        );
    }

    #[test]
    fn a_newer_state_goes_on_with_the_transmissions_of_the_older() {
        let (events, _) = events(&[
            sent(0, 1, 0, 2_000_000),
            ended(2_000_000, 1, "superseded"),
            sent(2_000_000, 9, 1, 4_000_000),
            ended(2_300_000, 9, "answered"),
        ]);
        assert_eq!(events, ["lost 1, rtt 300 ms"]);
    }

    #[test]
    fn of_several_senders_one_must_be_chosen() {
        let line = |host: u32, text: String| format!("{{\"host\":{host},{}", &text[1..]);
        let lines = [
            line(0, sent(0, 1, 0, 2_000_000)),
            line(1, sent(0, 1, 0, 2_000_000)),
            line(0, ended(400_000, 1, "answered")),
            line(1, ended(500_000, 1, "answered")),
            // A host that only answers.
            line(2, ended(0, 1, "received")),
        ];
        let text = lines.join("\n");
        let error = read("run.jsonl", &text, None).expect_err("two senders");
        assert_eq!(error.to_string(), "run.jsonl: the log is of 2 senders");
        let LogError::Senders { senders, .. } = error else {
            panic!("another error");
        };
        assert_eq!(
            senders,
            ["host 0 with [::1]:5683", "host 1 with [::1]:5683"]
        );
        let one = read("run.jsonl", &text, Some("host 1")).expect("one");
        assert_eq!(one.script.events[0].event.to_string(), "rtt 500 ms");
        assert!(read("run.jsonl", &text, Some("host 7")).is_err());
    }

    #[test]
    fn impossible_times_are_no_harm() {
        let (events, _) = events(&[
            sent(u64::MAX, 1, 0, u64::MAX),
            ended(u64::MAX, 1, "abandoned"),
            sent(5, 2, 0, 1),
            ended(0, 2, "answered"),
            ended(0, 2, "answered_again"),
            sent(u64::MAX - 1, 3, 0, 1),
            ended(u64::MAX, 3, "answered"),
        ]);
        assert_eq!(events, ["fail", "rtt 1 us", "rtt 1 us"]);
    }

    #[test]
    fn what_is_no_log_is_said_with_its_line() {
        let text = format!("{}\n{{\"at_us\":0}}", sent(0, 1, 0, 1));
        let error = read("run.jsonl", &text, None).expect_err("a wrong line");
        let said = error.to_string();
        assert!(
            said.starts_with("run.jsonl:2: found what is no event"),
            "{said}"
        );
        assert!(said.contains("missing field `peer`"), "{said}");
        let nothing = read("run.jsonl", &sent(0, 1, 0, 1), None).expect_err("nothing ended");
        assert!(nothing.to_string().contains("no exchange of this log"));
        assert!(is_log(" {\"at_us\":0}") && !is_log("rtt 400 ms"));
    }
}
