//! A resource: an answer for each method it knows.

use std::fmt;
use std::sync::Arc;

use carob_proto::codec::{Code, ContentFormat, ETag};
use carob_proto::link_format::{LinkEntry, is_attribute_name};
use carob_proto::message::{Payload, Response};

use super::choice::Offered;
use super::conditions::BlockingState;
use super::handler::Blocking;
use super::handler::Follow;
use super::{Handler, IntoResponse, IntoState, Notifier, Request, StateTag, UploadHandler};

/// What a path answers, method by method; other methods are answered 4.05.
///
/// A method may be answered in several formats ([`get_as`](Self::get_as)): the request's Accept
/// option chooses, the first is taken if there is none, and 4.06 is answered if what it asks for
/// is not there (RFC 7252 5.10.4).
///
/// A 2.05 with an entity tag that the request names becomes 2.03 without its body
/// (RFC 7252 5.10.6.2). Requests with If-Match or If-None-Match are answered 4.02 unless the state
/// of the resource can be told: see [`state_tag`](Self::state_tag).
#[derive(Clone, Default)]
pub struct Resource {
    pub(super) offers: Vec<Offer>,
    /// The formats of request bodies that methods take, where that was said.
    pub(super) takes: Vec<(Code, Vec<ContentFormat>)>,
    notifier: Option<Notifier>,
    pub(super) state: Option<Arc<dyn StateTag>>,
    /// Its handlers check conditions themselves.
    pub(super) own_conditions: bool,
    /// What follows the states that are observed elsewhere.
    follow: Option<Arc<dyn Follow>>,
    /// Name, and value if it has one.
    attributes: Vec<(String, Option<String>)>,
    unlisted: bool,
    fresh: bool,
}

impl fmt::Debug for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resource")
            .field("offers", &self.offers)
            .field("takes", &self.takes)
            .field("attributes", &self.attributes)
            .field("unlisted", &self.unlisted)
            .finish_non_exhaustive()
    }
}

/// One answer to a method.
#[derive(Clone, Debug)]
pub(crate) struct Offer {
    pub(super) method: Code,
    pub(crate) format: Offered,
    pub(crate) action: Action,
}

/// How a method is answered.
#[derive(Clone)]
pub(crate) enum Action {
    /// In the driver itself, without a task or an allocation.
    Fixed(Arc<Fixed>),
    /// Likewise: how the server fares, in this format.
    Health(ContentFormat),
    Handler(Arc<dyn Handler>),
    Upload(Arc<dyn UploadHandler>),
}

impl fmt::Debug for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fixed(_) => "Fixed",
            Self::Health(_) => "Health",
            Self::Handler(_) => "Handler",
            Self::Upload(_) => "Upload",
        })
    }
}

/// Content that does not change.
#[derive(Debug)]
pub(crate) struct Fixed {
    pub(super) response: Response,
    /// Its entity tag, and 2.03 for who has it already (RFC 7252 5.10.6.2).
    pub(super) valid: Option<(ETag, Response)>,
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
    ///
    /// This and every other way to answer a method takes the place of what was said of the method
    /// before, except those that name a format.
    pub fn fixed(self, content: impl IntoResponse) -> Self {
        let response = content.into_response();
        let format = response.format().map_or(Offered::Unnamed, Offered::Format);
        self.with(Code::GET, format, Action::fixed(response))
    }

    /// Answers GET with content that does not change in this format, and those that were named
    /// before in theirs.
    pub fn fixed_as(self, format: ContentFormat, content: impl IntoResponse) -> Self {
        let mut response = content.into_response();
        response.set_format(format);
        let format = Offered::Format(format);
        self.with_another(Code::GET, format, Action::fixed(response))
    }

    /// Answers GET with how the server fares.
    pub(super) fn health() -> Self {
        let formats = [
            ContentFormat::TEXT_PLAIN,
            ContentFormat::JSON,
            ContentFormat::CBOR,
        ];
        let add = |resource: Self, format| {
            resource.with_another(Code::GET, Offered::Format(format), Action::Health(format))
        };
        formats.into_iter().fold(Self::new(), add).unlisted()
    }

    /// Answers GET.
    pub fn get(self, handler: impl Handler) -> Self {
        self.on(Code::GET, handler)
    }

