//! A server with the resources of the ETSI CoAP plugtests, to test clients with.
//!
//! `cargo run --example plugtest_server -- 127.0.0.1:5683`. As the plugtests suggest, blocks have 64 bytes and
//! resources change every five seconds. `crates/cli/tests/it/plugtest/README.md` describes the resources.
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

mod observed;
mod resources;
mod stored;

use std::time::Duration;

use carob::{BlockSize, Config, Server};

const TICK: Duration = Duration::from_secs(5);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1);
    let size = BlockSize::from_bytes_at_most(64).unwrap_or(BlockSize::MAX);
    let builder = Server::builder()
        .bind(address.unwrap_or_else(|| "[::]:5683".into()))
        .config(Config::new().block_size(size));
    let (builder, _ticking) = resources::all(builder, TICK);
    let server = builder.start().await?;
    println!("listening on coap://{}", server.local_address());
    std::future::pending().await
}
