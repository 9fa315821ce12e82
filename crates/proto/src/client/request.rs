//! Requests and pings of the application: checks, and the choice of block-wise transfer (RFC 7959 2).
//! Their configuration.
//!
//! Requests with No-Response: no response is wanted, or none of some class (RFC 7967).
//!
//! Such a request ends after the wait for wanted responses, which starts when it is acknowledged,
//! or sent as NON. It continues to count against its peer's window like an unanswered NON, until
//! PROBING_RATE has paid for it (RFC 7252 4.7).

use core::net::SocketAddr;

use carob_cc::TransmissionParameters;
use carob_cc::controller::CopyTagging;
use carob_cc::time::Duration;
use smallvec::SmallVec;

use crate::block::QBlockMode;
use crate::block::upload::Upload;
use crate::capacity::Capacity;
use crate::carrier::{Carrier, empty};
use crate::client::multicast::is_group;
use crate::client::{ChallengeState, Client, Hold, Operation, Progress, ResponseBody};
use crate::codec::{
    EncodeError, HEADER_LENGTH, MessageId, NoResponse, OptionNumber, SIGNAL_BYTES, Signal, Token,
    TokenKey, Type,
};
use crate::config::ENGINE_BYTES;
use crate::context::{Context, Owner};
use crate::event::{Event, Failure, RequestError, RequestId};
use crate::message::Request;
use crate::message_layer::{Purpose, RequestTraits, Submission, SuppressedWait, UNLIMITED};
use crate::writing::encode;

impl Client {
    /// Sends a request. Its events carry the returned id; the last of them ends its life.
    ///
    /// Two block-wise bodies to one resource are sent one after the other. Two small non-idempotent
    /// requests (such as POST) may be sent at once. If the responses of both need blocks, the protocol
    /// cannot distinguish them (RFC 7959 2.4): send such requests one by one.
    pub(crate) fn request(
        &mut self,
        cx: &mut Context,
        carrier: &mut Carrier,
        to: SocketAddr,
        request: Request,
        mut sending: RequestConfig,
    ) -> Result<RequestId, RequestError> {
        if !request.code.is_request() {
            return Err(RequestError::NotARequest);
        }
        if sending.observe {
            // Each renewal sends the body again.
            if !request.code.is_safe() || sending.request_body == BodyMode::Streamed {
                return Err(RequestError::NotObservable);
            }
            // The engine reassembles and orders notifications, so it handles their blocks.
            sending.blocks = BlockMode::Automatic;
            sending.response_body = BodyMode::Whole;
        }
        let streamed = sending.request_body == BodyMode::Streamed;
        let Request {
            code,
            options,
            payload,
        } = &request;
        if (streamed || !payload.is_empty()) && !code.has_payload() {
            return Err(RequestError::PayloadNotAllowed);
        }
        // Detects now what could not be sent later.
        let mut capacity = carrier.capacity(cx, to);
        cx.grow_scratch(&capacity, 64 + options.encoded_len(), 0);
        let room = carrier.own_token_excess_max(cx, to);
        let scratch = &mut cx.scratch;
        // ENGINE_BYTES has room for a token of 8 bytes, and `room` for what a longer one has
        // more.
        let head = encode(scratch, &Token::EMPTY, *code, options, &[], &[])
            .map_err(RequestError::Encode)?
            + room;
        let automatic = sending.blocks == BlockMode::Automatic;
        let large = streamed || payload.len() > capacity.beside(head).whole;
        let unsure = capacity.reliable && large && !carrier.has_csm(to);
        if unsure {
            // The peer's CSM may permit more than is known so far.
            capacity = cx.largest_capacity();
        }
        let fits = capacity.beside(head);
        let cut = automatic && (streamed || payload.len() > fits.whole);
        let length = if cut { fits.span } else { payload.len() };
        if head + ENGINE_BYTES + length > capacity.message {
            return Err(RequestError::Encode(EncodeError::BufferTooSmall));
        }
        if unsure {
            let id = self.begin(cx, carrier, to, request, sending, None)?;
            self.operations[id.index as usize].hold = Hold::Capacity(None);
            if !carrier.await_csm(cx, to, id) {
                self.finish(cx, carrier, id.index);
                return Err(RequestError::PeersFull);
            }
            return Ok(id);
        }
        if cut && let Some(mode) = self.q_block1_mode(cx, to, &request, &sending) {
            return self.request_q_block1(cx, carrier, to, (request, sending), (mode, &capacity));
        }
        let upload = cut.then(|| upload_of(&request, streamed, &capacity, head));
        let id = self.begin(cx, carrier, to, request, sending, upload)?;
        if !cut {
            self.begin_q_download(cx, carrier, id.index);
        }
        self.advance(cx, carrier, id.index);
        Ok(id)
    }

