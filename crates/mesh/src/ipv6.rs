//! IPv6 over the radio: packets, routes, frames.

use std::collections::VecDeque;

use carob_cc::time::Instant;
use carob_sim_core::queue::Alarm;
use carob_sim_core::random::Stream;

use super::lowpan::{self, Fragment, Frames, Header, HopPosition, Protocol, Reassembly};
use super::radio::{self, Outcome, Upcall};
use super::record::MomentKind;
use super::rpl::{Hop, Message, Rpl, RplOption};
use super::spec::{MeshSpec, NoRoute, RplMode};
use super::{Body, Event, Mesh, Node, Simulator};

/// Hop limit of packets.
const HOP_LIMIT: u8 = 64;

/// A datagram at a node, or on its way to the next one.
#[derive(Debug, Default)]
pub(super) struct Packet {
    /// The originating place: a node, or the host outside.
    pub(super) source: u32,
    /// The destination.
    pub(super) destination: u32,
    /// The datagram of a host in it, if any.
    pub(super) body: Option<Body>,
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

impl Mesh<'_> {
    /// Adds an empty packet of a place.
    pub(super) fn packet(&mut self, source: u32, destination: u32) -> u32 {
        let index = self.packets.take();
        let packet = &mut self.packets[index];
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
    pub(super) fn release(&mut self, cx: &mut impl Simulator, index: u32) {
        if self.packets.release(index)
            && let Some(body) = self.packets[index].body.take()
        {
            cx.release(body.datagram);
        }
    }

    /// Sends a packet from the place that made it.
    pub(super) fn leaves(&mut self, cx: &mut impl Simulator, place: u32, packet: u32) {
        match Node::try_from(place) {
            Ok(node) if usize::from(node) < self.nodes.len() => {
                self.forward(cx, node, packet, None);
            }
            _ => self.crosses(cx, packet, true),
        }
    }

    /// Sends a packet over the link between the root and the host outside.
    fn crosses(&mut self, cx: &mut impl Simulator, packet: u32, inwards: bool) {
        let delay = self.spec.topology.outside.unwrap_or_default();
        let crossed = Event::Crossed { packet, inwards };
        cx.schedule(cx.now() + delay, crossed);
    }

    /// Unpacks the datagram of a packet that has reached its destination.
    pub(super) fn processed(&mut self, cx: &mut impl Simulator, packet: u32) -> Option<u32> {
        let Body { datagram, .. } = self.packets[packet].body?;
        cx.hold(datagram);
        self.release(cx, packet);
        Some(datagram)
    }

    /// Forwards a packet that came from a neighbour, or sends a node's own.
    pub(super) fn forward(
        &mut self,
        cx: &mut impl Simulator,
        node: Node,
        packet: u32,
        from: Option<Node>,
    ) {
        match self.next(cx, node, packet, from) {
            Next::Here => self.is_here(cx, node, packet),
            Next::Neighbour(next) => self.send_to_neighbour(cx, node, packet, next),
            Next::Outside => self.crosses(cx, packet, false),
            Next::Nowhere => self.no_route(cx, node, packet),
            Next::Loop => self.drop_unrouted(cx, node, packet),
        }
    }

    fn next(
        &mut self,
        cx: &mut impl Simulator,
        node: Node,
        index: u32,
        from: Option<Node>,
    ) -> Next {
        let packet = &mut self.packets[index];
        let root = self.topology.root;
        let inside = Node::try_from(packet.destination)
            .ok()
            .filter(|to| usize::from(*to) < self.nodes.len());
        if inside.is_none() && node == root {
            return Next::Outside;
        }
        let destination = inside.unwrap_or(root);
        let writes_ways = self.spec.rpl.mode == RplMode::NonStoring && node == root;
        let has_option = self.fixed.is_none() && packet.way.is_empty() && !writes_ways;
        if destination == node && (!has_option || from.is_none()) {
            return Next::Here;
        }
        if let Some(parents) = &self.fixed {
            return fixed_hop(parents, node, destination).map_or(Next::Nowhere, Next::Neighbour);
        }
        if let Some(next) = packet.way.get(usize::from(packet.way_gone)) {
            packet.way_gone += 1;
            return Next::Neighbour(*next);
        }
        let rpl = &mut self.nodes[usize::from(node)].rpl;
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
        let hop = rpl.route(cx.now(), destination, &mut packet.option, from);
        self.drain_routing(cx, node);
        match hop {
            Hop::Here => Next::Here,
            Hop::To(next) => Next::Neighbour(next),
            Hop::NoRoute => Next::Nowhere,
            Hop::Loop => Next::Loop,
        }
    }

    /// Delivers a packet at its destination.
    fn is_here(&mut self, cx: &mut impl Simulator, node: Node, index: u32) {
        let packet = &mut self.packets[index];
        if let Some(message) = packet.control.take() {
            let source = Node::try_from(packet.source).unwrap_or_default();
            self.release(cx, index);
            self.on_rpl_message(cx, node, source, message);
            return;
        }
        let at = cx.now() + self.spec.node.processing;
        let processed = Event::Processed { packet: index };
        cx.schedule(at, processed);
    }

    /// Handles a packet without a route.
    fn no_route(&mut self, cx: &mut impl Simulator, node: Node, packet: u32) {
        // RPL's own messages do not wait: without them there would be no route.
        if let NoRoute::Buffer(most) = self.spec.rpl.no_route
            && self.packets[packet].control.is_none()
        {
            let parked = &mut self.nodes[usize::from(node)].parked;
            if parked.len() < usize::from(most) {
                parked.push_back(packet);
                return;
            }
        }
        self.drop_unrouted(cx, node, packet);
    }

    fn drop_unrouted(&mut self, cx: &mut impl Simulator, node: Node, packet: u32) {
        let Packet { source, body, .. } = self.packets[packet];
        if body.is_some() && self.counts.has_begun(cx.now()) {
            let record = self.counts.node(node);
            record.route_drops += 1;
            record.own_route_drops += u64::from(source == u32::from(node));
        }
        self.release(cx, packet);
    }

    /// Retries the packets that waited for a route.
    pub(super) fn unpark(&mut self, cx: &mut impl Simulator, node: Node) {
        // Counted first, because a packet that still has no route is appended again.
        let count = self.nodes[usize::from(node)].parked.len();
        for _ in 0..count {
            if let Some(packet) = self.nodes[usize::from(node)].parked.pop_front() {
                self.forward(cx, node, packet, None);
            }
        }
    }

    /// Passes a packet to the MAC, in as many frames as it needs.
    pub(super) fn send_to_neighbour(
        &mut self,
        cx: &mut impl Simulator,
        node: Node,
        index: u32,
        next: Node,
    ) {
        let header = self.header(node, index, next);
        match lowpan::frames(&self.spec.lowpan, &header, self.payload_bytes(index)) {
            Ok(frames) => self.send_frames(cx, node, Some(next), index, frames),
            Err(_) => self.counts.node(node).reassembly_drops += 1,
        }
        self.release(cx, index);
    }

    pub(super) fn send_frames(
        &mut self,
        cx: &mut impl Simulator,
        node: Node,
        to: Option<Node>,
        index: u32,
        frames: Frames,
    ) {
        let has_parts = !frames.is_whole();
        let datagram = frames.datagram_bytes();
        let state = &mut self.nodes[usize::from(node)];
        // One tag for all fragments of a datagram, the next for the next one (RFC 4944 5.3).
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
            if !self.hand_down(cx, node, to, frame.bytes, piece) {
                break; // the rest of a datagram is of no use
            }
        }
    }

