//! Who observes our resources, and what they are told (RFC 7641 4).
//!
//! Notifications are exchanges like any other: they wait in their peer's queue for the
//! controller's window and pacing, beside requests and separate responses to that peer. Of each
//! observation one at most is waiting or unacknowledged, and what it says is settled when it
//! leaves: the state of that moment.

use alloc::vec::Vec;
use core::net::SocketAddr;

use carob_cc::time::Instant;

use super::exchange::{Purpose, Submission};
use super::server::write_response;
use super::{Endpoint, Event, IncomingId};
use crate::blockwise::bodies::Kept;
use crate::blockwise::{Key, Wanted};
use crate::codec::{Code, EncodeError, MessageView, Token};
use crate::message::{Payload, Response};
use crate::observe::observers::{
    CONFIRM_INTEREST, NONE, ObserverIndex, Registration, State, UNCONFIRMED_MAX,
};
use crate::observe::{Observe, Subject};
use crate::trace::What;

/// Bytes of an empty message, as an acknowledgement is.
const ACKNOWLEDGEMENT_BYTES: u32 = 4;

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
        let (from, size, token) = (
            incoming.from,
            incoming.wanted.size,
            incoming.message.token(),
        );
        let key = Key::bytes_of(&incoming.message);
        let Ok(peer) = self.peer(now, from) else {
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
            self.trace(now, from, What::Observed);
        }
        self.incoming.set_observing(id);
        true
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
        let wanted = Wanted {
            offset: 0,
            size: self.config.block_size,
        };
        let tagged = self.tagged(response, wanted);
        let response = tagged.as_ref().unwrap_or(response);
        let longest = Token::new(&[0; 8]).expect("8 bytes are a token");
        write_response(&mut self.scratch, &longest, response, wanted, None, Some(0))?;
        let format = self.observers.format(subject);
        if !response.code.is_success() {
            self.end_observations(now, subject, response, confirmable);
        } else if format.is_some() && response.format() != format {
            let refusal = Response::new(Code::NOT_ACCEPTABLE);
            self.end_observations(now, subject, &refusal, confirmable);
        } else {
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
            self.notify_observer(self.notified_at, observer);
        }
        true
    }

    /// How many observe a subject.
    pub fn observers(&self, subject: Subject) -> usize {
        self.observers.count(subject)
    }

    /// The last word on a subject: every observer is told, and listed no more.
    fn end_observations(
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
            let wanted = Wanted {
                offset: 0,
                size: state.size,
            };
            self.remove_observer(now, observer);
            let mut bytes = self.buffer();
            let written = write_response(&mut self.scratch, &token, response, wanted, None, None);
            if let Ok((length, _)) = written {
                bytes.extend_from_slice(&self.scratch[..length]);
                self.send_separately(now, to, token, confirmable, bytes);
            }
        }
    }

    /// Sends an observer the current state, unless something keeps it waiting that will send it
    /// later.
    fn notify_observer(&mut self, now: Instant, index: ObserverIndex) {
        let observer = &self.observers[index];
        if observer.pending || observer.exchange != NONE {
            return;
        }
        let overdue = now.since(observer.confirmed) >= CONFIRM_INTEREST
            || observer.unconfirmed >= UNCONFIRMED_MAX;
        let (peer, token) = (observer.peer, observer.token);
        let confirmable = overdue || self.observers.state(index).is_some_and(|s| s.confirmable);
        let mut bytes = self.buffer();
        self.write_notification(now, index, &mut bytes);
        let submission = Submission {
            purpose: Purpose::Notification { observer: index },
            confirmable,
            token,
            bytes,
            answer_bytes: if confirmable {
                ACKNOWLEDGEMENT_BYTES
            } else {
                0
            },
            parameters: None,
        };
        // One waits for each observation at most, so the limit on those is the queue's.
        self.submit(now, peer, submission);
    }

    /// Writes an observer's notification of the current state; type and Message ID are filled in
    /// when it is sent.
    pub(super) fn write_notification(
        &mut self,
        now: Instant,
        index: ObserverIndex,
        bytes: &mut Vec<u8>,
    ) {
        bytes.clear();
        self.observers.tell(index);
        let observer = &self.observers[index];
        let sequence = self.peers[observer.peer].next_number();
        let wanted = Wanted {
            offset: 0,
            size: observer.size,
        };
        let Some(State { response, .. }) = self.observers.state(index) else {
            debug_assert!(false, "who is behind is behind a state");
            return;
        };
        let (token, scratch) = (&observer.token, &mut self.scratch);
        let written = write_response(scratch, token, response, wanted, None, Some(sequence));
        let Ok((length, keep)) = written else {
            debug_assert!(false, "a state is tried before it is taken");
            return;
        };
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
    }

    /// The response to a registration is about to be sent: the observer, and the number of this
    /// first state. Nothing if it is no success.
    pub(super) fn answer_registration(
        &mut self,
        now: Instant,
        from: SocketAddr,
        token: &Token,
        response: &Response,
    ) -> Option<(ObserverIndex, u32)> {
        let peer = self.peers.find(from)?;
        let first = self.peers[peer].first_observer;
        let index = self.observers.find(first, token)?;
        if !response.code.is_success() {
            self.remove_observer(now, index);
            return None;
        }
        self.observers.remember_state(index, response);
        self.observers.tell_registered(index);
        Some((index, self.peers[peer].next_number()))
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
    pub(super) fn deregister(&mut self, now: Instant, from: SocketAddr, token: &Token) {
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
        let head = &mut self.peers[peer].first_observer;
        let (_, forgotten) = self.observers.remove(index, head);
        self.peers[peer].users -= 1;
        let address = self.peers[peer].address;
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
        let (_, confirmed) = self.observers.least_interested()?;
        Some(confirmed + CONFIRM_INTEREST)
    }

    /// Asks observers who have shown no interest for a day whether they still have some: they are
    /// told the current state as CON (RFC 7641 4.5).
    pub(super) fn check_interest(&mut self, now: Instant) {
        while let Some((index, confirmed)) = self.observers.least_interested()
            && now.since(confirmed) >= CONFIRM_INTEREST
        {
            if self.observers.state(index).is_some() {
                self.notify_observer(now, index);
            }
            // Asked; an answer, or its absence, decides the rest.
            if self.observers.get(index).is_some() {
                self.observers.confirm(index, now);
            }
        }
    }
}

/// A request's Observe option, for who has only the message.
pub(super) fn has_observe(message: &MessageView<'_>) -> bool {
    use crate::codec::OptionNumber;
    message.uint_option(OptionNumber::OBSERVE).is_some()
}
