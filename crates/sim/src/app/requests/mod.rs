//! Requests of clients, each with its own flow, and a server that responds with one body.
//!
//! `client` has a client's exchanges and its endpoint.

mod client;

use carob_cc::time::{Duration, Instant};
use carob_proto::Response;
use carob_proto::codec::Code;
use carob_proto::endpoint::{Endpoint, Event, IncomingId, QBlockMode, RequestConfig};
use carob_proto::message::Payload;
use carob_proto::trace::TraceEvent as Protocol;

use crate::address::address;
use crate::engine::application::{Application, Endpoints, Timer};
use crate::engine::network::{Fate, Network, Offer, Placement};
use crate::engine::{Engine, Flow, Tag};
use crate::histogram::Histogram;
use crate::link::{DOWN, UP};
use crate::queue::Alarm;
use crate::random::Stream;
use crate::server_queue::ServerWorker;
use crate::spec::groups::Group;
use crate::spec::{
    AfterFailure, FlowRecord, QBlock, Reconnect, Requests, RunError, RunRecord, RunSpec, Sample,
    Transport,
};
use crate::trace::SimEvent;

use client::{Client, Next, body, client_endpoint, server_endpoint};

/// The timer of a client's start, the first or a later one; its subject is the client.
const START: u8 = 0;
/// The timer of a client's next periodic requests.
const PERIOD: u8 = 1;
/// The timer of a response of a server whose application takes time; its subject is the server, its
/// count the server's restarts.
const SERVED: u8 = 2;

/// A request that waits for its response.
#[derive(Clone, Copy, Debug)]
struct Pending {
    request: IncomingId,
    /// The tag of its datagram, to which the response belongs.
    tag: Tag,
}

/// The clients of a group, and their server.
pub(crate) struct Clients {
    group: u32,
    /// The host of its first client.
    first: u32,
    server: u32,
    /// The earliest start of a client.
    ready: Instant,
    requests: Requests,
    is_over_tcp: bool,
    states: Vec<Client>,
    server_restarts: u32,
    /// The response to every request.
    response: Response,
    worker: Option<Box<ServerWorker<Pending>>>,
    /// Times from request to response.
    responses: Histogram,
    /// The same one by one, up to the number that a record keeps.
    response_times: Vec<Duration>,
}

impl Clients {
    pub(crate) fn new(
        spec: &RunSpec,
        group: &Group<'_>,
        requests: &Requests,
        server: u32,
        ready: Instant,
    ) -> (Self, Endpoints) {
        let mut response = Response::new(match requests.request_bytes {
            0 => Code::CONTENT,
            _ => Code::CHANGED,
        });
        response.payload = Payload::Fixed(body(requests.response_bytes));
        let numbers = group.first..group.first + group.spec.clients;
        let client = |number| Client::new(spec.seed, requests, number);
        let application = Self {
            group: group.number,
            first: group.first,
            server,
            ready,
            requests: requests.clone(),
            is_over_tcp: group.spec.transport != Transport::Datagrams,
            states: numbers.clone().map(client).collect(),
            server_restarts: 0,
            response,
            worker: ServerWorker::new(&spec.server, spec.seed, group.number).map(Box::new),
            responses: Histogram::default(),
            response_times: Vec::new(),
        };
        let endpoints = Endpoints {
            clients: numbers
                .map(|number| Box::new(client_endpoint(spec, group, number, 0)))
                .collect(),
            server: Box::new(server_endpoint(spec, group, 0)),
            poll: requests.poll,
            placement: Placement::Server,
        };
        (application, endpoints)
    }

    fn client(&mut self, host: u32) -> Option<&mut Client> {
        self.states.get_mut(host.checked_sub(self.first)? as usize)
    }

    /// Starts a client, for the first time or again.
    fn start_client<N: Network>(&mut self, engine: &mut Engine<'_, N>, number: u32) {
        let is_over_tcp = self.is_over_tcp;
        let Some(client) = self.client(number) else {
            return;
        };
        let is_first = !client.has_begun;
        if is_over_tcp {
            // Its first request waits for the connection.
            client.is_starting = !is_first;
            engine.connect(self, number);
        } else if is_first {
            self.begin(engine, number);
        } else {
            self.send_requests(engine, number);
        }
    }

