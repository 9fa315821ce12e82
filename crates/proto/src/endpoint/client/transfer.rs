//! Bodies of our requests and their responses, block after block (RFC 7959).

use alloc::vec::Vec;

use bytes::Bytes;
use carob_cc::time::Instant;

use super::{BlockMode, BodyMode};
use crate::blockwise::bodies::join;
use crate::blockwise::download::{Download, DownloadError};
use crate::codec::{BlockValue, Code, MessageView, OptionNumber};
use crate::endpoint::config::RESTARTS;
use crate::endpoint::{Endpoint, Event, Failure};
use crate::message::{Payload, Response};

/// What the options of a response say about bodies, read in one pass.
#[derive(Default)]
pub(super) struct Received<'a> {
    block1: Option<BlockValue>,
    block2: Option<BlockValue>,
    etag: Option<&'a [u8]>,
    size2: Option<u32>,
}

impl<'a> Received<'a> {
    /// Reads them, from a datagram or a `reliable` transport; fails if one is malformed.
    pub(super) fn read(message: &MessageView<'a>, reliable: bool) -> Result<Self, Failure> {
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
}

/// The options that carried the transfer mean nothing to the application it was hidden from.
pub(in crate::endpoint) fn remove_transfer_options(response: &mut Response) {
    for number in [
        OptionNumber::BLOCK1,
        OptionNumber::BLOCK2,
        OptionNumber::SIZE2,
    ] {
        response.options.remove(number);
    }
}

impl Endpoint {
    /// Takes the response to one message of a request.
    pub(in crate::endpoint) fn handle_operation_response(
        &mut self,
        now: Instant,
        index: u32,
        block1: Option<BlockValue>,
        block2: Option<BlockValue>,
        message: &MessageView<'_>,
    ) {
        if let Some(number) = self.not_understood(message) {
            return self.fail_operation(now, index, Failure::UnknownOption(number));
        }
        if self.answer_challenge(now, index, block1, block2, message) {
            return;
        }
        if self.operations[index as usize].sending.blocks == BlockMode::Manual {
            return self.deliver_response(now, index, message);
        }
        let received = match Received::read(message, self.is_reliable()) {
            Ok(received) => received,
            Err(failure) => return self.fail_operation(now, index, failure),
        };
        let registers = self.registration(index, block2).is_some();
        if let Some(sent) = block1
            && self.continue_upload(now, index, sent, received.block1, message.code())
        {
            return;
        }
        if registers && !self.take_registration(now, index, message) {
            return;
        }
        self.take_body(now, index, block2, &received, message);
    }

    /// Takes a block of a response's body, or the whole of it.
    pub(super) fn take_body(
        &mut self,
        now: Instant,
        index: u32,
        block2: Option<BlockValue>,
        received: &Received<'_>,
        message: &MessageView<'_>,
    ) {
        match received.block2 {
            Some(block) if message.code().is_success() => {
                self.continue_download(now, index, block, block2, received, message);
            }
            _ if self.operations[index as usize].download.is_some() => {
                self.interrupt_download(now, index, message);
            }
            _ => self.deliver_response(now, index, message),
        }
    }

    /// Whether the response only asked for the next block of the request's body.
    fn continue_upload(
        &mut self,
        now: Instant,
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
            // A success that is not of a block is of the request, whose body the server has not
            // got (RFC 7959 2.9: what it takes of a part, it says with Block1).
            let taken = upload.accepted() + sent.szx.bytes() as u64;
            self.fail_operation(now, index, Failure::CutShort { taken });
            return true;
        } else {
            return false;
        }
        self.advance(now, index);
        true
    }

    fn continue_download(
        &mut self,
        now: Instant,
        index: u32,
        block: BlockValue,
        asked: Option<BlockValue>,
        received: &Received<'_>,
        message: &MessageView<'_>,
    ) {
        let config_size = self.own_block_size();
        let limit = match self.operations[index as usize].sending.response_body {
            BodyMode::Whole => self.config.limits.download_bytes,
            BodyMode::Streamed => usize::MAX,
        };
        let operation = &mut self.operations[index as usize];
        let first = operation.download.is_none();
        if first {
            let size = asked
                .map_or(config_size, |asked| asked.szx)
                .min(config_size);
            operation.download = Some(Download::new(size, limit));
        }
        let download = operation.download.as_mut().expect("set just above");
        let payload = Bytes::copy_from_slice(message.payload());
        let streamed = operation.sending.response_body == BodyMode::Streamed;
        let mut arrived = Vec::new();
        if let Err(error) =
            download.accept(block, received.etag, received.size2, payload, &mut arrived)
        {
            // Only what changes nothing may be asked for once more, and only in one message; an
            // observation is told of the change, and begins anew with that.
            let again = operation.request.code.is_safe()
                && operation.upload.is_none()
                && operation.observation.is_none();
            let restarts = if again { RESTARTS } else { 0 };
            if error == DownloadError::Changed && !streamed && operation.restarts < restarts {
                return self.restart(now, index);
            }
            return self.fail_operation(now, index, Failure::Body(error));
        }
        let (complete, size) = (download.is_complete(), download.end());
        if first {
            let mut head = match Response::from_view(message) {
                Ok(head) => head,
                Err(error) => return self.fail_operation(now, index, Failure::Options(error)),
            };
            head.payload = Payload::Whole(Bytes::new());
            remove_transfer_options(&mut head);
            self.remove_count(index, &mut head);
            if streamed {
                let id = self.id(index);
                self.event(Event::Head {
                    id,
                    response: head,
                    size,
                });
            } else {
                self.operations[index as usize].head = Some(head);
            }
        }
        let id = self.id(index);
        let operation = &mut self.operations[index as usize];
        if streamed {
            let parts = arrived.len();
            operation.credit = operation.credit.saturating_sub(parts as u32);
            for (n, bytes) in arrived.into_iter().enumerate() {
                self.event(Event::Part {
                    id,
                    bytes,
                    last: complete && n + 1 == parts,
                });
            }
        } else {
            operation.body.append(&mut arrived);
        }
        if !complete {
            return self.pull(now, index);
        }
        let operation = &mut self.operations[index as usize];
        if let Some(mut response) = operation.head.take() {
            response.payload = Payload::Whole(join(core::mem::take(&mut operation.body)));
            return self.conclude(now, index, response);
        }
        operation.answered = true;
        self.finish(now, index);
    }

