//! The table of keys.

use carob_cc::TransmissionParameters;
use carob_sim::notifications::RESOURCES_MAX;
use carob_sim::spec::{CLIENTS_MAX, SERVER_QUEUE_MAX};

use super::Key;
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

/// Those of all runs and of runs over a link, then those of wireless networks.
#[expect(clippy::large_stack_arrays, reason = "the compiler evaluates it")]
const fn joined() -> [Key; GENERAL.len() + MESH_KEYS.len()] {
    let mut all = [GENERAL[0]; GENERAL.len() + MESH_KEYS.len()];
    let mut n = 0;
    while n < all.len() {
        all[n] = if n < GENERAL.len() {
            GENERAL[n]
        } else {
            MESH_KEYS[n - GENERAL.len()]
        };
        n += 1;
    }
    all
}

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
    key(
        "link.mtu",
        Kind::Bytes(68, 65_535),
        Some("1280 B"),
        "Largest packet, headers included; a larger one crosses in fragments, as IPv4 makes them.",
    ),
    key(
        "link.header",
        Kind::Bytes(0, 128),
        Some("28 B"),
        "IP and UDP headers each datagram adds on the link.",
    ),
    key(
        "link.buffer",
        Kind::Buffer,
        Some("inf"),
        "Bottleneck buffer of each direction, headers and the packet in service included.",
    ),
    key(
        "link.queue",
        Kind::Word(&["drop-tail", "red", "codel", "fq-codel"]),
        Some("drop-tail"),
        "What is dropped or marked before the buffers are full: nothing, as RED (RFC 2309) or CoDel (RFC 8289) say, or CoDel with a queue for each client (FQ-CoDel, RFC 8290; over UDP).",
    ),
    key(
        "link.ecn",
        Kind::Word(&["off", "on"]),
        Some("off"),
        "Whether `red` and `codel` mark packets of connections that agreed on it (`tcp.ecn`) instead of dropping them (RFC 3168).",
    ),
    key(
        "link.red_min",
        Kind::Bytes(0, 1 << 40),
        None,
        "Average queue below which RED drops nothing; by default a quarter of the buffer.",
    ),
    key(
        "link.red_max",
        Kind::Bytes(1, 1 << 40),
        None,
        "Average queue from which on RED drops everything; by default three quarters of the buffer.",
    ),
    key(
        "link.red_most",
        Kind::Percent,
        Some("10 %"),
        "Share RED drops just below `link.red_max`.",
    ),
    key(
        "link.red_weight_shift",
        Kind::Whole(0, 16),
        Some("9"),
        "RED's average moves by the 2^-n-th part of the distance with each packet.",
    ),
    key(
        "link.codel_target",
        Kind::Time,
        None,
        "Standing wait that is too long for CoDel; by default 5 ms, or the time of a packet of `link.mtu` on the line if that is longer (RFC 8289 4.4).",
    ),
    key(
        "link.codel_interval",
        Kind::Time,
        Some("100 ms"),
        "How long it must have been so; a typical round-trip time (RFC 8289 4.3).",
    ),
    key(
        "link.extra_delay",
        Kind::Distribution,
        Some("0 ms"),
        "Delay on top of propagation, in each direction: constant, or drawn for each packet without reordering.",
    ),
    key(
        "link.error",
        Kind::Word(&["none", "low", "medium", "high"]),
        Some("none"),
        "Random loss after the bottleneck: 0, 2, 10 or 18 % on average (thesis, Table 5).",
    ),
    key(
        "link.loss",
        Kind::Percent,
        Some("0 %"),
        "Random loss after the bottleneck, of each packet by itself unless `link.loss_burst` says otherwise. It needs `link.error` = `none`; set on the command line, it replaces a class that the scenario does not sweep.",
    ),
    key(
        "link.loss_burst",
        Kind::Number,
        Some("1"),
        "Mean length of a run of losses in packets, with `link.loss`: above 1, packets are lost in a state of that mean length, and only in it (Gilbert's model).",
    ),
    key(
        "link.error_directions",
        Kind::Word(&["both", "down", "up"]),
        Some("both"),
        "Directions with random loss, bit errors, corruption, reordering and duplication.",
    ),
    key(
        "link.error_clock",
        Kind::Word(&["packet", "time"]),
        Some("packet"),
        "What moves the two-state chain of medium and high error: packets, or time.",
    ),
    key(
        "link.error_burst_packets",
        Kind::Number,
        Some("1.4"),
        "Mean length of the error state in packets, with the packet clock.",
    ),
    key(
        "link.error_burst_time",
        Kind::Time,
        Some("100 ms"),
        "Mean length of the error state, with the time clock.",
    ),
    key(
        "link.error_states",
        Kind::Word(&["own", "shared"]),
        Some("own"),
        "With the time clock: whether each direction has a chain of its own, or both have one and so their error states together.",
    ),
    key(
        "link.error_fraction",
        Kind::Percent,
        None,
        "Share of the error state; by default 20 % (medium) or 20.5 % (high).",
    ),
    key(
        "link.idle_setup",
        Kind::Distribution,
        None,
        "Set-up of a device's connection, which its first packet after idle waits for, in either direction. Without it, there is none.",
    ),
    key(
        "link.idle_after",
        Kind::Time,
        Some("20 s"),
        "Time without a packet of the device after which it is idle, with `link.idle_setup`.",
    ),
    key(
        "link.paging_cycle",
        Kind::Time,
        None,
        "Time between the paging occasions of an idle device (DRX, eDRX), at which a packet to it begins the set-up of its connection; with `link.idle_setup`. Without it, idle devices can be reached at once.",
    ),
    key(
        "link.paging_window",
        Kind::Time,
        Some("10 ms"),
        "Time for which the device listens at each.",
    ),
    key(
        "link.psm_active",
        Kind::Time,
        None,
        "Time that an idle device can be reached before power saving mode (T3324): then packets to it wait for its next periodic wake-up. Without it, there is no such mode.",
    ),
    key(
        "link.psm_interval",
        Kind::Time,
        Some("1 h"),
        "Time between periodic wake-ups (T3412), with `link.psm_active`.",
    ),
    key(
        "link.power_send",
        Kind::Power,
        None,
        "Power of a device's radio while it sends. With it, the energy of devices is measured, from their times in each state. 545 mW in 3GPP TR 45.820.",
    ),
    key(
        "link.power_receive",
        Kind::Power,
        Some("90 mW"),
        "Power while it receives (3GPP TR 45.820, as those that follow).",
    ),
    key(
        "link.power_listen",
        Kind::Power,
        Some("90 mW"),
        "Power while it is connected and waits, without `link.idle_setup` always, and in paging windows.",
    ),
    key(
        "link.power_idle",
        Kind::Power,
        Some("3 mW"),
        "Power while it is idle.",
    ),
    key(
        "link.power_sleep",
        Kind::Power,
        Some("15 uW"),
        "Power in power saving mode.",
    ),
    key(
        "link.duplex",
        Kind::Word(&["full", "half"]),
        Some("full"),
        "Whether the radio of a device with `device_rate` sends and receives at the same time, or in turn (NB-IoT).",
    ),
    key(
        "link.duplex_turnaround",
        Kind::Time,
        Some("0 s"),
        "Time from sending to receiving and back, with `link.duplex` = `half`.",
    ),
    key(
        "link.fragment",
        Kind::Bytes(1, 65_535),
        None,
        "Bytes of a packet that a frame of a device with `device_rate` carries: SCHC fragments, as over LoRaWAN (RFC 9011). Without it, packets are whole.",
    ),
    key(
        "link.fragment_header",
        Kind::Bytes(0, 255),
        Some("15 B"),
        "Headers of each frame: 13 B of LoRaWAN and 2 B of SCHC.",
    ),
    key(
        "link.fragment_loss",
        Kind::Percent,
        Some("0 %"),
        "Share of frames lost, each by itself, besides loss of packets.",
    ),
    key(
        "link.fragment_mode",
        Kind::Word(&["no-ack", "ack-on-error"]),
        Some("no-ack"),
        "A lost frame loses the packet, or costs a round: `link.fragment_ack` until the acknowledgement, then the frames that were lost, in 8 rounds at most.",
    ),
    key(
        "link.fragment_ack",
        Kind::Time,
        Some("2 s"),
        "Time from the last frame of a round to its acknowledgement, with `ack-on-error`.",
    ),
    key(
        "link.duty_cycle",
        Kind::Percent,
        Some("100 %"),
        "Share of time that a device with fragments may send; it is silent in proportion after each frame.",
    ),
    key(
        "link.policer",
        Kind::Rate,
        None,
        "Rate of a token bucket before each buffer, which drops what exceeds it. Without it, there is none.",
    ),
    key(
        "link.policer_burst",
        Kind::Bytes(68, 1 << 40),
        Some("10 kB"),
        "Size of that bucket, full at the beginning: at least `link.mtu`.",
    ),
    key(
        "link.bit_errors",
        Kind::Number,
        Some("0"),
        "Bit error rate, as in `1/100000`: a packet of n bytes is lost with probability 1 - (1 - rate)^(8 n), besides other loss.",
    ),
    key(
        "link.corruption",
        Kind::Percent,
        Some("0 %"),
        "Share of packets that arrive damaged, so that a checksum discards them; not counted as lost.",
    ),
    key(
        "link.reordering",
        Kind::Percent,
        Some("0 %"),
        "Share of packets that arrive later by `link.reordering_delay`, so that later ones overtake them.",
    ),
    key(
        "link.reordering_delay",
        Kind::Distribution,
        Some("100 ms"),
        "Additional delay of these packets.",
    ),
    key(
        "link.duplication",
        Kind::Percent,
        Some("0 %"),
        "Share of packets that arrive twice; the copy uses no capacity.",
    ),
    key(
        "link.changes",
        Kind::Text,
        None,
        "Changes of rate, delay and loss over time, in both directions, in statements separated by `;`: `rate`, `delay`, `loss` or `outage`, then `from`, `to` or `for`, `every` and `over` with times, as in `rate / 10 from 6 s to 60 s` (docs/link-physics.md).",
    ),
    key(
        "link.trace_end",
        Kind::Word(&["loop", "cut"]),
        Some("loop"),
        "What follows the end of `link.down.trace` and `link.up.trace`: the trace again, or the direction's own rate, delay and loss.",
    ),
    key(
        "link.trace_start",
        Kind::Word(&["first", "drawn"]),
        Some("first"),
        "Where a trace begins: at its first row, or at a time that the seed draws, the same for traces of equal length.",
    ),
    key(
        "link.delay_of",
        Kind::Word(&["direction", "round-trip"]),
        Some("direction"),
        "What `link.down.delay` and `link.up.delay` are: the delay of that direction, or of both together, half of it each way.",
    ),
    key(
        "link.down.rate",
        Kind::Rate,
        None,
        "Rate towards the constrained side, where the clients are, or with `notifications` the server; must be set.",
    ),
    key(
        "link.down.delay",
        Kind::Time,
        Some("0 s"),
        "Propagation delay towards the constrained side.",
    ),
    key(
        "link.down.buffer",
        Kind::Buffer,
        None,
        "Overrides `link.buffer` towards the constrained side.",
    ),
    key(
        "link.down.extra_delay",
        Kind::Distribution,
        None,
        "Overrides `link.extra_delay` towards the constrained side.",
    ),
    key(
        "link.down.loss",
        Kind::Percent,
        None,
        "Overrides `link.loss` towards the constrained side, whatever `link.error_directions` says.",
    ),
    key(
        "link.down.device_rate",
        Kind::Rate,
        None,
        "Rate at which the radio of each device receives, besides the shared link, which stands for the cell. Without it, devices receive at the rate of the link.",
    ),
    key(
        "link.down.repetitions",
        Kind::Whole(1, 2048),
        Some("1"),
        "Transmissions of each packet towards the constrained side at that rate, by the coverage class of a device (3GPP TS 36.211).",
    ),
    key(
        "link.down.trace",
        Kind::Text,
        None,
        "File with a series of rate, delay and loss towards the constrained side, relative to the scenario: CSV or Mahimahi's format (docs/traces.md).",
    ),
    key(
        "link.down.changes",
        Kind::Text,
        None,
        "The same towards the constrained side alone, after those of `link.changes`.",
    ),
    key(
        "link.up.rate",
        Kind::Rate,
        None,
        "Rate from the constrained side; must be set.",
    ),
    key(
        "link.up.delay",
        Kind::Time,
        Some("0 s"),
        "Propagation delay from the constrained side.",
    ),
    key(
        "link.up.buffer",
        Kind::Buffer,
        None,
        "Overrides `link.buffer` from the constrained side.",
    ),
    key(
        "link.up.extra_delay",
        Kind::Distribution,
        None,
        "Overrides `link.extra_delay` from the constrained side.",
    ),
    key(
        "link.up.loss",
        Kind::Percent,
        None,
        "Overrides `link.loss` from the constrained side, whatever `link.error_directions` says.",
    ),
    key(
        "link.up.device_rate",
        Kind::Rate,
        None,
        "Rate at which the radio of each device sends, besides the shared link, which stands for the cell. Without it, devices send at the rate of the link.",
    ),
    key(
        "link.up.repetitions",
        Kind::Whole(1, 128),
        Some("1"),
        "Transmissions of each packet from the constrained side at that rate, by the coverage class of a device (3GPP TS 36.211).",
    ),
    key(
        "link.up.trace",
        Kind::Text,
        None,
        "File with a series of rate, delay and loss from the constrained side, relative to the scenario: CSV or Mahimahi's format (docs/traces.md).",
    ),
    key(
        "link.up.changes",
        Kind::Text,
        None,
        "The same from the constrained side alone, after those of `link.changes`.",
    ),
    key(
        "tcp.profile",
        Kind::Word(&["thesis", "kernel", "rfc", "modern"]),
        Some("modern"),
        "Whose TCP the algorithms over TCP (`tcp-newreno`, `tcp-cubic`, `tcp-bbr1`) are, where no setting says more.",
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
