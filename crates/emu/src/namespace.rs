//! Network namespaces without names.
//!
//! A namespace lives as long as something refers to it: a descriptor, a socket, a device's packet
//! queue. One that is created here has no other reference, so nothing is left behind however the
//! process ends, and nothing appears in `/run/netns`.

use std::fs::File;
use std::io;
use std::panic::resume_unwind;
use std::thread;

use nix::sched::{CloneFlags, setns, unshare};

use crate::Error;

/// The remedy for missing privileges.
const REMEDY: &str = "run it as root or with CAP_SYS_ADMIN and CAP_NET_ADMIN";

/// A network namespace whose only device is a disabled loopback.
#[derive(Debug)]
pub struct Namespace {
    handle: File,
    name: &'static str,
}

impl Namespace {
    /// Creates a namespace; `name` is for messages only.
    pub fn create(name: &'static str) -> Result<Self, Error> {
        let make = || -> io::Result<File> {
            unshare(CloneFlags::CLONE_NEWNET)?;
            File::open("/proc/thread-self/ns/net")
        };
        // The thread that leaves the program's namespace ends at once.
        let handle = thread::scope(|scope| scope.spawn(make).join())
            .unwrap_or_else(|panic| resume_unwind(panic))
            .map_err(|error| Error::system("make a network namespace", error, REMEDY))?;
        Ok(Self { handle, name })
    }

    /// Runs `work` in the namespace, on a new thread.
    ///
    /// A socket belongs to the namespace in which it is created, and may be used anywhere. A
    /// runtime created inside (tokio's on the current thread) opens all its sockets there.
    pub fn enter<R: Send>(&self, work: impl FnOnce() -> R + Send) -> Result<R, Error> {
        let inside = || {
            setns(&self.handle, CloneFlags::CLONE_NEWNET)?;
            Ok(work())
        };
        thread::scope(|scope| scope.spawn(inside).join())
            .unwrap_or_else(|panic| resume_unwind(panic))
            .map_err(|error: nix::Error| {
                Error::system(
                    format!("enter the {}'s namespace", self.name),
                    error,
                    REMEDY,
                )
            })
    }

    /// Its name in messages.
    pub fn name(&self) -> &'static str {
        self.name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_has_only_a_loopback_and_ends_with_its_handle() {
        let Some(()) = crate::testing::rights() else {
            return;
        };
        let namespace = Namespace::create("test").unwrap();
        let devices = namespace
            .enter(|| std::fs::read_to_string("/proc/thread-self/net/dev"))
            .unwrap()
            .unwrap();
        let names: Vec<_> = devices
            .lines()
            .skip(2)
            .filter_map(|line| Some(line.split_once(':')?.0.trim()))
            .collect();
        assert_eq!(names, ["lo"]);
    }

    #[test]
    fn work_inside_does_not_move_the_caller() {
        let Some(()) = crate::testing::rights() else {
            return;
        };
        let which = || std::fs::read_link("/proc/thread-self/ns/net").unwrap();
        let before = which();
        let namespace = Namespace::create("test").unwrap();
        let inside = namespace.enter(which).unwrap();
        assert_ne!(inside, before);
        assert_eq!(which(), before);
    }
}
