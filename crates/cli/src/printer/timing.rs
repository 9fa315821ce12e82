//! Timing of an exchange, for people.

use std::time::Duration;

use serde_json::Value;

use super::note;
use super::style::{FAINT, paint};
use crate::monitor::{Parameters, PeerState, Timing};

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
    let text = format!(
        "NSTART {}, ACK_TIMEOUT {}, MAX_RETRANSMIT {}",
        parameters.nstart,
        of_millis(parameters.ack_timeout_ms),
        parameters.max_retransmit
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
