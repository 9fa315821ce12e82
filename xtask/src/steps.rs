//! `cargo xtask test`: the steps that pass or fail, timed and summed up.

pub(crate) mod bare_metal;
mod features;
mod python;
pub(crate) mod site;

use std::{
    fmt::Write as _,
    fs,
    path::PathBuf,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Result, bail};

use crate::{
    fleet, interop, process,
    suite::{self, INTEROP_PREFIX, Outcome, TESTS, Tally, binaries, build_tests, watch},
    tidy,
    workspace::Workspace,
};

/// Frequency of a step. CONTRIBUTING.md lists the guards of each tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tier {
    /// With every change: `cargo xtask test`.
    Change,
    /// Once a night: `cargo xtask test --all`.
    Night,
}

struct Step {
    name: &'static str,
    about: &'static str,
    tier: Tier,
    run: Run,
}

/// In the order they run: a step uses the builds of earlier ones.
const STEPS: &[Step] = &[
    step("fmt", Tier::Change, "formatting", |workspace, _| {
        fmt(workspace)
    }),
    step(
        "default",
        Tier::Change,
        "the default build of the command: its first answer, and what it lacks",
        |workspace, _| features::default_build(workspace),
    ),
    step(
        "test",
        Tier::Change,
        "the tests of every change, those with other implementations apart",
        test,
    ),
    step(
        "fleet",
        Tier::Change,
        "simulated endpoints with faults, from a random seed, for a minute",
        |workspace, _| fleet::check(workspace),
    ),
    step(
        "tidy",
        Tier::Change,
        "layering, links, stale documents, requirements",
        |workspace, _| tidy::run(workspace, &[]).map(Outcome::of),
    ),
    step(
        "interop",
        Tier::Change,
        "tests with libcoap, aiocoap, Californium and go-coap",
        interop::check,
    ),
    step(
        "clippy",
        Tier::Change,
        "lints of all targets",
        |workspace, _| clippy(workspace),
    ),
    step(
        "doc",
        Tier::Change,
        "documentation without warnings",
        |workspace, _| doc(workspace),
    ),
    step(
        "nightly",
        Tier::Night,
        "tests that take too long for every change",
        nightly_tests,
    ),
    step(
        "figures",
        Tier::Night,
        "stale documents, figures of runs among them",
        |workspace, _| tidy::run(workspace, &["generated-documents".to_owned()]).map(Outcome::of),
    ),
    step(
        "features",
        Tier::Night,
        "library, simulator and command with default features, none, and each alone",
        |workspace, _| features::run(workspace),
    ),
    step(
        "book",
        Tier::Night,
        "the documentation's site: built, links followed, pages opened",
        |workspace, _| site::book(workspace),
    ),
    step(
        "no-std",
        Tier::Night,
        "a build for a bare Cortex-M4",
        |workspace, _| bare_metal::run(workspace),
    ),
    step(
        "web",
        Tier::Night,
        "the lab's page: built, the same numbers in Chromium, no defects",
        |workspace, _| site::test_page(workspace),
    ),
    step(
        "python",
        Tier::Night,
        "the Python package: its wheel installed and tested",
        |workspace, _| python::test(workspace),
    ),
    step(
        "wheels",
        Tier::Night,
        "wheels for glibc 2.17 and musl",
        |workspace, _| python::wheels(workspace),
    ),
    step(
        "deny",
        Tier::Night,
        "licences, sources and advisories of dependencies",
        |workspace, _| deny(workspace),
    ),
];

type Run = fn(&Workspace, &mut Tally) -> Result<Outcome>;

const fn step(name: &'static str, tier: Tier, about: &'static str, run: Run) -> Step {
    Step {
        name,
        about,
        tier,
        run,
    }
}

/// Tests that take too long for every change, and guard nothing that others do not, carry this in their path.
const NIGHTLY_PREFIX: &str = "nightly_";
/// Tests that run side by side in a binary. Many wait for timers of the protocol, so they are more than the cores of a
/// small machine.
const THREADS: [&str; 2] = ["--test-threads", "4"];
/// Names of failed tests, and reasons of skipped ones, in the summary.
const LISTED_MAX: usize = 5;

struct Line {
    name: &'static str,
    outcome: Outcome,
    took: Duration,
    /// Processor time of its children.
    cpu_seconds: f64,
}

