//! RPL in networks of many nodes.

mod network;

use carob_cc::random::Random as _;
use carob_cc::time::{Duration, Instant};
use carob_mesh::Node;
use carob_mesh::rpl::{INFINITE_RANK, Lollipop, Message, Output, Rpl, RplEvent, RplOption};
use carob_mesh::spec::{LoopRule, RplMode, RplSpec};
use carob_sim_core::random::{Probability, Stream};

use network::Network;

fn at(secs: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(secs)
}

#[test]
fn grid_forms_dodag_with_routes_to_all_in_storing_mode() {
    let as_intended = RplSpec {
        dao_moves_routes: true,
        ..RplSpec::default()
    };
    for (spec, seed) in [(as_intended, 1), (RplSpec::contiki30(), 2)] {
        let mut network = Network::grid(6, 6, &spec, seed);
        network.run_until(at(600));
        network.assert_dodag();
        for node in network.others() {
            let up = network.walk(node, 0).expect("a way up");
            let mut reversed = network.parents(node).expect("a way by parents");
            assert_eq!(up, reversed);
            reversed.pop();
            reversed.reverse();
            reversed.push(node);
            let down = network
                .walk(0, node)
                .unwrap_or_else(|| panic!("no way down to {node}"));
            assert_eq!(
                down.len(),
                up.len(),
                "{:?}: up {up:?}, down {down:?}",
                spec.release
            );
        }
        for (from, to) in [(35, 30), (5, 35), (14, 15), (20, 2)] {
            assert!(network.walk(from, to).is_some(), "{from} to {to}");
        }
        assert_eq!(network.rank_errors, 0);
    }
}

#[test]
fn source_routes_are_the_reversed_upward_paths() {
    // The second network loses every fifth frame for a while, so that parents change and the root learns it late. Routes
    // with lifetimes of half an hour are refreshed afterwards.
    for (seed, lossy, quiet) in [(3, 0, 600), (4, 600, 3_000)] {
        let spec = RplSpec::contiki3x();
        let mut network = Network::grid(6, 6, &spec, seed);
        if lossy > 0 {
            network.delivery = Probability::of(4, 5);
            network.run_until(at(lossy));
            network.delivery = Probability::of(1, 1);
        }
        network.run_until(at(quiet));
        network.assert_dodag();
        let mut hops = Vec::new();
        for node in network.others() {
            assert!(
                network.nodes[0].source_route(node, &mut hops),
                "no way down to {node}"
            );
            let mut up = network.parents(node).expect("a way by parents");
            up.pop();
            up.reverse();
            up.push(node);
            assert_eq!(hops, up, "seed {seed}");
        }
        assert!((1..36).all(|node| network.nodes[node].route_count() == 0));
    }
}

#[test]
fn storing_mode_works_with_3x_as_well() {
    let spec = RplSpec {
        mode: RplMode::Storing,
        ..RplSpec::contiki3x()
    };
    let mut network = Network::grid(5, 5, &spec, 3);
    network.run_until(at(900));
    network.assert_dodag();
    for node in network.others() {
        assert!(network.walk(0, node).is_some(), "no way down to {node}");
    }
}

#[test]
fn same_seed_same_messages() {
    let run = |seed| {
        let mut network = Network::grid(6, 6, &RplSpec::contiki3x(), seed);
        network.delivery = Probability::of(9, 10);
        network.run_until(at(400));
        (network.digest, network.sent, network.events)
    };
    let (first, second, other) = (run(5), run(5), run(6));
    assert_eq!(first, second);
    assert_ne!(first.0, other.0);
}

