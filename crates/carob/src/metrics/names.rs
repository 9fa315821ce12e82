//! Metrics: names, kinds, units and help.

use metrics::Unit;

/// Kind of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sort {
    /// A total that only grows.
    Counter,
    /// A current value.
    Gauge,
    /// A distribution of times.
    Histogram,
}

/// A metric of endpoints.
#[derive(Debug)]
pub(crate) struct Metric {
    pub(crate) name: &'static str,
    sort: Sort,
    unit: Option<Unit>,
    help: &'static str,
}

macro_rules! metrics {
    ($($constant:ident $sort:ident $name:literal $unit:expr, $help:literal;)*) => {
        $(pub(crate) static $constant: Metric = Metric {
            name: $name,
            sort: Sort::$sort,
            unit: $unit,
            help: $help,
        };)*

        static ALL: &[&Metric] = &[$(&$constant),*];
    };
}

metrics! {
    ENDPOINTS Gauge "carob_endpoints" Some(Unit::Count),
        "Endpoints, by the congestion controller of their peers";
    RECEIVED_MESSAGES Counter "carob_received_messages_total" Some(Unit::Count),
        "Received CoAP messages, including malformed ones and duplicates";
    RECEIVED_BYTES Counter "carob_received_bytes_total" Some(Unit::Bytes),
        "Bytes of received CoAP messages";
    SENT_MESSAGES Counter "carob_sent_messages_total" Some(Unit::Count),
        "Sent CoAP messages";
    SENT_BYTES Counter "carob_sent_bytes_total" Some(Unit::Bytes),
        "Bytes of sent CoAP messages";
    DROPPED Counter "carob_datagrams_dropped_total" Some(Unit::Count),
        "Datagrams dropped by the system because the socket's receive buffer was full (Linux)";
    REQUESTS Counter "carob_requests_total" Some(Unit::Count),
        "Answered requests, by method and response code";
    IN_PROGRESS Gauge "carob_requests_in_progress" Some(Unit::Count),
        "Received requests without a response yet";
    HANDLERS Gauge "carob_handlers" Some(Unit::Count),
        "Running handlers";
    HANDLER_TIME Histogram "carob_handler_seconds" Some(Unit::Seconds),
        "Time from a request to the response of its handler";
    REFUSALS Counter "carob_refusals_total" Some(Unit::Count),
        "Rejected requests and messages, by reason";
    DUPLICATES Counter "carob_duplicates_total" Some(Unit::Count),
        "Received duplicates, answered from the deduplication table or ignored";
    RESPONSES Counter "carob_responses_total" Some(Unit::Count),
        "Responses to the endpoint's own requests, by code";
    EXCHANGES Counter "carob_exchanges_total" Some(Unit::Count),
        "Finished exchanges of own messages, by outcome";
    TRANSMISSIONS Counter "carob_transmissions_total" Some(Unit::Count),
        "Transmissions of own messages";
    RETRANSMISSIONS Counter "carob_retransmissions_total" Some(Unit::Count),
        "Retransmissions of own messages";
    TIMEOUTS Counter "carob_timeouts_total" Some(Unit::Count),
        "Expired retransmission timers";
    SPURIOUS Counter "carob_spurious_retransmissions_total" Some(Unit::Count),
        "Spurious retransmissions of own messages, counted by further replies";
    LATE Counter "carob_late_answers_total" Some(Unit::Count),
        "Replies that arrived after the exchange had been given up";
    ROUND_TRIP Histogram "carob_round_trip_seconds" Some(Unit::Seconds),
        "Unambiguous round-trip times (RFC 6298 3)";
    TIMER Histogram "carob_retransmission_timeout_seconds" Some(Unit::Seconds),
        "Initial timeouts of confirmable messages: the RTO with dithering";
    OWN_IN_PROGRESS Gauge "carob_own_requests_in_progress" Some(Unit::Count),
        "Own requests, sent or queued";
    EXCHANGES_IN_PROGRESS Gauge "carob_exchanges_in_progress" Some(Unit::Count),
        "Own messages, in flight or queued";
    PEERS Gauge "carob_peers" Some(Unit::Count),
        "Peers with congestion control state";
    REMEMBERED Gauge "carob_remembered_messages" Some(Unit::Count),
        "Messages in the deduplication table";
    OBSERVERS Gauge "carob_observers" Some(Unit::Count),
        "Observations of own resources by clients";
    OBSERVATIONS Gauge "carob_observations" Some(Unit::Count),
        "Own observations of resources on servers";
    WAITING Gauge "carob_notifications_waiting" Some(Unit::Count),
        "Queued notifications";
    NOTIFICATIONS_DROPPED Counter "carob_notifications_dropped_total" Some(Unit::Count),
        "Notifications dropped because the queue was full";
    VALIDATED Gauge "carob_validated_sources" Some(Unit::Count),
        "Sources with a validated address";
    UPLOADS Gauge "carob_uploads" Some(Unit::Count),
        "Request bodies in reassembly";
    UPLOAD_BYTES Gauge "carob_upload_bytes" Some(Unit::Bytes),
        "Bytes of request bodies in reassembly";
    BODIES Gauge "carob_bodies" Some(Unit::Count),
        "Response bodies kept for requests of further blocks";
    BODY_BYTES Gauge "carob_body_bytes" Some(Unit::Bytes),
        "Bytes of the response bodies kept for requests of further blocks";
    CONNECTIONS Gauge "carob_connections" Some(Unit::Count),
        "Connections, including those being established";
    CONNECTIONS_MADE Counter "carob_connections_total" Some(Unit::Count),
        "Connection attempts, by outcome: accepted, refused, made, failed";
    PARTIAL_BYTES Gauge "carob_partial_bytes" Some(Unit::Bytes),
        "Bytes of incomplete messages on connections";
    SESSIONS Gauge "carob_sessions" Some(Unit::Count),
        "DTLS sessions";
    SESSIONS_CLOSED Counter "carob_sessions_closed_total" Some(Unit::Count),
        "DTLS sessions closed by this endpoint, by reason: evicted at the limit, idle";
    HANDSHAKES Gauge "carob_handshakes_in_progress" Some(Unit::Count),
        "DTLS handshakes in progress";
    HANDSHAKES_MADE Counter "carob_handshakes_total" Some(Unit::Count),
        "Finished handshakes of DTLS, TLS and WebSocket, by outcome: done, failed, refused by admission control";
    COOKIES Counter "carob_cookies_total" Some(Unit::Count),
        "HelloVerifyRequests sent, which validate the address of a DTLS client";
    QUEUES Gauge "carob_queue_length" Some(Unit::Count),
        "Queued commands of applications and notes of requests and handlers";
    LIMITS Gauge "carob_limit" Some(Unit::Count),
        "Resource limits, by the name of the setting";
}