    fn start_after<N: Network>(&self, engine: &mut Engine<'_, N>, client: u32, pause: Duration) {
        let at = engine.now + pause;
        engine.set_timer(self.group as u16, at, Timer::of(START, client));
    }

    /// Begins a client's flow.
    fn begin<N: Network>(&mut self, engine: &mut Engine<'_, N>, number: u32) {
        engine.trace.add(engine.now, number, SimEvent::Began);
        if let Some(client) = self.client(number) {
            client.has_begun = true;
            client.flow.record.started = engine.now;
            client.flow.progress = engine.now;
        }
        if self.requests.periodic.is_some() {
            self.period_begins(engine, number);
        } else {
            self.send_requests(engine, number);
        }
    }

    /// Sends a client's periodic requests, and schedules the next ones.
    fn period_begins<N: Network>(&mut self, engine: &mut Engine<'_, N>, number: u32) {
        let Some(periodic) = self.requests.periodic else {
            return;
        };
        let client = self.client(number);
        let next = client.and_then(|client| client.period_begins(engine.now, &periodic));
        if let Some(at) = next {
            let at = at.max(engine.now);
            engine.set_timer(self.group as u16, at, Timer::of(PERIOD, number));
        }
        self.send_requests(engine, number);
    }

    /// Passes a client's next requests to its endpoint, or ends its batch or its flow.
    fn send_requests<N: Network>(&mut self, engine: &mut Engine<'_, N>, number: u32) {
        let server = address(self.server, 0);
        loop {
            let Some(client) = self.states.get_mut((number - self.first) as usize) else {
                return;
            };
            let is_full = client.outstanding >= self.requests.parallel.max(1);
            if is_full && self.requests.periodic.is_none() {
                return; // periodic requests queue at the endpoint
            }
            match client.next(&self.requests) {
                Next::Send(request) => {
                    let endpoint = &mut engine.hosts[number as usize].endpoint;
                    let sending = sending(self.requests.q_block);
                    let sent = endpoint.request(engine.now, server, request, sending);
                    match sent {
                        Ok(id) => client.made(id, engine.now),
                        Err(error) => {
                            engine.error = Some(RunError::Request(error));
                            return;
                        }
                    }
                }
                Next::End => return self.end_flow(engine, number, true),
                // Before a restart, its endpoint completes its pending output.
                Next::Restart | Next::Wait => return,
            }
        }
    }

    fn end_flow<N: Network>(&mut self, engine: &mut Engine<'_, N>, number: u32, complete: bool) {
        let Some(client) = self.client(number) else {
            return;
        };
        if !std::mem::replace(&mut client.flow.done, true) {
            let complete = complete && client.flow.record.unanswered == 0;
            client.flow.record.finished = complete.then_some(engine.now);
            client.flow.record.ended = engine.now;
            engine.running -= 1;
            engine
                .trace
                .add(engine.now, number, SimEvent::Ended { complete });
            engine.flow_ended(&mut client.flow, number);
        }
    }

    /// Responds to a request when the application has worked on it.
    #[cold]
    fn requested<N: Network>(
        &mut self,
        engine: &mut Engine<'_, N>,
        server: u32,
        request: IncomingId,
    ) {
        let endpoint = &mut engine.hosts[server as usize].endpoint;
        let Some(worker) = &mut self.worker else {
            return;
        };
        let tag = engine.cause;
        let Some(at) = worker.accept(engine.now, Pending { request, tag }) else {
            // 5.03, as HTTP's 503 of an overloaded server (RFC 7252 5.9.3.4).
            let overload = Response::new(Code::SERVICE_UNAVAILABLE);
            endpoint.respond(engine.now, request, &overload);
            return;
        };
        let timer = Timer {
            count: self.server_restarts,
            ..Timer::of(SERVED, server)
        };
        engine.set_timer(self.group as u16, at, timer);
    }

