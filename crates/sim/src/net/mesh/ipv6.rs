//! IPv6 over the radio: packets, routes, frames.

use std::collections::VecDeque;

use super::Node;
use super::lowpan::{self, Fragment, Frames, Header, HopPosition, Protocol, Reassembly};
use super::radio::{Event, Outcome, Upcall};
use super::record::MomentKind;
use super::rpl::{Hop, Message, Rpl, RplOption};
use super::spec::{MeshSpec, NoRoute, RplMode};
use crate::engine::{Engine, Event as EngineEvent};
use crate::net::mesh::{MeshEvent, MeshNetwork};
use crate::queue::Alarm;
use crate::random::Stream;

/// Hop limit of packets.
const HOP_LIMIT: u8 = 64;

/// A datagram at a node, or on its way to the next one.
#[derive(Debug, Default)]
pub(super) struct Packet {
    /// The originating place: a node, or the host outside.
    pub(super) source: u32,
    /// The destination.
    pub(super) destination: u32,
    /// The datagram of the engine in it, if any.
    pub(super) body: Option<u32>,
    /// The RPL message in it, if any.
    pub(super) control: Option<Message>,
    option: RplOption,
    hops_left: u8,
    /// The source route that the root has added (RFC 6554), and the hops already passed.
    way: Vec<Node>,
    way_gone: u16,
}

/// The content of a frame: a packet, or a fragment of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    packet: u32,
    part: Option<Fragment>,
}

/// A node below IPv6's upper edge.
#[derive(Debug)]
pub(super) struct NodeState {
    pub(super) rpl: Rpl,
    pub(super) alarm: Alarm,
    reassembly: Reassembly,
    /// Packets that wait for a route.
    pub(super) parked: VecDeque<u32>,
    /// The tag of the next datagram that needs fragments.
    tag: u16,
}

impl NodeState {
    pub(super) fn new(node: Node, is_root: bool, mesh: &MeshSpec, seed: u64) -> Self {
        let stream = Stream::indexed(seed, "mesh/rpl", node.into());
        Self {
            rpl: Rpl::new(node, is_root, &mesh.rpl, stream),
            alarm: Alarm::default(),
            reassembly: Reassembly::new(&mesh.lowpan),
            parked: VecDeque::new(),
            tag: 0,
        }
    }
}

/// The next hop of a packet.
enum Next {
    /// This node is the destination.
    Here,
    /// This neighbour.
    Neighbour(Node),
    /// The host outside the mesh.
    Outside,
    /// No route.
    Nowhere,
    /// A routing loop.
    Loop,
}

impl Engine<'_, MeshNetwork<'_>> {
    /// Adds an empty packet of a place.
    pub(super) fn packet(&mut self, source: u32, destination: u32) -> u32 {
        let index = self.network.packets.take();
        let packet = &mut self.network.packets[index];
        packet.way.clear();
        *packet = Packet {
            source,
            destination,
            hops_left: HOP_LIMIT,
            way: std::mem::take(&mut packet.way),
            ..Packet::default()
        };
        index
    }

    /// Releases one reference to a packet.
    pub(super) fn release(&mut self, index: u32) {
        if self.network.packets.release(index)
            && let Some(body) = self.network.packets[index].body.take()
        {
            self.datagrams.release(body);
        }
    }

    /// Sends a packet from the host that made it.
    pub(super) fn leaves(&mut self, host: u32, packet: u32) {
        match Node::try_from(host) {
            Ok(node) if usize::from(node) < self.network.nodes.len() => {
                self.forward(node, packet, None);
            }
            _ => self.crosses(packet, true),
        }
    }

    /// Sends a packet over the link between the root and the host outside.
    fn crosses(&mut self, packet: u32, inwards: bool) {
        let delay = self.network.mesh.topology.outside.unwrap_or_default();
        let crossed = MeshEvent::Crossed { packet, inwards };
        self.queue
            .push(self.now + delay, EngineEvent::Network(crossed));
    }

    /// Unpacks the datagram of a packet that has reached its destination.
    pub(super) fn processed(&mut self, packet: u32) -> Option<u32> {
        let body = self.network.packets[packet].body?;
        self.datagrams.hold(body);
        self.release(packet);
        Some(body)
    }

