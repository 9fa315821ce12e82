//! Asking: the client, its requests, their bodies and replies, and a cache of these.

mod body;
mod cache;
mod gathered;
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
use carob_cc::{TransmissionParameters, TransmissionProfile};
use carob_proto::codec::{Code, Scheme, Uri};
use carob_proto::congestion::Choice;
use carob_proto::endpoint::{Failure, Snapshot, Usage};
use carob_proto::message::Response;
use tokio::sync::oneshot;

use crate::clock::TimeSource;
use crate::driver::streams::Kind;
use crate::driver::{self, Command, Failed, Finish, Handle, Note, Ping, Why};
use crate::dtls::PeerIdentity;
use crate::error::{Error, OpenError};
use crate::settings::Settings;
use crate::socket::Socket;
use crate::ways::Ways;

use cache::SharedCache;

pub use body::{Body, BodySender, BodySenderClosed};
pub(crate) use cache::Keeper;
pub use cache::{CacheLimits, CacheUsage};
pub use gathered::Gathered;
pub use observation::{Observation, Update};
pub use reply::{BodyStream, Origin, Reply, StreamedReply};
pub use request::RequestBuilder;

/// For how long the responses of a group are usefully gathered, unless its members are known to need
/// longer: a leisure of 5 s and 3 s for processing and both ways
/// ([`Gathering`](carob_proto::endpoint::Gathering)).
pub const GATHERING: Duration = Duration::from_secs(8);

/// Sends requests. Clones share one endpoint: its socket, its peers' controllers.
///
/// When the last of them is dropped, the socket closes.
#[derive(Clone, Debug)]
pub struct Client {
    ways: Arc<Ways>,
    cache: Option<Arc<SharedCache>>,
}

/// A client to be opened.
#[derive(Debug, Default)]
pub struct ClientBuilder {
    bind: Option<SocketAddr>,
    socket: Option<UdpSocket>,
    settings: Settings,
    cache: Option<CacheLimits>,
}

impl ClientBuilder {
    /// The address to send from; without it any, on IPv6 and IPv4.
    pub fn bind(mut self, address: SocketAddr) -> Self {
        self.bind = Some(address);
        self
    }

    /// Sends from this UDP socket, which is bound already: to a device, say, or in another network
    /// namespace.
    pub fn socket(mut self, socket: UdpSocket) -> Self {
        self.socket = Some(socket);
        self
    }

    /// The endpoint's settings.
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// Keeps responses to GET and FETCH within these limits, for all clones of the client
    /// together, and answers with them as long as they are fresh; after that they are sent only if
    /// they have changed (RFC 7252 5.6).
    ///
    /// A request that changes a resource through this client makes what is kept of it stale; what
    /// others change is noticed when freshness ends, or with
    /// [`reload`](RequestBuilder::reload). What is [observed](RequestBuilder::observe) is kept up
    /// to date by its notifications (RFC 7641 3.3). [`Reply::origin`] tells where a response came
    /// from.
    pub fn cache(mut self, limits: CacheLimits) -> Self {
        self.cache = Some(limits);
        self
    }

    /// Opens the client on the current tokio runtime.
    pub fn open(self) -> Result<Client, OpenError> {
        let handle = match self.socket {
            Some(socket) => driver::start_on(socket_of(socket)?, &self.settings, None)?,
            None => driver::start(self.bind, &self.settings, None)?,
        };
        let time = self.settings.time_source;
        let cache = self.cache.map(|limits| SharedCache::new(limits, time));
        let cache = cache.map(Arc::new);
        let ways = Arc::new(Ways::new(self.settings, (Scheme::Coap, handle), Vec::new()));
        Ok(Client { ways, cache })
    }
}

/// What a request is sent to: a URI, read or still to be read.
#[derive(Clone, Debug)]
pub enum Target {
    /// Text; an error in it is reported when the request is sent.
    Text(String),
    /// A URI.
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
    /// A client with default settings, on the current tokio runtime.
    pub fn open() -> Result<Self, OpenError> {
        Self::builder().open()
    }

