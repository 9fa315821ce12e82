//! Workload of clients, from the keys of the `workload` table.

use carob_sim::spec::{AfterFailure, Batches, Periodic, QBlock, Reconnect, Requests, Workload};

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
        "mesh" => return mesh::traffic(cell).map(Workload::MeshTraffic),
        _ => {}
    }
    let block = cell.bytes("workload.block")?;
    let token = cell.whole("workload.token_bytes")?;
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
    let q_block = match cell.text("workload.q_block")? {
        "con" => QBlock::Confirmable,
        "non" => QBlock::NonConfirmable,
        _ => QBlock::Off,
    };
    let largest = if in_one { request.max(response) } else { block };
    let around = match q_block {
        QBlock::Off => AROUND_A_BLOCK,
        _ => AROUND_A_Q_BLOCK + cell.text("workload.path")?.len() as u64,
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
    Ok(Workload::Requests(Requests {
        count: cell.whole("workload.requests")? as u32,
        request_bytes: request as u32,
        response_bytes: response as u32,
        block_bytes: block as u16,
        path: cell.text("workload.path")?.to_owned(),
        token_bytes: token as u8,
        parallel: parallel(cell, token)?,
        batches: batches(cell)?,
        periodic: periodic(cell)?,
        poll: cell.time("workload.poll")?,
        q_block,
        after_failure: match cell.text("workload.after_failure")? {
            "next" => AfterFailure::Next,
            _ => AfterFailure::Stop,
        },
    }))
}

/// The bytes of a body: as configured, or the rest of a message of that size over UDP.
fn body(cell: &Cell, path: &str) -> Result<u64, ScenarioError> {
    let bytes = cell.bytes(path)?;
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
    let bare = HEADER + cell.whole("workload.token_bytes")? + options;
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

/// Requests in parallel; tokens distinguish the requests of a client.
fn parallel(cell: &Cell, token: u64) -> Result<u32, ScenarioError> {
    let path = "workload.parallel";
    let parallel = cell.whole(path)?;
    if parallel > 1 && token == 0 {
        let why = format!(
            "{path} is {parallel}, and answers to several requests are distinguished by their \
             tokens; set workload.token_bytes"
        );
        return Err(impossible(cell.place(path), why));
    }
    Ok(parallel as u32)
}

fn periodic(cell: &Cell) -> Result<Option<Periodic>, ScenarioError> {
    let period = cell.time("workload.request_period")?;
    if period.is_zero() {
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
    Ok(Some(Periodic {
        period,
        jitter: cell.time("workload.request_jitter")?,
        burst: cell.whole("workload.request_burst")? as u32,
        burst_probability: cell.share("workload.burst_probability")?,
    }))
}

fn batches(cell: &Cell) -> Result<Option<Batches>, ScenarioError> {
    if cell.text("workload.client")? != "random" {
        return Ok(None);
    }
    let [least, most] = ["workload.batch_least", "workload.batch_most"];
    let (fewest, path) = (cell.whole(least)?, most);
    let most = cell.whole(path)?;
    if fewest > most {
        let why = format!("{least} is {fewest} and {path} is {most}");
        return Err(impossible(cell.place(path), why));
    }
    Ok(Some(Batches {
        least: fewest as u32,
        most: most as u32,
        pause: cell.span("workload.batch_pause")?,
        reconnect: match cell.text("workload.reconnect")? {
            "closed" => Reconnect::Closed,
            "closed-by-both" => Reconnect::ClosedByBoth,
            _ => Reconnect::AtOnce,
        },
    }))
}
