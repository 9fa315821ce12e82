//! Credentials of a running server that can be replaced.

use std::sync::{Arc, Mutex, PoisonError};

/// A shared value that handshakes read and the application replaces. Clones are one and the same.
pub(crate) struct Replaceable<T>(Arc<Mutex<Arc<T>>>);

impl<T> Replaceable<T> {
    pub(crate) fn new(value: Arc<T>) -> Self {
        Self(Arc::new(Mutex::new(value)))
    }

    pub(crate) fn get(&self) -> Arc<T> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn set(&self, value: Arc<T>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = value;
    }
}

impl<T> Clone for Replaceable<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> std::fmt::Debug for Replaceable<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Replaceable").finish_non_exhaustive()
    }
}
