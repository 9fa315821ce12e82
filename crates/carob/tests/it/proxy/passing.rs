//! Forwarding of requests and responses.

use std::time::Duration;

use carob::server::{Request, Resource, fixed, get as resource};
use carob::{
    BlockSize, Client, Code, Config, Error, OptionNumber, PeerConfig, Proxy, QBlockMode, Response,
    Scheme, Server,
};

use super::{RequestLog, forwarding, get, started, understanding, uri_of};
use crate::common::{
    client, client_with, closed_port, impatient, in_time, large, limited, resources, silent_peer,
    start,
};

/// An origin that logs its requests.
async fn listening() -> (Server, String, RequestLog) {
    let heard = RequestLog::default();
    let hear = heard.clone();
    let tell = move |request: Request| {
        let count = hear.hear(&request);
        async move { count.to_string() }
    };
    let (server, uri) = start(
        Server::builder()
            .bind("127.0.0.1:0")
            .fallback(resource(tell)),
    )
    .await;
    (server, uri, heard)
}

#[test]
fn route_prefix_is_removed_and_hop_limit_decremented() {
    in_time(async {
        let (_origin, at, heard) = listening().await;
        let (_proxy, proxy) = started(forwarding()).await;
        let reply = get(&client(), &proxy, &format!("{at}/a/b?c=d")).await;
        assert_eq!((reply.code, reply.text()), (Code::CONTENT, Some("1")));
        let request = heard.last();
        assert!(request.segments().eq([b"a", b"b"]));
        assert!(request.query().eq([b"c=d"]));
        let options = request.options();
        for number in [
            OptionNumber::PROXY_SCHEME,
            OptionNumber::PROXY_URI,
            OptionNumber::URI_HOST,
            OptionNumber::URI_PORT,
        ] {
            assert!(!options.contains(number), "{number}");
        }
        assert_eq!(options.uint(OptionNumber::HOP_LIMIT), Some(16));
    });
}

#[test]
fn proxy_uri_is_split_into_options() {
    in_time(async {
        let (origin, _at, heard) = listening().await;
        let builder = forwarding().allow("localhost".parse().unwrap());
        let (_proxy, proxy) = started(builder).await;
        let port = origin.local_address().port();
        let text = format!("coap://LOCALHOST:{port}/a%20b?x=%26");
        let request = client().get(&proxy).option(OptionNumber::PROXY_URI, text);
        assert_eq!(request.await.unwrap().code, Code::CONTENT);
        let heard = heard.last();
        assert!(heard.segments().eq([b"a b"]));
        assert!(heard.query().eq([b"x=&"]));
        assert_eq!(
            heard.options().first(OptionNumber::URI_HOST),
            Some(&b"localhost"[..])
        );
    });
}

#[test]
fn proxy_translates_between_all_transports() {
    in_time(async {
        let origin = Server::builder()
            .bind("127.0.0.1:0")
            .bind_tcp("127.0.0.1:0")
            .bind_ws("127.0.0.1:0")
            .resource("/hello", fixed("hello"));
        let origin = origin.start().await.unwrap();
        let builder = forwarding().server(
            Server::builder()
                .bind_tcp("127.0.0.1:0")
                .bind_ws("127.0.0.1:0")
                .bind("127.0.0.1:0"),
        );
        let (proxy, _) = started(builder).await;
        let client = client();
        for inbound in [Scheme::Coap, Scheme::CoapTcp, Scheme::CoapWs] {
            for &(outbound, at) in origin.addresses() {
                let uri = format!("{outbound}://{at}/hello");
                let reply = get(&client, &uri_of(&proxy, inbound), &uri).await;
                assert_eq!(reply.text(), Some("hello"), "{inbound} to {outbound}");
            }
        }
    });
}

