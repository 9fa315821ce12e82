//! Requests and responses as owned values.

use core::time::Duration;

use bytes::Bytes;

use crate::codec::{
    Code, ContentFormat, ETag, MessageView, NoResponse, OptionNumber, Options, OptionsError,
};

/// A request to be sent: method, options, body.
///
/// Options that the engine manages (Block1, Block2, Size1, Size2) may be set by the application
/// only with [`BlockMode::Manual`](crate::endpoint::BlockMode::Manual).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The request method.
    pub code: Code,
    /// The request options.
    pub options: Options,
    /// The whole body; split into blocks as needed.
    pub payload: Bytes,
}

impl Request {
    /// Creates a request without options or body.
    pub fn new(method: Code) -> Self {
        debug_assert!(method.is_request(), "{method} is no method");
        Self {
            code: method,
            options: Options::default(),
            payload: Bytes::new(),
        }
    }

    /// Creates a GET.
    pub fn get() -> Self {
        Self::new(Code::GET)
    }

    /// Adds Uri-Path options for the segments of `path` (`"a/b"`; no percent-decoding).
    ///
    /// # Errors
    ///
    /// [`OptionsError`] if a segment is too long, or the options become too large.
    pub fn with_path(mut self, path: &str) -> Result<Self, OptionsError> {
        for segment in path.split('/').filter(|s| !s.is_empty()) {
            self.options
                .push(OptionNumber::URI_PATH, segment.as_bytes())?;
        }
        Ok(self)
    }

    /// Sets the classes of responses that are not wanted (RFC 7967). A server that supports the
    /// option suppresses responses of these classes, or sends only an empty ACK.
    ///
    /// The option has no effect on observations and on bodies that need blocks.
    pub fn with_no_response(mut self, unwanted: NoResponse) -> Self {
        self.options
            .set_uint(OptionNumber::NO_RESPONSE, unwanted.value())
            .expect("one short option always fits");
        self
    }

    /// Sets the body.
    pub fn with_payload(mut self, payload: impl Into<Bytes>) -> Self {
        self.payload = payload.into();
        self
    }
}

/// The default Max-Age of a response: 60 s (RFC 7252 5.10.5).
pub(crate) const DEFAULT_MAX_AGE: Duration = Duration::from_secs(60);

/// A response: to be sent by a server, or received by a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// The response code.
    pub code: Code,
    /// The response options.
    pub options: Options,
    /// The response body.
    pub payload: Payload,
}

/// The body of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Payload {
    /// The whole representation. If it needs several blocks, the engine stores it in the response
    /// cache while the peer reads it, so that all blocks belong to one state. A 2.05 without an entity
    /// tag gets one. Such a tag does not match an If-Match.
    Whole(Bytes),
    /// The whole representation, identical for every request; the engine does not store it.
    Fixed(Bytes),
    /// The requested part (see [`RequestedBlock`](crate::blockwise::RequestedBlock)), for
    /// representations too large or too variable to be held whole.
    Part {
        /// The requested offset in the whole, in bytes.
        offset: u64,
        /// The bytes; of one block's size unless it is the end.
        bytes: Bytes,
        /// More follows.
        more: bool,
        /// Size of the whole in bytes, if known; sent as Size2 with the first block.
        size: Option<u64>,
    },
}

impl Payload {
    /// Returns whether it is the whole body.
    pub(crate) const fn is_whole(&self) -> bool {
        !matches!(self, Self::Part { .. })
    }

    /// The bytes of the body or the part.
    pub(crate) fn bytes(&self) -> &Bytes {
        match self {
            Self::Whole(bytes) | Self::Fixed(bytes) | Self::Part { bytes, .. } => bytes,
        }
    }
}

impl Response {
    /// Creates a response without options or body.
    pub fn new(code: Code) -> Self {
        Self {
            code,
            options: Options::default(),
            payload: Payload::Whole(Bytes::new()),
        }
    }

    /// Creates a 2.05 Content with a body of the given format.
    pub fn content(format: ContentFormat, payload: impl Into<Bytes>) -> Self {
        Self::new(Code::CONTENT)
            .with_payload(payload)
            .with_format(format)
    }

