//! Specification of the traffic of a mesh.

use std::fmt;

use carob_cc::time::Duration;

use super::bursts::Bursts;
use super::client_stops::ClientStops;
use super::message::HEADER_BYTES;
use super::node::{NOTIFICATION_AROUND, POST_AROUND};
use crate::engine::RunError;
use crate::mesh::QUEUE_MAX;
use crate::mesh::spec::MeshSpec;
use crate::random::{Span, Stream};
use crate::spec::RunSpec;

/// The maximum number of messages in a burst.
pub const BURST_MAX: u16 = 256;
/// The shortest time between two messages of a node.
pub const PERIOD_MIN: Duration = Duration::from_millis(1);

/// Traffic of a mesh: messages of its nodes to its sinks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MeshTraffic {
    /// Messages that each generator sends to the primary sink at a constant rate.
    pub constant: Option<Constant>,
    /// Messages that all generators send at the same moments.
    pub bursts: Option<Bursts>,
    /// Size of a message in bytes as counted in offered and carried load.
    pub counted_bytes: u16,
    /// Size of a message in bytes, from CoAP's header to the end of its payload.
    pub message_bytes: u16,
    /// Length of tokens in bytes.
    pub token_bytes: u8,
    /// The bin that a message's delay is counted in.
    pub delay_bins: DelayBins,
    /// Clients that stop for good; none for clients that never do.
    pub stops: Option<ClientStops>,
}

/// The bin of time series that counts a message's delay; settling times after a burst follow from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DelayBins {
    /// The bin in which the message was generated.
    #[default]
    Generation,
    /// The bin in which it was received.
    Reception,
}

/// Constant traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Constant {
    /// Time between two messages of a node, the same for all nodes. A node's first message is at a
    /// uniformly drawn part of it (stream `"mesh/phase"`, node), or at `start`.
    pub period: Period,
    /// The span after the warm-up from which each node's start is drawn uniformly; none for the
    /// first period.
    pub start: Option<Span>,
    /// The distribution of the time between two messages of a node; its mean is the period. Drawn gaps
    /// come from the stream `"mesh/gap"` of the node.
    pub gaps: Gaps,
}

/// Distributions of the time between two messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Gaps {
    /// The period itself.
    #[default]
    Fixed,
    /// Uniform within this share of the period around it, in parts per million: with 1,000,000 from
    /// zero to twice the period.
    Uniform(u32),
    /// Exponential.
    Exponential,
}

impl Gaps {
    /// Draws the time to the next message.
    pub(super) fn draw(self, period: Duration, stream: &mut Stream) -> Duration {
        match self {
            Self::Fixed => period,
            Self::Uniform(ppm) => {
                let spread = u128::from(period.as_micros()) * u128::from(ppm) / 1_000_000;
                let spread = Duration::from_micros(spread as u64);
                stream.uniform(period.saturating_sub(spread), period + spread)
            }
            Self::Exponential => stream.exponential(period),
        }
    }
}

/// The message rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Period {
    /// One message of each node in this time.
    Each(Duration),
    /// Offered load of all nodes together in bits per second, by [`MeshTraffic::counted_bytes`].
    Load(u32),
}

/// Sinks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sink {
    /// The primary sink.
    #[default]
    Primary,
    /// The secondary sink.
    Secondary,
}

/// Invalid traffic of a mesh.
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
    /// A time between bursts of zero.
    NoTime,
    /// A queue of bursts beyond [`QUEUE_MAX`].
    Queue(u16),
    /// Additional client groups, or a server with a service time.
    Company,
    /// A network without nodes that generate messages: a link.
    NoMesh,
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
            Self::NoTime => f.write_str("the time between bursts is above zero"),
            Self::Queue(n) => write!(
                f,
                "a queue of {n}; at most {QUEUE_MAX} messages wait at a node"
            ),
            Self::Company => f.write_str(
                "a wireless network has no other clients, and its sinks take no time but nodes' processing",
            ),
            Self::NoMesh => f.write_str("traffic of a mesh needs a wireless network"),
        }
    }
}

impl std::error::Error for ConfigError {}

impl MeshTraffic {
    /// Checks the traffic of a run on a mesh.
    pub(crate) fn check(&self, spec: &RunSpec, mesh: &MeshSpec) -> Result<(), RunError> {
        self.check_alone().map_err(RunError::MeshTraffic)?;
        if !spec.others.is_empty() || spec.server.is_used() {
            return Err(RunError::MeshTraffic(ConfigError::Company));
        }
        mesh.check_payload(self.message_bytes)
            .map_err(RunError::Mesh)
    }

    fn check_alone(&self) -> Result<(), ConfigError> {
        if self.token_bytes == 0 || self.token_bytes > 8 {
            return Err(ConfigError::Token);
        }
        let around = if self.bursts.is_some_and(Bursts::notifies) {
            NOTIFICATION_AROUND.max(POST_AROUND)
        } else {
            POST_AROUND
        };
        let least = around + HEADER_BYTES + u16::from(self.token_bytes);
        if self.message_bytes < least {
            return Err(ConfigError::Message(least));
        }
        if let Some(constant) = self.constant {
            let is_too_fast = match constant.period {
                Period::Each(period) => period < PERIOD_MIN,
                Period::Load(load) => load == 0 || self.counted_bytes == 0,
            };
            if is_too_fast {
                return Err(ConfigError::Period);
            }
        }
        if let Some(bursts) = self.bursts {
            if bursts.messages == 0 || bursts.messages > BURST_MAX {
                return Err(ConfigError::Burst(bursts.messages));
            }
            if bursts.every.is_some_and(Duration::is_zero) {
                return Err(ConfigError::NoTime);
            }
            if let Some(queue) = bursts.queue.filter(|queue| *queue > QUEUE_MAX) {
                return Err(ConfigError::Queue(queue));
            }
        }
        Ok(())
    }
}
