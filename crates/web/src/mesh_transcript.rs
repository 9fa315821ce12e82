//! One run of a wireless network: nodes, links, frames hop by hop, parents and timers.
//!
//! Times are microseconds of virtual time. A column has a value for each frame or sample; -1 is none.

use carob_lab::run::RunRecord;
use carob_sim::mesh::record::MomentKind;
use carob_sim::mesh::spec::MeshSpec;
use carob_sim::mesh::{self, IdleNetwork};
use carob_sim::spec::RunError;
use carob_sim::spec::{RunSpec, Workload};
use carob_sim::trace::SimEvent;
use serde_json::{Value, json};

/// The most moments that are recorded.
pub(crate) const MOMENTS_MAX: u32 = 250_000;
/// Links that deliver less are left out, in thousandths.
const FAINTEST: f64 = 0.1;

/// Columns of integers by name.
struct Columns<const N: usize>([(&'static str, Vec<i64>); N]);

impl<const N: usize> Columns<N> {
    fn new(names: [&'static str; N]) -> Self {
        Self(names.map(|name| (name, Vec::new())))
    }

    fn add(&mut self, values: [i64; N]) {
        for ((_, column), value) in self.0.iter_mut().zip(values) {
            column.push(value);
        }
    }

    fn json(&self) -> Value {
        let columns = self.0.iter();
        columns
            .map(|(name, column)| ((*name).to_owned(), json!(column)))
            .collect::<serde_json::Map<String, Value>>()
            .into()
    }
}

/// The transcript of a run with recorded moments and events.
pub(crate) fn transcript(
    spec: &RunSpec,
    network: &MeshSpec,
    record: &RunRecord,
) -> Result<Value, RunError> {
    let idle = mesh::idle_network(network, spec.seed).map_err(RunError::Mesh)?;
    let mut frames = Columns::new([
        "at",
        "from",
        "to",
        "routing",
        "transmissions",
        "sent",
        "queued",
        "etx",
    ]);
    let mut parents = Columns::new(["at", "node", "to"]);
    let mut timers = Columns::new(["at", "node", "value"]);
    let mut messages = Columns::new(["at", "node", "again"]);
    let recorded = &record.moments;
    for moment in recorded {
        let (at, node) = (moment.at.as_micros() as i64, i64::from(moment.node));
        match moment.what {
            MomentKind::Frame {
                to,
                is_routing,
                transmissions,
                is_sent,
                queued,
                etx,
            } => frames.add([
                at,
                node,
                to.map_or(-1, i64::from),
                is_routing.into(),
                transmissions.into(),
                is_sent.into(),
                queued.into(),
                etx.into(),
            ]),
            MomentKind::Parent(to) => parents.add([at, node, to.map_or(-1, i64::from)]),
            MomentKind::Sent(again) => messages.add([at, node, again.into()]),
            MomentKind::Rto(rto) => timers.add([at, node, rto.as_micros() as i64]),
            _ => {}
        }
    }
    if !matches!(spec.measured.workload, Workload::MeshTraffic(_)) {
        of_requests(&idle, spec, record, &mut timers, &mut messages);
    }
    let until = match recorded.last() {
        Some(last) if recorded.len() >= MOMENTS_MAX as usize => last.at,
        _ => record.ended,
    };
    let mut value = picture(&idle);
    value["begin"] = network.warm_up.as_micros().into();
    value["recorded_until"] = until.as_micros().into();
    value["hash"] = format!("{:016x}", record.trace_hash).into();
    value["moments"] = json!(
        recorded
            .iter()
            .map(|m| m.at.as_micros())
            .collect::<Vec<_>>()
    );
    value["frames"] = frames.json();
    value["parent_changes"] = parents.json();
    value["rto"] = timers.json();
    value["messages"] = messages.json();
    Ok(value)
}

/// Timers and messages of clients that make requests: their hosts are spread over the nodes.
fn of_requests(
    idle: &IdleNetwork,
    spec: &RunSpec,
    record: &RunRecord,
    timers: &mut Columns<3>,
    messages: &mut Columns<3>,
) {
    let generators = &idle.topology.generators;
    for event in &record.events {
        if event.host >= spec.measured.clients || generators.is_empty() {
            continue;
        }
        let at = event.at.as_micros() as i64;
        let node = i64::from(generators[event.host as usize % generators.len()]);
        match event.what {
            SimEvent::Rto { rto } => timers.add([at, node, rto.as_micros() as i64]),
            SimEvent::Sent { attempt, .. } => messages.add([at, node, attempt.into()]),
            _ => {}
        }
    }
}

/// Nodes, links and the tree before the traffic.
fn picture(idle: &IdleNetwork) -> Value {
    let topology = &idle.topology;
    let positions = &topology.positions;
    let sinks = (0..positions.len() as u16).filter(|node| topology.is_sink(*node));
    let mut links = Columns::new(["from", "to", "thousandths"]);
    for (from, to, delivery) in &idle.links {
        let delivery = delivery.as_f64();
        if delivery >= FAINTEST {
            links.add([
                (*from).into(),
                (*to).into(),
                (delivery * 1_000.0).round() as i64,
            ]);
        }
    }
    let parents = idle
        .parents
        .iter()
        .map(|parent| parent.map_or(-1, i64::from));
    json!({
        "mesh": true,
        "x": positions.iter().map(|place| place.0).collect::<Vec<_>>(),
        "y": positions.iter().map(|place| place.1).collect::<Vec<_>>(),
        "z": positions.iter().map(|place| place.2).collect::<Vec<_>>(),
        "root": topology.root,
        "sinks": sinks.collect::<Vec<_>>(),
        "links": links.json(),
        "parents": parents.collect::<Vec<_>>(),
    })
}
