//! Two endpoints, each client and server of the other, on a lossy network: requests, observations,
//! notifications, block-wise bodies, cancellations, restarts and time, in the order of the input.
//!
//! The properties: no panic; every datagram is a message within the length limit; every table stays
//! within its limit; a non-idempotent request is executed once; a response belongs to its request;
//! every request ends; and no state is left at the end.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::net::SocketAddr;

use bytes::Bytes;
use carob_cc::random::Random as _;
use carob_cc::time::{Duration, Instant};

use super::{Input, Stream};
use crate::codec::{BlockSize, Code, MessageView, NoResponse, OptionNumber};
use crate::congestion::CongestionControl;
use crate::endpoint::{
    Config, Endpoint, Event, IncomingId, MESSAGE_BYTES, NotificationQueue, Output, QBlockMode,
    RequestConfig, RequestId, Subject,
};
use crate::message::Payload;
use crate::observe::Observe;
use crate::{Request, Response};

/// Controllers with different kinds of copy tagging, and some without.
const CONTROLLERS: [&str; 8] = [
    "default",
    "cocoa-03",
    "fasor-option",
    "fasor-token",
    "rtt-count",
    "linux-rto",
    "cocoa-fast",
    "peak-hopper",
];
/// The use of Q-Block, request by request.
const Q_BLOCK_MODES: [QBlockMode; 4] = [
    QBlockMode::Off,
    QBlockMode::Auto,
    QBlockMode::On,
    QBlockMode::Off,
];
/// Datagrams in flight at most; further ones are lost.
const FLYING: usize = 256;
/// Steps executed of an input.
const STEPS: usize = 96;
/// Events in one step, or in the final drain. More indicate an endless loop.
const EVENTS: usize = 100_000;
/// The time by which all state has expired: MAX_TRANSMIT_WAIT, the longest pause after a 4.29, a
/// pending response, and EXCHANGE_LIFETIME for duplicates (RFC 7252 4.8.2).
const ENDING: Duration = Duration::from_secs(2_000);
const SUBJECT: Subject = Subject(1);

/// A request by number, as its application knows it.
#[derive(Debug)]
struct IssuedRequest {
    number: u32,
    observes: bool,
}

/// An endpoint with its application.
struct Side {
    end: Endpoint,
    due: Option<Instant>,
    /// The side neither receives nor sends before this time.
    asleep: Instant,
    issued: BTreeMap<RequestId, IssuedRequest>,
    /// Requests without a response of the application yet, and the time of that response.
    waiting: Vec<(Instant, IncomingId)>,
    /// Executions of each request, by number.
    runs: BTreeMap<u32, u32>,
    /// The application's delay, and its form of response.
    delay: Duration,
    mood: u8,
    state: u32,
}

struct World {
    now: Instant,
    sides: [Side; 2],
    settings: u8,
    flying: Vec<(Instant, u64, usize, Vec<u8>)>,
    sequence: u64,
    chance: Stream,
    loss: u32,
    duplication: u32,
    latency: Duration,
    jitter: Duration,
    numbers: u32,
    /// Requests whose server lost its state, so that they may be executed again.
    excused: BTreeSet<u32>,
    events: usize,
}

fn address(side: usize, settings: u8) -> SocketAddr {
    // Responses of the one may have any length; the other must first validate its address.
    let network = if settings & 8 == 0 {
        [10, 0, 0]
    } else {
        [192, 0, 2]
    };
    let [a, b, c] = network;
    ([a, b, c, side as u8 + 1], 5_683).into()
}

