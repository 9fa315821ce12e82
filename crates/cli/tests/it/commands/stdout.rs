//! Unwritable standard output and closed pipes.

use std::fs::{File, OpenOptions};
use std::process::Stdio;

use crate::commands::harness::{Server, command};

/// Every command that prints; `uri` is a server for those that need one.
fn commands(uri: &str) -> Vec<Vec<String>> {
    let hello = format!("{uri}/hello");
    let count = format!("{uri}/count");
    let all: &[&[&str]] = &[
        &["get", &hello],
        &["get", &hello, "--json"],
        &["get", &format!("{uri}/missing"), "--json"],
        &["put", &format!("{uri}/echo"), "x", "--json"],
        &["post", &format!("{uri}/echo"), "x", "--json"],
        &["discover", uri],
        &["discover", uri, "--json"],
        &["discover", uri, "--raw"],
        &["observe", &count, "--count", "1"],
        &["observe", &count, "--count", "1", "--json"],
        &["observe", &count, "--count", "1", "--raw"],
        &["ping", uri],
        &["ping", uri, "--json"],
        &["bench", &hello, "--requests", "1"],
        &["bench", &hello, "--requests", "1", "--json"],
        &["serve", "--bind", "127.0.0.1:0"],
        &["serve", "--bind", "127.0.0.1:0", "--json"],
        &["serve", "--limits"],
        &["serve", "--limits", "--json"],
        &["serve", "--limits", "--markdown"],
        &["proxy", "--bind", "127.0.0.1:0", "--allow", "*"],
        &["cc", "list"],
        &["cc", "list", "--json"],
        &["cc", "show", "default"],
        &["cc", "show", "default", "--json"],
        &["cc", "trace", "--demo"],
        &["lab", "list"],
        &["lab", "list", "--json"],
        &["lab", "keys"],
        &["lab", "show", "carob/default"],
        &["completions", "bash"],
        &["man"],
        &["--help"],
        &["get", "--help"],
        &["--version"],
    ];
    let owned = |arguments: &&[&str]| arguments.iter().map(|&text| text.to_owned()).collect();
    all.iter().map(owned).collect()
}

/// Runs a command with this stdout; returns its exit code and stderr.
fn ends(arguments: &[String], stdout: Stdio) -> (Option<i32>, String) {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut command = command(&arguments);
    let command = command.stdin(Stdio::null()).stdout(stdout);
    let ran = command.stderr(Stdio::piped()).output().unwrap();
    (
        ran.status.code(),
        String::from_utf8_lossy(&ran.stderr).into_owned(),
    )
}

#[cfg(target_os = "linux")]
#[test]
fn slow_every_command_fails_if_stdout_cannot_be_written() {
    let server = Server::start();
    for arguments in commands(&server.uri) {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let (code, stderr) = ends(&arguments, full.into());
        assert_eq!(code, Some(1), "{arguments:?}: {stderr}");
        let why = "cannot write stdout: No space left on device";
        assert_eq!(stderr.matches(why).count(), 1, "{arguments:?}: {stderr}");
    }
}

#[test]
fn slow_closed_pipe_is_not_an_error_for_any_command() {
    let server = Server::start();
    for arguments in commands(&server.uri) {
        let serves = matches!(&*arguments[0], "serve" | "proxy");
        if serves && arguments[1] == "--bind" {
            continue;
        }
        let (reader, writer) = nix::unistd::pipe().unwrap();
        drop(reader);
        let (code, stderr) = ends(&arguments, File::from(writer).into());
        let missing = arguments.iter().any(|text| text.ends_with("/missing"));
        assert_eq!(code, Some(i32::from(missing)), "{arguments:?}: {stderr}");
        assert!(!stderr.contains("stdout"), "{arguments:?}: {stderr}");
    }
}
