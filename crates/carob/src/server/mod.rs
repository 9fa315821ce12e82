//! The server: resources, handlers, bodies received block by block, and notifications.
//!
//! | type | task |
//! |---|---|
//! | [`Server`], [`ServerBuilder`] | bind addresses and run |
//! | [`Resource`], [`get`], [`fixed`] | map the methods and formats of a path to handlers |
//! | [`Handler`], [`Request`], [`IntoResponse`], [`Refusal`] | process a request |
//! | [`UploadHandler`], [`Upload`] | process a request body block by block |
//! | [`Notifier`] | notify observers (RFC 7641) |
//! | [`StateTag`], [`IntoState`] | check If-Match and If-None-Match (RFC 7252 section 5.10.8) |
//!
//! The server processes Accept, ETag, Block1, Block2, Observe, Echo and `/.well-known/core` without
//! code of the application.
// Modules: `pattern` and `router` map a path to its resource, `plan` a request to one of
// the resource's formats; `pipeline` and `conditions` run around the handler (preconditions,
// entity tags); `discovery` serves `/.well-known/core`.

mod conditions;
mod discovery;
mod dispatch;
mod handler;
mod health;
mod listen;
mod notifier;
mod observers;
mod pattern;
mod pipeline;
mod plan;
mod refusal;
mod request;
mod resource;
mod responder;
mod router;

use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use carob_proto::codec::Scheme;

use crate::client::{Client, socket_of};
use crate::config::Config;
use crate::error::OpenError;
use crate::runtime::{self, Handle, ShutdownOutcome, TransportSet};
#[cfg(feature = "dtls")]
use crate::transport::dtls::{self, ServerDtls};
#[cfg(feature = "dtls")]
use crate::transport::handshake::Replaceable;
use crate::transport::socket::Group;
use crate::transport::tcp::StreamKind;
#[cfg(feature = "tls")]
use crate::transport::tcp::TlsAccept;
#[cfg(feature = "tls")]
use crate::transport::tls::ServerTls;

use dispatch::Dispatch;
#[cfg(feature = "tls")]
use listen::alpn;
use listen::{Listen, ListenAt};

pub use conditions::{IntoState, StateTag};
pub(crate) use handler::Follow;
pub use handler::{Handler, HandlerFuture, IntoResponse, UploadHandler};
pub use listen::Address;
pub use notifier::Notifier;
pub(crate) use pattern::Pattern;
pub use refusal::Refusal;
pub use request::Request;
pub use request::{Upload, UploadError};
pub use resource::{Resource, fixed, get};
pub(crate) use router::{Forward, Router};

/// Default of [`ServerBuilder::handlers`]: 1,024.
pub const HANDLERS: usize = 1_024;

/// Maximum of [`ServerBuilder::sockets`]: 256.
pub const SOCKETS_MAX: usize = 256;

/// Running server, from [`ServerBuilder::start`].
///
/// The server stops at once when it and every [client](Self::client) made from it are dropped.
/// [`shutdown`](Self::shutdown) lets pending requests finish first.
#[derive(Debug)]
pub struct Server {
    /// The bound addresses, UDP first.
    places: Vec<(Scheme, SocketAddr)>,
    transports: Arc<TransportSet>,
    #[cfg(feature = "dtls")]
    dtls: Vec<Replaceable<dtls::ServerCredentials>>,
    #[cfg(feature = "tls")]
    tls: Vec<(StreamKind, TlsAccept)>,
}

#[derive(Debug)]
enum Datagrams {
    At(Address),
    On(UdpSocket),
}

/// Builder of a [`Server`]: addresses, resources and configuration. From [`Server::builder`].
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use carob::server::{Request, fixed, get};
/// use carob::{Client, Server};
///
/// let server = Server::builder()
///     .bind("127.0.0.1:0")
///     .resource("/hello", fixed("hello, world"))
///     .resource("/echo/{text}", get(|request: Request| async move {
///         request.parameter("text").unwrap_or_default().to_owned()
///     }))
///     .start()
///     .await?;
/// let uri = format!("coap://{}/echo/again", server.local_address());
/// assert_eq!(Client::new()?.get(uri).await?.text(), Some("again"));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct ServerBuilder {
    /// The address for datagrams, if any.
    datagrams: Option<Datagrams>,
    /// The number of sockets.
    sockets: usize,
    /// The address for DTLS.
    #[cfg(feature = "dtls")]
    secured: Vec<(Address, ServerDtls)>,
    listens: Vec<Listen>,
    /// Names of hosts whose web pages may open WebSockets.
    origins: Vec<String>,
    config: Config,
    handlers: usize,
    router: Router,
}

