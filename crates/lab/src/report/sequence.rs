//! Time-sequence graphs: transmissions, losses and retransmissions of blocks or segments of a flow over time.

use carob_sim::trace::{Event, SimEvent};

use super::chart::{At, Axis, Chart, Layer, Panel, Part, steps};
use super::svg::Picture;
use super::svg::Shape;

/// Up to this number marks are drawn large.
const FEW_MARKS: usize = 200;

/// The event of a mark of a time-sequence graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A message was sent for the first time.
    First,
    /// A message was retransmitted.
    Again,
    /// A transmission was lost after the bottleneck.
    Lost,
    /// A transmission met a full buffer.
    Full,
    /// The item was answered or acknowledged.
    Answered,
    /// A packet of the other end, which acknowledged up to the item, was dropped or lost.
    LostBack,
}

/// An event: its kind, its time in seconds, and its block number or sequence number.
type Mark = (Kind, At);

/// A time-sequence graph of one flow.
#[derive(Clone, Debug)]
pub(super) struct SequenceGraph {
    /// Label of the vertical axis, such as `Block number`.
    y_label: String,
    /// Legend of [`Kind::Answered`].
    answered: &'static str,
    /// Its marks, in order of time.
    marks: Vec<Mark>,
}

/// Styles of events in drawing order: kind, name in the legend, class, shape and radius.
const KINDS: [(Kind, &str, &str, Shape, f64); 5] = [
    (
        Kind::First,
        "first transmission",
        "seq-first",
        Shape::Dot,
        1.9,
    ),
    (
        Kind::Again,
        "retransmission",
        "seq-again",
        Shape::Triangle,
        3.5,
    ),
    (
        Kind::Full,
        "dropped by a full buffer",
        "seq-full",
        Shape::Square,
        3.3,
    ),
    (Kind::Lost, "lost", "seq-lost", Shape::Cross, 3.2),
    (
        Kind::LostBack,
        "acknowledgment lost",
        "seq-back",
        Shape::Plus,
        3.3,
    ),
];

impl SequenceGraph {
    /// The marks of one host's flow in a recorded trace.
    pub(super) fn of(y_label: &str, events: &[Event], host: u32) -> Self {
        let own = events.iter().filter(|event| event.host == host);
        let marks = own.filter_map(|event| {
            let (item, kind) = match event.what {
                SimEvent::Sent { item, attempt, .. } if attempt > 0 => (item, Kind::Again),
                SimEvent::Sent { item, .. } => (item, Kind::First),
                SimEvent::Lost { item, .. } => (item, Kind::Lost),
                SimEvent::DropFull { item, .. } => (item, Kind::Full),
                SimEvent::Answered { item, .. } => (item, Kind::Answered),
                _ => return None,
            };
            Some(mark(event, item, kind))
        });
        Self {
            y_label: y_label.to_owned(),
            answered: "answered",
            marks: marks.collect(),
        }
    }

    /// The marks of the data that `host` sends to `peer` over TCP: items are sequence numbers, in
    /// bytes from the beginning of the connection. Acknowledgements are shown when the ACK
    /// arrives; lost ACKs at the sequence number that they acknowledge.
    pub(super) fn of_stream(events: &[Event], host: u32, peer: u32) -> Self {
        let marks = events.iter().filter_map(|event| {
            let (segment, kind) = match event.what {
                SimEvent::Segment {
                    segment,
                    again: true,
                } => (segment, Kind::Again),
                SimEvent::Segment { segment, .. } => (segment, Kind::First),
                SimEvent::SegmentLost { segment } => (segment, Kind::Lost),
                SimEvent::SegmentDropFull { segment } => (segment, Kind::Full),
                SimEvent::SegmentArrived { segment } => (segment, Kind::Answered),
                _ => return None,
            };
            let is_drop = matches!(kind, Kind::Lost | Kind::Full);
            let (from, to) = (event.host, segment.peer);
            // A first SYN acknowledges nothing.
            if is_drop && (from, to) == (peer, host) && segment.ack > 0 {
                return Some(mark(event, segment.ack, Kind::LostBack));
            }
            if (from, to) != (host, peer) {
                return None;
            }
            match kind {
                Kind::Answered => Some(mark(event, segment.ack, kind)),
                _ => (segment.data > 0).then(|| mark(event, segment.seq, kind)),
            }
        });
        Self {
            y_label: "Sequence number (B)".to_owned(),
            answered: "acknowledged",
            marks: marks.collect(),
        }
    }

    /// The graph among others, its marks this large.
    fn panel(&self, size: f64) -> Panel {
        let answered = Part::line("seq-answered", self.answered_line());
        let mut layers = vec![Layer::new(self.answered).part(answered)];
        layers.extend(KINDS.iter().map(|(kind, name, class, shape, radius)| {
            // The figure's style has the size of a dot.
            let is_small_dot = *shape == Shape::Dot && size < 1.0;
            let class = format!("{class}{}", if is_small_dot { " small" } else { "" });
            let places = self.of_kind(*kind).collect();
            Layer::new(name).part(Part::marks(&class, *shape, size * radius, places))
        }));
        let x = Axis::linear("", 8).with(0.0);
        Panel::new(x, Axis::linear(&self.y_label, 6), layers)
    }

