//! Settings and tables of the files served: locks of folders, bytes of uploads under way, listings
//! and snapshots.
//!
//! Files held open for block-wise transfers, so that a transfer reads one state of a file to its end
//! while others replace it.

use std::collections::{BTreeMap, VecDeque};
use std::fs::{File, Metadata};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::MetadataExt as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use std::{fmt, io};

use tokio::sync::Semaphore;

use super::folder::Listings;
use crate::limits::FileLimits;

/// Locks that all folders share by their number.
const LOCKS: u64 = 64;
/// Blocking threads that work on files at once, at most.
const THREADS: usize = 16;

/// Writes a file or folder through to the disk.
type Sync = Box<dyn Fn(&File) -> io::Result<()> + Send + std::marker::Sync>;

/// Settings and tables of all folders served.
pub(super) struct Store {
    /// Dotfiles are served like other files.
    pub(super) hidden: bool,
    pub(super) quota: Arc<DiskQuota>,
    pub(super) listings: Listings,
    pub(super) snapshots: Snapshots,
    /// Permits of blocking threads.
    pub(super) threads: Semaphore,
    /// Flushes a file or folder to the device (fsync).
    pub(super) sync: Sync,
    pub(super) locks: [Mutex<()>; LOCKS as usize],
    /// Time of the last change that was given to a file, in nanoseconds since 1970.
    pub(super) last_change: AtomicU64,
}

#[cfg(test)]
impl Default for Store {
    fn default() -> Self {
        Self::new(false, FileLimits::default())
    }
}

impl Store {
    /// Empty tables with these limits.
    pub(super) fn new(hidden: bool, limits: FileLimits) -> Self {
        Self {
            hidden,
            quota: Arc::new(DiskQuota::new(limits.upload_disk_bytes as u64)),
            listings: Listings::default(),
            snapshots: Snapshots::new(limits.snapshots),
            threads: Semaphore::new(THREADS),
            sync: Box::new(File::sync_all),
            locks: [const { Mutex::new(()) }; LOCKS as usize],
            last_change: AtomicU64::new(0),
        }
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("hidden", &self.hidden)
            .finish_non_exhaustive()
    }
}

impl Store {
    /// Keeps all others from replacing or removing files of a folder.
    pub(super) fn lock(&self, folder: &Metadata) -> MutexGuard<'_, ()> {
        let lock = folder.ino().wrapping_add(folder.dev()) % LOCKS;
        self.locks[lock as usize]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// The time of day as a time of change that no other file of this server has, so that entity
    /// tags differ even if the system's times are coarse and numbers of files come again.
    pub(super) fn time_of_change(&self) -> Duration {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = u64::try_from(now.unwrap_or_default().as_nanos()).unwrap_or(u64::MAX >> 1);
        let later = |last: u64| Some(now.max(last + 1));
        let last = (self.last_change).fetch_update(Ordering::Relaxed, Ordering::Relaxed, later);
        let last = last.unwrap_or_else(|last| last);
        Duration::from_nanos(now.max(last + 1))
    }
}

/// Bytes that uploads under way hold on disk, in all and by source. One source may hold half.
#[derive(Debug)]
pub(super) struct DiskQuota {
    limit: u64,
    /// Bytes held in total and by source: at most one entry for each upload in progress.
    held: Mutex<(u64, BTreeMap<IpAddr, u64>)>,
}

/// Bytes that one upload holds, given back with the value.
#[derive(Debug)]
pub(super) struct Held {
    quota: Arc<DiskQuota>,
    source: IpAddr,
    bytes: u64,
}

impl DiskQuota {
    pub(super) fn new(limit: u64) -> Self {
        Self {
            limit,
            held: Mutex::default(),
        }
    }

    /// Nothing yet for an upload of this source.
    pub(super) fn begin(self: &Arc<Self>, source: IpAddr) -> Held {
        Held {
            quota: Arc::clone(self),
            source,
            bytes: 0,
        }
    }
}

impl Held {
    /// Adds to the held bytes, within the limit.
    #[must_use]
    pub(super) fn grow(&mut self, bytes: u64) -> bool {
        let mut held = self
            .quota
            .held
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let (all, sources) = &mut *held;
        let of_source = sources.get(&self.source).copied().unwrap_or_default();
        let limit = self.quota.limit;
        if *all + bytes > limit || of_source + bytes > limit.div_ceil(2) {
            return false;
        }
        *all += bytes;
        sources.insert(self.source, of_source + bytes);
        self.bytes += bytes;
        true
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut held = self
            .quota
            .held
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let (all, sources) = &mut *held;
        *all -= self.bytes;
        if let Some(of_source) = sources.get_mut(&self.source) {
            *of_source -= self.bytes;
            if *of_source == 0 {
                sources.remove(&self.source);
            }
        }
    }
}

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

    #[test]
    fn upload_bytes_are_limited_in_total_and_per_source() {
        let quota = Arc::new(DiskQuota::new(100));
        let [one, two, three] = [1, 2, 3].map(|n| IpAddr::from([192, 0, 2, n]));
        let (mut first, mut second) = (quota.begin(one), quota.begin(one));
        assert!(first.grow(30) && second.grow(20));
        assert!(!second.grow(1), "half is for others");
        let mut other = quota.begin(two);
        assert!(other.grow(45));
        let mut third = quota.begin(three);
        assert!(third.grow(5) && !third.grow(1), "all are held");
        drop((first, second));
        assert!(third.grow(45));
        drop((other, third));
        let held = quota.held.lock().unwrap();
        assert_eq!(*held, (0, BTreeMap::new()));
    }

    #[test]
    fn no_two_changes_have_one_time() {
        let store = Store::default();
        let mut times: Vec<_> = (0..10_000).map(|_| store.time_of_change()).collect();
        assert!(times.is_sorted());
        times.dedup();
        assert_eq!(times.len(), 10_000);
    }

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
