//! RFC 7641: the response to a registration as the first notification (`vectors/requirements.toml`).

use crate::net::wire::{Wire, blocks, con, empty, non, shapes, view};
use crate::net::{Net, Stream, client_address, config, get, observing, pattern, seconds};
use carob_cc::time::Instant;
use carob_proto::codec::{BlockSize, Code, ContentFormat, ETag, OptionNumber};
use carob_proto::congestion::CongestionControl;
use carob_proto::endpoint::{
    Config, Endpoint, Event, IncomingId, Output, RequestConfig, RequestError, Subject,
};
use carob_proto::message::Payload;
use carob_proto::{Request, Response};

const LIGHT: Subject = Subject(0);

/// A server; the test is its application.
struct Server {
    endpoint: Endpoint,
    now: Instant,
    sent: Vec<Vec<u8>>,
    requests: Vec<IncomingId>,
}

impl Server {
    fn new(config: Config) -> Self {
        Self {
            endpoint: Endpoint::new(config, Stream(1)),
            now: Instant::ZERO,
            sent: Vec::new(),
            requests: Vec::new(),
        }
    }

    fn hear(&mut self, message: &[u8]) {
        let from = client_address();
        self.endpoint.handle_datagram(self.now, from, message);
        self.drain();
    }

    /// Adds the sender of a request to the observers and responds.
    fn register(&mut self, request: &Wire, answer: &Response) {
        self.hear(&request.bytes());
        let id = self.requests.pop().expect("the request has arrived");
        assert!(self.endpoint.observe(self.now, id, LIGHT));
        self.endpoint.respond(self.now, id, answer);
        self.drain();
    }

    fn notify(&mut self, response: &Response, confirmable: bool) {
        self.endpoint
            .notify(self.now, LIGHT, response, confirmable)
            .unwrap();
        self.drain();
    }

    /// Advances time and handles timeouts.
    fn wait(&mut self, secs: u64) {
        let end = self.now + seconds(secs);
        loop {
            self.drain();
            match self.endpoint.poll() {
                Output::Wait(Some(due)) if due <= end => {
                    self.now = due;
                    self.endpoint.handle_timeout(due);
                }
                _ => break,
            }
        }
        self.now = end;
    }

    fn drain(&mut self) {
        loop {
            match self.endpoint.poll() {
                Output::Transmit { bytes, .. } => self.sent.push(bytes.to_vec()),
                Output::Event(Event::Request(id)) => self.requests.push(id),
                Output::Event(_) => {}
                _ => return,
            }
        }
    }

    fn shapes(&self) -> Vec<String> {
        let all: Vec<_> = self.sent.iter().map(|bytes| &bytes[..]).collect();
        shapes(&all)
    }

    fn observers(&self) -> usize {
        self.endpoint.observers(LIGHT)
    }

    fn last(&self) -> &[u8] {
        self.sent.last().unwrap()
    }
}

fn register(id: u16) -> Wire {
    con(Code::GET, id).option(6, b"").path("light")
}

fn text(text: &'static str) -> Response {
    Response::content(ContentFormat::TEXT_PLAIN, text)
}

fn etag(message: &[u8]) -> Option<&[u8]> {
    view(message).option(OptionNumber::ETAG)
}

mod refused {
    use super::*;

    /// A registration with an Empty ACK and a separate response.
    fn answered_late(request: &Wire) -> Server {
        let mut server = Server::new(Config::default());
        server.hear(&request.bytes());
        let id = server.requests.pop().unwrap();
        assert!(server.endpoint.observe(server.now, id, LIGHT));
        server.wait(1);
        server.endpoint.respond(server.now, id, &text("off"));
        server.drain();
        assert_eq!(server.observers(), 1);
        server
    }

    #[test]
    fn unacknowledged_first_notification_removes_the_observer() {
        let mut server = answered_late(&register(1));
        assert_eq!(server.shapes(), ["ACK 0.00", "CON 2.05"]);
        server.wait(100);
        assert_eq!(server.shapes()[1..], ["CON 2.05"; 5]);
        assert_eq!(server.observers(), 0);
    }

    #[test]
    fn rejected_first_notification_removes_the_observer() {
        for request in [register(1), non(Code::GET, 1).option(6, b"").path("light")] {
            let mut server = answered_late(&request);
            let id = view(server.last()).message_id().0;
            server.hear(&empty(carob_proto::codec::Type::Reset, id));
            assert_eq!(server.observers(), 0);
        }
    }

