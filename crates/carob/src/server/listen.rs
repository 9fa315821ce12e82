//! Addresses and listening sockets of a server.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use tokio::net::lookup_host;

use crate::config::Config;
use crate::error::OpenError;
#[cfg(feature = "tls")]
use crate::transport::handshake::Replaceable;
use crate::transport::tcp::{Listener, StreamKind, TlsAccept};
#[cfg(feature = "tls")]
use crate::transport::tls::{ALPN, ServerTls};

/// A listening address for connections.
#[derive(Debug)]
pub(super) struct Listen {
    pub(super) kind: StreamKind,
    pub(super) at: ListenAt,
    /// The TLS configuration, created when the server starts.
    #[cfg(feature = "tls")]
    pub(super) tls: Option<ServerTls>,
}

#[derive(Debug)]
pub(super) enum ListenAt {
    Address(Address),
    Socket(TcpListener),
}

/// Local address of a server, parsed or as text.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Address {
    /// IP address and port. Port 0 lets the system choose.
    Socket(SocketAddr),
    /// Text `IP:PORT` or `NAME:PORT`, resolved when the server starts. An error is
    /// [`OpenError::Address`].
    Text(String),
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        Self::Socket(address)
    }
}

impl From<&str> for Address {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Address {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl Address {
    pub(super) async fn resolve(self) -> Result<SocketAddr, OpenError> {
        let text = match self {
            Self::Socket(address) => return Ok(address),
            Self::Text(text) => text,
        };
        if let Ok(address) = text.parse() {
            return Ok(address);
        }
        let none = || io::Error::other("the name has no address");
        match lookup_host(&text)
            .await
            .and_then(|mut all| all.next().ok_or_else(none))
        {
            Ok(address) => Ok(address),
            Err(source) => Err(OpenError::Address { text, source }),
        }
    }
}

/// The protocol's name in ALPN. A WebSocket names it in its handshake.
#[cfg(feature = "tls")]
pub(super) fn alpn(kind: StreamKind) -> Option<&'static [u8]> {
    (kind == StreamKind::Tls).then_some(ALPN)
}

impl Listen {
    pub(super) async fn open(
        self,
        config: &Config,
        origins: Arc<[String]>,
    ) -> Result<Listener, OpenError> {
        let unknown = (std::net::Ipv6Addr::UNSPECIFIED, 0).into();
        let address = match &self.at {
            ListenAt::Address(address) => address.clone().resolve().await?,
            // Only named in errors.
            ListenAt::Socket(socket) => socket.local_addr().unwrap_or(unknown),
        };
        let tls = self.tls_config(address)?;
        let max_message = config.reliable.max_message_size as usize;
        let opened = match self.at {
            ListenAt::Address(_) => Listener::open(address, tls, max_message, origins),
            ListenAt::Socket(socket) => Listener::of(socket, tls, max_message, origins),
        };
        opened.map_err(|source| OpenError::Bind { address, source })
    }

    #[cfg(feature = "tls")]
    fn tls_config(&self, address: SocketAddr) -> Result<Option<TlsAccept>, OpenError> {
        let made = (self.tls.as_ref()).map(|tls| tls.config(alpn(self.kind)));
        let made = made.transpose().map(|tls| tls.map(Replaceable::new));
        made.map_err(|source| OpenError::Tls { address, source })
    }

    #[cfg(not(feature = "tls"))]
    #[expect(
        clippy::unused_self,
        clippy::unnecessary_wraps,
        reason = "the signature with the feature `tls`"
    )]
    fn tls_config(&self, _: SocketAddr) -> Result<Option<TlsAccept>, OpenError> {
        Ok(None)
    }
}