    /// Sends a response that the application has completed. Work that a restart ended completes no
    /// more.
    fn served<N: Network>(&mut self, engine: &mut Engine<'_, N>, timer: Timer) {
        let is_current = timer.count == self.server_restarts;
        let worker = self.worker.as_mut().filter(|_| is_current);
        let Some(Pending { request, tag }) = worker.and_then(|worker| worker.complete()) else {
            return;
        };
        let endpoint = &mut engine.hosts[timer.subject as usize].endpoint;
        endpoint.respond(engine.now, request, &self.response);
        // The response gets the tag of the transmission that caused it, also if others arrived since.
        engine.cause = tag;
        engine.drain(self, timer.subject);
        engine.cause = Tag::NONE;
    }

    /// A client's request got a response.
    fn answered<N: Network>(&mut self, engine: &mut Engine<'_, N>, number: u32) {
        if let Some(client) = self.client(number) {
            client.flow.record.answered += 1;
            client.outstanding = client.outstanding.saturating_sub(1);
        }
        self.send_requests(engine, number);
    }

    /// Counts the time of a response.
    fn add_response(&mut self, took: Duration) {
        self.responses.add(took);
        if self.response_times.len() < RunRecord::RESPONSE_TIMES_MAX {
            self.response_times.push(took);
        }
    }

    /// A client's request failed.
    fn failed<N: Network>(&mut self, engine: &mut Engine<'_, N>, number: u32) {
        if let Some(client) = self.client(number) {
            client.flow.record.unanswered += 1;
            client.outstanding = client.outstanding.saturating_sub(1);
        }
        match self.requests.after_failure {
            AfterFailure::Stop => self.end_flow(engine, number, false),
            AfterFailure::Next => self.send_requests(engine, number),
        }
    }

    /// Counts a protocol event of a client.
    fn on_trace<N: Network>(&mut self, engine: &mut Engine<'_, N>, number: u32, what: Protocol) {
        let (now, samples) = (engine.now, engine.spec.record.samples as usize);
        let Some(client) = self.client(number) else {
            return;
        };
        let keep = |list: &mut Vec<Sample>, value, attempts| {
            if list.len() < samples {
                list.push(Sample {
                    at: now,
                    value,
                    attempts,
                });
            }
        };
        match what {
            Protocol::Sent {
                id,
                retransmissions,
                timeout: Some(timeout),
                ..
            } => {
                let item = client.item(id.0);
                client.flow.record.transmissions += 1;
                if retransmissions == 0 {
                    client.flow.record.exchanges += 1;
                    // Timeouts of retransmissions are left out: they contain back-off.
                    client.timer(timeout);
                    keep(&mut client.flow.record.rto_init, timeout, 1);
                } else {
                    client.flow.record.retransmissions += 1;
                    client.flow.record.timeouts += 1;
                    let attempt = retransmissions - 1;
                    engine
                        .trace
                        .add(now, number, SimEvent::TimedOut { item, attempt });
                }
                let armed = SimEvent::Armed {
                    item,
                    attempt: retransmissions,
                    timeout,
                };
                engine.trace.add(now, number, armed);
            }
            Protocol::Answered {
                id,
                retransmissions,
                since_original,
                rto,
            } => {
                let attempts = retransmissions.saturating_add(1);
                client.flow.progresses(now);
                let Some(closed) = client.close(id.0) else {
                    return;
                };
                let item = closed.item;
                client.flow.record.spurious += u64::from(closed.spurious);
                engine.useless[UP] += closed.useless;
                client.flow.record.count_exchange(attempts);
                client.flow.record.answered_at_once += u32::from(attempts == 1);
                keep(&mut client.flow.record.rtt, since_original, attempts);
                let changed = rto.filter(|rto| client.last_rto.replace(*rto) != Some(*rto));
                if let Some(rto) = changed {
                    keep(&mut client.flow.record.rto, rto, attempts);
                }
                engine
                    .trace
                    .add(now, number, SimEvent::Answered { item, attempts });
                engine.trace.add(
                    now,
                    number,
                    SimEvent::Rtt {
                        rtt: since_original,
                        attempts,
                    },
                );
                if let Some(rto) = changed {
                    engine.trace.add(now, number, SimEvent::Rto { rto });
                }
            }
            Protocol::Abandoned {
                id: Some(id),
                retransmissions,
            } => {
                client.flow.record.failed += 1;
                // The timeout of the last retransmission, after which nothing is sent.
                client.flow.record.timeouts += 1;
                client
                    .flow
                    .record
                    .count_exchange(retransmissions.saturating_add(1));
                if let Some(closed) = client.close(id.0) {
                    engine.useless[UP] += closed.useless;
                    let item = closed.item;
                    engine.trace.add(now, number, SimEvent::Abandoned { item });
                }
            }
            _ => {}
        }
    }
}

