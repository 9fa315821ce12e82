//! Output on 80 columns, colours and shell completion.

use std::fs;
use std::process::Command;

use crate::commands::harness::{Parts as _, Server, carob, carob_with, on_terminal, plain};
use crate::process::Scratch;
use crate::responder::Responder;

const COLUMNS: usize = 80;

fn wide(shown: &str) -> Vec<String> {
    let text = plain(shown);
    // A progress bar is overwritten by the text after a carriage return.
    let lines = text
        .lines()
        .map(|line| line.rsplit('\r').next().unwrap_or_default());
    let wide = lines.filter(|line| line.chars().count() > COLUMNS);
    wide.map(str::to_owned).collect()
}

/// Every command with its subcommands, from the names of the manual pages.
fn commands() -> Vec<Vec<String>> {
    let scratch = Scratch::new();
    let folder = scratch.text("man");
    assert_eq!(carob(&format!("man --dir {folder}")).code, Some(0));
    let pages = fs::read_dir(&folder).unwrap();
    let words = |name: String| -> Vec<String> {
        let name = name.strip_suffix(".1").unwrap();
        name.split('-').skip(1).map(str::to_owned).collect()
    };
    pages
        .map(|page| words(page.unwrap().file_name().into_string().unwrap()))
        .collect()
}

#[test]
fn slow_help_of_every_command_fits_80_columns() {
    let all = commands();
    assert!(all.len() > 30, "{all:?}");
    for words in all {
        for option in ["-h", "--help"] {
            let line: Vec<&str> = words.iter().map(String::as_str).chain([option]).collect();
            let (code, shown) = on_terminal(&line, &[], COLUMNS);
            assert_eq!(code, Some(0), "{line:?}");
            assert_eq!(wide(&shown), Vec::<String>::new(), "{line:?}");
        }
    }
}

#[test]
fn short_help_has_options_and_long_help_has_examples() {
    for line in ["get", "lab run", "cc trace", "serve"] {
        let short = carob(&format!("{line} -h"));
        let long = carob(&format!("{line} --help"));
        let (short, long) = (short.quiet(), long.quiet());
        assert!(
            !short.contains("Examples:") && long.contains("Examples:"),
            "{line:?}"
        );
        short.has(&["--help` has examples and details."]);
        assert!(short.lines().count() < long.lines().count());
    }
    // Options for maintainers are in the long help only.
    assert!(!carob("cc list -h").quiet().contains("--markdown"));
    assert!(carob("cc list --help").quiet().contains("--markdown"));
}

/// Commands whose output is checked; SERVER stands for the URI of one, FOLDER for that of a temporary folder.
const PRINTING: &str = "\
get SERVER/large -o FOLDER/large.bin --pcap FOLDER/get.pcapng --timing
get SERVER/sensors
get SERVER/hello -v
get SERVER/no-such-resource
get coap:/localhost
put SERVER/count 1
discover SERVER
observe SERVER/count --count 1
ping SERVER
bench SERVER/hello --requests 50
serve --limits
serve --limit observer=1
analyze FOLDER/get.pcapng
cc list
cc show cocoa-03
cc show no-such-controller
cc new my-cc --path FOLDER/my-cc
cc trace --demo --no-figure
cc trace --demo -a all --no-figure
lab list
lab show thesis/long
lab show rpl/pint-rpl-1s
lab new FOLDER/meters
lab metrics
lab figures
lab keys
lab run --svg no-such-figure
get --no-such-option
lab run no-such-scenario --no-report
lab run thesis/long --no-report --seeds 1 --hash
lab run thesis/long-1c-high-2500 --no-report --seeds 10
lab run thesis/long-1c-high-2500 --no-report --seed 1
lab run carob/default --no-report -a all --seeds 1
lab run carob/fairness --no-report --seeds 1 --set 'time_limit=60 s'
lab run nonobserve/gprs-60s-100S5n --no-report --seeds 1
lab run rpl/pint-rpl-1s --no-report --seeds 1 --set 'duration=10 s'
help lab run
";

#[test]
fn nightly_output_of_every_command_fits_80_columns() {
    let (scratch, server) = (Scratch::new(), Server::start());
    let lines = PRINTING.replace("SERVER", &server.uri);
    for line in lines.replace("FOLDER/", &scratch.text("")).lines() {
        let (_, shown) = on_terminal(line, &[], COLUMNS);
        assert!(!shown.trim().is_empty(), "{line}");
        assert_eq!(wide(&shown), Vec::<String>::new(), "{line}");
    }
}

