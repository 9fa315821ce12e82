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

/// Neighbours that the standard's MAC may have frames for: it has one queue for all.
const ANY_NEIGHBOURS: u16 = 1_024;
/// Ticks of a mote's clock in a second.
const TICKS_PER_SECOND: u128 = 128;
/// The largest unit of back-off in ticks: a channel check rate of one a second.
const BACKOFF_UNIT_MAX: u16 = 128;

/// Puts the values of keys that are set into fields.
macro_rules! put {
    ($cell:ident, $spec:ident { $($path:literal: $get:ident $(as $of:ty)? => $field:ident;)+ }) => {
        $(if let Some(value) = $cell.if_set($path, Cell::$get)? {
            $spec.$field = value $(as $of)?;
        })+
    };
}

pub(super) fn radio(cell: &Cell) -> Result<RadioSpec, ScenarioError> {
    Ok(RadioSpec {
        range_mm: cell.millimetres("radio.range")?,
        interference_mm: cell.millimetres("radio.interference_range")?,
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
            "threshold" => Some(CaptureRule::Threshold(
                cell.centibels("radio.capture_threshold")?,
            )),
            "ieee802154" => Some(CaptureRule::Ieee802154),
            "ns3" => Some(CaptureRule::Ns3),
            _ => None,
        },
    })
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
        "fixed" => Delivery::Fixed(cell.share("radio.ratio")?),
        "drawn" => Delivery::Drawn(ratios(cell)?),
        "by-distance" => Delivery::ByDistance(cell.share("radio.ratio")?),
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
        loss: cell.share("radio.noise_loss")?,
        busy: cell.share("radio.noise_busy")?,
        runs: cell.share("radio.noise_runs")?,
    }))
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
    put!(cell, spec {
        "mac.acknowledged": is_on => acknowledged;
        "mac.transmissions_max": whole as u8 => transmissions_max;
        "mac.neighbours_max": whole as u16 => neighbours_max;
        "mac.frames_per_neighbour": whole as u16 => frames_per_neighbour;
        "mac.ack_wait": time => ack_wait;
    });
    spec.root_buffers = cell
        .if_set("mac.root_buffers", Cell::whole)?
        .map(|n| n as u16);
    spec.backoff_unit = backoff_unit(cell)?;
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
    put!(cell, spec {
        "lowpan.frame": bytes as u16 => mac_bytes_max;
        "lowpan.reassembly_timeout": time => reassembly_timeout;
        "lowpan.reassembly_blocks": is_on => reassembly_blocks;
        "lowpan.datagram": bytes as u16 => datagram_max;
    });
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
    spec.mode = match word(cell, "rpl.mode")? {
        Some("non-storing") => RplMode::NonStoring,
        Some(_) => RplMode::Storing,
        None => spec.mode,
    };
    spec.rank_rule = match word(cell, "rpl.rank_rule")? {
        Some("sum") => RankRule::Sum,
        Some(_) => RankRule::AtLeastOneHop,
        None => spec.rank_rule,
    };
    spec.loops = match word(cell, "rpl.loops")? {
        Some("drop") => LoopRule::Drop,
        Some("repair") => LoopRule::Repair,
        Some(_) => LoopRule::Forward,
        None => spec.loops,
    };
    numbers(cell, &mut spec)?;
    Ok(spec)
}

/// Numbers and times of RPL.
fn numbers(cell: &Cell, spec: &mut RplSpec) -> Result<(), ScenarioError> {
    put!(cell, spec {
        "rpl.etx_divisor": whole as u16 => etx_divisor;
        "rpl.min_hop_rank_increase": whole as u16 => min_hop_rank_increase;
        "rpl.max_rank_increase": whole as u16 => max_rank_increase;
        "rpl.forgets_lowest_rank": is_on => forgets_lowest_rank;
        "rpl.neighbours_max": whole as u16 => neighbours_max;
        "rpl.routes_max": whole as u16 => routes_max;
        "rpl.route_lifetime": time_or_none => route_lifetime;
        "rpl.dao_moves_routes": is_on => dao_moves_routes;
        "rpl.no_path_delay": time => no_path_delay;
        "rpl.dio_interval_min": time => dio_interval_min;
        "rpl.dio_doublings": whole as u8 => dio_doublings;
        "rpl.dio_redundancy": whole as u8 => dio_redundancy;
        "rpl.dis_first": span => dis_first;
        "rpl.dis_interval": time => dis_interval;
        "rpl.dao_delay": span => dao_delay;
    });
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
        let ppm = cell.if_set(path, Cell::ppm)?;
        *field = ppm.map_or(*field, |ppm| (ppm / 10_000) as u8);
    }
    if let Some(most) = cell.if_set("rpl.max_link_metric", hundredths)? {
        spec.max_link_metric = (most > 0).then_some(most);
    }
    if let Some(span) = cell.if_set("rpl.probing", Cell::span)? {
        spec.probing = (span != Span::default()).then_some(span);
    }
    for (path, field) in [
        ("rpl.root_neighbours_max", &mut spec.root_neighbours_max),
        ("rpl.root_routes_max", &mut spec.root_routes_max),
    ] {
        let number = cell.if_set(path, Cell::whole)?;
        *field = number.map(|n| n as u16).or(*field);
    }
    Ok(())
}

/// The word of a key, if it is set.
fn word<'a>(cell: &'a Cell, path: &str) -> Result<Option<&'a str>, ScenarioError> {
    cell.has(path).then(|| cell.text(path)).transpose()
}

/// A number in hundredths, at most 655.35.
fn hundredths(cell: &Cell, path: &str) -> Result<u16, ScenarioError> {
    let number = cell.number(path)?;
    u16::try_from(number.of(100)).map_err(|_| {
        let why = format!("{path} = \"{number}\": expected at most 655");
        impossible(cell.place(path), why)
    })
}
