//! Series of rate, delay and loss that one direction of a link replays.

use std::fmt;

use carob_cc::ratio::Ratio;
use carob_cc::time::{Duration, Instant};

use crate::random::{Probability, Stream};

/// The maximum number of rows of a trace.
pub const TRACE_ROWS_MAX: usize = 1 << 20;
/// Bytes of a delivery opportunity (Mahimahi: a packet of the MTU of Ethernet).
pub const OPPORTUNITY_BYTES: u32 = 1_500;

/// A row of a trace: values from its time until the next row's. A value that is absent is the
/// direction's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceRow {
    /// Time since the trace began.
    pub at: Duration,
    /// Bits per second; 0 in an outage.
    pub rate_bps: Option<u64>,
    /// Propagation delay, in the place of [`DirectionSpec::delay`](super::DirectionSpec::delay).
    pub delay: Option<Duration>,
    /// Share of packets lost, each by itself, in the place of
    /// [`DirectionSpec::loss`](super::DirectionSpec::loss).
    pub loss: Option<Probability>,
}

/// A measured or made series, checked. Rates are in bits per second over time, or opportunities to
/// deliver 1500 bytes each, as Mahimahi records them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkTrace {
    series: Series,
    length: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Series {
    Rows {
        rows: Vec<TraceRow>,
        /// Work of the whole trace, in bits times microseconds per second; 0 without rates.
        work: u128,
    },
    /// Times of delivery opportunities, in order.
    Opportunities(Vec<Duration>),
}

/// A trace that cannot be replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceError {
    /// There is no row.
    Empty,
    /// There are more than [`TRACE_ROWS_MAX`] rows.
    TooLong,
    /// The time of this row, counted from 0, is before the time of the row above, or for rows of values
    /// the same.
    OutOfOrder(usize),
    /// A column has no value in this row.
    Uneven(usize),
    /// The rate is 0 in every row, or the last opportunity is at 0.
    NoRate,
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("a trace has at least one row"),
            Self::TooLong => write!(f, "a trace has at most {TRACE_ROWS_MAX} rows"),
            Self::OutOfOrder(_) => f.write_str("times must increase"),
            Self::Uneven(_) => f.write_str("a column has a value in every row or in none"),
            Self::NoRate => f.write_str("nothing would ever be delivered"),
        }
    }
}

impl std::error::Error for TraceError {}

impl LinkTrace {
    /// A trace of values over time. The first row begins it; the last one lasts as long as the one
    /// before it, or a second if it is the only one.
    pub fn of_rows(mut rows: Vec<TraceRow>) -> Result<Self, TraceError> {
        let first = *rows.first().ok_or(TraceError::Empty)?;
        if rows.len() > TRACE_ROWS_MAX {
            return Err(TraceError::TooLong);
        }
        let has = |row: &TraceRow| {
            [
                row.rate_bps.is_some(),
                row.delay.is_some(),
                row.loss.is_some(),
            ]
        };
        for place in 1..rows.len() {
            if rows[place].at <= rows[place - 1].at {
                return Err(TraceError::OutOfOrder(place));
            }
            if has(&rows[place]) != has(&first) {
                return Err(TraceError::Uneven(place));
            }
        }
        for row in &mut rows {
            row.at = row.at.saturating_sub(first.at);
        }
        // A row ends where the next one starts; the last one gets the length of the row before it.
        let last = rows.len() - 1;
        let lasts = match last {
            0 => Duration::from_secs(1),
            _ => rows[last].at.saturating_sub(rows[last - 1].at),
        };
        let length = rows[last].at + lasts;
        let ends = rows.iter().skip(1).map(|row| row.at).chain([length]);
        let works = rows.iter().zip(ends).map(|(row, end)| {
            let rate = u128::from(row.rate_bps.unwrap_or(0));
            rate * u128::from(end.saturating_sub(row.at).as_micros())
        });
        let work = works.sum();
        if first.rate_bps.is_some() && work == 0 {
            return Err(TraceError::NoRate);
        }
        Ok(Self {
            series: Series::Rows { rows, work },
            length,
        })
    }

