//! Limit on the processor time of incoming handshakes at one socket, whether of DTLS, TLS or
//! WebSocket.

use std::time::Duration as Span;

use carob_cc::time::{Duration, Instant};

/// Burst of processor time before the share applies. Meanwhile other traffic may wait.
pub(super) const AT_ONCE: Span = Span::from_millis(250);

/// A token bucket of processor time: its state is the time at which it will be full.
pub(super) struct HandshakeWork {
    percent: u64,
    full: Instant,
}

impl HandshakeWork {
    pub(super) fn new(percent: u8) -> Self {
        Self {
            percent: u64::from(percent.clamp(1, 100)),
            full: Instant::ZERO,
        }
    }

    /// The time in which the bucket refills by `work`.
    fn refill(&self, work: Span) -> Duration {
        let micros = u64::try_from(work.as_micros()).unwrap_or(u64::MAX);
        Duration::from_micros(micros.saturating_mul(100) / self.percent)
    }

    /// Returns whether another handshake may begin.
    pub(super) fn has_room(&self, now: Instant) -> bool {
        self.percent == 100 || self.full.since(now) < self.refill(AT_ONCE)
    }

    /// Counts time that a handshake took.
    pub(super) fn add(&mut self, now: Instant, work: Span) {
        self.full = self.full.max(now) + self.refill(work);
    }
}
