//! A fleet of simulated endpoints, held against what must be true of it.
//!
//! `cargo run --release -p carob-sim --example fleet -- --seeds 1-4 --clients 2000 --servers 200
//! --proxies 20 --days 14` makes a run for each seed, on as many threads as there are cores, and
//! prints a line for each. Ends with 1 if anything was found.
#![allow(clippy::print_stdout, reason = "its output is its result")]
#![allow(clippy::disallowed_methods, reason = "it says how long a run took")]

mod simulation;

use std::error::Error;
use std::sync::Mutex;
use std::time::Instant;

use carob_cc::time::Duration;
use simulation::spec::{Clocks, Damage, FleetRecord, FleetSpec};

/// The options of the command line.
#[derive(Clone, Debug)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is an option of its own"
)]
struct Options {
    seeds: (u64, u64),
    sizes: [u32; 4],
    gap: u64,
    tight: bool,
    unnoticed: bool,
    stopping: bool,
    every_mode: bool,
}

impl Options {
    fn parse(arguments: impl Iterator<Item = String>) -> Result<Self, Box<dyn Error>> {
        let mut options = Self {
            seeds: (1, 1),
            sizes: [200, 20, 2, 2],
            gap: 600,
            tight: false,
            unnoticed: false,
            stopping: false,
            every_mode: false,
        };
        let mut arguments = arguments;
        while let Some(name) = arguments.next() {
            let mut value = || arguments.next().ok_or(format!("{name} needs a value"));
            match &name[..] {
                "--seeds" => {
                    let value = value()?;
                    let (first, last) = value.split_once('-').unwrap_or((&value, &value));
                    options.seeds = (first.parse()?, last.parse()?);
                }
                "--clients" => options.sizes[0] = value()?.parse()?,
                "--servers" => options.sizes[1] = value()?.parse()?,
                "--proxies" => options.sizes[2] = value()?.parse()?,
                "--days" => options.sizes[3] = value()?.parse()?,
                "--gap" => options.gap = value()?.parse()?,
                "--tight" => options.tight = true,
                "--unnoticed" => options.unnoticed = true,
                "--stopping" => options.stopping = true,
                "--every-mode" => options.every_mode = true,
                _ => {
                    let known = "--seeds, --clients, --servers, --proxies, --days, --gap, --tight, \
                                 --unnoticed, --stopping and --every-mode";
                    return Err(format!("there is no {name}; there are {known}").into());
                }
            }
        }
        Ok(options)
    }

    /// The runs of a seed: as specified, or that, one with small tables, and one with damage.
    fn modes(&self) -> Vec<Self> {
        let mut modes = vec![self.clone()];
        if self.every_mode {
            modes.push(Self {
                tight: true,
                ..self.clone()
            });
            modes.push(Self {
                unnoticed: true,
                ..self.clone()
            });
        }
        modes
    }

    fn spec(&self, seed: u64) -> FleetSpec {
        let [clients, servers, proxies, days] = self.sizes;
        let mut spec = FleetSpec::new(seed, clients, servers, proxies, days);
        spec.gap = Duration::from_secs(self.gap);
        spec.tight = self.tight;
        if self.unnoticed {
            spec.damage = Damage::Unnoticed;
        }
        if self.stopping {
            spec.clocks = Clocks::Stop;
        }
        spec
    }

    /// The command that repeats one of these runs.
    fn command(&self, seed: u64) -> String {
        let [clients, servers, proxies, days] = self.sizes;
        let mut line = format!(
            "cargo run --release -p carob-sim --example fleet -- --seeds {seed} --clients {clients} \
             --servers {servers} --proxies {proxies} --days {days} --gap {}",
            self.gap
        );
        for (set, name) in [
            (self.tight, " --tight"),
            (self.unnoticed, " --unnoticed"),
            (self.stopping, " --stopping"),
        ] {
            if set {
                line.push_str(name);
            }
        }
        line
    }
}

fn print(options: &Options, seed: u64, record: &FleetRecord, took: f64) {
    let millions = |n: u64| n as f64 / 1e6;
    println!(
        "seed {seed}{}{}: {} breaches; {} requests ({} answered, {} denied, {} failed, {} cancelled, {} \
         forgotten, {} refused), longest {} s; {} executed once, {} anew after restarts; {} told to \
         observers, {} of them up to date at dawn; {:.2} M datagrams ({:.2} M lost, {:.2} M doubled, \
         {} damaged); {} restarts, {} stalls, {} suspensions; {} remembered at most; digest {:016x}; \
         {took:.0} s",
        if options.tight { ", tight" } else { "" },
        if options.unnoticed { ", unnoticed" } else { "" },
        record.breaches.values().sum::<u64>(),
        record.requests,
        record.answered,
        record.denied,
        record.failed,
        record.cancelled,
        record.forgotten,
        record.refused,
        record.longest.as_secs(),
        record.executed - record.executed_anew,
        record.executed_anew,
        record.notified,
        record.converged,
        millions(record.datagrams),
        millions(record.lost),
        millions(record.duplicated),
        record.damaged,
        record.restarts,
        record.stalls,
        record.suspensions,
        record.remembered_max,
        record.digest,
    );
    println!("  failures: {:?}", record.failures);
    if !record.is_sound() {
        println!("  breaches: {:?}", record.breaches);
        for finding in &record.findings {
            println!("  {finding}");
        }
        println!("  replay: {}", options.command(seed));
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let options = Options::parse(std::env::args().skip(1))?;
    let [clients, servers, proxies, days] = options.sizes;
    println!("{clients} clients, {servers} servers, {proxies} proxies, {days} days");
    let all = (options.seeds.0..=options.seeds.1)
        .flat_map(|seed| options.modes().into_iter().map(move |mode| (seed, mode)));
    let runs = Mutex::new(all);
    let unsound = Mutex::new(Vec::new());
    let work = || {
        // The lock is held while the next one is taken, not while it runs.
        while let Some((seed, mode)) = runs.lock().ok().and_then(|mut runs| runs.next()) {
            let start = Instant::now();
            let record = simulation::run(&mode.spec(seed));
            print(&mode, seed, &record, start.elapsed().as_secs_f64());
            if !record.is_sound()
                && let Ok(mut unsound) = unsound.lock()
            {
                unsound.push(seed);
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(work);
        work();
    });
    let mut unsound = unsound.into_inner()?;
    unsound.sort_unstable();
    if unsound.is_empty() {
        Ok(())
    } else {
        Err(format!("seeds {unsound:?} broke what must hold").into())
    }
}
