//! TD_COAP_BLOCK: block-wise transfers (RFC 7959).

use std::fmt::Write as _;

use carob::{Code, OptionNumber};
use carob_proto::codec::BlockValue;

use crate::interop::bench::Bench;
use crate::interop::requests::Ask;
use crate::interop::wire::{Exchange, Wire};
use crate::plugtest::setup::{SERVER_BLOCK, Setup};

/// Length of `/large` in bytes.
const LARGE_BYTES: usize = 1_280;

/// Text with distinct lines that takes several blocks. Too long for one datagram, which forces servers into block-wise
/// transfer.
fn long_text() -> String {
    (0..130).fold(String::new(), |mut text, line| {
        let _ = writeln!(text, "line {line:03}."); // a String takes every write
        text
    })
}

/// Reassembles a response: each request continues after the last block, and each block has the size in its option
/// (RFC 7959 2.3, 2.4). The first exchange has the first block.
pub(super) fn download(exchanges: &[Exchange], code: Code) -> Vec<u8> {
    let mut body: Vec<u8> = Vec::new();
    let mut longest = usize::MAX;
    for (i, Exchange { request, response }) in exchanges.iter().enumerate() {
        assert_eq!(response.code, code);
        let block = response.block(OptionNumber::BLOCK2).expect("a Block2");
        if let Some(asked) = request.block(OptionNumber::BLOCK2) {
            assert!(!asked.more, "Block2 in a request with the M bit");
            assert_eq!(asked.offset(), body.len(), "not the next block");
            assert!(asked.szx.bytes() <= longest, "a larger block is asked for");
            longest = asked.szx.bytes();
        } else {
            assert_eq!(i, 0, "asked for no block");
        }
        assert_eq!(block.offset(), body.len(), "another block than asked for");
        assert!(
            block.szx.bytes() <= longest,
            "a larger block than asked for"
        );
        longest = block.szx.bytes();
        let last = i + 1 == exchanges.len();
        assert_eq!(block.more, !last, "the flag is wrong");
        assert_payload(block, response.payload.len());
        body.extend(&response.payload);
    }
    body
}

/// Checks that all blocks but the last are full.
fn assert_payload(block: BlockValue, bytes: usize) {
    if block.more {
        assert_eq!(bytes, block.szx.bytes(), "not a full block");
    } else {
        assert!(bytes <= block.szx.bytes(), "more than a block");
    }
}

/// Reassembles a request body whose blocks are all accepted (RFC 7959 2.3, 2.5); also returns the number of blocks.
/// The last response has this `code`.
fn upload(wire: &Wire, code: Code) -> (Vec<u8>, usize) {
    let mut body: Vec<u8> = Vec::new();
    let mut longest = usize::MAX;
    let mut exchanges = wire.exchanges();
    exchanges.retain(|e| e.request.block(OptionNumber::BLOCK1).is_some());
    assert!(exchanges.len() > 1, "not in blocks");
    for (i, Exchange { request, response }) in exchanges.iter().enumerate() {
        let last = i + 1 == exchanges.len();
        let sent = request.block(OptionNumber::BLOCK1).expect("a Block1");
        assert_eq!(sent.offset(), body.len(), "not the next block");
        assert!(sent.szx.bytes() <= longest, "a larger block than agreed");
        assert_eq!(sent.more, !last, "the flag is wrong");
        assert_payload(sent, request.payload.len());
        let taken = response.block(OptionNumber::BLOCK1).expect("a Block1");
        assert_eq!(taken.number, sent.number);
        assert!(taken.szx <= sent.szx, "a larger block than sent");
        longest = taken.szx.bytes();
        if last {
            assert_eq!((response.code, taken.more), (code, false));
        } else {
            // Atomic processing uses 2.31; per-block processing gives 2.04 without M (RFC 7959 2.3).
            let atomic = (response.code, taken.more) == (Code::CONTINUE, true);
            assert!(atomic || (response.code, taken.more) == (Code::CHANGED, false));
        }
        body.extend(&request.payload);
    }
    (body, exchanges.len())
}

