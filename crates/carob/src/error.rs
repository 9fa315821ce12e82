//! What can go wrong, in words that name the place and, where there is one, the remedy.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use carob_proto::codec::UriError;
use carob_proto::endpoint::{Failure, RequestError};

/// Why an endpoint could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The address cannot be bound.
    #[error("cannot bind {address}: {source}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The text is no address and no name of one.
    #[error("cannot bind \"{text}\": {source}")]
    Address {
        /// The text.
        text: String,
        /// What the system said.
        source: io::Error,
    },
    /// A resource cannot be served as it was described.
    #[error("cannot serve {path}: {problem}")]
    Resource {
        /// Its path.
        path: String,
        /// What is wrong.
        problem: String,
    },
    /// The system has no randomness to give.
    #[error("cannot start: {0}")]
    Entropy(io::Error),
}

impl OpenError {
    /// What may help.
    pub fn remedy(&self) -> Option<&'static str> {
        match self {
            Self::Bind { source, .. } => match source.kind() {
                io::ErrorKind::AddrInUse => {
                    Some("another program has this port: stop it, or bind another port")
                }
                io::ErrorKind::AddrNotAvailable => {
                    Some("no interface of this machine has that address; [::] stands for all")
                }
                io::ErrorKind::PermissionDenied => Some("ports below 1024 need privileges"),
                _ => None,
            },
            Self::Address { .. } => Some("write it as IP:PORT, such as [::]:5683"),
            Self::Resource { .. } | Self::Entropy(_) => None,
        }
    }
}

/// Why a request got no response.
///
/// A response with an error code (4.xx, 5.xx) is a response, not one of these.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The URI cannot be understood.
    #[error("bad URI \"{uri}\": {source}")]
    Uri {
        /// The URI as given.
        uri: String,
        /// What is wrong, and where.
        source: UriError,
    },
    /// The scheme needs a transport that is not here.
    #[error("{scheme}:// is not supported; only coap:// (UDP) is")]
    Scheme {
        /// The scheme.
        scheme: String,
    },
    /// The host name has no address.
    #[error("cannot resolve host \"{host}\": {source}")]
    Resolve {
        /// The host.
        host: String,
        /// What the resolver said.
        source: io::Error,
    },
    /// The socket is of the wrong address family for every address of the host.
    #[error("no address of \"{host}\" can be reached from a socket bound to {local}")]
    Family {
        /// The host.
        host: String,
        /// Our address.
        local: SocketAddr,
    },
    /// The network, or the system, says that the peer cannot be reached.
    #[error("{peer} cannot be reached: {source}")]
    Unreachable {
        /// The peer.
        peer: SocketAddr,
        /// What it said.
        source: io::Error,
    },
    /// No answer came.
    #[error("{peer} did not answer within {:.1} s: {failure}", .after.as_secs_f64())]
    NoAnswer {
        /// The peer.
        peer: SocketAddr,
        /// Time since the request was made.
        after: Duration,
        /// How the waiting ended.
        failure: Failure,
    },
    /// The deadline passed before the request had left.
    #[error("no response within {:.1} s: the host was still being resolved or the body read", .deadline.as_secs_f64())]
    DeadlinePassed {
        /// The deadline.
        deadline: Duration,
    },
    /// The request failed in another way.
    #[error("request to {peer} failed: {failure}")]
    Failed {
        /// The peer.
        peer: SocketAddr,
        /// How.
        failure: Failure,
    },
    /// The request was not taken.
    #[error("request to {peer} not sent: {source}")]
    NotSent {
        /// The peer.
        peer: SocketAddr,
        /// Why.
        source: RequestError,
    },
    /// An option does not fit a message.
    #[error("option {number} of the request: {source}")]
    Option {
        /// Its number.
        number: u16,
        /// Why not.
        source: carob_proto::codec::OptionsError,
    },
    /// The source of the request's body failed.
    #[error("reading the request's body: {0}")]
    Body(io::Error),
    /// The endpoint has stopped.
    #[error("the endpoint was shut down")]
    Closed,
}

impl Error {
    /// What may help.
    pub fn remedy(&self) -> Option<&'static str> {
        match self {
            Self::Uri { .. } => Some("write it as coap://HOST[:PORT]/PATH[?QUERY]"),
            Self::Resolve { .. } => {
                Some("check the name's spelling, or use the address itself: coap://192.0.2.1/")
            }
            Self::Unreachable { source, .. }
                if source.kind() == io::ErrorKind::ConnectionRefused =>
            {
                Some("no CoAP server listens on that port (the usual one is 5683)")
            }
            Self::Unreachable { .. } => Some("check the address and the route to it"),
            Self::NoAnswer {
                failure: Failure::DeadlinePassed,
                ..
            }
            | Self::DeadlinePassed { .. } => Some("allow more time with a longer deadline"),
            Self::NoAnswer { .. } => {
                Some("the host may be off, filtered or asleep, or the path very lossy")
            }
            Self::Failed {
                failure: Failure::Reset,
                ..
            } => Some("the host is there but speaks no CoAP on this port, or has just restarted"),
            Self::Failed {
                failure: Failure::Body(_),
                ..
            } => Some("read large bodies as a stream, or ask for smaller blocks"),
            Self::NotSent {
                source: RequestError::BadAddress,
                ..
            } => Some("groups, the unspecified address and port 0 cannot be asked"),
            Self::NotSent {
                source:
                    RequestError::QueueFull | RequestError::RequestsFull | RequestError::PeersFull,
                ..
            } => Some("wait for earlier requests, or raise the limit"),
            _ => None,
        }
    }

    /// Whether time passed without the answer.
    pub fn is_timeout(&self) -> bool {
        matches!(self, Self::NoAnswer { .. } | Self::DeadlinePassed { .. })
    }
}
