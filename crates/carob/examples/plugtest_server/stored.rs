//! Resources that store representations.

use std::future::ready;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use carob::server::{Refusal, Request, Resource};
use carob::{Code, ContentFormat, ETag, Response};

/// A representation and its format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Content {
    pub(crate) format: ContentFormat,
    pub(crate) bytes: Bytes,
}

impl Content {
    pub(crate) fn text(text: impl Into<Bytes>) -> Self {
        Self {
            format: ContentFormat::TEXT_PLAIN,
            bytes: text.into(),
        }
    }

    /// A request's payload; text without a Content-Format.
    pub(crate) fn of(request: &Request) -> Self {
        Self {
            format: request
                .content_format()
                .unwrap_or(ContentFormat::TEXT_PLAIN),
            bytes: request.payload().clone(),
        }
    }

    pub(crate) fn response(&self) -> Response {
        Response::content(self.format, self.bytes.clone())
    }
}

/// An optional representation that can be read, replaced and removed. Clones share it.
#[derive(Clone)]
pub(crate) struct Stored {
    content: Arc<Mutex<Option<Content>>>,
    /// Initial representation, restored by DELETE, so that each test finds it.
    initial: Option<Content>,
}

impl Stored {
    pub(crate) fn new(initial: Option<Content>) -> Self {
        Self {
            content: Arc::new(Mutex::new(initial.clone())),
            initial,
        }
    }

    fn content(&self) -> MutexGuard<'_, Option<Content>> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set(&self, content: Content) -> Code {
        match self.content().replace(content) {
            Some(_) => Code::CHANGED,
            None => Code::CREATED,
        }
    }

    fn read(&self) -> Result<Response, Refusal> {
        let content = self.content().clone();
        let content = content.ok_or_else(|| Refusal::not_found("nothing is here yet"))?;
        let tag = ETag::of(&content.bytes);
        Ok(content.response().with_etag(tag))
    }

    fn tag(&self) -> Option<ETag> {
        self.content()
            .as_ref()
            .map(|content| ETag::of(&content.bytes))
    }

    /// The resource with GET, PUT and DELETE, all optionally conditional.
    pub(crate) fn resource(&self) -> Resource {
        let (reading, putting, removing, tagged) =
            (self.clone(), self.clone(), self.clone(), self.clone());
        Resource::new()
            .get(move |_: Request| ready(reading.read()))
            .put(move |request: Request| ready(putting.set(Content::of(&request))))
            .delete(move |_: Request| {
                let initial = removing.initial.clone();
                *removing.content() = initial;
                ready(Code::DELETED)
            })
            .state_tag(move |_: Request| ready(tagged.tag()))
    }
}
