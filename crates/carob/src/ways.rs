//! The ways a message can go: one endpoint for each transport, started when it is first needed.

use std::sync::{Arc, Mutex, PoisonError};

use carob_proto::codec::Scheme;

use crate::clock::TimeSource;
use crate::driver::streams::Kind;
use crate::driver::{self, Handle};
use crate::error::{Error, OpenError};
use crate::settings::Settings;

/// The endpoints of a client, or of a server and its clients.
#[derive(Debug)]
pub(crate) struct Ways {
    settings: Settings,
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
            settings,
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
        self.settings.time_source
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
        let started = match Kind::of(scheme) {
            Some(kind) => driver::start_streams(kind, None, &self.settings, None),
            None if scheme == Scheme::Coaps => {
                driver::start_secured(None, &self.settings, None, None)
            }
            None => driver::start(None, &self.settings, None),
        };
        let handle = started.map_err(|error| match error {
            OpenError::Bind { source, .. }
            | OpenError::Groups { source, .. }
            | OpenError::Entropy(source) => Error::Open(source),
            other => Error::Open(std::io::Error::other(other)),
        })?;
        others.push((scheme, Arc::clone(&handle)));
        Ok(handle)
    }

    /// All endpoints that have been started.
    pub(crate) fn all(&self) -> Vec<Arc<Handle>> {
        let others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        let others = others.iter().map(|(_, handle)| Arc::clone(handle));
        std::iter::once(Arc::clone(&self.first.1))
            .chain(others)
            .chain(self.shared.iter().map(Arc::clone))
            .collect()
    }
}
