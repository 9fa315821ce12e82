//! Multicast requests and responses (RFC 7252 8, RFC 7959 2.8).

#![allow(clippy::unnecessary_wraps, reason = "all answer alike")]

use crate::net::wire::view;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use crate::net::{Stream, config, millis, seconds};
use bytes::Bytes;
use carob_cc::time::{Duration, Instant};
use carob_proto::codec::{Code, ContentFormat, MessageView, OptionNumber, Type};
use carob_proto::endpoint::{
    Config, Endpoint, Event, Failure, Leisure, MulticastRequest, Output, RequestConfig,
    RequestError, RequestId,
};
use carob_proto::message::Payload;
use carob_proto::prefix::AmplificationLimit;
use carob_proto::{Request, Response};

const DELAY: Duration = Duration::from_millis(10);

fn group() -> SocketAddr {
    "224.0.1.187:5683".parse().unwrap()
}

fn client_address() -> SocketAddr {
    "10.0.0.1:40000".parse().unwrap()
}

fn member_address(n: usize) -> SocketAddr {
    ([10, 0, 1, n as u8], 5683).into()
}

fn asking() -> Config {
    config(|config| config.groups = true)
}

/// A datagram on the network.
#[derive(Clone, Debug)]
struct Seen {
    at: Instant,
    from: SocketAddr,
    to: SocketAddr,
    bytes: Vec<u8>,
}

impl Seen {
    fn view(&self) -> MessageView<'_> {
        view(&self.bytes)
    }
}

