//! Files below one folder, and never outside it.
//!
//! Every step down is taken from an open folder and refuses links, so that neither `..` nor a
//! symbolic link, however it came to be there, leads elsewhere; nor does one that appears while
//! we walk.
//!
//! Listings of folders: kept while a folder does not change, and read one at a time.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use carob::server::Refusal;
use carob::{ContentFormat, ETag};
use carob_proto::link_format::LinkWriter;
use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat};
use nix::sys::stat::{Mode, SFlag, fstatat};

use super::files::format_of;
use super::store::Store;
use super::upload::PARTIAL;

/// Entries listed of one folder at most.
const ENTRIES: usize = 4_096;
/// Folders above a file at most.
pub(super) const DEPTH: usize = 32;

/// An open folder, with the settings and tables of all folders served.
#[derive(Clone, Debug)]
pub(super) struct Folder {
    pub(super) descriptor: Arc<OwnedFd>,
    pub(super) store: Arc<Store>,
}

/// Target of a path.
#[derive(Debug)]
pub(super) enum Found {
    File(File),
    Folder(Folder),
}

/// A place in a folder for a file, existing or not.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) folder: Folder,
    pub(super) name: Box<OsStr>,
}

/// An entry of a folder.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Entry {
    pub(super) name: String,
    /// Size in bytes; none for a folder.
    pub(super) size: Option<u64>,
}

/// Why a path leads nowhere.
#[derive(Debug)]
pub(super) enum PathError {
    /// A target outside the folder, or one that is neither file nor folder.
    Forbidden,
    NotFound,
    /// The request is refused with a specific response.
    Refused(Refusal),
    Failed(io::Error),
}

impl From<Errno> for PathError {
    fn from(error: Errno) -> Self {
        match error {
            Errno::ENOENT | Errno::ENOTDIR | Errno::ENAMETOOLONG => Self::NotFound,
            // A refused link returns ELOOP.
            Errno::ELOOP | Errno::EACCES | Errno::EPERM | Errno::ENXIO | Errno::EISDIR => {
                Self::Forbidden
            }
            other => Self::Failed(other.into()),
        }
    }
}

impl From<io::Error> for PathError {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

/// Flags of every file and folder that is opened to be read: symbolic links are refused.
pub(super) const READ: OFlag = OFlag::O_RDONLY
    .union(OFlag::O_NOFOLLOW)
    .union(OFlag::O_CLOEXEC);

/// Entity tag of a file's state: time of change, size and identity, mixed.
pub(super) fn etag(metadata: &Metadata) -> ETag {
    let words = [
        metadata.mtime().cast_unsigned(),
        metadata.mtime_nsec().cast_unsigned(),
        metadata.len(),
        metadata.ino(),
    ];
    ETag::of(words.map(u64::to_be_bytes).as_flattened())
}

impl Folder {
    /// Opens the folder that is to be served. Its own path may go through links.
    pub(super) fn open(path: &Path, store: Store) -> io::Result<Self> {
        let file = File::open(path)?;
        if !file.metadata()?.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        Ok(Self {
            descriptor: Arc::new(file.into()),
            store: Arc::new(store),
        })
    }

    /// The same settings and tables with another folder.
    fn with(&self, descriptor: OwnedFd) -> Self {
        Self {
            descriptor: Arc::new(descriptor),
            store: Arc::clone(&self.store),
        }
    }

    /// A segment of a path as a file's name, unless it could mean anything else, is no text (RFC 7252
    /// 5.10.1) or is hidden.
    fn name<'s>(&self, segment: &'s [u8]) -> Result<&'s OsStr, PathError> {
        let special = segment.is_empty() || segment == b"." || segment == b"..";
        let is_text = std::str::from_utf8(segment).is_ok();
        if special || !is_text || segment.iter().any(|byte| matches!(byte, b'/' | b'\\' | 0)) {
            return Err(PathError::Forbidden);
        }
        if !self.shows(segment) {
            return Err(PathError::NotFound);
        }
        Ok(OsStr::from_bytes(segment))
    }

    /// Returns true if a name is visible to clients: dotfiles by option only, uploads in progress never.
    fn shows(&self, name: &[u8]) -> bool {
        let hidden = name.starts_with(b".") && !self.store.hidden;
        !hidden && !name.starts_with(PARTIAL.as_bytes())
    }

    /// The folder of this name in this one.
    pub(super) fn step(&self, name: &OsStr) -> Result<Self, PathError> {
        let flags = READ | OFlag::O_DIRECTORY;
        // Linux returns ENOTDIR for a link that it may not follow; either way nothing is there.
        let next = openat(self.descriptor.as_fd(), name, flags, Mode::empty())?;
        Ok(self.with(next))
    }

    /// The folder and the name that the segments of a path lead to; none for the folder itself.
    fn walk(&self, segments: &[&[u8]]) -> Result<Option<Place>, PathError> {
        // "a/" has an empty segment at its end; so has "/".
        let segments = match segments {
            [rest @ .., b""] => rest,
            all => all,
        };
        let Some((last, above)) = segments.split_last() else {
            return Ok(None);
        };
        if above.len() > DEPTH {
            return Err(PathError::NotFound);
        }
        let mut folder = self.clone();
        for segment in above {
            folder = folder.step(folder.name(segment)?)?;
        }
        let name = folder.name(last)?.into();
        Ok(Some(Place { folder, name }))
    }

    /// Finds the target of a path.
    pub(super) fn find(&self, segments: &[&[u8]]) -> Result<Found, PathError> {
        let Some(Place { folder, name }) = self.walk(segments)? else {
            return Ok(Found::Folder(self.clone()));
        };
        // Opening a pipe would wait for its other end.
        let flags = READ | OFlag::O_NONBLOCK;
        let file = File::from(openat(
            folder.descriptor.as_fd(),
            &*name,
            flags,
            Mode::empty(),
        )?);
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            Ok(Found::Folder(folder.with(file.into())))
        } else if metadata.is_file() {
            Ok(Found::File(file))
        } else {
            Err(PathError::Forbidden)
        }
    }

    /// The place a path names, for writing; the folder it is in must be there.
    pub(super) fn place(&self, segments: &[&[u8]]) -> Result<Place, PathError> {
        self.walk(segments)?.ok_or(PathError::Forbidden)
    }

    /// Its files and folders by name, the first [`ENTRIES`] that the system gives.
    pub(super) fn entries(&self) -> Result<Vec<Entry>, PathError> {
        let mut entries = Vec::new();
        for entry in self.read()?.iter() {
            if entries.len() == ENTRIES {
                break;
            }
            let entry = entry?;
            let Ok(name) = entry.file_name().to_str() else {
                continue;
            };
            if matches!(name, "." | "..") || !self.shows(name.as_bytes()) {
                continue;
            }
            let folder = self.descriptor.as_fd();
            let Ok(status) = fstatat(folder, name, AtFlags::AT_SYMLINK_NOFOLLOW) else {
                continue;
            };
            let size = match SFlag::from_bits_truncate(status.st_mode) & SFlag::S_IFMT {
                SFlag::S_IFREG => Some(u64::try_from(status.st_size).unwrap_or_default()),
                SFlag::S_IFDIR => None,
                _ => continue,
            };
            entries.push(Entry {
                name: name.to_owned(),
                size,
            });
        }
        entries.sort();
        Ok(entries)
    }

    /// Its entries as the system gives them.
    pub(super) fn read(&self) -> Result<Dir, PathError> {
        let flags = READ | OFlag::O_DIRECTORY;
        // Reading moves a position that clones of a descriptor share, so this needs its own.
        let own = openat(self.descriptor.as_fd(), ".", flags, Mode::empty())?;
        Ok(Dir::from_fd(own)?)
    }

    /// Its identity and the times of its last changes.
    pub(super) fn metadata(&self) -> Result<Metadata, PathError> {
        Ok(File::from(self.descriptor.try_clone()?).metadata()?)
    }
}

