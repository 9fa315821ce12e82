//! The client: requests, bodies, observations, multicast requests and the response cache.
//!
//! | type | task |
//! |---|---|
//! | [`Client`], [`ClientBuilder`] | open an endpoint |
//! | [`RequestBuilder`] | describe and send a request |
//! | [`Reply`], [`StreamedReply`] | read a response, whole or block by block |
//! | [`Body`], [`BodySender`] | send a body that is read or produced while it is sent |
//! | [`Observation`], [`Update`] | observe a resource (RFC 7641) |
//! | [`MulticastResponses`] | read the responses to a multicast request |
//! | [`CacheLimits`], [`Origin`] | cache responses (RFC 7252 section 5.6) |

mod body;
mod cache;
mod observation;
mod range;
mod reply;
mod request;
mod resolve;

use std::collections::BTreeSet;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use carob_cc::controller::Gauge;
use carob_proto::codec::{Code, Scheme, Uri};
use carob_proto::endpoint::{Snapshot, Usage};
use carob_proto::message::Response;
use tokio::sync::oneshot;

use crate::clock::TimeSource;
use crate::config::{Config, PeerConfig};
use crate::error::{Error, OpenError};
use crate::runtime::TransportSet;
use crate::runtime::{self, Command, Handle, Ping, ShutdownOutcome};
use crate::transport::handshake::PeerIdentity;
use crate::transport::socket::{Socket, canonical};
use crate::transport::tcp::StreamKind;

use cache::SharedCache;
use reply::Answer;

pub use body::{Body, BodySender, BodySenderClosed};
pub use cache::{CacheLimits, CacheUsage};
pub use observation::{Observation, Update};
pub use reply::MulticastResponses;
pub use reply::{BodyStream, Origin, Reply, StreamedReply};
pub use request::RequestBuilder;

/// Duration to wait for multicast responses, 8 s: a leisure of 5 s, and 3 s for processing and for
/// the transmission in both directions.
///
/// A group whose members use a longer leisure needs a longer wait; see
/// [`MulticastRequest`](carob_proto::endpoint::MulticastRequest).
pub const MULTICAST_WAIT: Duration = Duration::from_secs(8);

/// Client for all URI schemes.
///
/// Cloning is cheap: clones share one endpoint with its sockets, its table of peers with their
/// controllers, and its cache. A UDP socket is opened at once, the endpoint of another scheme with
/// the first request that needs it. The sockets close when the last clone is dropped.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use carob::{Client, Code};
///
/// let client = Client::new()?;
/// let reply = client.get("coap://example.org/sensors/temperature").await?;
/// if reply.code == Code::CONTENT {
///     println!("{:?} after {:?}", reply.text(), reply.after);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Client {
    transports: Arc<TransportSet>,
    cache: Option<Arc<SharedCache>>,
}

/// Builder of a [`Client`], from [`Client::builder`].
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use carob::{CacheLimits, Client, Config};
///
/// let client = Client::builder()
///     .bind("127.0.0.1:0".parse()?)
///     .config(Config::new().controller_named("fasor")?)
///     .cache(CacheLimits::default())
///     .open()?;
/// assert!(client.local_address().ip().is_loopback());
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Default)]
pub struct ClientBuilder {
    bind: Option<SocketAddr>,
    socket: Option<UdpSocket>,
    config: Config,
    cache: Option<CacheLimits>,
}

impl ClientBuilder {
    /// Sets the local address of the UDP socket. Default: any address and port, for IPv6 and IPv4.
    pub fn bind(mut self, address: SocketAddr) -> Self {
        self.bind = Some(address);
        self
    }

    /// Sets a bound UDP socket to send from, for example one bound to a device or opened in another
    /// network namespace. The socket takes precedence over [`bind`](Self::bind).
    pub fn socket(mut self, socket: UdpSocket) -> Self {
        self.socket = Some(socket);
        self
    }

    /// Sets the configuration of the endpoint. Default: [`Config::new`].
    pub fn config(mut self, config: Config) -> Self {
        self.config = config;
        self
    }

