//! Errors of endpoints and requests.

use std::fmt::{self, Write as _};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use carob_proto::blockwise::DownloadError;
use carob_proto::codec::{Code, Scheme, UriError};
use carob_proto::endpoint::{Disconnect, Failure, RequestError};
use carob_proto::message::Response;
use carob_proto::{Escaped, is_unprintable};

#[cfg(feature = "dtls")]
use crate::transport::dtls::HandshakeError;
#[cfg(any(feature = "dtls", feature = "tls"))]
use crate::transport::tls::TlsError;

/// Error on opening a client, server or proxy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The address cannot be bound.
    #[error("cannot bind {address}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
    /// The socket cannot join a multicast group, or has not the settings for outgoing multicast
    /// messages.
    #[error("cannot join groups at {address}")]
    Groups {
        /// The socket's address.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
    /// The text is neither an address nor a name with one.
    #[error("cannot bind \"{text}\"")]
    Address {
        /// The text.
        text: String,
        /// The system's error.
        source: io::Error,
    },
    /// A resource is invalid: its path or an attribute.
    #[error("cannot serve {path}: {problem}")]
    Resource {
        /// Path of the resource.
        path: String,
        /// The problem.
        problem: String,
    },
    /// The system provides no random numbers.
    #[error("cannot start")]
    Entropy(#[source] io::Error),
    /// Certificates or keys are unusable.
    #[cfg(any(feature = "dtls", feature = "tls"))]
    #[error("cannot serve {address}")]
    Tls {
        /// Address to listen on.
        address: SocketAddr,
        /// The problem.
        source: TlsError,
    },
    /// A key or certificate of [`Config::dtls`](crate::Config::dtls) cannot be used.
    #[cfg(feature = "dtls")]
    #[error("unusable DTLS credential of the client")]
    Credential(#[source] TlsError),
    /// Several sockets cannot share the port.
    #[error("{count} sockets at one port: {problem}")]
    Sockets {
        /// Number requested.
        count: usize,
        /// The reason.
        problem: &'static str,
    },
    /// The server has no address.
    #[error("no address to listen at")]
    Nowhere,
}

impl OpenError {
    /// Returns a remedy as text for people, if one is known.
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
            Self::Sockets { .. } => Some("use one socket"),
            #[cfg(any(feature = "dtls", feature = "tls"))]
            Self::Tls {
                source: TlsError::Dtls(_),
                ..
            } => None,
            #[cfg(feature = "dtls")]
            Self::Credential(_) => None,
            #[cfg(any(feature = "dtls", feature = "tls"))]
            Self::Tls { .. } => Some("give the chain of certificates and its key as PEM"),
            Self::Resource { .. } | Self::Entropy(_) => None,
        }
    }
}

