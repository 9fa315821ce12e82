//! Correctness of matched transmissions under loss, duplication and reordering, for servers with and without
//! deduplication: every request ends, and its controller learns which transmission was answered.

use std::collections::BTreeMap;

use crate::net::counting::{MatchedReply, counting};
use crate::net::wire::view;
use crate::net::{
    Faults, Net, Stream, client_address, get, millis, observing, pattern, post, put, seconds,
    sending_with, server_address,
};
use carob_cc::controller::CopyTagging;
use carob_cc::evidence::Matched;
use carob_cc::time::{Duration, Instant};
use carob_proto::Response;
use carob_proto::codec::Code;
use carob_proto::endpoint::{Config, Endpoint, Event, Output, RequestConfig};
use proptest::prelude::*;

const COUNTINGS: [CopyTagging; 4] = [
    CopyTagging::Off,
    CopyTagging::EveryCopy,
    CopyTagging::RepeatedCopies,
    CopyTagging::Token,
];

/// Response of a server to a duplicate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Server {
    /// A response to that transmission (Carob).
    Counts,
    /// The stored first response (RFC 7252 4.5).
    Replays,
}

/// A datagram in flight; the last field is the transmission that it is or responds to.
type Flying = (Instant, u64, bool, Vec<u8>, u8);

/// A client, a server, and a path with a delay of about 10 ms.
struct World {
    now: Instant,
    client: Endpoint,
    server: Endpoint,
    behaviour: Server,
    faults: Faults,
    random: Stream,
    flying: Vec<Flying>,
    sequence: u64,
    /// Transmissions and first responses by Message ID.
    sent: BTreeMap<u16, u8>,
    first: BTreeMap<u16, Vec<u8>>,
    /// Arrival times of responses, with the transmission that each responds to.
    truths: Vec<(Instant, u8)>,
}

impl World {
    fn new(client: Config, behaviour: Server, seed: u64) -> Self {
        Self {
            now: Instant::ZERO,
            client: Endpoint::new(client, Stream(seed)),
            server: Endpoint::new(Config::default(), Stream(seed ^ 2)),
            behaviour,
            faults: Faults::default(),
            random: Stream(seed ^ 3),
            flying: Vec::new(),
            sequence: 0,
            sent: BTreeMap::new(),
            first: BTreeMap::new(),
            truths: Vec::new(),
        }
    }

    fn fly(&mut self, to_server: bool, bytes: &[u8], copy: u8) {
        let copies = 1 + u32::from(self.random.below(100) < self.faults.duplication);
        for _ in 0..copies {
            if self.random.below(100) < self.faults.loss {
                continue;
            }
            let jitter = self.random.below(self.faults.jitter.as_micros_u32() + 1);
            let at = self.now + millis(10) + Duration::from_micros(u64::from(jitter));
            self.sequence += 1;
            let flying = (at, self.sequence, to_server, bytes.to_vec(), copy);
            self.flying.push(flying);
        }
    }

    fn drain_client(&mut self) {
        let mut out = Vec::new();
        loop {
            match self.client.poll() {
                Output::Transmit { bytes, .. } => out.push(bytes.to_vec()),
                Output::Wait(_) => break,
                _ => {}
            }
        }
        for bytes in out {
            let copies = self.sent.entry(view(&bytes).message_id().0).or_default();
            let copy = *copies;
            *copies += 1;
            self.fly(true, &bytes, copy);
        }
    }

    /// Drains the server after it received transmission `copy`.
    fn drain_server(&mut self, copy: u8) {
        let mut out = Vec::new();
        loop {
            match self.server.poll() {
                Output::Transmit { bytes, .. } => out.push(bytes.to_vec()),
                Output::Event(Event::Request(id)) => {
                    let now = self.now;
                    self.server.respond(now, id, &Response::new(Code::CONTENT));
                }
                Output::Wait(_) => break,
                _ => {}
            }
        }
        for mut bytes in out {
            if self.behaviour == Server::Replays {
                let first = self.first.entry(view(&bytes).message_id().0);
                bytes.clone_from(first.or_insert_with(|| bytes.clone()));
            }
            self.fly(false, &bytes, copy);
        }
    }

    fn run_until(&mut self, end: Instant) {
        self.drain_client();
        loop {
            self.flying.sort_by_key(|flying| (flying.0, flying.1));
            let Output::Wait(timer) = self.client.poll() else {
                panic!("drained");
            };
            let arrival = self.flying.first().map(|flying| flying.0);
            let Some(due) = [timer, arrival].into_iter().flatten().min() else {
                break;
            };
            if due > end {
                break;
            }
            self.now = due;
            if arrival == Some(due) {
                let (_, _, to_server, bytes, copy) = self.flying.remove(0);
                if to_server {
                    self.server.handle_datagram(due, client_address(), &bytes);
                    self.drain_server(copy);
                } else {
                    self.truths.push((due, copy));
                    self.client.handle_datagram(due, server_address(), &bytes);
                }
            }
            self.client.handle_timeout(due);
            self.drain_client();
        }
        self.now = end;
    }

