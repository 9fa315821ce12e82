//! RPL nodes on a medium with delays of a few milliseconds and optional random loss per frame.

use carob_cc::time::{Duration, Instant};
use carob_mesh::Node;
use carob_mesh::rpl::{Destination, Hop, Message, Output, Rpl, RplEvent, RplOption};
use carob_mesh::spec::RplSpec;
use carob_sim_core::queue::EventQueue;
use carob_sim_core::random::{Probability, Stream};

/// Maximum number of hops of a packet.
const HOPS_MAX: usize = 64;
/// Maximum number of transmissions of a frame.
const TRANSMISSIONS_MAX: u8 = 4;

enum Event {
    Timer(Node),
    Arrival {
        to: Node,
        from: Node,
        message: Message,
    },
    Feedback {
        node: Node,
        to: Node,
        transmissions: u8,
        acknowledged: bool,
    },
    /// A message for the root at this node.
    Upward {
        at: Node,
        from: Option<Node>,
        origin: Node,
        option: RplOption,
        message: Message,
        hops: usize,
    },
}

pub(crate) struct Network {
    pub(crate) nodes: Vec<Rpl>,
    /// Links between nodes.
    pub(crate) links: Vec<Vec<Node>>,
    timers: Vec<Option<Instant>>,
    queue: EventQueue<Event>,
    pub(crate) delivery: Probability,
    stream: Stream,
    pub(crate) events: Vec<(Instant, Node, RplEvent)>,
    /// Number of DIS, DIO and DAO messages sent.
    pub(crate) sent: [u64; 3],
    /// Hops of packets with the rank error bit.
    pub(crate) rank_errors: usize,
    /// A digest of all messages in order.
    pub(crate) digest: u64,
}

impl Network {
    /// A grid with the root in a corner.
    pub(crate) fn grid(columns: Node, rows: Node, spec: &RplSpec, seed: u64) -> Self {
        let neighbours = |node: Node| {
            let (column, row) = (node % columns, node / columns);
            let mut links = Vec::new();
            if column > 0 {
                links.push(node - 1);
            }
            if column + 1 < columns {
                links.push(node + 1);
            }
            if row > 0 {
                links.push(node - columns);
            }
            if row + 1 < rows {
                links.push(node + columns);
            }
            links
        };
        Self::new((0..columns * rows).map(neighbours).collect(), spec, seed)
    }

    pub(crate) fn new(links: Vec<Vec<Node>>, spec: &RplSpec, seed: u64) -> Self {
        let count = Node::try_from(links.len()).expect("a small network");
        let node = |node: Node| {
            let stream = Stream::indexed(seed, "rpl", u32::from(node));
            Rpl::new(node, node == 0, spec, stream)
        };
        let mut network = Self {
            nodes: (0..count).map(node).collect(),
            timers: vec![None; links.len()],
            links,
            queue: EventQueue::new(),
            delivery: Probability::ALWAYS,
            stream: Stream::new(seed, "medium"),
            events: Vec::new(),
            sent: [0; 3],
            rank_errors: 0,
            digest: 0,
        };
        for node in 0..count {
            network.nodes[usize::from(node)].start(Instant::ZERO);
            network.drain(node);
        }
        network
    }

    fn now(&self) -> Instant {
        self.queue.now()
    }

    pub(crate) fn run_until(&mut self, end: Instant) {
        while let Some((now, event)) = self.queue.pop_until(end) {
            match event {
                Event::Timer(node) => {
                    if self.timers[usize::from(node)].is_none_or(|at| at > now) {
                        continue;
                    }
                    self.timers[usize::from(node)] = None;
                    self.nodes[usize::from(node)].handle_timeout(now);
                    self.drain(node);
                }
                Event::Arrival { to, from, message } => {
                    self.nodes[usize::from(to)].handle_message(now, from, &message);
                    self.drain(to);
                }
                Event::Feedback {
                    node,
                    to,
                    transmissions,
                    acknowledged,
                } => {
                    let rpl = &mut self.nodes[usize::from(node)];
                    rpl.handle_feedback(now, to, transmissions, acknowledged);
                    self.drain(node);
                }
                Event::Upward {
                    at,
                    from,
                    origin,
                    option,
                    message,
                    hops,
                } => {
                    self.upward(at, from, origin, option, message, hops);
                }
            }
        }
    }

    fn drain(&mut self, node: Node) {
        loop {
            let now = self.now();
            match self.nodes[usize::from(node)].poll() {
                Output::Wait(at) => {
                    let timer = &mut self.timers[usize::from(node)];
                    if let Some(at) = at.filter(|at| timer.is_none_or(|timer| *at < timer)) {
                        *timer = Some(at);
                        self.queue.push(at, Event::Timer(node));
                    }
                    return;
                }
                Output::Event(event) => self.events.push((now, node, event)),
                Output::Send { to, message } => {
                    let kind = match message {
                        Message::Dis { .. } => 0,
                        Message::Dio { .. } => 1,
                        Message::Dao { .. } => 2,
                    };
                    self.sent[kind] += 1;
                    let word = now.as_micros() ^ (u64::from(node) << 48) ^ kind as u64;
                    self.digest = (self.digest ^ word).wrapping_mul(0x0100_0000_01b3);
                    self.send(node, to, message);
                }
            }
        }
    }

