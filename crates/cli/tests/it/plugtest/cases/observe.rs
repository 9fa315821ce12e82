//! TD_COAP_OBS: observation (RFC 7641).

use std::time::Duration;

use carob::{Code, OptionNumber};
use carob_proto::codec::Type;

use super::basic::assert_displayed;
use super::block::download;
use crate::interop::bench::{Bench, PASSING};
use crate::interop::requests::Ask;
use crate::interop::watching::Watch;
use crate::interop::wire::{Exchange, Message, Side};
use crate::plugtest::setup::{Setup, TICK};
use crate::process::until;

const OBS: &str = "/obs";
/// Time for three changes.
const THREE_TICKS: Duration = TICK.saturating_mul(3);
/// Longer than the longest retransmission gap of a server with short timers, plus three changes.
const LONG_SILENCE: Duration = Duration::from_millis(2_500);

/// A registration and its notifications.
struct Observing {
    registration: Exchange,
    watch: Watch,
}

/// Registers; checks request and response (RFC 7641 2, 3.1, 4.1).
fn register(bench: &Bench, path: &str) -> Observing {
    let before = bench.wire().requests().len();
    let mut watch = bench.observe(&Ask::get(path));
    let registration = registration(bench, before);
    let answer = watch.next();
    // For a large representation, this is the first block only.
    assert!(answer.payload.starts_with(&registration.response.payload));
    Observing {
        registration,
        watch,
    }
}

/// Registers and waits for notifications.
fn follow(bench: &Bench, notifications: usize) -> Observing {
    let mut observing = register(bench, OBS);
    observing.told(bench, notifications, Type::Confirmable);
    observing
}

/// Waits for the registration after `before` requests and checks it.
fn registration(bench: &Bench, before: usize) -> Exchange {
    let registration = bench.until("a registration that is answered", |wire| {
        let request = *wire.requests().get(before)?;
        Some(Exchange {
            request: request.clone(),
            response: wire.response_to(request)?.clone(),
        })
    });
    let Exchange { request, response } = &registration;
    assert_eq!((request.kind, request.code), (Type::Confirmable, Code::GET));
    let observe = request.option(OptionNumber::OBSERVE);
    assert_eq!(observe, Some(&b""[..]), "Observe 0 is empty");
    assert_eq!(response.kind, Type::Acknowledgement);
    assert_eq!(response.id, request.id);
    assert_eq!(response.token, request.token);
    assert_eq!(response.code, Code::CONTENT);
    assert!(response.observe().is_some(), "not registered");
    assert!(response.format().is_some(), "no format");
    registration
}

/// RFC 7641 3.4: whether a notification is fresher than one received less than 128 s before.
fn is_newer(new: u32, old: u32) -> bool {
    let ahead = new.wrapping_sub(old) & 0xff_ffff;
    (1..1 << 23).contains(&ahead)
}

impl Observing {
    /// Notifications so far.
    fn notifications(&self, bench: &Bench) -> Vec<Message> {
        let wire = bench.wire();
        let all = wire.notifications(&self.registration.request.token);
        all.into_iter().cloned().collect()
    }

    /// Checks a notification.
    fn assert_tells(&self, message: &Message, kind: Type) {
        assert_eq!((message.kind, message.code), (kind, Code::CONTENT));
        assert_eq!(message.format(), self.registration.response.format());
        assert!(message.observe().is_some(), "no Observe");
    }

    /// Waits for `count` more notifications: the numbers increase, and each Confirmable one is acknowledged.
    fn told(&mut self, bench: &Bench, count: usize, kind: Type) {
        for _ in 0..count {
            let answer = self.watch.next();
            let all = self.notifications(bench);
            let told = all.iter().find(|m| m.payload == answer.payload);
            let told = told.expect("the notification on the wire");
            assert_displayed(&answer, told);
        }
        let all = self.notifications(bench);
        let mut newest = self.registration.response.observe().expect("registered");
        for message in &all {
            self.assert_tells(message, kind);
            let number = message.observe().expect("as above");
            assert!(is_newer(number, newest), "{number} after {newest}");
            newest = number;
        }
        for message in all.iter().filter(|m| m.kind == Type::Confirmable) {
            // A lost notification may be superseded by a fresher one instead of retransmitted.
            let frames = bench.wire().0;
            if frames.iter().any(|f| f.message == *message && !f.lost) {
                acknowledged(bench, message);
            }
        }
    }

