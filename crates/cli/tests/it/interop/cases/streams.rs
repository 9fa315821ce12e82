//! Requests over TCP, TLS and WebSocket (RFC 8323).
//!
//! Over TCP, a relay records the messages; over TLS and WebSocket, only the results are checked.

use std::{thread, time::Duration};

use carob_proto::codec::{Code, OptionNumber};
use tokio::task::JoinSet;

use super::{methods, observe::SILENCE, observe::Subject};
use crate::commands::harness::Parts as _;
use crate::interop::{
    bench::{Bench, SMALL, assert_same, pattern},
    clients::{self, Client, Implementation},
    library::{self, HELLO, block_on},
    relay::{block, max_message_size},
    requests::{Ask, Connection},
    transport::{To, Transport},
    watching::Cancel,
    wire::{Message, Side},
};
use crate::process::until;

const ONE_MESSAGE_BYTES: usize = 40 << 10;
const BLOCKS_BYTES: usize = 1 << 20;
/// A critical option from the experimental range.
const UNKNOWN_CRITICAL: OptionNumber = OptionNumber(65_001);
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
        let ours = if bench.is_our_client() {
            Side::Client
        } else {
            Side::Server
        };
        let ours = bench.relay().from(ours);
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
    let get = Ask::get(bench.server.paths.hello);
    bench.refuse(&get.clone().option(UNKNOWN_CRITICAL, b"x"), "4.02");
    bench.succeed(&get);
}

/// RFC 8323 5.3.1: a message above the base size, as the receiver's CSM permits.
pub(crate) fn one_message(bench: &Bench, from: Side) {
    let messages = transfer(bench, from, ONE_MESSAGE_BYTES);
    if bench.is_over(Transport::Tcp) {
        let payloads = messages.iter().map(|message| message.payload.len());
        assert_eq!(payloads.max(), Some(ONE_MESSAGE_BYTES));
    }
}

/// RFC 8323 6: block-wise transfer.
pub(crate) fn blocks(bench: &Bench, from: Side) {
    let messages = transfer(bench, from, BLOCKS_BYTES);
    if bench.is_over(Transport::Tcp) {
        let (count, bytes) = payloads(&messages, |message| block(message).is_some());
        let is_whole = count > 1 && bytes >= BLOCKS_BYTES;
        assert!(is_whole, "{count} blocks, {bytes} bytes");
    }
}

/// RFC 8323 6: BERT; a block with size exponent 7 carries several of 1024 bytes.
pub(crate) fn bert(bench: &Bench, from: Side) {
    let messages = transfer(bench, from, BLOCKS_BYTES);
    let (count, bytes) = payloads(&messages, |message| {
        block(message).is_some_and(|block| block.szx.is_bert()) && message.payload.len() > 1024
    });
    // The last message may carry a single block.
    let is_whole = count > 0 && bytes >= BLOCKS_BYTES - 1024;
    assert!(
        is_whole,
        "{count} messages of several blocks, {bytes} bytes in them"
    );
}

/// Moves a body from the client or the server; returns the messages of that side.
fn transfer(bench: &Bench, from: Side, bytes: usize) -> Vec<Message> {
    if from == Side::Server {
        let (path, expected) = bench.source(bytes);
        bench.relay();
        let answer = bench.succeed(&Ask::get(&path));
        assert_same(&answer.payload, &expected);
    } else {
        bench.relay();
        let payload = pattern(bytes);
        bench.store(&payload);
        bench.assert_stored(&payload);
    }
    assert_within_limits(bench);
    bench.relay().from(from)
}

/// Number of these messages, and bytes of their payloads.
fn payloads(messages: &[Message], which: impl Fn(&Message) -> bool) -> (usize, usize) {
    let payloads = messages.iter().filter(|message| which(message));
    payloads.fold((0, 0), |(count, bytes), message| {
        (count + 1, bytes + message.payload.len())
    })
}

