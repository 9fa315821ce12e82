//! The run: a server that tells, a link, and clients that are told.

use bytes::Bytes;
use carob_cc::controller::Gauge;
use carob_cc::time::{Duration, Instant};
use carob_proto::codec::{Code, MessageView, OptionNumber};
use carob_proto::endpoint::{
    Config, Endpoint, Event, IncomingId, Output, RequestId, Sending, Subject, Tracing,
};
use carob_proto::message::Payload;
use carob_proto::prefix::Prefix;
use carob_proto::trace::Trace as Said;
use carob_proto::{Request, Response};

use super::counts::{Counts, Fate};
use super::{Notifications, Unfit};
use crate::alarm::Alarm;
use crate::capture::{Captured, Content};
use crate::host::{NO_ITEM, address, number_of};
use crate::link::{Link, Verdict};
use crate::queue::EventQueue;
use crate::random::Stream;
use crate::spec::{LinkRecord, Recording, RunRecord, RunSpec};
use crate::store::Store;
use crate::trace::{Trace, What};
use crate::world::RunError;

/// Messages that a host remembers to know duplicates by: more than come within the time that
/// copies of one may arrive in, and few enough for crowds and hours.
const REMEMBERED: usize = 1_024;

/// Which round a payload is of before there was any.
const NO_ROUND: u32 = 0;

#[derive(Clone, Copy, Debug)]
enum Happening {
    /// A datagram reaches a host.
    Arrival { to: u32, packet: u32 },
    /// A host's time has come.
    Wake { host: u32 },
    /// A client asks to observe.
    Register { client: u32 },
    /// The warm-up is over.
    Begin,
    /// A round of all clients, or of one.
    Round { of: Option<u32>, number: u32 },
    /// A span of counting ends.
    BinEnds,
}

/// A host: the server, or a client.
#[derive(Debug)]
struct Host {
    endpoint: Endpoint,
    alarm: Alarm,
    /// Of a client: its observations, by resource, each with the last round that it was told of.
    observed: Vec<(RequestId, u32)>,
    /// The item and copy of the last message to each client, or to the server.
    last: Vec<(u32, u8)>,
}

/// A datagram on its way.
#[derive(Debug, Default)]
struct Packet {
    from: u32,
    item: u32,
    attempt: u8,
    bytes: Vec<u8>,
}

struct Scene<'a> {
    spec: &'a RunSpec,
    told: &'a Notifications,
    now: Instant,
    queue: EventQueue<Happening>,
    /// Clients, and the server last.
    hosts: Vec<Host>,
    link: Link,
    packets: Store<Packet>,
    /// When each client's first round is; none if all have theirs together.
    offsets: Option<Vec<Duration>>,
    /// The last round of each subject.
    rounds: Vec<u32>,
    payload_bytes: usize,
    counts: Counts,
    trace: Trace,
    log: Vec<(u32, Said)>,
    captured: Vec<Captured>,
    error: Option<RunError>,
}

/// Makes a run.
pub(crate) fn run(spec: &RunSpec, told: &Notifications) -> Result<RunRecord, RunError> {
    told.check(spec).map_err(RunError::Notifications)?;
    let mut scene = Scene::new(spec, told)?;
    let end = Instant::ZERO + told.warm_up + told.duration;
    let mut handled = 0;
    // What happens as the run ends happens after it.
    while let Some((now, happening)) = scene.queue.pop_until(end - Duration::from_micros(1)) {
        scene.now = now;
        scene.handle(happening);
        handled += 1;
        if let Some(error) = scene.error {
            return Err(error);
        }
    }
    scene.now = end;
    scene.count_rtos();
    Ok(scene.record(handled))
}

