//! Facts about two endpoints that exchange messages.

use std::net::{Ipv6Addr, SocketAddr};

use bytes::Bytes;
use carob_cc::time::{Duration, Instant};
use carob_proto::codec::frame::FrameHead;
use carob_proto::codec::{BlockSize, BlockValue, Code, MessageView, OptionNumber};
use carob_proto::endpoint::{
    Config, Endpoint, Event, IncomingId, Output, RETRANSMISSION_COUNT, RequestConfig, StreamConfig,
};
use carob_proto::message::Payload;
use carob_proto::{Request, Response};
use carob_sim::random::Stream;
use carob_sim::spec::ControllerSpec;

const CLIENT: usize = 0;
const SERVER: usize = 1;

fn address(end: usize) -> SocketAddr {
    (
        Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, end as u16 + 1),
        5683,
    )
        .into()
}

/// A client and a server, over datagrams or a connection.
struct Pair {
    now: Instant,
    ends: [Endpoint; 2],
    /// The messages sent by each endpoint, in order.
    said: [Vec<Vec<u8>>; 2],
    /// Requests that wait for their answers.
    waiting: Vec<IncomingId>,
    /// Bodies of responses, in the order in which they came.
    bodies: Vec<Bytes>,
    over_connection: bool,
    /// The client's next datagrams are lost.
    lose: u32,
}

impl Pair {
    fn new(client: Config, server: Config) -> Self {
        let over_connection = client.reliable.is_some();
        Self {
            now: Instant::ZERO,
            ends: [
                Endpoint::new(client, Stream::new(1, "unit/client")),
                Endpoint::new(server, Stream::new(1, "unit/server")),
            ],
            said: Default::default(),
            waiting: Vec::new(),
            bodies: Vec::new(),
            over_connection,
            lose: 0,
        }
    }

    fn ask(&mut self, path: &str) -> Option<()> {
        let request = Request::get().with_path(path).ok()?;
        let sending = RequestConfig::default();
        let asked = self.ends[CLIENT].request(self.now, address(SERVER), request, sending);
        asked.ok().map(|_| ())
    }

    fn answer(&mut self, id: IncomingId, body: impl Into<Bytes>) {
        let mut response = Response::new(Code::CONTENT);
        response.payload = Payload::Fixed(body.into());
        self.ends[SERVER].respond(self.now, id, &response);
    }

    /// Takes an endpoint's messages and events. Returns true if there were any.
    fn drain(&mut self, end: usize, delivers: bool) -> bool {
        let mut any = false;
        loop {
            match self.ends[end].poll() {
                Output::Transmit { bytes, .. } => {
                    let bytes = bytes.to_vec();
                    self.said[end].push(bytes.clone());
                    let lost = end == CLIENT && self.lose > 0;
                    self.lose = self.lose.saturating_sub(u32::from(lost));
                    if delivers && !lost {
                        self.hear(1 - end, &bytes);
                    }
                }
                Output::Event(Event::Request(id)) => self.waiting.push(id),
                Output::Event(Event::Response { response, .. }) => {
                    self.bodies.push(Bytes::copy_from_slice(response.bytes()));
                }
                Output::Wait(_) => return any,
                _ => {}
            }
            any = true;
        }
    }

    fn hear(&mut self, end: usize, bytes: &[u8]) {
        let from = address(1 - end);
        if self.over_connection {
            self.ends[end].handle_stream(self.now, from, bytes);
        } else {
            self.ends[end].handle_datagram(self.now, from, bytes);
        }
    }

    /// Until both wait.
    fn settle(&mut self) {
        while self.drain(CLIENT, true) | self.drain(SERVER, true) {}
    }

    fn connect(&mut self, end: usize) {
        self.ends[end].connected(self.now, address(1 - end));
    }

    /// Lets time pass, second by second.
    fn pass(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.now += Duration::from_secs(1);
            for end in [CLIENT, SERVER] {
                self.ends[end].handle_timeout(self.now);
            }
            self.settle();
        }
    }

    /// The codes of the messages that an endpoint has sent over a connection.
    fn codes(&self, end: usize) -> Vec<Code> {
        let heads = self.said[end].iter();
        let heads = heads.filter_map(|bytes| FrameHead::parse(bytes).ok().flatten());
        heads.map(|head| head.code).collect()
    }
}

fn over_connection() -> Config {
    let mut config = Config::default();
    let mut reliable = StreamConfig::default();
    reliable.csm_required = true;
    config.reliable = Some(reliable);
    config
}

#[allow(
    clippy::unnecessary_wraps,
    reason = "what every question here ends with"
)]
fn truth(is_so: bool) -> Option<f64> {
    Some(f64::from(u8::from(is_so)))
}

