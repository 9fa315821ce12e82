//! The same for connections (RFC 8323).

use crate::installed::Peer::{self, Aiocoap, Californium, GoCoap, Libcoap};
use crate::interop::{
    matrix::Direction::{self, OurClient, TheirClient},
    transport::{
        Column,
        Transport::{self, SecureWebSocket, Tcp, Tls, WebSocket},
    },
};

struct Row {
    peers: &'static [Peer],
    transports: &'static [Transport],
    directions: &'static [Direction],
    cases: &'static [&'static str],
    reason: &'static str,
}

const ALL: &[Transport] = &[Tcp, Tls, WebSocket, SecureWebSocket];
const BOTH: &[Direction] = &[TheirClient, OurClient];
const THEIRS: &[Direction] = &[TheirClient];
const OURS: &[Direction] = &[OurClient];
/// Stands for all cases.
const EVERY: &[&str] = &[];

const ROWS: &[Row] = &[
    Row {
        peers: &Peer::ALL,
        transports: &[Tls, WebSocket, SecureWebSocket],
        directions: BOTH,
        cases: &[
            "receives_several_blocks_a_message",
            "sends_several_blocks_a_message",
            "releases_when_it_is_done",
            "is_aborted_and_asks_again",
            "gets_on_without_a_csm",
            "may_insist_on_a_csm",
        ],
        reason: "only over TCP can the test see, or change, what is said",
    },
    Row {
        peers: &Peer::ALL,
        transports: &[Tcp, WebSocket],
        directions: BOTH,
        cases: &["refuses_a_stranger"],
        reason: "there are no certificates",
    },
    Row {
        peers: &Peer::ALL,
        transports: &[Tcp, Tls, SecureWebSocket],
        directions: BOTH,
        cases: &["agrees_on_the_subprotocol"],
        reason: "there is no WebSocket, or the test cannot see it",
    },
    Row {
        peers: &[Californium],
        transports: &[Tls],
        directions: OURS,
        cases: EVERY,
        reason: "Californium's TLS says nothing of CoAP (ALPN), without which Carob takes a server at \
            the default port only (RFC 8323 8.2)",
    },
    Row {
        peers: &[Libcoap],
        transports: ALL,
        directions: OURS,
        cases: &["uses_the_methods_of_rfc_8132"],
        reason: "libcoap's example server takes no PATCH, and has nothing to FETCH with a payload",
    },
    Row {
        peers: &[Libcoap],
        transports: ALL,
        directions: THEIRS,
        cases: &["asks_much_at_once"],
        reason: "libcoap's example client asks one thing at a time",
    },
    Row {
        peers: &[Libcoap],
        transports: ALL,
        directions: BOTH,
        cases: &["is_asked_over_its_own_connection"],
        reason: "libcoap's example programs are either client or server",
    },
    Row {
        peers: &[Californium],
        transports: ALL,
        directions: BOTH,
        cases: &["is_asked_over_its_own_connection"],
        reason: "our programs on Californium are either client or server",
    },
    Row {
        peers: &[Libcoap, Aiocoap, Californium],
        transports: ALL,
        directions: THEIRS,
        cases: &["pings_over_the_connection"],
        reason: "their clients, as they are here, do not ping",
    },
    Row {
        peers: &[Libcoap, Aiocoap],
        transports: ALL,
        directions: BOTH,
        cases: &["gets_on_without_a_csm", "may_insist_on_a_csm"],
        reason: "they always send a CSM",
    },
    Row {
        peers: &[Libcoap],
        transports: ALL,
        directions: OURS,
        cases: &["is_refused_an_unknown_critical_option"],
        reason: "libcoap puts the critical option that it does not know into its 4.02, which a client \
            that does not know it either has to reject (RFC 7252 5.4.1)",
    },
    Row {
        peers: &[Aiocoap, GoCoap],
        transports: ALL,
        directions: OURS,
        cases: &["is_refused_an_unknown_critical_option"],
        reason: "their servers leave unknown critical options to the application",
    },
    Row {
        peers: &[Californium],
        transports: ALL,
        directions: OURS,
        cases: &["is_refused_an_unknown_critical_option"],
        reason: "Californium closes the connection upon an unknown critical option",
    },
    Row {
        peers: &[Californium],
        transports: ALL,
        directions: BOTH,
        cases: &[
            "receives_a_large_body_at_once",
            "sends_a_large_body_at_once",
        ],
        reason: "Californium sends no CSM, so it gets no more than the base size, and sends at most \
            4 KiB at once",
    },
    Row {
        peers: &[Californium],
        transports: ALL,
        directions: THEIRS,
        cases: &["receives_several_blocks_a_message"],
        reason: "Californium sends no CSM, so it gets one block a message",
    },
    Row {
        peers: &[Californium],
        transports: ALL,
        directions: OURS,
        cases: &["sends_several_blocks_a_message"],
        reason: "Californium sends no CSM, so it gets one block a message",
    },
    Row {
        peers: &[Californium],
        transports: ALL,
        directions: OURS,
        cases: &["pings_over_the_connection"],
        reason: "Californium knows no signalling and closes the connection upon a Ping",
    },
    Row {
        peers: &[Libcoap, Californium, GoCoap],
        transports: ALL,
        directions: OURS,
        cases: &["is_aborted_and_asks_again"],
        reason: "they ignore a critical option of a CSM that they do not know",
    },
    Row {
        peers: &[Libcoap, Californium, GoCoap],
        transports: ALL,
        directions: THEIRS,
        cases: &["releases_when_it_is_done"],
        reason: "their clients close the connection without a Release",
    },
    Row {
        peers: &[Libcoap],
        transports: ALL,
        directions: OURS,
        cases: &[
            "uploads_more_than_a_message",
            "sends_several_blocks_a_message",
            // The body would have to be uploaded first.
            "downloads_more_than_a_message",
            "receives_several_blocks_a_message",
        ],
        reason: "libcoap's example server says that it takes several blocks a message (BERT), takes \
            the first for all of the body, and has nothing as large of its own",
    },
    Row {
        peers: &[GoCoap],
        transports: ALL,
        directions: OURS,
        cases: &[
            "sends_a_large_body_at_once",
            "uploads_more_than_a_message",
            "sends_several_blocks_a_message",
        ],
        reason: "go-coap says neither what it takes nor that it knows blocks, and puts a request's \
            body together by its token, which may differ from block to block (RFC 7959 3.4)",
    },
    Row {
        peers: &[GoCoap],
        transports: ALL,
        directions: THEIRS,
        cases: &["sends_a_large_body_at_once"],
        reason: "go-coap says that more is to come (BERT) when a message has all of the body, and \
            then sends nothing more",
    },
    Row {
        peers: &[GoCoap],
        transports: ALL,
        directions: THEIRS,
        cases: &[
            "receives_a_large_body_at_once",
            "receives_several_blocks_a_message",
        ],
        reason: "go-coap does not say that it takes more than the base size",
    },
    Row {
        peers: &Peer::ALL,
        transports: ALL,
        directions: THEIRS,
        cases: &["survives_the_loss_of_its_connection"],
        reason: "their clients do not register again by themselves",
    },
    Row {
        peers: &[Aiocoap],
        transports: ALL,
        directions: THEIRS,
        cases: &["observes_until_it_cancels"],
        reason: "aiocoap's client does not cancel by GET",
    },
];

pub(super) fn not_offered(
    (peer, transport): Column,
    direction: Direction,
    case: &str,
) -> Option<&'static str> {
    ROWS.iter()
        .find(|row| {
            row.peers.contains(&peer)
                && row.transports.contains(&transport)
                && row.directions.contains(&direction)
                && (row.cases.is_empty() || row.cases.contains(&case))
        })
        .map(|row| row.reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interop::{cases, transport::CONNECTIONS};

    #[test]
    fn every_exception_is_about_a_case_there_is() {
        for name in ROWS.iter().flat_map(|row| row.cases) {
            let all = cases::STREAM_CASES.iter();
            assert!(all.clone().any(|case| case.name == *name), "{name}");
        }
    }

    #[test]
    fn no_case_is_an_exception_everywhere() {
        for case in cases::STREAM_CASES {
            let offered = BOTH.iter().any(|direction| {
                let mut all = CONNECTIONS.iter();
                all.any(|column| not_offered(*column, *direction, case.name).is_none())
            });
            assert!(offered, "{} is tried with nobody", case.name);
        }
    }
}
