//! Owned option lists, sorted by number, in one small buffer (RFC 7252 3.1, 5.4).

use core::fmt;

use smallvec::SmallVec;

use super::numbers::OptionNumber;
use super::option_iter::{OptionIter, OptionList, OptionView};
use super::option_iter::{decode_option, encode_uint};
use super::view::MessageView;
use super::writer::{EncodeError, OptionHead, Writer};

/// The longest value stored, in bytes: Proxy-Uri's, the longest in RFC 7252.
pub(crate) const MAX_VALUE_LENGTH: usize = 1034;

/// The most bytes a list takes in its encoded form; further options are refused.
pub const MAX_OPTIONS_LENGTH: usize = 4096;

/// Bytes reserved for options of at most [`SHORT_LENGTH`] bytes added by [`set`](Options::set), so
/// that one can be added to any received list.
const RESERVED_LENGTH: usize = 64;

/// The longest value that may use the reserve, in bytes: an entity tag's.
const SHORT_LENGTH: usize = 8;

const INLINE_LENGTH: usize = 48;

/// Reasons an option cannot be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OptionsError {
    /// The value is longer than 1034 bytes.
    ValueTooLong,
    /// The list would exceed 4096 bytes.
    TooManyOptions,
}

impl fmt::Display for OptionsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ValueTooLong => "option value is longer than 1034 bytes",
            Self::TooManyOptions => "options take more than 4096 bytes",
        })
    }
}

impl core::error::Error for OptionsError {}

/// An owned list of options, ordered by number; options of equal number keep their order.
///
/// Lists of up to 48 encoded bytes, typical for a request, are stored inline.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Options {
    // The options in wire format (RFC 7252 3.1): compact and unique, so that equal lists have equal
    // bytes.
    encoded: SmallVec<[u8; INLINE_LENGTH]>,
}

impl Options {
    /// Creates an empty list.
    #[inline]
    pub fn new() -> Self {
        Self::default()
    }

    /// Copies the options of a received message.
    ///
    /// # Errors
    ///
    /// [`OptionsError`] if a value or the list is too large.
    pub fn from_view(message: &MessageView<'_>) -> Result<Self, OptionsError> {
        if message
            .options()
            .any(|option| option.value.len() > MAX_VALUE_LENGTH)
        {
            return Err(OptionsError::ValueTooLong);
        }
        let encoded = message.options().as_bytes();
        if encoded.len() > MAX_OPTIONS_LENGTH {
            return Err(OptionsError::TooManyOptions);
        }
        Ok(Self {
            encoded: SmallVec::from_slice(encoded),
        })
    }

    /// Adds an option behind others with the same or a lower number.
    ///
    /// # Errors
    ///
    /// [`OptionsError`]; the list is then unchanged.
    pub fn push(&mut self, number: OptionNumber, value: &[u8]) -> Result<(), OptionsError> {
        self.insert(number, value, MAX_OPTIONS_LENGTH)
    }

    /// Adds an option if the encoded list then has at most this many bytes.
    fn insert(
        &mut self,
        number: OptionNumber,
        value: &[u8],
        limit: usize,
    ) -> Result<(), OptionsError> {
        if value.len() > MAX_VALUE_LENGTH {
            return Err(OptionsError::ValueTooLong);
        }
        let gap = self.gap(|other| other > number);
        let head = OptionHead::new(number.0 - gap.previous, value.len());
        let next_head = gap.next.map(|next| next.head_after(number.0));
        let old_length = gap.next.map_or(0, |next| next.head_length);
        let new_length = next_head.as_ref().map_or(0, |head| head.as_slice().len());
        let added = head.as_slice().len() + value.len() + new_length - old_length;
        if self.encoded.len() + added > limit {
            return Err(OptionsError::TooManyOptions);
        }
        match next_head {
            None => {
                self.encoded.extend_from_slice(head.as_slice());
                self.encoded.extend_from_slice(value);
            }
            Some(next_head) => {
                self.encoded.drain(gap.offset..gap.offset + old_length);
                self.encoded
                    .insert_from_slice(gap.offset, next_head.as_slice());
                self.encoded.insert_from_slice(gap.offset, value);
                self.encoded.insert_from_slice(gap.offset, head.as_slice());
            }
        }
        debug_assert!(self.encoded.len() <= limit, "{} bytes", self.encoded.len());
        Ok(())
    }

