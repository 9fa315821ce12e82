//! `carob lab compare`, and `carob` without arguments.

use serde_json::{Value, json};

use crate::commands::harness::{Members as _, Parts as _};
use crate::process::Scratch;

fn json(folder: &Scratch, arguments: &str) -> Value {
    folder
        .lines(&format!("lab compare --json {arguments}"))
        .remove(0)
}

#[test]
fn nightly_no_arguments_print_nb_iot_result_without_report() {
    let folder = Scratch::new();
    let text = folder.stdout_of("");
    text.has(&[
        "Link: nb-iot: 30 kbit/s down, 60 kbit/s up, round trip 630 ms, 0.5 % lost down, 0.7 % up",
        "\nUse ",
        "of default CoAP's (95 % interval",
        "links nearby",
        "let config = carob::Config::default()",
        "carob_cc::algorithms::",
        "controllers are left out",
        "\nNext:\n  carob lab compare --all\n",
    ]);
    let mut lines = text.lines();
    assert!(
        lines.any(|line| line.starts_with("  carob get ") && line.contains("--cc ")),
        "{text}"
    );
    assert_eq!(folder.files(), Vec::<String>::new());
    let table = text.lines().filter(|line| line.contains("0.0 %"));
    assert!(table.clone().count() >= 2);
    assert!(
        table.clone().all(|line| line.chars().count() <= 80),
        "{text}"
    );
}

#[test]
fn nightly_suggestions_are_commands_that_succeed() {
    let folder = Scratch::new();
    let text = folder.stdout_of("lab compare --link umts --traffic command");
    let (_, next) = text.split_once("Next:\n").expect("suggestions");
    let commands = next
        .lines()
        .filter_map(|line| line.strip_prefix("  carob "));
    let commands: Vec<&str> = commands.collect();
    assert_eq!(commands.len(), 6, "{next}");
    for command in &commands[..3] {
        assert!(
            folder.stdout_of(*command).contains("Traffic: "),
            "{command}"
        );
    }
}

#[test]
fn json_has_the_link_the_ranking_and_the_recommendation() {
    let folder = Scratch::new();
    let numbers =
        "--down 60kbit/s --up '20 kbit/s' --rtt 0.3s --loss 5% --buffer 14kB --traffic command";
    let answer = json(&folder, numbers);
    let link = &answer["link"];
    link.includes(json!({"down_bps": 60_000, "rtt_us": 300_000, "loss_ppm": 50_000}));
    let ranked = answer["ranked"].as_array().expect("a list");
    assert_eq!(ranked[0]["configuration"]["controller"], "default");
    let place = answer["recommended"].as_u64().expect("a place") as usize;
    let best = &ranked[place];
    assert!(place > 0, "5 % are lost each way: {answer}");
    assert!(best["cost"]["high"].as_f64() < Some(1.0));
    assert_eq!(best["excluded"], serde_json::json!([]));
    let of = |one: &Value| one["measured"]["time_s"].as_f64();
    assert!(of(best) < of(&ranked[0]));
    // The same link from a file.
    let file = "[link]\ndown = \"60 kbit/s\"\nup = \"20 kbit/s\"\nrtt = \"300 ms\"\n\
                loss = \"5 %\"\nbuffer = \"14000 B\"\n";
    folder.with("my.toml", file);
    let from_file = "--link my.toml --traffic command --clients 20000 --cell 1";
    let from_file = json(&folder, from_file);
    assert_eq!(from_file["ranked"], answer["ranked"]);
    assert_eq!(from_file["traffic"]["cells"], 20_000);
}

#[test]
fn nightly_options_override_the_values_of_a_named_link() {
    let folder = Scratch::new();
    let command = "--traffic command --loss 5%";
    let named = json(&folder, &format!("--link umts {command}"));
    let expected = json!({"name": "umts, changed", "loss_ppm": 50_000, "down_bps": 348_000});
    named["link"].includes(expected);
    // Without a named link they override the default one.
    let unnamed = json(&folder, command);
    unnamed["link"].includes(json!({"loss_ppm": 50_000, "rtt_us": 630_000}));
    let text = "[link]\ndown = \"1 Mbit/s\"\nup = \"1 Mbit/s\"\nloss = \"1 %\"\n";
    folder.with("my.toml", text);
    let file = "--link my.toml --rtt 1s --buffer 9kB --traffic command";
    let own = json(&folder, file);
    let expected = json!({"rtt_us": 1_000_000, "buffer_bytes": 9_000, "loss_ppm": 10_000});
    own["link"].includes(expected);
}

#[test]
fn scenario_runs_over_a_link_file_and_a_built_in_link() {
    let folder = Scratch::new();
    let text = "# Fitted.\n[link]\ndown = \"90000 bit/s\"\nup = \"40000 bit/s\"\nrtt = \"70000 us\"\njitter = \"5000 us\"\nloss = \"2.5 %\"\nloss_burst = \"1.20\"\nmtu = \"1280 B\"\n";
    folder.with("fitted.toml", text);
    let run = |more: &str| {
        folder.lines(&format!(
            "lab run carob/default --seeds 3 --json --link {more}"
        ))
    };
    let fitted = run("fitted.toml");
    // The scenario sweeps error rates; the file's link has one.
    assert_eq!(fitted.len(), 3, "a row for each algorithm");
    let time = |rows: &[Value]| rows[0]["metrics"]["fct_s"]["p50"].as_f64();
    let slow = run("gprs");
    assert!(time(&slow) > time(&fitted), "{slow:?} {fitted:?}");
    let faster = run("gprs --set 'link.down.rate=800 kbit/s'");
    assert!(time(&faster) < time(&slow), "{faster:?} {slow:?}");
}

#[test]
fn nightly_custom_weights_and_traffic_change_the_costs() {
    let folder = Scratch::new();
    let traffic = "[workload]\nkind = \"exchanges\"\nrequests = 5\nresponse = \"100 B\"\n";
    folder.with("poll.toml", traffic);
    let own = json(&folder, "--link umts --traffic poll.toml --clients 3");
    assert_eq!(own["traffic"]["clients"], 3);
    let time = json(&folder, "--link umts --traffic poll.toml --weight time=500");
    assert!(time["weights"][0].as_f64() > own["weights"][0].as_f64());
    let answer = json(&folder, "--traffic command --sleepy 20s --link lte-m");
    let default = &answer["ranked"][0]["measured"];
    assert!(default["time_s"].as_f64() > Some(5.0), "{default}");
}
