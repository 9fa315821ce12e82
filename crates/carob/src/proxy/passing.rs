//! A request on its way to its origin, and the response on its way back.

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

/// Where requests go.
#[derive(Debug)]
pub(super) enum Way {
    /// To whom the client names, if that is allowed.
    Forward(Vec<Allow>),
    /// To the origin of a route.
    Route(Route),
}

/// Passes requests on to origins.
#[derive(Debug)]
pub(super) struct Passing {
    /// The client whose cache all clients share.
    shared: Client,
    /// The client for requests that nobody else shares.
    own: Client,
    /// The client for requests over secure connections, if these may be shared.
    secure: Option<Client>,
    pub(super) clock: Clock,
    limits: ProxyLimits,
    identifier: String,
    hop_limit: u8,
    /// The options that count copies on the two sides.
    counting: [OptionNumber; 2],
    requests: Arc<Semaphore>,
    observations: Arc<Semaphore>,
    /// Requests that wait, by origin and by client.
    waiting: Arc<Mutex<Waiting>>,
    /// Resources that are observed, by the client that began it.
    observed: Arc<Mutex<QuotaTable>>,
}

/// Requests that wait.
#[derive(Debug)]
struct Waiting {
    /// For each origin; it is here as long as there are any.
    origins: BTreeMap<Authority, usize>,
    clients: QuotaTable,
}

/// `scheme://host:port`.
type Authority = String;

/// A request as it goes on.
pub(super) struct Prepared {
    target: Uri,
    options: Options,
    /// The response may be shared.
    pub(super) is_shared: bool,
    client: Client,
}

/// A request's places among those that wait.
struct Place {
    _among_all: OwnedSemaphorePermit,
    waiting: Arc<Mutex<Waiting>>,
    origin: Authority,
    client: Source,
}

/// The place of a resource among those that are observed.
pub(super) struct ObservationPlace {
    _among_all: OwnedSemaphorePermit,
    observed: Arc<Mutex<QuotaTable>>,
    client: Source,
}

impl Drop for ObservationPlace {
    fn drop(&mut self) {
        let mut observed = self.observed.lock().unwrap_or_else(PoisonError::into_inner);
        observed.subtract(self.client, 1);
    }
}

impl Drop for Place {
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

impl Passing {
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
            waiting: Arc::new(Mutex::new(Waiting {
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

    /// A place among what is observed, if there is one and the client has not its share yet.
    pub(super) fn observation(&self, client: SocketAddr) -> Option<ObservationPlace> {
        let among_all = Arc::clone(&self.observations).try_acquire_owned().ok()?;
        let client = Source::of(client, 64);
        let mut observed = self.observed.lock().unwrap_or_else(PoisonError::into_inner);
        if observed.of(client) >= self.limits.observations_of_client {
            return None;
        }
        observed.add(client, 1);
        Some(ObservationPlace {
            _among_all: among_all,
            observed: Arc::clone(&self.observed),
            client,
        })
    }

    /// The Hop-Limit with which a request goes on.
    pub(super) fn hop_limit(&self, request: &Options) -> Result<u8, Refused> {
        proxy::hop_limit(request, self.hop_limit)
    }

    /// A request as it is to go on, or what it is answered if it is not.
    pub(super) fn prepare(&self, way: &Way, request: &Request) -> Result<Prepared, Box<Response>> {
        let given = request.options();
        let prepared = || -> Result<Prepared, Refused> {
            let target = match way {
                // One without a host was for the proxy itself, and did not get here.
                Way::Forward(_) => proxy::requested(given, ([0, 0, 0, 0], 0).into())?
                    .ok_or(Refused::Malformed(OptionNumber::PROXY_SCHEME))?,
                Way::Route(route) => route.target(given)?,
            };
            let hops = self.hop_limit(given)?;
            let mut options = proxy::request_options(given, self.counting[0])?;
            options.set_uint(OptionNumber::HOP_LIMIT, hops.into())?;
            let secure = request.scheme().is_secure() || target.scheme().is_secure();
            let (client, is_shared) = match &self.secure {
                _ if !secure => (&self.shared, true),
                // What was asked for securely is for who asks so.
                Some(secure) if request.scheme().is_secure() => (secure, true),
                _ => (&self.own, false),
            };
            Ok(Prepared {
                target,
                options,
                is_shared,
                client: client.clone(),
            })
        };
        let prepared = prepared().map_err(|refused| {
            if refused == Refused::HopLimit {
                // Somebody should know that there is a loop (RFC 8768 3).
                tracing::warn!(target: "carob::proxy", peer = %request.peer(), "Hop-Limit reached");
            }
            Box::new(refused.response(&self.identifier))
        })?;
        if let Way::Forward(allow) = way
            && !allow.iter().any(|allow| allow.may_admit(&prepared.target))
        {
            return Err(Box::new(not_allowed()));
        }
        Ok(prepared)
    }

    /// The request of ours that stands for a client's.
    pub(super) fn request(
        &self,
        way: &Arc<Way>,
        prepared: &Prepared,
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
        if matches!(**way, Way::Forward(_)) {
            let way = Arc::clone(way);
            builder = builder.admit(Arc::new(move |address| match &*way {
                Way::Forward(allow) => allow.iter().any(|allow| allow.admits(&target, address)),
                Way::Route(_) => true,
            }));
        }
        builder
    }

    /// Asks the origin, or the cache, and answers.
    pub(super) async fn pass(&self, way: &Arc<Way>, request: &Request) -> Response {
        let prepared = match self.prepare(way, request) {
            Ok(prepared) => prepared,
            Err(refusal) => return *refusal,
        };
        let mut builder = self.request(way, &prepared, request);
        let reply = match builder.if_fresh() {
            Ok(Some(reply)) => Ok(reply),
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
                self.response(way, reply.response)
            }
            Err(error) => self.failure(&error),
        }
    }

    /// A place among those that wait; nothing if there is none.
    fn place(&self, target: &Uri, client: SocketAddr) -> Option<Place> {
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
        Some(Place {
            _among_all: among_all,
            waiting: Arc::clone(&self.waiting),
            origin,
            client,
        })
    }

    fn busy(&self) -> Response {
        Refusal::service_unavailable("too many requests wait for their origins")
            .with_max_age(self.limits.retry_after)
            .into_response()
    }

    /// The response for a client, made of the origin's.
    pub(super) fn response(&self, way: &Way, mut response: Response) -> Response {
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
        if let Way::Route(route) = way
            && route.locate(&mut response.options).is_err()
        {
            return bad_gateway("where it was created cannot be told".into());
        }
        if response.code == Code::HOP_LIMIT_REACHED {
            let text = proxy::hops_passed(&self.identifier, response.bytes());
            response.payload = Payload::Whole(text.into());
        }
        response
    }

    /// The response for a client whose origin sent none, or no usable one.
    pub(super) fn failure(&self, error: &Error) -> Response {
        match error {
            Error::NotAdmitted { .. } => not_allowed(),
            Error::Disabled { .. } => Refused::Scheme.response(""),
            error if error.is_timeout() => {
                Refusal::gateway_timeout("the origin did not answer").into_response()
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
                Refusal::bad_request("the request cannot be passed on").into_response()
            }
            // What it says of addresses and resolvers is not the client's business.
            Error::Failed { failure, .. } => bad_gateway(format!("the origin: {failure}")),
            _ => bad_gateway("the origin cannot be reached".into()),
        }
    }
}

fn not_allowed() -> Response {
    Refusal::proxying_not_supported("this proxy does not ask there").into_response()
}

fn bad_gateway(text: String) -> Response {
    Refusal::bad_gateway(text).into_response()
}