/// Error of a request: no usable response.
///
/// [`kind`](Self::kind) classifies the error for decisions of a program; [`report`](Self::report)
/// and [`remedy`](Self::remedy) are for people. A response with an error code (4.xx, 5.xx) is not
/// an error until [`Reply::success`](crate::Reply::success) converts it into [`Error::Response`].
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use carob::{Client, ErrorKind};
/// use std::time::Duration;
///
/// // A socket that never responds.
/// let silent = std::net::UdpSocket::bind("127.0.0.1:0")?;
/// let uri = format!("coap://{}/", silent.local_addr()?);
/// let error = Client::new()?
///     .get(uri)
///     .timeout(Duration::from_millis(50))
///     .await
///     .expect_err("it is silent");
/// assert_eq!(error.kind(), ErrorKind::Timeout);
/// println!("{}: {}", error.report(), error.remedy().unwrap_or_default());
/// # Ok(())
/// # }
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The URI is invalid.
    #[error("bad URI \"{uri}\"")]
    Uri {
        /// The URI as given.
        uri: String,
        /// Problem and its position.
        source: UriError,
    },
    /// The transport of the scheme is not compiled in.
    #[error("{scheme}:// needs the feature `{feature}` of the crate `carob`, which is not enabled")]
    Disabled {
        /// The scheme.
        scheme: Scheme,
        /// The Cargo feature.
        feature: &'static str,
    },
    /// A secure URI would be requested through a proxy over an insecure connection (RFC 7252
    /// section 5.7).
    #[error("proxy {proxy} is not used for a secure URI: the connection to it is not secure")]
    InsecureProxy {
        /// URI of the proxy.
        proxy: String,
    },
    /// A proxy must not contact any address of the host.
    #[error("requests to \"{host}\" are not allowed")]
    NotAdmitted {
        /// The host.
        host: String,
    },
    /// The endpoint for the scheme cannot be opened.
    #[error("cannot open an endpoint for this scheme")]
    Open(#[source] io::Error),
    /// The host name cannot be resolved.
    #[error("cannot resolve host \"{host}\"")]
    Resolve {
        /// The host.
        host: String,
        /// The resolver's error.
        source: io::Error,
    },
    /// No address of the host has the address family of the socket.
    #[error("no address of \"{host}\" can be reached from a socket bound to {local}")]
    Family {
        /// The host.
        host: String,
        /// Local address.
        local: SocketAddr,
    },
    /// The peer is unreachable, as reported by the network or the system, or no connection can be
    /// established.
    #[error("{peer} cannot be reached")]
    Unreachable {
        /// The peer.
        peer: SocketAddr,
        /// The cause.
        source: io::Error,
    },
    /// No DTLS session can be established.
    #[cfg(feature = "dtls")]
    #[error("no secure session with {peer}")]
    Handshake {
        /// The peer.
        peer: SocketAddr,
        /// The reason.
        source: HandshakeError,
    },
    /// No response arrived.
    #[error("{peer} did not respond within {:.1} s: {failure}", .after.as_secs_f64())]
    Timeout {
        /// The peer.
        peer: SocketAddr,
        /// Time since the request was made.
        after: Duration,
        /// Reason of the engine to give up.
        failure: Failure,
    },
    /// The [timeout](crate::RequestBuilder::timeout) passed before the request was sent.
    #[error("no response within {:.1} s: the host was still being resolved or the body read", .deadline.as_secs_f64())]
    DeadlinePassed {
        /// Timeout of the request.
        deadline: Duration,
    },
    /// The exchange failed: a reset, the end of a connection, an invalid body.
    #[error("request to {peer} failed: {failure}")]
    Failed {
        /// The peer.
        peer: SocketAddr,
        /// The failure.
        failure: Failure,
    },
    /// The engine rejected the request, for example at a limit.
    #[error("request to {peer} not sent")]
    NotSent {
        /// The peer.
        peer: SocketAddr,
        /// Reason.
        source: RequestError,
    },
    /// An option does not fit into a message.
    #[error("option {number} of the request")]
    Option {
        /// Number of the option.
        number: u16,
        /// The reason.
        source: carob_proto::codec::OptionsError,
    },
    /// The source of the request's body failed.
    #[error("reading the request's body")]
    Body(#[source] io::Error),
    /// The response has a code of class 4 or 5 (RFC 7252 sections 5.9.2, 5.9.3).
    #[error("{}", Refused(*.code, .diagnostic.as_deref(), *.retry_after))]
    Response {
        /// Code of the response.
        code: Code,
        /// Diagnostic payload (RFC 7252 section 5.5.2), up to [`DIAGNOSTIC_BYTES`]; bytes that are not
        /// UTF-8 are escaped as `\xf6`.
        diagnostic: Option<String>,
        /// Time after which to try again: Max-Age of a 5.03 (RFC 7252 section 5.9.3.4) or 4.29 (RFC
        /// 8516 section 4), 60 s if absent. `None` with other codes.
        retry_after: Option<Duration>,
    },
    /// The request was sent, and its response was suppressed
    /// ([`no_response`](crate::client::RequestBuilder::no_response), RFC 7967).
    #[error("the response of {peer} was suppressed (No-Response)")]
    ResponseSuppressed {
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
        /// Transport.
        scheme: Scheme,
    },
    /// The endpoint has stopped.
    #[error("the endpoint was shut down")]
    Closed,
}

/// Maximum of a diagnostic payload in [`Error::Response`], 1024 bytes; longer ones are truncated.
pub const DIAGNOSTIC_BYTES: usize = 1_024;

/// The diagnostic payload of an error response; bytes that are not UTF-8 are escaped.
fn diagnostic(response: &Response) -> Option<String> {
    let bytes = response.bytes();
    if bytes.is_empty() || response.format().is_some() {
        return None;
    }
    let mut text = match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => Escaped(&bytes[..bytes.len().min(DIAGNOSTIC_BYTES)]).to_string(),
    };
    text.truncate(text.floor_char_boundary(DIAGNOSTIC_BYTES));
    Some(text)
}

/// Writes a refusal: code, name, and diagnostic payload.
struct Refused<'a>(Code, Option<&'a str>, Option<Duration>);

