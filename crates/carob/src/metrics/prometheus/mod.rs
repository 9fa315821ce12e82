//! A recorder that keeps what it is told, and says it in Prometheus' text format.
//!
//! What endpoints tell is counted already, so all that is left to do is to add up and to print. The
//! exporters to be had bring sampling, summaries and an HTTP stack for that (ADR 25); any of them
//! can be installed instead.

mod listener;
mod recorder;

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpListener;

use recorder::Registry;

/// What was told, to be read by Prometheus. Clones are one and the same.
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
    /// One that is not installed: for [`metrics::set_default_local_recorder`], say.
    pub fn new() -> Self {
        let prometheus = Self::default();
        prometheus.registry.about();
        prometheus
    }

    /// Has the whole process tell this one. Do it before endpoints are opened: what they have told
    /// others is not told again.
    pub fn install() -> Result<Self, InstallError> {
        let prometheus = Self::new();
        let installed = metrics::set_global_recorder(Arc::clone(&prometheus.registry));
        installed.map(|()| prometheus).map_err(|_| InstallError)
    }

    /// The recorder itself.
    pub fn recorder(&self) -> &(impl metrics::Recorder + use<>) {
        &*self.registry
    }

    /// All that was told, in the text format of Prometheus, version 0.0.4.
    pub fn render(&self) -> String {
        self.registry.render()
    }

    /// Serves requests whose Host field has this name, too. Addresses and `localhost` always are served;
    /// other names are answered 421, so that a web page cannot read the metrics by having its own name
    /// lead here (DNS rebinding).
    pub fn host(mut self, name: impl Into<String>) -> Self {
        self.hosts.push(name.into());
        self
    }

    /// Answers whoever asks for `/metrics` over HTTP, forever.
    ///
    /// A connection has two seconds to send its request. At most 32 are open; another one takes the
    /// place of the oldest that has sent none.
    ///
    /// Everybody who reaches the address can read what the server does and how much of it. There is
    /// neither encryption nor a password: listen on loopback, or where only the scraper comes.
    pub async fn serve(self, listener: TcpListener) {
        listener::serve(self, listener).await;
    }

    /// Opens a listener for [`serve`](Self::serve) there.
    pub async fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
        TcpListener::bind(address).await
    }
}

/// What a scraper that sends this head is answered by one that has been told nothing.
#[cfg(any(test, fuzzing))]
pub(crate) fn respond_to_scraper(head: &[u8]) -> (&'static str, String) {
    listener::respond(head, &Prometheus::new())
}

/// Another recorder is installed in this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InstallError;

impl fmt::Display for InstallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("another recorder of metrics is installed")
    }
}

impl std::error::Error for InstallError {}