#[tokio::test]
async fn only_safe_to_forward_options_are_forwarded() {
    const CRITICAL: OptionNumber = OptionNumber(65_001);
    const UNSAFE: OptionNumber = OptionNumber(65_002);
    const ELECTIVE: OptionNumber = OptionNumber(65_004);
    limited(async {
        let heard = RequestLog::default();
        let hear = heard.clone();
        let answer = move |request: Request| {
            hear.hear(&request);
            async move {
                let mut response = Response::new(Code::CONTENT);
                let back = match request.query().next() {
                    Some(b"unsafe") => UNSAFE,
                    Some(b"critical") => CRITICAL,
                    _ => ELECTIVE,
                };
                response.options.push(back, b"back").unwrap();
                response
            }
        };
        let origin = Server::builder()
            .bind("127.0.0.1:0")
            .config(understanding(&[CRITICAL]))
            .resource("/", resource(answer));
        let (_origin, at) = start(origin).await;
        let (_proxy, proxy) = started(forwarding()).await;
        let client = client_with(understanding(&[CRITICAL]));
        // In the request: unknown to the proxy.
        for number in [CRITICAL, ELECTIVE] {
            let request = client.get(&at).via(&proxy).option(number, "there");
            assert_eq!(request.await.unwrap().code, Code::CONTENT, "{number}");
            let there = heard.last();
            assert_eq!(there.options().first(number), Some(&b"there"[..]));
        }
        let asked = heard.count();
        let refused = client.get(&at).via(&proxy).option(UNSAFE, "there");
        assert_eq!(refused.await.unwrap().code, Code::BAD_OPTION);
        assert_eq!(heard.count(), asked, "it was not passed on");
        // In the response.
        let back = async |what: &str| {
            client
                .get(format!("{at}/?{what}"))
                .via(&proxy)
                .await
                .unwrap()
        };
        for (what, number) in [("critical", CRITICAL), ("elective", ELECTIVE)] {
            let reply = back(what).await;
            assert_eq!(reply.options.first(number), Some(&b"back"[..]), "{what}");
        }
        let reply = back("unsafe").await;
        assert_eq!(reply.code, Code::BAD_GATEWAY);
        assert!(!reply.options.contains(UNSAFE));
    })
    .await;
}

#[test]
fn origin_failures_have_gateway_error_codes() {
    in_time(async {
        let (_silent, silent) = silent_peer();
        let builder = forwarding().origin_config(Config::new().parameters(impatient()));
        let (_proxy, proxy) = started(builder).await;
        let client = client();
        let code = async |uri: &str| get(&client, &proxy, uri).await.code;
        assert_eq!(
            code(&format!("coap://{silent}/")).await,
            Code::GATEWAY_TIMEOUT
        );
        let closed = closed_port();
        assert_eq!(code(&format!("coap://{closed}/")).await, Code::BAD_GATEWAY);
        assert_eq!(
            code(&format!("coap+tcp://{closed}/")).await,
            Code::BAD_GATEWAY
        );
        assert_eq!(
            code("http://127.0.0.1/").await,
            Code::PROXYING_NOT_SUPPORTED
        );
        let request = client
            .get(&proxy)
            .option(OptionNumber::PROXY_URI, "coap:///x");
        assert_eq!(request.await.unwrap().code, Code::BAD_REQUEST);
        let request = client
            .get(&proxy)
            .option(OptionNumber::PROXY_SCHEME, "coap+sms");
        let request = request.option(OptionNumber::URI_HOST, "h");
        assert_eq!(request.await.unwrap().code, Code::PROXYING_NOT_SUPPORTED);
    });
}

#[test]
fn request_for_the_proxy_itself_is_served_locally() {
    in_time(async {
        let builder = forwarding().host("Proxy.Example.org").server(
            Server::builder()
                .bind("127.0.0.1:0")
                .resource("/own", fixed("own")),
        );
        let (proxy, uri) = started(builder).await;
        let port = proxy.server().local_address().port();
        let client = client();
        for own in [
            format!("coap://127.0.0.1:{port}/own"),
            format!("coap://localhost:{port}/own"),
            format!("coap://proxy.example.org:{port}/own"),
        ] {
            assert_eq!(get(&client, &uri, &own).await.text(), Some("own"), "{own}");
            let asked = client
                .get(&uri)
                .option(OptionNumber::PROXY_URI, own.clone());
            assert_eq!(asked.await.unwrap().text(), Some("own"), "{own}");
        }
        // Without Uri-Host, the host is the proxy itself.
        let asked = client
            .get(format!("{uri}/own"))
            .option(OptionNumber::PROXY_SCHEME, "coap");
        assert_eq!(asked.await.unwrap().text(), Some("own"));
        let absent = get(&client, &uri, &format!("coap://127.0.0.1:{port}/no")).await;
        assert_eq!(absent.code, Code::NOT_FOUND);
        // Unknown critical options are refused for local requests, too.
        let asked = client
            .get(format!("{uri}/own"))
            .option(OptionNumber(65_001), "x");
        assert_eq!(asked.await.unwrap().code, Code::BAD_OPTION);
    });
}

