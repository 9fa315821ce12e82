//! Requests and responses as owned values.

use bytes::Bytes;

use crate::codec::{Code, ContentFormat, MessageView, OptionNumber, Options, OptionsError};

/// A request to be sent: method, options, body.
///
/// Options that the engine manages (Block1, Block2, Size1, Size2) may be set by the application
/// only with [`BlockMode::Manual`](crate::endpoint::BlockMode::Manual).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The method.
    pub code: Code,
    /// Its options.
    pub options: Options,
    /// Its whole body; split into blocks as needed.
    pub payload: Bytes,
}

impl Request {
    /// A request without options or body.
    pub fn new(method: Code) -> Self {
        debug_assert!(method.is_request(), "{method} is no method");
        Self {
            code: method,
            options: Options::default(),
            payload: Bytes::new(),
        }
    }

    /// A GET.
    pub fn get() -> Self {
        Self::new(Code::GET)
    }

    /// The same with Uri-Path options for the segments of `path` (`"a/b"`; no percent-decoding).
    pub fn with_path(mut self, path: &str) -> Result<Self, OptionsError> {
        for segment in path.split('/').filter(|s| !s.is_empty()) {
            self.options
                .push(OptionNumber::URI_PATH, segment.as_bytes())?;
        }
        Ok(self)
    }

    /// The same with a body.
    pub fn with_payload(mut self, payload: impl Into<Bytes>) -> Self {
        self.payload = payload.into();
        self
    }
}

/// A response: to be sent by a server, or received by a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// The response code.
    pub code: Code,
    /// Its options.
    pub options: Options,
    /// Its body.
    pub payload: Payload,
}

/// The body of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Payload {
    /// The whole representation. If it needs several blocks, the engine keeps it for the peer
    /// that is reading it, so that all blocks are of one state.
    Whole(Bytes),
    /// The whole representation, which every request for it will produce alike; the engine
    /// keeps nothing.
    Fixed(Bytes),
    /// The part that was asked for (see [`Wanted`](crate::blockwise::Wanted)), for
    /// representations too large or too lively to be held whole.
    Part {
        /// Where it begins in the whole, in bytes; what was asked for.
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
    /// The bytes at hand.
    pub fn bytes(&self) -> &Bytes {
        match self {
            Self::Whole(bytes) | Self::Fixed(bytes) | Self::Part { bytes, .. } => bytes,
        }
    }
}

impl Response {
    /// A response without options or body.
    pub fn new(code: Code) -> Self {
        Self {
            code,
            options: Options::default(),
            payload: Payload::Whole(Bytes::new()),
        }
    }

    /// 2.05 Content with a body of the given format.
    pub fn content(format: ContentFormat, payload: impl Into<Bytes>) -> Self {
        let mut response = Self::new(Code::CONTENT);
        response.payload = Payload::Whole(payload.into());
        response.set_format(format);
        response
    }

    /// An error with a diagnostic payload for people (RFC 7252 5.5.2).
    pub fn diagnostic(code: Code, text: &str) -> Self {
        let mut response = Self::new(code);
        response.payload = Payload::Whole(Bytes::copy_from_slice(text.as_bytes()));
        response
    }

    /// Sets Content-Format.
    pub fn set_format(&mut self, format: ContentFormat) {
        self.options
            .set_uint(OptionNumber::CONTENT_FORMAT, u32::from(format.0))
            .expect("one short option always fits");
    }

    /// The Content-Format, if the response has one.
    pub fn format(&self) -> Option<ContentFormat> {
        let number = self.options.uint(OptionNumber::CONTENT_FORMAT)?;
        u16::try_from(number).ok().map(ContentFormat)
    }

    /// Its body's bytes.
    pub fn bytes(&self) -> &Bytes {
        self.payload.bytes()
    }

    /// The owned form of a message received.
    pub fn from_view(view: &MessageView<'_>) -> Result<Self, OptionsError> {
        Ok(Self {
            code: view.code(),
            options: Options::from_view(view)?,
            payload: Payload::Whole(Bytes::copy_from_slice(view.payload())),
        })
    }
}
