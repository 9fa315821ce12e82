//! The folder and network namespace for the commands of a page.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use super::page::Page;
use crate::program::Scratch;

/// Time limit of a command in seconds.
const LIMIT: u32 = 120;

/// Returns whether network namespaces are permitted; otherwise the tests are skipped.
pub(super) fn is_possible() -> bool {
    let made = Command::new("unshare")
        .args(["--net", "ip", "link"])
        .output();
    let possible = made.is_ok_and(|output| output.status.success());
    if !possible {
        let required = std::env::var_os("CAROB_REQUIRE_PEERS").is_some();
        assert!(!required, "no network namespace can be made");
        crate::skipped("commands of pages need unshare, ip and the right to make networks (root)");
    }
    possible
}

/// Runs the commands of a page in order; returns the lines printed by each.
pub(super) fn run(page: &Page) -> Vec<Vec<String>> {
    let folder = Scratch::new();
    for (name, text) in &page.files {
        folder.with(name, text);
    }
    let records = folder.folder(".records");
    let programs = Path::new(crate::PROGRAM).parent();
    let mut path = vec![programs.expect("a program is in a folder").to_path_buf()];
    path.extend(std::env::split_paths(
        &std::env::var_os("PATH").unwrap_or_default(),
    ));
    let status = Command::new("unshare")
        .args(["--net", "--pid", "--fork", "--mount-proc", "--kill-child"])
        .args(["bash", "-c", &script(page)])
        .current_dir(folder.path(""))
        .env("PATH", std::env::join_paths(path).expect("paths of before"))
        .status()
        .expect("unshare starts");
    assert!(status.success(), "{status}");
    (0..page.examples().count())
        .map(|index| {
            let text = fs::read_to_string(records.join(index.to_string()));
            let text = text.unwrap_or_default();
            text.lines()
                .map(|line| line.trim_end().to_owned())
                .collect()
        })
        .collect()
}

/// A script that writes the output of command N to `.records/N`. Commands that end in `&` are servers: the next command
/// waits for their lines. Pages without a server get one if a command names localhost.
fn script(page: &Page) -> String {
    let mut script = String::from("exec < /dev/null\nip link set lo up\n");
    let commands = || page.examples().map(|example| example.command.as_str());
    let has_server = commands().any(|command| command.starts_with("carob serve"));
    if !has_server && commands().any(|command| command.contains("localhost")) {
        script.push_str("carob serve > .records/server 2>&1 &\n");
        script.push_str(&wait_for("server", 2));
    }
    for (index, example) in page.examples().enumerate() {
        if let Some(server) = example.command.strip_suffix('&') {
            writeln!(script, "{server} > .records/{index} 2>&1 &").expect("a string");
            script.push_str(&wait_for(&index.to_string(), example.output.len().max(2)));
        } else {
            let quoted = example.command.replace('\'', "'\\''");
            writeln!(
                script,
                "timeout {LIMIT} bash -c '{quoted}' > .records/{index} 2>&1"
            )
            .expect("a string");
        }
    }
    script.push_str("exit 0\n");
    script
}

/// Shell lines that wait up to ten seconds for a server's output.
fn wait_for(record: &str, lines: usize) -> String {
    format!(
        "for n in {{1..1000}}; do [ \"$(wc -l < .records/{record})\" -ge {lines} ] && break; sleep 0.01; done\n"
    )
}
