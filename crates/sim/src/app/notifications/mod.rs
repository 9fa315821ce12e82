//! Notification fan-out: `server` has the application, `counts` its counters.

mod counts;
mod server;

pub(crate) use server::Notifier;
