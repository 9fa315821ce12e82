//! RPL (RFC 6550) on one node, as `ContikiRPL` implements it.
//!
//! A sans-I/O state machine: after every input, drain [`Rpl::poll`] until [`Output::Wait`], and
//! call [`Rpl::handle_timeout`] at the time it names. [`RplSpec`] selects among Contiki's releases;
//! facts are from the sources of Contiki 2.6, 2.7, 3.0 and master (2018), `core/net/rpl`, and the
//! RFCs where those leave a choice. Timers are exact to the microsecond, not to Contiki's clock
//! tick.
//!
//! Left out, as in Contiki's defaults: DAO acknowledgements, metric containers, multicast routes,
//! several instances or DODAGs, leaf-only nodes. Neighbour discovery is left out as well: DIOs and
//! DAOs announce neighbours.
//!
//! Reading order: `message` (formats), `trickle` (DIO timer), `neighbours` (link
//! estimates), `objective` (ranks, parent selection, repair), `dio` (joining, probing),
//! `dao` with `routes` (downward routes), `forward` (packets).

mod dao;
mod dio;
mod forward;
mod message;
mod neighbours;
mod objective;
mod routes;
#[cfg(test)]
mod tests;
mod trickle;

use std::collections::VecDeque;

use carob_cc::time::{Duration, Instant};
use carob_sim_core::random::Stream;

pub use self::forward::Hop;
pub use self::message::Lollipop;
pub use self::message::{INFINITE_RANK, Message, RplOption};

use self::neighbours::EtxRule;
use self::neighbours::{Neighbours, NodeState, Reason};
use self::objective::Objective;
use self::routes::Routes;
use self::routes::SourceRoutes;
use self::trickle::Trickle;
use super::Node;
use super::spec::{RplMode, RplSpec};

/// Limit of outputs that wait for [`Rpl::poll`]; further ones are dropped. A node that is drained
/// after every input has a few more outputs than neighbours.
pub const OUTPUTS_MAX: usize = 8_192;

/// Period of the check for marked candidates and expired routes.
const PERIOD: Duration = Duration::from_secs(1);

/// An output of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send a message.
    Send {
        /// The destination.
        to: Destination,
        /// The message.
        message: Message,
    },
    /// An event.
    Event(RplEvent),
    /// Wait until this time, or for the next input.
    Wait(Option<Instant>),
}

/// The destination of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    /// All neighbours, in one transmission.
    Multicast,
    /// This neighbour.
    Neighbour(Node),
    /// The root, as a packet routed there ([`Rpl::route`] on every node).
    Root,
}

/// An event of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RplEvent {
    /// The node joined a DODAG for the first time.
    Joined,
    /// The preferred parent changed, was lost, or was regained. A change that is reverted within
    /// one input is not reported.
    ParentChanged {
        /// The old parent.
        from: Option<Node>,
        /// The new parent.
        to: Option<Node>,
    },
    /// The node lost its route to the root; its next DIO poisons its rank.
    Poisoned,
    /// The node removed all its parents (RFC 6550, 8.2.2.3 and 8.2.2.5).
    LocalRepair,
    /// The node joined a new version of the DODAG, or started one as root.
    GlobalRepair,
}

/// A neighbour, as [`Rpl::neighbours`] shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeighbourView {
    /// The neighbour.
    pub node: Node,
    /// Its last advertised rank; none before its first DIO.
    pub rank: Option<u16>,
    /// ETX of the link to it, in hundredths.
    pub etx_hundredths: u32,
}

/// The last reported state.
#[derive(Clone, Copy, Debug, Default)]
struct Reported {
    parent: Option<Node>,
    poison: bool,
}

/// RPL on one node.
#[derive(Clone, Debug)]
pub struct Rpl {
    node: Node,
    is_root: bool,
    spec: RplSpec,
    etx_rule: EtxRule,
    objective: Objective,
    stream: Stream,

    joined: bool,
    version: Lollipop,
    rank: u16,
    lowest_rank: u16,
    preferred: Option<Node>,
    neighbours: Neighbours,

    /// The DTSN of the next DIO.
    dtsn: Lollipop,
    /// The number of the last DAO.
    sequence: Lollipop,
    routes: Routes,
    source_routes: SourceRoutes,

    trickle: Trickle,
    /// Phase of the periodic check within its period; drawn by node.
    phase: Duration,
    /// True if a neighbour is marked.
    marked: bool,
    /// No route expires before this.
    next_end: Instant,
    tick_at: Option<Instant>,
    dis_at: Option<Instant>,
    dao_at: Option<Instant>,
    refresh_at: Option<Instant>,
    probe_at: Option<Instant>,
    /// The neighbour to be probed next, before all others.
    urgent: Option<Node>,

    reported: Reported,
    outputs: VecDeque<Output>,
}

