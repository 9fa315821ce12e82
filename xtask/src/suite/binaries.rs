//! Test binaries, built by one command of cargo and run side by side: most tests wait for timers and sockets.

use std::{
    collections::VecDeque,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::{
        Mutex, PoisonError,
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};

use super::{Tally, watch};

/// Binaries that run at a time.
const SIDE_BY_SIDE: usize = 2;
/// Binaries that take longest, in the order of their start; the others follow in the order of cargo.
const FIRST: [&str; 4] = [
    "carob-cli it",
    "carob it",
    "carob-lab it",
    "carob-studies it",
];

/// An environment variable of the tests.
pub(crate) type Variable<'a> = (&'a str, &'a Path);

/// One test binary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Binary {
    /// Package and target, such as `carob-proto it`.
    name: String,
    /// The folder of its package, where cargo runs it.
    folder: PathBuf,
    program: PathBuf,
}

/// Builds the tests of a `cargo test` command; `None` if that fails.
///
/// # Errors
/// When cargo cannot be started.
pub(crate) fn build(command: &mut Command) -> Result<Option<Vec<Binary>>> {
    command.args(["--no-run", "--message-format", "json-render-diagnostics"]);
    let mut binaries = Vec::new();
    let success = watch::lines(command, |line| {
        if !line.starts_with('{') {
            return Some(line.to_owned());
        }
        binaries.extend(Binary::read(line));
        None
    })?;
    binaries.sort_by_key(Binary::rank);
    Ok(success.then_some(binaries))
}

impl Binary {
    /// Reads one JSON message of cargo; `None` if it is about something else.
    fn read(line: &str) -> Option<Self> {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        if message["profile"]["test"] != true {
            return None;
        }
        let program = PathBuf::from(message["executable"].as_str()?);
        let folder = Path::new(message["manifest_path"].as_str()?).parent()?;
        // `path+file:///folder/crates/proto#carob-proto@0.1.0`, or without the name if the folder has it
        let id = message["package_id"].as_str()?;
        let (place, version) = id.rsplit_once('#')?;
        let package = match version.split_once('@') {
            Some((name, _)) => name,
            None => place.rsplit('/').next()?,
        };
        let target = match message["target"]["kind"][0].as_str()? {
            "lib" => "lib",
            _ => message["target"]["name"].as_str()?,
        };
        Some(Self {
            name: format!("{package} {target}"),
            folder: folder.to_path_buf(),
            program,
        })
    }

    fn rank(&self) -> usize {
        let place = FIRST.iter().position(|name| *name == self.name);
        place.unwrap_or(FIRST.len())
    }

    fn run(&self, arguments: &[&str], variables: &[Variable<'_>]) -> Result<Output> {
        Command::new(&self.program)
            .envs(variables.iter().copied())
            .args(arguments)
            .current_dir(&self.folder)
            .env("CARGO_MANIFEST_DIR", &self.folder)
            .stdin(Stdio::null())
            .output()
            .with_context(|| format!("cannot start {}", self.program.display()))
    }

    fn report(&self, took: Duration, output: &Output, tally: &mut Tally) {
        println!(
            "{}: {:.1} s, {}",
            self.name,
            took.as_secs_f64(),
            output.status
        );
        for stream in [&output.stdout, &output.stderr] {
            for line in String::from_utf8_lossy(stream).lines() {
                if let Some(line) = tally.take(line.trim_end()) {
                    println!("{line}");
                }
            }
        }
    }
}

/// The binary of this name.
///
/// # Errors
/// When there is none.
pub(crate) fn find(binaries: Vec<Binary>, name: &str) -> Result<Binary> {
    let found = binaries.into_iter().find(|binary| binary.name == name);
    found.with_context(|| format!("no test binary `{name}`"))
}

/// Runs the binaries, a few at a time. The output of each is printed when it ends. Returns true if none failed.
///
/// # Errors
/// When one cannot be started.
pub(crate) fn run(
    binaries: Vec<Binary>,
    arguments: &[&str],
    variables: &[Variable<'_>],
) -> Result<(bool, Tally)> {
    let begin = Instant::now();
    let mut left = binaries.len();
    let queue = Mutex::new(VecDeque::from(binaries));
    let next = || {
        let mut queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.pop_front()
    };
    let (sender, receiver) = mpsc::channel();
    let (mut success, mut tally) = (true, Tally::default());
    thread::scope(|scope| {
        for _ in 0..SIDE_BY_SIDE {
            let (sender, next) = (sender.clone(), &next);
            scope.spawn(move || {
                while let Some(binary) = next() {
                    let begin = Instant::now();
                    let output = binary.run(arguments, variables);
                    if sender.send((binary, begin.elapsed(), output)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        loop {
            match receiver.recv_timeout(watch::SILENCE) {
                Ok((binary, took, output)) => {
                    let output = output?;
                    left -= 1;
                    success &= output.status.success();
                    binary.report(took, &output, &mut tally);
                }
                Err(RecvTimeoutError::Timeout) => {
                    let seconds = begin.elapsed().as_secs();
                    println!("  ... {seconds} s: {left} test binaries left");
                }
                Err(RecvTimeoutError::Disconnected) => return Ok((success, tally)),
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(test: bool, id: &str, kind: &str) -> String {
        serde_json::json!({
            "reason": "compiler-artifact",
            "package_id": id,
            "manifest_path": "/w/crates/proto/Cargo.toml",
            "target": {"kind": [kind], "name": "it"},
            "profile": {"test": test},
            "executable": "/w/target/debug/deps/it-1",
        })
        .to_string()
    }

    #[test]
    fn test_binaries_are_found_among_the_messages_of_cargo() {
        let it = Binary::read(&message(
            true,
            "path+file:///w/crates/proto#carob-proto@0.1.0",
            "test",
        ));
        let it = it.expect("a test binary");
        assert_eq!(it.name, "carob-proto it");
        assert_eq!(it.folder, Path::new("/w/crates/proto"));
        let library = Binary::read(&message(true, "path+file:///w/crates/carob#0.1.0", "lib"));
        assert_eq!(library.expect("a test binary").name, "carob lib");
        assert_eq!(
            Binary::read(&message(false, "path+file:///w/x#0.1.0", "bin")),
            None
        );
        assert_eq!(
            Binary::read("{\"reason\":\"build-finished\",\"success\":true}"),
            None
        );
    }

    #[test]
    fn outputs_of_binaries_side_by_side_are_counted_together() {
        let binary = |name: &str, program: &str| Binary {
            name: name.to_owned(),
            folder: PathBuf::from("/"),
            program: PathBuf::from(program),
        };
        let binaries = vec![binary("a it", "/bin/sh"); 5];
        let (success, tally) =
            run(binaries, &["-c", "echo 'test a::b ... ok'"], &[]).expect("a shell");
        assert!(success);
        assert_eq!(tally.passed(), 5);
        let fails = "echo 'test a::b ... FAILED'; exit 101";
        let (success, tally) =
            run(vec![binary("a it", "/bin/sh")], &["-c", fails], &[]).expect("a shell");
        assert!(!success);
        assert_eq!(tally.failed, ["a::b"]);
        assert!(run(vec![binary("a it", "/nowhere/at/all")], &[], &[]).is_err());
    }
}
