//! Batches of scenarios whose runs other processes execute.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::PathBuf;

use carob_lab::export;
use carob_lab::run::Records;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::errors::VersionMismatchError;
use crate::runs::{Labels, Point, Runs, failed};
use crate::scenario::{Scenario, selection};

/// A batch of scenarios whose runs other processes execute, in any order of parts.
#[pyclass(module = "carob")]
pub(crate) struct Batches {
    points: Vec<Point>,
    /// Number of runs of each point.
    jobs: Vec<usize>,
    /// The file that receives the rows instead of memory, and its name.
    file: Option<(BufWriter<File>, String)>,
}

#[pymethods]
impl Batches {
    /// A batch of points: scenarios, each with its swept settings and values.
    #[new]
    #[pyo3(signature = (points, cell=None, everywhere=false, seed=None, seeds=None))]
    fn new(
        points: Vec<(Bound<'_, Scenario>, Labels)>,
        cell: Option<String>,
        everywhere: bool,
        seed: Option<u64>,
        seeds: Option<u64>,
    ) -> PyResult<Self> {
        let selection = selection(cell, everywhere, seed, seeds);
        let mut batches = Self {
            points: Vec::with_capacity(points.len()),
            jobs: Vec::with_capacity(points.len()),
            file: None,
        };
        for (scenario, labels) in points {
            let scenario = scenario.get();
            batches.jobs.push(scenario.plan(&selection)?.jobs().len());
            batches.points.push(scenario.point(labels, &selection));
        }
        Ok(batches)
    }

    /// Number of runs of each point.
    #[getter]
    fn jobs(&self) -> Vec<usize> {
        self.jobs.clone()
    }

    /// Writes the rows to a JSON Lines file instead of memory.
    fn write_to(&mut self, path: PathBuf) -> PyResult<()> {
        let shown = path.display().to_string();
        let file = File::create(&path).map_err(|error| failed(&shown, &error))?;
        self.file = Some((BufWriter::new(file), shown));
        Ok(())
    }

    /// Takes the records of the runs `start..` of a point. Parts come in order.
    fn add(&mut self, py: Python<'_>, point: usize, start: usize, records: &[u8]) -> PyResult<()> {
        py.detach(|| {
            let records = Records::from_bytes(records)
                .map_err(|error| VersionMismatchError::new_err(error.to_string()))?;
            let Self { points, file, .. } = self;
            let point = &mut points[point];
            let Some((writer, shown)) = file else {
                if point.records.len() != start {
                    return Err(PyValueError::new_err("parts must come in order"));
                }
                point.records.append(records);
                return Ok(());
            };
            let plan = point.plan();
            let part = plan.part(start..start + records.len());
            let rows = point.labelled(part.outcome_of(records).each());
            rows.iter()
                .try_for_each(|row| writer.write_all(export::each_json(row).as_bytes()))
                .map_err(|error| failed(shown, &error))
        })
    }

    /// The runs, after all parts have arrived.
    fn runs(&mut self) -> PyResult<Runs> {
        let complete =
            (self.points.iter().zip(&self.jobs)).all(|(point, jobs)| point.records.len() == *jobs);
        if !complete {
            return Err(PyValueError::new_err("parts are missing"));
        }
        Ok(Runs::of(std::mem::take(&mut self.points)))
    }

    /// Completes the file.
    fn finish(&mut self) -> PyResult<()> {
        let Some((mut writer, shown)) = self.file.take() else {
            return Err(PyValueError::new_err("no file was named"));
        };
        writer.flush().map_err(|error| failed(&shown, &error))
    }
}
