//! The table of keys.

use carob_cc::TransmissionParameters;
use carob_sim::notifications::RESOURCES_MAX;
use carob_sim::spec::{CLIENTS_MAX, SERVER_QUEUE_MAX};

use super::Key;
use super::link::LINK_KEYS;
use super::mesh::MESH_KEYS;
use crate::scenario::value::Kind;

pub(super) const fn key(
    path: &'static str,
    kind: Kind,
    default: Option<&'static str>,
    about: &'static str,
) -> Key {
    Key {
        path,
        kind,
        default,
        about,
    }
}

/// Every key with a fixed path. Besides them there are tables whose keys depend on the scenario:
/// `sweep.<key>`, `algorithm.<name>.<transmission key>`, `algorithm.<name>.cc.<constant>`,
/// `algorithm.<name>.tcp.<setting>`, `algorithm.<name>.only.<sweep key>`, `cc.<constant>` and
/// `tcp.<setting>`.
pub const KEYS: &[Key] = &joined();

/// Keys of all runs, then of the link and of wireless networks.
#[expect(clippy::large_stack_arrays, reason = "the compiler evaluates it")]
const fn joined() -> [Key; MESH_START + MESH_KEYS.len()] {
    let mut all = [GENERAL[0]; MESH_START + MESH_KEYS.len()];
    let mut n = 0;
    while n < all.len() {
        all[n] = if n < GENERAL.len() {
            GENERAL[n]
        } else if n < MESH_START {
            LINK_KEYS[n - GENERAL.len()]
        } else {
            MESH_KEYS[n - MESH_START]
        };
        n += 1;
    }
    all
}

/// The place of the first key of wireless networks.
const MESH_START: usize = GENERAL.len() + LINK_KEYS.len();

