//! The MAC of nodes: the values of an implementation, overridden by single keys.

use carob_cc::time::Duration;
use carob_sim::mesh::spec::{Csma, MacSpec, Spacing};

use super::SWITCH;
use crate::scenario::cell::Cell;
use crate::scenario::error::ScenarioError;
use crate::scenario::impossible;

/// Neighbours that the standard's MAC may have frames for: it has one queue for all.
const ANY_NEIGHBOURS: u16 = 1_024;
/// Ticks of a mote's clock in a second.
const TICKS_PER_SECOND: u128 = 128;
/// The largest unit of back-off in ticks: a channel check rate of one a second.
const BACKOFF_UNIT_MAX: u16 = 128;

keys! {
    /// Keys of the MAC.
    pub(in crate::scenario) KEYS;

    MacSpec {
        csma: "mac.csma", Word { "contiki27" => Csma::Contiki27, "contiki30" => Csma::Contiki30, "contiki3x" => Csma::Contiki3x, "ieee802154" => Csma::Ieee802154 }, "contiki27",
            "Whose access to the medium. The keys of `mac` below are by default as it has them.";
        acknowledged: "mac.acknowledged", Word(SWITCH), -,
            "Whether frames to one node are acknowledged, and sent again if not; by default on, but as `radio.link` says.";
        transmissions_max: "mac.transmissions_max", Whole(1, 255), -,
            "Transmissions of a frame, the first included: 4, in Contiki 3.x 8.";
        buffers: "mac.buffers", Whole(1, 1_024), "8",
            "Frames that may wait at a node.";
        root_buffers: "mac.root_buffers", Whole(1, 1_024), -,
            "Frames that may wait at the root; by default `mac.buffers`.";
        _: "mac.backoff_unit", Time, "125 ms",
            "Unit of the back-off of Contiki 2.7 and 3.0, rounded to ticks of 1/128 s, so that 10 ms are 7.8 ms: the period of NETSTACK_RDC_CHANNEL_CHECK_RATE, which is 8 a second by default. Other MACs have a unit of their own.";
        neighbours_max: "mac.neighbours_max", Whole(1, 1_024), -,
            "Neighbours, broadcast being one, for whom frames may wait at once: 2, by the standard 1024.";
        frames_per_neighbour: "mac.frames_per_neighbour", Whole(1, 1_024), -,
            "Frames that may wait for one of them; by default `mac.buffers`.";
        duplicates_remembered: "mac.duplicates_remembered", Whole(0, 255), "8",
            "Frames that a node knows duplicates of.";
        ack_wait: "mac.ack_wait", Time, -,
            "How long an acknowledgement may take to begin: 1041 us, by the standard 864 us.";
        spacing: "mac.spacing", Word { "after-all" => Spacing::AfterAll, "after-success" => Spacing::AfterSuccess }, "after-all",
            "Frames after which the standard's MAC leaves an interframe spacing: all, or those that were not given up (IEEE 802.15.4-2006, 7.5.1.3). Contiki has none.";
    }
}

pub(super) fn of(cell: &Cell) -> Result<MacSpec, ScenarioError> {
    let MacSpec { csma, buffers, .. } = cell.fields()?;
    let mut spec = MacSpec {
        acknowledged: cell.text("radio.link")? != "nomacretx",
        frames_per_neighbour: buffers,
        backoff_unit: backoff_unit(cell)?,
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
    cell.fields_over(spec)
}

/// The unit of Contiki's back-off in ticks.
fn backoff_unit(cell: &Cell) -> Result<u16, ScenarioError> {
    let path = "mac.backoff_unit";
    let time: Duration = cell.get(path)?;
    let ticks = (u128::from(time.as_micros()) * TICKS_PER_SECOND + 500_000) / 1_000_000;
    let ticks = u16::try_from(ticks).unwrap_or(u16::MAX);
    if !(1..=BACKOFF_UNIT_MAX).contains(&ticks) {
        let why = format!("{path} = \"{time}\": expected a time from 1/128 s to 1 s");
        return Err(impossible(cell.place(path), why));
    }
    Ok(ticks)
}
