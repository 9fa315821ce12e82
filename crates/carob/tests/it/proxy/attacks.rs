//! Attacks on a proxy, and the limits that stop them.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::time::Duration;

use carob::proxy::ProxyLimits;
use carob::server::{Notifier, Request, get as resource};
use carob::{CacheLimits, Code, Config, Error, OptionNumber, Proxy, Response, Server};

use super::{RequestLog, forwarding, get, started};
use crate::common::{client, in_time, limited, resources, start};

#[test]
fn only_allowed_origins_are_reached() {
    in_time(async {
        let heard = RequestLog::default();
        let hear = heard.clone();
        let tell = move |request: Request| {
            hear.hear(&request);
            async { "secret" }
        };
        let (origin, at) = start(
            Server::builder()
                .bind("127.0.0.1:0")
                .fallback(resource(tell)),
        )
        .await;
        let port = origin.local_address().port();
        let client = client();
        let plain = || Proxy::builder().server(Server::builder().bind("127.0.0.1:0"));
        // Nothing is allowed by default. The proxy's own host needs an explicit rule, whatever name resolves to it.
        let named = |pattern: &str| plain().allow(pattern.parse().unwrap());
        for pattern in [None, Some("*"), Some("example.org"), Some("10.0.0.0/8")] {
            let builder = pattern.map_or_else(plain, named);
            let (_proxy, proxy) = started(builder).await;
            for host in [
                "127.0.0.1",
                "localhost",
                "[::1]",
                "[::ffff:127.0.0.1]",
                "0.0.0.0",
            ] {
                let reply = get(&client, &proxy, &format!("coap://{host}:{port}/")).await;
                assert_eq!(reply.code, Code::PROXYING_NOT_SUPPORTED, "{host}");
            }
        }
        assert_eq!(heard.count(), 0);
        let (_proxy, proxy) = started(named("*").allow("127.0.0.1".parse().unwrap())).await;
        assert_eq!(get(&client, &proxy, &at).await.text(), Some("secret"));
        for group in ["224.0.1.187", "[ff02::fd]", "255.255.255.255"] {
            let reply = get(&client, &proxy, &format!("coap://{group}/")).await;
            assert_eq!(reply.code, Code::PROXYING_NOT_SUPPORTED, "{group}");
        }
    });
}

/// Starts an origin over TCP for one connection; returns its port. It answers each request with Observe, options of these
/// lengths and a body.
fn origin_with_options(lengths: &'static [usize]) -> u16 {
    use carob_proto::codec::{FrameReader, Framing, MessageView};
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("it is bound").port();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("the proxy connects");
        let mut reader = FrameReader::new(Framing::Stream, 1 << 20);
        // CSM with Max-Message-Size 1 MiB.
        stream
            .write_all(&[0x40, 0xe1, 0x23, 0x10, 0, 0])
            .expect("sent");
        let mut buffer = [0; 4_096];
        while let Ok(length @ 1..) = stream.read(&mut buffer) {
            reader.push(&buffer[..length]);
            while let Ok(Some(message)) = reader.next() {
                let view = MessageView::parse_long(message).expect("well formed");
                if !view.code().is_request() {
                    continue;
                }
                let token = view.token();
                let mut message = vec![0; 8_192];
                let id = carob_proto::codec::MessageId(0);
                let kind = carob_proto::codec::Type::NonConfirmable;
                let mut writer = carob_proto::codec::Writer::new(
                    &mut message,
                    kind,
                    Code::CONTENT,
                    id,
                    token.as_slice(),
                )
                .expect("fits");
                writer.option(OptionNumber::OBSERVE, &[1]).expect("fits");
                for &length in lengths {
                    let value = vec![0; length];
                    writer.option(OptionNumber(65_000), &value).expect("fits");
                }
                writer.payload(b"state").expect("fits");
                let length = writer.finish();
                let mut frame = Vec::new();
                let message = &message[..length];
                carob_proto::codec::frame::write_frame(Framing::Stream, message, &mut frame);
                if stream.write_all(&frame).is_err() {
                    return;
                }
            }
        }
    });
    port
}

#[test]
fn observed_response_with_options_at_and_above_the_limit() {
    in_time(async {
        // Four options sum to 4,096 bytes with their 14 bytes of headers and 2 of Observe; one option is too long alone.
        for lengths in [&[1_020; 4][..], &[1_035]] {
            let port = origin_with_options(lengths);
            let server = Server::builder()
                .without_datagrams()
                .bind_tcp("127.0.0.1:0");
            let proxy = Box::pin(forwarding().server(server).start()).await;
            let proxy = proxy.expect("a port");
            let via = super::uri_of(&proxy, carob::Scheme::CoapTcp);
            let client = client();
            let uri = format!("coap+tcp://127.0.0.1:{port}/state");
            let asked = client.get(uri).via(&via).timeout(Duration::from_secs(3));
            let code = match asked.observe().await {
                // Together with Max-Age they exceed the client's limit.
                Err(error) if lengths.len() > 1 => {
                    assert!(matches!(error, Error::Failed { .. }), "{error:?}");
                    continue;
                }
                Err(error) => panic!("{error:?}"),
                Ok(mut observation) => match observation.next().await {
                    Some(Ok(update)) => update.reply().expect("it has one").code,
                    other => panic!("{other:?}"),
                },
            };
            assert_eq!(code, Code::BAD_GATEWAY);
        }
    });
}

