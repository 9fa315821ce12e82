//! State of an exchange, and of an ended one; exchanges by (peer, Message ID) and by (peer, token).
//!
//! Tokens are indexed without their last byte, which may count copies.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::hash::{BuildHasher, Hash};
use core::net::SocketAddr;

use carob_cc::TransmissionParameters;
use carob_cc::bottleneck_group::GroupPacketState;
use carob_cc::controller::{CopyTagging, Timer};
use carob_cc::evidence::{Kind, Transmission};
use carob_cc::time::{Duration, Instant};
use hashbrown::HashTable;
use slab::Slab;
use smallvec::SmallVec;

use crate::address::PeerIndex;
use crate::codec::{BlockValue, DecodeErrorKind, MessageId, TokenKey};
use crate::config::LATENESS;
use crate::event::Failure;
use crate::observe::observers::ObserverIndex;
use crate::tables::keyed_hash::KeyedState;
use crate::timers::TimerId;

/// The purpose of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A request of this endpoint, or one block of it.
    Request {
        operation: u32,
        block1: Option<BlockValue>,
        block2: Option<BlockValue>,
    },
    /// A request ended without a response, as permitted (RFC 7967); one may still come.
    ResponseSuppressed,
    /// A multicast request of this endpoint.
    Multicast { request: u32 },
    /// A ping of this endpoint: an empty CON, answered by RST.
    Ping { operation: u32 },
    /// A separate response of this endpoint.
    Response,
    /// A notification to an observer.
    Notification { observer: ObserverIndex },
}

impl Purpose {
    pub(crate) fn wants_response(self) -> bool {
        matches!(
            self,
            Self::Request { .. } | Self::ResponseSuppressed | Self::Multicast { .. }
        )
    }

    pub(crate) fn kind(self) -> Kind {
        match self {
            Self::Response => Kind::Response,
            Self::Notification { .. } => Kind::Notification,
            Self::Request { .. }
            | Self::ResponseSuppressed
            | Self::Multicast { .. }
            | Self::Ping { .. } => Kind::Request,
        }
    }

    pub(crate) fn operation(self) -> Option<u32> {
        match self {
            Self::Request { operation, .. } | Self::Ping { operation } => Some(operation),
            Self::ResponseSuppressed
            | Self::Multicast { .. }
            | Self::Response
            | Self::Notification { .. } => None,
        }
    }

    pub(crate) fn multicast(self) -> Option<u32> {
        match self {
            Self::Multicast { request } => Some(request),
            _ => None,
        }
    }

    pub(crate) fn observer(self) -> Option<ObserverIndex> {
        match self {
            Self::Notification { observer } => Some(observer),
            _ => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// In its peer's queue.
    Queued,
    /// A CON, its timer running.
    Unacknowledged,
    /// Acknowledged or NON; a response is pending. `counted` against the window.
    Waiting { counted: bool },
}

/// A message to be submitted.
pub(crate) struct Submission {
    pub(crate) purpose: Purpose,
    pub(crate) confirmable: bool,
    pub(crate) token: TokenKey,
    /// By its token, or undecided.
    pub(crate) counting: CopyTagging,
    /// The message, its type and Message ID still open.
    pub(crate) bytes: Vec<u8>,
    /// Expected bytes of the reply; 0 if unknown.
    pub(crate) answer_bytes: u32,
    pub(crate) parameters: Option<Box<TransmissionParameters>>,
    /// The bytes of all transmissions together, by the anti-amplification limit.
    pub(crate) budget: usize,
    /// The part of the request that the message layer acts on.
    pub(crate) request: RequestTraits,
}

/// The properties of a request that decide how its exchanges end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RequestTraits {
    /// The wait for an optional response (RFC 7967).
    pub(crate) suppressed: Option<SuppressedWait>,
    /// May be repeated over another connection (RFC 7252 5.1).
    pub(crate) idempotent: bool,
    /// For a block of a Q-Block body: MAX_PAYLOADS, by which unreported blocks may exceed the window
    /// (RFC 9177 7.2). 0 for other messages.
    pub(crate) burst: u8,
    /// The least timer of a block in microseconds: its sender backs off in a silence of the peer.
    pub(crate) least_timeout: u32,
}

/// The wait for an optional response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SuppressedWait {
    /// A duration.
    For(Duration),
    /// ACK_TIMEOUT.
    AckTimeout,
}

