//! The interface between the request layers and the transport of messages: exchanges over datagrams
//! (RFC 7252 4) or connections (RFC 8323).
//!
//! Clients and servers submit messages and cancel exchanges by calls. The result of an exchange is
//! returned as a value: [`Delivered`] for an input, [`Outcome`] for anything else.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::net::SocketAddr;

use carob_cc::TransmissionParameters;
use carob_cc::controller::Window;
use carob_cc::time::{Duration, Instant};
use slab::Slab;

use crate::address::PeerIndex;
use crate::admission::AdmissionControl;
use crate::block::RequestedBlock;
use crate::block::q_upload::BlockTransmission;
use crate::block::response_cache::ResponseCache;
use crate::capacity::Capacity;
use crate::codec::HEADER_LENGTH;
use crate::codec::frame::write_frame;
use crate::codec::{
    BlockSize, BlockValue, Code, MessageId, MessageView, TokenKey, Type, parse_header,
};
use crate::config::{Config, Tracing, admissible};
use crate::congestion::CongestionControl;
use crate::context::Context;
use crate::dedup::Dedup;
use crate::event::{Failure, RequestId};
use crate::message_id::GroupIds;
use crate::message_layer::bottleneck_group::Aggregates;
use crate::message_layer::peer::Peers;
use crate::message_layer::silence::Silences;
use crate::message_layer::tokens::{OwnToken, Tokens};
use crate::message_layer::{Ended, Exchange, ExchangeIndex, Purpose};
use crate::observe::observers::Notifications;
use crate::seeds::{Seeds, Table};
use crate::stream_layer::Connections;
use crate::tables::quota::{QuotaPolicy, QuotaTable};
use crate::tables::rate_limit::Admission;
use crate::trace::TraceEvent;

/// The controller and parameters that the application set for one peer.
#[derive(Debug, Default)]
pub(crate) struct PeerSettings {
    pub(crate) controller: Option<CongestionControl>,
    pub(crate) parameters: Option<TransmissionParameters>,
}

/// A message of a request that was answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AnsweredRequest {
    pub(crate) operation: u32,
    /// The exchange, which has ended unless it is [`reported`](Self::reported).
    pub(crate) exchange: u32,
    pub(crate) block1: Option<BlockValue>,
    pub(crate) block2: Option<BlockValue>,
    /// The exchange of a reported message, which the request is still to end.
    pub(crate) reported: bool,
}