#[test]
fn proxy_loop_gives_5_08_with_the_proxies_names() {
    in_time(async {
        // The port of `one` must be known before `two` starts.
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let one = format!("coap://{}", socket.local_addr().unwrap());
        let two = Proxy::builder()
            .server(Server::builder().bind("127.0.0.1:0"))
            .identifier("two")
            .route("/", &one)
            .unwrap();
        let (_two, two) = started(two).await;
        let (_one, one) = started(
            Proxy::builder()
                .server(Server::builder().socket(socket))
                .identifier("one")
                .route("/", &two)
                .unwrap(),
        )
        .await;
        let client = client();
        let reply = client.get(format!("{one}/a")).await.unwrap();
        assert_eq!(reply.code, Code::HOP_LIMIT_REACHED);
        let names: Vec<_> = reply.text().unwrap().split(' ').collect();
        assert_eq!(
            names.len(),
            17,
            "16 hops, and the proxy that refused the next"
        );
        let both = |pair: &[&str]| pair == ["one", "two"];
        assert!(names[..16].chunks(2).all(both), "{names:?}");
        let asked = |value: &[u8]| {
            let option = client.get(format!("{one}/a"));
            option.option(OptionNumber::HOP_LIMIT, value)
        };
        let reply = asked(&[1]).await.unwrap();
        assert_eq!(
            (reply.code, reply.text()),
            (Code::HOP_LIMIT_REACHED, Some("one"))
        );
        let reply = asked(&[3]).await.unwrap();
        assert_eq!(reply.text(), Some("one two one"));
        assert_eq!(asked(&[0]).await.unwrap().code, Code::BAD_REQUEST);
        // Requests for link lists have a smaller hop limit.
        let list = client.get(format!("{one}/.well-known/core")).await.unwrap();
        assert_eq!(list.code, Code::CONTENT);
    });
}

#[test]
fn a_slow_origin_delays_nobody_else() {
    in_time(async {
        let (_slow, slow) = start(resources()).await;
        let (_quick, quick) = start(resources()).await;
        let mut limits = ProxyLimits::default();
        (limits.requests, limits.requests_of_origin) = (20, 10);
        let (proxy, uri) = started(forwarding().limits(limits)).await;
        let (stuck, other) = (client(), client());
        let mut waiting = tokio::task::JoinSet::new();
        for n in 0..10 {
            // One client per request: NSTART would queue them in a single client.
            let request = client().get(format!("{slow}/never?{n}")).via(&uri);
            waiting.spawn(async move { request.await });
        }
        while proxy.usage().requests < 10 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let began = tokio::time::Instant::now();
        let refused = get(&stuck, &uri, &format!("{slow}/hello")).await;
        assert_eq!(refused.code, Code::SERVICE_UNAVAILABLE);
        assert_eq!(refused.max_age(), Duration::from_secs(5));
        for n in 0..20 {
            let reply = get(&other, &uri, &format!("{quick}/hello?{n}")).await;
            assert_eq!(reply.text(), Some("hello"));
        }
        assert!(
            began.elapsed() < Duration::from_secs(2),
            "{:?}",
            began.elapsed()
        );
        // Requests of a client that has gone keep their slots until the origin times out. Cached responses need no slot.
        assert_eq!(proxy.usage().requests, 10);
    });
}

