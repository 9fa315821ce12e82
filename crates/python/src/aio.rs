//! The CoAP stack under asyncio: what `carob.aio` is made of.

use std::fmt::Display;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use carob::client::{Body, BodySender, BodyStream, Update};
use carob::server::{self, HandlerFuture, IntoResponse, Resource};
use carob::tls::Identity;
use carob::{
    ClientDtls, Code, Config, ContentFormat, OptionNumber, Options, PreSharedKey, PskStore, Reply,
    ServerDtls, ServerTls, tls::ClientTls,
};
use pyo3::exceptions::{PyStopAsyncIteration, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};
use pyo3_async_runtimes::TaskLocals;
use pyo3_async_runtimes::tokio::{future_into_py, get_current_locals, get_runtime};
use tokio::sync::Mutex as AsyncMutex;

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

fn config(controller: Option<&str>, profile: Option<&str>) -> PyResult<Config> {
    let mut config = Config::new();
    if let Some(profile) = profile {
        config = config
            .profile_named(profile)
            .map_err(|error| unusable(&error))?;
    }
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

/// A client of any transport.
#[pyclass(frozen, module = "carob.aio")]
pub(crate) struct Client(carob::Client);

/// The optional parts of a request.
#[derive(FromPyObject)]
struct Extras {
    content_format: Option<u16>,
    accept: Option<u16>,
    options: Vec<RawOption>,
    confirmable: bool,
    timeout: Option<f64>,
}

impl Client {
    fn request(
        &self,
        method: u8,
        uri: &str,
        body: Option<Body>,
        extras: Extras,
    ) -> PyResult<carob::RequestBuilder> {
        let mut request = self
            .0
            .request(Code(method), uri)
            .confirmable(extras.confirmable);
        if let Some(body) = body {
            request = request.body(body);
        }
        if let Some(format) = extras.content_format {
            request = request.content_format(ContentFormat(format));
        }
        if let Some(format) = extras.accept {
            request = request.accept(ContentFormat(format));
        }
        for (number, value) in extras.options {
            request = request.option(OptionNumber(number), value);
        }
        if let Some(timeout) = extras.timeout {
            request = request.timeout(span(timeout)?);
        }
        Ok(request)
    }
}

#[pymethods]
impl Client {
    /// Opens a client.
    #[new]
    #[pyo3(signature = (controller=None, profile=None, psk=None, trust=None, identity=None))]
    fn new(
        controller: Option<&str>,
        profile: Option<&str>,
        psk: Option<Pair>,
        trust: Option<Vec<u8>>,
        identity: Option<Pair>,
    ) -> PyResult<Self> {
        let mut config = config(controller, profile)?;
        let mut tls = ClientTls::new();
        if let Some(trust) = trust {
            tls = tls.trust_pem(&trust).map_err(|error| unusable(&error))?;
        }
        if let Some((chain, key)) = identity {
            let identity = Identity::from_pem(&chain, &key).map_err(|error| unusable(&error))?;
            tls = tls.identity(identity);
        }
        let dtls = match psk {
            Some(pair) => ClientDtls::new().psk(self::psk(&pair)?),
            None => ClientDtls::new().certificates(tls.clone()),
        };
        config = config.tls(tls).dtls(dtls);
        let _runtime = get_runtime().enter();
        let client = carob::Client::builder().config(config).open();
        let client = client.map_err(|error| failed(error.report(), error.remedy()))?;
        Ok(Self(client))
    }

    #[getter]
    fn local_address(&self) -> String {
        self.0.local_address().to_string()
    }

    /// Sends a request with a body in memory; the awaitable has the whole response.
    fn _send<'py>(
        &self,
        py: Python<'py>,
        method: u8,
        uri: &str,
        body: Vec<u8>,
        extras: Extras,
    ) -> PyResult<Bound<'py, PyAny>> {
        let body = (!body.is_empty()).then(|| Body::from(body));
        let request = self.request(method, uri, body, extras)?;
        future_into_py(py, async move {
            let reply = request
                .send()
                .await
                .map_err(|error| request_failed(&error))?;
            Ok(Response::of(&reply))
        })
    }

    /// Sends a request whose body comes piece by piece. Returns the sender and the awaitable.
    fn _upload<'py>(
        &self,
        py: Python<'py>,
        method: u8,
        uri: &str,
        extras: Extras,
    ) -> PyResult<(Pieces, Bound<'py, PyAny>)> {
        let (sender, body) = Body::channel();
        let request = self.request(method, uri, Some(body), extras)?;
        let response = future_into_py(py, async move {
            let reply = request
                .send()
                .await
                .map_err(|error| request_failed(&error))?;
            Ok(Response::of(&reply))
        })?;
        let pieces = Pieces(Arc::new(Mutex::new(Some(Arc::new(sender)))));
        Ok((pieces, response))
    }

    /// Sends a request; the awaitable has head and blocks of the response.
    fn _stream<'py>(
        &self,
        py: Python<'py>,
        method: u8,
        uri: &str,
        extras: Extras,
    ) -> PyResult<Bound<'py, PyAny>> {
        let request = self.request(method, uri, None, extras)?;
        future_into_py(py, async move {
            let streamed = request.send_streaming().await;
            let streamed = streamed.map_err(|error| request_failed(&error))?;
            let head = Response {
                code: streamed.head.code,
                options: streamed.head.options.clone(),
                payload: Bytes::new(),
                format: streamed.head.format().map(|format| format.0),
                peer: streamed.peer.to_string(),
                elapsed: streamed.after.as_secs_f64(),
                origin: "network",
            };
            let blocks = Blocks(Arc::new(AsyncMutex::new(streamed.body)));
            Ok((head, blocks))
        })
    }

    /// Observes a resource; the awaitable has the observation.
    fn _observe<'py>(
        &self,
        py: Python<'py>,
        uri: &str,
        extras: Extras,
    ) -> PyResult<Bound<'py, PyAny>> {
        let request = self.request(Code::GET.0, uri, None, extras)?;
        future_into_py(py, async move {
            let observation = request.observe().await;
            let observation = observation.map_err(|error| request_failed(&error))?;
            Ok(Observation(Arc::new(AsyncMutex::new(Some(observation)))))
        })
    }

    /// State of the controller of a peer, such as `rto`; times in seconds.
    fn gauges<'py>(&self, py: Python<'py>, peer: &str) -> PyResult<Bound<'py, PyAny>> {
        let address = peer.parse();
        let address = address.map_err(|_| PyValueError::new_err("peer: expected IP:PORT"))?;
        let client = self.0.clone();
        future_into_py(py, async move {
            let gauges = client.gauges(address).await.unwrap_or_default();
            let number = |gauge| match gauge {
                carob::Gauge::Time(time) => Some(time.as_micros() as f64 / 1e6),
                carob::Gauge::Count(count) => Some(count as f64),
                _ => None,
            };
            let named = gauges.into_iter();
            let named = named.filter_map(|(name, gauge)| Some((name, number(gauge)?)));
            Ok(named.collect::<Vec<(&'static str, f64)>>())
        })
    }

    /// Closes the client after at most `limit` seconds.
    #[pyo3(signature = (limit=5.0))]
    fn close<'py>(&self, py: Python<'py>, limit: f64) -> PyResult<Bound<'py, PyAny>> {
        let (client, limit) = (self.0.clone(), span(limit)?);
        future_into_py(py, async move {
            client.shutdown(limit).await;
            Ok(())
        })
    }
}

