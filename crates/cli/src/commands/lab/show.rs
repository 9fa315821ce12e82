//! `carob lab show`.

use carob_lab::published::study;
use carob_lab::scenario::{Algorithm, Cell, Scenario};
use carob_lab::text::TextTable;
use serde_json::json;

use super::output::{raw, say, say_table, suggest};
use super::source::Source;
use crate::failure::{Failure, Outcome};
use crate::printer;

pub(super) fn run(
    name: &str,
    set: &[String],
    algorithms: &[String],
    as_json: bool,
) -> Result<Outcome, Failure> {
    let source = Source::open(name, set, algorithms)?.without_pattern()?;
    if as_json {
        printer::json(&describe(&source));
    } else {
        tell(&source);
    }
    Ok(Outcome::Done)
}

/// A constant of a controller, or a setting of TCP: name, value, and whether it differs from the
/// profile's.
struct Constant {
    name: &'static str,
    value: String,
    changed: bool,
}

/// Settings that `--set cc.NAME` changes; over TCP, `--set tcp.NAME`.
fn constants(source: &Source, algorithm: &Algorithm) -> Vec<Constant> {
    let Some(controller) = algorithm.controller() else {
        let settings = source.scenario.tcp(shown_cell(source), algorithm);
        return settings
            .into_iter()
            .map(|s| Constant {
                name: s.name,
                value: s.value,
                changed: s.changed,
            })
            .collect();
    };
    let mut of_profile = Vec::new();
    let entry = controller.entry();
    entry
        .settings()
        .describe(&mut |c| of_profile.push(c.value.to_string()));
    let mut all = Vec::new();
    controller.settings().describe(&mut |c| {
        let value = c.value.to_string();
        let changed = of_profile.get(all.len()) != Some(&value);
        all.push(Constant {
            name: c.name,
            value,
            changed,
        });
    });
    all
}

/// The cell whose transmission parameters are shown: the one named, or the first.
fn shown_cell(source: &Source) -> &Cell {
    source.cell().unwrap_or_else(|| {
        source
            .scenario
            .cells()
            .first()
            .expect("a scenario has a cell")
    })
}

fn tell(source: &Source) {
    let scenario = &source.scenario;
    say(&source.name);
    say(format_args!("  {}", scenario.about()));
    if let Some(study) = study(scenario.study()) {
        let (authors, year) = (study.authors.join(", "), study.year);
        say(format_args!(
            "  {authors}: \"{}\", {}, {year}",
            study.title, study.venue
        ));
    }
    let hash = source
        .cell()
        .map_or_else(|| scenario.hash(), |cell| cell.hash);
    say(format_args!("  hash {hash:016x}"));

    say("\nSettings");
    let mut table = TextTable::new(["key", "value", "from"]);
    for described in scenario.describe(source.cell()) {
        if matches!(described.path.as_str(), "about" | "study" | "family") {
            continue;
        }
        let (text, origin) = (described.text(), described.origin.to_string());
        table.add(vec![described.path, text, origin]);
    }
    say_table(&table, 2);
    say("");

    say("Algorithms");
    let cell = shown_cell(source);
    for algorithm in scenario.algorithms() {
        say(format_args!("  {}: {}", algorithm.name, algorithm.about()));
        let controller = algorithm.controller();
        if let Some(choice) = controller.and_then(|c| c.entry().project_choice) {
            say(format_args!("    this project's choice: {choice}"));
        }
        let parameters: Vec<String> = scenario
            .transmission(cell, algorithm)
            .into_iter()
            .map(|p| format!("{} {} ({})", p.name, p.value, p.origin))
            .collect();
        if !parameters.is_empty() {
            raw(wrapped("    transmission: ", &parameters));
        }
        let (table, heading) = match controller {
            Some(_) => ("cc", "    constants: "),
            None => ("tcp", "    settings: "),
        };
        let constants: Vec<String> = constants(source, algorithm)
            .into_iter()
            .map(|c| {
                let changed = if c.changed { " (changed)" } else { "" };
                format!("{table}.{} {}{changed}", c.name, c.value)
            })
            .collect();
        if !constants.is_empty() {
            raw(wrapped(heading, &constants));
        }
    }

    if source.cell().is_none() {
        say(format_args!("\nCells ({})", scenario.cells().len()));
        let study = scenario.study();
        for cell in scenario.cells() {
            let applies = |a: &&Algorithm| a.applies_to(cell);
            let names: Vec<&str> = scenario
                .algorithms()
                .iter()
                .filter(applies)
                .map(|a| a.name.as_str())
                .collect();
            let by = if names.is_empty() {
                "no algorithm by default".to_owned()
            } else {
                names.join(", ")
            };
            say(format_args!("  {study}/{}: {by}", cell.name));
        }
    }
    say("\nRun it");
    let seeds = scenario.seeds();
    let all = format!("carob lab run {}", source.name);
    let one = format!("{all} --seed 1");
    suggest([
        (&*all, &*format!("{seeds} seeds")),
        (&*one, "one seed, its runs drawn in the report"),
    ]);
    say(
        "  --set KEY=VALUE changes a setting for one run; a key's last part is enough where it is unique",
    );
}

