//! Traffic of a mesh: nodes generate messages at a constant rate and in bursts, sinks receive and
//! answer them. The topology has its sinks, so it runs on this network alone.
//!
//! `node` has a node's messages and endpoint, and `counts` the counters in the record.

mod counts;
mod node;

use carob_cc::controller::Gauge;
use carob_cc::time::{Duration, Instant};
use carob_proto::Response;
use carob_proto::codec::{Code, OptionNumber};
use carob_proto::endpoint::{Event, IncomingId, RequestConfig, RequestId, Subject};
use carob_proto::message::Payload;
use carob_proto::trace::{Trace as ProtocolTrace, TraceEvent as Protocol};

use crate::address::address;
use crate::engine::application::{Application, Timer};
use crate::engine::network::Network;
use crate::engine::{Engine, Host, Role, Tag};
use crate::mesh::Node;
use crate::mesh::record::Traced;
use crate::net::mesh::MeshNetwork;
use crate::random::Stream;
use crate::spec::mesh_traffic::{Bursts, MeshTraffic, Period, Sink};
use crate::spec::{RunError, RunRecord};

use counts::MessageCounts;
use counts::{AppMessage, TrafficClass};
use node::StopState;
use node::{MessageFormat, NodeTraffic, QueuedMessage};

/// Max-Age of notifications: so long that a lost one never leads to a new registration.
const MAX_AGE: u32 = 3_600;
/// The group of the run that all nodes are in.
const GROUP: u16 = 0;

/// Sinks register as observers.
const REGISTER: u8 = 0;
/// A node generates a message; the subject is the node.
const GENERATE: u8 = 1;
/// A node generates a burst of messages.
const BURST: u8 = 2;
/// A bin ends.
const BIN_ENDS: u8 = 3;
/// A sink registers again at a node; the count is the resource.
const REGISTER_AGAIN: u8 = 4;

type MeshEngine<'a, 'm> = Engine<'a, MeshNetwork<'m>>;

/// The traffic of all nodes; a node's host has its number, and the host outside the next one.
pub(crate) struct MeshNodes {
    traffic: MeshTraffic,
    /// By host: the nodes that generate messages.
    nodes: Vec<Option<Box<NodeTraffic>>>,
    format: MessageFormat,
    counts: MessageCounts,
    end: Instant,
}

impl MeshNodes {
    /// Makes the application and its hosts.
    pub(crate) fn new(engine: &mut MeshEngine<'_, '_>, traffic: MeshTraffic) -> Self {
        let mesh = engine.network.mesh.spec;
        let begin = engine.network.ready();
        let outside = u32::from(mesh.topology.outside.is_some());
        let hosts = 0..engine.network.mesh.topology.nodes() as u32 + outside;
        let spec = engine.spec;
        engine.hosts = hosts
            .clone()
            .map(|number| {
                let endpoint = Box::new(node::endpoint(spec, &traffic, number));
                Host::new(endpoint, GROUP, Role::Server, number)
            })
            .collect();
        Self {
            nodes: hosts.map(|_| None).collect(),
            format: MessageFormat::of(&traffic),
            counts: MessageCounts::new(&traffic, begin, &mut engine.network.mesh.counts),
            end: begin + mesh.duration,
            traffic,
        }
    }

    fn node(&self, node: Node) -> Option<&NodeTraffic> {
        self.nodes[usize::from(node)].as_deref()
    }

    /// The host that receives a node's messages.
    fn sink_host(engine: &MeshEngine<'_, '_>, node: Node, sink: Sink) -> u32 {
        let mesh = &engine.network.mesh;
        let topology = &mesh.topology;
        mesh.sink_place(match sink {
            Sink::Primary => topology.sink_of(node),
            Sink::Secondary => topology.second_sink_of(node),
        })
    }

    /// Time between two messages of a node.
    fn period(&self, engine: &MeshEngine<'_, '_>) -> Duration {
        let traffic = &self.traffic;
        match traffic.constant.map(|constant| constant.period) {
            Some(Period::Each(period)) => period,
            // The load of all nodes together, in bits per second; each has an equal share of it.
            Some(Period::Load(load)) => {
                let bits = u64::from(traffic.counted_bytes) * 8;
                let all = engine.network.mesh.topology.generators.len() as u64;
                let micros = bits * all * 1_000_000 / u64::from(load.max(1));
                Duration::from_micros(micros.max(1))
            }
            None => engine.network.mesh.spec.duration,
        }
    }

