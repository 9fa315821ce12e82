//! Serving: resources, their handlers, and the server around them.
//!
//! Reading order: [`Resource`] (what a path answers), [`Handler`] (how), [`Request`] and
//! [`Upload`] (what a handler gets), [`Refusal`] (what it returns if not an answer),
//! [`ServerBuilder`] (putting it together). Inside: `router` and `pattern` (from a path to its
//! resource), `choice` (from a request to one of its answers), `frame` and `conditions` (what is
//! done around a handler), `discovery` (`/.well-known/core`).

mod choice;
mod conditions;
mod discovery;
mod frame;
mod handler;
mod notifier;
mod pattern;
mod refusal;
mod request;
mod resource;
mod router;
mod upload;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::lookup_host;

use crate::client::Client;
use crate::driver::{self, Command, Finish, Handle};
use crate::error::OpenError;
use crate::settings::Settings;

pub(crate) use choice::{Asked, METHOD_NOT_ALLOWED};
pub use conditions::{IntoState, StateTag};
pub(crate) use frame::Frame;
pub use handler::{Handler, IntoResponse, UploadHandler};
pub(crate) use notifier::Changes;
pub use notifier::Notifier;
pub(crate) use pattern::Pattern;
pub use refusal::Refusal;
pub use request::Request;
pub(crate) use resource::Action;
pub use resource::{Resource, fixed, get};
pub(crate) use router::Router;
pub use upload::{Upload, UploadError};

/// Handlers that run at once unless [`ServerBuilder::handlers`] says otherwise.
pub const HANDLERS: usize = 1_024;

/// A running server. Dropping it, and every client made from it, stops it at once;
/// [`shut_down`](Self::shut_down) lets it finish first.
#[derive(Debug)]
pub struct Server {
    handle: Arc<Handle>,
}

/// What a server will answer, and how.
#[derive(Debug)]
pub struct ServerBuilder {
    address: Address,
    settings: Settings,
    handlers: usize,
    router: Router,
}

impl Server {
    /// A server to be described; it answers nothing but `/.well-known/core` yet.
    pub fn builder() -> ServerBuilder {
        ServerBuilder {
            address: Address::Socket((std::net::Ipv6Addr::UNSPECIFIED, 5683).into()),
            settings: Settings::default(),
            handlers: HANDLERS,
            router: Router::default(),
        }
    }

    /// Where it listens.
    pub fn local_address(&self) -> SocketAddr {
        self.handle.local()
    }

    /// A client that sends from the server's own address and port.
    pub fn client(&self) -> Client {
        Client::over(Arc::clone(&self.handle))
    }

    /// Stops: new requests are answered 5.03, those under way are finished, and after `limit` at
    /// the latest everything is cut off.
    pub async fn shut_down(self, limit: Duration) -> Finish {
        let ended = self
            .handle
            .ask(|done| Command::ShutDown { limit, done })
            .await;
        ended.unwrap_or(Finish::Complete)
    }
}

/// Where a server listens.
#[derive(Clone, Debug)]
pub enum Address {
    /// An address.
    Socket(SocketAddr),
    /// `IP:PORT` or `NAME:PORT`; an error in it is reported when the server starts.
    Text(String),
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        Self::Socket(address)
    }
}

impl From<&str> for Address {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Address {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl Address {
    async fn resolve(self) -> Result<SocketAddr, OpenError> {
        let text = match self {
            Self::Socket(address) => return Ok(address),
            Self::Text(text) => text,
        };
        if let Ok(address) = text.parse() {
            return Ok(address);
        }
        let none = || std::io::Error::other("the name has no address");
        match lookup_host(&text)
            .await
            .and_then(|mut all| all.next().ok_or_else(none))
        {
            Ok(address) => Ok(address),
            Err(source) => Err(OpenError::Address { text, source }),
        }
    }
}

impl ServerBuilder {
    /// Where to listen: `IP:PORT` or `NAME:PORT`. Default `[::]:5683`, which takes IPv4 too.
    pub fn bind(mut self, address: impl Into<Address>) -> Self {
        self.address = address.into();
        self
    }

    /// The endpoint's settings.
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// Handlers that may run at once; at the limit, requests are answered 5.03. Default
    /// [`HANDLERS`]. Fixed content is not counted.
    pub fn handlers(mut self, limit: usize) -> Self {
        self.handlers = limit;
        self
    }

    /// What `path` answers; the last word on a path counts.
    ///
    /// A segment is literal (`/a/b`; nothing is percent-decoded), a parameter (`/sensors/{id}`, see
    /// [`Request::parameter`]) or, at the end, `*` for all further segments, be there none
    /// (`/files/*`, see [`Request::rest`]). Of several paths that match, segment by segment from
    /// the first on, a literal comes before a parameter and that before a rest. Only literal paths
    /// are listed in `/.well-known/core`. A path that is none of this is an error when the server
    /// starts.
    pub fn resource(mut self, path: &str, resource: Resource) -> Self {
        self.router.add(path, resource);
        self
    }

    /// What every path answers that no other resource does: like `/*`, but for the root too, and
    /// after everything else.
    pub fn fallback(mut self, resource: Resource) -> Self {
        self.router.set_fallback(resource);
        self
    }

    /// Starts the server on the current runtime.
    pub async fn start(self) -> Result<Server, OpenError> {
        let Self {
            address,
            settings,
            handlers,
            mut router,
        } = self;
        let address = address.resolve().await?;
        router.finish()?;
        let handle = driver::start(Some(address), settings, Some((router, handlers)))?;
        Ok(Server { handle })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_listens_on_the_default_port_of_every_address_unless_told_otherwise() {
        let Address::Socket(address) = Server::builder().address else {
            panic!("it is no name");
        };
        assert_eq!(address.port(), 5683);
        assert!(address.ip().is_unspecified());
    }
}
