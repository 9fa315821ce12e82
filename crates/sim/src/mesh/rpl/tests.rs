//! One node and what it is told.

use carob_cc::time::{Duration, Instant};

use super::*;
use crate::mesh::spec::{LoopRule, Objective as ObjectiveKind, RplSpec};

const ME: Node = 7;

/// A node with its clock and everything it has put out.
struct Bench {
    rpl: Rpl,
    now: Instant,
    outputs: Vec<(Instant, Output)>,
}

impl Bench {
    fn new(spec: &RplSpec) -> Self {
        Self::with(spec, false)
    }

    fn root(spec: &RplSpec) -> Self {
        Self::with(spec, true)
    }

    fn with(spec: &RplSpec, is_root: bool) -> Self {
        let rpl = Rpl::new(ME, is_root, spec, Stream::new(1, "rpl"));
        let (now, outputs) = (Instant::ZERO, Vec::new());
        let mut bench = Self { rpl, now, outputs };
        bench.rpl.start(bench.now);
        bench.drain();
        bench
    }

    /// Drains the node; the time that it waits for.
    fn drain(&mut self) -> Option<Instant> {
        loop {
            match self.rpl.poll() {
                Output::Wait(at) => return at,
                output => self.outputs.push((self.now, output)),
            }
        }
    }

    fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(at) = self.drain().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            self.rpl.handle_timeout(self.now);
        }
        self.now = end;
    }

    /// The periodic look is past.
    fn second(&mut self) {
        self.run_for(Duration::from_millis(1_001));
    }

    fn hear(&mut self, from: Node, message: Message) {
        self.rpl.handle_message(self.now, from, &message);
        self.drain();
    }

    fn dio(&mut self, from: Node, rank: u16) {
        self.dio_with(from, rank, Lollipop::START);
    }

    fn dio_with(&mut self, from: Node, rank: u16, dtsn: Lollipop) {
        let version = Lollipop::START;
        let dio = Message::Dio {
            rank,
            version,
            dtsn,
        };
        self.hear(from, dio);
    }

    fn dao(&mut self, from: Node, target: Node, no_path: bool) {
        let dao = Message::Dao {
            target,
            parent: None,
            no_path,
            sequence: Lollipop::START,
        };
        self.hear(from, dao);
    }

    fn feedback(&mut self, neighbour: Node, times: u32, transmissions: u8, acknowledged: bool) {
        for _ in 0..times {
            let now = self.now;
            self.rpl
                .handle_feedback(now, neighbour, transmissions, acknowledged);
        }
        self.drain();
    }

    fn take(&mut self) -> Vec<(Instant, Output)> {
        self.drain();
        std::mem::take(&mut self.outputs)
    }

    fn events(&mut self) -> Vec<RplEvent> {
        let outputs = self.take().into_iter();
        let events = outputs.filter_map(|(_, output)| match output {
            Output::Event(event) => Some(event),
            _ => None,
        });
        events.collect()
    }

    fn sent(&mut self) -> Vec<(Instant, Destination, Message)> {
        let outputs = self.take().into_iter();
        let sent = outputs.filter_map(|(at, output)| match output {
            Output::Send { to, message } => Some((at, to, message)),
            _ => None,
        });
        sent.collect()
    }

    fn packet(&mut self, destination: Node, option: &mut RplOption, from: Option<Node>) -> Hop {
        let hop = self.rpl.route(self.now, destination, option, from);
        self.drain();
        hop
    }
}

fn dios(sent: &[(Instant, Destination, Message)]) -> Vec<(Instant, u16)> {
    let dios = sent.iter().filter_map(|(at, to, message)| match message {
        Message::Dio { rank, .. } if *to == Destination::Multicast => Some((*at, *rank)),
        _ => None,
    });
    dios.collect()
}

/// DAOs by whom they went to, target, and whether they end the way.
fn daos(sent: &[(Instant, Destination, Message)]) -> Vec<(Destination, Node, bool)> {
    let daos = sent.iter().filter_map(|(_, to, message)| match *message {
        Message::Dao {
            target, no_path, ..
        } => Some((*to, target, no_path)),
        _ => None,
    });
    daos.collect()
}

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

