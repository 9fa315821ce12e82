//! Faults of a run: restarts of hosts, rebinding of addresses, outages of the link. Default: none.
//!
//! The engine schedules and applies them, on any network. An application only defines the loss of a host's state
//! in a restart and its continuation (`Application::on_restart`). Times count from the beginning of the
//! run. Without faults no event is scheduled and no random number drawn.
//!
//! One file for each fault.

mod client_restart;
mod outage;
mod rebinding;
mod server_restart;

use std::fmt;

use carob_cc::time::{Duration, Instant};

use crate::app::Applications;
use crate::engine::{Engine, Event};
use crate::net::Network;
use crate::spec::{RunSpec, Span, Transport, Workload};

pub use client_restart::ClientRestarts;
pub use outage::Outages;
pub use rebinding::Rebindings;
pub use server_restart::ServerRestarts;

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

/// A fault of a host.
#[derive(Clone, Copy, Debug)]
pub(crate) enum HostFault {
    ClientRestart,
    ServerRestart,
    Rebinding,
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

impl Faults {
    /// Checks the faults of a run.
    ///
    /// # Errors
    ///
    /// The first setting that contradicts another, or the run's workload, transport or network.
    pub fn check(&self, spec: &RunSpec) -> Result<(), FaultError> {
        let of_hosts = [
            self.client_restarts.map(|_| "client_restart"),
            self.server_restarts.map(|_| "server_restart"),
            self.rebindings.map(|_| "rebinding"),
        ];
        for name in of_hosts.into_iter().flatten() {
            check_hosts(name, spec)?;
        }
        if let Some(restarts) = self.client_restarts {
            restarts.check(spec.time_limit)?;
        }
        if let Some(restarts) = self.server_restarts {
            restarts.check(spec.time_limit)?;
        }
        if let Some(rebindings) = self.rebindings {
            rebindings.check(spec.time_limit)?;
        }
        match self.outages {
            Some(_) if spec.mesh.is_some() => Err(FaultError {
                name: "outage",
                why: "an outage is of the link, and this run has a wireless network",
            }),
            Some(outages) => outages.check(spec.time_limit),
            None => Ok(()),
        }
    }
}

/// Checks that hosts with this fault send requests in datagrams.
fn check_hosts(name: &'static str, spec: &RunSpec) -> Result<(), FaultError> {
    let groups = spec.groups();
    let sends_requests = |workload: &Workload| matches!(workload, Workload::Requests(_));
    if !groups.iter().all(|group| sends_requests(group.workload)) {
        let why = "this fault is of clients that send requests, and of their servers; other \
                   workloads have outages only";
        return Err(FaultError { name, why });
    }
    if (groups.iter()).any(|group| *group.transport != Transport::Datagrams) {
        let why = "this fault is of hosts that send datagrams; leave out algorithms over TCP";
        return Err(FaultError { name, why });
    }
    Ok(())
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

impl<N: Network> Engine<'_, N> {
    /// Schedules the first fault of each host.
    pub(crate) fn schedule_faults(&mut self) {
        let Faults {
            client_restarts,
            server_restarts,
            rebindings,
            ..
        } = self.spec.faults;
        for number in 0..self.hosts.len() as u32 {
            if self.hosts[number as usize].is_server() {
                if let Some(restarts) = server_restarts {
                    self.schedule_fault(HostFault::ServerRestart, number, restarts.first);
                }
                continue;
            }
            if let Some(restarts) = client_restarts {
                let first = restarts.first_of(self.spec.seed, number);
                self.schedule_fault(HostFault::ClientRestart, number, first);
            }
            if let Some(rebindings) = rebindings {
                let first = rebindings.first_of(self.spec.seed, number);
                self.schedule_fault(HostFault::Rebinding, number, first);
            }
        }
    }

    fn schedule_fault(&mut self, fault: HostFault, host: u32, after: Duration) {
        let at = self.now + after;
        self.queue.push(at, Event::Fault { fault, host });
    }

    /// Applies a fault of a host, and schedules its next.
    pub(crate) fn on_fault(
        &mut self,
        applications: &mut Applications<N>,
        fault: HostFault,
        host: u32,
    ) {
        let number = self.hosts[host as usize].application;
        let application = &mut *applications[usize::from(number)];
        let interval = match fault {
            HostFault::ClientRestart => self.restart_client(application, host),
            HostFault::ServerRestart => self.restart_server(application, host),
            HostFault::Rebinding => self.rebind(host),
        };
        if !interval.is_zero() {
            self.schedule_fault(fault, host, interval);
        }
    }
}

/// The time of a client's first fault, drawn uniformly.
fn drawn(seed: u64, label: &str, client: u32, span: Span) -> Duration {
    crate::random::Stream::indexed(seed, label, client).uniform(span.low, span.high)
}

/// Returns whether `now` is in one of the spans of `lasts` that begin at `first` and after each `interval`.
fn is_within(now: Instant, first: Duration, interval: Duration, lasts: Duration) -> bool {
    let now = now.since(Instant::ZERO).as_micros();
    let Some(since) = now.checked_sub(first.as_micros()) else {
        return false;
    };
    since.checked_rem(interval.as_micros()).unwrap_or(since) < lasts.as_micros()
}