/// The sender of an upload's pieces.
#[pyclass(frozen, module = "carob.aio")]
pub(crate) struct Pieces(Arc<Mutex<Option<Arc<BodySender>>>>);

#[pymethods]
impl Pieces {
    /// Queues a piece; waits while the queue is full.
    fn send<'py>(&self, py: Python<'py>, piece: Vec<u8>) -> PyResult<Bound<'py, PyAny>> {
        let sender = self
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        future_into_py(py, async move {
            let sender = sender.ok_or_else(|| PyValueError::new_err("the body has ended"))?;
            // Where the request ended, its awaitable has the reason.
            Ok(sender.send(piece).await.is_ok())
        })
    }

    /// Ends the body.
    fn finish(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

/// The blocks of a response, as an asynchronous iterator of bytes.
#[pyclass(frozen, module = "carob.aio")]
pub(crate) struct Blocks(Arc<AsyncMutex<BodyStream>>);

#[pymethods]
impl Blocks {
    fn __aiter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __anext__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let stream = Arc::clone(&self.0);
        future_into_py(py, async move {
            let chunk = stream.lock().await.chunk().await;
            let chunk = chunk.map_err(|error| request_failed(&error))?;
            let chunk = chunk.ok_or_else(|| PyStopAsyncIteration::new_err(()))?;
            Python::attach(|py| Ok(PyBytes::new(py, &chunk).unbind()))
        })
    }
}

