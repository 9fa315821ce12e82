//! What a fleet is told, and what it tells.

use std::collections::BTreeMap;

use carob_cc::time::{Duration, Instant};

use super::ledger::{Breach, Finding};
use crate::random::Probability;

/// The most endpoints of a fleet.
pub const ENDPOINTS_MAX: u32 = 60_000;

/// A fleet: who is in it, what goes wrong, and for how long.
#[derive(Clone, Debug)]
pub struct FleetSpec {
    /// All chance comes from it.
    pub seed: u64,
    /// Endpoints that ask.
    pub clients: u32,
    /// Endpoints that answer.
    pub servers: u32,
    /// Endpoints that pass requests on, and are client and server at once.
    pub proxies: u32,
    /// Days of 24 hours; the last hours of each are quiet, and at their end everything is checked.
    pub days: u32,
    /// Mean time between two things that a client begins.
    pub gap: Duration,
    /// What goes wrong.
    pub faults: Faults,
    /// Every table of every endpoint has a limit of a few entries, so that limits are met all day.
    pub tight: bool,
    /// What becomes of damaged datagrams.
    pub damage: Damage,
    /// What clocks do while their host is suspended.
    pub clocks: Clocks,
    /// A fault of the fleet itself, to show that a check can fail.
    pub defect: Option<Defect>,
}

impl FleetSpec {
    /// A fleet of this size with ordinary faults.
    pub fn new(seed: u64, clients: u32, servers: u32, proxies: u32, days: u32) -> Self {
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
}

/// What goes wrong. Mean times are of one host, by day; none of it ever happens if zero.
#[derive(Clone, Copy, Debug)]
pub struct Faults {
    /// A datagram is lost.
    pub loss: Probability,
    /// A datagram arrives twice, each copy with a delay of its own.
    pub duplication: Probability,
    /// A copy is damaged on its way.
    pub corruption: Probability,
    /// A copy takes up to two seconds longer, and overtakes or is overtaken.
    pub late: Probability,
    /// A copy takes up to a minute longer, still less than MAX_LATENCY.
    pub very_late: Probability,
    /// Between restarts, which lose all state.
    pub restarts: Duration,
    /// Between stalls of up to 30 s: the process does not run, its clock does, and its socket holds
    /// a few datagrams.
    pub stalls: Duration,
    /// Between times, of 20 minutes in the mean, in which a host is suspended and hears nothing.
    pub suspensions: Duration,
    /// Between times, of 10 minutes in the mean, in which a host is cut off.
    pub cuts: Duration,
}

impl Faults {
    /// A bad network, and hosts that fail every other day.
    pub fn ordinary() -> Self {
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
}

/// What becomes of damaged datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// Their checksum does not fit, and nobody hears of them.
    Noticed,
    /// They are delivered: some bits flipped, cut short, or with bytes of another. Then what is said
    /// cannot be trusted, and only what holds whatever is said is checked: requests end, limits hold,
    /// nothing of a request stays.
    Unnoticed,
}

/// What clocks do while their host is suspended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clocks {
    /// They go on, as Linux' CLOCK_BOOTTIME does.
    GoOn,
    /// They stop, as CLOCK_MONOTONIC does. A client then sends a copy of its request whenever it
    /// wakes, be that after EXCHANGE_LIFETIME.
    Stop,
}

/// A fault of the fleet itself: each must make a check fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defect {
    /// Duplicates of requests get Message IDs of their own on their way.
    DuplicatesAreNew,
    /// Timers of clients never run out.
    NoTimers,
    /// Servers change without a word, and say that what they said is good for a day.
    SilentChanges,
    /// One request in a hundred is never answered, and so stays with its server.
    NeverAnswered,
    /// Limits are checked at half of what endpoints were told.
    HalvedLimits,
    /// Bodies read block by block change meanwhile, without an entity tag.
    TornBodies,
    /// Responses come back to another request than theirs.
    MixedAnswers,
    /// One request in a hundred that must not be executed twice is answered, and not executed.
    EmptyPromises,
    /// What clients hear last of groups and pings they hear twice.
    EchoedEnds,
    /// Clients ask to observe with a method that cannot.
    ObservingPosts,
    /// Servers tell observers, one time in ten, the state before the last.
    OldStates,
    /// The first host wants to be woken at once, whatever its endpoint says.
    Restless,
    /// One datagram in a thousand is longer than its endpoint made it.
    Padding,
}

/// What came of a fleet.
#[derive(Clone, Debug, Default)]
pub struct FleetRecord {
    /// What must not have been, at most a few of each kind.
    pub findings: Vec<Finding>,
    /// How often each was.
    pub breaches: BTreeMap<Breach, u64>,
    /// Simulated time.
    pub end: Instant,
    /// Requests begun: all that clients gave to their endpoints, observations and pings too.
    pub requests: u64,
    /// Requests that an endpoint refused at a limit.
    pub refused: u64,
    /// Of those taken, ended with a success, a pong, members of a group, or with none wanted.
    pub answered: u64,
    /// Ended with a response of class 4 or 5.
    pub denied: u64,
    /// Ended without a response.
    pub failed: u64,
    /// The same by why.
    pub failures: BTreeMap<String, u64>,
    /// Cancelled by the client.
    pub cancelled: u64,
    /// Lost with their client's state.
    pub forgotten: u64,
    /// Requests executed by servers that must not be executed twice.
    pub executed: u64,
    /// Of these, executed again after a restart of the server, of the proxy between, or both.
    pub executed_anew: u64,
    /// States told to observers.
    pub notified: u64,
    /// Observations that had their server's newest state at the end of a night.
    pub converged: u64,
    /// Datagrams sent.
    pub datagrams: u64,
    /// Datagrams lost, or not delivered because of damage, cuts and restarts.
    pub lost: u64,
    /// Second copies of datagrams.
    pub duplicated: u64,
    /// Damaged datagrams that were delivered.
    pub damaged: u64,
    /// Restarts.
    pub restarts: u64,
    /// Stalls.
    pub stalls: u64,
    /// Suspensions.
    pub suspensions: u64,
    /// The longest time from a request that its endpoint took to its end.
    pub longest: Duration,
    /// The most messages that any endpoint remembered for duplicates.
    pub remembered_max: usize,
    /// Everything that happened, in a number.
    pub digest: u64,
}

impl FleetRecord {
    /// Whether all that must hold did.
    pub fn is_sound(&self) -> bool {
        self.breaches.is_empty()
    }
}
