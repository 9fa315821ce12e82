//! Echo and Request-Tag (RFC 9175), No-Response (RFC 7967) and Hop-Limit (RFC 8768).

use std::collections::BTreeSet;
use std::thread;
use std::time::Duration;

use carob::Config;
use carob_proto::codec::{BlockSize, Code, MessageId, OptionNumber, Type};

use crate::installed::Peer;
use crate::interop::bench::{Bench, SMALL, assert_same, pattern};
use crate::interop::library;
use crate::interop::path::{Faults, Path};
use crate::interop::proxying::our_proxy;
use crate::interop::requests::Ask;
use crate::interop::wire::{Message, Seen};

const LIMIT: Duration = Duration::from_secs(60);
/// Time in which a response, if sent, passes the path.
const QUIET: Duration = Duration::from_millis(500);
/// Client limit for requests that get no response.
const IN_VAIN: Duration = Duration::from_secs(3);
const BLOCK_BYTES: u16 = 64;
const BLOCK_SZX: u8 = 2;

/// RFC 9175 2.4: an unvalidated client gets at most three times its bytes, and 4.01 with Echo. A request that repeats
/// the value is served.
pub(crate) fn echo(bench: &Bench) {
    let bench = bench.with_server(&["--amplification-limit", "127.0.0.0/8=on"]);
    bench.interpose(Faults::default());
    let contents = pattern(500);
    assert!(bench.server.place("challenged", &contents), "no folder");
    let answer = bench.succeed(&Ask::get("challenged"));
    assert_same(&answer.payload, &contents);
    let seen = bench.path().to_client();
    let challenge = seen.replies().into_values().flatten().find_map(|reply| {
        let echo = reply.option(OptionNumber::ECHO)?;
        (reply.code == Code::UNAUTHORIZED).then(|| echo.to_vec())
    });
    let challenge = challenge.expect("nobody was challenged");
    let repeated = values(&bench.path().to_server(), OptionNumber::ECHO);
    assert!(
        repeated.contains(&Some(challenge)),
        "no request carried the value: {repeated:?}"
    );
}

