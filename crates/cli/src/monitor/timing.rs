//! Timing of an exchange: copies, times, and the state of the peer's controller.

use std::net::SocketAddr;
use std::time::Duration;

use carob::{Client, TransmissionParameters};
use carob_cc::controller::Gauge;
use carob_proto::trace::{Trace, TraceEvent};
use serde::Serialize;
use serde_json::{Map, Value};

use super::Monitor;

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

/// Timing of a request as the machine interface has it. Times are in milliseconds.
#[derive(Debug, Serialize)]
pub(crate) struct Timing {
    /// From the request to the end of the body, or to the failure.
    pub(crate) total_ms: f64,
    /// One for each block.
    pub(crate) exchanges: u32,
    pub(crate) attempts: u32,
    pub(crate) retransmissions: u32,
    /// The first retransmission timer, dithering included; none of a NON.
    pub(crate) first_rto_ms: Option<f64>,
    /// The transmission parameters of the endpoint.
    pub(crate) parameters: Option<Parameters>,
    /// State of the peer afterwards, if it is known.
    pub(crate) peer: Option<PeerState>,
}

/// Transmission parameters of an endpoint (RFC 7252 4.8).
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Parameters {
    pub(crate) nstart: u16,
    pub(crate) ack_timeout_ms: f64,
    pub(crate) max_retransmit: u8,
    /// Some were given on the command line.
    #[serde(skip)]
    pub(crate) explicit: bool,
}

impl Parameters {
    pub(super) fn new(parameters: TransmissionParameters, explicit: bool) -> Self {
        Self {
            nstart: parameters.nstart,
            ack_timeout_ms: millis(parameters.ack_timeout.into()),
            max_retransmit: parameters.max_retransmit,
            explicit,
        }
    }
}

/// State of a peer.
#[derive(Debug, Serialize)]
pub(crate) struct PeerState {
    pub(crate) address: SocketAddr,
    /// The controller's overall RTO before dithering.
    pub(crate) rto_ms: Option<f64>,
    /// The last round-trip time of an exchange without retransmissions.
    pub(crate) rtt_ms: Option<f64>,
    /// The controller's further readings: times end with `_ms`.
    pub(crate) state: Map<String, Value>,
}

impl Timing {
    /// Reads the current state.
    pub(crate) async fn gather(client: &Client, monitor: &Monitor, total: Duration) -> Self {
        let counters = &monitor.counters();
        Self {
            parameters: monitor.parameters(),
            total_ms: millis(total),
            exchanges: counters.exchanges,
            attempts: counters.copies,
            retransmissions: counters.retransmissions,
            first_rto_ms: counters.first_timeout.map(millis),
            peer: match counters.peer {
                Some(peer) => PeerState::gather(client, peer).await,
                None => None,
            },
        }
    }
}

impl PeerState {
    async fn gather(client: &Client, address: SocketAddr) -> Option<Self> {
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
        Some(Self {
            address,
            rto_ms: snapshot.rto.map(|time| millis(time.into())),
            rtt_ms: snapshot.round_trip.map(|time| millis(time.into())),
            state,
        })
    }
}

/// Milliseconds, to the microsecond, the resolution of the endpoint's clock.
pub(crate) fn millis(time: Duration) -> f64 {
    time.as_micros() as f64 / 1e3
}
