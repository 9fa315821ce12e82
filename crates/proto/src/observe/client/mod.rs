//! Observations of this endpoint (RFC 7641 3).
//!
//! An observation is a long-lived request. Its registration carries the token of its notifications.
//! Notifications, and the blocks of their bodies, are delivered in the order of the server. When
//! the representation becomes stale, or an error occurs, the observation reports that and registers
//! again, until it is cancelled. It therefore survives a restart of the server.

pub(crate) mod observation;

use alloc::vec::Vec;
use core::net::SocketAddr;

use bytes::Bytes;
use carob_cc::controller::CopyTagging;
use carob_cc::random::uniform;
use carob_cc::time::Duration;

use crate::address::PeerIndex;
use crate::block::client::Received;
use crate::carrier::Carrier;
use crate::client::{Client, Hold, Operation};
use crate::codec::token_room;
use crate::codec::{BlockValue, Code, MessageView, OptionNumber, TokenKey};
use crate::context::{Context, Owner};
use crate::event::{Event, Failure, RequestId};
use crate::message::Request;
use crate::message_layer::tokens::OwnToken;
use crate::observe::client::observation::{Observation, Phase};
use crate::observe::{Newest, Observe};
use crate::trace::TraceEvent;
use crate::writing::encode;

/// The default Max-Age of a response, in seconds (RFC 7252 5.10.5).
const MAX_AGE: u32 = 60;
/// The delay of a renewal after the state became stale, drawn between the two (RFC 7641 3.3.1), so
/// that a crowd of clients does not register at once.
const RENEW_AFTER: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(15));
/// Doublings of that delay at most, one for each failed renewal: to 5 to 16 minutes.
const DOUBLINGS: u8 = 6;

impl Client {
    /// Makes a new request an observation.
    pub(crate) fn begin_observation(
        &mut self,
        cx: &mut Context,
        carrier: &mut Carrier,
        index: u32,
    ) {
        // The token lives on in notifications, so it counts no retransmissions.
        let operation = &self.operations[index as usize];
        let (peer, confirmable) = (operation.peer, operation.sending.confirmable);
        let token = carrier.fresh_token(cx, peer, CopyTagging::Off, confirmable);
        let key = token.key;
        let observation = Observation {
            token,
            timer: cx.timers.add(Owner::Observation(index)),
            phase: Phase::Registering,
            newest: None,
            arriving: false,
            heard: false,
            failures: 0,
        };
        self.operations[index as usize].observation = Some(alloc::boxed::Box::new(observation));
        carrier.tokens.observations.add(peer, key, index);
    }

    /// Replaces this token of an observation, which the peer does not support.
    pub(crate) fn replace_observation_token(
        &mut self,
        index: u32,
        before: &TokenKey,
        token: OwnToken,
    ) {
        let operation = self.operations.get_mut(index as usize);
        let observation = operation.and_then(|operation| operation.observation.as_mut());
        if let Some(observation) = observation.filter(|own| own.token.key == *before) {
            observation.token = token;
        }
    }

    /// The token of a request that is an observation.
    pub(crate) fn observation_token(&self, index: u32) -> Option<OwnToken> {
        let observation = self.operations[index as usize].observation.as_ref()?;
        Some(observation.token.clone())
    }

    /// The Observe value of a message of request `index` for `block2`, if it registers or
    /// deregisters.
    pub(crate) fn registration(&self, index: u32, block2: Option<BlockValue>) -> Option<Observe> {
        let observation = self.operations[index as usize].observation.as_ref()?;
        if block2.is_some_and(|block| block.number > 0) {
            return None; // more of a notification's body
        }
        match observation.phase {
            Phase::Registering => Some(Observe::Register),
            Phase::Ending => Some(Observe::Deregister),
            Phase::Fresh | Phase::Stale => None,
        }
    }

    /// Deregisters an observation: the server's response is the request's last event. Returns
    /// whether the request was in progress.
    ///
    /// [`cancel`](Self::cancel) ends it without further events. The server then receives a Reset to
    /// its next notification (RFC 7641 3.6), or over a connection at once.
    pub(crate) fn stop_observing(
        &mut self,
        cx: &mut Context,
        carrier: &mut Carrier,
        id: RequestId,
    ) -> bool {
        let Some(Operation {
            observation: Some(observation),
            ..
        }) = self.operation(id)
        else {
            return self.cancel(cx, carrier, id);
        };
        if observation.phase == Phase::Ending {
            return true;
        }
        observation.phase = Phase::Ending;
        let timer = observation.timer;
        cx.timers.cancel(timer);
        self.send_anew(cx, carrier, id.index);
        true
    }

