//! Requests of this endpoint: from one message to a body of thousands of blocks.
//!
//! An operation is a request as the application sees it. It owns its exchanges: one after the other
//! or, for a response body of known size, as many at once as the controller's window permits.

mod echo;
mod message;
pub(crate) mod multicast;
mod request;
mod retry_after;

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::net::SocketAddr;

use bytes::Bytes;
use carob_cc::time::Instant;
use slab::Slab;
use smallvec::SmallVec;

use crate::address::PeerIndex;
use crate::block::Blocks;
use crate::block::download::{Download, DownloadError};
use crate::block::q_download::QDownload;
use crate::block::q_upload::QUpload;
use crate::block::upload::{Block1Queue, Upload};
use crate::carrier::{AnsweredRequest, Carrier};
use crate::client::multicast::Groups;
use crate::client::retry_after::RetryAfterTable;
use crate::codec::{BlockValue, Code, MessageView, OptionNumber};
use crate::config::Config;
use crate::context::Context;
use crate::echo::PeerEcho;
use crate::event::{Event, Failure, RequestId};
use crate::message::{Request, Response};
use crate::message_layer::Purpose;
use crate::message_layer::tokens::PeerSupport;
use crate::observe::client::observation::Observation;
use crate::seeds::{Seeds, Table};
use crate::timers::TimerId;

pub use crate::client::request::{BlockMode, BodyMode, RequestConfig};

/// Chunks of a streamed response body delivered before the application requests more.
const STREAM_CREDIT: u32 = 16;

/// A request as the application sees it.
#[derive(Debug)]
pub(crate) struct Operation {
    serial: u32,
    /// The peer, valid while the operation exists, because the operation counts as a reference.
    pub(crate) peer: PeerIndex,
    pub(crate) request: Request,
    pub(crate) sending: RequestConfig,
    deadline: Option<TimerId>,
    pub(crate) exchanges: SmallVec<[u32; 2]>,
    pub(crate) hold: Hold,
    /// Runs during the pause after a 4.29.
    pause: Option<TimerId>,
    pub(crate) upload: Option<Upload>,
    pub(crate) q_upload: Option<Box<QUpload>>,
    pub(crate) q_download: Option<Box<QDownload>>,
    pub(crate) progress: Progress,
    pub(crate) response: ResponseBody,
    pub(crate) observation: Option<Box<Observation>>,
    pub(crate) challenge: ChallengeState,
}

/// The reason why nothing of a request may be sent yet.
#[derive(Debug)]
pub(crate) enum Hold {
    None,
    /// Another body to the same resource is in transfer.
    Queue,
    /// The capacity of the peer is unknown. Bytes of a streamed body supplied meanwhile.
    Capacity(Option<(Bytes, bool)>),
}

impl Hold {
    /// The state of a request whose body `may_go`, or waits in its queue.
    pub(crate) fn of_queue(may_go: bool) -> Self {
        if may_go { Self::None } else { Self::Queue }
    }

    pub(crate) fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }
}

/// The progress of a request with a block-wise body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// No block has been sent.
    Unsent,
    /// A block has been sent.
    Sent,
    /// The response is complete.
    Answered,
}

/// The response to a request, as far as it has arrived.
#[derive(Debug)]
pub(crate) struct ResponseBody {
    pub(crate) download: Option<Download>,
    /// Code and options of the response whose body is in transfer.
    pub(crate) head: Option<Response>,
    pub(crate) body: Vec<Bytes>,
    pub(crate) restarts: u8,
    /// Chunks that may still be delivered.
    pub(crate) credit: u32,
}

impl ResponseBody {
    pub(crate) const fn new() -> Self {
        Self {
            download: None,
            head: None,
            body: Vec::new(),
            restarts: 0,
            credit: STREAM_CREDIT,
        }
    }

    /// Discards the part that has arrived.
    pub(crate) fn clear(&mut self) {
        self.download = None;
        self.head = None;
        self.body.clear();
    }
}

/// The challenges of the server (RFC 9175 2.3).
#[derive(Debug, Default)]
pub(crate) struct ChallengeState {
    /// The last Echo value, after a challenge.
    pub(crate) echo: Option<Box<PeerEcho>>,
    /// Consecutive challenges that were answered.
    pub(crate) answered: u8,
}