impl Datagrams {
    /// Starts the endpoint for own requests, which with one socket is the server's, and the endpoints of several
    /// sockets at one port.
    async fn open(
        self,
        sockets: usize,
        config: &Config,
        serve: &Dispatch,
    ) -> Result<(Arc<Handle>, Vec<Arc<Handle>>), OpenError> {
        Ok(match self {
            Self::At(address) if sockets > 1 => {
                let address = address.resolve().await?;
                let shared = runtime::start_together(address, sockets, config, serve)?;
                // Own requests use a separate port.
                (runtime::start(None, config, None)?, shared)
            }
            Self::At(address) => {
                let address = address.resolve().await?;
                let handle = runtime::start(Some(address), config, Some(serve))?;
                (handle, Vec::new())
            }
            Self::On(socket) => {
                let handle = runtime::start_on(socket_of(socket)?, config, Some(serve))?;
                (handle, Vec::new())
            }
        })
    }
}

impl Server {
    /// Returns a builder for a server on `[::]:5683` that serves nothing but `/.well-known/core`.
    pub fn builder() -> ServerBuilder {
        ServerBuilder {
            datagrams: Some(Datagrams::At(Address::Socket(
                (std::net::Ipv6Addr::UNSPECIFIED, 5683).into(),
            ))),
            sockets: 1,
            #[cfg(feature = "dtls")]
            secured: Vec::new(),
            listens: Vec::new(),
            origins: Vec::new(),
            config: Config::default(),
            handlers: HANDLERS,
            router: Router::default(),
        }
    }

    /// Returns the UDP address; without UDP, the first address of [`addresses`](Self::addresses).
    pub fn local_address(&self) -> SocketAddr {
        self.places[0].1
    }

    /// Returns all local addresses with their URI schemes: UDP first, then DTLS, then the others in
    /// the order in which they were added.
    pub fn addresses(&self) -> &[(Scheme, SocketAddr)] {
        &self.places
    }

    /// Returns a client that sends from the server's own UDP address, and over the connections that
    /// peers have opened to the server.
    ///
    /// With several [sockets](ServerBuilder::sockets) at one port, the client has a port of its
    /// own.
    pub fn client(&self) -> Client {
        Client::over(Arc::clone(&self.transports))
    }

    /// Replaces the credentials of all DTLS addresses, for handshakes that begin from now on. Open sessions continue.
    ///
    /// # Errors
    ///
    /// [`TlsError`](crate::tls::TlsError) for credentials that no handshake could use; those in use then stay.
    #[cfg(feature = "dtls")]
    pub fn set_dtls(&self, dtls: &ServerDtls) -> Result<(), crate::tls::TlsError> {
        let credentials = Arc::new(dtls::ServerCredentials::new(dtls)?);
        for place in &self.dtls {
            place.set(Arc::clone(&credentials));
        }
        Ok(())
    }

    /// Replaces the credentials of all TLS addresses, for connections that are accepted from now on. Open connections
    /// continue.
    ///
    /// # Errors
    ///
    /// [`TlsError`](crate::tls::TlsError) for credentials that no handshake could use; those in use then stay.
    #[cfg(feature = "tls")]
    pub fn set_tls(&self, tls: &ServerTls) -> Result<(), crate::tls::TlsError> {
        let made = self.tls.iter().map(|(kind, _)| tls.config(alpn(*kind)));
        // All are made before one is set: an invalid certificate changes nothing.
        let made: Vec<_> = made.collect::<Result<_, _>>()?;
        for ((_, place), config) in self.tls.iter().zip(made) {
            place.set(config);
        }
        Ok(())
    }

    /// Waits until the server has stopped. Dropping the future has no effect on the server.
    ///
    /// # Errors
    ///
    /// The error that stopped one socket. Its requests are no longer processed; the other sockets
    /// continue until the server is [shut down](Self::shutdown) or dropped.
    pub async fn closed(&self) -> io::Result<()> {
        self.transports.closed().await
    }

