//! Impairments of a direction besides loss and queueing: a policer, bit errors, corruption,
//! reordering, duplication.

use carob_cc::ratio::Ratio;
use carob_cc::time::{Duration, Instant};

use crate::distribution::TimeDistribution;
use crate::random::{Probability, Stream};

/// Impairments of a direction. Default: none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Impairments {
    /// The policer before the buffer.
    pub policer: Option<Policer>,
    /// Bit error rate: a packet of `n` bytes is lost with probability `1 - (1 - rate)^(8 n)`, after it
    /// has used the link.
    pub bit_errors: Ratio,
    /// Share of packets that arrive damaged, so that a checksum discards them.
    pub corruption: Probability,
    /// Reordering.
    pub reordering: Option<Reordering>,
    /// Share of packets that arrive twice, the copy right after the packet. The copy uses no
    /// capacity.
    pub duplication: Probability,
}

/// A token bucket without a queue: packets beyond it are dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policer {
    /// Rate of tokens in bits per second; above 0.
    pub rate_bps: u64,
    /// Size of the bucket, full at the beginning, in bytes. A larger packet never passes.
    pub burst_bytes: u64,
}

/// Packets that arrive late, so that later ones overtake them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reordering {
    /// Share of packets that are late.
    pub share: Probability,
    /// Their additional delay.
    pub delay: TimeDistribution,
}

impl Impairments {
    /// No impairments.
    pub const NONE: Self = Self {
        policer: None,
        bit_errors: Ratio::new(0, 1),
        corruption: Probability::NEVER,
        reordering: None,
        duplication: Probability::NEVER,
    };

    /// Checks that the impairments are possible.
    ///
    /// # Errors
    ///
    /// The reason.
    pub fn check(&self) -> Result<(), &'static str> {
        if self.bit_errors.of(PER_BILLION) >= PER_BILLION {
            return Err("a bit error rate is below 1");
        }
        match self.policer {
            Some(policer) if policer.rate_bps == 0 || policer.burst_bytes == 0 => {
                Err("a policer has a rate and a burst")
            }
            _ => Ok(()),
        }
    }
}

impl Default for Impairments {
    fn default() -> Self {
        Self::NONE
    }
}

/// Resolution of a bit error rate.
const PER_BILLION: u64 = 1_000_000_000;

/// Token bucket with exact arithmetic: work is in bits times microseconds per second.
#[derive(Clone, Debug)]
struct Bucket {
    policer: Policer,
    tokens: u128,
    updated: Instant,
}

impl Bucket {
    fn new(policer: Policer) -> Self {
        Self {
            policer,
            tokens: Self::work(policer.burst_bytes),
            updated: Instant::ZERO,
        }
    }

    fn work(bytes: u64) -> u128 {
        u128::from(bytes) * 8_000_000
    }

    /// Takes the tokens of a packet, if there are enough.
    fn admits(&mut self, now: Instant, bytes: u32) -> bool {
        // 64 bits of time and 64 bits of rate do not fit in less than 128 bits.
        let since = u128::from(now.since(self.updated).as_micros());
        let more = since * u128::from(self.policer.rate_bps);
        self.tokens = (self.tokens + more).min(Self::work(self.policer.burst_bytes));
        self.updated = now;
        let cost = Self::work(bytes.into());
        let enough = self.tokens >= cost;
        if enough {
            self.tokens -= cost;
        }
        enough
    }
}

/// Impairments under way, each with a stream.
#[derive(Clone, Debug)]
pub(super) struct Impaired {
    spec: Impairments,
    bucket: Option<Bucket>,
    /// Logarithm of the probability that a bit is right.
    right_bit: f64,
    bit_errors: Stream,
    corruption: Stream,
    reordering: Stream,
    duplication: Stream,
}

