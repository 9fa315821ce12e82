//! Requests with No-Response: no response is wanted, or none of some class (RFC 7967).
//!
//! Such a request ends after the wait for wanted responses, which starts when it is acknowledged,
//! or sent as NON. It continues to count against its peer's window like an unanswered NON, until
//! PROBING_RATE has paid for it (RFC 7252 4.7).

use carob_cc::time::Duration;

use crate::carrier::Carrier;
use crate::client::{Client, Operation};
use crate::codec::{NoResponse, OptionNumber};
use crate::context::Context;
use crate::event::Event;
use crate::message_layer::SuppressedWait;

impl Operation {
    /// Returns whether the response has begun to arrive.
    fn is_answered(&self) -> bool {
        self.response.download.is_some() || self.response.head.is_some()
    }

    /// Removes No-Response where every message of the request needs its response: with a block-wise
    /// body, and in a registration.
    pub(crate) fn settle_no_response(&mut self) {
        let options = &mut self.request.options;
        if (self.upload.is_some() || self.sending.observe)
            && options.contains(OptionNumber::NO_RESPONSE)
        {
            options.remove(OptionNumber::NO_RESPONSE);
        }
    }
}

impl Operation {
    /// The wait for an optional response; `None` if a response is required.
    pub(crate) fn suppressed_wait(&self) -> Option<SuppressedWait> {
        if self.is_answered() {
            return None; // the response has begun
        }
        let unwanted = NoResponse::of(&self.request.options);
        if unwanted.is_none() {
            return None;
        }
        Some(match self.sending.suppressed_after {
            Some(wait) => SuppressedWait::For(wait),
            None if unwanted.is_all() => SuppressedWait::For(Duration::ZERO),
            None => SuppressedWait::AckTimeout,
        })
    }
}

impl Client {
    /// Ends a request whose response is optional, after the wait for it.
    pub(crate) fn on_response_suppressed(
        &mut self,
        cx: &mut Context,
        carrier: &mut Carrier,
        operation: u32,
    ) {
        if self.operations.contains(operation as usize) {
            let id = self.id(operation);
            self.event(cx, Event::ResponseSuppressed(id));
            self.finish(cx, carrier, operation);
        }
    }
}