impl<N: Network> Application<N> for Clients {
    fn start(&mut self, engine: &mut Engine<'_, N>) {
        engine.running += self.states.len() as u32;
        let span = engine.groups[self.group as usize].spec.start;
        for client in (self.first..).take(self.states.len()) {
            let mut stream = Stream::indexed(engine.spec.seed, "client/start", client);
            let at = self.ready + stream.uniform(span.low, span.high);
            engine.set_timer(self.group as u16, at, Timer::of(START, client));
        }
    }

    fn on_timer(&mut self, engine: &mut Engine<'_, N>, timer: Timer) {
        let up = engine.hosts[timer.subject as usize].down_until;
        // A host that is down does its work when it is up again.
        if engine.now < up {
            return engine.set_timer(self.group as u16, up, timer);
        }
        match timer.kind {
            SERVED => return self.served(engine, timer),
            PERIOD => self.period_begins(engine, timer.subject),
            _ => self.start_client(engine, timer.subject),
        }
        engine.drain(self, timer.subject);
    }

    fn on_event(&mut self, engine: &mut Engine<'_, N>, number: u32, event: Event) {
        match event {
            Event::Request(id) if self.worker.is_some() => self.requested(engine, number, id),
            Event::Request(id) => {
                let endpoint = &mut engine.hosts[number as usize].endpoint;
                endpoint.respond(engine.now, id, &self.response);
            }
            Event::Response { id, response, .. } => {
                engine.bin_answered();
                let is_success = response.code.is_success();
                let mut made = None;
                if let Some(client) = self.client(number) {
                    client.flow.record.body_bytes += response.bytes().len() as u64;
                    made = client.take_made(id);
                }
                if let Some(made) = made.filter(|_| is_success) {
                    self.add_response(engine.now.since(made));
                }
                // An error such as 5.03 ends the exchange, but it is no success of the request.
                if is_success {
                    self.answered(engine, number);
                } else {
                    self.failed(engine, number);
                }
            }
            Event::Failed { id, .. } => {
                let _ = self.client(number).and_then(|client| client.take_made(id));
                self.failed(engine, number);
            }
            // Over TCP, segments are counted instead: CoAP has no message layer there (RFC 8323 3.1).
            Event::Trace(trace) if !self.is_over_tcp => self.on_trace(engine, number, trace.event),
            _ => {}
        }
    }

    fn tag(&mut self, now: Instant, host: u32, _: u32, message: &[u8], cause: Tag) -> Tag {
        match self.client(host) {
            Some(client) => client.tag(now, message),
            None => cause,
        }
    }

    /// Ends a client's batch: it drops all state, and restarts after a pause.
    fn on_idle(&mut self, engine: &mut Engine<'_, N>, host: u32) -> bool {
        let Some(pause) = self.client(host).and_then(|client| client.pause.take()) else {
            return false;
        };
        let left = engine.leave(self, host);
        let Some(client) = self.client(host) else {
            return false;
        };
        let restarts = client.restart();
        renew_client(engine, host, restarts);
        let batches = self.requests.batches;
        let reconnect = batches.map(|b| b.reconnect).unwrap_or_default();
        if let Some(slot) = left.filter(|_| reconnect != Reconnect::AtOnce) {
            engine.await_close(host, slot, reconnect == Reconnect::ClosedByBoth, pause);
        } else if pause.is_zero() {
            self.start_client(engine, host);
        } else {
            self.start_after(engine, host, pause);
        }
        true
    }

