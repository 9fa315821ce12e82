//! Matching of replies to exchanges of this endpoint (RFC 7252 4.2, 4.3, 5.2, 5.3.2).

use core::net::SocketAddr;

use carob_cc::TransmissionParameters;
use carob_cc::controller::Timer;
use carob_cc::evidence::{Answer, Answered, LateAnswer, Reason, Signal};
use carob_cc::time::Duration;

use crate::address::PeerIndex;
use crate::carrier::{AnsweredRequest, Carrier, Delivered, Outcome, empty};
use crate::codec::token_end;
use crate::codec::{
    BASE_TOKEN_LENGTH, Code, MessageId, MessageView, OptionNumber, Type, parse_header,
};
use crate::config::Tracing;
use crate::context::Context;
use crate::dedup::Idempotency;
use crate::event::Failure;
use crate::message_layer::{Purpose, State};
use crate::observe::has_observe;
use crate::observe::observers::ObserverIndex;
use crate::trace::TraceEvent;

impl Carrier {
    /// Returns whether these bytes begin like an unanswered message of this endpoint to `peer`:
    /// type, code, Message ID and token. Verifies the datagram quoted by ICMP (RFC 7252 4.2).
    pub(crate) fn is_under_way(&self, peer: SocketAddr, quoted: &[u8]) -> bool {
        let Ok(header) = parse_header(quoted) else {
            return false;
        };
        let found = self
            .peers
            .find(peer)
            .and_then(|peer| self.index.find_id(&self.exchanges, peer, header.message_id));
        found.is_some_and(|index| {
            let exchange = &self.exchanges[index as usize];
            token_end(quoted)
                .and_then(|length| quoted.get(..length))
                // An attacker off the path knows neither the Message ID nor the token, and cannot
                // end an exchange with a forged ICMP error.
                .is_some_and(|quoted| exchange.matches_prefix(quoted))
        })
    }

    /// Reports a reply to the controller.
    pub(crate) fn report_reply(
        &mut self,
        cx: &mut Context,
        index: u32,
        answer: Answer,
        bytes: u32,
        first: bool,
    ) {
        let parameters = self.exchange_parameters(cx, index);
        let exchange = &self.exchanges[index as usize];
        debug_assert!(!exchange.is_queued(), "a reply to nothing sent");
        debug_assert!(!exchange.transmissions.is_empty());
        let peer = &mut self.peers[exchange.peer];
        let Timer { timeout, state } = exchange.timer;
        let matched = exchange.matched(cx.now, peer);
        let answered = Answered::new(cx.now, &parameters, state, &exchange.transmissions, timeout)
            .with_matched(matched)
            .with_answer(answer, bytes)
            .with_confirmable(exchange.confirmable);
        if let Some(round_trip) = answered.round_trip() {
            peer.tally.record_round_trip(round_trip);
            // A separate response after an ACK measures the server's delay.
            if first {
                cx.counters.round_trips.add(round_trip);
            }
        }
        if first {
            cx.counters.of_mut(exchange.purpose.kind()).answered += 1;
        }
        if cx.config.reliable.is_some() {
            // The transport controls congestion.
        } else if first {
            peer.congestion.controller().on_answered(&answered);
            let bytes = exchange.bytes.len() as u32;
            let group = (peer.aggregate, exchange.peer);
            (self.aggregates).report_reply(group, bytes, exchange.group_state, &answered);
        } else {
            peer.congestion.controller().on_response(&answered);
        }
        if cx.config.trace != Tracing::Off && first {
            let what = TraceEvent::Answered {
                id: exchange.id.unwrap_or_default(),
                retransmissions: exchange.retransmissions(),
                since_original: answered.since_original(),
                rto: peer.congestion.as_ref().rto(cx.now),
            };
            let address = peer.address;
            cx.trace(address, what);
        }
    }

