//! What DTLS costs: CPU time per request beside plain CoAP, and per session; client and server in one
//! process, on one thread, over loopback.
//!
//! `cargo run --release -p carob --example secured_costs`
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "it measures time and prints what it measured"
)]

use std::time::{Duration, Instant};

use carob::server::fixed;
use carob::{Client, ClientDtls, ClientTls, PreSharedKey, PskStore, Server, ServerDtls, Settings};

type Failure = Box<dyn std::error::Error>;

const PEERS: usize = 1_000;
const REQUESTS: u32 = 20_000;

/// CPU time of this process, in clock ticks of 10 ms.
fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let ticks = fields.split_whitespace().skip(11).take(2);
    let ticks: u64 = ticks.filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}

async fn requests(client: &Client, uri: &str) -> Result<(), Failure> {
    client.get(uri).await?;
    let (began, used) = (Instant::now(), cpu());
    for _ in 0..REQUESTS {
        client.get(uri).await?;
    }
    let (time, used) = (
        began.elapsed() / REQUESTS,
        cpu().saturating_sub(used) / REQUESTS,
    );
    println!("{uri}: {time:?} a request, one after the other; {used:?} CPU for both sides");
    Ok(())
}

/// Many peers that ask once: each a client at an address of its own, with a session of its own.
async fn peers(what: &str, uri: &str, settings: impl Fn() -> Settings) -> Result<(), Failure> {
    let mut clients = Vec::with_capacity(PEERS);
    for _ in 0..PEERS {
        clients.push(Client::builder().settings(settings()).open()?);
    }
    let (began, used) = (Instant::now(), cpu());
    for client in &clients {
        client.get(uri).await?;
    }
    let (time, used) = (began.elapsed(), cpu().saturating_sub(used));
    let rate = PEERS as f64 / time.as_secs_f64();
    let each = used / PEERS as u32;
    println!("{what}: {rate:.0} first requests a second, {each:?} CPU for both sides");
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()])?;
    let (chain, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    let identity = carob::Identity::from_pem(chain.as_bytes(), key.as_bytes())?;
    let keys = PskStore::from_text("device:secret")?;
    let server = Server::builder()
        .bind("127.0.0.1:0")
        .bind_dtls(
            "127.0.0.1:0",
            ServerDtls::new().keys(keys).identity(identity),
        )
        .resource("/hello", fixed("hello, this is 32 bytes of text\n"))
        .start()
        .await?;
    let [plain, secured] = [0, 1].map(|place: usize| server.addresses()[place].1);
    let psk = || {
        let key = PreSharedKey::from_text("device", "secret").expect("a key");
        Settings::new()
            .dtls(ClientDtls::new().psk(key))
            .receive_buffer(65_536)
    };
    let certificates = || {
        let tls = ClientTls::new().trust_pem(chain.as_bytes()).expect("PEM");
        Settings::new().tls(tls).receive_buffer(65_536)
    };
    for _ in 0..2 {
        let client = Client::builder().settings(psk()).open()?;
        requests(&client, &format!("coap://{plain}/hello")).await?;
        requests(&client, &format!("coaps://{secured}/hello")).await?;
    }
    let coap = format!("coap://{plain}/hello");
    let coaps = format!("coaps://{secured}/hello");
    peers("plain", &coap, psk).await?;
    peers("with a key", &coaps, psk).await?;
    peers("with the server's certificate", &coaps, certificates).await
}
