//! What a wireless network is told.
//!
//! Defaults are those of the CoCoA+ study (Betzler et al. 2015) as Contiki 2.7 ran it; scenarios
//! of other studies set what differs. Lengths are whole millimetres, so that nodes on a grid are
//! exactly at a range or not.

use carob_cc::time::Duration;

use crate::random::Probability;
use crate::spec::Span;

/// One wireless network with its traffic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeshSpec {
    /// Where nodes are, and who does what.
    pub topology: TopologySpec,
    /// The medium.
    pub radio: RadioSpec,
    /// Access to it.
    pub mac: MacSpec,
    /// IPv6 over it.
    pub lowpan: LowpanSpec,
    /// Where routes come from.
    pub routing: Routing,
    /// RPL's settings; of static routing too, whose routes come from a quiet run of RPL.
    pub rpl: RplSpec,
    /// What nodes are like above IPv6.
    pub node: NodeSpec,
    /// What they say.
    pub traffic: Traffic,
    /// Time for RPL alone, before there is traffic. Nothing of it is counted but RPL's own figures.
    pub warm_up: Duration,
    /// Traffic is made, and everything counted, for this long after the warm-up.
    pub duration: Duration,
    /// Spans of time to count in, from the end of the warm-up on.
    pub bin: Duration,
    /// The node whose rank, ETX and RTO are traced; none to leave it to the network: the one among
    /// those with descendants that has the most neighbours, the lowest number among equals.
    pub traced: Option<u16>,
}

/// The shape of a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopologySpec {
    /// Which shape.
    pub shape: Shape,
    /// Where the RPL root is.
    pub root: Position,
    /// Where the primary sink is; [`Position::Root`] if the root itself is it.
    pub sink: Position,
    /// Where the secondary sink is, of traffic that has one.
    pub second_sink: Position,
    /// Whether the sink is a host outside the mesh, beyond the root, with this delay each way.
    pub outside: Option<Duration>,
    /// Distance between neighbours of regular shapes, in millimetres.
    pub edge_mm: u32,
    /// Seed of generated shapes: the same layout in every run.
    pub layout_seed: u64,
}

/// Shapes of networks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Nodes in a row.
    Chain(u16),
    /// Two 3 x 3 grids joined by a bar of three nodes: 21.
    Dumbbell,
    /// A grid of so many columns and rows.
    Grid(u16, u16),
    /// A look-alike of the PINT testbed (Vallati et al. 2020): 22 nodes on two floors, deep and sparse.
    Pint,
    /// A look-alike of the WiLAB testbed (same study): 26 nodes on one floor, shallow and dense.
    Wilab,
    /// A look-alike of the IoT-LAB site of Betzler et al. 2016: 60 nodes along corridors.
    IotLab,
}

impl Default for Shape {
    fn default() -> Self {
        Self::Grid(6, 6)
    }
}

/// A place in a shape.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Position {
    /// The shape's own: grids have the root in a corner, the primary sink at the middle of the
    /// opposite edge and the second sink beside the root; chains the root at one end, the sink at the
    /// other; the dumbbell the root in the bar, and a sink in the middle of a side's outer edge each.
    #[default]
    Usual,
    /// Where the root is.
    Root,
    /// The first corner or end.
    Corner,
    /// The corner or end opposite to it.
    OppositeCorner,
    /// The node nearest the middle.
    Centre,
    /// This node.
    Node(u16),
}

/// The medium.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RadioSpec {
    /// Transmission range in millimetres.
    pub range_mm: u32,
    /// Interference range in millimetres.
    pub interference_mm: u32,
    /// Whether a node exactly at a range is within it. Cooja's potential receivers are strictly
    /// below the larger range, and those at the transmission range exactly do receive.
    pub boundary: Boundary,
    /// Which transmissions a clear channel assessment notices.
    pub cca_range: CcaRange,
    /// Whether a node also holds back while it has locked on a frame (SFD high).
    pub sfd_sense: bool,
    /// A transmission is noticed by CCA only after so long.
    pub cca_delay: Duration,
    /// Time between the decision to send and the first bit on air: in it, nobody notices.
    pub turnaround: Duration,
    /// Time between the end of a frame and the beginning of its acknowledgement.
    pub ack_turnaround: Duration,
    /// How likely a frame is to arrive where nothing else is on the air.
    pub delivery: Delivery,
    /// Cooja's quirk: the end of any overlapping frame makes a receiver clean again, though others
    /// are still on the air.
    pub clear_on_first_end: bool,
    /// Noise from outside.
    pub interference: Option<Interference>,
}

