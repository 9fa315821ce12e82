//! Files below one folder, and never outside it.
//!
//! Every step down is taken from an open folder and refuses links, so that neither `..` nor a
//! symbolic link, however it came to be there, leads elsewhere; nor does one that appears while
//! we walk.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat, renameat};
use nix::sys::stat::{Mode, SFlag, fstatat};
use nix::unistd::{UnlinkatFlags, unlinkat};

/// Names of files still being written begin with this; they are not there for clients.
const PARTIAL: &str = ".carob-upload-";
/// Entries listed of one folder at most.
const ENTRIES: usize = 4_096;
/// Folders above a file at most.
const DEPTH: usize = 32;

/// An open folder.
#[derive(Clone, Debug)]
pub(super) struct Folder(Arc<OwnedFd>);

/// What a path leads to.
#[derive(Debug)]
pub(super) enum Found {
    File(File),
    Folder(Folder),
}

/// A place in a folder for a file, existing or not.
#[derive(Debug)]
pub(super) struct Place {
    folder: Folder,
    name: Box<OsStr>,
}

/// An entry of a folder.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Entry {
    pub(super) name: String,
    /// Size in bytes; none for a folder.
    pub(super) size: Option<u64>,
}

/// A file being written, removed unless it is completed.
#[derive(Debug)]
pub(super) struct Partial {
    place: Place,
    temporary: String,
    file: File,
    complete: bool,
}

/// Why a path leads nowhere.
#[derive(Debug)]
pub(super) enum PathError {
    /// It leads, or would lead, outside; or to what is neither file nor folder.
    Forbidden,
    NotFound,
    Failed(io::Error),
}