impl Impaired {
    /// The impairments of a direction; none if there are none. Streams are `<label>/bit-errors`,
    /// `<label>/corruption`, `<label>/reordering` and `<label>/duplication`.
    pub(super) fn new(spec: &Impairments, seed: u64, label: &str) -> Option<Self> {
        if *spec == Impairments::NONE {
            return None;
        }
        if let Err(why) = spec.check() {
            panic!("impairments were not checked: {why}");
        }
        let stream = |name| Stream::new(seed, &format!("{label}/{name}"));
        let rate = spec.bit_errors.of(PER_BILLION) as f64 / PER_BILLION as f64;
        Some(Self {
            spec: *spec,
            bucket: spec.policer.map(Bucket::new),
            right_bit: libm::log1p(-rate),
            bit_errors: stream("bit-errors"),
            corruption: stream("corruption"),
            reordering: stream("reordering"),
            duplication: stream("duplication"),
        })
    }

    /// Returns whether the policer passes a packet.
    pub(super) fn admits(&mut self, now: Instant, bytes: u32) -> bool {
        let bucket = self.bucket.as_mut();
        bucket.is_none_or(|bucket| bucket.admits(now, bytes))
    }

    /// Returns whether bit errors lose a packet.
    pub(super) fn has_bit_error(&mut self, bytes: u32) -> bool {
        if self.right_bit == 0.0 {
            return false;
        }
        // log1p and expm1 keep precision for rates of 1e-6 and less; libm's are the same on every platform.
        let lost = -libm::expm1(8.0 * f64::from(bytes) * self.right_bit);
        let ppb = (lost * PER_BILLION as f64 + 0.5) as u64;
        self.bit_errors.happens(Probability::of(ppb, PER_BILLION))
    }

    /// Returns whether a packet arrives damaged.
    pub(super) fn corrupts(&mut self) -> bool {
        drawn(&mut self.corruption, self.spec.corruption)
    }

    /// Returns whether a packet arrives twice.
    pub(super) fn duplicates(&mut self) -> bool {
        drawn(&mut self.duplication, self.spec.duplication)
    }

    /// The additional delay of a packet that others may overtake; none if it keeps its place.
    pub(super) fn lateness(&mut self) -> Option<Duration> {
        let Reordering { share, delay } = self.spec.reordering?;
        // Both are drawn in any case, so that they stay paired when shares differ.
        let late = self.reordering.happens(share);
        let by = delay.draw(&mut self.reordering);
        late.then_some(by)
    }
}

/// A draw only where the event is possible.
fn drawn(stream: &mut Stream, probability: Probability) -> bool {
    probability != Probability::NEVER && stream.happens(probability)
}

#[cfg(test)]
mod tests {
    use super::super::{Counters, Direction, DirectionSpec, LossSpec, Verdict};
    use super::*;

    fn at(micros: u64) -> Instant {
        Instant::from_micros(micros)
    }

    fn line(rate_bps: u64, impairments: Impairments) -> Direction {
        let spec = DirectionSpec {
            delay: Duration::from_millis(10),
            impairments,
            ..DirectionSpec::new(rate_bps, 1_000_000)
        };
        Direction::new(&spec, 1, "d")
    }

    const fn policed(rate_bps: u64, burst_bytes: u64) -> Impairments {
        Impairments {
            policer: Some(Policer {
                rate_bps,
                burst_bytes,
            }),
            ..Impairments::NONE
        }
    }

    #[test]
    fn policer_passes_its_burst_and_then_its_rate() {
        // 8 kbit/s: a byte a millisecond. Packets of 100 bytes every 10 ms are ten times as much.
        let mut line = line(80_000_000, policed(8_000, 1_000));
        let passed = |line: &mut Direction, from: u64, to: u64| -> usize {
            (from..to)
                .filter(|k| line.offer(at(k * 10_000), 100) != Verdict::DropFull)
                .count()
        };
        // The burst of ten packets, and one more of the 90 ms that they take.
        assert_eq!(passed(&mut line, 0, 12), 11);
        // 1,000 bytes and 10 s at the rate: 11,000 bytes in all.
        assert_eq!(passed(&mut line, 12, 1_001), 110 - 11);
        let counters = line.counters();
        assert_eq!((counters.policed, counters.delivered), (1_001 - 110, 110));
        assert_eq!(counters.offered, 1_001);
    }

