//! Specification of the traffic of a mesh.

use carob_cc::time::Duration;

use super::bursts::Bursts;
use super::client_stops::ClientStops;
use crate::random::Stream;
use crate::spec::Span;

/// Application traffic.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
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
    /// Offered load of all nodes together in bits per second, by [`Traffic::counted_bytes`].
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