    /// Adds an option holding an integer in as few bytes as possible.
    ///
    /// # Errors
    ///
    /// [`OptionsError`]; the list is then unchanged.
    pub fn push_uint(&mut self, number: OptionNumber, value: u32) -> Result<(), OptionsError> {
        self.push(number, encode_uint(value).as_slice())
    }

    /// Makes this the only option of its number.
    ///
    /// Even a list of 4096 bytes has space for a few options of at most 8 bytes,
    /// such as Max-Age. On an error the list is unchanged.
    ///
    /// # Errors
    ///
    /// [`OptionsError`] if the value or the list becomes too large.
    pub fn set(&mut self, number: OptionNumber, value: &[u8]) -> Result<(), OptionsError> {
        let limit = if value.len() <= SHORT_LENGTH {
            MAX_OPTIONS_LENGTH + RESERVED_LENGTH
        } else {
            MAX_OPTIONS_LENGTH
        };
        if !self.contains(number) {
            return self.insert(number, value, limit);
        }
        let mut replaced = self.clone();
        replaced.remove(number);
        replaced.insert(number, value, limit)?;
        *self = replaced;
        Ok(())
    }

    /// Makes this integer the only option of its number.
    ///
    /// # Errors
    ///
    /// [`OptionsError`] if the list becomes too large.
    pub fn set_uint(&mut self, number: OptionNumber, value: u32) -> Result<(), OptionsError> {
        self.set(number, encode_uint(value).as_slice())
    }

    /// Removes every option of this number; returns whether there was one.
    pub fn remove(&mut self, number: OptionNumber) -> bool {
        let first = self.gap(|other| other >= number);
        let after = self.gap(|other| other > number);
        if first.offset == after.offset {
            return false;
        }
        // The next option's delta is now relative to the option before the removed ones. Its head
        // grows by less than the removed bytes.
        let mut end = after.offset;
        let next_head = after.next.map(|next| {
            end += next.head_length;
            next.head_after(first.previous)
        });
        self.encoded.drain(first.offset..end);
        if let Some(head) = next_head {
            self.encoded
                .insert_from_slice(first.offset, head.as_slice());
        }
        debug_assert!(!self.contains(number), "all of them are removed");
        true
    }

    /// Returns the options by ascending number.
    #[inline]
    pub fn iter(&self) -> OptionIter<'_> {
        OptionIter::new(&self.encoded)
    }

    /// Returns the value of the first option of this number.
    #[inline]
    pub fn first(&self, number: OptionNumber) -> Option<&[u8]> {
        self.values(number).next()
    }

    /// Returns every value of a repeatable option, in order.
    pub fn values(&self, number: OptionNumber) -> impl Iterator<Item = &[u8]> {
        self.iter()
            .take_while(move |option| option.number <= number)
            .filter(move |option| option.number == number)
            .map(|option| option.value)
    }

    /// Returns the first option of this number as an integer. `None` if it is absent or its length
    /// is outside its definition.
    #[inline]
    pub fn uint(&self, number: OptionNumber) -> Option<u32> {
        decode_option(number, self.first(number)?)
    }

    /// Returns whether an option of this number is present.
    pub fn contains(&self, number: OptionNumber) -> bool {
        self.first(number).is_some()
    }

    /// Returns whether the list holds no option.
    pub fn is_empty(&self) -> bool {
        self.encoded.is_empty()
    }

    /// Returns the length the options have in a message that has no others, in bytes.
    #[inline]
    pub fn encoded_len(&self) -> usize {
        self.encoded.len()
    }

    /// Writes the options to a message.
    ///
    /// # Errors
    ///
    /// [`EncodeError`] if an option does not fit the message.
    #[inline]
    pub fn encode(&self, writer: &mut Writer<'_>) -> Result<(), EncodeError> {
        self.iter()
            .try_for_each(|option| writer.option(option.number, option.value))
    }

    fn gap(&self, predicate: impl Fn(OptionNumber) -> bool) -> Gap {
        Gap::find(&self.encoded, predicate)
    }
}

