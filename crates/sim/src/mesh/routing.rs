//! RPL on the nodes: its messages and timers, and what is known of routes.

use super::Node;
use super::lowpan::{self, Header};
use super::network::EVERYBODY;
use super::rpl::{Destination, INFINITE_RANK, Message, Output, RplEvent};
use super::scene::{Happening, Scene};
use crate::random::Probability;

/// The delivery ratio from which on a node counts as a neighbour.
const HEARD_WELL: Probability = Probability::of(1, 2);

impl Scene<'_> {
    pub(super) fn start_routing(&mut self, node: Node) {
        self.nodes[usize::from(node)].rpl.start(self.now);
        self.drain_routing(node);
    }

    pub(super) fn routing_time(&mut self, node: Node) {
        let state = &mut self.nodes[usize::from(node)];
        if !state.alarm.rings(self.now) {
            return; // an earlier time took its place
        }
        state.rpl.handle_timeout(self.now);
        self.drain_routing(node);
    }

    pub(super) fn hears(&mut self, node: Node, from: Node, message: Message) {
        if self.fixed.is_some() {
            return;
        }
        let rpl = &mut self.nodes[usize::from(node)].rpl;
        rpl.handle_message(self.now, from, &message);
        self.drain_routing(node);
    }

    /// Does everything RPL has to do at a node, until it waits.
    pub(super) fn drain_routing(&mut self, node: Node) {
        let mut has_parent = false;
        loop {
            match self.nodes[usize::from(node)].rpl.poll() {
                Output::Send { to, message } => self.send_control(node, to, message),
                Output::Event(event) => {
                    has_parent |= matches!(event, RplEvent::ParentChanged { to: Some(_), .. });
                    self.routing_says(node, event);
                }
                Output::Wait(at) => {
                    let state = &mut self.nodes[usize::from(node)];
                    if let Some(at) = at
                        && state.alarm.set(at)
                    {
                        self.queue.push(at, Happening::Route { node });
                    }
                    break;
                }
            }
        }
        if has_parent {
            self.unpark(node);
        }
    }

    pub(super) fn send_control(&mut self, node: Node, to: Destination, message: Message) {
        if self.counts.has_begun(self.now) {
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
                if let Ok(frames) = lowpan::frames(&self.mesh.lowpan, &Header::to_all(), bytes) {
                    self.send_frames(node, None, index, frames);
                }
                self.release(index);
            }
            Destination::Neighbour(neighbour) => self.send(node, index, neighbour),
            Destination::Root => self.forward(node, index, None),
        }
    }

    pub(super) fn parent(&self, node: Node) -> Option<Node> {
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

    pub(super) fn rank(&self, node: Node) -> u16 {
        if self.fixed.is_some() {
            return INFINITE_RANK;
        }
        self.nodes[usize::from(node)].rpl.rank()
    }

    /// ETX of a link in hundredths, as a node has it; 0 if it does not know.
    pub(super) fn etx(&self, node: Node, neighbour: Node) -> u32 {
        if self.fixed.is_some() {
            return 0;
        }
        let rpl = &self.nodes[usize::from(node)].rpl;
        rpl.etx_hundredths(neighbour).unwrap_or_default()
    }

    /// Hops from a node to the root.
    pub(super) fn hops(&self, node: Node) -> Option<u16> {
        let mut at = node;
        for hops in 0..self.nodes.len() as u16 {
            if at == self.topology.root {
                return Some(hops);
            }
            at = self.parent(at)?;
        }
        None
    }

    /// How many nodes hear at least every other frame of a node.
    pub(super) fn neighbours(&self, node: Node) -> u16 {
        let links = self.air.links();
        let heard = links.receivers(node).iter();
        let well = heard.filter(|link| links.delivery(node, link.to) >= HEARD_WELL);
        well.count() as u16
    }
}
