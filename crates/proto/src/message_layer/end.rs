//! The end of exchanges: answered, given up, rejected, cancelled.

use alloc::vec::Vec;

use carob_cc::controller::Timer;
use carob_cc::evidence::{Abandoned, Reason, Signal};

use crate::address::PeerIndex;
use crate::carrier::{Carrier, Outcome};
use crate::codec::{MessageView, OptionNumber, TokenKey};
use crate::config::ENDED_REMEMBERED;
use crate::context::Context;
use crate::event::Failure;
use crate::message_layer::{Ended, Exchange, Purpose, State};
use crate::trace::TraceEvent;

impl Carrier {
    /// Releases an exchange from its peer's window.
    pub(crate) fn release_window(&mut self, index: u32) {
        let exchange = &self.exchanges[index as usize];
        let peer = &mut self.peers[exchange.peer];
        debug_assert!(peer.outstanding > 0, "exchange {index} was not counted");
        peer.outstanding = peer.outstanding.saturating_sub(1);
        peer.outstanding_bytes = peer
            .outstanding_bytes
            .saturating_sub(exchange.in_flight_bytes());
        debug_assert!(peer.outstanding > 0 || peer.outstanding_bytes == 0);
    }

    /// Ends an exchange without a reply, and its request.
    pub(crate) fn abandon(
        &mut self,
        cx: &mut Context,
        index: u32,
        reason: Reason,
        failure: Failure,
    ) {
        let exchange = &self.exchanges[index as usize];
        debug_assert!(exchange.is_queued() == exchange.transmissions.is_empty());
        let (peer, purpose, token) = (exchange.peer, exchange.purpose, exchange.token);
        let began = exchange.transmissions.first().map_or(cx.now, |t| t.at);
        let heard = self.peers[peer].last_heard > began;
        // A rejected reply is a better reason than none.
        let failure = match (failure, exchange.fault) {
            (Failure::TimedOut { .. }, Some(fault)) => fault.into(),
            _ => failure,
        };
        if matches!(failure, Failure::TimedOut { .. }) {
            self.suspect_session(cx, peer);
            if token.is_long() && purpose.wants_response() {
                self.on_token_trial_timeout(cx, peer);
            }
        }
        self.report_abandoned(cx, index, reason);
        // The notifications behind it go to the same observer, which takes no more.
        if let Some(observer) = purpose.observer() {
            self.forget_waiting(cx, peer, observer, index);
        }
        // Before `end`, which would send the next of them (RFC 9177 4.4: the transfer ends if a
        // CON block fails).
        if is_q_block2(&self.exchanges[index as usize]) {
            self.abandon_queued_blocks(cx, peer, &token, reason);
        }
        self.end(cx, index, true);
        if purpose.operation().is_some() || purpose.multicast().is_some() {
            self.report(Outcome::Failed {
                purpose,
                exchange: index,
                failure,
                heard,
            });
        }
        // A peer that rejects a notification, or never acknowledges one, is no longer interested
        // (RFC 7641 4.5).
        if let Some(observer) = purpose.observer() {
            self.remove_observer(cx, observer);
        } else if purpose == Purpose::Response {
            self.registration_refused(cx, peer, &token, began);
        }
    }

    /// Ends the queued blocks of a body by Q-Block2 whose receiver has not acknowledged one of them, or
    /// rejects it.
    fn abandon_queued_blocks(
        &mut self,
        cx: &mut Context,
        peer: PeerIndex,
        token: &TokenKey,
        reason: Reason,
    ) {
        let mut before = None;
        while let Some(next) = self.peers[peer].queue.next(&self.exchanges, before) {
            let exchange = &self.exchanges[next as usize];
            if exchange.token == *token && is_q_block2(exchange) {
                self.peers[peer].queue.take(&mut self.exchanges, before);
                self.report_abandoned(cx, next, reason);
                self.retire(cx, next, true);
            } else {
                before = Some(next);
            }
        }
    }

    pub(crate) fn report_abandoned(&mut self, cx: &mut Context, index: u32, reason: Reason) {
        let parameters = self.exchange_parameters(cx, index);
        let exchange = &self.exchanges[index as usize];
        let peer = &mut self.peers[exchange.peer];
        let retransmissions = exchange.retransmissions();
        cx.counters.of_mut(exchange.purpose.kind()).give_up(reason);
        let has_timer = match exchange.state {
            State::Unacknowledged => true,
            State::Waiting { .. } => exchange.is_reported(),
            State::Queued => false,
        };
        if has_timer {
            let Timer { timeout, state } = exchange.timer;
            let abandoned =
                Abandoned::new(cx.now, &parameters, state, reason, retransmissions, timeout);
            peer.congestion.controller().on_abandoned(&abandoned);
        }
        let (address, id) = (peer.address, exchange.id);
        cx.trace(
            address,
            TraceEvent::Abandoned {
                id,
                retransmissions,
            },
        );
    }

    /// Cancels an exchange whose response is no longer wanted, if it still has this purpose.
    pub(crate) fn cancel(
        &mut self,
        cx: &mut Context,
        index: u32,
        is_own: impl FnOnce(Purpose) -> bool,
    ) {
        let exchange = self.exchanges.get(index as usize);
        if exchange.is_some_and(|exchange| is_own(exchange.purpose)) {
            self.cancel_exchange(cx, index);
        }
    }

