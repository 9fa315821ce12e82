//! A soak: a real `carob serve` over loopback under confirmable requests at full rate, with 1,000 observers
//! of what changes all the time, while 1 % of all datagrams are lost in each direction. What must hold is
//! judged line by line (`verdict.rs`).
//!
//! The load is `crates/carob/examples/soak`, which loses the datagrams and says how.

mod report;
mod sample;
mod verdict;

use std::{
    fs,
    io::{BufRead as _, BufReader},
    net::{TcpListener, UdpSocket},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::{
    carob,
    process::{self, Server},
    workspace::Workspace,
};

use sample::Sample;

/// Observers of a resource that changes [`POSTS`] times a second.
const OBSERVERS: u32 = 1_000;
const POSTS: u32 = 20;
/// Loss of datagrams, in each direction.
const LOSS: f64 = 0.01;
/// Tables have so long to become empty when the load has ended: EXCHANGE_LIFETIME (RFC 7252 4.8.2), and
/// more.
const EMPTYING: Duration = Duration::from_secs(300);
const LOOK: Duration = Duration::from_secs(5);

/// Options of the command.
struct Options {
    minutes: u64,
    seed: u64,
}

impl Options {
    fn read(words: &[String]) -> Result<Self> {
        let mut options = Self {
            minutes: 30,
            seed: 1,
        };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let value = words.next().and_then(|value| value.parse().ok());
            match (word.as_str(), value) {
                ("--minutes", Some(value)) if value > 0 => options.minutes = value,
                ("--seed", Some(value)) => options.seed = value,
                ("--minutes" | "--seed", _) => bail!("{word} needs a whole number"),
                _ => {
                    bail!("`long soak` has no option {word}; it has --minutes N and --seed N")
                }
            }
        }
        Ok(options)
    }
}

/// All that a soak has shown.
struct Soak {
    minutes: u64,
    seed: u64,
    samples: Vec<Sample>,
    /// The load's own last words.
    last: Value,
    /// The server when its tables were empty, or had had the time to.
    after: Sample,
    emptying: Duration,
}

/// The load, which is killed if it is not waited for.
struct Load(Child);

impl Drop for Load {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs it and writes what it shows.
pub(crate) fn run(workspace: &Workspace, results: &Path, words: &[String]) -> Result<bool> {
    let options = Options::read(words)?;
    carob::build(workspace)?;
    let mut build = process::cargo();
    build.args(["build", "--release", "--quiet", "--package", "carob"]);
    build.args(["--example", "soak"]);
    process::must(build.current_dir(&workspace.root))?;
    // Copies, so that no build replaces them meanwhile.
    let folder = std::env::temp_dir().join(format!("carob-soak-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let release = workspace.target()?.join("release");
    let program = copy(&release.join("carob"), &folder)?;
    let load = copy(&release.join("examples/soak"), &folder)?;
    let soak = soak(&program, &load, &options);
    fs::remove_dir_all(&folder)?;
    let soak = soak?;
    let checks = verdict::judge(&soak);
    let text = report::write(&soak, &checks)?;
    print!("{text}");
    fs::write(results, &text).with_context(|| format!("cannot write {}", results.display()))?;
    Ok(checks.iter().all(|check| check.holds))
}

fn copy(program: &Path, folder: &Path) -> Result<PathBuf> {
    let name = program.file_name().context("a program has a name")?;
    let to = folder.join(name);
    fs::copy(program, &to).with_context(|| format!("cannot copy {}", program.display()))?;
    Ok(to)
}

fn soak(program: &Path, load: &Path, options: &Options) -> Result<Soak> {
    let port = UdpSocket::bind("127.0.0.1:0")?.local_addr()?.port();
    let metrics = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let mut serve = Command::new(program);
    serve
        .args(["serve", "--bind", &format!("127.0.0.1:{port}")])
        .args(["--metrics", &format!("127.0.0.1:{metrics}")]);
    let mut server = Server::start("carob serve", &mut serve)?;
    server.wait_for_answer(port, &[0x40, 0, 0, 1])?;
    let mut command = Command::new(load);
    command
        .args(["--server", &format!("127.0.0.1:{port}")])
        .args(["--seconds", &(options.minutes * 60).to_string()])
        .args(["--observers", &OBSERVERS.to_string()])
        .args(["--posts", &POSTS.to_string()])
        .args(["--loss", &LOSS.to_string()])
        .args(["--seed", &options.seed.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    let mut load = Load(command.spawn().context("cannot start the load")?);
    let output = load.0.stdout.take().context("it has an output")?;
    let (mut samples, mut last) = (Vec::new(), Value::Null);
    for line in BufReader::new(output).lines() {
        let line = line?;
        let told: Value = serde_json::from_str(&line)
            .with_context(|| format!("the load printed something else than JSON: {line}"))?;
        let sample = Sample::take(server.id(), metrics, &told)?;
        println!("{}", sample.line());
        samples.push(sample);
        if told["over"] == true {
            last = told;
        }
    }
    ensure!(load.0.wait()?.success(), "the load failed");
    ensure!(!last.is_null(), "the load ended without its last words");
    let began = Instant::now();
    let after = loop {
        let sample = Sample::take(server.id(), metrics, &last)?;
        if sample.is_empty() || began.elapsed() > EMPTYING {
            break sample;
        }
        thread::sleep(LOOK);
    };
    Ok(Soak {
        minutes: options.minutes,
        seed: options.seed,
        samples,
        last,
        after,
        emptying: began.elapsed(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minutes_and_a_seed_may_be_given_and_nothing_else() {
        let read = |words: &str| {
            let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
            Options::read(&words)
        };
        let options = read("--minutes 1 --seed 7").expect("both are known");
        assert_eq!((options.minutes, options.seed), (1, 7));
        assert_eq!(read("").expect("none is needed").minutes, 30);
        for wrong in ["--minutes", "--minutes 0", "--seed x", "--hours 1", "1"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
