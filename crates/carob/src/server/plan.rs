//! Planning of a request's handling: its route, and the handler that its method and options select.

use std::net::SocketAddr;
use std::sync::{Arc, LazyLock};

use carob_cc::time::Instant;
use carob_proto::codec::{
    Code, ContentFormat, MessageView, OptionNumber, Options, OptionsError, Uri,
};
use carob_proto::endpoint::{Endpoint, Incoming, Part};
use carob_proto::message::Response;

use super::handler::Follow;
use super::health::Health;
use super::pattern::Pattern;
use super::pipeline::HandlerPipeline;
use super::resource::{Action, Fixed, Offer};
use super::responder::UploadKey;
use super::router::{ForwardTarget, Route};
use super::{Handler, Notifier, Resource, Router, UploadHandler, conditions};

static NOT_FOUND: LazyLock<Response> =
    LazyLock::new(|| Response::diagnostic(Code::NOT_FOUND, "no such resource"));
/// A request's handler, with the steps before and after it.
pub(super) struct Plan {
    pub(super) work: Work,
    pub(super) pipeline: HandlerPipeline,
    pub(super) route: Arc<Pattern>,
    /// The URI of a request to a proxy for a resource of this server.
    pub(super) own: Option<Uri>,
}

pub(super) struct HandlerWork {
    pub(super) handler: Arc<dyn Handler>,
    /// The notifier of the resource, and the pipeline of its notifications.
    pub(super) observed: Option<(Notifier, HandlerPipeline)>,
    pub(super) follow: Option<Arc<dyn Follow>>,
}

pub(super) enum Work {
    Handler(HandlerWork),
    Upload {
        handler: Arc<dyn UploadHandler>,
        part: Option<Part>,
        key: UploadKey,
    },
}

/// Response of a request without a handler.
pub(super) enum Immediate<'r> {
    Fixed(&'r Response),
    Made(Box<Response>),
    /// A challenge: the request must be fresh.
    Challenge,
}

/// The server as a request finds it.
pub(super) struct Planner<'r> {
    pub(super) router: &'r Router,
    /// The address at which the request arrived.
    pub(super) local: SocketAddr,
    /// Handlers that run, and their limit.
    pub(super) handlers: (usize, usize),
    /// Open sessions of the transport, and their limit.
    pub(super) sessions: Option<(usize, usize)>,
}

impl<'r> Planner<'r> {
    /// Finds the handler of a request; `path` is a buffer for its path. Error: the response to a request
    /// without a handler.
    pub(super) fn plan(
        &self,
        endpoint: &Endpoint,
        now: Instant,
        incoming: &Incoming<'_>,
        path: &mut Vec<u8>,
    ) -> Result<Plan, Immediate<'r>> {
        let Self { router, local, .. } = *self;
        let message = &incoming.message;
        let negotiation = Negotiation::read(message, path);
        let (route, own) = route_of(router, message, path, local)?;
        let resource = &route.resource;
        if router.forward().is_some()
            && resource.follow().is_none()
            && let Some(number) = endpoint.unsupported_critical_option(message)
        {
            // The engine let it through for a proxy, which would forward it.
            let text = format!("option {} is not recognized", number.0);
            let refusal = Response::diagnostic(Code::BAD_OPTION, &text);
            return Err(Immediate::Made(Box::new(refusal)));
        }
        if resource.must_be_fresh(message.code()) && !incoming.fresh {
            return Err(Immediate::Challenge);
        }
        let offer = resource.choose(message, &negotiation);
        let offer = offer.map_err(Immediate::Fixed)?;
        let work = match &offer.action {
            Action::Fixed(fixed) => {
                return Err(Immediate::Fixed(fixed.answer(message, &negotiation)));
            }
            Action::Health(format) => {
                let health = Health::of(endpoint, now, self.handlers, self.sessions);
                return Err(Immediate::Made(Box::new(health.answer(*format))));
            }
            Action::Handler(handler) => Work::Handler(HandlerWork {
                handler: Arc::clone(handler),
                // Conditions and entity tags belong to one request, not to all observers.
                observed: resource.notifier().map(|notifier| {
                    let none = Negotiation::default();
                    let pipeline = HandlerPipeline::new(resource, offer, &none);
                    (notifier.clone(), pipeline)
                }),
                follow: resource.follow().cloned(),
            }),
            Action::Upload(handler) => Work::Upload {
                handler: Arc::clone(handler),
                part: incoming.part,
                key: UploadKey::of(incoming),
            },
        };
        Ok(Plan {
            work,
            pipeline: HandlerPipeline::new(resource, offer, &negotiation),
            route: Arc::clone(&route.pattern),
            own,
        })
    }
}

