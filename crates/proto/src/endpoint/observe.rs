//! Who observes our resources, and what they are told (RFC 7641 4).
//!
//! Notifications are exchanges like any other: they wait in their peer's queue for the
//! controller's window and pacing, beside requests and separate responses to that peer. Of each
//! observation one at most is waiting or unacknowledged, and what it says is settled when it
//! leaves: the state of that moment.

use alloc::vec::Vec;
use core::net::SocketAddr;

use carob_cc::controller::Counting;
use carob_cc::time::Instant;

use super::config::MESSAGE_BYTES;
use super::exchange::{Purpose, Submission, UNLIMITED};
use super::server::write_response;
use super::{Endpoint, Event, IncomingId};
use crate::blockwise::bodies::Kept;
use crate::blockwise::{Key, Wanted};
use crate::codec::token::token_room;
use crate::codec::{BlockSize, CacheKey, Code, EncodeError, MessageView, OptionNumber, TokenKey};
use crate::endpoint::tokens::bytes_of;
use crate::message::{Payload, Response};
use crate::observe::freshness::SEQUENCE_MAX;
use crate::observe::observers::{CONFIRM_INTEREST, NONE, ObserverIndex, Registration};
use crate::observe::state::State;
use crate::observe::{Observe, Subject};
use crate::peer::PeerIndex;
use crate::trace::What;

/// By how much a notification may be longer than another of the same state: by its token, if that has
/// 8 bytes at most, and its number.
const REGISTRATION_SLACK: usize = 8 + 3;
/// Bytes of an empty message, as an acknowledgement is.
pub(super) const ACKNOWLEDGEMENT_BYTES: u32 = 4;

impl Endpoint {
    /// Puts the sender of a request on the list of observers of `subject`; whether it is on it.
    ///
    /// To be called before the resource's state is read, so that no change falls between reading
    /// and listing. It is not listed if it did not ask, or a limit is reached; then its request is
    /// answered like any other (RFC 7641 4.1). [`respond`](Self::respond) with an error takes it
    /// off the list again.
    pub fn observe(&mut self, now: Instant, id: IncomingId, subject: Subject) -> bool {
        let Some(incoming) = self.incoming(id) else {
            return false;
        };
        if incoming.observe != Some(Observe::Register) || incoming.wanted.offset > 0 {
            return false;
        }
        if !self.is_connected(id) {
            return false; // observations go with their connection (RFC 8323 7.4)
        }
        let (from, size, token) = (
            incoming.from,
            incoming.wanted.size,
            incoming.message.token(),
        );
        let key = CacheKey::of_transfer(&incoming.message);
        let (token, long_token) = {
            let key = self.token_key(token);
            (key, key.is_long().then(|| token.as_slice().to_vec()))
        };
        if self.is_limited(now, from) {
            // Its notifications could go to somebody else (RFC 7641 7).
            self.incoming.set_challenged(id);
            return false;
        }
        let known = self.peers.find(from).is_some_and(|peer| {
            let first = self.peers[peer].first_observer;
            self.observers.find(first, &token).is_some()
        });
        let source = self.sharing.source(from);
        if !known {
            let (held, limit) = (self.observers.len(), self.config.limits.observers);
            if self.observer_shares.of(source) >= self.sharing.most(limit) {
                return false;
            }
            let pressed = held < limit && self.sharing.is_pressed(held, limit);
            if pressed && !self.has_shown(now, from) {
                self.incoming.set_challenged(id);
                return false;
            }
        }
        let Ok(peer) = self.peer_that_came(now, from) else {
            return false;
        };
        let first = self.peers[peer].first_observer;
        if let Some(before) = self.observers.find(first, &token)
            && self.observers.subject(before) != subject
        {
            self.remove_observer(now, before);
        }
        let registration = Registration {
            peer,
            token,
            long_token: long_token.as_deref().unwrap_or_default(),
            size,
            key: &key,
        };
        let listed = self.observers.len();
        let head = &mut self.peers[peer].first_observer;
        let registered = self.observers.register(now, subject, registration, head);
        if registered.is_none() {
            return false;
        }
        if self.observers.len() > listed {
            self.peers[peer].users += 1;
            self.observer_shares.add(source, 1);
            self.trace(now, from, What::Observed);
        }
        self.incoming.set_observing(id, true);
        true
    }

    /// Takes back what [`observe`](Self::observe) did for a request that is not yet answered: the
    /// answer then says nothing of observing.
    pub fn unobserve(&mut self, now: Instant, id: IncomingId) {
        let Some(incoming) = self.incoming(id) else {
            return;
        };
        let (from, token) = (incoming.from, self.token_key(incoming.message.token()));
        if self.incoming.set_observing(id, false) {
            self.deregister(now, from, &token);
        }
    }

