//! Removal of the defences that no setting disables, one at a time: the test of the attack must then fail.
//!
//! The changes apply to a copy of the repository. Each is a text in a file and its replacement; an
//! ordinary test checks that the text occurs in the file exactly once.

use std::{fmt::Write as _, fs, path::Path, process::Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::{process, workspace::Workspace};

/// A defence and the change that removes it.
struct Defence {
    attack: &'static str,
    without: &'static str,
    file: &'static str,
    /// Text to replace, and its replacement.
    changes: &'static [(&'static str, &'static str)],
    /// Package, module of its integration tests and test.
    test: [&'static str; 3],
}

const DEFENCES: [Defence; 11] = [
    Defence {
        attack: "repeated Q-Block1 blocks that bring reports of missing blocks",
        without: "no limit where single messages have none",
        file: "crates/proto/src/server/q_block1.rs",
        changes: &[(
            "(!validated).then(|| unvalidated_budget(length, false))",
            "(!validated && length == 0).then(|| unvalidated_budget(length, false))",
        )],
        test: [
            "carob-proto",
            "amplification",
            "reports_of_missing_blocks_keep_the_limit_for_any_prefix",
        ],
    },
    Defence {
        attack: "spoofed requests for sets of Q-Block2 blocks",
        without: "no limit where single messages have none",
        file: "crates/proto/src/server/q_block2.rs",
        changes: &[(
            "is_limited.then(|| unvalidated_budget(received, acknowledged))",
            "(is_set && numbers.is_empty()).then(|| unvalidated_budget(received, acknowledged))",
        )],
        test: [
            "carob-proto",
            "amplification",
            "a_set_of_blocks_is_challenged_where_no_limit_holds",
        ],
    },
    Defence {
        attack: "sets of Q-Block2 blocks that are never acknowledged",
        without: "the other blocks stay queued",
        file: "crates/proto/src/message_layer/end.rs",
        changes: &[(
            "        if is_q_block2(&self.exchanges[index as usize]) {\n",
            "        if cx.is_stream() && is_q_block2(&self.exchanges[index as usize]) {\n",
        )],
        test: [
            "carob-proto",
            "fairness",
            "blocks_behind_one_that_is_given_up_are_dropped",
        ],
    },
    Defence {
        attack: "small Q-Block1 blocks without the first",
        without: "only the payload counts",
        file: "crates/proto/src/blockwise/any_order.rs",
        changes: &[(
            " + self.ahead_bytes + self.ahead.len() * BLOCK_OVERHEAD\n",
            " + self.ahead_bytes\n",
        )],
        test: [
            "carob-proto",
            "rfc9177::wire",
            "a_block_ahead_of_a_missing_one_counts_with_its_overhead",
        ],
    },
    Defence {
        attack: "complete bodies held by slow handlers",
        without: "a body stops counting when it is complete",
        file: "crates/proto/src/blockwise/reassembly.rs",
        changes: &[
            (
                "        // The bytes count until the request has its response.\n",
                "        self.release_bytes(peer, end as usize);\n",
            ),
            (
                "(&mut self, peer: SocketAddr, bytes: usize) {\n        self.release_bytes(peer, bytes);",
                "(&mut self, _: SocketAddr, _: usize) {",
            ),
        ],
        test: [
            "carob-proto",
            "fairness",
            "a_body_counts_until_its_request_is_answered",
        ],
    },
    Defence {
        attack: "a challenged POST is captured and replayed after its execution",
        without: "a validated source needs no Echo value",
        file: "crates/proto/src/admission/mod.rs",
        changes: &[(
            "        !validated && !cx.transport_validates_addresses()\n",
            "        let _ = validated;\n        false\n",
        )],
        test: [
            "carob-proto",
            "fairness",
            "a_late_copy_of_what_was_challenged_is_not_carried_out",
        ],
    },
    Defence {
        attack: "unexpected messages that elicit Resets",
        without: "every one elicits a Reset",
        file: "crates/proto/src/message_layer/input.rs",
        changes: &[(
            "if *count < REJECTIONS_A_SECOND {",
            "if *count < u32::MAX {",
        )],
        test: [
            "carob-proto",
            "limits",
            "a_peer_that_answers_every_reset_is_not_answered_without_end",
        ],
    },
    Defence {
        attack: "silent TLS handshakes",
        without: "at the limit, the newest is rejected",
        file: "crates/carob/src/transport/tcp/listen.rs",
        changes: &[(
            "let oldest = if running.shares.of(source) >= share {",
            "let oldest = if running.tasks.len() >= self.limit.min(share) {\n            return;\n        } else if \
                 running.shares.of(source) >= share {",
        )],
        test: [
            "carob",
            "admission",
            "handshakes_that_never_end_keep_nobody_waiting",
        ],
    },
    Defence {
        attack: "ClientHellos from spoofed sources",
        without: "no cookie exchange",
        file: "crates/carob/src/transport/dtls/handshakes.rs",
        changes: &[(
            "= server.cookies.check(now, from, own, hello) else {",
            "= server.cookies.check(now, from, own, hello).or(Some([0; 32])) else {",
        )],
        test: [
            "carob",
            "secure_attacks",
            "unvalidated_client_hello_gets_less_and_leaves_no_state",
        ],
    },
    Defence {
        attack: "one slow origin occupies a proxy",
        without: "no limit per origin",
        file: "crates/carob/src/proxy/forwarder.rs",
        changes: &[(
            "if for_origin >= self.limits.requests_of_origin\n            ||",
            "if",
        )],
        test: [
            "carob",
            "proxy::attacks",
            "a_slow_origin_delays_nobody_else",
        ],
    },
    Defence {
        attack: "one client occupies a proxy",
        without: "no limit per client",
        file: "crates/carob/src/proxy/forwarder.rs",
        changes: &[(
            "\n            || waiting.clients.of(client) >= self.limits.requests_of_client",
            "",
        )],
        test: [
            "carob",
            "proxy::attacks",
            "one_client_does_not_take_all_places",
        ],
    },
];

/// Result of a test.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Passed,
    Failed,
}

pub(crate) fn run(workspace: &Workspace, results: &Path) -> Result<bool> {
    let place = workspace.target()?.join("defences");
    let (tree, build) = (place.join("tree"), place.join("build"));
    copy(&workspace.root, &tree)?;
    let mut text = String::from(
        "# Attack tests without the defence\n\n\
         For reviewers of the defences in [overload.md](overload.md). `cargo xtask long defences` removes each of these defences from a\n\
         copy of the code and runs the test of its attack, which must then fail. A setting disables each of the other defences, and\n\
         their tests use it.\n\n\
         | attack | change that removes the defence | test with the defence | without |\n|---|---|---|---|\n",
    );
    let mut sound = true;
    // All of them as they are first: a change compiles its crate and the tests again.
    let as_they_are = DEFENCES.map(|defence| test(&tree, &build, &defence));
    for (defence, with) in DEFENCES.iter().zip(as_they_are) {
        println!("{}: {}", defence.attack, defence.without);
        let file = tree.join(defence.file);
        let whole = fs::read_to_string(&file)?;
        let with = with?;
        fs::write(&file, changed(defence, &whole)?)?;
        let without = test(&tree, &build, defence);
        fs::write(&file, whole)?;
        let without = without?;
        let good = (with, without) == (Outcome::Passed, Outcome::Failed);
        sound &= good;
        let word = |outcome| match outcome {
            Outcome::Passed => "passes",
            Outcome::Failed => "fails",
        };
        let [package, module, name] = defence.test;
        let _ = writeln!(
            text,
            "| {} | {} | `{package}`, `{module}`: `{name}` {} | {}{} |",
            defence.attack,
            defence.without,
            word(with),
            word(without),
            if good { "" } else { " (**it should not**)" }
        ); // a String takes every write
    }
    print!("\n{text}");
    fs::write(results, text).with_context(|| format!("cannot write {}", results.display()))?;
    Ok(sound)
}

/// The file without the defence.
fn changed(defence: &Defence, whole: &str) -> Result<String> {
    let mut text = whole.to_owned();
    for (stands, instead) in defence.changes {
        let found = text.matches(stands).count();
        ensure!(
            found == 1,
            "{}: what is to be changed stands there {found} times: {stands}",
            defence.file
        );
        text = text.replacen(stands, instead, 1);
    }
    Ok(text)
}

/// Copies what git knows; files of an earlier copy that are the same keep their times, so that little is
/// built again.
fn copy(root: &Path, tree: &Path) -> Result<()> {
    let mut copied = 0;
    for name in Workspace::files(root)? {
        let (from, to) = (root.join(&name), tree.join(&name));
        let bytes = fs::read(&from).with_context(|| format!("cannot read {}", from.display()))?;
        if fs::read(&to).is_ok_and(|there| there == bytes) {
            continue;
        }
        fs::create_dir_all(to.parent().context("a file is in a folder")?)?;
        fs::write(&to, bytes).with_context(|| format!("cannot write {}", to.display()))?;
        copied += 1;
    }
    println!("{copied} files copied to {}", tree.display());
    Ok(())
}

/// Builds and runs the test.
fn test(tree: &Path, build: &Path, defence: &Defence) -> Result<Outcome> {
    let [package, module, name] = defence.test;
    let cargo = |more: &[&str]| {
        let mut command = process::cargo();
        command.args(["test", "--quiet", "--package", package]);
        command.args(["--all-features", "--test", "it"]);
        command.args(["--config", "profile.dev.package.carob-proto.opt-level=0"]);
        command.args(more).current_dir(tree);
        command.env("CARGO_TARGET_DIR", build);
        command
    };
    if !process::succeeds(&mut cargo(&["--no-run"]))? {
        bail!("{}: it does not build as changed", defence.file);
    }
    let test = format!("{module}::{name}");
    let mut run = cargo(&["--", "--exact", &test]);
    let output = run.stdin(Stdio::null()).output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(
        said.contains("running 1 test"),
        "{package}: there is not one test `{test}`"
    );
    Ok(if output.status.success() {
        Outcome::Passed
    } else {
        Outcome::Failed
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_out_stands_where_it_is_said_to() {
        let root = Workspace::find().expect("the workspace is there").root;
        for defence in &DEFENCES {
            let whole = fs::read_to_string(root.join(defence.file)).expect(defence.file);
            let without = changed(defence, &whole).expect(defence.attack);
            assert_ne!(whole, without);
            let tests = root.join("crates").join(match defence.test[0] {
                "carob-proto" => "proto/tests/it",
                _ => "carob/tests/it",
            });
            let [_, module, name] = defence.test;
            let file = tests.join(module.replace("::", "/")).with_extension("rs");
            let text = fs::read_to_string(file).expect(module);
            assert!(text.contains(&format!("fn {name}(")), "{name}");
        }
    }
}
