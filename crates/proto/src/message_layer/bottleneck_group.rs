//! Shared budgets of all peers behind one bottleneck ([`carob_cc::bottleneck_group`]), in front of
//! the peers' controllers.
//!
//! A message admitted by its peer's controller is checked here last. If the budget is exhausted,
//! its peer waits in a queue, and each peer sends one message at a time. A peer with many messages
//! therefore does not delay the others.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::SocketAddr;

use carob_cc::bottleneck_group::{
    BottleneckGroup, Constants, GroupPacketState, SendDecision, Sent, State,
};
use carob_cc::evidence::{Answered, Kind};

use crate::address::PeerIndex;
use crate::carrier::Carrier;
use crate::context::{Context, Owner};
use crate::message_layer::peer::Peers;
use crate::prefix::Prefix;
use crate::timers::{TimerId, Timers};

/// Bottleneck groups of an endpoint at most; further prefixes are ignored.
pub(crate) const AGGREGATES_MAX: usize = 64;

/// The index of no budget.
pub(crate) const NONE: u8 = u8::MAX;

/// A budget and its queue of peers.
#[derive(Debug)]
struct Shared {
    behind: Prefix,
    budget: BottleneckGroup,
    /// Peers whose next message waits for the budget.
    waiting: VecDeque<PeerIndex>,
    /// The peer next in the queue, until it has sent a message.
    turn: Option<PeerIndex>,
    timer: TimerId,
}

/// The budgets of an endpoint.
#[derive(Debug, Default)]
pub(crate) struct Aggregates {
    all: Vec<Shared>,
}

impl Aggregates {
    pub(crate) fn new(behind: &[Prefix], constants: Constants, timers: &mut Timers<Owner>) -> Self {
        let shared = |(number, behind): (usize, &Prefix)| Shared {
            behind: *behind,
            budget: BottleneckGroup::new(constants),
            waiting: VecDeque::new(),
            turn: None,
            timer: timers.add(Owner::BottleneckGroup(number as u8)),
        };
        let behind = behind.iter().take(AGGREGATES_MAX).enumerate();
        Self {
            all: behind.map(shared).collect(),
        }
    }

    /// The budget of a peer: that of its longest matching prefix.
    pub(crate) fn of(&self, peer: SocketAddr) -> u8 {
        let own = self.all.iter().enumerate();
        let own = own.filter(|(_, shared)| shared.behind.contains(peer.ip()));
        let longest = own.max_by_key(|(_, shared)| shared.behind.bits());
        longest.map_or(NONE, |(number, _)| number as u8)
    }

    fn get(&mut self, number: u8) -> Option<&mut Shared> {
        self.all.get_mut(usize::from(number))
    }

    /// Reports a reply to the budget.
    pub(crate) fn report_reply(
        &mut self,
        number: u8,
        bytes: u32,
        group_state: GroupPacketState,
        answered: &Answered<'_>,
    ) {
        if let Some(shared) = self.get(number)
            && answered.confirmable
        {
            let round_trip = answered.round_trip();
            (shared.budget).on_answered(answered.now, bytes, group_state, round_trip);
        }
    }

    /// Returns whether a NON notification of this peer's is to leave as CON.
    pub(crate) fn must_confirm(&self, number: u8, kind: Kind) -> bool {
        let shared = self.all.get(usize::from(number));
        kind == Kind::Notification && shared.is_some_and(|shared| shared.budget.must_confirm())
    }
}

impl Shared {
    /// Enqueues a peer: at the end, or at the front if it was next in the queue.
    fn wait(&mut self, peers: &mut Peers, index: PeerIndex) {
        let had_turn = self.turn == Some(index);
        if had_turn {
            self.turn = None;
        }
        let peer = &mut peers[index];
        if peer.waits_for_aggregate {
            return;
        }
        peer.waits_for_aggregate = true;
        if had_turn {
            self.waiting.push_front(index);
        } else {
            self.waiting.push_back(index);
        }
    }
}

