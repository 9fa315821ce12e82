//! Missing-blocks reports: block numbers as a CBOR sequence of unsigned integers (RFC 9177 5).

use alloc::vec::Vec;

use super::block::MAX_BLOCK_NUMBER;

/// Reasons a missing-blocks report is malformed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingBlocksError {
    /// An item is not an unsigned integer, or is cut off.
    NotAnUnsignedInteger,
    /// A block number needs more than 20 bits.
    NumberTooLarge,
    /// A number does not exceed the one before it (RFC 9177 5: ascending, without duplicates).
    NotAscending,
}

/// The block numbers of a report, the payload of a 4.08 with the Content-Format
/// application/missing-blocks+cbor-seq. The first error ends it.
#[derive(Clone, Debug)]
pub struct MissingBlocks<'a> {
    rest: &'a [u8],
    last: Option<u32>,
}

impl<'a> MissingBlocks<'a> {
    /// Creates an iterator over the numbers in a payload.
    pub const fn new(payload: &'a [u8]) -> Self {
        Self {
            rest: payload,
            last: None,
        }
    }

    fn decode(&mut self, first: u8) -> Result<u32, MissingBlocksError> {
        let (value, length) = match first {
            0..=23 => (u64::from(first), 0),
            24..=27 => {
                let length = 1 << (first - 24);
                let bytes = self
                    .rest
                    .get(1..=length)
                    .ok_or(MissingBlocksError::NotAnUnsignedInteger)?;
                let value = bytes.iter().fold(0, |value, b| value << 8 | u64::from(*b));
                (value, length)
            }
            _ => return Err(MissingBlocksError::NotAnUnsignedInteger),
        };
        self.rest = &self.rest[1 + length..];
        let number = u32::try_from(value)
            .ok()
            .filter(|number| *number <= MAX_BLOCK_NUMBER)
            .ok_or(MissingBlocksError::NumberTooLarge)?;
        if self.last.is_some_and(|last| number <= last) {
            return Err(MissingBlocksError::NotAscending);
        }
        self.last = Some(number);
        Ok(number)
    }
}

impl Iterator for MissingBlocks<'_> {
    type Item = Result<u32, MissingBlocksError>;

    fn next(&mut self) -> Option<Self::Item> {
        let first = *self.rest.first()?;
        let decoded = self.decode(first);
        if decoded.is_err() {
            self.rest = &[];
        }
        Some(decoded)
    }
}

/// Encodes ascending block numbers as a report of at most `room` bytes; those that do not fit are
/// left out.
pub fn encode_missing_blocks(numbers: impl IntoIterator<Item = u32>, room: usize) -> Vec<u8> {
    let mut report = Vec::new();
    for number in numbers {
        let bytes = number.to_be_bytes();
        let (head, tail): (u8, &[u8]) = match number {
            0..=23 => (bytes[3], &[]),
            24..=0xff => (24, &bytes[3..]),
            0x100..=0xffff => (25, &bytes[2..]),
            _ => (26, &bytes[..]),
        };
        if report.len() + 1 + tail.len() > room {
            break;
        }
        report.push(head);
        report.extend_from_slice(tail);
    }
    report
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decode(payload: &[u8]) -> Result<Vec<u32>, MissingBlocksError> {
        MissingBlocks::new(payload).collect()
    }

    #[test]
    fn numbers_of_every_length_are_encoded() {
        let numbers = [0, 23, 24, 255, 256, 65_535, 65_536, MAX_BLOCK_NUMBER];
        let report = encode_missing_blocks(numbers, 100);
        assert_eq!(report.len(), 1 + 1 + 2 + 2 + 3 + 3 + 5 + 5);
        assert_eq!(decode(&report).as_deref(), Ok(&numbers[..]));
        assert_eq!(
            decode(&encode_missing_blocks(numbers, 5)).unwrap(),
            [0, 23, 24]
        );
    }

    #[test]
    fn reports_of_the_vectors_are_decoded_and_encoded() {
        let text = include_str!("../../../vectors/wire/missing_blocks.toml");
        let vectors: toml::Table = text.parse().unwrap();
        let hex = |entry: &toml::Value| -> Vec<u8> {
            let digits: Vec<char> = entry["bytes"].as_str().unwrap().chars().collect();
            let digits: Vec<char> = digits.into_iter().filter(|c| *c != ' ').collect();
            let byte = |pair: &[char]| {
                pair.iter()
                    .fold(0, |sum, c| sum * 16 + c.to_digit(16).unwrap())
            };
            digits.chunks(2).map(|pair| byte(pair) as u8).collect()
        };
        for entry in vectors["report"].as_array().unwrap() {
            let numbers = entry["numbers"].as_array().unwrap().iter();
            let numbers: Vec<u32> = numbers.map(|n| n.as_integer().unwrap() as u32).collect();
            assert_eq!(decode(&hex(entry)).as_ref(), Ok(&numbers), "{entry}");
            assert_eq!(encode_missing_blocks(numbers, 100), hex(entry), "{entry}");
        }
        for entry in vectors["report_error"].as_array().unwrap() {
            let error = decode(&hex(entry)).unwrap_err();
            let named = alloc::format!("{error:?}");
            assert_eq!(Some(&*named), entry["error"].as_str(), "{entry}");
        }
    }

    #[test]
    fn malformed_reports_are_rejected() {
        use MissingBlocksError::{NotAnUnsignedInteger, NotAscending, NumberTooLarge};
        for (payload, error) in [
            (&[0x18][..], NotAnUnsignedInteger),
            (&[0x1b, 0, 0, 0], NotAnUnsignedInteger),
            (&[0x20], NotAnUnsignedInteger),
            (&[0x81, 0x01], NotAnUnsignedInteger),
            (&[0x1a, 0, 0x10, 0, 0], NumberTooLarge),
            (&[0x1b, 1, 0, 0, 0, 0, 0, 0, 0], NumberTooLarge),
            (&[3, 3], NotAscending),
            (&[3, 2], NotAscending),
        ] {
            assert_eq!(decode(payload), Err(error), "{payload:?}");
        }
        // Longer encodings than needed are well-formed CBOR (RFC 8949 4.1).
        assert_eq!(
            decode(&[0x19, 0, 1, 0x1b, 0, 0, 0, 0, 0, 0, 0, 2]),
            Ok(alloc::vec![1, 2])
        );
    }

    proptest! {
        #[test]
        fn any_bytes_end(payload in prop::collection::vec(any::<u8>(), 0..64)) {
            let numbers: Vec<_> = MissingBlocks::new(&payload).collect();
            prop_assert!(numbers.len() <= payload.len());
        }
    }
}
