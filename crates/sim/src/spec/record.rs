//! The record of a run, and its optional data: samples and bins.

use carob_cc::time::{Duration, Instant};
use carob_proto::trace::Trace;

use super::notifications::NotificationRecord;
use super::server::ServerRecord;
use crate::capture::Captured;
use crate::histogram::Histogram;
use crate::link::{Counters, DeviceRecord};
use crate::mesh::record::{MeshRecord, Moment};
use crate::trace::Event;

/// The results of a run.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct RunRecord {
    /// One per client, in order.
    pub flows: Vec<FlowRecord>,
    /// Flows of the other groups, group by group.
    pub others: Vec<FlowRecord>,
    /// Times of the clients' requests, from each to its complete successful response.
    pub responses: Histogram,
    /// The same times one by one, in the order of the responses; empty if there are more than
    /// [`RESPONSE_TIMES_MAX`](Self::RESPONSE_TIMES_MAX).
    pub response_times: Vec<Duration>,
    /// The same of the clients of the other groups.
    pub other_responses: Histogram,
    /// Counters of the link.
    pub link: LinkRecord,
    /// Counters of the server, if it has a service time.
    pub server: Option<ServerRecord>,
    /// Results of a notification workload, which has no flows.
    pub notifications: Option<NotificationRecord>,
    /// Devices on the link, if the energy of their radios is measured.
    pub devices: Vec<DeviceRecord>,
    /// Results of a wireless network, which has no flows and no link.
    pub mesh: Option<Box<MeshRecord>>,
    /// The end of the run: the last flow's end or the time limit.
    pub ended: Instant,
    /// Simulator events handled, for performance figures.
    pub events_handled: u64,
    /// The hash of all events.
    pub trace_hash: u64,
    /// The recorded events.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub events: Vec<Event>,
    /// Events beyond the recording limit.
    pub events_unrecorded: u64,
    /// Protocol events, each with the number of its host: clients come first, the server last.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub log: Vec<(u32, Trace)>,
    /// The recorded packets, in order.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub packets: Vec<Captured>,
    /// The time series of the link towards the clients, from the beginning of the run.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub bins: Vec<Bin>,
    /// The recorded moments of a wireless network's nodes, in order, the warm-up included.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub moments: Vec<Moment>,
}

impl RunRecord {
    /// The most responses of a run whose times are kept one by one (512 kB).
    pub const RESPONSE_TIMES_MAX: usize = 1 << 16;
}

/// Counters of both directions of the link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct LinkRecord {
    /// Towards the clients.
    pub down: Counters,
    /// Towards the server.
    pub up: Counters,
    /// Redundant bytes on the link towards the clients: responses after the first that arrived, and
    /// TCP's spurious retransmissions.
    pub useless_down: u64,
    /// The same towards the server: retransmissions sent although an earlier transmission got a
    /// response.
    pub useless_up: u64,
}

