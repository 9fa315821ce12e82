//! Handlers: async functions from a request to a response.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use carob_proto::codec::{Code, ContentFormat};
use carob_proto::message::Response;

use super::{Notifier, Refusal, Request, Upload};

/// Boxed future of a response, returned by a [`Handler`].
pub type HandlerFuture = Pin<Box<dyn Future<Output = Response> + Send>>;

/// Handler of requests. Any `async` function or closure from [`Request`] to an [`IntoResponse`]
/// implements it.
///
/// Each call runs in its own task and may wait. It must not block its thread;
/// [`Resource::on_blocking`](super::Resource::on_blocking) is for blocking functions. If a handler
/// panics, the response is 5.00.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use carob::server::{Handler, HandlerFuture, IntoResponse, Request, Resource};
/// use carob::{Client, Code, Server};
/// use std::sync::atomic::{AtomicU32, Ordering};
///
/// struct Counter(AtomicU32);
///
/// impl Handler for Counter {
///     fn call(&self, _: Request) -> HandlerFuture {
///         let count = self.0.fetch_add(1, Ordering::Relaxed);
///         Box::pin(async move { count.to_string().into_response() })
///     }
/// }
///
/// let resource = Resource::new().on(Code::GET, Counter(AtomicU32::new(7)));
/// let server = Server::builder().bind("127.0.0.1:0").resource("/count", resource).start().await?;
/// let uri = format!("coap://{}/count", server.local_address());
/// assert_eq!(Client::new()?.get(uri).await?.text(), Some("7"));
/// # Ok(())
/// # }
/// ```
pub trait Handler: Send + Sync + 'static {
    /// Processes one request.
    fn call(&self, request: Request) -> HandlerFuture;
}

impl<F, A> Handler for F
where
    F: Fn(Request) -> A + Send + Sync + 'static,
    A: Future<Output: IntoResponse> + Send + 'static,
{
    fn call(&self, request: Request) -> HandlerFuture {
        // Called here and not in the future, which would have to borrow the handler.
        let answer = self(request);
        Box::pin(async move { answer.await.into_response() })
    }
}

/// Observation of resources of another server, as by a proxy.
///
/// An Observe option in a handler's response shows that the other server accepted the registration.
pub(crate) trait Follow: Send + Sync + 'static {
    /// Registers at the server of the request's target. Each new representation but the first
    /// triggers `notifier`, and the returned handler responds with the newest; dropping it ends the
    /// observation. `None` for a target that is not observed; the request is handled like any other.
    fn follow(&self, request: &Request, notifier: &Notifier) -> Option<Arc<dyn Handler>>;
}

/// Handler of requests whose bodies are received block by block. Any `async` function or closure
/// from [`Request`] and [`Upload`] to an [`IntoResponse`] implements it; [`Upload`] has an example
/// of one. A type with state:
///
/// ```
/// use carob::server::{HandlerFuture, IntoResponse, Refusal, Request, Resource, Upload, UploadHandler};
/// use carob::{Code, Response};
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicUsize, Ordering};
///
/// #[derive(Default)]
/// struct Received(Arc<AtomicUsize>);
///
/// impl UploadHandler for Received {
///     fn call(&self, _: Request, mut upload: Upload) -> HandlerFuture {
///         let bytes = Arc::clone(&self.0);
///         Box::pin(async move {
///             loop {
///                 match upload.next().await {
///                     Ok(Some(block)) => _ = bytes.fetch_add(block.len(), Ordering::Relaxed),
///                     Ok(None) => return Response::new(Code::CHANGED),
///                     Err(error) => return Refusal::from(error).into_response(),
///                 }
///             }
///         })
///     }
/// }
///
/// let resource = Resource::new().on_upload(Code::PUT, Received::default());
/// # let _ = resource;
/// ```
pub trait UploadHandler: Send + Sync + 'static {
    /// Processes one request. Its payload is empty; the body is read from `upload`.
    fn call(&self, request: Request, upload: Upload) -> HandlerFuture;
}

impl<F, A> UploadHandler for F
where
    F: Fn(Request, Upload) -> A + Send + Sync + 'static,
    A: Future<Output: IntoResponse> + Send + 'static,
{
    fn call(&self, request: Request, upload: Upload) -> HandlerFuture {
        let answer = self(request, upload);
        Box::pin(async move { answer.await.into_response() })
    }
}

/// Adapter of a blocking function, run on a thread for blocking work.
pub(super) struct Blocking<F>(pub(super) Arc<F>);

impl<F, R> Handler for Blocking<F>
where
    F: Fn(Request) -> R + Send + Sync + 'static,
    R: IntoResponse + 'static,
{
    fn call(&self, request: Request) -> HandlerFuture {
        let answer = Arc::clone(&self.0);
        Box::pin(async move {
            let answered = on_thread(move || Ok(answer(request).into_response()));
            answered.await.unwrap_or_else(Refusal::into_response)
        })
    }
}

/// Runs a blocking function on a thread for blocking work; 5.00 if it panics.
pub(super) async fn on_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    let done = tokio::task::spawn_blocking(work).await;
    // The closure panicked. Its message is not for the client.
    done.unwrap_or_else(|_| Err(Refusal::internal_server_error("")))
}

/// Value that a handler returns: [`Response`], [`Code`], text, bytes, [`Refusal`], or a `Result` of
/// two of them.
///
/// ```
/// use carob::server::{IntoResponse, get};
/// use carob::{ContentFormat, Response};
///
/// struct Celsius(f32);
///
/// impl IntoResponse for Celsius {
///     fn into_response(self) -> Response {
///         Response::content(ContentFormat::JSON, format!("{{\"celsius\":{:.1}}}", self.0))
///     }
/// }
///
/// let resource = get(|_| async { Celsius(21.5) });
/// # let _ = resource;
/// ```
pub trait IntoResponse {
    /// Converts the value into a response.
    fn into_response(self) -> Response;
}

impl IntoResponse for Response {
    fn into_response(self) -> Response {
        self
    }
}

/// Response with this code and an empty payload.
impl IntoResponse for Code {
    fn into_response(self) -> Response {
        Response::new(self)
    }
}

/// 2.05 with the text as `text/plain`.
impl IntoResponse for &'static str {
    fn into_response(self) -> Response {
        Response::content(ContentFormat::TEXT_PLAIN, self)
    }
}

/// 2.05 with the text as `text/plain`.
impl IntoResponse for String {
    fn into_response(self) -> Response {
        Response::content(ContentFormat::TEXT_PLAIN, self)
    }
}

/// 2.05 with the bytes as `application/octet-stream`.
impl IntoResponse for Bytes {
    fn into_response(self) -> Response {
        Response::content(ContentFormat::OCTET_STREAM, self)
    }
}

/// 2.05 with the bytes as `application/octet-stream`.
impl IntoResponse for Vec<u8> {
    fn into_response(self) -> Response {
        Bytes::from(self).into_response()
    }
}

/// Response of the value or of the error.
impl<T: IntoResponse, E: IntoResponse> IntoResponse for Result<T, E> {
    fn into_response(self) -> Response {
        match self {
            Ok(answer) => answer.into_response(),
            Err(error) => error.into_response(),
        }
    }
}
