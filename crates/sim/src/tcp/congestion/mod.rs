//! Congestion control of a connection, behind one trait.
//!
//! Windows count segments, as Linux does: a short segment weighs as much as a full one. The sender
//! detects losses, keeps the pipe and reduces the window during recovery. A module decides window
//! growth, the window after a loss, and pacing. A module that owns its window
//! ([`Congestion::owns_window`]) is called after every ACK, in recovery too.

mod bbr1;
mod bbr3;
mod cubic;
mod newreno;

use core::fmt;

use carob_cc::time::{Duration, Instant};

pub use bbr1::Bbr1;
pub use bbr3::Bbr3;
pub use cubic::Cubic;
pub use newreno::NewReno;

use super::settings::{Algorithm, TcpSettings};
use crate::random::Stream;

/// ssthresh before the first loss (RFC 5681 3.1: arbitrarily high).
pub const SSTHRESH_NONE: u32 = u32::MAX >> 1;
/// The largest window.
pub const WINDOW_MAX: u32 = 1 << 24;

/// Window and slow-start threshold in segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The congestion window.
    pub cwnd: u32,
    /// The slow-start threshold.
    pub ssthresh: u32,
    /// Segments acknowledged towards the next increase in congestion avoidance.
    pub count: u32,
}

impl Window {
    /// Returns whether the window grows exponentially.
    pub const fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// Slow start (RFC 5681 3.1) by up to `acked`; returns the remainder for congestion avoidance.
    pub(crate) fn slow_start(&mut self, acked: u32) -> u32 {
        let grown = self
            .cwnd
            .saturating_add(acked)
            .min(self.ssthresh)
            .min(WINDOW_MAX);
        let used = grown - self.cwnd.min(grown);
        self.cwnd = grown;
        acked - used.min(acked)
    }

    /// Congestion avoidance: adds a segment for every `per` acknowledged.
    pub(crate) fn avoid(&mut self, per: u32, acked: u32) {
        let per = per.max(1);
        // Credit from a time of a larger window counts as one segment: it must not let the window jump
        // (Linux, `tcp_cong_avoid_ai`).
        if self.count >= per {
            self.count = 0;
            self.cwnd += 1;
        }
        self.count += acked;
        if self.count >= per {
            self.cwnd += self.count / per;
            self.count %= per;
        }
        self.cwnd = self.cwnd.min(WINDOW_MAX);
    }
}

/// Loss recovery states of the sender (Linux, `tcp_input.c`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// No loss indication.
    #[default]
    Open,
    /// Duplicate ACKs or SACK blocks arrived, too few for a loss.
    Disorder,
    /// The window shrinks because a queue marked a packet.
    Cwr,
    /// Fast recovery.
    Recovery,
    /// After a timeout, until everything outstanding at the timeout is acknowledged.
    Loss,
}

/// A measurement of the delivery rate (draft-cheng-iccrg-delivery-rate-estimation).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateSample {
    /// Segments delivered over `interval`.
    pub delivered: u64,
    /// The longer of the intervals in which they were sent and acknowledged.
    pub interval: Duration,
    /// Segments delivered in all when the sampled one was sent.
    pub prior_delivered: u64,
    /// The application, not the network, limited the rate.
    pub app_limited: bool,
    /// Segments in flight when the sampled one was sent, itself included.
    pub tx_in_flight: u32,
    /// Segments marked lost since.
    pub lost: u32,
}

/// A segment that was just marked lost.
#[derive(Clone, Copy, Debug)]
pub struct LostSegment {
    /// Time.
    pub now: Instant,
    /// Its positions.
    pub start: u64,
    /// The first position behind it.
    pub end: u64,
    /// Segments in flight when it was sent, itself included.
    pub tx_in_flight: u32,
    /// Segments marked lost since it was sent, itself included.
    pub lost: u32,
    /// The application, not the network, limited the rate then.
    pub app_limited: bool,
    /// Segments delivered since the connection began.
    pub delivered: u64,
    /// The connection has selective acknowledgments.
    pub sack: bool,
}

