//! What an observation hears, on its way from the driver to the application.
//!
//! The driver never waits for an application, and an application that is slow needs the newest
//! states, not all of them (RFC 7641 1.3). So at the limit the oldest state makes room.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use super::requests::{Failed, Received};

/// Updates kept for an application that does not take them. At the limit the oldest is skipped.
const KEPT: usize = 64;

/// The driver's end of an observation's updates; when it goes, nothing will come any more.
#[derive(Debug)]
pub(super) struct Teller(pub(super) Arc<Updates>);

impl Drop for Teller {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl std::ops::Deref for Teller {
    type Target = Updates;

    fn deref(&self) -> &Updates {
        &self.0
    }
}

/// Something an observation heard.
#[derive(Debug)]
pub(crate) enum Heard {
    /// A state.
    State(Received),
    /// What is known is older than it was promised to be; how a try to renew it failed.
    Stale(Option<Failed>),
    /// The server's last word.
    Ended(Received),
    /// Nothing will come any more.
    Failed(Failed),
}

#[derive(Debug, Default)]
struct Waiting {
    heard: VecDeque<Heard>,
    skipped: u64,
    /// The last update is among them.
    ended: bool,
    waker: Option<Waker>,
}

/// The updates of one observation.
#[derive(Debug, Default)]
pub(crate) struct Updates(Mutex<Waiting>);

impl Updates {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, heard: Heard, ends: bool) {
        let waker = {
            let mut waiting = self.lock();
            if waiting.heard.len() >= KEPT {
                waiting.heard.pop_front();
                waiting.skipped += 1;
            }
            waiting.heard.push_back(heard);
            waiting.ended |= ends;
            waiting.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub(super) fn state(&self, received: Received) {
        self.push(Heard::State(received), false);
    }

    pub(super) fn stale(&self, failed: Option<Failed>) {
        self.push(Heard::Stale(failed), false);
    }

    pub(super) fn end(&self, last: Heard) {
        self.push(last, true);
    }

    fn close(&self) {
        let waker = {
            let mut waiting = self.lock();
            waiting.ended = true;
            waiting.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// The next update; nothing after the last.
    pub(crate) fn poll(&self, context: &mut Context<'_>) -> Poll<Option<Heard>> {
        let mut waiting = self.lock();
        if let Some(heard) = waiting.heard.pop_front() {
            return Poll::Ready(Some(heard));
        }
        if waiting.ended {
            return Poll::Ready(None);
        }
        waiting.waker = Some(context.waker().clone());
        Poll::Pending
    }

    /// States that were skipped because nobody took them.
    pub(crate) fn skipped(&self) -> u64 {
        self.lock().skipped
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn state(n: u64) -> Received {
        Received {
            response: carob_proto::Response::new(carob_proto::codec::Code::CONTENT),
            size: Some(n),
            after: Duration::ZERO,
        }
    }

    fn next(updates: &Updates) -> Poll<Option<Heard>> {
        updates.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn the_oldest_states_make_room_for_the_newest() {
        let updates = Updates::default();
        for n in 0..KEPT as u64 + 5 {
            updates.state(state(n));
        }
        assert_eq!(updates.skipped(), 5);
        let Poll::Ready(Some(Heard::State(first))) = next(&updates) else {
            panic!("there is a state");
        };
        assert_eq!(first.size, Some(5));
    }

    #[test]
    fn the_end_comes_after_what_was_heard_before() {
        let updates = Updates::default();
        updates.state(state(1));
        updates.end(Heard::Ended(state(2)));
        assert!(matches!(next(&updates), Poll::Ready(Some(Heard::State(_)))));
        assert!(matches!(next(&updates), Poll::Ready(Some(Heard::Ended(_)))));
        assert!(matches!(next(&updates), Poll::Ready(None)));
    }

    #[test]
    fn whoever_waits_is_woken() {
        let updates = Updates::default();
        assert!(next(&updates).is_pending());
        updates.close();
        assert!(matches!(next(&updates), Poll::Ready(None)));
    }
}