const GENERAL: &[Key] = &[
    key(
        "about",
        Kind::Text,
        None,
        "Question of the scenario, in a sentence; `{key}` in it is the value of that key; by default the file's name.",
    ),
    key(
        "study",
        Kind::Text,
        None,
        "Short name of the study that it reproduces; by default `own`.",
    ),
    key(
        "family",
        Kind::Text,
        None,
        "Name of the scenario within its study; by default the file's name.",
    ),
    key(
        "cell",
        Kind::Text,
        None,
        "Name of a cell, with sweep keys in braces; by default `family` and all sweep keys.",
    ),
    key(
        "compare_with",
        Kind::Text,
        None,
        "Cell of a study whose published values are compared with, as `<study>/<cell>` with sweep keys in braces; without it, the cell itself. A change of the link or the workload on the command line rules the comparison out.",
    ),
    key(
        "variant",
        Kind::Text,
        None,
        "A name of a variant. Sweep it, and let `where` tables set the keys of each variant, where variants differ in several keys.",
    ),
    key(
        "run.algorithms",
        Kind::Texts,
        None,
        "Controllers to compare; the name of a transmission profile (`carob profiles`) is its controller with its parameters.",
    ),
    key(
        "run.seeds",
        Kind::Whole(1, 1_000_000),
        Some("20"),
        "Runs per cell and algorithm.",
    ),
    key(
        "run.first_seed",
        Kind::Whole(0, u64::MAX >> 1),
        Some("1"),
        "Seed of the first run.",
    ),
    key(
        "run.time_limit",
        Kind::Time,
        Some("12 h"),
        "Simulated time after which a run is cut off.",
    ),
    key(
        "run.until",
        Kind::Word(&["answered", "closed", "time-limit"]),
        Some("answered"),
        "When a run is over: when every client has its last response, when all connections are closed, too, or at `run.time_limit` regardless of clients.",
    ),
    key(
        "run.network",
        Kind::Word(&["link", "mesh"]),
        Some("link"),
        "The network that clients and servers share: a link, or a wireless network of many hops, on whose nodes the clients are spread.",
    ),
    key(
        "workload.kind",
        Kind::Word(&["blockwise-get", "exchanges", "notifications", "mesh"]),
        None,
        "What clients do: get something large, in blocks over UDP; make requests of one exchange each; observe a server on the constrained side of the link, which notifies them in rounds; or, without a link, send messages over a wireless network of many hops to its sinks.",
    ),
    key(
        "workload.clients",
        Kind::Whole(1, CLIENTS_MAX as u64),
        Some("1"),
        "Clients behind the link, each with its own flow.",
    ),
    key(
        "workload.requests",
        Kind::Whole(1, 1_000_000),
        Some("1"),
        "Requests of each client, one after the other.",
    ),
    key(
        "workload.request",
        Kind::Bytes(0, 1 << 20),
        Some("0 B"),
        "Size of each request: of its payload, which makes it a POST, or of the message (`workload.size_of`).",
    ),
    key(
        "workload.response",
        Kind::Bytes(0, 1 << 30),
        None,
        "Size of each response: of its whole payload, or of the message (`workload.size_of`); must be set.",
    ),
    key(
        "workload.size_of",
        Kind::Word(&["payload", "message"]),
        Some("payload"),
        "What `workload.request` and `workload.response` measure: payloads, or CoAP messages as they are over UDP.",
    ),
    key(
        "workload.client",
        Kind::Word(&["continuous", "random"]),
        Some("continuous"),
        "Whether clients stay, or make their requests in batches of random length and forget everything after each: they start anew from another port, over TCP with another connection.",
    ),
    key(
        "workload.batch_least",
        Kind::Whole(1, 1_000_000),
        Some("1"),
        "The fewest requests in a batch of a random client; each is drawn uniformly.",
    ),
    key(
        "workload.batch_most",
        Kind::Whole(1, 1_000_000),
        Some("10"),
        "The most requests in a batch of a random client.",
    ),
    key(
        "workload.batch_pause",
        Kind::Span,
        Some("0 s"),
        "Time between the batches of a random client, drawn uniformly.",
    ),
    key(
        "workload.reconnect",
        Kind::Word(&["at-once", "closed"]),
        Some("at-once"),
        "When a random client over TCP makes its next connection: at once, or when the server has closed the last one, too.",
    ),
    key(
        "workload.block",
        Kind::Bytes(16, 1_024),
        Some("256 B"),
        "Size of a block, a power of two (RFC 7959).",
    ),
    key(
        "workload.path",
        Kind::Text,
        Some("hello"),
        "Uri-Path of the request, one segment.",
    ),
    key(
        "workload.token_bytes",
        Kind::Whole(0, 8),
        Some("0"),
        "Length of the token; at least 1 in a `mesh`.",
    ),
    key(
        "workload.start_spread",
        Kind::Span,
        Some("0-1 s"),
        "When clients begin, drawn uniformly.",
    ),
    key(
        "workload.after_failure",
        Kind::Word(&["stop", "next"]),
        Some("stop"),
        "What a client does after a request that was given up: nothing more, or it makes the next. With `workload.request_period` the clock decides: requests go on under both, and `stop` only ends the client's flow, which counts as failed; the run ends with the last flow.",
    ),
    key(
        "server.service",
        Kind::Distribution,
        Some("0 s"),
        "How long the server works on each datagram, one at a time, while others wait. A range is drawn uniformly. Over UDP.",
    ),
    key(
        "server.separate",
        Kind::Word(&["off", "on"]),
        Some("off"),
        "Separate responses (RFC 7252 5.2.2): with `on` the endpoint acknowledges a request whose response takes longer than 100 ms, and the application takes `server.service` for it, one request at a time.",
    ),
    key(
        "server.pause",
        Kind::Time,
        None,
        "When a pause of the server begins, in which it does no work, as in garbage collection. Without it, there is none. Over UDP.",
    ),
    key(
        "server.pause_interval",
        Kind::Time,
        Some("0 s"),
        "Time from the beginning of one pause to that of the next; with 0 s there is one.",
    ),
    key(
        "server.pause_duration",
        Kind::Time,
        Some("0 s"),
        "How long a pause lasts; above 0 s where there is one.",
    ),
    key(
        "server.receive_queue",
        Kind::Whole(1, SERVER_QUEUE_MAX as u64),
        Some("50"),
        "Datagrams that may wait for the server, the one it works on apart; more are dropped. With `server.separate` requests; more are answered with 5.03. Where `server.service` is not 0 or there are pauses.",
    ),
    key(
        "server.copies",
        Kind::Word(&["cost", "free"]),
        Some("cost"),
        "Whether a retransmission of a request that the server has worked on takes it as long as the request, or no time.",
    ),
    key(
        "faults.client_restart",
        Kind::Span,
        None,
        "When each client restarts, drawn uniformly: it loses its state, takes another port and sends outstanding requests again. Without it, no client restarts. Over UDP.",
    ),
    key(
        "faults.client_restart_interval",
        Kind::Time,
        Some("0 s"),
        "Time from one restart of a client to its next; with 0 s there is one.",
    ),
    key(
        "faults.client_down",
        Kind::Time,
        Some("0 s"),
        "How long a restart of a client takes; datagrams that arrive meanwhile are lost.",
    ),
    key(
        "faults.server_restart",
        Kind::Time,
        None,
        "When the server restarts and loses its state: remembered duplicates, unfinished bodies, its receive queue. Without it, it does not restart. Over UDP.",
    ),
    key(
        "faults.server_restart_interval",
        Kind::Time,
        Some("0 s"),
        "Time from one restart of the server to the next; with 0 s there is one.",
    ),
    key(
        "faults.server_down",
        Kind::Time,
        Some("0 s"),
        "How long a restart of the server takes; datagrams that arrive meanwhile are lost.",
    ),
    key(
        "faults.rebinding",
        Kind::Span,
        None,
        "When network address translation gives each client another port, drawn uniformly; a single time is the same for all. What the server sends to the old port is lost. Without it, ports stay. Over UDP.",
    ),
    key(
        "faults.rebinding_interval",
        Kind::Time,
        Some("0 s"),
        "Time from one rebinding of a client to its next; with 0 s there is one.",
    ),
    key(
        "faults.outage",
        Kind::Time,
        None,
        "When an outage of the link begins; packets sent during it are lost in both directions. Without it, there is none.",
    ),
    key(
        "faults.outage_interval",
        Kind::Time,
        Some("0 s"),
        "Time from the beginning of one outage to that of the next; with 0 s there is one.",
    ),
    key(
        "faults.outage_duration",
        Kind::Time,
        Some("0 s"),
        "How long an outage lasts; above 0 s where there is one.",
    ),
    key(
        "workload.request_period",
        Kind::Time,
        Some("0 s"),
        "Time from one request of a client to its next, whatever became of earlier ones and whatever `workload.after_failure` says; with 0 s each follows the response to the one before.",
    ),
    key(
        "workload.request_jitter",
        Kind::Time,
        Some("0 s"),
        "The most that a periodic request comes late, drawn for each.",
    ),
    key(
        "workload.request_burst",
        Kind::Whole(1, 1_000),
        Some("1"),
        "Periodic requests at once in a burst.",
    ),
    key(
        "workload.burst_probability",
        Kind::Percent,
        Some("0 %"),
        "Share of periods that bring a burst instead of one request.",
    ),
    key(
        "workload.poll",
        Kind::Time,
        Some("0 s"),
        "Interval at which a sleepy client polls: datagrams for it wait until then. With 0 s it always receives.",
    ),
    key(
        "workload.parallel",
        Kind::Whole(1, 1_024),
        Some("1"),
        "Requests that a client makes at once, the next when one was answered; how many are on their way is up to NSTART.",
    ),
    key(
        "workload.q_block",
        Kind::Word(&["off", "con", "non"]),
        Some("off"),
        "Bodies larger than a block over UDP by Q-Block1 and Q-Block2 (RFC 9177), in CON or NON requests.",
    ),
    key(
        "mix.first",
        Kind::Text,
        None,
        "Where set, the only one of `run.algorithms` that runs in the cell.",
    ),
    key(
        "mix.second",
        Kind::Text,
        None,
        "Algorithm of other clients on the same network, which do the same but for the keys below; without it there are none.",
    ),
    key(
        "mix.second_kind",
        Kind::Word(&["blockwise-get", "exchanges"]),
        None,
        "`workload.kind` of the other clients; without it, the same.",
    ),
    key(
        "mix.second_requests",
        Kind::Whole(1, 1_000_000),
        None,
        "`workload.requests` of the other clients; without it, the same.",
    ),
    key(
        "mix.second_request",
        Kind::Bytes(0, 1 << 20),
        None,
        "`workload.request` of the other clients; without it, the same.",
    ),
    key(
        "mix.second_response",
        Kind::Bytes(0, 1 << 20),
        None,
        "`workload.response` of the other clients; without it, the same.",
    ),
    key(
        "mix.second_clients",
        Kind::Whole(1, CLIENTS_MAX as u64),
        None,
        "How many other clients; without it, as many as `workload.clients`.",
    ),
    key(
        "mix.second_nstart",
        Kind::Whole(1, u16::MAX as u64),
        None,
        "NSTART of the other clients; without it, that of their algorithm.",
    ),
    key(
        "mix.second_parallel",
        Kind::Whole(1, 1_024),
        None,
        "Requests at once of the other clients; without it, `workload.parallel`.",
    ),
    key(
        "workload.subscribers",
        Kind::Whole(1, CLIENTS_MAX as u64),
        Some("1"),
        "With `notifications`, clients that observe, each with a port of its own.",
    ),
    key(
        "workload.resources",
        Kind::Whole(1, RESOURCES_MAX as u64),
        Some("1"),
        "With `notifications`, resources that each client observes.",
    ),
    key(
        "workload.interval",
        Kind::Time,
        Some("60 s"),
        "With `notifications`, time from one round to the next; in each all resources change.",
    ),
    key(
        "workload.offset",
        Kind::Span,
        Some("0 s"),
        "With `notifications`, when a client's rounds begin after the warm-up; if a range, drawn for each, and each observes resources of its own.",
    ),
    key(
        "workload.duration",
        Kind::Time,
        Some("10 min"),
        "How long `notifications` are made in rounds, or a `mesh` makes messages, and how long that is counted.",
    ),
    key(
        "workload.warm_up",
        Kind::Time,
        Some("2 min"),
        "Time before that, of which nothing is counted: with `notifications` for registrations, which are CON GETs, over a `mesh` for RPL alone.",
    ),
    key(
        "workload.message",
        Kind::Bytes(16, 1_024),
        Some("64 B"),
        "Size of each of `notifications`, or of each message of a `mesh`, from CoAP's header to the end of the payload; Max-Age and Observe are part of it.",
    ),
    key(
        "workload.max_age",
        Kind::TimeOrNone,
        Some("none"),
        "With `notifications`, their Max-Age; `none` leaves the option out, which means 60 s. A client that has heard nothing for longer registers again.",
    ),
    key(
        "workload.notification_queue",
        Kind::Word(&["supersede", "queue"]),
        Some("supersede"),
        "With `notifications`, the handling of a state while an earlier one waits to be sent: it takes its place (RFC 7641 4.5.2), or waits behind it and is dropped if there is no room.",
    ),
    key(
        "workload.queue_of_subscriber",
        Kind::Whole(1, u16::MAX as u64),
        Some("10"),
        "Notifications that may wait for one client, where they queue.",
    ),
    key(
        "workload.queue_of_all",
        Kind::Whole(1, 1_000_000),
        Some("1000"),
        "Notifications that may wait for all clients together, where they queue.",
    ),
    key(
        "workload.unconfirmed_max",
        Kind::Whole(1, u16::MAX as u64),
        Some("32"),
        "With `notifications`, NON in a row of one observation before one asks, as CON, whether the client is still there, whatever the controller says.",
    ),
    key(
        "workload.aggregate",
        Kind::Word(&["off", "on"]),
        Some("off"),
        "With `notifications`, whether the server has one budget for all clients together, in front of their controllers; a choice of this project (`carob_cc::bottleneck_group`).",
    ),
    key(
        "workload.aggregate_initial",
        Kind::Bytes(1, 1_000_000),
        Some("1280 B"),
        "Of that budget, the window before anything is known.",
    ),
    key(
        "workload.aggregate_least",
        Kind::Bytes(1, 1_000_000),
        Some("128 B"),
        "The least window.",
    ),
    key(
        "workload.aggregate_target",
        Kind::Number,
        Some("1/4"),
        "The time in queues that it aims at, as a share of the shortest round trip.",
    ),
    key(
        "workload.aggregate_confirm_every",
        Kind::Whole(1, u16::MAX as u64),
        Some("8"),
        "Number of NON notifications in a row, to any observer, of which the last is made CON so that the controller learns something.",
    ),
    key(
        "workload.bin",
        Kind::Time,
        Some("10 s"),
        "With `notifications` and `mesh`, spans of time to count in.",
    ),
];

