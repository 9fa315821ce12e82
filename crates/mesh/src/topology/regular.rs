//! Chains, grids and the dumbbell.

use super::super::{NODES_MAX, Node};
use super::{EDGE_MAX_MM, Layout, Place, TopologyError};

/// The first node of the dumbbell's second side: the last of its bar.
pub(super) const SECOND_SIDE: Node = 11;
/// The root of the dumbbell: the middle of its bar.
const DUMBBELL_ROOT: Node = 10;
/// The middle of the outer edge of the dumbbell's first side.
const DUMBBELL_SINK: Node = 3;

/// Nodes in a row, the root at one end and the sink at the other.
pub(super) fn chain(nodes: u16, edge_mm: u32) -> Result<Layout, TopologyError> {
    grid(nodes, 1, edge_mm)
}

/// A grid, numbered row by row. The root is node 0, in a corner; the sink in the middle of the last
/// row, of two middles the farther from the root. One row or column is a chain, with the sink at
/// its end.
pub(super) fn grid(columns: u16, rows: u16, edge_mm: u32) -> Result<Layout, TopologyError> {
    let nodes = u32::from(columns) * u32::from(rows);
    if nodes == 0 || nodes as usize > NODES_MAX {
        return Err(TopologyError::Nodes(nodes));
    }
    let cells = (0..rows).flat_map(|row| (0..columns).map(move |column| (column, row)));
    let last = nodes as Node - 1;
    let sink = match rows {
        1 => last,
        _ => last - (columns - 1) / 2,
    };
    regular(&cells.collect::<Vec<_>>(), edge_mm, 0, sink)
}

/// Two grids of 3 x 3 nodes joined by a bar of three: nodes 0 to 8, 9 to 11, 12 to 20, each grid
/// numbered row by row.
///
/// ```text
///  0  1  2             12 13 14
///  3  4  5   9 10 11   15 16 17
///  6  7  8             18 19 20
/// ```
pub(super) fn dumbbell(edge_mm: u32) -> Result<Layout, TopologyError> {
    let side = |first: u16| (0..9).map(move |cell: u16| (first + cell % 3, cell / 3));
    let bar = (3..6).map(|column| (column, 1));
    let cells: Vec<(u16, u16)> = side(0).chain(bar).chain(side(6)).collect();
    let mut layout = regular(&cells, edge_mm, DUMBBELL_ROOT, DUMBBELL_SINK)?;
    layout.mirror = Some(mirror);
    Ok(layout)
}

/// The node in the same row on the other side of the dumbbell.
fn mirror(node: Node) -> Node {
    if (9..12).contains(&node) {
        return 20 - node;
    }
    // Columns from the outer edge inwards.
    let (first, other) = if node < 9 { (0, 12) } else { (12, 0) };
    let cell = node - first;
    other + cell / 3 * 3 + (2 - cell % 3)
}

/// Nodes in cells of (column, row).
fn regular(
    cells: &[(u16, u16)],
    edge_mm: u32,
    root: Node,
    sink: Node,
) -> Result<Layout, TopologyError> {
    if edge_mm == 0 || edge_mm > EDGE_MAX_MM {
        return Err(TopologyError::Edge(edge_mm));
    }
    // The largest is below 4,096 x 500,000.
    let place = |(column, row): &(u16, u16)| -> Place {
        let at = |n: u16| (u32::from(n) * edge_mm) as i32;
        (at(*column), at(*row), 0)
    };
    Ok(Layout {
        positions: cells.iter().map(place).collect(),
        regions: squares(cells),
        table: None,
        root,
        sink: Some(sink),
        mirror: None,
    })
}

/// Squares of 3 x 3 cells, or of the smallest multiple of that with at most 256 squares.
fn squares(cells: &[(u16, u16)]) -> Vec<u8> {
    let columns = cells.iter().map(|cell| cell.0).max().unwrap_or(0) + 1;
    let rows = cells.iter().map(|cell| cell.1).max().unwrap_or(0) + 1;
    let mut side = 3;
    while u32::from(columns.div_ceil(side)) * u32::from(rows.div_ceil(side)) > 256 {
        side += 3;
    }
    let across = columns.div_ceil(side);
    let region = |(column, row): &(u16, u16)| (row / side * across + column / side) as u8;
    cells.iter().map(region).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mirror_of_a_mirror_is_the_node() {
        let layout = dumbbell(10_000).expect("a dumbbell");
        for node in 0..21 {
            assert_eq!(mirror(mirror(node)), node);
            let (here, there) = (
                layout.positions[usize::from(node)],
                layout.positions[usize::from(mirror(node))],
            );
            assert_eq!((here.0 + there.0, here.1), (80_000, there.1), "{node}");
        }
    }

    #[test]
    fn regions_are_at_most_256_and_have_no_gaps() {
        for (columns, rows) in [(6, 6), (7, 7), (40, 25), (4_096, 1), (64, 64), (1, 1_000)] {
            let layout = grid(columns, rows, 10_000).expect("a grid");
            let mut seen = layout.regions.clone();
            seen.sort_unstable();
            seen.dedup();
            let expected: Vec<u8> = (0..seen.len()).map(|region| region as u8).collect();
            assert_eq!(seen, expected, "{columns} x {rows}");
        }
        let six = grid(6, 6, 10_000).expect("a grid").regions;
        assert_eq!(
            [0, 14, 3, 18, 21, 35].map(|node| six[node]),
            [0, 0, 1, 2, 3, 3]
        );
        // Grid, bar, grid.
        let bell = dumbbell(10_000).expect("a dumbbell").regions;
        assert_eq!((bell[0], bell[9], bell[20]), (0, 1, 2));
    }
}
