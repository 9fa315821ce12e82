//! Serving: resources, their handlers, and the server around them.
//!
//! Reading order: [`Resource`] (what a path answers), [`Handler`] (how), [`Request`] and
//! [`Upload`] (what a handler gets), [`Refusal`] (what it returns if not an answer),
//! [`ServerBuilder`] (putting it together). Inside: `router` and `pattern` (from a path to its
//! resource), `choice` (from a request to one of its answers), `frame` and `conditions` (what is
//! done around a handler), `discovery` (`/.well-known/core`).

mod choice;
mod conditions;
mod discovery;
mod frame;
mod handler;
mod health;
mod notifier;
mod pattern;
mod refusal;
mod request;
mod resource;
mod router;
mod upload;

use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use carob_proto::codec::Scheme;
use tokio::net::lookup_host;

use crate::client::{Client, socket_of};
use crate::driver::streams::{Kind, Listener};
use crate::driver::{self, Finish};
use crate::dtls::ServerDtls;
use crate::error::OpenError;
use crate::settings::Settings;
use crate::socket::Group;
use crate::tls::{ALPN, ServerTls};
use crate::ways::Ways;

pub(crate) use choice::{Asked, METHOD_NOT_ALLOWED};
pub use conditions::{IntoState, StateTag};
pub(crate) use frame::Frame;
pub(crate) use handler::{Answering, Follow};
pub use handler::{Handler, IntoResponse, UploadHandler};
pub(crate) use health::Health;
pub(crate) use notifier::Changes;
pub use notifier::Notifier;
pub(crate) use pattern::Pattern;
pub use refusal::Refusal;
pub use request::Request;
pub(crate) use resource::Action;
pub use resource::{Resource, fixed, get};
pub(crate) use router::{Asked as Forwarded, Forward, Router};
pub use upload::{Upload, UploadError};

/// Handlers that run at once unless [`ServerBuilder::handlers`] says otherwise.
pub const HANDLERS: usize = 1_024;

/// Sockets that may share a port.
pub const SOCKETS_MAX: usize = 256;

/// A running server. Dropping it, and every client made from it, stops it at once;
/// [`shut_down`](Self::shut_down) lets it finish first.
#[derive(Debug)]
pub struct Server {
    /// Where it listens, first of all over UDP.
    places: Vec<(Scheme, SocketAddr)>,
    ways: Arc<Ways>,
}

#[derive(Debug)]
enum Datagrams {
    At(Address),
    On(UdpSocket),
}

/// Where connections are taken.
#[derive(Debug)]
struct Listen {
    kind: Kind,
    at: ListenAt,
    tls: Option<ServerTls>,
}

#[derive(Debug)]
enum ListenAt {
    Address(Address),
    Socket(TcpListener),
}

/// What a server will answer, and how.
#[derive(Debug)]
pub struct ServerBuilder {
    /// Where it takes datagrams, if it does.
    datagrams: Option<Datagrams>,
    /// Over how many sockets.
    sockets: usize,
    /// Where it takes datagrams that are secured.
    secured: Vec<(Address, ServerDtls)>,
    listens: Vec<Listen>,
    settings: Settings,
    handlers: usize,
    router: Router,
}

impl Server {
    /// A server to be described; it answers nothing but `/.well-known/core` yet.
    pub fn builder() -> ServerBuilder {
        ServerBuilder {
            datagrams: Some(Datagrams::At(Address::Socket(
                (std::net::Ipv6Addr::UNSPECIFIED, 5683).into(),
            ))),
            sockets: 1,
            secured: Vec::new(),
            listens: Vec::new(),
            settings: Settings::default(),
            handlers: HANDLERS,
            router: Router::default(),
        }
    }

    /// Where it takes datagrams; if it takes none, where it listens first.
    pub fn local_address(&self) -> SocketAddr {
        self.places[0].1
    }

    /// Where it listens, each with the scheme of the URIs that lead there.
    pub fn addresses(&self) -> &[(Scheme, SocketAddr)] {
        &self.places
    }

    /// A client that sends datagrams from the server's own address and port, and whose requests to
    /// those who have a connection with the server go over that. Where several
    /// [sockets](ServerBuilder::sockets) share the port, it has another.
    pub fn client(&self) -> Client {
        Client::over(Arc::clone(&self.ways))
    }

