//! The protocol engine: a CoAP endpoint, client and server at once, without sockets or clocks.
//!
//! The law: after every call that is given the time (`handle_*`, [`Endpoint::request`],
//! [`Endpoint::respond`], ...), drain [`Endpoint::poll`] until it returns [`Output::Wait`]; then
//! wait for input or for that time. A call at a later time may be made without waiting; time must
//! not run backwards.
//!
//! ```
//! use carob_cc::random::Fixed;
//! use carob_cc::time::Instant;
//! use carob_proto::endpoint::{Config, Endpoint, Event, Output, RequestConfig};
//! use carob_proto::{Request, Response, codec::Code};
//!
//! let mut client = Endpoint::new(Config::default(), Fixed(1));
//! let mut server = Endpoint::new(Config::default(), Fixed(2));
//! let (here, there) = ("[::1]:40000".parse().unwrap(), "[::1]:5683".parse().unwrap());
//!
//! client.request(Instant::ZERO, there, Request::get(), RequestConfig::default()).unwrap();
//! let Output::Transmit { bytes, .. } = client.poll() else { panic!() };
//! server.handle_datagram(Instant::ZERO, here, bytes);
//! let Output::Event(Event::Request(id)) = server.poll() else { panic!() };
//! server.respond(Instant::ZERO, id, &Response::new(Code::CONTENT));
//! let Output::Transmit { bytes, .. } = server.poll() else { panic!() };
//! client.handle_datagram(Instant::ZERO, there, bytes);
//! assert!(matches!(client.poll(), Output::Event(Event::Response { .. })));
//! ```
//!
//! Layers, each below the next: `context` (time, configuration, timers, outbox), `admission`, `carrier`
//! with `message_layer` (RFC 7252 4) and `stream_layer` (RFC 8323), `client` and `server` (side by
//! side), and this module, which hands inputs and outcomes to the layer they are for.

mod routing;
mod usage;

use alloc::boxed::Box;
use core::net::SocketAddr;

use bytes::Bytes;
use carob_cc::TransmissionParameters;
use carob_cc::bottleneck_group::State as BottleneckState;
use carob_cc::random::Random;
use carob_cc::time::{Duration, Instant};

use crate::carrier::Carrier;
use crate::client::Client;
use crate::codec::{EncodeError, MessageView, OptionNumber};
use crate::config::admissible;
use crate::congestion::CongestionControl;
use crate::context::Context;
use crate::message::{Request, Response};
use crate::message_layer::bottleneck_group::Aggregates;
use crate::prefix::Prefix;
use crate::seeds::Seeds;
use crate::server::Server;

pub use crate::block::reassembly::Delivery;
pub use crate::block::{QBlockConfig, QBlockMode};
pub use crate::client::multicast::MulticastRequest;
pub use crate::client::{BlockMode, BodyMode, RequestConfig};
pub use crate::config::StreamConfig;
pub use crate::config::{
    Config, Leisure, MESSAGE_BYTES, NotificationQueue, RETRANSMISSION_COUNT, Tracing,
    can_count_retransmissions,
};
pub use crate::event::{
    AbortText, Disconnect, Event, Failure, IncomingId, Output, RequestError, RequestId, SessionEnd,
};
pub use crate::limits::{Limit, Limits};
pub use crate::message_layer::session::Flight;
pub use crate::message_layer::tokens::TOKEN_BYTES_MAX;
pub use crate::observe::{Observe, Subject};
pub use crate::server::{HandlerUsage, Incoming, Part};
pub use usage::{Snapshot, Usage};

/// A CoAP endpoint. See the [module documentation](self) for the obligations of its driver.
pub struct Endpoint {
    cx: Context,
    carrier: Carrier,
    client: Client,
    server: Server,
}

impl Endpoint {
    /// Creates an endpoint whose tokens, Message IDs and dithering come from `random`.
    pub fn new(mut config: Config, mut random: impl Random + Send + 'static) -> Self {
        // Once here, so that no later use has to check the bounds of RFC 7252 4.8.1.
        config.parameters = admissible(config.parameters);
        config.reliable = config.reliable.map(StreamConfig::admissible);
        let seeds = Seeds::draw(&mut random);
        let token_keys = seeds.tokens();
        let mut cx = Context::new(config, token_keys, Box::new(random));
        let aggregates =
            Aggregates::new(&cx.config.aggregates, cx.config.aggregate, &mut cx.timers);
        Self {
            carrier: Carrier::new(&cx.config, &seeds, aggregates),
            client: Client::new(&cx.config, &seeds),
            server: Server::new(&cx.config, &seeds),
            cx,
        }
    }

    /// Returns the settings.
    pub fn config(&self) -> &Config {
        &self.cx.config
    }

