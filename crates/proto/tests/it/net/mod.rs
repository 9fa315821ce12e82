//! A client, a server and the network in between, in virtual time.

#![allow(dead_code, reason = "each test program uses its part of this")]
#![allow(unreachable_pub, reason = "shared by several test programs")]
pub mod counting;
pub mod wide;
pub mod wire;

use std::collections::BTreeMap;
use std::net::SocketAddr;

use bytes::Bytes;
use carob_cc::random::Random;
use carob_cc::time::{Duration, Instant};
use carob_proto::codec::{Code, ContentFormat, MessageView, OptionNumber};
use carob_proto::endpoint::{
    Config, Endpoint, Event, IncomingId, Output, RequestConfig, RequestId, Subject,
};
use carob_proto::message::Payload;
use carob_proto::{Request, Response};

/// A small deterministic stream (SplitMix64).
#[derive(Clone, Debug)]
pub struct Stream(pub u64);

impl Random for Stream {
    fn next_u32(&mut self) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 32) as u32
    }
}

impl Stream {
    pub fn below(&mut self, n: u32) -> u32 {
        ((u64::from(self.next_u32()) * u64::from(n)) >> 32) as u32
    }
}

pub fn seconds(s: u64) -> Duration {
    Duration::from_secs(s)
}

pub fn millis(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub fn client_address() -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], 40_000))
}

pub fn server_address() -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 2], 5683))
}

/// A configuration derived from the default.
pub fn config(change: impl FnOnce(&mut Config)) -> Config {
    let mut config = Config::default();
    change(&mut config);
    config
}

/// A request configuration derived from the default.
pub fn sending_with(change: impl FnOnce(&mut RequestConfig)) -> RequestConfig {
    let mut sending = RequestConfig::default();
    change(&mut sending);
    sending
}

/// A request configuration that registers an observation.
pub fn observing() -> RequestConfig {
    sending_with(|sending| sending.observe = true)
}

/// A request configuration for NON.
pub fn as_non() -> RequestConfig {
    sending_with(|sending| sending.confirmable = false)
}

/// Network faults in percent.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    pub loss: u32,
    pub duplication: u32,
    /// Largest extra delay, drawn per datagram, which causes reordering.
    pub jitter: Duration,
}

/// The server's application.
pub struct App {
    /// Resources by path.
    pub resources: BTreeMap<String, Bytes>,
    /// ETag by path.
    pub etags: BTreeMap<String, Vec<u8>>,
    /// Time between a request and its response.
    pub delay: Duration,
    /// Requests executed, by path.
    pub executed: BTreeMap<String, u32>,
    /// Never responds.
    pub mute: bool,
    /// Parts of streamed uploads.
    pub parts: Vec<(u64, usize, bool)>,
    /// Observable resources by path.
    pub observable: BTreeMap<String, Subject>,
    /// Max-Age by path.
    pub max_ages: BTreeMap<String, u32>,
    /// Content-Format by path.
    pub formats: BTreeMap<String, ContentFormat>,
    /// FETCH returns its payload 300 times.
    pub echo_fetch: bool,
}

pub fn path_of(message: &MessageView<'_>) -> String {
    let segments: Vec<_> = message
        .values(OptionNumber::URI_PATH)
        .map(|s| String::from_utf8_lossy(s).into_owned())
        .collect();
    segments.join("/")
}

/// A datagram on the wire.
#[derive(Clone, Debug)]
pub struct Crossing {
    pub at: Instant,
    pub from_client: bool,
    pub bytes: Vec<u8>,
}

/// A client, a server and the network.
pub struct Net {
    pub now: Instant,
    pub client: Endpoint,
    pub server: Endpoint,
    pub app: App,
    pub delay: Duration,
    pub faults: Faults,
    /// Drops all further datagrams from and to the server.
    pub server_dead: bool,
    pub crossings: Vec<Crossing>,
    pub events: Vec<(Instant, Event)>,
    pub server_events: Vec<(Instant, Event)>,
    /// Drops matching datagrams; the flag is true if the client sent it.
    pub drop_if: Option<fn(bool, &[u8]) -> bool>,
    /// Tests of streaming read further parts themselves.
    pub read_on: bool,
    random: Stream,
    flying: Vec<(Instant, u64, bool, Vec<u8>)>,
    sequence: u64,
    pending: Vec<(Instant, IncomingId)>,
}

