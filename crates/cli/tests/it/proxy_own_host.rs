//! A forward-proxy and the other addresses of its host, in a network namespace.
#![cfg(target_os = "linux")]

use crate::groups::isolated;

const SCRIPT: &str = r#"
ip link set lo up
ip addr add 192.0.2.10/24 dev lo
$CAROB serve --bind 192.0.2.10:5700 > serve & $CAROB serve --bind 127.0.0.1:5700 > local &
$CAROB proxy --bind 127.0.0.1:5683 --allow '*' --allow 192.0.2.0/24 > any &
$CAROB proxy --bind 127.0.0.1:5684 --allow 192.0.2.10 > named &
for file in serve local any named; do until grep -q listening $file; do sleep 0.05; done; done
ask() { $CAROB get "$1" --proxy "coap://127.0.0.1:$2" --deadline 5s 2>&1 || true; }
ask coap://192.0.2.10:5700/hello 5683
ask coap://127.0.0.1:5700/hello 5683
ask 'coap://[64:ff9b::c000:20a]:5700/hello' 5683
ask coap://192.0.2.10:5700/hello 5684
"#;

#[test]
fn other_addresses_of_proxy_host_need_an_explicit_rule() {
    let Some(output) = isolated(&[], SCRIPT) else {
        return;
    };
    let stdout = String::from_utf8_lossy(&output.stdout);
    let lines: Vec<&str> = stdout
        .lines()
        .filter(|line| line.contains("5.05") || line.starts_with("hello"))
        .collect();
    let [any, loopback, translated, named] = lines[..] else {
        panic!("{output:?}");
    };
    for refused in [any, loopback, translated] {
        assert!(refused.contains("5.05"), "{output:?}");
    }
    assert!(named.starts_with("hello"), "{output:?}");
}
