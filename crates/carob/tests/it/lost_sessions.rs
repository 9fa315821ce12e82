//! DTLS sessions lost by the server: restart, NAT rebinding, another server.

use std::net::SocketAddr;
use std::time::Duration;

use crate::common::in_time;
use crate::secured::{Between, client_with, device, impatient, key, keys, serve};
use carob::{Client, ClientDtls, Config, Error, ErrorKind, ServerDtls};
use carob_proto::endpoint::{Failure, SessionEnd};

/// Shorter than the first timeout of [`impatient`], 50 to 75 ms.
const IMPATIENCE: Duration = Duration::from_millis(45);
/// Failed requests after which the client starts a new session.
const BOUND: usize = 3;

/// A client with a session through a relay; its request timeout is shorter than its retransmission timeout.
async fn with_session(server: SocketAddr) -> (Client, Between, String) {
    let between = Between::new(server, Box::new(|_, datagram| vec![datagram.to_vec()]));
    let dtls = ClientDtls::new().psk(key("device-1", "secret-1"));
    let client = client_with(Config::new().dtls(dtls).parameters(impatient()));
    let uri = format!("coaps://{}/hello", between.address);
    client.get(&uri).await.expect("a first response");
    (client, between, uri)
}

/// Number of failed requests before a success. Each is ended after [`IMPATIENCE`] by its timeout or by dropping it. The
/// request after the bound may take longer, since it includes a handshake.
async fn failures(client: &Client, uri: &str, dropped: bool) -> usize {
    for failed in 0..BOUND {
        let request = client.get(uri);
        let failed_now = if dropped {
            tokio::time::timeout(IMPATIENCE, request).await.is_err()
        } else {
            let result = request.timeout(IMPATIENCE).await;
            result.is_err_and(|error| error.kind() == ErrorKind::Timeout)
        };
        if !failed_now {
            return failed;
        }
    }
    let reply = client.get(uri).timeout(Duration::from_secs(2)).await;
    reply.expect("a response in a new session");
    BOUND
}

#[test]
fn restarted_server_is_reached_although_requests_time_out_early() {
    in_time(async {
        for dropped in [false, true] {
            let (_server, address) = serve(ServerDtls::new().keys(keys())).await;
            let (client, between, uri) = with_session(address).await;
            // The new server does not know the session and sends no close_notify.
            let (_other, address) = serve(ServerDtls::new().keys(keys())).await;
            between.move_to(address);
            assert_eq!(failures(&client, &uri, dropped).await, BOUND);
            client.get(&uri).await.expect("the session stays");
        }
    });
}

#[test]
fn rebinding_nat_costs_few_requests() {
    in_time(async {
        let (_server, address) = serve(ServerDtls::new().keys(keys())).await;
        let (client, between, uri) = with_session(address).await;
        for _ in 0..3 {
            between.move_to(address);
            assert_eq!(failures(&client, &uri, false).await, BOUND);
        }
    });
}

#[test]
fn ended_session_is_followed_by_a_new_one() {
    in_time(async {
        let (_server, address) = serve(ServerDtls::new().keys(keys())).await;
        let client = device();
        assert!(
            !client.end_session(address).await,
            "a session exists already"
        );
        let uri = format!("coaps://{address}");
        client
            .get(format!("{uri}/hello"))
            .await
            .expect("a response");
        let slow = tokio::spawn(client.get(format!("{uri}/slow")).into_future());
        // The handler takes 400 ms, so the request is pending.
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(client.end_session(address).await);
        let error = slow
            .await
            .expect("no panic")
            .expect_err("its session ended");
        let requested = Failure::SessionEnded(SessionEnd::Requested);
        assert!(
            matches!(&error, Error::Failed { failure, .. } if *failure == requested),
            "{error:?}"
        );
        client
            .get(format!("{uri}/hello"))
            .await
            .expect("a response");
    });
}

#[test]
fn server_ends_session_of_a_client() {
    in_time(async {
        let (server, address) = serve(ServerDtls::new().keys(keys())).await;
        let (client, between, uri) = with_session(address).await;
        assert!(server.client().end_session(between.client()).await);
        // Delivery of close_notify.
        tokio::time::sleep(Duration::from_millis(50)).await;
        let identity = client.peer_identity(between.address).await;
        assert!(identity.is_none(), "it was closed");
        client.get(&uri).await.expect("a response in a new session");
    });
}
