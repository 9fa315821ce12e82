//! A resource: an answer for each method it knows.

use std::fmt;
use std::sync::Arc;

use carob_proto::codec::{Code, OptionNumber};
use carob_proto::link_format::{LinkEntry, is_attribute_name};
use carob_proto::message::{Payload, Response};

use super::handler::Blocking;
use super::{Handler, IntoResponse, Request, UploadHandler};

/// What a path answers, method by method; other methods are answered 4.05.
#[derive(Clone, Debug, Default)]
pub struct Resource {
    actions: Vec<(Code, Action)>,
    /// Name, and value if it has one.
    attributes: Vec<(String, Option<String>)>,
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

    /// An attribute in `/.well-known/core`, such as `rt`, `if` or `title` (RFC 6690 3). A name that
    /// is none ([`is_attribute_name`]) is an error when the server starts.
    ///
    /// `ct` and `sz` of fixed content are there already; given here, they take their place.
    ///
    /// [`is_attribute_name`]: carob_proto::link_format::is_attribute_name
    pub fn attribute(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.attributes.push((name.into(), Some(value.into())));
        self
    }

    /// An attribute without a value in `/.well-known/core`.
    pub fn flag(mut self, name: impl Into<String>) -> Self {
        self.attributes.push((name.into(), None));
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

    pub(crate) fn is_listed(&self) -> bool {
        !self.unlisted
    }

    /// The first attribute whose name cannot be one.
    pub(crate) fn bad_attribute(&self) -> Option<&str> {
        let mut names = self.attributes.iter().map(|(name, _)| name.as_str());
        names.find(|name| !is_attribute_name(name))
    }

    /// Says about itself what `/.well-known/core` tells: its own attributes, then `ct` and `sz` of
    /// fixed content.
    pub(crate) fn describe(&self, mut link: LinkEntry<'_>) {
        for (name, value) in &self.attributes {
            link = match value {
                Some(value) => link.attribute(name, value),
                None => link.flag(name),
            };
        }
        let given = |name: &str| {
            let mut names = self.attributes.iter().map(|(given, _)| given);
            names.any(|given| given.eq_ignore_ascii_case(name))
        };
        if let Some(Action::Fixed(fixed)) = self.action(Code::GET) {
            if let Some(format) = fixed.format.filter(|_| !given("ct")) {
                link = link.number("ct", format.into());
            }
            if !given("sz") {
                link.number("sz", fixed.response.bytes().len() as u64);
            }
        }
    }
}
