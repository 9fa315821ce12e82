//! A server and its handlers.

use std::time::{Duration, Instant};

use crate::common::{client, client_with, in_time, large, limited, resources, send, start};
use carob::server::{Request, Resource, get};
use carob::{Client, Code, Config, ContentFormat, Server, ShutdownOutcome};

#[tokio::test]
async fn panicking_handler_gives_5_00() {
    let (_server, uri) = start(resources()).await;
    let client = client();
    let reply = send(client.get(format!("{uri}/panic"))).await;
    assert_eq!(reply.code, Code::INTERNAL_SERVER_ERROR);
    let reply = send(client.get(format!("{uri}/hello"))).await;
    assert_eq!(reply.code, Code::CONTENT);
}

#[tokio::test]
async fn waiting_or_blocking_handlers_do_not_delay_others() {
    let (_server, uri) = start(resources()).await;
    let pending: Vec<_> = ["slow", "never", "blocking"]
        .map(|path| tokio::spawn(client().get(format!("{uri}/{path}")).send()))
        .into();
    // The handlers are running.
    tokio::time::sleep(Duration::from_millis(20)).await;
    let began = Instant::now();
    let reply = send(client().get(format!("{uri}/hello"))).await;
    assert_eq!(reply.code, Code::CONTENT);
    assert!(
        began.elapsed() < Duration::from_millis(80),
        "{:?}",
        began.elapsed()
    );
    for request in &pending {
        request.abort();
    }
}

#[tokio::test]
async fn a_blocking_handler_answers() {
    let (_server, uri) = start(resources()).await;
    let reply = send(client().get(format!("{uri}/blocking"))).await;
    assert_eq!(reply.text(), Some("done"));
}

#[tokio::test]
async fn handler_limit_gives_5_03() {
    let (_server, uri) = start(resources().handlers(1)).await;
    let never = tokio::spawn(client().get(format!("{uri}/never")).send());
    // The only handler is occupied now.
    tokio::time::sleep(Duration::from_millis(50)).await;
    let reply = send(client().get(format!("{uri}/slow"))).await;
    assert_eq!(reply.code, Code::SERVICE_UNAVAILABLE);
    let reply = send(client().get(format!("{uri}/hello"))).await;
    assert_eq!(reply.code, Code::CONTENT, "fixed content is not counted");
    never.abort();
}

#[tokio::test]
async fn shutdown_waits_for_pending_requests() {
    let (server, uri) = start(resources()).await;
    let slow = tokio::spawn(client().get(format!("{uri}/slow")).send());
    // The handler of /slow takes 400 ms, so it is still running.
    tokio::time::sleep(Duration::from_millis(150)).await;
    let ending = tokio::spawn(server.shutdown(Duration::from_secs(5)));
    // Lets the shutdown start.
    tokio::time::sleep(Duration::from_millis(20)).await;
    let reply = send(client().get(format!("{uri}/hello"))).await;
    assert_eq!(
        reply.code,
        Code::SERVICE_UNAVAILABLE,
        "nothing new is taken"
    );
    assert_eq!(
        limited(slow).await.unwrap().unwrap().text(),
        Some("at last")
    );
    assert_eq!(limited(ending).await.unwrap(), ShutdownOutcome::Drained);
}

#[tokio::test]
async fn shutdown_times_out() {
    let (server, uri) = start(resources()).await;
    let never = tokio::spawn(client().get(format!("{uri}/never")).send());
    // The handler must be running when the shutdown starts.
    tokio::time::sleep(Duration::from_millis(50)).await;
    let address = server.local_address();
    let began = Instant::now();
    let finish = limited(server.shutdown(Duration::from_millis(100))).await;
    assert!(
        matches!(finish, ShutdownOutcome::Aborted { handlers: 1, .. }),
        "{finish:?}"
    );
    assert!(began.elapsed() < Duration::from_secs(1));
    assert!(
        start(resources().bind(address)).await.0.local_address() == address,
        "the port is free"
    );
    never.abort();
}

