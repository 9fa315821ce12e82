//! The specification of a wireless network.
//!
//! Defaults follow the CoCoA+ study (Betzler et al. 2015) as Contiki 2.7 ran it; scenarios of
//! other studies override them. Lengths are whole millimetres, so that nodes on a grid are exactly
//! at a range or not.

use carob_cc::time::Duration;

use carob_sim_core::random::{Probability, Span};

use super::Node;

/// A wireless network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeshSpec {
    /// Node positions and roles.
    pub topology: TopologySpec,
    /// The medium.
    pub radio: RadioSpec,
    /// Channel access.
    pub mac: MacSpec,
    /// IPv6 adaptation layer (6LoWPAN).
    pub lowpan: LowpanSpec,
    /// The source of routes.
    pub routing: Routing,
    /// RPL settings. Static routes come from a run of RPL without traffic, so they use these as
    /// well.
    pub rpl: RplSpec,
    /// Delays and timers of nodes.
    pub node: NodeSpec,
    /// Warm-up: the time for RPL alone, before there is traffic. Only RPL's own metrics count it.
    pub warm_up: Duration,
    /// Duration of traffic and of all counting, after the warm-up.
    pub duration: Duration,
    /// Bin width of time series, from the end of the warm-up on.
    pub bin: Duration,
    /// The node whose rank, ETX and RTO are traced. Default: the node with descendants that has the
    /// most neighbours, the lowest number among equals.
    pub traced: Option<u16>,
}

impl Default for MeshSpec {
    /// The defaults of all layers, 5 min of warm-up and 10 min of traffic.
    fn default() -> Self {
        Self {
            topology: TopologySpec::default(),
            radio: RadioSpec::default(),
            mac: MacSpec::default(),
            lowpan: LowpanSpec::default(),
            routing: Routing::default(),
            rpl: RplSpec::default(),
            node: NodeSpec::default(),
            warm_up: Duration::from_secs(300),
            duration: Duration::from_secs(600),
            bin: Duration::from_secs(10),
            traced: None,
        }
    }
}

/// The topology of a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopologySpec {
    /// The shape.
    pub shape: Shape,
    /// Position of the RPL root.
    pub root: Position,
    /// Position of the primary sink; [`Position::Root`] for the root itself.
    pub sink: Position,
    /// Position of the secondary sink, for traffic that has one.
    pub second_sink: Position,
    /// One-way delay to a sink outside the mesh, beyond the root; none for a sink in the mesh.
    pub outside: Option<Duration>,
    /// Time for which the root receives nothing after a frame addressed to it: a border router whose
    /// processor writes each packet to a serial line. Zero for none.
    pub root_deaf: Duration,
    /// Distance between neighbours of regular shapes, in millimetres.
    pub edge_mm: u32,
    /// Seed of generated shapes: the same layout in every run.
    pub layout_seed: u64,
}

/// Topology shapes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Nodes in a row.
    Chain(u16),
    /// Two 3 x 3 grids joined by a bar of three nodes: 21.
    Dumbbell,
    /// A grid of (columns, rows).
    Grid(u16, u16),
    /// A synthetic PINT testbed (Vallati et al. 2020): 22 nodes on two floors, deep and sparse.
    Pint,
    /// A synthetic WiLAB testbed (same study): 26 nodes on one floor, shallow and dense.
    Wilab,
    /// A synthetic PINT with the hops, links per node and share of near-perfect links that the
    /// study's raw data has.
    PintByData,
    /// A synthetic WiLAB, likewise.
    WilabByData,
    /// A synthetic IoT-LAB site (Betzler et al. 2016): 60 nodes along corridors.
    IotLab,
    /// A graph of links, such as measured in a testbed. The first node is the root.
    Links(LinkGraph),
}

/// Nodes, numbered from 0 without gaps, and the links between them. Nodes without a link neither
/// hear nor disturb each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkGraph {
    /// Interference region of each node, numbered from 0 without gaps.
    pub regions: Vec<u8>,
    /// Links, each in one direction.
    pub links: Vec<TableLink>,
}

/// One direction of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableLink {
    /// The sender.
    pub from: Node,
    /// The receiver.
    pub to: Node,
    /// Delivery ratio on an otherwise idle medium. At 0, `to` senses the signal and suffers
    /// interference, but receives nothing.
    pub delivery: Probability,
}

impl Default for Shape {
    fn default() -> Self {
        Self::Grid(6, 6)
    }
}

