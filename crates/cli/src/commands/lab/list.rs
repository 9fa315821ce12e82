//! `carob lab list`.

use carob_lab::published::{studies, study};
use carob_lab::scenario::{Scenario, builtin};
use serde_json::json;

use super::output::say;
use crate::failure::{Failure, Kind, Outcome};
use crate::printer;

pub(super) fn run(as_json: bool) -> Result<Outcome, Failure> {
    let scenarios: Vec<(&str, Scenario)> = builtin::ALL
        .iter()
        .map(|b| {
            let scenario = Scenario::read(b.name, b.text, &[]);
            let scenario = scenario.map_err(|e| Failure::new(Kind::Usage, e))?;
            Ok((b.name, scenario))
        })
        .collect::<Result<_, Failure>>()?;
    if as_json {
        let all: Vec<serde_json::Value> = scenarios
            .iter()
            .map(|(name, s)| describe(name, s))
            .collect();
        printer::json(&all);
        return Ok(Outcome::Done);
    }
    let own = [
        ("carob", "Our own"),
        (
            "stress",
            "Stress suite: paths, servers and crowds in trouble",
        ),
    ];
    let own = own.map(|(study, heading)| (study.to_owned(), heading.to_owned()));
    let printed = studies().map(|study| {
        let (authors, year) = (study.authors.join(", "), study.year);
        let heading = format!("{authors}: \"{}\", {year}", study.title);
        (study.short_name, heading)
    });
    for (study, heading) in own.into_iter().chain(printed) {
        let of_study: Vec<_> = scenarios
            .iter()
            .filter(|(_, s)| s.study() == study)
            .collect();
        say(&heading);
        for (name, scenario) in of_study {
            let algorithms: Vec<&str> = scenario
                .algorithms()
                .iter()
                .map(|a| a.name.as_str())
                .collect();
            say(format_args!("  {name}"));
            say(format_args!("    {}", scenario.about()));
            say(format_args!(
                "    {} cells; {}; {} seeds",
                scenario.cells().len(),
                algorithms.join(", "),
                scenario.seeds()
            ));
        }
        say("");
    }
    say("carob lab show NAME explains one, carob lab run NAME runs it.");
    Ok(Outcome::Done)
}

fn describe(name: &str, scenario: &Scenario) -> serde_json::Value {
    let study = study(scenario.study());
    let names = |cells: Vec<&str>| json!(cells);
    json!({
        "name": name,
        "about": scenario.about(),
        "study": scenario.study(),
        "authors": study.as_ref().map(|s| s.authors.clone()),
        "year": study.as_ref().map(|s| s.year),
        "title": study.as_ref().map(|s| s.title.clone()),
        "algorithms": names(scenario.algorithms().iter().map(|a| a.name.as_str()).collect()),
        "cells": names(scenario.cells().iter().map(|c| c.name.as_str()).collect()),
        "seeds": scenario.seeds(),
    })
}
