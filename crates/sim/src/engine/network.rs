//! The network of a run: it carries the datagrams of hosts.
//!
//! A network schedules its own events on the engine's queue, and hands over a datagram when it has
//! reached its destination. It reads no application.

use std::fmt;

use carob_cc::time::Instant;

use super::Engine;
use crate::link::Verdict;
use crate::spec::RunRecord;

/// The outcome of a datagram that was offered to a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Arrives,
    Dropped,
    Lost,
}

/// A datagram at a network that decides its fate at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offer {
    pub(crate) fate: Fate,
    /// Bytes that used the network, headers included.
    pub(crate) carried: u32,
    /// The time at which the last of them left the bottleneck.
    pub(crate) departed: Instant,
    /// Packets it took.
    pub(crate) packets: u64,
    /// Bytes of headers in them.
    pub(crate) header_bytes: u64,
}

impl Offer {
    /// The outcome of a datagram that was lost before it used the network.
    pub(crate) const fn lost_before(now: Instant) -> Self {
        Self {
            fate: Fate::Lost,
            carried: 0,
            departed: now,
            packets: 0,
            header_bytes: 0,
        }
    }
}

/// A network.
pub(crate) trait Network: Sized {
    /// Its events.
    type Event: Copy + fmt::Debug;

    /// Size of a datagram with this payload as the trace has it, in bytes.
    fn packet_bytes(&self, payload: u32) -> u32;

    /// The place of a host.
    fn place(&self, role: Placement) -> u32;

    /// The time from which applications may use it.
    fn ready(&self) -> Instant {
        Instant::ZERO
    }

    /// The time at which an endpoint's timer expires that is due at `at`.
    fn expiry(&self, at: Instant) -> Instant {
        at
    }

    /// Sends a datagram. Returns its fate where that is known at once; the engine releases what
    /// does not arrive.
    fn send(engine: &mut Engine<'_, Self>, datagram: u32) -> Option<Offer>;

    /// Handles an event. Returns a datagram that has reached its destination.
    fn handle(engine: &mut Engine<'_, Self>, event: Self::Event) -> Option<u32>;

    /// Returns whether there is a datagram for [`take_offered`](Self::take_offered).
    #[inline]
    fn has_offered(&self) -> bool {
        false
    }

    /// Takes a datagram whose fate was not known at once and is now.
    fn take_offered(&mut self) -> Option<(u32, Offer)> {
        None
    }

    /// Offers a TCP segment. Returns its direction and fate; none if it carries no segments.
    fn offer_segment(
        &mut self,
        _now: Instant,
        _client: u32,
        _from_server: bool,
        _bytes: u32,
        _is_ecn_capable: bool,
    ) -> Option<(usize, Verdict)> {
        None
    }

    /// Begins the time that its counters are of.
    fn reset_counters(&mut self) {}

    /// Adds its results to the record of a run that ended at `now`.
    fn into_record(self, now: Instant, record: &mut RunRecord);
}

/// A host's position in a run, from which a network derives its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Placement {
    /// The client with this number.
    Client(u32),
    /// A server.
    Server,
    /// A server on the constrained side, with its clients beyond.
    ConstrainedServer,
    /// As many such servers as clients, each a device of its own with one client. Servers without a common
    /// resource differ in nothing but their addresses, so one host is all of them.
    ConstrainedServers,
    /// A client of such a server.
    RemoteClient(u32),
}
