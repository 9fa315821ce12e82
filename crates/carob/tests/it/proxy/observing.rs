//! Observation through a proxy (RFC 7641 5).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use carob::client::{Observation, Update};
use carob::server::{Notifier, Request, ServerBuilder, get as resource};
use carob::{Client, Code, ContentFormat, OptionNumber, Proxy, Reply, Response, Server};

use super::{age, forwarding, get, started};
use crate::common::{client, in_time, start};

/// State of an observable origin.
#[derive(Clone, Default)]
struct State {
    number: Arc<AtomicU64>,
    asked: Arc<AtomicU64>,
    changes: Notifier,
}

impl State {
    /// `/state` is observable, `/still` is not.
    fn server(&self) -> ServerBuilder {
        let state = self.clone();
        let read = move |request: Request| {
            if request.options().contains(OptionNumber::OBSERVE) {
                state.asked.fetch_add(1, Ordering::Relaxed);
            }
            let number = state.number.load(Ordering::Relaxed);
            async move {
                if number == 99 {
                    return Response::new(Code::NOT_FOUND);
                }
                Response::content(ContentFormat::TEXT_PLAIN, number.to_string())
                    .with_max_age(Duration::from_secs(30))
            }
        };
        let settings = carob::Config::new();
        Server::builder()
            .bind("127.0.0.1:0")
            .config(settings)
            .resource("/state", resource(read.clone()).observable(&self.changes))
            .resource("/still", resource(read))
    }

    fn change(&self, number: u64) {
        self.number.store(number, Ordering::Relaxed);
        self.changes.changed();
    }

    fn asked(&self) -> u64 {
        self.asked.load(Ordering::Relaxed)
    }
}

async fn observing(client: &Client, proxy: &str, uri: &str) -> Observation {
    client
        .get(uri)
        .via(proxy)
        .observe()
        .await
        .expect("it begins")
}

async fn state(observation: &mut Observation) -> Reply {
    match observation.next().await.expect("more").expect("no error") {
        Update::State(reply) => reply,
        other => panic!("{other:?}"),
    }
}

async fn until(what: impl Fn() -> bool) {
    while !what() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[test]
fn one_registration_serves_all_clients() {
    in_time(async {
        let here = State::default();
        let (origin, at) = start(here.server()).await;
        let (proxy, uri) = started(forwarding()).await;
        let uri_of_state = format!("{at}/state");
        let clients = [client(), client(), client()];
        let mut all = Vec::new();
        for client in &clients {
            let mut observation = observing(client, &uri, &uri_of_state).await;
            assert!(observation.is_observed());
            assert_eq!(state(&mut observation).await.text(), Some("0"));
            all.push(observation);
        }
        assert_eq!(here.asked(), 1, "it registers once");
        assert_eq!(proxy.usage().observations, 1);
        assert_eq!(origin.client().usage().await.unwrap().observers, 1);
        for number in 1..4 {
            here.change(number);
            let mut numbers = Vec::new();
            for observation in &mut all {
                let reply = state(observation).await;
                assert_eq!(reply.text(), Some(number.to_string().as_str()));
                assert!(age(&reply) <= 30);
                numbers.push(reply.options.uint(OptionNumber::OBSERVE).unwrap());
            }
        }
        // Notifications update the cache.
        assert_eq!(
            get(&clients[0], &uri, &uri_of_state).await.text(),
            Some("3")
        );
        // After the last client, the proxy cancels its registration.
        for observation in all {
            assert_eq!(origin.client().usage().await.unwrap().observers, 1);
            observation.stop().await.unwrap();
        }
        until(|| proxy.usage().observations == 0).await;
        assert_eq!(origin.client().usage().await.unwrap().observers, 0);
    });
}

#[test]
fn late_observer_gets_the_remaining_max_age() {
    in_time(async {
        let here = State::default();
        let (_origin, at) = start(here.server()).await;
        let (_proxy, uri) = started(forwarding()).await;
        let there = format!("{at}/state");
        let (one, two) = (client(), client());
        let mut first = observing(&one, &uri, &there).await;
        assert!(age(&state(&mut first).await) >= 29);
        // Max-Age has a resolution of one second; the origin's is 30 s.
        tokio::time::sleep(Duration::from_millis(2_100)).await;
        let mut second = observing(&two, &uri, &there).await;
        let told = state(&mut second).await;
        assert!((26..=27).contains(&age(&told)), "{told:?}");
    });
}

#[test]
fn observe_of_unobservable_resource_is_a_plain_get() {
    in_time(async {
        let here = State::default();
        let (_origin, at) = start(here.server()).await;
        let (proxy, uri) = started(forwarding()).await;
        let observation = observing(&client(), &uri, &format!("{at}/still")).await;
        assert!(!observation.is_observed());
        until(|| proxy.usage().observations == 0).await;
        let observation = observing(&client(), &uri, &format!("{at}/none")).await;
        assert!(!observation.is_observed());
    });
}

#[test]
fn final_notification_is_forwarded() {
    in_time(async {
        let here = State::default();
        let (_origin, at) = start(here.server()).await;
        let (proxy, uri) = started(forwarding()).await;
        let client = client();
        let mut observation = observing(&client, &uri, &format!("{at}/state")).await;
        state(&mut observation).await;
        here.change(99);
        let last = observation.next().await.unwrap().unwrap();
        let Update::Ended(last) = last else {
            panic!("{last:?}")
        };
        assert_eq!(last.code, Code::NOT_FOUND);
        until(|| proxy.usage().observations == 0).await;
    });
}

#[test]
fn route_is_observable_up_to_the_limit() {
    in_time(async {
        let here = State::default();
        let (_origin, at) = start(here.server()).await;
        let mut limits = carob::proxy::ProxyLimits::default();
        limits.observations = 1;
        let builder = Proxy::builder()
            .server(Server::builder().bind("127.0.0.1:0"))
            .limits(limits)
            .route("/r", &at)
            .unwrap();
        let (_proxy, uri) = started(builder).await;
        let client = client();
        let mut observation = client
            .get(format!("{uri}/r/state"))
            .observe()
            .await
            .unwrap();
        state(&mut observation).await;
        here.change(1);
        assert_eq!(state(&mut observation).await.text(), Some("1"));
        let other = client.get(format!("{uri}/r/state?other")).observe().await;
        assert!(!other.unwrap().is_observed());
    });
}
