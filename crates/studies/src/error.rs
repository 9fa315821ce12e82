//! Errors in the files of a study.

use std::fmt;
use std::path::PathBuf;

/// An error in a file of a study.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StudyError {
    /// The file or folder.
    pub path: PathBuf,
    /// The error, with its line where there is one.
    pub what: String,
    /// The way to correct it.
    pub remedy: String,
}

impl StudyError {
    pub(crate) fn new(
        path: impl Into<PathBuf>,
        what: impl fmt::Display,
        remedy: impl fmt::Display,
    ) -> Self {
        Self {
            path: path.into(),
            what: what.to_string(),
            remedy: remedy.to_string(),
        }
    }
}

impl fmt::Display for StudyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.what)
    }
}

impl std::error::Error for StudyError {}