#[test]
fn the_first_dio_follows_joining_within_imin() {
    for mut bench in [
        Bench::new(&RplSpec::default()),
        Bench::root(&RplSpec::default()),
    ] {
        bench.dio(0, 256);
        let joined = bench.now;
        assert!(bench.rpl.is_joined());
        bench.run_for(secs(5));
        let first = dios(&bench.sent())[0].0.since(joined);
        assert!(first >= Duration::from_millis(2_048), "{first}");
        assert!(first <= Duration::from_millis(4_096), "{first}");
    }
}

#[test]
fn who_has_not_joined_asks_and_stops_once_it_has() {
    let mut bench = Bench::new(&RplSpec::default());
    bench.run_for(secs(160));
    let asked: Vec<_> = bench
        .sent()
        .into_iter()
        .map(|(at, to, message)| {
            assert_eq!(
                (to, message),
                (Destination::Multicast, Message::Dis { multicast: true })
            );
            at
        })
        .collect();
    assert!(asked[0] >= Instant::ZERO + secs(1) && asked[0] <= Instant::ZERO + secs(35));
    assert!(
        asked
            .windows(2)
            .all(|pair| pair[1].since(pair[0]) == secs(60))
    );
    assert_eq!(asked.len(), 3);
    bench.dio(0, 256);
    bench.run_for(secs(300));
    let asks = |(_, _, message): &_| matches!(message, Message::Dis { .. });
    assert!(!bench.sent().iter().any(asks));
}

#[test]
fn trickle_is_reset_by_what_is_inconsistent_and_by_nothing_else() {
    let quiet = |spec: &RplSpec| {
        let mut bench = Bench::new(spec);
        bench.dio(0, 256);
        bench.dio(1, 512);
        bench.run_for(secs(600));
        assert!(bench.rpl.trickle.interval() > secs(100));
        bench
    };
    let old = RplSpec::default();
    let new = RplSpec::contiki3x();
    let is_reset = |bench: &Bench| bench.rpl.trickle.interval() < secs(5);

    let mut bench = quiet(&old);
    bench.dio(0, 256);
    bench.dio(1, 600);
    bench.second();
    assert!(!is_reset(&bench), "nothing has changed that matters");
    bench.hear(9, Message::Dis { multicast: true });
    assert!(is_reset(&bench), "somebody asks");

    let mut bench = quiet(&old);
    bench.dio(1, INFINITE_RANK);
    assert!(is_reset(&bench), "any poison counts in 2.7");
    let mut bench = quiet(&new);
    bench.dio(1, INFINITE_RANK);
    assert!(!is_reset(&bench), "the parent's alone does in 3.x");
    bench.dio(0, INFINITE_RANK);
    assert!(is_reset(&bench));

    let mut bench = quiet(&old);
    bench.feedback(0, 30, 4, false);
    bench.second();
    assert_eq!(bench.rpl.preferred_parent(), Some(1));
    assert!(is_reset(&bench), "another parent");

    let mut bench = quiet(&old);
    let older = Message::Dio {
        rank: 256,
        version: Lollipop(239),
        dtsn: Lollipop::START,
    };
    bench.hear(0, older);
    assert!(is_reset(&bench), "somebody lives in the past");

    let mut bench = quiet(&old);
    bench.hear(9, Message::Dis { multicast: false });
    assert!(!is_reset(&bench));
    let answered = bench.sent();
    let answer = answered
        .last()
        .map(|(_, to, message)| (*to, matches!(message, Message::Dio { .. })));
    assert_eq!(answer, Some((Destination::Neighbour(9), true)));
}

#[test]
fn unused_neighbours_look_bad_in_contiki_27_so_that_the_first_parent_sticks() {
    let mut bench = Bench::new(&RplSpec::default());
    bench.dio(1, 900);
    bench.feedback(1, 20, 1, true);
    bench.second();
    let used = bench.rpl.etx_hundredths(1);
    assert!(used.is_some_and(|etx| etx < 160), "{used:?}");
    // 3.5 ETX better, and still not taken: its own link counts 5.
    bench.dio(2, 900 - 448);
    assert_eq!(bench.rpl.preferred_parent(), Some(1));
    // With 0.5 ETX of hysteresis on top it is.
    bench.dio(2, 256);
    assert_eq!(bench.rpl.preferred_parent(), Some(2));
    assert_eq!(bench.rpl.rank(), 256 + 640);
}

