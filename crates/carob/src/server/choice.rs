//! Which of a resource's answers a request gets, by its method and options.

use std::sync::LazyLock;

use carob_proto::codec::{Code, ContentFormat, MessageView, OptionNumber};
use carob_proto::message::Response;

use super::resource::Offer;
use super::{Resource, Router};

static METHOD_NOT_ALLOWED: LazyLock<Response> =
    LazyLock::new(|| Response::new(Code::METHOD_NOT_ALLOWED));
static NOT_ACCEPTABLE: LazyLock<Response> = LazyLock::new(|| Response::new(Code::NOT_ACCEPTABLE));
static UNSUPPORTED_FORMAT: LazyLock<Response> =
    LazyLock::new(|| Response::new(Code::UNSUPPORTED_CONTENT_FORMAT));

/// What the options of a request say about which answer it gets.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    accept: Option<ContentFormat>,
    /// The format of its body.
    format: Option<ContentFormat>,
    pub(crate) etags: bool,
}

impl Asked {
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
                _ => {}
            }
        }
        asked
    }
}

/// The format an answer comes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offered {
    /// Whichever is asked for, as far as is known here.
    Any,
    Format(ContentFormat),
    /// One without a number: good for who asks for none.
    Unnamed,
}

impl Offered {
    fn suits(self, accept: Option<ContentFormat>) -> bool {
        match (self, accept) {
            (_, None) | (Self::Any, _) => true,
            (Self::Format(format), Some(accept)) => format == accept,
            (Self::Unnamed, Some(_)) => false,
        }
    }
}

impl Resource {
    /// The answer that a request gets, or why it gets none.
    pub(crate) fn choose(&self, method: Code, asked: &Asked) -> Result<&Offer, &'static Response> {
        let mut offers = self.offers(method).peekable();
        if offers.peek().is_none() {
            return Err(&METHOD_NOT_ALLOWED);
        }
        if let Some(format) = asked.format {
            let said = self.takes.iter().find(|(other, _)| *other == method);
            if said.is_some_and(|(_, formats)| !formats.contains(&format)) {
                return Err(&UNSUPPORTED_FORMAT);
            }
        }
        let chosen = offers.find(|offer| offer.format.suits(asked.accept));
        chosen.ok_or(&NOT_ACCEPTABLE)
    }
}
