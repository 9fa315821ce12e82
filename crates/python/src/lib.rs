//! The module `carob._carob`: the compiled part of the Python package `carob`.
//!
//! Bottom up: [`table`] (Arrow), [`scenario`], [`runs`], [`compare`], [`recommendation`], [`figures`] and [`batches`] (the lab), [`controller`] (a controller
//! alone), [`aio`] (the CoAP stack under asyncio), and the command. Docstrings and types are in
//! `python/carob/_carob.pyi`.

#![allow(
    clippy::needless_pass_by_value,
    reason = "PyO3 converts arguments into values of their own"
)]

mod aio;
mod batches;
mod compare;
mod controller;
mod errors;
mod figures;
mod recommendation;
mod runs;
mod scenario;
mod table;

use pyo3::pymodule;

#[pymodule]
mod _carob {
    use pyo3::prelude::*;

    #[pymodule_export]
    use super::aio::{Client, Notifier, Observation, Request, Response, Server};
    #[pymodule_export]
    use super::batches::Batches;
    #[pymodule_export]
    use super::controller::{Controller, Exchange};
    #[pymodule_export]
    use super::errors::{
        CarobError, CoapError, ControllerError, ScenarioError, VersionMismatchError,
    };
    #[pymodule_export]
    use super::figures::{Swept, difference_figure, figures, looks};
    #[pymodule_export]
    use super::recommendation::recommend;
    #[pymodule_export]
    use super::runs::{Runs, load};
    #[pymodule_export]
    use super::scenario::{Scenario, controllers, metrics, run_batch, scenarios};
    #[pymodule_export]
    use super::table::Table;

    /// Runs a command line of `carob`, or of `carob-studies` if that is its first word, and returns the exit code.
    #[pyfunction]
    fn command(py: Python<'_>, words: Vec<std::ffi::OsString>) -> u8 {
        let controllers = carob_cli::Registry::BUILT_IN;
        py.detach(|| match words.first() {
            Some(name) if name == "carob-studies" => carob_studies::run(controllers, words),
            _ => carob_cli::run(controllers, words),
        })
    }

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        super::aio::end_with_interpreter(module)?;
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