pub(super) fn get(bench: &Bench, setup: Setup) {
    let bench = &bench.with_setup(setup);
    let answer = bench.ask(&Ask::get("/large"));
    let wire = bench.wire();
    let exchanges = wire.exchanges();
    let first = exchanges[0].request.block(OptionNumber::BLOCK2);
    if setup.early {
        let first = first.expect("an early Block2");
        assert_eq!(first.szx.bytes(), usize::from(setup.block));
    } else {
        assert_eq!(first, None, "Block2 before it is known to be needed");
    }
    let body = download(&exchanges, Code::CONTENT);
    assert_eq!(body.len(), LARGE_BYTES);
    assert!(exchanges.len() >= LARGE_BYTES / usize::from(SERVER_BLOCK));
    assert!(exchanges.iter().all(|e| e.response.format() == Some(0)));
    assert_eq!(answer.payload, body);
    assert_eq!(answer.code, "2.05");
}

pub(super) fn get_late(bench: &Bench) {
    for block in [SERVER_BLOCK, SERVER_BLOCK / 2] {
        let setup = Setup {
            block,
            ..Setup::PLAIN
        };
        get(bench, setup);
    }
}

pub(super) fn put(bench: &Bench) {
    for block in [SERVER_BLOCK, SERVER_BLOCK * 2] {
        let setup = Setup {
            block,
            ..Setup::PLAIN
        };
        let bench = &bench.with_setup(setup);
        let ask = Ask::put("/large-update").text(&long_text());
        assert_eq!(bench.ask(&ask).code, "2.04");
        let (body, _) = upload(&bench.wire(), Code::CHANGED);
        assert_eq!(body, ask.payload);
        let there = bench.ask_aside(&Ask::get("/large-update"));
        assert_eq!(there.payload, body);
    }
}

pub(super) fn post_creates(bench: &Bench) {
    let ask = Ask::post("/large-create").text(&long_text());
    let answer = bench.ask(&ask);
    let wire = bench.wire();
    let (body, blocks) = upload(&wire, Code::CREATED);
    assert_eq!(body, ask.payload);
    let exchanges = wire.exchanges();
    assert_eq!(exchanges.len(), blocks);
    let location = exchanges[blocks - 1]
        .response
        .texts(OptionNumber::LOCATION_PATH);
    assert_eq!((location.len(), &*location[0]), (2, "large-create"));
    assert!(location.iter().all(|segment| !segment.contains('/')));
    assert_eq!(answer.location_path, location);
    // The same client reads the created resource.
    let there = bench.ask(&Ask::get(&format!("/{}", location.join("/"))));
    assert_eq!(
        download(&bench.wire().exchanges()[blocks..], Code::CONTENT),
        body
    );
    assert_eq!(there.payload, body);
}

pub(super) fn post_both_ways(bench: &Bench) {
    let ask = Ask::post("/large-post").text(&long_text());
    let answer = bench.ask(&ask);
    let wire = bench.wire();
    let (body, blocks) = upload(&wire, Code::CHANGED);
    assert_eq!(body, ask.payload);
    let exchanges = wire.exchanges();
    // The last response to an uploaded block has the first block of the response body.
    let response = download(&exchanges[blocks - 1..], Code::CHANGED);
    let capitals = long_text().to_uppercase();
    assert_eq!(response, capitals.as_bytes());
    assert_eq!((&*answer.code, answer.text()), ("2.04", &*capitals));
    let others = |exchange: &Exchange| {
        let mut options = exchange.request.options.clone();
        options.retain(|(n, _)| *n != OptionNumber::BLOCK1 && *n != OptionNumber::BLOCK2);
        options.retain(|(n, _)| *n != OptionNumber::SIZE1);
        options
    };
    for exchange in &exchanges[blocks..] {
        assert!(
            exchange.request.payload.is_empty(),
            "the body is sent again"
        );
        assert_eq!(exchange.request.block(OptionNumber::BLOCK1), None);
        assert_eq!(others(exchange), others(&exchanges[blocks - 1]));
    }
}
