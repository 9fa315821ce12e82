//! Validation of `carob lab compare`: judges the recommendation for links of a set with fresh seeds.
//!
//! `recommendations [LINK] [--set N] [--traffic NAME]` prints a line of JSON per link; LINK is 1 to 24,
//! and all of them, or all with this traffic, without it. The set is the published one unless another is
//! named. `cargo xtask long recommendations` makes a table of it.
#![allow(clippy::print_stdout, reason = "it prints its results")]

use std::process::ExitCode;

use carob_lab::compare::Traffic;
use carob_lab::compare::hindsight::{CASES, SET_ASIDE, cases, validate};

fn main() -> ExitCode {
    match run(&std::env::args().skip(1).collect::<Vec<_>>()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: &[String]) -> Result<(), String> {
    let (mut set, mut links, mut traffic) = (SET_ASIDE, 1..=CASES, None);
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        if argument == "--set" {
            let number = rest.next().and_then(|number| number.parse().ok());
            set = number.ok_or("--set takes a number")?;
        } else if argument == "--traffic" {
            let name = rest.next().ok_or("--traffic takes a name")?;
            Traffic::named(name).ok_or(format!("{name} is not a traffic of `lab compare`"))?;
            traffic = Some(name);
        } else {
            let number = argument.parse().ok().filter(|link| links.contains(link));
            let link = number.ok_or(format!("{argument} is not a link from 1 to {CASES}"))?;
            links = link..=link;
        }
    }
    let cases = cases(set);
    let cases = &cases;
    let has_traffic =
        |link: &usize| traffic.is_none_or(|name| cases[link - 1].traffic.name() == name);
    for link in links.filter(has_traffic) {
        let found = validate(&cases[link - 1], &|_| {}).map_err(|error| error.to_string())?;
        println!(
            "{}",
            serde_json::to_string(&found).map_err(|e| e.to_string())?
        );
    }
    Ok(())
}
