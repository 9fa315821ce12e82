//! Files being written: each takes its place at once, when it is complete and on the disk.

use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io::{self, Write as _};
use std::net::IpAddr;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::time::Duration;

use carob::ETag;
use carob::server::Refusal;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat, renameat};
use nix::sys::stat::{Mode, SFlag, fchmod, fstatat, futimens};
use nix::sys::time::TimeSpec;
use nix::unistd::{UnlinkatFlags, linkat, unlinkat};

use super::folder::{DEPTH, Folder, PathError, Place, READ, etag};
use super::store::Held;

/// Names of files still being written begin with this; they are not there for clients.
pub(super) const PARTIAL: &str = ".carob-upload-";
/// Permissions that a file takes over from the one it replaces.
const PERMISSIONS: u32 = 0o777;
/// Permissions of a new file, of which the umask takes some away.
const OF_NEW: u32 = 0o644;
/// Attempts to replace a file while other programs create and remove it.
const ATTEMPTS: usize = 8;
/// Entries that the search for uploads of an earlier run looks at.
const SEARCHED: usize = 1_000_000;

/// A file being written, removed unless it is completed.
#[derive(Debug)]
pub(super) struct Partial {
    place: Place,
    temporary: String,
    file: File,
    /// Permissions that were taken over.
    mode: Option<u32>,
    held: Held,
    complete: bool,
}

impl Place {
    /// Begins a file for this source that will take this place when it is complete.
    ///
    /// Folders and devices cannot be overwritten.
    pub(super) fn begin(self, source: IpAddr) -> Result<Partial, PathError> {
        let mode = match self.existing()? {
            Some(file) => Some(permissions(&file.metadata()?)),
            None => None,
        };
        let random = getrandom::u64().map_err(io::Error::from)?;
        let temporary = format!("{PARTIAL}{random:016x}");
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_CLOEXEC;
        // Readable by its owner only, as the file that it replaces may be.
        let created = Mode::from_bits_truncate(mode.map_or(OF_NEW, |_| 0o600) as _);
        let folder = self.folder.descriptor.as_fd();
        let file = File::from(openat(folder, temporary.as_str(), flags, created)?);
        let held = self.folder.store.quota.begin(source);
        let partial = Partial {
            place: self,
            temporary,
            file,
            mode,
            held,
            complete: false,
        };
        // The lock ends with the process, and shows other servers of the folder that it lives.
        // Systems without locks have none to look for either.
        let _ = partial.file.try_lock();
        if let Some(mode) = mode {
            partial.set_mode(mode)?;
        }
        Ok(partial)
    }

    /// Removes the file if it is in a state that `may` accepts; whether there was one.
    pub(super) fn remove(&self, may: impl Fn(Option<ETag>) -> bool) -> Result<bool, PathError> {
        let folder = self.folder.metadata()?;
        let lock = self.folder.store.lock(&folder);
        let existing = self.existing()?;
        check(existing.as_ref(), may)?;
        if existing.is_none() {
            return Ok(false);
        }
        let name = &*self.name;
        match unlinkat(
            self.folder.descriptor.as_fd(),
            name,
            UnlinkatFlags::NoRemoveDir,
        ) {
            Ok(()) => {}
            Err(Errno::ENOENT) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
        self.folder.store.listings.changed(&folder);
        drop(lock);
        self.folder.sync()?;
        Ok(true)
    }
}

impl Partial {
    /// Adds to the file.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), PathError> {
        if !self.held.grow(bytes.len() as u64) {
            let refusal = Refusal::service_unavailable("uploads under way fill the space for them");
            let refusal = refusal.with_max_age(Duration::from_secs(60));
            return Err(PathError::Refused(refusal));
        }
        Ok(self.file.write_all(bytes)?)
    }

    /// Replaces the target atomically, if `may` accepts its current state
    /// (If-Match, If-None-Match: RFC 7252 5.10.8). Returns true if there was one.
    ///
    /// The file is on the disk before it takes its place, and the folder before this returns.
    pub(super) fn complete(
        mut self,
        may: impl Fn(Option<ETag>) -> bool,
    ) -> Result<bool, PathError> {
        let store = &self.place.folder.store;
        let time = TimeSpec::from_duration(store.time_of_change());
        futimens(&self.file, &time, &time)?;
        (store.sync)(&self.file)?;
        let replaced = self.replace(may)?;
        self.complete = true;
        self.place.folder.sync()?;
        Ok(replaced)
    }

