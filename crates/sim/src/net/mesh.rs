//! The mesh as a network: hosts on its nodes, and perhaps one outside.

use carob_cc::time::Instant;
use carob_mesh::spec::MeshSpec;
use carob_mesh::{Body, Mesh, Simulator};
use carob_sim_core::rc_slab::RcSlab;

use crate::engine::network::{Network, Offer, Placement};
use crate::engine::{Datagram, Engine, Event};
use crate::queue::EventQueue;
use crate::spec::{Recording, RunError, RunRecord, RunSpec, Workload};

/// A mesh, with datagrams of the engine.
pub(crate) struct MeshNetwork<'a> {
    pub(crate) mesh: Mesh<'a>,
    /// True if datagrams before the end of the warm-up do not use the radio: registrations of the
    /// mesh's traffic are not part of the study.
    bypasses_radio: bool,
}

/// The engine of a run on a mesh, with the first events of the mesh.
pub(crate) fn engine<'a>(
    spec: &'a RunSpec,
    mesh: &'a MeshSpec,
) -> Result<Engine<'a, MeshNetwork<'a>>, RunError> {
    let moments = spec.record.moments.min(Recording::MOMENTS_MAX);
    let network = MeshNetwork {
        mesh: Mesh::new(mesh, spec.seed, moments).map_err(RunError::Mesh)?,
        bypasses_radio: matches!(spec.measured.workload, Workload::MeshTraffic(_)),
    };
    let mut engine = Engine::new(spec, network);
    let (network, mut cx) = split(&mut engine);
    network.mesh.start(&mut cx);
    Ok(engine)
}

/// The engine as the mesh sees it.
struct Context<'e> {
    now: Instant,
    queue: &'e mut EventQueue<Event<carob_mesh::Event>>,
    datagrams: &'e mut RcSlab<Datagram>,
}

impl Simulator for Context<'_> {
    #[inline]
    fn now(&self) -> Instant {
        self.now
    }

    #[inline]
    fn schedule(&mut self, at: Instant, event: carob_mesh::Event) {
        self.queue.push(at, Event::Network(event));
    }

    #[inline]
    fn hold(&mut self, datagram: u32) {
        self.datagrams.hold(datagram);
    }

    #[inline]
    fn release(&mut self, datagram: u32) {
        self.datagrams.release(datagram);
    }
}

fn split<'e, 'a>(
    engine: &'e mut Engine<'_, MeshNetwork<'a>>,
) -> (&'e mut MeshNetwork<'a>, Context<'e>) {
    let context = Context {
        now: engine.now,
        queue: &mut engine.queue,
        datagrams: &mut engine.datagrams,
    };
    (&mut engine.network, context)
}

/// The place of servers that are each on the node of their client, which is at the sink then.
const AT_CLIENTS: u32 = u32::MAX;

impl MeshNetwork<'_> {
    /// The place of a node's sink.
    fn sink_of(&self, node: u32) -> u32 {
        let topology = &self.mesh.topology;
        self.mesh.sink_place(topology.sink_of(node as u16))
    }
}

impl Network for MeshNetwork<'_> {
    type Event = carob_mesh::Event;

    fn packet_bytes(&self, payload: u32) -> u32 {
        // The mesh adds headers, whose size depends on compression and fragmentation.
        payload
    }

    /// Clients are spread over the nodes that generate messages; servers are the primary sink of
    /// the first of them.
    fn place(&self, host: Placement) -> u32 {
        let topology = &self.mesh.topology;
        let generators = &topology.generators;
        match host {
            Placement::Client(client) | Placement::RemoteClient(client) => {
                // With more clients than nodes, several share a node.
                let nodes = generators.len().max(1);
                let node = generators.get(client as usize % nodes).copied();
                node.unwrap_or_default().into()
            }
            Placement::ConstrainedServers => AT_CLIENTS,
            Placement::Server | Placement::ConstrainedServer => {
                let first = generators.first().copied().unwrap_or_default();
                self.mesh.sink_place(topology.sink_of(first))
            }
        }
    }

    fn ready(&self) -> Instant {
        self.mesh.begin()
    }

    /// The time at which a timer due at `at` expires, by the timer granularity.
    fn expiry(&self, at: Instant) -> Instant {
        let tick = self.mesh.spec.node.tick.as_micros();
        if tick == 0 {
            return at;
        }
        Instant::from_micros(at.as_micros().div_ceil(tick) * tick)
    }

    fn send(engine: &mut Engine<'_, Self>, datagram: u32) -> Option<Offer> {
        let sent = &engine.datagrams[datagram];
        let bytes = sent.bytes.len() as u16;
        let [from, to] = match [sent.from, sent.to].map(|host| engine.hosts[host as usize].place) {
            [AT_CLIENTS, node] => [node, engine.network.sink_of(node)],
            [node, AT_CLIENTS] => [engine.network.sink_of(node), node],
            places => places,
        };
        let body = Body { datagram, bytes };
        let (network, mut cx) = split(engine);
        if network.bypasses_radio && !network.mesh.counts.has_begun(cx.now) {
            network.mesh.deliver(&mut cx, from, to, body);
        } else {
            network.mesh.send(&mut cx, from, to, body);
        }
        // Its fate is known after the frames of all hops; the mesh counts it.
        None
    }

    #[inline]
    fn handle(engine: &mut Engine<'_, Self>, event: Self::Event) -> Option<u32> {
        let (network, mut cx) = split(engine);
        network.mesh.handle(&mut cx, event)
    }

    fn into_record(self, now: Instant, record: &mut RunRecord) {
        let (mesh, moments) = self.mesh.into_record(now);
        record.mesh = Some(Box::new(mesh));
        record.moments = moments;
    }
}
