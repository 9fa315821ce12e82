//! A client, a server and the path between them, with the operations that cases use.

use std::{borrow::Cow, cell::OnceCell, env};

use crate::interop::{
    cases,
    clients::{self, Answer, Ask, Client, root},
    matrix::{self, Column},
    path::{Faults, Path},
    relay::Relay,
    servers::Server,
    transport::{Certificates, To, Transport},
    watching::{Cancel, Watching},
};
use crate::{installed::Peer, process::Scratch};

pub(crate) const SMALL: &[u8] = b"a payload that fits one datagram";

/// With this seed, both directions lose and duplicate a datagram among their first sixty.
const SEED: u64 = 11;

/// Client, server and path, with a folder for their files.
pub(crate) struct Bench {
    client: Client,
    pub(crate) server: Server,
    path: OnceCell<Path>,
    relay: OnceCell<Relay>,
    pub(crate) scratch: Scratch,
}

/// Runs a case in a column, or records why it is skipped.
pub(crate) fn run(column: Column, case: &'static str) {
    let table = match column.transport {
        Transport::Udp => &matrix::DATAGRAMS,
        _ => &matrix::STREAMS,
    };
    table.run(column, case, || {
        let bench = Bench::with(column.transport, column.client(), column.server(), &[]);
        (cases::named(case).run)(&bench);
    });
}

/// Whether all of these peers are installed; prints those that are not.
pub(crate) fn can_run(peers: &[Peer]) -> bool {
    let required = env::var_os("CAROB_REQUIRE_PEERS").is_some_and(|value| value == "1");
    let missing = peers.iter().filter(|peer| !peer.is_current(root()));
    let missing: Vec<_> = missing.map(|peer| peer.name()).collect();
    if missing.is_empty() {
        return true;
    }
    let missing = missing.join(" and ");
    assert!(!required, "{missing} missing, but CAROB_REQUIRE_PEERS=1");
    crate::skipped(&format!("{missing} (cargo xtask peers)"));
    false
}

impl Bench {
    /// Starts a client of one implementation and a server of another, over UDP.
    pub(crate) fn of(client: Client, server: Client) -> Self {
        Self::with(Transport::Udp, client, server, &[])
    }

    /// The same client with another server of the same implementation and more arguments.
    pub(crate) fn with_server(&self, more: &[&str]) -> Self {
        Self::with(self.server.transport, self.client, self.server.whose, more)
    }

    fn with(transport: Transport, client: Client, server: Client, more: &[&str]) -> Self {
        let scratch = Scratch::new();
        let server = Server::start(server, transport, &scratch, more);
        Self {
            client,
            server,
            path: OnceCell::new(),
            relay: OnceCell::new(),
            scratch,
        }
    }

    /// Routes requests through a path with these faults in both directions.
    pub(crate) fn interpose(&self, faults: Faults) {
        self.path
            .get_or_init(|| Path::start(self.server.port, faults, SEED));
    }

    pub(crate) fn path(&self) -> &Path {
        self.path.get().expect("the case interposed a path")
    }

    /// Routes connections through a relay that first sends `prefix` to the server, once.
    pub(crate) fn relay_after(&self, prefix: &[u8]) -> &Relay {
        self.relay
            .get_or_init(|| Relay::start(self.server.port, prefix))
    }

    pub(crate) fn relay(&self) -> &Relay {
        self.relay_after(&[])
    }

    /// The peer's implementation, client or server.
    pub(crate) fn peer(&self) -> Peer {
        match (self.client, self.server.whose) {
            (Client::Of(peer), _) | (_, Client::Of(peer)) => peer,
            (Client::Carob, Client::Carob) => panic!("one of the two is a peer"),
        }
    }

    pub(crate) fn is_our_client(&self) -> bool {
        self.client == Client::Carob
    }

    pub(crate) fn is_over(&self, transport: Transport) -> bool {
        self.server.transport == transport
    }

    pub(crate) fn certificates(&self) -> Certificates {
        Certificates::write(&self.scratch)
    }

    /// The address for the client's requests: the path or relay, if there is one.
    pub(crate) fn to(&self) -> To {
        let path = self.path.get().map(Path::port);
        let port = path.or_else(|| self.relay.get().map(Relay::port));
        To {
            port: port.unwrap_or(self.server.port),
            ..self.server.to()
        }
    }

    /// Sends a request through the path or relay, if there is one.
    pub(crate) fn ask(&self, ask: &Ask<'_>) -> Answer {
        self.client.ask(&self.scratch, self.to(), ask)
    }

    /// The same; on failure, returns the client's output.
    pub(crate) fn try_ask(&self, ask: &Ask<'_>) -> Result<Answer, String> {
        self.client.try_ask(&self.scratch, self.to(), ask)
    }