/// One client's flow.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct FlowRecord {
    /// The time its first request was passed to the endpoint; over connections, the time it was
    /// connected.
    pub started: Instant,
    /// The time its last response was complete; `None` without completion, or after a failed
    /// request.
    pub finished: Option<Instant>,
    /// The end of the flow, complete or not; [`Instant::ZERO`] if it never ended.
    pub ended: Instant,
    /// Connection set-up, for transports that have one. Not part of the completion time.
    pub setup: Option<Duration>,
    /// Requests with a successful response.
    pub answered: u32,
    /// Requests that failed.
    pub unanswered: u32,
    /// Exchanges without a retransmission. Datagrams only.
    pub answered_at_once: u32,
    /// Bytes of completely received bodies.
    pub body_bytes: u64,
    /// Bytes of messages new to the client, CoAP headers included: over datagrams the first
    /// responses to its exchanges, over TCP all that it read.
    pub received_bytes: u64,
    /// Exchanges begun; with TCP, segments with new data, of the ends counted below.
    pub exchanges: u32,
    /// Exchanges given up or reset.
    pub failed: u32,
    /// Transmissions by the client, initial ones included; with TCP, data segments of the server,
    /// and of the client where requests have bodies.
    pub transmissions: u64,
    /// Retransmissions; with TCP, of the segments counted above.
    pub retransmissions: u64,
    /// Spurious retransmissions: sent although an earlier transmission and its response were not
    /// lost. With TCP, segments sent again although all their bytes had been sent in transmissions
    /// that were not lost: acknowledgments are cumulative, so none of them belongs to a single
    /// transmission.
    pub spurious: u64,
    /// Timeouts; with TCP, of the retransmission timers of the ends counted above.
    pub timeouts: u64,
    /// Retransmitted SYNs and SYN-ACKs; `None` over datagrams.
    pub handshake_retransmissions: Option<u64>,
    /// Data segments, retransmissions included; `None` over datagrams.
    pub segments: Option<u64>,
    /// Packets that both ends sent until the last response was complete, set-up included.
    pub packets: u64,
    /// Bytes of IP and UDP or TCP headers in them.
    pub header_bytes: u64,
    /// The closing of the last connection, if the run included it ([`Until::Closed`](super::Until::Closed)).
    pub closing: Option<Closing>,
    /// Loss recovery of its TCP; `None` over datagrams.
    pub recovery: Option<Recovery>,
    /// The longest time without progress in a response.
    pub stall: Duration,
    /// Count and sum of round-trip times, each from the transmission whose response came first to
    /// that response: the network's delay, independent of the controller's knowledge. Datagrams
    /// only.
    pub round_trips: RoundTrips,
    /// Median of the initial timeouts of its exchanges, dithering included. Datagrams only.
    pub rto_median: Option<Duration>,
    /// Over datagrams, `transmissions_per_exchange[n]` exchanges ended after `n` transmissions;
    /// index 0 stays 0.
    pub transmissions_per_exchange: Vec<u32>,
    /// Round-trip times as reported to the controller, if samples are recorded. Datagrams only.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub rtt: Vec<Sample>,
    /// Initial timeouts of exchanges, dithering included, if samples are recorded. Datagrams only.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub rto_init: Vec<Sample>,
    /// The controller's retransmission timeout before dithering, at each change, if samples are
    /// recorded and the controller has such a gauge; with TCP the server's, backoff included.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub rto: Vec<Sample>,
}

/// Round-trip times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct RoundTrips {
    /// Number of samples.
    pub count: u32,
    /// Sum of samples.
    pub sum: Duration,
}

impl RoundTrips {
    /// The mean, if there are samples.
    pub fn mean(&self) -> Option<Duration> {
        let mean = self.sum.as_micros().checked_div(self.count.into())?;
        Some(Duration::from_micros(mean))
    }
}

/// The closing of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Closing {
    /// Packets of both ends from the first FIN on, that included.
    pub packets: u64,
    /// Time from the first FIN until both ends had closed and the last packet had arrived.
    pub time: Duration,
}

/// Loss recovery of a server's TCP in one flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Recovery {
    /// Fast recoveries entered.
    pub entered: u64,
    /// Time spent in them.
    pub time: Duration,
    /// The first retransmission timeout, since the request.
    pub first_timeout: Option<Duration>,
    /// The longest retransmission timer.
    pub rto_peak: Duration,
}

impl FlowRecord {
    /// Flow completion time: from the first request to the complete last response.
    pub fn completion(&self) -> Option<Duration> {
        Some(self.finished?.since(self.started))
    }

    /// Counts an exchange that ended after `copies` transmissions.
    pub fn count_exchange(&mut self, copies: u8) {
        let index = usize::from(copies);
        if self.transmissions_per_exchange.len() <= index {
            self.transmissions_per_exchange.resize(index + 1, 0);
        }
        self.transmissions_per_exchange[index] += 1;
    }
}

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
