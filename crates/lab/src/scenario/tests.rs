use carob_cc::time::Duration;
use carob_sim::link::{Discipline, ExtraDelay, LinkSpec, LossSpec};
use carob_sim::random::Probability;
use carob_sim::spec::{Reconnect, RunSpec, Transport};
use carob_sim::tcp::TcpSettings;
use carob_sim::tcp::settings::Algorithm;

use super::{Place, Scenario, builtin};
use crate::testing::{self, link, owned};

const LONG: &str = include_str!("../../scenarios/thesis/long.toml");

fn read(text: &str, overrides: &[&str]) -> Result<Scenario, String> {
    Scenario::read("long.toml", text, &owned(overrides)).map_err(|e| e.to_string())
}

fn spec(scenario: &Scenario, cell: &str, algorithm: usize) -> RunSpec {
    let cell = scenario.cell(cell).expect("a cell of that name");
    scenario.spec(cell, &scenario.algorithms()[algorithm], 1)
}

fn long(overrides: &[&str], cell: &str, algorithm: usize) -> RunSpec {
    spec(
        &read(LONG, overrides).expect("a valid scenario"),
        cell,
        algorithm,
    )
}

#[test]
fn thesis_long_spans_its_cells_in_the_order_of_their_names() {
    let scenario = read(LONG, &[]).expect("a valid scenario");
    assert_eq!(scenario.name(), "thesis/long");
    assert_eq!(scenario.cells().len(), 2 * 4 * 4);
    assert_eq!(scenario.cells()[0].name, "long-1c-none-2500");
    assert_eq!(scenario.cells()[3].name, "long-1c-none-inf");
    assert_eq!(scenario.cells()[31].name, "long-4c-high-inf");
    let applies: Vec<&str> = scenario
        .cells()
        .iter()
        .filter(|cell| scenario.algorithms()[0].applies_to(cell))
        .map(|cell| cell.name.as_str())
        .collect();
    assert_eq!(applies.len(), 8);
    assert!(applies.iter().all(|name| name.ends_with("-2500")));
}

#[test]
fn thesis_long_has_the_link_of_table_4() {
    let run = long(&[], "long-4c-high-28200", 0);
    let requests = run.measured.workload.requests();
    let blocks = requests.response_bytes / u32::from(requests.block_bytes);
    assert_eq!((run.measured.clients, blocks), (4, 400));
    let network = link(run);
    assert_eq!((network.mtu_bytes, network.header_bytes), (296, 28));
    let LinkSpec { down, up } = network.link;
    assert_eq!((down.rate_bps, up.rate_bps), (30_000, 60_000));
    assert_eq!(down.delay, Duration::from_millis(400));
    assert_eq!(up.delay, Duration::from_millis(200));
    assert_eq!((down.buffer.bytes, up.buffer.bytes), (28_200, 28_200));
    assert_eq!(down.extra, ExtraDelay::Constant(Duration::from_millis(15)));
    let LossSpec::PerPacket {
        burst_millipackets,
        error_fraction_ppm,
        ordinary,
        error,
    } = up.loss
    else {
        panic!("{:?}", up.loss)
    };
    assert_eq!((burst_millipackets, error_fraction_ppm), (1_600, 205_000));
    assert_eq!(
        (ordinary, error),
        (Probability::ppm(20_000), Probability::ppm(800_000))
    );
}

#[test]
fn max_retransmit_and_rto_max_come_from_profile_and_scenario() {
    let default = long(&[], "long-1c-none-2500", 0).measured.transmission;
    assert_eq!(
        (default.max_retransmit, default.rto_max),
        (20, Some(Duration::from_secs(60)))
    );
    let cocoa = long(&[], "long-1c-none-2500", 1).measured.transmission;
    assert_eq!(
        (cocoa.max_retransmit, cocoa.rto_max),
        (20, Some(Duration::from_secs(32)))
    );
}

#[test]
fn command_line_settings_override_the_scenario() {
    let set = ["rto_max=90 s"];
    for algorithm in [0, 1] {
        let own = long(&set, "long-1c-none-2500", algorithm).measured;
        assert_eq!(own.transmission.rto_max, Some(Duration::from_secs(90)));
    }
    let set = ["rto_max=90 s", "algorithm.default.rto_max=none"];
    let own = long(&set, "long-1c-none-2500", 0).measured;
    assert_eq!(own.transmission.rto_max, None);
}

