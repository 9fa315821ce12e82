//! What is above IPv6 on a node: an endpoint of the stack, and the application that makes messages.

use std::collections::VecDeque;

use bytes::Bytes;
use carob_cc::time::{Duration, Instant};
use carob_proto::Request;
use carob_proto::codec::Code;
use carob_proto::endpoint::{Config, Endpoint, RequestId, Tracing};

use super::message::{About, Made};
use super::spec::{BurstKind, MeshSpec, Traffic};
use crate::alarm::Alarm;
use crate::random::Stream;
use crate::spec::RunSpec;

/// Messages that a host remembers to know duplicates by: more than come within the time that
/// copies of one may arrive in.
const REMEMBERED: usize = 1_024;
/// Path of what messages are posted to.
const PATH: &str = "m";
/// Bytes of a POST in front of its payload, the token apart.
const POST_AROUND: u16 = 4 + 2 + 1;
/// Bytes of a notification in front of its payload, the token apart: Observe of three bytes,
/// Max-Age of two.
const NOTIFICATION_AROUND: u16 = 4 + 4 + 3 + 1;

/// An endpoint, and what is done with it.
#[derive(Debug)]
pub(super) struct Host {
    pub(super) endpoint: Endpoint,
    pub(super) alarm: Alarm,
    /// Of those that make messages.
    pub(super) application: Option<Box<Application>>,
}

/// What makes messages.
#[derive(Debug, Default)]
pub(super) struct Application {
    /// The hosts that it sends to: for constant traffic, and for bursts.
    pub(super) sink: u32,
    pub(super) burst_sink: u32,
    /// Messages that were not dropped at once.
    numbers: u32,
    open: Vec<Open>,
    waiting: VecDeque<Waiting>,
    /// The last value of the weak estimator's variance that was noted.
    pub(super) rttvar_weak: Option<Duration>,
}

/// A message under way.
#[derive(Debug)]
struct Open {
    request: RequestId,
    to: u32,
    message_id: Option<u16>,
    copies: u8,
    /// The copy whose answer arrived first.
    answered: Option<u8>,
}

/// A message that waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub(super) to: u32,
    pub(super) at: Instant,
    pub(super) about: About,
}

impl Application {
    pub(super) fn new(sink: u32, burst_sink: u32) -> Self {
        Self {
            sink,
            burst_sink,
            ..Self::default()
        }
    }

    /// Whether a message to this host may leave at once.
    pub(super) fn is_free(&self, to: u32, nstart: usize) -> bool {
        self.open.iter().filter(|open| open.to == to).count() < nstart.max(1)
    }

    /// Takes the first waiting message that may leave.
    pub(super) fn next(&mut self, nstart: usize) -> Option<Waiting> {
        let free = |w: &Waiting| self.is_free(w.to, nstart);
        let at = self.waiting.iter().position(free)?;
        self.waiting.remove(at)
    }

    /// Lets a message wait; whether there was room.
    pub(super) fn wait(&mut self, message: Waiting, limit: u16) -> bool {
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

    /// A message is under way.
    pub(super) fn opened(&mut self, request: RequestId, to: u32) {
        self.open.push(Open {
            request,
            to,
            message_id: None,
            copies: 0,
            answered: None,
        });
    }

    /// A copy of a CON leaves; which copy of which exchange, if it is a request's.
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

    /// The answer to a copy has arrived.
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

    /// A message is under way no more. How many copies were sent although an earlier one was
    /// answered, if it was known.
    pub(super) fn closed(&mut self, request: RequestId) -> Option<u64> {
        let at = self.open.iter().position(|open| open.request == request)?;
        let open = self.open.swap_remove(at);
        let needed = open.answered.map_or(open.copies, |copy| copy + 1);
        Some(open.copies.saturating_sub(needed).into())
    }

    /// Messages under way or waiting.
    pub(super) fn unfinished(&self) -> u64 {
        (self.open.len() + self.waiting.len()) as u64
    }
}

/// Payloads and options as messages have them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Form {
    post: usize,
    notification: usize,
}

impl Form {
    pub(super) fn of(traffic: &Traffic) -> Self {
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
    pub(super) fn post(self, made: &Made) -> Request {
        let request = Request::new(Code::POST).with_payload(said(made, self.post));
        let whole = request.clone().with_path(PATH);
        whole.unwrap_or(request)
    }

    /// A message as a notification's payload.
    pub(super) fn told(self, made: &Made) -> Bytes {
        said(made, self.notification)
    }

    /// The payload of a resource of which nothing was told yet.
    pub(super) fn nothing(self) -> Bytes {
        Bytes::from(vec![0; self.notification])
    }
}

fn said(made: &Made, bytes: usize) -> Bytes {
    let mut payload = vec![0; bytes];
    made.write(&mut payload);
    Bytes::from(payload)
}

/// The endpoint of host `number`.
pub(super) fn endpoint(spec: &RunSpec, mesh: &MeshSpec, number: u32) -> Endpoint {
    let mut config = Config::default();
    // Studies let timers run as long as they will.
    config.late_copies = true;
    config.controller = spec.controller.choice();
    config.parameters = spec.transmission;
    config.token_length = mesh.traffic.token_bytes.into();
    config.limits.recent = REMEMBERED;
    config.unconfirmed_max = u16::MAX;
    config.trace = match spec.record.log {
        0 => Tracing::Exchanges,
        _ => Tracing::Everything,
    };
    let is_told = |kind: BurstKind| kind == BurstKind::Notifications;
    if mesh
        .traffic
        .bursts
        .is_some_and(|bursts| is_told(bursts.kind))
    {
        config.notification_queue = carob_proto::endpoint::NotificationQueue::Queue;
        config.limits.notifications_of_peer = usize::from(mesh.node.queue).max(1);
        config.limits.notifications = usize::from(mesh.node.queue).max(1);
    }
    let stream = Stream::indexed(spec.seed, "mesh/endpoint", number);
    Endpoint::new(config, stream)
}
