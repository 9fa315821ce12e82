//! Dispatch of received requests: fixed content is served here, all else by a handler in a task of
//! its own.

use std::net::SocketAddr;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll};

use bytes::Bytes;
use carob_cc::time::Instant;
use carob_proto::Escaped;
use carob_proto::codec::{Code, OptionNumber, Options, Scheme};
use carob_proto::endpoint::{Endpoint, HandlerUsage, IncomingId, Part, Subject};
use carob_proto::message::Response;
use carob_proto::tables::keyed_hash::KeyedState;
use carob_proto::tables::quota::{QuotaPolicy, QuotaTable, Source};
use hashbrown::HashMap;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tracing::{Instrument as _, Span, debug_span};

use super::observers::{ObservationSource, ObservedRepresentations};
use super::pipeline::HandlerPipeline;
use super::plan::{HandlerWork, Immediate, Plan, Planner, Work, addressed};
use super::responder::Responder;
use super::responder::{Completion, Completions, UploadBlock, UploadKey};
use super::router::Router;
use super::{Request, Upload, UploadHandler};
use crate::runtime::{Disposition, MakeService, Service, SessionFacts};
use crate::transport::handshake::PeerIdentity;

static BUSY: LazyLock<Response> = LazyLock::new(|| {
    Response::diagnostic(
        Code::SERVICE_UNAVAILABLE,
        "the limit of concurrent requests was reached",
    )
});
static STOPPING: LazyLock<Response> =
    LazyLock::new(|| Response::diagnostic(Code::SERVICE_UNAVAILABLE, "the server is stopping"));
static LOST_TRACK: LazyLock<Response> = LazyLock::new(|| {
    let text = "earlier blocks of the body are missing";
    Response::diagnostic(Code::REQUEST_ENTITY_INCOMPLETE, text)
});

/// Factory of the [`Dispatcher`] of each endpoint of a server.
pub(super) struct Dispatch {
    pub(super) router: Arc<Router>,
    /// Limit on concurrent handlers of each endpoint.
    pub(super) handlers: usize,
}

impl MakeService for Dispatch {
    fn make(
        &self,
        endpoint: &mut Endpoint,
        scheme: Scheme,
        local: SocketAddr,
        seed: u64,
    ) -> Box<dyn Service> {
        if self.router.has_uploads() {
            endpoint.deliver_by(self.router.delivery());
        }
        let router = Arc::clone(&self.router);
        Box::new(Dispatcher::new(
            router,
            self.handlers,
            (scheme, local),
            seed,
        ))
    }
}

/// The handlers of one endpoint, and the queue of their completions.
pub(super) struct Dispatcher {
    router: Arc<Router>,
    completions: Completions,
    queue: mpsc::UnboundedReceiver<Completion>,
    /// Taken from the queue while waiting.
    next: Option<Completion>,
    /// Limit on concurrent handlers; above it, requests are answered 5.03.
    limit: usize,
    active: usize,
    /// Handlers were started since [`Service::has_begun`].
    begun: bool,
    /// Handlers of each source.
    shares: QuotaTable,
    tasks: JoinSet<()>,
    /// Streamed bodies in progress, each with a handler; so `limit` bounds them.
    uploads: HashMap<UploadKey, mpsc::Sender<UploadBlock>, KeyedState>,
    stopping: bool,
    /// The transport and address at which requests arrive.
    place: (Scheme, SocketAddr),
    path: Vec<u8>,
    representations: ObservedRepresentations,
}

impl Dispatcher {
    pub(super) fn new(
        router: Arc<Router>,
        limit: usize,
        place: (Scheme, SocketAddr),
        seed: u64,
    ) -> Self {
        let (completions, queue) = mpsc::unbounded_channel();
        for notifier in router.notifiers() {
            notifier.attach(&completions);
        }
        Self {
            representations: ObservedRepresentations::new(completions.clone(), seed),
            router,
            completions,
            queue,
            next: None,
            limit,
            active: 0,
            begun: false,
            shares: QuotaTable::new(seed.rotate_left(8)),
            tasks: JoinSet::new(),
            uploads: HashMap::with_hasher(KeyedState::with_seed(seed)),
            stopping: false,
            place,
            path: Vec::new(),
        }
    }

    fn handler_done(&mut self, of: Source, upload: Option<UploadKey>) {
        self.active -= 1;
        self.shares.subtract(of, 1);
        if let Some(key) = upload
            // A newer upload may have replaced it.
            && self.uploads.get(&key).is_some_and(mpsc::Sender::is_closed)
        {
            self.uploads.remove(&key);
        }
    }

