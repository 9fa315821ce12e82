//! The link as a network: clients on one side, servers on the other.
//!
//! A packet's fate is decided when it is offered, so each costs one event.

use std::collections::{BTreeMap, VecDeque};

use carob_cc::time::Instant;

use crate::engine::network::{Fate, Network, Offer, Placement};
use crate::engine::{Datagram, Engine, Event};
use crate::link::fragments::{IP_HEADER, fragments};
use crate::link::{DOWN, Devices, DirectionSpec, FairQueue, Link, LinkSpec, UP, Verdict, Waiting};
use crate::random::Probability;
use crate::spec::{CLIENTS_MAX, LinkNetworkSpec, RunRecord};

/// The side of the link with its clients in most runs, from which packets take the direction up.
const CONSTRAINED: u32 = 0;
/// The other side.
const BEYOND: u32 = 1;
/// The place of servers that are a device for each of their clients.
const CONSTRAINED_EACH: u32 = 2;

/// A link shared by all hosts of a run.
pub(crate) struct LinkNetwork {
    link: Link,
    header_bytes: u32,
    mtu_bytes: u32,
    /// Devices, if packets meet anything at their radios.
    devices: Option<Box<Devices>>,
    /// True if there are devices or queues of flows, or datagrams may arrive twice.
    is_special: bool,
    /// Queues of flows in front of directions that have them, by direction.
    fair: [Option<Box<FairQueue>>; 2],
    /// Directions with an event that serves them to come.
    is_served: [bool; 2],
    /// Offers of datagrams that wait for receive windows of their devices.
    held: BTreeMap<u32, Offer>,
    /// Datagrams from queues of flows and receive windows whose fate is known now.
    offered: VecDeque<(u32, Offer)>,
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
    let direction = direction_of(engine, datagram);
    let device = device_of(engine, datagram, direction);
    let network = link(&mut engine.network);
    let (offer, arrives, duplicated) = network.carry(engine.now, direction, device, bytes);
    if offer.fate == Fate::Arrives {
        let arrival = Event::Network(Arrival { datagram: index });
        engine.queue.push_in_order(direction, arrives, arrival);
        if duplicated {
            // Each arrival drops a reference to the datagram.
            engine.datagrams.hold(index);
            engine.queue.push_in_order(direction, arrives, arrival);
        }
    }
    offer
}

/// The same over a plain link: a part of it, without what most links lack.
fn send_plain(engine: &mut Engine<'_, LinkNetwork>, index: u32) -> Offer {
    let datagram = &engine.datagrams[index];
    let bytes = engine.network.packet_bytes(datagram.bytes.len() as u32);
    let direction = direction_of(engine, datagram);
    let (offer, arrives, _) = (engine.network).offer::<false>(engine.now, direction, bytes);
    if offer.fate == Fate::Arrives {
        let arrival = Event::Network(Arrival { datagram: index });
        engine.queue.push_in_order(direction, arrives, arrival);
    }
    offer
}

/// The same over a link with queues of flows, radios of devices or duplicates.
#[cold]
#[inline(never)]
fn send_special(engine: &mut Engine<'_, LinkNetwork>, index: u32) -> Option<Offer> {
    if enqueue(engine, index) {
        return None;
    }
    let has_windows = |devices: &Devices| devices.have_windows();
    if !engine.network.devices.as_deref().is_some_and(has_windows) {
        return Some(send_over(engine, index, |link| link));
    }
    let datagram = &engine.datagrams[index];
    let direction = direction_of(engine, datagram);
    let device = device_of(engine, datagram, direction);
    let offer = if direction == DOWN {
        hold(engine, index, device)
    } else {
        Some(send_over(engine, index, |link| link))
    };
    await_window(engine, device);
    offer
}

/// Holds a datagram that crossed the link for a receive window of its device. A copy of it is not made.
fn hold(engine: &mut Engine<'_, LinkNetwork>, index: u32, device: u32) -> Option<Offer> {
    let bytes = (engine.network).packet_bytes(engine.datagrams[index].bytes.len() as u32);
    let network = &mut engine.network;
    let (offer, arrives, _) = network.offer::<false>(engine.now, DOWN, bytes);
    if offer.fate != Fate::Arrives {
        return Some(offer);
    }
    let devices = network.devices.as_mut()?;
    devices.hold(device, index, arrives, offer.carried);
    network.held.insert(index, offer);
    None
}

/// Makes an event of the next receive window of a device, if packets wait for it.
fn await_window(engine: &mut Engine<'_, LinkNetwork>, device: u32) {
    let devices = engine.network.devices.as_mut();
    let opens = devices.and_then(|devices| devices.next_window(device, engine.now));
    if let Some(opens) = opens {
        let event = Event::Network(Arrival {
            datagram: WINDOWS + device,
        });
        engine.queue.push(opens, event);
    }
}

