//! Requests of which no response is wanted, or none of some class (RFC 7967).
//!
//! Such a request is over once it has been acknowledged, or as NON has left, and the time to wait
//! for the responses that are still wanted has passed. What it counts for in its peer's window it
//! goes on counting: a NON without an answer, until PROBING_RATE has paid for it (RFC 7252 4.7).

use carob_cc::time::{Duration, Instant};

use super::Operation;
use crate::codec::{NoResponse, OptionNumber};
use crate::endpoint::exchange::{Purpose, State};
use crate::endpoint::{Endpoint, Event};

impl Operation {
    /// Whether its response has begun to arrive.
    fn is_answered(&self) -> bool {
        self.download.is_some() || self.head.is_some()
    }

    /// Takes out No-Response where every message of the request needs its answer: where its body
    /// goes in blocks, and where it observes.
    pub(super) fn settle_no_response(&mut self) {
        let options = &mut self.request.options;
        if (self.upload.is_some() || self.sending.observe)
            && options.contains(OptionNumber::NO_RESPONSE)
        {
            options.remove(OptionNumber::NO_RESPONSE);
        }
    }
}

impl Endpoint {
    /// How long to wait for a response to this message that may never come, because it is not
    /// wanted; nothing if one is to come.
    pub(in crate::endpoint) fn unanswered_after(&self, index: u32) -> Option<Duration> {
        let Purpose::Request { operation, .. } = self.exchanges[index as usize].purpose else {
            return None;
        };
        let operation = self.operations.get(operation as usize)?;
        if operation.is_answered() {
            return None; // the response has begun
        }
        let unwanted = NoResponse::of(&operation.request.options);
        if unwanted.is_none() {
            return None;
        }
        let wait = operation.sending.unanswered_after;
        Some(wait.unwrap_or_else(|| {
            if unwanted.is_all() {
                Duration::ZERO
            } else {
                self.exchange_parameters(index).ack_timeout
            }
        }))
    }

    /// The time to wait for a response that need not come has passed.
    pub(in crate::endpoint) fn go_unanswered(&mut self, now: Instant, index: u32) {
        let exchange = &mut self.exchanges[index as usize];
        let Purpose::Request { operation, .. } = exchange.purpose else {
            return;
        };
        let (state, peer) = (exchange.state, exchange.peer);
        exchange.purpose = Purpose::Unanswered;
        self.leave_operation(operation, index);
        let id = self.id(operation);
        self.event(Event::Unanswered(id));
        if state == (State::Waiting { counted: true }) && !self.is_reliable() {
            // It has not been paid for yet.
            let parameters = self.exchange_parameters(index);
            let exchange = &self.exchanges[index as usize];
            let began = exchange.transmissions.first().map_or(now, |t| t.at);
            let paid = (began + exchange.paid_after(&parameters)).max(now);
            self.timers.set(exchange.timer_id, paid);
        } else {
            self.retire(index, false);
        }
        self.finish(now, operation);
        self.pump(now, peer);
    }
}
