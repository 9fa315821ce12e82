//! Facts of a recorded run over TCP, in numbers. Captions of figures are made from them.

use std::collections::BTreeMap;

use carob_sim::spec::{FlowRecord, RunRecord};
use carob_sim::trace::{Event, SegmentTag, SimEvent};

/// An acknowledgment that reported a gap to the server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DuplicateAck {
    /// When it arrived at the server.
    pub at_s: f64,
    /// Bytes of the stream that the server had sent at least once at that time.
    pub sent: u32,
}

/// A time without anything new of a response at the client, in order.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)]
pub struct Stall {
    pub from_s: f64,
    pub to_s: f64,
}

impl Stall {
    /// Length in seconds.
    pub fn length_s(&self) -> f64 {
        self.to_s - self.from_s
    }
}

/// One flow of a run, in numbers. Times are seconds since the run began, as in its figure;
/// counts include the data segments that the server sent until the response was complete.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Facts {
    /// When the request was handed over.
    pub started_s: f64,
    /// When the response was complete, if it was.
    pub finished_s: Option<f64>,
    /// Sent, again or not.
    pub segments: u64,
    /// Sent again.
    pub again: u64,
    /// Dropped by a full buffer.
    pub dropped: u64,
    /// Lost after the bottleneck.
    pub lost: u64,
    /// Packets of the client dropped or lost.
    pub lost_back: u64,
    /// Length of the server's stream in bytes, the response and what went before.
    pub bytes: u32,
    /// The first duplicate acknowledgment.
    pub duplicate: Option<DuplicateAck>,
    /// Fast recoveries entered.
    pub recoveries: u64,
    /// Time spent in them.
    pub recovery_s: f64,
    /// Retransmission timers of the server that ran out.
    pub timeouts: u64,
    /// When the first did.
    pub first_timeout_s: Option<f64>,
    /// The longest timer it set.
    pub rto_peak_s: f64,
    /// The longest time without new data.
    pub stall: Option<Stall>,
}

impl Facts {
    /// Flow completion time.
    pub fn fct_s(&self) -> Option<f64> {
        Some(self.finished_s? - self.started_s)
    }
}

/// The facts of each flow; clients come first among the hosts, the server is the last.
pub(super) fn of(record: &RunRecord, clients: u32) -> Vec<Facts> {
    let flows = record.flows.iter().zip(0..);
    flows
        .map(|(flow, client)| one(flow, &record.events, clients, client))
        .collect()
}

fn seconds(micros: u64) -> f64 {
    micros as f64 / 1e6
}

fn one(flow: &FlowRecord, events: &[Event], server: u32, client: u32) -> Facts {
    let mut facts = Facts {
        started_s: seconds(flow.started.as_micros()),
        finished_s: flow.finished.map(|at| seconds(at.as_micros())),
        segments: flow.segments.unwrap_or_default(),
        again: flow.retransmissions,
        timeouts: flow.timeouts,
        ..Facts::default()
    };
    if let Some(recovery) = flow.recovery {
        facts.recoveries = recovery.entered;
        facts.recovery_s = seconds(recovery.time.as_micros());
        facts.rto_peak_s = seconds(recovery.rto_peak.as_micros());
        facts.first_timeout_s = recovery
            .first_timeout
            .map(|after| facts.started_s + seconds(after.as_micros()));
    }
    let (mut acknowledged, mut arrivals) = (0, Arrivals::new(facts.started_s));
    let until = flow.finished;
    for event in events.iter().filter(|e| until.is_none_or(|u| e.at <= u)) {
        let at_s = seconds(event.at.as_micros());
        let from_server = |segment: SegmentTag| event.host == server && segment.peer == client;
        let from_client = |segment: SegmentTag| event.host == client && segment.peer == server;
        match event.what {
            SimEvent::Segment { segment, .. } if from_server(segment) && segment.data > 0 => {
                facts.bytes = facts.bytes.max(end_of(segment) - 1);
            }
            SimEvent::SegmentDropFull { segment } if from_server(segment) && segment.data > 0 => {
                facts.dropped += 1;
            }
            SimEvent::SegmentLost { segment } if from_server(segment) && segment.data > 0 => {
                facts.lost += 1;
            }
            SimEvent::SegmentDropFull { segment } | SimEvent::SegmentLost { segment }
                if from_client(segment) =>
            {
                facts.lost_back += 1;
            }
            SimEvent::SegmentArrived { segment } if from_server(segment) => {
                // RFC 5681 2: no data, nothing new acknowledged while something is outstanding.
                let repeats = segment.ack == acknowledged && segment.data == 0;
                let outstanding = (1..=facts.bytes).contains(&acknowledged);
                if repeats && outstanding && facts.duplicate.is_none() {
                    let sent = facts.bytes;
                    facts.duplicate = Some(DuplicateAck { at_s, sent });
                }
                acknowledged = acknowledged.max(segment.ack);
            }
            SimEvent::SegmentArrived { segment } if from_client(segment) && segment.data > 0 => {
                arrivals.add(at_s, segment);
            }
            _ => {}
        }
    }
    facts.stall = arrivals.longest;
    facts
}

