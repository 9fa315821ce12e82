//! Admission of handshakes that clients begin. Each costs processor time, with certificates as much
//! as a hundred requests, and a client with a validated address (by its cookie) can begin any
//! number.
//!
//! Two limits apply: the rate of handshakes per source, so that one source does not starve others;
//! and the processor time of all handshakes together, so that many sources do not starve peers with
//! a session. A ClientHello that is not admitted gets no reply: the client retransmits it with
//! growing timeouts (RFC 6347 4.2.4).

use std::time::Duration as Span;

use carob_cc::time::Instant;
use carob_proto::tables::quota::Source;
use carob_proto::tables::rate_limit::{self, RateLimiter};

use crate::transport::dtls::SessionLimits;
use crate::transport::handshake::HandshakeWork;

/// Admission control of handshakes.
pub(super) struct HandshakeAdmission {
    rates: Option<RateLimiter>,
    work: HandshakeWork,
    /// Handshakes that were not admitted.
    pub(super) refused: u64,
}

impl HandshakeAdmission {
    /// `sources` are remembered.
    pub(super) fn new(seed: u64, limits: &SessionLimits, sources: usize) -> Self {
        let (rate, burst) = (limits.handshake_rate, limits.handshake_burst);
        Self {
            rates: RateLimiter::new(seed.rotate_left(40), rate, burst, sources),
            work: HandshakeWork::new(limits.handshake_work),
            refused: 0,
        }
    }

    /// Returns whether a source with a validated address may begin a handshake.
    pub(super) fn admits(&mut self, now: Instant, source: Source) -> bool {
        let within =
            |rates: &mut RateLimiter| rates.ask(now, source, true) == rate_limit::Admission::Allow;
        // In this order, so that a handshake that lacks processor time takes no token of its
        // source.
        let admitted = self.work.has_room(now) && self.rates.as_mut().is_none_or(within);
        self.refused += u64::from(!admitted);
        admitted
    }

    /// Counts the processor time of a handshake begun by a peer.
    pub(super) fn took(&mut self, now: Instant, time: Span) {
        self.work.add(now, time);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::handshake::AT_ONCE;

    fn at(millis: u64) -> Instant {
        Instant::from_micros(millis * 1_000)
    }

    fn source(n: u8) -> Source {
        Source::of(([127, 0, 0, n], 1).into(), 64)
    }

    fn limits(rate: usize, burst: usize, work: u8) -> SessionLimits {
        let limits = SessionLimits::new().handshake_rate(rate, burst);
        limits.handshake_work(work)
    }

    #[test]
    fn source_gets_burst_then_rate_independent_of_others() {
        let mut admission = HandshakeAdmission::new(1, &limits(10, 20, 100), 8);
        let begun = |admission: &mut HandshakeAdmission, millis, n| {
            (0..100)
                .filter(|_| admission.admits(at(millis), source(n)))
                .count()
        };
        assert_eq!(begun(&mut admission, 0, 1), 20);
        assert_eq!(admission.refused, 80);
        assert_eq!(begun(&mut admission, 1_000, 1), 10);
        assert_eq!(begun(&mut admission, 1_000, 2), 20);
        let mut any = HandshakeAdmission::new(1, &limits(0, 1, 100), 8);
        assert_eq!(begun(&mut any, 0, 1), 100);
    }

    #[test]
    fn all_together_take_their_share_of_the_processor() {
        // Each takes a millisecond, and they come as fast as the processor goes.
        let seconds = |percent, seconds: u64| {
            let mut admission = HandshakeAdmission::new(1, &limits(0, 1, percent), 8);
            let mut worked = 0;
            for millis in 0..seconds * 1_000 {
                if admission.admits(at(millis), source(1)) {
                    admission.took(at(millis), Span::from_millis(1));
                    worked += 1;
                }
            }
            worked
        };
        // A quarter of a second at once, and then half of the time.
        assert_eq!(seconds(50, 2), 1_250);
        assert_eq!(seconds(50, 10), 5_250);
        assert_eq!(seconds(10, 10), 1_250);
        assert_eq!(seconds(100, 10), 10_000);
    }

    #[test]
    fn unused_allowance_is_capped_at_the_burst() {
        let mut admission = HandshakeAdmission::new(1, &limits(0, 1, 25), 8);
        let long = 3_600_000;
        assert!(admission.admits(at(long), source(1)));
        admission.took(at(long), AT_ONCE);
        assert!(!admission.admits(at(long), source(2)));
        assert!(admission.admits(at(long + 1), source(2)));
        // However long one takes, it is paid for.
        admission.took(at(long + 1), Span::from_secs(3));
        assert!(!admission.admits(at(long + 12_000), source(2)));
        assert!(admission.admits(at(long + 12_001), source(2)));
    }
}