    /// Sets the rule that chooses the delivery of a request body by the first block's options.
    /// Without a rule, bodies are delivered whole.
    pub fn deliver_by(&mut self, rule: impl Fn(&MessageView<'_>) -> Delivery + Send + 'static) {
        self.server.deliver_by(Box::new(rule));
    }

    /// Sets a peer's own controller and transmission parameters. A known peer keeps its
    /// controller's state until it is evicted.
    pub fn set_peer(
        &mut self,
        peer: SocketAddr,
        controller: Option<CongestionControl>,
        parameters: Option<TransmissionParameters>,
    ) {
        self.carrier.set_peer(peer, controller, parameters);
    }

    /// Returns the number of bytes in messages that wait to be polled.
    pub fn queued_bytes(&self) -> usize {
        self.cx.out.queued_bytes()
    }

    /// Returns the bottleneck groups: their prefix, their state, and how many peers wait.
    pub fn aggregates(&self) -> impl Iterator<Item = (Prefix, BottleneckState, usize)> {
        self.carrier.aggregates()
    }

    /// Returns whether these bytes begin like an unanswered message of this endpoint to `peer`:
    /// type, code, Message ID and token. Verifies the datagram quoted by ICMP (RFC 7252 4.2).
    pub fn is_under_way(&self, peer: SocketAddr, quoted: &[u8]) -> bool {
        self.carrier.is_under_way(peer, quoted)
    }
}

/// Requests of this endpoint.
impl Endpoint {
    /// Sends a request. Its events carry the returned id; the last of them ends its life.
    ///
    /// Two block-wise bodies to one resource are sent one after the other. Two small non-idempotent
    /// requests (such as POST) may be sent at once. If the responses of both need blocks, the protocol
    /// cannot distinguish them (RFC 7959 2.4): send such requests one by one.
    ///
    /// # Errors
    ///
    /// [`RequestError`]: a limit is reached, the address or the request is invalid, or its options do not fit a message. No event follows.
    pub fn request(
        &mut self,
        now: Instant,
        to: SocketAddr,
        request: Request,
        config: RequestConfig,
    ) -> Result<RequestId, RequestError> {
        self.cx.now = now;
        let Self {
            cx,
            carrier,
            client,
            ..
        } = self;
        let result = client.request(cx, carrier, to, request, config);
        self.settle();
        result
    }

    /// Sends a multicast request and reports the members' responses: [`Event::MulticastResponse`]
    /// for each, then [`Event::MulticastComplete`].
    ///
    /// [`Config::groups`] must be set.
    ///
    /// # Errors
    ///
    /// [`RequestError`], as for [`request`](Self::request), and for options that a multicast
    /// request must not have.
    pub fn multicast(
        &mut self,
        now: Instant,
        to: SocketAddr,
        request: Request,
        config: MulticastRequest,
    ) -> Result<RequestId, RequestError> {
        self.cx.now = now;
        let Self {
            cx,
            carrier,
            client,
            ..
        } = self;
        let result = client.multicast(cx, carrier, to, request, config);
        self.settle();
        result
    }

    /// Pings a peer with an empty CON (RFC 7252 4.3).
    ///
    /// # Errors
    ///
    /// [`RequestError`], as for [`request`](Self::request).
    pub fn ping(&mut self, now: Instant, to: SocketAddr) -> Result<RequestId, RequestError> {
        self.cx.now = now;
        let result = self.client.ping(&mut self.cx, &mut self.carrier, to);
        self.settle();
        result
    }

    /// Cancels a request: no more retransmissions and no more events. Returns whether it was under
    /// way.
    pub fn cancel(&mut self, now: Instant, id: RequestId) -> bool {
        self.cx.now = now;
        let known = self.client.cancel(&mut self.cx, &mut self.carrier, id);
        self.settle();
        known
    }

    /// Appends to a streamed request body; `last` ends it.
    pub fn supply(&mut self, now: Instant, id: RequestId, bytes: Bytes, last: bool) {
        self.cx.now = now;
        let Self {
            cx,
            carrier,
            client,
            ..
        } = self;
        client.supply(cx, carrier, id, bytes, last);
        self.settle();
    }

    /// Permits `parts` more chunks of a streamed response body.
    pub fn read_on(&mut self, now: Instant, id: RequestId, parts: u32) {
        self.cx.now = now;
        self.client
            .read_on(&mut self.cx, &mut self.carrier, id, parts);
        self.settle();
    }

    /// Deregisters an observation: the server's response is the request's last event. Returns
    /// whether the request was in progress.
    ///
    /// [`cancel`](Self::cancel) ends it without further events. The server then receives a Reset to
    /// its next notification (RFC 7641 3.6), or over a connection at once.
    pub fn stop_observing(&mut self, now: Instant, id: RequestId) -> bool {
        self.cx.now = now;
        let known = self
            .client
            .stop_observing(&mut self.cx, &mut self.carrier, id);
        self.settle();
        known
    }

