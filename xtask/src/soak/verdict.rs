//! Criteria of a soak: each line with its measured value.

use serde_json::Value;

use super::sample::Sample;
use super::{LOSS, OBSERVERS, Soak};

/// MAX_RETRANSMIT is 4 (RFC 7252 4.8): a message is lost when five copies are.
const COPIES: i32 = 5;
/// Significance level: results less probable than this are not by chance.
const CHANCE: f64 = 1e-3;
/// The longest time without any answer that passes for the machine's, in milliseconds.
const STALL_MS: f64 = 1_000.0;
/// Growth of the server's memory allowed after its first third, in KiB: a page here and there. A
/// leak of one byte in a thousand requests is more than that in 30 minutes.
const GROWTH: u64 = 2 << 10;
/// And by this for each message more that it remembers, with its answer of up to 1,232 bytes, in KiB: in
/// a run whose first third is shorter than EXCHANGE_LIFETIME, their number still grows.
const REMEMBERED: u64 = 2;

/// One line of the verdict.
#[derive(Debug)]
pub(super) struct Check {
    pub(super) name: &'static str,
    pub(super) seen: String,
    pub(super) holds: bool,
}

/// A count in the load's last words.
pub(super) fn count(last: &Value, name: &str) -> u64 {
    last[name].as_u64().unwrap_or(0)
}

/// The shares of datagrams that were lost on the way to the server and on the way back, with those that
/// found a socket's buffer full.
#[derive(Clone, Copy, Debug)]
pub(super) struct Losses {
    pub(super) there: f64,
    pub(super) back: f64,
    /// Datagrams that the system dropped at the server, and at the load.
    pub(super) dropped: (u64, u64),
}

impl Losses {
    pub(super) fn of(soak: &Soak) -> Self {
        let of = |name| count(&soak.last, name);
        let at_server = soak.after.sum("carob_datagrams_dropped_total", &[]) as u64;
        let sent = soak.after.sum("carob_sent_messages_total", &[]) as u64;
        let at_load = sent.saturating_sub(of("received"));
        let share = |lost: u64, all: u64| lost as f64 / all.max(1) as f64;
        Self {
            there: share(of("sent_lost") + at_server, of("sent")),
            back: share(of("received_lost") + at_load, of("received") + at_load),
            dropped: (at_server, at_load),
        }
    }

    /// That an exchange comes to nothing: of each copy, it or its answer is lost.
    pub(super) fn of_exchange(self) -> f64 {
        let of_copy = 1.0 - (1.0 - self.there) * (1.0 - self.back);
        of_copy.powi(COPIES)
    }
}

/// The probability of `seen` or more where `expected` are to be expected (Poisson).
fn tail(seen: u64, expected: f64) -> f64 {
    let (mut term, mut below) = ((-expected).exp(), 0.0);
    for n in 0..seen {
        below += term;
        term *= expected / (n + 1) as f64;
    }
    (1.0 - below).max(0.0)
}

