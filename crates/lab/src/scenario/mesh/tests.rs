use carob_cc::time::Duration;
use carob_sim::mesh::spec::{
    CcaRange, Csma, Delivery, LowpanSpec, MacSpec, MeshSpec, NoRoute, NodeSpec, Position,
    RadioSpec, RplMode, RplSpec, Shape, TopologySpec,
};
use carob_sim::mesh::topology::TableLink;
use carob_sim::mesh_traffic::{BurstKind, DelayBins, Gaps, MeshTraffic, Period, Sink};
use carob_sim::random::Probability;
use carob_sim::spec::{NetworkSpec, RunSpec, Workload};

use crate::scenario::{Cell, Change, Scenario, builtin};
use crate::testing::{owned, scenario};

const LEAST: &str = r#"
    about = "a network"
    study = "carob"
    family = "network"
    cell = "network"
    run.algorithms = ["default"]
    [workload]
    kind = "mesh"
    message = "40 B"
    token_bytes = 2
    [traffic]
    load = "1 kbit/s"
"#;

fn read(text: &str, set: &[&str]) -> Result<RunSpec, String> {
    let scenario = Scenario::read("network.toml", text, &owned(set)).map_err(|e| e.to_string())?;
    let cell = &scenario.cells()[0];
    Ok(scenario.spec(cell, &scenario.algorithms()[0], 1))
}

fn mesh(set: &[&str]) -> MeshSpec {
    let spec = read(LEAST, set).expect("a valid one");
    match spec.network {
        NetworkSpec::Mesh(mesh) => mesh,
        NetworkSpec::Link(_) => panic!("a link"),
    }
}

fn traffic(set: &[&str]) -> MeshTraffic {
    match read(LEAST, set).expect("a valid one").measured.workload {
        Workload::MeshTraffic(traffic) => traffic,
        other => panic!("{other:?}"),
    }
}

fn wrong(set: &[&str]) -> String {
    read(LEAST, set).expect_err("it is wrong")
}

#[test]
fn neutral_keys_keep_the_simulators_defaults() {
    let mesh = mesh(&[]);
    assert_eq!(mesh.topology, TopologySpec::default());
    assert_eq!(mesh.radio, RadioSpec::default());
    assert_eq!(mesh.mac, MacSpec::default());
    assert_eq!(mesh.lowpan, LowpanSpec::default());
    assert_eq!(mesh.rpl, RplSpec::default());
    assert_eq!(mesh.node, NodeSpec::default());
    let constant = traffic(&[]).constant.expect("constant traffic");
    assert_eq!(constant.period, Period::Load(1_000));
    assert_eq!(traffic(&[]).counted_bytes, 40);
}

#[test]
fn explicit_mesh_keys_override_the_version() {
    let later = [
        "rpl.version=contiki3x",
        "csma=contiki3x",
        "lowpan.version=contiki3x",
    ];
    let set: Vec<&str> = later
        .into_iter()
        .chain([
            "max_link_metric=4",
            "no_route_buffer=8",
            "transmissions_max=3",
            "probing=0 s",
        ])
        .collect();
    let mesh = mesh(&set);
    assert_eq!(
        mesh.rpl,
        RplSpec {
            max_link_metric: Some(400),
            no_route: NoRoute::Buffer(8),
            probing: None,
            ..RplSpec::contiki3x()
        }
    );
    assert_eq!(mesh.rpl.mode, RplMode::NonStoring);
    assert_eq!(
        (mesh.mac.csma, mesh.mac.transmissions_max),
        (Csma::Contiki3x, 3)
    );
    assert_eq!(mesh.lowpan.mac_bytes_max, 125);
    assert!(!mesh.lowpan.reassembly_blocks);
    let any = self::mesh(&["rpl.version=contiki3x", "max_link_metric=0"]);
    assert_eq!(any.rpl.max_link_metric, None);
    let middle = self::mesh(&["rpl.version=contiki30"]).rpl;
    assert_eq!((middle.etx_divisor, middle.initial_etx), (256, 200));
}

