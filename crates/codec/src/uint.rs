//! Unsigned integers in option values: network byte order, as few bytes as possible (RFC 7252 3.2).

use super::numbers::{OptionDefinition, OptionNumber};

/// The bytes of an encoded option integer, 0 to 4 of them, stored inline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UintBytes {
    bytes: [u8; 4],
    skip: u8,
}

impl UintBytes {
    /// The encoded bytes: none for zero, no leading zero byte otherwise.
    #[inline]
    pub(crate) fn as_slice(&self) -> &[u8] {
        self.bytes.get(self.skip as usize..).unwrap_or_default()
    }
}

impl core::ops::Deref for UintBytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.as_slice()
    }
}

/// Encodes an integer with as few bytes as possible; zero takes none.
#[inline]
pub(crate) const fn encode_uint(value: u32) -> UintBytes {
    UintBytes {
        bytes: value.to_be_bytes(),
        skip: (value.leading_zeros() / 8) as u8,
    }
}

/// Decodes an integer of at most four bytes; leading zero bytes are accepted (RFC 7252 3.2).
#[inline]
pub fn decode_uint(bytes: &[u8]) -> Option<u32> {
    if bytes.len() > 4 {
        return None;
    }
    Some(
        bytes
            .iter()
            .fold(0, |value, &byte| value << 8 | u32::from(byte)),
    )
}

/// Decodes the value of option `number`. `None` also if its length is outside the option's
/// definition, because the option then counts as unrecognized (RFC 7252 5.4.3).
#[inline]
pub(crate) fn decode_option(number: OptionNumber, value: &[u8]) -> Option<u32> {
    let fits = |definition: &OptionDefinition| definition.accepts_length(value.len());
    if number
        .definition()
        .is_some_and(|definition| !fits(definition))
    {
        return None;
    }
    decode_uint(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_take_the_fewest_bytes() {
        for (value, bytes) in [
            (0, &[][..]),
            (1, &[1]),
            (0xff, &[0xff]),
            (0x100, &[1, 0]),
            (0xffff, &[0xff, 0xff]),
            (0x1_0000, &[1, 0, 0]),
            (0xff_ffff, &[0xff, 0xff, 0xff]),
            (0x100_0000, &[1, 0, 0, 0]),
            (u32::MAX, &[0xff; 4]),
        ] {
            assert_eq!(encode_uint(value).as_slice(), bytes);
            assert_eq!(decode_uint(bytes), Some(value));
        }
    }

    #[test]
    fn leading_zero_bytes_are_read_but_five_bytes_are_not() {
        assert_eq!(decode_uint(&[0, 0, 0, 7]), Some(7));
        assert_eq!(decode_uint(&[0, 0, 0, 0, 7]), None);
    }
}
