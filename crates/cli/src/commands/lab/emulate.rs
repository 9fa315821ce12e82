//! `carob lab emulate`: a scenario over the kernel's sockets, in real time.

use std::time::Instant;

use carob_lab::emulate::{self, Emulation, Options};
use carob_lab::run::{Plan, Selection};
use carob_lab::summary::Print;

use super::args::{EmulateArgs, RunArgs};
use super::output::{self, say};
use super::source::Source;
use crate::failure::{Failure, Kind, Outcome};

/// Runs per cell and algorithm unless told otherwise: as many as the studies made at least.
const RUNS: u64 = 20;

pub(super) fn run(args: &EmulateArgs) -> Result<Outcome, Failure> {
    let source = Source::open(&args.name, &args.set, &args.algorithm)?;
    let selection = Selection {
        cell: source.cell.clone(),
        everywhere: source.cell.is_some() && !args.algorithm.is_empty(),
        seeds: Some(args.seeds.unwrap_or(RUNS)),
        ..Selection::default()
    };
    let plan = Plan::new(&source.scenario, &selection).map_err(|e| Failure::new(Kind::Usage, e))?;
    let report = emulate::check();
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
        .map(|job| plan.spec(job).clients as usize)
        .sum();
    let bar = output::progress(clients);
    let began = Instant::now();
    let options = Options {
        limit: args.limit,
        capture: args.pcap.clone(),
    };
    let emulation = emulate::emulate(&plan, &options, |_, _| bar.inc(1));
    bar.finish_and_clear();
    let emulation = emulation.map_err(|error| Failure::new(Kind::Network, error))?;
    show(args, &source, &emulation, &output::took(began.elapsed()));
    Ok(Outcome::Done)
}

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
    super::run::show(
        &shown,
        source,
        outcome,
        &outcome.rows(),
        &Print::all(),
        took,
    );
    if args.json || args.csv {
        return;
    }
    say(format_args!(
        "\nIn real time, over this machine's kernel: {lateness}."
    ));
    let departures: Vec<_> = settings.iter().filter(|setting| !setting.holds()).collect();
    if !departures.is_empty() {
        say("What the kernel does its own way:");
        for setting in departures {
            say(format_args!("  {setting}"));
        }
    }
}
