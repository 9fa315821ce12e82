//! Runs the contract suite with a configurable number of steps; prints one line per controller.
//!
//! `cargo run --profile checked -p carob-cc --example contract -- 32` runs 2^32 steps of every controller; further
//! arguments select controllers by name. A line has the name, the steps, a digest of the advice, and the time per step.
#![allow(clippy::print_stdout, reason = "its output is its result")]
#![allow(clippy::disallowed_methods, reason = "it says how long a step took")]

use std::error::Error;
use std::sync::Mutex;
use std::time::Instant;

use carob_cc::TransmissionParameters;
use carob_cc::contract::{Lcg, Trial};
use carob_cc::registry::{self, Entry, entries};

/// Steps of one trial, after which its controllers are discarded, as a power of two.
const TRIAL: u32 = 16;

fn run(entry: &Entry, exponent: u32) -> Result<u64, String> {
    let suggested = entry.suggested.apply(TransmissionParameters::DEFAULT);
    let mut uncapped = suggested;
    uncapped.max_retransmit = TransmissionParameters::MAX_RETRANSMIT_LIMIT;
    uncapped.rto_max = None;
    let mut digest = 0_u64;
    for seed in 0..1_u64 << exponent.saturating_sub(TRIAL) {
        let parameters = if seed % 2 == 0 { suggested } else { uncapped };
        // One trial in eight compares two instances of the controller.
        let trial = if seed % 16 < 2 {
            Trial::new(entry.build(), entry.build(), entry.shrinks)
        } else {
            Trial::alone(entry.build(), entry.shrinks)
        };
        let mut trial = trial.with_parameters(parameters);
        let mut random = Lcg(seed);
        for step in 0..1_u64 << TRIAL.min(exponent) {
            trial
                .step(&mut random)
                .map_err(|breach| format!("{}: seed {seed}, step {step}: {breach}", entry.name))?;
        }
        digest = digest.rotate_left(1) ^ trial.digest();
    }
    Ok(digest)
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let exponent: u32 = arguments
        .next()
        .ok_or("say how many steps, as a power of two: 32")?
        .parse()?;
    let mut chosen = Vec::new();
    for name in arguments {
        chosen.push(registry::find(&name).map_err(|unknown| unknown.to_string())?);
    }
    if chosen.is_empty() {
        chosen = entries().collect();
    }
    let rest = Mutex::new(chosen.into_iter());
    let failures = Mutex::new(Vec::new());
    let work = || {
        // The lock is released before the controller runs.
        while let Some(entry) = rest.lock().ok().and_then(|mut rest| rest.next()) {
            let start = Instant::now();
            match run(&entry, exponent) {
                Ok(digest) => {
                    let nanos = start.elapsed().as_nanos() >> exponent;
                    println!("{:<18} 2^{exponent} {digest:016x} {nanos} ns", entry.name);
                }
                Err(breach) => {
                    if let Ok(mut failures) = failures.lock() {
                        failures.push(breach);
                    }
                }
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(work);
        work();
    });
    match failures.into_inner()?.as_slice() {
        [] => Ok(()),
        failures => Err(failures.join("\n").into()),
    }
}
