//! Cost of DTLS: CPU time per request compared with plain CoAP, and CPU time and memory per session. Client and server
//! share one thread and communicate over loopback.
//!
//! `cargo run --release -p carob --example secured_costs`
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "it measures time and prints what it measured"
)]

use std::time::Duration;

use carob::server::fixed;
use carob::{Client, ClientDtls, ClientTls, Config, PreSharedKey, PskStore, Server, ServerDtls};

type Failure = Box<dyn std::error::Error>;

const REQUESTS: u32 = 20_000;
/// Sessions with a pre-shared key, each with another address in 127.0.0.0/8.
const SESSIONS: u8 = 250;
/// Sessions with a certificate, which must list every address.
const CERTIFIED: u8 = 20;

/// CPU time of this thread.
fn cpu() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let first = text.split(' ').next().and_then(|first| first.parse().ok());
    Duration::from_nanos(first.unwrap_or_default())
}

/// Resident memory of this process in bytes.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text.split(' ').nth(1).and_then(|pages| pages.parse().ok());
    pages.unwrap_or(0_usize) * 4_096
}

/// Measures requests in sequence in one session.
async fn requests(client: &Client, uri: &str) -> Result<(), Failure> {
    client.get(uri).await?;
    let used = cpu();
    for _ in 0..REQUESTS {
        client.get(uri).await?;
    }
    let each = cpu().saturating_sub(used) / REQUESTS;
    println!("{uri}: {each:?} of CPU a request, both sides");
    Ok(())
}

/// Measures sessions of one client with one request each.
async fn sessions(what: &str, client: &Client, port: u16, count: u8) -> Result<(), Failure> {
    // A first session pays the one-time costs.
    client
        .get(format!("coaps://127.0.0.1:{port}/hello"))
        .await?;
    let (used, before) = (cpu(), resident());
    for host in 2..2 + count {
        client
            .get(format!("coaps://127.0.0.{host}:{port}/hello"))
            .await?;
    }
    let each = cpu().saturating_sub(used) / u32::from(count);
    // Later rounds reuse memory released by earlier ones.
    let bytes = resident().saturating_sub(before) / usize::from(count);
    println!("{what}: {each:?} of CPU a session with one request, {bytes} more bytes, both sides");
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let names = (1..2 + CERTIFIED).map(|host| format!("127.0.0.{host}"));
    let made = rcgen::generate_simple_self_signed(names.collect::<Vec<_>>())?;
    let (chain, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    let identity = carob::Identity::from_pem(chain.as_bytes(), key.as_bytes())?;
    let keys = PskStore::from_text("device:secret")?;
    let server = Server::builder()
        .bind("127.0.0.1:0")
        .bind_dtls("0.0.0.0:0", ServerDtls::new().keys(keys).identity(identity))
        .resource("/hello", fixed("hello, this is 32 bytes of text\n"))
        .start()
        .await?;
    let [plain, secured] = [0, 1].map(|place: usize| server.addresses()[place].1.port());
    let with_key = || -> Result<Client, Failure> {
        let psk = PreSharedKey::from_text("device", "secret")?;
        let settings = Config::new().dtls(ClientDtls::new().psk(psk));
        Ok(Client::builder().config(settings).open()?)
    };
    let tls = ClientTls::new().trust_pem(chain.as_bytes())?;
    let with_certificate = Client::builder().config(Config::new().tls(tls)).open()?;
    let client = with_key()?;
    for _ in 0..2 {
        requests(&client, &format!("coap://127.0.0.1:{plain}/hello")).await?;
        requests(&client, &format!("coaps://127.0.0.1:{secured}/hello")).await?;
    }
    for _ in 0..2 {
        sessions("with a key", &with_key()?, secured, SESSIONS).await?;
    }
    let what = "with the server's certificate";
    sessions(what, &with_certificate, secured, CERTIFIED).await
}