/// Sends the frames of a receive window of a device.
#[cold]
#[inline(never)]
fn open_window(engine: &mut Engine<'_, LinkNetwork>, device: u32) {
    let now = engine.now;
    let network = &mut engine.network;
    let devices = network.devices.as_mut();
    let sent = devices.and_then(|devices| devices.open(device, now));
    if let Some((datagram, arrives)) = sent
        && let Some(mut offer) = network.held.remove(&datagram)
    {
        if let Some(arrives) = arrives {
            engine
                .queue
                .push(arrives, Event::Network(Arrival { datagram }));
        } else {
            offer.fate = Fate::Lost;
        }
        network.offered.push_back((datagram, offer));
    }
    await_window(engine, device);
}

/// The direction of a datagram.
fn direction_of<N: Network>(engine: &Engine<'_, N>, datagram: &Datagram) -> usize {
    match engine.hosts[datagram.from as usize].place {
        BEYOND => DOWN,
        _ => UP,
    }
}

/// The device that sends or receives a datagram: its host, or one of several that the host is, by its peer.
fn device_of<N: Network>(engine: &Engine<'_, N>, datagram: &Datagram, direction: usize) -> u32 {
    let (host, peer) = if direction == UP {
        (datagram.from, datagram.to)
    } else {
        (datagram.to, datagram.from)
    };
    if engine.hosts[host as usize].place == CONSTRAINED_EACH {
        peer
    } else {
        host
    }
}

/// The event that serves the queues of flows of a direction, in the place of a datagram.
const SERVES: [u32; 2] = [u32::MAX - 1, u32::MAX];
/// The event of a receive window of the first device, in the place of a datagram. Events of others follow.
///
/// A device has the number of its host: clients come first, then at most one server for each.
const WINDOWS: u32 = SERVES[DOWN] - 2 * CLIENTS_MAX;

impl LinkNetwork {
    pub(crate) fn new(spec: &LinkNetworkSpec, seed: u64) -> Self {
        let LinkSpec { down, up } = &spec.link;
        let link = LinkSpec {
            down: down.behind_queues(),
            up: up.behind_queues(),
        };
        let queues = |line: &DirectionSpec| FairQueue::of(line).map(Box::new);
        let is_special = |line: &DirectionSpec| {
            queues(line).is_some() || line.impairments.duplication != Probability::NEVER
        };
        Self {
            is_special: spec.device.is_used() || is_special(down) || is_special(up),
            link: Link::new(&link, seed, "link"),
            fair: [queues(down), queues(up)],
            is_served: [false; 2],
            held: BTreeMap::new(),
            offered: VecDeque::new(),
            header_bytes: spec.header_bytes,
            mtu_bytes: spec.mtu_bytes,
            devices: Devices::on_link(&spec.device, &spec.link, seed).map(Box::new),
        }
    }

    /// Offers a packet of a device. Returns its fate, its arrival, and whether it arrives twice.
    fn carry(
        &mut self,
        now: Instant,
        direction: usize,
        device: u32,
        bytes: u32,
    ) -> (Offer, Instant, bool) {
        let (mut offer, mut arrives, duplicated) = self.offer::<true>(now, direction, bytes);
        if let Some(devices) = &mut self.devices {
            let on_air = match (direction, offer.fate) {
                (DOWN, Fate::Lost) => 0, // the base station sent it in vain
                _ => offer.carried,
            };
            match devices.arrival(device, direction, now, arrives, on_air) {
                Some(at) => arrives = at,
                None if offer.fate == Fate::Arrives => offer.fate = Fate::Lost,
                None => {}
            }
        }
        (offer, arrives, duplicated)
    }

    /// Notes the fate of datagrams that queues of flows dropped.
    fn drop_waiting(&mut self, now: Instant, dropped: impl IntoIterator<Item = Waiting>) {
        for Waiting {
            datagram, bytes, ..
        } in dropped
        {
            let packets = fragments(bytes, self.mtu_bytes).count() as u64;
            let more = packets.saturating_sub(1) * u64::from(IP_HEADER);
            let offer = Offer {
                fate: Fate::Dropped,
                carried: 0,
                departed: now,
                packets,
                header_bytes: u64::from(self.header_bytes) + more,
            };
            self.offered.push_back((datagram, offer));
        }
    }

