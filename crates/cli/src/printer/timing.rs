//! Timing of a request: transmissions, times, and the state of the peer's controller.

use std::net::SocketAddr;
use std::time::Duration;

use carob::TransmissionParameters;
use serde::Serialize;
use serde_json::{Map, Value};

use super::note;
use super::style::{FAINT, paint};

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
    /// The longest timer of a retransmission, if there is a limit.
    pub(crate) rto_max_ms: Option<f64>,
    /// Some were given on the command line.
    #[serde(skip)]
    pub(crate) explicit: bool,
}

impl Parameters {
    pub(crate) fn new(parameters: TransmissionParameters, explicit: bool) -> Self {
        Self {
            nstart: parameters.nstart,
            ack_timeout_ms: millis(parameters.ack_timeout.into()),
            max_retransmit: parameters.max_retransmit,
            rto_max_ms: parameters.rto_max.map(|cap| millis(cap.into())),
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

/// Milliseconds, to the microsecond, the resolution of the endpoint's clock.
pub(crate) fn millis(time: Duration) -> f64 {
    time.as_micros() as f64 / 1e3
}

/// `416 us`, `9.9 ms`, `417 ms`, `2.37 s`: no more digits than mean something.
pub(crate) fn time(time: Duration) -> String {
    let millis = time.as_secs_f64() * 1e3;
    match millis {
        ..0.9995 => format!("{:.0} us", millis * 1e3),
        ..9.95 => format!("{millis:.1} ms"),
        ..999.5 => format!("{millis:.0} ms"),
        _ => format!("{:.2} s", millis / 1e3),
    }
}

fn of_millis(millis: f64) -> String {
    time(Duration::try_from_secs_f64(millis / 1e3).unwrap_or_default())
}

/// Prints the transmission parameters of an endpoint.
pub(crate) fn parameters(parameters: &Parameters) {
    let cap = parameters.rto_max_ms.map(of_millis);
    let text = format!(
        "NSTART {}, ACK_TIMEOUT {}, MAX_RETRANSMIT {}{}",
        parameters.nstart,
        of_millis(parameters.ack_timeout_ms),
        parameters.max_retransmit,
        cap.map_or_else(String::new, |cap| format!(", timers of at most {cap}"))
    );
    note(&paint(FAINT, text));
}

/// Prints how a request went.
pub(crate) fn timing(timing: &Timing) {
    let Timing {
        total_ms,
        exchanges,
        retransmissions,
        first_rto_ms,
        parameters: used,
        peer,
        ..
    } = timing;
    let exchanges = match exchanges {
        0 => "nothing was sent".to_owned(),
        1 => "1 exchange".to_owned(),
        count => format!("{count} exchanges, one a block"),
    };
    let again = match retransmissions {
        0 => "no retransmissions".to_owned(),
        1 => "1 retransmission".to_owned(),
        count => format!("{count} retransmissions"),
    };
    let first = first_rto_ms.map(|first| format!(", first RTO {}", of_millis(first)));
    let text = format!(
        "{} in all: {exchanges}, {again}{}",
        of_millis(*total_ms),
        first.unwrap_or_default()
    );
    note(&paint(FAINT, text));
    if let Some(used) = used.filter(|used| used.explicit) {
        parameters(&used);
    }
    if let Some(PeerState {
        address,
        rto_ms,
        rtt_ms,
        state,
    }) = peer
    {
        let named = [("RTO", *rto_ms), ("RTT", *rtt_ms)];
        let times = named
            .into_iter()
            .filter_map(|(name, value)| Some(format!("{name} {}", of_millis(value?))));
        let readings = state.iter().map(|(name, value)| reading(name, value));
        let all: Vec<_> = times.chain(readings).collect();
        if !all.is_empty() {
            note(&paint(
                FAINT,
                format_args!("{address} now: {}", all.join(", ")),
            ));
        }
    }
}

fn reading(name: &str, value: &Value) -> String {
    match (name.strip_suffix("_ms"), value) {
        (Some(name), value) => format!("{name} {}", of_millis(value.as_f64().unwrap_or_default())),
        (None, Value::String(word)) => format!("{name} {word}"),
        (None, other) => format!("{name} {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_the_digits_that_mean_something() {
        let of = |micros| time(Duration::from_micros(micros));
        assert_eq!(of(416), "416 us");
        assert_eq!(of(1_250), "1.2 ms");
        assert_eq!(of(9_940), "9.9 ms");
        assert_eq!(of(9_960), "10 ms");
        assert_eq!(of(417_300), "417 ms");
        assert_eq!(of(999_600), "1.00 s");
        assert_eq!(of(2_371_934), "2.37 s");
    }
}
