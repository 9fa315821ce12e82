//! Rows as Parquet files, with their data dictionary in the file's metadata.
//!
//! Rows are written in row groups of [`ROWS`], so memory does not grow with their number. A file that
//! was not finished has no footer, and no program reads it.

use std::fs::File;
use std::io::{self, IsTerminal as _, Read as _, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::parquet::basic::{Compression, ConvertedType, Repetition, Type as Physical};
use ::parquet::column::writer::ColumnCloseResult;
use ::parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use ::parquet::errors::ParquetError;
use ::parquet::file::metadata::KeyValue;
use ::parquet::file::properties::WriterProperties;
use ::parquet::file::reader::{FileReader as _, SerializedFileReader};
use ::parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use ::parquet::schema::types::{Type, TypePtr};
use carob_lab::export::{Column, ColumnKind, Value};
use carob_lab::metrics::METRICS;
use serde_json::json;

use super::shard::{self, Format, Shard};
use crate::failure::{Failure, Kind};

/// Rows of a row group.
const ROWS: usize = 16_384;
/// Key of the entry that names a part of a batch.
const SHARD: &str = "carob.shard";
/// Key of the entry with format, version and hash of a part's batch.
const BATCH: &str = "carob.batch";

/// A Parquet file to which rows are added.
pub(super) struct ParquetFile {
    path: PathBuf,
    writer: SerializedFileWriter<File>,
    columns: Vec<Column>,
    /// Rows of the next row group.
    rows: Vec<Vec<Value>>,
    written: usize,
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
        let writer =
            SerializedFileWriter::new(file, schema(&columns), properties(origin.entries(&columns)));
        Ok(Self {
            path: path.to_owned(),
            writer: writer.map_err(|error| failed("write", path, &error))?,
            columns,
            rows: Vec::new(),
            written: 0,
        })
    }

    /// Adds rows; whole row groups are written at once.
    pub(super) fn add(
        &mut self,
        rows: impl IntoIterator<Item = Vec<Value>>,
    ) -> Result<(), Failure> {
        for row in rows {
            self.rows.push(row);
            if self.rows.len() == ROWS {
                self.flush()?;
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Failure> {
        let rows = std::mem::take(&mut self.rows);
        self.written += rows.len();
        let written = self.write_group(&rows);
        written.map_err(|error| failed("write", &self.path, &error))
    }

    fn write_group(&mut self, rows: &[Vec<Value>]) -> Result<(), ParquetError> {
        let mut group = self.writer.next_row_group()?;
        for place in 0..self.columns.len() {
            let Some(mut column) = group.next_column()? else {
                break;
            };
            write_column(&mut column, self.columns[place].kind, rows, place)?;
            column.close()?;
        }
        group.close()?;
        Ok(())
    }

    /// Writes the remaining rows and the footer; returns the number of rows.
    pub(super) fn finish(mut self) -> Result<usize, Failure> {
        if !self.rows.is_empty() {
            self.flush()?;
        }
        let closed = self.writer.close();
        closed.map_err(|error| failed("write", &self.path, &error))?;
        Ok(self.written)
    }
}

impl Origin<'_> {
    /// Entries of the metadata.
    fn entries(&self, columns: &[Column]) -> Vec<(String, String)> {
        let columns = columns
            .iter()
            .map(|c| json!({ "name": c.name, "unit": c.unit, "meaning": c.about }));
        let metrics = METRICS.iter().map(
            |metric| json!({ "name": metric.name, "unit": metric.unit(), "meaning": metric.about }),
        );
        let mut entries = vec![
            ("carob.version", env!("CARGO_PKG_VERSION").to_owned()),
            ("carob.name", self.name.to_owned()),
            ("carob.command", self.command.to_owned()),
            ("carob.hash", self.hash.to_owned()),
            (
                "carob.columns",
                columns.collect::<serde_json::Value>().to_string(),
            ),
            (
                "carob.metrics",
                metrics.collect::<serde_json::Value>().to_string(),
            ),
        ];
        if let Some(shard) = self.shard {
            entries.push((SHARD, shard.to_string()));
            entries.push((BATCH, shard::batch(Format::Parquet, self.hash)));
        }
        let owned = |(key, value): (&str, String)| (key.to_owned(), value);
        entries.into_iter().map(owned).collect()
    }
}

fn failed(action: &str, path: &Path, error: &ParquetError) -> Failure {
    let what = format_args!("cannot {action} {}: {error}", path.display());
    Failure::new(Kind::File, what)
}

/// The type of a row; every column may lack values.
fn schema(columns: &[Column]) -> TypePtr {
    let field = |column: &Column| {
        let (physical, converted) = match column.kind {
            ColumnKind::Text => (Physical::BYTE_ARRAY, ConvertedType::UTF8),
            ColumnKind::Count => (Physical::INT64, ConvertedType::UINT_64),
            ColumnKind::Number => (Physical::DOUBLE, ConvertedType::NONE),
        };
        let field = Type::primitive_type_builder(&column.name, physical)
            .with_repetition(Repetition::OPTIONAL)
            .with_converted_type(converted)
            .build();
        Arc::new(field.expect("a type with its converted type"))
    };
    let row = Type::group_type_builder("row").with_fields(columns.iter().map(field).collect());
    Arc::new(row.build().expect("a group of fields"))
}

fn properties(entries: Vec<(String, String)>) -> Arc<WriterProperties> {
    let entries = entries
        .into_iter()
        .map(|(key, value)| KeyValue::new(key, value));
    let properties = WriterProperties::builder()
        .set_created_by(concat!("carob version ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(Compression::SNAPPY)
        .set_key_value_metadata(Some(entries.collect()));
    Arc::new(properties.build())
}

fn write_column(
    column: &mut SerializedColumnWriter<'_>,
    kind: ColumnKind,
    rows: &[Vec<Value>],
    place: usize,
) -> Result<(), ParquetError> {
    let cells = || rows.iter().map(|row| &row[place]);
    let present = cells().map(|value| i16::from(*value != Value::Missing));
    let present: Vec<i16> = present.collect();
    match kind {
        ColumnKind::Text => {
            let text = |value: &Value| match value {
                Value::Text(text) => Some(ByteArray::from(text.as_str())),
                _ => None,
            };
            let values: Vec<ByteArray> = cells().filter_map(text).collect();
            column
                .typed::<ByteArrayType>()
                .write_batch(&values, Some(&present), None)?;
        }
        ColumnKind::Count => {
            let count = |value: &Value| match value {
                Value::Count(count) => Some(count.cast_signed()),
                _ => None,
            };
            let values: Vec<i64> = cells().filter_map(count).collect();
            column
                .typed::<Int64Type>()
                .write_batch(&values, Some(&present), None)?;
        }
        ColumnKind::Number => {
            let number = |value: &Value| match value {
                Value::Number(number) => Some(*number),
                _ => None,
            };
            let values: Vec<f64> = cells().filter_map(number).collect();
            column
                .typed::<DoubleType>()
                .write_batch(&values, Some(&present), None)?;
        }
    }
    Ok(())
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
        return Err(
            Failure::new(Kind::Usage, "a Parquet file is no text for a terminal")
                .hint("write it to a file: carob lab merge PARTS > all.parquet"),
        );
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
