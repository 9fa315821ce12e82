//! The message layer: queueing, transmission, retransmission and matching (RFC 7252 4, 5.3.2).
//!
//! An exchange is one message of this endpoint and its outcome: a request or one block of it, a
//! separate response, a notification, a ping. It is queued at its peer until the controller's
//! window and pacing admit it. It is unacknowledged while its timer runs, then waits for a
//! response, and ends.

pub(crate) mod bottleneck_group;
mod copy_tagging;
mod end;
mod exchange;
mod input;
mod matching;
pub(crate) mod peer;
mod queue;
mod reported;
mod retransmission;
mod separate_response;
pub(crate) mod session;
pub(crate) mod silence;
pub(crate) mod tokens;

use alloc::boxed::Box;
use core::net::SocketAddr;

use carob_cc::TransmissionParameters;
use carob_cc::bottleneck_group::GroupPacketState;
use carob_cc::controller::Timer;
use carob_cc::evidence::{Kind, SendCandidate};
use carob_cc::time::{Duration, Instant};
use smallvec::SmallVec;

use crate::address::PeerIndex;
use crate::carrier::Carrier;
use crate::codec::HEADER_LENGTH;
use crate::codec::{MessageId, Type};
use crate::context::{Context, Owner};
use crate::event::RequestError;
use crate::message_id::MessageIds;
use crate::message_layer::bottleneck_group::NONE as NO_AGGREGATE;
use crate::message_layer::peer::AddressState;
use crate::message_layer::reported::first_set_departure;
use crate::trace::TraceEvent;
use crate::writing::set_header;

pub(crate) use crate::message_layer::queue::Queue;

pub(crate) use crate::message_layer::exchange::ExchangeIndex;
pub(crate) use crate::message_layer::exchange::{
    Ended, Exchange, Purpose, ReplyFault, RequestTraits, State, Submission, SuppressedWait,
    UNLIMITED,
};

/// Bytes of an empty message, as an acknowledgement is.
const ACKNOWLEDGEMENT_BYTES: u32 = 4;

/// When a queued message may leave.
enum Departure {
    /// Now, with this Message ID.
    Now(MessageId),
    /// At this time, by its controller's pacing.
    At(Instant),
    /// At this time, when a Message ID is free.
    WithoutId(Instant),
    /// When something else has ended.
    Later,
}

impl Carrier {
    /// The peer at `address`, added if unknown.
    pub(crate) fn peer(
        &mut self,
        cx: &mut Context,
        address: SocketAddr,
    ) -> Result<PeerIndex, RequestError> {
        self.peer_as(cx, address, AddressState::Initiated)
    }

    /// The peer at `address` after a message from it, added if unknown.
    pub(crate) fn peer_of_message(
        &mut self,
        cx: &mut Context,
        address: SocketAddr,
    ) -> Result<PeerIndex, RequestError> {
        let address_state = if self.admission.is_validated(cx, address) {
            AddressState::Validated
        } else {
            AddressState::Unvalidated
        };
        self.peer_as(cx, address, address_state)
    }

    pub(crate) fn peer_as(
        &mut self,
        cx: &mut Context,
        address: SocketAddr,
        address_state: AddressState,
    ) -> Result<PeerIndex, RequestError> {
        let lifetime = cx.lifetimes.exchange;
        let settings = self.settings.get(&address);
        let (config, random) = (&cx.config, &mut cx.random);
        let index = self
            .peers
            .find_or_add(cx.now, lifetime, (address, address_state), || {
                let choice = settings.and_then(|s| s.controller.as_ref());
                let congestion = choice.unwrap_or(&config.controller).build(address);
                (
                    congestion,
                    MessageIds::starting_at((random.next_u32() >> 16) as u16),
                )
            })
            .map_err(|_| RequestError::PeersFull)?;
        let state = &mut self.peers[index];
        debug_assert!(state.address == address, "another peer was found");
        // One that was sent to before stays outside: its bytes in flight are charged to no
        // group.
        if state.aggregate == NO_AGGREGATE && state.tally.transmissions == 0 {
            state.aggregate = self.aggregates.join(index, address);
        }
        // A peer that was evicted and is known again gets back what the application set for it.
        if let Some(parameters) = settings.and_then(|s| s.parameters) {
            self.peers[index]
                .parameters
                .get_or_insert_with(|| Box::new(parameters));
        }
        Ok(index)
    }

    /// Returns whether a peer's queue takes another message.
    pub(crate) fn has_room(&self, cx: &Context, peer: PeerIndex) -> bool {
        self.peers[peer].queue.len() < cx.config.limits.queue
    }

