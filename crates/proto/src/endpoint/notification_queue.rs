//! Notifications that wait to be sent, and how many may.
//!
//! Where a newer state takes the place of the one that waits, of each observation one waits at
//! most. Where every state is told ([`NotificationQueue::Queue`]), several do, each an exchange in
//! its peer's queue; they leave in order, and none while an earlier one of its observation is
//! unacknowledged.

use carob_cc::evidence::Kind;
use carob_cc::time::Instant;

use super::Endpoint;
use super::config::NotificationQueue;
use crate::observe::observers::{NONE, ObserverIndex};
use crate::peer::PeerIndex;
use crate::trace::What;

/// Notifications of all peers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Notifications {
    /// That wait to be sent.
    pub(super) waiting: usize,
    /// That were dropped.
    pub(super) dropped: u64,
}

impl Endpoint {
    /// Whether a newer state takes the place of the one that waits.
    pub(super) fn supersedes_notifications(&self) -> bool {
        self.config.notification_queue == NotificationQueue::Supersede
    }

    /// Whether an observer is not to be sent a notification of its own now: one that waits or is
    /// unacknowledged will tell the state, or too many wait and this one is dropped.
    pub(super) fn is_kept_back(&mut self, now: Instant, index: ObserverIndex) -> bool {
        let observer = &self.observers[index];
        if self.supersedes_notifications() {
            return observer.exchange != NONE;
        }
        let limits = self.config.limits;
        let (peer, address) = (observer.peer, self.peers[observer.peer].address);
        // Whom nothing waits for may be sent one at once.
        let most = if self.notifications.waiting >= limits.notifications {
            1
        } else {
            limits.notifications_of_peer.max(1)
        };
        let is_full = self.waiting(peer, most) >= most;
        if is_full {
            self.observers.tell(index);
            self.notifications.dropped += 1;
            self.trace(now, address, What::NotificationDropped);
        }
        is_full
    }

    /// How many notifications wait for a peer, counted up to `most`.
    ///
    /// They are counted anew each time: a peer has few, and many peers have none.
    fn waiting(&self, peer: PeerIndex, most: usize) -> usize {
        let queue = &self.peers[peer].queue;
        let behind = |before: &u32| queue.next(&self.exchanges, Some(*before));
        core::iter::successors(queue.next(&self.exchanges, None), behind)
            .filter(|index| self.tells_observer(*index))
            .take(most)
            .count()
    }

    fn tells_observer(&self, index: u32) -> bool {
        self.exchanges[index as usize].purpose.kind() == Kind::Notification
    }

    /// An exchange joins its peer's queue.
    pub(super) fn exchange_waits(&mut self, index: u32) {
        self.notifications.waiting += usize::from(self.tells_observer(index));
    }

    /// An exchange leaves its peer's queue.
    pub(super) fn exchange_leaves(&mut self, index: u32) {
        self.notifications.waiting -= usize::from(self.tells_observer(index));
    }

    /// Whether a queued notification must wait because an earlier one of its observation is
    /// unacknowledged.
    pub(super) fn follows_unacknowledged(&self, index: u32) -> bool {
        let observer = self.exchanges[index as usize].purpose.observer();
        observer.is_some_and(|observer| {
            let first = self.observers[observer].exchange;
            first != NONE && first != index
        })
    }

    /// Takes back every notification of an observer that waits, but for `except`.
    pub(super) fn forget_waiting(&mut self, peer: PeerIndex, observer: ObserverIndex, except: u32) {
        if self.supersedes_notifications() {
            return; // there is none but that
        }
        let mut before = None;
        while let Some(index) = self.peers[peer].queue.next(&self.exchanges, before) {
            let of = self.exchanges[index as usize].purpose.observer();
            if of == Some(observer) && index != except {
                self.peers[peer].queue.take(&mut self.exchanges, before);
                self.retire(index, true);
            } else {
                before = Some(index);
            }
        }
    }
}
