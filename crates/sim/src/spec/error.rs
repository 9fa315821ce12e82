//! Errors of a run's specification.

use std::fmt;

use carob_proto::endpoint::RequestError;

use super::faults::FaultError;
use super::groups::CLIENTS_MAX;
use super::server::SERVER_QUEUE_MAX;
use super::{mesh_traffic, notifications};
use crate::link::fragments::MTU_MIN;
use crate::mesh;
use crate::tcp::segment::{IP_HEADER, TCP_HEADER};
use crate::tcp::settings::SettingsError;

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
