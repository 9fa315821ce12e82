//! Connections: the replacement of the message layer over reliable transports (RFC 8323).
//!
//! With [`Config::reliable`](super::Config::reliable) the peers of an endpoint are connections. The
//! driver makes them after [`Output::Connect`](super::Output::Connect) and reports them with
//! [`Endpoint::connected`]. It passes received bytes to [`Endpoint::handle_stream`] and reports the
//! end with [`Endpoint::disconnected`]. Requests, blocks and observations are the same as over
//! datagrams.

mod connection;
mod input;
mod sending;
mod signals;

use alloc::vec::Vec;
use core::net::SocketAddr;

use carob_cc::time::{Duration, Instant};

use crate::carrier::{Carrier, Outcome};
use crate::codec::{BASE_TOKEN_LENGTH, FrameReader, Framing, Signal};
use crate::config::StreamConfig;
use crate::context::{Context, Owner, Queued};
use crate::event::{Disconnect, Failure, RequestId};
use crate::stream_layer::connection::{
    Activity, Backlog, Capabilities, Connection, Input, Origin, Phase, Release, Serving,
};
use crate::trace::TraceEvent;

pub(crate) use crate::stream_layer::connection::Connections;
pub(crate) use crate::stream_layer::input::NextMessage;

/// Large requests that may wait for a peer's CSM.
const WAITING_MAX: usize = 1_024;
/// Pings with Custody held on one connection; further ones get a Pong without it at once.
const PINGS_HELD: usize = 8;
/// Requests and Pings accepted from a peer that reads no responses; the next one aborts its
/// connection. This bounds the output for such a peer.
const UNREAD_MAX: u32 = 1_024;
/// Bytes written to a congested connection before the peer's requests are held back. Bounds the
/// output to one message more, regardless of the requests in one read.
const UNREAD_BYTES: usize = 64 << 10;
/// Messages processed from a stream before the resulting output is polled. One read may hold
/// thousands of requests, whose responses must not all be in memory.
const MESSAGES_AT_ONCE: usize = 32;
/// The least usable limit of a peer, in bytes: a block of 16 bytes with head, token and block
/// options. A peer with a lower limit cannot be served.
const LEAST_MESSAGE_SIZE: u32 = 64;

impl Context {
    /// The configuration of connections, present only over reliable transports.
    fn reliable(&self) -> &StreamConfig {
        self.config
            .reliable
            .as_ref()
            .expect("only endpoints over reliable transports have connections")
    }

    /// Returns whether messages are parts of a byte stream, which may be processed later. WebSocket
    /// messages are processed on receipt.
    fn is_byte_stream(&self) -> bool {
        self.reliable().framing == Framing::Stream
    }
}

impl Carrier {
    /// Handles a connection with `peer`, [requested](super::Output::Connect) or accepted. Returns
    /// false if the table is full; the driver is to close it.
    pub(crate) fn connected(&mut self, cx: &mut Context, peer: SocketAddr) -> bool {
        if !cx.is_stream() {
            return false;
        }
        let index = match self.connections.find(peer) {
            Some(index) => index,
            None if self.connections.is_at_quota(peer) => return false,
            None => match self.add_connection(cx, peer, Origin::Peer) {
                Some(index) => index,
                None => return false,
            },
        };
        let limit = cx.reliable().max_message_size;
        let framing = cx.reliable().framing;
        let connection = &mut self.connections[index];
        if connection.phase == Phase::Open {
            return false; // one address, one connection
        }
        connection.phase = Phase::Open;
        // Nothing of an earlier connection may stay: its last bytes could be half a message.
        connection.input.reader = FrameReader::new(framing, limit);
        connection.activity = Activity::at(cx.now);
        cx.trace(peer, TraceEvent::Connected);
        let longest = cx.longest_token();
        let csm = Signal::Csm {
            max_message_size: Some(limit),
            block_wise: cx.reliable().block_wise,
            // The base value is not announced (RFC 8974 2.2.1).
            extended_token_length: (longest > BASE_TOKEN_LENGTH).then_some(longest as u32),
        };
        // Before anything else, and without waiting for the CSM of the peer (RFC 8323 3.3).
        self.send_signal(cx, peer, &csm, &[]);
        self.set_connection_timer(cx, index);
        if let Some(peer) = self.peers.find(peer) {
            self.pump(cx, peer);
        }
        true
    }

