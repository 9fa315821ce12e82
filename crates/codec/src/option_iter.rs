//! Iteration over the options of a parsed message, and unsigned integers in their values (RFC 7252 3.1, 3.2).

use core::fmt;

use super::numbers::{OptionDefinition, OptionNumber};
use super::view::DecodeErrorKind;

/// Prints an option iterator as a list.
pub(super) struct OptionList<I>(pub(super) I);

impl<'a, I: Iterator<Item = OptionView<'a>> + Clone> fmt::Debug for OptionList<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.clone()).finish()
    }
}

/// One option of a message: its number and its value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct OptionView<'a> {
    /// The option number.
    pub number: OptionNumber,
    /// The value's bytes.
    pub value: &'a [u8],
}

impl OptionView<'_> {
    /// Returns the value as an integer; `None` if its length is outside the definition.
    #[inline]
    pub fn uint(&self) -> Option<u32> {
        decode_option(self.number, self.value)
    }

    /// Returns the definition of this option if its number is in the table and its length
    /// permitted.
    ///
    /// Otherwise the option counts as unrecognized (RFC 7252 5.4.1, 5.4.3): ignored if elective, an
    /// error if critical.
    #[inline]
    pub fn recognized(&self) -> Option<&'static OptionDefinition> {
        let definition = self.number.definition()?;
        definition
            .accepts_length(self.value.len())
            .then_some(definition)
    }
}

impl fmt::Debug for OptionView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: \"{}\"", self.number, self.value.escape_ascii())
    }
}

/// Iterates over encoded options by ascending number.
#[derive(Clone, Debug)]
pub struct OptionIter<'a> {
    rest: &'a [u8],
    number: u16,
}

impl<'a> OptionIter<'a> {
    /// Iterates over options encoded without error.
    #[inline]
    pub(super) const fn new(encoded: &'a [u8]) -> Self {
        Self {
            rest: encoded,
            number: 0,
        }
    }

    /// The remaining options, in encoded form.
    #[inline]
    pub(super) const fn as_bytes(&self) -> &'a [u8] {
        self.rest
    }
}

impl<'a> Iterator for OptionIter<'a> {
    type Item = OptionView<'a>;

    #[inline]
    fn next(&mut self) -> Option<OptionView<'a>> {
        // The bytes were checked or written by this codec, so `None` means their end.
        let &first = self.rest.first()?;
        let option = split_option(first, self.rest).ok()?;
        self.number = self.number.checked_add(option.delta as u16)?;
        self.rest = option.rest;
        Some(OptionView {
            number: OptionNumber(self.number),
            value: option.value,
        })
    }
}

impl core::iter::FusedIterator for OptionIter<'_> {}

pub(super) struct SplitOption<'a> {
    pub(super) delta: u32,
    pub(super) value: &'a [u8],
    pub(super) rest: &'a [u8],
}

/// Splits the option that starts with the byte `first` off the front of `bytes` (RFC 7252 3.1).
#[inline]
pub(super) fn split_option(first: u8, bytes: &[u8]) -> Result<SplitOption<'_>, DecodeErrorKind> {
    let (delta, length) = (u32::from(first >> 4), usize::from(first & 0x0f));
    if delta <= 12 && length <= 12 {
        // Nearly every option in practice has this form.
        return match bytes.split_at_checked(1 + length) {
            Some((option, rest)) => Ok(SplitOption {
                delta,
                value: option.get(1..).unwrap_or_default(),
                rest,
            }),
            None => Err(DecodeErrorKind::OptionTruncated),
        };
    }
    split_extended_option(delta, length as u32, bytes)
}

fn split_extended_option(
    delta: u32,
    length: u32,
    bytes: &[u8],
) -> Result<SplitOption<'_>, DecodeErrorKind> {
    if delta == 15 {
        return Err(DecodeErrorKind::OptionDeltaReserved);
    }
    if length == 15 {
        return Err(DecodeErrorKind::OptionLengthReserved);
    }
    let split = || {
        let rest = bytes.get(1..)?;
        let (delta, rest) = split_extension(delta, rest)?;
        let (length, rest) = split_extension(length, rest)?;
        let (value, rest) = rest.split_at_checked(length as usize)?;
        Some(SplitOption { delta, value, rest })
    };
    split().ok_or(DecodeErrorKind::OptionTruncated)
}

/// Completes a nibble of 13 or 14 with the one or two bytes that extend it.
#[inline]
fn split_extension(nibble: u32, bytes: &[u8]) -> Option<(u32, &[u8])> {
    match nibble {
        13 => {
            let (&extension, rest) = bytes.split_first()?;
            Some((13 + u32::from(extension), rest))
        }
        14 => {
            let (&extension, rest) = bytes.split_first_chunk::<2>()?;
            Some((269 + u32::from(u16::from_be_bytes(extension)), rest))
        }
        _ => Some((nibble, bytes)),
    }
}

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
