//! Behaviour after the clock has advanced while no code was running.
//!
//! CLOCK_BOOTTIME advances so during a suspension. The tests pause and advance the runtime's clock instead.

use std::time::Duration;

use crate::common::{client_with, limited};
use carob::{Client, Config, TimeSource};
use tokio::net::UdpSocket;

/// Advances the clock without running anything.
async fn sleep_through(time: Duration) {
    tokio::time::pause();
    tokio::time::advance(time).await;
    tokio::time::resume();
}

/// A silent peer, and a client's POST to it with the first transmission sent.
async fn start_request(
    client: &Client,
) -> (UdpSocket, tokio::task::JoinHandle<Result<(), carob::Error>>) {
    let peer = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let uri = format!("coap://{}/", peer.local_addr().unwrap());
    let request = client.post(uri).body("once");
    let request = tokio::spawn(async { request.send().await.map(|_| ()) });
    let mut first = [0; 64];
    let (bytes, _) = limited(peer.recv_from(&mut first)).await.unwrap();
    assert_eq!(first[0] >> 4 & 3, 0, "CON");
    assert!(first[..bytes].ends_with(b"once"));
    (peer, request)
}

/// Whether a retransmission arrives.
async fn is_retransmitted(peer: &UdpSocket) -> bool {
    let mut copy = [0; 64];
    let wait = Duration::from_millis(300);
    tokio::time::timeout(wait, peer.recv_from(&mut copy))
        .await
        .is_ok()
}

#[tokio::test]
async fn no_retransmission_after_suspension_beyond_the_exchange() {
    let client = client_with(Config::new().time_source(TimeSource::Tokio));
    let (peer, request) = start_request(&client).await;
    // EXCHANGE_LIFETIME is 247 s: the peer may have forgotten the Message ID.
    sleep_through(Duration::from_secs(300)).await;
    assert!(!is_retransmitted(&peer).await);
    let error = limited(request).await.unwrap().unwrap_err();
    assert!(error.is_timeout(), "{error}");
}

#[tokio::test]
async fn retransmission_after_suspension_within_the_exchange() {
    let client = client_with(Config::new().time_source(TimeSource::Tokio));
    let (peer, request) = start_request(&client).await;
    // The initial timeout is 3 s at most.
    sleep_through(Duration::from_secs(10)).await;
    assert!(is_retransmitted(&peer).await);
    request.abort();
}
