//! How exchanges end: answered, given up, refused, cancelled.

use alloc::vec::Vec;

use carob_cc::controller::Timer;
use carob_cc::evidence::{Abandoned, Reason, Signal};
use carob_cc::time::Instant;

use super::{Ended, Purpose, State};
use crate::endpoint::config::{ENDED_REMEMBERED, SPARE_BUFFERS, SPARE_BYTES};
use crate::endpoint::{Endpoint, Failure};
use crate::peer::PeerIndex;
use crate::trace::What;

impl Endpoint {
    /// Gives back what an exchange counted for in its peer's window.
    pub(in crate::endpoint) fn release_window(&mut self, index: u32) {
        let exchange = &self.exchanges[index as usize];
        let peer = &mut self.peers[exchange.peer];
        peer.outstanding = peer.outstanding.saturating_sub(1);
        peer.outstanding_bytes = peer
            .outstanding_bytes
            .saturating_sub(exchange.in_flight_bytes());
    }

    /// Ends an exchange without an answer, and the request it was part of.
    pub(in crate::endpoint) fn abandon(
        &mut self,
        now: Instant,
        index: u32,
        reason: Reason,
        failure: Failure,
    ) {
        let exchange = &self.exchanges[index as usize];
        let (peer, purpose, token) = (exchange.peer, exchange.purpose, exchange.token);
        let began = exchange.transmissions.first().map_or(now, |t| t.at);
        if matches!(failure, Failure::TimedOut { .. }) {
            self.doubt_session(peer);
            if token.is_long() && purpose.wants_response() {
                self.note_trial_lost(now, peer);
            }
        }
        self.tell_abandoned(now, index, reason);
        if let Some(observer) = purpose.observer() {
            self.forget_waiting(peer, observer, index);
        }
        self.end(now, index, true);
        if let Some(operation) = purpose.operation() {
            self.fail_operation(now, operation, failure);
        }
        if let Some(group) = purpose.group() {
            self.fail_group(now, group, failure);
        }
        // Who refuses a notification, or never acknowledges one, has no interest any more
        // (RFC 7641 4.5).
        if let Some(observer) = purpose.observer() {
            self.remove_observer(now, observer);
        } else if purpose == Purpose::Response {
            self.registration_refused(now, peer, &token, began);
        }
    }

    pub(in crate::endpoint) fn tell_abandoned(&mut self, now: Instant, index: u32, reason: Reason) {
        let parameters = self.exchange_parameters(index);
        let exchange = &self.exchanges[index as usize];
        let peer = &mut self.peers[exchange.peer];
        let retransmissions = exchange.retransmissions();
        self.counters
            .of_mut(exchange.purpose.kind())
            .give_up(reason);
        if exchange.state == State::Unacknowledged {
            let Timer { timeout, memo } = exchange.timer;
            let abandoned =
                Abandoned::new(now, &parameters, memo, reason, retransmissions, timeout);
            peer.congestion.controller().on_abandoned(&abandoned);
        }
        let (address, id) = (peer.address, exchange.id);
        self.trace(
            now,
            address,
            What::Abandoned {
                id,
                retransmissions,
            },
        );
    }

    /// Ends an exchange because nobody wants its answer any more.
    pub(in crate::endpoint) fn cancel_exchange(&mut self, now: Instant, index: u32) {
        let exchange = &self.exchanges[index as usize];
        if exchange.state == State::Queued {
            let peer = exchange.peer;
            self.peers[peer].queue.remove(&mut self.exchanges, index);
        } else {
            self.tell_abandoned(now, index, Reason::Cancelled);
        }
        self.end(now, index, true);
    }

    /// Every exchange with a peer ends: the network says it is not there.
    pub(in crate::endpoint) fn abandon_all(&mut self, now: Instant, peer: PeerIndex) {
        self.peers[peer]
            .congestion
            .controller()
            .on_signal(now, Signal::Unreachable);
        let ours = self.exchanges.iter().filter(|(_, e)| e.peer == peer);
        let all: Vec<u32> = ours.map(|(index, _)| index as u32).collect();
        for index in all {
            // Failing one operation may have ended other exchanges of this list already.
            let Some(exchange) = self.exchanges.get(index as usize) else {
                continue;
            };
            if exchange.state == State::Queued {
                self.peers[peer].queue.remove(&mut self.exchanges, index);
            }
            self.abandon(now, index, Reason::Unreachable, Failure::Unreachable);
        }
        while let Some(observer) = self
            .observers
            .first_of_peer(self.peers[peer].first_observer)
        {
            self.remove_observer(now, observer);
        }
    }

    /// Forgets an exchange and lets its peer's queue move on.
    pub(in crate::endpoint) fn end(&mut self, now: Instant, index: u32, abandoned: bool) {
        let peer = self.retire(index, abandoned);
        self.pump(now, peer);
        // What an answer leads to comes first: `handle_framed` looks again after it.
        if self.is_reliable() && abandoned {
            self.close_if_released(now, self.peers[peer].address);
        }
    }

    /// Forgets an exchange.
    pub(in crate::endpoint) fn retire(&mut self, index: u32, abandoned: bool) -> PeerIndex {
        self.release_aggregate(index);
        let state = self.exchanges[index as usize].state;
        if state == State::Queued {
            self.exchange_leaves(index);
        }
        if matches!(
            state,
            State::Unacknowledged | State::Waiting { counted: true }
        ) && (self.exchanges[index as usize].confirmable
            || self.exchanges[index as usize].purpose.wants_response())
        {
            self.release_window(index);
        }
        let exchange = self.exchanges.remove(index as usize);
        self.index.remove(&exchange, index);
        self.timers.remove(exchange.timer_id);
        let peer = &mut self.peers[exchange.peer];
        peer.users -= 1;
        if let Some(observer) = exchange.purpose.observer() {
            self.observers.leave(observer, index);
        }
        if let Some(operation) = exchange.purpose.operation() {
            self.leave_operation(operation, index);
        }
        if let Some(group) = exchange.purpose.group() {
            self.groups.leave(group);
        }
        if let (Some(id), Some(first)) = (exchange.id, exchange.transmissions.first())
            && exchange.transmissions.len() > 1
        {
            if self.ended.len() >= ENDED_REMEMBERED {
                self.ended.pop_front();
            }
            self.ended.push_back(Ended {
                kind: exchange.purpose.kind(),
                peer: self.peers[exchange.peer].address,
                id,
                token: exchange.token,
                counting: exchange.counting,
                named: exchange.named,
                began: first.at,
                sent: exchange.transmissions.len() as u8,
                answers: u8::from(!abandoned),
                abandoned,
            });
        }
        if exchange.purpose == Purpose::Response {
            self.responses -= 1;
        }
        self.spare_buffer(exchange.bytes);
        exchange.peer
    }

    /// Keeps a buffer for reuse.
    pub(in crate::endpoint) fn spare_buffer(&mut self, mut bytes: Vec<u8>) {
        if self.spare.len() < SPARE_BUFFERS && bytes.capacity() <= SPARE_BYTES {
            bytes.clear();
            self.spare.push(bytes);
        }
    }
}
