//! Next steps suggested by `carob lab run`.

use std::collections::BTreeSet;

use carob_lab::scenario::{Scenario, builtin};

use crate::commands::harness::{Ran, Words as _, command};
use crate::process::Scratch;

/// The suggested commands, split into words.
fn suggested(text: &str) -> Vec<Vec<String>> {
    let (_, next) = text.split_once("\nNext:\n").expect("suggestions");
    let lines = next.lines().filter_map(|line| line.strip_prefix("  "));
    lines
        .map(|line| {
            let command = line.split("  ").next().expect("a command");
            let mut words = command.words();
            assert_eq!(words.remove(0), "carob", "{command}");
            words
        })
        .collect()
}

/// Executes the suggestions after a run of `name`, with one seed unless the line sets it; skips commands in `done`.
fn execute(folder: &Scratch, name: &str, more: &str, done: &mut BTreeSet<Vec<String>>) -> usize {
    let suggested = suggested(&folder.stdout_of(&format!("lab run {name} --seeds 1 {more}")));
    assert!(suggested.len() > 1, "{name}");
    for line in &suggested {
        let mut words = line.clone();
        if words[..2] == ["lab", "run"] {
            words.push("--no-report".to_owned());
            if !words.iter().any(|word| word == "--seed") {
                words.retain(|word| word != "--seeds" && word != "40");
                words.extend(["--seeds".to_owned(), "1".to_owned()]);
            }
        }
        if done.insert(words.clone()) {
            let ran = folder.carob(&words);
            assert_eq!(ran.code, Some(0), "{name} suggests {line:?}: {ran:?}");
        }
    }
    suggested.len()
}

/// The first cell with the scenario's default algorithms.
fn first_cell(file: &builtin::BuiltIn) -> String {
    let scenario = Scenario::read(file.name, file.text, &[]).expect("a valid one");
    let mut cells = scenario.cells().iter();
    let runs = |cell: &&carob_lab::scenario::Cell| {
        scenario.algorithms().iter().any(|a| a.applies_to(cell))
    };
    let cell = cells.find(runs).expect("one that runs");
    format!("{}/{}", scenario.study(), cell.name)
}

// One cell per scenario: whole families take many minutes and suggest the same settings.
#[test]
fn nightly_every_suggestion_is_valid_for_every_scenario() {
    let folder = Scratch::new();
    let mut done = BTreeSet::new();
    for file in builtin::ALL {
        execute(&folder, &first_cell(file), "--no-report", &mut done);
    }
}

#[test]
fn suggestions_repeat_settings_and_algorithms_of_the_run() {
    let folder = Scratch::new();
    let cells = "thesis/long-1c-*-2500";
    let more = "-a default,fasor --set 'down.rate=60 kbit/s' --no-report";
    execute(&folder, cells, more, &mut BTreeSet::new());
    let text = folder.stdout_of(&format!("lab run {cells} --seeds 1 {more}"));
    let lines = suggested(&text);
    assert!(
        lines[0].contains(&"down.rate=60 kbit/s".to_owned()),
        "{text}"
    );
}

#[test]
fn suggestions_explain_a_missing_path_entry() {
    let folder = Scratch::new();
    let with_path = |path: &std::path::Path| {
        let mut command = command("lab run thesis/exchange-udp --seeds 1 --no-report");
        let ran: Ran = command
            .current_dir(folder.path(""))
            .env("PATH", path)
            .output()
            .expect("it runs")
            .into();
        ran.stdout().to_owned()
    };
    let own = std::path::Path::new(env!("CARGO_BIN_EXE_carob"));
    let own = own.parent().expect("a folder");
    let hint = format!("export PATH=\"{}:$PATH\"", own.display());
    assert!(with_path(&folder.path("")).contains(&hint));
    assert!(!with_path(own).contains("export PATH"));
}
