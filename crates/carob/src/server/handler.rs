//! How a resource answers: any async function from a request to a response.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use carob_proto::codec::{Code, ContentFormat};
use carob_proto::message::Response;

use super::{Notifier, Refusal, Request, Upload};

/// A future in a box, as handlers return it.
pub(crate) type Answering = Pin<Box<dyn Future<Output = Response> + Send>>;

/// Answers requests.
///
/// Every call runs in a task of its own, so it may wait as long as it likes; but like any task it
/// must not block its thread. [`Resource::on_blocking`](super::Resource::on_blocking) is for what
/// does. A handler that panics answers 5.00.
pub trait Handler: Send + Sync + 'static {
    /// Answers one request.
    fn call(&self, request: Request) -> Answering;
}

impl<F, A> Handler for F
where
    F: Fn(Request) -> A + Send + Sync + 'static,
    A: Future<Output: IntoResponse> + Send + 'static,
{
    fn call(&self, request: Request) -> Answering {
        let answer = self(request);
        Box::pin(async move { answer.await.into_response() })
    }
}

/// Follows what requests observe elsewhere, as a proxy does.
///
/// The handlers of such a resource, and those that this gives, say with an Observe option in their
/// response whether the other side lets it be observed.
pub(crate) trait Follow: Send + Sync + 'static {
    /// Begins to follow what a request observes: the notifier is told of each new state but the
    /// first, and the handler answers with the newest. Dropping the handler ends it. Nothing if it
    /// is not to be followed; then the request is answered like any other.
    fn follow(&self, request: &Request, notifier: &Notifier) -> Option<Arc<dyn Handler>>;
}

/// Answers requests whose bodies arrive block by block.
pub trait UploadHandler: Send + Sync + 'static {
    /// Answers one request; its body comes from `upload`, its own payload is empty.
    fn call(&self, request: Request, upload: Upload) -> Answering;
}

impl<F, A> UploadHandler for F
where
    F: Fn(Request, Upload) -> A + Send + Sync + 'static,
    A: Future<Output: IntoResponse> + Send + 'static,
{
    fn call(&self, request: Request, upload: Upload) -> Answering {
        let answer = self(request, upload);
        Box::pin(async move { answer.await.into_response() })
    }
}

/// A function that blocks its thread, on a thread that may be blocked.
pub(super) struct Blocking<F>(pub(super) Arc<F>);

impl<F, R> Handler for Blocking<F>
where
    F: Fn(Request) -> R + Send + Sync + 'static,
    R: IntoResponse + 'static,
{
    fn call(&self, request: Request) -> Answering {
        let answer = Arc::clone(&self.0);
        Box::pin(async move {
            let answered = on_thread(move || Ok(answer(request).into_response()));
            answered.await.unwrap_or_else(Refusal::into_response)
        })
    }
}

/// Does what blocks on a thread that may be blocked; 5.00 if it panics.
pub(super) async fn on_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|_| Err(Refusal::internal_server_error("")))
}

/// What a handler may return.
pub trait IntoResponse {
    /// The response it stands for.
    fn into_response(self) -> Response;
}

impl IntoResponse for Response {
    fn into_response(self) -> Response {
        self
    }
}

/// A code alone.
impl IntoResponse for Code {
    fn into_response(self) -> Response {
        Response::new(self)
    }
}

/// 2.05 with text.
impl IntoResponse for &'static str {
    fn into_response(self) -> Response {
        Response::content(ContentFormat::TEXT_PLAIN, self)
    }
}

/// 2.05 with text.
impl IntoResponse for String {
    fn into_response(self) -> Response {
        Response::content(ContentFormat::TEXT_PLAIN, self)
    }
}

/// 2.05 with bytes.
impl IntoResponse for Bytes {
    fn into_response(self) -> Response {
        Response::content(ContentFormat::OCTET_STREAM, self)
    }
}

/// Whichever it is.
impl<T: IntoResponse, E: IntoResponse> IntoResponse for Result<T, E> {
    fn into_response(self) -> Response {
        match self {
            Ok(answer) => answer.into_response(),
            Err(error) => error.into_response(),
        }
    }
}