    /// Stops the server. New requests are answered 5.03; pending requests may finish until `limit`
    /// has passed, then they are aborted.
    pub async fn shutdown(self, limit: Duration) -> ShutdownOutcome {
        runtime::shutdown_all(self.transports.all(), limit).await
    }
}

impl ServerBuilder {
    /// Sets the UDP address (`coap`): `IP:PORT` or `NAME:PORT`. Default: `[::]:5683`, which
    /// includes IPv4.
    pub fn bind(mut self, address: impl Into<Address>) -> Self {
        self.datagrams = Some(Datagrams::At(address.into()));
        self
    }

    /// Sets a bound UDP socket, instead of an address.
    pub fn socket(mut self, socket: UdpSocket) -> Self {
        self.datagrams = Some(Datagrams::On(socket));
        self
    }

    /// Sets the number of UDP sockets at the port, 1 to [`SOCKETS_MAX`]. Default 1. More than one
    /// requires Linux, which distributes the peers over the sockets (`SO_REUSEPORT`).
    ///
    /// Each socket has its own task, which can run on its own core of a multi-threaded runtime, and
    /// its own tables: all limits, including handlers, apply per socket.
    /// [`Config::aggregate`] is rejected, as its budget would be split. Multicast requests are
    /// processed by the first socket.
    pub fn sockets(mut self, count: usize) -> Self {
        self.sockets = count;
        self
    }

    /// Disables plain UDP. The server needs another address, such as
    /// [`bind_dtls`](#method.bind_dtls) or [`bind_tcp`](Self::bind_tcp).
    pub fn without_datagrams(mut self) -> Self {
        self.datagrams = None;
        self
    }

    /// Adds a DTLS address (`coaps`, default port 5684). Example: [`ServerDtls`].
    #[cfg(feature = "dtls")]
    pub fn bind_dtls(mut self, address: impl Into<Address>, dtls: ServerDtls) -> Self {
        self.secured.push((address.into(), dtls));
        self
    }

    /// Adds a TCP address (`coap+tcp`, default port 5683; RFC 8323).
    pub fn bind_tcp(self, address: impl Into<Address>) -> Self {
        self.listen(StreamKind::Tcp, ListenAt::Address(address.into()))
    }

    /// Adds a TCP socket that listens already (`coap+tcp`).
    pub fn listener(self, socket: TcpListener) -> Self {
        self.listen(StreamKind::Tcp, ListenAt::Socket(socket))
    }

    /// Adds a TLS address (`coaps+tcp`, default port 5684; RFC 8323). Example: [`ServerTls`].
    #[cfg(feature = "tls")]
    pub fn bind_tls(self, address: impl Into<Address>, tls: ServerTls) -> Self {
        self.listen_secure(StreamKind::Tls, address.into(), tls)
    }

    /// Adds a WebSocket address (`coap+ws`, default port 80; RFC 8323), with the path
    /// `/.well-known/coap`.
    ///
    /// Clients other than web pages are accepted; where [`ws_origin`](Self::ws_origin) is used, their Host must
    /// be an IP address, `localhost` or one of its names. Web pages, whose browsers send Origin, are accepted from
    /// hosts of [`ws_origin`](Self::ws_origin), and from the host that they name in Host, if that is an
    /// IP address, `localhost` or also one of them (RFC 6455 section 10.2).
    #[cfg(feature = "websocket")]
    pub fn bind_ws(self, address: impl Into<Address>) -> Self {
        self.listen(StreamKind::WebSocket, ListenAt::Address(address.into()))
    }

    /// Adds an address for WebSocket over TLS (`coaps+ws`, default port 443; RFC 8323).
    #[cfg(all(feature = "tls", feature = "websocket"))]
    pub fn bind_wss(self, address: impl Into<Address>, tls: ServerTls) -> Self {
        self.listen_secure(StreamKind::SecureWebSocket, address.into(), tls)
    }

    /// Allows web pages of this host, such as `example.org`, to open WebSockets, and all clients to reach the
    /// server by this name; may be called several times. Ports and schemes are ignored.
    #[cfg(feature = "websocket")]
    pub fn ws_origin(mut self, host: impl Into<String>) -> Self {
        self.origins.push(host.into());
        self
    }

