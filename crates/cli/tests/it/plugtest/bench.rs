//! One client, one server and the relay between them, and what a case may do with them.

use std::{
    cell::RefCell,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    time::{Duration, Instant},
};

use tokio::time::{sleep, timeout};

use super::cases;
use super::clients::{Answer, Ask, Client, Watch};
use super::matrix::{self, Column};
use super::offers;
use super::relay::{Record, Relay};
use super::servers::Server;
use super::setup::{Setup, Who};
use super::wire::{Message, Side, Wire};
use crate::interop::{
    bench::can_run,
    matrix::{Outcome, say},
};

/// What no case may take.
const LIMIT: Duration = Duration::from_secs(90);
/// The longest wait for something to pass.
const PASSING: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(10);

/// A case that begins: who takes part, and what has passed on each of its benches.
#[derive(Debug)]
pub(crate) struct Start {
    column: Column,
    records: RefCell<Vec<Record>>,
}

/// Who talks to whom.
#[derive(Debug)]
pub(crate) struct Bench {
    setup: Setup,
    client: Client,
    pub(crate) server: Server,
    relay: Relay,
    record: Record,
    /// Changes the server's resources past the relay.
    other: Client,
}

/// Runs a case in a column, or notes why it is not run.
pub(crate) fn run(id: &'static str, column: Column) {
    let note = |outcome| matrix::record(id, column, outcome);
    if let Some(reason) = offers::not_offered(id, column) {
        return note(Outcome::NotOffered(reason));
    }
    if column.peer().is_some_and(|peer| !can_run(&[peer])) {
        return note(Outcome::Skipped);
    }
    let began = Instant::now();
    let start = Start {
        column,
        records: RefCell::default(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime starts");
    let result = catch_unwind(AssertUnwindSafe(|| {
        let case = (cases::with_id(id).run)(&start);
        let ended = runtime.block_on(async { timeout(LIMIT, case).await });
        ended.expect("the case ends in time");
    }));
    note(if result.is_ok() {
        Outcome::Passed(began.elapsed())
    } else {
        Outcome::Failed
    });
    if let Err(panic) = result {
        for record in start.records.borrow().iter() {
            say(&format!("{id}, {column:?}:\n{}", record.wire()));
        }
        resume_unwind(panic);
    }
}

impl Start {
    /// A new client and a new server.
    pub(crate) async fn bench(&self, setup: Setup) -> Bench {
        let record = Record::default();
        self.records.borrow_mut().push(record.clone());
        let server = Server::start(self.column.server(), setup).await;
        let relay = Relay::start(server.port, record.clone()).await;
        Bench {
            setup,
            client: Client::open(self.column.client(), setup).await,
            server,
            relay,
            record,
            other: Client::open(Who::Ours, Setup::PLAIN).await,
        }
    }
}

impl Bench {
    /// Asks through the relay.
    pub(crate) async fn ask(&self, ask: &Ask) -> Answer {
        self.client.ask(ask, self.relay.port(), self.setup).await
    }

    /// Another client asks, past the relay.
    pub(crate) async fn other(&self, ask: &Ask) -> Answer {
        self.other.ask(ask, self.server.port, Setup::PLAIN).await
    }

    pub(crate) async fn ping(&self) {
        self.client.ping(self.relay.port()).await;
    }

    pub(crate) async fn observe(&self, ask: &Ask) -> Watch {
        self.client
            .observe(ask, self.relay.port(), self.setup)
            .await
    }

    /// Everything that has passed.
    pub(crate) fn wire(&self) -> Wire {
        self.record.wire()
    }

    /// What has passed once it is what is waited for.
    pub(crate) async fn until<T>(&self, what: &str, find: impl Fn(&Wire) -> Option<T>) -> T {
        let deadline = Instant::now() + PASSING;
        loop {
            if let Some(found) = find(&self.wire()) {
                return found;
            }
            assert!(Instant::now() < deadline, "waited in vain for {what}");
            sleep(POLL).await;
        }
    }

    /// Loses the next `count` messages of a side that this is about.
    pub(crate) fn lose(
        &self,
        count: usize,
        side: Side,
        mut which: impl FnMut(&Message) -> bool + Send + 'static,
    ) {
        let which = move |from, message: &Message| from == side && which(message);
        self.record.lose(count, which);
    }

    /// Loses everything from now on.
    pub(crate) fn cut(&self) {
        self.record.cut();
    }

    /// Waits this long, and gives what passed in that time.
    pub(crate) async fn meanwhile(&self, time: Duration) -> Wire {
        let before = self.wire().0.last().map(|frame| frame.at);
        sleep(time).await;
        self.wire().after(before.unwrap_or_default())
    }
}
