//! Fair sharing of limited resources: each defence, and the attack that succeeds without it.
//!
//! `source_share` and `unvalidated_share` of 100, and `request_rate` of 0, disable the defences.

use std::net::SocketAddr;

use crate::net::wire::{Wire, con, view};
use crate::net::{Stream, millis, path_of, pattern, seconds};
use carob_cc::time::{Duration, Instant};
use carob_proto::Response;
use carob_proto::codec::{Code, MessageView, OptionNumber, Type};
use carob_proto::endpoint::{Config, Endpoint, Event, IncomingId, Limits, Output, Subject};

/// A server without amplification limit, and its transmissions.
struct Target {
    now: Instant,
    server: Endpoint,
    waiting: Vec<IncomingId>,
    sent: Vec<(SocketAddr, Vec<u8>)>,
    /// Number of non-idempotent requests executed.
    carried_out: usize,
}

/// An address. Equal `host` means the same source.
fn from(host: u32, port: u16) -> SocketAddr {
    let [_, a, b, c] = host.to_be_bytes();
    SocketAddr::from(([10, a, b, c], port))
}

fn honest() -> SocketAddr {
    from(9_999_999, 5683)
}

fn request(code: Code, path: &str) -> Wire {
    con(code, 1).token(&[7, 7]).path(path)
}

fn get(path: &str) -> Wire {
    request(Code::GET, path)
}

fn post() -> Wire {
    request(Code::POST, "x")
}

/// A registration of an observer.
fn observe() -> Wire {
    get("state").option(6, b"")
}

impl Target {
    fn new(set: impl FnOnce(&mut Limits)) -> Self {
        let mut config = Config::default();
        set(&mut config.limits);
        Self {
            now: Instant::ZERO + seconds(1_000),
            server: Endpoint::new(config, Stream(2)),
            waiting: Vec::new(),
            sent: Vec::new(),
            carried_out: 0,
        }
    }

    /// Responds at once to all requests except those to /slow.
    fn drain(&mut self) {
        loop {
            match self.server.poll() {
                Output::Transmit { to, bytes } => self.sent.push((to, bytes.to_vec())),
                Output::Event(Event::Request(id)) => {
                    let incoming = self.server.incoming(id).unwrap();
                    let (path, safe) = (
                        path_of(&incoming.message),
                        incoming.message.code().is_safe(),
                    );
                    if path == "slow" {
                        self.waiting.push(id);
                        continue;
                    }
                    if path == "fresh" && !incoming.fresh {
                        self.server.challenge(self.now, id);
                        continue;
                    }
                    self.carried_out += usize::from(!safe);
                    if path == "state" {
                        self.server.observe(self.now, id, Subject(1));
                    }
                    let code = if safe { Code::CONTENT } else { Code::CHANGED };
                    let payload = match path.as_str() {
                        "large" => pattern(10_240),
                        _ => "answer".into(),
                    };
                    let response = Response::new(code).with_payload(payload);
                    self.server.respond(self.now, id, &response);
                }
                Output::Wait(_) => return,
                _ => {}
            }
        }
    }

    fn take(&mut self, from: SocketAddr, message: &Wire) -> Option<Code> {
        self.sent.clear();
        let bytes = message.bytes();
        self.server.handle_datagram(self.now, from, &bytes);
        self.drain();
        self.last().map(|last| last.code())
    }

    /// Responds to the requests that wait.
    fn answer_late(&mut self) {
        for id in core::mem::take(&mut self.waiting) {
            let response = Response::new(Code::CONTENT).with_payload("late");
            self.server.respond(self.now, id, &response);
        }
        self.drain();
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.server.handle_timeout(self.now);
        self.drain();
    }

    fn last(&self) -> Option<MessageView<'_>> {
        let (_, bytes) = self.sent.last()?;
        Some(view(bytes))
    }

    /// Sends a message and, if it is challenged, repeats it with the Echo value.
    fn persist(&mut self, from: SocketAddr, message: &Wire) -> Option<Code> {
        let code = self.take(from, message);
        let echo = self.last().and_then(|last| last.option(OptionNumber::ECHO));
        let Some(echo) = echo.map(<[u8]>::to_vec) else {
            return code;
        };
        assert_eq!(code, Some(Code::UNAUTHORIZED));
        let id = view(&message.bytes()).message_id().0.wrapping_add(1);
        let again = message.clone().id(id).option(252, &echo);
        self.take(from, &again)
    }

    fn max_age(&self) -> Option<u32> {
        self.last()?.uint_option(OptionNumber::MAX_AGE)
    }
}