#[test]
fn every_setting_left_open_by_the_thesis_is_a_key() {
    let random = long(&["extra_delay=10-20 ms"], "long-1c-none-2500", 0);
    let ExtraDelay::Uniform { low, high } = link(random).link.down.extra else {
        panic!()
    };
    assert_eq!(
        (low, high),
        (Duration::from_millis(10), Duration::from_millis(20))
    );

    let down = link(long(&["error_directions=down"], "long-1c-low-2500", 0)).link;
    assert_eq!(down.up.loss, LossSpec::None);
    assert_eq!(down.down.loss, LossSpec::Constant(Probability::ppm(20_000)));

    let burst = long(
        &["error_burst_packets=1.25", "error_fraction=25 %"],
        "long-1c-medium-2500",
        0,
    );
    let LossSpec::PerPacket {
        burst_millipackets,
        error_fraction_ppm,
        ..
    } = link(burst).link.down.loss
    else {
        panic!()
    };
    assert_eq!((burst_millipackets, error_fraction_ppm), (1_250, 250_000));

    let timed = long(
        &["error_clock=time", "error_burst_time=200 ms"],
        "long-1c-high-2500",
        0,
    );
    let LossSpec::PerTime { burst, shared, .. } = link(timed).link.up.loss else {
        panic!()
    };
    assert_eq!((burst, shared), (Duration::from_millis(200), false));

    let uplink = link(long(&["link.up.buffer=5 kB"], "long-1c-none-2500", 0)).link;
    assert_eq!(
        (uplink.up.buffer.bytes, uplink.down.buffer.bytes),
        (5_000, 2_500)
    );
}

#[test]
fn setting_a_swept_key_leaves_one_value_on_its_axis() {
    let scenario = read(LONG, &["buffer=5000 B", "clients=2"]).expect("a valid scenario");
    let names: Vec<&str> = scenario.cells().iter().map(|c| c.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "long-2c-none-5000",
            "long-2c-low-5000",
            "long-2c-medium-5000",
            "long-2c-high-5000"
        ]
    );
}

#[test]
fn constants_apply_to_the_controllers_that_define_them() {
    let scenario = read(LONG, &["cc.alpha=1/4"]).expect("default has no alpha and needs none");
    let settings = spec(&scenario, "long-1c-none-2500", 1)
        .measured
        .controller
        .settings()
        .to_string();
    assert!(settings.contains("alpha = 0.25"), "{settings}");
    let error = read(LONG, &["cc.alpha=much"]).expect_err("not a ratio");
    assert!(
        error.starts_with("--set cc.alpha=much: ") && error.contains("ratio"),
        "{error}"
    );
    let error = read(LONG, &["cc.k_weak=4", "run.algorithms=default,fasor"]).expect_err("nobody's");
    assert_eq!(
        error,
        "--set cc.k_weak=4: none of default, fasor has a constant \"k_weak\""
    );
    let error = read(LONG, &["algorithm.default.cc.alpha=1/4"]).expect_err("no such constant");
    assert!(
        error.contains("default has no constant \"alpha\""),
        "{error}"
    );
}

fn tcp(overrides: &[&str], cell: &str) -> TcpSettings {
    let newreno = ["run.algorithms=tcp-newreno"];
    let run = long(&[&newreno[..], overrides].concat(), cell, 0);
    match run.measured.transport {
        Transport::Connections(settings) => settings,
        Transport::Datagrams => panic!("over UDP"),
    }
}

#[test]
fn tcp_algorithms_have_the_settings_of_their_profile() {
    let scenario = read(LONG, &[]).expect("a valid scenario");
    let algorithms = ["default", "cocoa-001", "tcp-newreno", "tcp-bbr1"];
    assert!(
        scenario
            .algorithms()
            .iter()
            .map(|a| a.name.as_str())
            .eq(algorithms)
    );
    let run = spec(&scenario, "long-1c-none-14100", 3);
    let bbr = TcpSettings {
        congestion: Algorithm::Bbr1,
        ..TcpSettings::THESIS
    };
    assert_eq!(run.measured.transport, Transport::Connections(bbr));
    assert_eq!(
        spec(&scenario, "long-1c-none-14100", 0).measured.transport,
        Transport::Datagrams
    );
    assert_eq!(
        tcp(&["tcp.profile=rfc"], "long-1c-none-2500").rto_initial,
        Duration::from_secs(1)
    );
    // The profile's value, limited by the MTU.
    assert_eq!(tcp(&["tcp.profile=modern"], "long-1c-none-2500").mss, 256);
    assert_eq!(
        tcp(&["tcp.profile=modern", "mtu=1500 B"], "long-1c-none-2500").mss,
        1_460
    );
}

