//! Connections: what takes the place of the message layer over reliable transports (RFC 8323).
//!
//! An endpoint is one or the other: with [`Config::reliable`](super::Config::reliable) its peers
//! are connections. The driver makes them when [`Output::Connect`](super::Output::Connect) asks
//! for it, says when they are there ([`Endpoint::connected`]), passes on what comes
//! ([`Endpoint::handle_stream`]), and says when they have ended ([`Endpoint::disconnected`]).
//! Requests, blocks and observations above are the same as over datagrams.
//!
//! Files: [`mod@self`] the life of a connection, `table` where they are kept, `config` what can be
//! set, `signals` what both ends tell each other about it, `sending` messages out.

mod config;
mod sending;
mod signals;
mod table;

use alloc::vec::Vec;
use core::fmt;
use core::net::SocketAddr;

use carob_cc::time::{Duration, Instant};

use super::{Endpoint, Failure, Owner, QUEUED_BYTES, Queued, RequestId, Tracing};
use crate::codec::signal::BASE_MESSAGE_SIZE;
use crate::codec::{BASE_TOKEN_LENGTH, Code, FrameReader, Framing, MessageView, Signal};
use crate::counters::Refusal;
use crate::rates::Pace;
use crate::trace::What;

pub use config::Reliable;
pub(super) use table::Connections;
use table::{Connection, Phase};

/// Requests that may wait for a peer's CSM because they are large.
const WAITING_MAX: usize = 1_024;
/// Pings with Custody that may wait on one connection; further ones get their pong at once, and
/// without it.
const PINGS_HELD: usize = 8;
/// Requests and pings that are taken from a peer while ours for it are congested; at the next, its
/// connection is aborted. So what is owed to a peer that asks and does not read has a limit.
const UNREAD_MAX: u32 = 1_024;
/// Bytes that are written for a peer while its connection is congested before its requests wait until it
/// is not: one message more, however many requests one read has brought.
const UNREAD_BYTES: usize = 64 << 10;
/// Messages that are taken from a stream before what they lead to has been polled. One read may hold
/// thousands of requests; so their answers are never all in memory at once.
const MESSAGES_AT_ONCE: usize = 32;
/// The least that a peer may take, in bytes: room for a block of 16 bytes beside a head, a token
/// and the block options. A peer that takes less cannot be served.
const LEAST_MESSAGE_SIZE: u32 = 64;

/// Why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Disconnect {
    /// It could not be made.
    NotMade,
    /// The peer closed it.
    Closed,
    /// The network broke it.
    Broken,
    /// The peer said Abort (RFC 8323 5.6).
    AbortedByPeer,
    /// What the peer sent cannot be understood, so we said Abort.
    BadMessage,
    /// The peer sent no CSM, or something else before it.
    NoCsm,
    /// The peer was silent for too long.
    Dead,
    /// Nothing was under way.
    Idle,
    /// One side said Release, and what was under way is finished (RFC 8323 5.5).
    Released,
    /// All connections were in use, or this one held too much.
    NoRoom,
}

impl fmt::Display for Disconnect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotMade => "the connection could not be made",
            Self::Closed => "the peer closed the connection",
            Self::Broken => "the connection broke",
            Self::AbortedByPeer => "the peer aborted the connection",
            Self::BadMessage => "what the peer sent cannot be understood",
            Self::NoCsm => "the peer sent no CSM, which comes first",
            Self::Dead => "the peer was silent for too long",
            Self::Idle => "the connection was idle",
            Self::Released => "the connection was released",
            Self::NoRoom => "there is no room for another connection",
        })
    }
}

impl Endpoint {
    fn reliable(&self) -> &Reliable {
        self.config
            .reliable
            .as_ref()
            .expect("only endpoints over reliable transports have connections")
    }

    /// Returns whether messages are parts of a stream, of which any may be taken later. A WebSocket's are taken as
    /// they come.
    fn is_stream(&self) -> bool {
        self.reliable().framing == Framing::Stream
    }

    pub(super) fn is_reliable(&self) -> bool {
        self.config.reliable.is_some()
    }

