//! Answers to messages of our own: which exchange they belong to and what they mean
//! (RFC 7252 4.2, 4.3, 5.2, 5.3.2).

use core::net::SocketAddr;

use carob_cc::TransmissionParameters;
use carob_cc::controller::Timer;
use carob_cc::evidence::{Answer, Answered, LateAnswer, Reason, Signal};
use carob_cc::time::{Duration, Instant};

use super::{Purpose, State};
use crate::codec::view::token_end;
use crate::codec::{
    BASE_TOKEN_LENGTH, Code, MessageId, MessageView, OptionNumber, Type, parse_header,
};
use crate::dedup::Repeatable;
use crate::endpoint::{Endpoint, Failure, Tracing, empty};
use crate::peer::PeerIndex;
use crate::trace::What;

impl Endpoint {
    /// Whether these bytes begin like a message of ours to `peer` that waits for an answer: type,
    /// code, Message ID and token. What ICMP quotes is to be held against this (RFC 7252 4.2).
    pub fn is_under_way(&self, peer: SocketAddr, quoted: &[u8]) -> bool {
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
                .is_some_and(|quoted| exchange.begins_like(quoted))
        })
    }

    /// Tells the controller that an exchange was answered.
    pub(in crate::endpoint) fn tell_answered(
        &mut self,
        now: Instant,
        index: u32,
        answer: Answer,
        bytes: u32,
        first: bool,
    ) {
        let parameters = self.exchange_parameters(index);
        let exchange = &self.exchanges[index as usize];
        let peer = &mut self.peers[exchange.peer];
        let Timer { timeout, memo } = exchange.timer;
        let matched = exchange.matched(now, peer);
        let answered = Answered::new(now, &parameters, memo, &exchange.transmissions, timeout)
            .with_matched(matched)
            .with_answer(answer, bytes)
            .with_confirmable(exchange.confirmable);
        if let Some(round_trip) = answered.round_trip() {
            peer.tally.took(round_trip);
            // A separate response after an ACK tells how long the server took.
            if first {
                self.counters.round_trips.add(round_trip);
            }
        }
        if first {
            self.counters.of_mut(exchange.purpose.kind()).answered += 1;
        }
        if self.config.reliable.is_some() {
            // Congestion is the transport's.
        } else if first {
            peer.congestion.controller().on_answered(&answered);
            let bytes = exchange.bytes.len() as u32;
            (self.aggregates).tell_answered(peer.aggregate, bytes, exchange.mark, &answered);
        } else {
            peer.congestion.controller().on_response(&answered);
        }
        if self.config.trace != Tracing::Off && first {
            let what = What::Answered {
                id: exchange.id.unwrap_or_default(),
                retransmissions: exchange.retransmissions(),
                since_original: answered.since_original(),
                rto: peer.congestion.as_ref().rto(now),
            };
            let address = peer.address;
            self.trace(now, address, what);
        }
    }

    pub(in crate::endpoint) fn handle_acknowledgement(
        &mut self,
        now: Instant,
        peer: Option<PeerIndex>,
        message: &MessageView<'_>,
    ) {
        let id = message.message_id();
        let Some(peer) = peer else { return };
        let found = self
            .index
            .find_id(&self.exchanges, peer, id)
            .filter(|&index| self.exchanges[index as usize].state == State::Unacknowledged);
        let Some(index) = found else {
            return self.note_late_answer(now, peer, message);
        };
        let exchange = &self.exchanges[index as usize];
        let purpose = exchange.purpose;
        let bytes = message.as_bytes().len() as u32;
        // To a response of ours, a code or payload in the ACK adds nothing (RFC 7252 5.2.2).
        let response = matches!(purpose, Purpose::Response | Purpose::Notification { .. });
        let overlooked = response && message.code().is_response();
        if message.code().is_empty() || overlooked {
            self.tell_answered(now, index, Answer::Empty, bytes, true);
            if !purpose.wants_response() {
                self.end(now, index, false);
                match purpose {
                    Purpose::Notification { observer } => {
                        self.notification_acknowledged(now, observer);
                    }
                    // A Reset would be right (RFC 7252 4.3), but go-coap 3.3.6 acknowledges, and
                    // either way somebody is there.
                    Purpose::Ping { operation } => self.finish_ping(operation),
                    Purpose::Response
                    | Purpose::Request { .. }
                    | Purpose::Unanswered
                    | Purpose::Group { .. } => {}
                }
                return;
            }
            let lifetime = self.exchange_lifetime(index);
            let wait = self.unanswered_after(index).unwrap_or(lifetime);
            let exchange = &mut self.exchanges[index as usize];
            exchange.state = State::Waiting { counted: false };
            self.timers.set(exchange.timer_id, now + wait);
            self.release_aggregate(index);
            self.release_window(index);
            return self.pump(now, peer);
        }
        // A piggybacked response must carry the request's token (RFC 7252 5.3.2).
        let ours = purpose.wants_response() && exchange.goes_by(&self.token_key(message.token()));
        if ours && message.code().is_response() {
            self.hear_count(index, Answer::Piggybacked, message);
            self.note_answered(now, peer, message);
            self.tell_answered(now, index, Answer::Piggybacked, bytes, true);
            self.end(now, index, false);
            self.deliver(now, peer, purpose, message);
        }
    }

    pub(in crate::endpoint) fn handle_reset(
        &mut self,
        now: Instant,
        from: SocketAddr,
        id: MessageId,
    ) {
        let Some(peer) = self.peers.find(from) else {
            return;
        };
        let Some(index) = self.index.find_id(&self.exchanges, peer, id) else {
            // A notification sent as NON is refused like this (RFC 7641 3.6, 4.5).
            let first = self.peers[peer].first_observer;
            if let Some(observer) = self.observers.find_notified(first, id) {
                self.remove_observer(now, observer);
            }
            return;
        };
        let exchange = &self.exchanges[index as usize];
        match (exchange.purpose, exchange.state) {
            (Purpose::Ping { operation }, State::Unacknowledged) => {
                // To a ping, RST is the answer (RFC 7252 4.3).
                self.tell_answered(now, index, Answer::Empty, 4, true);
                self.end(now, index, false);
                self.finish_ping(operation);
            }
            (_, State::Queued) => {}
            _ if self.is_refused_for_its_token(index) => {
                self.retry_with_short_token(now, index, Reason::Reset, Failure::Reset);
            }
            _ => self.abandon(now, index, Reason::Reset, Failure::Reset),
        }
    }

    /// A response in a message of its own (RFC 7252 5.2.2, 5.2.3).
    pub(in crate::endpoint) fn handle_response(
        &mut self,
        now: Instant,
        from: SocketAddr,
        message: &MessageView<'_>,
    ) {
        let id = message.message_id();
        let (peer, token) = (self.peers.find(from), self.token_key(message.token()));
        let observation = peer.and_then(|peer| self.find_observation(peer, &token));
        let found = peer
            .and_then(|peer| self.index.find_token(&self.exchanges, peer, &token))
            .filter(|&index| {
                let exchange = &self.exchanges[index as usize];
                // While an observation is being renewed, its notifications still come; they are
                // not the response that the renewal waits for.
                let other = observation.is_some_and(|operation| {
                    exchange.state == State::Unacknowledged
                        && self.is_notification(operation, message)
                });
                exchange.state != State::Queued && !other
            });
        let Some(index) = found else {
            match observation {
                Some(operation) => self.handle_notification(now, from, operation, message),
                None if self.handle_member(now, from, message) => {}
                // Nobody waits for it; tell the server (RFC 7252 4.2, 4.3), or over a connection
                // nobody (RFC 8323 3.4).
                None if self.is_reliable() => {}
                None => self.reject(now, from, id),
            }
            return;
        };
        self.acknowledge_response(now, from, message, self.exchange_parameters(index));
        let exchange = &self.exchanges[index as usize];
        // Over a connection nothing else tells that the request has arrived.
        let first = exchange.state == State::Unacknowledged
            || !exchange.confirmable
            || self.config.reliable.is_some();
        let (peer, purpose) = (exchange.peer, exchange.purpose);
        let bytes = message.as_bytes().len() as u32;
        self.hear_count(index, Answer::Separate, message);
        self.note_answered(now, peer, message);
        self.tell_answered(now, index, Answer::Separate, bytes, first);
        self.end(now, index, false);
        self.deliver(now, peer, purpose, message);
    }

    /// Acknowledges a response that came in a message of its own, and remembers it, so that it is
    /// delivered once.
    pub(in crate::endpoint) fn acknowledge_response(
        &mut self,
        now: Instant,
        from: SocketAddr,
        message: &MessageView<'_>,
        parameters: TransmissionParameters,
    ) {
        if self.is_reliable() {
            return;
        }
        let id = message.message_id();
        // What is not understood is rejected, not acknowledged (RFC 7252 5.4.1).
        let verdict = match self.not_understood(message) {
            Some(_) => Type::Reset,
            None => Type::Acknowledgement,
        };
        let (lifetime, answer): (_, &[u8]) = if message.kind() == Type::Confirmable {
            self.send_empty(now, from, verdict, id);
            (parameters.exchange_lifetime(), &empty(verdict, id))
        } else {
            (parameters.non_lifetime(), &[])
        };
        if let Some(at) = self
            .dedup
            .remember(now, lifetime, from, id, Repeatable::Yes)
        {
            self.dedup.answer(at, answer);
        }
    }

    /// A peer that knows a token of ours is where it says it is, if nobody could have guessed that.
    fn note_answered(&mut self, now: Instant, peer: PeerIndex, message: &MessageView<'_>) {
        let token = message.token();
        if token.len() >= BASE_TOKEN_LENGTH {
            self.validate(now, self.peers[peer].address);
        }
        self.note_token_taken(now, peer, token);
    }

    fn deliver(
        &mut self,
        now: Instant,
        peer: PeerIndex,
        purpose: Purpose,
        message: &MessageView<'_>,
    ) {
        self.counters.responses.add(Some(message.code()));
        // "Not now" is for the controller, too (RFC 8516 2, RFC 7252 5.9.3.4).
        if matches!(
            message.code(),
            Code::TOO_MANY_REQUESTS | Code::SERVICE_UNAVAILABLE
        ) {
            let seconds = message.uint_option(OptionNumber::MAX_AGE).unwrap_or(60);
            let pause = Signal::SlowDown(Duration::from_secs(u64::from(seconds)));
            self.peers[peer]
                .congestion
                .controller()
                .on_signal(now, pause);
        }
        if let Purpose::Request {
            operation,
            block1,
            block2,
        } = purpose
        {
            if message.code() == Code::TOO_MANY_REQUESTS {
                let max_age = message.uint_option(OptionNumber::MAX_AGE);
                self.note_too_many(now, operation, max_age);
            }
            self.handle_operation_response(now, operation, block1, block2, message);
        }
    }

    /// An answer that no exchange waits for may still tell which copies were spurious.
    fn note_late_answer(&mut self, now: Instant, peer: PeerIndex, message: &MessageView<'_>) {
        let id = message.message_id();
        let from = self.peers[peer].address;
        let ended = self
            .ended
            .iter_mut()
            .rev()
            .find(|e| e.id == id && e.peer == from);
        let Some(ended) = ended else { return };
        let peer = &mut self.peers[peer];
        ended.compare_count(self.count_option, message, &mut peer.echo);
        ended.answers = ended.answers.saturating_add(1);
        let counts = self.counters.of_mut(ended.kind);
        if ended.answers > 1 {
            counts.answered_again += 1;
        } else {
            counts.answered_late += 1;
        }
        let late = LateAnswer::new(now, ended.sent, ended.answers, now.since(ended.began))
            .with_abandoned(ended.abandoned);
        peer.congestion.controller().on_late_answer(&late);
        self.trace(now, from, What::AnsweredAgain { id });
    }
}
