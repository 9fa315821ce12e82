//! What must hold of a fleet, and what did not.

use std::collections::BTreeMap;
use std::fmt;

use carob_cc::time::{Duration, Instant};

use super::spec::FleetRecord;

/// Findings kept of each kind; more are counted.
const FINDINGS_MAX: u64 = 5;

/// A request must have ended this long after its endpoint took it, its host's suspensions apart.
///
/// The longest single message exchange takes MAX_TRANSMIT_WAIT and, if it is acknowledged,
/// EXCHANGE_LIFETIME for the response; a body has a dozen of them, one after the other, and waits
/// behind others to the same host. All of them failing late is what this allows no more.
pub const REQUEST_MAX: Duration = Duration::from_secs(3_600);

/// What must not be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Breach {
    /// A request that must not be was executed twice, though nobody between had been restarted.
    ExecutedTwice,
    /// A request was answered with success that nobody executed.
    NotExecuted,
    /// A request did not end in [`REQUEST_MAX`].
    NeverEnded,
    /// Something was told of a request that had ended.
    EndedTwice,
    /// An endpoint refused a request for which it had room.
    Refused,
    /// A response is not to the request that it came to.
    WrongAnswer,
    /// A body is not whole, or of several states.
    TornBody,
    /// An observer was told an older state after a newer one of the same server.
    OlderState,
    /// At the end of a night an observer did not have the newest state.
    NotConverged,
    /// A table held more than its limit.
    LimitExceeded,
    /// At the end of a night something was left that has no reason to be.
    NotReturned,
    /// An endpoint wanted to be woken at once, again and again, or never stopped to speak.
    Spinning,
    /// A datagram was longer than endpoints may send.
    TooLong,
}

/// One thing that must not have been.
#[derive(Clone, Debug)]
pub struct Finding {
    /// When, on the fleet's clock.
    pub at: Instant,
    /// The endpoint's number.
    pub host: u32,
    /// What.
    pub breach: Breach,
    /// More of it.
    pub details: String,
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

/// A request's number: the count of all, and the proxy that it goes through, if one.
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

/// Who executed what, and what was found.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    pub(super) record: FleetRecord,
    /// Only what holds whatever is said is to be checked.
    pub(super) lenient: bool,
    /// Of each request that must not be executed twice, by whom it was and when.
    executed: BTreeMap<(u64, u32), Instant>,
    restarted: BTreeMap<u32, Instant>,
}

impl Ledger {
    pub(super) fn new(lenient: bool) -> Self {
        Self {
            lenient,
            ..Self::default()
        }
    }

    pub(super) fn breach(&mut self, at: Instant, host: u32, breach: Breach, details: String) {
        let said = matches!(
            breach,
            Breach::ExecutedTwice
                | Breach::NotExecuted
                | Breach::WrongAnswer
                | Breach::TornBody
                | Breach::OlderState
                | Breach::NotConverged
        );
        if self.lenient && said {
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

    /// A server executes a request that must not be executed twice.
    pub(super) fn execute(&mut self, now: Instant, server: u32, number: Number) {
        self.record.executed += 1;
        let Some(before) = self.executed.insert((number.0, server), now) else {
            return;
        };
        let anew = |host: u32| self.restarted.get(&host).is_some_and(|at| *at >= before);
        if anew(server) || number.proxy().is_some_and(anew) {
            self.record.executed_anew += 1;
        } else {
            let after = now.since(before).as_millis();
            let details = format!("request {:#x} again after {after} ms", number.0);
            self.breach(now, server, Breach::ExecutedTwice, details);
        }
    }

    /// A client was told that a request succeeded.
    pub(super) fn succeeded(&mut self, now: Instant, client: u32, number: Number) {
        let mut by = self.executed.range((number.0, 0)..=(number.0, u32::MAX));
        if by.next().is_none() {
            let details = format!("request {:#x}", number.0);
            self.breach(now, client, Breach::NotExecuted, details);
        }
    }

    /// All requests have ended long ago.
    pub(super) fn forget(&mut self) {
        self.executed.clear();
    }
}
