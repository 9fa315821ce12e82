//! Clients of a fleet: requests, and checks of their responses.

use std::collections::VecDeque;
use std::net::SocketAddr;

use bytes::Bytes;
use carob_cc::time::Duration;
use carob_proto::codec::{Code, NoResponse, Uri};
use carob_proto::endpoint::{
    BodyMode, Event, Failure, MulticastRequest, RequestConfig, RequestError, RequestId,
};
use carob_proto::{Request, Response, proxy};

use super::Fleet;
use super::bodies::{State, number_of, numbered};
use super::host::{PORT, PendingRequest, Purpose, RESOURCES, Role, group_address};
use super::ledger::{Breach, Number, REQUEST_MAX};
use super::spec::Defect;

/// Maximum outstanding requests of a client, observations excluded.
const AT_ONCE: usize = 8;
/// Maximum observations of a client.
const OBSERVATIONS: usize = 3;
/// Bytes of each piece of a streamed request body.
const PIECE: usize = 700;

/// A planned request, before its endpoint gets it.
struct Plan {
    to: SocketAddr,
    request: Request,
    sending: RequestConfig,
    purpose: Purpose,
    number: Number,
    supplies: VecDeque<Bytes>,
}

fn path(request: Request, kind: &str, resource: u32) -> Request {
    let path = format!("{kind}/{resource}");
    request.with_path(&path).expect("a short path fits")
}

