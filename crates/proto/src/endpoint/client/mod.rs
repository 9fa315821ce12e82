//! Requests of our own: from one message to a body of thousands of blocks.
//!
//! An operation is a request as the application sees it. It owns the exchanges it needs, one
//! after the other or, for a response body whose size is known, as many at once as the
//! controller's window allows.

mod challenge;
mod observation;
mod pauses;
mod sending;
mod transfer;
mod turns;
mod unanswered;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::SocketAddr;

use bytes::Bytes;
use carob_cc::controller::Counting;
use carob_cc::time::Instant;
use smallvec::SmallVec;

use super::capacity::Capacity;
use super::config::{ENGINE_BYTES, admissible};
use super::exchange::{Purpose, Submission, UNLIMITED};
use super::group::is_group;
use super::options::Allowed;
use super::{Endpoint, Event, Failure, Owner, RequestError, RequestId};
use crate::blockwise::download::{Download, DownloadError};
use crate::blockwise::upload::Upload;
use crate::codec::header::HEADER_LENGTH;
use crate::codec::signal::SIGNAL_BYTES;
use crate::codec::token::token_room;
use crate::codec::{
    BlockValue, Code, EncodeError, MessageId, OptionNumber, Options, Signal, Token, TokenKey, Type,
    Writer,
};
use crate::echo::Given;
use crate::message::{Request, Response};
use crate::peer::PeerIndex;
use crate::timers::TimerId;

use observation::Observation;
pub(super) use observation::ObservationIndex;
pub(super) use pauses::Pauses;
pub use sending::{BlockMode, BodyMode, Sending};
pub(super) use transfer::remove_transfer_options;
pub(super) use turns::Turns;

/// Parts of a streamed response body delivered before the application asks for more.
const STREAM_CREDIT: u32 = 16;

/// A request as the application sees it.
#[derive(Debug)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each says something else of it, and any may be with any"
)]
pub(super) struct Operation {
    serial: u32,
    /// Known as long as the operation lives, which counts among its users.
    peer: PeerIndex,
    request: Request,
    sending: Sending,
    deadline: Option<TimerId>,
    exchanges: SmallVec<[u32; 2]>,
    upload: Option<Upload>,
    download: Option<Download>,
    /// Code and options of the response whose body is on its way.
    head: Option<Response>,
    body: Vec<Bytes>,
    restarts: u8,
    /// Parts that may still be delivered.
    credit: u32,
    /// The application was told that the upload is starved.
    starved: bool,
    observation: Option<Box<Observation>>,
    /// Nothing has been sent: another body is on its way to the same resource, or what the peer
    /// takes is not known yet.
    held: bool,
    /// The Echo value that the server gave last, once it has challenged us.
    echo: Option<Box<Given>>,
    /// Challenges in a row that were answered.
    challenged: u8,
    /// A block of its body has left.
    begun: bool,
    /// Its response has arrived, to the end.
    answered: bool,
    /// Runs while the peer has had too many requests like this one.
    pause: Option<TimerId>,
    /// More of a streamed body, supplied meanwhile.
    early: Option<(Bytes, bool)>,
}

