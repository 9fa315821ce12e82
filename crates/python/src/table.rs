//! Tables that cross to Python by the Arrow PyCapsule interface.

use std::sync::Arc;

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{
    Array, ArrayRef, Float64Array, RecordBatch, RecordBatchIterator, RecordBatchReader,
    StringArray, UInt64Array,
};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use carob_lab::export::{Column, ColumnKind, Value};
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyList};

use crate::errors::CarobError;

/// Rows of a record batch.
const ROWS: usize = 65_536;

/// A table in columns.
#[pyclass(frozen, module = "carob")]
pub(crate) struct Table {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
}

/// Builder of a table from rows.
pub(crate) struct TableBuilder {
    columns: Vec<Column>,
    schema: SchemaRef,
    rows: Vec<Vec<Value>>,
    batches: Vec<RecordBatch>,
}

impl TableBuilder {
    pub(crate) fn new(columns: Vec<Column>) -> Self {
        let schema = Arc::new(schema(&columns));
        Self {
            columns,
            schema,
            rows: Vec::new(),
            batches: Vec::new(),
        }
    }

    pub(crate) fn add(&mut self, rows: impl IntoIterator<Item = Vec<Value>>) {
        for row in rows {
            self.rows.push(row);
            if self.rows.len() == ROWS {
                self.flush();
            }
        }
    }

    fn flush(&mut self) {
        let rows = std::mem::take(&mut self.rows);
        let arrays = (self.columns.iter().enumerate())
            .map(|(place, column)| array(column.kind, &rows, place));
        let batch = RecordBatch::try_new(self.schema.clone(), arrays.collect());
        self.batches.push(batch.expect("arrays of the schema"));
    }

    pub(crate) fn finish(mut self) -> Table {
        if !self.rows.is_empty() {
            self.flush();
        }
        Table {
            schema: self.schema,
            batches: self.batches,
        }
    }
}

fn schema(columns: &[Column]) -> Schema {
    let field = |column: &Column| {
        let data_type = match column.kind {
            ColumnKind::Text => DataType::Utf8,
            ColumnKind::Count => DataType::UInt64,
            ColumnKind::Number => DataType::Float64,
        };
        let about = [
            ("unit".to_owned(), column.unit.to_owned()),
            ("meaning".to_owned(), column.about.clone()),
        ];
        Field::new(&column.name, data_type, true).with_metadata(about)
    };
    Schema::new(columns.iter().map(field).collect::<Vec<_>>())
}

fn array(kind: ColumnKind, rows: &[Vec<Value>], place: usize) -> ArrayRef {
    let cells = rows.iter().map(|row| &row[place]);
    match kind {
        ColumnKind::Text => Arc::new(cells.map(Value::text).collect::<StringArray>()),
        ColumnKind::Count => {
            let count = |value: &Value| match value {
                Value::Count(count) => Some(*count),
                _ => None,
            };
            Arc::new(cells.map(count).collect::<UInt64Array>())
        }
        ColumnKind::Number => {
            let number = |value: &Value| match value {
                Value::Number(number) => Some(*number),
                _ => None,
            };
            Arc::new(cells.map(number).collect::<Float64Array>())
        }
    }
}

#[pymethods]
impl Table {
    #[getter]
    fn columns(&self) -> Vec<String> {
        let fields = self.schema.fields().iter();
        fields.map(|field| field.name().clone()).collect()
    }

    /// Unit and meaning of each column.
    fn dictionary<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let all = PyDict::new(py);
        for field in self.schema.fields() {
            let of = |key: &str| field.metadata().get(key).cloned().unwrap_or_default();
            all.set_item(field.name(), (of("unit"), of("meaning")))?;
        }
        Ok(all)
    }

    fn __len__(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    /// The values of a column.
    fn __getitem__<'py>(&self, py: Python<'py>, column: &str) -> PyResult<Bound<'py, PyList>> {
        let Ok(place) = self.schema.index_of(column) else {
            let names = self.columns().join(", ");
            let what = format!("no column \"{column}\"; the columns are {names}");
            return Err(PyKeyError::new_err(what));
        };
        let list = PyList::empty(py);
        for batch in &self.batches {
            append(&list, batch.column(place))?;
        }
        Ok(list)
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // The interface lets a producer ignore the request.
        let _ = requested_schema;
        let batches: Vec<Result<RecordBatch, ArrowError>> =
            self.batches.iter().cloned().map(Ok).collect();
        let reader: Box<dyn RecordBatchReader + Send> =
            Box::new(RecordBatchIterator::new(batches, self.schema.clone()));
        let stream = FFI_ArrowArrayStream::new(reader);
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }
}

/// Appends the values of an array to a list.
fn append(list: &Bound<'_, PyList>, array: &ArrayRef) -> PyResult<()> {
    let any = array.as_any();
    if let Some(texts) = any.downcast_ref::<StringArray>() {
        texts.iter().try_for_each(|value| list.append(value))
    } else if let Some(counts) = any.downcast_ref::<UInt64Array>() {
        counts.iter().try_for_each(|value| list.append(value))
    } else if let Some(numbers) = any.downcast_ref::<Float64Array>() {
        numbers.iter().try_for_each(|value| list.append(value))
    } else {
        let what = format!("a column of type {}; use to_arrow()", array.data_type());
        Err(CarobError::new_err(what))
    }
}
