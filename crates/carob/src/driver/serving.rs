//! Requests received: fixed content is answered here, everything else by a task of its own.

use std::net::SocketAddr;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use bytes::Bytes;
use carob_cc::time::Instant;
use carob_proto::codec::{
    CacheKey, Code, MessageView, OptionNumber, Options, OptionsError, Scheme, Uri,
};
use carob_proto::endpoint::{Endpoint, Incoming, IncomingId};
use carob_proto::keyed_hash::KeyedState;
use carob_proto::message::Response;
use carob_proto::shares::{Shares, Source};
use hashbrown::HashMap;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tracing::{Instrument as _, Span, debug_span};

use super::Note;
use super::published::Stopwatch;
use super::views::{Answering, Views};
use crate::dtls::PeerIdentity;
use crate::server::{
    Action, Asked, Forwarded, Frame, Health, METHOD_NOT_ALLOWED, Pattern, Request, Router, Upload,
};

pub(super) static NOT_FOUND: LazyLock<Response> =
    LazyLock::new(|| Response::diagnostic(Code::NOT_FOUND, "no such resource"));
pub(super) static NO_SERVER: LazyLock<Response> =
    LazyLock::new(|| Response::diagnostic(Code::NOT_IMPLEMENTED, "no server is here"));
static BUSY: LazyLock<Response> = LazyLock::new(|| {
    Response::diagnostic(
        Code::SERVICE_UNAVAILABLE,
        "as many requests as may be are being handled",
    )
});
static STOPPING: LazyLock<Response> =
    LazyLock::new(|| Response::diagnostic(Code::SERVICE_UNAVAILABLE, "the server is stopping"));
pub(super) static FAILED: LazyLock<Response> =
    LazyLock::new(|| Response::new(Code::INTERNAL_SERVER_ERROR));
static LOST_TRACK: LazyLock<Response> = LazyLock::new(|| {
    let text = "the blocks before this one are not here";
    Response::diagnostic(Code::REQUEST_ENTITY_INCOMPLETE, text)
});

/// The key of the blocks of one streamed body: the same as the engine's for what it puts together.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct UploadKey {
    peer: SocketAddr,
    bytes: Box<[u8]>,
}

/// When a request is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// It has been.
    Now,
    /// By a handler, later.
    Later,
}

/// One block of a streamed body.
#[derive(Debug)]
pub(crate) struct PartOf {
    pub(crate) id: IncomingId,
    pub(crate) bytes: Bytes,
    pub(crate) more: bool,
}

/// The server's side of a driver.
pub(super) struct Serving {
    router: Arc<Router>,
    notes: mpsc::UnboundedSender<Note>,
    /// Handlers that may run at once; beyond, requests are answered 5.03.
    limit: usize,
    active: usize,
    /// There are new ones.
    begun: bool,
    /// How many of them each source has.
    shares: Shares,
    tasks: JoinSet<()>,
    /// Streamed bodies on their way in, each with a handler; so `limit` bounds them.
    uploads: HashMap<UploadKey, mpsc::Sender<PartOf>, KeyedState>,
    stopping: bool,
    /// Where requests arrive, and how.
    place: (Scheme, SocketAddr),
    path: Vec<u8>,
    /// Who sends the request at hand, if it is known by more than its address.
    pub(super) identity: Option<Arc<PeerIdentity>>,
    pub(super) views: Views,
}

impl Serving {
    pub(super) fn new(
        router: Arc<Router>,
        limit: usize,
        notes: mpsc::UnboundedSender<Note>,
        place: (Scheme, SocketAddr),
        seed: u64,
    ) -> Self {
        for notifier in router.notifiers() {
            notifier.attach(&notes);
        }
        Self {
            views: Views::new(notes.clone(), seed),
            router,
            notes,
            limit,
            active: 0,
            begun: false,
            shares: Shares::new(seed.rotate_left(8)),
            tasks: JoinSet::new(),
            uploads: HashMap::with_hasher(KeyedState::with_seed(seed)),
            stopping: false,
            place,
            path: Vec::new(),
            identity: None,
        }
    }

