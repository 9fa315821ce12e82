//! Counters of a connection, and an optional bounded time series.

use carob_cc::time::{Duration, Instant};

/// The maximum number of points in a series (16 MB).
pub const POINTS_MAX: u32 = 1 << 18;

/// Counts of one end of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Time from the first SYN sent or received until the connection was established.
    pub setup: Option<Duration>,
    /// Segments sent, of any kind.
    pub segments: u64,
    /// Segments sent with data or FIN, retransmissions included.
    pub data_segments: u64,
    /// Retransmissions of data segments.
    pub retransmissions: u64,
    /// Retransmitted SYNs or SYN-ACKs.
    pub handshake_retransmissions: u32,
    /// Expiries of the retransmission timer with data outstanding.
    pub timeouts: u64,
    /// Time of the first of them.
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
    /// Segments received whose data had been received before.
    pub duplicates_received: u64,
    /// Segments that arrived out of order.
    pub out_of_order: u64,
}

/// The sender at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// Time.
    pub at: Instant,
    /// The event.
    pub what: SenderEvent,
    /// Position of the segment's first byte, counted from 1 with the first byte of the connection;
    /// for an ACK, the position it expects.
    pub seq: u64,
    /// Congestion window in segments.
    pub cwnd: u32,
    /// Slow-start threshold in segments.
    pub ssthresh: u32,
    /// Segments in flight by the best estimate.
    pub pipe: u32,
    /// Retransmission timeout, backoff included.
    pub rto: Duration,
    /// Smoothed round-trip time.
    pub srtt: Option<Duration>,
}

/// An event of the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SenderEvent {
    /// A segment was sent for the first time.
    Sent,
    /// A segment was retransmitted.
    Resent,
    /// An ACK of new data came.
    Acked,
    /// A duplicate ACK came.
    Duplicate,
    /// The retransmission timer expired.
    TimedOut,
    /// Fast recovery began.
    Recovering,
}
