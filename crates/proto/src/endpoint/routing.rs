//! Routing of an endpoint's inputs to the layers, and of their outcomes back.

use core::net::SocketAddr;

use carob_cc::time::Instant;

use crate::carrier::{Delivered, Outcome};
use crate::codec::{Code, FrameReader};
use crate::context::{Owner, Queued};
use crate::endpoint::Endpoint;
use crate::event::SessionEnd;
use crate::event::{Disconnect, Event, Failure, Output};
use crate::server::admission::{RefusalBody, refuse};
use crate::server::slow_down;
use crate::stream_layer::NextMessage;
use crate::tables::rate_limit::Admission;

impl Endpoint {
    /// Processes a datagram. Ignored over a reliable transport.
    pub fn handle_datagram(&mut self, now: Instant, from: SocketAddr, bytes: &[u8]) {
        if self.cx.is_stream() {
            return;
        }
        self.begin_input(now);
        if let Some(delivered) = self.carrier.on_datagram(&mut self.cx, from, bytes) {
            self.route(from, &delivered);
        }
        self.settle();
    }

    /// Processes the beginning of a datagram that is longer than the driver's buffer. A request is answered with 4.13, Size1 and, for block-wise transfer, Block1 (RFC
    /// 7252 5.9.2.9, RFC 7959 2.9.3). A request of this endpoint that gets no better reply fails with
    /// [`Failure::OversizedReply`].
    pub fn handle_oversized(&mut self, now: Instant, from: SocketAddr, beginning: &[u8]) {
        if self.cx.is_stream() {
            return;
        }
        self.begin_input(now);
        let Self { cx, carrier, .. } = self;
        if let Some(request) = carrier.on_oversized(cx, from, beginning) {
            let size = u32::try_from(cx.config.limits.upload_bytes).unwrap_or(u32::MAX);
            let body = RefusalBody::InBlocks(cx.config.block_size, size);
            refuse(
                cx,
                carrier,
                from,
                &request,
                Code::REQUEST_ENTITY_TOO_LARGE,
                body,
            );
        }
        self.settle();
    }

    /// Processes a datagram sent to a multicast address. Only NON requests are valid; all else is
    /// ignored without a Reset (RFC 7252 8.1).
    pub fn handle_group_datagram(&mut self, now: Instant, from: SocketAddr, bytes: &[u8]) {
        if self.cx.is_stream() {
            return;
        }
        self.begin_input(now);
        if let Some(request) = self.carrier.on_group_datagram(&mut self.cx, from, bytes) {
            self.server
                .handle_request(&mut self.cx, &mut self.carrier, from, &request, true);
        }
        self.settle();
    }

    /// Processes bytes received on a connection: any part of a stream, or one WebSocket message.
    /// Bytes from a peer without a connection are ignored.
    ///
    /// Every request and ping may be answered at once. A driver therefore stops reading from a
    /// connection while it [cannot send](Self::set_congested) the pending output of that peer.
    /// Otherwise a peer that keeps sending is aborted. Requests of one read wait while their
    /// connection is congested and 64 KiB have been written for it since.
    pub fn handle_stream(&mut self, now: Instant, from: SocketAddr, bytes: &[u8]) {
        self.begin_input(now);
        if let Some((index, reader)) = self.carrier.on_bytes(&mut self.cx, from, bytes) {
            self.take_messages(index, reader);
        }
        self.settle();
    }

    /// Reports that `peer` is unreachable (ICMP): its exchanges end. A driver first verifies the
    /// datagram quoted by ICMP with [`is_under_way`](Self::is_under_way).
    pub fn handle_unreachable(&mut self, now: Instant, peer: SocketAddr) {
        self.cx.now = now;
        if self.cx.is_stream() {
            (self.carrier).disconnected(&mut self.cx, peer, Disconnect::NotMade);
        } else if let Some(peer) = self.carrier.peers.find(peer) {
            self.carrier.signal_unreachable(&self.cx, peer);
            self.abandon_exchanges(peer, |_| true, Failure::Unreachable);
            self.carrier.remove_observers_of(&mut self.cx, peer);
        }
        self.settle();
    }

    /// Reports the end of the session with `peer`: everything in progress in it ends, on both sides.
    /// Unsent requests wait for the next session, where observations are registered again.
    pub fn session_ended(&mut self, now: Instant, peer: SocketAddr, why: SessionEnd) {
        self.cx.now = now;
        self.server.forget_session(&mut self.cx, peer);
        let Some(index) = self.carrier.forget_session(&mut self.cx, peer) else {
            return;
        };
        let failure = Failure::SessionEnded(why);
        // The server has lost the body of the next block, and responses of this endpoint have no
        // receiver.
        self.abandon_exchanges(
            index,
            |exchange| !exchange.is_queued() || !exchange.begins_request(),
            failure,
        );
        let Self {
            cx,
            carrier,
            client,
            ..
        } = self;
        client.observations_lost(cx, carrier, index, failure);
        carrier.session_forgotten(cx, index);
        self.settle();
    }

