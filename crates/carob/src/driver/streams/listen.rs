//! Taking connections.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use socket2::SockRef;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::AbortHandle;
use tokio_rustls::TlsAcceptor;
use tokio_tungstenite::accept_hdr_async_with_config;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tokio_tungstenite::tungstenite::http::header::SEC_WEBSOCKET_PROTOCOL;
use tokio_tungstenite::tungstenite::http::{HeaderValue, StatusCode};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;

use super::link::{Duplex, Stream};
use super::{Happening, Kind, OnSocket};
use crate::socket::canonical;

/// Connections that wait for the system's `accept`.
const BACKLOG: i32 = 1_024;
/// Handshakes of TLS and WebSocket at once; at the limit, new connections wait.
const HANDSHAKES: usize = 256;
/// How long a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// After the system had no connection to give for want of files or memory.
const BREATH: Duration = Duration::from_millis(100);

/// A socket that takes connections.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: TcpListener,
    local: SocketAddr,
    tls: Option<Arc<ServerConfig>>,
    max_message: usize,
}

impl Listener {
    /// Listens at `address`; the unspecified IPv6 address takes IPv4 as well.
    pub(crate) fn open(
        address: SocketAddr,
        tls: Option<Arc<ServerConfig>>,
        max_message: usize,
    ) -> io::Result<Self> {
        let domain = socket2::Domain::for_address(address);
        let socket =
            socket2::Socket::new(domain, socket2::Type::STREAM, Some(socket2::Protocol::TCP))?;
        if address.is_ipv6() {
            socket.set_only_v6(!address.ip().is_unspecified())?;
        }
        #[cfg(unix)]
        socket.set_reuse_address(true)?;
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        Self::of(socket.into(), tls, max_message)
    }

    /// Takes over a socket that listens already.
    pub(crate) fn of(
        socket: std::net::TcpListener,
        tls: Option<Arc<ServerConfig>>,
        max_message: usize,
    ) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        Ok(Self {
            local: socket.local_addr()?,
            socket: TcpListener::from_std(socket)?,
            tls,
            max_message,
        })
    }

    pub(crate) fn local(&self) -> SocketAddr {
        self.local
    }

    /// Takes connections until aborted.
    pub(super) fn start(
        self,
        kind: Kind,
        see: Option<OnSocket>,
        tell: mpsc::Sender<Happening>,
    ) -> AbortHandle {
        tokio::spawn(self.run(kind, see, tell)).abort_handle()
    }

    async fn run(self, kind: Kind, see: Option<OnSocket>, tell: mpsc::Sender<Happening>) {
        let handshakes = Arc::new(Semaphore::new(HANDSHAKES));
        let shake = Arc::new(Handshake {
            kind,
            tls: self.tls.map(TlsAcceptor::from),
            max_message: self.max_message,
        });
        loop {
            let (stream, from) = match self.socket.accept().await {
                Ok((stream, from)) => (stream, canonical(from)),
                Err(error) => {
                    tracing::warn!(%error, "no connection accepted");
                    tokio::time::sleep(BREATH).await;
                    continue;
                }
            };
            if let Some(see) = &see {
                see(from, SockRef::from(&stream));
            }
            if kind == Kind::Tcp {
                if stream.set_nodelay(true).is_ok() {
                    let stream = Stream::Tcp(stream);
                    if tell.send(Happening::Came { from, stream }).await.is_err() {
                        return;
                    }
                }
                continue;
            }
            let Ok(permit) = Arc::clone(&handshakes).acquire_owned().await else {
                return;
            };
            let (shake, tell) = (Arc::clone(&shake), tell.clone());
            tokio::spawn(async move {
                match tokio::time::timeout(HANDSHAKE, shake.perform(stream)).await {
                    Ok(Ok(stream)) => {
                        let _ = tell.send(Happening::Came { from, stream }).await;
                    }
                    Ok(Err(error)) => tracing::debug!(peer = %from, %error, "no handshake"),
                    Err(_) => tracing::debug!(peer = %from, "the handshake took too long"),
                }
                drop(permit);
            });
        }
    }
}

struct Handshake {
    kind: Kind,
    tls: Option<TlsAcceptor>,
    max_message: usize,
}

impl Handshake {
    async fn perform(&self, stream: TcpStream) -> io::Result<Stream> {
        stream.set_nodelay(true)?;
        let stream: Box<dyn Duplex> = match &self.tls {
            Some(tls) => Box::new(tls.accept(stream).await?),
            None => Box::new(stream),
        };
        Ok(match self.kind {
            Kind::Tcp | Kind::Tls => Stream::Tls(stream),
            Kind::WebSocket | Kind::SecureWebSocket => {
                let limits = websocket_limits(self.max_message);
                let accepted = accept_hdr_async_with_config(stream, agree, Some(limits)).await;
                Stream::WebSocket(Box::new(accepted.map_err(io::Error::other)?))
            }
        })
    }
}

/// Agrees to CoAP and to nothing else (RFC 8323 4.1).
#[expect(clippy::result_large_err, reason = "the library's signature")]
fn agree(request: &Request, mut response: Response) -> Result<Response, ErrorResponse> {
    let refuse = |status, text: &str| {
        let mut refusal = ErrorResponse::new(Some(text.to_owned()));
        *refusal.status_mut() = status;
        Err(refusal)
    };
    if request.uri().path() != "/.well-known/coap" {
        return refuse(StatusCode::NOT_FOUND, "CoAP is at /.well-known/coap");
    }
    let offered = request.headers().get_all(SEC_WEBSOCKET_PROTOCOL);
    let coap = offered
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|protocol| protocol.trim() == "coap");
    if !coap {
        return refuse(StatusCode::BAD_REQUEST, "the subprotocol here is \"coap\"");
    }
    let coap = HeaderValue::from_static("coap");
    response.headers_mut().insert(SEC_WEBSOCKET_PROTOCOL, coap);
    Ok(response)
}

/// No message may be longer than the CoAP messages that we take.
pub(super) fn websocket_limits(max_message: usize) -> WebSocketConfig {
    let mut config = WebSocketConfig::default();
    config.max_message_size = Some(max_message);
    config.max_frame_size = Some(max_message);
    config
}