pub(super) fn csm(which: &str) -> Option<f64> {
    let mut pair = Pair::new(over_connection(), over_connection());
    match which {
        "client-first" | "server-first" => {
            pair.ask("a")?;
            pair.connect(CLIENT);
            pair.connect(SERVER);
            pair.settle();
            let end = usize::from(which == "server-first");
            truth(pair.codes(end).first() == Some(&Code::CSM))
        }
        "no-wait" => {
            pair.ask("a")?;
            pair.connect(CLIENT);
            // None of its messages arrive, so it receives no response.
            pair.drain(CLIENT, false);
            truth(pair.codes(CLIENT) == [Code::CSM, Code::GET])
        }
        "missing" | "invalid" => {
            pair.connect(SERVER);
            if which == "invalid" {
                // A CSM with the critical option 9 of no bytes.
                pair.hear(SERVER, &[0x10, 0xe1, 0x90]);
            }
            pair.settle();
            pair.pass(60);
            truth(pair.codes(SERVER).last() == Some(&Code::ABORT))
        }
        _ => None,
    }
}

pub(super) fn any_order(_: &str) -> Option<f64> {
    let mut pair = Pair::new(over_connection(), over_connection());
    pair.connect(CLIENT);
    pair.connect(SERVER);
    for path in ["a", "b", "c"] {
        pair.ask(path)?;
    }
    pair.settle();
    let mut waiting = std::mem::take(&mut pair.waiting);
    waiting.reverse();
    for id in waiting {
        let path = pair.ends[SERVER].incoming(id)?.message;
        let path = path.option(OptionNumber::URI_PATH)?.to_vec();
        pair.answer(id, path);
    }
    pair.settle();
    // The last request was answered first: answers come like that, each with its own path.
    let own = pair.bodies.iter().zip(["c", "b", "a"]);
    Some(own.filter(|(body, path)| *body == path).count() as f64)
}

pub(super) fn negotiated_block(which: &str) -> Option<f64> {
    let (client, mut server) = (Config::default(), Config::default());
    server.block_size = BlockSize::from_bytes_at_most(64)?;
    let mut pair = Pair::new(client, server);
    pair.ask("a")?;
    pair.settle();
    for id in std::mem::take(&mut pair.waiting) {
        pair.answer(id, vec![7; 1_000]);
    }
    for _ in 0..100 {
        pair.settle();
        for id in std::mem::take(&mut pair.waiting) {
            pair.answer(id, vec![7; 1_000]);
        }
    }
    let lengths: Vec<usize> = pair.said[SERVER]
        .iter()
        .filter_map(|bytes| MessageView::parse(bytes).ok())
        .filter(|message| {
            let block = message.option(OptionNumber::BLOCK2);
            block.is_some_and(|value| BlockValue::decode(value).is_ok())
        })
        .map(|message| message.payload().len())
        .collect();
    let whole = pair.bodies.first().is_some_and(|body| body.len() == 1_000);
    let (last, before) = lengths.split_last()?;
    let same = before
        .iter()
        .all(|length| length == before.first().unwrap_or(length));
    if !whole || !same {
        return Some(-1.0);
    }
    let bytes = match which {
        "first" => before.first()?,
        "middle" => before.last()?,
        "last" => last,
        _ => return None,
    };
    Some(*bytes as f64)
}

/// The count that a message carries.
fn count_of(bytes: &[u8]) -> Option<Vec<u8>> {
    let message = MessageView::parse(bytes).ok()?;
    message.option(RETRANSMISSION_COUNT).map(<[u8]>::to_vec)
}

pub(super) fn count_option(which: &str) -> Option<f64> {
    if which == "critical" {
        return truth(RETRANSMISSION_COUNT.is_critical());
    }
    let mut client = Config::default();
    client.controller = ControllerSpec::new("rtt-count", []).ok()?.choice();
    let mut server = Config::default();
    if which == "ignored" {
        server.retransmission_count_option = OptionNumber(0);
    }
    let mut pair = Pair::new(client, server);
    pair.ask("a")?;
    // Two copies are lost; the third arrives and is answered at once.
    pair.lose = 2;
    for _ in 0..30 {
        pair.pass(1);
        for id in std::mem::take(&mut pair.waiting) {
            pair.answer(id, "state");
        }
    }
    let counts: Vec<_> = pair.said[CLIENT].iter().map(|b| count_of(b)).collect();
    let [first, rest @ ..] = &counts[..] else {
        return None;
    };
    let answered = pair.bodies == [Bytes::from_static(b"state")];
    match which {
        "first" => truth(first.is_some()),
        "copies" => {
            let own = rest
                .iter()
                .zip(1..)
                .all(|(count, n)| *count == Some(vec![n]));
            truth(rest.len() >= 2 && own)
        }
        "echoed" => {
            let echoed = pair.said[SERVER].iter().filter_map(|bytes| count_of(bytes));
            let echoed: Vec<_> = echoed.collect();
            truth(
                answered
                    && !echoed.is_empty()
                    && echoed.iter().all(|e| rest.contains(&Some(e.clone()))),
            )
        }
        "ignored" => {
            let echoed = pair.said[SERVER]
                .iter()
                .any(|bytes| count_of(bytes).is_some());
            truth(answered && !echoed)
        }
        _ => None,
    }
}
