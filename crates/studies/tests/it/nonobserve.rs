//! The scenarios of Betzler et al. 2016 over GPRS and UMTS match the study's data.

use std::path::Path;

use carob_cc::time::Duration;
use carob_lab::scenario::{Scenario, builtin};
use carob_sim::link::{Buffer, LossSpec};
use carob_sim::notifications::NotificationQueue;
use carob_sim::spec::{NetworkSpec, RunSpec, Workload};

/// The rows of a table of the study without its header, as lists of values.
fn table(name: &str) -> Vec<Vec<String>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("papers/nonobserve");
    let text = std::fs::read_to_string(root.join(name)).expect("a table of the study");
    let line = |line: &str| line.split(',').map(str::to_owned).collect();
    text.lines().skip(1).map(line).collect()
}

fn spec(cell: &str, algorithm: &str, set: &[&str]) -> RunSpec {
    let (file, short) = builtin::find(cell).expect("a scenario");
    let set: Vec<String> = set.iter().map(|s| (*s).to_owned()).collect();
    let scenario = Scenario::read(file.name, file.text, &set).expect("a valid one");
    let cell = scenario.cell(short.expect("a cell")).expect("of the study");
    let algorithm = scenario.algorithms().iter().find(|a| a.name == algorithm);
    scenario.spec(cell, algorithm.expect("of the study"), 1)
}

#[test]
fn slow_study_configurations_are_cells_with_link_and_rates() {
    let configurations = table("gprs_umts_configurations.csv");
    assert_eq!(configurations.len(), 27);
    let links = table("links.csv");
    for line in configurations {
        let [cell, link, _, interval, subscribers, resources, each, ..] = &line[..] else {
            panic!("{line:?}");
        };
        for algorithm in ["default", "observe-static", "cocoa-002"] {
            let spec = spec(cell, algorithm, &[]);
            let Workload::Notifications(told) = &spec.measured.workload else {
                panic!("{cell} notifies");
            };
            assert_eq!(spec.measured.clients.to_string(), *subscribers);
            let NetworkSpec::Link(network) = &spec.network else {
                panic!("{cell} is of a link");
            };
            assert_eq!(told.resources.to_string(), *resources);
            assert_eq!((spec.measured.clients * told.resources).to_string(), *each);
            assert_eq!(
                told.interval,
                format!("{interval} s").parse().expect("a time")
            );
            assert_eq!(told.duration, Duration::from_secs(600));
            assert_eq!((told.message_bytes, network.header_bytes), (64, 28));
            assert_eq!(told.queue, NotificationQueue::Queue);
            assert_eq!([told.queue_of_client, told.queue_of_all], [10, 1_000]);
            let of = links.iter().find(|l| l[0] == *link).expect("a link");
            let kbps = |text: &str| text.parse::<u64>().expect("a number") * 1_000;
            assert_eq!(
                network.link.up.rate_bps,
                kbps(&of[1]),
                "notifications take the uplink"
            );
            assert_eq!(network.link.down.rate_bps, kbps(&of[2]));
            let delay = format!("{} ms", of[4]).parse().expect("a delay");
            for direction in [&network.link.up, &network.link.down] {
                assert_eq!(direction.buffer, Buffer::packets(50));
                assert_eq!(direction.delay, delay);
                let lost = direction.loss.mean_ratio() * 100.0;
                assert!((lost - of[3].parse::<f64>().expect("a share")).abs() < 1e-6);
            }
        }
    }
}

#[test]
fn interpretations_are_settings() {
    let cell = "nonobserve/gprs-60s-100S5n";
    let link = |setting: &str| match spec(cell, "default", &[setting]).network {
        NetworkSpec::Link(network) => network.link,
        NetworkSpec::Mesh(_) => panic!("a mesh"),
    };
    let halved = link("delay_of=round-trip");
    assert_eq!(halved.up.delay, Duration::from_micros(302_500));
    assert_eq!(halved.down.delay, halved.up.delay);
    let only_up = link("error_directions=up");
    assert_eq!(only_up.down.loss, LossSpec::None);
    assert_ne!(only_up.up.loss, LossSpec::None);
    let told = |set: &[&str]| match spec(cell, "default", set).measured.workload {
        Workload::Notifications(told) => told,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        told(&["notification_queue=supersede"]).queue,
        NotificationQueue::Supersede
    );
    assert_eq!(told(&["offset=0-1 s"]).offset.high, Duration::from_secs(1));
    assert_eq!(told(&["max_age=none"]).max_age, None);
    assert_eq!(told(&[]).aggregate, None);
    let constants = told(&["aggregate=on", "aggregate_initial=320 B"]).aggregate;
    assert_eq!(constants.expect("a budget").initial_window, 320);
    let constants = told(&["aggregate=on"]).aggregate;
    assert_eq!(
        constants,
        Some(carob_cc::bottleneck_group::Constants::DEFAULT)
    );
}

#[test]
fn impossible_settings_are_refused_with_their_key() {
    let (file, _) = builtin::find("nonobserve/umts").expect("a scenario");
    let refused = |set: &[&str]| {
        let set: Vec<String> = set.iter().map(|s| (*s).to_owned()).collect();
        match Scenario::read(file.name, file.text, &set) {
            Err(error) => error.to_string(),
            Ok(_) => String::new(),
        }
    };
    let small = refused(&["message=16 B", "token_bytes=8"]);
    assert!(
        small.contains("workload.message") && small.contains("at least 22 bytes"),
        "{small}"
    );
    for (set, why) in [
        ("token_bytes=0", "a token has 1 to 8 bytes"),
        ("max_age=1500 ms", "whole seconds"),
        ("time_limit=5 min", "time limit"),
        ("run.algorithms=tcp-newreno", "datagrams"),
        ("server.service=1 ms", "no service time"),
        ("link.buffer=0 packets", "packets"),
    ] {
        let refusal = refused(&[set]);
        assert!(refusal.contains(why), "{set}: {refusal}");
    }
    let twice = refused(&["link.loss=1 %", "error=low"]);
    assert!(twice.contains("both say what is lost"), "{twice}");
}

#[test]
fn bottleneck_group_delivers_more_than_controllers_alone() {
    for (algorithm, without, with) in [
        ("default", 0.05..0.15, 0.98..1.0),
        ("observe-static", 0.45..0.55, 0.99..1.0),
        ("cocoa-002", 0.75..0.85, 0.99..1.0),
    ] {
        let delivered = |set: &[&str]| {
            let record = carob_sim::run(&spec("nonobserve/gprs-60s-100S5n", algorithm, set));
            let told = record.expect("a run").notifications.expect("notifications");
            let sum = |of: fn(&carob_sim::spec::Subscriber) -> u64| -> f64 {
                told.subscribers.iter().map(|s| of(s) as f64).sum()
            };
            sum(|s| s.received) / sum(|s| s.generated)
        };
        let (alone, shared) = (delivered(&[]), delivered(&["aggregate=on"]));
        assert!(without.contains(&alone), "{algorithm}: {alone}");
        assert!(with.contains(&shared), "{algorithm}: {shared}");
    }
}
