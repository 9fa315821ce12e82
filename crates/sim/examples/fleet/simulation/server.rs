//! Servers of a fleet, and proxies.

use bytes::Bytes;
use carob_cc::time::Duration;
use carob_proto::codec::{Code, ETag, MessageView, OptionNumber, Options};
use carob_proto::endpoint::{Failure, IncomingId, RequestConfig, RequestId};
use carob_proto::message::Payload;
use carob_proto::{Request, Response, proxy};

use super::bodies::{State, number_of};
use super::host::{RESOURCES, Role, subject};
use super::ledger::{Breach, Number};
use super::spec::Defect;
use super::{Fleet, FleetEvent};

/// Bytes of bodies that are read in blocks.
const LARGE: usize = 5_000;
/// Max-Age of a 4.29 or 5.03 response in seconds.
const WAIT: u64 = 20;
/// Max-Age of states under [`Defect::SilentChanges`], in seconds.
const DAY: u32 = 86_400;

impl Fleet<'_> {
    /// Handles a request at an application.
    pub(super) fn on_request(&mut self, index: u32, id: IncomingId) {
        if self.hosts[index as usize].role == Role::Proxy {
            return self.forward(index, id);
        }
        let never = self.spec.defect == Some(Defect::NeverAnswered);
        let host = &mut self.hosts[index as usize];
        if never && host.below(100) == 0 {
            return;
        }
        let Some(response) = self.response(index, id) else {
            return;
        };
        // Most responses come at once, some late, so that they are separate messages.
        let host = &mut self.hosts[index as usize];
        let delay = match host.below(10) {
            0..=6 => Duration::ZERO,
            7 | 8 => Duration::from_millis(u64::from(host.below(3_000))),
            _ => Duration::from_millis(u64::from(host.below(60_000))),
        };
        if delay.is_zero() {
            self.respond(index, id, &response);
        } else {
            let epoch = host.epoch;
            let answer = Box::new((index, epoch, id, response));
            self.queue
                .push(self.now + delay, FleetEvent::Answer(answer));
        }
    }

    /// Sends an application's response.
    pub(super) fn respond(&mut self, index: u32, id: IncomingId, response: &Response) {
        let host = &mut self.hosts[index as usize];
        let own = host.own(self.now);
        host.end.respond(own, id, response);
    }

    /// Executes a request and makes the response; none if it has been sent already.
    fn response(&mut self, index: u32, id: IncomingId) -> Option<Response> {
        let now = self.now;
        let defect = self.spec.defect;
        let host = &mut self.hosts[index as usize];
        let own = host.own(now);
        let incoming = host.end.incoming(id)?;
        let (kind, resource) = named(&incoming.message);
        let code = incoming.message.code();
        let number = number_of(incoming.body).map(Number);
        let (fresh, observes, wanted) = (incoming.fresh, incoming.observe, incoming.wanted);
        let (whole, length) = (number.is_some(), incoming.body.len());
        let repeatable = code.is_idempotent();
        if !repeatable || length > 0 {
            if !whole {
                let details = format!("{code}, {length} bytes, for what follows {}", wanted.offset);
                self.ledger.breach(now, index, Breach::TornBody, details);
                return Some(Response::new(Code::BAD_REQUEST));
            }
            if kind == b"fresh" && !fresh {
                host.end.challenge(own, id);
                return None;
            }
        }
        if kind == b"busy" && host.below(2) == 0 {
            let wait = core::time::Duration::from_secs(WAIT);
            return Some(match host.below(2) {
                0 => Response::too_many_requests(wait),
                _ => Response::new(Code::SERVICE_UNAVAILABLE).with_max_age(wait),
            });
        }
        let mut response = if repeatable {
            Response::new(match code {
                Code::GET | Code::FETCH => Code::CONTENT,
                Code::DELETE => Code::DELETED,
                _ => Code::CHANGED,
            })
        } else {
            let promised = defect == Some(Defect::EmptyPromises) && host.below(100) == 0;
            if let Some(number) = number
                && !promised
            {
                self.ledger.execute(now, index, number);
            }
            Response::new(Code::CHANGED)
        };
        let host = &mut self.hosts[index as usize];
        if code == Code::GET || code == Code::FETCH {
            if observes.is_some() && kind == b"obs" {
                host.end.observe(own, id, subject(resource));
            }
            let state = host.state(index, resource);
            return Some(match &kind[..] {
                b"obs" => observed(state, host.max_age, defect),
                b"big" if resource % 2 == 0 => {
                    if defect == Some(Defect::TornBodies) {
                        let mut torn = state;
                        torn.version = host.below(1 << 20);
                        return Some(part(&torn.body(LARGE), wanted.offset, wanted.span, None));
                    }
                    let tag = u64::from(state.epoch) << 24 | u64::from(state.version);
                    part(&state.body(LARGE), wanted.offset, wanted.span, Some(tag))
                }
                b"big" => {
                    response.payload = Payload::Whole(state.body(LARGE));
                    response
                }
                _ => {
                    response.payload = Payload::Whole(state.body(20 + length % 40));
                    response
                }
            });
        }
        if let Some(number) = number {
            // The response names its request; to a large body, at length.
            let length = if length > 1_500 { length } else { 12 };
            let other = defect == Some(Defect::MixedAnswers) && host.below(100) == 0;
            let number = number.0 ^ u64::from(other);
            response.payload = Payload::Whole(super::bodies::numbered(number, length));
        }
        Some(response)
    }

    /// The present state for a registration as observer, if the request is one.
    pub(super) fn newest_of(&self, index: u32, id: IncomingId) -> Option<Response> {
        let host = &self.hosts[index as usize];
        let incoming = host.end.incoming(id)?;
        let (kind, resource) = named(&incoming.message);
        let state = host.state(index, resource);
        let observes = host.role == Role::Server && kind == b"obs";
        observes.then(|| observed(state, host.max_age, self.spec.defect))
    }

    /// Changes the state of a server's resource.
    pub(super) fn change(&mut self, index: u32, resource: u32, last: bool) {
        let silent = self.spec.defect == Some(Defect::SilentChanges);
        let host = &mut self.hosts[index as usize];
        if host.pause.is_some() {
            return;
        }
        host.versions[resource as usize] += 1;
        if silent {
            return;
        }
        let confirmable = last || host.below(3) == 0;
        let mut state = host.state(index, resource);
        if self.spec.defect == Some(Defect::OldStates) && host.below(10) == 0 {
            state.version = state.version.saturating_sub(2);
        }
        let response = observed(state, host.max_age, None);
        let own = host.own(self.now);
        match host
            .end
            .notify(own, subject(resource), &response, confirmable)
        {
            Ok(_) => self.drain(index),
            Err(error) => {
                let details = format!("notification: {error}");
                self.ledger
                    .breach(self.now, index, Breach::Refused, details);
            }
        }
    }

    /// Forwards a request at a proxy.
    fn forward(&mut self, index: u32, id: IncomingId) {
        let now = self.now;
        let host = &mut self.hosts[index as usize];
        let own = host.own(now);
        let Some(incoming) = host.end.incoming(id) else {
            return;
        };
        let counting = host.config.retransmission_count_option;
        let code = incoming.message.code();
        let body = Bytes::copy_from_slice(incoming.body);
        let prepared = Options::from_view(&incoming.message)
            .ok()
            .and_then(|given| {
                let uri = proxy::requested(&given, host.address).ok()??;
                let hops = proxy::hop_limit(&given, 16).ok()?;
                let mut options = proxy::request_options(&given, counting).ok()?;
                options
                    .set_uint(OptionNumber::HOP_LIMIT, hops.into())
                    .ok()?;
                let to = (uri.host().address()?, uri.port()).into();
                for option in &uri.options_for(to).ok()? {
                    options.push(option.number, option.value).ok()?;
                }
                Some((to, options))
            });
        let Some((to, options)) = prepared else {
            return self.respond(index, id, &Response::new(Code::BAD_OPTION));
        };
        let mut request = Request::new(code).with_payload(body);
        request.options = options;
        match host.end.request(own, to, request, RequestConfig::default()) {
            Ok(upstream) => host.forwarded.push((upstream, id)),
            Err(_) => self.respond(index, id, &Response::new(Code::SERVICE_UNAVAILABLE)),
        }
    }

    /// Handles the result of a forwarded request at a proxy.
    pub(super) fn on_forwarded(
        &mut self,
        index: u32,
        id: RequestId,
        result: Result<Response, Failure>,
    ) {
        let host = &mut self.hosts[index as usize];
        let Some(at) = host
            .forwarded
            .iter()
            .position(|(outgoing, _)| *outgoing == id)
        else {
            let details = format!("{id:?}");
            return self
                .ledger
                .breach(self.now, index, Breach::EndedTwice, details);
        };
        let (_, incoming) = host.forwarded.swap_remove(at);
        let counting = host.config.retransmission_count_option;
        let response = match result {
            Ok(mut response) => match proxy::response_options(&response.options, counting) {
                Ok(options) => {
                    response.options = options;
                    response
                }
                Err(_) => Response::new(Code::BAD_GATEWAY),
            },
            Err(_) => Response::new(Code::GATEWAY_TIMEOUT),
        };
        self.respond(index, incoming, &response);
    }
}