/// A position in a shape.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Position {
    /// The default of the shape. Grids: the root in a corner, the primary sink at the middle of the
    /// opposite edge, the second sink beside the root. Chains: the root at one end, the sink at the
    /// other. The dumbbell: the root in the bar, and a sink in the middle of each side's outer
    /// edge.
    #[default]
    Usual,
    /// The root.
    Root,
    /// The first corner or end.
    Corner,
    /// The opposite corner or end.
    OppositeCorner,
    /// The node nearest the middle.
    Centre,
    /// The node with this number.
    Node(u16),
}

/// The medium.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RadioSpec {
    /// Transmission range in millimetres.
    pub range_mm: u32,
    /// Interference range in millimetres.
    pub interference_mm: u32,
    /// The rule for a node exactly at a range. Cooja's potential receivers are strictly below the
    /// larger range; those exactly at the transmission range do receive.
    pub boundary: Boundary,
    /// The transmissions that a clear channel assessment senses.
    pub cca_range: CcaRange,
    /// True if a node also defers while it has locked on a frame (SFD high).
    pub sfd_sense: bool,
    /// The time until CCA senses a transmission.
    pub cca_delay: Duration,
    /// The time for which CCA senses a transmission after its end: the detection time of a strong
    /// signal, 128 us in IEEE 802.15.4; zero in the emulated CC2420 that the CoCoA+ study ran on.
    pub cca_window: Duration,
    /// Time between the decision to transmit and the first bit on air; in it, the transmission
    /// cannot be sensed.
    pub turnaround: Duration,
    /// Time between the end of a frame and the beginning of its acknowledgement.
    pub ack_turnaround: Duration,
    /// Delivery ratio of a frame on an otherwise idle medium.
    pub delivery: Delivery,
    /// Cooja's quirk: the end of any overlapping frame clears a receiver's interference flag, even
    /// while other signals are present.
    pub clear_on_first_end: bool,
    /// External interference.
    pub interference: Option<Interference>,
    /// Rule by which a frame survives others that overlap it; none if it never does.
    pub capture: Option<CaptureRule>,
}

/// Rules by which a frame survives weaker signals that overlap it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaptureRule {
    /// The least ratio of signal to interference, in hundredths of a decibel.
    Threshold(u32),
    /// The bit error ratio of O-QPSK (IEEE 802.15.4-2006, E.4.1.8).
    Ieee802154,
    /// The same as in ns-3's lr-wpan, which leaves out interference that ends during a frame.
    Ns3,
}

/// Rules at the boundary of a range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Boundary {
    /// A node exactly at the interference range is outside (`d < R`).
    #[default]
    Strict,
    /// A node exactly at the range is inside (`d <= R`).
    Inclusive,
}

/// The transmissions that make a node defer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CcaRange {
    /// Those within the interference range.
    #[default]
    Interference,
    /// Those within the transmission range.
    Transmission,
    /// None.
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
    /// A ratio drawn for each transmission, the same for all its receivers: a cumulative
    /// distribution, piecewise linear between points (ratio, cumulative share), both rising. For
    /// unicast frames only the mean matters.
    Drawn(Vec<(Probability, Probability)>),
    /// `1 - (d/R)^2 (1 - ratio)` at distance `d` and range `R`.
    ByDistance(Probability),
    /// Each link's own ratio, from the topology's table.
    Table,
}

/// External interference, such as Wi-Fi: an independent on/off process in each region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interference {
    /// Mean on time, exponentially distributed.
    pub on: Duration,
    /// Mean off time, exponentially distributed.
    pub off: Duration,
    /// Loss probability of each frame received in the region while interference is on.
    pub loss: Probability,
    /// Probability that a CCA in the region finds the channel busy while interference is on.
    pub busy: Probability,
    /// Probability that a run has interference at all (stream `"mesh/radio/noise-run"`).
    pub runs: Probability,
}