    /// Waits until the server has stopped. Error: the one that ended the driver of a socket, after
    /// which requests there are no longer answered; the other sockets go on until the server is
    /// [shut down](Self::shut_down) or dropped.
    pub async fn closed(&self) -> io::Result<()> {
        self.ways.closed().await
    }

    /// Stops: new requests are answered 5.03, those under way are finished, and after `limit` at
    /// the latest everything is cut off.
    pub async fn shut_down(self, limit: Duration) -> Finish {
        driver::shut_down_all(self.ways.all(), limit).await
    }
}

/// Where a server listens.
#[derive(Clone, Debug)]
pub enum Address {
    /// An address.
    Socket(SocketAddr),
    /// `IP:PORT` or `NAME:PORT`; an error in it is reported when the server starts.
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
    async fn resolve(self) -> Result<SocketAddr, OpenError> {
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

impl ListenAt {
    async fn open(
        self,
        kind: Kind,
        tls: Option<ServerTls>,
        settings: &Settings,
    ) -> Result<Listener, OpenError> {
        let unknown = (std::net::Ipv6Addr::UNSPECIFIED, 0).into();
        let address = match &self {
            Self::Address(address) => address.clone().resolve().await?,
            Self::Socket(socket) => socket.local_addr().unwrap_or(unknown),
        };
        // A WebSocket's protocol is named in its own handshake.
        let alpn = (kind == Kind::Tls).then_some(ALPN);
        let tls = tls.map(|tls| tls.config(alpn)).transpose();
        let tls = tls.map_err(|source| OpenError::Tls { address, source })?;
        let max_message = settings.reliable.max_message_size as usize;
        let opened = match self {
            Self::Address(_) => Listener::open(address, tls, max_message),
            Self::Socket(socket) => Listener::of(socket, tls, max_message),
        };
        opened.map_err(|source| OpenError::Bind { address, source })
    }
}

impl ServerBuilder {
    /// Where to take datagrams: `IP:PORT` or `NAME:PORT`. Default `[::]:5683`, which takes IPv4
    /// too.
    pub fn bind(mut self, address: impl Into<Address>) -> Self {
        self.datagrams = Some(Datagrams::At(address.into()));
        self
    }

    /// Takes datagrams on this socket, which is bound already.
    pub fn socket(mut self, socket: UdpSocket) -> Self {
        self.datagrams = Some(Datagrams::On(socket));
        self
    }

    /// Takes datagrams over this many sockets at the same port, among which Linux shares the peers
    /// (`SO_REUSEPORT`): each is an endpoint of its own and can run on a core of its own, if the runtime
    /// has as many threads. Default 1, at most [`SOCKETS_MAX`].
    ///
    /// Each socket has tables of its own with the limits that are set, and handlers; so all together
    /// take so many times as much. A budget [over several peers](Settings::aggregate) would be one for
    /// each, and is refused. What is sent to a group is answered by the first.
    pub fn sockets(mut self, count: usize) -> Self {
        self.sockets = count;
        self
    }

    /// Takes no datagrams, only connections.
    pub fn without_datagrams(mut self) -> Self {
        self.datagrams = None;
        self
    }

    /// Takes datagrams secured by DTLS there, too (`coaps`, usual port 5684).
    pub fn bind_dtls(mut self, address: impl Into<Address>, dtls: ServerDtls) -> Self {
        self.secured.push((address.into(), dtls));
        self
    }

    /// Takes connections over TCP there, too (`coap+tcp`, usual port 5683).
    pub fn bind_tcp(self, address: impl Into<Address>) -> Self {
        self.listen(Kind::Tcp, ListenAt::Address(address.into()), None)
    }

    /// Takes connections over TCP on this socket, which listens already.
    pub fn listener(self, socket: TcpListener) -> Self {
        self.listen(Kind::Tcp, ListenAt::Socket(socket), None)
    }

    /// Takes connections over TLS there, too (`coaps+tcp`, usual port 5684).
    pub fn bind_tls(self, address: impl Into<Address>, tls: ServerTls) -> Self {
        self.listen(Kind::Tls, ListenAt::Address(address.into()), Some(tls))
    }

    /// Takes WebSockets there, too, at `/.well-known/coap` (`coap+ws`, usual port 80).
    pub fn bind_ws(self, address: impl Into<Address>) -> Self {
        self.listen(Kind::WebSocket, ListenAt::Address(address.into()), None)
    }

    /// Takes WebSockets over TLS there, too (`coaps+ws`, usual port 443).
    pub fn bind_wss(self, address: impl Into<Address>, tls: ServerTls) -> Self {
        let at = ListenAt::Address(address.into());
        self.listen(Kind::SecureWebSocket, at, Some(tls))
    }

    /// Is in this group: a request to it that comes over UDP is answered at a random moment, if the
    /// answer is of use (RFC 7252 8.2). The server must be bound to every address.
    ///
    /// Whoever asks a group cannot be told from whoever forged the request, and all members answer
    /// (RFC 7252 11.3): join where the network keeps forged addresses out.
    pub fn join(mut self, group: Group) -> Self {
        self.settings.groups.push(group);
        self
    }

    fn listen(mut self, kind: Kind, at: ListenAt, tls: Option<ServerTls>) -> Self {
        self.listens.push(Listen { kind, at, tls });
        self
    }

    /// The endpoint's settings.
    pub fn settings(mut self, settings: Settings) -> Self {
        let groups = std::mem::take(&mut self.settings.groups);
        self.settings = settings;
        self.settings.groups.extend(groups);
        self
    }

    /// Handlers that may run at once; at the limit, requests are answered 5.03. Default
    /// [`HANDLERS`]. Fixed content is not counted.
    pub fn handlers(mut self, limit: usize) -> Self {
        self.handlers = limit;
        self
    }

    /// What `path` answers; the last word on a path counts.
    ///
    /// A segment is literal (`/a/b`; nothing is percent-decoded), a parameter (`/sensors/{id}`, see
    /// [`Request::parameter`]) or, at the end, `*` for all further segments, be there none
    /// (`/files/*`, see [`Request::rest`]). Of several paths that match, segment by segment from
    /// the first on, a literal comes before a parameter and that before a rest. Only literal paths
    /// are listed in `/.well-known/core`. A path that is none of this is an error when the server
    /// starts.
    pub fn resource(mut self, path: &str, resource: Resource) -> Self {
        self.router.add(path, resource);
        self
    }

    /// Tells at `path` how the server fares: `ok` or `overloaded`, for how many seconds it runs, and
    /// how full its tables are, in per cent, as text, JSON or CBOR as Accept says. Default: nowhere.
    ///
    /// Whoever is overloaded answers 5.03 with the same body, and whoever is stopping 5.03, so the
    /// code is enough to go by. The endpoint answers itself, also when all handlers are busy; each
    /// transport tells of itself. It is not listed in `/.well-known/core`. Anybody who may ask sees
    /// how much is missing until the server is full; so have it where only those ask who should.
    pub fn health(self, path: &str) -> Self {
        self.resource(path, Resource::health())
    }

    /// What every path answers that no other resource does: like `/*`, but for the root too, and
    /// after everything else.
    pub fn fallback(mut self, resource: Resource) -> Self {
        self.router.set_fallback(resource);
        self
    }

    /// What answers requests for a proxy; the endpoint is one then.
    pub(crate) fn forward(mut self, forward: Forward) -> Self {
        self.router.set_forward(forward);
        self
    }

    /// Starts the server on the current runtime.
    pub async fn start(self) -> Result<Server, OpenError> {
        let Self {
            datagrams,
            sockets,
            secured,
            listens,
            mut settings,
            handlers,
            mut router,
        } = self;
        settings.listeners = listens.len();
        router.finish()?;
        let refused = match &datagrams {
            _ if !(1..=SOCKETS_MAX).contains(&sockets) => Some("there are 1 to 256"),
            Some(Datagrams::At(_)) if sockets > 1 && settings.has_aggregates() => {
                Some("a budget over several peers needs all of them at one")
            }
            Some(Datagrams::At(_)) if sockets > 1 && cfg!(not(target_os = "linux")) => {
                Some("only Linux shares out what comes there")
            }
            Some(Datagrams::At(_)) => None,
            _ if sockets > 1 => Some("they are opened at an address, not given"),
            _ => None,
        };
        if let Some(problem) = refused {
            return Err(OpenError::Sockets {
                count: sockets,
                problem,
            });
        }
        let handlers = settings.handlers.unwrap_or(handlers);
        let router = Arc::new(router);
        let serve = || Some((Arc::clone(&router), handlers));
        let mut started = Vec::with_capacity(1 + listens.len());
        let mut shared = Vec::new();
        match datagrams {
            Some(Datagrams::At(address)) if sockets > 1 => {
                let address = address.resolve().await?;
                shared = driver::start_together(address, sockets, &settings, (&router, handlers))?;
                // Requests of our own go from a port of their own.
                started.push((Scheme::Coap, driver::start(None, &settings, None)?));
            }
            Some(Datagrams::At(address)) => {
                let address = address.resolve().await?;
                let handle = driver::start(Some(address), &settings, serve())?;
                started.push((Scheme::Coap, handle));
            }
            Some(Datagrams::On(socket)) => {
                let handle = driver::start_on(socket_of(socket)?, &settings, serve())?;
                started.push((Scheme::Coap, handle));
            }
            None => {}
        }
        for (address, dtls) in secured {
            let address = address.resolve().await?;
            let server = driver::dtls::Server::new(&dtls)
                .map_err(|source| OpenError::Tls { address, source })?;
            let bind = Some(address);
            let handle = driver::start_secured(bind, &settings, Some(server), serve())?;
            started.push((Scheme::Coaps, handle));
        }
        for Listen { kind, at, tls } in listens {
            let listener = at.open(kind, tls, &settings).await?;
            let handle = driver::start_streams(kind, Some(listener), &settings, serve())?;
            started.push((kind.scheme(), handle));
        }
        let mut places: Vec<_> = started
            .iter()
            .map(|(scheme, handle)| (*scheme, handle.local()))
            .collect();
        if let Some(handle) = shared.first() {
            places[0] = (Scheme::Coap, handle.local());
        }
        let mut started = started.into_iter();
        let first = started.next().ok_or(OpenError::Nowhere)?;
        let ways = Ways::new(settings, first, started.collect()).and_shared(shared);
        let ways = Arc::new(ways);
        Ok(Server { places, ways })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn a_server_whose_driver_ends_with_an_error_says_so() {
        let (fail, fails) = oneshot::channel();
        let settings = Settings::new();
        let sound = driver::start(Some(([127, 0, 0, 1], 0).into()), &settings, None);
        let sound = (Scheme::Coap, sound.expect("a free port"));
        let failing = (Scheme::Coaps, driver::start_failing(fails));
        let ways = Arc::new(Ways::new(settings, sound, vec![failing]));
        let places = Vec::new();
        let server = Server { places, ways };
        let early = tokio::time::timeout(Duration::from_millis(50), server.closed());
        assert!(early.await.is_err(), "it runs");
        let sent = fail.send(io::Error::other("the interface is gone"));
        assert!(sent.is_ok());
        let closed = tokio::time::timeout(Duration::from_secs(10), server.closed());
        let error = closed.await.expect("it says so").expect_err("it failed");
        assert_eq!(error.to_string(), "the interface is gone");
    }

    #[tokio::test]
    async fn a_server_that_is_shut_down_closes_without_an_error() {
        let server = Server::builder().bind("127.0.0.1:0");
        let server = server.start().await.expect("a free port");
        let ways = Arc::clone(&server.ways);
        assert_eq!(server.shut_down(Duration::ZERO).await, Finish::Complete);
        let closed = tokio::time::timeout(Duration::from_secs(10), ways.closed());
        assert!(closed.await.expect("it has stopped").is_ok());
    }

    #[test]
    fn a_server_listens_on_the_default_port_of_every_address_unless_told_otherwise() {
        let Some(Datagrams::At(Address::Socket(address))) = Server::builder().datagrams else {
            panic!("it is no name");
        };
        assert_eq!(address.port(), 5683);
        assert!(address.ip().is_unspecified());
    }
}