/// One source sends `message` from many ports with many Message IDs, then an honest client sends it.
fn one_source(share: usize, set: impl Fn(&mut Limits), message: &Wire) -> Option<Code> {
    let mut target = Target::new(|limits| {
        set(limits);
        (limits.source_share, limits.unvalidated_share) = (share, 100);
    });
    for n in 0..100 {
        target.take(from(1, 1_000 + n), &message.clone().id(n));
    }
    target.take(honest(), message)
}

/// Two hundred sources with unvalidated addresses send one message each, then an honest client with a validated address.
fn many_sources(
    unvalidated: usize,
    set: impl Fn(&mut Limits),
    message: &Wire,
) -> (Target, Option<Code>) {
    let mut target = Target::new(|limits| {
        set(limits);
        (limits.source_share, limits.unvalidated_share) = (100, unvalidated);
    });
    for n in 0..200 {
        target.take(from(n, 5683), message);
    }
    let code = target.persist(honest(), message);
    (target, code)
}

#[test]
fn requests_that_wait_for_answers() {
    let slow = get("slow");
    let small = |limits: &mut Limits| limits.incoming = 50;
    assert_eq!(one_source(50, small, &slow), None, "it is being worked on");
    let refused = Some(Code::SERVICE_UNAVAILABLE);
    assert_eq!(one_source(100, small, &slow), refused);
    let (target, code) = many_sources(75, small, &slow);
    assert_eq!(
        (code, target.waiting.len()),
        (None, 39),
        "38 and the honest one"
    );
    let (_, code) = many_sources(100, small, &slow);
    assert_eq!(code, refused);
}

#[test]
fn pending_bytes_are_counted() {
    let mut target = Target::new(|limits| limits.incoming = 40);
    let mut id = 0;
    for round in 0..50 {
        for n in 0..30_u32 {
            id += 1;
            target.take(from(n % 3, 5683), &get("slow").id(id));
        }
        assert!(target.server.usage().incoming >= 20, "round {round}");
        let answered = target.waiting.len().saturating_sub(usize::from(id % 7));
        for id in target.waiting.drain(..answered).collect::<Vec<_>>() {
            let response = Response::new(Code::CONTENT);
            target.server.respond(target.now, id, &response);
        }
        target.drain();
        target.pass(seconds(1));
    }
    target.answer_late();
    assert_eq!(target.server.usage().incoming, 0);
    assert_eq!(target.server.usage().incoming_bytes, 0);
    // Afterwards the source has the same share as before.
    for n in 0..40 {
        target.take(from(1, 5683), &get("slow").id(10_000 + n));
    }
    assert_eq!(target.server.usage().incoming, 20);
}

#[test]
fn unrepeatable_messages() {
    let post = post();
    let small = |limits: &mut Limits| limits.dedup_non_idempotent = 50;
    assert_eq!(one_source(50, small, &post), Some(Code::CHANGED));
    let refused = Some(Code::SERVICE_UNAVAILABLE);
    assert_eq!(one_source(100, small, &post), refused);
    let (_, code) = many_sources(75, small, &post);
    assert_eq!(code, Some(Code::CHANGED));
    let (_, code) = many_sources(100, small, &post);
    assert_eq!(code, refused);
}

/// A server with a duplicate table three quarters full of POSTs, at half of EXCHANGE_LIFETIME.
fn full_of_posts() -> Target {
    let mut target = Target::new(|limits| limits.dedup_non_idempotent = 50);
    for host in 0..50 {
        target.take(from(host, 5683), &post());
    }
    assert_eq!(target.carried_out, 38);
    target.now += seconds(120);
    target
}

