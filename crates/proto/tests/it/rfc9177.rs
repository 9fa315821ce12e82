//! RFC 9177: Q-Block1 and Q-Block2.

mod requests;
mod responses;
mod wire;

use bytes::Bytes;
use carob_proto::Request;
use carob_proto::codec::{BlockSize, BlockValue, OptionNumber, Type};
use carob_proto::congestion::CongestionControl;
use carob_proto::endpoint::{Config, QBlockMode, RequestConfig};

use crate::net::wire::{Wire, view};
use crate::net::{Net, client_address, pattern, put};

/// A configuration with blocks of 64 bytes and this controller.
fn config(controller: &'static str) -> Config {
    let mut config = Config::default();
    config.block_size = BlockSize::from_bytes_at_most(64).unwrap();
    config.controller = CongestionControl::named(controller).unwrap();
    config
}

fn sending(mode: QBlockMode, confirmable: bool) -> RequestConfig {
    let mut sending = RequestConfig::default();
    sending.q_block = Some(mode);
    sending.confirmable = confirmable;
    sending
}

/// Block `number` of a response body of `count` blocks with Q-Block2.
fn response_block(message: Wire, (number, count): (u32, u32)) -> Vec<u8> {
    let more = number + 1 < count;
    let size = ((count * 64 - 10) as u16).to_be_bytes();
    message
        .option(4, &[1])
        .option(28, &size)
        .block(OptionNumber::Q_BLOCK2, (number, more, 64))
        .payload(&vec![0; if more { 64 } else { 54 }])
        .bytes()
}

/// Messages with this option: type, number, M bit, payload length.
fn blocks(messages: &[&[u8]], number: OptionNumber) -> Vec<(Type, u32, bool, usize)> {
    let read = |bytes: &&[u8]| {
        let view = view(bytes);
        let block = BlockValue::decode(view.option(number)?).unwrap();
        Some((view.kind(), block.number, block.more, view.payload().len()))
    };
    messages.iter().filter_map(read).collect()
}

/// Block numbers in reports of missing blocks.
fn reports(messages: &[&[u8]]) -> Vec<Vec<u32>> {
    let read = |bytes: &&[u8]| {
        let view = view(bytes);
        let listed = view.uint_option(OptionNumber::CONTENT_FORMAT) == Some(272);
        listed.then(|| numbers(view.payload()))
    };
    messages.iter().filter_map(read).collect()
}

/// Decodes a CBOR sequence of numbers below 256.
fn numbers(mut report: &[u8]) -> Vec<u32> {
    let mut numbers = Vec::new();
    loop {
        let (number, rest) = match report {
            [] => return numbers,
            [0x18, number, rest @ ..] | [number @ 0..=23, rest @ ..] => (*number, rest),
            other => panic!("{other:?}"),
        };
        numbers.push(number.into());
        report = rest;
    }
}

fn body(blocks: usize) -> Bytes {
    pattern(blocks * 64 - 10)
}

fn upload(path: &str, blocks: usize) -> Request {
    put(path, body(blocks))
}

fn codes(messages: &[&[u8]]) -> Vec<String> {
    let code = |bytes: &&[u8]| view(bytes).code().to_string();
    messages.iter().map(code).collect()
}

fn net() -> Net {
    net_with(config("default"), config("default"))
}

/// A server that has validated the client's address; otherwise it would challenge requests for sets.
fn net_with(client: Config, server: Config) -> Net {
    let mut net = Net::new(client, server);
    net.server.validate(net.now, client_address());
    net
}
