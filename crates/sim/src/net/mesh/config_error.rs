//! Checks of a network's specification.

use std::fmt;

use carob_cc::time::Duration;

use super::lowpan::{self, Header, HopPosition, LowpanError, Protocol};
use super::message::HEADER_BYTES;
use super::spec::{Bursts, MeshSpec, NoRoute, Period};
use super::topology::TopologyError;
use crate::client_groups::GroupSpec;
use crate::spec::{Recording, RunSpec, Transport, Workload};

/// The longest warm-up and the longest duration of a network.
pub const DURATION_MAX: Duration = Duration::from_secs(7 * 24 * 3_600);
/// The maximum number of messages in a burst.
pub const BURST_MAX: u16 = 256;
/// The maximum number of messages queued at a node.
pub const QUEUE_MAX: u16 = 1_024;
/// The maximum number of packets at a node that wait for a route.
pub const NO_ROUTE_MAX: u16 = 1_024;
/// The shortest time between two messages of a node.
pub const PERIOD_MIN: Duration = Duration::from_millis(1);

/// An invalid specification of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigError {
    /// A message size too small for the message's content; the minimum in bytes.
    Message(u16),
    /// A token of 0 or more than 8 bytes.
    Token,
    /// A burst of no messages, or of more than [`BURST_MAX`].
    Burst(u16),
    /// A message period below [`PERIOD_MIN`], or messages counted with no bytes.
    Period,
    /// A duration, bin or time between bursts of zero.
    NoTime,
    /// Warm-up or duration beyond [`DURATION_MAX`], or more bins than [`Recording::BINS_MAX`].
    TooLong,
    /// Warm-up and duration are longer than the run's time limit.
    TimeLimit,
    /// Queues beyond [`QUEUE_MAX`] or [`NO_ROUTE_MAX`].
    Queue(u16),
    /// TCP as transport, which a mesh does not simulate.
    Connections,
    /// Additional client groups, or a server with a service time.
    Company,
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
            Self::Message(least) => write!(f, "messages need at least {least} bytes"),
            Self::Token => f.write_str("a token has 1 to 8 bytes here"),
            Self::Burst(n) => write!(f, "bursts of {n} messages; they have 1 to {BURST_MAX}"),
            Self::Period => write!(
                f,
                "a node makes a message every {PERIOD_MIN} at most, and messages count some bytes"
            ),
            Self::NoTime => f.write_str("duration, bins and times between bursts are above zero"),
            Self::TooLong => write!(
                f,
                "warm-up and duration are at most {DURATION_MAX} each, and {} bins",
                Recording::BINS_MAX
            ),
            Self::TimeLimit => {
                f.write_str("warm-up and duration are longer than the time limit of a run")
            }
            Self::Queue(n) => write!(
                f,
                "a queue of {n}; at most {QUEUE_MAX} messages wait at a node, and {NO_ROUTE_MAX} packets for a route"
            ),
            Self::Connections => f.write_str("nodes send datagrams here, not segments of TCP"),
            Self::Company => f.write_str(
                "a wireless network has no other clients, and its sinks take no time but nodes' processing",
            ),
            Self::Lowpan(why) => write!(f, "{why}"),
            Self::Topology(why) => write!(f, "{why}"),
            Self::Traced(node) => write!(f, "there is no node {node} to trace"),
        }
    }
}

/// Header, Uri-Path of one character, payload marker and minimum payload; the token is extra.
const AROUND_POST: u16 = 4 + 2 + 1 + PAYLOAD_MIN;
/// Header, Observe, Max-Age, payload marker and minimum payload.
const AROUND_NOTIFICATION: u16 = 4 + 4 + 3 + 1 + PAYLOAD_MIN;
/// The minimum payload identifies the message.
const PAYLOAD_MIN: u16 = HEADER_BYTES;

impl MeshSpec {
    /// Checks the specification. Errors that depend on the topology are reported by the run.
    pub fn check(&self, spec: &RunSpec) -> Result<(), ConfigError> {
        if let Workload::Mesh = spec.workload {
            self.check_traffic()?;
            if !spec.others.is_empty() || spec.server.is_used() {
                return Err(ConfigError::Company);
            }
        }
        self.check_network(spec)
    }

    fn check_traffic(&self) -> Result<(), ConfigError> {
        let traffic = &self.traffic;
        if traffic.token_bytes == 0 || traffic.token_bytes > 8 {
            return Err(ConfigError::Token);
        }
        let around = if traffic.bursts.is_some_and(Bursts::notifies) {
            AROUND_NOTIFICATION.max(AROUND_POST)
        } else {
            AROUND_POST
        };
        let least = around + u16::from(traffic.token_bytes);
        if traffic.message_bytes < least {
            return Err(ConfigError::Message(least));
        }
        if let Some(constant) = traffic.constant {
            let is_too_fast = match constant.period {
                Period::Each(period) => period < PERIOD_MIN,
                Period::Load(load) => load == 0 || traffic.counted_bytes == 0,
            };
            if is_too_fast {
                return Err(ConfigError::Period);
            }
        }
        if let Some(bursts) = traffic.bursts {
            if bursts.messages == 0 || bursts.messages > BURST_MAX {
                return Err(ConfigError::Burst(bursts.messages));
            }
            if bursts.every.is_some_and(Duration::is_zero) {
                return Err(ConfigError::NoTime);
            }
        }
        lowpan::frames(&self.lowpan, &header(self), traffic.message_bytes)
            .map_err(ConfigError::Lowpan)?;
        Ok(())
    }

    fn check_network(&self, spec: &RunSpec) -> Result<(), ConfigError> {
        if self.duration.is_zero() || self.bin.is_zero() {
            return Err(ConfigError::NoTime);
        }
        let bins = self.duration.as_micros().div_ceil(self.bin.as_micros());
        if self.warm_up.max(self.duration) > DURATION_MAX || bins > Recording::BINS_MAX as u64 {
            return Err(ConfigError::TooLong);
        }
        if self.warm_up + self.duration > spec.time_limit {
            return Err(ConfigError::TimeLimit);
        }
        self.lowpan.check().map_err(ConfigError::Lowpan)?;
        let of_bursts = self.traffic.bursts.and_then(|bursts| bursts.queue);
        let queue = self.node.queue.max(of_bursts.unwrap_or(0));
        if queue > QUEUE_MAX {
            return Err(ConfigError::Queue(queue));
        }
        if let NoRoute::Buffer(packets) = self.rpl.no_route
            && packets > NO_ROUTE_MAX
        {
            return Err(ConfigError::Queue(packets));
        }
        for group in spec.groups() {
            if let Workload::Requests(requests) = group.workload {
                lowpan::frames(&self.lowpan, &header(self), requests.largest_message())
                    .map_err(ConfigError::Lowpan)?;
            }
        }
        let is_tcp = |group: &GroupSpec<'_>| *group.transport != Transport::Datagrams;
        if spec.groups().iter().any(is_tcp) {
            return Err(ConfigError::Connections);
        }
        Ok(())
    }
}

/// The headers of a datagram between two nodes, at a relay.
fn header(mesh: &MeshSpec) -> Header {
    Header::mesh(HopPosition::Middle, Protocol::Udp, mesh.lowpan.rpl_option)
}