/// Rules at a range's boundary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Boundary {
    /// At the interference range exactly a node is out (`d < R`).
    #[default]
    Strict,
    /// At it a node is in (`d <= R`).
    Inclusive,
}

/// Whose transmissions keep a node silent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CcaRange {
    /// Those of everybody in interference range.
    #[default]
    Interference,
    /// Those of everybody in transmission range.
    Transmission,
    /// Nobody's.
    Nothing,
}

/// Link delivery ratios.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Delivery {
    /// Every frame arrives.
    #[default]
    Perfect,
    /// The same ratio for every link.
    Fixed(Probability),
    /// A ratio drawn for each transmission, the same for all its receivers: by a cumulative
    /// distribution, piecewise linear between points of (ratio, share at most that), both rising.
    /// For frames to one node only the mean matters.
    Drawn(Vec<(Probability, Probability)>),
    /// `1 - (d/R)^2 (1 - ratio)` at distance `d` and range `R`.
    ByDistance(Probability),
    /// Each link's own, from the topology's table.
    Table,
}

/// Noise from outside, such as Wi-Fi: in each region of the topology an on/off process of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interference {
    /// Mean time that it is on, exponentially distributed.
    pub on: Duration,
    /// Mean time that it is off, likewise.
    pub off: Duration,
    /// While it is on, how likely each frame that a node in the region receives is lost.
    pub loss: Probability,
    /// While it is on, how likely a CCA in the region finds the channel busy.
    pub busy: Probability,
}

/// Access to the medium.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MacSpec {
    /// How.
    pub csma: Csma,
    /// Whether frames to one node are acknowledged, and sent again if they are not. Without,
    /// every frame sent reports success.
    pub acknowledged: bool,
    /// Transmissions of a frame at most, the first included.
    pub transmissions_max: u8,
    /// Frames that may wait in all queues of a node.
    pub buffers: u16,
    /// Neighbours that may have queues at once, broadcast being one. Contiki's; the standard has one
    /// queue for all, in order.
    pub neighbours_max: u16,
    /// Frames that may wait for one neighbour. Contiki's, too.
    pub frames_per_neighbour: u16,
    /// (sender, sequence number) pairs remembered to know duplicates by; 0 for no filter.
    pub duplicates_remembered: u8,
    /// How long a sender waits for an acknowledgement to begin. Contiki always waits so long, and only
    /// then looks what came.
    pub ack_wait: Duration,
}

/// Ways of access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Csma {
    /// Contiki 2.6 and 2.7: no first back-off, 125 ms as unit, linear, busy channels uncounted.
    #[default]
    Contiki27,
    /// Contiki 3.0: the same with exponential back-off.
    Contiki30,
    /// Contiki after November 2016: as in the standard with the clock's tick as unit.
    Contiki3x,
    /// IEEE 802.15.4-2006, unslotted.
    Ieee802154,
}

/// IPv6 over 802.15.4.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LowpanSpec {
    /// The most bytes of a frame in front of its FCS, MAC header included: 102 up to Contiki 2.7,
    /// 125 from 3.0.
    pub mac_bytes_max: u16,
    /// Whether packets within the DODAG have RPL's hop-by-hop option, which keeps the UDP header from being
    /// compressed (Contiki).
    pub rpl_option: bool,
    /// After how long an unfinished datagram is forgotten.
    pub reassembly_timeout: Duration,
    /// Whether a whole packet that arrives while another is put together is dropped (2.7).
    pub reassembly_blocks: bool,
    /// The largest IPv6 datagram in bytes, options included.
    pub datagram_max: u16,
}

/// Where routes come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Routing {
    /// RPL, all the time.
    #[default]
    Rpl,
    /// Those that a run of RPL without traffic has after this time, for ever.
    Static(Duration),
}