/// A position between two options.
pub(super) struct Gap {
    pub(super) offset: usize,
    /// The number of the option before it, or 0.
    pub(super) previous: u16,
    /// The option after it.
    pub(super) next: Option<Next>,
}

impl Gap {
    /// The position before the first encoded option whose number satisfies the predicate, or the
    /// end.
    pub(super) fn find(encoded: &[u8], predicate: impl Fn(OptionNumber) -> bool) -> Self {
        let mut options = OptionIter::new(encoded);
        let mut gap = Self {
            offset: 0,
            previous: 0,
            next: None,
        };
        while let Some(option) = options.next() {
            let end = encoded.len() - options.as_bytes().len();
            if predicate(option.number) {
                let head_length = end - gap.offset - option.value.len();
                let value_length = option.value.len();
                gap.next = Some(Next {
                    number: option.number.0,
                    head_length,
                    value_length,
                });
                break;
            }
            gap.offset = end;
            gap.previous = option.number.0;
        }
        gap
    }
}

#[derive(Clone, Copy)]
pub(super) struct Next {
    number: u16,
    pub(super) head_length: usize,
    value_length: usize,
}

impl Next {
    /// The head of this option after one with the number `previous`.
    pub(super) fn head_after(self, previous: u16) -> OptionHead {
        OptionHead::new(self.number - previous, self.value_length)
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        OptionList(self.iter()).fmt(f)
    }
}

impl<'a> IntoIterator for &'a Options {
    type Item = OptionView<'a>;
    type IntoIter = OptionIter<'a>;

    #[inline]
    fn into_iter(self) -> OptionIter<'a> {
        self.iter()
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;

    use super::super::header::{MessageId, Type};
    use super::super::numbers::Code;
    use super::super::token::Token;
    use super::*;

    fn listed(options: &Options) -> Vec<(u16, Vec<u8>)> {
        options
            .iter()
            .map(|option| (option.number.0, option.value.to_vec()))
            .collect()
    }

    #[test]
    fn options_are_sorted_and_equal_numbers_keep_their_order() {
        let mut options = Options::new();
        for (number, value) in [(11, b"b"), (3, b"h"), (11, b"a"), (15, b"q"), (4, b"e")] {
            options.push(OptionNumber(number), value).expect("fits");
        }
        let numbers: Vec<_> = options.iter().map(|option| option.number.0).collect();
        assert_eq!(numbers, [3, 4, 11, 11, 15]);
        assert!(options.values(OptionNumber::URI_PATH).eq([b"b", b"a"]));
    }

    #[test]
    fn set_replaces_every_value() {
        let mut options = Options::new();
        for value in [b"a", b"b"] {
            options.push(OptionNumber::URI_PATH, value).expect("fits");
        }
        options.push(OptionNumber::URI_QUERY, b"q").expect("fits");
        options.set(OptionNumber::URI_PATH, b"only").expect("fits");
        options.set_uint(OptionNumber::ACCEPT, 60).expect("fits");
        assert_eq!(
            listed(&options),
            [(11, b"only".to_vec()), (15, b"q".to_vec()), (17, vec![60])]
        );
        assert_eq!(options.uint(OptionNumber::ACCEPT), Some(60));
    }

    #[test]
    fn remove_takes_every_value_and_reports_whether_there_was_one() {
        let mut options = Options::new();
        options.push(OptionNumber::ETAG, &[1]).expect("fits");
        options.push(OptionNumber::ETAG, &[2]).expect("fits");
        assert!(options.remove(OptionNumber::ETAG));
        assert!(!options.remove(OptionNumber::ETAG));
        assert!(options.is_empty());
    }

