//! What a run is told ([`RunSpec`]) and what it tells ([`RunRecord`]).

use std::fmt;
use std::sync::LazyLock;

use carob_cc::constants::SetError;
use carob_cc::registry::{self, Entry, Settings};
use carob_cc::time::{Duration, Instant};
use carob_cc::{AnyController, TransmissionParameters};
use carob_proto::congestion::Choice;
use carob_proto::trace::Trace;

use crate::capture::Captured;
pub use crate::groups::Group;
use crate::link::{Counters, LinkSpec};
pub use crate::mesh::record::{MeshBin, MeshRecord, NodeRecord};
pub use crate::mesh::spec::MeshSpec;
pub use crate::notifications::{
    NotificationBin, NotificationRecord, Notifications, Sends, Subscriber,
};
use crate::tcp::TcpSettings;
use crate::trace::Event;
pub use crate::world::server::{Copies, SERVER_QUEUE_MAX, ServerRecord, ServerSpec};

/// One run: everything its outcome depends on.
#[derive(Clone, Debug)]
pub struct RunSpec {
    /// The seed all streams derive from.
    pub seed: u64,
    /// Clients behind the link, each with its own flow; 1 to [`CLIENTS_MAX`], `others` included.
    pub clients: u32,
    /// When clients begin: each draws from this span, uniformly, on the stream
    /// (`"client/start"`, client).
    pub start: Span,
    /// The constrained link shared by all clients.
    pub link: LinkSpec,
    /// Bytes of IP and UDP headers each datagram adds on the link.
    pub header_bytes: u32,
    /// The largest packet on the link in bytes, headers included; at least 68. A larger datagram
    /// crosses in fragments, as IPv4 makes them; TCP's segments must fit.
    pub mtu_bytes: u32,
    /// What carries messages.
    pub transport: Transport,
    /// What clients do.
    pub workload: Workload,
    /// Transmission parameters of both ends, with profile, scenario and command line applied.
    /// Of datagrams; over connections they mean nothing.
    pub transmission: TransmissionParameters,
    /// The congestion controller of clients and server. Of datagrams, likewise.
    pub controller: ControllerSpec,
    /// What requests cost the server. By default nothing.
    pub server: ServerSpec,
    /// Other clients on the same link, of other kinds; none in most runs.
    pub others: Vec<Group>,
    /// When the run is over.
    pub until: Until,
    /// When the run is cut off; flows not done by then have no completion time.
    pub time_limit: Duration,
    /// What to keep besides the counts.
    pub record: Recording,
}

/// What carries messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "a run has one")]
pub enum Transport {
    /// UDP: the stack's message layer repeats what is lost (RFC 7252 4).
    Datagrams,
    /// TCP with these settings at both ends (RFC 8323). Each client connects first, which is not
    /// part of its flow: its first request is handed over when the connection is there.
    Connections(TcpSettings),
}

/// The most clients a run may have.
pub const CLIENTS_MAX: u32 = 4_096;

/// A span of time to draw from uniformly, both ends included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// Shortest.
    pub low: Duration,
    /// Longest.
    pub high: Duration,
}

/// What clients do.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Workload {
    /// Each client makes requests, one after the other or so many at once.
    Requests(Requests),
    /// Each client observes resources of the server, which tells it of rounds of new states. The
    /// server is on the constrained side of the link then.
    Notifications(Notifications),
    /// Nodes of a wireless network send messages to its sinks. Of the run's other settings, only
    /// seed, transmission parameters, controller, time limit and recording mean something then.
    Mesh(Box<MeshSpec>),
}

impl Workload {
    /// The requests that clients make; none if they observe.
    pub fn requests(&self) -> &Requests {
        static NONE: LazyLock<Requests> = LazyLock::new(Requests::default);
        match self {
            Self::Requests(requests) => requests,
            Self::Notifications(_) | Self::Mesh(_) => &NONE,
        }
    }
}

