//! The link of a cell: rates, delays, buffers and losses, from keys of the `link` table.

use carob_cc::ratio::Ratio;
use carob_cc::time::Duration;
use carob_sim::distribution::TimeDistribution;
use carob_sim::link::{self, Buffer, DirectionSpec, ExtraDelay, LinkSpec, LossProfile, LossSpec};
use carob_sim::random::Probability;
use carob_sim::spec::LinkNetworkSpec;

use super::cell::Cell;
use super::error::ScenarioError;
use super::value::Value;
use super::{device, impairments, impossible, path_changes, trace};

keys! {
    /// Keys of the link.
    pub(super) KEYS;

    "link.mtu", Bytes(68, 65_535), "1280 B",
        "Largest packet, headers included; a larger one crosses in fragments, as IPv4 makes them.";
    "link.header", Bytes(0, 128), "28 B",
        "IP and UDP headers each datagram adds on the link.";
    "link.buffer", Buffer, "inf",
        "Bottleneck buffer of each direction, headers and the packet in service included.";
    "link.extra_delay", Distribution, "0 ms",
        "Delay on top of propagation, in each direction: constant, or drawn for each packet without reordering.";
    "link.error", Word(&["none", "low", "medium", "high"]), "none",
        "Random loss after the bottleneck: 0, 2, 10 or 18 % on average (thesis, Table 5).";
    "link.loss", Percent, "0 %",
        "Random loss after the bottleneck, of each packet by itself unless `link.loss_burst` says otherwise. It needs `link.error` = `none`; set on the command line, it replaces a class that the scenario does not sweep.";
    "link.loss_burst", Number, "1",
        "Mean length of a run of losses in packets, with `link.loss`: above 1, packets are lost in a state of that mean length, and only in it (Gilbert's model).";
    "link.loss_burst_time", Time, -,
        "The same in time, in place of `link.loss_burst`: the state lasts so long on average, whatever is sent meanwhile. Traffic with pauses meets runs of losses in packets for minutes, which a fading channel does not have.";
    "link.error_directions", Word(&["both", "down", "up"]), "both",
        "Directions with random loss, bit errors, corruption, reordering and duplication.";
    "link.error_clock", Word(&["packet", "time"]), "packet",
        "What moves the two-state chain of medium and high error: packets, or time.";
    "link.error_burst_packets", Number, "1.4",
        "Mean length of the error state in packets, with the packet clock.";
    "link.error_burst_time", Time, "100 ms",
        "Mean length of the error state, with the time clock.";
    "link.error_states", Word(&["own", "shared"]), "own",
        "With the time clock: whether each direction has a chain of its own, or both have one and so their error states together.";
    "link.error_fraction", Percent, -,
        "Share of the error state; by default 20 % (medium) or 20.5 % (high).";
    "link.delay_of", Word(&["direction", "round-trip"]), "direction",
        "What `link.down.delay` and `link.up.delay` are: the delay of that direction, or of both together, half of it each way.";
    "link.down.rate", Rate, -,
        "Rate towards the constrained side, where the clients are, or with `notifications` the server; must be set.";
    "link.down.delay", Time, "0 s",
        "Propagation delay towards the constrained side.";
    "link.down.buffer", Buffer, -,
        "Overrides `link.buffer` towards the constrained side.";
    "link.down.extra_delay", Distribution, -,
        "Overrides `link.extra_delay` towards the constrained side.";
    "link.down.loss", Percent, -,
        "Overrides `link.loss` towards the constrained side, whatever `link.error_directions` says.";
    "link.up.rate", Rate, -,
        "Rate from the constrained side; must be set.";
    "link.up.delay", Time, "0 s",
        "Propagation delay from the constrained side.";
    "link.up.buffer", Buffer, -,
        "Overrides `link.buffer` from the constrained side.";
    "link.up.extra_delay", Distribution, -,
        "Overrides `link.extra_delay` from the constrained side.";
    "link.up.loss", Percent, -,
        "Overrides `link.loss` from the constrained side, whatever `link.error_directions` says.";
}

pub(super) fn of(cell: &Cell) -> Result<LinkNetworkSpec, ScenarioError> {
    let mtu = cell.get("link.mtu")?;
    Ok(LinkNetworkSpec {
        link: LinkSpec {
            down: direction(cell, "down", mtu)?,
            up: direction(cell, "up", mtu)?,
        },
        header_bytes: cell.get("link.header")?,
        mtu_bytes: mtu as u32,
        device: device::of(cell)?,
    })
}

fn direction(cell: &Cell, name: &str, mtu: u64) -> Result<DirectionSpec, ScenarioError> {
    let rate_path = format!("link.{name}.rate");
    let trace = cell.traces.get(name);
    let of_trace = trace.and_then(|trace| trace.mean_rate_bps());
    let rate_bps = match (of_trace, cell.settings.get(&rate_path)) {
        (Some(mean), None) => mean,
        _ => own_rate(cell, &rate_path)?,
    };
    let path = &own_or_shared(cell, name, "buffer");
    let buffer = match *cell.value_of(path)? {
        Value::Packets(packets) => Buffer::packets(packets),
        _ => Buffer::bytes(cell.get(path)?),
    };
    if buffer.bytes < mtu {
        let bytes = buffer.bytes;
        let why = format!("{path} is {bytes} B, too small for a packet of link.mtu ({mtu} B)");
        return Err(impossible(cell.place(path), why));
    }
    let extra: TimeDistribution = cell.get(&own_or_shared(cell, name, "extra_delay"))?;
    let directions = cell.text("link.error_directions")?;
    let lossy = directions == "both" || directions == name;
    Ok(DirectionSpec {
        rate_bps,
        buffer: buffer.with(cell.discipline(mtu, rate_bps)?),
        delay: delay(cell, name)?,
        extra: match extra {
            TimeDistribution::Uniform { low, high } if low == high => ExtraDelay::Constant(low),
            TimeDistribution::Uniform { low, high } => ExtraDelay::Uniform { low, high },
            drawn => ExtraDelay::Drawn(drawn),
        },
        loss: loss_of(cell, name, lossy)?,
        replay: trace::replay(cell, name)?,
        changes: path_changes::of(cell, name)?,
        impairments: impairments::of(cell, lossy, mtu)?,
    })
}

