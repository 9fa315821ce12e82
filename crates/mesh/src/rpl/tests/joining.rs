//! Joining a DODAG and advertising it.

use super::*;

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
fn dis_is_sent_until_joining() {
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
fn trickle_is_reset_by_inconsistencies_only() {
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
    bench.receive(9, Message::Dis { multicast: true });
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
    bench.receive(0, older);
    assert!(is_reset(&bench), "somebody lives in the past");

    let mut bench = quiet(&old);
    bench.receive(9, Message::Dis { multicast: false });
    assert!(!is_reset(&bench));
    let answered = bench.sent();
    let answer = answered
        .last()
        .map(|(_, to, message)| (*to, matches!(message, Message::Dio { .. })));
    assert_eq!(answer, Some((Destination::Neighbour(9), true)));
}

#[test]
fn unknown_best_candidate_is_probed_within_10_s() {
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
fn dao_requests_depend_on_the_release() {
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
fn new_dodag_version_is_joined_with_new_parents() {
    let mut bench = Bench::new(&RplSpec::default());
    bench.dio(0, 256);
    bench.dio(1, 256);
    bench.run_for(secs(600));
    bench.take();
    let version = Lollipop::START.next();
    let rank = 700;
    bench.receive(
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
fn root_exceeds_foreign_dodag_versions() {
    let mut bench = Bench::root(&RplSpec::default());
    let version = Lollipop(250);
    bench.receive(
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
