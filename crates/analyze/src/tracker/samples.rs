//! A uniform sample of round trips, and runs of replies that arrived one after the other.

use crate::limits::SAMPLES_MAX;
use crate::sketch::Sketch;

/// Seed of the draws; the sample depends on nothing but the capture.
const SEED: u64 = 0x6361_726f_6261_6e61;
/// Replies of a run: fewer are not significant, and longer runs are split.
const RUN_PACKETS_MIN: u32 = 12;
const RUN_PACKETS_MAX: u32 = 48;
/// A longer silence ends a run, in microseconds.
const RUN_GAP_MAX_US: u64 = 10_000_000;

/// A round trip with the bytes that were sent and received, IP headers included.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(crate) at: u64,
    pub(crate) round_trip: u64,
    pub(crate) sent_bytes: u32,
    pub(crate) received_bytes: u32,
    /// True if no other exchange was outstanding.
    pub(crate) is_alone: bool,
    pub(crate) conversation: u32,
    /// Side of the sender.
    pub(crate) side: u8,
    /// First timeout of each controller.
    pub(crate) first: Option<Box<[u32]>>,
}

/// At most [`SAMPLES_MAX`] round trips, each of all as likely as any other.
#[derive(Debug)]
pub(crate) struct Reservoir {
    pub(crate) samples: Vec<Sample>,
    seen: u64,
    state: u64,
}

impl Reservoir {
    pub(super) fn new() -> Self {
        Self {
            samples: Vec::new(),
            seen: 0,
            state: SEED,
        }
    }

    /// SplitMix64.
    fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(super) fn add(&mut self, sample: Sample) {
        self.seen += 1;
        if self.samples.len() < SAMPLES_MAX {
            self.samples.push(sample);
            return;
        }
        let place = self.draw() % self.seen;
        if let Some(kept) = usize::try_from(place)
            .ok()
            .and_then(|p| self.samples.get_mut(p))
        {
            *kept = sample;
        }
    }
}

/// Arrivals of replies while further ones were on their way: a queue before the link keeps it busy.
#[derive(Debug, Default)]
pub(crate) struct Arrivals {
    last: Option<u64>,
    packets: u32,
    bytes: u64,
    took_us: u64,
    /// Rates of runs, in bit/s.
    pub(crate) rates: Sketch,
}

impl Arrivals {
    /// A reply of these bytes arrived; `is_busy` if more are awaited.
    pub(super) fn add(&mut self, at: u64, bytes: u32, is_busy: bool) {
        if let Some(last) = self.last {
            let gap = at.saturating_sub(last);
            if gap > RUN_GAP_MAX_US {
                self.close();
            } else {
                self.packets += 1;
                self.bytes += u64::from(bytes);
                self.took_us += gap;
            }
        }
        if self.packets >= RUN_PACKETS_MAX || !is_busy {
            self.close();
        }
        self.last = is_busy.then_some(at);
    }

    fn close(&mut self) {
        if self.packets >= RUN_PACKETS_MIN && self.took_us > 0 {
            self.rates.add(self.bytes * 8_000_000 / self.took_us);
        }
        (self.packets, self.bytes, self.took_us) = (0, 0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reservoir_sample_is_uniform() {
        let mut reservoir = Reservoir::new();
        let count = 10 * SAMPLES_MAX as u64;
        for at in 0..count {
            reservoir.add(Sample {
                at,
                round_trip: 1,
                sent_bytes: 1,
                received_bytes: 1,
                is_alone: true,
                conversation: 0,
                side: 0,
                first: None,
            });
        }
        assert_eq!(reservoir.samples.len(), SAMPLES_MAX);
        let late = reservoir
            .samples
            .iter()
            .filter(|s| s.at >= count / 2)
            .count();
        assert!(late.abs_diff(SAMPLES_MAX / 2) < SAMPLES_MAX / 20, "{late}");
    }

    #[test]
    fn runs_have_the_rate_of_the_link() {
        let mut arrivals = Arrivals::default();
        for packet in 0..100 {
            arrivals.add(packet * 10_000, 125, packet % 50 != 49);
        }
        assert_eq!(arrivals.rates.quantile(0.5), 100_000);
        assert!(arrivals.rates.count() >= 2);
    }
}
