//! Resources that we observe (RFC 7641 3).
//!
//! An observation is a request that lives on. It registers with one message, whose token its
//! notifications carry; it takes notifications, and the blocks of their bodies, in the order the
//! server made them; when what it knows grows older than the server promised, or something goes
//! wrong, it says so and registers again, until it is told to stop. So it outlives a restart of
//! the server, which has forgotten it by then.

use alloc::vec::Vec;
use core::hash::BuildHasher;
use core::net::SocketAddr;

use bytes::Bytes;
use carob_cc::controller::Counting;
use carob_cc::random::uniform;
use carob_cc::time::{Duration, Instant};
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use slab::Slab;

use super::transfer::Received;
use super::{Operation, RequestId, encode};
use crate::codec::token::token_room;
use crate::codec::{BlockValue, Code, MessageView, OptionNumber, TokenKey};
use crate::endpoint::observe::has_observe;
use crate::endpoint::tokens::OwnToken;
use crate::endpoint::{Endpoint, Event, Failure, Owner};
use crate::message::Request;
use crate::observe::Observe;
use crate::observe::freshness::Newest;
use crate::peer::PeerIndex;
use crate::timers::TimerId;
use crate::trace::What;

/// How long a response is fresh if it does not say (RFC 7252 5.10.5), in seconds.
const MAX_AGE: u32 = 60;
/// An observation is renewed this long after its newest state went stale, a random time between
/// the two (RFC 7641 3.3.1), so that many do not do it at once.
const RENEW_AFTER: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(15));
/// Each failure to renew doubles that time, this often at most: to 5 to 16 minutes.
const DOUBLINGS: u8 = 6;

/// A resource that we observe.
#[derive(Debug)]
pub(super) struct Observation {
    /// The token of its registrations and notifications.
    token: OwnToken,
    timer: TimerId,
    phase: Phase,
    /// The newest notification; none until the server has accepted the first registration.
    newest: Option<Newest>,
    /// A notification is being put together.
    arriving: bool,
    /// A notification has arrived since the last registration was sent.
    heard: bool,
    /// Failures to renew it since it was last heard of.
    failures: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// A registration is under way.
    Registering,
    /// The timer runs until the newest state goes stale.
    Fresh,
    /// The timer runs until it is to be renewed.
    Stale,
    /// It is being given back.
    Ending,
}

/// Observations by (peer, token), the latter without its last byte.
#[derive(Debug)]
pub(in crate::endpoint) struct ObservationIndex {
    state: FixedState,
    table: HashTable<u32>,
}

impl ObservationIndex {
    pub(in crate::endpoint) fn new(seed: u64) -> Self {
        Self {
            state: FixedState::with_seed(seed),
            table: HashTable::new(),
        }
    }

    pub(in crate::endpoint) fn len(&self) -> usize {
        self.table.len()
    }

    fn hash(state: &FixedState, peer: PeerIndex, token: &TokenKey) -> u64 {
        state.hash_one((peer, token.stem()))
    }

    fn add(&mut self, operations: &Slab<Operation>, index: u32) {
        let Self { state, table } = self;
        let hash = |index: u32| {
            let operation = &operations[index as usize];
            let token = operation.observation.as_ref().map(|o| o.token.key);
            Self::hash(state, operation.peer, &token.unwrap_or_default())
        };
        table.insert_unique(hash(index), index, |&i| hash(i));
    }
}

impl Endpoint {
    /// The request that observes with this token.
    pub(in crate::endpoint) fn find_observation(
        &self,
        peer: PeerIndex,
        token: &TokenKey,
    ) -> Option<u32> {
        self.find_observation_by(peer, token, |own| own == token)
    }

    /// Whether a token, `counting` copies or not, could be mistaken for an observation's.
    pub(in crate::endpoint) fn claims_observation(
        &self,
        peer: PeerIndex,
        token: &TokenKey,
        counting: bool,
    ) -> bool {
        let is = |own: &TokenKey| own == token || (counting && own.is_sibling(token));
        self.find_observation_by(peer, token, is).is_some()
    }

    fn find_observation_by(
        &self,
        peer: PeerIndex,
        token: &TokenKey,
        is: impl Fn(&TokenKey) -> bool,
    ) -> Option<u32> {
        let ObservationIndex { state, table } = &self.observations;
        if table.is_empty() {
            return None;
        }
        let matches = |&i: &u32| {
            let operation = &self.operations[i as usize];
            let observation = operation.observation.as_ref();
            operation.peer == peer && observation.is_some_and(|o| is(&o.token.key))
        };
        table
            .find(ObservationIndex::hash(state, peer, token), matches)
            .copied()
    }