/// The kind of a resource, and its number of that kind.
fn named(request: &MessageView<'_>) -> (Vec<u8>, u32) {
    let mut path = request.values(OptionNumber::URI_PATH);
    let kind = path.next().unwrap_or_default().to_vec();
    let digit = path.next().and_then(|digit| digit.first()).copied();
    let number = digit.unwrap_or_default().wrapping_sub(b'0');
    (kind, u32::from(number) % RESOURCES)
}

/// The representation of an observable state.
fn observed(state: State, max_age: u32, defect: Option<Defect>) -> Response {
    // One of the resources needs several blocks.
    let length = if state.resource + 1 == RESOURCES {
        2_000
    } else {
        20
    };
    let max_age = if defect == Some(Defect::SilentChanges) {
        DAY
    } else {
        max_age
    };
    Response::new(Code::CONTENT)
        .with_max_age(core::time::Duration::from_secs(max_age.into()))
        .with_payload(state.body(length))
}

/// The requested block of a body, from a stateless application.
fn part(body: &Bytes, offset: u64, span: usize, tag: Option<u64>) -> Response {
    let start = usize::try_from(offset).unwrap_or(usize::MAX);
    if start >= body.len() {
        return Response::new(Code::BAD_REQUEST);
    }
    let end = body.len().min(start + span);
    let mut response = Response::new(Code::CONTENT);
    response.payload = Payload::Part {
        offset,
        bytes: body.slice(start..end),
        more: end < body.len(),
        size: Some(body.len() as u64),
    };
    match tag {
        Some(tag) => response.with_etag(ETag::from(tag)),
        None => response,
    }
}
