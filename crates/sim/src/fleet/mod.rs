//! A fleet: thousands of endpoints for weeks, in a network and on hosts on which everything goes
//! wrong, and what must hold of them nevertheless.
//!
//! Nobody measures congestion here; the network has no rates. It loses, duplicates, delays, damages
//! and cuts off; hosts restart, stall and are suspended, and their clocks differ. By day clients ask
//! for everything that an endpoint can do, with every registered controller; each night all is quiet
//! but the network, and at its end the tables must be back at their line. [`ledger`] lists what is
//! checked, [`spec`] what goes wrong and which defects of the fleet itself show that a check can fail.
//!
//! ```
//! use carob_sim::fleet::{self, spec::FleetSpec};
//!
//! let record = fleet::run(&FleetSpec::new(1, 4, 2, 1, 1));
//! assert!(record.is_sound(), "{:?}", record.findings);
//! ```
//!
//! Files: [`mod@self`] the fleet's time and what is checked of tables, `host` who is in it, `clock`
//! what hosts take for the time, `network` datagrams, `client` what is asked, `server` what is
//! answered and passed on, `bodies` bodies that tell whether they are whole.

mod bodies;
mod client;
mod clock;
mod host;
pub mod ledger;
mod network;
mod server;
pub mod spec;

use std::net::SocketAddr;

use carob_cc::time::{Duration, Instant};
use carob_proto::Response;
use carob_proto::endpoint::{Event, IncomingId, MESSAGE_BYTES, Output, Usage};

use crate::hash::Words;
use crate::queue::EventQueue;
use crate::random::Stream;
use host::{Errand, Host, Pause, RESOURCES, Role};
use ledger::{Breach, Ledger, REQUEST_MAX};
use network::Flight;
use spec::{Clocks, Damage, Defect, ENDPOINTS_MAX, FleetRecord, FleetSpec};

const fn minutes(minutes: u64) -> Duration {
    Duration::from_secs(60 * minutes)
}

const DAY: Duration = minutes(24 * 60);
/// From then on nobody begins anything, and all hosts run.
const DUSK: Duration = minutes(19 * 60);
/// Then every resource changes for the last time of the day, by when all requests have ended that
/// end in [`REQUEST_MAX`].
const LAST_CHANGE: Duration = minutes(20 * 60 + 30);
/// Between two changes of one resource, in the mean.
const CHANGES: Duration = minutes(10);
/// Suspensions and cuts, in the mean; stalls, at most.
const SUSPENSION: Duration = minutes(20);
const CUT: Duration = minutes(10);
const STALL_SECONDS: u32 = 30;
/// Outputs of an endpoint after one input: more means that it does not stop.
const OUTPUTS_MAX: usize = 20_000;
/// Wake-ups in a row at one time: more means that a timer does not run out.
const SPINS_MAX: u32 = 1_000;

/// What happens next.
enum Happening {
    Arrival(Box<Flight>),
    /// ICMP: to whom, who is unreachable, and what it quotes.
    Unreachable(u32, Box<(SocketAddr, SocketAddr, Vec<u8>)>),
    Wake(u32),
    Act(u32),
    /// A server answers: its number, its epoch, what, and how.
    Answer(Box<(u32, u32, IncomingId, Response)>),
    Change(u32, u32),
    Restart(u32),
    Stall(u32),
    Suspend(u32),
    Cut(u32),
    Resume(u32),
    Mend(u32),
    Dusk,
    LastChange,
    Dawn,
}

struct Fleet<'a> {
    spec: &'a FleetSpec,
    now: Instant,
    /// When this day began.
    morning: Instant,
    queue: EventQueue<Happening>,
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
pub fn run(spec: &FleetSpec) -> FleetRecord {
    run_and_look(spec, &mut |_, _| {})
}