    /// Whether a reported match is correct for a response that arrived at that time.
    ///
    /// With a server that replays responses, the match must not be earlier than the answered transmission, which would
    /// overestimate the round-trip time. It may be later if a later transmission overtook the answered one and its response
    /// was overtaken in turn; then the first response is measured from the transmission that arrived first.
    fn bears_out(&self, heard: &MatchedReply) -> bool {
        let (earliest, latest) = match heard.matched {
            Matched::Exact(told) => (told, told),
            Matched::Ambiguous { earliest, latest } => (earliest, latest),
            _ => return false,
        };
        let lowest = match self.behaviour {
            Server::Counts => earliest,
            Server::Replays => 0,
        };
        let mut then = self.truths.iter().filter(|(at, _)| *at == heard.at);
        then.any(|(_, copy)| (lowest..=latest).contains(copy))
    }
}

fn faults() -> impl Strategy<Value = Faults> {
    (0..40_u32, 0..40_u32, 0..300_u64).prop_map(|(loss, duplication, jitter)| Faults {
        loss,
        duplication,
        jitter: millis(jitter),
    })
}

/// Forty exchanges in sequence, most with spurious retransmissions.
fn exchanges(
    how: CopyTagging,
    server: Server,
    faults: Faults,
    seed: u64,
) -> (World, Vec<MatchedReply>) {
    let (mut config, log) = counting(how, millis(35), 1);
    config.parameters.safeguards = false;
    let mut world = World::new(config, server, seed);
    for n in 0..40 {
        let (now, there) = (world.now, server_address());
        let sending = RequestConfig::default();
        world.client.request(now, there, get("x"), sending).unwrap();
        world.run_until(now + seconds(10));
        if n == 0 {
            // The first exchange gives a minimum of the round-trip time.
            world.faults = faults;
        }
    }
    (world, log.heard())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn matched_transmission_is_correct(
        how in proptest::sample::select(&COUNTINGS[..]),
        replays in any::<bool>(),
        faults in faults(),
        seed in any::<u64>(),
    ) {
        let server = if replays { Server::Replays } else { Server::Counts };
        let (world, heard) = exchanges(how, server, faults, seed);
        for heard in &heard {
            prop_assert!(world.bears_out(heard), "{heard:?}");
        }
    }

    #[test]
    fn every_counted_request_ends_once(
        how in proptest::sample::select(&COUNTINGS[..]),
        token_length in 0..=8_u16,
        server_delay in prop_oneof![Just(0_u64), Just(50), Just(400)],
        faults in faults(),
        seed in any::<u64>(),
    ) {
        let (mut config, _) = counting(how, millis(35), 3);
        config.token_length = token_length;
        let (server, _) = counting(how, millis(50), 3);
        let mut net = Net::new(config, server).seeded(seed);
        net.faults = faults;
        net.app.delay = millis(server_delay);
        net.app.resources.insert("large".into(), pattern(3_000));
        net.observable("seen", "0");
        for n in 0..4 {
            net.send(get("large"));
            net.send(post("x", pattern(20)));
            net.send(put("y", pattern(2_500)));
            net.send_with(get("x"), sending_with(|sending| sending.confirmable = n % 2 == 0));
            net.run_for(millis(100 * n));
        }
        let observation = net.send_with(get("seen"), observing());
        net.run_for(seconds(400));
        net.client.stop_observing(net.now, observation);
        net.run_for(seconds(800));
        let last = |event: &Event| matches!(event, Event::Response { .. } | Event::Failed { .. });
        let ended = net.events.iter().filter(|(_, event)| last(event)).count();
        prop_assert_eq!(ended, 17 - usize::from(!net.client.is_idle()));
        prop_assert!(net.client.is_idle() && net.server.is_idle());
        let snapshot = net.client.snapshot(net.now, server_address()).unwrap();
        prop_assert_eq!((snapshot.outstanding, snapshot.outstanding_bytes), (0, 0));
    }
}

/// Share of responses to retransmitted requests that are matched exactly.
#[test]
fn own_server_resolves_most_replies() {
    let faults = Faults {
        loss: 20,
        duplication: 0,
        jitter: millis(100),
    };
    let share = |how, server| {
        let (_, heard) = exchanges(how, server, faults, 1);
        let repeated: Vec<_> = heard.iter().filter(|heard| heard.copies > 1).collect();
        assert!(repeated.len() > 20);
        let exact = |heard: &&&MatchedReply| matches!(heard.matched, Matched::Exact(_));
        repeated.iter().filter(exact).count() * 100 / repeated.len()
    };
    for how in COUNTINGS {
        let (ours, replaying) = (share(how, Server::Counts), share(how, Server::Replays));
        if how == CopyTagging::Off {
            assert_eq!((ours, replaying), (0, 0));
        } else {
            assert!(ours >= 90, "{how:?}: {ours} %");
            assert!(replaying < ours, "{how:?}: {replaying} % and {ours} %");
        }
    }
}
