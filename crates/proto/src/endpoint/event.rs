//! What an endpoint says to its driver and its application.

use core::fmt;
use core::net::SocketAddr;

use bytes::Bytes;
use carob_cc::time::Instant;

use super::{Disconnect, SessionEnd};
use crate::blockwise::download::DownloadError;
use crate::codec::{Code, EncodeError, OptionNumber, OptionsError};
use crate::message::Response;
use crate::observe::Subject;
use crate::trace::Trace;

/// A request of ours, until its last event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId {
    pub(crate) index: u32,
    pub(crate) serial: u32,
}

/// A request received, until it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IncomingId {
    pub(crate) index: u32,
    pub(crate) serial: u32,
}

/// What [`Endpoint::poll`](super::Endpoint::poll) returns.
#[derive(Debug)]
#[non_exhaustive]
pub enum Output<'a> {
    /// Send this datagram.
    Transmit {
        /// To here.
        to: SocketAddr,
        /// These bytes; copy them out before the next call.
        bytes: &'a [u8],
    },
    /// Make a connection, and say when it is there or cannot be
    /// ([`connected`](super::Endpoint::connected), [`disconnected`](super::Endpoint::disconnected));
    /// or, where datagrams are [secured](super::Config::secured), a session
    /// ([`session_opened`](super::Endpoint::session_opened),
    /// [`session_not_made`](super::Endpoint::session_not_made)).
    Connect {
        /// With this peer.
        to: SocketAddr,
    },
    /// Close a connection, after what was to be sent on it before. The endpoint has forgotten it.
    ///
    /// Where datagrams are [secured](super::Config::secured): the peer has not answered, and may
    /// have lost its session. Say that it [is there](super::Endpoint::session_opened), or that it
    /// [has ended](super::Endpoint::session_ended) and another is to be made.
    Close {
        /// With this peer.
        to: SocketAddr,
    },
    /// Tell the application.
    Event(Event),
    /// Nothing more to do before this time, or before the next input.
    Wait(Option<Instant>),
}

/// Something the application should know.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event {
    /// A request arrived; look at it with [`incoming`](super::Endpoint::incoming) and answer it
    /// with [`respond`](super::Endpoint::respond).
    Request(IncomingId),
    /// The response to a request of ours, its body complete. The last event of the request.
    Response {
        /// The request.
        id: RequestId,
        /// Its response.
        response: Response,
    },
    /// The beginning of a response whose body is read as a stream; parts follow.
    Head {
        /// The request.
        id: RequestId,
        /// Code and options; the payload is empty.
        response: Response,
        /// Size of the body in bytes, if the server told.
        size: Option<u64>,
    },
    /// The next part of a streamed body. `last` makes it the last event of the request.
    Part {
        /// The request.
        id: RequestId,
        /// The bytes; ask for more with [`read_on`](super::Endpoint::read_on).
        bytes: Bytes,
        /// Nothing follows.
        last: bool,
    },
    /// A streamed request body needs more bytes: [`supply`](super::Endpoint::supply) them.
    Starved(RequestId),
    /// No response came to a request of ours, and none had to: by its No-Response option it did not
    /// want any, or not of every class (RFC 7967). The last event of the request.
    Unanswered(RequestId),
    /// A member of a group has answered a request to the group. More may follow, until
    /// [`Gathered`](Self::Gathered) or [`Failed`](Self::Failed).
    Member {
        /// The request.
        id: RequestId,
        /// Who answers.
        from: SocketAddr,
        /// Its response, or why that could not be had in full.
        response: Result<Response, Failure>,
    },
    /// Nothing more is expected of a group. The last event of the request.
    Gathered(RequestId),
    /// A ping was answered. The last event of the ping.
    Pong(RequestId),
    /// A request of ours failed. The last event of the request.
    Failed {
        /// The request.
        id: RequestId,
        /// Why.
        failure: Failure,
    },
    /// A new state of a resource that we observe, or its first. The request lives on: more
    /// follow, until a [`Response`](Self::Response) or [`Failed`](Self::Failed) ends it.
    Notification {
        /// The request that observes.
        id: RequestId,
        /// The state, its body complete.
        response: Response,
    },
    /// What we know of a resource that we observe is older than its server promised it to be
    /// (its Max-Age has passed), or a try to renew the observation has failed. The engine renews
    /// it by itself, and goes on trying (RFC 7641 3.3.1).
    Stale {
        /// The request that observes.
        id: RequestId,
        /// How the last try to renew it failed, if one did.
        failure: Option<Failure>,
    },
    /// Nobody observes this subject any more.
    Unobserved(Subject),
    /// A protocol event, if [`Config::trace`](super::Config::trace) is set.
    Trace(Trace),
}