#[test]
fn one_client_does_not_take_all_places() {
    in_time(async {
        // Four slow origins, so that no limit per origin applies.
        let mut slow = Vec::new();
        for _ in 0..4 {
            slow.push(start(resources()).await);
        }
        let (_quick, quick) = start(resources()).await;
        for (share, expected) in [(10, Code::CONTENT), (20, Code::SERVICE_UNAVAILABLE)] {
            let mut limits = ProxyLimits::default();
            (limits.requests, limits.requests_of_origin) = (20, 10);
            limits.requests_of_client = share;
            let (proxy, uri) = started(forwarding().limits(limits)).await;
            // From 127.0.0.2; the honest client uses 127.0.0.1.
            let greedy = std::net::UdpSocket::bind("127.0.0.2:0").unwrap();
            let to = proxy.server().local_address();
            for n in 0..40_u8 {
                let (_, at) = &slow[usize::from(n % 4)];
                let target = format!("{at}/never?{n}");
                // Proxy-Uri (35) with an extended length byte.
                let mut bytes = vec![0x40, 1, 9, n, 0xdd, 35 - 13, (target.len() - 13) as u8];
                bytes.extend_from_slice(target.as_bytes());
                greedy.send_to(&bytes, to).unwrap();
            }
            while proxy.usage().requests < share {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            let reply = get(&client(), &uri, &format!("{quick}/hello")).await;
            assert_eq!(reply.code, expected);
        }
    });
}

#[test]
fn waiting_for_an_origin_is_limited() {
    in_time(async {
        let (_origin, at) = start(resources()).await;
        let mut limits = ProxyLimits::default();
        limits.patience = Duration::from_millis(300);
        let (proxy, uri) = started(forwarding().limits(limits)).await;
        let reply = get(&client(), &uri, &format!("{at}/never")).await;
        assert_eq!(reply.code, Code::GATEWAY_TIMEOUT);
        assert_eq!(proxy.usage().requests, 0);
    });
}

#[tokio::test]
async fn flood_of_distinct_requests_is_bounded_by_the_cache_limit() {
    const FLOOD: usize = 600;
    limited(async {
        let large = |_: Request| async { Response::new(Code::CONTENT).with_payload(vec![7; 900]) };
        let (_origin, at) = start(
            Server::builder()
                .bind("127.0.0.1:0")
                .fallback(resource(large)),
        )
        .await;
        let mut limits = ProxyLimits::default();
        limits.cache = CacheLimits {
            entries: 100,
            bytes: 50_000,
        };
        let (proxy, uri) = started(forwarding().limits(limits)).await;
        let client = client();
        let mut most = (0, 0);
        for n in 0..FLOOD {
            let reply = get(&client, &uri, &format!("{at}/{n}?{n}")).await;
            assert_eq!(reply.code, Code::CONTENT);
            let cache = proxy.usage().cache;
            most = (most.0.max(cache.entries), most.1.max(cache.bytes));
        }
        assert!(most.0 <= 100 && most.1 <= 50_000, "{most:?}");
        assert!(most.1 > 40_000, "it is used: {most:?}");
    })
    .await;
}

#[test]
fn client_cannot_poison_the_cache() {
    in_time(async {
        // The origin echoes Uri-Host and payload.
        let echo = |request: Request| async move {
            let host = request
                .options()
                .first(OptionNumber::URI_HOST)
                .unwrap_or_default();
            let body = [host, request.payload()].concat();
            Response::new(Code::CONTENT).with_payload(body)
        };
        let builder = Server::builder().bind("127.0.0.1:0");
        let (origin, at) =
            start(builder.fallback(carob::Resource::new().get(echo).fetch(echo))).await;
        let port = origin.local_address().port();
        let routed = forwarding()
            .allow("localhost".parse().unwrap())
            .route("/r", &at)
            .unwrap();
        let (_proxy, uri) = started(routed).await;
        let client = client();
        // Different values of Uri-Host, by route and by URI.
        let evil = client
            .get(format!("{uri}/r/x"))
            .option(OptionNumber::URI_HOST, "evil");
        assert_eq!(
            evil.await.unwrap().text(),
            Some(""),
            "the origin received the forged Uri-Host"
        );
        assert_eq!(
            client.get(format!("{uri}/r/x")).await.unwrap().text(),
            Some("")
        );
        let other = get(&client, &uri, &format!("coap://localhost:{port}/x")).await;
        assert_eq!(other.text(), Some("localhost"));
        assert_eq!(
            get(&client, &uri, &format!("{at}/x")).await.text(),
            Some("")
        );
        // With a different FETCH body.
        let fetch = |body: &'static str| client.fetch(format!("{at}/x")).via(&uri).body(body);
        assert_eq!(fetch("evil").await.unwrap().text(), Some("evil"));
        assert_eq!(fetch("good").await.unwrap().text(), Some("good"));
        assert_eq!(
            get(&client, &uri, &format!("{at}/x")).await.text(),
            Some("")
        );
    });
}

#[test]
fn one_client_does_not_take_all_observations() {
    in_time(async {
        for (share, is_observed) in [(4, true), (usize::MAX, false)] {
            let changes = Notifier::new();
            let origin = Server::builder().bind("127.0.0.1:0").resource(
                "/state",
                resource(|_: Request| async { "0" }).observable(&changes),
            );
            // To the origin, the proxy is a single peer, which has its own limit.
            let settings = Config::new().limit("observers_of_peer", 8).unwrap();
            let (origin, at) = start(origin.config(settings)).await;
            let mut limits = ProxyLimits::default();
            limits.observations_of_client = share;
            let (proxy, uri) = started(forwarding().limits(limits)).await;
            // From 127.0.0.2; the honest client uses 127.0.0.1.
            let greedy = std::net::UdpSocket::bind("127.0.0.2:0").unwrap();
            let to = proxy.server().local_address();
            for n in 0..16_u8 {
                let target = format!("{at}/state?{n}");
                // Observe (6), Proxy-Uri (35) with an extended length byte.
                let mut bytes = vec![0x41, 1, 9, n, n, 0x60, 0xdd, 35 - 6 - 13];
                bytes.push((target.len() - 13) as u8);
                bytes.extend_from_slice(target.as_bytes());
                greedy.send_to(&bytes, to).unwrap();
            }
            let most = share.min(8);
            while origin.client().usage().await.unwrap().observers < most {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            let honest = client().get(format!("{at}/state")).via(&uri);
            let observation = honest.observe().await.expect("an answer");
            assert_eq!(observation.is_observed(), is_observed, "{share}");
            let of_all = proxy.usage().observations;
            assert!(share > 8 || of_all == share + 1, "{of_all}");
        }
    });
}
