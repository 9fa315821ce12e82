//! Forwarding: a request from the client to its origin, and the response back (RFC 7252 5.7).

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use carob_proto::codec::{Code, ETag, OptionNumber, Options, Uri};
use carob_proto::endpoint::{Failure, RequestError};
use carob_proto::message::{Payload, Response};
use carob_proto::proxy::{self, Refused, Route};
use carob_proto::tables::quota::{QuotaTable, Source};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{Allow, ProxyLimits, ProxyUsage};
use crate::client::{Client, RequestBuilder};
use crate::clock::Clock;
use crate::error::Error;
use crate::server::{IntoResponse as _, Refusal, Request};

/// The destination of requests.
#[derive(Debug)]
pub(super) enum Upstream {
    /// The host named by the client, if an allow rule matches it.
    Forward(Vec<Allow>),
    /// The origin of a route.
    Route(Route),
}

/// Forwards requests to origins.
#[derive(Debug)]
pub(super) struct Forwarder {
    /// The client whose cache all clients share.
    shared: Client,
    /// The client for requests whose responses are not shared.
    own: Client,
    /// The client for requests over secure connections, if their responses may be shared.
    secure: Option<Client>,
    pub(super) clock: Clock,
    limits: ProxyLimits,
    identifier: String,
    hop_limit: u8,
    /// The options that count copies on the two sides.
    counting: [OptionNumber; 2],
    requests: Arc<Semaphore>,
    observations: Arc<Semaphore>,
    /// Requests in progress, by origin and by client.
    waiting: Arc<Mutex<PendingRequests>>,
    /// Observed resources, by the client that registered first.
    observed: Arc<Mutex<QuotaTable>>,
}

/// Counts of requests in progress.
#[derive(Debug)]
struct PendingRequests {
    /// Requests of each origin, above zero.
    origins: BTreeMap<Authority, usize>,
    clients: QuotaTable,
}

/// `scheme://host:port`.
type Authority = String;

/// A request ready to be forwarded.
pub(super) struct PreparedRequest {
    target: Uri,
    options: Options,
    /// The response may be shared.
    pub(super) is_shared: bool,
    client: Client,
}

/// The quota that a request in progress occupies, released on drop.
struct RequestPermit {
    _among_all: OwnedSemaphorePermit,
    waiting: Arc<Mutex<PendingRequests>>,
    origin: Authority,
    client: Source,
}

/// The quota that an observed resource occupies, released on drop.
pub(super) struct ObservationPermit {
    _among_all: OwnedSemaphorePermit,
    observed: Arc<Mutex<QuotaTable>>,
    client: Source,
}

impl Drop for ObservationPermit {
    fn drop(&mut self) {
        let mut observed = self.observed.lock().unwrap_or_else(PoisonError::into_inner);
        observed.subtract(self.client, 1);
    }
}

impl Drop for RequestPermit {
    fn drop(&mut self) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.clients.subtract(self.client, 1);
        if let Some(count) = waiting.origins.get_mut(&self.origin) {
            *count -= 1;
            if *count == 0 {
                waiting.origins.remove(&self.origin);
            }
        }
    }
}

impl Forwarder {
    pub(super) fn new(
        client: Client,
        limits: ProxyLimits,
        share_secure: bool,
        (identifier, hop_limit): (String, u8),
        counting: [OptionNumber; 2],
    ) -> Self {
        Self {
            clock: Clock::start(client.time_source()),
            shared: client.with_cache(Some(limits.cache)),
            secure: share_secure.then(|| client.with_cache(Some(limits.cache))),
            own: client,
            limits,
            identifier,
            hop_limit,
            counting,
            requests: Arc::new(Semaphore::new(limits.requests)),
            observations: Arc::new(Semaphore::new(limits.observations)),
            waiting: Arc::new(Mutex::new(PendingRequests {
                origins: BTreeMap::new(),
                // Bounded by the limit on requests: any seed will do.
                clients: QuotaTable::new(0),
            })),
            observed: Arc::new(Mutex::new(QuotaTable::new(0))),
        }
    }

    pub(super) fn client(&self) -> Client {
        self.own.clone()
    }

    /// The client for the origins' link lists, which are shared.
    pub(super) fn lists(&self) -> &Client {
        &self.shared
    }