    /// Forwards a packet that came from a neighbour, or sends a node's own.
    pub(super) fn forward(&mut self, node: Node, packet: u32, from: Option<Node>) {
        match self.next(node, packet, from) {
            Next::Here => self.is_here(node, packet),
            Next::Neighbour(next) => self.send_to_neighbour(node, packet, next),
            Next::Outside => self.crosses(packet, false),
            Next::Nowhere => self.no_route(node, packet),
            Next::Loop => self.drop_unrouted(node, packet),
        }
    }

    fn next(&mut self, node: Node, index: u32, from: Option<Node>) -> Next {
        let packet = &mut self.network.packets[index];
        let root = self.network.topology.root;
        let inside = Node::try_from(packet.destination)
            .ok()
            .filter(|to| usize::from(*to) < self.network.nodes.len());
        if inside.is_none() && node == root {
            return Next::Outside;
        }
        let destination = inside.unwrap_or(root);
        let writes_ways = self.network.mesh.rpl.mode == RplMode::NonStoring && node == root;
        let has_option = self.network.fixed.is_none() && packet.way.is_empty() && !writes_ways;
        if destination == node && (!has_option || from.is_none()) {
            return Next::Here;
        }
        if let Some(parents) = &self.network.fixed {
            return fixed_hop(parents, node, destination).map_or(Next::Nowhere, Next::Neighbour);
        }
        if let Some(next) = packet.way.get(usize::from(packet.way_gone)) {
            packet.way_gone += 1;
            return Next::Neighbour(*next);
        }
        let rpl = &mut self.network.nodes[usize::from(node)].rpl;
        if writes_ways {
            if !rpl.source_route(destination, &mut packet.way) {
                packet.way.clear();
                return Next::Nowhere;
            }
            packet.way_gone = 1;
            return packet
                .way
                .first()
                .map_or(Next::Nowhere, |next| Next::Neighbour(*next));
        }
        let hop = rpl.route(self.now, destination, &mut packet.option, from);
        self.drain_routing(node);
        match hop {
            Hop::Here => Next::Here,
            Hop::To(next) => Next::Neighbour(next),
            Hop::NoRoute => Next::Nowhere,
            Hop::Loop => Next::Loop,
        }
    }

    /// Delivers a packet at its destination.
    fn is_here(&mut self, node: Node, index: u32) {
        let packet = &mut self.network.packets[index];
        if let Some(message) = packet.control.take() {
            let source = Node::try_from(packet.source).unwrap_or_default();
            self.release(index);
            self.on_rpl_message(node, source, message);
            return;
        }
        let at = self.now + self.network.mesh.node.processing;
        let processed = MeshEvent::Processed { packet: index };
        self.queue.push(at, EngineEvent::Network(processed));
    }

    /// Handles a packet without a route.
    fn no_route(&mut self, node: Node, packet: u32) {
        if let NoRoute::Buffer(most) = self.network.mesh.rpl.no_route
            && self.network.packets[packet].control.is_none()
        {
            let parked = &mut self.network.nodes[usize::from(node)].parked;
            if parked.len() < usize::from(most) {
                parked.push_back(packet);
                return;
            }
        }
        self.drop_unrouted(node, packet);
    }

    fn drop_unrouted(&mut self, node: Node, packet: u32) {
        let Packet { source, body, .. } = self.network.packets[packet];
        if body.is_some() && self.network.counts.has_begun(self.now) {
            let record = self.network.counts.node(node);
            record.route_drops += 1;
            record.own_route_drops += u64::from(source == u32::from(node));
        }
        self.release(packet);
    }

    /// Retries the packets that waited for a route.
    pub(super) fn unpark(&mut self, node: Node) {
        let count = self.network.nodes[usize::from(node)].parked.len();
        for _ in 0..count {
            if let Some(packet) = self.network.nodes[usize::from(node)].parked.pop_front() {
                self.forward(node, packet, None);
            }
        }
    }

    /// Passes a packet to the MAC, in as many frames as it needs.
    pub(super) fn send_to_neighbour(&mut self, node: Node, index: u32, next: Node) {
        let header = self.header(node, index, next);
        match lowpan::frames(
            &self.network.mesh.lowpan,
            &header,
            self.payload_bytes(index),
        ) {
            Ok(frames) => self.send_frames(node, Some(next), index, frames),
            Err(_) => self.network.counts.node(node).reassembly_drops += 1,
        }
        self.release(index);
    }

