//! Entity tags, which distinguish representations of a resource (RFC 7252 5.10.6).

use core::fmt;

/// An entity tag: one to eight bytes, opaque except to the server that assigned them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ETag {
    bytes: [u8; 8],
    length: u8,
}

impl ETag {
    /// Creates a tag of these bytes; `None` unless they are one to eight.
    pub fn new(tag: &[u8]) -> Option<Self> {
        let mut bytes = [0; 8];
        bytes.get_mut(..tag.len())?.copy_from_slice(tag);
        (!tag.is_empty()).then_some(Self {
            bytes,
            length: tag.len() as u8,
        })
    }

    /// Creates a tag of eight bytes for this content: its FNV-1a digest, so that equal content has
    /// equal tags. The digest does not resist collisions constructed on purpose.
    pub fn of(content: &[u8]) -> Self {
        let mix = |hash: u64, &byte: &u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        let hash = content.iter().fold(0xcbf2_9ce4_8422_2325, mix);
        Self {
            bytes: hash.to_be_bytes(),
            length: 8,
        }
    }

    /// Returns the tag's bytes.
    pub fn as_slice(&self) -> &[u8] {
        self.bytes.get(..self.length.into()).unwrap_or_default()
    }
}

/// A tag for a version counter, in as few bytes as possible.
impl From<u64> for ETag {
    fn from(state: u64) -> Self {
        let bytes = state.to_be_bytes();
        let skip = (state.leading_zeros() / 8).min(7) as usize;
        let tag = bytes.get(skip..).and_then(Self::new);
        tag.unwrap_or(Self { bytes, length: 8 })
    }
}

impl fmt::Display for ETag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_slice()
            .iter()
            .try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ETag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ETag({self})")
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn a_tag_has_one_to_eight_bytes() {
        assert_eq!(ETag::new(&[]), None);
        assert_eq!(ETag::new(&[0; 9]), None);
        for length in 1..=8 {
            let bytes = &[7; 8][..length];
            assert_eq!(ETag::new(bytes).expect("it fits").as_slice(), bytes);
        }
        assert_ne!(ETag::new(&[0]), ETag::new(&[0, 0]));
    }

    #[test]
    fn counter_etag_is_minimal() {
        let bytes = |state: u64| ETag::from(state).to_string();
        assert_eq!([0, 1, 0xff, 0x100].map(bytes), ["00", "01", "ff", "0100"]);
        assert_eq!(bytes(u64::MAX), "ffffffffffffffff");
    }

    #[test]
    fn content_has_the_tag_of_the_published_digest() {
        // Test vectors of FNV-1a, 64 bits.
        assert_eq!(ETag::of(b"").to_string(), "cbf29ce484222325");
        assert_eq!(ETag::of(b"a").to_string(), "af63dc4c8601ec8c");
        assert_eq!(ETag::of(b"foobar").to_string(), "85944171f73967e8");
    }
}
