//! Every limit of an endpoint by its name, for programs whose users set them.

use std::fmt;
use std::time::Duration;

use carob_proto::endpoint::Limits;

use crate::server::HANDLERS;
use crate::settings::Settings;

/// A limit that has a name.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NamedLimit {
    /// By which [`Settings::limit`] takes it.
    pub name: &'static str,
    /// Its value unless it is set.
    pub default: usize,
    /// What it limits, and what happens at it, in Markdown.
    pub about: String,
}

/// No limit has this name.
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
    fn(&Settings) -> usize,
    fn(&mut Settings, usize),
);

const OF_DRIVERS: &[OfDriver] = &[
    (
        "handlers",
        "Handlers of a server that run at once. At it, requests are answered 5.03. Fixed content is \
         not counted.",
        |settings| settings.handlers.unwrap_or(HANDLERS),
        |settings, value| settings.handlers = Some(value),
    ),
    (
        "sessions",
        "DTLS sessions, handshakes not counted. At it, the one used longest ago is closed.",
        |settings| settings.sessions.sessions,
        |settings, value| settings.sessions = settings.sessions.sessions(value),
    ),
    (
        "handshakes",
        "Handshakes under way, of DTLS at a socket, or of TLS and WebSocket at another. At it, the one \
         that began longest ago is dropped; at a source's share of it, the oldest of that source.",
        |settings| settings.sessions.handshakes,
        |settings, value| settings.sessions = settings.sessions.handshakes(value),
    ),
    (
        "handshake_rate",
        "Handshakes that a source may begin a second, in the long run, of DTLS, TLS and WebSocket. At it, \
         a hello over DTLS is not answered (its client repeats it), and a connection is closed. 0: any \
         number.",
        |settings| settings.sessions.handshake_rate,
        |settings, value| settings.sessions.handshake_rate = value,
    ),
    (
        "handshake_burst",
        "Handshakes that a source may begin at once, before its rate counts.",
        |settings| settings.sessions.handshake_burst,
        |settings, value| settings.sessions.handshake_burst = value.max(1),
    ),
    (
        "handshake_work",
        "Percent of a processor's time that handshakes begun by others may take at a socket, of DTLS, TLS and \
         WebSocket, in the long run and beyond a quarter of a second at once. At it, hellos over DTLS are \
         not answered (their clients repeat them), and connections are closed, so that peers with a session \
         or a connection are served. 100: all of it.",
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
        "Seconds that a DTLS handshake may take.",
        |settings| seconds(settings.sessions.handshake_time),
        |settings, value| settings.sessions.handshake_time = Duration::from_secs(value as u64),
    ),
];

fn seconds(time: Duration) -> usize {
    usize::try_from(time.as_secs()).unwrap_or(usize::MAX)
}

/// All limits that [`Settings::limit`] sets.
pub fn named() -> Vec<NamedLimit> {
    let of_engine = Limits::ALL.iter().map(|limit| NamedLimit {
        name: limit.name,
        default: limit.default(),
        about: limit.about.concat().trim().to_owned(),
    });
    let defaults = Settings::default();
    let of_drivers = OF_DRIVERS.iter().map(|(name, about, get, _)| NamedLimit {
        name,
        default: get(&defaults),
        about: (*about).to_owned(),
    });
    of_engine.chain(of_drivers).collect()
}

impl Settings {
    /// Sets the limit of this name, as [`limits::named`](named) lists them.
    pub fn limit(mut self, name: &str, value: usize) -> Result<Self, UnknownLimit> {
        let of_driver = OF_DRIVERS.iter().find(|(known, ..)| *known == name);
        match (Limits::named(name), of_driver) {
            (Some(limit), _) => (limit.set)(&mut self.config.limits, value),
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
        let mut settings = Settings::default();
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
                    (Limits::named(limit.name).expect("it is one").get)(&settings.config.limits)
                }
            };
            assert_eq!(value, n + 1, "{}", limit.name);
        }
        let wrong = Settings::default().limit("handler", 1);
        assert!(wrong.is_err_and(|error| error.to_string().contains("\"handler\"")));
    }
}
