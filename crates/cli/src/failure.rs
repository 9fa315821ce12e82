//! Outcomes of commands, and their exit codes.

use std::fmt;

use carob::{Code, Error, ErrorKind, OpenError};
use carob_cc::registry::nearest;
use carob_proto::endpoint::Failure as RequestFailure;

/// The exit codes as `--help` explains them; [`Outcome::number`] is where they are made.
pub(crate) const EXIT_CODES: &[(u8, &str)] = &[
    (0, "success (response 2.xx)"),
    (
        1,
        "the response was 4.xx, or a local file could not be read or written",
    ),
    (2, "wrong usage"),
    (3, "no answer in time"),
    (4, "network error: cannot resolve, bind or reach"),
    (5, "the response was 5.xx"),
    (130, "interrupted"),
];

/// The outcome of a command.
#[derive(Debug)]
pub enum Outcome {
    /// Success.
    Done,
    /// A response arrived; its code decides.
    Response(Code),
    /// A failure, which is not printed yet.
    Failed(Failure),
    /// All output is printed; this is the exit code.
    Told(u8),
    /// Ended by Ctrl-C.
    Interrupted,
}

/// A failure: one line, and one with a remedy.
#[derive(Debug)]
pub struct Failure {
    pub(crate) kind: Kind,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

/// Kind of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A file of the user's.
    File,
    /// A wrong command line, or a wrong text in a file.
    Usage,
    /// No answer in time.
    NoAnswer,
    /// The network, or the system.
    Network,
    /// The server refused without an error response.
    Refused,
}

impl Outcome {
    /// The exit code.
    pub(crate) fn number(&self) -> u8 {
        match self {
            Self::Done => 0,
            // A final 2.31 carries nothing out: more blocks were expected (RFC 7959 2.9.1).
            Self::Response(code) if code.is_success() && *code != Code::CONTINUE => 0,
            Self::Response(code) if code.class() == 5 => 5,
            Self::Response(_) => 1,
            Self::Failed(failure) => match failure.kind {
                Kind::File | Kind::Refused => 1,
                Kind::Usage => 2,
                Kind::NoAnswer => 3,
                Kind::Network => 4,
            },
            Self::Told(number) => *number,
            Self::Interrupted => 130,
        }
    }
}

impl Failure {
    /// A failure of this kind.
    pub fn new(kind: Kind, message: impl fmt::Display) -> Self {
        Self {
            kind,
            message: message.to_string(),
            hint: None,
        }
    }

    /// The failure with a remedy.
    pub fn hint(mut self, hint: impl fmt::Display) -> Self {
        self.hint = Some(hint.to_string());
        self
    }

    /// A file that could not be used.
    pub fn file(action: &str, path: &std::path::Path, error: &std::io::Error) -> Self {
        Self::new(
            Kind::File,
            format_args!("cannot {action} {}: {error}", path.display()),
        )
    }
}

impl From<Failure> for Outcome {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let kind = match error.kind() {
            ErrorKind::Request => Kind::Usage,
            ErrorKind::Body => Kind::File,
            ErrorKind::Timeout => Kind::NoAnswer,
            _ => Kind::Network,
        };
        let hint = match &error {
            Error::Uri { uri, .. } if !uri.contains("://") => {
                Some(format!("did you mean {}?", with_authority(uri)))
            }
            Error::Disabled { feature, .. } => Some(install(feature)),
            error => error.remedy().map(str::to_owned),
        };
        Self {
            kind,
            message: error.report().to_string(),
            hint,
        }
    }
}

/// A URI with the `//` that is missing, and `coap` unless it has a scheme of CoAP's.
fn with_authority(uri: &str) -> String {
    let (scheme, rest) = match uri.split_once(':') {
        Some((scheme, rest)) if PORTS.iter().any(|(known, ..)| *known == scheme) => (scheme, rest),
        _ => ("coap", uri),
    };
    format!("{scheme}://{}", rest.trim_start_matches('/'))
}

/// Schemes with their transport and default port (RFC 7252 6, RFC 8323 8).
const PORTS: &[(&str, &str, u16)] = &[
    ("coap", "UDP", 5683),
    ("coaps", "UDP", 5684),
    ("coap+tcp", "TCP", 5683),
    ("coaps+tcp", "TCP", 5684),
    ("coap+ws", "TCP", 80),
    ("coaps+ws", "TCP", 443),
];