    /// Sends a request without the path, for example to read back a stored payload.
    pub(crate) fn ask_directly(&self, ask: &Ask<'_>) -> Answer {
        self.client.ask(&self.scratch, self.server.to(), ask)
    }

    /// Sends a request with Carob's client, whichever client the case tests. Expects 2.xx.
    pub(crate) fn ask_aside(&self, ask: &Ask<'_>) -> Answer {
        let answer = Client::Carob.ask(&self.scratch, self.server.to(), ask);
        assert!(answer.is_success(), "{ask:?} failed\n{}", answer.said);
        answer
    }

    /// Sends a request and expects 2.xx.
    pub(crate) fn succeed(&self, ask: &Ask<'_>) -> Answer {
        let answer = self.ask(ask);
        assert!(answer.is_success(), "{ask:?} failed\n{}", answer.said);
        answer
    }

    /// Sends a request and expects this code.
    pub(crate) fn refuse(&self, ask: &Ask<'_>, code: &str) {
        let answer = self.ask(ask);
        assert_eq!(answer.code, code, "{ask:?}\n{}", answer.said);
    }

    /// Discovered links in order of appearance, optionally filtered.
    pub(crate) fn discover(&self, filter: Option<&str>) -> String {
        if self.client == Client::Carob {
            return clients::discover(&self.scratch, self.server.port, filter);
        }
        let path = match filter {
            Some(filter) => format!(".well-known/core?{filter}"),
            None => ".well-known/core".to_owned(),
        };
        let answer = self.succeed(&Ask::new("get", &path));
        String::from_utf8(answer.payload).expect("links are text")
    }

    /// Starts an observation of `count` representations, through the path if there is one.
    pub(crate) fn watch(&self, path: &str, count: usize, cancel: Cancel) -> Watching {
        Watching::start(self.client, &self.scratch, self.to(), path, count, cancel)
    }

    /// Restarts the server after a crash.
    pub(crate) fn resume_server(&self) {
        self.server.resume(&self.scratch);
    }

    /// Pings the server with Carob's client and expects a reply.
    pub(crate) fn ping(&self) {
        clients::ping(Client::Carob, &self.scratch, To::udp(self.server.port));
    }

    /// Pings the server with the case's client, through the relay if there is one.
    pub(crate) fn ping_over_connection(&self) {
        clients::ping(self.client, &self.scratch, self.to());
    }

    /// Stores a payload and expects success.
    pub(crate) fn store(&self, payload: &[u8]) {
        self.succeed(&Ask::new("put", self.server.paths.store).payload(payload));
    }

    /// Checks the stored representation, on disk if the server has a folder.
    pub(crate) fn assert_stored(&self, expected: &[u8]) {
        let found = if self.server.has_folder() {
            self.server.stored().expect("the file exists")
        } else {
            let answer = self.ask_directly(&Ask::new("get", self.server.paths.store));
            assert!(
                answer.is_success(),
                "the resource is missing\n{}",
                answer.said
            );
            answer.payload
        };
        assert_same(&found, expected);
    }

    /// Creates a resource of `length` bytes; returns its path and contents.
    ///
    /// If the server can, it creates the resource without an upload by the client.
    pub(crate) fn source(&self, length: usize) -> (Cow<'static, str>, Vec<u8>) {
        let contents = pattern(length);
        let store = self.server.paths.store;
        let path = if let Some(large) = self.server.paths.large {
            format!("{large}?{length}").into()
        } else {
            if !self.server.place(store, &contents) {
                self.store(&contents);
            }
            store.into()
        };
        (path, contents)
    }

    /// A resource that is available as JSON but not as CBOR; returns its path and body.
    pub(crate) fn negotiable(&self) -> (&'static str, &'static [u8]) {
        if let Some(path) = self.server.paths.negotiate {
            return (path, br#"{"as":"json"}"#);
        }
        let (path, json): (_, &[u8]) = ("page.json", br#"{"from":"a file"}"#);
        assert!(self.server.place(path, json), "no folder and no /negotiate");
        (path, json)
    }

    /// The entity tag of the current representation, read with Carob's client.
    pub(crate) fn etag(&self, path: &str) -> Vec<u8> {
        let answer = self.ask_aside(&Ask::new("get", path));
        answer.etag.expect("the response has an entity tag")
    }
}

/// `assert_eq!` for payloads too long to print.
pub(crate) fn assert_same(found: &[u8], expected: &[u8]) {
    assert_eq!(found.len(), expected.len(), "length");
    let first = found
        .iter()
        .zip(expected)
        .position(|(found, expected)| found != expected);
    assert_eq!(first, None, "first byte that differs");
}

/// Bytes whose period is no block size, so that misplaced blocks are noticed; `/large` of the peers is equal.
pub(crate) fn pattern(length: usize) -> Vec<u8> {
    (0..length as u32)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8)
        .collect()
}
