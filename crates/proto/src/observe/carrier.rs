//! Notifications of this endpoint's resources, and their queue (RFC 7641 4).
//!
//! Notifications are ordinary exchanges: they are in their peer's queue, under the controller's
//! window and pacing, with requests and separate responses to that peer. Each observation has at
//! most one queued or unacknowledged; its content is the state at the time of sending.

use alloc::vec::Vec;
use core::net::SocketAddr;

use carob_cc::controller::CopyTagging;
use carob_cc::evidence::Kind;
use carob_cc::time::Instant;

use crate::address::PeerIndex;
use crate::block::response_cache::CachedResponse;
use crate::block::{Key, RequestedBlock};
use crate::carrier::Carrier;
use crate::codec::token_room;
use crate::codec::{BlockSize, Code, EncodeError, TokenKey};
use crate::config::{MESSAGE_BYTES, NotificationQueue};
use crate::context::Context;
use crate::event::Event;
use crate::message::{Payload, Response};
use crate::message_layer::tokens::bytes_of;
use crate::message_layer::{Purpose, RequestTraits, Submission, UNLIMITED};
use crate::observe::observers::{CONFIRM_INTEREST, NONE, ObserverIndex};
use crate::observe::state::{State, beginning};
use crate::observe::{SEQUENCE_MAX, Subject};
use crate::trace::TraceEvent;
use crate::writing::write_response;

/// Bytes by which a notification may exceed another of the same state: a token of up to 8 bytes,
/// and its sequence number.
const REGISTRATION_SLACK: usize = 8 + 3;

impl Carrier {
    /// Notifies all observers of `subject` of a new state. Returns their number.
    ///
    /// A state not yet sent or acknowledged is superseded by this one, which is sent as soon as the
    /// peer's controller permits. Any code but a success ends all observations of the subject (RFC
    /// 7641 4.2). So does a state in another format than the first, which observers receive as
    /// 4.06.
    pub(crate) fn notify(
        &mut self,
        cx: &mut Context,
        subject: Subject,
        response: &Response,
        confirmable: bool,
    ) -> Result<usize, EncodeError> {
        let count = self.notifications.observers.count(subject);
        if count == 0 {
            return Ok(0);
        }
        let wanted = RequestedBlock::block(0, cx.config.block_size);
        let tagged = self.tagged(response, wanted);
        let response = tagged.as_ref().unwrap_or(response);
        // Tests the longest form, so that no observer's notification fails later.
        let longest = cx.longest();
        let (cut, wanted) = beginning(response, wanted)?;
        let least = cx.least_capacity();
        let (scratch, told) = (&mut cx.scratch, cut.as_ref().unwrap_or(response));
        let observe = Some(SEQUENCE_MAX);
        write_response(scratch, &least, longest, told, wanted, None, observe)?;
        if !response.code.is_success() {
            self.end_observations(cx, subject, response, confirmable);
        } else if !self.notifications.observers.suits(subject, response) {
            let refusal = Response::new(Code::NOT_ACCEPTABLE);
            self.end_observations(cx, subject, &refusal, confirmable);
        } else {
            // If every state is to be sent, the previous one is sent first.
            while !cx.supersedes_notifications()
                && self.notifications.observers.is_fan_out_in_progress(subject)
                && self.notify_some(cx)
            {}
            let state = State {
                response: response.clone(),
                confirmable,
            };
            self.notifications.observers.change(subject, state);
            // The fan-out goes on in `poll`, which is given no time: it is dated by this change.
            cx.input_at = cx.now;
        }
        Ok(count)
    }

    /// Notifies some more observers, after all other output. Returns whether there were any. A
    /// large fan-out therefore does not fill the memory with datagrams.
    #[inline]
    pub(crate) fn notify_some(&mut self, cx: &mut Context) -> bool {
        const AT_ONCE: usize = 16;
        for told in 0..AT_ONCE {
            let Some(observer) = self.notifications.observers.next_to_notify() else {
                return told > 0;
            };
            // With a queue of states, none is sent twice.
            if cx.supersedes_notifications() || self.notifications.observers.is_behind(observer) {
                self.notify_observer(cx, observer);
            }
        }
        true
    }

