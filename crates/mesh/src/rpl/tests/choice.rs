//! Parent selection and repair.

use super::*;

#[test]
fn unused_neighbours_of_contiki_27_keep_the_first_parent() {
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
fn parent_change_informs_old_and_new_parent_and_children() {
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
fn candidates_beyond_the_maximum_rank_are_refused() {
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
    // Its rank is allowed, and so is the resulting one (1940, DAGRank 7).
    assert_eq!(bench.rpl.preferred_parent(), Some(2));
    bench.dio(2, 1_900);
    assert_eq!(bench.rpl.preferred_parent(), None, "2540 is not");
    let events = bench.events();
    assert!(events.contains(&RplEvent::LocalRepair), "{events:?}");
}

#[test]
fn stored_lowest_rank_blocks_rejoining() {
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
fn node_without_parents_poisons_soon() {
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
fn of0_selects_the_parent_with_the_lowest_rank() {
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
fn node_without_parent_repairs_repeatedly_before_3x() {
    for (spec, again) in [(RplSpec::default(), true), (RplSpec::contiki3x(), false)] {
        let spec = RplSpec {
            max_link_metric: Some(300),
            initial_etx: 200,
            ..spec
        };
        let mut bench = Bench::new(&spec);
        bench.dio(1, 256);
        bench.feedback(1, 9, 4, false);
        bench.second();
        let repaired = |events: &[RplEvent]| events.contains(&RplEvent::LocalRepair);
        assert!(repaired(&bench.events()));
        bench.dio(1, 256);
        assert_eq!(repaired(&bench.events()), again);
    }
}
