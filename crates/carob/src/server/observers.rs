//! Observed representations: one for each distinct request that observes a resource.
//!
//! When a resource changes, its handler runs once for each representation, and the engine notifies
//! its observers. A change during the call causes another call.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use carob_cc::time::Instant;
use carob_proto::cache_key::CacheKey;
use carob_proto::codec::OptionNumber;
use carob_proto::endpoint::{Endpoint, IncomingId, Observe, Subject};
use carob_proto::message::Response;
use carob_proto::tables::keyed_hash::KeyedState;
use carob_proto::tables::quota::{QuotaPolicy, QuotaTable, Source};
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use tokio::task::JoinSet;

use super::handler::{Follow, Handler};
use super::notifier::Changes;
use super::pipeline::HandlerPipeline;
use super::responder::FAILED;
use super::responder::{Completion, Completions};
use super::{Notifier, Request};
use crate::transport::handshake::PeerIdentity;

/// Concurrent handlers for changed representations; the others wait.
const AT_ONCE: usize = 64;

/// The key of a representation: the [Cache-Key](CacheKey::Observation) of its requests.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct RepresentationKey {
    request: Box<[u8]>,
    /// The peer's identity: representations are not shared between identities.
    identity: Option<Arc<PeerIdentity>>,
}

impl RepresentationKey {
    fn of(request: &Request) -> Self {
        let (method, options) = (request.method(), request.options());
        let key = CacheKey::Observation.of(method, options, request.payload());
        Self {
            request: key.into(),
            // A handler may show a peer what others must not see.
            identity: request.identity.clone(),
        }
    }

    /// Bytes chosen by its sender.
    fn bytes(&self) -> usize {
        self.request.len()
    }
}

struct Representation {
    key: Arc<RepresentationKey>,
    notifier: Notifier,
    request: Request,
    handler: Arc<dyn Handler>,
    pipeline: HandlerPipeline,
    /// Its handler decides whether the resource is observable.
    follows: bool,
    state: State,
    /// The first observer's source, and the bytes of its request.
    cost: (Source, usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The notifications of the newest representation are sent or queued.
    Notified,
    /// The handler is due.
    Due,
    /// The handler is running; `again` if the resource has changed since its call.
    Running { again: bool },
}

/// All representations, bounded by the engine's limits on observers and their bytes. At the limit,
/// or at its quota, a client gets the state without notifications.
pub(super) struct ObservedRepresentations {
    completions: Completions,
    by_key: HashMap<Arc<RepresentationKey>, Subject, KeyedState>,
    /// Ordered, so that removal is fast among thousands.
    by_notifier: HashMap<u64, BTreeSet<Subject>, FixedState>,
    /// Boxed, because half of a table's slots are empty.
    all: HashMap<Subject, Box<Representation>, FixedState>,
    next: u64,
    /// Bytes of all requests, and of each source.
    bytes: usize,
    shares: QuotaTable,
    due: VecDeque<Subject>,
    running: usize,
    tasks: JoinSet<()>,
}

/// The handler of a request, as [`ObservedRepresentations::observe`] needs it.
pub(super) struct ObservationSource {
    pub(super) notifier: Notifier,
    pub(super) handler: Arc<dyn Handler>,
    pub(super) pipeline: HandlerPipeline,
}

impl ObservedRepresentations {
    pub(super) fn new(completions: Completions, seed: u64) -> Self {
        let state = KeyedState::with_seed(seed);
        Self {
            completions,
            by_key: HashMap::with_hasher(state),
            by_notifier: HashMap::with_hasher(FixedState::default()),
            all: HashMap::with_hasher(FixedState::default()),
            next: 0,
            bytes: 0,
            shares: QuotaTable::new(seed.rotate_left(16)),
            due: VecDeque::new(),
            running: 0,
            tasks: JoinSet::new(),
        }
    }

