//! Two endpoints, each client and server of the other, and a bad network between them: requests,
//! observations, notifications, bodies in blocks, cancellations, restarts and time, in the order that the
//! input says.
//!
//! What must hold: no panic; every datagram is a message, and no longer than we ever send; every table
//! stays within its limit; a request that must not run twice does not; an answer belongs to its
//! request; every request ends; and in the end nothing is left.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::net::SocketAddr;

use bytes::Bytes;
use carob_cc::random::Random as _;
use carob_cc::time::{Duration, Instant};

use super::{Input, Stream};
use crate::codec::{BlockSize, Code, MessageView, NoResponse, OptionNumber};
use crate::congestion::Choice;
use crate::endpoint::{
    Config, Endpoint, Event, IncomingId, MESSAGE_BYTES, NotificationQueue, Output, RequestId,
    Sending, Subject,
};
use crate::message::Payload;
use crate::observe::Observe;
use crate::{Request, Response};

/// Controllers that tell copies apart in different ways, and some that do not.
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
/// Datagrams on their way at most; further ones are lost.
const FLYING: usize = 256;
/// Steps of an input that are done.
const STEPS: usize = 96;
/// Events that may happen in one step, or afterwards until nothing is left. More are an endless loop.
const EVENTS: usize = 100_000;
/// Everything has ended after this: MAX_TRANSMIT_WAIT, the longest pause after a 4.29, a response that is
/// waited for, and EXCHANGE_LIFETIME, for what is remembered (RFC 7252 4.8.2).
const ENDING: Duration = Duration::from_secs(2_000);
const SUBJECT: Subject = Subject(1);

/// A request by number, as whoever made it knows it.
#[derive(Debug)]
struct Asked {
    number: u32,
    observes: bool,
}

/// An endpoint with its application.
struct Side {
    end: Endpoint,
    due: Option<Instant>,
    /// It hears nothing and does nothing before this.
    asleep: Instant,
    asked: BTreeMap<RequestId, Asked>,
    /// Requests that the application has not answered yet, and when it will.
    waiting: Vec<(Instant, IncomingId)>,
    /// How often a request has run, by number.
    runs: BTreeMap<u32, u32>,
    /// How long the application takes, and how it answers.
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
    /// Requests whose server has forgotten what it knew of them, so that they may run again.
    excused: BTreeSet<u32>,
    events: usize,
}

fn address(side: usize, settings: u8) -> SocketAddr {
    // Of the one an answer may be as long as it likes; the other must first show where it is.
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
    config.controller = Choice::named(name).expect("the registry has it");
    config.block_size =
        BlockSize::from_szx(if settings & 16 == 0 { 6 } else { 4 }).expect("both are sizes");
    if settings & 32 != 0 {
        config.notification_queue = NotificationQueue::Queue;
    }
    if settings & 64 != 0 && side == 0 {
        config.parameters.nstart = 4;
    }
    if settings & 128 != 0 {
        config.limits.recent = 2;
        config.limits.lasting = 4;
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

/// What a request of this number carries, and its answer: so many bytes, none of which can be another's.
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
            asked: BTreeMap::new(),
            waiting: Vec::new(),
            runs: BTreeMap::new(),
            delay: Duration::ZERO,
            mood: 0,
            state: 0,
        }
    }

    /// Answers a request, and counts that it ran.
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

/// What observers are told.
fn state(number: u32) -> Response {
    Response::new(Code::CONTENT).with_payload(body(number, 8))
}

impl World {
    /// Does everything that happens before `end`, and then it is `end`.
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

    /// Does what is due now.
    fn happen(&mut self) {
        let now = self.now;
        let due = |flying: &(Instant, u64, usize, Vec<u8>)| flying.0 <= now;
        if let Some(at) = (0..self.flying.len())
            .filter(|at| due(&self.flying[*at]))
            .min_by_key(|at| (self.flying[*at].0, self.flying[*at].1))
        {
            let (_, _, to, bytes) = self.flying.swap_remove(at);
            // Who is asleep does not hear it.
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
                    // It was drained: what is due is later, or now once it is given the time.
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
                let asked = side
                    .asked
                    .remove(&id)
                    .expect("it was asked, and had not ended");
                let bytes = response.bytes();
                if response.code.is_success() && !asked.observes {
                    let own = body(asked.number, bytes.len());
                    assert!(
                        bytes.is_empty() || *bytes == own,
                        "the answer {bytes:02x?} is not to {asked:?}"
                    );
                }
            }
            Event::Failed { id, .. } | Event::Pong(id) | Event::Unanswered(id) => {
                let asked = side.asked.remove(&id);
                assert!(asked.is_some(), "it was asked, and had not ended");
            }
            Event::Notification { id, response } => {
                let asked = side.asked.get(&id).expect("it observes");
                assert!(asked.observes);
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
            usage.remembered <= limits.recent + limits.lasting,
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

    /// Makes a request; those of odd numbers must not run twice.
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
        let mut sending = Sending {
            observe: observes,
            confirmable: how & 32 == 0,
            ..Sending::default()
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
            side.asked.insert(id, Asked { number, observes });
        }
    }

    /// Forgets a side as a restart does. What is on its way remains.
    fn restart(&mut self, index: usize) {
        let old = &self.sides[index];
        // It may run again what it no longer knows that it ran. Whoever asked may have been cancelled
        // since, so that is every request there was.
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
                let all = side.asked.keys().copied();
                let Some(id) = all.cycle().nth(usize::from(how)) else {
                    return;
                };
                if how & 1 == 0 && side.asked[&id].observes {
                    side.end.stop_observing(now, id);
                } else {
                    side.end.cancel(now, id);
                    side.asked.remove(&id);
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
            12 => {
                let to = address(1 - index, self.settings);
                let side = &mut self.sides[index];
                if let Ok(id) = side.end.ping(now, to) {
                    let asked = Asked {
                        number: 0,
                        observes: false,
                    };
                    side.asked.insert(id, asked);
                }
            }
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

    /// The network is good and everybody awake: all requests end, and nothing is left.
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
            let ids: Vec<RequestId> = side.asked.keys().copied().collect();
            for id in ids {
                assert!(
                    side.asked[&id].observes,
                    "{:?} has not ended",
                    side.asked[&id]
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
            assert_eq!((usage.bodies, usage.leisurely), ((0, 0), 0), "{usage:?}");
        }
    }
}

/// A byte of settings, one for chance, and steps of what and how.
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
