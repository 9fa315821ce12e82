//! Files of link traces: CSV with named columns, and Mahimahi's delivery opportunities.
//!
//! Formats: `docs/traces.md`.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use carob_cc::time::Duration;
use carob_sim::hash::fnv1a;
use carob_sim::link::{LinkTrace, TRACE_ROWS_MAX, TraceError, TraceRow};
use carob_sim::random::Probability;

use crate::files;

/// The largest file of a trace in bytes.
pub const TRACE_BYTES_MAX: usize = 16 << 20;
/// The problem of a longer one.
const TOO_LONG: &str = "a trace is at most 16 MiB";
/// The largest value of a number in a file, before its unit.
const NUMBER_MAX: f64 = 1e13;
/// Columns of a CSV besides `time_ms`.
const COLUMNS: [&str; 3] = ["rate_kbit_s", "delay_ms", "loss_percent"];

/// An error in a file of a trace, with its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkTraceError {
    /// Line, counted from 1; 0 for the file as a whole.
    pub line: usize,
    /// The problem.
    pub problem: String,
}

impl fmt::Display for LinkTraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(&self.problem),
            line => write!(f, "line {line}: {}", self.problem),
        }
    }
}

impl std::error::Error for LinkTraceError {}

fn error(line: usize, problem: impl Into<String>) -> LinkTraceError {
    LinkTraceError {
        line,
        problem: problem.into(),
    }
}

/// Reads a file. A CSV begins with its columns; anything else is Mahimahi's.
///
/// # Errors
///
/// The first line that is not of the format, and a file beyond the limits.
pub fn read(text: &str) -> Result<LinkTrace, LinkTraceError> {
    if text.len() > TRACE_BYTES_MAX {
        return Err(error(0, TOO_LONG));
    }
    let mut lines = (1..).zip(text.lines()).filter(|(_, line)| has_value(line));
    let (line, first) = lines.next().ok_or_else(|| error(0, "the file is empty"))?;
    if first.trim_start().starts_with(|c: char| c.is_ascii_digit()) {
        return opportunities(std::iter::once((line, first)).chain(lines));
    }
    rows(line, first, lines)
}

/// Whether a line is neither blank nor a comment.
fn has_value(line: &str) -> bool {
    let line = line.trim();
    !line.is_empty() && !line.starts_with('#')
}

fn opportunities<'a>(
    lines: impl Iterator<Item = (usize, &'a str)>,
) -> Result<LinkTrace, LinkTraceError> {
    let (mut times, mut places) = (Vec::new(), Vec::new());
    for (line, text) in lines {
        let millis: Option<u64> = text.trim().parse().ok();
        let millis = millis.filter(|millis| *millis as f64 <= NUMBER_MAX);
        let millis = millis.ok_or_else(|| error(line, "expected a time in ms, such as 12"))?;
        push(&mut times, &mut places, Duration::from_millis(millis), line)?;
    }
    LinkTrace::of_opportunities(times).map_err(|why| located(&places, why))
}

fn rows<'a>(
    header_line: usize,
    header: &str,
    lines: impl Iterator<Item = (usize, &'a str)>,
) -> Result<LinkTrace, LinkTraceError> {
    let names: Vec<&str> = header.split(',').map(str::trim).collect();
    for (place, name) in names.iter().enumerate() {
        let is_known = *name == "time_ms" || COLUMNS.contains(name);
        if !is_known || names[..place].contains(name) {
            let known = COLUMNS.join(", ");
            // A scenario may name any file: its contents are not shown.
            let number = place + 1;
            let problem =
                format!("column {number} is unknown, or there twice; columns are time_ms, {known}");
            return Err(error(header_line, problem));
        }
    }
    let column = |wanted: &str| names.iter().position(|name| *name == wanted);
    let time = column("time_ms").filter(|_| names.len() > 1);
    let time = time.ok_or_else(|| {
        let problem = format!(
            "expected columns time_ms and one or more of {}",
            COLUMNS.join(", ")
        );
        error(header_line, problem)
    })?;
    let [rate, delay, loss] = COLUMNS.map(column);
    let (mut rows, mut places) = (Vec::new(), Vec::new());
    for (line, text) in lines {
        let cells: Vec<&str> = text.split(',').map(str::trim).collect();
        if cells.len() != names.len() {
            let problem = format!("{} values for {} columns", cells.len(), names.len());
            return Err(error(line, problem));
        }
        let number = |column: usize, most: f64| {
            let value: Option<f64> = cells[column].parse().ok();
            let value = value.filter(|value| (0.0..=most).contains(value));
            value.ok_or_else(|| {
                let name = names[column];
                error(line, format!("{name} is not a number from 0 to {most}"))
            })
        };
        let optional =
            |column: Option<usize>, most| column.map(|column| number(column, most)).transpose();
        let micros = |millis: f64| Duration::from_micros((millis * 1_000.0 + 0.5) as u64);
        let row = TraceRow {
            at: micros(number(time, NUMBER_MAX)?),
            rate_bps: optional(rate, NUMBER_MAX)?.map(|kbit| (kbit * 1_000.0 + 0.5) as u64),
            delay: optional(delay, NUMBER_MAX)?.map(micros),
            loss: optional(loss, 100.0)?
                .map(|percent| Probability::ppm((percent * 10_000.0 + 0.5) as u32)),
        };
        push(&mut rows, &mut places, row, line)?;
    }
    LinkTrace::of_rows(rows).map_err(|why| located(&places, why))
}