    /// Sends a request that waited for the capacity of its peer.
    pub(crate) fn measure(&mut self, cx: &mut Context, carrier: &mut Carrier, index: u32) {
        let operation = &self.operations[index as usize];
        let to = carrier.peers[operation.peer].address;
        let capacity = carrier.capacity(cx, to);
        let Operation {
            request, sending, ..
        } = operation;
        let streamed = sending.request_body == BodyMode::Streamed;
        let head =
            HEADER_LENGTH + carrier.own_token_excess_max(cx, to) + request.options.encoded_len();
        let fits = capacity.beside(head);
        let length = request.payload.len();
        let cut = sending.blocks == BlockMode::Automatic && (streamed || length > fits.whole);
        let sent = if cut { fits.span } else { length };
        if head + ENGINE_BYTES + sent > capacity.message {
            let failure = Failure::Encode(EncodeError::BufferTooSmall);
            return self.fail_operation(cx, carrier, index, failure);
        }
        let operation = &mut self.operations[index as usize];
        debug_assert!(operation.upload.is_none(), "its blocks are cut already");
        let hold = core::mem::replace(&mut operation.hold, Hold::None);
        if cut {
            let mut upload = upload_of(&operation.request, streamed, &capacity, head);
            if let Hold::Capacity(Some((bytes, last))) = hold {
                upload.supply(bytes, last);
            }
            operation.upload = Some(upload);
            operation.settle_no_response();
            let options = &operation.request.options;
            operation.hold = Hold::of_queue(self.block1_queue.join(operation.peer, options, index));
        }
        self.advance(cx, carrier, index);
    }

    /// Handles the capacity of a peer becoming known: sends a request that waited for it.
    pub(crate) fn on_capacity_known(
        &mut self,
        cx: &mut Context,
        carrier: &mut Carrier,
        id: RequestId,
    ) {
        if self.operation(id).is_some() {
            self.measure(cx, carrier, id.index);
        }
    }

