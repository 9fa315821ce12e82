//! A request on its way from a builder to a reply.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use carob_cc::TransmissionParameters;
use carob_proto::codec::{
    Code, ContentFormat, ETag, EncodeError, Host, NoResponse, OptionNumber, Options, OptionsError,
    Uri,
};
use carob_proto::endpoint::{BodyMode, Gathering, RequestError, Sending};
use carob_proto::message::{Request, Response};
use carob_proto::proxy;
use tokio::sync::{Notify, mpsc, oneshot};

use super::body::{Body, FIRST, Source};
use super::cache::{Asked, Looked, Missed, SharedCache};
use super::gathered::Gathered;
use super::observation::Observation;
use super::reply::{BodyStream, Origin, Reply, StreamedReply};
use super::{Answer, Cancel, Target, resolve};
use crate::driver::{
    Command, Failed, Handle, NewGathering, NewRequest, Note, Observing, Received, ReplyTo, Updates,
};
use crate::error::Error;
use crate::ways::Ways;

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
    /// other, such as `http://` ([`proxy::ask_for`]). What is to be secure (`coaps` and its like,
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

    async fn begin_observation(mut self, began: Instant) -> Result<Observation, Error> {
        self.sending.observe = true;
        self.options
            .retain(|(number, _)| *number != OptionNumber::ETAG);
        let (answer, received, peer, _) = self.exchange(began, BodyMode::Whole).await?;
        let updates = self.updates.take().unwrap_or_default();
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
        let tag = |tag: &ETag| (OptionNumber::ETAG, tag.as_slice().to_vec());
        let missed = match self.look_up()? {
            Looked::Aside => {
                self.options.extend(self.known.iter().map(tag));
                return self.receive(began).await;
            }
            Looked::Fresh(response, peer) => return Ok(fresh(response, peer, began)),
            Looked::Missed(missed) => missed,
        };
        let own_options = self.options.len();
        self.options.extend(missed.etags());
        let known = self.known.iter().filter(|known| !missed.has(**known));
        self.options.extend(known.map(tag));
        let mut reply = self.receive(began).await?;
        let known = reply.etag().filter(|tag| self.known.contains(tag));
        if reply.code == Code::VALID && known.is_some_and(|tag| !missed.has(tag)) {
            return Ok(reply);
        }
        if missed.is_validated_by(&reply) {
            if let Some(reply) = validated(&missed, &reply.response, reply.peer, reply.after) {
                return Ok(reply);
            }
            // What is valid is not what we have: the server must say what it is.
            self.options.truncate(own_options);
            reply = self.receive(began).await?;
        }
        missed.insert(&reply);
        Ok(reply)
    }

    /// Sends the request and waits for the whole response, whatever the cache has.
    async fn receive(&mut self, began: Instant) -> Result<Reply, Error> {
        let (answer, received, peer, _) = self.exchange(began, BodyMode::Whole).await?;
        drop(answer);
        Ok(Reply {
            response: received.response,
            peer,
            after: received.after,
            origin: Origin::Network,
        })
    }

    /// Looks into the cache, if there is one and the request is for it.
    fn look_up(&self) -> Result<Looked, Error> {
        let looked = self.ask_cache(|cache, asked, body| {
            Some(cache.find(asked, self.method, body, self.reload))
        });
        Ok(looked?.unwrap_or(Looked::Aside))
    }

    /// Who is to hear of an observation.
    fn observing(&mut self) -> Result<Observing, Error> {
        let keeper = self.ask_cache(|cache, asked, body| cache.keeper(asked, self.method, body));
        let updates = Arc::new(Updates::default());
        self.updates = Some(Arc::clone(&updates));
        Ok(Observing {
            updates,
            keeper: keeper?,
        })
    }

    fn ask_cache<T>(
        &self,
        ask: impl FnOnce(&Arc<SharedCache>, &Asked<'_>, &[u8]) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        let (Some(cache), Source::Bytes(body)) = (&self.cache, &self.body.0) else {
            return Ok(None);
        };
        if !self.method.is_safe() {
            return Ok(None);
        }
        let (uri, options) = self.read()?;
        let options = self.with_options(options)?;
        let asked = Asked {
            uri: &uri,
            to: self.to,
            options: &options,
        };
        Ok(ask(cache, &asked, body))
    }

    /// The URI of who is asked, which may be a proxy, and the options that say what for.
    fn read(&self) -> Result<(Uri, Options), Error> {
        let Some(via) = &self.via else {
            let uri = resolve::read(self.target.clone())?;
            let options = match self.to {
                Some(to) => uri.options_for(to).map_err(option_error(3))?,
                None => uri.options().clone(),
            };
            return Ok((uri, options));
        };
        let proxy = resolve::read(via.clone())?;
        let (secure, options) = match (resolve::read(self.target.clone()), &self.target) {
            (Ok(uri), _) => {
                let options = proxy::ask_for(&uri, proxy.port());
                (uri.scheme().is_secure(), options.map_err(option_error(3))?)
            }
            // Whether such a URI can be is for who speaks the scheme to say.
            (Err(Error::Uri { source, .. }), Target::Text(text)) if source.is_other_scheme() => {
                let mut options = Options::new();
                let number = OptionNumber::PROXY_URI;
                let pushed = options.push(number, text.as_bytes());
                pushed.map_err(option_error(number.0))?;
                let https = text
                    .get(..6)
                    .is_some_and(|s| s.eq_ignore_ascii_case("https:"));
                (https, options)
            }
            (Err(error), _) => return Err(error),
        };
        let here = match proxy.host() {
            Host::Name(name) => name == "localhost",
            host => host.address().is_some_and(|address| address.is_loopback()),
        };
        if secure && !proxy.scheme().is_secure() && !here {
            return Err(Error::InsecureProxy {
                proxy: proxy.to_string(),
            });
        }
        Ok((proxy, options))
    }

    /// The options of the URI and the request's own.
    fn with_options(&self, mut options: Options) -> Result<Options, Error> {
        for (number, value) in &self.options {
            options
                .push(*number, value)
                .map_err(option_error(number.0))?;
        }
        Ok(options)
    }

    async fn send_streamed(mut self, began: Instant) -> Result<StreamedReply, Error> {
        let handle = Arc::clone(&self.handle);
        if let Some((offset, length)) = self.range {
            let reply = self.send_range(began, offset, length).await?;
            return Ok(StreamedReply::of(reply, handle));
        }
        let missed = match self.look_up()? {
            Looked::Aside => return self.receive_streamed(began).await,
            Looked::Fresh(response, peer) => {
                return Ok(StreamedReply::of(fresh(response, peer, began), handle));
            }
            Looked::Missed(missed) => missed,
        };
        let own_options = self.options.len();
        self.options.extend(missed.etags());
        let reply = self.receive_streamed(began).await?;
        if !missed.is_validated_by(&reply.head) {
            return Ok(reply);
        }
        if let Some(reply) = validated(&missed, &reply.head, reply.peer, reply.after) {
            return Ok(StreamedReply::of(reply, handle));
        }
        self.options.truncate(own_options);
        self.receive_streamed(began).await
    }

    /// Sends the request and waits for the beginning of the response, whatever the cache has.
    async fn receive_streamed(&mut self, began: Instant) -> Result<StreamedReply, Error> {
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
            origin: Origin::Network,
            body: BodyStream {
                parts,
                cancel,
                peer,
            },
        })
    }

    /// Tries the host's addresses in turn until one can be reached.
    pub(super) async fn exchange(
        &mut self,
        began: Instant,
        mode: BodyMode,
    ) -> Result<Exchanged, Error> {
        let (uri, options) = self.read()?;
        self.handle = self.ways.of(uri.scheme())?;
        let mut peers = match self.to {
            Some(to) => vec![to],
            None => resolve::addresses(&uri, self.handle.local()).await?,
        };
        if let Some(admit) = &self.admitted.0 {
            peers.retain(|peer| admit(*peer));
            if peers.is_empty() {
                let host = uri.host().to_string();
                return Err(Error::NotAdmitted { host });
            }
        }
        let options = self.with_options(options)?;
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
            let name = resolve::name(&uri);
            let attempt = self.attempt(peer, name, request.clone(), sending.clone(), prefix);
            let (outcome, untouched) = attempt.await?;
            match outcome {
                Ok((answer, received, parts)) => {
                    self.tell_cache(&uri, &received.response)?;
                    return Ok((answer, received, peer, parts));
                }
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

    /// Tells the cache if something was changed.
    fn tell_cache(&self, uri: &Uri, response: &Response) -> Result<(), Error> {
        if let Some(cache) = &self.cache
            && !self.method.is_safe()
            && response.code.is_success()
        {
            let (_, options) = self.read()?;
            let options = self.with_options(options)?;
            let asked = Asked {
                uri,
                to: self.to,
                options: &options,
            };
            cache.changed(&asked, response);
        }
        Ok(())
    }

    /// Sends to one address. Besides the outcome, whether nothing of the body's source was read.
    async fn attempt(
        &mut self,
        peer: SocketAddr,
        name: Option<Arc<str>>,
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
        let observing = if sending.observe {
            Some(self.observing()?)
        } else {
            None
        };
        let reply = ReplyTo {
            head,
            parts: part_sender,
            starved: starved.clone(),
            observing,
        };
        let new = NewRequest {
            ticket,
            to: peer,
            name,
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
}

/// A response from the cache, as a reply.
fn fresh(response: Response, peer: SocketAddr, began: Instant) -> Reply {
    Reply {
        response,
        peer,
        after: began.elapsed(),
        origin: Origin::Fresh,
    }
}

/// The reply that a 2.03 stands for, if the cache has it.
fn validated(
    missed: &Missed,
    valid: &Response,
    peer: SocketAddr,
    after: Duration,
) -> Option<Reply> {
    Some(Reply {
        response: missed.validate(valid, peer)?,
        peer,
        after,
        origin: Origin::Validated,
    })
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
