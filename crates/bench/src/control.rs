//! State shared by the threads of a load and the one that watches them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::source_ports::SourcePorts;
use super::window::Probe;

/// Shared by all threads of a load.
#[derive(Debug)]
pub(super) struct Control {
    stop: AtomicBool,
    alive: AtomicBool,
    progress: Vec<Progress>,
    pub(super) source_ports: SourcePorts,
    /// The server's process, if it is to be looked at.
    server_pid: Option<u32>,
}

/// Progress of a thread, the warm-up included. Written by that thread alone.
#[derive(Debug, Default)]
pub(super) struct Progress {
    finished: AtomicU64,
    errors: AtomicU64,
}

impl Control {
    pub(super) fn new(threads: usize, source_ports: SourcePorts, server_pid: Option<u32>) -> Self {
        Self {
            stop: AtomicBool::new(false),
            alive: AtomicBool::new(false),
            progress: (0..threads).map(|_| Progress::default()).collect(),
            source_ports,
            server_pid,
        }
    }

    /// The probe of the server's process, for the first thread only.
    pub(super) fn probe(self: &Arc<Self>, thread: usize) -> Option<Probe> {
        let pid = self.server_pid.filter(|_| thread == 0)?;
        let control = Arc::clone(self);
        Some(Probe { pid, control })
    }

    /// Signals the threads to stop.
    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// The server has answered something.
    pub(super) fn note_life(&self) {
        if !self.is_alive() {
            self.alive.store(true, Ordering::Relaxed);
        }
    }

    /// Returns true if the server has ever answered.
    pub(super) fn is_alive(&self) -> bool {
        self.alive.load(Ordering::Relaxed)
    }

    /// Publishes the progress of a thread.
    pub(super) fn publish(&self, thread: usize, finished: u64, errors: u64) {
        if let Some(progress) = self.progress.get(thread) {
            progress.finished.store(finished, Ordering::Relaxed);
            progress.errors.store(errors, Ordering::Relaxed);
        }
    }

    /// Requests that have ended, and errors among them, of all threads.
    pub(super) fn progress(&self) -> (u64, u64) {
        self.progress.iter().fold((0, 0), |(finished, errors), of| {
            (
                finished + of.finished.load(Ordering::Relaxed),
                errors + of.errors.load(Ordering::Relaxed),
            )
        })
    }
}
