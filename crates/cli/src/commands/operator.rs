//! Metrics and health of a server, for operators.

use carob::server::ServerBuilder;

use crate::args::OperatorArgs;
use crate::failure::Failure;
#[cfg(feature = "metrics")]
use crate::failure::Kind;

/// Interfaces opened for operators; they serve until the runtime ends.
pub(super) struct Operator {
    /// Where metrics are.
    pub(super) metrics: Option<String>,
    health: Option<String>,
}

impl Operator {
    /// The server with the health resource, if requested.
    pub(super) fn in_server(&self, builder: ServerBuilder) -> ServerBuilder {
        match &self.health {
            Some(path) => builder.health(path),
            None => builder,
        }
    }
}

/// Opens the interfaces requested. Endpoints that are opened after this are counted.
#[cfg_attr(
    not(feature = "metrics"),
    expect(clippy::unused_async, reason = "as in a build with metrics")
)]
pub(super) async fn open(args: OperatorArgs) -> Result<Operator, Failure> {
    #[cfg(feature = "metrics")]
    let metrics = match args.metrics {
        Some(address) => Some(metrics(address, args.metrics_host).await?),
        None => None,
    };
    #[cfg(not(feature = "metrics"))]
    let metrics = None;
    let health = args.health;
    Ok(Operator { metrics, health })
}

#[cfg(feature = "metrics")]
async fn metrics(address: std::net::SocketAddr, hosts: Vec<String>) -> Result<String, Failure> {
    use carob::metrics::Prometheus;

    let listener = Prometheus::listen(address).await.map_err(|error| {
        let text = format!("cannot serve metrics at {address}: {error}");
        let failure = Failure::new(Kind::Network, text);
        if error.kind() == std::io::ErrorKind::AddrInUse {
            failure
                .hint("another program has this port; choose another with --metrics ADDRESS:PORT")
        } else {
            failure
        }
    })?;
    let at = listener.local_addr().unwrap_or(address);
    let prometheus =
        Prometheus::install().map_err(|error| Failure::new(Kind::Usage, error.to_string()))?;
    let prometheus = hosts.into_iter().fold(prometheus, Prometheus::host);
    tokio::spawn(prometheus.serve(listener));
    Ok(format!("http://{at}/metrics"))
}