    /// Ends all observations of `subject` with a final response of any code, sent to every observer
    /// without the Observe option (RFC 7641 3.2, 4.2).
    pub(crate) fn end_observations(
        &mut self,
        cx: &mut Context,
        subject: Subject,
        response: &Response,
        confirmable: bool,
    ) {
        while let Some(observer) = self
            .notifications
            .observers
            .find_subject(subject)
            .and_then(|at| self.notifications.observers.first(at))
        {
            let state = &self.notifications.observers[observer];
            let (peer, token) = (state.peer, state.token);
            let to = self.peers[peer].address;
            let size = state.size;
            let long = (token.is_long())
                .then(|| self.notifications.observers.long_token(observer).to_vec());
            // Removed before its last message is sent: the message is a response now, and its
            // acknowledgement concerns no observer.
            self.remove_observer(cx, observer);
            let mut bytes = cx.buffer();
            let capacity = self.capacity(cx, to);
            let wanted = self.observer_block(cx, to, size);
            let written = bytes_of(&token, long.as_deref());
            let head = 64 + token_room(written.len()) + response.options.encoded_len();
            cx.grow_scratch(&capacity, head, response.bytes().len());
            let written = beginning(response, wanted).and_then(|(cut, wanted)| {
                let response = cut.as_ref().unwrap_or(response);
                let scratch = &mut cx.scratch;
                write_response(scratch, &capacity, written, response, wanted, None, None)
            });
            if let Ok((length, _)) = written {
                bytes.extend_from_slice(&cx.scratch[..length]);
                self.send_separately(cx, to, (token, None), (confirmable, UNLIMITED), bytes);
            }
        }
    }

    /// Sends an observer the current state, unless an earlier notification will carry it.
    pub(crate) fn notify_observer(&mut self, cx: &mut Context, index: ObserverIndex) {
        let observer = &self.notifications.observers[index];
        if observer.pending || self.must_hold_notification(cx, index) {
            return;
        }
        let observer = &self.notifications.observers[index];
        let (peer, token) = (observer.peer, observer.token);
        let mut bytes = cx.buffer();
        if !self.write_notification(cx, index, &mut bytes) {
            return cx.spare_buffer(bytes);
        }
        debug_assert!(
            !self.notifications.observers.is_behind(index),
            "an old state"
        );
        let submission = Submission {
            purpose: Purpose::Notification { observer: index },
            // Decided at the time of sending.
            confirmable: false,
            token,
            counting: CopyTagging::Off,
            bytes,
            answer_bytes: 0,
            parameters: None,
            budget: UNLIMITED,
            request: RequestTraits::default(),
        };
        // Each observation has at most one queued, which the queue's limit bounds; a queue of
        // states has a separate limit.
        self.submit(cx, peer, submission);
    }

    /// Returns whether an observer's next notification is to be confirmable.
    pub(crate) fn notifies_confirmably(&self, cx: &Context, index: ObserverIndex) -> bool {
        let state = self.notifications.observers.state(index);
        state.is_some_and(|state| state.confirmable)
            || self.notifications.observers.must_confirm(index, cx.now)
    }

