//! Requests of ours to groups: one message out, a stream of responses in (RFC 7252 8).
//!
//! The request is NON and leaves under the controller of the group's address, which it occupies
//! until the first member answers or PROBING_RATE has paid for it (4.7). Responses are matched by the
//! token alone, since they come from the members' own addresses; so it always is 8 random bytes. Of a
//! response in blocks, the rest is fetched from its member alone (RFC 7959 2.8).

pub(super) mod leisure;

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};

use carob_cc::TransmissionParameters;
use carob_cc::controller::Counting;
use carob_cc::time::{Duration, Instant};
use slab::Slab;

use super::client::{Sending, encode, remove_transfer_options};
use super::config::{ENGINE_BYTES, MESSAGE_BYTES, admissible};
use super::exchange::{Purpose, Submission, UNLIMITED};
use super::{Endpoint, Event, Failure, Owner, RequestError, RequestId};
use crate::codec::{Code, EncodeError, MessageView, OptionNumber, Token, TokenKey};
use crate::message::{Request, Response};
use crate::timers::TimerId;

/// How a request to a group is made.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Gathering {
    /// How long responses are taken after the request was given to the endpoint. Default 8 s: members
    /// answer within DEFAULT_LEISURE, 5 s, and what RFC 7252 allows a response and its way before a
    /// first timer may run out, ACK_TIMEOUT x ACK_RANDOM_FACTOR, is 3 s more.
    pub lasts: Duration,
    /// Transmission parameters of the request, and of what is fetched of large responses.
    pub parameters: Option<TransmissionParameters>,
}

impl Default for Gathering {
    fn default() -> Self {
        Self {
            lasts: Duration::from_secs(8),
            parameters: None,
        }
    }
}

/// Whether an address stands for a group: multicast, or the broadcast address of the local network.
pub(super) fn is_group(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(v4) => v4.is_multicast() || v4.is_broadcast(),
        IpAddr::V6(v6) => v6.is_multicast(),
    }
}

/// A request of ours to a group.
#[derive(Debug)]
struct Group {
    serial: u32,
    token: Token,
    request: Request,
    parameters: Option<TransmissionParameters>,
    /// When no more responses are taken; none once that time has come.
    timer: Option<TimerId>,
    /// Its message, as long as that waits or occupies the controller.
    exchange: Option<u32>,
    sent: bool,
    responses: usize,
    /// Responses of which the rest is being fetched.
    continuing: u32,
}

/// Requests of ours to groups.
#[derive(Debug, Default)]
pub(super) struct Groups {
    table: Slab<Group>,
    tokens: BTreeMap<Token, u32>,
    /// Requests to single members for the rest of what they answered: for which group, from whom.
    continuing: BTreeMap<RequestId, (u32, SocketAddr)>,
}

impl Groups {
    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    fn id(&self, index: u32) -> RequestId {
        let serial = self.table[index as usize].serial;
        RequestId { index, serial }
    }

    pub(super) fn join(&mut self, index: u32, exchange: u32) {
        self.table[index as usize].exchange = Some(exchange);
    }

    /// The request's message occupies its controller no longer.
    pub(super) fn leave(&mut self, index: u32) {
        if let Some(group) = self.table.get_mut(index as usize) {
            group.exchange = None;
        }
    }

    /// The request's message has left.
    pub(super) fn message_sent(&mut self, index: u32) {
        self.table[index as usize].sent = true;
    }

    /// Turns what became of a request to a single member into what the group's request is told; and
    /// that request, if this was the last that was waited for.
    pub(super) fn take_over(&mut self, event: Event) -> (Event, Option<RequestId>) {
        if self.continuing.is_empty() {
            return (event, None);
        }
        let (of, response) = match event {
            Event::Response { id, response } => (id, Ok(response)),
            Event::Failed { id, failure } => (id, Err(failure)),
            other => return (other, None),
        };
        let Some((index, from)) = self.continuing.remove(&of) else {
            let event = match response {
                Ok(response) => Event::Response { id: of, response },
                Err(failure) => Event::Failed { id: of, failure },
            };
            return (event, None);
        };
        let id = self.id(index);
        let group = &mut self.table[index as usize];
        group.continuing -= 1;
        let last = group.timer.is_none() && group.continuing == 0;
        if last {
            self.table.remove(index as usize);
        }
        (Event::Member { id, from, response }, last.then_some(id))
    }
}