/// Judges everything.
pub(super) fn judge(soak: &Soak) -> Vec<Check> {
    let last = &soak.last;
    let of = |name| count(last, name);
    let losses = Losses::of(soak);
    let lost = |name, seen: u64, exchanges: u64| {
        let expected = exchanges as f64 * losses.of_exchange();
        Check {
            name,
            seen: format!("{seen} of {exchanges} exchanges; {expected:.2} to be expected"),
            holds: exchanges > 0 && tail(seen, expected) >= CHANCE,
        }
    };
    let server = |labels: &[&str]| soak.after.sum("carob_exchanges_total", labels) as u64;
    let wrong = &last["wrong"];
    let none_wrong = wrong.as_object().is_some_and(serde_json::Map::is_empty);
    let (sum, posts) = (last["sum"].as_u64(), of("posts"));
    let once = of("told_twice") == 0
        && sum.is_some_and(|sum| (posts - of("posts_failed")..=posts).contains(&sum));
    let gap = last["longest_gap_ms"].as_f64().unwrap_or(f64::INFINITY);
    let knowing = of("observers_knowing");
    let injected = [("sent_lost", "sent"), ("received_lost", "received")]
        .map(|(lost, all)| of(lost) as f64 / of(all).max(1) as f64);
    let (line, highest) = memory(soak);
    vec![
        Check {
            name: "datagram loss as configured",
            seen: format!(
                "{:.3} % there, {:.3} % back; {} and {} more found a buffer full",
                injected[0] * 100.0,
                injected[1] * 100.0,
                losses.dropped.0,
                losses.dropped.1
            ),
            holds: injected
                .iter()
                .all(|share| (share / LOSS - 1.0).abs() < 0.05),
        },
        lost(
            "no CON of the clients lost, except by chance",
            of("exchanges_timed_out"),
            of("exchanges"),
        ),
        lost(
            "no CON of the server lost, except by chance",
            server(&["outcome=\"timed-out\""]),
            server(&[]),
        ),
        Check {
            name: "all responses correct",
            seen: format!("{} answers; wrong: {wrong}", of("answered")),
            holds: none_wrong && of("answered") > 0,
        },
        Check {
            name: "every POST ran once",
            seen: format!(
                "{posts} sent, {} failed, {} sums reported twice; the sum is {}",
                of("posts_failed"),
                of("told_twice"),
                sum.map_or("unknown".to_owned(), |sum| sum.to_string())
            ),
            holds: once && posts > 0,
        },
        Check {
            name: "no stall",
            seen: format!("{gap:.0} ms without an answer at the longest (line: {STALL_MS:.0})"),
            holds: gap < STALL_MS,
        },
        Check {
            name: "no observer removed, and none received an earlier state",
            seen: format!(
                "{} taken off, {} earlier states",
                of("ended"),
                of("backwards")
            ),
            holds: of("backwards") == 0 && of("ended") <= of("exchanges_timed_out"),
        },
        Check {
            name: "every observer received the last state",
            seen: format!(
                "{} at once, {knowing} after {:.0} s, of {}",
                of("observers_knowing_at_once"),
                last["converging_s"].as_f64().unwrap_or(f64::NAN),
                of("observers")
            ),
            holds: knowing == u64::from(OBSERVERS),
        },
        Check {
            name: "memory within the line of the first third",
            seen: format!(
                "line {:.1} MiB, highest afterwards {:.1}, in the end {:.1}",
                mib(line),
                mib(highest),
                mib(soak.after.rss)
            ),
            holds: highest.max(soak.after.rss) <= line,
        },
        Check {
            name: "tables empty after the load",
            seen: match soak.after.left() {
                None => format!("after {:.0} s", soak.emptying.as_secs_f64()),
                Some(left) => left,
            },
            holds: soak.after.is_empty(),
        },
    ]
}

pub(super) fn mib(kib: u64) -> f64 {
    kib as f64 / 1_024.0
}