    #[test]
    fn a_policer_fills_no_further_than_its_burst() {
        let mut line = line(80_000_000, policed(8_000, 1_000));
        let burst = |line: &mut Direction, micros| -> usize {
            (0..50)
                .filter(|_| line.offer(at(micros), 100) != Verdict::DropFull)
                .count()
        };
        assert_eq!(burst(&mut line, 0), 10);
        // Half full after 500 ms, full after an hour, exactly.
        assert_eq!(burst(&mut line, 500_000), 5);
        assert_eq!(burst(&mut line, 3_600_000_000), 10);
    }

    #[test]
    fn a_policer_passes_no_packet_above_its_burst() {
        let mut line = line(80_000_000, policed(3_000, 100));
        assert_eq!(line.offer(at(0), 101), Verdict::DropFull);
        assert_ne!(line.offer(at(0), 100), Verdict::DropFull);
        // 100 bytes at 3 kbit/s take 266,666 2/3 us.
        assert_eq!(line.offer(at(266_666), 100), Verdict::DropFull);
        assert_ne!(line.offer(at(266_667), 100), Verdict::DropFull);
    }

    fn reordered(share: u32, delay: u64) -> Impairments {
        Impairments {
            reordering: Some(Reordering {
                share: Probability::ppm(share),
                delay: TimeDistribution::constant(Duration::from_millis(delay)),
            }),
            ..Impairments::NONE
        }
    }

    /// Arrivals of packets of 100 bytes, sent every 10 ms, in microseconds.
    fn arrivals(line: &mut Direction, count: u64) -> Vec<u64> {
        let one = |k: u64| match line.offer(at(k * 10_000), 100) {
            Verdict::Deliver { at, .. } => at.as_micros(),
            other => panic!("{other:?}"),
        };
        (0..count).map(one).collect()
    }

    #[test]
    fn late_packets_have_their_share_and_delay() {
        let mut line = line(80_000_000, reordered(50_000, 35));
        let arrivals = arrivals(&mut line, 100_000);
        let late = |(k, at): (usize, &u64)| at - (k as u64 * 10_000 + 10_010);
        let delays: Vec<u64> = arrivals.iter().enumerate().map(late).collect();
        assert!(delays.iter().all(|delay| [0, 35_000].contains(delay)));
        let count = delays.iter().filter(|delay| **delay > 0).count() as u64;
        // 5,000 with a standard deviation of 69.
        assert!((4_750..5_250).contains(&count), "{count}");
        assert_eq!(line.counters().reordered, count);
    }

    #[test]
    fn the_extent_of_reordering_is_the_delay_over_the_gap() {
        // RFC 4737 4.2.1: a packet overtaken by three later ones has an extent of 3.
        let mut line = line(80_000_000, reordered(20_000, 35));
        let arrivals = arrivals(&mut line, 50_000);
        let extent = |k: usize| {
            let later = arrivals[k + 1..].iter().take(10);
            later.filter(|at| **at < arrivals[k]).count()
        };
        let late = (0..49_000).filter(|k| arrivals[*k] > *k as u64 * 10_000 + 20_000);
        let extents: Vec<usize> = late.map(extent).collect();
        // A late packet among the three that follow arrives later still: 3 x 2 % of 3.
        let mean = extents.iter().sum::<usize>() as f64 / extents.len() as f64;
        assert!((2.90..2.98).contains(&mean), "{mean}");
        assert!(extents.iter().all(|extent| *extent <= 3));
    }

    #[test]
    fn packets_are_not_reordered_by_default() {
        let mut line = line(80_000_000, reordered(200_000, 9));
        let arrivals = arrivals(&mut line, 10_000);
        assert!(arrivals.is_sorted());
    }