    fn of_kind(&self, kind: Kind) -> impl Iterator<Item = At> {
        let own = self.marks.iter().filter(move |mark| mark.0 == kind);
        own.map(|mark| mark.1)
    }

    /// The highest item answered so far as steps.
    fn answered_line(&self) -> Vec<At> {
        let mut reached: Vec<At> = Vec::new();
        for (at, item) in self.of_kind(Kind::Answered) {
            if reached.last().is_none_or(|(_, before)| item > *before) {
                reached.push((at, item));
            }
        }
        let end = reached.last().map_or(0.0, |last| last.0);
        steps(reached, end)
    }
}

fn mark(event: &Event, item: u32, kind: Kind) -> Mark {
    (kind, (event.at.as_micros() as f64 / 1e6, f64::from(item)))
}

/// Graphs on common axes, each with its title, as one figure.
pub(super) fn sequences(graphs: &[(String, SequenceGraph)], label: &str) -> Picture {
    let panels = graphs.iter().map(|(title, graph)| {
        let size = match (graphs.len(), graph.marks.len()) {
            (1, ..=FEW_MARKS) => 1.25,
            (1, _) => 0.8,
            _ => 0.5,
        };
        graph.panel(size).titled(title)
    });
    Chart::over_time(label, panels.collect()).picture()
}

#[cfg(test)]
mod tests {
    use carob_cc::time::Instant;
    use carob_sim::trace::SegmentTag;

    use super::*;

    fn event(micros: u64, host: u32, what: SimEvent) -> Event {
        Event {
            at: Instant::from_micros(micros),
            host,
            what,
        }
    }

    impl SequenceGraph {
        fn picture(self) -> String {
            sequences(&[("a run".to_owned(), self)], "a label").0
        }
    }

    fn graph() -> SequenceGraph {
        let sent = |item, attempt| SimEvent::Sent {
            item,
            attempt,
            bytes: 42,
        };
        let (item, attempt, attempts) = (0, 0, 2);
        let events = [
            event(0, 0, sent(0, 0)),
            event(0, 1, sent(0, 0)),
            event(100, 0, SimEvent::Lost { item, attempt }),
            event(2_000_000, 0, sent(0, 1)),
            event(2_700_000, 0, SimEvent::Answered { item, attempts }),
            event(2_700_000, 0, sent(1, 0)),
        ];
        SequenceGraph::of("Block number", &events, 0)
    }

    #[test]
    fn a_trace_becomes_the_marks_of_one_host() {
        let kinds: Vec<Kind> = graph().marks.iter().map(|m| m.0).collect();
        let (first, again) = (Kind::First, Kind::Again);
        assert_eq!(kinds, [first, Kind::Lost, again, Kind::Answered, first]);
    }

    #[test]
    fn stream_has_data_and_acks_of_one_connection() {
        let tag = |peer, seq, data, ack| SegmentTag {
            peer,
            seq,
            data,
            flags: 0x10,
            ack,
        };
        let sent = |segment, again| SimEvent::Segment { segment, again };
        let lost = |segment| SimEvent::SegmentLost { segment };
        let arrived = |segment| SimEvent::SegmentArrived { segment };
        let events = [
            event(0, 2, sent(tag(0, 1, 256, 1), false)),
            event(0, 2, lost(tag(0, 1, 256, 1))),
            event(1, 2, sent(tag(0, 257, 0, 1), false)),
            event(2, 2, sent(tag(1, 1, 256, 1), false)),
            event(3, 2, sent(tag(0, 1, 256, 1), true)),
            event(4, 0, arrived(tag(2, 1, 256, 1))),
            event(5, 2, arrived(tag(0, 18, 0, 257))),
            event(6, 0, lost(tag(2, 18, 0, 513))),
        ];
        let graph = SequenceGraph::of_stream(&events, 2, 0);
        let marks = graph.marks.iter().map(|m| (m.0, m.1.1 as u32));
        let marks: Vec<_> = marks.collect();
        assert_eq!(
            marks,
            [
                (Kind::First, 1),
                (Kind::Lost, 1),
                (Kind::Again, 1),
                (Kind::Answered, 257),
                (Kind::LostBack, 513)
            ]
        );
        let svg = graph.picture();
        assert!(svg.contains("acknowledged") && !svg.contains(">answered<"));
    }

    #[test]
    fn figures_have_a_legend() {
        let svg = graph().picture();
        assert!(svg.contains(">retransmission<") && svg.contains(">Block number<"));
        assert!(!svg.contains("dropped by a full buffer"));
        let mut none = graph();
        none.marks.clear();
        let svg = none.picture();
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }
}