impl Place {
    /// The file that is there now, if one is.
    pub(super) fn existing(&self) -> Result<Option<File>, PathError> {
        let flags = READ | OFlag::O_NONBLOCK;
        match openat(
            self.folder.descriptor.as_fd(),
            &*self.name,
            flags,
            Mode::empty(),
        ) {
            Ok(file) => {
                let file = File::from(file);
                if file.metadata()?.is_file() {
                    Ok(Some(file))
                } else {
                    Err(PathError::Forbidden)
                }
            }
            Err(Errno::ENOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::limits::FileLimits;

    /// A folder with a file and a link that leads out, below one with a secret.
    fn tree(name: &str) -> (std::path::PathBuf, Folder) {
        let root = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(root.join("served/sub")).unwrap();
        fs::write(root.join("secret"), "s").unwrap();
        fs::write(root.join("served/sub/file"), "f").unwrap();
        symlink("../secret", root.join("served/link")).unwrap();
        symlink("..", root.join("served/up")).unwrap();
        let folder = Folder::open(&root.join("served"), Store::default()).unwrap();
        (root, folder)
    }

    #[test]
    fn no_path_leads_out_of_the_folder() {
        let (root, folder) = tree("carob-folder-out");
        let paths: &[&[&[u8]]] = &[
            &[b"..", b"secret"],
            &[b"sub", b"..", b"..", b"secret"],
            &[b"../secret"],
            &[b"link"],
            &[b"up", b"secret"],
            &[b"", b"etc", b"passwd"],
            &[b"sub\0"],
            &[b"\xff"],
        ];
        for path in paths {
            assert!(folder.find(path).is_err(), "{path:?}");
            assert!(
                folder
                    .place(path)
                    .and_then(|place| place.existing())
                    .is_err(),
                "{path:?}"
            );
        }
        assert!(matches!(
            folder.find(&[b"sub", b"file"]),
            Ok(Found::File(_))
        ));
        assert!(matches!(folder.find(&[b"sub", b""]), Ok(Found::Folder(_))));
        let names: Vec<_> = folder
            .entries()
            .unwrap()
            .into_iter()
            .map(|entry| entry.name)
            .collect();
        assert_eq!(names, ["sub"], "links are not listed");
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn dotfiles_are_listed_only_on_request() {
        let (root, folder) = tree("carob-folder-hidden");
        fs::create_dir(root.join("served/.git")).unwrap();
        fs::write(root.join("served/.git/config"), "c").unwrap();
        fs::write(root.join("served/.env"), "e").unwrap();
        fs::write(root.join("served/.carob-upload-1"), "u").unwrap();
        let paths: &[&[&[u8]]] = &[&[b".env"], &[b".git", b"config"], &[b".git", b""]];
        for path in paths {
            assert!(matches!(folder.find(path), Err(PathError::NotFound)));
            assert!(matches!(folder.place(path), Err(PathError::NotFound)));
        }
        let store = Store::new(true, FileLimits::default());
        let folder = Folder::open(&root.join("served"), store).unwrap();
        for path in paths {
            assert!(folder.find(path).is_ok(), "{path:?}");
        }
        for wrong in [&[&b".carob-upload-1"[..]][..], &[b".."], &[b"."]] {
            assert!(folder.find(wrong).is_err(), "{wrong:?}");
        }
        let entries = folder.entries().unwrap().into_iter();
        let names: Vec<_> = entries.map(|entry| entry.name).collect();
        assert_eq!(names, [".env", ".git", "sub"]);
        fs::remove_dir_all(root).unwrap();
    }
}
