//! Soak simulation: thousands of endpoints for weeks, under network and host faults, with
//! invariants.
//!
//! Congestion is out of scope; the network has no rates. It loses, duplicates, delays and damages
//! datagrams, and has outages. Hosts restart, stall and are suspended, and their clocks drift. By
//! day clients use every feature of an endpoint, with every registered controller. Each night only
//! the network runs, and at its end the tables must be back at their base line. [`ledger`] lists
//! the invariants. [`spec`] lists the faults, and defects of the fleet itself that prove each
//! check.
//!
//! This module has the event loop and the checks of tables; `host` has endpoints, `clock` their
//! clocks, `network` datagrams, `client` requests, `server` responses and forwarding, `bodies`
//! self-describing bodies.

mod bodies;
mod client;
mod clock;
mod host;
pub(crate) mod ledger;
mod network;
mod server;
pub(crate) mod spec;

use std::net::SocketAddr;

use carob_cc::time::{Duration, Instant};
use carob_proto::Response;
use carob_proto::endpoint::{Event, IncomingId, MESSAGE_BYTES, Output, Usage};

use carob_sim::hash::Words;
use carob_sim::queue::EventQueue;
use carob_sim::random::Stream;
use host::{Host, Pause, Purpose, RESOURCES, Role};
use ledger::{Breach, Ledger, REQUEST_MAX};
use network::Flight;
use spec::{Clocks, Damage, Defect, ENDPOINTS_MAX, FleetRecord, FleetSpec};

const fn minutes(minutes: u64) -> Duration {
    Duration::from_secs(60 * minutes)
}

const DAY: Duration = minutes(24 * 60);
/// End of the day. After it no request starts, and all hosts run.
const DAY_END: Duration = minutes(19 * 60);
/// The last change of every resource of a day. Requests that end within [`REQUEST_MAX`] have all ended before it.
const LAST_CHANGE: Duration = minutes(20 * 60 + 30);
/// Mean time between two changes of a resource.
const CHANGES: Duration = minutes(10);
/// Suspensions and outages, in the mean; stalls, at most.
const SUSPENSION: Duration = minutes(20);
const CUT: Duration = minutes(10);
const STALL_SECONDS: u32 = 30;
/// Maximum outputs of an endpoint after one input: more count as an endless loop.
const OUTPUTS_MAX: usize = 20_000;
/// Maximum wake-ups in a row at one time: more count as an endless loop.
const SPINS_MAX: u32 = 1_000;

/// A scheduled event.
enum FleetEvent {
    Arrival(Box<Flight>),
    /// ICMP destination unreachable: the receiver, the unreachable address, and the quoted bytes.
    Unreachable(u32, Box<(SocketAddr, SocketAddr, Vec<u8>)>),
    Wake(u32),
    Act(u32),
    /// A response of a server: its number, its epoch, the request, and the response.
    Answer(Box<(u32, u32, IncomingId, Response)>),
    Change(u32, u32),
    Restart(u32),
    Stall(u32),
    Suspend(u32),
    LinkDown(u32),
    Resume(u32),
    LinkUp(u32),
    DayEnd,
    LastChange,
    DayStart,
}

struct Fleet<'a> {
    spec: &'a FleetSpec,
    now: Instant,
    /// Beginning of this day.
    morning: Instant,
    queue: EventQueue<FleetEvent>,
    hosts: Vec<Host>,
    /// Loss, delay and damage.
    network: Stream,
    ledger: Ledger,
    /// Requests numbered so far.
    numbers: u64,
    digest: Words,
}

/// Runs a fleet to its end.
///
/// # Panics
///
/// If it has no clients or no servers, or more than [`ENDPOINTS_MAX`] endpoints.
pub(crate) fn run(spec: &FleetSpec) -> FleetRecord {
    run_and_look(spec, &mut |_, _| {})
}

