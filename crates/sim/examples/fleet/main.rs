//! A fleet of simulated endpoints, held against what must be true of it.
//!
//! `cargo run --release -p carob-sim --example fleet -- --seeds 1-4 --clients 2000 --servers 200
//! --proxies 20 --days 14` makes a run for each seed, on as many threads as there are cores, and
//! prints a line for each. Ends with 1 if anything was found.
//!
//! `--drawn` draws size, traffic and faults of each run from its seed; `cargo xtask fleet` uses it, in a
//! build with the engine's assertions.
#![allow(clippy::print_stdout, reason = "its output is its result")]
#![allow(clippy::disallowed_methods, reason = "it says how long a run took")]

mod simulation;

use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind};
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
    /// The first and the last seed.
    seeds: (u64, u64),
    /// The time in which runs begin.
    seconds: u64,
    /// Runs are drawn from their seeds, and the first violation ends all.
    drawn: bool,
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
            seconds: u64::MAX,
            drawn: false,
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
                    let last = if last.is_empty() {
                        u64::MAX
                    } else {
                        last.parse()?
                    };
                    options.seeds = (first.parse()?, last);
                }
                "--seconds" => options.seconds = value()?.parse()?,
                "--drawn" => options.drawn = true,
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
                    let known = "--seeds, --seconds, --drawn, --clients, --servers, --proxies, --days, --gap, --tight, \
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
        if self.drawn {
            return FleetSpec::drawn(seed);
        }
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
        if self.drawn {
            return format!("cargo xtask fleet --seed {seed}");
        }
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

fn print(options: &Options, spec: &FleetSpec, record: &FleetRecord, took: f64) {
    let millions = |n: u64| n as f64 / 1e6;
    println!(
        "seed {}{}{}: {} breaches; {} requests ({} answered, {} denied, {} failed, {} cancelled, {} \
         forgotten, {} refused), longest {} s; {} executed once, {} anew after restarts; {} told to \
         observers, {} of them up to date at dawn; {:.2} M datagrams ({:.2} M lost, {:.2} M doubled, \
         {} damaged); {} restarts, {} stalls, {} suspensions; {} remembered at most; digest {:016x}; \
         {took:.0} s",
        spec.seed,
        if spec.tight { ", tight" } else { "" },
        if spec.damage == Damage::Unnoticed {
            ", unnoticed"
        } else {
            ""
        },
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
        println!("  replay: {}", options.command(spec.seed));
    }
}

/// Drawn runs without a violation.
#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    fleets: u64,
    requests: u64,
    datagrams: u64,
}

impl Totals {
    /// Drawn runs between two lines of progress.
    const A_LINE: u64 = 20;

    fn add(&mut self, record: &FleetRecord) {
        self.fleets += 1;
        self.requests += record.requests;
        self.datagrams += record.datagrams;
        if self.fleets.is_multiple_of(Self::A_LINE) {
            self.print();
        }
    }

    fn print(&self) {
        println!(
            "{} fleets of a simulated day without violation: {} requests, {:.1} M datagrams",
            self.fleets,
            self.requests,
            self.datagrams as f64 / 1e6
        );
    }
}

/// Makes one run and prints its result; false if it broke an invariant of the fleet or an assertion of the engine.
fn is_sound(options: &Options, seed: u64, totals: &Mutex<Totals>) -> bool {
    let spec = options.spec(seed);
    let start = Instant::now();
    // The panic's own text is on stderr by now.
    let Ok(record) = catch_unwind(AssertUnwindSafe(|| simulation::run(&spec))) else {
        println!("seed {seed}: panicked: {spec:?}");
        println!("  replay: {}", options.command(seed));
        return false;
    };
    let only = options.seeds.0 == options.seeds.1;
    if !options.drawn || only || !record.is_sound() {
        print(options, &spec, &record, start.elapsed().as_secs_f64());
    }
    if record.is_sound()
        && let Ok(mut totals) = totals.lock()
    {
        totals.add(&record);
    }
    record.is_sound()
}

fn main() -> Result<(), Box<dyn Error>> {
    let options = Options::parse(std::env::args().skip(1))?;
    if !options.drawn {
        let [clients, servers, proxies, days] = options.sizes;
        println!("{clients} clients, {servers} servers, {proxies} proxies, {days} days");
    }
    let begin = Instant::now();
    let all = (options.seeds.0..=options.seeds.1)
        .flat_map(|seed| options.modes().into_iter().map(move |mode| (seed, mode)));
    let runs = Mutex::new(all);
    let unsound = Mutex::new(Vec::new());
    let totals = Mutex::new(Totals::default());
    let next = || {
        let found = unsound.lock().is_ok_and(|unsound| !unsound.is_empty());
        if begin.elapsed().as_secs() >= options.seconds || (options.drawn && found) {
            return None;
        }
        // The lock is held while the next one is taken, not while it runs.
        runs.lock().ok().and_then(|mut runs| runs.next())
    };
    let work = || {
        while let Some((seed, mode)) = next() {
            if !is_sound(&mode, seed, &totals)
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
    if options.drawn {
        totals.into_inner()?.print();
    }
    let mut unsound = unsound.into_inner()?;
    unsound.sort_unstable();
    if unsound.is_empty() {
        Ok(())
    } else {
        Err(format!("seeds {unsound:?} broke what must hold").into())
    }
}
