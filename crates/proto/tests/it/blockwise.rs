//! Block-wise transfers between two endpoints, on good and bad networks.

use crate::net::wide::wide;
use crate::net::wire::{con, view};
use crate::net::{Faults, Net, config, get, millis, path_of, pattern, put, seconds, sending_with};
use bytes::Bytes;
use carob_proto::blockwise::DownloadError;
use carob_proto::codec::{BlockSize, BlockValue, Code, OptionNumber};
use carob_proto::endpoint::{BodyMode, Config, Delivery, Event, Failure, RequestConfig};
use carob_proto::message::Payload;
use carob_proto::{Request, Response};

fn size(bytes: usize) -> BlockSize {
    BlockSize::from_bytes_at_most(bytes).unwrap()
}

fn with_blocks(bytes: usize) -> Config {
    config(|config| config.block_size = size(bytes))
}

fn blocks(messages: &[&[u8]], number: OptionNumber) -> Vec<Option<(u32, bool, usize)>> {
    let read = |bytes: &&[u8]| {
        let view = view(bytes);
        let block = view.option(number).map(BlockValue::decode)?.unwrap();
        Some((block.number, block.more, block.szx.bytes()))
    };
    messages.iter().map(read).collect()
}

#[test]
fn plain_get_returns_first_block_and_client_continues() {
    let mut net = Net::new(Config::default(), with_blocks(256));
    net.app.resources.insert("big".into(), pattern(600));
    net.send_for(get("big"), seconds(1));
    assert_eq!(net.response().unwrap().bytes(), &pattern(600));
    let asked = blocks(&net.sent_by_client(), OptionNumber::BLOCK2);
    assert_eq!(asked, [None, Some((1, false, 256)), Some((2, false, 256))]);
    let sent = blocks(&net.sent_by_server(), OptionNumber::BLOCK2);
    assert_eq!(
        sent,
        [
            Some((0, true, 256)),
            Some((1, true, 256)),
            Some((2, false, 256))
        ]
    );
    let first = net.sent_by_server()[0];
    let size = view(first).uint_option(OptionNumber::SIZE2);
    assert_eq!(size, Some(600));
    assert_eq!(net.app.executed["big"], 1, "the body was not cached");
    assert!(
        !net.response()
            .unwrap()
            .options
            .contains(OptionNumber::BLOCK2)
    );
}

#[test]
fn body_of_exactly_one_block_is_one_message() {
    for (length, messages) in [(1023, 1), (1024, 1), (1025, 2)] {
        let mut net = Net::plain();
        net.app.resources.insert("x".into(), pattern(length));
        net.send_for(get("x"), seconds(1));
        assert_eq!(net.response().unwrap().bytes().len(), length);
        assert_eq!(net.sent_by_server().len(), messages);
    }
}

#[test]
fn client_negotiates_its_block_size_early_or_late() {
    for early in [true, false] {
        let mut client = with_blocks(64);
        client.negotiate_early = early;
        let mut net = Net::new(client, Config::default());
        net.app.resources.insert("x".into(), pattern(2_000));
        net.send_for(get("x"), seconds(5));
        assert_eq!(
            net.response().unwrap().bytes(),
            &pattern(2_000),
            "early {early}"
        );
        let sent = blocks(&net.sent_by_server(), OptionNumber::BLOCK2);
        let first = if early { 64 } else { 1024 };
        assert_eq!(sent[0].unwrap().2, first);
        assert_eq!(sent[1].unwrap().2, 64);
        assert_eq!(sent[1].unwrap().0, first as u32 / 64);
    }
}

#[test]
fn upload_is_block_wise_and_executed_once() {
    let mut net = Net::plain();
    net.send(put("x", pattern(3_000)));
    net.run_for(seconds(1));
    assert_eq!(net.response().unwrap().code, Code::CHANGED);
    assert_eq!(net.app.resources["x"], pattern(3_000));
    assert_eq!(net.app.executed["x"], 1);
    let sent = blocks(&net.sent_by_client(), OptionNumber::BLOCK1);
    assert_eq!(
        sent,
        [(0, true, 1024), (1, true, 1024), (2, false, 1024)].map(Some)
    );
    let answered = blocks(&net.sent_by_server(), OptionNumber::BLOCK1);
    assert_eq!(answered, sent, "each answer echoes its block");
    assert_eq!(
        view(net.sent_by_client()[0]).uint_option(OptionNumber::SIZE1),
        Some(3_000)
    );
    assert_eq!(net.server.usage().uploads, (0, 0));
}

