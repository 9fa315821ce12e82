//! Statistics of an endpoint: table usage, counters, and the state of its peers.

use core::net::SocketAddr;

use carob_cc::controller::{Gauge, Window};
use carob_cc::time::{Duration, Instant};

use crate::counters::Counters;
use crate::endpoint::Endpoint;
use crate::message_layer::peer::Peer;
use crate::tables::rate_limit::RateLimiter;

/// The state of a peer at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Snapshot {
    /// The controller's name in the registry, or `custom`; `None` over connections.
    pub controller: Option<&'static str>,
    /// The controller's overall RTO before dithering, if it has one; `None` over connections.
    pub rto: Option<Duration>,
    /// The last unambiguous round-trip time: of an exchange without retransmissions, or of one
    /// whose reply identifies its transmission.
    pub round_trip: Option<Duration>,
    /// Transmissions, including retransmissions.
    pub transmissions: u32,
    /// Retransmissions.
    pub retransmissions: u32,
    /// Exchanges that count against the window.
    pub outstanding: u16,
    /// Bytes sent, and expected in answer, of those exchanges.
    pub outstanding_bytes: u32,
    /// The congestion window.
    pub window: Window,
    /// Messages waiting to be sent.
    pub queued: usize,
    /// Time until the next Message ID is free, while all are within EXCHANGE_LIFETIME (RFC 7252 4.4) and
    /// messages wait for one; `None` over connections.
    pub message_id_wait: Option<Duration>,
    /// Observations of this endpoint's resources.
    pub observations: usize,
    /// Time since the last message received from it, if any.
    pub heard: Option<Duration>,
    /// Time since the last message sent to it.
    pub sent: Option<Duration>,
}

/// Usage of an endpoint's tables; see [`Limits`](crate::endpoint::Limits) for their limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Usage {
    /// Peers that messages were sent to.
    pub peers: usize,
    /// Requests of this endpoint in progress.
    pub requests: usize,
    /// Message exchanges of this endpoint, waiting or in progress.
    pub exchanges: usize,
    /// Received requests without a response yet.
    pub incoming: usize,
    /// Bytes of their messages.
    pub incoming_bytes: usize,
    /// Separate responses waiting to be sent or acknowledged.
    pub responses: usize,
    /// Sources with rate limit state.
    pub sources: usize,
    /// Messages stored to detect duplicates.
    pub remembered: usize,
    /// Request bodies being received, and their bytes.
    pub uploads: (usize, usize),
    /// Response bodies being read, and their bytes.
    pub bodies: (usize, usize),
    /// Observations of this endpoint's resources.
    pub observers: usize,
    /// Responses to multicast requests waiting for their moment.
    pub delayed_responses: usize,
    /// Notifications waiting to be sent.
    pub notifications_waiting: usize,
    /// Notifications dropped so far at the limit
    /// ([`NotificationQueue::Queue`](crate::endpoint::NotificationQueue::Queue)).
    pub notifications_dropped: u64,
    /// Observations by this endpoint.
    pub observations: usize,
    /// Validated addresses.
    pub validated: usize,
    /// Resources paused after a 4.29, possibly including expired pauses.
    pub pauses: usize,
    /// Peers whose support of longer tokens is known; some entries may be outdated.
    pub token_peers: usize,
    /// Connections, including those being established.
    pub connections: usize,
    /// Bytes of incomplete messages on all connections.
    pub partial_bytes: usize,
}

/// The sum of several endpoints' tables.
impl core::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        // Every field is named, so that a new one cannot be forgotten in the sum.
        let Self {
            peers,
            requests,
            exchanges,
            incoming,
            incoming_bytes,
            responses,
            sources,
            remembered,
            uploads,
            bodies,
            observers,
            delayed_responses,
            notifications_waiting,
            notifications_dropped,
            observations,
            validated,
            pauses,
            token_peers,
            connections,
            partial_bytes,
        } = other;
        self.peers += peers;
        self.requests += requests;
        self.exchanges += exchanges;
        self.incoming += incoming;
        self.incoming_bytes += incoming_bytes;
        self.responses += responses;
        self.sources += sources;
        self.remembered += remembered;
        self.observers += observers;
        self.delayed_responses += delayed_responses;
        self.notifications_waiting += notifications_waiting;
        self.notifications_dropped += notifications_dropped;
        self.observations += observations;
        self.validated += validated;
        self.pauses += pauses;
        self.token_peers += token_peers;
        self.connections += connections;
        self.partial_bytes += partial_bytes;
        self.uploads = (self.uploads.0 + uploads.0, self.uploads.1 + uploads.1);
        self.bodies = (self.bodies.0 + bodies.0, self.bodies.1 + bodies.1);
    }
}