/// The route of a request, and its URI if a proxy was asked for a resource of this server; `path` is
/// its path, and then the URI's. Error: the response of a request without a route.
fn route_of<'r>(
    router: &'r Router,
    message: &MessageView<'_>,
    path: &mut Vec<u8>,
    local: SocketAddr,
) -> Result<(&'r Route, Option<Uri>), Immediate<'r>> {
    let mut own = None;
    let forwarded = match router.forward() {
        None => None,
        Some(forward) => forward.asked(message, local).map_err(Immediate::Made)?,
    };
    let route = match forwarded {
        None => router.find(path),
        Some(ForwardTarget::Elsewhere(route)) => Some(route),
        Some(ForwardTarget::Own(uri)) => {
            path.clear();
            for segment in uri.path() {
                Router::push_segment(path, segment.as_bytes());
            }
            own = Some(uri);
            router.find(path)
        }
    };
    match route {
        Some(route) => Ok((route, own)),
        // An unknown method is not allowed on any resource (RFC 7252 5.8).
        None if message.code().name().is_none() => Err(Immediate::Fixed(&METHOD_NOT_ALLOWED)),
        None => Err(Immediate::Fixed(&NOT_FOUND)),
    }
}

/// The options of a request for a proxy that this server answers itself: as if it had been asked
/// directly (RFC 7252 5.7.2).
pub(super) fn addressed(message: &MessageView<'_>, uri: &Uri) -> Result<Options, OptionsError> {
    let mut options = uri.options().clone();
    for option in message.options() {
        if !option.number.is_of_uri() {
            options.push(option.number, option.value)?;
        }
    }
    Ok(options)
}

pub(crate) static METHOD_NOT_ALLOWED: LazyLock<Response> =
    LazyLock::new(|| Response::new(Code::METHOD_NOT_ALLOWED));
static NOT_ACCEPTABLE: LazyLock<Response> = LazyLock::new(|| Response::new(Code::NOT_ACCEPTABLE));

static UNSUPPORTED_FORMAT: LazyLock<Response> =
    LazyLock::new(|| Response::new(Code::UNSUPPORTED_CONTENT_FORMAT));

static CONDITION_FAILED: LazyLock<Response> =
    LazyLock::new(|| Response::new(Code::PRECONDITION_FAILED));
static NO_CONDITIONS: LazyLock<Response> = LazyLock::new(|| {
    let text = "If-Match and If-None-Match are not supported here";
    Response::diagnostic(Code::BAD_OPTION, text)
});

/// The options of a request that select its handler.
#[derive(Debug, Default)]
pub(crate) struct Negotiation {
    accept: Option<ContentFormat>,
    /// The format of its body.
    format: Option<ContentFormat>,
    /// The request has entity tags to be validated.
    pub(super) etags: bool,
    /// The request has If-Match or If-None-Match.
    pub(super) conditional: bool,
}

impl Negotiation {
    /// Reads them in one go, the path into `path` as [`Router::find`] wants it.
    pub(crate) fn read(message: &MessageView<'_>, path: &mut Vec<u8>) -> Self {
        path.clear();
        let mut asked = Self::default();
        for option in message.options() {
            // Longer than two bytes, a format counts as not recognized (RFC 7252 5.4.3); the
            // engine has refused an Accept like that.
            let format = || u16::try_from(option.uint()?).ok().map(ContentFormat);
            match option.number {
                OptionNumber::URI_PATH => Router::push_segment(path, option.value),
                OptionNumber::ACCEPT => asked.accept = format(),
                OptionNumber::CONTENT_FORMAT => asked.format = format(),
                OptionNumber::ETAG => asked.etags = true,
                OptionNumber::IF_MATCH | OptionNumber::IF_NONE_MATCH => asked.conditional = true,
                _ => {}
            }
        }
        asked
    }
}

/// The format of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MediaType {
    /// Any format that Accept names; the handler decides.
    Any,
    Format(ContentFormat),
    /// Content without a Content-Format, for requests without Accept.
    Unnamed,
}