#[test]
fn a_late_copy_of_what_was_challenged_is_not_carried_out() {
    let (challenged, done) = (Some(Code::UNAUTHORIZED), Some(Code::CHANGED));
    for kind in [Type::Confirmable, Type::NonConfirmable] {
        let mut target = full_of_posts();
        let post = post().kind(kind);
        assert_eq!(target.persist(honest(), &post), done);
        assert_eq!(target.carried_out, 39);
        // While the table is nearly full, and later when the response is stored.
        assert_eq!(target.take(honest(), &post), challenged);
        target.now += seconds(200);
        assert_eq!(target.take(honest(), &post), challenged);
        let answers = usize::from(kind == Type::Confirmable);
        target.take(honest(), &post);
        assert_eq!(target.sent.len(), answers, "a duplicate");
        assert_eq!(target.carried_out, 39);
        // Other requests of the client are served, each with a new Echo value.
        assert_eq!(target.persist(honest(), &post.clone().id(77)), done);
        // After EXCHANGE_LIFETIME there are no duplicates.
        target.now += seconds(247);
        assert_eq!(target.take(honest(), &post.id(99)), done);
    }
}

/// A proxy forwards responses. A client behind it would repeat a challenged request that has already been executed.
#[test]
fn request_for_later_block_of_post_response_is_not_challenged() {
    let mut target = full_of_posts();
    let rest = post().block(OptionNumber::BLOCK2, (1, false, 16));
    let refused = Some(Code::SERVICE_UNAVAILABLE);
    assert_eq!(target.take(honest(), &rest), refused);
    assert_eq!(
        target.take(honest(), &post().id(2)),
        Some(Code::UNAUTHORIZED)
    );
    // The table has space again; no response body is cached.
    target.now += seconds(200);
    let gone = Some(Code::REQUEST_ENTITY_INCOMPLETE);
    assert_eq!(target.take(honest(), &rest.id(3)), gone);
}

#[test]
fn validated_client_is_not_challenged_for_a_post() {
    let mut target = Target::new(|limits| limits.dedup_non_idempotent = 50);
    assert_eq!(target.persist(honest(), &get("fresh")), Some(Code::CONTENT));
    target.now += seconds(1);
    for host in 0..50 {
        target.take(from(host, 5683), &post());
    }
    let before = target.carried_out;
    let code = target.take(honest(), &post().id(50));
    assert_eq!(code, Some(Code::CHANGED));
    assert_eq!(target.carried_out, before + 1);
}

#[test]
fn bodies_on_their_way_in() {
    let first = request(Code::PUT, "x")
        .block(OptionNumber::BLOCK1, (0, true, 16))
        .payload(&[0; 16]);
    let refused = Some(Code::SERVICE_UNAVAILABLE);
    for small in [
        (|limits: &mut Limits| limits.uploads = 20) as fn(&mut Limits),
        |limits: &mut Limits| limits.all_upload_bytes = 400,
    ] {
        assert_eq!(one_source(50, small, &first), Some(Code::CONTINUE));
        assert_eq!(one_source(100, small, &first), refused);
    }
    let small = |limits: &mut Limits| limits.uploads = 20;
    let (_, code) = many_sources(75, small, &first);
    assert_eq!(code, Some(Code::CONTINUE));
    let (_, code) = many_sources(100, small, &first);
    assert_eq!(code, refused);
}

#[test]
fn a_body_counts_until_its_request_is_answered() {
    let mut target = Target::new(|limits| limits.all_upload_bytes = 150);
    let put = |target: &mut Target, port: u16| {
        for n in 0..4 {
            let block = request(Code::PUT, "slow")
                .id(port * 10 + n)
                .payload(&[0; 16]);
            let block = block.block(OptionNumber::BLOCK1, (n.into(), n < 3, 16));
            let code = target.take(from(port.into(), port), &block);
            if code == Some(Code::SERVICE_UNAVAILABLE) {
                return false;
            }
        }
        true
    };
    assert!(put(&mut target, 1) && put(&mut target, 2));
    assert!(
        !put(&mut target, 3),
        "two bodies of 64 bytes wait for answers"
    );
    assert_eq!(target.server.usage().uploads.1, 128);
    let id = target.waiting[0];
    let done = Response::new(Code::CHANGED);
    target.server.respond(target.now, id, &done);
    target.drain();
    assert!(put(&mut target, 4));
}

