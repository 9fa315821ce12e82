//! The metrics: names, what they are, and their help.

use metrics::Unit;

/// What a metric does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sort {
    /// It only grows.
    Counter,
    /// It is what it is now.
    Gauge,
    /// Times by size.
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
        "Endpoints, by the controller of their peers";
    RECEIVED_MESSAGES Counter "carob_received_messages_total" Some(Unit::Count),
        "CoAP messages that came in, malformed ones and duplicates included";
    RECEIVED_BYTES Counter "carob_received_bytes_total" Some(Unit::Bytes),
        "Bytes of the CoAP messages that came in";
    SENT_MESSAGES Counter "carob_sent_messages_total" Some(Unit::Count),
        "CoAP messages that went out";
    SENT_BYTES Counter "carob_sent_bytes_total" Some(Unit::Bytes),
        "Bytes of the CoAP messages that went out";
    DROPPED Counter "carob_datagrams_dropped_total" Some(Unit::Count),
        "Datagrams that the system dropped because the socket's receive buffer was full (Linux)";
    REQUESTS Counter "carob_requests_total" Some(Unit::Count),
        "Requests received, by method and the code they were answered with";
    IN_PROGRESS Gauge "carob_requests_in_progress" Some(Unit::Count),
        "Requests received and not yet answered";
    HANDLERS Gauge "carob_handlers" Some(Unit::Count),
        "Handlers running";
    HANDLER_TIME Histogram "carob_handler_seconds" Some(Unit::Seconds),
        "From a request to the response of its handler";
    REFUSALS Counter "carob_refusals_total" Some(Unit::Count),
        "What was refused, by reason";
    DUPLICATES Counter "carob_duplicates_total" Some(Unit::Count),
        "Messages that came again and were answered from memory or ignored";
    RESPONSES Counter "carob_responses_total" Some(Unit::Count),
        "Responses to own requests, by code";
    EXCHANGES Counter "carob_exchanges_total" Some(Unit::Count),
        "Own messages that are over, by outcome";
    TRANSMISSIONS Counter "carob_transmissions_total" Some(Unit::Count),
        "Copies of own messages that left";
    RETRANSMISSIONS Counter "carob_retransmissions_total" Some(Unit::Count),
        "Copies of own messages after the first";
    TIMEOUTS Counter "carob_timeouts_total" Some(Unit::Count),
        "Retransmission timers that ran out";
    SPURIOUS Counter "carob_spurious_retransmissions_total" Some(Unit::Count),
        "Further answers to own messages that had one: copies that were not needed, as far as answers tell";
    LATE Counter "carob_late_answers_total" Some(Unit::Count),
        "Answers that came when their message had been given up";
    ROUND_TRIP Histogram "carob_round_trip_seconds" Some(Unit::Seconds),
        "Round-trip times that are certain (RFC 6298 3)";
    TIMER Histogram "carob_retransmission_timeout_seconds" Some(Unit::Seconds),
        "Timers that first copies of confirmable messages left with: the RTO, dithered";
    OWN_IN_PROGRESS Gauge "carob_own_requests_in_progress" Some(Unit::Count),
        "Own requests under way or waiting";
    EXCHANGES_IN_PROGRESS Gauge "carob_exchanges_in_progress" Some(Unit::Count),
        "Own messages under way or waiting";
    PEERS Gauge "carob_peers" Some(Unit::Count),
        "Peers that own messages were sent to and that are remembered";
    REMEMBERED Gauge "carob_remembered_messages" Some(Unit::Count),
        "Messages remembered for duplicates";
    OBSERVERS Gauge "carob_observers" Some(Unit::Count),
        "Observations of own resources";
    OBSERVATIONS Gauge "carob_observations" Some(Unit::Count),
        "Own observations of others' resources";
    WAITING Gauge "carob_notifications_waiting" Some(Unit::Count),
        "Notifications that wait to be sent";
    NOTIFICATIONS_DROPPED Counter "carob_notifications_dropped_total" Some(Unit::Count),
        "Notifications dropped because too many waited";
    VALIDATED Gauge "carob_validated_sources" Some(Unit::Count),
        "Sources that have shown that they are where they say they are";
    UPLOADS Gauge "carob_uploads" Some(Unit::Count),
        "Request bodies being received";
    UPLOAD_BYTES Gauge "carob_upload_bytes" Some(Unit::Bytes),
        "Bytes of request bodies being received";
    BODIES Gauge "carob_bodies" Some(Unit::Count),
        "Response bodies kept while peers read them";
    BODY_BYTES Gauge "carob_body_bytes" Some(Unit::Bytes),
        "Bytes of those";
    CONNECTIONS Gauge "carob_connections" Some(Unit::Count),
        "Connections, those that are being made included";
    CONNECTIONS_MADE Counter "carob_connections_total" Some(Unit::Count),
        "Connections, by how they began: accepted, refused, made, failed";
    PARTIAL_BYTES Gauge "carob_partial_bytes" Some(Unit::Bytes),
        "Bytes of incomplete messages on connections";
    SESSIONS Gauge "carob_sessions" Some(Unit::Count),
        "DTLS sessions";
    HANDSHAKES Gauge "carob_handshakes_in_progress" Some(Unit::Count),
        "DTLS handshakes under way";
    HANDSHAKES_MADE Counter "carob_handshakes_total" Some(Unit::Count),
        "DTLS handshakes that are over, by outcome: done, failed, refused (not begun: too many)";
    COOKIES Counter "carob_cookies_total" Some(Unit::Count),
        "DTLS clients asked to show where they are";
    QUEUES Gauge "carob_queue_length" Some(Unit::Count),
        "What waits for the endpoint: commands of applications, notes of requests and handlers";
    LIMITS Gauge "carob_limit" Some(Unit::Count),
        "What may not be exceeded";
}

/// Says to the recorder what all metrics are. Endpoints do it when they start; for a recorder
/// that is installed later, call it.
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
        let all: Vec<&str> = (ALL.iter())
            .filter_map(|metric| metric.name.strip_prefix("carob_"))
            .collect();
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
