//! The timers of a run in the order of their start, each with its outcome: the transactions that the study of
//! retransmission counts (Lee et al. 2016, Figure 6) logs.
//!
//! A line of the log is a copy of a request: a request that is sent three times has three. The study
//! logs 1,500 for 1,000 requests, and distinguishes first, second and third timers. A line is a
//! success if the answer came before its timer ran out.

use std::collections::BTreeMap;

use carob_cc::time::{Duration, Instant};
use carob_sim::NO_ITEM;
use carob_sim::spec::RunRecord;
use carob_sim::trace::{Event, SimEvent};

/// Lines of a log that are looked at, as the study has it.
pub const LOGGED_MAX: usize = 1_500;
/// Lines in which controllers may look for a timeout that suits, as the study has it.
pub const SETTLING: usize = 400;
/// Lines in a row that are judged together.
pub const WINDOW: usize = 100;
/// The most timers of a [`WINDOW`] that may run out too early where timers suit.
pub const EARLY_MAX: usize = 10;

/// The end of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The exchange was answered before it ran out.
    Answered,
    /// The timer expired, and every transmission before it, or its response, was lost.
    Lost,
    /// The timer expired although an answer to this copy or an earlier one was to arrive.
    Early,
    /// The timer was running when the run ended.
    Open,
}

/// A timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// When it began.
    pub at: Instant,
    /// Timeout that was set.
    pub timeout: Duration,
    /// Which copy it guarded: 0 is the first.
    pub copy: u8,
    /// Its end.
    pub fate: Fate,
}

/// An exchange.
#[derive(Debug, Default)]
struct Exchange {
    /// Its lines.
    lines: Vec<usize>,
    /// Number of its timers that expired.
    expired: usize,
    /// The copy whose answer arrived first.
    first_answer: Option<u8>,
    is_answered: bool,
}

/// The log of a run whose events were recorded.
pub fn of(record: &RunRecord) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    let mut exchanges: BTreeMap<(u32, u32), Exchange> = BTreeMap::new();
    for Event { at, host, what } in &record.events {
        match *what {
            SimEvent::Armed {
                item,
                attempt,
                timeout,
            } if item != NO_ITEM => {
                let exchange = exchanges.entry((*host, item)).or_default();
                exchange.lines.push(entries.len());
                entries.push(Entry {
                    at: *at,
                    timeout,
                    copy: attempt,
                    fate: Fate::Open,
                });
            }
            SimEvent::Arrived { item, attempt } => {
                // Of a client's exchange nothing but answers arrives there.
                if let Some(exchange) = exchanges.get_mut(&(*host, item)) {
                    exchange.first_answer.get_or_insert(attempt);
                }
            }
            SimEvent::TimedOut { item, .. } | SimEvent::Abandoned { item } => {
                if let Some(exchange) = exchanges.get_mut(&(*host, item)) {
                    exchange.expired += 1;
                }
            }
            SimEvent::Answered { item, .. } => {
                if let Some(exchange) = exchanges.get_mut(&(*host, item)) {
                    exchange.is_answered = true;
                }
            }
            _ => {}
        }
    }
    for exchange in exchanges.values() {
        for (copy, line) in exchange.lines.iter().enumerate() {
            let answered_by = |first: u8| usize::from(first) <= copy;
            entries[*line].fate = if copy < exchange.expired {
                match exchange.first_answer {
                    Some(first) if answered_by(first) => Fate::Early,
                    _ => Fate::Lost,
                }
            } else if exchange.is_answered {
                Fate::Answered
            } else {
                Fate::Open
            };
        }
    }
    entries
}

/// After how many lines timers suit: in every [`WINDOW`] of lines that follows, at most
/// [`EARLY_MAX`] timers ran out too early. All lines if that never comes to pass.
pub fn suitable_after(entries: &[Entry]) -> usize {
    let is_early = |entry: &Entry| entry.fate == Fate::Early;
    let unsuitable = |window: &[Entry]| window.iter().filter(|e| is_early(e)).count() > EARLY_MAX;
    if entries.len() < WINDOW {
        return if unsuitable(entries) {
            entries.len()
        } else {
            0
        };
    }
    let last = entries.windows(WINDOW).rposition(unsuitable);
    match last {
        None => 0,
        // What follows the last such window would be shorter than one.
        Some(start) if start + WINDOW == entries.len() => entries.len(),
        Some(start) => start + 1,
    }
}

