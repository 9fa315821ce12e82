//! Multicast requests: one message out, many responses in (RFC 7252 8).
//!
//! The request is NON and sent under the controller of the group's address. It counts there until
//! the first response, or until PROBING_RATE has paid for it (4.7). Responses come from the
//! members' own addresses and are matched by the token alone, which therefore always has 8 random
//! bytes. The rest of a block-wise response is fetched from its member by unicast (RFC 7959 2.8).

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};

use carob_cc::TransmissionParameters;
use carob_cc::controller::CopyTagging;
use carob_cc::time::Duration;
use slab::Slab;

use crate::block::remove_transfer_options;
use crate::carrier::Carrier;
use crate::client::{Client, RequestConfig};
use crate::codec::{Code, EncodeError, MessageView, OptionNumber, Token, TokenKey};
use crate::config::{ENGINE_BYTES, MESSAGE_BYTES, admissible};
use crate::context::{Context, Owner};
use crate::event::{Event, Failure, RequestError, RequestId};
use crate::message::{Request, Response};
use crate::message_layer::{Purpose, RequestTraits, Submission, UNLIMITED};
use crate::timers::TimerId;
use crate::writing::encode;

/// Configuration of a multicast request.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct MulticastRequest {
    /// The time during which responses are accepted, from the call on. Default 8 s: members respond
    /// within DEFAULT_LEISURE, 5 s. RFC 7252 permits 3 s more for a response and its path before an
    /// initial timeout, ACK_TIMEOUT x ACK_RANDOM_FACTOR.
    pub lasts: Duration,
    /// Transmission parameters of the request, and of fetching large responses.
    pub parameters: Option<TransmissionParameters>,
}

impl Default for MulticastRequest {
    fn default() -> Self {
        Self {
            lasts: Duration::from_secs(8),
            parameters: None,
        }
    }
}

/// Returns whether an address is a group's: multicast, or the broadcast address of the local
/// network.
pub(crate) fn is_group(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(v4) => v4.is_multicast() || v4.is_broadcast(),
        IpAddr::V6(v6) => v6.is_multicast(),
    }
}

/// Refuses a request that cannot go to a group (RFC 7252 8.1, 8.2.1).
fn check_multicast(request: &Request) -> Result<(), RequestError> {
    if !request.code.is_request() {
        return Err(RequestError::NotARequest);
    }
    if !request.payload.is_empty() && !request.code.has_payload() {
        return Err(RequestError::PayloadNotAllowed);
    }
    let options = &request.options;
    // Each member would need its own state: of an observation, or of the body that it
    // has.
    for number in [OptionNumber::OBSERVE, OptionNumber::BLOCK1] {
        if options.contains(number) {
            return Err(RequestError::NotForGroups(number));
        }
    }
    // An ETag belongs to one resource, and means nothing to other members (RFC 7252 5.10.6,
    // 8.2.1).
    if request.code == Code::GET && options.contains(OptionNumber::ETAG) {
        return Err(RequestError::NotForGroups(OptionNumber::ETAG));
    }
    Ok(())
}

/// A multicast request of this endpoint.
#[derive(Debug)]
struct Group {
    serial: u32,
    token: Token,
    request: Request,
    parameters: Option<TransmissionParameters>,
    /// The end of the time for responses; `None` afterwards.
    timer: Option<TimerId>,
    /// Its exchange, while queued or counted by the controller.
    exchange: Option<u32>,
    responses: usize,
    /// Responses whose rest is being fetched.
    continuing: u32,
}

/// Multicast requests of this endpoint.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    table: Slab<Group>,
    tokens: BTreeMap<Token, u32>,
    /// Unicast requests for the rest of a response: the multicast request and the member.
    continuing: BTreeMap<RequestId, (u32, SocketAddr)>,
}

impl Groups {
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    fn id(&self, index: u32) -> RequestId {
        let serial = self.table[index as usize].serial;
        RequestId { index, serial }
    }

    /// Translates an event of a unicast request into one of its multicast request. Returns also
    /// that request if this was its last pending response.
    pub(crate) fn take_over(&mut self, event: Event) -> (Event, Option<RequestId>) {
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
        debug_assert!(group.continuing > 0, "it was counted");
        group.continuing -= 1;
        let last = group.timer.is_none() && group.continuing == 0;
        if last {
            self.table.remove(index as usize);
        }
        (
            Event::MulticastResponse { id, from, response },
            last.then_some(id),
        )
    }
}

