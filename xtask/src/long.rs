//! Runs that take too long for every day, by name.

use std::{
    fs,
    io::{BufRead, BufReader, Write as _},
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail};

use crate::{
    defences, flood, fuzz, handshakes, links, memory, properties, radio_validation,
    recommendations, situations, soak, stress, workspace::Workspace,
};

/// One long run: a name, what it shows, what does it, and where its results are kept.
struct Long {
    name: &'static str,
    about: &'static str,
    work: Work,
    /// From the root.
    results: &'static str,
}

enum Work {
    /// A command whose output is written to the results as it comes.
    Command(&'static [&'static str]),
    /// A function that writes the results itself.
    Function(fn(&Workspace, &Path) -> Result<bool>),
    /// Likewise, and it takes options.
    WithOptions(fn(&Workspace, &Path, &[String]) -> Result<bool>),
}

/// The command that runs a sweep file.
const fn sweep(file: &'static str) -> [&'static str; 12] {
    [
        "cargo",
        "run",
        "--release",
        "--quiet",
        "--package",
        "carob-cli",
        "--features",
        "full",
        "--",
        "lab",
        "sweep",
        file,
    ]
}

const RUNS: &[Long] = &[
    AGGREGATE_SENSITIVITY,
    ALL_CONTROLLERS,
    CAPTURE_PREDICTIONS,
    CONTRACT,
    CROWD_SENSITIVITY,
    DEFENCES,
    FAIRNESS_SENSITIVITY,
    FLEET,
    FLOOD,
    FUZZ,
    HANDSHAKES,
    IOTLAB_SENSITIVITY,
    LINKS,
    LITERATURE_SENSITIVITY,
    MEMORY,
    MESH_SENSITIVITY,
    NOTIFICATION_SENSITIVITY,
    PROFILES,
    PROFILE_COSTS,
    PROPERTIES,
    RADIO_VALIDATION,
    RECOMMENDATIONS,
    RPL_SENSITIVITY,
    SERVER_SENSITIVITY,
    SITUATIONS,
    SOAK,
    STRESS,
    TCP_SENSITIVITY,
];

const AGGREGATE_SENSITIVITY: Long = Long {
    name: "aggregate-sensitivity",
    about: "a server's budget for all its observers, on other links and with other constants (a minute)",
    work: Work::Command(&sweep("crates/lab/results/aggregate-sensitivity.toml")),
    results: "crates/lab/results/aggregate-sensitivity.md",
};

const ALL_CONTROLLERS: Long = Long {
    name: "all-controllers",
    about: "every controller on the thesis's link, 200 seeds at each error rate (a minute)",
    work: Work::Command(&[
        "cargo",
        "run",
        "--release",
        "--quiet",
        "--package",
        "carob-cli",
        "--",
        "lab",
        "run",
        "thesis/long-1c-*-2500",
        "--algorithm",
        "all",
        "--seeds",
        "200",
    ]),
    results: "crates/lab/results/all-controllers.txt",
};

const CAPTURE_PREDICTIONS: Long = Long {
    name: "capture-predictions",
    about: "downloads over five emulated links and a LAN, as predicted from a capture and as measured (20 minutes, root, idle)",
    work: Work::Function(predict_captures),
    results: "crates/lab/results/capture-predictions.md",
};

const CONTRACT: Long = Long {
    name: "contract",
    about: "2^32 random steps of every controller against its contract (an hour and a half of a core)",
    work: Work::Command(&[
        "cargo",
        "run",
        "--profile",
        "checked",
        "--package",
        "carob-cc",
        "--example",
        "contract",
        "--",
        "32",
    ]),
    results: "crates/cc/examples/contract-2-32.txt",
};

const CROWD_SENSITIVITY: Long = Long {
    name: "crowd-sensitivity",
    about: "what the thesis leaves open about crowds, and what becomes of its claims (20 minutes)",
    work: Work::Command(&sweep("crates/lab/results/crowd-sensitivity.toml")),
    results: "crates/lab/results/crowd-sensitivity.md",
};

const FAIRNESS_SENSITIVITY: Long = Long {
    name: "fairness-sensitivity",
    about: "fairness between algorithms on other links (five minutes)",
    work: Work::Command(&sweep("crates/lab/results/fairness-sensitivity.toml")),
    results: "crates/lab/results/fairness-sensitivity.md",
};