#[test]
fn bbr_runs_with_one_client_and_udp_with_the_smallest_buffer() {
    let scenario = read(LONG, &[]).expect("a valid scenario");
    let cells_of = |n: usize| {
        let algorithm = &scenario.algorithms()[n];
        let cells = scenario.cells().iter();
        cells.filter(|cell| algorithm.applies_to(cell)).count()
    };
    assert_eq!([0, 1, 2, 3].map(cells_of), [8, 8, 32, 16]);
}

#[test]
fn tcp_settings_of_command_line_override_the_file() {
    let cell = "long-1c-none-2500";
    let seconds = |set: &[&str]| tcp(set, cell).rto_max.as_micros() / 1_000_000;
    assert_eq!(seconds(&[]), 120);
    // One cap for both transports, unless TCP has its own.
    assert_eq!(seconds(&["rto_max=60 s"]), 60);
    assert_eq!(seconds(&["rto_max=60 s", "tcp.rto_max=30 s"]), 30);
    assert_eq!(
        seconds(&["algorithm.tcp-newreno.rto_max=20 s", "tcp.rto_max=30 s"]),
        20
    );
    assert_eq!(
        seconds(&["algorithm.tcp-newreno.tcp.rto_max=10 s", "rto_max=60 s"]),
        10
    );
    assert!(seconds(&["rto_max=none"]) > 1_000_000_000);
    let in_file = with(
        "profile = \"thesis\"",
        "profile = \"thesis\"\nsack = true\nrto_max = \"90 s\"",
    );
    let scenario = read(&in_file, &["rto_max=60 s"]).expect("a valid scenario");
    let Transport::Connections(tcp) = spec(&scenario, cell, 2).measured.transport else {
        panic!("over UDP")
    };
    assert!(tcp.sack);
    assert_eq!(tcp.rto_max, Duration::from_secs(60));
}

#[test]
fn invalid_tcp_settings_are_errors_with_place_and_hint() {
    for (set, part) in [
        ("tcp.ack_dellay=1 s", "did you mean \"tcp.ack_delay\"?"),
        ("tcp.ack_delay=200", "tcp.ack_delay = \"200\": expected"),
        ("tcp.congestion=cubic", "unknown key"),
        (
            "tcp.mss=1460",
            "--set tcp.mss=1460: tcp.mss 1460 B makes packets of 1500 B, but link.mtu is 296 B",
        ),
        ("tcp.ack_every=0", "--set tcp.ack_every=0: tcp.ack_every: "),
        (
            "tcp.profile=linux",
            "expected thesis or kernel or rfc or modern",
        ),
        ("algorithm.default.tcp.mss=100", "default is not over TCP"),
        (
            "algorithm.tcp-bbr1.cc.alpha=1/4",
            "tcp-bbr1 has no constant \"alpha\"",
        ),
        ("run.algorithms=tcp-newren", "did you mean \"tcp-newreno\"?"),
    ] {
        let error = read(LONG, &[set]).expect_err(set);
        assert!(error.contains(part), "{set}: {error}");
    }
}

#[test]
fn patterns_select_tcp_algorithms_and_all_selects_udp() {
    let names = |list: &str| -> Vec<String> {
        let set = format!("run.algorithms={list}");
        let scenario = read(LONG, &[&set]).expect("a valid scenario");
        scenario
            .algorithms()
            .iter()
            .map(|a| a.name.clone())
            .collect()
    };
    let tcp = ["tcp-newreno", "tcp-cubic", "tcp-bbr1", "tcp-bbr3"];
    assert_eq!(names("tcp-*"), tcp);
    assert!(names("all").iter().all(|name| !name.starts_with("tcp-")));
    assert_eq!(names("*").len(), names("all").len() + tcp.len());
}