    /// Deregisters an observation that ends immediately, over a connection: there, notifications
    /// cannot be rejected (RFC 8323 7.4). The response is ignored.
    pub(crate) fn deregister(&mut self, cx: &mut Context, carrier: &mut Carrier, index: u32) {
        let operation = &self.operations[index as usize];
        let Some(observation) = &operation.observation else {
            return;
        };
        let to = carrier.peers[operation.peer].address;
        let has_state = observation.newest.is_some() && observation.phase != Phase::Ending;
        // Closing the connection ends it anyway.
        if !has_state || !carrier.takes_requests(to) {
            return;
        }
        let (capacity, token) = (carrier.capacity(cx, to), observation.token.clone());
        let operation = &self.operations[index as usize];
        let Request { code, options, .. } = &operation.request;
        let extra = [Some((OptionNumber::OBSERVE, Observe::Deregister.value()))];
        let payload = if *code == Code::FETCH && operation.upload.is_none() {
            operation.request.payload.clone()
        } else {
            Bytes::new()
        };
        let (code, options) = (*code, options.clone());
        let head = 64 + token_room(token.as_ref().len()) + options.encoded_len();
        cx.grow_scratch(&capacity, head, payload.len());
        let mut scratch = core::mem::take(&mut cx.scratch);
        let room = capacity.message.min(scratch.len());
        if let Ok(length) = encode(
            &mut scratch[..room],
            &token,
            code,
            &options,
            &extra,
            &payload,
        ) {
            carrier.transmit(cx, to, &scratch[..length]);
        }
        cx.scratch = scratch;
    }

    /// Sends the request of an observation again, its body from the beginning.
    pub(crate) fn send_anew(&mut self, cx: &mut Context, carrier: &mut Carrier, index: u32) {
        self.drop_exchanges(cx, carrier, index);
        self.leave_queue(index);
        let operation = &mut self.operations[index as usize];
        if let Some(upload) = &mut operation.upload {
            *upload = upload.again(operation.request.payload.clone());
            let options = &operation.request.options;
            operation.hold = Hold::of_queue(self.block1_queue.join(operation.peer, options, index));
        }
        let held = !operation.hold.is_none();
        self.serve_block1_queue(cx, carrier);
        // Otherwise it is sent when its queue reaches it, possibly just now.
        if !held {
            self.advance(cx, carrier, index);
        }
    }

    /// Processes a notification, or the final response of an observation.
    pub(crate) fn handle_notification(
        &mut self,
        cx: &mut Context,
        carrier: &mut Carrier,
        from: SocketAddr,
        index: u32,
        message: &MessageView<'_>,
    ) {
        let peer = self.operations[index as usize].peer;
        debug_assert!(
            carrier.peers[peer].address == from,
            "the token of another peer"
        );
        let parameters = carrier.parameters(cx, peer);
        carrier.acknowledge_response(cx, from, message, parameters);
        if let Some(number) = cx.not_understood(message) {
            return self.fail_operation(cx, carrier, index, Failure::UnknownOption(number));
        }
        let ordered = cx.is_stream();
        let received = match Received::read(message, ordered) {
            Ok(received) => received,
            Err(failure) => return self.fail_operation(cx, carrier, index, failure),
        };
        if self.operations[index as usize].q_download.is_some() {
            if let Some(block) = received.q_block2().filter(|_| message.code().is_success()) {
                let block = (block, &received);
                self.take_q_block2(cx, carrier, index, block, message);
            }
            return;
        }
        let Some(observation) = &mut self.operations[index as usize].observation else {
            return;
        };
        if observation.phase == Phase::Ending {
            return; // already cancelled
        }
        if let Some(sequence) = sequence(message) {
            // A connection keeps the order (RFC 8323 7.1).
            let newer = ordered
                || observation
                    .newest
                    .is_none_or(|newest| newest.is_older_than(sequence, cx.now));
            if !newer {
                return;
            }
            observation.heard = true;
            // A registration in progress goes on; nothing else does.
            let registering = observation.phase == Phase::Registering;
            if !registering {
                observation.phase = Phase::Fresh;
                self.drop_exchanges(cx, carrier, index);
            }
            self.begin_notification(cx, carrier, index, sequence, message);
        } else if self.is_setback(index, message) {
            let code = message.code();
            let not_now = (code != Code::UNAUTHORIZED).then_some(Failure::NotNow(code));
            let pause = not_now.map_or(0, |_| max_age(message));
            self.drop_exchanges(cx, carrier, index);
            self.operations[index as usize].discard_partial_state();
            let pause = Duration::from_secs(u64::from(pause));
            return self.schedule_renewal(cx, carrier, index, not_now, pause);
        } else {
            // The server has removed the observer (RFC 7641 4.2).
            self.drop_exchanges(cx, carrier, index);
            end_as_request(&mut self.operations[index as usize]);
        }
        self.take_body(cx, carrier, index, None, &received, message);
    }

