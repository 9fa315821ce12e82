//! Datagrams: sending, receiving, capturing.

use bytes::Bytes;

use super::application::{Application, Applications};
use super::host::{Datagram, Tag};
use super::network::{Fate, Network, Offer};
use super::{Engine, Event};
use crate::address::address;
use crate::capture::{Captured, Content};
use crate::spec::Recording;
use crate::trace::SimEvent;

impl<N: Network> Engine<'_, N> {
    /// Passes a datagram to the network.
    pub(super) fn transmit(&mut self, application: &mut dyn Application<N>, index: u32) {
        let datagram = &self.datagrams[index];
        let (from, Tag { item, attempt }) = (datagram.from, datagram.tag);
        let sent = SimEvent::Sent {
            item,
            attempt,
            bytes: self.network.packet_bytes(datagram.bytes.len() as u32),
        };
        self.trace.add(self.now, from, sent);
        self.capture_datagram(from, index);
        let sent = if self.is_link_out() {
            Some(Offer::lost_before(self.now))
        } else {
            N::send(self, index)
        };
        if let Some(offer) = sent {
            self.offered(application, index, &offer);
        }
    }

    /// Counts datagrams whose fate was not known when they were sent.
    #[cold]
    pub(super) fn settle_offered(&mut self, applications: &mut Applications<N>) {
        while let Some((datagram, offer)) = self.network.take_offered() {
            let from = self.datagrams[datagram].from;
            let number = self.hosts[from as usize].application;
            self.offered(&mut *applications[usize::from(number)], datagram, &offer);
        }
    }

    /// Counts a datagram whose fate is known, and releases it if it is missing.
    #[expect(
        clippy::inline_always,
        reason = "a call for each datagram costs a percent of a run"
    )]
    #[inline(always)]
    fn offered(&mut self, application: &mut dyn Application<N>, index: u32, offer: &Offer) {
        let datagram = &self.datagrams[index];
        let (from, to, Tag { item, attempt }) = (datagram.from, datagram.to, datagram.tag);
        let is_from_server = self.hosts[from as usize].is_server();
        let client = if is_from_server { to } else { from };
        if let Some(flow) = application.flow(client)
            && !flow.done
        {
            flow.record.packets += offer.packets;
            flow.record.header_bytes += offer.header_bytes;
        }
        application.on_offered(self, index, offer);
        let missing = match offer.fate {
            Fate::Arrives => return,
            Fate::Dropped => SimEvent::DropFull { item, attempt },
            Fate::Lost => SimEvent::Lost { item, attempt },
        };
        self.trace.add(self.now, from, missing);
        self.datagrams.release(index);
    }

    /// Handles the arrival of a datagram at its destination. It waits at a busy server, and for a
    /// sleepy host's poll.
    pub(super) fn arrive(&mut self, applications: &mut Applications<N>, index: u32) {
        let Datagram { to, tag, .. } = self.datagrams[index];
        self.capture_datagram(to, index);
        let Tag { item, attempt } = tag;
        let host = &self.hosts[to as usize];
        // Lost without an ICMP error: a host without power returns none.
        if self.now < host.down_until {
            self.trace
                .add(self.now, to, SimEvent::Lost { item, attempt });
            self.datagrams.release(index);
            return;
        }
        let arrived = SimEvent::Arrived { item, attempt };
        self.trace.add(self.now, to, arrived);
        if self.server_queue.is_some() && host.is_server() {
            self.enqueue(to, index);
        } else if let Some(at) = host.next_poll(self.now) {
            self.queue.push(at, Event::Polled { datagram: index });
        } else {
            let application = &mut *applications[usize::from(host.application)];
            self.receive(application, index);
        }
    }

    /// Passes an arrived datagram to its destination's endpoint. One for a port that a client has
    /// left is lost.
    pub(super) fn receive(&mut self, application: &mut dyn Application<N>, index: u32) {
        let datagram = &mut self.datagrams[index];
        let (from, to, tag) = (datagram.from, datagram.to, datagram.tag);
        let earlier_ports = datagram.earlier_ports;
        // Taken for the call and put back below, so that the slab keeps the allocation.
        let bytes = std::mem::take(&mut datagram.bytes);
        let is_response = self.hosts[from as usize].is_server();
        let host = &mut self.hosts[to as usize];
        let is_open = host.is_server() || host.earlier_ports == earlier_ports;
        if is_open {
            application.on_received(self.now, to, tag, bytes.len());
            self.cause = tag;
            let sender = address(from, if is_response { 0 } else { earlier_ports });
            host.endpoint.handle_datagram(self.now, sender, &bytes);
        }
        self.datagrams[index].bytes = bytes;
        self.datagrams.release(index);
        if is_open {
            self.drain(application, to);
            self.cause = Tag::NONE;
        }
    }

    /// Captures a datagram that passes host `at`, if packets are recorded.
    fn capture_datagram(&mut self, at: u32, index: u32) {
        if self.is_capturing() {
            let datagram = &self.datagrams[index];
            self.captured.push(Captured {
                at: self.now,
                host: at,
                from: datagram.from,
                to: datagram.to,
                restarts: datagram.earlier_ports.into(),
                content: Content::Datagram(Bytes::copy_from_slice(&datagram.bytes)),
            });
        }
    }

    /// Returns whether to record another packet.
    pub(super) fn is_capturing(&self) -> bool {
        let most = self.spec.record.packets.min(Recording::PACKETS_MAX);
        self.captured.len() < most as usize
    }
}