    /// A connection with `peer` is there: made as [asked for](super::Output::Connect), or accepted.
    /// False, and the driver is to close it, if there is no room for it.
    pub fn connected(&mut self, now: Instant, peer: SocketAddr) -> bool {
        if !self.is_reliable() {
            return false;
        }
        let index = match self.connections.find(peer) {
            Some(index) => index,
            None if self.connections.has_its_share(peer) => return false,
            None => match self.add_connection(now, peer) {
                Some(index) => {
                    self.connections.count(index);
                    index
                }
                None => return false,
            },
        };
        let limit = self.reliable().max_message_size;
        let framing = self.reliable().framing;
        let connection = &mut self.connections.slots[index as usize];
        if connection.phase == Phase::Open {
            return false; // one address, one connection
        }
        connection.phase = Phase::Open;
        connection.reader = FrameReader::new(framing, limit);
        (connection.since, connection.heard, connection.used) = (now, now, now);
        self.trace(now, peer, What::Connected);
        let longest = self.longest_token();
        let csm = Signal::Csm {
            max_message_size: Some(limit),
            block_wise: self.reliable().block_wise,
            // Nothing is said where the base value holds (RFC 8974 2.2.1).
            extended_token_length: (longest > BASE_TOKEN_LENGTH).then_some(longest as u32),
        };
        self.send_signal(now, peer, &csm, &[]);
        self.set_connection_timer(now, index);
        if let Some(peer) = self.peers.find(peer) {
            self.pump(now, peer);
        }
        true
    }

    fn add_connection(&mut self, now: Instant, address: SocketAddr) -> Option<u32> {
        if self.connections.is_full() {
            let unused = self
                .connections
                .longest_unused(|connection| self.is_unused(connection))?;
            self.close(now, unused, Disconnect::NoRoom);
        }
        let timer = self.timers.add(Owner::Connection(0));
        let framing = self.reliable().framing;
        let serial = self.next_serial();
        let index = self.connections.add(Connection {
            address,
            serial,
            phase: Phase::Connecting,
            reader: FrameReader::new(framing, self.reliable().max_message_size),
            introduced: false,
            takes: BASE_MESSAGE_SIZE,
            block_wise: false,
            token_length: BASE_TOKEN_LENGTH as u32,
            congested: false,
            released: false,
            leaving: None,
            ours: false,
            counted: false,
            rest_until: None,
            answering: 0,
            pings: Vec::new(),
            more: false,
            unread: 0,
            unread_bytes: 0,
            waiting: Vec::new(),
            timer,
            since: now,
            heard: now,
            used: now,
            probed: None,
        });
        self.timers.give(timer, Owner::Connection(index));
        Some(index)
    }

    /// Asks the driver for a connection with `peer` if there is none; false if there is no room.
    pub(super) fn want_connection(&mut self, now: Instant, peer: SocketAddr) -> bool {
        if self.connections.find(peer).is_some() {
            return true;
        }
        let Some(index) = self.add_connection(now, peer) else {
            return false;
        };
        self.connections.slots[index as usize].ours = true;
        self.out.push_back(Queued::Connect(peer));
        true
    }

    /// Takes what has come on a connection: any piece of a stream, or one message of a WebSocket.
    /// From a peer without a connection it is ignored.
    ///
    /// Every request and every ping in it may be answered at once, so a driver reads no more from
    /// a connection while it [cannot send](Self::set_congested) what there is for its peer. If it
    /// does, a peer that goes on asking is aborted. Requests that one read has brought wait while their
    /// connection is congested and 64 KiB have been written for it since.
    pub fn handle_stream(&mut self, now: Instant, from: SocketAddr, bytes: &[u8]) {
        self.notified_at = now;
        let Some(index) = self.connections.find(from) else {
            return;
        };
        if let Some(peer) = self.peers.find(from) {
            self.peers[peer].last_heard = now;
        }
        let framing = self.reliable().framing;
        let limit = self.reliable().max_message_size;
        let connection = &mut self.connections.slots[index as usize];
        if connection.phase != Phase::Open {
            return;
        }
        connection.heard = now;
        connection.probed = None;
        // Others have their turn before it.
        let waits = connection.more;
        // It is taken out while its messages are dealt with, and lost if they end the connection.
        let empty = FrameReader::new(framing, limit);
        let mut reader = core::mem::replace(&mut connection.reader, empty);
        self.connections.subtract_partial(from, reader.held());
        reader.push(bytes);
        if self.is_stream() && (waits || self.queued.bytes > QUEUED_BYTES) {
            return self.put_back(now, index, reader, true);
        }
        self.take_messages(now, index, reader);
    }

