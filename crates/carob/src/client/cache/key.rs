//! Cache keys: the parts that two requests must share for one response to answer both.

use std::sync::Arc;

use carob_proto::cache_key::CacheKey;
use carob_proto::codec::{Code, OptionNumber, Options};

/// Options of requests that bypass the cache: for a part of a representation, more than one
/// response or none, a conditional operation, or validation by the application.
const NOT_FOR_CACHES: [OptionNumber; 10] = [
    OptionNumber::IF_MATCH,
    OptionNumber::ETAG,
    OptionNumber::IF_NONE_MATCH,
    OptionNumber::OBSERVE,
    OptionNumber::OSCORE,
    OptionNumber::Q_BLOCK1,
    OptionNumber::BLOCK2,
    OptionNumber::BLOCK1,
    OptionNumber::Q_BLOCK2,
    OptionNumber::NO_RESPONSE,
];

/// The target of a request: its URI, and the address it is sent to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Target(Arc<[u8]>);

/// The Cache-Key: the parts that two requests must share for one response to answer both (RFC 7252
/// 5.6, 5.4.2; RFC 8132 2 for FETCH).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    // First, so that keys of one target are neighbours.
    target: Target,
    request: Arc<[u8]>,
}

impl Target {
    /// `authority` names the endpoint that receives the request: scheme, host and port, and an
    /// address if one was given.
    pub(super) fn new(authority: &str, options: &Options) -> Self {
        let mut bytes = Vec::with_capacity(64);
        push(&mut bytes, authority.as_bytes());
        CacheKey::Resource.write_options(options, &mut bytes);
        Self(bytes.into())
    }
}

impl Key {
    /// Returns the key of a request, unless the request bypasses the cache.
    pub(super) fn new(
        target: Target,
        method: Code,
        options: &Options,
        body: &[u8],
    ) -> Option<Self> {
        let excluded = |number: &OptionNumber| options.contains(*number);
        if !method.is_safe() || NOT_FOR_CACHES.iter().any(excluded) {
            return None;
        }
        let request = CacheKey::Response.of(method, options, body);
        Some(Self {
            target,
            request: request.into(),
        })
    }

    /// A key before all others of a target.
    pub(super) fn first_of(target: &Target) -> Self {
        Self {
            target: target.clone(),
            request: Arc::new([]),
        }
    }

    pub(super) fn is_of(&self, target: &Target) -> bool {
        self.target == *target
    }

    pub(super) fn bytes(&self) -> usize {
        self.target.0.len() + self.request.len()
    }
}

fn push(bytes: &mut Vec<u8>, value: &[u8]) {
    bytes.extend_from_slice(&(value.len() as u32).to_be_bytes());
    bytes.extend_from_slice(value);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(all: &[(OptionNumber, &[u8])]) -> Options {
        let mut options = Options::new();
        for (number, value) in all {
            options.push(*number, value).unwrap();
        }
        options
    }

    fn key(all: &[(OptionNumber, &[u8])]) -> Option<Key> {
        let options = options(all);
        Key::new(
            Target::new("coap://h:5683", &options),
            Code::GET,
            &options,
            b"",
        )
    }

    #[test]
    fn options_that_matter_make_another_key() {
        let (path, query) = (OptionNumber::URI_PATH, OptionNumber::URI_QUERY);
        let all = [
            key(&[]),
            key(&[(path, b"a")]),
            key(&[(path, b"ab")]),
            key(&[(path, b"a"), (path, b"b")]),
            key(&[(path, b"a"), (query, b"b")]),
            key(&[(path, b"a"), (OptionNumber::ACCEPT, b"b")]),
            key(&[(path, b"a"), (OptionNumber(65_001), b"b")]),
        ];
        for (n, one) in all.iter().enumerate() {
            assert!(one.is_some());
            assert!(!all[..n].contains(one), "{n}");
        }
    }

    #[test]
    fn no_cache_key_options_do_not_change_the_key() {
        for number in [OptionNumber::SIZE2, OptionNumber::ECHO] {
            assert!(number.is_no_cache_key());
            assert_eq!(key(&[(number, b"x")]), key(&[]), "{number}");
        }
    }

    #[test]
    fn method_endpoint_and_body_are_part_of_it() {
        let options = options(&[(OptionNumber::URI_PATH, b"a")]);
        let key = |authority, method, body| {
            Key::new(Target::new(authority, &options), method, &options, body)
        };
        let all = [
            key("coap://h:5683", Code::GET, &b""[..]),
            key("coap://h:5684", Code::GET, b""),
            key("coap://h:5683", Code::FETCH, b""),
            key("coap://h:5683", Code::FETCH, b"x"),
        ];
        for (n, one) in all.iter().enumerate() {
            assert!(one.is_some() && !all[..n].contains(one), "{n}");
        }
    }

    #[test]
    fn uncacheable_requests_have_no_key() {
        for number in NOT_FOR_CACHES {
            assert_eq!(key(&[(number, b"")]), None, "{number}");
        }
        let (target, none) = (
            Target::new("coap://h:5683", &Options::new()),
            Options::new(),
        );
        for method in [Code::PUT, Code::POST, Code::DELETE, Code::PATCH, Code(0x1f)] {
            assert_eq!(
                Key::new(target.clone(), method, &none, b""),
                None,
                "{method}"
            );
        }
    }
}