/// RPL (RFC 6550).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RplSpec {
    /// Whose steps are followed where releases differ in what no other field names.
    pub release: Release,
    /// Whether nodes keep routes downwards.
    pub mode: RplMode,
    /// How parents are chosen.
    pub objective: Objective,
    /// ETX's unit (Contiki 2.7: 128).
    pub etx_divisor: u16,
    /// MinHopRankIncrease.
    pub min_hop_rank_increase: u16,
    /// MRHOF's rank: the parent's rank plus ETX, or (3.x) at least MinHopRankIncrease more than the parent's.
    pub rank_rule: RankRule,
    /// ETX of a link of which nothing is known, in hundredths.
    pub initial_etx: u16,
    /// Weight of a new sample in ETX's moving average, in hundredths.
    pub etx_alpha: u8,
    /// The same while fewer than four transmissions were counted, those of the sample included
    /// ("not fresh" in 3.x): a frame that was sent four times is weighed with [`Self::etx_alpha`].
    pub etx_alpha_fresh: u8,
    /// The sample of a frame that was not acknowledged, in hundredths.
    pub etx_no_ack: u16,
    /// Links beyond this ETX, in hundredths, cannot lead to a parent; none to take any. The RPL study's "max link cost".
    pub max_link_metric: Option<u16>,
    /// The least gain in path ETX that makes a node change its parent, in hundredths.
    pub hysteresis: u16,
    /// MaxRankIncrease; 0 for no limit.
    pub max_rank_increase: u16,
    /// Whether a node that has lost all its parents forgets its lowest rank (2.7 and later as released;
    /// 2.6 keeps it, which can block its return).
    pub forgets_lowest_rank: bool,
    /// How often neighbours are probed with a DIO of their own: between these times; none for never.
    pub probing: Option<Span>,
    /// Lifetime of routes; none for ever.
    pub route_lifetime: Option<Duration>,
    /// Trickle's Imin.
    pub dio_interval_min: Duration,
    /// Trickle's doublings.
    pub dio_doublings: u8,
    /// Trickle's redundancy constant.
    pub dio_redundancy: u8,
    /// The first DIS of a node that has not joined.
    pub dis_first: Span,
    /// The time between further ones.
    pub dis_interval: Duration,
    /// The delay of DAOs.
    pub dao_delay: Span,
    /// Neighbours that a node may know.
    pub neighbours_max: u16,
    /// Routes that a node may keep, in storing mode; in non-storing mode nodes of which the root
    /// knows the parent.
    pub routes_max: u16,
    /// Whether a DAO that comes from another neighbour moves the route there (3.0). In 2.6 and 2.7
    /// the old next hop stays until the route is deleted.
    pub dao_moves_routes: bool,
    /// How long a route lasts after its No-Path DAO.
    pub no_path_delay: Duration,
    /// What becomes of packets that go the wrong way.
    pub loops: LoopRule,
    /// What becomes of packets for which there is no route.
    pub no_route: NoRoute,
}

/// Releases of ContikiRPL that differ in their steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Release {
    /// 2.6 and 2.7. Every DIO asks for new DAOs. Local repair is done whenever no parent can be
    /// had, and sends No-Path DAOs to neighbours, not to the parent alone. No-Path DAOs are not
    /// forwarded; the next node sends its own when the route ends. Infinite ranks reset Trickle
    /// whoever sends them. Of a full neighbour table the least used, oldest entry goes.
    #[default]
    V27,
    /// 3.0. Of these, every multicast DIO asks for new DAOs, No-Path DAOs go to the parent alone
    /// and are forwarded, ETX begins with the first sample, and full route tables lose the route
    /// that was not used for the longest time.
    V30,
    /// After 3.0 (master of 2018). Only the root's multicast DIOs ask for new DAOs, only the loss of a
    /// parent leads to local repair, only the parent's infinite rank resets Trickle. Parents whose ETX
    /// is fresh (four transmissions, the last within 10 min) come before others, and the best that is
    /// not is probed within 10 s. Of a full neighbour table the worst candidate goes for a better one.
    V3x,
}

