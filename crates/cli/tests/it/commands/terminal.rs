//! Output on a terminal, to an unwritable standard output and to closed pipes.

use std::fs::{File, OpenOptions};
use std::process::Stdio;

use crate::commands::harness::{Parts as _, Ran, Running, Server, carob, command, on_terminal};
use crate::process::Scratch;

fn without_colours(arguments: &[&str]) -> String {
    let (_, text) = on_terminal(arguments, &[("NO_COLOR", "1")], 80);
    assert!(!text.contains('\x1b'), "{text:?}");
    text
}

#[test]
fn json_and_cbor_are_pretty_printed() {
    let server = Server::start();
    let sensors = server.path("sensors");
    assert_eq!(
        without_colours(&["get", &sensors]),
        r#"[
  {
    "bn": "urn:dev:ow:10e2073a01080063:",
    "n": "temperature",
    "u": "Cel",
    "v": 21.5
  },
  {"n": "humidity", "u": "%RH", "v": 48.0}
]
"#
    );
    assert_eq!(
        without_colours(&["get", &sensors, "--accept", "cbor"]),
        r#"[
  {-2: "urn:dev:ow:10e2073a01080063:", 0: "temperature", 1: "Cel", 2: 21.5},
  {0: "humidity", 1: "%RH", 2: 48.0}
]
"#
    );
    let piped = carob(&format!("get {sensors}"));
    assert_eq!(without_colours(&["get", &sensors, "--raw"]), piped.quiet());
    assert!(!piped.quiet().contains('\n'));
}

#[test]
fn links_have_a_line_each() {
    let server = Server::start();
    let text = without_colours(&["get", &server.path(".well-known/core")]);
    assert_eq!(text.lines().count(), text.matches('<').count());
    assert!(text.lines().all(|line| line.starts_with("</")), "{text}");
}

#[test]
fn colours_are_used_on_terminals_only() {
    let server = Server::start();
    let arguments = ["get", &server.path("sensors"), "-v"];
    let (_, coloured) = on_terminal(&arguments, &[], 200);
    coloured.has(&["\x1b[32m\"Cel\"\x1b[0m"]);
    without_colours(&arguments);
    let piped = carob(&arguments);
    assert!(
        !piped.stdout().contains('\x1b') && !piped.stderr.contains('\x1b'),
        "{piped:?}"
    );
}

#[test]
fn control_characters_are_escaped() {
    let scratch = Scratch::new();
    let (folder, evil) = (scratch.text(""), "\x1b]0;title\x07");
    scratch.with("evil.txt", evil);
    scratch.with("evil.json", format!("[\"{evil}\"]"));
    scratch.with("evil.cbor", [&[0x6a], evil.as_bytes()].concat());
    let server = Server::with(&format!("--dir {folder}"));
    for name in ["evil.txt", "evil.json", "evil.cbor"] {
        for verb in ["get", "observe"] {
            let text = without_colours(&[verb, &server.path(name)]);
            assert!(!text.contains('\x07'), "{text:?}");
        }
    }
    let text = without_colours(&["get", &server.path("evil.cbor")]);
    assert_eq!(text, "\"\\u001b]0;title\\u0007\"\n");
    let text = without_colours(&["get", &server.path("evil.txt")]);
    text.has(&["10 bytes of text/plain; charset=utf-8 not shown"]);
}

#[test]
fn notifications_are_shown_with_time_and_number() {
    let server = Server::start();
    let text = without_colours(&["observe", &server.path("count"), "--count", "1"]);
    let [time, number, state] = text.split_whitespace().collect::<Vec<_>>()[..] else {
        panic!("{text}")
    };
    assert_eq!((time.len(), state), ("21:04:51.123Z".len(), "0"));
    assert!(
        number.starts_with('#') && number[1..].parse::<u32>().is_ok(),
        "{text}"
    );
}

#[test]
fn responses_of_several_uris_are_labelled() {
    let server = Server::start();
    let [hello, count] = ["hello", "count"].map(|path| server.path(path));
    let text = without_colours(&["get", &hello, &count]);
    let expected = format!("{hello}:\nhello, this is 32 bytes of text\n{count}:\n0\n");
    assert_eq!(text, expected);
}

#[test]
fn json_is_one_line_for_programs_and_pretty_on_a_terminal() {
    let server = Server::start();
    let arguments = ["get", &server.path("count"), "--json"];
    assert!(without_colours(&arguments).lines().count() > 10);
    assert_eq!(carob(&arguments).quiet().lines().count(), 1);
    // Events stay one per line, also on a terminal.
    let uri = server.path("count");
    let mut running = Running::start(&format!("observe {uri} --json"));
    running.line();
    let events = without_colours(&["observe", &uri, "--json", "--count", "1"]);
    assert_eq!(events.lines().count(), 2, "{events}");
    running.signal("INT");
    running.finish();
}

/// Every command that prints; SERVER stands for the URI of one.
const COMMANDS: &str = "\
get SERVER/hello
get SERVER/hello --json
get SERVER/missing --json
put SERVER/echo x --json
post SERVER/echo x --json
discover SERVER
discover SERVER --json
discover SERVER --raw
observe SERVER/count --count 1
observe SERVER/count --count 1 --json
observe SERVER/count --count 1 --raw
ping SERVER
ping SERVER --json
bench SERVER/hello --requests 1
bench SERVER/hello --requests 1 --json
serve --bind 127.0.0.1:0
serve --bind 127.0.0.1:0 --json
serve --limits
serve --limits --json
serve --limits --markdown
proxy --bind 127.0.0.1:0 --allow *
cc list
cc list --json
cc show default
cc show default --json
cc trace --demo
lab list
lab list --json
lab keys
lab show carob/default
completions bash
man
--help
get --help
--version
";

/// Runs a command with this stdout; returns its exit code and stderr.
fn ends(line: &str, server: &Server, stdout: Stdio) -> (Option<i32>, String) {
    let mut command = command(&line.replace("SERVER", &server.uri));
    let command = command.stdin(Stdio::null()).stdout(stdout);
    let ran: Ran = command.stderr(Stdio::piped()).output().unwrap().into();
    (ran.code, ran.stderr)
}

#[cfg(target_os = "linux")]
#[test]
fn slow_every_command_fails_if_stdout_cannot_be_written() {
    let server = Server::start();
    for line in COMMANDS.lines() {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let (code, stderr) = ends(line, &server, full.into());
        assert_eq!(code, Some(1), "{line}: {stderr}");
        let why = "cannot write stdout: No space left on device";
        assert_eq!(stderr.matches(why).count(), 1, "{line}: {stderr}");
    }
}

#[test]
fn slow_closed_pipe_is_not_an_error_for_any_command() {
    let server = Server::start();
    let serves = |line: &&str| line.contains("--bind");
    for line in COMMANDS.lines().filter(|line| !serves(line)) {
        let (reader, writer) = nix::unistd::pipe().unwrap();
        drop(reader);
        let (code, stderr) = ends(line, &server, File::from(writer).into());
        let missing = line.contains("/missing");
        assert_eq!(code, Some(i32::from(missing)), "{line}: {stderr}");
        assert!(!stderr.contains("stdout"), "{line}: {stderr}");
    }
}
