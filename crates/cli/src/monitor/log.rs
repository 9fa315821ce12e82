//! The event log: one line of JSON for each protocol event.

use std::fmt::Display;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use carob_proto::trace::Trace;

use crate::failure::Failure;
use crate::printer;

pub(super) struct EventLog {
    /// None is stderr.
    file: Option<(File, PathBuf)>,
    failed: bool,
}

impl EventLog {
    /// Begins a log in a new file, or on stderr if that is named `-`.
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        let file = if path == Path::new("-") {
            None
        } else {
            let file = super::create_private(path)
                .map_err(|error| Failure::file("write", path, &error))?;
            Some((file, path.to_owned()))
        };
        Ok(Self {
            file,
            failed: false,
        })
    }

    pub(super) fn hear(&mut self, trace: &Trace) {
        self.write(&trace.json());
    }

    /// Writes an event as a line.
    pub(super) fn write(&mut self, event: &dyn Display) {
        if self.failed {
            return;
        }
        // In one piece, so that a reader that follows the file sees whole lines.
        let line = format!("{event}\n");
        let (written, name) = match &mut self.file {
            Some((file, path)) => (file.write_all(line.as_bytes()), path.display().to_string()),
            None => (
                io::stderr().lock().write_all(line.as_bytes()),
                "stderr".into(),
            ),
        };
        if let Err(error) = written {
            self.failed = true;
            printer::remark(&format!(
                "the event log ends here: cannot write {name}: {error}"
            ));
        }
    }
}
