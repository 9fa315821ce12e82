//! Active queue management at the bottleneck: RED (RFC 2309, after Floyd and Jacobson 1993) and
//! CoDel (RFC 8289), with ECN marking (RFC 3168) of capable packets.
//!
//! A FIFO of constant rate determines a packet's departure when it is accepted, and
//! [`Direction`](super::Direction) decides then. RED decides on arrival, so it fits. CoDel decides
//! when a packet reaches the head, from its sojourn time, that moment, and its own state. All three
//! are known when the packet is accepted. A drop at the head takes no time of the line, so the
//! moment is when the packets before it have been sent, and decisions are taken in order.
//!
//! One input of CoDel is not known yet: the bytes *behind* the packet at the head, compared with a
//! packet's size. Here the bytes *ahead* of the packet at its arrival are used. With a target of at
//! least one packet's time on the line, as RFC 8289 4.4 asks for slow links, a packet with a longer
//! sojourn had that much ahead of it. The only difference is that the last packets of a burst can
//! be dropped as well.

use carob_cc::time::{Duration, Instant};

use crate::random::{Probability, Stream};

/// Queue disciplines: dropping and marking before the buffer is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Discipline {
    /// None.
    #[default]
    DropTail,
    /// Random early detection.
    Red(RedSpec),
    /// Controlled delay.
    CoDel(CoDelSpec),
    /// Controlled delay of a queue for each flow (RFC 8290), in a run alone; the quantum is the MTU.
    FqCoDel(CoDelSpec),
}

/// Parameters of RED. Its average is over bytes, the packet in service included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RedSpec {
    /// Minimum threshold of the average in bytes: nothing is dropped below it.
    pub min_bytes: u64,
    /// Maximum threshold of the average in bytes, above `min_bytes`: everything is dropped from it
    /// on.
    pub max_bytes: u64,
    /// Drop probability just below `max_bytes`.
    pub most: Probability,
    /// Averaging weight 2^-n per packet; at most 16.
    pub weight_shift: u8,
    /// A typical packet, in bytes; above 0. While the line is idle the average decays as if an
    /// empty queue had been sampled once per such packet.
    pub packet_bytes: u32,
    /// Mark capable packets instead of dropping them, below `max_bytes`.
    pub ecn: bool,
}

/// Parameters of CoDel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoDelSpec {
    /// Target sojourn time. RFC 8289 4.3: 5 ms; 4.4: no less than a packet takes on the line.
    pub target: Duration,
    /// The interval in which the sojourn time must exceed the target; above 0. RFC 8289 4.3: 100
    /// ms, a typical round-trip time.
    pub interval: Duration,
    /// Nothing is dropped with at most this many bytes ahead: the link's MTU.
    pub mtu_bytes: u32,
    /// Mark capable packets instead of dropping them.
    pub ecn: bool,
}

/// The decision of a discipline about a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Pass,
    Mark,
    Drop,
}

impl Fate {
    fn hit(ecn: bool) -> Self {
        if ecn { Self::Mark } else { Self::Drop }
    }
}

/// State of RED.
#[derive(Clone, Debug)]
pub(super) struct Red {
    spec: RedSpec,
    rate_bps: u64,
    stream: Stream,
    /// The average in 2^-16 bytes.
    average: u64,
    /// Packets since the last drop or mark while the average was between the thresholds.
    count: u64,
    idle_since: Option<Instant>,
}

impl Red {
    pub(super) fn new(spec: &RedSpec, rate_bps: u64, seed: u64, label: &str) -> Self {
        assert!(
            spec.min_bytes < spec.max_bytes,
            "RED's thresholds are in order"
        );
        assert!(
            spec.packet_bytes > 0 && spec.weight_shift <= 16,
            "RED's average can move"
        );
        Self {
            spec: *spec,
            rate_bps,
            stream: Stream::new(seed, &format!("{label}/red")),
            average: 0,
            count: 0,
            idle_since: None,
        }
    }

    /// Handles the arrival of a packet at a queue of `queue` bytes; the line is or was free at
    /// `free_at`.
    pub(super) fn arrive(&mut self, now: Instant, queue: u64, free_at: Instant, ecn: bool) -> Fate {
        self.idle_since = (queue == 0).then_some(free_at);
        if let Some(since) = self.idle_since {
            let line = self.rate_bps * now.since(since).as_micros() / 8_000_000;
            for _ in 0..(line / u64::from(self.spec.packet_bytes)).min(1 << 12) {
                if self.average == 0 {
                    break;
                }
                self.average -= (self.average >> self.spec.weight_shift).max(1);
            }
        }
        let queue = queue.min(1 << 40) << 16;
        if queue >= self.average {
            self.average += (queue - self.average) >> self.spec.weight_shift;
        } else {
            self.average -= (self.average - queue) >> self.spec.weight_shift;
        }
        let average = self.average >> 16;
        // One draw a packet in any case, so that the stream stays in step.
        let draw = self.stream.next_u64() >> 32;
        if average < self.spec.min_bytes {
            self.count = 0;
            return Fate::Pass;
        }
        if average >= self.spec.max_bytes {
            self.count = 0;
            return Fate::Drop; // capable or not (RFC 3168 7)
        }
        self.count += 1;
        let span = u128::from(self.spec.max_bytes - self.spec.min_bytes) << 16;
        let above = u128::from(self.average - (self.spec.min_bytes << 16));
        let share = (u128::from(self.spec.most.threshold()) * above / span) as u64;
        // p / (1 - count p): the drops are evenly spaced (Floyd and Jacobson 7).
        let used = share.saturating_mul(self.count - 1);
        let left = (1_u64 << 32).saturating_sub(used);
        if u128::from(draw) * u128::from(left) < u128::from(share) << 32 {
            self.count = 0;
            return Fate::hit(ecn && self.spec.ecn);
        }
        Fate::Pass
    }
}

