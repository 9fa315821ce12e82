//! Execution of a request: cache, options, and the addresses in turn.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use carob_proto::codec::{
    Code, ETag, Host, OptionNumber, Options, OptionsError, Uri, UriErrorKind,
};
use carob_proto::endpoint::{BodyMode, RequestConfig};
use carob_proto::message::{Request, Response};
use carob_proto::proxy;
use tokio::sync::{Notify, mpsc, oneshot};

use super::RequestBuilder;
use crate::client::body::{FIRST, Source};
use crate::client::cache::{CacheRequest, Lookup, Revalidation, SharedCache};
use crate::client::observation::Observation;
use crate::client::reply::Answer;
use crate::client::reply::{BodyStream, Origin, Reply, StreamedReply};
use crate::client::{Target, resolve};
use crate::error::Error;
use crate::runtime::{
    Command, NewRequest, Observing, Received, ReplyTo, RequestControl, RequestFailure, Updates,
};

/// The destination of a request, which may be a proxy, and the options that name the resource.
#[derive(Debug)]
pub(super) struct Resolved {
    uri: Uri,
    options: Options,
}

impl RequestBuilder {
    pub(in crate::client) async fn begin_observation(
        mut self,
        began: Instant,
    ) -> Result<Observation, Error> {
        self.sending.observe = true;
        self.options
            // A 2.03 would name a state that this observation has not delivered.
            .retain(|(number, _)| *number != OptionNumber::ETAG);
        let (answer, received, peer, _) = self.exchange(began, BodyMode::Whole).await?;
        let updates = self.updates.take().unwrap_or_default();
        let mut cancel = answer.into_cancel();
        let observed = received.response.options.contains(OptionNumber::OBSERVE);
        // The first state has arrived; more may follow.
        cancel.ended = !observed;
        Ok(Observation::new(cancel, peer, received, updates, observed))
    }

    pub(in crate::client) async fn send_whole(mut self, began: Instant) -> Result<Reply, Error> {
        if let Some((offset, length)) = self.range {
            return self.send_range(began, offset, length).await;
        }
        let tag = |tag: &ETag| (OptionNumber::ETAG, tag.as_slice().to_vec());
        let missed = match self.look_up()? {
            Lookup::Aside => {
                self.options.extend(self.known.iter().map(tag));
                return self.receive(began).await;
            }
            Lookup::Fresh(response, peer) => return Ok(fresh(response, peer, began)),
            Lookup::Revalidation(missed) => missed,
        };
        let own_options = self.options.len();
        self.options.extend(missed.etags());
        // A tag that comes twice would only lengthen the request.
        let known = self.known.iter().filter(|known| !missed.has(**known));
        self.options.extend(known.map(tag));
        let mut reply = self.receive(began).await?;
        let known = reply.etag().filter(|tag| self.known.contains(tag));
        // The application named this tag and has the state; the cache has not.
        if reply.code == Code::VALID && known.is_some_and(|tag| !missed.has(tag)) {
            return Ok(reply);
        }
        if missed.is_validated_by(&reply) {
            if let Some(reply) = validated(&missed, &reply.response, reply.peer, reply.after) {
                return Ok(reply);
            }
            // The validated state is not cached: the request is repeated without tags.
            self.options.truncate(own_options);
            reply = self.receive(began).await?;
        }
        missed.insert(&reply);
        Ok(reply)
    }

    /// Sends the request and waits for the whole response, whatever the cache has.
    pub(in crate::client) async fn receive(&mut self, began: Instant) -> Result<Reply, Error> {
        let (answer, received, peer, _) = self.exchange(began, BodyMode::Whole).await?;
        drop(answer);
        Ok(Reply {
            response: received.response,
            peer,
            after: received.after,
            origin: Origin::Network,
        })
    }

    /// Looks up the request in the cache, if it applies.
    pub(in crate::client) fn look_up(&mut self) -> Result<Lookup, Error> {
        let (method, reload) = (self.method, self.reload);
        let looked =
            self.ask_cache(|cache, asked, body| Some(cache.find(asked, method, body, reload)));
        Ok(looked?.unwrap_or(Lookup::Aside))
    }

