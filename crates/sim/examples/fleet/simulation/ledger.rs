//! Invariants of a fleet, and their violations.

use std::collections::BTreeMap;
use std::fmt;

use carob_cc::time::{Duration, Instant};

use super::spec::FleetRecord;

/// Findings recorded of each kind; further ones are counted.
const FINDINGS_MAX: u64 = 5;

/// Time limit of a request, its host's suspensions excluded.
///
/// The longest message exchange takes MAX_TRANSMIT_WAIT and, if it is acknowledged,
/// EXCHANGE_LIFETIME for the response. A body needs a dozen exchanges in sequence, and waits behind
/// others to the same host. This limit excludes that all of them fail late.
pub(crate) const REQUEST_MAX: Duration = Duration::from_secs(3_600);

/// A violated invariant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Breach {
    /// A non-idempotent request was executed twice without a restart in between.
    ExecutedTwice,
    /// A request succeeded that no server executed.
    NotExecuted,
    /// A request did not end within [`REQUEST_MAX`].
    NeverEnded,
    /// An event for a request that had ended.
    EndedTwice,
    /// An endpoint rejected a request for which it had room.
    Refused,
    /// A response matched to another request.
    WrongAnswer,
    /// A body that is incomplete, or of several states.
    TornBody,
    /// A notification with an older state after a newer one of the same server.
    OlderState,
    /// An observer without the newest state at the end of a night.
    NotConverged,
    /// A table above its limit.
    LimitExceeded,
    /// An entry left at the end of a night without a reason.
    NotReturned,
    /// An endpoint that requested immediate wake-ups forever, or never waited.
    Spinning,
    /// A datagram longer than endpoints may send.
    TooLong,
}

/// A violation of an invariant.
#[derive(Clone, Debug)]
pub(crate) struct Finding {
    /// Time on the fleet's clock.
    pub(crate) at: Instant,
    /// The endpoint's number.
    pub(crate) host: u32,
    /// The invariant.
    pub(crate) breach: Breach,
    /// Details.
    pub(crate) details: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.at.as_micros() as f64 / 1e6;
        let Self {
            host,
            breach,
            details,
            ..
        } = self;
        write!(f, "{seconds:.6} s, endpoint {host}: {breach:?}: {details}")
    }
}

/// A request's number: the count of all, and the proxy that forwards it, if any.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Number(pub(super) u64);

impl Number {
    const PROXY_BITS: u32 = 20;

    pub(super) fn new(count: u64, proxy: Option<u32>) -> Self {
        let proxy = proxy.map_or(0, |proxy| u64::from(proxy) + 1);
        Self(count << Self::PROXY_BITS | proxy)
    }

    fn proxy(self) -> Option<u32> {
        let proxy = self.0 & ((1 << Self::PROXY_BITS) - 1);
        (proxy > 0).then(|| proxy as u32 - 1)
    }
}

/// Executed requests, and findings.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    pub(super) record: FleetRecord,
    /// Checks only the invariants that hold without trust in message contents.
    pub(super) lenient: bool,
    /// Time of execution of each non-idempotent request, by server.
    executed: BTreeMap<(u64, u32), Instant>,
    restarted: BTreeMap<u32, Instant>,
    /// When each request through a proxy was made. The proxy may restart after it has passed the request on and
    /// before the server executes it, and pass on a retransmission of the client.
    asked: BTreeMap<u64, Instant>,
}

impl Ledger {
    pub(super) fn new(lenient: bool) -> Self {
        Self {
            lenient,
            ..Self::default()
        }
    }

    pub(super) fn breach(&mut self, at: Instant, host: u32, breach: Breach, details: String) {
        let needs_trust = matches!(
            breach,
            Breach::ExecutedTwice
                | Breach::NotExecuted
                | Breach::WrongAnswer
                | Breach::TornBody
                | Breach::OlderState
                | Breach::NotConverged
        );
        if self.lenient && needs_trust {
            return;
        }
        let count = self.record.breaches.entry(breach).or_default();
        *count += 1;
        if *count <= FINDINGS_MAX {
            self.record.findings.push(Finding {
                at,
                host,
                breach,
                details,
            });
        }
    }

    pub(super) fn restarted(&mut self, now: Instant, host: u32) {
        self.restarted.insert(host, now);
        self.record.restarts += 1;
    }

    /// Records when a request was made.
    pub(super) fn asked(&mut self, now: Instant, number: Number) {
        if number.proxy().is_some() {
            self.asked.insert(number.0, now);
        }
    }

    /// Records the execution of a non-idempotent request by a server.
    pub(super) fn execute(&mut self, now: Instant, server: u32, number: Number) {
        self.record.executed += 1;
        let Some(before) = self.executed.insert((number.0, server), now) else {
            return;
        };
        let anew = |host: u32, since| self.restarted.get(&host).is_some_and(|at| *at >= since);
        let asked = self.asked.get(&number.0).copied().unwrap_or(before);
        if anew(server, before) || number.proxy().is_some_and(|proxy| anew(proxy, asked)) {
            self.record.executed_anew += 1;
        } else {
            let after = now.since(before).as_millis();
            let details = format!("request {:#x} again after {after} ms", number.0);
            self.breach(now, server, Breach::ExecutedTwice, details);
        }
    }

    /// Checks a request that succeeded at its client.
    pub(super) fn succeeded(&mut self, now: Instant, client: u32, number: Number) {
        let mut by = self.executed.range((number.0, 0)..=(number.0, u32::MAX));
        if by.next().is_none() {
            let details = format!("request {:#x}", number.0);
            self.breach(now, client, Breach::NotExecuted, details);
        }
    }

    /// Clears the record, after all requests have ended.
    pub(super) fn forget(&mut self) {
        self.executed.clear();
    }
}
