//! Messages of our own: queued, sent, retransmitted, matched (RFC 7252 4, 5.3.2).
//!
//! An exchange is one message we originate and what comes of it: a request or one block of it, a
//! separate response, a notification, a ping. Its life: queued at its peer until the controller's
//! window and pacing let it go; unacknowledged while its timer runs; waiting for a response once
//! acknowledged; ended.

mod answer;
mod count;
mod end;
mod index;
mod queue;
mod state;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::SocketAddr;

use carob_cc::TransmissionParameters;
use carob_cc::aggregate::Mark;
use carob_cc::controller::Timer;
use carob_cc::evidence::{Departure, Expired, Kind, Lost, Reason, Sent, Start, Transmission};
use carob_cc::time::{Duration, Instant};
use smallvec::SmallVec;

pub(super) use index::ExchangeIndex;
pub(crate) use queue::Queue;
pub(super) use state::{Ended, Exchange, Purpose, State, Submission, UNLIMITED};

use super::{Endpoint, Failure, NO_AGGREGATE, Owner, RequestError, Tracing};
use crate::codec::{MessageId, Type};
use crate::endpoint::observe::ACKNOWLEDGEMENT_BYTES;
use crate::message_id::MessageIds;
use crate::peer::{PeerIndex, Standing};
use crate::trace::What;

impl Endpoint {
    /// The peer at `address`, known from now on.
    pub(super) fn peer(
        &mut self,
        now: Instant,
        address: SocketAddr,
    ) -> Result<PeerIndex, RequestError> {
        self.peer_as(now, address, Standing::Own)
    }

    /// The same of one that came to us.
    pub(super) fn peer_that_came(
        &mut self,
        now: Instant,
        address: SocketAddr,
    ) -> Result<PeerIndex, RequestError> {
        let standing = if self.has_shown(now, address) {
            Standing::Shown
        } else {
            Standing::Came
        };
        self.peer_as(now, address, standing)
    }

    fn peer_as(
        &mut self,
        now: Instant,
        address: SocketAddr,
        standing: Standing,
    ) -> Result<PeerIndex, RequestError> {
        let lifetime = self.lifetimes.exchange;
        let settings = self.settings.get(&address);
        let (config, random) = (&self.config, &mut self.random);
        let index = self
            .peers
            .find_or_add(now, lifetime, (address, standing), || {
                let choice = settings.and_then(|s| s.controller.as_ref());
                let congestion = choice.unwrap_or(&config.controller).build(address);
                (
                    congestion,
                    MessageIds::starting_at((random.next_u32() >> 16) as u16),
                )
            })
            .map_err(|_| RequestError::PeersFull)?;
        let state = &mut self.peers[index];
        if state.aggregate == NO_AGGREGATE && state.tally.transmissions == 0 {
            state.aggregate = self.aggregates.of(address);
        }
        if let Some(parameters) = settings.and_then(|s| s.parameters) {
            self.peers[index]
                .parameters
                .get_or_insert_with(|| Box::new(parameters));
        }
        Ok(index)
    }

    /// Whether a peer's queue takes another message.
    pub(super) fn has_room(&self, peer: PeerIndex) -> bool {
        self.peers[peer].queue.len() < self.config.limits.queue
    }