fn config(settings: u8, side: usize) -> Config {
    let mut config = Config::default();
    let name = CONTROLLERS[usize::from(settings & 7)];
    config.controller = CongestionControl::named(name).expect("the registry has it");
    config.block_size =
        BlockSize::from_szx(if settings & 16 == 0 { 6 } else { 4 }).expect("both are sizes");
    if settings & 32 != 0 {
        config.notification_queue = NotificationQueue::Queue;
    }
    config.q_block.accept = side == 0 || settings & 3 != 2;
    if settings & 64 != 0 && side == 0 {
        config.parameters.nstart = 4;
    }
    if settings & 128 != 0 {
        config.limits.dedup_idempotent = 2;
        config.limits.dedup_non_idempotent = 4;
        config.limits.incoming = 4;
        config.limits.requests = 6;
        config.limits.queue = 3;
        config.limits.peers = 1;
        config.limits.uploads = 1;
        config.limits.all_upload_bytes = 8_192;
        config.limits.bodies = 1;
        config.limits.body_bytes = 8_192;
        config.limits.observers = 2;
        config.limits.source_share = 100;
        config.limits.unvalidated_share = 100;
    }
    config
}

/// The payload of a request of this number, and of its response; the bytes are unique.
fn body(number: u32, length: usize) -> Bytes {
    let mut bytes = number.to_be_bytes().to_vec();
    let more = (4..length).map(|at| (at as u32 ^ number.wrapping_mul(31)) as u8);
    bytes.extend(more);
    bytes.truncate(length.max(4));
    bytes.into()
}

fn number_of(bytes: &[u8]) -> Option<u32> {
    bytes.first_chunk().map(|first| u32::from_be_bytes(*first))
}

impl Side {
    fn new(settings: u8, side: usize, seed: u64) -> Self {
        Self {
            end: Endpoint::new(config(settings, side), Stream(seed)),
            due: None,
            asleep: Instant::ZERO,
            issued: BTreeMap::new(),
            waiting: Vec::new(),
            runs: BTreeMap::new(),
            delay: Duration::ZERO,
            mood: 0,
            state: 0,
        }
    }

    /// Responds to a request, and counts its execution.
    fn answer(&mut self, now: Instant, id: IncomingId) {
        let Some(incoming) = self.end.incoming(id) else {
            return;
        };
        let method = incoming.message.code();
        let query = incoming.message.option(OptionNumber::URI_QUERY);
        let number = query.and_then(number_of).expect("every request has one");
        let registers = incoming.observe == Some(Observe::Register);
        if !incoming.body.is_empty() {
            let sent = body(number, incoming.body.len());
            assert_eq!(incoming.body, &sent[..], "the body is the request's");
        }
        if registers && self.mood & 8 == 0 {
            self.end.observe(now, id, SUBJECT);
            let response = state(self.state);
            return self.end.respond(now, id, &response);
        }
        let mut response = match self.mood & 7 {
            6 => Response::too_many_requests(Duration::from_secs(20).into()),
            7 => Response::new(Code::SERVICE_UNAVAILABLE),
            _ if method == Code::GET || method == Code::FETCH => Response::new(Code::CONTENT),
            _ => Response::new(Code::CHANGED),
        };
        let length = [4, 4, 40, 300, 1_500, 3_000][usize::from(self.mood & 7).min(5)];
        if response.code.is_success() {
            *self.runs.entry(number).or_default() += 1;
            response.payload = Payload::Whole(body(number, length));
        }
        self.end.respond(now, id, &response);
    }
}

/// The representation that notifications carry.
fn state(number: u32) -> Response {
    Response::new(Code::CONTENT).with_payload(body(number, 8))
}

impl World {
    /// Processes all events before `end`, then advances the time to it.
    fn run_until(&mut self, end: Instant) {
        self.drain();
        loop {
            let flying = self.flying.iter().map(|(at, ..)| *at);
            let sides = self.sides.iter();
            let timers = sides.clone().filter_map(|side| {
                let due = side.due?;
                Some(due.max(side.asleep))
            });
            let answers = sides.flat_map(|side| {
                let asleep = side.asleep;
                side.waiting.iter().map(move |(at, _)| (*at).max(asleep))
            });
            let next = flying.chain(timers).chain(answers).min();
            let Some(next) = next.filter(|next| *next <= end) else {
                break;
            };
            self.now = self.now.max(next);
            self.happen();
            self.events += 1;
            assert!(self.events < EVENTS, "it does not come to an end");
        }
        self.now = self.now.max(end);
    }

