//! Updates of an observation, on their way from the task to the application.
//!
//! The driver never waits for an application, and a slow application needs the newest
//! representations, not all of them (RFC 7641 1.3). So at the limit the oldest one is evicted.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use super::messages::{Received, RequestFailure};

/// Queued updates of an application; at the limit the oldest is evicted.
const KEPT: usize = 64;

/// The driver's end of an observation's updates; when it goes, nothing will come any more.
#[derive(Debug)]
pub(super) struct UpdateSender(pub(super) Arc<Updates>);

impl Drop for UpdateSender {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl std::ops::Deref for UpdateSender {
    type Target = Updates;

    fn deref(&self) -> &Updates {
        &self.0
    }
}

/// An update of an observation.
#[derive(Debug)]
pub(crate) enum ObservationUpdate {
    /// A state.
    State(Received),
    /// The representation is older than its Max-Age; the failure of an attempt to register again.
    Stale(Option<RequestFailure>),
    /// The server's last word.
    Ended(Received),
    /// The end of the observation by an error.
    Failed(RequestFailure),
}

#[derive(Debug, Default)]
struct Waiting {
    updates: VecDeque<ObservationUpdate>,
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

    fn push(&self, update: ObservationUpdate, ends: bool) {
        let waker = {
            let mut waiting = self.lock();
            if waiting.updates.len() >= KEPT {
                // The oldest: its state is superseded by those behind it (RFC 7641 1.3).
                waiting.updates.pop_front();
                waiting.skipped += 1;
            }
            waiting.updates.push_back(update);
            waiting.ended |= ends;
            waiting.waker.take()
        };
        // Outside the lock: the woken task may poll at once, on another thread.
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub(super) fn state(&self, received: Received) {
        self.push(ObservationUpdate::State(received), false);
    }

    pub(super) fn stale(&self, failed: Option<RequestFailure>) {
        self.push(ObservationUpdate::Stale(failed), false);
    }

    pub(super) fn end(&self, last: ObservationUpdate) {
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
    pub(crate) fn poll(&self, context: &mut Context<'_>) -> Poll<Option<ObservationUpdate>> {
        let mut waiting = self.lock();
        // Updates before the end are delivered, even if the end has come.
        if let Some(update) = waiting.updates.pop_front() {
            return Poll::Ready(Some(update));
        }
        if waiting.ended {
            return Poll::Ready(None);
        }
        waiting.waker = Some(context.waker().clone());
        Poll::Pending
    }

    /// Evicted states.
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

    fn next(updates: &Updates) -> Poll<Option<ObservationUpdate>> {
        updates.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn oldest_updates_are_dropped_at_the_limit() {
        let updates = Updates::default();
        for n in 0..KEPT as u64 + 5 {
            updates.state(state(n));
        }
        assert_eq!(updates.skipped(), 5);
        let Poll::Ready(Some(ObservationUpdate::State(first))) = next(&updates) else {
            panic!("there is a state");
        };
        assert_eq!(first.size, Some(5));
    }

    #[test]
    fn end_is_delivered_after_earlier_updates() {
        let updates = Updates::default();
        updates.state(state(1));
        updates.end(ObservationUpdate::Ended(state(2)));
        assert!(matches!(
            next(&updates),
            Poll::Ready(Some(ObservationUpdate::State(_)))
        ));
        assert!(matches!(
            next(&updates),
            Poll::Ready(Some(ObservationUpdate::Ended(_)))
        ));
        assert!(matches!(next(&updates), Poll::Ready(None)));
    }

    #[test]
    fn waiting_task_is_woken() {
        let updates = Updates::default();
        assert!(next(&updates).is_pending());
        updates.close();
        assert!(matches!(next(&updates), Poll::Ready(None)));
    }
}
