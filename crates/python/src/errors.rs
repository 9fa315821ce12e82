//! Exceptions. Each carries the hint that the command prints.

use std::fmt::Display;

use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;

create_exception!(
    carob,
    CarobError,
    PyException,
    "Base of all errors of carob."
);
create_exception!(
    carob,
    ScenarioError,
    CarobError,
    "A scenario, cell or setting that cannot be run."
);
create_exception!(
    carob,
    ControllerError,
    CarobError,
    "An unknown controller, or a constant or parameter that it does not take."
);
create_exception!(
    carob,
    VersionMismatchError,
    CarobError,
    "Records of another version of carob, or damaged ones."
);
create_exception!(
    carob,
    CoapError,
    CarobError,
    "A request that failed without a response, or an endpoint that cannot be opened."
);

/// An error of a scenario with the next thing to try.
pub(crate) fn scenario(error: impl Display, hint: &str) -> PyErr {
    ScenarioError::new_err(with_hint(error, hint))
}

/// An error of a controller with the next thing to try.
pub(crate) fn controller(error: impl Display, hint: &str) -> PyErr {
    ControllerError::new_err(with_hint(error, hint))
}

fn with_hint(error: impl Display, hint: &str) -> String {
    if hint.is_empty() {
        error.to_string()
    } else {
        format!("{error}\nhint: {hint}")
    }
}