    #[test]
    fn limits_hold_on_both_sides() {
        let value = [0; MAX_VALUE_LENGTH + 1];
        let mut options = Options::new();
        let number = OptionNumber(2000);
        assert_eq!(
            options.push(number, &value),
            Err(OptionsError::ValueTooLong)
        );
        for _ in 0..3 {
            options.push(number, &value[1..]).expect("longest value");
        }
        // The first option's head takes five bytes, the next two three; the last takes three too.
        let room = MAX_OPTIONS_LENGTH - (5 + 3 + 3) - 3 * MAX_VALUE_LENGTH - 3;
        assert_eq!(
            options.push(number, &value[..=room]),
            Err(OptionsError::TooManyOptions)
        );
        options
            .push(number, &value[..room])
            .expect("fills the list");
        assert_eq!(options.encoded_len(), MAX_OPTIONS_LENGTH);
        assert_eq!(options.push(number, &[]), Err(OptionsError::TooManyOptions));
    }

    #[test]
    fn edits_before_distant_numbers_keep_their_values() {
        // Deltas around the one-byte and two-byte extensions on both sides of the changed option.
        for far in [
            12, 13, 14, 25, 26, 268, 269, 270, 281, 282, 537, 538, 539, 65535,
        ] {
            for near in [0, 1, 12, 13, 200, 268, 269, 300] {
                if near >= far {
                    continue;
                }
                let mut options = Options::new();
                options.push(OptionNumber(far), b"far").expect("fits");
                let alone = options.clone();
                options.push(OptionNumber(near), &[1; 20]).expect("fits");
                options.push(OptionNumber(near), b"").expect("fits");
                let expected = [(near, vec![1; 20]), (near, vec![]), (far, b"far".to_vec())];
                assert_eq!(listed(&options), expected);
                assert!(options.remove(OptionNumber(near)));
                assert_eq!(options, alone);
            }
        }
    }

    #[test]
    fn failed_set_leaves_the_list_unchanged() {
        let mut options = Options::new();
        options.push(OptionNumber::ETAG, &[1]).expect("fits");
        let before = options.clone();
        let long = [0; MAX_VALUE_LENGTH + 1];
        assert_eq!(
            options.set(OptionNumber::ETAG, &long),
            Err(OptionsError::ValueTooLong)
        );
        assert_eq!(options, before);
    }

    #[test]
    fn options_survive_a_message() {
        let mut options = Options::new();
        options.push_uint(OptionNumber::MAX_AGE, 0).expect("fits");
        options
            .push(OptionNumber::LOCATION_PATH, &[b'x'; 255])
            .expect("fits");
        options.push(OptionNumber(65535), b"z").expect("fits");
        let mut buffer = [0; 512];
        let mut writer = Writer::new(
            &mut buffer,
            Type::Acknowledgement,
            Code::CREATED,
            MessageId(9),
            &Token::EMPTY,
        )
        .expect("fits");
        options.encode(&mut writer).expect("fits");
        let length = writer.finish();
        let message = MessageView::parse(&buffer[..length]).expect("well formed");
        assert_eq!(Options::from_view(&message), Ok(options));
    }

    #[test]
    fn small_lists_stay_inline() {
        let mut options = Options::new();
        options
            .push(OptionNumber::URI_PATH, b"sensors")
            .expect("fits");
        options
            .push(OptionNumber::URI_PATH, b"temperature")
            .expect("fits");
        options
            .push(OptionNumber::URI_QUERY, b"unit=C")
            .expect("fits");
        options.push_uint(OptionNumber::ACCEPT, 60).expect("fits");
        options
            .push(OptionNumber::URI_HOST, b"example.com")
            .expect("fits");
        assert!(!options.encoded.spilled());
        assert!(size_of::<Options>() <= 64);
    }
}