/// The same, with a callback at the end of each night, when only observations are outstanding.
/// `look` gets the number of the day and the record so far.
///
/// # Panics
///
/// As [`run`].
pub(crate) fn run_and_look(
    spec: &FleetSpec,
    look: &mut dyn FnMut(u32, &FleetRecord),
) -> FleetRecord {
    let size = spec.clients + spec.servers + spec.proxies;
    assert!(spec.clients > 0 && spec.servers > 0 && size <= ENDPOINTS_MAX);
    let role = |index: u32| match index {
        _ if index < spec.clients => Role::Client,
        _ if index < spec.clients + spec.servers => Role::Server,
        _ => Role::Proxy,
    };
    let hosts = (0..size).map(|index| Host::new(spec, index, role(index)));
    let mut fleet = Fleet {
        spec,
        now: Instant::ZERO,
        morning: Instant::ZERO,
        queue: EventQueue::new(),
        hosts: hosts.collect(),
        network: Stream::new(spec.seed, "fleet/network"),
        ledger: Ledger::new(spec.damage == Damage::Unnoticed),
        numbers: 0,
        digest: Words::default(),
    };
    for day in 0..spec.days {
        fleet.begin_day();
        while let Some((at, event)) = fleet.queue.pop() {
            fleet.now = at;
            if matches!(event, FleetEvent::DayStart) {
                break;
            }
            fleet.handle(event);
        }
        fleet.check_tables();
        fleet.ledger.forget();
        fleet.ledger.record.end = fleet.now;
        look(day, &fleet.ledger.record);
    }
    fleet.ledger.record.digest = fleet.digest.finish();
    fleet.ledger.record
}

