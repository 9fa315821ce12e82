//! Bursts: messages that all generators of a mesh send at the same moments.

use carob_proto::Request;
use carob_proto::endpoint::{RequestConfig, Subject};

use super::message::{AppMessage, TrafficClass};
use super::{BURST, GROUP, MeshEngine, MeshNodes, REGISTER_AGAIN, counts, state};
use crate::address::address;
use crate::engine::application::Timer;
use crate::mesh::Node;
use crate::spec::RunError;
use crate::spec::mesh_traffic::{BurstKind, Bursts};

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
