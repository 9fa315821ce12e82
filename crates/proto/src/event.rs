//! Outputs of an endpoint for its driver and its application.

use core::fmt;
use core::net::SocketAddr;

use bytes::Bytes;
use carob_cc::time::Instant;

use crate::block::download::DownloadError;
use crate::codec::{Code, DecodeErrorKind, EncodeError, OptionNumber, OptionsError};
use crate::escape::Escaped;
use crate::message::Response;
use crate::observe::Subject;
use crate::trace::Trace;

/// A request of this endpoint, valid until its last event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId {
    pub(crate) index: u32,
    pub(crate) serial: u32,
}

/// A received request, valid until its response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IncomingId {
    pub(crate) index: u32,
    pub(crate) serial: u32,
}

/// The result of [`Endpoint::poll`](crate::endpoint::Endpoint::poll).
#[derive(Debug)]
#[non_exhaustive]
pub enum Output<'a> {
    /// A datagram to send.
    Transmit {
        /// The destination.
        to: SocketAddr,
        /// The bytes, valid until the next call.
        bytes: &'a [u8],
    },
    /// A connection to make, reported by [`connected`](crate::endpoint::Endpoint::connected) or
    /// [`disconnected`](crate::endpoint::Endpoint::disconnected). With
    /// [secured](crate::endpoint::Config::secured) datagrams, a session, reported by
    /// [`session_opened`](crate::endpoint::Endpoint::session_opened) or
    /// [`session_not_made`](crate::endpoint::Endpoint::session_not_made).
    Connect {
        /// The peer.
        to: SocketAddr,
    },
    /// A connection to close, after all earlier output for it. The endpoint has dropped its state.
    ///
    /// With [secured](crate::endpoint::Config::secured) datagrams: the peer does not reply and may
    /// have lost its session. The driver reports that the session
    /// [exists](crate::endpoint::Endpoint::session_opened), or that it [has
    /// ended](crate::endpoint::Endpoint::session_ended) and a new one is to be made.
    Close {
        /// The peer.
        to: SocketAddr,
    },
    /// An event for the application.
    Event(Event),
    /// Nothing to do before this time or the next input.
    Wait(Option<Instant>),
}

/// An event for the application.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event {
    /// A request was received. Read it with [`incoming`](crate::endpoint::Endpoint::incoming) and
    /// respond with [`respond`](crate::endpoint::Endpoint::respond).
    Request(IncomingId),
    /// The response to a request of this endpoint, its body complete. The last event of the
    /// request.
    Response {
        /// The request.
        id: RequestId,
        /// The response.
        response: Response,
    },
    /// The beginning of a streamed response; chunks of the body follow.
    ResponseHead {
        /// The request.
        id: RequestId,
        /// Code and options; the payload is empty.
        response: Response,
        /// Size of the body in bytes, if the server announced it.
        size: Option<u64>,
    },
    /// The next chunk of a streamed body. `last` makes it the last event of the request.
    ResponseChunk {
        /// The request.
        id: RequestId,
        /// The bytes; [`read_on`](crate::endpoint::Endpoint::read_on) requests more.
        bytes: Bytes,
        /// Nothing follows.
        last: bool,
    },
    /// A streamed request body needs more bytes from [`supply`](crate::endpoint::Endpoint::supply).
    BodyNeeded(RequestId),
    /// A request ended without a response, which its No-Response option permits (RFC 7967). The
    /// last event of the request.
    ResponseSuppressed(RequestId),
    /// A group member's response to a multicast request. More may follow, until
    /// [`MulticastComplete`](Self::MulticastComplete) or [`Failed`](Self::Failed).
    MulticastResponse {
        /// The request.
        id: RequestId,
        /// The group member.
        from: SocketAddr,
        /// The response, or the failure of its transfer.
        response: Result<Response, Failure>,
    },
    /// No more responses to a multicast request are expected. The last event of the request.
    MulticastComplete(RequestId),
    /// A ping was answered. The last event of the ping.
    Pong(RequestId),
    /// A request of this endpoint failed. The last event of the request.
    Failed {
        /// The request.
        id: RequestId,
        /// The reason.
        failure: Failure,
    },
    /// A notification of an observed resource, or the first response. More follow, until a
    /// [`Response`](Self::Response) or [`Failed`](Self::Failed) ends the request.
    Notification {
        /// The observation.
        id: RequestId,
        /// The representation, its body complete.
        response: Response,
    },
    /// The representation of an observed resource is stale: its Max-Age has passed, or the renewal
    /// of the observation has failed. The engine keeps renewing it (RFC 7641 3.3.1).
    Stale {
        /// The observation.
        id: RequestId,
        /// The failure of the last renewal, if it failed.
        failure: Option<Failure>,
    },
    /// The subject has no observers left.
    Unobserved(Subject),
    /// A protocol event, if [`Config::trace`](crate::endpoint::Config::trace) is set.
    Trace(Trace),
}

