//! A plan's runs in real time: real sockets over emulated links (Linux).
//!
//! The links are the simulator's, with the same losses by the same seeds; clients and servers are
//! `carob`'s, over UDP or the kernel's TCP.

use std::path::PathBuf;
use std::time::Duration;

pub use carob_emu::{Error, Lateness, Report, Setting, check};

use crate::run::{Outcome, Plan};

/// How runs are emulated.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Flows that are not done by then are cut off.
    pub limit: Option<Duration>,
    /// A pcapng file for the packets at both ends of all links.
    pub capture: Option<PathBuf>,
}

/// What came of an emulation.
#[derive(Debug)]
pub struct Emulation<'a> {
    /// The runs. They have no trace, and so no trace hash.
    pub outcome: Outcome<'a>,
    /// How late packets were.
    pub lateness: Lateness,
    /// The kernel's settings, as wanted and as they were.
    pub settings: Vec<Setting>,
}

/// Makes all runs of a plan at once. `progress` hears (flows done, of all), from any thread.
#[cfg(target_os = "linux")]
pub fn emulate<'a>(
    plan: &'a Plan<'a>,
    options: &Options,
    progress: impl Fn(usize, usize) + Sync,
) -> Result<Emulation<'a>, Error> {
    let specs: Vec<_> = plan.jobs().iter().map(|job| plan.spec(job)).collect();
    let options = carob_emu::runs::Options {
        limit: options.limit,
        capture: options.capture.clone(),
    };
    let made = carob_emu::runs::run(&specs, &options, progress)?;
    Ok(Emulation {
        outcome: plan.outcome(made.records),
        lateness: made.lateness,
        settings: made.settings,
    })
}

/// Makes all runs of a plan at once, which needs Linux.
#[cfg(not(target_os = "linux"))]
pub fn emulate<'a>(
    _: &'a Plan<'a>,
    _: &Options,
    _: impl Fn(usize, usize) + Sync,
) -> Result<Emulation<'a>, Error> {
    Err(Error::Configuration {
        what: "this system".to_owned(),
        why: "links are emulated with Linux's TUN devices and namespaces",
    })
}
