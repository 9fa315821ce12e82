//! Stream transports: TCP, TLS and WebSocket (RFC 8323).
//!
//! Each connection has two tasks, a reader and a writer; the driver holds the other ends of their
//! queues. Received messages pass through one bounded queue of all connections. Bytes to write are
//! queued per connection: above [`QUEUE_HIGH`] the engine learns that the connection is congested,
//! and a peer that does not read its responses is not read from.

mod dial;
mod link;
mod listen;
mod options;

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use carob_cc::time::Instant;
use carob_proto::codec::Framing;
use carob_proto::endpoint::Disconnect;
use carob_proto::tables::keyed_hash::KeyedState;
use hashbrown::HashMap;
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use crate::transport::LinkFailure;
use crate::transport::capture::Capture;
use crate::transport::handshake::{FailedHandshake, OnHandshakeFailed};
use crate::transport::{Engine, Outbound, Transport, TransportCounts, yield_to_peers};

pub use dial::BorrowedSocket;
use dial::Dialer;
use dial::{AbortOnDrop, LinkOrTry, Place};
pub(crate) use dial::{MakeSocket, OnSocket};
use link::{Closing, Link, Stream};
use listen::HandshakeCounts;
pub(crate) use listen::{Listener, TlsAccept};
pub(crate) use options::{StreamKind, StreamOptions};

/// Queued bytes above which a connection counts as congested.
const QUEUE_HIGH: usize = 256 << 10;
/// Queued events of connections; at the limit, connections wait.
const EVENTS: usize = 256;
/// Events per batch.
const EVENTS_A_BATCH: usize = 64;
/// Bytes staged for all connections before they are handed to the writers.
const STAGED_A_TURN: usize = 1 << 20;
/// Capacity of a connection's staging buffer that is retained while empty.
const STAGED_KEPT: usize = 4 << 10;
/// Closed connections whose queue is still written. At the limit, the oldest is ended and its queue
/// discarded.
const CLOSING: usize = 1_024;
/// Names of peers remembered. At the limit all are removed; connections without a name use the
/// address.
const NAMES: usize = 4_096;

/// An event of a connection.
pub(super) enum ConnectionEvent {
    /// An outgoing connection is established, or has failed.
    Made {
        to: SocketAddr,
        attempt: u64,
        made: io::Result<Stream>,
    },
    /// A peer has connected.
    Accepted {
        from: SocketAddr,
        stream: Stream,
        /// Permit of the queue of accepted connections, if it has a separate limit.
        place: Option<OwnedSemaphorePermit>,
    },
    /// The handshake of a peer that has connected failed.
    HandshakeFailed { from: SocketAddr, error: io::Error },
    /// Bytes of a stream, or a message of a WebSocket, were received on connection `link`.
    Read {
        peer: SocketAddr,
        link: u64,
        bytes: Bytes,
    },
    /// The send queue of a connection has drained.
    Drained { peer: SocketAddr, link: u64 },
    /// A connection has ended.
    Ended {
        peer: SocketAddr,
        link: u64,
        why: Disconnect,
    },
}

/// Counts of connections by outcome.
#[derive(Clone, Copy, Debug, Default)]
struct ConnectionCounts {
    accepted: u64,
    refused: u64,
    made: u64,
    failed: u64,
}

/// Connections and their queues.
pub(crate) struct StreamTransport {
    kind: StreamKind,
    dialer: Arc<Dialer>,
    places: HashMap<SocketAddr, Place, KeyedState>,
    /// Peers with staged bytes.
    dirty: Vec<SocketAddr>,
    staged: usize,
    next: u64,
    events: mpsc::Receiver<ConnectionEvent>,
    event_sender: mpsc::Sender<ConnectionEvent>,
    /// Taken from the queue while waiting.
    first: Option<ConnectionEvent>,
    /// Host names by which peers are contacted.
    names: HashMap<SocketAddr, Arc<str>, KeyedState>,
    began: ConnectionCounts,
    /// Queued bytes of all connections, and their limit.
    unsent: Arc<AtomicUsize>,
    unsent_limit: usize,
    /// Closed connections, oldest first.
    closing: VecDeque<Closing>,
    closing_limit: usize,
    /// Ended writers have not yet released their bytes.
    ended_writers: bool,
    /// Counts of handshakes, where a listener has any.
    handshakes: Option<Arc<HandshakeCounts>>,
    on_failed: Option<OnHandshakeFailed>,
    _accepting: Option<AbortOnDrop>,
}

