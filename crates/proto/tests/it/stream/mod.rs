//! Two endpoints with a connection that splits the stream arbitrarily, and one endpoint with a hand-written peer.
#![allow(dead_code, reason = "each test program uses its part of this")]

use std::collections::VecDeque;
use std::net::SocketAddr;

use carob_cc::random::Random;
use carob_cc::time::{Duration, Instant};
use carob_proto::codec::frame::write_frame;
use carob_proto::codec::{
    Code, ContentFormat, Framing, MessageId, MessageView, OptionNumber, Type, Writer, decode_uint,
};
use carob_proto::endpoint::{
    Config, Disconnect, Endpoint, Event, Failure, IncomingId, Output, RequestConfig, RequestId,
    StreamConfig,
};
use carob_proto::{Request, Response};

pub(crate) const CLIENT: usize = 0;
pub(crate) const SERVER: usize = 1;

/// A linear congruential generator.
pub(crate) struct Draws(pub(crate) u64);

impl Random for Draws {
    fn next_u32(&mut self) -> u32 {
        self.0 = (self.0)
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 32) as u32
    }
}

pub(crate) fn address(of: usize) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 40_000 + of as u16))
}

pub(crate) fn config(change: impl FnOnce(&mut StreamConfig)) -> Config {
    let mut reliable = StreamConfig::default();
    change(&mut reliable);
    let mut config = Config::default();
    config.reliable = Some(reliable);
    config
}

type Answer = Box<dyn FnMut(&mut Endpoint, Instant, IncomingId)>;

/// Events and messages of one end.
#[derive(Debug, Default)]
pub(crate) struct StreamEnd {
    pub(crate) events: Vec<Event>,
    /// Sent messages in datagram format.
    pub(crate) sent: Vec<Vec<u8>>,
}

pub(crate) struct Pair {
    pub(crate) now: Instant,
    pub(crate) ends: [Endpoint; 2],
    pub(crate) heard: [StreamEnd; 2],
    wire: [VecDeque<Vec<u8>>; 2],
    pub(crate) connected: bool,
    /// Bytes delivered at a time; 0 for all.
    pub(crate) cut: usize,
    /// Connection attempts fail.
    pub(crate) unreachable: bool,
    pub(crate) connections: usize,
    wanted: bool,
    answer: Option<Answer>,
}

impl Pair {
    pub(crate) fn new(client: Config, server: Config) -> Self {
        Self {
            now: Instant::ZERO,
            ends: [
                Endpoint::new(client, Draws(1)),
                Endpoint::new(server, Draws(2)),
            ],
            heard: Default::default(),
            wire: Default::default(),
            connected: false,
            cut: 0,
            unreachable: false,
            connections: 0,
            wanted: false,
            answer: None,
        }
    }

