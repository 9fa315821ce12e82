//! Wireless networks, from the keys of the tables `mesh`, `radio`, `mac`, `lowpan`, `rpl`, `node` and
//! `traffic`.
//!
//! Layers ([`layers`]) take the values of a version of Contiki, overridden by single keys.

mod layers;
pub(crate) mod links;
pub(super) use links::OF_FILE;
mod topology;

use carob_sim::mesh::ConfigError;
use carob_sim::mesh::lowpan::LowpanError;
use carob_sim::mesh::spec::{Delivery, MeshSpec, NodeSpec, Routing};
use carob_sim::mesh_traffic::{
    self, BurstKind, Bursts, ClientStops, Constant, DelayBins, Gaps, MeshTraffic, Period, Sink,
};
use carob_sim::random::Probability;
use carob_sim::spec::RunError;
use carob_sim::spec::RunSpec;

use super::cell::Cell;
use super::error::{Place, ScenarioError};
use super::keys::{KEYS, is_of_mesh};
use super::settings::Settings;
use super::value::Value;
use super::{Setting, impossible};

/// Keys of `workload` that a network has, too.
const SHARED: [&str; 6] = [
    "workload.kind",
    "workload.duration",
    "workload.warm_up",
    "workload.message",
    "workload.token_bytes",
    "workload.bin",
];

fn is_set_to(settings: &Settings, path: &str, word: &str) -> bool {
    matches!(
        settings.get(path).map(|s| &s.value),
        Some(Value::Text(text)) if text == word
    )
}

/// Returns true for a cell of a wireless network, with its own traffic or with other clients.
pub(super) fn is_one(settings: &Settings) -> bool {
    has_traffic(settings) || is_set_to(settings, "run.network", "mesh")
}

/// Returns true for a wireless network with its own traffic.
fn has_traffic(settings: &Settings) -> bool {
    is_set_to(settings, "workload.kind", "mesh")
}

/// Returns whether a key is of wireless networks alone.
pub(super) fn is_key(path: &str) -> bool {
    is_of_mesh(path)
}

/// The network and traffic of a cell, which decide the keys that apply to it.
#[derive(Clone, Copy)]
pub(super) struct Applicability {
    mesh: bool,
    traffic: bool,
}

impl Applicability {
    pub(super) fn of(settings: &Settings) -> Self {
        Self {
            mesh: is_one(settings),
            traffic: has_traffic(settings),
        }
    }

    /// Returns true if a key applies.
    pub(super) fn covers(self, path: &str) -> bool {
        let table = path.split('.').next().unwrap_or_default();
        match table {
            "traffic" => self.traffic,
            _ if is_of_mesh(path) => self.mesh,
            "link" | "tcp" => !self.mesh,
            "mix" | "server" | "faults" => !self.traffic,
            "workload" => !self.traffic || SHARED.contains(&path),
            _ => !self.traffic || path != "run.until",
        }
    }
}

/// Link model of `radio.link = "lossy"` without other settings.
pub fn lossy() -> Option<Delivery> {
    let key = KEYS.iter().find(|key| key.path == "radio.ratios")?;
    layers::points(key.default?).map(Delivery::Drawn)
}

/// The network of a cell.
pub(super) fn of(cell: &Cell) -> Result<MeshSpec, ScenarioError> {
    Ok(MeshSpec {
        topology: topology::of(cell)?,
        radio: layers::radio(cell)?,
        mac: layers::mac(cell)?,
        lowpan: layers::lowpan(cell)?,
        routing: match cell.text("rpl.routing")? {
            "static" => Routing::Static(cell.time("rpl.settled_after")?),
            _ => Routing::Rpl,
        },
        rpl: layers::rpl(cell)?,
        node: NodeSpec {
            processing: cell.time("node.processing")?,
            forwarding: cell.time("node.forwarding")?,
            tick: cell.time("node.tick")?,
        },
        warm_up: cell.time("workload.warm_up")?,
        duration: if has_traffic(&cell.settings) {
            cell.time("workload.duration")?
        } else {
            // Flows end by themselves, at the time limit at the latest.
            let limit = cell.time("run.time_limit")?;
            limit.saturating_sub(cell.time("workload.warm_up")?)
        },
        bin: cell.time("workload.bin")?,
        traced: match cell.if_set("mesh.traced", Cell::whole)? {
            Some(number) => Some(links::traced(cell, number)?),
            None => None,
        },
    })
}

/// The traffic of nodes.
pub(super) fn traffic(cell: &Cell) -> Result<MeshTraffic, ScenarioError> {
    let [load, each] = ["traffic.load", "traffic.period"];
    let start = cell.if_set("traffic.start", Cell::span)?;
    let period = match (cell.has(load), cell.has(each)) {
        (true, true) => {
            let why = format!("{load} and {each} are two ways to say how often nodes speak");
            return Err(impossible(cell.place(each), why));
        }
        (true, false) => {
            let bps = cell.rate(load)?;
            Some(Period::Load(u32::try_from(bps).unwrap_or(u32::MAX)))
        }
        (false, true) => Some(Period::Each(cell.time(each)?)),
        (false, false) => None,
    };
    if let (None, Some(_)) = (period, start) {
        let why = format!("traffic.start is of constant traffic; set {load} or {each}");
        return Err(impossible(cell.place("traffic.start"), why));
    }
    let gaps = gaps(cell)?;
    if period.is_none() && gaps != Gaps::Fixed {
        let why = format!("traffic.gaps is of constant traffic; set {load} or {each}");
        return Err(impossible(cell.place("traffic.gaps"), why));
    }
    let message = cell.bytes("workload.message")?;
    let counted = cell.if_set("traffic.counted", Cell::bytes)?;
    Ok(MeshTraffic {
        constant: period.map(|period| Constant {
            period,
            start,
            gaps,
        }),
        bursts: bursts(cell)?,
        counted_bytes: counted.unwrap_or(message) as u16,
        message_bytes: message as u16,
        token_bytes: cell.whole("workload.token_bytes")? as u8,
        queue: cell.whole("node.coap_buffer")? as u16,
        gives_up_at_last_copy: cell.is_on("node.gives_up_at_last_copy")?,
        delay_bins: match cell.text("traffic.delay_bins")? {
            "reception" => DelayBins::Reception,
            _ => DelayBins::Generation,
        },
        stops: stops(cell)?,
    })
}