    /// Ends every request of this endpoint with [`Failure::ShutDown`].
    pub fn shut_down(&mut self, now: Instant) {
        self.cx.now = now;
        self.client.shut_down(&mut self.cx, &mut self.carrier);
        self.settle();
    }
}

/// Received requests and their responses.
impl Endpoint {
    /// Returns the request of an [`Event::Request`], until its response.
    pub fn incoming(&self, id: IncomingId) -> Option<Incoming<'_>> {
        self.server.incoming(id)
    }

    /// Returns the whole body of a request that came in several blocks, without copying it.
    pub fn incoming_body(&self, id: IncomingId) -> Option<Bytes> {
        self.server.incoming_body(id)
    }

    /// Returns the first critical option of a request that neither the engine nor the application
    /// understands. With [proxying](Config::forwards), requests that are not forwarded may have
    /// one, and are to be answered 4.02 (RFC 7252 5.4.1).
    pub fn unsupported_critical_option(&self, request: &MessageView<'_>) -> Option<OptionNumber> {
        crate::server::unsupported_critical_option(&self.cx, request)
    }

    /// Responds to a request. An unknown or answered request is ignored.
    ///
    /// A body larger than the requested block is cut to it. A 2.05 in another format than accepted
    /// becomes 4.06 (RFC 7252 5.10.4). A response that cannot be encoded, or has invalid options or
    /// an invalid part, becomes 5.00.
    pub fn respond(&mut self, now: Instant, id: IncomingId, response: &Response) {
        self.cx.now = now;
        self.server
            .respond(&mut self.cx, &mut self.carrier, id, response);
        self.settle();
    }

    /// Challenges a request: responds 4.01 with an Echo value. Its client repeats it with the value
    /// (RFC 9175 2.3), and it is then [fresh](Incoming::fresh).
    ///
    /// Meant for requests that must not be executed late or more than once. An attacker may delay
    /// or replay a datagram, but its value is valid for [`Config::echo_lifetime`] only.
    pub fn challenge(&mut self, now: Instant, id: IncomingId) {
        self.cx.now = now;
        self.server.challenge(&mut self.cx, &mut self.carrier, id);
        self.settle();
    }

    /// Returns whether the application may run another handler, for this request. Otherwise the
    /// request is answered: 5.03 at the limit or at its source's quota of it, a challenge above the
    /// watermark that is reserved for validated addresses. Call it for what takes time, and not for a
    /// request that is answered at once.
    pub fn admits_handler(&mut self, now: Instant, id: IncomingId, handlers: HandlerUsage) -> bool {
        self.cx.now = now;
        let admits = (self.server).admits_handler(&mut self.cx, &mut self.carrier, id, handlers);
        self.settle();
        admits
    }

    /// Returns the time after which this request may be retried after a 5.03; randomized.
    pub fn retry_time(&self, id: IncomingId) -> Duration {
        self.server.retry_time(&self.cx, id)
    }

    /// Validates an address, whether or not the anti-amplification limit applies to it: its source has
    /// answered a handshake, for example.
    pub fn validate(&mut self, now: Instant, source: SocketAddr) {
        self.cx.now = now;
        self.carrier.admission.on_validated(&self.cx, source);
    }
}

/// Observers of this endpoint's resources (RFC 7641 4).
impl Endpoint {
    /// Registers the sender of a request as an observer of `subject`. Returns whether it is
    /// registered.
    ///
    /// To be called before the resource's state is read, so that no change is missed between the
    /// two. A request without Observe, or at a limit, is not registered; it gets an ordinary
    /// response (RFC 7641 4.1). [`respond`](Self::respond) with an error removes the observer
    /// again.
    pub fn observe(&mut self, now: Instant, id: IncomingId, subject: Subject) -> bool {
        self.cx.now = now;
        let listed = self
            .server
            .observe(&mut self.cx, &mut self.carrier, id, subject);
        self.settle();
        listed
    }

    /// Undoes [`observe`](Self::observe) for a request without a response yet, which then has no
    /// Observe option.
    pub fn unobserve(&mut self, now: Instant, id: IncomingId) {
        self.cx.now = now;
        self.server.unobserve(&mut self.cx, &mut self.carrier, id);
        self.settle();
    }

    /// Notifies all observers of `subject` of a new state. Returns their number.
    ///
    /// A state not yet sent or acknowledged is superseded by this one, which is sent as soon as the
    /// peer's controller permits. Any code but a success ends all observations of the subject (RFC
    /// 7641 4.2). So does a state in another format than the first, which observers receive as
    /// 4.06.
    ///
    /// # Errors
    ///
    /// [`EncodeError`] if the response does not fit a message; nothing is sent.
    pub fn notify(
        &mut self,
        now: Instant,
        subject: Subject,
        response: &Response,
        confirmable: bool,
    ) -> Result<usize, EncodeError> {
        self.cx.now = now;
        let result = self
            .carrier
            .notify(&mut self.cx, subject, response, confirmable);
        self.settle();
        result
    }

