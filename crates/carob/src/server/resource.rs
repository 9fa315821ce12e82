//! Resources: the handlers of a path by method, and its attributes.

use std::fmt;
use std::sync::Arc;

use carob_proto::codec::{Code, ContentFormat, ETag};
use carob_proto::link_format::{LinkEntry, is_attribute_name};
use carob_proto::message::{Payload, Response};

use super::conditions::BlockingState;
use super::handler::Blocking;
use super::handler::Follow;
use super::plan::MediaType;
use super::{Handler, IntoResponse, IntoState, Notifier, Request, StateTag, UploadHandler};

/// Handlers of a path, by method. Other methods are answered 4.05.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use carob::server::{Refusal, Request, Resource};
/// use carob::{Client, Code, ContentFormat, ETag, Response, Server};
///
/// async fn read(request: Request) -> Result<Response, Refusal> {
///     let id: u32 = request.parameter("id").unwrap_or_default().parse()?;
///     if id > 7 {
///         return Err(Refusal::not_found("no such sensor"));
///     }
///     let text = format!("{{\"sensor\":{id}}}");
///     // A request with this tag gets 2.03 without the body.
///     Ok(Response::new(Code::CONTENT).with_etag(ETag::of(text.as_bytes())).with_payload(text))
/// }
///
/// let sensor = Resource::new().get_as(ContentFormat::JSON, read);
/// let server = Server::builder().bind("127.0.0.1:0").resource("/sensors/{id}", sensor).start().await?;
/// let at = server.local_address();
/// let client = Client::new()?;
/// assert_eq!(client.get(format!("coap://{at}/sensors/7")).await?.text(), Some("{\"sensor\":7}"));
/// assert_eq!(client.get(format!("coap://{at}/sensors/8")).await?.code, Code::NOT_FOUND);
/// # Ok(())
/// # }
/// ```
///
/// **Formats.** A method can have handlers for several formats ([`get_as`](Self::get_as)). Accept
/// selects one; without Accept the first is used; if none matches, the response is 4.06 (RFC 7252
/// section 5.10.4).
///
/// **Entity tags.** A 2.05 whose entity tag is among the request's ETag options becomes a 2.03
/// without a payload (RFC 7252 section 5.10.6.2).
///
/// **Preconditions.** A request with If-Match or If-None-Match is answered 4.02 unless the resource
/// has a [`state_tag`](Self::state_tag) or [`own_conditions`](Self::own_conditions).
///
/// Every method that sets a handler replaces the earlier handlers of the same request method,
/// except those that name a format (`*_as`), which add to them.
#[derive(Clone, Default)]
pub struct Resource {
    pub(super) offers: Vec<Offer>,
    /// The accepted formats of request bodies, by method; none listed: any.
    pub(super) takes: Vec<(Code, Vec<ContentFormat>)>,
    notifier: Option<Notifier>,
    pub(super) state: Option<Arc<dyn StateTag>>,
    /// Its handlers check preconditions themselves.
    pub(super) own_conditions: bool,
    /// The relay of a resource observed at another server.
    follow: Option<Arc<dyn Follow>>,
    /// Name, and value if any.
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

/// One offer for a method.
#[derive(Clone, Debug)]
pub(crate) struct Offer {
    pub(super) method: Code,
    pub(crate) format: MediaType,
    pub(crate) action: Action,
}

/// The handling of a method.
#[derive(Clone)]
pub(crate) enum Action {
    /// Served by the driver, without a task or an allocation.
    Fixed(Arc<Fixed>),
    /// Likewise: the server's health, in this format.
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
    /// The entity tag, and the 2.03 for requests that name it (RFC 7252 5.10.6.2).
    pub(super) valid: Option<(ETag, Response)>,
}

/// Creates a resource with a GET handler.
pub fn get(handler: impl Handler) -> Resource {
    Resource::new().get(handler)
}

/// Creates a resource whose GET returns constant content.
pub fn fixed(content: impl IntoResponse) -> Resource {
    Resource::new().fixed(content)
}

impl Resource {
    /// Creates a resource without methods.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets constant content for GET. It is returned without a task or an allocation; Accept (4.06)
    /// and ETag (2.03) are processed.
    pub fn fixed(self, content: impl IntoResponse) -> Self {
        let response = content.into_response();
        let format = response
            .format()
            .map_or(MediaType::Unnamed, MediaType::Format);
        self.with(Code::GET, format, Action::fixed(response))
    }

    /// Adds constant content in a format for GET, besides the formats set before.
    pub fn fixed_as(self, format: ContentFormat, content: impl IntoResponse) -> Self {
        let mut response = content.into_response();
        response = response.with_format(format);
        let format = MediaType::Format(format);
        self.with_another(Code::GET, format, Action::fixed(response))
    }

