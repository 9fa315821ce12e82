//! The server: resources with handlers in Python.

use std::sync::Arc;

use carob::server::{self, HandlerFuture, IntoResponse, Resource};
use carob::tls::Identity;
use carob::{Code, ContentFormat, PreSharedKey, PskStore, ServerDtls, ServerTls};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};
use pyo3_async_runtimes::TaskLocals;
use pyo3_async_runtimes::tokio::get_current_locals;
use tokio::sync::Mutex as AsyncMutex;

use super::runtime::{attached, future_into_py};
use super::{Pair, RawOption, config, failed, psk, raw, span, unusable};

/// A request as handlers receive it.
#[pyclass(frozen, module = "carob.aio")]
pub(crate) struct Request(server::Request);

#[pymethods]
impl Request {
    #[getter]
    fn method(&self) -> u8 {
        self.0.method().0
    }

    #[getter]
    fn payload<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.0.payload())
    }

    #[getter]
    fn text<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyString>> {
        PyString::from_encoded_object(&self.payload(py), Some(c"utf-8"), Some(c"strict"))
    }

    #[getter]
    fn options(&self) -> Vec<RawOption> {
        raw(self.0.options())
    }

    #[getter]
    fn peer(&self) -> String {
        self.0.peer().to_string()
    }

    #[getter]
    fn content_format(&self) -> Option<u16> {
        self.0.content_format().map(|format| format.0)
    }

    #[getter]
    fn accept(&self) -> Option<u16> {
        self.0.accept().map(|format| format.0)
    }

    /// The segment of a parameter of the path, such as `id` in `/sensors/{id}`.
    fn parameter(&self, name: &str) -> Option<String> {
        self.0.parameter(name).map(str::to_owned)
    }

    /// The value of a query argument.
    fn query(&self, name: &str) -> Option<String> {
        self.0.query_value(name).map(str::to_owned)
    }
}

/// A trigger of notifications to the observers of resources.
#[pyclass(frozen, module = "carob.aio")]
pub(crate) struct Notifier(server::Notifier);

#[pymethods]
impl Notifier {
    /// Creates a trigger; `confirmable` sends notifications as CON.
    #[new]
    #[pyo3(signature = (confirmable=false))]
    fn new(confirmable: bool) -> Self {
        Self(if confirmable {
            server::Notifier::confirmable()
        } else {
            server::Notifier::new()
        })
    }

    /// Notifies all observers of the resources.
    fn changed(&self) {
        self.0.changed();
    }
}

/// Result of a handler: code, payload, Content-Format, Max-Age in seconds.
type Returned = (u8, Vec<u8>, Option<u16>, Option<f64>);

/// A handler in Python: an `async` function from a request to a [`Returned`].
struct PythonHandler {
    function: Arc<Py<PyAny>>,
    locals: TaskLocals,
}

impl server::Handler for PythonHandler {
    fn call(&self, request: server::Request) -> HandlerFuture {
        let (function, locals) = (Arc::clone(&self.function), self.locals.clone());
        Box::pin(async move {
            let returned = call(&function, &locals, request).await;
            // The Python wrapper logs exceptions and returns 5.00 for them, so only the wrapper
            // itself can fail here.
            returned.unwrap_or_else(|_| Code::INTERNAL_SERVER_ERROR.into_response())
        })
    }
}

async fn call(
    function: &Py<PyAny>,
    locals: &TaskLocals,
    request: server::Request,
) -> PyResult<carob::Response> {
    let ended = || PyRuntimeError::new_err("the program ends");
    let future = attached(|py| {
        let coroutine = function.call1(py, (Request(request),))?;
        pyo3_async_runtimes::into_future_with_locals(locals, coroutine.into_bound(py))
    })
    .ok_or_else(ended)??;
    let returned = future.await?;
    let extracted = attached(|py| returned.extract::<Returned>(py));
    let (code, payload, format, max_age) = extracted.ok_or_else(ended)??;
    let mut response = carob::Response::new(Code(code)).with_payload(payload);
    if let Some(format) = format {
        response = response.with_format(ContentFormat(format));
    }
    if let Some(age) = max_age {
        response = response.with_max_age(span(age)?);
    }
    Ok(response)
}

