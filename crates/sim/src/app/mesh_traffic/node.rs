//! A node that generates messages, and its endpoint.

use std::collections::VecDeque;

use bytes::Bytes;
use carob_cc::time::{Duration, Instant};
use carob_proto::Request;
use carob_proto::codec::Code;
use carob_proto::endpoint::{Config, Endpoint, RequestId, Tracing};

use super::client_stops::StopState;
use super::message::{AppMessage, TrafficClass};
use crate::random::Stream;
use crate::spec::RunSpec;
use crate::spec::mesh_traffic::{Bursts, MeshTraffic, NOTIFICATION_AROUND, POST_AROUND};

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