    /// Goes on with a stream that held more messages than are taken at once, if there is one; to be
    /// called when all that those led to has been polled.
    pub(super) fn take_more_messages(&mut self) -> bool {
        while let Some((index, serial)) = self.connections.more.pop_front() {
            let found = self.connections.slots.get_mut(index as usize);
            let Some(connection) = found.filter(|connection| connection.serial == serial) else {
                continue;
            };
            connection.more = false;
            let empty = FrameReader::new(Framing::Stream, 0);
            let reader = core::mem::replace(&mut connection.reader, empty);
            let from = connection.address;
            self.connections.subtract_partial(from, reader.held());
            self.take_messages(self.notified_at, index, reader);
            return true;
        }
        false
    }

    /// Deals with the messages in `reader`, which is that of a connection and was taken out of it.
    fn take_messages(&mut self, now: Instant, index: u32, mut reader: FrameReader) {
        let Connection {
            address: from,
            serial,
            ..
        } = self.connections.slots[index as usize];
        let mut more = true;
        for _ in 0..MESSAGES_AT_ONCE {
            if self.is_stream() {
                if self.queued.bytes > QUEUED_BYTES {
                    break;
                }
                if self.connections.slots[index as usize].is_to_wait(&reader) {
                    more = false;
                    break;
                }
            }
            let message = match reader.next() {
                Ok(Some(message)) => message,
                Ok(None) => {
                    more = false;
                    break;
                }
                Err(error) => {
                    self.trace(now, from, What::Malformed);
                    let text = alloc::format!("{error}");
                    return self.abort(now, from, Disconnect::BadMessage, None, &text);
                }
            };
            self.handle_framed(now, from, message);
            // It may have ended, and another begun in its place.
            if self.connections.serial(from) != Some(serial) {
                return;
            }
        }
        self.put_back(now, index, reader, more);
    }

    /// Gives a connection its reader back, and notes whether there may be `more` messages to take; if
    /// what it holds is too much, the connection is aborted.
    fn put_back(&mut self, now: Instant, index: u32, reader: FrameReader, more: bool) {
        let held = reader.held();
        let connection = &mut self.connections.slots[index as usize];
        let (from, serial) = (connection.address, connection.serial);
        connection.reader = reader;
        if more && !core::mem::replace(&mut connection.more, true) {
            self.connections.more.push_back((index, serial));
        }
        self.connections.add_partial(from, held);
        let limit = self.config.limits.partial_bytes;
        if !more && held > 0 && self.connections.holds_too_much(from, limit) {
            let text = "no room for this message now";
            return self.abort(now, from, Disconnect::NoRoom, None, text);
        }
        self.set_connection_timer(now, index);
    }

    fn handle_framed(&mut self, now: Instant, from: SocketAddr, bytes: &[u8]) {
        // An empty message is ignored whatever is in it (RFC 8323 3.4); where it ends is known.
        if bytes.get(1) == Some(&Code::EMPTY.0) {
            return;
        }
        self.counters.received.add(bytes.len());
        let message = match MessageView::parse_long(bytes) {
            Ok(message) => message,
            Err(error) => {
                self.counters.refused(Refusal::Malformed);
                self.trace(now, from, What::Malformed);
                let text = alloc::format!("{error}");
                return self.abort(now, from, Disconnect::BadMessage, None, &text);
            }
        };
        let code = message.code();
        if self.config.trace == Tracing::Everything {
            let what = What::Received {
                id: message.message_id(),
                kind: message.kind(),
                code,
                bytes: bytes.len() as u32,
            };
            self.trace(now, from, what);
        }
        if message.has_long_token() && !self.takes_token(from, &message) {
            self.counters.refused(Refusal::Malformed);
            let text = "token is longer than is taken";
            return self.abort(now, from, Disconnect::BadMessage, None, text);
        }
        if (code.is_request() || code == Code::PING) && self.reads_nothing(from) {
            let text = "answers are not read";
            return self.abort(now, from, Disconnect::NoRoom, None, text);
        }
        if code.is_signalling() {
            self.handle_signal(now, from, &message);
            return self.close_if_released(now, from);
        }
        if !self.introduce(now, from) {
            return;
        }
        if let Some(index) = self.connections.find(from) {
            self.connections.use_now(index, now);
        }
        if code.is_request() {
            match self.pace(now, from) {
                Pace::Within => self.handle_request(now, from, &message, false),
                pace => self.slow_down(now, from, &message, pace),
            }
        } else if code.is_response() {
            self.handle_response(now, from, &message);
        }
        self.close_if_released(now, from);
    }