impl Carrier {
    /// Returns whether the shared budget admits a message; otherwise the peer is queued.
    pub(crate) fn group_admits(
        &mut self,
        cx: &mut Context,
        peer: PeerIndex,
        bytes: u32,
        confirmable: bool,
    ) -> bool {
        let Some(shared) = self.aggregates.get(self.peers[peer].aggregate) else {
            return true;
        };
        if !shared.waiting.is_empty() && shared.turn != Some(peer) {
            shared.wait(&mut self.peers, peer);
            return false;
        }
        match shared.budget.leave(cx.now, bytes, confirmable) {
            SendDecision::Now => return true,
            SendDecision::At(time) => cx.timers.set(shared.timer, time),
            // The next reply triggers another attempt.
            SendDecision::Answered => {}
        }
        shared.wait(&mut self.peers, peer);
        false
    }

    /// Sends queued messages, one for each peer, while the budget lasts.
    pub(crate) fn pump_aggregate(&mut self, cx: &mut Context, number: u8) {
        // A peer that may not send is queued at the front again, which ends the loop; all others
        // have sent and used the budget.
        while let Some(shared) = self.aggregates.get(number)
            && let Some(peer) = shared.waiting.pop_front()
        {
            shared.turn = Some(peer);
            // An evicted peer's index may be reused or free.
            if let Some(known) = self.peers.get_mut(peer) {
                known.waits_for_aggregate = false;
                self.pump(cx, peer);
            }
            let Some(shared) = self.aggregates.get(number) else {
                return;
            };
            shared.turn = None;
            let waits = self.peers.get_mut(peer);
            if waits.is_some_and(|peer| peer.waits_for_aggregate)
                && shared.waiting.front() == Some(&peer)
            {
                return;
            }
        }
    }

    /// Charges a budget for a transmission.
    pub(crate) fn charge_aggregate(&mut self, cx: &mut Context, index: u32) {
        let exchange = &mut self.exchanges[index as usize];
        let peer = exchange.peer;
        let Some(shared) = self.aggregates.get(self.peers[peer].aggregate) else {
            return;
        };
        let bytes = exchange.bytes.len() as u32;
        let sent = match (exchange.confirmable, exchange.purpose.kind()) {
            (true, _) if exchange.transmissions.is_empty() => {
                exchange.budgeted = bytes;
                Sent::Confirmable
            }
            (true, _) => Sent::Again,
            (false, Kind::Notification) => Sent::Notification,
            (false, _) => Sent::Other,
        };
        let waiting = !shared.waiting.is_empty() || shared.turn == Some(peer);
        let group_state = shared.budget.on_sent(cx.now, bytes, sent, waiting);
        if sent == Sent::Confirmable {
            exchange.group_state = group_state;
        }
        // Its next message is queued at the end.
        if shared.turn == Some(peer) {
            shared.turn = None;
        }
        if let (false, SendDecision::At(time)) = (
            shared.waiting.is_empty(),
            shared.budget.leave(cx.now, bytes, false),
        ) {
            cx.timers.set(shared.timer, time);
        }
    }

    /// Returns the charge of a CON message to its budget.
    pub(crate) fn release_aggregate(&mut self, cx: &mut Context, index: u32) {
        let exchange = &mut self.exchanges[index as usize];
        let bytes = core::mem::take(&mut exchange.budgeted);
        if bytes == 0 {
            return;
        }
        if let Some(shared) = self.aggregates.get(self.peers[exchange.peer].aggregate) {
            shared.budget.on_ended(bytes);
            if !shared.waiting.is_empty() && cx.timers.deadline(shared.timer).is_none() {
                // Deferred to the next timer, so as not to reenter.
                cx.timers.set(shared.timer, cx.input_at);
            }
        }
    }

    /// Reports a timeout of a CON message to its budget.
    pub(crate) fn report_group_timeout(&mut self, cx: &mut Context, peer: PeerIndex) {
        if let Some(shared) = self.aggregates.get(self.peers[peer].aggregate) {
            shared.budget.on_lost(cx.now);
        }
    }

    /// The budgets: prefix, state and number of waiting peers.
    pub(crate) fn aggregates(&self) -> impl Iterator<Item = (Prefix, State, usize)> {
        let all = self.aggregates.all.iter();
        all.map(|shared| (shared.behind, shared.budget.state(), shared.waiting.len()))
    }
}
