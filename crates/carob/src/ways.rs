//! The ways a message can go: one endpoint for each transport, started when it is first needed.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use carob_proto::codec::Scheme;

use crate::clock::TimeSource;
use crate::driver::streams::Kind;
use crate::driver::{self, Handle, PeerSettings};
use crate::error::{Error, OpenError};
use crate::settings::Settings;

/// The endpoints of a client, or of a server and its clients.
#[derive(Debug)]
pub(crate) struct Ways {
    settings: Mutex<Settings>,
    time_source: TimeSource,
    /// The one that is there from the beginning.
    first: (Scheme, Arc<Handle>),
    others: Mutex<Vec<(Scheme, Arc<Handle>)>>,
    /// Those that share a port. A request cannot go from there: its response could come to another.
    shared: Vec<Arc<Handle>>,
}

impl Ways {
    pub(crate) fn new(
        settings: Settings,
        first: (Scheme, Arc<Handle>),
        others: Vec<(Scheme, Arc<Handle>)>,
    ) -> Self {
        Self {
            time_source: settings.time_source,
            settings: Mutex::new(settings),
            first,
            others: Mutex::new(others),
            shared: Vec::new(),
        }
    }

    /// With endpoints that only answer.
    pub(crate) fn and_shared(mut self, shared: Vec<Arc<Handle>>) -> Self {
        self.shared = shared;
        self
    }

    pub(crate) fn first(&self) -> &Arc<Handle> {
        &self.first.1
    }

    /// What time is read from.
    pub(crate) fn time_source(&self) -> TimeSource {
        self.time_source
    }

    /// The endpoint for URIs of this scheme.
    pub(crate) fn of(&self, scheme: Scheme) -> Result<Arc<Handle>, Error> {
        let (first, handle) = &self.first;
        if *first == scheme {
            return Ok(Arc::clone(handle));
        }
        let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, handle)) = others.iter().find(|(of, _)| *of == scheme) {
            return Ok(Arc::clone(handle));
        }
        let settings = self.settings.lock().unwrap_or_else(PoisonError::into_inner);
        let started = match Kind::of(scheme) {
            Some(kind) => driver::start_streams(kind, None, &settings, None),
            None if scheme == Scheme::Coaps => driver::start_secured(None, &settings, None, None),
            None => driver::start(None, &settings, None),
        };
        drop(settings);
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
        driver::all_ended(self.all()).await
    }

    /// The endpoint for URIs of this scheme, if it has been started.
    pub(crate) fn started(&self, scheme: Scheme) -> Option<Arc<Handle>> {
        let mut all = self.all_by_scheme().into_iter();
        all.find_map(|(of, handle)| (of == scheme).then_some(handle))
    }

    /// Keeps a peer's settings for datagram endpoints to be started. Returns those that have been.
    pub(crate) fn set_peer(&self, settings: &PeerSettings) -> Vec<(Scheme, Arc<Handle>)> {
        let mut of_all = self.settings.lock().unwrap_or_else(PoisonError::into_inner);
        of_all.peers.retain(|(peer, ..)| *peer != settings.0);
        of_all.peers.push(settings.clone());
        // An endpoint that is started from here on knows it.
        drop(of_all);
        let mut all = self.all_by_scheme();
        all.retain(|(scheme, _)| Kind::of(*scheme).is_none());
        all
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
