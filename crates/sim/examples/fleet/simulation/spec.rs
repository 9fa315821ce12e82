//! Specification and record of a fleet.

use std::collections::BTreeMap;

use carob_cc::time::{Duration, Instant};

use super::ledger::{Breach, Finding};
use carob_sim::random::{Probability, Stream};

/// The maximum number of endpoints of a fleet.
pub(crate) const ENDPOINTS_MAX: u32 = 60_000;

/// A fleet: endpoints, faults, duration.
#[derive(Clone, Debug)]
pub(crate) struct FleetSpec {
    /// The seed of all random streams.
    pub(crate) seed: u64,
    /// Client endpoints.
    pub(crate) clients: u32,
    /// Server endpoints.
    pub(crate) servers: u32,
    /// Proxy endpoints, client and server at once.
    pub(crate) proxies: u32,
    /// Days of 24 hours; the last hours of each are idle, and all checks run at their end.
    pub(crate) days: u32,
    /// Mean time between two actions of a client.
    pub(crate) gap: Duration,
    /// The faults.
    pub(crate) faults: Faults,
    /// True to limit every table of every endpoint to a few entries, so that limits are reached all
    /// day.
    pub(crate) tight: bool,
    /// Handling of damaged datagrams.
    pub(crate) damage: Damage,
    /// Behaviour of clocks while their host is suspended.
    pub(crate) clocks: Clocks,
    /// A defect of the fleet itself, which proves that a check can fail.
    pub(crate) defect: Option<Defect>,
}

impl FleetSpec {
    /// A fleet of this size with ordinary faults.
    pub(crate) fn new(seed: u64, clients: u32, servers: u32, proxies: u32, days: u32) -> Self {
        Self {
            seed,
            clients,
            servers,
            proxies,
            days,
            gap: Duration::from_secs(600),
            faults: Faults::ordinary(),
            tight: false,
            damage: Damage::Noticed,
            clocks: Clocks::GoOn,
            defect: None,
        }
    }

    /// A fleet of a day whose size, traffic, limits and faults are drawn from its seed.
    pub(crate) fn drawn(seed: u64) -> Self {
        /// Requests of a run at most, so that it takes seconds.
        const REQUESTS_MAX: u64 = 30_000;
        let mut stream = Stream::new(seed, "fleet/spec");
        let mut below = |n: u64| stream.next_u64() % n;
        let clients = 10 + below(51);
        let (servers, proxies) = (1 + below(8), below(3));
        let mut spec = Self::new(seed, clients as u32, servers as u32, proxies as u32, 1);
        let gap = (20 << below(6)).max(clients * 86_400 / REQUESTS_MAX);
        spec.gap = Duration::from_secs(gap);
        spec.tight = below(3) == 0;
        if below(3) == 0 {
            spec.damage = Damage::Unnoticed;
        }
        spec.faults.vary(below);
        spec
    }
}

/// Faults of the network and the hosts, active by day. Mean times are per host; zero disables a fault.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Faults {
    /// Loss probability of a datagram.
    pub(crate) loss: Probability,
    /// Duplication probability; each duplicate has an independent delay.
    pub(crate) duplication: Probability,
    /// Damage probability of a datagram.
    pub(crate) corruption: Probability,
    /// Probability of an extra delay of up to two seconds, which reorders datagrams.
    pub(crate) late: Probability,
    /// Probability of an extra delay of up to a minute, still less than MAX_LATENCY.
    pub(crate) very_late: Probability,
    /// Mean time between restarts, which lose all state.
    pub(crate) restarts: Duration,
    /// Mean time between stalls of up to 30 s: the process does not run, its clock does, and its
    /// socket buffers a few datagrams.
    pub(crate) stalls: Duration,
    /// Mean time between suspensions, of 20 minutes in the mean, in which a host receives nothing.
    pub(crate) suspensions: Duration,
    /// Mean time between outages, of 10 minutes in the mean, of a host's link.
    pub(crate) cuts: Duration,
}

impl Faults {
    /// A bad network, and hosts that fail every other day.
    pub(crate) fn ordinary() -> Self {
        let hours = |hours: u64| Duration::from_secs(hours * 3_600);
        Self {
            loss: Probability::ppm(30_000),
            duplication: Probability::ppm(20_000),
            corruption: Probability::ppm(5_000),
            late: Probability::ppm(100_000),
            very_late: Probability::ppm(3_000),
            restarts: hours(48),
            stalls: hours(6),
            suspensions: hours(24),
            cuts: hours(12),
        }
    }