fn end_of(segment: SegmentTag) -> u32 {
    segment.seq + u32::from(segment.data)
}

/// Bytes that have arrived in order, and the longest gap between two arrivals.
struct Arrivals {
    next: u32,
    /// Beyond a gap, by beginning.
    waiting: BTreeMap<u32, u32>,
    /// When something was last added, not before the request.
    last_s: f64,
    longest: Option<Stall>,
}

impl Arrivals {
    fn new(started_s: f64) -> Self {
        Self {
            next: 1,
            waiting: BTreeMap::new(),
            last_s: started_s,
            longest: None,
        }
    }

    fn add(&mut self, at_s: f64, segment: SegmentTag) {
        let end = self.waiting.entry(segment.seq).or_default();
        *end = end_of(segment).max(*end);
        let before = self.next;
        while let Some(entry) = self.waiting.first_entry().filter(|e| *e.key() <= self.next) {
            self.next = self.next.max(entry.remove());
        }
        if self.next == before || at_s < self.last_s {
            return;
        }
        let stall = Stall {
            from_s: self.last_s,
            to_s: at_s,
        };
        if self.longest.is_none_or(|l| stall.length_s() > l.length_s()) {
            self.longest = Some(stall);
        }
        self.last_s = at_s;
    }
}

/// Interleaving of several flows on the server's link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interleaving {
    /// From when all flows had data sent until the first was done.
    pub from_s: f64,
    /// Its end.
    pub to_s: f64,
    /// Data segments that the server sent of one flow before one of another, on average.
    pub mean_segments: f64,
    /// Null model: segments assigned to flows at random by their shares.
    pub at_random: f64,
}

impl Interleaving {
    /// Computes it over all flows of a run; `None` for a single flow, or if there is no time in
    /// which all sent.
    pub(super) fn of(record: &RunRecord, clients: u32) -> Option<Self> {
        if clients < 2 {
            return None;
        }
        let mut sent: Vec<(u64, u32)> = Vec::new();
        for event in &record.events {
            if let SimEvent::Segment { segment, .. } = event.what
                && event.host == clients
                && segment.data > 0
            {
                sent.push((event.at.as_micros(), segment.peer));
            }
        }
        let begins = |client| sent.iter().find(|(_, peer)| *peer == client).map(|s| s.0);
        let begins: Option<Vec<u64>> = (0..clients).map(begins).collect();
        let from = begins?.into_iter().max()?;
        let ends = record.flows.iter().map(|flow| flow.finished);
        let to = ends.flatten().min()?.as_micros();
        sent.retain(|(at, _)| (from..=to).contains(at));
        let changes = sent
            .windows(2)
            .filter(|pair| pair[0].1 != pair[1].1)
            .count();
        let all = sent.len() as f64;
        let share = |client| {
            let own = sent.iter().filter(|(_, peer)| *peer == client).count();
            own as f64 / all
        };
        let same: f64 = (0..clients).map(|client| share(client).powi(2)).sum();
        (!sent.is_empty() && same < 1.0).then(|| Self {
            from_s: seconds(from),
            to_s: seconds(to),
            mean_segments: all / (changes + 1) as f64,
            at_random: 1.0 / (1.0 - same),
        })
    }
}

#[cfg(test)]
mod tests {
    use carob_cc::time::Instant;

    use super::*;
    use crate::explained::{Chosen, thesis};

