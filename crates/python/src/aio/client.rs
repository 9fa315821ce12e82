//! The client: requests, streamed bodies, observations.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use carob::client::{Body, BodySender, BodyStream, Update};
use carob::tls::{ClientTls, Identity};
use carob::{ClientDtls, Code, ContentFormat, OptionNumber};
use pyo3::exceptions::{PyStopAsyncIteration, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use pyo3_async_runtimes::tokio::get_runtime;
use tokio::sync::Mutex as AsyncMutex;

use super::runtime::{attached, future_into_py};
use super::{Pair, RawOption, Response, config, failed, request_failed, span, unusable};

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
    #[pyo3(signature = (controller=None, psk=None, trust=None, identity=None))]
    fn new(
        controller: Option<&str>,
        psk: Option<Pair>,
        trust: Option<Vec<u8>>,
        identity: Option<Pair>,
    ) -> PyResult<Self> {
        let mut config = config(controller)?;
        let mut tls = ClientTls::new();
        if let Some(trust) = trust {
            tls = tls.trust_pem(&trust).map_err(|error| unusable(&error))?;
        }
        if let Some((chain, key)) = identity {
            let identity = Identity::from_pem(&chain, &key).map_err(|error| unusable(&error))?;
            tls = tls.identity(identity);
        }
        let mut dtls = ClientDtls::new();
        if let Some(pair) = psk {
            dtls = dtls.psk(super::psk(&pair)?);
        }
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

    /// Sends a request with a streamed body. Returns the sender of the body and the awaitable.
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
            // A closed channel is no error here: the awaitable of the request has the reason.
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
            let ended = || PyStopAsyncIteration::new_err(());
            attached(|py| PyBytes::new(py, &chunk).unbind()).ok_or_else(ended)
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
