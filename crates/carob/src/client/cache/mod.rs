//! Response cache of a client: lookup, revalidation and invalidation.
//!
//! The cache itself (`store`) and its keys (`key`) are plain state; this module adds the lock and
//! the clock.

mod key;
mod store;

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use carob_proto::codec::{Code, ETag, OptionNumber, Options, Uri};
use carob_proto::message::Response;

use super::reply::Reply;
use crate::clock::{Clock, TimeSource};
use crate::runtime::RepresentationSink;

use key::{Key, Target};
use store::{Cache, Epoch, Found, Stored};
pub use store::{CacheLimits, CacheUsage};

/// A cache that the clones of a client share.
#[derive(Debug)]
pub(super) struct SharedCache {
    cache: Mutex<Cache>,
    clock: Clock,
}

/// A request without a fresh response in the cache.
#[derive(Debug)]
pub(super) struct Revalidation {
    shared: Arc<SharedCache>,
    key: Key,
    epoch: Epoch,
    /// Stale responses to revalidate.
    states: Vec<Stored>,
}

/// The destination of a request, and its options.
#[derive(Clone, Copy, Debug)]
pub(super) struct CacheRequest<'a> {
    pub(super) uri: &'a Uri,
    /// The explicit destination address, if any.
    pub(super) to: Option<SocketAddr>,
    pub(super) options: &'a Options,
}

impl CacheRequest<'_> {
    fn target(&self, options: &Options) -> Target {
        let uri = self.uri;
        let mut authority = format!("{}://{}:{}", uri.scheme(), uri.host(), uri.port());
        // Another server than the named one may be at this address.
        if let Some(to) = self.to {
            let written = write!(authority, " {to}");
            debug_assert!(written.is_ok(), "writing to a string does not fail");
        }
        Target::new(&authority, options)
    }
}

/// The outcome of a cache lookup.
#[derive(Debug)]
pub(super) enum Lookup {
    /// The request bypasses the cache.
    Aside,
    Fresh(Response, SocketAddr),
    Revalidation(Revalidation),
}

impl SharedCache {
    pub(super) fn new(limits: CacheLimits, time: TimeSource) -> Self {
        Self {
            cache: Mutex::new(Cache::new(limits)),
            clock: Clock::start(time),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn usage(&self) -> CacheUsage {
        self.lock().usage()
    }

    /// Looks up the response to a request.
    pub(super) fn find(
        self: &Arc<Self>,
        asked: &CacheRequest<'_>,
        method: Code,
        body: &[u8],
        reload: bool,
    ) -> Lookup {
        let target = asked.target(asked.options);
        let Some(key) = Key::new(target, method, asked.options, body) else {
            return Lookup::Aside;
        };
        let now = self.clock.now();
        let mut cache = self.lock();
        match cache.find(now, &key, reload) {
            Found::Fresh(response, peer) => Lookup::Fresh(response, peer),
            Found::Stale(states) => Lookup::Revalidation(Revalidation {
                shared: Arc::clone(self),
                key,
                // Before the request leaves: its response does not count as fresh if the resource
                // is changed meanwhile.
                epoch: cache.epoch(),
                states,
            }),
        }
    }

    /// Returns the writer of an observation's representations, if they can be cached.
    pub(super) fn cache_writer(
        self: &Arc<Self>,
        asked: &CacheRequest<'_>,
        method: Code,
        body: &[u8],
    ) -> Option<CacheWriter> {
        let key = Key::new(asked.target(asked.options), method, asked.options, body)?;
        Some(CacheWriter {
            shared: Arc::clone(self),
            key,
            epoch: self.lock().epoch(),
            told: false,
        })
    }

    /// Invalidates the responses of a resource, and of a created one, after a successful unsafe
    /// request (RFC 7252 5.9.1, 5.10.7).
    pub(super) fn changed(&self, asked: &CacheRequest<'_>, response: &Response) {
        let mut cache = self.lock();
        cache.invalidate(&asked.target(asked.options));
        if let Some(created) = location(asked.options, response) {
            // A created resource may be in the cache as not found (RFC 7252 5.10.7).
            cache.invalidate(&asked.target(&created));
        }
    }
}

/// Stores the representations of an observation.
#[derive(Debug)]
pub(crate) struct CacheWriter {
    shared: Arc<SharedCache>,
    key: Key,
    epoch: Epoch,
    /// A notification was stored.
    told: bool,
}

impl RepresentationSink for CacheWriter {
    fn store(&mut self, response: &Response, peer: SocketAddr) {
        let observed = response.options.contains(OptionNumber::OBSERVE);
        self.told |= observed;
        let (now, key) = (self.shared.clock.now(), self.key.clone());
        let mut cache = self.shared.lock();
        if self.told {
            cache.notify(now, key, response.clone(), peer);
        } else {
            // The server did not register the observer: an ordinary response.
            cache.insert(now, self.epoch, key, response.clone(), peer);
        }
    }
}

impl Revalidation {
    /// The entity tags to be validated, as options.
    pub(super) fn etags(&self) -> impl Iterator<Item = (OptionNumber, Vec<u8>)> {
        let tags = self.states.iter().filter_map(Stored::tag);
        tags.map(|tag| (OptionNumber::ETAG, tag.as_slice().to_vec()))
    }

    /// Returns whether one of the stale responses has this tag.
    pub(super) fn has(&self, tag: ETag) -> bool {
        self.states.iter().any(|state| state.tag() == Some(tag))
    }

    /// Returns whether a response validates one of the stale responses.
    pub(super) fn is_validated_by(&self, response: &Response) -> bool {
        response.code == Code::VALID && !self.states.is_empty()
    }

    /// Processes a 2.03; returns the validated response, or `None` if its tag is unknown.
    pub(super) fn validate(&self, valid: &Response, peer: SocketAddr) -> Option<Response> {
        let (now, key) = (self.shared.clock.now(), self.key.clone());
        let mut cache = self.shared.lock();
        cache.validate(now, self.epoch, key, &self.states, valid, peer)
    }

    /// Stores any other response.
    pub(super) fn insert(self, reply: &Reply) {
        let now = self.shared.clock.now();
        let (response, peer) = (reply.response.clone(), reply.peer);
        let mut cache = self.shared.lock();
        cache.insert(now, self.epoch, self.key, response, peer);
    }
}

/// Returns the options of a request for the created resource, if the response names one (RFC 7252
/// 5.10.7).
fn location(request: &Options, response: &Response) -> Option<Options> {
    let moved = [
        (OptionNumber::LOCATION_PATH, OptionNumber::URI_PATH),
        (OptionNumber::LOCATION_QUERY, OptionNumber::URI_QUERY),
    ];
    let given = &response.options;
    if !moved.iter().any(|(from, _)| given.contains(*from)) {
        return None;
    }
    // A location is relative to the URI of the request, whose host and port remain (RFC
    // 7252 5.10.7).
    let mut options = request.clone();
    for (from, to) in moved {
        options.remove(to);
        for value in given.values(from) {
            options.push(to, value).ok()?;
        }
    }
    Some(options)
}
