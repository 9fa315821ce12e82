//! Keys of wireless networks (`workload.kind = "mesh"`).

use std::collections::BTreeSet;
use std::sync::LazyLock;

use carob_sim::mesh::{NO_ROUTE_MAX, NODES_MAX};
use carob_sim::mesh_traffic::BURST_MAX;
use carob_sim::mesh_traffic::QUEUE_MAX;

/// Returns true for keys of wireless networks only.
pub(in crate::scenario) fn is_of_mesh(path: &str) -> bool {
    // A cell asks for each of its settings.
    static PATHS: LazyLock<BTreeSet<&str>> =
        LazyLock::new(|| MESH_KEYS.iter().map(|key| key.path).collect());
    PATHS.contains(path)
}

/// On or off.
const SWITCH: &[&str] = &["on", "off"];
/// Versions of Contiki whose RPL and 6LoWPAN are known.
const VERSIONS: &[&str] = &["contiki27", "contiki30", "contiki3x"];

keys! {
    /// The keys.
    pub(super) MESH_KEYS;

    "mesh.topology", Text, "6x6",
        "Shape of the network: `chain` (17 nodes) or `chain-<n>`, `dumbbell` (two grids of 3x3, joined by 3 nodes), `<columns>x<rows>`, look-alikes of testbeds: `pint` (22 nodes), `wilab` (26), `iotlab` (60), and the first two with the hops and links of the measured ones, `pint-by-data` and `wilab-by-data`; their measured links: `pint-measured`, `wilab-measured`; those of an office (34) and a marina (23): `evalab-measured`, `marina-measured`; or `links`, those of `mesh.links`.";
    "mesh.links", Text, -,
        "Links of the topology `links`: a CSV, or the path of one (from the scenario file's folder) that ends in `.csv`. Columns `a,b` for links in both directions or `from,to` for one, and `delivery` (a ratio) or `etx`. The first node of the first row is the root. Lines that begin with `#` are comments.";
    "mesh.etx_share", Percent, "100 %",
        "Of links with an ETX below 1.4, the share of its excess over 1 that is loss of the link itself; the rest are collisions during the measurement. The delivery ratio each way is 1 / sqrt(ETX), at most 99.8 %.";
    "mesh.regions", Text, -,
        "Regions of noise in a topology of links: node numbers as in its CSV, regions separated by `/`, as in `1 5 15/4 9 13`; nodes that are not named form the last. Without it there is one.";
    "mesh.root", Text, "usual",
        "Where RPL's root is: the shape's `usual` place, `corner`, `opposite-corner`, `centre`, or a node's number.";
    "mesh.sink", Text, "usual",
        "Node of the primary sink, or `root`.";
    "mesh.second_sink", Text, "usual",
        "Node of the secondary sink.";
    "mesh.outside", TimeOrNone, "none",
        "If set, the sink is a host beyond the root, with this delay each way.";
    "mesh.root_deaf", TimeOrNone, "none",
        "Time for which the root receives nothing after each frame addressed to it, as a border router does while it writes the packet to a serial line.";
    "mesh.edge", Length, "10 m",
        "Distance between neighbours in regular shapes.";
    "mesh.layout_seed", Whole(0, u64::MAX >> 1), "0",
        "Seed of generated shapes, which are the same in every run.";
    "mesh.traced", Whole(0, NODES_MAX as u64 - 1), -,
        "Node whose rank, ETX and RTO are traced; without it, of those with descendants the one with most neighbours.";
    "radio.link", Word(&["ideal", "lossy", "nomacretx"]), "ideal",
        "Shorthand for links: all frames arrive; each transmission draws its delivery ratio (`radio.ratios`); or all arrive, and MACs neither acknowledge nor repeat. `radio.delivery` and `mac.acknowledged` go over it.";
    "radio.delivery", Word(&["perfect", "fixed", "drawn", "by-distance", "table"]), -,
        "How likely frames arrive where nothing else is on the air: always; with `radio.ratio`; with a ratio drawn for each transmission from `radio.ratios`; 1 - (d/R)^2 (1 - `radio.ratio`) at distance d of range R; or by the table of a look-alike or of measured links, which have no other.";
    "radio.ratio", Percent, "90 %",
        "Delivery ratio of `fixed`, and at the range of `by-distance`.";
    "radio.ratios", Text, "75:0 80:2.72 85:17.92 90:47.52 95:81.84 100:100",
        "Distribution of `drawn` ratios: points `ratio:share at most that`, both in per cent, linear between them. The default has a mean of 90 %.";
    "radio.range", Length, "10 m",
        "Transmission range; a node at it receives.";
    "radio.interference_range", Length, "20 m",
        "Interference range.";
    "radio.boundary", Word(&["strict", "inclusive"]), "strict",
        "Whether a node exactly at the interference range is out of it, or within.";
    "radio.cca", Word(&["interference", "transmission", "nothing"]), "interference",
        "Transmissions that a clear channel assessment notices: those of nodes in that range, or none.";
    "radio.sfd_sense", Word(SWITCH), "on",
        "Whether a node also holds back while it receives a frame.";
    "radio.cca_delay", Time, "112 us",
        "How long a transmission goes unnoticed by others' assessments.";
    "radio.cca_window", Time, "0 us",
        "How long others' assessments still notice a transmission after its end; 128 us in IEEE 802.15.4, whose assessments take so long.";
    "radio.turnaround", Time, "224 us",
        "Time between the decision to send and the first bit.";
    "radio.ack_turnaround", Time, "256 us",
        "Time between a frame and its acknowledgement.";
    "radio.clear_on_first_end", Word(SWITCH), "on",
        "Cooja's quirk: after the first end of overlapping frames a receiver is clean, though others are on the air.";
    "radio.capture", Word(&["off", "threshold", "ieee802154", "ns3"]), "off",
        "Whether a frame that a node is receiving survives others that overlap it: never; if it is stronger than the sum of the others by `radio.capture_threshold`; or by the bit error ratio of IEEE 802.15.4-2006, E.4.1.8 (`ns3`: without signals that end during the frame, as ns-3 has it). Powers are by distance (exponent 3), or by the delivery ratio of a table.";
    "radio.capture_threshold", Decibels, "3 dB",
        "Least ratio of a frame's power to the sum of the others with `radio.capture = \"threshold\"`; the data sheet of the CC2420 has 3 dB.";
    "radio.noise", Word(SWITCH), "off",
        "Noise from outside, such as Wi-Fi, which in each region of the topology comes and goes by itself.";
    "radio.noise_on", Time, "10 s",
        "Mean time that noise stays, exponentially distributed.";
    "radio.noise_off", Time, "60 s",
        "Mean time without it.";
    "radio.noise_loss", Percent, "50 %",
        "Frames lost at nodes in a noisy region.";
    "radio.noise_busy", Percent, "50 %",
        "Clear channel assessments there that find it busy.";
    "radio.noise_runs", Percent, "100 %",
        "Share of runs with noise; the others have none.";
    "mac.csma", Word(&["contiki27", "contiki30", "contiki3x", "ieee802154"]), "contiki27",
        "Whose access to the medium. The keys of `mac` below are by default as it has them.";
    "mac.acknowledged", Word(SWITCH), -,
        "Whether frames to one node are acknowledged, and sent again if not; by default on, but as `radio.link` says.";
    "mac.transmissions_max", Whole(1, 255), -,
        "Transmissions of a frame, the first included: 4, in Contiki 3.x 8.";
    "mac.buffers", Whole(1, 1_024), "8",
        "Frames that may wait at a node.";
    "mac.root_buffers", Whole(1, 1_024), -,
        "Frames that may wait at the root; by default `mac.buffers`.";
    "mac.backoff_unit", Time, "125 ms",
        "Unit of the back-off of Contiki 2.7 and 3.0, rounded to ticks of 1/128 s, so that 10 ms are 7.8 ms: the period of NETSTACK_RDC_CHANNEL_CHECK_RATE, which is 8 a second by default. Other MACs have a unit of their own.";
    "mac.neighbours_max", Whole(1, 1_024), -,
        "Neighbours, broadcast being one, for whom frames may wait at once: 2, by the standard 1024.";
    "mac.frames_per_neighbour", Whole(1, 1_024), -,
        "Frames that may wait for one of them; by default `mac.buffers`.";
    "mac.duplicates_remembered", Whole(0, 255), "8",
        "Frames that a node knows duplicates of.";
    "mac.ack_wait", Time, -,
        "How long an acknowledgement may take to begin: 1041 us, by the standard 864 us.";
    "mac.spacing", Word(&["after-all", "after-success"]), "after-all",
        "Frames after which the standard's MAC leaves an interframe spacing: all, or those that were not given up (IEEE 802.15.4-2006, 7.5.1.3). Contiki has none.";
    "lowpan.version", Word(VERSIONS), "contiki27",
        "Whose 6LoWPAN. The keys of `lowpan` below are by default as it has them.";
    "lowpan.frame", Bytes(30, 125), -,
        "The most bytes of a frame in front of its FCS: 102, from Contiki 3.0 on 125.";
    "lowpan.rpl_option", Word(SWITCH), "on",
        "Whether packets carry RPL's hop-by-hop option, which keeps UDP's header from being compressed.";
    "lowpan.reassembly_timeout", Time, -,
        "When an unfinished datagram is forgotten: after 0.5 s (Z1 and Sky), from Contiki 3.0 on 8 s.";
    "lowpan.reassembly_blocks", Word(SWITCH), -,
        "Whether a whole packet that comes while another is put together is dropped: on, from Contiki 3.0 on off.";
    "lowpan.datagram", Bytes(60, 1_280), -,
        "The largest IPv6 datagram: 140 B (Z1), from Contiki 3.0 on 1280 B.";
    "rpl.version", Word(VERSIONS), "contiki27",
        "Whose RPL. The keys of `rpl` below without a default are as it has them.";
    "rpl.routing", Word(&["rpl", "static"]), "rpl",
        "Whether RPL runs all the time, or the routes that a quiet run of it has after `rpl.settled_after` hold for ever.";
    "rpl.settled_after", Time, "10 min",
        "See `rpl.routing`.";
    "rpl.mode", Word(&["storing", "non-storing"]), -,
        "Whether nodes keep routes downwards, or only the root does.";
    "rpl.objective", Word(&["mrhof", "of0"]), "mrhof",
        "Objective function: least ETX with hysteresis (RFC 6719), or least rank (RFC 6552).";
    "rpl.etx_divisor", Whole(1, 1_024), -,
        "ETX's unit.";
    "rpl.min_hop_rank_increase", Whole(1, 4_096), -,
        "MinHopRankIncrease.";
    "rpl.rank_rule", Word(&["sum", "at-least-one-hop"]), -,
        "MRHOF's rank: the parent's and the link's ETX, or that, but at least one hop more than the parent's.";
    "rpl.initial_etx", Number, -,
        "ETX of a link without samples.";
    "rpl.etx_alpha", Percent, -,
        "Weight of a new sample of ETX.";
    "rpl.etx_alpha_fresh", Percent, -,
        "The same of the first four of a link.";
    "rpl.etx_no_ack", Number, -,
        "Sample of a frame that was not acknowledged.";
    "rpl.max_link_metric", Number, -,
        "Largest ETX of a link to a parent; 0 for none.";
    "rpl.hysteresis", Number, -,
        "Least gain in ETX that makes a node change its parent.";
    "rpl.max_rank_increase", Whole(0, u16::MAX as u64), -,
        "MaxRankIncrease; 0 for none.";
    "rpl.forgets_lowest_rank", Word(SWITCH), -,
        "Whether a node that lost all its parents forgets its lowest rank.";
    "rpl.probing", Span, -,
        "Time between probes of neighbours; 0 s for none.";
    "rpl.route_lifetime", TimeOrNone, -,
        "Lifetime of routes; `none` for ever.";
    "rpl.dao_moves_routes", Word(SWITCH), -,
        "Whether a DAO that comes from another neighbour moves the route there.";
    "rpl.no_path_delay", Time, -,
        "How long a route lasts after its No-Path DAO.";
    "rpl.loops", Word(&["forward", "drop", "repair"]), -,
        "Handling of packets that go the wrong way: forwarded (2.7), dropped (3.0), or dropped with ranks sent anew (3.x).";
    "rpl.dio_interval_min", Time, -,
        "Trickle's shortest interval.";
    "rpl.dio_doublings", Whole(0, 30), -,
        "How often it doubles.";
    "rpl.dio_redundancy", Whole(0, 255), -,
        "Trickle's redundancy constant.";
    "rpl.dis_first", Span, -,
        "When a node that has not joined solicits first.";
    "rpl.dis_interval", Time, -,
        "Time between further solicitations.";
    "rpl.dao_delay", Span, -,
        "Delay of DAOs.";
    "rpl.neighbours_max", Whole(1, 4_096), -,
        "Neighbours that a node may know.";
    "rpl.root_neighbours_max", Whole(1, 4_096), -,
        "Neighbours that the root may know; by default `rpl.neighbours_max`.";
    "rpl.routes_max", Whole(1, 4_096), -,
        "Routes that a node may keep, in storing mode.";
    "rpl.root_routes_max", Whole(1, 4_096), -,
        "Routes that the root may keep; by default `rpl.routes_max`.";
    "rpl.no_route_buffer", Whole(0, NO_ROUTE_MAX as u64), "0",
        "Packets that wait at a node for a route; with 0 they are dropped at once.";
    "node.coap_buffer", Whole(0, QUEUE_MAX as u64), "0",
        "Messages that wait at a node while NSTART are on their way; more are dropped by the application.";
    "node.processing", Time, "5 ms",
        "Time between the arrival of a message and what its receiver does about it.";
    "node.forwarding", Time, "5 ms",
        "Time between the arrival of a packet at a node that sends it on and when its MAC has it.";
    "node.tick", Time, "0 s",
        "Timers of endpoints run out at multiples of this; 0 s for exactly.";
    "node.gives_up_at_last_copy", Word(SWITCH), "off",
        "As in Erbium: an exchange is given up when its last retransmission is sent.";
    "traffic.load", Rate, -,
        "What all nodes together make at a constant rate for the primary sink, in bits of `traffic.counted`.";
    "traffic.period", Time, -,
        "Instead, time between two messages of a node.";
    "traffic.start", Span, -,
        "When nodes begin, after the warm-up, drawn uniformly; without it, in the first period.";
    "traffic.gaps", Word(&["fixed", "uniform", "exponential"]), "fixed",
        "Distribution of the time between two messages of a node, whose mean is the period: fixed, uniform (`traffic.gap_spread`) or exponential.";
    "traffic.gap_spread", Percent, "100 %",
        "Greatest deviation of `uniform` gaps from the period: with 100 % they are drawn from 0 to twice the period.";
    "traffic.stop", Percent, "0 %",
        "Probability that a client stops for good at a response that follows its last one within `traffic.stop_within`; it goes on relaying. An artefact of one testbed.";
    "traffic.stop_within", Time, "150 ms",
        "Time between two responses of a client, below which `traffic.stop` applies.";
    "traffic.delay_bins", Word(&["generation", "reception"]), "generation",
        "Bin of time series in which a message's delay is counted: when it was generated, or when it was received. The settling time after a burst is computed from these bins.";
    "traffic.counted", Bytes(1, 1_280), -,
        "Bytes that a message counts in offered and carried load; by default `workload.message`.";
    "traffic.burst", Whole(0, BURST_MAX as u64), "0",
        "Messages that each node makes in a burst, all nodes at once; 0 for no bursts.";
    "traffic.burst_first", Span, "0 s",
        "When the first burst is, after the warm-up; if a range, drawn for each node, and so of all its bursts.";
    "traffic.burst_spread", Time, "0 s",
        "Time over which each burst is spread: an offset of each node drawn uniformly from it, the same for all of its bursts. Metrics of the time around bursts count from the first possible message.";
    "traffic.burst_buffer", Whole(0, QUEUE_MAX as u64), -,
        "POSTs of bursts that wait at a node while NSTART are on their way; by default `node.coap_buffer`.";
    "traffic.burst_every", TimeOrNone, "none",
        "Time between bursts; `none` for one only.";
    "traffic.burst_to", Word(&["primary", "secondary"]), "primary",
        "The sink of bursts.";
    "traffic.burst_kind", Word(&["posts", "notifications"]), "posts",
        "How bursts are sent: as CON POSTs, or as NON notifications, each of a resource of its own.";
    "traffic.registers_again", TimeOrNone, "none",
        "If set, a sink that a node removed from its observers, because a CON notification failed, registers again after this time, over the radio.";
}
