//! Script of an endpoint over connections, for the fuzz target and for tests that include this file by
//! its path. The input is any sequence of stream fragments, connections, requests, responses and
//! times, for client and server. The endpoint must not panic, must keep its limits, and must free all
//! state at the end.

use std::net::SocketAddr;

use carob_cc::random::Random;
use carob_cc::time::{Duration, Instant};
use carob_proto::codec::frame::write_frame;
use carob_proto::codec::{Code, FrameReader, Framing};
use carob_proto::endpoint::{
    Config, Disconnect, Endpoint, Event, IncomingId, Output, RequestConfig, RequestId,
    StreamConfig, Subject,
};
use carob_proto::{Request, Response};

struct Draws(u32);

impl Random for Draws {
    fn next_u32(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        self.0
    }
}

/// Maximum number of messages sent in one step, its bytes apart: a notification for each observer, and
/// all queued messages.
const ANSWERS: usize = 1_000;

struct Run {
    end: Endpoint,
    framing: Framing,
    now: Instant,
    /// The token of the last request sent.
    token: Vec<u8>,
    /// Outstanding requests of the endpoint.
    asked: Vec<RequestId>,
    /// Requests of peers without a response.
    waiting: Vec<IncomingId>,
}

fn config(first: u8) -> Config {
    let mut reliable = StreamConfig::default();
    reliable.framing = if first & 1 == 0 {
        Framing::Stream
    } else {
        Framing::WebSocket
    };
    reliable.csm_required = first & 2 == 0;
    reliable.block_wise = first & 4 == 0;
    reliable.max_message_size = if first & 8 == 0 { 4_096 } else { 1_152 };
    reliable.window = 4;
    let mut config = Config::default();
    config.reliable = Some(reliable);
    config.limits.connections = 3;
    config.limits.partial_bytes = 2_000;
    config.limits.incoming = 4;
    config.limits.queue = 4;
    config.limits.requests = 8;
    config.limits.peers = 3;
    config.limits.uploads = 2;
    config.limits.all_upload_bytes = 8_192;
    config.limits.bodies = 2;
    config.limits.body_bytes = 16_384;
    config.limits.observers = 4;
    config
}

fn peer(what: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, what >> 6], 5683))
}

impl Run {
    fn step(&mut self, what: u8, bytes: &[u8]) {
        let (now, peer) = (self.now, peer(what));
        match what & 7 {
            0 | 1 => self.end.handle_stream(now, peer, bytes),
            2 => {
                // A whole message; as a response it has the token of the last request.
                if let Some((&code, rest)) = bytes.split_first() {
                    let token: &[u8] = if what & 8 == 0 { &[] } else { &self.token };
                    let mut message = vec![0x50 | token.len() as u8, code, 0, 0];
                    message.extend_from_slice(token);
                    message.extend_from_slice(rest);
                    let mut framed = Vec::new();
                    write_frame(self.framing, &message, &mut framed);
                    self.end.handle_stream(now, peer, &framed);
                }
            }
            3 => {
                let method =
                    [Code::GET, Code::PUT, Code::POST, Code::FETCH][usize::from(what >> 3 & 3)];
                let mut request = Request::new(method);
                if method != Code::GET {
                    request = request.with_payload(vec![7; bytes.len() * 64]);
                }
                let mut sending = RequestConfig::default();
                sending.observe = what & 32 != 0;
                self.asked
                    .extend(self.end.request(now, peer, request, sending));
            }
            4 => match what >> 3 & 7 {
                0 | 1 => {
                    self.end.connected(now, peer);
                }
                2 => self.end.disconnected(now, peer, Disconnect::Broken),
                3 => self.end.set_congested(now, peer, true),
                4 => self.end.set_congested(now, peer, false),
                5 => self.end.release(now, Some(peer)),
                6 => self.asked.extend(self.end.ping(now, peer)),
                _ => {
                    if let Some(id) = self.asked.pop() {
                        self.end.cancel(now, id);
                    }
                }
            },
            5 => {
                self.now += Duration::from_millis(1 << (what >> 3 & 31).min(18));
                self.end.handle_timeout(self.now);
            }
            6 => {
                if let Some(id) = self.waiting.pop() {
                    if what & 8 != 0 {
                        self.end.observe(now, id, Subject(1));
                    }
                    let body = "x".repeat(bytes.len() * 64);
                    let code = if what & 16 == 0 {
                        Code::CONTENT
                    } else {
                        Code::NOT_FOUND
                    };
                    self.end
                        .respond(now, id, &Response::diagnostic(code, &body));
                }
            }
            _ => {
                let state = Response::diagnostic(Code::CONTENT, &"y".repeat(bytes.len() * 16));
                // A notification too large for every observer is refused.
                let _ = self.end.notify(now, Subject(1), &state, false);
            }
        }
        let allowed = bytes.len() + ANSWERS;
        self.drain(allowed);
    }

