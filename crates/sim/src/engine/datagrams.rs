//! Datagrams: sending, receiving, capturing, service at servers that take time, and traffic towards the clients in bins of
//! time.

use bytes::Bytes;
use carob_cc::time::Instant;

use super::application::{Application, Applications};
use super::host::{Datagram, Tag};
use super::network::{Fate, Network, Offer};
use super::{Engine, Event};
use crate::address::address;
use crate::capture::{Captured, Content};
use crate::spec::{Bin, Recording};
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

/// A datagram at the server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    to: u32,
    packet: u32,
}

impl<N: Network> Engine<'_, N> {
    /// Adds a datagram to the receive queue, unless it is full.
    pub(super) fn enqueue(&mut self, to: u32, packet: u32) {
        let Some(server_queue) = &mut self.server_queue else {
            return;
        };
        let datagram = &self.datagrams[packet];
        let (from, Tag { item, attempt }) = (datagram.from, datagram.tag);
        let pushed = server_queue.push(from, item, Waiting { to, packet });
        if pushed.is_err() {
            self.trace
                .add(self.now, to, SimEvent::ServerFull { item, attempt });
            self.datagrams.release(packet);
        } else if server_queue.is_idle() {
            self.work();
        }
    }

    /// Begins the service of the next datagram.
    fn work(&mut self) {
        let now = self.now;
        let server_queue = self.server_queue.as_mut();
        if let Some(until) = server_queue.and_then(|server_queue| server_queue.begin(now)) {
            self.queue.push(until, Event::Served);
        }
    }

    /// Drops the queued and current requests of a server that restarts.
    pub(crate) fn forget_queue(&mut self, server: u32) {
        let Some(server_queue) = &mut self.server_queue else {
            return;
        };
        let datagrams = &mut self.datagrams;
        let was_working = server_queue.remove(self.now, |waiting| {
            if waiting.to == server {
                datagrams.release(waiting.packet);
            }
            waiting.to == server
        });
        if was_working {
            self.work();
        }
    }

    /// Completes the service of a datagram: passes it to the endpoint, and begins the next.
    pub(super) fn served(&mut self, applications: &mut Applications<N>) {
        let now = self.now;
        // Work that a restart ended completes no more.
        let ended = (self.server_queue.as_mut()).and_then(|queue| queue.complete(now));
        let Some(Waiting { to, packet }) = ended else {
            return;
        };
        let Tag { item, attempt } = self.datagrams[packet].tag;
        self.trace
            .add(self.now, to, SimEvent::Served { item, attempt });
        let number = self.hosts[to as usize].application;
        self.receive(&mut *applications[usize::from(number)], packet);
        self.work();
    }
}

impl<N: Network> Engine<'_, N> {
    /// The bin of a time, if bins are recorded; times after the last bin count in it.
    fn bin(&mut self, at: Instant) -> Option<&mut Bin> {
        let width = self.spec.record.bin;
        if width.is_zero() {
            return None;
        }
        let index = at.since(Instant::ZERO).as_micros() / width.as_micros();
        let index = (index as usize).min(Recording::BINS_MAX - 1);
        if self.bins.len() <= index {
            self.bins.resize(index + 1, Bin::default());
        }
        self.bins.get_mut(index)
    }

    /// Counts bytes that leave the bottleneck towards the clients.
    pub(crate) fn bin_carried(&mut self, departed: Instant, bytes: u32, useless: bool) {
        let waited = departed.since(self.now);
        // In the bin of its departure: the rate of the link bounds departures, but not offers.
        if let Some(bin) = self.bin(departed) {
            bin.carried += u64::from(bytes);
            bin.useless += u64::from(if useless { bytes } else { 0 });
            bin.wait = bin.wait.max(waited);
        }
    }

    /// Counts a response at a client.
    pub(crate) fn bin_answered(&mut self) {
        if let Some(bin) = self.bin(self.now) {
            bin.answered += 1;
        }
    }
}