impl<'a> Scene<'a> {
    fn new(spec: &'a RunSpec, told: &'a Notifications) -> Result<Self, RunError> {
        let payload = told.payload_bytes();
        let payload = payload.ok_or(RunError::Notifications(Unfit::Message(told.message_bytes)))?;
        let clients = spec.clients;
        let host = |endpoint, peers: u32| Host {
            endpoint,
            alarm: Alarm::default(),
            observed: Vec::new(),
            last: vec![(NO_ITEM, 0); peers as usize],
        };
        let mut hosts: Vec<Host> = (0..clients)
            .map(|n| {
                let stream = Stream::indexed(spec.seed, "client/endpoint", n);
                host(Endpoint::new(client(spec, told), stream), 1)
            })
            .collect();
        let stream = Stream::new(spec.seed, "server/endpoint");
        hosts.push(host(Endpoint::new(server(spec, told), stream), clients));
        let mut queue = EventQueue::default();
        for client in 0..clients {
            let mut stream = Stream::indexed(spec.seed, "client/start", client);
            let at = Instant::ZERO + stream.uniform(spec.start.low, spec.start.high);
            queue.push(at, Happening::Register { client });
        }
        let begin = Instant::ZERO + told.warm_up;
        queue.push(begin, Happening::Begin);
        queue.push(begin + told.bin, Happening::BinEnds);
        let apart = told.offset.low != told.offset.high;
        let offsets = apart.then(|| {
            let draw = |client| {
                let mut stream = Stream::indexed(spec.seed, "server/round", client);
                stream.uniform(told.offset.low, told.offset.high)
            };
            (0..clients).map(draw).collect::<Vec<Duration>>()
        });
        let first = |of, offset| (begin + offset, Happening::Round { of, number: 1 });
        let rounds: Vec<_> = match &offsets {
            None => vec![first(None, told.offset.low)],
            Some(offsets) => {
                let each = offsets.iter().zip(0..);
                each.map(|(at, client)| first(Some(client), *at)).collect()
            }
        };
        for (at, round) in rounds {
            queue.push(at, round);
        }
        let subjects = told.resources * if apart { clients } else { 1 };
        Ok(Self {
            spec,
            told,
            now: Instant::ZERO,
            queue,
            hosts,
            link: Link::new(&spec.link, spec.seed, "link"),
            packets: Store::new(),
            offsets,
            rounds: vec![NO_ROUND; subjects as usize],
            payload_bytes: payload as usize,
            counts: Counts::new(told, clients, spec.record.samples),
            trace: match spec.record.events {
                0 => Trace::hashing(),
                limit => Trace::recording(limit),
            },
            log: Vec::new(),
            captured: Vec::new(),
            error: None,
        })
    }

    fn server(&self) -> u32 {
        self.spec.clients
    }

    fn handle(&mut self, happening: Happening) {
        match happening {
            Happening::Register { client } => self.register(client),
            Happening::Begin => {
                self.link.up.forget_counters();
                self.link.down.forget_counters();
            }
            Happening::Round { of, number } => self.round(of, number),
            Happening::BinEnds => {
                self.count_rtos();
                self.queue
                    .push(self.now + self.told.bin, Happening::BinEnds);
            }
            Happening::Wake { host } => {
                let state = &mut self.hosts[host as usize];
                if !state.alarm.rings(self.now) {
                    return; // an earlier wake-up took its place
                }
                if matches!(state.endpoint.poll(), Output::Wait(Some(at)) if at <= self.now) {
                    state.endpoint.handle_timeout(self.now);
                }
                self.drain(host);
            }
            Happening::Arrival { to, packet } => self.arrive(to, packet),
        }
    }

    /// A client asks to observe all its resources.
    fn register(&mut self, client: u32) {
        self.trace.add(self.now, client, What::Began);
        let server = address(self.server(), 0);
        for resource in 0..self.told.resources {
            let path = self.subject(client, resource).to_string();
            let request = Request::get().with_path(&path);
            let request = request.unwrap_or_else(|_| Request::get());
            let mut sending = Sending::default();
            sending.observe = true;
            let host = &mut self.hosts[client as usize];
            match host.endpoint.request(self.now, server, request, sending) {
                Ok(id) => host.observed.push((id, NO_ROUND)),
                Err(error) => self.error = Some(RunError::Request(error)),
            }
        }
        self.drain(client);
    }

    /// The number of what a client observes.
    fn subject(&self, client: u32, resource: u32) -> u32 {
        match self.offsets {
            None => resource,
            Some(_) => client * self.told.resources + resource,
        }
    }

    /// When the server made a round of a client's resources.
    fn made(&self, client: u32, round: u32) -> Instant {
        let offset = match &self.offsets {
            None => self.told.offset.low,
            Some(offsets) => offsets[client as usize],
        };
        let before = self.told.interval.times(u64::from(round.max(1) - 1));
        Instant::ZERO + self.told.warm_up + offset + before
    }

    /// The resources of one client, or those of all, get new states, of which the server tells.
    fn round(&mut self, of: Option<u32>, number: u32) {
        let resources = self.told.resources;
        let clients = match of {
            None => 0..self.spec.clients,
            Some(client) => client..client + 1,
        };
        let server = self.server();
        for client in clients {
            let endpoint = &self.hosts[server as usize].endpoint;
            let known = endpoint.snapshot(self.now, address(client, 0));
            let listed = known.map_or(0, |known| known.observations as u32);
            self.counts.generated(self.now, client, resources, listed);
        }
        for resource in 0..resources {
            let subject = self.subject(of.unwrap_or(0), resource);
            self.rounds[subject as usize] = number;
            let state = self.state(subject, false);
            let endpoint = &mut self.hosts[server as usize].endpoint;
            let told = endpoint.notify(self.now, Subject(subject.into()), &state, false);
            debug_assert!(told.is_ok(), "the size was checked: {told:?}");
            self.drain(server);
        }
        let next = Happening::Round {
            of,
            number: number + 1,
        };
        self.queue.push(self.now + self.told.interval, next);
    }

