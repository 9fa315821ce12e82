//! Observation on the wire (RFC 7641): registration, notifications, order and end.

mod notifying;
mod registration;

use crate::net::wire::{con, reply, view};
use crate::net::{Faults, Net, client_address, get, millis, observing, pattern, put, seconds};
use carob_cc::random::Random;
use carob_cc::time::{Duration, Instant};
use carob_proto::codec::{BlockValue, Code, MessageId, OptionNumber, Type};
use carob_proto::endpoint::{Config, Event, Failure, RequestError, RequestId, Subject};
use carob_proto::{Request, Response};

/// A client that observes `/light` with state "off", after the registration.
fn observed() -> (Net, RequestId) {
    observed_with(Config::default())
}

fn observed_with(server: Config) -> (Net, RequestId) {
    let mut net = Net::new(Config::default(), server);
    net.observable("light", "off");
    let id = net.send_with(get("light"), observing());
    net.run_for(seconds(1));
    assert_eq!(net.states(), ["off"]);
    (net, id)
}

fn observe_value(bytes: &[u8]) -> Option<u32> {
    view(bytes).uint_option(OptionNumber::OBSERVE)
}

fn stale(net: &Net) -> Vec<(u64, Option<Failure>)> {
    let of = |(at, event): &(Instant, Event)| match event {
        Event::Stale { failure, .. } => Some((at.since(Instant::ZERO).as_millis(), *failure)),
        _ => None,
    };
    net.events.iter().filter_map(of).collect()
}

/// A notification as Carob's server would send it, with these values.
fn notification(net: &Net, kind: Type, id: u16, sequence: u32, payload: &[u8]) -> Vec<u8> {
    let told = con(Code::CONTENT, id)
        .kind(kind)
        .token_of(net.sent_by_client()[0]);
    let told = told
        .uint(OptionNumber::OBSERVE, sequence)
        .uint(OptionNumber::MAX_AGE, 1_000);
    told.payload(payload).bytes()
}

/// Eventual consistency under loss, duplication and reordering.
#[test]
fn every_observer_eventually_has_the_last_state() {
    for seed in 0..40 {
        let mut net = Net::plain().seeded(seed);
        net.observable("light", "state 0");
        net.faults = Faults {
            loss: 20,
            duplication: 20,
            jitter: millis(400),
        };
        net.send_with(get("light"), observing());
        net.run_for(seconds(5));
        let mut random = crate::net::Stream(seed);
        for n in 1..=30 {
            net.change("light", format!("state {n}"), true);
            let pause = u64::from(random.next_u32() % 2_000);
            net.run_for(Duration::from_millis(pause));
        }
        net.faults = Faults::default();
        net.run_for(seconds(2_000));
        assert_eq!(net.states().last().unwrap(), "state 30", "seed {seed}");
        let numbers: Vec<u32> = net
            .states()
            .iter()
            .map(|s| s[6..].parse().unwrap())
            .collect();
        assert!(numbers.is_sorted(), "seed {seed}: {numbers:?}");
        assert_eq!(net.server.usage().exchanges, 0, "seed {seed}");
    }
}