impl Net {
    pub fn new(client: Config, server: Config) -> Self {
        Self {
            now: Instant::ZERO,
            client: Endpoint::new(client, Stream(1)),
            server: Endpoint::new(server, Stream(2)),
            app: App {
                resources: BTreeMap::new(),
                etags: BTreeMap::new(),
                delay: Duration::ZERO,
                executed: BTreeMap::new(),
                mute: false,
                parts: Vec::new(),
                observable: BTreeMap::new(),
                max_ages: BTreeMap::new(),
                formats: BTreeMap::new(),
                echo_fetch: false,
            },
            delay: millis(10),
            faults: Faults::default(),
            server_dead: false,
            crossings: Vec::new(),
            events: Vec::new(),
            server_events: Vec::new(),
            drop_if: None,
            read_on: true,
            random: Stream(3),
            flying: Vec::new(),
            sequence: 0,
            pending: Vec::new(),
        }
    }

    pub fn plain() -> Self {
        Self::new(Config::default(), Config::default())
    }

    /// A client whose datagrams are all dropped.
    pub fn deaf() -> Self {
        let mut net = Self::plain();
        net.server_dead = true;
        net
    }

    pub fn seeded(mut self, seed: u64) -> Self {
        self.random = Stream(seed);
        self
    }

    pub fn send(&mut self, request: Request) -> RequestId {
        self.send_with(request, RequestConfig::default())
    }

    /// Sends a request and runs for a time.
    pub fn send_for(&mut self, request: Request, duration: Duration) {
        self.send(request);
        self.run_for(duration);
    }

    pub fn send_with(&mut self, request: Request, sending: RequestConfig) -> RequestId {
        let id = self
            .client
            .request(self.now, server_address(), request, sending)
            .unwrap();
        self.drain();
        id
    }

    /// Delivers a datagram to the client.
    pub fn inject_to_client(&mut self, bytes: &[u8]) {
        self.client
            .handle_datagram(self.now, server_address(), bytes);
        self.drain();
    }

    /// Delivers a datagram to the server.
    pub fn inject_to_server(&mut self, bytes: &[u8]) {
        self.server
            .handle_datagram(self.now, client_address(), bytes);
        self.drain();
    }

    fn put_on_wire(&mut self, from_client: bool, bytes: &[u8]) {
        self.crossings.push(Crossing {
            at: self.now,
            from_client,
            bytes: bytes.to_vec(),
        });
        if self.drop_if.is_some_and(|drop| drop(from_client, bytes)) {
            return;
        }
        let copies = if self.random.below(100) < self.faults.duplication {
            2
        } else {
            1
        };
        for _ in 0..copies {
            if self.random.below(100) < self.faults.loss || self.server_dead {
                continue;
            }
            let jitter = self.faults.jitter.as_micros_u32();
            let extra = Duration::from_micros(u64::from(self.random.below(jitter + 1)));
            self.sequence += 1;
            self.flying.push((
                self.now + self.delay + extra,
                self.sequence,
                from_client,
                bytes.to_vec(),
            ));
        }
    }

    pub fn drain(&mut self) {
        let mut to_send = Vec::new();
        loop {
            match self.client.poll() {
                Output::Transmit { to, bytes } => {
                    assert_eq!(to, server_address());
                    to_send.push((true, bytes.to_vec()));
                }
                Output::Event(event) => {
                    if let Event::ResponseChunk {
                        id, last: false, ..
                    } = &event
                        && self.read_on
                    {
                        self.client.read_on(self.now, *id, 1);
                    }
                    self.events.push((self.now, event));
                }
                Output::Wait(_) => break,
                _ => unreachable!(),
            }
        }
        loop {
            match self.server.poll() {
                Output::Transmit { bytes, .. } => to_send.push((false, bytes.to_vec())),
                Output::Event(Event::Request(id)) if !self.app.mute => {
                    self.observe(id);
                    if self.app.delay.is_zero() {
                        self.answer(id);
                    } else {
                        self.pending.push((self.now + self.app.delay, id));
                    }
                }
                Output::Event(event) => self.server_events.push((self.now, event)),
                Output::Wait(_) => break,
                _ => unreachable!(),
            }
        }
        for (from_client, bytes) in to_send {
            self.put_on_wire(from_client, &bytes);
        }
    }

