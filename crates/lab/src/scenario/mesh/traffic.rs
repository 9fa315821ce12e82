//! Traffic of nodes, from the keys of the tables `traffic` and `node`.

use carob_sim::mesh_traffic::{
    BURST_MAX, BurstKind, Bursts, ClientStops, Constant, DelayBins, Gaps, MeshTraffic, Period,
    QUEUE_MAX, Sink,
};
use carob_sim::random::Probability;

use super::SWITCH;
use crate::scenario::cell::Cell;
use crate::scenario::error::ScenarioError;
use crate::scenario::impossible;

keys! {
    /// Keys of nodes' traffic.
    pub(in crate::scenario) KEYS;

    MeshTraffic {
        queue: "node.coap_buffer", Whole(0, QUEUE_MAX as u64), "0",
            "Messages that wait at a node while NSTART are on their way; more are dropped by the application.";
        gives_up_at_last_copy: "node.gives_up_at_last_copy", Word(SWITCH), "off",
            "As in Erbium: an exchange is given up when its last retransmission is sent.";
        _: "traffic.load", Rate, -,
            "What all nodes together make at a constant rate for the primary sink, in bits of `traffic.counted`.";
        _: "traffic.period", Time, -,
            "Instead, time between two messages of a node.";
        _: "traffic.start", Span, -,
            "When nodes begin, after the warm-up, drawn uniformly; without it, in the first period.";
        _: "traffic.gaps", Word(&["fixed", "uniform", "exponential"]), "fixed",
            "Distribution of the time between two messages of a node, whose mean is the period: fixed, uniform (`traffic.gap_spread`) or exponential.";
        _: "traffic.gap_spread", Percent, "100 %",
            "Greatest deviation of `uniform` gaps from the period: with 100 % they are drawn from 0 to twice the period.";
        delay_bins: "traffic.delay_bins", Word { "generation" => DelayBins::Generation, "reception" => DelayBins::Reception }, "generation",
            "Bin of time series in which a message's delay is counted: when it was generated, or when it was received. The settling time after a burst is computed from these bins.";
        _: "traffic.counted", Bytes(1, 1_280), -,
            "Bytes that a message counts in offered and carried load; by default `workload.message`.";
    }

    ClientStops {
        probability: "traffic.stop", Percent, "0 %",
            "Probability that a client stops for good at a response that follows its last one within `traffic.stop_within`; it goes on relaying. An artefact of one testbed.";
        within: "traffic.stop_within", Time, "150 ms",
            "Time between two responses of a client, below which `traffic.stop` applies.";
    }

    Bursts {
        messages: "traffic.burst", Whole(0, BURST_MAX as u64), "0",
            "Messages that each node makes in a burst, all nodes at once; 0 for no bursts.";
        first: "traffic.burst_first", Span, "0 s",
            "When the first burst is, after the warm-up; if a range, drawn for each node, and so of all its bursts.";
        spread: "traffic.burst_spread", Time, "0 s",
            "Time over which each burst is spread: an offset of each node drawn uniformly from it, the same for all of its bursts. Metrics of the time around bursts count from the first possible message.";
        queue: "traffic.burst_buffer", Whole(0, QUEUE_MAX as u64), -,
            "POSTs of bursts that wait at a node while NSTART are on their way; by default `node.coap_buffer`.";
        every: "traffic.burst_every", TimeOrNone, "none",
            "Time between bursts; `none` for one only.";
        to: "traffic.burst_to", Word { "primary" => Sink::Primary, "secondary" => Sink::Secondary }, "primary",
            "The sink of bursts.";
        kind: "traffic.burst_kind", Word { "posts" => BurstKind::Posts, "notifications" => BurstKind::Notifications }, "posts",
            "How bursts are sent: as CON POSTs, or as NON notifications, each of a resource of its own.";
        registers_again: "traffic.registers_again", TimeOrNone, "none",
            "If set, a sink that a node removed from its observers, because a CON notification failed, registers again after this time, over the radio.";
    }
}

/// The traffic of nodes.
pub(in crate::scenario) fn of(cell: &Cell) -> Result<MeshTraffic, ScenarioError> {
    let [load, each] = ["traffic.load", "traffic.period"];
    let start = cell.if_set("traffic.start", Cell::get)?;
    let own_load: Option<u64> = cell.if_set(load, Cell::get)?;
    let period = match (own_load, cell.if_set(each, Cell::get)?) {
        (Some(_), Some(_)) => {
            let why = format!("{load} and {each} are two ways to say how often nodes speak");
            return Err(impossible(cell.place(each), why));
        }
        (Some(bps), None) => Some(Period::Load(u32::try_from(bps).unwrap_or(u32::MAX))),
        (None, period) => period.map(Period::Each),
    };
    if let (None, Some(_)) = (period, start) {
        let why = format!("traffic.start is of constant traffic; set {load} or {each}");
        return Err(impossible(cell.place("traffic.start"), why));
    }
    let gaps = gaps(cell)?;
    if period.is_none() && gaps != Gaps::Fixed {
        let why = format!("traffic.gaps is of constant traffic; set {load} or {each}");
        return Err(impossible(cell.place("traffic.gaps"), why));
    }
    let message = cell.get("workload.message")?;
    let counted = cell.if_set("traffic.counted", Cell::get)?;
    Ok(MeshTraffic {
        constant: period.map(|period| Constant {
            period,
            start,
            gaps,
        }),
        bursts: bursts(cell)?,
        counted_bytes: counted.unwrap_or(message),
        message_bytes: message,
        token_bytes: cell.get("workload.token_bytes")?,
        stops: stops(cell)?,
        ..cell.fields()?
    })
}

/// Clients that stop for good.
fn stops(cell: &Cell) -> Result<Option<ClientStops>, ScenarioError> {
    let stops: ClientStops = cell.fields()?;
    Ok((stops.probability != Probability::NEVER).then_some(stops))
}

/// The distribution of the time between messages.
fn gaps(cell: &Cell) -> Result<Gaps, ScenarioError> {
    Ok(match cell.text("traffic.gaps")? {
        "uniform" => Gaps::Uniform(cell.get("traffic.gap_spread")?),
        "exponential" => Gaps::Exponential,
        _ => Gaps::Fixed,
    })
}

fn bursts(cell: &Cell) -> Result<Option<Bursts>, ScenarioError> {
    let bursts: Bursts = cell.fields()?;
    if bursts.messages == 0 {
        return Ok(None);
    }
    if bursts.queue.is_some() && bursts.kind == BurstKind::Notifications {
        let path = "traffic.burst_buffer";
        let why = format!("{path} is of bursts of POSTs; notifications wait in node.coap_buffer");
        return Err(impossible(cell.place(path), why));
    }
    Ok(Some(bursts))
}
