//! Runs that are done, kept in a file: a sweep that was killed goes on where it stopped.
//!
//! The file is a line that names the format and what records are made of, and then, for each run, its key (8 bytes), the length
//! of its record (4 bytes), the record and a check sum (8 bytes), all little-endian. What was being
//! written when the program was killed is cut off when the file is opened again. Records hold
//! everything but recordings, so results are the same bytes however often a sweep was interrupted.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use carob_sim::hash::fnv1a;
use carob_sim::spec::RunRecord;

use crate::record_codec::{self, EncodedRecord};
use crate::run::Job;

/// Beginning of the first line of every journal; [`first_line`] has the rest.
const JOURNAL: &str = "carob journal ";
/// The largest record, in bytes; a run has at most 4,096 flows of some 200 bytes.
const RECORD_MAX: usize = 16 << 20;

/// Why a journal cannot be used.
#[derive(Debug)]
#[allow(missing_docs)]
pub enum Error {
    /// The file cannot be read or written.
    File { path: PathBuf, error: io::Error },
    /// The file is no journal.
    Other { path: PathBuf },
    /// The journal was written by a version with another record layout.
    Version { path: PathBuf },
    /// A run of it comes out differently now.
    Changed { path: PathBuf, run: String },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, error } => write!(f, "{}: {error}", path.display()),
            Self::Other { path } => write!(
                f,
                "{} is no journal of this program; name another file",
                path.display()
            ),
            Self::Version { path } => write!(
                f,
                "{} is a journal of another version of the program, which counted other things; \
                 delete it or name another file",
                path.display()
            ),
            Self::Changed { path, run } => write!(
                f,
                "{} was made by another version of the program, for which {run} comes out \
                 differently; delete it or name another file",
                path.display()
            ),
        }
    }
}

impl std::error::Error for Error {}

/// A journal that is open.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: Mutex<File>,
    /// Records of runs that were done before, by key.
    done: BTreeMap<u64, EncodedRecord>,
}

/// The first line: the format, and the layout of its records.
fn first_line() -> String {
    format!("{JOURNAL}2 {:016x}\n", record_codec::layout())
}

/// Key of a run: a hash of all inputs that decide its outcome.
fn key(job: &Job<'_>) -> u64 {
    let text = format!("{:016x} {} {}", job.cell.hash, job.algorithm.name, job.seed);
    fnv1a(text.as_bytes())
}

impl Journal {
    /// Opens a journal, or makes one if there is no such file.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let of = |error| Error::File {
            path: path.to_owned(),
            error,
        };
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let mut file = options.open(path).map_err(of)?;
        if !file.metadata().map_err(of)?.is_file() {
            // A device or a pipe may never come to an end.
            let path = path.to_owned();
            return Err(Error::Other { path });
        }
        let mut text = Vec::new();
        file.read_to_end(&mut text).map_err(of)?;
        let first = first_line().into_bytes();
        if first.starts_with(&text) {
            // A new one, or one whose first line was being written.
            file.rewind().map_err(of)?;
            file.write_all(&first).map_err(of)?;
        } else if !text.starts_with(&first) {
            let path = path.to_owned();
            return Err(if text.starts_with(JOURNAL.as_bytes()) {
                Error::Version { path }
            } else {
                Error::Other { path }
            });
        }
        let mut done = BTreeMap::new();
        let mut whole = first.len();
        while let Some((key, record, length)) = text.get(whole..).and_then(frame) {
            let Some(packed) = EncodedRecord::from_bytes(record) else {
                break;
            };
            done.insert(key, packed);
            whole += length;
        }
        file.set_len(whole as u64).map_err(of)?;
        file.seek(SeekFrom::End(0)).map_err(of)?;
        Ok(Self {
            path: path.to_owned(),
            file: Mutex::new(file),
            done,
        })
    }

    /// Number of runs in the journal when it was opened.
    pub fn len(&self) -> usize {
        self.done.len()
    }

    /// Returns true if the journal had no runs when it was opened.
    pub fn is_empty(&self) -> bool {
        self.done.is_empty()
    }

    /// The record of a run that was done before.
    pub(crate) fn find(&self, job: &Job<'_>) -> Option<&EncodedRecord> {
        self.done.get(&key(job))
    }

    /// Keeps the record of a run.
    pub(crate) fn keep(&self, job: &Job<'_>, record: &EncodedRecord) -> Result<(), Error> {
        let bytes = record.bytes();
        let mut frame = Vec::with_capacity(bytes.len() + 20);
        frame.extend(key(job).to_le_bytes());
        frame.extend((bytes.len() as u32).to_le_bytes());
        frame.extend(bytes);
        frame.extend(fnv1a(&frame).to_le_bytes());
        let written = match self.file.lock() {
            Ok(mut file) => file.write_all(&frame),
            Err(_) => Err(io::Error::other("a thread that wrote it has failed")),
        };
        written.map_err(|error| Error::File {
            path: self.path.clone(),
            error,
        })
    }

    /// Compares a run of the journal with the same run made now.
    pub(crate) fn check(&self, job: &Job<'_>, now: &RunRecord) -> Result<(), Error> {
        match self.find(job) {
            Some(then) if then.record().trace_hash != now.trace_hash => Err(Error::Changed {
                path: self.path.clone(),
                run: format!("{} {} seed {}", job.cell.name, job.algorithm.name, job.seed),
            }),
            _ => Ok(()),
        }
    }
}