    /// Asks for as many further blocks as may be in flight.
    pub(super) fn pull(&mut self, now: Instant, index: u32) {
        loop {
            let peer = self.operations[index as usize].peer;
            let window = match &self.config.reliable {
                Some(reliable) => usize::from(reliable.window),
                None => usize::from(self.window(now, peer).exchanges),
            };
            let operation = &mut self.operations[index as usize];
            let flying = operation.exchanges.len();
            let mut allowed = window.min(self.config.limits.blocks_in_flight).max(1);
            if operation.upload.is_some() {
                // The response to a body in blocks is read in order (RFC 7959 2.7).
                allowed = 1;
            }
            // Behind a block that nothing on its way will bring: `next_request` says that it is wrong.
            let mut behind_nothing = false;
            if operation.sending.response_body == BodyMode::Streamed {
                // Blocks held back behind a lost one will be delivered with it, so they use
                // credit already.
                let held = operation.download.as_ref().map_or(0, Download::held_ahead);
                allowed = allowed.min((operation.credit as usize).saturating_sub(held));
                behind_nothing = flying == 0 && held > 0;
            }
            if flying >= allowed && !behind_nothing {
                return;
            }
            let Some(download) = &mut operation.download else {
                return;
            };
            match download.next_request(flying) {
                None => return,
                Some(Err(error)) => {
                    return self.fail_operation(now, index, Failure::Body(error));
                }
                Some(Ok(block2)) => {
                    // FETCH names what it wants in its body, so every block needs it
                    // (RFC 8132 2.1); the other methods have delivered theirs (RFC 7959 3.3).
                    let again = operation.request.code == Code::FETCH && operation.upload.is_none();
                    let payload = if again {
                        operation.request.payload.clone()
                    } else {
                        Bytes::new()
                    };
                    self.send_part(now, index, None, Some(block2), None, &payload);
                    if self.operations.get(index as usize).is_none() {
                        return; // failed to send
                    }
                }
            }
        }
    }

    /// Reads the body again from its beginning, because it changed on the way.
    fn restart(&mut self, now: Instant, index: u32) {
        let operation = &mut self.operations[index as usize];
        operation.restarts += 1;
        operation.download = None;
        operation.head = None;
        operation.body.clear();
        for exchange in core::mem::take(&mut operation.exchanges) {
            self.cancel_exchange(now, exchange);
        }
        let block2 = BlockValue {
            number: 0,
            more: false,
            szx: self.own_block_size(),
        };
        let payload = self.operations[index as usize].request.payload.clone();
        self.send_part(now, index, None, Some(block2), None, &payload);
    }

    /// An error in the middle of a body.
    fn interrupt_download(&mut self, now: Instant, index: u32, message: &MessageView<'_>) {
        let operation = &self.operations[index as usize];
        let notified = operation.is_notified() && !message.code().is_success();
        if notified || operation.sending.response_body == BodyMode::Streamed {
            let failure = Failure::Interrupted(message.code());
            return self.fail_operation(now, index, failure);
        }
        self.deliver_response(now, index, message);
    }

    /// Takes out of a response the echo of an option that the application did not send.
    fn remove_count(&self, index: u32, response: &mut Response) {
        if let Some(number) = self.echoed_option(self.operations[index as usize].peer) {
            response.options.remove(number);
        }
    }

    /// Delivers a response that needs nothing more.
    fn deliver_response(&mut self, now: Instant, index: u32, message: &MessageView<'_>) {
        let mut response = match Response::from_view(message) {
            Ok(response) => response,
            Err(error) => return self.fail_operation(now, index, Failure::Options(error)),
        };
        if self.operations[index as usize].sending.blocks == BlockMode::Automatic {
            remove_transfer_options(&mut response);
        }
        self.remove_count(index, &mut response);
        let id = self.id(index);
        if self.operations[index as usize].sending.response_body == BodyMode::Streamed {
            let mut head = response;
            let body = core::mem::replace(&mut head.payload, Payload::Whole(Bytes::new()));
            let bytes = body.bytes().clone();
            let size = Some(bytes.len() as u64);
            self.event(Event::Head {
                id,
                response: head,
                size,
            });
            self.event(Event::Part {
                id,
                bytes,
                last: true,
            });
            self.operations[index as usize].answered = true;
            self.finish(now, index);
        } else {
            self.conclude(now, index, response);
        }
    }

    /// Delivers a response that is complete: the last word on a request, or one more on an
    /// observation.
    fn conclude(&mut self, now: Instant, index: u32, response: Response) {
        let id = self.id(index);
        self.operations[index as usize].answered = true;
        if self.end_notification(now, index) {
            self.event(Event::Notification { id, response });
        } else {
            self.event(Event::Response { id, response });
            self.finish(now, index);
        }
    }
}
