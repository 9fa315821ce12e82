//! Changes of a path over time: of rate, propagation delay and loss of one direction.
//!
//! A change holds in windows of time: once, periodically or at drawn times. Within a window it sets,
//! scales or raises a value. Changes apply in their order, each to the result of those before it.

use carob_cc::ratio::Ratio;
use carob_cc::time::{Duration, Instant};

use super::trace::Free;
use crate::distribution::TimeDistribution;
use crate::random::{Probability, Stream};

/// Steps of a ramp.
const RAMP_STEPS: u64 = 64;
/// Shortest time from one window to the next.
const GAP_MIN: Duration = Duration::from_millis(1);
/// Shortest mean time from one drawn window to the next.
const DRAWN_MEAN_MIN: Duration = Duration::from_millis(100);
/// The most constant stretches of the rate that one packet crosses; it departs after the last.
const STRETCHES_MAX: u32 = 1 << 20;

/// A change of a direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathChange {
    /// The value that changes.
    pub effect: Effect,
    /// Beginning of the first window, from the beginning of the run. With [`every`](Self::every),
    /// none is the first time drawn from it; else the beginning of the run.
    pub from: Option<Duration>,
    /// Length of a window; none for the rest of the run.
    pub lasts: Option<TimeDistribution>,
    /// Time between the beginnings of two windows; the next begins no earlier than the
    /// window has ended; none for a single window.
    pub every: Option<TimeDistribution>,
    /// Length of a linear ramp at the beginning of a window and after its end, in 64 steps; zero for
    /// a step.
    pub over: Duration,
    /// True if the other direction has the same change with the same drawn times.
    pub is_shared: bool,
}

/// The effect of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The rate in bits per second; at 0 packets wait.
    Rate(Level),
    /// The propagation delay in microseconds. Packets keep their order.
    Delay(Level),
    /// The share of packets lost, each by itself, of those that leave the bottleneck in the window.
    Loss(Probability),
}

/// A changed value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// This value.
    Value(u64),
    /// The value before times this.
    Times(Ratio),
    /// The value before plus this.
    Plus(u64),
}

impl Level {
    fn of(self, before: u64) -> u64 {
        match self {
            Self::Value(value) => value,
            Self::Times(factor) => factor.of(before),
            Self::Plus(more) => before.saturating_add(more),
        }
    }
}

impl PathChange {
    /// Checks that the change is possible.
    ///
    /// # Errors
    ///
    /// The reason, with the remedy.
    pub fn check(&self) -> Result<(), &'static str> {
        let Some(lasts) = self.lasts else {
            return match self.effect {
                Effect::Rate(level) if level.of(u64::MAX) == 0 => {
                    Err("nothing would ever arrive again; say \"to\" or \"for\" when it ends")
                }
                _ if self.every.is_some() => {
                    Err("a change that comes again ends; say \"for\" how long it lasts")
                }
                _ => Ok(()),
            };
        };
        if lasts.is_zero() {
            return Err("a change takes some time");
        }
        if lasts.least() < self.over {
            return Err("a change lasts at least as long as its ramp (\"over\")");
        }
        match self.every {
            Some(TimeDistribution::Uniform { low, high }) if low == high => {
                let TimeDistribution::Uniform { high: longest, .. } = lasts else {
                    return Ok(());
                };
                if low < longest + self.over + GAP_MIN {
                    return Err(
                        "the next change comes at least 1 ms after the end of the one before",
                    );
                }
                Ok(())
            }
            Some(every) if every.mean() < DRAWN_MEAN_MIN => {
                Err("drawn times of changes have a mean of at least 100 ms")
            }
            _ => Ok(()),
        }
    }
}

/// The current window of a change, or its next one.
#[derive(Clone, Debug)]
struct Windows {
    change: PathChange,
    stream: Stream,
    from: Instant,
    /// None if it has no end.
    until: Option<Instant>,
}