/// Checks that no message exceeds the receiver's Max-Message-Size.
fn assert_within_limits(bench: &Bench) {
    if !bench.is_over(Transport::Tcp) {
        return;
    }
    for [side, receiver] in [[Side::Client, Side::Server], [Side::Server, Side::Client]] {
        let (messages, others) = (bench.relay().from(side), bench.relay().from(receiver));
        let said = others.iter().find_map(max_message_size);
        let takes = said.unwrap_or(BASE_MESSAGE_SIZE) as usize;
        let bytes = messages.iter().map(|message| message.length).max();
        let bytes = bytes.unwrap_or_default();
        assert!(bytes <= takes, "{bytes} bytes for one that takes {takes}");
    }
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
    let watching = subject.watch(Cancel::Get);
    subject.follow(&watching);
    watching.finish();
    if bench.is_over(Transport::Tcp) {
        let cancels =
            |message: &Message| !message.code.is_signalling() && message.observe() == Some(1);
        wait_for(bench, "GET with Observe 1", |messages| {
            messages.iter().any(cancels)
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
    let client = library::client(library::settings(&bench.certificates(), false));
    let ask = |name: &'static str, path: &str| {
        let (client, uri) = (client.clone(), to.uri(path));
        async move {
            let reply = client.get(uri).await.expect("an answer");
            format!("{name} {}", reply.code)
        }
    };
    block_on(async {
        let mut responses = JoinSet::new();
        responses.spawn(ask("first", slow));
        // So that the first request is the first on the wire.
        tokio::time::sleep(Duration::from_millis(200)).await;
        for _ in 0..count {
            responses.spawn(ask("then", hello));
        }
        responses.join_all().await
    })
}

/// RFC 8323 5.4: Ping and Pong.
pub(crate) fn ping(bench: &Bench) {
    bench.relay();
    bench.ping();
    if bench.is_over(Transport::Tcp) {
        for (side, code) in [(Side::Client, Code::PING), (Side::Server, Code::PONG)] {
            let messages = bench.relay().from(side);
            assert!(
                messages.iter().any(|message| message.code == code),
                "{code}"
            );
        }
    }
}

/// RFC 8323 5.5: the client sends Release, and the connection ends.
pub(crate) fn release(bench: &Bench) {
    bench.relay();
    if bench.is_our_client() {
        // The command closes the connection without Release, so a library client is used.
        let client = library::client(library::settings(&bench.certificates(), false));
        let uri = bench.to().uri(bench.server.paths.hello);
        let finish = block_on(async {
            client.get(uri).await.expect("an answer");
            client.shutdown(LIMIT).await
        });
        assert_eq!(finish, carob::ShutdownOutcome::Drained);
    } else {
        bench.succeed(&Ask::get(bench.server.paths.hello));
    }
    wait_for(bench, "Release", |messages| {
        let last = messages.last();
        last.is_some_and(|last| last.code == Code::RELEASE)
    });
    // The server did not treat Release as an error.
    let to_client = bench.relay().from(Side::Server);
    assert!(to_client.iter().all(|message| message.code != Code::ABORT));
    bench.succeed(&Ask::get(bench.server.paths.hello));
}

/// RFC 8323 5.3, 5.6: the server ends the connection with Abort after an unknown critical option in a CSM. The
/// client may retry a GET on a new connection.
pub(crate) fn abort(bench: &Bench) {
    bench.relay_after(BAD_CSM);
    let get = Ask::get(bench.server.paths.hello);
    if bench.is_our_client() {
        bench.succeed(&get);
        assert!(bench.relay().connections() > 1, "it was not made again");
    } else {
        // Clients may or may not retry; the next request opens a new connection.
        let _ = bench.try_ask(&get.clone().limit(REFUSAL_LIMIT));
        bench.succeed(&get);
    }
    let to_client = bench.relay().from(Side::Server);
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
        let server = library::serve(bench.to().transport, &certificates, false);
        let to = To {
            port: server.local_address().port(),
            ..bench.to()
        };
        let peer = Client::Command(Implementation::Of(bench.peer()));
        let answer = peer.ask(&bench.scratch, to, &Ask::post("reverse"));
        assert!(answer.is_success(), "{}", answer.said);
        assert_same(&answer.payload, b"hello from the client");
    }
}

/// The same client with a server that sends no CSM, if the server has an option for that.
fn without_csm(bench: &Bench) -> Option<Bench> {
    let arguments = bench.server.paths.no_csm?;
    Some(bench.with_server(arguments))
}

/// RFC 8323 5.3 requires a CSM; Carob tolerates its absence unless `strict` is set.
pub(crate) fn no_csm(bench: &Bench) {
    let again = without_csm(bench);
    let bench = again.as_ref().unwrap_or(bench);
    bench.relay();
    let put = Ask::put(bench.server.paths.store)
        .payload(SMALL)
        .connection(Connection::WithoutCsm);
    bench.succeed(&put);
    bench.assert_stored(SMALL);
    let theirs = if bench.is_our_client() {
        Side::Server
    } else {
        Side::Client
    };
    let theirs = bench.relay().from(theirs);
    assert!(!theirs.is_empty(), "nothing was seen");
    assert!(theirs.iter().all(|message| message.code != Code::CSM));
}

pub(crate) fn insist(bench: &Bench) {
    let certificates = bench.certificates();
    if bench.is_our_client() {
        let again = without_csm(bench);
        let bench = again.as_ref().unwrap_or(bench);
        let uri = bench.to().uri(bench.server.paths.hello);
        let get = |strict| {
            let client = library::client(library::settings(&certificates, strict));
            block_on(async { client.get(&*uri).await })
        };
        let (tolerant, strict) = (get(false), get(true));
        assert!(tolerant.is_ok(), "{tolerant:?}");
        let error = strict.expect_err("it has no CSM").to_string();
        error.has(&["CSM"]);
    } else {
        let peer = Client::Command(Implementation::Of(bench.peer()));
        let get = Ask::get("hello")
            .connection(Connection::WithoutCsm)
            .limit(REFUSAL_LIMIT);
        let ask = |strict| {
            let server = library::serve(Transport::Tcp, &certificates, strict);
            let port = server.local_address().port();
            peer.try_ask(&bench.scratch, To { port, ..bench.to() }, &get)
        };
        assert!(ask(false).is_ok_and(|answer| answer.is_success()));
        assert!(ask(true).is_err(), "it was answered without a CSM");
    }
}

/// RFC 8323 9.2: a server with an untrusted certificate gets no request.
pub(crate) fn stranger(bench: &Bench) {
    let get = Ask::get(bench.server.paths.hello).limit(REFUSAL_LIMIT);
    match bench.try_ask(&get.clone().connection(Connection::TrustingStrangers)) {
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
    bench.succeed(&Ask::get(bench.server.paths.hello));
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

fn wait_for(bench: &Bench, what: &str, there: impl Fn(&[Message]) -> bool) {
    until(LIMIT, what, || {
        there(&bench.relay().from(Side::Client)).then_some(())
    });
}