    /// Creates an error with a diagnostic payload for people (RFC 7252 5.5.2).
    pub fn diagnostic(code: Code, text: &str) -> Self {
        let mut response = Self::new(code);
        response.payload = Payload::Whole(Bytes::copy_from_slice(text.as_bytes()));
        response
    }

    /// Creates a 4.29 Too Many Requests: the client is to wait this long, in whole seconds, before
    /// the next request (RFC 8516 3).
    pub fn too_many_requests(wait: Duration) -> Self {
        Self::new(Code::TOO_MANY_REQUESTS).with_max_age(wait)
    }

    /// Sets the body, without a Content-Format.
    pub fn with_payload(mut self, payload: impl Into<Bytes>) -> Self {
        self.payload = Payload::Whole(payload.into());
        self
    }

    /// Returns the diagnostic payload of an error: the payload of a response of class 4 or 5, if it
    /// is UTF-8, not empty and without a Content-Format (RFC 7252 5.5.2).
    pub fn diagnostic_text(&self) -> Option<&str> {
        if !matches!(self.code.class(), 4 | 5)
            || self.options.contains(OptionNumber::CONTENT_FORMAT)
        {
            return None;
        }
        let text = core::str::from_utf8(self.bytes()).ok()?;
        (!text.is_empty()).then_some(text)
    }

    /// Sets Content-Format (RFC 7252 5.10.3).
    pub fn with_format(mut self, format: ContentFormat) -> Self {
        self.options
            .set_uint(OptionNumber::CONTENT_FORMAT, u32::from(format.0))
            .expect("one short option always fits");
        self
    }

    /// Sets the entity tag: the tag of the representation, or of the resource in Location-Path (RFC
    /// 7252 5.10.6.1).
    pub fn with_etag(mut self, tag: ETag) -> Self {
        self.options
            .set(OptionNumber::ETAG, tag.as_slice())
            .expect("one short option always fits");
        self
    }

    /// Sets Max-Age, in whole seconds (RFC 7252 5.10.5). Zero keeps caches from using the response.
    pub fn with_max_age(mut self, age: Duration) -> Self {
        let seconds = u32::try_from(age.as_secs()).unwrap_or(u32::MAX);
        self.options
            .set_uint(OptionNumber::MAX_AGE, seconds)
            .expect("one short option always fits");
        self
    }

    /// Sets Location-Path, the path of a created resource (`"a/b"`; no percent-decoding), for 2.01
    /// (RFC 7252 5.10.7). No segment may be `.` or `..`.
    ///
    /// # Errors
    ///
    /// [`OptionsError`] if a segment is too long, or the options become too large.
    pub fn with_location_path(mut self, path: &str) -> Result<Self, OptionsError> {
        for segment in path.split('/').filter(|s| !s.is_empty()) {
            self.options
                .push(OptionNumber::LOCATION_PATH, segment.as_bytes())?;
        }
        Ok(self)
    }

    /// Adds a Location-Query argument (RFC 7252 5.10.7).
    ///
    /// # Errors
    ///
    /// [`OptionsError`] if the argument is too long, or the options become too large.
    pub fn with_location_query(mut self, argument: &str) -> Result<Self, OptionsError> {
        self.options
            .push(OptionNumber::LOCATION_QUERY, argument.as_bytes())?;
        Ok(self)
    }

    /// Returns the entity tag, if the response has one.
    pub fn etag(&self) -> Option<ETag> {
        ETag::new(self.options.first(OptionNumber::ETAG)?)
    }

    /// Returns the freshness lifetime: Max-Age, or 60 s without it (RFC 7252 5.10.5).
    pub fn max_age(&self) -> Duration {
        self.options
            .uint(OptionNumber::MAX_AGE)
            .map_or(DEFAULT_MAX_AGE, |seconds| {
                Duration::from_secs(seconds.into())
            })
    }

    /// Returns the validation response: 2.03 with the options but without the body (RFC 7252
    /// 5.9.1.3). `None` without an entity tag.
    pub fn validated(&self) -> Option<Self> {
        self.etag()?;
        let mut options = self.options.clone();
        // It would describe a payload, which a 2.03 must not have (RFC 7252 5.9.1.3).
        options.remove(OptionNumber::CONTENT_FORMAT);
        Some(Self {
            code: Code::VALID,
            options,
            payload: Payload::Whole(Bytes::new()),
        })
    }

