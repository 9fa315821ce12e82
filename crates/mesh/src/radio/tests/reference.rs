//! Compares the medium with a slow reference model that evaluates the rules on intervals.

use carob_cc::random::Random as _;

use super::*;
use crate::radio::medium::Signal;
use crate::spec::CcaRange;

/// A signal as an interval of positions in the sequence of starts and ends.
struct Interval {
    from: Node,
    to: Node,
    begin: usize,
    end: usize,
    received: Vec<Node>,
}

fn pick(stream: &mut Stream, end: usize) -> usize {
    ((u64::from(stream.next_u32()) * end as u64) >> 32) as usize
}

/// Returns whether node `to` senses a signal of node `from`, by distance.
fn within(places: &[Place], from: Node, to: Node, limit: i64) -> bool {
    let [a, b] = [from, to].map(|node| places[usize::from(node)]);
    let square = |a: i32, b: i32| i64::from(a - b).pow(2);
    from != to && square(a.0, b.0) + square(a.1, b.1) <= limit.pow(2)
}

#[test]
fn frame_without_overlap_at_receiver_arrives() {
    let nodes = 14;
    let (mut arrived, mut destroyed) = (0, 0);
    for seed in 0..300 {
        let mut stream = Stream::indexed(seed, "reference", 0);
        let places: Vec<Place> = (0..nodes)
            .map(|_| {
                let mut along = || pick(&mut stream, 50_000) as i32;
                (along(), along(), 0)
            })
            .collect();
        let ground = Ground {
            positions: &places,
            regions: &[],
            table: None,
        };
        let radio = RadioSpec {
            boundary: crate::spec::Boundary::Inclusive,
            cca_range: [CcaRange::Interference, CcaRange::Transmission][seed as usize % 2],
            cca_delay: Duration::ZERO,
            sfd_sense: false,
            clear_on_first_end: false,
            ..RadioSpec::default()
        };
        let sensed_within = [20_000, 10_000][seed as usize % 2];
        let mut medium = Medium::new(&ground, &radio, seed);
        let mut counters = vec![MacCounters::default(); nodes];
        let mut intervals: Vec<Interval> = Vec::new();
        let mut open: Vec<Option<usize>> = vec![None; nodes];
        for place in 0..200 {
            let now = Instant::from_micros(place as u64);
            // At the end, all remaining signals end.
            let on_air = (0..nodes).filter(|node| open[*node].is_some());
            let node = if place >= 200 - nodes {
                place + nodes - 200
            } else if pick(&mut stream, 3) > 0 {
                // About two signals at a time.
                let first = on_air.min_by_key(|node| open[*node]);
                first.unwrap_or(0)
            } else {
                pick(&mut stream, nodes)
            };
            let from = node as Node;
            if let Some(signal) = open[node].take() {
                medium.end(from, &mut counters, &mut intervals[signal].received);
                intervals[signal].end = place;
            } else if place < 200 - nodes {
                let to = match pick(&mut stream, nodes + 4) {
                    to if to < nodes => to as Node,
                    _ => BROADCAST,
                };
                let signal = Signal {
                    to,
                    until: Instant::FAR_FUTURE,
                    number: 0,
                    acknowledges: false,
                };
                medium.begin(now, from, signal, &mut counters);
                open[node] = Some(intervals.len());
                intervals.push(Interval {
                    from,
                    to,
                    begin: place,
                    end: usize::MAX,
                    received: Vec::new(),
                });
            }
            for (other, own) in open.iter().enumerate() {
                let other = other as Node;
                let hears =
                    |signal: &usize| within(&places, intervals[*signal].from, other, sensed_within);
                let busy = open.iter().flatten().any(hears);
                assert!(own.is_some() || medium.is_busy(now, other) == busy);
            }
        }
        assert!(medium.is_silent());
        let mut collisions = vec![0; nodes];
        for signal in &intervals {
            let mut expected = Vec::new();
            for at in 0..nodes as Node {
                if !within(&places, signal.from, at, 10_000) {
                    continue;
                }
                let alone = intervals.iter().all(|other| {
                    let reaches = other.from == at || within(&places, other.from, at, 20_000);
                    let overlaps = other.begin < signal.end && signal.begin < other.end;
                    std::ptr::eq(other, signal) || !reaches || !overlaps
                });
                if alone {
                    expected.push(at);
                } else {
                    let meant = signal.to == at || signal.to == BROADCAST;
                    collisions[usize::from(at)] += u64::from(meant);
                }
                arrived += u32::from(alone);
                destroyed += u32::from(!alone);
            }
            assert_eq!(signal.received, expected);
        }
        let counted: Vec<u64> = counters.iter().map(|count| count.collisions).collect();
        assert_eq!(counted, collisions);
    }
    assert!(
        arrived > 3_000 && destroyed > 3_000,
        "{arrived} {destroyed}"
    );
}