    /// Processes an ACK; returns its piggybacked response, if that matches a request.
    pub(crate) fn handle_acknowledgement(
        &mut self,
        cx: &mut Context,
        peer: Option<PeerIndex>,
        message: &MessageView<'_>,
    ) -> Option<AnsweredRequest> {
        let peer = peer?;
        let found = self
            .index
            .find_id(&self.exchanges, peer, message.message_id())
            // In another state the ACK is a copy of one processed before, or answers a NON, which
            // is never acknowledged (RFC 7252 4.3).
            .filter(|&index| self.exchanges[index as usize].state == State::Unacknowledged);
        let Some(index) = found else {
            if !self.acknowledge_superseded(cx, peer, message) {
                self.on_late_answer(cx, peer, message);
            }
            return None;
        };
        let exchange = &self.exchanges[index as usize];
        debug_assert!(exchange.peer == peer && exchange.confirmable);
        let purpose = exchange.purpose;
        let bytes = message.as_bytes().len() as u32;
        // In an ACK of a response, a code or payload has no meaning (RFC 7252 5.2.2).
        let response = matches!(purpose, Purpose::Response | Purpose::Notification { .. });
        let overlooked = response && message.code().is_response();
        if message.code().is_empty() || overlooked {
            self.on_empty_acknowledgement(cx, index, bytes);
            return None;
        }
        // A piggybacked response must carry the request's token (RFC 7252 5.3.2).
        let ours =
            purpose.wants_response() && exchange.accepts_token(&cx.token_key(message.token()));
        // Ignored without an RST: ACK and RST are never answered (RFC 7252 4.2).
        if !ours || !message.code().is_response() {
            return None;
        }
        // Before `report_reply`, which reads the transmission that the reply names.
        self.on_reply_count(cx, index, Answer::Piggybacked, message);
        self.validate_by_token(cx, peer, message);
        self.report_reply(cx, index, Answer::Piggybacked, bytes, true);
        self.end(cx, index, false);
        self.deliver(cx, peer, (index, purpose), message)
    }

    /// An empty ACK ends the exchange, unless a response is to come.
    fn on_empty_acknowledgement(&mut self, cx: &mut Context, index: u32, bytes: u32) {
        let exchange = &self.exchanges[index as usize];
        debug_assert!(exchange.state == State::Unacknowledged);
        let (peer, purpose) = (exchange.peer, exchange.purpose);
        let is_block = exchange.request.burst > 0;
        self.report_reply(cx, index, Answer::Empty, bytes, true);
        if is_block {
            return self.end_acknowledged(cx, index);
        }
        if purpose.wants_response() {
            let lifetime = self.exchange_lifetime(cx, index);
            // RFC 7252 5.2.2 leaves the wait for a separate response open; here it is
            // EXCHANGE_LIFETIME.
            let wait = self.suppressed_after(cx, index).unwrap_or(lifetime);
            let exchange = &mut self.exchanges[index as usize];
            exchange.state = State::Waiting { counted: false };
            cx.timers.set(exchange.timer_id, cx.now + wait);
            self.release_aggregate(cx, index);
            // Acknowledged, it is no longer outstanding (RFC 7252 4.7), however long the server
            // computes.
            self.release_window(index);
            return self.pump(cx, peer);
        }
        self.end(cx, index, false);
        match purpose {
            Purpose::Notification { observer } => self.notification_acknowledged(cx, observer),
            // A Reset would be right (RFC 7252 4.3), but go-coap 3.3.6 acknowledges, and either
            // proves that the peer is alive.
            Purpose::Ping { operation } => self.report(Outcome::Pong { operation }),
            Purpose::Response
            | Purpose::Request { .. }
            | Purpose::ResponseSuppressed
            | Purpose::Multicast { .. } => {}
        }
    }

    /// Processes the ACK of a notification that a newer state has superseded. The observer is there,
    /// and the round trip is known. A newer state that must arrive is sent again, its ACK being unsure.
    fn acknowledge_superseded(
        &mut self,
        cx: &mut Context,
        peer: PeerIndex,
        message: &MessageView<'_>,
    ) -> bool {
        let Some((observer, index)) = self.find_superseded(peer, message.message_id()) else {
            return false;
        };
        debug_assert!(self.exchanges[index as usize].state == State::Unacknowledged);
        let observers = &mut self.notifications.observers;
        if (observers.state(observer)).is_some_and(|state| state.confirmable) {
            observers.mark_behind(observer);
        }
        let bytes = message.as_bytes().len() as u32;
        self.on_empty_acknowledgement(cx, index, bytes);
        true
    }

