//! Runs that take too long for every day (`xtask/long.toml`), and their options and metrics.

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader, Read as _, Write as _},
    net::TcpStream,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
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

/// Values of options by their names and defaults; all are at least 1.
pub(crate) fn numbers<const N: usize>(
    words: &[String],
    known: [(&str, u64); N],
) -> Result<[u64; N]> {
    let mut values = known.map(|(_, default)| default);
    for pair in words.chunks(2) {
        let Some(place) = known.iter().position(|(name, _)| *name == pair[0]) else {
            let names = known.map(|(name, _)| format!("{name} N"));
            bail!("unknown option {}; there are {}", pair[0], names.join(", "));
        };
        let value = pair.get(1).and_then(|value| value.parse().ok());
        let value = value.filter(|value| *value > 0);
        values[place] = value.with_context(|| format!("{} needs a number above 0", pair[0]))?;
    }
    Ok(values)
}

/// Timeout of a scrape.
const PATIENCE: Duration = Duration::from_secs(10);

/// Metrics as a server prints them: name with labels, and value.
#[derive(Clone, Debug, Default)]
pub(crate) struct Metrics(Vec<(String, f64)>);

impl Metrics {
    /// Scrapes the server at this port of loopback.
    pub(crate) fn read(port: u16) -> Result<Self> {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n")?;
        let mut text = String::new();
        stream
            .read_to_string(&mut text)
            .context("the server's metrics did not come")?;
        Ok(Self::parse(&text))
    }

    pub(crate) fn parse(text: &str) -> Self {
        let of_carob = text.lines().filter(|line| line.starts_with("carob_"));
        let metrics = of_carob.filter_map(|line| {
            let (key, value) = line.rsplit_once(' ')?;
            Some((key.to_owned(), value.parse().ok()?))
        });
        Self(metrics.collect())
    }

    /// All values of a metric whose labels have all of `labels`, together.
    pub(crate) fn sum(&self, name: &str, labels: &[&str]) -> f64 {
        let of = self.0.iter().filter(|(key, _)| {
            let (of, rest) = key.split_once('{').unwrap_or((key, ""));
            of == name && labels.iter().all(|label| rest.contains(label))
        });
        of.map(|(_, value)| value).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_run_has_work_and_a_place_for_its_results() {
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

    #[test]
    fn options_are_numbers_above_0() {
        let read = |line: &str| {
            let words: Vec<_> = line.split_whitespace().map(str::to_owned).collect();
            numbers(&words, [("--seeds", 200), ("--first", 1)])
        };
        assert_eq!(read("--first 9").expect("valid"), [200, 9]);
        for bad in ["--seeds", "--seeds 0", "--first x", "--count 3"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn metrics_are_read_as_they_are_written() {
        let text = "HTTP/1.1 200 OK\r\n\r\n# TYPE carob_exchanges_total counter\n\
            carob_exchanges_total{scheme=\"coap\",kind=\"request\",outcome=\"answered\"} 5\n\
            carob_exchanges_total{scheme=\"coap\",kind=\"notification\",outcome=\"answered\"} 7\n\
            carob_handlers{scheme=\"coap\"} 2\n";
        let metrics = Metrics::parse(text);
        let exchanges = |labels: &[&str]| metrics.sum("carob_exchanges_total", labels) as u64;
        assert_eq!(exchanges(&[]), 12);
        assert_eq!(exchanges(&["kind=\"notification\""]), 7);
        assert_eq!(metrics.sum("carob_handlers", &[]) as u64, 2);
    }
}