    /// Sets the response of the server to all requests.
    pub(crate) fn answering(
        mut self,
        mut make: impl FnMut(&MessageView<'_>, &[u8]) -> Response + 'static,
    ) -> Self {
        self.answer = Some(Box::new(move |server, now, id| {
            let incoming = server.incoming(id).expect("it waits");
            let response = make(&incoming.message, incoming.body);
            server.respond(now, id, &response);
        }));
        self
    }

    pub(crate) fn answering_with(
        mut self,
        answer: impl FnMut(&mut Endpoint, Instant, IncomingId) + 'static,
    ) -> Self {
        self.answer = Some(Box::new(answer));
        self
    }

    fn framing(&self, end: usize) -> Framing {
        self.ends[end]
            .config()
            .reliable
            .as_ref()
            .expect("set")
            .framing
    }

    /// Runs until nothing more happens at this time.
    pub(crate) fn settle(&mut self) {
        loop {
            let mut quiet = true;
            for end in [CLIENT, SERVER] {
                quiet &= !self.drain(end);
                quiet &= !self.deliver(end);
            }
            if quiet && std::mem::take(&mut self.wanted) {
                self.connect();
            } else if quiet {
                return;
            }
        }
    }

    fn drain(&mut self, end: usize) -> bool {
        let mut any = false;
        loop {
            let framing = self.framing(end);
            match self.ends[end].poll() {
                Output::Transmit { to, bytes } => {
                    assert_eq!(to, address(1 - end));
                    let bytes = bytes.to_vec();
                    self.heard[end].sent.push(datagram(framing, &bytes));
                    if self.connected {
                        self.wire[end].push_back(bytes);
                    }
                }
                Output::Connect { .. } if self.unreachable => {
                    let (now, peer) = (self.now, address(1 - end));
                    self.ends[end].disconnected(now, peer, Disconnect::NotMade);
                }
                // After all messages on the previous connection.
                Output::Connect { .. } => self.wanted = true,
                Output::Close { .. } if self.connected => {
                    while self.deliver(1 - end) {}
                    // The other end may have closed it after the last message.
                    self.drain(1 - end);
                    if self.connected {
                        self.disconnect_one(1 - end, Disconnect::Closed);
                    }
                }
                Output::Close { .. } => {}
                Output::Event(Event::Request(id)) if self.answer.is_some() && end == SERVER => {
                    let mut answer = self.answer.take().expect("just looked");
                    answer(&mut self.ends[end], self.now, id);
                    self.answer = Some(answer);
                }
                Output::Event(event) => self.heard[end].events.push(event),
                Output::Wait(_) => return any,
                _ => panic!("an output unknown to this test"),
            }
            any = true;
        }
    }

    /// Delivers pending bytes to `end`.
    fn deliver(&mut self, end: usize) -> bool {
        let pieces: Vec<Vec<u8>> = self.wire[1 - end].drain(..).collect();
        let any = !pieces.is_empty();
        let stream = self.framing(end) == Framing::Stream;
        let whole: Vec<Vec<u8>> = if stream && any {
            vec![pieces.concat()]
        } else {
            pieces
        };
        for piece in whole {
            let cut = if self.cut == 0 || !stream {
                piece.len()
            } else {
                self.cut
            };
            for part in piece.chunks(cut.max(1)) {
                self.ends[end].handle_stream(self.now, address(1 - end), part);
            }
        }
        any
    }

    pub(crate) fn connect(&mut self) {
        self.connected = true;
        self.connections += 1;
        // A new connection would use another port; here it replaces the dead one.
        self.ends[SERVER].disconnected(self.now, address(CLIENT), Disconnect::Broken);
        for end in [CLIENT, SERVER] {
            assert!(self.ends[end].connected(self.now, address(1 - end)));
        }
    }

    fn disconnect_one(&mut self, end: usize, why: Disconnect) {
        self.connected = false;
        self.wire = Default::default();
        self.ends[end].disconnected(self.now, address(1 - end), why);
    }

    /// Breaks the connection.
    pub(crate) fn disconnect(&mut self) {
        for end in [CLIENT, SERVER] {
            self.disconnect_one(end, Disconnect::Broken);
        }
    }

    /// Delivers raw bytes to an end.
    pub(crate) fn inject(&mut self, end: usize, bytes: &[u8]) {
        self.ends[end].handle_stream(self.now, address(1 - end), bytes);
        self.settle();
    }

    /// Advances time and handles timeouts.
    pub(crate) fn pass(&mut self, span: Duration) {
        let end = self.now + span;
        loop {
            self.settle();
            let due = [CLIENT, SERVER].map(|end| match self.ends[end].poll() {
                Output::Wait(due) => due.unwrap_or(Instant::FAR_FUTURE),
                _ => panic!("it was drained"),
            });
            let next = due[0].min(due[1]);
            if next > end {
                break;
            }
            self.now = next.max(self.now);
            for end in [CLIENT, SERVER] {
                self.ends[end].handle_timeout(self.now);
            }
        }
        self.now = end;
    }

    pub(crate) fn response(&self, id: RequestId) -> &Response {
        let found = self.heard[CLIENT]
            .events
            .iter()
            .find_map(|event| match event {
                Event::Response { id: of, response } if *of == id => Some(response),
                _ => None,
            });
        found.unwrap_or_else(|| panic!("no response: {:?}", self.heard[CLIENT].events))
    }

    /// Codes of the messages sent by an end, as text.
    pub(crate) fn codes(&self, end: usize) -> Vec<String> {
        let code = |bytes: &Vec<u8>| format!("{}.{:02}", bytes[1] >> 5, bytes[1] & 31);
        self.heard[end].sent.iter().map(code).collect()
    }
}

fn datagram(framing: Framing, bytes: &[u8]) -> Vec<u8> {
    let mut reader = carob_proto::codec::FrameReader::new(framing, u32::MAX);
    reader.push(bytes);
    reader.next().expect("well formed").expect("whole").to_vec()
}

pub(crate) fn hello(_: &MessageView<'_>, _: &[u8]) -> Response {
    Response::content(ContentFormat::TEXT_PLAIN, "hello")
}

pub(crate) fn pair() -> Pair {
    Pair::new(config(|_| ()), config(|_| ()))
}

/// A pair whose server accepts peers without a CSM.
pub(crate) fn lenient() -> Pair {
    let end = || config(|reliable| reliable.csm_required = false);
    Pair::new(end(), end())
}

pub(crate) fn ask(pair: &mut Pair, request: Request) -> RequestId {
    let now = pair.now;
    let client = &mut pair.ends[CLIENT];
    let id = client
        .request(now, address(SERVER), request, RequestConfig::default())
        .expect("taken");
    pair.settle();
    id
}

pub(crate) fn failure(pair: &Pair, id: RequestId) -> Failure {
    let found = pair.heard[CLIENT]
        .events
        .iter()
        .find_map(|event| match event {
            Event::Failed { id: of, failure } if *of == id => Some(*failure),
            _ => None,
        });
    found.unwrap_or_else(|| panic!("it did not fail: {:?}", pair.heard[CLIENT].events))
}

/// Encodes a message for a stream.
pub(crate) fn frame(code: Code, token: &[u8], options: &[(u16, &[u8])], payload: &[u8]) -> Vec<u8> {
    let room: usize = options.iter().map(|(_, value)| value.len() + 5).sum();
    let mut buffer = vec![0; 16 + token.len() + room + payload.len()];
    let (kind, id) = (Type::NonConfirmable, MessageId(0));
    let mut writer = Writer::new(&mut buffer, kind, code, id, token).expect("fits");
    for &(number, value) in options {
        writer.option(OptionNumber(number), value).expect("fits");
    }
    writer.payload(payload).expect("fits");
    let length = writer.finish();
    let mut out = Vec::new();
    write_frame(Framing::Stream, &buffer[..length], &mut out);
    out
}

/// A CSM without options.
pub(crate) const CSM: &[u8] = &[0x00, 0xe1];

/// One endpoint with a connected, hand-written peer.
pub(crate) struct Lone {
    pub(crate) now: Instant,
    pub(crate) end: Endpoint,
    pub(crate) events: Vec<Event>,
    /// Sent messages in datagram format.
    pub(crate) sent: Vec<Vec<u8>>,
    /// Number of closed connections, and of connection requests.
    pub(crate) closed: usize,
    pub(crate) wanted: usize,
}

impl Lone {
    pub(crate) fn new(config: Config) -> Self {
        let mut lone = Self {
            now: Instant::ZERO,
            end: Endpoint::new(config, Draws(3)),
            events: Vec::new(),
            sent: Vec::new(),
            closed: 0,
            wanted: 0,
        };
        assert!(lone.connect());
        lone
    }