    /// A trace of delivery opportunities, of [`OPPORTUNITY_BYTES`] each. The last one ends it.
    pub fn of_opportunities(times: Vec<Duration>) -> Result<Self, TraceError> {
        let length = *times.last().ok_or(TraceError::Empty)?;
        if times.len() > TRACE_ROWS_MAX {
            return Err(TraceError::TooLong);
        }
        if let Some(place) = times.windows(2).position(|pair| pair[1] < pair[0]) {
            return Err(TraceError::OutOfOrder(place + 1));
        }
        if length.is_zero() {
            return Err(TraceError::NoRate);
        }
        Ok(Self {
            series: Series::Opportunities(times),
            length,
        })
    }

    /// Its length, after which it repeats or ends.
    pub fn length(&self) -> Duration {
        self.length
    }

    /// Number of rows or opportunities.
    pub fn rows(&self) -> usize {
        match &self.series {
            Series::Rows { rows, .. } => rows.len(),
            Series::Opportunities(times) => times.len(),
        }
    }

    /// The mean rate in bits per second, at least 1; none if it has no rates.
    pub fn mean_rate_bps(&self) -> Option<u64> {
        let work = match &self.series {
            Series::Rows { rows, work } => {
                rows[0].rate_bps?;
                *work
            }
            Series::Opportunities(times) => {
                times.len() as u128 * u128::from(OPPORTUNITY_BYTES) * 8_000_000
            }
        };
        let mean = work / u128::from(self.length.as_micros());
        Some(u64::try_from(mean).unwrap_or(u64::MAX).max(1))
    }

    /// Whether it has losses.
    pub fn has_loss(&self) -> bool {
        matches!(&self.series, Series::Rows { rows, .. } if rows[0].loss.is_some())
    }

    /// Whether it has rates.
    pub fn has_rate(&self) -> bool {
        match &self.series {
            Series::Rows { rows, .. } => rows[0].rate_bps.is_some(),
            Series::Opportunities(_) => true,
        }
    }

    /// Whether it has delays.
    pub fn has_delay(&self) -> bool {
        matches!(&self.series, Series::Rows { rows, .. } if rows[0].delay.is_some())
    }

    /// Its rows; none of opportunities.
    pub fn values(&self) -> &[TraceRow] {
        match &self.series {
            Series::Rows { rows, .. } => rows,
            Series::Opportunities(_) => &[],
        }
    }

    /// The means of `steps` equal steps, at least one: rates by time, and delays and losses too.
    pub fn steps(&self, count: usize) -> Vec<TraceRow> {
        let length = self.length.as_micros();
        let count = count.max(1) as u64;
        let end = |step: u64| (u128::from(length) * u128::from(step) / u128::from(count)) as u64;
        let mean = |step: u64| self.mean(end(step), end(step + 1).max(end(step) + 1));
        (0..count).map(mean).collect()
    }

    /// Means from one time to a later one, in microseconds.
    fn mean(&self, from: u64, to: u64) -> TraceRow {
        let [at, end] = [from, to].map(Duration::from_micros);
        let width = u128::from(to - from);
        let rows = match &self.series {
            Series::Rows { rows, .. } => rows,
            Series::Opportunities(times) => {
                // Intervals are half-open, (from, to], except that the first one includes time 0.
                let until = |end: Duration| times.partition_point(|time| *time <= end);
                let before = if from == 0 { 0 } else { until(at) };
                let bits = (until(end) - before) as u128 * u128::from(OPPORTUNITY_BYTES) * 8;
                return TraceRow {
                    at,
                    rate_bps: Some((bits * 1_000_000 / width) as u64),
                    delay: None,
                    loss: None,
                };
            }
        };
        let first = rows.partition_point(|row| row.at <= at).saturating_sub(1);
        let last = rows.partition_point(|row| row.at < end);
        let of = |value: &dyn Fn(&TraceRow) -> Option<u64>| {
            let mut sum = 0;
            for place in first..last {
                let next = rows.get(place + 1).map_or(self.length, |row| row.at);
                let share = next.min(end).saturating_sub(rows[place].at.max(at));
                sum += u128::from(value(&rows[place])?) * u128::from(share.as_micros());
            }
            Some((sum / width) as u64)
        };
        TraceRow {
            at,
            rate_bps: of(&|row| row.rate_bps),
            delay: of(&|row| row.delay.map(Duration::as_micros)).map(Duration::from_micros),
            loss: of(&|row| row.loss.map(|loss| (loss.as_f64() * 1e6 + 0.5) as u64))
                .map(|ppm| Probability::ppm(ppm as u32)),
        }
    }

