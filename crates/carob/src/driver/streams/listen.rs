//! Taking connections.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use carob_cc::time::Instant;
use carob_proto::rates::{Pace, Rates};
use carob_proto::shares::{Shares, Sharing, Source};
use rustls::ServerConfig;
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::AbortHandle;
use tokio_rustls::TlsAcceptor;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tokio_tungstenite::tungstenite::http::header::SEC_WEBSOCKET_PROTOCOL;
use tokio_tungstenite::tungstenite::http::{HeaderValue, StatusCode};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::{WebSocketStream, accept_hdr_async_with_config};

use super::link::{Duplex, Stream};
use super::{Happening, Kind, OnSocket};
use crate::clock::{Entropy, processor_time};
use crate::driver::handshake_work::HandshakeWork;
use crate::settings::Settings;
use crate::socket::canonical;

/// Accepted connections that wait for the driver; at the limit, the system's queue waits.
const ACCEPTED: usize = 32;
/// Connections that wait for the system's `accept`.
const BACKLOG: i32 = 1_024;
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
        settings: &Settings,
        tell: mpsc::Sender<Happening>,
    ) -> AbortHandle {
        let see = settings.on_socket.clone();
        let handshakes = Arc::new(Handshakes {
            limit: settings.sessions.handshakes.max(1),
            sharing: settings.config.limits.sharing(),
            since: tokio::time::Instant::now(),
            running: Mutex::new(Running::new(settings)),
        });
        tokio::spawn(self.run(kind, see, handshakes, tell)).abort_handle()
    }

    async fn run(
        self,
        kind: Kind,
        see: Option<OnSocket>,
        handshakes: Arc<Handshakes>,
        tell: mpsc::Sender<Happening>,
    ) {
        let mut number = 0;
        let mut told = false;
        let accepted = Arc::new(Semaphore::new(ACCEPTED));
        let shake = Arc::new(Handshake {
            kind,
            tls: self.tls.map(TlsAcceptor::from),
            max_message: self.max_message,
        });
        loop {
            let (stream, from) = match self.socket.accept().await {
                Ok((stream, from)) => (stream, canonical(from)),
                Err(error) => {
                    // The first is told; a flood would have it told ten times a second.
                    if std::mem::replace(&mut told, true) {
                        tracing::debug!(%error, "no connection accepted");
                    } else {
                        let local = self.local;
                        tracing::warn!(%local, %error, "no connection accepted; not told again");
                    }
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
                    let Ok(place) = Arc::clone(&accepted).acquire_owned().await else {
                        return; // it is never closed
                    };
                    let came = Happening::Came {
                        from,
                        stream,
                        place: Some(place),
                    };
                    if tell.send(came).await.is_err() {
                        return;
                    }
                }
                continue;
            }
            number += 1;
            let (shake, tell) = (Arc::clone(&shake), tell.clone());
            handshakes.begin(number, from, async move {
                match tokio::time::timeout(HANDSHAKE, shake.perform(stream)).await {
                    Ok(Ok(stream)) => {
                        // Its place among handshakes is kept until the driver has it.
                        let came = Happening::Came {
                            from,
                            stream,
                            place: None,
                        };
                        let _ = tell.send(came).await;
                    }
                    Ok(Err(error)) => tracing::debug!(peer = %from, %error, "no handshake"),
                    Err(_) => tracing::debug!(peer = %from, "the handshake took too long"),
                }
            });
        }
    }
}

/// Handshakes under way. At the limit, the one that began longest ago is dropped, and at a source's
/// share of it, the oldest of that source: who says nothing keeps nobody waiting.
struct Handshakes {
    limit: usize,
    sharing: Sharing,
    /// When the time of `rates` began.
    since: tokio::time::Instant,
    running: Mutex<Running>,
}

struct Running {
    /// By number, so the oldest comes first.
    tasks: BTreeMap<u64, (Source, AbortHandle)>,
    /// How many each source has.
    shares: Shares,
    /// How many it may begin.
    rates: Option<Rates>,
    /// The processor time that all together may take.
    work: HandshakeWork,
}

