//! Requests over TCP, TLS and WebSocket (RFC 8323).
//!
//! Over TCP, a relay records the messages; over TLS and WebSocket, only the results are checked.

use std::{
    thread,
    time::{Duration, Instant},
};

use carob_proto::codec::Code;

use super::{methods, observe::SILENCE, observe::Subject};
use crate::commands::harness::Parts as _;
use crate::interop::{
    bench::{Bench, SMALL, assert_same, pattern},
    clients::{self, Ask, Client, Connection},
    library::{self, HELLO, InProcess},
    relay::Message,
    transport::Transport,
    watching::Cancel,
};

const ONE_MESSAGE_BYTES: usize = 40 << 10;
const BLOCKS_BYTES: usize = 1 << 20;
/// A critical option from the experimental range.
const UNKNOWN_CRITICAL: u16 = 65_001;
/// A CSM with option 1, which is critical and undefined.
const BAD_CSM: &[u8] = &[0x10, 0xe1, 0x10];
/// Max-Message-Size before a CSM arrives (RFC 8323 5.3.1).
const BASE_MESSAGE_SIZE: u32 = 1152;
const LIMIT: Duration = Duration::from_secs(20);
const REFUSAL_LIMIT: Duration = Duration::from_secs(5);

pub(crate) fn methods(bench: &Bench) {
    bench.relay();
    methods::get(bench);
    methods::put(bench);
    methods::post(bench);
    methods::delete(bench);
    // A CSM comes first, from peers that send one.
    if bench.is_over(Transport::Tcp) {
        let (to_server, to_client) = (bench.relay().to_server(), bench.relay().to_client());
        let ours = if bench.is_our_client() {
            to_server
        } else {
            to_client
        };
        assert_eq!(ours.first().map(|first| first.code), Some(Code::CSM));
    }
}

pub(crate) fn more_methods(bench: &Bench) {
    methods::fetch(bench);
    methods::patch(bench);
    methods::ipatch(bench);
}

/// RFC 7252 5.4.1: an unknown critical option is refused with 4.02.
pub(crate) fn critical(bench: &Bench) {
    let get = Ask::new("get", bench.server.paths.hello);
    bench.refuse(&get.option(UNKNOWN_CRITICAL, b"x"), "4.02");
    bench.succeed(&get);
}

/// RFC 8323 5.3.1: a message above the base size, as the client's CSM permits.
pub(crate) fn one_message_down(bench: &Bench) {
    let (path, expected) = bench.source(ONE_MESSAGE_BYTES);
    bench.relay();
    let answer = bench.succeed(&Ask::new("get", &path));
    assert_same(&answer.payload, &expected);
    if bench.is_over(Transport::Tcp) {
        assert_eq!(longest(&bench.relay().to_client()), ONE_MESSAGE_BYTES);
    }
}

pub(crate) fn one_message_up(bench: &Bench) {
    bench.relay();
    let payload = pattern(ONE_MESSAGE_BYTES);
    bench.store(&payload);
    bench.assert_stored(&payload);
    if bench.is_over(Transport::Tcp) {
        assert_eq!(longest(&bench.relay().to_server()), ONE_MESSAGE_BYTES);
    }
}

/// RFC 8323 6: block-wise transfer.
pub(crate) fn blocks_down(bench: &Bench) {
    download(bench, BLOCKS_BYTES);
    assert_in_blocks(bench, &bench.relay().to_client());
}

pub(crate) fn blocks_up(bench: &Bench) {
    upload(bench, BLOCKS_BYTES);
    assert_in_blocks(bench, &bench.relay().to_server());
}

/// RFC 8323 6: BERT; a block with size exponent 7 carries several of 1024 bytes.
pub(crate) fn bert_down(bench: &Bench) {
    download(bench, BLOCKS_BYTES);
    assert_bert(&bench.relay().to_client());
}

pub(crate) fn bert_up(bench: &Bench) {
    upload(bench, BLOCKS_BYTES);
    assert_bert(&bench.relay().to_server());
}