#[test]
fn lost_reply_to_last_block_is_repeated() {
    // The FETCH response is too long for the duplicate table. The PUT response is short, but evicted by other requests
    // meanwhile.
    for code in [Code::FETCH, Code::PUT] {
        let mut net = Net::new(
            Config::default(),
            config(|config| config.limits.dedup_idempotent = 1),
        );
        net.app.echo_fetch = true;
        net.send(
            Request::new(code)
                .with_path("x")
                .unwrap()
                .with_payload(pattern(1_500)),
        );
        net.run_for(millis(25));
        assert!(net.app.executed.is_empty(), "the last block is on its way");
        net.drop_if = Some(|from_client, _| !from_client);
        net.run_for(seconds(1));
        assert_eq!(net.app.executed["x"], 1);
        net.drop_if = None;
        for id in 0..5 {
            net.inject_to_server(&con(Code::GET, id).path("y").bytes());
        }
        net.run_for(seconds(60));
        let response = net.response().expect("the copy is answered");
        assert!(response.code.is_success(), "{code}: {}", response.code);
        assert_eq!(net.app.executed["x"], 1, "{code}");
        net.run_for(seconds(300));
        assert_eq!(net.server.usage().uploads, (0, 0));
    }
}

#[test]
fn bodies_complete_without_space_for_duplicate_last_blocks() {
    for limit in [0, 1, 2, 4] {
        let mut server = Config::default();
        server.limits.dedup_non_idempotent = limit;
        server.limits.dedup_idempotent = 1;
        let mut net = Net::new(Config::default(), server);
        for n in 1..=5 {
            net.send(put("x", pattern(1_500 + n)));
            net.run_for(seconds(1));
            assert_eq!(net.response().unwrap().code, Code::CHANGED, "{limit}");
            assert_eq!(net.app.resources["x"], pattern(1_500 + n));
        }
        // At most half of the table, and one more in the ring.
        let held = net.server.usage().remembered;
        assert!(held <= 1 + limit / 2, "{limit}: {held}");
    }
}

#[test]
fn server_negotiates_smaller_blocks() {
    let mut net = Net::new(Config::default(), with_blocks(128));
    net.send(put("x", pattern(2_500)));
    net.run_for(seconds(5));
    assert_eq!(net.app.resources["x"], pattern(2_500));
    let sent = blocks(&net.sent_by_client(), OptionNumber::BLOCK1);
    assert_eq!(sent[..2], [Some((0, true, 1024)), Some((8, true, 128))]);
}

#[test]
fn mebibyte_in_each_direction() {
    let mut net = Net::plain();
    net.delay = millis(1);
    net.send(put("x", pattern(1 << 20)));
    net.run_for(seconds(10));
    net.send_for(get("x"), seconds(10));
    assert_eq!(net.responses()[1].bytes(), &pattern(1 << 20));
}

#[test]
fn size2_above_client_limit_fails_at_once() {
    let mut net = Net::new(
        config(|config| config.limits.download_bytes = 5_000),
        Config::default(),
    );
    net.app.resources.insert("x".into(), pattern(5_001));
    net.send_for(get("x"), seconds(1));
    assert_eq!(
        net.failure(),
        Some(Failure::Body(DownloadError::TooLarge { limit: 5_000 }))
    );
    assert_eq!(net.sent_by_client().len(), 1);
}

#[test]
fn a_block_number_of_twenty_bits_and_a_reserved_size() {
    let mut net = Net::plain();
    net.app.resources.insert("x".into(), pattern(100));
    let mut ask = |value: u32| {
        let mut request = get("x");
        request
            .options
            .set_uint(OptionNumber::BLOCK2, value)
            .unwrap();
        net.send_with(
            request,
            sending_with(|sending| sending.blocks = carob_proto::endpoint::BlockMode::Manual),
        );
        net.run_for(seconds(1));
        net.responses().last().unwrap().code
    };
    assert_eq!(ask(0xf_ffff << 4), Code::BAD_OPTION, "beyond the end");
    assert_eq!(ask(7), Code::BAD_REQUEST, "SZX 7 is reserved");
    assert_eq!(ask(0), Code::CONTENT);
}

