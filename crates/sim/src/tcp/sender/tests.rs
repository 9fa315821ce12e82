//! Linux without SACK, at the level of the sender.

use super::*;
use crate::tcp::settings::Algorithm;

const RTT: Duration = Duration::from_millis(100);

fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

/// A sender with this many outstanding segments of 256 bytes, sent at 0 s.
fn outstanding(settings: &TcpSettings, count: u32, sack: bool) -> Sender {
    let mut settings = *settings;
    settings.initial_window = count;
    let mut sender = Sender::new(&settings, &Stream::new(1, "sender"));
    sender.establish(
        at(0),
        256,
        0,
        sack,
        1 << 20,
        Some(RTT),
        &Stream::new(1, "module"),
    );
    let bytes = Bytes::from(vec![0; 256 * count as usize]);
    assert_eq!(sender.write(at(0), bytes), 256 * count as usize);
    while sender.next(at(0)).is_some() {}
    assert_eq!(sender.board.len(), count);
    sender
}

/// An ACK of all segments before the one with this number.
fn ack(sender: &mut Sender, millis: u64, segment: u64) {
    sender.handle_ack(&AckInput {
        now: at(millis),
        ack: 1 + 256 * segment,
        window: 1 << 20,
        bare: true,
        sack: &[],
        echoed: None,
        congestion_echo: false,
    });
    while sender.next(at(millis)).is_some() {}
}

fn duplicates(sender: &mut Sender, millis: u64, count: u32) {
    for _ in 0..count {
        ack(sender, millis, 0);
    }
}

fn time_out(sender: &mut Sender) -> u64 {
    let due = sender.timer.expect("a timer runs");
    assert_eq!(sender.handle_timeout(due), TimedOut::Sends);
    due.as_micros() / 1_000
}

#[test]
fn unexplained_duplicates_raise_the_threshold() {
    for (most, expected) in [(0, 3), (300, 10), (6, 6)] {
        let mut settings = TcpSettings::THESIS;
        settings.reordering_max = most;
        let mut sender = outstanding(&settings, 10, false);
        // Nine can be explained: all but the first were received.
        duplicates(&mut sender, 100, 9);
        assert_eq!(sender.threshold, 3);
        duplicates(&mut sender, 100, 1);
        assert_eq!(sender.threshold, expected);
    }
}

#[test]
fn a_raised_threshold_delays_the_fast_retransmit() {
    let mut sender = outstanding(&TcpSettings::THESIS, 10, false);
    sender.threshold = 5;
    duplicates(&mut sender, 100, 4);
    assert_eq!(sender.state, State::Disorder);
    duplicates(&mut sender, 100, 1);
    assert_eq!(sender.state, State::Recovery);
}

#[test]
fn deliveries_announced_before_a_timeout_can_be_counted_once() {
    for (once, expected) in [(false, 16), (true, 10)] {
        let mut settings = TcpSettings::THESIS;
        settings.deliveries_once = once;
        let mut sender = outstanding(&settings, 10, false);
        duplicates(&mut sender, 100, 6);
        assert_eq!(sender.rate.delivered, 6);
        let due = time_out(&mut sender);
        while sender.next(at(due)).is_some() {}
        ack(&mut sender, due + 100, 10);
        assert_eq!(sender.rate.delivered, expected);
    }
}

#[test]
fn without_sack_timeout_marks_all_lost() {
    for (sack, lost) in [(false, 10), (true, 1)] {
        let mut sender = outstanding(&TcpSettings::KERNEL, 10, sack);
        let due = sender.timer.expect("a timer runs");
        for sent in 1..10 {
            sender.board.sent_again_for_test(sent, due);
        }
        time_out(&mut sender);
        assert_eq!(sender.board.lost, lost);
        assert_eq!(sender.window.cwnd, 1 + 10 - lost);
    }
}

#[test]
fn samples_are_application_limited_during_probe_rtt() {
    let mut settings = TcpSettings::KERNEL;
    settings.congestion = Algorithm::Bbr1;
    let mut sender = outstanding(&settings, 10, false);
    // The path is idle for longer than the filter's window.
    ack(&mut sender, 11_000, 1);
    assert!(sender.rate.is_limited_by_application());
}
