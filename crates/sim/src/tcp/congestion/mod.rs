//! Congestion control of a connection, behind one trait.
//!
//! Windows count segments, as Linux counts them: a short segment weighs as much as a full one.
//! The sender finds losses, keeps the pipe and reduces the window during recovery; a module says
//! how the window grows, to what it falls, and how sending is paced. One that owns its window
//! ([`Congestion::owns_window`]) is asked after every ACK, in recovery too.

mod bbr1;
mod cubic;
mod newreno;

use core::fmt;

use carob_cc::time::{Duration, Instant};

pub use bbr1::Bbr1;
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
    /// Whether the window grows exponentially.
    pub const fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// Slow start (RFC 5681 3.1) by up to `acked`; returns what is left for congestion avoidance.
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

    /// Congestion avoidance: a segment more for every `per` acknowledged.
    pub(crate) fn avoid(&mut self, per: u32, acked: u32) {
        let per = per.max(1);
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

/// What the sender is doing about losses (the states of Linux's `tcp_input.c`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// Nothing is amiss.
    #[default]
    Open,
    /// Duplicate ACKs or SACK blocks came, too few for a loss.
    Disorder,
    /// The window shrinks because a queue marked a packet.
    Cwr,
    /// Fast recovery.
    Recovery,
    /// After a timeout, until what was outstanding then is acknowledged.
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
}

/// What an ACK says.
#[derive(Clone, Copy, Debug)]
pub struct Ack {
    /// When it came.
    pub now: Instant,
    /// Segments it shows to be delivered that were not known to be.
    pub acked: u32,
    /// Segments it shows to be lost.
    pub losses: u32,
    /// Segments deemed lost since the connection began.
    pub lost: u64,
    /// Segments in flight before it.
    pub prior_in_flight: u32,
    /// Segments in flight after it.
    pub in_flight: u32,
    /// How long pacing holds the next segment back.
    pub held_back: Duration,
    /// Segments delivered since the connection began.
    pub delivered: u64,
    /// What the sender is doing about losses.
    pub state: State,
    /// Whether the window was what limited sending.
    pub window_limited: bool,
    /// A round-trip time from the last segment acknowledged, if it was sent once.
    pub rtt: Option<Duration>,
    /// The smoothed round-trip time.
    pub srtt: Option<Duration>,
    /// A measurement of the delivery rate.
    pub rate: Option<RateSample>,
}

/// What a timeout did.
#[derive(Clone, Copy, Debug)]
pub struct Timeout {
    /// When.
    pub now: Instant,
    /// Segments in flight after it.
    pub in_flight: u32,
    /// Segments deemed lost since the connection began.
    pub lost: u64,
    /// Segments delivered since the connection began.
    pub delivered: u64,
    /// When the last of them was.
    pub delivered_at: Instant,
}

/// An algorithm. It sees what the sender finds out, and owns nothing but its own state.
pub trait Congestion: fmt::Debug + Send {
    /// A loss or mark was found, by ACKs or by a timer: the new slow-start threshold.
    ///
    /// `half_of` is the window or what is outstanding, as the settings have it.
    fn ssthresh(&mut self, now: Instant, window: &Window, half_of: u32) -> u32;

    /// New data was delivered outside of a window reduction; for one that owns its window, any
    /// ACK came.
    fn on_ack(&mut self, window: &mut Window, ack: &Ack);

    /// A retransmission timer ran out; called after segments were marked and the window was set.
    fn on_timeout(&mut self, _window: &mut Window, _timeout: &Timeout) {}

    /// A segment is about to leave with nothing in flight, while samples are limited by the
    /// application.
    fn on_restart(&mut self, _window: &mut Window, _now: Instant) {}

    /// Whether it sets the window in recovery, too.
    fn owns_window(&self) -> bool {
        false
    }

    /// Bytes a second to send at, if sending is paced.
    fn pacing_rate(&self) -> Option<u64> {
        None
    }

    /// Whether samples of segments sent from here on are limited by the application (BBR's
    /// PROBE_RTT).
    fn wants_app_limited(&self) -> bool {
        false
    }
}

/// The module the settings ask for. `header_bytes` come on top of the MSS in every packet.
pub(super) fn build(
    settings: &TcpSettings,
    now: Instant,
    mss: u32,
    header_bytes: u32,
    window: &Window,
    srtt: Option<Duration>,
    stream: &Stream,
) -> Box<dyn Congestion> {
    match settings.congestion {
        Algorithm::NewReno => Box::new(NewReno::new(settings)),
        Algorithm::Cubic => Box::new(Cubic::new(settings)),
        Algorithm::Bbr1 => {
            // A rate of what pacing counts.
            let headers = u32::from(settings.bbr_pacing_headers) * header_bytes;
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
    }
}