/// What becomes of packets that go the wrong way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum LoopRule {
    /// A second rank error resets Trickle and the packet goes on; a packet that finds no way down
    /// goes up with the forwarding error bit set, which deletes the route it came by, and if the
    /// root deletes one the whole network is repaired (2.7).
    #[default]
    Forward,
    /// A second rank error resets Trickle and the packet is dropped; so is one that finds no way
    /// down, and a No-Path DAO goes back to the sender (3.0).
    Drop,
    /// That, and a rank error is answered with a DIO, and the next one tells the sender's rank;
    /// the root writes the option anew (3.x).
    Repair,
}

/// Modes of operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RplMode {
    /// Each node knows the way to its descendants.
    #[default]
    Storing,
    /// The root alone does, and sends packets with the whole way in them (RFC 6554).
    NonStoring,
}

/// Objective functions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Objective {
    /// The least ETX to the root, with hysteresis (RFC 6719).
    #[default]
    Mrhof,
    /// The least rank (RFC 6552).
    Of0,
}

/// How MRHOF computes ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RankRule {
    /// The parent's rank plus the link's ETX (2.7, 3.0).
    #[default]
    Sum,
    /// That, but at least MinHopRankIncrease above the parent's rank (3.x).
    AtLeastOneHop,
}

/// What becomes of packets without a route.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NoRoute {
    /// They are dropped at once (every Contiki that was read).
    #[default]
    Drop,
    /// So many wait for a route; the newest are dropped (the RPL study's text).
    Buffer(u16),
}

/// Nodes above IPv6.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeSpec {
    /// Messages that wait at a node while NSTART are on their way; 0 to drop them at once.
    pub queue: u16,
    /// Time between the arrival of a message at a node and what its endpoint does about it.
    pub processing: Duration,
    /// Time between the arrival of a packet at a node that sends it on and when its MAC has it. If
    /// it is none, a relay is on the air before the sender has judged the acknowledgement, and the
    /// sender's next frame finds the channel busy; motes take milliseconds.
    pub forwarding: Duration,
    /// Endpoints' timers run out at multiples of this; zero for exactly.
    pub tick: Duration,
    /// Erbium's quirk: the last copy is given up at once.
    pub gives_up_at_last_copy: bool,
}

/// What nodes say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Messages that each generator makes at a constant rate for the primary sink.
    pub constant: Option<Constant>,
    /// Messages that all generators make at the same moments.
    pub bursts: Option<Bursts>,
    /// Size of a message in bytes as it is counted in offered and carried load.
    pub counted_bytes: u16,
    /// Size of a message in bytes, from CoAP's header to the end of its payload.
    pub message_bytes: u16,
    /// Length of tokens in bytes.
    pub token_bytes: u8,
}

/// Constant traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Constant {
    /// Time between two messages of a node, the same for all. A node's first is at a uniformly drawn
    /// part of it (stream `"mesh/phase"`, node), or where `start` says.
    pub period: Period,
    /// When nodes begin, after the warm-up, drawn uniformly; none for the first period.
    pub start: Option<Span>,
}

/// How often a node makes a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Period {
    /// Each node so often.
    Each(Duration),
    /// So many bits a second of all nodes together, by [`Traffic::counted_bytes`].
    Load(u32),
}

/// Messages all at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bursts {
    /// When the first is, after the warm-up. A node's own offset, drawn uniformly from this span
    /// (stream `"mesh/burst"`, node), the same for all of its bursts.
    pub first: Span,
    /// Time between bursts; none if there is one only.
    pub every: Option<Duration>,
    /// Messages of each node in a burst.
    pub messages: u16,
    /// Who gets them.
    pub to: Sink,
    /// How they are sent.
    pub kind: BurstKind,
}

/// Sinks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sink {
    /// The primary one.
    #[default]
    Primary,
    /// The secondary one.
    Secondary,
}

/// How the messages of a burst are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BurstKind {
    /// CON POSTs.
    #[default]
    Posts,
    /// NON notifications, each of a resource of its own, which the sink observes. Registrations are
    /// handed over beside the radio.
    Notifications,
}

