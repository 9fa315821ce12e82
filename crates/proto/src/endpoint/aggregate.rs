//! Budgets over all peers behind one bottleneck ([`carob_cc::aggregate`]), in front of the peers'
//! controllers.
//!
//! A message that its peer's controller would let go asks here last. If it may not leave, its peer
//! waits in a row of peers, each of which sends one message when its turn comes: a peer with much to
//! say does not keep others waiting.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::SocketAddr;

use carob_cc::aggregate::{Aggregate, Constants, Leave, Mark, Sent, State};
use carob_cc::evidence::{Answered, Kind};
use carob_cc::time::Instant;

use super::{Endpoint, Owner};
use crate::peer::{PeerIndex, Peers};
use crate::prefix::Prefix;
use crate::timers::{TimerId, Timers};

/// Bottlenecks of an endpoint at most; further prefixes are ignored.
pub const AGGREGATES_MAX: usize = 64;

/// No budget.
pub(crate) const NONE: u8 = u8::MAX;

/// A budget, and who waits for it.
#[derive(Debug)]
struct Shared {
    behind: Prefix,
    budget: Aggregate,
    /// Peers with a message that might leave but for the budget.
    waiting: VecDeque<PeerIndex>,
    /// Whose turn it is, until it has sent a message.
    turn: Option<PeerIndex>,
    timer: TimerId,
}

/// The budgets of an endpoint.
#[derive(Debug, Default)]
pub(super) struct Aggregates {
    all: Vec<Shared>,
}

impl Aggregates {
    pub(super) fn new(behind: &[Prefix], constants: Constants, timers: &mut Timers<Owner>) -> Self {
        let shared = |(number, behind): (usize, &Prefix)| Shared {
            behind: *behind,
            budget: Aggregate::new(constants),
            waiting: VecDeque::new(),
            turn: None,
            timer: timers.add(Owner::Aggregate(number as u8)),
        };
        let behind = behind.iter().take(AGGREGATES_MAX).enumerate();
        Self {
            all: behind.map(shared).collect(),
        }
    }

    /// Which budget a peer shares: that of the longest prefix it has.
    pub(super) fn of(&self, peer: SocketAddr) -> u8 {
        let own = self.all.iter().enumerate();
        let own = own.filter(|(_, shared)| shared.behind.contains(peer.ip()));
        let longest = own.max_by_key(|(_, shared)| shared.behind.bits());
        longest.map_or(NONE, |(number, _)| number as u8)
    }

    fn get(&mut self, number: u8) -> Option<&mut Shared> {
        self.all.get_mut(usize::from(number))
    }

    /// Tells a budget that a message was answered.
    pub(super) fn tell_answered(
        &mut self,
        number: u8,
        bytes: u32,
        mark: Mark,
        answered: &Answered<'_>,
    ) {
        if let Some(shared) = self.get(number)
            && answered.confirmable
        {
            let round_trip = answered.round_trip();
            (shared.budget).on_answered(answered.now, bytes, mark, round_trip);
        }
    }

    /// Whether a NON notification of this peer's is to leave as CON.
    pub(super) fn must_confirm(&self, number: u8, kind: Kind) -> bool {
        let shared = self.all.get(usize::from(number));
        kind == Kind::Notification && shared.is_some_and(|shared| shared.budget.must_confirm())
    }
}

impl Shared {
    /// The peer waits, at the end of the row or, if it was its turn, at the beginning.
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

impl Endpoint {
    /// Whether the budget that a peer shares lets a message go; if not, the peer will be called.
    pub(super) fn aggregate_lets_go(
        &mut self,
        now: Instant,
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
        match shared.budget.leave(now, bytes, confirmable) {
            Leave::Now => return true,
            Leave::At(time) => self.timers.set(shared.timer, time),
            // The end of what is under way is the next occasion.
            Leave::Answered => {}
        }
        shared.wait(&mut self.peers, peer);
        false
    }

    /// Lets peers that wait for a budget send, one message each, as long as there is any of it.
    pub(super) fn pump_aggregate(&mut self, now: Instant, number: u8) {
        // Who is called and may not send waits at the front again, and that is the end; all others
        // have sent, and time must pass for what they sent.
        while let Some(shared) = self.aggregates.get(number)
            && let Some(peer) = shared.waiting.pop_front()
        {
            shared.turn = Some(peer);
            // A peer that was forgotten meanwhile has left its place to another, or to none.
            if let Some(known) = self.peers.get_mut(peer) {
                known.waits_for_aggregate = false;
                self.pump(now, peer);
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

    /// Charges a budget for a copy that leaves.
    pub(super) fn charge_aggregate(&mut self, now: Instant, index: u32) {
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
        let mark = shared.budget.on_sent(now, bytes, sent, waiting);
        if sent == Sent::Confirmable {
            exchange.mark = mark;
        }
        // Its next message takes its place at the end of the row.
        if shared.turn == Some(peer) {
            shared.turn = None;
        }
        if let (false, Leave::At(time)) = (
            shared.waiting.is_empty(),
            shared.budget.leave(now, bytes, false),
        ) {
            self.timers.set(shared.timer, time);
        }
    }

    /// Gives back to a budget what a CON message counted for.
    pub(super) fn release_aggregate(&mut self, index: u32) {
        let exchange = &mut self.exchanges[index as usize];
        let bytes = core::mem::take(&mut exchange.budgeted);
        if bytes == 0 {
            return;
        }
        if let Some(shared) = self.aggregates.get(self.peers[exchange.peer].aggregate) {
            shared.budget.on_ended(bytes);
            if !shared.waiting.is_empty() && self.timers.deadline(shared.timer).is_none() {
                // As soon as time passes, and not in the midst of what goes on.
                self.timers.set(shared.timer, self.notified_at);
            }
        }
    }

    /// Tells a budget that the timer of a CON message ran out.
    pub(super) fn tell_aggregate_lost(&mut self, now: Instant, peer: PeerIndex) {
        if let Some(shared) = self.aggregates.get(self.peers[peer].aggregate) {
            shared.budget.on_lost(now);
        }
    }

    /// The budgets: behind which prefix, in what state, and how many peers wait.
    pub fn aggregates(&self) -> impl Iterator<Item = (Prefix, State, usize)> {
        let all = self.aggregates.all.iter();
        all.map(|shared| (shared.behind, shared.budget.state(), shared.waiting.len()))
    }
}