/// Requests of this endpoint, until their last event.
pub(crate) struct Client {
    pub(crate) operations: Slab<Operation>,
    pub(crate) block1_queue: Block1Queue,
    retry_after: RetryAfterTable,
    /// Echo values from responses, for the next request to the same peer.
    given: BTreeMap<SocketAddr, PeerEcho>,
    /// Block-wise bodies sent before this time have a Request-Tag.
    tag_until: Instant,
    /// The last Request-Tag.
    pub(crate) last_tag: u32,
    /// Requests with a body by Q-Block1 in transfer.
    pub(crate) q_uploads: BTreeSet<(PeerIndex, u32)>,
    /// Peers known to support Q-Block (RFC 9177), or to lack it.
    pub(crate) q_block_support: PeerSupport,
    pub(crate) groups: Groups,
}

impl Client {
    pub(crate) fn new(config: &Config, seeds: &Seeds) -> Self {
        Self {
            operations: Slab::new(),
            block1_queue: Block1Queue::new(seeds.table(Table::Block1Queues)),
            retry_after: RetryAfterTable::new(seeds.table(Table::RetryAfter), config.limits.pauses),
            given: BTreeMap::new(),
            tag_until: Instant::ZERO,
            last_tag: 0,
            q_uploads: BTreeSet::new(),
            q_block_support: PeerSupport::default(),
            groups: Groups::default(),
        }
    }

    /// Requests in progress, unicast and multicast.
    pub(crate) fn len(&self) -> usize {
        self.operations.len() + self.groups.len()
    }

    /// Resources paused after a 4.29.
    pub(crate) fn pauses(&self) -> usize {
        self.retry_after.len()
    }

    /// Queues an event. An event of a request for the rest of a member's response becomes one of
    /// the multicast request.
    pub(crate) fn event(&mut self, cx: &mut Context, event: Event) {
        let (event, complete) = self.groups.take_over(event);
        cx.event(event);
        if let Some(id) = complete {
            cx.event(Event::MulticastComplete(id));
        }
    }

    /// Ends a request with a failure, if it still is in progress.
    pub(crate) fn fail_request(
        &mut self,
        cx: &mut Context,
        carrier: &mut Carrier,
        id: RequestId,
        failure: Failure,
    ) {
        if self.operation(id).is_some() {
            self.fail_operation(cx, carrier, id.index, failure);
        }
    }

    /// Ends the request of an exchange that ended without a reply.
    pub(crate) fn on_exchange_failed(
        &mut self,
        cx: &mut Context,
        carrier: &mut Carrier,
        purpose: Purpose,
        exchange: u32,
        failure: Failure,
        heard: bool,
    ) {
        // An exchange that its request does not list ended together with it, or belongs to a request
        // before this one.
        if let Some(operation) = purpose.operation()
            && self.leave_operation(operation, exchange)
        {
            let goes_on = match failure {
                // A server that does not know Q-Block rejects a NON with it, perhaps by a Reset
                // (RFC 7252 4.3, 5.4.1).
                Failure::Reset => self.on_q_block_reset(cx, carrier, operation),
                Failure::TimedOut { .. } if heard => {
                    self.withdraw_next_set(operation)
                        || self.on_block_timed_out(cx, carrier, operation, purpose)
                }
                _ => false,
            };
            if !goes_on {
                self.fail_operation(cx, carrier, operation, failure);
            }
        }
        if let Some(request) = purpose.multicast() {
            self.fail_group(cx, carrier, request, failure);
        }
    }

    /// Continues a message of a request in another exchange.
    pub(crate) fn replace_exchange(&mut self, operation: u32, before: u32, exchange: u32) {
        let Some(operation) = self.operations.get_mut(operation as usize) else {
            return;
        };
        let found = operation.exchanges.iter_mut().find(|own| **own == before);
        if let Some(own) = found {
            *own = exchange;
        }
    }

    /// Processes the response to one message of a request.
    pub(crate) fn handle_response(
        &mut self,
        cx: &mut Context,
        carrier: &mut Carrier,
        answered: AnsweredRequest,
        message: &MessageView<'_>,
    ) {
        let AnsweredRequest {
            operation,
            exchange,
            block1,
            block2,
            ..
        } = answered;
        self.leave_operation(operation, exchange);
        if !self.q_uploads.is_empty() && self.on_q_block_response(cx, carrier, answered, message) {
            return;
        }
        if message.code() == Code::TOO_MANY_REQUESTS {
            let max_age = message.uint_option(OptionNumber::MAX_AGE);
            self.on_too_many_requests(cx, carrier, operation, max_age);
        }
        self.handle_operation_response(cx, carrier, operation, block1, block2, message);
    }

    pub(crate) fn operation(&mut self, id: RequestId) -> Option<&mut Operation> {
        self.operations
            .get_mut(id.index as usize)
            .filter(|o| o.serial == id.serial)
    }