    /// The same with delays and losses times a ratio each; a loss is at most 1.
    #[must_use]
    pub fn scaled(&self, delay: Ratio, loss: Ratio) -> Self {
        let mut scaled = self.clone();
        if let Series::Rows { rows, .. } = &mut scaled.series {
            for row in rows {
                row.delay = row.delay.map(|time| time.scale(delay));
                row.loss = row.loss.map(|share| share.scale(loss));
            }
        }
        scaled
    }

    /// The row in force so long after the beginning of a cycle, and when it ends.
    fn row_at(&self, into: Duration) -> Option<(&TraceRow, Duration)> {
        let Series::Rows { rows, .. } = &self.series else {
            return None;
        };
        let next = rows.partition_point(|row| row.at <= into);
        let end = rows.get(next).map_or(self.length, |row| row.at);
        Some((&rows[next.checked_sub(1)?], end))
    }
}

/// What follows the end of a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TraceEnd {
    /// The trace again.
    #[default]
    Loop,
    /// The direction's own rate, delay and loss.
    Cut,
}

/// The place of a trace at which a run begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TraceStart {
    /// Its first row.
    #[default]
    First,
    /// A time drawn uniformly from its length, on the stream `"link/trace"` of the run's seed. Traces
    /// of equal length begin at the same time in both directions.
    Drawn,
}

/// A trace in the place of a direction's rate, delay and loss.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replay {
    /// The trace.
    pub trace: std::sync::Arc<LinkTrace>,
    /// What follows its end.
    pub end: TraceEnd,
    /// Where it begins.
    pub start: TraceStart,
}

/// The number of all opportunities after the end of a trace that is cut.
const AFTER_END: u64 = u64::MAX;

/// Time at which a line is free again: a time, and the part of the next microsecond's work, or the
/// bytes left of an opportunity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Free {
    pub(super) at: Instant,
    pub(super) rest: u64,
    /// The opportunity in use, counted from the beginning of the first cycle.
    pub(super) opportunity: u64,
}

/// A replay under way.
#[derive(Clone, Debug)]
pub(super) struct Player {
    replay: Replay,
    /// Time of the trace at the beginning of the run.
    offset: Duration,
    /// Rate after the end of a trace that is cut.
    own_rate_bps: u64,
}

impl Replay {
    /// Time of the trace at the beginning of a run with this seed.
    pub fn offset(&self, seed: u64) -> Duration {
        match self.start {
            TraceStart::First => Duration::ZERO,
            TraceStart::Drawn => {
                let draw = u128::from(Stream::new(seed, "link/trace").next_u64());
                let length = u128::from(self.trace.length.as_micros());
                Duration::from_micros(((draw * length) >> 64) as u64)
            }
        }
    }
}

impl Player {
    pub(super) fn new(replay: &Replay, own_rate_bps: u64, seed: u64) -> Self {
        Self {
            replay: replay.clone(),
            offset: replay.offset(seed),
            own_rate_bps,
        }
    }

    /// The number of the cycle at a time, and the time into it; none after the end.
    fn place(&self, now: Instant) -> Option<(u64, Duration)> {
        let length = self.replay.trace.length.as_micros();
        let time = now.as_micros().saturating_add(self.offset.as_micros());
        let cycle = time / length;
        (cycle == 0 || self.replay.end == TraceEnd::Loop)
            .then(|| (cycle, Duration::from_micros(time % length)))
    }

    /// The row in force at a time.
    pub(super) fn row(&self, now: Instant) -> Option<&TraceRow> {
        let (_, into) = self.place(now)?;
        Some(self.replay.trace.row_at(into)?.0)
    }

    /// Whether the direction's own rate is in force throughout.
    pub(super) fn has_rate(&self) -> bool {
        self.replay.trace.has_rate()
    }

    /// The time at which a packet offered at `now` has left a line that is free at `free`.
    pub(super) fn departure(&self, free: Free, now: Instant, bytes: u32) -> Free {
        match &self.replay.trace.series {
            Series::Rows { work, .. } => {
                let (start, rest) = if now > free.at {
                    (now, 0)
                } else {
                    (free.at, free.rest)
                };
                self.over_rates(
                    start,
                    *work,
                    u128::from(bytes) * 8_000_000 + u128::from(rest),
                )
            }
            Series::Opportunities(times) => self.at_opportunities(times, free, now, bytes),
        }
    }

