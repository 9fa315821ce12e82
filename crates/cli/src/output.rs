//! Standard output: the only place that writes to it, and remembers that a write failed.
//!
//! Most commands print and end, so none of them looks at the result of each write: the first error is
//! kept here, and the command fails with it at its end. A reader that has gone away (a closed pipe)
//! has had enough, which is no error.

use std::io::{self, ErrorKind, StdoutLock, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use crate::failure::Failure;

/// The first error of a write that is not a closed pipe's.
static FIRST_ERROR: Mutex<State> = Mutex::new(State::Written);

enum State {
    Written,
    Failed(io::Error),
    /// The error was returned to the command.
    Reported,
}

/// Standard output, locked.
pub(crate) struct Output<W>(W);

/// Standard output for bytes as they are.
pub(crate) fn bytes() -> Output<StdoutLock<'static>> {
    Output(io::stdout().lock())
}

/// Standard output for text with colours, which are taken out where they are off.
pub(crate) fn coloured() -> Output<anstream::AutoStream<StdoutLock<'static>>> {
    Output(anstream::stdout().lock())
}

impl<W: Write> Write for Output<W> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.0.write(buffer).map_err(remember)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().map_err(remember)
    }
}

/// Keeps the first error, with its kind and text for the caller.
fn remember(error: io::Error) -> io::Error {
    if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::Interrupted) {
        return error;
    }
    let returned = match error.raw_os_error() {
        Some(number) => io::Error::from_raw_os_error(number),
        None => io::Error::new(error.kind(), error.to_string()),
    };
    let mut state = FIRST_ERROR.lock().unwrap_or_else(PoisonError::into_inner);
    if matches!(*state, State::Written) {
        *state = State::Failed(error);
    }
    returned
}

/// Writes out what is buffered; fails if that, or any write before, failed. An error is returned
/// once.
pub(crate) fn finish() -> Result<(), Failure> {
    // An error is remembered.
    let _ = bytes().flush();
    let mut state = FIRST_ERROR.lock().unwrap_or_else(PoisonError::into_inner);
    if matches!(*state, State::Written) {
        return Ok(());
    }
    match std::mem::replace(&mut *state, State::Reported) {
        State::Failed(error) => Err(Failure::file("write", Path::new("stdout"), &error)),
        State::Written | State::Reported => Ok(()),
    }
}