#[test]
fn download_of_constantly_changing_resource_fails() {
    let mut net = Net::plain();
    net.app.resources.insert("x".into(), pattern(3_000));
    net.send(get("x"));
    for etag in 0..40 {
        net.app.etags.insert("x".into(), vec![etag]);
        net.server = carob_proto::Endpoint::new(Config::default(), crate::net::Stream(9));
        net.run_for(millis(20));
    }
    net.run_for(seconds(5));
    assert_eq!(net.failure(), Some(Failure::Body(DownloadError::Changed)));
}

#[test]
fn application_generates_blocks() {
    let whole = pattern(2_500);
    let mut net = Net::plain();
    net.app.mute = true;
    net.client
        .request(
            net.now,
            crate::net::server_address(),
            get("x"),
            RequestConfig::default(),
        )
        .unwrap();
    let mut done = false;
    for _ in 0..3 {
        let request = match net.client.poll() {
            carob_proto::endpoint::Output::Transmit { bytes, .. } => bytes.to_vec(),
            other => panic!("{other:?}"),
        };
        net.server
            .handle_datagram(net.now, crate::net::client_address(), &request);
        let id = match net.server.poll() {
            carob_proto::endpoint::Output::Event(Event::Request(id)) => id,
            other => panic!("{other:?}"),
        };
        let wanted = net.server.incoming(id).unwrap().wanted;
        let (range, more) = wanted.slice(whole.len()).unwrap();
        let mut response = Response::new(Code::CONTENT);
        response.payload = Payload::Part {
            offset: wanted.offset,
            bytes: whole.slice(range),
            more,
            size: Some(whole.len() as u64),
        };
        net.server.respond(net.now, id, &response);
        let answer = match net.server.poll() {
            carob_proto::endpoint::Output::Transmit { bytes, .. } => bytes.to_vec(),
            other => panic!("{other:?}"),
        };
        net.client
            .handle_datagram(net.now, crate::net::server_address(), &answer);
        done = !more;
    }
    assert!(done);
    net.drain();
    assert_eq!(net.response().unwrap().bytes(), &whole);
}

fn streaming() -> RequestConfig {
    sending_with(|sending| sending.response_body = BodyMode::Streamed)
}

#[test]
fn streamed_download_has_backpressure() {
    let mut net = Net::plain();
    net.read_on = false;
    net.app.resources.insert("x".into(), pattern(100_000));
    let id = net.send_with(get("x"), streaming());
    net.run_for(seconds(20));
    let parts = |net: &Net| {
        let bytes = net.events.iter().filter_map(|(_, e)| match e {
            Event::ResponseChunk { bytes, .. } => Some(bytes.clone()),
            _ => None,
        });
        bytes.collect::<Vec<Bytes>>()
    };
    assert!(matches!(
        &net.events[0].1,
        Event::ResponseHead {
            size: Some(100_000),
            ..
        }
    ));
    let before = parts(&net).len();
    assert!(before < 98, "{before} parts came unasked");
    net.client.read_on(net.now, id, 1_000);
    net.run_for(seconds(20));
    assert_eq!(parts(&net).concat(), pattern(100_000));
    let last = net
        .events
        .last()
        .map(|(_, e)| matches!(e, Event::ResponseChunk { last: true, .. }));
    assert_eq!(last, Some(true));
    assert!(net.client.is_idle());
}

#[test]
fn streamed_upload_is_sent_and_delivered_in_chunks() {
    let mut net = Net::plain();
    net.server.deliver_by(|request| {
        if path_of(request) == "x" {
            Delivery::Streamed
        } else {
            Delivery::Atomic
        }
    });
    let id = net.send_with(
        put("x", Bytes::new()),
        sending_with(|sending| sending.request_body = BodyMode::Streamed),
    );
    assert!(matches!(net.events[..], [(_, Event::BodyNeeded(_))]));
    for chunk in pattern(3_000).chunks(700) {
        net.client
            .supply(net.now, id, Bytes::copy_from_slice(chunk), false);
        net.run_for(seconds(1));
    }
    assert_eq!(net.app.parts, [(0, 1024, true), (1024, 1024, true)]);
    net.client.supply(net.now, id, Bytes::new(), true);
    net.run_for(seconds(1));
    assert_eq!(net.app.parts[2], (2048, 952, false));
    assert_eq!(net.response().unwrap().code, Code::CHANGED);
    assert_eq!(net.server.usage().uploads, (0, 0));
}