/// Requests of a client, the next when one was answered: a GET where it has no body, else a POST.
///
/// Over datagrams a body goes in blocks if it is larger than one (RFC 7959), over connections in
/// one message, if it has no more than 32 MiB.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    /// How many.
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
    /// How many of them it makes at once, at least 1; how many are on their way is up to NSTART.
    pub parallel: u32,
    /// Whether the client starts anew between them.
    pub batches: Option<Batches>,
    /// What the client does after a request that failed.
    pub after_failure: AfterFailure,
}

impl Requests {
    /// Whether a body is larger than a block, so that over datagrams it goes in several.
    pub fn has_blocks(&self) -> bool {
        self.request_bytes.max(self.response_bytes) > u32::from(self.block_bytes)
    }
}

/// What a client does after a request that failed: one that was given up, or whose response is no
/// success.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AfterFailure {
    /// Nothing more: its flow ends.
    #[default]
    Stop,
    /// It makes the next.
    Next,
}

/// Requests in batches: after each the client starts anew, as a device does that sleeps or
/// restarts. It comes back from another port and knows nothing of the server: its controller is
/// new, and a connection is closed and another one made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batches {
    /// The fewest requests of a batch, at least 1. Each draws its number uniformly, on the stream
    /// (`"client/batch"`, client).
    pub least: u32,
    /// The most.
    pub most: u32,
    /// Time between the end of a batch and the next, drawn on the same stream.
    pub pause: Span,
    /// Over connections, when that time begins.
    pub reconnect: Reconnect,
}

/// When a client that has left a connection makes another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reconnect {
    /// At once; the old one closes on its own.
    #[default]
    AtOnce,
    /// When it has the server's FIN, too: a client that waits for its connection to close.
    Closed,
}

/// When a run is over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Until {
    /// When every client has its last response.
    #[default]
    Answered,
    /// When, besides, every connection was closed by both ends.
    Closed,
    /// At the time limit, whoever is done or not.
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
        let entry = match Choice::default() {
            Choice::Registered(entry) => entry,
            _ => registry::entries().next().expect("there are controllers"),
        };
        Self {
            entry,
            changed: None,
        }
    }
}