    /// Draws the time to a node's next message of constant traffic.
    fn gap(&mut self, engine: &MeshEngine<'_, '_>, node: Node) -> Option<Duration> {
        let period = self.period(engine);
        let gaps = self.traffic.constant?.gaps;
        let node = self.nodes[usize::from(node)].as_mut()?;
        Some(gaps.draw(period, &mut node.gaps))
    }

    fn trace_node(&mut self, engine: &mut MeshEngine<'_, '_>) {
        let mesh = &mut engine.network.mesh;
        let node = mesh.counts.record.traced;
        let sink = self.node(node).map(|traffic| address(traffic.sink, 0));
        let host = &engine.hosts[usize::from(node)];
        let snapshot = sink.and_then(|sink| host.endpoint.snapshot(engine.now, sink));
        let parent = mesh.parent(node);
        let traced = Traced {
            at: engine.now,
            rank: mesh.rank(node),
            parent,
            etx: parent.map_or(0, |parent| mesh.etx(node, parent)),
            rto: snapshot
                .and_then(|snapshot| snapshot.rto)
                .unwrap_or_default(),
            retransmissions: 0,
        };
        self.counts.trace(&mut mesh.counts, traced);
    }

    /// Generates a message at a node.
    fn generate(
        &mut self,
        engine: &mut MeshEngine<'_, '_>,
        node: Node,
        to: u32,
        about: TrafficClass,
    ) {
        counts::generated(&mut engine.network.mesh.counts, engine.now, node);
        let message = QueuedMessage {
            to,
            at: engine.now,
            about,
        };
        let nstart = usize::from(engine.spec.measured.transmission.nstart);
        let of_bursts = self.traffic.bursts.and_then(|bursts| bursts.queue);
        let limit = match about {
            TrafficClass::Burst => of_bursts.unwrap_or(self.traffic.queue),
            TrafficClass::Constant => self.traffic.queue,
        };
        let Some(application) = &mut self.nodes[usize::from(node)] else {
            return;
        };
        if application.is_free(to, nstart) {
            self.send_request(engine, node, message);
        } else if !application.wait(message, limit) {
            engine.network.mesh.counts.node(node).app_drops += 1;
        }
    }

    /// Sends a message as a request.
    fn send_request(
        &mut self,
        engine: &mut MeshEngine<'_, '_>,
        node: Node,
        message: QueuedMessage,
    ) {
        let endpoint = &mut engine.hosts[usize::from(node)].endpoint;
        let Some(application) = &mut self.nodes[usize::from(node)] else {
            return;
        };
        let made = AppMessage {
            by: node,
            number: application.number(),
            at: message.at,
            about: message.about,
        };
        let request = self.format.post(&made);
        let to = address(message.to, 0);
        match endpoint.request(engine.now, to, request, RequestConfig::default()) {
            Ok(id) => application.opened(id, message.to),
            Err(error) => engine.error = Some(RunError::Request(error)),
        }
        engine.drain(self, node.into());
    }

    /// Completes a node's request.
    fn ended(
        &mut self,
        engine: &mut MeshEngine<'_, '_>,
        number: u32,
        id: RequestId,
        is_answered: bool,
    ) {
        let Ok(node) = Node::try_from(number) else {
            return;
        };
        let nstart = usize::from(engine.spec.measured.transmission.nstart);
        let Some(application) = &mut self.nodes[number as usize] else {
            return;
        };
        let Some(spurious) = application.closed(id) else {
            return;
        };
        let stops = self.traffic.stops.filter(|_| is_answered);
        let has_stopped =
            stops.is_some_and(|stops| application.stop.on_response(engine.now, stops));
        let next = application.next(nstart);
        let begin = engine.network.ready();
        let record = engine.network.mesh.counts.node(node);
        record.spurious += spurious;
        record.answered += u64::from(is_answered);
        if has_stopped {
            record.stopped_at = Some(engine.now.since(begin));
        }
        if let Some(message) = next {
            self.send_request(engine, node, message);
        }
    }

