//! `carob proxy` and its clients.

use crate::commands::harness::{Parts as _, Server, carob};
use crate::process::Scratch;

#[test]
fn forward_proxy_serves_allowed_hosts_only() {
    let server = Server::start();
    let proxy = Server::proxy("--allow 127.0.0.1");
    let hello = server.path("hello");
    let through = |line: &str| carob(&format!("{line} --proxy {}", proxy.uri));
    let got = through(&format!("get {hello}"));
    assert_eq!(got.quiet(), "hello, this is 32 bytes of text\n");
    let large = through(&format!("get {} --raw", server.path("large")));
    assert_eq!(large.bytes.len(), 1 << 20);
    let posted = through(&format!("post {} 7", server.path("count")));
    assert_eq!(posted.quiet(), "7");
    let observed = through(&format!("observe {} --count 2 --raw", server.path("time")));
    assert_eq!(observed.quiet().lines().count(), 2);
    let other = through("get coap://127.0.0.2/");
    other.refused(5).has(&["5.05 Proxying Not Supported"]);
    through("get http://127.0.0.1/").refused(5).has(&["5.05"]);
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
