//! The table of metrics.

use super::Metric;

const fn metric(name: &'static str, about: &'static str) -> Metric {
    Metric { name, about }
}

/// The metrics of runs: over a constrained link, then of wireless networks.
pub const METRICS: &[Metric] = &[
    metric(
        "fct_s",
        "Flow completion time: first request to last complete response; connection set-up apart.",
    ),
    metric(
        "setup_s",
        "Connection set-up, for transports that have one.",
    ),
    metric("goodput_bps", "Body bits over flow completion time."),
    metric(
        "throughput_rps",
        "Requests answered in a run, per second from the first client's begin to the last one's end.",
    ),
    metric(
        "client_rps",
        "Requests answered, per second of a client's own time.",
    ),
    metric(
        "response_s",
        "Mean time from a request to its complete response, per run; where clients make several requests.",
    ),
    metric("response_p95_s", "The 95th percentile of it, within 6 %."),
    metric(
        "answered_ratio",
        "Share of a run's requests that were answered; in a wireless network, of its messages.",
    ),
    metric(
        "first_attempt_ratio",
        "Share of a run's exchanges that were answered before anything was sent again, over UDP.",
    ),
    metric("success_ratio", "Share of a run's flows that completed."),
    metric(
        "transmissions_per_exchange",
        "Copies per exchange, mean of a flow or of a wireless network; over TCP, data segments sent per segment of new data.",
    ),
    metric(
        "segments",
        "Data segments the server sent over TCP, retransmissions included, per flow.",
    ),
    metric(
        "retransmissions",
        "Copies after the first of their exchange, per flow, subscriber or node; over TCP, data segments the server sent again.",
    ),
    metric(
        "spurious",
        "Spurious retransmissions per flow: sent although an earlier transmission and its response were not lost; over TCP, segments of which all bytes had arrived before.",
    ),
    metric(
        "retransmissions_per_exchange",
        "The same over the flow's exchanges; over TCP, over its segments of new data.",
    ),
    metric(
        "spurious_per_exchange",
        "Spurious retransmissions over the flow's exchanges; over TCP, over its segments of new data.",
    ),
    metric("failed", "Exchanges given up, per flow over UDP."),
    metric(
        "rtt_mean_s",
        "Mean round-trip time of a flow's exchanges over UDP, from the transmission answered first to its response.",
    ),
    metric(
        "rto_median_s",
        "Median of the first timers of a flow's exchanges, dithering included, over UDP.",
    ),
    metric(
        "rto_count",
        "Timers that ran out, per flow; over TCP, the server's retransmission timers.",
    ),
    metric(
        "loss",
        "Share of a run's packets lost or dropped, both directions.",
    ),
    metric(
        "queue_bytes",
        "The fullest a bottleneck buffer was in a run.",
    ),
    metric(
        "useless_share",
        "Share of the bytes towards the clients spent on spurious retransmissions, per run: responses after the first to arrive, and TCP's spurious retransmissions.",
    ),
    metric(
        "dropped",
        "Packets dropped by the bottlenecks of a run, both directions.",
    ),
    metric("exchanges", "Message exchanges of a flow."),
    metric(
        "recoveries",
        "Fast recoveries that the server entered, per flow over TCP.",
    ),
    metric(
        "recovery_s",
        "Time that the server spent in fast recovery, per flow over TCP.",
    ),
    metric(
        "rto_first_s",
        "When the server's first timer ran out, from the request on, per flow over TCP.",
    ),
    metric(
        "rto_peak_s",
        "The longest timer that the server set, per flow over TCP.",
    ),
    metric(
        "stall_s",
        "The longest time without new bytes of the response, per flow.",
    ),
    metric(
        "packets",
        "Packets of a flow in both directions until its last response, connection set-up and acknowledgments included.",
    ),
    metric(
        "header_bytes",
        "Bytes of IP and UDP or TCP headers in those packets.",
    ),
    metric(
        "coap_header_bytes",
        "Bytes of fixed CoAP headers in those packets (RFC 7252 3), over UDP.",
    ),
    metric(
        "close_packets",
        "Packets from a connection's first FIN on, where runs go on until connections are closed.",
    ),
    metric(
        "close_s",
        "Time from a connection's first FIN until both ends had closed it.",
    ),
    metric(
        "server_handled",
        "Datagrams that the server worked on in a run, where that takes it time.",
    ),
    metric(
        "server_repeated_ratio",
        "Share of those that were duplicates of processed requests.",
    ),
    metric(
        "server_dropped",
        "Datagrams that found its receive queue full, per run.",
    ),
    metric(
        "server_queue",
        "The most datagrams that waited for it in a run.",
    ),
    metric("server_busy_ratio", "Share of the run that it worked."),
    metric(
        "fct_spread",
        "The longest flow completion time of a run over the median, where several clients are all done.",
    ),
    metric(
        "last_is_last",
        "1 if the flow of a run that began last ended last, else 0.",
    ),
    metric("jain", "Jain's fairness index of a run's goodputs."),
    metric(
        "received_bps",
        "Bits of new messages per second that a flow received, headers of CoAP included, from its first request to its end or that of the run.",
    ),
    metric(
        "second_received_bps",
        "The same of the other clients on the link (`mix.second`).",
    ),
    metric(
        "second_fct_s",
        "Flow completion time of the other clients on the link.",
    ),
    metric(
        "second_retransmissions",
        "Retransmissions per flow of the other clients on the link.",
    ),
    metric(
        "first_share",
        "Of the bytes of new messages that all clients of a run received, the share of the first kind, where there are two.",
    ),
    metric(
        "jain_received",
        "Jain's fairness index of what all clients of a run received per second, where there are two kinds.",
    ),
    metric(
        "pdr",
        "Notifications received over notifications generated, per run, or messages of a wireless network; what still waits or is under way as the run ends was generated and not received.",
    ),
    metric(
        "pdr_early",
        "The same of the rounds of the first two minutes.",
    ),
    metric(
        "pdr_late",
        "The same of the rounds after the first two minutes and before the last.",
    ),
    metric(
        "notifications",
        "Notifications generated in a run: one per round, subscriber and resource.",
    ),
    metric(
        "server_drop_ratio",
        "Share of the notifications of a run that the server dropped because too many waited.",
    ),
    metric(
        "superseded_ratio",
        "Share of the notifications of a run whose place a newer one took before they were sent.",
    ),
    metric(
        "unsent_ratio",
        "Share of the notifications of a run that waited at the server when it ended.",
    ),
    metric(
        "unlisted_ratio",
        "Share of the notifications of a run for observers that the server had removed after an unacknowledged CON (RFC 7641 4.5).",
    ),
    metric(
        "link_drop_ratio",
        "Copies of notifications that met a full buffer at the link, over the notifications of the run.",
    ),
    metric(
        "link_loss_ratio",
        "Copies of notifications that were lost at random, over the notifications of the run.",
    ),
    metric(
        "con_ratio",
        "Share of the notifications sent in a run that were CON.",
    ),
    metric(
        "delay_s",
        "Mean time from the round to reception, per subscriber; in a wireless network from one application to the other, of all messages received in a run.",
    ),
    metric(
        "send_correlation",
        "Correlation of the number of notifications sent in 100 ms with that 3 s later, per run.",
    ),
    metric(
        "rto_early_s",
        "The server's retransmission timeout 10 s after the first round (at the end of the first bin), mean of its subscribers; ACK_TIMEOUT where nothing was measured.",
    ),
    metric(
        "rto_settled_s",
        "The same between 90 and 120 s after the first round.",
    ),
    metric(
        "rto_settling_s",
        "When that mean was last more than half as long again as `rto_settled_s` in the first 120 s, to a bin; 0 if it never was.",
    ),
    metric(
        "rto_swing",
        "The longest over the shortest of those means from 60 to 120 s.",
    ),
    metric("rtt_s", "Round-trip times, when samples are recorded."),
    metric(
        "rto_init_s",
        "First timers of exchanges, when samples are recorded; in a wireless network, their mean in a run.",
    ),
    metric(
        "rto_s",
        "Retransmission timeouts, when samples are recorded; in a wireless network, the mean in a run of what the controllers had after each answer.",
    ),
    metric(
        "timer_s",
        "Timers of all transmissions, dithering included, when events are recorded.",
    ),
    metric(
        "timer_early_ratio",
        "Share of a run's timers that ran out although an answer was to come, when events are recorded.",
    ),
    metric(
        "timers_suit_after",
        "After how many of a run's first 1,500 timers they suit: of any 100 in a row after that, at most 10 run out although an answer is to come. When events are recorded.",
    ),
    metric(
        "success_bend",
        "How unevenly exchanges are answered after a run's first 400 timers, up to the 1,500th: the largest distance of their cumulative number from a straight line, over that number. When events are recorded.",
    ),
    metric(
        "pdr_of_sent",
        "Messages received over messages whose original transmission left a node, per run of a wireless network.",
    ),
    metric(
        "throughput_bps",
        "Bits of messages received per second, by the bytes that each counts, per run of a wireless network.",
    ),
    metric("carried_Bps", "The same in bytes."),
    metric(
        "generated",
        "Messages that the nodes of a wireless network made, per run.",
    ),
    metric(
        "delay_p50_s",
        "Median time to reception in a wireless network, per run, within 6 %.",
    ),
    metric("delay_p95_s", "The 95th percentile of it."),
    metric(
        "burst_delay_s",
        "Mean time to reception of messages made from the beginning of a burst to 10 s after it, per run of a wireless network.",
    ),
    metric(
        "within_1_s",
        "Share of a wireless network's messages received within 1 s, per run.",
    ),
    metric("within_2_s", "The same within 2 s."),
    metric("within_5_s", "The same within 5 s."),
    metric("within_10_s", "The same within 10 s."),
    metric("within_20_s", "The same within 20 s."),
    metric("within_30_s", "The same within 30 s."),
    metric("within_60_s", "The same within 60 s."),
    metric(
        "delay_steps",
        "Steps in the distribution of times to reception, per run of a wireless network: of 2 to 3.5 s, 6 to 9.5 s and 14 to 21.5 s, in how many more messages per second arrive than in 1 to 2 s, 4 to 6 s and 10 to 14 s before.",
    ),
    metric(
        "settling_s",
        "Time from the first burst on until the mean time to reception in 20 s, sliding by 1 s, is at most 1.1 times that before the burst; if it never is, the time to the end of the run.",
    ),
    metric("settled", "1 if it was so before the run's end, else 0."),
    metric(
        "rto_before_burst_s",
        "Mean RTO that controllers have after an answer, before the first burst of a run of a wireless network.",
    ),
    metric(
        "rto_burst_peak_s",
        "The largest mean of it in 10 s within the minute after the burst begins.",
    ),
    metric(
        "rto_after_burst_s",
        "The mean of it between 50 and 60 s after the burst began.",
    ),
    metric(
        "rto_init_p10_s",
        "The 10th percentile of the first timers of exchanges, per run of a wireless network, within 6 %.",
    ),
    metric("rto_init_p50_s", "Their median."),
    metric("rto_init_p90_s", "Their 90th percentile."),
    metric("rto_init_range_s", "The distance of these two percentiles."),
    metric(
        "rto_init_above_10_s",
        "Share of first timers above 10 s, per run of a wireless network.",
    ),
    metric(
        "rttvar_weak_s",
        "Mean variance of the weak estimator after its updates, per run of a wireless network.",
    ),
    metric("rttvar_weak_below_5_s", "Share of those below 5 s."),
    metric(
        "weak_updates",
        "Updates of weak estimators, per run of a wireless network.",
    ),
    metric(
        "rtt_weak_s",
        "Mean time that a weak estimator was updated with, per run of a wireless network.",
    ),
    metric(
        "node_rto_s",
        "Mean RTO that a node's controller had after its answers.",
    ),
    metric(
        "rto_drop_correlation",
        "Correlation over the nodes of a wireless network of that RTO with the messages that their applications dropped, per run.",
    ),
    metric(
        "transmissions",
        "CoAP messages that the nodes of a wireless network sent, retransmissions included, per run.",
    ),
    metric(
        "failed_ratio",
        "Share of confirmable messages that were given up, per run of a wireless network.",
    ),
    metric(
        "mac_drops",
        "Frames that MACs dropped, per run of a wireless network, those of RPL included.",
    ),
    metric("mac_queue_drops", "Of those, for lack of a buffer."),
    metric("mac_no_ack_drops", "Of those, never acknowledged."),
    metric(
        "mac_no_ack_ratio",
        "Frames never acknowledged over frames passed to the MACs, per run of a wireless network.",
    ),
    metric(
        "mac_transmissions_per_frame",
        "Transmissions of frames over frames passed to the MACs, per run of a wireless network.",
    ),
    metric(
        "mac_channel_drops",
        "Of those, never sent for a busy channel.",
    ),
    metric(
        "mac_drop_ratio",
        "Frames that MACs dropped over messages made, per run of a wireless network.",
    ),
    metric(
        "mac_drops_near",
        "Frames that the MAC of a node at most two hops from the root dropped, mean of a run.",
    ),
    metric("mac_drops_far", "The same of nodes farther from the root."),
    metric(
        "collisions",
        "Frames not received since another was on the air, per run of a wireless network.",
    ),
    metric(
        "route_drops",
        "Packets dropped for lack of a route, per run of a wireless network.",
    ),
    metric("route_drop_ratio", "The same over CoAP messages sent."),
    metric(
        "app_drops",
        "Messages that applications dropped since too many waited, per run of a wireless network.",
    ),
    metric("app_drop_ratio", "The same over messages made."),
    metric(
        "reassembly_drops",
        "Datagrams that could not be put together again, per run of a wireless network.",
    ),
    metric(
        "control",
        "RPL messages sent in a run of a wireless network.",
    ),
    metric(
        "parent_resets",
        "How often preferred parents changed or were lost, in a run of a wireless network.",
    ),
    metric("repairs", "Local repairs of a run of a wireless network."),
    metric(
        "orphan_s",
        "The longest time that any node was without a parent, per run of a wireless network.",
    ),
    metric(
        "orphan_ratio",
        "Share of the nodes' time without a parent, per run of a wireless network.",
    ),
    metric(
        "stopped",
        "Clients that stopped for good (`traffic.stop`), per run of a wireless network.",
    ),
    metric(
        "round_trip_per_hop_s",
        "Slope over hops of the nodes' mean round trips without retransmission, per run of a wireless network.",
    ),
    metric(
        "round_trip_base_s",
        "Value of that line at no hops, per run of a wireless network.",
    ),
    metric(
        "orphaned",
        "Nodes without a parent as a run of a wireless network ended.",
    ),
    metric("rank", "Rank of a node as a run ended, if it had a parent."),
    metric("etx", "ETX of a node's link to its parent as a run ended."),
    metric("hops", "Hops of a node to the root as a run ended."),
    metric("neighbours", "Nodes that a node can hear."),
    metric("nodes", "Nodes of a wireless network."),
    metric(
        "pdr_near",
        "Messages received over messages made of nodes at most two hops from the root, per run.",
    ),
    metric("pdr_far", "The same of nodes farther from the root."),
    metric(
        "traced_rto_s",
        "Mean RTO of the traced node of a wireless network, over time.",
    ),
    metric(
        "traced_rto_below_1_s",
        "Share of the time with an RTO that it is below 1 s there.",
    ),
    metric(
        "traced_rto_after_change_s",
        "The mean there in the minute after a change of its parent.",
    ),
    metric(
        "traced_low_after_change",
        "Of the time with an RTO below 1 s, the share within that minute.",
    ),
    metric(
        "traced_changed_ratio",
        "Share of the time that is within that minute.",
    ),
    metric(
        "traced_copies_ratio",
        "Copies per second that it sends within that minute, over those at other times.",
    ),
    metric(
        "traced_orphan_end_s",
        "For how long it had been without a parent as the run ended.",
    ),
];
