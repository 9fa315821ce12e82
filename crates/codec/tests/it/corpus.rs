//! Replays the corpus of datagrams (`vectors/corpus`) through the codec, and generates it. Also decodes it with `coap-lite`:
//! result and content are equal, with listed exceptions.

use std::collections::{BTreeMap, LinkedList};
use std::fs;
use std::path::Path;

use carob_codec::{
    Code, ContentFormat, DecodeErrorKind, MessageId, MessageView, OptionDefinition, OptionFormat,
    OptionNumber, Options, Type, Writer, parse_header,
};
use coap_lite::{MessageType, Packet};

#[test]
fn valid_datagrams_are_written_back_byte_for_byte() {
    let mut valid = 0;
    for datagram in crate::reader::datagrams() {
        let Ok(view) = MessageView::parse(datagram) else {
            continue;
        };
        valid += 1;
        let mut buffer = vec![0; datagram.len()];
        let mut writer = Writer::new(
            &mut buffer,
            view.kind(),
            view.code(),
            view.message_id(),
            &view.token(),
        )
        .expect("buffer is as long as the message");
        match Options::from_view(&view) {
            Ok(options) => options.encode(&mut writer).expect("fits"),
            Err(_) => {
                for option in view.options() {
                    writer.option(option.number, option.value).expect("fits");
                }
            }
        }
        writer.payload(view.payload()).expect("fits");
        assert_eq!(writer.finish(), datagram.len());
        assert_eq!(buffer, datagram);
    }
    assert!(valid > 2000, "only {valid} datagrams are valid");
}

#[test]
fn malformed_datagrams_have_a_header_unless_ignored_silently() {
    for datagram in crate::reader::datagrams() {
        let Err(error) = MessageView::parse(datagram) else {
            continue;
        };
        let ignored = matches!(
            error.kind,
            DecodeErrorKind::HeaderTruncated | DecodeErrorKind::UnsupportedVersion
        );
        assert_eq!(
            parse_header(datagram).is_err(),
            ignored,
            "{datagram:02x?}: {error}"
        );
    }
}

#[test]
fn corpus_is_large_and_holds_every_kind_of_error() {
    let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
    let mut count = 0;
    for datagram in crate::reader::datagrams() {
        count += 1;
        if let Err(error) = MessageView::parse(datagram) {
            *kinds.entry(format!("{:?}", error.kind)).or_default() += 1;
        }
    }
    assert!(count >= 10_000, "only {count} datagrams");
    // All kinds except MessageTooLong, which no datagram reaches.
    assert_eq!(kinds.len(), 10, "{kinds:?}");
    assert!(kinds.values().all(|&count| count >= 10), "{kinds:?}");
}

#[test]
fn committed_corpus_matches_the_generator() {
    let generated = generate();
    assert!(crate::reader::datagrams().eq(generated.iter().map(Vec::as_slice)));
}

#[test]
#[ignore = "writes vectors/corpus/datagrams.bin"]
fn write_the_corpus() {
    let mut file = Vec::new();
    for datagram in generate() {
        let length = u16::try_from(datagram.len()).expect("datagrams are short");
        file.extend(length.to_le_bytes());
        file.extend(datagram);
    }
    assert!(
        file.len() < 1_500_000,
        "corpus of {} bytes is too large",
        file.len()
    );
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/corpus/datagrams.bin");
    fs::write(path, file).expect("corpus is writable");
}

/// SplitMix64, so that the corpus does not depend on a library's generator.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A random number below `limit`.
    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| self.next() as u8).collect()
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}

const KINDS: [Type; 4] = [
    Type::Confirmable,
    Type::NonConfirmable,
    Type::Acknowledgement,
    Type::Reset,
];
const VALID: usize = 1500;
const TRUNCATED_MESSAGES: usize = 70;
const BIT_FLIPS: usize = 3000;
const STRUCTURAL: usize = 4000;
const RANDOM: usize = 1500;
const RANDOM_AFTER_HEADER: usize = 1500;