/// Why a request of ours got no usable response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Failure {
    /// Every copy was sent and the last timer ran out.
    TimedOut {
        /// Copies sent.
        copies: u8,
    },
    /// The peer acknowledged the request, or got it over a connection, but its response did not
    /// come in time.
    NoResponse,
    /// The application's deadline passed.
    DeadlinePassed,
    /// The peer refused the message (RST).
    Reset,
    /// The network reports the peer unreachable.
    Unreachable,
    /// The connection ended.
    Disconnected(Disconnect),
    /// The session ended in which it was sent (RFC 7252 9.1.1).
    SessionEnded(SessionEnd),
    /// The response has a critical option that we do not understand.
    UnknownOption(OptionNumber),
    /// The server cannot answer now (4.29 or 5.03).
    NotNow(Code),
    /// The response's body could not be put together.
    Body(DownloadError),
    /// The response has a malformed block option.
    BadBlock,
    /// The body's transfer was broken off by the server with this code.
    Interrupted(Code),
    /// The server took a part of the request's body for the whole of it.
    CutShort {
        /// Bytes that it was sent, at least.
        taken: u64,
    },
    /// As many messages as [`Limits::queue`](super::Limits::queue) wait for this peer.
    QueueFull,
    /// A message could not be built.
    Encode(EncodeError),
    /// The response has options beyond every limit.
    Options(OptionsError),
    /// The endpoint was shut down.
    ShutDown,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TimedOut { copies: 1 } => f.write_str("no answer to the only copy sent"),
            Self::TimedOut { copies } => write!(f, "no answer to any of {copies} copies sent"),
            Self::NoResponse => f.write_str("the request arrived but was never answered"),
            Self::DeadlinePassed => f.write_str("the deadline passed"),
            Self::Reset => f.write_str("the peer refused the message (RST)"),
            Self::Unreachable => f.write_str("the peer cannot be reached"),
            Self::Disconnected(why) => write!(f, "{why}"),
            Self::SessionEnded(why) => write!(f, "{why}"),
            Self::UnknownOption(number) => {
                write!(f, "the response needs option {} to be understood", number.0)
            }
            Self::NotNow(code) => write!(f, "the server answered {code}"),
            Self::Body(error) => write!(f, "{error}"),
            Self::BadBlock => f.write_str("the response has a malformed block option"),
            Self::Interrupted(code) => write!(f, "the server broke the transfer off with {code}"),
            Self::CutShort { taken } => write!(
                f,
                "the server took the first {taken} bytes of the body for the whole of it"
            ),
            Self::QueueFull => f.write_str("too many messages wait for this peer"),
            Self::Encode(error) => write!(f, "the message cannot be built: {error}"),
            Self::Options(error) => write!(f, "the response's options are too large: {error}"),
            Self::ShutDown => f.write_str("the endpoint was shut down"),
        }
    }
}

impl core::error::Error for Failure {}

/// Why a request was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RequestError {
    /// As many requests as [`Limits::requests`](super::Limits::requests) are under way.
    RequestsFull,
    /// As many messages as [`Limits::queue`](super::Limits::queue) wait for this peer.
    QueueFull,
    /// As many peers as [`Limits::peers`](super::Limits::peers) are in use.
    PeersFull,
    /// The code is no request's.
    NotARequest,
    /// Only GET and FETCH can observe (RFC 7641 2, RFC 8132 2.4), and FETCH only with its whole
    /// body at hand, since that is sent anew with each renewal.
    NotObservable,
    /// The method is not defined to have a payload (RFC 7252 5.5).
    PayloadNotAllowed,
    /// The address cannot be sent to (multicast, unspecified, or port 0).
    BadAddress,
    /// A request to a group may not have this option (RFC 7252 8.2.1: ETag in a GET), or not here:
    /// bodies to groups go in one message, and nobody observes a group.
    NotForGroups(OptionNumber),
    /// The options do not fit a message.
    Encode(EncodeError),
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RequestsFull => f.write_str("too many requests under way"),
            Self::QueueFull => f.write_str("too many messages wait for this peer"),
            Self::PeersFull => f.write_str("too many peers in use"),
            Self::NotARequest => f.write_str("the code is not a request method"),
            Self::NotObservable => {
                f.write_str("only GET and FETCH, its body at hand, can observe a resource")
            }
            Self::PayloadNotAllowed => f.write_str("a request with this method has no payload"),
            Self::BadAddress => f.write_str("the address cannot be sent to"),
            Self::NotForGroups(number) => write!(f, "a request to a group has no {number} option"),
            Self::Encode(error) => write!(f, "the request cannot be built: {error}"),
        }
    }
}

impl core::error::Error for RequestError {}
