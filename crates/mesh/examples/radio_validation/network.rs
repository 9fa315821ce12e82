//! Networks of the radio model without upper layers; frames are counted.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::mem;

use carob_cc::time::{Duration, Instant};
use carob_mesh::Node;
use carob_mesh::radio::{Event, Ground, Radio, Upcall};
use carob_mesh::spec::{CcaRange, Csma, Delivery, MacSpec, RadioSpec, Spacing};
use carob_mesh::topology::{Place, TableLink};
use carob_sim_core::random::{Probability, Stream};

/// Time from the end of a frame to the end of its acknowledgement: turnaround and 11 bytes. A relay forwards a frame
/// after acknowledging it.
const ACKNOWLEDGED: Duration = Duration::from_micros(192 + 352);
/// Queued frames of a saturated node, so that frames follow each other with the interframe spacing of the standard. The
/// model omits the spacing before a frame that finds an empty queue.
const SATURATED: u32 = 2;
/// Frame buffers of a node: more than are ever used.
const BUFFERS: u16 = 10_000;

/// Time for which assessments notice a signal after its end. The standard averages the energy over 128 us; ns-3 samples
/// at the end.
const ASSESSMENT_WINDOW: Duration = Duration::ZERO;

/// Counters of a run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    /// Messages generated.
    pub(crate) offered: u64,
    /// Distinct messages received by node 0.
    pub(crate) delivered: u64,
    /// Sum of their delays.
    pub(crate) delay: Duration,
    /// Frames passed to MACs.
    pub(crate) frames: u64,
    /// Frame transmissions.
    pub(crate) transmissions: u64,
}

impl Totals {
    pub(crate) fn plus(mut self, other: Self) -> Self {
        self.offered += other.offered;
        self.delivered += other.delivered;
        self.delay += other.delay;
        self.frames += other.frames;
        self.transmissions += other.transmissions;
        self
    }
}

/// A message: source and time of generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Message {
    from: Node,
    number: u32,
    at: Instant,
}

/// Events of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NetworkEvent {
    Radio(Event),
    Generate,
    /// A relay forwards a message.
    Forward(Node, Message),
}

/// A network with its events.
pub(crate) struct Network {
    radio: Radio<Message>,
    nodes: Node,
    bytes: u16,
    /// Mean interval of messages from the far end of a chain; none for saturated nodes.
    gap: Option<Duration>,
    gaps: Stream,
    numbers: Vec<u32>,
    seen: BTreeSet<(Node, Node, u32)>,
    events: BinaryHeap<Reverse<(Instant, u64, usize)>>,
    slots: Vec<Option<NetworkEvent>>,
    free: Vec<usize>,
    count: u64,
    totals: Totals,
}

impl Network {
    /// `nodes` saturated nodes around node 0; with `hidden` they receive node 0 only.
    pub(crate) fn star(nodes: Node, bytes: u16, hidden: bool, seed: u64) -> Self {
        let of = |from: Node| {
            (0..=nodes)
                .filter(move |to| *to != from)
                .map(move |to| (from, to))
        };
        let links = (0..=nodes).flat_map(of);
        let links = links.filter(|(from, to)| !hidden || *from == 0 || *to == 0);
        Self::new(nodes + 1, links.collect(), bytes, None, seed)
    }

    /// A chain whose far end generates messages for node 0; only neighbours are in range.
    pub(crate) fn chain(hops: Node, bytes: u16, rate: f64, seed: u64) -> Self {
        let links = (0..hops).flat_map(|node| [(node, node + 1), (node + 1, node)]);
        let gap = Duration::from_micros((1e6 / rate) as u64);
        Self::new(hops + 1, links.collect(), bytes, Some(gap), seed)
    }

    fn new(
        nodes: Node,
        links: Vec<(Node, Node)>,
        bytes: u16,
        gap: Option<Duration>,
        seed: u64,
    ) -> Self {
        let link = |(from, to)| TableLink {
            from,
            to,
            delivery: Probability::ALWAYS,
        };
        let table: Vec<TableLink> = links.into_iter().map(link).collect();
        let positions = vec![Place::default(); usize::from(nodes)];
        let ground = Ground {
            positions: &positions,
            regions: &[],
            table: Some(&table),
        };
        Self {
            radio: Radio::new(&ground, &standard_radio(), &standard_mac(), seed),
            nodes,
            bytes,
            gap,
            gaps: Stream::new(seed, "validation/gaps"),
            numbers: vec![0; usize::from(nodes)],
            seen: BTreeSet::new(),
            events: BinaryHeap::new(),
            slots: Vec::new(),
            free: Vec::new(),
            count: 0,
            totals: Totals::default(),
        }
    }

