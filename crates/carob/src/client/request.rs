//! The description of a request; `sending` executes it.

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
use carob_proto::endpoint::{MulticastRequest, QBlockMode, RequestConfig, RequestError};
use carob_proto::message::Request;
use tokio::sync::mpsc;

use super::body::{Body, FIRST};
use super::cache::{Lookup, SharedCache};
use super::observation::Observation;
use super::reply::Cancel;
use super::reply::MulticastResponses;
use super::reply::{Reply, StreamedReply};
use super::{Target, resolve};
use crate::error::Error;
use crate::runtime::TransportSet;
use crate::runtime::{Command, Handle, NewMulticast, Updates};
use crate::transport::socket::canonical;
use sending::{Resolved, fresh, option_error};

/// Decides whether an address may be contacted.
pub(crate) type Admit = Arc<dyn Fn(SocketAddr) -> bool + Send + Sync>;

/// The rule for addresses that may be contacted; default: all.
#[derive(Clone)]
struct Admitted(Option<Admit>);

impl fmt::Debug for Admitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "some" } else { "all" })
    }
}

/// Builder of a request. Awaiting it sends the request, as [`send`](Self::send) does.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use carob::server::{Request, Resource};
/// use carob::{Client, Code, ContentFormat, Server};
/// use std::time::Duration;
///
/// let lamp = Resource::new().put(|_: Request| async { Code::CHANGED });
/// let server = Server::builder().bind("127.0.0.1:0").resource("/lamp", lamp).start().await?;
/// let reply = Client::new()?
///     .put(format!("coap://{}/lamp", server.local_address()))
///     .content_format(ContentFormat::JSON)
///     .body("{\"on\":true}")
///     .timeout(Duration::from_secs(5))
///     .await?
///     .success()?;
/// assert_eq!(reply.code, Code::CHANGED);
/// # Ok(())
/// # }
/// ```
///
/// Transmission parameters come from the request, else from the [peer](crate::PeerConfig), else
/// from the [endpoint](crate::Config).
///
/// Dropping the future cancels the request: there are no further retransmissions, and a late
/// response is ignored. The server may have executed the request.
#[derive(Debug)]
#[must_use = "a request is sent when it is awaited"]
pub struct RequestBuilder {
    transports: Arc<TransportSet>,
    /// The endpoint, chosen by the scheme of the URI.
    pub(super) handle: Arc<Handle>,
    cache: Option<Arc<SharedCache>>,
    /// Fresh responses are revalidated, too.
    reload: bool,
    method: Code,
    target: Target,
    /// The parsed target, set when the request is sent.
    resolved: Option<Arc<Resolved>>,
    /// The forward-proxy that receives the request.
    via: Option<Target>,
    pub(super) to: Option<SocketAddr>,
    /// The host's addresses that requests may be sent to.
    admitted: Admitted,
    /// Entity tags known to the requester, besides the cache's.
    known: Vec<ETag>,
    pub(super) options: Vec<(OptionNumber, Vec<u8>)>,
    body: Body,
    range: Option<(u64, u64)>,
    pub(super) sending: RequestConfig,
    deadline: Option<Duration>,
    /// For an observation, the queue of updates of the latest attempt to register.
    updates: Option<Arc<Updates>>,
}

impl RequestBuilder {
    pub(super) fn new(
        transports: Arc<TransportSet>,
        cache: Option<Arc<SharedCache>>,
        method: Code,
        target: Target,
    ) -> Self {
        Self {
            handle: Arc::clone(transports.first()),
            transports,
            cache,
            reload: false,
            method,
            target,
            resolved: None,
            via: None,
            to: None,
            admitted: Admitted(None),
            known: Vec::new(),
            options: Vec::new(),
            body: Body::from(Bytes::new()),
            range: None,
            sending: RequestConfig::default(),
            deadline: None,
            updates: None,
        }
    }

