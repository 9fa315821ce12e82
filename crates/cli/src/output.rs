//! Standard output: the only place that writes to it, and remembers that a write failed.
//!
//! Most commands print and end, so none of them looks at the result of each write: the first error is
//! kept here, and the command fails with it at its end. A reader that has gone away (a closed pipe)
//! has had enough, which is no error.

use std::io::{self, ErrorKind, IsTerminal as _, StdoutLock, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use carob_lab::text::{TextTable, wrapped};

use crate::failure::Failure;

/// The first error of a write that is not a closed pipe's.
static FIRST_ERROR: Mutex<State> = Mutex::new(State::Written);

enum State {
    Written,
    Failed(io::Error),
    /// The error was returned to the command.
    Reported,
}

/// Columns of a terminal of unknown width.
const COLUMNS: usize = 80;
/// The narrowest width that output is laid out for.
const COLUMNS_MIN: usize = 20;

/// Takes the choice of `--color` for all streams.
pub(crate) fn choose_color(choice: clap::ColorChoice) {
    let choice = match choice {
        clap::ColorChoice::Auto => anstream::ColorChoice::Auto,
        clap::ColorChoice::Always => anstream::ColorChoice::Always,
        clap::ColorChoice::Never => anstream::ColorChoice::Never,
    };
    choice.write_global();
}

/// A table laid out for the terminal that stdout is, or in full, with styles.
pub(crate) fn laid_out(table: &TextTable, indent: usize) -> String {
    match columns() {
        Some(columns) => table.for_terminal(columns.saturating_sub(indent)),
        None => table.styled(),
    }
}

/// Columns of the terminal that stdout is; none for files and pipes.
pub(crate) fn columns() -> Option<usize> {
    let stdout = io::stdout();
    if !stdout.is_terminal() {
        return None;
    }
    let size = terminal_size::terminal_size_of(stdout);
    let columns = size.map_or(COLUMNS, |(columns, _)| usize::from(columns.0));
    Some(columns.max(COLUMNS_MIN))
}

/// Running text with line breaks for the width of the terminal that stdout is.
pub(crate) fn fitted(text: &str) -> String {
    columns().map_or_else(|| text.to_owned(), |columns| wrapped(text, columns))
}

/// The same for stderr.
pub(crate) fn fitted_to_stderr(text: &str) -> String {
    let stderr = io::stderr();
    if !stderr.is_terminal() {
        return text.to_owned();
    }
    let size = terminal_size::terminal_size_of(stderr);
    let columns = size.map_or(COLUMNS, |(columns, _)| usize::from(columns.0));
    wrapped(text, columns.max(COLUMNS_MIN))
}

/// Standard output, locked.
pub(crate) struct Output<W>(W);

/// Standard output for unchanged bytes.
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

/// Flushes the buffer; fails if the flush, or any write before, failed. An error is returned
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

/// Words in lines of at most `width` columns.
pub(crate) fn filled<'a>(words: impl Iterator<Item = &'a str>, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in words {
        match lines.last_mut() {
            Some(line) if line.len() + 1 + word.len() <= width => line.extend([" ", word]),
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// `1,234,567`.
pub(crate) fn thousands(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (place, digit) in digits.char_indices() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_fill_lines_up_to_their_width() {
        assert_eq!(filled("a bb ccc".split(' '), 4), ["a bb", "ccc"]);
        assert_eq!(filled("too-long a".split(' '), 4), ["too-long", "a"]);
    }
}