    /// What is told of a subject, or answered.
    fn state(&self, subject: u32, is_answer: bool) -> Response {
        let mut payload = vec![0; self.payload_bytes];
        payload[..4].copy_from_slice(&self.rounds[subject as usize].to_be_bytes());
        payload[4] = (subject % self.told.resources) as u8;
        payload[5] = u8::from(is_answer);
        let mut response = Response::new(Code::CONTENT);
        response.payload = Payload::Fixed(Bytes::from(payload));
        if let Some(age) = self.told.max_age {
            let seconds = u32::try_from(age.as_secs()).unwrap_or(u32::MAX);
            let set = response.options.set_uint(OptionNumber::MAX_AGE, seconds);
            debug_assert!(set.is_ok(), "a number is an option's value");
        }
        response
    }

    /// Answers a request to observe.
    fn answer(&mut self, id: IncomingId) {
        let server = self.server() as usize;
        let subjects = self.rounds.len() as u32;
        let asked = self.hosts[server].endpoint.incoming(id).and_then(|asked| {
            let segment = asked.message.values(OptionNumber::URI_PATH).next()?;
            std::str::from_utf8(segment).ok()?.parse::<u32>().ok()
        });
        let subject = asked.filter(|subject| *subject < subjects);
        let response = match subject {
            Some(subject) => self.state(subject, true),
            None => Response::new(Code::NOT_FOUND),
        };
        let endpoint = &mut self.hosts[server].endpoint;
        if let Some(subject) = subject {
            endpoint.observe(self.now, id, Subject(subject.into()));
        }
        endpoint.respond(self.now, id, &response);
    }

    /// Does everything a host has to do, until it waits.
    fn drain(&mut self, number: u32) {
        loop {
            let host = &mut self.hosts[number as usize];
            match host.endpoint.poll() {
                Output::Transmit { to, bytes } => {
                    let index = self.packets.take();
                    let packet = &mut self.packets[index];
                    packet.bytes.clear();
                    packet.bytes.extend_from_slice(bytes);
                    packet.from = number;
                    self.offer(number_of(to), index);
                }
                Output::Event(event) => self.react(number, event),
                Output::Wait(at) => {
                    if let Some(at) = at
                        && host.alarm.set(at)
                    {
                        self.queue.push(at, Happening::Wake { host: number });
                    }
                    return;
                }
                _ => {}
            }
        }
    }

    /// Takes an event of a host's endpoint.
    fn react(&mut self, number: u32, event: Event) {
        match event {
            Event::Request(id) => self.answer(id),
            Event::Notification { id, response } => self.told(number, id, response.bytes()),
            Event::Trace(said) => {
                if (self.log.len() as u32) < self.spec.record.log.min(Recording::LOG_MAX) {
                    self.log.push((number, said));
                }
                if number == self.server() && self.counts.has_begun(self.now) {
                    let client = number_of(said.peer);
                    self.counts.server_says(self.now, client, &said.what);
                }
            }
            _ => {}
        }
    }

    /// A client is told something: a state, or the answer to its registration.
    fn told(&mut self, client: u32, id: RequestId, payload: &[u8]) {
        let [a, b, c, d, _, 0, ..] = *payload else {
            return; // answers do not count
        };
        let round = u32::from_be_bytes([a, b, c, d]);
        let observed = &mut self.hosts[client as usize].observed;
        let Some((_, last)) = observed.iter_mut().find(|(own, _)| *own == id) else {
            return;
        };
        if round > *last {
            *last = round;
            let made = self.made(client, round);
            self.counts.received(self.now, client, made);
        }
    }

    /// Offers a packet to the link.
    fn offer(&mut self, to: u32, index: u32) {
        let server = self.server();
        let packet = &mut self.packets[index];
        let from = packet.from;
        // Each message is an item, known by its Message ID; what has the same is a copy of it.
        let item = match packet.bytes[..] {
            [_, _, high, low, ..] => u32::from(u16::from_be_bytes([high, low])),
            _ => NO_ITEM,
        };
        let peer = if from == server { to as usize } else { 0 };
        let last = &mut self.hosts[from as usize].last[peer];
        let attempt = if last.0 == item {
            last.1.saturating_add(1)
        } else {
            0
        };
        *last = (item, attempt);
        (packet.item, packet.attempt) = (item, attempt);
        let bytes = packet.bytes.len() as u32 + self.spec.header_bytes;
        let sent = What::Sent {
            item,
            attempt,
            bytes,
        };
        self.trace.add(self.now, from, sent);
        self.capture(from, to, index);
        // The server is the one on the constrained side.
        let direction = if from == server {
            &mut self.link.up
        } else {
            &mut self.link.down
        };
        let verdict = direction.offer(self.now, bytes);
        let fate = match verdict {
            Verdict::Deliver { at, .. } => {
                let arrival = Happening::Arrival { to, packet: index };
                self.queue.push(at, arrival);
                Fate::Arrives
            }
            Verdict::DropFull => {
                self.trace
                    .add(self.now, from, What::DropFull { item, attempt });
                Fate::Dropped
            }
            Verdict::Lost { .. } => {
                self.trace.add(self.now, from, What::Lost { item, attempt });
                Fate::Lost
            }
        };
        let bytes = &self.packets[index].bytes;
        if from == server && self.counts.has_begun(self.now) && is_notification(bytes) {
            self.counts.offered(self.now, to, fate);
        }
        if fate != Fate::Arrives {
            self.packets.release(index);
        }
    }

