//! Keys of wireless networks (`workload.kind = "mesh"`).

use std::collections::BTreeSet;
use std::sync::LazyLock;

use carob_sim::mesh::{BURST_MAX, NO_ROUTE_MAX, NODES_MAX, QUEUE_MAX};

use super::Key;
use super::table::key;
use crate::scenario::value::Kind;

/// Returns true for keys of wireless networks only.
pub(in crate::scenario) fn is_of_mesh(path: &str) -> bool {
    // A cell asks for each of its settings.
    static PATHS: LazyLock<BTreeSet<&str>> =
        LazyLock::new(|| MESH_KEYS.iter().map(|key| key.path).collect());
    PATHS.contains(path)
}

/// On or off.
const SWITCH: Kind = Kind::Word(&["on", "off"]);
/// Versions of Contiki whose RPL and 6LoWPAN are known.
const VERSIONS: Kind = Kind::Word(&["contiki27", "contiki30", "contiki3x"]);

/// The keys.
pub(super) const MESH_KEYS: &[Key] = &[
    key(
        "mesh.topology",
        Kind::Text,
        Some("6x6"),
        "Shape of the network: `chain` (17 nodes) or `chain-<n>`, `dumbbell` (two grids of 3x3, joined by 3 nodes), `<columns>x<rows>`, look-alikes of testbeds: `pint` (22 nodes), `wilab` (26), `iotlab` (60), and the first two with the hops and links of the measured ones, `pint-by-data` and `wilab-by-data`; their measured links: `pint-measured`, `wilab-measured`; those of an office (34) and a marina (23): `evalab-measured`, `marina-measured`; or `links`, those of `mesh.links`.",
    ),
    key(
        "mesh.links",
        Kind::Text,
        None,
        "Links of the topology `links`: a CSV, or the path of one (from the scenario file's folder) that ends in `.csv`. Columns `a,b` for links in both directions or `from,to` for one, and `delivery` (a ratio) or `etx`. The first node of the first row is the root. Lines that begin with `#` are comments.",
    ),
    key(
        "mesh.etx_share",
        Kind::Percent,
        Some("100 %"),
        "Of links with an ETX below 1.4, the share of its excess over 1 that is loss of the link itself; the rest are collisions during the measurement. The delivery ratio each way is 1 / sqrt(ETX), at most 99.8 %.",
    ),
    key(
        "mesh.regions",
        Kind::Text,
        None,
        "Regions of noise in a topology of links: node numbers as in its CSV, regions separated by `/`, as in `1 5 15/4 9 13`; nodes that are not named form the last. Without it there is one.",
    ),
    key(
        "mesh.root",
        Kind::Text,
        Some("usual"),
        "Where RPL's root is: the shape's `usual` place, `corner`, `opposite-corner`, `centre`, or a node's number.",
    ),
    key(
        "mesh.sink",
        Kind::Text,
        Some("usual"),
        "Node of the primary sink, or `root`.",
    ),
    key(
        "mesh.second_sink",
        Kind::Text,
        Some("usual"),
        "Node of the secondary sink.",
    ),
    key(
        "mesh.outside",
        Kind::TimeOrNone,
        Some("none"),
        "If set, the sink is a host beyond the root, with this delay each way.",
    ),
    key(
        "mesh.root_deaf",
        Kind::TimeOrNone,
        Some("none"),
        "Time for which the root receives nothing after each frame addressed to it, as a border router does while it writes the packet to a serial line.",
    ),
    key(
        "mesh.edge",
        Kind::Length,
        Some("10 m"),
        "Distance between neighbours in regular shapes.",
    ),
    key(
        "mesh.layout_seed",
        Kind::Whole(0, u64::MAX >> 1),
        Some("0"),
        "Seed of generated shapes, which are the same in every run.",
    ),
    key(
        "mesh.traced",
        Kind::Whole(0, NODES_MAX as u64 - 1),
        None,
        "Node whose rank, ETX and RTO are traced; without it, of those with descendants the one with most neighbours.",
    ),
    key(
        "radio.link",
        Kind::Word(&["ideal", "lossy", "nomacretx"]),
        Some("ideal"),
        "Shorthand for links: all frames arrive; each transmission draws its delivery ratio (`radio.ratios`); or all arrive, and MACs neither acknowledge nor repeat. `radio.delivery` and `mac.acknowledged` go over it.",
    ),
    key(
        "radio.delivery",
        Kind::Word(&["perfect", "fixed", "drawn", "by-distance", "table"]),
        None,
        "How likely frames arrive where nothing else is on the air: always; with `radio.ratio`; with a ratio drawn for each transmission from `radio.ratios`; 1 - (d/R)^2 (1 - `radio.ratio`) at distance d of range R; or by the table of a look-alike or of measured links, which have no other.",
    ),
    key(
        "radio.ratio",
        Kind::Percent,
        Some("90 %"),
        "Delivery ratio of `fixed`, and at the range of `by-distance`.",
    ),
    key(
        "radio.ratios",
        Kind::Text,
        Some("75:0 80:2.72 85:17.92 90:47.52 95:81.84 100:100"),
        "Distribution of `drawn` ratios: points `ratio:share at most that`, both in per cent, linear between them. The default has a mean of 90 %.",
    ),
    key(
        "radio.range",
        Kind::Length,
        Some("10 m"),
        "Transmission range; a node at it receives.",
    ),
    key(
        "radio.interference_range",
        Kind::Length,
        Some("20 m"),
        "Interference range.",
    ),
    key(
        "radio.boundary",
        Kind::Word(&["strict", "inclusive"]),
        Some("strict"),
        "Whether a node exactly at the interference range is out of it, or within.",
    ),
    key(
        "radio.cca",
        Kind::Word(&["interference", "transmission", "nothing"]),
        Some("interference"),
        "Transmissions that a clear channel assessment notices: those of nodes in that range, or none.",
    ),
    key(
        "radio.sfd_sense",
        SWITCH,
        Some("on"),
        "Whether a node also holds back while it receives a frame.",
    ),
    key(
        "radio.cca_delay",
        Kind::Time,
        Some("112 us"),
        "How long a transmission goes unnoticed by others' assessments.",
    ),
    key(
        "radio.cca_window",
        Kind::Time,
        Some("0 us"),
        "How long others' assessments still notice a transmission after its end; 128 us in IEEE 802.15.4, whose assessments take so long.",
    ),
    key(
        "radio.turnaround",
        Kind::Time,
        Some("224 us"),
        "Time between the decision to send and the first bit.",
    ),
    key(
        "radio.ack_turnaround",
        Kind::Time,
        Some("256 us"),
        "Time between a frame and its acknowledgement.",
    ),
    key(
        "radio.clear_on_first_end",
        SWITCH,
        Some("on"),
        "Cooja's quirk: after the first end of overlapping frames a receiver is clean, though others are on the air.",
    ),
    key(
        "radio.capture",
        Kind::Word(&["off", "threshold", "ieee802154", "ns3"]),
        Some("off"),
        "Whether a frame that a node is receiving survives others that overlap it: never; if it is stronger than the sum of the others by `radio.capture_threshold`; or by the bit error ratio of IEEE 802.15.4-2006, E.4.1.8 (`ns3`: without signals that end during the frame, as ns-3 has it). Powers are by distance (exponent 3), or by the delivery ratio of a table.",
    ),
    key(
        "radio.capture_threshold",
        Kind::Decibels,
        Some("3 dB"),
        "Least ratio of a frame's power to the sum of the others with `radio.capture = \"threshold\"`; the data sheet of the CC2420 has 3 dB.",
    ),
    key(
        "radio.noise",
        SWITCH,
        Some("off"),
        "Noise from outside, such as Wi-Fi, which in each region of the topology comes and goes by itself.",
    ),
    key(
        "radio.noise_on",
        Kind::Time,
        Some("10 s"),
        "Mean time that noise stays, exponentially distributed.",
    ),
    key(
        "radio.noise_off",
        Kind::Time,
        Some("60 s"),
        "Mean time without it.",
    ),
    key(
        "radio.noise_loss",
        Kind::Percent,
        Some("50 %"),
        "Frames lost at nodes in a noisy region.",
    ),
    key(
        "radio.noise_busy",
        Kind::Percent,
        Some("50 %"),
        "Clear channel assessments there that find it busy.",
    ),
    key(
        "radio.noise_runs",
        Kind::Percent,
        Some("100 %"),
        "Share of runs with noise; the others have none.",
    ),
    key(
        "mac.csma",
        Kind::Word(&["contiki27", "contiki30", "contiki3x", "ieee802154"]),
        Some("contiki27"),
        "Whose access to the medium. The keys of `mac` below are by default as it has them.",
    ),
    key(
        "mac.acknowledged",
        SWITCH,
        None,
        "Whether frames to one node are acknowledged, and sent again if not; by default on, but as `radio.link` says.",
    ),
    key(
        "mac.transmissions_max",
        Kind::Whole(1, 255),
        None,
        "Transmissions of a frame, the first included: 4, in Contiki 3.x 8.",
    ),
    key(
        "mac.buffers",
        Kind::Whole(1, 1_024),
        Some("8"),
        "Frames that may wait at a node.",
    ),
    key(
        "mac.root_buffers",
        Kind::Whole(1, 1_024),
        None,
        "Frames that may wait at the root; by default `mac.buffers`.",
    ),
    key(
        "mac.backoff_unit",
        Kind::Time,
        Some("125 ms"),
        "Unit of the back-off of Contiki 2.7 and 3.0, rounded to ticks of 1/128 s, so that 10 ms are 7.8 ms: the period of NETSTACK_RDC_CHANNEL_CHECK_RATE, which is 8 a second by default. Other MACs have a unit of their own.",
    ),
    key(
        "mac.neighbours_max",
        Kind::Whole(1, 1_024),
        None,
        "Neighbours, broadcast being one, for whom frames may wait at once: 2, by the standard 1024.",
    ),
    key(
        "mac.frames_per_neighbour",
        Kind::Whole(1, 1_024),
        None,
        "Frames that may wait for one of them; by default `mac.buffers`.",
    ),
    key(
        "mac.duplicates_remembered",
        Kind::Whole(0, 255),
        Some("8"),
        "Frames that a node knows duplicates of.",
    ),
    key(
        "mac.ack_wait",
        Kind::Time,
        None,
        "How long an acknowledgement may take to begin: 1041 us, by the standard 864 us.",
    ),
    key(
        "mac.spacing",
        Kind::Word(&["after-all", "after-success"]),
        Some("after-all"),
        "Frames after which the standard's MAC leaves an interframe spacing: all, or those that were not given up (IEEE 802.15.4-2006, 7.5.1.3). Contiki has none.",
    ),
    key(
        "lowpan.version",
        VERSIONS,
        Some("contiki27"),
        "Whose 6LoWPAN. The keys of `lowpan` below are by default as it has them.",
    ),
    key(
        "lowpan.frame",
        Kind::Bytes(30, 125),
        None,
        "The most bytes of a frame in front of its FCS: 102, from Contiki 3.0 on 125.",
    ),
    key(
        "lowpan.rpl_option",
        SWITCH,
        Some("on"),
        "Whether packets carry RPL's hop-by-hop option, which keeps UDP's header from being compressed.",
    ),
    key(
        "lowpan.reassembly_timeout",
        Kind::Time,
        None,
        "When an unfinished datagram is forgotten: after 0.5 s (Z1 and Sky), from Contiki 3.0 on 8 s.",
    ),
    key(
        "lowpan.reassembly_blocks",
        SWITCH,
        None,
        "Whether a whole packet that comes while another is put together is dropped: on, from Contiki 3.0 on off.",
    ),
    key(
        "lowpan.datagram",
        Kind::Bytes(60, 1_280),
        None,
        "The largest IPv6 datagram: 140 B (Z1), from Contiki 3.0 on 1280 B.",
    ),
    key(
        "rpl.version",
        VERSIONS,
        Some("contiki27"),
        "Whose RPL. The keys of `rpl` below without a default are as it has them.",
    ),
    key(
        "rpl.routing",
        Kind::Word(&["rpl", "static"]),
        Some("rpl"),
        "Whether RPL runs all the time, or the routes that a quiet run of it has after `rpl.settled_after` hold for ever.",
    ),
    key(
        "rpl.settled_after",
        Kind::Time,
        Some("10 min"),
        "See `rpl.routing`.",
    ),
    key(
        "rpl.mode",
        Kind::Word(&["storing", "non-storing"]),
        None,
        "Whether nodes keep routes downwards, or only the root does.",
    ),
    key(
        "rpl.objective",
        Kind::Word(&["mrhof", "of0"]),
        Some("mrhof"),
        "Objective function: least ETX with hysteresis (RFC 6719), or least rank (RFC 6552).",
    ),
    key(
        "rpl.etx_divisor",
        Kind::Whole(1, 1_024),
        None,
        "ETX's unit.",
    ),
    key(
        "rpl.min_hop_rank_increase",
        Kind::Whole(1, 4_096),
        None,
        "MinHopRankIncrease.",
    ),
    key(
        "rpl.rank_rule",
        Kind::Word(&["sum", "at-least-one-hop"]),
        None,
        "MRHOF's rank: the parent's and the link's ETX, or that, but at least one hop more than the parent's.",
    ),
    key(
        "rpl.initial_etx",
        Kind::Number,
        None,
        "ETX of a link without samples.",
    ),
    key(
        "rpl.etx_alpha",
        Kind::Percent,
        None,
        "Weight of a new sample of ETX.",
    ),
    key(
        "rpl.etx_alpha_fresh",
        Kind::Percent,
        None,
        "The same of the first four of a link.",
    ),
    key(
        "rpl.etx_no_ack",
        Kind::Number,
        None,
        "Sample of a frame that was not acknowledged.",
    ),
    key(
        "rpl.max_link_metric",
        Kind::Number,
        None,
        "Largest ETX of a link to a parent; 0 for none.",
    ),
    key(
        "rpl.hysteresis",
        Kind::Number,
        None,
        "Least gain in ETX that makes a node change its parent.",
    ),
    key(
        "rpl.max_rank_increase",
        Kind::Whole(0, u16::MAX as u64),
        None,
        "MaxRankIncrease; 0 for none.",
    ),
    key(
        "rpl.forgets_lowest_rank",
        SWITCH,
        None,
        "Whether a node that lost all its parents forgets its lowest rank.",
    ),
    key(
        "rpl.probing",
        Kind::Span,
        None,
        "Time between probes of neighbours; 0 s for none.",
    ),
    key(
        "rpl.route_lifetime",
        Kind::TimeOrNone,
        None,
        "Lifetime of routes; `none` for ever.",
    ),
    key(
        "rpl.dao_moves_routes",
        SWITCH,
        None,
        "Whether a DAO that comes from another neighbour moves the route there.",
    ),
    key(
        "rpl.no_path_delay",
        Kind::Time,
        None,
        "How long a route lasts after its No-Path DAO.",
    ),
    key(
        "rpl.loops",
        Kind::Word(&["forward", "drop", "repair"]),
        None,
        "Handling of packets that go the wrong way: forwarded (2.7), dropped (3.0), or dropped with ranks sent anew (3.x).",
    ),
    key(
        "rpl.dio_interval_min",
        Kind::Time,
        None,
        "Trickle's shortest interval.",
    ),
    key(
        "rpl.dio_doublings",
        Kind::Whole(0, 30),
        None,
        "How often it doubles.",
    ),
    key(
        "rpl.dio_redundancy",
        Kind::Whole(0, 255),
        None,
        "Trickle's redundancy constant.",
    ),
    key(
        "rpl.dis_first",
        Kind::Span,
        None,
        "When a node that has not joined solicits first.",
    ),
    key(
        "rpl.dis_interval",
        Kind::Time,
        None,
        "Time between further solicitations.",
    ),
    key("rpl.dao_delay", Kind::Span, None, "Delay of DAOs."),
    key(
        "rpl.neighbours_max",
        Kind::Whole(1, 4_096),
        None,
        "Neighbours that a node may know.",
    ),
    key(
        "rpl.root_neighbours_max",
        Kind::Whole(1, 4_096),
        None,
        "Neighbours that the root may know; by default `rpl.neighbours_max`.",
    ),
    key(
        "rpl.routes_max",
        Kind::Whole(1, 4_096),
        None,
        "Routes that a node may keep, in storing mode.",
    ),
    key(
        "rpl.root_routes_max",
        Kind::Whole(1, 4_096),
        None,
        "Routes that the root may keep; by default `rpl.routes_max`.",
    ),
    key(
        "rpl.no_route_buffer",
        Kind::Whole(0, NO_ROUTE_MAX as u64),
        Some("0"),
        "Packets that wait at a node for a route; with 0 they are dropped at once.",
    ),
    key(
        "node.coap_buffer",
        Kind::Whole(0, QUEUE_MAX as u64),
        Some("0"),
        "Messages that wait at a node while NSTART are on their way; more are dropped by the application.",
    ),
    key(
        "node.processing",
        Kind::Time,
        Some("5 ms"),
        "Time between the arrival of a message and what its receiver does about it.",
    ),
    key(
        "node.forwarding",
        Kind::Time,
        Some("5 ms"),
        "Time between the arrival of a packet at a node that sends it on and when its MAC has it.",
    ),
    key(
        "node.tick",
        Kind::Time,
        Some("0 s"),
        "Timers of endpoints run out at multiples of this; 0 s for exactly.",
    ),
    key(
        "node.gives_up_at_last_copy",
        SWITCH,
        Some("off"),
        "As in Erbium: an exchange is given up when its last retransmission is sent.",
    ),
    key(
        "traffic.load",
        Kind::Rate,
        None,
        "What all nodes together make at a constant rate for the primary sink, in bits of `traffic.counted`.",
    ),
    key(
        "traffic.period",
        Kind::Time,
        None,
        "Instead, time between two messages of a node.",
    ),
    key(
        "traffic.start",
        Kind::Span,
        None,
        "When nodes begin, after the warm-up, drawn uniformly; without it, in the first period.",
    ),
    key(
        "traffic.gaps",
        Kind::Word(&["fixed", "uniform", "exponential"]),
        Some("fixed"),
        "Distribution of the time between two messages of a node, whose mean is the period: fixed, uniform (`traffic.gap_spread`) or exponential.",
    ),
    key(
        "traffic.gap_spread",
        Kind::Percent,
        Some("100 %"),
        "Greatest deviation of `uniform` gaps from the period: with 100 % they are drawn from 0 to twice the period.",
    ),
    key(
        "traffic.stop",
        Kind::Percent,
        Some("0 %"),
        "Probability that a client stops for good at a response that follows its last one within `traffic.stop_within`; it goes on relaying. An artefact of one testbed.",
    ),
    key(
        "traffic.stop_within",
        Kind::Time,
        Some("150 ms"),
        "Time between two responses of a client, below which `traffic.stop` applies.",
    ),
    key(
        "traffic.delay_bins",
        Kind::Word(&["generation", "reception"]),
        Some("generation"),
        "Bin of time series in which a message's delay is counted: when it was generated, or when it was received. The settling time after a burst is computed from these bins.",
    ),
    key(
        "traffic.counted",
        Kind::Bytes(1, 1_280),
        None,
        "Bytes that a message counts in offered and carried load; by default `workload.message`.",
    ),
    key(
        "traffic.burst",
        Kind::Whole(0, BURST_MAX as u64),
        Some("0"),
        "Messages that each node makes in a burst, all nodes at once; 0 for no bursts.",
    ),
    key(
        "traffic.burst_first",
        Kind::Span,
        Some("0 s"),
        "When the first burst is, after the warm-up; if a range, drawn for each node, and so of all its bursts.",
    ),
    key(
        "traffic.burst_spread",
        Kind::Time,
        Some("0 s"),
        "Time over which each burst is spread: an offset of each node drawn uniformly from it, the same for all of its bursts. Metrics of the time around bursts count from the first possible message.",
    ),
    key(
        "traffic.burst_buffer",
        Kind::Whole(0, QUEUE_MAX as u64),
        None,
        "POSTs of bursts that wait at a node while NSTART are on their way; by default `node.coap_buffer`.",
    ),
    key(
        "traffic.burst_every",
        Kind::TimeOrNone,
        Some("none"),
        "Time between bursts; `none` for one only.",
    ),
    key(
        "traffic.burst_to",
        Kind::Word(&["primary", "secondary"]),
        Some("primary"),
        "The sink of bursts.",
    ),
    key(
        "traffic.burst_kind",
        Kind::Word(&["posts", "notifications"]),
        Some("posts"),
        "How bursts are sent: as CON POSTs, or as NON notifications, each of a resource of its own.",
    ),
    key(
        "traffic.registers_again",
        Kind::TimeOrNone,
        Some("none"),
        "If set, a sink that a node removed from its observers, because a CON notification failed, registers again after this time, over the radio.",
    ),
];
