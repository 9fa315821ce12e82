//! Specification ([`RunSpec`]) and results ([`RunRecord`]) of a run.

use std::fmt;
use std::sync::LazyLock;

use carob_cc::constants::SetError;
use carob_cc::time::{Duration, Instant};
use carob_cc::{Controller, TransmissionParameters};
use carob_proto::congestion::CongestionControl;
use carob_proto::trace::Trace;

use crate::capture::Captured;
pub use crate::client_groups::ClientGroup;
pub use crate::engine::server_queue::{
    Copies, PauseSchedule, SERVER_QUEUE_MAX, ServerQueue, ServerRecord, ServerSpec, ServerWorker,
    Works,
};
pub use crate::fault::{ClientRestarts, Faults, Outages, Rebindings, ServerRestarts};
use crate::histogram::Histogram;
use crate::link::{Counters, DeviceRecord, DeviceSpec, LinkSpec};
pub use crate::mesh::record::{MeshBin, MeshRecord, Moment, NodeRecord};
pub use crate::mesh::spec::MeshSpec;
pub use crate::mesh_traffic::MeshTraffic;
pub use crate::notifications::{
    NotificationBin, NotificationRecord, Notifications, Sends, Subscriber,
};
use crate::random::Probability;
pub use crate::random::Span;
use crate::registry::{Entry, Registry, Settings};
use crate::tcp::TcpSettings;
use crate::trace::Event;

/// A run: everything its results depend on.
#[derive(Clone, Debug)]
pub struct RunSpec {
    /// The seed of all streams.
    pub seed: u64,
    /// Clients behind the link, each with its own flow; 1 to [`CLIENTS_MAX`], `others` included.
    pub clients: u32,
    /// The span of the clients' start times, drawn uniformly on the stream (`"client/start"`,
    /// client).
    pub start: Span,
    /// The constrained link shared by all clients; unused in a wireless network.
    pub link: LinkSpec,
    /// The wireless network; none for a run over the link.
    pub mesh: Option<Box<MeshSpec>>,
    /// Size of the IP and UDP headers of each datagram in bytes.
    pub header_bytes: u32,
    /// The largest packet on the link in bytes, headers included; at least 68. A larger datagram is
    /// fragmented as in IPv4; TCP's segments must fit.
    pub mtu_bytes: u32,
    /// The transport.
    pub transport: Transport,
    /// The clients' workload.
    pub workload: Workload,
    /// Transmission parameters of both ends, with profile, scenario and command line applied.
    /// Datagrams only.
    pub transmission: TransmissionParameters,
    /// The congestion controller of clients and server. Datagrams only.
    pub controller: ControllerSpec,
    /// The server's service time. Default: none.
    pub server: ServerSpec,
    /// Other client groups on the same link; none in most runs.
    pub others: Vec<ClientGroup>,
    /// Faults of hosts and link. Default: none.
    pub faults: Faults,
    /// Radios of the devices on the link. Default: none.
    pub device: DeviceSpec,
    /// The condition that ends the run.
    pub until: Until,
    /// Time limit of the run; flows not complete at its end have no completion time.
    pub time_limit: Duration,
    /// Data to record besides the counters.
    pub record: Recording,
}

/// The transport of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "a run has one")]
pub enum Transport {
    /// UDP: the stack's message layer retransmits (RFC 7252 4).
    Datagrams,
    /// TCP with these settings at both ends (RFC 8323). Each client connects first, which is not
    /// part of its flow: its first request is sent on the established connection.
    Connections(TcpSettings),
}

/// The maximum number of clients of a run.
pub const CLIENTS_MAX: u32 = 4_096;

/// The workload of clients.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Workload {
    /// Each client sends requests, sequentially or in parallel.
    Requests(Requests),
    /// Each client observes resources of the server, which sends rounds of notifications. The
    /// server is on the constrained side of the link then.
    Notifications(Notifications),
    /// Nodes of a wireless network send messages to its sinks. Of the run's other settings, only
    /// seed, network, transmission parameters, controller, time limit and recording apply then.
    MeshTraffic(MeshTraffic),
}

impl Workload {
    /// The requests of clients; none for other workloads.
    pub fn requests(&self) -> &Requests {
        static NONE: LazyLock<Requests> = LazyLock::new(Requests::default);
        match self {
            Self::Requests(requests) => requests,
            Self::Notifications(_) | Self::MeshTraffic(_) => &NONE,
        }
    }
}