impl Failure {
    /// The failure of a request to this URI, after `attempts` transmissions of its last message.
    pub(crate) fn of_request(error: Error, uri: &str, transmissions: u32) -> Self {
        let scheme = uri
            .split_once("://")
            .map(|(scheme, _)| scheme.to_lowercase());
        let known = PORTS
            .iter()
            .find(|(known, ..)| Some(*known) == scheme.as_deref());
        let hint = match (&error, known) {
            (Error::Unreachable { source, .. }, Some((scheme, transport, port)))
                if source.kind() == std::io::ErrorKind::ConnectionRefused =>
            {
                Some(format!(
                    "no server listens at that {transport} port; the usual one of {scheme}:// is {port}"
                ))
            }
            (Error::Timeout { failure, .. }, _) => unanswered(*failure, uri, transmissions),
            _ => None,
        };
        let failure = Self::from(error);
        match hint {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }
}

/// The hint for a host that sends nothing back.
fn unanswered(failure: RequestFailure, uri: &str, transmissions: u32) -> Option<String> {
    if transmissions == 0 || failure == RequestFailure::NoResponse {
        return None;
    }
    let count = match transmissions {
        1 => "1 transmission".to_owned(),
        count => format!("{count} transmissions"),
    };
    let origin = match uri.split_once("://") {
        Some((scheme, rest)) => {
            let authority = rest.split(['/', '?']).next().unwrap_or(rest);
            format!("{scheme}://{authority}")
        }
        None => uri.to_owned(),
    };
    let longer = match failure {
        RequestFailure::DeadlinePassed => "; --deadline allows more time",
        _ => "",
    };
    Some(format!(
        "{count} went unanswered; `carob ping {origin}` checks the host, -v shows each message{longer}"
    ))
}

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Self {
        let hint = error.remedy().map(str::to_owned);
        Self {
            kind: Kind::Network,
            message: error.report().to_string(),
            hint,
        }
    }
}

/// The command that installs a feature.
pub(crate) fn install(feature: &str) -> String {
    format!("`cargo install --path crates/cli --features {feature}` adds it; `full` adds all")
}

/// `did you mean "a"? Others near: "b", "c". ` with the names nearest to a wrong one, as for
/// controllers; empty if none is near.
pub(crate) fn did_you_mean<'a>(wrong: &str, names: impl Iterator<Item = &'a str>) -> String {
    let wrong = wrong.to_lowercase();
    let names: Vec<(String, &str)> = names.map(|name| (name.to_lowercase(), name)).collect();
    let near = nearest(&wrong, names.iter().map(|(lower, _)| &**lower));
    let quoted: Vec<String> = near
        .filter_map(|near| names.iter().find(|(lower, _)| lower == near))
        .map(|(_, name)| format!("\"{name}\""))
        .collect();
    match &*quoted {
        [] => String::new(),
        [one] => format!("did you mean {one}? "),
        [one, others @ ..] => format!("did you mean {one}? Others near: {}. ", others.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_controller_finds_its_neighbours() {
        let near = |wrong| {
            let names = carob_cc::registry::entries().map(|entry| entry.name);
            did_you_mean(wrong, names)
        };
        assert!(near("cocoa-3").starts_with("did you mean \"cocoa-03\"?"));
        assert!(near("cocoa").matches('"').count() <= 6, "at most three");
        assert_eq!(near("Defualt"), "did you mean \"default\"? ");
        assert_eq!(near("xyzzy-quux-frobnicate"), "");
    }

    #[test]
    fn a_uri_without_slashes_keeps_its_scheme() {
        for (given, meant) in [
            ("coap:/localhost", "coap://localhost"),
            ("coaps+tcp:host/a", "coaps+tcp://host/a"),
            ("localhost:5683/a", "coap://localhost:5683/a"),
            ("/localhost", "coap://localhost"),
        ] {
            assert_eq!(with_authority(given), meant);
        }
    }

    #[test]
    fn every_way_to_end_has_the_documented_exit_code() {
        let of = |kind| Outcome::Failed(Failure::new(kind, "")).number();
        assert_eq!(Outcome::Done.number(), 0);
        assert_eq!(Outcome::Response(Code::CHANGED).number(), 0);
        assert_eq!(Outcome::Response(Code::NOT_FOUND).number(), 1);
        assert_eq!(Outcome::Response(Code::GATEWAY_TIMEOUT).number(), 5);
        assert_eq!(
            [Kind::Usage, Kind::NoAnswer, Kind::Network].map(of),
            [2, 3, 4]
        );
        assert_eq!(Outcome::Interrupted.number(), 130);
    }
}
