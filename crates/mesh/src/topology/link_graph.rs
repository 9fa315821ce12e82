//! Topologies given as a graph of links.
//!
//! Positions only serve figures and distances between roles: a column for each number of hops from
//! the root, 10 m apart.

use carob_sim_core::random::Probability;

use super::super::spec::LinkGraph;
use super::super::{NODES_MAX, Node};
use super::{Layout, Place, TopologyError, paths};

/// Distance between columns, and between nodes of a column, in millimetres.
const STEP_MM: i32 = 10_000;

/// The layout of a graph. Its root, node 0, is its sink.
pub(super) fn layout(graph: &LinkGraph) -> Result<Layout, TopologyError> {
    let nodes = graph.regions.len();
    if nodes == 0 || nodes > NODES_MAX {
        return Err(TopologyError::Nodes(nodes as u32));
    }
    let mut table = graph.links.clone();
    if let Some(node) = table
        .iter()
        .flat_map(|link| [link.from, link.to])
        .find(|node| usize::from(*node) >= nodes)
    {
        return Err(TopologyError::NoSuchNode { node, nodes });
    }
    // Sorted, because `paths::ratio` searches by bisection; of equal links the first one counts.
    table.sort_by_key(|link| (link.from, link.to));
    table.dedup_by_key(|link| (link.from, link.to));
    let hears = table
        .iter()
        .filter(|link| link.delivery > Probability::NEVER);
    let hops = paths::by_table(nodes, hears, 0);
    if let Some(node) = hops.iter().position(Option::is_none) {
        return Err(TopologyError::Apart(node as Node));
    }
    let mut in_column = vec![0; nodes];
    let place = |hops: &Option<u16>| -> Place {
        let hops = hops.unwrap_or_default();
        let row = &mut in_column[usize::from(hops)];
        *row += 1;
        (i32::from(hops) * STEP_MM, (*row - 1) * STEP_MM, 0)
    };
    Ok(Layout {
        positions: hops.iter().map(place).collect(),
        regions: graph.regions.clone(),
        table: Some(table),
        root: 0,
        sink: None,
        mirror: None,
    })
}
