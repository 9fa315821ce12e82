//! A proxy between clients and origins on loopback: forwarding (`passing`), caching and sharing (`sharing`), observation
//! (`observing`) and abuse (`attacks`).
mod attacks;
mod observing;
mod passing;
mod sharing;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use carob::proxy::ProxyBuilder;
use carob::server::Request;
use carob::{Client, Config, OptionNumber, Proxy, Reply, Scheme, Server};

/// Requests received by origins.
#[derive(Clone, Debug, Default)]
struct RequestLog(Arc<(AtomicU64, Mutex<Vec<Request>>)>);

impl RequestLog {
    fn hear(&self, request: &Request) -> u64 {
        self.0.1.lock().unwrap().push(request.clone());
        self.0.0.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn count(&self) -> u64 {
        self.0.0.load(Ordering::Relaxed)
    }

    fn last(&self) -> Request {
        self.0.1.lock().unwrap().last().cloned().expect("asked")
    }
}

/// A builder for a proxy on loopback that may reach loopback.
fn forwarding() -> ProxyBuilder {
    Proxy::builder()
        .server(Server::builder().bind("127.0.0.1:0"))
        .allow("127.0.0.0/8".parse().unwrap())
}

/// Starts a proxy; returns it and its URI.
async fn started(builder: ProxyBuilder) -> (Proxy, String) {
    let proxy = Box::pin(builder.start())
        .await
        .expect("a free port is bound");
    let uri = format!("coap://{}", proxy.server().local_address());
    (proxy, uri)
}

/// The URI of a proxy's listener for this scheme.
fn uri_of(proxy: &Proxy, scheme: Scheme) -> String {
    let mut all = proxy.server().addresses().iter();
    let (_, address) = all.find(|(of, _)| *of == scheme).expect("it listens");
    format!("{scheme}://{address}")
}

async fn get(client: &Client, proxy: &str, uri: &str) -> Reply {
    client.get(uri).via(proxy).await.expect("the proxy answers")
}

fn understanding(all: &'static [OptionNumber]) -> Config {
    Config::new().engine(|config| config.understood = all)
}

fn age(reply: &Reply) -> u64 {
    reply.max_age().as_secs()
}