    /// Returns whether a message without Observe leaves the observation alive: a late response to a
    /// renewal that a notification has already completed. It may be a challenge, which the next
    /// renewal answers, or a temporary error.
    pub(crate) fn is_setback(&mut self, index: u32, message: &MessageView<'_>) -> bool {
        let operation = &mut self.operations[index as usize];
        match message.code() {
            Code::SERVICE_UNAVAILABLE | Code::TOO_MANY_REQUESTS => true,
            Code::UNAUTHORIZED => operation.take_challenge(message),
            _ => false,
        }
    }

    /// Processes the first message of the response to a registration. Returns whether it is to be
    /// delivered.
    pub(crate) fn take_registration(
        &mut self,
        cx: &mut Context,
        carrier: &mut Carrier,
        index: u32,
        message: &MessageView<'_>,
    ) -> bool {
        let ordered = cx.is_stream();
        let operation = &mut self.operations[index as usize];
        let Some(observation) = &mut operation.observation else {
            return true;
        };
        let code = message.code();
        if observation.phase == Phase::Registering {
            if let Some(sequence) = sequence(message) {
                observation.phase = Phase::Fresh;
                // A restarted server counts from the start. The response to a registration is therefore the
                // newest state regardless of its number, unless a notification has overtaken it.
                let overtaken = observation.newest.is_some_and(|newest| {
                    observation.heard && !ordered && !newest.is_older_than(sequence, cx.now)
                });
                if overtaken {
                    let fresh_until = cx.now + Duration::from_secs(u64::from(max_age(message)));
                    cx.timers.set(observation.timer, fresh_until);
                    return false;
                }
                self.drop_exchanges(cx, carrier, index);
                self.begin_notification(cx, carrier, index, sequence, message);
                return true;
            }
            let not_now = matches!(code, Code::SERVICE_UNAVAILABLE | Code::TOO_MANY_REQUESTS);
            if not_now && observation.newest.is_some() {
                let pause = Duration::from_secs(u64::from(max_age(message)));
                self.schedule_renewal(cx, carrier, index, Some(Failure::NotNow(code)), pause);
                return false;
            }
        }
        // The server does not accept the registration: the response is an ordinary one.
        self.drop_exchanges(cx, carrier, index);
        end_as_request(&mut self.operations[index as usize]);
        true
    }

    /// Begins a newer state; an incomplete older one is discarded.
    pub(crate) fn begin_notification(
        &mut self,
        cx: &mut Context,
        carrier: &mut Carrier,
        index: u32,
        sequence: u32,
        message: &MessageView<'_>,
    ) {
        let operation = &mut self.operations[index as usize];
        operation.response.clear();
        let peer = operation.peer;
        let Some(observation) = &mut operation.observation else {
            return;
        };
        let first = observation.newest.is_none();
        observation.newest = Some(Newest {
            sequence,
            at: cx.now,
        });
        if first {
            let token = &observation.token.key;
            carrier.tokens.observations.establish(peer, token, index);
        }
        observation.arriving = true;
        observation.failures = 0;
        let fresh_until = cx.now + Duration::from_secs(u64::from(max_age(message)));
        if observation.phase == Phase::Fresh {
            cx.timers.set(observation.timer, fresh_until);
        }
    }

    /// Completes a response; returns whether it was a state of an observation.
    pub(crate) fn end_notification(
        &mut self,
        cx: &mut Context,
        carrier: &mut Carrier,
        index: u32,
    ) -> bool {
        let operation = &mut self.operations[index as usize];
        operation.response.download = None;
        let Some(observation) = &mut operation.observation else {
            return false;
        };
        let registering = observation.phase == Phase::Registering;
        let arrived = core::mem::take(&mut observation.arriving);
        if arrived && !registering {
            // Until the renewal, other requests may send bodies there.
            self.leave_queue(index);
            self.serve_block1_queue(cx, carrier);
        }
        arrived
    }

    pub(crate) fn handle_observation_timer(
        &mut self,
        cx: &mut Context,
        carrier: &mut Carrier,
        index: u32,
    ) {
        let Some(observation) = &mut self.operations[index as usize].observation else {
            return;
        };
        match observation.phase {
            Phase::Fresh => self.schedule_renewal(cx, carrier, index, None, Duration::ZERO),
            Phase::Stale => {
                observation.phase = Phase::Registering;
                observation.heard = false;
                self.operations[index as usize].discard_partial_state();
                self.send_anew(cx, carrier, index);
            }
            Phase::Registering | Phase::Ending => {}
        }
    }

