//! The cases: what is asked, and what must have happened afterwards.

use std::{
    env,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    time::{Duration, Instant},
};

use crate::{
    clients::{self, Answer, Client, Request},
    matrix::{self, Case, Direction, Outcome, Peer},
    process::Scratch,
    proxy::{Faults, Proxy},
    servers::Server,
};

/// Enough for a request over loopback on a busy machine.
const LIMIT: Duration = Duration::from_secs(90);
/// 64 blocks with a loss of 10 % a round trip wait some seven times for two to three seconds.
const LOSSY_LIMIT: Duration = Duration::from_secs(240);

const SMALL: &[u8] = b"a payload that fits one datagram";
const LARGE_BYTES: usize = 1 << 20;
const LOSSY_BYTES: usize = 64 << 10;

const LOSSY: Faults = Faults {
    loss: 50,
    duplication: 50,
    reordering: 20,
};
/// Chosen so that both directions lose and duplicate something among their first sixty datagrams.
const SEED: u64 = 11;

/// One client, one server and the path between them.
struct Bench {
    client: Client,
    server: Server,
    proxy: Option<Proxy>,
    scratch: Scratch,
}

/// Runs a case, or notes that its peer is not installed.
pub(crate) fn run(peer: Peer, direction: Direction, case: Case) {
    if !can_run(&[peer]) {
        matrix::record(peer, direction, case, Outcome::Skipped);
        return;
    }
    let start = Instant::now();
    let result = catch_unwind(AssertUnwindSafe(|| {
        let bench = Bench::new(peer, direction);
        match case {
            Case::Get => get(&bench),
            Case::Put => put(&bench),
            Case::Post => post(&bench),
            Case::Delete => delete(&bench),
            Case::Separate => separate(bench),
            Case::LargeDown => down(&bench, LARGE_BYTES, LIMIT),
            Case::LargeUp => up(&bench, LARGE_BYTES, LIMIT),
            Case::LossyDown => lossy_down(bench),
            Case::LossyUp => lossy_up(bench),
            Case::Once => once(bench),
        }
    }));
    let outcome = if result.is_ok() {
        Outcome::Passed(start.elapsed())
    } else {
        Outcome::Failed
    };
    matrix::record(peer, direction, case, outcome);
    if let Err(panic) = result {
        resume_unwind(panic);
    }
}

/// libcoap's client against aiocoap's server through the proxy, without any code of Carob's.
pub(crate) fn run_peers_alone() {
    if !can_run(&Peer::ALL) {
        return;
    }
    let scratch = Scratch::new();
    let server = Server::of(Peer::Aiocoap, &scratch);
    let mut bench = Bench {
        client: Client::Of(Peer::Libcoap),
        server,
        proxy: None,
        scratch,
    };
    bench.interpose(LOSSY, LOSSY);
    up(&bench, LOSSY_BYTES, LOSSY_LIMIT);
    assert_faults(&bench);
}

/// Whether all of the peers are here; names those that are not.
fn can_run(peers: &[Peer]) -> bool {
    let required = env::var_os("CAROB_REQUIRE_PEERS").is_some_and(|value| value == "1");
    let mut all = true;
    for peer in peers {
        if !clients::is_installed(*peer) {
            let text = format!("skipped: {} (install: cargo xtask peers)", peer.name());
            assert!(!required, "{text}, but CAROB_REQUIRE_PEERS=1");
            matrix::say(&text);
            all = false;
        }
    }
    all
}

impl Bench {
    fn new(peer: Peer, direction: Direction) -> Self {
        let scratch = Scratch::new();
        let (client, server) = match direction {
            Direction::TheirClient => (Client::Of(peer), Server::carob(&scratch)),
            Direction::OurClient => (Client::Carob, Server::of(peer, &scratch)),
        };
        Self {
            client,
            server,
            proxy: None,
            scratch,
        }
    }

    fn interpose(&mut self, to_server: Faults, to_client: Faults) {
        self.proxy = Some(Proxy::start(self.server.port, to_server, to_client, SEED));
    }

    fn proxy(&self) -> &Proxy {
        self.proxy.as_ref().expect("the case interposed a proxy")
    }

    /// Asks through the proxy, if there is one.
    fn ask(
        &self,
        method: &'static str,
        path: &str,
        payload: Option<&[u8]>,
        limit: Duration,
    ) -> Answer {
        let port = self.proxy.as_ref().map_or(self.server.port, Proxy::port);
        self.ask_port(port, method, path, payload, limit)
    }

    /// Asks the server itself, to see what became of an earlier request.
    fn ask_directly(&self, method: &'static str, path: &str) -> Answer {
        self.ask_port(self.server.port, method, path, None, LIMIT)
    }

    fn ask_port(
        &self,
        port: u16,
        method: &'static str,
        path: &str,
        payload: Option<&[u8]>,
        limit: Duration,
    ) -> Answer {
        let uri = format!("coap://127.0.0.1:{port}/{path}");
        self.client.ask(
            &self.scratch,
            Request {
                method,
                uri: &uri,
                payload,
                limit,
            },
        )
    }

    /// Puts something under the store's path and checks that it was accepted.
    fn store(&self, payload: &[u8], limit: Duration) {
        let answer = self.ask("put", self.server.paths.store, Some(payload), limit);
        assert!(answer.success, "PUT was refused\n{}", answer.said);
    }

    /// Checks what the server holds, on its disk where it has one.
    fn assert_stored(&self, expected: &[u8]) {
        let found = if self.server.has_folder() {
            self.server.stored().expect("the file exists")
        } else {
            let answer = self.ask_directly("get", self.server.paths.store);
            assert!(answer.success, "the resource is missing\n{}", answer.said);
            answer.payload
        };
        assert_same(&found, expected);
    }
}

