//! Response bodies by Q-Block2 (RFC 9177 4.4): the blocks that a request names, from one representation.
//!
//! A request names a set or single blocks, and gets these: the server keeps no state but the response
//! cache. It waits for the client's Continue before the next set, as long as that takes.

use alloc::vec::Vec;

use crate::admission::unvalidated_budget;
use crate::block::RequestedBlock;
use crate::carrier::Carrier;
use crate::codec::HEADER_LENGTH;
use crate::codec::token_room;
use crate::codec::{
    BlockSize, BlockValue, Code, EncodeError, MessageId, MessageView, OptionNumber, Type, Writer,
};
use crate::context::{Context, Queued};
use crate::event::IncomingId;
use crate::message::Response;
use crate::message_layer::UNLIMITED;
use crate::server::Server;
use crate::server::inbound::InboundRequest;
use crate::server::request_table::Acknowledgement;
use crate::server::response::{Reply, Written};
use crate::writing::write_options;

/// Bytes of Q-Block2 and Size2 in a response.
const OPTION_BYTES: usize = 10;

impl Server {
    /// Hands on a request with Q-Block2 to the response cache or to the application.
    pub(crate) fn hand_on_q_block2(
        &mut self,
        cx: &mut Context,
        carrier: &mut Carrier,
        request: &InboundRequest<'_, '_>,
        (id, first): (IncomingId, BlockValue),
    ) {
        if !is_ascending(request.message) {
            let text = "Q-Block2 numbers are not in ascending order";
            return self.fail(cx, carrier, id, Code::BAD_REQUEST, text);
        }
        self.want_q_block2(cx, id, first);
        if first.number > 0 && self.answer_continuation(cx, carrier, request, id) {
            return;
        }
        cx.out.push(Queued::Request(id));
    }

    /// Notes that the response to a request may go by Q-Block2.
    pub(crate) fn want_q_block2(&mut self, cx: &Context, id: IncomingId, first: BlockValue) {
        let terms = &mut self.incoming.slots[id.index as usize].terms;
        let size = first.szx.min(cx.config.block_size);
        terms.q_block2 = Some(first);
        debug_assert!(!size.is_bert(), "BERT needs a reliable transport");
        // Block 0, whatever the request names: `respond_q_block2` cuts the blocks from the
        // whole body.
        terms.wanted = RequestedBlock::block(0, size);
    }

    /// Sends the blocks of a response that its request names. Returns false for a response that goes
    /// without Q-Block2: its body fits one message, or it is the first of several notifications.
    pub(crate) fn respond_q_block2(
        &mut self,
        cx: &mut Context,
        carrier: &mut Carrier,
        reply: &Reply<'_>,
        (response, first): (&Response, BlockValue),
    ) -> bool {
        let body = response.bytes();
        let head = HEADER_LENGTH
            + token_room(reply.token.len())
            + response.options.encoded_len()
            + OPTION_BYTES;
        let fits = carrier.capacity(cx, reply.from).beside(head).size;
        let size = first.szx.min(cx.config.block_size).min(fits);
        let is_body = response.code.is_success() && response.payload.is_whole();
        if !is_body || body.len() <= size.bytes() || reply.is_observing() {
            return false;
        }
        let Some(slot) = self.incoming.find(reply.id) else {
            return false;
        };
        let set = cx.config.q_block.set();
        let blocks = body.len().div_ceil(size.bytes()) as u32;
        let numbers = requested(&slot.message(), set, blocks);
        // Numbers count in the size of the request: in smaller blocks they would name other
        // bytes.
        if numbers.is_empty() || (size != first.szx && first.number > 0) {
            let text = "Q-Block2: no such block";
            let response = Response::diagnostic(Code::BAD_OPTION, text);
            self.incoming.slots[reply.id.index as usize].terms.q_block2 = None;
            self.respond(cx, carrier, reply.id, &response);
            return true;
        }
        debug_assert!(
            numbers.iter().all(|number| *number < blocks),
            "beyond the end"
        );
        debug_assert!(numbers.is_sorted(), "in another order than requested");
        let is_set = numbers.len() > 1;
        let acknowledged = reply.acknowledgement == Acknowledgement::Sent
            || (is_set && reply.acknowledgement == Acknowledgement::Due);
        let (from, received) = (reply.from, reply.received);
        let limit = carrier
            .admission
            .budget(cx, from, received, (acknowledged, false));
        // A set to an unvalidated address is limited where a single message is not.
        let limit = limit.or_else(|| {
            let is_limited = is_set && !carrier.admission.is_validated(cx, from);
            is_limited.then(|| unvalidated_budget(received, acknowledged))
        });
        // Retransmissions of a block get what its first transmission leaves of its part.
        let budget = limit.map(|limit| limit / numbers.len());
        if budget.is_some_and(|budget| head + size.bytes() > budget) {
            self.incoming.slots[reply.id.index as usize].terms.q_block2 = None;
            // Otherwise one forged request would send its victim a set of blocks.
            self.challenge(cx, carrier, reply.id);
            return true;
        }
        self.keep_rest(cx, carrier, reply, response);
        self.drop_incoming(reply.id);
        cx.counters.requests.add(reply.method, Some(response.code));
        self.send_q_blocks(cx, carrier, reply, response, (&numbers, size, budget));
        true
    }