/// RFC 9175 3.5.1: blocks of an aborted body are not mixed with those of the next.
pub(crate) fn request_tag(bench: &Bench) {
    bench.interpose(Faults::default());
    let second = pattern(4096);
    if !bench.is_our_client() {
        let put = Ask::put(bench.server.paths.store).payload(&second);
        bench.succeed(&put.block_size(BLOCK_BYTES));
        let tags = values(&bench.path().to_server(), OptionNumber::REQUEST_TAG);
        assert!(
            tags.len() == 4096 / 64 && tags[0].is_some(),
            "a block has no tag: {tags:?}"
        );
        assert!(tags.iter().all(|tag| *tag == tags[0]), "{tags:?}");
        return bench.assert_stored(&second);
    }
    let first = vec![b'-'; 64 * 1024];
    let uri = bench.to().uri(bench.server.paths.store);
    let requests = || bench.path().to_server().requests();
    let mut broken_off = BTreeSet::new();
    let size = BlockSize::from_szx(BLOCK_SZX).expect("a block size");
    let client = library::client(Config::new().block_size(size));
    let uploads = async {
        let put = |body: &[u8]| {
            let request = client.put(&*uri).body(body.to_vec());
            request.timeout(LIMIT).send()
        };
        let several = async {
            while requests().len() < 5 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::select! {
            reply = put(&first) => panic!("the first body was uploaded: {reply:?}"),
            () = several => {}
        }
        tokio::time::sleep(QUIET).await;
        broken_off.extend(requests().into_keys());
        let reply = put(&second).await;
        let reply = reply.unwrap_or_else(|error| panic!("{uri}: {error}"));
        assert!(reply.code.is_success(), "{}", reply.code);
    };
    library::block_on(uploads);
    bench.assert_stored(&second);
    let (earlier, later): (Vec<_>, Vec<_>) = requests()
        .into_iter()
        .partition(|(id, _)| broken_off.contains(id));
    assert!(earlier.len() < first.len() / 64, "nothing was broken off");
    let tags = |blocks: Vec<(MessageId, Vec<Message>)>| -> BTreeSet<Option<Vec<u8>>> {
        let tag = |copies: &[Message]| Some(copies[0].option(OptionNumber::REQUEST_TAG)?.to_vec());
        blocks.iter().map(|(_, copies)| tag(copies)).collect()
    };
    let (earlier, later) = (tags(earlier), tags(later));
    assert!(
        later.len() == 1 && !later.contains(&None) && earlier.is_disjoint(&later),
        "tags of the blocks of the first body, and of the second: {earlier:?}, {later:?}"
    );
}

/// RFC 7967 2: a NON gets no reply.
pub(crate) fn no_response_to_non(bench: &Bench) {
    let put = Ask::put(bench.server.paths.store).non();
    let seen = put_quietly(bench, put);
    let sent = bench.path().to_server();
    let kinds = [Type::Confirmable, Type::NonConfirmable].map(|kind| sent.count(kind));
    assert_eq!(kinds, [0, 1], "one NON");
    assert_eq!(seen.0.len(), 0, "something came back: {seen:?}");
}

/// RFC 7967 2: a CON gets an Empty ACK and no response.
pub(crate) fn no_response_to_con(bench: &Bench) {
    let seen = put_quietly(bench, Ask::put(bench.server.paths.store));
    let sent = bench.path().to_server();
    assert!(sent.count(Type::Confirmable) >= 1, "a CON: {sent:?}");
    assert!(
        seen.empty_acknowledgements() >= 1 && seen.0.len() == seen.empty_acknowledgements(),
        "something else came back, or nothing: {seen:?}"
    );
}

/// Puts a representation with No-Response for 2.xx and checks that it was stored; returns the server's messages.
fn put_quietly(bench: &Bench, put: Ask) -> Seen {
    bench.interpose(Faults::default());
    // Clients may or may not wait for a response, and exit with different codes.
    let _ = bench.try_ask(
        &put.payload(SMALL)
            .option(OptionNumber::NO_RESPONSE, &[2])
            .limit(IN_VAIN),
    );
    bench.until("request", |wire| wire.requests().first().map(|_| ()));
    thread::sleep(QUIET);
    let asked = values(&bench.path().to_server(), OptionNumber::NO_RESPONSE);
    assert_eq!(asked, [Some(vec![2])], "the requests' option");
    let seen = bench.path().to_client();
    bench.assert_stored(SMALL);
    seen
}

/// RFC 8768 3: an origin server ignores Hop-Limit; a proxy decrements it and returns 5.08 at zero.
pub(crate) fn hop_limit(bench: &Bench) {
    bench.interpose(Faults::default());
    let arrived = || values(&bench.path().to_server(), OptionNumber::HOP_LIMIT);
    if bench.is_our_client() {
        let get = Ask::get(bench.server.paths.hello).option(OptionNumber::HOP_LIMIT, &[10]);
        let answer = bench.succeed(&get);
        assert!(!answer.payload.is_empty(), "no payload\n{}", answer.said);
        return assert_eq!(arrived(), [Some(vec![10])]);
    }
    let (_carob, port) = our_proxy();
    let before = Path::start(port, Faults::default(), 1);
    let get_in_hops = |hops: u8| {
        let get = Ask::get(bench.server.paths.hello).option(OptionNumber::HOP_LIMIT, &[hops]);
        bench.ask(&get.through(before.port()).limit(LIMIT / 2))
    };
    let answer = get_in_hops(10);
    assert!(answer.succeeded_with("2.05"), "{}", answer.said);
    assert_eq!(arrived(), [Some(vec![9])], "{}", answer.said);
    let answer = get_in_hops(1);
    // Californium does not implement 5.08 and treats it as 5.00 (RFC 7252 5.9).
    let unknown = bench.peer() == Peer::Californium;
    let told = if unknown { "5.00" } else { "5.08" };
    assert_eq!(answer.code, told, "{}", answer.said);
    assert_eq!(arrived().len(), 1, "it was passed on");
    let seen = before.to_client();
    let replies = seen.replies();
    let mut codes = replies.values().flatten().map(|reply| reply.code);
    assert!(
        codes.any(|code| code == Code::HOP_LIMIT_REACHED),
        "no 5.08: {seen:?}"
    );
}

/// The values of an option in requests, one per Message ID.
fn values(seen: &Seen, option: OptionNumber) -> Vec<Option<Vec<u8>>> {
    let requests = seen.requests();
    let firsts = requests.values().map(|copies| &copies[0]);
    firsts
        .map(|request| request.option(option).map(<[u8]>::to_vec))
        .collect()
}
