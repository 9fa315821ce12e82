//! What can go wrong, in words that name the place and, where there is one, the remedy.

use std::fmt::{self, Write as _};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use carob_proto::codec::{Code, Scheme, UriError};
use carob_proto::endpoint::{Disconnect, Failure, RequestError};
use carob_proto::message::Response;

use crate::dtls::HandshakeError;
use crate::tls::TlsError;

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
    /// The socket cannot be in a group, or write to groups as it was told to.
    #[error("no groups at {address}: {source}")]
    Groups {
        /// The socket's address.
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
    /// Certificates or keys cannot be used.
    #[error("cannot serve {address}: {source}")]
    Tls {
        /// Where it was to listen.
        address: SocketAddr,
        /// What is wrong.
        source: TlsError,
    },
    /// Several sockets cannot share what comes to one port.
    #[error("{count} sockets at one port: {problem}")]
    Sockets {
        /// How many were asked for.
        count: usize,
        /// Why not.
        problem: &'static str,
    },
    /// A server without anything to listen on.
    #[error("nothing to listen on")]
    Nowhere,
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
            Self::Groups { source, .. } => match source.kind() {
                io::ErrorKind::InvalidInput => Some("bind [::] or 0.0.0.0"),
                _ => Some("name the interface: \"ip link\" lists them"),
            },
            Self::Address { .. } => Some("write it as IP:PORT, such as [::]:5683"),
            Self::Nowhere => Some("give it an address, or a socket"),
            Self::Sockets { .. } => Some("take one socket"),
            Self::Tls { .. } => Some("give the chain of certificates and its key as PEM"),
            Self::Resource { .. } | Self::Entropy(_) => None,
        }
    }
}

/// Why a request got no response, or not the one that was hoped for.
///
/// A response with an error code (4.xx, 5.xx) is a response like any other, until
/// [`Reply::success`](crate::Reply::success) makes an error of it.
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
    #[error(
        "{scheme}:// is not supported here; coap://, coaps://, coap+tcp://, coaps+tcp://, coap+ws:// and coaps+ws:// are"
    )]
    Scheme {
        /// The scheme.
        scheme: String,
    },
    /// What is to be secure would have to be asked for in the clear.
    #[error("{proxy} is not asked for a secure URI: the way to it is not secure")]
    InsecureProxy {
        /// The proxy's URI.
        proxy: String,
    },
    /// No address of the host may be asked.
    #[error("no address of \"{host}\" may be asked")]
    NotAdmitted {
        /// The host.
        host: String,
    },
    /// The transport that the scheme needs cannot be had.
    #[error("cannot open an endpoint for this scheme: {0}")]
    Open(io::Error),
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
    /// There is no DTLS session with the peer.
    #[error("no secure session with {peer}: {why}")]
    Handshake {
        /// The peer.
        peer: SocketAddr,
        /// Why not.
        why: HandshakeError,
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
    /// The server refused, with a code of class 4 or 5 (RFC 7252 5.9.2, 5.9.3).
    #[error("{}", Refused(*.code, .diagnostic.as_deref(), *.retry_after))]
    Response {
        /// The code.
        code: Code,
        /// What the server says about it, for people (RFC 7252 5.5.2); at most
        /// [`DIAGNOSTIC_BYTES`] of it.
        diagnostic: Option<String>,
        /// After how long it is worth trying again: with 5.03 (RFC 7252 5.9.3.4) and 4.29
        /// (RFC 8516 4), whose Max-Age is 60 s where it is not given.
        retry_after: Option<Duration>,
    },
    /// The request was made, and no response came because none was wanted, or none of its class
    /// ([`no_response`](crate::client::RequestBuilder::no_response), RFC 7967).
    #[error("{peer} was asked for no response, and sent none")]
    Unanswered {
        /// The peer.
        peer: SocketAddr,
        /// Time since the request was made.
        after: Duration,
    },
    /// The peer is known by a connection only, whose congestion control is the system's.
    #[error("{peer} is connected over {scheme}: controllers and parameters apply to UDP and DTLS")]
    OverConnection {
        /// The peer.
        peer: SocketAddr,
        /// The transport.
        scheme: Scheme,
    },
    /// The endpoint has stopped.
    #[error("the endpoint was shut down")]
    Closed,
}

/// Bytes kept of a diagnostic payload; it is meant to be brief, and longer ones are cut.
pub const DIAGNOSTIC_BYTES: usize = 1_024;

/// Writes a refusal: code, name, and what the server says.
struct Refused<'a>(Code, Option<&'a str>, Option<Duration>);

impl fmt::Display for Refused<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(code, text, retry_after) = self;
        write!(f, "{code:?}")?;
        if let Some(text) = text {
            f.write_str(": ")?;
            // It comes from elsewhere and may go to a terminal.
            for char in text.chars() {
                f.write_char(if char.is_control() { ' ' } else { char })?;
            }
        }
        if let Some(after) = retry_after {
            write!(f, " (try again in {} s)", after.as_secs())?;
        }
        Ok(())
    }
}

impl Error {
    /// The error that a response is; nothing if its code is not of class 4 or 5.
    pub(crate) fn of_response(response: &Response) -> Option<Self> {
        let code = response.code;
        if !matches!(code.class(), 4 | 5) {
            return None;
        }
        let diagnostic = response.diagnostic_text().map(|text| {
            let mut end = text.len().min(DIAGNOSTIC_BYTES);
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            text.get(..end).unwrap_or_default().to_owned()
        });
        let waits = matches!(code, Code::SERVICE_UNAVAILABLE | Code::TOO_MANY_REQUESTS);
        Some(Self::Response {
            code,
            diagnostic,
            retry_after: waits.then(|| response.max_age()),
        })
    }

    /// What may help.
    pub fn remedy(&self) -> Option<&'static str> {
        match self {
            Self::Uri { .. } => Some("write it as coap://HOST[:PORT]/PATH[?QUERY]"),
            Self::InsecureProxy { .. } => Some("ask it over coaps+tcp:// or coaps+ws://"),
            Self::Resolve { .. } => {
                Some("check the name's spelling, or use the address itself: coap://192.0.2.1/")
            }
            Self::Unreachable { source, .. }
                if source.kind() == io::ErrorKind::ConnectionRefused =>
            {
                Some("no CoAP server listens on that port (the usual one is 5683)")
            }
            Self::Unreachable { source, .. } if source.to_string().contains("certificate") => Some(
                "the server's certificate must be for this name, not a CA's own, and issued by who \
                 is trusted here",
            ),
            Self::Handshake { why, .. } => Some(why.remedy()),
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
                failure: Failure::Disconnected(Disconnect::NoCsm | Disconnect::BadMessage),
                ..
            } => Some("something else than CoAP may listen on that port"),
            Self::Failed {
                failure: Failure::Disconnected(_) | Failure::SessionEnded(_),
                ..
            } => Some("the request may or may not have been done; ask again if that does no harm"),
            Self::Failed {
                failure: Failure::Body(_),
                ..
            } => Some("read large bodies as a stream, or ask for smaller blocks"),
            Self::NotSent {
                source: RequestError::BadAddress,
                ..
            } => Some(
                "the unspecified address and port 0 cannot be asked, a group only with a gathering \
                 over UDP",
            ),
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