    /// Creates the update queue of an observation, and its cache writer.
    pub(in crate::client) fn observing(&mut self) -> Result<Observing, Error> {
        let method = self.method;
        let cache_writer =
            self.ask_cache(|cache, asked, body| cache.cache_writer(asked, method, body));
        let updates = Arc::new(Updates::default());
        self.updates = Some(Arc::clone(&updates));
        Ok(Observing {
            updates,
            cache_writer: cache_writer?.map(|writer| Box::new(writer) as _),
        })
    }

    pub(in crate::client) fn ask_cache<T>(
        &mut self,
        ask: impl FnOnce(&Arc<SharedCache>, &CacheRequest<'_>, &[u8]) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        // Only GET and FETCH: a method that may change something must reach the server (RFC
        // 7252 5.6).
        if self.cache.is_none() || !self.method.is_safe() {
            return Ok(None);
        }
        let resolved = self.resolved()?;
        let (Some(cache), Source::Bytes(body)) = (&self.cache, &self.body.0) else {
            return Ok(None);
        };
        let options = self.with_options(resolved.options.clone())?;
        let asked = CacheRequest {
            uri: &resolved.uri,
            to: self.to,
            options: &options,
        };
        Ok(ask(cache, &asked, body))
    }

    /// Returns the request's destination and options; parsed at the first call.
    fn resolved(&mut self) -> Result<Arc<Resolved>, Error> {
        if let Some(resolved) = &self.resolved {
            return Ok(Arc::clone(resolved));
        }
        let (uri, options) = self.read()?;
        let resolved = Arc::new(Resolved { uri, options });
        self.resolved = Some(Arc::clone(&resolved));
        Ok(resolved)
    }

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
                let options = proxy::options_for_proxy(&uri, proxy.port());
                (uri.scheme().is_secure(), options.map_err(option_error(3))?)
            }
            // Only an implementation of the scheme can validate such a URI.
            (Err(Error::Uri { source, .. }), Target::Text(text))
                if source.kind == UriErrorKind::UnknownScheme =>
            {
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
        // A request for a secure scheme should not leave this host in the clear (RFC 7252 5.7).
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

    /// Returns the options of the URI and of the request.
    pub(in crate::client) fn with_options(&self, mut options: Options) -> Result<Options, Error> {
        for (number, value) in &self.options {
            options
                .push(*number, value)
                .map_err(option_error(number.0))?;
        }
        Ok(options)
    }

    pub(in crate::client) async fn send_streamed(
        mut self,
        began: Instant,
    ) -> Result<StreamedReply, Error> {
        let handle = Arc::clone(&self.handle);
        if let Some((offset, length)) = self.range {
            let reply = self.send_range(began, offset, length).await?;
            return Ok(StreamedReply::of(reply, handle));
        }
        let missed = match self.look_up()? {
            Lookup::Aside => return self.receive_streamed(began).await,
            Lookup::Fresh(response, peer) => {
                return Ok(StreamedReply::of(fresh(response, peer, began), handle));
            }
            Lookup::Revalidation(missed) => missed,
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
    pub(in crate::client) async fn receive_streamed(
        &mut self,
        began: Instant,
    ) -> Result<StreamedReply, Error> {
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

    /// Tries the host's addresses in turn until one is reachable.
    pub(in crate::client) async fn exchange(
        &mut self,
        began: Instant,
        mode: BodyMode,
    ) -> Result<Exchanged, Error> {
        let resolved = self.resolved()?;
        let uri = &resolved.uri;
        self.handle = self.transports.of(uri.scheme())?;
        let mut peers = match self.to {
            Some(to) => vec![to],
            None => resolve::addresses(uri, self.handle.local()).await?,
        };
        if let Some(admit) = &self.admitted.0 {
            peers.retain(|peer| admit(*peer));
            if peers.is_empty() {
                let host = uri.host().to_string();
                return Err(Error::NotAdmitted { host });
            }
        }
        let options = self.with_options(resolved.options.clone())?;
        let mut sending = self.sending.clone();
        sending.response_body = mode;
        // `within` enforces the deadline; the engine gets it, too, so that the request ends with
        // its caller.
        sending.deadline = self.deadline.map(|deadline| {
            let rest = deadline.saturating_sub(began.elapsed());
            rest.max(Duration::from_millis(1)).into()
        });
        let mut request = Request::new(self.method);
        request.options = options;
        // The part read from a streamed body, for a retry at another address.
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
            let name = resolve::name(uri);
            let attempt = self.attempt(peer, name, request.clone(), sending.clone(), prefix);
            let (outcome, untouched) = attempt.await?;
            match outcome {
                Ok((answer, received, parts)) => {
                    self.invalidate_cache(&resolved, &received.response)?;
                    return Ok((answer, received, peer, parts));
                }
                Err(failed) => {
                    let error = failed.into_public(peer);
                    let again = matches!(error, Error::Unreachable { .. }) && untouched;
                    if !again || n == last {
                        return Err(error);
                    }
                }
            }
        }
        Err(Error::Closed)
    }

    /// Invalidates cached responses after a change.
    fn invalidate_cache(&self, resolved: &Resolved, response: &Response) -> Result<(), Error> {
        if let Some(cache) = &self.cache
            && !self.method.is_safe()
            && response.code.is_success()
        {
            let options = self.with_options(resolved.options.clone())?;
            let asked = CacheRequest {
                uri: &resolved.uri,
                to: self.to,
                options: &options,
            };
            cache.changed(&asked, response);
        }
        Ok(())
    }

    /// Sends to one address. Besides the outcome, whether nothing of the body's source was read.
    pub(in crate::client) async fn attempt(
        &mut self,
        peer: SocketAddr,
        name: Option<Arc<str>>,
        request: Request,
        sending: RequestConfig,
        prefix: Option<Bytes>,
    ) -> Result<(Result<AttemptOutcome, RequestFailure>, bool), Error> {
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
        let supplied = match &starved {
            None => (answer.receive().await, true),
            Some(starved) => self.supply(ticket, &mut answer, starved, prefix).await?,
        };
        let (received, untouched) = supplied;
        answer.cancel.ended = true;
        match received {
            Some(Ok(received)) => Ok((Ok((answer, received, parts)), untouched)),
            Some(Err(failed)) => Ok((Err(failed), untouched)),
            None => Err(Error::Closed),
        }
    }

    /// Supplies the body chunk by chunk until the response arrives. Returns the response, and
    /// whether nothing was read from the body's source.
    async fn supply(
        &mut self,
        ticket: u64,
        answer: &mut Answer<Result<Received, RequestFailure>>,
        starved: &Notify,
        mut prefix: Option<Bytes>,
    ) -> Result<(Option<Result<Received, RequestFailure>>, bool), Error> {
        let mut untouched = true;
        loop {
            tokio::select! {
                biased;
                received = answer.receive() => return Ok((received, untouched)),
                () = starved.notified() => {}
            }
            let (bytes, last) = if let Some(bytes) = prefix.take() {
                (bytes, false)
            } else {
                untouched = false;
                // The response, such as an error, may precede the end of the body.
                tokio::select! {
                    biased;
                    received = answer.receive() => return Ok((received, untouched)),
                    read = self.body.0.next(FIRST) => read.map_err(Error::Body)?,
                }
            };
            // A stopped driver does not reply.
            let _ = self.handle.control.send(RequestControl::Supply {
                ticket,
                bytes,
                last,
            });
        }
    }
}

/// Converts a cached response into a reply.
pub(super) fn fresh(response: Response, peer: SocketAddr, began: Instant) -> Reply {
    Reply {
        response,
        peer,
        after: began.elapsed(),
        origin: Origin::Fresh,
    }
}

/// Returns the reply validated by a 2.03, if it is cached.
fn validated(
    missed: &Revalidation,
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

type AttemptOutcome = (
    Answer<Result<Received, RequestFailure>>,
    Received,
    Option<Parts>,
);
type Exchanged = (
    Answer<Result<Received, RequestFailure>>,
    Received,
    SocketAddr,
    Option<Parts>,
);
type Parts = mpsc::UnboundedReceiver<Result<(Bytes, bool), RequestFailure>>;

pub(super) fn option_error(number: u16) -> impl Fn(OptionsError) -> Error {
    move |source| Error::Option { number, source }
}