fn download(bench: &Bench, bytes: usize) {
    let (path, expected) = bench.source(bytes);
    bench.relay();
    let answer = bench.succeed(&Ask::new("get", &path));
    assert_same(&answer.payload, &expected);
    assert_within_limits(bench);
}

fn upload(bench: &Bench, bytes: usize) {
    bench.relay();
    let payload = pattern(bytes);
    bench.store(&payload);
    bench.assert_stored(&payload);
    assert_within_limits(bench);
}

fn longest(messages: &[Message]) -> usize {
    let payloads = messages.iter().map(|message| message.payload);
    payloads.max().unwrap_or_default()
}

/// Checks that no message exceeds the receiver's Max-Message-Size.
fn assert_within_limits(bench: &Bench) {
    if !bench.is_over(Transport::Tcp) {
        return;
    }
    let (to_server, to_client) = (bench.relay().to_server(), bench.relay().to_client());
    for (messages, others) in [(&to_server, &to_client), (&to_client, &to_server)] {
        let said = others.iter().find_map(|message| message.max_message_size);
        let takes = said.unwrap_or(BASE_MESSAGE_SIZE) as usize;
        let bytes = messages.iter().map(|message| message.bytes).max();
        let bytes = bytes.unwrap_or_default();
        assert!(bytes <= takes, "{bytes} bytes for one that takes {takes}");
    }
}

fn assert_in_blocks(bench: &Bench, messages: &[Message]) {
    if !bench.is_over(Transport::Tcp) {
        return;
    }
    let blocks = messages.iter().filter(|message| message.block.is_some());
    let (count, bytes) = blocks.fold((0, 0), |(count, bytes), message| {
        (count + 1, bytes + message.payload)
    });
    assert!(
        count > 1 && bytes >= BLOCKS_BYTES,
        "{count} blocks, {bytes} bytes"
    );
}

fn assert_bert(messages: &[Message]) {
    let several = messages.iter().filter(|message| {
        message.block.is_some_and(|block| block.szx.is_bert()) && message.payload > 1024
    });
    let (count, bytes) = several.fold((0, 0), |(count, bytes), message| {
        (count + 1, bytes + message.payload)
    });
    // The last message may carry a single block.
    assert!(
        count > 0 && bytes >= BLOCKS_BYTES - 1024,
        "{count} messages of several blocks, {bytes} bytes in them"
    );
}

/// RFC 8323 7: notifications.
pub(crate) fn notified(bench: &Bench) {
    let subject = Subject::number(bench);
    let watching = subject.watch(Cancel::Never);
    subject.follow(&watching);
}

pub(crate) fn cancelled(bench: &Bench) {
    bench.relay();
    let subject = Subject::number(bench);
    let mut watching = subject.watch(Cancel::Get);
    subject.follow(&watching);
    watching.finish();
    if bench.is_over(Transport::Tcp) {
        let cancels = |message: &Message| message.observe == Some(1);
        wait_for(bench, "a GET with Observe 1", || {
            bench.relay().to_server().iter().any(cancels)
        });
    }
}

/// RFC 8323 3.4: responses may arrive in any order; tokens match them.
pub(crate) fn many(bench: &Bench) {
    const COUNT: usize = 20;
    bench.relay();
    let (slow, hello) = (bench.server.paths.slow, bench.server.paths.hello);
    let came = if bench.is_our_client() {
        ours_at_once(bench, slow, hello, COUNT)
    } else {
        clients::many(bench.peer(), &bench.scratch, bench.to(), slow, hello, COUNT)
    };
    let mut expected = vec!["then 2.05"; COUNT];
    expected.push("first 2.05");
    assert_eq!(came, expected);
    assert_eq!(bench.relay().connections(), 1, "one connection for all");
}