const fn micros(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

const fn span(low: Duration, high: Duration) -> Span {
    Span { low, high }
}

impl Default for TopologySpec {
    fn default() -> Self {
        Self {
            shape: Shape::default(),
            root: Position::Usual,
            sink: Position::Usual,
            second_sink: Position::Usual,
            outside: None,
            edge_mm: 10_000,
            layout_seed: 0,
        }
    }
}

impl Default for RadioSpec {
    fn default() -> Self {
        Self {
            range_mm: 10_000,
            interference_mm: 20_000,
            boundary: Boundary::Strict,
            cca_range: CcaRange::Interference,
            sfd_sense: true,
            cca_delay: micros(112),
            turnaround: micros(224),
            ack_turnaround: micros(256),
            delivery: Delivery::Perfect,
            clear_on_first_end: true,
            interference: None,
        }
    }
}

impl Default for MacSpec {
    fn default() -> Self {
        Self {
            csma: Csma::Contiki27,
            acknowledged: true,
            transmissions_max: 4,
            buffers: 8,
            neighbours_max: 2,
            frames_per_neighbour: 8,
            duplicates_remembered: 8,
            ack_wait: micros(1_041),
        }
    }
}

impl Default for LowpanSpec {
    fn default() -> Self {
        Self {
            mac_bytes_max: 102,
            rpl_option: true,
            reassembly_timeout: Duration::from_millis(500),
            reassembly_blocks: true,
            datagram_max: 140,
        }
    }
}

impl Default for RplSpec {
    fn default() -> Self {
        Self {
            release: Release::V27,
            mode: RplMode::Storing,
            objective: Objective::Mrhof,
            etx_divisor: 128,
            min_hop_rank_increase: 256,
            rank_rule: RankRule::Sum,
            initial_etx: 500,
            etx_alpha: 10,
            etx_alpha_fresh: 10,
            etx_no_ack: 1_000,
            max_link_metric: None,
            hysteresis: 50,
            max_rank_increase: 7 * 256,
            forgets_lowest_rank: false,
            probing: None,
            route_lifetime: None,
            dio_interval_min: micros(4_096_000),
            dio_doublings: 8,
            dio_redundancy: 10,
            dis_first: span(Duration::from_secs(1), Duration::from_secs(35)),
            dis_interval: Duration::from_secs(60),
            dao_delay: span(Duration::from_secs(2), Duration::from_secs(6)),
            neighbours_max: 64,
            routes_max: 64,
            dao_moves_routes: false,
            no_path_delay: Duration::from_secs(60),
            loops: LoopRule::Forward,
            no_route: NoRoute::Drop,
        }
    }
}

impl RplSpec {
    /// Contiki 3.0.
    pub fn contiki30() -> Self {
        Self {
            release: Release::V30,
            etx_divisor: 256,
            initial_etx: 200,
            forgets_lowest_rank: true,
            probing: Some(span(Duration::from_secs(60), Duration::from_secs(180))),
            dao_moves_routes: true,
            loops: LoopRule::Drop,
            ..Self::default()
        }
    }

    /// Contiki 3.x (after November 2016), as the RPL study's devices had it.
    pub fn contiki3x() -> Self {
        Self {
            release: Release::V3x,
            dao_moves_routes: true,
            loops: LoopRule::Repair,
            mode: RplMode::NonStoring,
            min_hop_rank_increase: 128,
            rank_rule: RankRule::AtLeastOneHop,
            initial_etx: 200,
            etx_alpha: 15,
            etx_alpha_fresh: 30,
            max_link_metric: Some(800),
            hysteresis: 75,
            max_rank_increase: 7 * 128,
            forgets_lowest_rank: true,
            probing: Some(span(Duration::from_secs(60), Duration::from_secs(180))),
            route_lifetime: Some(Duration::from_secs(30 * 60)),
            ..Self::default()
        }
    }
}

impl Default for NodeSpec {
    fn default() -> Self {
        Self {
            queue: 0,
            processing: Duration::from_millis(5),
            forwarding: Duration::from_millis(5),
            tick: Duration::ZERO,
            gives_up_at_last_copy: false,
        }
    }
}
