//! Incoming connections.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use carob_cc::time::Instant;
use carob_proto::tables::quota::{QuotaPolicy, QuotaTable, Source};
use carob_proto::tables::rate_limit::{Admission, RateLimiter};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::AbortHandle;

use super::dial::borrowed;
use super::link::Stream;
use super::{ConnectionEvent, OnSocket, StreamKind, StreamOptions};
use crate::clock::{Entropy, processor_time};
#[cfg(feature = "tls")]
use crate::transport::duplex::Duplex;
use crate::transport::handshake::HandshakeWork;
#[cfg(feature = "tls")]
use crate::transport::handshake::Replaceable;
use crate::transport::socket::canonical;
#[cfg(feature = "websocket")]
use crate::transport::websocket;

/// The TLS configuration of accepted connections.
#[cfg(feature = "tls")]
pub(crate) type TlsAccept = Replaceable<rustls::ServerConfig>;
/// The TLS configuration of accepted connections: there is none without the feature `tls`.
#[cfg(not(feature = "tls"))]
pub(crate) type TlsAccept = std::convert::Infallible;

/// Accepted connections that wait for the driver; at the limit, the system's queue waits.
const ACCEPTED: usize = 32;
/// Connections that wait for the system's `accept`.
const BACKLOG: i32 = 1_024;
/// Time limit of a handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Delay after a failed `accept` for want of files or memory.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// Handshakes of accepted connections by outcome.
#[derive(Debug, Default)]
pub(super) struct HandshakeCounts {
    done: AtomicU64,
    failed: AtomicU64,
    /// Rejected by admission control.
    refused: AtomicU64,
}

impl HandshakeCounts {
    pub(super) fn read(&self) -> (u64, u64, u64) {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (read(&self.done), read(&self.failed), read(&self.refused))
    }
}

/// A listening socket.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: TcpListener,
    local: SocketAddr,
    #[cfg_attr(not(feature = "tls"), allow(dead_code, reason = "there is none"))]
    tls: Option<TlsAccept>,
    #[cfg_attr(
        not(feature = "websocket"),
        allow(dead_code, reason = "read there alone")
    )]
    max_message: usize,
    #[cfg_attr(
        not(feature = "websocket"),
        allow(dead_code, reason = "read there alone")
    )]
    origins: Arc<[String]>,
}

impl Listener {
    /// Listens at `address`; the unspecified IPv6 address takes IPv4 as well.
    pub(crate) fn open(
        address: SocketAddr,
        tls: Option<TlsAccept>,
        max_message: usize,
        origins: Arc<[String]>,
    ) -> io::Result<Self> {
        let address = canonical(address);
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
        Self::of(socket.into(), tls, max_message, origins)
    }

