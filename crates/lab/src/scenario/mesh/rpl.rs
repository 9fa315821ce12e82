//! RPL of nodes: the values of a version of Contiki, overridden by single keys.

use carob_cc::ratio::Ratio;
use carob_sim::mesh::NO_ROUTE_MAX;
use carob_sim::mesh::spec::{LoopRule, NoRoute, Objective, RankRule, Routing, RplMode, RplSpec};
use carob_sim::spec::Span;

use super::{SWITCH, VERSIONS};
use crate::scenario::cell::Cell;
use crate::scenario::error::ScenarioError;
use crate::scenario::impossible;

keys! {
    /// Keys of RPL.
    pub(in crate::scenario) KEYS;

    RplSpec {
        _: "rpl.version", Word(VERSIONS), "contiki27",
            "Whose RPL. The keys of `rpl` below without a default are as it has them.";
        _: "rpl.routing", Word(&["rpl", "static"]), "rpl",
            "Whether RPL runs all the time, or the routes that a quiet run of it has after `rpl.settled_after` hold for ever.";
        _: "rpl.settled_after", Time, "10 min",
            "See `rpl.routing`.";
        mode: "rpl.mode", Word { "storing" => RplMode::Storing, "non-storing" => RplMode::NonStoring }, -,
            "Whether nodes keep routes downwards, or only the root does.";
        objective: "rpl.objective", Word { "mrhof" => Objective::Mrhof, "of0" => Objective::Of0 }, "mrhof",
            "Objective function: least ETX with hysteresis (RFC 6719), or least rank (RFC 6552).";
        etx_divisor: "rpl.etx_divisor", Whole(1, 1_024), -,
            "ETX's unit.";
        min_hop_rank_increase: "rpl.min_hop_rank_increase", Whole(1, 4_096), -,
            "MinHopRankIncrease.";
        rank_rule: "rpl.rank_rule", Word { "sum" => RankRule::Sum, "at-least-one-hop" => RankRule::AtLeastOneHop }, -,
            "MRHOF's rank: the parent's and the link's ETX, or that, but at least one hop more than the parent's.";
        _: "rpl.initial_etx", Number, -,
            "ETX of a link without samples.";
        _: "rpl.etx_alpha", Percent, -,
            "Weight of a new sample of ETX.";
        _: "rpl.etx_alpha_fresh", Percent, -,
            "The same of the first four of a link.";
        _: "rpl.etx_no_ack", Number, -,
            "Sample of a frame that was not acknowledged.";
        _: "rpl.max_link_metric", Number, -,
            "Largest ETX of a link to a parent; 0 for none.";
        _: "rpl.hysteresis", Number, -,
            "Least gain in ETX that makes a node change its parent.";
        max_rank_increase: "rpl.max_rank_increase", Whole(0, u16::MAX as u64), -,
            "MaxRankIncrease; 0 for none.";
        forgets_lowest_rank: "rpl.forgets_lowest_rank", Word(SWITCH), -,
            "Whether a node that lost all its parents forgets its lowest rank.";
        _: "rpl.probing", Span, -,
            "Time between probes of neighbours; 0 s for none.";
        route_lifetime: "rpl.route_lifetime", TimeOrNone, -,
            "Lifetime of routes; `none` for ever.";
        dao_moves_routes: "rpl.dao_moves_routes", Word(SWITCH), -,
            "Whether a DAO that comes from another neighbour moves the route there.";
        no_path_delay: "rpl.no_path_delay", Time, -,
            "How long a route lasts after its No-Path DAO.";
        loops: "rpl.loops", Word { "forward" => LoopRule::Forward, "drop" => LoopRule::Drop, "repair" => LoopRule::Repair }, -,
            "Handling of packets that go the wrong way: forwarded (2.7), dropped (3.0), or dropped with ranks sent anew (3.x).";
        dio_interval_min: "rpl.dio_interval_min", Time, -,
            "Trickle's shortest interval.";
        dio_doublings: "rpl.dio_doublings", Whole(0, 30), -,
            "How often it doubles.";
        dio_redundancy: "rpl.dio_redundancy", Whole(0, 255), -,
            "Trickle's redundancy constant.";
        dis_first: "rpl.dis_first", Span, -,
            "When a node that has not joined solicits first.";
        dis_interval: "rpl.dis_interval", Time, -,
            "Time between further solicitations.";
        dao_delay: "rpl.dao_delay", Span, -,
            "Delay of DAOs.";
        neighbours_max: "rpl.neighbours_max", Whole(1, 4_096), -,
            "Neighbours that a node may know.";
        root_neighbours_max: "rpl.root_neighbours_max", Whole(1, 4_096), -,
            "Neighbours that the root may know; by default `rpl.neighbours_max`.";
        routes_max: "rpl.routes_max", Whole(1, 4_096), -,
            "Routes that a node may keep, in storing mode.";
        root_routes_max: "rpl.root_routes_max", Whole(1, 4_096), -,
            "Routes that the root may keep; by default `rpl.routes_max`.";
        _: "rpl.no_route_buffer", Whole(0, NO_ROUTE_MAX as u64), "0",
            "Packets that wait at a node for a route; with 0 they are dropped at once.";
    }
}

pub(super) fn routing(cell: &Cell) -> Result<Routing, ScenarioError> {
    Ok(match cell.text("rpl.routing")? {
        "static" => Routing::Static(cell.get("rpl.settled_after")?),
        _ => Routing::Rpl,
    })
}

pub(super) fn of(cell: &Cell) -> Result<RplSpec, ScenarioError> {
    let mut spec = cell.fields_over(match cell.text("rpl.version")? {
        "contiki30" => RplSpec::contiki30(),
        "contiki3x" => RplSpec::contiki3x(),
        _ => RplSpec::default(),
    })?;
    spec.no_route = match cell.get("rpl.no_route_buffer")? {
        0 => NoRoute::Drop,
        packets => NoRoute::Buffer(packets),
    };
    for (path, field) in [
        ("rpl.initial_etx", &mut spec.initial_etx),
        ("rpl.etx_no_ack", &mut spec.etx_no_ack),
        ("rpl.hysteresis", &mut spec.hysteresis),
    ] {
        *field = cell.if_set(path, hundredths)?.unwrap_or(*field);
    }
    for (path, field) in [
        ("rpl.etx_alpha", &mut spec.etx_alpha),
        ("rpl.etx_alpha_fresh", &mut spec.etx_alpha_fresh),
    ] {
        let ppm: Option<u32> = cell.if_set(path, Cell::get)?;
        *field = ppm.map_or(*field, |ppm| (ppm / 10_000) as u8);
    }
    if let Some(most) = cell.if_set("rpl.max_link_metric", hundredths)? {
        spec.max_link_metric = (most > 0).then_some(most);
    }
    if let Some(span) = cell.if_set("rpl.probing", Cell::get)? {
        spec.probing = (span != Span::default()).then_some(span);
    }
    Ok(spec)
}

/// A number in hundredths, at most 655.35.
fn hundredths(cell: &Cell, path: &str) -> Result<u16, ScenarioError> {
    let number: Ratio = cell.get(path)?;
    u16::try_from(number.of(100)).map_err(|_| {
        let why = format!("{path} = \"{number}\": expected at most 655");
        impossible(cell.place(path), why)
    })
}
