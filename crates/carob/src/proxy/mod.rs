//! Forward-proxies and reverse-proxies (RFC 7252 section 5.7).
//!
//! A [`Proxy`] is a [`Server`] towards its clients and a [`Client`] towards the origin servers,
//! each side with its own [`Config`]: controller, transmission parameters, block size. Congestion
//! is controlled separately on the two sides.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use carob::{Proxy, Config};
//!
//! let proxy = Proxy::builder()
//!     // Reverse: coap://proxy/kitchen/temperature is coap://192.0.2.7/temperature.
//!     .route("/kitchen", "coap://192.0.2.7")?
//!     // Forward: these hosts may be in Proxy-Uri, or with Proxy-Scheme.
//!     .allow("*.sensors.example.org".parse()?)
//!     .origin_config(Config::new().controller_named("cocoa-plus")?)
//!     .start()
//!     .await?;
//! # drop(proxy);
//! # Ok(())
//! # }
//! ```
//!
//! Responses to safe methods are cached for all clients. A resource that several clients observe is
//! observed once at its origin. Responses to or from secure connections are not shared between
//! clients (RFC 7252 section 11.2), unless [`ProxyBuilder::share_secure`] is set.
//!
//! [`Allow`] is a pattern of hosts that a forward-proxy may contact; [`ProxyLimits`] are the
//! proxy's own limits.
// Modules: `allow` has the rules of a forward-proxy, `names` the proxy's own names; `forwarder`
// forwards requests and responses, `observe_relay` notifications; `links` merges the origins'
// `/.well-known/core`. `carob_proto::proxy` transforms the messages.

mod allow;
mod forwarder;
mod links;
mod names;
mod observe_relay;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use carob_proto::codec::{Code, Uri};
use carob_proto::proxy::{HOP_LIMIT, Route};

use crate::client::{CacheLimits, CacheUsage, Client};
use crate::config::{Config, PeerConfig};
use crate::error::{Error, OpenError};
use crate::runtime::ShutdownOutcome;
use crate::server::{Forward, Resource, Server, ServerBuilder};

pub use allow::{Allow, AllowError};
use forwarder::{Forwarder, Upstream};
use names::Names;
use observe_relay::ObserveRelay;

/// Limits of a proxy, each with the behaviour at the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProxyLimits {
    /// Pending requests to all origins. At the limit, further ones are answered 5.03. Default:
    /// 1,024.
    pub requests: usize,
    /// Pending requests to one origin, so that a slow origin leaves capacity for the others. At the
    /// limit: as `requests`. Default: 256.
    pub requests_of_origin: usize,
    /// Pending requests of one client (an address, or an IPv6 /64). At the limit: as `requests`.
    /// Default: 512.
    pub requests_of_client: usize,
    /// Bytes of a body: of a request (beyond: 4.13) and of a response (beyond: 5.02). Bodies are
    /// forwarded when they are complete, with the block size of each side. Default: 1 MiB.
    pub body_bytes: usize,
    /// Resources observed at their origins. At the limit, a client that registers for another
    /// resource gets its state without notifications. Default: 1,024.
    pub observations: usize,
    /// Observed resources whose observation was started by one client (an address, or an IPv6 /64).
    /// They count while anybody observes them. At the limit: as `observations`. An origin sees the
    /// proxy as one peer with a limited number of observations (256 at a Carob server), which one
    /// client must not exhaust. Default: 128.
    pub observations_of_client: usize,
    /// Time for a response of the origin; beyond it, 5.04. Default: 100 s. The controller gives up
    /// on a silent origin before.
    pub patience: Duration,
    /// Max-Age of a 5.03: the time after which the client may try again. Default: 5 s.
    pub retry_after: Duration,
    /// Limits of the cache; at the limit, the least recently used response is evicted. Default:
    /// 4,096 entries, 16 MiB.
    pub cache: CacheLimits,
}

impl Default for ProxyLimits {
    fn default() -> Self {
        Self {
            requests: 1_024,
            requests_of_origin: 256,
            requests_of_client: 512,
            body_bytes: 1 << 20,
            observations: 1_024,
            observations_of_client: 128,
            patience: Duration::from_secs(100),
            retry_after: Duration::from_secs(5),
            cache: CacheLimits {
                entries: 4_096,
                bytes: 16 << 20,
            },
        }
    }
}

/// Usage of a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProxyUsage {
    /// Pending requests to the origins.
    pub requests: usize,
    /// Resources observed at their origins.
    pub observations: usize,
    /// Usage of the cache.
    pub cache: CacheUsage,
}

