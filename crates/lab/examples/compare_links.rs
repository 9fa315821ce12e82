//! Validation of `carob lab compare`: evaluates its recommendations with new seeds; prints a line of JSON each.
//!
//! `compare_links drawn [FROM TO]` evaluates safety on links drawn from all ranges, `compare_links hindsight [FROM TO]`
//! the cost relative to the best safe configuration on links that were not used for tuning, `compare_links seeds N [FROM TO]`
//! repeats this with N other first seeds, `compare_links traces` evaluates recommendations for built-in links over
//! measured traces. `cargo xtask long compare-links` writes the tables.
#![allow(clippy::print_stdout, reason = "it prints its results")]

use std::ops::Range;
use std::path::Path;
use std::process::ExitCode;

use carob_lab::compare::hindsight::{cases, validate};
use carob_lab::compare::proof::{SET_OF_PROOF, TRACES, agreement, check, drawn, over_trace};
use carob_lab::compare::{CompareError, TRAFFIC, Traffic};
use serde::Serialize;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match run(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(words: &[&str]) -> Result<(), String> {
    match words {
        ["drawn", rest @ ..] => {
            let all = drawn();
            for case in &all[range(rest, all.len())?] {
                print(&check(case, &|_| {}))?;
            }
        }
        ["hindsight", rest @ ..] => {
            let all = cases(SET_OF_PROOF);
            for case in &all[range(rest, all.len())?] {
                print(&validate(case, &|_| {}))?;
            }
        }
        ["seeds", others, rest @ ..] => {
            let others = others.parse().map_err(|_| "seeds takes a number")?;
            let all = cases(SET_OF_PROOF);
            for case in &all[range(rest, all.len())?] {
                print(&agreement(case, others, &|_| {}))?;
            }
        }
        ["traces"] => {
            let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/links/measured"));
            for pair in TRACES {
                for (name, ..) in TRAFFIC {
                    // NB-IoT was measured by exchanges a minute apart alone.
                    if pair.0.starts_with("nb-iot") && name != "telemetry" {
                        continue;
                    }
                    let traffic = Traffic::named(name).ok_or("unknown traffic")?;
                    print(&over_trace(pair, &traffic, folder, &|_| {}))?;
                }
            }
        }
        _ => return Err("take drawn, hindsight, seeds N or traces".to_owned()),
    }
    Ok(())
}

fn range(words: &[&str], len: usize) -> Result<Range<usize>, String> {
    let wrong = || format!("a range is two numbers from 0 to {len}");
    match words {
        [] => Ok(0..len),
        [from, to] => {
            let both = from.parse().ok().zip(to.parse().ok());
            let (from, to): (usize, usize) = both.ok_or_else(wrong)?;
            (from <= to && to <= len)
                .then_some(from..to)
                .ok_or_else(wrong)
        }
        _ => Err(wrong()),
    }
}

fn print(found: &Result<impl Serialize, CompareError>) -> Result<(), String> {
    let found = found.as_ref().map_err(ToString::to_string)?;
    println!(
        "{}",
        serde_json::to_string(found).map_err(|e| e.to_string())?
    );
    Ok(())
}