    /// Waits for a state of `/obs-large` or `/obs-pumping`: its notification, which may have the first block only, and the
    /// whole representation.
    fn whole_state(&mut self, bench: &Bench) -> (Message, Vec<u8>) {
        let told = self.watch.next();
        assert!(is_whole(told.text()), "{}", told.text());
        let mut all = self.notifications(bench).into_iter();
        let first = all.find(|m| told.payload.starts_with(&m.payload));
        let first = first.expect("its first block is a notification");
        self.assert_tells(&first, Type::Confirmable);
        (first, told.payload)
    }

    /// Waits until the application has this representation.
    fn receive(&mut self, payload: &[u8]) {
        until(PASSING, "representation", || {
            (self.watch.next().payload == payload).then_some(())
        });
    }

    /// Waits for the final notification: Confirmable and without Observe (RFC 7641 4.2).
    fn ended(&mut self, bench: &Bench, code: Code) {
        let token = self.registration.request.token.clone();
        let last = bench.until("the last word", |wire| {
            let all = wire.notifications(&token);
            all.into_iter().find(|m| m.code == code).cloned()
        });
        assert_eq!(last.kind, Type::Confirmable);
        assert_eq!(last.observe(), None);
        acknowledged(bench, &last);
        until(PASSING, "final notification", || {
            let answer = self.watch.next();
            let is_last = answer.code == code.to_string();
            assert!(is_last || answer.code == "2.05", "an earlier state");
            is_last.then_some(())
        });
    }
}

fn acknowledged(bench: &Bench, message: &Message) {
    bench.until("an acknowledgement", |wire| {
        wire.empty(Side::Client, Type::Acknowledgement, message.id)
            .cloned()
    });
}

/// Checks that the client gets no messages although the resource changes.
fn assert_silence(bench: &Bench, time: Duration) {
    let meanwhile = bench.meanwhile(time);
    assert_eq!(meanwhile.responses(), Vec::<&Message>::new());
}

pub(super) fn confirmable(bench: &Bench) {
    follow(bench, 3);
}

pub(super) fn non_confirmable(bench: &Bench) {
    let mut watch = bench.observe(&Ask::get("/obs-non").non());
    let first = watch.next();
    for _ in 0..3 {
        assert_eq!(watch.next().format, first.format);
    }
    let wire = bench.wire();
    let [request] = *wire.requests() else {
        panic!("more than one request")
    };
    assert_eq!(request.kind, Type::NonConfirmable);
    assert_eq!(request.option(OptionNumber::OBSERVE), Some(&b""[..]));
    let told = wire.notifications(&request.token);
    assert!(told.len() >= 4, "fewer notifications than states");
    for pair in told.windows(2) {
        let numbers = [0, 1].map(|i| pair[i].observe().expect("Observe"));
        assert!(is_newer(numbers[1], numbers[0]), "{numbers:?}");
    }
    for message in told {
        assert_eq!(
            (message.kind, message.code),
            (Type::NonConfirmable, Code::CONTENT)
        );
        assert_eq!(message.format(), first.format);
        let id = message.id;
        assert_eq!(wire.empty(Side::Client, Type::Acknowledgement, id), None);
    }
}

pub(super) fn reboot_of_server(bench: &Bench) {
    let mut observing = follow(bench, 1);
    let token = observing.registration.request.token.clone();

    bench.server.reboot(Setup::PLAIN);
    // In-flight messages may still arrive. After that the server is silent until the client registers again.
    std::thread::sleep(TICK);
    let before = bench.wire().requests().len();
    assert_silence(bench, THREE_TICKS);
    let again = registration(bench, before);
    assert_eq!(again.request.token, token, "another token");
    // The restarted server may use any Observe number, and the client accepts it. A busy server may refuse the
    // registration, or a fresher state may overtake its response.
    let next = bench.until("an acknowledged notification", |wire| {
        let at = wire.0.iter().position(|f| f.message == again.response)?;
        let frames = wire.0[at..].iter().map(|f| &f.message);
        let told =
            |m: &&Message| m.token == token && m.kind == Type::Confirmable && m.code.is_response();
        let acknowledged = |m: &&Message| {
            wire.empty(Side::Client, Type::Acknowledgement, m.id)
                .is_some()
        };
        frames.filter(told).find(acknowledged).cloned()
    });
    observing.assert_tells(&next, Type::Confirmable);
    observing.receive(&next.payload);
}