/// The same; at each dawn, when nothing is under way but observations, `look` is shown the number of
/// the day that ends and what came of the fleet so far.
///
/// # Panics
///
/// Likewise.
pub fn run_and_look(spec: &FleetSpec, look: &mut dyn FnMut(u32, &FleetRecord)) -> FleetRecord {
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
        while let Some((at, happening)) = fleet.queue.pop() {
            fleet.now = at;
            if matches!(happening, Happening::Dawn) {
                break;
            }
            fleet.happen(happening);
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
    /// Something that all of the digest depends on.
    fn note(&mut self, word: u64) {
        self.digest.add(self.now.as_micros());
        self.digest.add(word);
    }

    /// Servers and their groups; clients and proxies are in none.
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
                Role::Client => self.later(index, self.spec.gap, Happening::Act(index)),
                Role::Server => {
                    for resource in 0..RESOURCES {
                        self.later(index, CHANGES, Happening::Change(index, resource));
                    }
                }
                Role::Proxy => {}
            }
            self.later(index, faults.restarts, Happening::Restart(index));
            self.later(index, faults.stalls, Happening::Stall(index));
            self.later(index, faults.suspensions, Happening::Suspend(index));
            self.later(index, faults.cuts, Happening::Cut(index));
        }
        self.queue.push(self.morning + DUSK, Happening::Dusk);
        self.queue
            .push(self.morning + LAST_CHANGE, Happening::LastChange);
        self.queue.push(self.morning + DAY, Happening::Dawn);
    }

    /// Plans something of a host, if it happens before dusk.
    fn later(&mut self, index: u32, mean: Duration, happening: Happening) {
        if mean.is_zero() {
            return;
        }
        let at = self.now + self.hosts[index as usize].after(mean);
        if at < self.morning + DUSK {
            self.queue.push(at, happening);
        }
    }

    fn happen(&mut self, happening: Happening) {
        let faults = self.spec.faults;
        match happening {
            Happening::Arrival(flight) => self.arrive(*flight),
            Happening::Unreachable(index, what) => {
                let (to, peer, quoted) = *what;
                self.unreachable(index, to, peer, &quoted);
            }
            Happening::Wake(index) => self.wake(index),
            Happening::Act(index) => {
                self.later(index, self.spec.gap, Happening::Act(index));
                self.act(index);
            }
            Happening::Answer(answer) => {
                let (index, epoch, id, response) = *answer;
                let host = &self.hosts[index as usize];
                if host.epoch != epoch {
                    return;
                }
                if host.pause.is_some() {
                    // Its application does not run either.
                    let answer = Box::new((index, epoch, id, response));
                    let at = self.now + Duration::from_secs(1);
                    return self.queue.push(at, Happening::Answer(answer));
                }
                // Of what is observed, the state is read when it is told.
                let response = self.newest_of(index, id).unwrap_or(response);
                self.respond(index, id, &response);
                self.drain(index);
            }
            Happening::Change(index, resource) => {
                self.later(index, CHANGES, Happening::Change(index, resource));
                self.change(index, resource, false);
            }
            Happening::Restart(index) => {
                self.later(index, faults.restarts, Happening::Restart(index));
                self.restart(index);
            }
            Happening::Stall(index) => {
                self.later(index, faults.stalls, Happening::Stall(index));
                let host = &mut self.hosts[index as usize];
                let lasts = 1 + host.below(STALL_SECONDS);
                self.pause(index, Pause::Stalled, Duration::from_secs(lasts.into()));
            }
            Happening::Suspend(index) => {
                self.later(index, faults.suspensions, Happening::Suspend(index));
                let lasts = self.hosts[index as usize].after(SUSPENSION);
                self.pause(index, Pause::Suspended(self.now), lasts);
            }
            Happening::Resume(index) => self.resume(index),
            Happening::Cut(index) => {
                self.later(index, faults.cuts, Happening::Cut(index));
                let host = &mut self.hosts[index as usize];
                let lasts = host.after(CUT);
                if !core::mem::replace(&mut host.cut, true) {
                    let at = (self.now + lasts).min(self.morning + DUSK);
                    self.queue.push(at, Happening::Mend(index));
                }
            }
            Happening::Mend(index) => self.hosts[index as usize].cut = false,
            Happening::Dusk | Happening::Dawn => {}
            Happening::LastChange => {
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
        self.ledger.record.forgotten += host.asked.len() as u64;
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
        let at = (self.now + lasts).min(self.morning + DUSK);
        self.queue.push(at, Happening::Resume(index));
    }

    /// A host runs again: what waited in its socket and what has become due come in either order.
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
        host.alarm = crate::alarm::Alarm::default();
        if timers_first {
            self.time_out(index);
        }
        while let Some(flight) = self.hosts[index as usize].waiting.pop_front() {
            self.hear(index, &flight);
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

    /// Does what an endpoint says, until it waits.
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
                Output::Event(Event::Request(id)) => self.asked_of(index, id),
                Output::Event(event) => match (host.role, event) {
                    (Role::Client, event) => self.told(index, event),
                    (Role::Proxy, Event::Response { id, response }) => {
                        self.passed(index, id, Ok(response));
                    }
                    (Role::Proxy, Event::Failed { id, failure }) => {
                        self.passed(index, id, Err(failure));
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
            self.queue.push(at, Happening::Wake(index));
        }
    }

    fn check_limits(&mut self, index: u32) {
        let end = &self.hosts[index as usize].end;
        let (usage, mut limits) = (end.usage(), end.config().limits);
        if self.spec.defect == Some(Defect::HalvedLimits) {
            (limits.recent, limits.lasting) = (limits.recent / 2, limits.lasting / 2);
        }
        let record = &mut self.ledger.record;
        record.remembered_max = record.remembered_max.max(usage.remembered);
        let within = usage.peers <= limits.peers
            && usage.requests <= limits.requests
            && usage.incoming <= limits.incoming
            && usage.remembered <= limits.recent + limits.lasting
            && usage.uploads.0 <= limits.uploads
            && usage.uploads.1 <= limits.all_upload_bytes
            && usage.bodies.0 <= limits.bodies
            && usage.bodies.1 <= limits.body_bytes
            && usage.observers <= limits.observers
            && usage.observations <= limits.requests
            && usage.leisurely <= limits.leisurely
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

    /// After a quiet night: every request has ended, observers are up to date, and tables hold
    /// nothing but observations.
    fn check_tables(&mut self) {
        let mut observed_at = vec![0; self.hosts.len()];
        let mut broken = Vec::new();
        for (index, host) in self.hosts.iter().enumerate() {
            for asked in &host.asked {
                let Some((server, resource, newest)) = asked.observes() else {
                    broken.push((index, Breach::NeverEnded, format!("{asked:?}")));
                    continue;
                };
                if asked.ending {
                    broken.push((index, Breach::NeverEnded, format!("{asked:?}")));
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
                .asked
                .iter()
                .filter(|asked| matches!(asked.errand, Errand::Observe { .. }));
            let line = Line {
                requests: observations.count(),
                observers: observed_at[index],
                at_once: host.config.limits.blocks_in_flight,
                lenient: self.ledger.lenient,
            };
            if !line.holds(&usage) || !host.passing.is_empty() {
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

/// What tables hold when nothing is under way.
#[derive(Debug)]
struct Line {
    requests: usize,
    observers: usize,
    /// Messages of one request.
    at_once: usize,
    /// A damaged registration may have listed an observer that nobody is.
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
            && usage.leisurely == 0
            && usage.notifications_waiting == 0
            && usage.uploads == (0, 0)
    }
}