    /// Answers GET in this format, and in those that were named before.
    pub fn get_as(self, format: ContentFormat, handler: impl Handler) -> Self {
        self.on_as(Code::GET, format, handler)
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

    /// Answers FETCH: with what the query in the body asks for (RFC 8132 2).
    pub fn fetch(self, handler: impl Handler) -> Self {
        self.on(Code::FETCH, handler)
    }

    /// Answers PATCH, a change of a part (RFC 8132 3): 2.04, or 2.01 if something was created;
    /// 4.15 and 4.22 are for what cannot be applied, 4.09 for what the state does not allow
    /// (RFC 8132 3.4).
    pub fn patch(self, handler: impl Handler) -> Self {
        self.on(Code::PATCH, handler)
    }

    /// Answers iPATCH, a change of a part that is the same done twice as done once (RFC 8132 3).
    /// A repeated request may be passed on again, as with PUT.
    pub fn ipatch(self, handler: impl Handler) -> Self {
        self.on(Code::IPATCH, handler)
    }

    /// Answers a method, whatever format is asked for: see [`Request::accept`].
    pub fn on(self, method: Code, handler: impl Handler) -> Self {
        self.with(method, Offered::Any, Action::Handler(Arc::new(handler)))
    }

    /// Answers a method in this format, and in those that were named before. A 2.05 without a
    /// Content-Format gets it (RFC 7252 5.10.3).
    pub fn on_as(self, method: Code, format: ContentFormat, handler: impl Handler) -> Self {
        let action = Action::Handler(Arc::new(handler));
        self.with_another(method, Offered::Format(format), action)
    }

    /// Says in which formats a method takes bodies. Others are answered 4.15; a body whose format
    /// is not told is taken (RFC 7252 5.5.1, 5.9.2.10).
    pub fn takes(mut self, method: Code, formats: impl IntoIterator<Item = ContentFormat>) -> Self {
        self.takes.retain(|(other, _)| *other != method);
        self.takes.push((method, formats.into_iter().collect()));
        self
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
        self.with(method, Offered::Any, Action::Upload(Arc::new(handler)))
    }

    /// How to learn the resource's state: its current entity tag, or that it is not there.
    ///
    /// With it, If-Match and If-None-Match are checked before a handler of any method is called,
    /// and 4.12 is answered if they do not hold (RFC 7252 5.10.8). It is asked for such requests
    /// only. The state may change between this and the handler; a handler that others race with
    /// must check again when it writes ([`Request::preconditions_hold`]).
    pub fn state_tag(mut self, state: impl StateTag) -> Self {
        self.state = Some(Arc::new(state));
        self
    }

    /// The same with a function that blocks: it runs on a thread for such.
    pub fn state_tag_blocking<S: IntoState + 'static>(
        self,
        state: impl Fn(Request) -> S + Send + Sync + 'static,
    ) -> Self {
        self.state_tag(BlockingState(Arc::new(state)))
    }

