//! Observation over real sockets, with restarts.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::common::{client, in_time, start};
use carob::client::{Observation, Update};
use carob::server::{Notifier, Request, Resource, ServerBuilder, get};
use carob::{Client, Code, Config, ContentFormat, OptionNumber, Response, Server};

/// An observable counter.
#[derive(Clone, Default)]
struct Counter {
    value: Arc<AtomicU32>,
    /// Number of handler calls.
    calls: Arc<AtomicU32>,
    changes: Notifier,
}

impl Counter {
    fn confirmable() -> Self {
        Self {
            changes: Notifier::confirmable(),
            ..Self::default()
        }
    }

    fn resource(&self) -> Resource {
        let (value, calls) = (Arc::clone(&self.value), Arc::clone(&self.calls));
        get(move |_: Request| {
            calls.fetch_add(1, Ordering::Relaxed);
            let now = value.load(Ordering::Relaxed);
            async move { now.to_string() }
        })
        .observable(&self.changes)
    }

    fn set(&self, value: u32) {
        self.value.store(value, Ordering::Relaxed);
        self.changes.changed();
    }

    async fn serve(&self) -> (Server, String) {
        self.serve_at("127.0.0.1:0".parse().unwrap()).await
    }

    async fn serve_at(&self, address: SocketAddr) -> (Server, String) {
        let builder = Server::builder()
            .bind(address)
            .resource("/count", self.resource());
        start(builder).await
    }
}

/// A server with `/thing`, which exists while `alive` is 1.
fn mortal(alive: &Arc<AtomicU32>, changes: &Notifier) -> ServerBuilder {
    let alive = Arc::clone(alive);
    let handler = move |_: Request| {
        let there = alive.load(Ordering::Relaxed) == 1;
        async move {
            if there {
                Ok("here")
            } else {
                Err(Code::NOT_FOUND)
            }
        }
    };
    Server::builder()
        .bind("127.0.0.1:0")
        .resource("/thing", get(handler).observable(changes))
}

async fn observe(client: &Client, uri: &str) -> Observation {
    let mut observation = client.get(uri).observe().await.unwrap();
    assert!(observation.is_observed());
    let first = observation.next().await;
    assert!(matches!(first, Some(Ok(Update::State(_)))));
    observation
}

/// The next notification as a number; other updates are skipped.
async fn number(observation: &mut Observation) -> u32 {
    loop {
        match observation.next().await.unwrap().unwrap() {
            Update::State(reply) => return reply.text().unwrap().parse().unwrap(),
            Update::Ended(reply) => panic!("ended with {}", reply.code),
            _ => {}
        }
    }
}

/// Waits for this notification.
async fn until(observation: &mut Observation, wanted: u32) {
    while number(observation).await != wanted {}
}

#[test]
fn every_observer_gets_each_change() {
    in_time(async {
        for counter in [Counter::default(), Counter::confirmable()] {
            let (_server, uri) = counter.serve().await;
            let uri = format!("{uri}/count");
            let mut observations = Vec::new();
            for _ in 0..5 {
                observations.push(observe(&client(), &uri).await);
            }
            for value in 1..=10 {
                counter.set(value);
                for observation in &mut observations {
                    assert_eq!(number(observation).await, value);
                }
            }
            let calls = counter.calls.load(Ordering::Relaxed);
            assert_eq!(calls, 5 + 10, "once a registration and once a change");
        }
    });
}