    /// Advances the time: processes everything due at `now`.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.begin_input(now);
        // One at a time: what a timer causes may move or remove the others that are due.
        while let Some(owner) = self.cx.timers.expire(now) {
            self.on_timer(owner);
            self.settle();
        }
        debug_assert!(self.cx.timers.next().is_none_or(|next| next > now));
        let Self {
            cx,
            carrier,
            server,
            ..
        } = self;
        server.acknowledge_overdue(cx, carrier);
        carrier.check_interest(cx);
        let lifetime = cx.lifetimes.exchange;
        carrier.response_cache.expire(now, lifetime);
        self.settle();
    }

    /// Returns the next output, or the time of the next deadline.
    pub fn poll(&mut self) -> Output<'_> {
        self.cx.out.recycle();
        // Only when the driver has taken all output, so that memory holds the output of one
        // batch at most.
        while self.cx.out.is_empty() && (self.take_more_messages() || self.notify_some()) {}
        match self.cx.out.pop() {
            Some(Queued::Transmit { to, range }) => Output::Transmit {
                to,
                bytes: self.cx.out.bytes(range),
            },
            Some(Queued::Request(id)) => Output::Event(Event::Request(id)),
            Some(Queued::Trace(trace)) => Output::Event(Event::Trace(trace)),
            Some(Queued::Connect(to)) => Output::Connect { to },
            Some(Queued::Close(to)) => Output::Close { to },
            Some(Queued::Event(event)) => Output::Event(*event),
            None => Output::Wait(self.next_deadline()),
        }
    }

    #[inline]
    fn next_deadline(&mut self) -> Option<Instant> {
        let never = Instant::FAR_FUTURE;
        let lifetime = self.cx.lifetimes.exchange;
        let bodies = self.carrier.response_cache.next_expiry(lifetime);
        let interest = self.carrier.next_interest_check(&self.cx);
        let due = (self.cx.timers.next().unwrap_or(never))
            .min(self.server.next_acknowledgement().unwrap_or(never))
            .min(bodies.unwrap_or(never))
            .min(interest.unwrap_or(never));
        (due < never).then_some(due)
    }

    #[inline]
    fn begin_input(&mut self, now: Instant) {
        debug_assert!(!self.carrier.has_outcomes(), "outcomes of an earlier input");
        debug_assert!(now >= self.cx.input_at, "the clock went back");
        self.cx.now = now;
        self.cx.input_at = now;
    }

    /// Routes a received message to its layer.
    #[inline]
    fn route(&mut self, from: SocketAddr, delivered: &Delivered<'_>) {
        let Self {
            cx,
            carrier,
            client,
            server,
        } = self;
        match delivered {
            Delivered::Request(request, Admission::Allow) => {
                server.handle_request(cx, carrier, from, request, false);
            }
            Delivered::Request(request, admission) => {
                slow_down(cx, carrier, from, request, *admission);
            }
            Delivered::Response(answered, message) => {
                client.handle_response(cx, carrier, *answered, message);
            }
            Delivered::Notification { operation, message } => {
                client.handle_notification(cx, carrier, from, *operation, message);
            }
            Delivered::Unmatched(message) => {
                // No request matches: its server is sent a Reset (RFC 7252 4.2, 4.3), or over a
                // connection nothing (RFC 8323 3.4).
                let known = client.on_ended_q_block(cx, carrier, from, message)
                    || client.handle_member(cx, carrier, from, message);
                if !known && !cx.is_stream() {
                    carrier.reject(cx, from, message.message_id());
                }
            }
        }
    }

    fn on_timer(&mut self, owner: Owner) {
        let Self {
            cx,
            carrier,
            client,
            server,
        } = self;
        match owner {
            Owner::Exchange(index) => carrier.handle_exchange_timer(cx, index),
            Owner::Peer(index) => carrier.pump(cx, index),
            Owner::Connection(index) => carrier.handle_connection_timer(cx, index),
            Owner::BottleneckGroup(number) => carrier.pump_aggregate(cx, number),
            Owner::Operation(index) => {
                let failure = client.deadline_failure(carrier, index);
                client.fail_operation(cx, carrier, index, failure);
            }
            Owner::Observation(index) => client.handle_observation_timer(cx, carrier, index),
            Owner::QDownload(index) => client.on_q_download_timer(cx, carrier, index),
            Owner::QUpload(index) => client.on_q_upload_timer(cx, carrier, index),
            Owner::Paused(index) => client.on_retry_after_timer(cx, carrier, index),
            Owner::Multicast(index) => client.close_group(cx, carrier, index),
            Owner::DelayedResponse(index) => server.answer_group_now(cx, carrier, index),
            Owner::Assembly(index) => server.on_assembly_timer(cx, carrier, index),
        }
    }

    /// Handles the outcomes reported by the carrier.
    #[inline]
    pub(super) fn settle(&mut self) {
        if self.carrier.has_outcomes() {
            self.handle_outcomes();
        }
    }

    #[cold]
    fn handle_outcomes(&mut self) {
        while let Some(outcome) = self.carrier.next_outcome() {
            self.on_outcome(outcome);
        }
        debug_assert!(
            !self.carrier.has_outcomes(),
            "an outcome is handled in its call"
        );
    }

    fn on_outcome(&mut self, outcome: Outcome) {
        let Self {
            cx,
            carrier,
            client,
            ..
        } = self;
        match outcome {
            Outcome::Failed {
                purpose,
                exchange,
                failure,
                heard,
            } => client.on_exchange_failed(cx, carrier, purpose, exchange, failure, heard),
            Outcome::Unreported {
                purpose,
                exchange,
                silence,
            } => client.on_unreported(cx, carrier, (purpose, exchange), silence),
            Outcome::PresumedReceived { purpose, exchange } => {
                client.on_presumed_received(cx, carrier, purpose, exchange);
            }
            Outcome::BlockAcknowledged {
                purpose,
                exchange,
                transmission,
            } => client.on_block_acknowledged(cx, carrier, (purpose, exchange), transmission),
            Outcome::Suppressed { operation, peer } => {
                client.on_response_suppressed(cx, carrier, operation);
                carrier.pump(cx, peer);
            }
            Outcome::Pong { operation } => client.finish_ping(cx, carrier, operation),
            Outcome::Resubmitted {
                operation,
                before,
                exchange,
            } => client.replace_exchange(operation, before, exchange),
            Outcome::TokenReplaced {
                operation,
                before,
                token,
            } => client.replace_observation_token(operation, &before, token),
            Outcome::CapacityKnown { peer, waiting } => {
                for id in waiting {
                    client.on_capacity_known(cx, carrier, id);
                }
                if let Some(peer) = carrier.peers.find(peer) {
                    carrier.pump(cx, peer);
                }
            }
            Outcome::Disconnected {
                peer,
                waiting,
                failure,
                was_open,
            } => {
                self.server.forget_bodies_of(&mut self.cx, peer);
                for id in waiting {
                    self.client
                        .fail_request(&mut self.cx, &mut self.carrier, id, failure);
                }
                if let Some(peer) = self.carrier.peers.find(peer) {
                    self.on_connection_lost(peer, failure, was_open);
                }
            }
        }
    }

    /// Handles the end of a connection: observers are removed. Requests that are unsent or may be
    /// repeated wait for the next connection, and the others fail.
    fn on_connection_lost(&mut self, peer: u32, failure: Failure, was_open: bool) {
        self.carrier.remove_observers_of(&mut self.cx, peer);
        for index in self.carrier.exchanges_with(peer, |_| true) {
            // Failing one operation may have ended other exchanges of this list already.
            if !self
                .carrier
                .survives_connection(&mut self.cx, index, was_open)
            {
                self.carrier
                    .abandon_unreachable(&mut self.cx, index, failure);
                self.settle();
            }
        }
        let Self {
            cx,
            carrier,
            client,
            ..
        } = self;
        client.observations_lost(cx, carrier, peer, failure);
        carrier.pump(cx, peer);
    }

    /// Ends the exchanges with a peer that satisfy the predicate.
    pub(super) fn abandon_exchanges(
        &mut self,
        peer: u32,
        ends: impl Fn(&crate::message_layer::Exchange) -> bool,
        failure: Failure,
    ) {
        for index in self.carrier.exchanges_with(peer, ends) {
            // Failing one operation may have ended other exchanges of this list already.
            self.carrier
                .abandon_unreachable(&mut self.cx, index, failure);
            self.settle();
        }
    }

    /// Notifies some more observers of changes; returns whether there were any.
    #[inline]
    fn notify_some(&mut self) -> bool {
        // `poll` is given no time; this output belongs to the last input.
        self.cx.now = self.cx.input_at;
        let some = self.carrier.notify_some(&mut self.cx);
        self.settle();
        some
    }

    /// Continues with a stream that holds more messages than are processed at once, if there is
    /// one. Called after all output of the earlier ones was polled.
    #[inline]
    fn take_more_messages(&mut self) -> bool {
        let Some((index, reader)) = self.carrier.next_waiting_stream() else {
            return false;
        };
        self.cx.now = self.cx.input_at;
        self.take_messages(index, reader);
        self.settle();
        true
    }

    /// Processes the messages in `reader`, which was taken out of its connection, up to the number
    /// that may be answered at once.
    fn take_messages(&mut self, index: u32, mut reader: FrameReader) {
        let (from, serial) = self.carrier.connection_identity(index);
        for taken in 0.. {
            let next = (self.carrier).next_message(&mut self.cx, index, &mut reader, taken);
            let bytes = match next {
                NextMessage::Message(bytes) => bytes,
                NextMessage::Later { more } => {
                    return self.carrier.put_back(&mut self.cx, index, reader, more);
                }
                NextMessage::Aborted => return,
            };
            if let Some(delivered) = self.carrier.on_frame(&mut self.cx, from, bytes) {
                self.route(from, &delivered);
                self.settle();
                self.carrier.close_if_released(&mut self.cx, from);
            }
            self.settle();
            // It may have ended, and another begun in its place.
            if self.carrier.connections.serial(from) != Some(serial) {
                return;
            }
        }
    }
}
