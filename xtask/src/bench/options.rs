//! Options of a benchmark: each a name and a value, `--rounds 5`.

use std::{fmt::Display, str::FromStr};

use anyhow::{Context, Result, bail};

/// An option as it was given.
#[derive(Clone, Copy)]
pub(super) struct Argument<'a> {
    pub(super) name: &'a str,
    pub(super) value: &'a str,
}

impl Argument<'_> {
    /// Its value as a number.
    pub(super) fn number<T>(self) -> Result<T>
    where
        T: FromStr,
        T::Err: Display + std::error::Error + Send + Sync + 'static,
    {
        let Self { name, value } = self;
        value
            .parse()
            .with_context(|| format!("`{name} {value}`: not a number of the kind wanted"))
    }
}

/// Passes each option to `set`, which returns true if it knows it. Returns false if help was requested.
pub(super) fn read(
    benchmark: &str,
    arguments: &[String],
    mut set: impl FnMut(Argument<'_>) -> Result<bool>,
) -> Result<bool> {
    let mut rest = arguments.iter();
    while let Some(name) = rest.next() {
        if name == "--help" || name == "-h" {
            return Ok(false);
        }
        let value = rest
            .next()
            .with_context(|| format!("`{name}` needs a value"))?;
        if !set(Argument { name, value })? {
            bail!("unknown option `{name}`; `cargo xtask bench {benchmark} --help` lists them");
        }
    }
    Ok(true)
}