/// The information in an ACK.
#[derive(Clone, Copy, Debug)]
pub struct Ack {
    /// Time of its arrival.
    pub now: Instant,
    /// Newly delivered segments.
    pub acked: u32,
    /// Newly detected losses.
    pub losses: u32,
    /// Segments marked lost since the connection began.
    pub lost: u64,
    /// Segments in flight before it.
    pub prior_in_flight: u32,
    /// Segments in flight after it.
    pub in_flight: u32,
    /// Time until pacing permits the next segment.
    pub held_back: Duration,
    /// Segments delivered since the connection began.
    pub delivered: u64,
    /// The sender's state.
    pub state: State,
    /// True if the window limited sending.
    pub window_limited: bool,
    /// A round-trip time from the last acknowledged segment, if it was sent once.
    pub rtt: Option<Duration>,
    /// The smoothed round-trip time.
    pub srtt: Option<Duration>,
    /// A measurement of the delivery rate.
    pub rate: Option<RateSample>,
}

/// The effect of a timeout.
#[derive(Clone, Copy, Debug)]
pub struct Timeout {
    /// Time.
    pub now: Instant,
    /// Segments in flight after it.
    pub in_flight: u32,
    /// Segments marked lost since the connection began.
    pub lost: u64,
    /// Segments delivered since the connection began.
    pub delivered: u64,
    /// Time of the last delivery.
    pub delivered_at: Instant,
}

/// A congestion control algorithm. It receives the sender's events, and owns only its own state.
pub trait Congestion: fmt::Debug + Send {
    /// Handles a loss or mark detected by ACKs or a timer. Returns the new slow-start threshold.
    ///
    /// `half_of` is the window or the outstanding data, by the settings.
    fn ssthresh(&mut self, now: Instant, window: &Window, half_of: u32) -> u32;

    /// Handles the delivery of new data outside of a window reduction; any ACK, for a module that
    /// owns its window.
    fn on_ack(&mut self, window: &mut Window, ack: &Ack);

    /// Handles a segment marked lost, before the ACK or timeout that showed it; see
    /// [`wants_losses`](Self::wants_losses).
    fn on_lost(&mut self, _window: &Window, _lost: &LostSegment) {}

    /// Returns whether it handles each lost segment.
    fn wants_losses(&self) -> bool {
        false
    }

    /// Handles an expiry of the retransmission timer, after segments were marked and the window was
    /// set.
    fn on_timeout(&mut self, _window: &mut Window, _timeout: &Timeout) {}

    /// Handles the first segment after idle, while samples are application-limited.
    fn on_restart(&mut self, _window: &mut Window, _now: Instant) {}

    /// Returns whether it sets the window in recovery, too.
    fn owns_window(&self) -> bool {
        false
    }

    /// Pacing rate in bytes per second, if sending is paced.
    fn pacing_rate(&self) -> Option<u64> {
        None
    }

    /// Returns whether samples of segments sent from now on are application-limited (BBR's
    /// PROBE_RTT).
    fn wants_app_limited(&self) -> bool {
        false
    }
}

/// Builds the algorithm of the settings. `header_bytes` are added to the MSS in every packet.
pub(super) fn build(
    settings: &TcpSettings,
    now: Instant,
    mss: u32,
    header_bytes: u32,
    window: &Window,
    srtt: Option<Duration>,
    stream: &Stream,
) -> Box<dyn Congestion> {
    // A rate of what pacing counts.
    let headers = u32::from(settings.bbr_pacing_headers) * header_bytes;
    match settings.congestion {
        Algorithm::NewReno => Box::new(NewReno::new(settings)),
        Algorithm::Cubic => Box::new(Cubic::new(settings)),
        Algorithm::Bbr1 => {
            let packet = mss + headers;
            Box::new(Bbr1::new(
                settings,
                now,
                packet,
                window,
                srtt,
                stream.clone(),
            ))
        }
        Algorithm::Bbr3 => {
            let packet = mss + headers;
            let stream = stream.clone();
            Box::new(Bbr3::new(settings, now, packet, window, srtt, stream))
        }
    }
}