    pub(crate) fn begin(
        &mut self,
        cx: &mut Context,
        carrier: &mut Carrier,
        to: SocketAddr,
        request: Request,
        sending: RequestConfig,
        upload: Option<Upload>,
    ) -> Result<RequestId, RequestError> {
        let address = to.ip();
        // A unicast CON to a group would draw an ACK from every member (RFC 7252 8.1).
        if is_group(address) || address.is_unspecified() || to.port() == 0 {
            return Err(RequestError::BadAddress);
        }
        if self.len() >= cx.config.limits.requests {
            return Err(RequestError::RequestsFull);
        }
        let peer = carrier.peer(cx, to)?;
        if !carrier.has_room(cx, peer) {
            return Err(RequestError::QueueFull);
        }
        debug_assert!(self.len() < cx.config.limits.requests && carrier.has_room(cx, peer));
        debug_assert!(upload.is_none() || !sending.observe || request.code.is_safe());
        let serial = cx.next_serial();
        let (deadline, observes) = (sending.deadline, sending.observe);
        let index = self.operations.insert(Operation {
            serial,
            peer,
            request,
            sending,
            deadline: None,
            exchanges: SmallVec::new(),
            hold: Hold::None,
            pause: None,
            upload,
            q_upload: None,
            q_download: None,
            progress: Progress::Unsent,
            response: ResponseBody::new(),
            observation: None,
            challenge: ChallengeState::default(),
        }) as u32;
        self.operations[index as usize].settle_no_response();
        // While it counts as a user, the peer is not evicted, and its index stays valid.
        carrier.peers[peer].users += 1;
        if observes {
            self.begin_observation(cx, carrier, index);
        }
        let operation = &mut self.operations[index as usize];
        if operation.upload.is_some() {
            let options = &operation.request.options;
            operation.hold = Hold::of_queue(self.block1_queue.join(peer, options, index));
        }
        if let Some(deadline) = deadline {
            let timer = cx.timers.add(Owner::Operation(index));
            cx.timers.set(timer, cx.now + deadline);
            self.operations[index as usize].deadline = Some(timer);
        }
        debug_assert!(self.len() <= cx.config.limits.requests);
        Ok(RequestId { index, serial })
    }

    /// Pings a peer with an empty CON (RFC 7252 4.3).
    pub(crate) fn ping(
        &mut self,
        cx: &mut Context,
        carrier: &mut Carrier,
        to: SocketAddr,
    ) -> Result<RequestId, RequestError> {
        let id = self.begin(
            cx,
            carrier,
            to,
            Request::get(),
            RequestConfig::default(),
            None,
        )?;
        let peer = self.operations[id.index as usize].peer;
        let mut bytes = cx.buffer();
        // The same over connections, where a Pong has its Ping's token (RFC 8323 5.4): libcoap
        // 4.3.1 omits the token, and which of several Pings a Pong answers makes no difference.
        let token = Token::EMPTY;
        if cx.is_stream() {
            let mut buffer = [0; SIGNAL_BYTES];
            let ping = Signal::Ping { custody: false };
            let length = ping.write(&mut buffer, &token).expect("a ping is short");
            bytes.extend_from_slice(&buffer[..length]);
        } else {
            bytes.extend_from_slice(&empty(Type::Confirmable, MessageId(0)));
        }
        let submission = Submission {
            purpose: Purpose::Ping {
                operation: id.index,
            },
            confirmable: true,
            token: TokenKey::short(token),
            counting: CopyTagging::Off,
            bytes,
            answer_bytes: 4,
            parameters: None,
            budget: UNLIMITED,
            request: RequestTraits::default(),
        };
        let exchange = carrier.submit(cx, peer, submission);
        self.join_operation(id.index, exchange);
        Ok(id)
    }
}

/// A block-wise body, with this many bytes of header and options in each message.
fn upload_of(request: &Request, streamed: bool, capacity: &Capacity, head: usize) -> Upload {
    let fits = capacity.beside(head);
    let upload = if streamed {
        let mut upload = Upload::streaming(fits.size);
        upload.supply(request.payload.clone(), false);
        upload
    } else {
        Upload::whole(fits.size, request.payload.clone())
    };
    if fits.size.is_bert() {
        upload.in_spans(fits.span)
    } else {
        upload
    }
}

/// The party that splits and reassembles block-wise bodies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum BlockMode {
    /// The engine.
    #[default]
    Automatic,
    /// The application: block options are passed through unchanged, so that it can request any
    /// block of a body.
    Manual,
}

/// Transfer of a body between engine and application.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum BodyMode {
    /// As a whole.
    #[default]
    Whole,
    /// In chunks: [`supply`](crate::endpoint::Endpoint::supply) out,
    /// [`Event::ResponseChunk`](crate::endpoint::Event::ResponseChunk) in.
    Streamed,
}

