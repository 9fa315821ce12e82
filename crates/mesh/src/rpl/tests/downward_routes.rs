//! Downward routes: DAOs and the routing table.

use super::*;

#[test]
fn dao_adds_route_and_no_path_dao_removes_it() {
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
        let forwards = spec.release > crate::spec::Release::V27;
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
fn routes_expire_unless_refreshed_by_daos() {
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
fn root_may_have_larger_tables() {
    let spec = RplSpec {
        routes_max: 1,
        root_routes_max: Some(3),
        neighbours_max: 2,
        root_neighbours_max: Some(3),
        ..RplSpec::default()
    };
    let mut bench = Bench::new(&spec);
    bench.dio(0, 256);
    for (mut bench, routes, neighbours) in [(Bench::root(&spec), 3, 3), (bench, 1, 2)] {
        for target in [8, 9, 10, 11] {
            bench.dao(3, target, false);
        }
        assert_eq!(bench.rpl.route_count(), routes);
        for neighbour in [4, 5, 6, 7] {
            bench.dio(neighbour, 512);
        }
        assert_eq!(bench.rpl.neighbours().count(), neighbours);
    }
}

#[test]
fn dtsn_increment_requests_daos() {
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
fn root_has_source_routes_in_non_storing_mode() {
    let mut root = Bench::root(&RplSpec::contiki3x());
    let dao = |target, parent, no_path| Message::Dao {
        target,
        parent: Some(parent),
        no_path,
        sequence: Lollipop::START,
    };
    root.receive(1, dao(1, ME, false));
    root.receive(2, dao(2, 1, false));
    let mut hops = Vec::new();
    assert!(root.rpl.source_route(2, &mut hops));
    assert_eq!(hops, [1, 2]);
    assert_eq!(root.packet(2, &mut RplOption::default(), None), Hop::To(1));
    assert_eq!(
        root.packet(3, &mut RplOption::default(), None),
        Hop::NoRoute
    );
    root.receive(1, dao(1, 2, false));
    assert!(root.rpl.source_route(2, &mut hops), "a loop is not taken");
    root.receive(2, dao(2, 1, true));
    root.run_for(secs(62));
    assert!(!root.rpl.source_route(2, &mut hops) && hops.is_empty());
    root.run_for(secs(1_800));
    assert_eq!(root.rpl.route_count(), 0);
}

#[test]
fn a_dao_that_is_due_is_not_put_off() {
    let mut bench = Bench::new(&RplSpec::contiki3x());
    bench.dio(0, 128);
    let first = bench.now;
    let mut dtsn = Lollipop::START;
    for _ in 0..6 {
        bench.run_for(secs(1));
        dtsn = dtsn.next();
        bench.dio_with(0, 128, dtsn);
    }
    let sent = bench.sent();
    let dao = sent
        .iter()
        .find(|(_, _, message)| matches!(message, Message::Dao { .. }));
    let (at, _, _) = dao.expect("a DAO within 6 s of joining");
    assert!(at.since(first) >= secs(2));
}
