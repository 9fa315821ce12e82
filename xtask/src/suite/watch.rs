//! A child process whose lines are read at once, with a line of progress in long silence.

use std::{
    io::{BufRead as _, BufReader, Read},
    process::{Command, Stdio},
    sync::mpsc::{self, RecvTimeoutError, Sender},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};

use crate::process;

/// Time without output after which a line of progress is printed.
pub(super) const SILENCE: Duration = Duration::from_secs(8);

/// Runs a command and hands each line of its stdout and stderr to `line`, which returns the text to print.
/// Returns true if the command succeeded.
///
/// # Errors
/// When the command cannot be started.
pub(crate) fn lines(
    command: &mut Command,
    mut line: impl FnMut(&str) -> Option<String>,
) -> Result<bool> {
    let name = process::line(command);
    let mut child = command
        .env("CARGO_TERM_PROGRESS_WHEN", "never")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {name}"))?;
    let (sender, receiver) = mpsc::channel();
    read(child.stdout.take(), sender.clone());
    read(child.stderr.take(), sender);
    let start = Instant::now();
    let mut printed = Instant::now();
    let mut last = String::new();
    loop {
        match receiver.recv_timeout(SILENCE.saturating_sub(printed.elapsed())) {
            Ok(text) => {
                if let Some(text) = line(&text) {
                    println!("{text}");
                    printed = Instant::now();
                }
                // Lines of JSON are messages of cargo for programs.
                if !text.starts_with('{') {
                    text.trim().clone_into(&mut last);
                }
            }
            Err(RecvTimeoutError::Timeout) => {
                println!("  ... {} s: {}", start.elapsed().as_secs(), short(&last));
                printed = Instant::now();
            }
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    Ok(child.wait()?.success())
}

/// Runs a command and prints all of its lines.
pub(crate) fn succeeds(command: &mut Command) -> Result<bool> {
    lines(command, |line| Some(line.to_owned()))
}

fn read(stream: Option<impl Read + Send + 'static>, sender: Sender<String>) {
    let Some(stream) = stream else { return };
    thread::spawn(move || {
        let mut reader = BufReader::new(stream);
        let mut bytes = Vec::new();
        // An incomplete last line is passed on.
        while reader
            .read_until(b'\n', &mut bytes)
            .is_ok_and(|read| read > 0)
        {
            let text = String::from_utf8_lossy(&bytes);
            if sender.send(text.trim_end().to_owned()).is_err() {
                return;
            }
            bytes.clear();
        }
    });
}

/// The last line of a silent child, within the width of a terminal.
fn short(line: &str) -> String {
    const WIDTH: usize = 60;
    let line = if line.is_empty() { "at work" } else { line };
    line.chars().take(WIDTH).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_streams_are_read_and_the_exit_code_returned() {
        let mut seen = Vec::new();
        let mut command = Command::new("sh");
        command.args(["-c", "echo out; echo err >&2; printf unended; exit 3"]);
        let success = lines(&mut command, |line| {
            seen.push(line.to_owned());
            None
        });
        seen.sort();
        assert_eq!(seen, ["err", "out", "unended"]);
        assert!(!success.expect("sh is there"));
        assert!(lines(&mut Command::new("/nowhere/at/all"), |_| None).is_err());
    }
}
