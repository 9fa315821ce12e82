//! What a server tells those who look after it.

use crate::args::OperatorArgs;
use crate::failure::Failure;
#[cfg(feature = "prometheus")]
use crate::failure::Kind;

/// What was opened for operators; it tells as long as the runtime runs.
pub(super) struct Operator {
    /// Where metrics are.
    pub(super) metrics: Option<String>,
}

/// Opens what was asked for. Endpoints that are opened after this are counted.
pub(super) async fn open(args: OperatorArgs) -> Result<Operator, Failure> {
    #[cfg(feature = "prometheus")]
    let metrics = match args.metrics {
        Some(address) => Some(metrics(address).await?),
        None => None,
    };
    #[cfg(not(feature = "prometheus"))]
    let (OperatorArgs {}, metrics) = (args, None);
    Ok(Operator { metrics })
}

#[cfg(feature = "prometheus")]
async fn metrics(address: std::net::SocketAddr) -> Result<String, Failure> {
    use carob::metrics::Prometheus;

    let listener = Prometheus::listen(address).await.map_err(|error| {
        let text = format!("cannot tell metrics at {address}: {error}");
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
    tokio::spawn(prometheus.serve(listener));
    Ok(format!("http://{at}/metrics"))
}
