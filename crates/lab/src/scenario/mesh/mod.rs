//! Wireless networks, from the keys of the tables `mesh`, `radio`, `mac`, `lowpan`, `rpl`, `node` and
//! `traffic`.
//!
//! Layers take the values of a version of Contiki, overridden by single keys.

pub(crate) mod links;
pub(super) mod lowpan;
pub(super) mod mac;
pub(super) mod radio;
pub(super) mod rpl;
pub(super) mod topology;
pub(super) mod traffic;

pub(super) use links::OF_FILE;

use carob_cc::time::Duration;
use carob_sim::mesh::ConfigError;
use carob_sim::mesh::lowpan::LowpanError;
use carob_sim::mesh::spec::{Delivery, MeshSpec, NodeSpec};
use carob_sim::mesh_traffic;
use carob_sim::spec::{RunError, RunSpec};

use super::cell::Cell;
use super::error::{Place, ScenarioError};
use super::keys;
use super::settings::Settings;
use super::{Setting, impossible};

/// On or off.
const SWITCH: &[&str] = &["on", "off"];
/// Versions of Contiki whose RPL and 6LoWPAN are known.
const VERSIONS: &[&str] = &["contiki27", "contiki30", "contiki3x"];

/// Keys of `workload` that a network has, too.
const SHARED: [&str; 6] = [
    "workload.kind",
    "workload.duration",
    "workload.warm_up",
    "workload.message",
    "workload.token_bytes",
    "workload.bin",
];

/// Returns true for a cell of a wireless network, with its own traffic or with other clients.
pub(super) fn is_one(settings: &Settings) -> bool {
    has_traffic(settings) || settings.word("run.network") == Some("mesh")
}

/// Returns true for a wireless network with its own traffic.
fn has_traffic(settings: &Settings) -> bool {
    settings.word("workload.kind") == Some("mesh")
}

/// Tables of keys that are of wireless networks alone, in the order of descriptions, each with its subject.
pub(super) const TABLES: [(&str, &str); 7] = [
    ("mesh", "Wireless network"),
    ("radio", "Radio"),
    ("mac", "MAC"),
    ("lowpan", "6LoWPAN"),
    ("rpl", "RPL"),
    ("node", "Nodes"),
    ("traffic", "Traffic"),
];

/// Returns whether a key is of wireless networks alone.
pub(super) fn is_key(path: &str) -> bool {
    let table = path.split_once('.').map(|(table, _)| table);
    TABLES.iter().any(|(known, _)| Some(*known) == table)
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
            _ if is_key(path) => self.mesh,
            "link" | "tcp" => !self.mesh,
            "mix" | "server" | "faults" => !self.traffic,
            "workload" => !self.traffic || SHARED.contains(&path),
            _ => !self.traffic || path != "run.until",
        }
    }
}

/// Link model of `radio.link = "lossy"` without other settings.
pub fn lossy() -> Option<Delivery> {
    let key = keys::all().find(|key| key.path == "radio.ratios")?;
    radio::points(key.default?).map(Delivery::Drawn)
}

keys! {
    /// Keys of nodes.
    pub(super) NODE_KEYS;

    NodeSpec {
        processing: "node.processing", Time, "5 ms",
            "Time between the arrival of a message and what its receiver does about it.";
        forwarding: "node.forwarding", Time, "5 ms",
            "Time between the arrival of a packet at a node that sends it on and when its MAC has it.";
        tick: "node.tick", Time, "0 s",
            "Timers of endpoints run out at multiples of this; 0 s for exactly.";
    }
}

/// The network of a cell.
pub(super) fn of(cell: &Cell) -> Result<MeshSpec, ScenarioError> {
    Ok(MeshSpec {
        topology: topology::of(cell)?,
        radio: radio::of(cell)?,
        mac: mac::of(cell)?,
        lowpan: lowpan::of(cell)?,
        routing: rpl::routing(cell)?,
        rpl: rpl::of(cell)?,
        node: cell.fields()?,
        warm_up: cell.get("workload.warm_up")?,
        duration: if has_traffic(&cell.settings) {
            cell.get("workload.duration")?
        } else {
            // Flows end by themselves, at the time limit at the latest.
            let limit: Duration = cell.get("run.time_limit")?;
            limit.saturating_sub(cell.get("workload.warm_up")?)
        },
        bin: cell.get("workload.bin")?,
        traced: cell.if_set("mesh.traced", links::traced)?,
    })
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
    let bytes = |path: &str| cell.get::<u64>(path).unwrap_or_default();
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
