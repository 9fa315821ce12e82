//! Selection of a resource's handler by the method and options of a request.

use std::sync::LazyLock;

use carob_proto::codec::{Code, ContentFormat, MessageView, OptionNumber};
use carob_proto::message::Response;

use super::resource::{Action, Fixed, Offer};
use super::{Resource, Router, conditions};

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