    /// The observer and the exchange of a superseded notification with this Message ID.
    fn find_superseded(&mut self, peer: PeerIndex, id: MessageId) -> Option<(ObserverIndex, u32)> {
        let first = self.peers[peer].first_observer;
        let exchanges = &mut self.exchanges;
        self.notifications.observers.find_notifying(first, |index| {
            let exchange = exchanges.get_mut(index as usize);
            exchange.is_some_and(|exchange| exchange.restrict_to_superseded(id))
        })
    }

    pub(crate) fn handle_reset(&mut self, cx: &mut Context, from: SocketAddr, id: MessageId) {
        let Some(peer) = self.peers.find(from) else {
            return;
        };
        let Some(index) = self.index.find_id(&self.exchanges, peer, id) else {
            // The rejection of a notification sent as NON (RFC 7641 3.6, 4.5).
            let first = self.peers[peer].first_observer;
            if let Some(observer) = self.notifications.observers.find_notified(first, id) {
                self.remove_observer(cx, observer);
            } else if let Some((_, index)) = self.find_superseded(peer, id) {
                self.abandon(cx, index, Reason::Reset, Failure::Reset);
            }
            return;
        };
        let exchange = &self.exchanges[index as usize];
        debug_assert!(exchange.peer == peer && exchange.id == Some(id));
        match (exchange.purpose, exchange.state) {
            (Purpose::Ping { operation }, State::Unacknowledged) => {
                // RST is the reply to a ping (RFC 7252 4.3).
                self.report_reply(cx, index, Answer::Empty, 4, true);
                self.end(cx, index, false);
                self.report(Outcome::Pong { operation });
            }
            (_, State::Queued) => {}
            _ if self.is_refused_for_its_token(index) => {
                self.retry_with_short_token(cx, index, Reason::Reset, Failure::Reset);
            }
            _ => self.abandon(cx, index, Reason::Reset, Failure::Reset),
        }
    }

