//! The response channel of a handler, and reports of handlers and notifiers to the task of their endpoint.

use std::net::SocketAddr;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use bytes::Bytes;
use carob_proto::cache_key::CacheKey;
use carob_proto::codec::{Code, Scheme};
use carob_proto::endpoint::{Incoming, IncomingId, Subject};
use carob_proto::message::Response;
use carob_proto::tables::quota::Source;
use tokio::sync::mpsc;

use super::Notifier;
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

/// The sending half of a service's queue of completions.
pub(crate) type Completions = mpsc::UnboundedSender<Completion>;

/// A report of a handler or a notifier. Each handler has at most a few of them queued, so that the
/// limit on handlers bounds them.
pub(crate) enum Completion {
    /// The response to a request. One for each, and one for each block of a streamed body.
    Respond(IncomingId, Response),
    /// Removes the observer registered by a request. At most one for each, before its response.
    Unobserve(IncomingId),
    /// An observable resource has changed. One at a time for each notifier.
    Changed(Notifier, usize),
    /// A new representation for the observers of a subject. One for each call of its handler.
    Representation(Subject, Response),
    /// A handler of a request of this source has ended. One for each.
    HandlerDone(Source, Option<UploadKey>),
}

/// The key of the blocks of one streamed body: the same as the engine's for reassembly.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct UploadKey {
    pub(crate) peer: SocketAddr,
    bytes: Box<[u8]>,
}

impl UploadKey {
    pub(crate) fn of(incoming: &Incoming<'_>) -> Self {
        Self {
            peer: incoming.from,
            bytes: CacheKey::of_transfer(&incoming.message).into(),
        }
    }
}

/// One block of a streamed body.
#[derive(Debug)]
pub(crate) struct UploadBlock {
    pub(crate) id: IncomingId,
    pub(crate) bytes: Bytes,
    pub(crate) more: bool,
}