fn ours_at_once(bench: &Bench, slow: &str, hello: &str, count: usize) -> Vec<String> {
    let to = bench.to();
    let certificates = bench.certificates();
    library::block_on(async {
        let client = library::client(&certificates, false);
        let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
        let ask = |name: &'static str, path: &str| {
            let (client, tell, uri) = (client.clone(), tell.clone(), to.uri(path));
            tokio::spawn(async move {
                let reply = client.get(uri).await.expect("an answer");
                let _ = tell.send(format!("{name} {}", reply.code));
            })
        };
        ask("first", slow);
        // So that the first request is the first on the wire.
        tokio::time::sleep(Duration::from_millis(200)).await;
        for _ in 0..count {
            ask("then", hello);
        }
        let mut came = Vec::new();
        for _ in 0..=count {
            came.push(told.recv().await.expect("nobody has given up"));
        }
        came
    })
}

/// RFC 8323 5.4: Ping and Pong.
pub(crate) fn ping(bench: &Bench) {
    bench.relay();
    bench.ping_over_connection();
    if bench.is_over(Transport::Tcp) {
        let (to_server, to_client) = (bench.relay().to_server(), bench.relay().to_client());
        assert!(to_server.iter().any(|message| message.code == Code::PING));
        assert!(to_client.iter().any(|message| message.code == Code::PONG));
    }
}

/// RFC 8323 5.5: the client sends Release, and the connection ends.
pub(crate) fn release(bench: &Bench) {
    bench.relay();
    if bench.is_our_client() {
        // The command closes the connection without Release, so a library client is used.
        let (certificates, uri) = (
            bench.certificates(),
            bench.to().uri(bench.server.paths.hello),
        );
        let finish = library::block_on(async {
            let client = library::client(&certificates, false);
            client.get(uri).await.expect("an answer");
            client.shutdown(LIMIT).await
        });
        assert_eq!(finish, carob::ShutdownOutcome::Drained);
    } else {
        bench.succeed(&Ask::new("get", bench.server.paths.hello));
    }
    wait_for(bench, "a Release", || {
        let to_server = bench.relay().to_server();
        to_server
            .last()
            .is_some_and(|last| last.code == Code::RELEASE)
    });
    // The server did not treat Release as an error.
    let to_client = bench.relay().to_client();
    assert!(to_client.iter().all(|message| message.code != Code::ABORT));
    bench.succeed(&Ask::new("get", bench.server.paths.hello));
}

/// RFC 8323 5.3, 5.6: the server ends the connection with Abort after an unknown critical option in a CSM. The
/// client may retry a GET on a new connection.
pub(crate) fn abort(bench: &Bench) {
    bench.relay_after(BAD_CSM);
    let get = Ask::new("get", bench.server.paths.hello);
    if bench.is_our_client() {
        bench.succeed(&get);
        assert!(bench.relay().connections() > 1, "it was not made again");
    } else {
        // Clients may or may not retry; the next request opens a new connection.
        let _ = bench.try_ask(&get.limit(REFUSAL_LIMIT));
        bench.succeed(&get);
    }
    let to_client = bench.relay().to_client();
    assert!(to_client.iter().any(|message| message.code == Code::ABORT));
}

/// RFC 8323 7.4: observations end with their connection; the client registers again.
pub(crate) fn lost(bench: &Bench) {
    const STATES_MAX: usize = 10_000;
    bench.relay();
    let subject = Subject::number(bench);
    let watching = bench.watch(subject.path, STATES_MAX, Cancel::Never);
    watching.wait_for(1);
    bench.relay().cut();
    thread::sleep(SILENCE);
    let before = watching.states().len();
    subject.change();
    watching.wait_for(before + 1);
    assert!(
        bench.relay().connections() > 1,
        "the client did not reconnect"
    );
    // The registration's response has the current state; a later one proves the registration.
    let before = watching.states().len();
    subject.change();
    watching.wait_for(before + 1);
}

