//! What a connection has done: counts, and on request a bounded series over time.

use carob_cc::time::{Duration, Instant};

/// The most points a series keeps, whatever it is asked for (16 MB).
pub const POINTS_MAX: u32 = 1 << 18;

/// Counts of one end of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// From the first SYN sent or received until the connection was established.
    pub setup: Option<Duration>,
    /// Segments sent, of any kind.
    pub segments: u64,
    /// Segments sent with data or FIN, retransmissions included.
    pub data_segments: u64,
    /// Of those, copies after the first.
    pub retransmissions: u64,
    /// SYNs or SYN-ACKs sent again.
    pub handshake_retransmissions: u32,
    /// Retransmission timers that ran out with data outstanding.
    pub timeouts: u64,
    /// When the first of them did.
    pub first_timeout: Option<Instant>,
    /// The largest retransmission timeout.
    pub rto_peak: Duration,
    /// Fast recoveries entered.
    pub recoveries: u64,
    /// Time spent in them.
    pub in_recovery: Duration,
    /// Duplicate ACKs received.
    pub duplicate_acks: u64,
    /// Window reductions because of ECN.
    pub ecn_reductions: u64,
    /// Segments received with data that was there already.
    pub duplicates_received: u64,
    /// Segments that arrived out of order.
    pub out_of_order: u64,
}

/// The sender at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// When.
    pub at: Instant,
    /// What happened.
    pub what: Happening,
    /// Position of the segment's first byte, counted from 1 with the first byte of the
    /// connection; for an ACK, that which it expects.
    pub seq: u64,
    /// Congestion window in segments.
    pub cwnd: u32,
    /// Slow-start threshold in segments.
    pub ssthresh: u32,
    /// Segments in flight by the best knowledge.
    pub pipe: u32,
    /// Retransmission timeout, backoff included.
    pub rto: Duration,
    /// Smoothed round-trip time.
    pub srtt: Option<Duration>,
}

/// What a [`Point`] is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happening {
    /// A segment was sent for the first time.
    Sent,
    /// A segment was sent again.
    Resent,
    /// An ACK of new data came.
    Acked,
    /// A duplicate ACK came.
    Duplicate,
    /// The retransmission timer ran out.
    TimedOut,
    /// Fast recovery began.
    Recovering,
}