/// Runs the steps of every change, with `--all` the nightly steps too, or the named ones; prints a summary. Returns
/// true if nothing failed.
pub(crate) fn run(workspace: &Workspace, names: &[String]) -> Result<bool> {
    let steps = select(names)?;
    let mut lines = Vec::with_capacity(steps.len());
    let mut tally = Tally::default();
    let begin = Instant::now();
    for (index, step) in steps.iter().enumerate() {
        println!(
            "\n== step {} of {}: {} ({}), after {} s ==",
            index + 1,
            steps.len(),
            step.name,
            step.about,
            begin.elapsed().as_secs()
        );
        let start = Instant::now();
        let cpu = process::cpu_seconds_of_children()?;
        // A step that cannot start fails; the others still run.
        let outcome = (step.run)(workspace, &mut tally).unwrap_or_else(|error| {
            println!("error: {error:#}");
            Outcome::Failed
        });
        lines.push(Line {
            name: step.name,
            outcome,
            took: start.elapsed(),
            cpu_seconds: process::cpu_seconds_of_children()? - cpu,
        });
    }
    print!("\n{}", summary(&lines, &tally, begin.elapsed()));
    Ok(!lines.iter().any(|line| line.outcome == Outcome::Failed))
}

fn select(names: &[String]) -> Result<Vec<&'static Step>> {
    if matches!(names, [only] if only == "--all") {
        return Ok(STEPS.iter().collect());
    }
    if names.is_empty() {
        let of_changes = STEPS.iter().filter(|step| step.tier == Tier::Change);
        return Ok(of_changes.collect());
    }
    for name in names {
        if !STEPS.iter().any(|step| step.name == name) {
            let known: Vec<_> = STEPS.iter().map(|step| step.name).collect();
            bail!(
                "no step is called `{name}`; there are {}, and --all",
                known.join(", ")
            );
        }
    }
    Ok(STEPS
        .iter()
        .filter(|step| names.iter().any(|name| name == step.name))
        .collect())
}

/// A line a step, failed and skipped tests, and the closing counts: at most 32 lines.
fn summary(lines: &[Line], tally: &Tally, took: Duration) -> String {
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
            "{:<8} {word:<8} {:>6.1} s, {:>6.1} s of CPU time  {note}",
            line.name,
            line.took.as_secs_f64(),
            line.cpu_seconds
        );
        text.push_str(row.trim_end());
        text.push('\n');
    }
    let failures = tally.failed.iter().map(|name| format!("FAILED   {name}"));
    list(&mut text, failures);
    let skips = tally.skipped.iter();
    list(
        &mut text,
        skips.map(|(reason, count)| format!("skipped  {count} tests: {reason}")),
    );
    // A String takes every write.
    let _ = writeln!(
        text,
        "{passed} of {} steps passed, {failed} failed, {skipped} skipped, in {} s",
        lines.len(),
        took.as_secs()
    );
    if *tally != Tally::default() {
        let _ = writeln!(
            text,
            "tests: {} passed, {} failed, {} skipped",
            tally.passed(),
            tally.failed.len(),
            tally.skips()
        );
    }
    text
}

/// Adds the first lines of a list, and the number of the others.
fn list(text: &mut String, lines: impl ExactSizeIterator<Item = String>) {
    let others = lines.len().saturating_sub(LISTED_MAX);
    for line in lines.take(LISTED_MAX) {
        text.push_str(&line);
        text.push('\n');
    }
    if others > 0 {
        let _ = writeln!(text, "... and {others} more"); // a String takes every write
    }
}