    /// Returns the Content-Format, if the response has one.
    pub fn format(&self) -> Option<ContentFormat> {
        let number = self.options.uint(OptionNumber::CONTENT_FORMAT)?;
        u16::try_from(number).ok().map(ContentFormat)
    }

    /// Returns the bytes of the body.
    pub fn bytes(&self) -> &Bytes {
        self.payload.bytes()
    }

    /// Returns the owned form of a received message. The payload is dropped if the code does not
    /// permit one (RFC 7252 5.5).
    ///
    /// # Errors
    ///
    /// [`OptionsError`] if the options do not fit [`Options`].
    pub(crate) fn from_view(view: &MessageView<'_>) -> Result<Self, OptionsError> {
        let payload = if view.code().has_payload() {
            view.payload()
        } else {
            &[]
        };
        Ok(Self {
            code: view.code(),
            options: Options::from_view(view)?,
            payload: Payload::Whole(Bytes::copy_from_slice(payload)),
        })
    }
}

#[cfg(test)]
mod tests {
    use alloc::borrow::ToOwned;

    use super::*;

    #[test]
    fn response_has_max_age_and_etag() {
        let tag = ETag::from(7);
        let response = Response::content(ContentFormat::JSON, "{}");
        assert_eq!(
            (response.max_age(), response.etag()),
            (DEFAULT_MAX_AGE, None)
        );
        let response = response
            .with_max_age(Duration::from_millis(1_999))
            .with_etag(tag);
        assert_eq!(response.max_age(), Duration::from_secs(1), "whole seconds");
        assert_eq!(response.etag(), Some(tag));
        let mut full = Response::new(Code::CONTENT);
        for length in [1_020, 1_020, 1_020, 1_022] {
            let option = full
                .options
                .push(OptionNumber(65_000), &alloc::vec![0; length]);
            option.expect("there is room");
        }
        let room = crate::codec::MAX_OPTIONS_LENGTH - full.options.encoded_len();
        assert!(room < 6, "{room}");
        assert_eq!(
            full.clone().with_max_age(Duration::ZERO).max_age(),
            Duration::ZERO
        );
        assert_eq!(full.with_etag(tag).etag(), Some(tag));
        let forever = Response::new(Code::CONTENT).with_max_age(Duration::MAX);
        assert_eq!(forever.max_age(), Duration::from_secs(u32::MAX.into()));
    }

    #[test]
    fn a_validated_response_keeps_all_but_its_body() {
        let response = Response::content(ContentFormat::JSON, "{}");
        assert_eq!(response.validated(), None, "nothing identifies it");
        let response = response
            .with_etag(ETag::from(7))
            .with_max_age(Duration::ZERO);
        let valid = response.validated().expect("it has a tag");
        assert_eq!((valid.code, valid.bytes().len()), (Code::VALID, 0));
        assert_eq!(
            (valid.etag(), valid.max_age()),
            (response.etag(), Duration::ZERO)
        );
        assert_eq!(valid.format(), None);
    }

    #[test]
    fn only_text_without_a_format_explains_an_error() {
        let text = |response: &Response| response.diagnostic_text().map(ToOwned::to_owned);
        let refused = Response::diagnostic(Code::NOT_FOUND, "no such sensor");
        assert_eq!(text(&refused).as_deref(), Some("no such sensor"));
        assert_eq!(text(&refused.with_format(ContentFormat::TEXT_PLAIN)), None);
        assert_eq!(text(&Response::diagnostic(Code::CONTENT, "a body")), None);
        assert_eq!(text(&Response::diagnostic(Code::NOT_FOUND, "")), None);
        let binary = Response::new(Code::BAD_GATEWAY).with_payload(&b"\xff"[..]);
        assert_eq!(text(&binary), None);
    }

    #[test]
    fn a_location_is_given_by_its_segments() {
        let created = Response::new(Code::CREATED)
            .with_location_path("/a/b c/")
            .and_then(|response| response.with_location_query("x=1"))
            .expect("they fit");
        let values = |number| created.options.values(number);
        assert!(values(OptionNumber::LOCATION_PATH).eq([&b"a"[..], b"b c"]));
        assert!(values(OptionNumber::LOCATION_QUERY).eq([b"x=1"]));
    }
}
