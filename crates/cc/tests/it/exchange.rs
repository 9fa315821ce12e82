//! The example `exchange`: the message layer of one peer.

#[path = "../../examples/exchange.rs"]
#[allow(dead_code, reason = "its `main` belongs to the program")]
mod program;

use carob_cc::TransmissionParameters;
use carob_cc::algorithms::cocoa::Cocoa;
use carob_cc::algorithms::fasor::Fasor;
use carob_cc::registry::Family;
use carob_cc::time::{Duration, Instant};
use program::{Action, Peer, XorShift, simulate};

fn fasor() -> Peer<Fasor> {
    let controller = Fasor::new(&Fasor::PROFILES[0].constants);
    Peer::new(controller, TransmissionParameters::DEFAULT)
}

#[test]
fn lost_datagrams_are_retransmitted() {
    let (datagrams, failed, _) = simulate(&mut fasor(), 20, |number| number % 5 == 4);
    assert_eq!((datagrams, failed), (24, 0));
    let (datagrams, failed, end) = simulate(&mut fasor(), 20, |_| false);
    assert_eq!((datagrams, failed), (20, 0));
    assert_eq!(end, Instant::ZERO + Duration::from_secs(40));
}

#[test]
fn the_controller_learns_the_round_trip() {
    let mut peer = fasor();
    let (_, _, end) = simulate(&mut peer, 20, |_| false);
    let rto = peer.rto(end).unwrap();
    assert!(
        rto >= Duration::from_secs(2) && rto < Duration::from_secs(4),
        "{rto}"
    );
}

#[test]
fn a_silent_peer_ends_an_exchange_after_max_retransmit() {
    let (datagrams, failed, _) = simulate(&mut fasor(), 1, |_| true);
    assert_eq!((datagrams, failed), (5, 1));
}

#[test]
fn timeouts_grow_up_to_the_cap() {
    let profile = Cocoa::PROFILES
        .iter()
        .find(|profile| profile.name == "cocoa-03");
    let mut parameters = TransmissionParameters::DEFAULT;
    parameters.max_retransmit = 5;
    parameters.rto_max = Some(Duration::from_secs(5));
    let mut peer = Peer::new(Cocoa::new(&profile.unwrap().constants), parameters);
    let (mut now, mut random) = (Instant::ZERO, XorShift(1));
    assert!(peer.send(now, 7, &mut random) && !peer.send(now, 8, &mut random));
    let mut timers = Vec::new();
    while let Some(deadline) = peer.deadline() {
        assert_eq!(peer.on_timer(now, &mut random), Action::Wait);
        timers.push(deadline.since(now));
        now = deadline;
        peer.on_timer(now, &mut random);
    }
    assert_eq!(timers.len(), 6);
    assert!(timers.is_sorted(), "{timers:?}");
    assert_eq!(timers[2..], [Duration::from_secs(5); 4]);
}

#[test]
fn acks_and_resets_of_other_messages_are_ignored() {
    let (mut peer, now) = (fasor(), Instant::ZERO);
    peer.send(now, 7, &mut XorShift(1));
    assert!(!peer.on_ack(now, 8, carob_cc::evidence::Answer::Empty, 4) && !peer.on_reset(now, 8));
    assert!(peer.on_reset(now, 7) && peer.deadline().is_none());
}
