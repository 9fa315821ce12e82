//! RPL on the nodes: its messages and timers, and queries about routes.

use carob_cc::time::Instant;
use carob_sim_core::random::Probability;

use super::ipv6::EVERYBODY;
use super::lowpan::{self, Header};
use super::rpl::{Destination, INFINITE_RANK, Message, Output, RplEvent};
use super::{Event, Mesh, Node, Simulator};

/// The minimum delivery ratio of a link to a neighbour.
const NEIGHBOUR_DELIVERY: Probability = Probability::of(1, 2);

impl Mesh<'_> {
    pub(super) fn start_routing(&mut self, cx: &mut impl Simulator, node: Node) {
        self.nodes[usize::from(node)].rpl.start(cx.now());
        self.drain_routing(cx, node);
    }

    pub(super) fn routing_time(&mut self, cx: &mut impl Simulator, node: Node) {
        let state = &mut self.nodes[usize::from(node)];
        if !state.alarm.rings(cx.now()) {
            return; // an earlier time took its place
        }
        state.rpl.handle_timeout(cx.now());
        self.drain_routing(cx, node);
    }

    pub(super) fn on_rpl_message(
        &mut self,
        cx: &mut impl Simulator,
        node: Node,
        from: Node,
        message: Message,
    ) {
        if self.fixed.is_some() {
            return;
        }
        let rpl = &mut self.nodes[usize::from(node)].rpl;
        rpl.handle_message(cx.now(), from, &message);
        self.drain_routing(cx, node);
    }

    /// Polls RPL at a node until it waits.
    pub(super) fn drain_routing(&mut self, cx: &mut impl Simulator, node: Node) {
        let mut has_parent = false;
        loop {
            match self.nodes[usize::from(node)].rpl.poll() {
                Output::Send { to, message } => self.send_control(cx, node, to, message),
                Output::Event(event) => {
                    has_parent |= matches!(event, RplEvent::ParentChanged { to: Some(_), .. });
                    self.on_routing_event(cx.now(), node, event);
                }
                Output::Wait(at) => {
                    let state = &mut self.nodes[usize::from(node)];
                    if let Some(at) = at
                        && state.alarm.set(at)
                    {
                        let route = Event::Route { node };
                        cx.schedule(at, route);
                    }
                    break;
                }
            }
        }
        if has_parent {
            self.unpark(cx, node);
        }
    }

    pub(super) fn send_control(
        &mut self,
        cx: &mut impl Simulator,
        node: Node,
        to: Destination,
        message: Message,
    ) {
        if self.counts.has_begun(cx.now()) {
            self.counts.node(node).control += 1;
        }
        let destination = match to {
            Destination::Multicast => EVERYBODY,
            Destination::Neighbour(neighbour) => neighbour.into(),
            Destination::Root => self.topology.root.into(),
        };
        let index = self.packet(node.into(), destination);
        self.packets[index].control = Some(message);
        match to {
            Destination::Multicast => {
                let bytes = self.payload_bytes(index);
                if let Ok(frames) = lowpan::frames(&self.spec.lowpan, &Header::to_all(), bytes) {
                    self.send_frames(cx, node, None, index, frames);
                }
                self.release(cx, index);
            }
            Destination::Neighbour(neighbour) => self.send_to_neighbour(cx, node, index, neighbour),
            Destination::Root => self.forward(cx, node, index, None),
        }
    }

    fn on_routing_event(&mut self, now: Instant, node: Node, event: RplEvent) {
        let counts = &mut self.counts;
        match event {
            RplEvent::ParentChanged { from, to } => {
                counts.parent_changed(now, node, from, to);
            }
            RplEvent::LocalRepair if counts.has_begun(now) => {
                counts.node(node).repairs += 1;
            }
            _ => {}
        }
    }
}

impl Mesh<'_> {
    /// A node's preferred parent.
    pub fn parent(&self, node: Node) -> Option<Node> {
        match &self.fixed {
            Some(parents) => parents[usize::from(node)],
            None => self.nodes[usize::from(node)].rpl.preferred_parent(),
        }
    }

    /// Each node's preferred parent.
    pub(super) fn parents(&self) -> Vec<Option<Node>> {
        let nodes = 0..self.nodes.len() as Node;
        nodes.map(|node| self.parent(node)).collect()
    }

    /// A node's rank in RPL's units.
    pub fn rank(&self, node: Node) -> u16 {
        if self.fixed.is_some() {
            return INFINITE_RANK;
        }
        self.nodes[usize::from(node)].rpl.rank()
    }

    /// ETX of a link in hundredths, as a node estimates it; 0 without an estimate.
    pub fn etx(&self, node: Node, neighbour: Node) -> u32 {
        if self.fixed.is_some() {
            return 0;
        }
        let rpl = &self.nodes[usize::from(node)].rpl;
        rpl.etx_hundredths(neighbour).unwrap_or_default()
    }

    /// Hops from a node to the root.
    pub(super) fn hops(&self, node: Node) -> Option<u16> {
        let mut at = node;
        // Preferred parents may form a loop for a while; a path without one has fewer hops than nodes.
        for hops in 0..self.nodes.len() as u16 {
            if at == self.topology.root {
                return Some(hops);
            }
            at = self.parent(at)?;
        }
        None
    }

    /// The number of nodes that receive at least every other frame of a node.
    pub(super) fn neighbours(&self, node: Node) -> u16 {
        let links = self.radio.links();
        let receivers = links.receivers(node).iter();
        let well = receivers.filter(|link| links.delivery(node, link.to) >= NEIGHBOUR_DELIVERY);
        well.count() as u16
    }

    /// The node with descendants that has the most neighbours, the root excepted.
    pub(super) fn busy_node(&self) -> Node {
        let all = 0..self.nodes.len() as Node;
        let parents: Vec<_> = all.clone().map(|node| self.parent(node)).collect();
        let relays = all.filter(|node| {
            let has_child = parents.contains(&Some(*node));
            has_child && self.topology.generators.contains(node)
        });
        let neighbours = |node: &Node| (self.neighbours(*node), std::cmp::Reverse(*node));
        relays.max_by_key(neighbours).unwrap_or_default()
    }
}
