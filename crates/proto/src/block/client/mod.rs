//! Block-wise bodies of this endpoint's requests and their responses (RFC 7959).

mod q_block1;
mod q_block2;

use alloc::vec::Vec;

use bytes::Bytes;

use crate::block::download::{Download, DownloadError};
use crate::block::response_cache::join;
use crate::block::{Blocks, QBlockMode, remove_transfer_options};
use crate::carrier::Carrier;
use crate::client::{BlockMode, BodyMode, Client, Progress};
use crate::codec::{BlockValue, Code, MessageView, OptionNumber};
use crate::config::RESTARTS;
use crate::context::Context;
use crate::event::{Event, Failure};
use crate::message::{Payload, Response};
use crate::message_layer::Purpose;

/// The block-wise options of a response, read in one pass.
#[derive(Default)]
pub(crate) struct Received<'a> {
    block1: Option<BlockValue>,
    block2: Option<BlockValue>,
    q_block2: Option<BlockValue>,
    q_block1: bool,
    etag: Option<&'a [u8]>,
    size2: Option<u32>,
}

impl<'a> Received<'a> {
    /// Reads the options, from a datagram or a `reliable` transport; fails if one is malformed.
    pub(crate) fn read(message: &MessageView<'a>, reliable: bool) -> Result<Self, Failure> {
        let mut received = Self::default();
        let decode = |value| {
            let block = if reliable {
                BlockValue::decode_reliable(value)
            } else {
                BlockValue::decode(value)
            };
            block.map_err(|_| Failure::BadBlock)
        };
        for option in message.options() {
            match option.number {
                OptionNumber::BLOCK1 => received.block1 = Some(decode(option.value)?),
                OptionNumber::BLOCK2 => received.block2 = Some(decode(option.value)?),
                OptionNumber::Q_BLOCK1 => received.q_block1 = true,
                OptionNumber::Q_BLOCK2 => received.q_block2 = Some(decode(option.value)?),
                // Elective: one of a wrong length is ignored (RFC 7252 5.4.3).
                OptionNumber::ETAG if option.recognized().is_some() => {
                    received.etag = received.etag.or(Some(option.value));
                }
                // Of several, the first counts (RFC 7252 5.4.5).
                OptionNumber::SIZE2 => received.size2 = received.size2.or(option.uint()),
                _ => {}
            }
        }
        Ok(received)
    }

    pub(crate) fn q_block2(&self) -> Option<BlockValue> {
        self.q_block2
    }

    pub(crate) fn etag(&self) -> Option<&'a [u8]> {
        self.etag
    }

    pub(crate) fn size2(&self) -> Option<u32> {
        self.size2
    }
}

impl Client {
    /// Processes the response to one message of a request.
    pub(crate) fn handle_operation_response(
        &mut self,
        cx: &mut Context,
        carrier: &mut Carrier,
        index: u32,
        block1: Option<BlockValue>,
        block2: Option<BlockValue>,
        message: &MessageView<'_>,
    ) {
        if let Some(number) = cx.not_understood(message) {
            return self.fail_operation(cx, carrier, index, Failure::UnknownOption(number));
        }
        // First, because a challenge means that the message was not processed (RFC 9175 2.3): it
        // is not the response, in whatever mode the blocks are.
        if self.answer_challenge(cx, carrier, index, block1, block2, message) {
            return;
        }
        if self.operations[index as usize].sending.blocks == BlockMode::Manual {
            return self.deliver_response(cx, carrier, index, message);
        }
        let received = match Received::read(message, cx.is_stream()) {
            Ok(received) => received,
            Err(failure) => return self.fail_operation(cx, carrier, index, failure),
        };
        if self.operations[index as usize].q_download.is_some() {
            if let Some(block) = received.q_block2.filter(|_| message.code().is_success()) {
                let block = (block, &received);
                return self.take_q_block2(cx, carrier, index, block, message);
            }
            if self.on_plain_response(cx, carrier, index, message.code()) {
                return;
            }
        }
        let registers = self.registration(index, block2).is_some();
        if let Some(sent) = block1
            && self.continue_upload(cx, carrier, index, sent, received.block1, message.code())
        {
            return;
        }
        if registers && !self.take_registration(cx, carrier, index, message) {
            return;
        }
        self.take_body(cx, carrier, index, block2, &received, message);
    }

