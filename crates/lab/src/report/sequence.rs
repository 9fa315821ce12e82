//! Time-sequence graphs: transmissions, losses and retransmissions of blocks or segments over time, of one flow or of
//! several in one, a colour each.

use std::collections::BTreeMap;

use carob_sim::trace::{Event, SimEvent};

use super::chart::{At, Axis, Chart, Layer, Panel, Part, steps};
use super::look::COLOURS;
use super::resolved::Picture;
use super::scale::number;
use super::shapes::Shape;

/// The most marks with a tooltip each; of more, marks of a kind share one element without.
pub const TOOLTIPS_MAX: usize = 4_000;
/// Up to this number marks are drawn large.
const FEW_MARKS: usize = 200;
/// Sizes of marks in panels beside each other, and where several flows share a panel.
const SMALL: f64 = 0.5;
const SHARED: f64 = 0.75;

/// The event of a mark of a time-sequence graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
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

/// One mark.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mark {
    /// Seconds since the run began.
    pub at_s: f64,
    /// Block or segment number.
    pub item: u32,
    /// The event.
    pub kind: Kind,
    /// Retransmissions before it.
    pub attempt: u8,
}

/// A time-sequence graph of one flow.
#[derive(Clone, Debug)]
pub struct SequenceGraph {
    /// Label of the vertical axis, such as `Block number`.
    pub y_label: String,
    /// Legend of [`Kind::Answered`].
    pub answered: &'static str,
    /// Its marks, in order of time.
    pub marks: Vec<Mark>,
}

