//! Requests as handlers receive them, whole or block by block.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use carob_proto::blockwise::RequestedBlock;
use carob_proto::codec::{Code, ContentFormat, ETag, OptionNumber, Options, Scheme};
use carob_proto::endpoint::IncomingId;
use carob_proto::message::Response;
use tokio::sync::mpsc;

use super::responder::{Completion, Completions, UploadBlock};
use super::{Pattern, conditions};
use crate::transport::handshake::PeerIdentity;

/// Received request, with its body reassembled.
#[derive(Clone, Debug)]
pub struct Request {
    pub(crate) method: Code,
    pub(crate) options: Options,
    pub(crate) payload: Bytes,
    pub(crate) peer: SocketAddr,
    pub(crate) scheme: Scheme,
    pub(crate) wanted: RequestedBlock,
    pub(crate) to_group: bool,
    pub(crate) route: Arc<Pattern>,
    pub(crate) identity: Option<Arc<PeerIdentity>>,
}

impl Request {
    /// Returns the method.
    pub fn method(&self) -> Code {
        self.method
    }

    /// Returns all options.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Returns the whole body; empty for an [`UploadHandler`](super::UploadHandler).
    pub fn payload(&self) -> &Bytes {
        &self.payload
    }

    /// Returns the address of the client.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Returns the URI scheme of the transport.
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// Returns the authenticated identity of the client over DTLS; `None` over other transports.
    pub fn peer_identity(&self) -> Option<&PeerIdentity> {
        self.identity.as_deref()
    }

    /// Returns whether the request was multicast to a group that the server has
    /// [joined](super::ServerBuilder::join).
    ///
    /// The response is then sent after a random delay. Errors and empty representations are
    /// suppressed, unless No-Response requests them (RFC 7252 section 8.2, RFC 7967).
    pub fn is_to_group(&self) -> bool {
        self.to_group
    }

    /// Returns the path's segments as sent. They may hold any bytes, `..` and `/` included.
    pub fn segments(&self) -> impl Iterator<Item = &[u8]> {
        self.options.values(OptionNumber::URI_PATH)
    }

    /// Returns the segment of a path parameter: with `/sensors/{id}`, the segment of `id`. `None` if the
    /// resource's path has no such parameter.
    ///
    /// A parameter matches non-empty UTF-8 segments only.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        let segment = self.segments().nth(self.route.place_of(name)?)?;
        core::str::from_utf8(segment).ok()
    }

    /// Returns the segments matched by the `*` of the resource's path, as sent: all for a
    /// [`fallback`](super::ServerBuilder::fallback), none without `*`.
    pub fn rest(&self) -> impl Iterator<Item = &[u8]> {
        self.segments().skip(self.route.before_rest())
    }

    /// Returns the value of the first query argument with this name: `C` for the argument `unit=C`
    /// and the name `unit`. `None` if there is none, or if it is not UTF-8.
    ///
    /// Options are not percent-encoded (RFC 7252 section 5.10.1).
    pub fn query_value(&self, name: &str) -> Option<&str> {
        let value = self.query().find_map(|argument| {
            let after = argument.strip_prefix(name.as_bytes())?;
            after.strip_prefix(b"=")
        });
        core::str::from_utf8(value?).ok()
    }

    /// Returns the query's arguments as sent, such as `unit=C`.
    pub fn query(&self) -> impl Iterator<Item = &[u8]> {
        self.options.values(OptionNumber::URI_QUERY)
    }

    /// Returns the Content-Format of the body, if given.
    pub fn content_format(&self) -> Option<ContentFormat> {
        let number = self.options.uint(OptionNumber::CONTENT_FORMAT)?;
        u16::try_from(number).ok().map(ContentFormat)
    }

    /// Returns the Content-Format of Accept, if given.
    pub fn accept(&self) -> Option<ContentFormat> {
        let number = self.options.uint(OptionNumber::ACCEPT)?;
        u16::try_from(number).ok().map(ContentFormat)
    }

    /// Returns the entity tags of the client's stored representations (RFC 7252 section 5.10.6.2).
    /// A 2.05 with one of them automatically becomes 2.03.
    pub fn etags(&self) -> impl Iterator<Item = ETag> {
        self.options
            .values(OptionNumber::ETAG)
            .filter_map(ETag::new)
    }

    /// Evaluates If-Match and If-None-Match (RFC 7252 section 5.10.8) against a state of the
    /// resource: its entity tag, or `None` if it does not exist. True for a request without these
    /// options.
    ///
    /// A handler that changes shared state evaluates them again under its lock, and returns 4.12
    /// ([`Refusal::precondition_failed`](super::Refusal::precondition_failed)) if this is false.
    pub fn preconditions_hold(&self, state: Option<ETag>) -> bool {
        let is_current = |value: &[u8]| state.is_some_and(|tag| tag.as_slice() == value);
        conditions::hold(self.options.iter(), state.is_some(), is_current)
    }

    /// Returns the block of the response's body that is requested, for handlers that return a
    /// [`Payload::Part`](crate::Payload::Part). Handlers that return whole bodies ignore it.
    pub fn wanted(&self) -> RequestedBlock {
        self.wanted
    }
}

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