/// A command that prints a table with this number of seeds.
fn table_of(seeds: u32) -> String {
    format!("lab run thesis/long-1c-high-2500 --no-report --seeds {seeds}")
}

#[test]
fn narrow_terminal_omits_columns() {
    let line = table_of(10);
    let (_, shown) = on_terminal(&line, &[], COLUMNS);
    shown.has(&["Left out for want of width: p10 s,"]);
    let (_, wide) = on_terminal(&line, &[], 200);
    let piped = carob(&line);
    for text in [&wide, piped.stdout()] {
        assert!(
            text.contains("p10 s  median s") && !text.contains("Left out"),
            "{text}"
        );
    }
}

#[test]
fn best_values_are_bold() {
    let run = table_of(10);
    let (_, shown) = on_terminal(&run, &[], COLUMNS);
    assert_eq!(
        shown.matches("\x1b[1m").count(),
        1,
        "one shortest median: {shown:?}"
    );
    let (_, shown) = on_terminal(&table_of(9), &[], COLUMNS);
    assert!(
        !shown.contains("\x1b[1m"),
        "no ranking below ten seeds: {shown:?}"
    );
}

#[test]
fn color_overrides_the_terminal_and_the_environment() {
    let run = |more: &str| format!("{} {more}", table_of(10));
    let (_, shown) = on_terminal(&run("--color never"), &[], COLUMNS);
    assert!(!shown.contains("\x1b[1m"), "{shown:?}");
    assert!(!carob(&run("")).quiet().contains('\x1b'));
    let always = run("--color=always");
    assert!(carob(&always).quiet().contains("\x1b[1m"));
    let ran = carob_with(&always, &[("NO_COLOR", "1")]);
    assert!(ran.stdout().contains("\x1b[1m"));
    // Parser errors are coloured, too.
    let wrong = carob("lab list --no-such-option --color always");
    wrong.refused(2).has(&["\x1b["]);
    assert!(
        !carob("lab list --no-such-option")
            .refused(2)
            .contains('\x1b')
    );
}

#[test]
fn a_silent_peer_shows_retransmissions_and_the_next_timeout() {
    let silent = Responder::silent();
    let uri = format!("{}x", silent.uri());
    let line = format!("get {uri} --ack-timeout 200ms --max-retransmit 2 --deadline 20s");
    let (code, shown) = on_terminal(&line, &[], COLUMNS);
    assert_eq!(code, Some(3), "{shown:?}");
    shown.has(&[
        "retransmission 1 of 2, next in 1 s",
        "retransmission 2 of 2, gives up in ",
    ]);
    // The error replaces the progress line.
    let last = shown.rsplit('\r').next().unwrap_or_default();
    assert!(!last.contains("retransmission 2 of 2"), "{shown:?}");
    let piped = carob(&line);
    assert!(!piped.stderr.contains("retransmission 1 of 2"), "{piped:?}");
}

#[test]
fn bash_completes_controllers_and_scenarios() {
    let scratch = Scratch::new();
    let script = scratch.with("carob.bash", carob("completions bash").quiet());
    let completed = |words: &[&str]| -> Vec<String> {
        let program = format!(
            "source {script}; COMP_WORDS=({}); COMP_CWORD={}; _carob carob '{}' '{}'; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            words.join(" "),
            words.len() - 1,
            words[words.len() - 1],
            words[words.len() - 2],
        );
        let output = Command::new("bash")
            .args(["-c", &program])
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().map(str::to_owned).collect()
    };
    let cases: &[(&[&str], &str)] = &[
        (&["carob", "get", "--cc", "cocoa-0"], "cocoa-03"),
        (&["carob", "lab", "run", "thesis/l"], "thesis/long"),
        (&["carob", "lab", "run", "-a", "tcp"], "tcp-newreno"),
        (&["carob", "cc", "show", "fas"], "fasor"),
    ];
    for (words, expected) in cases {
        let found = completed(words);
        assert!(
            found.iter().any(|word| word == expected),
            "{words:?}: {found:?}"
        );
        let typed = words[words.len() - 1];
        assert!(
            found.iter().all(|word| word.starts_with(typed)),
            "{words:?}: {found:?}"
        );
    }
}
