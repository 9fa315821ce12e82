//! Listings of folders: kept while a folder does not change, and read one at a time.

use std::collections::VecDeque;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use carob::ContentFormat;
use carob_proto::link_format::LinkWriter;

use super::files::format_of;
use super::folder::{Entry, Folder, PathError};

/// Listings kept at most; at the limit the oldest is dropped.
const KEPT: usize = 16;
/// Time after which a listing is read again even if the folder's time of change is the same: sizes of
/// files change without it.
const LIFETIME: Duration = Duration::from_secs(10);
/// The same for a folder that changed just before it was read: the next change may have the same
/// time.
const LIFETIME_RECENT: Duration = Duration::from_secs(1);

/// Listings of folders as links (RFC 6690 2).
#[derive(Debug, Default)]
pub(super) struct Listings {
    /// Held while a folder is read.
    pub(super) reading: tokio::sync::Mutex<()>,
    /// Oldest first.
    kept: Mutex<VecDeque<Listing>>,
    /// Changes by this server, which invalidate earlier reads.
    changes: AtomicU64,
    /// Folders read.
    reads: AtomicU64,
}

#[derive(Debug)]
struct Listing {
    path: Vec<Vec<u8>>,
    folder: Stamp,
    links: Bytes,
    read: Instant,
    lifetime: Duration,
}

/// Identity of a folder and the times of its last changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    identity: [u64; 2],
    changes: [i64; 4],
}

impl Stamp {
    fn of(folder: &Metadata) -> Self {
        Self {
            identity: [folder.dev(), folder.ino()],
            changes: [
                folder.mtime(),
                folder.mtime_nsec(),
                folder.ctime(),
                folder.ctime_nsec(),
            ],
        }
    }
}

impl Listings {
    /// The listing of the folder at a path, if it is kept and still right.
    pub(super) fn kept(&self, folder: &Folder, path: &[&[u8]]) -> Result<Option<Bytes>, PathError> {
        let stamp = Stamp::of(&folder.metadata()?);
        let kept = self.lock();
        let listing = kept.iter().find(|listing| listing.path == path);
        let valid = listing
            .filter(|listing| listing.folder == stamp && listing.read.elapsed() < listing.lifetime);
        Ok(valid.map(|listing| listing.links.clone()))
    }

    /// The listing of the folder at a path, read unless it is kept.
    pub(super) fn read(&self, folder: &Folder, path: &[&[u8]]) -> Result<Bytes, PathError> {
        if let Some(kept) = self.kept(folder, path)? {
            return Ok(kept);
        }
        let changes = self.changes.load(Ordering::Acquire);
        let metadata = folder.metadata()?;
        let read = Instant::now();
        let links: Bytes = links(&folder.entries()?, path).into();
        self.reads.fetch_add(1, Ordering::Relaxed);
        let since = SystemTime::now().duration_since(metadata.modified()?);
        let recent = since.is_ok_and(|since| since < LIFETIME_RECENT);
        let listing = Listing {
            path: path.iter().map(|segment| segment.to_vec()).collect(),
            folder: Stamp::of(&metadata),
            links: links.clone(),
            read,
            lifetime: if recent { LIFETIME_RECENT } else { LIFETIME },
        };
        let mut kept = self.lock();
        kept.retain(|other| other.path != listing.path);
        if self.changes.load(Ordering::Acquire) == changes {
            if kept.len() == KEPT {
                kept.pop_front();
            }
            kept.push_back(listing);
        }
        Ok(links)
    }

    /// Forgets the listing of a folder that this server has changed.
    pub(super) fn changed(&self, folder: &Metadata) {
        let mut kept = self.lock();
        self.changes.fetch_add(1, Ordering::AcqRel);
        let identity = Stamp::of(folder).identity;
        kept.retain(|listing| listing.folder.identity != identity);
    }

    /// Folders read so far.
    #[cfg(test)]
    pub(super) fn reads(&self) -> u64 {
        self.reads.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Listing>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The entries of the folder at a path as links.
fn links(entries: &[Entry], path: &[&[u8]]) -> String {
    let mut links = LinkWriter::new();
    for Entry { name, size } in entries {
        let path = path.iter().copied().chain([name.as_bytes()]);
        match size {
            Some(size) => links
                .path(path)
                .number("ct", format_of(name).0.into())
                .number("sz", *size),
            // A folder's path ends with a slash, so that relative references start within it.
            None => links
                .path(path.chain([&b""[..]]))
                .number("ct", ContentFormat::LINK_FORMAT.0.into()),
        };
    }
    links.finish()
}