    /// Enables the response cache (RFC 7252 section 5.6), shared by all clones of the client.
    /// Default: no cache.
    ///
    /// Responses to GET and FETCH are cached. A fresh response answers a request without a message.
    /// A stale response with an entity tag is revalidated. Error responses are cached only if they
    /// carry Max-Age.
    ///
    /// A request of another method through this client makes the cached responses of its resource
    /// stale. Changes by other clients are noticed when the freshness lifetime ends, or with
    /// [`reload`](RequestBuilder::reload). The notifications of an
    /// [observation](RequestBuilder::observe) keep a cached response up to date (RFC 7641 section
    /// 3.3). [`Reply::origin`] is the source of a response.
    pub fn cache(mut self, limits: CacheLimits) -> Self {
        self.cache = Some(limits);
        self
    }

    /// Opens the client and starts its task on the current tokio runtime.
    ///
    /// # Errors
    ///
    /// [`OpenError`] if the socket cannot be bound, or the [interface](Config::group_interface) for
    /// multicast messages is unknown.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub fn open(self) -> Result<Client, OpenError> {
        #[cfg(feature = "dtls")]
        self.config.dtls.check().map_err(OpenError::Credential)?;
        let handle = match self.socket {
            Some(socket) => runtime::start_on(socket_of(socket)?, &self.config, None)?,
            None => runtime::start(self.bind, &self.config, None)?,
        };
        let time = self.config.time_source;
        let cache = self.cache.map(|limits| SharedCache::new(limits, time));
        let cache = cache.map(Arc::new);
        let transports = Arc::new(TransportSet::new(
            self.config,
            (Scheme::Coap, handle),
            Vec::new(),
        ));
        Ok(Client { transports, cache })
    }
}

/// Target of a request: a URI, parsed or as text. Request methods take anything that converts into
/// it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Target {
    /// URI as text; a parse error is reported when the request is sent ([`Error::Uri`]).
    Text(String),
    /// Parsed URI.
    Uri(Uri),
}

impl From<&str> for Target {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Target {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&String> for Target {
    fn from(text: &String) -> Self {
        Self::Text(text.clone())
    }
}

impl From<Uri> for Target {
    fn from(uri: Uri) -> Self {
        Self::Uri(uri)
    }
}

impl Client {
    /// Opens a client with the default configuration on the current tokio runtime. Errors and
    /// panics: as [`ClientBuilder::open`].
    ///
    /// # Errors
    ///
    /// [`OpenError`], as for [`ClientBuilder::open`].
    pub fn new() -> Result<Self, OpenError> {
        Self::builder().open()
    }

    /// Returns a builder with the default configuration.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    pub(crate) fn over(transports: Arc<TransportSet>) -> Self {
        Self {
            transports,
            cache: None,
        }
    }

    /// Returns a client on the same endpoint with a separate, empty cache, or with no cache.
    pub fn with_cache(&self, limits: Option<CacheLimits>) -> Self {
        let time = self.time_source();
        Self {
            transports: Arc::clone(&self.transports),
            cache: limits.map(|limits| Arc::new(SharedCache::new(limits, time))),
        }
    }

    /// The clock that the time is read from.
    pub(crate) fn time_source(&self) -> TimeSource {
        self.transports.time_source()
    }

    /// Makes the cached responses of a URI stale after a request of another client has changed the
    /// resource.
    pub(crate) fn changed(&self, uri: &Uri, response: &Response) {
        if let Some(cache) = &self.cache {
            let asked = cache::CacheRequest {
                uri,
                to: None,
                options: uri.options(),
            };
            cache.changed(&asked, response);
        }
    }

    /// Returns the usage of the cache; zero without a cache.
    pub fn cache_usage(&self) -> CacheUsage {
        let cache = self.cache.as_ref();
        cache.map(|cache| cache.usage()).unwrap_or_default()
    }

    /// Returns the local address of the UDP socket. For the client of a server without UDP: the
    /// first address of the server.
    pub fn local_address(&self) -> SocketAddr {
        self.transports.first().local()
    }

    /// Builds a request with any method.
    pub fn request(&self, method: Code, target: impl Into<Target>) -> RequestBuilder {
        let (transports, cache) = (Arc::clone(&self.transports), self.cache.clone());
        RequestBuilder::new(transports, cache, method, target.into())
    }

    /// Builds a GET request.
    pub fn get(&self, target: impl Into<Target>) -> RequestBuilder {
        self.request(Code::GET, target)
    }

    /// Builds a PUT request.
    pub fn put(&self, target: impl Into<Target>) -> RequestBuilder {
        self.request(Code::PUT, target)
    }

    /// Builds a POST request.
    pub fn post(&self, target: impl Into<Target>) -> RequestBuilder {
        self.request(Code::POST, target)
    }