impl Windows {
    fn new(change: &PathChange, seed: u64, label: &str, number: u32) -> Self {
        let mut stream = Stream::indexed(seed, &format!("{label}/change"), number);
        let first = match (change.from, change.every) {
            (Some(from), _) => from,
            (None, Some(every)) => every.draw(&mut stream),
            (None, None) => Duration::ZERO,
        };
        let from = Instant::ZERO + first;
        let until = change.lasts.map(|lasts| from + lasts.draw(&mut stream));
        Self {
            change: *change,
            stream,
            from,
            until,
        }
    }

    /// Moves on to the window that has not ended at `now`, ramp included. Times must not decrease.
    fn advance(&mut self, now: Instant) {
        let (Some(lasts), Some(every)) = (self.change.lasts, self.change.every) else {
            return;
        };
        while let Some(until) = self.until
            && until + self.change.over <= now
        {
            let mut next = self.from + every.draw(&mut self.stream);
            // A drawn interval may be shorter than the window: windows of one change never overlap.
            next = next.max(until + self.change.over + GAP_MIN);
            self.from = next;
            self.until = Some(next + lasts.draw(&mut self.stream));
        }
    }

    /// The weight of the change at `now` in 128ths, and the time until which it holds; none for ever.
    fn weight(&mut self, now: Instant) -> (u64, Option<Instant>) {
        self.advance(now);
        if now < self.from {
            return (0, Some(self.from));
        }
        let over = self.change.over;
        // Steps, not a line: the rate has to be constant over a stretch, so that departures are exact. The
        // odd 128ths are the means of the steps.
        let ramp = |begin: Instant| {
            let step = now.since(begin).as_micros() * RAMP_STEPS / over.as_micros();
            let end = (over.as_micros() * (step + 1)).div_ceil(RAMP_STEPS);
            (2 * step + 1, Some(begin + Duration::from_micros(end)))
        };
        if now < self.from + over {
            return ramp(self.from);
        }
        match self.until {
            Some(until) if now >= until + over => (0, None),
            Some(until) if now >= until => {
                let (weight, end) = ramp(until);
                (2 * RAMP_STEPS - weight, end)
            }
            until => (2 * RAMP_STEPS, until),
        }
    }
}

/// The changes of a direction under way.
#[derive(Clone, Debug)]
pub(super) struct Course {
    windows: Vec<Windows>,
    losses: Stream,
    changes_rate: bool,
}

/// The value of `before` moved towards `target` by a weight in 128ths.
fn between(before: u64, target: u64, weight: u64) -> u64 {
    let (a, b) = (i128::from(before), i128::from(target));
    (a + (b - a) * i128::from(weight) / i128::from(2 * RAMP_STEPS)) as u64
}

impl Course {
    /// The changes of a direction; none without any. Drawn times are on the streams
    /// (`<label>/change`, number), those of both directions on (`link/change`, number); losses are
    /// on `<label>/change-loss`.
    pub(super) fn new(changes: &[PathChange], seed: u64, label: &str) -> Option<Self> {
        if changes.is_empty() {
            return None;
        }
        let windows = changes.iter().zip(0..).map(|(change, number)| {
            if let Err(why) = change.check() {
                panic!("a change of a path was not checked: {why}");
            }
            let label = if change.is_shared { "link" } else { label };
            Windows::new(change, seed, label, number)
        });
        let is_rate = |change: &PathChange| matches!(change.effect, Effect::Rate(_));
        Some(Self {
            windows: windows.collect(),
            losses: Stream::new(seed, &format!("{label}/change-loss")),
            changes_rate: changes.iter().any(is_rate),
        })
    }

    pub(super) fn changes_rate(&self) -> bool {
        self.changes_rate
    }

