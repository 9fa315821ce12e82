//! A client, a server and the path between them, with the operations that cases use.

use std::{borrow::Cow, cell::OnceCell, env, time::Duration};

use crate::interop::{
    clients::{self, Client, Implementation, root},
    library,
    matrix::{Column, say},
    path::{Faults, Path},
    relay::Relay,
    requests::{Answer, Ask},
    servers::Server,
    transport::{Certificates, To, Transport},
    watching::{Cancel, Watch, Watching},
    wire::{Message, Side, Wire},
};
use crate::plugtest::setup::Setup;
use crate::{
    installed::Peer,
    process::{Scratch, until},
};

pub(crate) const SMALL: &[u8] = b"a payload that fits one datagram";

/// With this seed, both directions lose and duplicate a datagram among their first sixty.
const SEED: u64 = 11;
/// Longest wait for a message.
pub(crate) const PASSING: Duration = Duration::from_secs(30);

/// Client, server and path, with a folder for their files.
pub(crate) struct Bench {
    column: Column,
    client: Client,
    pub(crate) server: Server,
    path: OnceCell<Path>,
    relay: OnceCell<Relay>,
    pub(crate) scratch: Scratch,
}

impl Drop for Bench {
    fn drop(&mut self) {
        if std::thread::panicking()
            && let Some(path) = self.path.get()
        {
            say(&format!("{:?}:\n{}", self.column, path.record().messages()));
        }
    }
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
    /// Starts the server of a column. The client's command runs for each request.
    pub(crate) fn of_column(column: Column) -> Self {
        Self::with_arguments(column, &[])
    }

    /// The same client with another server of the same implementation and more arguments.
    pub(crate) fn with_server(&self, more: &[&str]) -> Self {
        Self::with_arguments(self.column, more)
    }

    fn with_arguments(column: Column, more: &[&str]) -> Self {
        let scratch = Scratch::new();
        let server = Server::start(column.server, column.transport, &scratch, more);
        Self::of(column, Client::Command(column.client), server, scratch)
    }

    /// Starts a client and a server with the plugtest resources, and the path between them.
    pub(crate) fn plugtest(column: Column, setup: Setup) -> Self {
        let server = Server::plugtest(column.server, setup);
        let client = setup.client(column.client);
        let bench = Self::of(column, client, server, Scratch::new());
        bench.interpose(Faults::default());
        bench
    }

    /// A new client and a new server with another configuration.
    pub(crate) fn with_setup(&self, setup: Setup) -> Self {
        Self::plugtest(self.column, setup)
    }

    fn of(column: Column, client: Client, server: Server, scratch: Scratch) -> Self {
        Self {
            column,
            client,
            server,
            path: OnceCell::new(),
            relay: OnceCell::new(),
            scratch,
        }
    }

    /// Routes requests through a path with these faults in both directions.
    pub(crate) fn interpose(&self, faults: Faults) {
        self.interpose_drawn(faults, SEED);
    }

    /// The same with other draws of the faults.
    pub(crate) fn interpose_drawn(&self, faults: Faults, seed: u64) {
        self.path
            .get_or_init(|| Path::start(self.server.port, faults, seed));
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
        self.column.peer().expect("one of the two is a peer")
    }

    pub(crate) fn is_our_client(&self) -> bool {
        self.column.client == Implementation::Carob
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
    pub(crate) fn ask(&self, ask: &Ask) -> Answer {
        self.client.ask(&self.scratch, self.to(), ask)
    }

    /// The same; without a response, returns the reason.
    pub(crate) fn try_ask(&self, ask: &Ask) -> Result<Answer, String> {
        self.client.try_ask(&self.scratch, self.to(), ask)
    }

    /// Sends a request without the path, for example to read back a stored payload.
    pub(crate) fn ask_directly(&self, ask: &Ask) -> Answer {
        self.client.ask(&self.scratch, self.server.to(), ask)
    }

    /// Sends a request with another client, of Carob's library, without the path. Expects 2.xx.
    pub(crate) fn ask_aside(&self, ask: &Ask) -> Answer {
        let settings = library::settings(&self.certificates(), false);
        let client = Client::Library(library::client(settings));
        let answer = client.ask(&self.scratch, self.server.to(), ask);
        assert!(answer.is_success(), "{ask:?}: {answer:?}");
        answer
    }

    /// Sends a request and expects 2.xx.
    pub(crate) fn succeed(&self, ask: &Ask) -> Answer {
        let answer = self.ask(ask);
        assert!(answer.is_success(), "{ask:?} failed\n{}", answer.said);
        answer
    }

    /// Sends a request and expects this code.
    pub(crate) fn refuse(&self, ask: &Ask, code: &str) {
        let answer = self.ask(ask);
        assert_eq!(answer.code, code, "{ask:?}\n{}", answer.said);
    }

    /// Discovered links in order of appearance, optionally filtered.
    pub(crate) fn discover(&self, filter: Option<&str>) -> String {
        if self.is_our_client() {
            return clients::discover(self.server.to(), filter);
        }
        let path = match filter {
            Some(filter) => format!(".well-known/core?{filter}"),
            None => ".well-known/core".to_owned(),
        };
        let answer = self.succeed(&Ask::get(&path));
        String::from_utf8(answer.payload).expect("links are text")
    }

    /// Starts an observation of `count` representations by a command, through the path if there is one.
    pub(crate) fn watch(&self, path: &str, count: usize, cancel: Cancel) -> Watching {
        let of = self.column.client;
        Watching::start(of, &self.scratch, self.to(), path, count, cancel)
    }

    /// Registers an observation through the path.
    pub(crate) fn observe(&self, ask: &Ask) -> Watch {
        self.client.observe(self.to(), ask)
    }

    /// Pings the server through the path or relay, if there is one.
    pub(crate) fn ping(&self) {
        self.client.ping(&self.scratch, self.to());
    }

    /// All messages on the path.
    pub(crate) fn wire(&self) -> Wire {
        self.path().record().wire()
    }

    /// Waits until `find` finds something in the messages on the path.
    #[track_caller]
    pub(crate) fn until<T>(&self, what: &str, find: impl Fn(&Wire) -> Option<T>) -> T {
        until(PASSING, what, || find(&self.wire()))
    }

    /// Drops the next `count` messages of a side that match.
    pub(crate) fn lose(
        &self,
        count: usize,
        side: Side,
        mut which: impl FnMut(&Message) -> bool + Send + 'static,
    ) {
        let which = move |from, message: &Message| from == side && which(message);
        self.path().record().lose(count, which);
    }

    /// Drops all further messages.
    pub(crate) fn cut(&self) {
        self.path().record().lose(usize::MAX, |_, _| true);
    }

    /// Waits this long; returns the messages recorded meanwhile.
    pub(crate) fn meanwhile(&self, time: Duration) -> Wire {
        let before = self.wire().0.last().map(|frame| frame.at);
        std::thread::sleep(time);
        self.wire().after(before.unwrap_or_default())
    }

    /// Stores a payload and expects success.
    pub(crate) fn store(&self, payload: &[u8]) {
        self.succeed(&Ask::put(self.server.paths.store).payload(payload));
    }

    /// Checks the stored representation, on disk if the server has a folder.
    pub(crate) fn assert_stored(&self, expected: &[u8]) {
        let found = if self.server.has_folder() {
            self.server.stored().expect("the file exists")
        } else {
            let answer = self.ask_directly(&Ask::get(self.server.paths.store));
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
        let answer = self.ask_aside(&Ask::get(path));
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
