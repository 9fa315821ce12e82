//! Paths through a network: hop counts and least expected transmissions.

use std::collections::VecDeque;

use carob_sim_core::random::Probability;

use super::super::Node;
use super::{Place, TableLink, squared};

/// Hops from a node to each over links of a table, regardless of their ratio, each used from its
/// sender to its receiver; none without a path. Links of nodes beyond `nodes` are ignored.
pub fn by_table<'a>(
    nodes: usize,
    links: impl Iterator<Item = &'a TableLink>,
    root: Node,
) -> Vec<Option<u16>> {
    let mut next = vec![Vec::new(); nodes];
    for link in links {
        if usize::from(link.to) < nodes
            && let Some(from) = next.get_mut(usize::from(link.from))
        {
            from.push(link.to);
        }
    }
    let mut hops = vec![None; nodes];
    let mut open = VecDeque::new();
    if let Some(first) = hops.get_mut(usize::from(root)) {
        *first = Some(0);
        open.push_back((root, 0));
    }
    while let Some((node, so_far)) = open.pop_front() {
        for neighbour in &next[usize::from(node)] {
            let known = &mut hops[usize::from(*neighbour)];
            if known.is_none() {
                *known = Some(so_far + 1);
                open.push_back((*neighbour, so_far + 1));
            }
        }
    }
    hops
}

/// Hops from a node to each, with links between nodes at most `range_mm` apart.
pub fn by_range(places: &[Place], range_mm: u32, root: Node) -> Vec<Option<u16>> {
    let range = u64::from(range_mm).pow(2);
    let mut hops = vec![None; places.len()];
    let mut unseen: Vec<usize> = (0..places.len()).collect();
    let mut open = VecDeque::from([(usize::from(root), 0)]);
    unseen.retain(|node| *node != usize::from(root));
    if let Some(first) = hops.get_mut(usize::from(root)) {
        *first = Some(0);
    } else {
        open.clear();
    }
    while let Some((node, so_far)) = open.pop_front() {
        unseen.retain(|other| {
            let is_far = squared(places[node], places[*other]) > range;
            if !is_far {
                hops[*other] = Some(so_far + 1);
                open.push_back((*other, so_far + 1));
            }
            is_far
        });
    }
    hops
}

/// Links with at least this ratio in both directions.
pub fn two_way(table: &[TableLink], least: Probability) -> impl Iterator<Item = &TableLink> {
    let is_good = move |link: &&TableLink| link.delivery >= least;
    let good = table.iter().filter(is_good);
    good.filter(move |link| ratio(table, link.to, link.from) >= least)
}

/// The ratio of a link in a table sorted by sender and receiver; 0 without a link.
pub fn ratio(table: &[TableLink], from: Node, to: Node) -> Probability {
    let found = table.binary_search_by_key(&(from, to), |link| (link.from, link.to));
    found.map_or(Probability::NEVER, |index| table[index].delivery)
}

/// Expected transmissions over a link with acknowledgements (ETX: 1 over the product of both
/// ratios), in thousandths. None if nothing arrives in one direction.
pub fn etx(table: &[TableLink], link: &TableLink) -> Option<u64> {
    let there = u128::from(link.delivery.threshold());
    let back = u128::from(ratio(table, link.to, link.from).threshold());
    let etx = (1_000_u128 << 64).checked_div(there * back)?;
    // At most 2^40, so that sums along a path stay far below 64 bits.
    Some(etx.min(1 << 40) as u64)
}

/// Hops of each node's cheapest path to the root, by [`etx`]. RPL's tree converges to it with
/// accurate estimates. None without a path.
pub fn cheapest(nodes: usize, table: &[TableLink], root: Node) -> Vec<Option<u16>> {
    // Costs in thousandths of a transmission.
    let mut best: Vec<Option<(u64, u16)>> = vec![None; nodes];
    let mut is_done = vec![false; nodes];
    if let Some(first) = best.get_mut(usize::from(root)) {
        *first = Some((0, 0));
    }
    // Dijkstra with a scan in the place of a heap; ties go to fewer hops, then to the lower number.
    loop {
        let open = (0..nodes).filter(|node| !is_done[*node]);
        let costs = open.filter_map(|node| Some((best[node]?, node)));
        let Some(((cost, hops), node)) = costs.min() else {
            break;
        };
        is_done[node] = true;
        let first = table.partition_point(|link| usize::from(link.from) < node);
        let own = table[first..].iter();
        for link in own.take_while(|link| usize::from(link.from) == node) {
            let Some(etx) = etx(table, link) else {
                continue;
            };
            let way = (cost.saturating_add(etx), hops + 1);
            if let Some(known) = best.get_mut(usize::from(link.to))
                && known.is_none_or(|known| way < known)
            {
                *known = Some(way);
            }
        }
    }
    best.into_iter()
        .map(|way| way.map(|(_, hops)| hops))
        .collect()
}
