//! RFC 8516: 4.29 (Too Many Requests) and the pause for Max-Age.

use crate::net::wire::view;
use crate::net::{
    Stream, client_address, config, get, pattern, put, seconds, sending_with, server_address,
};
use carob_cc::time::{Duration, Instant};
use carob_proto::Response;
use carob_proto::codec::Code;
use carob_proto::endpoint::{Config, Endpoint, Event, Failure, Output, RequestConfig, RequestId};

/// A client and a server whose responses depend on the path.
struct Pair {
    now: Instant,
    client: Endpoint,
    sent: Vec<(Instant, Code, String)>,
    answer: fn(&str) -> Response,
    events: Vec<Event>,
}

fn too_many(path: &str) -> Response {
    match path {
        "busy" => Response::too_many_requests(seconds(10).into()),
        "forever" => Response::too_many_requests(seconds(1_000_000).into()),
        "plain" => Response::new(Code::TOO_MANY_REQUESTS),
        "down" => Response::new(Code::SERVICE_UNAVAILABLE).with_max_age(seconds(10).into()),
        _ => Response::new(Code::CONTENT),
    }
}

impl Pair {
    fn new(config: Config) -> Self {
        Self {
            now: Instant::ZERO + seconds(1),
            client: Endpoint::new(config, Stream(1)),
            sent: Vec::new(),
            answer: too_many,
            events: Vec::new(),
        }
    }

    fn ask(&mut self, request: carob_proto::Request) -> RequestId {
        let sending = RequestConfig::default();
        let id = (self.client).request(self.now, server_address(), request, sending);
        self.drain();
        id.unwrap()
    }

    fn drain(&mut self) -> Option<Instant> {
        loop {
            let request = match self.client.poll() {
                Output::Transmit { bytes, .. } => bytes.to_vec(),
                Output::Event(event) => {
                    self.events.push(event);
                    continue;
                }
                Output::Wait(at) => return at,
                _ => unreachable!(),
            };
            let message = view(&request);
            let path = crate::net::path_of(&message);
            self.sent.push((self.now, message.code(), path.clone()));
            // A new server each time, so that no request is a duplicate.
            let mut server = Endpoint::new(Config::default(), Stream(2));
            server.handle_datagram(self.now, client_address(), &request);
            let answer = match server.poll() {
                Output::Event(Event::Request(id)) => {
                    server.respond(self.now, id, &(self.answer)(&path));
                    None
                }
                // Part of a block-wise body.
                Output::Transmit { bytes, .. } => Some(bytes.to_vec()),
                _ => unreachable!(),
            };
            let bytes = answer.unwrap_or_else(|| match server.poll() {
                Output::Transmit { bytes, .. } => bytes.to_vec(),
                _ => unreachable!(),
            });
            self.client
                .handle_datagram(self.now, server_address(), &bytes);
        }
    }

    fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(due) = self.drain().filter(|due| *due <= end) {
            self.now = due.max(self.now);
            self.client.handle_timeout(self.now);
        }
        self.now = end;
    }

    /// Request times of a path in seconds since the start.
    fn times(&self, path: &str) -> Vec<u64> {
        let of = self.sent.iter().filter(|(_, _, asked)| asked == path);
        of.map(|(at, ..)| at.since(Instant::ZERO).as_millis() / 1_000)
            .collect()
    }
}

#[test]
fn similar_request_waits_for_max_age() {
    let mut pair = Pair::new(Config::default());
    for path in ["busy", "busy", "other", "busy"] {
        pair.ask(get(path));
    }
    pair.ask(put("busy", pattern(10)));
    pair.run_for(seconds(5));
    assert_eq!(
        (pair.times("busy"), pair.times("other")),
        (vec![1, 1], vec![1])
    );
    assert_eq!(pair.sent.last().unwrap().1, Code::PUT, "another method");
    pair.answer = |_| Response::new(Code::CONTENT);
    pair.run_for(seconds(10));
    assert_eq!(pair.times("busy"), [1, 1, 11, 11]);
    assert_eq!(pair.events.len(), 5, "all are answered");
    assert!(pair.client.is_idle());
}

#[test]
fn default_pause_is_60_s_and_cannot_be_prolonged() {
    let mut pair = Pair::new(Config::default());
    for path in ["plain", "plain", "forever", "forever"] {
        pair.ask(get(path));
    }
    pair.run_for(seconds(1_000));
    assert_eq!(pair.times("plain"), [1, 61]);
    assert_eq!(pair.times("forever"), [1, 301]);
    let mut pair = Pair::new(config(|config| config.pause_max = Duration::ZERO));
    pair.ask(get("forever"));
    pair.ask(get("forever"));
    assert_eq!(
        pair.times("forever"),
        [1, 1],
        "Max-Age 0 permits an immediate retry"
    );
}

#[test]
fn deadline_applies_during_the_pause() {
    let mut pair = Pair::new(Config::default());
    pair.ask(get("busy"));
    let asked = (pair.client).request(
        pair.now,
        server_address(),
        get("busy"),
        sending_with(|sending| sending.deadline = Some(seconds(3))),
    );
    let waiting = asked.unwrap();
    pair.run_for(seconds(4));
    let failed = pair.events.iter().any(|event| {
        matches!(event, Event::Failed { id, failure: Failure::DeadlinePassed } if *id == waiting)
    });
    assert!(failed && pair.client.is_idle(), "{:?}", pair.events);
    pair.run_for(seconds(60));
    assert_eq!(pair.times("busy"), [1]);
}

#[test]
fn paused_request_can_be_cancelled() {
    let mut pair = Pair::new(Config::default());
    pair.ask(get("busy"));
    let waiting = pair.ask(get("busy"));
    assert!(pair.client.cancel(pair.now, waiting));
    pair.run_for(seconds(60));
    assert_eq!(pair.times("busy"), [1]);
    assert!(pair.client.is_idle());
}

#[test]
fn unavailable_causes_no_pause_and_blockwise_bodies_pause_first() {
    let mut pair = Pair::new(Config::default());
    for _ in 0..2 {
        pair.ask(get("down"));
    }
    assert_eq!(
        pair.times("down"),
        [1, 1],
        "that is the application's choice"
    );
    pair.ask(put("busy", pattern(10)));
    pair.ask(put("busy", pattern(5_000)));
    pair.run_for(seconds(5));
    assert_eq!(pair.times("busy"), [1]);
    pair.run_for(seconds(10));
    assert!(pair.times("busy").len() > 1);
}