    fn send(&mut self, node: Node, to: Destination, message: Message) {
        match to {
            Destination::Multicast => {
                for index in 0..self.links[usize::from(node)].len() {
                    let to = self.links[usize::from(node)][index];
                    if self.stream.happens(self.delivery) {
                        let at = self.now() + self.delay();
                        self.queue.push(
                            at,
                            Event::Arrival {
                                to,
                                from: node,
                                message,
                            },
                        );
                    }
                }
            }
            Destination::Neighbour(to) => {
                if let Some(at) = self.unicast(node, to) {
                    self.queue.push(
                        at,
                        Event::Arrival {
                            to,
                            from: node,
                            message,
                        },
                    );
                }
            }
            Destination::Root => {
                let now = self.now();
                let upward = Event::Upward {
                    at: node,
                    from: None,
                    origin: node,
                    option: RplOption::default(),
                    message,
                    hops: 0,
                };
                self.queue.push(now, upward);
            }
        }
    }

    /// A frame to a neighbour: its arrival, if any, and the feedback to the sender.
    pub(crate) fn unicast(&mut self, node: Node, to: Node) -> Option<Instant> {
        let linked = self.links[usize::from(node)].contains(&to);
        let mut transmissions = 0;
        let mut acknowledged = false;
        while transmissions < TRANSMISSIONS_MAX && !acknowledged {
            transmissions += 1;
            acknowledged = linked && self.stream.happens(self.delivery);
        }
        let at = self.now() + self.delay();
        let feedback = Event::Feedback {
            node,
            to,
            transmissions,
            acknowledged,
        };
        self.queue.push(at, feedback);
        acknowledged.then_some(at)
    }

    fn delay(&mut self) -> Duration {
        self.stream
            .uniform(Duration::from_millis(3), Duration::from_millis(12))
    }

    fn upward(
        &mut self,
        at: Node,
        from: Option<Node>,
        origin: Node,
        mut option: RplOption,
        message: Message,
        hops: usize,
    ) {
        let now = self.now();
        let hop = self.nodes[usize::from(at)].route(now, 0, &mut option, from);
        self.drain(at);
        match hop {
            Hop::Here => {
                self.nodes[0].handle_message(now, origin, &message);
                self.drain(0);
            }
            Hop::To(next) if hops < HOPS_MAX => {
                if let Some(arrival) = self.unicast(at, next) {
                    let from = Some(at);
                    let hops = hops + 1;
                    let upward = Event::Upward {
                        at: next,
                        from,
                        origin,
                        option,
                        message,
                        hops,
                    };
                    self.queue.push(arrival, upward);
                }
            }
            Hop::To(_) | Hop::NoRoute | Hop::Loop => {}
        }
    }

    /// Nodes that a packet passes, the destination last; none if it does not get there.
    pub(crate) fn walk(&mut self, from: Node, to: Node) -> Option<Vec<Node>> {
        let now = self.now();
        let mut option = RplOption::default();
        let (mut at, mut sender) = (from, None);
        let mut way = Vec::new();
        while way.len() < HOPS_MAX {
            match self.nodes[usize::from(at)].route(now, to, &mut option, sender) {
                Hop::Here => return Some(way),
                Hop::To(next) => {
                    assert!(
                        self.links[usize::from(at)].contains(&next),
                        "{at} to {next}"
                    );
                    (at, sender) = (next, Some(at));
                    way.push(next);
                }
                Hop::NoRoute | Hop::Loop => return None,
            }
            self.rank_errors += usize::from(option.rank_error);
        }
        None
    }

    pub(crate) fn others(&self) -> std::ops::Range<Node> {
        1..Node::try_from(self.nodes.len()).expect("a small network")
    }

    /// The way to the root by parents.
    pub(crate) fn parents(&self, node: Node) -> Option<Vec<Node>> {
        let mut way = Vec::new();
        let mut at = node;
        while at != 0 {
            at = self.nodes[usize::from(at)].preferred_parent()?;
            way.push(at);
            if way.len() > self.nodes.len() {
                return None;
            }
        }
        Some(way)
    }

    /// No loops, and ranks that rise from the root on.
    pub(crate) fn assert_dodag(&self) {
        for node in self.others() {
            let rpl = &self.nodes[usize::from(node)];
            let parent = rpl.preferred_parent();
            let parent = parent.unwrap_or_else(|| panic!("{node} has no parent"));
            assert!(
                rpl.rank() > self.nodes[usize::from(parent)].rank(),
                "{node} under {parent}"
            );
            assert!(
                self.parents(node).is_some(),
                "{node} has no way to the root"
            );
        }
    }
}