    /// Processes everything due now.
    fn happen(&mut self) {
        let now = self.now;
        let due = |flying: &(Instant, u64, usize, Vec<u8>)| flying.0 <= now;
        if let Some(at) = (0..self.flying.len())
            .filter(|at| due(&self.flying[*at]))
            .min_by_key(|at| (self.flying[*at].0, self.flying[*at].1))
        {
            let (_, _, to, bytes) = self.flying.swap_remove(at);
            // A sleeping side does not receive it.
            if self.sides[to].asleep <= now {
                let from = address(1 - to, self.settings);
                self.sides[to].end.handle_datagram(now, from, &bytes);
            }
        } else {
            for side in &mut self.sides {
                if side.asleep > now {
                    continue;
                }
                if side.due.is_some_and(|due| due <= now) {
                    side.end.handle_timeout(now);
                }
                let ready = side.waiting.iter().position(|(at, _)| *at <= now);
                if let Some(ready) = ready {
                    let (_, id) = side.waiting.swap_remove(ready);
                    side.answer(now, id);
                }
            }
        }
        self.drain();
    }

    fn drain(&mut self) {
        for index in 0..2 {
            self.drain_side(index);
            self.check(index);
        }
    }

    fn drain_side(&mut self, index: usize) {
        let now = self.now;
        loop {
            let side = &mut self.sides[index];
            match side.end.poll() {
                Output::Transmit { to, bytes } => {
                    assert_eq!(to, address(1 - index, self.settings));
                    assert!(bytes.len() <= MESSAGE_BYTES, "{} bytes", bytes.len());
                    assert!(MessageView::parse(bytes).is_ok(), "{bytes:02x?}");
                    let bytes = bytes.to_vec();
                    self.fly(1 - index, &bytes);
                }
                Output::Event(event) => {
                    self.heard(index, event);
                    self.events += 1;
                    assert!(self.events < EVENTS, "it does not come to an end");
                }
                Output::Wait(due) => {
                    // The side was drained: the next deadline is later, or now once it is given the
                    // time.
                    side.due = due.map(|due| due.max(now));
                    return;
                }
                other => panic!("{other:?} is not for datagrams"),
            }
        }
    }

    fn fly(&mut self, to: usize, bytes: &[u8]) {
        let mut draw =
            |below: u32| ((u64::from(self.chance.next_u32()) * u64::from(below)) >> 32) as u32;
        let copies = 1 + usize::from(draw(100) < self.duplication);
        for _ in 0..copies {
            if draw(100) < self.loss || self.flying.len() >= FLYING {
                continue;
            }
            let jitter = Duration::from_micros(u64::from(draw(self.jitter.as_micros_u32() + 1)));
            self.sequence += 1;
            let at = self.now + self.latency + jitter;
            self.flying.push((at, self.sequence, to, bytes.to_vec()));
        }
    }

    fn heard(&mut self, index: usize, event: Event) {
        let now = self.now;
        let side = &mut self.sides[index];
        match event {
            Event::Request(id) => side.waiting.push((now + side.delay, id)),
            Event::Response { id, response } => {
                let issued = side
                    .issued
                    .remove(&id)
                    .expect("it was issued, and had not ended");
                let bytes = response.bytes();
                if response.code.is_success() && !issued.observes {
                    let own = body(issued.number, bytes.len());
                    assert!(
                        bytes.is_empty() || *bytes == own,
                        "the answer {bytes:02x?} is not to {issued:?}"
                    );
                }
            }
            Event::Failed { id, .. } | Event::Pong(id) | Event::ResponseSuppressed(id) => {
                let issued = side.issued.remove(&id);
                assert!(issued.is_some(), "it was issued, and had not ended");
            }
            Event::Notification { id, response } => {
                let issued = side.issued.get(&id).expect("it observes");
                assert!(issued.observes);
                assert_eq!(response.bytes().len(), 8);
            }
            _ => {}
        }
    }