#[test]
fn queue_disciplines_are_keys_of_the_link() {
    let queue = |set: &[&str]| {
        let run = long(set, "long-1c-none-14100", 2);
        link(run).link.down.buffer.discipline
    };
    assert_eq!(queue(&[]), Discipline::DropTail);
    let Discipline::CoDel(codel) = queue(&["queue=codel", "codel_interval=700 ms"]) else {
        panic!("CoDel")
    };
    // A packet of 296 B takes 78.9 ms at 30 kbit/s, more than 5 ms.
    assert_eq!(codel.target, Duration::from_micros(78_933));
    assert_eq!(
        (codel.interval, codel.ecn),
        (Duration::from_millis(700), false)
    );
    for (set, part) in [
        (
            ["queue=codel", "codel_interval=0 s"],
            "link.codel_interval is 0",
        ),
        (["queue=tail", "ecn=on"], "expected drop-tail or codel"),
    ] {
        let error = read(LONG, &set).expect_err("impossible");
        assert!(error.contains(part), "{error}");
    }
}

/// The text of the scenario with one line replaced.
fn with(line: &str, replacement: &str) -> String {
    assert!(LONG.contains(line), "{line}");
    LONG.replacen(line, replacement, 1)
}

#[test]
fn an_unknown_key_names_its_place_and_the_nearest_key() {
    let text = with("rate = \"30 kbit/s\"", "rat = \"30 kbit/s\"");
    let line = text
        .lines()
        .position(|l| l.starts_with("rat ="))
        .expect("the line")
        + 1;
    assert_eq!(
        read(&text, &[]).expect_err("an unknown key"),
        format!(
            "long.toml:{line}:1: unknown key \"link.down.rat\"; did you mean \"link.down.rate\"?"
        )
    );
    assert_eq!(
        read(LONG, &["eror=low"]).expect_err("an unknown key"),
        "--set eror=low: unknown key \"eror\"; did you mean \"link.error\"?"
    );
    assert_eq!(
        read(LONG, &["link.down=1"]).expect_err("a table"),
        "--set link.down=1: unknown key \"link.down\"; did you mean \"link.down.rate\"?"
    );
}

#[test]
fn an_ambiguous_key_lists_its_candidates() {
    let error = read(LONG, &["rate=1 Mbit/s"]).expect_err("two rates");
    assert!(error.contains("link.down.rate or link.up.rate"), "{error}");
}

#[test]
fn a_wrong_unit_names_the_units_accepted() {
    let text = with("rate = \"30 kbit/s\"", "rate = \"30 kbps\"");
    let error = read(&text, &[]).expect_err("no unit of rate");
    assert!(error.contains("link.down.rate = \"30 kbps\""), "{error}");
    assert!(error.contains("kbit/s, Mbit/s"), "{error}");
    let text = with("delay = \"400 ms\"", "delay = 400");
    let error = read(&text, &[]).expect_err("no unit");
    assert!(error.contains("us, ms, s, min, h"), "{error}");
}

#[test]
fn errors_of_impossible_scenarios_state_the_reason() {
    for (set, why) in [
        ("block=512 B", "link.mtu is 296 B"),
        ("block=200 B", "power of two"),
        ("buffer=200 B", "too small for a packet"),
        ("link.down.rate=0 bit/s", "nothing would ever arrive"),
        ("error_burst_packets=0.5", "one packet or more"),
        ("error_fraction=100 %", "cannot hold all packets"),
        ("ack_random_factor=0.5", "below 1"),
        ("ack_timeout=0 s", "ack_timeout is 0"),
    ] {
        let error = read(LONG, &[set]).expect_err(set);
        assert!(error.contains(why) && error.contains(set), "{set}: {error}");
    }
}

#[test]
fn duplicate_cell_names_are_rejected() {
    let error = read(&with("-{buffer}\"", "\""), &[]).expect_err("buffer is not in the name");
    assert!(error.contains("cell must name {buffer}"), "{error}");
    let error = read(&with("{clients}c", "{nodes}c"), &[]).expect_err("nodes is not swept");
    assert!(error.contains("{nodes}, which is not swept"), "{error}");
    let error =
        read(&with("clients = [1, 4]", "clients = [1, 1]"), &[]).expect_err("twice the same");
    assert!(error.contains("two cells would be called"), "{error}");
}

#[test]
fn an_unknown_algorithm_suggests_the_nearest_name() {
    let names = ["cocoa-01".to_owned()];
    let error = Scenario::with_algorithms("long.toml", LONG, &[], Some(&names)).expect_err("none");
    assert!(
        error.to_string().contains("did you mean \"cocoa-0"),
        "{error}"
    );
}

