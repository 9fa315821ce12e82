//! Checks of a whole run, and their errors.

use std::fmt;

use carob_proto::endpoint::RequestError;

use super::faults::{FaultError, Faults};
use super::groups::{CLIENTS_MAX, ClientGroup};
use super::mesh_traffic::MeshTraffic;
use super::network::NetworkSpec;
use super::notifications::{DURATION_MAX, Notifications, PAYLOAD_MIN, RESOURCES_MAX};
use super::record::Recording;
use super::server::{PauseSchedule, SERVER_QUEUE_MAX, ServerSpec};
use super::workload::{Transport, Workload};
use super::{RunSpec, mesh_traffic, notifications};
use crate::link::fragments::MTU_MIN;
use crate::link::{DirectionSpec, Discipline};
use crate::mesh;
use crate::mesh::spec::MeshSpec;
use crate::tcp::TcpSettings;
use crate::tcp::segment::{IP_HEADER, TCP_HEADER};
use crate::tcp::settings::SettingsError;

impl RunSpec {
    /// Checks the run, apart from notification workloads and from the topology of a mesh.
    pub(crate) fn check(&self) -> Result<(), RunError> {
        let clients = self.all_clients();
        if self.measured.clients == 0 || clients > CLIENTS_MAX {
            return Err(RunError::Clients(clients));
        }
        for group in self.groups() {
            if let Transport::Connections(tcp) = &group.transport {
                tcp.check().map_err(RunError::Tcp)?;
            }
            let requests = group.workload.requests();
            if !requests.poll.is_zero() && group.transport != Transport::Datagrams {
                return Err(RunError::SleepyOverConnections);
            }
            if requests.periodic.is_some_and(|p| p.period.is_zero()) {
                return Err(RunError::Period);
            }
        }
        self.check_link()?;
        self.faults.check(self).map_err(RunError::Fault)?;
        if self.server.is_used() && self.has_connections() {
            return Err(RunError::ServiceOverConnections);
        }
        self.server.check()?;
        self.check_mesh()
    }

    /// Checks the link of a run, if it has one.
    fn check_link(&self) -> Result<(), RunError> {
        let NetworkSpec::Link(network) = &self.network else {
            return Ok(());
        };
        let mtu = network.mtu_bytes;
        if mtu < MTU_MIN {
            return Err(RunError::Mtu(mtu));
        }
        // Datagrams are fragmented, segments are not: TCP sends none beyond the MTU (RFC 9293 3.7.1).
        for group in self.groups() {
            if let Transport::Connections(TcpSettings { mss, .. }) = group.transport
                && mss > mtu - IP_HEADER - TCP_HEADER
            {
                return Err(RunError::Segment { mss, mtu });
            }
        }
        let is_fair =
            |line: &DirectionSpec| matches!(line.buffer.discipline, Discipline::FqCoDel(_));
        let has_queues = is_fair(&network.link.down) || is_fair(&network.link.up);
        if has_queues && self.has_connections() {
            return Err(RunError::FairQueueOverConnections);
        }
        network.device.check().map_err(RunError::Device)?;
        if network.device.has_windows() && (has_queues || self.has_connections()) {
            let why = "receive windows are of datagrams, and of links without FQ-CoDel";
            return Err(RunError::Device(why));
        }
        Ok(())
    }

    /// Checks the wireless network of a run, if it has one. Errors that depend on the topology are
    /// reported by the run.
    pub fn check_mesh(&self) -> Result<(), RunError> {
        let NetworkSpec::Mesh(mesh) = &self.network else {
            return Ok(());
        };
        if let Workload::MeshTraffic(traffic) = &self.measured.workload {
            traffic.check(self, mesh)?;
        }
        mesh.check().map_err(RunError::Mesh)?;
        if mesh.warm_up + mesh.duration > self.time_limit {
            return Err(RunError::MeshTimeLimit);
        }
        for group in self.groups() {
            if let Workload::Requests(requests) = &group.workload {
                mesh.check_payload(requests.largest_message())
                    .map_err(RunError::Mesh)?;
            }
            if group.transport != Transport::Datagrams {
                return Err(RunError::MeshOverConnections);
            }
        }
        Ok(())
    }
}

