//! Block option values: block number, more flag and block size in one integer (RFC 7959 2.2).
//!
//! Block1, Block2, Q-Block1 and Q-Block2 (RFC 9177 4.2) share this form. On reliable transports the
//! exponent 7 means BERT: several blocks of 1024 bytes in one message (RFC 8323 6).

use core::fmt;
use core::ops::Deref;

use super::option_iter::{decode_uint, encode_uint};

/// The largest block number: the field has 20 bits.
pub const MAX_BLOCK_NUMBER: u32 = 0xf_ffff;

/// A block size of 16 to 1024 bytes, kept as its exponent SZX (0 to 6), or [`BERT`](Self::BERT).
///
/// RFC 7959 reserves SZX 7; on reliable transports it is BERT (RFC 8323 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockSize(u8);

impl BlockSize {
    /// The smallest block size, 16 bytes.
    pub const MIN: Self = Self(0);
    /// The largest size of one block, 1024 bytes.
    pub const MAX: Self = Self(6);
    /// Several blocks of 1024 bytes in one message, on reliable transports only (RFC 8323 6).
    pub const BERT: Self = Self(7);

    /// Returns the size with exponent `szx`, 0 to 6.
    pub const fn from_szx(szx: u8) -> Option<Self> {
        if szx <= Self::MAX.0 {
            Some(Self(szx))
        } else {
            None
        }
    }

    /// Returns the largest size of at most `bytes` bytes; `None` below 16.
    #[inline]
    pub const fn from_bytes_at_most(bytes: usize) -> Option<Self> {
        if bytes < Self::MIN.bytes() {
            return None;
        }
        let szx = bytes.ilog2() - 4;
        Some(if szx > Self::MAX.0 as u32 {
            Self::MAX
        } else {
            Self(szx as u8)
        })
    }

    /// Returns the exponent SZX as encoded on the wire.
    pub const fn szx(self) -> u8 {
        self.0
    }

    /// Returns the size of one block in bytes: 2 to the power SZX + 4. With BERT it is 1024, the
    /// unit of block numbers.
    #[inline]
    pub const fn bytes(self) -> usize {
        if self.is_bert() {
            Self::MAX.bytes()
        } else {
            16 << self.0
        }
    }

    /// Returns whether a message may hold more than one block.
    pub const fn is_bert(self) -> bool {
        self.0 == Self::BERT.0
    }

    /// Returns whether a message of this size may carry a payload of `length` bytes. If `more`
    /// blocks follow, the payload must consist of whole blocks.
    pub const fn fits(self, length: usize, more: bool) -> bool {
        let size = self.bytes();
        match (self.is_bert(), more) {
            (false, true) => length == size,
            (false, false) => length <= size,
            (true, true) => length > 0 && length.is_multiple_of(size),
            (true, false) => true,
        }
    }
}

/// A decoded Block1 or Block2 value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlockValue {
    /// The position of the block in units of its size; at most 0xfffff (RFC 7959 2.2).
    pub number: u32,
    /// Whether further blocks follow.
    pub more: bool,
    /// The block size.
    pub szx: BlockSize,
}

/// Reasons a block option value is unusable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BlockError {
    /// The value has more than three bytes.
    ValueTooLong,
    /// The size exponent is 7, reserved on datagram transports (RFC 7959 2.2) and BERT elsewhere.
    ReservedSize,
    /// The block number needs more than 20 bits.
    NumberTooLarge,
}

impl fmt::Display for BlockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ValueTooLong => "block option is longer than 3 bytes",
            Self::ReservedSize => "block size exponent 7 is reserved",
            Self::NumberTooLarge => "block number needs more than 20 bits",
        })
    }
}

impl core::error::Error for BlockError {}

impl BlockValue {
    /// Creates a block value; fails when `number` needs more than 20 bits.
    ///
    /// # Errors
    ///
    /// [`BlockError::NumberTooLarge`].
    pub const fn new(number: u32, more: bool, szx: BlockSize) -> Result<Self, BlockError> {
        if number > MAX_BLOCK_NUMBER {
            return Err(BlockError::NumberTooLarge);
        }
        Ok(Self { number, more, szx })
    }