/// Reasons a request of this endpoint got no usable response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Failure {
    /// The last retransmission timed out.
    TimedOut {
        /// Transmissions, including the original.
        copies: u8,
    },
    /// The peer acknowledged the request, or received it over a connection, but its response timed
    /// out.
    NoResponse,
    /// The application's deadline passed.
    DeadlinePassed,
    /// The reply was malformed, and so were those to retransmissions, if any came.
    MalformedReply(DecodeErrorKind),
    /// The reply was in a datagram longer than this endpoint receives.
    OversizedReply,
    /// The peer refused the message (RST).
    Reset,
    /// The network reports the peer unreachable.
    Unreachable,
    /// The connection ended.
    Disconnected(Disconnect),
    /// The session ended in which it was sent (RFC 7252 9.1.1).
    SessionEnded(SessionEnd),
    /// The response has an unrecognized critical option.
    UnknownOption(OptionNumber),
    /// The server is overloaded or limits the rate (4.29 or 5.03).
    NotNow(Code),
    /// The response body could not be reassembled.
    Body(DownloadError),
    /// The response has a malformed block option.
    BadBlock,
    /// The server ended the transfer of the body with this code.
    Interrupted(Code),
    /// The server took a part of the request body for the whole.
    CutShort {
        /// Bytes sent, at least.
        taken: u64,
    },
    /// The queue of this peer is full ([`Limits::queue`](crate::endpoint::Limits::queue)).
    QueueFull,
    /// A message could not be built.
    Encode(EncodeError),
    /// The options of the response exceed the limits.
    Options(OptionsError),
    /// The endpoint was shut down.
    ShutDown,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TimedOut { copies: 1 } => f.write_str("no reply to the only transmission"),
            Self::TimedOut { copies } => write!(f, "no reply to any of {copies} transmissions"),
            Self::NoResponse => {
                f.write_str("the request was acknowledged, but no response arrived")
            }
            Self::DeadlinePassed => f.write_str("the deadline passed"),
            Self::MalformedReply(kind) => write!(f, "the reply is malformed: {kind}"),
            Self::OversizedReply => f.write_str("the reply is longer than a datagram may be here"),
            Self::Reset => f.write_str("the peer refused the message (RST)"),
            Self::Unreachable => f.write_str("the peer cannot be reached"),
            Self::Disconnected(why) => write!(f, "{why}"),
            Self::SessionEnded(why) => write!(f, "{why}"),
            Self::UnknownOption(number) => {
                write!(
                    f,
                    "the response has the unrecognized critical option {}",
                    number.0
                )
            }
            Self::NotNow(code) => write!(f, "the server responded with {code}"),
            Self::Body(error) => write!(f, "{error}"),
            Self::BadBlock => f.write_str("the response has a malformed block option"),
            Self::Interrupted(code) => write!(f, "the server aborted the transfer with {code}"),
            Self::CutShort { taken } => write!(
                f,
                "the server took the first {taken} bytes for the complete body"
            ),
            Self::QueueFull => f.write_str("the send queue of this peer is full"),
            Self::Encode(error) => write!(f, "the message cannot be built: {error}"),
            Self::Options(error) => write!(f, "the response's options are too large: {error}"),
            Self::ShutDown => f.write_str("the endpoint was shut down"),
        }
    }
}

impl core::error::Error for Failure {}