    /// Processes a block of a response body, or the whole body.
    pub(crate) fn take_body(
        &mut self,
        cx: &mut Context,
        carrier: &mut Carrier,
        index: u32,
        block2: Option<BlockValue>,
        received: &Received<'_>,
        message: &MessageView<'_>,
    ) {
        if message.code().is_success()
            && let Some(number) = self.unexpected_option(cx, index, received)
        {
            return self.fail_operation(cx, carrier, index, Failure::UnknownOption(number));
        }
        match received.block2 {
            Some(block) if message.code().is_success() => {
                let blocks = (block, block2);
                self.continue_download(cx, carrier, index, blocks, received, message);
            }
            _ if self.operations[index as usize].response.download.is_some() => {
                self.interrupt_download(cx, carrier, index, message);
            }
            _ => self.deliver_response(cx, carrier, index, message),
        }
    }

    /// The option of a transfer that the request has not begun. It is not recognized in this response
    /// (RFC 7252 5.4.1), whose payload may be a part of a body.
    fn unexpected_option(
        &self,
        cx: &Context,
        index: u32,
        received: &Received<'_>,
    ) -> Option<OptionNumber> {
        let operation = &self.operations[index as usize];
        let sending = operation.sending.q_block;
        let q_block = sending.unwrap_or(cx.config.q_block.requests);
        let in_blocks = operation.upload.is_some();
        if received.q_block2.is_some() {
            Some(OptionNumber::Q_BLOCK2)
        } else if received.q_block1 && q_block == QBlockMode::Off {
            Some(OptionNumber::Q_BLOCK1)
        } else if received.block1.is_some() && !in_blocks {
            Some(OptionNumber::BLOCK1)
        } else {
            None
        }
    }

    /// Returns whether the response only acknowledged a block of the request body.
    pub(crate) fn continue_upload(
        &mut self,
        cx: &mut Context,
        carrier: &mut Carrier,
        index: u32,
        sent: BlockValue,
        answered: Option<BlockValue>,
        code: Code,
    ) -> bool {
        let operation = &mut self.operations[index as usize];
        let Some(upload) = &mut operation.upload else {
            return false;
        };
        let size = answered.map_or(sent.szx, |block| block.szx);
        if code == Code::REQUEST_ENTITY_TOO_LARGE && upload.accepted() == 0 {
            // "Too large" with a smaller size means the block, not the body (RFC 7959 2.9.3).
            if !(answered.is_some() && upload.shrink(size)) {
                return false;
            }
        } else if sent.more && (code == Code::CONTINUE || (code.is_success() && answered.is_some()))
        {
            upload.accept(sent, size);
        } else if sent.more && code.is_success() {
            // A success outside Block1 answers the request, although the server lacks the rest of
            // its body (RFC 7959 2.9: accepted parts are marked by Block1).
            let taken = upload.accepted() + sent.szx.bytes() as u64;
            self.fail_operation(cx, carrier, index, Failure::CutShort { taken });
            return true;
        } else {
            return false;
        }
        self.advance(cx, carrier, index);
        true
    }

    /// Processes a block of a response body; `asked` is the block option of its request.
    fn continue_download(
        &mut self,
        cx: &mut Context,
        carrier: &mut Carrier,
        index: u32,
        (block, asked): (BlockValue, Option<BlockValue>),
        received: &Received<'_>,
        message: &MessageView<'_>,
    ) {
        let operation = &mut self.operations[index as usize];
        let first = operation.response.download.is_none();
        let streamed = operation.sending.response_body == BodyMode::Streamed;
        let download = operation.response.download.get_or_insert_with(|| {
            let own = cx.own_block_size();
            let size = asked.map_or(own, |asked| asked.szx).min(own);
            // Chunks of a streamed body leave memory with their delivery; `credit` bounds those
            // that wait.
            let limit = if streamed {
                usize::MAX
            } else {
                cx.config.limits.download_bytes
            };
            Download::new(size, limit)
        });
        let payload = Bytes::copy_from_slice(message.payload());
        let mut arrived = Vec::new();
        let (etag, size2) = (received.etag, received.size2);
        if let Err(error) = download.accept(block, etag, size2, payload, &mut arrived) {
            return self.on_download_error(cx, carrier, index, error);
        }
        let (complete, size) = (download.is_complete(), download.end());
        debug_assert!(
            !complete || download.held_ahead() == 0,
            "bytes beyond the end"
        );
        if first && let Err(failure) = self.take_head(cx, carrier, index, size, message) {
            return self.fail_operation(cx, carrier, index, failure);
        }
        let id = self.id(index);
        let operation = &mut self.operations[index as usize];
        if streamed {
            let chunks = arrived.len();
            // One block may release several that waited behind it, more than credit was left for.
            operation.response.credit = operation.response.credit.saturating_sub(chunks as u32);
            for (n, bytes) in arrived.into_iter().enumerate() {
                let last = complete && n + 1 == chunks;
                self.event(cx, Event::ResponseChunk { id, bytes, last });
            }
        } else {
            operation.response.body.append(&mut arrived);
        }
        if !complete {
            return self.pull(cx, carrier, index);
        }
        let operation = &mut self.operations[index as usize];
        if let Some(mut response) = operation.response.head.take() {
            response.payload = Payload::Whole(join(core::mem::take(&mut operation.response.body)));
            return self.conclude(cx, carrier, index, response);
        }
        operation.progress = Progress::Answered;
        self.finish(cx, carrier, index);
    }