impl Endpoint {
    /// Sends a request. Its events carry the returned id; the last of them ends its life.
    ///
    /// Two bodies that need blocks and go to one resource take turns. Two small requests that
    /// change something (POST, say) may go at once; but should the responses of both need blocks,
    /// the protocol cannot tell these apart (RFC 7959 2.4): make such requests one by one.
    pub fn request(
        &mut self,
        now: Instant,
        to: SocketAddr,
        request: Request,
        sending: Sending,
    ) -> Result<RequestId, RequestError> {
        if !request.code.is_request() {
            return Err(RequestError::NotARequest);
        }
        let mut sending = sending;
        if sending.observe {
            // Its body goes with each renewal, too.
            if !request.code.is_safe() || sending.request_body == BodyMode::Streamed {
                return Err(RequestError::NotObservable);
            }
            // The engine puts notifications together and orders them, so it has their bodies.
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
        // Find out now what could not be sent later.
        let mut capacity = self.capacity(to);
        self.grow_scratch(&capacity, 64 + options.encoded_len(), 0);
        let room = self.own_token_room(to);
        let scratch = &mut self.scratch;
        let head = encode(scratch, &Token::EMPTY, *code, options, &[], &[])
            .map_err(RequestError::Encode)?
            + room;
        let automatic = sending.blocks == BlockMode::Automatic;
        let large = streamed || payload.len() > capacity.beside(head).whole;
        let unsure = capacity.reliable && large && !self.is_introduced(to);
        if unsure {
            // The peer may take more than it has said so far.
            capacity = self.largest_capacity();
        }
        let fits = capacity.beside(head);
        let cut = automatic && (streamed || payload.len() > fits.whole);
        let length = if cut { fits.span } else { payload.len() };
        if head + ENGINE_BYTES + length > capacity.message {
            return Err(RequestError::Encode(EncodeError::BufferTooSmall));
        }
        if unsure {
            let id = self.begin(now, to, request, sending, None)?;
            self.operations[id.index as usize].held = true;
            if !self.await_csm(now, to, id) {
                self.finish(now, id.index);
                return Err(RequestError::PeersFull);
            }
            return Ok(id);
        }
        let upload = cut.then(|| upload_of(&request, streamed, &capacity, head));
        let id = self.begin(now, to, request, sending, upload)?;
        self.advance(now, id.index);
        Ok(id)
    }

    /// What a peer takes is known: sends a request that waited for that.
    pub(super) fn measure(&mut self, now: Instant, index: u32) {
        let operation = &self.operations[index as usize];
        let to = self.peers[operation.peer].address;
        let capacity = self.capacity(to);
        let Operation {
            request, sending, ..
        } = operation;
        let streamed = sending.request_body == BodyMode::Streamed;
        let head = HEADER_LENGTH + self.own_token_room(to) + request.options.encoded_len();
        let fits = capacity.beside(head);
        let length = request.payload.len();
        let cut = sending.blocks == BlockMode::Automatic && (streamed || length > fits.whole);
        let sent = if cut { fits.span } else { length };
        if head + ENGINE_BYTES + sent > capacity.message {
            let failure = Failure::Encode(EncodeError::BufferTooSmall);
            return self.fail_operation(now, index, failure);
        }
        let operation = &mut self.operations[index as usize];
        operation.held = false;
        if cut {
            let upload = upload_of(&operation.request, streamed, &capacity, head);
            let more = operation.early.take();
            operation.upload = Some(upload);
            if let (Some((bytes, last)), Some(upload)) = (more, &mut operation.upload) {
                upload.supply(bytes, last);
            }
            operation.settle_no_response();
            let options = &operation.request.options;
            operation.held = !self.turns.join(operation.peer, options, index);
        }
        self.advance(now, index);
    }

    /// Whether a request still is under way.
    pub(super) fn operation_lives(&self, id: RequestId) -> bool {
        let operation = self.operations.get(id.index as usize);
        operation.is_some_and(|operation| operation.serial == id.serial)
    }

    pub(super) fn operation_is_idempotent(&self, index: u32) -> bool {
        let operation = self.operations.get(index as usize);
        operation.is_some_and(|operation| operation.request.code.is_idempotent())
    }

    /// Asks a peer whether it is there, with an empty CON (RFC 7252 4.3).
    pub fn ping(&mut self, now: Instant, to: SocketAddr) -> Result<RequestId, RequestError> {
        let id = self.begin(now, to, Request::get(), Sending::default(), None)?;
        let peer = self.operations[id.index as usize].peer;
        let mut bytes = self.buffer();
        // Over connections, too, where a Pong has its Ping's token (RFC 8323 5.4): libcoap 4.3.1 sends
        // it without any, and which of several it answers makes no difference.
        let token = Token::EMPTY;
        if self.is_reliable() {
            let mut buffer = [0; SIGNAL_BYTES];
            let ping = Signal::Ping { custody: false };
            let length = ping.write(&mut buffer, &token).expect("a ping is short");
            bytes.extend_from_slice(&buffer[..length]);
        } else {
            bytes.extend_from_slice(&super::empty(Type::Confirmable, MessageId(0)));
        }
        let submission = Submission {
            purpose: Purpose::Ping {
                operation: id.index,
            },
            confirmable: true,
            token: TokenKey::short(token),
            counting: Counting::Off,
            bytes,
            answer_bytes: 4,
            parameters: None,
            budget: UNLIMITED,
        };
        self.submit(now, peer, submission);
        Ok(id)
    }

    pub(super) fn begin(
        &mut self,
        now: Instant,
        to: SocketAddr,
        request: Request,
        sending: Sending,
        upload: Option<Upload>,
    ) -> Result<RequestId, RequestError> {
        let address = to.ip();
        if is_group(address) || address.is_unspecified() || to.port() == 0 {
            return Err(RequestError::BadAddress);
        }
        if self.operations.len() + self.groups.len() >= self.config.limits.requests {
            return Err(RequestError::RequestsFull);
        }
        let peer = self.peer(now, to)?;
        if !self.has_room(peer) {
            return Err(RequestError::QueueFull);
        }
        let serial = self.next_serial();
        let (deadline, observes) = (sending.deadline, sending.observe);
        let index = self.operations.insert(Operation {
            serial,
            peer,
            request,
            sending,
            deadline: None,
            exchanges: SmallVec::new(),
            upload,
            download: None,
            head: None,
            body: Vec::new(),
            restarts: 0,
            credit: STREAM_CREDIT,
            starved: false,
            observation: None,
            held: false,
            echo: None,
            challenged: 0,
            begun: false,
            answered: false,
            pause: None,
            early: None,
        }) as u32;
        self.operations[index as usize].settle_no_response();
        self.peers[peer].users += 1;
        if observes {
            self.begin_observation(now, index);
        }
        let operation = &mut self.operations[index as usize];
        if operation.upload.is_some() {
            let options = &operation.request.options;
            operation.held = !self.turns.join(peer, options, index);
        }
        if let Some(deadline) = deadline {
            let timer = self.timers.add(Owner::Operation(index));
            self.timers.set(timer, now + deadline);
            self.operations[index as usize].deadline = Some(timer);
        }
        Ok(RequestId { index, serial })
    }

    fn operation(&mut self, id: RequestId) -> Option<&mut Operation> {
        self.operations
            .get_mut(id.index as usize)
            .filter(|o| o.serial == id.serial)
    }

    fn id(&self, index: u32) -> RequestId {
        RequestId {
            index,
            serial: self.operations[index as usize].serial,
        }
    }

    /// Gives up a request: no more copies are sent and no more events of it come. Whether it was
    /// still under way.
    pub fn cancel(&mut self, now: Instant, id: RequestId) -> bool {
        if self.cancel_group(now, id) {
            return true;
        }
        let known = self.operation(id).is_some();
        if known {
            if self.is_reliable() {
                self.give_back(now, id.index);
            }
            self.finish(now, id.index);
        }
        known
    }

    /// Adds to a streamed request body; `last` ends it.
    pub fn supply(&mut self, now: Instant, id: RequestId, bytes: Bytes, last: bool) {
        let Some(operation) = self.operation(id) else {
            return;
        };
        let Some(upload) = &mut operation.upload else {
            // It waits to know what the peer takes; nobody was asked for more than the beginning.
            if operation.held {
                operation.early = Some((bytes, last));
            }
            return;
        };
        upload.supply(bytes, last);
        operation.starved = false;
        if operation.exchanges.is_empty() {
            self.advance(now, id.index);
        }
    }

    /// Lets `parts` more parts of a streamed response body come.
    pub fn read_on(&mut self, now: Instant, id: RequestId, parts: u32) {
        let Some(operation) = self.operation(id) else {
            return;
        };
        operation.credit = operation.credit.saturating_add(parts);
        if operation.download.is_some() {
            self.pull(now, id.index);
        }
    }

    /// Ends every request of ours with [`Failure::ShutDown`].
    pub fn shut_down(&mut self, now: Instant) {
        self.shut_groups(now);
        let all: Vec<u32> = self
            .operations
            .iter()
            .map(|(index, _)| index as u32)
            .collect();
        self.turns.clear();
        for index in all {
            self.fail_operation(now, index, Failure::ShutDown);
        }
    }

    /// Sends the request's first message, or the next block of its body.
    fn advance(&mut self, now: Instant, index: u32) {
        let own = self.own_block_size();
        let operation = &mut self.operations[index as usize];
        if operation.held || self.waits_out_pause(now, index) {
            return;
        }
        let operation = &mut self.operations[index as usize];
        if operation.upload.as_ref().is_some_and(Upload::is_at_start) {
            self.tag_body(now, index);
        }
        let operation = &mut self.operations[index as usize];
        let automatic = operation.sending.blocks == BlockMode::Automatic;
        if let Some(upload) = &operation.upload {
            let (announce, starved) = (upload.announce(), upload.is_starved());
            match upload.block() {
                Some((block, bytes)) => {
                    // A body that turns out to fit one message needs no block option.
                    let whole = block.number == 0 && !block.more;
                    let block1 = (!whole).then_some(block);
                    return self.send_part(
                        now,
                        index,
                        block1,
                        None,
                        announce.filter(|_| !whole),
                        &bytes,
                    );
                }
                None if starved => {
                    if !core::mem::replace(&mut operation.starved, true) {
                        let id = self.id(index);
                        self.event(Event::Starved(id));
                    }
                    return;
                }
                None => {
                    let failure = Failure::Body(DownloadError::TooManyBlocks);
                    return self.fail_operation(now, index, failure);
                }
            }
        }
        let early = automatic && self.config.negotiate_early;
        let block2 = BlockValue {
            number: 0,
            more: false,
            szx: own,
        };
        let payload = operation.request.payload.clone();
        self.send_part(now, index, None, early.then_some(block2), None, &payload);
    }

    /// Sends one message of a request.
    fn send_part(
        &mut self,
        now: Instant,
        index: u32,
        block1: Option<BlockValue>,
        block2: Option<BlockValue>,
        size1: Option<u32>,
        payload: &[u8],
    ) {
        let peer = self.operations[index as usize].peer;
        if !self.has_room(peer) {
            return self.fail_operation(now, index, Failure::QueueFull);
        }
        // The messages that register carry the token that notifications will have.
        let registration = self.registration(index, block2);
        let counting = if registration.is_some() {
            Counting::Off
        } else {
            self.counting_by_token(peer)
        };
        let operation = &self.operations[index as usize];
        let confirmable = operation.sending.confirmable;
        let trial = confirmable && operation.request.code.is_idempotent();
        let token = match self
            .observation_token(index)
            .filter(|_| registration.is_some())
        {
            Some(token) => token,
            None => self.fresh_token(now, peer, counting, trial),
        };
        let later = |block: Option<BlockValue>| block.is_some_and(|block| block.number > 0);
        let own = self.own_options(index, later(block1) || later(block2));
        let capacity = self.capacity(self.peers[peer].address);
        let options = &self.operations[index as usize].request.options;
        let options = own.as_ref().unwrap_or(options);
        let head = 64 + token_room(token.as_ref().len()) + options.encoded_len();
        self.grow_scratch(&capacity, head, payload.len());
        let operation = &self.operations[index as usize];
        let sending = &operation.sending;
        let parameters = sending.parameters.map(|own| Box::new(admissible(own)));
        // Once blocks flow, what one brings is known well enough.
        let answer_bytes = match (sending.answer_bytes, block2) {
            (0, Some(block)) => block.szx.bytes() as u32 + 16,
            (named, _) => named,
        };
        let extra = [
            registration.map(|observe| (OptionNumber::OBSERVE, observe.value())),
            block2.map(|block| (OptionNumber::BLOCK2, block.to_uint())),
            block1.map(|block| (OptionNumber::BLOCK1, block.to_uint())),
            size1.map(|size| (OptionNumber::SIZE1, size)),
        ];
        let mut bytes = self.spare.pop().unwrap_or_default();
        let Request { code, options, .. } = &operation.request;
        let options = own.as_ref().unwrap_or(options);
        let room = capacity.message.min(self.scratch.len());
        let scratch = &mut self.scratch[..room];
        match encode(scratch, &token, *code, options, &extra, payload) {
            Ok(length) => bytes.extend_from_slice(&self.scratch[..length]),
            Err(error) => return self.fail_operation(now, index, Failure::Encode(error)),
        }
        let purpose = Purpose::Request {
            operation: index,
            block1,
            block2,
        };
        let submission = Submission {
            purpose,
            confirmable,
            token: token.key,
            counting,
            bytes,
            answer_bytes,
            parameters,
            budget: UNLIMITED,
        };
        self.submit(now, peer, submission);
    }

    pub(super) fn finish_ping(&mut self, index: u32) {
        let id = self.id(index);
        self.event(Event::Pong(id));
        self.remove_operation(index);
    }

    /// Ends a request and whatever of it is still under way.
    fn finish(&mut self, now: Instant, index: u32) {
        self.note_broken_off(now, index);
        let exchanges = core::mem::take(&mut self.operations[index as usize].exchanges);
        for exchange in exchanges {
            self.cancel_exchange(now, exchange);
        }
        self.leave_line(index);
        self.remove_operation(index);
        self.serve_turns(now);
    }

    /// Takes a request whose body needs blocks out of its line, if it has a place in one.
    fn leave_line(&mut self, index: u32) {
        let operation = &self.operations[index as usize];
        if operation.upload.is_some() {
            let options = &operation.request.options;
            self.turns.leave(operation.peer, options, index);
        }
    }

    /// Lets those whose turn has come send their bodies.
    fn serve_turns(&mut self, now: Instant) {
        if self.turns.serve() {
            while let Some(next) = self.turns.next() {
                self.operations[next as usize].held = false;
                self.advance(now, next);
            }
        }
    }

    fn remove_operation(&mut self, index: u32) {
        let operation = self.operations.remove(index as usize);
        self.peers[operation.peer].users -= 1;
        for timer in operation.deadline.into_iter().chain(operation.pause) {
            self.timers.remove(timer);
        }
        if let Some(observation) = operation.observation {
            self.end_observation(index, operation.peer, &observation);
        }
    }

    /// An exchange of this request begins.
    pub(super) fn join_operation(&mut self, index: u32, exchange: u32) {
        self.operations[index as usize].exchanges.push(exchange);
    }

    /// An exchange of this request has ended.
    pub(super) fn leave_operation(&mut self, index: u32, exchange: u32) {
        if let Some(operation) = self.operations.get_mut(index as usize) {
            operation.exchanges.retain(|other| *other != exchange);
        }
    }

    pub(super) fn fail_operation(&mut self, now: Instant, index: u32, failure: Failure) {
        if self.operations.get(index as usize).is_none() || self.survives(now, index, failure) {
            return;
        }
        let id = self.id(index);
        self.event(Event::Failed { id, failure });
        self.finish(now, index);
    }
}

/// A body that is to be sent in parts beside this many bytes of header and options.
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

/// Writes a request message with the engine's own options merged in; type and Message ID are
/// filled in when it is sent. Returns its length.
pub(super) fn encode(
    buffer: &mut [u8],
    token: &impl AsRef<[u8]>,
    code: Code,
    options: &Options,
    extra: &[Option<(OptionNumber, u32)>],
    payload: &[u8],
) -> Result<usize, EncodeError> {
    let mut writer = Writer::new(buffer, Type::Confirmable, code, MessageId(0), token)?;
    write_options(&mut writer, code, options, extra)?;
    if !payload.is_empty() {
        writer.payload(payload)?;
    }
    Ok(writer.finish())
}

/// Writes options in order, the engine's own (sorted) merged in, in the place of the
/// application's.
pub(super) fn write_options(
    writer: &mut Writer<'_>,
    code: Code,
    options: &Options,
    extra: &[Option<(OptionNumber, u32)>],
) -> Result<(), EncodeError> {
    let mut allowed = Allowed::default();
    let mut extra = extra.iter().flatten().peekable();
    for option in options {
        while let Some((number, value)) = extra.next_if(|(number, _)| *number < option.number) {
            writer.uint_option(*number, *value)?;
        }
        allowed.next(code, &option)?;
        if extra
            .peek()
            .is_none_or(|(number, _)| *number != option.number)
        {
            writer.option(option.number, option.value)?;
        }
    }
    for (number, value) in extra {
        writer.uint_option(*number, *value)?;
    }
    Ok(())
}
