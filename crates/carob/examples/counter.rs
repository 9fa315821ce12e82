//! A server with a custom resource: a counter with GET, PUT, POST and Observe.
//!
//! `cargo run -p carob --example counter -- 127.0.0.1:5683`, then from another terminal
//! `carob observe coap://127.0.0.1/count` and `carob post coap://127.0.0.1/count 5`.
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use carob::server::{Notifier, Refusal, Request, Resource};
use carob::{Code, Server};

/// State shared by the handlers.
#[derive(Clone, Default)]
pub(crate) struct Counter {
    value: Arc<AtomicI64>,
    changes: Notifier,
}

impl Counter {
    /// GET: returns the number as text.
    fn read(&self) -> String {
        self.value.load(Ordering::Relaxed).to_string()
    }

    /// PUT: sets the number.
    fn set(&self, request: &Request) -> Result<Code, Refusal> {
        self.value.store(number(request)?, Ordering::Relaxed);
        self.changes.changed();
        Ok(Code::CHANGED)
    }

    /// POST: adds a number, by default 1.
    fn add(&self, request: &Request) -> Result<Code, Refusal> {
        let step = if request.payload().is_empty() {
            1
        } else {
            number(request)?
        };
        self.value.fetch_add(step, Ordering::Relaxed);
        self.changes.changed();
        Ok(Code::CHANGED)
    }

    pub(crate) fn resource(&self) -> Resource {
        let (reading, setting, adding) = (self.clone(), self.clone(), self.clone());
        Resource::new()
            .get(move |_: Request| ready(reading.read()))
            .put(move |request: Request| ready(setting.set(&request)))
            .post(move |request: Request| ready(adding.add(&request)))
            .observable(&self.changes)
            .attribute("rt", "counter")
            .attribute("title", "a number that can be observed")
    }
}

/// Parses the payload.
fn number(request: &Request) -> Result<i64, Refusal> {
    let text = std::str::from_utf8(request.payload()).unwrap_or_default();
    let number = text.trim().parse();
    number.map_err(|_| Refusal::bad_request("a whole number is wanted, such as 5"))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1);
    let server = Server::builder()
        .bind(address.unwrap_or_else(|| "[::]:5683".into()))
        .resource("/count", Counter::default().resource())
        .start()
        .await?;
    println!("listening on coap://{}", server.local_address());
    std::future::pending().await
}