    #[test]
    fn second_registration_keeps_the_observer() {
        let mut server = answered_late(&register(1));
        server.wait(50);
        server.register(&register(2), &text("off"));
        server.wait(100);
        assert_eq!(server.observers(), 1);
    }

    #[test]
    fn unbuildable_response_registers_no_observer() {
        let mut server = Server::new(Config::default());
        let mut large = text("off");
        for _ in 0..2 {
            let value = [b'x'; 1_000];
            large.options.push(OptionNumber(2_048), &value).unwrap();
        }
        server.register(&register(1), &large);
        assert_eq!(server.shapes(), ["ACK 5.00"]);
        assert_eq!(view(server.last()).option(OptionNumber::OBSERVE), None);
        assert_eq!(server.observers(), 0);
    }
}

mod tags {
    use super::*;

    const DAY: u64 = 24 * 3_600;

    fn tagged(content: &'static str, tag: u64) -> Response {
        text(content).with_etag(ETag::from(tag))
    }

    #[test]
    fn registration_with_current_etag_gets_2_03_then_full_state() {
        let mut server = Server::new(Config::default());
        let request = register(1).token(b"1").option(4, &[1]);
        let valid = tagged("off", 1).validated().unwrap();
        server.register(&request, &valid);
        let first = view(server.last());
        assert_eq!(first.code(), Code::VALID);
        assert!(first.option(OptionNumber::OBSERVE).is_some());
        server.notify(&tagged("on", 2), false);
        let second = view(server.last());
        assert_eq!(
            (second.code(), second.payload()),
            (Code::CONTENT, &b"on"[..])
        );
        assert!(second.option(OptionNumber::OBSERVE).is_some());
        assert_eq!(server.observers(), 1);
    }

    #[test]
    fn etag_of_another_observer_gives_no_2_03() {
        let mut server = Server::new(Config::default());
        let valid = tagged("off", 1).validated().unwrap();
        server.register(&register(1).token(b"1").option(4, &[1]), &valid);
        server.register(&register(2).token(b"2"), &tagged("off", 1));
        server.sent.clear();
        // Each observer gets a CON notification with a full representation.
        server.wait(DAY);
        assert_eq!(server.shapes()[0], "CON 2.05");
        assert!(server.shapes().iter().all(|shape| shape == "CON 2.05"));
    }

    #[test]
    fn valid_notification_needs_no_matching_format() {
        let mut server = Server::new(Config::default());
        server.register(&register(1), &tagged("off", 1));
        server.notify(&tagged("off", 1).validated().unwrap(), false);
        assert_eq!(view(server.last()).code(), Code::VALID);
        server.notify(&tagged("on", 2), false);
        assert_eq!(view(server.last()).code(), Code::CONTENT);
        assert_eq!(server.observers(), 1);
    }

    #[test]
    fn known_etag_is_notified_2_03_and_used_in_renewal() {
        let mut net = Net::plain();
        net.observable("light", "off");
        let mut request = get("light");
        request.options.push(OptionNumber::ETAG, &[1]).unwrap();
        net.send_with(request, observing());
        net.run_for(seconds(1));
        let valid = tagged("off", 1).validated().unwrap();
        net.server.notify(net.now, LIGHT, &valid, false).unwrap();
        net.run_for(seconds(1));
        let told = net.events.iter().filter_map(|(_, event)| match event {
            Event::Notification { response, .. } => Some((response.code, response.etag())),
            _ => None,
        });
        let expected = [(Code::CONTENT, None), (Code::VALID, Some(ETag::from(1)))];
        assert_eq!(told.collect::<Vec<_>>(), expected);
        net.run_for(seconds(90));
        let [first, renewal] = net.sent_by_client()[..] else {
            panic!("one registration and one renewal");
        };
        assert_eq!(
            (etag(first), etag(renewal)),
            (Some(&[1][..]), Some(&[1][..]))
        );
    }

    #[test]
    fn block_wise_notification_has_an_etag() {
        let mut server = Server::new(Config::default());
        let block = (0, false, 64);
        let request = register(1).block(OptionNumber::BLOCK2, block);
        let state = |n: usize| Response::new(Code::CONTENT).with_payload(pattern(300).slice(n..));
        server.register(&request, &state(0));
        for n in 1..=2 {
            let before = etag(server.last()).map(<[u8]>::to_vec);
            server.notify(&state(n), n == 2);
            assert_eq!(view(server.last()).payload().len(), 64);
            assert!(etag(server.last()).is_some());
            assert_ne!(etag(server.last()).map(<[u8]>::to_vec), before);
        }
        // Further blocks belong to the notified representation.
        let tag = etag(server.last()).unwrap().to_vec();
        let rest = con(Code::GET, 9).path("light");
        server.hear(&rest.block(OptionNumber::BLOCK2, (1, false, 64)).bytes());
        assert_eq!(etag(server.last()), Some(&tag[..]));
        assert_eq!(view(server.last()).payload(), &pattern(300)[66..130]);
    }
}

