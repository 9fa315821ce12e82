//! The transport that is connections: TCP, TLS, WebSocket (RFC 8323).
//!
//! Each connection has two tasks, one that reads and one that writes; the driver holds the other
//! ends of their queues. What is read waits in one bounded queue of all connections. What is to be
//! written waits at its connection: above [`QUEUE_HIGH`] the engine is told that the connection is
//! congested, and nothing more is read from a peer that does not take what it asks for.

mod dial;
mod link;
mod listen;

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::{Bytes, BytesMut};
use carob_cc::time::Instant;
use carob_proto::codec::{Framing, Scheme};
use carob_proto::endpoint::Disconnect;
use carob_proto::keyed_hash::KeyedState;
use hashbrown::HashMap;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::task::AbortHandle;

use super::core::{Core, Out};
use super::ears::Ears;
use super::{Transport, TransportCounts, let_others_run};
use crate::settings::Settings;

pub(crate) use dial::{Dialer, MakeSocket, OnSocket};
use link::{Closing, Link, Stream};
pub(crate) use listen::Listener;
#[cfg(any(test, fuzzing))]
pub(crate) use listen::accept_websocket;

/// Bytes that wait to be written on one connection before it counts as congested.
const QUEUE_HIGH: usize = 256 << 10;
/// Events of connections that wait for the driver; at the limit, connections wait.
const EVENTS: usize = 256;
/// Events taken at a time.
const EVENTS_A_BATCH: usize = 64;
/// Bytes of all connections put aside before they are handed over to be written.
const STAGED_A_TURN: usize = 1 << 20;
/// The capacity of a connection's buffer that is kept while nothing waits in it.
const STAGED_KEPT: usize = 4 << 10;
/// Connections that we have closed and that are still written to. At it, the oldest is ended with what
/// waits.
const CLOSING: usize = 1_024;
/// Names of peers remembered. At the limit all are forgotten; who connects without one uses the
/// address.
const NAMES: usize = 4_096;

/// What connections run over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// `coap+tcp`.
    Tcp,
    /// `coaps+tcp`.
    Tls,
    /// `coap+ws`.
    WebSocket,
    /// `coaps+ws`.
    SecureWebSocket,
}

impl Kind {
    pub(crate) const ALL: [Self; 4] =
        [Self::Tcp, Self::Tls, Self::WebSocket, Self::SecureWebSocket];

    /// What a URI of this scheme needs, if it is connections.
    pub(crate) fn of(scheme: Scheme) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.scheme() == scheme)
    }

    pub(crate) const fn scheme(self) -> Scheme {
        match self {
            Self::Tcp => Scheme::CoapTcp,
            Self::Tls => Scheme::CoapsTcp,
            Self::WebSocket => Scheme::CoapWs,
            Self::SecureWebSocket => Scheme::CoapsWs,
        }
    }

    pub(crate) const fn framing(self) -> Framing {
        match self {
            Self::Tcp | Self::Tls => Framing::Stream,
            Self::WebSocket | Self::SecureWebSocket => Framing::WebSocket,
        }
    }
}

/// What happens to connections.
pub(super) enum Happening {
    /// One that we asked for is there, or not.
    Made {
        to: SocketAddr,
        attempt: u64,
        made: io::Result<Stream>,
    },
    /// Somebody has connected.
    Came {
        from: SocketAddr,
        stream: Stream,
        /// Its place among those that wait for the driver, where that has a limit of its own.
        place: Option<OwnedSemaphorePermit>,
    },
    /// A piece of a stream, or a WebSocket's message, has come on connection `link`.
    Read {
        peer: SocketAddr,
        link: u64,
        bytes: Bytes,
    },
    /// What waited to be written has become less.
    Eased { peer: SocketAddr, link: u64 },
    /// A connection has ended.
    Ended {
        peer: SocketAddr,
        link: u64,
        why: Disconnect,
    },
}

/// A connection, or a try to make one.
struct Place {
    link: u64,
    link_or_try: LinkOrTry,
    /// Written by the engine and not yet handed over.
    staged: BytesMut,
    /// Set when the buffer has grown beyond [`STAGED_KEPT`].
    was_large: bool,
    /// Where each message ends in it, if that matters.
    ends: Vec<usize>,
    congested: bool,
}

enum LinkOrTry {
    Link(Link),
    Try { _task: AbortOnDrop },
}