/// Running proxy, from [`ProxyBuilder::start`].
///
/// Dropping it stops it at once; [`shutdown`](Self::shutdown) lets pending requests finish first.
#[derive(Debug)]
pub struct Proxy {
    server: Server,
    forwarder: Arc<Forwarder>,
}

/// Builder of a [`Proxy`], from [`Proxy::builder`].
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use carob::server::fixed;
/// use carob::{Client, Proxy, Server};
///
/// let origin = Server::builder().bind("127.0.0.1:0").resource("/hello", fixed("hello")).start().await?;
/// let proxy = Proxy::builder()
///     .server(Server::builder().bind("127.0.0.1:0"))
///     .route("/origin", &format!("coap://{}", origin.local_address()))?
///     .start()
///     .await?;
/// let uri = format!("coap://{}/origin/hello", proxy.server().local_address());
/// assert_eq!(Client::new()?.get(uri).await?.text(), Some("hello"));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct ProxyBuilder {
    server: ServerBuilder,
    config: Config,
    origin_config: Config,
    routes: Vec<Route>,
    allow: Vec<Allow>,
    hosts: Vec<String>,
    identifier: String,
    hop_limit: u8,
    limits: ProxyLimits,
    share_secure: bool,
}

impl Proxy {
    /// Returns a builder for a proxy on `[::]:5683` that forwards nothing.
    pub fn builder() -> ProxyBuilder {
        ProxyBuilder {
            server: Server::builder(),
            config: Config::default(),
            origin_config: Config::default(),
            routes: Vec::new(),
            allow: Vec::new(),
            hosts: Vec::new(),
            identifier: "carob".into(),
            hop_limit: HOP_LIMIT,
            limits: ProxyLimits::default(),
            share_secure: false,
        }
    }

    /// Returns the server towards the clients.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Returns the client towards the origins, for the readings of its controllers and the usage of
    /// its tables. Requests made with it bypass the limits, the cache and the patterns of the
    /// proxy.
    pub fn origins(&self) -> Client {
        self.forwarder.client()
    }

    /// Sets the controller and the transmission parameters of one origin; see [`Client::set_peer`].
    ///
    /// # Errors
    ///
    /// As for [`Client::set_peer`].
    pub async fn set_origin(&self, origin: SocketAddr, config: PeerConfig) -> Result<(), Error> {
        self.origins().set_peer(origin, config).await
    }

    /// Returns the current usage.
    pub fn usage(&self) -> ProxyUsage {
        self.forwarder.usage()
    }

    /// Waits until both sides have stopped.
    ///
    /// # Errors
    ///
    /// The error that stopped a socket of either side; see [`Server::closed`].
    pub async fn closed(&self) -> io::Result<()> {
        let origins = self.origins();
        futures_util::future::try_join(self.server.closed(), origins.closed()).await?;
        Ok(())
    }

    /// Stops the proxy. New requests are answered 5.03; pending requests may finish until `limit`
    /// has passed, then they are aborted.
    pub async fn shutdown(self, limit: Duration) -> ShutdownOutcome {
        let origins = self.origins();
        let finish = self.server.shutdown(limit).await;
        // Responses of origins are no longer needed.
        origins.shutdown(Duration::ZERO).await;
        finish
    }
}

impl ProxyBuilder {
    /// Sets the server towards the clients: its addresses, and resources of the proxy itself. Its
    /// configuration is replaced by [`config`](Self::config). Default: `[::]:5683`.
    pub fn server(mut self, server: ServerBuilder) -> Self {
        self.server = server;
        self
    }

    /// Sets the configuration of the side of the clients.
    pub fn config(mut self, config: Config) -> Self {
        self.config = config;
        self
    }

    /// Sets the configuration of the side of the origins.
    pub fn origin_config(mut self, config: Config) -> Self {
        self.origin_config = config;
        self
    }

    /// Adds a route of the reverse-proxy: paths that begin with `path` are mapped to the URI
    /// `origin` and the rest of the path. The longest matching route applies; `/` matches
    /// everything else.
    ///
    /// # Errors
    ///
    /// [`Error::Uri`] if `origin` is not a CoAP URI.
    pub fn route(mut self, path: &str, origin: &str) -> Result<Self, Error> {
        let uri = |source| Error::Uri {
            uri: origin.to_owned(),
            source,
        };
        let origin = Uri::parse(origin).map_err(uri)?;
        let segments = path.split('/').filter(|segment| !segment.is_empty());
        self.routes.push(Route {
            prefix: segments.map(str::to_owned).collect(),
            origin,
        });
        Ok(self)
    }

