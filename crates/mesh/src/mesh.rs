//! The mesh: nodes with a radio, RPL and 6LoWPAN, and perhaps a host outside.

use carob_cc::time::{Duration, Instant};
use carob_sim_core::random::Stream;
use carob_sim_core::rc_slab::RcSlab;

use super::Node;
use super::config_error::ConfigError;
use super::idle;
use super::ipv6::{NodeState, Packet, Piece};
use super::radio::{self, Ground, Radio};
use super::record::Counts;
use super::record::{MeshRecord, Moment};
use super::spec::{MeshSpec, Routing};
use super::topology::Topology;

/// Nodes boot within this time, as simulated motes do.
const BOOT: Duration = Duration::from_secs(1);

/// The simulator of a mesh: its clock, its event queue, and the datagrams of its hosts.
///
/// ```
/// use carob_cc::time::Instant;
/// use carob_mesh::spec::MeshSpec;
/// use carob_mesh::{Body, Event, Mesh, Simulator};
/// use carob_sim_core::queue::EventQueue;
///
/// #[derive(Default)]
/// struct Datagrams(EventQueue<Event>);
///
/// impl Simulator for Datagrams {
///     fn now(&self) -> Instant {
///         self.0.now()
///     }
///
///     fn schedule(&mut self, at: Instant, event: Event) {
///         self.0.push(at, event);
///     }
///
///     fn hold(&mut self, _datagram: u32) {}
///
///     fn release(&mut self, _datagram: u32) {}
/// }
///
/// let spec = MeshSpec::default();
/// let mut mesh = Mesh::new(&spec, 1, 0)?;
/// let mut cx = Datagrams::default();
/// mesh.start(&mut cx);
/// while let Some((_, event)) = cx.0.pop_until(mesh.begin()) {
///     mesh.handle(&mut cx, event);
/// }
/// let body = Body { datagram: 7, bytes: 40 };
/// mesh.send(&mut cx, 35, mesh.topology.root.into(), body);
/// let arrived = loop {
///     let (_, event) = cx.0.pop().expect("RPL has timers");
///     if let Some(datagram) = mesh.handle(&mut cx, event) {
///         break datagram;
///     }
/// };
/// assert_eq!(arrived, 7);
/// # Ok::<(), carob_mesh::ConfigError>(())
/// ```
pub trait Simulator {
    /// The current time.
    fn now(&self) -> Instant;

    /// Schedules an event, to be passed to [`Mesh::handle`] at its time. Events of equal times
    /// are handled in the order in which they were scheduled.
    fn schedule(&mut self, at: Instant, event: Event);

    /// Adds a reference to a datagram: another packet of the mesh carries it.
    fn hold(&mut self, datagram: u32);

    /// Drops a reference to a datagram.
    fn release(&mut self, datagram: u32);
}

/// A datagram of the simulator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Body {
    /// Its number in the simulator.
    pub datagram: u32,
    /// Size of its UDP payload in bytes.
    pub bytes: u16,
}

/// An event of the mesh.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Event {
    /// An event of the radio or of a MAC.
    Radio(radio::Event),
    /// A node boots.
    Boot {
        /// The node.
        node: Node,
    },
    /// RPL's timer at a node.
    Route {
        /// The node.
        node: Node,
    },
    /// A node has processed an arrived datagram.
    Processed {
        /// The packet.
        packet: u32,
    },
    /// A node has processed a packet that it forwards.
    Forward {
        /// The node.
        node: Node,
        /// The neighbour that sent the packet.
        from: Node,
        /// The packet.
        packet: u32,
    },
    /// A packet has crossed the link between the root and the host outside.
    Crossed {
        /// The packet.
        packet: u32,
        /// True for a packet from outside.
        inwards: bool,
    },
    /// The warm-up is over.
    Begin,
}

/// The nodes of a mesh below their hosts.
///
/// A place is a node's number, or the number of nodes for the host outside.
#[derive(Debug)]
pub struct Mesh<'a> {
    /// The specification.
    pub spec: &'a MeshSpec,
    /// Nodes and their roles.
    pub topology: Topology,
    /// Counters, which the hosts' applications add to.
    pub counts: Counts,
    seed: u64,
    pub(super) radio: Radio<Piece>,
    pub(super) ups: Vec<radio::Upcall<Piece>>,
    pub(super) nodes: Vec<NodeState>,
    pub(super) packets: RcSlab<Packet>,
    /// Each node's parent, if routes are static.
    pub(super) fixed: Option<Vec<Option<Node>>>,
}