impl fmt::Display for Refused<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(code, text, retry_after) = self;
        write!(f, "{code:?}")?;
        if let Some(text) = text {
            f.write_str(": ")?;
            // It comes from elsewhere and may go to a terminal.
            for char in text.chars() {
                if is_unprintable(char) {
                    write!(f, "{}", char.escape_default())?;
                } else {
                    f.write_char(char)?;
                }
            }
        }
        if let Some(after) = retry_after {
            write!(f, " (try again in {} s)", after.as_secs())?;
        }
        Ok(())
    }
}

impl Error {
    /// The error of a URI whose transport was left out of this build.
    pub(crate) fn disabled(scheme: Scheme) -> Self {
        let feature = match scheme {
            Scheme::Coaps => "dtls",
            Scheme::CoapWs => "websocket",
            Scheme::CoapsWs if cfg!(feature = "tls") => "websocket",
            _ => "tls",
        };
        Self::Disabled { scheme, feature }
    }

    /// The error that a response is; nothing if its code is not of class 4 or 5.
    pub(crate) fn of_response(response: &Response) -> Option<Self> {
        let code = response.code;
        if !matches!(code.class(), 4 | 5) {
            return None;
        }
        let diagnostic = diagnostic(response);
        let waits = matches!(code, Code::SERVICE_UNAVAILABLE | Code::TOO_MANY_REQUESTS);
        Some(Self::Response {
            code,
            diagnostic,
            retry_after: waits.then(|| response.max_age()),
        })
    }

    /// Returns a remedy as text for people, if one is known.
    pub fn remedy(&self) -> Option<&'static str> {
        match self {
            Self::Uri { .. } => Some("write it as coap://HOST[:PORT]/PATH[?QUERY]"),
            Self::InsecureProxy { .. } => Some("use coaps+tcp:// or coaps+ws://"),
            Self::Resolve { source, .. } if source.kind() == io::ErrorKind::InvalidInput => {
                Some("\"ip link\" lists the interfaces: coap://[fe80::1%25eth0]/")
            }
            Self::Resolve { .. } => {
                Some("check the name's spelling, or use the address itself: coap://192.0.2.1/")
            }
            Self::Unreachable { source, .. }
                if source.kind() == io::ErrorKind::ConnectionRefused =>
            {
                Some("no CoAP server listens on that port (the usual one is 5683)")
            }
            Self::Unreachable { source, .. } if is_untrusted(source) => Some(
                "the server's certificate must be for this name, not a CA's own, and issued by a \
                 trusted CA",
            ),
            #[cfg(feature = "dtls")]
            Self::Handshake { source, .. } => Some(source.remedy()),
            Self::Unreachable { .. } => Some("check the address and the route to it"),
            Self::Timeout {
                failure: Failure::DeadlinePassed,
                ..
            }
            | Self::DeadlinePassed { .. } => Some("allow more time with a longer deadline"),
            Self::Timeout { .. } => {
                Some("the host may be off, filtered or asleep, or the path very lossy")
            }
            Self::Failed { failure, .. } => remedy_of(*failure),
            Self::NotSent {
                source: RequestError::BadAddress,
                ..
            } => Some(
                "the unspecified address and port 0 are no destinations, and a group needs a \
                 multicast request over UDP",
            ),
            Self::NotSent {
                source:
                    RequestError::QueueFull | RequestError::RequestsFull | RequestError::PeersFull,
                ..
            } => Some("wait for earlier requests, or raise the limit"),
            _ => None,
        }
    }

    /// Returns the kind of the error.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Uri { .. }
            | Self::Disabled { .. }
            | Self::InsecureProxy { .. }
            | Self::Option { .. } => ErrorKind::Request,
            // A full table may have room later; all other errors are the request's.
            Self::NotSent { source, .. } => match source {
                RequestError::QueueFull | RequestError::RequestsFull | RequestError::PeersFull => {
                    ErrorKind::Full
                }
                _ => ErrorKind::Request,
            },
            Self::Body(_) => ErrorKind::Body,
            Self::NotAdmitted { .. } | Self::Resolve { .. } | Self::Family { .. } => {
                ErrorKind::Resolve
            }
            Self::Open(_) | Self::Unreachable { .. } => ErrorKind::Connect,
            #[cfg(feature = "dtls")]
            Self::Handshake { .. } => ErrorKind::Connect,
            Self::Timeout { .. } | Self::DeadlinePassed { .. } => ErrorKind::Timeout,
            Self::Failed { .. } => ErrorKind::Exchange,
            Self::Response { .. } => ErrorKind::Response,
            Self::ResponseSuppressed { .. } => ErrorKind::ResponseSuppressed,
            Self::OverConnection { .. } => ErrorKind::Unsupported,
            Self::Closed => ErrorKind::Closed,
        }
    }

    /// Returns whether no response arrived in time. The server may have executed the request.
    pub fn is_timeout(&self) -> bool {
        self.kind() == ErrorKind::Timeout
    }

    /// Returns whether the peer could not be reached, so that the request was not executed: the
    /// network rejected it, or no connection or session could be established.
    pub fn is_connect(&self) -> bool {
        self.kind() == ErrorKind::Connect
    }

    /// Returns the peer's address, if the request got that far.
    pub fn peer(&self) -> Option<SocketAddr> {
        match self {
            Self::Unreachable { peer, .. }
            | Self::Timeout { peer, .. }
            | Self::Failed { peer, .. }
            | Self::NotSent { peer, .. }
            | Self::ResponseSuppressed { peer, .. }
            | Self::OverConnection { peer, .. } => Some(*peer),
            #[cfg(feature = "dtls")]
            Self::Handshake { peer, .. } => Some(*peer),
            _ => None,
        }
    }

    /// Returns the message and the message of its [`source`](std::error::Error::source) in one line.
    pub fn report(&self) -> impl fmt::Display {
        Report(self)
    }
}