    /// Makes each fault absent, half to twice as frequent, or as frequent as before.
    fn vary(&mut self, mut below: impl FnMut(u64) -> u64) {
        let Self {
            loss,
            duplication,
            corruption,
            late,
            very_late,
            restarts,
            stalls,
            suspensions,
            cuts,
        } = self;
        for share in [loss, duplication, corruption, late, very_late] {
            let ppm = (share.as_f64() * 1e6) as u32;
            *share = Probability::ppm([0, ppm / 2, ppm, ppm * 2][below(4) as usize]);
        }
        for between in [restarts, stalls, suspensions, cuts] {
            let factor = [0, 1, 2, 4][below(4) as usize];
            *between = Duration::from_micros(between.as_micros() / 2 * factor);
        }
    }
}

/// Handling of damaged datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Damage {
    /// Their checksum fails, and they are dropped.
    Noticed,
    /// They are delivered: some bits flipped, truncated, or with foreign bytes. Message contents
    /// cannot be trusted then, so only content-independent invariants are checked: requests end,
    /// limits hold, no state of a request remains.
    Unnoticed,
}

/// Behaviour of clocks while their host is suspended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clocks {
    /// They continue, as Linux' CLOCK_BOOTTIME does.
    GoOn,
    /// They stop, as CLOCK_MONOTONIC does. A client then retransmits its request when it resumes,
    /// possibly after EXCHANGE_LIFETIME.
    Stop,
}

/// A defect of the fleet itself; each must make a check fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Defect {
    /// Duplicates of requests get new Message IDs in flight.
    DuplicatesAreNew,
    /// Timers of clients never expire.
    NoTimers,
    /// Servers change states without notifications, with a Max-Age of a day.
    SilentChanges,
    /// One request in a hundred never gets a response, and stays pending at its server.
    NeverAnswered,
    /// Limits are checked at half of the configured values.
    HalvedLimits,
    /// Bodies read in blocks change meanwhile, without an ETag.
    TornBodies,
    /// Responses are delivered to another request.
    MixedAnswers,
    /// One non-idempotent request in a hundred gets a response without execution.
    EmptyPromises,
    /// The last events of multicast requests and pings are delivered to clients twice.
    EchoedEnds,
    /// Clients register as observers with a method that does not support it.
    ObservingPosts,
    /// One notification in ten carries the state before the last.
    OldStates,
    /// The first host wakes at once, regardless of its endpoint.
    Restless,
    /// One datagram in a thousand is longer than its endpoint made it.
    Padding,
}

/// The results of a fleet.
#[derive(Clone, Debug, Default)]
pub(crate) struct FleetRecord {
    /// Violations, at most a few of each kind.
    pub(crate) findings: Vec<Finding>,
    /// Violations by kind.
    pub(crate) breaches: BTreeMap<Breach, u64>,
    /// Simulated time.
    pub(crate) end: Instant,
    /// Requests started: all that clients passed to their endpoints, observations and pings included.
    pub(crate) requests: u64,
    /// Requests rejected by an endpoint at a limit.
    pub(crate) refused: u64,
    /// Accepted requests that ended with a success, a pong, responses of group members, or without
    /// interest in a response.
    pub(crate) answered: u64,
    /// Requests that ended with a response of class 4 or 5.
    pub(crate) denied: u64,
    /// Requests that ended without a response.
    pub(crate) failed: u64,
    /// The same by cause.
    pub(crate) failures: BTreeMap<String, u64>,
    /// Requests cancelled by the client.
    pub(crate) cancelled: u64,
    /// Requests lost with their client's state.
    pub(crate) forgotten: u64,
    /// Non-idempotent requests executed by servers.
    pub(crate) executed: u64,
    /// Non-idempotent requests executed again after a restart of the server or the proxy.
    pub(crate) executed_anew: u64,
    /// Notifications sent.
    pub(crate) notified: u64,
    /// Observations with their server's newest state at the end of a night.
    pub(crate) converged: u64,
    /// Datagrams sent.
    pub(crate) datagrams: u64,
    /// Datagrams lost, or not delivered because of damage, outages and restarts.
    pub(crate) lost: u64,
    /// Duplicated datagrams.
    pub(crate) duplicated: u64,
    /// Damaged datagrams that were delivered.
    pub(crate) damaged: u64,
    /// Restarts.
    pub(crate) restarts: u64,
    /// Stalls.
    pub(crate) stalls: u64,
    /// Suspensions.
    pub(crate) suspensions: u64,
    /// The longest time from an endpoint's acceptance of a request to its end.
    pub(crate) longest: Duration,
    /// The largest duplicate table of any endpoint.
    pub(crate) remembered_max: usize,
    /// Digest of all events.
    pub(crate) digest: u64,
}

impl FleetRecord {
    /// Returns whether all invariants held.
    pub(crate) fn is_sound(&self) -> bool {
        self.breaches.is_empty()
    }
}
