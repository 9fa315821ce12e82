//! Echo, on the client's side (RFC 9175 2.3): a challenge is answered by repeating the message with
//! the value it gave, and another after that likewise; a value that came with any other response goes with the next request.
//!
//! And Request-Tag (RFC 9175 3.5): a body that follows one that was broken off is told apart from
//! it.

use alloc::boxed::Box;

use bytes::Bytes;
use carob_cc::time::Instant;

use super::{BodyMode, Operation};
use crate::codec::{BlockValue, Code, MessageView, OptionNumber, Options};
use crate::echo::Given;
use crate::endpoint::Endpoint;
use crate::trace::What;

/// Challenges in a row that are answered. More than one, because the first may be the answer to an
/// earlier copy, whose value is too old by now (RFC 7252 4.5).
const ANSWERED: u8 = 2;
/// Echo values kept for the next request to who gave them. At the limit, others are not kept.
const GIVEN_KEPT: usize = 1_024;

impl Operation {
    /// Whether Echo is the application's business.
    fn has_own_echo(&self) -> bool {
        !self.sending.answer_challenges || self.request.options.contains(OptionNumber::ECHO)
    }

    /// Keeps the value that a challenge gives for the next message; whether it is one to be answered.
    pub(super) fn take_challenge(&mut self, message: &MessageView<'_>) -> bool {
        let given = message.option(OptionNumber::ECHO).and_then(Given::new);
        let Some(given) = given.filter(|_| !self.has_own_echo()) else {
            return false;
        };
        self.echo = Some(Box::new(given));
        true
    }
}

impl Endpoint {
    /// Takes the Echo option of a response to one message of a request; whether it was a challenge,
    /// and the message has been repeated.
    pub(super) fn answer_challenge(
        &mut self,
        now: Instant,
        index: u32,
        block1: Option<BlockValue>,
        block2: Option<BlockValue>,
        message: &MessageView<'_>,
    ) -> bool {
        let operation = &mut self.operations[index as usize];
        let challenged = core::mem::take(&mut operation.challenged);
        let Some(given) = message.option(OptionNumber::ECHO).and_then(Given::new) else {
            return false;
        };
        if operation.has_own_echo() {
            return false;
        }
        let given = Box::new(given);
        if message.code() != Code::UNAUTHORIZED {
            if operation.echo.is_some() {
                operation.echo = Some(given);
            } else {
                let peer = self.peers[operation.peer].address;
                if self.given.len() < GIVEN_KEPT || self.given.contains_key(&peer) {
                    self.given.insert(peer, *given);
                }
            }
            return false;
        }
        if challenged >= ANSWERED {
            return false; // it was given back what it gave
        }
        operation.echo = Some(given);
        operation.challenged = challenged + 1;
        let peer = self.peers[operation.peer].address;
        self.trace(now, peer, What::Challenged);
        let operation = &mut self.operations[index as usize];
        // Asked for its beginning, it was the request itself, which may have named a block size.
        if let Some(block2) = block2.filter(|block2| block2.number > 0) {
            let again = operation.request.code == Code::FETCH && operation.upload.is_none();
            let payload = if again {
                operation.request.payload.clone()
            } else {
                Bytes::new()
            };
            self.send_part(now, index, None, Some(block2), None, &payload);
            return true;
        }
        // Who has the whole body has forgotten it with its refusal.
        let whole = operation.sending.request_body == BodyMode::Whole;
        if let Some(upload) = &mut operation.upload
            && whole
            && block1.is_some_and(|block| block.number > 0 && !block.more)
        {
            *upload = upload.again(operation.request.payload.clone());
        }
        self.advance(now, index);
        true
    }

    /// The options of a request's next message, where they are not the request's own: without a
    /// condition that only the first block may have, and with an Echo value where one was given.
    pub(super) fn own_options(&mut self, index: u32, later: bool) -> Option<Options> {
        let operation = &self.operations[index as usize];
        let options = &operation.request.options;
        // What the first block has brought about would fail this condition (RFC 7959 2.10).
        let unconditional = later && options.contains(OptionNumber::IF_NONE_MATCH);
        let given = match operation.echo.as_deref() {
            Some(given) => Some(*given),
            None if operation.has_own_echo() => None,
            None if self.given.is_empty() => None,
            None => self.given.remove(&self.peers[operation.peer].address),
        };
        if !unconditional && given.is_none() {
            return None;
        }
        let mut own = options.clone();
        if unconditional {
            own.remove(OptionNumber::IF_NONE_MATCH);
        }
        if let Some(given) = given {
            // What does not fit goes without, and is challenged anew.
            let _ = own.set(OptionNumber::ECHO, given.as_slice());
        }
        Some(own)
    }

    /// A request whose body goes in blocks ends: if it was not answered, blocks of it may still be on
    /// their way, or kept by the server, and must not be taken for those of another.
    pub(super) fn note_broken_off(&mut self, now: Instant, index: u32) {
        let operation = &self.operations[index as usize];
        if operation.upload.is_some() && operation.begun && !operation.answered {
            self.tag_until = self.tag_until.max(now + self.lifetimes.exchange);
        }
    }

    /// The first block of a body is about to leave: it and the others get a Request-Tag if a body
    /// was broken off lately, to this resource or to another.
    ///
    /// Bodies to one resource take turns, so no other is ever under way; and those of two resources
    /// differ in more than this.
    pub(super) fn tag_body(&mut self, now: Instant, index: u32) {
        let operation = &mut self.operations[index as usize];
        operation.begun = true;
        if now < self.tag_until
            && !operation
                .request
                .options
                .contains(OptionNumber::REQUEST_TAG)
        {
            self.last_tag = self.last_tag.wrapping_add(1).max(1);
            let options = &mut operation.request.options;
            // Without room for it, it is as it was before there were tags.
            let _ = options.set_uint(OptionNumber::REQUEST_TAG, self.last_tag);
        }
    }
}
