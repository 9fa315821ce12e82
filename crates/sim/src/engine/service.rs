//! The service of datagrams at servers that take time.

use super::application::Applications;
use super::host::Tag;
use super::network::Network;
use super::{Engine, Event};
use crate::trace::SimEvent;

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