    fn check(&self, index: usize) {
        let side = &self.sides[index];
        let (limits, usage) = (side.end.config().limits, side.end.usage());
        assert!(usage.peers <= limits.peers && usage.requests <= limits.requests);
        assert!(usage.incoming <= limits.incoming && usage.observers <= limits.observers);
        assert!(
            usage.remembered <= limits.dedup_idempotent + limits.dedup_non_idempotent,
            "{usage:?}"
        );
        assert!(usage.uploads.0 <= limits.uploads && usage.uploads.1 <= limits.all_upload_bytes);
        assert!(usage.bodies.0 <= limits.bodies && usage.bodies.1 <= limits.body_bytes);
        for (number, runs) in &side.runs {
            let repeatable = number & 1 == 0 || self.excused.contains(number);
            assert!(
                repeatable || *runs <= 1,
                "request {number} ran {runs} times"
            );
        }
    }

    /// Makes a request; odd numbers are non-idempotent.
    fn ask(&mut self, index: usize, how: u8, observes: bool) {
        self.numbers += 2;
        let method = match how & 7 {
            _ if observes => Code::GET,
            0 | 1 => Code::POST,
            2 => Code::PATCH,
            3 => Code::PUT,
            4 => Code::FETCH,
            5 => Code::DELETE,
            _ => Code::GET,
        };
        let number = self.numbers | u32::from(!method.is_idempotent());
        let mut request = Request::new(method);
        let path = [&b"a"[..], b"b"][usize::from(how >> 6 & 1)];
        let options = &mut request.options;
        let pushed = options.push(OptionNumber::URI_PATH, path);
        pushed.expect("a short option");
        let pushed = options.push(OptionNumber::URI_QUERY, &number.to_be_bytes());
        pushed.expect("a short option");
        if method.has_payload() {
            let length = [4, 100, 1_100, 2_600][usize::from(how >> 3 & 3)];
            request.payload = body(number, length);
        }
        let mut sending = RequestConfig {
            observe: observes,
            confirmable: how & 32 == 0,
            q_block: Some(Q_BLOCK_MODES[self.numbers as usize / 2 % Q_BLOCK_MODES.len()]),
            ..RequestConfig::default()
        };
        if how & 128 != 0 {
            sending.deadline = Some(Duration::from_secs(30));
            if !observes && how & 64 != 0 {
                request = request.with_no_response(NoResponse::SUCCESS);
            }
        }
        let to = address(1 - index, self.settings);
        let side = &mut self.sides[index];
        if let Ok(id) = side.end.request(self.now, to, request, sending) {
            side.issued.insert(id, IssuedRequest { number, observes });
        }
    }

    /// Resets a side as a restart does. Datagrams in flight remain.
    fn restart(&mut self, index: usize) {
        let old = &self.sides[index];
        // Requests whose execution it forgot may be executed again. Clients may have cancelled
        // since, so that covers every request so far.
        self.excused.extend(1..=self.numbers + 1);
        let (runs, state) = (old.runs.clone(), old.state);
        let seed = u64::from(self.chance.next_u32());
        self.sides[index] = Side::new(self.settings, index, seed);
        (self.sides[index].runs, self.sides[index].state) = (runs, state);
    }

