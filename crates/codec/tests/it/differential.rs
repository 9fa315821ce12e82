//! Decodes the corpus here and with `coap-lite`: result and content are equal, with listed exceptions.

use std::collections::LinkedList;

use carob_codec::{DecodeErrorKind, MessageView, Type};
use coap_lite::{MessageType, Packet};

/// Messages refused here, as RFC 7252 requires, and accepted by `coap-lite` 0.13.
const LENIENT: &[(DecodeErrorKind, &str)] = &[
    (
        DecodeErrorKind::UnsupportedVersion,
        "RFC 7252 3: Messages with unknown version numbers MUST be silently ignored.",
    ),
    (
        DecodeErrorKind::PayloadMissing,
        "RFC 7252 3: The presence of a marker followed by a zero-length payload MUST be processed as \
         a message format error.",
    ),
    (
        DecodeErrorKind::EmptyMessageHasContent,
        "RFC 7252 4.1: If there are any bytes, they MUST be processed as a message format error.",
    ),
];

/// Whether a valid message is refused by `coap-lite` 0.13: RFC 8974 2.1 permits token lengths above 8.
fn is_too_new(view: &MessageView<'_>) -> bool {
    view.token().len() > 8
}

/// Message content as decoded by both.
#[derive(Debug, PartialEq, Eq)]
struct Content {
    kind: u8,
    code: u8,
    id: u16,
    token: Vec<u8>,
    options: Vec<(u16, Vec<u8>)>,
    payload: Vec<u8>,
}

fn ours(view: &MessageView<'_>) -> Content {
    Content {
        kind: view.kind() as u8,
        code: view.code().0,
        id: view.message_id().0,
        token: view.token().as_slice().to_vec(),
        options: view
            .options()
            .map(|o| (o.number.0, o.value.to_vec()))
            .collect(),
        payload: view.payload().to_vec(),
    }
}

fn theirs(packet: &Packet) -> Content {
    let kind = match packet.header.get_type() {
        MessageType::Confirmable => Type::Confirmable,
        MessageType::NonConfirmable => Type::NonConfirmable,
        MessageType::Acknowledgement => Type::Acknowledgement,
        MessageType::Reset => Type::Reset,
    };
    let values = |(number, values): (&u16, &LinkedList<Vec<u8>>)| {
        let number = *number;
        values
            .iter()
            .map(|value| (number, value.clone()))
            .collect::<Vec<_>>()
    };
    Content {
        kind: kind as u8,
        code: packet.header.code.into(),
        id: packet.header.message_id,
        token: packet.get_token().to_vec(),
        options: packet.options().flat_map(values).collect(),
        payload: packet.payload.clone(),
    }
}

/// Decodes a datagram with both; returns the kind of a listed disagreement.
fn compare(datagram: &[u8]) -> Option<DecodeErrorKind> {
    match (MessageView::parse(datagram), Packet::from_bytes(datagram)) {
        (Ok(view), Ok(packet)) => {
            assert_eq!(ours(&view), theirs(&packet), "{datagram:02x?}");
            None
        }
        (Err(_), Err(_)) => None,
        (Ok(view), Err(_)) if is_too_new(&view) => None,
        (Ok(_), Err(error)) => panic!("refused by coap-lite alone ({error}): {datagram:02x?}"),
        (Err(error), Ok(_)) => {
            let known = LENIENT.iter().any(|(kind, _)| *kind == error.kind);
            assert!(known, "taken by coap-lite alone ({error}): {datagram:02x?}");
            Some(error.kind)
        }
    }
}

#[test]
fn coap_lite_agrees_but_for_listed_leniency() {
    let long = |datagram: &&[u8]| MessageView::parse(datagram).is_ok_and(|v| is_too_new(&v));
    let mut long = crate::reader::datagrams().filter(long);
    assert!(
        long.any(|datagram| Packet::from_bytes(datagram).is_err()),
        "coap-lite takes long tokens by now"
    );
    let mut seen: Vec<DecodeErrorKind> = crate::reader::datagrams().filter_map(compare).collect();
    seen.dedup();
    for (kind, sentence) in LENIENT {
        assert!(
            seen.contains(kind),
            "no longer true of coap-lite: {sentence}"
        );
    }
}

#[test]
fn coap_lite_agrees_on_mutated_datagrams() {
    let mut state = 0x636f_6170_6c69_7465_u64;
    let mut draw = |below: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) as usize) % below.max(1)
    };
    let all: Vec<&[u8]> = crate::reader::datagrams().collect();
    for _ in 0..200_000 {
        let mut datagram = all[draw(all.len())].to_vec();
        for _ in 0..=draw(3) {
            let at = draw(datagram.len());
            match draw(5) {
                0 => datagram.truncate(at),
                1 => datagram.insert(at.min(datagram.len()), draw(256) as u8),
                2 => {
                    // Joined with the end of another datagram.
                    let other = all[draw(all.len())];
                    datagram.truncate(at);
                    datagram.extend_from_slice(&other[draw(other.len())..]);
                }
                _ if datagram.is_empty() => {}
                3 => datagram[at] ^= 1 << draw(8),
                _ => datagram[at] = draw(256) as u8,
            }
        }
        compare(&datagram);
    }
}
