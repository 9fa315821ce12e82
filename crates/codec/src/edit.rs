//! Changing one option of an encoded message (RFC 7252 3.1).

use super::numbers::OptionNumber;
use super::options::Gap;
use super::view::MessageView;
use super::writer::{MAX_ENCODABLE_VALUE, OptionHead};

/// Bytes that an option with a value of at most one byte adds to a message at most: three for its
/// head, as the next option's head shrinks, and one for its value.
pub const SMALL_OPTION_BYTES: usize = 4;

/// Makes `value` the only option of its number in the message in `buffer[..length]`, or removes the
/// option. Returns the new length of the message in bytes.
///
/// Returns `None` and changes nothing if the bytes are not a message that can have options, or if
/// the buffer is too small.
pub fn set_option(
    buffer: &mut [u8],
    length: usize,
    number: OptionNumber,
    value: Option<&[u8]>,
) -> Option<usize> {
    let message = MessageView::parse(buffer.get(..length)?).ok()?;
    if message.code().is_empty() || value.is_some_and(|value| value.len() > MAX_ENCODABLE_VALUE) {
        return None;
    }
    let start = message.options_start();
    let encoded = message.options().as_bytes();
    let first = Gap::find(encoded, |other| other >= number);
    let after = Gap::find(encoded, |other| other > number);
    let old =
        start + first.offset..start + after.offset + after.next.map_or(0, |next| next.head_length);
    // The delta of the next option's head is relative to this option, or to the one before.
    let before_next = value.map_or(first.previous, |_| number.0);
    let head = value.map(|value| OptionHead::new(number.0 - first.previous, value.len()));
    let next_head = after.next.map(|next| next.head_after(before_next));
    let pieces = [
        head.as_ref().map_or(&[][..], OptionHead::as_slice),
        value.unwrap_or_default(),
        next_head.as_ref().map_or(&[][..], OptionHead::as_slice),
    ];
    let added: usize = pieces.iter().map(|piece| piece.len()).sum();
    let new_length = length - old.len() + added;
    if new_length > buffer.len() {
        return None;
    }
    buffer.copy_within(old.end..length, old.start + added);
    let mut at = old.start;
    for piece in pieces {
        buffer[at..at + piece.len()].copy_from_slice(piece);
        at += piece.len();
    }
    Some(new_length)
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::{Code, MessageId, Options, Type, Writer};

    fn written(token: &[u8], options: &Options, payload: &[u8]) -> Vec<u8> {
        let mut buffer = [0; 4096];
        let (kind, id) = (Type::Confirmable, MessageId(7));
        let mut writer = Writer::new(&mut buffer, kind, Code::GET, id, token).unwrap();
        options.encode(&mut writer).unwrap();
        writer.payload(payload).unwrap();
        let length = writer.finish();
        buffer[..length].to_vec()
    }

    fn edited(message: &[u8], number: u16, value: Option<&[u8]>) -> Option<Vec<u8>> {
        let mut buffer = message.to_vec();
        buffer.resize(message.len() + 300, 0xee);
        let length = set_option(&mut buffer, message.len(), OptionNumber(number), value)?;
        buffer.truncate(length);
        Some(buffer)
    }

    #[test]
    fn option_is_added_changed_and_removed() {
        let bare = [0x41, 1, 0, 7, 9, 0xb1, b'x', 0xff, b'p'];
        let empty = [0x41, 1, 0, 7, 9, 0xb1, b'x', 0xe0, 0xfd, 0x04, 0xff, b'p'];
        let third = [
            0x41, 1, 0, 7, 9, 0xb1, b'x', 0xe1, 0xfd, 0x04, 3, 0xff, b'p',
        ];
        let number = 65_052;
        assert_eq!(edited(&bare, number, Some(&[])).unwrap(), empty);
        assert_eq!(edited(&empty, number, Some(&[3])).unwrap(), third);
        assert_eq!(edited(&third, number, Some(&[])).unwrap(), empty);
        assert_eq!(edited(&third, number, None).unwrap(), bare);
        assert_eq!(edited(&bare, number, None).unwrap(), bare);
    }

    #[test]
    fn failed_edit_leaves_the_message_unchanged() {
        let number = OptionNumber(65_052);
        let mut full = [0x40, 1, 0, 7, 0, 0];
        assert_eq!(set_option(&mut full, 4, number, Some(&[3])), None);
        assert_eq!(full, [0x40, 1, 0, 7, 0, 0]);
        for wrong in [&[0x40, 0, 0, 7][..], &[0x40, 1, 0, 7, 0xff], &[0x40], &[]] {
            assert_eq!(edited(wrong, number.0, Some(&[])), None, "{wrong:02x?}");
        }
        assert_eq!(set_option(&mut full, 9, number, None), None);
    }

    proptest! {
        #[test]
        fn edited_message_equals_a_newly_written_one(
            token in prop_oneof![vec(any::<u8>(), 0..=16), vec(any::<u8>(), 260..280)],
            options in vec((prop_oneof![0..40_u16, 250..300_u16, any::<u16>()], vec(any::<u8>(), 0..20)), 0..8),
            payload in vec(any::<u8>(), 0..5),
            own in prop_oneof![0..40_u16, 250..300_u16, any::<u16>()],
            value in proptest::option::of(vec(any::<u8>(), 0..20)),
        ) {
            let mut all = Options::new();
            for (number, value) in &options {
                all.push(OptionNumber(*number), value).unwrap();
            }
            let before = written(&token, &all, &payload);
            all.remove(OptionNumber(own));
            let without = written(&token, &all, &payload).len();
            if let Some(value) = &value {
                all.push(OptionNumber(own), value).unwrap();
            }
            let expected = written(&token, &all, &payload);
            let found = edited(&before, own, value.as_deref()).unwrap();
            prop_assert_eq!(&found, &expected);
            if value.is_some_and(|value| value.len() <= 1) {
                prop_assert!(found.len() <= without + SMALL_OPTION_BYTES);
            }
        }
    }
}