    /// Tells all observers of `subject` a new state; how many there are.
    ///
    /// Who has not yet acknowledged, or not yet been sent, an earlier state is told this one
    /// instead as soon as the peer's controller allows. Anything but a success ends all
    /// observations of the subject (RFC 7641 4.2), and so does a state in another format than the
    /// first, which observers are told as 4.06.
    pub fn notify(
        &mut self,
        now: Instant,
        subject: Subject,
        response: &Response,
        confirmable: bool,
    ) -> Result<usize, EncodeError> {
        let count = self.observers.count(subject);
        if count == 0 {
            return Ok(0);
        }
        let wanted = Wanted::block(0, self.config.block_size);
        let tagged = self.tagged(response, wanted);
        let response = tagged.as_ref().unwrap_or(response);
        // Try what takes most room, so that no observer's notification fails later.
        let longest = self.longest();
        let (cut, wanted) = beginning(response, wanted)?;
        let least = self.least_capacity();
        let (scratch, told) = (&mut self.scratch, cut.as_ref().unwrap_or(response));
        let observe = Some(SEQUENCE_MAX);
        write_response(scratch, &least, longest, told, wanted, None, observe)?;
        if !response.code.is_success() {
            self.end_observations(now, subject, response, confirmable);
        } else if !self.observers.suits(subject, response) {
            let refusal = Response::new(Code::NOT_ACCEPTABLE);
            self.end_observations(now, subject, &refusal, confirmable);
        } else {
            // Where every state is to be told, the one before it is told first.
            while !self.supersedes_notifications()
                && self.observers.is_telling(subject)
                && self.notify_some()
            {}
            let state = State {
                response: response.clone(),
                confirmable,
            };
            self.observers.change(subject, state);
            self.notified_at = now;
        }
        Ok(count)
    }

    /// Tells some more observers what has changed, once all else has been said; whether there were
    /// any. So a crowd of observers needs no crowd of datagrams in memory.
    pub(super) fn notify_some(&mut self) -> bool {
        const AT_ONCE: usize = 16;
        for told in 0..AT_ONCE {
            let Some(observer) = self.observers.next_to_tell() else {
                return told > 0;
            };
            // Where every state is told, none is told twice.
            if self.supersedes_notifications() || self.observers.is_behind(observer) {
                self.notify_observer(self.notified_at, observer);
            }
        }
        true
    }

    /// How many observe a subject.
    pub fn observers(&self, subject: Subject) -> usize {
        self.observers.count(subject)
    }

    /// The last word on `subject`, be it a success: every observer is told it without the Observe
    /// option, and is listed no more (RFC 7641 3.2, 4.2).
    pub fn end_observations(
        &mut self,
        now: Instant,
        subject: Subject,
        response: &Response,
        confirmable: bool,
    ) {
        while let Some(observer) = self
            .observers
            .find_subject(subject)
            .and_then(|at| self.observers.first(at))
        {
            let state = &self.observers[observer];
            let (peer, token) = (state.peer, state.token);
            let to = self.peers[peer].address;
            let size = state.size;
            let long = (token.is_long()).then(|| self.observers.long_token(observer).to_vec());
            self.remove_observer(now, observer);
            let mut bytes = self.buffer();
            let capacity = self.capacity(to);
            let wanted = self.wanted_by_observer(to, size);
            let written = bytes_of(&token, long.as_deref());
            let head = 64 + token_room(written.len()) + response.options.encoded_len();
            self.grow_scratch(&capacity, head, response.bytes().len());
            let written = beginning(response, wanted).and_then(|(cut, wanted)| {
                let response = cut.as_ref().unwrap_or(response);
                let scratch = &mut self.scratch;
                write_response(scratch, &capacity, written, response, wanted, None, None)
            });
            if let Ok((length, _)) = written {
                bytes.extend_from_slice(&self.scratch[..length]);
                self.send_separately(now, to, (token, None), (confirmable, UNLIMITED), bytes);
            }
        }
    }

    /// Sends an observer the current state, unless something keeps it waiting that will send it
    /// later.
    fn notify_observer(&mut self, now: Instant, index: ObserverIndex) {
        let observer = &self.observers[index];
        if observer.pending || self.is_kept_back(now, index) {
            return;
        }
        let observer = &self.observers[index];
        let (peer, token) = (observer.peer, observer.token);
        let mut bytes = self.buffer();
        if !self.write_notification(now, index, &mut bytes) {
            return self.spare.push(bytes);
        }
        let submission = Submission {
            purpose: Purpose::Notification { observer: index },
            // This is found out when it leaves.
            confirmable: false,
            token,
            counting: Counting::Off,
            bytes,
            answer_bytes: 0,
            parameters: None,
            budget: UNLIMITED,
        };
        // One waits for each observation at most, so the limit on those is the queue's; where more
        // may wait, there is a limit of their own.
        self.submit(now, peer, submission);
    }

