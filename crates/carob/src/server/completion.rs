//! Reports of handlers and notifiers to the task of their endpoint.

use std::net::SocketAddr;

use bytes::Bytes;
use carob_proto::cache_key::CacheKey;
use carob_proto::endpoint::{Incoming, IncomingId, Subject};
use carob_proto::message::Response;
use carob_proto::tables::quota::Source;
use tokio::sync::mpsc;

use super::Notifier;

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
