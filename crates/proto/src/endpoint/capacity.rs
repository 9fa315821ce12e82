//! What one message to a peer may carry: one block in a datagram, or on a reliable transport as
//! much as the peer says it takes (RFC 7252 4.6, RFC 8323 5.3.1, 6).

use core::net::SocketAddr;

use super::Endpoint;
use super::config::{ENGINE_BYTES, MESSAGE_BYTES, SECURED_BYTES};
use crate::blockwise::Wanted;
use crate::codec::signal::BASE_MESSAGE_SIZE;
use crate::codec::{BlockError, BlockSize, BlockValue, MessageView, OptionNumber};

/// Bytes by which a message may be longer on a stream than in a datagram.
const HEAD_GROWTH: u32 = 2;
/// Header and options that a response is supposed to have before it is known: so that beside the
/// rest of what the engine adds, the base message size holds a block of 1024 bytes.
const RESPONSE_HEAD: usize = 64;

/// What one message to a peer may carry.
#[derive(Clone, Copy, Debug)]
pub(super) struct Capacity {
    /// Bytes of the message, with the header of a datagram.
    pub(super) message: usize,
    /// The largest block; BERT if several may go at once.
    size: BlockSize,
    pub(super) reliable: bool,
}

impl Capacity {
    /// What goes beside this many bytes of header and options: a block size, the bytes of a part
    /// of a body, and those of a body that goes in one piece.
    pub(super) fn beside(&self, head: usize) -> Wanted {
        let room = self.message.saturating_sub(head + ENGINE_BYTES);
        let fits = BlockSize::from_bytes_at_most(room);
        let size = match fits {
            Some(fits) => fits.min(self.size),
            None if self.reliable => BlockSize::MIN,
            None => self.size,
        };
        if !self.reliable {
            return Wanted::block(0, size);
        }
        let block = BlockSize::BERT.bytes();
        let (size, span) = if self.size.is_bert() && room >= block {
            (BlockSize::BERT, room / block * block)
        } else {
            (size, size.bytes())
        };
        Wanted {
            offset: 0,
            size,
            span,
            whole: room,
        }
    }

    /// Whether it is less than most peers take.
    pub(super) const fn is_small(&self) -> bool {
        self.reliable && self.message < (BASE_MESSAGE_SIZE - HEAD_GROWTH) as usize
    }

    /// `wanted`, as far as it fits beside this many bytes of header and options.
    pub(super) fn limit(&self, wanted: Wanted, head: usize) -> Wanted {
        let fits = self.beside(head);
        let size = wanted.size.min(fits.size);
        Wanted {
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

impl Endpoint {
    /// What a message to this peer may carry, as far as is known now.
    pub(super) fn capacity(&self, to: SocketAddr) -> Capacity {
        let Some(reliable) = &self.config.reliable else {
            return Capacity {
                message: self.datagram_bytes(),
                size: self.config.block_size,
                reliable: false,
            };
        };
        let (takes, bert) = self.connections.capabilities(to);
        let takes = takes.min(reliable.largest_message);
        Capacity {
            message: (takes - HEAD_GROWTH) as usize,
            size: if bert {
                BlockSize::BERT
            } else {
                self.config.block_size
            },
            reliable: true,
        }
    }

    /// Bytes of a message that fits a datagram.
    fn datagram_bytes(&self) -> usize {
        if self.config.secured {
            MESSAGE_BYTES - SECURED_BYTES
        } else {
            MESSAGE_BYTES
        }
    }

    /// What any peer may be sent.
    pub(super) fn least_capacity(&self) -> Capacity {
        let reliable = self.config.reliable.is_some();
        Capacity {
            message: if reliable {
                (BASE_MESSAGE_SIZE - HEAD_GROWTH) as usize
            } else {
                self.datagram_bytes()
            },
            size: self.config.block_size,
            reliable,
        }
    }

    /// What a peer may take that says no more than that it takes all we would send.
    pub(super) fn largest_capacity(&self) -> Capacity {
        let largest = self.config.reliable.as_ref();
        let largest = largest.map_or(BASE_MESSAGE_SIZE, |reliable| reliable.largest_message);
        Capacity {
            message: (largest - HEAD_GROWTH) as usize,
            ..self.least_capacity()
        }
    }

    /// The largest block that we ask for.
    pub(super) fn own_block_size(&self) -> BlockSize {
        match &self.config.reliable {
            Some(reliable) if reliable.takes_bert() => BlockSize::BERT,
            _ => self.config.block_size,
        }
    }

    /// Reads a block option as the transport has it.
    pub(super) fn block_option(
        &self,
        message: &MessageView<'_>,
        number: OptionNumber,
    ) -> Result<Option<BlockValue>, BlockError> {
        let decode = if self.config.reliable.is_some() {
            BlockValue::decode_reliable
        } else {
            BlockValue::decode
        };
        message.option(number).map(decode).transpose()
    }

    /// What a response to `from` may carry if `block` of it is asked for.
    pub(super) fn wanted_of(&self, from: SocketAddr, block: Option<BlockValue>) -> Wanted {
        let capacity = self.capacity(from);
        let Some(block) = block else {
            return if capacity.reliable {
                capacity.beside(RESPONSE_HEAD)
            } else {
                Wanted::block(0, self.config.block_size)
            };
        };
        let offset = block.offset() as u64;
        if !capacity.reliable {
            return Wanted::block(offset, block.szx.min(self.config.block_size));
        }
        let fits = capacity.beside(RESPONSE_HEAD);
        let size = block.szx.min(fits.size);
        if !size.is_bert() {
            return Wanted::block(offset, size);
        }
        Wanted {
            offset,
            size,
            span: fits.span,
            whole: fits.span,
        }
    }

    /// What a notification may carry to an observer that takes blocks of `size`.
    pub(super) fn wanted_by_observer(&self, to: SocketAddr, size: BlockSize) -> Wanted {
        let all = self.wanted_of(to, None);
        if size >= all.size {
            all
        } else {
            Wanted::block(0, size)
        }
    }

    /// Makes room in `scratch` for a message with a payload of this many bytes. Of datagrams there
    /// is always enough.
    pub(super) fn grow_scratch(&mut self, capacity: &Capacity, head: usize, payload: usize) {
        let needed = (head + ENGINE_BYTES + payload).min(capacity.message);
        if capacity.reliable && self.scratch.len() < needed {
            self.scratch.resize(needed, 0);
        }
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
    fn bert_takes_whole_blocks_and_a_body_in_one_piece_whatever_fits() {
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
        assert_eq!(wanted, Wanted::block(0, wanted.size));
        assert_eq!(wanted.size.bytes(), 256);
    }
}
