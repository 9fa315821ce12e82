//! Request bodies: bytes, or a source that is read while it is sent.

use std::fmt;
use std::io;
use std::pin::Pin;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::mpsc;

/// Bytes per read from a source.
const CHUNK: usize = 16 << 10;
/// Bytes needed before the first block can leave: one more than a block, which decides the more
/// flag.
pub(super) const FIRST: usize = 1_025;
/// Pieces a [`BodySender`] may be ahead of the network.
const PIECES: usize = 16;

/// Body of a request: bytes, a reader, or a channel. Converts from anything that converts into
/// `bytes::Bytes`, such as `&'static str`, `String` and `Vec<u8>`.
///
/// A body of at most one block is one message; longer ones are sent in blocks (RFC 7959). The body
/// of a reader or channel has an unknown length and is not held in memory as a whole.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use carob::server::{Request, Resource};
/// use carob::{Body, Client, Code, Response, Server};
///
/// let store = Resource::new().put(|request: Request| async move {
///     Response::new(Code::CHANGED).with_payload(request.payload().len().to_string())
/// });
/// let server = Server::builder().bind("127.0.0.1:0").resource("/log", store).start().await?;
/// let uri = format!("coap://{}/log", server.local_address());
///
/// let (sender, body) = Body::channel();
/// tokio::spawn(async move {
///     for line in 0..100 {
///         if sender.send(format!("line {line:03}\n")).await.is_err() {
///             break; // the request has ended
///         }
///     }
/// });
/// let reply = Client::new()?.put(uri).body(body).await?;
/// assert_eq!(reply.text(), Some("900"));
/// # Ok(())
/// # }
/// ```
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
    /// Creates a body that is read from `reader` while it is sent. A read error fails the request
    /// with [`Error::Body`](crate::Error::Body).
    pub fn reader(reader: impl AsyncRead + Send + 'static) -> Self {
        Self(Source::Reader(Box::pin(reader)))
    }

    /// Creates a body whose pieces are sent through a [`BodySender`]. It ends when the last clone
    /// of the sender is dropped.
    pub fn channel() -> (BodySender, Self) {
        // Bounded, so that a producer waits for the network.
        let (sender, receiver) = mpsc::channel(PIECES);
        (BodySender(sender), Self(Source::Channel(receiver)))
    }
}

/// Sender of the pieces of a body, from [`Body::channel`]. Up to 16 pieces are queued.
#[derive(Clone, Debug)]
pub struct BodySender(mpsc::Sender<Bytes>);

/// Error of [`BodySender::send`]: the request has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the request has ended")]
pub struct BodySenderClosed;

impl BodySender {
    /// Queues a piece of the body; waits while the queue is full.
    ///
    /// # Errors
    ///
    /// [`BodySenderClosed`] if the request has ended.
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

    /// Returns at least `enough` bytes unless the body ends, and whether it ends.
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
