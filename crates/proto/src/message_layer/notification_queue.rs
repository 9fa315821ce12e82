//! Queued notifications and their limits.
//!
//! By default a newer state supersedes a queued one, so each observation has one at most. With
//! [`NotificationQueue::Queue`] several are queued, each an exchange in its peer's queue. They are
//! sent in order, and none while an earlier one of its observation is unacknowledged.

use carob_cc::evidence::Kind;

use crate::address::PeerIndex;
use crate::carrier::Carrier;
use crate::config::{Config, NotificationQueue};
use crate::context::Context;
use crate::observe::observers::{NONE, ObserverIndex, Observers};
use crate::seeds::{Seeds, Table};
use crate::tables::quota::QuotaTable;
use crate::trace::TraceEvent;

/// The observers of all resources, and their notifications.
#[derive(Debug)]
pub(crate) struct Notifications {
    pub(crate) observers: Observers,
    /// Observations by source.
    pub(crate) shares: QuotaTable,
    /// Notifications waiting to be sent.
    pub(crate) waiting: usize,
    /// Notifications dropped.
    pub(crate) dropped: u64,
}

impl Notifications {
    pub(crate) fn new(config: &Config, seeds: &Seeds) -> Self {
        let limits = &config.limits;
        Self {
            observers: Observers::new(
                seeds.table(Table::Observers),
                (limits.observers, limits.observers_of_peer),
                limits.observer_bytes,
                config.unconfirmed_max,
            ),
            shares: QuotaTable::new(seeds.table(Table::ObserverQuotas)),
            waiting: 0,
            dropped: 0,
        }
    }
}

impl Context {
    /// Returns whether a newer state supersedes a queued one.
    pub(crate) fn supersedes_notifications(&self) -> bool {
        self.config.notification_queue == NotificationQueue::Supersede
    }
}

impl Carrier {
    /// Returns whether no new notification is sent to an observer now: one queued or unacknowledged
    /// will carry the state, or the limit is reached and this one is dropped.
    pub(crate) fn must_hold_notification(
        &mut self,
        cx: &mut Context,
        index: ObserverIndex,
    ) -> bool {
        let observer = &self.notifications.observers[index];
        if cx.supersedes_notifications() {
            return observer.exchange != NONE;
        }
        let limits = cx.config.limits;
        let (peer, address) = (observer.peer, self.peers[observer.peer].address);
        // A peer with an empty queue may be sent one at once.
        let most = if self.notifications.waiting >= limits.notifications {
            1
        } else {
            limits.notifications_of_peer.max(1)
        };
        let is_full = self.waiting(peer, most) >= most;
        if is_full {
            self.notifications.observers.mark_current(index);
            self.notifications.dropped += 1;
            cx.trace(address, TraceEvent::NotificationDropped);
        }
        is_full
    }

    /// The number of notifications queued for a peer, counted up to `most`.
    ///
    /// Counted each time: a peer has few, and many peers have none.
    pub(crate) fn waiting(&self, peer: PeerIndex, most: usize) -> usize {
        let queue = &self.peers[peer].queue;
        let behind = |before: &u32| queue.next(&self.exchanges, Some(*before));
        core::iter::successors(queue.next(&self.exchanges, None), behind)
            .filter(|index| self.carries_notification(*index))
            .take(most)
            .count()
    }

    pub(crate) fn carries_notification(&self, index: u32) -> bool {
        self.exchanges[index as usize].purpose.kind() == Kind::Notification
    }

    /// An exchange joins its peer's queue.
    pub(crate) fn on_queued(&mut self, index: u32) {
        self.notifications.waiting += usize::from(self.carries_notification(index));
    }

    /// An exchange leaves its peer's queue.
    pub(crate) fn on_dequeued(&mut self, index: u32) {
        let leaves = usize::from(self.carries_notification(index));
        debug_assert!(self.notifications.waiting >= leaves, "it was counted");
        self.notifications.waiting -= leaves;
    }

    /// Returns whether a queued notification must wait because an earlier one of its observation is
    /// unacknowledged.
    pub(crate) fn follows_unacknowledged(&self, index: u32) -> bool {
        let observer = self.exchanges[index as usize].purpose.observer();
        observer.is_some_and(|observer| {
            let first = self.notifications.observers[observer].exchange;
            first != NONE && first != index
        })
    }

    /// Removes every queued notification of an observer, except `except`.
    pub(crate) fn forget_waiting(
        &mut self,
        cx: &mut Context,
        peer: PeerIndex,
        observer: ObserverIndex,
        except: u32,
    ) {
        if cx.supersedes_notifications() {
            // There is none but that.
            let exchange = self.exchanges.get(except as usize);
            debug_assert!(exchange.is_none_or(|exchange| exchange.peer == peer));
            return;
        }
        let mut before = None;
        while let Some(index) = self.peers[peer].queue.next(&self.exchanges, before) {
            let of = self.exchanges[index as usize].purpose.observer();
            if of == Some(observer) && index != except {
                self.peers[peer].queue.take(&mut self.exchanges, before);
                self.retire(cx, index, true);
            } else {
                before = Some(index);
            }
        }
    }
}