/// Connections above a limit after a hand-over.
#[derive(Default)]
struct Found {
    /// Connections above the watermark of one connection.
    congested: Vec<SocketAddr>,
    /// Connections above their share, while the total exceeds its limit.
    excessive: Vec<SocketAddr>,
}

impl StreamTransport {
    pub(crate) fn new(options: &StreamOptions, listener: Option<Listener>, seed: u64) -> Self {
        let (event_sender, events) = mpsc::channel(EVENTS);
        let handshakes = (listener.is_some() && options.kind != StreamKind::Tcp)
            .then(|| Arc::new(HandshakeCounts::default()));
        let counts = handshakes.clone().unwrap_or_default();
        let accepting = listener
            .map(|listener| AbortOnDrop(listener.start(options, event_sender.clone(), counts)));
        Self {
            kind: options.kind,
            dialer: Arc::new(Dialer::new(options)),
            places: HashMap::with_hasher(KeyedState::with_seed(seed)),
            dirty: Vec::new(),
            staged: 0,
            next: 0,
            events,
            event_sender,
            first: None,
            names: HashMap::with_hasher(KeyedState::with_seed(seed)),
            began: ConnectionCounts::default(),
            unsent: Arc::default(),
            unsent_limit: options.unsent_bytes,
            closing: VecDeque::new(),
            closing_limit: options.closing.map_or(CLOSING, |limit| limit.min(CLOSING)),
            ended_writers: false,
            handshakes,
            on_failed: options.on_failed.clone(),
            _accepting: accepting,
        }
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn place(&mut self, peer: SocketAddr, stream: Stream) {
        let number = self.number();
        let link = {
            let shared = (self.event_sender.clone(), Arc::clone(&self.unsent));
            Link::start(peer, number, stream, shared)
        };
        let place = Place::new(number, LinkOrTry::Link(link));
        self.places.insert(peer, place);
    }

    fn is_current(&self, peer: SocketAddr, link: u64) -> bool {
        let place = self.places.get(&peer);
        place.is_some_and(|place| place.link == link)
    }

    fn take(&mut self, engine: &mut impl Engine, now: Instant, event: ConnectionEvent) {
        match event {
            ConnectionEvent::Made { to, attempt, made } => {
                // An event of an earlier connection may still be queued: it has another number.
                if !self.is_current(to, attempt) {
                    return;
                }
                self.on_made(engine, now, to, made);
            }
            // The permit is given back when the connection has its place.
            ConnectionEvent::Accepted {
                from,
                stream,
                place: _place,
            } => {
                if self.places.contains_key(&from) {
                    self.began.refused += 1;
                    return; // the old one has not been seen to end; the peer will try again
                }
                self.on_accepted(engine, now, from, stream);
            }
            ConnectionEvent::HandshakeFailed { from, error } => {
                if let Some(on_failed) = &self.on_failed {
                    on_failed(&FailedHandshake {
                        at: std::time::Duration::from_micros(now.as_micros()),
                        scheme: self.kind.scheme(),
                        peer: from,
                        identity: None,
                        reason: &error,
                    });
                }
            }
            ConnectionEvent::Read { peer, link, bytes } => {
                if self.is_current(peer, link) {
                    let framing = self.kind.framing();
                    engine.capture().inbound_stream(now, peer, framing, &bytes);
                    engine.endpoint().handle_stream(now, peer, &bytes);
                }
            }
            ConnectionEvent::Drained { peer, link } => {
                if self.is_current(peer, link)
                    && let Some(place) = self.places.get_mut(&peer)
                    && std::mem::take(&mut place.congested)
                {
                    engine.endpoint().set_congested(now, peer, false);
                }
            }
            ConnectionEvent::Ended { peer, link, why } => {
                if self.is_current(peer, link) {
                    // Its peer may still read the queue.
                    if let Some(Place {
                        link_or_try: LinkOrTry::Link(link),
                        ..
                    }) = self.places.remove(&peer)
                    {
                        self.retain_closing(link);
                    }
                    engine.capture().forget(peer);
                    engine.endpoint().disconnected(now, peer, why);
                }
            }
        }
        engine.drain(self, now);
    }

    /// Handles the outcome of a connection attempt.
    fn on_made(
        &mut self,
        engine: &mut impl Engine,
        now: Instant,
        to: SocketAddr,
        made: io::Result<Stream>,
    ) {
        match made {
            Ok(stream) => {
                self.began.made += 1;
                self.place(to, stream);
                if !engine.endpoint().connected(now, to) {
                    self.places.remove(&to);
                }
            }
            Err(error) => {
                self.began.failed += 1;
                tracing::debug!(peer = %to, %error, "no connection");
                self.places.remove(&to);
                let failure = LinkFailure::NotConnected(Arc::new(error));
                engine.peer_failed(self, now, to, failure);
            }
        }
    }

    fn on_accepted(
        &mut self,
        engine: &mut impl Engine,
        now: Instant,
        from: SocketAddr,
        stream: Stream,
    ) {
        self.place(from, stream);
        if engine.endpoint().connected(now, from) {
            self.began.accepted += 1;
        } else {
            tracing::debug!(peer = %from, "the connection table is full");
            self.began.refused += 1;
            self.places.remove(&from);
        }
    }

    /// Hands the staged bytes to the writers.
    fn hand_over(&mut self) -> Found {
        let mut found = Found::default();
        let framing = self.kind.framing();
        for peer in self.dirty.drain(..) {
            let Some(place) = self.places.get_mut(&peer) else {
                continue;
            };
            place.hand_over(framing);
            let LinkOrTry::Link(link) = &place.link_or_try else {
                continue;
            };
            if link.flow().is_congested() && !place.congested {
                place.congested = true;
                found.congested.push(peer);
            }
        }
        self.staged = 0;
        self.make_room(&mut found);
        found
    }

    /// Enforces the limit on queued bytes: ends closed connections, oldest first, then reports the
    /// connections above an equal share.
    fn make_room(&mut self, found: &mut Found) {
        let mut waits = self.unsent.load(Ordering::Acquire);
        while waits > self.unsent_limit
            && let Some(closing) = self.closing.pop_front()
        {
            closing.abort();
            self.ended_writers = true;
            waits = self.unsent.load(Ordering::Acquire);
        }
        // An equal share: a few slow readers must not cost the others their connections.
        let share = self.unsent_limit / self.places.len().max(1);
        let mut places = self.places.iter();
        while waits > self.unsent_limit
            && let Some((peer, place)) = places.next()
        {
            if let LinkOrTry::Link(link) = &place.link_or_try
                && link.flow().queued() > share
            {
                waits = waits.saturating_sub(link.flow().queued());
                found.excessive.push(*peer);
            }
        }
    }

    /// Retains a closed connection until its queue is written.
    fn retain_closing(&mut self, link: Link) {
        while self.closing.front().is_some_and(Closing::has_ended) {
            self.closing.pop_front();
        }
        if self.closing.len() >= self.closing_limit
            && let Some(oldest) = self.closing.pop_front()
        {
            oldest.abort();
            self.ended_writers = true;
        }
        self.closing.push_back(link.close());
    }
}

impl Outbound for StreamTransport {
    fn is_full(&self) -> bool {
        self.staged >= STAGED_A_TURN
    }

