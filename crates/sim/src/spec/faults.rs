//! Faults of a run: restarts of hosts, rebinding of addresses, outages of the link. Default: none.
//!
//! Times count from the beginning of the run.

use std::fmt;

use carob_cc::time::{Duration, Instant};

use crate::random::{Span, Stream};

/// The shortest time between two faults of one kind at a host.
pub const INTERVAL_MIN: Duration = Duration::from_millis(1);

/// The faults of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Restarts of clients.
    pub client_restarts: Option<ClientRestarts>,
    /// Restarts of servers.
    pub server_restarts: Option<ServerRestarts>,
    /// Rebinding of clients' addresses.
    pub rebindings: Option<Rebindings>,
    /// Outages of the link.
    pub outages: Option<Outages>,
}

/// An invalid setting of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultError {
    /// The setting, such as `outage_interval`.
    pub name: &'static str,
    /// The reason, with the remedy.
    pub why: &'static str,
}

impl fmt::Display for FaultError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.why)
    }
}

impl std::error::Error for FaultError {}

/// Restarts of clients that send requests in datagrams.
///
/// A client loses its endpoint with all exchanges, controllers and transfers, and sends from another
/// port. When it is up again it sends its outstanding requests again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientRestarts {
    /// Time of a client's first restart, drawn uniformly (stream `"fault/client_restart"`, client).
    pub first: Span,
    /// Time from a restart to the next; zero for a single one.
    pub interval: Duration,
    /// Time that a restart takes. Datagrams that arrive meanwhile are lost, and requests that become
    /// due are sent at its end.
    pub down: Duration,
}

impl ClientRestarts {
    pub(super) fn check(&self, time_limit: Duration) -> Result<(), FaultError> {
        let names = ["client_restart", "client_restart_interval"];
        check_times(names, self.first.high, self.interval, self.down, time_limit)
    }

    pub(crate) fn first_of(&self, seed: u64, client: u32) -> Duration {
        drawn(seed, "fault/client_restart", client, self.first)
    }
}

/// Restarts of the servers of all groups, at the same times. Datagrams only.
///
/// A server loses its endpoint: the duplicates it remembers, its observers, the bodies it puts
/// together, its receive queue. Its address stays. So it executes a request again whose response was
/// lost, and does not know the blocks that came before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerRestarts {
    /// Time of the first restart.
    pub first: Duration,
    /// Time from a restart to the next; zero for a single one.
    pub interval: Duration,
    /// Time that a restart takes. Datagrams that arrive meanwhile are lost.
    pub down: Duration,
}

impl ServerRestarts {
    pub(super) fn check(&self, time_limit: Duration) -> Result<(), FaultError> {
        let names = ["server_restart", "server_restart_interval"];
        check_times(names, self.first, self.interval, self.down, time_limit)
    }
}

/// Rebinding of the addresses of clients. Datagrams only.
///
/// The mapping has expired or the translator has restarted: from then on the server sees the client's
/// datagrams come from another port, and datagrams to the previous port are lost. The client does not
/// notice. To the server the address is a new peer, without the duplicates, controllers and transfers of
/// the previous address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rebindings {
    /// Time of a client's first rebinding, drawn uniformly (stream `"fault/rebinding"`, client). With
    /// equal bounds all clients are rebound at once, as by the restart of a shared translator.
    pub first: Span,
    /// Time from a rebinding to the next; zero for a single one.
    pub interval: Duration,
}

impl Rebindings {
    pub(super) fn check(&self, time_limit: Duration) -> Result<(), FaultError> {
        let names = ["rebinding", "rebinding_interval"];
        let lasts = Duration::ZERO;
        check_times(names, self.first.high, self.interval, lasts, time_limit)
    }

    pub(crate) fn first_of(&self, seed: u64, client: u32) -> Duration {
        drawn(seed, "fault/rebinding", client, self.first)
    }
}

/// Outages of the link, for datagrams and segments.
///
/// Packets that are sent during an outage are lost before they use the link. Those that are on the link
/// or in its buffer already arrive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outages {
    /// Beginning of the first outage.
    pub first: Duration,
    /// Time between the beginnings of two outages; zero for a single one.
    pub interval: Duration,
    /// Duration of each, above zero.
    pub duration: Duration,
}

impl Outages {
    pub(super) fn check(&self, time_limit: Duration) -> Result<(), FaultError> {
        if self.duration.is_zero() {
            let why = "an outage takes some time";
            let name = "outage_duration";
            return Err(FaultError { name, why });
        }
        let names = ["outage", "outage_interval"];
        check_times(names, self.first, self.interval, self.duration, time_limit)
    }

    pub(crate) fn has(&self, now: Instant) -> bool {
        is_within(now, self.first, self.interval, self.duration)
    }
}

/// Checks the time of a fault, the time to the next, and how long it lasts.
fn check_times(
    [name, interval_name]: [&'static str; 2],
    first: Duration,
    interval: Duration,
    lasts: Duration,
    time_limit: Duration,
) -> Result<(), FaultError> {
    if first >= time_limit {
        let why = "the run is over by then; set an earlier time, or a later time limit";
        return Err(FaultError { name, why });
    }
    if !interval.is_zero() && interval < lasts + INTERVAL_MIN {
        let why = "the next fault comes at least 1 ms after the end of the one before";
        return Err(FaultError {
            name: interval_name,
            why,
        });
    }
    Ok(())
}

/// The time of a client's first fault, drawn uniformly.
fn drawn(seed: u64, label: &str, client: u32, span: Span) -> Duration {
    Stream::indexed(seed, label, client).uniform(span.low, span.high)
}

/// Returns whether `now` is in one of the spans of `lasts` that begin at `first` and after each `interval`.
fn is_within(now: Instant, first: Duration, interval: Duration, lasts: Duration) -> bool {
    let now = now.since(Instant::ZERO).as_micros();
    let Some(since) = now.checked_sub(first.as_micros()) else {
        return false;
    };
    since.checked_rem(interval.as_micros()).unwrap_or(since) < lasts.as_micros()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_begins_at_its_time_and_ends_before_its_end() {
        let s = Duration::from_secs;
        let mut outages = Outages {
            first: s(10),
            interval: Duration::ZERO,
            duration: s(5),
        };
        let is_out = |outages: &Outages, micros| outages.has(Instant::from_micros(micros));
        for (micros, out) in [
            (9_999_999, false),
            (10_000_000, true),
            (14_999_999, true),
            (15_000_000, false),
            (30_000_000, false),
        ] {
            assert_eq!(is_out(&outages, micros), out, "{micros}");
        }
        outages.interval = s(20);
        for (micros, out) in [
            (29_999_999, false),
            (30_000_000, true),
            (35_000_000, false),
            (50_000_000, true),
        ] {
            assert_eq!(is_out(&outages, micros), out, "{micros}");
        }
    }
}