    /// Finds the handler of a request. Returns `None` if the request is answered without one.
    fn plan(
        &mut self,
        endpoint: &mut Endpoint,
        now: Instant,
        id: IncomingId,
        sessions: Option<(usize, usize)>,
    ) -> Option<Plan> {
        let planner = Planner {
            router: &self.router,
            local: self.place.1,
            handlers: (self.active, self.limit),
            sessions,
        };
        let incoming = endpoint.incoming(id)?;
        match planner.plan(endpoint, now, &incoming, &mut self.path) {
            Ok(plan) => return Some(plan),
            Err(Immediate::Fixed(response)) => endpoint.respond(now, id, response),
            Err(Immediate::Made(response)) => endpoint.respond(now, id, &response),
            Err(Immediate::Challenge) => endpoint.challenge(now, id),
        }
        None
    }

    fn responder(&self, id: IncomingId, source: Source, upload: Option<UploadKey>) -> Responder {
        let (completions, scheme) = (self.completions.clone(), self.place.0);
        Responder::new(completions, scheme, id, source, upload)
    }

    /// Starts the handler of a request whose body is complete.
    fn run_handler(
        &mut self,
        endpoint: &mut Endpoint,
        now: Instant,
        id: IncomingId,
        request: Request,
        pipeline: HandlerPipeline,
        work: HandlerWork,
    ) {
        let HandlerWork {
            handler,
            observed,
            follow,
        } = work;
        if let Some((notifier, pipeline)) = observed {
            let source = || ObservationSource {
                notifier,
                handler: Arc::clone(&handler),
                pipeline,
            };
            self.representations
                .observe(endpoint, now, id, &request, source);
        }
        let source = QuotaPolicy::from(&endpoint.config().limits).source(request.peer);
        let responder = self.responder(id, source, None);
        let Some(follow) = follow else {
            return self.spawn(source, async move {
                let answer = |request| handler.call(request);
                let span = span_of(&request);
                responder.respond(pipeline.run(request, answer).instrument(span).await);
            });
        };
        let representations = &mut self.representations;
        let followed = representations.follow(endpoint, now, id, &request, &*follow);
        let (listed, completions) = (followed.is_some(), self.completions.clone());
        let handler = followed.unwrap_or(handler);
        self.spawn(source, async move {
            let answer = |request| handler.call(request);
            let span = span_of(&request);
            let mut response = pipeline.run(request, answer).instrument(span).await;
            // The option of the origin is not the one of this hop: the engine sets its own (RFC
            // 7641 5).
            let observed = response.options.remove(OptionNumber::OBSERVE);
            if listed && !observed {
                // The task may have stopped; then there are no observers.
                let _ = completions.send(Completion::Unobserve(id));
            }
            responder.respond(response);
        });
    }

    /// Starts the handler of a request whose body arrives block by block.
    fn run_upload(
        &mut self,
        endpoint: &Endpoint,
        id: IncomingId,
        mut request: Request,
        pipeline: HandlerPipeline,
        (handler, part, key): (Arc<dyn UploadHandler>, Option<Part>, UploadKey),
    ) {
        let bytes = std::mem::take(&mut request.payload);
        let more = part.is_some_and(|part| part.more);
        // One block at a time: the next one follows the response to this one.
        let (sender, blocks) = mpsc::channel(1);
        if more {
            if self.uploads.len() >= self.limit {
                self.uploads.retain(|_, blocks| !blocks.is_closed());
            }
            // A restart of the same body ends the earlier transfer.
            self.uploads.insert(key.clone(), sender);
        }
        let source = QuotaPolicy::from(&endpoint.config().limits).source(request.peer);
        let responder = self.responder(id, source, more.then_some(key));
        let lifetime = endpoint.config().parameters.exchange_lifetime().into();
        let first = UploadBlock { id, bytes, more };
        let (current, completions) = (Arc::clone(&responder.current), self.completions.clone());
        let upload = Upload::new(first, blocks, current, completions, lifetime);
        self.spawn(source, async move {
            let answer = |request| handler.call(request, upload);
            let span = span_of(&request);
            responder.respond(pipeline.run(request, answer).instrument(span).await);
        });
    }