#[test]
fn explicit_radio_keys_override_the_link() {
    let lossy = mesh(&["link=lossy"]);
    let Delivery::Drawn(points) = &lossy.radio.delivery else {
        panic!("{:?}", lossy.radio.delivery);
    };
    let mean: f64 = points
        .windows(2)
        .map(|two| {
            let share = two[1].1.as_f64() - two[0].1.as_f64();
            share * (two[0].0.as_f64() + two[1].0.as_f64()) / 2.0
        })
        .sum();
    assert!((mean - 0.9).abs() < 1e-6, "{mean}");
    assert!(lossy.mac.acknowledged);
    let once = mesh(&["link=nomacretx"]);
    assert_eq!(
        (&once.radio.delivery, once.mac.acknowledged),
        (&Delivery::Perfect, false)
    );
    let fixed = mesh(&[
        "link=lossy",
        "delivery=fixed",
        "ratio=80 %",
        "radio.cca=nothing",
    ]);
    assert_eq!(
        fixed.radio.delivery,
        Delivery::Fixed(Probability::ppm(800_000))
    );
    assert_eq!(fixed.radio.cca_range, CcaRange::Nothing);
}

#[test]
fn topologies_and_node_positions_have_names() {
    for (text, shape) in [
        ("chain", Shape::Chain(17)),
        ("chain-5", Shape::Chain(5)),
        ("7x7", Shape::Grid(7, 7)),
        ("dumbbell", Shape::Dumbbell),
        ("iotlab", Shape::IotLab),
        ("pint-by-data", Shape::PintByData),
        ("wilab-by-data", Shape::WilabByData),
    ] {
        assert_eq!(mesh(&[&format!("topology={text}")]).topology.shape, shape);
    }
    let places = mesh(&["mesh.root=centre", "sink=root", "second_sink=7"]).topology;
    assert_eq!(
        (places.root, places.sink, places.second_sink),
        (Position::Centre, Position::Root, Position::Node(7))
    );
    assert!(wrong(&["topology=ring"]).contains("chain-<nodes>"));
    assert!(wrong(&["mesh.root=root"]).contains("mesh.root"));
}

#[test]
fn bursts_have_a_sink_and_a_kind() {
    let set = [
        "burst=3",
        "burst_every=20 s",
        "burst_first=0-20 s",
        "burst_to=secondary",
        "burst_kind=notifications",
    ];
    let bursts = traffic(&set).bursts.expect("bursts");
    assert_eq!(
        (bursts.messages, bursts.to, bursts.kind),
        (3, Sink::Secondary, BurstKind::Notifications)
    );
    assert_eq!(bursts.every, Some(Duration::from_secs(20)));
    assert!(traffic(&[]).bursts.is_none());
}

#[test]
fn open_settings_of_traffic_have_keys() {
    let plain = traffic(&["burst=1"]);
    let (constant, burst) = (plain.constant, plain.bursts);
    assert_eq!(constant.expect("constant").gaps, Gaps::Fixed);
    let burst = burst.expect("bursts");
    assert_eq!((burst.spread, burst.queue), (Duration::ZERO, None));
    assert_eq!(plain.delay_bins, DelayBins::Generation);

    let set = [
        "burst=1",
        "burst_spread=1 s",
        "burst_buffer=8",
        "gaps=uniform",
        "gap_spread=50 %",
        "delay_bins=reception",
    ];
    let other = traffic(&set);
    assert_eq!(
        other.constant.expect("constant").gaps,
        Gaps::Uniform(500_000)
    );
    let burst = other.bursts.expect("bursts");
    assert_eq!(
        (burst.spread, burst.queue),
        (Duration::from_secs(1), Some(8))
    );
    assert_eq!(other.delay_bins, DelayBins::Reception);
    let drawn = traffic(&["gaps=exponential"]).constant;
    assert_eq!(drawn.expect("constant").gaps, Gaps::Exponential);
}

#[test]
fn root_tables_and_buffers_have_separate_keys() {
    let set = [
        "root_routes_max=40",
        "root_neighbours_max=20",
        "root_buffers=4",
        "rpl.routes_max=15",
    ];
    let mesh = mesh(&set);
    assert_eq!(
        (mesh.rpl.routes_max, mesh.rpl.root_routes_max),
        (15, Some(40))
    );
    assert_eq!(mesh.rpl.root_neighbours_max, Some(20));
    assert_eq!((mesh.mac.buffers, mesh.mac.root_buffers), (8, Some(4)));
}

#[test]
fn back_off_unit_is_converted_to_clock_ticks() {
    for (unit, ticks) in [("125 ms", 16), ("62500 us", 8), ("8 ms", 1), ("1 s", 128)] {
        let mesh = mesh(&[&format!("backoff_unit={unit}")]);
        assert_eq!(mesh.mac.backoff_unit, ticks, "{unit}");
    }
}

