//! The run: what happens when, and what applications do.

use carob_cc::time::{Duration, Instant};
use carob_proto::trace::Trace as Said;

use super::Node;
use super::air::{self, Air, Ground};
use super::counts::Counts;
use super::host::{self, Application, Form, Host};
use super::message::About;
use super::network::{NodeState, Packet, Piece};
use super::record::Traced;
use super::rpl::RplEvent;
use super::spec::{BurstKind, Bursts, MeshSpec, Period, Sink};
use super::topology::Topology;
use crate::alarm::Alarm;
use crate::capture::Captured;
use crate::host::address;
use crate::queue::EventQueue;
use crate::random::Stream;
use crate::spec::{RunRecord, RunSpec};
use crate::store::Store;
use crate::trace::Trace;
use crate::world::RunError;

/// Nodes begin within this time, as simulated motes do.
const BOOT: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug)]
pub(super) enum Happening {
    /// Something on the air, or a MAC's timer.
    Air(air::Event),
    /// A node starts.
    Boot { node: Node },
    /// RPL's time has come at a node.
    Route { node: Node },
    /// The time of a host's endpoint has come.
    Wake { host: u32 },
    /// A host has processed a datagram that arrived.
    Processed { host: u32, packet: u32 },
    /// A node has processed a packet that it sends on.
    Forward { node: Node, from: Node, packet: u32 },
    /// A packet has crossed the link between the root and what is outside.
    Crossed { packet: u32, inwards: bool },
    /// Sinks ask to observe.
    Register,
    /// The warm-up is over.
    Begin,
    /// A node makes a message.
    Make { node: Node },
    /// A node makes a burst of them.
    Burst { node: Node },
    /// A span of counting ends.
    BinEnds,
}

pub(super) struct Scene<'a> {
    pub(super) spec: &'a RunSpec,
    pub(super) mesh: &'a MeshSpec,
    pub(super) topology: Topology,
    pub(super) now: Instant,
    pub(super) queue: EventQueue<Happening>,
    pub(super) air: Air<Piece>,
    pub(super) ups: Vec<air::Upcall<Piece>>,
    pub(super) nodes: Vec<NodeState>,
    /// One for each node, and one outside if the sink is there.
    pub(super) hosts: Vec<Host>,
    pub(super) packets: Store<Packet>,
    pub(super) bodies: Store<Vec<u8>>,
    pub(super) counts: Counts,
    pub(super) trace: Trace,
    /// Each node's parent, if routes are static.
    pub(super) fixed: Option<Vec<Option<Node>>>,
    pub(super) form: Form,
    /// The copy of a request that is being handled: what is sent because of it is known by it.
    pub(super) cause: u8,
    pub(super) log: Vec<(u32, Said)>,
    pub(super) captured: Vec<Captured>,
    pub(super) error: Option<RunError>,
}

impl<'a> Scene<'a> {
    pub(super) fn new(spec: &'a RunSpec, mesh: &'a MeshSpec, topology: Topology) -> Self {
        let nodes = topology.positions.len();
        let ground = Ground {
            positions: &topology.positions,
            regions: &topology.regions,
            table: topology.table.as_deref(),
        };
        let air = Air::new(&ground, &mesh.radio, &mesh.mac, spec.seed);
        let outside = u32::from(mesh.topology.outside.is_some());
        let hosts = (0..nodes as u32 + outside)
            .map(|number| Host {
                endpoint: host::endpoint(spec, mesh, number),
                alarm: Alarm::default(),
                application: None,
            })
            .collect();
        let state = |node| NodeState::new(node, node == topology.root, mesh, spec.seed);
        Self {
            spec,
            mesh,
            now: Instant::ZERO,
            queue: EventQueue::default(),
            air,
            ups: Vec::new(),
            nodes: (0..nodes as Node).map(state).collect(),
            hosts,
            packets: Store::new(),
            bodies: Store::new(),
            counts: Counts::new(mesh, nodes),
            trace: match spec.record.events {
                0 => Trace::hashing(),
                limit => Trace::recording(limit),
            },
            fixed: None,
            form: Form::of(&mesh.traffic),
            cause: 0,
            log: Vec::new(),
            captured: Vec::new(),
            error: None,
            topology,
        }
    }

