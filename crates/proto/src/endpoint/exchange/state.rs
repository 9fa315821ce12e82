//! What is kept of an exchange, and of one that has ended.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::SocketAddr;

use carob_cc::TransmissionParameters;
use carob_cc::aggregate::Mark;
use carob_cc::controller::{Counting, Timer};
use carob_cc::evidence::{Kind, Transmission};
use carob_cc::time::{Duration, Instant};
use smallvec::SmallVec;

use crate::codec::{BlockValue, MessageId, TokenKey};
use crate::endpoint::config::LATENESS;
use crate::observe::observers::ObserverIndex;
use crate::peer::PeerIndex;
use crate::timers::TimerId;

/// What an exchange is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::endpoint) enum Purpose {
    /// A request of ours, or one block of it.
    Request {
        operation: u32,
        block1: Option<BlockValue>,
        block2: Option<BlockValue>,
    },
    /// A request of ours that has ended without an answer, as it was to (RFC 7967); one may come.
    Unanswered,
    /// A request of ours to a group.
    Group { group: u32 },
    /// A ping of ours: an empty CON, answered by RST.
    Ping { operation: u32 },
    /// A separate response of ours.
    Response,
    /// A notification to an observer of a resource of ours.
    Notification { observer: ObserverIndex },
}

impl Purpose {
    pub(super) fn wants_response(self) -> bool {
        matches!(
            self,
            Self::Request { .. } | Self::Unanswered | Self::Group { .. }
        )
    }

    pub(in crate::endpoint) fn kind(self) -> Kind {
        match self {
            Self::Response => Kind::Response,
            Self::Notification { .. } => Kind::Notification,
            Self::Request { .. } | Self::Unanswered | Self::Group { .. } | Self::Ping { .. } => {
                Kind::Request
            }
        }
    }

    pub(in crate::endpoint) fn operation(self) -> Option<u32> {
        match self {
            Self::Request { operation, .. } | Self::Ping { operation } => Some(operation),
            Self::Unanswered | Self::Group { .. } | Self::Response | Self::Notification { .. } => {
                None
            }
        }
    }

    pub(in crate::endpoint) fn group(self) -> Option<u32> {
        match self {
            Self::Group { group } => Some(group),
            _ => None,
        }
    }

