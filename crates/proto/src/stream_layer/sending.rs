//! Transmission over a connection: sent once, matched by token.

use carob_cc::evidence::{Reason, Transmission};

use crate::address::PeerIndex;
use crate::carrier::Carrier;
use crate::codec::{EncodeError, MessageId, Type};
use crate::config::Tracing;
use crate::context::Context;
use crate::event::Failure;
use crate::message_layer::{Exchange, Purpose, State};
use crate::trace::TraceEvent;

impl Carrier {
    /// Sends messages of a peer's queue as its connection permits.
    pub(crate) fn pump_connection(&mut self, cx: &mut Context, peer: PeerIndex) {
        let window = cx.reliable().window;
        let address = self.peers[peer].address;
        let mut before = None;
        while let Some(index) = self.peers[peer].queue.next(&self.exchanges, before) {
            let purpose = self.exchanges[index as usize].purpose;
            let asks = purpose.operation().is_some();
            match self.may_send(cx, address, asks) {
                Some(true) if asks && self.peers[peer].outstanding >= window => {}
                // It was written for a higher limit, perhaps of another connection, or the limit is
                // not yet known.
                Some(true) if !self.fits_now(cx, index) => {
                    // Not failed yet: the CSM may permit more. Other messages may pass.
                    if asks && !self.has_csm(address) {
                        before = Some(index);
                        continue;
                    }
                    self.peers[peer].queue.take(&mut self.exchanges, before);
                    let failure = Failure::Encode(EncodeError::BufferTooSmall);
                    self.abandon(cx, index, Reason::Unreachable, failure);
                    before = None;
                    continue;
                }
                Some(true) => {
                    self.peers[peer].queue.take(&mut self.exchanges, before);
                    self.send_over_connection(cx, index);
                    continue;
                }
                // Requests wait for the next connection; other messages may be sent on this one.
                Some(false) if asks => {}
                Some(false) => return,
                None => {
                    self.peers[peer].queue.take(&mut self.exchanges, before);
                    let failure = Failure::Disconnected(super::Disconnect::NoRoom);
                    self.abandon(cx, index, Reason::Unreachable, failure);
                    // The resulting calls may have changed the queue.
                    before = None;
                    continue;
                }
            }
            before = Some(index);
        }
    }

    /// Returns whether a message, with its newest state, is within the peer's current limit.
    pub(crate) fn fits_now(&mut self, cx: &mut Context, index: u32) -> bool {
        self.refresh_notification(cx, index);
        self.settle_token(cx, index);
        let Exchange {
            peer,
            purpose,
            ref bytes,
            ..
        } = self.exchanges[index as usize];
        let room = self.capacity(cx, self.peers[peer].address).message;
        let Purpose::Notification { observer } = purpose else {
            return bytes.len() <= room;
        };
        if bytes.len() > room {
            // It was written for a higher limit; the notification may carry less of the state.
            let mut bytes = core::mem::take(&mut self.exchanges[index as usize].bytes);
            self.write_notification(cx, observer, &mut bytes);
            self.exchanges[index as usize].bytes = bytes;
        }
        self.exchanges[index as usize].bytes.len() <= room
    }

    pub(crate) fn send_over_connection(&mut self, cx: &mut Context, index: u32) {
        let timeout = cx.reliable().response_timeout;
        let timeout = self.suppressed_after(cx, index).unwrap_or(timeout);
        // There are no Message IDs; this one relates events to each other.
        let id = MessageId(cx.next_serial() as u16);
        let exchange = &mut self.exchanges[index as usize];
        debug_assert!(exchange.is_queued() && exchange.transmissions.is_empty());
        let peer = &mut self.peers[exchange.peer];
        exchange.id = Some(id);
        exchange.bytes[0] = exchange.bytes[0] & 0xcf | (Type::NonConfirmable as u8) << 4;
        // Exchanges that wait for a reply count against the window.
        let waits = exchange.purpose.operation().is_some();
        exchange.confirmable = waits;
        if waits {
            peer.outstanding += 1;
            peer.outstanding_bytes = peer
                .outstanding_bytes
                .saturating_add(exchange.in_flight_bytes());
            exchange.state = State::Waiting { counted: true };
            cx.timers.set(exchange.timer_id, cx.now + timeout);
        }
        exchange.transmissions.push(Transmission {
            at: cx.now,
            ..Transmission::default()
        });
        peer.tally.transmissions = peer.tally.transmissions.saturating_add(1);
        cx.counters.of_mut(exchange.purpose.kind()).transmissions += 1;
        let (at, to, bytes) = (exchange.peer, peer.address, exchange.bytes.len() as u32);
        let purpose = exchange.purpose.kind();
        let message = core::mem::take(&mut exchange.bytes);
        self.push_message(cx, to, &message);
        self.exchanges[index as usize].bytes = message;
        if cx.config.trace != Tracing::Off {
            let what = TraceEvent::Sent {
                id,
                kind: Type::NonConfirmable,
                retransmissions: 0,
                purpose,
                timeout: None,
                bytes,
            };
            cx.trace(to, what);
        }
        self.peers.sent(at, cx.now);
        if let Some(connection) = self.connections.find(to) {
            self.connections.touch(connection, cx.now);
            if waits {
                self.set_connection_timer(cx, connection);
            }
        }
        if !waits {
            // Nothing acknowledges a response or a notification here: the transport delivers it.
            self.retire(cx, index, false);
        }
    }

    /// Returns whether an exchange survives the connection: it waits for the next one, or has
    /// already completed.
    pub(crate) fn survives_connection(
        &mut self,
        cx: &mut Context,
        index: u32,
        was_open: bool,
    ) -> bool {
        let Some(exchange) = self.exchanges.get(index as usize) else {
            return true;
        };
        let queued = exchange.state == State::Queued;
        let ours = exchange.purpose.operation().is_some();
        // The server has lost the body of the next block.
        let next = matches!(
            exchange.purpose,
            Purpose::Request { block1: Some(block), .. } if block.number > 0
        );
        if was_open && ours && queued && !next {
            return true;
        }
        let resend = cx.reliable().resend;
        let again = was_open && resend && !exchange.resent && exchange.is_repeatable();
        if !again {
            return false;
        }
        debug_assert!(!queued && ours, "it waits or is not a request");
        self.release_window(index);
        let exchange = &mut self.exchanges[index as usize];
        let peer = exchange.peer;
        exchange.resent = true;
        exchange.state = State::Queued;
        // A round trip over the new connection starts with its own transmission.
        exchange.transmissions.clear();
        cx.timers.cancel(exchange.timer_id);
        self.peers[peer].queue.push(&mut self.exchanges, index);
        true
    }
}

impl Exchange {
    /// Returns whether it may be repeated on another connection: it is idempotent, and not part of
    /// a body that the server has reassembled for this connection.
    fn is_repeatable(&self) -> bool {
        let Purpose::Request { block1, block2, .. } = self.purpose else {
            return false;
        };
        self.request.idempotent
            && block1.is_none()
            && block2.is_none_or(|block2| block2.number == 0)
    }
}