    /// Ends the bodies that this peer was sending: whoever goes on is not who began.
    pub(super) fn forget_uploads(&mut self, peer: SocketAddr) {
        self.uploads.retain(|key, _| key.peer != peer);
    }

    /// Handlers running.
    pub(super) fn active(&self) -> usize {
        self.active
    }

    /// Whether handlers have been begun since this was asked last.
    pub(super) fn has_begun(&mut self) -> bool {
        core::mem::take(&mut self.begun)
    }

    /// Handlers running, and how many may.
    pub(super) fn load(&self) -> (usize, usize) {
        (self.active, self.limit)
    }

    /// Takes no new requests from now on.
    pub(super) fn stop(&mut self) {
        self.stopping = true;
    }

    pub(super) fn handler_done(&mut self, of: Source, upload: Option<UploadKey>) {
        self.active -= 1;
        self.shares.subtract(of, 1);
        if let Some(key) = upload
            // A newer upload may have taken the place.
            && self.uploads.get(&key).is_some_and(mpsc::Sender::is_closed)
        {
            self.uploads.remove(&key);
        }
    }

    /// Answers a request, or has it answered.
    pub(super) fn take(&mut self, endpoint: &mut Endpoint, now: Instant, id: IncomingId) -> Answer {
        let Some(incoming) = endpoint.incoming(id) else {
            return Answer::Now;
        };
        let continues = incoming.part.is_some_and(|part| part.offset > 0);
        if continues {
            self.continue_upload(endpoint, now, id);
            return Answer::Later;
        }
        if self.stopping {
            refuse_for_now(endpoint, now, id, &STOPPING);
            return Answer::Now;
        }
        let asked = Asked::read(&incoming.message, &mut self.path);
        let mut own = None;
        let route = match self.router.forward() {
            None => self.router.find(&self.path),
            Some(forward) => match forward.asked(&incoming.message, self.place.1) {
                Ok(Some(Forwarded::Elsewhere(route))) => Some(route),
                Ok(Some(Forwarded::Own(uri))) => {
                    self.path.clear();
                    for segment in uri.path() {
                        Router::push_segment(&mut self.path, segment.as_bytes());
                    }
                    own = Some(uri);
                    self.router.find(&self.path)
                }
                Ok(None) => self.router.find(&self.path),
                Err(refusal) => {
                    endpoint.respond(now, id, &refusal);
                    return Answer::Now;
                }
            },
        };
        if let Some(route) = route
            && self.router.forward().is_some()
            && route.resource.follow().is_none()
            && let Some(number) = endpoint.not_to_be_overlooked(&incoming.message)
        {
            // The engine has let it through for who would pass it on.
            let text = format!("option {} is not understood", number.0);
            let response = Response::diagnostic(Code::BAD_OPTION, &text);
            endpoint.respond(now, id, &response);
            return Answer::Now;
        }
        let Some(route) = route else {
            // A method that nobody knows is not allowed wherever it goes (RFC 7252 5.8).
            let known = incoming.message.code().name().is_some();
            let response = if known {
                &NOT_FOUND
            } else {
                &METHOD_NOT_ALLOWED
            };
            endpoint.respond(now, id, response);
            return Answer::Now;
        };
        if route.resource.must_be_fresh(incoming.message.code()) && !incoming.fresh {
            endpoint.challenge(now, id);
            return Answer::Now;
        }
        let offer = match route.resource.choose(&incoming.message, &asked) {
            Ok(offer) => offer,
            Err(refusal) => {
                endpoint.respond(now, id, refusal);
                return Answer::Now;
            }
        };
        let frame = Frame::new(&route.resource, offer, &asked);
        match &offer.action {
            Action::Fixed(fixed) => {
                endpoint.respond(now, id, fixed.answer(&incoming.message, &asked));
                return Answer::Now;
            }
            Action::Health(format) => {
                let health = Health::of(endpoint, now, self.load());
                endpoint.respond(now, id, &health.answer(*format));
                return Answer::Now;
            }
            Action::Handler(handler) => {
                let handler = Arc::clone(handler);
                // Conditions and entity tags are of one request, not of all that observe.
                let observed = route.resource.notifier().map(|notifier| {
                    let frame = Frame::new(&route.resource, offer, &Asked::default());
                    (notifier.clone(), frame)
                });
                let follow = route.resource.follow().cloned();
                let route = Arc::clone(&route.pattern);
                let Some(request) = self.admit(endpoint, now, id, route, own.as_ref()) else {
                    return Answer::Now;
                };
                if let Some((notifier, frame)) = observed {
                    let view = || Answering {
                        notifier,
                        handler: Arc::clone(&handler),
                        frame,
                    };
                    self.views.observe(endpoint, now, id, &request, view);
                }
                let source = endpoint.config().limits.sharing().source(request.peer);
                let responder = Responder::new(self, id, source, None);
                if let Some(follow) = follow {
                    let views = &mut self.views;
                    let followed = views.follow(endpoint, now, id, &request, &*follow);
                    let (listed, notes) = (followed.is_some(), self.notes.clone());
                    let handler = followed.unwrap_or(handler);
                    self.spawn(source, async move {
                        let answer = |request| handler.call(request);
                        let span = span_of(&request);
                        let mut response = frame.run(request, answer).instrument(span).await;
                        let observed = response.options.remove(OptionNumber::OBSERVE);
                        if listed && !observed {
                            // The driver may have stopped; then nobody observes.
                            let _ = notes.send(Note::Unobserve(id));
                        }
                        responder.respond(response);
                    });
                    return Answer::Later;
                }
                self.spawn(source, async move {
                    let answer = |request| handler.call(request);
                    let span = span_of(&request);
                    responder.respond(frame.run(request, answer).instrument(span).await);
                });
            }
            Action::Upload(handler) => {
                let (handler, route) = (Arc::clone(handler), Arc::clone(&route.pattern));
                let part = incoming.part;
                let key = UploadKey::of(&incoming);
                let Some(mut request) = self.admit(endpoint, now, id, route, own.as_ref()) else {
                    return Answer::Now;
                };
                let bytes = core::mem::take(&mut request.payload);
                let more = part.is_some_and(|part| part.more);
                // One block at a time: the next comes when this one is answered.
                let (sender, parts) = mpsc::channel(1);
                if more {
                    if self.uploads.len() >= self.limit {
                        self.uploads.retain(|_, parts| !parts.is_closed());
                    }
                    // A new beginning of the same body ends the one before.
                    self.uploads.insert(key.clone(), sender);
                }
                let source = endpoint.config().limits.sharing().source(request.peer);
                let upload = more.then_some(key);
                let responder = Responder::new(self, id, source, upload);
                let lifetime = endpoint.config().parameters.exchange_lifetime().into();
                let first = PartOf { id, bytes, more };
                let (current, notes) = (Arc::clone(&responder.current), self.notes.clone());
                let upload = Upload::new(first, parts, current, notes, lifetime);
                self.spawn(source, async move {
                    let answer = |request| handler.call(request, upload);
                    let span = span_of(&request);
                    responder.respond(frame.run(request, answer).instrument(span).await);
                });
            }
        }
        Answer::Later
    }

