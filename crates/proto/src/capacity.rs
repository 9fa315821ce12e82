//! The largest message to a peer: one block in a datagram, or on a reliable transport the peer's
//! Max-Message-Size (RFC 7252 4.6, RFC 8323 5.3.1, 6).

use alloc::vec::Vec;

use crate::block::RequestedBlock;
use crate::codec::BASE_MESSAGE_SIZE;
use crate::codec::{BlockError, BlockSize, BlockValue, MessageView, OptionNumber};
use crate::config::{ENGINE_BYTES, MESSAGE_BYTES, SECURED_BYTES};
use crate::context::Context;

/// Bytes by which a message may be longer on a stream than in a datagram.
const HEAD_GROWTH: u32 = 2;
/// Bytes assumed for header and options of a response before it is known. Besides the engine's
/// additions, the base message size then holds a block of 1024 bytes.
const RESPONSE_HEAD: usize = 64;

/// The capacity of one message to a peer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Capacity {
    /// Bytes of the message, with a datagram header.
    pub(crate) message: usize,
    /// The largest block; BERT if several may go at once.
    size: BlockSize,
    pub(crate) reliable: bool,
}

impl Capacity {
    /// The capacity besides `head` bytes of header and options: the block size, the bytes of one
    /// part of a body, and the bytes of a body sent whole.
    #[inline]
    pub(crate) fn beside(&self, head: usize) -> RequestedBlock {
        let room = self.message.saturating_sub(head + ENGINE_BYTES);
        let fits = BlockSize::from_bytes_at_most(room);
        let size = match fits {
            Some(fits) => fits.min(self.size),
            None if self.reliable => BlockSize::MIN,
            None => self.size,
        };
        if !self.reliable {
            return RequestedBlock::block(0, size);
        }
        let block = BlockSize::BERT.bytes();
        let (size, span) = if self.size.is_bert() && room >= block {
            debug_assert!(self.reliable, "BERT needs a reliable transport");
            // BERT carries whole blocks of 1024 bytes (RFC 8323 6).
            (BlockSize::BERT, room / block * block)
        } else {
            (size, size.bytes())
        };
        RequestedBlock {
            offset: 0,
            size,
            span,
            whole: room,
        }
    }

    /// Grows a buffer for a message with a payload of this many bytes. Buffers always suffice for
    /// datagrams.
    #[inline]
    pub(crate) fn grow(&self, buffer: &mut Vec<u8>, head: usize, payload: usize) {
        let needed = (head + ENGINE_BYTES + payload).min(self.message);
        debug_assert!(
            self.reliable || self.message <= MESSAGE_BYTES,
            "{}",
            self.message
        );
        if self.reliable && buffer.len() < needed {
            buffer.resize(needed, 0);
        }
    }

    /// Returns whether the capacity is below most peers'.
    pub(crate) const fn is_small(&self) -> bool {
        self.reliable && self.message < (BASE_MESSAGE_SIZE - HEAD_GROWTH) as usize
    }

    /// Limits `wanted` to the capacity besides `head` bytes of header and options.
    #[inline]
    pub(crate) fn limit(&self, wanted: RequestedBlock, head: usize) -> RequestedBlock {
        let fits = self.beside(head);
        let size = wanted.size.min(fits.size);
        RequestedBlock {
            offset: wanted.offset,
            size,
            span: if size.is_bert() {
                wanted.span.min(fits.span)
            } else {
                size.bytes()
            },
            whole: wanted.whole.min(fits.whole),
        }
    }
}

impl Context {
    /// Bytes of a message that fits a datagram.
    pub(crate) fn datagram_bytes(&self) -> usize {
        if self.config.secured {
            MESSAGE_BYTES - SECURED_BYTES
        } else {
            MESSAGE_BYTES
        }
    }

    /// The capacity of a message to any peer.
    #[inline]
    pub(crate) fn least_capacity(&self) -> Capacity {
        let reliable = self.config.reliable.is_some();
        Capacity {
            message: if reliable {
                // Until a CSM raises it (RFC 8323 5.3.1).
                (BASE_MESSAGE_SIZE - HEAD_GROWTH) as usize
            } else {
                self.datagram_bytes()
            },
            size: self.config.block_size,
            reliable,
        }
    }