impl ServerSpec {
    /// Checks that its values are possible.
    pub fn check(&self) -> Result<(), RunError> {
        if !self.is_used() {
            return Ok(());
        }
        let is_whole = |pauses: &PauseSchedule| {
            let interval = pauses.interval;
            !pauses.lasts.is_zero() && (interval.is_zero() || interval > pauses.lasts)
        };
        if !self.pauses.as_ref().is_none_or(is_whole) {
            return Err(RunError::ServerPauses);
        }
        if self.queue == 0 || self.queue > SERVER_QUEUE_MAX {
            return Err(RunError::ServerQueue(self.queue));
        }
        Ok(())
    }
}

impl MeshTraffic {
    /// Checks the traffic of a run on a mesh.
    fn check(&self, spec: &RunSpec, mesh: &MeshSpec) -> Result<(), RunError> {
        self.check_alone().map_err(RunError::MeshTraffic)?;
        if !spec.others.is_empty() || spec.server.is_used() {
            return Err(RunError::MeshTraffic(mesh_traffic::ConfigError::Company));
        }
        mesh.check_payload(self.message_bytes)
            .map_err(RunError::Mesh)
    }
}

impl Notifications {
    /// Checks the specification.
    pub fn check(&self, spec: &RunSpec) -> Result<(), notifications::ConfigError> {
        if self.resources == 0 || self.resources > RESOURCES_MAX {
            return Err(notifications::ConfigError::Resources(self.resources));
        }
        if self.interval.is_zero() || self.bin.is_zero() || self.duration.is_zero() {
            return Err(notifications::ConfigError::NoTime);
        }
        let bins = self.duration.as_micros().div_ceil(self.bin.as_micros());
        let longest = self.warm_up.max(self.duration).max(self.offset.high);
        if longest > DURATION_MAX || bins > Recording::BINS_MAX as u64 {
            return Err(notifications::ConfigError::TooLong);
        }
        if self.warm_up + self.duration > spec.time_limit {
            return Err(notifications::ConfigError::TimeLimit);
        }
        // TKL is at most 8 (RFC 7252 3), and the observations of a client differ by their tokens.
        if self.token_bytes == 0 || self.token_bytes > 8 {
            return Err(notifications::ConfigError::Token);
        }
        if self.payload_bytes().is_none() {
            return Err(notifications::ConfigError::Message(
                self.around() + PAYLOAD_MIN,
            ));
        }
        if let NetworkSpec::Link(network) = &spec.network {
            let packet = self.message_bytes.saturating_add(network.header_bytes);
            if packet > network.mtu_bytes {
                return Err(notifications::ConfigError::Mtu(packet));
            }
        }
        if self.has_device_each && self.aggregate.is_some() {
            return Err(notifications::ConfigError::Budget);
        }
        if spec.measured.transport != Transport::Datagrams {
            return Err(notifications::ConfigError::Connections);
        }
        let notifies = |group: &ClientGroup| matches!(group.workload, Workload::Notifications(_));
        if spec.others.iter().any(notifies) || spec.server.is_used() {
            return Err(notifications::ConfigError::Company);
        }
        Ok(())
    }
}

impl Faults {
    /// Checks the faults of a run.
    ///
    /// # Errors
    ///
    /// The first setting that contradicts another, or the run's workload, transport or network.
    pub fn check(&self, spec: &RunSpec) -> Result<(), FaultError> {
        let of_hosts = [
            self.client_restarts.map(|_| "client_restart"),
            self.server_restarts.map(|_| "server_restart"),
            self.rebindings.map(|_| "rebinding"),
        ];
        for name in of_hosts.into_iter().flatten() {
            check_hosts(name, spec)?;
        }
        if let Some(restarts) = self.client_restarts {
            restarts.check(spec.time_limit)?;
        }
        if let Some(restarts) = self.server_restarts {
            restarts.check(spec.time_limit)?;
        }
        if let Some(rebindings) = self.rebindings {
            rebindings.check(spec.time_limit)?;
        }
        match self.outages {
            Some(_) if matches!(spec.network, NetworkSpec::Mesh(_)) => Err(FaultError {
                name: "outage",
                why: "an outage is of the link, and this run has a wireless network",
            }),
            Some(outages) => outages.check(spec.time_limit),
            None => Ok(()),
        }
    }
}