    /// The request as a handler gets it, if there may be another handler.
    fn admit(
        &self,
        endpoint: &mut Endpoint,
        now: Instant,
        id: IncomingId,
        route: Arc<Pattern>,
        own: Option<&Uri>,
    ) -> Option<Request> {
        let from = endpoint.incoming(id)?.from;
        let sharing = endpoint.config().limits.sharing();
        let of_source = self.shares.of(sharing.source(from));
        if self.active >= self.limit || of_source >= sharing.most(self.limit) {
            refuse_for_now(endpoint, now, id, &BUSY);
            return None;
        }
        if sharing.is_pressed(self.active, self.limit) && !endpoint.has_shown(now, from) {
            endpoint.challenge(now, id);
            return None;
        }
        let incoming = endpoint.incoming(id)?;
        let options = match own {
            None => Options::from_view(&incoming.message),
            Some(uri) => addressed(&incoming.message, uri),
        };
        let Ok(options) = options else {
            let text = "the options are too long";
            endpoint.respond(now, id, &Response::diagnostic(Code::BAD_REQUEST, text));
            return None;
        };
        let body = endpoint.incoming_body(id);
        Some(Request {
            method: incoming.message.code(),
            options,
            payload: body.unwrap_or_else(|| Bytes::copy_from_slice(incoming.body)),
            peer: incoming.from,
            scheme: self.place.0,
            wanted: incoming.wanted,
            to_group: incoming.to_group,
            route,
            identity: self.identity.clone(),
        })
    }