type Answer = fn(usize, &MessageView<'_>) -> Option<Response>;

/// A client and the members of a group on one network.
struct Wire {
    now: Instant,
    client: Endpoint,
    members: Vec<Endpoint>,
    answer: Answer,
    flying: BTreeMap<(Instant, u64), Seen>,
    next: u64,
    seen: Vec<Seen>,
    events: Vec<Event>,
}

impl Wire {
    fn new(members: usize, config: &Config, answer: Answer) -> Self {
        let member = |n| Endpoint::new(config.clone(), Stream(1_000 + n as u64));
        Self {
            now: Instant::ZERO + seconds(1),
            client: Endpoint::new(asking(), Stream(1)),
            members: (0..members).map(member).collect(),
            answer,
            flying: BTreeMap::new(),
            next: 0,
            seen: Vec::new(),
            events: Vec::new(),
        }
    }

    fn send(&mut self, from: SocketAddr, to: SocketAddr, bytes: Vec<u8>) {
        let at = self.now;
        let seen = Seen {
            at,
            from,
            to,
            bytes,
        };
        self.seen.push(seen.clone());
        self.next += 1;
        self.flying.insert((at + DELAY, self.next), seen);
    }

    /// Drains all endpoints; returns the next timeout.
    fn drain(&mut self) -> Option<Instant> {
        let mut due: Option<Instant> = None;
        let mut leaving = Vec::new();
        loop {
            match self.client.poll() {
                Output::Transmit { to, bytes } => {
                    leaving.push((client_address(), to, bytes.to_vec()));
                }
                Output::Event(event) => self.events.push(event),
                Output::Wait(at) => {
                    due = due.into_iter().chain(at).min();
                    break;
                }
                _ => unreachable!("there are no connections"),
            }
        }
        for (n, member) in self.members.iter_mut().enumerate() {
            loop {
                match member.poll() {
                    Output::Transmit { to, bytes } => {
                        leaving.push((member_address(n), to, bytes.to_vec()));
                    }
                    Output::Event(Event::Request(id)) => {
                        let incoming = member.incoming(id).unwrap();
                        let response = (self.answer)(n, &incoming.message);
                        if let Some(response) = response {
                            member.respond(self.now, id, &response);
                        }
                    }
                    Output::Event(_) => {}
                    Output::Wait(at) => {
                        due = due.into_iter().chain(at).min();
                        break;
                    }
                    _ => unreachable!("there are no connections"),
                }
            }
        }
        for (from, to, bytes) in leaving {
            self.send(from, to, bytes);
            due = Some(self.now);
        }
        due
    }

    fn run(&mut self, until: Instant) {
        loop {
            let due = self.drain();
            let arrival = self.flying.keys().next().map(|(at, _)| *at);
            let Some(at) = due.into_iter().chain(arrival).min() else {
                return;
            };
            if at > until {
                self.now = until;
                return;
            }
            self.now = self.now.max(at);
            let now = self.now;
            while let Some(entry) = self.flying.first_entry() {
                if entry.key().0 > now {
                    break;
                }
                let Seen {
                    from, to, bytes, ..
                } = entry.remove();
                if to == group() {
                    for member in &mut self.members {
                        member.handle_group_datagram(now, from, &bytes);
                    }
                } else if to == client_address() {
                    self.client.handle_datagram(now, from, &bytes);
                } else {
                    let n = usize::from(match to {
                        SocketAddr::V4(to) => to.ip().octets()[3],
                        SocketAddr::V6(_) => unreachable!(),
                    });
                    self.members[n].handle_datagram(now, from, &bytes);
                }
            }
            self.client.handle_timeout(now);
            for member in &mut self.members {
                member.handle_timeout(now);
            }
        }
    }

    fn multicast(&mut self, request: Request) -> RequestId {
        let now = self.now;
        self.client
            .multicast(now, group(), request, MulticastRequest::default())
            .unwrap()
    }

    /// Successful responses by member.
    fn answers(&self) -> BTreeMap<SocketAddr, Bytes> {
        let of = |event: &Event| match event {
            Event::MulticastResponse {
                from,
                response: Ok(response),
                ..
            } => Some((*from, response.bytes().clone())),
            Event::MulticastResponse { response, .. } => panic!("{response:?}"),
            _ => None,
        };
        self.events.iter().filter_map(of).collect()
    }

    fn members_said(&self) -> Vec<&Seen> {
        let own = |seen: &&Seen| seen.from != client_address();
        self.seen.iter().filter(own).collect()
    }
}

fn name(n: usize, _: &MessageView<'_>) -> Option<Response> {
    Some(text(format!("member {n}")))
}

fn text(text: impl Into<Bytes>) -> Response {
    Response::content(ContentFormat::TEXT_PLAIN, text)
}

fn get(path: &str) -> Request {
    let mut request = Request::get();
    request
        .options
        .push(OptionNumber::URI_PATH, path.as_bytes())
        .unwrap();
    request
}

#[test]
fn group_members_respond_once_within_leisure() {
    let mut wire = Wire::new(40, &Config::default(), name);
    let began = wire.now;
    let id = wire.multicast(get("name"));
    wire.run(began + seconds(20));
    let answers = wire.answers();
    assert_eq!(answers.len(), 40);
    assert_eq!(answers[&member_address(7)], "member 7");
    assert!(matches!(wire.events.last(), Some(Event::MulticastComplete(last)) if *last == id));
    assert_eq!(wire.events.len(), 41);
    // One NON request; NON responses within DEFAULT_LEISURE (5 s).
    let to_group: Vec<&Seen> = wire.seen.iter().filter(|s| s.to == group()).collect();
    assert_eq!(to_group.len(), 1);
    assert_eq!(to_group[0].view().kind(), Type::NonConfirmable);
    assert_eq!(to_group[0].view().token().len(), 8);
    let times: Vec<f64> = wire
        .members_said()
        .iter()
        .map(|seen| {
            assert_eq!(seen.view().kind(), Type::NonConfirmable);
            seen.at.since(began + DELAY).as_micros() as f64 / 1e6
        })
        .collect();
    assert!(times.iter().all(|at| *at < 5.0), "{times:?}");
    let distinct: BTreeSet<u64> = times.iter().map(|at| (at * 1e6) as u64).collect();
    assert_eq!(distinct.len(), 40);
    let mean = times.iter().sum::<f64>() / 40.0;
    assert!(
        (1.5..3.5).contains(&mean),
        "uniform over the leisure: {mean}"
    );
    assert!(wire.client.is_idle());
}

#[test]
fn leisure_follows_from_known_group_size() {
    let mut config = Config::default();
    // 23 bytes x 100 members at 115 bytes per second: 20 s.
    config.leisure = Leisure::Estimated {
        members: 100,
        rate: 115,
    };
    let mut wire = Wire::new(40, &config, name);
    let began = wire.now;
    wire.multicast(get("name"));
    wire.run(began + seconds(60));
    let last = wire.members_said().last().unwrap().at.since(began);
    assert!(last > seconds(12) && last < seconds(21), "{last:?}");
    // Responses after the response time are discarded.
    assert!(wire.answers().len() < 40);
}

#[test]
fn group_members_suppress_errors_and_empty_responses() {
    fn answer(n: usize, _: &MessageView<'_>) -> Option<Response> {
        Some(match n {
            0 => Response::new(Code::NOT_FOUND),
            1 => Response::new(Code::INTERNAL_SERVER_ERROR),
            2 => Response::new(Code::CONTENT),
            3 => Response::new(Code::CHANGED),
            _ => text("useful"),
        })
    }
    let mut wire = Wire::new(5, &Config::default(), answer);
    let end = wire.now + seconds(20);
    wire.multicast(get("x"));
    wire.run(end);
    let answers: Vec<SocketAddr> = wire.answers().into_keys().collect();
    assert_eq!(answers, [member_address(3), member_address(4)]);
    assert_eq!(wire.members_said().len(), 2);
    for member in &wire.members {
        assert!(member.is_idle());
    }
}

#[test]
fn no_response_option_selects_multicast_responses() {
    fn answer(n: usize, _: &MessageView<'_>) -> Option<Response> {
        Some(if n == 0 {
            Response::new(Code::NOT_FOUND)
        } else {
            text("useful")
        })
    }
    for (unwanted, answering) in [(0, vec![0, 1]), (2, vec![0]), (8, vec![1]), (26, vec![])] {
        let mut wire = Wire::new(2, &Config::default(), answer);
        let end = wire.now + seconds(20);
        let mut request = get("x");
        request
            .options
            .set_uint(OptionNumber::NO_RESPONSE, unwanted)
            .unwrap();
        wire.multicast(request);
        wire.run(end);
        let answered: Vec<SocketAddr> = wire.answers().into_keys().collect();
        let expected: Vec<SocketAddr> = answering.into_iter().map(member_address).collect();
        assert_eq!(answered, expected, "{unwanted}");
    }
}

#[test]
fn other_multicast_messages_are_silently_ignored() {
    let mut wire = Wire::new(2, &Config::default(), name);
    let now = wire.now;
    // A CON GET, a ping, a malformed CON and NON, a response, an ACK, a RST, a NON with an unknown critical option, and
    // one with Block1.
    for bytes in [
        &[0x40, 1, 0, 1, 0xb1, b'x'][..],
        &[0x40, 0, 0, 2],
        &[0x40, 1, 0, 3, 0xff],
        &[0x50, 1, 0, 4, 0xff],
        &[0x50, 0x45, 0, 5],
        &[0x60, 0, 0, 6],
        &[0x70, 0, 0, 7],
        &[0x50, 1, 0, 8, 0x90],
        &[0x50, 3, 0, 9, 0xd1, 14, 0x08, 0xff, b'x'],
    ] {
        wire.members[0].handle_group_datagram(now, client_address(), bytes);
    }
    wire.run(now + seconds(30));
    assert!(wire.seen.is_empty(), "{:?}", wire.seen);
    assert!(wire.members[0].is_idle());
}

#[test]
fn duplicate_multicast_request_is_executed_once() {
    let mut wire = Wire::new(1, &Config::default(), name);
    let now = wire.now;
    wire.multicast(get("name"));
    wire.drain();
    let request = wire.seen[0].clone();
    wire.members[0].handle_group_datagram(now, client_address(), &request.bytes);
    wire.run(now + seconds(20));
    assert_eq!(wire.members_said().len(), 1);
}

#[test]
fn large_multicast_response_continues_by_unicast() {
    fn answer(n: usize, _: &MessageView<'_>) -> Option<Response> {
        let body = Bytes::from(vec![n as u8; 5_000]);
        let mut response = Response::new(Code::CONTENT);
        response.payload = Payload::Whole(body);
        Some(response)
    }
    let mut config =
        config(|config| config.amplification_limit = AmplificationLimit::everywhere(false));
    // Smaller blocks than the client's; it keeps the server's size (RFC 7959 2.8).
    config.block_size = carob_proto::codec::BlockSize::from_szx(4).unwrap();
    let mut wire = Wire::new(3, &config, answer);
    let end = wire.now + seconds(20);
    wire.multicast(get("large"));
    wire.run(end);
    let answers = wire.answers();
    assert_eq!(answers.len(), 3);
    for (n, body) in (0..3).map(|n| (n, &answers[&member_address(n)])) {
        assert_eq!(body.as_ref(), vec![n as u8; 5_000]);
    }
    assert!(matches!(
        wire.events.last(),
        Some(Event::MulticastComplete(_))
    ));
    for seen in &wire.seen {
        if seen.from == client_address() && seen.to != group() && seen.view().code() == Code::GET {
            let block = seen.view().uint_option(OptionNumber::BLOCK2).unwrap();
            assert!(block >> 4 >= 1, "the first block is there already");
            assert_eq!(block & 7, 4, "in the size of the first");
            assert_eq!(seen.view().kind(), Type::Confirmable);
        }
    }
}

#[test]
fn group_member_limits_amplification_on_private_addresses() {
    fn answer(n: usize, _: &MessageView<'_>) -> Option<Response> {
        Some(text(vec![n as u8; 500]))
    }
    let mut wire = Wire::new(3, &Config::default(), answer);
    let end = wire.now + seconds(20);
    wire.multicast(get("large"));
    wire.run(end);
    let request = wire.seen.iter().find(|seen| seen.to == group()).unwrap();
    let length = request.bytes.len();
    for n in 0..3 {
        let member = member_address(n);
        let first = wire.seen.iter().find(|seen| seen.from == member).unwrap();
        assert!(first.bytes.len() <= 3 * length, "{first:?}");
        assert_eq!(first.view().code(), Code::CONTENT);
    }
    // The rest is fetched by unicast.
    let answers = wire.answers();
    let whole = |body: &Bytes| body.len() == 500;
    assert!(answers.len() == 3 && answers.values().all(whole));
}

#[test]
fn group_member_without_limit_sends_full_response() {
    fn answer(_: usize, _: &MessageView<'_>) -> Option<Response> {
        Some(text(vec![0; 500]))
    }
    let mut config = Config::default();
    let private = "10.0.0.0/8".parse().unwrap();
    config.amplification_limit.set(private, false);
    let mut wire = Wire::new(1, &config, answer);
    let end = wire.now + seconds(20);
    wire.multicast(get("large"));
    wire.run(end);
    assert!(wire.members_said()[0].bytes.len() > 500);
}

#[test]
fn departed_group_member_fails_alone() {
    fn answer(_: usize, message: &MessageView<'_>) -> Option<Response> {
        // The member sends the first block and then goes silent.
        message
            .uint_option(OptionNumber::BLOCK2)
            .is_none()
            .then(|| {
                let mut response = Response::new(Code::CONTENT);
                response.payload = Payload::Whole(Bytes::from(vec![1; 5_000]));
                response
            })
    }
    let mut wire = Wire::new(1, &Config::default(), answer);
    // Without the cache for bodies, the application responds to each block.
    wire.members[0] = {
        let config = config(|config| config.limits.bodies = 0);
        Endpoint::new(config, Stream(5))
    };
    let end = wire.now + seconds(600);
    wire.multicast(get("large"));
    wire.run(end);
    assert!(
        matches!(
            &wire.events[..],
            [
                Event::MulticastResponse {
                    response: Err(Failure::NoResponse),
                    ..
                },
                Event::MulticastComplete(_)
            ]
        ),
        "{:?}",
        wire.events
    );
    assert!(wire.client.is_idle());
}

#[test]
fn multicast_message_ids_are_not_used_for_unicast() {
    // For 50 random streams, with many unicast and multicast requests.
    for seed in 0..50 {
        let mut config = asking();
        config.parameters.nstart = 1_000;
        let mut client = Endpoint::new(config, Stream(seed));
        let now = Instant::ZERO + seconds(1);
        let mut ids = BTreeMap::<u16, bool>::new();
        for n in 0..300 {
            let member = member_address(n % 3);
            client
                .request(now, member, get("x"), RequestConfig::default())
                .unwrap();
            client
                .multicast(now, group(), get("x"), MulticastRequest::default())
                .unwrap();
            while let Output::Transmit { to, bytes } = client.poll() {
                let id = view(bytes).message_id().0;
                let to_group = to == group();
                let before = ids.insert(id, to_group);
                assert!(before.is_none_or(|before| before == to_group));
            }
        }
        assert!(ids.values().any(|group| *group));
    }
}

#[test]
fn multicast_requests_obey_nstart() {
    let mut wire = Wire::new(1, &Config::default(), name);
    let began = wire.now;
    wire.multicast(get("a"));
    wire.multicast(get("b"));
    wire.drain();
    let sent = |wire: &Wire| wire.seen.iter().filter(|seen| seen.to == group()).count();
    assert_eq!(sent(&wire), 1, "NSTART is 1");
    wire.run(began + seconds(30));
    assert_eq!(sent(&wire), 2, "{:?}", wire.events);
    assert_eq!(wire.answers().len(), 1, "the same member");
    let gathered = |event: &&Event| matches!(event, Event::MulticastComplete(_));
    assert_eq!(wire.events.iter().filter(gathered).count(), 2);
}

#[test]
fn unsent_multicast_request_fails() {
    let mut wire = Wire::new(0, &Config::default(), name);
    let began = wire.now;
    // PROBING_RATE: the group is busy for one second per byte of the first request.
    wire.multicast(get("a"));
    let mut shorter = MulticastRequest::default();
    shorter.lasts = seconds(3);
    wire.client
        .multicast(began, group(), get("b"), shorter)
        .unwrap();
    wire.run(began + seconds(60));
    assert!(
        matches!(
            &wire.events[..],
            [
                Event::Failed {
                    failure: Failure::DeadlinePassed,
                    ..
                },
                Event::MulticastComplete(_)
            ]
        ),
        "{:?}",
        wire.events
    );
    assert!(wire.client.is_idle());
}

#[test]
fn invalid_multicast_requests_are_refused() {
    let now = Instant::ZERO + seconds(1);
    let mut client = Endpoint::new(asking(), Stream(3));
    let mut refused = |request: Request, to: SocketAddr| {
        client
            .multicast(now, to, request, MulticastRequest::default())
            .unwrap_err()
    };
    assert_eq!(
        refused(get("x"), member_address(1)),
        RequestError::BadAddress
    );
    assert_eq!(
        refused(get("x"), "224.0.1.187:0".parse().unwrap()),
        RequestError::BadAddress
    );
    for number in [OptionNumber::ETAG, OptionNumber::OBSERVE] {
        let mut request = get("x");
        request.options.push(number, &[1]).unwrap();
        assert_eq!(
            refused(request, group()),
            RequestError::NotForGroups(number)
        );
    }
    let mut request = Request::new(Code::PUT);
    request.payload = Bytes::from(vec![0; 2_000]);
    assert!(matches!(refused(request, group()), RequestError::Encode(_)));
    let mut plain = Endpoint::new(Config::default(), Stream(4));
    let refused = plain.multicast(now, group(), get("x"), MulticastRequest::default());
    assert_eq!(refused, Err(RequestError::BadAddress), "groups are off");
}

#[test]
fn multicast_and_delayed_responses_are_limited() {
    let mut wire = Wire::new(20, &Config::default(), name);
    wire.client = {
        let mut config = asking();
        config.limits.multicast_responses = 5;
        Endpoint::new(config, Stream(1))
    };
    let end = wire.now + seconds(20);
    wire.multicast(get("name"));
    wire.run(end);
    assert_eq!(wire.answers().len(), 5);

    let mut member = Endpoint::new(
        config(|config| config.limits.delayed_responses = 3),
        Stream(9),
    );
    let now = Instant::ZERO + seconds(1);
    for n in 0..200_u8 {
        let from = ([10, 9, 8, n], 40_000).into();
        member.handle_group_datagram(now, from, &[0x51, 1, 0, n, n, 0xb1, b'x']);
        while let Output::Event(Event::Request(id)) = member.poll() {
            member.respond(now, id, &text("x"));
        }
    }
    assert_eq!(member.usage().delayed_responses, 3);
}

#[test]
fn cancelled_multicast_request_ends_its_transfers() {
    fn answer(_: usize, _: &MessageView<'_>) -> Option<Response> {
        let mut response = Response::new(Code::CONTENT);
        response.payload = Payload::Whole(Bytes::from(vec![1; 50_000]));
        Some(response)
    }
    let mut wire = Wire::new(1, &Config::default(), answer);
    let began = wire.now;
    let id = wire.multicast(get("large"));
    // During its block-wise transfer.
    while wire.client.usage().exchanges == 0 || wire.client.usage().requests < 2 {
        let next = wire.now + millis(1);
        wire.run(next);
        wire.now = next;
        assert!(next < began + seconds(10));
    }
    assert!(wire.client.cancel(wire.now, id));
    assert!(!wire.client.cancel(wire.now, id));
    let end = wire.now + seconds(30);
    wire.run(end);
    assert!(wire.events.is_empty(), "{:?}", wire.events);
    assert!(wire.client.is_idle());
}

#[test]
fn multicast_response_with_guessed_token_is_ignored() {
    let mut wire = Wire::new(1, &Config::default(), |_, _| None);
    let now = wire.now;
    wire.multicast(get("name"));
    wire.drain();
    for n in 0..=255_u8 {
        let forged = [0x58, 0x45, 1, n, n, n, n, n, n, n, n, n, 0xff, b'x'];
        wire.client.handle_datagram(now, member_address(0), &forged);
    }
    wire.run(now + seconds(30));
    assert!(wire.answers().is_empty());
}
