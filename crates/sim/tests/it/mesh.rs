//! Wireless mesh networks: messages of nodes, reception at sinks, and counters.

use crate::specs::symmetric;
use carob_cc::time::{Duration, Instant};
use carob_sim::link::DirectionSpec;
use carob_sim::mesh::record::{MeshRecord, NodeRecord};
use carob_sim::mesh::spec::{
    CcaRange, Csma, Delivery, Interference, MeshSpec, NoRoute, Position, Routing, RplMode, RplSpec,
    Shape,
};
use carob_sim::mesh::{self, ConfigError};
use carob_sim::mesh_traffic::{
    self, BurstKind, Bursts, ClientStops, Constant, DelayBins, Gaps, MeshTraffic, Period, Sink,
};
use carob_sim::random::Probability;
use carob_sim::spec::RunError;
use carob_sim::spec::{
    ClientGroup, ControllerSpec, LinkNetworkSpec, NetworkSpec, Notifications, RunRecord, RunSpec,
    Span, Until, Workload,
};

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A network with its traffic.
#[derive(Clone)]
struct Mesh {
    network: MeshSpec,
    traffic: MeshTraffic,
}

impl std::ops::Deref for Mesh {
    type Target = MeshSpec;

    fn deref(&self) -> &MeshSpec {
        &self.network
    }
}

impl std::ops::DerefMut for Mesh {
    fn deref_mut(&mut self) -> &mut MeshSpec {
        &mut self.network
    }
}

/// The 6 x 6 grid of the CoCoA+ study with a load in bit/s.
fn grid(load: u32) -> Mesh {
    Mesh {
        network: MeshSpec {
            warm_up: seconds(60),
            duration: seconds(120),
            bin: seconds(1),
            ..MeshSpec::default()
        },
        traffic: MeshTraffic {
            constant: Some(Constant {
                period: Period::Load(load),
                start: None,
                gaps: Gaps::Fixed,
            }),
            counted_bytes: 96,
            message_bytes: 40,
            token_bytes: 2,
            ..MeshTraffic::default()
        },
    }
}

fn chain(nodes: u16, load: u32) -> Mesh {
    let mut mesh = grid(load);
    mesh.topology.shape = Shape::Chain(nodes);
    mesh
}

fn spec(mesh: Mesh) -> RunSpec {
    let nodes = ClientGroup::new(1, Workload::MeshTraffic(mesh.traffic));
    let time_limit = mesh::DURATION_MAX + mesh::DURATION_MAX;
    RunSpec {
        until: Until::TimeLimit,
        ..RunSpec::new(1, NetworkSpec::Mesh(mesh.network), nodes, time_limit)
    }
}

fn run(spec: &RunSpec) -> RunRecord {
    carob_sim::run(spec).expect("a possible run")
}

fn sum(record: &MeshRecord, of: fn(&NodeRecord) -> u64) -> u64 {
    record.nodes.iter().map(of).sum()
}

/// The record of a run, after checks that hold for every run.
fn checked(spec: &RunSpec) -> MeshRecord {
    let record = *run(spec).mesh.expect("there was a network");
    for node in &record.nodes {
        let NodeRecord {
            generated,
            app_drops,
            answered,
            failed,
            unfinished,
            sent,
            received,
            transmissions,
            retransmissions,
            spurious,
            ..
        } = *node;
        assert_eq!(transmissions, sent + retransmissions, "{node:?}");
        assert!(spurious <= retransmissions, "{node:?}");
        assert!(received <= sent, "{node:?}");
        if node.confirmable == sent {
            assert_eq!(
                generated,
                app_drops + answered + failed + unfinished,
                "{node:?}"
            );
            assert!(answered <= received, "{node:?}");
        }
    }
    let bins = &record.bins;
    let generated: u64 = bins.iter().map(|bin| u64::from(bin.generated)).sum();
    let received: u64 = bins.iter().map(|bin| u64::from(bin.received)).sum();
    assert_eq!(generated, sum(&record, |node| node.generated));
    assert_eq!(received, sum(&record, |node| node.received));
    record
}