#[test]
fn silent_peer_fails_the_transfer() {
    for (upload, window) in [(false, 1), (true, 1), (false, 8)] {
        let mut net = Net::new(wide(window, u32::MAX), Config::default());
        net.app.resources.insert("x".into(), pattern(1 << 20));
        net.send(if upload {
            put("x", pattern(1 << 20))
        } else {
            get("x")
        });
        net.run_for(seconds(1));
        net.server_dead = true;
        net.run_for(seconds(200));
        assert_eq!(net.failure(), Some(Failure::TimedOut { copies: 5 }));
        assert!(net.client.is_idle());
        net.run_for(seconds(300));
        assert_eq!(
            net.server.usage().uploads,
            (0, 0),
            "the server forgets its half"
        );
        assert_eq!(net.server.usage().bodies, (0, 0));
    }
}

#[test]
fn a_wider_window_has_several_blocks_in_flight() {
    let mut net = Net::new(wide(8, u32::MAX), Config::default());
    net.app.resources.insert("x".into(), pattern(1024 * 17));
    net.send_for(get("x"), seconds(5));
    assert_eq!(net.response().unwrap().bytes(), &pattern(1024 * 17));
    let at = |ms| {
        net.client_times()
            .iter()
            .filter(|t| **t == millis(ms))
            .count()
    };
    assert_eq!((at(0), at(20), at(40)), (1, 8, 8));
}

#[test]
fn timed_out_block_is_requested_again_while_others_arrive() {
    let is_block_3 = |from_client: bool, bytes: &[u8]| {
        from_client && blocks(&[bytes], OptionNumber::BLOCK2)[0].is_some_and(|(n, ..)| n == 3)
    };
    let body = pattern(1024 * 9);
    // The request times out after five transmissions and is repeated: with success after four (0, 2, 6 and 14 s), or in
    // vain after five.
    for (seconds_lost, copies, is_whole) in [(70, 9, true), (200, 10, false)] {
        let mut net = Net::new(wide(4, u32::MAX), Config::default());
        net.app.resources.insert("x".into(), body.clone());
        net.drop_if = Some(is_block_3);
        net.send_for(get("x"), seconds(seconds_lost));
        net.drop_if = None;
        net.run_for(seconds(30));
        let sent = net.sent_by_client();
        let requests = sent.iter().filter(|bytes| is_block_3(true, bytes));
        assert_eq!(requests.count(), copies);
        if is_whole {
            assert_eq!(net.response().expect("a response").bytes(), &body);
        } else {
            // No block arrived since the repetition.
            assert_eq!(net.failure(), Some(Failure::TimedOut { copies: 5 }));
        }
        assert!(net.client.is_idle());
    }
}

#[test]
fn blocks_that_time_out_together_are_all_requested_again() {
    let mut net = Net::new(wide(4, u32::MAX), Config::default());
    let body = pattern(1024 * 9);
    net.app.resources.insert("x".into(), body.clone());
    net.drop_if = Some(|from_client, bytes| {
        let block = blocks(&[bytes], OptionNumber::BLOCK2)[0];
        from_client && block.is_some_and(|(n, ..)| n == 2 || n == 3)
    });
    net.send_for(get("x"), seconds(70));
    net.drop_if = None;
    net.run_for(seconds(30));
    assert_eq!(net.response().expect("a response").bytes(), &body);
}

#[test]
fn silent_peer_in_a_download_is_retried_once() {
    let mut net = Net::new(wide(4, u32::MAX), Config::default());
    net.app.resources.insert("x".into(), pattern(1024 * 64));
    net.send_for(get("x"), millis(50));
    let before = net.sent_by_client().len();
    net.drop_if = Some(|from_client, _| !from_client);
    net.run_for(seconds(200));
    assert_eq!(net.failure(), Some(Failure::TimedOut { copies: 5 }));
    let after = net.sent_by_client().len() - before;
    // Four requests and their repetition with five transmissions each; the first failure ends the others.
    assert!((20..=40).contains(&after), "{after} sent after its death");
    assert!(net.client.is_idle());
}