    /// Size of a packet's content in bytes: UDP payload, or ICMPv6 message.
    pub(super) fn payload_bytes(&self, index: u32) -> u16 {
        let packet = &self.packets[index];
        let body = packet.body.map(|body| body.bytes);
        let mode = self.spec.rpl.mode;
        let control = packet.control.map(|message| message.icmp_bytes(mode));
        body.or(control).unwrap_or_default()
    }

    /// The headers of a packet on its way to the next node.
    fn header(&self, node: Node, index: u32, next: Node) -> Header {
        let packet = &self.packets[index];
        if packet.control.is_some() && self.is_for_neighbour(index, next) {
            return Header::to_neighbour();
        }
        let protocol = match packet.control {
            Some(_) => Protocol::Icmpv6,
            None => Protocol::Udp,
        };
        let has_option = self.spec.lowpan.rpl_option && self.fixed.is_none();
        let is_first = packet.source == u32::from(node);
        let is_last = packet.destination == u32::from(next);
        let is_outside = |host: u32| host >= self.nodes.len() as u32;
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

    fn hand_down(
        &mut self,
        cx: &mut impl Simulator,
        node: Node,
        to: Option<Node>,
        bytes: u16,
        piece: Piece,
    ) -> bool {
        let now = cx.now();
        let mut schedule = |at, event| cx.schedule(at, Event::Radio(event));
        let taken = self
            .radio
            .send(now, node, to, bytes, piece, &mut schedule)
            .is_ok();
        if taken {
            self.packets.hold(piece.packet);
        }
        taken
    }

    pub(super) fn on_air(&mut self, cx: &mut impl Simulator, event: radio::Event) {
        let mut ups = std::mem::take(&mut self.ups);
        let now = cx.now();
        let mut schedule = |at, event| cx.schedule(at, Event::Radio(event));
        self.radio.handle(now, event, &mut schedule, &mut ups);
        // Receivers copy a packet's content from the one that its sender holds.
        for up in &ups {
            if let Upcall::Received {
                at, from, payload, ..
            } = *up
            {
                self.received(cx, at, from, payload);
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
                if self.counts.has_room() {
                    self.record_frame(now, node, to, payload, transmissions, outcome);
                }
                self.release(cx, payload.packet);
                let acknowledged = match outcome {
                    Outcome::Acknowledged => true,
                    Outcome::NotAcknowledged => false,
                    // A busy channel is no property of the link, and broadcasts are not acknowledged.
                    _ => continue,
                };
                if let Some(to) = to
                    && self.fixed.is_none()
                {
                    let rpl = &mut self.nodes[usize::from(node)].rpl;
                    rpl.handle_feedback(cx.now(), to, transmissions, acknowledged);
                    self.drain_routing(cx, node);
                }
            }
        }
        ups.clear();
        self.ups = ups;
    }

    /// Records a frame that the MAC has finished with.
    fn record_frame(
        &mut self,
        now: Instant,
        node: Node,
        to: Option<Node>,
        piece: Piece,
        transmissions: u8,
        outcome: Outcome,
    ) {
        let frame = MomentKind::Frame {
            to,
            is_routing: self.packets[piece.packet].control.is_some(),
            transmissions,
            is_sent: matches!(outcome, Outcome::Acknowledged | Outcome::Broadcast),
            queued: self.radio.queued(node),
            etx: to.map_or(0, |to| self.etx(node, to)),
        };
        self.counts.moment(now, node, frame);
    }

    /// A frame has been received.
    fn received(&mut self, cx: &mut impl Simulator, at: Node, from: Node, piece: Piece) {
        let reassembly = &mut self.nodes[usize::from(at)].reassembly;
        let taken = match piece.part {
            None => reassembly.accept_whole(cx.now()).map(|()| true),
            Some(part) => reassembly.accept(cx.now(), from, part),
        };
        if taken != Ok(true) {
            return;
        }
        let sent = &self.packets[piece.packet];
        if let (Some(message), true) = (sent.control, self.is_for_neighbour(piece.packet, at)) {
            self.on_rpl_message(cx, at, from, message);
            return;
        }
        // RFC 8200 3: a node discards a packet that it would forward with a hop limit of 0.
        if sent.hops_left <= 1 && sent.destination != u32::from(at) {
            return;
        }
        let index = self.packets.take();
        let (old, new) = (piece.packet, index);
        let mut copy = std::mem::take(&mut self.packets[new]);
        let sent = &self.packets[old];
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
            cx.hold(body.datagram);
        }
        let is_relay = copy.destination != u32::from(at);
        self.packets[new] = copy;
        if is_relay && !self.spec.node.forwarding.is_zero() {
            let forward = Event::Forward {
                node: at,
                from,
                packet: new,
            };
            let ready = cx.now() + self.spec.node.forwarding;
            cx.schedule(ready, forward);
        } else {
            self.forward(cx, at, new, Some(from));
        }
    }

    /// Returns whether a packet is a link-local RPL message.
    fn is_for_neighbour(&self, index: u32, at: Node) -> bool {
        let to = self.packets[index].destination;
        let is_routed = self.spec.rpl.mode == RplMode::NonStoring
            && matches!(self.packets[index].control, Some(Message::Dao { .. }));
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
    // At most one step per node, so that parents in a circle do not keep the loop running.
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
    fn fixed_routes_go_down_if_possible_and_up_otherwise() {
        // 0 is the root, 1 and 2 its children, 3 below 1.
        let parents = [None, Some(0), Some(0), Some(1)];
        assert_eq!(fixed_hop(&parents, 3, 2), Some(1));
        assert_eq!(fixed_hop(&parents, 1, 2), Some(0));
        assert_eq!(fixed_hop(&parents, 0, 3), Some(1));
        assert_eq!(fixed_hop(&parents, 1, 3), Some(3));
        assert_eq!(fixed_hop(&parents, 0, 0), None);
    }
}