#[test]
fn a_change_of_parent_tells_the_old_one_the_new_one_and_the_children() {
    let mut bench = Bench::new(&RplSpec::default());
    bench.dio(1, 600);
    bench.run_for(secs(30));
    bench.take();
    let before = bench.rpl.dtsn;
    bench.dio(2, 256);
    assert!(bench.rpl.dtsn.is_after(before));
    let at_once = bench.take();
    let events: Vec<_> = at_once.iter().map(|(_, output)| *output).collect();
    let changed = RplEvent::ParentChanged {
        from: Some(1),
        to: Some(2),
    };
    assert!(events.contains(&Output::Event(changed)));
    let no_path = |output: &Output| {
        matches!(
            output,
            Output::Send {
                to: Destination::Neighbour(1),
                message: Message::Dao {
                    target: ME,
                    no_path: true,
                    ..
                },
            }
        )
    };
    assert_eq!(events.iter().filter(|output| no_path(output)).count(), 1);
    bench.run_for(secs(6));
    let later = bench.sent();
    let first = later
        .iter()
        .find(|(_, _, message)| matches!(message, Message::Dao { .. }));
    let (at, to, _) = first.expect("a DAO within 6 s");
    assert_eq!(*to, Destination::Neighbour(2));
    assert!(at.since(at_once[0].0) >= secs(2));
}

#[test]
fn candidates_beyond_the_rank_that_is_allowed_are_not_taken() {
    let spec = RplSpec {
        max_rank_increase: 1_024,
        ..RplSpec::default()
    };
    let mut bench = Bench::new(&spec);
    bench.dio(1, 256);
    assert_eq!(bench.rpl.rank(), 896);
    // DAGRank of 896 + 1024 is 7; ranks from 2048 on have 8.
    bench.dio(2, 2_048);
    bench.dio(1, 2_048);
    assert_eq!(
        (bench.rpl.preferred_parent(), bench.rpl.rank()),
        (None, INFINITE_RANK)
    );
    bench.dio(2, 1_300);
    // Its own rank is allowed, what it leads to (1940, DAGRank 7) is, too.
    assert_eq!(bench.rpl.preferred_parent(), Some(2));
    bench.dio(2, 1_900);
    assert_eq!(bench.rpl.preferred_parent(), None, "2540 is not");
    let events = bench.events();
    assert!(events.contains(&RplEvent::LocalRepair), "{events:?}");
}

#[test]
fn a_lowest_rank_that_is_kept_blocks_the_return() {
    for (forgets, returns) in [(false, false), (true, true)] {
        let spec = RplSpec {
            max_rank_increase: 1_024,
            forgets_lowest_rank: forgets,
            ..RplSpec::default()
        };
        let mut bench = Bench::new(&spec);
        bench.dio(1, 256);
        bench.dio(1, INFINITE_RANK);
        assert_eq!(bench.rpl.preferred_parent(), None);
        // Its own rank is within limits, the one it leads to, 2440, is not.
        bench.dio(2, 1_800);
        assert_eq!(bench.rpl.preferred_parent().is_some(), returns, "{forgets}");
    }
}

#[test]
fn a_node_without_parents_says_so_soon() {
    let mut bench = Bench::new(&RplSpec::contiki3x());
    bench.dio(1, 128);
    bench.run_for(secs(600));
    bench.take();
    bench.dio(1, INFINITE_RANK);
    let events = bench.events();
    let lost = RplEvent::ParentChanged {
        from: Some(1),
        to: None,
    };
    assert_eq!(events, [lost, RplEvent::Poisoned]);
    bench.run_for(secs(5));
    assert_eq!(dios(&bench.sent())[0].1, INFINITE_RANK);
    assert_eq!(
        bench.packet(0, &mut RplOption::default(), None),
        Hop::NoRoute
    );
    bench.dio(1, 128);
    let back = RplEvent::ParentChanged {
        from: None,
        to: Some(1),
    };
    assert_eq!(bench.events(), [back]);
}