    /// Looks at the place and takes it, with no other writer of this server in between.
    fn replace(&self, may: impl Fn(Option<ETag>) -> bool) -> Result<bool, PathError> {
        let folder = &self.place.folder;
        let metadata = folder.metadata()?;
        let _lock = folder.store.lock(&metadata);
        let done = |replaced| {
            folder.store.listings.changed(&metadata);
            Ok(replaced)
        };
        for _ in 0..ATTEMPTS {
            let existing = self.place.existing()?;
            check(existing.as_ref(), &may)?;
            let Some(existing) = existing else {
                match rename_new(folder.descriptor.as_fd(), &self.temporary, &self.place.name) {
                    Ok(()) => return done(false),
                    // Another program was faster; the conditions may not hold any more.
                    Err(Errno::EEXIST) => continue,
                    Err(error) => return Err(error.into()),
                }
            };
            let mode = permissions(&existing.metadata()?);
            if self.mode != Some(mode) {
                self.set_mode(mode)?;
            }
            let descriptor = folder.descriptor.as_fd();
            renameat(
                descriptor,
                self.temporary.as_str(),
                descriptor,
                &*self.place.name,
            )?;
            return done(true);
        }
        Err(io::Error::other("other programs create and remove the file").into())
    }

    fn set_mode(&self, mode: u32) -> Result<(), PathError> {
        Ok(fchmod(&self.file, Mode::from_bits_truncate(mode as _))?)
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if !self.complete {
            let folder = self.place.folder.descriptor.as_fd();
            // Should this fail, the file stays, under a name that clients cannot see, until the
            // server starts again.
            let _ = unlinkat(folder, self.temporary.as_str(), UnlinkatFlags::NoRemoveDir);
        }
    }
}

impl Folder {
    /// Makes changes of names in it survive a loss of power.
    fn sync(&self) -> Result<(), PathError> {
        let folder = File::from(self.descriptor.try_clone()?);
        match (self.store.sync)(&folder) {
            // Some file systems cannot do this with folders.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
            result => Ok(result?),
        }
    }

    /// Removes uploads that an earlier run left, here and below; their number.
    ///
    /// Files of other running servers are locked, and stay.
    pub(super) fn remove_leftovers(&self) -> Result<usize, PathError> {
        let mut removed = 0;
        let mut searched = 0;
        let mut folders = vec![(self.clone(), 0)];
        while let Some((folder, depth)) = folders.pop() {
            for entry in folder.read()?.iter() {
                let entry = entry?;
                let name = OsStr::from_bytes(entry.file_name().to_bytes());
                searched += 1;
                if searched > SEARCHED {
                    return Ok(removed);
                }
                if matches!(name.as_bytes(), b"." | b"..") {
                    continue;
                }
                if name.as_bytes().starts_with(PARTIAL.as_bytes()) {
                    removed += usize::from(remove_leftover(&folder, name));
                } else if depth < DEPTH
                    && is_folder(&folder, name)
                    && let Ok(below) = folder.step(name)
                {
                    folders.push((below, depth + 1));
                }
            }
        }
        Ok(removed)
    }
}

fn is_folder(folder: &Folder, name: &OsStr) -> bool {
    let status = fstatat(
        folder.descriptor.as_fd(),
        name,
        AtFlags::AT_SYMLINK_NOFOLLOW,
    );
    status.is_ok_and(|status| {
        SFlag::from_bits_truncate(status.st_mode) & SFlag::S_IFMT == SFlag::S_IFDIR
    })
}

/// Removes a file that no running server writes; whether it did.
fn remove_leftover(folder: &Folder, name: &OsStr) -> bool {
    let descriptor = folder.descriptor.as_fd();
    let opened: Result<OwnedFd, Errno> =
        openat(descriptor, name, READ | OFlag::O_NONBLOCK, Mode::empty());
    let Ok(file) = opened.map(File::from) else {
        return false;
    };
    let is_file = file.metadata().is_ok_and(|metadata| metadata.is_file());
    is_file
        && file.try_lock().is_ok()
        && unlinkat(descriptor, name, UnlinkatFlags::NoRemoveDir).is_ok()
}

/// 4.12 unless a state is accepted.
fn check(existing: Option<&File>, may: impl Fn(Option<ETag>) -> bool) -> Result<(), PathError> {
    let state = match existing {
        Some(file) => Some(etag(&file.metadata()?)),
        None => None,
    };
    if may(state) {
        Ok(())
    } else {
        Err(PathError::Refused(Refusal::precondition_failed("")))
    }
}

fn permissions(metadata: &Metadata) -> u32 {
    use std::os::unix::fs::PermissionsExt as _;
    metadata.permissions().mode() & PERMISSIONS
}