impl<'a> Mesh<'a> {
    /// Makes a mesh, with its static routes known. Records at most `moments_max` moments.
    pub fn new(spec: &'a MeshSpec, seed: u64, moments_max: u32) -> Result<Self, ConfigError> {
        spec.check()?;
        let topology = spec.built_topology()?;
        if let Some(node) = spec.traced.filter(|node| *node >= topology.nodes() as u16) {
            return Err(ConfigError::Traced(node));
        }
        let fixed = match spec.routing {
            Routing::Rpl => None,
            Routing::Static(duration) => {
                let idle = idle::run(spec, seed, topology.clone(), duration);
                Some(idle.parents())
            }
        };
        let mut mesh = Self::unrouted(spec, seed, moments_max, topology);
        mesh.fixed = fixed;
        Ok(mesh)
    }

    /// A mesh without static routes.
    pub(super) fn unrouted(
        spec: &'a MeshSpec,
        seed: u64,
        moments_max: u32,
        topology: Topology,
    ) -> Self {
        let nodes = topology.positions.len();
        let ground = Ground {
            positions: &topology.positions,
            regions: &topology.regions,
            table: topology.table.as_deref(),
        };
        let mut radio = Radio::new(&ground, &spec.radio, &spec.mac, seed);
        radio.set_deaf(topology.root, spec.topology.root_deaf);
        if let Some(buffers) = spec.mac.root_buffers {
            radio.set_buffers(topology.root, buffers);
        }
        let state = |node| NodeState::new(node, node == topology.root, spec, seed);
        Self {
            spec,
            counts: Counts::new(spec, nodes, moments_max),
            seed,
            radio,
            ups: Vec::new(),
            nodes: (0..nodes as Node).map(state).collect(),
            packets: RcSlab::new(),
            fixed: None,
            topology,
        }
    }

    /// The place of a sink: the host outside, or else this node.
    pub fn sink_place(&self, sink: Node) -> u32 {
        match self.spec.topology.outside {
            Some(_) => self.nodes.len() as u32,
            None => sink.into(),
        }
    }

    /// Schedules the first events: RPL boots on all nodes, unless routes are static, and the
    /// warm-up ends.
    pub fn start(&self, cx: &mut impl Simulator) {
        if self.fixed.is_none() {
            self.boot(cx);
        }
        cx.schedule(self.begin(), Event::Begin);
    }

    /// Boots all nodes.
    pub(super) fn boot(&self, cx: &mut impl Simulator) {
        for node in 0..self.nodes.len() as Node {
            let mut stream = Stream::indexed(self.seed, "mesh/boot", node.into());
            let at = Instant::ZERO + stream.uniform(Duration::ZERO, BOOT);
            cx.schedule(at, Event::Boot { node });
        }
    }

    /// The end of the warm-up.
    pub fn begin(&self) -> Instant {
        Instant::ZERO + self.spec.warm_up
    }

    /// Sends a datagram from one place to another. The mesh takes over one reference to it.
    pub fn send(&mut self, cx: &mut impl Simulator, from: u32, to: u32, body: Body) {
        let packet = self.packet(from, to);
        self.packets[packet].body = Some(body);
        self.leaves(cx, from, packet);
    }

    /// Delivers a datagram at once, without the radio.
    pub fn deliver(&mut self, cx: &mut impl Simulator, from: u32, to: u32, body: Body) {
        let packet = self.packet(from, to);
        self.packets[packet].body = Some(body);
        cx.schedule(cx.now(), Event::Processed { packet });
    }

    /// Handles an event. Returns a datagram that has reached its destination, with one reference
    /// to it.
    pub fn handle(&mut self, cx: &mut impl Simulator, event: Event) -> Option<u32> {
        match event {
            Event::Radio(event) => self.on_air(cx, event),
            Event::Boot { node } => self.start_routing(cx, node),
            Event::Route { node } => self.routing_time(cx, node),
            Event::Forward { node, from, packet } => self.forward(cx, node, packet, Some(from)),
            Event::Crossed {
                packet,
                inwards: true,
            } => self.forward(cx, self.topology.root, packet, None),
            Event::Processed { packet }
            | Event::Crossed {
                packet,
                inwards: false,
            } => return self.processed(cx, packet),
            Event::Begin => {
                self.radio.reset_counters();
                self.counts.record.traced = self.spec.traced.unwrap_or_else(|| self.busy_node());
            }
        }
        None
    }

    /// The results of a run that ended at `now`, and the recorded moments.
    pub fn into_record(mut self, now: Instant) -> (MeshRecord, Vec<Moment>) {
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
        self.counts.into_record(now)
    }
}