/// A message received, for the layer above.
pub(crate) enum Delivered<'m> {
    /// A request that is not a duplicate, with the decision of its rate limit.
    Request(MessageView<'m>, Admission),
    /// The response to one message of a request of this endpoint.
    Response(AnsweredRequest, MessageView<'m>),
    /// A notification, or the final response, of an observation of this endpoint.
    Notification {
        operation: u32,
        message: MessageView<'m>,
    },
    /// A response without an exchange or observation.
    Unmatched(MessageView<'m>),
}

/// The end of an operation of the layers above, other than by a response.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// An exchange ended without a reply.
    /// `heard`: a message came from the peer since the exchange began.
    Failed {
        purpose: Purpose,
        exchange: u32,
        failure: Failure,
        heard: bool,
    },
    /// The timer of a reported message expired; `silence` is that timer if nothing came from the peer
    /// since.
    Unreported {
        purpose: Purpose,
        exchange: u32,
        silence: Option<Duration>,
    },
    /// A reported message has left the window, a round trip after it was sent.
    PresumedReceived { purpose: Purpose, exchange: u32 },
    /// A block was acknowledged with an empty ACK (RFC 9177 4.3).
    BlockAcknowledged {
        purpose: Purpose,
        exchange: u32,
        transmission: Option<BlockTransmission>,
    },
    /// The wait for an optional response is over (RFC 7967).
    Suppressed { operation: u32, peer: PeerIndex },
    /// A ping was answered.
    Pong { operation: u32 },
    /// A request is repeated with another token and in another exchange.
    Resubmitted {
        operation: u32,
        before: u32,
        exchange: u32,
    },
    /// The token of an observation was replaced by one that its peer supports.
    TokenReplaced {
        operation: u32,
        before: TokenKey,
        token: OwnToken,
    },
    /// The largest message of a peer is now known; requests were waiting for it.
    CapacityKnown {
        peer: SocketAddr,
        waiting: Vec<RequestId>,
    },
    /// A connection has ended.
    Disconnected {
        peer: SocketAddr,
        waiting: Vec<RequestId>,
        failure: Failure,
        was_open: bool,
    },
}

/// Peers, the exchanges with them, and the transport of their messages.
pub(crate) struct Carrier {
    pub(crate) peers: Peers,
    pub(crate) silences: Silences,
    pub(crate) settings: BTreeMap<SocketAddr, PeerSettings>,
    pub(crate) exchanges: Slab<Exchange>,
    pub(crate) index: ExchangeIndex,
    pub(crate) ended: VecDeque<Ended>,
    pub(crate) tokens: Tokens,
    /// Exchanges of separate responses, in all and by source.
    pub(crate) responses: usize,
    pub(crate) response_shares: QuotaTable,
    pub(crate) notifications: Notifications,
    pub(crate) response_cache: ResponseCache,
    pub(crate) admission: AdmissionControl,
    pub(crate) aggregates: Aggregates,
    pub(crate) group_ids: GroupIds,
    pub(crate) dedup: Dedup,
    /// Messages rejected in the current second, and its start.
    pub(crate) rejections: (Instant, u32),
    pub(crate) connections: Connections,
    outcomes: VecDeque<Outcome>,
}

impl Carrier {
    pub(crate) fn new(config: &Config, seeds: &Seeds, aggregates: Aggregates) -> Self {
        let limits = config.limits;
        let quota_policy = QuotaPolicy::from(&limits);
        Self {
            peers: Peers::new(seeds.table(Table::Peers), limits.peers, quota_policy),
            silences: Silences::default(),
            settings: BTreeMap::new(),
            exchanges: Slab::new(),
            index: ExchangeIndex::new(seeds.table(Table::Exchanges)),
            ended: VecDeque::new(),
            tokens: Tokens::new(seeds),
            responses: 0,
            response_shares: QuotaTable::new(seeds.table(Table::Exchanges).rotate_left(8)),
            notifications: Notifications::new(config, seeds),
            response_cache: ResponseCache::new(
                seeds.entity_tags(),
                (limits.bodies, limits.body_bytes),
                quota_policy,
            ),
            admission: AdmissionControl::new(seeds, &limits),
            aggregates,
            group_ids: GroupIds::starting_at(seeds.message_id()),
            dedup: Dedup::new(
                seeds.table(Table::Deduplication),
                limits.dedup_idempotent,
                limits.dedup_non_idempotent,
                quota_policy.prefix,
            ),
            rejections: (Instant::ZERO, 0),
            connections: Connections::new(
                seeds.table(Table::Connections),
                limits.connections,
                quota_policy,
            ),
            outcomes: VecDeque::new(),
        }
    }

    /// Reports an outcome to the layers above; bounded by the exchanges and connections there are.
    pub(crate) fn report(&mut self, outcome: Outcome) {
        self.outcomes.push_back(outcome);
    }

    /// Returns whether outcomes wait to be handled.
    #[inline]
    pub(crate) fn has_outcomes(&self) -> bool {
        !self.outcomes.is_empty()
    }

    /// The oldest unhandled outcome.
    pub(crate) fn next_outcome(&mut self) -> Option<Outcome> {
        self.outcomes.pop_front()
    }

    /// Sets a peer's own controller and transmission parameters, where given.
    pub(crate) fn set_peer(
        &mut self,
        peer: SocketAddr,
        controller: Option<CongestionControl>,
        parameters: Option<TransmissionParameters>,
    ) {
        let parameters = parameters.map(admissible);
        if let Some(index) = self.peers.find(peer) {
            // The controller stays until the peer is evicted, since its state belongs to the
            // messages in flight.
            self.peers[index].parameters = parameters.map(Box::new);
        }
        let settings = PeerSettings {
            controller,
            parameters,
        };
        // Kept apart from the peer, which may be evicted and known again.
        self.settings.insert(peer, settings);
    }

    #[inline]
    pub(crate) fn parameters(&self, cx: &Context, peer: PeerIndex) -> TransmissionParameters {
        self.peers[peer]
            .parameters
            .as_deref()
            .copied()
            .unwrap_or(cx.config.parameters)
    }

    pub(crate) fn window(&self, cx: &Context, peer: PeerIndex) -> Window {
        self.window_at(cx, cx.now, peer)
    }

    /// The window of a peer at a time that no input had yet.
    pub(crate) fn window_at(&self, cx: &Context, now: Instant, peer: PeerIndex) -> Window {
        let window = self.peers[peer]
            .congestion
            .as_ref()
            .window(now, &self.parameters(cx, peer));
        debug_assert!(window.bytes > 0, "a window admits a byte");
        Window {
            // A window of 0 would never open again: it grows by replies.
            exchanges: window.exchanges.max(1),
            bytes: window.bytes,
        }
    }

    /// The capacity of one message to this peer, as far as it is known now.
    #[inline]
    pub(crate) fn capacity(&self, cx: &Context, to: SocketAddr) -> Capacity {
        if !cx.is_stream() {
            // A datagram to any peer must fit the MTU to assume (RFC 7252 4.6).
            return cx.least_capacity();
        }
        let (max_message_size, bert) = self.connections.capabilities(to);
        cx.stream_capacity(max_message_size, bert)
    }

    /// The part of a response to `from` that one message carries if the request has `block`.
    #[inline]
    pub(crate) fn requested_block(
        &self,
        cx: &Context,
        from: SocketAddr,
        block: Option<BlockValue>,
    ) -> RequestedBlock {
        cx.requested_block(&self.capacity(cx, from), block)
    }

    /// The part of a notification that one message carries to an observer that takes blocks of `size`.
    pub(crate) fn observer_block(
        &self,
        cx: &Context,
        to: SocketAddr,
        size: BlockSize,
    ) -> RequestedBlock {
        let all = self.requested_block(cx, to, None);
        debug_assert!(all.offset == 0 && all.span >= all.size.bytes());
        if size >= all.size {
            all
        } else {
            RequestedBlock::block(0, size)
        }
    }

    /// Sends a message outside an exchange: an acknowledgement, a piggybacked response, a reset.
    #[inline]
    pub(crate) fn transmit(&mut self, cx: &mut Context, to: SocketAddr, bytes: &[u8]) {
        if cx.config.trace == Tracing::Everything
            && let Ok(header) = parse_header(bytes)
        {
            let what = TraceEvent::Replied {
                id: header.message_id,
                kind: header.kind,
                code: header.code,
                bytes: bytes.len() as u32,
            };
            cx.trace(to, what);
        }
        self.push_message(cx, to, bytes);
    }

    /// Queues a message as the transport frames it.
    #[inline]
    pub(crate) fn push_message(&mut self, cx: &mut Context, to: SocketAddr, bytes: &[u8]) {
        debug_assert!(bytes.len() >= HEADER_LENGTH, "a message has a header");
        debug_assert!(
            !cx.is_stream() || self.connections.find(to).is_some(),
            "no connection"
        );
        cx.counters.sent.add(bytes.len());
        match &cx.config.reliable {
            None => {
                cx.out.transmit(to, |out| out.extend_from_slice(bytes));
            }
            Some(reliable) => {
                let framing = reliable.framing;
                let length = (cx.out).transmit(to, |out| write_frame(framing, bytes, out));
                self.count_unread(to, length);
            }
        }
    }

    /// Sends an empty ACK or RST.
    pub(crate) fn send_empty(
        &mut self,
        cx: &mut Context,
        to: SocketAddr,
        kind: Type,
        id: MessageId,
    ) {
        self.transmit(cx, to, &empty(kind, id));
    }
}

/// An empty message (RFC 7252 4.1).
pub(crate) fn empty(kind: Type, id: MessageId) -> [u8; 4] {
    let [high, low] = id.0.to_be_bytes();
    // Version 1 and no token: an Empty message has only a header.
    [0x40 | (kind as u8) << 4, Code::EMPTY.0, high, low]
}
