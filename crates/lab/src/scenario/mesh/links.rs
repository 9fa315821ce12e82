//! Measured links between nodes: CSV files as topologies.
//!
//! Built in are the two testbeds of Vallati et al. 2020, derived from the raw data that the
//! authors published (`papers/rpl/README.md`).

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::Path;

use carob_sim::mesh::spec::LinkGraph;
use carob_sim::mesh::topology::TableLink;
use carob_sim::mesh::{NODES_MAX, Node};
use carob_sim::random::Probability;

use crate::csv::Table;
use crate::files;
use crate::scenario::cell::Cell;
use crate::scenario::document::{Raw, Written};
use crate::scenario::error::{Place, Problem, ScenarioError};
use crate::scenario::impossible;

/// The largest CSV in bytes.
const CSV_BYTES_MAX: usize = 1 << 20;
/// ETX below which only the share `mesh.etx_share` of the excess is loss of the link itself.
const GOOD_ETX: f64 = 1.4;
/// The best delivery ratio of a link whose ETX is known.
const DELIVERY_MAX: f64 = 0.998;
/// Built-in topologies: name, CSV.
const MEASURED: [(&str, &str); 4] = [
    (
        "pint-measured",
        include_str!("../../../papers/rpl/pint_links.csv"),
    ),
    (
        "wilab-measured",
        include_str!("../../../papers/rpl/wilab_links.csv"),
    ),
    (
        "evalab-measured",
        include_str!("../../../links/mesh-evalab.csv"),
    ),
    (
        "marina-measured",
        include_str!("../../../links/mesh-marina.csv"),
    ),
];

keys! {
    /// Keys of measured links, and of the node that is traced.
    pub(in crate::scenario) KEYS;

    "mesh.links", Text, -,
        "Links of the topology `links`: a CSV, or the path of one (from the scenario file's folder) that ends in `.csv`. Columns `a,b` for links in both directions or `from,to` for one, and `delivery` (a ratio) or `etx`. The first node of the first row is the root. Lines that begin with `#` are comments.";
    "mesh.etx_share", Percent, "100 %",
        "Of links with an ETX below 1.4, the share of its excess over 1 that is loss of the link itself; the rest are collisions during the measurement. The delivery ratio each way is 1 / sqrt(ETX), at most 99.8 %.";
    "mesh.regions", Text, -,
        "Regions of noise in a topology of links: node numbers as in its CSV, regions separated by `/`, as in `1 5 15/4 9 13`; nodes that are not named form the last. Without it there is one.";
    "mesh.traced", Whole(0, NODES_MAX as u64 - 1), -,
        "Node whose rank, ETX and RTO are traced; without it, of those with descendants the one with most neighbours.";
}

/// Beginning of the first line of a text in the place of a path, which has that path.
pub(in crate::scenario) const OF_FILE: &str = "# file: ";

/// A graph of links and the numbers that its nodes have in the CSV, the root first.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::scenario) struct MeasuredLinks {
    pub(super) graph: LinkGraph,
    numbers: Vec<u32>,
}

/// Puts the contents of a CSV file in the place of its path, so that a change of the file changes
/// the hash of the scenario.
pub(in crate::scenario) fn load(raw: &mut BTreeMap<String, Raw>) -> Result<(), ScenarioError> {
    let Some(Raw { place, written }) = raw.get_mut("mesh.links") else {
        return Ok(());
    };
    let Written::One(text) = written else {
        return Ok(()); // an error later, as lists are for every key
    };
    let extension = Path::new(&*text).extension();
    if extension.is_none_or(|extension| extension != "csv") || text.contains('\n') {
        return Ok(());
    }
    let folder = match place {
        Place::File { name, .. } => Path::new(name).parent().unwrap_or(Path::new("")),
        _ => Path::new(""),
    };
    let path = folder.join(&*text);
    let failed = |why: String| ScenarioError {
        place: place.clone(),
        problem: Problem::RunSetupError(format!("mesh.links: {}: {why}", path.display())),
    };
    let csv = self::text(&path).map_err(failed)?;
    *text = format!("{OF_FILE}{text}\n{csv}");
    Ok(())
}

/// Returns true for a topology that is made of measured links.
pub(super) fn is_measured(topology: &str) -> bool {
    topology == "links" || MEASURED.iter().any(|(name, _)| *name == topology)
}

/// Text of a CSV of links.
pub(crate) fn text(path: &Path) -> Result<String, String> {
    files::read_text(path, CSV_BYTES_MAX).map_err(|error| match error.kind() {
        ErrorKind::FileTooLarge => "a CSV of links is at most 1 MiB".to_owned(),
        _ => error.to_string(),
    })
}

/// Number of nodes in a CSV of links.
pub(crate) fn nodes(csv: &str) -> Result<usize, String> {
    Ok(read(csv, 1.0)?.numbers.len())
}

/// Number of nodes of a built-in topology of measured links.
pub(crate) fn nodes_of(topology: &str) -> Result<usize, String> {
    let found = MEASURED.iter().find(|(name, _)| *name == topology);
    nodes(found.map_or("", |(_, csv)| csv))
}

