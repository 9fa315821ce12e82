//! A node that generates messages, and its endpoint. Bursts are messages that all generators send at the same moments.
//!
//! Fault: clients that stop for good, and go on relaying: an artefact of a testbed (Vallati et al. 2020), no
//! part of CoAP.

use std::collections::VecDeque;

use bytes::Bytes;
use carob_cc::time::{Duration, Instant};
use carob_proto::Request;
use carob_proto::codec::Code;
use carob_proto::endpoint::{Config, Endpoint, RequestConfig, RequestId, Subject, Tracing};

use super::counts::{AppMessage, TrafficClass};
use super::{BURST, GROUP, MeshEngine, MeshNodes, REGISTER_AGAIN, counts, state};
use crate::address::address;
use crate::engine::application::Timer;
use crate::mesh::Node;
use crate::random::Stream;
use crate::spec::mesh_traffic::{
    BurstKind, Bursts, ClientStops, MeshTraffic, NOTIFICATION_AROUND, POST_AROUND,
};
use crate::spec::{RunError, RunSpec};

/// Size of a host's duplicate table: more messages than can arrive within EXCHANGE_LIFETIME.
const DEDUP_MESSAGES: usize = 1_024;
/// Path of the resource that messages are posted to.
const PATH: &str = "m";
/// The messages of a node.
#[derive(Debug)]
pub(super) struct NodeTraffic {
    /// The receiving hosts: for constant traffic, and for bursts.
    pub(super) sink: u32,
    pub(super) burst_sink: u32,
    /// Messages that were not dropped at once.
    numbers: u32,
    open: Vec<Open>,
    waiting: VecDeque<QueuedMessage>,
    /// The last recorded variance of the weak estimator.
    pub(super) rttvar_weak: Option<Duration>,
    /// The stream of the times between messages.
    pub(super) gaps: Stream,
    pub(super) stop: StopState,
}

/// An outstanding message.
#[derive(Debug)]
struct Open {
    request: RequestId,
    to: u32,
    message_id: Option<u16>,
    copies: u8,
    /// The transmission whose response arrived first.
    answered: Option<u8>,
}

/// A queued message.
#[derive(Clone, Copy, Debug)]
pub(super) struct QueuedMessage {
    pub(super) to: u32,
    pub(super) at: Instant,
    pub(super) about: TrafficClass,
}

impl NodeTraffic {
    pub(super) fn new(sink: u32, burst_sink: u32, gaps: Stream, stop: StopState) -> Self {
        Self {
            sink,
            burst_sink,
            numbers: 0,
            open: Vec::new(),
            waiting: VecDeque::new(),
            rttvar_weak: None,
            gaps,
            stop,
        }
    }

    /// Returns whether a message to this host may be sent at once.
    pub(super) fn is_free(&self, to: u32, nstart: usize) -> bool {
        self.open.iter().filter(|open| open.to == to).count() < nstart.max(1)
    }

    /// Removes the first queued message that may be sent.
    pub(super) fn next(&mut self, nstart: usize) -> Option<QueuedMessage> {
        if self.stop.has_stopped() {
            return None;
        }
        let free = |w: &QueuedMessage| self.is_free(w.to, nstart);
        let at = self.waiting.iter().position(free)?;
        self.waiting.remove(at)
    }

    /// Queues a message. Returns false if the queue is full.
    pub(super) fn wait(&mut self, message: QueuedMessage, limit: u16) -> bool {
        let has_room = self.waiting.len() < usize::from(limit);
        if has_room {
            self.waiting.push_back(message);
        }
        has_room
    }

    /// The number of the next message.
    pub(super) fn number(&mut self) -> u32 {
        self.numbers += 1;
        self.numbers - 1
    }

    /// Records an outstanding message.
    pub(super) fn opened(&mut self, request: RequestId, to: u32) {
        self.open.push(Open {
            request,
            to,
            message_id: None,
            copies: 0,
            answered: None,
        });
    }

    /// Counts the transmission of a CON. Returns its number within the exchange, if it is a
    /// request's.
    pub(super) fn copied(&mut self, to: u32, message_id: u16) -> Option<u8> {
        let is_it = |open: &&mut Open| open.to == to && open.message_id == Some(message_id);
        let is_new = |open: &&mut Open| open.to == to && open.message_id.is_none();
        let at = match self.open.iter_mut().find(is_it) {
            Some(open) => open,
            None => self.open.iter_mut().find(is_new)?,
        };
        at.message_id = Some(message_id);
        at.copies = at.copies.saturating_add(1);
        Some(at.copies - 1)
    }

