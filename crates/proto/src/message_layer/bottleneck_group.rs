//! Shared budgets of all peers behind one bottleneck ([`carob_cc::bottleneck_group`]), in front of
//! the peers' controllers.
//!
//! A message admitted by its peer's controller is checked here last. If the rate does not admit it,
//! its peer waits in a queue, and each peer sends one message at a time. A peer with many messages
//! therefore does not delay the others. If the window does not admit a CON, its peer waits in another
//! queue, and NONs and the CONs of other peers pass.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::SocketAddr;

use carob_cc::bottleneck_group::{
    BottleneckGroup, Constants, GroupPacketState, Member, SendDecision, Sent, State,
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
    /// Peers whose next message waits for the rate.
    waiting: VecDeque<PeerIndex>,
    /// Peers whose next message, of this many bytes, waits for the window: first those that were not
    /// responsive, then those that were.
    blocked: [VecDeque<(PeerIndex, u32)>; 2],
    /// The peer next in the queue, until it has sent a message.
    turn: Option<PeerIndex>,
    timer: TimerId,
}

/// The budgets of an endpoint.
#[derive(Debug, Default)]
pub(crate) struct Aggregates {
    all: Vec<Shared>,
    /// The parts of peers with a budget, by index; empty without budgets.
    members: Vec<Member>,
}

impl Aggregates {
    pub(crate) fn new(behind: &[Prefix], constants: Constants, timers: &mut Timers<Owner>) -> Self {
        debug_assert!(AGGREGATES_MAX <= usize::from(NONE), "numbers are bytes");
        let shared = |(number, behind): (usize, &Prefix)| Shared {
            behind: *behind,
            budget: BottleneckGroup::new(constants),
            waiting: VecDeque::new(),
            blocked: Default::default(),
            turn: None,
            timer: timers.add(Owner::BottleneckGroup(number as u8)),
        };
        let behind = behind.iter().take(AGGREGATES_MAX).enumerate();
        Self {
            all: behind.map(shared).collect(),
            members: Vec::new(),
        }
    }

    /// Adds a peer to the budget of its longest matching prefix; returns the number of that.
    pub(crate) fn join(&mut self, index: PeerIndex, address: SocketAddr) -> u8 {
        let own = self.all.iter().enumerate();
        let own = own.filter(|(_, shared)| shared.behind.contains(address.ip()));
        // As in routing, the longest matching prefix is the nearest bottleneck.
        let longest = own.max_by_key(|(_, shared)| shared.behind.bits());
        let Some((number, _)) = longest else {
            return NONE;
        };
        let place = index as usize;
        if self.members.len() <= place {
            self.members.resize(place + 1, Member::default());
        }
        // The index may have been an evicted peer's.
        self.members[place] = Member::default();
        debug_assert!(number < AGGREGATES_MAX && number < usize::from(NONE));
        number as u8
    }

    fn get(&mut self, number: u8) -> Option<&mut Shared> {
        self.all.get_mut(usize::from(number))
    }

    /// The budget of this number, and a peer's part of it.
    fn of(&mut self, number: u8, peer: PeerIndex) -> Option<(&mut Shared, &mut Member)> {
        let shared = self.all.get_mut(usize::from(number))?;
        Some((shared, self.members.get_mut(peer as usize)?))
    }

    /// Reports a reply to the budget.
    pub(crate) fn report_reply(
        &mut self,
        (number, peer): (u8, PeerIndex),
        bytes: u32,
        group_state: GroupPacketState,
        answered: &Answered<'_>,
    ) {
        if answered.confirmable
            && let Some((shared, member)) = self.of(number, peer)
        {
            let (now, round_trip) = (answered.now, answered.round_trip());
            (shared.budget).on_answered(now, bytes, group_state, round_trip, member);
        }
    }

    /// Returns whether a NON notification of this peer's is to leave as CON.
    pub(crate) fn must_confirm(
        &self,
        (number, peer): (u8, PeerIndex),
        bytes: u32,
        kind: Kind,
    ) -> bool {
        let shared = self.all.get(usize::from(number));
        let member = self.members.get(peer as usize);
        kind == Kind::Notification
            && shared
                .zip(member)
                .is_some_and(|(shared, member)| shared.budget.must_confirm(bytes, member))
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
        debug_assert!(self.waiting.front() != Some(&index), "it waits already");
        if had_turn {
            self.waiting.push_front(index);
        } else {
            self.waiting.push_back(index);
        }
    }

    /// Enqueues a peer whose next message, a CON of this many bytes, does not fit the window.
    fn block(&mut self, peers: &mut Peers, index: PeerIndex, bytes: u32, responsive: bool) {
        if core::mem::replace(&mut peers[index].waits_for_aggregate, true) {
            return;
        }
        let queue = &mut self.blocked[usize::from(responsive)];
        if self.turn == Some(index) {
            queue.push_front((index, bytes));
        } else {
            queue.push_back((index, bytes));
        }
    }