/// Configuration of a request.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RequestConfig {
    /// As CON (the default) or NON.
    pub confirmable: bool,
    /// The handling of block-wise transfer.
    pub blocks: BlockMode,
    /// The transfer of the request body.
    pub request_body: BodyMode,
    /// The delivery of the response body.
    pub response_body: BodyMode,
    /// Deadline, including all blocks; `None` to rely on the timeouts alone.
    pub deadline: Option<Duration>,
    /// Transmission parameters of this request alone.
    pub parameters: Option<TransmissionParameters>,
    /// Expected bytes of the response, for controllers that use them; 0 if unknown.
    pub answer_bytes: u32,
    /// Observe the resource (RFC 7641). The request stays in progress with events
    /// [`Event::Notification`](crate::endpoint::Event::Notification) and
    /// [`Event::Stale`](crate::endpoint::Event::Stale). It ends when the server ends the
    /// observation, or when it is [cancelled](crate::endpoint::Endpoint::cancel) or
    /// [deregistered](crate::endpoint::Endpoint::stop_observing). GET, and FETCH with its whole
    /// body, only; the response body is delivered whole.
    pub observe: bool,
    /// For a No-Response option
    /// ([`Request::with_no_response`](crate::message::Request::with_no_response)): the wait for
    /// responses of the wanted classes. It starts when the request is acknowledged, or sent as NON,
    /// and ends with [`Event::ResponseSuppressed`](crate::endpoint::Event::ResponseSuppressed).
    /// `None`: no wait if no response is wanted, else ACK_TIMEOUT.
    pub suppressed_after: Option<Duration>,
    /// Answer a challenge, 4.01 with an Echo option, by repeating the message with its value (RFC
    /// 9175 2.3). Default yes. A proxy sets no if its clients are to prove the freshness of their
    /// requests.
    pub answer_challenges: bool,
    /// Use of Q-Block1 and Q-Block2 (RFC 9177); `None`: the setting of the endpoint's
    /// [`Config::q_block`](crate::endpoint::Config::q_block).
    pub q_block: Option<QBlockMode>,
}

impl Default for RequestConfig {
    fn default() -> Self {
        Self {
            confirmable: true,
            blocks: BlockMode::default(),
            request_body: BodyMode::default(),
            response_body: BodyMode::default(),
            deadline: None,
            parameters: None,
            answer_bytes: 0,
            observe: false,
            suppressed_after: None,
            answer_challenges: true,
            q_block: None,
        }
    }
}

impl Operation {
    /// Returns whether the response has begun to arrive.
    fn is_answered(&self) -> bool {
        self.response.download.is_some() || self.response.head.is_some()
    }

    /// Removes No-Response where every message of the request needs its response: with a block-wise
    /// body, and in a registration.
    pub(crate) fn settle_no_response(&mut self) {
        let options = &mut self.request.options;
        if (self.upload.is_some() || self.sending.observe)
            && options.contains(OptionNumber::NO_RESPONSE)
        {
            options.remove(OptionNumber::NO_RESPONSE);
        }
    }
}

impl Operation {
    /// The wait for an optional response; `None` if a response is required.
    pub(crate) fn suppressed_wait(&self) -> Option<SuppressedWait> {
        if self.is_answered() {
            return None; // the response has begun
        }
        let unwanted = NoResponse::of(&self.request.options);
        if unwanted.is_none() {
            return None;
        }
        Some(match self.sending.suppressed_after {
            Some(wait) => SuppressedWait::For(wait),
            None if unwanted.is_all() => SuppressedWait::For(Duration::ZERO),
            None => SuppressedWait::AckTimeout,
        })
    }
}

impl Client {
    /// Ends a request whose response is optional, after the wait for it.
    pub(crate) fn on_response_suppressed(
        &mut self,
        cx: &mut Context,
        carrier: &mut Carrier,
        operation: u32,
    ) {
        if self.operations.contains(operation as usize) {
            let id = self.id(operation);
            self.event(cx, Event::ResponseSuppressed(id));
            self.finish(cx, carrier, operation);
        }
    }
}
