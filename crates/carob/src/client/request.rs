//! A request on its way from a builder to a reply.

use std::future::{Future, IntoFuture};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use carob_cc::TransmissionParameters;
use carob_proto::codec::{BlockSize, BlockValue, Code, ContentFormat, OptionNumber, OptionsError};
use carob_proto::endpoint::{BlockMode, BodyMode, Failure, Sending};
use carob_proto::message::{Payload, Request, Response};
use tokio::sync::{Notify, mpsc, oneshot};

use super::body::{Body, FIRST, Source};
use super::observation::Observation;
use super::reply::{BodyStream, Reply, StreamedReply};
use super::{Answer, Target, resolve};
use crate::driver::{Command, Failed, Handle, NewRequest, Note, Received, ReplyTo, Updates};
use crate::error::Error;

/// A request to be described and sent; awaiting it sends it.
///
/// Dropping the pending future cancels the request: no further copies leave.
#[derive(Debug)]
#[must_use = "a request is sent when it is awaited"]
pub struct RequestBuilder {
    handle: Arc<Handle>,
    method: Code,
    target: Target,
    to: Option<SocketAddr>,
    options: Vec<(OptionNumber, Vec<u8>)>,
    body: Body,
    range: Option<(u64, u64)>,
    sending: Sending,
    deadline: Option<Duration>,
    updates: Option<Arc<Updates>>,
}

impl RequestBuilder {
    pub(super) fn new(handle: Arc<Handle>, method: Code, target: Target) -> Self {
        Self {
            handle,
            method,
            target,
            to: None,
            options: Vec::new(),
            body: Body::from(Bytes::new()),
            range: None,
            sending: Sending::default(),
            deadline: None,
            updates: None,
        }
    }

    /// Sends to this address instead of the URI's host; a host that is a name need not resolve.
    pub fn to(mut self, address: SocketAddr) -> Self {
        self.to = Some(address);
        self
    }

    /// The body: bytes, or [`Body::reader`] or [`Body::channel`] for what is read as it is sent.
    pub fn body(mut self, body: impl Into<Body>) -> Self {
        self.body = body.into();
        self
    }

    /// Adds an option.
    pub fn option(mut self, number: OptionNumber, value: impl Into<Vec<u8>>) -> Self {
        self.options.push((number, value.into()));
        self
    }

    /// Adds an option that is a number.
    pub fn uint_option(self, number: OptionNumber, value: u32) -> Self {
        let value = value.to_be_bytes();
        let zeros = value.iter().take_while(|byte| **byte == 0).count();
        self.option(number, &value[zeros..])
    }

    /// The format of the body.
    pub fn format(self, format: ContentFormat) -> Self {
        self.uint_option(OptionNumber::CONTENT_FORMAT, format.0.into())
    }

    /// The format that is wanted.
    pub fn accept(self, format: ContentFormat) -> Self {
        self.uint_option(OptionNumber::ACCEPT, format.0.into())
    }

    /// Sends as CON (the default) or as NON, which is not repeated if it is lost.
    pub fn confirmable(mut self, confirmable: bool) -> Self {
        self.sending.confirmable = confirmable;
        self
    }

    /// Gives up after this long, resolving the host and all blocks included.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// Transmission parameters of this request alone.
    pub fn parameters(mut self, parameters: TransmissionParameters) -> Self {
        self.sending.parameters = Some(parameters);
        self
    }

    /// Bytes expected in answer, for controllers that plan with them.
    pub fn answer_bytes(mut self, bytes: u32) -> Self {
        self.sending.answer_bytes = bytes;
        self
    }

    /// Asks for `length` bytes of the representation from `offset` on, and for no blocks but
    /// those that hold them. The reply's body is that part, shorter at the representation's end.
    pub fn range(mut self, offset: u64, length: u64) -> Self {
        self.range = Some((offset, length));
        self
    }

    /// Sends the request and waits for the whole response.
    pub async fn send(self) -> Result<Reply, Error> {
        let deadline = self.deadline;
        within(deadline, |began| self.send_whole(began)).await
    }

