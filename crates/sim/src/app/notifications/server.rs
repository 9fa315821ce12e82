//! A notifying server and its subscribers.

use bytes::Bytes;
use carob_cc::controller::Gauge;
use carob_cc::time::{Duration, Instant};
use carob_proto::codec::{Code, MessageView, OptionNumber};
use carob_proto::endpoint::{
    Config, Endpoint, Event, IncomingId, RequestConfig, RequestId, Subject, Tracing,
};
use carob_proto::message::Payload;
use carob_proto::prefix::Prefix;
use carob_proto::{Request, Response};

use super::counts::Counts;
use crate::address::{address, number_of};
use crate::engine::application::{Application, Endpoints, Timer};
use crate::engine::network::{Network, Offer, Placement};
use crate::engine::{Engine, Tag};
use crate::random::Stream;
use crate::spec::groups::Group;
use crate::spec::notifications::{ConfigError, Notifications};
use crate::spec::{RunError, RunRecord, RunSpec};
use crate::trace::NO_ITEM;
use crate::trace::SimEvent;

/// Size of a host's duplicate table: more messages than can arrive within EXCHANGE_LIFETIME, and
/// few enough for many clients and hours.
const REMEMBERED: usize = 1_024;

/// The round of a payload before the first round.
const NO_ROUND: u32 = 0;

/// A client registers as observer; the subject is the client.
const REGISTER: u8 = 0;
/// The warm-up is over.
const BEGIN: u8 = 1;
/// A round, whose number is the count: of all clients, or of the subject's alone.
const ROUND: u8 = 2;
/// A bin ends.
const BIN_ENDS: u8 = 3;
/// The subject of a round of all clients.
const EVERY_CLIENT: u32 = u32::MAX;

/// The timer of a round of all clients, or of one.
fn round(of: Option<u32>, number: u32) -> Timer {
    Timer {
        kind: ROUND,
        subject: of.unwrap_or(EVERY_CLIENT),
        count: number,
    }
}

/// The server and its subscribers, which are numbered from 0 here.
pub(crate) struct Notifier {
    workload: Notifications,
    group: u16,
    /// The host of the first client.
    first: u32,
    clients: u32,
    server: u32,
    ready: Instant,
    /// The end of the warm-up.
    begin: Instant,
    ack_timeout: Duration,
    /// Each client's observations, by resource, each with the last round received.
    observed: Vec<Vec<(RequestId, u32)>>,
    /// Item and transmission of the last message to each client, and of each client's own.
    last_sent: Vec<(u32, u8)>,
    last_of_client: Vec<(u32, u8)>,
    /// Time of each client's first round; none if all clients have common rounds.
    offsets: Option<Vec<Duration>>,
    /// The last round of each subject.
    rounds: Vec<u32>,
    payload_bytes: usize,
    counts: Counts,
}

impl Notifier {
    pub(crate) fn new(
        spec: &RunSpec,
        group: &Group<'_>,
        workload: &Notifications,
        host: u32,
        ready: Instant,
    ) -> Result<(Self, Endpoints), RunError> {
        let payload = workload.payload_bytes();
        let payload = payload.ok_or(RunError::Notifications(ConfigError::Message(
            workload.message_bytes,
        )))?;
        let clients = group.spec.clients;
        let apart = workload.offset.low != workload.offset.high;
        let offsets = apart.then(|| {
            let draw = |client| {
                let mut stream = Stream::indexed(spec.seed, "server/round", client);
                stream.uniform(workload.offset.low, workload.offset.high)
            };
            (0..clients).map(draw).collect::<Vec<Duration>>()
        });
        let subjects = workload.resources * if apart { clients } else { 1 };
        let begin = ready + workload.warm_up;
        let application = Self {
            workload: workload.clone(),
            group: group.number as u16,
            first: group.first,
            clients,
            server: host,
            ready,
            begin,
            ack_timeout: group.spec.transmission.ack_timeout,
            observed: vec![Vec::new(); clients as usize],
            last_sent: vec![(NO_ITEM, 0); clients as usize],
            last_of_client: vec![(NO_ITEM, 0); clients as usize],
            offsets,
            rounds: vec![NO_ROUND; subjects as usize],
            payload_bytes: payload as usize,
            counts: Counts::new(workload, begin, clients, spec.record.samples),
        };
        let endpoint = |number| {
            let stream = Stream::indexed(spec.seed, "client/endpoint", number);
            Box::new(Endpoint::new(client(spec, group, workload), stream))
        };
        let stream = match group.number {
            0 => Stream::new(spec.seed, "server/endpoint"),
            other => Stream::indexed(spec.seed, "server/endpoint", other),
        };
        let endpoints = Endpoints {
            clients: (group.first..)
                .take(clients as usize)
                .map(endpoint)
                .collect(),
            server: Box::new(Endpoint::new(server(spec, group, workload), stream)),
            poll: Duration::ZERO,
            placement: if workload.has_device_each {
                Placement::ConstrainedServers
            } else {
                Placement::ConstrainedServer
            },
        };
        Ok((application, endpoints))
    }

