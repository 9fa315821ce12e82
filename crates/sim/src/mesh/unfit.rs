//! Networks that cannot be.

use std::fmt;

use carob_cc::time::Duration;

use super::lowpan::{self, Header, HopPosition, LowpanError, Protocol};
use super::message::SAID_BYTES;
use super::spec::{BurstKind, MeshSpec, NoRoute, Period};
use super::topology::TopologyError;
use crate::spec::{Recording, RunSpec, Transport};

/// The longest that a network runs, warm-up and duration each.
pub const DURATION_MAX: Duration = Duration::from_secs(7 * 24 * 3_600);
/// The most messages of a burst.
pub const BURST_MAX: u16 = 256;
/// The most messages that wait at a node.
pub const QUEUE_MAX: u16 = 1_024;
/// The most packets that wait at a node for a route.
pub const NO_ROUTE_MAX: u16 = 1_024;
/// The least time between two messages of a node.
pub const PERIOD_MIN: Duration = Duration::from_millis(1);

/// Why there can be no such network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unfit {
    /// A message, of so many bytes, too small for what it says; it needs at least so many.
    Message(u16),
    /// A token of 0 or more than 8 bytes.
    Token,
    /// Bursts of no messages, or of more than [`BURST_MAX`].
    Burst(u16),
    /// Messages come faster than [`PERIOD_MIN`], or are counted with no bytes.
    Period,
    /// A duration, bin or time between bursts of zero.
    NoTime,
    /// Warm-up or duration beyond [`DURATION_MAX`], or more bins than [`Recording::BINS_MAX`].
    TooLong,
    /// Warm-up and duration are longer than the run's time limit.
    TimeLimit,
    /// Queues beyond [`QUEUE_MAX`] or [`NO_ROUTE_MAX`].
    Queue(u16),
    /// Over connections there is nothing to compare.
    Connections,
    /// Other clients, or a server that takes its time.
    Company,
    /// A traced node that is none.
    Traced(u16),
    /// An adaptation layer that cannot be, or messages too large for it.
    Lowpan(LowpanError),
    /// A topology that cannot be.
    Topology(TopologyError),
}

impl fmt::Display for Unfit {
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

/// Header, Uri-Path of one character, payload marker and what a payload says; the token comes on top.
const AROUND_POST: u16 = 4 + 2 + 1 + PAYLOAD_LEAST;
/// Header, Observe, Max-Age and payload marker.
const AROUND_NOTIFICATION: u16 = 4 + 4 + 3 + 1 + PAYLOAD_LEAST;
/// A payload says whose message it is.
const PAYLOAD_LEAST: u16 = SAID_BYTES;

impl MeshSpec {
    /// Whether there can be such a network. What only its topology can tell comes with the run.
    pub fn check(&self, spec: &RunSpec) -> Result<(), Unfit> {
        let traffic = &self.traffic;
        if traffic.token_bytes == 0 || traffic.token_bytes > 8 {
            return Err(Unfit::Token);
        }
        let is_told = |bursts: &super::spec::Bursts| bursts.kind == BurstKind::Notifications;
        let around = if traffic.bursts.as_ref().is_some_and(is_told) {
            AROUND_NOTIFICATION.max(AROUND_POST)
        } else {
            AROUND_POST
        };
        let least = around + u16::from(traffic.token_bytes);
        if traffic.message_bytes < least {
            return Err(Unfit::Message(least));
        }
        if let Some(constant) = traffic.constant {
            let is_too_fast = match constant.period {
                Period::Each(period) => period < PERIOD_MIN,
                Period::Load(load) => load == 0 || traffic.counted_bytes == 0,
            };
            if is_too_fast {
                return Err(Unfit::Period);
            }
        }
        if let Some(bursts) = traffic.bursts {
            if bursts.messages == 0 || bursts.messages > BURST_MAX {
                return Err(Unfit::Burst(bursts.messages));
            }
            if bursts.every.is_some_and(Duration::is_zero) {
                return Err(Unfit::NoTime);
            }
        }
        if self.duration.is_zero() || self.bin.is_zero() {
            return Err(Unfit::NoTime);
        }
        let bins = self.duration.as_micros().div_ceil(self.bin.as_micros());
        if self.warm_up.max(self.duration) > DURATION_MAX || bins > Recording::BINS_MAX as u64 {
            return Err(Unfit::TooLong);
        }
        if self.warm_up + self.duration > spec.time_limit {
            return Err(Unfit::TimeLimit);
        }
        self.lowpan.check().map_err(Unfit::Lowpan)?;
        let header = Header::mesh(HopPosition::Middle, Protocol::Udp, self.lowpan.rpl_option);
        lowpan::frames(&self.lowpan, &header, traffic.message_bytes).map_err(Unfit::Lowpan)?;
        if self.node.queue > QUEUE_MAX {
            return Err(Unfit::Queue(self.node.queue));
        }
        if let NoRoute::Buffer(packets) = self.rpl.no_route
            && packets > NO_ROUTE_MAX
        {
            return Err(Unfit::Queue(packets));
        }
        if spec.transport != Transport::Datagrams {
            return Err(Unfit::Connections);
        }
        if !spec.others.is_empty() || spec.server.is_used() {
            return Err(Unfit::Company);
        }
        Ok(())
    }
}
