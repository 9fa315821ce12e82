//! IEEE 802.15.4 mesh networks: radio, MAC, 6LoWPAN, RPL, and on each node an endpoint of the stack.
//!
//! What is modelled, and what of it changes results most, is in the study notes that scenario files
//! cite; every choice among readings of a source is a setting of [`spec`].
//!
//! Reading order: [`spec`] (what a network is told), [`record`] (what it tells), [`topology`] (where
//! nodes are, and who does what), [`air`] (radio and MAC), [`rpl`] (who is whose parent, and where
//! packets go), [`lowpan`] (what frames they take), `network` (IPv6 over all that), `scene` (a run: what
//! happens when, and what applications do).

pub mod air;
mod applications;
mod counts;
mod datagrams;
mod host;
pub mod lowpan;
mod message;
mod network;
pub mod record;
mod routing;
pub mod rpl;
mod scene;
pub mod spec;
pub mod topology;
mod unfit;

use carob_cc::TransmissionParameters;
use carob_cc::time::{Duration, Instant};

use crate::link::{DirectionSpec, LinkSpec};
use crate::random::Probability;
use crate::spec::{
    ControllerSpec, Recording, RunRecord, RunSpec, ServerSpec, Span, Transport, Until, Workload,
};
use crate::world::RunError;
use scene::Scene;
use spec::{MeshSpec, Routing};
use topology::Topology;

pub use unfit::{BURST_MAX, DURATION_MAX, NO_ROUTE_MAX, PERIOD_MIN, QUEUE_MAX, Unfit};

/// A node of a network, numbered from 0.
pub type Node = u16;

/// The most nodes a network may have.
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
                down: unused,
                up: unused,
            },
            header_bytes: 48,
            mtu_bytes: 1_280,
            transport: Transport::Datagrams,
            workload: Workload::Mesh(Box::new(mesh)),
            transmission: TransmissionParameters::DEFAULT,
            controller,
            server: ServerSpec::default(),
            others: Vec::new(),
            until: Until::TimeLimit,
            time_limit: DURATION_MAX + DURATION_MAX,
            record: Recording::default(),
        }
    }
}

/// Makes a run.
pub(crate) fn run(spec: &RunSpec, mesh: &MeshSpec) -> Result<RunRecord, RunError> {
    mesh.check(spec).map_err(RunError::Mesh)?;
    let unfit = |why| RunError::Mesh(Unfit::Topology(why));
    let topology = Topology::new(&mesh.topology).map_err(unfit)?;
    topology.check(&mesh.radio).map_err(unfit)?;
    let nodes = topology.positions.len();
    if let Some(node) = mesh.traced.filter(|node| usize::from(*node) >= nodes) {
        return Err(RunError::Mesh(Unfit::Traced(node)));
    }
    let fixed = match mesh.routing {
        Routing::Rpl => None,
        Routing::Static(quiet) => Some(quiet_parents(spec, mesh, &topology, quiet)?),
    };
    let mut scene = Scene::new(spec, mesh, topology);
    match fixed {
        None => scene.boot(),
        parents => scene.fixed = parents,
    }
    scene.plan();
    let end = Instant::ZERO + mesh.warm_up + mesh.duration;
    let handled = until(&mut scene, end)?;
    Ok(scene.record(handled))
}

/// Lets things happen until a time; what happens then happens after it.
fn until(scene: &mut Scene<'_>, end: Instant) -> Result<u64, RunError> {
    let mut handled = 0;
    while let Some((now, happening)) = scene.queue.pop_until(end - Duration::from_micros(1)) {
        scene.now = now;
        scene.handle(happening);
        handled += 1;
        if let Some(error) = scene.error {
            return Err(error);
        }
    }
    scene.now = end;
    Ok(handled)
}

/// The parents that nodes have after a run of RPL in which nobody says anything else.
fn quiet_parents(
    spec: &RunSpec,
    mesh: &MeshSpec,
    topology: &Topology,
    quiet: Duration,
) -> Result<Vec<Option<Node>>, RunError> {
    let scene = quiet_run(spec, mesh, topology.clone(), quiet)?;
    Ok(scene.parents())
}

fn quiet_run<'a>(
    spec: &'a RunSpec,
    mesh: &'a MeshSpec,
    topology: Topology,
    quiet: Duration,
) -> Result<Scene<'a>, RunError> {
    let mut scene = Scene::new(spec, mesh, topology);
    scene.boot();
    until(&mut scene, Instant::ZERO + quiet)?;
    Ok(scene)
}

/// A network before its traffic: who hears whom, and the tree that RPL has made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quiet {
    /// Nodes and their roles.
    pub topology: Topology,
    /// Sender, receiver and delivery ratio of each link on which anything arrives.
    pub links: Vec<(Node, Node, Probability)>,
    /// Preferred parents by node.
    pub parents: Vec<Option<Node>>,
    /// ETX of the link to it by node, in hundredths, as the node has it.
    pub etx: Vec<Option<u32>>,
    /// Hops to the root by node.
    pub hops: Vec<Option<u16>>,
    /// How long RPL was alone.
    pub after: Duration,
}

/// What a network is like before its traffic: after its warm-up, or after the run that its static
/// routes come from.
pub fn quiet(spec: &RunSpec, mesh: &MeshSpec) -> Result<Quiet, RunError> {
    let unfit = |why| RunError::Mesh(Unfit::Topology(why));
    let topology = Topology::new(&mesh.topology).map_err(unfit)?;
    topology.check(&mesh.radio).map_err(unfit)?;
    let after = match mesh.routing {
        Routing::Rpl => mesh.warm_up,
        Routing::Static(quiet) => quiet,
    };
    let scene = quiet_run(spec, mesh, topology, after.max(Duration::from_micros(1)))?;
    let nodes = 0..scene.nodes.len() as Node;
    let all = nodes.clone();
    let links = all.flat_map(|from| {
        let receivers = scene.air.links().receivers(from).iter();
        receivers.map(move |link| (from, link.to, link.delivery))
    });
    let links = links.collect();
    let parents = scene.parents();
    let etx = nodes.clone().zip(&parents).map(|(node, parent)| {
        let etx = parent.map(|parent| scene.etx(node, parent));
        etx.filter(|etx| *etx > 0)
    });
    let etx = etx.collect();
    let hops = nodes.map(|node| scene.hops(node)).collect();
    Ok(Quiet {
        links,
        etx,
        hops,
        parents,
        after,
        topology: scene.topology,
    })
}
