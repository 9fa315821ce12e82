//! Congestion budgets shared by peers behind one bottleneck: timing, order and fairness.

use crate::net::wire::{con, empty, reply, view};
use std::net::SocketAddr;

use crate::net::{Stream, millis, seconds};
use carob_cc::time::{Duration, Instant};
use carob_proto::codec::{Code, Type};
use carob_proto::congestion::CongestionControl;
use carob_proto::endpoint::{Config, Endpoint, Event, Failure, Output, RequestConfig, Subject};
use carob_proto::prefix::Prefix;
use carob_proto::{Request, Response};

/// An endpoint with many peers that respond after the same delay, or never.
struct Crowd {
    now: Instant,
    endpoint: Endpoint,
    round_trip: Duration,
    silent: bool,
    /// Peers from this number on are silent.
    silent_from: u8,
    /// Transmissions: time, destination, and whether Confirmable.
    sent: Vec<(Instant, SocketAddr, bool)>,
    answers: Vec<(Instant, SocketAddr, Vec<u8>)>,
    failures: Vec<Failure>,
    responses: usize,
}

fn peer(number: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, number], 5683))
}

impl Crowd {
    fn new(change: impl FnOnce(&mut Config)) -> Self {
        let mut config = Config::default();
        config.aggregates = vec![Prefix::ALL];
        config.controller = CongestionControl::named("default").unwrap();
        change(&mut config);
        Self {
            now: Instant::ZERO,
            endpoint: Endpoint::new(config, Stream(1)),
            round_trip: millis(100),
            silent: false,
            silent_from: u8::MAX,
            sent: Vec::new(),
            answers: Vec::new(),
            failures: Vec::new(),
            responses: 0,
        }
    }

    fn ask(&mut self, to: SocketAddr) {
        let request = Request::get();
        (self
            .endpoint
            .request(self.now, to, request, RequestConfig::default()))
        .unwrap();
    }

    fn drain(&mut self) -> Option<Instant> {
        loop {
            match self.endpoint.poll() {
                Output::Transmit { to, bytes } => {
                    let message = view(bytes);
                    let confirmable = message.kind() == Type::Confirmable;
                    self.sent.push((self.now, to, confirmable));
                    if confirmable && !self.silent && number(to) < self.silent_from {
                        let answer = if message.code().is_request() {
                            reply(Code::CONTENT, bytes).bytes()
                        } else {
                            empty(Type::Acknowledgement, message.message_id().0)
                        };
                        self.answers.push((self.now + self.round_trip, to, answer));
                    }
                }
                Output::Event(Event::Failed { failure, .. }) => self.failures.push(failure),
                Output::Event(Event::Response { .. }) => self.responses += 1,
                Output::Wait(until) => return until,
                _ => {}
            }
        }
    }

    fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            let due = self.drain();
            let answer = self.answers.iter().map(|(at, ..)| *at).min();
            let next = [due, answer].into_iter().flatten().min();
            let Some(next) = next.filter(|next| *next <= end) else {
                self.now = end;
                return;
            };
            self.now = self.now.max(next);
            self.endpoint.handle_timeout(self.now);
            let now = self.now;
            let (due, later) = core::mem::take(&mut self.answers)
                .into_iter()
                .partition(|(at, ..)| *at <= now);
            self.answers = later;
            let due: Vec<_> = due;
            for (_, from, bytes) in due {
                self.endpoint.handle_datagram(now, from, &bytes);
            }
        }
    }
}

/// Destination numbers in order of transmission.
fn order(crowd: &Crowd) -> Vec<u8> {
    crowd.sent.iter().map(|(_, to, _)| number(*to)).collect()
}

fn number(peer: SocketAddr) -> u8 {
    match peer.ip() {
        std::net::IpAddr::V4(ip) => ip.octets()[3],
        std::net::IpAddr::V6(_) => 0,
    }
}

#[test]
fn requests_to_many_peers_are_sent_one_by_one() {
    let mut crowd = Crowd::new(|_| {});
    for number in 1..=200 {
        crowd.ask(peer(number));
    }
    assert_eq!(crowd.endpoint.aggregates().next().unwrap().2, 199);
    crowd.run_for(millis(50));
    assert_eq!(crowd.sent.len(), 3, "12 bytes of 1,280 in 2 s, each");
    crowd.run_for(seconds(30));
    assert_eq!((crowd.responses, crowd.failures.len()), (200, 0));
    assert_eq!(order(&crowd), (1..=200).collect::<Vec<_>>());
    let mut times: Vec<_> = crowd.sent.iter().map(|(at, ..)| *at).collect();
    times.dedup();
    assert!(times.len() > 150, "{} moments", times.len());
    let (_, state, waiting) = crowd.endpoint.aggregates().next().unwrap();
    assert_eq!((state.unanswered, waiting), (0, 0));
    assert_eq!(state.round_trip, Some(millis(100)));
    assert!(crowd.endpoint.is_idle());
}

#[test]
fn without_a_budget_requests_are_sent_at_once() {
    let mut crowd = Crowd::new(|config| config.aggregates.clear());
    for number in 1..=200 {
        crowd.ask(peer(number));
    }
    crowd.drain();
    assert_eq!(crowd.sent.len(), 200);
    assert_eq!(crowd.endpoint.aggregates().count(), 0);
}

#[test]
fn peer_with_many_messages_does_not_delay_others() {
    let mut crowd = Crowd::new(|config| config.parameters.nstart = 100);
    for _ in 0..50 {
        crowd.ask(peer(1));
    }
    crowd.ask(peer(2));
    crowd.ask(peer(3));
    crowd.run_for(seconds(30));
    let order = order(&crowd);
    assert_eq!(order.len(), 52);
    assert_eq!(order[..6], [1, 1, 2, 3, 1, 1], "in turns");
}

