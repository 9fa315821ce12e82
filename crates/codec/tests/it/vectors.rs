//! Runs the wire vectors of `vectors/wire`.

use core::net::{Ipv4Addr, SocketAddr};
use std::fs;
use std::path::Path;

use carob_codec::frame::write_frame;
use carob_codec::{
    BlockValue, Code, FrameReader, Framing, MessageId, MessageView, OptionNumber, Options, Token,
    Type, Uri, Writer,
};
use serde::Deserialize;
use serde::de::DeserializeOwned;

fn load<T: DeserializeOwned>(file: &str) -> T {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../vectors/wire")
        .join(file);
    let text = fs::read_to_string(&path).expect("vector file is readable");
    toml::from_str(&text).unwrap_or_else(|error| panic!("{file}: {error}"))
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u32> = hex
        .chars()
        .filter(|c| *c != ' ')
        .map(|c| c.to_digit(16).expect("hex digit"))
        .collect();
    assert!(digits.len().is_multiple_of(2), "half a byte in {hex:?}");
    digits
        .chunks(2)
        .map(|pair| (pair[0] << 4 | pair[1]) as u8)
        .collect()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Messages {
    message: Vec<Message>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_field_names, reason = "Message ID is the field's name")]
struct Message {
    name: String,
    #[serde(rename = "origin")]
    _origin: String,
    bytes: String,
    kind: String,
    code: String,
    message_id: u16,
    token: String,
    options: Vec<(u16, String)>,
    payload: String,
}