impl OpenError {
    /// Returns the message and the message of its [`source`](std::error::Error::source) in one line.
    pub fn report(&self) -> impl fmt::Display {
        Report(self)
    }
}

/// The remedy of a failed exchange, if one is known.
fn remedy_of(failure: Failure) -> Option<&'static str> {
    match failure {
        Failure::Reset => {
            Some("the host is there but speaks no CoAP on this port, or has just restarted")
        }
        Failure::Disconnected(Disconnect::NoCsm | Disconnect::BadMessage) => {
            Some("something else than CoAP may listen on that port")
        }
        Failure::Disconnected(_) | Failure::SessionEnded(_) => {
            Some("the request may have been executed; repeat it if that does no harm")
        }
        Failure::MalformedReply(_) => {
            Some("something else than CoAP may listen on that port, or the server is faulty")
        }
        Failure::OversizedReply => {
            Some("ask for smaller blocks: the server sent its response in one datagram")
        }
        Failure::Body(error) => Some(match error {
            DownloadError::TooLarge { .. } => {
                "read large bodies as a stream, or raise the limit download_bytes"
            }
            DownloadError::Changed => {
                "the resource changes faster than it is transferred: try again, or ask for \
                 larger blocks"
            }
            DownloadError::TooManyBlocks => "ask for larger blocks: at most 2^20 are possible",
            _ => "the server's block-wise transfer is faulty; another block size may avoid it",
        }),
        Failure::BadBlock => {
            Some("the server's block-wise transfer is faulty; another block size may avoid it")
        }
        _ => None,
    }
}

/// Kind of an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The request is invalid: its URI, an option, or a setting.
    Request,
    /// The source of the request's body failed.
    Body,
    /// The host has no usable address.
    Resolve,
    /// The peer is unreachable, or no connection or session can be established.
    Connect,
    /// No response arrived in time.
    Timeout,
    /// A limit on requests was reached; try again later.
    Full,
    /// The exchange failed: a reset, the end of a connection or session, an invalid body.
    Exchange,
    /// The response has a code of class 4 or 5 (RFC 7252 sections 5.9.2, 5.9.3).
    Response,
    /// The request was sent, and its response was suppressed (RFC 7967).
    ResponseSuppressed,
    /// The transport does not support the operation.
    Unsupported,
    /// The endpoint was shut down.
    Closed,
}

/// An error and its source in one line.
struct Report<'a, E>(&'a E);

impl<E: std::error::Error> fmt::Display for Report<'_, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(error) = self;
        match error.source() {
            Some(source) => write!(f, "{error}: {source}"),
            None => write!(f, "{error}"),
        }
    }
}

/// Returns whether a TLS handshake failed because the peer's certificate is missing or not trusted.
#[cfg_attr(
    not(feature = "tls"),
    expect(unused_variables, reason = "there is no TLS")
)]
fn is_untrusted(error: &io::Error) -> bool {
    #[cfg(feature = "tls")]
    {
        let shared = error.get_ref().and_then(|inner| inner.downcast_ref());
        let shared: Option<&std::sync::Arc<io::Error>> = shared;
        let inner = shared.map_or(error, |error| error).get_ref();
        matches!(
            inner.and_then(|inner| inner.downcast_ref()),
            Some(rustls::Error::InvalidCertificate(_) | rustls::Error::NoCertificatesPresented)
        )
    }
    #[cfg(not(feature = "tls"))]
    false
}
