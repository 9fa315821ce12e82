//! Files held open for block-wise transfers, so that a transfer reads one state of a file to its end
//! while others replace it.

use std::collections::VecDeque;
use std::fs::File;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Time without a request after which a transfer is given up.
const IDLE: Duration = Duration::from_secs(60);

/// Files held open, one for each peer and path. One source holds at most half. At a limit the file
/// used longest ago is closed; its transfer goes on with the newest state.
#[derive(Debug)]
pub(super) struct Snapshots {
    limit: usize,
    /// Used longest ago first.
    held: Mutex<VecDeque<Snapshot>>,
}

#[derive(Debug)]
struct Snapshot {
    peer: SocketAddr,
    path: Vec<Vec<u8>>,
    file: Arc<File>,
    used: Instant,
}

impl Snapshots {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit,
            held: Mutex::default(),
        }
    }

    /// Holds the file that a transfer begins with.
    pub(super) fn begin(&self, peer: SocketAddr, path: &[&[u8]], file: Arc<File>, now: Instant) {
        let mut held = self.lock(now);
        held.retain(|other| !other.is(peer, path));
        let of_source = |snapshot: &Snapshot| snapshot.peer.ip() == peer.ip();
        let share = self.limit.div_ceil(2);
        if held.iter().filter(|other| of_source(other)).count() >= share
            && let Some(oldest) = held.iter().position(of_source)
        {
            held.remove(oldest);
        }
        if held.len() >= self.limit {
            held.pop_front();
        }
        if self.limit > 0 {
            held.push_back(Snapshot {
                peer,
                path: path.iter().map(|segment| segment.to_vec()).collect(),
                file,
                used: now,
            });
        }
    }

    /// The file that a transfer began with, if it is held.
    pub(super) fn of(&self, peer: SocketAddr, path: &[&[u8]], now: Instant) -> Option<Arc<File>> {
        let mut held = self.lock(now);
        let at = held.iter().position(|other| other.is(peer, path))?;
        let mut snapshot = held.remove(at)?;
        snapshot.used = now;
        let file = Arc::clone(&snapshot.file);
        held.push_back(snapshot);
        Some(file)
    }

    /// Closes the file of a transfer that has its last block.
    pub(super) fn end(&self, peer: SocketAddr, path: &[&[u8]], now: Instant) {
        self.lock(now).retain(|other| !other.is(peer, path));
    }

    /// Those that are not idle.
    fn lock(&self, now: Instant) -> MutexGuard<'_, VecDeque<Snapshot>> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        while held
            .front()
            .is_some_and(|oldest| now.saturating_duration_since(oldest.used) > IDLE)
        {
            held.pop_front();
        }
        held
    }
}

impl Snapshot {
    fn is(&self, peer: SocketAddr, path: &[&[u8]]) -> bool {
        self.peer == peer && self.path == path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(host: u8, port: u16) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, host], port))
    }

    #[test]
    fn snapshots_are_limited_in_total_and_per_source() {
        let now = Instant::now();
        let file = Arc::new(File::open("/dev/null").unwrap());
        let snapshots = Snapshots::new(4);
        let path: &[&[u8]] = &[b"a"];
        let begin = |host, port| snapshots.begin(peer(host, port), path, file.clone(), now);
        let has = |host, port| snapshots.of(peer(host, port), path, now).is_some();
        begin(1, 1);
        begin(2, 1);
        begin(2, 2);
        begin(2, 3);
        assert!(has(1, 1) && !has(2, 1) && has(2, 2) && has(2, 3));
        begin(3, 1);
        begin(4, 1);
        assert!(!has(1, 1), "the one used longest ago made room");
        assert_eq!(Arc::strong_count(&file), 5);
        snapshots.end(peer(3, 1), path, now);
        assert!(!has(3, 1) && has(4, 1));
        let later = now + IDLE + Duration::from_secs(1);
        assert!(snapshots.of(peer(4, 1), path, later).is_none());
        assert_eq!(Arc::strong_count(&file), 1, "all were idle");
    }
}