impl Rpl {
    /// Creates a node that has not started. `stream` is its own.
    pub fn new(node: Node, is_root: bool, spec: &RplSpec, mut stream: Stream) -> Self {
        let doublings = spec.dio_doublings;
        let phase = stream.uniform(Duration::ZERO, PERIOD);
        let of_root = |size: Option<u16>| size.filter(|_| is_root);
        let neighbours_max = of_root(spec.root_neighbours_max).unwrap_or(spec.neighbours_max);
        let routes_max = of_root(spec.root_routes_max).unwrap_or(spec.routes_max);
        Self {
            node,
            is_root,
            etx_rule: EtxRule::new(spec),
            objective: Objective::new(spec),
            stream,
            joined: false,
            version: Lollipop::START,
            rank: INFINITE_RANK,
            lowest_rank: INFINITE_RANK,
            preferred: None,
            neighbours: Neighbours::new(neighbours_max),
            dtsn: Lollipop::START,
            sequence: Lollipop::START,
            routes: Routes::new(routes_max),
            source_routes: SourceRoutes::new(node, routes_max),
            trickle: Trickle::new(spec.dio_interval_min, doublings, spec.dio_redundancy),
            phase,
            marked: false,
            next_end: Instant::FAR_FUTURE,
            tick_at: None,
            dis_at: None,
            dao_at: None,
            refresh_at: None,
            probe_at: None,
            urgent: None,
            reported: Reported::default(),
            outputs: VecDeque::new(),
            spec: spec.clone(),
        }
    }

    /// Starts the node, once: the root with its DODAG, other nodes with their DIS timer.
    pub fn start(&mut self, now: Instant) {
        if self.joined || self.dis_at.is_some() {
            return;
        }
        if self.is_root {
            self.joined = true;
            self.rank = self.root_rank();
            self.lowest_rank = self.rank;
            self.trickle.start(now, &mut self.stream);
            self.event(RplEvent::Joined);
        } else {
            let first = self.spec.dis_first;
            self.dis_at = Some(now + self.stream.uniform(first.low, first.high));
        }
    }

    /// Handles a received message. `from` is the neighbour that sent it; for a DAO in non-storing
    /// mode, its originator.
    pub fn handle_message(&mut self, now: Instant, from: Node, message: &Message) {
        if from == self.node {
            return;
        }
        match *message {
            Message::Dis { multicast } => self.handle_dis(now, from, multicast),
            Message::Dio {
                rank,
                version,
                dtsn,
            } => self.handle_dio(now, from, rank, version, dtsn),
            Message::Dao {
                target,
                parent,
                no_path,
                ..
            } => match self.spec.mode {
                RplMode::Storing => self.handle_dao(now, from, target, no_path),
                RplMode::NonStoring => self.handle_dao_as_root(now, target, parent, no_path),
            },
        }
        self.settle(now);
    }

    /// Reports the completion of a frame to this neighbour, data or control: acknowledged after
    /// this many transmissions, or given up after them. Frames given up on a busy channel carry no
    /// information about the link and must not be reported.
    pub fn handle_feedback(
        &mut self,
        now: Instant,
        neighbour: Node,
        transmissions: u8,
        acknowledged: bool,
    ) {
        let counts_for_all = self.spec.release >= super::spec::Release::V3x;
        let rule = self.etx_rule;
        let Some(neighbour) = self.neighbours.get_mut(neighbour) else {
            return;
        };
        if neighbour.candidate || counts_for_all {
            neighbour
                .link
                .sample(&rule, now, transmissions, acknowledged);
        }
        if neighbour.candidate {
            neighbour.marked = true;
            self.marked = true;
        }
        self.settle(now);
    }

    /// Handles the timeout announced by [`Output::Wait`]. Earlier calls do nothing.
    pub fn handle_timeout(&mut self, now: Instant) {
        let due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        if due(self.tick_at) {
            self.tick_at = None;
            self.purge_routes(now);
            self.reconsider_marked(now);
        }
        if due(self.dis_at) {
            self.dis_at = Some(now + self.spec.dis_interval.max(PERIOD));
            self.send(Destination::Multicast, Message::Dis { multicast: true });
        }
        if due(self.trickle.at()) && self.trickle.expire(now, &mut self.stream) {
            let dio = self.dio(true);
            self.send(Destination::Multicast, dio);
        }
        if due(self.dao_at) || due(self.refresh_at) {
            self.advertise(now);
        }
        if due(self.probe_at) {
            self.probe(now);
        }
        self.settle(now);
    }

    /// Returns the next output; [`Output::Wait`] if there is no other.
    #[inline]
    pub fn poll(&mut self) -> Output {
        if let Some(output) = self.outputs.pop_front() {
            return output;
        }
        let timers = [
            self.tick_at,
            self.dis_at,
            self.trickle.at(),
            self.dao_at,
            self.refresh_at,
            self.probe_at,
        ];
        Output::Wait(timers.into_iter().flatten().min())
    }

    /// Its rank; [`INFINITE_RANK`] without a route to the root.
    pub fn rank(&self) -> u16 {
        self.rank
    }

