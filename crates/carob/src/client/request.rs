//! A request as it is described; `sending` is its way to a reply.

mod sending;

use std::fmt;
use std::future::{Future, IntoFuture};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use carob_cc::TransmissionParameters;
use carob_proto::codec::{Code, ContentFormat, ETag, EncodeError, NoResponse, OptionNumber};
use carob_proto::endpoint::{Gathering, RequestError, Sending};
use carob_proto::message::Request;
use tokio::sync::mpsc;

use super::body::{Body, FIRST};
use super::cache::{Looked, SharedCache};
use super::gathered::Gathered;
use super::observation::Observation;
use super::reply::{Reply, StreamedReply};
use super::{Cancel, Target, resolve};
use crate::driver::{Command, Handle, NewGathering, Updates};
use crate::error::Error;
use crate::ways::Ways;
use sending::{fresh, option_error};

/// Whether an address may be asked.
pub(crate) type Admit = Arc<dyn Fn(SocketAddr) -> bool + Send + Sync>;

/// Which addresses may be asked; all if nothing is said.
#[derive(Clone)]
struct Admitted(Option<Admit>);

impl fmt::Debug for Admitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "some" } else { "all" })
    }
}

/// A request to be described and sent; awaiting it sends it.
///
/// Dropping the pending future cancels the request: no further copies leave.
#[derive(Debug)]
#[must_use = "a request is sent when it is awaited"]
pub struct RequestBuilder {
    ways: Arc<Ways>,
    /// The endpoint it goes through, once the scheme of its URI has been looked at.
    pub(super) handle: Arc<Handle>,
    cache: Option<Arc<SharedCache>>,
    /// What is fresh must be validated all the same.
    reload: bool,
    method: Code,
    target: Target,
    /// The proxy that is asked for it.
    via: Option<Target>,
    pub(super) to: Option<SocketAddr>,
    /// Which of the host's addresses may be asked.
    admitted: Admitted,
    /// What whoever asks for this has already, besides the cache.
    known: Vec<ETag>,
    pub(super) options: Vec<(OptionNumber, Vec<u8>)>,
    body: Body,
    range: Option<(u64, u64)>,
    pub(super) sending: Sending,
    deadline: Option<Duration>,
    /// Of an observation, what the last try to begin it has it hear.
    updates: Option<Arc<Updates>>,
}

