//! The program: published values of runs, help, completions, pages of the documentation.

use crate::console;
use crate::program::{Parts as _, Scratch, on_terminal, plain};

#[test]
fn run_prints_published_values_and_suggests_its_own_commands() {
    let folder = Scratch::new();
    let run = "run carob/default --seeds 2";
    let text = folder.stdout_of(run);
    text.has(&[
        "published s",
        "Next:\n  carob-studies run ",
        "\n  carob-studies reproduce thesis ",
    ]);
    let report = folder.path("reports/carob-default.html");
    let report = std::fs::read_to_string(report).expect("the report");
    report.has(&["Pesola:", "carob-studies run carob/default --seeds 2"]);
    let tcp = folder.stdout_of("run thesis/long-1c-none-28200 --seeds 1");
    tcp.has(&["tcp-newreno", " 95.14 "]);
    let changed = folder.stdout_of(&format!("{run} --set 'down.rate=60 kbit/s'"));
    changed.has(&["Published values of Pesola 2020 are left out"]);
    assert!(!changed.contains("published s"), "{changed}");
    let report = folder.path("reports/carob-default-down.rate-60-kbit-s.html");
    let report = std::fs::read_to_string(report).expect("the report");
    assert!(!report.contains("Pesola:"), "no diamonds of another link");
}

#[test]
fn slow_help_and_tables_fit_80_columns() {
    let page = Scratch::new().stdout_of("man --markdown");
    let verbs = page
        .lines()
        .filter_map(|line| line.strip_prefix("## carob-studies "));
    let help = verbs.flat_map(|verb| [format!("{verb} -h"), format!("{verb} --help")]);
    let tables = [
        "claims retrycount",
        "reproduce thesis",
        "reproduce cocoaplus",
        "calibrate retrycount",
    ];
    let all: Vec<String> = help
        .chain(tables.map(str::to_owned))
        .chain(["--help".to_owned()])
        .collect();
    assert!(all.len() > 20, "{all:?}");
    for line in &all {
        let (code, shown) = on_terminal(line, &[], 80);
        assert_eq!(code, Some(0), "{line}");
        let shown = plain(&shown);
        let wide = shown.lines().find(|line| line.chars().count() > 80);
        assert_eq!(wide, None, "{line}");
    }
}

#[test]
fn verdicts_are_coloured() {
    let (_, shown) = on_terminal("claims retrycount", &[], 80);
    shown.has(&["\x1b[32mholds", "\x1b[33mholds-partly"]);
}

#[test]
fn help_of_values_is_a_noun_phrase_and_of_flags_a_verb() {
    let page = Scratch::new().stdout_of("man --markdown");
    let (_, own) = page
        .split_once("\n## carob-studies reproduce\n")
        .expect("the verb");
    let verbs = ["Begin", "Print", "Run", "Write"];
    let options: Vec<&str> = own.lines().filter(|line| line.starts_with("| `")).collect();
    assert!(options.len() > 20, "{own}");
    for option in options {
        let (label, help) = option.split_once("` | ").expect("a label and its help");
        let is_verb = verbs.contains(&help.split(' ').next().unwrap_or_default());
        let takes_value = label.contains('<');
        assert_ne!(is_verb, takes_value, "{option}");
    }
}

#[test]
fn completions_know_studies_and_scenarios() {
    let script = Scratch::new().stdout_of("completions fish");
    script.has(&[
        "complete -c carob-studies -n \"__fish_seen_subcommand_from claims\" -a \"cocoaplus thesis ",
        "complete -c carob-studies -n \"__fish_seen_subcommand_from run\" -a \"carob/crowd-mesh ",
    ]);
}

#[test]
fn members_of_json_output_are_documented() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/json.md");
    let page = std::fs::read_to_string(page).expect("the page");
    for command in ["reproduce thesis", "claims retrycount"] {
        for line in Scratch::new().lines(&format!("{command} --json")) {
            let check = line["checks"][0].as_object().into_iter();
            for (name, _) in line.as_object().into_iter().chain(check).flatten() {
                assert!(page.contains(&format!("`{name}`")), "{command}: {name}");
            }
        }
    }
}

#[cfg(target_os = "linux")]
mod pages {
    use super::*;

    #[test]
    fn slow_pages_with_studies_show_the_output_of_today() {
        let pages = console::FOLDERS.into_iter().flat_map(console::pages);
        assert!(pages.filter(|(_, page)| page.is_of_studies()).count() > 1);
        for folder in console::FOLDERS {
            console::run(folder, true);
        }
    }
}
