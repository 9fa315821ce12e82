//! Usage errors (message, accepted values and remedy), and help texts with their examples.

use std::fs;
use std::net::TcpListener;
use std::process::Command;

use crate::commands::harness::{Parts as _, Server, carob};
use crate::process::Scratch;
use crate::responder::Responder;

/// Stderr of a command that fails with this code.
#[track_caller]
fn refused(code: i32, arguments: &[&str]) -> String {
    carob(arguments).refused(code).to_owned()
}

#[test]
fn folder_that_is_missing_or_a_file_is_an_error() {
    let scratch = Scratch::new();
    for path in [scratch.text("missing"), scratch.with("file", "x")] {
        let said = refused(1, &["serve", "--bind", "127.0.0.1:0", "--dir", &path]);
        let why = format!("cannot serve the folder {path}: ");
        assert!(said.contains(&why), "{said}");
    }
}

#[test]
fn a_refused_connection_names_transport_and_port() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    for (scheme, expected) in [
        ("coap", "UDP port; the usual one of coap:// is 5683"),
        ("coap+tcp", "TCP port; the usual one of coap+tcp:// is 5683"),
        (
            "coaps+tcp",
            "TCP port; the usual one of coaps+tcp:// is 5684",
        ),
    ] {
        let said = refused(4, &["get", &format!("{scheme}://{address}/")]);
        said.has(&[expected]);
    }
}

#[test]
fn silent_host_error_has_transmissions_and_remedy() {
    let silent = Responder::silent();
    let uri = format!("coap://{}", silent.address);
    let times = ["--ack-timeout", "50ms", "--max-retransmit", "2"];
    let said = refused(3, &[&["get", &format!("{uri}/a?b")][..], &times].concat());
    let hint =
        format!("3 transmissions went unanswered; `carob ping {uri}` checks the host, -v shows");
    assert!(said.contains(&hint), "{said}");
    assert!(!said.contains("--deadline"), "{said}");
    let said = refused(3, &["get", &uri, "--deadline", "300ms"]);
    said.has(&[
        "1 transmission went unanswered",
        "--deadline allows more time",
    ]);
    let said = refused(3, &["ping", &uri, "--deadline", "300ms"]);
    said.has(&["1 ping went unanswered"]);
}

#[test]
fn a_final_2_31_is_a_failure() {
    let server = Responder::start(|request| vec![request.answer_with(0x5f, &[])]);
    let said = refused(1, &["put", &server.uri(), "x"]);
    said.has(&["answered a complete request with 2.31"]);
}

/// Commands listed by `carob --help`.
fn verbs() -> Vec<String> {
    let help = carob("--help");
    let listed = |line: &str| {
        let line = line.strip_prefix("  ")?;
        let (name, about) = line.split_once("  ")?;
        let is_name = name.chars().all(|c| c.is_ascii_lowercase()) && !name.is_empty();
        (is_name && !about.trim().is_empty()).then(|| name.to_owned())
    };
    let text = help.quiet();
    let commands = text.split("\nOptions:").next().unwrap();
    commands.lines().filter_map(listed).collect()
}

/// Examples in the help of a command.
fn examples(arguments: &[&str]) -> Vec<String> {
    let ran = carob(&[arguments, &["--help"]].concat());
    let text = ran.quiet();
    let is_example = |line: &&str| line.starts_with("  ") && line.contains("carob ");
    let after = text.split("Examples:").nth(1).unwrap_or_default();
    after
        .lines()
        .skip(1)
        .take_while(|line| line.starts_with("  "))
        .filter(is_example)
        .map(|line| line.trim().to_owned())
        .collect()
}

#[test]
fn every_command_is_listed_in_a_group_and_has_examples() {
    let verbs = verbs();
    for verb in [
        "get", "observe", "ipatch", "ping", "serve", "cc", "lab", "man",
    ] {
        assert!(verbs.iter().any(|known| known == verb), "{verbs:?}");
    }
    for verb in verbs {
        assert!(!examples(&[&verb]).is_empty(), "{verb}");
    }
}

