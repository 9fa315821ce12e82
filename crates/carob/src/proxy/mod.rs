//! Asking for others: a forward-proxy, a reverse-proxy, or both (RFC 7252 5.7).
//!
//! A [`Proxy`] is a [`Server`] on one side and a [`Client`] on the other, each with its own
//! [`Settings`]: its own controller, parameters, block size. So the congestion of clients' networks
//! and that of origins' are controlled apart.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use carob::{Proxy, Settings};
//!
//! let proxy = Proxy::builder()
//!     // Whoever asks for coap://proxy/kitchen/temperature gets coap://192.0.2.7/temperature.
//!     .route("/kitchen", "coap://192.0.2.7")?
//!     // Whoever names a host of these with Proxy-Uri or Proxy-Scheme gets what is there.
//!     .allow("*.sensors.example.org".parse()?)
//!     .origin_settings(Settings::new().controller_named("cocoa-plus")?)
//!     .start()
//!     .await?;
//! # drop(proxy);
//! # Ok(())
//! # }
//! ```
//!
//! What is safe is kept in a cache for all clients; what is observed is observed at its origin once,
//! for all. What is asked for over secure connections, or from secure origins, is never shared
//! (RFC 7252 11.2), unless [`ProxyBuilder::share_secure`] says so.
//!
//! Inside: `allow` (whom a forward-proxy asks), `names` (what leads to the proxy itself), `passing`
//! (a request to its origin, and back), `following` (what is observed), `links` (what the origins
//! offer). What is done to messages is in [`carob_proto::proxy`].

mod allow;
mod following;
mod links;
mod names;
mod passing;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use carob_proto::codec::{Code, Uri};
use carob_proto::proxy::{HOP_LIMIT, Route};

use crate::client::{CacheLimits, CacheUsage, Client};
use crate::driver::Finish;
use crate::error::{Error, OpenError};
use crate::server::{Forward, Resource, Server, ServerBuilder};
use crate::settings::Settings;

pub use allow::{Allow, AllowError};
use following::Following;
use names::Names;
use passing::{Passing, Way};

/// Limits of a proxy, each with what happens at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProxyLimits {
    /// Requests that wait for their origins. At it, further ones are answered 5.03. Default 1,024.
    pub requests: usize,
    /// Requests that wait for one origin, so that a slow one leaves room for the others. At it,
    /// likewise. Default 256.
    pub requests_of_origin: usize,
    /// Requests of one client (an address, or an IPv6 network of 64 bits) that wait. At it, likewise.
    /// Default 512.
    pub requests_of_client: usize,
    /// Bytes of a body, of requests (beyond: 4.13) and of responses (beyond: 5.02). Bodies are
    /// passed on whole, each side in its own blocks. Default 1 MiB.
    pub body_bytes: usize,
    /// Resources that are observed at their origins. At it, who asks for another gets its state and
    /// no notifications. Default 1,024.
    pub observations: usize,
    /// Of those, resources whose observation one client (an address, or an IPv6 network of 64 bits)
    /// began. They count as long as anybody observes them. At it, that client meets what all meet at
    /// `observations`. To an origin the proxy is one peer, whose observations have a limit there (256
    /// of a server of Carob), so one client must not take them all. Default 128.
    pub observations_of_client: usize,
    /// How long an origin may take; beyond: 5.04. Default 100 s: an origin that is silent is given
    /// up by its controller before.
    pub patience: Duration,
    /// When it is worth trying again after a 5.03, as Max-Age says. Default 5 s.
    pub retry_after: Duration,
    /// What the cache holds; beyond, what was used longest ago goes. Default 4,096 responses and
    /// 16 MiB.
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

/// What a proxy has in hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProxyUsage {
    /// Requests that wait for their origins.
    pub requests: usize,
    /// Resources that are observed at their origins.
    pub observations: usize,
    /// What the cache holds.
    pub cache: CacheUsage,
}

/// A running proxy. Dropping it stops it at once; [`shut_down`](Self::shut_down) lets it finish
/// first.
#[derive(Debug)]
pub struct Proxy {
    server: Server,
    passing: Arc<Passing>,
}

/// A proxy to be described.
#[derive(Debug)]
pub struct ProxyBuilder {
    server: ServerBuilder,
    settings: Settings,
    origin_settings: Settings,
    routes: Vec<Route>,
    allow: Vec<Allow>,
    hosts: Vec<String>,
    identifier: String,
    hop_limit: u8,
    limits: ProxyLimits,
    share_secure: bool,
}

impl Proxy {
    /// A proxy to be described; it passes nothing on yet.
    pub fn builder() -> ProxyBuilder {
        ProxyBuilder {
            server: Server::builder(),
            settings: Settings::default(),
            origin_settings: Settings::default(),
            routes: Vec::new(),
            allow: Vec::new(),
            hosts: Vec::new(),
            identifier: "carob".into(),
            hop_limit: HOP_LIMIT,
            limits: ProxyLimits::default(),
            share_secure: false,
        }
    }

    /// The side of the clients: where it listens.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// The side of the origins: its controllers' readings, and what its tables hold. What it is
    /// asked for itself goes past limits, cache and patterns.
    pub fn origins(&self) -> Client {
        self.passing.client()
    }

    /// Gives an origin its own controller and parameters: see [`Client::set_peer`].
    pub async fn set_origin(
        &self,
        origin: SocketAddr,
        controller: Option<crate::Choice>,
        parameters: Option<crate::TransmissionParameters>,
    ) -> Result<(), Error> {
        self.origins()
            .set_peer(origin, controller, parameters)
            .await
    }

