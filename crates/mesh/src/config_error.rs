//! Checks of a network's specification.

use std::fmt;

use carob_cc::time::Duration;

use super::lowpan::{self, Header, HopPosition, LowpanError, Protocol};
use super::spec::{MeshSpec, NoRoute};
use super::topology::{Topology, TopologyError};

/// The longest warm-up and the longest duration of a network.
pub const DURATION_MAX: Duration = Duration::from_secs(7 * 24 * 3_600);
/// The maximum number of bins of a time series.
pub const BINS_MAX: u64 = 1 << 16;
/// The maximum number of packets at a node that wait for a route.
pub const NO_ROUTE_MAX: u16 = 1_024;

/// An invalid specification of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigError {
    /// A duration or bin of zero.
    NoTime,
    /// Warm-up or duration beyond [`DURATION_MAX`], or more bins than [`BINS_MAX`].
    TooLong,
    /// A queue of packets without a route beyond [`NO_ROUTE_MAX`].
    Queue(u16),
    /// An unknown traced node.
    Traced(u16),
    /// An invalid adaptation layer, or messages too large for it.
    Lowpan(LowpanError),
    /// An invalid topology.
    Topology(TopologyError),
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoTime => f.write_str("duration and bins are above zero"),
            Self::TooLong => write!(
                f,
                "warm-up and duration are at most {DURATION_MAX} each, and {BINS_MAX} bins"
            ),
            Self::Queue(n) => write!(
                f,
                "a queue of {n}; at most {NO_ROUTE_MAX} packets wait for a route"
            ),
            Self::Traced(node) => write!(f, "there is no node {node} to trace"),
            Self::Lowpan(why) => write!(f, "{why}"),
            Self::Topology(why) => write!(f, "{why}"),
        }
    }
}

impl std::error::Error for ConfigError {}

impl MeshSpec {
    /// Checks the specification. Errors that depend on the topology are reported by the run.
    pub fn check(&self) -> Result<(), ConfigError> {
        if self.duration.is_zero() || self.bin.is_zero() {
            return Err(ConfigError::NoTime);
        }
        let bins = self.duration.as_micros().div_ceil(self.bin.as_micros());
        if self.warm_up.max(self.duration) > DURATION_MAX || bins > BINS_MAX {
            return Err(ConfigError::TooLong);
        }
        self.lowpan.check().map_err(ConfigError::Lowpan)?;
        match self.rpl.no_route {
            NoRoute::Buffer(packets) if packets > NO_ROUTE_MAX => Err(ConfigError::Queue(packets)),
            _ => Ok(()),
        }
    }

    /// Checks that a datagram with this UDP payload fits the adaptation layer between two nodes,
    /// at a relay.
    pub fn check_payload(&self, bytes: u16) -> Result<(), ConfigError> {
        let header = Header::mesh(HopPosition::Middle, Protocol::Udp, self.lowpan.rpl_option);
        let frames = lowpan::frames(&self.lowpan, &header, bytes);
        frames.map(drop).map_err(ConfigError::Lowpan)
    }

    /// The topology, from which every node can reach the root.
    pub(super) fn built_topology(&self) -> Result<Topology, ConfigError> {
        let topology = Topology::new(&self.topology).map_err(ConfigError::Topology)?;
        let checked = topology.check(&self.radio).map_err(ConfigError::Topology);
        checked.map(|()| topology)
    }
}
