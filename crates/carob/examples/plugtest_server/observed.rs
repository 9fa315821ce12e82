//! Observable resources that change periodically.

use std::future::ready;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use carob::server::{Notifier, Refusal, Request, Resource};
use carob::{Code, Response};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::stored::Content;

/// The representation after a number of ticks.
type Show = fn(u64) -> String;

/// Tasks that change the resources; aborted on drop.
pub(crate) type Ticking = JoinSet<()>;

/// A resource that changes at every tick, and by PUT and DELETE. The effect of a request lasts until the next tick, which
/// restarts with the request.
#[derive(Clone)]
pub(crate) struct Observed {
    shared: Arc<Shared>,
    changes: Notifier,
    tick: Duration,
}

struct Shared {
    state: Mutex<State>,
    /// Signals a change by a request.
    requested: Notify,
    show: Show,
}

#[derive(Default)]
struct State {
    ticks: u64,
    by_request: ByRequest,
}

#[derive(Default)]
enum ByRequest {
    #[default]
    Nothing,
    Put(Content),
    Deleted,
}

impl Observed {
    pub(crate) fn new(changes: Notifier, tick: Duration, show: Show) -> Self {
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            requested: Notify::new(),
            show,
        });
        Self {
            shared,
            changes,
            tick,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        let state = self.shared.state.lock();
        state.unwrap_or_else(PoisonError::into_inner)
    }

    async fn run(self) {
        loop {
            let requested = self.shared.requested.notified();
            if timeout(self.tick, requested).await.is_ok() {
                continue;
            }
            let mut state = self.state();
            state.ticks += 1;
            state.by_request = ByRequest::Nothing;
            drop(state);
            self.changes.changed();
        }
    }

    fn change(&self, by_request: ByRequest) {
        self.state().by_request = by_request;
        self.shared.requested.notify_one();
        self.changes.changed();
    }

    fn read(&self) -> Result<Response, Refusal> {
        // Max-Age exceeds the tick, so that notifications arrive before it ends.
        let age = Duration::from_secs(self.tick.as_secs() + 2);
        let state = self.state();
        let content = match &state.by_request {
            ByRequest::Nothing => Content::text((self.shared.show)(state.ticks)),
            ByRequest::Put(content) => content.clone(),
            ByRequest::Deleted => return Err(Refusal::not_found("deleted")),
        };
        Ok(content.response().with_max_age(age))
    }

    /// The resource; it changes until `ticking` is dropped.
    pub(crate) fn resource(&self, ticking: &mut Ticking) -> Resource {
        ticking.spawn(self.clone().run());
        let (reading, putting, deleting) = (self.clone(), self.clone(), self.clone());
        Resource::new()
            .get(move |_: Request| ready(reading.read()))
            .put(move |request: Request| {
                putting.change(ByRequest::Put(Content::of(&request)));
                ready(Code::CHANGED)
            })
            .delete(move |_: Request| {
                deleting.change(ByRequest::Deleted);
                ready(Code::DELETED)
            })
            .observable(&self.changes)
            .attribute("rt", "observe")
    }
}
