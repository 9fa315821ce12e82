//! One message of a request: its token, its options and its blocks.

use alloc::boxed::Box;

use carob_cc::controller::CopyTagging;
use smallvec::{SmallVec, smallvec};

use crate::address::PeerIndex;
use crate::block::Blocks;
use crate::carrier::Carrier;
use crate::client::Client;
use crate::codec::token_room;
use crate::codec::{EncodeError, OptionNumber, Options};
use crate::config::admissible;
use crate::context::Context;
use crate::event::Failure;
use crate::message_layer::tokens::OwnToken;
use crate::message_layer::{Purpose, RequestTraits, Submission, UNLIMITED};
use crate::observe::Observe;
use crate::writing::encode;

impl Client {
    /// Sends one message of a request.
    pub(crate) fn send_part(
        &mut self,
        cx: &mut Context,
        carrier: &mut Carrier,
        index: u32,
        blocks: Blocks,
        payload: &[u8],
    ) {
        let peer = self.operations[index as usize].peer;
        debug_assert!(
            self.operations[index as usize].hold.is_none(),
            "it must wait"
        );
        // Checked for each block: other requests may have filled the queue since the first.
        if !carrier.has_room(cx, peer) {
            return self.fail_operation(cx, carrier, index, Failure::QueueFull);
        }
        // Registrations carry the token of their notifications.
        let registration = self.registration(index, blocks.block2);
        let reads = blocks.quick && self.operations[index as usize].q_upload.is_none();
        // The token of a registration, or of a reported block, names more than one reply: it
        // cannot count transmissions.
        let counting = if registration.is_some() || blocks.quick {
            CopyTagging::Off
        } else {
            carrier.tagging_by_token(peer)
        };
        let token = self.message_token(cx, carrier, index, registration, counting);
        let own = self.own_options(carrier, index, blocks.is_later());
        if reads {
            self.add_q_token(carrier, index, token.key);
        }
        let written = self.write_part(
            cx,
            carrier,
            index,
            (&token, registration, own),
            (blocks, payload),
        );
        let length = match written {
            Ok(length) => length,
            Err(error) => return self.fail_operation(cx, carrier, index, Failure::Encode(error)),
        };
        let room = carrier.capacity(cx, carrier.peers[peer].address).message;
        debug_assert!(length <= room, "{length} bytes in {room}");
        let mut bytes = cx.buffer();
        bytes.extend_from_slice(&cx.scratch[..length]);
        let (confirmable, burst, least_timeout) = self.message_traits(cx, index, blocks.quick);
        let operation = &self.operations[index as usize];
        let config = &operation.sending;
        let answer_bytes = blocks.expected_bytes(config.answer_bytes);
        let submission = Submission {
            purpose: Purpose::Request {
                operation: index,
                block1: blocks.block1,
                block2: blocks.block2,
            },
            confirmable,
            token: token.key,
            counting,
            bytes,
            answer_bytes,
            parameters: config.parameters.map(|own| Box::new(admissible(own))),
            budget: UNLIMITED,
            request: RequestTraits {
                suppressed: operation.suppressed_wait(),
                idempotent: operation.request.code.is_idempotent(),
                burst,
                least_timeout,
            },
        };
        let exchange = carrier.submit(cx, peer, submission);
        self.join_operation(index, exchange);
        if let Some(block) = blocks.block1.filter(|_| blocks.quick) {
            self.on_q_block_submitted(index, block, exchange);
        }
    }

    /// The properties of a message: confirmable, and for a block of a Q-Block1 body the burst and its
    /// least timer.
    fn message_traits(&self, cx: &Context, index: u32, quick: bool) -> (bool, u8, u32) {
        let operation = &self.operations[index as usize];
        let by_request = (operation.sending.confirmable, 0, 0);
        if !quick {
            return by_request;
        }
        let download = operation.q_download.as_ref();
        self.q_block_traits(cx, index)
            .or(download.map(|own| (own.is_confirmable(), 0, 0)))
            .unwrap_or(by_request)
    }

    /// The token of a message: its observation's, if it registers, or a fresh one.
    fn message_token(
        &self,
        cx: &mut Context,
        carrier: &mut Carrier,
        index: u32,
        registration: Option<Observe>,
        counting: CopyTagging,
    ) -> OwnToken {
        let observed = self.observation_token(index);
        if let Some(token) = observed.filter(|_| registration.is_some()) {
            return token;
        }
        let operation = &self.operations[index as usize];
        // A peer that drops a long token may have executed the request: only an idempotent one
        // is repeated.
        let trial = operation.sending.confirmable && operation.request.code.is_idempotent();
        let peer: PeerIndex = operation.peer;
        carrier.fresh_token(cx, peer, counting, trial)
    }

    /// Writes a message into the scratch buffer; returns its length.
    fn write_part(
        &self,
        cx: &mut Context,
        carrier: &Carrier,
        index: u32,
        (token, registration, own): (&OwnToken, Option<Observe>, Option<Options>),
        (blocks, payload): (Blocks, &[u8]),
    ) -> Result<usize, EncodeError> {
        let operation = &self.operations[index as usize];
        let capacity = carrier.capacity(cx, carrier.peers[operation.peer].address);
        let options = own.as_ref().unwrap_or(&operation.request.options);
        // 64: more than header, a token of 8 bytes and the options added here take.
        let head = 64 + token_room(token.as_ref().len()) + options.encoded_len();
        cx.grow_scratch(&capacity, head, payload.len());
        let (block1, q_block1) = if blocks.quick {
            (None, blocks.block1)
        } else {
            (blocks.block1, None)
        };
        // In ascending order, because they are merged with the application's options.
        let mut extra: SmallVec<[_; 8]> = smallvec![
            registration.map(|observe| (OptionNumber::OBSERVE, observe.value())),
            q_block1.map(|block| (OptionNumber::Q_BLOCK1, block.to_uint())),
            (blocks.block2).map(|block| (OptionNumber::BLOCK2, block.to_uint())),
            block1.map(|block| (OptionNumber::BLOCK1, block.to_uint())),
        ];
        if let Some(download) = operation.q_download.as_ref().filter(|_| blocks.quick) {
            let named = download.requested().iter();
            extra.extend(named.map(|block| Some((OptionNumber::Q_BLOCK2, block.to_uint()))));
        }
        extra.push(blocks.size1.map(|size| (OptionNumber::SIZE1, size)));
        let room = capacity.message.min(cx.scratch.len());
        let code = operation.request.code;
        encode(
            &mut cx.scratch[..room],
            token,
            code,
            options,
            &extra,
            payload,
        )
    }
}
