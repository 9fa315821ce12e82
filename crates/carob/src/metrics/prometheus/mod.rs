//! Recorder with an HTTP listener in the text format of Prometheus.
//!
//! Endpoints publish totals, so the recorder only adds and prints. Other exporters bring sampling,
//! summaries and an HTTP stack (ADR 25); any of them can be installed instead.

mod listener;
mod recorder;

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpListener;

use recorder::Registry;

/// Recorder of metrics with an HTTP listener in the text format of Prometheus. Clones share the
/// metrics.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let prometheus = carob::metrics::Prometheus::install()?;
/// let listener = tokio::net::TcpListener::bind("127.0.0.1:9683").await?;
/// tokio::spawn(prometheus.serve(listener));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Prometheus {
    registry: Arc<Registry>,
    /// Names in Host that are served.
    hosts: Vec<String>,
}

impl Prometheus {
    /// Creates a recorder that is not installed, for example for
    /// `metrics::set_default_local_recorder`.
    pub fn new() -> Self {
        let prometheus = Self::default();
        prometheus.registry.about();
        prometheus
    }

    /// Creates a recorder and installs it for the process. Call it before endpoints are opened:
    /// counts published to another recorder are not repeated.
    ///
    /// # Errors
    ///
    /// [`InstallError`] if the process has a recorder.
    pub fn install() -> Result<Self, InstallError> {
        let prometheus = Self::new();
        let installed = metrics::set_global_recorder(Arc::clone(&prometheus.registry));
        installed.map(|()| prometheus).map_err(|_| InstallError)
    }

    /// Returns the recorder itself.
    pub fn recorder(&self) -> &(impl metrics::Recorder + use<>) {
        &*self.registry
    }

    /// Returns all metrics in the text format of Prometheus, version 0.0.4.
    pub fn render(&self) -> String {
        self.registry.render()
    }

    /// Allows a name in the Host header. Addresses and `localhost` are always allowed; other names
    /// are answered 421, so that a web page cannot read the metrics through its own domain (DNS
    /// rebinding).
    pub fn host(mut self, name: impl Into<String>) -> Self {
        self.hosts.push(name.into());
        self
    }

    /// Serves `/metrics` over HTTP, forever. Dropping the future stops it.
    ///
    /// A connection has two seconds to send its request. At most 32 are open; a further one
    /// replaces the oldest without a request.
    ///
    /// There is no encryption and no authentication: listen on loopback, or on a network that only
    /// the scraper can reach.
    pub async fn serve(self, listener: TcpListener) {
        listener::serve(self, listener).await;
    }

    /// Binds a listener for [`serve`](Self::serve).
    ///
    /// # Errors
    ///
    /// The system's error on binding the address.
    pub async fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
        TcpListener::bind(address).await
    }
}

/// The response of a listener without metrics to a request with this head.
#[cfg(all(any(test, fuzzing), feature = "dtls", feature = "websocket"))]
pub(crate) fn respond_to_scraper(head: &[u8]) -> (&'static str, String) {
    listener::respond(head, &Prometheus::new())
}

/// Error of [`Prometheus::install`]: the process has another recorder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InstallError;

impl fmt::Display for InstallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("another recorder of metrics is installed")
    }
}

impl std::error::Error for InstallError {}