/// Clients that stop for good.
fn stops(cell: &Cell) -> Result<Option<ClientStops>, ScenarioError> {
    let probability = cell.share("traffic.stop")?;
    Ok((probability != Probability::ppm(0)).then_some(ClientStops {
        probability,
        within: cell.time("traffic.stop_within")?,
    }))
}

/// The distribution of the time between messages.
fn gaps(cell: &Cell) -> Result<Gaps, ScenarioError> {
    Ok(match cell.text("traffic.gaps")? {
        "uniform" => Gaps::Uniform(cell.ppm("traffic.gap_spread")?),
        "exponential" => Gaps::Exponential,
        _ => Gaps::Fixed,
    })
}

fn bursts(cell: &Cell) -> Result<Option<Bursts>, ScenarioError> {
    let messages = cell.whole("traffic.burst")? as u16;
    if messages == 0 {
        return Ok(None);
    }
    let kind = match cell.text("traffic.burst_kind")? {
        "notifications" => BurstKind::Notifications,
        _ => BurstKind::Posts,
    };
    let queue = cell.if_set("traffic.burst_buffer", Cell::whole)?;
    if queue.is_some() && kind == BurstKind::Notifications {
        let why =
            "traffic.burst_buffer is of bursts of POSTs; notifications wait in node.coap_buffer";
        return Err(impossible(
            cell.place("traffic.burst_buffer"),
            why.to_owned(),
        ));
    }
    Ok(Some(Bursts {
        first: cell.span("traffic.burst_first")?,
        spread: cell.time("traffic.burst_spread")?,
        every: cell.time_or_none("traffic.burst_every")?,
        messages,
        to: match cell.text("traffic.burst_to")? {
            "secondary" => Sink::Secondary,
            _ => Sink::Primary,
        },
        kind,
        queue: queue.map(|queue| queue as u16),
        registers_again: cell.time_or_none("traffic.registers_again")?,
    }))
}

/// Checks that all settings apply to the kind of run.
pub(super) fn check_applicable(cell: &Cell) -> Result<(), ScenarioError> {
    let set = |s: &Setting| !matches!(s.place, Place::Scenario(_));
    let keys = Applicability::of(&cell.settings);
    let stray = |(path, s): &(&str, &Setting)| set(s) && !keys.covers(path);
    if let Some((path, setting)) = cell.settings.iter().find(stray) {
        let why = if keys.traffic {
            format!(
                "{path} means nothing to a wireless network (workload.kind = \"mesh\"), which has no such thing; leave it out"
            )
        } else if keys.mesh {
            format!("{path} means nothing to clients of a wireless network; leave it out")
        } else {
            format!(
                "{path} is of wireless networks; leave it out, or set workload.kind to \"mesh\""
            )
        };
        return Err(impossible(&setting.place, why));
    }
    Ok(())
}

/// Checks that the network is possible.
pub(super) fn check(cell: &Cell, spec: &RunSpec) -> Result<(), ScenarioError> {
    spec.check_mesh().map_err(|why| {
        let path = match why {
            RunError::Mesh(why) => of_network(cell, why),
            RunError::MeshTraffic(why) => of_traffic(cell, why),
            RunError::MeshTimeLimit => "workload.duration",
            _ => "run.algorithms",
        };
        let allowed = match why {
            RunError::Mesh(ConfigError::Lowpan(LowpanError::TooLarge { .. })) => {
                " (lowpan.datagram)"
            }
            _ => "",
        };
        impossible(cell.place(path), format!("{path}: {why}{allowed}"))
    })
}

/// The key of an error of the network.
fn of_network(cell: &Cell, why: ConfigError) -> &'static str {
    match why {
        ConfigError::NoTime | ConfigError::TooLong => "workload.duration",
        ConfigError::Lowpan(_) if !has_traffic(&cell.settings) => longest_message(cell),
        ConfigError::Lowpan(_) => "lowpan.frame",
        ConfigError::Queue(_) => "rpl.no_route_buffer",
        ConfigError::Traced(_) => "mesh.traced",
        _ => "run.algorithms",
    }
}

/// The key of an error of the nodes' traffic.
fn of_traffic(cell: &Cell, why: mesh_traffic::ConfigError) -> &'static str {
    use mesh_traffic::ConfigError as Error;
    match why {
        Error::Message(_) => "workload.message",
        Error::Token => "workload.token_bytes",
        Error::Burst(_) => "traffic.burst",
        Error::Period if cell.has("traffic.load") => "traffic.load",
        Error::Period => "traffic.period",
        Error::NoTime => "traffic.burst_every",
        Error::Queue(_) => "traffic.burst_buffer",
        _ => "run.algorithms",
    }
}

/// The key of the longest message of requests.
fn longest_message(cell: &Cell) -> &'static str {
    let bytes = |path: &str| cell.bytes(path).unwrap_or_default();
    if cell
        .text("workload.kind")
        .is_ok_and(|kind| kind == "blockwise-get")
    {
        "workload.block"
    } else if bytes("workload.request") >= bytes("workload.response") {
        "workload.request"
    } else {
        "workload.response"
    }
}

#[cfg(test)]
mod tests;
