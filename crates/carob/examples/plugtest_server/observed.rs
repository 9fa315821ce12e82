//! Resources that change by themselves and can be observed.

use std::future::ready;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use carob::server::{Notifier, Refusal, Request, Resource};
use carob::{Code, Response};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::stored::Content;

/// What such a resource shows after so many ticks.
type Show = fn(u64) -> String;

/// Keeps the resources changing; they stop when it goes.
pub(crate) type Ticking = JoinSet<()>;

/// A resource that changes at every tick, and by PUT and DELETE. What a request did to it lasts
/// until the next tick, a whole one later.
#[derive(Clone)]
pub(crate) struct Observed {
    shared: Arc<Shared>,
    changes: Notifier,
    tick: Duration,
}

struct Shared {
    state: Mutex<State>,
    /// A request has changed it.
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
        // Longer than until the next tick: what comes in time is never stale.
        let age = Duration::from_secs(self.tick.as_secs() + 2);
        let state = self.state();
        let content = match &state.by_request {
            ByRequest::Nothing => Content::text((self.shared.show)(state.ticks)),
            ByRequest::Put(content) => content.clone(),
            ByRequest::Deleted => return Err(Refusal::not_found("deleted")),
        };
        Ok(content.response().with_max_age(age))
    }

    /// The resource, which changes as long as `ticking` is there.
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