    /// Queues a message at its peer and sends it if permitted.
    pub(crate) fn submit(
        &mut self,
        cx: &mut Context,
        peer: PeerIndex,
        submission: Submission,
    ) -> u32 {
        let Submission {
            purpose,
            confirmable,
            token,
            counting,
            bytes,
            answer_bytes,
            parameters,
            budget,
            request,
        } = submission;
        debug_assert!(bytes.len() >= HEADER_LENGTH, "a message has a header");
        debug_assert!(
            self.peers[peer].users < u32::MAX,
            "users are bounded by the tables"
        );
        debug_assert!(
            !cx.is_stream() || purpose.multicast().is_none(),
            "RFC 8323 1"
        );
        let entry = self.exchanges.vacant_entry();
        let index = entry.key() as u32;
        entry.insert(Exchange {
            peer,
            purpose,
            state: State::Queued,
            confirmable,
            token,
            counting,
            named: None,
            id: None,
            bytes,
            answer_bytes,
            request,
            parameters,
            budgeted: 0,
            group_state: GroupPacketState::default(),
            budget: u32::try_from(budget).unwrap_or(u32::MAX),
            timer: Timer::default(),
            timer_id: cx.timers.add(Owner::Exchange(index)),
            lengthened: Instant::ZERO,
            late: Duration::ZERO,
            transmissions: SmallVec::new(),
            fault: None,
            resent: false,
            first_of_id: 0,
            last_of_id: None,
            superseded: alloc::vec::Vec::new(),
            queued_next: u32::MAX,
            repairs: 0,
            repairs_now: 0,
        });
        self.on_queued(index);
        if let Some(observer) = purpose.observer()
            && cx.supersedes_notifications()
        {
            self.notifications.observers[observer].exchange = index;
        }
        // Over a connection, the reply to a ping is matched by its token, too.
        let by_token =
            purpose.wants_response() || (cx.is_stream() && matches!(purpose, Purpose::Ping { .. }));
        if by_token {
            self.index.add_token(&self.exchanges, index);
        }
        // A user keeps the peer from being evicted while the exchange refers to its index.
        self.peers[peer].users += 1;
        // Through the queue even if it may leave at once, so that messages to one peer keep
        // their order.
        self.peers[peer].queue.push(&mut self.exchanges, index);
        self.pump(cx, peer);
        index
    }

    /// Sends messages of a peer's queue as its controller permits.
    ///
    /// Notifications held back by the controller delay only each other: a request or a response
    /// behind them is not blocked.
    pub(crate) fn pump(&mut self, cx: &mut Context, peer: PeerIndex) {
        if cx.is_stream() {
            return self.pump_connection(cx, peer);
        }
        if !self.has_session(cx, peer) {
            return;
        }
        // The time of the next attempt.
        let mut later = None;
        let (mut before, mut holding) = (None, false);
        while let Some(index) = self.peers[peer].queue.next(&self.exchanges, before) {
            let kind = self.exchanges[index as usize].purpose.kind();
            if kind == Kind::Notification && (holding || self.follows_unacknowledged(index)) {
                before = Some(index);
                continue;
            }
            // Before the decision, which depends on the bytes and the type of the newest state.
            self.refresh_notification(cx, index);
            let parameters = self.exchange_parameters(cx, index);
            match self.departure(cx, index, &parameters) {
                Departure::Now(id) => {
                    self.peers[peer].queue.take(&mut self.exchanges, before);
                    self.send_first(cx, index, id, &parameters);
                }
                Departure::At(earliest) if kind == Kind::Notification => {
                    later = Some(earliest);
                    // The pacing of notifications applies to all of them, so that the others need
                    // not be tried.
                    holding = true;
                    before = Some(index);
                }
                Departure::WithoutId(at) => {
                    let wait = at.since(cx.now);
                    let address = self.peers[peer].address;
                    cx.trace(address, TraceEvent::MessageIdsExhausted { wait });
                    later = Some(later.map_or(at, |before: Instant| before.min(at)));
                    break;
                }
                Departure::At(at) => {
                    later = Some(later.map_or(at, |before: Instant| before.min(at)));
                    break;
                }
                // The next reply triggers another attempt.
                Departure::Later => break,
            }
        }
        self.wake_at(cx, peer, later);
        self.check_peer(peer);
    }

    /// Checks a peer's counts against each other.
    #[inline]
    pub(crate) fn check_peer(&self, peer: PeerIndex) {
        let peer = &self.peers[peer];
        let exchanges = peer.queue.len() + usize::from(peer.outstanding);
        debug_assert!(
            peer.users as usize >= exchanges,
            "{} of {exchanges}",
            peer.users
        );
        debug_assert!(peer.outstanding > 0 || peer.outstanding_bytes == 0);
        debug_assert!(peer.tally.retransmissions <= peer.tally.transmissions);
        debug_assert!(peer.tally.shortest <= peer.tally.round_trip);
        debug_assert!(self.notifications.waiting <= self.exchanges.len());
        debug_assert!(self.responses <= self.exchanges.len());
    }

