//! Radio, MAC, 6LoWPAN and RPL: the values of a version of Contiki, overridden by single keys.

use carob_cc::ratio::Ratio;
use carob_cc::time::Duration;
use carob_sim::mesh::spec::{
    Boundary, CaptureRule, CcaRange, Csma, Delivery, Interference, LoopRule, LowpanSpec, MacSpec,
    NoRoute, Objective, RadioSpec, RankRule, RplMode, RplSpec, Spacing,
};
use carob_sim::random::Probability;
use carob_sim::spec::Span;

use super::links;
use crate::scenario::cell::Cell;
use crate::scenario::error::ScenarioError;
use crate::scenario::impossible;
use crate::scenario::value::Value;

/// Neighbours that the standard's MAC may have frames for: it has one queue for all.
const ANY_NEIGHBOURS: u16 = 1_024;
/// Ticks of a mote's clock in a second.
const TICKS_PER_SECOND: u128 = 128;
/// The largest unit of back-off in ticks: a channel check rate of one a second.
const BACKOFF_UNIT_MAX: u16 = 128;

pub(super) fn radio(cell: &Cell) -> Result<RadioSpec, ScenarioError> {
    let length = |path: &str| match cell.value_of(path)? {
        Value::Length(millimetres) => Ok(*millimetres),
        _ => Err(cell.wrong_kind(path)),
    };
    Ok(RadioSpec {
        range_mm: length("radio.range")?,
        interference_mm: length("radio.interference_range")?,
        boundary: match cell.text("radio.boundary")? {
            "inclusive" => Boundary::Inclusive,
            _ => Boundary::Strict,
        },
        cca_range: match cell.text("radio.cca")? {
            "transmission" => CcaRange::Transmission,
            "nothing" => CcaRange::Nothing,
            _ => CcaRange::Interference,
        },
        sfd_sense: cell.is_on("radio.sfd_sense")?,
        cca_delay: cell.time("radio.cca_delay")?,
        cca_window: cell.time("radio.cca_window")?,
        turnaround: cell.time("radio.turnaround")?,
        ack_turnaround: cell.time("radio.ack_turnaround")?,
        delivery: delivery(cell)?,
        clear_on_first_end: cell.is_on("radio.clear_on_first_end")?,
        interference: noise(cell)?,
        capture: match cell.text("radio.capture")? {
            "threshold" => Some(CaptureRule::Threshold(threshold(cell)?)),
            "ieee802154" => Some(CaptureRule::Ieee802154),
            "ns3" => Some(CaptureRule::Ns3),
            _ => None,
        },
    })
}

fn threshold(cell: &Cell) -> Result<u32, ScenarioError> {
    let path = "radio.capture_threshold";
    match cell.value_of(path)? {
        Value::Decibels(hundredths) => Ok(*hundredths),
        _ => Err(cell.wrong_kind(path)),
    }
}

fn delivery(cell: &Cell) -> Result<Delivery, ScenarioError> {
    let path = "radio.delivery";
    let word = match cell.if_set(path, |cell, path| cell.text(path).map(str::to_owned))? {
        Some(word) => word,
        None if links::is_measured(cell.text("mesh.topology")?) => "table".to_owned(),
        None if cell.text("radio.link")? == "lossy" => "drawn".to_owned(),
        None => "perfect".to_owned(),
    };
    let topology = cell.text("mesh.topology")?;
    if word != "table" && links::is_measured(topology) {
        let why = format!(
            "{path}: the links of mesh.topology = \"{topology}\" have delivery ratios of their own; leave {path} out"
        );
        return Err(impossible(cell.place(path), why));
    }
    Ok(match word.as_str() {
        "fixed" => Delivery::Fixed(share(cell, "radio.ratio")?),
        "drawn" => Delivery::Drawn(ratios(cell)?),
        "by-distance" => Delivery::ByDistance(share(cell, "radio.ratio")?),
        "table" => Delivery::Table,
        _ => Delivery::Perfect,
    })
}