    /// Ends a download after an error, or restarts it.
    fn on_download_error(
        &mut self,
        cx: &mut Context,
        carrier: &mut Carrier,
        index: u32,
        error: DownloadError,
    ) {
        let operation = &self.operations[index as usize];
        let streamed = operation.sending.response_body == BodyMode::Streamed;
        // Only a safe request may be repeated, and only in one message. An observation is notified
        // of the change and restarts with that.
        let again = operation.request.code.is_safe()
            && operation.upload.is_none()
            && operation.observation.is_none();
        let restarts = if again { RESTARTS } else { 0 };
        if error == DownloadError::Changed && !streamed && operation.response.restarts < restarts {
            return self.restart(cx, carrier, index);
        }
        self.fail_operation(cx, carrier, index, Failure::Body(error));
    }

    /// Processes code and options of a response with a block-wise body.
    pub(crate) fn take_head(
        &mut self,
        cx: &mut Context,
        carrier: &Carrier,
        index: u32,
        size: Option<u64>,
        message: &MessageView<'_>,
    ) -> Result<(), Failure> {
        let mut response = Response::from_view(message).map_err(Failure::Options)?;
        response.payload = Payload::Whole(Bytes::new());
        remove_transfer_options(&mut response);
        self.remove_count(cx, carrier, index, &mut response);
        if self.operations[index as usize].sending.response_body == BodyMode::Streamed {
            let id = self.id(index);
            self.event(cx, Event::ResponseHead { id, response, size });
        } else {
            self.operations[index as usize].response.head = Some(response);
        }
        Ok(())
    }

    /// Requests as many further blocks as may be in flight.
    pub(crate) fn pull(&mut self, cx: &mut Context, carrier: &mut Carrier, index: u32) {
        loop {
            let peer = self.operations[index as usize].peer;
            let window = match &cx.config.reliable {
                Some(reliable) => usize::from(reliable.window),
                None => usize::from(carrier.window(cx, peer).exchanges),
            };
            let operation = &mut self.operations[index as usize];
            let flying = operation.exchanges.len();
            let mut allowed = window.min(cx.config.limits.blocks_in_flight).max(1);
            if operation.upload.is_some() {
                // The response to a body in blocks is read in order (RFC 7959 2.7).
                allowed = 1;
            }
            // Behind a block that no request in flight will bring: `next_request` reports the
            // error.
            let mut behind_nothing = false;
            if operation.sending.response_body == BodyMode::Streamed {
                // Blocks held behind a lost one will be delivered with it, so they already use
                // credit.
                let held = operation
                    .response
                    .download
                    .as_ref()
                    .map_or(0, Download::held_ahead);
                allowed = allowed.min((operation.response.credit as usize).saturating_sub(held));
                behind_nothing = flying == 0 && held > 0;
            }
            if flying >= allowed && !behind_nothing {
                return;
            }
            let Some(download) = &mut operation.response.download else {
                return;
            };
            match download.next_request(flying) {
                None => return,
                Some(Err(error)) => {
                    return self.fail_operation(cx, carrier, index, Failure::Body(error));
                }
                Some(Ok(block2)) => {
                    self.request_block(cx, carrier, index, block2);
                    if self.operations.get(index as usize).is_none() {
                        return; // failed to send
                    }
                }
            }
        }
    }

    /// Requests a block of the response after the first.
    pub(crate) fn request_block(
        &mut self,
        cx: &mut Context,
        carrier: &mut Carrier,
        index: u32,
        block2: BlockValue,
    ) {
        let operation = &self.operations[index as usize];
        let download = operation.response.download.as_ref();
        debug_assert!(
            download.is_some() || block2.number > 0,
            "the first block is the request"
        );
        // FETCH carries its body in the request for every block (RFC 8132 2.1); the
        // other methods have delivered theirs (RFC 7959 3.3).
        let again = operation.request.code == Code::FETCH && operation.upload.is_none();
        let payload = if again {
            operation.request.payload.clone()
        } else {
            Bytes::new()
        };
        self.send_part(cx, carrier, index, Blocks::of_response(block2), &payload);
    }

