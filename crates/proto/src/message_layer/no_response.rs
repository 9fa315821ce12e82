//! Exchanges with an optional response (RFC 7967): the wait for it, and their continued count
//! against the window.

use carob_cc::time::Duration;

use crate::carrier::{Carrier, Outcome};
use crate::context::Context;
use crate::message_layer::{Purpose, State, SuppressedWait};

impl Carrier {
    /// The wait for the response to this message, if it is optional.
    pub(crate) fn suppressed_after(&self, cx: &Context, index: u32) -> Option<Duration> {
        let exchange = &self.exchanges[index as usize];
        exchange.purpose.operation()?;
        Some(match exchange.request.suppressed? {
            SuppressedWait::For(wait) => wait,
            SuppressedWait::AckTimeout => self.exchange_parameters(cx, index).ack_timeout,
        })
    }

    /// Ends the wait for an optional response. A NON not yet paid for continues to count against
    /// the window.
    pub(crate) fn suppress_response(&mut self, cx: &mut Context, index: u32) {
        let exchange = &mut self.exchanges[index as usize];
        let Purpose::Request { operation, .. } = exchange.purpose else {
            return;
        };
        debug_assert!(
            matches!(exchange.state, State::Waiting { .. }),
            "it was not acknowledged"
        );
        let (state, peer) = (exchange.state, exchange.peer);
        exchange.purpose = Purpose::ResponseSuppressed;
        if state == (State::Waiting { counted: true }) && !cx.is_stream() {
            let parameters = self.exchange_parameters(cx, index);
            let exchange = &self.exchanges[index as usize];
            let began = exchange.transmissions.first().map_or(cx.now, |t| t.at);
            // RFC 7967 suppresses the response, not the rule of RFC 7252 4.7 for unanswered NONs.
            let paid = (began + exchange.probing_delay(&parameters)).max(cx.now);
            cx.timers.set(exchange.timer_id, paid);
        } else {
            self.retire(cx, index, false);
        }
        self.report(Outcome::Suppressed { operation, peer });
    }
}