fn noise(cell: &Cell) -> Result<Option<Interference>, ScenarioError> {
    if !cell.is_on("radio.noise")? {
        return Ok(None);
    }
    let times = ["radio.noise_on", "radio.noise_off"].map(|path| -> Result<_, ScenarioError> {
        let time = cell.time(path)?;
        if time.is_zero() {
            let why = format!("{path} is 0; noise comes and goes in some time");
            return Err(impossible(cell.place(path), why));
        }
        Ok(time)
    });
    let [on, off] = times;
    Ok(Some(Interference {
        on: on?,
        off: off?,
        loss: share(cell, "radio.noise_loss")?,
        busy: share(cell, "radio.noise_busy")?,
        runs: share(cell, "radio.noise_runs")?,
    }))
}

pub(super) fn share(cell: &Cell, path: &str) -> Result<Probability, ScenarioError> {
    match cell.value_of(path)? {
        Value::Percent(ppm) => Ok(Probability::ppm(*ppm)),
        _ => Err(cell.wrong_kind(path)),
    }
}

/// The points of `radio.ratios`.
fn ratios(cell: &Cell) -> Result<Vec<(Probability, Probability)>, ScenarioError> {
    let path = "radio.ratios";
    let text = cell.text(path)?;
    points(text).ok_or_else(|| {
        let why = format!(
            "{path} = \"{text}\": expected points `ratio:share` in per cent, both rising, the shares from 0 to 100, as in \"75:0 100:100\""
        );
        impossible(cell.place(path), why)
    })
}

/// Points of a distribution, from a share of 0 to one of 100 %, both rising.
pub(super) fn points(text: &str) -> Option<Vec<(Probability, Probability)>> {
    let percent = |text: &str| -> Option<u32> {
        let ppm = text.parse::<Ratio>().ok()?.of(10_000);
        u32::try_from(ppm).ok().filter(|ppm| *ppm <= 1_000_000)
    };
    let written = text.split([' ', ',']).filter(|point| !point.is_empty());
    let points: Option<Vec<(u32, u32)>> = written
        .map(|point| {
            let (ratio, share) = point.split_once(':')?;
            Some((percent(ratio)?, percent(share)?))
        })
        .collect();
    let points = points?;
    let mut pairs = points.windows(2);
    let rise = pairs.all(|two| two[0].0 < two[1].0 && two[0].1 <= two[1].1);
    let whole = matches!(points[..], [(_, 0), .., (_, 1_000_000)]);
    let both = |(ratio, share): (u32, u32)| (Probability::ppm(ratio), Probability::ppm(share));
    (rise && whole).then(|| points.into_iter().map(both).collect())
}

pub(super) fn mac(cell: &Cell) -> Result<MacSpec, ScenarioError> {
    let csma = match cell.text("mac.csma")? {
        "contiki30" => Csma::Contiki30,
        "contiki3x" => Csma::Contiki3x,
        "ieee802154" => Csma::Ieee802154,
        _ => Csma::Contiki27,
    };
    let buffers = cell.whole("mac.buffers")? as u16;
    let mut spec = MacSpec {
        csma,
        acknowledged: cell.text("radio.link")? != "nomacretx",
        buffers,
        frames_per_neighbour: buffers,
        duplicates_remembered: cell.whole("mac.duplicates_remembered")? as u8,
        ..MacSpec::default()
    };
    match csma {
        Csma::Contiki27 | Csma::Contiki30 => {}
        Csma::Contiki3x => spec.transmissions_max = 8,
        Csma::Ieee802154 => {
            spec.neighbours_max = ANY_NEIGHBOURS;
            spec.ack_wait = Duration::from_micros(864);
        }
    }
    put(cell, "mac.acknowledged", Cell::is_on, |on| {
        spec.acknowledged = on;
    })?;
    put(cell, "mac.transmissions_max", Cell::whole, |n| {
        spec.transmissions_max = n as u8;
    })?;
    put(cell, "mac.neighbours_max", Cell::whole, |n| {
        spec.neighbours_max = n as u16;
    })?;
    put(cell, "mac.root_buffers", Cell::whole, |n| {
        spec.root_buffers = Some(n as u16);
    })?;
    spec.backoff_unit = backoff_unit(cell)?;
    put(cell, "mac.frames_per_neighbour", Cell::whole, |n| {
        spec.frames_per_neighbour = n as u16;
    })?;
    put(cell, "mac.ack_wait", Cell::time, |t| spec.ack_wait = t)?;
    spec.spacing = match cell.text("mac.spacing")? {
        "after-success" => Spacing::AfterSuccess,
        _ => Spacing::AfterAll,
    };
    Ok(spec)
}

