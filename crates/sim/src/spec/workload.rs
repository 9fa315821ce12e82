//! Workloads of clients, and their transports.

use std::sync::LazyLock;

use carob_cc::time::Duration;

use super::mesh_traffic::MeshTraffic;
use super::notifications::Notifications;
use crate::random::{Probability, Span};
use crate::tcp::TcpSettings;

/// The transport of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "a run has one")]
pub enum Transport {
    /// UDP: the stack's message layer retransmits (RFC 7252 4).
    Datagrams,
    /// TCP with these settings at both ends (RFC 8323). Each client connects first, which is not
    /// part of its flow: its first request is sent on the established connection.
    Connections(TcpSettings),
}

/// The workload of clients.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Workload {
    /// Each client sends requests, sequentially or in parallel.
    Requests(Requests),
    /// Each client observes resources of the server, which sends rounds of notifications. The
    /// server is on the constrained side of the link then.
    Notifications(Notifications),
    /// Nodes of a wireless network send messages to its sinks. Of the run's other settings, only
    /// seed, network, transmission parameters, controller, time limit and recording apply then.
    MeshTraffic(MeshTraffic),
}

impl Workload {
    /// The requests of clients; none for other workloads.
    pub fn requests(&self) -> &Requests {
        static NONE: LazyLock<Requests> = LazyLock::new(Requests::default);
        match self {
            Self::Requests(requests) => requests,
            Self::Notifications(_) | Self::MeshTraffic(_) => &NONE,
        }
    }
}

/// Requests of a client, each sent after the previous response: a GET without a body, else a POST.
///
/// Over datagrams a body larger than a block is transferred block-wise (RFC 7959), over connections
/// in one message of up to 32 MiB.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    /// Number of requests.
    pub count: u32,
    /// Size of each request's body in bytes.
    pub request_bytes: u32,
    /// Size of each response's body in bytes.
    pub response_bytes: u32,
    /// Size of a block in bytes: a power of two from 16 to 1024.
    pub block_bytes: u16,
    /// Uri-Path, one segment.
    pub path: String,
    /// Length of the token in bytes, 0 to 8.
    pub token_bytes: u8,
    /// Number of requests passed to the endpoint at once, at least 1; NSTART limits those
    /// outstanding.
    pub parallel: u32,
    /// Batches with client restarts in between, if any.
    pub batches: Option<Batches>,
    /// The client's reaction to a failed request.
    pub after_failure: AfterFailure,
    /// Periodic requests; none to send each after the previous response.
    pub periodic: Option<Periodic>,
    /// Interval at which a sleepy client polls: datagrams for it wait until it polls. Zero for a client
    /// that always receives. A client's first poll is drawn uniformly from the first interval, on
    /// the stream (`"client/poll"`, client). Datagrams only.
    pub poll: Duration,
    /// Options of bodies larger than a block over datagrams.
    pub q_block: QBlock,
}

/// Options of block-wise transfers over datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QBlock {
    /// Block1 and Block2 (RFC 7959).
    #[default]
    Off,
    /// Q-Block1 and Q-Block2 (RFC 9177) in CON requests.
    Confirmable,
    /// The same in NON requests.
    NonConfirmable,
}

/// Periodic requests of a client that keeps its state, as of a device that reports: whatever became
/// of earlier requests, the next ones are due by the clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Periodic {
    /// Time from one nominal time to the next, the first being the client's start; above zero.
    pub period: Duration,
    /// The most that a request comes after its nominal time, drawn uniformly (stream
    /// `"client/period"`, client).
    pub jitter: Duration,
    /// Requests at once in a burst, at least 1.
    pub burst: u32,
    /// Probability that a time brings a burst instead of a single request, on the same stream.
    pub burst_probability: Probability,
}

impl Requests {
    /// Returns whether a body is larger than a block, so that it is transferred block-wise over
    /// datagrams.
    pub fn has_blocks(&self) -> bool {
        self.request_bytes.max(self.response_bytes) > u32::from(self.block_bytes)
    }

    /// Size of the largest message over datagrams in bytes, at most: a block with its options.
    pub(crate) fn largest_message(&self) -> u16 {
        /// Header, Block2, Size2, marker, and the lengths of options.
        const AROUND: usize = 16;
        /// Request-Tag or ETag, and Size1 or Size2 in every block.
        const Q_BLOCK: usize = 12;
        let around = AROUND
            + if self.q_block == QBlock::Off {
                0
            } else {
                Q_BLOCK
            };
        let body = self.request_bytes.max(self.response_bytes);
        let block = body.min(self.block_bytes.into()) as usize;
        let message = around + usize::from(self.token_bytes) + self.path.len() + block;
        u16::try_from(message).unwrap_or(u16::MAX)
    }
}

/// A client's reaction to a failed request: one that was given up, or whose response is no success.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AfterFailure {
    /// Ends its flow.
    #[default]
    Stop,
    /// Sends the next request.
    Next,
}

/// Requests in batches with a restart of the client after each, as of a device that sleeps or
/// reboots. It returns from another port without any state: its controller is new, and a connection
/// is closed and another one made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Batches {
    /// Minimum requests of a batch, at least 1. Each batch draws its number uniformly, on the
    /// stream (`"client/batch"`, client).
    pub least: u32,
    /// Maximum requests of a batch.
    pub most: u32,
    /// Pause between the end of a batch and the next, drawn on the same stream.
    pub pause: Span,
    /// Beginning of the pause, over connections.
    pub reconnect: Reconnect,
}

/// The time at which a client that has left a connection makes another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reconnect {
    /// At once; the old one closes on its own.
    #[default]
    AtOnce,
    /// After the server's FIN as well: the client waits for its connection to close.
    Closed,
    /// After the last ACK as well: one and a half round trips where the client closes first.
    ClosedByBoth,
}