    /// Registers a client as observer of all its resources.
    fn register<N: Network>(&mut self, engine: &mut Engine<'_, N>, client: u32) {
        engine
            .trace
            .add(engine.now, self.first + client, SimEvent::Began);
        let server = address(self.server, 0);
        for resource in 0..self.workload.resources {
            let path = self.subject(client, resource).to_string();
            let request = Request::get().with_path(&path);
            let request = request.unwrap_or_else(|_| Request::get());
            let mut sending = RequestConfig::default();
            sending.observe = true;
            let endpoint = &mut engine.hosts[(self.first + client) as usize].endpoint;
            match endpoint.request(engine.now, server, request, sending) {
                Ok(id) => self.observed[client as usize].push((id, NO_ROUND)),
                Err(error) => engine.error = Some(RunError::Request(error)),
            }
        }
        let host = self.first + client;
        engine.drain(self, host);
    }

    /// The subject number of a client's resource.
    fn subject(&self, client: u32, resource: u32) -> u32 {
        match self.offsets {
            None => resource,
            Some(_) => client * self.workload.resources + resource,
        }
    }

    /// The time of a round of a client's resources.
    fn made(&self, client: u32, round: u32) -> Instant {
        let offset = match &self.offsets {
            None => self.workload.offset.low,
            Some(offsets) => offsets[client as usize],
        };
        let before = self.workload.interval.times(u64::from(round.max(1) - 1));
        self.begin + offset + before
    }

    /// Changes the resources of one client, or of all, and notifies their observers.
    fn round<N: Network>(&mut self, engine: &mut Engine<'_, N>, of: Option<u32>, number: u32) {
        let resources = self.workload.resources;
        let clients = match of {
            None => 0..self.clients,
            Some(client) => client..client + 1,
        };
        let server = self.server as usize;
        for client in clients {
            let peer = address(self.first + client, 0);
            let snapshot = engine.hosts[server].endpoint.snapshot(engine.now, peer);
            let listed = snapshot.map_or(0, |snapshot| snapshot.observations as u32);
            self.counts.generated(engine.now, client, resources, listed);
        }
        for resource in 0..resources {
            let subject = self.subject(of.unwrap_or(0), resource);
            self.rounds[subject as usize] = number;
            let state = self.state(subject, false);
            let endpoint = &mut engine.hosts[server].endpoint;
            let notified = endpoint.notify(engine.now, Subject(subject.into()), &state, false);
            debug_assert!(notified.is_ok(), "the size was checked: {notified:?}");
            let server = self.server;
            engine.drain(self, server);
        }
        let next = round(of, number + 1);
        engine.set_timer(self.group, engine.now + self.workload.interval, next);
    }

    /// The current representation of a subject, for a notification or a response.
    fn state(&self, subject: u32, is_answer: bool) -> Response {
        let mut payload = vec![0; self.payload_bytes];
        payload[..4].copy_from_slice(&self.rounds[subject as usize].to_be_bytes());
        payload[4] = (subject % self.workload.resources) as u8;
        payload[5] = u8::from(is_answer);
        let mut response = Response::new(Code::CONTENT);
        response.payload = Payload::Fixed(Bytes::from(payload));
        if let Some(age) = self.workload.max_age {
            let seconds = u32::try_from(age.as_secs()).unwrap_or(u32::MAX);
            let set = response.options.set_uint(OptionNumber::MAX_AGE, seconds);
            debug_assert!(set.is_ok(), "a number is an option's value");
        }
        response
    }