#[test]
fn each_side_has_its_block_size() {
    in_time(async {
        let (_origin, at) = start(resources()).await;
        let builder = forwarding()
            .origin_config(Config::new().block_size(BlockSize::from_bytes_at_most(64).unwrap()));
        let (_proxy, proxy) = started(builder).await;
        let client =
            client_with(Config::new().block_size(BlockSize::from_bytes_at_most(256).unwrap()));
        let body = large(20_000);
        let echo = client
            .post(format!("{at}/echo"))
            .via(&proxy)
            .body(body.clone());
        let reply = echo.await.unwrap();
        assert_eq!((reply.code, &reply.bytes()[..]), (Code::CHANGED, &body[..]));
        let fetch = client
            .fetch(format!("{at}/echo"))
            .via(&proxy)
            .body(body.clone());
        assert_eq!(&fetch.await.unwrap().bytes()[..], &body[..]);
    });
}

#[test]
fn q_block_ends_at_the_proxy() {
    in_time(async {
        // Q-Block is disabled at the origin.
        let config = Config::new().engine(|engine| engine.q_block.accept = false);
        let (_origin, at) = start(resources().config(config)).await;
        let (_proxy, proxy) = started(forwarding()).await;
        let client = client();
        for confirmable in [true, false] {
            let echo = client
                .post(format!("{at}/echo"))
                .via(&proxy)
                .body(large(20_000))
                .confirmable(confirmable)
                .q_block(QBlockMode::On);
            let reply = echo.await.unwrap();
            assert_eq!(reply.code, Code::CHANGED);
            assert!(reply.bytes() == &large(20_000), "{confirmable}");
            let body = client
                .get(format!("{at}/large"))
                .via(&proxy)
                .confirmable(confirmable)
                .q_block(QBlockMode::On);
            let reply = body.await.unwrap();
            assert!(reply.bytes() == &large(1 << 20), "{confirmable}");
        }
    });
}

#[test]
fn bodies_beyond_the_limit_are_refused() {
    in_time(async {
        let (_origin, at) = start(resources()).await;
        let mut limits = carob::proxy::ProxyLimits::default();
        limits.body_bytes = 10_000;
        let (_proxy, proxy) = started(forwarding().limits(limits)).await;
        let client = client();
        let sent = client
            .post(format!("{at}/echo"))
            .via(&proxy)
            .body(large(10_001))
            .await;
        assert_eq!(sent.unwrap().code, Code::REQUEST_ENTITY_TOO_LARGE);
        let fits = client
            .post(format!("{at}/echo"))
            .via(&proxy)
            .body(large(10_000))
            .await;
        assert_eq!(fits.unwrap().bytes().len(), 10_000);
        let read = get(&client, &proxy, &format!("{at}/large")).await;
        assert_eq!(read.code, Code::BAD_GATEWAY);
    });
}

#[test]
fn each_side_has_a_separate_controller() {
    in_time(async {
        let (origin, at) = start(resources()).await;
        let settings = Config::new().controller_named("cocoa-plus").unwrap();
        let (proxy, uri) = started(forwarding().origin_config(settings)).await;
        let client = client();
        assert_eq!(
            get(&client, &uri, &format!("{at}/hello")).await.code,
            Code::CONTENT
        );
        let origins = proxy
            .origins()
            .gauges(origin.local_address())
            .await
            .unwrap();
        assert!(
            origins.iter().any(|(name, _)| *name == "rto"),
            "{origins:?}"
        );
        // A second origin with its own controller.
        let (other, at) = start(resources()).await;
        let own = carob::CongestionControl::named("default").unwrap();
        proxy
            .set_origin(other.local_address(), PeerConfig::new().controller(own))
            .await
            .unwrap();
        assert_eq!(
            get(&client, &uri, &format!("{at}/hello")).await.code,
            Code::CONTENT
        );
        let gauges = proxy.origins().gauges(other.local_address()).await.unwrap();
        assert!(gauges.iter().all(|(name, _)| *name != "srtt"), "{gauges:?}");
    });
}

fn created() -> Resource {
    Resource::new().post(|_: Request| async {
        let created = Response::new(Code::CREATED).with_location_path("things/7");
        created.unwrap()
    })
}