    /// Writes an observer's notification of the current state. Type and Message ID are set when it
    /// is sent. Returns false, and writes nothing, without a state.
    pub(crate) fn write_notification(
        &mut self,
        cx: &mut Context,
        index: ObserverIndex,
        bytes: &mut Vec<u8>,
    ) -> bool {
        const UNTRIED: &str = "a state is tried before it is taken";
        self.notifications.observers.mark_current(index);
        let observer = &self.notifications.observers[index];
        let sequence = self.peers[observer.peer].next_number();
        let Some(State { response, .. }) = self.notifications.observers.state(index) else {
            debug_assert!(false, "who is behind is behind a state");
            return false;
        };
        let to = self.peers[observer.peer].address;
        let capacity = self.capacity(cx, to);
        let wanted = self.observer_block(cx, to, observer.size);
        let Ok((cut, wanted)) = beginning(response, wanted) else {
            debug_assert!(false, "{UNTRIED}");
            return false;
        };
        let response = cut.as_ref().unwrap_or(response);
        // The blocks may be smaller than those for which the state got an entity tag.
        let tagged = self.tagged(response, wanted);
        let response = tagged.as_ref().unwrap_or(response);
        let token = match observer.token.token() {
            Some(token) => token.as_slice(),
            None => self.notifications.observers.long_token(index),
        };
        let head = 64 + token_room(token.len());
        let needed =
            head + response.options.encoded_len() + response.bytes().len().min(wanted.whole);
        if cx.scratch.len() < needed.min(capacity.message) {
            cx.scratch.resize(needed.min(capacity.message), 0);
        }
        let (scratch, sequence) = (&mut cx.scratch, Some(sequence));
        let written = write_response(scratch, &capacity, token, response, wanted, None, sequence);
        let Ok((length, keep)) = written else {
            // The longest form was tested for most peers; this one supports less (RFC 8323 5.3.1).
            // An error is sent, which ends the observation.
            debug_assert!(capacity.is_small(), "{UNTRIED}");
            let none = Response::new(Code::INTERNAL_SERVER_ERROR);
            let none = write_response(
                &mut cx.scratch,
                &capacity,
                token,
                &none,
                RequestedBlock::block(0, BlockSize::MIN),
                None,
                None,
            );
            let length = none.map_or(0, |(length, _)| length);
            bytes.clear();
            bytes.extend_from_slice(&cx.scratch[..length]);
            return length > 0;
        };
        bytes.clear();
        bytes.extend_from_slice(&cx.scratch[..length]);
        // The rest of this state replaces the rest of the previous one.
        if keep && let Payload::Whole(body) = &response.payload {
            let key = Key::from_parts(self.peers[observer.peer].address, &observer.key);
            let kept = CachedResponse {
                code: response.code,
                options: response.options.clone(),
                body: body.clone(),
            };
            self.response_cache.keep(cx.now, key, kept);
        }
        true
    }

    /// The observer, and the number of this first state, for a response to a registration. `None`
    /// if the response is not a success or has another format than earlier notifications: the
    /// registration is then rejected.
    pub(crate) fn answer_registration(
        &mut self,
        cx: &mut Context,
        from: SocketAddr,
        token: &TokenKey,
        response: &Response,
    ) -> Option<(ObserverIndex, u32)> {
        let peer = self.peers.find(from)?;
        let first = self.peers[peer].first_observer;
        let index = self.notifications.observers.find(first, token)?;
        let begins = response.code.is_success()
            && self.notifications.observers.may_begin_with(index, response);
        if !begins {
            self.remove_observer(cx, index);
            return None;
        }
        debug_assert!(self.notifications.observers[index].peer == peer);
        self.notifications.observers.mark_registered(index);
        Some((index, self.peers[peer].next_number()))
    }

    /// Handles the rejection, or the timeout, of the response to a request with this token. If it
    /// was the first notification of an observer without a later registration than `began`, the
    /// observer is removed (RFC 7641 4.5).
    pub(crate) fn registration_refused(
        &mut self,
        cx: &mut Context,
        peer: PeerIndex,
        token: &TokenKey,
        began: Instant,
    ) {
        let first = self.peers[peer].first_observer;
        if let Some(index) = self.notifications.observers.find(first, token)
            && self.notifications.observers[index].confirmed <= began
        {
            self.remove_observer(cx, index);
        }
    }

    /// Records the first state sent to an observer, in a message of `length` bytes.
    pub(crate) fn registration_answered(
        &mut self,
        cx: &mut Context,
        index: ObserverIndex,
        response: &Response,
        length: usize,
    ) {
        // Another observer's token and number may be longer.
        let slack = token_room(cx.longest_token()) + REGISTRATION_SLACK;
        if length + slack <= MESSAGE_BYTES {
            self.notifications.observers.remember_state(index, response);
        }
        self.notify_missed_change(cx, index);
    }