impl From<Errno> for PathError {
    fn from(error: Errno) -> Self {
        match error {
            Errno::ENOENT | Errno::ENOTDIR | Errno::ENAMETOOLONG => Self::NotFound,
            // ELOOP is what a refused link gives.
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

/// A segment of a path as a file's name, unless it could mean anything else.
fn name(segment: &[u8]) -> Result<&OsStr, PathError> {
    let special = segment.is_empty() || segment == b"." || segment == b"..";
    if special || segment.iter().any(|byte| matches!(byte, b'/' | b'\\' | 0)) {
        return Err(PathError::Forbidden);
    }
    if segment.starts_with(PARTIAL.as_bytes()) {
        return Err(PathError::NotFound);
    }
    Ok(OsStr::from_bytes(segment))
}

const READ: OFlag = OFlag::O_RDONLY
    .union(OFlag::O_NOFOLLOW)
    .union(OFlag::O_CLOEXEC);

impl Folder {
    /// Opens the folder that is to be served. Its own path may go through links.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        if !file.metadata()?.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        Ok(Self(Arc::new(file.into())))
    }

    fn step(&self, segment: &[u8]) -> Result<Self, PathError> {
        let next = openat(
            self.0.as_fd(),
            name(segment)?,
            READ | OFlag::O_DIRECTORY,
            Mode::empty(),
        );
        // Linux says ENOTDIR of a link that it may not follow; either way nothing is there.
        Ok(Self(Arc::new(next?)))
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
            folder = folder.step(segment)?;
        }
        Ok(Some(Place {
            folder,
            name: name(last)?.into(),
        }))
    }

    /// What a path leads to.
    pub(super) fn find(&self, segments: &[&[u8]]) -> Result<Found, PathError> {
        let Some(Place { folder, name }) = self.walk(segments)? else {
            return Ok(Found::Folder(self.clone()));
        };
        // Opening a pipe would wait for its other end.
        let flags = READ | OFlag::O_NONBLOCK;
        let file = File::from(openat(folder.0.as_fd(), &*name, flags, Mode::empty())?);
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            Ok(Found::Folder(Self(Arc::new(file.into()))))
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
        // Reading moves a position that clones of a descriptor share, so this needs its own.
        let own = openat(
            self.0.as_fd(),
            ".",
            READ | OFlag::O_DIRECTORY,
            Mode::empty(),
        )?;
        let mut entries = Vec::new();
        for entry in Dir::from_fd(own)?.iter() {
            if entries.len() == ENTRIES {
                break;
            }
            let entry = entry?;
            let Ok(name) = entry.file_name().to_str() else {
                continue;
            };
            if name.starts_with('.') {
                continue;
            }
            let Ok(status) = fstatat(self.0.as_fd(), name, AtFlags::AT_SYMLINK_NOFOLLOW) else {
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
}

impl Place {
    /// The file that is there now, if one is.
    pub(super) fn existing(&self) -> Result<Option<File>, PathError> {
        let flags = READ | OFlag::O_NONBLOCK;
        match openat(self.folder.0.as_fd(), &*self.name, flags, Mode::empty()) {
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

    /// Removes the file; whether there was one.
    pub(super) fn remove(&self) -> Result<bool, PathError> {
        if self.existing()?.is_none() {
            return Ok(false);
        }
        match unlinkat(
            self.folder.0.as_fd(),
            &*self.name,
            UnlinkatFlags::NoRemoveDir,
        ) {
            Ok(()) => Ok(true),
            Err(Errno::ENOENT) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Begins a file that will take this place when it is complete.
    pub(super) fn begin(self) -> Result<Partial, PathError> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let temporary = format!("{PARTIAL}{}-{count}", std::process::id());
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_CLOEXEC;
        let mode = Mode::from_bits_truncate(0o644);
        let file = openat(self.folder.0.as_fd(), temporary.as_str(), flags, mode)?;
        Ok(Partial {
            place: self,
            temporary,
            file: file.into(),
            complete: false,
        })
    }
}

impl Partial {
    /// Adds to the file.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), PathError> {
        Ok(self.file.write_all(bytes)?)
    }

    /// Puts the file in its place, all at once; whether it replaced one.
    pub(super) fn complete(mut self) -> Result<bool, PathError> {
        let replaced = self.place.existing()?.is_some();
        let folder = self.place.folder.0.as_fd();
        renameat(folder, self.temporary.as_str(), folder, &*self.place.name)?;
        self.complete = true;
        Ok(replaced)
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if !self.complete {
            let folder = self.place.folder.0.as_fd();
            // Should this fail, the file stays, under a name that clients cannot see.
            let _ = unlinkat(folder, self.temporary.as_str(), UnlinkatFlags::NoRemoveDir);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    /// A folder with a file and a link that leads out, below one with a secret.
    fn tree(name: &str) -> (std::path::PathBuf, Folder) {
        let root = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(root.join("served/sub")).unwrap();
        fs::write(root.join("secret"), "s").unwrap();
        fs::write(root.join("served/sub/file"), "f").unwrap();
        symlink("../secret", root.join("served/link")).unwrap();
        symlink("..", root.join("served/up")).unwrap();
        let folder = Folder::open(&root.join("served")).unwrap();
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
    fn a_file_appears_whole_or_not_at_all() {
        let (root, folder) = tree("carob-folder-whole");
        let mut partial = folder.place(&[b"new"]).unwrap().begin().unwrap();
        partial.write(b"half").unwrap();
        assert!(matches!(folder.find(&[b"new"]), Err(PathError::NotFound)));
        drop(partial);
        assert_eq!(
            fs::read_dir(root.join("served")).unwrap().count(),
            3,
            "nothing is left behind"
        );
        let mut partial = folder.place(&[b"new"]).unwrap().begin().unwrap();
        partial.write(b"all").unwrap();
        assert!(!partial.complete().unwrap());
        assert_eq!(fs::read(root.join("served/new")).unwrap(), b"all");
        assert!(folder.place(&[b"new"]).unwrap().remove().unwrap());
        assert!(!folder.place(&[b"new"]).unwrap().remove().unwrap());
        fs::remove_dir_all(root).unwrap();
    }
}