fn fmt(workspace: &Workspace) -> Result<Outcome> {
    let mut all = process::cargo();
    let mut success = watch::succeeds(
        all.args(["fmt", "--all", "--check"])
            .current_dir(&workspace.root),
    )?;
    // `cargo fmt` does not follow `mod` lines that a macro writes.
    let hidden = macro_declared_files(workspace)?;
    if !hidden.is_empty() {
        let mut rest = Command::new("rustfmt");
        rest.args(["--check", "--edition", "2024"])
            .args(&hidden)
            .current_dir(&workspace.root);
        success &= watch::succeeds(&mut rest)?;
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
            let mut path = entry?.path();
            if path.is_dir() {
                path.push("mod.rs");
            }
            if path.extension().is_some_and(|extension| extension == "rs") && path.is_file() {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}

fn clippy(workspace: &Workspace) -> Result<Outcome> {
    let mut command = process::cargo();
    command.args(["clippy", "--workspace", "--all-targets"]);
    command.args(["--features", "carob-cli/full", "--", "-D", "warnings"]);
    watch::succeeds(command.current_dir(&workspace.root)).map(Outcome::of)
}

fn test(workspace: &Workspace, tally: &mut Tally) -> Result<Outcome> {
    let Some(binaries) = build_tests(workspace)? else {
        return Ok(Outcome::Failed);
    };
    let skip = ["--skip", INTEROP_PREFIX, "--skip", NIGHTLY_PREFIX];
    let (success, tests) = binaries::run(binaries, &[&THREADS[..], &skip].concat(), &[])?;
    tally.add(tests);
    let mut documentation = process::cargo();
    documentation.args(TESTS).args(["--doc", "--no-fail-fast"]);
    let (documented, tests) = suite::run(documentation.current_dir(&workspace.root))?;
    tally.add(tests);
    Ok(Outcome::of(success && documented))
}

fn nightly_tests(workspace: &Workspace, tally: &mut Tally) -> Result<Outcome> {
    let Some(binaries) = build_tests(workspace)? else {
        return Ok(Outcome::Failed);
    };
    let (success, tests) =
        binaries::run(binaries, &[&THREADS[..], &[NIGHTLY_PREFIX]].concat(), &[])?;
    tally.add(tests);
    Ok(Outcome::of(success))
}

/// Runs cargo-deny (`deny.toml`). Its database of advisories may be unreachable.
fn deny(workspace: &Workspace) -> Result<Outcome> {
    let cargo = |words: &[&str]| {
        let mut command = process::cargo();
        command.arg("deny").args(words).current_dir(&workspace.root);
        command.stdin(Stdio::null());
        command
    };
    let version = cargo(&["--version"]).output();
    if !version.is_ok_and(|output| output.status.success()) {
        let note = "cargo-deny is not installed (cargo install cargo-deny --locked)";
        return Ok(Outcome::Skipped(note.to_owned()));
    }
    let local = [
        "check",
        "--hide-inclusion-graph",
        "licenses",
        "bans",
        "sources",
    ];
    if !watch::succeeds(&mut cargo(&local))? {
        return Ok(Outcome::Failed);
    }
    let output = cargo(&["check", "advisories"]).output()?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    if output.status.success() {
        return Ok(Outcome::Passed);
    }
    if complaint.contains("failed to fetch advisory database") {
        let note = "advisories unchecked: their database is not reachable";
        return Ok(Outcome::PassedExcept(note.to_owned()));
    }
    println!("{complaint}");
    Ok(Outcome::Failed)
}

fn doc(workspace: &Workspace) -> Result<Outcome> {
    let mut command = process::cargo();
    command.env("RUSTDOCFLAGS", "-D warnings");
    command.args(["doc", "--workspace", "--no-deps"]);
    watch::succeeds(command.current_dir(&workspace.root)).map(Outcome::of)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(steps: &[&Step]) -> Vec<&'static str> {
        steps.iter().map(|step| step.name).collect()
    }

    #[test]
    fn no_names_select_the_steps_of_every_change() {
        let selected = select(&[]).expect("an empty selection is valid");
        assert!(names(&selected).contains(&"interop") && !names(&selected).contains(&"web"));
        let all = select(&["--all".to_owned()]).expect("all steps");
        assert_eq!(all.len(), STEPS.len());
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
        assert!(error.to_string().contains("fmt, default"), "{error}");
    }

    fn line(name: &'static str, outcome: Outcome) -> Line {
        Line {
            name,
            outcome,
            took: Duration::from_secs(1),
            cpu_seconds: 1.5,
        }
    }

    #[test]
    fn summary_counts_outcomes_and_ends_with_plain_line() {
        let lines = [
            line("fmt", Outcome::Passed),
            line("interop", Outcome::PassedExcept("without x".into())),
            line("test", Outcome::Failed),
            line("deny", Outcome::Skipped("install it".into())),
        ];
        let mut tally = Tally::default();
        tally.failed.push("a::b".into());
        let text = summary(&lines, &tally, Duration::from_secs(4));
        assert!(
            text.contains("test     FAILED      1.0 s,    1.5 s of CPU time\n"),
            "{text}"
        );
        assert!(text.contains("1.5 s of CPU time  install it\n"), "{text}");
        assert!(text.contains("FAILED   a::b\n"), "{text}");
        let steps = "2 of 4 steps passed, 1 failed, 1 skipped, in 4 s\n";
        assert!(text.contains(steps), "{text}");
        let end = "\ntests: 0 passed, 1 failed, 0 skipped\n";
        assert!(text.ends_with(end), "{text}");
    }

    #[test]
    fn the_summary_has_at_most_32_lines() {
        let lines: Vec<_> = STEPS
            .iter()
            .map(|step| line(step.name, Outcome::Failed))
            .collect();
        let mut tally = Tally::default();
        for index in 0..100 {
            tally.failed.push(format!("test {index}"));
            tally.skipped.insert(format!("reason {index}"), 1);
        }
        let text = summary(&lines, &tally, Duration::ZERO);
        assert!(text.lines().count() <= 32, "{text}");
        assert!(text.contains("... and 95 more"), "{text}");
    }
}