/// The measured links of a cell, if its topology is made of them.
pub(super) fn of(cell: &Cell) -> Result<Option<MeasuredLinks>, ScenarioError> {
    let name = cell.text("mesh.topology")?;
    let built_in = MEASURED.iter().find(|(built_in, _)| *built_in == name);
    let csv = match built_in {
        Some((_, csv)) => csv,
        None if name != "links" => return Ok(None),
        None if cell.has("mesh.links") => cell.text("mesh.links")?,
        None => {
            let why = "mesh.topology = \"links\" needs mesh.links, a CSV";
            return Err(impossible(cell.place("mesh.topology"), why));
        }
    };
    let share: u32 = cell.get("mesh.etx_share")?;
    let read = read(csv, f64::from(share) / 1e6);
    let mut measured =
        read.map_err(|why| impossible(cell.place("mesh.links"), format!("mesh.links: {why}")))?;
    if let Some(text) = cell.settings.word("mesh.regions") {
        measured.graph.regions = regions(&measured.numbers, text).ok_or_else(|| {
            let why = format!(
                "mesh.regions = \"{text}\": expected numbers of nodes, each once, and at most 255 regions separated by \"/\""
            );
            impossible(cell.place("mesh.regions"), why)
        })?;
    }
    Ok(Some(measured))
}

/// Reads a CSV. Of the excess of a good link's ETX over 1, `share` is loss of the link itself.
fn read(csv: &str, share: f64) -> Result<MeasuredLinks, String> {
    // Comments become blank lines, which are no records.
    let lines = csv
        .lines()
        .map(|line| if line.starts_with('#') { "" } else { line });
    let csv = lines.collect::<Vec<_>>().join("\n");
    let table = Table::read(&csv).map_err(|error| {
        format!(
            "record {}: not as many cells as the header's, or an open quote",
            error.record
        )
    })?;
    let has = |column: &str| table.header().iter().any(|name| name == column);
    let (both, columns) = match (has("a") && has("b"), has("from") && has("to")) {
        (true, false) => (true, ["a", "b"]),
        (false, true) => (false, ["from", "to"]),
        _ => return Err("expected columns a,b or from,to".to_owned()),
    };
    if has("etx") == has("delivery") {
        return Err("expected a column delivery or etx".to_owned());
    }
    let mut rows = Vec::new();
    for row in 0..table.len() {
        let line = row + 2;
        let number = |column: &str| table.cell(row, column).and_then(|text| text.parse().ok());
        let [Some(a), Some(b)] = columns.map(number) else {
            return Err(format!("line {line}: expected numbers of two nodes"));
        };
        let ratio = if has("delivery") {
            table.number(row, "delivery")
        } else {
            let etx = table.number(row, "etx").filter(|etx| *etx >= 1.0);
            etx.map(|etx| delivery(etx, share))
        };
        let ratio = ratio.filter(|ratio| (0.0..=1.0).contains(ratio));
        let ratio =
            ratio.ok_or_else(|| format!("line {line}: a delivery is 0 to 1, an ETX at least 1"))?;
        if a == b {
            return Err(format!("line {line}: a link from node {a} to itself"));
        }
        rows.push((a, b, Probability::ppm((ratio * 1e6 + 0.5) as u32)));
    }
    let root: u32 = rows.first().ok_or("there is no link")?.0;
    let all: BTreeSet<u32> = rows.iter().flat_map(|(a, b, _)| [*a, *b]).collect();
    let others = all.iter().copied().filter(|number| *number != root);
    let numbers: Vec<u32> = std::iter::once(root).chain(others).collect();
    let index = |number: u32| {
        let found = numbers.iter().position(|other| *other == number);
        found.unwrap_or_default() as Node
    };
    let mut links = Vec::new();
    for (a, b, delivery) in rows {
        let (a, b) = (index(a), index(b));
        let back = both.then_some((b, a));
        let ways = std::iter::once((a, b)).chain(back);
        for (from, to) in ways {
            links.push(TableLink { from, to, delivery });
        }
    }
    let mut ends: Vec<(Node, Node)> = links.iter().map(|link| (link.from, link.to)).collect();
    ends.sort_unstable();
    if let Some(twice) = ends.windows(2).find(|two| two[0] == two[1]) {
        let [from, to] = [twice[0].0, twice[0].1].map(|node| numbers[usize::from(node)]);
        return Err(format!("the link from node {from} to {to} is there twice"));
    }
    let regions = vec![0; numbers.len()];
    let graph = LinkGraph { regions, links };
    Ok(MeasuredLinks { graph, numbers })
}

/// The delivery ratio each way of a link with this ETX.
fn delivery(etx: f64, share: f64) -> f64 {
    let own = if etx < GOOD_ETX {
        1.0 + (etx - 1.0) * share
    } else {
        etx
    };
    // The square root is exact on every machine.
    (1.0 / own).sqrt().min(DELIVERY_MAX)
}

/// The region of each node.
fn regions(numbers: &[u32], text: &str) -> Option<Vec<u8>> {
    let mut region_of: Vec<Option<u8>> = vec![None; numbers.len()];
    let mut regions = 0_u8;
    for (region, nodes) in text.split('/').enumerate() {
        for word in nodes.split_whitespace() {
            let number: u32 = word.parse().ok()?;
            let index = numbers.iter().position(|other| *other == number)?;
            let is_new = region_of[index]
                .replace(u8::try_from(region).ok()?)
                .is_none();
            is_new.then_some(())?;
        }
        regions = u8::try_from(region + 1).ok()?;
    }
    Some(
        region_of
            .iter()
            .map(|region| region.unwrap_or(regions))
            .collect(),
    )
}

/// The node of a number.
pub(super) fn node(measured: Option<&MeasuredLinks>, text: &str) -> Option<Node> {
    let Some(measured) = measured else {
        return text.parse().ok();
    };
    let number: u32 = text.parse().ok()?;
    let index = measured.numbers.iter().position(|other| *other == number)?;
    Node::try_from(index).ok()
}

/// The node that `mesh.traced` names.
pub(super) fn traced(cell: &Cell, path: &str) -> Result<Node, ScenarioError> {
    let number: u64 = cell.get(path)?;
    node(of(cell)?.as_ref(), &number.to_string()).ok_or_else(|| {
        let why = format!("{path}: there is no node {number}");
        impossible(cell.place(path), why)
    })
}