    /// Lets routing begin.
    pub(super) fn boot(&mut self) {
        for node in 0..self.nodes.len() as Node {
            let mut stream = Stream::indexed(self.spec.seed, "mesh/boot", node.into());
            let at = Instant::ZERO + stream.uniform(Duration::ZERO, BOOT);
            self.queue.push(at, Happening::Boot { node });
        }
    }

    /// Plans the traffic.
    pub(super) fn plan(&mut self) {
        let begin = Instant::ZERO + self.mesh.warm_up;
        self.queue.push(begin, Happening::Begin);
        self.queue.push(begin + self.mesh.bin, Happening::BinEnds);
        let traffic = &self.mesh.traffic;
        let generators = self.topology.generators.clone();
        for node in generators {
            let application = Application::new(
                self.sink_host(node, Sink::Primary),
                self.sink_host(node, traffic.bursts.map_or(Sink::Primary, |b| b.to)),
            );
            if let Some(constant) = traffic.constant {
                let mut stream = Stream::indexed(self.spec.seed, "mesh/phase", node.into());
                let first = match constant.start {
                    None => stream.uniform(Duration::ZERO, self.period()),
                    Some(start) => stream.uniform(start.low, start.high),
                };
                self.queue.push(begin + first, Happening::Make { node });
            }
            if let Some(bursts) = traffic.bursts
                && application.burst_sink != u32::from(node)
            {
                let mut stream = Stream::indexed(self.spec.seed, "mesh/burst", node.into());
                let first = stream.uniform(bursts.first.low, bursts.first.high);
                self.queue.push(begin + first, Happening::Burst { node });
            }
            self.hosts[usize::from(node)].application = Some(Box::new(application));
        }
        let is_told = |bursts: Bursts| bursts.kind == BurstKind::Notifications;
        if traffic.bursts.is_some_and(is_told) {
            let before = Instant::ZERO + self.mesh.warm_up.half();
            self.queue.push(before, Happening::Register);
        }
    }

    /// The host that gets a node's messages.
    fn sink_host(&self, node: Node, sink: Sink) -> u32 {
        if self.mesh.topology.outside.is_some() {
            return self.nodes.len() as u32;
        }
        match sink {
            Sink::Primary => self.topology.sink_of(node).into(),
            Sink::Secondary => self.topology.second_sink_of(node).into(),
        }
    }

    /// Time between two messages of a node.
    fn period(&self) -> Duration {
        let traffic = &self.mesh.traffic;
        match traffic.constant.map(|constant| constant.period) {
            Some(Period::Each(period)) => period,
            Some(Period::Load(load)) => {
                let bits = u64::from(traffic.counted_bytes) * 8;
                let all = self.topology.generators.len() as u64;
                let micros = bits * all * 1_000_000 / u64::from(load.max(1));
                Duration::from_micros(micros.max(1))
            }
            None => self.mesh.duration,
        }
    }

    pub(super) fn handle(&mut self, happening: Happening) {
        match happening {
            Happening::Air(event) => self.on_air(event),
            Happening::Boot { node } => self.start_routing(node),
            Happening::Route { node } => self.routing_time(node),
            Happening::Wake { host } => self.wake(host),
            Happening::Processed { host, packet } => self.processed(host, packet),
            Happening::Forward { node, from, packet } => self.forward(node, packet, Some(from)),
            Happening::Crossed { packet, inwards } => self.crossed(packet, inwards),
            Happening::Register => self.register(),
            Happening::Begin => self.begin(),
            Happening::Make { node } => {
                let to = self.application(node).map_or(0, |a| a.sink);
                self.make(node, to, About::Constant);
                let next = self.now + self.period();
                self.queue.push(next, Happening::Make { node });
            }
            Happening::Burst { node } => {
                if let Some(bursts) = self.mesh.traffic.bursts {
                    self.burst(node, bursts);
                }
            }
            Happening::BinEnds => {
                self.trace_node();
                self.queue
                    .push(self.now + self.mesh.bin, Happening::BinEnds);
            }
        }
    }

