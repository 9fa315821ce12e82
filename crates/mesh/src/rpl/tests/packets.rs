//! Packets and their RPL option.

use super::*;

#[test]
fn packets_follow_downward_routes_else_go_to_parent() {
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
fn rank_error_is_marked_once_and_then_handled_per_release() {
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
fn rank_error_triggers_dio_and_corrects_rank_in_3x() {
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
fn packet_without_route_returns_and_deletes_route_in_27() {
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
fn packet_without_route_is_dropped_with_error_from_30_on() {
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