    /// Returns the request for a handler, if the limits admit another handler.
    fn admit(
        &self,
        endpoint: &mut Endpoint,
        now: Instant,
        id: IncomingId,
        identity: Option<Arc<PeerIdentity>>,
        plan: &Plan,
    ) -> Option<Request> {
        let from = endpoint.incoming(id)?.from;
        let source = QuotaPolicy::from(&endpoint.config().limits).source(from);
        let handlers = HandlerUsage {
            running: self.active,
            of_source: self.shares.of(source),
            limit: self.limit,
        };
        // Before the request is copied: a flood must not cost an allocation each.
        if !endpoint.admits_handler(now, id, handlers) {
            return None;
        }
        let incoming = endpoint.incoming(id)?;
        let options = match &plan.own {
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
            route: Arc::clone(&plan.route),
            identity,
        })
    }

    fn spawn(&mut self, of: Source, task: impl Future<Output = ()> + Send + 'static) {
        // Without this, the set would keep the results of all tasks that have ended.
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
        match parts.try_send(UploadBlock { id, bytes, more }) {
            Ok(()) => {
                if !more {
                    self.uploads.remove(&key);
                }
            }
            // The client sends the next block before the response to the last one: one of them
            // waits already.
            Err(mpsc::error::TrySendError::Full(_)) => refuse_for_now(endpoint, now, id, &BUSY),
            Err(mpsc::error::TrySendError::Closed(_)) => {
                self.uploads.remove(&key);
                endpoint.respond(now, id, &LOST_TRACK);
            }
        }
    }
}

impl Service for Dispatcher {
    fn on_request(
        &mut self,
        endpoint: &mut Endpoint,
        now: Instant,
        id: IncomingId,
        session: SessionFacts,
    ) -> Disposition {
        let Some(incoming) = endpoint.incoming(id) else {
            return Disposition::Answered;
        };
        if incoming.part.is_some_and(|part| part.offset > 0) {
            self.continue_upload(endpoint, now, id);
            return Disposition::Pending;
        }
        if self.stopping {
            refuse_for_now(endpoint, now, id, &STOPPING);
            return Disposition::Answered;
        }
        let Some(plan) = self.plan(endpoint, now, id, session.sessions) else {
            return Disposition::Answered;
        };
        let Some(request) = self.admit(endpoint, now, id, session.identity, &plan) else {
            return Disposition::Answered;
        };
        let Plan { work, pipeline, .. } = plan;
        match work {
            Work::Handler(work) => {
                self.run_handler(endpoint, now, id, request, pipeline, work);
            }
            Work::Upload { handler, part, key } => {
                self.run_upload(endpoint, id, request, pipeline, (handler, part, key));
            }
        }
        Disposition::Pending
    }

    fn on_unobserved(&mut self, subject: Subject) {
        self.representations.forget(subject);
    }

    /// Drops the uploads of an ended session: blocks of one body must arrive in one session.
    #[cfg(feature = "dtls")]
    fn on_session_ended(&mut self, peer: SocketAddr) {
        self.uploads.retain(|key, _| key.peer != peer);
    }

    fn poll_completion(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.next.is_some() {
            return Poll::Ready(());
        }
        // It is never closed: the sender is held here, too.
        self.queue.poll_recv(context).map(|next| self.next = next)
    }

    fn complete_next(&mut self, endpoint: &mut Endpoint, now: Instant) -> bool {
        let next = self.next.take();
        let Some(completion) = next.or_else(|| self.queue.try_recv().ok()) else {
            return false;
        };
        match completion {
            Completion::Respond(id, response) => endpoint.respond(now, id, &response),
            Completion::Unobserve(id) => endpoint.unobserve(now, id),
            Completion::Changed(notifier, place) => {
                if let Some(changes) = notifier.take(place) {
                    self.representations.changed(&notifier, &changes);
                }
            }
            Completion::Representation(subject, response) => {
                self.representations
                    .notify(endpoint, now, subject, response);
            }
            Completion::HandlerDone(source, upload) => self.handler_done(source, upload),
        }
        true
    }

    fn completions(&self) -> usize {
        self.queue.len() + usize::from(self.next.is_some())
    }

    fn has_begun(&mut self) -> bool {
        std::mem::take(&mut self.begun)
    }

    fn load(&self) -> (usize, usize) {
        (self.active, self.limit)
    }

    fn stop(&mut self) {
        self.stopping = true;
    }
}

/// Answers a request 5.03, with the time of the next attempt as Max-Age.
fn refuse_for_now(endpoint: &mut Endpoint, now: Instant, id: IncomingId, response: &Response) {
    let later = endpoint.retry_time(id).into();
    endpoint.respond(now, id, &response.clone().with_max_age(later));
}

/// The span in which a request is handled: target `carob::request`, level debug.
fn span_of(request: &Request) -> Span {
    let path = || {
        let segments = request.segments();
        segments.fold(String::new(), |path, segment| {
            path + "/" + &Escaped(segment).to_string()
        })
    };
    let method = request.method();
    let method = method.name().unwrap_or("unknown");
    if tracing::enabled!(target: "carob::request", tracing::Level::DEBUG) {
        debug_span!(target: "carob::request", "request", peer = %request.peer(), method, path = path())
    } else {
        Span::none()
    }
}