mod formats {
    use super::*;

    fn of(format: Option<ContentFormat>) -> Response {
        let response = Response::new(Code::CONTENT).with_payload("1");
        match format {
            Some(format) => response.with_format(format),
            None => response,
        }
    }

    #[test]
    fn notification_in_another_format_becomes_4_06() {
        let (json, text) = (Some(ContentFormat::JSON), Some(ContentFormat::TEXT_PLAIN));
        for first in [json, None] {
            for next in [json, text, None] {
                let mut server = Server::new(Config::default());
                server.register(&register(1), &of(first));
                server.notify(&of(first), false);
                server.notify(&of(next), false);
                let same = first == next;
                let expected = if same {
                    Code::CONTENT
                } else {
                    Code::NOT_ACCEPTABLE
                };
                let last = view(server.last());
                assert_eq!(last.code(), expected, "{first:?}, then {next:?}");
                assert_eq!(last.option(OptionNumber::OBSERVE).is_some(), same);
                assert_eq!(server.observers(), usize::from(same));
            }
        }
    }
}

mod listing {
    use super::*;

    #[test]
    fn registration_in_another_format_is_not_an_observer() {
        let mut server = Server::new(Config::default());
        let json = Response::content(ContentFormat::JSON, "1");
        server.register(&register(1).token(b"1"), &text("off"));
        server.register(&register(2).token(b"2"), &json);
        assert_eq!(view(server.last()).option(OptionNumber::OBSERVE), None);
        assert_eq!(server.observers(), 1);
        // Its only observer may register again.
        server.register(&register(3).token(b"1"), &json);
        assert!(view(server.last()).option(OptionNumber::OBSERVE).is_some());
        server.notify(&json, false);
        assert_eq!(view(server.last()).code(), Code::CONTENT);
        assert_eq!(server.observers(), 1);
    }
}

mod waiting {
    use super::*;

    fn paced() -> Config {
        config(|config| config.controller = CongestionControl::named("observe-static").unwrap())
    }

    #[test]
    fn confirmable_state_stays_con_when_replacing_a_non() {
        let mut server = Server::new(paced());
        server.register(&register(1), &text("off"));
        server.notify(&text("on"), false);
        server.notify(&text("dim"), false); // waits
        server.notify(&text("off"), true);
        server.wait(3);
        assert_eq!(server.shapes()[1..], ["NON 2.05", "CON 2.05"]);
        assert_eq!(view(server.last()).payload(), b"off");
    }

    #[test]
    fn observer_must_confirm_after_a_day_despite_queued_state() {
        const DAY: u64 = 24 * 3_600;
        let mut server = Server::new(paced());
        server.register(&register(1), &text("off"));
        server.wait(DAY - 1);
        server.notify(&text("on"), false);
        server.notify(&text("dim"), false); // waits until the day is over
        server.wait(3);
        assert_eq!(server.shapes()[1..], ["NON 2.05", "CON 2.05"]);
    }

    #[test]
    fn confirmation_repeats_the_newest_response() {
        const DAY: u64 = 24 * 3_600;
        let mut server = Server::new(Config::default());
        server.register(&register(1).token(b"1"), &text("off"));
        server.wait(DAY / 2);
        // The state has changed without a notification.
        server.register(&register(2).token(b"2"), &text("on"));
        server.sent.clear();
        server.wait(DAY / 2);
        assert_eq!(view(&server.sent[0]).payload(), b"on");
    }
}

mod bodies {
    use super::*;

    /// The first part of a body of 3000 bytes, generated for this block size.
    fn part(size: usize) -> Response {
        let mut response = Response::new(Code::CONTENT).with_etag(ETag::from(1));
        response.payload = Payload::Part {
            offset: 0,
            bytes: pattern(3_000).slice(..size),
            more: true,
            size: Some(3_000),
        };
        response
    }

