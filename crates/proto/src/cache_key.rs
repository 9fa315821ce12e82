//! Cache-Keys (RFC 7252 5.4.2): the options in which two requests must agree to share a response,
//! an observation or a block-wise transfer.

use alloc::vec::Vec;

use crate::codec::{Code, MessageView, OptionNumber, OptionView, Options};

/// Ends the options where a payload follows. No option has this number and this length.
const PAYLOAD: [u8; 6] = [0xff; 6];

/// The options that form a key. NoCacheKey options (RFC 7252 5.4.6) are never included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheKey {
    /// The key of a block-wise transfer: without Observe, block options, and If-None-Match, which
    /// only the first block carries (RFC 7959 2.4, 2.10).
    Transfer,
    /// The key of an observation: without Observe, ETag and block options. One notification serves
    /// all observers with the same key (RFC 7641 2, 3.1).
    Observation,
    /// The key of a stored response, besides the URI: all options but the URI's.
    Response,
    /// The key of a resource: only the options of the URI (RFC 7252 5.10.1, 5.10.2).
    Resource,
}

impl CacheKey {
    /// Returns whether options of this number are part of the key.
    pub const fn has(self, number: OptionNumber) -> bool {
        let left_out = match self {
            Self::Transfer => matches!(
                number,
                OptionNumber::OBSERVE
                    | OptionNumber::BLOCK1
                    | OptionNumber::BLOCK2
                    | OptionNumber::Q_BLOCK1
                    | OptionNumber::Q_BLOCK2
                    | OptionNumber::IF_NONE_MATCH
            ),
            Self::Observation => matches!(
                number,
                OptionNumber::OBSERVE
                    | OptionNumber::ETAG
                    | OptionNumber::BLOCK1
                    | OptionNumber::BLOCK2
                    | OptionNumber::Q_BLOCK1
                    | OptionNumber::Q_BLOCK2
            ),
            Self::Response => number.is_of_uri(),
            Self::Resource => !number.is_of_uri(),
        };
        !left_out && !number.is_no_cache_key()
    }

    /// Appends the options that are part of the key. Each is preceded by its number and length, so
    /// that different lists have different encodings.
    pub fn write_options<'a>(
        self,
        options: impl IntoIterator<Item = OptionView<'a>>,
        key: &mut Vec<u8>,
    ) {
        for option in options {
            if self.has(option.number) {
                key.extend_from_slice(&option.number.0.to_be_bytes());
                // At most 65,804 bytes (RFC 7252 3.1).
                key.extend_from_slice(&(option.value.len() as u32).to_be_bytes());
                key.extend_from_slice(option.value);
            }
        }
    }

    /// Returns the key of a request with this method, these options and this payload.
    pub fn of<'a>(
        self,
        method: Code,
        options: impl IntoIterator<Item = OptionView<'a>>,
        payload: &[u8],
    ) -> Vec<u8> {
        let mut key = Vec::with_capacity(32);
        key.push(method.0);
        self.write_options(options, &mut key);
        if !payload.is_empty() {
            key.extend_from_slice(&PAYLOAD);
            key.extend_from_slice(payload);
        }
        key
    }

    /// Returns the key of a request's block-wise transfer. For FETCH it includes the payload, which
    /// is part of the request (RFC 8132 2.1), unless the payload is itself a block.
    pub fn of_transfer(request: &MessageView<'_>) -> Vec<u8> {
        let asks = request.code() == Code::FETCH
            && request.option(OptionNumber::BLOCK1).is_none()
            && request.option(OptionNumber::Q_BLOCK1).is_none();
        let payload = if asks { request.payload() } else { &[] };
        Self::Transfer.of(request.code(), request.options(), payload)
    }

    /// Returns the key of a request's resource, without its method.
    pub(crate) fn of_resource(options: &Options) -> Vec<u8> {
        let mut key = Vec::with_capacity(32);
        Self::Resource.write_options(options, &mut key);
        key
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    fn key(of: CacheKey, options: &[(OptionNumber, &[u8])], payload: &[u8]) -> Vec<u8> {
        let mut all = Options::new();
        for (number, value) in options {
            all.push(*number, value).expect("they fit");
        }
        of.of(Code::FETCH, &all, payload)
    }

    #[test]
    fn no_cache_key_options_are_excluded() {
        let all = [
            CacheKey::Transfer,
            CacheKey::Observation,
            CacheKey::Response,
            CacheKey::Resource,
        ];
        for of in all {
            for number in [OptionNumber::SIZE1, OptionNumber::SIZE2, OptionNumber::ECHO] {
                assert_eq!(key(of, &[(number, b"1")], b""), key(of, &[], b""));
            }
        }
    }

    #[test]
    fn each_key_has_its_options() {
        use CacheKey::{Observation, Resource, Response, Transfer};
        let rows = [
            (
                OptionNumber::URI_PATH,
                vec![Transfer, Observation, Resource],
            ),
            (OptionNumber::ACCEPT, vec![Transfer, Observation, Response]),
            (OptionNumber::ETAG, vec![Transfer, Response]),
            (OptionNumber::BLOCK2, vec![Response]),
            (OptionNumber::OBSERVE, vec![Response]),
            (
                OptionNumber::REQUEST_TAG,
                vec![Transfer, Observation, Response],
            ),
            (OptionNumber::IF_NONE_MATCH, vec![Observation, Response]),
        ];
        for (number, keys) in rows {
            for of in [Transfer, Observation, Response, Resource] {
                assert_eq!(of.has(number), keys.contains(&of), "{number} {of:?}");
            }
        }
    }

    #[test]
    fn options_and_payload_are_delimited_in_the_key() {
        let (path, query) = (OptionNumber::URI_PATH, OptionNumber::URI_QUERY);
        let all = [
            key(CacheKey::Transfer, &[], b""),
            key(CacheKey::Transfer, &[(path, b"ab")], b""),
            key(CacheKey::Transfer, &[(path, b"a"), (path, b"b")], b""),
            key(CacheKey::Transfer, &[(path, b"a"), (query, b"b")], b""),
            key(CacheKey::Transfer, &[(path, b"a")], b"b"),
            key(CacheKey::Transfer, &[], &[0, 11, 0, 0, 0, 2, b'a', b'b']),
        ];
        for (n, one) in all.iter().enumerate() {
            assert!(!all[..n].contains(one), "{n}");
        }
    }
}