    /// Matches a separate response (RFC 7252 5.2.2, 5.2.3).
    pub(crate) fn handle_response<'m>(
        &mut self,
        cx: &mut Context,
        from: SocketAddr,
        message: MessageView<'m>,
    ) -> Option<Delivered<'m>> {
        let (peer, token) = (self.peers.find(from), cx.token_key(message.token()));
        let observation = peer.and_then(|peer| self.tokens.observations.find(peer, &token));
        let found = peer
            .and_then(|peer| self.index.find_token(&self.exchanges, peer, &token))
            .filter(|&index| {
                let exchange = &self.exchanges[index as usize];
                // Notifications continue during a renewal; they are not the response to it.
                let other = observation.is_some_and(|observation| {
                    exchange.state == State::Unacknowledged
                        && observation.established
                        && has_observe(&message)
                });
                exchange.state != State::Queued && !other
            });
        let Some(index) = found else {
            return Some(match observation {
                Some(observation) => Delivered::Notification {
                    operation: observation.operation,
                    message,
                },
                None => Delivered::Unmatched(message),
            });
        };
        // Acknowledged or rejected first, whatever becomes of the request: the server would
        // retransmit in vain.
        let parameters = self.exchange_parameters(cx, index);
        self.acknowledge_response(cx, from, &message, parameters);
        let exchange = &self.exchanges[index as usize];
        debug_assert!(
            exchange.accepts_token(&token),
            "the token of another exchange"
        );
        // Over a connection only the response proves that the request has arrived.
        let first =
            exchange.state == State::Unacknowledged || !exchange.confirmable || cx.is_stream();
        let (peer, purpose) = (exchange.peer, exchange.purpose);
        let bytes = message.as_bytes().len() as u32;
        let reported = exchange.is_reported();
        self.on_reply_count(cx, index, Answer::Separate, &message);
        self.validate_by_token(cx, peer, &message);
        // Its request reads the report, which may concern other messages, and ends it with them.
        if !reported {
            self.report_reply(cx, index, Answer::Separate, bytes, first);
            self.end(cx, index, false);
        }
        let mut answered = self.deliver(cx, peer, (index, purpose), &message)?;
        answered.reported = reported;
        Some(Delivered::Response(answered, message))
    }

    /// Acknowledges a separate response and stores it for duplicate detection, so that it is
    /// delivered once.
    pub(crate) fn acknowledge_response(
        &mut self,
        cx: &mut Context,
        from: SocketAddr,
        message: &MessageView<'_>,
        parameters: TransmissionParameters,
    ) {
        if cx.is_stream() {
            return;
        }
        let id = message.message_id();
        // A response that is not understood is rejected, not acknowledged (RFC 7252 5.4.1).
        let verdict = match cx.not_understood(message) {
            Some(_) => Type::Reset,
            None => Type::Acknowledgement,
        };
        let (lifetime, answer): (_, &[u8]) = if message.kind() == Type::Confirmable {
            self.send_empty(cx, from, verdict, id);
            (parameters.exchange_lifetime(), &empty(verdict, id))
        } else {
            (parameters.non_lifetime(), &[])
        };
        if let Some(at) = self
            .dedup
            .remember(cx.now, lifetime, from, id, Idempotency::Idempotent)
        {
            self.dedup.answer(at, answer);
        }
    }

    /// Validates the address of a peer that knows a token of this endpoint, if the token is
    /// unguessable.
    pub(crate) fn validate_by_token(
        &mut self,
        cx: &mut Context,
        peer: PeerIndex,
        message: &MessageView<'_>,
    ) {
        let token = message.token();
        // Only a receiver at that address has seen the 64 random bits. A shorter token could be
        // guessed.
        if token.len() >= BASE_TOKEN_LENGTH {
            self.admission.validate(cx, self.peers[peer].address);
        }
        self.on_long_token_accepted(cx, peer, token);
    }

    /// Counts a response and reports overload to the controller; returns its request.
    fn deliver(
        &mut self,
        cx: &mut Context,
        peer: PeerIndex,
        (exchange, purpose): (u32, Purpose),
        message: &MessageView<'_>,
    ) -> Option<AnsweredRequest> {
        cx.counters.responses.add(Some(message.code()));
        // Overload concerns the controller, too (RFC 8516 2, RFC 7252 5.9.3.4).
        if matches!(
            message.code(),
            Code::TOO_MANY_REQUESTS | Code::SERVICE_UNAVAILABLE
        ) {
            // 60 s is the default Max-Age (RFC 7252 5.10.5).
            let seconds = message.uint_option(OptionNumber::MAX_AGE).unwrap_or(60);
            let pause = Signal::SlowDown(Duration::from_secs(u64::from(seconds)));
            self.peers[peer]
                .congestion
                .controller()
                .on_signal(cx.now, pause);
        }
        match purpose {
            Purpose::Request {
                operation,
                block1,
                block2,
            } => Some(AnsweredRequest {
                operation,
                exchange,
                block1,
                block2,
                reported: false,
            }),
            _ => None,
        }
    }

    /// A reply without an exchange may still identify spurious retransmissions.
    pub(crate) fn on_late_answer(
        &mut self,
        cx: &mut Context,
        peer: PeerIndex,
        message: &MessageView<'_>,
    ) {
        let id = message.message_id();
        let from = self.peers[peer].address;
        let ended = self
            .ended
            .iter_mut()
            .rev()
            .find(|e| e.id == id && e.peer == from);
        let Some(ended) = ended else { return };
        debug_assert!(ended.sent > 1, "one transmission needs no record");
        let peer = &mut self.peers[peer];
        ended.compare_count(cx.count_option, message, &mut peer.count_support);
        ended.answers = ended.answers.saturating_add(1);
        let counts = cx.counters.of_mut(ended.kind);
        if ended.answers > 1 {
            counts.answered_again += 1;
        } else {
            counts.answered_late += 1;
        }
        let late = LateAnswer::new(cx.now, ended.sent, ended.answers, cx.now.since(ended.began))
            .with_abandoned(ended.abandoned);
        peer.congestion.controller().on_late_answer(&late);
        cx.trace(from, TraceEvent::AnsweredAgain { id });
    }
}