impl Endpoint {
    /// Returns whether no request, in either direction, is in progress.
    pub fn is_idle(&self) -> bool {
        self.client.len() == 0
            && self.client.groups.is_empty()
            && self.carrier.exchanges.is_empty()
            && self.server.held().0 == 0
            && self.server.delayed_responses.is_empty()
    }

    /// Returns the current usage of the tables.
    pub fn usage(&self) -> Usage {
        Usage {
            peers: self.carrier.peers.len(),
            requests: self.client.len(),
            exchanges: self.carrier.exchanges.len(),
            incoming: self.server.held().0,
            incoming_bytes: self.server.held().1,
            responses: self.carrier.responses,
            sources: self
                .carrier
                .admission
                .rates
                .as_ref()
                .map_or(0, RateLimiter::sources),
            remembered: self.carrier.dedup.len(),
            uploads: self.server.uploads(),
            bodies: self.carrier.response_cache.held(),
            observers: self.carrier.notifications.observers.len(),
            delayed_responses: self.server.delayed_responses.len(),
            notifications_waiting: self.carrier.notifications.waiting,
            notifications_dropped: self.carrier.notifications.dropped,
            observations: self.carrier.tokens.observations.len(),
            validated: self.carrier.admission.validated.len(),
            pauses: self.client.pauses(),
            token_peers: self.carrier.tokens.support.len(),
            connections: self.carrier.connections.len(),
            partial_bytes: self.carrier.connections.partial_bytes,
        }
    }

    /// Returns the counters since the endpoint was created.
    pub fn counters(&self) -> &Counters {
        &self.cx.counters
    }

    /// Returns the known peers: those that messages of this endpoint were sent to.
    pub fn peers(&self) -> impl Iterator<Item = SocketAddr> {
        self.carrier.peers.iter().map(|peer| peer.address)
    }

    /// Returns the current state of a peer; `None` if it is unknown.
    pub fn snapshot(&self, now: Instant, peer: SocketAddr) -> Option<Snapshot> {
        let index = self.carrier.peers.find(peer)?;
        let Peer {
            congestion,
            queue,
            outstanding,
            outstanding_bytes,
            message_ids,
            parameters,
            tally,
            first_observer,
            last_heard,
            last_sent,
            ..
        } = &self.carrier.peers[index];
        let since = |at: Instant| (at > Instant::ZERO).then(|| now.since(at));
        let choice = self
            .carrier
            .settings
            .get(&peer)
            .and_then(|own| own.controller.as_ref());
        let controller = choice.unwrap_or(&self.cx.config.controller).name();
        let lifetime = parameters.as_ref().map(|own| own.exchange_lifetime());
        let lifetime = lifetime.unwrap_or(self.cx.lifetimes.exchange);
        let free = message_ids.free_at(now, lifetime);
        Some(Snapshot {
            controller: Some(controller).filter(|_| self.cx.config.reliable.is_none()),
            // Over a connection the operating system retransmits.
            rto: (congestion.as_ref().rto(now)).filter(|_| self.cx.config.reliable.is_none()),
            round_trip: (tally.round_trip > 0)
                .then(|| Duration::from_micros(u64::from(tally.round_trip))),
            transmissions: tally.transmissions,
            retransmissions: tally.retransmissions,
            outstanding: *outstanding,
            outstanding_bytes: *outstanding_bytes,
            window: self.carrier.window_at(&self.cx, now, index),
            queued: queue.len(),
            message_id_wait: free.filter(|_| !queue.is_empty()).map(|at| at.since(now)),
            observations: self
                .carrier
                .notifications
                .observers
                .count_of_peer(*first_observer),
            heard: since(*last_heard),
            sent: since(*last_sent),
        })
    }

    /// Reports the gauges of a peer's controller; returns whether the peer is known.
    pub fn gauges(
        &self,
        now: Instant,
        peer: SocketAddr,
        visit: &mut dyn FnMut(&'static str, Gauge),
    ) -> bool {
        let Some(index) = self.carrier.peers.find(peer) else {
            return false;
        };
        // Over a connection no controller is in use.
        if self.cx.config.reliable.is_none() {
            self.carrier.peers[index]
                .congestion
                .as_ref()
                .gauges(now, visit);
        }
        true
    }
}

impl core::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Endpoint")
            .field("usage", &self.usage())
            .finish_non_exhaustive()
    }
}
