//! DTLS with a pre-shared key: a server and a client in one process, over loopback.
//!
//! `cargo run -p carob --example dtls`
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::time::Duration;

use carob::server::{Request, get};
use carob::{Client, ClientDtls, Config, PeerIdentity, PreSharedKey, PskStore, Server, ServerDtls};

/// GET: the identity with which the client was authenticated.
async fn whoami(request: Request) -> String {
    match request.peer_identity() {
        Some(PeerIdentity::PreSharedKey(identity)) => String::from_utf8_lossy(identity).into(),
        other => format!("{other:?}"),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // One `IDENTITY:KEY` per line, as in a file of keys. `0x` marks hexadecimal digits.
    let keys = "device-7:0x00112233445566778899aabbccddeeff\ndevice-8:another secret\n";
    let server = Server::builder()
        .without_datagrams() // no plain CoAP
        .bind_dtls(
            "127.0.0.1:0",
            ServerDtls::new().keys(PskStore::from_text(keys)?),
        )
        .resource("/whoami", get(whoami))
        .start()
        .await?;
    let uri = format!("coaps://{}/whoami", server.local_address());

    let key = PreSharedKey::from_text("device-7", "0x00112233445566778899aabbccddeeff")?;
    let config = Config::new().dtls(ClientDtls::new().psk(key));
    let client = Client::builder().config(config).open()?;
    let reply = client.get(&uri).await?;
    println!("{uri}: {} {:?}", reply.code, reply.text());

    let wrong = PreSharedKey::from_text("device-8", "not its secret")?;
    let config = Config::new().dtls(ClientDtls::new().psk(wrong));
    let client = Client::builder().config(config).open()?;
    if let Err(error) = client.get(&uri).timeout(Duration::from_secs(5)).await {
        println!("{}", error.report());
        println!("{}", error.remedy().unwrap_or_default());
    }
    Ok(())
}