    /// Offers a packet in as many fragments as it needs. Returns its fate, its arrival, and, where
    /// there may be `DUPLICATES`, whether it arrives twice: all of its fragments do.
    #[expect(
        clippy::inline_always,
        reason = "a call for each datagram costs a percent of a run"
    )]
    #[inline(always)]
    fn offer<const DUPLICATES: bool>(
        &mut self,
        now: Instant,
        direction: usize,
        bytes: u32,
    ) -> (Offer, Instant, bool) {
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
        let (mut arrives, mut all_duplicated) = (now, DUPLICATES);
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
                    // One missing fragment loses the datagram (RFC 791 3.2), but those after it use
                    // the link: an IP sender knows nothing of the loss.
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
            // Clients of requests, or the server of notifications: the devices behind the link.
            Placement::Client(_) | Placement::ConstrainedServer => CONSTRAINED,
            Placement::ConstrainedServers => CONSTRAINED_EACH,
            Placement::Server | Placement::RemoteClient(_) => BEYOND,
        }
    }

    fn send(engine: &mut Engine<'_, Self>, index: u32) -> Option<Offer> {
        if engine.network.is_special {
            send_special(engine, index)
        } else {
            Some(send_plain(engine, index))
        }
    }

    #[inline]
    fn handle(engine: &mut Engine<'_, Self>, event: Arrival) -> Option<u32> {
        if event.datagram < WINDOWS {
            return Some(event.datagram);
        }
        match event.datagram.checked_sub(SERVES[DOWN]) {
            Some(direction) => serve(engine, direction as usize),
            None => open_window(engine, event.datagram - WINDOWS),
        }
        None
    }

    #[inline]
    fn has_offered(&self) -> bool {
        !self.offered.is_empty()
    }

    fn take_offered(&mut self) -> Option<(u32, Offer)> {
        self.offered.pop_front()
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
        if let Some(devices) = &mut self.devices {
            verdict = devices.cross(client, from_server, now, verdict, bytes);
        }
        Some((direction, verdict))
    }

    fn reset_counters(&mut self) {
        self.link.up.forget_counters();
        self.link.down.forget_counters();
        for queues in self.fair.iter_mut().flatten() {
            queues.forget_counters();
        }
    }

    fn into_record(self, now: Instant, record: &mut RunRecord) {
        let devices = self.devices.map(|devices| devices.records(now));
        record.devices = devices.unwrap_or_default();
        let [down, up] = [(&self.link.down, DOWN), (&self.link.up, UP)].map(|(line, direction)| {
            let counters = line.counters();
            let queues = self.fair[direction].as_deref();
            queues.map_or(counters, |queues| queues.counters_with(counters))
        });
        (record.link.down, record.link.up) = (down, up);
    }
}

/// Puts a datagram into the queue of its flow, if its direction has such queues. Its event comes at the
/// same time, when applications can count the fate of others.
#[cold]
#[inline(never)]
fn enqueue(engine: &mut Engine<'_, LinkNetwork>, index: u32) -> bool {
    let datagram = &engine.datagrams[index];
    let bytes = engine.network.packet_bytes(datagram.bytes.len() as u32);
    let direction = direction_of(engine, datagram);
    let device = device_of(engine, datagram, direction);
    let network = &mut engine.network;
    let Some(queues) = &mut network.fair[direction] else {
        return false;
    };
    let dropped = queues.enqueue(engine.now, device, index, bytes);
    network.drop_waiting(engine.now, dropped);
    if !std::mem::replace(&mut network.is_served[direction], true) || !network.offered.is_empty() {
        let event = Event::Network(Arrival {
            datagram: SERVES[direction],
        });
        engine.queue.push(engine.now, event);
    }
    true
}

/// Sends the next datagram from the queues of flows, when the line is free.
#[cold]
#[inline(never)]
fn serve(engine: &mut Engine<'_, LinkNetwork>, direction: usize) {
    let now = engine.now;
    let network = &mut engine.network;
    let line = match direction {
        DOWN => &network.link.down,
        _ => &network.link.up,
    };
    if !line.backlog(now, 0).is_zero() {
        return; // another event comes when it is free
    }
    let Some(queues) = &mut network.fair[direction] else {
        return;
    };
    let mut dropped = Vec::new();
    let next = queues.dequeue(now, &mut dropped);
    network.drop_waiting(now, dropped);
    let Some(Waiting {
        datagram, bytes, ..
    }) = next
    else {
        network.is_served[direction] = false;
        return;
    };
    let device = device_of(engine, &engine.datagrams[datagram], direction);
    let network = &mut engine.network;
    let (offer, arrives, duplicated) = network.carry(now, direction, device, bytes);
    network.offered.push_back((datagram, offer));
    if offer.fate == Fate::Arrives {
        let arrival = Event::Network(Arrival { datagram });
        engine.queue.push(arrives, arrival);
        if duplicated {
            engine.datagrams.hold(datagram);
            engine.queue.push(arrives, arrival);
        }
    }
    let event = Event::Network(Arrival {
        datagram: SERVES[direction],
    });
    engine.queue.push(offer.departed.max(now), event);
}
