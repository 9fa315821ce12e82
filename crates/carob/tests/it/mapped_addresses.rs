//! IPv4-mapped IPv6 addresses (RFC 4291 2.5.5.2) in URIs, as peer addresses and as bind addresses.

use std::net::SocketAddr;

use crate::common::{client, in_time, resources, start};
use crate::secured::{Authority, device, keys, serve};
use carob::server::{Notifier, Request, fixed, get};
use carob::{Client, Config, PeerConfig, Proxy, Server, ServerDtls, ServerTls};

/// Formats a loopback address as `[::ffff:127.0.0.1]:PORT`.
fn mapped(address: SocketAddr) -> String {
    format!("[::ffff:127.0.0.1]:{}", address.port())
}

#[test]
fn replies_from_mapped_addresses_are_matched() {
    in_time(async {
        let (server, _) = start(resources()).await;
        let authority = mapped(server.local_address());
        let client = client();
        let reply = client.get(format!("coap://{authority}/hello")).await;
        let reply = reply.expect("a response");
        assert_eq!(reply.peer, server.local_address());
        let ping = client.ping(format!("coap://{authority}")).await;
        ping.expect("a pong");
        let address: SocketAddr = authority.parse().expect("an address");
        let by_address = client.get("coap://device.test/hello").address(address);
        by_address.await.expect("a response");
        assert!(client.snapshot(address).await.is_some());
        assert!(client.gauges(address).await.is_some());
        let set = client.set_peer(address, PeerConfig::default()).await;
        set.expect("a known peer");
    });
}

#[test]
fn observation_of_mapped_address_continues() {
    in_time(async {
        let notifier = Notifier::new();
        let state = get(|_: Request| async { "state" }).observable(&notifier);
        let server = Server::builder()
            .bind("127.0.0.1:0")
            .resource("/state", state);
        let (server, _) = start(server).await;
        let uri = format!("coap://{}/state", mapped(server.local_address()));
        let mut observation = client().get(uri).observe().await.expect("registered");
        let first = observation.next().await.expect("a notification");
        assert!(first.is_ok());
        notifier.changed();
        let second = observation.next().await.expect("another one");
        assert!(second.is_ok());
    });
}

#[test]
fn mapped_address_uses_the_dtls_session() {
    in_time(async {
        let (_server, address) = serve(ServerDtls::new().keys(keys())).await;
        let device = device();
        let uri = format!("coaps://{}/hello", mapped(address));
        device.get(uri).await.expect("a response");
        let peer: SocketAddr = mapped(address).parse().expect("an address");
        assert!(device.peer_identity(peer).await.is_some());
        assert!(device.end_session(peer).await);
    });
}

#[test]
fn mapped_address_uses_tcp_and_websocket() {
    in_time(async {
        let authority = Authority::new();
        let identity = authority.issue("127.0.0.1", |_| {});
        let server = Server::builder()
            .without_datagrams()
            .bind_tcp("127.0.0.1:0")
            .bind_tls("127.0.0.1:0", ServerTls::new(identity))
            .bind_ws("127.0.0.1:0")
            .resource("/hello", fixed("hello"));
        let server = server.start().await.expect("free ports are bound");
        let config = Config::new().tls(authority.trust());
        let client = Client::builder().config(config).open().expect("a client");
        for (scheme, address) in server.addresses() {
            let uri = format!("{scheme}://{}/hello", mapped(*address));
            let reply = client.get(&uri).await;
            assert!(reply.is_ok(), "{uri}: {reply:?}");
        }
    });
}

#[test]
fn proxy_reaches_origin_at_mapped_address() {
    in_time(async {
        let (origin, _) = start(resources()).await;
        let origin = format!("coap://{}", mapped(origin.local_address()));
        let proxy = Proxy::builder()
            .server(Server::builder().bind("127.0.0.1:0"))
            .allow("127.0.0.0/8".parse().expect("a network"))
            .route("/m", &origin)
            .expect("a route");
        let proxy = Box::pin(proxy.start()).await.expect("a free port is bound");
        let uri = format!("coap://{}", proxy.server().local_address());
        let client = client();
        let reverse = client.get(format!("{uri}/m/hello")).await;
        assert_eq!(reverse.expect("a response").text(), Some("hello"));
        let forward = client.get(format!("{origin}/hello")).via(&uri).await;
        assert_eq!(forward.expect("a response").text(), Some("hello"));
    });
}

#[test]
fn mapped_bind_address_listens_on_ipv4() {
    in_time(async {
        let server = Server::builder()
            .bind("[::ffff:127.0.0.1]:0")
            .bind_tcp("[::ffff:127.0.0.1]:0")
            .resource("/hello", fixed("hello"));
        let server = server.start().await.expect("free ports are bound");
        for (scheme, address) in server.addresses() {
            assert!(address.is_ipv4(), "{address}");
            let reply = client().get(format!("{scheme}://{address}/hello")).await;
            reply.expect("a response");
        }
    });
}