    /// Takes out the next peer: one whose message has come to fit the window, responsive ones first,
    /// or else the first that waits for the rate.
    fn take_next(&mut self) -> Option<PeerIndex> {
        for responsive in [true, false] {
            let queue = &mut self.blocked[usize::from(responsive)];
            if let Some(&(peer, bytes)) = queue.front()
                && self.budget.has_room(bytes, responsive)
            {
                queue.pop_front();
                return Some(peer);
            }
        }
        self.waiting.pop_front()
    }

    /// The number of peers that wait.
    fn len(&self) -> usize {
        self.waiting.len() + self.blocked.iter().map(VecDeque::len).sum::<usize>()
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
        let number = self.peers[peer].aggregate;
        let Some((shared, member)) = self.aggregates.of(number, peer) else {
            return true;
        };
        if !shared.waiting.is_empty() && shared.turn != Some(peer) {
            shared.wait(&mut self.peers, peer);
            return false;
        }
        match shared.budget.leave(cx.now, bytes, confirmable, member) {
            SendDecision::Now => return true,
            SendDecision::At(time) => {
                cx.timers.set(shared.timer, time);
                shared.wait(&mut self.peers, peer);
            }
            SendDecision::WindowFull => {
                let responsive = member.is_responsive();
                shared.block(&mut self.peers, peer, bytes, responsive);
            }
            // The end of another message to this peer triggers another attempt.
            SendDecision::ShareFull => {}
        }
        false
    }

    /// Sends queued messages, one for each peer, while the budget lasts.
    pub(crate) fn pump_aggregate(&mut self, cx: &mut Context, number: u8) {
        // A peer that the rate does not admit is queued at the front again, which ends the loop. One
        // that the window does not admit is taken again when its message fits. All others have sent
        // and used the budget.
        while let Some(shared) = self.aggregates.get(number)
            && let Some(peer) = shared.take_next()
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
        let number = self.peers[peer].aggregate;
        let Some((shared, member)) = self.aggregates.of(number, peer) else {
            return;
        };
        let bytes = exchange.bytes.len() as u32;
        let sent = match (exchange.confirmable, exchange.purpose.kind()) {
            (true, _) if exchange.transmissions.is_empty() => {
                debug_assert!(exchange.budgeted == 0, "charged twice");
                exchange.budgeted = bytes;
                Sent::Confirmable
            }
            (true, _) => Sent::Again,
            (false, Kind::Notification) => Sent::Notification,
            (false, _) => Sent::Other,
        };
        let waiting = shared.len() > 0 || shared.turn == Some(peer);
        let group_state = (shared.budget).on_sent(cx.now, bytes, sent, waiting, member);
        if sent == Sent::Confirmable {
            exchange.group_state = group_state;
        }
        // Its next message is queued at the end.
        if shared.turn == Some(peer) {
            shared.turn = None;
        }
        if let (false, SendDecision::At(time)) = (
            shared.waiting.is_empty(),
            shared
                .budget
                .leave(cx.now, bytes, false, &Member::default()),
        ) {
            cx.timers.set(shared.timer, time);
        }
    }

    /// Returns the charge of a CON message to its budget; returns whether there was one.
    pub(crate) fn release_aggregate(&mut self, cx: &mut Context, index: u32) -> bool {
        let exchange = &mut self.exchanges[index as usize];
        debug_assert!(
            exchange.budgeted == 0 || exchange.confirmable,
            "a NON is not charged"
        );
        // Taken, so that an exchange returns its charge once, at its timeout or at its end.
        let bytes = core::mem::take(&mut exchange.budgeted);
        if bytes == 0 {
            return false;
        }
        let number = self.peers[exchange.peer].aggregate;
        let Some((shared, member)) = self.aggregates.of(number, exchange.peer) else {
            return false;
        };
        shared.budget.on_ended(bytes, member);
        if shared.len() > 0 && cx.timers.deadline(shared.timer).is_none() {
            // Deferred to the next timer, so as not to reenter.
            cx.timers.set(shared.timer, cx.input_at);
        }
        true
    }

    /// Reports a timeout of a CON message to its budget. The message is no longer in flight, and its
    /// retransmissions are charged when they are sent. Returns whether it was in flight.
    pub(crate) fn report_group_timeout(&mut self, cx: &mut Context, index: u32) -> bool {
        let peer = self.exchanges[index as usize].peer;
        let number = self.peers[peer].aggregate;
        if let Some((shared, member)) = self.aggregates.of(number, peer) {
            shared.budget.on_lost(cx.now, member);
        }
        self.release_aggregate(cx, index)
    }

    /// The budgets: prefix, state and number of waiting peers.
    pub(crate) fn aggregates(&self) -> impl Iterator<Item = (Prefix, State, usize)> {
        let all = self.aggregates.all.iter();
        all.map(|shared| (shared.behind, shared.budget.state(), shared.len()))
    }
}
