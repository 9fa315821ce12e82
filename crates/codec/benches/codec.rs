//! Nanoseconds to decode and encode a GET with five options, by this codec and by `coap-lite`.
//!
//! `cargo bench -p carob-codec --bench codec`; `tools/codecbench/libcoap_codec.c` measures libcoap
//! on the same message. Each figure is the median of the rounds, with the fastest and slowest.

#![allow(clippy::print_stdout, clippy::disallowed_methods)] // it reads the clock and prints

use core::hint::black_box;
use std::time::Instant;

use carob_codec::{
    Code, ContentFormat, MessageId, MessageView, OptionNumber, Options, Token, Type, Writer,
};
use coap_lite::{CoapOption, MessageClass, Packet, RequestType};

const ROUNDS: usize = 31;
const CALLS_PER_ROUND: u32 = 200_000;

/// The variable parts of the message, so that the compiler cannot prepare its bytes.
struct Parts<'a> {
    message_id: u16,
    token: &'a [u8],
    host: &'a [u8],
    path: [&'a [u8]; 2],
    query: &'a [u8],
    accept: ContentFormat,
}

const PARTS: Parts<'static> = Parts {
    message_id: 0x1234,
    token: &[0x01, 0x02, 0x03, 0x04],
    host: b"example.com",
    path: [b"sensors", b"temperature"],
    query: b"unit=C",
    accept: ContentFormat::CBOR,
};

/// CON GET, token of four bytes, Uri-Host, Uri-Path twice, Uri-Query, Accept.
fn message(buffer: &mut [u8], parts: &Parts<'_>) -> usize {
    let token = Token::new(parts.token).expect("four bytes fit");
    let mut writer = Writer::new(
        buffer,
        Type::Confirmable,
        Code::GET,
        MessageId(parts.message_id),
        &token,
    )
    .expect("buffer is large enough");
    writer
        .option(OptionNumber::URI_HOST, parts.host)
        .expect("fits");
    for segment in parts.path {
        writer
            .option(OptionNumber::URI_PATH, segment)
            .expect("fits");
    }
    writer
        .option(OptionNumber::URI_QUERY, parts.query)
        .expect("fits");
    writer
        .uint_option(OptionNumber::ACCEPT, u32::from(parts.accept.0))
        .expect("fits");
    writer.finish()
}

fn coap_lite_message() -> Packet {
    let mut packet = Packet::new();
    packet.header.message_id = 0x1234;
    packet.header.code = MessageClass::Request(RequestType::Get);
    packet.set_token(vec![0x01, 0x02, 0x03, 0x04]);
    packet.add_option(CoapOption::UriHost, b"example.com".to_vec());
    packet.add_option(CoapOption::UriPath, b"sensors".to_vec());
    packet.add_option(CoapOption::UriPath, b"temperature".to_vec());
    packet.add_option(CoapOption::UriQuery, b"unit=C".to_vec());
    packet.add_option(CoapOption::Accept, vec![60]);
    packet
}

fn measure(name: &str, mut call: impl FnMut()) {
    let mut rounds: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..CALLS_PER_ROUND {
                call();
            }
            start.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS_PER_ROUND)
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    let (fastest, median, slowest) = (rounds[0], rounds[ROUNDS / 2], rounds[ROUNDS - 1]);
    println!("{name:<44} {median:8.1} ns   ({fastest:.1} to {slowest:.1})");
}

fn main() {
    let mut buffer = [0; 128];
    let length = message(&mut buffer, &PARTS);
    let bytes = &buffer[..length];
    assert_eq!(
        coap_lite_message().to_bytes().expect("encodes"),
        bytes,
        "messages are the same"
    );
    println!("{length} bytes, 5 options, {ROUNDS} rounds of {CALLS_PER_ROUND} calls");

    measure("carob decode (parse)", || {
        black_box(MessageView::parse(black_box(bytes))).expect("well formed");
    });
    measure("carob decode (parse, token, every option)", || {
        let view = MessageView::parse(black_box(bytes)).expect("well formed");
        black_box(view.token());
        for option in view.options() {
            black_box(option);
        }
    });
    measure("carob decode (the same, options looked up)", || {
        let view = MessageView::parse(black_box(bytes)).expect("well formed");
        black_box(view.token());
        for option in view.options() {
            black_box(option.recognized());
        }
    });
    let mut spot = [0; 128];
    measure("carob encode", || {
        black_box(message(black_box(&mut spot), black_box(&PARTS)));
    });
    measure("carob decode into owned options", || {
        let view = MessageView::parse(black_box(bytes)).expect("well formed");
        black_box(Options::from_view(&view)).expect("fits");
    });
    let view = MessageView::parse(bytes).expect("well formed");
    let options = Options::from_view(&view).expect("fits");
    measure("carob encode from owned options", || {
        let (kind, code, token) = black_box((view.kind(), view.code(), view.token()));
        let mut writer = Writer::new(black_box(&mut spot), kind, code, MessageId(1), &token)
            .expect("buffer is large enough");
        black_box(&options).encode(&mut writer).expect("fits");
        black_box(writer.finish());
    });
    measure("coap-lite decode", || {
        black_box(Packet::from_bytes(black_box(bytes))).expect("well formed");
    });
    measure("coap-lite encode (build and serialise)", || {
        black_box(black_box(coap_lite_message()).to_bytes()).expect("encodes");
    });
    let packet = coap_lite_message();
    measure("coap-lite encode (serialise only)", || {
        black_box(black_box(&packet).to_bytes()).expect("encodes");
    });
}
