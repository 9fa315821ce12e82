//! A request body that is read as it arrives.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use carob_proto::codec::Code;
use carob_proto::endpoint::IncomingId;
use carob_proto::message::Response;
use tokio::sync::mpsc;

use crate::driver::{Note, PartOf};

/// A request body, block by block.
///
/// Asking for the next block tells the client to send it, so a slow reader slows the client down.
/// The handler's response answers the last block read; if that was not the body's last, it ends
/// the transfer early.
#[derive(Debug)]
pub struct Upload {
    first: Option<PartOf>,
    parts: mpsc::Receiver<PartOf>,
    /// The request whose answer is due, shared with the handler's responder.
    current: Arc<Mutex<Option<IncomingId>>>,
    notes: mpsc::UnboundedSender<Note>,
    /// How long the client may be silent: EXCHANGE_LIFETIME.
    patience: Duration,
    complete: bool,
}

/// Why a body did not arrive whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UploadError {
    /// The client fell silent.
    #[error("the client fell silent in the middle of the body")]
    Silent,
    /// The client began the body again.
    #[error("the client began the body again")]
    Replaced,
}

impl Upload {
    pub(crate) fn new(
        first: PartOf,
        parts: mpsc::Receiver<PartOf>,
        current: Arc<Mutex<Option<IncomingId>>>,
        notes: mpsc::UnboundedSender<Note>,
        patience: Duration,
    ) -> Self {
        Self {
            first: Some(first),
            parts,
            current,
            notes,
            patience,
            complete: false,
        }
    }

    /// The next block; nothing after the last.
    ///
    /// Dropping this future loses no block.
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
            .take();
        if let Some(id) = taken {
            // A driver that has stopped drops the other end of `parts` too.
            let _ = self
                .notes
                .send(Note::Respond(id, Response::new(Code::CONTINUE)));
        }
        match tokio::time::timeout(self.patience, self.parts.recv()).await {
            Ok(Some(part)) => Ok(Some(self.accept(part))),
            Ok(None) => Err(UploadError::Replaced),
            Err(_) => Err(UploadError::Silent),
        }
    }

    fn accept(&mut self, part: PartOf) -> Bytes {
        self.complete = !part.more;
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = Some(part.id);
        part.bytes
    }
}
