//! A proxy with a cache: a reverse-proxy for one origin server, and a forward-proxy for loopback.
//!
//! `cargo run -p carob --example proxy -- 127.0.0.1:5685 coap://127.0.0.1`, with
//! `cargo run -p carob --example counter -- 127.0.0.1:5683` in another terminal. Then
//! `carob get coap://127.0.0.1:5685/origin/count` uses the reverse-proxy, and
//! `carob get coap://127.0.0.1/count --proxy coap://127.0.0.1:5685` the forward-proxy.
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::time::Duration;

use carob::{Config, Proxy, Server};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:5685".into());
    let origin = arguments
        .next()
        .unwrap_or_else(|| "coap://127.0.0.1".into());
    let proxy = Proxy::builder()
        .server(Server::builder().bind(address))
        .route("/origin", &origin)?
        .allow("127.0.0.1".parse()?)
        // The path to the origins may need another controller than the path to the clients.
        .origin_config(Config::new().controller_named("cocoa-plus")?)
        .start()
        .await?;
    println!(
        "coap://{}/origin is {origin}",
        proxy.server().local_address()
    );
    loop {
        tokio::time::sleep(Duration::from_secs(10)).await;
        let usage = proxy.usage();
        println!(
            "{} requests pending, {} responses cached ({} bytes)",
            usage.requests, usage.cache.entries, usage.cache.bytes
        );
    }
}