/// Keys of transmission parameters: under `transmission` for every algorithm, under
/// `algorithm.<name>` for one. Without them the profile's suggestion and RFC 7252 4.8 hold.
pub const TRANSMISSION_KEYS: &[Key] = &[
    key("ack_timeout", Kind::Time, None, "ACK_TIMEOUT."),
    key(
        "ack_random_factor",
        Kind::Number,
        None,
        "ACK_RANDOM_FACTOR, at least 1.",
    ),
    key(
        "max_retransmit",
        Kind::Whole(0, TransmissionParameters::MAX_RETRANSMIT_LIMIT as u64),
        None,
        "MAX_RETRANSMIT.",
    ),
    key("nstart", Kind::Whole(1, u16::MAX as u64), None, "NSTART."),
    key(
        "probing_rate",
        Kind::Whole(1, u32::MAX as u64),
        None,
        "PROBING_RATE in bytes per second.",
    ),
    key(
        "rto_max",
        Kind::TimeOrNone,
        None,
        "Cap on backed-off timers, or `none`; of TCP's, too, unless `tcp.rto_max` says more.",
    ),
    key(
        "safeguards",
        Kind::Word(&["on", "off"]),
        None,
        "Rules of this stack for every controller, on by default: first timers drawn over a range, timers of 200 ms and more that never shrink, retransmission for MAX_TRANSMIT_SPAN. `off` runs a controller as published.",
    ),
];