    /// Returns the number of observers of a subject.
    pub fn observers(&self, subject: Subject) -> usize {
        self.carrier.notifications.observers.count(subject)
    }

    /// Ends all observations of `subject` with a final response of any code, sent to every observer
    /// without the Observe option (RFC 7641 3.2, 4.2).
    pub fn end_observations(
        &mut self,
        now: Instant,
        subject: Subject,
        response: &Response,
        confirmable: bool,
    ) {
        self.cx.now = now;
        self.carrier
            .end_observations(&mut self.cx, subject, response, confirmable);
        self.settle();
    }
}

/// Connections (RFC 8323), where peers are connections.
impl Endpoint {
    /// Reports a connection with `peer`, [requested](Output::Connect) or accepted. Returns false if
    /// the table is full; the driver is to close it.
    pub fn connected(&mut self, now: Instant, peer: SocketAddr) -> bool {
        self.cx.now = now;
        let taken = self.carrier.connected(&mut self.cx, peer);
        self.settle();
        taken
    }

    /// Reports that a connection has ended or could not be made.
    pub fn disconnected(&mut self, now: Instant, peer: SocketAddr, why: Disconnect) {
        self.cx.now = now;
        self.carrier.disconnected(&mut self.cx, peer, why);
        self.settle();
    }

    /// Reports whether the driver has more output for this peer than it can send. New requests and
    /// notifications then wait.
    pub fn set_congested(&mut self, now: Instant, peer: SocketAddr, congested: bool) {
        self.cx.now = now;
        self.carrier.set_congested(&mut self.cx, peer, congested);
        self.settle();
    }

    /// Sends a Release: the peer is to close its connection after the requests in progress (RFC 8323
    /// 5.5). New requests no longer use it. After [the timeout](StreamConfig::release_wait) this
    /// endpoint closes it. Without `peer`, all peers get one.
    pub fn release(&mut self, now: Instant, peer: Option<SocketAddr>) {
        self.cx.now = now;
        match peer {
            Some(peer) => self.carrier.release(&mut self.cx, peer),
            None => self.carrier.release_all(&mut self.cx),
        }
        self.settle();
    }
}

/// Sessions, where datagrams are secured (RFC 7252 9.1).
impl Endpoint {
    /// Reports a session with `peer`: waiting messages are sent.
    pub fn session_opened(&mut self, now: Instant, peer: SocketAddr) {
        self.cx.now = now;
        self.carrier.session_opened(&mut self.cx, peer);
        self.settle();
    }

    /// Reports that a requested session could not be made: waiting messages fail with
    /// [`Failure::Unreachable`].
    pub fn session_not_made(&mut self, now: Instant, peer: SocketAddr) {
        self.cx.now = now;
        if let Some(index) = self.carrier.session_not_made(peer) {
            // Messages that wait for the session have nothing else to wait for.
            self.abandon_exchanges(index, |_| true, Failure::Unreachable);
        }
        self.settle();
    }

    /// Records the first transmission of a handshake flight, with all of its datagrams. The peer's
    /// controller sets the timeout.
    pub fn flight_sent(&mut self, now: Instant, peer: SocketAddr, bytes: u32) -> Flight {
        self.cx.now = now;
        self.carrier.flight_sent(&mut self.cx, peer, bytes)
    }

    /// Records a retransmission of a flight that the peer requested, not one after a timeout.
    pub fn flight_resent(&mut self, now: Instant, flight: &mut Flight) {
        self.cx.now = now;
        self.carrier.flight_resent(&mut self.cx, flight);
    }

    /// Reports a timeout of a flight. Returns whether it is to be retransmitted, which is then
    /// recorded, or MAX_RETRANSMIT is reached.
    pub fn flight_expired(&mut self, now: Instant, flight: &mut Flight) -> bool {
        self.cx.now = now;
        self.carrier.flight_expired(&mut self.cx, flight)
    }

    /// Records the end of a flight: a `reply` of that size in bytes, or `None` if it is given up. Without
    /// retransmissions a reply is a round-trip sample for the peer's controller.
    pub fn flight_ended(&mut self, now: Instant, flight: &Flight, reply: Option<u32>) {
        self.cx.now = now;
        match reply {
            Some(bytes) => self.carrier.flight_answered(&mut self.cx, flight, bytes),
            None => self.carrier.flight_abandoned(&mut self.cx, flight),
        }
    }
}