#[test]
fn slow_every_example_in_help_runs() {
    let scratch = Scratch::new();
    let served = scratch.text("served");
    fs::create_dir_all(&served).unwrap();
    let any = "127.0.0.1:0";
    let keys = scratch.with("keys.txt", "device:secret\n");
    let server = Server::with(&format!(
        "--dir {served} --writable --tcp {any} --dtls {any} --psk-file {keys}"
    ));
    let over_tcp = server.over("coap+tcp", "");
    let over_dtls = server.over("coaps", "");
    let mut all = examples(&[]);
    for verb in verbs() {
        all.extend(examples(&[&verb]));
    }
    all.extend(examples(&["cc", "trace"]));
    all.extend(examples(&["lab", "run"]));
    let binary = std::path::Path::new(env!("CARGO_BIN_EXE_carob"));
    let path = format!(
        "{}:{}",
        binary.parent().unwrap().display(),
        std::env::var("PATH").unwrap()
    );
    assert!(all.len() > 30, "{all:#?}");
    for example in all {
        // Port 5683 may be in use, so the example runs against the test's server.
        let line = example.replace("coap://127.0.0.1", "coap://localhost");
        let line = line.replace("coap://localhost", &server.uri);
        let line = line.replace("coap+tcp://localhost/", &over_tcp);
        let line = line.replace("coaps://localhost/", &over_dtls);
        // Ports that need no privileges and are free.
        let line = line.replace("--tcp --ws [::]:8080", "--tcp 127.0.0.1:0 --ws 127.0.0.1:0");
        let line = line.replace("sudo carob lab emulate", "carob lab emulate --help; true");
        let line = line.replace("discover localhost", &format!("discover {}", server.uri));
        let serves = ["serve", "proxy"].into_iter().find_map(|verb| {
            let rest = line.strip_prefix(&format!("carob {verb}"))?;
            Some((verb, rest))
        });
        let line = match serves {
            Some((verb, rest)) => {
                let rest = rest.trim_end_matches('&');
                let bind = if rest.contains("--bind") {
                    ""
                } else {
                    "--bind 127.0.0.1:0"
                };
                format!("timeout -s INT 1 carob {verb} {bind} {rest}")
            }
            None => line,
        };
        let output = Command::new("timeout")
            .args(["60", "sh", "-c", &line])
            .env("PATH", &path)
            .current_dir(scratch.path(""))
            .output()
            .unwrap();
        let code = output.status.code();
        let stderr = String::from_utf8_lossy(&output.stderr);
        // `timeout` exits with 124 after it stopped a server.
        let ended_well = code == Some(0) || line.starts_with("timeout") && code == Some(124);
        assert!(ended_well, "{example}: {code:?}: {stderr}");
    }
    assert_eq!(fs::read(scratch.path("large.bin")).unwrap().len(), 1 << 20);
    assert_eq!(
        fs::read(scratch.path("served/copy.bin")).unwrap().len(),
        1 << 20
    );
}

#[test]
fn completions_know_commands_and_options() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let ran = carob(&format!("completions {shell}"));
        let script = ran.quiet();
        script.has(&["observe", "if-none-match", "pcap"]);
    }
    let scratch = Scratch::new();
    let script = scratch.with("carob.bash", carob("completions bash").quiet());
    let checked = Command::new("bash").args(["-n", &script]).status();
    assert!(checked.unwrap().success());
}

#[test]
fn each_command_has_a_manual_page() {
    let scratch = Scratch::new();
    let folder = scratch.text("man");
    let ran = carob(&format!("man --dir {folder}"));
    assert_eq!((ran.code, ran.stdout()), (Some(0), ""));
    for verb in verbs() {
        let page = String::from_utf8(scratch.read(&format!("man/carob-{verb}.1"))).unwrap();
        page.has(&[&format!(".TH carob-{verb} 1")]);
    }
    assert!(carob(&["man"]).quiet().contains(".TH carob 1"));
}