    /// Whether what an observer is told now is to be acknowledged.
    pub(super) fn tells_confirmably(&self, now: Instant, index: ObserverIndex) -> bool {
        let state = self.observers.state(index);
        state.is_some_and(|state| state.confirmable) || self.observers.must_confirm(index, now)
    }

    /// Writes an observer's notification of the current state; type and Message ID are filled in
    /// when it is sent. False, and nothing, if there is none.
    pub(super) fn write_notification(
        &mut self,
        now: Instant,
        index: ObserverIndex,
        bytes: &mut Vec<u8>,
    ) -> bool {
        const UNTRIED: &str = "a state is tried before it is taken";
        self.observers.tell(index);
        let observer = &self.observers[index];
        let sequence = self.peers[observer.peer].next_number();
        let Some(State { response, .. }) = self.observers.state(index) else {
            debug_assert!(false, "who is behind is behind a state");
            return false;
        };
        let to = self.peers[observer.peer].address;
        let capacity = self.capacity(to);
        let wanted = self.wanted_by_observer(to, observer.size);
        let Ok((cut, wanted)) = beginning(response, wanted) else {
            debug_assert!(false, "{UNTRIED}");
            return false;
        };
        let response = cut.as_ref().unwrap_or(response);
        // The blocks may be smaller than those that the state was given a tag for.
        let tagged = self.tagged(response, wanted);
        let response = tagged.as_ref().unwrap_or(response);
        let token = match observer.token.token() {
            Some(token) => token.as_slice(),
            None => self.observers.long_token(index),
        };
        let head = 64 + token_room(token.len());
        let needed =
            head + response.options.encoded_len() + response.bytes().len().min(wanted.whole);
        if self.scratch.len() < needed.min(capacity.message) {
            self.scratch.resize(needed.min(capacity.message), 0);
        }
        let (scratch, sequence) = (&mut self.scratch, Some(sequence));
        let written = write_response(scratch, &capacity, token, response, wanted, None, sequence);
        let Ok((length, keep)) = written else {
            // What was tried is what most peers take; this one takes less (RFC 8323 5.3.1). It is
            // told that there is nothing for it, which ends the observation at its end.
            debug_assert!(capacity.is_small(), "{UNTRIED}");
            let none = Response::new(Code::INTERNAL_SERVER_ERROR);
            let none = write_response(
                &mut self.scratch,
                &capacity,
                token,
                &none,
                Wanted::block(0, BlockSize::MIN),
                None,
                None,
            );
            let length = none.map_or(0, |(length, _)| length);
            bytes.clear();
            bytes.extend_from_slice(&self.scratch[..length]);
            return length > 0;
        };
        bytes.clear();
        bytes.extend_from_slice(&self.scratch[..length]);
        // The rest of this state takes the place of the rest of the one before.
        if keep && let Payload::Whole(body) = &response.payload {
            let key = Key::from_parts(self.peers[observer.peer].address, &observer.key);
            let kept = Kept {
                code: response.code,
                options: response.options.clone(),
                body: body.clone(),
            };
            self.bodies.keep(now, key, kept);
        }
        true
    }

    /// The response to a registration is about to be sent: the observer, and the number of this
    /// first state. Nothing if it is no success, or not in the format that others were told: then it
    /// does not observe.
    pub(super) fn answer_registration(
        &mut self,
        now: Instant,
        from: SocketAddr,
        token: &TokenKey,
        response: &Response,
    ) -> Option<(ObserverIndex, u32)> {
        let peer = self.peers.find(from)?;
        let first = self.peers[peer].first_observer;
        let index = self.observers.find(first, token)?;
        let begins = response.code.is_success() && self.observers.may_begin_with(index, response);
        if !begins {
            self.remove_observer(now, index);
            return None;
        }
        self.observers.tell_registered(index);
        Some((index, self.peers[peer].next_number()))
    }

    /// The response to a request with this token was refused, or never acknowledged: if it was the
    /// first notification of an observer that has not registered again since `began`, the
    /// observer is listed no more (RFC 7641 4.5).
    pub(super) fn registration_refused(
        &mut self,
        now: Instant,
        peer: PeerIndex,
        token: &TokenKey,
        began: Instant,
    ) {
        let first = self.peers[peer].first_observer;
        if let Some(index) = self.observers.find(first, token)
            && self.observers[index].confirmed <= began
        {
            self.remove_observer(now, index);
        }
    }

    /// An observer has been told its first state, in a message of `length` bytes.
    pub(super) fn registration_answered(
        &mut self,
        now: Instant,
        index: ObserverIndex,
        response: &Response,
        length: usize,
    ) {
        // Another observer's token and number may be longer.
        let slack = token_room(self.longest_token()) + REGISTRATION_SLACK;
        if length + slack <= MESSAGE_BYTES {
            self.observers.remember_state(index, response);
        }
        self.tell_what_changed(now, index);
    }