    /// Leaves If-Match and If-None-Match to the handlers, which must look for them among the
    /// request's options (RFC 7252 5.10.8).
    pub fn own_conditions(mut self) -> Self {
        self.own_conditions = true;
        self
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

    /// Lets clients observe the resource (RFC 7641): whenever `notifier` says that it has changed,
    /// its GET or FETCH handler is called, and its observers are told. `/.well-known/core` says so
    /// with the attribute `obs` (RFC 7641 6).
    pub fn observable(mut self, notifier: &Notifier) -> Self {
        self.notifier = Some(notifier.clone());
        self
    }

    /// Has what is observed followed elsewhere: what a proxy does. Requests that only a proxy
    /// may answer are this resource's, too.
    pub(crate) fn following(mut self, follow: Arc<dyn Follow>) -> Self {
        self.follow = Some(follow);
        self
    }

    pub(crate) fn follow(&self) -> Option<&Arc<dyn Follow>> {
        self.follow.as_ref()
    }

    pub(crate) fn notifier(&self) -> Option<&Notifier> {
        self.notifier.as_ref()
    }

    /// Carries out only fresh requests, GET and FETCH apart: others are answered 4.01 with an Echo
    /// option, and clients repeat them with that (RFC 9175 2.3). So nobody can hold a request back
    /// for longer than [`Config::echo_lifetime`](carob_proto::endpoint::Config::echo_lifetime), or
    /// make it once more later.
    ///
    /// Of a body in blocks that is taken block by block, the first must be fresh.
    pub fn fresh(mut self) -> Self {
        self.fresh = true;
        self
    }

    pub(crate) fn must_be_fresh(&self, method: Code) -> bool {
        self.fresh && !method.is_safe()
    }

    /// Keeps the resource out of `/.well-known/core`.
    pub fn unlisted(mut self) -> Self {
        self.unlisted = true;
        self
    }

    fn with(mut self, method: Code, format: Offered, action: Action) -> Self {
        self.offers.retain(|offer| offer.method != method);
        self.with_another(method, format, action)
    }

    fn with_another(mut self, method: Code, format: Offered, action: Action) -> Self {
        let offer = Offer {
            method,
            format,
            action,
        };
        // A body that arrives block by block is for one handler.
        self.offers
            .retain(|other| other.method != method || !matches!(other.action, Action::Upload(_)));
        let same = |other: &&mut Offer| other.method == method && other.format == format;
        match self.offers.iter_mut().find(same) {
            Some(place) => *place = offer,
            None => self.offers.push(offer),
        }
        self
    }

    pub(super) fn offers(&self, method: Code) -> impl Iterator<Item = &Offer> {
        self.offers.iter().filter(move |o| o.method == method)
    }

    pub(crate) fn uploads(&self, method: Code) -> bool {
        self.offers(method)
            .any(|offer| matches!(offer.action, Action::Upload(_)))
    }

    pub(crate) fn has_uploads(&self) -> bool {
        self.offers
            .iter()
            .any(|offer| matches!(offer.action, Action::Upload(_)))
    }

    pub(crate) fn is_listed(&self) -> bool {
        !self.unlisted
    }

    /// The first attribute whose name cannot be one.
    pub(crate) fn bad_attribute(&self) -> Option<&str> {
        let mut names = self.attributes.iter().map(|(name, _)| name.as_str());
        names.find(|name| !is_attribute_name(name))
    }

    /// Says about itself what `/.well-known/core` tells: its own attributes; then `ct`, the formats
    /// of GET that are known (RFC 7252 7.2.1), and `sz`, the size of the largest if all are fixed
    /// (RFC 6690 3.3).
    pub(crate) fn describe(&self, mut link: LinkEntry<'_>) {
        let is_obs = |name: &str| name.eq_ignore_ascii_case("obs");
        for (name, value) in self.attributes.iter().filter(|(name, _)| !is_obs(name)) {
            link = match value {
                Some(value) => link.attribute(name, value),
                None => link.flag(name),
            };
        }
        let given = |name: &str| {
            let mut names = self.attributes.iter().map(|(given, _)| given);
            names.any(|given| given.eq_ignore_ascii_case(name))
        };
        let formats: Vec<_> = self
            .offers(Code::GET)
            .filter_map(|offer| match offer.format {
                Offered::Format(format) => Some(format.0.to_string()),
                _ => None,
            })
            .collect();
        // Once, and without a value, however it was given (RFC 7641 6).
        if self.notifier.is_some() || given("obs") {
            link = link.flag("obs");
        }
        if !formats.is_empty() && !given("ct") {
            link = link.attribute("ct", &formats.join(" "));
        }
        let size = |offer: &Offer| match &offer.action {
            Action::Fixed(fixed) => Some(fixed.response.bytes().len()),
            _ => None,
        };
        let sizes: Option<Vec<_>> = self.offers(Code::GET).map(size).collect();
        if let Some(largest) = sizes.and_then(|sizes| sizes.into_iter().max())
            && !given("sz")
        {
            link.number("sz", largest as u64);
        }
    }
}

impl Action {
    fn fixed(mut response: Response) -> Self {
        // The engine need not keep it for who reads it block by block.
        if let Payload::Whole(bytes) = response.payload {
            response.payload = Payload::Fixed(bytes);
        }
        let valid = response.etag().zip(response.validated());
        Self::Fixed(Arc::new(Fixed { response, valid }))
    }
}
