//! Priority and memory for a thread that must not be late.

use std::fs;

use nix::sys::mman::{MlockAllFlags, mlockall, munlockall};
use nix::sys::prctl;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::report::Setting;
use crate::sys;

/// The priority asked for: above everything that asks for none, below the kernel's own threads.
const PRIORITY: i32 = 40;

/// That of threads that run clients and servers: hosts of their own would not wait for this
/// machine's other programs, but no packet waits for them.
const HOST_PRIORITY: i32 = 20;

/// Lets the calling thread go before this machine's other programs, if it may.
pub(crate) fn enter_as_host() {
    // Where it may not, flows take longer when the machine is busy.
    let _ = sys::schedule_first_in_first_out(HOST_PRIORITY);
}

/// What the calling thread was given. The program's memory is unlocked when it is dropped.
#[derive(Debug)]
pub(crate) struct RealTime {
    pub(crate) scheduled: bool,
    pub(crate) settings: Vec<Setting>,
    locked: bool,
}

impl RealTime {
    /// Asks for all of it.
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
        // What is not there yet is locked when it is touched: with stacks and buffers of all
        // threads locked at once the program would not fit.
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
            // It was there before, so that it works cannot be in question.
            let _ = munlockall();
        }
    }
}

/// Raises the number of descriptors this program may have as far as it is allowed to, and says
/// how many these are.
pub(crate) fn raise_descriptors() -> u64 {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else {
        return 1_024;
    };
    match setrlimit(Resource::RLIMIT_NOFILE, hard, hard) {
        Ok(()) => hard,
        Err(_) => soft,
    }
}

/// Whether this program has a capability (`man 7 capabilities`), by its number.
pub(crate) fn has_capability(number: u32) -> bool {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok())
        .is_some_and(|bits| bits & (1 << number) != 0)
}