    pub(in crate::endpoint) fn observer(self) -> Option<ObserverIndex> {
        match self {
            Self::Notification { observer } => Some(observer),
            _ => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::endpoint) enum State {
    /// In its peer's queue.
    Queued,
    /// A CON, its timer running.
    Unacknowledged,
    /// Acknowledged or NON; a response is to come. `counted` against the window.
    Waiting { counted: bool },
}

/// A message of ours to be submitted.
pub(in crate::endpoint) struct Submission {
    pub(in crate::endpoint) purpose: Purpose,
    pub(in crate::endpoint) confirmable: bool,
    pub(in crate::endpoint) token: TokenKey,
    /// By its token, or not yet.
    pub(in crate::endpoint) counting: Counting,
    /// The message, its type and Message ID still open.
    pub(in crate::endpoint) bytes: Vec<u8>,
    /// Bytes expected in answer; 0 if unknown.
    pub(in crate::endpoint) answer_bytes: u32,
    pub(in crate::endpoint) parameters: Option<Box<TransmissionParameters>>,
    /// Bytes that all its copies together may have, because of who it goes to.
    pub(in crate::endpoint) budget: usize,
}

/// The budget of what goes to who is where it says it is, and of what nobody made us send.
pub(in crate::endpoint) const UNLIMITED: usize = usize::MAX;

#[derive(Debug)]
pub(in crate::endpoint) struct Exchange {
    pub(in crate::endpoint) peer: PeerIndex,
    pub(in crate::endpoint) purpose: Purpose,
    pub(in crate::endpoint) state: State,
    pub(in crate::endpoint) confirmable: bool,
    /// That of its copies, but for the last byte where that counts them.
    pub(super) token: TokenKey,
    /// How its copies are told apart.
    pub(super) counting: Counting,
    /// The copy that its answer named, if any.
    pub(super) named: Option<u8>,
    pub(in crate::endpoint) id: Option<MessageId>,
    pub(in crate::endpoint) bytes: Vec<u8>,
    pub(in crate::endpoint) answer_bytes: u32,
    pub(in crate::endpoint) parameters: Option<Box<TransmissionParameters>>,
    /// Bytes that it counts for in a [budget](crate::endpoint::aggregate) shared with other peers.
    pub(in crate::endpoint) budgeted: u32,
    /// What that budget keeps with it.
    pub(in crate::endpoint) mark: Mark,
    /// What is left of the bytes that its copies may have; `u32::MAX` if there is no limit.
    pub(super) budget: u32,
    pub(super) timer: Timer,
    pub(in crate::endpoint) timer_id: TimerId,
    /// By how much its timers were served late, all together.
    pub(super) late: Duration,
    pub(in crate::endpoint) transmissions: SmallVec<[Transmission; 2]>,
    /// It was sent over a connection that has ended since.
    pub(in crate::endpoint) resent: bool,
    /// The first of `transmissions` that had the present Message ID: not 0 once a notification
    /// was superseded by a newer one (RFC 7641 4.5.2).
    pub(super) first_of_id: u8,
    /// While queued: the exchange behind it.
    pub(super) queued_next: u32,
}

impl Exchange {
    pub(in crate::endpoint) fn in_flight_bytes(&self) -> u32 {
        (self.bytes.len() as u32).saturating_add(self.answer_bytes)
    }

    /// Whether its peer may be sent another copy.
    pub(super) fn has_budget(&self) -> bool {
        self.budget as usize >= self.bytes.len()
    }

    /// Whether another copy would leave MAX_TRANSMIT_SPAN for no other reason than that we were
    /// called late: that opportunity is missed (RFC 7252 4.2). A controller whose timers reach
    /// beyond the span by themselves is held back later ([`outlives`](Self::outlives)).
    pub(super) fn missed(&mut self, now: Instant, span: Duration) -> bool {
        let (Some(first), Some(last)) = (self.transmissions.first(), self.transmissions.last())
        else {
            return false;
        };
        let late = now.since(last.at).saturating_sub(self.timer.timeout);
        self.late += late;
        let since = now.since(first.at);
        self.late > LATENESS && since > span && since.saturating_sub(self.late) <= span
    }

    /// Whether another copy might arrive when its receiver has forgotten the first, and would execute
    /// it again (RFC 7252 4.4, 4.5).
    pub(super) fn outlives(&self, now: Instant, parameters: &TransmissionParameters) -> bool {
        let since = |first: &Transmission| now.since(first.at) + parameters.max_latency;
        let since = self.transmissions.first().map(since);
        since.is_some_and(|since| since > parameters.exchange_lifetime())
    }

    /// When an unanswered NON stops counting: once PROBING_RATE has paid for it (RFC 7252 4.7).
    pub(in crate::endpoint) fn paid_after(&self, parameters: &TransmissionParameters) -> Duration {
        let bytes = self.bytes.len() as u64;
        let paid = Duration::from_secs(bytes.div_ceil(u64::from(parameters.probing_rate.max(1))));
        paid.min(parameters.exchange_lifetime())
    }

    /// Whether it is a request's first message, or a ping.
    pub(in crate::endpoint) fn begins_request(&self) -> bool {
        match self.purpose {
            Purpose::Request { block1, block2, .. } => {
                let first = |block: Option<BlockValue>| block.is_none_or(|block| block.number == 0);
                first(block1) && first(block2)
            }
            Purpose::Ping { .. } => true,
            Purpose::Group { .. }
            | Purpose::Response
            | Purpose::Notification { .. }
            | Purpose::Unanswered => false,
        }
    }

    /// What its token is found by.
    pub(in crate::endpoint) fn token_key(&self) -> TokenKey {
        self.token
    }

    pub(in crate::endpoint) fn set_token(&mut self, token: TokenKey) {
        self.token = token;
    }

    pub(super) fn retransmissions(&self) -> u8 {
        u8::try_from(self.transmissions.len().saturating_sub(1)).unwrap_or(u8::MAX)
    }
}

/// An exchange that had retransmissions, remembered for answers to its other copies.
#[derive(Debug)]
pub(in crate::endpoint) struct Ended {
    pub(super) peer: SocketAddr,
    pub(super) kind: Kind,
    pub(super) id: MessageId,
    pub(super) token: TokenKey,
    pub(super) counting: Counting,
    /// The copy that its last answer named, if any.
    pub(super) named: Option<u8>,
    pub(super) began: Instant,
    pub(super) sent: u8,
    pub(super) answers: u8,
    pub(super) abandoned: bool,
}
