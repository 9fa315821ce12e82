//! The module `carob._carob`: what the Python package `carob` is made of.
//!
//! Bottom up: [`table`] (Arrow), [`scenario`] and [`runs`] (the lab), [`controller`] (a controller
//! alone), [`aio`] (the CoAP stack under asyncio). Docstrings and types are those of
//! `python/carob/_carob.pyi`.

mod aio;
mod controller;
mod errors;
mod runs;
mod scenario;
mod table;

use pyo3::prelude::*;

#[pymodule]
mod _carob {
    use super::*;

    #[pymodule_export]
    use super::aio::{Client, Notifier, Observation, Request, Response, Server};
    #[pymodule_export]
    use super::controller::{Controller, Exchange};
    #[pymodule_export]
    use super::errors::{
        CarobError, CoapError, ControllerError, ScenarioError, VersionMismatchError,
    };
    #[pymodule_export]
    use super::runs::{Batches, Runs};
    #[pymodule_export]
    use super::scenario::{Scenario, controllers, metrics, run_batch, scenarios};
    #[pymodule_export]
    use super::table::{Table, load};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