/// The unit of Contiki's back-off in ticks.
fn backoff_unit(cell: &Cell) -> Result<u16, ScenarioError> {
    let path = "mac.backoff_unit";
    let time = cell.time(path)?;
    let ticks = (u128::from(time.as_micros()) * TICKS_PER_SECOND + 500_000) / 1_000_000;
    let ticks = u16::try_from(ticks).unwrap_or(u16::MAX);
    if !(1..=BACKOFF_UNIT_MAX).contains(&ticks) {
        let why = format!("{path} = \"{time}\": expected a time from 1/128 s to 1 s");
        return Err(impossible(cell.place(path), why));
    }
    Ok(ticks)
}

pub(super) fn lowpan(cell: &Cell) -> Result<LowpanSpec, ScenarioError> {
    let mut spec = match cell.text("lowpan.version")? {
        "contiki27" => LowpanSpec::default(),
        // 3.0 and later: larger frames, and reassembly for MAXAGE (8 s) by the second.
        _ => LowpanSpec {
            mac_bytes_max: 125,
            reassembly_timeout: Duration::from_secs(8),
            reassembly_blocks: false,
            datagram_max: 1_280,
            ..LowpanSpec::default()
        },
    };
    spec.rpl_option = cell.is_on("lowpan.rpl_option")?;
    put(cell, "lowpan.frame", Cell::bytes, |n| {
        spec.mac_bytes_max = n as u16;
    })?;
    put(cell, "lowpan.reassembly_timeout", Cell::time, |t| {
        spec.reassembly_timeout = t;
    })?;
    put(cell, "lowpan.reassembly_blocks", Cell::is_on, |on| {
        spec.reassembly_blocks = on;
    })?;
    put(cell, "lowpan.datagram", Cell::bytes, |n| {
        spec.datagram_max = n as u16;
    })?;
    Ok(spec)
}

pub(super) fn rpl(cell: &Cell) -> Result<RplSpec, ScenarioError> {
    let mut spec = match cell.text("rpl.version")? {
        "contiki30" => RplSpec::contiki30(),
        "contiki3x" => RplSpec::contiki3x(),
        _ => RplSpec::default(),
    };
    spec.objective = match cell.text("rpl.objective")? {
        "of0" => Objective::Of0,
        _ => Objective::Mrhof,
    };
    spec.no_route = match cell.whole("rpl.no_route_buffer")? {
        0 => NoRoute::Drop,
        packets => NoRoute::Buffer(packets as u16),
    };
    put(cell, "rpl.mode", word, |mode| {
        spec.mode = match mode.as_str() {
            "non-storing" => RplMode::NonStoring,
            _ => RplMode::Storing,
        };
    })?;
    put(cell, "rpl.rank_rule", word, |rule| {
        spec.rank_rule = match rule.as_str() {
            "sum" => RankRule::Sum,
            _ => RankRule::AtLeastOneHop,
        };
    })?;
    ranks(cell, &mut spec)?;
    timers(cell, &mut spec)?;
    Ok(spec)
}

