//! The link as a network: clients on one side, servers on the other.
//!
//! A packet's fate is decided when it is offered, so each costs one event.

use carob_cc::time::Instant;

use super::idle_setup::Connections;
use super::{Link, Verdict};
use crate::engine::{DOWN, Engine, Event, UP};
use crate::net::fragments::{IP_HEADER, fragments};
use crate::net::{Fate, Network, Offer, Placement};
use crate::spec::{RunRecord, RunSpec};

/// The side of the link with its clients in most runs, from which packets take the direction up.
const CONSTRAINED: u32 = 0;
/// The other side.
const BEYOND: u32 = 1;

/// A link shared by all hosts of a run.
pub(crate) struct LinkNetwork {
    link: Link,
    header_bytes: u32,
    mtu_bytes: u32,
    /// Connections of devices, if their set-up takes time.
    connections: Option<Box<Connections>>,
}

/// The arrival of a datagram.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub(crate) datagram: u32,
}

/// Sends a datagram over the link that is, or is part of, a network.
pub(crate) fn send_over<N: Network<Event = Arrival>>(
    engine: &mut Engine<'_, N>,
    index: u32,
    link: impl FnOnce(&mut N) -> &mut LinkNetwork,
) -> Offer {
    let datagram = &engine.datagrams[index];
    let bytes = engine.network.packet_bytes(datagram.bytes.len() as u32);
    let (direction, device) = match engine.hosts[datagram.from as usize].place {
        CONSTRAINED => (UP, datagram.from),
        _ => (DOWN, datagram.to),
    };
    let network = link(&mut engine.network);
    let (offer, mut arrives, duplicated) = network.offer(engine.now, direction, bytes);
    if let Some(connections) = &mut network.connections {
        arrives = connections.arrival(device, direction, engine.now, arrives);
    }
    if offer.fate == Fate::Arrives {
        let arrival = Event::Network(Arrival { datagram: index });
        engine.queue.push_in_order(direction, arrives, arrival);
        if duplicated {
            engine.datagrams.hold(index);
            engine.queue.push_in_order(direction, arrives, arrival);
        }
    }
    offer
}

impl LinkNetwork {
    pub(crate) fn new(spec: &RunSpec) -> Self {
        Self {
            link: Link::new(&spec.link, spec.seed, "link"),
            header_bytes: spec.header_bytes,
            mtu_bytes: spec.mtu_bytes,
            connections: (spec.idle_setup)
                .map(|setup| Box::new(Connections::new(setup, spec.seed))),
        }
    }

    /// Offers a packet in as many fragments as it needs. Returns its fate, its arrival, and whether
    /// it arrives twice: all of its fragments do.
    #[inline]
    fn offer(&mut self, now: Instant, direction: usize, bytes: u32) -> (Offer, Instant, bool) {
        let mut offer = Offer {
            fate: Fate::Arrives,
            carried: 0,
            departed: now,
            packets: 0,
            header_bytes: 0,
        };
        let link = match direction {
            DOWN => &mut self.link.down,
            _ => &mut self.link.up,
        };
        let (mut arrives, mut all_duplicated) = (now, true);
        for fragment in fragments(bytes, self.mtu_bytes) {
            offer.packets += 1;
            match link.offer(now, fragment) {
                Verdict::Deliver {
                    at,
                    departed,
                    duplicated,
                    ..
                } => {
                    (arrives, offer.departed) = (arrives.max(at), departed);
                    all_duplicated &= duplicated;
                }
                Verdict::DropFull => {
                    offer.fate = Fate::Dropped;
                    continue;
                }
                Verdict::Lost { departed } => {
                    (offer.fate, offer.departed) = (Fate::Lost, departed);
                }
            }
            offer.carried += fragment;
        }
        let more = offer.packets.saturating_sub(1) * u64::from(IP_HEADER);
        offer.header_bytes = u64::from(self.header_bytes) + more;
        (offer, arrives, all_duplicated)
    }
}

impl Network for LinkNetwork {
    type Event = Arrival;

    fn packet_bytes(&self, payload: u32) -> u32 {
        payload + self.header_bytes
    }

    fn place(&self, host: Placement) -> u32 {
        match host {
            Placement::Client(_) | Placement::ConstrainedServer => CONSTRAINED,
            Placement::Server | Placement::RemoteClient(_) => BEYOND,
        }
    }

    fn send(engine: &mut Engine<'_, Self>, index: u32) -> Option<Offer> {
        Some(send_over(engine, index, |link| link))
    }

    fn handle(_: &mut Engine<'_, Self>, event: Arrival) -> Option<u32> {
        Some(event.datagram)
    }

    fn offer_segment(
        &mut self,
        now: Instant,
        client: u32,
        from_server: bool,
        bytes: u32,
        is_ecn_capable: bool,
    ) -> Option<(usize, Verdict)> {
        let (direction, link) = if from_server {
            (DOWN, &mut self.link.down)
        } else {
            (UP, &mut self.link.up)
        };
        let mut verdict = link.offer_packet(now, bytes, is_ecn_capable);
        if let (Some(connections), Verdict::Deliver { at, .. }) =
            (&mut self.connections, &mut verdict)
        {
            *at = connections.arrival(client, direction, now, *at);
        }
        Some((direction, verdict))
    }

    fn reset_counters(&mut self) {
        self.link.up.forget_counters();
        self.link.down.forget_counters();
    }

    fn into_record(self, _: Instant, record: &mut RunRecord) {
        record.link.down = self.link.down.counters();
        record.link.up = self.link.up.counters();
    }
}
