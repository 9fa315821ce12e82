//! The CoAP stack under asyncio: the compiled part of `carob.aio`.

mod client;
mod runtime;
mod server;

use std::fmt::Display;
use std::time::Duration;

use bytes::Bytes;
use carob::{Code, Config, Options, PreSharedKey, Reply};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

pub(crate) use client::{Client, Observation};
pub(crate) use runtime::end_with_interpreter;
pub(crate) use server::{Notifier, Request, Server};

use crate::errors::CoapError;

/// An option as (number, value).
type RawOption = (u16, Vec<u8>);
/// Certificate chain and private key, PEM.
type Pair = (Vec<u8>, Vec<u8>);

/// An error with its causes and the next thing to try.
fn failed(error: impl Display, remedy: Option<&str>) -> PyErr {
    let text = match remedy {
        Some(remedy) => format!("{error}\nhint: {remedy}"),
        None => error.to_string(),
    };
    CoapError::new_err(text)
}

fn request_failed(error: &carob::Error) -> PyErr {
    failed(error.report(), error.remedy())
}

fn unusable(error: &dyn std::error::Error) -> PyErr {
    let cause = error.source().map(|cause| format!(": {cause}"));
    failed(format_args!("{error}{}", cause.unwrap_or_default()), None)
}

fn config(controller: Option<&str>) -> PyResult<Config> {
    let mut config = Config::new();
    if let Some(name) = controller {
        let named = config.controller_named(name);
        config = named.map_err(|error| failed(error, Some("carob.controllers() has all")))?;
    }
    Ok(config)
}

fn psk((identity, key): &Pair) -> PyResult<PreSharedKey> {
    PreSharedKey::new(identity.clone(), key.clone()).map_err(|error| unusable(&error))
}

fn dotted(code: Code) -> String {
    format!("{}.{:02}", code.class(), code.detail())
}

fn raw(options: &Options) -> Vec<RawOption> {
    let all = options.iter();
    all.map(|one| (one.number.0, one.value.to_vec())).collect()
}

fn span(seconds: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(seconds)
        .map_err(|_| PyValueError::new_err(format!("{seconds}: expected seconds from 0 on")))
}

/// A response.
#[pyclass(frozen, module = "carob.aio")]
pub(crate) struct Response {
    code: Code,
    options: Options,
    payload: Bytes,
    format: Option<u16>,
    peer: String,
    elapsed: f64,
    origin: &'static str,
}

impl Response {
    fn of(reply: &Reply) -> Self {
        Self {
            code: reply.code,
            options: reply.options.clone(),
            payload: reply.bytes().clone(),
            format: reply.format().map(|format| format.0),
            peer: reply.peer.to_string(),
            elapsed: reply.after.as_secs_f64(),
            origin: match reply.origin {
                carob::Origin::Network => "network",
                carob::Origin::Fresh => "fresh",
                _ => "validated",
            },
        }
    }
}

#[pymethods]
impl Response {
    #[getter]
    fn code(&self) -> String {
        dotted(self.code)
    }

    #[getter]
    fn ok(&self) -> bool {
        self.code.is_success()
    }

    #[getter]
    fn payload<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.payload)
    }

    #[getter]
    fn text<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyString>> {
        PyString::from_encoded_object(&self.payload(py), Some(c"utf-8"), Some(c"strict"))
    }

    #[getter]
    fn options(&self) -> Vec<RawOption> {
        raw(&self.options)
    }

    #[getter]
    fn content_format(&self) -> Option<u16> {
        self.format
    }

    #[getter]
    fn peer(&self) -> &str {
        &self.peer
    }

    #[getter]
    fn elapsed(&self) -> f64 {
        self.elapsed
    }

    #[getter]
    fn origin(&self) -> &str {
        self.origin
    }

    fn __repr__(&self) -> String {
        let (code, bytes) = (dotted(self.code), self.payload.len());
        format!("Response({code}, {bytes} bytes, {:.3} s)", self.elapsed)
    }
}