    /// Records the response to a transmission.
    pub(super) fn answer_arrived(&mut self, message_id: u16, copy: u8) {
        let mut open = self.open.iter_mut();
        if let Some(open) = open.find(|open| open.message_id == Some(message_id)) {
            open.answered.get_or_insert(copy);
        }
    }

    /// The request whose message has this ID.
    pub(super) fn request_of(&self, message_id: u16) -> Option<RequestId> {
        let mut open = self.open.iter();
        let open = open.find(|open| open.message_id == Some(message_id))?;
        Some(open.request)
    }

    /// Removes an outstanding message. Returns the number of spurious retransmissions, if it is
    /// known.
    pub(super) fn closed(&mut self, request: RequestId) -> Option<u64> {
        let at = self.open.iter().position(|open| open.request == request)?;
        let open = self.open.swap_remove(at);
        let needed = open.answered.map_or(open.copies, |copy| copy + 1);
        Some(open.copies.saturating_sub(needed).into())
    }

    /// Messages outstanding or queued.
    pub(super) fn unfinished(&self) -> u64 {
        (self.open.len() + self.waiting.len()) as u64
    }
}

/// Format of payloads and options.
#[derive(Clone, Copy, Debug)]
pub(super) struct MessageFormat {
    post: usize,
    notification: usize,
}

impl MessageFormat {
    pub(super) fn of(traffic: &MeshTraffic) -> Self {
        let size = |around: u16| {
            let around = around + u16::from(traffic.token_bytes);
            usize::from(traffic.message_bytes.saturating_sub(around))
        };
        Self {
            post: size(POST_AROUND),
            notification: size(NOTIFICATION_AROUND),
        }
    }

    /// A message as a POST.
    pub(super) fn post(self, made: &AppMessage) -> Request {
        let request = Request::new(Code::POST).with_payload(payload(made, self.post));
        let whole = request.clone().with_path(PATH);
        whole.unwrap_or(request)
    }

    /// A message as a notification's payload.
    pub(super) fn notification(self, made: &AppMessage) -> Bytes {
        payload(made, self.notification)
    }

    /// The initial payload of a resource.
    pub(super) fn empty(self) -> Bytes {
        Bytes::from(vec![0; self.notification])
    }
}

fn payload(made: &AppMessage, bytes: usize) -> Bytes {
    let mut payload = vec![0; bytes];
    made.write(&mut payload);
    Bytes::from(payload)
}

/// The endpoint of host `number`.
pub(super) fn endpoint(spec: &RunSpec, traffic: &MeshTraffic, number: u32) -> Endpoint {
    let mut config = Config::default();
    // Studies let timers grow without limit.
    config.late_copies = true;
    config.controller = spec.measured.controller.choice();
    config.parameters = spec.measured.transmission;
    config.token_length = traffic.token_bytes.into();
    config.limits.dedup_idempotent = DEDUP_MESSAGES;
    config.unconfirmed_max = u16::MAX;
    config.trace = match spec.record.log {
        0 => Tracing::Exchanges,
        _ => Tracing::Everything,
    };
    if traffic.bursts.is_some_and(Bursts::notifies) {
        config.notification_queue = carob_proto::endpoint::NotificationQueue::Queue;
        config.limits.notifications_of_peer = usize::from(traffic.queue).max(1);
        config.limits.notifications = usize::from(traffic.queue).max(1);
    }
    let stream = Stream::indexed(spec.seed, "mesh/endpoint", number);
    Endpoint::new(config, stream)
}

impl MeshNodes {
    /// Generates a burst of messages at a node.
    pub(super) fn burst(&mut self, engine: &mut MeshEngine<'_, '_>, node: Node, bursts: Bursts) {
        let to = self.node(node).map_or(0, |a| a.burst_sink);
        for subject in 0..bursts.messages {
            match bursts.kind {
                BurstKind::Posts => self.generate(engine, node, to, TrafficClass::Burst),
                BurstKind::Notifications => self.notify(engine, node, subject),
            }
        }
        if let Some(every) = bursts.every {
            engine.set_timer(GROUP, engine.now + every, Timer::of(BURST, node.into()));
        }
    }