    /// Sends the request and waits for the beginning of the response, whose body is then read as
    /// it arrives, however large.
    ///
    /// With [`range`](Self::range), the part is read before this returns.
    pub async fn send_streaming(self) -> Result<StreamedReply, Error> {
        let deadline = self.deadline;
        within(deadline, |began| self.send_streamed(began)).await
    }

    /// Observes the resource (RFC 7641): waits for its first state, and gives a stream of this and
    /// all that follow.
    ///
    /// The deadline, if there is one, is for the first state. The observation outlives a restart of
    /// the server: see [`Observation`].
    pub async fn observe(mut self) -> Result<Observation, Error> {
        let deadline = self.deadline.take();
        within(deadline, |began| self.begin_observation(began)).await
    }

    async fn begin_observation(mut self, began: Instant) -> Result<Observation, Error> {
        let updates = Arc::new(Updates::default());
        self.sending.observe = true;
        self.updates = Some(Arc::clone(&updates));
        let (answer, received, peer, _) = self.exchange(began, BodyMode::Whole).await?;
        let mut cancel = answer.into_cancel();
        let observed = received.response.options.contains(OptionNumber::OBSERVE);
        // The first state has arrived; more may follow.
        cancel.ended = !observed;
        Ok(Observation::new(cancel, peer, received, updates, observed))
    }

    async fn send_whole(mut self, began: Instant) -> Result<Reply, Error> {
        if let Some((offset, length)) = self.range {
            return self.send_range(began, offset, length).await;
        }
        let (answer, received, peer, _) = self.exchange(began, BodyMode::Whole).await?;
        drop(answer);
        Ok(Reply {
            response: received.response,
            peer,
            after: received.after,
        })
    }

    async fn send_streamed(mut self, began: Instant) -> Result<StreamedReply, Error> {
        if let Some((offset, length)) = self.range {
            let handle = Arc::clone(&self.handle);
            let Reply {
                mut response,
                peer,
                after,
            } = self.send_range(began, offset, length).await?;
            let bytes = response.bytes().clone();
            response.payload = Payload::Whole(Bytes::new());
            let (sender, parts) = mpsc::unbounded_channel();
            let size = Some(bytes.len() as u64);
            // The receiver is in hand, so this cannot fail.
            let _ = sender.send(Ok((bytes, true)));
            let cancel = super::Cancel {
                handle,
                ticket: 0,
                ended: false,
            };
            let body = BodyStream {
                parts,
                cancel,
                peer,
            };
            return Ok(StreamedReply {
                head: response,
                size,
                peer,
                after,
                body,
            });
        }
        let (answer, received, peer, parts) = self.exchange(began, BodyMode::Streamed).await?;
        let mut cancel = answer.into_cancel();
        // The head has arrived; the body has not.
        cancel.ended = false;
        let parts = parts.expect("a streamed exchange has parts");
        Ok(StreamedReply {
            head: received.response,
            size: received.size,
            peer,
            after: received.after,
            body: BodyStream {
                parts,
                cancel,
                peer,
            },
        })
    }