#[test]
fn byte_window_counts_expected_responses() {
    // Three requests of about 30 bytes that expect responses of 1,040 bytes.
    let mut net = Net::new(wide(8, 3_300), Config::default());
    net.app.resources.insert("x".into(), pattern(1024 * 10));
    net.send_for(get("x"), seconds(5));
    let at = |ms| {
        net.client_times()
            .iter()
            .filter(|t| **t == millis(ms))
            .count()
    };
    assert_eq!((at(0), at(20), at(40), at(60)), (1, 3, 3, 3));
}

#[test]
fn streamed_download_buffers_at_most_requested_chunks() {
    let mut net = Net::new(wide(64, u32::MAX), Config::default());
    net.app.resources.insert("x".into(), pattern(1024 * 200));
    net.drop_if = Some(|from_client, bytes| {
        let block = view(bytes)
            .option(OptionNumber::BLOCK2)
            .map(BlockValue::decode);
        !from_client && block.is_some_and(|block| block.unwrap().number == 1)
    });
    net.send_with(get("x"), streaming());
    net.run_for(seconds(20));
    let asked = blocks(&net.sent_by_client(), OptionNumber::BLOCK2);
    let furthest = asked.iter().flatten().map(|(number, ..)| *number).max();
    assert!(
        furthest.is_some_and(|n| (8..=17).contains(&n)),
        "asked up to {furthest:?}"
    );
    net.drop_if = None;
    net.run_for(seconds(100));
    let last = net
        .events
        .last()
        .map(|(_, e)| matches!(e, Event::ResponseChunk { last: true, .. }));
    assert_eq!(last, Some(true), "and finishes once the block comes");
}

#[test]
fn engine_options_are_hidden_from_the_application() {
    let mut net = Net::plain();
    net.send(put("x", pattern(3_000)));
    net.run_for(seconds(1));
    assert!(net.response().unwrap().options.is_empty());
}

#[test]
fn bodies_survive_loss_duplication_and_reordering() {
    for seed in 0..24 {
        let client = if seed % 2 == 0 {
            Config::default()
        } else {
            wide(6, u32::MAX)
        };
        let mut net = Net::new(client, Config::default()).seeded(seed);
        net.faults = Faults {
            loss: 8,
            duplication: 8,
            jitter: millis(40),
        };
        net.send(put("x", pattern(20_000)));
        net.run_for(seconds(4_000));
        net.send_for(get("x"), seconds(4_000));
        let codes: Vec<_> = net.responses().iter().map(|r| r.code).collect();
        assert_eq!(
            codes,
            [Code::CHANGED, Code::CONTENT],
            "seed {seed}: {:?}",
            net.failure()
        );
        assert_eq!(net.responses()[1].bytes(), &pattern(20_000), "seed {seed}");
    }
}

#[test]
fn concurrent_uploads_by_two_clients_do_not_mix() {
    let mut net = Net::plain();
    let other = std::net::SocketAddr::from(([10, 0, 0, 3], 40_000));
    net.send(put("x", pattern(2_000)));
    net.run_for(millis(15));
    // The first block of another client's body.
    let mut request = Request::new(Code::PUT)
        .with_path("x")
        .unwrap()
        .with_payload(vec![9; 1024]);
    let block = BlockValue::new(0, true, BlockSize::MAX).unwrap();
    request
        .options
        .set(OptionNumber::BLOCK1, &block.encode())
        .unwrap();
    let mut theirs = carob_proto::Endpoint::new(Config::default(), crate::net::Stream(5));
    let sending = sending_with(|sending| sending.blocks = carob_proto::endpoint::BlockMode::Manual);
    theirs
        .request(net.now, crate::net::server_address(), request, sending)
        .unwrap();
    let bytes = match theirs.poll() {
        carob_proto::endpoint::Output::Transmit { bytes, .. } => bytes.to_vec(),
        other => panic!("{other:?}"),
    };
    net.server.handle_datagram(net.now, other, &bytes);
    net.run_for(seconds(1));
    assert_eq!(net.app.resources["x"], pattern(2_000));
    assert_eq!(
        net.server.usage().uploads.0,
        1,
        "the other body still waits for its rest"
    );
}
