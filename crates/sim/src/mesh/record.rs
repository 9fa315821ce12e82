//! What a wireless network tells.

use carob_cc::time::{Duration, Instant};

/// What became of a network's traffic.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MeshRecord {
    /// Nodes, in order; sinks and the root have no messages of their own.
    pub nodes: Vec<NodeRecord>,
    /// How long messages were made and everything was counted, from the end of the warm-up on.
    pub duration: Duration,
    /// When all nodes made a burst together for the first time, after the warm-up, if they did.
    pub burst_at: Option<Duration>,
    /// Bytes that each message counts in offered and carried load.
    pub counted_bytes: u16,
    /// Width of the spans below.
    pub bin_width: Duration,
    /// What was generated over time, from the end of the warm-up on.
    pub bins: Vec<MeshBin>,
    /// What constant traffic took from the application of the source to that of the sink.
    pub delay: Histogram,
    /// The same of bursts.
    pub burst_delay: Histogram,
    /// The same of all messages made from the beginning of a burst to 10 s after it.
    pub near_burst_delay: Histogram,
    /// First timers of exchanges, dithering included.
    pub rto_init: Histogram,
    /// The controllers' overall RTO after each answer, if they keep one.
    pub rto: Histogram,
    /// The weak estimator's variance after each update, if there is one.
    pub rttvar_weak: Histogram,
    /// What it was updated with: times from the first copy to the answer.
    pub rtt_weak: Histogram,
    /// The node that was traced.
    pub traced: u16,
    /// Its rank, link and timer over time, a sample per bin.
    pub trace: Vec<Traced>,
}

/// A node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeRecord {
    /// Messages that its application made.
    pub generated: u64,
    /// Of those, dropped by the application, since NSTART were on their way and its queue was full.
    pub app_drops: u64,
    /// Messages whose first copy left.
    pub sent: u64,
    /// Messages that the sink's application got, each counted once.
    pub received: u64,
    /// Messages that were answered.
    pub answered: u64,
    /// Messages given up.
    pub failed: u64,
    /// Messages that were under way or waited as the run ended.
    pub unfinished: u64,
    /// CoAP messages sent, copies included.
    pub transmissions: u64,
    /// Copies among them.
    pub retransmissions: u64,
    /// Copies sent although an earlier one or its answer was not lost.
    pub spurious: u64,
    /// Of messages that were confirmable.
    pub confirmable: u64,
    /// Answers after which its controller had an overall RTO.
    pub rtos: u32,
    /// The sum of those RTOs.
    pub rto_sum: Duration,
    /// What its MAC did.
    pub mac: MacCounters,
    /// Packets that had no route, at this node, its own and others'.
    pub route_drops: u64,
    /// Of those, how many were of this node's own making.
    pub own_route_drops: u64,
    /// Datagrams that could not be put together again.
    pub reassembly_drops: u64,
    /// RPL messages sent.
    pub control: u64,
    /// How often its preferred parent changed or was lost, after the warm-up.
    pub parent_resets: u64,
    /// Time without a parent, after the warm-up.
    pub orphan: Duration,
    /// The longest such time without interruption.
    pub orphan_longest: Duration,
    /// Local repairs, after the warm-up.
    pub repairs: u64,
    /// Rank as the run ended, in RPL's units.
    pub rank: u16,
    /// Its preferred parent as the run ended.
    pub parent: Option<u16>,
    /// ETX of the link to it, in hundredths.
    pub etx: u32,
    /// Hops to the root as the run ended; none without a way.
    pub hops: Option<u16>,
    /// Nodes that hear at least every other frame of it, by the medium.
    pub neighbours: u16,
}

/// What a MAC did, frames of RPL included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MacCounters {
    /// Frames handed down.
    pub offered: u64,
    /// Of those, dropped for lack of a buffer or of a queue for the neighbour.
    pub queue_drops: u64,
    /// Frames given up: not acknowledged as often as they may be sent.
    pub no_ack_drops: u64,
    /// Frames given up since the channel was never clear.
    pub channel_drops: u64,
    /// Transmissions of frames, acknowledgements apart.
    pub transmissions: u64,
    /// Clear channel assessments that found it busy.
    pub busy: u64,
    /// Acknowledgements sent.
    pub acknowledgements: u64,
    /// Frames for this node that were not received whole: another was on the air.
    pub collisions: u64,
    /// Frames for this node that the link lost by itself.
    pub losses: u64,
    /// Frames received and dropped as duplicates.
    pub duplicates: u64,
    /// Frames received and thrown away, since Contiki read them where it waited for an acknowledgement.
    pub discarded: u64,
    /// The most frames that ever waited.
    pub queued_max: u16,
}

impl MacCounters {
    /// Frames that were dropped.
    pub fn drops(&self) -> u64 {
        self.queue_drops + self.no_ack_drops + self.channel_drops
    }
}

/// A span of time, by when messages were made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MeshBin {
    /// Messages made.
    pub generated: u32,
    /// Of those, received, whenever.
    pub received: u32,
    /// The sum of what those took.
    pub delay: Duration,
    /// Preferred parents that changed or were lost in it.
    pub parent_resets: u32,
    /// Answers in it after which the controller had an overall RTO.
    pub rtos: u32,
    /// The sum of those RTOs.
    pub rto_sum: Duration,
}

