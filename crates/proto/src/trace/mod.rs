//! Protocol events as data, for logs, figures and the simulator's records.

mod json;

use core::net::SocketAddr;

use carob_cc::evidence::Kind;
use carob_cc::time::{Duration, Instant};

use crate::codec::{Code, MessageId, Type};

/// One protocol event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trace {
    /// When.
    pub at: Instant,
    /// With whom.
    pub peer: SocketAddr,
    /// What happened.
    pub what: What,
}

pub use json::Json;

impl Trace {
    /// The event as one line of JSON, for event logs.
    pub fn json(&self) -> Json<'_> {
        Json(self)
    }
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum What {
    /// A copy of a message of our own left.
    Sent {
        /// Its Message ID.
        id: MessageId,
        /// CON or NON.
        kind: Type,
        /// What it is: a request, a separate response or a notification.
        purpose: Kind,
        /// 0 for the original.
        retransmissions: u8,
        /// The timer that now runs (CON only).
        timeout: Option<Duration>,
        /// Size of the message in bytes.
        bytes: u32,
    },
    /// An exchange of ours was answered.
    Answered {
        /// Its Message ID.
        id: MessageId,
        /// Copies sent beyond the original.
        retransmissions: u8,
        /// Time since the original copy.
        since_original: Duration,
        /// The controller's overall RTO afterwards, if it keeps one.
        rto: Option<Duration>,
    },
    /// An exchange of ours was answered again.
    AnsweredAgain {
        /// Its Message ID.
        id: MessageId,
    },
    /// A notification that nobody acknowledged gives way to a newer one, in a message of its own;
    /// its count and timer go on with that.
    Superseded {
        /// Its Message ID.
        id: MessageId,
    },
    /// A notification was dropped because as many as may wait did
    /// ([`NotificationQueue::Queue`](crate::endpoint::NotificationQueue::Queue)).
    NotificationDropped,
    /// An exchange of ours was given up.
    Abandoned {
        /// Its Message ID, if it ever left.
        id: Option<MessageId>,
        /// Copies sent beyond the original.
        retransmissions: u8,
    },
    /// A request of ours was answered with a challenge, and repeated with the Echo value it gave
    /// (RFC 9175 2.3).
    Challenged,
    /// A duplicate of a message arrived and was answered from memory or ignored.
    Duplicate {
        /// Its Message ID.
        id: MessageId,
    },
    /// A message arrived. Reported only with
    /// [`Tracing::Everything`](crate::endpoint::Tracing::Everything), like the next.
    Received {
        /// Its Message ID.
        id: MessageId,
        /// Its type.
        kind: Type,
        /// Its code.
        code: Code,
        /// Size of the message in bytes.
        bytes: u32,
    },
    /// A message was answered with an acknowledgement, a piggybacked response or a reset.
    Replied {
        /// Its Message ID.
        id: MessageId,
        /// ACK or RST.
        kind: Type,
        /// Its code.
        code: Code,
        /// Size of the answer in bytes.
        bytes: u32,
    },
    /// The peer observes a resource of ours.
    Observed,
    /// The peer observes a resource of ours no more.
    Unobserved,
    /// What we know of a resource of the peer's went stale.
    Stale,
    /// A datagram was no CoAP message and was rejected or ignored; or what came on a connection was
    /// none, and the connection was aborted.
    Malformed,
    /// A connection with the peer is there. On it, Message IDs only tell which events belong
    /// together.
    Connected,
    /// A connection has ended.
    Disconnected,
}