#[test]
fn keys_of_other_networks_are_rejected() {
    for key in [
        "link.up.rate=1 kbit/s",
        "clients=3",
        "server.service=1 s",
        "mix.second=default",
        "tcp.mss=100",
    ] {
        let said = wrong(&[key]);
        assert!(said.contains("wireless network"), "{key}: {said}");
    }
    let (file, _) = builtin::find("thesis/long").expect("a scenario");
    let said = read(file.text, &["radio.cca=nothing"]).expect_err("there is no radio");
    assert!(said.contains("set workload.kind to \"mesh\""), "{said}");
}

#[test]
fn impossible_networks_are_rejected_with_the_key() {
    for (set, key) in [
        (
            &["workload.message=16 B", "token_bytes=8"][..],
            "workload.message",
        ),
        (&["token_bytes=0"], "workload.token_bytes"),
        (&["period=1 s"], "traffic.period"),
        (&["load=0 bit/s"], "traffic.load"),
        (&["duration=13 h"], "workload.duration"),
        (&["ratios=75:0 70:100", "link=lossy"], "radio.ratios"),
        (&["ratios=75:10 90:100", "link=lossy"], "radio.ratios"),
        (&["noise=on", "noise_on=0 s"], "radio.noise_on"),
        (&["backoff_unit=3 ms"], "mac.backoff_unit"),
        (&["backoff_unit=2 s"], "mac.backoff_unit"),
        (
            &["burst=1", "burst_kind=notifications", "burst_buffer=2"],
            "traffic.burst_buffer",
        ),
        (&["run.algorithms=tcp-newreno"], "run.algorithms"),
    ] {
        let said = wrong(set);
        assert!(said.contains(key), "{set:?}: {said}");
    }
}

#[test]
fn conditional_constants_apply_to_their_cells() {
    let text = r#"
        about = "a network"
        study = "carob"
        family = "network"
        cell = "network-{variant}"
        run.algorithms = ["cocoa-plus"]
        sweep.variant = ["30", "45"]
        where.later.if.variant = ["45"]
        where.later.cc.ageing_large_after = "45 s"
        [workload]
        kind = "mesh"
        token_bytes = 2
        [traffic]
        load = "1 kbit/s"
    "#;
    let scenario = Scenario::read("network.toml", text, &[]).expect("a valid one");
    let after = |cell: usize| {
        let spec = scenario.spec(&scenario.cells()[cell], &scenario.algorithms()[0], 1);
        let mut found = String::new();
        spec.measured
            .controller
            .settings()
            .describe(&mut |constant| {
                if constant.name == "ageing_large_after" {
                    found = constant.value.to_string();
                }
            });
        found
    };
    assert_eq!((after(0), after(1)), ("30 s".to_owned(), "45 s".to_owned()));
    // One that has no such constant runs in these cells, too, as beside others.
    let names = ["default".to_owned()];
    let alone = Scenario::with_algorithms("network.toml", text, &[], Some(&names));
    assert_eq!(alone.expect("a valid one").cells().len(), 2);
    let wrong = text.replace("ageing_large_after", "ageing_larg_after");
    let said = Scenario::read("network.toml", &wrong, &[]).expect_err("no such constant");
    assert!(said.to_string().contains("ageing_larg_after"), "{said}");
}