#[test]
fn equal_observations_share_one_registration() {
    in_time(async {
        let counter = Counter::default();
        let (server, uri) = counter.serve().await;
        let uri = format!("{uri}/count");
        let client = client();
        let mut all = Vec::new();
        for _ in 0..3 {
            all.push(observe(&client, &uri).await);
        }
        let observers = || async { server.client().usage().await.unwrap().observers };
        assert_eq!(observers().await, 1);
        counter.set(1);
        for observation in &mut all {
            assert_eq!(number(observation).await, 1);
        }
        // A late observer gets the newest representation; dropping one does not affect the others.
        let mut late = client.get(&uri).observe().await.unwrap();
        assert_eq!(number(&mut late).await, 1);
        drop(all.pop());
        let stopped = all.pop().unwrap().stop().await.unwrap().unwrap();
        assert_eq!(stopped.text(), Some("1"));
        counter.set(2);
        assert_eq!(number(&mut late).await, 2);
        assert_eq!(number(&mut all[0]).await, 2);
        assert_eq!(observers().await, 1);
        // Dropping the last one cancels the observation. Afterwards a new one can start.
        drop(late);
        let last = all.pop().unwrap().stop().await.unwrap().unwrap();
        assert_eq!(last.text(), Some("2"));
        assert_eq!(observers().await, 0);
        let again = observe(&client, &uri).await;
        assert_eq!(observers().await, 1);
        // Another query or another client needs a new registration.
        let _other = observe(&client, &format!("{uri}?x")).await;
        let _stranger = observe(&crate::common::client(), &uri).await;
        assert_eq!(observers().await, 3);
        drop(again);
    });
}

#[test]
fn shared_observations_end_together() {
    in_time(async {
        let (alive, changes) = (Arc::new(AtomicU32::new(1)), Notifier::new());
        let builder = mortal(&alive, &changes);
        let (_server, uri) = start(builder).await;
        let (client, uri) = (client(), format!("{uri}/thing"));
        let mut both = [observe(&client, &uri).await, observe(&client, &uri).await];
        alive.store(0, Ordering::Relaxed);
        changes.changed();
        for observation in &mut both {
            let last = observation.next().await.unwrap().unwrap();
            assert!(matches!(&last, Update::Ended(reply) if reply.code == Code::NOT_FOUND));
            assert!(observation.next().await.is_none());
        }
    });
}

#[test]
fn different_requests_have_separate_observations() {
    in_time(async {
        let changes = Notifier::new();
        let handler = |request: Request| async move {
            let query: Vec<_> = request.query().map(String::from_utf8_lossy).collect();
            format!("in {}", query.join("&"))
        };
        let resource = get(handler).observable(&changes);
        let (_server, uri) = start(
            Server::builder()
                .bind("127.0.0.1:0")
                .resource("/t", resource),
        )
        .await;
        let client = client();
        let mut celsius = observe(&client, &format!("{uri}/t?C")).await;
        let mut kelvin = observe(&client, &format!("{uri}/t?K")).await;
        changes.changed_for(|request| request.query().any(|q| q == b"K"));
        let told = kelvin.next().await.unwrap().unwrap();
        assert_eq!(told.reply().unwrap().text(), Some("in K"));
        changes.changed();
        let told = celsius.next().await.unwrap().unwrap();
        assert_eq!(told.reply().unwrap().text(), Some("in C"), "only now");
    });
}

#[test]
fn rapid_changes_deliver_the_last_state() {
    in_time(async {
        let counter = Counter::default();
        let value = Arc::clone(&counter.value);
        let slow = get(move |_: Request| {
            let now = value.load(Ordering::Relaxed);
            async move {
                tokio::time::sleep(Duration::from_millis(20)).await;
                now.to_string()
            }
        });
        let builder = Server::builder()
            .bind("127.0.0.1:0")
            .resource("/count", slow.observable(&counter.changes));
        let (_server, uri) = start(builder).await;
        let mut observation = observe(&client(), &format!("{uri}/count")).await;
        for value in 1..=200 {
            counter.set(value);
            tokio::task::yield_now().await;
        }
        let mut told = 0;
        while number(&mut observation).await != 200 {
            told += 1;
        }
        assert!(told < 20, "{told} states before the last");
    });
}

