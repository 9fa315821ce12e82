//! The example `exchange`: message layer of one peer with one outstanding exchange.

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
    // 20 requests and the retransmissions of the 4 lost datagrams.
    let (datagrams, failed, _) = simulate(&mut fasor(), 20, |number| number % 5 == 4);
    assert_eq!((datagrams, failed), (24, 0));
    let (datagrams, failed, end) = simulate(&mut fasor(), 20, |_| false);
    assert_eq!((datagrams, failed), (20, 0));
    assert_eq!(end, Instant::ZERO + Duration::from_secs(40));
}

#[test]
fn rto_adapts_to_the_measured_round_trip_time() {
    let mut peer = fasor();
    let (_, _, end) = simulate(&mut peer, 20, |_| false);
    let rto = peer.rto(end).unwrap();
    assert!(
        rto >= Duration::from_secs(2) && rto < Duration::from_secs(4),
        "{rto}"
    );
}

#[test]
fn an_exchange_without_ack_fails_after_max_retransmit() {
    // The original transmission and MAX_RETRANSMIT (4) retransmissions.
    let (datagrams, failed, _) = simulate(&mut fasor(), 1, |_| true);
    assert_eq!((datagrams, failed), (5, 1));
}

#[test]
fn backed_off_timeouts_are_capped_at_rto_max() {
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
    // 2 to 3 s, then 4 to 6 s (back-off factor 2 for timers of 1 to 3 s): every later one exceeds 5 s.
    assert_eq!(timers[2..], [Duration::from_secs(5); 4]);
}

#[test]
fn acks_and_resets_with_another_message_id_are_ignored() {
    let (mut peer, now) = (fasor(), Instant::ZERO);
    peer.send(now, 7, &mut XorShift(1));
    assert!(!peer.on_ack(now, 8, carob_cc::evidence::Answer::Empty, 4) && !peer.on_reset(now, 8));
    assert!(peer.on_reset(now, 7) && peer.deadline().is_none());
}