#[tokio::test]
async fn ipv6_and_ipv4_are_served_by_one_socket() {
    let (server, _) = start(resources().bind("[::]:0")).await;
    let port = server.local_address().port();
    for host in ["127.0.0.1", "127.0.0.2", "[::1]", "localhost"] {
        let reply = limited(client().get(format!("coap://{host}:{port}/hello")).send()).await;
        assert_eq!(reply.unwrap().text(), Some("hello"), "{host}");
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn response_has_the_destination_address_of_the_request_as_source() {
    let (server, _) = start(resources().bind("0.0.0.0:0")).await;
    let port = server.local_address().port();
    // The system would reply from 127.0.0.1, which the client does not accept.
    for path in ["hello", "slow"] {
        let reply = limited(
            client()
                .get(format!("coap://127.0.0.77:{port}/{path}"))
                .send(),
        )
        .await;
        assert_eq!(reply.unwrap().peer.ip().to_string(), "127.0.0.77");
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn multicast_is_ignored_without_joined_groups() {
    let (server, _) = start(resources().bind("0.0.0.0:0")).await;
    let port = server.local_address().port();
    // A group member proves that the datagrams arrive.
    let witness = tokio::net::UdpSocket::bind("0.0.0.0:0").await.unwrap();
    let witness_port = witness.local_addr().unwrap().port();
    let asker = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::DGRAM, None).unwrap();
    asker
        .set_multicast_if_v4(&std::net::Ipv4Addr::LOCALHOST)
        .unwrap();
    asker.set_broadcast(true).unwrap();
    asker.set_nonblocking(true).unwrap();
    let asker = tokio::net::UdpSocket::from_std(asker.into()).unwrap();
    // A NON GET, a CON GET, a ping, and a malformed NON.
    let get = |first: u8, id: u8| [&[first, 1, 0, id, 7, 0xb5][..], b"hello"].concat();
    let messages = [
        get(0x51, 1),
        get(0x41, 2),
        vec![0x40, 0, 0, 3],
        vec![0x50, 1, 0, 4, 0xff],
    ];
    let mut buffer = [0; 64];
    for group in ["224.0.0.1", "127.255.255.255"] {
        for message in &messages {
            asker.send_to(message, (group, witness_port)).await.unwrap();
            let heard = limited(witness.recv(&mut buffer)).await.unwrap();
            assert_eq!(buffer[..heard], message[..], "{group}");
            asker.send_to(message, (group, port)).await.unwrap();
        }
    }
    asker
        .send_to(&get(0x51, 9), ("127.0.0.1", port))
        .await
        .unwrap();
    let length = limited(asker.recv(&mut buffer)).await.unwrap();
    assert!(buffer[..length].ends_with(b"hello"), "the first answer");
    let more = tokio::time::timeout(Duration::from_millis(200), asker.recv(&mut buffer)).await;
    assert!(more.is_err(), "and the only one");
}

#[tokio::test]
async fn server_sends_requests_from_its_address() {
    let (there, uri) = start(resources().resource(
        "/who",
        get(|request: Request| async move { request.peer().to_string() }),
    ))
    .await;
    let (here, _) = start(resources()).await;
    let reply = send(here.client().get(format!("{uri}/who"))).await;
    assert_eq!(
        reply.text(),
        Some(here.local_address().to_string().as_str())
    );
    drop(there);
}

#[tokio::test]
async fn dropping_the_last_client_clone_ends_its_task() {
    let tasks = || {
        tokio::runtime::Handle::current()
            .metrics()
            .num_alive_tasks()
    };
    let before = tasks();
    let client = Client::new().unwrap();
    let other = client.clone();
    assert_eq!(tasks(), before + 1);
    drop(client);
    // Time in which the task would end if no clone held it.
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert_eq!(tasks(), before + 1, "the other still needs it");
    drop(other);
    limited(async {
        while tasks() > before {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn dropping_the_server_closes_its_port() {
    let (server, _) = start(resources()).await;
    let address = server.local_address();
    drop(server);
    limited(async {
        while Server::builder().bind(address).start().await.is_err() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn many_clients_are_served_concurrently() {
    let (_server, uri) = start(resources()).await;
    let requests: Vec<_> = (0..50)
        .flat_map(|n| {
            let client = client_with(Config::new());
            (0..10)
                .map(move |m| (client.clone(), n * 10 + m))
                .collect::<Vec<_>>()
        })
        .map(|(client, n)| {
            let request = client.post(format!("{uri}/echo")).body(n.to_string());
            tokio::spawn(async move { (n, request.send().await) })
        })
        .collect();
    for request in requests {
        let (n, reply) = limited(request).await.unwrap();
        assert_eq!(reply.unwrap().text(), Some(n.to_string().as_str()));
    }
}

#[tokio::test]
async fn resource_may_require_freshness_by_echo() {
    let lock = Resource::new()
        .get(async |_: Request| "locked")
        .put(async |request: Request| {
            let echo = request.options().contains(carob::OptionNumber::ECHO);
            if echo {
                Code::CHANGED
            } else {
                Code::INTERNAL_SERVER_ERROR
            }
        });
    let (server, uri) = start(resources().resource("/lock", lock.fresh())).await;
    let client = client();
    let lock = format!("{uri}/lock");
    let read = send(client.get(&lock)).await;
    assert_eq!(read.text(), Some("locked"));
    for body in [vec![1; 10], large(5_000)] {
        let reply = send(client.put(&lock).body(body)).await;
        assert_eq!(reply.code, Code::CHANGED, "sent as a new request");
    }
    drop(server);
}

#[test]
fn health_responds_5_03_when_all_handlers_are_busy() {
    in_time(async {
        let builder = resources().health("/health").handlers(1);
        let (server, uri) = start(builder).await;
        let client = Client::new().unwrap();
        let uri = |path: &str| format!("{uri}/{path}");
        let well = client.get(uri("health")).await.unwrap();
        assert_eq!(well.code, Code::CONTENT);
        assert!(well.text().unwrap().starts_with("ok\nuptime "), "{well:?}");
        assert_eq!(well.options.uint(carob::OptionNumber::MAX_AGE), Some(0));
        let json = client.get(uri("health")).accept(ContentFormat::JSON);
        let json = json.await.unwrap();
        let begins = "{\"state\":\"ok\",\"uptime_s\":";
        assert!(json.text().unwrap().starts_with(begins), "{json:?}");
        let links = client.get(uri(".well-known/core")).await.unwrap();
        assert!(!links.text().unwrap().contains("health"));

        let busy = Client::new().unwrap();
        let never = uri("never");
        let waiting = tokio::spawn(async move { busy.get(never).await });
        let mut told = client.get(uri("health")).await.unwrap();
        while told.code == Code::CONTENT {
            tokio::time::sleep(Duration::from_millis(20)).await;
            told = client.get(uri("health")).await.unwrap();
        }
        assert_eq!(told.code, Code::SERVICE_UNAVAILABLE);
        let text = told.text().unwrap().to_owned();
        assert!(text.starts_with("overloaded\n"), "{text}");
        assert!(text.contains("handlers 100 %"), "{text}");
        waiting.abort();
        drop(server);
    });
}