    /// Makes a new request an observation.
    pub(super) fn begin_observation(&mut self, now: Instant, index: u32) {
        // It lives on in the notifications, so it counts no copies.
        let operation = &self.operations[index as usize];
        let (peer, confirmable) = (operation.peer, operation.sending.confirmable);
        let token = self.fresh_token(now, peer, Counting::Off, confirmable);
        let observation = Observation {
            token,
            timer: self.timers.add(Owner::Observation(index)),
            phase: Phase::Registering,
            newest: None,
            arriving: false,
            heard: false,
            failures: 0,
        };
        self.operations[index as usize].observation = Some(alloc::boxed::Box::new(observation));
        self.observations.add(&self.operations, index);
    }

    /// The request has ended, and with it its observation.
    pub(super) fn end_observation(
        &mut self,
        index: u32,
        peer: PeerIndex,
        observation: &Observation,
    ) {
        self.timers.remove(observation.timer);
        let ObservationIndex { state, table } = &mut self.observations;
        let hash = ObservationIndex::hash(state, peer, &observation.token.key);
        if let Ok(found) = table.find_entry(hash, |&i| i == index) {
            found.remove();
        }
    }

    /// Gives an observation another token, if it has this one: its peer does not take that.
    pub(in crate::endpoint) fn replace_observation_token(
        &mut self,
        index: u32,
        before: &TokenKey,
        token: OwnToken,
    ) {
        let Some(operation) = self.operations.get_mut(index as usize) else {
            return;
        };
        let peer = operation.peer;
        let Some(observation) = (operation.observation.as_mut()).filter(|o| o.token.key == *before)
        else {
            return;
        };
        observation.token = token;
        let ObservationIndex { state, table } = &mut self.observations;
        let hash = ObservationIndex::hash(state, peer, before);
        if let Ok(found) = table.find_entry(hash, |&i| i == index) {
            found.remove();
            self.observations.add(&self.operations, index);
        }
    }

    /// The token of the observation that a request is, if it is one.
    pub(super) fn observation_token(&self, index: u32) -> Option<OwnToken> {
        let observation = self.operations[index as usize].observation.as_ref()?;
        Some(observation.token.clone())
    }