    fn drain(&mut self, allowed: usize) {
        let mut sent = 0;
        loop {
            match self.end.poll() {
                Output::Transmit { bytes, .. } => {
                    sent += 1;
                    // One whole message, within the size limit of the sender.
                    let mut reader = FrameReader::new(self.framing, 1 << 20);
                    reader.push(bytes);
                    let message = reader.next().expect("well formed").expect("whole");
                    let length = usize::from(message[0] & 15);
                    if Code(message[1]).is_request() {
                        self.token = message[4..4 + length].to_vec();
                    }
                    assert_eq!(reader.held(), 0);
                }
                // The driver connects at once, or fails, by the last token: both paths are exercised.
                Output::Connect { to } => {
                    let now = self.now;
                    if self.token.first().is_some_and(|byte| byte & 1 == 0) {
                        self.end.disconnected(now, to, Disconnect::NotMade);
                    } else {
                        self.end.connected(now, to);
                    }
                }
                Output::Event(Event::Request(id)) => self.waiting.push(id),
                Output::Wait(_) => break,
                _ => {}
            }
        }
        assert!(sent <= allowed, "{sent} messages");
    }

    fn check(&self) {
        let limits = self.end.config().limits;
        let usage = self.end.usage();
        assert!(usage.connections <= limits.connections, "{usage:?}");
        assert!(usage.partial_bytes <= limits.partial_bytes, "{usage:?}");
        assert!(usage.peers <= limits.peers && usage.requests <= limits.requests);
        assert!(usage.incoming <= limits.incoming && usage.observers <= limits.observers);
        assert!(usage.uploads.0 <= limits.uploads && usage.bodies.0 <= limits.bodies);
        assert!(usage.uploads.1 <= limits.all_upload_bytes);
        assert!(usage.bodies.1 <= limits.body_bytes);
    }
}

/// Runs the script `data`: one byte of settings, then steps of kind, length and bytes.
pub(crate) fn run(data: &[u8]) {
    let Some((&first, mut rest)) = data.split_first() else {
        return;
    };
    let config = config(first);
    let framing = config
        .reliable
        .as_ref()
        .map_or(Framing::Stream, |r| r.framing);
    let mut run = Run {
        end: Endpoint::new(config, Draws(1)),
        framing,
        now: Instant::ZERO,
        token: vec![1],
        asked: Vec::new(),
        waiting: Vec::new(),
    };
    while let Some((&what, after)) = rest.split_first() {
        let length = after.first().map_or(0, |&n| usize::from(n));
        let after = after.get(1..).unwrap_or_default();
        let (bytes, next) = after.split_at(length.min(after.len()));
        rest = next;
        run.step(what, bytes);
        run.check();
    }
    // The end: every exchange is over, and all state must be free.
    run.end.shut_down(run.now);
    for id in core::mem::take(&mut run.waiting) {
        run.end
            .respond(run.now, id, &Response::new(Code::NOT_FOUND));
    }
    for n in 0..4 {
        run.end
            .disconnected(run.now, peer(n << 6), Disconnect::Closed);
    }
    run.drain(ANSWERS);
    let usage = run.end.usage();
    assert!(run.end.is_idle(), "{usage:?}");
    assert_eq!(
        (usage.observers, usage.observations, usage.partial_bytes),
        (0, 0, 0)
    );
    assert_eq!(usage.uploads, (0, 0));
}