    /// Registers the sender of a request as an observer, if the request has Observe.
    pub(super) fn observe(
        &mut self,
        endpoint: &mut Endpoint,
        now: Instant,
        id: IncomingId,
        request: &Request,
        answering: impl FnOnce() -> ObservationSource,
    ) {
        let asked = endpoint.incoming(id).and_then(|incoming| incoming.observe);
        if asked != Some(Observe::Register) {
            return;
        }
        let key = RepresentationKey::of(request);
        let known = self.by_key.get(&key).copied();
        // A known representation costs nothing more, whoever observes it.
        if known.is_none() && !self.has_room(endpoint, request, &key) {
            return;
        }
        let subject = known.unwrap_or(Subject(self.next));
        // The engine first: where it lists no observer, nothing may be stored that nobody would
        // remove.
        if !endpoint.observe(now, id, subject) || known.is_some() {
            return;
        }
        self.add(endpoint, key, request, answering(), false);
    }

    /// Registers an observer of a relayed resource; returns the handler of this request.
    pub(super) fn follow(
        &mut self,
        endpoint: &mut Endpoint,
        now: Instant,
        id: IncomingId,
        request: &Request,
        follow: &dyn Follow,
    ) -> Option<Arc<dyn Handler>> {
        let asked = endpoint.incoming(id)?.observe;
        if asked != Some(Observe::Register) {
            return None;
        }
        let key = RepresentationKey::of(request);
        let known = self.by_key.get(&key).copied();
        if known.is_none() && !self.has_room(endpoint, request, &key) {
            return None;
        }
        let subject = known.unwrap_or(Subject(self.next));
        if !endpoint.observe(now, id, subject) {
            return None;
        }
        if let Some(view) = known.and_then(|subject| self.all.get(&subject)) {
            return Some(Arc::clone(&view.handler));
        }
        let notifier = Notifier::new();
        notifier.attach(&self.completions);
        let Some(handler) = follow.follow(request, &notifier) else {
            // Registered before the origin was asked, so that no notification of it is missed.
            endpoint.unobserve(now, id);
            return None;
        };
        let answering = ObservationSource {
            notifier,
            handler: Arc::clone(&handler),
            pipeline: HandlerPipeline::default(),
        };
        self.add(endpoint, key, request, answering, true);
        Some(handler)
    }

    /// Returns whether another representation may be kept for this source.
    fn has_room(&self, endpoint: &Endpoint, request: &Request, key: &RepresentationKey) -> bool {
        let limits = &endpoint.config().limits;
        let (bytes, quota_policy) = (key.bytes(), QuotaPolicy::from(limits));
        let of_source = self.shares.of(quota_policy.source(request.peer));
        self.bytes + bytes <= limits.observer_bytes
            && of_source + bytes <= quota_policy.quota(limits.observer_bytes)
    }

    fn add(
        &mut self,
        endpoint: &Endpoint,
        key: RepresentationKey,
        request: &Request,
        answering: ObservationSource,
        follows: bool,
    ) {
        let source = QuotaPolicy::from(&endpoint.config().limits).source(request.peer);
        let cost = (source, key.bytes());
        self.bytes += cost.1;
        self.shares.add(cost.0, cost.1);
        let subject = Subject(self.next);
        self.next += 1;
        let ObservationSource {
            notifier,
            handler,
            pipeline,
        } = answering;
        let mut request = request.clone();
        // Entity tags and block sizes of the first requester do not apply to other observers.
        for option in &request.options.clone() {
            if !CacheKey::Observation.has(option.number) {
                request.options.remove(option.number);
            }
        }
        let key = Arc::new(key);
        self.by_key.insert(Arc::clone(&key), subject);
        let of_notifier = self.by_notifier.entry(notifier.id()).or_default();
        of_notifier.insert(subject);
        let view = Representation {
            key,
            notifier,
            request,
            handler,
            pipeline,
            follows,
            state: State::Notified,
            cost,
        };
        self.all.insert(subject, Box::new(view));
    }

    /// Removes a representation without observers.
    pub(super) fn forget(&mut self, subject: Subject) {
        let Some(view) = self.all.remove(&subject) else {
            return;
        };
        self.by_key.remove(&view.key);
        self.bytes -= view.cost.1;
        self.shares.subtract(view.cost.0, view.cost.1);
        let id = view.notifier.id();
        if let Some(all) = self.by_notifier.get_mut(&id) {
            all.remove(&subject);
            if all.is_empty() {
                self.by_notifier.remove(&id);
            }
        }
    }