#[test]
fn light_traffic_is_nearly_all_delivered() {
    let record = checked(&spec(grid(1_000)));
    let generated = sum(&record, |node| node.generated);
    // 1000 bit/s are 1.3 messages per second: 156 in two minutes.
    assert!((140..=170).contains(&generated), "{generated}");
    let received = sum(&record, |node| node.received);
    assert!(
        received * 100 >= generated * 90,
        "{received} of {generated}"
    );
    assert_eq!(record.delay.count, received);
    // The median, because a few messages wait for RPL and dominate the mean.
    let median = record.delay.quantile(500).expect("some arrived");
    assert!(median > millis(15) && median < millis(100), "{median}");
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_seed_another() {
    let first = spec(grid(6_000));
    let (one, again) = (run(&first), run(&first));
    assert_eq!(one, again);
    let mut other = first.clone();
    other.seed = 2;
    assert_ne!(one.trace_hash, run(&other).trace_hash);
}

#[test]
fn load_above_capacity_is_dropped_at_applications() {
    let [low, high] = [1_000, 20_000].map(|load| checked(&spec(grid(load))));
    let pdr = |record: &MeshRecord| {
        sum(record, |n| n.received) as f64 / sum(record, |n| n.generated) as f64
    };
    assert!(pdr(&low) > pdr(&high) + 0.2, "{} {}", pdr(&low), pdr(&high));
    assert!(sum(&high, |node| node.app_drops) > sum(&high, |node| node.failed));
}

#[test]
fn fixed_routes_need_no_messages_of_rpl() {
    let mut mesh = chain(5, 500);
    mesh.routing = Routing::Static(seconds(300));
    let record = checked(&spec(mesh));
    assert_eq!(sum(&record, |node| node.control), 0);
    assert_eq!(sum(&record, |node| node.parent_resets), 0);
    let hops: Vec<_> = record.nodes.iter().map(|node| node.hops).collect();
    assert_eq!(hops, [0, 1, 2, 3, 4].map(Some));
    let (generated, received) = (sum(&record, |n| n.generated), sum(&record, |n| n.received));
    assert!(received + 2 >= generated, "{received} of {generated}");
}

#[test]
fn a_sink_outside_is_reached_through_the_root_and_back() {
    for mesh in [
        {
            let mut mesh = chain(5, 500);
            mesh.rpl = RplSpec::contiki3x();
            mesh.lowpan.mac_bytes_max = 125;
            mesh
        },
        chain(5, 500),
    ] {
        let mut mesh = mesh;
        mesh.topology.outside = Some(millis(100));
        mesh.warm_up = seconds(240);
        let record = checked(&spec(mesh));
        let (generated, answered) = (sum(&record, |n| n.generated), sum(&record, |n| n.answered));
        assert!(answered + 3 >= generated, "{answered} of {generated}");
        let least = record.delay.quantile(1).expect("some arrived");
        assert!(least >= millis(100), "{least}: the way out is part of it");
    }
}

#[test]
fn bursts_are_simultaneous_and_counted_separately() {
    let mut mesh = grid(1_000);
    mesh.traffic.bursts = Some(burst());
    let record = checked(&spec(mesh));
    let busiest = record.bins.iter().max_by_key(|bin| bin.generated);
    let at = record.bins.iter().position(|bin| Some(bin) == busiest);
    assert_eq!(at, Some(60));
    assert!(record.bins[60].generated >= 34);
    assert!(record.burst_delay.count > 10);
    assert!(record.burst_delay.mean() > record.delay.mean());
    assert!(record.near_burst_delay.count >= record.burst_delay.count);
}

/// A burst of one POST of each node, 60 s after the warm-up.
fn burst() -> Bursts {
    Bursts {
        first: Span {
            low: seconds(60),
            high: seconds(60),
        },
        spread: Duration::ZERO,
        every: None,
        messages: 1,
        to: Sink::Primary,
        kind: BurstKind::Posts,
        queue: None,
        registers_again: None,
    }
}

#[test]
fn a_burst_may_be_spread_without_losing_its_metrics() {
    let mut mesh = grid(1_000);
    mesh.traffic.constant = None;
    mesh.traffic.bursts = Some(Bursts {
        spread: seconds(5),
        ..burst()
    });
    let record = checked(&spec(mesh));
    let generated = |bins: std::ops::Range<usize>| {
        let bins = record.bins[bins].iter();
        bins.map(|bin| u64::from(bin.generated)).sum::<u64>()
    };
    let all = sum(&record, |node| node.generated);
    assert_eq!(generated(60..65), all);
    // The 35 messages are spread over all seconds.
    for second in 60..65 {
        assert!(generated(second..second + 1) < all / 2, "{second}");
    }
    assert_eq!(record.burst_at, Some(seconds(60)));
    assert!(record.near_burst_delay.count > 10);
}

#[test]
fn burst_messages_may_be_queued() {
    let drops = |queue: Option<u16>| {
        let mut mesh = grid(4_000);
        mesh.traffic.bursts = Some(Bursts {
            messages: 3,
            queue,
            ..burst()
        });
        let record = checked(&spec(mesh));
        (
            sum(&record, |node| node.app_drops),
            record.burst_delay.count,
        )
    };
    // Without a queue two of three are dropped at once; 35 nodes or 34 of them send.
    let (none, some) = (drops(None), drops(Some(8)));
    assert!(some.0 + 50 < none.0, "{none:?} {some:?}");
    assert!(some.1 > none.1 + 30, "{none:?} {some:?}");
    // Constant messages behind the burst are still dropped.
    assert!(some.0 > 0);
}

#[test]
fn drawn_gaps_have_the_period_as_their_mean() {
    let generated = |gaps: Gaps| {
        let mut mesh = grid(4_000);
        mesh.duration = seconds(300);
        mesh.traffic.constant = Some(Constant {
            period: Period::Load(4_000),
            start: None,
            gaps,
        });
        let record = checked(&spec(mesh));
        let by_node = record.nodes.iter().map(|node| node.generated);
        let by_node: Vec<u64> = by_node.filter(|n| *n > 0).collect();
        let all = by_node.iter().sum::<u64>();
        let spread = by_node.iter().max().unwrap() - by_node.iter().min().unwrap();
        (all, spread)
    };
    let fixed = generated(Gaps::Fixed);
    assert!(fixed.1 <= 1, "{fixed:?}");
    let half = generated(Gaps::Uniform(500_000));
    let uniform = generated(Gaps::Uniform(1_000_000));
    let exponential = generated(Gaps::Exponential);
    // 4000 bit/s are 5.2 messages per second.
    for drawn in [half, uniform, exponential] {
        assert!((1_450..=1_680).contains(&drawn.0), "{drawn:?}");
    }
    // The deviation of a node's 45 messages is 0.29, 0.58 and 1 times the root of 45.
    assert!(fixed.1 < half.1 && half.1 < uniform.1 && uniform.1 < exponential.1);
}

#[test]
fn stopped_clients_keep_relaying() {
    let counts = |probability: u32, within: Duration| {
        let mut mesh = chain(4, 4_000);
        mesh.duration = seconds(300);
        mesh.traffic.stops = Some(ClientStops {
            probability: Probability::ppm(probability),
            within,
        });
        let record = checked(&spec(mesh));
        let stopped = record.nodes.iter().filter(|node| node.stopped_at.is_some());
        let stopped = stopped.count();
        (stopped, sum(&record, |node| node.generated), record)
    };
    let (none, all, _) = counts(0, seconds(300));
    assert_eq!(none, 0);
    // Responses are never this close together.
    assert_eq!(counts(1_000_000, Duration::from_micros(1)).1, all);
    let (some, fewer, record) = counts(20_000, seconds(300));
    assert!(some > 0 && fewer < all, "{some} {fewer} {all}");
    let stopped = record.nodes.iter().filter_map(|node| node.stopped_at);
    assert!(stopped.max() < Some(seconds(300)));
    // Every node stops at its second response; the first two take a few periods.
    let (every, few, _) = counts(1_000_000, seconds(300));
    assert!(every >= 2 && few * 5 < all, "{every} {few} {all}");
}

#[test]
fn round_trips_grow_by_hop() {
    let record = checked(&spec(chain(5, 100)));
    let mean = |node: &NodeRecord| {
        assert!(node.round_trips > 0);
        node.round_trip_sum.as_micros() / u64::from(node.round_trips)
    };
    let clients = record.nodes.iter().filter(|node| node.generated > 0);
    let means: Vec<u64> = clients.map(mean).collect();
    assert!(means.len() >= 3, "{means:?}");
    let sorted = means.windows(2).all(|two| two[0] > two[1]);
    assert!(sorted, "nearer to the sink, shorter: {means:?}");
}

#[test]
fn delays_are_counted_when_messages_are_generated_or_received() {
    let first_late = |delay_bins: DelayBins| {
        let mut mesh = grid(1_000);
        mesh.traffic.constant = None;
        mesh.traffic.bursts = Some(burst());
        mesh.traffic.delay_bins = delay_bins;
        let record = checked(&spec(mesh));
        let late = record.bins[62..].iter();
        late.map(|bin| u64::from(bin.received)).sum::<u64>()
    };
    assert_eq!(first_late(DelayBins::Generation), 0);
    // Retransmissions start after two seconds.
    assert!(first_late(DelayBins::Reception) > 5);
}

#[test]
fn notifications_reach_the_sink_that_observes() {
    let mut mesh = grid(1_000);
    mesh.traffic.queue = 7;
    mesh.traffic.constant = None;
    mesh.traffic.message_bytes = 64;
    mesh.traffic.bursts = Some(Bursts {
        first: Span {
            low: Duration::ZERO,
            high: seconds(20),
        },
        every: Some(seconds(20)),
        messages: 3,
        to: Sink::Primary,
        kind: BurstKind::Notifications,
        spread: Duration::ZERO,
        queue: None,
        registers_again: None,
    });
    let told = |controller: &str| {
        let mut spec = spec(mesh.clone());
        spec.measured.controller = ControllerSpec::new(controller, []).expect("a controller");
        checked(&spec)
    };
    let default = told("default");
    // 34 nodes, 6 rounds of 3.
    assert_eq!(sum(&default, |node| node.generated), 34 * 6 * 3);
    assert!(sum(&default, |node| node.received) > 34 * 6);
    assert_eq!(sum(&default, |node| node.confirmable), 0);
    let slow = told("observe-static");
    let waited = slow.burst_delay.quantile(900).expect("some arrived");
    assert!(waited > seconds(5), "{waited}: the third waits 6 s");
    assert!(sum(&slow, |node| node.mac.drops()) < sum(&default, |node| node.mac.drops()));
    let cocoa = told("cocoa-002");
    assert!(sum(&cocoa, |node| node.confirmable) > 0);
}

#[test]
fn notifications_of_devices_go_to_the_sink() {
    // The sink acknowledges the frames that it receives, in the other case those of registrations alone.
    let acknowledged = |has_device_each| {
        let mut spec = spec(chain(3, 1_000));
        spec.time_limit = seconds(400);
        spec.until = Until::Answered;
        spec.measured.workload = Workload::Notifications(Notifications {
            has_device_each,
            ..crate::notifications::told()
        });
        let record = run(&spec);
        let told = record.notifications.expect("notifications");
        assert!(told.subscribers[0].received > 50, "{:?}", told.subscribers);
        // The sink is at the far end of the chain.
        record.mesh.expect("a mesh").nodes[2].mac.acknowledgements
    };
    let (each, one) = (acknowledged(true), acknowledged(false));
    assert!(each > 100 && one < 10, "{each} and {one}");
}

#[test]
fn a_sink_that_was_removed_may_register_again() {
    // Every eighth notification of CoCoA is a CON. If it fails during noise, the sink is removed.
    let sent = |registers_again: Option<Duration>| {
        let mut mesh = grid(1_000);
        mesh.traffic.queue = 7;
        mesh.traffic.constant = None;
        mesh.traffic.message_bytes = 64;
        mesh.duration = seconds(600);
        mesh.radio.interference = Some(Interference {
            on: seconds(60),
            off: seconds(60),
            loss: Probability::ppm(900_000),
            busy: Probability::ppm(0),
            runs: Probability::ppm(1_000_000),
        });
        mesh.traffic.bursts = Some(Bursts {
            first: Span {
                low: Duration::ZERO,
                high: seconds(10),
            },
            every: Some(seconds(10)),
            kind: BurstKind::Notifications,
            registers_again,
            ..burst()
        });
        let mut spec = spec(mesh);
        spec.measured.controller = ControllerSpec::new("cocoa-002", []).expect("a controller");
        let record = checked(&spec);
        assert_eq!(sum(&record, |node| node.generated), 34 * 60);
        sum(&record, |node| node.transmissions - node.retransmissions)
    };
    let (never, later) = (sent(None), sent(Some(seconds(60))));
    assert!(later > never + 34, "{later} {never}");
}

#[test]
fn node_may_give_up_at_the_last_transmission() {
    // Nothing is delivered: every exchange fails.
    let mut mesh = chain(3, 100);
    mesh.routing = Routing::Static(seconds(200));
    mesh.traffic.constant = Some(Constant {
        period: Period::Each(seconds(300)),
        start: Some(Span::default()),
        gaps: Gaps::Fixed,
    });
    mesh.duration = seconds(290);
    mesh.node.processing = seconds(1_000);
    let failed = |gives_up| {
        let mut mesh = mesh.clone();
        mesh.traffic.gives_up_at_last_copy = gives_up;
        // Five transmissions with the shortest timeouts take 30 s; the last timeout is 32 s more.
        mesh.duration = seconds(50);
        let record = checked(&spec(mesh));
        assert_eq!(sum(&record, |node| node.transmissions), 5);
        sum(&record, |node| node.failed)
    };
    assert_eq!([true, false].map(failed), [1, 0]);
}

#[test]
fn packets_may_wait_for_a_route() {
    let lost = |no_route| {
        let mut mesh = chain(5, 2_000);
        // Traffic starts before routes exist.
        mesh.warm_up = Duration::from_millis(1_100);
        mesh.rpl.no_route = no_route;
        let record = checked(&spec(mesh));
        sum(&record, |node| node.route_drops)
    };
    let dropped = lost(NoRoute::Drop);
    assert!(dropped > 3, "{dropped}");
    assert!(lost(NoRoute::Buffer(8)) < dropped);
}

#[test]
fn every_kind_of_access_carries_traffic_over_lossy_links() {
    for csma in [
        Csma::Contiki27,
        Csma::Contiki30,
        Csma::Contiki3x,
        Csma::Ieee802154,
    ] {
        let mut mesh = grid(1_000);
        mesh.mac.csma = csma;
        mesh.radio.delivery = Delivery::Fixed(Probability::of(9, 10));
        mesh.radio.cca_range = CcaRange::Transmission;
        let record = checked(&spec(mesh));
        let (generated, received) = (sum(&record, |n| n.generated), sum(&record, |n| n.received));
        assert!(
            received * 2 > generated,
            "{csma:?}: {received} of {generated}"
        );
        assert!(sum(&record, |n| n.mac.losses) > 0, "{csma:?}");
    }
}

#[test]
fn a_thousand_nodes_run() {
    let mut mesh = grid(1_000);
    mesh.topology.shape = Shape::Grid(40, 25);
    mesh.rpl.routes_max = 1_000;
    mesh.warm_up = seconds(300);
    mesh.duration = seconds(10);
    let record = checked(&spec(mesh));
    assert_eq!(record.nodes.len(), 1_000);
    let joined = record.nodes.iter().filter(|node| node.parent.is_some());
    assert!(joined.count() > 900);
}

#[test]
fn networks_that_cannot_be_are_refused() {
    let refused = |change: fn(&mut Mesh)| {
        let mut mesh = grid(1_000);
        change(&mut mesh);
        match carob_sim::run(&spec(mesh)) {
            Err(why) => why,
            Ok(_) => panic!("a possible network"),
        }
    };
    let network = RunError::Mesh;
    assert_eq!(
        refused(|m| m.traced = Some(36)),
        network(ConfigError::Traced(36))
    );
    assert_eq!(
        refused(|m| m.bin = Duration::ZERO),
        network(ConfigError::NoTime)
    );
    assert!(matches!(
        refused(|m| m.topology.shape = Shape::Grid(0, 3)),
        RunError::Mesh(ConfigError::Topology(_))
    ));
    assert!(matches!(
        refused(|m| m.topology.edge_mm = 30_000),
        RunError::Mesh(ConfigError::Topology(_))
    ));
    assert_eq!(
        refused(|m| m.traffic.token_bytes = 9),
        RunError::MeshTraffic(mesh_traffic::ConfigError::Token)
    );
    assert!(matches!(
        refused(|m| m.traffic.message_bytes = 10),
        RunError::MeshTraffic(mesh_traffic::ConfigError::Message(_))
    ));
    assert!(matches!(
        refused(|m| m.traffic.message_bytes = 200),
        RunError::Mesh(ConfigError::Lowpan(_))
    ));
    let mut off_mesh = spec(grid(1_000));
    let link = symmetric(DirectionSpec::new(250_000, 1_280));
    off_mesh.network = NetworkSpec::Link(LinkNetworkSpec::new(link, 1_280));
    assert_eq!(
        carob_sim::run(&off_mesh).err(),
        Some(RunError::MeshTraffic(mesh_traffic::ConfigError::NoMesh))
    );
}

#[test]
fn a_traced_node_is_seen_in_every_span() {
    let record = checked(&spec(grid(3_000)));
    assert_eq!(record.trace.len(), record.bins.len());
    let last = record.trace.last().expect("spans");
    assert!(last.rank > 0 && last.parent.is_some() && last.etx >= 100);
    assert!(
        record
            .trace
            .iter()
            .any(|traced| traced.at > Instant::ZERO + seconds(100))
    );
}

#[test]
fn idle_network_has_a_tree_over_existing_links() {
    let idle = mesh::idle_network(&grid(1_000), 1).expect("a possible network");
    // Both directions of the 60 links of a 6 x 6 grid.
    assert_eq!(idle.links.len(), 120);
    for (node, parent) in (0..).zip(&idle.parents) {
        let is_link = |to: u16| idle.links.iter().any(|link| (link.0, link.1) == (node, to));
        assert_eq!(parent.is_none(), node == idle.topology.root, "{node}");
        assert!(parent.is_none_or(is_link), "{node}");
    }
    assert_eq!(idle.hops[usize::from(idle.topology.root)], Some(0));
    assert!(idle.hops.iter().flatten().max() >= Some(&10));
}

/// Delivery ratios in Cooja's runs (docs/concepts/simulator.md) and in the simulator's.
#[test]
fn grid_delivery_matches_cooja() {
    let acknowledged = |sink: Position, load: u32| -> f64 {
        let share = |seed| {
            let mut mesh = grid(load);
            mesh.topology.sink = sink;
            mesh.duration = seconds(340);
            mesh.rpl = RplSpec {
                mode: RplMode::Storing,
                ..RplSpec::contiki3x()
            };
            let mut spec = spec(mesh);
            spec.seed = seed;
            let record = checked(&spec);
            sum(&record, |n| n.answered) as f64 / sum(&record, |n| n.generated) as f64
        };
        (1..=3).map(share).sum::<f64>() / 3.0
    };
    let high = acknowledged(Position::OppositeCorner, 6_000);
    assert!((0.50..0.70).contains(&high), "{high}: 0.56 in Cooja");
    let low = acknowledged(Position::OppositeCorner, 3_000);
    assert!(low > 0.95, "{low}: 0.98 in Cooja");
    let near = acknowledged(Position::Root, 6_000);
    assert!(near > 0.90, "{near}: 0.94 in Cooja");
}
