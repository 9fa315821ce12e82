//! Parquet files of the command, and the parts of a batch joined.

use std::fs::File;
use std::io::{self, IsTerminal as _, Read as _, Write};
use std::path::{Path, PathBuf};

use ::parquet::column::writer::ColumnCloseResult;
use ::parquet::errors::ParquetError;
use ::parquet::file::reader::{FileReader as _, SerializedFileReader};
use ::parquet::file::writer::SerializedFileWriter;
use carob_lab::export::{Column, Value};
use carob_lab::parquet::{self, ParquetWriter, properties};

use super::shard::{self, Format, Shard};
use crate::failure::{Failure, Kind};

/// Key of the entry that names a part of a batch.
const SHARD: &str = "carob.shard";
/// Key of the entry with format, version and hash of a part's batch.
const BATCH: &str = "carob.batch";

/// A Parquet file to which rows are added.
pub(super) struct ParquetFile {
    path: PathBuf,
    writer: ParquetWriter<File>,
}

/// The source of a file's rows, for its metadata.
pub(super) struct Origin<'a> {
    /// Scenario or sweep.
    pub(super) name: &'a str,
    /// The command.
    pub(super) command: &'a str,
    /// Hash of everything that decides the rows of the whole batch.
    pub(super) hash: &'a str,
    /// The part of the batch.
    pub(super) shard: Option<Shard>,
}

impl ParquetFile {
    /// Creates a file, and overwrites one of that name.
    pub(super) fn create(
        path: &Path,
        columns: Vec<Column>,
        origin: &Origin<'_>,
    ) -> Result<Self, Failure> {
        let file = File::create(path).map_err(|error| Failure::file("write", path, &error))?;
        let of = parquet::Origin {
            name: origin.name,
            command: origin.command,
            hash: origin.hash,
        };
        let writer = ParquetWriter::new(file, columns, &of, &origin.part());
        Ok(Self {
            path: path.to_owned(),
            writer: writer.map_err(|error| failed("write", path, &error))?,
        })
    }

    /// Adds rows; whole row groups are written at once.
    pub(super) fn add(
        &mut self,
        rows: impl IntoIterator<Item = Vec<Value>>,
    ) -> Result<(), Failure> {
        let added = self.writer.add(rows);
        added.map_err(|error| failed("write", &self.path, &error))
    }

    /// Writes the remaining rows and the footer; returns the number of rows.
    pub(super) fn finish(self) -> Result<usize, Failure> {
        let finished = self.writer.finish();
        finished.map_err(|error| failed("write", &self.path, &error))
    }
}

impl Origin<'_> {
    /// Entries of the metadata that name the part of a batch.
    fn part(&self) -> Vec<(String, String)> {
        let Some(shard) = self.shard else {
            return Vec::new();
        };
        let batch = shard::batch(Format::Parquet, self.hash);
        vec![
            (SHARD.to_owned(), shard.to_string()),
            (BATCH.to_owned(), batch),
        ]
    }
}

fn failed(action: &str, path: &Path, error: &ParquetError) -> Failure {
    let what = format_args!("cannot {action} {}: {error}", path.display());
    Failure::new(Kind::File, what)
}

/// Returns true if a file begins as Parquet files do.
pub(super) fn is_parquet(path: &Path) -> io::Result<bool> {
    let mut first = Vec::new();
    File::open(path)?.take(4).read_to_end(&mut first)?;
    Ok(first == b"PAR1")
}

/// The part and the batch that a file names.
pub(super) fn part_of(path: &Path) -> Result<Option<(Shard, String)>, Failure> {
    let reader = open(path)?;
    let entries = entries(&reader);
    let find = |name: &str| {
        let entry = entries.iter().find(|(key, _)| key == name);
        entry.map(|(_, value)| value.clone())
    };
    let shard = find(SHARD).and_then(|text| text.parse().ok());
    Ok(shard.zip(find(BATCH)))
}

fn open(path: &Path) -> Result<SerializedFileReader<File>, Failure> {
    let file = File::open(path).map_err(|error| Failure::file("read", path, &error))?;
    SerializedFileReader::new(file).map_err(|error| {
        failed("read", path, &error)
            .hint("a run that was interrupted leaves half a file; run it again")
    })
}

fn entries(reader: &SerializedFileReader<File>) -> Vec<(String, String)> {
    let entries = reader.metadata().file_metadata().key_value_metadata();
    let entries = entries.into_iter().flatten();
    entries
        .filter_map(|entry| Some((entry.key.clone(), entry.value.clone()?)))
        .collect()
}

/// Standard output, which is locked for each write only.
struct Stdout;

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        crate::output::bytes().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        crate::output::bytes().flush()
    }
}

/// Joins parts of one batch, in this order, on standard output. Row groups are copied as they are.
pub(super) fn join(paths: &[&Path]) -> Result<(), Failure> {
    if io::stdout().is_terminal() {
        return Err(Failure::new(
            Kind::Usage,
            "a Parquet file is binary, and stdout is a terminal",
        )
        .hint("write it to a file: carob lab merge PARTS > all.parquet"));
    }
    let first = open(paths[0])?;
    let mut of_all = entries(&first);
    of_all.retain(|(key, _)| key != SHARD && key != BATCH);
    let schema = first
        .metadata()
        .file_metadata()
        .schema_descr()
        .root_schema_ptr();
    let writer = SerializedFileWriter::new(Stdout, schema, properties(of_all));
    let mut writer = writer.map_err(|error| failed("write", Path::new("stdout"), &error))?;
    for path in paths {
        copy_groups(path, &mut writer).map_err(|error| failed("join", path, &error))?;
    }
    let closed = writer.close();
    closed.map_err(|error| failed("write", Path::new("stdout"), &error))?;
    Ok(())
}

fn copy_groups(path: &Path, writer: &mut SerializedFileWriter<Stdout>) -> Result<(), ParquetError> {
    let reader = SerializedFileReader::new(File::open(path)?)?;
    let file = File::open(path)?;
    for group in reader.metadata().row_groups() {
        let mut copy = writer.next_row_group()?;
        for column in group.columns() {
            let chunk = ColumnCloseResult {
                bytes_written: column.compressed_size().cast_unsigned(),
                rows_written: group.num_rows().cast_unsigned(),
                metadata: column.clone(),
                bloom_filter: None,
                column_index: None,
                offset_index: None,
            };
            copy.append_column(&file, chunk)?;
        }
        copy.close()?;
    }
    Ok(())
}
