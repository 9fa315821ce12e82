//! Exported metrics match the traffic.
#![cfg(feature = "prometheus")]

use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use crate::common::in_time;
use carob::metrics::Prometheus;
use carob::{Client, Config};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// The value of a series, given by name and labels as exported.
fn value(text: &str, series: &str) -> Option<f64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(series));
    rest.and_then(|rest| rest.strip_prefix(' ')?.parse().ok())
}

/// Sends a request and reads until the connection is closed.
async fn http(to: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(to).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).await.unwrap();
    response
}

async fn listening(prometheus: &Prometheus) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(prometheus.clone().serve(listener));
    address
}

/// Scrapes until the series have these values, in the exposition format.
async fn expect(at: SocketAddr, expected: &str) -> String {
    let began = Instant::now();
    loop {
        let response = http(at, "GET /metrics HTTP/1.1\r\nHost: localhost:1\r\n\r\n").await;
        assert!(response.starts_with("HTTP/1.1 200 OK\r\n"), "{response}");
        let mut lines = expected
            .lines()
            .filter_map(|line| line.trim().rsplit_once(' '));
        let wrong = |(series, is): &(&str, &str)| {
            value(&response, series) != Some(is.parse().expect("a number"))
        };
        let Some((series, is)) = lines.find(wrong) else {
            return response;
        };
        assert!(
            began.elapsed() < Duration::from_secs(8),
            "{series} is not {is} in\n{response}"
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[test]
fn requests_are_counted_on_both_sides() {
    in_time(async {
        let prometheus = Prometheus::new();
        let _guard = metrics::set_default_local_recorder(prometheus.recorder());
        let at = listening(&prometheus).await;
        let (server, uri) = crate::common::start(crate::common::resources()).await;
        let client = Client::new().unwrap();
        for _ in 0..17 {
            client.get(format!("{uri}/hello")).await.unwrap();
        }
        client.get(format!("{uri}/nowhere")).await.unwrap();
        client.get(format!("{uri}/slow")).await.unwrap();
        let text = expect(
            at,
            r#"
            carob_requests_total{code="2.05",method="GET",scheme="coap"} 18
            carob_requests_total{code="4.04",method="GET",scheme="coap"} 1
            carob_responses_total{code="2.05",scheme="coap"} 18
            carob_transmissions_total{kind="request",scheme="coap"} 19
            carob_retransmissions_total{kind="request",scheme="coap"} 0
            carob_exchanges_total{kind="request",outcome="answered",scheme="coap"} 19
            carob_round_trip_seconds_count{scheme="coap"} 20
            carob_retransmission_timeout_seconds_count{scheme="coap"} 20
            carob_handler_seconds_count{scheme="coap"} 1
            carob_peers{scheme="coap"} 2
            carob_endpoints{controller="default",scheme="coap"} 2
            carob_requests_in_progress{scheme="coap"} 0
            carob_limit{limit="incoming",scheme="coap"} 32768
            carob_build_info{version="0.1.0"} 1
            "#,
        )
        .await;
        // The handler sleeps for at least 64 ms, so lower buckets are empty.
        let below = "carob_handler_seconds_bucket{scheme=\"coap\",le=\"0.032768\"}";
        assert_eq!(value(&text, below), Some(0.0), "{text}");
        // Gauges drop to zero; counters keep their values.
        server.shutdown(Duration::from_secs(1)).await;
        drop(client);
        expect(
            at,
            r#"
            carob_peers{scheme="coap"} 0
            carob_endpoints{controller="default",scheme="coap"} 0
            carob_limit{limit="incoming",scheme="coap"} 0
            carob_responses_total{code="2.05",scheme="coap"} 18
            "#,
        )
        .await;
    });
}

#[test]
fn retransmissions_and_duplicates_are_counted() {
    in_time(async {
        let prometheus = Prometheus::new();
        let _guard = metrics::set_default_local_recorder(prometheus.recorder());
        let at = listening(&prometheus).await;
        // A silent peer: three transmissions and three timeouts.
        let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
        let settings = Config::new().parameters(crate::common::impatient());
        let client = Client::builder().config(settings).open().unwrap();
        let uri = format!("coap://{}/x", silent.local_addr().unwrap());
        assert!(client.get(&uri).await.is_err());
        // One message three times, and one that is malformed.
        let (server, _) = crate::common::start(crate::common::resources()).await;
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        let hello = [&[0x40, 1, 0, 7, 0xb5][..], b"hello"].concat();
        for _ in 0..3 {
            sender.send_to(&hello, server.local_address()).unwrap();
        }
        sender.send_to(b"?", server.local_address()).unwrap();
        expect(
            at,
            r#"
            carob_transmissions_total{kind="request",scheme="coap"} 3
            carob_retransmissions_total{kind="request",scheme="coap"} 2
            carob_timeouts_total{kind="request",scheme="coap"} 3
            carob_exchanges_total{kind="request",outcome="timed-out",scheme="coap"} 1
            carob_duplicates_total{scheme="coap"} 2
            carob_requests_total{code="2.05",method="GET",scheme="coap"} 1
            carob_received_messages_total{scheme="coap"} 4
            carob_received_bytes_total{scheme="coap"} 31
            carob_refusals_total{reason="malformed",scheme="coap"} 1
            carob_refusals_total{reason="overload",scheme="coap"} 0
            carob_refusals_total{reason="amplification",scheme="coap"} 0
            "#,
        )
        .await;
    });
}

#[test]
fn sessions_and_connections_are_counted() {
    in_time(async {
        let prometheus = Prometheus::new();
        let _guard = metrics::set_default_local_recorder(prometheus.recorder());
        let at = listening(&prometheus).await;
        let key = || carob::PreSharedKey::new("me", b"secret-of-sixteen".to_vec()).unwrap();
        let secured = carob::ServerDtls::new().keys(carob::PskStore::new([key()]));
        let builder = crate::common::resources()
            .bind_dtls("127.0.0.1:0", secured)
            .bind_tcp("127.0.0.1:0");
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let (chain, private) = (made.cert.pem(), made.signing_key.serialize_pem());
        let identity = carob::Identity::from_pem(chain.as_bytes(), private.as_bytes()).unwrap();
        let builder = builder.bind_tls("127.0.0.1:0", carob::ServerTls::new(identity));
        let server = builder.start().await.unwrap();
        let [_, (_, dtls), (_, tcp), (_, tls)] = server.addresses() else {
            panic!("four");
        };
        let mut garbage = std::net::TcpStream::connect(tls).unwrap();
        std::io::Write::write_all(&mut garbage, b"no hello\r\n").unwrap();
        let settings = Config::new().dtls(carob::ClientDtls::new().psk(key()));
        let client = Client::builder().config(settings).open().unwrap();
        client.get(format!("coaps://{dtls}/hello")).await.unwrap();
        client.get(format!("coap+tcp://{tcp}/hello")).await.unwrap();
        // Both endpoints are in this process; the garbage goes to the TLS port.
        expect(
            at,
            r#"
            carob_sessions{scheme="coaps"} 2
            carob_handshakes_total{outcome="done",scheme="coaps"} 2
            carob_handshakes_total{outcome="failed",scheme="coaps"} 0
            carob_cookies_total{scheme="coaps"} 1
            carob_requests_total{code="2.05",method="GET",scheme="coaps"} 1
            carob_handshakes_total{outcome="failed",scheme="coaps+tcp"} 1
            carob_handshakes_total{outcome="done",scheme="coaps+tcp"} 0
            carob_connections{scheme="coap+tcp"} 2
            carob_connections_total{outcome="accepted",scheme="coap+tcp"} 1
            carob_connections_total{outcome="made",scheme="coap+tcp"} 1
            carob_requests_total{code="2.05",method="GET",scheme="coap+tcp"} 1
            "#,
        )
        .await;
        drop((client, server));
    });
}

/// Drops of a full receive buffer; only Linux reports them.
#[cfg(target_os = "linux")]
#[test]
fn datagrams_dropped_by_the_kernel_are_counted() {
    in_time(async {
        let prometheus = Prometheus::new();
        let _guard = metrics::set_default_local_recorder(prometheus.recorder());
        let settings = Config::new().receive_buffer(4_096);
        let builder = crate::common::resources().config(settings);
        let (server, _) = crate::common::start(builder).await;
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        // The server shares this thread and does not run until the next await.
        for _ in 0..2_000 {
            sender
                .send_to(&[0x60, 0, 0, 0], server.local_address())
                .unwrap();
        }
        let began = Instant::now();
        let series =
            |name: &str| value(&prometheus.render(), &format!("{name}{{scheme=\"coap\"}}"));
        loop {
            let (came, lost) = (
                series("carob_received_messages_total"),
                series("carob_datagrams_dropped_total"),
            );
            if came.zip(lost).is_some_and(|(came, lost)| {
                assert!(came + lost <= 2_000.0, "{came} {lost}");
                lost > 0.0 && came + lost > 1_999.5
            }) {
                break;
            }
            assert!(
                began.elapsed() < Duration::from_secs(8),
                "{came:?} {lost:?}"
            );
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    });
}

#[test]
fn other_http_requests_get_errors() {
    in_time(async {
        let prometheus = Prometheus::new();
        let at = listening(&prometheus).await;
        let long = format!("GET /metrics HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(9_000));
        for (request, status) in [
            ("GET /metrics HTTP/1.0\r\n\r\n", "200"),
            ("GET /metrics?x=y HTTP/1.1\r\n\r\n", "200"),
            ("GET / HTTP/1.1\r\n\r\n", "404"),
            ("POST /metrics HTTP/1.1\r\n\r\n", "405"),
            ("nonsense\r\n\r\n", "400"),
            (&long, "431"),
        ] {
            let response = http(at, request).await;
            let expected = format!("HTTP/1.1 {status} ");
            assert!(response.starts_with(&expected), "{request:?}: {response}");
        }
        let head = http(at, "HEAD /metrics HTTP/1.1\r\n\r\n").await;
        let (_, body) = head.split_once("\r\n\r\n").unwrap();
        assert_eq!(body, "");
    });
}

#[test]
fn silent_connections_do_not_block_scrapers() {
    in_time(async {
        let at = listening(&Prometheus::new()).await;
        let mut silent = Vec::new();
        for n in 0..200 {
            let mut stream = TcpStream::connect(at).await.unwrap();
            if n % 2 == 0 {
                stream.write_all(b"GET /met").await.unwrap();
            }
            silent.push(stream);
        }
        let scrape = http(at, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let scraped = tokio::time::timeout(Duration::from_secs(1), scrape).await;
        assert!(scraped.expect("at once").contains("carob_build_info"));
        for mut stream in silent {
            let mut rest = Vec::new();
            // Closed or reset without a response.
            let read = tokio::time::timeout(Duration::from_secs(5), stream.read_to_end(&mut rest));
            let closed = read.await.expect("it is closed after two seconds");
            assert!(closed.is_err() || rest.is_empty(), "{rest:?}");
        }
    });
}

#[test]
fn a_name_that_is_not_the_servers_is_refused() {
    in_time(async {
        let at = listening(&Prometheus::new().host("Metrics.example.org")).await;
        for (host, status) in [
            ("127.0.0.1:9683", "200"),
            ("[::1]:9683", "200"),
            ("[::1]", "200"),
            ("192.0.2.7", "200"),
            ("LOCALHOST:80", "200"),
            ("metrics.example.org:9683", "200"),
            ("rebound.example.net:9683", "421"),
            ("127.0.0.1.example.net", "421"),
            ("localhost.example.net", "421"),
            ("", "421"),
        ] {
            let request = format!("GET /metrics HTTP/1.1\r\nhOsT: {host}\r\n\r\n");
            let response = http(at, &request).await;
            assert!(
                response.starts_with(&format!("HTTP/1.1 {status} ")),
                "{host}: {response}"
            );
            assert_eq!(response.contains("carob_build_info"), status == "200");
        }
    });
}