#[test]
fn quiet_network_sends_at_trickle_intervals() {
    let mut network = Network::grid(6, 6, &RplSpec::contiki3x(), 7);
    network.run_until(at(900));
    let [dis, dio, dao] = network.sent;
    network.run_until(at(4_500));
    // 36 nodes, one hour. Per node: a multicast DIO every 17.5 min and three earlier ones, a probe every 2 min, a few
    // urgent messages, and DAOs requested by the root's DIOs.
    let per_node = |count: u64| count / 36;
    assert_eq!(network.sent[0], dis);
    let dios = per_node(network.sent[1] - dio);
    assert!((20..60).contains(&dios), "{dios}");
    let daos = per_node(network.sent[2] - dao);
    assert!((2..12).contains(&daos), "{daos}");
}

#[test]
fn count_to_infinity_is_bounded() {
    // A line 0 - 1 - 2 - 3 - 4; the link between 0 and 1 breaks.
    let links = |cut: bool| {
        let mut links: Vec<Vec<Node>> = vec![vec![1], vec![0, 2], vec![1, 3], vec![2, 4], vec![3]];
        if cut {
            links[0].clear();
            links[1].remove(0);
        }
        links
    };
    for spec in [
        RplSpec::default(),
        RplSpec::contiki30(),
        RplSpec::contiki3x(),
    ] {
        let spec = RplSpec {
            max_link_metric: Some(800),
            ..spec
        };
        let mut network = Network::new(links(false), &spec, 11);
        network.run_until(at(300));
        network.assert_dodag();
        let limits: Vec<u32> = network
            .nodes
            .iter()
            .map(|node| u32::from(node.rank()) + u32::from(spec.max_rank_increase))
            .collect();
        network.links = links(true);
        for second in 301..1_500 {
            // Node 1 sends every second, so that it notices the broken link.
            if let Some(parent) = network.nodes[1].preferred_parent() {
                network.unicast(1, parent);
            }
            network.run_until(at(second));
            for (node, limit) in network.nodes.iter().zip(&limits).skip(1) {
                let rank = node.rank();
                let hop = u32::from(spec.min_hop_rank_increase);
                let may = rank == INFINITE_RANK
                    || u32::from(rank) / hop <= limit / hop
                    || spec.forgets_lowest_rank;
                assert!(may, "{rank} beyond {limit} at {second}");
            }
        }
        let poisoned = network
            .events
            .iter()
            .any(|(_, node, event)| *node == 1 && *event == RplEvent::Poisoned);
        assert!(poisoned, "{:?}", spec.release);
        // No node can reach the root, so no rank may stay finite for ever.
        let reaching = (1..5)
            .filter(|node| network.parents(*node).is_some())
            .count();
        assert_eq!(reaching, 0, "{:?}", spec.release);
        network.links = links(false);
        network.run_until(at(4_000));
        if spec.forgets_lowest_rank {
            network.assert_dodag();
        }
    }
}

#[test]
fn a_lossy_network_heals_itself() {
    for spec in [RplSpec::contiki30(), RplSpec::contiki3x()] {
        let mut network = Network::grid(5, 5, &spec, 13);
        network.delivery = Probability::of(7, 10);
        network.run_until(at(1_200));
        network.delivery = Probability::ALWAYS;
        network.run_until(at(3_600));
        network.assert_dodag();
        for node in network.others() {
            assert!(network.parents(node).is_some(), "{node}");
        }
    }
}

