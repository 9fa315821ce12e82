//! `carob proxy` and its clients.

use crate::commands::harness::{Parts as _, Server, carob};
use crate::process::Scratch;

#[test]
fn forward_proxy_serves_allowed_hosts_only() {
    let server = Server::start();
    let proxy = Server::proxy("--allow 127.0.0.1");
    let hello = server.path("hello");
    let through = carob(&["get", &hello, "--proxy", &proxy.uri]);
    assert_eq!(through.quiet(), "hello, this is 32 bytes of text\n");
    let large = carob(&["get", &server.path("large"), "--proxy", &proxy.uri, "--raw"]);
    assert_eq!(large.bytes.len(), 1 << 20);
    let posted = carob(&["post", &server.path("count"), "7", "--proxy", &proxy.uri]);
    assert_eq!(posted.quiet(), "7");
    let observed = carob(&[
        "observe",
        &server.path("time"),
        "--proxy",
        &proxy.uri,
        "--count",
        "2",
        "--raw",
    ]);
    assert_eq!(observed.quiet().lines().count(), 2);
    let other = carob(&["get", "coap://127.0.0.2/", "--proxy", &proxy.uri]);
    let refused = other.refused(5);
    refused.has(&["5.05 Proxying Not Supported"]);
    let http = carob(&["get", "http://127.0.0.1/", "--proxy", &proxy.uri]);
    http.refused(5).has(&["5.05"]);
    let secure = carob("get coaps+tcp://h/ --proxy coap://192.0.2.1");
    let said = secure.refused(2);
    said.has(&["not secure", "hint:"]);
    assert_eq!(proxy.stop().quiet().lines().count(), 1);
}

#[test]
fn reverse_proxy_uses_separate_settings_for_each_side() {
    let server = Server::with("--tcp 127.0.0.1:0");
    let over_tcp = format!("/t={}", server.over("coap+tcp", ""));
    let over_udp = format!("/u={}", server.uri);
    let origin = server.uri.replace("coap://", "");
    let of_origin = format!("{origin}=fasor");
    let proxy = Server::proxy(&format!(
        "--route {over_tcp} --route {over_udp} --cc cocoa-plus --origin-cc cocoa-03 --origin-cc {of_origin} --origin-block-size 64 -v"
    ));
    for route in ["t", "u"] {
        let hello = carob(&["get", &proxy.path(&format!("{route}/hello"))]);
        assert_eq!(hello.quiet(), "hello, this is 32 bytes of text\n");
    }
    let links = carob(&["discover", &proxy.uri, "--raw"]);
    for link in ["</t/hello>", "</u/hello>", "</u/time>"] {
        links.quiet().has(&[link]);
    }
    let ran = proxy.stop();
    assert!(
        ran.stderr.contains("Hop-Limit"),
        "both sides are shown: {ran:?}"
    );
}

#[test]
fn slow_proxy_uses_pre_shared_keys_on_both_sides() {
    let scratch = Scratch::new();
    let keys = scratch.with("keys", "proxy:0x0123456789abcdef\n");
    let secured = ["--dtls", "127.0.0.1:0", "--psk-file", &*keys];
    let server = Server::with(&secured);
    let coaps = server.over("coaps", "").replace("localhost", "127.0.0.1");
    let route = format!("/s={coaps}");
    let options = ["--route", &*route, "--origin-psk-file", &*keys];
    let proxy = Server::proxy(&[&options[..], &secured].concat());
    let plain = carob(&["get", &proxy.path("s/hello")]);
    assert_eq!(plain.quiet(), "hello, this is 32 bytes of text\n");
    let through = proxy
        .over("coaps", "s/hello")
        .replace("localhost", "127.0.0.1");
    let secure = carob(&format!("get {through} --psk-file {keys}"));
    assert_eq!(secure.quiet(), "hello, this is 32 bytes of text\n");
    let stranger = Server::proxy(&format!("--route {route}"));
    let refused = carob(&["get", &stranger.path("s/hello")]);
    refused.refused(5).has(&["5.02 Bad Gateway"]);
}

#[test]
fn proxy_without_routes_or_with_bad_ones_names_the_remedy() {
    let nothing = carob("proxy --bind 127.0.0.1:0");
    nothing.refused(2).has(&["--allow"]);
    for (option, wrong, says) in [
        ("--route", "a=coap://h", "PATH=URI"),
        ("--route", "/a=http://h/", "HTTP is not supported"),
        ("--allow", "h/24", "ADDRESS/BITS"),
        ("--origin-cc", "h=fasor", "ADDRESS:PORT=NAME"),
        ("--hop-limit", "0", "1..=255"),
    ] {
        let ran = carob(&format!("proxy {option} {wrong}"));
        assert!(ran.refused(2).contains(says), "{wrong}: {ran:?}");
    }
    let unknown = carob("proxy --allow h --origin-cc cocoa-3");
    unknown.refused(2).has(&["did you mean \"cocoa-03\""]);
}