#[test]
fn three_lost_frames_isolate_a_node_with_a_limit_of_4() {
    let spec = RplSpec {
        max_link_metric: Some(400),
        ..RplSpec::contiki3x()
    };
    let mut bench = Bench::new(&spec);
    bench.dio(0, 128);
    bench.feedback(0, 40, 1, true);
    assert_eq!(bench.rpl.etx_hundredths(0), Some(100));
    bench.take();
    for (lost, parent) in [(1, Some(0)), (2, Some(0)), (3, None)] {
        bench.feedback(0, 1, 8, false);
        bench.second();
        assert_eq!(
            bench.rpl.preferred_parent(),
            parent,
            "{lost}: {:?}",
            bench.rpl.etx_hundredths(0)
        );
    }
    let events = bench.events();
    assert!(events.contains(&RplEvent::LocalRepair) && events.contains(&RplEvent::Poisoned));
    assert_eq!(bench.rpl.rank(), INFINITE_RANK);
    // DIOs of the neighbour do not help; frames to it do, and only probes are sent.
    bench.dio(0, 128);
    assert_eq!(bench.rpl.preferred_parent(), None);
    bench.run_for(secs(181));
    let probes = bench
        .sent()
        .into_iter()
        .filter(|(_, to, _)| *to == Destination::Neighbour(0));
    assert!(probes.count() >= 1);
    bench.feedback(0, 1, 1, true);
    bench.second();
    assert_eq!(bench.rpl.preferred_parent(), Some(0), "3.95 is below 4");
}

#[test]
fn the_best_candidate_is_probed_within_10_s_if_little_is_known_of_it() {
    let mut bench = Bench::new(&RplSpec::contiki3x());
    bench.dio(1, 512);
    bench.feedback(1, 8, 1, true);
    bench.run_for(secs(20));
    bench.take();
    let heard = bench.now;
    bench.dio(2, 128);
    assert_eq!(
        bench.rpl.preferred_parent(),
        Some(1),
        "what is known comes first"
    );
    bench.run_for(secs(12));
    let sent = bench.sent();
    let probe = sent
        .iter()
        .find(|(_, to, _)| *to == Destination::Neighbour(2));
    let (at, _, message) = probe.expect("a probe");
    assert!(at.since(heard) <= secs(11) && matches!(message, Message::Dio { .. }));
    bench.feedback(2, 4, 1, true);
    bench.second();
    assert_eq!(bench.rpl.preferred_parent(), Some(2));
}

#[test]
fn probes_go_out_every_60_to_180_s() {
    for spec in [RplSpec::contiki30(), RplSpec::contiki3x()] {
        let mut bench = Bench::new(&spec);
        bench.dio(1, 256);
        bench.feedback(1, 16, 1, true);
        bench.take();
        let mut last = bench.now;
        for _ in 0..5 {
            let mut probes = Vec::new();
            while probes.is_empty() {
                bench.run_for(secs(1));
                probes = bench.sent();
                probes.retain(|(_, to, message)| {
                    *to == Destination::Neighbour(1) && matches!(message, Message::Dio { .. })
                });
            }
            let wait = probes[0].0.since(last);
            assert!(wait >= secs(60) && wait <= secs(180), "{wait}");
            last = probes[0].0;
            bench.feedback(1, 4, 1, true);
        }
    }
}

#[test]
fn contiki_27_does_not_probe() {
    let mut bench = Bench::new(&RplSpec::default());
    bench.dio(1, 256);
    bench.run_for(secs(2_000));
    let sent = bench.sent();
    let probes = sent.iter().filter(|(_, to, message)| {
        matches!(to, Destination::Neighbour(_)) && matches!(message, Message::Dio { .. })
    });
    assert_eq!(probes.count(), 0);
}

