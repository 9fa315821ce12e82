//! The response channel of a handler.

use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use carob_proto::codec::{Code, Scheme};
use carob_proto::endpoint::IncomingId;
use carob_proto::message::Response;
use carob_proto::tables::quota::Source;

use super::completion::{Completion, Completions, UploadKey};
use crate::runtime::Stopwatch;

/// The response of a handler that panicked.
pub(super) static FAILED: LazyLock<Response> =
    LazyLock::new(|| Response::new(Code::INTERNAL_SERVER_ERROR));

/// Answers a request exactly once, even if its handler panics.
pub(super) struct Responder {
    completions: Completions,
    /// The pending request: with a streamed body, the request of the latest block.
    pub(super) current: Arc<Mutex<Option<IncomingId>>>,
    source: Source,
    upload: Option<UploadKey>,
    stopwatch: Stopwatch,
}

impl Responder {
    pub(super) fn new(
        completions: Completions,
        scheme: Scheme,
        id: IncomingId,
        source: Source,
        upload: Option<UploadKey>,
    ) -> Self {
        Self {
            completions,
            stopwatch: Stopwatch::start(scheme.name()),
            current: Arc::new(Mutex::new(Some(id))),
            source,
            upload,
        }
    }

    fn answer(&self, response: Response) {
        let current = self
            .current
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(id) = current {
            self.stopwatch.stop();
            // The task may have stopped; then the response is not needed.
            let _ = self.completions.send(Completion::Respond(id, response));
        }
    }

    /// Answers the request.
    pub(super) fn respond(self, response: Response) {
        self.answer(response);
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        // Still unanswered: the handler panicked.
        self.answer(FAILED.clone());
        let _ = (self.completions).send(Completion::HandlerDone(self.source, self.upload.take()));
    }
}
