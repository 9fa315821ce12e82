//! Specification ([`RunSpec`]) and results ([`RunRecord`]) of a run.
//!
//! A run has a network (a link or a mesh), client groups with their workloads, and faults.

mod check;
mod controller;
mod error;
mod faults;
pub(crate) mod groups;
pub mod mesh_traffic;
pub mod notifications;
mod record;
mod recording;
pub(crate) mod server;
mod workload;

pub use controller::{ControllerError, ControllerSpec};
pub use error::RunError;
pub use faults::{
    ClientRestarts, FaultError, Faults, INTERVAL_MIN, Outages, Rebindings, ServerRestarts,
};
pub use groups::{CLIENTS_MAX, ClientGroup};
pub use mesh_traffic::MeshTraffic;
pub use notifications::{NotificationBin, NotificationRecord, Notifications, Sends, Subscriber};
pub use record::{Closing, FlowRecord, LinkRecord, Recovery, RoundTrips, RunRecord};
pub use recording::{Bin, Recording, Sample};
pub use server::{Copies, PauseSchedule, SERVER_QUEUE_MAX, ServerRecord, ServerSpec, Works};
pub use workload::{
    AfterFailure, Batches, Periodic, QBlock, Reconnect, Requests, Transport, Workload,
};

use carob_cc::TransmissionParameters;
use carob_cc::time::Duration;

pub use crate::mesh::record::{MeshBin, MeshRecord, Moment, NodeRecord};
pub use crate::mesh::spec::MeshSpec;
pub use crate::random::Span;

use crate::link::{DeviceSpec, DirectionSpec, LinkSpec};
use crate::mesh;
use groups::GroupSpec;

/// A run: everything its results depend on.
#[derive(Clone, Debug)]
pub struct RunSpec {
    /// The seed of all streams.
    pub seed: u64,
    /// Clients behind the link, each with its own flow; 1 to [`CLIENTS_MAX`], `others` included.
    pub clients: u32,
    /// The span of the clients' start times, drawn uniformly on the stream (`"client/start"`,
    /// client).
    pub start: Span,
    /// The constrained link shared by all clients; unused in a wireless network.
    pub link: LinkSpec,
    /// The wireless network; none for a run over the link.
    pub mesh: Option<Box<MeshSpec>>,
    /// Size of the IP and UDP headers of each datagram in bytes.
    pub header_bytes: u32,
    /// The largest packet on the link in bytes, headers included; at least 68. A larger datagram is
    /// fragmented as in IPv4; TCP's segments must fit.
    pub mtu_bytes: u32,
    /// The transport.
    pub transport: Transport,
    /// The clients' workload.
    pub workload: Workload,
    /// Transmission parameters of both ends, with profile, scenario and command line applied.
    /// Datagrams only.
    pub transmission: TransmissionParameters,
    /// The congestion controller of clients and server. Datagrams only.
    pub controller: ControllerSpec,
    /// The server's service time. Default: none.
    pub server: ServerSpec,
    /// Other client groups on the same link; none in most runs.
    pub others: Vec<ClientGroup>,
    /// Faults of hosts and link. Default: none.
    pub faults: Faults,
    /// Radios of the devices on the link. Default: none.
    pub device: DeviceSpec,
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
    /// A run of a wireless network, with the parameters of RFC 7252 and no other settings.
    pub fn mesh(
        seed: u64,
        controller: ControllerSpec,
        mesh: MeshSpec,
        traffic: MeshTraffic,
    ) -> Self {
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
            workload: Workload::MeshTraffic(traffic),
            mesh: Some(Box::new(mesh)),
            transmission: TransmissionParameters::DEFAULT,
            controller,
            server: ServerSpec::default(),
            others: Vec::new(),
            faults: Faults::default(),
            device: DeviceSpec::default(),
            until: Until::TimeLimit,
            time_limit: mesh::DURATION_MAX + mesh::DURATION_MAX,
            record: Recording::default(),
        }
    }

    /// All clients, of every group.
    pub fn all_clients(&self) -> u32 {
        let others = self.others.iter().map(|group| group.clients);
        others.fold(self.clients, u32::saturating_add)
    }

    /// Every group, the measured one first.
    pub(crate) fn groups(&self) -> Vec<GroupSpec<'_>> {
        let mut groups = vec![GroupSpec {
            number: 0,
            first: 0,
            clients: self.clients,
            transport: &self.transport,
            workload: &self.workload,
            transmission: &self.transmission,
            controller: &self.controller,
        }];
        let mut first = self.clients;
        for (group, number) in self.others.iter().zip(1..) {
            groups.push(GroupSpec {
                number,
                first,
                clients: group.clients,
                transport: &group.transport,
                workload: &group.workload,
                transmission: &group.transmission,
                controller: &group.controller,
            });
            first = first.saturating_add(group.clients);
        }
        groups
    }
}