impl RequestBuilder {
    pub(super) fn new(
        ways: Arc<Ways>,
        cache: Option<Arc<SharedCache>>,
        method: Code,
        target: Target,
    ) -> Self {
        Self {
            handle: Arc::clone(ways.first()),
            ways,
            cache,
            reload: false,
            method,
            target,
            via: None,
            to: None,
            admitted: Admitted(None),
            known: Vec::new(),
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

    /// Asks the forward-proxy at this URI, which has no path, for the resource (RFC 7252 5.7.2).
    ///
    /// It is asked with Proxy-Scheme for URIs of schemes known here, and with Proxy-Uri for any
    /// other, such as `http://` ([`carob_proto::proxy::ask_for`]). What is to be secure (`coaps` and its like,
    /// `https`) is asked for over a secure connection only, unless the proxy is on this host: others
    /// are [`Error::InsecureProxy`] (RFC 7252 5.7).
    pub fn via(mut self, proxy: impl Into<Target>) -> Self {
        self.via = Some(proxy.into());
        self
    }

    /// Asks only those of the host's addresses that this admits.
    pub(crate) fn admit(mut self, admit: Admit) -> Self {
        self.admitted = Admitted(Some(admit));
        self
    }

    /// Has 2.03 with one of these tags given back as it is: who asks for this has what they stand
    /// for.
    pub(crate) fn known(mut self, tags: Vec<ETag>) -> Self {
        self.known = tags;
        self
    }

    /// What the cache has, if that is fresh; nothing is sent.
    pub(crate) fn if_fresh(&self) -> Result<Option<Reply>, Error> {
        #[allow(
            clippy::disallowed_methods,
            reason = "this crate is the driver that reads the clock"
        )]
        let began = Instant::now();
        match self.look_up()? {
            Looked::Fresh(response, peer) => Ok(Some(fresh(response, peer, began))),
            _ => Ok(None),
        }
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

    /// Says which classes of responses are not wanted (RFC 7967), for [`send_quietly`](Self::send_quietly).
    ///
    /// A server that knows the option answers a CON with an empty ACK, and a NON with nothing. One
    /// that does not answers as ever. A body that needs blocks is answered all the same.
    pub fn no_response(mut self, unwanted: NoResponse) -> Self {
        self.options
            .retain(|(number, _)| *number != OptionNumber::NO_RESPONSE);
        self.uint_option(OptionNumber::NO_RESPONSE, unwanted.value())
    }

    /// With [`no_response`](Self::no_response): how long to wait for a response of a class that is
    /// wanted still, once the request was acknowledged, or as NON sent. Default: not at all if no
    /// response is wanted, else ACK_TIMEOUT.
    pub fn unanswered_after(mut self, wait: Duration) -> Self {
        self.sending.unanswered_after = Some(wait.into());
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

    /// Asks the server in any case, even if the client's cache has a fresh response.
    pub fn reload(mut self) -> Self {
        self.reload = true;
        self
    }

    /// Sends the request and waits for the whole response.
    ///
    /// With a [cache](super::ClientBuilder::cache), what that has may answer instead.
    pub async fn send(self) -> Result<Reply, Error> {
        let deadline = self.deadline;
        within(deadline, |began| self.send_whole(began)).await
    }

    /// Sends a request that [does not want](Self::no_response) every response: waits until it has
    /// been acknowledged, or as NON has left, and no response is to come any more. If one came all
    /// the same, it is here.
    ///
    /// ```no_run
    /// # use carob::NoResponse;
    /// # async fn example(client: carob::Client) -> Result<(), carob::Error> {
    /// let update = client.put("coap://[::1]/lamp").body("on").no_response(NoResponse::SUCCESS);
    /// if let Some(reply) = update.send_quietly().await? {
    ///     reply.success()?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn send_quietly(self) -> Result<Option<Reply>, Error> {
        match self.send().await {
            Err(Error::Unanswered { .. }) => Ok(None),
            sent => sent.map(Some),
        }
    }

    /// Sends the request and waits for the beginning of the response, whose body is then read as
    /// it arrives, however large.
    ///
    /// With [`range`](Self::range), the part is read before this returns. What a
    /// [cache](super::ClientBuilder::cache) has may answer this too, but what arrives as a stream
    /// is not kept.
    pub async fn send_streaming(self) -> Result<StreamedReply, Error> {
        let deadline = self.deadline;
        within(deadline, |began| self.send_streamed(began)).await
    }

    /// Observes the resource (RFC 7641): waits for its first state, and gives a stream of this and
    /// all that follow.
    ///
    /// The deadline, if there is one, is for the first state. The observation outlives a restart of
    /// the server: see [`Observation`]. Entity tags among the options are left out, since others
    /// may come to [share](Observation) it who do not have what these stand for.
    pub async fn observe(mut self) -> Result<Observation, Error> {
        let deadline = self.deadline.take();
        within(deadline, |began| self.begin_observation(began)).await
    }

    /// Asks a group (RFC 7252 8): sends the request once, as NON, and gives a stream of what its
    /// members answer within `lasts`, counted from now. Members answer at random moments within their
    /// leisure, 5 s unless they know better; [`GATHERING`](super::GATHERING) is 8 s.
    ///
    /// The URI's host, or where [`to`](Self::to) says, must be a multicast or the broadcast address, and
    /// the scheme `coap`. Neither ETag nor a body larger than a message can be sent to a group, and no
    /// cache is asked.
    pub async fn gather(mut self, lasts: Duration) -> Result<Gathered, Error> {
        let uri = resolve::read(self.target.clone())?;
        self.handle = self.ways.of(uri.scheme())?;
        let (to, options) = if let Some(to) = self.to {
            (to, uri.options_for(to).map_err(option_error(3))?)
        } else {
            let found = resolve::addresses(&uri, self.handle.local()).await?;
            let first = found.first().copied().ok_or(Error::Closed)?;
            (first, uri.options().clone())
        };
        let mut request = Request::new(self.method);
        request.options = self.with_options(options)?;
        let (payload, whole) = self.body.0.next(FIRST).await.map_err(Error::Body)?;
        if !whole {
            let source = RequestError::Encode(EncodeError::BufferTooSmall);
            return Err(Error::NotSent { peer: to, source });
        }
        request.payload = payload;
        let mut gathering = Gathering::default();
        gathering.lasts = lasts.into();
        gathering.parameters = self.sending.parameters;
        let (members, replies) = mpsc::unbounded_channel();
        let ticket = self.handle.ticket();
        let cancel = Cancel {
            handle: Arc::clone(&self.handle),
            ticket,
            ended: false,
        };
        let new = NewGathering {
            ticket,
            to,
            request,
            gathering,
            members,
        };
        if !self.handle.command(Command::Gather(Box::new(new))).await {
            return Err(Error::Closed);
        }
        Ok(Gathered::new(replies, cancel, to))
    }
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
