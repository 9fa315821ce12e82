//! One congestion budget for all observers of a server, over real sockets.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::common::{client, limited, start};
use carob::server::{Notifier, Request, get};
use carob::{Config, Prefix, Server};

/// Whether a message with this first byte is Confirmable; none for ACK and RST.
fn confirmable(first: u8) -> Option<bool> {
    match first >> 4 & 3 {
        0 => Some(true),
        1 => Some(false),
        _ => None,
    }
}

/// Notifies 40 observers of a change; returns the number of CON notifications and the time between the first and the
/// last notification.
async fn notify_observers(settings: Config) -> (usize, Duration) {
    let confirmed = Arc::new(AtomicUsize::new(0));
    let left = Arc::new(Mutex::new(Vec::new()));
    let (count, times) = (Arc::clone(&confirmed), Arc::clone(&left));
    let changes = Notifier::new();
    let settings = settings.on_datagram(move |datagram| {
        if let (false, [first, code, ..]) = (datagram.incoming, datagram.bytes)
            && *code == 0x45
            && let Some(confirmable) = confirmable(*first)
        {
            times.lock().unwrap().push(Instant::now());
            count.fetch_add(usize::from(confirmable), Ordering::Relaxed);
        }
    });
    let resource = get(|_: Request| async { "state" }).observable(&changes);
    let builder = Server::builder()
        .bind("127.0.0.1:0")
        .config(settings)
        .resource("/state", resource);
    let (_server, uri) = start(builder).await;
    let mut observers = Vec::new();
    for _ in 0..40 {
        let client = client();
        let mut observation = client.get(format!("{uri}/state")).observe().await.unwrap();
        limited(observation.next()).await.unwrap().unwrap();
        observers.push((client, observation));
    }
    changes.changed();
    for (_, observation) in &mut observers {
        limited(observation.next()).await.unwrap().unwrap();
    }
    let left = left.lock().unwrap();
    assert_eq!(left.len(), 40);
    (
        confirmed.load(Ordering::Relaxed),
        *left.last().unwrap() - left[0],
    )
}

#[tokio::test]
async fn observers_of_one_budget_are_notified_one_by_one() {
    let (confirmed, _) = notify_observers(Config::new()).await;
    assert_eq!(confirmed, 0, "without a budget");
    let mut first = Config::new().aggregate(Prefix::ALL);
    // One notification's bytes take a second while the round-trip time is unknown.
    first = first.engine(|config| config.aggregate.initial_window = 64);
    let (confirmed, took) = notify_observers(first).await;
    assert_eq!(confirmed, 5, "one of eight");
    assert!(took > Duration::from_millis(100), "{took:?}");
    let elsewhere = Config::new().aggregate("192.0.2.0/24".parse().unwrap());
    assert_eq!(notify_observers(elsewhere).await.0, 0, "of other peers");
}
