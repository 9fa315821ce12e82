//! Runs that take too long for every day, by name.

use std::process::Command;

use anyhow::{Result, bail};

use crate::{process, workspace::Workspace};

/// One long run: a name, what it shows, and the command that does it.
struct Long {
    name: &'static str,
    about: &'static str,
    command: &'static [&'static str],
}

const RUNS: &[Long] = &[];

/// Runs the named long run, or lists what there is.
pub(crate) fn run(workspace: &Workspace, arguments: &[String]) -> Result<bool> {
    match arguments {
        [] => {
            if RUNS.is_empty() {
                println!("no long runs are registered (xtask/src/long.rs)");
            }
            for run in RUNS {
                println!("{:<20}  {}", run.name, run.about);
            }
            Ok(true)
        }
        [name] => match RUNS.iter().find(|run| run.name == name) {
            Some(run) => {
                let mut command = Command::new(run.command[0]);
                process::succeeds(command.args(&run.command[1..]).current_dir(&workspace.root))
            }
            None => bail!(
                "no long run is called `{name}`; `cargo xtask long` lists {}",
                RUNS.len()
            ),
        },
        _ => bail!("`long` takes at most one name"),
    }
}