pub(super) fn client_off(bench: &Bench) {
    let bench = &bench.with_setup(Setup::IMPATIENT);
    let _observing = follow(bench, 1);
    bench.cut();
    let off = bench.wire().0.last().map(|frame| frame.at);
    let off = off.expect("something has passed");
    loop {
        let more = bench.meanwhile(LONG_SILENCE);
        let Some(last) = more.0.iter().rfind(|f| f.from == Side::Server) else {
            break;
        };
        let lasts = last.at.saturating_sub(off);
        assert!(lasts < Duration::from_secs(15), "it goes on and on");
    }
    let wire = bench.wire().after(off);
    let sent: Vec<_> = wire.0.iter().filter(|f| f.from == Side::Server).collect();
    let (_, retransmissions) = Setup::IMPATIENT.timers();
    assert!(sent.len() >= 2, "nothing was repeated");
    // A fresher state replaces the retransmitted one and inherits its count (RFC 7641 4.5.2).
    let most = 1 + usize::from(retransmissions);
    assert!(sent.len() <= most, "{} copies", sent.len());
    let numbers: Vec<_> = sent.iter().map(|f| f.message.observe()).collect();
    assert!(
        numbers.first() != numbers.last(),
        "the same state again and again: {numbers:?}"
    );
    assert!(matches!(bench.server.observers(), None | Some(0)));
}

pub(super) fn reset(bench: &Bench) {
    let observing = follow(bench, 1);
    let token = observing.registration.request.token.clone();
    observing.watch.forget();
    bench.until("a Reset to a notification", |wire| {
        let told = wire.notifications(&token);
        let mut ids = told.into_iter().map(|m| m.id);
        ids.find(|id| wire.empty(Side::Client, Type::Reset, *id).is_some())
    });
    assert_silence(bench, THREE_TICKS);
    assert!(matches!(bench.server.observers(), None | Some(0)));
}

pub(super) fn deleted(bench: &Bench) {
    let mut observing = follow(bench, 1);
    assert_eq!(bench.ask_aside(&Ask::delete(OBS)).code, "2.02");
    observing.ended(bench, Code::NOT_FOUND);
    assert_silence(bench, THREE_TICKS);
}

pub(super) fn format_changed(bench: &Bench) {
    const JSON: u16 = 50;
    let mut observing = follow(bench, 1);
    let put = Ask::put(OBS).content(JSON, "{}");
    assert_eq!(bench.ask_aside(&put).code, "2.04");
    observing.ended(bench, Code::NOT_ACCEPTABLE);
    assert_silence(bench, THREE_TICKS);
}

pub(super) fn updated(bench: &Bench) {
    const NEW: &str = "a new value";
    let mut observing = follow(bench, 1);
    assert_eq!(bench.ask_aside(&Ask::put(OBS).text(NEW)).code, "2.04");
    observing.receive(NEW.as_bytes());
    let all = observing.notifications(bench);
    let told = all.iter().find(|m| m.payload == NEW.as_bytes());
    observing.assert_tells(told.expect("on the wire too"), Type::Confirmable);
    observing.told(bench, 1, Type::Confirmable);
}

pub(super) fn unrelated_get(bench: &Bench) {
    let mut observing = follow(bench, 1);
    let answer = bench.ask(&Ask::get(OBS));
    let Exchange { request, response } = bench.wire().last_exchange();
    assert_eq!((request.kind, request.code), (Type::Confirmable, Code::GET));
    assert_ne!(request.token, observing.registration.request.token);
    assert_eq!((request.observe(), response.observe()), (None, None));
    assert_eq!(response.kind, Type::Acknowledgement);
    assert_displayed(&answer, &response);
    let before = observing.notifications(bench).len();
    observing.told(bench, 2, Type::Confirmable);
    assert!(observing.notifications(bench).len() > before);
}

pub(super) fn lossy(bench: &Bench) {
    let bench = &bench.with_setup(Setup::IMPATIENT);
    let mut observing = register(bench, OBS);
    bench.lose(2, Side::Server, |m| m.kind == Type::Confirmable);
    observing.told(bench, 2, Type::Confirmable);
    bench.lose(2, Side::Client, |m| m.kind == Type::Acknowledgement);
    observing.told(bench, 3, Type::Confirmable);
    assert_one_at_a_time(bench);
}