/// Sets the computation of ranks.
fn ranks(cell: &Cell, spec: &mut RplSpec) -> Result<(), ScenarioError> {
    put(cell, "rpl.etx_divisor", Cell::whole, |n| {
        spec.etx_divisor = n as u16;
    })?;
    put(cell, "rpl.min_hop_rank_increase", Cell::whole, |n| {
        spec.min_hop_rank_increase = n as u16;
    })?;
    put(cell, "rpl.initial_etx", hundredths, |n| {
        spec.initial_etx = n;
    })?;
    put(cell, "rpl.etx_alpha", percent, |n| spec.etx_alpha = n)?;
    put(cell, "rpl.etx_alpha_fresh", percent, |n| {
        spec.etx_alpha_fresh = n;
    })?;
    put(cell, "rpl.etx_no_ack", hundredths, |n| spec.etx_no_ack = n)?;
    put(cell, "rpl.max_link_metric", hundredths, |n| {
        spec.max_link_metric = (n > 0).then_some(n);
    })?;
    put(cell, "rpl.hysteresis", hundredths, |n| spec.hysteresis = n)?;
    put(cell, "rpl.max_rank_increase", Cell::whole, |n| {
        spec.max_rank_increase = n as u16;
    })?;
    put(cell, "rpl.forgets_lowest_rank", Cell::is_on, |on| {
        spec.forgets_lowest_rank = on;
    })?;
    put(cell, "rpl.neighbours_max", Cell::whole, |n| {
        spec.neighbours_max = n as u16;
    })?;
    put(cell, "rpl.root_neighbours_max", Cell::whole, |n| {
        spec.root_neighbours_max = Some(n as u16);
    })?;
    put(cell, "rpl.routes_max", Cell::whole, |n| {
        spec.routes_max = n as u16;
    })?;
    put(cell, "rpl.root_routes_max", Cell::whole, |n| {
        spec.root_routes_max = Some(n as u16);
    })
}

/// Times and lifetimes of RPL's messages.
fn timers(cell: &Cell, spec: &mut RplSpec) -> Result<(), ScenarioError> {
    put(cell, "rpl.probing", Cell::span, |span| {
        spec.probing = (span != Span::default()).then_some(span);
    })?;
    let lifetime = |cell: &Cell, path: &str| match cell.value_of(path)? {
        Value::Time(time) => Ok(*time),
        _ => Err(cell.wrong_kind(path)),
    };
    put(cell, "rpl.route_lifetime", lifetime, |t| {
        spec.route_lifetime = t;
    })?;
    put(cell, "rpl.dao_moves_routes", Cell::is_on, |on| {
        spec.dao_moves_routes = on;
    })?;
    put(cell, "rpl.no_path_delay", Cell::time, |t| {
        spec.no_path_delay = t;
    })?;
    put(cell, "rpl.loops", word, |word| {
        spec.loops = match word.as_str() {
            "drop" => LoopRule::Drop,
            "repair" => LoopRule::Repair,
            _ => LoopRule::Forward,
        };
    })?;
    put(cell, "rpl.dio_interval_min", Cell::time, |t| {
        spec.dio_interval_min = t;
    })?;
    put(cell, "rpl.dio_doublings", Cell::whole, |n| {
        spec.dio_doublings = n as u8;
    })?;
    put(cell, "rpl.dio_redundancy", Cell::whole, |n| {
        spec.dio_redundancy = n as u8;
    })?;
    put(cell, "rpl.dis_first", Cell::span, |span| {
        spec.dis_first = span;
    })?;
    put(cell, "rpl.dis_interval", Cell::time, |t| {
        spec.dis_interval = t;
    })?;
    put(cell, "rpl.dao_delay", Cell::span, |span| {
        spec.dao_delay = span;
    })
}

/// Puts the value of a key into its field, if it is set.
fn put<T>(
    cell: &Cell,
    path: &str,
    get: impl Fn(&Cell, &str) -> Result<T, ScenarioError>,
    into: impl FnOnce(T),
) -> Result<(), ScenarioError> {
    if let Some(value) = cell.if_set(path, get)? {
        into(value);
    }
    Ok(())
}

fn word(cell: &Cell, path: &str) -> Result<String, ScenarioError> {
    cell.text(path).map(str::to_owned)
}

/// A number in hundredths, at most 655.35.
fn hundredths(cell: &Cell, path: &str) -> Result<u16, ScenarioError> {
    match cell.value_of(path)? {
        Value::Number(number) => u16::try_from(number.of(100)).map_err(|_| {
            let why = format!("{path} = \"{number}\": expected at most 655");
            impossible(cell.place(path), why)
        }),
        _ => Err(cell.wrong_kind(path)),
    }
}

/// A share in whole hundredths.
fn percent(cell: &Cell, path: &str) -> Result<u8, ScenarioError> {
    match cell.value_of(path)? {
        Value::Percent(ppm) => Ok((ppm / 10_000) as u8),
        _ => Err(cell.wrong_kind(path)),
    }
}