    /// Looks at a peer's queue again at this time; if at none, when something of it ends.
    #[inline]
    fn wake_at(&mut self, cx: &mut Context, peer: PeerIndex, later: Option<Instant>) {
        let state = &mut self.peers[peer];
        debug_assert!(later.is_none_or(|at| at > cx.now), "a wait for the past");
        if let Some(later) = later {
            debug_assert!(!state.queue.is_empty(), "nothing waits");
            let wake = *state
                .wake
                .get_or_insert_with(|| cx.timers.add(Owner::Peer(peer)));
            cx.timers.set(wake, later);
        } else if state.queue.is_empty()
            && let Some(wake) = state.wake.take()
        {
            cx.timers.remove(wake);
        }
    }

    /// When a queued message may leave: as its peer's window and controller, its bottleneck group and
    /// the free Message IDs allow.
    #[inline]
    fn departure(
        &mut self,
        cx: &mut Context,
        index: u32,
        parameters: &TransmissionParameters,
    ) -> Departure {
        let exchange = &self.exchanges[index as usize];
        debug_assert!(exchange.is_queued(), "it has left");
        let (peer, kind) = (exchange.peer, exchange.purpose.kind());
        let window = self.window(cx, peer);
        let state = &self.peers[peer];
        let in_flight = state
            .outstanding_bytes
            .saturating_add(exchange.in_flight_bytes());
        // Reports come once a set, so that a window below a set would wait for
        // NON_RECEIVE_TIMEOUT each time.
        let first_set = exchange.is_reported() && state.tally.round_trip == 0;
        // A controller without a window leaves a set to a body (RFC 9177 7.2).
        let a_set = first_set || (exchange.is_reported() && window.exchanges <= parameters.nstart);
        let burst = if a_set {
            u16::from(exchange.request.burst)
        } else {
            0
        };
        if first_set && let Some(at) = first_set_departure(cx.now, state, parameters) {
            return Departure::At(at);
        }
        if state.outstanding >= window.exchanges.saturating_add(burst)
            // A message above the window of bytes leaves alone, since it could never leave
            // otherwise.
            || (state.outstanding > 0 && in_flight > window.bytes)
        {
            return Departure::Later;
        }
        let bytes = exchange.bytes.len() as u32;
        let candidate = SendCandidate::new(cx.now, parameters, bytes)
            .with_kind(kind)
            .with_confirmable(exchange.confirmable);
        let congestion = state.congestion.as_ref();
        let earliest = congestion.earliest_departure_time(&candidate);
        if earliest > cx.now {
            return Departure::At(earliest);
        }
        let confirmable = exchange.confirmable
            || (self.aggregates).must_confirm((state.aggregate, peer), bytes, kind);
        let multicast = exchange.purpose.multicast().is_some();
        // After the peer's own limits: one that may not send anyway must not wait for the
        // budget of its group.
        if !self.group_admits(cx, peer, bytes, confirmable) {
            return Departure::Later;
        }
        let lifetime = self.exchange_lifetime(cx, index);
        // Last, because an ID drawn for a message that then waits would be lost for
        // EXCHANGE_LIFETIME.
        let id = if multicast {
            self.group_ids.next(cx.now, lifetime)
        } else {
            let ids = &mut self.peers[peer].message_ids;
            ids.next(cx.now, lifetime, cx.config.groups)
        };
        match id {
            Ok(id) => Departure::Now(id),
            Err(at) => Departure::WithoutId(at),
        }
    }

    pub(crate) fn exchange_parameters(&self, cx: &Context, index: u32) -> TransmissionParameters {
        let exchange = &self.exchanges[index as usize];
        exchange
            .parameters
            .as_deref()
            .copied()
            .unwrap_or_else(|| self.parameters(cx, exchange.peer))
    }

    /// EXCHANGE_LIFETIME of an exchange; computed only where its parameters are not the endpoint's.
    pub(crate) fn exchange_lifetime(&self, cx: &Context, index: u32) -> Duration {
        let exchange = &self.exchanges[index as usize];
        if exchange.parameters.is_none() && self.peers[exchange.peer].parameters.is_none() {
            cx.lifetimes.exchange
        } else {
            self.exchange_parameters(cx, index).exchange_lifetime()
        }
    }