    /// Responds to a request: a message to a sink, or a sink's registration.
    fn answer(&mut self, engine: &mut MeshEngine<'_, '_>, number: u32, id: IncomingId) {
        let endpoint = &mut engine.hosts[number as usize].endpoint;
        let Some(asked) = endpoint.incoming(id) else {
            return;
        };
        if asked.message.code() == Code::POST {
            let made = AppMessage::read(asked.message.payload());
            if let Some(made) = made {
                let counts = &mut engine.network.mesh.counts;
                self.counts.received(counts, engine.now, made);
            }
            let response = Response::new(Code::CHANGED);
            endpoint.respond(engine.now, id, &response);
            return;
        }
        let path = asked.message.values(OptionNumber::URI_PATH).next();
        let subject = path.and_then(|path| std::str::from_utf8(path).ok()?.parse::<u64>().ok());
        let response = match subject {
            Some(subject) => {
                endpoint.observe(engine.now, id, Subject(subject));
                state(self.format.empty())
            }
            None => Response::new(Code::NOT_FOUND),
        };
        endpoint.respond(engine.now, id, &response);
    }

    fn on_trace(&mut self, engine: &mut MeshEngine<'_, '_>, number: u32, trace: &ProtocolTrace) {
        let Ok(node) = Node::try_from(number) else {
            return;
        };
        let host = &mut engine.hosts[number as usize];
        let Some(application) = &mut self.nodes[number as usize] else {
            return;
        };
        if !engine.network.mesh.counts.has_begun(engine.now) {
            return;
        }
        let counts = &mut engine.network.mesh.counts;
        self.counts.on_trace(counts, engine.now, node, &trace.event);
        match trace.event {
            Protocol::Answered {
                retransmissions,
                since_original,
                ..
            } if retransmissions > 0 => {
                let mut weak = None;
                let mut visit = |name: &'static str, gauge| {
                    if let ("rttvar_weak", Gauge::Time(time)) = (name, gauge) {
                        weak = Some(time);
                    }
                };
                host.endpoint.gauges(engine.now, trace.peer, &mut visit);
                if let Some(weak) = weak
                    && application.rttvar_weak != Some(weak)
                {
                    application.rttvar_weak = Some(weak);
                    engine.network.mesh.counts.record.rttvar_weak.add(weak);
                    engine
                        .network
                        .mesh
                        .counts
                        .record
                        .rtt_weak
                        .add(since_original);
                }
            }
            Protocol::Sent {
                id,
                retransmissions,
                ..
            } if self.traffic.gives_up_at_last_copy
                && retransmissions >= engine.spec.measured.transmission.max_retransmit =>
            {
                if let Some(request) = application.request_of(id.0) {
                    host.endpoint.cancel(engine.now, request);
                    self.ended(engine, number, request, false);
                }
            }
            _ => {}
        }
    }
}

impl<'m> Application<MeshNetwork<'m>> for MeshNodes {
    fn start(&mut self, engine: &mut MeshEngine<'_, 'm>) {
        let begin = engine.network.ready();
        let bin = engine.network.mesh.spec.bin;
        engine.set_timer(GROUP, begin + bin, Timer::of(BIN_ENDS, 0));
        let traffic = self.traffic;
        let generators = engine.network.mesh.topology.generators.clone();
        for node in generators {
            let burst_sink = traffic.bursts.map_or(Sink::Primary, |bursts| bursts.to);
            let sinks = [Sink::Primary, burst_sink];
            let [sink, burst_sink] = sinks.map(|sink| Self::sink_host(engine, node, sink));
            if let Some(constant) = traffic.constant {
                let mut stream = Stream::indexed(engine.spec.seed, "mesh/phase", node.into());
                let first = match constant.start {
                    None => stream.uniform(Duration::ZERO, self.period(engine)),
                    Some(start) => stream.uniform(start.low, start.high),
                };
                engine.set_timer(GROUP, begin + first, Timer::of(GENERATE, node.into()));
            }
            if let Some(bursts) = traffic.bursts
                && burst_sink != u32::from(node)
            {
                let first = begin + bursts.first_of(engine.spec.seed, node);
                engine.set_timer(GROUP, first, Timer::of(BURST, node.into()));
            }
            let gaps = Stream::indexed(engine.spec.seed, "mesh/gap", node.into());
            let stop = StopState::new(engine.spec.seed, node);
            let state = NodeTraffic::new(sink, burst_sink, gaps, stop);
            self.nodes[usize::from(node)] = Some(Box::new(state));
        }
        // Before the end of the warm-up, until which datagrams bypass the radio.
        if traffic.bursts.is_some_and(Bursts::notifies) {
            let before = Instant::ZERO + engine.network.mesh.spec.warm_up.half();
            engine.set_timer(GROUP, before, Timer::of(REGISTER, 0));
        }
    }