/// Checks that hosts with this fault send requests in datagrams.
fn check_hosts(name: &'static str, spec: &RunSpec) -> Result<(), FaultError> {
    let sends_requests = |group: &ClientGroup| matches!(group.workload, Workload::Requests(_));
    if !spec.groups().all(sends_requests) {
        let why = "it needs the workload \"requests\"; other workloads have outages only";
        return Err(FaultError { name, why });
    }
    if spec.has_connections() {
        let why = "it needs datagrams; leave out algorithms over TCP";
        return Err(FaultError { name, why });
    }
    Ok(())
}

/// An invalid specification of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RunError {
    /// No clients, or more than [`CLIENTS_MAX`].
    Clients(u32),
    /// An MTU, in bytes, below the smallest of any link.
    Mtu(u32),
    /// Segments of this MSS exceed the link's MTU, both in bytes.
    Segment {
        /// The MSS.
        mss: u32,
        /// The MTU.
        mtu: u32,
    },
    /// Contradictory settings of TCP.
    Tcp(SettingsError),
    /// A request that a client's endpoint rejects.
    Request(RequestError),
    /// A server with a service time, over connections.
    ServiceOverConnections,
    /// Queues of flows of datagrams, over connections.
    FairQueueOverConnections,
    /// Devices that cannot exist.
    Device(&'static str),
    /// A sleepy client, over connections.
    SleepyOverConnections,
    /// Periodic requests without a period.
    Period,
    /// A receive queue of no datagrams, or of more than [`SERVER_QUEUE_MAX`].
    ServerQueue(u32),
    /// Pauses of a server without a length, or longer than their interval.
    ServerPauses,
    /// An invalid notification workload.
    Notifications(notifications::ConfigError),
    /// An invalid wireless network, or messages too large for it.
    Mesh(mesh::ConfigError),
    /// Invalid traffic of a wireless network.
    MeshTraffic(mesh_traffic::ConfigError),
    /// Warm-up and duration of a wireless network are longer than the run's time limit.
    MeshTimeLimit,
    /// TCP on a wireless network, which carries datagrams.
    MeshOverConnections,
    /// An invalid fault.
    Fault(FaultError),
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Clients(n) => write!(f, "{n} clients; a run has 1 to {CLIENTS_MAX}"),
            Self::Mtu(mtu) => {
                write!(f, "an MTU of {mtu} bytes; a link's is at least {MTU_MIN}")
            }
            Self::Segment { mss, mtu } => {
                let headers = IP_HEADER + TCP_HEADER;
                let packet = u64::from(*mss) + u64::from(headers);
                write!(
                    f,
                    "segments of {packet} bytes on a link with an MTU of {mtu}"
                )
            }
            Self::Tcp(why) => write!(f, "{why}"),
            Self::Notifications(why) => write!(f, "{why}"),
            Self::Mesh(why) => write!(f, "{why}"),
            Self::MeshTraffic(why) => write!(f, "{why}"),
            Self::MeshTimeLimit => {
                f.write_str("warm-up and duration are longer than the time limit of a run")
            }
            Self::MeshOverConnections => {
                f.write_str("nodes send datagrams here, not segments of TCP")
            }
            Self::Fault(why) => write!(f, "{why}"),
            Self::Request(error) => write!(f, "a client cannot send its request: {error}"),
            Self::ServiceOverConnections => {
                f.write_str("a service time is of datagrams; over connections requests cost none")
            }
            Self::FairQueueOverConnections => {
                f.write_str("FQ-CoDel has flows of datagrams; over connections use CoDel")
            }
            Self::Device(why) => write!(f, "devices: {why}"),
            Self::SleepyOverConnections => {
                f.write_str("datagrams wait for a sleepy client's poll; over connections none does")
            }
            Self::Period => f.write_str("the period of periodic requests is above zero"),
            Self::ServerPauses => {
                f.write_str("a server's pauses take some time, and less than from one to the next")
            }
            Self::ServerQueue(n) => write!(
                f,
                "a receive queue of {n} datagrams; a server's has 1 to {SERVER_QUEUE_MAX}"
            ),
        }
    }
}

impl std::error::Error for RunError {}