    pub(crate) fn send_first(
        &mut self,
        cx: &mut Context,
        index: u32,
        id: MessageId,
        parameters: &TransmissionParameters,
    ) {
        self.on_dequeued(index);
        let exchange = &mut self.exchanges[index as usize];
        debug_assert!(exchange.is_queued() && exchange.transmissions.is_empty());
        debug_assert!(exchange.id.is_none(), "a queued message has no Message ID");
        let peer = &mut self.peers[exchange.peer];
        let kind = exchange.purpose.kind();
        let group = (peer.aggregate, exchange.peer);
        exchange.id = Some(id);
        let candidate =
            SendCandidate::new(cx.now, parameters, exchange.bytes.len() as u32).with_kind(kind);
        let reported = exchange.is_reported();
        if !exchange.confirmable
            && !reported
            && exchange.purpose.multicast().is_none()
            && ((peer.congestion.as_ref()).must_confirm(&candidate.with_confirmable(false))
                || (self.aggregates).must_confirm(group, candidate.bytes, kind))
        {
            // NON messages without replies give a controller no evidence of congestion.
            exchange.confirmable = true;
        }
        self.begin_counting(cx, index);
        if self.exchanges[index as usize].confirmable || reported {
            self.begin_timer(cx, index, parameters);
        }
        let exchange = &mut self.exchanges[index as usize];
        let peer = &mut self.peers[exchange.peer];
        let message_type = if exchange.confirmable {
            Type::Confirmable
        } else {
            Type::NonConfirmable
        };
        set_header(&mut exchange.bytes, message_type, id);
        let answered = exchange.confirmable || exchange.purpose.wants_response();
        if answered {
            peer.outstanding += 1;
            let bytes = exchange.in_flight_bytes();
            peer.outstanding_bytes = peer.outstanding_bytes.saturating_add(bytes);
        }
        self.start_timer(cx, index, parameters);
        self.index.add_id(&self.exchanges, index);
        self.send_copy(cx, index, parameters);
        debug_assert!(self.exchanges[index as usize].transmissions.len() == 1);
        if !answered {
            self.on_unconfirmed_sent(index, id);
            self.retire(cx, index, false);
        }
    }

    /// Starts the timer of a message that is about to leave: until its ACK is due, or until a NON is
    /// paid for (RFC 7252 4.7).
    #[inline]
    fn start_timer(&mut self, cx: &mut Context, index: u32, parameters: &TransmissionParameters) {
        let exchange = &mut self.exchanges[index as usize];
        let timer = exchange.timer_id;
        if exchange.confirmable {
            exchange.state = State::Unacknowledged;
            if let Some(observer) = exchange.purpose.observer() {
                self.notifications.observers[observer].exchange = index;
            }
            let peer = &self.peers[exchange.peer];
            debug_assert!(
                !exchange.timer.timeout.is_zero(),
                "a timer without a timeout"
            );
            cx.timers.set(timer, cx.now + exchange.first_expiry(peer));
        } else if exchange.is_reported() {
            exchange.state = State::Waiting { counted: true };
            let peer = &self.peers[exchange.peer];
            cx.timers
                .set(timer, cx.now + exchange.presumed_arrival(peer));
        } else {
            exchange.state = State::Waiting { counted: true };
            let paid = exchange.probing_delay(parameters);
            let wait = self.suppressed_after(cx, index).unwrap_or(Duration::MAX);
            cx.timers.set(timer, cx.now + wait.min(paid));
        }
    }

    /// Notes the Message ID of a NON notification, should a Reset answer it.
    #[inline]
    fn on_unconfirmed_sent(&mut self, index: u32, id: MessageId) {
        let exchange = &self.exchanges[index as usize];
        debug_assert!(!exchange.confirmable && exchange.id == Some(id));
        let observer = match exchange.purpose {
            // The response to a registration is the first notification.
            Purpose::Response => {
                let first = self.peers[exchange.peer].first_observer;
                self.notifications.observers.find(first, &exchange.token)
            }
            purpose => purpose.observer(),
        };
        if let Some(observer) = observer {
            let observer = &mut self.notifications.observers[observer];
            observer.sent_as(id);
            // RFC 7641 7: the number of unconfirmed notifications is limited, against forged
            // registrations.
            observer.unconfirmed = observer.unconfirmed.saturating_add(1);
        }
    }

    /// Rewrites a queued notification if there is a newer state, and decides whether it is
    /// confirmable.
    pub(crate) fn refresh_notification(&mut self, cx: &mut Context, index: u32) {
        let Some(observer) = self.exchanges[index as usize].purpose.observer() else {
            return;
        };
        if cx.supersedes_notifications() && self.notifications.observers.is_behind(observer) {
            let mut bytes = core::mem::take(&mut self.exchanges[index as usize].bytes);
            // On an error the earlier content stays.
            self.write_notification(cx, observer, &mut bytes);
            self.exchanges[index as usize].bytes = bytes;
        }
        let confirmable = self.notifies_confirmably(cx, observer);
        let exchange = &mut self.exchanges[index as usize];
        exchange.confirmable |= confirmable;
        debug_assert!(
            exchange.bytes.len() >= HEADER_LENGTH,
            "the content stays on an error"
        );
        if exchange.confirmable {
            exchange.answer_bytes = ACKNOWLEDGEMENT_BYTES;
        }
    }
}
