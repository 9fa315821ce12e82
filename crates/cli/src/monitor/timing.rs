//! Counters of the messages sent, and the timing of a request from them.

use std::net::SocketAddr;
use std::time::Duration;

use carob::Client;
use carob_cc::controller::Gauge;
use carob_proto::trace::{Trace, TraceEvent};
use serde_json::Map;

use super::Monitor;
use crate::printer::{PeerState, Timing, millis};

/// Messages sent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counters {
    /// First transmissions; each block is a separate exchange.
    exchanges: u32,
    /// Copies, the originals among them.
    pub(crate) copies: u32,
    pub(crate) retransmissions: u32,
    /// Transmissions of the last message, the original among them.
    pub(crate) of_last: u32,
    /// The first timer of the first exchange.
    first_timeout: Option<Duration>,
    /// Destination of the last one.
    peer: Option<SocketAddr>,
}

impl Counters {
    pub(super) fn count(&mut self, trace: &Trace) {
        let TraceEvent::Sent {
            retransmissions,
            timeout,
            ..
        } = trace.event
        else {
            return;
        };
        self.peer = Some(trace.peer);
        self.copies += 1;
        self.of_last += 1;
        if retransmissions > 0 {
            self.retransmissions += 1;
        } else {
            self.of_last = 1;
            self.exchanges += 1;
            self.first_timeout = self.first_timeout.or(timeout.map(Into::into));
        }
    }
}

impl Monitor {
    /// The timing of a request that took `total`, with the current state of its peer.
    pub(crate) async fn timing(&self, client: &Client, total: Duration) -> Timing {
        let counters = self.counters();
        let parameters = self.lock().parameters;
        Timing {
            parameters,
            total_ms: millis(total),
            exchanges: counters.exchanges,
            attempts: counters.copies,
            retransmissions: counters.retransmissions,
            first_rto_ms: counters.first_timeout.map(millis),
            peer: match counters.peer {
                Some(peer) => peer_state(client, peer).await,
                None => None,
            },
        }
    }
}

/// State of a peer, if it is known.
async fn peer_state(client: &Client, address: SocketAddr) -> Option<PeerState> {
    let snapshot = client.snapshot(address).await?;
    let mut state = Map::new();
    for (name, gauge) in client.gauges(address).await.unwrap_or_default() {
        match gauge {
            // It is there already.
            Gauge::Time(_) if name == "rto" => {}
            Gauge::Time(time) => {
                state.insert(format!("{name}_ms"), millis(time.into()).into());
            }
            Gauge::Count(count) => {
                state.insert(name.to_owned(), count.into());
            }
            Gauge::State(word) => {
                state.insert(name.to_owned(), word.into());
            }
            _ => {}
        }
    }
    Some(PeerState {
        address,
        rto_ms: snapshot.rto.map(|time| millis(time.into())),
        rtt_ms: snapshot.round_trip.map(|time| millis(time.into())),
        state,
    })
}