    fn lost(bytes: u32, denominator: u32) -> f64 {
        let impairments = Impairments {
            bit_errors: Ratio::new(1, denominator),
            ..Impairments::NONE
        };
        let mut line = line(8_000_000_000, impairments);
        for k in 0..200_000 {
            line.offer(at(k * 1_000), bytes);
        }
        line.counters().lost as f64 / 200_000.0
    }

    #[test]
    fn bit_errors_lose_packets_by_their_size() {
        for (bytes, denominator, expected) in [
            // 1 - (1 - 10^-4)^800, 1 - (1 - 10^-5)^(8 x 1280), 1 - (1 - 10^-6)^(8 x 1280)
            (100, 10_000, 0.076_887),
            (1_280, 100_000, 0.097_333),
            (1_280, 1_000_000, 0.010_188),
        ] {
            let measured = lost(bytes, denominator);
            let deviation = (expected * (1.0 - expected) / 200_000.0_f64).sqrt();
            assert!((measured - expected).abs() < 4.0 * deviation, "{measured}");
        }
    }

    #[test]
    fn twice_the_bytes_square_the_share_that_arrives() {
        let [one, two] = [500, 1_000].map(|bytes| 1.0 - lost(bytes, 20_000));
        assert!((two - one * one).abs() < 0.006, "{one} {two}");
    }

    fn counters(impairments: Impairments) -> Counters {
        let mut line = line(8_000_000, impairments);
        let mut arrived = 0;
        for k in 0..100_000 {
            arrived += match line.offer(at(k * 1_000), 100) {
                Verdict::Deliver { duplicated, .. } => 1 + u64::from(duplicated),
                _ => 0,
            };
        }
        let counters = line.counters();
        assert_eq!(arrived, counters.delivered + counters.duplicated);
        counters
    }

    #[test]
    fn corrupted_packets_use_the_link_and_are_no_losses() {
        let counters = counters(Impairments {
            corruption: Probability::ppm(30_000),
            ..Impairments::NONE
        });
        // 3,000 with a standard deviation of 54.
        assert!((2_800..3_200).contains(&counters.corrupted), "{counters:?}");
        assert_eq!(counters.lost, 0);
        assert_eq!(counters.delivered + counters.corrupted, 100_000);
        assert_eq!(counters.bytes_sent, 100 * 100_000);
    }

    #[test]
    fn duplicates_have_their_share_and_use_no_capacity() {
        let counters = counters(Impairments {
            duplication: Probability::ppm(100_000),
            ..Impairments::NONE
        });
        // 10,000 with a standard deviation of 95.
        assert!(
            (9_650..10_350).contains(&counters.duplicated),
            "{counters:?}"
        );
        assert_eq!((counters.delivered, counters.lost), (100_000, 0));
        assert_eq!(counters.bytes_sent, 100 * 100_000);
    }

    #[test]
    fn impairments_shift_no_other_draw() {
        let losses = |impairments: Impairments| -> Vec<bool> {
            let spec = DirectionSpec {
                loss: LossSpec::Constant(Probability::ppm(100_000)),
                impairments,
                ..DirectionSpec::new(8_000_000, 1_000_000)
            };
            let mut line = Direction::new(&spec, 1, "d");
            let mut lost = |k: u64| matches!(line.offer(at(k * 1_000), 100), Verdict::Lost { .. });
            (0..5_000).map(&mut lost).collect()
        };
        let all = Impairments {
            duplication: Probability::ppm(100_000),
            ..reordered(100_000, 10)
        };
        assert_eq!(losses(Impairments::NONE), losses(all));
    }

    #[test]
    fn impossible_impairments_are_refused() {
        let whole = Impairments {
            bit_errors: Ratio::ONE,
            ..Impairments::NONE
        };
        assert!(whole.check().is_err());
        assert!(policed(0, 1_000).check().is_err());
        assert!(policed(1_000, 0).check().is_err());
        assert_eq!(policed(1_000, 1_000).check(), Ok(()));
    }
}