impl Endpoint {
    /// Sends a request to a group, and hands on the members' responses as they come:
    /// [`Event::Member`] for each, then [`Event::Gathered`].
    ///
    /// [`Config::groups`](super::Config::groups) must be set.
    pub fn gather(
        &mut self,
        now: Instant,
        to: SocketAddr,
        request: Request,
        gathering: Gathering,
    ) -> Result<RequestId, RequestError> {
        if !self.config.groups || self.is_reliable() || !is_group(to.ip()) || to.port() == 0 {
            return Err(RequestError::BadAddress);
        }
        if !request.code.is_request() {
            return Err(RequestError::NotARequest);
        }
        if !request.payload.is_empty() && !request.code.has_payload() {
            return Err(RequestError::PayloadNotAllowed);
        }
        let options = &request.options;
        for number in [OptionNumber::OBSERVE, OptionNumber::BLOCK1] {
            if options.contains(number) {
                return Err(RequestError::NotForGroups(number));
            }
        }
        if request.code == Code::GET && options.contains(OptionNumber::ETAG) {
            return Err(RequestError::NotForGroups(OptionNumber::ETAG));
        }
        if self.operations.len() + self.groups.len() >= self.config.limits.requests {
            return Err(RequestError::RequestsFull);
        }
        let (high, low) = (self.random.next_u32(), self.random.next_u32());
        let token = (u64::from(high) << 32 | u64::from(low)).to_be_bytes();
        let token = Token::new(&token).expect("8 bytes are a token");
        let mut bytes = self.buffer();
        let Request {
            code,
            options,
            payload,
        } = &request;
        let length = encode(&mut self.scratch, &token, *code, options, &[], payload)
            .map_err(RequestError::Encode)?;
        if length + ENGINE_BYTES > MESSAGE_BYTES {
            return Err(RequestError::Encode(EncodeError::BufferTooSmall));
        }
        bytes.extend_from_slice(&self.scratch[..length]);
        let peer = self.peer(now, to)?;
        if !self.has_room(peer) {
            return Err(RequestError::QueueFull);
        }
        let serial = self.next_serial();
        let entry = self.groups.table.vacant_entry();
        let index = entry.key() as u32;
        let timer = self.timers.add(Owner::Group(index));
        entry.insert(Group {
            serial,
            token,
            request,
            parameters: gathering.parameters,
            timer: Some(timer),
            exchange: None,
            sent: false,
            responses: 0,
            continuing: 0,
        });
        self.groups.tokens.insert(token, index);
        self.timers.set(timer, now + gathering.lasts);
        let parameters = gathering.parameters.map(|own| Box::new(admissible(own)));
        let submission = Submission {
            purpose: Purpose::Group { group: index },
            confirmable: false,
            token: TokenKey::short(token),
            counting: Counting::Off,
            bytes,
            answer_bytes: 0,
            budget: UNLIMITED,
            parameters,
        };
        self.submit(now, peer, submission);
        Ok(RequestId { index, serial })
    }