    pub(super) fn send_frames(&mut self, node: Node, to: Option<Node>, index: u32, frames: Frames) {
        let has_parts = !frames.is_whole();
        let datagram = frames.datagram_bytes();
        let state = &mut self.network.nodes[usize::from(node)];
        if has_parts {
            state.tag = state.tag.wrapping_add(1);
        }
        let tag = state.tag;
        for frame in frames {
            let part = has_parts.then_some(Fragment {
                tag,
                datagram,
                offset: frame.offset,
                bytes: frame.carries,
            });
            let piece = Piece {
                packet: index,
                part,
            };
            if !self.hand_down(node, to, frame.bytes, piece) {
                break; // the rest of a datagram is of no use
            }
        }
    }

    /// Size of a packet's content in bytes: UDP payload, or ICMPv6 message.
    pub(super) fn payload_bytes(&self, index: u32) -> u16 {
        let packet = &self.network.packets[index];
        let body = packet
            .body
            .map(|body| self.datagrams[body].bytes.len() as u16);
        let mode = self.network.mesh.rpl.mode;
        let control = packet.control.map(|message| message.icmp_bytes(mode));
        body.or(control).unwrap_or_default()
    }

    /// The headers of a packet on its way to the next node.
    fn header(&self, node: Node, index: u32, next: Node) -> Header {
        let packet = &self.network.packets[index];
        if packet.control.is_some() && self.is_for_neighbour(index, next) {
            return Header::to_neighbour();
        }
        let protocol = match packet.control {
            Some(_) => Protocol::Icmpv6,
            None => Protocol::Udp,
        };
        let has_option = self.network.mesh.lowpan.rpl_option && self.network.fixed.is_none();
        let is_first = packet.source == u32::from(node);
        let is_last = packet.destination == u32::from(next);
        let is_outside = |host: u32| host >= self.network.nodes.len() as u32;
        let header = if is_outside(packet.destination) {
            Header::to_outside(is_first, has_option)
        } else if is_outside(packet.source) {
            Header::from_outside(is_last, has_option)
        } else {
            Header::mesh(HopPosition::of(is_first, is_last), protocol, has_option)
        };
        match packet.way.len() {
            0 => header,
            hops => header.routed_by_source(hops as u16 - 1),
        }
    }

    fn hand_down(&mut self, node: Node, to: Option<Node>, bytes: u16, piece: Piece) -> bool {
        let queue = &mut self.queue;
        let mut schedule =
            |at, event| queue.push(at, EngineEvent::Network(MeshEvent::Radio(event)));
        let taken = self
            .network
            .radio
            .send(self.now, node, to, bytes, piece, &mut schedule)
            .is_ok();
        if taken {
            self.network.packets.hold(piece.packet);
        }
        taken
    }

    pub(super) fn on_air(&mut self, event: Event) {
        let mut ups = std::mem::take(&mut self.network.ups);
        let queue = &mut self.queue;
        let mut schedule =
            |at, event| queue.push(at, EngineEvent::Network(MeshEvent::Radio(event)));
        self.network
            .radio
            .handle(self.now, event, &mut schedule, &mut ups);
        // Receivers copy a packet's content from the one that its sender holds.
        for up in &ups {
            if let Upcall::Received {
                at, from, payload, ..
            } = *up
            {
                self.received(at, from, payload);
            }
        }
        for up in &ups {
            if let Upcall::Sent {
                node,
                to,
                payload,
                transmissions,
                outcome,
            } = *up
            {
                if self.network.counts.has_room() {
                    self.record_frame(node, to, payload, transmissions, outcome);
                }
                self.release(payload.packet);
                let acknowledged = match outcome {
                    Outcome::Acknowledged => true,
                    Outcome::NotAcknowledged => false,
                    _ => continue,
                };
                if let Some(to) = to
                    && self.network.fixed.is_none()
                {
                    let rpl = &mut self.network.nodes[usize::from(node)].rpl;
                    rpl.handle_feedback(self.now, to, transmissions, acknowledged);
                    self.drain_routing(node);
                }
            }
        }
        ups.clear();
        self.network.ups = ups;
    }