#[test]
fn dropped_observation_is_deregistered_at_next_change() {
    in_time(async {
        let counter = Counter::confirmable();
        let (server, uri) = counter.serve().await;
        let observation = observe(&client(), &format!("{uri}/count")).await;
        let observer = server.client();
        assert_eq!(observer.usage().await.unwrap().observers, 1);
        drop(observation);
        counter.set(1);
        while observer.usage().await.unwrap().observers > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
}

#[test]
fn stop_cancels_the_observation_at_once() {
    in_time(async {
        let counter = Counter::default();
        let (server, uri) = counter.serve().await;
        let observation = observe(&client(), &format!("{uri}/count")).await;
        let last = observation.stop().await.unwrap().unwrap();
        assert_eq!(last.text(), Some("0"));
        assert_eq!(server.client().usage().await.unwrap().observers, 0);
    });
}

#[test]
fn removed_resource_ends_its_observations() {
    in_time(async {
        let (alive, changes) = (Arc::new(AtomicU32::new(1)), Notifier::new());
        let builder = mortal(&alive, &changes);
        let (server, uri) = start(builder).await;
        let mut observation = observe(&client(), &format!("{uri}/thing")).await;
        alive.store(0, Ordering::Relaxed);
        changes.changed();
        let last = observation.next().await.unwrap().unwrap();
        assert!(matches!(&last, Update::Ended(reply) if reply.code == Code::NOT_FOUND));
        assert!(observation.next().await.is_none());
        assert_eq!(server.client().usage().await.unwrap().observers, 0);
    });
}

#[test]
fn panicking_handler_ends_its_observation_only() {
    in_time(async {
        let changes = Notifier::new();
        let calls = AtomicU32::new(0);
        let handler = move |_: Request| {
            let first = calls.fetch_add(1, Ordering::Relaxed) == 0;
            async move {
                assert!(first, "a handler that panics, as the test wants it to");
                "fine"
            }
        };
        let builder = Server::builder()
            .bind("127.0.0.1:0")
            .resource("/fragile", get(handler).observable(&changes));
        let (_server, uri) = start(builder).await;
        let mut observation = observe(&client(), &format!("{uri}/fragile")).await;
        changes.changed();
        let last = observation.next().await.unwrap().unwrap();
        assert_eq!(last.reply().unwrap().code, Code::INTERNAL_SERVER_ERROR);
    });
}

#[test]
fn unobservable_resource_responds_once() {
    in_time(async {
        let (_server, uri) = start(crate::common::resources()).await;
        let mut observation = client()
            .get(format!("{uri}/hello"))
            .observe()
            .await
            .unwrap();
        assert!(!observation.is_observed());
        let only = observation.next().await.unwrap().unwrap();
        assert!(matches!(&only, Update::Ended(reply) if reply.text() == Some("hello")));
        assert!(observation.next().await.is_none());
    });
}

#[test]
fn only_get_and_fetch_observe() {
    in_time(async {
        let (_server, uri) = start(crate::common::resources()).await;
        let refused = client()
            .put(format!("{uri}/echo"))
            .observe()
            .await
            .unwrap_err();
        assert!(
            refused.report().to_string().contains("GET, and FETCH"),
            "{refused}"
        );
    });
}

#[test]
fn slow_observation_survives_a_server_restart() {
    in_time(async {
        let counter = Counter::default();
        // Max-Age 1, so that silence is noticed soon.
        let value = Arc::clone(&counter.value);
        let handler = move |_: Request| {
            let mut response = Response::content(
                ContentFormat::TEXT_PLAIN,
                value.load(Ordering::Relaxed).to_string(),
            );
            let second = OptionNumber::MAX_AGE;
            response.options.set_uint(second, 1).unwrap();
            async move { response }
        };
        let serve = |address: SocketAddr| {
            let resource = get(handler.clone()).observable(&counter.changes);
            start(Server::builder().bind(address).resource("/count", resource))
        };
        let (server, uri) = serve("127.0.0.1:0".parse().unwrap()).await;
        let address = server.local_address();
        let mut observation = observe(&client(), &format!("{uri}/count")).await;
        counter.set(1);
        until(&mut observation, 1).await;
        drop(server);
        tokio::time::sleep(Duration::from_millis(50)).await;
        counter.set(2);
        let (_server, _) = serve(address).await;
        // Stale after Max-Age; the client registers again 5 to 15 s later (RFC 7641 3.3.1).
        let mut stale = 0;
        loop {
            match observation.next().await.unwrap().unwrap() {
                Update::Stale(_) => stale += 1,
                Update::State(reply) if reply.text() == Some("2") => break,
                _ => {}
            }
        }
        assert!(stale >= 1);
        counter.set(3);
        until(&mut observation, 3).await;
    });
}

#[test]
fn shutting_the_client_down_ends_its_observations() {
    in_time(async {
        let counter = Counter::default();
        let (_server, uri) = counter.serve().await;
        let client = client();
        let mut observation = observe(&client, &format!("{uri}/count")).await;
        let began = std::time::Instant::now();
        client.shutdown(Duration::from_secs(10)).await;
        assert!(
            began.elapsed() < Duration::from_secs(5),
            "nothing is waited for"
        );
        assert!(observation.next().await.unwrap().is_err());
        assert!(observation.next().await.is_none());
    });
}

#[test]
fn block_wise_notification_is_reassembled() {
    in_time(async {
        let counter = Counter::default();
        let value = Arc::clone(&counter.value);
        let handler = move |_: Request| {
            let bytes = crate::common::large(5_000 + value.load(Ordering::Relaxed) as usize);
            async move { bytes::Bytes::from(bytes) }
        };
        let resource = get(handler).observable(&counter.changes);
        let builder = Server::builder()
            .bind("127.0.0.1:0")
            .resource("/large", resource);
        let (_server, uri) = start(builder).await;
        let mut observation = observe(&client(), &format!("{uri}/large")).await;
        for value in 1..=5 {
            counter.set(value);
            let told = observation.next().await.unwrap().unwrap();
            assert_eq!(told.reply().unwrap().bytes().len(), 5_000 + value as usize);
        }
    });
}

#[test]
fn peer_summary_has_state_and_timers() {
    in_time(async {
        let counter = Counter::confirmable();
        let (server, uri) = counter.serve().await;
        let settings = Config::new().controller_named("cocoa-03").unwrap();
        let client = crate::common::client_with(settings);
        let mut observation = observe(&client, &format!("{uri}/count")).await;
        let peer = observation.peer();
        let snapshot = client.snapshot(peer).await.unwrap();
        assert_eq!((snapshot.transmissions, snapshot.retransmissions), (1, 0));
        assert!(snapshot.rto.is_some() && snapshot.round_trip.is_some());
        assert_eq!(client.peers().await.unwrap(), [peer]);
        counter.set(1);
        until(&mut observation, 1).await;
        let server = server.client();
        let observer = server.peers().await.unwrap()[0];
        let snapshot = server.snapshot(observer).await.unwrap();
        assert_eq!((snapshot.observations, snapshot.transmissions), (1, 1));
    });
}

#[test]
fn captures_and_logs_see_both_directions() {
    in_time(async {
        use std::sync::Mutex;
        let counter = Counter::confirmable();
        let (_server, uri) = counter.serve().await;
        let (lines, datagrams) = <(Arc<Mutex<Vec<String>>>, Arc<Mutex<Vec<bool>>>)>::default();
        let (log, capture) = (Arc::clone(&lines), Arc::clone(&datagrams));
        let settings = Config::new()
            .on_every_trace(move |trace| log.lock().unwrap().push(trace.json().to_string()))
            .on_datagram(move |datagram| capture.lock().unwrap().push(datagram.incoming));
        let client = crate::common::client_with(settings);
        let mut observation = observe(&client, &format!("{uri}/count")).await;
        counter.set(1);
        until(&mut observation, 1).await;
        // The acknowledgement is sent after the application has received the update.
        while datagrams.lock().unwrap().len() < 4 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(*datagrams.lock().unwrap(), [false, true, true, false]);
        let lines = lines.lock().unwrap();
        let names: Vec<_> = lines
            .iter()
            .map(|line| {
                line.split("\"event\":\"")
                    .nth(1)
                    .unwrap()
                    .split('"')
                    .next()
                    .unwrap()
            })
            .collect();
        assert_eq!(
            names,
            ["sent", "received", "answered", "received", "replied"]
        );
    });
}