#[test]
fn scenario_hash_covers_the_settings_that_affect_results() {
    let hash = |text: &str, set: &[&str]| read(text, set).expect("a valid scenario").hash();
    let base = hash(LONG, &[]);
    assert_eq!(base, hash(&with("[sweep]", "# a comment\n[sweep]"), &[]));
    assert_eq!(base, hash(&with("seeds = 20", "seeds = 3"), &[]));
    assert_eq!(
        base,
        hash(&with("buffer = [\"2500 B\"", "buffer = [\"2.5 kB\""), &[])
    );
    assert_eq!(base, hash(LONG, &["link.up.rate=60000 bit/s"]));
    assert_eq!(base, hash(LONG, &["link.error_burst_packets=1.6"]));
    assert_ne!(base, hash(LONG, &["link.up.rate=60001 bit/s"]));
    assert_ne!(base, hash(LONG, &["cc.alpha=1/4"]));
    assert_ne!(base, hash(LONG, &["buffer=2500 B"]));
    let cell = |set: &[&str]| {
        read(LONG, set)
            .expect("a valid scenario")
            .cell("long-1c-none-2500")
            .expect("a cell")
            .hash
    };
    assert_eq!(cell(&[]), cell(&["buffer=2500 B"]));
}

#[test]
fn a_cell_name_finds_its_scenario() {
    let (found, cell) = builtin::find("thesis/long-1c-none-2500").expect("a scenario");
    assert_eq!(
        (found.name, cell),
        ("thesis/long", Some("long-1c-none-2500"))
    );
    assert_eq!(builtin::find("thesis/long").expect("a scenario").1, None);
    assert!(builtin::find("thesis/longer").is_none());
}

#[test]
fn every_scenario_file_is_built_in_and_valid() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    let mut files = Vec::new();
    for study in std::fs::read_dir(&root).expect("scenarios/") {
        let study = study.expect("an entry");
        for file in std::fs::read_dir(study.path()).into_iter().flatten() {
            let name = file
                .expect("an entry")
                .file_name()
                .into_string()
                .expect("a plain name");
            if let Some(family) = name.strip_suffix(".toml") {
                files.push(format!("{}/{family}", study.file_name().to_string_lossy()));
            }
        }
    }
    files.sort();
    let mut names: Vec<&str> = builtin::ALL.iter().map(|b| b.name).collect();
    names.sort_unstable();
    assert_eq!(files, names);
    for built_in in builtin::ALL {
        let scenario = Scenario::read(built_in.name, built_in.text, &[]).expect(built_in.name);
        assert_eq!(scenario.name(), built_in.name);
    }
}

#[test]
fn cells_show_numbers_as_numbers_and_infinity_as_text() {
    let scenario = read(LONG, &[]).expect("a valid scenario");
    let json = |name| serde_json::Value::Object(scenario.cell(name).expect("a cell").to_json());
    assert_eq!(
        json("long-1c-none-2500"),
        serde_json::json!({"clients": 1, "error": "none", "buffer": 2500})
    );
    assert_eq!(json("long-4c-high-inf")["buffer"], "inf");
}

const SHORT: &str = include_str!("../../scenarios/thesis/short.toml");

#[test]
fn thesis_short_has_the_cells_of_its_grid_and_conditional_settings() {
    let scenario = read(SHORT, &[]).expect("a valid scenario");
    assert_eq!(scenario.cells().len(), 2 * 6 * 4 * 4);
    let by_default = scenario.cells().iter().filter(|cell| cell.is_default);
    assert_eq!(by_default.count(), 2 * (6 * 4 + 3));
    let start = |cell| spec(&scenario, cell, 0).measured.start.high;
    assert_eq!(start("short-random-10c-none-inf"), Duration::from_secs(1));
    assert_eq!(start("short-random-50c-none-inf"), Duration::from_secs(10));
    let family = scenario.describe(None);
    let spread = family.iter().find(|d| d.path == "workload.start_spread");
    assert_eq!(spread.map(|d| d.values.len()), Some(2));
    // The command line goes over what holds in some cells.
    let typed = read(SHORT, &["start_spread=0-3 s"]).expect("a valid scenario");
    let crowd = spec(&typed, "short-random-50c-none-inf", 0);
    assert_eq!(crowd.measured.start.high, Duration::from_secs(3));
}

