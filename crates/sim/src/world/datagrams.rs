//! Datagrams on the link: one event each, whether it crosses whole or in fragments.

use bytes::Bytes;

use crate::capture::{Captured, Content};
use crate::fragments::{IP_HEADER, fragments};
use crate::host::{Tag, address};
use crate::link::Verdict;
use crate::trace::What;

use super::{DOWN, Happening, UP, World};

/// A datagram on its way.
#[derive(Debug, Default)]
pub(super) struct Packet {
    pub(super) from: u32,
    /// How often the client that sends or receives it had started anew: that is its port.
    pub(super) restarts: u32,
    pub(super) tag: Option<Tag>,
    pub(super) bytes: Vec<u8>,
}

impl World<'_> {
    /// Offers a packet to the link.
    pub(super) fn offer(&mut self, from: u32, to: u32, index: u32, tag: Tag) {
        let bytes = self.packets[index].bytes.len() as u32 + self.spec.header_bytes;
        let Tag { item, attempt } = tag;
        self.trace.add(
            self.now,
            from,
            What::Sent {
                item,
                attempt,
                bytes,
            },
        );
        self.capture_datagram(from, from, to, index);
        let down = self.is_server(from);
        let client = if down { to } else { from };
        let pieces = fragments(bytes, self.spec.mtu_bytes).count() as u64;
        let more = pieces.saturating_sub(1) * u64::from(IP_HEADER);
        let header = u64::from(self.spec.header_bytes) + more;
        self.count_packets(client, pieces, header);
        let direction = if down {
            &mut self.link.down
        } else {
            &mut self.link.up
        };
        let (mut arrives, mut missing) = (self.now, None);
        let (mut carried, mut gone) = (0, self.now);
        for fragment in fragments(bytes, self.spec.mtu_bytes) {
            match direction.offer(self.now, fragment) {
                Verdict::Deliver { at, departed, .. } => {
                    (arrives, gone) = (arrives.max(at), departed);
                }
                Verdict::DropFull => {
                    missing = Some(What::DropFull { item, attempt });
                    continue;
                }
                Verdict::Lost { departed } => {
                    (missing, gone) = (Some(What::Lost { item, attempt }), departed);
                }
            }
            carried += fragment;
        }
        if let Some(client) = self.hosts[client as usize].as_client() {
            if down {
                let useless = client.is_useless(tag, missing.is_none());
                self.useless[DOWN] += u64::from(if useless { carried } else { 0 });
                self.bin_carried(gone, carried, useless);
            } else {
                client.carries(tag, carried);
            }
        }
        if let Some(what) = missing {
            self.trace.add(self.now, from, what);
            self.packets.release(index);
        } else {
            let arrival = Happening::Arrival { to, packet: index };
            let way = if down { DOWN } else { UP };
            self.queue.push_in_order(way, arrives, arrival);
        }
    }

    /// A datagram reaches a host. A server that works on others has it wait.
    pub(super) fn arrive(&mut self, to: u32, packet: u32) {
        let Packet { from, tag, .. } = self.packets[packet];
        self.capture_datagram(to, from, to, packet);
        let Tag { item, attempt } = tag.unwrap_or(Tag::NONE);
        self.trace
            .add(self.now, to, What::Arrived { item, attempt });
        if self.serial.is_some() && self.is_server(to) {
            self.enqueue(to, packet);
        } else {
            self.receive(to, packet);
        }
    }

    /// A host takes in a datagram that has reached it.
    pub(super) fn receive(&mut self, to: u32, packet: u32) {
        let Packet {
            from,
            restarts,
            tag,
            bytes,
        } = std::mem::take(&mut self.packets[packet]);
        let tag = tag.unwrap_or(Tag::NONE);
        let is_answer = self.is_server(from);
        let host = &mut self.hosts[to as usize];
        let is_heard = match host.as_client() {
            // What is for a port that the client has left, nobody hears.
            Some(client) if client.restarts != restarts => false,
            Some(client) => {
                client.answer_arrived(self.now, tag, bytes.len());
                true
            }
            None => true,
        };
        if is_heard {
            let ports = if is_answer { 0 } else { restarts };
            let sender = address(from, ports);
            host.endpoint.handle_datagram(self.now, sender, &bytes);
        }
        self.packets[packet].bytes = bytes;
        self.packets.release(packet);
        if is_heard {
            self.drain(to, tag);
        }
    }

    /// Keeps a datagram that passes by host `at`, if packets are recorded.
    fn capture_datagram(&mut self, at: u32, from: u32, to: u32, index: u32) {
        if self.is_capturing() {
            let bytes = Bytes::copy_from_slice(&self.packets[index].bytes);
            self.captured.push(Captured {
                at: self.now,
                host: at,
                from,
                to,
                restarts: self.packets[index].restarts,
                content: Content::Datagram(bytes),
            });
        }
    }
}
