//! What an endpoint holds, what it has done, and what it knows of its peers.

use core::net::SocketAddr;

use carob_cc::controller::{Gauge, Window};
use carob_cc::time::{Duration, Instant};

use super::Endpoint;
#[cfg(doc)]
use super::{Limits, NotificationQueue};
use crate::counters::Counters;
use crate::peer::Peer;
use crate::rates::Rates;

/// What is known of a peer at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Snapshot {
    /// The controller's overall RTO before dithering, if it keeps one; none over connections.
    pub rto: Option<Duration>,
    /// The last round-trip time that is certain: of an exchange without retransmissions, or of one
    /// whose answer says which copy it is to.
    pub round_trip: Option<Duration>,
    /// Copies of our messages that left.
    pub transmissions: u32,
    /// Those after the first of their exchange.
    pub retransmissions: u32,
    /// Exchanges that count against the window now, and the bytes they put in flight.
    pub outstanding: u16,
    /// Bytes sent, and expected in answer, of those exchanges.
    pub outstanding_bytes: u32,
    /// How much may be outstanding.
    pub window: Window,
    /// Messages that wait to be sent.
    pub queued: usize,
    /// Observations of our resources.
    pub observations: usize,
    /// How long ago something was heard of it, if ever.
    pub heard: Option<Duration>,
    /// How long ago something was sent to it.
    pub sent: Option<Duration>,
}

/// What an endpoint's tables hold; see [`Limits`] for what they may.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Usage {
    /// Peers we have sent to.
    pub peers: usize,
    /// Requests of ours under way.
    pub requests: usize,
    /// Message exchanges of ours, waiting or under way.
    pub exchanges: usize,
    /// Requests received and not yet answered.
    pub incoming: usize,
    /// Bytes of their messages.
    pub incoming_bytes: usize,
    /// Responses in messages of their own that wait to be sent or acknowledged.
    pub responses: usize,
    /// Sources whose rates are remembered.
    pub sources: usize,
    /// Messages remembered for duplicates.
    pub remembered: usize,
    /// Request bodies being received, and their bytes.
    pub uploads: (usize, usize),
    /// Response bodies being read, and their bytes.
    pub bodies: (usize, usize),
    /// Observations of our resources.
    pub observers: usize,
    /// Responses to requests to groups that wait for their moment.
    pub leisurely: usize,
    /// Notifications that wait to be sent.
    pub notifications_waiting: usize,
    /// Notifications dropped so far because too many waited ([`NotificationQueue::Queue`]).
    pub notifications_dropped: u64,
    /// Observations of ours.
    pub observations: usize,
    /// Sources that have shown that they are where they say they are.
    pub validated: usize,
    /// Resources not asked for now because their server has had too many requests (4.29); pauses that
    /// are over may be among them.
    pub pauses: usize,
    /// Peers of which it is known whether they take longer tokens; some of it may be too old to be
    /// believed.
    pub token_peers: usize,
    /// Connections, those that are being made included.
    pub connections: usize,
    /// Bytes of messages that are not complete, on all connections.
    pub partial_bytes: usize,
}

/// The tables of several endpoints together.
impl core::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
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
            leisurely,
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
        self.leisurely += leisurely;
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
    /// Whether no request, in either direction, is under way.
    pub fn is_idle(&self) -> bool {
        self.operations.is_empty()
            && self.groups.is_empty()
            && self.exchanges.is_empty()
            && self.incoming.is_empty()
            && self.leisurely.is_empty()
    }

    /// What the tables hold now.
    pub fn usage(&self) -> Usage {
        Usage {
            peers: self.peers.len(),
            requests: self.operations.len() + self.groups.len(),
            exchanges: self.exchanges.len(),
            incoming: self.incoming.len(),
            incoming_bytes: self.incoming.bytes(),
            responses: self.responses,
            sources: self.rates.as_ref().map_or(0, Rates::sources),
            remembered: self.dedup.len(),
            uploads: self.assemblies.held(),
            bodies: self.bodies.held(),
            observers: self.observers.len(),
            leisurely: self.leisurely.len(),
            notifications_waiting: self.notifications.waiting,
            notifications_dropped: self.notifications.dropped,
            observations: self.observations.len(),
            validated: self.validated.len(),
            pauses: self.pauses.len(),
            token_peers: self.token_support.len(),
            connections: self.connections.len(),
            partial_bytes: self.connections.partial_bytes,
        }
    }

    /// What it has done so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The peers we know, which are those we have sent messages of our own to.
    pub fn peers(&self) -> impl Iterator<Item = SocketAddr> {
        self.peers.iter().map(|peer| peer.address)
    }

    /// What is known of a peer now; nothing if it is not known at all.
    pub fn snapshot(&self, now: Instant, peer: SocketAddr) -> Option<Snapshot> {
        let index = self.peers.find(peer)?;
        let Peer {
            congestion,
            queue,
            outstanding,
            outstanding_bytes,
            tally,
            first_observer,
            last_heard,
            last_sent,
            ..
        } = &self.peers[index];
        let since = |at: Instant| (at > Instant::ZERO).then(|| now.since(at));
        Some(Snapshot {
            // Over a connection the retransmission timer is the system's.
            rto: (congestion.as_ref().rto(now)).filter(|_| self.config.reliable.is_none()),
            round_trip: (tally.round_trip > 0)
                .then(|| Duration::from_micros(u64::from(tally.round_trip))),
            transmissions: tally.transmissions,
            retransmissions: tally.retransmissions,
            outstanding: *outstanding,
            outstanding_bytes: *outstanding_bytes,
            window: self.window(now, index),
            queued: queue.len(),
            observations: self.observers.count_of_peer(*first_observer),
            heard: since(*last_heard),
            sent: since(*last_sent),
        })
    }

    /// Names the readings of a peer's controller; whether the peer is known.
    pub fn gauges(
        &self,
        now: Instant,
        peer: SocketAddr,
        visit: &mut dyn FnMut(&'static str, Gauge),
    ) -> bool {
        let Some(index) = self.peers.find(peer) else {
            return false;
        };
        // Over a connection no controller has a say.
        if self.config.reliable.is_none() {
            self.peers[index].congestion.as_ref().gauges(now, visit);
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