    /// What changed while a registration was being answered is told now.
    pub(super) fn tell_what_changed(&mut self, now: Instant, index: ObserverIndex) {
        if self.observers.get(index).is_some() && self.observers.is_behind(index) {
            self.notify_observer(now, index);
        }
    }

    pub(super) fn notification_acknowledged(&mut self, now: Instant, index: ObserverIndex) {
        // It may have been taken off the list when its peer's queue moved on.
        if self.observers.get(index).is_some() {
            self.observers.confirm(index, now);
            self.tell_what_changed(now, index);
        }
    }

    /// A request with Observe 1 (RFC 7641 3.6).
    pub(super) fn deregister(&mut self, now: Instant, from: SocketAddr, token: &TokenKey) {
        let Some(peer) = self.peers.find(from) else {
            return;
        };
        let first = self.peers[peer].first_observer;
        if let Some(index) = self.observers.find(first, token) {
            self.remove_observer(now, index);
        }
    }

    /// Takes an observer off the list, and back what is still on its way to it.
    pub(super) fn remove_observer(&mut self, now: Instant, index: ObserverIndex) {
        let peer = self.observers[index].peer;
        let exchange = self.observers[index].exchange;
        self.forget_waiting(peer, index, exchange);
        let head = &mut self.peers[peer].first_observer;
        let (_, forgotten) = self.observers.remove(index, head);
        self.peers[peer].users -= 1;
        let address = self.peers[peer].address;
        let source = self.sharing.source(address);
        self.observer_shares.subtract(source, 1);
        self.trace(now, address, What::Unobserved);
        if exchange != NONE {
            self.cancel_exchange(now, exchange);
        }
        if let Some(subject) = forgotten {
            self.event(Event::Unobserved(subject));
        }
    }

    /// When an observer's interest must be confirmed next.
    pub(super) fn next_interest_check(&self) -> Option<Instant> {
        if self.is_reliable() {
            return None; // who has a connection is there
        }
        let (_, confirmed) = self.observers.least_interested()?;
        Some(confirmed + CONFIRM_INTEREST)
    }

    /// Asks observers who have shown no interest for a day whether they still have some: they are
    /// told the current state as CON (RFC 7641 4.5).
    pub(super) fn check_interest(&mut self, now: Instant) {
        if self.is_reliable() {
            return;
        }
        while let Some((index, confirmed)) = self.observers.least_interested()
            && now.since(confirmed) >= CONFIRM_INTEREST
        {
            let observer = &self.observers[index];
            let idle = !observer.pending && observer.exchange == NONE;
            if idle && self.observers.state(index).is_none() {
                // There is nothing to ask it with. If it is there, it will register again.
                self.remove_observer(now, index);
                continue;
            }
            // An answer, or its absence, decides the rest.
            self.observers.ask(index, now);
            self.notify_observer(now, index);
        }
    }
}

/// The beginning of a state for who takes this much of it: what is to be told if it is not the
/// response itself, and which block of it.
///
/// A part that was read for one observer is cut to the blocks of another, or told in its own.
fn beginning(
    response: &Response,
    wanted: Wanted,
) -> Result<(Option<Response>, Wanted), EncodeError> {
    let mut wanted = wanted;
    let Payload::Part {
        offset,
        bytes,
        more,
        size: whole,
    } = &response.payload
    else {
        return Ok((None, wanted));
    };
    if *offset > 0 {
        // Observations are of the whole (RFC 7959 2.6).
        return Err(EncodeError::NotAllowed(OptionNumber::BLOCK2));
    }
    if *more {
        if wanted.size.is_bert() && BlockSize::BERT.fits(bytes.len(), true) {
            wanted.span = wanted.span.min(bytes.len());
            wanted.whole = wanted.span;
        } else {
            let own = BlockSize::from_bytes_at_most(bytes.len()).unwrap_or(BlockSize::MIN);
            wanted = Wanted::block(0, own.min(wanted.size));
        }
    }
    let length = if *more || bytes.len() > wanted.whole {
        wanted.span
    } else {
        bytes.len()
    };
    let cut = (bytes.len() > length).then(|| Response {
        code: response.code,
        options: response.options.clone(),
        payload: Payload::Part {
            offset: 0,
            bytes: bytes.slice(..length),
            more: true,
            size: whole.or((!more).then_some(bytes.len() as u64)),
        },
    });
    Ok((cut, wanted))
}

/// A request's Observe option, for who has only the message.
pub(super) fn has_observe(message: &MessageView<'_>) -> bool {
    message.uint_option(OptionNumber::OBSERVE).is_some()
}