    fn must_flush(&self) -> bool {
        self.is_full()
    }

    fn transmit(&mut self, capture: &mut Capture, now: Instant, to: SocketAddr, bytes: &[u8]) {
        let Some(place) = self.places.get_mut(&to) else {
            return; // the connection has ended; the engine learns it from the event
        };
        capture.outbound_frame(now, to, self.kind.framing(), bytes);
        if place.staged.is_empty() {
            self.dirty.push(to);
        }
        place.staged.extend_from_slice(bytes);
        place.was_large |= place.staged.capacity() > STAGED_KEPT;
        if self.kind.framing() == Framing::WebSocket {
            // A WebSocket message ends where its CoAP message does (RFC 8323 4.2).
            place.ends.push(place.staged.len());
        }
        self.staged += bytes.len();
    }

    fn connect(&mut self, to: SocketAddr) {
        let attempt = self.number();
        let (dialer, event_sender) = (Arc::clone(&self.dialer), self.event_sender.clone());
        let name = self.names.get(&to).cloned();
        let task = tokio::spawn(async move {
            let made = dialer.dial(to, name.as_deref()).await;
            // A stopped driver needs no report.
            let _ = event_sender
                .send(ConnectionEvent::Made { to, attempt, made })
                .await;
        });
        let dialing = LinkOrTry::Try {
            _task: AbortOnDrop(task.abort_handle()),
        };
        let place = Place::new(attempt, dialing);
        self.places.insert(to, place);
    }

