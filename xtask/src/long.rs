//! Runs that take too long for every day (`xtask/long.toml`).

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader, Write as _},
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use crate::{attacks, carob, defences, process, soak, workspace::Workspace};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Long {
    about: String,
    /// Path from the root.
    results: String,
    cargo: Option<String>,
    #[serde(default)]
    work: String,
}

fn runs() -> Result<BTreeMap<String, Long>> {
    toml::from_str(include_str!("../long.toml")).context("xtask/long.toml")
}

/// Runs the named long run, or lists all.
pub(crate) fn run(workspace: &Workspace, arguments: &[String]) -> Result<bool> {
    let runs = runs()?;
    let Some((name, options)) = arguments.split_first() else {
        for (name, run) in runs {
            println!("{name:<26}{}; results: {}", run.about, run.results);
        }
        return Ok(true);
    };
    let Some(run) = runs.get(name) else {
        bail!("no long run is called `{name}`; `cargo xtask long` lists them");
    };
    let results = workspace.root.join(&run.results);
    let mut command = process::cargo();
    match (&run.cargo, run.work.as_str()) {
        (Some(line), _) => command.args(line.split(' ')),
        (None, "sweep") => {
            command
                .args(["run", "--release", "--quiet"])
                .args(carob::FULL);
            command.args(["--", "lab", "sweep", &run.results.replace(".md", ".toml")])
        }
        (None, "evidence" | "fuzz") => {
            let mut python = Command::new("python3");
            python.arg(format!("tools/{}.py", run.work));
            if run.work == "evidence" {
                python.args([name, "--run"]);
            }
            return process::succeeds(python.args(options).current_dir(&workspace.root));
        }
        _ => return function(name)?(workspace, &results, options),
    };
    ensure!(options.is_empty(), "`long {name}` takes no options");
    recorded(command.current_dir(&workspace.root), &results)
}

type Function = fn(&Workspace, &Path, &[String]) -> Result<bool>;

fn function(name: &str) -> Result<Function> {
    Ok(match name {
        "defences" => defences::run,
        "flood" => attacks::flood,
        "handshakes" => attacks::handshakes,
        "memory" => attacks::memory,
        "soak" => soak::run,
        _ => bail!("{name} has no work"),
    })
}

/// Runs a command; each line that it prints goes to the terminal and into `results` at once, so that an interrupted
/// run leaves its results.
fn recorded(command: &mut Command, results: &Path) -> Result<bool> {
    let mut file =
        fs::File::create(results).with_context(|| format!("cannot write {}", results.display()))?;
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().context("cannot start the run")?;
    for line in BufReader::new(child.stdout.take().context("piped")?).lines() {
        let line = line?;
        println!("{line}");
        writeln!(file, "{line}")?;
    }
    Ok(child.wait()?.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_long_run_has_work_and_a_results_path() {
        let workspace = Workspace::find().expect("the workspace");
        for (name, run) in runs().expect("a valid table") {
            let folder = workspace.root.join(&run.results);
            assert!(folder.parent().is_some_and(Path::is_dir), "{name}");
            let by_name = ["sweep", "evidence", "fuzz"].contains(&run.work.as_str());
            assert!(
                run.cargo.is_some() || by_name || function(&name).is_ok(),
                "{name}"
            );
        }
    }
}