    /// Creates the health resource.
    pub(super) fn health() -> Self {
        let formats = [
            ContentFormat::TEXT_PLAIN,
            ContentFormat::JSON,
            ContentFormat::CBOR,
        ];
        let add = |resource: Self, format| {
            resource.with_another(Code::GET, MediaType::Format(format), Action::Health(format))
        };
        formats.into_iter().fold(Self::new(), add).unlisted()
    }

    /// Sets the handler of GET, for all formats.
    pub fn get(self, handler: impl Handler) -> Self {
        self.on(Code::GET, handler)
    }

    /// Adds a handler of GET for a format, besides the formats set before.
    pub fn get_as(self, format: ContentFormat, handler: impl Handler) -> Self {
        self.on_as(Code::GET, format, handler)
    }

    /// Sets the handler of PUT.
    pub fn put(self, handler: impl Handler) -> Self {
        self.on(Code::PUT, handler)
    }

    /// Sets the handler of POST.
    pub fn post(self, handler: impl Handler) -> Self {
        self.on(Code::POST, handler)
    }

    /// Sets the handler of DELETE.
    pub fn delete(self, handler: impl Handler) -> Self {
        self.on(Code::DELETE, handler)
    }

    /// Sets the handler of FETCH, whose request body selects parts of the resource (RFC 8132
    /// section 2).
    pub fn fetch(self, handler: impl Handler) -> Self {
        self.on(Code::FETCH, handler)
    }

    /// Sets the handler of PATCH, a partial update (RFC 8132 section 3). Codes: 2.04; 2.01 if a
    /// resource was created; 4.15 or 4.22 for a patch that cannot be applied; 4.09 for a conflict
    /// with the resource's state (RFC 8132 section 3.4).
    pub fn patch(self, handler: impl Handler) -> Self {
        self.on(Code::PATCH, handler)
    }

    /// Sets the handler of iPATCH, an idempotent partial update (RFC 8132 section 3). A duplicate
    /// request may reach the handler again, as with PUT.
    pub fn ipatch(self, handler: impl Handler) -> Self {
        self.on(Code::IPATCH, handler)
    }

    /// Sets the handler of any method, for all formats; [`Request::accept`] is the format
    /// requested.
    pub fn on(self, method: Code, handler: impl Handler) -> Self {
        self.with(method, MediaType::Any, Action::Handler(Arc::new(handler)))
    }

    /// Adds a handler of any method for a format, besides the formats set before. A 2.05 without
    /// Content-Format gets this one (RFC 7252 section 5.10.3).
    pub fn on_as(self, method: Code, format: ContentFormat, handler: impl Handler) -> Self {
        let action = Action::Handler(Arc::new(handler));
        self.with_another(method, MediaType::Format(format), action)
    }

    /// Sets the Content-Formats accepted in request bodies of a method. Others are answered 4.15; a
    /// body without Content-Format is accepted (RFC 7252 sections 5.5.1, 5.9.2.10). Default: all.
    pub fn takes(mut self, method: Code, formats: impl IntoIterator<Item = ContentFormat>) -> Self {
        self.takes.retain(|(other, _)| *other != method);
        self.takes.push((method, formats.into_iter().collect()));
        self
    }

    /// Sets a blocking function as the handler of a method. It runs on a thread of tokio's blocking
    /// pool.
    pub fn on_blocking<R: IntoResponse + 'static>(
        self,
        method: Code,
        handler: impl Fn(Request) -> R + Send + Sync + 'static,
    ) -> Self {
        self.on(method, Blocking(Arc::new(handler)))
    }

    /// Sets a handler that receives the request body block by block, so that it is not held in
    /// memory as a whole. Example: [`Upload`](super::Upload).
    pub fn on_upload(self, method: Code, handler: impl UploadHandler) -> Self {
        self.with(method, MediaType::Any, Action::Upload(Arc::new(handler)))
    }

    /// Sets the source of the resource's state: its entity tag, or its absence.
    ///
    /// If-Match and If-None-Match are then checked before the handler of any method runs; if they
    /// fail, the response is 4.12 (RFC 7252 section 5.10.8). The source is called for such requests
    /// only.
    ///
    /// The state may change before the handler runs. A handler that competes with others checks
    /// again while it writes ([`Request::preconditions_hold`]).
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use carob::server::{Request, Resource};
    /// use carob::{Client, Code, ETag, OptionNumber, Server};
    ///
    /// // The resource exists, in a version with this tag.
    /// let file = Resource::new()
    ///     .put(|_: Request| async { Code::CHANGED })
    ///     .state_tag(|_: Request| async { ETag::of(b"version 1") });
    /// let server = Server::builder().bind("127.0.0.1:0").resource("/file", file).start().await?;
    /// let uri = format!("coap://{}/file", server.local_address());
    /// let create = Client::new()?.put(uri).option(OptionNumber::IF_NONE_MATCH, "").body("new");
    /// assert_eq!(create.await?.code, Code::PRECONDITION_FAILED);
    /// # Ok(())
    /// # }
    /// ```
    pub fn state_tag(mut self, state: impl StateTag) -> Self {
        self.state = Some(Arc::new(state));
        self
    }

