//! Rows as Parquet files, with their data dictionary in the file's metadata.
//!
//! Rows are written in row groups of [`ROWS`], so memory does not grow with their number. A file that
//! was not finished has no footer, and no program reads it.

use std::io::Write;
use std::sync::Arc;

use ::parquet::basic::{Compression, ConvertedType, Repetition, Type as Physical};
use ::parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
pub use ::parquet::errors::ParquetError;
use ::parquet::file::metadata::KeyValue;
use ::parquet::file::properties::{WriterProperties, WriterPropertiesPtr};
use ::parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use ::parquet::schema::types::{Type, TypePtr};
use serde_json::json;

use crate::export::{Column, ColumnKind, Value};
use crate::metrics::{METRICS, Metric};

/// Rows of a row group.
pub const ROWS: usize = 16_384;

/// A Parquet file to which rows are added.
pub struct ParquetWriter<W: Write + Send> {
    writer: SerializedFileWriter<W>,
    columns: Vec<Column>,
    /// Rows of the next row group.
    rows: Vec<Vec<Value>>,
    written: usize,
}

/// The source of a file's rows, for its metadata.
#[derive(Clone, Copy, Debug)]
pub struct Origin<'a> {
    /// Scenario or sweep.
    pub name: &'a str,
    /// The command or call that repeats it.
    pub command: &'a str,
    /// Text of the scenario or sweep file.
    pub scenario: &'a str,
    /// Hash of everything that decides the rows of the whole batch, in hexadecimal.
    pub hash: &'a str,
}

impl<W: Write + Send> ParquetWriter<W> {
    /// Begins a file. `extra` are further entries of its metadata, as (key, value).
    ///
    /// # Errors
    ///
    /// [`ParquetError`] if the file cannot be written, here and in the other functions.
    pub fn new(
        file: W,
        columns: Vec<Column>,
        origin: &Origin<'_>,
        extra: &[(String, String)],
    ) -> Result<Self, ParquetError> {
        let mut entries = origin.entries(&columns);
        entries.extend_from_slice(extra);
        let writer = SerializedFileWriter::new(file, schema(&columns), properties(entries))?;
        Ok(Self {
            writer,
            columns,
            rows: Vec::new(),
            written: 0,
        })
    }

    /// Adds rows; whole row groups are written at once.
    pub fn add(&mut self, rows: impl IntoIterator<Item = Vec<Value>>) -> Result<(), ParquetError> {
        for row in rows {
            self.rows.push(row);
            if self.rows.len() == ROWS {
                self.flush()?;
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), ParquetError> {
        let rows = std::mem::take(&mut self.rows);
        self.written += rows.len();
        let mut group = self.writer.next_row_group()?;
        for place in 0..self.columns.len() {
            let Some(mut column) = group.next_column()? else {
                break;
            };
            write_column(&mut column, self.columns[place].kind, &rows, place)?;
            column.close()?;
        }
        group.close()?;
        Ok(())
    }

    /// Writes the remaining rows and the footer; returns the number of rows.
    pub fn finish(mut self) -> Result<usize, ParquetError> {
        if !self.rows.is_empty() {
            self.flush()?;
        }
        self.writer.close()?;
        Ok(self.written)
    }
}

impl Origin<'_> {
    /// Entries of the metadata.
    fn entries(&self, columns: &[Column]) -> Vec<(String, String)> {
        let columns = columns
            .iter()
            .map(|c| json!({ "name": c.name, "unit": c.unit, "meaning": c.about }));
        let metrics = METRICS.iter().map(Metric::entry);
        let entries = [
            ("carob.version", env!("CARGO_PKG_VERSION").to_owned()),
            ("carob.name", self.name.to_owned()),
            ("carob.command", self.command.to_owned()),
            ("carob.scenario", self.scenario.to_owned()),
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
        entries.map(|(key, value)| (key.to_owned(), value)).into()
    }
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

/// Properties of a file with these entries in its metadata.
pub fn properties(entries: Vec<(String, String)>) -> WriterPropertiesPtr {
    let entries = entries
        .into_iter()
        .map(|(key, value)| KeyValue::new(key, value));
    let properties = WriterProperties::builder()
        .set_created_by(concat!("carob version ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(Compression::SNAPPY)
        .set_key_value_metadata(Some(entries.collect()));
    Arc::new(properties.build())
}

/// Texts of a column; equal neighbours share their bytes.
fn texts<'a>(all: impl Iterator<Item = &'a str>) -> Vec<ByteArray> {
    let mut values: Vec<ByteArray> = Vec::new();
    let mut last = None;
    for text in all {
        let value = match values.last() {
            Some(value) if last == Some(text) => value.clone(),
            _ => ByteArray::from(text),
        };
        values.push(value);
        last = Some(text);
    }
    values
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
            let values = texts(cells().filter_map(Value::text));
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