    /// Takes a response that is nobody's but may be a member's; whether it is.
    pub(super) fn handle_member(
        &mut self,
        now: Instant,
        from: SocketAddr,
        message: &MessageView<'_>,
    ) -> bool {
        let token = Token::new(message.token().as_slice());
        let Some(&index) = token.and_then(|token| self.groups.tokens.get(&token)) else {
            return false;
        };
        self.acknowledge_response(now, from, message, self.config.parameters);
        let group = &mut self.groups.table[index as usize];
        if group.responses >= self.config.limits.gathered {
            return true;
        }
        group.responses += 1;
        if let Some(exchange) = group.exchange {
            self.end(now, exchange, false);
        }
        let id = self.groups.id(index);
        let response = match self.block_option(message, OptionNumber::BLOCK2) {
            _ if self.not_understood(message).is_some() => {
                let number = self.not_understood(message).unwrap_or(OptionNumber(0));
                Err(Failure::UnknownOption(number))
            }
            Err(_) => Err(Failure::BadBlock),
            Ok(Some(block)) if message.code().is_success() && block.number > 0 => {
                Err(Failure::BadBlock)
            }
            Ok(Some(block)) if message.code().is_success() && block.more => {
                match self.continue_with(now, index, from, message) {
                    Ok(()) => return true,
                    Err(failure) => Err(failure),
                }
            }
            Ok(_) => Response::from_view(message)
                .map(|mut response| {
                    remove_transfer_options(&mut response);
                    response
                })
                .map_err(Failure::Options),
        };
        self.event(Event::Member { id, from, response });
        true
    }

    /// Fetches the rest of a response from its member alone.
    fn continue_with(
        &mut self,
        now: Instant,
        index: u32,
        from: SocketAddr,
        message: &MessageView<'_>,
    ) -> Result<(), Failure> {
        let group = &self.groups.table[index as usize];
        let sending = Sending {
            parameters: group.parameters,
            ..Sending::default()
        };
        let request = group.request.clone();
        // No room for it, whatever of.
        let id = self
            .begin(now, from, request, sending, None)
            .map_err(|_| Failure::QueueFull)?;
        self.groups.table[index as usize].continuing += 1;
        self.groups.continuing.insert(id, (index, from));
        self.handle_operation_response(now, id.index, None, None, message);
        Ok(())
    }

    /// The time for responses is over.
    pub(super) fn close_group(&mut self, now: Instant, index: u32) {
        let id = self.groups.id(index);
        let group = &mut self.groups.table[index as usize];
        if !group.sent {
            return self.fail_group(now, index, Failure::DeadlinePassed);
        }
        self.groups.tokens.remove(&group.token);
        if let Some(timer) = group.timer.take() {
            self.timers.remove(timer);
        }
        if let Some(exchange) = group.exchange {
            self.end(now, exchange, false);
        }
        if self.groups.table[index as usize].continuing == 0 {
            self.groups.table.remove(index as usize);
            self.event(Event::Gathered(id));
        }
    }

    /// Gives up a request to a group; whether there was one.
    pub(super) fn cancel_group(&mut self, now: Instant, id: RequestId) -> bool {
        let found = self.groups.table.get(id.index as usize);
        if found.is_none_or(|group| group.serial != id.serial) {
            return false;
        }
        let group = self.groups.table.remove(id.index as usize);
        self.groups.tokens.remove(&group.token);
        if let Some(timer) = group.timer {
            self.timers.remove(timer);
        }
        if let Some(exchange) = group.exchange {
            self.cancel_exchange(now, exchange);
        }
        let of_group = |(of, (index, _)): (&RequestId, &(u32, SocketAddr))| {
            (*index == id.index).then_some(*of)
        };
        let continuing: Vec<RequestId> =
            self.groups.continuing.iter().filter_map(of_group).collect();
        for of in continuing {
            self.groups.continuing.remove(&of);
            self.cancel(now, of);
        }
        true
    }

    pub(super) fn fail_group(&mut self, now: Instant, index: u32, failure: Failure) {
        if self.groups.table.contains(index as usize) {
            let id = self.groups.id(index);
            self.cancel_group(now, id);
            self.event(Event::Failed { id, failure });
        }
    }

    /// Ends every request to a group.
    pub(super) fn shut_groups(&mut self, now: Instant) {
        let all: Vec<u32> = self
            .groups
            .table
            .iter()
            .map(|(index, _)| index as u32)
            .collect();
        for index in all {
            self.fail_group(now, index, Failure::ShutDown);
        }
    }
}