    /// The capacity of a message to a peer that takes messages of this size, and BERT or not.
    pub(crate) fn stream_capacity(&self, max_message_size: u32, bert: bool) -> Capacity {
        let largest = self.config.reliable.as_ref();
        let largest = largest.map_or(BASE_MESSAGE_SIZE, |reliable| reliable.largest_message);
        Capacity {
            // At least LEAST_MESSAGE_SIZE: a lower limit of a peer ends its connection.
            message: (max_message_size.min(largest) - HEAD_GROWTH) as usize,
            size: if bert {
                BlockSize::BERT
            } else {
                self.config.block_size
            },
            reliable: true,
        }
    }

    /// The part of a response to a request for `block` that one message of this capacity carries.
    #[inline]
    pub(crate) fn requested_block(
        &self,
        capacity: &Capacity,
        block: Option<BlockValue>,
    ) -> RequestedBlock {
        let Some(block) = block else {
            return if capacity.reliable {
                capacity.beside(RESPONSE_HEAD)
            } else {
                RequestedBlock::block(0, self.config.block_size)
            };
        };
        let offset = block.offset() as u64;
        if !capacity.reliable {
            // Never larger than requested (RFC 7959 2.4).
            return RequestedBlock::block(offset, block.szx.min(self.config.block_size));
        }
        let fits = capacity.beside(RESPONSE_HEAD);
        let size = block.szx.min(fits.size);
        if !size.is_bert() {
            return RequestedBlock::block(offset, size);
        }
        RequestedBlock {
            offset,
            size,
            span: fits.span,
            whole: fits.span,
        }
    }

    /// The capacity of a message to a peer that announced no limit.
    pub(crate) fn largest_capacity(&self) -> Capacity {
        let largest = self.config.reliable.as_ref();
        let largest = largest.map_or(BASE_MESSAGE_SIZE, |reliable| reliable.largest_message);
        Capacity {
            message: (largest - HEAD_GROWTH) as usize,
            ..self.least_capacity()
        }
    }

    /// The largest block this endpoint requests.
    pub(crate) fn own_block_size(&self) -> BlockSize {
        match &self.config.reliable {
            Some(reliable) if reliable.takes_bert() => BlockSize::BERT,
            _ => self.config.block_size,
        }
    }

    /// Decodes a block option for the transport in use.
    pub(crate) fn block_option(
        &self,
        message: &MessageView<'_>,
        number: OptionNumber,
    ) -> Result<Option<BlockValue>, BlockError> {
        let value = message.option(number);
        value.map(|value| self.decode_block(value)).transpose()
    }

    /// Decodes the value of a block option for the transport in use.
    #[inline]
    pub(crate) fn decode_block(&self, value: &[u8]) -> Result<BlockValue, BlockError> {
        if self.is_stream() {
            BlockValue::decode_reliable(value)
        } else {
            BlockValue::decode(value)
        }
    }
}

impl Context {
    /// Grows the scratch buffer for a message with a payload of this many bytes.
    #[inline]
    pub(crate) fn grow_scratch(&mut self, capacity: &Capacity, head: usize, payload: usize) {
        capacity.grow(&mut self.scratch, head, payload);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capacity(message: usize, size: BlockSize, reliable: bool) -> Capacity {
        Capacity {
            message,
            size,
            reliable,
        }
    }

    #[test]
    fn the_base_message_size_holds_a_block_of_1024_bytes() {
        let base = (BASE_MESSAGE_SIZE - HEAD_GROWTH) as usize;
        let wanted = capacity(base, BlockSize::MAX, true).beside(RESPONSE_HEAD);
        assert_eq!((wanted.size, wanted.span), (BlockSize::MAX, 1024));
        assert!(wanted.whole >= 1024);
    }

    #[test]
    fn bert_fits_whole_blocks_and_single_messages_fill_capacity() {
        let wanted = capacity(10_000, BlockSize::BERT, true).beside(100);
        assert_eq!((wanted.size, wanted.span), (BlockSize::BERT, 9 * 1024));
        assert_eq!(wanted.whole, 10_000 - 100 - ENGINE_BYTES);
        // Options that leave no room for a block of 1024 bytes leave room for smaller ones.
        let wanted = capacity(1_300, BlockSize::BERT, true).beside(700);
        assert_eq!(wanted.size.bytes(), 512);
    }

    #[test]
    fn a_datagram_holds_one_block() {
        let wanted = capacity(MESSAGE_BYTES, BlockSize::MAX, false).beside(700);
        assert_eq!(wanted, RequestedBlock::block(0, wanted.size));
        assert_eq!(wanted.size.bytes(), 256);
    }
}
