//! What is not tried with whom, and why.

mod streams;

use crate::installed::Peer;
use crate::interop::{
    matrix::Direction::{self, OurClient, TheirClient},
    transport::{Column, Transport},
};

struct Row {
    peers: &'static [Peer],
    direction: Direction,
    cases: &'static [&'static str],
    reason: &'static str,
}

const ROWS: &[Row] = &[
    Row {
        peers: &Peer::ALL,
        direction: TheirClient,
        cases: &["answers_a_ping"],
        reason: "their clients, as they are here, do not ping",
    },
    Row {
        peers: &[Peer::Libcoap],
        direction: OurClient,
        cases: &["gets_the_format_it_accepts"],
        reason: "libcoap's example server ignores Accept",
    },
    Row {
        peers: &[Peer::Libcoap],
        direction: OurClient,
        cases: &[
            "creates_only_what_is_absent",
            "replaces_only_what_is_unchanged",
        ],
        reason: "libcoap's example server ignores conditions",
    },
    Row {
        peers: &[Peer::Libcoap],
        direction: OurClient,
        cases: &["fetches_with_a_payload"],
        reason: "libcoap's example server has nothing to FETCH with a payload",
    },
    Row {
        peers: &[Peer::Libcoap],
        direction: OurClient,
        cases: &[
            "patches_with_effect_each_time",
            "patches_with_the_same_result",
        ],
        reason: "libcoap's example server takes no PATCH",
    },
    Row {
        peers: &[Peer::Libcoap],
        direction: OurClient,
        cases: &["gets_no_body_that_it_has"],
        reason: "libcoap's example server has entity tags for large bodies only, a new one \
            when asked about one",
    },
    Row {
        peers: &[Peer::GoCoap],
        direction: TheirClient,
        cases: &[
            "downloads_through_loss_and_duplication",
            "uploads_through_loss_and_duplication",
        ],
        reason: "go-coap sends every block after the first only once, so one loss ends the transfer",
    },
    Row {
        peers: &[Peer::GoCoap],
        direction: OurClient,
        cases: &[
            "uploads_one_mebibyte",
            "uploads_through_loss_and_duplication",
            "tells_bodies_apart",
        ],
        reason: "go-coap puts a request's body together by its token, and takes the last block for \
            all of it when each block has a token of its own, as RFC 7959 allows",
    },
    Row {
        peers: &[Peer::Aiocoap],
        direction: TheirClient,
        cases: &["observes_until_it_cancels_by_get"],
        reason: "aiocoap's client does not cancel by GET",
    },
    Row {
        peers: &[Peer::Libcoap],
        direction: TheirClient,
        cases: &["observes_until_it_cancels_by_reset"],
        reason: "libcoap's example client cancels by GET only",
    },
    Row {
        peers: &[Peer::Aiocoap],
        direction: TheirClient,
        cases: &["observes_until_it_cancels_by_reset"],
        reason: "aiocoap's client answers confirmable notifications only with Reset, and `carob \
            serve` sends others",
    },
    Row {
        peers: &[Peer::GoCoap],
        direction: TheirClient,
        cases: &["observes_until_it_cancels_by_reset"],
        reason: "go-coap's client never sends a Reset",
    },
    Row {
        peers: &[Peer::GoCoap],
        direction: OurClient,
        cases: &["observes_until_it_cancels_by_reset"],
        reason: "go-coap's server ignores a Reset",
    },
    Row {
        peers: &Peer::ALL,
        direction: TheirClient,
        cases: &["observes_by_confirmable_notifications"],
        reason: "`carob serve` notifies by NON, but for once a day",
    },
    Row {
        peers: &[Peer::Libcoap, Peer::Aiocoap, Peer::GoCoap],
        direction: TheirClient,
        cases: &["observes_across_a_restart_of_the_server"],
        reason: "their clients do not register again by themselves",
    },
    Row {
        peers: &Peer::ALL,
        direction: TheirClient,
        cases: &[
            "is_sent_an_option_that_counts_copies",
            "is_sent_tokens_that_count_copies",
        ],
        reason: "their clients do not count copies",
    },
    Row {
        peers: &Peer::ALL,
        direction: TheirClient,
        cases: &["is_sent_a_long_token"],
        reason: "their clients have tokens of 8 bytes at most",
    },
    Row {
        peers: &[Peer::Aiocoap],
        direction: OurClient,
        cases: &["observes_what_takes_several_blocks"],
        reason: "aiocoap's server sends a notification in one datagram",
    },
    Row {
        peers: &Peer::ALL,
        direction: OurClient,
        cases: &["is_challenged_and_repeats"],
        reason: "their servers, as they are here, challenge no client",
    },
    Row {
        peers: &[Peer::Aiocoap, Peer::Californium, Peer::GoCoap],
        direction: TheirClient,
        cases: &["is_challenged_and_repeats"],
        reason: "their clients do not repeat a request that is challenged: 4.01 is the answer to it",
    },
    Row {
        peers: &[Peer::Aiocoap, Peer::Californium, Peer::GoCoap],
        direction: TheirClient,
        cases: &["tells_bodies_apart"],
        reason: "their clients send no Request-Tag",
    },
    Row {
        peers: &[Peer::Californium],
        direction: OurClient,
        cases: &["wants_no_response_to_a_con"],
        reason: "Californium's server leaves out the response to a NON only. That to a CON it sends in a \
            CON of its own, with no acknowledgement before it",
    },
];

/// Why a case is not run with a peer; `None` when it is.
pub(crate) fn not_offered(
    column: Column,
    direction: Direction,
    case: &str,
) -> Option<&'static str> {
    let (peer, transport) = column;
    if transport != Transport::Udp {
        return streams::not_offered(column, direction, case);
    }
    ROWS.iter()
        .find(|row| {
            row.direction == direction && row.peers.contains(&peer) && row.cases.contains(&case)
        })
        .map(|row| row.reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interop::cases;

    #[test]
    fn every_exception_is_about_a_case_there_is() {
        for name in ROWS.iter().flat_map(|row| row.cases) {
            cases::named(name);
        }
    }

    #[test]
    fn no_case_is_an_exception_everywhere() {
        for case in cases::CASES {
            let offered = [TheirClient, OurClient].into_iter().any(|direction| {
                Peer::ALL
                    .into_iter()
                    .any(|peer| not_offered((peer, Transport::Udp), direction, case.name).is_none())
            });
            assert!(offered, "{} is tried with nobody", case.name);
        }
    }
}