/// Items after a heading, in lines of up to 100 characters, or the terminal's, that begin below the
/// first item.
fn wrapped(heading: &str, items: &[String]) -> String {
    let width = crate::output::columns().unwrap_or(100).min(100);
    let mut lines = vec![heading.to_owned()];
    for (k, item) in items.iter().enumerate() {
        let last = lines.last_mut().expect("there is one");
        let comma = if k + 1 < items.len() { "," } else { "" };
        let full = last.trim_start().len() > heading.trim().len() + 1 || lines.len() > 1;
        let last = lines.last_mut().expect("there is one");
        if k > 0 && full && last.chars().count() + item.chars().count() + 2 > width {
            lines.push(format!("{}{item}{comma}", " ".repeat(heading.len())));
        } else {
            if k > 0 {
                last.push(' ');
            }
            last.extend([item, comma]);
        }
    }
    lines.join("\n")
}

fn describe(source: &Source) -> serde_json::Value {
    let scenario: &Scenario = &source.scenario;
    let study = study(scenario.study());
    let settings: Vec<serde_json::Value> = scenario
        .describe(source.cell())
        .into_iter()
        .map(|d| {
            json!({
                "key": d.path,
                "value": d.text(),
                "from": d.origin.to_string(),
                "about": d.about,
            })
        })
        .collect();
    let cell = shown_cell(source);
    let algorithms: Vec<serde_json::Value> = scenario
        .algorithms()
        .iter()
        .map(|algorithm| {
            let transmission: serde_json::Map<_, _> = scenario
                .transmission(cell, algorithm)
                .into_iter()
                .map(|p| {
                    let value = json!({ "value": p.value, "from": p.origin.to_string() });
                    (p.name.to_owned(), value)
                })
                .collect();
            let constants: serde_json::Map<_, _> = constants(source, algorithm)
                .into_iter()
                .map(|c| {
                    (
                        c.name.to_owned(),
                        json!({ "value": c.value, "changed": c.changed }),
                    )
                })
                .collect();
            json!({
                "name": algorithm.name,
                "about": algorithm.about(),
                "transport": if algorithm.controller().is_some() { "udp" } else { "tcp" },
                "transmission": transmission,
                "constants": constants,
            })
        })
        .collect();
    let cells: Vec<&Cell> = source
        .cell()
        .map_or_else(|| scenario.cells().iter().collect(), |cell| vec![cell]);
    let cells: Vec<serde_json::Value> = cells
        .into_iter()
        .map(|cell| {
            let hash = format!("{:016x}", cell.hash);
            json!({ "name": cell.name, "cell": cell.to_json(), "scenario_hash": hash })
        })
        .collect();
    json!({
        "name": source.name,
        "about": scenario.about(),
        "study": scenario.study(),
        "authors": study.as_ref().map(|s| s.authors.clone()),
        "year": study.as_ref().map(|s| s.year),
        "title": study.as_ref().map(|s| s.title.clone()),
        "seeds": scenario.seeds(),
        "first_seed": scenario.first_seed(),
        "settings": settings,
        "algorithms": algorithms,
        "cells": cells,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lists_wrap_below_their_first_item() {
        let items: Vec<String> = (0..30).map(|k| format!("item{k:02}")).collect();
        let text = wrapped("  heading: ", &items);
        let lines: Vec<&str> = text.lines().collect();
        assert!(
            lines.len() > 1 && lines.iter().all(|l| l.chars().count() <= 101),
            "{text}"
        );
        assert!(lines[1].starts_with("           item"), "{text}");
        assert_eq!(text.matches("item").count(), 30);
        assert!(text.ends_with("item29"));
    }
}