const FLEET: Long = Long {
    name: "fleet",
    about: "2,220 endpoints for two weeks on which everything goes wrong, three ways (15 minutes)",
    work: Work::Command(&[
        "cargo",
        "run",
        "--release",
        "--quiet",
        "--package",
        "carob-sim",
        "--example",
        "fleet",
        "--",
        "--every-mode",
        "--seeds",
        "1",
        "--clients",
        "2000",
        "--servers",
        "200",
        "--proxies",
        "20",
        "--days",
        "14",
    ]),
    results: "crates/sim/examples/fleet.txt",
};

const DEFENCES: Long = Long {
    name: "defences",
    about: "attacks without the defence against them, which is taken out of a copy of the code (five minutes)",
    work: Work::Function(defences::run),
    results: "docs/defences.md",
};

const FLOOD: Long = Long {
    name: "flood",
    about: "a server under a flood from 1,000,000 source addresses of loopback (two minutes; ten on a busy machine)",
    work: Work::Function(flood::run),
    results: "docs/flood.md",
};

const FUZZ: Long = Long {
    name: "fuzz",
    about: "every fuzz target for --seconds N (600), or one of them (--target NAME); corpora are written anew",
    work: Work::WithOptions(fuzz::run),
    results: "fuzz/results.md",
};

const LITERATURE_SENSITIVITY: Long = Long {
    name: "literature-sensitivity",
    about: "what the thesis quotes from others, on other links (five minutes)",
    work: Work::Command(&sweep("crates/lab/results/literature-sensitivity.toml")),
    results: "crates/lab/results/literature-sensitivity.md",
};

const MEMORY: Long = Long {
    name: "memory",
    about: "a server whose tables are full, and what the unit for systemd allows it (four minutes)",
    work: Work::Function(memory::run),
    results: "docs/memory.md",
};

const MESH_SENSITIVITY: Long = Long {
    name: "mesh-sensitivity",
    about: "what the study of CoCoA+ leaves open about its networks, and who is before whom (15 minutes)",
    work: Work::Command(&sweep("crates/lab/results/mesh-sensitivity.toml")),
    results: "crates/lab/results/mesh-sensitivity.md",
};

const SERVER_SENSITIVITY: Long = Long {
    name: "server-sensitivity",
    about: "what the study of retransmission counts leaves open, and what becomes of its claims (three minutes)",
    work: Work::Command(&sweep("crates/lab/results/server-sensitivity.toml")),
    results: "crates/lab/results/server-sensitivity.md",
};

const NOTIFICATION_SENSITIVITY: Long = Long {
    name: "notification-sensitivity",
    about: "what the study of NON and Observe leaves open about GPRS and UMTS, and its claims (15 minutes)",
    work: Work::Command(&sweep("crates/lab/results/notification-sensitivity.toml")),
    results: "crates/lab/results/notification-sensitivity.md",
};

const HANDSHAKES: Long = Long {
    name: "handshakes",
    about: "a host that begins DTLS handshakes as fast as it can, and a client that has a session (a minute)",
    work: Work::Function(handshakes::run),
    results: "docs/handshakes.md",
};

const IOTLAB_SENSITIVITY: Long = Long {
    name: "iotlab-sensitivity",
    about: "what the study of NON and Observe leaves open about its testbed (three minutes)",
    work: Work::Command(&sweep("crates/lab/results/iotlab-sensitivity.toml")),
    results: "crates/lab/results/iotlab-sensitivity.md",
};

const LINKS: Long = Long {
    name: "links",
    about: "models of links beside measurements, with traces of FOLDER or those that are shipped (a minute); --page writes the page alone",
    work: Work::WithOptions(links::run),
    results: "crates/lab/results/links.csv",
};

const PROFILES: Long = Long {
    name: "profiles",
    about: "the transmission profiles beside the defaults, on their links and others, with other values (minutes)",
    work: Work::Command(&sweep("crates/lab/results/profiles.toml")),
    results: "crates/lab/results/profiles.md",
};

const PROFILE_COSTS: Long = Long {
    name: "profile-costs",
    about: "the transmission profiles by the cost of `carob lab compare`, beside its recommendations (five minutes)",
    work: Work::Command(&[
        "cargo",
        "run",
        "--release",
        "--quiet",
        "--package",
        "carob-lab",
        "--example",
        "profile_costs",
    ]),
    results: "crates/lab/results/profile-costs.md",
};

