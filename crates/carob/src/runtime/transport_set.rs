//! The transports of a client or server: an endpoint for each, started at first use.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use carob_proto::codec::Scheme;

use super::messages::{Handle, all_ended};
use super::start;
use crate::clock::TimeSource;
use crate::config::{Config, PeerConfig};
use crate::error::{Error, OpenError};
use crate::transport::tcp::StreamKind;

/// The endpoints of a client, or of a server and its clients.
#[derive(Debug)]
pub(crate) struct TransportSet {
    config: Mutex<Config>,
    time_source: TimeSource,
    /// The one that is there from the beginning.
    first: (Scheme, Arc<Handle>),
    others: Mutex<Vec<(Scheme, Arc<Handle>)>>,
    /// Endpoints that share a port. They send no requests, because the response could arrive at
    /// another socket.
    shared: Vec<Arc<Handle>>,
}

impl TransportSet {
    pub(crate) fn new(
        config: Config,
        first: (Scheme, Arc<Handle>),
        others: Vec<(Scheme, Arc<Handle>)>,
    ) -> Self {
        Self {
            time_source: config.time_source,
            config: Mutex::new(config),
            first,
            others: Mutex::new(others),
            shared: Vec::new(),
        }
    }

    /// Adds endpoints that only respond.
    pub(crate) fn and_shared(mut self, shared: Vec<Arc<Handle>>) -> Self {
        self.shared = shared;
        self
    }

    pub(crate) fn first(&self) -> &Arc<Handle> {
        &self.first.1
    }

    /// The clock that the time is read from.
    pub(crate) fn time_source(&self) -> TimeSource {
        self.time_source
    }

    /// The endpoint for URIs of this scheme.
    pub(crate) fn of(&self, scheme: Scheme) -> Result<Arc<Handle>, Error> {
        let (first, handle) = &self.first;
        if *first == scheme {
            return Ok(Arc::clone(handle));
        }
        // Held until the endpoint is listed: two first requests must not start two.
        let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, handle)) = others.iter().find(|(of, _)| *of == scheme) {
            return Ok(Arc::clone(handle));
        }
        let config = self.config.lock().unwrap_or_else(PoisonError::into_inner);
        let started = match (scheme, StreamKind::of(scheme)) {
            (Scheme::Coap, _) => start(None, &config, None),
            #[cfg(feature = "dtls")]
            (Scheme::Coaps, _) => start::start_secured(None, &config, None, None),
            (_, Some(kind)) => start::start_streams(kind, None, &config, None),
            (_, None) => return Err(Error::disabled(scheme)),
        };
        drop(config);
        let handle = started.map_err(|error| match error {
            OpenError::Bind { source, .. }
            | OpenError::Groups { source, .. }
            | OpenError::Entropy(source) => Error::Open(source),
            other => Error::Open(io::Error::other(other)),
        })?;
        others.push((scheme, Arc::clone(&handle)));
        Ok(handle)
    }

    /// Waits until the endpoints that have been started have ended. Error: the first that one of
    /// them ended with.
    pub(crate) async fn closed(&self) -> io::Result<()> {
        all_ended(self.all()).await
    }

    /// The endpoint for URIs of this scheme, if it has been started.
    pub(crate) fn started(&self, scheme: Scheme) -> Option<Arc<Handle>> {
        let mut all = self.all_by_scheme().into_iter();
        all.find_map(|(of, handle)| (of == scheme).then_some(handle))
    }

    /// Stores a peer's configuration for datagram endpoints started later. Returns it with the
    /// parameters that its controller suggests, and the running endpoints.
    pub(crate) fn set_peer(
        &self,
        peer: SocketAddr,
        own: PeerConfig,
    ) -> (PeerConfig, Vec<(Scheme, Arc<Handle>)>) {
        let mut config = self.config.lock().unwrap_or_else(PoisonError::into_inner);
        let complete = config.of_peer(&own);
        config.peers.retain(|(known, _)| *known != peer);
        config.peers.push((peer, own));
        // Endpoints started later use it.
        drop(config);
        let mut all = self.all_by_scheme();
        all.retain(|(scheme, _)| StreamKind::of(*scheme).is_none());
        (complete, all)
    }

    /// All endpoints that have been started, with their schemes.
    pub(crate) fn all_by_scheme(&self) -> Vec<(Scheme, Arc<Handle>)> {
        let others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        let (scheme, first) = &self.first;
        let shared = (self.shared.iter()).map(|handle| (Scheme::Coap, Arc::clone(handle)));
        std::iter::once((*scheme, Arc::clone(first)))
            .chain(others.iter().cloned())
            .chain(shared)
            .collect()
    }

    /// All endpoints that have been started.
    pub(crate) fn all(&self) -> Vec<Arc<Handle>> {
        let all = self.all_by_scheme().into_iter();
        all.map(|(_, handle)| handle).collect()
    }
}
