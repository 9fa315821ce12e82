//! Cargo features of the command: commands and options of each, and how to install it.

use std::fmt::Display;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::failure::{Failure, Kind, install};

/// The commands and options that need a feature.
struct Part {
    feature: &'static str,
    is_present: bool,
    commands: &'static [&'static str],
    options: &'static [&'static str],
}

macro_rules! part {
    ($feature:literal, $commands:expr, $options:expr) => {
        Part {
            feature: $feature,
            is_present: cfg!(feature = $feature),
            commands: &$commands,
            options: &$options,
        }
    };
}

/// An option that several features have is named by the first that is absent.
const PARTS: &[Part] = &[
    part!("analyze", ["analyze"], []),
    part!("bench", ["bench"], []),
    part!(
        "dtls",
        [],
        [
            "dtls",
            "psk-file",
            "psk-identity",
            "origin-psk-file",
            "origin-psk-identity"
        ]
    ),
    part!("emulate", ["lab emulate"], []),
    part!("metrics", [], ["metrics", "metrics-host"]),
    part!("proxy", ["proxy"], []),
    part!("tls", [], ["tls", "ca", "cert", "key", "client-ca"]),
    part!("websocket", [], ["ws", "wss", "ws-origin"]),
];

/// Verbs of `carob-studies` that were of `carob lab`.
const OF_STUDIES: [&str; 4] = ["calibrate", "claims", "judge", "reproduce"];

/// The failure of a command that `carob-studies` has.
pub(crate) fn of_studies(message: impl Display, verb: &str) -> Failure {
    let installed = "`cargo install --path crates/studies` installs carob-studies";
    Failure::new(Kind::Usage, message).hint(format_args!("`carob-studies {verb}`; {installed}"))
}

/// The failure of a command line that needs an absent feature.
pub(crate) fn missing(what: &str, feature: &str) -> Failure {
    let text = format!("this build has no {what}: it needs the feature `{feature}`");
    Failure::new(Kind::Usage, text).hint(install(feature))
}

/// The reason why the parser rejected a command line, if it is an absent feature.
pub(crate) fn of_error(error: &clap::Error) -> Option<Failure> {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    match error.kind() {
        ErrorKind::InvalidSubcommand => {
            let name = text(ContextKind::InvalidSubcommand)?;
            if OF_STUDIES.contains(&name) {
                let message = format_args!("`carob lab {name}` is a command of carob-studies");
                return Some(of_studies(message, name));
            }
            let is_last = |command: &&&str| command.rsplit(' ').next() == Some(name);
            let (command, feature) = find(|part| part.commands.iter().find(is_last))?;
            Some(missing(&format!("`carob {command}`"), feature))
        }
        ErrorKind::UnknownArgument => {
            let name = text(ContextKind::InvalidArg)?.strip_prefix("--")?;
            let (option, feature) = find(|part| part.options.iter().find(|known| **known == name))?;
            Some(missing(&format!("option --{option}"), feature))
        }
        _ => None,
    }
}

/// The first match among absent parts, with its feature.
fn find(
    of: impl Fn(&'static Part) -> Option<&'static &'static str>,
) -> Option<(&'static str, &'static str)> {
    let mut absent = PARTS.iter().filter(|part| !part.is_present);
    absent.find_map(|part| Some((*of(part)?, part.feature)))
}

/// Returns true if this build can run an example of the help, and its command is among those given.
pub(crate) fn has(example: &str, commands: &[String]) -> bool {
    let mut words = example.split(' ').skip_while(|word| *word != "carob");
    let is_command = (words.nth(1)).is_none_or(|verb| commands.iter().any(|name| name == verb));
    let mut absent = PARTS.iter().filter(|part| !part.is_present);
    is_command
        && !absent.any(|part| {
            let mut words = example
                .split(' ')
                .filter_map(|word| word.strip_prefix("--"));
            words.any(|word| part.options.contains(&word))
        })
}

/// A line that names the commands which this build lacks; empty if it has all.
pub(crate) fn absent_commands() -> String {
    let absent = PARTS.iter().filter(|part| !part.is_present);
    let names: Vec<_> = absent.flat_map(|part| part.commands).copied().collect();
    if names.is_empty() {
        return String::new();
    }
    let names = names.join(", ");
    format!("Not in this build: {names} (feature `full` of the package carob-cli).")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The commands and options of all builds are as the table has them.
    #[cfg(feature = "full")]
    #[test]
    fn every_part_of_the_full_build_exists() {
        let command = crate::args::command();
        let options: Vec<&str> = (command.get_subcommands())
            .flat_map(clap::Command::get_arguments)
            .filter_map(clap::Arg::get_long)
            .collect();
        for part in PARTS {
            assert!(part.is_present, "{}", part.feature);
            for name in part.commands {
                let found = name
                    .split(' ')
                    .try_fold(&command, |above, word| above.find_subcommand(word));
                assert!(found.is_some(), "{name}");
            }
            for option in part.options {
                assert!(options.contains(option), "{option}");
            }
        }
        assert_eq!(absent_commands(), "");
    }

    #[cfg(not(any(feature = "analyze", feature = "emulate", feature = "metrics")))]
    #[test]
    fn an_absent_command_or_option_names_its_feature() {
        for (line, feature) in [
            (&["carob", "analyze", "x.pcap"][..], "analyze"),
            (&["carob", "lab", "emulate", "thesis/long"], "emulate"),
            (&["carob", "serve", "--metrics"], "metrics"),
        ] {
            let error = crate::args::command().try_get_matches_from(line);
            let failure = of_error(&error.expect_err("it is absent")).expect("a feature is named");
            assert!(failure.message.contains(feature), "{}", failure.message);
            assert!(failure.hint.is_some_and(|hint| hint.contains(feature)));
        }
        assert!(absent_commands().contains("analyze"));
    }
}