    /// Records a frame that the MAC has finished with.
    fn record_frame(
        &mut self,
        node: Node,
        to: Option<Node>,
        piece: Piece,
        transmissions: u8,
        outcome: Outcome,
    ) {
        let network = &mut self.network;
        let frame = MomentKind::Frame {
            to,
            is_routing: network.packets[piece.packet].control.is_some(),
            transmissions,
            is_sent: matches!(outcome, Outcome::Acknowledged | Outcome::Broadcast),
            queued: network.radio.queued(node),
            etx: to.map_or(0, |to| network.etx(node, to)),
        };
        network.counts.moment(self.now, node, frame);
    }

    /// A frame has been received.
    fn received(&mut self, at: Node, from: Node, piece: Piece) {
        let reassembly = &mut self.network.nodes[usize::from(at)].reassembly;
        let taken = match piece.part {
            None => reassembly.accept_whole(self.now).map(|()| true),
            Some(part) => reassembly.accept(self.now, from, part),
        };
        if taken != Ok(true) {
            return;
        }
        let sent = &self.network.packets[piece.packet];
        if let (Some(message), true) = (sent.control, self.is_for_neighbour(piece.packet, at)) {
            self.on_rpl_message(at, from, message);
            return;
        }
        if sent.hops_left <= 1 && sent.destination != u32::from(at) {
            return;
        }
        let index = self.network.packets.take();
        let (old, new) = (piece.packet, index);
        let mut copy = std::mem::take(&mut self.network.packets[new]);
        let sent = &self.network.packets[old];
        copy.way.clone_from(&sent.way);
        copy = Packet {
            source: sent.source,
            destination: sent.destination,
            body: sent.body,
            control: sent.control,
            option: sent.option,
            hops_left: sent.hops_left - 1,
            way: copy.way,
            way_gone: sent.way_gone,
        };
        if let Some(body) = copy.body {
            self.datagrams.hold(body);
        }
        let is_relay = copy.destination != u32::from(at);
        self.network.packets[new] = copy;
        if is_relay && !self.network.mesh.node.forwarding.is_zero() {
            let forward = MeshEvent::Forward {
                node: at,
                from,
                packet: new,
            };
            let ready = self.now + self.network.mesh.node.forwarding;
            self.queue.push(ready, EngineEvent::Network(forward));
        } else {
            self.forward(at, new, Some(from));
        }
    }

    /// Returns whether a packet is a link-local RPL message.
    fn is_for_neighbour(&self, index: u32, at: Node) -> bool {
        let to = self.network.packets[index].destination;
        let is_routed = self.network.mesh.rpl.mode == RplMode::NonStoring
            && matches!(
                self.network.packets[index].control,
                Some(Message::Dao { .. })
            );
        !is_routed && (to == EVERYBODY || to == u32::from(at))
    }
}

impl NodeState {
    /// Datagrams that failed reassembly.
    pub(super) fn lost_in_parts(&self) -> u64 {
        self.reassembly.lost()
    }
}

/// The destination of multicasts to all neighbours.
pub(super) const EVERYBODY: u32 = u32::MAX;

/// The next hop with fixed parents: down if the destination is a descendant, else up.
fn fixed_hop(parents: &[Option<Node>], node: Node, destination: Node) -> Option<Node> {
    let mut at = destination;
    for _ in 0..parents.len() {
        match parents[usize::from(at)] {
            Some(parent) if parent == node => return Some(at),
            Some(parent) => at = parent,
            None => break,
        }
    }
    parents[usize::from(node)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixed_routes_go_down_where_they_can_and_else_up() {
        // 0 is the root, 1 and 2 its children, 3 below 1.
        let parents = [None, Some(0), Some(0), Some(1)];
        assert_eq!(fixed_hop(&parents, 3, 2), Some(1));
        assert_eq!(fixed_hop(&parents, 1, 2), Some(0));
        assert_eq!(fixed_hop(&parents, 0, 3), Some(1));
        assert_eq!(fixed_hop(&parents, 1, 3), Some(3));
        assert_eq!(fixed_hop(&parents, 0, 0), None);
    }
}