/// A task that ends with its owner.
struct AbortOnDrop(AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// How connections began.
#[derive(Clone, Copy, Debug, Default)]
struct Began {
    accepted: u64,
    refused: u64,
    made: u64,
    failed: u64,
}

/// Connections and what waits to be sent on them.
pub(super) struct Streams {
    kind: Kind,
    dialer: Arc<Dialer>,
    places: HashMap<SocketAddr, Place, KeyedState>,
    /// Peers with something staged.
    dirty: Vec<SocketAddr>,
    staged: usize,
    next: u64,
    happenings: mpsc::Receiver<Happening>,
    tell: mpsc::Sender<Happening>,
    /// Taken from the queue while waiting.
    first: Option<Happening>,
    /// By what name a peer was asked for.
    names: HashMap<SocketAddr, Arc<str>, KeyedState>,
    began: Began,
    /// Bytes that wait to be written, and how many may.
    unsent: Arc<AtomicUsize>,
    unsent_limit: usize,
    /// Connections that we have closed, oldest first.
    closing: VecDeque<Closing>,
    closing_limit: usize,
    /// Writers were ended that have not yet run to give back what they hold.
    ended_writers: bool,
    _accepting: Option<AbortOnDrop>,
}

/// What handing over to connections has found.
#[derive(Default)]
struct Found {
    /// These have more to take than is good for them.
    congested: Vec<SocketAddr>,
    /// These have more of all that waits than is theirs, and there is too much of it.
    excessive: Vec<SocketAddr>,
}

impl Streams {
    pub(super) fn new(
        kind: Kind,
        listener: Option<Listener>,
        settings: &Settings,
        seed: u64,
    ) -> Self {
        let (tell, happenings) = mpsc::channel(EVENTS);
        let accepting =
            listener.map(|listener| AbortOnDrop(listener.start(kind, settings, tell.clone())));
        Self {
            kind,
            dialer: Arc::new(Dialer::new(kind, settings)),
            places: HashMap::with_hasher(KeyedState::with_seed(seed)),
            dirty: Vec::new(),
            staged: 0,
            next: 0,
            happenings,
            tell,
            first: None,
            names: HashMap::with_hasher(KeyedState::with_seed(seed)),
            began: Began::default(),
            unsent: Arc::default(),
            unsent_limit: settings.config.limits.unsent_bytes,
            closing: VecDeque::new(),
            closing_limit: settings.closing.map_or(CLOSING, |limit| limit.min(CLOSING)),
            ended_writers: false,
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
            let told = (self.tell.clone(), Arc::clone(&self.unsent));
            Link::start(peer, number, stream, told)
        };
        let place = Place {
            link: number,
            link_or_try: LinkOrTry::Link(link),
            staged: BytesMut::new(),
            was_large: false,
            ends: Vec::new(),
            congested: false,
        };
        self.places.insert(peer, place);
    }

    fn is_current(&self, peer: SocketAddr, link: u64) -> bool {
        let place = self.places.get(&peer);
        place.is_some_and(|place| place.link == link)
    }

    fn take(&mut self, core: &mut Core, now: Instant, happening: Happening) {
        match happening {
            Happening::Made { to, attempt, made } => {
                if !self.is_current(to, attempt) {
                    return;
                }
                match made {
                    Ok(stream) => {
                        self.began.made += 1;
                        self.place(to, stream);
                        if !core.endpoint.connected(now, to) {
                            self.places.remove(&to);
                        }
                    }
                    Err(error) => {
                        self.began.failed += 1;
                        tracing::debug!(peer = %to, %error, "no connection");
                        self.places.remove(&to);
                        core.requests.os_error = error.raw_os_error();
                        core.requests.explanation = Some(error.to_string().into());
                        core.endpoint.disconnected(now, to, Disconnect::NotMade);
                        core.drain(self, now);
                        core.requests.os_error = None;
                        core.requests.explanation = None;
                    }
                }
            }
            Happening::Came {
                from,
                stream,
                place: _place,
            } => {
                if self.places.contains_key(&from) {
                    self.began.refused += 1;
                    return; // the old one has not been seen to end; the peer will try again
                }
                self.place(from, stream);
                if core.endpoint.connected(now, from) {
                    self.began.accepted += 1;
                } else {
                    tracing::debug!(peer = %from, "no room for another connection");
                    self.began.refused += 1;
                    self.places.remove(&from);
                }
            }
            Happening::Read { peer, link, bytes } => {
                if self.is_current(peer, link) {
                    let framing = self.kind.framing();
                    core.ears.comes_in_pieces(now, peer, framing, &bytes);
                    core.endpoint.handle_stream(now, peer, &bytes);
                }
            }
            Happening::Eased { peer, link } => {
                if self.is_current(peer, link)
                    && let Some(place) = self.places.get_mut(&peer)
                    && std::mem::take(&mut place.congested)
                {
                    core.endpoint.set_congested(now, peer, false);
                }
            }
            Happening::Ended { peer, link, why } => {
                if self.is_current(peer, link) {
                    // It may still take what it was sent.
                    if let Some(Place {
                        link_or_try: LinkOrTry::Link(link),
                        ..
                    }) = self.places.remove(&peer)
                    {
                        self.let_close(link);
                    }
                    core.ears.forget(peer);
                    core.endpoint.disconnected(now, peer, why);
                }
            }
        }
        core.drain(self, now);
    }

    /// Hands over what was staged.
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

    /// If more waits to be written than may, ends connections that were closed, the oldest first, and
    /// then finds those that hold more than if all held the same, until no more waits than may.
    fn make_room(&mut self, found: &mut Found) {
        let mut waits = self.unsent.load(Ordering::Acquire);
        while waits > self.unsent_limit
            && let Some(closing) = self.closing.pop_front()
        {
            closing.abort();
            self.ended_writers = true;
            waits = self.unsent.load(Ordering::Acquire);
        }
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

    /// Keeps hold of a connection that is closed once what waits is written.
    fn let_close(&mut self, link: Link) {
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

impl Place {
    fn hand_over(&mut self, framing: Framing) {
        let LinkOrTry::Link(link) = &self.link_or_try else {
            return;
        };
        match framing {
            Framing::Stream => {
                if !self.staged.is_empty() {
                    link.write(self.staged.split().freeze());
                }
            }
            Framing::WebSocket => {
                let mut taken = 0;
                for end in self.ends.drain(..) {
                    link.write(self.staged.split_to(end - taken).freeze());
                    taken = end;
                }
            }
        }
        // What is left of it would keep all of what was large.
        if self.was_large {
            (self.staged, self.was_large) = (BytesMut::new(), false);
        }
    }
}

impl Out for Streams {
    fn is_full(&self) -> bool {
        self.staged >= STAGED_A_TURN
    }

    fn holds_back(&self) -> bool {
        self.is_full()
    }

    fn transmit(&mut self, ears: &mut Ears, now: Instant, to: SocketAddr, bytes: &[u8]) {
        let Some(place) = self.places.get_mut(&to) else {
            return; // it has ended, and the engine will be told
        };
        ears.goes_framed(now, to, self.kind.framing(), bytes);
        if place.staged.is_empty() {
            self.dirty.push(to);
        }
        place.staged.extend_from_slice(bytes);
        place.was_large |= place.staged.capacity() > STAGED_KEPT;
        if self.kind.framing() == Framing::WebSocket {
            place.ends.push(place.staged.len());
        }
        self.staged += bytes.len();
    }

    fn connect(&mut self, to: SocketAddr) {
        let attempt = self.number();
        let (dialer, tell) = (Arc::clone(&self.dialer), self.tell.clone());
        let name = self.names.get(&to).cloned();
        let task = tokio::spawn(async move {
            let made = dialer.dial(to, name.as_deref()).await;
            // A driver that has stopped needs to know nothing.
            let _ = tell.send(Happening::Made { to, attempt, made }).await;
        });
        let place = Place {
            link: attempt,
            link_or_try: LinkOrTry::Try {
                _task: AbortOnDrop(task.abort_handle()),
            },
            staged: BytesMut::new(),
            was_large: false,
            ends: Vec::new(),
            congested: false,
        };
        self.places.insert(to, place);
    }

    fn close(&mut self, to: SocketAddr) {
        if let Some(mut place) = self.places.remove(&to) {
            place.hand_over(self.kind.framing());
            if let LinkOrTry::Link(link) = place.link_or_try {
                self.let_close(link);
            }
        }
    }

    fn is_named(&mut self, to: SocketAddr, name: &Arc<str>) {
        if self.names.len() >= NAMES && !self.names.contains_key(&to) {
            self.names.clear();
        }
        self.names.insert(to, Arc::clone(name));
    }
}

impl Transport for Streams {
    fn out(&mut self) -> &mut impl Out {
        self
    }

    async fn ready(&mut self) -> io::Result<()> {
        if self.first.is_none() {
            self.first = self.happenings.recv().await;
        }
        Ok(())
    }

    fn receive(&mut self, core: &mut Core) -> bool {
        let now = core.clock.now();
        for _ in 0..EVENTS_A_BATCH {
            if core.holds_back(self) {
                return false;
            }
            let next = self
                .first
                .take()
                .or_else(|| self.happenings.try_recv().ok());
            let Some(happening) = next else {
                return false;
            };
            self.take(core, now, happening);
        }
        true
    }

    async fn flush(&mut self, core: &mut Core) -> io::Result<()> {
        let Found {
            congested,
            excessive,
        } = self.hand_over();
        let now = core.clock.now();
        for peer in congested {
            core.endpoint.set_congested(now, peer, true);
        }
        for peer in excessive {
            tracing::debug!(%peer, "it reads nothing, and too much waits");
            if let Some(Place {
                link_or_try: LinkOrTry::Link(link),
                ..
            }) = self.places.remove(&peer)
            {
                link.abort();
                self.ended_writers = true;
            }
            core.ears.forget(peer);
            core.endpoint.disconnected(now, peer, Disconnect::NoRoom);
            core.drain(self, now);
        }
        if core.more || std::mem::take(&mut self.ended_writers) {
            // So that writers write, and those that were ended give back what they hold.
            let_others_run().await;
        }
        Ok(())
    }

    fn counts(&self) -> TransportCounts {
        TransportCounts::Streams {
            accepted: self.began.accepted,
            refused: self.began.refused,
            made: self.began.made,
            failed: self.began.failed,
        }
    }
}