    /// The preferred parent: the next hop for all packets without a route down.
    pub fn preferred_parent(&self) -> Option<Node> {
        self.preferred
    }

    /// Returns whether it has ever joined a DODAG. A node that has lost all its parents still
    /// counts.
    pub fn is_joined(&self) -> bool {
        self.joined
    }

    /// Returns whether it is the root.
    pub fn is_root(&self) -> bool {
        self.is_root
    }

    /// The version of the DODAG, which global repair increments.
    pub fn version(&self) -> Lollipop {
        self.version
    }

    /// ETX of the link to a neighbour, in hundredths; none for an unknown neighbour.
    pub fn etx_hundredths(&self, neighbour: Node) -> Option<u32> {
        let neighbour = self.neighbours.get(neighbour)?;
        Some(self.etx_rule.hundredths(neighbour.link.etx))
    }

    /// Neighbours in the order of their addition.
    pub fn neighbours(&self) -> impl Iterator<Item = NeighbourView> {
        self.neighbours.iter().map(|neighbour| NeighbourView {
            node: neighbour.node,
            rank: neighbour.candidate.then_some(neighbour.rank),
            etx_hundredths: self.etx_rule.hundredths(neighbour.link.etx),
        })
    }

    /// Routes by target: in storing mode targets with their next hops, at the root in non-storing
    /// mode nodes with their parents.
    pub fn routes(&self) -> impl Iterator<Item = (Node, Node)> {
        let storing = self
            .routes
            .iter()
            .map(|route| (route.target, route.next_hop));
        storing.chain(self.source_routes.iter())
    }

    /// The number of routes. In non-storing mode, nodes known as parents only count.
    pub fn route_count(&self) -> usize {
        self.routes.len() + self.source_routes.len()
    }

    fn root_rank(&self) -> u16 {
        self.spec.min_hop_rank_increase.max(1)
    }

    /// `DAGRank` (RFC 6550, 3.5.1).
    fn dag_rank(&self, rank: u32) -> u32 {
        rank / u32::from(self.root_rank())
    }

    fn is_storing(&self) -> bool {
        self.spec.mode == RplMode::Storing
    }

    fn send(&mut self, to: Destination, message: Message) {
        self.output(Output::Send { to, message });
    }

    fn event(&mut self, event: RplEvent) {
        self.output(Output::Event(event));
    }

    fn output(&mut self, output: Output) {
        if self.outputs.len() < OUTPUTS_MAX {
            self.outputs.push_back(output);
        }
    }

    /// Reports changes and schedules the next check; called after every input.
    fn settle(&mut self, now: Instant) {
        if self.reported.parent != self.preferred {
            let (from, to) = (self.reported.parent, self.preferred);
            self.reported.parent = to;
            self.event(RplEvent::ParentChanged { from, to });
        }
        let poisoned = self.joined && self.rank == INFINITE_RANK;
        if poisoned && !self.reported.poison {
            self.event(RplEvent::Poisoned);
        }
        self.reported.poison = poisoned;

        let look = if self.marked {
            now
        } else {
            Instant::FAR_FUTURE
        };
        let end = self.next_end - Duration::from_micros(1);
        let wanted = look.min(end);
        self.tick_at = (wanted < Instant::FAR_FUTURE - PERIOD)
            .then(|| self.tick_after(wanted.max(now)))
            .into_iter()
            .chain(self.tick_at.filter(|at| *at > now))
            .min();
    }

    /// The first periodic check after a time.
    fn tick_after(&self, time: Instant) -> Instant {
        let (phase, period) = (self.phase.as_micros(), PERIOD.as_micros());
        let since = time.as_micros().saturating_sub(phase);
        if time.as_micros() < phase {
            return Instant::from_micros(phase);
        }
        Instant::from_micros((since / period + 1) * period) + self.phase
    }

    /// Adds a neighbour, if there is room or another is evicted. Returns whether it is in the
    /// table.
    fn admit(&mut self, node: Node, reason: Reason) -> bool {
        if self.neighbours.get(node).is_some() {
            return true;
        }
        if self.neighbours.is_full() {
            let node_state = NodeState {
                preferred: self.preferred,
                is_root: self.is_root,
                joined: self.joined,
                min_hop_rank_increase: self.root_rank(),
            };
            let release = self.spec.release;
            let neighbours = &self.neighbours;
            let Some(worst) = neighbours.to_remove(release, reason, node_state, &self.objective)
            else {
                return false;
            };
            self.forget(worst);
        }
        self.neighbours.add(node, &self.etx_rule);
        true
    }

    /// Removes a neighbour and the routes through it.
    fn forget(&mut self, node: Node) {
        if self.neighbours.candidate(node).is_some() {
            self.nullify(node);
        }
        self.routes.remove_by(node);
        self.neighbours.remove(node);
        self.urgent = self.urgent.filter(|urgent| *urgent != node);
    }
}