    pub(crate) fn id(&self, index: u32) -> RequestId {
        debug_assert!(
            self.operations.contains(index as usize),
            "request {index} has ended"
        );
        RequestId {
            index,
            serial: self.operations[index as usize].serial,
        }
    }

    /// Cancels a request: no more retransmissions and no more events. Returns whether it was under
    /// way.
    pub(crate) fn cancel(
        &mut self,
        cx: &mut Context,
        carrier: &mut Carrier,
        id: RequestId,
    ) -> bool {
        if self.cancel_group(cx, carrier, id) {
            return true;
        }
        let known = self.operation(id).is_some();
        if known {
            // While the request is still there, whose options and token the deregistration repeats
            // (RFC 7641 3.6).
            self.deregister(cx, carrier, id.index);
            self.finish(cx, carrier, id.index);
        }
        known
    }

    /// Appends to a streamed request body; `last` ends it.
    pub(crate) fn supply(
        &mut self,
        cx: &mut Context,
        carrier: &mut Carrier,
        id: RequestId,
        bytes: Bytes,
        last: bool,
    ) {
        let Some(operation) = self.operation(id) else {
            return;
        };
        let Some(upload) = &mut operation.upload else {
            // The capacity of the peer is unknown; no more than the beginning was requested from
            // the application.
            if let Hold::Capacity(early) = &mut operation.hold {
                *early = Some((bytes, last));
            }
            return;
        };
        upload.supply(bytes, last);
        if operation.exchanges.is_empty() {
            self.advance(cx, carrier, id.index);
        }
    }

    /// Permits `parts` more chunks of a streamed response body.
    pub(crate) fn read_on(
        &mut self,
        cx: &mut Context,
        carrier: &mut Carrier,
        id: RequestId,
        parts: u32,
    ) {
        let Some(operation) = self.operation(id) else {
            return;
        };
        let response = &mut operation.response;
        response.credit = response.credit.saturating_add(parts);
        if response.download.is_some() {
            self.pull(cx, carrier, id.index);
        }
    }

    /// Ends every request of this endpoint with [`Failure::ShutDown`].
    pub(crate) fn shut_down(&mut self, cx: &mut Context, carrier: &mut Carrier) {
        self.shut_groups(cx, carrier);
        // Collected, because each end changes the table.
        let all: Vec<u32> = self
            .operations
            .iter()
            .map(|(index, _)| index as u32)
            .collect();
        // First, so that no end of one body starts the next.
        self.block1_queue.clear();
        for index in all {
            self.fail_operation(cx, carrier, index, Failure::ShutDown);
        }
    }

    /// Sends the request's first message, or the next block of its body.
    pub(crate) fn advance(&mut self, cx: &mut Context, carrier: &mut Carrier, index: u32) {
        let own = cx.own_block_size();
        let operation = &mut self.operations[index as usize];
        if !operation.hold.is_none() || self.defer_until_retry_after(cx, carrier, index) {
            return;
        }
        if self.operations[index as usize].q_upload.is_some() {
            return self.send_q_blocks(cx, carrier, index);
        }
        if self.operations[index as usize].q_download.is_some() {
            return self.request_q_body(cx, carrier, index);
        }
        let operation = &mut self.operations[index as usize];
        if operation.upload.as_ref().is_some_and(Upload::is_at_start) {
            self.tag_body(cx, index);
        }
        let operation = &mut self.operations[index as usize];
        let automatic = operation.sending.blocks == BlockMode::Automatic;
        if let Some(upload) = &mut operation.upload {
            let (announce, starved) = (upload.announce(), upload.is_starved());
            match upload.block() {
                Some((block, bytes)) => {
                    // A body that turns out to fit one message needs no block option.
                    let whole = block.number == 0 && !block.more;
                    debug_assert!(block.szx.fits(bytes.len(), block.more), "RFC 7959 2.2");
                    let blocks = Blocks {
                        block1: (!whole).then_some(block),
                        block2: None,
                        size1: announce.filter(|_| !whole),
                        ..Blocks::default()
                    };
                    return self.send_part(cx, carrier, index, blocks, &bytes);
                }
                None if starved => {
                    if upload.request_bytes() {
                        let id = self.id(index);
                        self.event(cx, Event::BodyNeeded(id));
                    }
                    return;
                }
                None => {
                    let failure = Failure::Body(DownloadError::TooManyBlocks);
                    return self.fail_operation(cx, carrier, index, failure);
                }
            }
        }
        let early = automatic && cx.config.negotiate_early;
        let block2 = BlockValue {
            number: 0,
            more: false,
            szx: own,
        };
        let payload = operation.request.payload.clone();
        let blocks = Blocks {
            block2: early.then_some(block2),
            ..Blocks::default()
        };
        self.send_part(cx, carrier, index, blocks, &payload);
    }

