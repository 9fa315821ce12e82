//! Bursts: messages that all generators of a mesh send at the same moments.

use carob_cc::time::Duration;
use carob_proto::Request;
use carob_proto::endpoint::{RequestConfig, Subject};

use super::message::{AppMessage, TrafficClass};
use super::spec::Sink;
use super::{BURST, GROUP, MeshEngine, MeshNodes, REGISTER_AGAIN, counts, state};
use crate::app::Timer;
use crate::engine::{RunError, address};
use crate::mesh::Node;
use crate::random::{Span, Stream};

/// Bursts of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bursts {
    /// Time of the first burst after the warm-up. A node's own offset, drawn uniformly from this
    /// span (stream `"mesh/burst"`, node), is the same for all of its bursts.
    pub first: Span,
    /// Time over which each burst is spread: a node's own offset, drawn uniformly from it (stream
    /// `"mesh/burst-offset"`, node), is the same for all of its bursts. Unlike with a range in `first`,
    /// metrics of the time around bursts remain.
    pub spread: Duration,
    /// Time between bursts; none for a single burst.
    pub every: Option<Duration>,
    /// Messages of each node in a burst.
    pub messages: u16,
    /// The receiving sink.
    pub to: Sink,
    /// The message type.
    pub kind: BurstKind,
    /// Messages of bursts that may wait at a node, including constant traffic; none for
    /// [`NodeSpec::queue`](crate::mesh::spec::NodeSpec::queue). POSTs only.
    pub queue: Option<u16>,
    /// Time after which a sink registers again, over the radio, where a node removed it from its
    /// observers because a CON notification failed (RFC 7641, 4.5); it tries again as often as its
    /// request fails. None for never.
    pub registers_again: Option<Duration>,
}

/// The message type of a burst.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BurstKind {
    /// CON POSTs.
    #[default]
    Posts,
    /// NON notifications, each about a separate resource, which the sink observes. The first
    /// registrations bypass the radio.
    Notifications,
}

impl Bursts {
    /// Returns whether the messages are notifications.
    pub(super) fn notifies(self) -> bool {
        self.kind == BurstKind::Notifications
    }

    /// Time from the warm-up to a node's first burst.
    pub(super) fn first_of(self, seed: u64, node: Node) -> Duration {
        let mut stream = Stream::indexed(seed, "mesh/burst", node.into());
        let first = stream.uniform(self.first.low, self.first.high);
        let mut stream = Stream::indexed(seed, "mesh/burst-offset", node.into());
        first + stream.uniform(Duration::ZERO, self.spread)
    }
}

impl MeshNodes {
    /// Generates a burst of messages at a node.
    pub(super) fn burst(&mut self, engine: &mut MeshEngine<'_, '_>, node: Node, bursts: Bursts) {
        let to = self.node(node).map_or(0, |a| a.burst_sink);
        for subject in 0..bursts.messages {
            match bursts.kind {
                BurstKind::Posts => self.generate(engine, node, to, TrafficClass::Burst),
                BurstKind::Notifications => self.notify(engine, node, subject),
            }
        }
        if let Some(every) = bursts.every {
            engine.set_timer(GROUP, engine.now + every, Timer::of(BURST, node.into()));
        }
    }

    /// Sends a notification to the observers of a node.
    fn notify(&mut self, engine: &mut MeshEngine<'_, '_>, node: Node, subject: u16) {
        counts::generated(&mut engine.network.mesh.counts, engine.now, node);
        let endpoint = &mut engine.hosts[usize::from(node)].endpoint;
        let Some(application) = &mut self.nodes[usize::from(node)] else {
            return;
        };
        let made = AppMessage {
            by: node,
            number: application.number(),
            at: engine.now,
            about: TrafficClass::Burst,
        };
        let state = state(self.format.notification(&made));
        let notified = endpoint.notify(engine.now, Subject(subject.into()), &state, false);
        debug_assert!(notified.is_ok(), "the size was checked: {notified:?}");
        engine.drain(self, node.into());
    }

    /// Registers the sinks as observers of all nodes before there is traffic, bypassing the radio.
    pub(super) fn register(&mut self, engine: &mut MeshEngine<'_, '_>) {
        let Some(bursts) = self.traffic.bursts else {
            return;
        };
        let generators = engine.network.mesh.topology.generators.clone();
        for node in generators {
            let Some(sink) = self.node(node).map(|a| a.burst_sink) else {
                continue;
            };
            let host = &mut engine.hosts[sink as usize];
            if host
                .endpoint
                .snapshot(engine.now, address(node.into(), 0))
                .is_some()
            {
                continue; // it was asked
            }
            for subject in 0..bursts.messages {
                request_observation(engine, sink, node, subject);
            }
            engine.drain(self, sink);
        }
    }

    /// A node removed its observer of a resource: the sink notices after a time.
    pub(super) fn on_unobserved(
        &self,
        engine: &mut MeshEngine<'_, '_>,
        node: u32,
        subject: Subject,
    ) {
        let bursts = self.traffic.bursts;
        let Some(time) = bursts.and_then(|bursts| bursts.registers_again) else {
            return;
        };
        let timer = Timer {
            kind: REGISTER_AGAIN,
            subject: node,
            count: subject.0 as u32,
        };
        engine.set_timer(GROUP, engine.now + time, timer);
    }

    /// Registers a sink again, and checks later that it was registered.
    pub(super) fn register_again(&mut self, engine: &mut MeshEngine<'_, '_>, timer: Timer) {
        let node = timer.subject as Node;
        let subject = Subject(timer.count.into());
        let endpoint = &engine.hosts[usize::from(node)].endpoint;
        let sink = self.node(node).map(|a| a.burst_sink);
        let Some(sink) = sink.filter(|_| endpoint.observers(subject) == 0) else {
            return;
        };
        request_observation(engine, sink, node, timer.count as u16);
        engine.drain(self, sink);
        self.on_unobserved(engine, node.into(), subject);
    }
}

/// Requests the observation of a node's resource by a sink.
fn request_observation(engine: &mut MeshEngine<'_, '_>, sink: u32, node: Node, subject: u16) {
    let request = Request::get().with_path(&subject.to_string());
    let mut sending = RequestConfig::default();
    sending.observe = true;
    let to = address(node.into(), 0);
    let request = request.unwrap_or_else(|_| Request::get());
    let asked = engine.hosts[sink as usize]
        .endpoint
        .request(engine.now, to, request, sending);
    if let Err(error) = asked {
        engine.error = Some(RunError::Request(error));
    }
}
