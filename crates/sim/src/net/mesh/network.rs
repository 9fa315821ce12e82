//! The mesh as a network: nodes with a radio, RPL and 6LoWPAN, and perhaps a host outside.

use carob_cc::time::{Duration, Instant};
use carob_sim_core::rc_slab::RcSlab;

use super::Node;
use super::counts::Counts;
use super::ipv6::{NodeState, Packet, Piece};
use super::radio::{self, Ground, Radio};
use super::spec::MeshSpec;
use super::topology::Topology;
use crate::engine::{Engine, Event};
use crate::net::{Network, Offer, Placement};
use crate::random::Stream;
use crate::spec::{RunRecord, RunSpec, Workload};

/// Nodes boot within this time, as simulated motes do.
const BOOT: Duration = Duration::from_secs(1);

/// An event of the mesh.
#[derive(Clone, Copy, Debug)]
pub(crate) enum MeshEvent {
    /// An event of the radio or of a MAC.
    Radio(radio::Event),
    /// A node boots.
    Boot { node: Node },
    /// RPL's timer at a node.
    Route { node: Node },
    /// A node has processed an arrived datagram.
    Processed { packet: u32 },
    /// A node has processed a packet that it forwards.
    Forward { node: Node, from: Node, packet: u32 },
    /// A packet has crossed the link between the root and the host outside.
    Crossed { packet: u32, inwards: bool },
    /// The warm-up is over.
    Begin,
}

/// The nodes of a mesh below their endpoints.
pub(crate) struct MeshNetwork<'a> {
    pub(crate) mesh: &'a MeshSpec,
    pub(crate) topology: Topology,
    pub(crate) counts: Counts,
    pub(super) radio: Radio<Piece>,
    pub(super) ups: Vec<radio::Upcall<Piece>>,
    pub(super) nodes: Vec<NodeState>,
    pub(super) packets: RcSlab<Packet>,
    /// Each node's parent, if routes are static.
    pub(super) fixed: Option<Vec<Option<Node>>>,
    /// True if datagrams before the end of the warm-up do not use the radio: registrations of the
    /// mesh's traffic are not part of the study.
    bypasses_radio: bool,
}

impl<'a> MeshNetwork<'a> {
    pub(super) fn new(spec: &RunSpec, mesh: &'a MeshSpec, topology: Topology) -> Self {
        let nodes = topology.positions.len();
        let ground = Ground {
            positions: &topology.positions,
            regions: &topology.regions,
            table: topology.table.as_deref(),
        };
        let mut radio = Radio::new(&ground, &mesh.radio, &mesh.mac, spec.seed);
        radio.set_deaf(topology.root, mesh.topology.root_deaf);
        if let Some(buffers) = mesh.mac.root_buffers {
            radio.set_buffers(topology.root, buffers);
        }
        let state = |node| NodeState::new(node, node == topology.root, mesh, spec.seed);
        Self {
            mesh,
            counts: Counts::new(mesh, nodes, &spec.record),
            radio,
            ups: Vec::new(),
            nodes: (0..nodes as Node).map(state).collect(),
            packets: RcSlab::new(),
            fixed: None,
            bypasses_radio: matches!(spec.workload, Workload::Mesh),
            topology,
        }
    }

    /// The number of nodes.
    pub(crate) fn node_count(&self) -> u32 {
        self.nodes.len() as u32
    }

    /// The place of a sink: the host outside, or else this node.
    pub(crate) fn sink_place(&self, sink: Node) -> u32 {
        match self.mesh.topology.outside {
            Some(_) => self.node_count(),
            None => sink.into(),
        }
    }

    fn begin(&mut self) {
        self.radio.reset_counters();
        self.counts.record.traced = self.mesh.traced.unwrap_or_else(|| self.busy_node());
    }
}