    /// The rate at `now`, and the time until which it holds; none for ever.
    fn rate(&mut self, now: Instant, own: u64) -> (u64, Option<Instant>) {
        let (mut rate, mut until) = (own, None::<Instant>);
        for windows in &mut self.windows {
            let Effect::Rate(level) = windows.change.effect else {
                continue;
            };
            let (weight, end) = windows.weight(now);
            if weight > 0 {
                rate = between(rate, level.of(rate), weight);
            }
            until = match (until, end) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            };
        }
        (rate, until)
    }

    /// The time at which a packet offered at `now` has left a line that is free at `free`.
    pub(super) fn departure(&mut self, own: u64, free: Free, now: Instant, bytes: u32) -> Free {
        let (mut at, rest) = if now > free.at {
            (now, 0)
        } else {
            (free.at, free.rest)
        };
        // In bits times 10^6, the unit of a rate times microseconds.
        let mut work = u128::from(bytes) * 8_000_000 + u128::from(rest);
        // Bounded, because a rate that stays 0 in every window would never finish the packet.
        for _ in 0..STRETCHES_MAX {
            let (rate, until) = self.rate(at, own);
            let left = until.map(|until| until.since(at));
            let possible = left.map(|left| u128::from(rate) * u128::from(left.as_micros()));
            match (possible, left) {
                (Some(possible), Some(left)) if work > possible => {
                    work -= possible;
                    at += left;
                }
                _ => {
                    // A rate of 0 without end is rejected by `check`; 1 keeps the division defined.
                    let rate = u128::from(rate.max(1));
                    let micros = u64::try_from(work / rate).unwrap_or(u64::MAX);
                    return Free {
                        at: at + Duration::from_micros(micros),
                        rest: (work % rate) as u64,
                        opportunity: 0,
                    };
                }
            }
        }
        Free {
            at,
            ..Free::default()
        }
    }

    /// The propagation delay of a packet that departs at `now`.
    pub(super) fn delay(&mut self, now: Instant, own: Duration) -> Duration {
        let mut delay = own.as_micros();
        for windows in &mut self.windows {
            if let Effect::Delay(level) = windows.change.effect {
                let (weight, _) = windows.weight(now);
                if weight > 0 {
                    delay = between(delay, level.of(delay), weight);
                }
            }
        }
        Duration::from_micros(delay)
    }

    /// Whether a packet that departs at `now` is lost, if it is lost without the changes.
    pub(super) fn takes(&mut self, now: Instant, lost: bool) -> bool {
        let mut lost = lost;
        for windows in &mut self.windows {
            if let Effect::Loss(share) = windows.change.effect {
                let (weight, _) = windows.weight(now);
                // On a ramp the share of packets that meet the changed loss grows.
                if weight > 0 && self.losses.happens(Probability::of(weight, 2 * RAMP_STEPS)) {
                    lost = self.losses.happens(share);
                }
            }
        }
        lost
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Direction, DirectionSpec, Verdict};
    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn at(millis: u64) -> Instant {
        Instant::ZERO + ms(millis)
    }

    /// A step at `from`, for ever.
    const fn step(effect: Effect, from: u64) -> PathChange {
        PathChange {
            effect,
            from: Some(ms(from)),
            lasts: None,
            every: None,
            over: Duration::ZERO,
            is_shared: false,
        }
    }

    const fn window(effect: Effect, from: u64, lasts: u64) -> PathChange {
        PathChange {
            lasts: Some(TimeDistribution::constant(ms(lasts))),
            ..step(effect, from)
        }
    }

    /// A line of 8 kbit/s, a byte a millisecond, and 10 ms.
    fn line(changes: &[PathChange]) -> Direction {
        let spec = DirectionSpec {
            delay: ms(10),
            changes: changes.to_vec(),
            ..DirectionSpec::new(8_000, 1_000_000)
        };
        Direction::new(&spec, 1, "d")
    }

    /// Departure and arrival in microseconds of a packet.
    fn passes(line: &mut Direction, millis: u64, bytes: u32) -> (u64, u64) {
        match line.offer(at(millis), bytes) {
            Verdict::Deliver { at, departed, .. } => (departed.as_micros(), at.as_micros()),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_packet_under_way_continues_at_the_new_rate() {
        // 60 bytes by 60 ms, 4 at a tenth of the rate until 100 ms, 36 at the old one.
        let tenth = Effect::Rate(Level::Times(Ratio::new(1, 10)));
        let mut line = line(&[window(tenth, 60, 40)]);
        assert_eq!(passes(&mut line, 0, 100), (136_000, 146_000));
        // A packet in the window alone takes ten times as long.
        let mut line = self::line(&[step(tenth, 60)]);
        assert_eq!(passes(&mut line, 100, 10).0, 200_000);
    }

    #[test]
    fn packets_wait_while_the_rate_is_0() {
        let mut line = line(&[window(Effect::Rate(Level::Value(0)), 50, 1_000)]);
        assert_eq!(passes(&mut line, 0, 100).0, 1_100_000);
        assert_eq!(passes(&mut line, 1_100, 100).0, 1_200_000);
    }

    #[test]
    fn a_ramp_of_the_rate_carries_the_mean_of_its_ends() {
        let double = PathChange {
            over: ms(1_000),
            ..step(Effect::Rate(Level::Value(16_000)), 1_000)
        };
        let mut line = line(&[double]);
        // 1,000 bytes before, 1,500 on the ramp, then 2 bytes a millisecond.
        let (departed, _) = passes(&mut line, 0, 2_700);
        assert!(departed.abs_diff(2_100_000) <= 100, "{departed}");
    }

    #[test]
    fn rates_oscillate_with_their_period() {
        let slow = PathChange {
            every: Some(TimeDistribution::constant(ms(100))),
            ..window(Effect::Rate(Level::Value(2_000)), 50, 50)
        };
        let mut line = line(&[slow]);
        // Each 100 ms carry 50 + 12.5 bytes.
        assert_eq!(passes(&mut line, 0, 62_500).0, 100_000_000);
    }

    #[test]
    fn a_delay_spike_holds_packets_back_in_order() {
        let spike = window(Effect::Delay(Level::Plus(5_000_000)), 100, 50);
        let mut line = line(&[spike]);
        assert_eq!(passes(&mut line, 0, 10).1, 20_000);
        assert_eq!(passes(&mut line, 110, 10).1, 5_130_000);
        // It would arrive at 210 ms, and waits for the packet before it.
        assert_eq!(passes(&mut line, 190, 10).1, 5_130_000);
        assert_eq!(passes(&mut line, 6_000, 10).1, 6_020_000);
    }

    #[test]
    fn delays_on_a_ramp_are_in_proportion() {
        let tenfold = PathChange {
            over: ms(1_000),
            ..window(Effect::Delay(Level::Times(Ratio::new(10, 1))), 0, 2_000)
        };
        let mut line = line(&[tenfold]);
        // Half-way up 55 ms, at the top 100 ms, half-way down 55 ms again.
        for (millis, delay) in [(499, 55), (1_499, 100), (2_499, 55), (3_499, 10)] {
            let (departed, arrived) = passes(&mut line, millis, 1);
            let measured = arrived - departed;
            assert!(measured.abs_diff(delay * 1_000) <= 900, "{measured}");
        }
    }

    #[test]
    fn outage_drops_packets_that_depart_in_it() {
        let outage = window(Effect::Loss(Probability::ALWAYS), 100, 50);
        let mut line = line(&[outage]);
        let lost: Vec<u64> = (0..20)
            .filter(|k| matches!(line.offer(at(k * 10), 10), Verdict::Lost { .. }))
            .collect();
        // Departures at 100, 110, ..., 140 ms.
        assert_eq!(lost, [9, 10, 11, 12, 13]);
        assert_eq!(line.counters().lost, 5);
    }

    #[test]
    fn loss_in_a_window_does_not_shift_other_draws() {
        let loss = super::super::LossSpec::Constant(Probability::ppm(100_000));
        let run = |changes: &[PathChange]| -> Vec<bool> {
            let spec = DirectionSpec {
                loss,
                changes: changes.to_vec(),
                ..DirectionSpec::new(8_000_000, 1_000_000)
            };
            let mut line = Direction::new(&spec, 1, "d");
            (0..30_000)
                .map(|k| matches!(line.offer(at(k), 1), Verdict::Lost { .. }))
                .collect()
        };
        let third = window(Effect::Loss(Probability::ppm(300_000)), 10_000, 10_000);
        let (without, with) = (run(&[]), run(&[third]));
        assert_eq!(without[..9_990], with[..9_990]);
        assert_eq!(without[20_010..], with[20_010..]);
        let lost = with[10_000..20_000].iter().filter(|lost| **lost).count();
        // 3,000 with a standard deviation of 46.
        assert!((2_860..3_140).contains(&lost), "{lost}");
    }

    #[test]
    fn drawn_outages_have_their_means_and_may_be_shared() {
        let mean = |millis| Some(TimeDistribution::Exponential(ms(millis)));
        let outages = PathChange {
            from: None,
            lasts: mean(2_000),
            every: mean(20_000),
            is_shared: true,
            ..step(Effect::Loss(Probability::ALWAYS), 0)
        };
        let run = |change: PathChange, seed, label| -> Vec<bool> {
            let spec = DirectionSpec {
                changes: vec![change],
                ..DirectionSpec::new(8_000_000, 1_000_000)
            };
            let mut line = Direction::new(&spec, seed, label);
            (0..1_000_000)
                .map(|k| matches!(line.offer(at(k * 100), 1), Verdict::Lost { .. }))
                .collect()
        };
        let down = run(outages, 1, "link/down");
        assert_eq!(down, run(outages, 1, "link/up"));
        assert_ne!(down, run(outages, 2, "link/down"));
        let own = PathChange {
            is_shared: false,
            ..outages
        };
        assert_ne!(run(own, 1, "link/down"), run(own, 1, "link/up"));
        // An outage that is due within one begins at its end: the mean cycle is
        // E[max(A, B)] = 20 + 2 - 1 / (1/20 + 1/2) = 20.18 s. Of 4,955 outages 9.1 % join the one
        // before, and 2.5 % pass between two packets.
        let begins = down.windows(2).filter(|pair| !pair[0] && pair[1]).count();
        let share = down.iter().filter(|lost| **lost).count() as f64 / down.len() as f64;
        assert!((4_180..4_580).contains(&begins), "{begins}");
        assert!((share - 0.0991).abs() < 0.006, "{share}");
    }

    #[test]
    fn impossible_changes_are_refused() {
        let rate = Effect::Rate(Level::Times(Ratio::new(1, 2)));
        let constant = |millis| Some(TimeDistribution::constant(ms(millis)));
        let every = |change: PathChange, every| PathChange { every, ..change };
        for (change, expected) in [
            (step(Effect::Rate(Level::Value(0)), 0), "nothing would ever"),
            (every(step(rate, 0), constant(5)), "say \"for\""),
            (window(rate, 0, 0), "takes some time"),
            (every(window(rate, 0, 10), constant(10)), "at least 1 ms"),
            (
                PathChange {
                    over: ms(20),
                    ..window(rate, 0, 10)
                },
                "as long as its ramp",
            ),
            (
                every(
                    window(rate, 0, 10),
                    Some(TimeDistribution::Exponential(ms(50))),
                ),
                "at least 100 ms",
            ),
        ] {
            let why = change.check().expect_err(expected);
            assert!(why.contains(expected), "{why}");
        }
        assert_eq!(every(window(rate, 0, 10), constant(11)).check(), Ok(()));
    }
}