    /// Ends the exchange of a multicast request, if it exists: after the first response, or after
    /// the time for responses.
    pub(crate) fn end_multicast(&mut self, cx: &mut Context, index: u32, request: u32) {
        let exchange = self.exchanges.get(index as usize);
        if exchange.is_some_and(|exchange| exchange.purpose.multicast() == Some(request)) {
            self.end(cx, index, false);
        }
    }

    /// Returns whether the message of a multicast request is still queued.
    pub(crate) fn is_multicast_queued(&self, index: u32, request: u32) -> bool {
        let exchange = self.exchanges.get(index as usize);
        exchange.is_some_and(|exchange| {
            exchange.purpose.multicast() == Some(request) && exchange.is_queued()
        })
    }

    pub(crate) fn cancel_exchange(&mut self, cx: &mut Context, index: u32) {
        let exchange = &self.exchanges[index as usize];
        if exchange.state == State::Queued {
            debug_assert!(exchange.transmissions.is_empty(), "it is still to leave");
            let peer = exchange.peer;
            self.peers[peer].queue.remove(&mut self.exchanges, index);
        } else {
            self.count_silence(cx, index);
            self.report_abandoned(cx, index, Reason::Cancelled);
        }
        self.end(cx, index, true);
    }

    /// Reports to a peer's controller that the network calls it unreachable.
    pub(crate) fn signal_unreachable(&mut self, cx: &Context, peer: PeerIndex) {
        let controller = self.peers[peer].congestion.controller();
        controller.on_signal(cx.now, Signal::Unreachable);
    }

    /// The exchanges with a peer that satisfy the predicate.
    pub(crate) fn exchanges_with(
        &self,
        peer: PeerIndex,
        is: impl Fn(&Exchange) -> bool,
    ) -> Vec<u32> {
        let all = self.exchanges.iter();
        let of_peer = all.filter(|(_, exchange)| exchange.peer == peer && is(exchange));
        of_peer.map(|(index, _)| index as u32).collect()
    }

    /// Ends an exchange, if it is still there, because its peer cannot be reached.
    pub(crate) fn abandon_unreachable(&mut self, cx: &mut Context, index: u32, failure: Failure) {
        let Some(exchange) = self.exchanges.get(index as usize) else {
            return;
        };
        if exchange.state == State::Queued {
            let peer = exchange.peer;
            self.peers[peer].queue.remove(&mut self.exchanges, index);
        }
        self.abandon(cx, index, Reason::Unreachable, failure);
    }

    /// Removes all observers of a peer.
    pub(crate) fn remove_observers_of(&mut self, cx: &mut Context, peer: PeerIndex) {
        while let Some(observer) = self
            .notifications
            .observers
            .first_of_peer(self.peers[peer].first_observer)
        {
            self.remove_observer(cx, observer);
        }
    }

    /// Removes an exchange and continues its peer's queue.
    pub(crate) fn end(&mut self, cx: &mut Context, index: u32, abandoned: bool) {
        let peer = self.retire(cx, index, abandoned);
        self.pump(cx, peer);
        // The consequences of an answer come first: `on_frame` looks again after it.
        if abandoned {
            self.close_if_released(cx, self.peers[peer].address);
        }
    }

    /// Removes an exchange.
    pub(crate) fn retire(&mut self, cx: &mut Context, index: u32, abandoned: bool) -> PeerIndex {
        debug_assert!(
            self.exchanges.contains(index as usize),
            "exchange {index} has ended"
        );
        self.release_aggregate(cx, index);
        let state = self.exchanges[index as usize].state;
        if state == State::Queued {
            self.on_dequeued(index);
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
        if exchange.is_presumed_received() {
            let peer = &mut self.peers[exchange.peer];
            debug_assert!(peer.presumed > 0, "it was counted");
            peer.presumed -= 1;
        }
        self.index.remove(&exchange, index);
        cx.timers.remove(exchange.timer_id);
        let same = |id| self.index.find_id(&self.exchanges, exchange.peer, id);
        debug_assert!(
            exchange.id.and_then(same) != Some(index),
            "indexed after its end"
        );
        debug_assert!(exchange.budgeted == 0, "its part of the budget is returned");
        let peer = &mut self.peers[exchange.peer];
        debug_assert!(peer.users > 0, "an exchange counts as a user");
        peer.users -= 1;
        if let Some(observer) = exchange.purpose.observer() {
            self.notifications.observers.leave(observer, index);
        }
        if let (Some(id), Some(first)) = (exchange.id, exchange.transmissions.first())
            // Only after a retransmission can a later reply show that one was spurious.
            && exchange.transmissions.len() > 1
        {
            if self.ended.len() >= ENDED_REMEMBERED {
                self.ended.pop_front();
            }
            self.ended.push_back(Ended {
                kind: exchange.purpose.kind(),
                // By address: the index may name another peer by the time of a late reply.
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
            debug_assert!(self.ended.len() <= ENDED_REMEMBERED);
        }
        if exchange.purpose == Purpose::Response {
            debug_assert!(self.responses > 0, "a response was counted");
            self.responses -= 1;
            let source = cx.quota_policy.source(self.peers[exchange.peer].address);
            self.response_shares.subtract(source, 1);
        }
        cx.spare_buffer(exchange.bytes);
        self.check_peer(exchange.peer);
        exchange.peer
    }
}

/// Returns whether an exchange carries a block by Q-Block2 of a response.
fn is_q_block2(exchange: &Exchange) -> bool {
    exchange.purpose == Purpose::Response
        && MessageView::parse(&exchange.bytes)
            .is_ok_and(|message| message.option(OptionNumber::Q_BLOCK2).is_some())
}
