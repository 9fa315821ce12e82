//! State and configuration of peers over every transport.

use std::net::SocketAddr;

use carob::dtls::ClientDtls;
use carob::{Client, Config, CongestionControl, Error, PeerConfig, Scheme, Server, ServerDtls};
use carob_cc::controller::Gauge;

use crate::common::{impatient, in_time};
use crate::secured::{builder, client_with, key, keys};

/// A server with DTLS, TCP and WebSocket listeners.
async fn serve() -> Server {
    builder()
        .bind_dtls("127.0.0.1:0", ServerDtls::new().keys(keys()))
        .bind_tcp("127.0.0.1:0")
        .bind_ws("127.0.0.1:0")
        .start()
        .await
        .expect("free ports are bound")
}

fn address(server: &Server, scheme: Scheme) -> SocketAddr {
    let mut all = server.addresses().iter();
    all.find(|(of, _)| *of == scheme).expect("it is bound").1
}

fn client() -> Client {
    let dtls = ClientDtls::new().psk(key("device-1", "secret-1"));
    client_with(Config::new().dtls(dtls))
}

async fn hello(client: &Client, scheme: Scheme, peer: SocketAddr) {
    let reply = client.get(format!("{scheme}://{peer}/hello")).await;
    assert_eq!(reply.expect("an answer").text(), Some("hello"));
}

#[test]
fn dtls_peer_has_state_and_gauges() {
    in_time(async {
        let server = serve().await;
        let peer = address(&server, Scheme::Coaps);
        let dtls = ClientDtls::new().psk(key("device-1", "secret-1"));
        let settings = Config::new().dtls(dtls).controller_named("cocoa-03");
        let client = client_with(settings.expect("it is registered"));
        assert_eq!(client.snapshot(peer).await, None);
        hello(&client, Scheme::Coaps, peer).await;
        let snapshot = client.snapshot(peer).await.expect("it is known");
        assert!(snapshot.rto.is_some() && snapshot.round_trip.is_some());
        assert_eq!(client.peers().await.unwrap(), [peer]);
        assert_eq!(client.usage().await.unwrap().peers, 1);
        let gauges = client.gauges(peer).await.expect("it is known");
        assert!(!gauges.is_empty());
    });
}

#[test]
fn connection_peer_has_state_without_timers() {
    in_time(async {
        let server = serve().await;
        for (count, scheme) in [Scheme::CoapTcp, Scheme::CoapWs].into_iter().enumerate() {
            let client = client();
            let peer = address(&server, scheme);
            hello(&client, scheme, peer).await;
            let snapshot = client.snapshot(peer).await.expect("it is known");
            assert_eq!(snapshot.rto, None, "{scheme}");
            assert!(snapshot.transmissions > 0, "{scheme}");
            assert_eq!(client.gauges(peer).await, Some(Vec::new()), "{scheme}");
            assert_eq!(client.peers().await.unwrap(), [peer]);
            assert_eq!(client.usage().await.unwrap().connections, 1);
            let connections = server.client().usage().await.unwrap().connections;
            assert!(connections > 0 && connections <= count + 1, "{scheme}");
        }
    });
}

#[test]
fn peer_controller_applies_to_dtls_before_and_after_start() {
    in_time(async {
        let server = serve().await;
        let peer = address(&server, Scheme::Coaps);
        let choice = || {
            PeerConfig::new()
                .controller(CongestionControl::named("cocoa-plus").expect("it is registered"))
        };
        let has_srtt = |gauges: Option<Vec<(&str, Gauge)>>| {
            let gauges = gauges.expect("the peer is known");
            gauges.iter().any(|(name, _)| name.contains("rto_"))
                || gauges.iter().any(|(name, _)| name.contains("strong"))
        };
        let plain = client();
        hello(&plain, Scheme::Coaps, peer).await;
        assert!(!has_srtt(plain.gauges(peer).await), "not without it");
        let before = client();
        before.set_peer(peer, choice()).await.unwrap();
        hello(&before, Scheme::Coaps, peer).await;
        assert!(has_srtt(before.gauges(peer).await));
        // The DTLS endpoint exists already, the peer is new.
        let after = client();
        let other = serve().await;
        hello(&after, Scheme::Coaps, address(&other, Scheme::Coaps)).await;
        after.set_peer(peer, choice()).await.unwrap();
        hello(&after, Scheme::Coaps, peer).await;
        assert!(has_srtt(after.gauges(peer).await));
    });
}

#[test]
fn controller_for_a_connection_peer_is_an_error() {
    in_time(async {
        let server = serve().await;
        let peer = address(&server, Scheme::CoapTcp);
        let client = client();
        hello(&client, Scheme::CoapTcp, peer).await;
        let refused = client
            .set_peer(peer, PeerConfig::new().parameters(impatient()))
            .await;
        let error = refused.expect_err("the kernel decides");
        assert!(matches!(error, Error::OverConnection { .. }), "{error}");
        assert!(error.to_string().contains("coap+tcp"), "{error}");
    });
}