/// `assert_eq!` for payloads too long to print.
fn assert_same(found: &[u8], expected: &[u8]) {
    assert_eq!(found.len(), expected.len(), "length");
    let first = found
        .iter()
        .zip(expected)
        .position(|(found, expected)| found != expected);
    assert_eq!(first, None, "first byte that differs");
}

/// Bytes without a period that a block size could hide in.
fn pattern(length: usize) -> Vec<u8> {
    (0..length as u32)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8)
        .collect()
}

fn get(bench: &Bench) {
    let answer = bench.ask("get", bench.server.paths.hello, None, LIMIT);
    assert!(answer.success, "GET failed\n{}", answer.said);
    assert!(
        answer.payload.len() >= 32,
        "only {} bytes",
        answer.payload.len()
    );
}

fn put(bench: &Bench) {
    bench.store(SMALL, LIMIT);
    bench.assert_stored(SMALL);
    bench.store(b"replaced", LIMIT);
    bench.assert_stored(b"replaced");
}

fn post(bench: &Bench) {
    if let Some(echo) = bench.server.paths.echo {
        let answer = bench.ask("post", echo, Some(SMALL), LIMIT);
        assert!(answer.success, "POST failed\n{}", answer.said);
        assert_same(&answer.payload, SMALL);
    } else {
        let answer = bench.ask("post", bench.server.paths.store, Some(SMALL), LIMIT);
        assert!(answer.success, "POST failed\n{}", answer.said);
        bench.assert_stored(SMALL);
    }
}

fn delete(bench: &Bench) {
    let path = bench.server.paths.store;
    bench.store(SMALL, LIMIT);
    let answer = bench.ask("delete", path, None, LIMIT);
    assert!(answer.success, "DELETE failed\n{}", answer.said);
    let after = bench.ask("get", path, None, LIMIT);
    assert!(
        !after.success,
        "GET still finds what was deleted\n{}",
        after.said
    );
    assert_eq!(bench.server.stored(), None, "the file is still there");
}

fn separate(mut bench: Bench) {
    bench.interpose(Faults::default(), Faults::default());
    let answer = bench.ask("get", bench.server.paths.slow, None, LIMIT);
    assert!(answer.success, "GET failed\n{}", answer.said);
    assert!(!answer.payload.is_empty(), "no payload\n{}", answer.said);
    let (to_client, to_server) = (
        bench.proxy().seen_to_client(),
        bench.proxy().seen_to_server(),
    );
    assert!(
        to_client.empty_acknowledgements >= 1,
        "the response was not separate: {to_client:?}"
    );
    assert!(
        to_server.empty_acknowledgements >= 1,
        "it was not acknowledged: {to_server:?}"
    );
}

fn down(bench: &Bench, length: usize, limit: Duration) {
    let expected = pattern(length);
    // Stored through the same path that is tested; `up` says which of the two failed.
    bench.store(&expected, limit);
    let answer = bench.ask("get", bench.server.paths.store, None, limit);
    assert!(answer.success, "GET failed\n{}", answer.said);
    assert_same(&answer.payload, &expected);
}

fn up(bench: &Bench, length: usize, limit: Duration) {
    let payload = pattern(length);
    bench.store(&payload, limit);
    bench.assert_stored(&payload);
}

fn lossy_down(mut bench: Bench) {
    let expected = pattern(LOSSY_BYTES);
    bench.store(&expected, LIMIT);
    bench.interpose(LOSSY, LOSSY);
    let answer = bench.ask("get", bench.server.paths.store, None, LOSSY_LIMIT);
    assert!(answer.success, "GET failed\n{}", answer.said);
    assert_same(&answer.payload, &expected);
    assert_faults(&bench);
}

fn lossy_up(mut bench: Bench) {
    bench.interpose(LOSSY, LOSSY);
    up(&bench, LOSSY_BYTES, LOSSY_LIMIT);
    assert_faults(&bench);
    if let Some(counter) = bench.server.paths.counter {
        let answer = bench.ask("post", counter, Some(&pattern(LOSSY_BYTES)), LOSSY_LIMIT);
        assert!(answer.success, "POST failed\n{}", answer.said);
        let count = bench.ask_directly("get", counter);
        assert_same(&count.payload, b"1");
    }
}

/// The proxy must have done what the case is about.
fn assert_faults(bench: &Bench) {
    for seen in [
        bench.proxy().seen_to_server(),
        bench.proxy().seen_to_client(),
    ] {
        assert!(
            seen.lost > 0 && seen.duplicated > 0,
            "nothing was lost or duplicated: {seen:?}"
        );
    }
}

fn once(mut bench: Bench) {
    let every = Faults {
        duplication: 1000,
        ..Faults::default()
    };
    bench.interpose(every, every);
    if let Some(counter) = bench.server.paths.counter {
        for _ in 0..3 {
            let answer = bench.ask("post", counter, Some(SMALL), LIMIT);
            assert!(answer.success, "POST failed\n{}", answer.said);
        }
        let count = bench.ask_directly("get", counter);
        assert_same(&count.payload, b"3");
    }
    bench.store(SMALL, LIMIT);
    bench.assert_stored(SMALL);
    let deleted = bench.ask("delete", bench.server.paths.store, None, LIMIT);
    assert!(deleted.success, "DELETE failed\n{}", deleted.said);
    let seen = bench.proxy().seen_to_client();
    assert!(seen.duplicated > 0, "nothing was duplicated");
    if bench.server.has_folder() {
        // Carried out twice, a PUT would be answered by Created and then Changed, a DELETE by
        // Deleted and then Not Found.
        assert_eq!(
            seen.contradictions(),
            [],
            "repeated requests were carried out again: {seen:?}"
        );
    }
}