/// Adds a row with its line, up to the limit.
fn push<T>(
    rows: &mut Vec<T>,
    places: &mut Vec<usize>,
    row: T,
    line: usize,
) -> Result<(), LinkTraceError> {
    if rows.len() == TRACE_ROWS_MAX {
        return Err(error(line, TraceError::TooLong.to_string()));
    }
    rows.push(row);
    places.push(line);
    Ok(())
}

fn located(places: &[usize], why: TraceError) -> LinkTraceError {
    let row = match why {
        TraceError::OutOfOrder(row) | TraceError::Uneven(row) => places.get(row).copied(),
        _ => None,
    };
    error(row.unwrap_or(0), why.to_string())
}

/// Reads the file at a path.
///
/// # Errors
///
/// A file that cannot be read or is no trace, with its path and line.
pub fn read_file(path: &Path) -> Result<(LinkTrace, String), String> {
    let failed = |why: &dyn fmt::Display| format!("{}: {why}", path.display());
    let text = files::read_text(path, TRACE_BYTES_MAX).map_err(|error| match error.kind() {
        io::ErrorKind::FileTooLarge => failed(&TOO_LONG),
        _ => failed(&error),
    })?;
    let trace = read(&text).map_err(|why| match why.line {
        0 => failed(&why.problem),
        line => format!("{}:{line}: {}", path.display(), why.problem),
    })?;
    Ok((trace, text))
}

/// Name of a trace whose text is inline.
pub const WRITTEN: &str = "in place";

/// A trace that a key names.
#[derive(Clone, Debug, PartialEq)]
pub struct Source {
    /// Path of its file, or [`WRITTEN`].
    pub name: String,
    /// Hash of its text.
    pub hash: u64,
    /// Its series.
    pub trace: Arc<LinkTrace>,
}

impl Source {
    fn new(name: String, text: &str, trace: LinkTrace) -> Self {
        Self {
            name,
            hash: fnv1a(text.as_bytes()),
            trace: Arc::new(trace),
        }
    }
}

thread_local! {
    /// Files of this thread by name, for programs without a file system.
    static ATTACHED: RefCell<BTreeMap<String, Source>> = const { RefCell::new(BTreeMap::new()) };
}

/// The most files that are attached to a thread.
pub const ATTACHED_MAX: usize = 8;

/// Attaches the text of a file, which keys of this thread name in the place of a path from now on. One of the same
/// name is replaced.
///
/// # Errors
///
/// The errors of [`read`], and more than [`ATTACHED_MAX`] files.
pub fn attach(name: &str, text: &str) -> Result<Source, LinkTraceError> {
    let source = Source::new(name.to_owned(), text, read(text)?);
    ATTACHED.with_borrow_mut(|attached| {
        if attached.len() >= ATTACHED_MAX && !attached.contains_key(name) {
            let problem = format!("{ATTACHED_MAX} other files are open, which is the limit");
            return Err(error(0, problem));
        }
        attached.insert(name.to_owned(), source.clone());
        Ok(source)
    })
}

