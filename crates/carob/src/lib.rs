//! An asynchronous CoAP client, server and proxy with congestion control that you choose for each
//! peer.
//!
//! The transport follows the URI scheme: UDP (`coap`), DTLS (`coaps`), TCP (`coap+tcp`), TLS
//! (`coaps+tcp`) and WebSocket (`coap+ws`, `coaps+ws`). Block-wise transfer (RFC 7959),
//! retransmission and congestion control need no code of the application. Runs on tokio.
//!
//! | task | start with |
//! |---|---|
//! | send requests | [`Client`], [`RequestBuilder`] |
//! | observe a resource (RFC 7641) | [`RequestBuilder::observe`], [`Observation`] |
//! | serve resources | [`Server`], [`Resource`] |
//! | notify observers | [`Notifier`](server::Notifier) |
//! | use DTLS or TLS | [`dtls`](dtls/index.html), [`tls`](tls/index.html) |
//! | choose a controller, for all peers or for one | [`Config`], [`PeerConfig`] |
//! | write a controller | [`CongestionControl::Custom`], [`carob_cc::Controller`] |
//! | send or receive a body block by block | [`RequestBuilder::send_streaming`], [`Body`], [`Upload`](server::Upload) |
//! | run a proxy | [`Proxy`] |
//! | set limits | [`limits`], [`Limits`] |
//! | measure | [`Client::snapshot`], [`Config::on_trace`], [metrics](#metrics) |
//!
//! # A client
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use carob::{Client, Config};
//!
//! let config = Config::new().controller_named("cocoa-plus")?;
//! let client = Client::builder().config(config).open()?;
//! let reply = client.get("coap://example.org/sensors/temperature").await?;
//! println!("{} {:?}", reply.code, reply.text());
//! # Ok(())
//! # }
//! ```
//!
//! # A server
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use carob::server::{Request, fixed, get};
//! use carob::{Client, Server};
//! use std::time::Duration;
//!
//! let server = Server::builder()
//!     .bind("127.0.0.1:0")
//!     .resource("/hello", fixed("hello, world"))
//!     .resource("/slow", get(|_: Request| async {
//!         tokio::time::sleep(Duration::from_millis(20)).await;
//!         "done"
//!     }))
//!     .start()
//!     .await?;
//! let reply = Client::new()?.get(format!("coap://{}/slow", server.local_address())).await?;
//! assert_eq!(reply.text(), Some("done"));
//! server.shutdown(Duration::from_secs(5)).await;
//! # Ok(())
//! # }
//! ```
//!
//! # Observe
//!
//! An [`Observation`] is a stream of states. It registers again by itself when the server restarts
//! or stops responding.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use carob::Client;
//! use carob::client::Update;
//!
//! let mut observation = Client::new()?.get("coap://example.org/temperature").observe().await?;
//! while let Some(update) = observation.next().await {
//!     match update? {
//!         Update::State(reply) => println!("{:?}", reply.text()),
//!         Update::Stale(_) => println!("no notification within Max-Age"),
//!         Update::Ended(reply) => println!("ended: {}", reply.code),
//!         _ => {}
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # DTLS with a pre-shared key
//!
//! ```no_run
//! # #[cfg(feature = "dtls")]
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use carob::{Client, ClientDtls, Config, PreSharedKey};
//!
//! let key = PreSharedKey::from_text("device-7", "secret")?;
//! let config = Config::new().dtls(ClientDtls::new().psk(key));
//! let client = Client::builder().config(config).open()?;
//! let reply = client.get("coaps://example.org/hello").await?;
//! # drop(reply);
//! # Ok(())
//! # }
//! ```
//!
//! # Examples
//!
//! In the repository, `cargo run -p carob --example NAME`; the head of each file shows its arguments.
//!
//! | NAME | content |
//! |---|---|
//! | `client` | a request with its response and the state of the controller |
//! | `counter` | a server with an observable resource |
//! | `observe` | an observation |
//! | `gateway` | many devices polled, with a controller for each, a download and an observation |
//! | `dtls` | a server and a client with pre-shared keys |
//! | `proxy` | a forward- and reverse-proxy with a cache |
//! | `custom_controller` | a congestion controller outside the registry |
//!
//! # Metrics
//!
//! With the feature `metrics`, every endpoint publishes counters, gauges and histograms to the recorder
//! of the `metrics` facade. The feature `prometheus` adds a recorder with an HTTP listener. The
//! module `metrics` lists all metrics with their meaning.
#![cfg_attr(
    feature = "metrics",
    doc = "\nSee the [list of metrics](crate::metrics).\n"
)]
//!
//! # Features
//!
//! - `dtls` (default): `coaps`, CoAP over DTLS 1.2.
//! - `tls` (default): `coaps+tcp`, CoAP over TLS.
//! - `websocket` (default): `coap+ws`, and with `tls` `coaps+ws`.
//! - `metrics`: metrics for any recorder of the `metrics` facade.
//! - `prometheus`: a recorder with an HTTP listener for Prometheus; includes `metrics`.
//!
//! # Layers
//!
//! From the bottom: `transport` (UDP, DTLS, TCP, TLS, WebSocket), `runtime` (the task of each
//! endpoint, with its transport and its [`carob_proto`] engine), [`client`] and [`server`],
//! [`proxy`]. A layer calls the layer below, and is called back through a trait of that layer.
//!
//! An endpoint's task never blocks on a handler, requests are retransmitted only as RFC 7252
//! specifies, and every queue has a limit.
// This crate reads the clock and draws the seed for everything below it.
#![allow(clippy::disallowed_methods)]
#![cfg_attr(not(test), warn(clippy::too_many_lines))]
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod client;
mod clock;
mod config;
mod descriptors;
mod error;
#[cfg(all(any(test, fuzzing), feature = "dtls", feature = "websocket"))]
pub mod fuzzing;
#[cfg(any(feature = "websocket", feature = "prometheus"))]
mod http_host;
pub mod limits;
#[cfg(feature = "metrics")]
pub mod metrics;
pub mod proxy;
mod runtime;
pub mod server;
mod transport;

