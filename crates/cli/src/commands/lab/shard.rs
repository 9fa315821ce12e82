//! `--shard i/n` and `carob lab merge`: parts of a batch as plain files, joined to what one run prints.
//!
//! A part begins with a line that names it and the batch, and continues with consecutive rows; so
//! parts are joined by copying them in order, without reading them into memory.

use std::fmt;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::parquet;
use crate::failure::{Failure, Kind, Outcome};

/// Beginning of the first line of a part.
const FIRST: &str = "# carob shard ";
/// The most parts of a batch.
const PARTS_MAX: u32 = 100_000;

/// The form of the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Table,
    Json,
    Csv,
    Parquet,
}

impl Format {
    const fn name(self) -> &'static str {
        match self {
            Self::Table => "table",
            Self::Json => "json",
            Self::Csv => "csv",
            Self::Parquet => "parquet",
        }
    }
}

/// A part of a batch: `2/5` is the second of five.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shard {
    number: u32,
    of: u32,
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "expected I/N with I from 1 to N, such as 2/5".to_owned();
        let (number, of) = text.split_once('/').ok_or_else(wrong)?;
        let number = number.parse().map_err(|_| wrong())?;
        let of = of.parse().map_err(|_| wrong())?;
        if number == 0 || number > of || of > PARTS_MAX {
            return Err(wrong());
        }
        Ok(Self { number, of })
    }
}

impl Shard {
    /// The rows of this part, of so many.
    pub(super) fn of(self, rows: usize) -> Range<usize> {
        let end = |part: u32| {
            let end = rows as u128 * u128::from(part) / u128::from(self.of);
            usize::try_from(end).unwrap_or(rows)
        };
        end(self.number - 1)..end(self.number)
    }

    /// Returns whether this is the first part.
    pub(super) fn is_first(self) -> bool {
        self.number == 1
    }

    /// The line that a part begins with; `key` is a hash of everything that decides the rows.
    pub(super) fn first_line(self, format: Format, key: &str) -> String {
        format!("{FIRST}{self} {}\n", batch(format, key))
    }
}

/// Format, version and hash, which all parts of a batch have in common.
pub(super) fn batch(format: Format, key: &str) -> String {
    let version = env!("CARGO_PKG_VERSION");
    format!("{} version {version} hash {key}", format.name())
}

/// A part's file, read up to its first row.
struct Part {
    path: PathBuf,
    shard: Shard,
    /// Format, version and hash.
    batch: String,
    rows: BufReader<File>,
}

impl Part {
    fn open(path: &Path) -> Result<Self, Failure> {
        let failed = |error: io::Error| Failure::file("read", path, &error);
        let mut rows = BufReader::new(File::open(path).map_err(failed)?);
        let found = if parquet::is_parquet(path).map_err(failed)? {
            parquet::part_of(path)?
        } else {
            first_line_of(&mut rows).map_err(failed)?
        };
        let Some((shard, batch)) = found else {
            let what = format_args!("{}: no part of a batch", path.display());
            return Err(Failure::new(Kind::Usage, what)
                .hint("`carob lab run NAME --each --json --shard I/N > FILE` writes one"));
        };
        Ok(Self {
            path: path.to_owned(),
            shard,
            batch,
            rows,
        })
    }
}

/// The part and the batch that the first line of a text names.
fn first_line_of(rows: &mut impl io::BufRead) -> io::Result<Option<(Shard, String)>> {
    let mut line = String::new();
    // A file without line ends is no part; its first line may be as long as the file.
    io::Read::take(rows, 200).read_line(&mut line)?;
    Ok(line.strip_prefix(FIRST).and_then(|rest| {
        let (shard, batch) = rest.trim_end().split_once(' ')?;
        Some((shard.parse().ok()?, batch.to_owned()))
    }))
}

/// Joins parts, in the order of their numbers.
pub(super) fn merge(paths: &[PathBuf]) -> Result<Outcome, Failure> {
    let parts: Result<Vec<Part>, Failure> = paths.iter().map(|path| Part::open(path)).collect();
    let mut parts = parts?;
    parts.sort_by_key(|part| part.shard.number);
    let (of, batch) = (parts[0].shard.of, parts[0].batch.clone());
    if let Some(other) = parts.iter().find(|p| p.batch != batch || p.shard.of != of) {
        let (one, other) = (parts[0].path.display(), other.path.display());
        let what = format_args!("{one} and {other} are of different batches");
        return Err(Failure::new(Kind::Usage, what)
            .hint("merge parts of one command, scenario and version of carob"));
    }
    for number in 1..=of {
        match parts.iter().filter(|p| p.shard.number == number).count() {
            1 => {}
            0 => {
                let what = format_args!("part {number}/{of} is missing");
                return Err(Failure::new(Kind::Usage, what).hint(format_args!(
                    "run the command again with --shard {number}/{of}"
                )));
            }
            _ => {
                let what = format_args!("part {number}/{of} is there twice");
                return Err(Failure::new(Kind::Usage, what).hint("name each part once"));
            }
        }
    }
    if batch.starts_with(Format::Parquet.name()) {
        let paths: Vec<&Path> = parts.iter().map(|part| &*part.path).collect();
        return parquet::join(&paths).map(|()| Outcome::Done);
    }
    let mut out = io::BufWriter::new(crate::output::bytes());
    // The names of columns are the same in all parts; a document's head is in the first alone.
    let heads = usize::from(batch.starts_with(Format::Csv.name()));
    for (place, part) in parts.iter_mut().enumerate() {
        let failed = |error: io::Error| Failure::file("read", &part.path, &error);
        if place > 0 {
            skip_head(&mut part.rows, heads).map_err(failed)?;
        }
        if copy(&mut part.rows, &mut out).map_err(failed)?.is_none() {
            return Ok(Outcome::Done);
        }
    }
    let _ = out.flush();
    Ok(Outcome::Done)
}

/// Skips the first lines of a part.
fn skip_head(rows: &mut impl io::BufRead, lines: usize) -> io::Result<()> {
    let mut line = String::new();
    for _ in 0..lines {
        line.clear();
        if rows.read_line(&mut line)? == 0 {
            break;
        }
    }
    Ok(())
}

/// Copies to the output; `None` if it takes no more, which the command's end reports.
fn copy(from: &mut impl io::BufRead, to: &mut impl io::Write) -> io::Result<Option<()>> {
    loop {
        let bytes = from.fill_buf()?;
        if bytes.is_empty() {
            return Ok(Some(()));
        }
        if to.write_all(bytes).is_err() {
            return Ok(None);
        }
        let length = bytes.len();
        from.consume(length);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_all_rows_once_and_in_order() {
        for (rows, of) in [(10, 3), (2, 5), (0, 2), (7, 7)] {
            let parts = (1..=of).flat_map(|number| Shard { number, of }.of(rows));
            assert_eq!(parts.collect::<Vec<_>>(), (0..rows).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_part_is_written_as_its_number_and_theirs() {
        assert_eq!("2/5".parse(), Ok(Shard { number: 2, of: 5 }));
        for wrong in ["0/5", "6/5", "2", "a/b", "1/1000000"] {
            assert!(wrong.parse::<Shard>().is_err(), "{wrong}");
        }
    }
}