impl MediaType {
    fn suits(self, accept: Option<ContentFormat>) -> bool {
        match (self, accept) {
            // Without Accept, the first offer counts (RFC 7252 5.10.4).
            (_, None) | (Self::Any, _) => true,
            (Self::Format(format), Some(accept)) => format == accept,
            (Self::Unnamed, Some(_)) => false,
        }
    }
}

impl Resource {
    /// Returns the offer for a request, or the refusal.
    pub(crate) fn choose(
        &self,
        request: &MessageView<'_>,
        asked: &Negotiation,
    ) -> Result<&Offer, &'static Response> {
        let method = request.code();
        let mut offers = self.offers(method).peekable();
        if offers.peek().is_none() {
            return Err(&METHOD_NOT_ALLOWED);
        }
        if let Some(format) = asked.format {
            let accepted = self.takes.iter().find(|(other, _)| *other == method);
            if accepted.is_some_and(|(_, formats)| !formats.contains(&format)) {
                return Err(&UNSUPPORTED_FORMAT);
            }
        }
        let chosen = offers.find(|offer| offer.format.suits(asked.accept));
        let chosen = chosen.ok_or(&*NOT_ACCEPTABLE)?;
        if asked.conditional {
            self.check_fixed(request, chosen)?;
        }
        Ok(chosen)
    }

    /// Checks the preconditions against a known state, such as fixed content. With an
    /// unknown state the options are unsupported, and they are critical (RFC 7252 5.4.1).
    fn check_fixed(
        &self,
        request: &MessageView<'_>,
        chosen: &Offer,
    ) -> Result<(), &'static Response> {
        let asks = !matches!(chosen.action, Action::Fixed(_));
        if asks && (self.state.is_some() || self.own_conditions) {
            return Ok(());
        }
        let mut fixed = self.offers.iter().filter_map(|offer| match &offer.action {
            Action::Fixed(fixed) => Some(fixed),
            _ => None,
        });
        // Of every format: a condition is about the state, not one of its representations.
        let tags = fixed.clone().filter_map(|fixed| fixed.response.etag());
        if fixed.next().is_none() {
            return Err(&NO_CONDITIONS);
        }
        let is_current = |value: &[u8]| tags.clone().any(|tag| tag.as_slice() == value);
        if conditions::hold(request.options(), true, is_current) {
            Ok(())
        } else {
            Err(&CONDITION_FAILED)
        }
    }
}

impl Fixed {
    /// The content, or 2.03 if the request names its entity tag (RFC 7252 5.10.6.2).
    pub(crate) fn answer(&self, request: &MessageView<'_>, asked: &Negotiation) -> &Response {
        match &self.valid {
            Some((tag, valid)) if asked.etags => {
                let mut known = request.values(OptionNumber::ETAG);
                if known.any(|known| known == tag.as_slice()) {
                    valid
                } else {
                    &self.response
                }
            }
            _ => &self.response,
        }
    }
}