    /// Sends changes made while a registration was being answered.
    pub(crate) fn notify_missed_change(&mut self, cx: &mut Context, index: ObserverIndex) {
        if self.notifications.observers.get(index).is_some()
            && self.notifications.observers.is_behind(index)
        {
            self.notify_observer(cx, index);
        }
    }

    pub(crate) fn notification_acknowledged(&mut self, cx: &mut Context, index: ObserverIndex) {
        // The observer may have been removed while its peer's queue was processed.
        if self.notifications.observers.get(index).is_some() {
            self.notifications.observers.confirm(index, cx.now);
            self.notify_missed_change(cx, index);
        }
    }

    /// A request with Observe 1 (RFC 7641 3.6).
    pub(crate) fn deregister(&mut self, cx: &mut Context, from: SocketAddr, token: &TokenKey) {
        let Some(peer) = self.peers.find(from) else {
            return;
        };
        let first = self.peers[peer].first_observer;
        if let Some(index) = self.notifications.observers.find(first, token) {
            self.remove_observer(cx, index);
        }
    }

    /// Removes an observer and its queued notifications.
    pub(crate) fn remove_observer(&mut self, cx: &mut Context, index: ObserverIndex) {
        let peer = self.notifications.observers[index].peer;
        let exchange = self.notifications.observers[index].exchange;
        self.forget_waiting(cx, peer, index, exchange);
        let head = &mut self.peers[peer].first_observer;
        let (_, forgotten) = self.notifications.observers.remove(index, head);
        debug_assert!(self.peers[peer].users > 0, "an observer counts as a user");
        self.peers[peer].users -= 1;
        let address = self.peers[peer].address;
        let source = cx.quota_policy.source(address);
        self.notifications.shares.subtract(source, 1);
        cx.trace(address, TraceEvent::Unobserved);
        if exchange != NONE {
            let purpose = self.exchanges[exchange as usize].purpose;
            debug_assert!(purpose.observer() == Some(index), "{purpose:?}");
            self.cancel_exchange(cx, exchange);
        }
        if let Some(subject) = forgotten {
            cx.event(Event::Unobserved(subject));
        }
    }

    /// The time of the next confirmation of interest.
    pub(crate) fn next_interest_check(&self, cx: &Context) -> Option<Instant> {
        if cx.is_stream() {
            return None; // an open connection is proof of interest
        }
        let (_, confirmed) = self.notifications.observers.least_interested()?;
        Some(confirmed + CONFIRM_INTEREST)
    }

    /// Sends the current state as CON to observers without a confirmation of interest for a day
    /// (RFC 7641 4.5).
    pub(crate) fn check_interest(&mut self, cx: &mut Context) {
        if self.next_interest_check(cx).is_none_or(|due| due > cx.now) {
            return;
        }
        while let Some((index, confirmed)) = self.notifications.observers.least_interested()
            && cx.now.since(confirmed) >= CONFIRM_INTEREST
        {
            let observer = &self.notifications.observers[index];
            let idle = !observer.pending && observer.exchange == NONE;
            if idle && self.notifications.observers.state(index).is_none() {
                // No state to send. An interested client will register again.
                self.remove_observer(cx, index);
                continue;
            }
            // The acknowledgement, or its absence, decides.
            self.notifications.observers.ask(index, cx.now);
            self.notify_observer(cx, index);
        }
    }
}

impl Context {
    /// Returns whether a newer state supersedes a queued one.
    pub(crate) fn supersedes_notifications(&self) -> bool {
        self.config.notification_queue == NotificationQueue::Supersede
    }
}

/// Queued notifications and their limits.
///
/// By default a newer state supersedes a queued one, so each observation has one at most. With
/// [`NotificationQueue::Queue`] several are queued, each an exchange in its peer's queue. They are
/// sent in order, and none while an earlier one of its observation is unacknowledged.
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
            // The dropped state counts as sent: the next change is notified, this one never.
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