/// Requests of a client, each sent after the previous response: a GET without a body, else a POST.
///
/// Over datagrams a body larger than a block is transferred block-wise (RFC 7959), over connections
/// in one message of up to 32 MiB.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    /// Number of requests.
    pub count: u32,
    /// Size of each request's body in bytes.
    pub request_bytes: u32,
    /// Size of each response's body in bytes.
    pub response_bytes: u32,
    /// Size of a block in bytes: a power of two from 16 to 1024.
    pub block_bytes: u16,
    /// Uri-Path, one segment.
    pub path: String,
    /// Length of the token in bytes, 0 to 8.
    pub token_bytes: u8,
    /// Number of requests passed to the endpoint at once, at least 1; NSTART limits those
    /// outstanding.
    pub parallel: u32,
    /// Batches with client restarts in between, if any.
    pub batches: Option<Batches>,
    /// The client's reaction to a failed request.
    pub after_failure: AfterFailure,
    /// Periodic requests; none to send each after the previous response.
    pub periodic: Option<Periodic>,
    /// Interval at which a sleepy client polls: datagrams for it wait until it polls. Zero for a client
    /// that always receives. A client's first poll is drawn uniformly from the first interval, on
    /// the stream (`"client/poll"`, client). Datagrams only.
    pub poll: Duration,
    /// Options of bodies larger than a block over datagrams.
    pub q_block: QBlock,
}

/// Options of block-wise transfers over datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QBlock {
    /// Block1 and Block2 (RFC 7959).
    #[default]
    Off,
    /// Q-Block1 and Q-Block2 (RFC 9177) in CON requests.
    Confirmable,
    /// The same in NON requests.
    NonConfirmable,
}

/// Periodic requests of a client that keeps its state, as of a device that reports: whatever became
/// of earlier requests, the next ones are due by the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Periodic {
    /// Time from one nominal time to the next, the first being the client's start; above zero.
    pub period: Duration,
    /// The most that a request comes after its nominal time, drawn uniformly (stream
    /// `"client/period"`, client).
    pub jitter: Duration,
    /// Requests at once in a burst, at least 1.
    pub burst: u32,
    /// Probability that a time brings a burst instead of a single request, on the same stream.
    pub burst_probability: Probability,
}

impl Requests {
    /// Returns whether a body is larger than a block, so that it is transferred block-wise over
    /// datagrams.
    pub fn has_blocks(&self) -> bool {
        self.request_bytes.max(self.response_bytes) > u32::from(self.block_bytes)
    }

    /// Size of the largest message over datagrams in bytes, at most: a block with its options.
    pub(crate) fn largest_message(&self) -> u16 {
        /// Header, Block2, Size2, marker, and the lengths of options.
        const AROUND: usize = 16;
        /// Request-Tag or ETag, and Size1 or Size2 in every block.
        const Q_BLOCK: usize = 12;
        let around = AROUND
            + if self.q_block == QBlock::Off {
                0
            } else {
                Q_BLOCK
            };
        let body = self.request_bytes.max(self.response_bytes);
        let block = body.min(self.block_bytes.into()) as usize;
        let message = around + usize::from(self.token_bytes) + self.path.len() + block;
        u16::try_from(message).unwrap_or(u16::MAX)
    }
}

/// A client's reaction to a failed request: one that was given up, or whose response is no success.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AfterFailure {
    /// Ends its flow.
    #[default]
    Stop,
    /// Sends the next request.
    Next,
}

/// Requests in batches with a restart of the client after each, as of a device that sleeps or
/// reboots. It returns from another port without any state: its controller is new, and a connection
/// is closed and another one made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batches {
    /// Minimum requests of a batch, at least 1. Each batch draws its number uniformly, on the
    /// stream (`"client/batch"`, client).
    pub least: u32,
    /// Maximum requests of a batch.
    pub most: u32,
    /// Pause between the end of a batch and the next, drawn on the same stream.
    pub pause: Span,
    /// Beginning of the pause, over connections.
    pub reconnect: Reconnect,
}

