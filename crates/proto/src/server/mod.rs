//! Received requests: validated, reassembled, answered once.
//!
//! A request passes duplicate detection (before this layer), the check of its options, reassembly
//! or the response cache, and reaches the application. Its response is limited to the requested
//! block, and piggybacked if the ACK is still due; otherwise it is a separate response.

pub(crate) mod admission;
pub(crate) mod inbound;
pub(crate) mod request_table;
pub(crate) mod response;

use alloc::boxed::Box;
use core::net::SocketAddr;

use bytes::Bytes;
use carob_cc::time::Instant;
use slab::Slab;

use crate::block::RequestedBlock;
use crate::block::reassembly::{Delivery, Reassembler, ReassemblyLimits};
use crate::carrier::Carrier;
use crate::codec::{Code, MessageView, OptionNumber, Type};
use crate::config::Config;
use crate::context::Context;
use crate::dedup::Remembered;
use crate::event::IncomingId;
use crate::observe::Observe;
use crate::seeds::{Seeds, Table};
use crate::server::inbound::DelayedGroupResponse;
use crate::server::inbound::InboundRequest;
use crate::server::request_table::{
    Acknowledgement, IncomingTable, RegistrationState, ResponseTerms, Slot, StoredMessage,
};
use crate::tables::quota::QuotaPolicy;

pub use crate::server::admission::HandlerUsage;
pub(crate) use crate::server::admission::slow_down;

/// The part of a streamed request body in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The offset of the part in bytes.
    pub offset: u64,
    /// More parts follow; the response [`Code::CONTINUE`] requests them.
    pub more: bool,
}

/// A received request, as the application sees it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Incoming<'a> {
    /// The address of the sender.
    pub from: SocketAddr,
    /// The message: method and options. For a block-wise body it is the last one, or the first if
    /// only that has If-None-Match (RFC 7959 2.10).
    pub message: MessageView<'a>,
    /// The body: whole, or the [`part`](Self::part); empty if the method does not permit one (RFC
    /// 7252 5.5).
    pub body: &'a [u8],
    /// The position of the part, if the body is streamed.
    pub part: Option<Part>,
    /// The requested part of the response body.
    pub wanted: RequestedBlock,
    /// The Observe option, if present (RFC 7641 2). Registration is the application's choice:
    /// [`Endpoint::observe`](crate::endpoint::Endpoint::observe).
    pub observe: Option<Observe>,
    /// The request carries a valid Echo value of a
    /// [challenge](crate::endpoint::Endpoint::challenge): it was made after that, and its address
    /// is validated (RFC 9175 2.3).
    pub fresh: bool,
    /// A multicast request: the response is sent after a random delay, if it is useful (RFC 7252
    /// 8.2).
    pub to_group: bool,
}

/// Returns whether the engine, or the application by its contract, acts on this critical option.
fn handles(cx: &Context, number: OptionNumber, method: Code) -> bool {
    match number {
        // Both or neither (RFC 9177 4.1).
        OptionNumber::Q_BLOCK1 => cx.accepts_q_block() && method.has_payload(),
        OptionNumber::Q_BLOCK2 => cx.accepts_q_block(),
        // Block1 concerns a payload, and is undefined without one.
        OptionNumber::BLOCK1 => method.has_payload(),
        OptionNumber::IF_MATCH
        | OptionNumber::URI_HOST
        | OptionNumber::IF_NONE_MATCH
        | OptionNumber::URI_PORT
        | OptionNumber::URI_PATH
        | OptionNumber::URI_QUERY
        | OptionNumber::ACCEPT
        | OptionNumber::BLOCK2 => true,
        _ => false,
    }
}

/// Returns whether an option marks a proxy request (RFC 7252 5.10.2).
fn is_for_proxy(number: OptionNumber) -> bool {
    matches!(number, OptionNumber::PROXY_URI | OptionNumber::PROXY_SCHEME)
}

/// The critical option of a request that is not understood. See
/// [`Endpoint::unsupported_critical_option`](super::Endpoint::unsupported_critical_option).
pub(crate) fn unsupported_critical_option(
    cx: &Context,
    request: &MessageView<'_>,
) -> Option<OptionNumber> {
    let mut last = None;
    request
        .options()
        .find(|option| {
            let number = option.number;
            let repeated = last.replace(number) == Some(number);
            let handled = || is_for_proxy(number) || handles(cx, number, request.code());
            number.is_critical() && !cx.understands(option, repeated, handled())
        })
        .map(|option| option.number)
}

