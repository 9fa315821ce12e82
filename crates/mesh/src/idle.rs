//! A mesh without traffic: links and RPL's tree.

use carob_cc::time::{Duration, Instant};
use carob_sim_core::queue::EventQueue;
use carob_sim_core::random::Probability;

use super::spec::{MeshSpec, Routing};
use super::topology::Topology;
use super::{ConfigError, Event, Mesh, Node, Simulator};

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
pub fn idle_network(spec: &MeshSpec, seed: u64) -> Result<IdleNetwork, ConfigError> {
    let after = match spec.routing {
        Routing::Rpl => spec.warm_up,
        Routing::Static(duration) => duration,
    };
    spec.check()?;
    let topology = spec.built_topology()?;
    let mesh = run(spec, seed, topology, after.max(Duration::from_micros(1)));
    let nodes = 0..mesh.nodes.len() as Node;
    let all = nodes.clone();
    let links = all.flat_map(|from| {
        let receivers = mesh.radio.links().receivers(from).iter();
        receivers.map(move |link| (from, link.to, link.delivery))
    });
    let links = links.collect();
    let parents = mesh.parents();
    let etx = nodes.clone().zip(&parents).map(|(node, parent)| {
        let etx = parent.map(|parent| mesh.etx(node, parent));
        etx.filter(|etx| *etx > 0)
    });
    let etx = etx.collect();
    let hops = nodes.map(|node| mesh.hops(node)).collect();
    Ok(IdleNetwork {
        links,
        etx,
        hops,
        parents,
        after,
        topology: mesh.topology,
    })
}

/// The simulator of a mesh without hosts.
#[derive(Debug, Default)]
struct Idle(EventQueue<Event>);

impl Simulator for Idle {
    fn now(&self) -> Instant {
        self.0.now()
    }

    fn schedule(&mut self, at: Instant, event: Event) {
        self.0.push(at, event);
    }

    fn hold(&mut self, _: u32) {}

    fn release(&mut self, _: u32) {}
}

/// A mesh after RPL ran for this time without traffic.
pub(super) fn run(spec: &MeshSpec, seed: u64, topology: Topology, duration: Duration) -> Mesh<'_> {
    let mut mesh = Mesh::unrouted(spec, seed, 0, topology);
    let mut idle = Idle::default();
    mesh.boot(&mut idle);
    let last = Instant::ZERO + duration - Duration::from_micros(1);
    while let Some((_, event)) = idle.0.pop_until(last) {
        mesh.handle(&mut idle, event);
    }
    mesh
}