    /// Joins a multicast group. Multicast requests are answered at a random time within the
    /// [leisure](Config::leisure), and only if the response is useful (RFC 7252 section 8.2). The
    /// UDP socket must be bound to the unspecified address.
    ///
    /// The source address of a multicast request can be forged, and every member responds (RFC 7252
    /// section 11.3). Join groups only in networks that filter forged addresses.
    pub fn join(mut self, group: Group) -> Self {
        self.config.groups.push(group);
        self
    }

    fn listen(mut self, kind: StreamKind, at: ListenAt) -> Self {
        self.listens.push(Listen {
            kind,
            at,
            #[cfg(feature = "tls")]
            tls: None,
        });
        self
    }

    #[cfg(feature = "tls")]
    fn listen_secure(mut self, kind: StreamKind, address: Address, tls: ServerTls) -> Self {
        self.listens.push(Listen {
            kind,
            at: ListenAt::Address(address),
            tls: Some(tls),
        });
        self
    }

    /// Sets the configuration of the endpoint. Groups of [`join`](Self::join) are kept. Default:
    /// [`Config::new`].
    pub fn config(mut self, config: Config) -> Self {
        let groups = std::mem::take(&mut self.config.groups);
        self.config = config;
        self.config.groups.extend(groups);
        self
    }

    /// Sets the maximum number of concurrent handlers per socket. At the limit, requests are
    /// answered 5.03. Default [`HANDLERS`]. Fixed content needs no handler. The limit `handlers` of
    /// the [configuration](Config::limit) overrides it.
    pub fn handlers(mut self, limit: usize) -> Self {
        self.handlers = limit;
        self
    }

    /// Adds a resource at `path`; the last call for a path applies.
    ///
    /// A segment of the path is one of:
    ///
    /// - a literal, as in `/a/b`; nothing is percent-decoded,
    /// - a parameter, as in `/sensors/{id}`: exactly one segment, see [`Request::parameter`],
    /// - `*`, at the end only, as in `/files/*`: any number of further segments, zero included, see
    ///   [`Request::rest`].
    ///
    /// If several paths match, a literal takes precedence over a parameter and a parameter over
    /// `*`, segment by segment from the first on. Only literal paths are listed in
    /// `/.well-known/core`. A malformed path is an error of [`start`](Self::start)
    /// ([`OpenError::Resource`]).
    pub fn resource(mut self, path: &str, resource: Resource) -> Self {
        self.router.add(path, resource);
        self
    }

    /// Adds a health resource at `path`. Default: none. It is not listed in `/.well-known/core`.
    ///
    /// A GET returns the state (`ok` or `overloaded`), the uptime in seconds and the utilisation of
    /// the main tables in percent, as text, JSON or CBOR according to Accept. The code is 2.05, or
    /// 5.03 if the endpoint is overloaded or shutting down. The endpoint responds itself, even
    /// while all handlers are busy; each transport reports its own state.
    ///
    /// The response helps an attacker to fill the tables. Restrict access, for example by serving
    /// it on a loopback address.
    pub fn health(self, path: &str) -> Self {
        self.resource(path, Resource::health())
    }

    /// Adds a resource for all paths without one, the root included. It has the lowest precedence.
    pub fn fallback(mut self, resource: Resource) -> Self {
        self.router.set_fallback(resource);
        self
    }

    /// Sets the handling of proxy requests; the endpoint is then a proxy.
    pub(crate) fn forward(mut self, forward: Forward) -> Self {
        self.router.set_forward(forward);
        self
    }