/// The first frame of `text`: key, record and length; nothing if it is not whole.
fn frame(text: &[u8]) -> Option<(u64, &[u8], usize)> {
    let key = u64::from_le_bytes(text.get(..8)?.try_into().ok()?);
    let length = u32::from_le_bytes(text.get(8..12)?.try_into().ok()?) as usize;
    if length > RECORD_MAX {
        return None;
    }
    let end = 12 + length;
    let sum = u64::from_le_bytes(text.get(end..end + 8)?.try_into().ok()?);
    (fnv1a(&text[..end]) == sum).then(|| (key, &text[12..end], end + 8))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use carob_sim::engine;

    use super::*;
    use crate::run::{Plan, Selection};
    use crate::scenario::{Scenario, builtin};

    fn scenario(set: &[&str]) -> Scenario {
        let (file, _) = builtin::find("thesis/short").expect("a scenario");
        let set: Vec<String> = set.iter().map(|&s| s.to_owned()).collect();
        Scenario::read(file.name, file.text, &set).expect("a valid one")
    }

    fn selection() -> Selection {
        Selection {
            cell: Some("short-*-10c-high-2500".to_owned()),
            seeds: Some(2),
            ..Selection::default()
        }
    }

    fn temporary(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("carob-{name}-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        path
    }

    /// All rows, and how many runs were made.
    fn rows(path: Option<&Path>) -> (String, usize) {
        let scenario = scenario(&[]);
        let plan = Plan::new(&scenario, &selection()).expect("a plan");
        let journal = path.map(|path| Journal::open(path).expect("it opens"));
        let made = AtomicUsize::new(0);
        let run = |spec: &_| {
            made.fetch_add(1, Ordering::Relaxed);
            engine::run(spec)
        };
        let outcome = plan.execute_with(journal.as_ref(), run, |_, _| {});
        let outcome = outcome.expect("runs");
        let rows = serde_json::to_string(&(outcome.rows(), outcome.each())).expect("plain data");
        (rows, made.into_inner())
    }

    #[cfg(unix)]
    #[test]
    fn a_device_is_no_journal() {
        let error = Journal::open(Path::new("/dev/full")).expect_err("it is a device");
        assert!(matches!(error, Error::Other { .. }), "{error}");
    }

    #[test]
    fn slow_killed_sweep_resumes_with_the_same_bytes() {
        let path = temporary("killed");
        let (without, all) = rows(None);
        assert_eq!(rows(Some(&path)), (without.clone(), all));
        // Killed in the middle of a record.
        let length = std::fs::metadata(&path).expect("it is there").len();
        let file = OpenOptions::new()
            .write(true)
            .open(&path)
            .expect("it opens");
        file.set_len(length / 2 + 3).expect("it is cut");
        let half = Journal::open(&path).expect("it opens").len();
        assert!(half > all / 3 && half < all * 2 / 3, "{half} of {all}");
        // One of them is made again, to see that nothing has changed.
        assert_eq!(rows(Some(&path)), (without.clone(), all - half + 1));
        assert_eq!(rows(Some(&path)), (without, 1));
        std::fs::remove_file(&path).expect("it is removed");
    }

    #[test]
    fn a_byte_that_changed_ends_what_is_taken_from_a_journal() {
        let path = temporary("changed");
        let (without, all) = rows(Some(&path));
        let mut bytes = std::fs::read(&path).expect("it is there");
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(&path, bytes).expect("it is written");
        let (again, made) = rows(Some(&path));
        assert_eq!(again, without);
        assert!(made > 1 && made < all, "{made}");
        std::fs::remove_file(&path).expect("it is removed");
    }

    #[test]
    fn foreign_journal_is_refused_and_partial_line_is_new() {
        let path = temporary("version");
        rows(Some(&path));
        let whole = std::fs::read(&path).expect("it is there");
        std::fs::write(&path, &first_line()[..20]).expect("it is written");
        assert!(Journal::open(&path).expect("it opens").is_empty());
        assert_eq!(
            std::fs::read(&path).expect("it is there"),
            first_line().into_bytes()
        );
        for line in ["carob journal 1\n", "carob journal 2 0000000000000000\n"] {
            let mut other = line.as_bytes().to_vec();
            other.extend(&whole[first_line().len()..]);
            std::fs::write(&path, &other).expect("it is written");
            let error = Journal::open(&path).expect_err("another").to_string();
            assert!(error.contains("another version"), "{error}");
            assert_eq!(std::fs::read(&path).expect("it is there"), other);
        }
        std::fs::remove_file(&path).expect("it is removed");
    }

    #[test]
    fn journal_of_other_settings_or_program_is_not_reused() {
        let path = temporary("other");
        rows(Some(&path));
        let journal = Journal::open(&path).expect("it opens");
        let other = scenario(&["buffer=2501 B"]);
        let plan = Plan::new(&other, &Selection::default()).expect("a plan");
        assert!(plan.jobs().iter().all(|job| journal.find(job).is_none()));
        let same = scenario(&[]);
        let plan = Plan::new(&same, &selection()).expect("a plan");
        let outcome = plan.execute_with(
            Some(&journal),
            |spec| {
                let mut record = engine::run(spec)?;
                record.trace_hash ^= 1;
                Ok(record)
            },
            |_, _| {},
        );
        let error = outcome.expect_err("it is noticed").to_string();
        assert!(error.contains("another version"), "{error}");
        std::fs::write(&path, "something else").expect("it is written");
        let error = Journal::open(&path).expect_err("no journal").to_string();
        assert!(error.contains("no journal"), "{error}");
        std::fs::remove_file(&path).expect("it is removed");
    }
}
