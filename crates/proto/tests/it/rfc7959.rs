//! RFC 7959 by requirement, on the wire (`vectors/requirements.toml`).

mod bodies;
mod option;
mod together;

use crate::net::wide::wide;
use crate::net::wire::{Wire, ack, blocks, con, shapes, view};
use crate::net::{Net, Stream, config, get, millis, pattern, post, put, seconds};
use bytes::Bytes;
use carob_cc::time::Instant;
use carob_proto::blockwise::DownloadError;
use carob_proto::codec::{BlockSize, BlockValue, Code, ContentFormat, OptionNumber};
use carob_proto::endpoint::{Config, Delivery, Endpoint, Event, Failure, Output, RequestConfig};
use carob_proto::message::Payload;
use carob_proto::{Request, Response};

const BLOCK1: OptionNumber = OptionNumber::BLOCK1;
const BLOCK2: OptionNumber = OptionNumber::BLOCK2;

fn with_blocks(bytes: usize) -> Config {
    config(|config| config.block_size = BlockSize::from_bytes_at_most(bytes).unwrap())
}

/// A client that requested `x` and received this response; further messages are dropped.
fn answered(request: Request, answer: impl FnOnce(u16) -> Wire) -> Net {
    let mut net = Net::deaf();
    net.send(request);
    let first = net.sent_by_client()[0].to_vec();
    let id = view(&first).message_id().0;
    net.inject_to_client(&answer(id).token_of(&first).bytes());
    net
}

/// Responds to the last message of a client of [`answered`].
fn answer_next(net: &mut Net, answer: impl FnOnce(u16) -> Wire) {
    let last = net.sent_by_client().last().unwrap().to_vec();
    let id = view(&last).message_id().0;
    net.inject_to_client(&answer(id).token_of(&last).bytes());
}

fn content(id: u16, block: (u32, bool, usize), bytes: usize) -> Wire {
    let message = ack(Code::CONTENT, id).block(BLOCK2, block);
    message.payload(&pattern(4_096)[..bytes])
}

/// Replies to hand-written blocks.
fn told(config: Config, messages: &[Wire]) -> (Net, Vec<String>) {
    let mut net = Net::new(Config::default(), config);
    for message in messages {
        net.inject_to_server(&message.bytes());
    }
    let answers = shapes(&net.sent_by_server());
    (net, answers)
}

fn put_block(id: u16, block: (u32, bool, usize), bytes: usize) -> Wire {
    let message = con(Code::PUT, id).path("x").block(BLOCK1, block);
    message.payload(&pattern(4_096)[..bytes])
}

/// The message for a response by the application.
fn responded(request: &Wire, response: &Response) -> Vec<u8> {
    let mut server = Endpoint::new(Config::default(), Stream(1));
    server.deliver_by(|_| Delivery::Streamed);
    server.handle_datagram(
        Instant::ZERO,
        crate::net::client_address(),
        &request.bytes(),
    );
    let Output::Event(Event::Request(id)) = server.poll() else {
        panic!("the request reaches the application");
    };
    server.respond(Instant::ZERO, id, response);
    let Output::Transmit { bytes, .. } = server.poll() else {
        panic!("it is answered");
    };
    bytes.to_vec()
}
