//! Resource limits by name, for programs with configurable limits.
//!
//! [`named`] lists all limits with their defaults and the behaviour at the limit; [`Config::limit`]
//! sets one. The limits of the protocol engine are the fields of [`Limits`]; the other limits are:
//!
//! | name | limits |
//! |---|---|
//! | `handlers` | handlers of a server ([`ServerBuilder::handlers`](crate::server::ServerBuilder::handlers)) |
//! | `sessions`, `session_idle` | DTLS sessions ([`SessionLimits`](crate::SessionLimits)) |
//! | `handshakes`, `handshake_rate`, `handshake_burst`, `handshake_work`, `handshake_time` | handshakes ([`SessionLimits`](crate::SessionLimits)) |
//!
//! ```
//! use carob::{Config, limits};
//!
//! for limit in limits::named() {
//!     println!("{} (default {}): {}", limit.name, limit.default, limit.about);
//! }
//! let config = Config::new().limit("observers", 1_000)?;
//! # let _ = config;
//! # Ok::<(), carob::limits::UnknownLimit>(())
//! ```
//!
//! A [cache](crate::CacheLimits) and a [proxy](crate::proxy::ProxyLimits) have separate limits.

use std::fmt;
use std::time::Duration;

use carob_proto::endpoint::Limits;

use crate::config::Config;
use crate::server::HANDLERS;

/// Description of a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NamedLimit {
    /// Name, for [`Config::limit`].
    pub name: &'static str,
    /// Default value.
    pub default: usize,
    /// Quantity limited and behaviour at the limit, in Markdown.
    pub about: String,
}

/// Error of [`Config::limit`]: no limit has this name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownLimit(pub String);

impl fmt::Display for UnknownLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no limit has the name \"{}\"", self.0)
    }
}

impl std::error::Error for UnknownLimit {}

/// Limits of drivers: name, what happens at it, and how it is read and set.
type OfDriver = (
    &'static str,
    &'static str,
    fn(&Config) -> usize,
    fn(&mut Config, usize),
);

const OF_DRIVERS: &[OfDriver] = &[
    (
        "handlers",
        "Handlers of a server that run at once. At the limit, requests are answered 5.03. Fixed content does \
         not count.",
        |settings| settings.handlers.unwrap_or(HANDLERS),
        |settings, value| settings.handlers = Some(value),
    ),
    (
        "sessions",
        "DTLS sessions, without handshakes. At the limit, the least recently used is closed.",
        |settings| settings.sessions.sessions,
        |settings, value| settings.sessions = settings.sessions.sessions(value),
    ),
    (
        "handshakes",
        "Handshakes in progress, of DTLS at one socket, or of TLS and WebSocket at another. At the limit, the \
         oldest is dropped; at a source's share of it, the oldest of that source.",
        |settings| settings.sessions.handshakes,
        |settings, value| settings.sessions = settings.sessions.handshakes(value),
    ),
    (
        "handshake_rate",
        "Handshakes of one source a second, in the long run, of DTLS, TLS and WebSocket. Above it, a DTLS \
         ClientHello gets no reply (its client retransmits it), and a connection is closed. 0: any \
         number.",
        |settings| settings.sessions.handshake_rate,
        |settings, value| settings.sessions.handshake_rate = value,
    ),
    (
        "handshake_burst",
        "Handshakes of one source at once, before its rate applies.",
        |settings| settings.sessions.handshake_burst,
        |settings, value| settings.sessions.handshake_burst = value.max(1),
    ),
    (
        "handshake_work",
        "Percent of a socket's processor time for handshakes that peers begin, of DTLS, TLS and WebSocket, in \
         the long run, above a burst of 0.25 s. At the limit, DTLS ClientHellos get no reply (their clients \
         retransmit them), and connections are closed, so that peers with a session or a connection are \
         served. 100: all of it.",
        |settings| settings.sessions.handshake_work.into(),
        |settings, value| {
            settings.sessions = settings.sessions.handshake_work(value.min(100) as u8);
        },
    ),
    (
        "session_idle",
        "Seconds without a message after which a DTLS session is closed.",
        |settings| seconds(settings.sessions.idle),
        |settings, value| settings.sessions.idle = Duration::from_secs(value as u64),
    ),
    (
        "handshake_time",
        "Timeout of a DTLS handshake in seconds.",
        |settings| seconds(settings.sessions.handshake_time),
        |settings, value| settings.sessions.handshake_time = Duration::from_secs(value as u64),
    ),
];

fn seconds(time: Duration) -> usize {
    usize::try_from(time.as_secs()).unwrap_or(usize::MAX)
}

/// Returns all limits that [`Config::limit`] sets.
pub fn named() -> Vec<NamedLimit> {
    let of_engine = Limits::ALL.iter().map(|limit| NamedLimit {
        name: limit.name,
        default: limit.default(),
        about: limit.about.concat().trim().to_owned(),
    });
    let defaults = Config::default();
    let of_drivers = OF_DRIVERS.iter().map(|(name, about, get, _)| NamedLimit {
        name,
        default: get(&defaults),
        about: (*about).to_owned(),
    });
    of_engine.chain(of_drivers).collect()
}

impl Config {
    /// Sets a limit by its name; [`limits::named`](named) lists all.
    ///
    /// # Errors
    ///
    /// [`UnknownLimit`].
    pub fn limit(mut self, name: &str, value: usize) -> Result<Self, UnknownLimit> {
        let of_driver = OF_DRIVERS.iter().find(|(known, ..)| *known == name);
        match (Limits::named(name), of_driver) {
            (Some(limit), _) => (limit.set)(&mut self.engine.limits, value),
            (None, Some((.., set))) => set(&mut self, value),
            (None, None) => return Err(UnknownLimit(name.to_owned())),
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_limit_can_be_set_by_its_name() {
        let all = named();
        let mut settings = Config::default();
        for (n, limit) in all.iter().enumerate() {
            settings = settings.limit(limit.name, n + 1).expect(limit.name);
            assert!(
                limit.about.ends_with('.'),
                "{}: {}",
                limit.name,
                limit.about
            );
        }
        for (n, limit) in all.iter().enumerate() {
            let of_driver = OF_DRIVERS.iter().find(|(name, ..)| *name == limit.name);
            let value = match of_driver {
                Some((_, _, get, _)) => get(&settings),
                None => {
                    (Limits::named(limit.name).expect("it is one").get)(&settings.engine.limits)
                }
            };
            assert_eq!(value, n + 1, "{}", limit.name);
        }
        let wrong = Config::default().limit("handler", 1);
        assert!(wrong.is_err_and(|error| error.to_string().contains("\"handler\"")));
    }
}
