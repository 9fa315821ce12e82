//! Multicast requests over real sockets (RFC 7252 8), on the loopback interface.

#![cfg(target_os = "linux")]

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use crate::common::limited;
use carob::client::MULTICAST_WAIT;
use carob::server::{Request, get};
use carob::{Client, Config, Error, Group, Response, Server};
use carob_proto::endpoint::Leisure;

/// A socket with SO_REUSEADDR, as needed by several members on one host.
fn shared(v6: bool, port: u16) -> UdpSocket {
    use socket2::{Domain, Socket, Type};
    let domain = if v6 { Domain::IPV6 } else { Domain::IPV4 };
    let socket = Socket::new(domain, Type::DGRAM, None).unwrap();
    socket.set_reuse_address(true).unwrap();
    if v6 {
        socket.set_only_v6(false).unwrap();
    }
    let any: IpAddr = if v6 {
        std::net::Ipv6Addr::UNSPECIFIED.into()
    } else {
        std::net::Ipv4Addr::UNSPECIFIED.into()
    };
    socket.bind(&SocketAddr::from((any, port)).into()).unwrap();
    socket.into()
}

/// Whether the loopback interface sends IPv6 multicast, which needs a route that an administrator has added.
fn routes_ipv6_groups() -> bool {
    let to: SocketAddr = "[ff02::fd%1]:9".parse().unwrap();
    shared(true, 0).send_to(b"", to).is_ok()
}

/// A leisure of one millisecond per byte, for short tests.
fn soon() -> Config {
    Config::new().leisure(Leisure::Estimated {
        members: 1,
        rate: 1_000,
    })
}

async fn member(socket: UdpSocket, group: &str, name: &'static str) -> Server {
    let whoami = get(move |request: Request| async move {
        assert!(request.is_to_group());
        name
    });
    let body = get(move |_: Request| async move { name.repeat(1_000) });
    Server::builder()
        .socket(socket)
        .config(soon())
        .join(group.parse().unwrap())
        .resource("/whoami", whoami)
        .resource("/large", body)
        .resource(
            "/error",
            get(|_: Request| async { Response::new(carob::Code::NOT_FOUND) }),
        )
        .start()
        .await
        .unwrap()
}

fn client() -> Client {
    let settings = Config::new().group_interface("lo");
    Client::builder().config(settings).open().unwrap()
}

async fn texts(client: &Client, uri: &str) -> Vec<String> {
    let lasts = Duration::from_millis(1_500);
    let mut gathered = client.get(uri).multicast(lasts).await.unwrap();
    let mut texts = Vec::new();
    while let Some(reply) = limited(gathered.next()).await {
        texts.push(reply.unwrap().text().unwrap().to_owned());
    }
    texts.sort();
    texts
}

#[tokio::test]
async fn slow_ipv4_and_ipv6_members_respond_until_the_leisure_ends() {
    // Loopback has no route for IPv6 multicast by default.
    let mut all = vec![
        (false, "224.0.1.187%lo", "224.0.1.187"),
        (true, "224.0.1.187%lo", "224.0.1.187"),
    ];
    if routes_ipv6_groups() {
        all.push((true, "ff02::fd%lo", "[ff02::fd%25lo]"));
        all.push((true, "ff05::fd%lo", "[ff05::fd]"));
    }
    for (v6, group, host) in all {
        let first = shared(v6, 0);
        let port = first.local_addr().unwrap().port();
        let _one = member(first, group, "one").await;
        let _two = member(shared(v6, port), group, "two").await;
        let client = client();
        let began = Instant::now();
        let uri = format!("coap://{host}:{port}/whoami");
        assert_eq!(texts(&client, &uri).await, ["one", "two"], "{group}");
        assert!(began.elapsed() >= Duration::from_millis(1_400));
        // Errors are not sent in response to multicast requests (RFC 7252 8.1).
        let uri = format!("coap://{host}:{port}/error");
        assert!(texts(&client, &uri).await.is_empty(), "{group}");
    }
}

#[tokio::test]
async fn large_multicast_response_is_reassembled() {
    let socket = shared(false, 0);
    let port = socket.local_addr().unwrap().port();
    let _server = member(socket, "224.0.1.187%lo", "four").await;
    let texts = texts(&client(), &format!("coap://224.0.1.187:{port}/large")).await;
    assert_eq!(texts, ["four".repeat(1_000)]);
}

#[tokio::test]
async fn only_joined_groups_are_served() {
    // Linux delivers multicast datagrams to all sockets of the port once any socket has joined the group.
    let socket = shared(false, 0);
    let port = socket.local_addr().unwrap().port();
    let _other = member(socket, "224.0.1.188%lo", "other").await;
    let _one = member(shared(false, port), "224.0.1.187%lo", "one").await;
    let uri = format!("coap://224.0.1.187:{port}/whoami");
    assert_eq!(texts(&client(), &uri).await, ["one"]);
}

#[tokio::test]
async fn invalid_multicast_requests_are_errors() {
    let bound = Server::builder()
        .bind("127.0.0.1:0")
        .join("224.0.1.187".parse().unwrap());
    let error = bound.start().await.unwrap_err();
    assert!(
        error
            .report()
            .to_string()
            .contains("bound to the unspecified address"),
        "{error}"
    );
    assert_eq!(error.remedy(), Some("bind [::] or 0.0.0.0"));
    let nowhere = Server::builder()
        .bind("[::]:0")
        .join("224.0.1.187%nowhere0".parse().unwrap());
    let error = nowhere.start().await.unwrap_err();
    assert!(error.report().to_string().contains("nowhere0"), "{error}");
    assert!("127.0.0.1".parse::<Group>().is_err());

    let client = client();
    let mut one_host = client
        .get("coap://127.0.0.1/x")
        .multicast(MULTICAST_WAIT)
        .await
        .unwrap();
    let error = one_host.next().await.unwrap().unwrap_err();
    assert!(matches!(error, Error::NotSent { .. }), "{error}");
    assert!(one_host.next().await.is_none());
    let to_group = client.get("coap://224.0.1.187/x").send().await.unwrap_err();
    assert!(to_group.remedy().unwrap().contains("multicast"));
}

#[tokio::test]
async fn dropping_the_stream_ends_the_request() {
    let client = client();
    let gathered = client
        .get("coap://224.0.1.187:9/x")
        .multicast(Duration::from_secs(600))
        .await
        .unwrap();
    limited(async { while client.usage().await.unwrap().requests == 0 {} }).await;
    drop(gathered);
    limited(async {
        while client.usage().await.unwrap().requests > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
}