    /// Sends a notification to the observers of a node.
    fn notify(&mut self, engine: &mut MeshEngine<'_, '_>, node: Node, subject: u16) {
        counts::generated(&mut engine.network.mesh.counts, engine.now, node);
        let endpoint = &mut engine.hosts[usize::from(node)].endpoint;
        let Some(application) = &mut self.nodes[usize::from(node)] else {
            return;
        };
        let made = AppMessage {
            by: node,
            number: application.number(),
            at: engine.now,
            about: TrafficClass::Burst,
        };
        let state = state(self.format.notification(&made));
        let notified = endpoint.notify(engine.now, Subject(subject.into()), &state, false);
        debug_assert!(notified.is_ok(), "the size was checked: {notified:?}");
        engine.drain(self, node.into());
    }

    /// Registers the sinks as observers of all nodes before there is traffic, bypassing the radio.
    pub(super) fn register(&mut self, engine: &mut MeshEngine<'_, '_>) {
        let Some(bursts) = self.traffic.bursts else {
            return;
        };
        let generators = engine.network.mesh.topology.generators.clone();
        for node in generators {
            let Some(sink) = self.node(node).map(|a| a.burst_sink) else {
                continue;
            };
            let host = &mut engine.hosts[sink as usize];
            if host
                .endpoint
                .snapshot(engine.now, address(node.into(), 0))
                .is_some()
            {
                continue; // it was asked
            }
            for subject in 0..bursts.messages {
                request_observation(engine, sink, node, subject);
            }
            engine.drain(self, sink);
        }
    }

    /// A node removed its observer of a resource: the sink notices after a time.
    pub(super) fn on_unobserved(
        &self,
        engine: &mut MeshEngine<'_, '_>,
        node: u32,
        subject: Subject,
    ) {
        let bursts = self.traffic.bursts;
        let Some(time) = bursts.and_then(|bursts| bursts.registers_again) else {
            return;
        };
        let timer = Timer {
            kind: REGISTER_AGAIN,
            subject: node,
            count: subject.0 as u32,
        };
        engine.set_timer(GROUP, engine.now + time, timer);
    }

    /// Registers a sink again, and checks later that it was registered.
    pub(super) fn register_again(&mut self, engine: &mut MeshEngine<'_, '_>, timer: Timer) {
        let node = timer.subject as Node;
        let subject = Subject(timer.count.into());
        let endpoint = &engine.hosts[usize::from(node)].endpoint;
        let sink = self.node(node).map(|a| a.burst_sink);
        let Some(sink) = sink.filter(|_| endpoint.observers(subject) == 0) else {
            return;
        };
        request_observation(engine, sink, node, timer.count as u16);
        engine.drain(self, sink);
        self.on_unobserved(engine, node.into(), subject);
    }
}

/// Requests the observation of a node's resource by a sink.
fn request_observation(engine: &mut MeshEngine<'_, '_>, sink: u32, node: Node, subject: u16) {
    let request = Request::get().with_path(&subject.to_string());
    let mut sending = RequestConfig::default();
    sending.observe = true;
    let to = address(node.into(), 0);
    let request = request.unwrap_or_else(|_| Request::get());
    let asked = engine.hosts[sink as usize]
        .endpoint
        .request(engine.now, to, request, sending);
    if let Err(error) = asked {
        engine.error = Some(RunError::Request(error));
    }
}

/// The state of a client.
#[derive(Debug)]
pub(super) struct StopState {
    stream: Stream,
    answered_at: Option<Instant>,
    has_stopped: bool,
}

impl StopState {
    pub(super) fn new(seed: u64, node: Node) -> Self {
        Self {
            stream: Stream::indexed(seed, "mesh/stop", node.into()),
            answered_at: None,
            has_stopped: false,
        }
    }

    /// Returns whether the client stopped for good.
    pub(super) fn has_stopped(&self) -> bool {
        self.has_stopped
    }

    /// Draws at a response whether the client stops for good. Returns true if it does.
    pub(super) fn on_response(&mut self, now: Instant, stops: ClientStops) -> bool {
        let last = self.answered_at.replace(now);
        let is_soon = last.is_some_and(|last| now.since(last) < stops.within);
        self.has_stopped = is_soon && self.stream.happens(stops.probability);
        self.has_stopped
    }
}
