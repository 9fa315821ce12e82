//! What is done before and after a handler, so that handlers need not.

use carob_proto::codec::{Code, ContentFormat};
use carob_proto::message::Response;

use super::Request;
use super::choice::Offered;
use super::handler::Answering;
use super::resource::Offer;

/// What surrounds the call of a handler.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    /// The format of its answers that name none.
    format: Option<ContentFormat>,
}

impl Frame {
    pub(crate) fn new(offer: &Offer) -> Self {
        let format = match offer.format {
            Offered::Format(format) => Some(format),
            Offered::Any | Offered::Unnamed => None,
        };
        Self { format }
    }

    /// Has a request answered.
    pub(crate) async fn run(
        self,
        request: Request,
        handler: impl FnOnce(Request) -> Answering,
    ) -> Response {
        let mut response = handler(request).await;
        if let Some(format) = self.format
            && response.code == Code::CONTENT
            && response.format().is_none()
        {
            response.set_format(format);
        }
        response
    }
}