/// RFC 8323 3: both ends may send requests.
pub(crate) fn reverse(bench: &Bench) {
    let certificates = bench.certificates();
    if bench.is_our_client() {
        let text = library::request_reverse(bench.to(), &certificates);
        assert_eq!(text, HELLO);
    } else {
        let server = InProcess::start(bench.to().transport, &certificates, false);
        let peer = Client::Of(bench.peer());
        let answer = peer.ask(&bench.scratch, server.to, &Ask::new("post", "reverse"));
        assert!(answer.is_success(), "{}", answer.said);
        assert_same(&answer.payload, b"hello from the client");
    }
}

/// RFC 8323 5.3 requires a CSM; Carob tolerates its absence unless `strict` is set.
pub(crate) fn no_csm(bench: &Bench) {
    let again;
    let bench = if let Some(arguments) = bench.server.paths.no_csm {
        again = bench.with_server(arguments);
        &again
    } else {
        bench
    };
    bench.relay();
    let put = Ask::new("put", bench.server.paths.store)
        .payload(SMALL)
        .connection(Connection::WithoutCsm);
    bench.succeed(&put);
    bench.assert_stored(SMALL);
    let relay = bench.relay();
    let theirs = if bench.is_our_client() {
        relay.to_client()
    } else {
        relay.to_server()
    };
    assert!(!theirs.is_empty(), "nothing was seen");
    assert!(theirs.iter().all(|message| message.code != Code::CSM));
}

pub(crate) fn insist(bench: &Bench) {
    let certificates = bench.certificates();
    if bench.is_our_client() {
        let again;
        let bench = if let Some(arguments) = bench.server.paths.no_csm {
            again = bench.with_server(arguments);
            &again
        } else {
            bench
        };
        let uri = bench.to().uri(bench.server.paths.hello);
        let (tolerant, strict) = library::block_on(async {
            let tolerant = library::client(&certificates, false).get(&*uri).await;
            (
                tolerant,
                library::client(&certificates, true).get(&*uri).await,
            )
        });
        assert!(tolerant.is_ok(), "{tolerant:?}");
        let error = strict.expect_err("it has no CSM").to_string();
        error.has(&["CSM"]);
    } else {
        let peer = Client::Of(bench.peer());
        let get = Ask::new("get", "hello")
            .connection(Connection::WithoutCsm)
            .limit(REFUSAL_LIMIT);
        let ask = |strict| {
            let server = InProcess::start(Transport::Tcp, &certificates, strict);
            peer.try_ask(&bench.scratch, server.to, &get)
        };
        assert!(ask(false).is_ok_and(|answer| answer.is_success()));
        assert!(ask(true).is_err(), "it was answered without a CSM");
    }
}

/// RFC 8323 9.2: a server with an untrusted certificate gets no request.
pub(crate) fn stranger(bench: &Bench) {
    let get = Ask::new("get", bench.server.paths.hello).limit(REFUSAL_LIMIT);
    match bench.try_ask(&get.connection(Connection::TrustingStrangers)) {
        Err(_) => {}
        // libcoap's client reports failures as text only, with exit code 0.
        Ok(answer) => assert_same(&answer.payload, b""),
    }
    let answer = bench.succeed(&get);
    assert!(!answer.payload.is_empty(), "{}", answer.said);
}

/// RFC 8323 4.1: the WebSocket opening handshake.
pub(crate) fn websocket(bench: &Bench) {
    bench.relay();
    bench.succeed(&Ask::new("get", bench.server.paths.hello));
    let (request, response) = bench.relay().heads();
    let request_line = request.lines().next().unwrap_or_default();
    assert_eq!(request_line, "GET /.well-known/coap HTTP/1.1", "{request}");
    assert!(response.starts_with("HTTP/1.1 101 "), "{response}");
    for head in [request, response] {
        let protocol = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            let named = name.eq_ignore_ascii_case("Sec-WebSocket-Protocol");
            named.then(|| value.trim())
        });
        assert_eq!(protocol, Some("coap"), "{head}");
    }
}

fn wait_for(bench: &Bench, what: &str, mut there: impl FnMut() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !there() {
        let seen = bench.relay().to_server();
        assert!(Instant::now() < deadline, "no {what} in {seen:?}");
        thread::sleep(Duration::from_millis(10));
    }
}
