//! `cargo xtask test`: the steps that pass or fail, timed and summed up.

pub(crate) mod bare_metal;
mod dependencies;

use std::{
    fmt::Write as _,
    fs,
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::{Result, bail};

use crate::{interop, process, tidy, workspace::Workspace};

/// How a step ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Passed,
    /// It ran, and a part of it could not be checked here; the text says which and why.
    PassedExcept(String),
    Failed,
    /// It did not run; the text says what is missing and how to get it.
    Skipped(String),
}

impl Outcome {
    fn of(success: bool) -> Self {
        if success { Self::Passed } else { Self::Failed }
    }
}

struct Step {
    name: &'static str,
    run: fn(&Workspace) -> Result<Outcome>,
}

/// In the order they run: what fails fastest comes first.
const STEPS: &[Step] = &[
    Step {
        name: "fmt",
        run: fmt,
    },
    Step {
        name: "clippy",
        run: clippy,
    },
    Step {
        name: "tidy",
        run: |workspace| tidy::run(workspace).map(Outcome::of),
    },
    Step {
        name: "test",
        run: test,
    },
    Step {
        name: "interop",
        run: interop::check,
    },
    Step {
        name: "doc",
        run: doc,
    },
    Step {
        name: "no-std",
        run: bare_metal::run,
    },
    Step {
        name: "deny",
        run: dependencies::run,
    },
];

/// Interop tests carry this in their path, so that they run once and in a step of their own.
pub(crate) const INTEROP_PREFIX: &str = "interop_";

struct Line {
    name: &'static str,
    outcome: Outcome,
    took: Duration,
}

/// Runs the named steps, or all, prints a summary and says whether nothing failed.
pub(crate) fn run(workspace: &Workspace, names: &[String]) -> Result<bool> {
    let steps = select(names)?;
    let mut lines = Vec::with_capacity(steps.len());
    for step in steps {
        println!("\n== {} ==", step.name);
        let start = Instant::now();
        // A step that cannot even start has failed; the others still get their say.
        let outcome = (step.run)(workspace).unwrap_or_else(|error| {
            println!("error: {error:#}");
            Outcome::Failed
        });
        lines.push(Line {
            name: step.name,
            outcome,
            took: start.elapsed(),
        });
    }
    print!("\n{}", summary(&lines));
    Ok(!lines.iter().any(|line| line.outcome == Outcome::Failed))
}

fn select(names: &[String]) -> Result<Vec<&'static Step>> {
    if names.is_empty() {
        return Ok(STEPS.iter().collect());
    }
    for name in names {
        if !STEPS.iter().any(|step| step.name == name) {
            let known: Vec<_> = STEPS.iter().map(|step| step.name).collect();
            bail!("no step is called `{name}`; there are {}", known.join(", "));
        }
    }
    Ok(STEPS
        .iter()
        .filter(|step| names.iter().any(|name| name == step.name))
        .collect())
}

/// One line a step and the closing count.
fn summary(lines: &[Line]) -> String {
    let mut text = String::new();
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    for line in lines {
        let (word, note) = match &line.outcome {
            Outcome::Passed => {
                passed += 1;
                ("passed", "")
            }
            Outcome::PassedExcept(note) => {
                passed += 1;
                ("passed", note.as_str())
            }
            Outcome::Failed => {
                failed += 1;
                ("FAILED", "")
            }
            Outcome::Skipped(note) => {
                skipped += 1;
                ("skipped", note.as_str())
            }
        };
        let row = format!(
            "{:<8} {word:<8} {:>6.1} s  {note}",
            line.name,
            line.took.as_secs_f64()
        );
        text.push_str(row.trim_end());
        text.push('\n');
    }
    let _ = writeln!(text, "{passed} passed, {failed} failed, {skipped} skipped"); // a String takes every write
    text
}

fn fmt(workspace: &Workspace) -> Result<Outcome> {
    let mut all = process::cargo();
    let mut success = process::succeeds(
        all.args(["fmt", "--all", "--check"])
            .current_dir(&workspace.root),
    )?;
    // `cargo fmt` does not follow `mod` lines that a macro writes.
    let hidden = macro_declared_files(workspace)?;
    if !hidden.is_empty() {
        let mut rest = std::process::Command::new("rustfmt");
        rest.args(["--check", "--edition", "2024"])
            .args(&hidden)
            .current_dir(&workspace.root);
        success &= process::succeeds(&mut rest)?;
    }
    Ok(Outcome::of(success))
}

fn macro_declared_files(workspace: &Workspace) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for (folder, _) in tidy::MACRO_DECLARED {
        let folder = workspace.root.join(folder);
        if !folder.is_dir() {
            continue;
        }
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}

fn clippy(workspace: &Workspace) -> Result<Outcome> {
    let mut command = process::cargo();
    command.args([
        "clippy",
        "--workspace",
        "--all-targets",
        "--",
        "-D",
        "warnings",
    ]);
    process::succeeds(command.current_dir(&workspace.root)).map(Outcome::of)
}

fn test(workspace: &Workspace) -> Result<Outcome> {
    let mut command = process::cargo();
    command.args(["test", "--workspace", "--", "--skip", INTEROP_PREFIX]);
    process::succeeds(command.current_dir(&workspace.root)).map(Outcome::of)
}

fn doc(workspace: &Workspace) -> Result<Outcome> {
    let mut command = process::cargo();
    command.env("RUSTDOCFLAGS", "-D warnings");
    command.args(["doc", "--workspace", "--no-deps"]);
    process::succeeds(command.current_dir(&workspace.root)).map(Outcome::of)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(steps: &[&Step]) -> Vec<&'static str> {
        steps.iter().map(|step| step.name).collect()
    }

    #[test]
    fn no_names_select_every_step() {
        let selected = select(&[]).expect("an empty selection is valid");
        assert_eq!(selected.len(), STEPS.len());
    }

    #[test]
    fn named_steps_run_in_the_fixed_order() {
        let selected = select(&["tidy".to_owned(), "fmt".to_owned()]).expect("both exist");
        assert_eq!(names(&selected), ["fmt", "tidy"]);
    }

    #[test]
    fn an_unknown_step_is_an_error_that_lists_the_known_ones() {
        let Err(error) = select(&["format".to_owned()]) else {
            panic!("`format` is no step")
        };
        assert!(error.to_string().contains("fmt, clippy"), "{error}");
    }

    #[test]
    fn the_summary_counts_every_outcome_and_closes_with_the_plain_line() {
        let second = Duration::from_secs(1);
        let lines = [
            Line {
                name: "fmt",
                outcome: Outcome::Passed,
                took: second,
            },
            Line {
                name: "interop",
                outcome: Outcome::PassedExcept("without x".into()),
                took: second,
            },
            Line {
                name: "test",
                outcome: Outcome::Failed,
                took: second,
            },
            Line {
                name: "deny",
                outcome: Outcome::Skipped("install it".into()),
                took: second,
            },
        ];
        let text = summary(&lines);
        assert!(text.contains("test     FAILED      1.0 s\n"), "{text}");
        assert!(text.contains("skipped     1.0 s  install it\n"), "{text}");
        assert!(
            text.ends_with("\n2 passed, 1 failed, 1 skipped\n"),
            "{text}"
        );
    }
}
