//! Data to record besides the counters, and samples.

use carob_cc::time::{Duration, Instant};

/// Data to record besides the counters. Recording changes neither results nor the trace hash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recording {
    /// Maximum trace events; 0 for none (at most
    /// [`EVENTS_RECORDED_MAX`](crate::trace::EVENTS_RECORDED_MAX)).
    pub events: u32,
    /// Restricts events to this client, and to segments between it and its server;
    /// `None` for all hosts.
    pub events_of: Option<u32>,
    /// Maximum round-trip and timer samples per flow; 0 for none.
    pub samples: u32,
    /// Maximum protocol events of all endpoints; 0 for none (at most [`LOG_MAX`](Self::LOG_MAX)).
    pub log: u32,
    /// Maximum packets, each captured when sent and when it arrives; 0 for none (at most
    /// [`PACKETS_MAX`](Self::PACKETS_MAX)).
    pub packets: u32,
    /// Bin width of the link's time series; zero for none.
    pub bin: Duration,
    /// Maximum moments of the nodes of a wireless network ([`Moment`](crate::mesh::record::Moment)); 0 for none
    /// (at most [`MOMENTS_MAX`](Self::MOMENTS_MAX)).
    pub moments: u32,
}

impl Recording {
    /// The maximum number of recorded protocol events (80 MB).
    pub const LOG_MAX: u32 = 1 << 20;
    /// The maximum number of recorded packets (some 400 MB of 300 bytes each).
    pub const PACKETS_MAX: u32 = 1 << 20;
    /// The maximum number of recorded moments (32 MB).
    pub const MOMENTS_MAX: u32 = 1 << 20;
    /// The maximum number of bins; later traffic counts in the last.
    pub const BINS_MAX: usize = 1 << 16;
}

/// Traffic towards the clients in a bin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bin {
    /// Bytes that left the bottleneck, lost after it or not.
    pub carried: u64,
    /// Bytes of spurious retransmissions among them ([`LinkRecord::useless_down`](super::LinkRecord::useless_down)).
    pub useless: u64,
    /// Responses that clients completed.
    pub answered: u32,
    /// The longest queueing delay of a packet that left in this bin, its own transmission included.
    pub wait: Duration,
}

/// A time measured or chosen at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Time of the sample.
    pub at: Instant,
    /// The value.
    pub value: Duration,
    /// Transmissions of its exchange so far, at least 1.
    pub attempts: u8,
}
