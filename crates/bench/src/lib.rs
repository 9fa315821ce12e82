//! The load generator of `carob bench`.
//!
//! [`Plan`] has the settings, `worker` sends requests and bodies on ports
//! (`ports`, `port`) that drive the protocol engine over separate sockets: the library's client
//! costs half as much again for each request as the server that it would load. Over coaps a port has
//! a DTLS session (`session`). `counters` and `window` count, [`Report`] has the results.

// A driver: it reads the clock and draws seeds, as the engine below it does not.
#![allow(clippy::disallowed_methods)]

mod answers;
mod counters;
mod cpu;
mod entropy;
mod pace;
mod plan;
mod port;
mod ports;
mod report;
mod session;
mod slots;
mod socket;
mod window;
mod worker;

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use carob::Code;

use ports::Clock;
use slots::SourcePorts;
use window::Outcome;
use worker::Control;
use worker::Worker;

pub use counters::ErrorKind;
pub use plan::{Arrivals, Mode, PORT_MESSAGES_MAX, Pace, Plan, Secure, Target};
pub use report::{
    BUSY, Dtls, ErrorCounts, Generator, Messages, OpenLoop, Percentiles, Report, Server, WarmUp,
    limit_by_default,
};

/// A load on a server, before its threads start. Clones control the same load.
#[derive(Clone, Debug)]
pub struct Load {
    plan: Arc<Plan>,
    control: Arc<Control>,
    server_pid: Option<u32>,
}

/// The threads of a load.
#[derive(Debug)]
pub struct Running {
    load: Load,
    threads: Vec<JoinHandle<io::Result<Outcome>>>,
}

/// Results of a load.
#[derive(Debug)]
pub struct Results {
    /// Everything, settings included.
    pub report: Report,
    /// The outcome in short.
    pub verdict: Verdict,
    /// The percentile distribution of latencies in the text form of HdrHistogram's tools, in microseconds.
    pub distribution: String,
}

/// The outcome of a load in short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Requests succeeded, or there were none.
    Done,
    /// Most requests were answered with this error code.
    Refused(Code),
    /// Most requests had no answer; true if answers arrived that matched none.
    NoAnswer(bool),
    /// No request succeeded, most often because of this.
    Failed(ErrorKind),
}

/// Returns true for a process whose CPU time can be read.
pub fn has_process(pid: u32) -> bool {
    cpu::of_process(pid).is_some()
}

impl Load {
    /// Prepares a load; CPU time is reported of the process `server_pid`.
    pub fn new(plan: Plan, server_pid: Option<u32>) -> io::Result<Self> {
        let lifetime = plan.config().parameters.exchange_lifetime();
        let fresh = SourcePorts::new(lifetime.into())?;
        let control = Arc::new(Control::new(plan.threads, fresh, server_pid));
        let plan = Arc::new(plan);
        Ok(Self {
            plan,
            control,
            server_pid,
        })
    }

    /// The settings.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Opens the ports and starts the threads, all on one clock; blocks until all sessions are established.
    pub fn start(self) -> io::Result<Running> {
        // All ports are open, and have their sessions, before the clock starts, so that this delays
        // nothing.
        let (plan, control) = (&self.plan, &self.control);
        let workers: io::Result<Vec<Worker>> = (0..plan.threads)
            .map(|thread| Worker::open(Arc::clone(plan), Arc::clone(control), thread))
            .collect();
        let clock = Clock::start();
        let start = |worker: Worker| {
            let control = Arc::clone(control);
            let load = move || {
                let outcome = worker.run(clock);
                if outcome.is_err() {
                    // The other threads would measure something else than was requested.
                    control.stop();
                }
                outcome
            };
            thread::Builder::new().name("load".to_owned()).spawn(load)
        };
        let threads: io::Result<_> = workers?.into_iter().map(start).collect();
        Ok(Running {
            threads: threads?,
            load: self,
        })
    }

    /// Ends the load early.
    pub fn stop(&self) {
        self.control.stop();
    }

    /// Requests that have ended, and errors among them.
    pub fn progress(&self) -> (u64, u64) {
        self.control.progress()
    }
}

impl Running {
    /// Returns true if all threads have ended.
    pub fn is_finished(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished)
    }

    /// Waits for the threads; `interrupted` if the user ended them.
    pub fn join(self, interrupted: bool) -> io::Result<Results> {
        let mut all: Option<Outcome> = None;
        for thread in self.threads {
            let joined = thread.join();
            let outcome = joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            match &mut all {
                Some(all) => all.add(outcome),
                None => all = Some(outcome),
            }
        }
        let mut all = all.unwrap_or_default();
        all.settle();
        let Load {
            plan,
            control,
            server_pid,
        } = &self.load;
        let distribution = report::distribution(&all.measured.latency);
        let verdict = verdict(&all);
        let recurred = control.source_ports.recurred();
        let mut report = Report::new(plan, all, recurred, *server_pid);
        report.interrupted = interrupted;
        Ok(Results {
            report,
            verdict,
            distribution,
        })
    }
}

fn verdict(all: &Outcome) -> Verdict {
    let counters = &all.measured;
    if counters.answered > 0 || counters.errors() == 0 {
        return Verdict::Done;
    }
    let silent: u64 = [ErrorKind::Timeout, ErrorKind::Unreachable]
        .into_iter()
        .map(|error| counters.failures_of(error))
        .sum();
    match counters.refusals().max_by_key(|(_, count)| *count) {
        Some((code, count)) if count >= silent => Verdict::Refused(code),
        _ if silent * 2 >= counters.errors() => Verdict::NoAnswer(all.traffic.wrong() > 0),
        _ => {
            let kinds = ErrorKind::ALL.into_iter();
            let most = kinds.max_by_key(|error| counters.failures_of(*error));
            Verdict::Failed(most.unwrap_or(ErrorKind::NotTaken))
        }
    }
}