    fn tag(peer: u32, seq: u32, data: u16, ack: u32) -> SegmentTag {
        SegmentTag {
            peer,
            seq,
            data,
            flags: 0x10,
            ack,
        }
    }

    fn event(at: u64, host: u32, what: SimEvent) -> Event {
        Event {
            at: Instant::from_micros(at * 1_000_000),
            host,
            what,
        }
    }

    /// A server, host 1, sends four segments; the second is lost and sent again.
    fn events() -> Vec<Event> {
        let sent = |seq, again| SimEvent::Segment {
            segment: tag(0, seq, 10, 1),
            again,
        };
        let arrived = |peer, seq, data, ack| SimEvent::SegmentArrived {
            segment: tag(peer, seq, data, ack),
        };
        let lost = |peer, seq, data| SimEvent::SegmentLost {
            segment: tag(peer, seq, data, 1),
        };
        vec![
            // A SYN acknowledges nothing, and nothing is outstanding at the end of a handshake.
            event(0, 1, arrived(0, 0, 0, 0)),
            event(0, 1, arrived(0, 1, 0, 1)),
            event(0, 1, arrived(0, 1, 0, 1)),
            event(1, 1, sent(1, false)),
            event(1, 1, sent(11, false)),
            event(1, 1, lost(0, 11, 10)),
            event(2, 0, arrived(1, 1, 10, 1)),
            event(2, 1, sent(21, false)),
            event(3, 1, arrived(0, 5, 0, 11)),
            event(4, 0, arrived(1, 21, 10, 1)),
            event(5, 1, arrived(0, 5, 0, 11)),
            event(6, 1, sent(31, false)),
            event(6, 1, sent(11, true)),
            event(7, 0, lost(1, 5, 0)),
            event(8, 0, arrived(1, 11, 10, 1)),
        ]
    }

    #[test]
    fn duplicate_ack_and_stall_are_located() {
        let flow = FlowRecord::default();
        let facts = one(&flow, &events(), 1, 0);
        assert_eq!((facts.dropped, facts.lost, facts.lost_back), (0, 1, 1));
        assert_eq!(facts.bytes, 40);
        let duplicate = facts.duplicate.expect("one");
        assert_eq!((duplicate.at_s, duplicate.sent), (5.0, 30));
        // What arrived beyond the gap at 4 s was nothing new in order.
        let stall = facts.stall.expect("one");
        assert_eq!((stall.from_s, stall.to_s), (2.0, 8.0));
    }

    #[test]
    fn turns_are_counted_while_all_flows_send() {
        let sent = |at, peer| {
            let segment = tag(peer, 1, 10, 1);
            event(
                at,
                2,
                SimEvent::Segment {
                    segment,
                    again: false,
                },
            )
        };
        let flow = |at: u64| FlowRecord {
            finished: Some(Instant::from_micros(at * 1_000_000)),
            ..FlowRecord::default()
        };
        let events = [(1, 0), (2, 0), (3, 1), (4, 1), (5, 0), (6, 0), (8, 1)];
        let record = RunRecord {
            events: events.map(|(at, peer)| sent(at, peer)).to_vec(),
            flows: vec![flow(7), flow(9)],
            ..RunRecord::default()
        };
        let turns = Interleaving::of(&record, 2).expect("two flows");
        assert_eq!((turns.from_s, turns.to_s), (3.0, 7.0));
        assert_eq!((turns.mean_segments, turns.at_random), (2.0, 2.0));
        assert_eq!(Interleaving::of(&record, 1), None);
    }

    #[test]
    fn nightly_facts_agree_with_what_the_simulator_counted() {
        let explained = thesis();
        for run in &explained.run {
            let chosen = Chosen::new(run, explained.seeds).expect("possible");
            for (facts, flow) in chosen.facts.iter().zip(&chosen.record.flows) {
                let stall = facts.stall.expect("data came").length_s();
                let counted = flow.stall.as_micros() as f64 / 1e6;
                assert!(
                    (stall - counted).abs() < 1e-6,
                    "{}: {stall} {counted}",
                    run.id
                );
            }
            let dropped: u64 = chosen.facts.iter().map(|f| f.dropped).sum();
            assert!(
                dropped <= chosen.record.link.down.dropped_full,
                "{}",
                run.id
            );
        }
    }
}
