//! Workload of clients, from the keys of the `workload` table.

use carob_sim::spec::{
    AfterFailure, Batches, CLIENTS_MAX, Periodic, QBlock, Reconnect, Requests, Workload,
};

use super::cell::Cell;
use super::error::{Place, ScenarioError};
use super::{impossible, mesh, notifications};

/// CoAP around a block: header 4, Block2 option 4 (delta above 12, value up to 2 bytes), payload
/// marker 1. Tokens come on top.
const AROUND_A_BLOCK: u64 = 9;
/// The same with Q-Block: in each block also the size (6), a tag of up to 4 bytes (6), and the head of
/// the path (1), whose length comes on top.
const AROUND_A_Q_BLOCK: u64 = AROUND_A_BLOCK + 13;
/// CoAP's header over UDP (RFC 7252 3).
const HEADER: u64 = 4;
/// The payload marker.
const MARKER: u64 = 1;

keys! {
    /// Keys of clients that send requests. Some are of other workloads, too.
    pub(super) KEYS;

    "workload.kind", Word(&["blockwise-get", "exchanges", "notifications", "mesh"]), -,
        "What clients do: get something large, in blocks over UDP; make requests of one exchange each; observe a server on the constrained side of the link, which notifies them in rounds; or, without a link, send messages over a wireless network of many hops to its sinks.";
    "workload.clients", Whole(1, CLIENTS_MAX as u64), "1",
        "Clients behind the link, each with its own flow.";

    Requests {
        count: "workload.requests", Whole(1, 1_000_000), "1",
            "Requests of each client, one after the other.";
        _: "workload.request", Bytes(0, 1 << 20), "0 B",
            "Size of each request: of its payload, which makes it a POST, or of the message (`workload.size_of`).";
        _: "workload.response", Bytes(0, 1 << 30), -,
            "Size of each response: of its whole payload, or of the message (`workload.size_of`); must be set.";
        _: "workload.size_of", Word(&["payload", "message"]), "payload",
            "What `workload.request` and `workload.response` measure: payloads, or CoAP messages as they are over UDP.";
        block_bytes: "workload.block", Bytes(16, 1_024), "256 B",
            "Size of a block, a power of two (RFC 7959).";
        path: "workload.path", Text, "hello",
            "Uri-Path of the request, one segment.";
        token_bytes: "workload.token_bytes", Whole(0, 8), "0",
            "Length of the token; at least 1 in a `mesh`.";
        _: "workload.start_spread", Span, "0-1 s",
            "When clients begin, drawn uniformly.";
        after_failure: "workload.after_failure", Word { "stop" => AfterFailure::Stop, "next" => AfterFailure::Next }, "stop",
            "What a client does after a request that was given up: nothing more, or it makes the next. With `workload.request_period` the clock decides: requests go on under both, and `stop` only ends the client's flow, which counts as failed; the run ends with the last flow.";
        poll: "workload.poll", Time, "0 s",
            "Interval at which a sleepy client polls: datagrams for it wait until then. With 0 s it always receives.";
        parallel: "workload.parallel", Whole(1, 1_024), "1",
            "Requests that a client makes at once, the next when one was answered; how many are on their way is up to NSTART.";
        q_block: "workload.q_block", Word { "off" => QBlock::Off, "con" => QBlock::Confirmable, "non" => QBlock::NonConfirmable }, "off",
            "Bodies larger than a block over UDP by Q-Block1 and Q-Block2 (RFC 9177), in CON or NON requests.";
    }

    Batches {
        _: "workload.client", Word(&["continuous", "random"]), "continuous",
            "Whether clients stay, or make their requests in batches of random length and forget everything after each: they start anew from another port, over TCP with another connection.";
        least: "workload.batch_least", Whole(1, 1_000_000), "1",
            "The fewest requests in a batch of a random client; each is drawn uniformly.";
        most: "workload.batch_most", Whole(1, 1_000_000), "10",
            "The most requests in a batch of a random client.";
        pause: "workload.batch_pause", Span, "0 s",
            "Time between the batches of a random client, drawn uniformly.";
        reconnect: "workload.reconnect", Word { "at-once" => Reconnect::AtOnce, "closed" => Reconnect::Closed, "closed-by-both" => Reconnect::ClosedByBoth }, "at-once",
            "When a random client over TCP makes its next connection: at once, when it has the server's FIN of the last one, or when the server has its last ACK, too.";
    }

    Periodic {
        period: "workload.request_period", Time, "0 s",
            "Time from one request of a client to its next, whatever became of earlier ones and whatever `workload.after_failure` says; with 0 s each follows the response to the one before.";
        jitter: "workload.request_jitter", Time, "0 s",
            "The most that a periodic request comes late, drawn for each.";
        burst: "workload.request_burst", Whole(1, 1_000), "1",
            "Periodic requests at once in a burst.";
        burst_probability: "workload.burst_probability", Percent, "0 %",
            "Share of periods that bring a burst instead of one request.";
    }
}