    fn step(&mut self, input: &mut Input<'_>) {
        let (what, how) = (input.byte(), input.byte());
        let (index, now) = (usize::from(what >> 7), self.now);
        match what & 15 {
            0..=3 => self.ask(index, how, false),
            4 => self.ask(index, how, true),
            5 => {
                let side = &mut self.sides[index];
                let all = side.issued.keys().copied();
                let Some(id) = all.cycle().nth(usize::from(how)) else {
                    return;
                };
                if how & 1 == 0 && side.issued[&id].observes {
                    side.end.stop_observing(now, id);
                } else {
                    side.end.cancel(now, id);
                    side.issued.remove(&id);
                }
            }
            6 | 7 => {
                let side = &mut self.sides[index];
                side.state += 1;
                let told = state(side.state);
                let _ = side.end.notify(now, SUBJECT, &told, how & 1 != 0);
            }
            8 => {
                self.loss = u32::from(how) % 101;
                self.duplication = u32::from(input.byte()) % 101;
            }
            9 => {
                self.latency = Duration::from_millis(u64::from(how) * 8);
                self.jitter = Duration::from_millis(u64::from(input.byte()) * 16);
            }
            10 if how.is_multiple_of(16) => self.restart(index),
            10 => {
                let length = Duration::from_millis(1 << (how >> 4));
                self.sides[index].asleep = now + length;
            }
            11 => {
                let side = &mut self.sides[index];
                side.mood = how & 15;
                side.delay = Duration::from_millis([0, 50, 1_500, 20_000][usize::from(how >> 6)]);
            }
            12 => self.ping(index),
            13 => {
                let last = Response::new(Code::NOT_FOUND);
                let side = &mut self.sides[index];
                side.end.end_observations(now, SUBJECT, &last, how & 1 != 0);
            }
            14 => {
                let peer = address(1 - index, self.settings);
                self.sides[index].end.handle_unreachable(now, peer);
            }
            _ => {}
        }
        let time = Duration::from_millis(match how >> 4 {
            _ if what & 64 == 0 => 0,
            exponent => 1 << exponent,
        });
        self.events = 0;
        self.run_until(now + time);
    }

    fn ping(&mut self, index: usize) {
        let to = address(1 - index, self.settings);
        let side = &mut self.sides[index];
        if let Ok(id) = side.end.ping(self.now, to) {
            let issued = IssuedRequest {
                number: 0,
                observes: false,
            };
            side.issued.insert(id, issued);
        }
    }

    /// Drains with a lossless network and both sides awake: all requests end, and no state is left.
    fn end(&mut self) {
        (self.loss, self.duplication) = (0, 0);
        (self.latency, self.jitter) = (Duration::from_millis(10), Duration::ZERO);
        for side in &mut self.sides {
            (side.asleep, side.delay, side.mood) = (Instant::ZERO, Duration::ZERO, 0);
            for (at, _) in &mut side.waiting {
                *at = self.now;
            }
        }
        self.events = 0;
        self.run_until(self.now + ENDING);
        for side in &mut self.sides {
            let ids: Vec<RequestId> = side.issued.keys().copied().collect();
            for id in ids {
                assert!(
                    side.issued[&id].observes,
                    "{:?} has not ended",
                    side.issued[&id]
                );
                side.end.cancel(self.now, id);
            }
            let last = Response::new(Code::NOT_FOUND);
            side.end.end_observations(self.now, SUBJECT, &last, false);
        }
        self.run_until(self.now + ENDING);
        for side in &self.sides {
            let usage = side.end.usage();
            assert!(side.end.is_idle(), "{usage:?}");
            let left = (
                usage.requests,
                usage.exchanges,
                usage.incoming,
                usage.responses,
            );
            assert_eq!(left, (0, 0, 0, 0), "{usage:?}");
            let left = (
                usage.observers,
                usage.observations,
                usage.notifications_waiting,
            );
            assert_eq!(left, (0, 0, 0), "{usage:?}");
            assert_eq!(
                (usage.uploads, usage.incoming_bytes),
                ((0, 0), 0),
                "{usage:?}"
            );
            assert_eq!(
                (usage.bodies, usage.delayed_responses),
                ((0, 0), 0),
                "{usage:?}"
            );
        }
    }
}

/// A byte of settings, a seed, and steps of an action and its parameter.
pub fn exchanges(data: &[u8]) {
    let mut input = Input(data);
    let (settings, seed) = (input.byte(), u64::from(input.byte()));
    let mut world = World {
        now: Instant::ZERO,
        sides: [
            Side::new(settings, 0, seed << 8 | 1),
            Side::new(settings, 1, seed << 8 | 2),
        ],
        settings,
        flying: Vec::new(),
        sequence: 0,
        chance: Stream(seed << 8 | 3),
        loss: 0,
        duplication: 0,
        latency: Duration::from_millis(10),
        jitter: Duration::ZERO,
        numbers: 0,
        excused: BTreeSet::new(),
        events: 0,
    };
    for _ in 0..STEPS {
        if input.is_empty() {
            break;
        }
        world.step(&mut input);
    }
    world.end();
}
