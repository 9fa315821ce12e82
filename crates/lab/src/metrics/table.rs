//! The table of metrics: each is declared here, once, and every other place uses its constant.

use super::{How, Metric};

/// Declares a constant for each metric, and the list of all.
macro_rules! metrics {
    ($($constant:ident: $name:literal, $unit:literal, $how:ident, $about:literal;)+) => {
        $(
            #[doc = $about]
            pub const $constant: Metric = Metric {
                name: $name,
                unit: $unit,
                about: $about,
                how: How::$how,
            };
        )+

        /// The metrics of runs: over a constrained link, then of wireless networks.
        pub const METRICS: &[Metric] = &[$($constant),+];
    };
}

// Constant: name, unit, the value's source, description.
metrics! {
    FCT_S: "fct_s", "s", Flow,
        "Flow completion time: first request to last complete response; connection set-up apart.";
    SETUP_S: "setup_s", "s", Flow,
        "Connection set-up, for transports that have one.";
    GOODPUT_BPS: "goodput_bps", "bit/s", Flow,
        "Body bits over flow completion time.";
    THROUGHPUT_RPS: "throughput_rps", "1/s", Run,
        "Requests answered in a run, per second from the first client's begin to the last one's end.";
    CLIENT_RPS: "client_rps", "1/s", Flow,
        "Requests answered, per second of a client's own time.";
    RESPONSE_TIME_S: "response_time_s", "s", Response,
        "Time from a request to its complete response; where clients make several requests, and no run has more than 65,536 responses.";
    RESPONSE_S: "response_s", "s", Run,
        "The mean of these times in a run.";
    RESPONSE_P95_S: "response_p95_s", "s", Run,
        "The 95th percentile of these times in a run; within 6 % in a run of more than 65,536 responses.";
    ANSWERED_RATIO: "answered_ratio", "1", Run,
        "Share of a run's requests that were answered; in a wireless network, of its messages.";
    FIRST_ATTEMPT_RATIO: "first_attempt_ratio", "1", Run,
        "Share of a run's exchanges that were answered before anything was sent again, over UDP.";
    SUCCESS_RATIO: "success_ratio", "1", Run,
        "Share of a run's flows that completed.";
    TRANSMISSIONS_PER_EXCHANGE: "transmissions_per_exchange", "1", FlowOrRun,
        "Transmissions per exchange, mean of a flow or of a wireless network; over TCP, data segments sent per segment of new data.";
    SEGMENTS: "segments", "1", Flow,
        "Data segments the server sent over TCP, retransmissions included, per flow.";
    RETRANSMISSIONS: "retransmissions", "1", FlowSubscriberOrNode,
        "Transmissions after the first of their exchange, per flow, subscriber or node; over TCP, data segments the server sent again.";
    SPURIOUS: "spurious", "1", FlowOrNode,
        "Spurious retransmissions per flow: sent although an earlier transmission and its response were not lost; over TCP, segments of which all bytes had arrived before.";
    RETRANSMISSIONS_PER_EXCHANGE: "retransmissions_per_exchange", "1", Flow,
        "The same over the flow's exchanges; over TCP, over its segments of new data.";
    SPURIOUS_PER_EXCHANGE: "spurious_per_exchange", "1", Flow,
        "Spurious retransmissions over the flow's exchanges; over TCP, over its segments of new data.";
    FAILED: "failed", "1", Flow,
        "Exchanges given up, per flow over UDP.";
    RTT_MEAN_S: "rtt_mean_s", "s", Flow,
        "Mean round-trip time of a flow's exchanges over UDP, from the transmission answered first to its response.";
    RTO_MEDIAN_S: "rto_median_s", "s", Flow,
        "Median of the first timers of a flow's exchanges, dithering included, over UDP.";
    RTO_COUNT: "rto_count", "1", Flow,
        "Timers that ran out, per flow; over TCP, the server's retransmission timers.";
    LOSS: "loss", "1", Run,
        "Share of a run's packets lost or dropped, both directions.";
    QUEUE_BYTES: "queue_bytes", "B", Run,
        "The fullest a bottleneck buffer was in a run.";
    USELESS_SHARE: "useless_share", "1", Run,
        "Share of the bytes towards the clients spent on spurious retransmissions, per run: responses after the first to arrive, and TCP's spurious retransmissions.";
    DROPPED: "dropped", "1", Run,
        "Packets dropped by the bottlenecks of a run, both directions.";
    CORRUPTED: "corrupted", "1", Run,
        "Packets of a run that arrived damaged and were discarded, both directions, where there are any.";
    ENERGY_J: "energy_j", "J", Flow,
        "Energy of a device's radio in a run, where `link.power_send` is set.";
    RADIO_SEND_S: "radio_send_s", "s", Flow,
        "Time that a device's radio sends, where its energy is measured.";
    RADIO_RECEIVE_S: "radio_receive_s", "s", Flow,
        "Time that a device's radio receives, likewise.";
    RADIO_LISTEN_S: "radio_listen_s", "s", Flow,
        "Time that a device's radio is connected without either, or listens for pages, likewise.";
    RADIO_IDLE_S: "radio_idle_s", "s", Flow,
        "Time that a device's radio is idle, likewise.";
    RADIO_SLEEP_S: "radio_sleep_s", "s", Flow,
        "Time that a device's radio is in power saving mode, likewise.";
    EXCHANGES: "exchanges", "1", Flow,
        "Message exchanges of a flow.";
    RECOVERIES: "recoveries", "1", Flow,
        "Fast recoveries that the server entered, per flow over TCP.";
    RECOVERY_S: "recovery_s", "s", Flow,
        "Time that the server spent in fast recovery, per flow over TCP.";
    RTO_FIRST_S: "rto_first_s", "s", Flow,
        "When the server's first timer ran out, from the request on, per flow over TCP.";
    RTO_PEAK_S: "rto_peak_s", "s", Flow,
        "The longest timer that the server set, per flow over TCP.";
    STALL_S: "stall_s", "s", Flow,
        "The longest time without new bytes of the response, per flow.";
    PACKETS: "packets", "1", Flow,
        "Packets of a flow in both directions until its last response, connection set-up and acknowledgments included.";
    HEADER_BYTES: "header_bytes", "B", Flow,
        "Bytes of IP and UDP or TCP headers in those packets.";
    COAP_HEADER_BYTES: "coap_header_bytes", "B", Flow,
        "Bytes of fixed CoAP headers in those packets (RFC 7252 3), over UDP.";
    CLOSE_PACKETS: "close_packets", "1", Flow,
        "Packets from a connection's first FIN on, where runs go on until connections are closed.";
    CLOSE_S: "close_s", "s", Flow,
        "Time from a connection's first FIN until both ends had closed it.";
    SERVER_HANDLED: "server_handled", "1", Run,
        "Datagrams that the server worked on in a run, where that takes it time.";
    SERVER_REPEATED_RATIO: "server_repeated_ratio", "1", Run,
        "Share of those that were duplicates of processed requests.";
    SERVER_DROPPED: "server_dropped", "1", Run,
        "Datagrams that found its receive queue full, per run.";
    SERVER_QUEUE: "server_queue", "1", Run,
        "The most datagrams that waited for it in a run.";
    SERVER_BUSY_RATIO: "server_busy_ratio", "1", Run,
        "Share of the run that it worked.";
    FCT_SPREAD: "fct_spread", "1", Run,
        "The longest flow completion time of a run over the median, where several clients are all done.";
    LAST_IS_LAST: "last_is_last", "1", Run,
        "1 if the flow of a run that began last ended last, else 0.";
    JAIN: "jain", "1", Run,
        "Jain's fairness index of a run's goodputs.";
    RECEIVED_BPS: "received_bps", "bit/s", Flow,
        "Bits of new messages per second that a flow received, headers of CoAP included, from its first request to its end or that of the run.";
    SECOND_RECEIVED_BPS: "second_received_bps", "bit/s", Flow,
        "The same of the other clients on the link (`mix.second`).";
    SECOND_FCT_S: "second_fct_s", "s", Flow,
        "Flow completion time of the other clients on the link.";
    SECOND_RETRANSMISSIONS: "second_retransmissions", "1", Flow,
        "Retransmissions per flow of the other clients on the link.";
    FIRST_SHARE: "first_share", "1", Run,
        "Of the bytes of new messages that all clients of a run received, the share of the first kind, where there are two.";
    JAIN_RECEIVED: "jain_received", "1", Run,
        "Jain's fairness index of what all clients of a run received per second, where there are two kinds.";
    PDR: "pdr", "1", Run,
        "Notifications received over notifications generated, per run, or messages of a wireless network; what still waits or is under way as the run ends was generated and not received.";
    PDR_EARLY: "pdr_early", "1", Run,
        "The same of the rounds of the first two minutes.";
    PDR_LATE: "pdr_late", "1", Run,
        "The same of the rounds after the first two minutes and before the last.";
    NOTIFICATIONS: "notifications", "1", Run,
        "Notifications generated in a run: one per round, subscriber and resource.";
    SERVER_DROP_RATIO: "server_drop_ratio", "1", Run,
        "Share of the notifications of a run that the server dropped because too many waited.";
    SUPERSEDED_RATIO: "superseded_ratio", "1", Run,
        "Share of the notifications of a run whose place a newer one took before they were sent.";
    UNSENT_RATIO: "unsent_ratio", "1", Run,
        "Share of the notifications of a run that waited at the server when it ended.";
    UNLISTED_RATIO: "unlisted_ratio", "1", Run,
        "Share of the notifications of a run for observers that the server had removed after an unacknowledged CON (RFC 7641 4.5).";
    LINK_DROP_RATIO: "link_drop_ratio", "1", Run,
        "Transmissions of notifications that met a full buffer at the link, over the notifications of the run.";
    LINK_LOSS_RATIO: "link_loss_ratio", "1", Run,
        "Transmissions of notifications that were lost at random, over the notifications of the run.";
    CON_RATIO: "con_ratio", "1", Run,
        "Share of the notifications sent in a run that were CON.";
    DELAY_S: "delay_s", "s", SubscriberOrRun,
        "Mean time from the round to reception, per subscriber; in a wireless network from one application to the other, of all messages received in a run.";
    SEND_CORRELATION: "send_correlation", "1", Run,
        "Correlation of the number of notifications sent in 100 ms with that 3 s later, per run.";
    RTO_EARLY_S: "rto_early_s", "s", Run,
        "The server's retransmission timeout 10 s after the first round (at the end of the first bin), mean of its subscribers; ACK_TIMEOUT where nothing was measured.";
    RTO_SETTLED_S: "rto_settled_s", "s", Run,
        "The same between 90 and 120 s after the first round.";
    RTO_SETTLING_S: "rto_settling_s", "s", Run,
        "When that mean was last more than half as long again as `rto_settled_s` in the first 120 s, to a bin; 0 if it never was.";
    RTO_SWING: "rto_swing", "1", Run,
        "The longest over the shortest of those means from 60 to 120 s.";
    RTT_S: "rtt_s", "s", Sample,
        "Round-trip times, when samples are recorded.";
    RTO_INIT_S: "rto_init_s", "s", SampleOrRun,
        "First timers of exchanges, when samples are recorded; in a wireless network, their mean in a run.";
    RTO_S: "rto_s", "s", SampleOrRun,
        "Retransmission timeouts, when samples are recorded; in a wireless network, the mean in a run of what the controllers had after each answer.";
    TIMER_S: "timer_s", "s", Timer,
        "Timers of all transmissions, dithering included, when events are recorded.";
    TIMER_EARLY_RATIO: "timer_early_ratio", "1", RunOfTimers,
        "Share of a run's timers that ran out although an answer was to come, when events are recorded.";
    TIMERS_SUIT_AFTER: "timers_suit_after", "1", RunOfTimers,
        "After how many of a run's first 1,500 timers they suit: of any 100 in a row after that, at most 10 run out although an answer is to come. When events are recorded.";
    SUCCESS_BEND: "success_bend", "1", RunOfTimers,
        "How unevenly exchanges are answered after a run's first 400 timers, up to the 1,500th: the largest distance of their cumulative number from a straight line, over that number. When events are recorded.";
    PDR_OF_SENT: "pdr_of_sent", "1", Run,
        "Messages received over messages whose original transmission left a node, per run of a wireless network.";
    THROUGHPUT_BPS: "throughput_bps", "bit/s", Run,
        "Bits of messages received per second, by the bytes that each counts, per run of a wireless network.";
    CARRIED_BYTES_PS: "carried_Bps", "B/s", Run,
        "The same in bytes.";
    GENERATED: "generated", "1", Run,
        "Messages that the nodes of a wireless network made, per run.";
    DELAY_P50_S: "delay_p50_s", "s", Run,
        "Median time to reception in a wireless network, per run, within 6 %.";
    DELAY_P95_S: "delay_p95_s", "s", Run,
        "The 95th percentile of it.";
    BURST_DELAY_S: "burst_delay_s", "s", Run,
        "Mean time to reception of messages made from the beginning of a burst to 10 s after it, per run of a wireless network.";
    WITHIN_1_S: "within_1_s", "1", Run,
        "Share of a wireless network's messages received within 1 s, per run.";
    WITHIN_2_S: "within_2_s", "1", Run,
        "The same within 2 s.";
    WITHIN_5_S: "within_5_s", "1", Run,
        "The same within 5 s.";
    WITHIN_10_S: "within_10_s", "1", Run,
        "The same within 10 s.";
    WITHIN_20_S: "within_20_s", "1", Run,
        "The same within 20 s.";
    WITHIN_30_S: "within_30_s", "1", Run,
        "The same within 30 s.";
    WITHIN_60_S: "within_60_s", "1", Run,
        "The same within 60 s.";
    DELAY_STEPS: "delay_steps", "1", Run,
        "Steps in the distribution of times to reception, per run of a wireless network: of 2 to 3.5 s, 6 to 9.5 s and 14 to 21.5 s, in how many more messages per second arrive than in 1 to 2 s, 4 to 6 s and 10 to 14 s before.";
    SETTLING_S: "settling_s", "s", Run,
        "Time from the first burst on until the mean time to reception in 20 s, sliding by 1 s, is at most 1.1 times that before the burst; if it never is, the time to the end of the run.";
    SETTLED: "settled", "1", Run,
        "1 if it was so before the run's end, else 0.";
    RTO_BEFORE_BURST_S: "rto_before_burst_s", "s", Run,
        "Mean RTO that controllers have after an answer, before the first burst of a run of a wireless network.";
    RTO_BURST_PEAK_S: "rto_burst_peak_s", "s", Run,
        "The largest mean of it in 10 s within the minute after the burst begins.";
    RTO_AFTER_BURST_S: "rto_after_burst_s", "s", Run,
        "The mean of it between 50 and 60 s after the burst began.";
    RTO_INIT_P10_S: "rto_init_p10_s", "s", Run,
        "The 10th percentile of the first timers of exchanges, per run of a wireless network, within 6 %.";
    RTO_INIT_P50_S: "rto_init_p50_s", "s", Run,
        "Their median.";
    RTO_INIT_P90_S: "rto_init_p90_s", "s", Run,
        "Their 90th percentile.";
    RTO_INIT_RANGE_S: "rto_init_range_s", "s", Run,
        "The distance of these two percentiles.";
    RTO_INIT_ABOVE_10_S: "rto_init_above_10_s", "1", Run,
        "Share of first timers above 10 s, per run of a wireless network.";
    RTTVAR_WEAK_S: "rttvar_weak_s", "s", Run,
        "Mean variance of the weak estimator after its updates, per run of a wireless network.";
    RTTVAR_WEAK_BELOW_5_S: "rttvar_weak_below_5_s", "1", Run,
        "Share of those below 5 s.";
    WEAK_UPDATES: "weak_updates", "1", Run,
        "Updates of weak estimators, per run of a wireless network.";
    RTT_WEAK_S: "rtt_weak_s", "s", Run,
        "Mean time that a weak estimator was updated with, per run of a wireless network.";
    NODE_RTO_S: "node_rto_s", "s", Node,
        "Mean RTO that a node's controller had after its answers.";
    RTO_DROP_CORRELATION: "rto_drop_correlation", "1", Run,
        "Correlation over the nodes of a wireless network of that RTO with the messages that their applications dropped, per run.";
    TRANSMISSIONS: "transmissions", "1", Run,
        "CoAP messages that the nodes of a wireless network sent, retransmissions included, per run.";
    FAILED_RATIO: "failed_ratio", "1", Run,
        "Share of confirmable messages that were given up, per run of a wireless network.";
    MAC_DROPS: "mac_drops", "1", Run,
        "Frames that MACs dropped, per run of a wireless network, those of RPL included.";
    MAC_QUEUE_DROPS: "mac_queue_drops", "1", Run,
        "Of those, for lack of a buffer.";
    MAC_NO_ACK_DROPS: "mac_no_ack_drops", "1", Run,
        "Of those, never acknowledged.";
    MAC_NO_ACK_RATIO: "mac_no_ack_ratio", "1", Run,
        "Frames never acknowledged over frames passed to the MACs, per run of a wireless network.";
    MAC_TRANSMISSIONS_PER_FRAME: "mac_transmissions_per_frame", "1", Run,
        "Transmissions of frames over frames passed to the MACs, per run of a wireless network.";
    MAC_CHANNEL_DROPS: "mac_channel_drops", "1", Run,
        "Of those, never sent for a busy channel.";
    MAC_DROP_RATIO: "mac_drop_ratio", "1", Run,
        "Frames that MACs dropped over messages made, per run of a wireless network.";
    MAC_DROPS_NEAR: "mac_drops_near", "1", Run,
        "Frames that the MAC of a node at most two hops from the root dropped, mean of a run.";
    MAC_DROPS_FAR: "mac_drops_far", "1", Run,
        "The same of nodes farther from the root.";
    COLLISIONS: "collisions", "1", Run,
        "Frames not received since another was on the air, per run of a wireless network.";
    ROUTE_DROPS: "route_drops", "1", Run,
        "Packets dropped for lack of a route, per run of a wireless network.";
    ROUTE_DROP_RATIO: "route_drop_ratio", "1", Run,
        "The same over CoAP messages sent.";
    APP_DROPS: "app_drops", "1", Run,
        "Messages that applications dropped since too many waited, per run of a wireless network.";
    APP_DROP_RATIO: "app_drop_ratio", "1", Run,
        "The same over messages made.";
    REASSEMBLY_DROPS: "reassembly_drops", "1", Run,
        "Datagrams that could not be put together again, per run of a wireless network.";
    CONTROL: "control", "1", Run,
        "RPL messages sent in a run of a wireless network.";
    PARENT_RESETS: "parent_resets", "1", Run,
        "How often preferred parents changed or were lost, in a run of a wireless network.";
    REPAIRS: "repairs", "1", Run,
        "Local repairs of a run of a wireless network.";
    ORPHAN_S: "orphan_s", "s", Run,
        "The longest time that any node was without a parent, per run of a wireless network.";
    ORPHAN_RATIO: "orphan_ratio", "1", Run,
        "Share of the nodes' time without a parent, per run of a wireless network.";
    STOPPED: "stopped", "1", Run,
        "Clients that stopped for good (`traffic.stop`), per run of a wireless network.";
    ROUND_TRIP_PER_HOP_S: "round_trip_per_hop_s", "s", Run,
        "Slope over hops of the nodes' mean round trips without retransmission, per run of a wireless network.";
    ROUND_TRIP_BASE_S: "round_trip_base_s", "s", Run,
        "Value of that line at no hops, per run of a wireless network.";
    ORPHANED: "orphaned", "1", Run,
        "Nodes without a parent as a run of a wireless network ended.";
    RANK: "rank", "1", Node,
        "Rank of a node as a run ended, if it had a parent.";
    ETX: "etx", "1", Node,
        "ETX of a node's link to its parent as a run ended.";
    HOPS: "hops", "1", Node,
        "Hops of a node to the root as a run ended.";
    NEIGHBOURS: "neighbours", "1", Node,
        "Nodes that a node can hear.";
    NODES: "nodes", "1", Run,
        "Nodes of a wireless network.";
    PDR_NEAR: "pdr_near", "1", Run,
        "Messages received over messages made of nodes at most two hops from the root, per run.";
    PDR_FAR: "pdr_far", "1", Run,
        "The same of nodes farther from the root.";
    TRACED_RTO_S: "traced_rto_s", "s", Run,
        "Mean RTO of the traced node of a wireless network, over time.";
    TRACED_RTO_BELOW_1_S: "traced_rto_below_1_s", "1", Run,
        "Share of the time with an RTO that it is below 1 s there.";
    TRACED_RTO_AFTER_CHANGE_S: "traced_rto_after_change_s", "s", Run,
        "The mean there in the minute after a change of its parent.";
    TRACED_LOW_AFTER_CHANGE: "traced_low_after_change", "1", Run,
        "Of the time with an RTO below 1 s, the share within that minute.";
    TRACED_CHANGED_RATIO: "traced_changed_ratio", "1", Run,
        "Share of the time that is within that minute.";
    TRACED_COPIES_RATIO: "traced_copies_ratio", "1", Run,
        "Transmissions per second of the node within that minute, over those at other times.";
    TRACED_ORPHAN_END_S: "traced_orphan_end_s", "s", Run,
        "For how long it had been without a parent as the run ended.";
}