    /// Builds a DELETE request.
    pub fn delete(&self, target: impl Into<Target>) -> RequestBuilder {
        self.request(Code::DELETE, target)
    }

    /// Builds a FETCH request, whose body selects parts of the resource (RFC 8132 section 2).
    pub fn fetch(&self, target: impl Into<Target>) -> RequestBuilder {
        self.request(Code::FETCH, target)
    }

    /// Builds a PATCH request: a partial update that need not be idempotent (RFC 8132 section 3).
    pub fn patch(&self, target: impl Into<Target>) -> RequestBuilder {
        self.request(Code::PATCH, target)
    }

    /// Builds an iPATCH request: an idempotent partial update (RFC 8132 section 3).
    pub fn ipatch(&self, target: impl Into<Target>) -> RequestBuilder {
        self.request(Code::IPATCH, target)
    }

    /// Sends a CoAP ping (RFC 7252 section 4.3) and returns the round-trip time.
    ///
    /// Of several addresses of the host, up to 8 are tried in turn until one can be reached. The
    /// timeouts of the transmission parameters apply; wrap the future in `tokio::time::timeout` for
    /// a shorter one. Dropping the future cancels the ping.
    ///
    /// # Errors
    ///
    /// [`Error::Uri`], [`Error::Resolve`], [`Error::Timeout`], [`Error::Unreachable`] and the other
    /// errors of a request.
    pub async fn ping(&self, target: impl Into<Target>) -> Result<Duration, Error> {
        let uri = resolve::read(target.into())?;
        let handle = self.transports.of(uri.scheme())?;
        let name = resolve::name(&uri);
        let peers = resolve::addresses(&uri, handle.local()).await?;
        let mut outcome = Err(Error::Closed);
        for peer in peers {
            outcome = ping_address(&handle, peer, name.clone()).await;
            if !matches!(outcome, Err(Error::Unreachable { .. })) {
                break;
            }
        }
        outcome
    }

    /// Sets the controller and the transmission parameters of one peer, for UDP and DTLS. A peer
    /// with state keeps its controller until that state is evicted.
    ///
    /// # Errors
    ///
    /// [`Error::OverConnection`] if the peer is known only by a TCP, TLS or WebSocket connection,
    /// whose congestion control is the system's. [`Error::Closed`] if the endpoint has
    /// stopped.
    pub async fn set_peer(&self, peer: SocketAddr, config: PeerConfig) -> Result<(), Error> {
        let peer = canonical(peer);
        if let Some((scheme, ..)) = self.known(peer).await
            && StreamKind::of(scheme).is_some()
        {
            return Err(Error::OverConnection { peer, scheme });
        }
        let mut taken = false;
        let (config, endpoints) = self.transports.set_peer(peer, config);
        for (_, handle) in endpoints {
            let command = Command::SetPeer(Box::new((peer, config.clone())));
            taken |= handle.command(command).await;
        }
        if taken { Ok(()) } else { Err(Error::Closed) }
    }

    /// Returns the readings of a peer's controller by name, such as its RTO; `None` for an unknown
    /// peer. Empty over TCP, TLS and WebSocket. With several transports to one address: as
    /// [`snapshot`](Self::snapshot).
    pub async fn gauges(&self, peer: SocketAddr) -> Option<Vec<(&'static str, Gauge)>> {
        let peer = canonical(peer);
        let (_, handle, _) = self.known(peer).await?;
        handle.ask(|reply| Command::Gauges(peer, reply)).await?
    }

    /// Returns the state of a peer: RTO, round-trip time, retransmissions, length of its queue;
    /// `None` for an unknown peer.
    ///
    /// With several transports to one address, the most recently used counts. Over TCP, TLS and
    /// WebSocket there is no RTO and no round-trip time: congestion control is the system's.
    pub async fn snapshot(&self, peer: SocketAddr) -> Option<Snapshot> {
        let known = self.known(canonical(peer)).await;
        known.map(|(.., snapshot)| snapshot)
    }

    /// Finds the transport on which a peer was used most recently, with its endpoint and its state.
    async fn known(&self, peer: SocketAddr) -> Option<(Scheme, Arc<Handle>, Snapshot)> {
        let mut known: Option<(Scheme, Arc<Handle>, Snapshot)> = None;
        let age = |of: &Snapshot| of.heard.into_iter().chain(of.sent).min();
        for (scheme, handle) in self.transports.all_by_scheme() {
            let snapshot = handle.ask(|reply| Command::Snapshot(peer, reply)).await;
            let Some(snapshot) = snapshot.flatten() else {
                continue;
            };
            let newer = known.as_ref().is_none_or(|(.., other)| {
                age(&snapshot).is_some_and(|own| age(other).is_none_or(|other| own < other))
            });
            if newer {
                known = Some((scheme, handle, snapshot));
            }
        }
        known
    }