    /// What it has in hand.
    pub fn usage(&self) -> ProxyUsage {
        self.passing.usage()
    }

    /// Waits until the proxy has stopped. Error: the one that ended the driver of a socket, on either
    /// side; see [`Server::closed`].
    pub async fn closed(&self) -> io::Result<()> {
        let origins = self.origins();
        futures_util::future::try_join(self.server.closed(), origins.closed()).await?;
        Ok(())
    }

    /// Stops: new requests are answered 5.03, those under way are finished, and after `limit` at
    /// the latest everything is cut off.
    pub async fn shut_down(self, limit: Duration) -> Finish {
        let origins = self.origins();
        let finish = self.server.shut_down(limit).await;
        // Nobody waits for what comes from there any more.
        origins.shut_down(Duration::ZERO).await;
        finish
    }
}

impl ProxyBuilder {
    /// Where and how it is asked. Resources of this server are the proxy's own; its settings are
    /// those of [`settings`](Self::settings). Default: at `[::]:5683`.
    pub fn server(mut self, server: ServerBuilder) -> Self {
        self.server = server;
        self
    }

    /// The settings of the side of the clients.
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// The settings of the side of the origins.
    pub fn origin_settings(mut self, settings: Settings) -> Self {
        self.origin_settings = settings;
        self
    }

    /// Reverse-proxy: what begins with `path` here is what begins with `origin` there. Of several
    /// that match, the longest counts; `/` takes what no other does.
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

    /// Forward-proxy: whom it asks for those who name a URI. Without any, nobody.
    pub fn allow(mut self, pattern: Allow) -> Self {
        self.allow.push(pattern);
        self
    }

    /// A name that leads to the proxy itself. Its addresses, and `localhost` where that does, are
    /// known.
    pub fn host(mut self, name: impl Into<String>) -> Self {
        self.hosts.push(name.into().to_ascii_lowercase());
        self
    }

    /// What it calls itself to those who look for a loop (RFC 8768 4). Spaces are left out. Default
    /// `carob`.
    pub fn identifier(mut self, name: &str) -> Self {
        self.identifier = name.split_whitespace().collect();
        self
    }

    /// The Hop-Limit of requests that come without one, at least 1. Default 16 (RFC 8768 3).
    pub fn hop_limit(mut self, hops: u8) -> Self {
        self.hop_limit = hops.max(1);
        self
    }

    /// What it may hold.
    pub fn limits(mut self, limits: ProxyLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Keeps and shares what is asked for over secure connections and from secure origins, too:
    /// only where every client may see what any other may (RFC 7252 11.2). Each side of clients, the
    /// secure and the other, has a cache of its own then.
    pub fn share_secure(mut self) -> Self {
        self.share_secure = true;
        self
    }

    /// Starts the proxy on the current runtime.
    pub async fn start(self) -> Result<Proxy, OpenError> {
        let Self {
            mut server,
            settings,
            origin_settings,
            routes,
            allow,
            hosts,
            identifier,
            hop_limit,
            limits,
            share_secure,
        } = self;
        let body_bytes = limits.body_bytes;
        let settings = settings.engine(|config| {
            config.forwards = true;
            config.limits.upload_bytes = body_bytes;
        });
        let origin_settings = origin_settings.engine(|config| {
            config.forwards = true;
            config.limits.download_bytes = body_bytes;
        });
        let counting = [&settings, &origin_settings]
            .map(|settings| settings.config.retransmission_count_option);
        let client = Client::builder().settings(origin_settings).open()?;
        let passing = Arc::new(Passing::new(
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
            let links = links::resource(Arc::clone(&passing), routes.clone());
            server = server.resource(links::PATH, links);
        }
        for route in routes {
            let at = route.prefix.join("/");
            let resource = resource(&passing, Way::Route(route));
            server = match at.as_str() {
                "" => server.fallback(resource),
                at => server.resource(&format!("/{at}/*"), resource),
            };
        }
        let forward = (!allow.is_empty()).then(|| resource(&passing, Way::Forward(allow)));
        let known = Arc::clone(&names);
        let server = server
            // What waits for origins has a limit of its own.
            .handlers(limits.requests + limits.observations + crate::server::HANDLERS)
            .forward(Forward::new(forward, move |uri| known.is_own(uri)))
            .settings(settings)
            .start()
            .await?;
        let set = names.places.set(server.addresses().to_vec());
        debug_assert!(set.is_ok(), "nobody else sets it");
        Ok(Proxy { server, passing })
    }
}

/// What answers requests that go a way.
fn resource(passing: &Arc<Passing>, way: Way) -> Resource {
    const METHODS: [Code; 7] = [
        Code::GET,
        Code::POST,
        Code::PUT,
        Code::DELETE,
        Code::FETCH,
        Code::PATCH,
        Code::IPATCH,
    ];
    let way = Arc::new(way);
    let follow = Arc::new(Following::new(Arc::clone(passing), Arc::clone(&way)));
    let resource = Resource::new()
        .own_conditions()
        .unlisted()
        .following(follow);
    METHODS.into_iter().fold(resource, |resource, method| {
        let (passing, way) = (Arc::clone(passing), Arc::clone(&way));
        resource.on(method, move |request| {
            let (passing, way) = (Arc::clone(&passing), Arc::clone(&way));
            async move { passing.pass(&way, &request).await }
        })
    })
}
