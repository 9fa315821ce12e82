//! Scenario files with an application on another network, or with competing traffic.
use carob_lab::published::Print;
use carob_lab::report::{Subject, comparison};
use carob_lab::run::{Plan, RunRecord, Selection};
use carob_lab::scenario::{Scenario, builtin};
use carob_lab::summary::{columns, each_table, reading, table};
use carob_lab::text::dash;

fn run(name: &str, set: &[&str]) -> RunRecord {
    let (file, _) = builtin::find(name).unwrap();
    let set: Vec<String> = set.iter().map(|s| (*s).to_owned()).collect();
    let scenario = Scenario::read(file.name, file.text, &set).unwrap();
    let spec = scenario.spec(&scenario.cells()[0], &scenario.algorithms()[0], 1);
    carob_sim::run(&spec).unwrap()
}

#[test]
fn many_clients_transfer_blocks_over_a_mesh() {
    let set = [
        "workload.clients=60",
        "workload.response=128 B",
        "warm_up=3 min",
    ];
    let record = run("carob/crowd-mesh", &set);
    assert_eq!(record.flows.len(), 60);
    let complete = record.flows.iter().filter(|flow| flow.finished.is_some());
    assert!(complete.clone().count() >= 50, "{}", complete.count());
    for flow in complete {
        assert_eq!((flow.body_bytes, flow.exchanges), (128, 4));
    }
    let mesh = record.mesh.unwrap();
    let transmissions = mesh.nodes.iter().map(|node| node.mac.transmissions);
    // Four blocks per direction over several hops, some of them in two frames.
    assert!(transmissions.sum::<u64>() > 60 * 4 * 2 * 2);
}

#[test]
fn requests_over_a_mesh_have_response_times() {
    let set = [
        "workload.kind=exchanges",
        "requests=3",
        "request=20 B",
        "response=20 B",
        "clients=40",
        "warm_up=3 min",
        "seeds=2",
    ];
    let set = set.map(str::to_owned);
    let (file, _) = builtin::find("carob/crowd-mesh").unwrap();
    let scenario = Scenario::read(file.name, file.text, &set).unwrap();
    let plan = Plan::new(&scenario, &Selection::default()).unwrap();
    let outcome = plan.execute(carob_sim::run, |_, _| {}).unwrap();
    let rows = outcome.rows();
    let table = table(&rows, &Print::default(), false).to_string();
    for head in ["median s", "p95 s", "p99 s"] {
        assert!(table.contains(head), "{table}");
    }
    assert!(!table.contains("PDR") && !table.contains('–'), "{table}");
    assert!(columns(&rows).starts_with("median, p95 and p99 are of response times"));
    let sentences = reading(&outcome).join(" ");
    assert!(!sentences.contains("messages"), "{sentences}");
    let subject = Subject {
        name: "carob/crowd-mesh",
        outcome: &outcome,
        set: &set,
        command: String::new(),
    };
    let html = comparison(&subject, &Print::default()).unwrap().html();
    assert!(html.contains("Response times") && html.contains("Hops and neighbours."));
}

#[test]
fn every_column_of_requests_over_a_mesh_has_values() {
    let exchanges = [
        "workload.kind=exchanges",
        "requests=3",
        "request=20 B",
        "response=20 B",
        "clients=20",
        "warm_up=3 min",
        "link=ideal",
    ];
    let periodic = ["request_period=20 s", "requests=5", "after_failure=next"];
    let blocks = ["clients=20", "warm_up=3 min", "link=ideal"];
    let all: [(&str, &[&str]); 4] = [
        ("carob/crowd-mesh", &exchanges),
        ("carob/crowd-mesh", &[&exchanges[..], &periodic].concat()),
        ("carob/crowd-mesh", &blocks),
        ("carob/grenoble", &[]),
    ];
    for (name, set) in all {
        let (file, _) = builtin::find(name).unwrap();
        let set: Vec<String> = set.iter().map(|s| (*s).to_owned()).collect();
        let scenario = Scenario::read(file.name, file.text, &set).unwrap();
        let selection = Selection {
            seeds: Some(2),
            ..Selection::default()
        };
        let plan = Plan::new(&scenario, &selection).unwrap();
        let outcome = plan.execute(carob_sim::run, |_, _| {}).unwrap();
        let rows = table(&outcome.rows(), &Print::default(), true).to_string();
        let each = each_table(&outcome.each()).to_string();
        assert!(
            !rows.contains(&dash()) && !each.contains(&dash()),
            "{name}: {rows}{each}"
        );
    }
}

#[test]
fn notifications_run_beside_tcp_flows() {
    let short = ["workload.duration=5 min"];
    let record = run("carob/notifications-tcp", &short);
    let notifications = record.notifications.unwrap();
    let sum = |of: fn(&carob_sim::spec::Subscriber) -> u64| -> u64 {
        notifications.subscribers.iter().map(of).sum()
    };
    assert_eq!(notifications.subscribers.len(), 25);
    assert!(sum(|s| s.received) > 0 && sum(|s| s.received) <= sum(|s| s.sent));
    assert!(record.flows.is_empty());
    assert_eq!(record.others.len(), 2);
    // Both uploads continue, so that notifications meet a full buffer.
    assert!(record.others.iter().all(|flow| flow.segments > Some(50)));
    assert!(record.link.up.dropped_full > 0);
}

#[test]
fn devices_send_periodic_reports() {
    let set = ["workload.clients=100", "run.time_limit=5 min", "poll=1 s"];
    let record = run("carob/reports", &set);
    assert_eq!(record.flows.len(), 100);
    let answered: u32 = record.flows.iter().map(|flow| flow.answered).sum();
    assert!(answered >= 100 * 4, "{answered}");
    let bursts = record.flows.iter().filter(|flow| flow.answered >= 30);
    assert!((1..50).contains(&bursts.count()));
}

#[test]
fn keys_of_another_network_are_rejected_with_their_place() {
    let (file, _) = builtin::find("carob/crowd-mesh").unwrap();
    let refused = |set: &str| {
        let read = Scenario::read(file.name, file.text, &[set.to_owned()]);
        read.expect_err("it is refused").to_string()
    };
    let large = refused("workload.block=1024 B");
    assert!(large.contains("workload.block: a datagram"), "{large}");
    assert!(large.contains("(lowpan.datagram)"), "{large}");
    let read = |set: &[&str]| {
        let set: Vec<String> = set.iter().map(|s| (*s).to_owned()).collect();
        let read = Scenario::read(file.name, file.text, &set);
        read.expect_err("it is refused").to_string()
    };
    let request = read(&[
        "workload.kind=exchanges",
        "block=128 B",
        "request=120 B",
        "response=0 B",
    ]);
    assert!(
        request.contains("workload.request: a datagram"),
        "{request}"
    );
    let over_tcp = refused("run.algorithms=tcp-newreno");
    assert!(over_tcp.contains("not segments of TCP"), "{over_tcp}");
    let link = refused("link.mtu=1000 B");
    assert!(link.contains("leave it out"), "{link}");
    let early = refused("request_jitter=1 s");
    assert!(early.contains("set workload.request_period"), "{early}");
}