impl ControllerSpec {
    /// The controller `name` with `constants` set in order, each a (name, value in text).
    ///
    /// Changed constants live as long as the program, since controllers refer to them: make one
    /// of these per algorithm of a scenario and copy it, not one per run.
    pub fn new<'a>(
        name: &str,
        constants: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, ControllerError> {
        let entry = registry::find(name).map_err(|_| ControllerError::UnknownController {
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

    /// The choice an endpoint builds each peer's controller from.
    pub fn choice(&self) -> Choice {
        self.changed
            .map_or(Choice::Registered(self.entry), Choice::Tuned)
    }

    /// A controller for one peer.
    pub fn build(&self) -> AnyController {
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
            .map_or_else(|| self.entry.settings(), |changed| *changed)
    }
}

/// Why a controller could not be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ControllerError {
    /// The registry has no controller of that name.
    UnknownController {
        /// The name asked for.
        name: String,
    },
    /// A constant is unknown to the controller, or its value is of the wrong kind.
    BadConstant {
        /// The controller.
        controller: String,
        /// The constant.
        constant: String,
        /// The value in text.
        value: String,
        /// What is wrong.
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

/// What to keep besides the counts. No choice changes what happens or the trace hash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recording {
    /// How many trace events to keep; 0 for none
    /// (at most [`EVENTS_RECORDED_MAX`](crate::trace::EVENTS_RECORDED_MAX)).
    pub events: u32,
    /// Of the events, only those at this client, and those of segments that its server sends it or
    /// has from it; `None` for those of all hosts.
    pub events_of: Option<u32>,
    /// How many round-trip and timer samples to keep per flow; 0 for none.
    pub samples: u32,
    /// How many protocol events of all endpoints to keep; 0 for none
    /// (at most [`LOG_MAX`](Self::LOG_MAX)).
    pub log: u32,
    /// How many packets to keep, as they are sent and as they arrive; 0 for none
    /// (at most [`PACKETS_MAX`](Self::PACKETS_MAX)).
    pub packets: u32,
    /// Spans of time to count what crosses the link in; zero for none.
    pub bin: Duration,
}

impl Recording {
    /// The most protocol events a run keeps, whatever it asks for (80 MB).
    pub const LOG_MAX: u32 = 1 << 20;
    /// The most packets a run keeps, whatever it asks for (some 400 MB of 300 bytes each).
    pub const PACKETS_MAX: u32 = 1 << 20;
    /// The most bins a run keeps; what comes later counts in the last.
    pub const BINS_MAX: usize = 1 << 16;
}

/// What crossed the link towards the clients in a span of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bin {
    /// Bytes that left the bottleneck, lost after it or not.
    pub carried: u64,
    /// Of those, the ones of copies nobody needed ([`LinkRecord::useless_down`]).
    pub useless: u64,
    /// Responses that clients completed.
    pub answered: u32,
    /// The longest that a packet had spent in the queue when it left, its own transmission included.
    pub wait: Duration,
}

/// The outcome of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunRecord {
    /// One per client, in order.
    pub flows: Vec<FlowRecord>,
    /// Those of the other clients that shared the link, group by group.
    pub others: Vec<FlowRecord>,
    /// What the link did.
    pub link: LinkRecord,
    /// What the server did, if requests cost it time.
    pub server: Option<ServerRecord>,
    /// What became of notifications, if there were any. There are no flows then.
    pub notifications: Option<NotificationRecord>,
    /// What a wireless network did, if there was one. There are no flows and no link then.
    pub mesh: Option<Box<MeshRecord>>,
    /// When the run ended: the last flow's end or the time limit.
    pub ended: Instant,
    /// Simulator events handled, for speed figures.
    pub events_handled: u64,
    /// The hash of everything that happened.
    pub trace_hash: u64,
    /// The recorded events.
    pub events: Vec<Event>,
    /// Events that were not recorded for lack of room.
    pub events_unrecorded: u64,
    /// Protocol events, each with the number of its host: clients come first, the server last.
    pub log: Vec<(u32, Trace)>,
    /// The recorded packets, in order.
    pub packets: Vec<Captured>,
    /// The link towards the clients over time, one after the other from the beginning.
    pub bins: Vec<Bin>,
}

/// What both directions of the link did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkRecord {
    /// Towards the clients.
    pub down: Counters,
    /// Towards the server.
    pub up: Counters,
    /// Of the bytes that used the link towards the clients, those of copies nobody needed: of
    /// answers after the first that arrived, and of TCP's spurious copies.
    pub useless_down: u64,
    /// The same towards the server: of copies sent although an earlier one was answered.
    pub useless_up: u64,
}