    #[test]
    fn partial_state_uses_blocks_for_reader_and_observers() {
        let registered = |id, size| {
            let request = register(id).token(&[id as u8]);
            request.block(OptionNumber::BLOCK2, (0, false, size))
        };
        for (read, told) in [(1_024, [64, 1_024]), (64, [64, 64]), (256, [64, 256])] {
            let mut server = Server::new(Config::default());
            server.register(&registered(1, 1_024), &part(1_024));
            server.register(&registered(2, 64), &part(64));
            server.sent.clear();
            server.notify(&part(read), false);
            let all: Vec<_> = server.sent.iter().map(|bytes| &bytes[..]).collect();
            let expected = told.map(|size| Some((0, true, size)));
            assert_eq!(blocks(&all, OptionNumber::BLOCK2), expected, "read {read}");
            for (message, size) in all.iter().zip(told) {
                assert_eq!(view(message).payload(), &pattern(3_000)[..size]);
            }
            // CON after a day, for every kind of registration.
            server.wait(25 * 3_600);
            assert_eq!(
                server.observers(),
                0,
                "an observer that did not acknowledge remains"
            );
        }
    }

    #[test]
    fn part_of_a_body_is_refused_as_notification() {
        let mut server = Server::new(Config::default());
        server.register(&register(1), &text("off"));
        let mut middle = part(64);
        if let Payload::Part { offset, .. } = &mut middle.payload {
            *offset = 64;
        }
        let outcome = server.endpoint.notify(server.now, LIGHT, &middle, false);
        assert!(outcome.is_err());
        assert_eq!(server.observers(), 1);
    }

    #[test]
    fn state_at_size_limit_fits_longest_observe_and_token() {
        let mut server = Server::new(Config::default());
        // The maximum size for a token of one byte and an empty Observe value.
        let mut full = Response::new(Code::CONTENT).with_payload(pattern(1_024));
        full.options.push(OptionNumber(2_048), &[0; 190]).unwrap();
        server.register(&register(1).token(b"1"), &full);
        server.register(&register(2).token(b"12345678"), &text("off"));
        server.wait(25 * 3_600);
        assert_eq!(server.observers(), 0, "all were asked");
        let mut server = Server::new(Config::default());
        server.register(&register(1).token(b"1"), &text("off"));
        for n in (180..=200).rev() {
            let mut full = Response::new(Code::CONTENT).with_payload(pattern(1_024));
            full = full.with_format(ContentFormat::TEXT_PLAIN);
            full.options.push(OptionNumber(2_048), &vec![0; n]).unwrap();
            // A notification that is accepted must be sent.
            let told = server.sent.len();
            let taken = server.endpoint.notify(server.now, LIGHT, &full, false);
            server.drain();
            assert_eq!(server.sent.len() - told, usize::from(taken.is_ok()), "{n}");
        }
    }

    #[test]
    fn fetch_with_block_wise_query_observes() {
        let mut net = Net::new(
            config(|config| config.block_size = BlockSize::from_bytes_at_most(64).unwrap()),
            Config::default(),
        );
        net.observable("light", "off");
        let sending = observing();
        let mut request = Request::new(Code::FETCH).with_path("light").unwrap();
        request.payload = pattern(300);
        let id = net.send_with(request, sending);
        net.run_for(seconds(5));
        net.change("light", "on", false);
        net.run_for(seconds(90));
        assert_eq!(net.states(), ["off", "on", "on"]);
        assert_eq!(net.server.observers(LIGHT), 1);
        // Without pending messages, other bodies can be sent.
        let mut other = Request::new(Code::FETCH).with_path("light").unwrap();
        other.payload = pattern(200);
        net.send(other);
        net.change("light", "dim", true);
        net.run_for(seconds(5));
        assert_eq!(net.states()[3..], ["dim"]);
        assert_eq!(net.responses().len(), 1);
        assert!(net.client.stop_observing(net.now, id));
        net.run_for(seconds(5));
        assert_eq!(net.server.observers(LIGHT), 0);
        assert_eq!(net.responses().len(), 2);
        assert!(net.client.is_idle());
    }

    #[test]
    fn streamed_fetch_cannot_observe() {
        let mut net = Net::plain();
        let mut sending = RequestConfig::default();
        sending.observe = true;
        sending.request_body = carob_proto::endpoint::BodyMode::Streamed;
        let request = Request::new(Code::FETCH).with_path("light").unwrap();
        let outcome = net
            .client
            .request(net.now, crate::net::server_address(), request, sending);
        assert_eq!(outcome, Err(RequestError::NotObservable));
    }
}
