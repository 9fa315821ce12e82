//! Responses that come later or not at all: separate ones (RFC 7252 5.2.2), and optional ones
//! (RFC 7967), for which an exchange waits a while.

use alloc::vec::Vec;
use core::net::SocketAddr;

use carob_cc::controller::CopyTagging;
use carob_cc::time::Duration;

use crate::block::RequestedBlock;
use crate::carrier::{Carrier, Outcome};
use crate::codec::{Code, MessageId, OptionNumber, TokenKey, Type};
use crate::context::Context;
use crate::message::{Payload, Response};
use crate::message_layer::{Purpose, RequestTraits, State, Submission, SuppressedWait};
use crate::trace::TraceEvent;
use crate::writing::set_header;

impl Carrier {
    /// Sends a separate response under the peer's controller: confirmable or not, all transmissions
    /// together within its budget.
    ///
    /// At the limit of stored responses, or of its source's share of them, it is sent once as a NON, with the Message ID `of` the
    /// request. That ID is unique as long as the client's are. Without one it is dropped,
    /// and the client will retry.
    pub(crate) fn send_separately(
        &mut self,
        cx: &mut Context,
        to: SocketAddr,
        (token, of): (TokenKey, Option<MessageId>),
        (confirmable, budget): (bool, usize),
        mut bytes: Vec<u8>,
    ) {
        let limit = cx.config.limits.responses;
        let source = cx.quota_policy.source(to);
        let above = cx.quota_policy.is_above_watermark(self.responses, limit);
        let room = self.responses < limit
            && self.response_shares.of(source) < cx.quota_policy.quota(limit)
            // A stored response holds its place until it is acknowledged, which a forged address
            // never does.
            && (!above || self.admission.is_validated(cx, to));
        let Some(peer) = room.then(|| self.peer_of_message(cx, to).ok()).flatten() else {
            if let Some(id) = of {
                set_header(&mut bytes, Type::NonConfirmable, id);
                self.transmit(cx, to, &bytes);
                return cx.spare_buffer(bytes);
            }
            return abandoned_unsent(cx, to);
        };
        if !self.has_room(cx, peer) {
            return abandoned_unsent(cx, to);
        }
        let submission = Submission {
            purpose: Purpose::Response,
            confirmable,
            token,
            counting: CopyTagging::Off,
            bytes,
            // The reply is an empty ACK (RFC 7252 4.1).
            answer_bytes: 4,
            parameters: None,
            budget,
            request: RequestTraits::default(),
        };
        debug_assert!(self.responses < limit, "the table is full");
        self.responses += 1;
        self.response_shares.add(source, 1);
        self.submit(cx, peer, submission);
    }

    /// The response with an entity tag, if it is a block-wise representation without one: a client
    /// that reads two states at once must not mix them (RFC 7959 2.4).
    #[inline]
    pub(crate) fn tagged(&self, response: &Response, wanted: RequestedBlock) -> Option<Response> {
        let Payload::Whole(body) = &response.payload else {
            return None;
        };
        let cut = !wanted.holds(body.len());
        if !cut || response.code != Code::CONTENT || response.options.contains(OptionNumber::ETAG) {
            return None;
        }
        let mut tagged = response.clone();
        let tag = self.response_cache.tag(body);
        let added = tagged.options.push_uint(OptionNumber::ETAG, tag);
        added.ok().map(|()| tagged)
    }
}

/// Reports a response that was dropped before it was sent.
fn abandoned_unsent(cx: &mut Context, to: SocketAddr) {
    let (id, retransmissions) = (None, 0);
    cx.trace(
        to,
        TraceEvent::Abandoned {
            id,
            retransmissions,
        },
    );
}

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