/// The MAC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MacSpec {
    /// The channel access policy.
    pub csma: Csma,
    /// True if unicast frames are acknowledged and retransmitted. Otherwise every transmitted frame
    /// reports success.
    pub acknowledged: bool,
    /// Maximum transmissions of a frame, the first included.
    pub transmissions_max: u8,
    /// Frame buffers of a node, for all its queues.
    pub buffers: u16,
    /// Frame buffers of the root, if it has others.
    pub root_buffers: Option<u16>,
    /// Unit of the back-off in ticks of 1/128 s; Contiki 2.7 and 3.0 only, whose unit is the period of
    /// `NETSTACK_RDC_CHANNEL_CHECK_RATE` (8 a second by default).
    pub backoff_unit: u16,
    /// Maximum neighbour queues of a node, broadcast being one. Contiki only: the standard has one
    /// queue for all, in order.
    pub neighbours_max: u16,
    /// Maximum frames queued for one neighbour. Contiki only.
    pub frames_per_neighbour: u16,
    /// Size of the duplicate filter in (sender, sequence number) pairs; 0 for no filter.
    pub duplicates_remembered: u8,
    /// Acknowledgement timeout: the time for an acknowledgement to begin. Contiki always waits this
    /// long, and reads the received frame only then.
    pub ack_wait: Duration,
    /// Frames that an interframe spacing follows. The standard's policy only.
    pub spacing: Spacing,
}

/// Frames after which a node leaves an interframe spacing before the next one of its queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spacing {
    /// All, those given up as well.
    #[default]
    AfterAll,
    /// Frames that were acknowledged or broadcast (IEEE 802.15.4-2006, 7.5.1.3). The wait for an
    /// acknowledgement is longer than the spacing, and a frame that never found the channel clear has
    /// nothing to be separated from.
    AfterSuccess,
}

/// Channel access policies.
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
    /// Maximum frame size in bytes before the FCS, MAC header included: 102 up to Contiki 2.7, 125
    /// from 3.0.
    pub mac_bytes_max: u16,
    /// True if packets within the DODAG carry RPL's hop-by-hop option, which prevents the
    /// compression of the UDP header (Contiki).
    pub rpl_option: bool,
    /// Timeout of an incomplete datagram.
    pub reassembly_timeout: Duration,
    /// True if an unfragmented packet that arrives during a reassembly is dropped (2.7).
    pub reassembly_blocks: bool,
    /// The largest IPv6 datagram in bytes, options included.
    pub datagram_max: u16,
}

/// The source of routes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Routing {
    /// RPL runs all the time.
    #[default]
    Rpl,
    /// Static routes: those that a run of RPL without traffic has after this time.
    Static(Duration),
}

/// RPL (RFC 6550).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RplSpec {
    /// The release whose behaviour applies to differences without a field.
    pub release: Release,
    /// The mode of operation: storing or non-storing.
    pub mode: RplMode,
    /// The objective function.
    pub objective: Objective,
    /// ETX's unit (Contiki 2.7: 128).
    pub etx_divisor: u16,
    /// MinHopRankIncrease.
    pub min_hop_rank_increase: u16,
    /// MRHOF's rank: the parent's rank plus ETX, or (3.x) at least MinHopRankIncrease more than the
    /// parent's.
    pub rank_rule: RankRule,
    /// ETX of a link without any measurement, in hundredths.
    pub initial_etx: u16,
    /// Weight of a new sample in ETX's moving average, in hundredths.
    pub etx_alpha: u8,
    /// The same while fewer than four transmissions were counted, including the sample's
    /// ("not fresh" in 3.x): a frame that was sent four times is weighed with [`Self::etx_alpha`].
    pub etx_alpha_fresh: u8,
    /// The sample of an unacknowledged frame, in hundredths.
    pub etx_no_ack: u16,
    /// Maximum ETX of a link to a parent, in hundredths; none for no limit. The RPL study's "max
    /// link cost".
    pub max_link_metric: Option<u16>,
    /// Hysteresis: the least gain in path ETX that makes a node change its parent, in hundredths.
    pub hysteresis: u16,
    /// MaxRankIncrease; 0 for no limit.
    pub max_rank_increase: u16,
    /// True if a node that has lost all its parents resets its lowest rank (2.7 and later as
    /// released; 2.6 keeps it, which can block its return).
    pub forgets_lowest_rank: bool,
    /// Interval of probing neighbours with unicast DIOs; none for never.
    pub probing: Option<Span>,
    /// Lifetime of routes; none for infinite.
    pub route_lifetime: Option<Duration>,
    /// Trickle's Imin.
    pub dio_interval_min: Duration,
    /// Trickle's doublings.
    pub dio_doublings: u8,
    /// Trickle's redundancy constant.
    pub dio_redundancy: u8,
    /// Delay of the first DIS of a node that has not joined.
    pub dis_first: Span,
    /// Interval of further DISs.
    pub dis_interval: Duration,
    /// Delay of DAOs.
    pub dao_delay: Span,
    /// Neighbour table size of a node.
    pub neighbours_max: u16,
    /// Neighbour table size of the root, if it has another.
    pub root_neighbours_max: Option<u16>,
    /// Routing table size of a node in storing mode; in non-storing mode, the number of nodes whose
    /// parent the root records.
    pub routes_max: u16,
    /// Routing table size of the root, if it has another.
    pub root_routes_max: Option<u16>,
    /// True if a DAO from another neighbour moves the route there (3.0). In 2.6 and 2.7 the old
    /// next hop stays until the route is deleted.
    pub dao_moves_routes: bool,
    /// Lifetime of a route after its No-Path DAO.
    pub no_path_delay: Duration,
    /// Handling of packets with a rank error.
    pub loops: LoopRule,
    /// Handling of packets without a route.
    pub no_route: NoRoute,
}