    /// Adopts a socket that listens already.
    pub(crate) fn of(
        socket: std::net::TcpListener,
        tls: Option<TlsAccept>,
        max_message: usize,
        origins: Arc<[String]>,
    ) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        Ok(Self {
            local: socket.local_addr()?,
            socket: TcpListener::from_std(socket)?,
            tls,
            max_message,
            origins,
        })
    }

    /// The TLS configuration of accepted connections, which can be replaced.
    #[cfg(feature = "tls")]
    pub(crate) fn tls(&self) -> Option<&TlsAccept> {
        self.tls.as_ref()
    }

    pub(crate) fn local(&self) -> SocketAddr {
        self.local
    }

    /// Accepts connections until aborted.
    pub(super) fn start(
        self,
        options: &StreamOptions,
        events: mpsc::Sender<ConnectionEvent>,
        counts: Arc<HandshakeCounts>,
    ) -> AbortHandle {
        let (kind, on_socket) = (options.kind, options.on_socket.clone());
        let handshakes = Arc::new(Handshakes {
            limit: options.sessions.handshakes.max(1),
            quota_policy: options.quota_policy,
            since: tokio::time::Instant::now(),
            running: Mutex::new(Running::new(options)),
            counts,
            events: events.clone(),
        });
        tokio::spawn(self.run(kind, on_socket, handshakes, events)).abort_handle()
    }

    async fn run(
        self,
        kind: StreamKind,
        on_socket: Option<OnSocket>,
        handshakes: Arc<Handshakes>,
        events: mpsc::Sender<ConnectionEvent>,
    ) {
        let mut number = 0;
        let mut warned = false;
        let accepted = Arc::new(Semaphore::new(ACCEPTED));
        let handshake = Arc::new(Handshake {
            kind,
            #[cfg(feature = "tls")]
            tls: self.tls,
            #[cfg(feature = "websocket")]
            max_message: self.max_message,
            #[cfg(feature = "websocket")]
            origins: self.origins,
        });
        loop {
            let (stream, from) = accept(&self.socket, self.local, &mut warned).await;
            if let Some(on_socket) = &on_socket {
                on_socket(from, borrowed(&stream));
            }
            if kind == StreamKind::Tcp {
                if stream.set_nodelay(true).is_ok() {
                    let stream = Stream::Tcp(stream);
                    // A flood of connections waits in the queue of the system, not in memory of
                    // this process.
                    let Ok(place) = Arc::clone(&accepted).acquire_owned().await else {
                        return; // it is never closed
                    };
                    let accepted = ConnectionEvent::Accepted {
                        from,
                        stream,
                        place: Some(place),
                    };
                    if events.send(accepted).await.is_err() {
                        return;
                    }
                }
                continue;
            }
            number += 1;
            let (handshake, events) = (Arc::clone(&handshake), events.clone());
            let counts = Arc::clone(&handshakes.counts);
            handshakes.begin(number, from, async move {
                let event = match handshake.timed(stream).await {
                    // The permit is kept until the driver has the connection.
                    Ok(stream) => {
                        counts.done.fetch_add(1, Ordering::Relaxed);
                        let place = None;
                        ConnectionEvent::Accepted {
                            from,
                            stream,
                            place,
                        }
                    }
                    Err(error) => {
                        tracing::debug!(peer = %from, %error, "no handshake");
                        counts.failed.fetch_add(1, Ordering::Relaxed);
                        ConnectionEvent::HandshakeFailed { from, error }
                    }
                };
                // A stopped driver needs no report.
                let _ = events.send(event).await;
            });
        }
    }
}

/// Accepts the next connection. The first error is logged as a warning, later ones only as debug
/// messages, because they recur ten times a second.
async fn accept(
    socket: &TcpListener,
    local: SocketAddr,
    warned: &mut bool,
) -> (TcpStream, SocketAddr) {
    loop {
        match socket.accept().await {
            Ok((stream, from)) => return (stream, canonical(from)),
            Err(error) if std::mem::replace(warned, true) => {
                tracing::debug!(%error, "no connection accepted");
            }
            Err(error) => {
                tracing::warn!(%local, %error, "no connection accepted; further errors are not logged");
            }
        }
        tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
    }
}

/// Handshakes in progress. At the limit the oldest is dropped; at a source's quota, the oldest of
/// that source.
struct Handshakes {
    limit: usize,
    quota_policy: QuotaPolicy,
    /// The origin of the time of `rates`.
    since: tokio::time::Instant,
    running: Mutex<Running>,
    counts: Arc<HandshakeCounts>,
    events: mpsc::Sender<ConnectionEvent>,
}

struct Running {
    /// By serial number, oldest first.
    tasks: BTreeMap<u64, (Source, SocketAddr, AbortHandle)>,
    /// Handshakes of each source.
    shares: QuotaTable,
    /// Rate limit of each source's handshakes.
    rates: Option<RateLimiter>,
    /// The limit on the processor time of all handshakes.
    work: HandshakeWork,
}

impl Running {
    fn new(options: &StreamOptions) -> Self {
        let (limits, sources) = (&options.sessions, options.sources);
        // Remote hosts choose their addresses, so the hash must be unpredictable.
        let seed = Entropy::from_system().map_or(0, |mut chance| chance.next_u64());
        Self {
            tasks: BTreeMap::new(),
            shares: QuotaTable::new(seed),
            rates: RateLimiter::new(
                seed.rotate_left(32),
                limits.handshake_rate,
                limits.handshake_burst,
                sources,
            ),
            work: HandshakeWork::new(limits.handshake_work),
        }
    }

    fn remove(&mut self, number: u64) -> Option<(SocketAddr, AbortHandle)> {
        let (source, from, task) = self.tasks.remove(&number)?;
        self.shares.subtract(source, 1);
        Some((from, task))
    }
}