/// Returns true for the text of a trace, which has lines; a path has none.
pub fn is_text(value: &str) -> bool {
    value.contains('\n')
}

/// Reads the trace that a value states: its text, the name of an attached file, or the path of a file relative to a
/// folder.
///
/// # Errors
///
/// The errors of [`read_file`], or of the text, with the line.
pub fn read_value(value: &str, folder: &Path) -> Result<Source, String> {
    if is_text(value) {
        let trace = read(value).map_err(|why| why.to_string())?;
        return Ok(Source::new(WRITTEN.to_owned(), value, trace));
    }
    if let Some(source) = ATTACHED.with_borrow(|attached| attached.get(value).cloned()) {
        return Ok(source);
    }
    let path = folder.join(value);
    let (trace, text) = read_file(&path)?;
    Ok(Source::new(path.display().to_string(), &text, trace))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attached_file_is_named_like_one_of_the_disk() {
        let text = "time_ms,rate_kbit_s\n0,20\n";
        attach("attached.csv", text).expect("a trace");
        let source = read_value("attached.csv", Path::new("")).expect("attached");
        assert_eq!(
            (source.name.as_str(), source.trace.rows()),
            ("attached.csv", 1)
        );
        assert_eq!(
            source.hash,
            read_value(text, Path::new("")).expect("a trace").hash
        );
        assert!(read_value("other.csv", Path::new("no folder")).is_err());
        for k in 1..ATTACHED_MAX {
            attach(&format!("{k}.csv"), text).expect("a trace");
        }
        let error = attach("more.csv", text).expect_err("too many");
        assert!(error.problem.contains("limit"), "{error}");
        attach("attached.csv", text).expect("the same again");
    }

    fn wrong(text: &str) -> String {
        read(text).expect_err("no trace").to_string()
    }

    #[test]
    fn a_csv_has_named_columns_in_any_order() {
        let text = "# measured\ntime_ms,delay_ms,rate_kbit_s\n0,30.5,60\n\n500, 40, 0.5\n";
        let trace = read(text).expect("a trace");
        assert_eq!((trace.rows(), trace.length()), (2, Duration::from_secs(1)));
        assert_eq!(trace.mean_rate_bps(), Some(30_250));
        assert!(trace.has_delay() && !trace.has_loss());
        let lossy = read("time_ms,loss_percent\n0,2.5\n").expect("a trace");
        assert!(lossy.has_loss() && lossy.mean_rate_bps().is_none());
    }

    #[test]
    fn lines_of_times_are_opportunities() {
        let trace = read("1\n2\r\n2\n10\n").expect("a trace");
        assert_eq!(
            (trace.rows(), trace.length()),
            (4, Duration::from_millis(10))
        );
    }

    #[test]
    fn an_error_names_its_line() {
        assert_eq!(wrong("\n# none\n"), "the file is empty");
        assert!(wrong("1\ntwo\n").starts_with("line 2: expected a time in ms"));
        assert!(wrong("3\n1\n").starts_with("line 2: times must increase"));
        assert!(wrong("time_ms,rate\n0,1\n").starts_with("line 1: column 2 is unknown"));
        assert!(
            wrong("time_ms,delay_ms,delay_ms\n")
                .starts_with("line 1: column 3 is unknown, or there twice")
        );
        assert!(wrong("time_ms\n0\n").starts_with("line 1: expected columns"));
        assert!(wrong("time_ms,delay_ms\n0,1\n1,2,3\n").starts_with("line 3: 3 values"));
        assert!(wrong("time_ms,loss_percent\n0,101\n").starts_with("line 2: loss_percent is"));
        assert!(wrong("time_ms,rate_kbit_s\n# x\n0,-1\n").starts_with("line 3: rate_kbit_s is"));
        assert!(wrong("time_ms,rate_kbit_s\n0,1\n0,1\n").starts_with("line 3: times"));
        assert_eq!(
            wrong("time_ms,rate_kbit_s\n0,0\n"),
            "nothing would ever be delivered"
        );
        assert_eq!(
            wrong("time_ms,rate_kbit_s\n"),
            "a trace has at least one row"
        );
        assert!(wrong(&"1\n".repeat(TRACE_ROWS_MAX + 1)).contains("at most"));
    }
}