    fn begin(&mut self) {
        self.air.reset_counters();
        self.counts.record.traced = self.mesh.traced.unwrap_or_else(|| self.busy_node());
    }

    /// The node with descendants that has the most neighbours, the root apart.
    fn busy_node(&self) -> Node {
        let all = 0..self.nodes.len() as Node;
        let parents: Vec<_> = all.clone().map(|node| self.parent(node)).collect();
        let relays = all.filter(|node| {
            let has_child = parents.contains(&Some(*node));
            has_child && self.topology.generators.contains(node)
        });
        let neighbours = |node: &Node| (self.neighbours(*node), std::cmp::Reverse(*node));
        relays.max_by_key(neighbours).unwrap_or_default()
    }

    fn trace_node(&mut self) {
        let node = self.counts.record.traced;
        let sink = self
            .application(node)
            .map(|application| address(application.sink, 0));
        let host = &self.hosts[usize::from(node)];
        let known = sink.and_then(|sink| host.endpoint.snapshot(self.now, sink));
        let parent = self.parent(node);
        self.counts.trace(Traced {
            at: self.now,
            rank: self.rank(node),
            parent,
            etx: parent.map_or(0, |parent| self.etx(node, parent)),
            rto: known.and_then(|known| known.rto).unwrap_or_default(),
            retransmissions: 0,
        });
    }

    pub(super) fn routing_says(&mut self, node: Node, event: RplEvent) {
        match event {
            RplEvent::ParentChanged { from, to } => {
                self.counts.parent_changed(self.now, node, from, to);
            }
            RplEvent::LocalRepair if self.counts.has_begun(self.now) => {
                self.counts.node(node).repairs += 1;
            }
            _ => {}
        }
    }

    pub(super) fn record(mut self, events_handled: u64) -> RunRecord {
        self.trace_node();
        for node in 0..self.nodes.len() as Node {
            let sink = self.application(node).map(|application| application.sink);
            let told = self.application(node).map(|a| a.burst_sink);
            let waiting = [sink, told]
                .into_iter()
                .flatten()
                .take(if sink == told { 1 } else { 2 })
                .filter_map(|sink| {
                    let endpoint = &self.hosts[usize::from(node)].endpoint;
                    let known = endpoint.snapshot(self.now, address(sink, 0))?;
                    Some(known.queued as u64)
                })
                .sum::<u64>();
            let unfinished = self.application(node).map_or(0, Application::unfinished);
            let parent = self.parent(node);
            let (rank, hops) = (self.rank(node), self.hops(node));
            let etx = parent.map_or(0, |parent| self.etx(node, parent));
            let neighbours = self.neighbours(node);
            let mac = *self.air.counters(node);
            let lost = self.lost_in_parts(node);
            let record = self.counts.node(node);
            record.unfinished = unfinished.max(waiting);
            record.mac = mac;
            record.reassembly_drops += lost;
            (record.rank, record.hops, record.parent) = (rank, hops, parent);
            (record.etx, record.neighbours) = (etx, neighbours);
        }
        RunRecord {
            mesh: Some(Box::new(self.counts.into_record(self.now))),
            ended: self.now,
            events_handled,
            trace_hash: self.trace.hash(),
            events_unrecorded: self.trace.unrecorded(),
            events: self.trace.into_events(),
            log: self.log,
            packets: self.captured,
            ..RunRecord::default()
        }
    }
}
