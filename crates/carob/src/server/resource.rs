//! A resource: an answer for each method it knows.

use std::fmt;
use std::sync::Arc;

use carob_proto::codec::{Code, OptionNumber};
use carob_proto::message::{Payload, Response};

use super::handler::Blocking;
use super::{Handler, IntoResponse, Request, UploadHandler};

/// What a path answers, method by method; other methods are answered 4.05.
#[derive(Clone, Debug, Default)]
pub struct Resource {
    actions: Vec<(Code, Action)>,
    attributes: Vec<(String, String)>,
    unlisted: bool,
}

/// How one method is answered.
#[derive(Clone)]
pub(crate) enum Action {
    /// In the driver itself, without a task or an allocation.
    Fixed(Arc<Fixed>),
    Handler(Arc<dyn Handler>),
    Upload(Arc<dyn UploadHandler>),
}

impl fmt::Debug for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fixed(_) => "Fixed",
            Self::Handler(_) => "Handler",
            Self::Upload(_) => "Upload",
        })
    }
}

/// Content that does not change.
#[derive(Debug)]
pub(crate) struct Fixed {
    pub(crate) response: Response,
    /// 2.03, for who has it already (RFC 7252 5.10.6.2).
    pub(crate) valid: Response,
    pub(crate) format: Option<u32>,
    pub(crate) etag: Option<Box<[u8]>>,
}

/// A resource that answers GET with a handler.
pub fn get(handler: impl Handler) -> Resource {
    Resource::new().get(handler)
}

/// A resource that answers GET with content that does not change.
pub fn fixed(content: impl IntoResponse) -> Resource {
    Resource::new().fixed(content)
}

impl Resource {
    /// A resource without methods.
    pub fn new() -> Self {
        Self::default()
    }

    /// Answers GET with content that does not change: no task, no allocation, however often it is
    /// asked for. Accept (4.06) and ETag (2.03) are seen to.
    pub fn fixed(self, content: impl IntoResponse) -> Self {
        let mut response = content.into_response();
        // The engine need not keep it for who reads it block by block.
        if let Payload::Whole(bytes) = response.payload {
            response.payload = Payload::Fixed(bytes);
        }
        let etag = response.options.first(OptionNumber::ETAG).map(Box::from);
        let mut valid = Response::new(Code::VALID);
        if let Some(etag) = &etag {
            valid
                .options
                .push(OptionNumber::ETAG, etag)
                .expect("it fitted the other response");
        }
        let format = response.options.uint(OptionNumber::CONTENT_FORMAT);
        self.with(
            Code::GET,
            Action::Fixed(Arc::new(Fixed {
                response,
                valid,
                format,
                etag,
            })),
        )
    }

    /// Answers GET.
    pub fn get(self, handler: impl Handler) -> Self {
        self.on(Code::GET, handler)
    }

    /// Answers PUT.
    pub fn put(self, handler: impl Handler) -> Self {
        self.on(Code::PUT, handler)
    }

    /// Answers POST.
    pub fn post(self, handler: impl Handler) -> Self {
        self.on(Code::POST, handler)
    }

    /// Answers DELETE.
    pub fn delete(self, handler: impl Handler) -> Self {
        self.on(Code::DELETE, handler)
    }

    /// Answers a method, FETCH, PATCH and iPATCH among them.
    pub fn on(self, method: Code, handler: impl Handler) -> Self {
        self.with(method, Action::Handler(Arc::new(handler)))
    }

    /// Answers a method with a function that blocks: it runs on a thread for such.
    pub fn on_blocking<R: IntoResponse + 'static>(
        self,
        method: Code,
        handler: impl Fn(Request) -> R + Send + Sync + 'static,
    ) -> Self {
        self.on(method, Blocking(Arc::new(handler)))
    }

    /// Answers a method whose body is taken block by block as it arrives, however large.
    pub fn on_upload(self, method: Code, handler: impl UploadHandler) -> Self {
        self.with(method, Action::Upload(Arc::new(handler)))
    }

    /// An attribute in `/.well-known/core`, such as `rt` or `if` (RFC 6690 3).
    pub fn attribute(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.attributes.push((name.into(), value.into()));
        self
    }

    /// Keeps the resource out of `/.well-known/core`.
    pub fn unlisted(mut self) -> Self {
        self.unlisted = true;
        self
    }

    fn with(mut self, method: Code, action: Action) -> Self {
        self.actions.retain(|(other, _)| *other != method);
        self.actions.push((method, action));
        self
    }

    pub(crate) fn action(&self, method: Code) -> Option<&Action> {
        self.actions
            .iter()
            .find(|(other, _)| *other == method)
            .map(|(_, action)| action)
    }

    pub(crate) fn uploads(&self, method: Code) -> bool {
        matches!(self.action(method), Some(Action::Upload(_)))
    }

    pub(crate) fn has_uploads(&self) -> bool {
        self.actions
            .iter()
            .any(|(_, action)| matches!(action, Action::Upload(_)))
    }

    /// Its link's attributes, `ct` and `sz` of fixed content among them; nothing if unlisted.
    pub(crate) fn link_attributes(&self) -> Option<Vec<(&str, String)>> {
        if self.unlisted {
            return None;
        }
        let mut all: Vec<_> = self
            .attributes
            .iter()
            .map(|(name, value)| (name.as_str(), value.clone()))
            .collect();
        if let Some(Action::Fixed(fixed)) = self.action(Code::GET) {
            let length = fixed.response.bytes().len();
            all.extend(fixed.format.map(|format| ("ct", format.to_string())));
            all.push(("sz", length.to_string()));
        }
        Some(all)
    }
}