    /// Responds to a registration.
    fn answer<N: Network>(&mut self, engine: &mut Engine<'_, N>, id: IncomingId) {
        let subjects = self.rounds.len() as u32;
        let endpoint = &mut engine.hosts[self.server as usize].endpoint;
        let asked = endpoint.incoming(id).and_then(|asked| {
            let segment = asked.message.values(OptionNumber::URI_PATH).next()?;
            std::str::from_utf8(segment).ok()?.parse::<u32>().ok()
        });
        let subject = asked.filter(|subject| *subject < subjects);
        let response = match subject {
            Some(subject) => self.state(subject, true),
            None => Response::new(Code::NOT_FOUND),
        };
        if let Some(subject) = subject {
            endpoint.observe(engine.now, id, Subject(subject.into()));
        }
        endpoint.respond(engine.now, id, &response);
    }

    /// Handles a notification at a client, or the response to its registration.
    fn on_notification(&mut self, now: Instant, client: u32, id: RequestId, payload: &[u8]) {
        // Byte 5 distinguishes answers to registrations, which no round generated.
        let [a, b, c, d, _, 0, ..] = *payload else {
            return;
        };
        let round = u32::from_be_bytes([a, b, c, d]);
        let observed = &mut self.observed[client as usize];
        let Some((_, last)) = observed.iter_mut().find(|(own, _)| *own == id) else {
            return;
        };
        // Duplicates and older states are left out: a round counts once, and a later one
        // replaces it (RFC 7641 3.4).
        if round > *last {
            *last = round;
            let made = self.made(client, round);
            self.counts.received(now, client, made);
        }
    }

    /// Records the server's RTOs at the end of a bin.
    fn count_rtos<N: Network>(&mut self, engine: &Engine<'_, N>) {
        let server = &engine.hosts[self.server as usize].endpoint;
        for client in 0..self.clients {
            let (mut rto, mut is_blind) = (None, false);
            server.gauges(
                engine.now,
                address(self.first + client, 0),
                &mut |name, gauge| match (name, gauge) {
                    ("rto", Gauge::Time(time)) => rto = Some(time),
                    ("state", Gauge::State("blind")) => is_blind = true,
                    _ => {}
                },
            );
            // Without a sample of the RTT, timers begin with ACK_TIMEOUT (RFC 7252 4.2).
            if is_blind {
                rto = rto.or(Some(self.ack_timeout));
            }
            if let Some(rto) = rto {
                self.counts.rto(engine.now, rto);
            }
        }
    }

    /// Counts a protocol event of the server.
    fn on_server_trace(&mut self, now: Instant, trace: &carob_proto::trace::Trace) {
        if self.counts.has_begun(now) {
            let client = number_of(trace.peer) - self.first;
            self.counts.on_server_trace(now, client, &trace.event);
        }
    }
}

impl<N: Network> Application<N> for Notifier {
    fn start(&mut self, engine: &mut Engine<'_, N>) {
        let span = engine.groups[usize::from(self.group)].spec.start;
        for client in 0..self.clients {
            let mut stream = Stream::indexed(engine.spec.seed, "client/start", self.first + client);
            let at = self.ready + stream.uniform(span.low, span.high);
            engine.set_timer(self.group, at, Timer::of(REGISTER, client));
        }
        engine.set_timer(self.group, self.begin, Timer::of(BEGIN, 0));
        let bin = self.begin + self.workload.bin;
        engine.set_timer(self.group, bin, Timer::of(BIN_ENDS, 0));
        match &self.offsets {
            None => {
                let first = self.begin + self.workload.offset.low;
                engine.set_timer(self.group, first, round(None, 1));
            }
            Some(offsets) => {
                for (offset, client) in offsets.iter().zip(0..) {
                    engine.set_timer(self.group, self.begin + *offset, round(Some(client), 1));
                }
            }
        }
    }

