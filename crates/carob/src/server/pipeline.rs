//! Steps before and after a handler, so that handlers need not repeat them.

use std::sync::Arc;

use carob_proto::codec::{Code, ContentFormat, ETag};
use carob_proto::message::Response;

use super::handler::HandlerFuture;
use super::plan::{MediaType, Negotiation};
use super::resource::Offer;
use super::{IntoResponse as _, Request, Resource, StateTag};

/// The steps around the call of a handler.
#[derive(Clone, Default)]
pub(crate) struct HandlerPipeline {
    /// The source of the state for preconditions, if any.
    state: Option<Arc<dyn StateTag>>,
    /// The request has entity tags to be validated.
    etags: bool,
    /// The default format of responses.
    format: Option<ContentFormat>,
}

impl HandlerPipeline {
    pub(crate) fn new(resource: &Resource, offer: &Offer, asked: &Negotiation) -> Self {
        Self {
            state: resource.state.clone().filter(|_| asked.conditional),
            // Only a safe request asks for validation by ETag (RFC 7252 5.10.6.2).
            etags: asked.etags && offer.method.is_safe(),
            format: match offer.format {
                MediaType::Format(format) => Some(format),
                MediaType::Any | MediaType::Unnamed => None,
            },
        }
    }

    /// Runs the steps and the handler for a request.
    pub(crate) async fn run(
        self,
        request: Request,
        handler: impl FnOnce(Request) -> HandlerFuture,
    ) -> Response {
        // Before the handler: a request whose condition fails must not be performed (RFC 7252
        // 5.10.8).
        if let Some(state) = self.state {
            let current = match state.state(request.clone()).await {
                Ok(current) => current,
                Err(refusal) => return refusal.into_response(),
            };
            if !request.preconditions_hold(current) {
                return Response::new(Code::PRECONDITION_FAILED);
            }
        }
        // A later block of a body is not validated, because the client has the first one.
        let known: Vec<ETag> = if self.etags && request.wanted().offset == 0 {
            request.etags().collect()
        } else {
            Vec::new()
        };
        let mut response = handler(request).await;
        if response.code != Code::CONTENT {
            return response;
        }
        if let Some(valid) = response.validated()
            && valid.etag().is_some_and(|tag| known.contains(&tag))
        {
            return valid;
        }
        if let Some(format) = self.format.filter(|_| response.format().is_none()) {
            response = response.with_format(format);
        }
        response
    }
}
