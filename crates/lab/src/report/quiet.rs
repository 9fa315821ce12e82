//! A wireless network before its traffic, as a figure.

use carob_sim::engine::RunError;
use carob_sim::mesh::{self, IdleNetwork};

use super::{Network, Picture, topology_figure};
use crate::scenario::{Algorithm, Cell, Scenario};

/// The network of a cell with the tree that RPL has made in a run with this seed, in both layouts;
/// nothing if the cell has none.
pub fn quiet_network(
    scenario: &Scenario,
    cell: &Cell,
    algorithm: &Algorithm,
    seed: u64,
) -> Result<Option<Picture>, RunError> {
    let spec = scenario.spec(cell, algorithm, seed);
    let Some(network) = &spec.mesh else {
        return Ok(None);
    };
    let idle = mesh::idle_network(&spec, network)?;
    Ok(Some(topology_figure(&picture(idle))))
}

fn picture(idle: IdleNetwork) -> Network {
    let IdleNetwork {
        topology,
        links,
        parents,
        etx,
        ..
    } = idle;
    let nodes = 0..topology.nodes() as u16;
    let sinks = nodes.filter(|node| topology.is_sink(*node));
    let percent = |etx: &Option<u32>| etx.map(|etx| f64::from(etx) / 100.0);
    Network {
        sinks: sinks.collect(),
        links: links
            .iter()
            .map(|(from, to, delivery)| (*from, *to, delivery.as_f64()))
            .collect(),
        parents: Some(parents),
        etx: etx.iter().map(percent).collect(),
        root: topology.root,
        positions: topology.positions,
    }
}