/// A resource: path, handlers by method, and the notifier of an observable one.
#[derive(FromPyObject)]
struct Described {
    path: String,
    handlers: Vec<(u8, Py<PyAny>)>,
    notifier: Option<Py<Notifier>>,
}

/// A running server.
#[pyclass(frozen, module = "carob.aio")]
pub(crate) struct Server(AsyncMutex<Option<carob::Server>>, Vec<String>);

/// Addresses and keys of a server.
#[derive(FromPyObject)]
struct Listening {
    bind: Option<String>,
    bind_dtls: Option<String>,
    bind_tcp: Option<String>,
    bind_tls: Option<String>,
    bind_ws: Option<String>,
    ws_origin: Vec<String>,
    psk: Vec<Pair>,
    identity: Option<Pair>,
    controller: Option<String>,
}

impl Listening {
    fn builder(&self) -> PyResult<server::ServerBuilder> {
        let config = config(self.controller.as_deref())?;
        let mut builder = carob::Server::builder().config(config);
        let identity = match &self.identity {
            Some((chain, key)) => {
                let identity = Identity::from_pem(chain, key);
                Some(identity.map_err(|error| unusable(&error))?)
            }
            None => None,
        };
        builder = match &self.bind {
            Some(address) => builder.bind(address.as_str()),
            None => builder.without_datagrams(),
        };
        if let Some(address) = &self.bind_dtls {
            let mut dtls = ServerDtls::new();
            if !self.psk.is_empty() {
                let keys: PyResult<Vec<PreSharedKey>> = self.psk.iter().map(psk).collect();
                dtls = dtls.keys(PskStore::new(keys?));
            }
            if let Some(identity) = &identity {
                dtls = dtls.identity(identity.clone());
            }
            builder = builder.bind_dtls(address.as_str(), dtls);
        }
        if let Some(address) = &self.bind_tcp {
            builder = builder.bind_tcp(address.as_str());
        }
        if let Some(address) = &self.bind_ws {
            builder = builder.bind_ws(address.as_str());
        }
        for host in &self.ws_origin {
            builder = builder.ws_origin(host.as_str());
        }
        if let Some(address) = &self.bind_tls {
            let Some(identity) = identity else {
                return Err(PyValueError::new_err(
                    "tls needs identity=(chain, key) as PEM",
                ));
            };
            builder = builder.bind_tls(address.as_str(), ServerTls::new(identity));
        }
        Ok(builder)
    }
}

#[pymethods]
impl Server {
    /// Starts a server; the awaitable has it.
    #[staticmethod]
    fn _start(
        py: Python<'_>,
        listening: Listening,
        resources: Vec<Described>,
    ) -> PyResult<Bound<'_, PyAny>> {
        let locals = get_current_locals(py)?;
        let mut builder = listening.builder()?;
        for described in resources {
            let mut resource = Resource::new();
            for (method, function) in described.handlers {
                let function = Arc::new(function);
                let locals = locals.clone();
                resource = resource.on(Code(method), PythonHandler { function, locals });
            }
            if let Some(notifier) = &described.notifier {
                resource = resource.observable(&notifier.get().0);
            }
            builder = builder.resource(&described.path, resource);
        }
        future_into_py(py, async move {
            let server = builder.start().await;
            let server = server.map_err(|error| failed(error.report(), error.remedy()))?;
            let addresses = server.addresses().iter();
            let addresses = addresses.map(|(scheme, address)| format!("{scheme}://{address}"));
            let addresses = addresses.collect();
            Ok(Self(AsyncMutex::new(Some(server)), addresses))
        })
    }

    /// Base URIs, such as `coap://127.0.0.1:5683`.
    #[getter]
    fn addresses(&self) -> Vec<String> {
        self.1.clone()
    }

    /// Stops after at most `limit` seconds.
    #[pyo3(signature = (limit=5.0))]
    fn close(slf: Bound<'_, Self>, limit: f64) -> PyResult<Bound<'_, PyAny>> {
        let (py, limit) = (slf.py(), span(limit)?);
        let server = slf.unbind();
        future_into_py(py, async move {
            let taken = server.get().0.lock().await.take();
            if let Some(running) = taken {
                running.shutdown(limit).await;
            }
            Ok(())
        })
    }
}
