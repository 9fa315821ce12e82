//! IEEE 802.15.4 mesh networks: radio, MAC, 6LoWPAN, RPL, and on each node an endpoint of the
//! stack.
//!
//! The study notes cited by scenario files describe the model and the assumptions that change
//! results most. Every choice among interpretations of a source is a setting of [`spec`].
//!
//! Reading order: [`spec`] (specification), [`record`] (results), [`topology`] (positions and
//! roles), [`radio`] (medium and MAC), [`rpl`] (parents and routes), [`lowpan`] (headers and
//! fragments), `ipv6` (packets and routes over all that), `network` (the mesh as a network of the
//! engine).

mod config_error;
mod counts;
mod ipv6;
pub mod lowpan;
pub(crate) mod message;
mod network;
pub mod radio;
pub mod record;
mod routing;
pub mod rpl;
pub mod spec;
pub mod topology;

use carob_cc::TransmissionParameters;
use carob_cc::time::{Duration, Instant};

use crate::engine::{Engine, RunError};
use crate::link::{DirectionSpec, LinkSpec};
use crate::random::Probability;
use crate::spec::{
    ControllerSpec, Faults, Recording, RunSpec, ServerSpec, Span, Transport, Until, Workload,
};
use spec::{MeshSpec, Routing};
use topology::Topology;

pub use config_error::{BURST_MAX, ConfigError, DURATION_MAX, NO_ROUTE_MAX, PERIOD_MIN, QUEUE_MAX};
pub(crate) use network::{MeshEvent, MeshNetwork};

/// A node of a network, numbered from 0.
pub type Node = u16;

/// The maximum number of nodes of a network.
pub const NODES_MAX: usize = 4_096;

impl RunSpec {
    /// A run of a wireless network, with the parameters of RFC 7252 and no other settings.
    pub fn mesh(seed: u64, controller: ControllerSpec, mesh: MeshSpec) -> Self {
        let unused = DirectionSpec::new(250_000, 1_280);
        Self {
            seed,
            clients: 1,
            start: Span::default(),
            link: LinkSpec {
                down: unused.clone(),
                up: unused,
            },
            header_bytes: 48,
            mtu_bytes: 1_280,
            transport: Transport::Datagrams,
            workload: Workload::Mesh,
            mesh: Some(Box::new(mesh)),
            transmission: TransmissionParameters::DEFAULT,
            controller,
            server: ServerSpec::default(),
            others: Vec::new(),
            faults: Faults::default(),
            device: crate::link::DeviceSpec::default(),
            until: Until::TimeLimit,
            time_limit: DURATION_MAX + DURATION_MAX,
            record: Recording::default(),
        }
    }
}

/// Makes the engine of a run, with its network booted or its static routes known.
pub(crate) fn engine<'a>(
    spec: &'a RunSpec,
    mesh: &'a MeshSpec,
) -> Result<Engine<'a, MeshNetwork<'a>>, RunError> {
    mesh.check(spec).map_err(RunError::Mesh)?;
    let invalid = |why| RunError::Mesh(ConfigError::Topology(why));
    let topology = Topology::new(&mesh.topology).map_err(invalid)?;
    topology.check(&mesh.radio).map_err(invalid)?;
    let nodes = topology.positions.len();
    if let Some(node) = mesh.traced.filter(|node| usize::from(*node) >= nodes) {
        return Err(RunError::Mesh(ConfigError::Traced(node)));
    }
    let fixed = match mesh.routing {
        Routing::Rpl => None,
        Routing::Static(duration) => Some(idle_run(spec, mesh, topology.clone(), duration)?),
    };
    let network = MeshNetwork::new(spec, mesh, topology);
    let mut engine = Engine::new(spec, network);
    match fixed {
        None => engine.boot(),
        Some(idle) => engine.network.fixed = Some(idle.parents()),
    }
    engine.schedule_begin();
    Ok(engine)
}

/// The network after a run of RPL without traffic.
fn idle_run<'a>(
    spec: &'a RunSpec,
    mesh: &'a MeshSpec,
    topology: Topology,
    duration: Duration,
) -> Result<MeshNetwork<'a>, RunError> {
    let mut engine = Engine::new(spec, MeshNetwork::new(spec, mesh, topology));
    engine.boot();
    let last = Instant::ZERO + duration - Duration::from_micros(1);
    engine.execute_until(&mut Vec::new(), last, true)?;
    Ok(engine.network)
}

/// A network before its traffic: links, and RPL's tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdleNetwork {
    /// Nodes and their roles.
    pub topology: Topology,
    /// Sender, receiver and delivery ratio of each link with a ratio above 0.
    pub links: Vec<(Node, Node, Probability)>,
    /// Preferred parents by node.
    pub parents: Vec<Option<Node>>,
    /// ETX of the link to the parent by node, in hundredths, as the node estimates it.
    pub etx: Vec<Option<u32>>,
    /// Hops to the root by node.
    pub hops: Vec<Option<u16>>,
    /// Duration of the run of RPL.
    pub after: Duration,
}

/// Simulates a network until its traffic begins: its warm-up, or the run that its static routes
/// come from.
pub fn idle_network(spec: &RunSpec, mesh: &MeshSpec) -> Result<IdleNetwork, RunError> {
    let invalid = |why| RunError::Mesh(ConfigError::Topology(why));
    let topology = Topology::new(&mesh.topology).map_err(invalid)?;
    topology.check(&mesh.radio).map_err(invalid)?;
    let after = match mesh.routing {
        Routing::Rpl => mesh.warm_up,
        Routing::Static(duration) => duration,
    };
    let network = idle_run(spec, mesh, topology, after.max(Duration::from_micros(1)))?;
    let nodes = 0..network.nodes.len() as Node;
    let all = nodes.clone();
    let links = all.flat_map(|from| {
        let receivers = network.radio.links().receivers(from).iter();
        receivers.map(move |link| (from, link.to, link.delivery))
    });
    let links = links.collect();
    let parents = network.parents();
    let etx = nodes.clone().zip(&parents).map(|(node, parent)| {
        let etx = parent.map(|parent| network.etx(node, parent));
        etx.filter(|etx| *etx > 0)
    });
    let etx = etx.collect();
    let hops = nodes.map(|node| network.hops(node)).collect();
    Ok(IdleNetwork {
        links,
        etx,
        hops,
        parents,
        after,
        topology: network.topology,
    })
}