/// Reasons a request is rejected locally.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RequestError {
    /// The limit [`Limits::requests`](crate::endpoint::Limits::requests) is reached.
    RequestsFull,
    /// The queue of this peer is full ([`Limits::queue`](crate::endpoint::Limits::queue)).
    QueueFull,
    /// The limit [`Limits::peers`](crate::endpoint::Limits::peers) is reached.
    PeersFull,
    /// The code is not a request method.
    NotARequest,
    /// The method cannot observe: only GET and FETCH can (RFC 7641 2, RFC 8132 2.4), FETCH only
    /// with its whole body, which each renewal sends again.
    NotObservable,
    /// The method is not defined to have a payload (RFC 7252 5.5).
    PayloadNotAllowed,
    /// The address cannot be sent to (multicast, unspecified, or port 0).
    BadAddress,
    /// The option is not permitted in a multicast request: ETag in a GET (RFC 7252 8.2.1), block
    /// options, and Observe.
    NotForGroups(OptionNumber),
    /// The options do not fit a message.
    Encode(EncodeError),
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RequestsFull => f.write_str("too many requests in progress"),
            Self::QueueFull => f.write_str("the send queue of this peer is full"),
            Self::PeersFull => f.write_str("too many peers in use"),
            Self::NotARequest => f.write_str("the code is not a request method"),
            Self::NotObservable => {
                f.write_str("only GET, and FETCH with a complete body, can observe a resource")
            }
            Self::PayloadNotAllowed => f.write_str("a request with this method has no payload"),
            Self::BadAddress => f.write_str("invalid destination address"),
            Self::NotForGroups(number) => {
                write!(f, "a multicast request cannot have option {number}")
            }
            Self::Encode(error) => write!(f, "the request cannot be built: {error}"),
        }
    }
}

impl core::error::Error for RequestError {}

/// The diagnostic payload of an Abort, up to 64 bytes (RFC 8323 5.6).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct AbortText {
    length: u8,
    bytes: [u8; Self::LONGEST],
}

impl AbortText {
    const LONGEST: usize = 64;

    /// Creates the text of a payload; the end of a longer one is cut off.
    pub fn new(payload: &[u8]) -> Self {
        let mut bytes = [0; Self::LONGEST];
        let length = payload.len().min(Self::LONGEST);
        bytes[..length].copy_from_slice(&payload[..length]);
        Self {
            length: length as u8,
            bytes,
        }
    }

    /// Returns the bytes, which should be UTF-8.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

impl fmt::Debug for AbortText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", Escaped(self.as_bytes()))
    }
}

/// Reasons a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Disconnect {
    /// It could not be made.
    NotMade,
    /// The peer closed it.
    Closed,
    /// The network broke it.
    Broken,
    /// The peer sent Abort (RFC 8323 5.6).
    AbortedByPeer(AbortText),
    /// The peer sent an invalid message, and this endpoint Abort.
    BadMessage,
    /// The peer sent no CSM, or another message before it.
    NoCsm,
    /// The peer was silent for too long.
    Dead,
    /// The connection was idle.
    Idle,
    /// One side sent Release, and all requests have completed (RFC 8323 5.5).
    Released,
    /// The connection limit was reached, or this connection exceeded its limit.
    NoRoom,
}

impl fmt::Display for Disconnect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotMade => "the connection could not be established",
            Self::Closed => "the peer closed the connection",
            Self::Broken => "the connection was lost",
            Self::AbortedByPeer(text) if text.as_bytes().is_empty() => {
                "the peer aborted the connection"
            }
            Self::AbortedByPeer(text) => {
                let text = Escaped(text.as_bytes());
                return write!(f, "the peer aborted the connection: {text}");
            }
            Self::BadMessage => "the peer sent an invalid message",
            Self::NoCsm => "the first message of the peer was not a CSM",
            Self::Dead => "the peer was silent for too long",
            Self::Idle => "the connection was idle",
            Self::Released => "the connection was released",
            Self::NoRoom => "the connection table is full",
        })
    }
}

/// Reasons a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SessionEnd {
    /// The peer closed it.
    Closed,
    /// The peer aborted it.
    Broken,
    /// Another session replaced it.
    Replaced,
    /// It was idle for too long, or evicted.
    Idle,
    /// The peer did not reply in it.
    Silent,
    /// The application ended it.
    Requested,
}

impl fmt::Display for SessionEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Closed => "the peer closed the session",
            Self::Broken => "the peer aborted the session",
            Self::Replaced => "the session was replaced by a new one",
            Self::Silent => "the peer stopped responding, and its session was closed",
            Self::Idle => "the session was evicted or idle",
            Self::Requested => "the application ended the session",
        })
    }
}