    /// Tries the host's addresses in turn until one can be reached.
    async fn exchange(&mut self, began: Instant, mode: BodyMode) -> Result<Exchanged, Error> {
        let uri = resolve::read(self.target.clone())?;
        let (peers, mut options) = match self.to {
            Some(to) => (vec![to], uri.options_for(to).map_err(option_error(3))?),
            None => (
                resolve::addresses(&uri, self.handle.local()).await?,
                uri.options().clone(),
            ),
        };
        for (number, value) in &self.options {
            options
                .push(*number, value)
                .map_err(option_error(number.0))?;
        }
        let mut sending = self.sending.clone();
        sending.response_body = mode;
        // The end of the deadline is kept by `within`; the engine learns of it too, so that a
        // request does not outlive who waits for it.
        sending.deadline = self.deadline.map(|deadline| {
            let rest = deadline.saturating_sub(began.elapsed());
            rest.max(Duration::from_millis(1)).into()
        });
        let mut request = Request::new(self.method);
        request.options = options;
        // What was read from a streamed body, in case another address must have it too.
        let mut prefix = None;
        if self.body.0.is_streamed() {
            sending.request_body = BodyMode::Streamed;
            prefix = Some(self.body.0.next(FIRST).await.map_err(Error::Body)?);
        } else if let Source::Bytes(bytes) = &self.body.0 {
            request.payload = bytes.clone();
        }
        if let Some((bytes, true)) = &prefix {
            // It has ended already: its size is known.
            sending.request_body = BodyMode::Whole;
            request.payload = bytes.clone();
        }
        let last = peers.len() - 1;
        for (n, peer) in peers.into_iter().enumerate() {
            let streamed = sending.request_body == BodyMode::Streamed;
            let prefix = prefix
                .as_ref()
                .filter(|_| streamed)
                .map(|(bytes, _)| bytes.clone());
            let attempt = self.attempt(peer, request.clone(), sending.clone(), prefix);
            let (outcome, untouched) = attempt.await?;
            match outcome {
                Ok((answer, received, parts)) => return Ok((answer, received, peer, parts)),
                Err(failed) => {
                    let error = failed.for_people(peer);
                    let again = matches!(error, Error::Unreachable { .. }) && untouched;
                    if !again || n == last {
                        return Err(error);
                    }
                }
            }
        }
        Err(Error::Closed)
    }

    /// Sends to one address. Besides the outcome, whether nothing of the body's source was read.
    async fn attempt(
        &mut self,
        peer: SocketAddr,
        request: Request,
        sending: Sending,
        prefix: Option<Bytes>,
    ) -> Result<(Result<Attempted, Failed>, bool), Error> {
        let (head, answer) = oneshot::channel();
        let ticket = self.handle.ticket();
        let mut answer = Answer::new(&self.handle, ticket, answer);
        let streamed = sending.response_body == BodyMode::Streamed;
        let (part_sender, parts) = streamed.then(mpsc::unbounded_channel).unzip();
        let starved = (sending.request_body == BodyMode::Streamed).then(|| Arc::new(Notify::new()));
        let reply = ReplyTo {
            head,
            parts: part_sender,
            starved: starved.clone(),
            updates: self.updates.clone(),
        };
        let new = NewRequest {
            ticket,
            to: peer,
            request,
            sending,
            reply,
        };
        if !self.handle.command(Command::Request(Box::new(new))).await {
            return Err(Error::Closed);
        }
        let mut prefix = prefix;
        let mut untouched = true;
        let received = loop {
            let Some(starved) = &starved else {
                break answer.receive().await;
            };
            tokio::select! {
                biased;
                received = answer.receive() => break received,
                () = starved.notified() => {}
            }
            let (bytes, last) = if let Some(bytes) = prefix.take() {
                (bytes, false)
            } else {
                untouched = false;
                // The response may come before the body has been read, as an error does.
                tokio::select! {
                    biased;
                    received = answer.receive() => break received,
                    read = self.body.0.next(FIRST) => read.map_err(Error::Body)?,
                }
            };
            // A driver that has stopped answers with nothing.
            let _ = self.handle.notes.send(Note::Supply {
                ticket,
                bytes,
                last,
            });
        };
        answer.cancel.ended = true;
        match received {
            Some(Ok(received)) => Ok((Ok((answer, received, parts)), untouched)),
            Some(Err(failed)) => Ok((Err(failed), untouched)),
            None => Err(Error::Closed),
        }
    }