/// The quota that one handshake occupies.
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

    /// Performs a handshake, if admission control permits it.
    fn begin(
        self: &Arc<Self>,
        number: u64,
        from: SocketAddr,
        handshake: impl Future<Output = ()> + Send + 'static,
    ) {
        let source = self.quota_policy.source(from);
        let place = Place {
            number,
            handshakes: Arc::clone(self),
        };
        let mut running = self.running();
        let now = self.now();
        if !running.work.has_room(now) {
            tracing::debug!(peer = %from, "handshake refused: processor time of handshakes");
            self.counts.refused.fetch_add(1, Ordering::Relaxed);
            // The drop releases its quota and closes its connection.
            drop(running);
            return;
        }
        if let Some(rates) = &mut running.rates
            && rates.ask(now, source, true) != Admission::Allow
        {
            tracing::debug!(peer = %from, "handshake refused: rate limit of its source");
            self.counts.refused.fetch_add(1, Ordering::Relaxed);
            // Its place is given back, and its connection closed.
            drop(running);
            return;
        }
        let share = self.quota_policy.quota(self.limit);
        // A source at its quota evicts its own: it cannot end the handshakes of others.
        let oldest = if running.shares.of(source) >= share {
            let own =
                |(_, (other, ..)): &(&u64, &(Source, SocketAddr, AbortHandle))| *other == source;
            running.tasks.iter().find(own).map(|(number, _)| *number)
        } else if running.tasks.len() >= self.limit {
            running.tasks.keys().next().copied()
        } else {
            None
        };
        let dropped = oldest.and_then(|oldest| running.remove(oldest));
        // The task cannot end before it is recorded, because that needs this lock.
        let task = tokio::spawn(async move {
            let handshakes = Arc::clone(&place.handshakes);
            let _place = place;
            handshakes.metered(handshake).await;
        });
        (running.tasks).insert(number, (source, from, task.abort_handle()));
        running.shares.add(source, 1);
        drop(running);
        if let Some((from, dropped)) = dropped {
            tracing::debug!(peer = %from, "handshake evicted");
            dropped.abort();
            self.counts.failed.fetch_add(1, Ordering::Relaxed);
            let error = io::Error::other("evicted by another handshake");
            // While the driver is behind, evictions are only counted.
            let event = ConnectionEvent::HandshakeFailed { from, error };
            let _ = self.events.try_send(event);
        }
    }
}

struct Handshake {
    kind: StreamKind,
    #[cfg(feature = "tls")]
    tls: Option<TlsAccept>,
    #[cfg(feature = "websocket")]
    max_message: usize,
    /// Names of hosts whose web pages may connect.
    #[cfg(feature = "websocket")]
    origins: Arc<[String]>,
}

impl Handshake {
    /// Performs the handshake within its time limit.
    async fn timed(&self, stream: TcpStream) -> io::Result<Stream> {
        let timed_out = |_| io::Error::new(io::ErrorKind::TimedOut, "the handshake took too long");
        let performed = tokio::time::timeout(HANDSHAKE, self.perform(stream)).await;
        performed.map_err(timed_out)?
    }

    #[cfg_attr(
        not(any(feature = "tls", feature = "websocket")),
        expect(
            clippy::unused_async,
            reason = "plain TCP has no handshake to wait for"
        )
    )]
    async fn perform(&self, stream: TcpStream) -> io::Result<Stream> {
        stream.set_nodelay(true)?;
        Ok(match self.kind {
            StreamKind::Tcp => Stream::Tcp(stream),
            #[cfg(feature = "tls")]
            StreamKind::Tls => Stream::Tls(self.secure(stream).await?),
            #[cfg(feature = "websocket")]
            StreamKind::WebSocket => {
                let (limit, origins) = (self.max_message, &self.origins);
                let stream = websocket::accept(Box::new(stream) as _, limit, origins).await?;
                Stream::WebSocket(Box::new(stream))
            }
            #[cfg(all(feature = "tls", feature = "websocket"))]
            StreamKind::SecureWebSocket => {
                let stream = self.secure(stream).await?;
                let (limit, origins) = (self.max_message, &self.origins);
                let stream = websocket::accept(stream, limit, origins).await?;
                Stream::WebSocket(Box::new(stream))
            }
        })
    }

    #[cfg(feature = "tls")]
    async fn secure(&self, stream: TcpStream) -> io::Result<Box<dyn Duplex>> {
        match &self.tls {
            Some(tls) => {
                let acceptor = tokio_rustls::TlsAcceptor::from(tls.get());
                Ok(Box::new(acceptor.accept(stream).await?))
            }
            None => Err(io::ErrorKind::InvalidInput.into()),
        }
    }
}