    /// Reports a connection to the endpoint.
    pub(crate) fn connect(&mut self) -> bool {
        let connected = self.end.connected(self.now, address(CLIENT));
        self.drain();
        connected
    }

    pub(crate) fn hear(&mut self, bytes: &[u8]) {
        self.end.handle_stream(self.now, address(CLIENT), bytes);
        self.drain();
    }

    pub(crate) fn lose(&mut self) {
        self.end
            .disconnected(self.now, address(CLIENT), Disconnect::Broken);
        self.drain();
    }

    pub(crate) fn drain(&mut self) {
        loop {
            match self.end.poll() {
                Output::Transmit { bytes, .. } => self.sent.push(datagram(Framing::Stream, bytes)),
                Output::Connect { .. } => self.wanted += 1,
                Output::Close { .. } => self.closed += 1,
                Output::Event(event) => self.events.push(event),
                Output::Wait(_) => return,
                _ => panic!("an output unknown to this test"),
            }
        }
    }

    pub(crate) fn pass(&mut self, span: Duration) {
        let end = self.now + span;
        loop {
            self.drain();
            let Output::Wait(due) = self.end.poll() else {
                panic!("it was drained")
            };
            let due = due.unwrap_or(Instant::FAR_FUTURE).max(self.now);
            if due > end {
                break;
            }
            self.now = due;
            self.end.handle_timeout(due);
        }
        self.now = end;
    }

    /// Takes the messages sent since the last call.
    pub(crate) fn told(&mut self) -> Vec<Vec<u8>> {
        core::mem::take(&mut self.sent)
    }

    /// Codes of the messages since the last call, as text.
    pub(crate) fn codes(&mut self) -> Vec<String> {
        let text = |m: Vec<u8>| Code(m[1]).to_string();
        self.told().into_iter().map(text).collect()
    }

    /// Requests that wait for the application, in order.
    pub(crate) fn requests(&mut self) -> Vec<IncomingId> {
        let ids = self.events.iter().filter_map(|event| match event {
            Event::Request(id) => Some(*id),
            _ => None,
        });
        let ids = ids.collect();
        self.events.clear();
        ids
    }

    pub(crate) fn respond(&mut self, id: IncomingId, response: &Response) {
        self.end.respond(self.now, id, response);
        self.drain();
    }

    pub(crate) fn request(&mut self, request: Request) -> RequestId {
        let to = address(CLIENT);
        let id = self
            .end
            .request(self.now, to, request, RequestConfig::default())
            .expect("taken");
        self.drain();
        id
    }
}

/// An endpoint after the exchange of CSMs.
pub(crate) fn introduced() -> Lone {
    let mut lone = Lone::new(config(|_| ()));
    lone.hear(CSM);
    lone.told();
    lone
}

/// A signalling message: code, integer options and diagnostic payload.
pub(crate) type Signal<'a> = (Code, Vec<(u16, u32)>, &'a str);

pub(crate) fn signal_of(message: &[u8]) -> Signal<'_> {
    let view = MessageView::parse_long(message).expect("well formed");
    assert!(view.code().is_signalling(), "{view:?}");
    let options = view.options();
    let uint = |value| decode_uint(value).expect("an integer");
    let options = options.map(|option| (option.number.0, uint(option.value)));
    let text = core::str::from_utf8(view.payload()).expect("UTF-8");
    (view.code(), options.collect(), text)
}