    /// Adds hosts that the forward-proxy may contact for its clients. Default: none.
    pub fn allow(mut self, pattern: Allow) -> Self {
        self.allow.push(pattern);
        self
    }

    /// Adds a host name of the proxy itself. Its addresses, and `localhost` if the proxy listens on
    /// loopback, are known.
    pub fn host(mut self, name: impl Into<String>) -> Self {
        self.hosts.push(name.into().to_ascii_lowercase());
        self
    }

    /// Sets the identifier in Hop Limit Reached responses (RFC 8768 section 4). Spaces are removed.
    /// Default: `carob`.
    pub fn identifier(mut self, name: &str) -> Self {
        // The names in a 5.08 are separated by spaces (RFC 8768 4).
        self.identifier = name.split_whitespace().collect();
        self
    }

    /// Sets the Hop-Limit added to requests without one, at least 1. Default: 16 (RFC 8768 section
    /// 3).
    pub fn hop_limit(mut self, hops: u8) -> Self {
        // 0 is not a valid Hop-Limit (RFC 8768 3).
        self.hop_limit = hops.max(1);
        self
    }

    /// Sets the limits of the proxy.
    pub fn limits(mut self, limits: ProxyLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Caches and shares responses to secure connections and from secure origins, too. Set it only
    /// if every client may read the responses of every other (RFC 7252 section 11.2). Secure and
    /// other clients have separate caches then.
    pub fn share_secure(mut self) -> Self {
        self.share_secure = true;
        self
    }

    /// Starts the proxy on the current tokio runtime.
    ///
    /// # Errors
    ///
    /// [`OpenError`], as for [`ServerBuilder::start`].
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub async fn start(self) -> Result<Proxy, OpenError> {
        let Self {
            mut server,
            config,
            origin_config,
            routes,
            allow,
            hosts,
            identifier,
            hop_limit,
            limits,
            share_secure,
        } = self;
        let body_bytes = limits.body_bytes;
        let config = config.engine(|config| {
            config.forwards = true;
            config.limits.upload_bytes = body_bytes;
        });
        let origin_config = origin_config.engine(|config| {
            config.forwards = true;
            config.limits.download_bytes = body_bytes;
        });
        let counting =
            [&config, &origin_config].map(|config| config.engine.retransmission_count_option);
        let client = Client::builder().config(origin_config).open()?;
        let forwarder = Arc::new(Forwarder::new(
            client,
            limits,
            share_secure,
            (identifier, hop_limit),
            counting,
        ));
        let names = Arc::new(Names {
            hosts,
            ..Names::default()
        });
        if !routes.is_empty() {
            let links = links::resource(Arc::clone(&forwarder), routes.clone());
            server = server.resource(links::PATH, links);
        }
        for route in routes {
            let at = route.prefix.join("/");
            let resource = resource(&forwarder, Upstream::Route(route));
            server = match at.as_str() {
                "" => server.fallback(resource),
                at => server.resource(&format!("/{at}/*"), resource),
            };
        }
        let forward = (!allow.is_empty()).then(|| resource(&forwarder, Upstream::Forward(allow)));
        let known = Arc::clone(&names);
        let server = server
            // Requests waiting for origins have a separate limit.
            .handlers(limits.requests + limits.observations + crate::server::HANDLERS)
            .forward(Forward::new(forward, move |uri| known.is_own(uri)))
            .config(config)
            .start()
            .await?;
        let set = names.places.set(server.addresses().to_vec());
        debug_assert!(set.is_ok(), "nobody else sets it");
        Ok(Proxy { server, forwarder })
    }
}

/// Creates the resource that forwards the requests of a route.
fn resource(forwarder: &Arc<Forwarder>, upstream: Upstream) -> Resource {
    const METHODS: [Code; 7] = [
        Code::GET,
        Code::POST,
        Code::PUT,
        Code::DELETE,
        Code::FETCH,
        Code::PATCH,
        Code::IPATCH,
    ];
    let upstream = Arc::new(upstream);
    let follow = Arc::new(ObserveRelay::new(
        Arc::clone(forwarder),
        Arc::clone(&upstream),
    ));
    let resource = Resource::new()
        // Conditions concern the state at the origin, which evaluates them.
        .own_conditions()
        .unlisted()
        .following(follow);
    METHODS.into_iter().fold(resource, |resource, method| {
        let (forwarder, upstream) = (Arc::clone(forwarder), Arc::clone(&upstream));
        resource.on(method, move |request| {
            let (forwarder, upstream) = (Arc::clone(&forwarder), Arc::clone(&upstream));
            async move { forwarder.pass(&upstream, &request).await }
        })
    })
}
