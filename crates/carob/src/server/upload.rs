//! Request bodies received block by block.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use carob_proto::codec::Code;
use carob_proto::endpoint::IncomingId;
use carob_proto::message::Response;
use tokio::sync::mpsc;

use super::completion::{Completion, Completions, UploadBlock};

/// Request body, block by block (RFC 7959 section 2.5).
///
/// Reading a block acknowledges the one before with 2.31, so a slow handler slows the client down.
/// The handler's response answers the block read last; if more blocks were to follow, it ends the
/// transfer.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use carob::server::{Request, Resource, Upload};
/// use carob::{Client, Code, Response, Server};
///
/// async fn count(_: Request, mut upload: Upload) -> Response {
///     let mut bytes = 0;
///     while let Ok(Some(block)) = upload.next().await {
///         bytes += block.len();
///     }
///     Response::new(Code::CHANGED).with_payload(bytes.to_string())
/// }
///
/// let resource = Resource::new().on_upload(Code::PUT, count);
/// let server = Server::builder().bind("127.0.0.1:0").resource("/body", resource).start().await?;
/// let uri = format!("coap://{}/body", server.local_address());
/// let reply = Client::new()?.put(uri).body(vec![0; 5_000]).await?;
/// assert_eq!(reply.text(), Some("5000"));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Upload {
    first: Option<UploadBlock>,
    parts: mpsc::Receiver<UploadBlock>,
    /// The pending request, shared with the handler's responder.
    current: Arc<Mutex<Option<IncomingId>>>,
    completions: Completions,
    /// Timeout for the next block: EXCHANGE_LIFETIME.
    patience: Duration,
    complete: bool,
}

/// Reason for which a body did not arrive completely.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UploadError {
    /// No block arrived within EXCHANGE_LIFETIME.
    #[error("the client stopped sending in the middle of the body")]
    Silent,
    /// The client started the body again.
    #[error("the client restarted the body")]
    Replaced,
}

impl Upload {
    pub(crate) fn new(
        first: UploadBlock,
        parts: mpsc::Receiver<UploadBlock>,
        current: Arc<Mutex<Option<IncomingId>>>,
        completions: Completions,
        patience: Duration,
    ) -> Self {
        Self {
            first: Some(first),
            parts,
            current,
            completions,
            patience,
            complete: false,
        }
    }

    /// Returns the next block, or `None` after the last.
    ///
    /// Cancel safe: dropping the future loses no block.
    ///
    /// # Errors
    ///
    /// [`UploadError`] if the body cannot be completed.
    pub async fn next(&mut self) -> Result<Option<Bytes>, UploadError> {
        if let Some(first) = self.first.take() {
            return Ok(Some(self.accept(first)));
        }
        if self.complete {
            return Ok(None);
        }
        let taken = self
            .current
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            // Taken, so that a future dropped and made again does not acknowledge the block twice.
            .take();
        if let Some(id) = taken {
            // A stopped driver drops the sender of `parts`, too.
            let _ = self
                .completions
                .send(Completion::Respond(id, Response::new(Code::CONTINUE)));
        }
        match tokio::time::timeout(self.patience, self.parts.recv()).await {
            Ok(Some(part)) => Ok(Some(self.accept(part))),
            Ok(None) => Err(UploadError::Replaced),
            Err(_) => Err(UploadError::Silent),
        }
    }

    fn accept(&mut self, part: UploadBlock) -> Bytes {
        self.complete = !part.more;
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = Some(part.id);
        part.bytes
    }
}
