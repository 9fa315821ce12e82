//! An asynchronous CoAP client and server whose congestion control you choose.
//!
//! An endpoint is one UDP socket and one task that drives the protocol engine
//! ([`carob_proto`]); [`Client`] and [`Server`] are two ways to it, and a server's endpoint can
//! send requests too ([`Server::client`]). Everything runs on tokio.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use carob::{Client, Settings};
//!
//! let settings = Settings::new().controller_named("cocoa-plus")?;
//! let client = Client::builder().settings(settings).open()?;
//! let reply = client.get("coap://example.org/sensors/temperature").await?;
//! println!("{} {:?}", reply.code, reply.text());
//! # Ok(())
//! # }
//! ```
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use carob::Server;
//! use carob::server::{Request, fixed, get};
//!
//! let server = Server::builder()
//!     .bind("[::]:5683")
//!     .resource("/hello", fixed("hello, world"))
//!     .resource("/slow", get(|_: Request| async {
//!         tokio::time::sleep(std::time::Duration::from_secs(2)).await;
//!         "at last"
//!     }))
//!     .start()
//!     .await?;
//! tokio::time::sleep(std::time::Duration::from_secs(3_600)).await;
//! server.shut_down(std::time::Duration::from_secs(5)).await;
//! # Ok(())
//! # }
//! ```
//!
//! A resource has a path, which may have parameters; formats, of which Accept chooses; a state,
//! which conditional requests ask about; and handlers that refuse with `?`:
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use carob::server::{Refusal, Request, Resource};
//! use carob::{Code, ContentFormat, ETag, Response, Server};
//!
//! async fn read(request: Request) -> Result<Response, Refusal> {
//!     let id: u32 = request.parameter("id").unwrap_or_default().parse()?;
//!     if id > 7 {
//!         return Err(Refusal::not_found("no such sensor"));
//!     }
//!     let unit = request.query_value("unit").unwrap_or("C");
//!     let text = format!("{{\"sensor\":{id},\"unit\":\"{unit}\"}}");
//!     // Whoever names this tag gets 2.03 without the body.
//!     Ok(Response::new(Code::CONTENT).with_etag(ETag::of(text.as_bytes())).with_payload(text))
//! }
//!
//! let sensor = Resource::new()
//!     .get_as(ContentFormat::JSON, read)
//!     .put(|_: Request| async { Code::CHANGED })
//!     .takes(Code::PUT, [ContentFormat::JSON])
//!     // If-Match and If-None-Match are checked with it before the PUT.
//!     .state_tag(|_: Request| async { ETag::from(1) });
//! let server = Server::builder().resource("/sensors/{id}", sensor).start().await?;
//! # drop(server);
//! # Ok(())
//! # }
//! ```
//!
//! A client may keep what it gets, and then asks only when it must:
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use carob::{CacheLimits, Client, Origin};
//!
//! let client = Client::builder().cache(CacheLimits::default()).open()?;
//! let uri = "coap://[::1]/sensors/7";
//! let reply = client.get(uri).await?.success()?;
//! let again = client.get(uri).await?.success()?;
//! assert_eq!(again.origin, Origin::Fresh);
//! # Ok(())
//! # }
//! ```
//!
//! Over TCP, TLS and WebSocket (RFC 8323) all of this is the same; the URI's scheme says which:
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use carob::{Client, Identity, Server, ServerTls, server};
//!
//! let identity = Identity::from_pem(&std::fs::read("chain.pem")?, &std::fs::read("key.pem")?)?;
//! let server = Server::builder()
//!     .bind_tcp("[::]:5683")
//!     .bind_tls("[::]:5684", ServerTls::new(identity))
//!     .resource("/hello", server::fixed(carob::Response::new(carob::Code::CONTENT)))
//!     .start()
//!     .await?;
//! let reply = Client::open()?.get("coap+tcp://[::1]/hello").await?;
//! # drop((server, reply));
//! # Ok(())
//! # }
//! ```
//!
//! Reading order: [`client`], [`server`], [`proxy`], [`Settings`], [`tls`], [`Error`]; inside, `ways` (one
//! endpoint for each transport), `driver` (the task of one), `socket`, `clock`.
//!
//! What it refuses to do: block its task on an application, retry what the application did not
//! ask for, or let any queue grow without a limit.
// This crate is a driver: it reads the clock and draws the seed for everything below it.
#![allow(clippy::disallowed_methods)]

pub mod client;
mod clock;
mod descriptors;
mod driver;
pub mod dtls;
mod error;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
pub mod limits;
#[cfg(feature = "metrics")]
pub mod metrics;
pub mod proxy;
pub mod server;
mod settings;
mod socket;
pub mod tls;
mod ways;

pub use carob_cc::profile::UnknownProfile;
pub use carob_cc::{TransmissionParameters, TransmissionProfile};
pub use carob_proto::codec::{
    BlockSize, Code, ContentFormat, ETag, NoResponse, OptionNumber, Options, Scheme, Uri,
};
pub use carob_proto::congestion::Choice;
pub use carob_proto::link_format;
pub use carob_proto::message::{Payload, Response};
pub use carob_proto::prefix::{AmplificationLimit, BadPrefix, Prefix};
pub use client::{Body, CacheLimits, CacheUsage, Client, Origin, Reply, StreamedReply};
pub use clock::TimeSource;
pub use driver::Finish;
pub use dtls::{ClientDtls, PeerIdentity, PreSharedKey, PskStore, ServerDtls, SessionLimits};
pub use error::{DIAGNOSTIC_BYTES, Error, OpenError};
pub use proxy::Proxy;
pub use server::{Resource, Server};
pub use settings::{CONNECT_TIMEOUT, Datagram, Settings};
pub use socket::{Group, GroupError};
pub use tls::{ClientTls, Identity, ServerTls};
