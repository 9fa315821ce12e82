//! An observation (RFC 7641): prints the first five representations of a resource.
//!
//! `cargo run -p carob --example observe -- coap://127.0.0.1/count`, with
//! `cargo run -p carob --example counter -- 127.0.0.1:5683` in a second terminal, and in a third
//! `carob post coap://127.0.0.1/count`, which changes the state.
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use carob::Client;
use carob::client::Update;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let uri = std::env::args().nth(1);
    let uri = uri.unwrap_or_else(|| "coap://127.0.0.1/count".into());
    let mut observation = Client::new()?.get(uri).observe().await?;
    let mut states = 0;
    while states < 5 {
        match observation.next().await {
            Some(Ok(Update::State(reply))) => {
                states += 1;
                println!("{:?}", reply.text());
            }
            // The client registers again automatically.
            Some(Ok(Update::Stale(error))) => println!("no notification in time: {error:?}"),
            Some(Ok(Update::Ended(reply))) => {
                println!("ended by the server: {} {:?}", reply.code, reply.text());
                return Ok(());
            }
            Some(Ok(_)) => {}
            Some(Err(error)) => return Err(error.into()),
            None => return Ok(()),
        }
    }
    // Cancels the observation. After a drop, the server would learn it from the Reset to its next notification.
    observation.stop().await?;
    Ok(())
}