#[test]
fn measured_links_define_topologies_and_delivery_ratios() {
    let links = |set: &[&str]| {
        let topology = mesh(set).topology;
        let Shape::Links(graph) = topology.shape.clone() else {
            panic!("{:?}", topology.shape);
        };
        (graph, topology)
    };
    let (pint, _) = links(&["topology=pint-measured"]);
    let (wilab, _) = links(&["topology=wilab-measured"]);
    assert_eq!((pint.regions.len(), pint.links.len()), (22, 2 * 83));
    assert_eq!((wilab.regions.len(), wilab.links.len()), (26, 2 * 100));
    // Half of PINT's links are near perfect.
    let perfect = |link: &&TableLink| link.delivery >= Probability::ppm(975_000);
    assert_eq!(pint.links.iter().filter(perfect).count(), 2 * 43);

    let csv = "mesh.links=a,b,etx\n7,3,4.0\n7,5,1.2\n";
    let own = ["topology=links", csv, "mesh.regions=3/7", "etx_share=50 %"];
    let (graph, topology) = links(&[&own[..], &["mesh.root=5", "sink=root"]].concat());
    // The root of the CSV comes first, then the others in the order of their numbers.
    assert_eq!(topology.root, Position::Node(2));
    assert_eq!(graph.regions, [1, 0, 2]);
    let ratio = |from, to| {
        let link = graph
            .links
            .iter()
            .find(|link| (link.from, link.to) == (from, to));
        link.expect("a link").delivery
    };
    assert_eq!(ratio(0, 1), Probability::ppm(500_000));
    assert_eq!(ratio(2, 0), Probability::ppm(953_463)); // the square root of 1 / 1.1
    let one_way = "mesh.links=# measured\nfrom,to,delivery\n1,2,0.5\n# the way back\n2,1,0.25\n";
    let (graph, _) = links(&["topology=links", one_way]);
    assert_eq!(graph.links[1].delivery, Probability::ppm(250_000));
    // Their ratios count without another key, and no other model goes over them.
    assert_eq!(
        mesh(&["topology=links", one_way]).radio.delivery,
        Delivery::Table
    );
    let (office, _) = links(&["topology=evalab-measured"]);
    let (marina, _) = links(&["topology=marina-measured"]);
    assert_eq!((office.regions.len(), office.links.len()), (34, 344));
    assert_eq!((marina.regions.len(), marina.links.len()), (23, 390));

    for (set, said) in [
        (&["topology=links"][..], "needs mesh.links"),
        (
            &["topology=links", one_way, "delivery=fixed"],
            "have delivery ratios of their own",
        ),
        (
            &["topology=links", "mesh.links=a,b,etx\n1,2,0.5\n"],
            "line 2",
        ),
        (
            &["topology=links", "mesh.links=a,b,etx\n1,2,1\n2,1,1\n"],
            "twice",
        ),
        (
            &["topology=links", "mesh.links=no-such-file.csv"],
            "no-such-file.csv",
        ),
        (&["topology=pint-measured", "mesh.root=2"], "mesh.root"),
        (
            &["topology=pint-measured", "mesh.regions=1 1"],
            "mesh.regions",
        ),
        (&["topology=pint-measured", "traced=2"], "mesh.traced"),
    ] {
        let text = wrong(set);
        assert!(text.contains(said), "{set:?}: {text}");
    }
}

#[test]
fn root_deaf_time_is_zero_by_default() {
    assert!(mesh(&[]).topology.root_deaf.is_zero());
    let deaf = mesh(&["root_deaf=9 ms"]).topology.root_deaf;
    assert_eq!(deaf, Duration::from_millis(9));
}

#[test]
fn client_stops_and_runs_without_noise_are_off_by_default() {
    let plain = mesh(&["noise=on"]);
    assert_eq!(traffic(&["noise=on"]).stops, None);
    let noise = plain.radio.interference.expect("noise");
    assert_eq!(noise.runs, Probability::ppm(1_000_000));
    assert!(plain.radio.cca_window.is_zero());

    let set = [
        "noise=on",
        "noise_runs=50 %",
        "stop=0.15 %",
        "stop_within=100 ms",
        "cca_window=128 us",
    ];
    let other = mesh(&set);
    let stops = traffic(&set).stops.expect("clients that stop");
    assert_eq!(
        (stops.probability, stops.within),
        (Probability::ppm(1_500), Duration::from_millis(100))
    );
    let noise = other.radio.interference.expect("noise");
    assert_eq!(noise.runs, Probability::ppm(500_000));
    assert_eq!(other.radio.cca_window, Duration::from_micros(128));
}

#[test]
fn description_of_a_links_file_shows_its_name() {
    let folder = std::env::temp_dir().join(format!("carob-named-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let file = folder.join("links.csv");
    std::fs::write(&file, "from,to,delivery\n1,2,0.5\n2,1,0.25\n").expect("a file");
    let name = format!("mesh.links={}", file.display());
    let set = [
        "mesh.topology=links",
        &name,
        "load=2 kbit/s",
        "mesh.sink=root",
    ];
    let read = scenario("cocoaplus/constant", &set);
    let _ = std::fs::remove_dir_all(&folder);
    let cells: Vec<&Cell> = read.cells().iter().collect();
    let facts = read.network(&cells);
    assert!(
        facts[0].1.contains("links.csv") && !facts[0].1.contains("delivery"),
        "{facts:?}"
    );
    let title = read.title("a");
    assert!(!title.contains('\n'), "{title}");
    let texts: Vec<String> = read.changes().iter().map(Change::text).collect();
    assert!(
        texts.iter().any(|text| text.ends_with("links.csv")),
        "{texts:?}"
    );
}
