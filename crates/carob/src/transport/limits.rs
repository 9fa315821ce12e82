//! Limits on sessions and handshakes.

use std::time::Duration;

/// Limits on DTLS sessions, and on the handshakes of DTLS, TLS and WebSocket.
///
/// Messages that wait for a session are in the engine's queue, within
/// [`Limits::queue`](carob_proto::endpoint::Limits::queue). A *source* is an address, or an IPv6
/// prefix ([`Limits::source_prefix`](carob_proto::endpoint::Limits::source_prefix)).
///
/// ```
/// use carob::{Config, SessionLimits};
/// use std::time::Duration;
///
/// let limits = SessionLimits::new().sessions(500).idle(Duration::from_secs(600));
/// let config = Config::new().sessions(limits);
/// # let _ = config;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionLimits {
    /// DTLS sessions, handshakes not counted. At the limit, the least recently used is closed.
    /// Default: 10,000.
    pub sessions: usize,
    /// Concurrent handshakes, of DTLS at one socket, or of TLS and WebSocket at one listener. At
    /// the limit, the oldest handshake is dropped, never a session; a source at its
    /// [share](carob_proto::endpoint::Limits::source_share) drops its own oldest. A DTLS server
    /// keeps no state for a client before its address is validated (RFC 6347 section 4.2.1).
    /// Default: 1,000.
    pub handshakes: usize,
    /// Handshakes per second that one source may begin, in the long run. Beyond it, a DTLS
    /// ClientHello is ignored, and its client repeats it; a connection is closed. 0: unlimited.
    /// Default: 100.
    pub handshake_rate: usize,
    /// Handshakes that one source may begin at once before the rate applies. Default: 1,000.
    pub handshake_burst: usize,
    /// Percentage of one processor that incoming handshakes may use at one socket, in the long run
    /// and beyond a burst of 0.25 s. Beyond it, ClientHellos over DTLS are ignored and connections
    /// closed, so that time remains for peers with a session or connection. 100: unlimited.
    /// Default: 50.
    pub handshake_work: u8,
    /// Time without a message after which a session is closed. Default: 1 h.
    pub idle: Duration,
    /// Maximum duration of a DTLS handshake. Default: 93 s, MAX_TRANSMIT_WAIT, as for a response.
    pub handshake_time: Duration,
}

impl Default for SessionLimits {
    fn default() -> Self {
        Self {
            sessions: 10_000,
            handshakes: 1_000,
            handshake_rate: 100,
            handshake_burst: 1_000,
            handshake_work: 50,
            idle: Duration::from_secs(3_600),
            handshake_time: Duration::from_secs(93),
        }
    }
}

impl SessionLimits {
    /// Returns the defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the maximum number of sessions, at least 1.
    pub fn sessions(mut self, limit: usize) -> Self {
        self.sessions = limit.max(1);
        self
    }

    /// Sets the maximum number of concurrent handshakes, at least 1.
    pub fn handshakes(mut self, limit: usize) -> Self {
        self.handshakes = limit.max(1);
        self
    }

    /// Sets the handshakes per second of one source (0: unlimited) and its burst, at least 1.
    pub fn handshake_rate(mut self, rate: usize, burst: usize) -> Self {
        (self.handshake_rate, self.handshake_burst) = (rate, burst.max(1));
        self
    }

    /// Sets the percentage of one processor for incoming handshakes, 1 to 100.
    pub fn handshake_work(mut self, percent: u8) -> Self {
        self.handshake_work = percent.clamp(1, 100);
        self
    }

    /// Sets the time without a message after which a session is closed.
    pub fn idle(mut self, time: Duration) -> Self {
        self.idle = time;
        self
    }

    /// Sets the maximum duration of a DTLS handshake.
    pub fn handshake_time(mut self, time: Duration) -> Self {
        self.handshake_time = time;
        self
    }
}