    fn close(&mut self, to: SocketAddr) {
        if let Some(mut place) = self.places.remove(&to) {
            place.hand_over(self.kind.framing());
            if let LinkOrTry::Link(link) = place.link_or_try {
                self.retain_closing(link);
            }
        }
    }

    fn set_peer_name(&mut self, to: SocketAddr, name: &Arc<str>) {
        if self.names.len() >= NAMES && !self.names.contains_key(&to) {
            self.names.clear();
        }
        self.names.insert(to, Arc::clone(name));
    }
}

impl Transport for StreamTransport {
    fn outbound(&mut self) -> &mut impl Outbound {
        self
    }

    async fn ready(&mut self) -> io::Result<()> {
        if self.first.is_none() {
            self.first = self.events.recv().await;
        }
        Ok(())
    }

    fn receive(&mut self, engine: &mut impl Engine) -> bool {
        let now = engine.now();
        for _ in 0..EVENTS_A_BATCH {
            // Staged output goes to the writers before it grows beyond a batch.
            if engine.must_flush(self) {
                return false;
            }
            let next = self.first.take().or_else(|| self.events.try_recv().ok());
            let Some(event) = next else {
                return false;
            };
            self.take(engine, now, event);
        }
        true
    }

    async fn flush(&mut self, engine: &mut impl Engine) -> io::Result<()> {
        let Found {
            congested,
            excessive,
        } = self.hand_over();
        let now = engine.now();
        for peer in congested {
            engine.endpoint().set_congested(now, peer, true);
        }
        for peer in excessive {
            tracing::debug!(%peer, "the peer does not read its responses");
            if let Some(Place {
                link_or_try: LinkOrTry::Link(link),
                ..
            }) = self.places.remove(&peer)
            {
                link.abort();
                self.ended_writers = true;
            }
            engine.capture().forget(peer);
            engine
                .endpoint()
                .disconnected(now, peer, Disconnect::NoRoom);
            engine.drain(self, now);
        }
        if engine.has_more() || std::mem::take(&mut self.ended_writers) {
            // Lets writers write, and ended ones release their bytes.
            yield_to_peers().await;
        }
        Ok(())
    }

    fn counts(&self) -> TransportCounts {
        TransportCounts::Streams {
            accepted: self.began.accepted,
            refused: self.began.refused,
            made: self.began.made,
            failed: self.began.failed,
            handshakes: self.handshakes.as_ref().map(|counts| counts.read()),
        }
    }
}