impl Fleet<'_> {
    /// Adds a word to the digest.
    fn note(&mut self, word: u64) {
        self.digest.add(self.now.as_micros());
        self.digest.add(word);
    }

    /// Servers in a group; clients and proxies are in none.
    fn members(&self, group: u32) -> Vec<u32> {
        let of_group = |(index, host): (usize, &Host)| {
            (host.role == Role::Server && host.group == group).then_some(index as u32)
        };
        self.hosts.iter().enumerate().filter_map(of_group).collect()
    }

    fn begin_day(&mut self) {
        self.morning = self.now;
        let faults = self.spec.faults;
        for index in 0..self.hosts.len() as u32 {
            match self.hosts[index as usize].role {
                Role::Client => self.schedule(index, self.spec.gap, FleetEvent::Act(index)),
                Role::Server => {
                    for resource in 0..RESOURCES {
                        self.schedule(index, CHANGES, FleetEvent::Change(index, resource));
                    }
                }
                Role::Proxy => {}
            }
            self.schedule(index, faults.restarts, FleetEvent::Restart(index));
            self.schedule(index, faults.stalls, FleetEvent::Stall(index));
            self.schedule(index, faults.suspensions, FleetEvent::Suspend(index));
            self.schedule(index, faults.cuts, FleetEvent::LinkDown(index));
        }
        self.queue.push(self.morning + DAY_END, FleetEvent::DayEnd);
        self.queue
            .push(self.morning + LAST_CHANGE, FleetEvent::LastChange);
        self.queue.push(self.morning + DAY, FleetEvent::DayStart);
    }

    /// Schedules an event of a host, if it is before the end of the day.
    fn schedule(&mut self, index: u32, mean: Duration, event: FleetEvent) {
        if mean.is_zero() {
            return;
        }
        let at = self.now + self.hosts[index as usize].after(mean);
        if at < self.morning + DAY_END {
            self.queue.push(at, event);
        }
    }

    fn handle(&mut self, event: FleetEvent) {
        let faults = self.spec.faults;
        match event {
            FleetEvent::Arrival(flight) => self.arrive(*flight),
            FleetEvent::Unreachable(index, what) => {
                let (to, peer, quoted) = *what;
                self.unreachable(index, to, peer, &quoted);
            }
            FleetEvent::Wake(index) => self.wake(index),
            FleetEvent::Act(index) => {
                self.schedule(index, self.spec.gap, FleetEvent::Act(index));
                self.act(index);
            }
            FleetEvent::Answer(answer) => {
                let (index, epoch, id, response) = *answer;
                let host = &self.hosts[index as usize];
                if host.epoch != epoch {
                    return;
                }
                if host.pause.is_some() {
                    // Its application does not run either.
                    let answer = Box::new((index, epoch, id, response));
                    let at = self.now + Duration::from_secs(1);
                    return self.queue.push(at, FleetEvent::Answer(answer));
                }
                // An observed state is read when its notification is made.
                let response = self.newest_of(index, id).unwrap_or(response);
                self.respond(index, id, &response);
                self.drain(index);
            }
            FleetEvent::Change(index, resource) => {
                self.schedule(index, CHANGES, FleetEvent::Change(index, resource));
                self.change(index, resource, false);
            }
            FleetEvent::Restart(index) => {
                self.schedule(index, faults.restarts, FleetEvent::Restart(index));
                self.restart(index);
            }
            FleetEvent::Stall(index) => {
                self.schedule(index, faults.stalls, FleetEvent::Stall(index));
                let host = &mut self.hosts[index as usize];
                let lasts = 1 + host.below(STALL_SECONDS);
                self.pause(index, Pause::Stalled, Duration::from_secs(lasts.into()));
            }
            FleetEvent::Suspend(index) => {
                self.schedule(index, faults.suspensions, FleetEvent::Suspend(index));
                let lasts = self.hosts[index as usize].after(SUSPENSION);
                self.pause(index, Pause::Suspended(self.now), lasts);
            }
            FleetEvent::Resume(index) => self.resume(index),
            FleetEvent::LinkDown(index) => {
                self.schedule(index, faults.cuts, FleetEvent::LinkDown(index));
                let host = &mut self.hosts[index as usize];
                let lasts = host.after(CUT);
                if !core::mem::replace(&mut host.cut, true) {
                    let at = (self.now + lasts).min(self.morning + DAY_END);
                    self.queue.push(at, FleetEvent::LinkUp(index));
                }
            }
            FleetEvent::LinkUp(index) => self.hosts[index as usize].cut = false,
            FleetEvent::DayEnd | FleetEvent::DayStart => {}
            FleetEvent::LastChange => {
                for index in 0..self.hosts.len() as u32 {
                    if self.hosts[index as usize].role == Role::Server {
                        for resource in 0..RESOURCES {
                            self.change(index, resource, true);
                        }
                    }
                }
            }
        }
    }

    fn restart(&mut self, index: u32) {
        let host = &mut self.hosts[index as usize];
        self.ledger.record.forgotten += host.pending.len() as u64;
        host.restart(self.spec, index, self.now);
        self.ledger.restarted(self.now, index);
        self.drain(index);
    }

    fn pause(&mut self, index: u32, pause: Pause, lasts: Duration) {
        let host = &mut self.hosts[index as usize];
        if host.pause.is_some() {
            return;
        }
        host.pause = Some(pause);
        match pause {
            Pause::Stalled => self.ledger.record.stalls += 1,
            Pause::Suspended(_) => self.ledger.record.suspensions += 1,
        }
        let at = (self.now + lasts).min(self.morning + DAY_END);
        self.queue.push(at, FleetEvent::Resume(index));
    }

    /// Resumes a host: buffered datagrams and due timers come in either order.
    fn resume(&mut self, index: u32) {
        let host = &mut self.hosts[index as usize];
        let Some(pause) = host.pause.take() else {
            return; // it was restarted meanwhile
        };
        if let Pause::Suspended(since) = pause {
            if self.spec.clocks == Clocks::Stop {
                host.clock.stood_still(since, self.now);
            } else {
                host.suspended += self.now.since(since);
            }
        }
        let timers_first = host.below(2) == 0;
        host.alarm = carob_sim::queue::Alarm::default();
        if timers_first {
            self.time_out(index);
        }
        while let Some(flight) = self.hosts[index as usize].waiting.pop_front() {
            self.deliver(index, &flight);
            self.drain(index);
        }
        self.time_out(index);
    }

    fn wake(&mut self, index: u32) {
        let host = &mut self.hosts[index as usize];
        if !host.alarm.rings(self.now) || host.pause.is_some() {
            return;
        }
        if self.spec.defect == Some(Defect::NoTimers) && host.role == Role::Client {
            return;
        }
        self.time_out(index);
    }

    fn time_out(&mut self, index: u32) {
        let host = &mut self.hosts[index as usize];
        let own = host.own(self.now);
        host.end.handle_timeout(own);
        self.drain(index);
    }

    /// Polls an endpoint until it waits.
    fn drain(&mut self, index: u32) {
        for _ in 0..OUTPUTS_MAX {
            let host = &mut self.hosts[index as usize];
            match host.end.poll() {
                Output::Transmit { to, bytes } => {
                    let mut bytes = bytes.to_vec();
                    if self.spec.defect == Some(Defect::Padding) && host.below(1_000) == 0 {
                        bytes.resize(MESSAGE_BYTES + 1, 0);
                    }
                    self.send(index, to, bytes);
                }
                Output::Event(Event::Request(id)) => self.on_request(index, id),
                Output::Event(event) => match (host.role, event) {
                    (Role::Client, event) => self.on_event(index, event),
                    (Role::Proxy, Event::Response { id, response }) => {
                        self.on_forwarded(index, id, Ok(response));
                    }
                    (Role::Proxy, Event::Failed { id, failure }) => {
                        self.on_forwarded(index, id, Err(failure));
                    }
                    _ => {}
                },
                Output::Wait(at) => {
                    self.check_limits(index);
                    return self.wait(index, at);
                }
                _ => {}
            }
        }
        let details = format!("{OUTPUTS_MAX} outputs");
        self.ledger
            .breach(self.now, index, Breach::Spinning, details);
    }

    fn wait(&mut self, index: u32, until: Option<Instant>) {
        let Some(until) = until else {
            return;
        };
        let host = &mut self.hosts[index as usize];
        let restless = self.spec.defect == Some(Defect::Restless) && index == 0;
        let at = if restless || until <= host.own(self.now) {
            host.spins += 1;
            self.now
        } else {
            host.spins = 0;
            host.clock.when(until)
        };
        if host.spins > SPINS_MAX {
            host.spins = 0;
            let details = format!("{SPINS_MAX} times at once");
            return self
                .ledger
                .breach(self.now, index, Breach::Spinning, details);
        }
        if host.alarm.set(at) {
            self.queue.push(at, FleetEvent::Wake(index));
        }
    }

    fn check_limits(&mut self, index: u32) {
        let end = &self.hosts[index as usize].end;
        let (usage, mut limits) = (end.usage(), end.config().limits);
        if self.spec.defect == Some(Defect::HalvedLimits) {
            (limits.dedup_idempotent, limits.dedup_non_idempotent) =
                (limits.dedup_idempotent / 2, limits.dedup_non_idempotent / 2);
        }
        let record = &mut self.ledger.record;
        record.remembered_max = record.remembered_max.max(usage.remembered);
        let within = usage.peers <= limits.peers
            && usage.requests <= limits.requests
            && usage.incoming <= limits.incoming
            && usage.remembered <= limits.dedup_idempotent + limits.dedup_non_idempotent
            && usage.uploads.0 <= limits.uploads
            && usage.uploads.1 <= limits.all_upload_bytes
            && usage.bodies.0 <= limits.bodies
            && usage.bodies.1 <= limits.body_bytes
            && usage.observers <= limits.observers
            && usage.observations <= limits.requests
            && usage.delayed_responses <= limits.delayed_responses
            // Beyond the limit each peer may have one.
            && usage.notifications_waiting <= limits.notifications + usage.peers
            && usage.validated <= limits.validated
            && usage.pauses <= limits.pauses;
        if !within {
            let details = format!("{usage:?}");
            self.ledger
                .breach(self.now, index, Breach::LimitExceeded, details);
        }
    }

    /// Checks at the end of a night: every request has ended, observers have the newest state, and
    /// tables hold nothing but observations.
    fn check_tables(&mut self) {
        let mut observed_at = vec![0; self.hosts.len()];
        let mut broken = Vec::new();
        for (index, host) in self.hosts.iter().enumerate() {
            for pending in &host.pending {
                let Some((server, resource, newest)) = pending.observes() else {
                    broken.push((index, Breach::NeverEnded, format!("{pending:?}")));
                    continue;
                };
                if pending.ending {
                    broken.push((index, Breach::NeverEnded, format!("{pending:?}")));
                }
                observed_at[server as usize] += 1;
                let state = self.hosts[server as usize].state(server, resource);
                if newest == state {
                    self.ledger.record.converged += 1;
                } else {
                    let details = format!("{newest:?}, not {state:?}");
                    broken.push((index, Breach::NotConverged, details));
                }
            }
        }
        for (index, host) in self.hosts.iter().enumerate() {
            let usage = host.end.usage();
            let observations = host
                .pending
                .iter()
                .filter(|pending| matches!(pending.purpose, Purpose::Observe { .. }));
            let line = Line {
                requests: observations.count(),
                observers: observed_at[index],
                at_once: host.config.limits.blocks_in_flight,
                lenient: self.ledger.lenient,
            };
            if !line.holds(&usage) || !host.forwarded.is_empty() {
                let details = format!("{usage:?}, {line:?}");
                broken.push((index, Breach::NotReturned, details));
            }
        }
        for (index, breach, details) in broken {
            self.ledger.breach(self.now, index as u32, breach, details);
        }
        debug_assert!(DAY.saturating_sub(LAST_CHANGE) > REQUEST_MAX);
    }
}

/// Maximum table sizes without outstanding requests.
#[derive(Debug)]
struct Line {
    requests: usize,
    observers: usize,
    /// Messages of one request.
    at_once: usize,
    /// A damaged registration may have listed an unknown observer.
    lenient: bool,
}

impl Line {
    fn holds(&self, usage: &Usage) -> bool {
        let observers = if self.lenient {
            true
        } else {
            usage.observers == self.observers
        };
        observers
            && usage.requests == self.requests
            && usage.observations == self.requests
            // Observations are renewed all night.
            && usage.exchanges <= (self.requests + self.observers) * self.at_once
            && usage.incoming <= self.observers
            && usage.bodies.0 <= self.observers
            && usage.delayed_responses == 0
            && usage.notifications_waiting == 0
            && usage.uploads == (0, 0)
    }
}