    /// The Observe value of a message of request `index` that asks for `block2`, if it registers an
    /// observation or gives it back.
    pub(super) fn registration(&self, index: u32, block2: Option<BlockValue>) -> Option<Observe> {
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

    /// Gives an observation back: the server is told, and the state it answers with is the
    /// request's last event. Whether the request was still under way.
    ///
    /// To end it without a word more of it, [`cancel`](Self::cancel) it; the server then learns of
    /// it with its next notification, which is refused (RFC 7641 3.6), or over a connection at once.
    pub fn stop_observing(&mut self, now: Instant, id: RequestId) -> bool {
        let Some(Operation {
            observation: Some(observation),
            ..
        }) = self.operation(id)
        else {
            return self.cancel(now, id);
        };
        if observation.phase == Phase::Ending {
            return true;
        }
        observation.phase = Phase::Ending;
        let timer = observation.timer;
        self.timers.cancel(timer);
        self.send_anew(now, id.index);
        true
    }

    /// Gives back an observation that ends here and now, over a connection: there, notifications
    /// cannot be refused (RFC 8323 7.4). Nobody waits for the answer.
    pub(super) fn give_back(&mut self, now: Instant, index: u32) {
        let operation = &self.operations[index as usize];
        let Some(observation) = &operation.observation else {
            return;
        };
        let to = self.peers[operation.peer].address;
        let told = observation.newest.is_some() && observation.phase != Phase::Ending;
        // With a connection that is about to be closed it ends anyway.
        if !told || !self.takes_requests(to) {
            return;
        }
        let (capacity, token) = (self.capacity(to), observation.token.clone());
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
        self.grow_scratch(&capacity, head, payload.len());
        let mut scratch = core::mem::take(&mut self.scratch);
        let room = capacity.message.min(scratch.len());
        if let Ok(length) = encode(
            &mut scratch[..room],
            &token,
            code,
            &options,
            &extra,
            &payload,
        ) {
            self.transmit(now, to, &scratch[..length]);
        }
        self.scratch = scratch;
    }

    /// Sends the request of an observation once more, its body from the beginning.
    fn send_anew(&mut self, now: Instant, index: u32) {
        self.drop_exchanges(now, index);
        self.leave_line(index);
        let operation = &mut self.operations[index as usize];
        if let Some(upload) = &mut operation.upload {
            *upload = upload.again(operation.request.payload.clone());
            let options = &operation.request.options;
            operation.held = !self.turns.join(operation.peer, options, index);
        }
        let held = operation.held;
        self.serve_turns(now);
        // Otherwise it goes when its turn comes, which may have been just now.
        if !held {
            self.advance(now, index);
        }
    }

    /// Whether a message to an observation that exists tells a state, rather than answers a
    /// registration.
    pub(in crate::endpoint) fn is_notification(
        &self,
        index: u32,
        message: &MessageView<'_>,
    ) -> bool {
        let observation = self.operations[index as usize].observation.as_ref();
        observation.is_some_and(|o| o.newest.is_some()) && has_observe(message)
    }

    /// A notification, or the last word on an observation.
    pub(in crate::endpoint) fn handle_notification(
        &mut self,
        now: Instant,
        from: SocketAddr,
        index: u32,
        message: &MessageView<'_>,
    ) {
        let peer = self.operations[index as usize].peer;
        let parameters = self.parameters(peer);
        self.acknowledge_response(now, from, message, parameters);
        if let Some(number) = self.not_understood(message) {
            return self.fail_operation(now, index, Failure::UnknownOption(number));
        }
        let ordered = self.is_reliable();
        let received = match Received::read(message, ordered) {
            Ok(received) => received,
            Err(failure) => return self.fail_operation(now, index, failure),
        };
        let Some(observation) = &mut self.operations[index as usize].observation else {
            return;
        };
        if observation.phase == Phase::Ending {
            return; // nobody wants to know any more
        }
        if let Some(sequence) = sequence(message) {
            // A connection keeps the order (RFC 8323 7.1).
            let newer = ordered
                || observation
                    .newest
                    .is_none_or(|newest| newest.is_older_than(sequence, now));
            if !newer {
                return;
            }
            observation.heard = true;
            // A registration under way goes on; nothing else does.
            let registering = observation.phase == Phase::Registering;
            if !registering {
                observation.phase = Phase::Fresh;
                self.drop_exchanges(now, index);
            }
            self.begin_notification(now, index, sequence, message);
        } else if self.is_setback(index, message) {
            let code = message.code();
            let not_now = (code != Code::UNAUTHORIZED).then_some(Failure::NotNow(code));
            let pause = not_now.map_or(0, |_| max_age(message));
            self.drop_exchanges(now, index);
            self.operations[index as usize].break_off_state();
            let pause = Duration::from_secs(u64::from(pause));
            return self.renew_later(now, index, not_now, pause);
        } else {
            // The server has taken us off its list (RFC 7641 4.2).
            self.drop_exchanges(now, index);
            observation_ends(&mut self.operations[index as usize]);
        }
        self.take_body(now, index, None, &received, message);
    }

    /// Whether a message without a number is no last word on an observation: the answer to a renewal,
    /// late, after a notification was taken for that. It may be a challenge, which the next renewal
    /// answers, or say "not now".
    fn is_setback(&mut self, index: u32, message: &MessageView<'_>) -> bool {
        let operation = &mut self.operations[index as usize];
        match message.code() {
            Code::SERVICE_UNAVAILABLE | Code::TOO_MANY_REQUESTS => true,
            Code::UNAUTHORIZED => operation.take_challenge(message),
            _ => false,
        }
    }

    /// Takes the first message of the response to a registration; whether it is to be delivered.
    pub(super) fn take_registration(
        &mut self,
        now: Instant,
        index: u32,
        message: &MessageView<'_>,
    ) -> bool {
        let ordered = self.is_reliable();
        let operation = &mut self.operations[index as usize];
        let Some(observation) = &mut operation.observation else {
            return true;
        };
        let code = message.code();
        if observation.phase == Phase::Registering {
            if let Some(sequence) = sequence(message) {
                observation.phase = Phase::Fresh;
                // A server that was restarted counts anew, so the response to a registration is
                // the newest state whatever its number; unless a notification has overtaken it.
                let overtaken = observation.newest.is_some_and(|newest| {
                    observation.heard && !ordered && !newest.is_older_than(sequence, now)
                });
                if overtaken {
                    let fresh_until = now + Duration::from_secs(u64::from(max_age(message)));
                    self.timers.set(observation.timer, fresh_until);
                    return false;
                }
                self.drop_exchanges(now, index);
                self.begin_notification(now, index, sequence, message);
                return true;
            }
            let not_now = matches!(code, Code::SERVICE_UNAVAILABLE | Code::TOO_MANY_REQUESTS);
            if not_now && observation.newest.is_some() {
                let pause = Duration::from_secs(u64::from(max_age(message)));
                self.renew_later(now, index, Some(Failure::NotNow(code)), pause);
                return false;
            }
        }
        // The server does not observe it for us: the response is like any other.
        self.drop_exchanges(now, index);
        observation_ends(&mut self.operations[index as usize]);
        true
    }

    /// A newer state begins to arrive; what was on its way of an older one is void.
    fn begin_notification(
        &mut self,
        now: Instant,
        index: u32,
        sequence: u32,
        message: &MessageView<'_>,
    ) {
        let operation = &mut self.operations[index as usize];
        operation.forget_body();
        let Some(observation) = &mut operation.observation else {
            return;
        };
        observation.newest = Some(Newest { sequence, at: now });
        observation.arriving = true;
        observation.failures = 0;
        let fresh_until = now + Duration::from_secs(u64::from(max_age(message)));
        if observation.phase == Phase::Fresh {
            self.timers.set(observation.timer, fresh_until);
        }
    }

    /// A response is complete; whether it was a state of something observed.
    pub(super) fn end_notification(&mut self, now: Instant, index: u32) -> bool {
        let operation = &mut self.operations[index as usize];
        operation.download = None;
        let Some(observation) = &mut operation.observation else {
            return false;
        };
        let registering = observation.phase == Phase::Registering;
        let arrived = core::mem::take(&mut observation.arriving);
        if arrived && !registering {
            // Until it is renewed, others may send bodies there.
            self.leave_line(index);
            self.serve_turns(now);
        }
        arrived
    }

    pub(in crate::endpoint) fn handle_observation_timer(&mut self, now: Instant, index: u32) {
        let Some(observation) = &mut self.operations[index as usize].observation else {
            return;
        };
        match observation.phase {
            Phase::Fresh => self.renew_later(now, index, None, Duration::ZERO),
            Phase::Stale => {
                observation.phase = Phase::Registering;
                observation.heard = false;
                self.operations[index as usize].break_off_state();
                self.send_anew(now, index);
            }
            Phase::Registering | Phase::Ending => {}
        }
    }

    /// Says that an observation is stale, or could not be renewed, and plans to register again, in
    /// no less than `pause`.
    fn renew_later(&mut self, now: Instant, index: u32, failure: Option<Failure>, pause: Duration) {
        let id = self.id(index);
        let Some(observation) = &mut self.operations[index as usize].observation else {
            return;
        };
        let (low, high) = RENEW_AFTER;
        let times = 1 << observation.failures.min(DOUBLINGS);
        let after = uniform(&mut *self.random, low, high).times(times);
        if failure.is_some() {
            observation.failures = observation.failures.saturating_add(1);
        }
        observation.phase = Phase::Stale;
        let timer = observation.timer;
        self.timers.set(timer, now + after.max(pause));
        self.event(Event::Stale { id, failure });
        let peer = self.operations[index as usize].peer;
        self.trace(now, self.peers[peer].address, What::Stale);
        self.leave_line(index);
        self.serve_turns(now);
    }

    /// Whether a failure is no more than a setback to an observation that had begun.
    pub(super) fn survives(&mut self, now: Instant, index: u32, failure: Failure) -> bool {
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
        self.drop_exchanges(now, index);
        self.operations[index as usize].break_off_state();
        self.renew_later(now, index, Some(failure), Duration::ZERO);
        true
    }

    /// The connection with a peer has ended, and with it the observations there (RFC 8323 7.4): they
    /// are stale now, whatever their age, and register again on the next.
    pub(in crate::endpoint) fn observations_lost(
        &mut self,
        now: Instant,
        peer: PeerIndex,
        failure: Failure,
    ) {
        let lost = |(index, operation): (usize, &Operation)| {
            let observation = operation.observation.as_ref()?;
            let fresh = operation.peer == peer && observation.phase == Phase::Fresh;
            fresh.then_some(index as u32)
        };
        let lost: Vec<u32> = self.operations.iter().filter_map(lost).collect();
        for index in lost {
            self.survives(now, index, failure);
        }
    }

    /// Ends whatever of a request is under way.
    fn drop_exchanges(&mut self, now: Instant, index: u32) {
        for exchange in core::mem::take(&mut self.operations[index as usize].exchanges) {
            self.cancel_exchange(now, exchange);
        }
    }
}

impl Operation {
    /// Forgets what has arrived of a body.
    fn forget_body(&mut self) {
        self.download = None;
        self.head = None;
        self.body.clear();
    }

    /// The state that was being put together will not be complete.
    fn break_off_state(&mut self) {
        self.forget_body();
        if let Some(observation) = &mut self.observation {
            observation.arriving = false;
        }
    }

    /// Whether a state of something observed is being put together.
    pub(super) fn is_notified(&self) -> bool {
        self.observation.as_ref().is_some_and(|o| o.arriving)
    }
}

/// From here on a request is like any other: its response is its last event.
fn observation_ends(operation: &mut Operation) {
    operation.forget_body();
    if let Some(observation) = &mut operation.observation {
        observation.arriving = false;
        observation.phase = Phase::Ending;
    }
}

fn sequence(message: &MessageView<'_>) -> Option<u32> {
    let value = message.uint_option(OptionNumber::OBSERVE);
    value.filter(|_| message.code().is_success())
}

fn max_age(message: &MessageView<'_>) -> u32 {
    message
        .uint_option(OptionNumber::MAX_AGE)
        .unwrap_or(MAX_AGE)
}
