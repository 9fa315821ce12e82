//! Flows over UDP, by `carob`'s own server and clients.
//!
//! They open their sockets themselves, so they live on runtimes inside the namespaces.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use carob::server::fixed;
use carob::{BlockSize, Client, Config, Server, TransmissionParameters};
use carob_emu::{EmulatedLink, Side};

use crate::run::Done;
use crate::tcp::PORT;

const BODY_BYTES: usize = 102_400;

/// The thesis's settings (`scenarios/thesis/long.toml`).
fn settings(algorithm: &str) -> io::Result<Config> {
    let mut parameters = TransmissionParameters::DEFAULT;
    parameters.max_retransmit = 20;
    if algorithm == "default" {
        parameters.rto_max = Some(carob_cc::time::Duration::from_secs(60));
    }
    let block = BlockSize::from_bytes_at_most(256).ok_or(io::ErrorKind::InvalidInput)?;
    Config::new()
        .controller_named(algorithm)
        .map(|settings| {
            settings
                .parameters(parameters)
                .block_size(block)
                .engine(|config| config.token_length = 0)
        })
        .map_err(|error| io::Error::other(error.to_string()))
}

/// Opens a link's server on the current runtime, in the server's namespace.
pub(crate) async fn serve(link: EmulatedLink<'_>, algorithm: &str) -> io::Result<Server> {
    Server::builder()
        .bind(SocketAddr::from((link.address(Side::Server), PORT)))
        .config(settings(algorithm)?)
        .resource("/hello", fixed("7".repeat(BODY_BYTES)))
        .start()
        .await
        .map_err(io::Error::other)
}

/// One client's transfer, on a runtime in the client's namespace.
pub(crate) fn fetch(
    link: EmulatedLink<'_>,
    algorithm: &'static str,
    wait: Duration,
) -> impl Future<Output = io::Result<Done>> + 'static {
    let own = link.address(Side::Client);
    let target = format!("coap://{}:{PORT}/hello", link.address(Side::Server));
    async move { fetch_from(target, own, algorithm, wait).await }
}

async fn fetch_from(
    target: String,
    own: Ipv4Addr,
    algorithm: &str,
    wait: Duration,
) -> io::Result<Done> {
    let client = Client::builder()
        .bind((own, 0).into())
        .config(settings(algorithm)?)
        .open()
        .map_err(io::Error::other)?;
    tokio::time::sleep(wait).await;
    let began = Instant::now();
    let reply = client.get(target).await.map_err(io::Error::other)?;
    let completion = began.elapsed();
    if reply.bytes().len() != BODY_BYTES {
        return Err(io::Error::other(format!("{} bytes", reply.bytes().len())));
    }
    Ok(Done {
        completion,
        setup: None,
        retransmitted: None,
        timeouts: None,
    })
}