    /// Sets the address to send to, instead of an address of the URI's host. The host name is then
    /// not resolved, and is sent as Uri-Host.
    pub fn address(mut self, address: SocketAddr) -> Self {
        self.to = Some(canonical(address));
        self
    }

    /// Sends the request through the forward-proxy at this URI, which has no path (RFC 7252 section
    /// 5.7.2).
    ///
    /// The request carries Proxy-Scheme for a URI with a CoAP scheme
    /// ([`carob_proto::proxy::options_for_proxy`]), and Proxy-Uri for any other, such as `http://`.
    ///
    /// # Errors
    ///
    /// When sent: [`Error::InsecureProxy`] if the target's scheme is secure (`coaps`, `coaps+tcp`,
    /// `coaps+ws`, `https`), the proxy's is not, and the proxy is not on this host (RFC 7252
    /// section 5.7).
    pub fn via(mut self, proxy: impl Into<Target>) -> Self {
        self.via = Some(proxy.into());
        self
    }

    /// Sends the request only to addresses of the host that `admit` accepts.
    pub(crate) fn admit(mut self, admit: Admit) -> Self {
        self.admitted = Admitted(Some(admit));
        self
    }

    /// Returns a 2.03 with one of these tags unchanged, because the requester has the
    /// representation.
    pub(crate) fn known(mut self, tags: Vec<ETag>) -> Self {
        self.known = tags;
        self
    }