/// Releases of ContikiRPL that differ in behaviour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Release {
    /// 2.6 and 2.7. Every DIO solicits new DAOs. Local repair happens whenever no parent is
    /// available, and sends No-Path DAOs to all neighbours, not only to the parent. No-Path DAOs
    /// are not forwarded; the next node sends its own when the route ends. An infinite rank from
    /// any node resets Trickle. A full neighbour table evicts the least used, oldest entry.
    #[default]
    V27,
    /// 3.0. Of these, every multicast DIO solicits new DAOs, No-Path DAOs go to the parent alone
    /// and are forwarded, ETX begins with the first sample, and full route tables evict the least
    /// recently used route.
    V30,
    /// After 3.0 (master of 2018). Only the root's multicast DIOs solicit new DAOs, only the loss
    /// of a parent leads to local repair, only the parent's infinite rank resets Trickle. Parents
    /// whose ETX is fresh (four transmissions, the last within 10 min) come before others, and the
    /// best stale one is probed within 10 s. A full neighbour table evicts the worst candidate for
    /// a better one.
    V3x,
}

/// Handling of packets with a rank error (RFC 6550 11.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum LoopRule {
    /// 2.7: a second rank error resets Trickle and the packet is forwarded. A packet without a
    /// route down goes up with the forwarding error bit set, which deletes the route it came by. If
    /// the root deletes one, it triggers a global repair.
    #[default]
    Forward,
    /// 3.0: a second rank error resets Trickle and the packet is dropped. A packet without a route
    /// down is dropped as well, and a No-Path DAO goes back to the sender.
    Drop,
    /// 3.x: as [`Self::Drop`]; also a rank error triggers a DIO, the next packet carries the
    /// sender's rank, and the root rewrites the option.
    Repair,
}

/// Modes of operation (RFC 6550 9).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RplMode {
    /// Each node stores routes to its descendants.
    #[default]
    Storing,
    /// Only the root stores routes, and adds source routes to packets (RFC 6554).
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

/// MRHOF's rank computation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RankRule {
    /// The parent's rank plus the link's ETX (2.7, 3.0).
    #[default]
    Sum,
    /// The same, but at least MinHopRankIncrease above the parent's rank (3.x).
    AtLeastOneHop,
}

/// Handling of packets without a route.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NoRoute {
    /// Dropped at once (every Contiki release that was read).
    #[default]
    Drop,
    /// Up to this many packets wait for a route; the newest are dropped (the RPL study's text).
    Buffer(u16),
}

/// Delays and timers of nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeSpec {
    /// Processing delay between the arrival of a message at a node and its endpoint's reaction.
    pub processing: Duration,
    /// Forwarding delay between the arrival of a packet at a relay and the handover to its MAC.
    /// Without it, a relay transmits before the sender has processed the acknowledgement, and the
    /// sender's next frame finds the channel busy; motes take milliseconds.
    pub forwarding: Duration,
    /// Timer granularity of endpoints: timers expire at multiples of this; zero for exact timers.
    pub tick: Duration,
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
            root_deaf: Duration::ZERO,
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
            cca_window: Duration::ZERO,
            turnaround: micros(224),
            ack_turnaround: micros(256),
            delivery: Delivery::Perfect,
            clear_on_first_end: true,
            interference: None,
            capture: None,
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
            root_buffers: None,
            backoff_unit: 16,
            neighbours_max: 2,
            frames_per_neighbour: 8,
            duplicates_remembered: 8,
            ack_wait: micros(1_041),
            spacing: Spacing::AfterAll,
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
            root_neighbours_max: None,
            routes_max: 64,
            root_routes_max: None,
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

    /// Contiki 3.x (after November 2016), as on the RPL study's devices.
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
            processing: Duration::from_millis(5),
            forwarding: Duration::from_millis(5),
            tick: Duration::ZERO,
        }
    }
}