/// RFC 7641 4.5: one notification at a time. The next is sent after the acknowledgement or the timeout, and a superseded
/// one is not retransmitted.
fn assert_one_at_a_time(bench: &Bench) {
    let wire = bench.wire();
    let (ack_timeout, _) = Setup::IMPATIENT.timers();
    let (mut active, mut passed) = (None, Vec::new());
    let mut lost = 0;
    for frame in &wire.0 {
        lost += usize::from(frame.lost);
        let message = &frame.message;
        match (frame.from, message.kind) {
            (Side::Server, Type::Confirmable) => {
                assert!(!passed.contains(&message.id), "an old one again");
                if let Some((id, at)) = active.replace((message.id, frame.at)) {
                    let gap = frame.at.saturating_sub(at);
                    // Half of ACK_TIMEOUT, for scheduling delays of the relay.
                    let shortest = Duration::from_millis(u64::from(ack_timeout) / 2);
                    assert!(gap >= shortest, "two at a time, {gap:?} apart");
                    if id != message.id {
                        passed.push(id);
                    }
                }
            }
            (Side::Client, Type::Acknowledgement) if !frame.lost => {
                active = active.filter(|(id, _)| *id != message.id);
            }
            _ => {}
        }
    }
    assert!(lost >= 4, "only {lost} were lost");
}

pub(super) fn stopped(bench: &Bench) {
    let observing = follow(bench, 1);
    let token = observing.registration.request.token.clone();
    observing.watch.stop();
    let Exchange { request, response } = bench.until("the last exchange", |wire| {
        let request = *wire.requests().last()?;
        (request.observe() == Some(1)).then_some(())?;
        Some(Exchange {
            request: request.clone(),
            response: wire.response_to(request)?.clone(),
        })
    });
    assert_eq!((request.kind, request.code), (Type::Confirmable, Code::GET));
    assert_eq!(request.token, token);
    assert_eq!(
        (response.kind, response.id),
        (Type::Acknowledgement, request.id)
    );
    assert_eq!((response.code, response.observe()), (Code::CONTENT, None));
    assert_silence(bench, THREE_TICKS);
}

/// Whether a representation of `/obs-large` or `/obs-pumping` is consistent, not mixed from two states.
fn is_whole(text: &str) -> bool {
    let tick = text.split(' ').nth(1).unwrap_or_default();
    let mut words = text.split_whitespace();
    words.all(|word| word == "tick" || word == tick) && !tick.is_empty()
}

/// The exchanges after a message that fetch the remaining blocks.
fn rest_of(bench: &Bench, first: &Message) -> Vec<Exchange> {
    bench.until("the other blocks", |wire| {
        let at = wire.0.iter().position(|f| f.message == *first)?;
        let fetches = wire.requests().into_iter().filter(|request| {
            let later = wire.0[at..].iter().any(|f| f.message == **request);
            later
                && request
                    .block(OptionNumber::BLOCK2)
                    .is_some_and(|b| b.number > 0)
        });
        let mut rest = Vec::new();
        for request in fetches {
            assert_eq!(request.observe(), None, "a block is not observed");
            let response = wire.response_to(request)?.clone();
            let more = response.block(OptionNumber::BLOCK2)?.more;
            let request = request.clone();
            rest.push(Exchange { request, response });
            if !more {
                return Some(rest);
            }
        }
        None
    })
}

/// Checks a block-wise notification or response; `first` has the first block.
fn assert_in_blocks(bench: &Bench, request: &Message, first: &Message) -> Vec<u8> {
    let block = first.block(OptionNumber::BLOCK2).expect("a Block2");
    assert_eq!((block.number, block.more), (0, true));
    let mut exchanges = vec![Exchange {
        request: request.clone(),
        response: first.clone(),
    }];
    exchanges.extend(rest_of(bench, first));
    download(&exchanges, Code::CONTENT)
}

pub(super) fn large(bench: &Bench) {
    let mut observing = register(bench, "/obs-large");
    let Exchange { request, response } = observing.registration.clone();
    assert_in_blocks(bench, &request, &response);
    for _ in 0..2 {
        let (first, payload) = observing.whole_state(bench);
        acknowledged(bench, &first);
        assert_eq!(assert_in_blocks(bench, &request, &first), payload);
    }
}

pub(super) fn pumping(bench: &Bench) {
    /// Upper bound of registrations and notifications to look at.
    const TRIES: usize = 8;
    let in_blocks = |m: &Message| m.block(OptionNumber::BLOCK2).is_some_and(|b| b.more);
    // Indices: registered or notified; in one message or block-wise.
    let mut seen = [[false; 2]; 2];
    for round in 0..TRIES {
        let mut observing = register(bench, "/obs-pumping");
        seen[0][usize::from(in_blocks(&observing.registration.response))] = true;
        // Two or three changes, so that the next registration gets the other size.
        for _ in 0..2 + round % 2 {
            let (first, payload) = observing.whole_state(bench);
            seen[1][usize::from(in_blocks(&first))] = true;
            assert!(in_blocks(&first) || first.payload == payload);
        }
        observing.watch.forget();
        if seen == [[true; 2]; 2] {
            return;
        }
    }
    panic!("not seen in one message and in several: {seen:?}");
}