    pub(crate) fn add_connection(
        &mut self,
        cx: &mut Context,
        address: SocketAddr,
        origin: Origin,
    ) -> Option<u32> {
        if self.connections.is_full() {
            let unused = self
                .connections
                .longest_unused(|connection| self.is_unused(connection))?;
            // Only an unused one is closed: an attacker cannot push out connections that are in
            // use.
            self.close(cx, unused, Disconnect::NoRoom);
        }
        // Its index is known only after it is added, which gives the timer to it.
        let timer = cx.timers.add(Owner::Connection(0));
        let framing = cx.reliable().framing;
        let serial = cx.next_serial();
        let index = self.connections.add(Connection {
            address,
            serial,
            phase: Phase::Connecting,
            origin,
            input: Input {
                reader: FrameReader::new(framing, cx.reliable().max_message_size),
                more: false,
            },
            capabilities: Capabilities::default(),
            backlog: Backlog::default(),
            release: Release::default(),
            serving: Serving::default(),
            waiting: Vec::new(),
            timer,
            activity: Activity::at(cx.now),
        });
        cx.timers.give(timer, Owner::Connection(index));
        debug_assert!(self.connections.find(address) == Some(index));
        debug_assert!(self.connections.len() <= cx.config.limits.connections.max(1));
        Some(index)
    }

    /// Requests a connection with `peer` from the driver if there is none; false if the table is
    /// full.
    pub(crate) fn want_connection(&mut self, cx: &mut Context, peer: SocketAddr) -> bool {
        if self.connections.find(peer).is_some() {
            return true;
        }
        if self.add_connection(cx, peer, Origin::Own).is_none() {
            return false;
        }
        cx.out.push(Queued::Connect(peer));
        true
    }
}

impl Carrier {
    /// Handles the end of a connection, or the failure to make it.
    pub(crate) fn disconnected(&mut self, cx: &mut Context, peer: SocketAddr, why: Disconnect) {
        if let Some(index) = self.connections.find(peer) {
            self.forget(cx, index, why);
        }
    }

    /// Closes a connection; queued output is still sent.
    pub(crate) fn close(&mut self, cx: &mut Context, index: u32, why: Disconnect) {
        let address = self.connections[index].address;
        cx.out.push(Queued::Close(address));
        self.forget(cx, index, why);
    }

    /// Sends Abort with a reason, and closes the connection.
    pub(crate) fn abort(
        &mut self,
        cx: &mut Context,
        peer: SocketAddr,
        why: Disconnect,
        bad_csm_option: Option<u16>,
        text: &str,
    ) {
        let Some(index) = self.connections.find(peer) else {
            return;
        };
        // RFC 8323 5.6: it names the reason before the connection is closed.
        let signal = Signal::Abort {
            bad_csm_option,
            text,
        };
        self.send_signal(cx, peer, &signal, &[]);
        self.close(cx, index, why);
    }

    /// Removes a connection: its exchanges end, or wait for the next one.
    pub(crate) fn forget(&mut self, cx: &mut Context, index: u32, why: Disconnect) {
        let Connection {
            address,
            phase,
            waiting,
            timer,
            release,
            origin,
            ..
        } = self.connections.remove(index);
        cx.timers.remove(timer);
        // Peers that made the connection are not contacted anyway.
        let rests = |until: &Instant| origin == Origin::Own && *until > cx.now;
        if let Some(until) = release.hold_off.filter(rests)
            && let Some(index) = self.add_connection(cx, address, Origin::HoldOff)
        {
            let connection = &mut self.connections[index];
            connection.phase = Phase::Resting(until);
            let timer = connection.timer;
            cx.timers.set(timer, until);
        }
        let was_open = phase == Phase::Open;
        if was_open {
            cx.trace(address, TraceEvent::Disconnected);
        }
        let failure = if why == Disconnect::NotMade {
            Failure::Unreachable
        } else {
            Failure::Disconnected(why)
        };
        if let Some(peer) = self.peers.find(address) {
            // RFC 8323 7.4: the observers of a connection go with it.
            self.remove_observers_of(cx, peer);
        }
        debug_assert!(
            self.connections
                .find(address)
                .is_none_or(|own| { matches!(self.connections[own].phase, Phase::Resting(_)) })
        );
        self.report(Outcome::Disconnected {
            peer: address,
            waiting,
            failure,
            was_open,
        });
    }