#[test]
fn random_clients_send_batches_of_60_byte_messages() {
    let scenario = read(SHORT, &[]).expect("a valid scenario");
    let of = |cell| {
        let group = spec(&scenario, cell, 0).measured;
        group.workload.requests().clone()
    };
    assert_eq!(of("short-continuous-10c-none-inf").batches, None);
    let random = of("short-random-10c-none-inf");
    let batches = random.batches.expect("batches");
    assert_eq!((batches.least, batches.most), (1, 10));
    assert_eq!(batches.reconnect, Reconnect::ClosedByBoth);
    // Header 4, Uri-Path 6, marker 1; header 4, marker 1.
    assert_eq!((random.request_bytes, random.response_bytes), (49, 55));
}

#[test]
fn conditional_settings_must_match_the_sweep() {
    let short = |from: &str, to: &str| read(&SHORT.replace(from, to), &[]).expect_err("a fault");
    for (from, to, says) in [
        ("if.clients = [50,", "if.clients = [51,", "51 is not swept"),
        ("if.clients =", "if.rate =", "rate"),
        (
            "start_spread = \"0-10 s\"",
            "buffer = \"2500 B\"",
            "where.crowds sets link.buffer, which is swept",
        ),
        (
            "start_spread = \"0-10 s\"",
            "seeds = 3",
            "where.crowds.seeds",
        ),
        (
            "if.clients = [50, 100, 200, 400]\n",
            "",
            "needs where.crowds.if",
        ),
        ("error = [\"none\"]", "error = [\"some\"]", "some"),
        (
            "[link]\n",
            "[where.others]\nif.client = [\"random\"]\nstart_spread = \"0 s\"\n[link]\n",
            "another has set already",
        ),
    ] {
        let error = short(from, to);
        assert!(error.contains(says), "{to}: {error}");
    }
}

#[test]
fn default_names_derive_from_the_path_and_the_sweep() {
    let dropped = ["about", "study", "family", "cell"];
    let key = |line: &&str| dropped.contains(&line.split(' ').next().unwrap_or_default());
    let text: Vec<&str> = LONG.lines().filter(|line| !key(line)).collect();
    let scenario = Scenario::read("a/slow.toml", &text.join("\n"), &[]).expect("a valid one");
    assert_eq!(
        (scenario.name().as_str(), scenario.about()),
        ("own/slow", "slow")
    );
    let long = Scenario::read("thesis/long", LONG, &[]).expect("a valid one");
    assert_eq!(scenario.cells().len(), long.cells().len());
    assert!(
        scenario
            .cells()
            .iter()
            .all(|cell| cell.name.starts_with("slow-"))
    );
}

#[test]
fn all_errors_of_a_file_are_reported_together() {
    let text = "[workload]\nkind = \"blockwise-get\"\n";
    let errors = Scenario::read("bare.toml", text, &[]).expect_err("a bare file");
    let said = errors.to_string();
    for key in [
        "run.algorithms",
        "workload.response",
        "link.down.rate",
        "link.up.rate",
    ] {
        assert!(
            said.contains(&format!("\"{key}\" must be set")),
            "{key} in {said}"
        );
    }
    let text = LONG
        .replace("down.rate", "down.rat")
        .replace("buffer = [\"2500 B\"", "buffer = [\"2500 furlongs\"")
        .replace("seeds = 20", "seeds = \"many\"");
    let errors = Scenario::read("long.toml", &text, &[]).expect_err("three faults");
    assert!(errors.iter().count() >= 2, "{errors}");
    let lines = errors.iter().map(|error| match error.place {
        Place::File { line, .. } => line,
        _ => usize::MAX,
    });
    assert!(lines.is_sorted(), "{errors}");
}

