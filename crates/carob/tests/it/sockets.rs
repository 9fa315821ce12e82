//! Several sockets at one port, among which the system shares the peers.
#![cfg(target_os = "linux")]

use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::common::{client, in_time, limited, start};
use carob::client::{Observation, Update};
use carob::server::{Notifier, Request, Resource, SOCKETS_MAX, get};
use carob::{Code, Config, OpenError, Server, ShutdownOutcome};

const SOCKETS: usize = 4;
const PEERS: u32 = 48;

fn at_any_port() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

/// UDP sockets that the system has at this port of 127.0.0.1.
fn sockets_at(port: u16) -> usize {
    let table = std::fs::read_to_string("/proc/net/udp").unwrap();
    let local = format!("0100007F:{port:04X}");
    // The next column has the remote address, which sockets of other tests may have had.
    let is_local = |line: &&str| line.split_whitespace().nth(1) == Some(&local);
    table.lines().filter(is_local).count()
}

async fn next(observation: &mut Observation) -> String {
    match observation.next().await.unwrap().unwrap() {
        Update::State(reply) => reply.text().unwrap().to_owned(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn peers_are_served_once_and_notified_at_every_socket() {
    limited(async {
        let (value, executed) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        let changes = Notifier::new();
        let (shown, counted) = (Arc::clone(&value), Arc::clone(&executed));
        let observed = get(move |_: Request| {
            let text = shown.load(Ordering::Relaxed).to_string();
            async move { text }
        });
        let once = Resource::new().on(Code::POST, move |_: Request| {
            let number = counted.fetch_add(1, Ordering::Relaxed);
            async move { number.to_string() }
        });
        let builder = Server::builder()
            .bind(at_any_port())
            .sockets(SOCKETS)
            .resource("/value", observed.observable(&changes))
            .resource("/once", once);
        let (server, uri) = start(builder).await;
        assert_eq!(
            server.addresses().len(),
            1,
            "one place, whatever is behind it"
        );
        assert_eq!(sockets_at(server.local_address().port()), SOCKETS);
        let mut observations = Vec::new();
        for _ in 0..PEERS {
            let client = client();
            let reply = client.post(format!("{uri}/once")).send().await.unwrap();
            assert!(reply.code.is_success());
            let value = client.get(format!("{uri}/value"));
            let mut observation = value.observe().await.unwrap();
            assert_eq!(next(&mut observation).await, "0");
            observations.push(observation);
        }
        assert_eq!(executed.load(Ordering::Relaxed), PEERS);
        value.store(1, Ordering::Relaxed);
        changes.changed();
        for observation in &mut observations {
            assert_eq!(next(observation).await, "1");
        }
        let finish = server.shutdown(Duration::from_secs(5)).await;
        assert_eq!(finish, ShutdownOutcome::Drained);
    })
    .await;
}

#[tokio::test]
async fn port_in_use_is_not_shared() {
    let builder = || crate::common::resources().sockets(SOCKETS);
    let (server, _) = start(builder()).await;
    let taken = server.local_address();
    for sockets in [1, SOCKETS] {
        let error = builder()
            .sockets(sockets)
            .bind(taken)
            .start()
            .await
            .unwrap_err();
        let OpenError::Bind { source, .. } = &error else {
            panic!("{error}");
        };
        assert_eq!(source.kind(), ErrorKind::AddrInUse);
    }
}

#[test]
fn requests_of_multi_socket_server_use_another_port() {
    in_time(async {
        let (server, _) = start(crate::common::resources().sockets(SOCKETS)).await;
        let (_other, uri) = start(crate::common::resources()).await;
        for _ in 0..16 {
            let reply = server.client().get(format!("{uri}/hello")).send().await;
            assert_eq!(reply.unwrap().text(), Some("hello"));
        }
    });
}

#[tokio::test]
async fn invalid_multi_socket_configurations_are_refused() {
    let given = UdpSocket::bind(at_any_port()).unwrap();
    let budget = Config::new().aggregate("0.0.0.0/0".parse().unwrap());
    let builder = || Server::builder().bind(at_any_port());
    for (builder, reason) in [
        (builder().sockets(0), "1 to 256"),
        (builder().sockets(SOCKETS_MAX + 1), "1 to 256"),
        (
            builder().sockets(2).socket(given),
            "instead of passing a socket",
        ),
        (builder().sockets(2).config(budget), "bottleneck group"),
    ] {
        let error = builder.start().await.unwrap_err();
        assert!(matches!(error, OpenError::Sockets { .. }), "{error}");
        assert!(error.report().to_string().contains(reason), "{error}");
        assert!(error.remedy().is_some());
    }
}
