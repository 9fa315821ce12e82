//! `carob lab emulate`: a scenario over the kernel's sockets, in real time.
//!
//! The links are the simulator's, with the same losses by the same seeds; clients and servers are
//! `carob`'s, over UDP or the kernel's TCP.

use std::time::Instant;

use carob_emu::{Error, Lateness, Setting, check};
use carob_lab::metrics::{Metric, SPURIOUS, SPURIOUS_PER_EXCHANGE, USELESS_SHARE};
use carob_lab::run::{self, Plan, Selection};

use super::output::{self, say};
use super::source::Source;
use crate::args::lab::{EmulateArgs, RunArgs};
use crate::failure::{Failure, Kind, Outcome};
use crate::program::program;

/// Default number of runs per cell and algorithm: as many as the studies made at least.
const RUNS: u64 = 20;

/// The result of an emulation.
struct Emulation<'a> {
    /// The runs. They have no trace, and so no trace hash.
    outcome: run::Outcome<'a>,
    /// Delay of packets behind their schedule.
    lateness: Lateness,
    /// The kernel's settings: required values and actual ones.
    settings: Vec<Setting>,
}

/// Runs a scenario in real time.
pub fn run(args: &EmulateArgs) -> Result<Outcome, Failure> {
    let source = Source::open(&args.name, &args.set, &args.algorithm)?;
    let selection = Selection {
        cell: source.cell.clone(),
        everywhere: source.cell.is_some() && !args.algorithm.is_empty(),
        seeds: Some(args.seeds.unwrap_or(RUNS)),
        ..Selection::default()
    };
    let plan = Plan::new(&source.scenario, &selection).map_err(|e| Failure::new(Kind::Usage, e))?;
    let report = check();
    if !report.can_run() {
        let missing: Vec<String> = report
            .missing()
            .map(|item| {
                let why = item.missing.as_deref().unwrap_or_default();
                format!("{}: {why}", item.what)
            })
            .collect();
        let text = format!("this machine cannot emulate links: {}", missing.join("; "));
        return Err(Failure::new(Kind::Network, text)
            .hint("`carob lab run` simulates the same scenario anywhere"));
    }
    let clients: usize = plan
        .jobs()
        .iter()
        .map(|job| plan.spec(job).measured.clients as usize)
        .sum();
    let bar = output::progress(clients);
    let began = Instant::now();
    let emulation = emulate(&plan, args, |_, _| bar.inc(1));
    bar.finish_and_clear();
    let emulation = emulation.map_err(|error| Failure::new(Kind::Network, error))?;
    show(args, &source, &emulation, &output::took(began.elapsed()));
    Ok(Outcome::Done)
}

/// Makes all runs of a plan at once. `progress` is called with (flows done, of all), from any thread.
#[cfg(target_os = "linux")]
fn emulate<'a>(
    plan: &'a Plan<'a>,
    args: &EmulateArgs,
    progress: impl Fn(usize, usize) + Sync,
) -> Result<Emulation<'a>, Error> {
    let specs: Vec<_> = plan.jobs().iter().map(|job| plan.spec(job)).collect();
    let options = carob_emu::runs::Options {
        limit: args.limit,
        capture: args.pcap.clone(),
    };
    let made = carob_emu::runs::run(&specs, &options, progress)?;
    Ok(Emulation {
        outcome: plan.outcome(made.records),
        lateness: made.lateness,
        settings: made.settings,
    })
}

/// Makes all runs of a plan at once, which needs Linux.
#[cfg(not(target_os = "linux"))]
fn emulate<'a>(
    _: &'a Plan<'a>,
    _: &EmulateArgs,
    _: impl Fn(usize, usize) + Sync,
) -> Result<Emulation<'a>, Error> {
    Err(Error::Configuration {
        what: "this system".to_owned(),
        why: "links are emulated with Linux's TUN devices and namespaces".into(),
    })
}

/// Metrics of runs that real sockets do not show.
const NOT_MEASURED: [Metric; 3] = [SPURIOUS, SPURIOUS_PER_EXCHANGE, USELESS_SHARE];

fn show(args: &EmulateArgs, source: &Source, emulation: &Emulation<'_>, took: &str) {
    let Emulation {
        outcome,
        lateness,
        settings,
    } = emulation;
    let shown = RunArgs {
        name: Some(args.name.clone()),
        algorithm: args.algorithm.clone(),
        json: args.json,
        csv: args.csv,
        each: args.each,
        ..RunArgs::default()
    };
    let mut rows = outcome.rows();
    for row in &mut rows {
        // An endpoint does not know which of its transmissions were lost.
        row.metrics
            .retain(|name, _| !NOT_MEASURED.iter().any(|metric| metric.name == *name));
    }
    let print = (program().published)();
    super::run::show(&shown, source, outcome, &rows, &print, took);
    if args.json || args.csv {
        return;
    }
    say(format_args!(
        "\nIn real time, over this machine's kernel: {lateness}."
    ));
    let departures: Vec<_> = settings.iter().filter(|setting| !setting.holds()).collect();
    if !departures.is_empty() {
        say("Settings in which the kernel differs:");
        for setting in departures {
            say(format_args!("  {setting}"));
        }
    }
}
