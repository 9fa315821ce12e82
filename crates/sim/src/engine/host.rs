//! Hosts: endpoints of the stack, and the tags of their datagrams.

use std::net::SocketAddr;

use carob_cc::time::{Duration, Instant};
use carob_proto::endpoint::Endpoint;

use crate::address::{earlier_ports_of, number_of};
use crate::queue::Alarm;
use crate::spec::FlowRecord;
use crate::trace::NO_ITEM;

/// The exchange and transmission that a packet belongs to, for the trace: the simulator knows which
/// transmission causes which response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tag {
    pub(crate) item: u32,
    pub(crate) attempt: u8,
}

impl Tag {
    pub(crate) const NONE: Self = Self {
        item: NO_ITEM,
        attempt: 0,
    };
}

impl Default for Tag {
    fn default() -> Self {
        Self::NONE
    }
}

/// The role of a host in its application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// A client of this server.
    Client { server: u32 },
    /// A server.
    Server,
}

/// A host.
#[derive(Debug)]
pub(crate) struct Host {
    /// Boxed: an endpoint is large, and hosts are looked up for each datagram.
    pub(crate) endpoint: Box<Endpoint>,
    pub(crate) alarm: Alarm,
    /// The number of its application.
    pub(crate) application: u16,
    pub(crate) role: Role,
    /// Ports of a client before this one: each restart and each rebinding takes the next.
    pub(crate) earlier_ports: u16,
    /// The end of its last restart, before which it receives nothing.
    pub(crate) down_until: Instant,
    /// The place of the host in the network, by the network's own numbers.
    pub(crate) place: u32,
    /// The first poll and the interval of a sleepy host.
    pub(crate) poll: Option<(Duration, Duration)>,
}

impl Host {
    pub(crate) fn new(endpoint: Box<Endpoint>, application: u16, role: Role, place: u32) -> Self {
        Self {
            endpoint,
            alarm: Alarm::default(),
            application,
            role,
            earlier_ports: 0,
            down_until: Instant::ZERO,
            place,
            poll: None,
        }
    }

    /// The time of its next poll, `now` included; none if it always receives.
    pub(crate) fn next_poll(&self, now: Instant) -> Option<Instant> {
        let (first, interval) = self.poll?;
        let first = Instant::ZERO + first;
        let passed = now.since(first).as_micros();
        let polls = passed.div_ceil(interval.as_micros().max(1));
        Some(first + interval.times(polls))
    }

    /// Gives a client its next port.
    pub(crate) fn takes_next_port(&mut self) {
        self.earlier_ports = self.earlier_ports.wrapping_add(1);
    }

    pub(crate) fn is_server(&self) -> bool {
        self.role == Role::Server
    }
}

/// A client's flow while it is measured.
#[derive(Debug, Default)]
pub(crate) struct Flow {
    pub(crate) record: FlowRecord,
    pub(crate) done: bool,
    /// Time of the last progress in a response.
    pub(crate) progress: Instant,
}

impl Flow {
    /// Records progress in a response.
    pub(crate) fn progresses(&mut self, now: Instant) {
        let stall: Duration = now.since(self.progress);
        self.record.stall = self.record.stall.max(stall);
        self.progress = now;
    }
}

/// A datagram between two hosts.
#[derive(Debug, Default)]
pub(crate) struct Datagram {
    pub(crate) from: u32,
    pub(crate) to: u32,
    /// Earlier ports of its client when it was sent: they determine the client's port.
    pub(crate) earlier_ports: u16,
    pub(crate) tag: Tag,
    pub(crate) bytes: Vec<u8>,
}

impl Datagram {
    /// Fills a slot with a message of host `number`.
    pub(crate) fn fill(
        &mut self,
        number: u32,
        earlier_ports: u16,
        to: SocketAddr,
        tag: Tag,
        bytes: &[u8],
    ) {
        self.bytes.clear();
        self.bytes.extend_from_slice(bytes);
        self.from = number;
        self.to = number_of(to);
        // Only clients change ports.
        self.earlier_ports = earlier_ports.max(earlier_ports_of(to));
        self.tag = tag;
    }
}
