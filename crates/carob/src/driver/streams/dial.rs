//! Making connections.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use carob_proto::codec::Scheme;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use socket2::SockRef;
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::OnceCell;
use tokio_rustls::TlsConnector;
use tokio_tungstenite::client_async_with_config;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::http::HeaderValue;
use tokio_tungstenite::tungstenite::http::header::SEC_WEBSOCKET_PROTOCOL;

use super::Kind;
use super::link::{Duplex, Stream};
use super::listen::websocket_limits;
use crate::settings::Settings;
use crate::tls::{self, ALPN, ClientTls};

/// Makes a socket that is to be connected to this address.
pub(crate) type MakeSocket =
    Arc<dyn Fn(SocketAddr) -> io::Result<std::net::TcpStream> + Send + Sync>;

/// Sees the socket of a new connection with this peer.
pub(crate) type OnSocket = Arc<dyn Fn(SocketAddr, SockRef<'_>) + Send + Sync>;

/// Makes connections of one kind.
pub(crate) struct Dialer {
    kind: Kind,
    make: Option<MakeSocket>,
    see: Option<OnSocket>,
    limit: Duration,
    max_message: usize,
    tls: ClientTls,
    /// Made when it is first needed: it reads the system's certificates.
    config: OnceCell<Arc<ClientConfig>>,
}

impl fmt::Debug for Dialer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dialer")
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}

impl Dialer {
    pub(super) fn new(kind: Kind, settings: &Settings) -> Self {
        Self {
            kind,
            make: settings.make_socket.clone(),
            see: settings.on_socket.clone(),
            limit: settings.connect_timeout,
            max_message: settings.reliable.max_message_size as usize,
            tls: settings.tls.clone(),
            config: OnceCell::new(),
        }
    }

    /// Connects with `to`, which was asked for by this name.
    pub(super) async fn dial(&self, to: SocketAddr, name: Option<&str>) -> io::Result<Stream> {
        let made = tokio::time::timeout(self.limit, self.make(to, name)).await;
        made.unwrap_or_else(|_| {
            let text = format!("no connection within {} s", self.limit.as_secs());
            Err(io::Error::new(io::ErrorKind::TimedOut, text))
        })
    }

    async fn make(&self, to: SocketAddr, name: Option<&str>) -> io::Result<Stream> {
        let stream = self.connect(to).await?;
        // Messages are small and complete; waiting to fill segments would only delay them.
        stream.set_nodelay(true)?;
        if let Some(see) = &self.see {
            see(to, SockRef::from(&stream));
        }
        Ok(match self.kind {
            Kind::Tcp => Stream::Tcp(stream),
            Kind::Tls => Stream::Tls(self.secure(stream, to, name).await?),
            Kind::WebSocket => self.websocket(Box::new(stream), to, name).await?,
            Kind::SecureWebSocket => {
                let stream = self.secure(stream, to, name).await?;
                self.websocket(stream, to, name).await?
            }
        })
    }

    async fn connect(&self, to: SocketAddr) -> io::Result<TcpStream> {
        let Some(make) = &self.make else {
            return TcpStream::connect(to).await;
        };
        let socket = make(to)?;
        socket.set_nonblocking(true)?;
        TcpSocket::from_std_stream(socket).connect(to).await
    }

    async fn secure(
        &self,
        stream: TcpStream,
        to: SocketAddr,
        name: Option<&str>,
    ) -> io::Result<Box<dyn Duplex>> {
        // A WebSocket's protocol is named in its own handshake.
        let alpn = (self.kind == Kind::Tls).then_some(ALPN);
        let make = || async { self.tls.config(alpn).map_err(tls::refused) };
        let config = self.config.get_or_try_init(make).await?;
        let server = match name {
            Some(name) => ServerName::try_from(name.to_owned()).map_err(io::Error::other)?,
            None => ServerName::IpAddress(to.ip().into()),
        };
        let connector = TlsConnector::from(Arc::clone(config));
        let stream = connector.connect(server, stream).await?;
        let (_, session) = stream.get_ref();
        // Only on its own port may a server go without (RFC 8323 8.2).
        let named = session.alpn_protocol() == Some(ALPN);
        if alpn.is_some() && !named && to.port() != Scheme::CoapsTcp.default_port() {
            let text = "the server does not say that it speaks CoAP there (ALPN)";
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        Ok(Box::new(stream))
    }

    async fn websocket(
        &self,
        stream: Box<dyn Duplex>,
        to: SocketAddr,
        name: Option<&str>,
    ) -> io::Result<Stream> {
        let scheme = if self.kind == Kind::WebSocket {
            "ws"
        } else {
            "wss"
        };
        let host = match (name, to) {
            (Some(name), _) => name.to_owned(),
            (None, SocketAddr::V4(to)) => to.ip().to_string(),
            (None, SocketAddr::V6(to)) => format!("[{}]", to.ip()),
        };
        // RFC 8323 4.1: this path, this subprotocol.
        let uri = format!("{scheme}://{host}:{}/.well-known/coap", to.port());
        let mut request = uri.into_client_request().map_err(io::Error::other)?;
        let coap = HeaderValue::from_static("coap");
        request.headers_mut().insert(SEC_WEBSOCKET_PROTOCOL, coap);
        let limits = websocket_limits(self.max_message);
        let (stream, _) = client_async_with_config(request, stream, Some(limits))
            .await
            .map_err(io::Error::other)?;
        Ok(Stream::WebSocket(Box::new(stream)))
    }
}