    /// Runs the network for a time.
    pub(crate) fn run(mut self, time: Duration) -> Totals {
        let end = Instant::ZERO + time;
        match self.gap {
            Some(gap) => {
                let first = self.gaps.exponential(gap);
                self.schedule(Instant::ZERO + first, NetworkEvent::Generate);
            }
            None => {
                for node in 1..self.nodes {
                    for _ in 0..SATURATED {
                        self.generate(Instant::ZERO, node);
                    }
                }
            }
        }
        let mut upcalls = Vec::new();
        while let Some(Reverse((now, _, slot))) = self.events.pop() {
            if now > end {
                break;
            }
            let event = self.slots[slot].take();
            self.free.push(slot);
            match event {
                Some(NetworkEvent::Radio(event)) => {
                    let mut new = Vec::new();
                    let mut schedule = |at, event| new.push((at, event));
                    self.radio.handle(now, event, &mut schedule, &mut upcalls);
                    for (at, event) in new {
                        self.schedule(at, NetworkEvent::Radio(event));
                    }
                    for upcall in mem::take(&mut upcalls) {
                        self.on_upcall(now, &upcall);
                    }
                }
                Some(NetworkEvent::Generate) => {
                    self.generate(now, self.nodes - 1);
                    if let Some(gap) = self.gap {
                        let gap = self.gaps.exponential(gap);
                        self.schedule(now + gap, NetworkEvent::Generate);
                    }
                }
                Some(NetworkEvent::Forward(node, message)) => self.send(now, node, message),
                None => {}
            }
        }
        for node in 0..self.nodes {
            let counters = self.radio.counters(node);
            self.totals.transmissions += counters.transmissions;
            self.totals.frames += counters.offered;
        }
        self.totals
    }

    fn schedule(&mut self, at: Instant, event: NetworkEvent) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        self.slots[slot] = Some(event);
        self.count += 1;
        self.events.push(Reverse((at, self.count, slot)));
    }

    fn generate(&mut self, now: Instant, node: Node) {
        let number = self.numbers[usize::from(node)];
        self.numbers[usize::from(node)] += 1;
        self.totals.offered += 1;
        let message = Message {
            from: node,
            number,
            at: now,
        };
        self.send(now, node, message);
    }

    /// Sends a message to the next hop: towards node 0 in a chain, to node 0 in a star.
    fn send(&mut self, now: Instant, node: Node, message: Message) {
        let to = if self.gap.is_some() { node - 1 } else { 0 };
        let mut new = Vec::new();
        let mut schedule = |at, event| new.push((at, event));
        let sent = self
            .radio
            .send(now, node, Some(to), self.bytes, message, &mut schedule);
        assert!(sent.is_ok(), "{sent:?}");
        for (at, event) in new {
            self.schedule(at, NetworkEvent::Radio(event));
        }
    }

    fn on_upcall(&mut self, now: Instant, upcall: &Upcall<Message>) {
        match *upcall {
            Upcall::Received { at, payload, .. } => {
                if !self.seen.insert((at, payload.from, payload.number)) {
                    return;
                }
                if at == 0 {
                    self.totals.delivered += 1;
                    self.totals.delay += now.since(payload.at);
                } else {
                    self.schedule(now + ACKNOWLEDGED, NetworkEvent::Forward(at, payload));
                }
            }
            Upcall::Sent { node, .. } => {
                if self.gap.is_none() {
                    self.generate(now, node);
                }
            }
        }
    }
}

/// The radio of IEEE 802.15.4-2006 at 2.4 GHz.
fn standard_radio() -> RadioSpec {
    RadioSpec {
        cca_range: CcaRange::Interference,
        sfd_sense: false,
        cca_delay: Duration::ZERO,
        cca_window: ASSESSMENT_WINDOW,
        turnaround: Duration::from_micros(192),
        ack_turnaround: Duration::from_micros(192),
        delivery: Delivery::Table,
        clear_on_first_end: false,
        interference: None,
        ..RadioSpec::default()
    }
}

/// Unslotted CSMA-CA of IEEE 802.15.4-2006 with its defaults.
fn standard_mac() -> MacSpec {
    MacSpec {
        csma: Csma::Ieee802154,
        transmissions_max: 4,
        buffers: BUFFERS,
        duplicates_remembered: 0,
        ack_wait: Duration::from_micros(864),
        spacing: Spacing::AfterSuccess,
        ..MacSpec::default()
    }
}