#[test]
fn observations() {
    let observe = observe();
    let small = |limits: &mut Limits| limits.observers = 40;
    let observed = |share, unvalidated, hosts| {
        let mut target = Target::new(|limits| {
            small(limits);
            (limits.source_share, limits.unvalidated_share) = (share, unvalidated);
        });
        for n in 0..100_u16 {
            let host = u32::from(n) % hosts;
            target.take(from(host, 1_000 + n), &observe);
        }
        let code = target.persist(honest(), &observe);
        assert_eq!(code, Some(Code::CONTENT), "its state it gets in any case");
        let last = target.last().unwrap();
        last.option(OptionNumber::OBSERVE).is_some()
    };
    assert!(observed(50, 100, 1));
    assert!(!observed(100, 100, 1));
    assert!(observed(100, 75, 100));
    assert!(!observed(100, 100, 100));
}

#[test]
fn requests_to_observe_are_kept_once_and_not_without_limit() {
    let mut target = Target::new(|limits| limits.observer_bytes = 200);
    let observe = observe();
    // Equal requests have one cache key.
    for host in 0..100 {
        target.take(from(host, 5683), &observe);
        let last = target.last().unwrap();
        assert!(last.option(OptionNumber::OBSERVE).is_some(), "{host}");
    }
    let mut more = 0;
    for host in 200..300 {
        let query = format!("q{host}=aaaaaaaaaaaaaaaaaaaaaaa");
        target.take(
            from(host, 1),
            &observe.clone().id(9).option(15, query.as_bytes()),
        );
        let last = target.last().unwrap();
        more += u32::from(last.option(OptionNumber::OBSERVE).is_some());
    }
    assert!((2..=5).contains(&more), "{more}");
}

#[test]
fn peers_that_were_sent_a_response_of_its_own() {
    // A NON response is a new message, for which the peer gets an entry.
    let non = get("x").kind(Type::NonConfirmable);
    let small = |limits: &mut Limits| limits.peers = 40;
    let observe = observe();
    let observes = |unvalidated| {
        let (mut target, code) = many_sources(unvalidated, small, &non);
        assert_eq!(code, Some(Code::CONTENT), "answered even if not remembered");
        // A client with a validated address may observe.
        let public = "192.0.2.1:5683".parse().unwrap();
        target.server.validate(target.now, public);
        target.take(public, &observe);
        let last = target.last().unwrap();
        (
            target.server.usage().peers,
            last.option(OptionNumber::OBSERVE).is_some(),
        )
    };
    assert_eq!(observes(75), (31, true));
    assert_eq!(observes(100), (40, false));
}

#[test]
fn response_without_table_entry_is_sent_once_with_request_id() {
    let slow = |id| get("slow").kind(Type::NonConfirmable).id(id);
    let mut target = Target::new(|limits| limits.responses = 0);
    for id in [500, 501] {
        target.take(honest(), &slow(id));
    }
    target.answer_late();
    let ids = target.sent.iter().map(|(_, bytes)| {
        let message = view(bytes);
        (message.kind(), message.message_id().0, message.code())
    });
    let late = |id| (Type::NonConfirmable, id, Code::CONTENT);
    assert_eq!(ids.collect::<Vec<_>>(), [late(500), late(501)]);
    assert!(target.server.is_idle());
}

#[test]
fn responses_that_nobody_acknowledges() {
    let slow = get("slow");
    let held = |responses| {
        let mut target = Target::new(|limits| limits.responses = responses);
        for host in 0..200 {
            target.take(from(host, 5683), &slow);
        }
        // Empty ACKs first, then separate responses.
        target.pass(millis(200));
        target.sent.clear();
        target.answer_late();
        assert_eq!(target.sent.len(), 200, "all are sent");
        target.server.usage().responses
    };
    assert_eq!(held(usize::MAX), 200);
    assert_eq!(held(40), 30);
}

/// A request for the first set of blocks with Q-Block2.
fn set_of_blocks() -> Wire {
    get("large")
        .block(OptionNumber::Q_BLOCK2, (0, true, 1_024))
        .id(7)
}

#[test]
fn responses_to_one_source_leave_space_for_others() {
    let slow = get("slow");
    // Type of another client's separate response, and the number of blocks held for its set.
    let served = |share| {
        let mut target = Target::new(|limits| {
            limits.responses = 60;
            (limits.source_share, limits.unvalidated_share) = (share, 100);
        });
        for port in 0..100 {
            target.take(from(1, port + 1), &slow);
        }
        target.take(honest(), &slow);
        target.pass(millis(200));
        target.answer_late();
        let sent = target.sent.iter().rev().find(|(to, _)| *to == honest());
        let kind = view(&sent.unwrap().1).kind();
        let before = target.server.usage().responses;
        target.persist(honest(), &set_of_blocks());
        (kind, target.server.usage().responses - before)
    };
    assert_eq!(served(50), (Type::Confirmable, 10));
    assert_eq!(served(100), (Type::NonConfirmable, 0));
}