#[test]
fn a_dao_makes_a_route_goes_on_to_the_parent_and_a_no_path_dao_ends_it() {
    for spec in [RplSpec::default(), RplSpec::contiki30()] {
        let mut bench = Bench::new(&spec);
        bench.dio(0, 256);
        bench.dio(3, 1_500);
        bench.run_for(secs(10));
        bench.take();
        bench.dao(3, 9, false);
        assert_eq!(bench.rpl.routes().collect::<Vec<_>>(), [(9, 3)]);
        assert_eq!(daos(&bench.sent()), [(Destination::Neighbour(0), 9, false)]);
        bench.dao(4, 9, true);
        bench.run_for(secs(62));
        assert_eq!(bench.rpl.route_count(), 1, "not who it goes by");
        bench.take();
        bench.dao(3, 9, true);
        let forwards = spec.release > crate::mesh::spec::Release::V27;
        assert_eq!(daos(&bench.sent()).len(), usize::from(forwards));
        bench.run_for(secs(58));
        assert_eq!(bench.rpl.route_count(), 1);
        bench.run_for(secs(4));
        assert_eq!(bench.rpl.route_count(), 0);
        let told = daos(&bench.sent());
        assert_eq!(told, [(Destination::Neighbour(0), 9, true)], "as it ends");
    }
}

#[test]
fn a_dao_from_another_neighbour_moves_the_route_unless_it_is_27() {
    for (moves, next_hop) in [(false, 3), (true, 4)] {
        let spec = RplSpec {
            dao_moves_routes: moves,
            ..RplSpec::default()
        };
        let mut bench = Bench::root(&spec);
        bench.dao(3, 9, false);
        bench.dao(4, 9, false);
        assert_eq!(bench.rpl.routes().collect::<Vec<_>>(), [(9, next_hop)]);
        assert_eq!(
            bench.packet(9, &mut RplOption::default(), None),
            Hop::To(next_hop)
        );
    }
}

#[test]
fn routes_that_are_not_refreshed_end_and_daos_refresh_them_in_time() {
    let spec = RplSpec {
        route_lifetime: Some(secs(1_800)),
        ..RplSpec::contiki30()
    };
    let mut bench = Bench::new(&spec);
    bench.dio(0, 256);
    bench.dao(3, 9, false);
    bench.run_for(secs(1_799));
    assert_eq!(bench.rpl.route_count(), 1);
    let own = bench.sent().into_iter().filter(|(_, _, message)| {
        matches!(
            message,
            Message::Dao {
                target: ME,
                no_path: false,
                ..
            }
        )
    });
    let own: Vec<_> = own.map(|(at, _, _)| at).collect();
    assert_eq!(own.len(), 2);
    let wait = own[1].since(own[0]);
    assert!(wait >= secs(890) && wait <= secs(1_350), "{wait}");
    bench.run_for(secs(4));
    assert_eq!(bench.rpl.route_count(), 0);
}

#[test]
fn a_dao_from_above_is_a_loop() {
    let mut bench = Bench::new(&RplSpec::default());
    bench.dio(0, 256);
    bench.dio(1, 300);
    bench.dao(1, 9, false);
    assert_eq!(bench.rpl.route_count(), 0);
    let ranks: Vec<_> = bench
        .rpl
        .neighbours()
        .map(|neighbour| neighbour.rank)
        .collect();
    assert_eq!(ranks, [Some(256), Some(INFINITE_RANK)]);
}

#[test]
fn a_full_route_table_refuses_or_forgets_the_least_used() {
    let old = RplSpec {
        routes_max: 2,
        ..RplSpec::default()
    };
    let new = RplSpec {
        routes_max: 2,
        ..RplSpec::contiki30()
    };
    for (spec, left) in [(old, [8, 9]), (new, [8, 10])] {
        let mut bench = Bench::root(&spec);
        bench.dao(3, 9, false);
        bench.dao(3, 8, false);
        assert_eq!(bench.packet(8, &mut RplOption::default(), None), Hop::To(3));
        bench.dao(3, 10, false);
        let targets: Vec<_> = bench.rpl.routes().map(|(target, _)| target).collect();
        assert_eq!(targets, left);
    }
}

#[test]
fn a_dtsn_asks_for_daos() {
    let mut bench = Bench::new(&RplSpec::contiki3x());
    bench.dio(0, 128);
    bench.run_for(secs(10));
    bench.take();
    bench.dio_with(0, 128, Lollipop::START);
    bench.run_for(secs(10));
    assert_eq!(daos(&bench.sent()), []);
    let before = bench.rpl.dtsn;
    bench.dio_with(0, 128, Lollipop::START.next());
    bench.run_for(secs(10));
    assert_eq!(daos(&bench.sent()), [(Destination::Root, ME, false)]);
    assert!(bench.rpl.dtsn.is_after(before), "and is passed on");
}

