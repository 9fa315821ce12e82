//! Observation (RFC 7641).

use std::{cell::Cell, thread, time::Duration};

use carob_proto::codec::Type;

use crate::interop::{
    bench::Bench,
    path::Faults,
    requests::Ask,
    watching::{Cancel, Watching, line},
    wire::{Seen, Side},
};

/// Silence after which no further notification is expected.
pub(crate) const SILENCE: Duration = Duration::from_millis(700);
const CHANGES: usize = 3;

/// RFC 7641 3.6: the client cancels with GET and Observe 1.
pub(crate) fn cancel_by_get(bench: &Bench) {
    bench.interpose(Faults::default());
    let subject = Subject::number(bench);
    let watching = subject.watch(Cancel::Get);
    subject.follow(&watching);
    watching.finish();
    // The client has exited; its last message may still be in flight.
    let seen = bench.until("cancellation", |wire| {
        let seen = wire.seen(Side::Client);
        (seen.cancellations() > 0).then_some(seen)
    });
    assert_eq!(seen.cancellations(), 1, "{seen:?}");
    assert_silent(bench, &subject);
}

/// RFC 7641 3.6: the client forgets the observation and rejects the next notification.
pub(crate) fn cancel_by_reset(bench: &Bench) {
    bench.interpose(Faults::default());
    let subject = Subject::number(bench);
    let watching = subject.watch(Cancel::Reset);
    subject.follow(&watching);
    // The client prints a notification before it drops the observation.
    bench.until("Reset", |_| {
        subject.change();
        thread::sleep(SILENCE);
        (bench.path().to_server().count(Type::Reset) > 0).then_some(())
    });
    assert_silent(bench, &subject);
    let seen = bench.path().to_server();
    assert_eq!(seen.cancellations(), 0, "{seen:?}");
}

/// RFC 7641 3.5: each Confirmable notification is acknowledged.
pub(crate) fn confirmable(bench: &Bench) {
    bench.interpose(Faults::default());
    let subject = Subject::number(bench);
    let watching = subject.watch(Cancel::Never);
    subject.follow(&watching);
    let seen = notifications(bench);
    assert!(seen.count(Type::Confirmable) >= CHANGES, "{seen:?}");
    bench.until("acknowledgement of each", |wire| {
        let acknowledged = wire.seen(Side::Client).empty_acknowledgements();
        (acknowledged >= CHANGES).then_some(())
    });
}

/// RFC 7641 4.5: notifications are Non-confirmable except for an occasional one.
pub(crate) fn non_confirmable(bench: &Bench) {
    let again;
    let bench = if let Some(argument) = bench.server.paths.notifies_by_non {
        again = bench.with_server(&[argument]);
        &again
    } else {
        bench
    };
    bench.interpose(Faults::default());
    if let Some(ticks) = bench.server.paths.ticks {
        let watching = bench.watch(ticks, 1 + CHANGES, Cancel::Never);
        let states = watching.wait_for(1 + CHANGES);
        assert_ascending(&states);
    } else {
        let subject = Subject::number(bench);
        let watching = subject.watch(Cancel::Never);
        subject.follow(&watching);
    }
    let seen = notifications(bench);
    assert!(seen.count(Type::NonConfirmable) >= CHANGES, "{seen:?}");
}

/// RFC 7959 2.6: the notification carries the first block; the client requests the others.
pub(crate) fn in_blocks(bench: &Bench) {
    /// One block with header, token and options.
    const DATAGRAM_MAX: usize = 1024 + 64;
    bench.interpose(Faults::default());
    let subject = Subject::large(bench);
    let watching = subject.watch(Cancel::Never);
    subject.follow(&watching);
    let seen = notifications(bench);
    assert!(seen.longest() <= DATAGRAM_MAX, "{seen:?}");
}

/// RFC 7641 3.3.1: after Max-Age the client registers again with a restarted server.
pub(crate) fn restart(bench: &Bench) {
    const STATES_MAX: usize = 10_000;
    let watching = bench.watch(bench.server.paths.short_lived, STATES_MAX, Cancel::Never);
    watching.wait_for(2);
    bench.server.crash();
    thread::sleep(SILENCE);
    let before = watching.states().len();
    bench.server.resume(&bench.scratch);
    // A GET gets one response; further ones prove the registration.
    watching.wait_for(before + 3);
}

fn notifications(bench: &Bench) -> Seen {
    bench.path().to_client()
}

fn assert_silent(bench: &Bench, subject: &Subject<'_>) {
    thread::sleep(SILENCE); // what is on its way arrives
    let before = notifications(bench).0.len();
    subject.change();
    thread::sleep(SILENCE);
    assert_eq!(
        notifications(bench).0.len(),
        before,
        "a notification arrived after the cancellation"
    );
}

fn assert_ascending(states: &[String]) {
    let numbers: Vec<u64> = states
        .iter()
        .map(|state| state.parse().expect("a number"))
        .collect();
    assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
}

/// An observed resource and how to change it: by POST, or by PUT if the server stores representations.
pub(crate) struct Subject<'a> {
    bench: &'a Bench,
    pub(crate) path: &'static str,
    counts: bool,
    /// The representation after this number of changes.
    state: fn(usize) -> Vec<u8>,
    changes: Cell<usize>,
}

impl<'a> Subject<'a> {
    /// A counter that starts at 0.
    pub(crate) fn number(bench: &'a Bench) -> Self {
        let state = |changes: usize| changes.to_string().into_bytes();
        Self::new(bench, bench.server.paths.count, state)
    }

    /// 4 KiB of letters, which take several blocks.
    fn large(bench: &'a Bench) -> Self {
        const BYTES: usize = 4 << 10;
        let state = |changes| {
            let letters = (b'a'..=b'z').cycle().skip(changes % 26);
            letters.take(BYTES).collect()
        };
        Self::new(bench, bench.server.paths.bulk, state)
    }

    fn new(bench: &'a Bench, path: Option<&'static str>, state: fn(usize) -> Vec<u8>) -> Self {
        let subject = Self {
            bench,
            path: path.unwrap_or(bench.server.paths.store),
            counts: path.is_some(),
            state,
            changes: Cell::new(0),
        };
        if !subject.counts {
            subject.put();
        }
        subject
    }

    fn put(&self) {
        let payload = (self.state)(self.changes.get());
        let put = Ask::put(self.path).payload(&payload);
        self.bench.ask_aside(&put);
    }

    pub(crate) fn change(&self) {
        self.changes.set(self.changes.get() + 1);
        if self.counts {
            self.bench.ask_aside(&Ask::post(self.path));
        } else {
            self.put();
        }
    }

    /// Observes the resource for [`CHANGES`] changes.
    pub(crate) fn watch(&self, cancel: Cancel) -> Watching {
        self.bench.watch(self.path, 1 + CHANGES, cancel)
    }

    /// Changes the resource, each time after the observer has received the previous state.
    pub(crate) fn follow(&self, watching: &Watching) {
        watching.wait_for(1);
        for seen in 2..=1 + CHANGES {
            self.change();
            watching.wait_for(seen);
        }
        let expected: Vec<_> = (0..=CHANGES).map(self.state).map(|s| line(&s)).collect();
        assert_eq!(watching.states(), expected);
    }
}