/// The line, and the highest after the first third; both in KiB.
fn memory(soak: &Soak) -> (u64, u64) {
    let third = (soak.minutes * 60) as f64 / 3.0;
    let highest = |first: bool, of: &dyn Fn(&Sample) -> u64| {
        let part = soak.samples.iter();
        let part = part.filter(|sample| (sample.seconds <= third) == first);
        part.map(of).max().unwrap_or(0)
    };
    let remembered = |sample: &Sample| sample.sum("carob_remembered_messages", &[]) as u64;
    let more = highest(false, &remembered).saturating_sub(highest(true, &remembered));
    let rss = |sample: &Sample| sample.rss;
    let line = highest(true, &rss) + GROWTH + more * REMEMBERED;
    (line, highest(false, &rss))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;
    use crate::metrics::Metrics;

    fn metrics(timed_out: u32, observers: u32) -> Metrics {
        Metrics::parse(&format!(
            "carob_sent_messages_total{{}} 1000000\n\
            carob_exchanges_total{{outcome=\"answered\"}} 9000\n\
            carob_exchanges_total{{outcome=\"timed-out\"}} {timed_out}\n\
            carob_observers{{}} {observers}\n"
        ))
    }

    fn good() -> Soak {
        let sample = |seconds, rss| Sample {
            seconds,
            rss,
            ..Sample::default()
        };
        Soak {
            minutes: 1,
            seed: 1,
            samples: vec![sample(10.0, 20_000), sample(50.0, 20_500)],
            last: json!({
                "answered": 1_000_000, "wrong": {}, "longest_gap_ms": 12.0,
                "posts": 1_200, "posts_failed": 0, "told_twice": 0, "sum": 1_200,
                "observers": 1_000, "observers_knowing": 1_000,
                "observers_knowing_at_once": 990, "converging_s": 60.0,
                "ended": 0, "backwards": 0,
                "sent": 1_000_000, "sent_lost": 10_000,
                "received": 1_000_000, "received_lost": 10_000,
                "exchanges": 1_000_000, "exchanges_timed_out": 0,
            }),
            after: Sample {
                rss: 20_400,
                metrics: metrics(0, 0),
                ..Sample::default()
            },
            emptying: Duration::ZERO,
        }
    }

    fn failing(soak: &Soak) -> Vec<&'static str> {
        let checks = judge(soak).into_iter();
        checks
            .filter(|check| !check.holds)
            .map(|c| c.name)
            .collect()
    }

    #[test]
    fn each_line_fails_when_what_it_is_about_does() {
        assert_eq!(failing(&good()), [""; 0]);
        let told = |name: &str, value: Value| {
            let mut soak = good();
            soak.last[name] = value;
            failing(&soak).join("; ")
        };
        assert!(told("sent_lost", json!(5_000)).contains("datagram loss"));
        assert!(told("exchanges_timed_out", json!(2)).contains("of the clients"));
        assert!(told("wrong", json!({"4.04": 1})).contains("all responses correct"));
        assert!(told("told_twice", json!(1)).contains("ran once"));
        assert!(told("sum", json!(1_201)).contains("ran once"));
        assert!(told("sum", Value::Null).contains("ran once"));
        assert!(told("longest_gap_ms", json!(1_500.0)).contains("no stall"));
        assert!(told("ended", json!(1)).contains("no observer removed"));
        assert!(told("backwards", json!(1)).contains("earlier state"));
        assert!(told("observers_knowing", json!(999)).contains("the last state"));
        let server = |change: &dyn Fn(&mut Soak)| {
            let mut soak = good();
            change(&mut soak);
            failing(&soak).join("; ")
        };
        assert!(server(&|soak| soak.after.metrics = metrics(1, 0)).contains("of the server"));
        assert!(server(&|soak| soak.after.metrics = metrics(0, 1)).contains("tables"));
        assert!(server(&|soak| soak.samples[1].rss = 23_000).contains("memory"));
        assert!(server(&|soak| soak.after.rss = 23_000).contains("memory"));
    }

    #[test]
    fn a_message_lost_by_chance_is_told_from_one_that_was_not() {
        let losses = Losses::of(&good());
        let of_exchange = (1.0 - 0.99_f64 * 0.99).powi(5);
        assert!((losses.of_exchange() / of_exchange - 1.0).abs() < 1e-9);
        assert!((tail(0, 0.3) - 1.0).abs() < 1e-12);
        assert!((tail(1, 0.3) - (1.0 - (-0.3_f64).exp())).abs() < 1e-12);
        // Of a hundred million exchanges, 0.3 are to be expected: one is chance, five are not.
        let expected = 1e8 * of_exchange;
        assert!(tail(1, expected) > CHANCE && tail(5, expected) < CHANCE);
    }
}