type DeliveryRule = Box<dyn Fn(&MessageView<'_>) -> Delivery + Send>;

/// Received requests without a response yet, and bodies in transfer.
pub(crate) struct Server {
    pub(crate) incoming: IncomingTable,
    pub(crate) reassembler: Reassembler,
    pub(crate) delayed_responses: Slab<DelayedGroupResponse>,
    pub(crate) delivery: Option<DeliveryRule>,
}

impl Server {
    pub(crate) fn new(config: &Config, seeds: &Seeds) -> Self {
        let limits = config.limits;
        let quota_policy = QuotaPolicy::from(&limits);
        let reassembly = ReassemblyLimits {
            bodies: limits.uploads,
            body_bytes: limits.upload_bytes,
            all_bytes: limits.all_upload_bytes,
            quota_policy,
            blocks_ahead: limits.blocks_ahead,
            results: limits.q_block_results,
        };
        let incoming = seeds.table(Table::RequestsReceived);
        Self {
            incoming: IncomingTable::new(incoming, limits.incoming, quota_policy),
            reassembler: Reassembler::new(seeds.table(Table::Reassembly), reassembly),
            delayed_responses: Slab::new(),
            delivery: None,
        }
    }

    /// Sets the rule that chooses the delivery of a request body by the first block's options.
    pub(crate) fn deliver_by(&mut self, rule: DeliveryRule) {
        self.delivery = Some(rule);
    }

    /// Requests without a response yet, and the bytes of their messages.
    pub(crate) fn held(&self) -> (usize, usize) {
        (self.incoming.len(), self.incoming.bytes())
    }

    /// Request bodies being received, and their bytes.
    pub(crate) fn uploads(&self) -> (usize, usize) {
        self.reassembler.held()
    }

    /// The time of the next empty ACK.
    pub(crate) fn next_acknowledgement(&mut self) -> Option<Instant> {
        self.incoming.next_acknowledgement()
    }

    /// Discards a body without a block for EXCHANGE_LIFETIME.
    pub(crate) fn forget_assembly(&mut self, cx: &mut Context, index: u32) {
        if let Some(timer) = self.reassembler.remove(index) {
            cx.timers.remove(timer);
        }
    }

    /// Discards the incomplete bodies of a peer.
    pub(crate) fn forget_bodies_of(&mut self, cx: &mut Context, peer: SocketAddr) {
        while let Some(timer) = self.reassembler.remove_of_peer(peer) {
            cx.timers.remove(timer);
        }
    }

    /// Discards the requests of an ended session, whose responses have no receiver.
    pub(crate) fn forget_session(&mut self, cx: &mut Context, peer: SocketAddr) {
        let bytes = self.incoming.remove_of_peer(peer);
        self.reassembler.done_with(peer, bytes);
        self.forget_bodies_of(cx, peer);
    }

    /// The request of an [`Event::Request`](super::Event::Request), until its response.
    pub(crate) fn incoming(&self, id: IncomingId) -> Option<Incoming<'_>> {
        let slot = self.incoming.find(id)?;
        let message = slot.message();
        let body = match slot.stored.body.as_deref() {
            Some(body) => body,
            None if message.code().has_payload() => message.payload(),
            None => &[],
        };
        Some(Incoming {
            from: slot.from,
            message,
            body,
            part: slot.stored.part,
            wanted: slot.terms.wanted,
            observe: slot.observe,
            fresh: slot.fresh,
            to_group: slot.terms.to_group,
        })
    }

    /// The whole body of a request that came in several blocks, without copying it.
    pub(crate) fn incoming_body(&self, id: IncomingId) -> Option<Bytes> {
        self.incoming.find(id)?.stored.body.clone()
    }

    /// Adds a request to the table.
    #[inline]
    fn accept(
        &mut self,
        cx: &mut Context,
        carrier: &Carrier,
        request: &InboundRequest<'_, '_>,
        remembered: Option<Remembered>,
    ) -> IncomingId {
        let InboundRequest {
            from,
            message,
            ref options,
            to_group,
            ..
        } = *request;
        debug_assert!(
            self.incoming.len() < cx.config.limits.incoming,
            "it was admitted"
        );
        debug_assert!(
            !cx.is_stream() || remembered.is_none(),
            "streams have no duplicates"
        );
        let serial = cx.next_serial();
        let acknowledgement = if let Some(connection) = carrier.connections.serial(from) {
            Acknowledgement::Connected(connection)
        } else if message.kind() == Type::Confirmable {
            Acknowledgement::Due
        } else {
            Acknowledgement::None
        };
        let slot = Slot {
            serial,
            live: true,
            from,
            id: message.message_id(),
            token: cx.token_key(message.token()),
            acknowledgement,
            remembered,
            stored: StoredMessage::new(message.layout(), message.as_bytes().len() as u32),
            terms: ResponseTerms {
                block1: None,
                wanted: carrier.requested_block(cx, from, options.block2.unwrap_or_default()),
                accept: options.accept,
                count: options.count,
                no_response: options.no_response,
                to_group,
                q_block1: false,
                q_block2: None,
            },
            fresh: false,
            // Multicast requests cannot observe.
            observe: options.observe.filter(|_| !to_group),
            registration: RegistrationState::None,
        };
        let id = self.incoming.insert(slot, message.as_bytes());
        debug_assert!(self.incoming.len() <= cx.config.limits.incoming);
        if message.kind() == Type::Confirmable {
            let due = cx.now + cx.config.empty_ack_delay;
            self.incoming.acknowledge_later(due, id);
        }
        id
    }
}