    /// Sends blocks: the first as the response, the others separately, of the request's type; the
    /// transmissions of each within its budget. A set is separate from the acknowledgement of its request:
    /// a duplicate is only acknowledged, and does not bring the set again.
    fn send_q_blocks(
        &mut self,
        cx: &mut Context,
        carrier: &mut Carrier,
        reply: &Reply<'_>,
        response: &Response,
        (numbers, size, budget): (&[u32], BlockSize, Option<usize>),
    ) {
        let confirmable = reply.acknowledgement != Acknowledgement::None;
        let mut reply = *reply;
        if reply.acknowledgement == Acknowledgement::Due && numbers.len() > 1 {
            carrier.send_empty(cx, reply.from, Type::Acknowledgement, reply.message_id);
            reply.acknowledgement = Acknowledgement::Sent;
        }
        for (n, number) in numbers.iter().enumerate() {
            let mut scratch = core::mem::take(&mut cx.scratch);
            let written = write_block(&mut scratch, reply.token, response, (*number, size));
            let Ok(length) = written else {
                cx.scratch = scratch;
                return;
            };
            cx.counters.q_block.blocks_sent += 1;
            if n == 0 {
                let written = Written::whole(length, budget);
                self.send_reply(cx, carrier, &reply, &written, scratch);
                continue;
            }
            let mut bytes = cx.buffer();
            bytes.extend_from_slice(&scratch[..length]);
            cx.scratch = scratch;
            let how = (confirmable, budget.unwrap_or(UNLIMITED));
            carrier.send_separately(cx, reply.from, (reply.key, None), how, bytes);
        }
    }
}

/// Writes a block of a response. Type and Message ID are set when it is sent.
fn write_block(
    buffer: &mut [u8],
    token: &[u8],
    response: &Response,
    (number, szx): (u32, BlockSize),
) -> Result<usize, EncodeError> {
    let body = response.bytes();
    let start = number as usize * szx.bytes();
    let end = body.len().min(start + szx.bytes());
    let more = end < body.len();
    let block = BlockValue { number, more, szx };
    let size = u32::try_from(body.len()).unwrap_or(u32::MAX);
    let extra = [
        Some((OptionNumber::SIZE2, size)),
        Some((OptionNumber::Q_BLOCK2, block.to_uint())),
    ];
    let (kind, id) = (Type::NonConfirmable, MessageId(0));
    let token: &dyn AsRef<[u8]> = &token;
    let mut writer = Writer::new(buffer, kind, response.code, id, &token)?;
    write_options(&mut writer, response.code, &response.options, &extra)?;
    writer.payload(&body[start..end])?;
    Ok(writer.finish())
}

/// The values of the Q-Block2 options of a request.
fn values<'m>(request: &MessageView<'m>) -> impl Iterator<Item = BlockValue> + 'm {
    let values = request.values(OptionNumber::Q_BLOCK2);
    values.filter_map(|value| BlockValue::decode(value).ok())
}

/// Returns whether the numbers of Q-Block2 increase, and their sizes agree (RFC 9177 4.4).
fn is_ascending(request: &MessageView<'_>) -> bool {
    let all: Vec<BlockValue> = values(request).collect();
    all.windows(2)
        .all(|pair| pair[0].number < pair[1].number && pair[0].szx == pair[1].szx)
}

/// The blocks that a request names, each once, as many as a set has (RFC 9177 4.4, 7.2): single blocks,
/// and with the M bit the rest of a set.
fn requested(request: &MessageView<'_>, set: u32, blocks: u32) -> Vec<u32> {
    let mut numbers: Vec<u32> = Vec::new();
    for value in values(request) {
        let end = if value.more {
            (value.number / set * set).saturating_add(set)
        } else {
            value.number + 1
        };
        // A block that is named several times is sent once (RFC 9177 4.4).
        for number in value.number..end.min(blocks) {
            if numbers.len() < set as usize && numbers.last().is_none_or(|last| *last < number) {
                numbers.push(number);
            }
        }
    }
    numbers
}