    fn answer(&mut self, id: IncomingId) {
        let Some(incoming) = self.server.incoming(id) else {
            return;
        };
        let path = path_of(&incoming.message);
        let code = incoming.message.code();
        let body = Bytes::copy_from_slice(incoming.body);
        let part = incoming.part;
        *self.app.executed.entry(path.clone()).or_default() += 1;
        let mut response = match (code, self.app.resources.get(&path)) {
            (Code::FETCH, _) if self.app.echo_fetch => {
                let mut response = Response::new(Code::CONTENT);
                response.payload = Payload::Whole(body.repeat(300).into());
                response
            }
            (Code::GET | Code::FETCH, Some(bytes)) => {
                let mut response = Response::new(Code::CONTENT);
                response.payload = Payload::Whole(bytes.clone());
                response
            }
            (Code::GET | Code::FETCH, None) => Response::new(Code::NOT_FOUND),
            (Code::PUT, _) => {
                if let Some(part) = part {
                    self.app.parts.push((part.offset, body.len(), part.more));
                    Response::new(if part.more {
                        Code::CONTINUE
                    } else {
                        Code::CHANGED
                    })
                } else {
                    self.app.resources.insert(path.clone(), body);
                    Response::new(Code::CHANGED)
                }
            }
            (Code::POST, _) => {
                let mut response = Response::new(Code::CHANGED);
                response.payload = Payload::Whole(body); // an echo
                response
            }
            (Code::DELETE, _) => {
                self.app.resources.remove(&path);
                Response::new(Code::DELETED)
            }
            _ => Response::new(Code::METHOD_NOT_ALLOWED),
        };
        self.describe(&path, &mut response);
        self.server.respond(self.now, id, &response);
    }

    /// Adds the options of a resource to its response.
    fn describe(&self, path: &str, response: &mut Response) {
        if let Some(etag) = self.app.etags.get(path) {
            response.options.set(OptionNumber::ETAG, etag).unwrap();
        }
        if let Some(format) = self.app.formats.get(path) {
            let number = OptionNumber::CONTENT_FORMAT;
            response.options.set_uint(number, format.0.into()).unwrap();
        }
        if let Some(max_age) = self.app.max_ages.get(path) {
            response
                .options
                .set_uint(OptionNumber::MAX_AGE, *max_age)
                .unwrap();
        }
    }

    /// Adds the sender of a request with Observe to the observers, if the resource is observable.
    fn observe(&mut self, id: IncomingId) {
        let Some(incoming) = self.server.incoming(id) else {
            return;
        };
        let path = path_of(&incoming.message);
        if let Some(subject) = self.app.observable.get(&path) {
            self.server.observe(self.now, id, *subject);
        }
    }

    pub fn observable(&mut self, path: &str, content: &'static str) {
        let subject = Subject(self.app.observable.len() as u64);
        self.app.observable.insert(path.into(), subject);
        self.app.resources.insert(path.into(), content.into());
    }

    /// Changes a resource and notifies its observers; returns their number.
    pub fn change(&mut self, path: &str, content: impl Into<Bytes>, confirmable: bool) -> usize {
        let content = content.into();
        self.app.resources.insert(path.into(), content.clone());
        let mut response = Response::new(Code::CONTENT);
        response.payload = Payload::Whole(content);
        self.describe(path, &mut response);
        let subject = self.app.observable[path];
        let told = self
            .server
            .notify(self.now, subject, &response, confirmable)
            .unwrap();
        self.drain();
        told
    }

    /// Restarts the server without any state.
    pub fn restart_server(&mut self, seed: u64) {
        let config = self.server.config().clone();
        self.server = Endpoint::new(config, Stream(seed));
        self.pending.clear();
    }

