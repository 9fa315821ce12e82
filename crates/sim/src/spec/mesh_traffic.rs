//! Specification of the traffic of a mesh.

use std::fmt;

use carob_cc::time::Duration;

use crate::mesh::Node;
use crate::random::{Probability, Span, Stream};

/// The maximum number of messages in a burst.
pub const BURST_MAX: u16 = 256;
/// The maximum number of messages queued at a node.
pub const QUEUE_MAX: u16 = 1_024;
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
    /// Queue of messages at a node while NSTART exchanges are outstanding; 0 to drop them at once.
    pub queue: u16,
    /// Erbium's quirk: an exchange fails at once when its last retransmission is sent.
    pub gives_up_at_last_copy: bool,
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
    pub(crate) fn draw(self, period: Duration, stream: &mut Stream) -> Duration {
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

/// Bursts of messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bursts {
    /// Time of the first burst after the warm-up. A node's own offset, drawn uniformly from this
    /// span (stream `"mesh/burst"`, node), is the same for all of its bursts.
    pub first: Span,
    /// Time over which each burst is spread: a node's own offset, drawn uniformly from it (stream
    /// `"mesh/burst-offset"`, node), is the same for all of its bursts. Unlike with a range in `first`,
    /// metrics of the time around bursts remain.
    pub spread: Duration,
    /// Time between bursts; none for a single burst.
    pub every: Option<Duration>,
    /// Messages of each node in a burst.
    pub messages: u16,
    /// The receiving sink.
    pub to: Sink,
    /// The message type.
    pub kind: BurstKind,
    /// Messages of bursts that may wait at a node, including constant traffic; none for
    /// [`MeshTraffic::queue`]. POSTs only.
    pub queue: Option<u16>,
    /// Time after which a sink registers again, over the radio, where a node removed it from its
    /// observers because a CON notification failed (RFC 7641, 4.5); it tries again as often as its
    /// request fails. None for never.
    pub registers_again: Option<Duration>,
}

/// The message type of a burst.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BurstKind {
    /// CON POSTs.
    #[default]
    Posts,
    /// NON notifications, each about a separate resource, which the sink observes. The first
    /// registrations bypass the radio.
    Notifications,
}

impl Bursts {
    /// Returns whether the messages are notifications.
    pub(crate) fn notifies(self) -> bool {
        self.kind == BurstKind::Notifications
    }

    /// Time from the warm-up to a node's first burst.
    pub(crate) fn first_of(self, seed: u64, node: Node) -> Duration {
        let mut stream = Stream::indexed(seed, "mesh/burst", node.into());
        let first = stream.uniform(self.first.low, self.first.high);
        let mut stream = Stream::indexed(seed, "mesh/burst-offset", node.into());
        first + stream.uniform(Duration::ZERO, self.spread)
    }
}

/// Clients that stop for good after a response that follows another one soon.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientStops {
    /// Probability that a response which follows another one soon is a client's last (stream
    /// `"mesh/stop"`, node).
    pub probability: Probability,
    /// Time between two responses below which the second one is a hazard.
    pub within: Duration,
}

/// Size of a POST in bytes without token and payload.
pub(crate) const POST_AROUND: u16 = 4 + 2 + 1;
/// Size of a notification in bytes without token and payload: Observe of three bytes, Max-Age of
/// two.
pub(crate) const NOTIFICATION_AROUND: u16 = 4 + 4 + 3 + 1;

/// Size of the part of a payload that identifies its message, in bytes.
pub(crate) const HEADER_BYTES: u16 = 15;

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
    /// A queue beyond [`QUEUE_MAX`].
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
    /// Checks the traffic apart from the rest of the run.
    pub(super) fn check_alone(&self) -> Result<(), ConfigError> {
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
        }
        let of_bursts = self.bursts.and_then(|bursts| bursts.queue);
        match self.queue.max(of_bursts.unwrap_or_default()) {
            queue if queue > QUEUE_MAX => Err(ConfigError::Queue(queue)),
            _ => Ok(()),
        }
    }
}