    pub(crate) fn finish_ping(&mut self, cx: &mut Context, carrier: &mut Carrier, index: u32) {
        if !self.operations.contains(index as usize) {
            return;
        }
        let id = self.id(index);
        self.event(cx, Event::Pong(id));
        self.remove_operation(cx, carrier, index);
    }

    /// Ends a request with all of its exchanges.
    pub(crate) fn finish(&mut self, cx: &mut Context, carrier: &mut Carrier, index: u32) {
        self.discard_q_upload(cx, carrier, index);
        self.discard_q_download(cx, carrier, index);
        self.invalidate_body_tag(cx, index);
        let exchanges = core::mem::take(&mut self.operations[index as usize].exchanges);
        for exchange in exchanges {
            // With the purpose: the exchange may have ended in this call, and its slot have
            // another.
            carrier.cancel(cx, exchange, |purpose| purpose.operation() == Some(index));
        }
        self.leave_queue(index);
        self.remove_operation(cx, carrier, index);
        self.serve_block1_queue(cx, carrier);
    }

    /// Removes a request with a block-wise body from its queue, if it is in one.
    pub(crate) fn leave_queue(&mut self, index: u32) {
        let operation = &self.operations[index as usize];
        if operation.upload.is_some() {
            let options = &operation.request.options;
            self.block1_queue.leave(operation.peer, options, index);
        }
    }

    /// Sends the bodies that are ready in the queue.
    pub(crate) fn serve_block1_queue(&mut self, cx: &mut Context, carrier: &mut Carrier) {
        if self.block1_queue.serve() {
            while let Some(next) = self.block1_queue.next() {
                debug_assert!(
                    self.operations.contains(next as usize),
                    "it has left the queue"
                );
                self.operations[next as usize].hold = Hold::None;
                self.advance(cx, carrier, next);
            }
        }
    }

    pub(crate) fn remove_operation(&mut self, cx: &mut Context, carrier: &mut Carrier, index: u32) {
        let operation = self.operations.remove(index as usize);
        debug_assert!(
            carrier.peers[operation.peer].users > 0,
            "a request counts as a user"
        );
        debug_assert!(operation.q_upload.is_none() && operation.q_download.is_none());
        carrier.peers[operation.peer].users -= 1;
        for timer in operation.deadline.into_iter().chain(operation.pause) {
            cx.timers.remove(timer);
        }
        if let Some(observation) = operation.observation {
            observation.end(cx, carrier, index, operation.peer);
        }
    }

    /// Adds an exchange to this request.
    pub(crate) fn join_operation(&mut self, index: u32, exchange: u32) {
        let exchanges = &mut self.operations[index as usize].exchanges;
        debug_assert!(
            !exchanges.contains(&exchange),
            "exchange {exchange} is listed"
        );
        exchanges.push(exchange);
    }

    /// Removes an ended exchange from this request; returns whether the request listed it.
    pub(crate) fn leave_operation(&mut self, index: u32, exchange: u32) -> bool {
        let Some(operation) = self.operations.get_mut(index as usize) else {
            return false;
        };
        let listed = operation.exchanges.len();
        operation.exchanges.retain(|other| *other != exchange);
        debug_assert!(
            listed - operation.exchanges.len() <= 1,
            "listed once at most"
        );
        operation.exchanges.len() < listed
    }

    /// The failure of a request whose deadline has passed: the fault of its replies, if any came.
    pub(crate) fn deadline_failure(&self, carrier: &Carrier, index: u32) -> Failure {
        let exchanges = self.operations.get(index as usize);
        let exchanges = exchanges.map_or(&[][..], |operation| &operation.exchanges[..]);
        let fault = exchanges.iter().find_map(|exchange| {
            let exchange = carrier.exchanges.get(*exchange as usize)?;
            exchange.fault
        });
        fault.map_or(Failure::DeadlinePassed, Failure::from)
    }

    pub(crate) fn fail_operation(
        &mut self,
        cx: &mut Context,
        carrier: &mut Carrier,
        index: u32,
        failure: Failure,
    ) {
        if self.operations.get(index as usize).is_none()
            || self.survives(cx, carrier, index, failure)
        {
            return;
        }
        let id = self.id(index);
        self.event(cx, Event::Failed { id, failure });
        self.finish(cx, carrier, index);
    }
}
