//! Outgoing connections, and the place of a connection: its link, or the attempt to make one, with the bytes staged for it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use bytes::BytesMut;
use carob_proto::codec::Framing;
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::AbortHandle;

use super::link::{Link, Stream};
use super::{StreamKind, StreamOptions};

#[cfg(feature = "tls")]
use crate::transport::tls::{ALPN, TlsConnections};

#[cfg(feature = "websocket")]
use crate::transport::websocket;

/// Creates the socket of an outgoing connection to an address.
pub(crate) type MakeSocket =
    Arc<dyn Fn(SocketAddr) -> io::Result<std::net::TcpStream> + Send + Sync>;

/// Socket that is valid for the duration of a call.
#[cfg(unix)]
pub type BorrowedSocket<'a> = std::os::fd::BorrowedFd<'a>;
/// Socket that is valid for the duration of a call.
#[cfg(windows)]
pub type BorrowedSocket<'a> = std::os::windows::io::BorrowedSocket<'a>;

/// Receives the socket of each new connection, with the peer's address.
pub(crate) type OnSocket = Arc<dyn Fn(SocketAddr, BorrowedSocket<'_>) + Send + Sync>;

/// The socket of a connection, for [`OnSocket`].
pub(super) fn borrowed(stream: &TcpStream) -> BorrowedSocket<'_> {
    #[cfg(unix)]
    return std::os::fd::AsFd::as_fd(stream);
    #[cfg(windows)]
    return std::os::windows::io::AsSocket::as_socket(stream);
}

/// Opens connections of one kind.
pub(crate) struct Dialer {
    kind: StreamKind,
    make: Option<MakeSocket>,
    on_socket: Option<OnSocket>,
    limit: Duration,
    #[cfg(feature = "websocket")]
    max_message: usize,
    #[cfg(feature = "tls")]
    tls: TlsConnections,
}

impl fmt::Debug for Dialer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dialer")
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}

impl Dialer {
    pub(super) fn new(options: &StreamOptions) -> Self {
        Self {
            kind: options.kind,
            make: options.make_socket.clone(),
            on_socket: options.on_socket.clone(),
            limit: options.connect_timeout,
            #[cfg(feature = "websocket")]
            max_message: options.max_message,
            // A WebSocket's protocol is named in its own handshake.
            #[cfg(feature = "tls")]
            tls: TlsConnections::new(
                options.tls.clone(),
                (options.kind == StreamKind::Tls).then_some(ALPN),
            ),
        }
    }

    /// Connects to `to`; `name` is the host of the URI, unless that is an address.
    pub(super) async fn dial(&self, to: SocketAddr, name: Option<&str>) -> io::Result<Stream> {
        let made = tokio::time::timeout(self.limit, self.make(to, name)).await;
        made.unwrap_or_else(|_| {
            let text = format!("no connection within {} s", self.limit.as_secs());
            Err(io::Error::new(io::ErrorKind::TimedOut, text))
        })
    }

    #[cfg_attr(
        not(any(feature = "tls", feature = "websocket")),
        expect(unused_variables, reason = "TCP knows no names")
    )]
    async fn make(&self, to: SocketAddr, name: Option<&str>) -> io::Result<Stream> {
        let stream = self.connect(to).await?;
        // Messages are small and complete; waiting to fill segments would only delay them.
        stream.set_nodelay(true)?;
        if let Some(on_socket) = &self.on_socket {
            on_socket(to, borrowed(&stream));
        }
        Ok(match self.kind {
            StreamKind::Tcp => Stream::Tcp(stream),
            #[cfg(feature = "tls")]
            StreamKind::Tls => Stream::Tls(self.tls.connect(stream, to, name).await?),
            #[cfg(feature = "websocket")]
            StreamKind::WebSocket => {
                let stream = Box::new(stream);
                let stream = websocket::connect(stream, false, to, name, self.max_message).await?;
                Stream::WebSocket(Box::new(stream))
            }
            #[cfg(all(feature = "tls", feature = "websocket"))]
            StreamKind::SecureWebSocket => {
                let stream = self.tls.connect(stream, to, name).await?;
                let stream = websocket::connect(stream, true, to, name, self.max_message).await?;
                Stream::WebSocket(Box::new(stream))
            }
        })
    }

    async fn connect(&self, to: SocketAddr) -> io::Result<TcpStream> {
        let Some(make) = &self.make else {
            return TcpStream::connect(to).await;
        };
        let socket = make(to)?;
        // Tokio takes it as it is, and a call that blocks would block the runtime.
        socket.set_nonblocking(true)?;
        TcpSocket::from_std_stream(socket).connect(to).await
    }
}

/// A connection, or an attempt to open one.
pub(super) struct Place {
    pub(super) link: u64,
    pub(super) link_or_try: LinkOrTry,
    /// Written by the engine and not yet handed over.
    pub(super) staged: BytesMut,
    /// Set when the buffer has grown beyond [`STAGED_KEPT`](super::STAGED_KEPT).
    pub(super) was_large: bool,
    /// The end of each staged message, for WebSocket.
    pub(super) ends: Vec<usize>,
    pub(super) congested: bool,
}

pub(super) enum LinkOrTry {
    Link(Link),
    Try { _task: AbortOnDrop },
}

/// A task that ends with its owner.
pub(super) struct AbortOnDrop(pub(super) AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Place {
    pub(super) fn new(link: u64, link_or_try: LinkOrTry) -> Self {
        Self {
            link,
            link_or_try,
            staged: BytesMut::new(),
            was_large: false,
            ends: Vec::new(),
            congested: false,
        }
    }

    pub(super) fn hand_over(&mut self, framing: Framing) {
        let LinkOrTry::Link(link) = &self.link_or_try else {
            return;
        };
        match framing {
            Framing::Stream => {
                if !self.staged.is_empty() {
                    link.write(self.staged.split().freeze());
                }
            }
            Framing::WebSocket => {
                let mut taken = 0;
                for end in self.ends.drain(..) {
                    link.write(self.staged.split_to(end - taken).freeze());
                    taken = end;
                }
            }
        }
        // The remainder would retain the whole large allocation.
        if self.was_large {
            (self.staged, self.was_large) = (BytesMut::new(), false);
        }
    }
}
