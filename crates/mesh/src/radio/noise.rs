//! External interference: an on/off process in each region. Fault: a node that is deaf for a time after each frame addressed
//! to it, as one whose processor is busy.

use carob_cc::time::{Duration, Instant};
use carob_sim_core::random::{Probability, Stream};

use crate::Node;
use crate::spec::Interference;

/// The interference at all nodes. A region's state is computed lazily, and depends only on the
/// seed, the region and the time.
#[derive(Clone, Debug)]
pub(super) struct Noise {
    spec: Interference,
    /// The region of each node.
    regions: Vec<u8>,
    states: Vec<State>,
    losses: Stream,
    assessments: Stream,
}

#[derive(Clone, Debug)]
struct State {
    on: bool,
    until: Instant,
    stream: Stream,
}

impl Noise {
    /// Random streams: `"mesh/radio/noise"` by region, `"mesh/radio/noise-loss"` and
    /// `"mesh/radio/noise-cca"`.
    pub(super) fn new(spec: &Interference, nodes: usize, regions: &[u8], seed: u64) -> Self {
        let mut regions = regions.to_vec();
        regions.resize(nodes, 0);
        let count = regions
            .iter()
            .max()
            .map_or(0, |last| usize::from(*last) + 1);
        let states = (0..count).map(|region| {
            let mut stream = Stream::indexed(seed, "mesh/radio/noise", region as u32);
            let (on, off) = (spec.on.as_micros(), spec.off.as_micros());
            let on = stream.happens(Probability::of(on, on.saturating_add(off).max(1)));
            // Exponential times have no memory: the rest of the first one is exponential, too.
            let first = stream.exponential(if on { spec.on } else { spec.off });
            State {
                on,
                until: Instant::ZERO + first,
                stream,
            }
        });
        Self {
            spec: *spec,
            states: states.collect(),
            regions,
            losses: Stream::new(seed, "mesh/radio/noise-loss"),
            assessments: Stream::new(seed, "mesh/radio/noise-cca"),
        }
    }

    /// Returns whether there is interference at this node. Times must not decrease.
    fn is_on(&mut self, now: Instant, node: Node) -> bool {
        if self.spec.on.is_zero() {
            return false;
        }
        let region = self.regions[usize::from(node)];
        let state = &mut self.states[usize::from(region)];
        while state.until <= now {
            state.on = !state.on;
            let mean = if state.on {
                self.spec.on
            } else {
                self.spec.off
            };
            // A time of 0 would not lead on.
            let time = state.stream.exponential(mean);
            state.until += time.max(Duration::from_micros(1));
        }
        state.on
    }

    /// Returns whether interference destroys a frame that begins to arrive.
    pub(super) fn destroys(&mut self, now: Instant, node: Node) -> bool {
        self.is_on(now, node) && self.losses.happens(self.spec.loss)
    }

    /// Returns whether CCA senses interference.
    pub(super) fn is_sensed(&mut self, now: Instant, node: Node) -> bool {
        self.is_on(now, node) && self.assessments.happens(self.spec.busy)
    }
}

/// A node that receives no frame addressed to it for a time after each one that it received.
#[derive(Clone, Copy, Debug)]
pub(super) struct DeafNode {
    node: Node,
    time: Duration,
    until: Instant,
}

impl DeafNode {
    /// A node with this time; `None` if the time is zero.
    pub(super) fn new(node: Node, time: Duration) -> Option<Self> {
        let until = Instant::ZERO;
        (!time.is_zero()).then_some(Self { node, time, until })
    }

    /// Returns whether `node` misses a frame addressed to `to`. It does not acknowledge missed frames.
    pub(super) fn misses(&mut self, now: Instant, node: Node, to: Node) -> bool {
        if node != self.node || to != node {
            return false;
        }
        if now < self.until {
            return true;
        }
        self.until = now + self.time;
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> Interference {
        Interference {
            on: Duration::from_secs(3),
            off: Duration::from_secs(9),
            loss: Probability::of(1, 2),
            busy: Probability::of(1, 4),
            runs: Probability::ALWAYS,
        }
    }

    fn noise() -> Noise {
        Noise::new(&spec(), 4, &[0, 0, 1], 7)
    }

    #[test]
    fn noise_shares_match_the_specification() {
        let mut noise = noise();
        let samples = 400_000_u64;
        let mut counts = [0_u64; 3];
        for k in 0..samples {
            let now = Instant::from_micros(k * 500_000);
            counts[0] += u64::from(noise.is_on(now, 0));
            counts[1] += u64::from(noise.destroys(now, 0));
            counts[2] += u64::from(noise.is_sensed(now, 0));
        }
        // 200,000 s are about 16,700 cycles: the share of 1/4 has an sd of about 0.3 %.
        for (count, share) in counts.iter().zip([0.25, 0.125, 0.0625]) {
            let found = *count as f64 / samples as f64;
            assert!((found / share - 1.0).abs() < 0.05, "{counts:?}");
        }
    }

    #[test]
    fn noise_regions_are_independent_of_queries() {
        let (mut often, mut rarely) = (noise(), noise());
        let mut differ = 0;
        for k in 0..20_000_u64 {
            let now = Instant::from_micros(k * 100_000);
            let [first, same, other] = [0, 1, 2].map(|node| often.is_on(now, node));
            assert_eq!(first, same);
            differ += u32::from(first != other);
            if k % 97 == 0 {
                assert_eq!(rarely.is_on(now, 0), first);
                assert_eq!(rarely.is_on(now, 2), other);
            }
        }
        assert!(differ > 1_000, "{differ}");
    }

    #[test]
    fn zero_on_time_disables_noise() {
        let spec = Interference {
            on: Duration::ZERO,
            ..spec()
        };
        let mut noise = Noise::new(&spec, 1, &[], 1);
        assert!((0..1_000).all(|k| !noise.is_on(Instant::from_micros(k << 20), 0)));
    }
}