#[test]
fn who_asks_for_daos_depends_on_the_release() {
    for (spec, multicast, unicast) in [
        (RplSpec::default(), true, true),
        (RplSpec::contiki30(), true, false),
        (RplSpec::contiki3x(), false, false),
    ] {
        let mut bench = Bench::new(&spec);
        bench.dio(0, 256);
        for (to_all, asks) in [(true, multicast), (false, unicast)] {
            let before = bench.rpl.dtsn;
            bench.rpl.dio(to_all);
            assert_eq!(bench.rpl.dtsn != before, asks);
        }
    }
    let mut root = Bench::root(&RplSpec::contiki3x());
    let before = root.rpl.dtsn;
    root.rpl.dio(true);
    assert_ne!(root.rpl.dtsn, before);
}

#[test]
fn packets_go_down_where_there_is_a_route_and_up_where_there_is_none() {
    let mut bench = Bench::new(&RplSpec::default());
    bench.dio(0, 256);
    bench.dao(3, 9, false);
    let rank = bench.rpl.rank();
    let mut option = RplOption::default();
    assert_eq!(bench.packet(9, &mut option, None), Hop::To(3));
    assert_eq!((option.down, option.sender_rank), (true, rank));
    assert_eq!(bench.packet(5, &mut option, None), Hop::To(0));
    assert_eq!((option.down, option.rank_error), (false, false));
    // Up to the common ancestor, then down.
    let mut option = RplOption {
        sender_rank: rank + 300,
        ..RplOption::default()
    };
    assert_eq!(bench.packet(9, &mut option, Some(4)), Hop::To(3));
    assert_eq!((option.down, option.rank_error), (true, false));
    let mut option = RplOption {
        sender_rank: rank + 300,
        ..RplOption::default()
    };
    assert_eq!(bench.packet(ME, &mut option, Some(4)), Hop::Here);
}

#[test]
fn a_rank_error_is_marked_once_and_then_what_the_release_does() {
    for (loops, second) in [(LoopRule::Forward, Hop::To(0)), (LoopRule::Drop, Hop::Loop)] {
        let spec = RplSpec {
            loops,
            ..RplSpec::default()
        };
        let mut bench = Bench::new(&spec);
        bench.dio(0, 256);
        bench.run_for(secs(600));
        let upward_from = |rank| RplOption {
            sender_rank: rank,
            ..RplOption::default()
        };
        let mut option = upward_from(300);
        assert_eq!(bench.packet(1, &mut option, Some(2)), Hop::To(0));
        assert!(option.rank_error);
        assert!(bench.rpl.trickle.interval() > secs(5));
        option.sender_rank = 300;
        assert_eq!(bench.packet(1, &mut option, Some(2)), second);
        assert!(bench.rpl.trickle.interval() < secs(5));
    }
}

#[test]
fn a_rank_error_is_answered_with_a_dio_and_corrects_the_rank_in_3x() {
    let mut bench = Bench::new(&RplSpec::contiki3x());
    bench.dio(0, 128);
    bench.dio(2, 900);
    bench.run_for(secs(10));
    bench.take();
    let mut option = RplOption {
        sender_rank: 200,
        ..RplOption::default()
    };
    assert_eq!(bench.packet(1, &mut option, Some(2)), Hop::To(0));
    let sent = bench.sent();
    assert!(
        matches!(
            sent[..],
            [(_, Destination::Neighbour(2), Message::Dio { .. })]
        ),
        "{sent:?}"
    );
    option.sender_rank = 210;
    assert_eq!(bench.packet(1, &mut option, Some(2)), Hop::Loop);
    let ranks: Vec<_> = bench
        .rpl
        .neighbours()
        .map(|neighbour| neighbour.rank)
        .collect();
    assert_eq!(ranks, [Some(128), Some(210)]);
}