#[test]
fn messages_parse_to_fields_and_round_trip() {
    for vector in load::<Messages>("messages.toml").message {
        let name = &vector.name;
        let wire = bytes(&vector.bytes);
        let view = MessageView::parse(&wire).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(view.kind().to_string(), vector.kind, "{name}");
        assert_eq!(view.code().to_string(), vector.code, "{name}");
        assert_eq!(view.message_id(), MessageId(vector.message_id), "{name}");
        assert_eq!(view.token().as_slice(), bytes(&vector.token), "{name}");
        assert_eq!(view.payload(), bytes(&vector.payload), "{name}");
        let expected: Vec<_> = vector
            .options
            .iter()
            .map(|(number, value)| (*number, bytes(value)))
            .collect();
        let options: Vec<_> = view
            .options()
            .map(|option| (option.number.0, option.value.to_vec()))
            .collect();
        assert_eq!(options, expected, "{name}");

        let mut buffer = vec![0; wire.len()];
        let token = bytes(&vector.token);
        let mut writer = Writer::new(
            &mut buffer,
            view.kind(),
            view.code(),
            MessageId(vector.message_id),
            &token,
        )
        .expect("header fits");
        for (number, value) in &expected {
            writer
                .option(OptionNumber(*number), value)
                .expect("option fits");
        }
        writer
            .payload(&bytes(&vector.payload))
            .expect("payload fits");
        assert_eq!(writer.finish(), wire.len(), "{name}");
        assert_eq!(buffer, wire, "{name}");
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MalformedMessages {
    malformed: Vec<Malformed>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Malformed {
    name: String,
    #[serde(rename = "origin")]
    _origin: String,
    bytes: String,
    error: String,
    offset: u16,
}

#[test]
fn malformed_messages_are_refused_with_kind_and_place() {
    for vector in load::<MalformedMessages>("malformed.toml").malformed {
        let wire = bytes(&vector.bytes);
        let error = MessageView::parse(&wire).expect_err(&vector.name);
        assert_eq!(format!("{:?}", error.kind), vector.error, "{}", vector.name);
        assert_eq!(error.offset, vector.offset, "{}", vector.name);
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OptionHeads {
    option: Vec<OptionHead>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OptionHead {
    after: Option<u16>,
    number: u16,
    length: usize,
    head: String,
}

#[test]
fn option_heads_are_written_and_read_at_every_boundary() {
    for vector in load::<OptionHeads>("options.toml").option {
        let value = vec![0x61; vector.length];
        let mut buffer = vec![0; 2048];
        let mut writer = Writer::new(
            &mut buffer,
            Type::NonConfirmable,
            Code::GET,
            MessageId(0),
            &Token::default(),
        )
        .expect("header fits");
        if let Some(after) = vector.after {
            writer.option(OptionNumber(after), &[]).expect("fits");
        }
        writer
            .option(OptionNumber(vector.number), &value)
            .expect("fits");
        let length = writer.finish();
        let head = bytes(&vector.head);
        let start = length - vector.length - head.len();
        assert_eq!(
            buffer[start..start + head.len()],
            head,
            "number {}",
            vector.number
        );

        let view = MessageView::parse(&buffer[..length]).expect("well formed");
        let last = view.options().last().expect("has an option");
        assert_eq!((last.number.0, last.value), (vector.number, &value[..]));

        // The same bytes from options pushed in the wrong order.
        let mut options = Options::new();
        options
            .push(OptionNumber(vector.number), &value)
            .expect("fits");
        if let Some(after) = vector.after.filter(|&after| after != vector.number) {
            options.push(OptionNumber(after), &[]).expect("fits");
            assert_eq!(Options::from_view(&view), Ok(options));
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Blocks {
    block: Vec<Block>,
    block_error: Vec<BlockRefused>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Block {
    origin: String,
    value: String,
    minimal: Option<String>,
    number: u32,
    more: bool,
    bytes: usize,
    offset: usize,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BlockRefused {
    origin: String,
    value: String,
    error: String,
}

#[test]
fn block_values_are_read_and_written() {
    for vector in load::<Blocks>("block.toml").block {
        let block = BlockValue::decode(&bytes(&vector.value)).expect(&vector.origin);
        assert_eq!(block.number, vector.number, "{}", vector.origin);
        assert_eq!(block.more, vector.more, "{}", vector.origin);
        assert_eq!(block.szx.bytes(), vector.bytes, "{}", vector.origin);
        assert_eq!(block.offset(), vector.offset, "{}", vector.origin);
        let minimal = bytes(vector.minimal.as_ref().unwrap_or(&vector.value));
        assert_eq!(*block.encode(), *minimal, "{}", vector.origin);
    }
}

#[test]
fn unusable_block_values_are_refused_with_their_reason() {
    for vector in load::<Blocks>("block.toml").block_error {
        let error = BlockValue::decode(&bytes(&vector.value)).expect_err(&vector.origin);
        assert_eq!(format!("{error:?}"), vector.error, "{}", vector.origin);
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Uris {
    uri: Vec<UriParts>,
    uri_error: Vec<UriRefused>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UriParts {
    origin: String,
    text: String,
    scheme: String,
    host: String,
    port: u16,
    options: Vec<(u16, String)>,
    composed: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UriRefused {
    origin: String,
    text: String,
    error: String,
    offset: u16,
}

#[test]
fn uris_are_decomposed_and_composed_again() {
    for vector in load::<Uris>("uri.toml").uri {
        let uri =
            Uri::parse(&vector.text).unwrap_or_else(|error| panic!("{}: {error}", vector.text));
        assert_eq!(uri.scheme().name(), vector.scheme, "{}", vector.text);
        assert_eq!(uri.host().to_string(), vector.host, "{}", vector.text);
        assert_eq!(uri.port(), vector.port, "{}", vector.text);
        let options: Vec<_> = uri
            .options()
            .iter()
            .map(|option| (option.number.0, String::from_utf8(option.value.to_vec())))
            .map(|(number, value)| (number, value.expect("UTF-8")))
            .collect();
        assert_eq!(
            options, vector.options,
            "{}: {}",
            vector.text, vector.origin
        );
        assert_eq!(uri.to_string(), vector.composed, "{}", vector.text);

        let has_zone = vector.host.contains("%25");
        let address = uri.host().address().unwrap_or(Ipv4Addr::LOCALHOST.into());
        let destination = SocketAddr::new(address, uri.port());
        let request = uri.options_for(destination).expect("options fit");
        let again = Uri::from_options(uri.scheme(), &request, destination).expect("composes");
        // A zone identifier is local to the host and in no option.
        assert!(has_zone || again == uri, "{}", vector.text);
    }
}

#[test]
fn unusable_uris_are_refused_with_reason_and_place() {
    for vector in load::<Uris>("uri.toml").uri_error {
        let error = Uri::parse(&vector.text).expect_err(&vector.origin);
        assert_eq!(format!("{:?}", error.kind), vector.error, "{}", vector.text);
        assert_eq!(error.offset, vector.offset, "{}", vector.text);
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Frames {
    frame: Vec<Frame>,
    malformed: Vec<MalformedFrame>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Frame {
    name: String,
    #[serde(rename = "origin")]
    _origin: String,
    head: String,
    websocket: String,
    code: String,
    token: String,
    options: Vec<(u16, String)>,
    payload: String,
    times: usize,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MalformedFrame {
    name: String,
    #[serde(rename = "origin")]
    _origin: String,
    framing: String,
    bytes: String,
    error: String,
}

#[test]
fn frames_are_read_to_their_fields_and_written_back_identically() {
    for vector in load::<Frames>("frames.toml").frame {
        let name = &vector.name;
        let payload = bytes(&vector.payload).repeat(vector.times);
        let both = [
            (Framing::Stream, &vector.head),
            (Framing::WebSocket, &vector.websocket),
        ];
        for (framing, head) in both {
            let wire = [bytes(head), payload.clone()].concat();
            let mut reader = FrameReader::new(framing, 200_000);
            reader.push(&wire);
            let message = reader
                .next()
                .unwrap_or_else(|error| panic!("{name}: {error}"));
            let message = message.unwrap_or_else(|| panic!("{name}: incomplete"));
            let view =
                MessageView::parse_long(message).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(view.code().to_string(), vector.code, "{name}");
            assert_eq!(view.token().as_slice(), bytes(&vector.token), "{name}");
            let options: Vec<_> = view
                .options()
                .map(|o| (o.number.0, o.value.to_vec()))
                .collect();
            let expected: Vec<_> = vector
                .options
                .iter()
                .map(|(n, value)| (*n, bytes(value)))
                .collect();
            assert_eq!(options, expected, "{name}");
            assert_eq!(view.payload(), payload, "{name}");

            let mut written = Vec::new();
            write_frame(framing, message, &mut written);
            assert_eq!(written, wire, "{name}");
            assert_eq!((reader.held(), reader.next()), (0, Ok(None)), "{name}");
        }
    }
}

#[test]
fn a_frame_is_incomplete_until_its_last_byte() {
    for vector in load::<Frames>("frames.toml").frame {
        let wire = [
            bytes(&vector.head),
            bytes(&vector.payload).repeat(vector.times),
        ]
        .concat();
        let mut reader = FrameReader::new(Framing::Stream, 200_000);
        let (last, before) = wire.split_last().expect("no frame is empty");
        let head = before.len().min(20);
        for byte in &before[..head] {
            reader.push(&[*byte]);
            assert_eq!(reader.next(), Ok(None), "{}", vector.name);
        }
        reader.push(&before[head..]);
        assert_eq!(reader.next(), Ok(None), "{}", vector.name);
        reader.push(&[*last]);
        assert!(matches!(reader.next(), Ok(Some(_))), "{}", vector.name);
    }
}

#[test]
fn invalid_frames_are_refused_with_their_reason() {
    for vector in load::<Frames>("frames.toml").malformed {
        let framing = match vector.framing.as_str() {
            "stream" => Framing::Stream,
            "websocket" => Framing::WebSocket,
            other => panic!("framing {other:?}"),
        };
        let mut reader = FrameReader::new(framing, 200_000);
        reader.push(&bytes(&vector.bytes));
        let error = reader.next().expect_err(&vector.name);
        assert_eq!(error.to_string(), vector.error, "{}", vector.name);
    }
}
