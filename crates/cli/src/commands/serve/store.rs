//! Settings and tables of the files served: locks of folders, bytes of uploads under way, listings
//! and snapshots.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{File, Metadata};
use std::io;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::sync::Semaphore;

use super::listing::Listings;
use super::snapshot::Snapshots;
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
}