/// The key with the number of clients.
pub(super) fn clients(cell: &Cell) -> Result<&'static str, ScenarioError> {
    Ok(match cell.text("workload.kind")? {
        "notifications" => "workload.subscribers",
        _ => "workload.clients",
    })
}

/// The workload; where blocks are packets, these are to fit (MTU, header).
pub(super) fn of(cell: &Cell, in_blocks: Option<(u64, u64)>) -> Result<Workload, ScenarioError> {
    match cell.text("workload.kind")? {
        "notifications" => return notifications::of(cell).map(Workload::Notifications),
        "mesh" => return mesh::traffic::of(cell).map(Workload::MeshTraffic),
        _ => {}
    }
    let requests: Requests = cell.fields()?;
    let block = u64::from(requests.block_bytes);
    let token = u64::from(requests.token_bytes);
    let place = cell.place("workload.block");
    if !block.is_power_of_two() {
        let why = format!("workload.block is {block} B; a block is a power of two (RFC 7959)");
        return Err(impossible(place, why));
    }
    let request = body(cell, "workload.request")?;
    let response = body(cell, "workload.response")?;
    let in_one = cell.text("workload.kind")? == "exchanges";
    for (path, bytes) in [("request", request), ("response", response)] {
        if in_one && bytes > block {
            let path = format!("workload.{path}");
            let why = format!(
                "{path} has {bytes} B of payload, more than a block of {block} B; \
                 set workload.block, or workload.kind to blockwise-get"
            );
            return Err(impossible(cell.place(&path), why));
        }
    }
    let largest = if in_one { request.max(response) } else { block };
    let around = match requests.q_block {
        QBlock::Off => AROUND_A_BLOCK,
        _ => AROUND_A_Q_BLOCK + requests.path.len() as u64,
    };
    if let Some((mtu, header)) = in_blocks
        && let packet = largest + token + around + header
        && packet > mtu
    {
        let why = format!(
            "a block of {largest} B needs packets of about {packet} B, but link.mtu is {mtu} B"
        );
        return Err(impossible(place, why));
    }
    if requests.parallel > 1 && token == 0 {
        let (path, parallel) = ("workload.parallel", requests.parallel);
        let why = format!(
            "{path} is {parallel}, and answers to several requests are distinguished by their \
             tokens; set workload.token_bytes"
        );
        return Err(impossible(cell.place(path), why));
    }
    Ok(Workload::Requests(Requests {
        request_bytes: request as u32,
        response_bytes: response as u32,
        batches: batches(cell)?,
        periodic: periodic(cell)?,
        ..requests
    }))
}

/// The bytes of a body: as configured, or the rest of a message of that size over UDP.
fn body(cell: &Cell, path: &str) -> Result<u64, ScenarioError> {
    let bytes: u64 = cell.get(path)?;
    if cell.text("workload.size_of")? != "message" {
        return Ok(bytes);
    }
    let uri_path = cell.text("workload.path")?.len() as u64;
    let options = match (path, uri_path) {
        ("workload.request", 1..) => {
            // Its header of one byte holds lengths up to 12, one more byte those up to 268
            // (RFC 7252 3.1).
            uri_path + 1 + u64::from(uri_path > 12)
        }
        _ => 0,
    };
    let bare = HEADER + cell.get::<u64>("workload.token_bytes")? + options;
    match bytes.checked_sub(bare) {
        Some(0) => Ok(0),
        Some(MARKER) | None => {
            let why = format!(
                "{path} is {bytes} B; a message is {bare} B without a payload, \
                 or at least {} B with one",
                bare + MARKER + 1
            );
            Err(impossible(cell.place(path), why))
        }
        Some(rest) => Ok(rest - MARKER),
    }
}

fn periodic(cell: &Cell) -> Result<Option<Periodic>, ScenarioError> {
    let periodic: Periodic = cell.fields()?;
    if periodic.period.is_zero() {
        let keys = ["request_jitter", "request_burst", "burst_probability"]
            .map(|key| format!("workload.{key}"));
        let is_set = |key: &&String| !matches!(cell.place(key), Place::Scenario(_));
        return match keys.iter().find(is_set) {
            Some(key) => {
                let why = format!("{key} is of periodic requests; set workload.request_period");
                Err(impossible(cell.place(key), why))
            }
            None => Ok(None),
        };
    }
    Ok(Some(periodic))
}

fn batches(cell: &Cell) -> Result<Option<Batches>, ScenarioError> {
    if cell.text("workload.client")? != "random" {
        return Ok(None);
    }
    let batches: Batches = cell.fields()?;
    if batches.least > batches.most {
        let path = "workload.batch_most";
        let (least, most) = (batches.least, batches.most);
        let why = format!("workload.batch_least is {least} and {path} is {most}");
        return Err(impossible(cell.place(path), why));
    }
    Ok(Some(batches))
}