/// A key of a direction, or that of both directions if it is not set.
fn own_or_shared(cell: &Cell, direction: &str, key: &str) -> String {
    let own = format!("link.{direction}.{key}");
    if cell.has(&own) {
        own
    } else {
        format!("link.{key}")
    }
}

pub(super) fn own_rate(cell: &Cell, path: &str) -> Result<u64, ScenarioError> {
    let bps = cell.get(path)?;
    if bps == 0 {
        let why = format!("{path} is 0, so nothing would ever arrive");
        return Err(impossible(cell.place(path), why));
    }
    Ok(bps)
}

fn delay(cell: &Cell, name: &str) -> Result<Duration, ScenarioError> {
    let delay: Duration = cell.get(&format!("link.{name}.delay"))?;
    Ok(match cell.text("link.delay_of")? {
        "round-trip" => delay.half(),
        _ => delay,
    })
}

/// The loss of a direction, or of both if it is lossy.
fn loss_of(cell: &Cell, name: &str, is_lossy: bool) -> Result<LossSpec, ScenarioError> {
    let own = format!("link.{name}.loss");
    if !cell.has(&own) {
        return if is_lossy {
            loss(cell)
        } else {
            Ok(LossSpec::None)
        };
    }
    let error = cell.text("link.error")?;
    match cell.get(&own)? {
        _ if error != "none" => {
            let why = format!(
                "{own} and link.error = \"{error}\" both say what is lost; set error = \"none\""
            );
            Err(impossible(cell.place(&own), why))
        }
        0 => Ok(LossSpec::None),
        ppm => gilbert(cell, ppm),
    }
}

fn loss(cell: &Cell) -> Result<LossSpec, ScenarioError> {
    let path = "link.error";
    match cell.get("link.loss")? {
        0 => {}
        ppm if cell.text(path)? == "none" => return gilbert(cell, ppm),
        _ => {
            let error = cell.text(path)?;
            let why = format!(
                "link.loss and link.error = \"{error}\" both say what is lost; set error = \"none\""
            );
            return Err(impossible(cell.place("link.loss"), why));
        }
    }
    let mut profile: LossProfile =
        *link::profile(cell.text(path)?).ok_or_else(|| cell.wrong_kind(path))?;
    if profile.error_fraction_ppm > 0
        && let Ok(Value::Percent(ppm)) = cell.value_of("link.error_fraction")
    {
        profile.error_fraction_ppm = *ppm;
    }
    let (loss, path) = if cell.text("link.error_clock")? == "time" {
        let path = "link.error_burst_time";
        let shared = cell.text("link.error_states")? == "shared";
        (profile.per_time(cell.get(path)?, shared), path)
    } else {
        let path = "link.error_burst_packets";
        let milli = u32::try_from(cell.get::<Ratio>(path)?.of(1_000)).unwrap_or(u32::MAX);
        (profile.per_packet(milli), path)
    };
    loss.check().map_err(|why| {
        let fraction = cell.settings.get("link.error_fraction");
        let value = cell.setting(path).unwrap_or_default();
        let share = fraction.map_or(String::new(), |f| format!(", error_fraction {}", f.value));
        let place = fraction.map_or_else(|| cell.place(path), |f| &f.place);
        impossible(place, format!("{path} {value}{share}: {why}"))
    })?;
    Ok(loss)
}

/// Losses of a share of packets, in runs of a mean length (E. N. Gilbert, 1960, with a bad state
/// that loses all and a good one that loses nothing).
fn gilbert(cell: &Cell, ppm: u32) -> Result<LossSpec, ScenarioError> {
    let mut path = "link.loss_burst";
    let burst_millipackets = u32::try_from(cell.get::<Ratio>(path)?.of(1_000)).unwrap_or(u32::MAX);
    let by_time = "link.loss_burst_time";
    let (ordinary, error) = (Probability::NEVER, Probability::ppm(1_000_000));
    let loss = match cell.if_set(by_time, Cell::get)? {
        Some(_) if burst_millipackets != 1_000 => {
            let why =
                format!("{path} and {by_time} both give the length of a run of losses; set one");
            return Err(impossible(cell.place(by_time), why));
        }
        Some(burst) => {
            path = by_time;
            LossSpec::PerTime {
                burst,
                shared: cell.text("link.error_states")? == "shared",
                error_fraction_ppm: ppm,
                ordinary,
                error,
            }
        }
        None if burst_millipackets == 1_000 => {
            return Ok(LossSpec::Constant(Probability::ppm(ppm)));
        }
        None => LossSpec::PerPacket {
            burst_millipackets,
            error_fraction_ppm: ppm,
            ordinary,
            error,
        },
    };
    loss.check().map_err(|why| {
        let value = cell.setting(path).unwrap_or_default();
        impossible(cell.place(path), format!("{path} {value}: {why}"))
    })?;
    Ok(loss)
}