#[test]
fn command_line_settings_appear_in_titles_and_cells() {
    let of = |set: &[&str]| testing::scenario("carob/default", set);
    let plain = of(&[]);
    assert!(
        plain.about().contains("a download of 102.4 kB over"),
        "{}",
        plain.about()
    );
    assert_eq!(
        (plain.title("a"), plain.changes().len()),
        ("a".to_owned(), 0)
    );
    let changed = of(&["response=200 kB", "loss=5%", "error=none", "buffer=2500 B"]);
    assert!(changed.about().contains("a download of 200 kB over"));
    assert_eq!(
        changed.title("carob/default"),
        "carob/default with loss 5 %, response 200000 B, error none"
    );
    let cell = &changed.cells()[0];
    assert_eq!(cell.name, "default-none");
    assert_eq!(cell.title(), "default-none, loss 5 %, response 200000 B");
    let json = serde_json::Value::Object(cell.to_json());
    assert_eq!(
        json,
        serde_json::json!({"error": "none", "loss": 5.0, "response": 200_000})
    );
    assert_eq!(cell.compare_with, "");
    assert_eq!(
        of(&["error=high"]).cells()[0].compare_with,
        "thesis/long-1c-high-2500"
    );
    assert_eq!(
        of(&["cc.k_weak=4"]).cells()[0].compare_with,
        "thesis/long-1c-none-2500"
    );
}

#[test]
fn an_alias_selects_its_controller() {
    let text = LONG.replace("[algorithm.default]", "[algorithm.cocoa]");
    let names = ["cocoa".to_owned()];
    let scenario = Scenario::with_algorithms("long.toml", &text, &[], Some(&names));
    let scenario = scenario.expect("a valid one");
    assert_eq!(scenario.algorithms()[0].name, "cocoa-03");
    let names = ["bbr".to_owned()];
    let error = Scenario::with_algorithms("long.toml", LONG, &[], Some(&names)).expect_err("none");
    assert!(
        error.to_string().contains("did you mean \"tcp-bbr1\"?"),
        "{error}"
    );
}

#[test]
fn unsupported_settings_of_unselected_cells_are_no_error() {
    let (file, _) = builtin::find("stress/path").expect("a scenario");
    let names = ["tcp-cubic".to_owned()];
    let read = |pattern| {
        let registry = carob_sim::registry::Registry::BUILT_IN;
        Scenario::with_cells(registry, file.name, file.text, &[], Some(&names), pattern)
    };
    let error = read(None).expect_err("server.service is of datagrams");
    assert!(error.to_string().contains("server.service"), "{error}");
    let chosen = read(Some("path-off-outage-*")).expect("outages are of both");
    assert_eq!(chosen.cells().len(), 4);
    read(Some("path-off-server-5s")).expect_err("the cell itself");
    read(Some("nothing-like-it")).expect_err("all cells, where none fits");
}

#[test]
fn loss_on_the_command_line_replaces_an_unswept_error_class() {
    let (file, _) = builtin::find("carob/reports").expect("a scenario");
    let lines = file.text.lines().filter(|line| !line.starts_with("loss"));
    let fixed = lines.collect::<Vec<_>>().join("\n");
    let fixed = fixed.replace("error = \"none\"", "error = \"medium\"");
    let read = |set: &[&str]| read(&fixed, set);
    let loss = |set: &[&str]| {
        let scenario = read(set).expect("a valid one");
        let spec = scenario.spec(&scenario.cells()[0], &scenario.algorithms()[0], 1);
        link(spec).link.down.loss
    };
    let typed = loss(&["loss=5 %"]);
    assert_eq!(typed, LossSpec::Constant(Probability::ppm(50_000)));
    assert_ne!(loss(&[]), typed);
    let both = read(&["loss=5 %", "error=low"]).expect_err("both");
    assert!(both.contains("set error = \"none\""), "{both}");
    let runs = [
        "error=none",
        "loss=5 %",
        "loss_burst=3",
        "loss_burst_time=300 ms",
    ];
    let two = read(&runs).expect_err("two lengths");
    assert!(two.contains("set one"), "{two}");
    let error = testing::read("carob/default", &["loss=5 %"]).expect_err("error is swept");
    assert!(
        error.to_string().contains("set error = \"none\""),
        "{error}"
    );
}

#[test]
fn cells_keep_their_names_when_a_setting_in_the_name_changes() {
    let scenario = testing::scenario("thesis/long", &["buffer=5000 B"]);
    let names = |pattern: &str| -> Vec<&str> {
        let cells = scenario.cells_like(pattern);
        cells.iter().map(|cell| cell.name.as_str()).collect()
    };
    assert_eq!(names("long-1c-none-2500"), ["long-1c-none-5000"]);
    assert_eq!(names("long-1c-none-5000"), ["long-1c-none-5000"]);
    assert_eq!(names("long-1c-*-2500").len(), names("long-1c-*").len());
    assert_eq!(names("long-1c-none-2501"), [""; 0]);
}