    /// Notifications to the client as text, with times in milliseconds.
    pub fn notified(&self) -> Vec<(u64, String)> {
        let text = |(at, event): &(Instant, Event)| match event {
            Event::Notification { response, .. } => Some((
                at.since(Instant::ZERO).as_millis(),
                String::from_utf8_lossy(response.bytes()).into_owned(),
            )),
            _ => None,
        };
        self.events.iter().filter_map(text).collect()
    }

    /// Notifications without times.
    pub fn states(&self) -> Vec<String> {
        self.notified().into_iter().map(|(_, text)| text).collect()
    }

    fn next_due(&mut self) -> Option<Instant> {
        let wait = |endpoint: &mut Endpoint| match endpoint.poll() {
            Output::Wait(at) => at,
            _ => panic!("drained"),
        };
        let flying = self.flying.iter().map(|f| f.0).min();
        let pending = self.pending.iter().map(|p| p.0).min();
        [
            wait(&mut self.client),
            wait(&mut self.server),
            flying,
            pending,
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Runs until `end` or until no event is pending.
    pub fn run_until(&mut self, end: Instant) {
        self.drain();
        while let Some(due) = self.next_due().filter(|due| *due <= end) {
            assert!(due >= self.now, "time runs backwards");
            self.now = due;
            self.flying.sort_by_key(|f| (f.0, f.1));
            while self.flying.first().is_some_and(|f| f.0 <= due) {
                let (_, _, to_server, bytes) = self.flying.remove(0);
                if to_server {
                    self.server.handle_datagram(due, client_address(), &bytes);
                } else {
                    self.client.handle_datagram(due, server_address(), &bytes);
                }
                self.drain();
            }
            let (ready, later) = self.pending.drain(..).partition(|p| p.0 <= due);
            self.pending = later;
            let ready: Vec<(Instant, IncomingId)> = ready;
            for (_, id) in ready {
                self.answer(id);
            }
            self.client.handle_timeout(due);
            self.server.handle_timeout(due);
            self.drain();
        }
        self.now = self.now.max(end);
    }

    pub fn run_for(&mut self, duration: Duration) {
        self.run_until(self.now + duration);
    }

    /// The response to the only request, if it has arrived.
    pub fn response(&self) -> Option<&Response> {
        self.events.iter().find_map(|(_, event)| match event {
            Event::Response { response, .. } => Some(response),
            _ => None,
        })
    }

    pub fn responses(&self) -> Vec<&Response> {
        self.events
            .iter()
            .filter_map(|(_, event)| match event {
                Event::Response { response, .. } => Some(response),
                _ => None,
            })
            .collect()
    }

    pub fn failure(&self) -> Option<carob_proto::endpoint::Failure> {
        self.events.iter().find_map(|(_, event)| match event {
            Event::Failed { failure, .. } => Some(*failure),
            _ => None,
        })
    }

    /// Transmission times of the client since the start.
    pub fn client_times(&self) -> Vec<Duration> {
        self.crossings
            .iter()
            .filter(|c| c.from_client)
            .map(|c| c.at.since(Instant::ZERO))
            .collect()
    }

    pub fn sent_by_client(&self) -> Vec<&[u8]> {
        self.crossings
            .iter()
            .filter(|c| c.from_client)
            .map(|c| &c.bytes[..])
            .collect()
    }

    pub fn sent_by_server(&self) -> Vec<&[u8]> {
        self.crossings
            .iter()
            .filter(|c| !c.from_client)
            .map(|c| &c.bytes[..])
            .collect()
    }
}

/// Bytes that depend on their position.
pub fn pattern(len: usize) -> Bytes {
    (0..len)
        .map(|i| (i * 31 + (i >> 8) * 17) as u8)
        .collect::<Vec<u8>>()
        .into()
}

pub fn get(path: &str) -> Request {
    Request::get().with_path(path).unwrap()
}

pub fn put(path: &str, body: Bytes) -> Request {
    Request::new(Code::PUT)
        .with_path(path)
        .unwrap()
        .with_payload(body)
}

pub fn post(path: &str, body: Bytes) -> Request {
    Request::new(Code::POST)
        .with_path(path)
        .unwrap()
        .with_payload(body)
}