/// The budget of messages to validated addresses, and of those that no datagram caused.
pub(crate) const UNLIMITED: usize = usize::MAX;

/// The reason for which a reply to an exchange was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplyFault {
    /// A message format error.
    Malformed(DecodeErrorKind),
    /// The datagram was longer than the driver receives.
    Oversized,
}

impl From<ReplyFault> for Failure {
    fn from(fault: ReplyFault) -> Self {
        match fault {
            ReplyFault::Malformed(kind) => Self::MalformedReply(kind),
            ReplyFault::Oversized => Self::OversizedReply,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Exchange {
    pub(crate) peer: PeerIndex,
    pub(crate) purpose: Purpose,
    pub(crate) state: State,
    pub(crate) confirmable: bool,
    /// The token of its transmissions, except for a last byte that counts.
    pub(crate) token: TokenKey,
    /// The copy tagging in use.
    pub(crate) counting: CopyTagging,
    /// The transmission that its reply named, if any.
    pub(crate) named: Option<u8>,
    pub(crate) id: Option<MessageId>,
    pub(crate) bytes: Vec<u8>,
    pub(crate) answer_bytes: u32,
    pub(crate) request: RequestTraits,
    pub(crate) parameters: Option<Box<TransmissionParameters>>,
    /// Bytes charged to a [budget](crate::message_layer::bottleneck_group) shared with other peers.
    pub(crate) budgeted: u32,
    /// The budget's state of this exchange.
    pub(crate) group_state: GroupPacketState,
    /// The remaining bytes of its transmissions; `u32::MAX` without a limit.
    pub(crate) budget: u32,
    pub(crate) timer: Timer,
    pub(crate) timer_id: TimerId,
    /// The time until which the timeout of the path lengthens its timer.
    pub(crate) lengthened: Instant,
    /// The accumulated lateness of its timers.
    pub(crate) late: Duration,
    pub(crate) transmissions: SmallVec<[Transmission; 2]>,
    /// The fault of the last reply, if it was rejected.
    pub(crate) fault: Option<ReplyFault>,
    /// First sent over a connection that has ended.
    pub(crate) resent: bool,
    /// The first transmission with the current Message ID: above 0 once a notification was
    /// superseded by a newer one (RFC 7641 4.5.2).
    pub(crate) first_of_id: u8,
    /// The last transmission that its reply can belong to, if that had an earlier Message ID.
    pub(crate) last_of_id: Option<u8>,
    /// The Message IDs of superseded notifications, each with its first transmission.
    pub(crate) superseded: Vec<(MessageId, u8)>,
    /// While queued: the exchange behind it.
    pub(crate) queued_next: u32,
    /// Retransmissions because a later message was answered: all, and those since its timer expired.
    pub(crate) repairs: u8,
    pub(crate) repairs_now: u8,
}

impl Exchange {
    /// Returns whether it is in its peer's queue.
    pub(crate) fn is_queued(&self) -> bool {
        self.state == State::Queued
    }

    pub(crate) fn in_flight_bytes(&self) -> u32 {
        (self.bytes.len() as u32).saturating_add(self.answer_bytes)
    }

    /// Restricts its reply to the transmissions of a superseded notification with this Message ID.
    /// Returns whether there is one.
    pub(crate) fn restrict_to_superseded(&mut self, id: MessageId) -> bool {
        let Some(at) = self.superseded.iter().position(|(of, _)| *of == id) else {
            return false;
        };
        let next = self.superseded.get(at + 1);
        let end = next.map_or(self.first_of_id, |(_, first)| *first);
        debug_assert!(self.superseded[at].1 < end, "each has a transmission");
        self.first_of_id = self.superseded[at].1;
        self.last_of_id = Some(end.saturating_sub(1));
        true
    }

    /// Returns whether its budget permits another transmission.
    pub(crate) fn has_budget(&self) -> bool {
        self.budget as usize >= self.bytes.len()
    }

    /// Returns whether a retransmission would miss MAX_TRANSMIT_SPAN only because the timer was
    /// served late: that opportunity is lost (RFC 7252 4.2). Controllers with timers beyond the
    /// span are restrained by [`outlives`](Self::outlives).
    pub(crate) fn missed(&mut self, now: Instant, span: Duration) -> bool {
        let (Some(first), Some(last)) = (self.transmissions.first(), self.transmissions.last())
        else {
            return false;
        };
        let due = self.lengthened.max(last.at + self.timer.timeout);
        let late = now.since(due);
        self.late += late;
        let since = now.since(first.at);
        // Without the lateness it would have been within the span, so that the driver missed
        // it, not the controller.
        self.late > LATENESS && since > span && since.saturating_sub(self.late) <= span
    }

    /// Returns whether a retransmission might arrive after its receiver has forgotten the original,
    /// and would be executed again (RFC 7252 4.4, 4.5).
    pub(crate) fn outlives(&self, now: Instant, parameters: &TransmissionParameters) -> bool {
        let since = |first: &Transmission| now.since(first.at) + parameters.max_latency;
        let since = self.transmissions.first().map(since);
        // MAX_LATENCY more, since the copy may be in the network for that long.
        since.is_some_and(|since| since > parameters.exchange_lifetime())
    }

    /// The time at which an unanswered NON stops counting: once PROBING_RATE has paid for it (RFC
    /// 7252 4.7).
    pub(crate) fn probing_delay(&self, parameters: &TransmissionParameters) -> Duration {
        let bytes = self.bytes.len() as u64;
        // PROBING_RATE is in bytes per second; 0 would never pay.
        let paid = Duration::from_secs(bytes.div_ceil(u64::from(parameters.probing_rate.max(1))));
        // A later response is not expected.
        paid.min(parameters.exchange_lifetime())
    }

    /// Returns whether it is the first message of a request, or a ping.
    pub(crate) fn begins_request(&self) -> bool {
        match self.purpose {
            Purpose::Request { block1, block2, .. } => {
                let first = |block: Option<BlockValue>| block.is_none_or(|block| block.number == 0);
                first(block1) && first(block2)
            }
            Purpose::Ping { .. } => true,
            Purpose::Multicast { .. }
            | Purpose::Response
            | Purpose::Notification { .. }
            | Purpose::ResponseSuppressed => false,
        }
    }

    /// The lookup key of its token.
    pub(crate) fn token_key(&self) -> TokenKey {
        self.token
    }

    pub(crate) fn set_token(&mut self, token: TokenKey) {
        self.token = token;
    }

    pub(crate) fn retransmissions(&self) -> u8 {
        u8::try_from(self.transmissions.len().saturating_sub(1)).unwrap_or(u8::MAX)
    }
}

/// An ended exchange with retransmissions, kept for replies to its other transmissions.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) peer: SocketAddr,
    pub(crate) kind: Kind,
    pub(crate) id: MessageId,
    pub(crate) token: TokenKey,
    pub(crate) counting: CopyTagging,
    /// The transmission that its last reply named, if any.
    pub(crate) named: Option<u8>,
    pub(crate) began: Instant,
    pub(crate) sent: u8,
    pub(crate) answers: u8,
    pub(crate) abandoned: bool,
}

/// Exchanges by (peer, Message ID) and by (peer, token).
#[derive(Debug)]
pub(crate) struct ExchangeIndex {
    state: KeyedState,
    by_id: HashTable<u32>,
    by_token: HashTable<u32>,
}

impl ExchangeIndex {
    pub(crate) fn new(seed: u64) -> Self {
        // Keyed: Message IDs and tokens are looked up as messages of anyone name them.
        let state = KeyedState::with_seed(seed);
        Self {
            state,
            by_id: HashTable::new(),
            by_token: HashTable::new(),
        }
    }

    fn hash(&self, key: impl Hash) -> u64 {
        self.state.hash_one(key)
    }

    pub(crate) fn find_id(
        &self,
        all: &Slab<Exchange>,
        peer: PeerIndex,
        id: MessageId,
    ) -> Option<u32> {
        if self.by_id.is_empty() {
            return None; // without a hash, like below
        }
        let matches = |&i: &u32| all[i as usize].id == Some(id) && all[i as usize].peer == peer;
        self.by_id.find(self.hash((peer, id.0)), matches).copied()
    }

    /// The exchange that a message of a peer with this token belongs to.
    pub(crate) fn find_token(
        &self,
        all: &Slab<Exchange>,
        peer: PeerIndex,
        token: &TokenKey,
    ) -> Option<u32> {
        self.find_by_token(all, peer, token, |exchange| exchange.accepts_token(token))
    }

    /// The exchange with a peer that satisfies the predicate, among those whose tokens differ at
    /// most in the last byte. Short tokens may have many.
    pub(crate) fn find_by_token(
        &self,
        all: &Slab<Exchange>,
        peer: PeerIndex,
        token: &TokenKey,
        is: impl Fn(&Exchange) -> bool,
    ) -> Option<u32> {
        if self.by_token.is_empty() {
            return None;
        }
        let matches = |&i: &u32| {
            let exchange = &all[i as usize];
            exchange.peer == peer && is(exchange)
        };
        self.by_token
            .find(self.hash((peer, token.stem())), matches)
            .copied()
    }

    pub(crate) fn add_id(&mut self, all: &Slab<Exchange>, index: u32) {
        let exchange = &all[index as usize];
        debug_assert!(exchange.id.is_some(), "it has a Message ID by now");
        let same = |id| self.find_id(all, exchange.peer, id);
        debug_assert!(
            exchange.id.and_then(same).is_none(),
            "{:?} is in flight",
            exchange.id
        );
        let Self { state, by_id, .. } = self;
        let key = |i: u32| {
            (
                all[i as usize].peer,
                all[i as usize].id.map(|id| id.0).unwrap_or_default(),
            )
        };
        by_id.insert_unique(state.hash_one(key(index)), index, |&i| {
            state.hash_one(key(i))
        });
        self.check_invariants(all);
    }

    /// Checks the sizes of both tables: no exchange is in one of them twice.
    #[inline]
    fn check_invariants(&self, all: &Slab<Exchange>) {
        debug_assert!(self.by_id.len() <= all.len());
        debug_assert!(self.by_token.len() <= all.len());
    }

    pub(crate) fn add_token(&mut self, all: &Slab<Exchange>, index: u32) {
        let exchange = &all[index as usize];
        let same = self.find_by_token(all, exchange.peer, &exchange.token, |other| {
            core::ptr::eq(other, exchange)
        });
        debug_assert!(same.is_none(), "exchange {index} is added twice");
        let Self {
            state, by_token, ..
        } = self;
        // Without uniqueness: tokens of one peer may share a stem, and differ in the byte that
        // counts.
        let hash = |i: u32| state.hash_one((all[i as usize].peer, all[i as usize].token.stem()));
        by_token.insert_unique(hash(index), index, |&i| hash(i));
        self.check_invariants(all);
    }

    pub(crate) fn remove_id(&mut self, exchange: &Exchange, index: u32) {
        if let Some(id) = exchange.id {
            let Self { state, by_id, .. } = self;
            remove_from(by_id, index, || state.hash_one((exchange.peer, id.0)));
        }
    }

    pub(crate) fn remove(&mut self, exchange: &Exchange, index: u32) {
        self.remove_id(exchange, index);
        self.remove_token(exchange, index);
    }

    /// Removes an exchange from the token index, before its token changes.
    pub(crate) fn remove_token(&mut self, exchange: &Exchange, index: u32) {
        let Self {
            state, by_token, ..
        } = self;
        remove_from(by_token, index, || {
            state.hash_one((exchange.peer, exchange.token.stem()))
        });
    }
}

/// Removes an exchange from a table. A lone one needs no hash.
fn remove_from(table: &mut HashTable<u32>, index: u32, hash: impl FnOnce() -> u64) {
    if table.len() == 1 && table.iter().next() == Some(&index) {
        table.clear();
    } else if let Ok(found) = table.find_entry(hash(), |&i| i == index) {
        found.remove();
    }
}
