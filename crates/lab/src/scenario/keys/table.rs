//! The table of keys.

use carob_cc::TransmissionParameters;
use carob_sim::notifications::RESOURCES_MAX;
use carob_sim::spec::{CLIENTS_MAX, SERVER_QUEUE_MAX};

use super::Key;
use super::link::LINK_KEYS;
use super::mesh::MESH_KEYS;

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

keys! {
    /// Keys of all runs.
    GENERAL;

    "about", Text, -,
        "Question of the scenario, in a sentence; `{key}` in it is the value of that key; by default the file's name.";
    "study", Text, -,
        "Short name of the study that it reproduces; by default `own`.";
    "family", Text, -,
        "Name of the scenario within its study; by default the file's name.";
    "cell", Text, -,
        "Name of a cell, with sweep keys in braces; by default `family` and all sweep keys.";
    "compare_with", Text, -,
        "Cell of a study whose published values are compared with, as `<study>/<cell>` with sweep keys in braces; without it, the cell itself. A change of the link or the workload on the command line rules the comparison out.";
    "variant", Text, -,
        "A name of a variant. Sweep it, and let `where` tables set the keys of each variant, where variants differ in several keys.";
    "run.algorithms", Texts, -,
        "Controllers to compare.";
    "run.seeds", Whole(1, 1_000_000), "20",
        "Runs per cell and algorithm.";
    "run.first_seed", Whole(0, u64::MAX >> 1), "1",
        "Seed of the first run.";
    "run.time_limit", Time, "12 h",
        "Simulated time after which a run is cut off.";
    "run.until", Word(&["answered", "closed", "time-limit"]), "answered",
        "When a run is over: when every client has its last response, when all connections are closed, too, or at `run.time_limit` regardless of clients.";
    "run.network", Word(&["link", "mesh"]), "link",
        "The network that clients and servers share: a link, or a wireless network of many hops, on whose nodes the clients are spread.";
    "workload.kind", Word(&["blockwise-get", "exchanges", "notifications", "mesh"]), -,
        "What clients do: get something large, in blocks over UDP; make requests of one exchange each; observe a server on the constrained side of the link, which notifies them in rounds; or, without a link, send messages over a wireless network of many hops to its sinks.";
    "workload.clients", Whole(1, CLIENTS_MAX as u64), "1",
        "Clients behind the link, each with its own flow.";
    "workload.requests", Whole(1, 1_000_000), "1",
        "Requests of each client, one after the other.";
    "workload.request", Bytes(0, 1 << 20), "0 B",
        "Size of each request: of its payload, which makes it a POST, or of the message (`workload.size_of`).";
    "workload.response", Bytes(0, 1 << 30), -,
        "Size of each response: of its whole payload, or of the message (`workload.size_of`); must be set.";
    "workload.size_of", Word(&["payload", "message"]), "payload",
        "What `workload.request` and `workload.response` measure: payloads, or CoAP messages as they are over UDP.";
    "workload.client", Word(&["continuous", "random"]), "continuous",
        "Whether clients stay, or make their requests in batches of random length and forget everything after each: they start anew from another port, over TCP with another connection.";
    "workload.batch_least", Whole(1, 1_000_000), "1",
        "The fewest requests in a batch of a random client; each is drawn uniformly.";
    "workload.batch_most", Whole(1, 1_000_000), "10",
        "The most requests in a batch of a random client.";
    "workload.batch_pause", Span, "0 s",
        "Time between the batches of a random client, drawn uniformly.";
    "workload.reconnect", Word(&["at-once", "closed", "closed-by-both"]), "at-once",
        "When a random client over TCP makes its next connection: at once, when it has the server's FIN of the last one, or when the server has its last ACK, too.";
    "workload.block", Bytes(16, 1_024), "256 B",
        "Size of a block, a power of two (RFC 7959).";
    "workload.path", Text, "hello",
        "Uri-Path of the request, one segment.";
    "workload.token_bytes", Whole(0, 8), "0",
        "Length of the token; at least 1 in a `mesh`.";
    "workload.start_spread", Span, "0-1 s",
        "When clients begin, drawn uniformly.";
    "workload.after_failure", Word(&["stop", "next"]), "stop",
        "What a client does after a request that was given up: nothing more, or it makes the next. With `workload.request_period` the clock decides: requests go on under both, and `stop` only ends the client's flow, which counts as failed; the run ends with the last flow.";
    "server.service", Distribution, "0 s",
        "How long the server works on each datagram, one at a time, while others wait. A range is drawn uniformly. Over UDP.";
    "server.separate", Word(&["off", "on"]), "off",
        "Separate responses (RFC 7252 5.2.2): with `on` the endpoint acknowledges a request whose response takes longer than 100 ms, and the application takes `server.service` for it, one request at a time.";
    "server.pause", Time, -,
        "When a pause of the server begins, in which it does no work, as in garbage collection. Without it, there is none. Over UDP.";
    "server.pause_interval", Time, "0 s", needs "server.pause",
        "Time from the beginning of one pause to that of the next; with 0 s there is one.";
    "server.pause_duration", Time, "0 s", needs "server.pause",
        "How long a pause lasts; above 0 s where there is one.";
    "server.receive_queue", Whole(1, SERVER_QUEUE_MAX as u64), "50",
        "Datagrams that may wait for the server, the one it works on apart; more are dropped. With `server.separate` requests; more are answered with 5.03. Where `server.service` is not 0 or there are pauses.";
    "server.copies", Word(&["cost", "free"]), "cost",
        "Whether a retransmission of a request that the server has worked on takes it as long as the request, or no time.";
    "faults.client_restart", Span, -,
        "When each client restarts, drawn uniformly: it loses its state, takes another port and sends outstanding requests again. Without it, no client restarts. Over UDP.";
    "faults.client_restart_interval", Time, "0 s", needs "faults.client_restart",
        "Time from one restart of a client to its next; with 0 s there is one.";
    "faults.client_down", Time, "0 s", needs "faults.client_restart",
        "How long a restart of a client takes; datagrams that arrive meanwhile are lost.";
    "faults.server_restart", Time, -,
        "When the server restarts and loses its state: remembered duplicates, unfinished bodies, its receive queue. Without it, it does not restart. Over UDP.";
    "faults.server_restart_interval", Time, "0 s", needs "faults.server_restart",
        "Time from one restart of the server to the next; with 0 s there is one.";
    "faults.server_down", Time, "0 s", needs "faults.server_restart",
        "How long a restart of the server takes; datagrams that arrive meanwhile are lost.";
    "faults.rebinding", Span, -,
        "When network address translation gives each client another port, drawn uniformly; a single time is the same for all. What the server sends to the old port is lost. Without it, ports stay. Over UDP.";
    "faults.rebinding_interval", Time, "0 s", needs "faults.rebinding",
        "Time from one rebinding of a client to its next; with 0 s there is one.";
    "faults.outage", Time, -,
        "When an outage of the link begins; packets sent during it are lost in both directions. Without it, there is none.";
    "faults.outage_interval", Time, "0 s", needs "faults.outage",
        "Time from the beginning of one outage to that of the next; with 0 s there is one.";
    "faults.outage_duration", Time, "0 s", needs "faults.outage",
        "How long an outage lasts; above 0 s where there is one.";
    "workload.request_period", Time, "0 s",
        "Time from one request of a client to its next, whatever became of earlier ones and whatever `workload.after_failure` says; with 0 s each follows the response to the one before.";
    "workload.request_jitter", Time, "0 s",
        "The most that a periodic request comes late, drawn for each.";
    "workload.request_burst", Whole(1, 1_000), "1",
        "Periodic requests at once in a burst.";
    "workload.burst_probability", Percent, "0 %",
        "Share of periods that bring a burst instead of one request.";
    "workload.poll", Time, "0 s",
        "Interval at which a sleepy client polls: datagrams for it wait until then. With 0 s it always receives.";
    "workload.parallel", Whole(1, 1_024), "1",
        "Requests that a client makes at once, the next when one was answered; how many are on their way is up to NSTART.";
    "workload.q_block", Word(&["off", "con", "non"]), "off",
        "Bodies larger than a block over UDP by Q-Block1 and Q-Block2 (RFC 9177), in CON or NON requests.";
    "mix.first", Text, -,
        "Where set, the only one of `run.algorithms` that runs in the cell.";
    "mix.second", Text, -,
        "Algorithm of other clients on the same network, which do the same but for the keys below; without it there are none.";
    "mix.second_kind", Word(&["blockwise-get", "exchanges"]), -, needs "mix.second",
        "`workload.kind` of the other clients; without it, the same.";
    "mix.second_requests", Whole(1, 1_000_000), -, needs "mix.second",
        "`workload.requests` of the other clients; without it, the same.";
    "mix.second_request", Bytes(0, 1 << 20), -, needs "mix.second",
        "`workload.request` of the other clients; without it, the same.";
    "mix.second_response", Bytes(0, 1 << 20), -, needs "mix.second",
        "`workload.response` of the other clients; without it, the same.";
    "mix.second_clients", Whole(1, CLIENTS_MAX as u64), -, needs "mix.second",
        "How many other clients; without it, as many as `workload.clients`.";
    "mix.second_nstart", Whole(1, u16::MAX as u64), -, needs "mix.second",
        "NSTART of the other clients; without it, that of their algorithm.";
    "mix.second_parallel", Whole(1, 1_024), -, needs "mix.second",
        "Requests at once of the other clients; without it, `workload.parallel`.";
    "workload.subscribers", Whole(1, CLIENTS_MAX as u64), "1",
        "With `notifications`, clients that observe, each with a port of its own.";
    "workload.device", Word(&["one", "each"]), "one",
        "With `notifications`, whether the subscribers observe `one` device together, or `each` one of its own, with its own radio or node.";
    "workload.resources", Whole(1, RESOURCES_MAX as u64), "1",
        "With `notifications`, resources that each client observes.";
    "workload.interval", Time, "60 s",
        "With `notifications`, time from one round to the next; in each all resources change.";
    "workload.offset", Span, "0 s",
        "With `notifications`, when a client's rounds begin after the warm-up; if a range, drawn for each, and each observes resources of its own.";
    "workload.duration", Time, "10 min",
        "How long `notifications` are made in rounds, or a `mesh` makes messages, and how long that is counted.";
    "workload.warm_up", Time, "2 min",
        "Time before that, of which nothing is counted: with `notifications` for registrations, which are CON GETs, over a `mesh` for RPL alone.";
    "workload.message", Bytes(16, 1_024), "64 B",
        "Size of each of `notifications`, or of each message of a `mesh`, from CoAP's header to the end of the payload; Max-Age and Observe are part of it.";
    "workload.max_age", TimeOrNone, "none",
        "With `notifications`, their Max-Age; `none` leaves the option out, which means 60 s. A client that has heard nothing for longer registers again.";
    "workload.notification_queue", Word(&["supersede", "queue"]), "supersede",
        "With `notifications`, the handling of a state while an earlier one waits to be sent: it takes its place (RFC 7641 4.5.2), or waits behind it and is dropped if there is no room.";
    "workload.queue_of_subscriber", Whole(1, u16::MAX as u64), "10",
        "Notifications that may wait for one client, where they queue.";
    "workload.queue_of_all", Whole(1, 1_000_000), "1000",
        "Notifications that may wait for all clients together, where they queue.";
    "workload.unconfirmed_max", Whole(1, u16::MAX as u64), "32",
        "With `notifications`, NON in a row of one observation before one asks, as CON, whether the client is still there, whatever the controller says.";
    "workload.aggregate", Word(&["off", "on"]), "off",
        "With `notifications`, whether the server has one budget for all clients together, in front of their controllers; a choice of this project (`carob_cc::bottleneck_group`).";
    "workload.aggregate_initial", Bytes(1, 1_000_000), "1280 B",
        "Of that budget, the window before anything is known.";
    "workload.aggregate_least", Bytes(1, 1_000_000), "128 B",
        "The least window.";
    "workload.aggregate_target", Number, "1/4",
        "The time in queues that it aims at, as a share of the shortest round trip.";
    "workload.aggregate_confirm_every", Whole(1, u16::MAX as u64), "8",
        "Number of NON notifications in a row, to any observer, of which the last is made CON so that the controller learns something.";
    "workload.bin", Time, "10 s",
        "With `notifications` and `mesh`, spans of time to count in.";
}

keys! {
    /// Keys of transmission parameters: under `transmission` for every algorithm, under
    /// `algorithm.<name>` for one. Without them the profile's suggestion and RFC 7252 4.8 hold.
    pub TRANSMISSION_KEYS;

    "ack_timeout", Time, -,
        "ACK_TIMEOUT.";
    "ack_random_factor", Number, -,
        "ACK_RANDOM_FACTOR, at least 1.";
    "max_retransmit", Whole(0, TransmissionParameters::MAX_RETRANSMIT_LIMIT as u64), -,
        "MAX_RETRANSMIT.";
    "nstart", Whole(1, u16::MAX as u64), -,
        "NSTART.";
    "probing_rate", Whole(1, u32::MAX as u64), -,
        "PROBING_RATE in bytes per second.";
    "rto_max", TimeOrNone, -,
        "Cap on backed-off timers, or `none`; of TCP's, too, unless `tcp.rto_max` says more.";
    "safeguards", Word(&["on", "off"]), -,
        "Rules of this stack for every controller, on by default: first timers drawn over a range, timers of 200 ms and more that never shrink, retransmission for MAX_TRANSMIT_SPAN. `off` runs a controller as published.";
}
