//! The place of a capture: at the client, at the server, or between them.

use std::fmt;

use serde::Serialize;

use crate::tracker::conversation::{Conversation, Near};

/// Smallest number of retransmissions whose order with replies is meaningful.
const RETRANSMISSIONS_MIN: u64 = 4;
/// Smallest number of exchanges with meaningful times.
const EXCHANGES_MIN: u64 = 5;
/// A time that is longer than another by this factor contains the round trip.
const FACTOR: u64 = 4;
/// CoAP's port (RFC 7252 section 6.1).
const COAP_PORT: u16 = 5_683;

/// The place of a capture in relation to two peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Place {
    /// At the client: round trips of requests are whole.
    Client,
    /// At the server: round trips of notifications and separate responses are whole.
    Server,
    /// Both peers are on one host.
    Both,
    /// Between the peers: times cover the path behind the capture.
    Between,
    /// Unknown.
    Unknown,
}

/// Evidence of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Basis {
    /// Packets have a direction.
    Directions,
    /// Packets of one peer have an initial TTL, packets of the other do not.
    Ttls,
    /// Both peers have one address.
    Addresses,
    /// Replies follow at once, or the next requests do.
    Times,
    /// Retransmissions come after replies, or instead of them.
    Retransmissions,
    /// Nothing.
    Nothing,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Client => "at the client",
            Self::Server => "at the server",
            Self::Both => "on the host of both peers",
            Self::Between => "between the peers",
            Self::Unknown => "at an unknown place",
        })
    }
}

impl fmt::Display for Basis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Directions => "by the directions of packets",
            Self::Ttls => "by the TTLs of packets",
            Self::Addresses => "both have the same address",
            Self::Times => "by the times of requests and replies",
            Self::Retransmissions => "by the order of retransmissions and replies",
            Self::Nothing => "no packet shows it",
        })
    }
}

/// Returns the side of the client: the first to send a request, or the one without CoAP's port.
pub(crate) fn client_side(conversation: &Conversation) -> usize {
    conversation
        .client
        .unwrap_or_else(|| usize::from(conversation.peers[0].port() == COAP_PORT))
}

/// Returns the place of the capture of a conversation, and what shows it.
pub(crate) fn place_of(conversation: &Conversation) -> (Place, Basis) {
    let client = client_side(conversation);
    match conversation.near() {
        Near::Both => return (Place::Both, Basis::Addresses),
        Near::Side(side) => {
            let place = if side == client {
                Place::Client
            } else {
                Place::Server
            };
            let basis = if conversation.has_directions() {
                Basis::Directions
            } else {
                Basis::Ttls
            };
            return (place, basis);
        }
        Near::Unknown => {}
    }
    let flow = &conversation.flows[client];
    let times = by_times(
        flow.exact.count().min(flow.turnarounds.count()),
        flow.exact.quantile(0.5),
        flow.turnarounds.quantile(0.1),
    );
    let order = by_order(flow.counts.after_reply, flow.counts.before_reply);
    match (times, order) {
        // Both parts of the path lose: the capture has losses on either side of it.
        (_, Some(Place::Between)) => (Place::Between, Basis::Retransmissions),
        (Some(place), Some(other)) if place != other => (Place::Between, Basis::Retransmissions),
        (Some(place), _) => (place, Basis::Times),
        // Losses behind the capture alone: the client may still be far away.
        (None, _) => (Place::Unknown, Basis::Nothing),
    }
}

/// At the client a reply takes a round trip and the next request follows at once; at the server it is
/// the other way round.
fn by_times(count: u64, reply: u64, next: u64) -> Option<Place> {
    if count < EXCHANGES_MIN {
        return None;
    }
    match (reply, next) {
        (reply, next) if reply / FACTOR > next => Some(Place::Client),
        (reply, next) if next / FACTOR > reply => Some(Place::Server),
        _ => None,
    }
}

/// A retransmission of an exchange whose reply was captured before it shows a loss between the
/// client and the capture; one without shows a loss behind it.
fn by_order(after_reply: u64, before_reply: u64) -> Option<Place> {
    let all = after_reply + before_reply;
    if all < RETRANSMISSIONS_MIN {
        return None;
    }
    match after_reply * 10 / all {
        0..=2 => Some(Place::Client),
        8.. => Some(Place::Server),
        _ => Some(Place::Between),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capture_position_follows_from_times_and_order() {
        assert_eq!(by_times(100, 400_000, 1_000), Some(Place::Client));
        assert_eq!(by_times(100, 1_000, 400_000), Some(Place::Server));
        assert_eq!(by_times(100, 400_000, 300_000), None);
        assert_eq!(by_times(2, 400_000, 1_000), None);
        assert_eq!(by_order(0, 10), Some(Place::Client));
        assert_eq!(by_order(9, 1), Some(Place::Server));
        assert_eq!(by_order(5, 5), Some(Place::Between));
        assert_eq!(by_order(1, 1), None);
    }
}