/// A kind of marks: its name in the legend and in tooltips, its class, shape and radius.
type Style = (Kind, &'static str, &'static str, &'static str, Shape, f64);

/// Styles of events, in drawing order.
#[rustfmt::skip]
const KINDS: [Style; 5] = [
    (Kind::First, "first transmission", "sent", "seq-first", Shape::Dot, 1.9),
    (Kind::Again, "retransmission", "sent again", "seq-again", Shape::Triangle, 3.5),
    (Kind::Full, "dropped by a full buffer", "dropped by a full buffer", "seq-full", Shape::Square, 3.3),
    (Kind::Lost, "lost on the way", "lost on the way", "seq-lost", Shape::Cross, 3.2),
    (Kind::LostBack, "lost on the way back", "its acknowledgment lost", "seq-back", Shape::Plus, 3.3),
];

impl SequenceGraph {
    /// The marks of one host's flow in a recorded trace.
    pub fn of(y_label: &str, events: &[Event], host: u32) -> Self {
        let own = events.iter().filter(|event| event.host == host);
        let marks = own.filter_map(|event| {
            let (item, attempt, kind) = match event.what {
                SimEvent::Sent { item, attempt, .. } => {
                    let kind = if attempt == 0 {
                        Kind::First
                    } else {
                        Kind::Again
                    };
                    (item, attempt, kind)
                }
                SimEvent::Lost { item, attempt } => (item, attempt, Kind::Lost),
                SimEvent::DropFull { item, attempt } => (item, attempt, Kind::Full),
                SimEvent::Answered { item, attempts } => {
                    (item, attempts.saturating_sub(1), Kind::Answered)
                }
                _ => return None,
            };
            Some(Mark::new(event, item, kind, attempt))
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
    pub fn of_stream(events: &[Event], host: u32, peer: u32) -> Self {
        let mut attempts: BTreeMap<u32, u8> = BTreeMap::new();
        let marks = events.iter().filter_map(|event| {
            if event.host == peer {
                return lost_back(event, host);
            }
            if event.host != host {
                return None;
            }
            let (segment, kind) = match event.what {
                SimEvent::Segment { segment, again } => {
                    (segment, if again { Kind::Again } else { Kind::First })
                }
                SimEvent::SegmentLost { segment } => (segment, Kind::Lost),
                SimEvent::SegmentDropFull { segment } => (segment, Kind::Full),
                SimEvent::SegmentArrived { segment } => (segment, Kind::Answered),
                _ => return None,
            };
            let attempt = attempts.entry(segment.seq).or_default();
            let is_ack = kind == Kind::Answered;
            if segment.peer != peer || (segment.data == 0 && !is_ack) {
                return None;
            }
            if is_ack {
                return Some(Mark::new(event, segment.ack, kind, 0));
            }
            *attempt = attempt.saturating_add(u8::from(kind == Kind::Again));
            Some(Mark::new(event, segment.seq, kind, *attempt))
        });
        Self {
            y_label: "Sequence number (B)".to_owned(),
            answered: "acknowledged",
            marks: marks.collect(),
        }
    }

    /// The part between two times, in seconds, to see single transmissions.
    pub fn between(&self, from_s: f64, to_s: f64) -> Self {
        let mut part = self.clone();
        part.marks
            .retain(|mark| (from_s..=to_s).contains(&mark.at_s));
        part
    }

    /// The figure with a tooltip for each mark, up to [`TOOLTIPS_MAX`].
    pub fn picture(&self, label: &str) -> Picture {
        self.drawn(label, self.marks.len() <= TOOLTIPS_MAX)
    }

    fn drawn(&self, label: &str, tooltips: bool) -> Picture {
        // Few marks have room to be large.
        let is_full = self.marks.len() > FEW_MARKS;
        let panel = self.panel(if is_full { 0.8 } else { 1.25 }, tooltips);
        Chart::over_time(label, vec![panel]).picture()
    }

    /// The graph among others; with a tooltip for each mark or without.
    fn panel(&self, size: f64, tooltips: bool) -> Panel {
        let answered = Part::line("seq-answered", self.answered_line());
        let mut layers = vec![Layer::new(self.answered).part(answered)];
        layers.extend(KINDS.iter().map(|style| self.layer(style, size, tooltips)));
        Panel::new(Axis::linear("", 8), Axis::linear(&self.y_label, 6), layers)
    }

    /// The answers that reached further than all before them.
    pub(super) fn progress(&self) -> impl Iterator<Item = &Mark> {
        let mut reached: Option<u32> = None;
        let answered = self.marks.iter().filter(|m| m.kind == Kind::Answered);
        answered.filter(move |mark| {
            let before = reached;
            reached = before.max(Some(mark.item));
            before.is_none_or(|before| mark.item > before)
        })
    }

    /// The highest item answered so far as steps.
    fn answered_line(&self) -> Vec<At> {
        let reached: Vec<At> = self.progress().map(Mark::at).collect();
        let end = reached.last().map_or(0.0, |last| last.0);
        steps(reached, end)
    }

    fn of_kind(&self, kind: Kind) -> impl Iterator<Item = &Mark> {
        self.marks.iter().filter(move |mark| mark.kind == kind)
    }

    fn places(&self, kind: Kind) -> Vec<At> {
        self.of_kind(kind).map(Mark::at).collect()
    }

    fn layer(&self, style: &Style, size: f64, tooltips: bool) -> Layer {
        let (kind, name, what, class, shape, radius) = *style;
        // The figure's style has the size of a dot.
        let is_small_dot = shape == Shape::Dot && size < 1.0;
        let class = format!("{class}{}", if is_small_dot { " small" } else { "" });
        let marks = |at| Part::marks(&class, shape, size * radius, at);
        let mut layer = Layer::new(name);
        if !tooltips {
            return layer.part(marks(self.places(kind)));
        }
        for mark in self.of_kind(kind) {
            let attempt = u32::from(mark.attempt) + 1;
            let (axis, item, at) = (&self.y_label, mark.item, number(mark.at_s, 3));
            let tip = format!("{axis} {item}: {what} at {at} s (transmission {attempt})");
            layer.add(&tip, vec![marks(vec![mark.at()])]);
        }
        layer
    }
}

impl Mark {
    fn new(event: &Event, item: u32, kind: Kind, attempt: u8) -> Self {
        Self {
            at_s: event.at.as_micros() as f64 / 1e6,
            item,
            kind,
            attempt,
        }
    }

    fn at(&self) -> At {
        (self.at_s, f64::from(self.item))
    }
}

/// Graphs on common axes, each with its title, as one figure.
pub(super) fn sequences(graphs: &[(String, SequenceGraph)], label: &str) -> Picture {
    let panels = graphs.iter().map(|(title, graph)| {
        // A run begins at 0, and the panels have no room for large marks.
        let panel = graph.panel(SMALL, false).titled(title);
        let x = Axis::linear("", 8).with(0.0);
        Panel { x, ..panel }
    });
    Chart::over_time(label, panels.collect()).picture()
}

/// The mark of an event at the other end of a stream, if it is the loss of a packet to `host`.
fn lost_back(event: &Event, host: u32) -> Option<Mark> {
    let (SimEvent::SegmentLost { segment } | SimEvent::SegmentDropFull { segment }) = event.what
    else {
        return None;
    };
    // A first SYN acknowledges nothing.
    let is_ack = segment.peer == host && segment.ack > 0;
    is_ack.then(|| Mark::new(event, segment.ack, Kind::LostBack, 0))
}

/// Time-sequence graphs of the flows of a run, drawn over each other.
#[derive(Clone, Debug)]
pub struct FlowsGraph {
    /// One per flow, in the order of their clients.
    pub flows: Vec<SequenceGraph>,
}

impl FlowsGraph {
    /// Graph of the data that the server, the last host, sends to each of its clients over TCP.
    pub fn of_streams(events: &[Event], clients: u32) -> Self {
        let flows = (0..clients).map(|client| SequenceGraph::of_stream(events, clients, client));
        Self {
            flows: flows.collect(),
        }
    }

    /// The part between two times, in seconds.
    pub fn between(&self, from_s: f64, to_s: f64) -> Self {
        let flows = self.flows.iter().map(|flow| flow.between(from_s, to_s));
        Self {
            flows: flows.collect(),
        }
    }

    /// The figure. Tooltips, which an image on a page cannot show, are as far as [`TOOLTIPS_MAX`] goes and of one
    /// flow alone.
    pub fn picture(&self, label: &str, tooltips: bool) -> Picture {
        match &self.flows[..] {
            [one] => one.drawn(label, tooltips && one.marks.len() <= TOOLTIPS_MAX),
            flows => {
                let y_label = flows.first().map_or("", |flow| flow.y_label.as_str());
                let y = Axis::linear(y_label, 6);
                let panel = Panel::new(Axis::linear("", 8), y, self.layers());
                Chart::over_time(label, vec![panel]).picture()
            }
        }
    }

    /// Lines of all flows and first transmissions in a colour each, then their other marks; what needs attention
    /// is on top.
    fn layers(&self) -> Vec<Layer> {
        let flows = || (0..).zip(&self.flows);
        let colour = |class: &str, k: usize| format!("{class} c{}", k % COLOURS);
        let flow = |(k, flow): (usize, &SequenceGraph)| {
            let line = Part::line(&colour("flow-line", k), flow.answered_line());
            let first = flow.places(Kind::First);
            let first = Part::marks(&colour("flow-first", k), Shape::Dot, 0.0, first);
            Layer::new(&format!("flow {}", k + 1)).item("", vec![line, first])
        };
        let mut layers: Vec<Layer> = flows().map(flow).collect();
        for (kind, name, _, class, shape, radius) in KINDS.into_iter().skip(1) {
            layers.push(flows().fold(Layer::new(name), |layer, (k, flow)| {
                let class = match kind {
                    Kind::Again => colour("flow-again", k),
                    Kind::Full => "flow-full".to_owned(),
                    _ => class.to_owned(),
                };
                layer.part(Part::marks(
                    &class,
                    shape,
                    SHARED * radius,
                    flow.places(kind),
                ))
            }));
        }
        layers
    }
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
        let kinds: Vec<Kind> = graph().marks.iter().map(|m| m.kind).collect();
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
        let marks = graph.marks.iter().map(|m| (m.kind, m.item, m.attempt));
        let marks: Vec<_> = marks.collect();
        assert_eq!(
            marks,
            [
                (Kind::First, 1, 0),
                (Kind::Lost, 1, 0),
                (Kind::Again, 1, 1),
                (Kind::Answered, 257, 0),
                (Kind::LostBack, 513, 0)
            ]
        );
        let svg = graph.picture("a label").0;
        assert!(svg.contains("acknowledged") && !svg.contains(">answered<"));
        assert!(svg.contains("<title>") && !graph.drawn("a label", false).0.contains("<title>"));
    }

    #[test]
    fn every_mark_says_what_it_is() {
        let svg = graph().picture("a label").0;
        for tip in [
            "sent again at 2.000 s (transmission 2)",
            "lost on the way at 0.000 s (transmission 1)",
        ] {
            assert!(
                svg.contains(&format!("<title>Block number 0: {tip}</title>")),
                "{tip}"
            );
        }
        assert!(
            !svg.contains("dropped by a full buffer"),
            "a legend has only what is shown"
        );
    }

    #[test]
    fn a_part_has_only_what_is_inside() {
        let part = graph().between(1.0, 2.5);
        assert_eq!(part.marks.len(), 1);
        assert!(part.picture("a label").0.starts_with("<svg"));
    }

    fn of_marks(marks: u32) -> SequenceGraph {
        let mark = |item| Mark {
            at_s: 1.0,
            item,
            kind: Kind::First,
            attempt: 0,
        };
        SequenceGraph {
            y_label: "Sequence number (B)".to_owned(),
            answered: "acknowledged",
            marks: (0..marks).map(mark).collect(),
        }
    }

    #[test]
    fn thousands_of_marks_share_one_element() {
        let many = of_marks(TOOLTIPS_MAX as u32 + 1);
        assert!(!many.picture("a label").0.contains("<title>"));
    }

    #[test]
    fn flows_have_distinct_colours() {
        let flows = vec![of_marks(1), of_marks(1)];
        let svg = FlowsGraph { flows }.picture("a label", true).0;
        assert!(svg.contains(">flow 2<") && svg.contains("flow-first c1"));
        assert!(!svg.contains("retransmission"), "a legend of what is shown");
    }

    #[test]
    fn nothing_is_a_figure_too() {
        let flows = Vec::new();
        for svg in [
            of_marks(0).picture("a label").0,
            FlowsGraph { flows }.picture("a label", true).0,
        ] {
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
    }
}