/// An observation, as an asynchronous iterator of responses.
#[pyclass(frozen, module = "carob.aio")]
pub(crate) struct Observation(Arc<AsyncMutex<Option<carob::Observation>>>);

#[pymethods]
impl Observation {
    fn __aiter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    /// The next state. A stale one is skipped, since the observation registers again by itself.
    fn __anext__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let shared = Arc::clone(&self.0);
        future_into_py(py, async move {
            let mut guard = shared.lock().await;
            loop {
                let Some(observation) = guard.as_mut() else {
                    return Err(PyStopAsyncIteration::new_err(()));
                };
                match observation.next().await {
                    Some(Ok(Update::State(reply))) => return Ok(Response::of(&reply)),
                    Some(Ok(Update::Ended(reply))) => {
                        *guard = None;
                        return Ok(Response::of(&reply));
                    }
                    Some(Ok(_)) => {}
                    Some(Err(error)) => return Err(request_failed(&error)),
                    None => return Err(PyStopAsyncIteration::new_err(())),
                }
            }
        })
    }

    /// Ends the observation at the server.
    fn stop<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let shared = Arc::clone(&self.0);
        future_into_py(py, async move {
            if let Some(observation) = shared.lock().await.take() {
                let stopped = observation.stop().await;
                stopped.map_err(|error| request_failed(&error))?;
            }
            Ok(())
        })
    }
}

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

    /// The segment that a parameter of the path stands for, such as `id` in `/sensors/{id}`.
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

/// What a handler returned: code, payload, Content-Format, Max-Age in seconds.
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
            // The wrapper in Python turns exceptions into 5.00 and logs them; this is its own failure.
            returned.unwrap_or_else(|_| Code::INTERNAL_SERVER_ERROR.into_response())
        })
    }
}

async fn call(
    function: &Py<PyAny>,
    locals: &TaskLocals,
    request: server::Request,
) -> PyResult<carob::Response> {
    let future = Python::attach(|py| {
        let coroutine = function.call1(py, (Request(request),))?;
        pyo3_async_runtimes::into_future_with_locals(locals, coroutine.into_bound(py))
    })?;
    let returned = future.await?;
    let (code, payload, format, max_age) = Python::attach(|py| returned.extract::<Returned>(py))?;
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
    psk: Vec<Pair>,
    identity: Option<Pair>,
    controller: Option<String>,
    profile: Option<String>,
}

impl Listening {
    fn builder(&self) -> PyResult<server::ServerBuilder> {
        let config = config(self.controller.as_deref(), self.profile.as_deref())?;
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
    fn _start<'py>(
        py: Python<'py>,
        listening: Listening,
        resources: Vec<Described>,
    ) -> PyResult<Bound<'py, PyAny>> {
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
            Ok(Server(AsyncMutex::new(Some(server)), addresses))
        })
    }

    /// Base URIs, such as `coap://127.0.0.1:5683`.
    #[getter]
    fn addresses(&self) -> Vec<String> {
        self.1.clone()
    }

    /// Stops after at most `limit` seconds.
    #[pyo3(signature = (limit=5.0))]
    fn close<'py>(slf: Bound<'py, Self>, limit: f64) -> PyResult<Bound<'py, PyAny>> {
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