    /// Sets whether the driver has more output for this peer than it can send. New requests and
    /// notifications then wait.
    pub(crate) fn set_congested(&mut self, cx: &mut Context, peer: SocketAddr, congested: bool) {
        let Some(connection) = self.connections.get_mut(peer) else {
            return;
        };
        // A report that changes nothing must not forget what was written since.
        let bytes = if connection.backlog.congested == congested {
            connection.backlog.bytes
        } else {
            0
        };
        connection.backlog = Backlog {
            congested,
            requests: 0,
            bytes,
        };
        // Its requests may be held back by this.
        if !congested && connection.input.reader.held() > 0 && !connection.input.more {
            connection.input.more = true;
            let serial = connection.serial;
            if let Some(index) = self.connections.find(peer) {
                self.connections.more.push_back((index, serial));
            }
        }
        if !congested && let Some(peer) = self.peers.find(peer) {
            self.pump(cx, peer);
        }
    }

    /// Sends a Release: the peer is to close its connection after the requests in progress (RFC 8323
    /// 5.5). New requests no longer use it. After [the timeout](StreamConfig::release_wait) this
    /// endpoint closes it.
    pub(crate) fn release(&mut self, cx: &mut Context, peer: SocketAddr) {
        let Some(index) = self.connections.find(peer) else {
            return;
        };
        self.leave(cx, index, Disconnect::Released);
    }

    pub(crate) fn leave(&mut self, cx: &mut Context, index: u32, why: Disconnect) {
        let until = cx.now + cx.reliable().release_wait;
        let connection = &mut self.connections[index];
        // A second Release would restart the wait, so that the connection never closes.
        if connection.phase != Phase::Open || connection.release.own.is_some() {
            return;
        }
        debug_assert!(until >= cx.now, "it is over");
        connection.release.own = Some((until, why));
        let peer = connection.address;
        let signal = Signal::Release {
            alternative: None,
            hold_off: None,
        };
        self.send_signal(cx, peer, &signal, &[]);
        self.set_connection_timer(cx, index);
    }

    /// Sends a Release to all peers.
    pub(crate) fn release_all(&mut self, cx: &mut Context) {
        let all: Vec<SocketAddr> = self
            .connections
            .iter()
            .map(|connection| connection.address)
            .collect();
        for peer in all {
            self.release(cx, peer);
        }
    }

    /// Closes a connection without requests in progress, if the peer has released it, or has not
    /// closed it in time after a Release.
    pub(crate) fn close_if_released(&mut self, cx: &mut Context, peer: SocketAddr) {
        let Some(index) = self.connections.find(peer) else {
            return;
        };
        let connection = &self.connections[index];
        let overdue = connection.release.own.filter(|&(until, _)| cx.now >= until);
        let why = match overdue {
            Some((_, why)) => why,
            None if connection.release.by_peer => Disconnect::Released,
            None => return,
        };
        if connection.phase == Phase::Open
            && connection.serving.requests == 0
            && !self.has_outstanding(peer)
        {
            self.close(cx, index, why);
        }
    }

    /// Records the response to the request of this peer with this serial number.
    pub(crate) fn request_answered(&mut self, cx: &mut Context, peer: SocketAddr, serial: u32) {
        let Some(connection) = self.connections.get_mut(peer) else {
            return;
        };
        let serving = &mut connection.serving;
        debug_assert!(serving.requests > 0, "a request was counted");
        debug_assert!(serving.pings.len() <= PINGS_HELD);
        serving.requests = serving.requests.saturating_sub(1);
        let mut pongs = Vec::new();
        serving.pings.retain_mut(|ping| {
            // Serial numbers wrap; the sign of the difference shows which is earlier.
            if (serial.wrapping_sub(ping.serial) as i32) < 0 {
                ping.before = ping.before.saturating_sub(1);
            }
            if ping.before == 0 {
                pongs.push(core::mem::take(&mut ping.token));
            }
            ping.before > 0
        });
        for token in pongs {
            self.send_signal(cx, peer, &Signal::Pong { custody: true }, &token);
        }
        self.close_if_released(cx, peer);
    }

    /// Records that a request of this peer has no response yet.
    pub(crate) fn request_waits(&mut self, peer: SocketAddr) {
        if let Some(connection) = self.connections.get_mut(peer) {
            connection.serving.requests += 1;
        }
    }

    /// Holds a request until the capacity of its peer is known; false at the limit.
    pub(crate) fn await_csm(&mut self, cx: &mut Context, peer: SocketAddr, id: RequestId) -> bool {
        if !self.want_connection(cx, peer) {
            return false;
        }
        let Some(connection) = self.connections.get_mut(peer) else {
            return false;
        };
        let room = connection.waiting.len() < WAITING_MAX;
        if room {
            connection.waiting.push(id);
        }
        debug_assert!(connection.waiting.len() <= WAITING_MAX);
        room
    }

