//! A client, a server and the path between them, with their configuration and the operations that cases use.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use carob::TransmissionParameters;
use tokio::time::{sleep, timeout};

use super::cases;
use super::clients::{Answer, Ask, Client, Watch};
use super::servers::Server;
use crate::interop::clients::Client as Who;
use crate::interop::matrix::{Column, PLUGTEST, say};
use crate::interop::path::{Faults, Path, Record};
use crate::interop::wire::{Message, Side, Wire};

/// Time limit of a case.
const LIMIT: Duration = Duration::from_secs(90);
/// Longest wait for a message.
const PASSING: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(10);

/// A started case: its column, and the traffic on each of its benches.
#[derive(Debug)]
pub(crate) struct Start {
    id: &'static str,
    column: Column,
    records: RefCell<Vec<Record>>,
}

impl Drop for Start {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for record in self.records.borrow().iter() {
                say(&format!(
                    "{}, {:?}:\n{}",
                    self.id,
                    self.column,
                    record.wire()
                ));
            }
        }
    }
}

/// Client, server and path.
#[derive(Debug)]
pub(crate) struct Bench {
    setup: Setup,
    client: Client,
    pub(crate) server: Server,
    path: Path,
    /// Changes the server's resources without the path.
    other: Client,
}

/// Runs a case in a column, or records why it is skipped.
pub(crate) fn run(id: &'static str, column: Column) {
    PLUGTEST.run(column, id, || {
        let start = Start {
            id,
            column,
            records: RefCell::default(),
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime starts");
        let case = (cases::with_id(id).run)(&start);
        let ended = runtime.block_on(async { timeout(LIMIT, case).await });
        ended.expect("the case ends in time");
    });
}

impl Start {
    /// Starts a new client and a new server.
    pub(crate) async fn bench(&self, setup: Setup) -> Bench {
        let server = Server::start(self.column.server(), setup).await;
        let path = Path::start(server.port, Faults::default(), 1);
        self.records.borrow_mut().push(path.record().clone());
        Bench {
            setup,
            client: Client::open(self.column.client(), setup).await,
            server,
            path,
            other: Client::open(Who::Carob, Setup::PLAIN).await,
        }
    }
}

impl Bench {
    /// Sends a request through the path.
    pub(crate) async fn ask(&self, ask: &Ask) -> Answer {
        self.client.ask(ask, self.path.port(), self.setup).await
    }

    /// Sends a request with another client, without the path.
    pub(crate) async fn other(&self, ask: &Ask) -> Answer {
        self.other.ask(ask, self.server.port, Setup::PLAIN).await
    }

    pub(crate) async fn ping(&self) {
        self.client.ping(self.path.port()).await;
    }

    pub(crate) async fn observe(&self, ask: &Ask) -> Watch {
        self.client.observe(ask, self.path.port(), self.setup).await
    }

    /// All recorded messages.
    pub(crate) fn wire(&self) -> Wire {
        self.path.record().wire()
    }

    /// Waits until `find` finds something in the recorded traffic.
    pub(crate) async fn until<T>(&self, what: &str, find: impl Fn(&Wire) -> Option<T>) -> T {
        let deadline = Instant::now() + PASSING;
        loop {
            if let Some(found) = find(&self.wire()) {
                return found;
            }
            assert!(Instant::now() < deadline, "timeout waiting for {what}");
            sleep(POLL).await;
        }
    }

    /// Drops the next `count` messages of a side that match.
    pub(crate) fn lose(
        &self,
        count: usize,
        side: Side,
        mut which: impl FnMut(&Message) -> bool + Send + 'static,
    ) {
        let which = move |from, message: &Message| from == side && which(message);
        self.path.record().lose(count, which);
    }

    /// Drops all further messages.
    pub(crate) fn cut(&self) {
        self.path.record().lose(usize::MAX, |_, _| true);
    }

    /// Waits this long; returns the messages recorded meanwhile.
    pub(crate) async fn meanwhile(&self, time: Duration) -> Wire {
        let before = self.wire().0.last().map(|frame| frame.at);
        sleep(time).await;
        self.wire().after(before.unwrap_or_default())
    }
}

/// The servers' block size, as the plugtests suggest, so that large resources take several blocks.
pub(crate) const SERVER_BLOCK: u16 = 64;

/// Configuration of a case.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    /// Largest block size of the client.
    pub(crate) block: u16,
    /// Early negotiation: the first GET has Block2 (RFC 7959 2.4).
    pub(crate) early: bool,
    /// The client uses empty tokens.
    pub(crate) empty_token: bool,
    /// Short timeouts, for cases that wait for them.
    pub(crate) impatient: bool,
}

impl Setup {
    pub(crate) const PLAIN: Self = Self {
        block: SERVER_BLOCK,
        early: false,
        empty_token: false,
        impatient: false,
    };

    pub(crate) const IMPATIENT: Self = Self {
        impatient: true,
        ..Self::PLAIN
    };

    /// ACK_TIMEOUT in milliseconds and MAX_RETRANSMIT.
    pub(crate) fn timers(self) -> (u32, u8) {
        if self.impatient { (150, 3) } else { (2_000, 4) }
    }

    pub(crate) fn parameters(self) -> TransmissionParameters {
        let (ack, retransmissions) = self.timers();
        let mut parameters = TransmissionParameters::DEFAULT;
        parameters.ack_timeout = carob_cc::time::Duration::from_millis(ack.into());
        parameters.max_retransmit = retransmissions;
        parameters
    }
}