    fn on_restart(&mut self, engine: &mut Engine<'_, N>, host: u32) {
        if host == self.server {
            self.server_restarts += 1;
            if let Some(worker) = &mut self.worker {
                worker.clear();
            }
            let group = engine.group(host);
            let endpoint = server_endpoint(engine.spec, group, self.server_restarts);
            renew(engine, host, endpoint);
            return;
        }
        let Some(client) = self.client(host).filter(|client| client.is_running()) else {
            return;
        };
        let is_waiting = client.outstanding > 0;
        client.requeue_outstanding();
        let restarts = client.restart();
        renew_client(engine, host, restarts);
        if is_waiting {
            let up = engine.hosts[host as usize].down_until;
            engine.set_timer(self.group as u16, up, Timer::of(START, host));
        }
    }

    fn on_offered(&mut self, engine: &mut Engine<'_, N>, datagram: u32, offer: &Offer) {
        let datagram = &engine.datagrams[datagram];
        let (from, to, tag) = (datagram.from, datagram.to, datagram.tag);
        let carried = offer.carried;
        if from != self.server {
            if let Some(client) = self.client(from) {
                client.carries(tag, carried);
            }
        } else if let Some(client) = self.client(to) {
            let is_useless = client.is_useless(tag, offer.fate == Fate::Arrives);
            engine.useless[DOWN] += u64::from(if is_useless { carried } else { 0 });
            engine.bin_carried(offer.departed, carried, is_useless);
        }
    }

    fn on_received(&mut self, now: Instant, host: u32, tag: Tag, bytes: usize) {
        if let Some(client) = self.client(host) {
            client.answer_arrived(now, tag, bytes);
        }
    }

    fn flow(&mut self, host: u32) -> Option<&mut Flow> {
        Some(&mut self.client(host)?.flow)
    }

    fn on_connected(&mut self, engine: &mut Engine<'_, N>, client: u32, is_first: bool) {
        if is_first {
            self.begin(engine, client);
        } else if let Some(state) = self.client(client)
            && std::mem::take(&mut state.is_starting)
        {
            self.send_requests(engine, client);
        }
    }

    fn on_connection_failed(&mut self, engine: &mut Engine<'_, N>, client: u32) {
        self.end_flow(engine, client, false);
    }

    fn on_left_connection_closed(
        &mut self,
        engine: &mut Engine<'_, N>,
        client: u32,
        pause: Duration,
    ) {
        self.start_after(engine, client, pause);
    }

    fn into_record(mut self: Box<Self>, engine: &mut Engine<'_, N>, record: &mut RunRecord) {
        for (client, number) in self.states.iter_mut().zip(self.first..) {
            engine.count_connection(&mut client.flow, number);
        }
        let flows = self.states.into_iter().map(Client::into_flow);
        let flows: Vec<FlowRecord> = flows.collect();
        if self.group == 0 {
            record.flows = flows;
            // All or none: percentiles of the first ones alone would be biased.
            if self.responses.count <= RunRecord::RESPONSE_TIMES_MAX as u64 {
                record.response_times = self.response_times;
            }
            record.responses = self.responses;
        } else {
            record.others.extend(flows);
            record.other_responses.merge(&self.responses);
        }
    }
}

/// Gives a restarted client a new endpoint on its next port.
fn renew_client<N: Network>(engine: &mut Engine<'_, N>, client: u32, restarts: u32) {
    let endpoint = client_endpoint(engine.spec, engine.group(client), client, restarts);
    renew(engine, client, endpoint);
    engine.hosts[client as usize].takes_next_port();
}

fn renew<N: Network>(engine: &mut Engine<'_, N>, host: u32, endpoint: Endpoint) {
    let state = &mut engine.hosts[host as usize];
    (*state.endpoint, state.alarm) = (endpoint, Alarm::default());
}

/// The configuration of requests whose bodies use these options.
fn sending(q_block: QBlock) -> RequestConfig {
    let mut sending = RequestConfig::default();
    if q_block != QBlock::Off {
        sending.q_block = Some(QBlockMode::On);
        sending.confirmable = q_block == QBlock::Confirmable;
    }
    sending
}
