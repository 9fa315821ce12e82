//! Where the lab's output goes: tables and JSON on stdout, progress on stderr, reports in files.

use std::io::{self, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use carob_lab::journal::Journal;
use carob_lab::report::Report;
use carob_lab::run::on_threads;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

use super::args::{ReportArgs, ThreadArgs};
use crate::failure::{Failure, Kind};
use crate::output;

/// Prints text on stdout. Errors are kept for the command's end.
pub(in crate::commands) fn say(text: impl std::fmt::Display) {
    let _ = writeln!(output::bytes(), "{text}");
}

/// Prints each value as a line of JSON.
pub(in crate::commands) fn json_lines(values: impl IntoIterator<Item = impl Serialize>) {
    let mut stdout = io::BufWriter::new(output::bytes());
    for value in values {
        let text = serde_json::to_string(&value).expect("text keys and finite numbers");
        if writeln!(stdout, "{text}").is_err() {
            return;
        }
    }
    let _ = stdout.flush();
}

/// A word for a shell.
pub(super) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=,:+%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// A bar on stderr, if that is a terminal.
pub(super) fn progress(runs: usize) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let target = ProgressDrawTarget::stderr_with_hz(10);
    let bar = ProgressBar::with_draw_target(Some(runs as u64), target);
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} runs, {eta} left")
        .expect("a valid template");
    bar.set_style(style);
    bar
}

/// Opens the journal that was asked for.
pub(super) fn journal(path: Option<&Path>) -> Result<Option<Journal>, Failure> {
    let open = |path| Journal::open(path).map_err(|error| Failure::new(Kind::Usage, error));
    path.map(open).transpose()
}

/// Does `work` on as many threads as asked for.
pub(super) fn with_threads<T: Send>(
    args: ThreadArgs,
    work: impl FnOnce() -> T + Send,
) -> Result<T, Failure> {
    on_threads(args.threads.map(usize::from), work)
        .ok_or_else(|| Failure::new(Kind::File, "cannot start threads").hint("try --threads 1"))
}

/// Writes a report and says where it is; `quiet` output gets one only if a file was named.
///
/// A report nobody named that cannot be written is no failure, since the table is there.
pub(super) fn report(
    args: &ReportArgs,
    name: &str,
    quiet: bool,
    make: impl FnOnce() -> Result<Report, Failure>,
) -> Result<(), Failure> {
    if args.no_report || (quiet && args.report.is_none()) {
        return Ok(());
    }
    let file = args
        .report
        .clone()
        .unwrap_or_else(|| default_file(name, "html"));
    let html = make()?.html();
    match write(&file, &html) {
        Ok(()) if quiet => {}
        Ok(()) => say(format_args!("Report: {}", file.display())),
        Err(error) if args.report.is_some() => return Err(Failure::file("write", &file, &error)),
        Err(error) => {
            let _ = writeln!(
                io::stderr().lock(),
                "carob: no report: cannot write {}: {error}",
                file.display()
            );
        }
    }
    Ok(())
}

/// `reports/thesis-long.html` for `thesis/long`.
pub(in crate::commands) fn default_file(name: &str, extension: &str) -> PathBuf {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || c == '.' {
            c
        } else {
            '-'
        }
    };
    let name: String = name.trim_end_matches(".toml").chars().map(plain).collect();
    let name = name.trim_matches(['-', '.']);
    Path::new("reports").join(format!("{name}.{extension}"))
}

/// Writes a file, and the folder it is in.
pub(in crate::commands) fn write(file: &Path, text: &str) -> io::Result<()> {
    if let Some(folder) = file.parent().filter(|f| !f.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(file, text)
}

/// `1.3 s`.
pub(super) fn took(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_named_after_what_it_is_about() {
        let name = |of| default_file(of, "html").display().to_string();
        assert_eq!(
            name("thesis/long-1c-none-2500"),
            "reports/thesis-long-1c-none-2500.html"
        );
        assert_eq!(name("../links/My link.toml"), "reports/links-My-link.html");
    }

    #[test]
    fn words_are_quoted_for_a_shell_where_they_need_it() {
        assert_eq!(quoted("thesis/long"), "thesis/long");
        assert_eq!(quoted("thesis/long-*"), "'thesis/long-*'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }
}