/// State of CoDel, packet by packet as they reach the head (RFC 8289 5).
#[derive(Clone, Debug)]
pub(super) struct CoDel {
    spec: CoDelSpec,
    /// The end of the interval, while the sojourn time is above the target.
    above_until: Option<Instant>,
    dropping: bool,
    drop_next: Instant,
    count: u32,
    last_count: u32,
    /// The previous packet was dropped on entering the dropping state, so this one passes.
    spared: bool,
    /// The previous packet was dropped in the dropping state, so the next time is set by this one.
    dropped: bool,
}

impl CoDel {
    pub(super) fn new(spec: &CoDelSpec) -> Self {
        assert!(!spec.interval.is_zero(), "CoDel's interval lasts some time");
        Self {
            spec: *spec,
            above_until: None,
            dropping: false,
            drop_next: Instant::ZERO,
            count: 0,
            last_count: 0,
            spared: false,
            dropped: false,
        }
    }

    /// Handles an empty queue.
    pub(super) fn empty(&mut self) {
        self.above_until = None;
        (self.dropping, self.spared, self.dropped) = (false, false, false);
    }

    /// `interval / sqrt(count)` after `from`.
    fn control_law(&self, from: Instant) -> Instant {
        let interval = self.spec.interval.as_micros().min(1 << 36);
        // sqrt(count) in 1/1024.
        let root = (u64::from(self.count.max(1)) << 20).isqrt();
        from + Duration::from_micros((interval << 10) / root)
    }

    fn too_long(&mut self, head: Instant, waited: Duration, ahead: u64) -> bool {
        if waited < self.spec.target || ahead <= u64::from(self.spec.mtu_bytes) {
            self.above_until = None;
            return false;
        }
        match self.above_until {
            None => {
                self.above_until = Some(head + self.spec.interval);
                false
            }
            Some(until) => head >= until,
        }
    }

    /// Handles a packet that reaches the head at `head` after it `waited`, with `ahead` bytes
    /// before it at its arrival.
    pub(super) fn at_head(
        &mut self,
        head: Instant,
        waited: Duration,
        ahead: u64,
        ecn: bool,
    ) -> Fate {
        let too_long = self.too_long(head, waited, ahead);
        if core::mem::take(&mut self.spared) {
            return Fate::Pass;
        }
        if self.dropping {
            if !too_long {
                self.dropping = false;
                self.dropped = false;
                return Fate::Pass;
            }
            if core::mem::take(&mut self.dropped) {
                self.drop_next = self.control_law(self.drop_next);
            }
            if head < self.drop_next {
                return Fate::Pass;
            }
            self.count += 1;
            let fate = Fate::hit(ecn && self.spec.ecn);
            if fate == Fate::Mark {
                self.drop_next = self.control_law(self.drop_next);
            } else {
                self.dropped = true;
            }
            return fate;
        }
        if !too_long {
            return Fate::Pass;
        }
        self.dropping = true;
        // Back soon: go on near the rate that controlled the queue (RFC 8289 5.4).
        let delta = self.count.saturating_sub(self.last_count);
        let recent = head.since(self.drop_next) < self.spec.interval.times(16);
        self.count = if delta > 1 && recent { delta } else { 1 };
        self.drop_next = self.control_law(head);
        self.last_count = self.count;
        let fate = Fate::hit(ecn && self.spec.ecn);
        self.spared = fate == Fate::Drop;
        fate
    }
}

/// The active discipline of a direction.
#[derive(Clone, Debug)]
pub(super) enum Queue {
    DropTail,
    Red(Box<Red>),
    CoDel(CoDel),
}