fn generate() -> Vec<Vec<u8>> {
    let random = &mut Random(0x6361_726f_6263_6f64);
    let valid: Vec<_> = (0..VALID).map(|_| valid_message(random)).collect();
    let mut corpus = vec![
        Vec::new(),
        vec![0x40, 0, 0, 1],       // ping
        vec![0x60, 0, 0, 1],       // empty acknowledgement
        vec![0x70, 0, 0, 1],       // reset
        vec![0x50, 0, 0, 1],       // empty and non-confirmable
        vec![0x40, 0xe1, 0, 1],    // signalling code over UDP
        vec![0x40, 1, 0, 1, 0xff], // marker without payload
    ];
    corpus.extend(valid.iter().cloned());
    for message in valid.iter().take(TRUNCATED_MESSAGES) {
        corpus.extend((0..message.len()).map(|length| message[..length].to_vec()));
    }
    for _ in 0..BIT_FLIPS {
        let mut message = random.pick(&valid).clone();
        for _ in 0..=random.below(3) {
            let at = random.below(message.len());
            message[at] ^= 1 << random.below(8);
        }
        corpus.push(message);
    }
    for _ in 0..STRUCTURAL {
        let message = random.pick(&valid).clone();
        corpus.push(restructured(random, message));
    }
    for _ in 0..RANDOM {
        let length = random.below(48);
        corpus.push(random.bytes(length));
    }
    for _ in 0..RANDOM_AFTER_HEADER {
        let code = random.pick(Code::ALL).0;
        let kind = *random.pick(&KINDS) as u8;
        let token = random.below(15) as u8;
        let mut message = vec![0x40 | kind << 4 | token, code.0];
        let length = 2 + random.below(40);
        message.extend(random.bytes(length));
        corpus.push(message);
    }
    corpus
}

/// A well-formed message with assigned codes and mostly known options.
fn valid_message(random: &mut Random) -> Vec<u8> {
    let mut options = Options::new();
    for _ in 0..random.below(7) {
        let (number, value) = option(random);
        options.push(number, &value).expect("few short options fit");
    }
    let mut code = random.pick(Code::ALL).0;
    if code.is_empty() {
        code = Code::GET;
    }
    // Sometimes an extended token (RFC 8974).
    let length = if random.below(10) == 0 {
        *random.pick(&[9, 12, 13, 14, 40, 64, 268, 269])
    } else {
        random.below(9)
    };
    let token = random.bytes(length);
    let message_id = MessageId(random.next() as u16);
    let mut buffer = vec![0; 4096];
    let kind = *random.pick(&KINDS);
    let mut writer = Writer::new(&mut buffer, kind, code, message_id, &token).expect("fits");
    options.encode(&mut writer).expect("fits");
    let length = *random.pick(&[0, 0, 1, 5, 16, 64]);
    writer.payload(&random.bytes(length)).expect("fits");
    let length = writer.finish();
    buffer.truncate(length);
    buffer
}

fn option(random: &mut Random) -> (OptionNumber, Vec<u8>) {
    if random.below(10) == 0 {
        let number = OptionNumber(random.next() as u16 >> random.below(16));
        let length = *random.pick(&[0, 1, 12, 13, 20]);
        return (number, random.bytes(length));
    }
    let definition = random.pick(OptionDefinition::ALL);
    let value = match definition.format {
        OptionFormat::Empty => Vec::new(),
        OptionFormat::String => {
            let text: &[&[u8]] = &[b"a", b"sensors", b"temperature", b"unit=C", b".well-known"];
            random.pick(text).to_vec()
        }
        OptionFormat::Uint if definition.number == OptionNumber::CONTENT_FORMAT => {
            vec![ContentFormat::CBOR.0 as u8]
        }
        OptionFormat::Uint | OptionFormat::Opaque => {
            // Sometimes a length outside the option's limits.
            let limit = usize::from(definition.max_length.min(40)) + 2;
            let length = random.below(limit);
            random.bytes(length)
        }
    };
    (definition.number, value)
}

/// Mutates structure: nibbles, lengths, markers, codes and whole parts.
fn restructured(random: &mut Random, mut message: Vec<u8>) -> Vec<u8> {
    let body = 4 + usize::from(message[0] & 0x0f);
    for _ in 0..=random.below(2) {
        let at = body.min(message.len()) + random.below(message.len().saturating_sub(body) + 1);
        match random.below(10) {
            0 => message[0] = message[0] & 0xf0 | random.below(16) as u8,
            1 => message[0] = message[0] & 0x3f | (random.below(4) as u8) << 6,
            2 => message[1] = random.next() as u8,
            3 => message[1] = 0,
            4 => message.insert(at, 0xff),
            5 => {
                let nibble = 13 + random.below(3) as u8;
                let first = if random.below(2) == 0 {
                    nibble << 4
                } else {
                    nibble
                };
                message.insert(
                    at,
                    first | random.below(16) as u8 & (0xff ^ (first | first >> 4)),
                );
            }
            6 => {
                let extreme = *random.pick(&[
                    [0xe0, 0xfe, 0xf2],
                    [0xe0, 0xff, 0xff],
                    [0xe1, 0xfe, 0xf3],
                    [0x0e, 0xff, 0xff],
                ]);
                message.splice(at..at, extreme);
            }
            7 => {
                let tail = message[at..].to_vec();
                message.extend(tail);
            }
            8 => {
                message.truncate(at);
                message.push(0xff);
            }
            _ => {
                let end = at + random.below(message.len() - at + 1);
                message.drain(at..end);
            }
        }
        if message.len() < body || message.len() > 400 {
            message.truncate(400);
            break;
        }
    }
    message
}

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