#[test]
fn blocks_behind_one_that_is_given_up_are_dropped() {
    let mut target = Target::new(|_| {});
    target.persist(honest(), &set_of_blocks());
    assert_eq!(target.server.usage().responses, 10);
    for _ in 0..94 {
        target.pass(seconds(1));
    }
    assert_eq!(target.server.usage().responses, 0);
    assert!(target.server.is_idle());
}

#[test]
fn a_source_that_asks_too_often() {
    let mut target = Target::new(|limits| {
        (limits.request_rate, limits.request_burst) = (10, 20);
    });
    let mut id = 0;
    let mut ask = |target: &mut Target, from, kind| {
        id += 1;
        target.take(from, &get("x").kind(kind).id(id))
    };
    let con = Type::Confirmable;
    for _ in 0..20 {
        assert_eq!(ask(&mut target, from(1, 1), con), Some(Code::CONTENT));
    }
    // Another port is the same source.
    for port in 1..=20 {
        let refused = ask(&mut target, from(1, port), con);
        assert_eq!(refused, Some(Code::TOO_MANY_REQUESTS));
        assert_eq!(target.max_age(), Some(1));
    }
    assert_eq!(
        ask(&mut target, from(1, 1), con),
        None,
        "not even a refusal"
    );
    assert_eq!(ask(&mut target, from(1, 1), Type::NonConfirmable), None);
    assert_eq!(ask(&mut target, honest(), con), Some(Code::CONTENT));
    // A duplicate of an answered request counts, too.
    assert_eq!(target.take(from(1, 1), &get("x")), None);
    target.now += seconds(1);
    for _ in 0..10 {
        assert_eq!(ask(&mut target, from(1, 1), con), Some(Code::CONTENT));
    }
    assert_eq!(
        ask(&mut target, from(1, 1), con),
        Some(Code::TOO_MANY_REQUESTS)
    );
    // Without a rate limit all requests are answered.
    let mut target = Target::new(|_| {});
    for id in 0..10_000 {
        let code = target.take(from(1, 1), &get("x").id(id));
        assert_eq!(code, Some(Code::CONTENT));
    }
    assert_eq!(target.server.usage().sources, 0);
}

#[test]
fn flood_of_sources_is_bounded_in_the_rate_table() {
    let mut target = Target::new(|limits| {
        (limits.request_rate, limits.request_burst, limits.sources) = (1, 2, 100);
    });
    target
        .server
        .validate(target.now, "192.0.2.1:5683".parse().unwrap());
    for host in 0..10_000 {
        assert_eq!(target.take(from(host, 1), &get("x")), Some(Code::CONTENT));
    }
    assert_eq!(target.server.usage().sources, 100);
}

#[test]
fn refusals_have_a_randomized_max_age() {
    let mut target = Target::new(|limits| limits.incoming = 0);
    let mut ages: Vec<u32> = (0..100)
        .map(|host| {
            let code = target.take(from(host, 5_000 + host as u16), &get("x"));
            assert_eq!(code, Some(Code::SERVICE_UNAVAILABLE));
            target.max_age().unwrap()
        })
        .collect();
    ages.sort_unstable();
    ages.dedup();
    assert_eq!(ages, [5, 6, 7, 8, 9, 10]);
    target = Target::new(|limits| (limits.incoming, limits.retry_after) = (0, 0));
    target.take(honest(), &get("x"));
    assert_eq!(target.max_age(), Some(0));
}

#[test]
fn challenge_amplifies_by_three_at_most() {
    // Also without an amplification limit, if the datagram has a token or a path.
    let mut target = Target::new(|limits| limits.incoming = 4);
    let slow = get("slow");
    for host in 0..10 {
        target.take(from(host, 1), &slow);
    }
    let asked = slow.bytes().len();
    assert_eq!(target.last().unwrap().code(), Code::UNAUTHORIZED);
    assert!(target.sent[0].1.len() <= 3 * asked);
}