    /// Sets a blocking function as the source of the resource's state, as
    /// [`state_tag`](Self::state_tag) does. It runs on a thread of tokio's blocking pool.
    pub fn state_tag_blocking<S: IntoState + 'static>(
        self,
        state: impl Fn(Request) -> S + Send + Sync + 'static,
    ) -> Self {
        self.state_tag(BlockingState(Arc::new(state)))
    }

    /// Passes If-Match and If-None-Match to the handlers, which must check them (RFC 7252 section
    /// 5.10.8).
    pub fn own_conditions(mut self) -> Self {
        self.own_conditions = true;
        self
    }

    /// Adds an attribute to the resource's link in `/.well-known/core`, such as `rt`, `if` or
    /// `title` (RFC 6690 section 3). An invalid name ([`is_attribute_name`]) is an error of
    /// [`ServerBuilder::start`](super::ServerBuilder::start).
    ///
    /// The attributes `ct` and `sz` of constant content and `obs` are set automatically; `ct` and
    /// `sz` given here take precedence.
    ///
    /// [`is_attribute_name`]: carob_proto::link_format::is_attribute_name
    pub fn attribute(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.attributes.push((name.into(), Some(value.into())));
        self
    }

    /// Adds an attribute without a value to the resource's link in `/.well-known/core`.
    pub fn flag(mut self, name: impl Into<String>) -> Self {
        self.attributes.push((name.into(), None));
        self
    }

    /// Makes the resource observable (RFC 7641). After each change that `notifier` reports, the GET
    /// or FETCH handler runs, and its response is sent to the observers. The link in
    /// `/.well-known/core` gets the attribute `obs` (RFC 7641 section 6). Example: [`Notifier`].
    pub fn observable(mut self, notifier: &Notifier) -> Self {
        self.notifier = Some(notifier.clone());
        self
    }

    /// Sets the source of states that are observed at an origin, for a proxy. The resource then
    /// also accepts requests that only a proxy may process.
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

    /// Requires freshness of all requests but GET and FETCH: a request without a valid Echo option
    /// is answered 4.01 with one, and the client repeats it with that (RFC 9175 section 2.3). An
    /// attacker then cannot delay a request beyond
    /// [`echo_lifetime`](carob_proto::endpoint::Config::echo_lifetime), or replay it later.
    ///
    /// Of a body received block by block, the first block must be fresh.
    pub fn fresh(mut self) -> Self {
        self.fresh = true;
        self
    }

    pub(crate) fn must_be_fresh(&self, method: Code) -> bool {
        self.fresh && !method.is_safe()
    }

    /// Omits the resource from `/.well-known/core`.
    pub fn unlisted(mut self) -> Self {
        self.unlisted = true;
        self
    }

    fn with(mut self, method: Code, format: MediaType, action: Action) -> Self {
        self.offers.retain(|offer| offer.method != method);
        self.with_another(method, format, action)
    }

    fn with_another(mut self, method: Code, format: MediaType, action: Action) -> Self {
        let offer = Offer {
            method,
            format,
            action,
        };
        // A streamed body has one handler.
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

    /// Returns the first invalid attribute name.
    pub(crate) fn bad_attribute(&self) -> Option<&str> {
        let mut names = self.attributes.iter().map(|(name, _)| name.as_str());
        names.find(|name| !is_attribute_name(name))
    }

    /// Writes the attributes of the link in `/.well-known/core`: its own; then `ct`, the known
    /// formats of GET (RFC 7252 7.2.1), and `sz`, the size of the largest if all are fixed (RFC
    /// 6690 3.3).
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
                MediaType::Format(format) => Some(format.0.to_string()),
                _ => None,
            })
            .collect();
        // Once and without a value (RFC 7641 6).
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
        // The engine need not cache fixed content for later blocks.
        if let Payload::Whole(bytes) = response.payload {
            response.payload = Payload::Fixed(bytes);
        }
        let valid = response.etag().zip(response.validated());
        Self::Fixed(Arc::new(Fixed { response, valid }))
    }
}