#[test]
fn longest_route_prefix_wins() {
    in_time(async {
        let (_one, one, heard) = listening().await;
        let two = Server::builder()
            .bind("127.0.0.1:0")
            .resource("/x/state", fixed("two"))
            .resource("/things", created());
        let (_two, two) = start(two).await;
        let builder = Proxy::builder()
            .server(
                Server::builder()
                    .bind("127.0.0.1:0")
                    .resource("/own", fixed("own")),
            )
            .route("/", &one)
            .and_then(|builder| builder.route("/b", &two))
            .and_then(|builder| builder.route("/b/deep", &format!("{two}/x")))
            .unwrap();
        let (_proxy, proxy) = started(builder).await;
        let client = client();
        let text = async |path: &str| {
            let reply = client.get(format!("{proxy}{path}")).await.unwrap();
            (reply.code, reply.text().unwrap_or_default().to_owned())
        };
        assert_eq!(text("/a/b?q=1").await, (Code::CONTENT, "1".into()));
        assert!(heard.last().segments().eq([b"a", b"b"]));
        assert_eq!(text("/").await.0, Code::CONTENT);
        assert_eq!(text("/own").await.1, "own");
        assert_eq!(text("/b/deep/state").await.1, "two");
        assert_eq!(text("/b/x/state").await.1, "two");
        assert_eq!(text("/b/none").await.0, Code::NOT_FOUND);
        let reply = client.post(format!("{proxy}/b/things")).await.unwrap();
        let located: Vec<_> = reply.options.values(OptionNumber::LOCATION_PATH).collect();
        assert_eq!(located, [&b"b"[..], b"things", b"7"]);
        // A reverse-proxy refuses Proxy-Uri.
        let reply = get(&client, &proxy, &format!("{one}/a")).await;
        assert_eq!(reply.code, Code::PROXYING_NOT_SUPPORTED);
    });
}

#[test]
fn links_of_all_origins_are_listed_with_route_prefix() {
    in_time(async {
        let one = Server::builder().bind("127.0.0.1:0").resource(
            "/t",
            fixed("1")
                .attribute("rt", "temp")
                .attribute("title", "a \"b\""),
        );
        let (_one, one) = start(one).await;
        let two = Server::builder()
            .bind("127.0.0.1:0")
            .resource("/x/u", fixed("2"));
        let (_two, two) = start(two).await;
        let builder = Proxy::builder()
            .server(Server::builder().bind("127.0.0.1:0"))
            .origin_config(Config::new().parameters(impatient()))
            .route("/one", &one)
            .and_then(|builder| builder.route("/two", &format!("{two}/x")))
            .and_then(|builder| builder.route("/gone", &format!("coap://{}", closed_port())))
            .unwrap();
        let (_proxy, proxy) = started(builder).await;
        let client = client();
        let list = async |query: &str| {
            let reply = client
                .get(format!("{proxy}/.well-known/core{query}"))
                .await
                .unwrap();
            reply.text().unwrap().to_owned()
        };
        let expected = "</one/t>;rt=temp;title=\"a \\\"b\\\"\";ct=0;sz=1,</two/u>;ct=0;sz=1";
        assert_eq!(list("").await.replace("rt=\"temp\"", "rt=temp"), expected);
        let filtered = list("?rt=temp").await;
        assert!(
            filtered.starts_with("</one/t>") && !filtered.contains("two"),
            "{filtered}"
        );
        assert_eq!(list("?rt=none").await, "");
    });
}

#[test]
fn secure_uris_need_a_secure_proxy() {
    in_time(async {
        let client = client();
        for secure in [
            "coaps+tcp://example.org/",
            "https://example.org/",
            "coaps://h/",
        ] {
            let error = client
                .get(secure)
                .via("coap://192.0.2.1")
                .await
                .unwrap_err();
            assert!(matches!(error, Error::InsecureProxy { .. }), "{error}");
            assert!(error.remedy().is_some());
        }
        // Plain CoAP to a proxy on loopback is allowed; this proxy does not support https.
        let (_proxy, proxy) = started(forwarding()).await;
        let reply = get(&client, &proxy, "https://example.org/").await;
        assert_eq!(reply.code, Code::PROXYING_NOT_SUPPORTED);
    });
}

#[test]
fn shutdown_finishes_pending_requests_of_a_proxy() {
    in_time(async {
        let (_origin, at) = start(resources()).await;
        let (proxy, uri) = started(forwarding()).await;
        let asking = Client::new().unwrap();
        let (other, there) = (uri.clone(), format!("{at}/slow"));
        let waiting = tokio::spawn(async move { asking.get(there).via(other).await });
        while proxy.usage().requests == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(
            proxy.shutdown(Duration::from_secs(5)).await,
            carob::ShutdownOutcome::Drained
        );
        assert_eq!(waiting.await.unwrap().unwrap().text(), Some("at last"));
    });
}