    fn spawn(&mut self, of: Source, task: impl Future<Output = ()> + Send + 'static) {
        while self.tasks.try_join_next().is_some() {}
        self.active += 1;
        self.begun = true;
        self.shares.add(of, 1);
        self.tasks.spawn(task);
    }

    fn continue_upload(&mut self, endpoint: &mut Endpoint, now: Instant, id: IncomingId) {
        let Some(incoming) = endpoint.incoming(id) else {
            return;
        };
        let key = UploadKey::of(&incoming);
        let more = incoming.part.is_some_and(|part| part.more);
        let bytes = Bytes::copy_from_slice(incoming.body);
        let Some(parts) = self.uploads.get(&key) else {
            return endpoint.respond(now, id, &LOST_TRACK);
        };
        match parts.try_send(PartOf { id, bytes, more }) {
            Ok(()) => {
                if !more {
                    self.uploads.remove(&key);
                }
            }
            Err(mpsc::error::TrySendError::Full(_)) => refuse_for_now(endpoint, now, id, &BUSY),
            Err(mpsc::error::TrySendError::Closed(_)) => {
                self.uploads.remove(&key);
                endpoint.respond(now, id, &LOST_TRACK);
            }
        }
    }
}

/// Answers a request 5.03, and says when to try again.
fn refuse_for_now(endpoint: &mut Endpoint, now: Instant, id: IncomingId, response: &Response) {
    let later = endpoint.retry_time(id).into();
    endpoint.respond(now, id, &response.clone().with_max_age(later));
}

/// The options of a request for a proxy that this server answers itself: as if it had been asked
/// directly (RFC 7252 5.7.2).
fn addressed(message: &MessageView<'_>, uri: &Uri) -> Result<Options, OptionsError> {
    let mut options = uri.options().clone();
    for option in message.options() {
        if !option.number.is_of_uri() {
            options.push(option.number, option.value)?;
        }
    }
    Ok(options)
}

/// The span in which a request is handled: target `carob::request`, level debug.
fn span_of(request: &Request) -> Span {
    let path = request.segments().map(String::from_utf8_lossy);
    let path = || path.fold(String::new(), |path, segment| path + "/" + &segment);
    let method = request.method();
    let method = method.name().unwrap_or("unknown");
    if tracing::enabled!(target: "carob::request", tracing::Level::DEBUG) {
        debug_span!(target: "carob::request", "request", peer = %request.peer(), method, path = path())
    } else {
        Span::none()
    }
}

impl UploadKey {
    fn of(incoming: &Incoming<'_>) -> Self {
        Self {
            peer: incoming.from,
            bytes: CacheKey::of_transfer(&incoming.message).into(),
        }
    }
}

/// Sees to it that a request is answered exactly once, even by a handler that panics.
struct Responder {
    notes: mpsc::UnboundedSender<Note>,
    /// The request to be answered: with a streamed body, that of the latest block.
    current: Arc<Mutex<Option<IncomingId>>>,
    source: Source,
    upload: Option<UploadKey>,
    stopwatch: Stopwatch,
}

impl Responder {
    fn new(serving: &Serving, id: IncomingId, source: Source, upload: Option<UploadKey>) -> Self {
        Self {
            notes: serving.notes.clone(),
            stopwatch: Stopwatch::start(serving.place.0.name()),
            current: Arc::new(Mutex::new(Some(id))),
            source,
            upload,
        }
    }

    fn answer(&self, response: Response) {
        let current = self
            .current
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(id) = current {
            self.stopwatch.stop();
            // The driver may have stopped; then there is nobody to answer.
            let _ = self.notes.send(Note::Respond(id, response));
        }
    }

    fn respond(self, response: Response) {
        self.answer(response);
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        // Still unanswered: the handler panicked.
        self.answer(FAILED.clone());
        let _ = (self.notes).send(Note::HandlerDone(self.source, self.upload.take()));
    }
}
