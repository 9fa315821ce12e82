//! Active queue management at the bottleneck: CoDel (RFC 8289), with ECN marking (RFC 3168) of
//! capable packets.
//!
//! A FIFO of constant rate determines a packet's departure when it is accepted, and
//! [`Direction`](super::Direction) decides then. CoDel decides
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

/// Queue disciplines: dropping and marking before the buffer is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Discipline {
    /// None.
    #[default]
    DropTail,
    /// Controlled delay.
    CoDel(CoDelSpec),
    /// Controlled delay of a queue for each flow (RFC 8290), in a run alone; the quantum is the MTU.
    FqCoDel(CoDelSpec),
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
        // 2^36 us (19 h), so that the shift by 10 bits below cannot overflow.
        let interval = self.spec.interval.as_micros().min(1 << 36);
        // sqrt(count) in 1/1024.
        let root = (u64::from(self.count.max(1)) << 20).isqrt();
        from + Duration::from_micros((interval << 10) / root)
    }

    fn too_long(&mut self, head: Instant, waited: Duration, ahead: u64) -> bool {
        // Below one MTU there is no queue to shorten; a drop would only idle the line (RFC 8289 5).
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
            // RFC 8289's loop computes the next time after it has dropped and looked at the next packet; a
            // marked packet is sent, which ends the loop.
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
    CoDel(CoDel),
}

impl Queue {
    pub(super) fn new(discipline: &Discipline) -> Self {
        match discipline {
            Discipline::DropTail => Self::DropTail,
            Discipline::CoDel(spec) => Self::CoDel(CoDel::new(spec)),
            Discipline::FqCoDel(_) => panic!("queues of flows are in front of a direction"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(millis: u64) -> Instant {
        Instant::from_micros(millis * 1_000)
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
    fn rfc_8289_5_does_not_drop_the_last_packet() {
        let mut codel = CoDel::new(&CODEL);
        let long = Duration::from_secs(1);
        assert!((0..1_000).all(|at| codel.at_head(ms(at), long, 1_500, false) == Fate::Pass));
    }

    #[test]
    fn codel_marks_ecn_capable_packets_instead_of_dropping() {
        let mut codel = CoDel::new(&CoDelSpec { ecn: true, ..CODEL });
        let wait = Duration::from_millis(20);
        let marked: Vec<u64> = (0..400)
            .filter(|&at| codel.at_head(ms(at), wait, 10_000, true) == Fate::Mark)
            .collect();
        assert_eq!(marked, [100, 200, 271, 329, 379]);
    }
}
