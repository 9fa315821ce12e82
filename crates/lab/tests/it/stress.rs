//! Results of the stress suite (`scenarios/stress`) for default CoAP and for Linux TCP timers.
use carob_lab::run::RunRecord;
use carob_lab::scenario::{Scenario, builtin};

/// Runs per cell.
const SEEDS: u64 = 3;

/// Runs of the cells that match a pattern, with the cells' names.
fn runs(family: &str, pattern: &str, algorithm: &str) -> Vec<(String, RunRecord)> {
    let (file, _) = builtin::find(&format!("stress/{family}")).unwrap();
    let algorithms = [algorithm.to_owned()];
    let scenario = Scenario::with_algorithms(file.name, file.text, &[], Some(&algorithms)).unwrap();
    let cells = scenario.cells_like(&format!("{family}-{pattern}"));
    assert!(!cells.is_empty(), "{pattern}");
    let mut records = Vec::new();
    for cell in cells {
        for seed in scenario.first_seed()..scenario.first_seed() + SEEDS {
            let spec = scenario.spec(cell, &scenario.algorithms()[0], seed);
            let name = format!("{} of {algorithm}, seed {seed}", cell.name);
            records.push((name, carob_sim::run(&spec).unwrap()));
        }
    }
    records
}

fn is_complete(record: &RunRecord) -> bool {
    record.flows.iter().all(|flow| flow.finished.is_some())
}

#[test]
fn every_transfer_completes_despite_a_capacity_drop() {
    for algorithm in ["default", "linux-rto-kernel"] {
        for (name, record) in runs("capacity", "*", algorithm) {
            assert!(is_complete(&record), "{name}");
        }
        for (name, record) in runs("capacity", "*-off-x10", algorithm) {
            let flow = &record.flows[0];
            let each = flow.transmissions as f64 / flow.exchanges as f64;
            assert!(each < 1.15, "{name}: {each}");
        }
    }
}

#[test]
fn default_coap_completes_every_path_cell_except_30_percent_loss() {
    for (name, record) in runs("path", "*", "default") {
        let expected = !name.contains("-off-loss-30") && !name.contains("-non-loss-30");
        assert!(is_complete(&record) || !expected, "{name}");
    }
    let lossy = runs("path", "off-loss-30", "default");
    assert!(lossy.iter().all(|(_, record)| !is_complete(record)));
}

#[test]
fn default_coap_completes_a_request_storm_and_outages_of_a_lan() {
    for (name, record) in runs("crowd", "lan*", "default") {
        assert!(is_complete(&record), "{name}");
    }
    let answered = |algorithm| {
        let all = runs("crowd", "storm-200-512", algorithm);
        let failed: u64 = all
            .iter()
            .flat_map(|(_, r)| &r.flows)
            .map(|f| u64::from(f.failed))
            .sum();
        1.0 - failed as f64 / (all.len() * 200 * 3) as f64
    };
    let [default, linux] = ["default", "linux-rto-kernel"].map(answered);
    assert!(default > 0.985, "{default}");
    assert!(linux > 0.985, "{linux}");
}

#[test]
fn observers_with_carob_receive_as_many_states_as_with_default_coap() {
    let received = |cell: &str, algorithm| -> f64 {
        let all = runs("observe", cell, algorithm);
        let all = all
            .iter()
            .filter_map(|(_, record)| record.notifications.as_ref());
        let (mut received, mut due) = (0, 0);
        for subscriber in all.flat_map(|all| &all.subscribers) {
            received += subscriber.received;
            due += subscriber.generated;
        }
        received as f64 / due as f64
    };
    for (cell, tolerance) in [
        ("nb-iot-full", 0.01),
        ("outage-60s", 0.01),
        ("down-x5", 0.01),
        // One NON per round trip (RFC 7641 4.5.1), up to 25 s here; default CoAP has no such pace.
        ("down-x5-2500", 0.03),
        ("down-x20", 0.01),
    ] {
        let [default, carob] = ["default", "carob"].map(|algorithm| received(cell, algorithm));
        assert!(carob > default - tolerance, "{cell}: {carob} of {default}");
    }
}

#[test]
fn an_outage_of_one_second_costs_default_coap_one_timeout() {
    let times = |cell: &str| -> f64 {
        let all = runs("path", cell, "default");
        let each = all.iter().map(|(_, record)| {
            let flow = &record.flows[0];
            let finished = flow.finished.unwrap();
            finished.since(flow.started).as_micros() as f64 / 1e6
        });
        each.sum::<f64>() / all.len() as f64
    };
    // ACK_TIMEOUT (2 to 3 s), less the outage and a round trip of 0.45 s.
    let cost = times("off-outage-1s") - times("off-steady");
    assert!((1.0..4.0).contains(&cost), "{cost}");
}

#[test]
fn nb_iot_after_idle_has_the_measured_round_trip_times() {
    let (file, _) = builtin::find("stress/single").unwrap();
    let set = [
        "loss=0 %",
        "requests=10000",
        "time_limit=400 h",
        "run.algorithms=default",
    ];
    let scenario = Scenario::read(file.name, file.text, &set.map(str::to_owned)).unwrap();
    let cell = scenario.cell("single-nb-iot-idle").unwrap();
    let record = carob_sim::run(&scenario.spec(cell, &scenario.algorithms()[0], 1)).unwrap();
    let mut times: Vec<f64> = record
        .response_times
        .iter()
        .map(|time| time.as_micros() as f64 / 1e6)
        .collect();
    times.sort_by(f64::total_cmp);
    assert_eq!(times.len(), 10_000);
    // Oslo, Telia, coverage level 0. Tolerances: 10 % for p50 and p95, 30 % for p99.
    for (share, measured, tolerance) in [
        (0.05, 1.244, 0.05),
        (0.5, 2.271, 0.05),
        (0.95, 3.782, 0.05),
        (0.99, 15.6, 0.3),
    ] {
        let modelled = times[(share * 10_000.0) as usize];
        assert!(
            (modelled / measured - 1.0).abs() < tolerance,
            "{share}: {modelled}"
        );
    }
    // Idle before every request but the few that follow a slow one.
    assert!(times[100] > 1.2, "{}", times[100]);
}
