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
    let mut scene = Scene::new(spec, mesh, topology.clone());
    scene.boot();
    until(&mut scene, Instant::ZERO + quiet)?;
    let nodes = 0..topology.positions.len() as Node;
    Ok(nodes.map(|node| scene.parent(node)).collect())
}