#[test]
fn any_input_keeps_tables_within_limits_without_panic() {
    let specs = [
        RplSpec::default(),
        RplSpec::contiki30(),
        RplSpec::contiki3x(),
    ];
    for (seed, spec) in (0..60).zip(specs.iter().cycle()) {
        let mut spec = RplSpec {
            neighbours_max: 5,
            routes_max: 6,
            ..spec.clone()
        };
        let mut stream = Stream::new(seed, "anything");
        let mut draw = |below: u32| stream.next_u32() % below;
        if seed % 5 == 0 {
            spec.mode = RplMode::Storing;
            spec.loops = LoopRule::Repair;
            spec.route_lifetime = Some(Duration::from_secs(20));
        }
        if seed % 7 == 0 {
            spec.min_hop_rank_increase = 0;
            spec.etx_divisor = 0;
            spec.dio_redundancy = 0;
        }
        let is_root = seed % 4 == 3;
        let mut rpl = Rpl::new(3, is_root, &spec, Stream::new(seed, "rpl"));
        let mut now = Instant::ZERO;
        rpl.start(now);
        let mut hops = Vec::new();
        for _ in 0..3_000 {
            now += Duration::from_micros(u64::from(draw(3_000_000)));
            let node = draw(9) as Node;
            let number = |draw: u32| Lollipop(if draw < 200 { 240 } else { draw as u8 });
            match draw(7) {
                0 => rpl.handle_timeout(now),
                1 => {
                    let rank = match draw(6) {
                        0 => INFINITE_RANK,
                        1 => draw(0x1_0000) as u16,
                        _ => 128 + draw(3_000) as u16,
                    };
                    let (version, dtsn) = (number(draw(206)), number(draw(256)));
                    rpl.handle_message(
                        now,
                        node,
                        &Message::Dio {
                            rank,
                            version,
                            dtsn,
                        },
                    );
                }
                2 => {
                    let dao = Message::Dao {
                        target: draw(12) as Node,
                        parent: (draw(2) == 0).then(|| draw(12) as Node),
                        no_path: draw(3) == 0,
                        sequence: number(draw(256)),
                    };
                    rpl.handle_message(now, node, &dao);
                }
                3 => rpl.handle_message(
                    now,
                    node,
                    &Message::Dis {
                        multicast: draw(2) == 0,
                    },
                ),
                4 => rpl.handle_feedback(now, node, draw(9) as u8, draw(3) > 0),
                5 => {
                    let mut option = RplOption {
                        down: draw(2) == 0,
                        rank_error: draw(2) == 0,
                        forwarding_error: draw(4) == 0,
                        sender_rank: draw(0x1_0000) as u16,
                    };
                    let from = (draw(3) > 0).then(|| draw(9) as Node);
                    rpl.route(now, draw(12) as Node, &mut option, from);
                }
                _ => {
                    if rpl.source_route(draw(12) as Node, &mut hops) {
                        assert!(hops.len() <= 6);
                    }
                }
            }
            let mut outputs = 0;
            while !matches!(rpl.poll(), Output::Wait(_)) {
                outputs += 1;
            }
            assert!(outputs <= 60, "{outputs}");
            assert!(rpl.neighbours().count() <= 5 && rpl.route_count() <= 6);
            let known = |parent| {
                rpl.neighbours()
                    .any(|one| one.node == parent && one.rank.is_some())
            };
            assert!(rpl.preferred_parent().is_none_or(known));
            assert!(is_root || rpl.preferred_parent().is_some() || rpl.rank() == INFINITE_RANK);
            assert!(!is_root || rpl.preferred_parent().is_none());
        }
    }
}

#[test]
fn thousand_nodes_form_a_dodag() {
    let spec = RplSpec {
        routes_max: 1_024,
        max_rank_increase: 0,
        ..RplSpec::contiki30()
    };
    let mut network = Network::grid(32, 32, &spec, 17);
    network.run_until(at(300));
    network.assert_dodag();
    assert!(
        network.nodes[0].route_count() > 900,
        "{}",
        network.nodes[0].route_count()
    );
}

#[test]
fn stale_routes_make_nodes_of_27_unreachable() {
    let unreachable = |moves| {
        let spec = RplSpec {
            dao_moves_routes: moves,
            ..RplSpec::default()
        };
        let lost = (0..5).map(|seed| {
            let mut network = Network::grid(6, 6, &spec, 100 + seed);
            network.run_until(at(600));
            let out_of_reach = |node: &Node| network.walk(0, *node).is_none();
            (1..36).filter(out_of_reach).count()
        });
        lost.sum::<usize>()
    };
    assert!(unreachable(false) > 0);
    assert_eq!(unreachable(true), 0);
}