impl Running {
    fn new(settings: &Settings) -> Self {
        let (limits, sources) = (&settings.sessions, settings.config.limits.sources);
        // Others choose from which addresses they come, and must not know where those are in a table.
        let seed = Entropy::from_system().map_or(0, |mut chance| chance.next_u64());
        Self {
            tasks: BTreeMap::new(),
            shares: Shares::new(seed),
            rates: Rates::new(
                seed.rotate_left(32),
                limits.handshake_rate,
                limits.handshake_burst,
                sources,
            ),
            work: HandshakeWork::new(limits.handshake_work),
        }
    }

    fn remove(&mut self, number: u64) -> Option<AbortHandle> {
        let (source, task) = self.tasks.remove(&number)?;
        self.shares.subtract(source, 1);
        Some(task)
    }
}

/// The place of one handshake.
struct Place {
    number: u64,
    handshakes: Arc<Handshakes>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.handshakes.running().remove(self.number);
    }
}

impl Handshakes {
    fn running(&self) -> MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Instant {
        let now = self.since.elapsed().as_micros();
        Instant::from_micros(u64::try_from(now).unwrap_or(u64::MAX))
    }

    /// Counts the processor time of a handshake.
    async fn metered(&self, handshake: impl Future<Output = ()>) {
        let mut handshake = std::pin::pin!(handshake);
        std::future::poll_fn(|context| {
            let before = processor_time();
            let polled = handshake.as_mut().poll(context);
            let took = processor_time().saturating_sub(before);
            let now = self.now();
            self.running().work.add(now, took);
            polled
        })
        .await;
    }

    /// Performs a handshake, if there is room for it or room can be made.
    fn begin(
        self: &Arc<Self>,
        number: u64,
        from: SocketAddr,
        handshake: impl Future<Output = ()> + Send + 'static,
    ) {
        let source = self.sharing.source(from);
        let place = Place {
            number,
            handshakes: Arc::clone(self),
        };
        let mut running = self.running();
        let now = self.now();
        if !running.work.has_room(now) {
            tracing::debug!(peer = %from, "no handshake: all together have taken too much time");
            // Its place is given back, and its connection closed.
            drop(running);
            return;
        }
        if let Some(rates) = &mut running.rates
            && rates.ask(now, source, true) != Pace::Within
        {
            tracing::debug!(peer = %from, "no handshake: too many of its source");
            // Its place is given back, and its connection closed.
            drop(running);
            return;
        }
        let share = self.sharing.most(self.limit);
        let oldest = if running.shares.of(source) >= share {
            let own = |(_, (other, _)): &(&u64, &(Source, AbortHandle))| *other == source;
            running.tasks.iter().find(own).map(|(number, _)| *number)
        } else if running.tasks.len() >= self.limit {
            running.tasks.keys().next().copied()
        } else {
            None
        };
        let dropped = oldest.and_then(|oldest| running.remove(oldest));
        // It cannot end before it is noted: its place would have to be free.
        let task = tokio::spawn(async move {
            let handshakes = Arc::clone(&place.handshakes);
            let _place = place;
            handshakes.metered(handshake).await;
        });
        running.tasks.insert(number, (source, task.abort_handle()));
        running.shares.add(source, 1);
        drop(running);
        if let Some(dropped) = dropped {
            tracing::debug!(peer = %from, "a handshake makes room for another");
            dropped.abort();
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
                Stream::WebSocket(Box::new(accept_websocket(stream, self.max_message).await?))
            }
        })
    }
}

/// A server's side of a WebSocket's handshake.
pub(crate) async fn accept_websocket<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    max_message: usize,
) -> io::Result<WebSocketStream<S>> {
    let limits = websocket_limits(max_message);
    let accepted = accept_hdr_async_with_config(stream, agree, Some(limits)).await;
    accepted.map_err(io::Error::other)
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
