//! Protocol events as data, for logs, figures and the simulator's records.

mod json;

use core::fmt;
use core::net::SocketAddr;

use carob_cc::evidence::Kind;
use carob_cc::time::{Duration, Instant};

use crate::codec::{Code, MessageId, Type};

use crate::trace::json::Json;

/// One protocol event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trace {
    /// The time of the event.
    pub at: Instant,
    /// The peer.
    pub peer: SocketAddr,
    /// The event.
    pub event: TraceEvent,
}

impl Trace {
    /// Returns the event as one line of JSON, for event logs.
    pub fn json(&self) -> impl fmt::Display + use<'_> {
        Json(self)
    }
}

/// Kinds of protocol events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TraceEvent {
    /// A message was sent or retransmitted by this endpoint.
    Sent {
        /// The Message ID.
        id: MessageId,
        /// CON or NON.
        kind: Type,
        /// The purpose: a request, a separate response or a notification.
        purpose: Kind,
        /// 0 for the original transmission.
        retransmissions: u8,
        /// The retransmission timeout now running (CON only).
        timeout: Option<Duration>,
        /// Size of the message in bytes.
        bytes: u32,
    },
    /// An exchange of this endpoint was answered.
    Answered {
        /// The Message ID.
        id: MessageId,
        /// Retransmissions sent.
        retransmissions: u8,
        /// Time since the original transmission.
        since_original: Duration,
        /// The controller's overall RTO afterwards, if it has one.
        rto: Option<Duration>,
    },
    /// An exchange of this endpoint was answered again.
    AnsweredAgain {
        /// The Message ID.
        id: MessageId,
    },
    /// An unacknowledged notification was superseded by a newer one, in a separate message. Its
    /// retransmission count and timer carry over (RFC 7641 4.5.2).
    Superseded {
        /// The Message ID.
        id: MessageId,
    },
    /// A notification was dropped because the queue was full
    /// ([`NotificationQueue::Queue`](crate::endpoint::NotificationQueue::Queue)).
    NotificationDropped,
    /// An exchange of this endpoint was given up.
    Abandoned {
        /// The Message ID, if the message was ever sent.
        id: Option<MessageId>,
        /// Retransmissions sent.
        retransmissions: u8,
    },
    /// A request of this endpoint was challenged, and repeated with the Echo value received (RFC
    /// 9175 2.3).
    Challenged,
    /// The peer reported blocks received and missing (RFC 9177): those missing.
    BlocksMissing {
        /// Missing blocks; 0 if a set is complete.
        missing: u32,
    },
    /// Blocks received and missing were reported to the peer (RFC 9177).
    BlocksReported {
        /// Missing blocks; 0 if a set is complete.
        missing: u32,
    },
    /// A duplicate message was received, and answered from memory or ignored.
    Duplicate {
        /// The Message ID.
        id: MessageId,
    },
    /// A message was received. Reported only with
    /// [`Tracing::Everything`](crate::endpoint::Tracing::Everything), like the next.
    Received {
        /// The Message ID.
        id: MessageId,
        /// The message type.
        kind: Type,
        /// The code.
        code: Code,
        /// Size of the message in bytes.
        bytes: u32,
    },
    /// A message was answered with an acknowledgement, a piggybacked response or a reset.
    Replied {
        /// The Message ID.
        id: MessageId,
        /// ACK or RST.
        kind: Type,
        /// The code.
        code: Code,
        /// Size of the reply in bytes.
        bytes: u32,
    },
    /// The peer began to observe a resource of this endpoint.
    Observed,
    /// The peer stopped observing a resource of this endpoint.
    Unobserved,
    /// An observed representation of the peer became stale.
    Stale,
    /// Bytes received are not a CoAP message. A datagram was rejected or ignored, a connection
    /// aborted.
    Malformed,
    /// A datagram was longer than this endpoint receives.
    Oversized,
    /// Messages to the peer wait for a Message ID: all are within EXCHANGE_LIFETIME (RFC 7252 4.4).
    MessageIdsExhausted {
        /// Time until one is free.
        wait: Duration,
    },
    /// A connection with the peer is established. Its Message IDs only relate events to each other.
    Connected,
    /// A connection with the peer ended.
    Disconnected,
}