const PROPERTIES: Long = Long {
    name: "properties",
    about: "the tests of properties with --seeds N (200) others than ordinary runs have, from --first N (1) on (half an hour of a core)",
    work: Work::WithOptions(properties::run),
    results: "crates/proto/tests/properties.md",
};

const RADIO_VALIDATION: Long = Long {
    name: "radio-validation",
    about: "the radio model beside analytical models and ns-3's lr-wpan, which has to be installed (five minutes)",
    work: Work::Function(radio_validation::run),
    results: "docs/radio-validation.md",
};

const RECOMMENDATIONS: Long = Long {
    name: "recommendations",
    about: "what `carob lab compare` recommends for 24 links set aside, beside the best in hindsight (half an hour); --resume goes on",
    work: Work::WithOptions(recommendations::run),
    results: "crates/lab/results/recommendations.md",
};

const RPL_SENSITIVITY: Long = Long {
    name: "rpl-sensitivity",
    about: "what the study of RPL leaves open, and its central result (ten minutes)",
    work: Work::Command(&sweep("crates/lab/results/rpl-sensitivity.toml")),
    results: "crates/lab/results/rpl-sensitivity.md",
};

const SITUATIONS: Long = Long {
    name: "situations",
    about: "the recommendations of docs/which-controller.md, which it writes anew (two minutes)",
    work: Work::Function(situations::run),
    results: "crates/lab/results/situations.json",
};

const SOAK: Long = Long {
    name: "soak",
    about: "full rate, 1,000 observers, 1 % of datagrams lost, for --minutes N (30; and five more at the end) with --seed N",
    work: Work::WithOptions(soak::run),
    results: "docs/soak.md",
};

const STRESS: Long = Long {
    name: "stress",
    about: "every controller on changing paths, before slow servers and in crowds, --seeds N (10: five minutes)",
    work: Work::WithOptions(stress::run),
    results: "crates/lab/results/stress.csv",
};

const TCP_SENSITIVITY: Long = Long {
    name: "tcp-sensitivity",
    about: "TCP's settings where a real kernel leaves the thesis, 200 seeds each (five minutes)",
    work: Work::Command(&sweep("crates/lab/results/tcp-sensitivity.toml")),
    results: "crates/lab/results/tcp-sensitivity.md",
};

/// Runs the tests that compare predictions with real sockets, which write the results.
fn predict_captures(workspace: &Workspace, results: &Path) -> Result<bool> {
    let status = Command::new("cargo")
        .args([
            "test",
            "--release",
            "--package",
            "carob-cli",
            "--features",
            "full",
            "--test",
            "it",
        ])
        .arg("captures_of_default_coap")
        .args(["--", "--ignored", "--nocapture", "--test-threads=1"])
        .current_dir(&workspace.root)
        .env("CAROB_PREDICTIONS", results)
        .status()
        .context("cargo")?;
    Ok(status.success())
}

/// Runs the named long run, or lists what there is.
pub(crate) fn run(workspace: &Workspace, arguments: &[String]) -> Result<bool> {
    match arguments {
        [] => {
            for run in RUNS {
                println!("{:<20}  {}; results: {}", run.name, run.about, run.results);
            }
            Ok(true)
        }
        [name, options @ ..] => {
            let Some(run) = RUNS.iter().find(|run| run.name == name) else {
                let names: Vec<_> = RUNS.iter().map(|run| run.name).collect();
                bail!(
                    "no long run is called `{name}`; there are {}",
                    names.join(", ")
                );
            };
            let results = workspace.root.join(run.results);
            match run.work {
                Work::WithOptions(work) => work(workspace, &results, options),
                _ if !options.is_empty() => bail!("`long {name}` takes no options"),
                Work::Command(line) => {
                    let mut command = Command::new(line[0]);
                    command.args(&line[1..]).current_dir(&workspace.root);
                    recorded(&mut command, &results)
                }
                Work::Function(work) => work(workspace, &results),
            }
        }
    }
}

/// Runs a command; each line it prints goes to the terminal and into `results` at once, so that a
/// run that is stopped leaves what it has found.
fn recorded(command: &mut Command, results: &Path) -> Result<bool> {
    let mut file =
        fs::File::create(results).with_context(|| format!("cannot write {}", results.display()))?;
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start the run")?;
    if let Some(output) = child.stdout.take() {
        for line in BufReader::new(output).lines() {
            let line = line?;
            println!("{line}");
            writeln!(file, "{line}")?;
        }
    }
    Ok(child.wait()?.success())
}
