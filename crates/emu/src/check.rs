//! Requirements of link emulation on this machine, each tested by use.

use std::fs::File;
use std::io;
use std::thread;
use std::time::Duration;

use crate::Error;
use crate::bpf::InitialTimeout;
use crate::kernel;
use crate::namespace::Namespace;
use crate::namespace::Netlink;
use crate::realtime;
use crate::report::{Item, Report};
use crate::sys;
use crate::tun::{self, Ends, Tun};

/// Capabilities, by number, that are looked up rather than tested by use.
const CAP_IPC_LOCK: u32 = 14;

pub(crate) fn check() -> Report {
    let mut items = Vec::new();
    let mut note = |what, required, missing: Option<String>| {
        items.push(Item {
            what,
            required,
            missing,
        });
    };
    let failed = |result: Result<(), Error>| result.err().map(|error| error.to_string());

    let namespaces = ["server", "client"].map(Namespace::create);
    let namespaces = namespaces.into_iter().collect::<Result<Vec<_>, _>>();
    let no_namespace = "there is no namespace to try it in".to_owned();
    let first = namespaces.as_ref().ok().and_then(|both| both.first());
    note(
        "network namespaces",
        true,
        namespaces.as_ref().err().map(ToString::to_string),
    );
    note(
        "/dev/net/tun",
        true,
        tun::open_clone_device().err().as_ref().map(open_error),
    );
    note(
        "TUN devices, addresses and routes",
        true,
        match first {
            None => Some(no_namespace.clone()),
            Some(namespace) => failed(namespace.enter(try_device).and_then(|result| result)),
        },
    );
    note(
        "the kernel's settings",
        true,
        match first {
            None => Some(no_namespace.clone()),
            Some(namespace) => match namespace.enter(|| File::options().write(true).open(SACK)) {
                Ok(Ok(_)) => None,
                Ok(Err(error)) => Some(format!("{SACK}: {error}; mount /proc/sys for writing")),
                Err(error) => Some(error.to_string()),
            },
        },
    );
    let modules = kernel::congestion_modules();
    for (what, module) in [
        ("congestion module reno", "reno"),
        ("congestion module bbr", "bbr"),
        ("congestion module cubic", "cubic"),
    ] {
        let there = modules.iter().any(|known| known == module);
        let why = format!("the kernel does not list it; `modprobe tcp_{module}`");
        note(what, false, (!there).then_some(why));
    }
    note(
        "initial timeout (BPF and cgroup v2)",
        false,
        match &namespaces {
            Err(_) => Some(no_namespace),
            Ok(both) => {
                let both: Vec<_> = both.iter().collect();
                failed(InitialTimeout::set(Duration::from_secs(2), &both).map(drop))
            }
        },
    );
    let scheduled = thread::scope(|scope| {
        scope
            .spawn(|| sys::schedule_first_in_first_out(1))
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    note(
        "real-time priority",
        false,
        scheduled
            .err()
            .map(|error| format!("{error}; run it as root or with CAP_SYS_NICE")),
    );
    let locked = realtime::has_capability(CAP_IPC_LOCK);
    let why = || "run it as root or with CAP_IPC_LOCK".to_owned();
    note("locked memory", false, (!locked).then(why));
    Report { items }
}

const SACK: &str = "/proc/sys/net/ipv4/tcp_sack";

fn try_device() -> Result<(), Error> {
    let ends = Ends {
        own: [10, 1, 0, 1].into(),
        peer: [10, 2, 0, 1].into(),
        mtu_bytes: 296,
        initial_window: 4,
    };
    let mut netlink = Netlink::open()
        .map_err(|error| Error::system("configure a device", error, "run it as root"))?;
    Tun::create(&mut netlink, "carob0", &ends).map(drop)
}

fn open_error(error: &io::Error) -> String {
    let remedy = match error.kind() {
        io::ErrorKind::NotFound => {
            "`modprobe tun`; in a container, hand the device in (--device /dev/net/tun)"
        }
        io::ErrorKind::PermissionDenied => "run it as root, or give yourself the right to open it",
        _ => "is the module tun there?",
    };
    format!("{error}; {remedy}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_missing_comes_with_a_remedy() {
        let report = check();
        assert!(report.items.len() >= 8);
        for item in report.missing() {
            let why = item.missing.as_deref().unwrap_or_default();
            assert!(why.len() > 10, "{item:?}");
        }
        // The tests that need privileges depend on this.
        eprintln!("{report}");
    }
}