    /// Handles a change reported by a notifier.
    pub(super) fn changed(&mut self, notifier: &Notifier, changes: &Changes) {
        let Some(subjects) = self.by_notifier.get(&notifier.id()) else {
            return;
        };
        for subject in subjects {
            let Some(view) = self.all.get_mut(subject) else {
                continue;
            };
            if !changes.concern(&view.request) {
                continue;
            }
            match &mut view.state {
                // The running call may have read the state before this change: another one must
                // follow (RFC 7641 4.5).
                State::Running { again } => *again = true,
                // The call to come reads the newest state, so that changes meanwhile need no calls
                // of their own.
                State::Due => {}
                state @ State::Notified => {
                    *state = State::Due;
                    self.due.push_back(*subject);
                }
            }
        }
        self.call_handlers();
    }

    fn call_handlers(&mut self) {
        while self.running < AT_ONCE
            && let Some(subject) = self.due.pop_front()
        {
            let Some(view) = self.all.get_mut(&subject) else {
                continue; // forgotten meanwhile
            };
            view.state = State::Running { again: false };
            self.running += 1;
            let guard = RepresentationGuard {
                completions: self.completions.clone(),
                subject,
                finished: false,
            };
            let (handler, pipeline) = (Arc::clone(&view.handler), view.pipeline.clone());
            let request = view.request.clone();
            // Ended tasks stay in the set until they are taken.
            while self.tasks.try_join_next().is_some() {}
            self.tasks.spawn(async move {
                let answer = |request| handler.call(request);
                guard.finish(pipeline.run(request, answer).await);
            });
        }
    }

    /// Notifies the observers of a representation with its handler's response.
    pub(super) fn notify(
        &mut self,
        endpoint: &mut Endpoint,
        now: Instant,
        subject: Subject,
        mut response: Response,
    ) {
        self.running -= 1;
        if let Some(view) = self.all.get_mut(&subject) {
            let again = view.state == State::Running { again: true };
            // The representation is sent even so: with changes faster than the handler, observers
            // would never get one.
            view.state = if again { State::Due } else { State::Notified };
            if again {
                self.due.push_back(subject);
            }
            let confirmable = view.notifier.is_confirmable();
            let observed = response.options.remove(OptionNumber::OBSERVE);
            if view.follows && !observed {
                endpoint.end_observations(now, subject, &response, confirmable);
            } else if let Err(error) = endpoint.notify(now, subject, &response, confirmable) {
                tracing::error!(%error, "a notification cannot be built");
            }
        }
        self.call_handlers();
    }
}

/// Guard that sends exactly one representation for a call, even if the handler panics.
struct RepresentationGuard {
    completions: Completions,
    subject: Subject,
    finished: bool,
}

impl RepresentationGuard {
    fn finish(mut self, response: Response) {
        self.finished = true;
        // The driver may have stopped; then there is no receiver.
        let _ = self
            .completions
            .send(Completion::Representation(self.subject, response));
    }
}

impl Drop for RepresentationGuard {
    fn drop(&mut self) {
        if !self.finished {
            let _ = self
                .completions
                .send(Completion::Representation(self.subject, FAILED.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::hash::BuildHasher as _;

    use tokio::sync::mpsc;

    use super::*;

    #[test]
    fn keys_that_are_made_to_collide_do_not() {
        // What foldhash hashes to the same whatever its seed, with a number that it does not see.
        let word = 0xc0ac_29b7_c97c_50dd_u64.to_le_bytes();
        let key = |number: u32| {
            let mut request = word.repeat(63);
            request[420..424].copy_from_slice(&number.to_be_bytes());
            RepresentationKey {
                request: request.into(),
                identity: None,
            }
        };
        let representations = ObservedRepresentations::new(mpsc::unbounded_channel().0, 1);
        let hash = |number| representations.by_key.hasher().hash_one(key(number));
        let hashes: BTreeSet<u64> = (0..1_000).map(hash).collect();
        assert_eq!(hashes.len(), 1_000);
    }
}