/// The traced node at the end of a span.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traced {
    /// When.
    pub at: Instant,
    /// Rank; 0xffff without a parent.
    pub rank: u16,
    /// The preferred parent.
    pub parent: Option<u16>,
    /// ETX of the link to it, in hundredths; 0 without.
    pub etx: u32,
    /// The controller's RTO; zero if it keeps none.
    pub rto: Duration,
    /// Copies of messages sent in the span.
    pub retransmissions: u32,
}

/// Bins of a [`Histogram`] from one time to its double.
const PER_OCTAVE: u32 = 16;
/// The upper bound of a histogram's first bin, in microseconds.
const LEAST_LOG2: u32 = 10;
/// Octaves above it: up to 4.9 h.
const OCTAVES: u32 = 24;

/// Times by how often they occurred, in bins 1/16 of an octave wide on average (each octave is
/// divided evenly): what a quantile says is right within 6.3 %. Count, sum and extremes are exact.
/// Its size does not depend on how many there are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// How many.
    pub count: u64,
    /// Their sum.
    pub sum: Duration,
    /// The longest.
    pub max: Duration,
    /// By bin; shorter than all bins there can be where nothing was longer.
    pub bins: Vec<u32>,
}

impl Histogram {
    /// Adds a time.
    pub fn add(&mut self, time: Duration) {
        self.count += 1;
        self.sum += time;
        self.max = self.max.max(time);
        let bin = Self::bin(time);
        if self.bins.len() <= bin {
            self.bins.resize(bin + 1, 0);
        }
        self.bins[bin] += 1;
    }

    /// Their mean, if there are any.
    pub fn mean(&self) -> Option<Duration> {
        let mean = self.sum.as_micros().checked_div(self.count)?;
        Some(Duration::from_micros(mean))
    }

    /// The time that this share of them, in thousandths, does not exceed: the upper end of its bin,
    /// at most the longest.
    pub fn quantile(&self, thousandths: u32) -> Option<Duration> {
        if self.count == 0 {
            return None;
        }
        let wanted = (self.count * u64::from(thousandths)).div_ceil(1_000).max(1);
        let mut seen = 0;
        for (bin, count) in self.bins.iter().enumerate() {
            seen += u64::from(*count);
            if seen >= wanted {
                return Some(Self::end(bin).min(self.max));
            }
        }
        Some(self.max)
    }

    /// How many were at most this time, counted by whole bins.
    pub fn at_most(&self, time: Duration) -> u64 {
        let last = Self::bin(time);
        let within = self.bins.iter().take(last + 1);
        within.map(|count| u64::from(*count)).sum()
    }

    /// Adds those of another.
    pub fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.sum += other.sum;
        self.max = self.max.max(other.max);
        if self.bins.len() < other.bins.len() {
            self.bins.resize(other.bins.len(), 0);
        }
        for (own, more) in self.bins.iter_mut().zip(&other.bins) {
            *own += more;
        }
    }

    /// The bin of a time.
    fn bin(time: Duration) -> usize {
        let micros = time.as_micros();
        if micros < 1 << LEAST_LOG2 {
            return 0;
        }
        let octave = micros.ilog2() - LEAST_LOG2;
        if octave >= OCTAVES {
            return (OCTAVES * PER_OCTAVE) as usize;
        }
        let part = (micros >> (octave + LEAST_LOG2 - PER_OCTAVE.ilog2())) as u32 - PER_OCTAVE;
        (octave * PER_OCTAVE + part) as usize + 1
    }

    /// The upper end of a bin, which is the lower end of the next.
    pub fn end(bin: usize) -> Duration {
        let bin = bin as u64;
        let per_octave = u64::from(PER_OCTAVE);
        let (octave, part) = (bin / per_octave, bin % per_octave);
        let base = 1 << LEAST_LOG2 << octave;
        Duration::from_micros(base + base * part / per_octave)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_right_within_a_sixteenth() {
        let mut histogram = Histogram::default();
        for millis in 1..=10_000 {
            histogram.add(Duration::from_millis(millis));
        }
        assert_eq!(histogram.mean(), Some(Duration::from_micros(5_000_500)));
        for thousandths in [10, 250, 500, 900, 999] {
            let exact = f64::from(thousandths) * 10_000.0;
            let quantile = histogram.quantile(thousandths).expect("there are times");
            let ratio = quantile.as_micros() as f64 / exact;
            assert!((1.0..1.07).contains(&ratio), "{thousandths}: {ratio}");
        }
        assert_eq!(
            histogram.quantile(1_000),
            Some(Duration::from_millis(10_000))
        );
    }

    #[test]
    fn bins_follow_each_other_without_gaps() {
        for micros in [
            0,
            1,
            1_023,
            1_024,
            1_087,
            1_088,
            2_047,
            2_048,
            1 << 33,
            1 << 40,
        ] {
            let time = Duration::from_micros(micros);
            let bin = Histogram::bin(time);
            if bin < (OCTAVES * PER_OCTAVE) as usize {
                assert!(time < Histogram::end(bin), "{micros}");
            }
            if bin > 0 {
                assert!(time >= Histogram::end(bin - 1), "{micros}");
            }
        }
    }

    #[test]
    fn two_histograms_add_up() {
        let [mut a, mut b] = [Histogram::default(), Histogram::default()];
        a.add(Duration::from_millis(1));
        b.add(Duration::from_secs(1));
        a.merge(&b);
        assert_eq!((a.count, a.max), (2, Duration::from_secs(1)));
        assert_eq!(a.at_most(Duration::from_millis(2)), 1);
        assert_eq!(a.at_most(Duration::from_secs(2)), 2);
    }
}
