//! The client side of Echo (RFC 9175 2.3). A challenge is answered by repeating the message with
//! its value. A value from any other response is sent with the next request.
//!
//! And Request-Tag (RFC 9175 3.5), which distinguishes a body from an interrupted earlier one.

use alloc::boxed::Box;

use crate::carrier::Carrier;
use crate::client::{BodyMode, ChallengeState, Client, Operation, Progress};
use crate::codec::{BlockValue, Code, MessageView, OptionNumber, Options};
use crate::context::Context;
use crate::echo::PeerEcho;
use crate::trace::TraceEvent;

/// Consecutive challenges that are answered. More than one, because the first may answer an earlier
/// transmission, and its value may have expired (RFC 7252 4.5).
const ANSWERED: u8 = 2;
/// Echo values stored for the next request to their server. At the limit, others are discarded.
const GIVEN_KEPT: usize = 1_024;

impl ChallengeState {
    /// Answers no further challenge.
    pub(crate) fn give_up(&mut self) {
        self.answered = ANSWERED;
    }
}

impl Operation {
    /// Returns whether the application handles Echo itself.
    fn has_own_echo(&self) -> bool {
        !self.sending.answer_challenges || self.request.options.contains(OptionNumber::ECHO)
    }

    /// Stores the value of a challenge for the next message. Returns whether it is to be answered.
    pub(crate) fn take_challenge(&mut self, message: &MessageView<'_>) -> bool {
        let given = message.option(OptionNumber::ECHO).and_then(PeerEcho::new);
        let Some(given) = given.filter(|_| !self.has_own_echo()) else {
            return false;
        };
        self.challenge.echo = Some(Box::new(given));
        true
    }
}

impl Client {
    /// Processes the Echo option of a response to one message of a request. Returns whether it was
    /// a challenge and the message was repeated.
    pub(crate) fn answer_challenge(
        &mut self,
        cx: &mut Context,
        carrier: &mut Carrier,
        index: u32,
        block1: Option<BlockValue>,
        block2: Option<BlockValue>,
        message: &MessageView<'_>,
    ) -> bool {
        let operation = &mut self.operations[index as usize];
        let challenged = core::mem::take(&mut operation.challenge.answered);
        let Some(given) = message.option(OptionNumber::ECHO).and_then(PeerEcho::new) else {
            return false;
        };
        if operation.has_own_echo() {
            return false;
        }
        let given = Box::new(given);
        if message.code() != Code::UNAUTHORIZED {
            if operation.challenge.echo.is_some() {
                operation.challenge.echo = Some(given);
            } else {
                let peer = carrier.peers[operation.peer].address;
                if self.given.len() < GIVEN_KEPT || self.given.contains_key(&peer) {
                    // A fresh value in a success spares the next request a round trip (RFC 9175
                    // 2.3).
                    self.given.insert(peer, *given);
                    debug_assert!(self.given.len() <= GIVEN_KEPT);
                }
            }
            return false;
        }
        if challenged >= ANSWERED {
            return false; // it was given back what it gave
        }
        operation.challenge.echo = Some(given);
        operation.challenge.answered = challenged + 1;
        debug_assert!(operation.challenge.answered <= ANSWERED);
        let peer = carrier.peers[operation.peer].address;
        cx.trace(peer, TraceEvent::Challenged);
        let operation = &mut self.operations[index as usize];
        // Asked for its beginning, it was the request itself, which may have named a block size.
        if let Some(block2) = block2.filter(|block2| block2.number > 0) {
            self.request_block(cx, carrier, index, block2);
            return true;
        }
        // A server that reassembles has discarded the body with its rejection.
        let whole = operation.sending.request_body == BodyMode::Whole;
        if let Some(upload) = &mut operation.upload
            && whole
            && block1.is_some_and(|block| block.number > 0 && !block.more)
        {
            *upload = upload.again(operation.request.payload.clone());
        }
        self.advance(cx, carrier, index);
        true
    }

    /// The options of a request's next message, if they differ from the request's own: without a
    /// condition reserved to the first block, and with a stored Echo value.
    pub(crate) fn own_options(
        &mut self,
        carrier: &mut Carrier,
        index: u32,
        later: bool,
    ) -> Option<Options> {
        let operation = &self.operations[index as usize];
        let options = &operation.request.options;
        // The effect of the first block would violate this condition (RFC 7959 2.10).
        let unconditional = later && options.contains(OptionNumber::IF_NONE_MATCH);
        let given = match operation.challenge.echo.as_deref() {
            Some(given) => Some(*given),
            None if operation.has_own_echo() => None,
            None if self.given.is_empty() => None,
            None => self.given.remove(&carrier.peers[operation.peer].address),
        };
        if !unconditional && given.is_none() {
            return None;
        }
        let mut own = options.clone();
        if unconditional {
            own.remove(OptionNumber::IF_NONE_MATCH);
        }
        if let Some(given) = given {
            // Without space for it, the server challenges again.
            let _ = own.set(OptionNumber::ECHO, given.as_slice());
        }
        Some(own)
    }

    /// Ends a request with a block-wise body. Without a response, its blocks may be in flight or
    /// stored by the server, and must not mix with another body's.
    pub(crate) fn invalidate_body_tag(&mut self, cx: &mut Context, index: u32) {
        let operation = &self.operations[index as usize];
        if operation.upload.is_some() && operation.progress == Progress::Sent {
            self.tag_until = self.tag_until.max(cx.now + cx.lifetimes.exchange);
        }
    }

    /// Prepares the first block of a body. All blocks get a Request-Tag if a body was interrupted
    /// recently, to any resource.
    ///
    /// Bodies to one resource are serialized, so no other one is in progress; those to different
    /// resources differ in their URI options.
    pub(crate) fn tag_body(&mut self, cx: &mut Context, index: u32) {
        let operation = &mut self.operations[index as usize];
        if operation.progress == Progress::Unsent {
            operation.progress = Progress::Sent;
        }
        if cx.now < self.tag_until
            && !operation
                .request
                .options
                .contains(OptionNumber::REQUEST_TAG)
        {
            self.last_tag = self.last_tag.wrapping_add(1).max(1);
            let options = &mut operation.request.options;
            // Without space for it, the request has no Request-Tag.
            let _ = options.set_uint(OptionNumber::REQUEST_TAG, self.last_tag);
        }
    }
}