/// Registers the names, units and help of all metrics with the recorder. Endpoints call it when they
/// start; call it for a recorder that is installed later.
pub fn describe() {
    metrics::with_recorder(|recorder| {
        for metric in ALL {
            let (name, help) = (metric.name.into(), metric.help.into());
            match metric.sort {
                Sort::Counter => recorder.describe_counter(name, metric.unit, help),
                Sort::Gauge => recorder.describe_gauge(name, metric.unit, help),
                Sort::Histogram => recorder.describe_histogram(name, metric.unit, help),
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_of_names_has_every_metric_and_no_other() {
        let page = include_str!("names.md");
        let rows = page
            .lines()
            .filter_map(|line| line.strip_prefix("| `carob_"));
        let listed: Vec<&str> = rows.filter_map(|row| row.split('`').next()).collect();
        let mut all: Vec<&str> = (ALL.iter())
            .filter_map(|metric| metric.name.strip_prefix("carob_"))
            .collect();
        // Added by the listener for Prometheus.
        all.push("build_info");
        assert_eq!(listed, all);
        for metric in ALL {
            assert_eq!(
                metric.sort == Sort::Counter,
                metric.name.ends_with("_total"),
                "{}",
                metric.name
            );
            assert!(!metric.help.is_empty());
        }
    }
}