/// One client's flow.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlowRecord {
    /// When its first request was handed to the endpoint; over connections, as soon as it was
    /// connected.
    pub started: Instant,
    /// When its last response was complete; `None` if that never happened, or if a request failed.
    pub finished: Option<Instant>,
    /// When it ended, complete or not; [`Instant::ZERO`] if it never did.
    pub ended: Instant,
    /// Connection set-up, for transports that have one. Not part of the completion time.
    pub setup: Option<Duration>,
    /// Requests answered with success.
    pub answered: u32,
    /// Requests that failed.
    pub unanswered: u32,
    /// Exchanges answered before anything was sent again. Of datagrams only.
    pub answered_at_once: u32,
    /// Bytes of bodies that were received whole.
    pub body_bytes: u64,
    /// Bytes of messages that were new to the client, headers of CoAP included: over datagrams the
    /// first answers to its exchanges, over TCP all that it read.
    pub received_bytes: u64,
    /// Exchanges begun; with TCP, segments that carried new data, of the ends counted below.
    pub exchanges: u32,
    /// Exchanges given up or reset.
    pub failed: u32,
    /// Copies sent by the client, first ones included; with TCP, segments with data of the server,
    /// and where requests have bodies, too, of the client.
    pub transmissions: u64,
    /// Copies after the first of their exchange; with TCP, those of the segments counted above.
    pub retransmissions: u64,
    /// Copies sent although an earlier copy and its answer were not lost. With TCP, of the segments
    /// counted above those sent again although all their bytes had been sent in copies that were
    /// not lost: acknowledgments are cumulative, so no single one of them answers a copy.
    pub spurious: u64,
    /// Timers that ran out; with TCP, retransmission timers of the ends counted above.
    pub timeouts: u64,
    /// SYNs and SYN-ACKs sent again; `None` over datagrams.
    pub handshake_retransmissions: Option<u64>,
    /// Segments with data that were counted, retransmissions included; `None` over datagrams.
    pub segments: Option<u64>,
    /// Packets that both ends sent until the last response was complete, set-up included.
    pub packets: u64,
    /// Bytes of IP and UDP or TCP headers in them.
    pub header_bytes: u64,
    /// How the last connection was closed, where the run went on until it was ([`Until::Closed`]).
    pub closing: Option<Closing>,
    /// What its TCP did about losses; `None` over datagrams.
    pub recovery: Option<Recovery>,
    /// The longest time without anything new of the response.
    pub stall: Duration,
    /// Exchanges answered, and the sum of their round-trip times, each from the copy that was
    /// answered first to that answer. What the network took, whatever the controller knew of it.
    /// Of datagrams only.
    pub round_trips: RoundTrips,
    /// Median of the first timers of its exchanges, dithering included. Of datagrams only.
    pub rto_median: Option<Duration>,
    /// Over datagrams, `transmissions_per_exchange[n]` exchanges ended after `n` copies; index 0 stays 0.
    pub transmissions_per_exchange: Vec<u32>,
    /// Round-trip times as the controller heard them, if samples were asked for. Of datagrams only.
    pub rtt: Vec<Sample>,
    /// First timers of exchanges, dithering included, if samples were asked for. Of datagrams only.
    pub rto_init: Vec<Sample>,
    /// The controller's retransmission timeout before dithering, whenever it changed, if samples
    /// were asked for and the controller has such a gauge; with TCP the server's, backoff included.
    pub rto: Vec<Sample>,
}

/// Round-trip times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RoundTrips {
    /// How many.
    pub count: u32,
    /// Their sum.
    pub sum: Duration,
}

impl RoundTrips {
    /// Their mean, if there are any.
    pub fn mean(&self) -> Option<Duration> {
        let mean = self.sum.as_micros().checked_div(self.count.into())?;
        Some(Duration::from_micros(mean))
    }
}

/// The end of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Closing {
    /// Packets of both ends from the first FIN on, that included.
    pub packets: u64,
    /// From the first FIN until both ends had closed and the last packet had arrived.
    pub time: Duration,
}

/// What a server's TCP did about the losses of one flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Fast recoveries entered.
    pub entered: u64,
    /// Time spent in them.
    pub time: Duration,
    /// When the first retransmission timer ran out, since the request.
    pub first_timeout: Option<Duration>,
    /// The longest retransmission timer.
    pub rto_peak: Duration,
}

impl FlowRecord {
    /// Flow completion time: from handing over the first request to the complete last response.
    pub fn completion(&self) -> Option<Duration> {
        Some(self.finished?.since(self.started))
    }

    /// Notes that an exchange ended after `copies` copies.
    pub fn count_exchange(&mut self, copies: u8) {
        let index = usize::from(copies);
        if self.transmissions_per_exchange.len() <= index {
            self.transmissions_per_exchange.resize(index + 1, 0);
        }
        self.transmissions_per_exchange[index] += 1;
    }
}

/// A length of time measured or chosen at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// When.
    pub at: Instant,
    /// The value.
    pub value: Duration,
    /// Copies of its exchange sent by then, at least 1.
    pub attempts: u8,
}
