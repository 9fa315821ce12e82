//! Specification ([`RunSpec`]) and results ([`RunRecord`]) of a run.
//!
//! A run has a network (a link or a mesh), client groups with their workloads, and faults.

mod check;
mod controller;
mod faults;
pub(crate) mod groups;
pub mod mesh_traffic;
mod network;
pub mod notifications;
mod record;
pub(crate) mod server;
mod workload;

pub use check::RunError;
pub use controller::{ControllerError, ControllerSpec};
pub use faults::{
    ClientRestarts, FaultError, Faults, INTERVAL_MIN, Outages, Rebindings, ServerRestarts,
};
pub use groups::{CLIENTS_MAX, ClientGroup};
pub use mesh_traffic::MeshTraffic;
pub use network::{LinkNetworkSpec, NetworkSpec};
pub use notifications::{NotificationBin, NotificationRecord, Notifications, Sends, Subscriber};
pub use record::{Bin, Recording, Sample};
pub use record::{Closing, FlowRecord, LinkRecord, Recovery, RoundTrips, RunRecord};
pub use server::{Copies, PauseSchedule, SERVER_QUEUE_MAX, ServerRecord, ServerSpec, Works};
pub use workload::{
    AfterFailure, Batches, Periodic, QBlock, Reconnect, Requests, Transport, Workload,
};

use carob_cc::time::Duration;

pub use crate::mesh::record::{MeshBin, MeshRecord, Moment, NodeRecord};
pub use crate::mesh::spec::MeshSpec;
pub use crate::random::Span;

/// A run: everything its results depend on.
#[derive(Clone, Debug)]
pub struct RunSpec {
    /// The seed of all streams.
    pub seed: u64,
    /// The network of all hosts.
    pub network: NetworkSpec,
    /// The measured clients.
    pub measured: ClientGroup,
    /// Other client groups on the same network; none in most runs. All groups together have 1 to
    /// [`CLIENTS_MAX`] clients.
    pub others: Vec<ClientGroup>,
    /// The server's service time. Default: none.
    pub server: ServerSpec,
    /// Faults of hosts and link. Default: none.
    pub faults: Faults,
    /// The condition that ends the run.
    pub until: Until,
    /// Time limit of the run; flows not complete at its end have no completion time.
    pub time_limit: Duration,
    /// Data to record besides the counters.
    pub record: Recording,
}

/// The condition that ends a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Until {
    /// Every client has its last response.
    #[default]
    Answered,
    /// Also, every connection was closed by both ends.
    Closed,
    /// The time limit, regardless of completion.
    TimeLimit,
}

impl RunSpec {
    /// A run of one group until it has its responses, with no other settings.
    pub fn new(
        seed: u64,
        network: NetworkSpec,
        measured: ClientGroup,
        time_limit: Duration,
    ) -> Self {
        Self {
            seed,
            network,
            measured,
            others: Vec::new(),
            server: ServerSpec::default(),
            faults: Faults::default(),
            until: Until::default(),
            time_limit,
            record: Recording::default(),
        }
    }

    /// Every group, the measured one first.
    pub fn groups(&self) -> impl Iterator<Item = &ClientGroup> {
        std::iter::once(&self.measured).chain(&self.others)
    }

    /// All clients, of every group.
    pub fn all_clients(&self) -> u32 {
        self.groups()
            .fold(0, |sum, group| sum.saturating_add(group.clients))
    }

    /// Returns whether a group uses TCP.
    pub fn has_connections(&self) -> bool {
        self.groups()
            .any(|group| group.transport != Transport::Datagrams)
    }
}
