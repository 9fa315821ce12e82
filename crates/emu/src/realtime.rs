//! Real-time priority and locked memory for the engine's thread.

use std::fs;

use nix::sys::mman::{MlockAllFlags, mlockall, munlockall};
use nix::sys::prctl;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::report::Setting;
use crate::sys;

/// The requested priority: above ordinary threads, below the kernel's own.
const PRIORITY: i32 = 40;

/// The priority of threads that run clients and servers: they emulate separate hosts, so other
/// programs must not delay them, but no packet waits for them.
const HOST_PRIORITY: i32 = 20;

/// Raises the calling thread above this machine's other programs, if permitted.
pub(crate) fn enter_as_host() {
    // Without permission, flows take longer when the machine is busy.
    let _ = sys::schedule_first_in_first_out(HOST_PRIORITY);
}

/// The granted privileges of the calling thread. Dropping it unlocks the program's memory.
#[derive(Debug)]
pub(crate) struct RealTime {
    pub(crate) scheduled: bool,
    pub(crate) settings: Vec<Setting>,
    locked: bool,
}

impl RealTime {
    /// Requests all of them.
    pub(crate) fn enter() -> Self {
        let mut settings = Vec::new();
        let mut note = |name: &str, wanted: &str, result: Result<(), String>, note: &str| {
            let got = result.clone().err().unwrap_or_else(|| wanted.to_owned());
            settings.push(Setting {
                name: name.into(),
                wanted: wanted.into(),
                got,
                note: note.into(),
            });
            result.is_ok()
        };
        let result = sys::schedule_first_in_first_out(PRIORITY);
        let scheduled = note(
            "engine: scheduling",
            "first in, first out",
            result.map_err(|error| format!("as any thread: {error}")),
            "needs root or CAP_SYS_NICE",
        );
        // Pages are locked when they are touched: with stacks and buffers of all threads locked at
        // once the program would not fit.
        let on_fault = MlockAllFlags::from_bits_retain(nix::libc::MCL_ONFAULT);
        let flags = MlockAllFlags::MCL_CURRENT | MlockAllFlags::MCL_FUTURE | on_fault;
        let locked = note(
            "engine: memory",
            "locked",
            mlockall(flags).map_err(|error| format!("not locked: {error}")),
            "needs root or CAP_IPC_LOCK",
        );
        note(
            "engine: timer slack",
            "1 ns",
            prctl::set_timerslack(1).map_err(|error| error.to_string()),
            "",
        );
        Self {
            scheduled,
            settings,
            locked,
        }
    }
}

impl Drop for RealTime {
    fn drop(&mut self) {
        if self.locked {
            // It was set before, so it works.
            let _ = munlockall();
        }
    }
}

/// Raises the descriptor limit of this program to the permitted maximum. Returns that maximum.
pub(crate) fn raise_descriptors() -> u64 {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else {
        return 1_024;
    };
    match setrlimit(Resource::RLIMIT_NOFILE, hard, hard) {
        Ok(()) => hard,
        Err(_) => soft,
    }
}

/// Returns whether this program has a capability (`man 7 capabilities`), by its number.
pub(crate) fn has_capability(number: u32) -> bool {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok())
        .is_some_and(|bits| bits & (1 << number) != 0)
}