    /// Reports that an observation is stale, or that its renewal failed, and schedules the next
    /// registration after at least `pause`.
    pub(crate) fn schedule_renewal(
        &mut self,
        cx: &mut Context,
        carrier: &mut Carrier,
        index: u32,
        failure: Option<Failure>,
        pause: Duration,
    ) {
        let id = self.id(index);
        let Some(observation) = &mut self.operations[index as usize].observation else {
            return;
        };
        debug_assert!(observation.phase != Phase::Ending, "it is deregistered");
        let (low, high) = RENEW_AFTER;
        let times = 1 << observation.failures.min(DOUBLINGS);
        let after = uniform(&mut *cx.random, low, high).times(times);
        if failure.is_some() {
            // Backs off, so that clients of a server that is down do not add to its load.
            observation.failures = observation.failures.saturating_add(1);
        }
        observation.phase = Phase::Stale;
        let timer = observation.timer;
        cx.timers.set(timer, cx.now + after.max(pause));
        self.event(cx, Event::Stale { id, failure });
        let peer = self.operations[index as usize].peer;
        cx.trace(carrier.peers[peer].address, TraceEvent::Stale);
        self.leave_queue(index);
        self.serve_block1_queue(cx, carrier);
    }

    /// Returns whether an established observation survives this failure.
    pub(crate) fn survives(
        &mut self,
        cx: &mut Context,
        carrier: &mut Carrier,
        index: u32,
        failure: Failure,
    ) -> bool {
        let Some(observation) = &self.operations[index as usize].observation else {
            return false;
        };
        let last = matches!(
            failure,
            Failure::DeadlinePassed
                | Failure::ShutDown
                | Failure::UnknownOption(_)
                // The next state would have them, too.
                | Failure::Options(_)
        );
        if last || observation.newest.is_none() || observation.phase == Phase::Ending {
            return false;
        }
        self.drop_exchanges(cx, carrier, index);
        self.operations[index as usize].discard_partial_state();
        self.schedule_renewal(cx, carrier, index, Some(failure), Duration::ZERO);
        true
    }

    /// Handles the end of a connection, which ends its observations (RFC 8323 7.4): they become
    /// stale regardless of their age, and register again on the next one.
    pub(crate) fn observations_lost(
        &mut self,
        cx: &mut Context,
        carrier: &mut Carrier,
        peer: PeerIndex,
        failure: Failure,
    ) {
        let lost = |(index, operation): (usize, &Operation)| {
            let observation = operation.observation.as_ref()?;
            let fresh = operation.peer == peer && observation.phase == Phase::Fresh;
            fresh.then_some(index as u32)
        };
        // A list, because each renewal changes the table.
        let lost: Vec<u32> = self.operations.iter().filter_map(lost).collect();
        for index in lost {
            self.survives(cx, carrier, index, failure);
        }
    }

    /// Ends all exchanges of a request.
    pub(crate) fn drop_exchanges(&mut self, cx: &mut Context, carrier: &mut Carrier, index: u32) {
        for exchange in core::mem::take(&mut self.operations[index as usize].exchanges) {
            carrier.cancel(cx, exchange, |purpose| purpose.operation() == Some(index));
        }
    }
}

impl Operation {
    /// Discards the incomplete state.
    fn discard_partial_state(&mut self) {
        self.response.clear();
        if let Some(observation) = &mut self.observation {
            observation.arriving = false;
        }
    }

    /// Returns whether a notification is being reassembled.
    pub(crate) fn is_notified(&self) -> bool {
        self.observation.as_ref().is_some_and(|o| o.arriving)
    }
}

/// Turns an observation into an ordinary request, whose response is its last event.
fn end_as_request(operation: &mut Operation) {
    operation.response.clear();
    if let Some(observation) = &mut operation.observation {
        observation.arriving = false;
        observation.phase = Phase::Ending;
    }
}

fn sequence(message: &MessageView<'_>) -> Option<u32> {
    let value = message.uint_option(OptionNumber::OBSERVE);
    // Only a 2.xx notification has an Observe option (RFC 7641 4.2).
    value.filter(|_| message.code().is_success())
}

fn max_age(message: &MessageView<'_>) -> u32 {
    message
        .uint_option(OptionNumber::MAX_AGE)
        .unwrap_or(MAX_AGE)
}
