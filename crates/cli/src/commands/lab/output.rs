//! Where the lab's output goes: tables and JSON on stdout, progress on stderr, reports in files.

use std::io::{self, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use carob_lab::report::Report;
use carob_lab::run::on_threads;
use carob_lab::text::TextTable;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

use crate::args::lab::{ReportArgs, ThreadArgs};
use crate::failure::{Failure, Kind};
use crate::output;
use crate::printer;

/// Prints running text on stdout, with line breaks for the width of a terminal. Errors are kept for
/// the command's end.
pub fn say(text: impl std::fmt::Display) {
    let text = output::fitted(&text.to_string());
    let _ = writeln!(output::bytes(), "{text}");
}

/// Prints unchanged text: documents, figures, rows for programs, code.
pub fn raw(text: impl std::fmt::Display) {
    let _ = writeln!(output::bytes(), "{text}");
}

/// Prints a table, laid out for the width of a terminal, each line indented by `indent` spaces.
pub fn say_table(table: &TextTable, indent: usize) {
    let text = output::laid_out(table, indent);
    let indent = " ".repeat(indent);
    let mut out = output::coloured();
    for line in text.lines() {
        let _ = writeln!(out, "{indent}{line}");
    }
}

/// Prints commands with their descriptions: side by side, or below each other where they do not fit. A
/// long command continues after a backslash, as a shell reads it.
pub(in crate::commands) fn suggest<'a>(
    commands: impl IntoIterator<Item = (&'a str, &'a str)> + Clone,
) {
    let lengths = commands
        .clone()
        .into_iter()
        .map(|(command, _)| command.len());
    let width = lengths.max().unwrap_or_default();
    let longest = commands.clone().into_iter().map(|(_, about)| about.len());
    let total = width + 4 + longest.max().unwrap_or_default();
    let columns = output::columns().unwrap_or(usize::MAX);
    for (command, about) in commands {
        if total <= columns {
            raw(format_args!("  {command:width$}  {about}"));
        } else {
            raw(command_lines(command));
            say(format_args!("      {about}"));
        }
    }
}

/// A command, indented, in lines that fit the terminal, with a backslash where it continues.
pub(in crate::commands) fn command_lines(command: &str) -> String {
    continued(command, output::columns().unwrap_or(usize::MAX))
}

fn continued(command: &str, columns: usize) -> String {
    let mut lines = vec![String::from(" ")];
    let mut in_quotes = false;
    let mut words: Vec<String> = Vec::new();
    for word in command.split(' ') {
        // An option and its value stay together, as do the words between quotes.
        let is_value = words
            .last()
            .is_some_and(|last| last.starts_with("--") && !last.contains(' '));
        match words.last_mut() {
            Some(last) if in_quotes || is_value => last.extend([" ", word]),
            _ => words.push(word.to_owned()),
        }
        in_quotes ^= word.matches('\'').count() % 2 == 1;
    }
    for word in words {
        let last = lines.last_mut().expect("there is one");
        if last.trim().is_empty() || last.len() + word.len() + 3 <= columns {
            last.extend([" ", &word]);
        } else {
            last.push_str(" \\");
            lines.push(format!("    {word}"));
        }
    }
    lines.join("\n")
}

/// Prints each value as a line of JSON.
pub fn json_lines(values: impl IntoIterator<Item = impl Serialize>) {
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
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=,:+%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// A bar on stderr, if that is a terminal.
pub fn progress(runs: usize) -> ProgressBar {
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

/// Does `work` on the number of threads requested.
pub fn with_threads<T: Send>(
    args: ThreadArgs,
    work: impl FnOnce() -> T + Send,
) -> Result<T, Failure> {
    on_threads(args.threads.map(usize::from), work)
        .ok_or_else(|| Failure::new(Kind::File, "cannot start threads").hint("try --threads 1"))
}

/// Does `work` in the same way with a progress bar, which begins when the first run tells their number.
pub fn with_progress<T: Send>(
    args: ThreadArgs,
    work: impl FnOnce(&(dyn Fn(usize, usize) + Sync)) -> T + Send,
) -> Result<T, Failure> {
    let bar: OnceLock<ProgressBar> = OnceLock::new();
    let done = with_threads(args, || {
        work(&|_, all| bar.get_or_init(|| progress(all)).inc(1))
    })?;
    if let Some(bar) = bar.get() {
        bar.finish_and_clear();
    }
    Ok(done)
}

/// Writes a report and prints its path; `quiet` output gets one only if a file was named.
///
/// A report without a name that cannot be written is no failure, since the table is there.
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
            printer::remark(&format!(
                "no report: cannot write {}: {error}",
                file.display()
            ));
        }
    }
    Ok(())
}

/// The most characters of a report's name that the settings take.
const SETTINGS_MAX: usize = 60;

/// The name of a report: the scenario, its seed, and the settings of the command line, which
/// are cut and distinguished by a hash where they are long.
pub(super) fn report_name(name: &str, seed: Option<u64>, set: &[String]) -> String {
    let mut full = name.trim_end_matches(".toml").replace('*', "all");
    if let Some(seed) = seed {
        full = format!("{full}-seed{seed}");
    }
    let settings = set.join("-");
    if settings.chars().count() > SETTINGS_MAX {
        let start: String = settings.chars().take(SETTINGS_MAX).collect();
        let hash = settings
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
            });
        full = format!("{full}-{start}-{hash:016x}");
    } else if !settings.is_empty() {
        full = format!("{full}-{settings}");
    }
    full
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
pub fn write(file: &Path, text: &str) -> io::Result<()> {
    if let Some(folder) = file.parent().filter(|f| !f.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(file, text)
}

/// `1.3 s`.
pub fn took(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_name_follows_from_its_contents() {
        let name = |of| default_file(of, "html").display().to_string();
        assert_eq!(
            name("thesis/long-1c-none-2500"),
            "reports/thesis-long-1c-none-2500.html"
        );
        assert_eq!(name("../links/My link.toml"), "reports/links-My-link.html");
    }

    #[test]
    fn report_names_differ_by_settings_in_bounded_length() {
        let name = |set: &[&str]| {
            let set: Vec<String> = set.iter().map(|&typed| typed.to_owned()).collect();
            let name = report_name("carob/default", None, &set);
            default_file(&name, "html").display().to_string()
        };
        assert_eq!(name(&[]), "reports/carob-default.html");
        assert_eq!(
            name(&["down.rate=60 kbit/s", "block=64 B"]),
            "reports/carob-default-down.rate-60-kbit-s-block-64-B.html"
        );
        let long = |last: &'static str| {
            name(&[
                "down.rate=60 kbit/s",
                "up.rate=20 kbit/s",
                "response=200 kB",
                last,
            ])
        };
        assert!(long("up.delay=750 ms").len() < 130);
        assert_ne!(long("up.delay=750 ms"), long("up.delay=751 ms"));
        assert_eq!(report_name("a/b-*", Some(7), &[]), "a/b-all-seed7");
    }

    #[test]
    fn a_long_command_continues_after_a_backslash() {
        let command = "carob lab run carob/default --algorithm all --set 'down.rate=60 kbit/s'";
        assert_eq!(continued(command, 80), format!("  {command}"));
        assert_eq!(
            continued(command, 50),
            "  carob lab run carob/default --algorithm all \\\n    --set 'down.rate=60 kbit/s'"
        );
    }

    #[test]
    fn words_are_shell_quoted_if_needed() {
        assert_eq!(quoted("thesis/long"), "thesis/long");
        assert_eq!(quoted("thesis/long-*"), "'thesis/long-*'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }
}
