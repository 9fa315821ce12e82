//! CPU time: our threads' own, and the server's.

use std::time::Duration;

/// CPU time that this thread has used, where the system has it.
#[cfg(target_os = "linux")]
pub(super) fn of_this_thread() -> Option<Duration> {
    use nix::time::{ClockId, clock_gettime};
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).ok()?;
    Some(Duration::from(time))
}

#[cfg(not(target_os = "linux"))]
pub(super) fn of_this_thread() -> Option<Duration> {
    None
}

/// CPU time that all threads of a process have used; none if it is not there.
///
/// From `schedstat`, which counts nanoseconds; `stat` counts hundredths of a second. A thread that
/// ends takes its time with it, so that the figure of a server that starts threads for requests is
/// too low.
pub(super) fn of_process(pid: u32) -> Option<Duration> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let mut sum = None;
    for thread in threads.flatten() {
        let Ok(text) = std::fs::read_to_string(thread.path().join("schedstat")) else {
            continue; // it has just ended
        };
        let nanos = text.split_whitespace().next()?.parse().ok()?;
        sum = Some(sum.unwrap_or(Duration::ZERO) + Duration::from_nanos(nanos));
    }
    sum
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn work_is_seen_by_both_measures() {
        let pid = std::process::id();
        let before = of_this_thread();
        let mut sum = 0_u64;
        while of_this_thread() < before.map(|time| time + Duration::from_millis(20)) {
            sum = std::hint::black_box(sum + 1);
        }
        // Other tests' threads may have ended meanwhile and taken theirs with them; ours is there.
        let all = of_process(pid);
        assert!(all >= Some(Duration::from_millis(10)), "{all:?}, {sum}");
    }

    #[test]
    fn missing_process_has_no_cpu_time() {
        assert_eq!(of_process(u32::MAX), None);
    }
}