    /// Notes that a peer asks for something; whether it has asked for much and read none of it.
    fn reads_nothing(&mut self, peer: SocketAddr) -> bool {
        let connection = self.connections.get_mut(peer);
        connection.is_some_and(|connection| {
            connection.unread += u32::from(connection.congested);
            connection.unread > UNREAD_MAX
        })
    }

    /// Notes that so many bytes were written for a peer.
    pub(super) fn count_unread(&mut self, peer: SocketAddr, bytes: usize) {
        if let Some(connection) = self.connections.get_mut(peer)
            && connection.congested
        {
            connection.unread_bytes = connection.unread_bytes.saturating_add(bytes);
        }
    }

    /// A connection has ended, or could not be made.
    pub fn disconnected(&mut self, now: Instant, peer: SocketAddr, why: Disconnect) {
        if let Some(index) = self.connections.find(peer) {
            self.forget(now, index, why);
        }
    }

    /// Closes a connection from our side; what was queued before still goes.
    pub(super) fn close(&mut self, now: Instant, index: u32, why: Disconnect) {
        let address = self.connections.slots[index as usize].address;
        self.out.push_back(Queued::Close(address));
        self.forget(now, index, why);
    }

    /// Tells the peer that a connection ends here, and why, and closes it.
    pub(super) fn abort(
        &mut self,
        now: Instant,
        peer: SocketAddr,
        why: Disconnect,
        bad_csm_option: Option<u16>,
        text: &str,
    ) {
        let Some(index) = self.connections.find(peer) else {
            return;
        };
        let signal = Signal::Abort {
            bad_csm_option,
            text,
        };
        self.send_signal(now, peer, &signal, &[]);
        self.close(now, index, why);
    }

    /// A connection is gone: what was under way on it ends, or waits for the next.
    fn forget(&mut self, now: Instant, index: u32, why: Disconnect) {
        let Connection {
            address,
            phase,
            waiting,
            timer,
            rest_until,
            ours,
            ..
        } = self.connections.remove(index);
        self.timers.remove(timer);
        // Who came to us is not gone to anyway.
        if let Some(until) = rest_until.filter(|&until| ours && until > now)
            && let Some(index) = self.add_connection(now, address)
        {
            let connection = &mut self.connections.slots[index as usize];
            connection.phase = Phase::Resting(until);
            let timer = connection.timer;
            self.timers.set(timer, until);
        }
        let was_open = phase == Phase::Open;
        if was_open {
            self.trace(now, address, What::Disconnected);
        }
        while let Some(timer) = self.assemblies.remove_of_peer(address) {
            self.timers.remove(timer);
        }
        let failure = if why == Disconnect::NotMade {
            Failure::Unreachable
        } else {
            Failure::Disconnected(why)
        };
        for id in waiting {
            if self.operation_lives(id) {
                self.fail_operation(now, id.index, failure);
            }
        }
        if let Some(peer) = self.peers.find(address) {
            self.connection_lost(now, peer, failure, was_open);
        }
    }

