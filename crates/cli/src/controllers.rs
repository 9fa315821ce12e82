//! The controllers that names on the command line refer to, chosen once at the start of the program.

use std::sync::OnceLock;

use carob_lab::registry::Registry;

static REGISTRY: OnceLock<Registry> = OnceLock::new();

/// Takes the program's controllers; the first call counts.
pub(crate) fn choose(registry: Registry) {
    let _ = REGISTRY.set(registry);
}

/// The program's controllers; in unit tests, the built-in ones.
pub(crate) fn registry() -> Registry {
    REGISTRY.get().copied().unwrap_or_default()
}
