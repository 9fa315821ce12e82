//! Messages of ours over a connection: sent once, answered by token or not at all.

use alloc::vec::Vec;

use carob_cc::evidence::{Reason, Transmission};
use carob_cc::time::Instant;

use super::Endpoint;
use crate::codec::{EncodeError, MessageId, Type};
use crate::endpoint::exchange::{Exchange, Purpose, State};
use crate::endpoint::{Failure, Tracing};
use crate::peer::PeerIndex;
use crate::trace::What;

impl Endpoint {
    /// Lets messages of a peer's queue go as its connection allows.
    pub(in crate::endpoint) fn pump_connection(&mut self, now: Instant, peer: PeerIndex) {
        let window = self.reliable().window;
        let address = self.peers[peer].address;
        let mut before = None;
        while let Some(index) = self.peers[peer].queue.next(&self.exchanges, before) {
            let purpose = self.exchanges[index as usize].purpose;
            let asks = purpose.operation().is_some();
            match self.may_send(now, address, asks) {
                Some(true) if asks && self.peers[peer].outstanding >= window => {}
                // It was written when more was taken, perhaps over another connection, or this one
                // has yet to say what it takes.
                Some(true) if !self.fits_now(now, index) => {
                    if asks && !self.is_introduced(address) {
                        before = Some(index);
                        continue;
                    }
                    self.peers[peer].queue.take(&mut self.exchanges, before);
                    let failure = Failure::Encode(EncodeError::BufferTooSmall);
                    self.abandon(now, index, Reason::Unreachable, failure);
                    before = None;
                    continue;
                }
                Some(true) => {
                    self.peers[peer].queue.take(&mut self.exchanges, before);
                    self.send_over_connection(now, index);
                    continue;
                }
                // Requests wait for the next connection; what else there is may go on this one.
                Some(false) if asks => {}
                Some(false) => return,
                None => {
                    self.peers[peer].queue.take(&mut self.exchanges, before);
                    let failure = Failure::Disconnected(super::Disconnect::NoRoom);
                    self.abandon(now, index, Reason::Unreachable, failure);
                    // What that led to may have changed the queue.
                    before = None;
                    continue;
                }
            }
            before = Some(index);
        }
    }

    /// Whether a message, with the newest that it has to tell, is no longer than its peer takes now.
    fn fits_now(&mut self, now: Instant, index: u32) -> bool {
        self.bring_up_to_date(now, index);
        self.settle_token(index);
        let Exchange {
            peer,
            purpose,
            ref bytes,
            ..
        } = self.exchanges[index as usize];
        let room = self.capacity(self.peers[peer].address).message;
        let Purpose::Notification { observer } = purpose else {
            return bytes.len() <= room;
        };
        if bytes.len() > room {
            // It was written when more was taken; of a state, less can be told.
            let mut bytes = core::mem::take(&mut self.exchanges[index as usize].bytes);
            self.write_notification(now, observer, &mut bytes);
            self.exchanges[index as usize].bytes = bytes;
        }
        self.exchanges[index as usize].bytes.len() <= room
    }

    fn send_over_connection(&mut self, now: Instant, index: u32) {
        let timeout = self.reliable().response_timeout;
        let timeout = self.unanswered_after(index).unwrap_or(timeout);
        // There are no Message IDs; events that belong together have one in common all the same.
        let id = MessageId(self.next_serial() as u16);
        let exchange = &mut self.exchanges[index as usize];
        let peer = &mut self.peers[exchange.peer];
        exchange.id = Some(id);
        exchange.bytes[0] = exchange.bytes[0] & 0xcf | (Type::NonConfirmable as u8) << 4;
        // What counts against the window is what waits for an answer.
        let waits = exchange.purpose.operation().is_some();
        exchange.confirmable = waits;
        if waits {
            peer.outstanding += 1;
            peer.outstanding_bytes = peer
                .outstanding_bytes
                .saturating_add(exchange.in_flight_bytes());
            exchange.state = State::Waiting { counted: true };
            self.timers.set(exchange.timer_id, now + timeout);
        }
        exchange.transmissions.push(Transmission {
            at: now,
            ..Transmission::default()
        });
        peer.tally.transmissions = peer.tally.transmissions.saturating_add(1);
        self.counters.of_mut(exchange.purpose.kind()).transmissions += 1;
        let (at, to, bytes) = (exchange.peer, peer.address, exchange.bytes.len() as u32);
        let purpose = exchange.purpose.kind();
        let message = core::mem::take(&mut exchange.bytes);
        self.push_message(to, &message);
        self.exchanges[index as usize].bytes = message;
        if self.config.trace != Tracing::Off {
            let what = What::Sent {
                id,
                kind: Type::NonConfirmable,
                retransmissions: 0,
                purpose,
                timeout: None,
                bytes,
            };
            self.trace(now, to, what);
        }
        self.peers.sent(at, now);
        if let Some(connection) = self.connections.find(to) {
            self.connections.use_now(connection, now);
            if waits {
                self.set_connection_timer(now, connection);
            }
        }
        if !waits {
            self.retire(index, false);
        }
    }

    /// The connection with a peer has ended: observers go with it, requests that were not sent, or
    /// can be sent again, wait for the next, and the others fail.
    pub(super) fn connection_lost(
        &mut self,
        now: Instant,
        peer: PeerIndex,
        failure: Failure,
        was_open: bool,
    ) {
        while let Some(observer) = self
            .observers
            .first_of_peer(self.peers[peer].first_observer)
        {
            self.remove_observer(now, observer);
        }
        let resend = self.reliable().resend;
        let ours = self.exchanges.iter().filter(|(_, e)| e.peer == peer);
        let all: Vec<u32> = ours.map(|(index, _)| index as u32).collect();
        for index in all {
            // Failing one operation may have ended other exchanges of this list already.
            let Some(exchange) = self.exchanges.get(index as usize) else {
                continue;
            };
            let queued = exchange.state == State::Queued;
            let ours = exchange.purpose.operation().is_some();
            // The server has forgotten the body that this would be the next block of.
            let next = matches!(
                exchange.purpose,
                Purpose::Request { block1: Some(block), .. } if block.number > 0
            );
            if was_open && ours && queued && !next {
                continue;
            }
            let again = was_open && resend && !exchange.resent && self.is_repeatable(index);
            if again {
                self.release_window(index);
                let exchange = &mut self.exchanges[index as usize];
                exchange.resent = true;
                exchange.state = State::Queued;
                exchange.transmissions.clear();
                self.timers.cancel(exchange.timer_id);
                self.peers[peer].queue.push(&mut self.exchanges, index);
                continue;
            }
            if queued {
                self.peers[peer].queue.remove(&mut self.exchanges, index);
            }
            self.abandon(now, index, Reason::Unreachable, failure);
        }
        self.observations_lost(now, peer, failure);
        self.pump(now, peer);
    }

    /// Whether a message may be sent once more on another connection: what it asks for is done
    /// twice as well as once, and it is no part of what the server has put together for this
    /// connection.
    fn is_repeatable(&self, index: u32) -> bool {
        let Purpose::Request {
            operation,
            block1,
            block2,
        } = self.exchanges[index as usize].purpose
        else {
            return false;
        };
        let first = |number: Option<u32>| number.is_none_or(|number| number == 0);
        self.operation_is_idempotent(operation)
            && block1.is_none()
            && first(block2.map(|block| block.number))
    }
}