    /// The driver has (or has no longer) more of ours for this peer than it can send: new requests
    /// and notifications wait.
    pub fn set_congested(&mut self, now: Instant, peer: SocketAddr, congested: bool) {
        let Some(connection) = self.connections.get_mut(peer) else {
            return;
        };
        if core::mem::replace(&mut connection.congested, congested) != congested {
            connection.unread_bytes = 0;
        }
        connection.unread = 0;
        // Its requests may have waited for this.
        if !congested && connection.reader.held() > 0 && !connection.more {
            connection.more = true;
            let serial = connection.serial;
            if let Some(index) = self.connections.find(peer) {
                self.connections.more.push_back((index, serial));
            }
        }
        if !congested && let Some(peer) = self.peers.find(peer) {
            self.pump(now, peer);
        }
    }

    /// Asks a peer to close its connection when the requests under way are answered (RFC 8323 5.5).
    /// None of ours goes there any more. If the peer has not closed it
    /// [in time](Reliable::release_wait), we do.
    pub fn release(&mut self, now: Instant, peer: SocketAddr) {
        let Some(index) = self.connections.find(peer) else {
            return;
        };
        self.leave(now, index, Disconnect::Released);
    }

    fn leave(&mut self, now: Instant, index: u32, why: Disconnect) {
        let until = now + self.reliable().release_wait;
        let connection = &mut self.connections.slots[index as usize];
        if connection.phase != Phase::Open || connection.leaving.is_some() {
            return;
        }
        connection.leaving = Some((until, why));
        let peer = connection.address;
        let signal = Signal::Release {
            alternative: None,
            hold_off: None,
        };
        self.send_signal(now, peer, &signal, &[]);
        self.set_connection_timer(now, index);
    }

    /// Asks so all peers.
    pub fn release_all(&mut self, now: Instant) {
        let all: Vec<SocketAddr> = self
            .connections
            .slots
            .iter()
            .map(|(_, connection)| connection.address)
            .collect();
        for peer in all {
            self.release(now, peer);
        }
    }

    /// Closes a connection once nothing is under way on it, if the peer has released it, or has
    /// not closed it in time after we have.
    pub(super) fn close_if_released(&mut self, now: Instant, peer: SocketAddr) {
        let Some(index) = self.connections.find(peer) else {
            return;
        };
        let connection = &self.connections.slots[index as usize];
        let overdue = connection.leaving.filter(|&(until, _)| now >= until);
        let why = match overdue {
            Some((_, why)) => why,
            None if connection.released => Disconnect::Released,
            None => return,
        };
        if connection.phase == Phase::Open
            && connection.answering == 0
            && !self.has_outstanding(peer)
        {
            self.close(now, index, why);
        }
    }

    /// The request of this peer with this serial number has been answered.
    pub(super) fn request_answered(&mut self, now: Instant, peer: SocketAddr, serial: u32) {
        let Some(connection) = self.connections.get_mut(peer) else {
            return;
        };
        connection.answering = connection.answering.saturating_sub(1);
        let mut pongs = Vec::new();
        connection.pings.retain_mut(|ping| {
            if (serial.wrapping_sub(ping.serial) as i32) < 0 {
                ping.before = ping.before.saturating_sub(1);
            }
            if ping.before == 0 {
                pongs.push(core::mem::take(&mut ping.token));
            }
            ping.before > 0
        });
        for token in pongs {
            self.send_signal(now, peer, &Signal::Pong { custody: true }, &token);
        }
        self.close_if_released(now, peer);
    }

    /// A request of this peer waits for its answer.
    pub(super) fn request_waits(&mut self, peer: SocketAddr) {
        if let Some(connection) = self.connections.get_mut(peer) {
            connection.answering += 1;
        }
    }

    /// Puts a request aside until what its peer takes is known; false if too many are.
    pub(super) fn await_csm(&mut self, now: Instant, peer: SocketAddr, id: RequestId) -> bool {
        if !self.want_connection(now, peer) {
            return false;
        }
        let Some(connection) = self.connections.get_mut(peer) else {
            return false;
        };
        let room = connection.waiting.len() < WAITING_MAX;
        if room {
            connection.waiting.push(id);
        }
        room
    }

