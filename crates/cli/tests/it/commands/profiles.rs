//! `carob profiles`, and what `--profile` changes.

use serde_json::Value;

use crate::commands::harness::{Parts as _, Server, carob};

/// The first timeout in seconds, read from `--timing`.
fn first_timer(server: &Server, arguments: &[&str]) -> f64 {
    let uri = server.path("hello");
    let ran = carob(&[&["get", &uri, "--json", "--timing"], arguments].concat());
    let answer = ran.json().remove(0);
    let timer = &answer["timing"]["first_rto_ms"];
    timer.as_f64().unwrap_or_else(|| panic!("{answer}")) / 1_000.0
}

#[test]
fn list_has_line_per_profile_and_show_a_reason_per_value() {
    let ran = carob(&["profiles"]);
    let text = ran.quiet();
    let all: Value = serde_json::from_str(carob("profiles --json").quiet()).unwrap();
    let names: Vec<&str> = (all.as_array().unwrap().iter())
        .map(|profile| profile["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["nb-iot", "lte-m", "thread", "lan"]);
    for profile in all.as_array().unwrap() {
        let name = profile["name"].as_str().unwrap();
        assert!(text.contains(&format!("\n{name} ")), "{name} in {text}");
        let explained = carob(&format!("profiles {name}"));
        let explained = explained.quiet();
        for reason in profile["reasons"].as_array().unwrap() {
            let (of, why) = (&reason["of"], reason["why"].as_str().unwrap());
            assert!(explained.contains(why), "{of} of {name} in {explained}");
            assert_eq!(reason["project_choice"], reason["source"].is_null());
        }
        let lifetime = profile["parameters"]["exchange_lifetime"].as_str().unwrap();
        assert!(explained.contains(&format!("EXCHANGE_LIFETIME  {lifetime}")));
    }
}

#[test]
fn unknown_profile_error_lists_the_profiles() {
    for command in [
        &["profiles", "lte-n"][..],
        &["get", "coap://localhost/", "--profile", "lte-n"],
        &["serve", "--profile", "lte-n"],
        &["bench", "coap://localhost/", "--profile", "lte-n"],
        &["proxy", "--profile", "lte-n"],
        &["proxy", "--origin-profile", "[::1]:5683=lte-n"],
    ] {
        let ran = carob(command);
        let said = ran.refused(2);
        said.has(&[
            "unknown transmission profile \"lte-n\"; did you mean \"lte-m\"",
            "`carob profiles` lists all",
        ]);
    }
}

#[test]
fn controller_option_overrides_the_profile() {
    let server = Server::start();
    let timer = first_timer(&server, &["--profile", "nb-iot"]);
    assert!((9.0..=13.5).contains(&timer), "{timer}");
    let timer = first_timer(&server, &["--profile", "lan"]);
    assert!((1.0..=1.5).contains(&timer), "{timer}");
    // `--cc default` replaces the controller; ACK_TIMEOUT stays the profile's.
    let timer = first_timer(&server, &["--profile", "nb-iot", "--cc", "default"]);
    assert!((9.0..=13.5).contains(&timer), "{timer}");
    let timer = first_timer(&server, &[]);
    assert!((2.0..=3.0).contains(&timer), "{timer}");
}

#[test]
fn block_size_option_overrides_the_profile() {
    let server = Server::with("--profile thread");
    let asked = |more: &str| {
        let uri = server.path(".well-known/core");
        carob(&format!("get {uri} -v {more}")).stderr
    };
    let by_server = asked("");
    by_server.has(&["Block2=0/1/64 "]);
    let smaller = asked("--profile thread --block-size 32");
    smaller.has(&["Block2=0/0/32 "]);
}