pub use carob_cc::TransmissionParameters;
pub use carob_cc::controller::Gauge;
pub use carob_cc::registry::UnknownController;
pub use carob_proto::blockwise::RequestedBlock;
pub use carob_proto::codec::{
    BlockSize, Code, ContentFormat, ETag, NoResponse, OptionNumber, Options, OptionsError, Scheme,
    Uri, UriError,
};
pub use carob_proto::congestion::CongestionControl;
pub use carob_proto::endpoint::{
    Config as EngineConfig, Disconnect, Failure, Leisure, Limits, QBlockConfig, QBlockMode,
    RequestError, SessionEnd, Snapshot, StreamConfig, Usage,
};
pub use carob_proto::link_format;
pub use carob_proto::message::{Payload, Response};
pub use carob_proto::prefix::{AmplificationLimit, BadPrefix, Prefix};
pub use carob_proto::trace::Trace;
pub use client::{
    Body, CacheLimits, CacheUsage, Client, Observation, Origin, Reply, RequestBuilder,
    StreamedReply,
};
pub use clock::TimeSource;
pub use config::{CONNECT_TIMEOUT, Config, PeerConfig};
pub use error::{DIAGNOSTIC_BYTES, Error, ErrorKind, OpenError};
pub use proxy::Proxy;
pub use runtime::ShutdownOutcome;
pub use server::{Resource, Server};
pub use transport::capture::Datagram;
#[cfg(feature = "dtls")]
pub use transport::dtls;
#[cfg(feature = "dtls")]
pub use transport::dtls::{ClientDtls, PreSharedKey, PskStore, ServerDtls};
pub use transport::handshake::FailedHandshake;
pub use transport::handshake::PeerIdentity;
#[cfg(any(feature = "dtls", feature = "tls"))]
pub use transport::key_log::{KeyLogTaken, log_keys_to};
pub use transport::limits::SessionLimits;
pub use transport::socket::{Group, GroupError};
pub use transport::tcp::BorrowedSocket;
#[cfg(any(feature = "dtls", feature = "tls"))]
pub use transport::tls;
#[cfg(feature = "tls")]
pub use transport::tls::ServerTls;
#[cfg(any(feature = "dtls", feature = "tls"))]
pub use transport::tls::{ClientTls, Identity};

/// The example of the README.
#[cfg(all(doctest, feature = "dtls"))]
#[doc = include_str!("../README.md")]
struct Readme;

/// The example of the repository's README.
#[cfg(doctest)]
#[doc = include_str!("../pages/readme.md")]
struct RepositoryReadme;

/// Programs of the documentation's pages; `pages` links to them, so that they are in the package.
#[cfg(all(doctest, feature = "dtls"))]
mod pages {
    macro_rules! pages {
        ($($name:ident $text:expr;)*) => {
            $(#[doc = $text]
            struct $name;)*
        };
    }

    pages! {
        Client include_str!("../pages/client.md");
        Server include_str!("../pages/server.md");
        Device include_str!("../pages/device.md");
        ChooseController include_str!("../pages/choose-controller.md");
        Controller include_str!("../pages/controller.md");
        Gateway include_str!("../pages/gateway.md");
        Observe include_str!("../pages/observe.md");
        Bodies include_str!("../pages/bodies.md");
        Dtls include_str!("../pages/dtls.md");
        Multicast include_str!("../pages/multicast.md");
    }
}