    /// A client to be described.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    pub(crate) fn over(ways: Arc<Ways>) -> Self {
        Self { ways, cache: None }
    }

    /// The same client with a cache of its own, or without one: they share the endpoint, its
    /// sockets and controllers, and nothing of what is kept.
    pub fn with_cache(&self, limits: Option<CacheLimits>) -> Self {
        let time = self.time_source();
        Self {
            ways: Arc::clone(&self.ways),
            cache: limits.map(|limits| Arc::new(SharedCache::new(limits, time))),
        }
    }

    /// What its time is read from.
    pub(crate) fn time_source(&self) -> TimeSource {
        self.ways.time_source()
    }

    /// A request that did not go through this client has changed what is at a URI, as its response
    /// says: what the cache has of it is not fresh any more.
    pub(crate) fn changed(&self, uri: &Uri, response: &Response) {
        if let Some(cache) = &self.cache {
            let asked = cache::Asked {
                uri,
                to: None,
                options: uri.options(),
            };
            cache.changed(&asked, response);
        }
    }

    /// What its cache holds; nothing without one.
    pub fn cache_usage(&self) -> CacheUsage {
        let cache = self.cache.as_ref();
        cache.map(|cache| cache.usage()).unwrap_or_default()
    }

    /// The address it sends datagrams from; of a server without any, where it listens.
    pub fn local_address(&self) -> SocketAddr {
        self.ways.first().local()
    }

    /// A request with any method.
    pub fn request(&self, method: Code, target: impl Into<Target>) -> RequestBuilder {
        let (ways, cache) = (Arc::clone(&self.ways), self.cache.clone());
        RequestBuilder::new(ways, cache, method, target.into())
    }

    /// A GET.
    pub fn get(&self, target: impl Into<Target>) -> RequestBuilder {
        self.request(Code::GET, target)
    }

    /// A PUT.
    pub fn put(&self, target: impl Into<Target>) -> RequestBuilder {
        self.request(Code::PUT, target)
    }

    /// A POST.
    pub fn post(&self, target: impl Into<Target>) -> RequestBuilder {
        self.request(Code::POST, target)
    }

    /// A DELETE.
    pub fn delete(&self, target: impl Into<Target>) -> RequestBuilder {
        self.request(Code::DELETE, target)
    }

    /// A FETCH: what a query in the body asks for (RFC 8132 2).
    pub fn fetch(&self, target: impl Into<Target>) -> RequestBuilder {
        self.request(Code::FETCH, target)
    }

    /// A PATCH: a change of a part; done twice, it may be another than done once (RFC 8132 3).
    pub fn patch(&self, target: impl Into<Target>) -> RequestBuilder {
        self.request(Code::PATCH, target)
    }

    /// An iPATCH: a change of a part that is the same done twice as done once (RFC 8132 3).
    pub fn ipatch(&self, target: impl Into<Target>) -> RequestBuilder {
        self.request(Code::IPATCH, target)
    }

    /// Asks a host whether a CoAP endpoint is there (RFC 7252 4.3); the round-trip time.
    ///
    /// Of several addresses, the first that can be reached is asked.
    pub async fn ping(&self, target: impl Into<Target>) -> Result<Duration, Error> {
        let uri = resolve::read(target.into())?;
        let handle = self.ways.of(uri.scheme())?;
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

    /// Gives a peer its own controller and parameters from now on, where given, for datagrams over UDP
    /// and DTLS. A peer that is known already keeps its controller until it is forgotten.
    ///
    /// Over TCP, TLS and WebSocket congestion control is the system's. Error:
    /// [`Error::OverConnection`] for a peer that is known by a connection and by no datagram;
    /// [`Error::Closed`].
    pub async fn set_peer(
        &self,
        peer: SocketAddr,
        controller: Option<Choice>,
        parameters: Option<TransmissionParameters>,
    ) -> Result<(), Error> {
        if let Some((scheme, ..)) = self.known(peer).await
            && Kind::of(scheme).is_some()
        {
            return Err(Error::OverConnection { peer, scheme });
        }
        let settings = (peer, controller, parameters);
        let mut taken = false;
        for (_, handle) in self.ways.set_peer(&settings) {
            let command = Command::SetPeer(Box::new(settings.clone()));
            taken |= handle.command(command).await;
        }
        if taken { Ok(()) } else { Err(Error::Closed) }
    }

    /// Gives one peer a profile's controller and parameters; as [`set_peer`](Self::set_peer).
    pub async fn set_peer_profile(
        &self,
        peer: SocketAddr,
        profile: TransmissionProfile,
    ) -> Result<(), Error> {
        let controller = Choice::Registered(profile.controller());
        self.set_peer(peer, Some(controller), Some(profile.parameters()))
            .await
    }

    /// The readings of a peer's controller, such as its RTO; nothing if the peer is not known. Over
    /// TCP, TLS and WebSocket there are none. Of several transports as
    /// [`snapshot`](Self::snapshot).
    pub async fn gauges(&self, peer: SocketAddr) -> Option<Vec<(&'static str, Gauge)>> {
        let (_, handle, _) = self.known(peer).await?;
        handle.ask(|reply| Command::Gauges(peer, reply)).await?
    }

    /// The state of a peer: its RTO and round-trip time, retransmissions, the length of its queue;
    /// nothing if the peer is not known.
    ///
    /// Of several transports that share this address, it is of the one most recently used. Over TCP,
    /// TLS and WebSocket there is no RTO and no round-trip time: they are the system's.
    pub async fn snapshot(&self, peer: SocketAddr) -> Option<Snapshot> {
        self.known(peer).await.map(|(.., snapshot)| snapshot)
    }

    /// The transport and the endpoint by which a peer was last heard of or sent to, and its state
    /// there.
    async fn known(&self, peer: SocketAddr) -> Option<(Scheme, Arc<Handle>, Snapshot)> {
        let mut known: Option<(Scheme, Arc<Handle>, Snapshot)> = None;
        let age = |of: &Snapshot| of.heard.into_iter().chain(of.sent).min();
        for (scheme, handle) in self.ways.all_by_scheme() {
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

    /// Who is at the other end of the DTLS session with this peer; nothing if there is none.
    pub async fn peer_identity(&self, peer: SocketAddr) -> Option<Arc<PeerIdentity>> {
        let handle = self.ways.started(Scheme::Coaps)?;
        handle.ask(|reply| Command::Identity(peer, reply)).await?
    }

    /// The peers that messages were sent to, over all transports, each once.
    pub async fn peers(&self) -> Result<Vec<SocketAddr>, Error> {
        let mut peers = Vec::new();
        for handle in self.ways.all() {
            peers.extend(handle.ask(Command::Peers).await.ok_or(Error::Closed)?);
        }
        let mut known = BTreeSet::new();
        peers.retain(|peer| known.insert(*peer));
        Ok(peers)
    }

    /// The entries in the tables of all transports together.
    pub async fn usage(&self) -> Result<Usage, Error> {
        let mut usage = Usage::default();
        for handle in self.ways.all() {
            usage += handle.ask(Command::Usage).await.ok_or(Error::Closed)?;
        }
        Ok(usage)
    }

    /// Waits until the endpoints that have been started have stopped. Error: the first that ended one
    /// of them.
    pub async fn closed(&self) -> io::Result<()> {
        self.ways.closed().await
    }

    /// Stops the endpoint for all clones: no new requests, those under way are finished, and
    /// after `limit` at the latest everything is cut off.
    pub async fn shut_down(self, limit: Duration) -> Finish {
        driver::shut_down_all(self.ways.all(), limit).await
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
        Some(Err(failed)) => Err(failed.for_people(peer)),
        None => Err(Error::Closed),
    }
}

/// A socket that was made elsewhere.
pub(crate) fn socket_of(socket: UdpSocket) -> Result<Socket, OpenError> {
    let address = socket.local_addr().unwrap_or(([0, 0, 0, 0], 0).into());
    Socket::of(socket).map_err(|source| OpenError::Bind { address, source })
}

/// An answer to come; dropping it cancels what it is the answer to.
#[derive(Debug)]
struct Answer<T> {
    receiver: Option<oneshot::Receiver<T>>,
    cancel: Cancel,
}

/// Cancels a request when dropped, unless it has ended.
#[derive(Debug)]
struct Cancel {
    handle: Arc<Handle>,
    ticket: u64,
    ended: bool,
}

impl<T> Answer<T> {
    fn new(handle: &Arc<Handle>, ticket: u64, receiver: oneshot::Receiver<T>) -> Self {
        let cancel = Cancel {
            handle: Arc::clone(handle),
            ticket,
            ended: false,
        };
        Self {
            receiver: Some(receiver),
            cancel,
        }
    }

    /// The answer, and with it the end of what it is the answer to.
    async fn wait(mut self) -> Option<T> {
        let answer = self.receive().await;
        self.cancel.ended = true;
        answer
    }

    /// The answer; nothing if the driver has stopped.
    async fn receive(&mut self) -> Option<T> {
        self.receiver.as_mut()?.await.ok()
    }

    /// Keeps only the duty to cancel.
    fn into_cancel(mut self) -> Cancel {
        self.receiver = None;
        let Self { cancel, .. } = self;
        cancel
    }
}

impl Drop for Cancel {
    fn drop(&mut self) {
        if !self.ended {
            // A driver that has stopped has nothing left to cancel.
            let _ = self.handle.notes.send(Note::Cancel(self.ticket));
        }
    }
}

impl Failed {
    /// The error an application gets.
    fn for_people(self, peer: SocketAddr) -> Error {
        let failure = match self.why {
            Why::Refused(source) => return Error::NotSent { peer, source },
            Why::Failure(failure) => failure,
            Why::Unanswered => {
                let after = self.after;
                return Error::Unanswered { peer, after };
            }
        };
        if let (Failure::Unreachable, Some(why)) = (failure, self.handshake) {
            let why = Arc::unwrap_or_clone(why);
            return Error::Handshake { peer, why };
        }
        match failure {
            Failure::Unreachable => {
                let source = match (self.os_error, self.explanation) {
                    (Some(number), _) => io::Error::from_raw_os_error(number),
                    (None, Some(text)) => io::Error::other(text.to_string()),
                    (None, None) => io::Error::other("the network says so"),
                };
                Error::Unreachable { peer, source }
            }
            Failure::TimedOut { .. } | Failure::NoResponse | Failure::DeadlinePassed => {
                Error::NoAnswer {
                    peer,
                    after: self.after,
                    failure,
                }
            }
            Failure::ShutDown => Error::Closed,
            _ => Error::Failed { peer, failure },
        }
    }
}
