//! A request's body: bytes, or a source that is read as it is sent.

use std::fmt;
use std::io;
use std::pin::Pin;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::mpsc;

/// Bytes read from a source at once.
const CHUNK: usize = 16 << 10;
/// Bytes that must be at hand before the first block can leave: one more than a block has, to
/// know that more follow.
pub(super) const FIRST: usize = 1_025;
/// Pieces a [`BodySender`] may be ahead of the network.
const PIECES: usize = 16;

/// A request's body.
pub struct Body(pub(super) Source);

pub(super) enum Source {
    Bytes(Bytes),
    Reader(Pin<Box<dyn AsyncRead + Send>>),
    Channel(mpsc::Receiver<Bytes>),
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Source::Bytes(bytes) => write!(f, "Body({} bytes)", bytes.len()),
            Source::Reader(_) => f.write_str("Body(reader)"),
            Source::Channel(_) => f.write_str("Body(channel)"),
        }
    }
}

impl<T: Into<Bytes>> From<T> for Body {
    fn from(bytes: T) -> Self {
        Self(Source::Bytes(bytes.into()))
    }
}

impl Body {
    /// A body read from `reader` as it is sent, however large.
    pub fn reader(reader: impl AsyncRead + Send + 'static) -> Self {
        Self(Source::Reader(Box::pin(reader)))
    }

    /// A body that is pushed piece by piece; it ends when the sender is dropped.
    pub fn channel() -> (BodySender, Self) {
        let (sender, receiver) = mpsc::channel(PIECES);
        (BodySender(sender), Self(Source::Channel(receiver)))
    }
}

/// Pushes a body's pieces.
#[derive(Clone, Debug)]
pub struct BodySender(mpsc::Sender<Bytes>);

/// Nobody takes the body any more: the request has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the request has ended")]
pub struct BodySenderClosed;

impl BodySender {
    /// Adds a piece; waits while the network is behind.
    pub async fn send(&self, bytes: impl Into<Bytes>) -> Result<(), BodySenderClosed> {
        self.0
            .send(bytes.into())
            .await
            .map_err(|_| BodySenderClosed)
    }
}

impl Source {
    pub(super) fn is_streamed(&self) -> bool {
        !matches!(self, Self::Bytes(_))
    }

    /// At least `enough` bytes unless the body ends, and whether it does.
    pub(super) async fn next(&mut self, enough: usize) -> io::Result<(Bytes, bool)> {
        match self {
            Self::Bytes(bytes) => Ok((core::mem::take(bytes), true)),
            Self::Reader(reader) => {
                let mut chunk = BytesMut::with_capacity(CHUNK);
                while chunk.len() < enough {
                    if reader.read_buf(&mut chunk).await? == 0 {
                        return Ok((chunk.freeze(), true));
                    }
                }
                Ok((chunk.freeze(), false))
            }
            Self::Channel(pieces) => {
                let mut chunk = BytesMut::new();
                while chunk.len() < enough {
                    match pieces.recv().await {
                        Some(piece) if chunk.is_empty() && piece.len() >= enough => {
                            return Ok((piece, false));
                        }
                        Some(piece) => chunk.extend_from_slice(&piece),
                        None => return Ok((chunk.freeze(), true)),
                    }
                }
                Ok((chunk.freeze(), false))
            }
        }
    }
}