/// The time at which a client that has left a connection makes another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reconnect {
    /// At once; the old one closes on its own.
    #[default]
    AtOnce,
    /// After the server's FIN as well: the client waits for its connection to close.
    Closed,
    /// After the last ACK as well: one and a half round trips where the client closes first.
    ClosedByBoth,
}

/// The condition that ends a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Until {
    /// Every client has its last response.
    #[default]
    Answered,
    /// Also, every connection was closed by both ends.
    Closed,
    /// The time limit, regardless of completion.
    TimeLimit,
}

/// A congestion controller, with its profile's constants or changed ones.
#[derive(Clone, Copy, Debug)]
pub struct ControllerSpec {
    entry: Entry,
    changed: Option<&'static Settings>,
}

impl Default for ControllerSpec {
    /// The stack's default controller.
    fn default() -> Self {
        let entry = match CongestionControl::default() {
            CongestionControl::Registered(entry) => entry.into(),
            _ => (Registry::BUILT_IN.entries().next()).expect("there are controllers"),
        };
        Self {
            entry,
            changed: None,
        }
    }
}

impl ControllerSpec {
    /// The built-in controller `name` with `constants` set in order, each a (name, value in text).
    ///
    /// Changed constants are leaked, since controllers refer to them for the life of the program.
    /// Create one specification per algorithm of a scenario and copy it, not one per run.
    pub fn new<'a>(
        name: &str,
        constants: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, ControllerError> {
        Self::registered(Registry::BUILT_IN, name, constants)
    }

    /// The controller `name` of a registry, with constants as for [`new`](Self::new).
    pub fn registered<'a>(
        registry: Registry,
        name: &str,
        constants: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, ControllerError> {
        let entry = registry
            .find(name)
            .map_err(|_| ControllerError::UnknownController {
                name: name.to_owned(),
            })?;
        let (mut settings, mut changed) = (entry.settings(), false);
        for (constant, value) in constants {
            settings
                .set(constant, value)
                .map_err(|why| ControllerError::BadConstant {
                    controller: name.to_owned(),
                    constant: constant.to_owned(),
                    value: value.to_owned(),
                    why,
                })?;
            changed = true;
        }
        Ok(Self {
            entry,
            changed: changed.then(|| &*Box::leak(Box::new(settings))),
        })
    }

    /// The specification from which an endpoint builds each peer's controller.
    pub fn choice(&self) -> CongestionControl {
        self.changed
            .map_or_else(|| self.entry.choice(), Settings::choice)
    }

    /// Builds a controller for one peer.
    pub fn build(&self) -> Box<dyn Controller + Send> {
        self.changed
            .map_or_else(|| self.entry.build(), Settings::build)
    }

    /// Its entry in the registry.
    pub fn entry(&self) -> &Entry {
        &self.entry
    }

    /// The constants in force.
    pub fn settings(&self) -> Settings {
        self.changed
            .map_or_else(|| self.entry.settings(), Settings::clone)
    }
}

/// An invalid controller specification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ControllerError {
    /// The registry has no controller of that name.
    UnknownController {
        /// The requested name.
        name: String,
    },
    /// A constant is unknown to the controller, or its value has the wrong kind.
    BadConstant {
        /// The controller.
        controller: String,
        /// The constant.
        constant: String,
        /// The value in text.
        value: String,
        /// The error.
        why: SetError,
    },
}

impl fmt::Display for ControllerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownController { name } => write!(f, "unknown controller \"{name}\""),
            Self::BadConstant {
                controller,
                constant,
                why: SetError::UnknownName,
                ..
            } => {
                write!(f, "{controller} has no constant \"{constant}\"")
            }
            Self::BadConstant {
                constant,
                value,
                why,
                ..
            } => {
                write!(f, "cc.{constant} = \"{value}\": {why}")
            }
        }
    }
}

impl std::error::Error for ControllerError {}

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
    /// Maximum moments of the nodes of a wireless network ([`Moment`]); 0 for none
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
    /// Bytes of spurious retransmissions among them ([`LinkRecord::useless_down`]).
    pub useless: u64,
    /// Responses that clients completed.
    pub answered: u32,
    /// The longest queueing delay of a packet that left in this bin, its own transmission included.
    pub wait: Duration,
}

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
    /// The closing of the last connection, if the run included it ([`Until::Closed`]).
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
