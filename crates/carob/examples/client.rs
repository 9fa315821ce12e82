//! A client: one request, its response, and the state of the congestion controller.
//!
//! `cargo run -p carob --example client -- coap://127.0.0.1/count`, with
//! `cargo run -p carob --example counter -- 127.0.0.1:5683` in another terminal.
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::time::Duration;

use carob::{Client, Config, ContentFormat};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let uri = std::env::args().nth(1);
    let uri = uri.unwrap_or_else(|| "coap://127.0.0.1/count".into());
    let config = Config::new().controller_named("carob")?;
    let client = Client::builder().config(config).open()?;

    let reply = client
        .get(uri)
        .accept(ContentFormat::TEXT_PLAIN)
        .timeout(Duration::from_secs(10))
        .await?
        .success()?; // an error for 4.xx and 5.xx
    println!("{} {:?}", reply.code, reply.text());
    println!("from {} after {:?}", reply.peer, reply.after);

    if let Some(peer) = client.snapshot(reply.peer).await
        && let (Some(round_trip), Some(rto)) = (peer.round_trip, peer.rto)
    {
        println!("round trip {round_trip}, RTO {rto}");
    }
    client.shutdown(Duration::from_secs(1)).await;
    Ok(())
}