    pub(super) fn usage(&self) -> ProxyUsage {
        let mut cache = self.shared.cache_usage();
        if let Some(secure) = &self.secure {
            let secure = secure.cache_usage();
            cache.entries += secure.entries;
            cache.bytes += secure.bytes;
        }
        ProxyUsage {
            requests: self.limits.requests - self.requests.available_permits(),
            observations: self.limits.observations - self.observations.available_permits(),
            cache,
        }
    }

    /// Returns a permit for an observation, unless a limit in total or of this client is reached.
    pub(super) fn observation(&self, client: SocketAddr) -> Option<ObservationPermit> {
        let among_all = Arc::clone(&self.observations).try_acquire_owned().ok()?;
        // A host has a whole /64 of addresses, and one quota.
        let client = Source::of(client, 64);
        let mut observed = self.observed.lock().unwrap_or_else(PoisonError::into_inner);
        if observed.of(client) >= self.limits.observations_of_client {
            return None;
        }
        observed.add(client, 1);
        Some(ObservationPermit {
            _among_all: among_all,
            observed: Arc::clone(&self.observed),
            client,
        })
    }

    /// Returns the Hop-Limit of the forwarded request.
    pub(super) fn hop_limit(&self, request: &Options) -> Result<u8, Refused> {
        proxy::hop_limit(request, self.hop_limit)
    }

    /// Prepares the forwarded request, or returns the error response.
    ///
    /// # Errors
    ///
    /// The response to a request that must not be forwarded.
    pub(super) fn prepare(
        &self,
        upstream: &Upstream,
        request: &Request,
    ) -> Result<PreparedRequest, Box<Response>> {
        let given = request.options();
        let prepared = || -> Result<PreparedRequest, Refused> {
            let target = match upstream {
                // A request without a host is the proxy's own and does not reach this point.
                Upstream::Forward(_) => proxy::requested(given, ([0, 0, 0, 0], 0).into())?
                    .ok_or(Refused::Malformed(OptionNumber::PROXY_SCHEME))?,
                Upstream::Route(route) => route.target(given)?,
            };
            let hops = self.hop_limit(given)?;
            let mut options = proxy::request_options(given, self.counting[0])?;
            options.set_uint(OptionNumber::HOP_LIMIT, hops.into())?;
            let secure = request.scheme().is_secure() || target.scheme().is_secure();
            let (client, is_shared) = match &self.secure {
                _ if !secure => (&self.shared, true),
                // Responses of secure requests are shared among secure requests only.
                Some(secure) if request.scheme().is_secure() => (secure, true),
                _ => (&self.own, false),
            };
            Ok(PreparedRequest {
                target,
                options,
                is_shared,
                client: client.clone(),
            })
        };
        let prepared = prepared().map_err(|refused| {
            if refused == Refused::HopLimit {
                // A loop is worth a warning (RFC 8768 3).
                tracing::warn!(target: "carob::proxy", peer = %request.peer(), "Hop-Limit reached");
            }
            Box::new(refused.response(&self.identifier))
        })?;
        if let Upstream::Forward(allow) = upstream
            && !allow.iter().any(|allow| allow.may_admit(&prepared.target))
        {
            return Err(Box::new(not_allowed()));
        }
        Ok(prepared)
    }

    /// Returns the builder of the forwarded request.
    pub(super) fn request(
        &self,
        upstream: &Arc<Upstream>,
        prepared: &PreparedRequest,
        request: &Request,
    ) -> RequestBuilder {
        let target = prepared.target.clone();
        let mut builder = (prepared.client)
            .request(request.method(), target.clone())
            .body(request.payload().clone())
            .timeout(self.limits.patience);
        for option in &prepared.options {
            builder = builder.option(option.number, option.value);
        }
        // The name was allowed; its addresses are checked when it is resolved, or a name of the
        // client could lead to an inner host.
        if matches!(**upstream, Upstream::Forward(_)) {
            let upstream = Arc::clone(upstream);
            builder = builder.admit(Arc::new(move |address| match &*upstream {
                Upstream::Forward(allow) => {
                    allow.iter().any(|allow| allow.admits(&target, address))
                }
                Upstream::Route(_) => true,
            }));
        }
        builder
    }