    /// Returns the cached response if it is fresh; sends nothing.
    pub(crate) fn if_fresh(&mut self) -> Result<Option<Reply>, Error> {
        #[allow(
            clippy::disallowed_methods,
            reason = "this crate is the driver that reads the clock"
        )]
        let began = Instant::now();
        match self.look_up()? {
            Lookup::Fresh(response, peer) => Ok(Some(fresh(response, peer, began))),
            _ => Ok(None),
        }
    }

    /// Sets the body: bytes, or a [`Body::reader`] or [`Body::channel`] that is read while it is
    /// sent. Default: empty.
    ///
    /// A body that exceeds the block size is sent in blocks (RFC 7959).
    pub fn body(mut self, body: impl Into<Body>) -> Self {
        self.body = body.into();
        self
    }

    /// Adds an option with an opaque or string value. Several calls with one number repeat the
    /// option. A value that does not fit is reported when the request is sent ([`Error::Option`]).
    pub fn option(mut self, number: OptionNumber, value: impl Into<Vec<u8>>) -> Self {
        self.options.push((number, value.into()));
        self
    }

    /// Adds an option with an unsigned integer value, in its shortest encoding (RFC 7252 section
    /// 3.2).
    pub fn uint_option(self, number: OptionNumber, value: u32) -> Self {
        let value = value.to_be_bytes();
        // As few bytes as possible; zero is the empty value (RFC 7252 3.2).
        let zeros = value.iter().take_while(|byte| **byte == 0).count();
        self.option(number, &value[zeros..])
    }

    /// Adds the Content-Format of the body (RFC 7252 section 5.10.3).
    pub fn content_format(self, format: ContentFormat) -> Self {
        self.uint_option(OptionNumber::CONTENT_FORMAT, format.0.into())
    }

    /// Adds the Accept option: the Content-Format requested (RFC 7252 section 5.10.4).
    pub fn accept(self, format: ContentFormat) -> Self {
        self.uint_option(OptionNumber::ACCEPT, format.0.into())
    }

    /// Sets the use of Q-Block1 and Q-Block2 (RFC 9177) over UDP and DTLS, instead of
    /// [`EngineConfig::q_block`](crate::EngineConfig::q_block). Bodies that are sent or delivered in
    /// chunks, and observations, use Block1 and Block2.
    pub fn q_block(mut self, mode: QBlockMode) -> Self {
        self.sending.q_block = Some(mode);
        self
    }

    /// Sets the message type over UDP and DTLS: CON (default), or NON, which is not retransmitted.
    pub fn confirmable(mut self, confirmable: bool) -> Self {
        self.sending.confirmable = confirmable;
        self
    }

    /// Adds the No-Response option: the classes of responses to suppress (RFC 7967). Send the
    /// request with [`send_no_response`](Self::send_no_response).
    ///
    /// A server with support for the option acknowledges a CON request with an empty ACK and does
    /// not reply to a NON request. Other servers respond as usual. A request with a body in several
    /// blocks always gets responses.
    pub fn no_response(mut self, unwanted: NoResponse) -> Self {
        self.options
            // The option is not repeatable (RFC 7967 2): the last call counts.
            .retain(|(number, _)| *number != OptionNumber::NO_RESPONSE);
        self.uint_option(OptionNumber::NO_RESPONSE, unwanted.value())
    }

    /// Sets the time to wait for a response of a class that is not suppressed, with
    /// [`no_response`](Self::no_response). It starts when a CON request is acknowledged or a NON
    /// request is sent. Default: zero if all classes are suppressed, else ACK_TIMEOUT.
    pub fn suppressed_after(mut self, wait: Duration) -> Self {
        self.sending.suppressed_after = Some(wait.into());
        self
    }

    /// Sets the timeout of the whole request, including name resolution and all blocks. Default:
    /// none; the retransmission timeouts of the transmission parameters apply.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.deadline = Some(timeout);
        self
    }

    /// Sets the transmission parameters of this request.
    pub fn parameters(mut self, parameters: TransmissionParameters) -> Self {
        self.sending.parameters = Some(parameters);
        self
    }

    /// Sets the expected size of the response in bytes, for controllers that count bytes in flight.
    /// Default: 0, unknown.
    pub fn answer_bytes(mut self, bytes: u32) -> Self {
        self.sending.answer_bytes = bytes;
        self
    }

    /// Requests `length` bytes of the representation from byte `offset` on, with the blocks that
    /// hold them (RFC 7959 section 2.4). The reply's body is that part; it is shorter if the
    /// representation ends before.
    pub fn range(mut self, offset: u64, length: u64) -> Self {
        self.range = Some((offset, length));
        self
    }

    /// Sends the request even if the cache has a fresh response. A cached response with an entity
    /// tag is revalidated.
    pub fn reload(mut self) -> Self {
        self.reload = true;
        self
    }

    /// Sends the request and waits for the complete response, at most `download_bytes` (64 MiB,
    /// [`Limits`](crate::Limits)) long.
    ///
    /// Of several addresses of the host, up to 8 are tried in turn until one can be reached. With a
    /// [cache](super::ClientBuilder::cache), a fresh response is returned without a message;
    /// [`Reply::origin`] distinguishes them. Dropping the future cancels the request.
    ///
    /// # Errors
    ///
    /// [`Error`]; [`Error::kind`] is for decisions, [`Error::remedy`] for people. A response with a
    /// code of class 4 or 5 is a reply, not an error; [`Reply::success`] converts it.
    pub async fn send(self) -> Result<Reply, Error> {
        let deadline = self.deadline;
        within(deadline, |began| self.send_whole(began)).await
    }

    /// Sends a request with [`no_response`](Self::no_response). Waits until the request is
    /// acknowledged, or sent as NON, and until no response is due any more
    /// ([`suppressed_after`](Self::suppressed_after)). Returns the response if there is one.
    ///
    /// ```no_run
    /// # use carob::NoResponse;
    /// # async fn example(client: carob::Client) -> Result<(), carob::Error> {
    /// let update = client.put("coap://[::1]/lamp").body("on").no_response(NoResponse::SUCCESS);
    /// if let Some(reply) = update.send_no_response().await? {
    ///     reply.success()?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`send`](Self::send), but not [`Error::ResponseSuppressed`].
    pub async fn send_no_response(self) -> Result<Option<Reply>, Error> {
        match self.send().await {
            Err(Error::ResponseSuppressed { .. }) => Ok(None),
            sent => sent.map(Some),
        }
    }

    /// Sends the request and returns once the first block of the response has arrived; the rest of
    /// the body is read from [`StreamedReply::body`] and is not held in memory as a whole.
    ///
    /// ```no_run
    /// # async fn example(client: carob::Client) -> Result<(), carob::Error> {
    /// let mut reply = client.get("coap://example.org/firmware").send_streaming().await?;
    /// let mut bytes = 0;
    /// while let Some(chunk) = reply.body.chunk().await? {
    ///     bytes += chunk.len();
    /// }
    /// println!("{bytes} of {:?} bytes", reply.size);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// With [`range`](Self::range), the whole part is read first. The cache may supply the
    /// response, but a streamed body is not cached.
    ///
    /// # Errors
    ///
    /// As for [`send`](Self::send); later errors come from
    /// [`BodyStream::chunk`](super::BodyStream::chunk).
    pub async fn send_streaming(self) -> Result<StreamedReply, Error> {
        let deadline = self.deadline;
        within(deadline, |began| self.send_streamed(began)).await
    }

    /// Registers an observation (RFC 7641), waits for the first response, and returns the stream of
    /// states, that one included.
    ///
    /// [`timeout`](Self::timeout) applies to the first response only. A server that does not
    /// register the client answers with a representation: the [`Observation`] then holds this
    /// single update, as [`Update::Ended`](super::Update::Ended). ETag options are removed, because
    /// observations may be [shared](Observation).
    ///
    /// # Errors
    ///
    /// As for [`send`](Self::send); later errors are items of the stream.
    pub async fn observe(mut self) -> Result<Observation, Error> {
        // Taken: the deadline bounds the registration, an observation has no end.
        let deadline = self.deadline.take();
        within(deadline, |began| self.begin_observation(began)).await
    }

    /// Sends a multicast request (RFC 7252 section 8): once, as NON. Returns the stream of
    /// responses, which ends after `lasts`.
    ///
    /// Members respond at a random time within their leisure, 5 s by default.
    /// [`MULTICAST_WAIT`](super::MULTICAST_WAIT) (8 s) is a common choice for `lasts`.
    ///
    /// ```no_run
    /// # async fn example(client: carob::Client) -> Result<(), carob::Error> {
    /// use carob::client::MULTICAST_WAIT;
    ///
    /// let core = client.get("coap://224.0.1.187/.well-known/core");
    /// let mut responses = core.multicast(MULTICAST_WAIT).await?;
    /// while let Some(Ok(reply)) = responses.next().await {
    ///     println!("{}: {:?}", reply.peer, reply.text());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The destination, which is the URI's host or [`address`](Self::address), must be a multicast
    /// or broadcast address, and the scheme `coap`. ETag options and bodies of more than one
    /// message are not allowed. The cache is not used.
    ///
    /// # Errors
    ///
    /// [`Error::NotSent`] for a request that cannot be multicast; [`Error::Uri`],
    /// [`Error::Resolve`], [`Error::Closed`].
    pub async fn multicast(mut self, lasts: Duration) -> Result<MulticastResponses, Error> {
        let uri = resolve::read(self.target.clone())?;
        self.handle = self.transports.of(uri.scheme())?;
        let (to, options) = if let Some(to) = self.to {
            // 3: Uri-Host.
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
        let mut gathering = MulticastRequest::default();
        gathering.lasts = lasts.into();
        gathering.parameters = self.sending.parameters;
        let (members, replies) = mpsc::unbounded_channel();
        let ticket = self.handle.ticket();
        let cancel = Cancel {
            handle: Arc::clone(&self.handle),
            ticket,
            ended: false,
        };
        let new = NewMulticast {
            ticket,
            to,
            request,
            gathering,
            members,
        };
        if !self.handle.command(Command::Multicast(Box::new(new))).await {
            return Err(Error::Closed);
        }
        Ok(MulticastResponses::new(replies, cancel, to))
    }
}

/// Runs a request within its deadline. The engine applies the deadline, too, with a more precise
/// error, so this one is slightly later.
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
