//! Errors in a scenario, with their position.

use std::fmt;

/// Where a setting came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A scenario file.
    File {
        /// Its path or built-in name.
        name: String,
        /// Line, counted from 1.
        line: usize,
        /// Column in characters, counted from 1.
        column: usize,
    },
    /// The command line, as typed.
    CommandLine(String),
    /// The list of algorithms on the command line.
    Algorithms(String),
    /// A program that sets values by the paths of their keys.
    Program(String),
    /// Nowhere: the default of a key, or the scenario as a whole.
    Scenario(String),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { name, line, column } => write!(f, "{name}:{line}:{column}"),
            Self::CommandLine(typed) => write!(f, "--set {typed}"),
            Self::Algorithms(names) => write!(f, "--algorithm {names}"),
            Self::Program(name) | Self::Scenario(name) => f.write_str(name),
        }
    }
}

/// A scenario that cannot be run, the place to mend it, and a hint where there is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioError {
    /// Where it is wrong.
    pub place: Place,
    /// The problem.
    pub problem: Problem,
}

/// A problem of a scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// The file is not TOML.
    Syntax(String),
    /// No such key.
    UnknownKey {
        /// The key as written.
        key: String,
        /// The nearest valid key, if one is near.
        nearest: Option<String>,
    },
    /// A short key that fits several keys.
    AmbiguousKey {
        /// The key as written.
        key: String,
        /// Names that may be meant.
        candidates: Vec<String>,
    },
    /// A value that is not of the key's kind.
    BadValue {
        /// The key.
        key: String,
        /// The value as written.
        value: String,
        /// Values that the key accepts.
        expected: String,
    },
    /// A key without default that was not set.
    MissingKey {
        /// The key.
        key: String,
    },
    /// Values that are each fine but impossible together.
    RunSetupError(String),
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.place)?;
        match &self.problem {
            Problem::Syntax(message) => f.write_str(message),
            Problem::UnknownKey {
                key,
                nearest: Some(nearest),
            } => {
                write!(f, "unknown key \"{key}\"; did you mean \"{nearest}\"?")
            }
            Problem::UnknownKey { key, nearest: None } => write!(f, "unknown key \"{key}\""),
            Problem::AmbiguousKey { key, candidates } => {
                write!(
                    f,
                    "\"{key}\" may be {}; write it out",
                    candidates.join(" or ")
                )
            }
            Problem::BadValue {
                key,
                value,
                expected,
            } => {
                write!(f, "{key} = \"{value}\": expected {expected}")
            }
            Problem::MissingKey { key } => write!(f, "\"{key}\" must be set"),
            Problem::RunSetupError(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for ScenarioError {}

/// Everything that is wrong with a scenario, in the order of its text; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioErrors(Vec<ScenarioError>);

impl ScenarioErrors {
    /// Several errors, each once; nothing if there are none.
    pub(super) fn of(mut all: Vec<ScenarioError>) -> Option<Self> {
        let mut before: Vec<String> = Vec::new();
        all.retain(|error| {
            let text = error.to_string();
            let is_new = !before.contains(&text);
            before.push(text);
            is_new
        });
        let line = |error: &ScenarioError| match &error.place {
            Place::File { line, column, .. } => (*line, *column),
            _ => (usize::MAX, 0),
        };
        all.sort_by_key(line);
        (!all.is_empty()).then_some(Self(all))
    }

    /// Each error.
    pub fn iter(&self) -> impl Iterator<Item = &ScenarioError> {
        self.0.iter()
    }

    /// The first error.
    pub fn first(&self) -> &ScenarioError {
        &self.0[0]
    }
}

impl From<ScenarioError> for ScenarioErrors {
    fn from(error: ScenarioError) -> Self {
        Self(vec![error])
    }
}

impl fmt::Display for ScenarioErrors {
    /// A line each.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (k, error) in self.0.iter().enumerate() {
            if k > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{error}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ScenarioErrors {}
