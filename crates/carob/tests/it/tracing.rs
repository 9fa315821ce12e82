//! Spans of `tracing`: one per exchange and one per handler call.

use std::cell::RefCell;
use std::io::Write;
use std::sync::{Arc, Mutex, Once};

use tracing_subscriber::filter::dynamic_filter_fn;
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::common::{client, client_with, impatient, limited, resources, send, silent_peer, start};
use carob::server::{Request, get};

/// Captured output of the subscriber on one thread.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

thread_local! {
    /// Output of the test on this thread.
    static LISTENING: RefCell<Option<Lines>> = const { RefCell::new(None) };
}

/// Clears [`LISTENING`] when its test ends.
struct Guard;

impl Drop for Guard {
    fn drop(&mut self) {
        LISTENING.set(None);
    }
}

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Lines {
    /// Captures output on this thread until the guard is dropped.
    ///
    /// One global subscriber serves all tests. `tracing` caches for all threads whether a callsite is enabled, so a
    /// thread-local default in another test could disable this one.
    fn listen(&self) -> Guard {
        static SUBSCRIBER: Once = Once::new();
        SUBSCRIBER.call_once(|| {
            let lines = tracing_subscriber::fmt::layer()
                .with_ansi(false)
                .without_time()
                .with_writer(|| LISTENING.with_borrow(|lines| lines.clone().unwrap_or_default()));
            let here = dynamic_filter_fn(|about, _| {
                *about.level() <= tracing::Level::DEBUG && LISTENING.with_borrow(Option::is_some)
            });
            tracing_subscriber::registry()
                .with(lines.with_filter(here))
                .init();
        });
        LISTENING.set(Some(self.clone()));
        Guard
    }

    /// Lines that contain this text.
    fn about(&self, what: &str) -> Vec<String> {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        let lines = text.lines().filter(|line| line.contains(what));
        lines.map(str::to_owned).collect()
    }
}

#[tokio::test]
async fn exchange_span_lasts_from_first_transmission_to_response() {
    let lines = Lines::default();
    let _listening = lines.listen();
    let (_server, uri) = start(resources()).await;
    send(client().get(format!("{uri}/hello"))).await;
    let told = lines.about("carob::exchange");
    assert_eq!(told.len(), 2, "{told:#?}");
    assert!(told[0].contains("exchange{peer=127.0.0.1:") && told[0].contains("sent"));
    assert!(told[0].contains("purpose=Request") && told[0].contains("timeout_ms="));
    assert!(told[1].contains("answered") && told[1].contains("retransmissions=0"));
    // Both lines belong to the span of one Message ID.
    let id = |line: &str| {
        line.split("id=")
            .nth(1)
            .unwrap()
            .split(' ')
            .next()
            .unwrap()
            .to_owned()
    };
    assert_eq!(id(&told[0]), id(&told[1]));
}

#[tokio::test]
async fn timeout_is_traced_with_three_transmissions() {
    let lines = Lines::default();
    let _listening = lines.listen();
    let (_socket, address) = silent_peer();
    let settings = carob::Config::new().parameters(impatient());
    let asked = client_with(settings).get(format!("coap://{address}/x"));
    limited(asked.send()).await.unwrap_err();
    let told = lines.about("carob::exchange");
    let sent = told.iter().filter(|line| line.contains(": sent")).count();
    assert_eq!(sent, 3, "{told:#?}");
    assert!(told.last().unwrap().contains("given up"), "{told:#?}");
}

#[tokio::test]
async fn handler_events_are_in_the_request_span() {
    let lines = Lines::default();
    let _listening = lines.listen();
    let handler = |_: Request| async {
        tracing::info!("looking it up");
        "found"
    };
    let builder = resources().resource("/look/{at}", get(handler));
    let (_server, uri) = start(builder).await;
    send(client().get(format!("{uri}/look/it"))).await;
    let told = lines.about("looking it up");
    assert_eq!(told.len(), 1);
    assert!(
        told[0].contains("request{peer=127.0.0.1:") && told[0].contains("path=\"/look/it\""),
        "{told:#?}"
    );
}