    /// Reads block after block, beginning with the one that holds `offset`.
    async fn send_range(
        &mut self,
        began: Instant,
        offset: u64,
        length: u64,
    ) -> Result<Reply, Error> {
        self.sending.blocks = BlockMode::Manual;
        let own_options = self.options.len();
        let mut size = BlockSize::MAX;
        let mut position = offset - offset % size.bytes() as u64;
        let mut bytes = BytesMut::new();
        let mut first: Option<Reply> = None;
        loop {
            let number = position / size.bytes() as u64;
            let block = u32::try_from(number)
                .ok()
                .and_then(|n| BlockValue::new(n, false, size).ok());
            let Some(block) = block else {
                let peer = first.map_or(self.handle.local(), |reply| reply.peer);
                let failure =
                    Failure::Body(carob_proto::blockwise::download::DownloadError::TooManyBlocks);
                return Err(Error::Failed { peer, failure });
            };
            self.options.truncate(own_options);
            self.options
                .push((OptionNumber::BLOCK2, block.encode().as_slice().to_vec()));
            let (answer, Received { response, .. }, peer, _) =
                self.exchange(began, BodyMode::Whole).await?;
            drop(answer);
            // Later blocks come from where the first came from.
            self.to = Some(peer);
            let failed = |failure| Error::Failed { peer, failure };
            if !response.code.is_success() {
                if first.is_some() {
                    return Err(failed(Failure::Interrupted(response.code)));
                }
                return Ok(Reply {
                    response,
                    peer,
                    after: began.elapsed(),
                });
            }
            let etag = response.options.first(OptionNumber::ETAG);
            if first
                .as_ref()
                .is_some_and(|first| first.options.first(OptionNumber::ETAG) != etag)
            {
                let changed = carob_proto::blockwise::download::DownloadError::Changed;
                return Err(failed(Failure::Body(changed)));
            }
            let answered = response.options.first(OptionNumber::BLOCK2);
            let answered = answered.map(BlockValue::decode).transpose();
            let answered = answered.map_err(|_| failed(Failure::BadBlock))?;
            // Without the option, it is the whole representation.
            let start = answered.map_or(0, |block| block.offset() as u64);
            let more = answered.is_some_and(|block| block.more);
            let wanted = offset + bytes.len() as u64;
            let skip = wanted.saturating_sub(start);
            if start > wanted {
                let wrong =
                    carob_proto::blockwise::download::DownloadError::WrongBlock { offset: start };
                return Err(failed(Failure::Body(wrong)));
            }
            let part = response.bytes();
            let skip = usize::try_from(skip).unwrap_or(usize::MAX).min(part.len());
            let rest = usize::try_from(length - bytes.len() as u64).unwrap_or(usize::MAX);
            let take = (part.len() - skip).min(rest);
            bytes.extend_from_slice(&part[skip..skip + take]);
            let end = start + part.len() as u64;
            if let Some(block) = answered {
                size = size.min(block.szx);
            }
            let reply = Reply {
                response,
                peer,
                after: began.elapsed(),
            };
            let first = first.get_or_insert(reply);
            if !more || bytes.len() as u64 >= length || part_is_stuck(end, position) {
                let mut response: Response = first.response.clone();
                response.options.remove(OptionNumber::BLOCK2);
                response.payload = Payload::Whole(bytes.freeze());
                return Ok(Reply {
                    response,
                    peer,
                    after: began.elapsed(),
                });
            }
            position = end - end % size.bytes() as u64;
        }
    }
}

/// Whether a block brought nothing new, which no server should do while there is more.
fn part_is_stuck(end: u64, position: u64) -> bool {
    end <= position
}

type Attempted = (Answer<Result<Received, Failed>>, Received, Option<Parts>);
type Exchanged = (
    Answer<Result<Received, Failed>>,
    Received,
    SocketAddr,
    Option<Parts>,
);
type Parts = mpsc::UnboundedReceiver<Result<(Bytes, bool), Failed>>;

fn option_error(number: u16) -> impl Fn(OptionsError) -> Error {
    move |source| Error::Option { number, source }
}

/// Runs a request within its deadline; the engine keeps it too, and knows better what happened,
/// so it gets a moment's grace.
async fn within<T, F: Future<Output = Result<T, Error>>>(
    deadline: Option<Duration>,
    run: impl FnOnce(Instant) -> F,
) -> Result<T, Error> {
    const GRACE: Duration = Duration::from_millis(50);
    #[allow(
        clippy::disallowed_methods,
        reason = "this crate is the driver that reads the clock"
    )]
    let began = Instant::now();
    let Some(deadline) = deadline else {
        return run(began).await;
    };
    let ended = tokio::time::timeout(deadline.saturating_add(GRACE), run(began)).await;
    ended.unwrap_or(Err(Error::DeadlinePassed { deadline }))
}

impl IntoFuture for RequestBuilder {
    type Output = Result<Reply, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.send())
    }
}
