//! Simulates one cell of a scenario on one thread, and prints the number of events and the trace hashes. For profilers:
//! the difference between two runs with different numbers of seeds is the cost of the simulation without start-up.
//!
//!     cargo build --profile bench -p carob-lab --example simulate
//!     valgrind --tool=callgrind target/release/examples/simulate SCENARIO.toml CELL ALGORITHM SEEDS
#![allow(clippy::print_stdout, reason = "it prints its results")]

use std::env;
use std::error::Error;
use std::fs;

use carob_lab::scenario::Scenario;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [file, cell, algorithm, seeds] = arguments.as_slice() else {
        return Err("arguments: SCENARIO.toml CELL ALGORITHM SEEDS".into());
    };
    let scenario = Scenario::read(file, &fs::read_to_string(file)?, &[])?;
    let cell = scenario.cell(cell).ok_or("no such cell")?;
    let algorithm = scenario
        .algorithms()
        .iter()
        .find(|known| known.name == *algorithm)
        .ok_or("no such algorithm")?;
    let seeds: u64 = seeds.parse()?;
    let (mut handled, mut hash) = (0, 0);
    for seed in 1..=seeds {
        let record = carob_sim::run(&scenario.spec(cell, algorithm, seed))?;
        handled += record.events_handled;
        hash ^= record.trace_hash;
    }
    println!("{handled} events, hash {hash:016x}");
    Ok(())
}