    /// A datagram reaches a host.
    fn arrive(&mut self, to: u32, index: u32) {
        let from = self.packets[index].from;
        self.capture(to, to, index);
        let packet = std::mem::take(&mut self.packets[index]);
        let (item, attempt) = (packet.item, packet.attempt);
        self.trace
            .add(self.now, to, What::Arrived { item, attempt });
        let endpoint = &mut self.hosts[to as usize].endpoint;
        endpoint.handle_datagram(self.now, address(from, 0), &packet.bytes);
        self.packets[index].bytes = packet.bytes;
        self.packets.release(index);
        self.drain(to);
    }

    /// Keeps a datagram that passes by host `at`, if packets are recorded.
    fn capture(&mut self, at: u32, to: u32, index: u32) {
        let most = self.spec.record.packets.min(Recording::PACKETS_MAX);
        if (self.captured.len() as u32) < most {
            let packet = &self.packets[index];
            self.captured.push(Captured {
                at: self.now,
                host: at,
                from: packet.from,
                to,
                restarts: 0,
                content: Content::Datagram(Bytes::copy_from_slice(&packet.bytes)),
            });
        }
    }

    /// Notes the server's RTOs at the end of a bin.
    fn count_rtos(&mut self) {
        let server = &self.hosts[self.server() as usize].endpoint;
        for client in 0..self.spec.clients {
            let (mut rto, mut is_blind) = (None, false);
            server.gauges(
                self.now,
                address(client, 0),
                &mut |name, gauge| match (name, gauge) {
                    ("rto", Gauge::Time(time)) => rto = Some(time),
                    ("state", Gauge::State("blind")) => is_blind = true,
                    _ => {}
                },
            );
            if is_blind {
                rto = rto.or(Some(self.spec.transmission.ack_timeout));
            }
            if let Some(rto) = rto {
                self.counts.rto(self.now, rto);
            }
        }
    }

    fn record(mut self, events_handled: u64) -> RunRecord {
        let server = self.server() as usize;
        for client in 0..self.spec.clients {
            let endpoint = &self.hosts[server].endpoint;
            let known = endpoint.snapshot(self.now, address(client, 0));
            let waiting = known.map_or(0, |known| known.queued as u64);
            self.counts.unsent(client, waiting);
        }
        RunRecord {
            link: LinkRecord {
                down: self.link.down.counters(),
                up: self.link.up.counters(),
                ..LinkRecord::default()
            },
            notifications: Some(self.counts.into_record()),
            ended: self.now,
            events_handled,
            trace_hash: self.trace.hash(),
            events_unrecorded: self.trace.unrecorded(),
            events: self.trace.into_events(),
            log: self.log,
            packets: self.captured,
            ..RunRecord::default()
        }
    }
}

/// Whether a message of the server's tells a state: it is no answer to a request, and not empty.
fn is_notification(bytes: &[u8]) -> bool {
    let Ok(message) = MessageView::parse(bytes) else {
        return false;
    };
    let told = message.payload().get(5) == Some(&0);
    told && message.uint_option(OptionNumber::OBSERVE).is_some()
}

fn client(spec: &RunSpec, told: &Notifications) -> Config {
    let mut config = Config::default();
    // Studies let timers run as long as they will.
    config.late_copies = true;
    config.controller = spec.controller.choice();
    config.parameters = spec.transmission;
    config.token_length = told.token_bytes.into();
    config.limits.recent = REMEMBERED;
    if spec.record.log > 0 {
        config.trace = Tracing::Everything;
    }
    config
}

fn server(spec: &RunSpec, told: &Notifications) -> Config {
    let mut config = client(spec, told);
    if spec.record.log == 0 {
        config.trace = Tracing::Exchanges;
    }
    config.notification_queue = told.queue;
    config.limits.notifications_of_peer = told.queue_of_client as usize;
    config.limits.notifications = told.queue_of_all as usize;
    config.unconfirmed_max = told.unconfirmed_max;
    if let Some(constants) = told.aggregate {
        config.aggregates = vec![Prefix::ALL];
        config.aggregate = constants;
    }
    config
}
