//! The radio of nodes.

use carob_cc::ratio::Ratio;
use carob_sim::mesh::spec::{Boundary, CaptureRule, CcaRange, Delivery, Interference, RadioSpec};
use carob_sim::random::Probability;

use super::{SWITCH, links};
use crate::scenario::cell::Cell;
use crate::scenario::error::ScenarioError;
use crate::scenario::impossible;

keys! {
    /// Keys of the radio.
    pub(in crate::scenario) KEYS;

    RadioSpec {
        _: "radio.link", Word(&["ideal", "lossy", "nomacretx"]), "ideal",
            "Shorthand for links: all frames arrive; each transmission draws its delivery ratio (`radio.ratios`); or all arrive, and MACs neither acknowledge nor repeat. `radio.delivery` and `mac.acknowledged` go over it.";
        _: "radio.delivery", Word(&["perfect", "fixed", "drawn", "by-distance", "table"]), -,
            "How likely frames arrive where nothing else is on the air: always; with `radio.ratio`; with a ratio drawn for each transmission from `radio.ratios`; 1 - (d/R)^2 (1 - `radio.ratio`) at distance d of range R; or by the table of a look-alike or of measured links, which have no other.";
        _: "radio.ratio", Percent, "90 %",
            "Delivery ratio of `fixed`, and at the range of `by-distance`.";
        _: "radio.ratios", Text, "75:0 80:2.72 85:17.92 90:47.52 95:81.84 100:100",
            "Distribution of `drawn` ratios: points `ratio:share at most that`, both in per cent, linear between them. The default has a mean of 90 %.";
        range_mm: "radio.range", Length, "10 m",
            "Transmission range; a node at it receives.";
        interference_mm: "radio.interference_range", Length, "20 m",
            "Interference range.";
        boundary: "radio.boundary", Word { "strict" => Boundary::Strict, "inclusive" => Boundary::Inclusive }, "strict",
            "Whether a node exactly at the interference range is out of it, or within.";
        cca_range: "radio.cca", Word { "interference" => CcaRange::Interference, "transmission" => CcaRange::Transmission, "nothing" => CcaRange::Nothing }, "interference",
            "Transmissions that a clear channel assessment notices: those of nodes in that range, or none.";
        sfd_sense: "radio.sfd_sense", Word(SWITCH), "on",
            "Whether a node also holds back while it receives a frame.";
        cca_delay: "radio.cca_delay", Time, "112 us",
            "How long a transmission goes unnoticed by others' assessments.";
        cca_window: "radio.cca_window", Time, "0 us",
            "How long others' assessments still notice a transmission after its end; 128 us in IEEE 802.15.4, whose assessments take so long.";
        turnaround: "radio.turnaround", Time, "224 us",
            "Time between the decision to send and the first bit.";
        ack_turnaround: "radio.ack_turnaround", Time, "256 us",
            "Time between a frame and its acknowledgement.";
        clear_on_first_end: "radio.clear_on_first_end", Word(SWITCH), "on",
            "Cooja's quirk: after the first end of overlapping frames a receiver is clean, though others are on the air.";
        _: "radio.capture", Word(&["off", "threshold", "ieee802154", "ns3"]), "off",
            "Whether a frame that a node is receiving survives others that overlap it: never; if it is stronger than the sum of the others by `radio.capture_threshold`; or by the bit error ratio of IEEE 802.15.4-2006, E.4.1.8 (`ns3`: without signals that end during the frame, as ns-3 has it). Powers are by distance (exponent 3), or by the delivery ratio of a table.";
        _: "radio.capture_threshold", Decibels, "3 dB",
            "Least ratio of a frame's power to the sum of the others with `radio.capture = \"threshold\"`; the data sheet of the CC2420 has 3 dB.";
    }

    Interference {
        _: "radio.noise", Word(SWITCH), "off",
            "Noise from outside, such as Wi-Fi, which in each region of the topology comes and goes by itself.";
        on: "radio.noise_on", Time, "10 s",
            "Mean time that noise stays, exponentially distributed.";
        off: "radio.noise_off", Time, "60 s",
            "Mean time without it.";
        loss: "radio.noise_loss", Percent, "50 %",
            "Frames lost at nodes in a noisy region.";
        busy: "radio.noise_busy", Percent, "50 %",
            "Clear channel assessments there that find it busy.";
        runs: "radio.noise_runs", Percent, "100 %",
            "Share of runs with noise; the others have none.";
    }
}

pub(super) fn of(cell: &Cell) -> Result<RadioSpec, ScenarioError> {
    Ok(RadioSpec {
        delivery: delivery(cell)?,
        interference: noise(cell)?,
        capture: match cell.text("radio.capture")? {
            "threshold" => Some(CaptureRule::Threshold(cell.get("radio.capture_threshold")?)),
            "ieee802154" => Some(CaptureRule::Ieee802154),
            "ns3" => Some(CaptureRule::Ns3),
            _ => None,
        },
        ..cell.fields()?
    })
}

fn delivery(cell: &Cell) -> Result<Delivery, ScenarioError> {
    let path = "radio.delivery";
    let topology = cell.text("mesh.topology")?;
    let word = match cell.settings.word(path) {
        Some(word) => word,
        None if links::is_measured(topology) => "table",
        None if cell.text("radio.link")? == "lossy" => "drawn",
        None => "perfect",
    };
    if word != "table" && links::is_measured(topology) {
        let why = format!(
            "{path}: the links of mesh.topology = \"{topology}\" have delivery ratios of their own; leave {path} out"
        );
        return Err(impossible(cell.place(path), why));
    }
    Ok(match word {
        "fixed" => Delivery::Fixed(cell.get("radio.ratio")?),
        "drawn" => Delivery::Drawn(ratios(cell)?),
        "by-distance" => Delivery::ByDistance(cell.get("radio.ratio")?),
        "table" => Delivery::Table,
        _ => Delivery::Perfect,
    })
}

fn noise(cell: &Cell) -> Result<Option<Interference>, ScenarioError> {
    if !cell.get("radio.noise")? {
        return Ok(None);
    }
    let noise: Interference = cell.fields()?;
    for (path, time) in [("radio.noise_on", noise.on), ("radio.noise_off", noise.off)] {
        if time.is_zero() {
            let why = format!("{path} is 0; noise comes and goes in some time");
            return Err(impossible(cell.place(path), why));
        }
    }
    Ok(Some(noise))
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