    /// Requests a block again whose request timed out although the peer has answered meanwhile, if others
    /// are in flight. Returns whether it did.
    pub(crate) fn on_block_timed_out(
        &mut self,
        cx: &mut Context,
        carrier: &mut Carrier,
        index: u32,
        purpose: Purpose,
    ) -> bool {
        let Purpose::Request {
            block1: None,
            block2: Some(block2),
            ..
        } = purpose
        else {
            return false;
        };
        let operation = &mut self.operations[index as usize];
        let in_flight = operation.exchanges.len();
        let download = operation.response.download.as_mut();
        let repeats = download.is_some_and(|download| download.repeats(block2, in_flight));
        if repeats {
            self.request_block(cx, carrier, index, block2);
        }
        repeats
    }

    /// Restarts the transfer of a body that has changed.
    pub(crate) fn restart(&mut self, cx: &mut Context, carrier: &mut Carrier, index: u32) {
        let operation = &mut self.operations[index as usize];
        operation.response.restarts += 1;
        debug_assert!(operation.response.restarts <= RESTARTS);
        operation.response.clear();
        for exchange in core::mem::take(&mut operation.exchanges) {
            carrier.cancel(cx, exchange, |purpose| purpose.operation() == Some(index));
        }
        let block2 = BlockValue {
            number: 0,
            more: false,
            szx: cx.own_block_size(),
        };
        let payload = self.operations[index as usize].request.payload.clone();
        self.send_part(cx, carrier, index, Blocks::of_response(block2), &payload);
    }

    /// Handles an error response during a transfer.
    pub(crate) fn interrupt_download(
        &mut self,
        cx: &mut Context,
        carrier: &mut Carrier,
        index: u32,
        message: &MessageView<'_>,
    ) {
        let operation = &self.operations[index as usize];
        let notified = operation.is_notified() && !message.code().is_success();
        // The application has a part of the body already, or waits for a newer state, so this
        // error is no response to deliver.
        if notified || operation.sending.response_body == BodyMode::Streamed {
            let failure = Failure::Interrupted(message.code());
            return self.fail_operation(cx, carrier, index, failure);
        }
        self.deliver_response(cx, carrier, index, message);
    }

    /// Removes the echo of an option that the application did not send.
    pub(crate) fn remove_count(
        &self,
        cx: &Context,
        carrier: &Carrier,
        index: u32,
        response: &mut Response,
    ) {
        if let Some(number) = carrier.echoed_option(cx, self.operations[index as usize].peer) {
            response.options.remove(number);
        }
    }

    /// Delivers a response that needs nothing more.
    pub(crate) fn deliver_response(
        &mut self,
        cx: &mut Context,
        carrier: &mut Carrier,
        index: u32,
        message: &MessageView<'_>,
    ) {
        let mut response = match Response::from_view(message) {
            Ok(response) => response,
            Err(error) => return self.fail_operation(cx, carrier, index, Failure::Options(error)),
        };
        if self.operations[index as usize].sending.blocks == BlockMode::Automatic {
            remove_transfer_options(&mut response);
        }
        self.remove_count(cx, carrier, index, &mut response);
        let id = self.id(index);
        if self.operations[index as usize].sending.response_body == BodyMode::Streamed {
            let mut head = response;
            let body = core::mem::replace(&mut head.payload, Payload::Whole(Bytes::new()));
            let bytes = body.bytes().clone();
            let size = Some(bytes.len() as u64);
            self.event(
                cx,
                Event::ResponseHead {
                    id,
                    response: head,
                    size,
                },
            );
            self.event(
                cx,
                Event::ResponseChunk {
                    id,
                    bytes,
                    last: true,
                },
            );
            self.operations[index as usize].progress = Progress::Answered;
            self.finish(cx, carrier, index);
        } else {
            self.conclude(cx, carrier, index, response);
        }
    }

    /// Delivers a complete response: the last of a request, or a notification of an observation.
    pub(crate) fn conclude(
        &mut self,
        cx: &mut Context,
        carrier: &mut Carrier,
        index: u32,
        response: Response,
    ) {
        let id = self.id(index);
        self.operations[index as usize].progress = Progress::Answered;
        if self.end_notification(cx, carrier, index) {
            self.event(cx, Event::Notification { id, response });
        } else {
            self.event(cx, Event::Response { id, response });
            self.finish(cx, carrier, index);
        }
    }
}
