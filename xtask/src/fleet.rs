//! Fleets of simulated endpoints, each drawn from its seed, with the assertions of the engine.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};

use crate::{
    process,
    suite::{self, Outcome},
    workspace::Workspace,
};

/// The time in which runs begin, in seconds.
const SECONDS: u64 = 60;
/// First seeds are below this: short enough to be typed.
const SEEDS: u64 = 1_000_000_000;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Options {
    /// The seed to repeat.
    seed: Option<u64>,
    /// The time in which runs begin; 0 for no end.
    seconds: u64,
}

impl Options {
    fn read(words: &[String]) -> Result<Self> {
        let mut options = Self {
            seed: None,
            seconds: SECONDS,
        };
        for pair in words.chunks(2) {
            let value = pair.get(1).and_then(|value| value.parse().ok());
            let value = || value.with_context(|| format!("{} needs a number", pair[0]));
            match pair[0].as_str() {
                "--seed" => options.seed = Some(value()?),
                "--seconds" => options.seconds = value()?,
                unknown => bail!("unknown option {unknown}; there are --seed N and --seconds N"),
            }
        }
        Ok(options)
    }

    /// Arguments of the simulation: one seed, or all from a random one.
    fn arguments(&self, random: u64) -> Vec<String> {
        let mut words = vec!["--drawn".to_owned(), "--seeds".to_owned()];
        if let Some(seed) = self.seed {
            words.push(seed.to_string());
        } else {
            words.push(format!("{}-", random % SEEDS));
            if self.seconds > 0 {
                words.extend(["--seconds".to_owned(), self.seconds.to_string()]);
            }
        }
        words
    }
}

/// A number that differs from run to run.
fn random() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_micros() as u64)
}

/// `cargo xtask fleet`. Returns true if no run broke an invariant.
pub(crate) fn run(workspace: &Workspace, words: &[String]) -> Result<bool> {
    let arguments = Options::read(words)?.arguments(random());
    println!("fleet: {}", arguments.join(" "));
    let mut command = process::cargo();
    command.args([
        "run",
        "--quiet",
        "--package",
        "carob-sim",
        "--example",
        "fleet",
        "--",
    ]);
    process::succeeds(command.args(arguments).current_dir(&workspace.root))
}

/// The step of every change, with the builds of its tests.
pub(crate) fn check(workspace: &Workspace) -> Result<Outcome> {
    if !suite::build_example(workspace, "fleet")? {
        return Ok(Outcome::Failed);
    }
    let program = workspace.target()?.join("debug/examples/fleet");
    let arguments = Options::read(&[])?.arguments(random());
    println!("fleet: {}", arguments.join(" "));
    process::succeeds(std::process::Command::new(program).args(arguments)).map(Outcome::of)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Vec<String>> {
        let words: Vec<_> = line.split_whitespace().map(str::to_owned).collect();
        Ok(Options::read(&words)?.arguments(SEEDS + 7))
    }

    #[test]
    fn without_a_seed_fleets_start_from_a_random_one() {
        let words = read("").expect("valid");
        assert_eq!(words, ["--drawn", "--seeds", "7-", "--seconds", "60"]);
        let endless = read("--seconds 0").expect("valid");
        assert_eq!(endless, ["--drawn", "--seeds", "7-"]);
    }

    #[test]
    fn a_given_seed_is_repeated_alone() {
        let words = read("--seed 5 --seconds 9").expect("valid");
        assert_eq!(words, ["--drawn", "--seeds", "5"]);
        for bad in ["--seed", "--seed x", "--seeds 5"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
