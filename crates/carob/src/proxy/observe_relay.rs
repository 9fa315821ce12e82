//! Observation through a proxy: one registration at the origin serves all clients (RFC 7641 5).
//!
//! Each side is a separate hop, with its own registration, sequence numbers and choice between
//! CON and NON. Between them is the newest representation; its age is subtracted from the Max-Age
//! that clients receive.

use std::sync::Arc;
use std::time::Duration;

use carob_cc::time::Instant;
use carob_proto::codec::OptionNumber;
use carob_proto::message::Response;
use carob_proto::proxy::aged;
use tokio::sync::watch;

use super::forwarder::{Forwarder, ObservationPermit, Upstream};
use crate::client::{Observation, RequestBuilder, Update};
use crate::server::{
    Follow, Handler, HandlerFuture, IntoResponse as _, Notifier, Refusal, Request,
};

/// Timeout of the deregistration at an origin.
const DEREGISTRATION_TIMEOUT: Duration = Duration::from_secs(10);

/// Observes the resources of a route at their origins on behalf of clients.
pub(super) struct ObserveRelay {
    forwarder: Arc<Forwarder>,
    upstream: Arc<Upstream>,
}

/// The latest response of the origin.
#[derive(Clone)]
struct LatestResponse {
    at: Instant,
    response: Response,
    /// The observation continues.
    observed: bool,
}

/// One resource observed at its origin; dropping the last clone ends the observation.
struct RelayedObservation {
    forwarder: Arc<Forwarder>,
    upstream: Arc<Upstream>,
    latest: watch::Receiver<Option<LatestResponse>>,
}

impl ObserveRelay {
    pub(super) fn new(forwarder: Arc<Forwarder>, upstream: Arc<Upstream>) -> Self {
        Self {
            forwarder,
            upstream,
        }
    }
}

impl Follow for ObserveRelay {
    fn follow(&self, request: &Request, notifier: &Notifier) -> Option<Arc<dyn Handler>> {
        let prepared = self.forwarder.prepare(&self.upstream, request).ok()?;
        // One observation at the origin serves all clients (RFC 7641 5); a response that must
        // not be shared cannot.
        if !prepared.is_shared {
            return None;
        }
        let permit = self.forwarder.observation(request.peer())?;
        let builder = self.forwarder.request(&self.upstream, &prepared, request);
        let (sender, latest) = watch::channel(None);
        let task = ObservationTask {
            forwarder: Arc::clone(&self.forwarder),
            upstream: Arc::clone(&self.upstream),
            latest: sender,
            notifier: notifier.clone(),
            _permit: permit,
        };
        tokio::spawn(task.run(builder));
        Some(Arc::new(RelayedObservation {
            forwarder: Arc::clone(&self.forwarder),
            upstream: Arc::clone(&self.upstream),
            latest,
        }))
    }
}

impl Handler for RelayedObservation {
    fn call(&self, request: Request) -> HandlerFuture {
        let (forwarder, upstream) = (Arc::clone(&self.forwarder), Arc::clone(&self.upstream));
        let mut latest = self.latest.clone();
        Box::pin(async move {
            // The task applies the timeout and always publishes a response.
            let newest = match latest.wait_for(Option::is_some).await {
                Ok(newest) => newest.clone(),
                Err(_) => None,
            };
            let Some(newest) = newest else {
                return Refusal::service_unavailable("the proxy is stopping").into_response();
            };
            let age: Duration = forwarder.clock.now().since(newest.at).into();
            let (mut response, max_age) = (newest.response.clone(), newest.response.max_age());
            if age > max_age {
                // A stale representation does not answer a new request; the request goes to the
                // origin.
                response = forwarder.pass(&upstream, &request).await;
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
struct ObservationTask {
    forwarder: Arc<Forwarder>,
    upstream: Arc<Upstream>,
    latest: watch::Sender<Option<LatestResponse>>,
    notifier: Notifier,
    _permit: ObservationPermit,
}

impl ObservationTask {
    async fn run(self, builder: RequestBuilder) {
        let registered = tokio::select! {
            registered = builder.observe() => registered,
            () = self.latest.closed() => return,
        };
        match registered {
            Ok(observation) => self.forward_updates(observation).await,
            Err(error) => self.publish(self.forwarder.failure(&error), false),
        }
    }

    async fn forward_updates(self, mut observation: Observation) {
        loop {
            let update = tokio::select! {
                update = observation.next() => update,
                () = self.latest.closed() => {
                    // No client observes the resource any more (RFC 7641 3.6). If the origin does not
                    // confirm, its next notification is rejected.
                    let _ = tokio::time::timeout(DEREGISTRATION_TIMEOUT, observation.stop()).await;
                    return;
                }
            };
            match update {
                Some(Ok(Update::State(reply))) => {
                    self.publish(
                        self.forwarder.response(&self.upstream, reply.response),
                        true,
                    );
                }
                // Observers see it from Max-Age, and the registration is renewed.
                Some(Ok(Update::Stale(_))) => {}
                Some(Ok(Update::Ended(reply))) => {
                    return self.publish(
                        self.forwarder.response(&self.upstream, reply.response),
                        false,
                    );
                }
                Some(Err(error)) => return self.publish(self.forwarder.failure(&error), false),
                None => return,
            }
        }
    }

    fn publish(&self, response: Response, observed: bool) {
        let latest = LatestResponse {
            at: self.forwarder.clock.now(),
            response,
            observed,
        };
        let before = self.latest.send_replace(Some(latest));
        // The first response answers the registrations; later ones are notifications.
        if before.is_some() {
            self.notifier.changed();
        }
    }
}