impl Client {
    /// Sends a multicast request and reports the members' responses: [`Event::MulticastResponse`]
    /// for each, then [`Event::MulticastComplete`].
    ///
    /// [`Config::groups`](super::Config::groups) must be set.
    pub(crate) fn multicast(
        &mut self,
        cx: &mut Context,
        carrier: &mut Carrier,
        to: SocketAddr,
        request: Request,
        gathering: MulticastRequest,
    ) -> Result<RequestId, RequestError> {
        if !cx.config.groups || cx.is_stream() || !is_group(to.ip()) || to.port() == 0 {
            return Err(RequestError::BadAddress);
        }
        check_multicast(&request)?;
        if self.len() >= cx.config.limits.requests {
            return Err(RequestError::RequestsFull);
        }
        // 64 random bits whatever the configured length: members answer from any address, so
        // the token alone protects against forged responses (RFC 7252 5.3.1, 8.2).
        let (high, low) = (cx.random.next_u32(), cx.random.next_u32());
        let token = (u64::from(high) << 32 | u64::from(low)).to_be_bytes();
        let token = Token::new(&token).expect("8 bytes are a token");
        let mut bytes = cx.buffer();
        let Request {
            code,
            options,
            payload,
        } = &request;
        let length = encode(&mut cx.scratch, &token, *code, options, &[], payload)
            .map_err(RequestError::Encode)?;
        if length + ENGINE_BYTES > MESSAGE_BYTES {
            return Err(RequestError::Encode(EncodeError::BufferTooSmall));
        }
        bytes.extend_from_slice(&cx.scratch[..length]);
        let peer = carrier.peer(cx, to)?;
        if !carrier.has_room(cx, peer) {
            return Err(RequestError::QueueFull);
        }
        let serial = cx.next_serial();
        let entry = self.groups.table.vacant_entry();
        let index = entry.key() as u32;
        let timer = cx.timers.add(Owner::Multicast(index));
        entry.insert(Group {
            serial,
            token,
            request,
            parameters: gathering.parameters,
            timer: Some(timer),
            exchange: None,
            responses: 0,
            continuing: 0,
        });
        let before = self.groups.tokens.insert(token, index);
        debug_assert!(before.is_none(), "64 random bits were drawn twice");
        cx.timers.set(timer, cx.now + gathering.lasts);
        let parameters = gathering.parameters.map(|own| Box::new(admissible(own)));
        let submission = Submission {
            purpose: Purpose::Multicast { request: index },
            confirmable: false,
            token: TokenKey::short(token),
            counting: CopyTagging::Off,
            bytes,
            answer_bytes: 0,
            budget: UNLIMITED,
            parameters,
            request: RequestTraits::default(),
        };
        let exchange = carrier.submit(cx, peer, submission);
        self.groups.table[index as usize].exchange = Some(exchange);
        Ok(RequestId { index, serial })
    }