impl Queue {
    pub(super) fn new(discipline: &Discipline, rate_bps: u64, seed: u64, label: &str) -> Self {
        match discipline {
            Discipline::DropTail => Self::DropTail,
            Discipline::Red(spec) => Self::Red(Box::new(Red::new(spec, rate_bps, seed, label))),
            Discipline::CoDel(spec) => Self::CoDel(CoDel::new(spec)),
            Discipline::FqCoDel(_) => panic!("queues of flows are in front of a direction"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RED: RedSpec = RedSpec {
        min_bytes: 5_000,
        max_bytes: 15_000,
        most: Probability::ppm(100_000),
        weight_shift: 9,
        packet_bytes: 500,
        ecn: true,
    };

    fn ms(millis: u64) -> Instant {
        Instant::from_micros(millis * 1_000)
    }

    /// Decisions about packets that all see the same queue.
    fn steady(red: &mut Red, queue: u64, packets: u64, ecn: bool) -> Vec<Fate> {
        (0..packets)
            .map(|k| red.arrive(ms(k), queue, ms(k + 10), ecn))
            .collect()
    }

    #[test]
    fn red_drops_nothing_below_and_everything_above_its_thresholds() {
        let mut red = Red::new(&RED, 1_000_000, 1, "d");
        assert!(
            steady(&mut red, 4_999, 20_000, true)
                .iter()
                .all(|&fate| fate == Fate::Pass)
        );
        steady(&mut red, 20_000, 5_000, true);
        assert!(
            steady(&mut red, 20_000, 100, true)
                .iter()
                .all(|&fate| fate == Fate::Drop)
        );
    }

    #[test]
    fn red_hits_as_often_as_the_average_says_and_evenly() {
        let mut red = Red::new(&RED, 1_000_000, 1, "d");
        steady(&mut red, 10_000, 10_000, false);
        let fates = steady(&mut red, 10_000, 100_000, false);
        let hits: Vec<usize> = (0..fates.len())
            .filter(|&at| fates[at] == Fate::Drop)
            .collect();
        // Half-way: p = 0.05, and intervals uniform on 1 to 20 have a mean of 10.5.
        let mean = fates.len() as f64 / hits.len() as f64;
        assert!((10.3..10.7).contains(&mean), "{mean}");
        let longest = hits.windows(2).map(|pair| pair[1] - pair[0]).max();
        assert!(longest <= Some(21), "{longest:?}");
    }

    #[test]
    fn red_marks_what_is_capable() {
        let mut red = Red::new(&RED, 1_000_000, 1, "d");
        steady(&mut red, 10_000, 10_000, true);
        let fates = steady(&mut red, 10_000, 1_000, true);
        assert!(fates.contains(&Fate::Mark) && !fates.contains(&Fate::Drop));
    }

    #[test]
    fn red_forgets_while_the_line_is_idle() {
        let mut red = Red::new(&RED, 1_000_000, 1, "d");
        steady(&mut red, 12_000, 10_000, false);
        let busy = red.average;
        // 4 s at 1 Mbit/s are 1,000 packets of 500 bytes: e^(-1000/512) = 0.142 is left.
        red.arrive(ms(20_000), 0, ms(16_000), false);
        let left = red.average as f64 / busy as f64;
        assert!((0.138..0.146).contains(&left), "{left}");
    }

    const CODEL: CoDelSpec = CoDelSpec {
        target: Duration::from_millis(5),
        interval: Duration::from_millis(100),
        mtu_bytes: 1_500,
        ecn: false,
    };

    /// Times in ms at which packets 1 ms apart, which all waited 20 ms, are dropped.
    fn drops(codel: &mut CoDel, from: u64, to: u64) -> Vec<u64> {
        let wait = Duration::from_millis(20);
        let at_head = |codel: &mut CoDel, at| codel.at_head(ms(at), wait, 10_000, false);
        (from..to)
            .filter(|&at| at_head(codel, at) == Fate::Drop)
            .collect()
    }

    #[test]
    fn rfc_8289_5_drops_after_an_interval_and_then_ever_sooner() {
        let mut codel = CoDel::new(&CODEL);
        // Above from 0 on: the first drop an interval later; then 100/sqrt(1), 100/sqrt(2), ...
        // later: 100, 200, 270.7, 328.4, 378.4, each at the next packet.
        assert_eq!(drops(&mut codel, 0, 400), [100, 200, 271, 329, 379]);
    }

    #[test]
    fn rfc_8289_5_stops_when_the_wait_falls_below_the_target() {
        let mut codel = CoDel::new(&CODEL);
        drops(&mut codel, 0, 400);
        let short = codel.at_head(ms(400), Duration::from_millis(4), 10_000, false);
        assert_eq!((short, codel.dropping), (Fate::Pass, false));
        // Soon above again: an interval must pass, then it goes on at the earlier rate.
        assert_eq!(drops(&mut codel, 401, 600)[0], 501);
        assert!(codel.count >= 4, "{}", codel.count);
    }

    #[test]
    fn rfc_8289_5_leaves_the_last_packet_alone() {
        let mut codel = CoDel::new(&CODEL);
        let long = Duration::from_secs(1);
        assert!((0..1_000).all(|at| codel.at_head(ms(at), long, 1_500, false) == Fate::Pass));
    }

    #[test]
    fn codel_marks_what_is_capable_at_the_times_it_would_drop() {
        let mut codel = CoDel::new(&CoDelSpec { ecn: true, ..CODEL });
        let wait = Duration::from_millis(20);
        let marked: Vec<u64> = (0..400)
            .filter(|&at| codel.at_head(ms(at), wait, 10_000, true) == Fate::Mark)
            .collect();
        assert_eq!(marked, [100, 200, 271, 329, 379]);
    }
}