    /// Returns the authenticated identity of a peer with a DTLS session; `None` without a session.
    pub async fn peer_identity(&self, peer: SocketAddr) -> Option<Arc<PeerIdentity>> {
        let peer = canonical(peer);
        // Only sessions over DTLS have an identity here; the question itself must not open a
        // transport.
        let handle = self.transports.started(Scheme::Coaps)?;
        handle.ask(|reply| Command::Identity(peer, reply)).await?
    }

    /// Ends the DTLS session with a peer, whichever side began it: the peer is sent a close_notify,
    /// and everything in progress in the session fails with
    /// [`SessionEnded`](carob_proto::endpoint::Failure::SessionEnded). The next request to the peer
    /// begins a new session. Returns whether there was a session.
    ///
    /// A client ends a session by itself when its peer stops replying. A program that knows earlier,
    /// for example after a change of the network, calls this.
    ///
    /// ```no_run
    /// # async fn example(client: carob::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let gateway = "192.0.2.1:5684".parse()?;
    /// client.end_session(gateway).await;
    /// client.get("coaps://192.0.2.1/status").await?; // in a new session
    /// # Ok(())
    /// # }
    /// ```
    pub async fn end_session(&self, peer: SocketAddr) -> bool {
        let Some(handle) = self.transports.started(Scheme::Coaps) else {
            return false;
        };
        let peer = canonical(peer);
        let ended = handle.ask(|reply| Command::EndSession(peer, reply)).await;
        ended.unwrap_or(false)
    }

    /// Returns the addresses of the peers with state on any transport, each once.
    ///
    /// # Errors
    ///
    /// [`Error::Closed`].
    pub async fn peers(&self) -> Result<Vec<SocketAddr>, Error> {
        let mut peers = Vec::new();
        for handle in self.transports.all() {
            peers.extend(handle.ask(Command::Peers).await.ok_or(Error::Closed)?);
        }
        let mut known = BTreeSet::new();
        // A peer may be known on several transports.
        peers.retain(|peer| known.insert(*peer));
        Ok(peers)
    }

    /// Returns the number of entries in the endpoint's tables, summed over all transports.
    ///
    /// # Errors
    ///
    /// [`Error::Closed`].
    pub async fn usage(&self) -> Result<Usage, Error> {
        let mut usage = Usage::default();
        for handle in self.transports.all() {
            usage += handle.ask(Command::Usage).await.ok_or(Error::Closed)?;
        }
        Ok(usage)
    }

    /// Waits until all endpoints of the client have stopped. Dropping the future has no effect on
    /// them.
    ///
    /// # Errors
    ///
    /// The first error that stopped an endpoint.
    pub async fn closed(&self) -> io::Result<()> {
        self.transports.closed().await
    }

    /// Stops the endpoint for all clones. New requests fail with [`Error::Closed`]; pending
    /// requests may finish until `limit` has passed, then they are aborted.
    pub async fn shutdown(self, limit: Duration) -> ShutdownOutcome {
        runtime::shutdown_all(self.transports.all(), limit).await
    }
}

async fn ping_address(
    handle: &Arc<Handle>,
    peer: SocketAddr,
    name: Option<Arc<str>>,
) -> Result<Duration, Error> {
    let (reply, answer) = oneshot::channel();
    let ticket = handle.ticket();
    let answer = Answer::new(handle, ticket, answer);
    let ping = Ping {
        ticket,
        to: peer,
        name,
        reply,
    };
    handle.command(Command::Ping(ping)).await;
    match answer.wait().await {
        Some(Ok(round_trip)) => Ok(round_trip),
        Some(Err(failed)) => Err(failed.into_public(peer)),
        None => Err(Error::Closed),
    }
}

/// Adopts a socket.
pub(crate) fn socket_of(socket: UdpSocket) -> Result<Socket, OpenError> {
    // Only for the text of the error.
    let address = socket.local_addr().unwrap_or(([0, 0, 0, 0], 0).into());
    Socket::of(socket).map_err(|source| OpenError::Bind { address, source })
}
