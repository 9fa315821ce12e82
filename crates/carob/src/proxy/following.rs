//! Observation through a proxy: one registration at the origin serves all clients (RFC 7641 5).
//!
//! Each side is a hop of its own, with its own registration, sequence numbers and choice between
//! CON and NON. Between them is the newest representation; its age is subtracted from the Max-Age
//! that clients receive.

use std::sync::Arc;
use std::time::Duration;

use carob_cc::time::Instant;
use carob_proto::codec::OptionNumber;
use carob_proto::message::Response;
use carob_proto::proxy::aged;
use tokio::sync::watch;

use super::passing::{ObservationPlace, Passing, Way};
use crate::client::{Observation, RequestBuilder, Update};
use crate::server::{
    Follow, Handler, HandlerFuture, IntoResponse as _, Notifier, Refusal, Request,
};

/// Time that an origin has for the deregistration.
const GOODBYE: Duration = Duration::from_secs(10);

/// Follows observed resources of a route at their origins.
pub(super) struct Following {
    passing: Arc<Passing>,
    way: Arc<Way>,
}

/// The latest response passed on.
#[derive(Clone)]
struct Told {
    at: Instant,
    response: Response,
    /// More will follow.
    observed: bool,
}

/// One resource that is followed, as long as there is one of these.
struct Followed {
    passing: Arc<Passing>,
    way: Arc<Way>,
    told: watch::Receiver<Option<Told>>,
}

impl Following {
    pub(super) fn new(passing: Arc<Passing>, way: Arc<Way>) -> Self {
        Self { passing, way }
    }
}

impl Follow for Following {
    fn follow(&self, request: &Request, notifier: &Notifier) -> Option<Arc<dyn Handler>> {
        let prepared = self.passing.prepare(&self.way, request).ok()?;
        if !prepared.is_shared {
            return None;
        }
        let place = self.passing.observation(request.peer())?;
        let builder = self.passing.request(&self.way, &prepared, request);
        let (sender, told) = watch::channel(None);
        let follower = Follower {
            passing: Arc::clone(&self.passing),
            way: Arc::clone(&self.way),
            told: sender,
            notifier: notifier.clone(),
            _place: place,
        };
        tokio::spawn(follower.run(builder));
        Some(Arc::new(Followed {
            passing: Arc::clone(&self.passing),
            way: Arc::clone(&self.way),
            told,
        }))
    }
}

impl Handler for Followed {
    fn call(&self, request: Request) -> HandlerFuture {
        let (passing, way) = (Arc::clone(&self.passing), Arc::clone(&self.way));
        let mut told = self.told.clone();
        Box::pin(async move {
            // The origin's patience is the follower's to keep; it always ends with a word.
            let newest = match told.wait_for(Option::is_some).await {
                Ok(newest) => newest.clone(),
                Err(_) => None,
            };
            let Some(newest) = newest else {
                return Refusal::service_unavailable("the proxy is stopping").into_response();
            };
            let age: Duration = passing.clock.now().since(newest.at).into();
            let (mut response, max_age) = (newest.response.clone(), newest.response.max_age());
            if age > max_age {
                // A stale representation does not answer a new request; the request goes to the
                // origin.
                response = passing.pass(&way, &request).await;
            } else if newest.observed || response.options.contains(OptionNumber::MAX_AGE) {
                response = response.with_max_age(aged(max_age, age));
            }
            if newest.observed && response.code.is_success() {
                let marked = response.options.set_uint(OptionNumber::OBSERVE, 0);
                debug_assert!(marked.is_ok(), "it had one before");
            }
            response
        })
    }
}

/// The task that receives an origin's notifications.
struct Follower {
    passing: Arc<Passing>,
    way: Arc<Way>,
    told: watch::Sender<Option<Told>>,
    notifier: Notifier,
    _place: ObservationPlace,
}

impl Follower {
    async fn run(self, builder: RequestBuilder) {
        let registered = tokio::select! {
            registered = builder.observe() => registered,
            () = self.told.closed() => return,
        };
        match registered {
            Ok(observation) => self.hear(observation).await,
            Err(error) => self.tell(self.passing.failure(&error), false),
        }
    }

    async fn hear(self, mut observation: Observation) {
        loop {
            let update = tokio::select! {
                update = observation.next() => update,
                () = self.told.closed() => {
                    // Nobody observes it any more (RFC 7641 3.6). If the origin does not confirm, its
                    // next notification is refused.
                    let _ = tokio::time::timeout(GOODBYE, observation.stop()).await;
                    return;
                }
            };
            match update {
                Some(Ok(Update::State(reply))) => {
                    self.tell(self.passing.response(&self.way, reply.response), true);
                }
                // Observers see it from Max-Age, and the registration is renewed.
                Some(Ok(Update::Stale(_))) => {}
                Some(Ok(Update::Ended(reply))) => {
                    return self.tell(self.passing.response(&self.way, reply.response), false);
                }
                Some(Err(error)) => return self.tell(self.passing.failure(&error), false),
                None => return,
            }
        }
    }

    fn tell(&self, response: Response, observed: bool) {
        let told = Told {
            at: self.passing.clock.now(),
            response,
            observed,
        };
        let before = self.told.send_replace(Some(told));
        // The first is the answer to who waits for it.
        if before.is_some() {
            self.notifier.changed();
        }
    }
}