/// Deviation from evenly spaced successes after the first [`SETTLING`] lines: the largest distance
/// of their cumulative number from a straight line, over their number. `None` without successes, or
/// with no more lines than that.
pub fn bend(entries: &[Entry]) -> Option<f64> {
    let rest = entries.get(SETTLING..)?;
    let is_success = |entry: &&Entry| entry.fate == Fate::Answered;
    let all = rest.iter().filter(is_success).count() as f64;
    if all == 0.0 {
        return None;
    }
    let (mut reached, mut most) = (0.0_f64, 0.0_f64);
    for (line, entry) in rest.iter().enumerate() {
        reached += f64::from(u8::from(is_success(&entry)));
        let even = all * (line + 1) as f64 / rest.len() as f64;
        most = most.max((reached - even).abs());
    }
    Some(most / all)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn event(at_s: u64, host: u32, what: SimEvent) -> Event {
        Event {
            at: Instant::from_micros(at_s * 1_000_000),
            host,
            what,
        }
    }

    const fn armed(at_s: u64, attempt: u8) -> Event {
        let timeout = Duration::from_secs(2 << attempt);
        let what = SimEvent::Armed {
            item: 7,
            attempt,
            timeout,
        };
        event(at_s, 0, what)
    }

    const fn out(at_s: u64, attempt: u8) -> Event {
        event(at_s, 0, SimEvent::TimedOut { item: 7, attempt })
    }

    fn fates(events: Vec<Event>) -> Vec<Fate> {
        let record = RunRecord {
            events,
            ..RunRecord::default()
        };
        of(&record).iter().map(|entry| entry.fate).collect()
    }

    #[test]
    fn timer_is_early_if_a_reply_followed() {
        // The first copy is lost; the second is answered after the third was sent.
        let arrived = SimEvent::Arrived {
            item: 7,
            attempt: 1,
        };
        let answered = SimEvent::Answered {
            item: 7,
            attempts: 3,
        };
        let events = vec![
            armed(0, 0),
            out(2, 0),
            armed(2, 1),
            out(6, 1),
            armed(6, 2),
            // Another client's exchange of the same number.
            event(7, 1, arrived),
            event(8, 0, arrived),
            event(8, 0, answered),
        ];
        let expected = [Fate::Lost, Fate::Early, Fate::Answered];
        assert_eq!(fates(events), expected);
    }

    #[test]
    fn late_response_shows_that_timers_were_early() {
        let given_up = vec![armed(0, 0), out(2, 0), armed(2, 1)];
        assert_eq!(fates(given_up.clone()), [Fate::Lost, Fate::Open]);
        let mut given_up = given_up;
        given_up.push(event(6, 0, SimEvent::Abandoned { item: 7 }));
        assert_eq!(fates(given_up.clone()), [Fate::Lost, Fate::Lost]);
        let arrived = SimEvent::Arrived {
            item: 7,
            attempt: 0,
        };
        given_up.push(event(9, 0, arrived));
        assert_eq!(fates(given_up), [Fate::Early, Fate::Early]);
    }

    fn log(fates: impl Iterator<Item = Fate>) -> Vec<Entry> {
        let entry = |fate| Entry {
            at: Instant::ZERO,
            timeout: Duration::from_secs(2),
            copy: 0,
            fate,
        };
        fates.map(entry).collect()
    }

    #[test]
    fn timers_suit_after_the_last_window_with_too_many_early_ones() {
        let early_until = |end: usize, step: usize| {
            log((0..1_000).map(move |line| {
                if line < end && line % step == 0 {
                    Fate::Early
                } else {
                    Fate::Answered
                }
            }))
        };
        assert_eq!(suitable_after(&early_until(0, 1)), 0);
        // One in ten is as many as there may be.
        assert_eq!(suitable_after(&early_until(1_000, 10)), 0);
        // Every second one of the first 300: the window from 278 on has 11, the next 10.
        assert_eq!(suitable_after(&early_until(300, 2)), 279);
        assert_eq!(suitable_after(&early_until(1_000, 2)), 1_000);
        assert_eq!(suitable_after(&early_until(1_000, 2)[..50]), 50);
        assert_eq!(suitable_after(&[]), 0);
    }

    #[test]
    fn evenly_spaced_successes_are_linear() {
        let of = |success: fn(usize) -> bool| {
            let fate = move |line| {
                if success(line) {
                    Fate::Answered
                } else {
                    Fate::Lost
                }
            };
            bend(&log((0..1_400).map(fate)))
        };
        assert!(of(|_| true).is_some_and(|bend| bend < 1e-9));
        assert!(of(|line| line % 2 == 0).is_some_and(|bend| bend < 0.003));
        // All of them in the first half.
        assert!(of(|line| line < 900).is_some_and(|bend| (bend - 0.5).abs() < 1e-9));
        assert_eq!(of(|line| line < 400), None, "none after the settling");
        assert_eq!(bend(&log((0..400).map(|_| Fate::Answered))), None);
    }
}