    /// Binds all addresses and starts the server on the current tokio runtime.
    ///
    /// # Errors
    ///
    /// [`OpenError`]: an address cannot be bound or resolved, a resource or a TLS configuration is invalid, or there is no address.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub async fn start(mut self) -> Result<Server, OpenError> {
        self.config.listeners = self.listens.len();
        // Before any socket is opened: an error leaves no port bound.
        self.router.finish()?;
        #[cfg(feature = "dtls")]
        self.config.dtls.check().map_err(OpenError::Credential)?;
        if let Some(problem) = self.sockets_problem() {
            return Err(OpenError::Sockets {
                count: self.sockets,
                problem,
            });
        }
        // Boxed, because the future is large.
        Box::pin(self.open()).await
    }

    /// Opens the sockets and starts their tasks.
    async fn open(self) -> Result<Server, OpenError> {
        let Self {
            datagrams,
            sockets,
            #[cfg(feature = "dtls")]
            secured,
            listens,
            origins,
            config,
            handlers,
            router,
        } = self;
        let serve = Dispatch {
            handlers: config.handlers.unwrap_or(handlers),
            router: Arc::new(router),
        };
        let mut started = Vec::with_capacity(1 + listens.len());
        let mut shared = Vec::new();
        if let Some(datagrams) = datagrams {
            let handle;
            (handle, shared) = datagrams.open(sockets, &config, &serve).await?;
            started.push((Scheme::Coap, handle));
        }
        #[cfg(feature = "dtls")]
        let mut dtls_places = Vec::with_capacity(secured.len());
        #[cfg(feature = "tls")]
        let mut tls_places = Vec::new();
        #[cfg(feature = "dtls")]
        for (address, dtls) in secured {
            let address = address.resolve().await?;
            let server =
                dtls::Server::new(&dtls).map_err(|source| OpenError::Tls { address, source })?;
            dtls_places.push(server.credentials().clone());
            let bind = Some(address);
            let handle = runtime::start_secured(bind, &config, Some(server), Some(&serve))?;
            started.push((Scheme::Coaps, handle));
        }
        let origins: Arc<[String]> = origins.into();
        for listen in listens {
            let kind = listen.kind;
            let listener = listen.open(&config, Arc::clone(&origins)).await?;
            #[cfg(feature = "tls")]
            tls_places.extend(listener.tls().map(|tls| (kind, tls.clone())));
            let handle = runtime::start_streams(kind, Some(listener), &config, Some(&serve))?;
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
        let transports = TransportSet::new(config, first, started.collect()).and_shared(shared);
        let transports = Arc::new(transports);
        Ok(Server {
            places,
            transports,
            #[cfg(feature = "dtls")]
            dtls: dtls_places,
            #[cfg(feature = "tls")]
            tls: tls_places,
        })
    }

    /// Returns the problem with the number of sockets, if any.
    fn sockets_problem(&self) -> Option<&'static str> {
        match &self.datagrams {
            _ if !(1..=SOCKETS_MAX).contains(&self.sockets) => Some("there are 1 to 256"),
            Some(Datagrams::At(_)) if self.sockets > 1 && self.config.has_aggregates() => {
                Some("a bottleneck group needs all its peers at one socket")
            }
            Some(Datagrams::At(_)) if self.sockets > 1 && cfg!(not(target_os = "linux")) => {
                Some("only Linux distributes datagrams among them")
            }
            Some(Datagrams::At(_)) => None,
            _ if self.sockets > 1 => Some("bind an address instead of passing a socket"),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn driver_error_is_reported_by_the_server() {
        let (fail, fails) = oneshot::channel();
        let config = Config::new();
        let sound = runtime::start(Some(([127, 0, 0, 1], 0).into()), &config, None);
        let sound = (Scheme::Coap, sound.expect("a free port"));
        let failing = (Scheme::Coaps, runtime::start_failing(fails));
        let transports = Arc::new(TransportSet::new(config, sound, vec![failing]));
        let places = Vec::new();
        let server = Server {
            places,
            transports,
            #[cfg(feature = "dtls")]
            dtls: Vec::new(),
            #[cfg(feature = "tls")]
            tls: Vec::new(),
        };
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
        let transports = Arc::clone(&server.transports);
        assert_eq!(
            server.shutdown(Duration::ZERO).await,
            ShutdownOutcome::Drained
        );
        let closed = tokio::time::timeout(Duration::from_secs(10), transports.closed());
        assert!(closed.await.expect("it has stopped").is_ok());
    }

    #[test]
    fn default_bind_is_default_port_of_every_address() {
        let Some(Datagrams::At(Address::Socket(address))) = Server::builder().datagrams else {
            panic!("it is no name");
        };
        assert_eq!(address.port(), 5683);
        assert!(address.ip().is_unspecified());
    }
}