    /// Serves work from `start` on, at the rates of the rows. A whole trace does `cycle` of it.
    fn over_rates(&self, start: Instant, cycle: u128, mut work: u128) -> Free {
        let mut at = start;
        // Whole cycles at once: a large packet may outlast a short trace many times. (work - 1) leaves a
        // rest of at least 1, so that the packet departs within a row and not at the seam.
        if self.replay.end == TraceEnd::Loop && work > cycle {
            let cycles = (work - 1) / cycle;
            work -= cycles * cycle;
            let cycles = u64::try_from(cycles).unwrap_or(u64::MAX);
            at += self.replay.trace.length.times(cycles);
        }
        loop {
            let found = self.place(at).and_then(|(_, into)| {
                let (row, end) = self.replay.trace.row_at(into)?;
                Some((row.rate_bps?, end.saturating_sub(into)))
            });
            let (rate, left) = found
                .map_or((u128::from(self.own_rate_bps), None), |(rate, left)| {
                    (u128::from(rate), Some(left))
                });
            let possible = left.map(|left| rate * u128::from(left.as_micros()));
            match (possible, left) {
                (Some(possible), Some(left)) if work > possible => {
                    work -= possible;
                    at += left;
                }
                _ => {
                    let micros = work.checked_div(rate).unwrap_or(0);
                    return Free {
                        at: at + Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX)),
                        rest: work.checked_rem(rate).unwrap_or(0) as u64,
                        opportunity: 0,
                    };
                }
            }
        }
    }

    /// Uses opportunities from `now` on. The rest of one serves packets that wait at its time, and
    /// is lost otherwise.
    fn at_opportunities(&self, times: &[Duration], free: Free, now: Instant, bytes: u32) -> Free {
        if free.opportunity == AFTER_END {
            return self.at_own_rate(free.at.max(now), bytes);
        }
        let (mut number, mut left) = if now > free.at || free == Free::default() {
            let Some((cycle, into)) = self.place(now) else {
                return self.at_own_rate(now, bytes);
            };
            let next = times.partition_point(|time| *time < into);
            (cycle * times.len() as u64 + next as u64, OPPORTUNITY_BYTES)
        } else {
            (free.opportunity, free.rest as u32)
        };
        let mut bytes = bytes;
        while bytes > left {
            bytes -= left;
            left = OPPORTUNITY_BYTES;
            number += 1;
        }
        let count = times.len() as u64;
        if self.replay.end == TraceEnd::Cut && number >= count {
            let end = Instant::ZERO + self.replay.trace.length.saturating_sub(self.offset);
            return self.at_own_rate(end.max(free.at).max(now), bytes);
        }
        let time =
            self.replay.trace.length.times(number / count) + times[(number % count) as usize];
        Free {
            at: Instant::ZERO + time.saturating_sub(self.offset),
            rest: u64::from(left - bytes),
            opportunity: number,
        }
    }

    /// Serves a packet after the end of opportunities.
    fn at_own_rate(&self, start: Instant, bytes: u32) -> Free {
        let micros = u64::from(bytes) * 8_000_000 / self.own_rate_bps;
        Free {
            at: start + Duration::from_micros(micros),
            rest: 0,
            opportunity: AFTER_END,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Direction, DirectionSpec, LossSpec, Verdict};
    use super::*;

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn row(at: u64, rate_bps: u64) -> TraceRow {
        TraceRow {
            at: ms(at),
            rate_bps: Some(rate_bps),
            delay: None,
            loss: None,
        }
    }

    #[test]
    fn trace_steps_are_means() {
        let trace = LinkTrace::of_rows(vec![row(0, 10_000), row(1_000, 30_000)]).expect("a trace");
        let rates = |trace: &LinkTrace, count| -> Vec<Option<u64>> {
            trace.steps(count).iter().map(|row| row.rate_bps).collect()
        };
        assert_eq!(rates(&trace, 1), [Some(20_000)]);
        assert_eq!(rates(&trace, 4), [10_000, 10_000, 30_000, 30_000].map(Some));
        // Two packets of 1500 B in the first half second, one in the second.
        let times = [100, 500, 1_000].map(ms).to_vec();
        let trace = LinkTrace::of_opportunities(times).expect("a trace");
        assert_eq!(rates(&trace, 2), [48_000, 24_000].map(Some));
        assert!(trace.values().is_empty());
    }

    fn direction(trace: LinkTrace, end: TraceEnd, start: TraceStart) -> Direction {
        let replay = Replay {
            trace: trace.into(),
            end,
            start,
        };
        let spec = DirectionSpec {
            replay: Some(replay),
            ..DirectionSpec::new(8_000, 1_000_000)
        };
        Direction::new(&spec, 1, "link/down")
    }

    /// Departures of packets in microseconds, each offered at its time in milliseconds.
    fn departures(line: &mut Direction, offers: &[(u64, u32)]) -> Vec<u64> {
        let one = |&(at, bytes): &(u64, u32)| match line.offer(Instant::ZERO + ms(at), bytes) {
            Verdict::Deliver { departed, .. } => departed.as_micros(),
            other => panic!("{other:?}"),
        };
        offers.iter().map(one).collect()
    }

    fn trace(rows: &[(u64, u64)]) -> LinkTrace {
        let rows = rows.iter().map(|(at, rate)| row(*at, *rate)).collect();
        LinkTrace::of_rows(rows).expect("a trace")
    }

    #[test]
    fn a_constant_trace_is_the_constant_rate() {
        let mut plain = Direction::new(&DirectionSpec::new(30_000, 1_000_000), 1, "d");
        let rows = [(0, 30_000), (7, 30_000), (20, 30_000)];
        let mut traced = direction(trace(&rows), TraceEnd::Loop, TraceStart::First);
        let offers: Vec<(u64, u32)> = (0..300)
            .map(|k| (k * 40, 40 + (k as u32 * 37) % 250))
            .collect();
        assert_eq!(
            departures(&mut plain, &offers),
            departures(&mut traced, &offers)
        );
    }

    #[test]
    fn a_packet_crosses_rates_and_outages() {
        // 100 bit in 100 ms, then nothing for 100 ms, then 1,000 bit in 100 ms; again.
        let rows = [(0, 1_000), (100, 0), (200, 10_000)];
        let mut line = direction(trace(&rows), TraceEnd::Loop, TraceStart::First);
        // 200 bit: 100 by 100 ms, 100 more 10 ms after the outage.
        assert_eq!(departures(&mut line, &[(0, 25)]), [210_000]);
        // 2,200 bit are two cycles of the trace.
        let mut line = direction(trace(&rows), TraceEnd::Loop, TraceStart::First);
        assert_eq!(departures(&mut line, &[(0, 275)]), [600_000]);
        // The second one waits for the first.
        let mut line = direction(trace(&rows), TraceEnd::Loop, TraceStart::First);
        assert_eq!(
            departures(&mut line, &[(150, 50), (150, 50)]),
            [240_000, 280_000]
        );
    }

    #[test]
    fn truncated_trace_falls_back_to_the_configured_rate() {
        let rows = [(0, 1_000), (100, 1_000)];
        let mut line = direction(trace(&rows), TraceEnd::Cut, TraceStart::First);
        // 200 bit in 200 ms, then 8 bit a millisecond.
        assert_eq!(
            departures(&mut line, &[(0, 25), (0, 10)]),
            [200_000, 210_000]
        );
    }

    #[test]
    fn delay_and_loss_are_those_of_the_departure() {
        let values = |at, delay, loss| TraceRow {
            at: ms(at),
            rate_bps: None,
            delay: Some(ms(delay)),
            loss: Some(Probability::ppm(loss)),
        };
        let rows = vec![values(0, 30, 0), values(100, 10, 1_000_000)];
        let trace = LinkTrace::of_rows(rows).expect("a trace");
        assert!(trace.has_loss() && trace.has_delay() && trace.mean_rate_bps().is_none());
        let mut line = direction(trace, TraceEnd::Loop, TraceStart::First);
        // 8 kbit/s: a byte a millisecond.
        let at = |millis| Instant::ZERO + ms(millis);
        let first = line.offer(at(0), 50);
        assert!(
            matches!(first, Verdict::Deliver { at: end, .. } if end == at(80)),
            "{first:?}"
        );
        let second = line.offer(at(0), 50);
        assert!(
            matches!(second, Verdict::Lost { departed } if departed == at(100)),
            "{second:?}"
        );
    }

    #[test]
    fn scaled_traces_have_other_delays_and_losses() {
        let values = |delay, loss| TraceRow {
            at: ms(5),
            rate_bps: None,
            delay: Some(ms(delay)),
            loss: Some(Probability::ppm(loss)),
        };
        let trace = LinkTrace::of_rows(vec![values(30, 500_000)]).expect("a trace");
        let scaled = trace.scaled(Ratio::new(1, 2), Ratio::new(2, 1));
        let expected = LinkTrace::of_rows(vec![values(15, 1_000_000)]);
        assert_eq!(Ok(scaled), expected);
        let most = trace.scaled(Ratio::new(1, 1), Ratio::new(9, 1));
        assert_eq!(Ok(most), LinkTrace::of_rows(vec![values(30, 1_000_000)]));
    }

    #[test]
    fn opportunities_carry_1500_bytes_or_expire() {
        let times = [2, 4, 4, 10].map(ms).to_vec();
        let trace = LinkTrace::of_opportunities(times).expect("a trace");
        assert_eq!(trace.mean_rate_bps(), Some(4_800_000));
        let mut line = direction(trace, TraceEnd::Loop, TraceStart::First);
        // Three small packets share the first; a large one takes the rest and half of the second.
        let offers = [(0, 100), (0, 100), (1, 100), (1, 2_000), (3, 1_400)];
        assert_eq!(
            departures(&mut line, &offers),
            [2_000, 2_000, 2_000, 4_000, 4_000]
        );
        // The next cycle begins at 10 ms.
        assert_eq!(
            departures(&mut line, &[(5, 1_500), (11, 10)]),
            [10_000, 12_000]
        );
        assert_eq!(departures(&mut line, &[(1_003, 10)]), [1_004_000]);
    }

    #[test]
    fn truncated_opportunities_fall_back_to_the_rate() {
        let times = [1, 2].map(ms).to_vec();
        let trace = LinkTrace::of_opportunities(times).expect("a trace");
        let mut line = direction(trace, TraceEnd::Cut, TraceStart::First);
        let offers = [(0, 1_500), (0, 1_500), (0, 10), (0, 10), (100, 10)];
        assert_eq!(
            departures(&mut line, &offers),
            [1_000, 2_000, 12_000, 22_000, 110_000]
        );
    }

    #[test]
    fn drawn_starts_differ_by_seed_and_agree_between_directions() {
        let rows = [(0, 1_000), (500, 100_000)];
        let departs = |seed, label| {
            let replay = Replay {
                trace: trace(&rows).into(),
                end: TraceEnd::Loop,
                start: TraceStart::Drawn,
            };
            let spec = DirectionSpec {
                replay: Some(replay),
                loss: LossSpec::None,
                ..DirectionSpec::new(8_000, 1_000_000)
            };
            departures(&mut Direction::new(&spec, seed, label), &[(0, 200)])
        };
        assert_eq!(departs(1, "link/down"), departs(1, "link/up"));
        let all: std::collections::BTreeSet<_> = (0..20).map(|seed| departs(seed, "d")).collect();
        assert!(all.len() > 10, "{all:?}");
    }

    #[test]
    fn traces_that_cannot_be_replayed_are_refused() {
        let of = |rows: &[(u64, u64)]| {
            LinkTrace::of_rows(rows.iter().map(|(at, rate)| row(*at, *rate)).collect())
        };
        assert_eq!(of(&[]), Err(TraceError::Empty));
        assert_eq!(of(&[(0, 1), (0, 1)]), Err(TraceError::OutOfOrder(1)));
        assert_eq!(of(&[(0, 0), (1, 0)]), Err(TraceError::NoRate));
        let uneven = TraceRow {
            delay: Some(ms(1)),
            ..row(5, 1)
        };
        assert_eq!(
            LinkTrace::of_rows(vec![row(0, 1), uneven]),
            Err(TraceError::Uneven(1))
        );
        let times =
            |times: &[u64]| LinkTrace::of_opportunities(times.iter().copied().map(ms).collect());
        assert_eq!(times(&[]), Err(TraceError::Empty));
        assert_eq!(times(&[3, 2]), Err(TraceError::OutOfOrder(1)));
        assert_eq!(times(&[0, 0]), Err(TraceError::NoRate));
        let many = vec![ms(1); TRACE_ROWS_MAX + 1];
        assert_eq!(LinkTrace::of_opportunities(many), Err(TraceError::TooLong));
    }
}