/// Renames a file to a name that nothing has: EEXIST if something has it.
fn rename_new(folder: std::os::fd::BorrowedFd<'_>, from: &str, to: &OsStr) -> Result<(), Errno> {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        use nix::fcntl::{RenameFlags, renameat2};
        match renameat2(folder, from, folder, to, RenameFlags::RENAME_NOREPLACE) {
            // A file system, or a kernel, that has no such flag.
            Err(Errno::EINVAL | Errno::ENOSYS) => {}
            result => return result,
        }
    }
    match linkat(folder, from, folder, to, AtFlags::empty()) {
        Ok(()) => unlinkat(folder, from, UnlinkatFlags::NoRemoveDir),
        // A file system without hard links: the lock has to do.
        Err(Errno::EPERM | Errno::EOPNOTSUPP | Errno::ENOSYS) => renameat(folder, from, folder, to),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::{Path, PathBuf};
    use std::sync::{Arc, Mutex};

    use super::super::store::Store;
    use super::*;

    const SOURCE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    /// A folder with a file in a folder.
    fn tree(name: &str) -> PathBuf {
        let root = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(root.join("sub")).unwrap();
        fs::write(root.join("sub/file"), "old").unwrap();
        root
    }

    fn open(root: &Path, store: Store) -> Folder {
        Folder::open(root, store).unwrap()
    }

    fn partial(folder: &Folder, path: &[&[u8]], bytes: &[u8]) -> Partial {
        let mut partial = folder.place(path).unwrap().begin(SOURCE).unwrap();
        partial.write(bytes).unwrap();
        partial
    }

    #[test]
    fn a_file_appears_whole_or_not_at_all() {
        let root = tree("carob-upload-whole");
        let folder = open(&root, Store::default());
        let half = partial(&folder, &[b"new"], b"half");
        assert!(matches!(folder.find(&[b"new"]), Err(PathError::NotFound)));
        assert_eq!(fs::read_dir(&root).unwrap().count(), 2);
        drop(half);
        assert_eq!(fs::read_dir(&root).unwrap().count(), 1, "nothing is left");
        assert!(
            !partial(&folder, &[b"new"], b"all")
                .complete(|_| true)
                .unwrap()
        );
        assert_eq!(fs::read(root.join("new")).unwrap(), b"all");
        assert!(folder.place(&[b"new"]).unwrap().remove(|_| true).unwrap());
        assert!(!folder.place(&[b"new"]).unwrap().remove(|_| true).unwrap());
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn file_is_synchronized_before_rename_and_folder_after() {
        let root = tree("carob-upload-sync");
        let path = root.join("sub/file");
        let synced = Arc::new(Mutex::new(Vec::new()));
        let store = Store {
            sync: Box::new({
                let (synced, path) = (Arc::clone(&synced), path.clone());
                move |file| {
                    let metadata = file.metadata()?;
                    let size = metadata.is_file().then_some(metadata.len());
                    let current = fs::read_to_string(&path)?;
                    synced.lock().unwrap().push((size, current));
                    Ok(())
                }
            }),
            ..Store::default()
        };
        let folder = open(&root, store);
        let new = partial(&folder, &[b"sub", b"file"], b"newer");
        assert!(new.complete(|_| true).unwrap());
        let expected = [(Some(5), "old".to_owned()), (None, "newer".to_owned())];
        assert_eq!(*synced.lock().unwrap(), expected);
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn file_that_fails_to_synchronize_is_not_renamed() {
        let root = tree("carob-upload-sync-fails");
        let store = Store {
            sync: Box::new(|_| Err(Errno::EIO.into())),
            ..Store::default()
        };
        let folder = open(&root, store);
        let new = partial(&folder, &[b"sub", b"file"], b"new");
        assert!(matches!(new.complete(|_| true), Err(PathError::Failed(_))));
        assert_eq!(fs::read(root.join("sub/file")).unwrap(), b"old");
        assert_eq!(fs::read_dir(root.join("sub")).unwrap().count(), 1);
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn a_file_keeps_its_permissions_when_it_is_replaced() {
        let root = tree("carob-upload-mode");
        let path = root.join("sub/file");
        let folder = open(&root, Store::default());
        let mode = |path: &Path| permissions(&fs::metadata(path).unwrap());
        for wanted in [0o600, 0o664] {
            fs::set_permissions(&path, fs::Permissions::from_mode(wanted)).unwrap();
            let new = partial(&folder, &[b"sub", b"file"], b"new");
            assert_eq!(mode(&root.join("sub").join(&new.temporary)), wanted);
            assert!(new.complete(|_| true).unwrap());
            assert_eq!(mode(&path), wanted);
        }
        let new = partial(&folder, &[b"sub", b"file"], b"new");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(new.complete(|_| true).unwrap());
        assert_eq!(mode(&path), 0o640, "changed during the upload");
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn stale_uploads_are_removed_and_other_servers_kept() {
        let root = tree("carob-upload-left");
        for left in [".carob-upload-1-0", "sub/.carob-upload-00ff"] {
            fs::write(root.join(left), "x").unwrap();
        }
        let running = open(&root, Store::default());
        let upload = partial(&running, &[b"sub", b"new"], b"half");
        assert_eq!(open(&root, Store::default()).remove_leftovers().unwrap(), 2);
        assert!(!upload.complete(|_| true).unwrap());
        let mut names: Vec<_> = [&root, &root.join("sub")]
            .iter()
            .flat_map(|folder| fs::read_dir(folder).unwrap())
            .map(|entry| entry.unwrap().file_name())
            .collect();
        names.sort();
        assert_eq!(names, ["file", "new", "sub"]);
        fs::remove_dir_all(root).unwrap();
    }
}