#[test]
fn a_packet_without_a_way_down_comes_back_and_deletes_the_route_in_27() {
    let spec = RplSpec::default();
    let mut child = Bench::new(&spec);
    child.dio(0, 256);
    let mut option = RplOption {
        down: true,
        sender_rank: 256,
        ..RplOption::default()
    };
    assert_eq!(child.packet(9, &mut option, Some(0)), Hop::To(0));
    assert!(option.forwarding_error && option.down);

    let mut root = Bench::root(&spec);
    root.dao(3, 9, false);
    let version = root.rpl.version();
    root.take();
    assert_eq!(root.packet(9, &mut option, Some(3)), Hop::NoRoute);
    assert_eq!(root.rpl.route_count(), 0);
    assert!(root.rpl.version().is_after(version));
    assert_eq!(root.events(), [RplEvent::GlobalRepair]);
}

#[test]
fn a_packet_without_a_way_down_is_dropped_and_its_sender_told_from_30_on() {
    let mut child = Bench::new(&RplSpec::contiki30());
    child.dio(0, 256);
    child.take();
    let mut option = RplOption {
        down: true,
        sender_rank: 256,
        ..RplOption::default()
    };
    assert_eq!(child.packet(9, &mut option, Some(0)), Hop::NoRoute);
    assert_eq!(daos(&child.sent()), [(Destination::Neighbour(0), 9, true)]);
}

#[test]
fn a_new_version_is_taken_with_new_parents() {
    let mut bench = Bench::new(&RplSpec::default());
    bench.dio(0, 256);
    bench.dio(1, 256);
    bench.run_for(secs(600));
    bench.take();
    let version = Lollipop::START.next();
    let rank = 700;
    bench.hear(
        1,
        Message::Dio {
            rank,
            version,
            dtsn: Lollipop::START,
        },
    );
    assert_eq!(
        (bench.rpl.version(), bench.rpl.preferred_parent()),
        (version, Some(1))
    );
    assert_eq!(bench.rpl.rank(), 1_340);
    assert!(bench.events().contains(&RplEvent::GlobalRepair));
    assert!(bench.rpl.trickle.interval() < secs(5));
    let candidates = bench.rpl.neighbours().filter(|one| one.rank.is_some());
    assert_eq!(candidates.count(), 1);
}

#[test]
fn the_root_keeps_ahead_of_versions_that_it_has_not_made() {
    let mut bench = Bench::root(&RplSpec::default());
    let version = Lollipop(250);
    bench.hear(
        1,
        Message::Dio {
            rank: 500,
            version,
            dtsn: Lollipop::START,
        },
    );
    assert_eq!(bench.rpl.version(), Lollipop(251));
    assert_eq!(bench.rpl.rank(), 256);
}

#[test]
fn of0_takes_the_parent_with_the_fewest_steps() {
    let spec = RplSpec {
        objective: ObjectiveKind::Of0,
        min_hop_rank_increase: 256,
        max_rank_increase: 0,
        probing: None,
        ..RplSpec::contiki3x()
    };
    let mut bench = Bench::new(&spec);
    bench.dio(1, 256);
    assert_eq!(bench.rpl.rank(), 256 + 4 * 256);
    bench.feedback(1, 40, 1, true);
    bench.second();
    assert_eq!(bench.rpl.rank(), 512);
}

#[test]
fn the_root_knows_whole_ways_in_non_storing_mode() {
    let mut root = Bench::root(&RplSpec::contiki3x());
    let dao = |target, parent, no_path| Message::Dao {
        target,
        parent: Some(parent),
        no_path,
        sequence: Lollipop::START,
    };
    root.hear(1, dao(1, ME, false));
    root.hear(2, dao(2, 1, false));
    let mut hops = Vec::new();
    assert!(root.rpl.source_route(2, &mut hops));
    assert_eq!(hops, [1, 2]);
    assert_eq!(root.packet(2, &mut RplOption::default(), None), Hop::To(1));
    assert_eq!(
        root.packet(3, &mut RplOption::default(), None),
        Hop::NoRoute
    );
    root.hear(1, dao(1, 2, false));
    assert!(root.rpl.source_route(2, &mut hops), "a loop is not taken");
    root.hear(2, dao(2, 1, true));
    root.run_for(secs(62));
    assert!(!root.rpl.source_route(2, &mut hops) && hops.is_empty());
    root.run_for(secs(1_800));
    assert_eq!(root.rpl.route_count(), 0);
}