    fn on_timer(&mut self, engine: &mut MeshEngine<'_, 'm>, timer: Timer) {
        let node = timer.subject as Node;
        match timer.kind {
            REGISTER => self.register(engine),
            REGISTER_AGAIN => self.register_again(engine, timer),
            GENERATE => {
                if self
                    .node(node)
                    .is_some_and(|traffic| traffic.stop.has_stopped())
                {
                    return;
                }
                let to = self.node(node).map_or(0, |traffic| traffic.sink);
                self.generate(engine, node, to, TrafficClass::Constant);
                if let Some(gap) = self.gap(engine, node) {
                    engine.set_timer(GROUP, engine.now + gap, timer);
                }
            }
            BURST => {
                if let Some(bursts) = self.traffic.bursts {
                    self.burst(engine, node, bursts);
                }
            }
            _ => {
                self.trace_node(engine);
                engine.set_timer(GROUP, engine.now + engine.network.mesh.spec.bin, timer);
            }
        }
    }

    fn on_event(&mut self, engine: &mut MeshEngine<'_, 'm>, number: u32, event: Event) {
        match event {
            Event::Request(id) => self.answer(engine, number, id),
            Event::Notification { response, .. } => {
                if let Some(made) = AppMessage::read(response.bytes()) {
                    let counts = &mut engine.network.mesh.counts;
                    self.counts.received(counts, engine.now, made);
                }
            }
            Event::Response { id, response } => {
                self.ended(engine, number, id, response.code.is_success());
            }
            Event::Failed { id, .. } => self.ended(engine, number, id, false),
            Event::Unobserved(subject) => self.on_unobserved(engine, number, subject),
            Event::Trace(trace) => self.on_trace(engine, number, &trace),
            _ => {}
        }
    }

    /// The item is the Message ID; a message that is no request belongs to the transmission that
    /// caused it.
    fn tag(&mut self, _: Instant, host: u32, to: u32, message: &[u8], cause: Tag) -> Tag {
        let (message_id, is_confirmable) = match *message {
            [first, _, high, low, ..] => (u16::from_be_bytes([high, low]), first >> 4 & 3 < 1),
            _ => (0, false),
        };
        let mut attempt = cause.attempt;
        if let Some(node) = &mut self.nodes[host as usize]
            && is_confirmable
            && let Some(number) = node.copied(to, message_id)
        {
            attempt = number;
        }
        Tag {
            item: message_id.into(),
            attempt,
        }
    }

    fn on_received(&mut self, _: Instant, host: u32, tag: Tag, _: usize) {
        if let Some(node) = &mut self.nodes[host as usize] {
            node.answer_arrived(tag.item as u16, tag.attempt);
        }
    }

    fn end(&self) -> Option<Instant> {
        Some(self.end)
    }

    fn into_record(mut self: Box<Self>, engine: &mut MeshEngine<'_, 'm>, _: &mut RunRecord) {
        self.trace_node(engine);
        for node in 0..engine.network.mesh.topology.nodes() as Node {
            let sink = self.node(node).map(|traffic| traffic.sink);
            let burst_sink = self.node(node).map(|traffic| traffic.burst_sink);
            let waiting = [sink, burst_sink]
                .into_iter()
                .flatten()
                .take(if sink == burst_sink { 1 } else { 2 })
                .filter_map(|sink| {
                    let endpoint = &engine.hosts[usize::from(node)].endpoint;
                    let snapshot = endpoint.snapshot(engine.now, address(sink, 0))?;
                    Some(snapshot.queued as u64)
                })
                .sum::<u64>();
            let unfinished = self.node(node).map_or(0, NodeTraffic::unfinished);
            engine.network.mesh.counts.node(node).unfinished = unfinished.max(waiting);
        }
    }
}

/// The notification of a state.
fn state(payload: bytes::Bytes) -> Response {
    let mut response = Response::new(Code::CONTENT);
    response.payload = Payload::Fixed(payload);
    let set = response.options.set_uint(OptionNumber::MAX_AGE, MAX_AGE);
    debug_assert!(set.is_ok(), "a number is an option's value");
    response
}