impl Fleet<'_> {
    /// A client's next action.
    pub(super) fn act(&mut self, index: u32) {
        let host = &mut self.hosts[index as usize];
        if host.pause.is_some() {
            return;
        }
        let under_way = host
            .pending
            .iter()
            .filter(|pending| pending.observes().is_none());
        let busy = under_way.count() >= AT_ONCE;
        let observations = host.pending.len()
            - host
                .pending
                .iter()
                .filter(|a| a.observes().is_none())
                .count();
        match host.below(100) {
            0..=2 => self.cancel_random(index),
            3..=5 if observations > 0 => self.stop_observing(index),
            _ if busy => {}
            6..=12 if observations < OBSERVATIONS => self.begin_observing(index),
            13..=15 => self.multicast(index),
            16..=18 => self.ping(index),
            _ => self.send_request(index),
        }
        self.drain(index);
    }

    fn next_number(&mut self, proxy: Option<u32>) -> Number {
        self.numbers += 1;
        let number = Number::new(self.numbers, proxy);
        self.ledger.asked(self.now, number);
        number
    }

    /// Draws a server, and the host to send to: the server itself, or sometimes a proxy.
    fn target(&mut self, index: u32, proxies: bool) -> (u32, Option<u32>) {
        let (clients, servers, count) = (self.spec.clients, self.spec.servers, self.spec.proxies);
        let host = &mut self.hosts[index as usize];
        // Each client has a few servers, and sometimes sends to others.
        let server = if host.below(4) > 0 {
            (index * 7 + host.below(3)) % servers
        } else {
            host.below(servers)
        };
        let through = proxies && count > 0 && host.below(5) == 0;
        let proxy = through.then(|| clients + servers + host.below(count));
        (clients + server, proxy)
    }

    /// Sends a request of a random kind.
    fn send_request(&mut self, index: u32) {
        let (server, proxy) = self.target(index, true);
        let number = self.next_number(proxy);
        let host = &mut self.hosts[index as usize];
        let resource = host.below(RESOURCES);
        let small = 12 + host.below(60) as usize;
        let large = 1_200 + host.below(5_000) as usize;
        let reading = Purpose::Read { server, resource };
        let mut sending = RequestConfig::default();
        let mut supplies = VecDeque::new();
        let post = |kind, length| {
            path(Request::new(Code::POST), kind, resource).with_payload(numbered(number.0, length))
        };
        let (request, purpose) = match host.below(100) {
            0..=29 => (path(Request::get(), "get", resource), reading),
            30..=44 => (post("post", small), Purpose::Execute),
            45..=50 => {
                sending.confirmable = false;
                (path(Request::get(), "get", resource), reading)
            }
            51..=57 => {
                sending.confirmable = false;
                (post("post", small), Purpose::Execute)
            }
            58..=63 => {
                let method = if host.below(2) == 0 {
                    Code::PUT
                } else {
                    Code::IPATCH
                };
                let request = path(Request::new(method), "put", resource);
                (
                    request.with_payload(numbered(number.0, large)),
                    Purpose::Store,
                )
            }
            64..=66 if proxy.is_none() => {
                // The same as a stream of pieces.
                sending.request_body = BodyMode::Streamed;
                let body = numbered(number.0, large);
                supplies = (0..body.len())
                    .step_by(PIECE)
                    .map(|at| body.slice(at..body.len().min(at + PIECE)))
                    .collect();
                (
                    path(Request::new(Code::PUT), "put", resource),
                    Purpose::Store,
                )
            }
            67..=70 => (post("post", large), Purpose::Execute),
            71..=80 => {
                if host.below(3) == 0 && proxy.is_none() {
                    sending.response_body = BodyMode::Streamed;
                }
                (path(Request::get(), "big", resource), reading)
            }
            81..=83 => (
                path(Request::new(Code::FETCH), "get", resource)
                    .with_payload(numbered(number.0, small)),
                reading,
            ),
            84..=86 => {
                sending.confirmable = host.below(2) == 0;
                let unwanted = if host.below(2) == 0 {
                    NoResponse::ALL
                } else {
                    NoResponse::SUCCESS
                };
                (
                    post("post", small).with_no_response(unwanted),
                    Purpose::NoResponse,
                )
            }
            87..=90 => (post("fresh", small), Purpose::Execute),
            91..=93 => (
                path(Request::new(Code::PATCH), "post", resource)
                    .with_payload(numbered(number.0, small)),
                Purpose::Execute,
            ),
            94..=95 => (
                path(Request::new(Code::DELETE), "put", resource),
                Purpose::Store,
            ),
            _ => (path(Request::get(), "busy", resource), Purpose::Busy),
        };
        if host.below(5) == 0 {
            sending.deadline = Some(Duration::from_millis(500 + u64::from(host.below(60_000))));
        }
        // The responses of two large POSTs to one resource cannot be distinguished (RFC 7959 2.4).
        let is_large = matches!(purpose, Purpose::Execute) && request.payload.len() > 1_000;
        if is_large
            && host
                .pending
                .iter()
                .any(|pending| matches!(pending.purpose, Purpose::Execute))
        {
            return;
        }
        self.submit(
            index,
            proxy.unwrap_or(server),
            Plan {
                to: self.hosts[server as usize].address,
                request,
                sending,
                purpose,
                number,
                supplies,
            },
        );
    }

    fn begin_observing(&mut self, index: u32) {
        let (server, _) = self.target(index, false);
        let number = self.next_number(None);
        let host = &mut self.hosts[index as usize];
        let resource = host.below(RESOURCES);
        let same = |pending: &PendingRequest| matches!(pending.purpose, Purpose::Observe { server: s, resource: r, .. } if (s, r) == (server, resource));
        if host.pending.iter().any(same) {
            return;
        }
        let mut sending = RequestConfig::default();
        sending.observe = true;
        let request = if self.spec.defect == Some(Defect::ObservingPosts) {
            Request::new(Code::POST)
        } else {
            Request::get()
        };
        self.submit(
            index,
            server,
            Plan {
                to: self.hosts[server as usize].address,
                request: path(request, "obs", resource),
                sending,
                purpose: Purpose::Observe {
                    server,
                    resource,
                    newest: None,
                },
                number,
                supplies: VecDeque::new(),
            },
        );
    }

    /// Passes a request to the endpoint, possibly through a proxy.
    fn submit(&mut self, index: u32, via: u32, plan: Plan) {
        let Plan {
            mut to,
            mut request,
            sending,
            purpose,
            number,
            supplies,
        } = plan;
        if self.hosts[via as usize].role == Role::Proxy {
            let uri = Uri::parse(&format!("coap://{to}")).expect("an address makes a URI");
            let path: Vec<_> = request
                .options
                .iter()
                .map(|o| (o.number, o.value.to_vec()))
                .collect();
            request.options = proxy::options_for_proxy(&uri, PORT).expect("an address fits");
            for (number, value) in path {
                request
                    .options
                    .push(number, &value)
                    .expect("a short path fits");
            }
            to = self.hosts[via as usize].address;
        }
        let host = &mut self.hosts[index as usize];
        let own = host.own(self.now);
        let result = host.end.request(own, to, request, sending);
        self.begun(index, result, purpose, number, supplies);
    }

    fn multicast(&mut self, index: u32) {
        let number = self.next_number(None);
        let host = &mut self.hosts[index as usize];
        if !host.config.groups {
            return;
        }
        let group = group_address(host.below(8));
        let own = host.own(self.now);
        let request =
            path(Request::new(Code::POST), "post", 0).with_payload(numbered(number.0, 12));
        let result = host
            .end
            .multicast(own, group, request, MulticastRequest::default());
        self.begun(index, result, Purpose::Group, number, VecDeque::new());
    }

    fn ping(&mut self, index: u32) {
        let (server, _) = self.target(index, false);
        let number = self.next_number(None);
        let to = self.hosts[server as usize].address;
        let host = &mut self.hosts[index as usize];
        let own = host.own(self.now);
        let result = host.end.ping(own, to);
        self.begun(index, result, Purpose::Ping, number, VecDeque::new());
    }

    fn begun(
        &mut self,
        index: u32,
        result: Result<RequestId, RequestError>,
        purpose: Purpose,
        number: Number,
        supplies: VecDeque<Bytes>,
    ) {
        let host = &mut self.hosts[index as usize];
        self.ledger.record.requests += 1;
        match result {
            Ok(id) => host.pending.push(PendingRequest {
                id,
                number,
                purpose,
                since: (host.own(self.now), host.suspended),
                head: None,
                parts: Vec::new(),
                supplies,
                ending: false,
            }),
            Err(RequestError::PeersFull | RequestError::QueueFull | RequestError::RequestsFull) => {
                self.ledger.record.refused += 1;
            }
            Err(error) => {
                let details = format!("{purpose:?}: {error}");
                self.ledger
                    .breach(self.now, index, Breach::Refused, details);
            }
        }
    }

    /// Cancels a random outstanding request.
    fn cancel_random(&mut self, index: u32) {
        let host = &mut self.hosts[index as usize];
        if host.pending.is_empty() {
            return;
        }
        let at = host.below(host.pending.len() as u32) as usize;
        let pending = host.pending.swap_remove(at);
        let own = host.own(self.now);
        if host.end.cancel(own, pending.id) {
            self.ledger.record.cancelled += 1;
        } else {
            let details = format!("{pending:?} ended without an event");
            self.ledger
                .breach(self.now, index, Breach::NeverEnded, details);
        }
    }

    fn stop_observing(&mut self, index: u32) {
        let host = &mut self.hosts[index as usize];
        let own = host.own(self.now);
        let pending = host
            .pending
            .iter_mut()
            .find(|a| a.observes().is_some() && !a.ending);
        if let Some(pending) = pending {
            pending.ending = true;
            pending.since = (own, host.suspended);
            host.end.stop_observing(own, pending.id);
        }
    }

    /// Handles an event of a client's endpoint.
    pub(super) fn on_event(&mut self, index: u32, event: Event) {
        let now = self.now;
        match event {
            Event::Response { id, response } => self.answered(index, id, &response),
            Event::Failed { id, failure } => {
                let record = &mut self.ledger.record;
                record.failed += 1;
                let name = format!("{failure:?}");
                let name = name.split([' ', '(', '{']).next().unwrap_or_default();
                *record.failures.entry(name.to_owned()).or_default() += 1;
                self.ended(index, id);
            }
            Event::ResponseSuppressed(id) => {
                if let Some(pending) = self.ended(index, id) {
                    self.ledger.record.answered += 1;
                    if !matches!(pending.purpose, Purpose::NoResponse) {
                        let details = format!("{pending:?} has no answer");
                        self.ledger.breach(now, index, Breach::WrongAnswer, details);
                    }
                }
            }
            Event::Pong(id) | Event::MulticastComplete(id) => {
                self.ended(index, id);
                if self.spec.defect == Some(Defect::EchoedEnds) {
                    self.ended(index, id);
                }
                self.ledger.record.answered += 1;
            }
            Event::MulticastResponse { id, response, .. } => {
                let pending = self.hosts[index as usize]
                    .pending
                    .iter()
                    .find(|a| a.id == id);
                let number = pending.map(|pending| pending.number);
                self.check_member(index, number, response);
            }
            Event::Notification { id, response } => self.notified(index, id, &response),
            Event::ResponseHead { id, response, .. } => {
                if let Some(pending) = self.find(index, id) {
                    pending.head = Some(response.code);
                    pending.parts.clear();
                }
            }
            Event::ResponseChunk { id, bytes, last } => {
                let Some(pending) = self.find(index, id) else {
                    return;
                };
                pending.parts.extend_from_slice(&bytes);
                if last {
                    let code = pending.head.unwrap_or(Code::EMPTY);
                    let response = Response::new(code).with_payload(pending.parts.clone());
                    self.answered(index, id, &response);
                } else {
                    let host = &mut self.hosts[index as usize];
                    let own = host.own(now);
                    host.end.read_on(own, id, 1);
                }
            }
            Event::BodyNeeded(id) => {
                let host = &mut self.hosts[index as usize];
                let own = host.own(now);
                if let Some(pending) = host.pending.iter_mut().find(|pending| pending.id == id) {
                    let piece = pending.supplies.pop_front().unwrap_or_default();
                    let last = pending.supplies.is_empty();
                    host.end.supply(own, id, piece, last);
                }
            }
            _ => {}
        }
    }

    fn find(&mut self, index: u32, id: RequestId) -> Option<&mut PendingRequest> {
        let host = &mut self.hosts[index as usize];
        let at = host.pending.iter().position(|pending| pending.id == id);
        if at.is_none() {
            let details = format!("{id:?}");
            self.ledger
                .breach(self.now, index, Breach::EndedTwice, details);
        }
        Some(&mut self.hosts[index as usize].pending[at?])
    }

    /// Completes a request after its last event.
    fn ended(&mut self, index: u32, id: RequestId) -> Option<PendingRequest> {
        self.find(index, id)?;
        let host = &mut self.hosts[index as usize];
        let at = host.pending.iter().position(|pending| pending.id == id)?;
        let pending = host.pending.swap_remove(at);
        // For an observation, the time of its registration or its end is measured.
        if pending.observes().is_none() || pending.ending {
            let took = host.own(self.now).since(pending.since.0);
            let took = took.saturating_sub(host.suspended.saturating_sub(pending.since.1));
            let record = &mut self.ledger.record;
            record.longest = record.longest.max(took);
            if took > REQUEST_MAX {
                let details = format!("{pending:?} took {} s", took.as_secs());
                self.ledger
                    .breach(self.now, index, Breach::NeverEnded, details);
            }
        }
        Some(pending)
    }

    fn answered(&mut self, index: u32, id: RequestId, response: &Response) {
        let Some(pending) = self.ended(index, id) else {
            return;
        };
        if response.code.is_success() {
            self.ledger.record.answered += 1;
        } else {
            self.ledger.record.denied += 1;
            return;
        }
        let body = response.bytes();
        match pending.purpose {
            Purpose::Read { server, resource }
            | Purpose::Observe {
                server, resource, ..
            } => {
                self.check_state(index, body, server, resource);
            }
            Purpose::Execute => {
                self.ledger.succeeded(self.now, index, pending.number);
                self.check_number(index, body, pending.number);
            }
            Purpose::Store if body.is_empty() => {}
            Purpose::Store => self.check_number(index, body, pending.number),
            Purpose::NoResponse | Purpose::Busy | Purpose::Ping | Purpose::Group => {}
        }
    }

    fn check_member(
        &mut self,
        index: u32,
        number: Option<Number>,
        response: Result<Response, Failure>,
    ) {
        let Some(number) = number else {
            let details = "a member of a group".to_owned();
            return self
                .ledger
                .breach(self.now, index, Breach::EndedTwice, details);
        };
        if let Ok(response) = response
            && response.code.is_success()
        {
            self.ledger.succeeded(self.now, index, number);
            self.check_number(index, response.bytes(), number);
        }
    }

    fn check_number(&mut self, index: u32, body: &[u8], number: Number) {
        let breach = match number_of(body) {
            Some(found) if found == number.0 => return,
            Some(_) => Breach::WrongAnswer,
            None => Breach::TornBody,
        };
        let details = format!("answer of {} bytes to {:#x}", body.len(), number.0);
        self.ledger.breach(self.now, index, breach, details);
    }

    fn check_state(
        &mut self,
        index: u32,
        body: &[u8],
        server: u32,
        resource: u32,
    ) -> Option<State> {
        let state = State::of(body);
        let breach = match state {
            Some(state) if (state.server, state.resource) == (server, resource) => {
                return Some(state);
            }
            Some(_) => Breach::WrongAnswer,
            None => Breach::TornBody,
        };
        let details = format!("{} bytes of {resource} at {server}: {state:?}", body.len());
        self.ledger.breach(self.now, index, breach, details);
        None
    }

    fn notified(&mut self, index: u32, id: RequestId, response: &Response) {
        self.ledger.record.notified += 1;
        let Some(pending) = self.find(index, id) else {
            return;
        };
        let Purpose::Observe {
            server, resource, ..
        } = pending.purpose
        else {
            let details = format!("{pending:?} was notified");
            return self
                .ledger
                .breach(self.now, index, Breach::WrongAnswer, details);
        };
        let Some(state) = self.check_state(index, response.bytes(), server, resource) else {
            return;
        };
        let Some(PendingRequest {
            purpose: Purpose::Observe { newest, .. },
            ..
        }) = self.find(index, id)
        else {
            return;
        };
        let before = newest.replace(state);
        if let Some(before) = before
            && before.epoch == state.epoch
            && before.version > state.version
        {
            let details = format!("{state:?} after {before:?}");
            self.ledger
                .breach(self.now, index, Breach::OlderState, details);
        }
    }
}