impl Engine<'_, MeshNetwork<'_>> {
    /// Boots all nodes.
    pub(super) fn boot(&mut self) {
        for node in 0..self.network.nodes.len() as Node {
            let mut stream = Stream::indexed(self.spec.seed, "mesh/boot", node.into());
            let at = Instant::ZERO + stream.uniform(Duration::ZERO, BOOT);
            self.queue
                .push(at, Event::Network(MeshEvent::Boot { node }));
        }
    }

    /// Schedules the end of the warm-up.
    pub(super) fn schedule_begin(&mut self) {
        let begin = self.network.ready();
        self.queue.push(begin, Event::Network(MeshEvent::Begin));
    }
}

impl Network for MeshNetwork<'_> {
    type Event = MeshEvent;

    fn packet_bytes(&self, payload: u32) -> u32 {
        payload
    }

    /// Clients are spread over the nodes that generate messages; servers are the primary sink of
    /// the first of them.
    fn place(&self, host: Placement) -> u32 {
        let generators = &self.topology.generators;
        match host {
            Placement::Client(client) | Placement::RemoteClient(client) => {
                let nodes = generators.len().max(1);
                let node = generators.get(client as usize % nodes).copied();
                node.unwrap_or_default().into()
            }
            Placement::Server | Placement::ConstrainedServer => {
                let first = generators.first().copied().unwrap_or_default();
                self.sink_place(self.topology.sink_of(first))
            }
        }
    }

    fn ready(&self) -> Instant {
        Instant::ZERO + self.mesh.warm_up
    }

    /// The time at which a timer due at `at` expires, by the timer granularity.
    fn expiry(&self, at: Instant) -> Instant {
        let tick = self.mesh.node.tick.as_micros();
        if tick == 0 {
            return at;
        }
        Instant::from_micros(at.as_micros().div_ceil(tick) * tick)
    }

    fn send(engine: &mut Engine<'_, Self>, datagram: u32) -> Option<Offer> {
        let sent = &engine.datagrams[datagram];
        let [source, destination] =
            [sent.from, sent.to].map(|host| engine.hosts[host as usize].place);
        let packet = engine.packet(source, destination);
        engine.network.packets[packet].body = Some(datagram);
        if engine.network.bypasses_radio && !engine.network.counts.has_begun(engine.now) {
            let processed = MeshEvent::Processed { packet };
            engine.queue.push(engine.now, Event::Network(processed));
        } else {
            engine.leaves(source, packet);
        }
        None
    }

    fn handle(engine: &mut Engine<'_, Self>, event: MeshEvent) -> Option<u32> {
        match event {
            MeshEvent::Radio(event) => engine.on_air(event),
            MeshEvent::Boot { node } => engine.start_routing(node),
            MeshEvent::Route { node } => engine.routing_time(node),
            MeshEvent::Forward { node, from, packet } => engine.forward(node, packet, Some(from)),
            MeshEvent::Crossed {
                packet,
                inwards: true,
            } => engine.forward(engine.network.topology.root, packet, None),
            MeshEvent::Processed { packet }
            | MeshEvent::Crossed {
                packet,
                inwards: false,
            } => return engine.processed(packet),
            MeshEvent::Begin => engine.network.begin(),
        }
        None
    }

    fn into_record(mut self, now: Instant, record: &mut RunRecord) {
        for node in 0..self.nodes.len() as Node {
            let parent = self.parent(node);
            let (rank, hops) = (self.rank(node), self.hops(node));
            let etx = parent.map_or(0, |parent| self.etx(node, parent));
            let neighbours = self.neighbours(node);
            let mac = *self.radio.counters(node);
            let lost = self.nodes[usize::from(node)].lost_in_parts();
            let record = self.counts.node(node);
            record.mac = mac;
            record.reassembly_drops += lost;
            (record.rank, record.hops, record.parent) = (rank, hops, parent);
            (record.etx, record.neighbours) = (etx, neighbours);
        }
        record.moments = std::mem::take(&mut self.counts.moments);
        record.mesh = Some(Box::new(self.counts.into_record(now)));
    }
}