    fn on_timer(&mut self, engine: &mut Engine<'_, N>, timer: Timer) {
        match timer.kind {
            REGISTER => self.register(engine, timer.subject),
            BEGIN => engine.network.reset_counters(),
            ROUND => {
                let of = (timer.subject != EVERY_CLIENT).then_some(timer.subject);
                self.round(engine, of, timer.count);
            }
            _ => {
                self.count_rtos(engine);
                let next = engine.now + self.workload.bin;
                engine.set_timer(self.group, next, timer);
            }
        }
    }

    fn on_event(&mut self, engine: &mut Engine<'_, N>, host: u32, event: Event) {
        match event {
            Event::Request(id) => self.answer(engine, id),
            Event::Notification { id, response } => {
                self.on_notification(engine.now, host - self.first, id, response.bytes());
            }
            Event::Trace(trace) if host == self.server => self.on_server_trace(engine.now, &trace),
            _ => {}
        }
    }

    /// Each message is an item, identified by its Message ID; a datagram with the same is a
    /// retransmission.
    fn tag(&mut self, _: Instant, host: u32, to: u32, message: &[u8], _: Tag) -> Tag {
        let item = match *message {
            [_, _, high, low, ..] => u32::from(u16::from_be_bytes([high, low])),
            _ => NO_ITEM,
        };
        let last = if host == self.server {
            &mut self.last_sent[(to - self.first) as usize]
        } else {
            &mut self.last_of_client[(host - self.first) as usize]
        };
        let attempt = if last.0 == item {
            last.1.saturating_add(1)
        } else {
            0
        };
        *last = (item, attempt);
        Tag { item, attempt }
    }

    fn on_offered(&mut self, engine: &mut Engine<'_, N>, datagram: u32, offer: &Offer) {
        let datagram = &engine.datagrams[datagram];
        if datagram.from == self.server
            && self.counts.has_begun(engine.now)
            && is_notification(&datagram.bytes)
        {
            let client = datagram.to - self.first;
            self.counts.offered(engine.now, client, offer.fate);
        }
    }

    fn end(&self) -> Option<Instant> {
        Some(self.begin + self.workload.duration)
    }

    fn into_record(mut self: Box<Self>, engine: &mut Engine<'_, N>, record: &mut RunRecord) {
        self.count_rtos(engine);
        for client in 0..self.clients {
            let endpoint = &engine.hosts[self.server as usize].endpoint;
            let snapshot = endpoint.snapshot(engine.now, address(self.first + client, 0));
            let waiting = snapshot.map_or(0, |snapshot| snapshot.queued as u64);
            self.counts.unsent(client, waiting);
        }
        record.notifications = Some(self.counts.into_record());
    }
}

/// Returns whether a message of the server is a notification: neither a response nor empty.
fn is_notification(bytes: &[u8]) -> bool {
    let Ok(message) = MessageView::parse(bytes) else {
        return false;
    };
    let is_state = message.payload().get(5) == Some(&0);
    is_state && message.uint_option(OptionNumber::OBSERVE).is_some()
}

fn client(spec: &RunSpec, group: &Group<'_>, workload: &Notifications) -> Config {
    let mut config = Config::default();
    // Studies let timers grow without limit.
    config.late_copies = true;
    config.controller = group.spec.controller.choice();
    config.parameters = group.spec.transmission;
    config.token_length = workload.token_bytes.into();
    config.limits.dedup_idempotent = REMEMBERED;
    if spec.record.log > 0 {
        config.trace = Tracing::Everything;
    }
    config
}

fn server(spec: &RunSpec, group: &Group<'_>, workload: &Notifications) -> Config {
    let mut config = client(spec, group, workload);
    if spec.record.log == 0 {
        config.trace = Tracing::Exchanges;
    }
    config.notification_queue = workload.queue;
    config.limits.notifications_of_peer = workload.queue_of_client as usize;
    config.limits.notifications = workload.queue_of_all as usize;
    config.unconfirmed_max = workload.unconfirmed_max;
    if let Some(constants) = workload.aggregate {
        config.aggregates = vec![Prefix::ALL];
        config.aggregate = constants;
    }
    config
}