    /// Whether what a peer takes is known, or will not be.
    pub(super) fn is_introduced(&self, peer: SocketAddr) -> bool {
        let found = self.connections.find(peer);
        found.is_some_and(|index| self.connections.slots[index as usize].introduced)
    }

    /// Whether messages go both ways, and neither side has said Release.
    pub(super) fn takes_requests(&self, peer: SocketAddr) -> bool {
        let found = self.connections.find(peer);
        found.is_some_and(|index| {
            let connection = &self.connections.slots[index as usize];
            connection.phase == Phase::Open && !connection.is_released()
        })
    }

    fn has_outstanding(&self, peer: SocketAddr) -> bool {
        let found = self.peers.find(peer);
        found.is_some_and(|peer| self.peers[peer].outstanding > 0)
    }

    /// Whether nothing would be lost with a connection.
    fn is_unused(&self, connection: &Connection) -> bool {
        let users = self.peers.find(connection.address);
        let users = users.map_or(0, |peer| self.peers[peer].users);
        connection.answering == 0 && users == 0 && connection.waiting.is_empty()
    }

    /// Sets a connection's timer to the next time it is to be looked at.
    fn set_connection_timer(&mut self, now: Instant, index: u32) {
        let reliable = self.reliable();
        let (csm_wait, probe, idle) = (reliable.csm_wait, reliable.probe_after, reliable.idle);
        let connection = &self.connections.slots[index as usize];
        let mut due = Instant::FAR_FUTURE;
        if !connection.introduced {
            due = connection.since + csm_wait;
        }
        if let Some((until, _)) = connection.leaving
            && until > now
        {
            due = due.min(until);
        }
        if let Some(probe) = probe
            && self.has_outstanding(connection.address)
        {
            let silent_since = connection.probed.unwrap_or(connection.heard);
            due = due.min(silent_since + probe);
        } else if let Some(idle) = idle
            && connection.leaving.is_none()
            && self.is_unused(connection)
        {
            due = due.min(connection.used + idle);
        } else if let Some(interval) = probe.into_iter().chain(idle).min() {
            // Something is under way now; look again later.
            due = due.min(now + interval);
        }
        let timer = connection.timer;
        if due < Instant::FAR_FUTURE {
            self.timers
                .set(timer, due.max(now + Duration::from_micros(1)));
        } else {
            self.timers.cancel(timer);
        }
    }

    pub(super) fn handle_connection_timer(&mut self, now: Instant, index: u32) {
        let reliable = self.reliable();
        let (csm_wait, probe, idle) = (reliable.csm_wait, reliable.probe_after, reliable.idle);
        let required = reliable.csm_required;
        let connection = &mut self.connections.slots[index as usize];
        let address = connection.address;
        match connection.phase {
            Phase::Connecting => return,
            Phase::Resting(_) => {
                let connection = self.connections.remove(index);
                self.timers.remove(connection.timer);
                if let Some(peer) = self.peers.find(address) {
                    self.pump(now, peer);
                }
                return;
            }
            Phase::Open => {}
        }
        if !connection.introduced && now >= connection.since + csm_wait {
            if required {
                return self.abort(now, address, Disconnect::NoCsm, None, "no CSM came");
            }
            self.introduced(now, address);
            if self.connections.find(address) != Some(index) {
                return;
            }
        }
        self.close_if_released(now, address);
        if self.connections.find(address) != Some(index) {
            return;
        }
        let connection = &self.connections.slots[index as usize];
        let (heard, used, probed) = (connection.heard, connection.used, connection.probed);
        if let Some(probe) = probe
            && self.has_outstanding(address)
        {
            if let Some(asked) = probed {
                if now >= asked + probe {
                    return self.close(now, index, Disconnect::Dead);
                }
            } else if now >= heard + probe {
                self.connections.slots[index as usize].probed = Some(now);
                let ping = Signal::Ping { custody: false };
                self.send_signal(now, address, &ping, &[]);
            }
        } else if let Some(idle) = idle
            && now >= used + idle
            && self.connections.slots[index as usize].leaving.is_none()
            && self.is_unused(&self.connections.slots[index as usize])
        {
            return self.leave(now, index, Disconnect::Idle);
        }
        self.set_connection_timer(now, index);
    }
}