#[test]
fn prefixes_have_separate_budgets_and_others_none() {
    let mut crowd = Crowd::new(|config| {
        config.aggregates = vec![
            "10.0.0.0/25".parse().unwrap(),
            "10.0.0.64/26".parse().unwrap(),
        ];
    });
    for number in [1, 2, 65, 66, 129, 130] {
        crowd.ask(peer(number));
    }
    crowd.drain();
    assert_eq!(order(&crowd), [1, 65, 129, 130]);
    crowd.run_for(seconds(5));
    assert_eq!(crowd.responses, 6);
}

#[test]
fn silent_peers_release_the_budget_on_timeout() {
    let mut crowd = Crowd::new(|config| config.aggregate.initial_window = 128);
    crowd.silent = true;
    for number in 1..=30 {
        crowd.ask(peer(number));
    }
    // Ten messages of 12 bytes are in flight, until the first timeout after 2 s at the earliest.
    crowd.run_for(millis(1_990));
    assert_eq!(order(&crowd), (1..=10).collect::<Vec<_>>());
    crowd.run_for(seconds(60));
    let first: std::collections::BTreeSet<_> = order(&crowd).into_iter().collect();
    assert_eq!(first.len(), 30, "timed-out messages are not in flight");
    crowd.run_for(seconds(600));
    assert_eq!(crowd.failures.len(), 30);
    assert!(crowd.endpoint.is_idle());
    assert_eq!(crowd.endpoint.aggregates().next().unwrap().1.unanswered, 0);
}

#[test]
fn cancelled_request_of_waiting_peer_leaves_no_state() {
    let mut crowd = Crowd::new(|config| config.limits.peers = 3);
    crowd.ask(peer(1));
    let now = crowd.now;
    let id = (crowd.endpoint)
        .request(now, peer(2), Request::get(), RequestConfig::default())
        .unwrap();
    crowd.endpoint.cancel(now, id);
    crowd.ask(peer(3));
    crowd.run_for(seconds(10));
    assert_eq!(order(&crowd), [1, 3]);
    // The peer's entry is evicted in time.
    crowd.run_for(seconds(300));
    crowd.ask(peer(4));
    crowd.ask(peer(5));
    crowd.run_for(seconds(10));
    assert_eq!(order(&crowd), [1, 3, 4, 5]);
}

/// Registers observers of one resource.
fn observed(crowd: &mut Crowd, observers: u8) {
    let subject = Subject(1);
    for number in 1..=observers {
        let register = con(Code::GET, number.into())
            .token(&[number])
            .option(6, b"");
        let now = crowd.now;
        (crowd.endpoint).handle_datagram(now, peer(number), &register.bytes());
        while let Output::Event(Event::Request(id)) = crowd.endpoint.poll() {
            assert!(crowd.endpoint.observe(now, id, subject));
            crowd
                .endpoint
                .respond(now, id, &Response::new(Code::CONTENT));
        }
        crowd.drain();
    }
    crowd.sent.clear();
}

#[test]
fn every_eighth_notification_is_confirmable() {
    let mut crowd = Crowd::new(|_| {});
    observed(&mut crowd, 80);
    let now = crowd.now;
    let changed = Response::new(Code::CONTENT);
    (crowd.endpoint)
        .notify(now, Subject(1), &changed, false)
        .unwrap();
    crowd.run_for(seconds(60));
    let confirmed = crowd.sent.iter().filter(|(.., confirmable)| *confirmable);
    assert_eq!((crowd.sent.len(), confirmed.count()), (80, 10));
    assert_eq!(crowd.endpoint.aggregates().next().unwrap().1.unanswered, 0);
}

/// Notifies five observers each second for two minutes, beside silent ones. Returns the number of notifications per
/// observer and the longest interval between two.
fn notified_beside(silent: u8, messages: u16) -> (Vec<usize>, Duration) {
    let mut crowd = Crowd::new(|config| config.limits.source_share = 100);
    observed(&mut crowd, 5);
    crowd.silent_from = 100;
    crowd.run_for(seconds(1));
    let changed = Response::new(Code::CONTENT);
    for second in 0..140 {
        if second == 20 {
            crowd.sent.clear();
            for peer_number in 0..silent {
                for _ in 0..messages {
                    let request = Request::new(Code::PUT).with_payload(vec![0; 1_000]);
                    let (now, to) = (crowd.now, peer(100 + peer_number));
                    (crowd.endpoint)
                        .request(now, to, request, RequestConfig::default())
                        .unwrap();
                }
            }
        }
        let now = crowd.now;
        (crowd.endpoint)
            .notify(now, Subject(1), &changed, false)
            .unwrap();
        crowd.run_for(seconds(1));
    }
    let mut longest = Duration::ZERO;
    let counts = (1..=5).map(|observer| {
        let own = crowd.sent.iter().filter(|(_, to, _)| *to == peer(observer));
        let times: Vec<Instant> = own.map(|(at, ..)| *at).collect();
        let gaps = times.windows(2).map(|pair| pair[1].since(pair[0]));
        longest = longest.max(gaps.max().unwrap_or(seconds(120)));
        times.len()
    });
    (counts.collect(), longest)
}

#[test]
fn silent_peers_delay_no_notification_to_others() {
    for (silent, messages) in [(0, 0), (1, 9), (20, 9)] {
        let (counts, longest) = notified_beside(silent, messages);
        assert!(
            counts.iter().all(|count| *count >= 118) && longest <= millis(2_500),
            "{silent} silent peers: {counts:?} in 120 s, {longest} without one"
        );
    }
}
