//! Multicast requests between two hosts (network namespaces joined by a veth pair), also with libcoap's client and
//! server.

#![cfg(target_os = "linux")]
use std::process::{Command, Output};

use crate::commands::harness::Parts as _;

/// Two hosts: 10.9.0.1 on `v0` (this namespace) and 10.9.0.2 on `v1` (namespace `there`).
const NETWORK: &str = r#"
ip link set lo up
ip link add v0 type veth peer name v1
ip addr add 10.9.0.1/24 dev v0; ip link set v0 up
ip route add 224.0.0.0/4 dev v0
unshare --net sleep 60 & other=$!
until [ "$(readlink /proc/$other/ns/net)" != "$(readlink /proc/self/ns/net)" ]; do sleep 0.05; done
ip link set v1 netns $other
there() { nsenter --net=/proc/$other/ns/net "$@"; }
there ip link set lo up
there ip addr add 10.9.0.2/24 dev v1; there ip link set v1 up
there ip route add 224.0.0.0/4 dev v1
# Until the link-local addresses are known to be nobody else's.
while ip -6 addr show tentative | grep -q tentative || there ip -6 addr show tentative | grep -q tentative
do sleep 0.1; done
"#;

fn run(needs: &[&str], script: &str) -> Option<Output> {
    isolated(needs, &format!("{NETWORK}\n{script}"))
}

/// Runs a script in a temporary folder and a new network namespace. Returns nothing if namespaces are not permitted
/// or a program is missing, unless both are required.
pub(crate) fn isolated(needs: &[&str], script: &str) -> Option<Output> {
    const FOLDER: &str =
        "set -e; folder=$(mktemp -d -p $PWD); trap 'rm -r $folder' EXIT; cd $folder";
    let required = std::env::var_os("CAROB_REQUIRE_PEERS").is_some();
    let there = |program: &&&str| {
        let path = std::env::var_os("PATH").unwrap_or_default();
        !std::env::split_paths(&path).any(|folder| folder.join(program).exists())
    };
    let all = ["unshare", "nsenter", "ip"];
    let missing = all.iter().chain(needs).find(there);
    let may = || {
        let made = Command::new("unshare").args(["--net", "true"]).status();
        made.is_ok_and(|status| status.success())
    };
    if missing.is_some() || !may() {
        assert!(!required, "no network can be made: {missing:?} is missing");
        crate::skipped(
            "tests of networks need unshare, nsenter, ip and the right to make networks (root)",
        );
        return None;
    }
    let output = Command::new("timeout")
        .current_dir(env!("CARGO_TARGET_TMPDIR"))
        // In a PID namespace, processes that the script leaves behind end with it.
        .args(["50", "unshare", "--net", "--pid", "--fork", "--mount-proc"])
        .args(["--kill-child", "bash", "-c"])
        .arg(format!("{FOLDER}\n{script}"))
        .env("CAROB", env!("CARGO_BIN_EXE_carob"))
        .output()
        .unwrap();
    Some(output)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn slow_multicast_get_shows_each_member_with_its_address() {
    let Some(output) = run(
        &[],
        r"
        $CAROB serve --join 224.0.1.187%v0 --join ff02::fd%v0 > here & sleep 0.1
        there $CAROB serve --join 224.0.1.187%v1 --join ff02::fd%v1 > there &
        until grep -q listening here && grep -q listening there; do sleep 0.05; done
               # All at once: each takes as long as members have leisure.
        $CAROB get coap://224.0.1.187/hello --interface v0 > a & a=$!
        $CAROB get 'coap://[ff02::fd%25v0]/hello' --json > b & b=$!
        $CAROB discover 'coap://[ff02::fd%25v0]' --filter obs --raw > c & c=$!
        $CAROB get coap://224.0.1.187/nothing --interface v0 --gather 2s 2> d || echo exit $?
        wait $a $b $c
        for file in a b c d; do cat $file; echo ----; done
        ",
    ) else {
        return;
    };
    let (shown, errors) = (text(&output.stdout), text(&output.stderr));
    let mut parts = shown.split("----\n");
    let first = parts.next().unwrap_or_default();
    assert!(first.starts_with("exit 3\n"), "{shown}{errors}");
    first.has(&["10.9.0.1:5683 after", "10.9.0.2:5683 after"]);
    assert_eq!(first.matches("hello, this is 32 bytes").count(), 2);
    let objects: Vec<serde_json::Value> = parts
        .next()
        .unwrap_or_default()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(objects.len(), 2, "{shown}{errors}");
    assert_ne!(objects[0]["peer"], objects[1]["peer"]);
    assert!(objects[0]["peer"].as_str().unwrap().starts_with("[fe80:"));
    let lists = parts.next().unwrap_or_default();
    assert_eq!(lists.matches("</time>").count(), 2, "{shown}{errors}");
    let nobody = parts.next().unwrap_or_default();
    assert!(nobody.contains("no member of the group"), "{shown}{errors}");
    nobody.has(&["--interface"]);
}

#[test]
fn multicast_interoperates_with_libcoap() {
    let Some(output) = run(
        &["coap-client-notls", "coap-server-notls"],
        r"
        there coap-server-notls -A 0.0.0.0 -g 224.0.1.187 > /dev/null 2>&1 &
        there coap-server-notls -p 7000 -g ff02::fd -G v1 > /dev/null 2>&1 &
        $CAROB serve --bind [::]:8000 --join 224.0.1.187%v0 > here &
        until grep -q listening here; do sleep 0.05; done ; sleep 0.5
        there coap-client-notls -N -B 7 coap://224.0.1.187:8000/hello > c 2>&1 & c=$!
        $CAROB get coap://224.0.1.187/ --interface v0 > a & a=$!
        $CAROB get 'coap://[ff02::fd%25v0]:7000/' > b & b=$!
        wait $a $b $c
        for file in a b c; do cat $file; echo ----; done
        ",
    ) else {
        return;
    };
    let (shown, errors) = (text(&output.stdout), text(&output.stderr));
    let parts: Vec<&str> = shown.split("----\n").collect();
    assert!(parts.len() > 3, "{shown}{errors}");
    assert!(
        parts[0].starts_with("10.9.0.2:5683 after"),
        "{shown}{errors}"
    );
    assert!(parts[0].contains("libcoap"), "{shown}{errors}");
    assert!(parts[1].starts_with("[fe80::"), "{shown}{errors}");
    assert!(parts[1].contains("libcoap"), "{shown}{errors}");
    assert!(
        parts[2].contains("hello, this is 32 bytes"),
        "{shown}{errors}"
    );
}