    /// Answers a request from the cache or from the origin.
    pub(super) async fn pass(&self, upstream: &Arc<Upstream>, request: &Request) -> Response {
        let prepared = match self.prepare(upstream, request) {
            Ok(prepared) => prepared,
            Err(refusal) => return *refusal,
        };
        let mut builder = self.request(upstream, &prepared, request);
        let reply = match builder.if_fresh() {
            Ok(Some(reply)) => Ok(reply),
            // A fresh response takes no place: limits are for requests that reach an origin.
            Ok(None) => {
                let Some(_place) = self.place(&prepared.target, request.peer()) else {
                    return self.busy();
                };
                let tags: Vec<ETag> = request.etags().collect();
                builder.known(tags).send().await
            }
            Err(error) => Err(error),
        };
        match reply {
            Ok(reply) => {
                if !request.method().is_safe() && reply.code.is_success() {
                    // No client on either side receives the representation before the change.
                    for client in self.secure.iter().chain([&self.shared]) {
                        client.changed(&prepared.target, &reply.response);
                    }
                }
                self.response(upstream, reply.response)
            }
            Err(error) => self.failure(&error),
        }
    }

    /// Returns a permit for a request, unless a limit in total, of its origin or of its client is
    /// reached.
    fn place(&self, target: &Uri, client: SocketAddr) -> Option<RequestPermit> {
        let among_all = Arc::clone(&self.requests).try_acquire_owned().ok()?;
        let origin = format!("{}://{}:{}", target.scheme(), target.host(), target.port());
        let client = Source::of(client, 64);
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let for_origin = waiting.origins.get(&origin).copied().unwrap_or(0);
        if for_origin >= self.limits.requests_of_origin
            || waiting.clients.of(client) >= self.limits.requests_of_client
        {
            return None;
        }
        waiting.origins.insert(origin.clone(), for_origin + 1);
        waiting.clients.add(client, 1);
        Some(RequestPermit {
            _among_all: among_all,
            waiting: Arc::clone(&self.waiting),
            origin,
            client,
        })
    }

    fn busy(&self) -> Response {
        Refusal::service_unavailable("too many requests in progress")
            .with_max_age(self.limits.retry_after)
            .into_response()
    }

    /// Returns the response to a client from the origin's.
    pub(super) fn response(&self, upstream: &Upstream, mut response: Response) -> Response {
        // A code of another class has no meaning that a client could act upon (RFC 7252 5.7.1:
        // 5.02).
        if !matches!(response.code.class(), 2 | 4 | 5) {
            return bad_gateway(format!("the origin answered {}", response.code));
        }
        response.options = match proxy::response_options(&response.options, self.counting[1]) {
            Ok(options) => options,
            Err(Refused::Option(number)) => {
                return bad_gateway(format!("the response needs option {}", number.0));
            }
            Err(_) => return bad_gateway("the response's options are too long".into()),
        };
        if let Upstream::Route(route) = upstream
            && route.locate(&mut response.options).is_err()
        {
            return bad_gateway("the location of the created resource cannot be expressed".into());
        }
        if response.code == Code::HOP_LIMIT_REACHED {
            let text = proxy::hop_limit_diagnostic(&self.identifier, response.bytes());
            response.payload = Payload::Whole(text.into());
        }
        response
    }

    /// Returns the response to a client whose origin sent no usable response.
    pub(super) fn failure(&self, error: &Error) -> Response {
        match error {
            Error::NotAdmitted { .. } => not_allowed(),
            Error::Disabled { .. } => Refused::Scheme.response(""),
            error if error.is_timeout() => {
                Refusal::gateway_timeout("no response from the origin within the timeout")
                    .into_response()
            }
            Error::NotSent {
                source:
                    RequestError::RequestsFull | RequestError::PeersFull | RequestError::QueueFull,
                ..
            }
            | Error::Failed {
                failure: Failure::NotNow(_) | Failure::QueueFull,
                ..
            }
            | Error::Closed => self.busy(),
            Error::NotSent { .. } | Error::Option { .. } => {
                Refusal::bad_request("the request cannot be forwarded").into_response()
            }
            // Addresses and resolvers are not disclosed to the client.
            Error::Failed { failure, .. } => bad_gateway(format!("the origin: {failure}")),
            _ => bad_gateway("the origin cannot be reached".into()),
        }
    }
}

fn not_allowed() -> Response {
    Refusal::proxying_not_supported("requests to this host are not allowed").into_response()
}

fn bad_gateway(text: String) -> Response {
    Refusal::bad_gateway(text).into_response()
}