    /// Decodes an option value of 0 to 3 bytes on a datagram transport.
    ///
    /// # Errors
    ///
    /// [`BlockError`].
    pub fn decode(bytes: &[u8]) -> Result<Self, BlockError> {
        match Self::decode_reliable(bytes) {
            Ok(value) if value.szx.is_bert() => Err(BlockError::ReservedSize),
            decoded => decoded,
        }
    }

    /// Decodes an option value of 0 to 3 bytes on a reliable transport, where SZX 7 means BERT.
    ///
    /// # Errors
    ///
    /// [`BlockError`].
    pub fn decode_reliable(bytes: &[u8]) -> Result<Self, BlockError> {
        let value = if bytes.len() <= 3 {
            decode_uint(bytes)
        } else {
            None
        };
        let value = value.ok_or(BlockError::ValueTooLong)?;
        Ok(Self {
            number: value >> 4,
            more: value & 8 != 0,
            szx: BlockSize(value as u8 & 7),
        })
    }

    /// The value as an integer: number, more flag and exponent, for `uint_option` and `push_uint`.
    /// Bits of the number beyond 20 are dropped.
    pub const fn to_uint(self) -> u32 {
        (self.number & MAX_BLOCK_NUMBER) << 4 | (self.more as u32) << 3 | self.szx.0 as u32
    }

    /// Returns the option value, 0 to 3 bytes.
    pub fn encode(self) -> impl Deref<Target = [u8]> {
        encode_uint(self.to_uint())
    }

    /// Returns the position of the block's first byte in the body, in bytes.
    pub const fn offset(self) -> usize {
        self.number as usize * self.szx.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_at_most_rounds_down_to_a_power_of_two() {
        let bytes = |limit| BlockSize::from_bytes_at_most(limit).map(BlockSize::bytes);
        assert_eq!(bytes(15), None);
        assert_eq!(bytes(16), Some(16));
        assert_eq!(bytes(31), Some(16));
        assert_eq!(bytes(1023), Some(512));
        assert_eq!(bytes(1024), Some(1024));
        assert_eq!(bytes(usize::MAX), Some(1024));
    }

    #[test]
    fn every_value_survives_encoding() {
        for number in [0, 1, 15, 16, 4095, 4096, MAX_BLOCK_NUMBER] {
            for szx in (0..=6).filter_map(BlockSize::from_szx) {
                for more in [false, true] {
                    let value = BlockValue::new(number, more, szx).expect("number fits");
                    assert_eq!(BlockValue::decode(&value.encode()), Ok(value));
                }
            }
        }
    }

    #[test]
    fn reserved_exponent_and_excess_length_are_distinct_errors() {
        assert_eq!(BlockValue::decode(&[0x07]), Err(BlockError::ReservedSize));
        assert_eq!(
            BlockValue::decode(&[0, 0, 0, 0]),
            Err(BlockError::ValueTooLong)
        );
        assert_eq!(
            BlockValue::new(MAX_BLOCK_NUMBER + 1, false, BlockSize::MIN),
            Err(BlockError::NumberTooLarge)
        );
    }

    #[test]
    fn bert_counts_1024_byte_blocks_on_reliable_transports_only() {
        let value = BlockValue::decode_reliable(&[0x3f]).expect("three bytes at most");
        assert_eq!((value.szx, value.more), (BlockSize::BERT, true));
        assert_eq!(value.offset(), 3 * 1024);
        assert_eq!(BlockValue::decode(&[0x3f]), Err(BlockError::ReservedSize));
        let bert = BlockSize::BERT;
        assert!(bert.fits(4096, true) && bert.fits(4097, false) && bert.fits(0, false));
        assert!(!bert.fits(4097, true) && !bert.fits(0, true));
        assert!(BlockSize::MIN.fits(16, true) && !BlockSize::MIN.fits(17, false));
    }

    #[test]
    fn offset_is_number_times_size() {
        let last = BlockValue::new(MAX_BLOCK_NUMBER, false, BlockSize::MAX).expect("number fits");
        assert_eq!(last.offset(), 0xf_ffff * 1024);
    }
}