    /// Queues a message at its peer and lets it go if it may.
    pub(super) fn submit(&mut self, now: Instant, peer: PeerIndex, submission: Submission) {
        let Submission {
            purpose,
            confirmable,
            token,
            counting,
            bytes,
            answer_bytes,
            parameters,
            budget,
        } = submission;
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
            parameters,
            budgeted: 0,
            mark: Mark::default(),
            budget: u32::try_from(budget).unwrap_or(u32::MAX),
            timer: Timer::default(),
            timer_id: self.timers.add(Owner::Exchange(index)),
            late: Duration::ZERO,
            transmissions: SmallVec::new(),
            resent: false,
            first_of_id: 0,
            queued_next: u32::MAX,
        });
        self.exchange_waits(index);
        if let Some(observer) = purpose.observer()
            && self.supersedes_notifications()
        {
            self.observers[observer].exchange = index;
        }
        // Over a connection, a ping is answered by its token, too.
        let by_token = purpose.wants_response()
            || (self.is_reliable() && matches!(purpose, Purpose::Ping { .. }));
        if by_token {
            self.index.add_token(&self.exchanges, index);
        }
        // Before it can fail, which is as soon as it may go.
        if let Some(operation) = purpose.operation() {
            self.join_operation(operation, index);
        }
        if let Some(group) = purpose.group() {
            self.groups.join(group, index);
        }
        self.peers[peer].users += 1;
        self.peers[peer].queue.push(&mut self.exchanges, index);
        self.pump(now, peer);
    }

    /// Lets messages of a peer's queue go as its controller allows.
    ///
    /// Notifications that the controller holds back for a while hold up each other, and nothing
    /// else: a request or a response behind them need not wait as long.
    pub(super) fn pump(&mut self, now: Instant, peer: PeerIndex) {
        if self.is_reliable() {
            return self.pump_connection(now, peer);
        }
        if !self.has_session(peer) {
            return;
        }
        // When the queue is to be looked at again.
        let mut later = None;
        let (mut before, mut holding) = (None, false);
        while let Some(index) = self.peers[peer].queue.next(&self.exchanges, before) {
            let kind = self.exchanges[index as usize].purpose.kind();
            if kind == Kind::Notification && (holding || self.follows_unacknowledged(index)) {
                before = Some(index);
                continue;
            }
            self.bring_up_to_date(now, index);
            let window = self.window(now, peer);
            let parameters = self.exchange_parameters(index);
            let lifetime = self.exchange_lifetime(index);
            let exchange = &self.exchanges[index as usize];
            let state = &mut self.peers[peer];
            let bytes = state
                .outstanding_bytes
                .saturating_add(exchange.in_flight_bytes());
            if state.outstanding >= window.exchanges
                || (state.outstanding > 0 && bytes > window.bytes)
            {
                // The end of what is outstanding is the next occasion.
                break;
            }
            let departure = Departure::new(now, &parameters, exchange.bytes.len() as u32)
                .with_kind(kind)
                .with_confirmable(exchange.confirmable);
            let earliest = state.congestion.as_ref().departure(&departure);
            if earliest > now && kind == Kind::Notification {
                later = Some(earliest);
                holding = true;
                before = Some(index);
                continue;
            }
            let (bytes, confirmable) = (exchange.bytes.len() as u32, exchange.confirmable);
            let confirmable = confirmable || self.aggregates.must_confirm(state.aggregate, kind);
            if earliest <= now && !self.aggregate_lets_go(now, peer, bytes, confirmable) {
                break;
            }
            let exchange = &self.exchanges[index as usize];
            let state = &mut self.peers[peer];
            let id = if earliest > now {
                Err(earliest)
            } else if exchange.purpose.group().is_some() {
                self.group_ids.next(now, lifetime)
            } else {
                state.message_ids.next(now, lifetime, self.config.groups)
            };
            match id {
                Ok(id) => {
                    state.queue.take(&mut self.exchanges, before);
                    self.send_first(now, index, id, &parameters);
                }
                Err(at) => {
                    later = Some(later.map_or(at, |before: Instant| before.min(at)));
                    break;
                }
            }
        }
        let state = &mut self.peers[peer];
        if let Some(later) = later {
            let wake = *state
                .wake
                .get_or_insert_with(|| self.timers.add(Owner::Peer(peer)));
            self.timers.set(wake, later);
        } else if state.queue.is_empty()
            && let Some(wake) = state.wake.take()
        {
            self.timers.remove(wake);
        }
    }

    pub(super) fn exchange_parameters(&self, index: u32) -> TransmissionParameters {
        let exchange = &self.exchanges[index as usize];
        exchange
            .parameters
            .as_deref()
            .copied()
            .unwrap_or_else(|| self.parameters(exchange.peer))
    }

    /// EXCHANGE_LIFETIME of an exchange; computed only where its parameters are not the endpoint's.
    fn exchange_lifetime(&self, index: u32) -> Duration {
        let exchange = &self.exchanges[index as usize];
        if exchange.parameters.is_none() && self.peers[exchange.peer].parameters.is_none() {
            self.lifetimes.exchange
        } else {
            self.exchange_parameters(index).exchange_lifetime()
        }
    }

    fn send_first(
        &mut self,
        now: Instant,
        index: u32,
        id: MessageId,
        parameters: &TransmissionParameters,
    ) {
        self.exchange_leaves(index);
        let exchange = &mut self.exchanges[index as usize];
        let peer = &mut self.peers[exchange.peer];
        let kind = exchange.purpose.kind();
        exchange.id = Some(id);
        let departure =
            Departure::new(now, parameters, exchange.bytes.len() as u32).with_kind(kind);
        if !exchange.confirmable
            && exchange.purpose.group().is_none()
            && ((peer.congestion.as_ref()).must_confirm(&departure.with_confirmable(false))
                || self.aggregates.must_confirm(peer.aggregate, kind))
        {
            exchange.confirmable = true;
        }
        if let Some(group) = exchange.purpose.group() {
            self.groups.message_sent(group);
        }
        self.begin_counting(index);
        let exchange = &mut self.exchanges[index as usize];
        let peer = &mut self.peers[exchange.peer];
        if exchange.confirmable {
            let start = Start::new(now, parameters)
                .with_running(peer.outstanding)
                .with_kind(kind);
            exchange.timer = peer
                .congestion
                .controller()
                .first_timeout(&start, &mut *self.random);
            self.counters.timeouts.add(exchange.timer.timeout);
        }
        let message_type = if exchange.confirmable {
            Type::Confirmable
        } else {
            Type::NonConfirmable
        };
        exchange.bytes[0] = exchange.bytes[0] & 0xcf | (message_type as u8) << 4;
        exchange.bytes[2..4].copy_from_slice(&id.0.to_be_bytes());
        let answered = exchange.confirmable || exchange.purpose.wants_response();
        if answered {
            peer.outstanding += 1;
            peer.outstanding_bytes = peer
                .outstanding_bytes
                .saturating_add(exchange.in_flight_bytes());
        }
        if exchange.confirmable {
            exchange.state = State::Unacknowledged;
            if let Some(observer) = exchange.purpose.observer() {
                self.observers[observer].exchange = index;
            }
            self.timers
                .set(exchange.timer_id, now + exchange.timer.timeout);
        } else {
            exchange.state = State::Waiting { counted: true };
            let paid = exchange.paid_after(parameters);
            let timer = exchange.timer_id;
            let wait = self.unanswered_after(index).unwrap_or(Duration::MAX);
            self.timers.set(timer, now + wait.min(paid));
        }
        self.index.add_id(&self.exchanges, index);
        self.send_copy(now, index, parameters);
        if !answered {
            let exchange = &self.exchanges[index as usize];
            let observer = match exchange.purpose {
                // To a registration, the response is the first notification.
                Purpose::Response => {
                    let first = self.peers[exchange.peer].first_observer;
                    self.observers.find(first, &exchange.token)
                }
                purpose => purpose.observer(),
            };
            if let Some(observer) = observer {
                let observer = &mut self.observers[observer];
                observer.sent_as(id);
                observer.unconfirmed = observer.unconfirmed.saturating_add(1);
            }
            self.retire(index, false);
        }
    }

    /// Writes what a queued notification says anew if there is a newer state by now, and finds out
    /// whether it is to be acknowledged.
    pub(super) fn bring_up_to_date(&mut self, now: Instant, index: u32) {
        let Some(observer) = self.exchanges[index as usize].purpose.observer() else {
            return;
        };
        if self.supersedes_notifications() && self.observers.is_behind(observer) {
            let mut bytes = core::mem::take(&mut self.exchanges[index as usize].bytes);
            // What cannot be written leaves what is there.
            self.write_notification(now, observer, &mut bytes);
            self.exchanges[index as usize].bytes = bytes;
        }
        let confirmable = self.tells_confirmably(now, observer);
        let exchange = &mut self.exchanges[index as usize];
        exchange.confirmable |= confirmable;
        if exchange.confirmable {
            exchange.answer_bytes = ACKNOWLEDGEMENT_BYTES;
        }
    }

    /// Puts a newer state in the place of one that was sent and not acknowledged: as a message of
    /// its own, which takes over the number of copies and the timer (RFC 7641 4.5.2).
    fn supersede(&mut self, now: Instant, index: u32) {
        let lifetime = self.exchange_lifetime(index);
        let exchange = &self.exchanges[index as usize];
        let supersedes = self.supersedes_notifications();
        let behind = |observer| supersedes && self.observers.is_behind(observer);
        if !exchange.purpose.observer().is_some_and(behind) {
            return;
        }
        // Without a free Message ID the older state is sent once more; the newer follows.
        let peer = exchange.peer;
        let Ok(id) = self.peers[peer]
            .message_ids
            .next(now, lifetime, self.config.groups)
        else {
            return;
        };
        self.release_window(index);
        self.bring_up_to_date(now, index);
        self.index.remove_id(&self.exchanges[index as usize], index);
        let exchange = &mut self.exchanges[index as usize];
        let before = exchange.id.replace(id);
        exchange.first_of_id = exchange.transmissions.len() as u8;
        exchange.bytes[0] = exchange.bytes[0] & 0xcf | (Type::Confirmable as u8) << 4;
        exchange.bytes[2..4].copy_from_slice(&id.0.to_be_bytes());
        let bytes = exchange.in_flight_bytes();
        let peer = &mut self.peers[peer];
        peer.outstanding += 1;
        peer.outstanding_bytes = peer.outstanding_bytes.saturating_add(bytes);
        let address = peer.address;
        self.index.add_id(&self.exchanges, index);
        if let Some(id) = before {
            self.trace(now, address, What::Superseded { id });
        }
    }

    /// Sends one copy of an exchange's message and tells its controller.
    fn send_copy(&mut self, now: Instant, index: u32, parameters: &TransmissionParameters) {
        self.charge_aggregate(now, index);
        let exchange = &mut self.exchanges[index as usize];
        let peer = &mut self.peers[exchange.peer];
        let retransmissions = u8::try_from(exchange.transmissions.len()).unwrap_or(u8::MAX);
        let bytes = exchange.bytes.len() as u32;
        let sent = Sent::new(now, parameters, bytes)
            .with_retransmissions(retransmissions)
            .with_kind(exchange.purpose.kind())
            .with_confirmable(exchange.confirmable)
            .with_answer_bytes(exchange.answer_bytes)
            .with_application_limited(peer.queue.is_empty());
        let stamp = peer
            .congestion
            .controller()
            .on_sent(&sent, &mut *self.random);
        exchange.transmissions.push(Transmission { at: now, stamp });
        if exchange.budget != u32::MAX {
            exchange.budget = exchange.budget.saturating_sub(bytes);
        }
        let tally = &mut peer.tally;
        tally.transmissions = tally.transmissions.saturating_add(1);
        tally.retransmissions = tally
            .retransmissions
            .saturating_add(u32::from(retransmissions > 0));
        let counts = self.counters.of_mut(exchange.purpose.kind());
        counts.transmissions += 1;
        counts.retransmissions += u64::from(retransmissions > 0);
        self.counters.sent.add(exchange.bytes.len());
        let to = peer.address;
        let start = self.out_bytes.len();
        self.out_bytes.extend_from_slice(&exchange.bytes);
        let range = start..self.out_bytes.len();
        self.queued.add(range.len());
        self.out.push_back(super::Queued::Transmit { to, range });
        if self.config.trace != Tracing::Off {
            let what = What::Sent {
                id: exchange.id.unwrap_or_default(),
                kind: if exchange.confirmable {
                    Type::Confirmable
                } else {
                    Type::NonConfirmable
                },
                retransmissions,
                purpose: exchange.purpose.kind(),
                timeout: exchange.confirmable.then_some(exchange.timer.timeout),
                bytes,
            };
            self.trace(now, to, what);
        }
        let peer = self.exchanges[index as usize].peer;
        self.peers.sent(peer, now);
    }

    pub(super) fn handle_exchange_timer(&mut self, now: Instant, index: u32) {
        let parameters = self.exchange_parameters(index);
        let unanswered = self.unanswered_after(index);
        let exchange = &mut self.exchanges[index as usize];
        match exchange.state {
            State::Queued => debug_assert!(false, "a queued exchange has no timer"),
            State::Unacknowledged => {
                let peer = &mut self.peers[exchange.peer];
                let last = exchange.transmissions.last().copied().unwrap_or_default();
                let silent = peer.last_heard <= last.at;
                let lost = Lost::new(now, last, exchange.bytes.len() as u32, silent);
                peer.congestion.controller().on_lost(&lost);
                self.counters.of_mut(exchange.purpose.kind()).expired += 1;
                let missed = exchange.missed(now, parameters.max_transmit_span());
                let outlives = !self.config.late_copies && exchange.outlives(now, &parameters);
                let may = !missed && !outlives && exchange.has_budget();
                let (peer, copies) = (exchange.peer, exchange.transmissions.len() as u8);
                let again = exchange.retransmissions() < parameters.max_retransmit && may;
                self.tell_aggregate_lost(now, peer);
                if self.is_lost_trial(now, index) {
                    let failure = Failure::TimedOut { copies };
                    self.retry_with_short_token(now, index, Reason::TimedOut, failure);
                } else if again {
                    self.retransmit(now, index, &parameters, silent);
                } else {
                    self.abandon(now, index, Reason::TimedOut, Failure::TimedOut { copies });
                }
            }
            State::Waiting { counted: true } if exchange.purpose == Purpose::Unanswered => {
                self.end(now, index, false);
            }
            State::Waiting { counted }
                if unanswered.is_some_and(|wait| {
                    let sent = exchange.transmissions.first().map_or(now, |t| t.at);
                    !counted || self.config.reliable.is_some() || now.since(sent) >= wait
                }) =>
            {
                self.go_unanswered(now, index);
            }
            State::Waiting { counted: true } if self.config.reliable.is_some() => {
                self.abandon(now, index, Reason::TimedOut, Failure::NoResponse);
            }
            // Who of a group answers, and when, is none of the message layer's concern.
            State::Waiting { .. } if exchange.purpose.group().is_some() => {
                self.end(now, index, false);
            }
            State::Waiting { counted: true } => {
                exchange.state = State::Waiting { counted: false };
                let peer = exchange.peer;
                let began = exchange.transmissions.first().map_or(now, |t| t.at);
                let wait = unanswered.unwrap_or_else(|| parameters.exchange_lifetime());
                let end = (began + wait).max(now);
                self.timers.set(exchange.timer_id, end);
                self.release_window(index);
                self.pump(now, peer);
            }
            State::Waiting { counted: false } => {
                self.abandon(now, index, Reason::TimedOut, Failure::NoResponse);
            }
        }
    }

    fn retransmit(
        &mut self,
        now: Instant,
        index: u32,
        parameters: &TransmissionParameters,
        silent: bool,
    ) {
        let exchange = &mut self.exchanges[index as usize];
        let peer = &mut self.peers[exchange.peer];
        let Timer {
            timeout: before,
            memo,
        } = exchange.timer;
        let retransmissions = exchange.retransmissions();
        let expired =
            Expired::new(now, parameters, memo, retransmissions, before).with_silent(silent);
        let controller = peer.congestion.controller();
        let mut timer = controller.next_timeout(&expired, &mut *self.random);
        if let Some(cap) = parameters.rto_max {
            timer.timeout = timer.timeout.min(cap.max(before));
        }
        exchange.timer = timer;
        self.timers.set(exchange.timer_id, now + timer.timeout);
        self.supersede(now, index);
        self.count_retransmission(index);
        self.send_copy(now, index, parameters);
    }

    /// A buffer for a message, reused where possible.
    pub(super) fn buffer(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }
}