    /// Processes an unmatched response that may be a group member's; returns whether it is.
    pub(crate) fn handle_member(
        &mut self,
        cx: &mut Context,
        carrier: &mut Carrier,
        from: SocketAddr,
        message: &MessageView<'_>,
    ) -> bool {
        let token = Token::new(message.token().as_slice());
        let Some(&index) = token.and_then(|token| self.groups.tokens.get(&token)) else {
            return false;
        };
        // Also above the limit: a member that sent a CON would retransmit it.
        carrier.acknowledge_response(cx, from, message, cx.config.parameters);
        let group = &mut self.groups.table[index as usize];
        // Any host that has seen the token may send as many responses as it likes.
        if group.responses >= cx.config.limits.multicast_responses {
            return true;
        }
        group.responses += 1;
        debug_assert!(group.timer.is_some(), "the time for responses is over");
        if let Some(exchange) = group.exchange.take() {
            // The first response shows that the network carries the traffic: the request stops to
            // count (RFC 7252 4.7).
            carrier.end_multicast(cx, exchange, index);
        }
        let id = self.groups.id(index);
        let response = match cx.block_option(message, OptionNumber::BLOCK2) {
            _ if cx.not_understood(message).is_some() => {
                let number = cx.not_understood(message).unwrap_or(OptionNumber(0));
                Err(Failure::UnknownOption(number))
            }
            Err(_) => Err(Failure::BadBlock),
            Ok(Some(block)) if message.code().is_success() && block.number > 0 => {
                Err(Failure::BadBlock)
            }
            Ok(Some(block)) if message.code().is_success() && block.more => {
                match self.continue_with(cx, carrier, index, from, message) {
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
        self.event(cx, Event::MulticastResponse { id, from, response });
        true
    }

    /// Fetches the rest of a response from its member by unicast.
    pub(crate) fn continue_with(
        &mut self,
        cx: &mut Context,
        carrier: &mut Carrier,
        index: u32,
        from: SocketAddr,
        message: &MessageView<'_>,
    ) -> Result<(), Failure> {
        let group = &self.groups.table[index as usize];
        let sending = RequestConfig {
            parameters: group.parameters,
            ..RequestConfig::default()
        };
        let request = group.request.clone();
        // Every local rejection means that the limits permit no further request.
        let id = self
            .begin(cx, carrier, from, request, sending, None)
            .map_err(|_| Failure::QueueFull)?;
        self.groups.table[index as usize].continuing += 1;
        self.groups.continuing.insert(id, (index, from));
        self.handle_operation_response(cx, carrier, id.index, None, None, message);
        Ok(())
    }

    /// Ends the time for responses.
    pub(crate) fn close_group(&mut self, cx: &mut Context, carrier: &mut Carrier, index: u32) {
        let id = self.groups.id(index);
        let group = &mut self.groups.table[index as usize];
        let queued = |exchange| carrier.is_multicast_queued(exchange, index);
        // It never left, so that the silence is not of the members.
        if group.exchange.is_some_and(queued) {
            return self.fail_group(cx, carrier, index, Failure::DeadlinePassed);
        }
        self.groups.tokens.remove(&group.token);
        if let Some(timer) = group.timer.take() {
            cx.timers.remove(timer);
        }
        if let Some(exchange) = group.exchange.take() {
            carrier.end_multicast(cx, exchange, index);
        }
        // Otherwise the last unicast response completes it (`take_over`).
        if self.groups.table[index as usize].continuing == 0 {
            self.groups.table.remove(index as usize);
            self.event(cx, Event::MulticastComplete(id));
        }
    }

    /// Cancels a multicast request; returns whether there was one.
    pub(crate) fn cancel_group(
        &mut self,
        cx: &mut Context,
        carrier: &mut Carrier,
        id: RequestId,
    ) -> bool {
        let found = self.groups.table.get(id.index as usize);
        if found.is_none_or(|group| group.serial != id.serial) {
            return false;
        }
        let group = self.groups.table.remove(id.index as usize);
        self.groups.tokens.remove(&group.token);
        if let Some(timer) = group.timer {
            cx.timers.remove(timer);
        }
        if let Some(exchange) = group.exchange {
            carrier.cancel(cx, exchange, |purpose| {
                purpose.multicast() == Some(id.index)
            });
        }
        let of_group = |(of, (index, _)): (&RequestId, &(u32, SocketAddr))| {
            (*index == id.index).then_some(*of)
        };
        let continuing: Vec<RequestId> =
            self.groups.continuing.iter().filter_map(of_group).collect();
        for of in continuing {
            self.groups.continuing.remove(&of);
            self.cancel(cx, carrier, of);
        }
        true
    }

    pub(crate) fn fail_group(
        &mut self,
        cx: &mut Context,
        carrier: &mut Carrier,
        index: u32,
        failure: Failure,
    ) {
        if self.groups.table.contains(index as usize) {
            let id = self.groups.id(index);
            self.cancel_group(cx, carrier, id);
            self.event(cx, Event::Failed { id, failure });
        }
    }

    /// Ends every multicast request.
    pub(crate) fn shut_groups(&mut self, cx: &mut Context, carrier: &mut Carrier) {
        let all: Vec<u32> = self
            .groups
            .table
            .iter()
            .map(|(index, _)| index as u32)
            .collect();
        for index in all {
            self.fail_group(cx, carrier, index, Failure::ShutDown);
        }
    }
}