    /// Returns whether the capacity of a peer is known or no longer awaited.
    pub(crate) fn has_csm(&self, peer: SocketAddr) -> bool {
        let found = self.connections.find(peer);
        found.is_some_and(|index| self.connections[index].capabilities.known)
    }

    /// Returns whether the connection is open, and neither side has sent Release.
    pub(crate) fn takes_requests(&self, peer: SocketAddr) -> bool {
        let found = self.connections.find(peer);
        found.is_some_and(|index| {
            let connection = &self.connections[index];
            connection.phase == Phase::Open && !connection.is_released()
        })
    }

    pub(crate) fn has_outstanding(&self, peer: SocketAddr) -> bool {
        let found = self.peers.find(peer);
        found.is_some_and(|peer| self.peers[peer].outstanding > 0)
    }

    /// Returns whether the connection can be closed without loss.
    fn is_unused(&self, connection: &Connection) -> bool {
        let users = self.peers.find(connection.address);
        let users = users.map_or(0, |peer| self.peers[peer].users);
        connection.serving.requests == 0 && users == 0 && connection.waiting.is_empty()
    }

    /// Sets a connection's timer to its next deadline.
    pub(crate) fn set_connection_timer(&mut self, cx: &mut Context, index: u32) {
        let reliable = cx.reliable();
        let (csm_wait, probe, idle) = (reliable.csm_wait, reliable.probe_after, reliable.idle);
        let connection = &self.connections[index];
        let mut due = Instant::FAR_FUTURE;
        if !connection.capabilities.known {
            due = connection.activity.since + csm_wait;
        }
        if let Some((until, _)) = connection.release.own
            && until > cx.now
        {
            due = due.min(until);
        }
        if let Some(probe) = probe
            && self.has_outstanding(connection.address)
        {
            let silent_since = connection
                .activity
                .probed
                .unwrap_or(connection.activity.heard);
            due = due.min(silent_since + probe);
        } else if let Some(idle) = idle
            && connection.release.own.is_none()
            && self.is_unused(connection)
        {
            due = due.min(connection.activity.used + idle);
        } else if let Some(interval) = probe.into_iter().chain(idle).min() {
            // Something is in progress now; checked again later.
            due = due.min(cx.now + interval);
        }
        let timer = connection.timer;
        if due < Instant::FAR_FUTURE {
            cx.timers
                // At least a microsecond ahead: a timer for now would be served in the same call,
                // without end.
                .set(timer, due.max(cx.now + Duration::from_micros(1)));
        } else {
            cx.timers.cancel(timer);
        }
    }

    pub(crate) fn handle_connection_timer(&mut self, cx: &mut Context, index: u32) {
        let reliable = cx.reliable();
        let (csm_wait, probe, idle) = (reliable.csm_wait, reliable.probe_after, reliable.idle);
        let required = reliable.csm_required;
        let connection = &mut self.connections[index];
        let address = connection.address;
        match connection.phase {
            Phase::Connecting => return,
            Phase::Resting(_) => {
                let connection = self.connections.remove(index);
                cx.timers.remove(connection.timer);
                if let Some(peer) = self.peers.find(address) {
                    self.pump(cx, peer);
                }
                return;
            }
            Phase::Open => {}
        }
        if !connection.capabilities.known && cx.now >= connection.activity.since + csm_wait {
            if required {
                return self.abort(cx, address, Disconnect::NoCsm, None, "no CSM was received");
            }
            self.on_csm(address);
            // The call above may have closed it, and the index may be another connection's.
            if self.connections.find(address) != Some(index) {
                return;
            }
        }
        self.close_if_released(cx, address);
        if self.connections.find(address) != Some(index) {
            return;
        }
        let connection = &self.connections[index];
        let Activity {
            heard,
            used,
            probed,
            ..
        } = connection.activity;
        if let Some(probe) = probe
            && self.has_outstanding(address)
        {
            if let Some(asked) = probed {
                if cx.now >= asked + probe {
                    return self.close(cx, index, Disconnect::Dead);
                }
            } else if cx.now >= heard + probe {
                self.connections[index].activity.probed = Some(cx.now);
                let ping = Signal::Ping { custody: false };
                self.send_signal(cx, address, &ping, &[]);
            }
        } else if let Some(idle) = idle
            && cx.now >= used + idle
            && self.connections[index].release.own.is_none()
            && self.is_unused(&self.connections[index])
        {
            return self.leave(cx, index, Disconnect::Idle);
        }
        self.set_connection_timer(cx, index);
    }
}
