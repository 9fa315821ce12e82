//! Sizes of the tables of a tracker.

use std::net::SocketAddr;

use super::*;
use crate::Options;
use crate::contents::Reading;
use crate::input::packet::Datagram;
use crate::synthetic::message;
use carob_codec::{Code, OptionNumber};

impl Tracker {
    /// Entries of the order, of the waiting ones and of the tokens, and transmissions kept for controllers.
    fn sizes(&self) -> [usize; 4] {
        let kept = self.open.values().filter_map(|open| open.replay.as_ref());
        [
            self.order.len(),
            self.waiting.len(),
            self.tokens.len(),
            kept.map(Panel::transmissions).sum(),
        ]
    }

    /// Asserts that all tables are bounded by the exchanges that are open.
    fn assert_bounded(&self, name: &str) {
        let [order, waiting, tokens, kept] = self.sizes();
        let open = self.open.len();
        assert!(open <= EXCHANGES_MAX, "{name}: {open} open");
        assert!(order <= 2 * open + STALE_MIN, "{name}: {order} in order");
        assert!(waiting <= open, "{name}: {waiting} of {open} waiting");
        assert!(tokens <= open, "{name}: {tokens} tokens of {open}");
        let controllers = carob_cc::registry::entries().count();
        let most = open * TRANSMISSIONS_MAX * controllers;
        assert!(kept <= most, "{name}: {kept} transmissions");
    }
}

fn request(at: u64, kind: Type, id: u16, resource: u8, token: u8) -> Message {
    let from = SocketAddr::from(([11, 0, 0, 1], 5_683));
    let to = SocketAddr::from(([10, 0, 0, 1], 5_683));
    let path = [resource];
    let options = [(OptionNumber::URI_PATH, &path[..])];
    let payload = message(kind, Code::GET, id, &[token], &options, b"");
    let datagram = Datagram::of(from, to, &payload);
    Message::read(&datagram, at, 0).expect("a message")
}

#[test]
fn repeated_messages_do_not_grow_tables() {
    for kind in [Type::Confirmable, Type::NonConfirmable] {
        let mut tracker = Tracker::new();
        for copy in 0..5_000 {
            tracker.see(&request(copy * 20_000, kind, 7, b'a', 1));
        }
        tracker.assert_bounded(&format!("{kind:?}"));
        assert_eq!(tracker.open.len(), 1, "{kind:?}");
        tracker.conclude_all();
        assert_eq!(tracker.sizes(), [0; 4], "{kind:?}");
    }
}

#[test]
fn message_ids_of_ever_new_contents_do_not_grow_tables() {
    // Also where all messages have one time.
    for step in [0, 20] {
        let mut tracker = Tracker::new();
        // The first exchange stays open.
        tracker.see(&request(0, Type::Confirmable, 8, b'a', 1));
        for copy in 0..20_000_u64 {
            let (resource, token) = ((copy & 1) as u8, (copy % 251) as u8);
            tracker.see(&request(copy * step, Type::Confirmable, 7, resource, token));
        }
        tracker.assert_bounded("alternating contents");
        assert_eq!(tracker.open.len(), 2);
    }
}

#[test]
fn repeated_lines_of_a_log_do_not_grow_tables() {
    let mut text = String::new();
    for line in 0..5_000 {
        let at = line * 1_000;
        for (peer, id) in [("[fd00::1]:5683", 1), ("[fd00::2]:5683", line % 3)] {
            let line = format!(
                "{{\"at_us\":{at},\"peer\":\"{peer}\",\"event\":\"sent\",\"id\":{id},\"type\":\"CON\",\"purpose\":\"request\",\"bytes\":14}}"
            );
            text.extend([&line[..], "\n"]);
        }
    }
    let mut tracker = Tracker::new();
    let mut reading = Reading::default();
    reading
        .log(text.as_bytes(), &Options::default(), &mut tracker)
        .expect("a log");
    assert_eq!(tracker.totals.messages, 10_000);
    assert_eq!(tracker.open.len(), 4);
    tracker.assert_bounded("a log");
}

#[test]
fn a_step_back_of_the_time_expires_no_exchange() {
    let mut tracker = Tracker::new();
    for (hour, id) in [(2, 1), (0, 2), (1, 3)] {
        let at = hour * 3_600_000_000;
        let request = request(at, Type::Confirmable, id, b'a', 1);
        let reply = Message {
            at: at + 50_000,
            from: request.to,
            to: request.from,
            kind: Type::Acknowledgement,
            code: Code::CONTENT,
            ..request
        };
        tracker.see(&request);
        tracker.see(&reply);
    }
    tracker.conclude_all();
    let flow = tracker.conversations[0].flows.iter();
    let counts = flow.map(|flow| (flow.counts.answered, flow.counts.unanswered));
    assert!(counts.into_iter().any(|counts| counts == (3, 0)));
    assert_eq!(tracker.totals.stray_replies, 0);
    // The two parts have 50 ms, and 1 h and 50 ms.
    assert_eq!(tracker.totals.span_us, 3_600_000_000 + 2 * 50_000);
}
