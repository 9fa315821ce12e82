//! Time-sequence graphs: transmissions, losses and retransmissions of blocks or segments over time.

use std::collections::BTreeMap;

use carob_sim::trace::{Event, SimEvent};

use super::chart::{At, Axis, Chart, Layer, Panel, Part, steps};
use super::picture::Picture;
use super::scale::{Mapping, number};
use super::shapes::Shape;

/// The most marks with a tooltip each; of more, marks of a kind share one element without.
pub const TOOLTIPS_MAX: usize = 4_000;
/// Up to this number marks are drawn large.
const FEW_MARKS: usize = 200;
/// Size of marks in panels beside each other.
const SMALL: f64 = 0.5;

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

impl SequenceGraph {
    /// The marks of one host's flow in a recorded trace.
    pub fn of(y_label: &str, events: &[Event], host: u32) -> Self {
        let marks = events
            .iter()
            .filter(|event| event.host == host)
            .filter_map(|event| {
                let (item, attempt, kind) = match event.what {
                    SimEvent::Sent {
                        item, attempt: 0, ..
                    } => (item, 0, Kind::First),
                    SimEvent::Sent { item, attempt, .. } => (item, attempt, Kind::Again),
                    SimEvent::Lost { item, attempt } => (item, attempt, Kind::Lost),
                    SimEvent::DropFull { item, attempt } => (item, attempt, Kind::Full),
                    SimEvent::Answered { item, attempts } => {
                        (item, attempts.saturating_sub(1), Kind::Answered)
                    }
                    _ => return None,
                };
                let at_s = event.at.as_micros() as f64 / 1e6;
                Some(Mark {
                    at_s,
                    item,
                    kind,
                    attempt,
                })
            })
            .collect();
        Self {
            y_label: y_label.to_owned(),
            answered: "answered",
            marks,
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
            let (is_ack, attempt) = (
                kind == Kind::Answered,
                attempts.entry(segment.seq).or_default(),
            );
            if segment.peer != peer || (segment.data == 0 && !is_ack) {
                return None;
            }
            if kind == Kind::Again {
                *attempt = attempt.saturating_add(1);
            }
            Some(Mark {
                at_s: event.at.as_micros() as f64 / 1e6,
                item: if is_ack { segment.ack } else { segment.seq },
                kind,
                attempt: if is_ack { 0 } else { *attempt },
            })
        });
        Self {
            y_label: "Sequence number (B)".to_owned(),
            answered: "acknowledged",
            marks: marks.collect(),
        }
    }

    /// The part between two times, in seconds, to see single transmissions.
    pub fn between(&self, from_s: f64, to_s: f64) -> Self {
        let inside = |mark: &&Mark| (from_s..=to_s).contains(&mark.at_s);
        let marks = self.marks.iter().filter(inside).copied().collect();
        Self {
            y_label: self.y_label.clone(),
            answered: self.answered,
            marks,
        }
    }

    /// The figure in both layouts.
    pub fn picture(&self, label: &str) -> Picture {
        self.drawn(label, self.marks.len() <= TOOLTIPS_MAX)
    }

    /// The figure without tooltips, which an image on a page cannot show and which make most of it.
    pub fn still(&self, label: &str) -> Picture {
        self.drawn(label, false)
    }

    fn drawn(&self, label: &str, tooltips: bool) -> Picture {
        // Few marks have room to be large.
        let size = if self.marks.len() > FEW_MARKS {
            0.8
        } else {
            1.25
        };
        let panel = self.panel("", size, tooltips);
        Chart::over_time(label, vec![panel]).picture()
    }

    /// The graph among others; with a tooltip for each mark or without.
    pub(super) fn panel(&self, title: &str, size: f64, tooltips: bool) -> Panel {
        let answered = Part::Line("seq-answered".to_owned(), vec![self.answered_line()]);
        let mut layers = vec![Layer::new(self.answered).part(answered)];
        layers.extend(KINDS.iter().map(|style| self.layer(style, size, tooltips)));
        Panel {
            title: title.to_owned(),
            x: Axis::new("", Mapping::Linear, self.times(), 8),
            y: Axis::new(&self.y_label, Mapping::Linear, self.items(), 6),
            layers,
            ..Panel::default()
        }
    }

    /// The lowest and highest item.
    fn items(&self) -> (f64, f64) {
        let items = self.marks.iter().map(|m| m.item);
        let (low, high) = (items.clone().min(), items.max());
        (f64::from(low.unwrap_or(0)), f64::from(high.unwrap_or(1)))
    }

    /// The first and last time.
    fn times(&self) -> (f64, f64) {
        let times = self.marks.iter().map(|m| m.at_s);
        let start = times.clone().fold(f64::INFINITY, f64::min);
        let start = if start.is_finite() { start } else { 0.0 };
        (start, times.fold(0.0, f64::max))
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
    pub(super) fn answered_line(&self) -> Vec<At> {
        let reached: Vec<At> = self.progress().map(Mark::at).collect();
        let end = reached.last().map_or(0.0, |last| last.0);
        steps(reached, end)
    }

    /// The places of marks of a kind.
    pub(super) fn places(&self, kind: Kind) -> Vec<At> {
        let own = self.marks.iter().filter(|mark| mark.kind == kind);
        own.map(Mark::at).collect()
    }

    fn layer(&self, style: &Style, size: f64, tooltips: bool) -> Layer {
        let Style(kind, name, what, class, shape, radius) = *style;
        // The figure's style has the size of a dot.
        let is_small_dot = shape == Shape::Dot && size < 1.0;
        let class = format!("{class}{}", if is_small_dot { " small" } else { "" });
        let marks = |at| Part::Marks(class.clone(), shape, size * radius, at);
        let layer = Layer::new(name);
        if !tooltips {
            return layer.part(marks(self.places(kind)));
        }
        let own = self.marks.iter().filter(|mark| mark.kind == kind);
        own.fold(layer, |layer, mark| {
            let attempt = u32::from(mark.attempt) + 1;
            let (axis, item, at) = (&self.y_label, mark.item, number(mark.at_s, 3));
            let tip = format!("{axis} {item}: {what} at {at} s (transmission {attempt})");
            layer.item(&tip, vec![marks(vec![mark.at()])])
        })
    }
}

impl Mark {
    fn at(&self) -> At {
        (self.at_s, f64::from(self.item))
    }
}

/// A kind of marks: its name in the legend and in tooltips, its class, shape and radius.
pub(super) struct Style(
    pub(super) Kind,
    pub(super) &'static str,
    pub(super) &'static str,
    pub(super) &'static str,
    pub(super) Shape,
    pub(super) f64,
);

/// Styles of events, in drawing order.
pub(super) const KINDS: [Style; 5] = [
    Style(
        Kind::First,
        "first transmission",
        "sent",
        "seq-first",
        Shape::Dot,
        1.9,
    ),
    Style(
        Kind::Again,
        "retransmission",
        "sent again",
        "seq-again",
        Shape::Triangle,
        3.5,
    ),
    Style(
        Kind::Full,
        "dropped by a full buffer",
        "dropped by a full buffer",
        "seq-full",
        Shape::Square,
        3.3,
    ),
    Style(
        Kind::Lost,
        "lost on the way",
        "lost on the way",
        "seq-lost",
        Shape::Cross,
        3.2,
    ),
    Style(
        Kind::LostBack,
        "lost on the way back",
        "its acknowledgment lost",
        "seq-back",
        Shape::Plus,
        3.3,
    ),
];

/// Graphs on common axes, each with its title, as one figure.
pub(super) fn sequences(graphs: &[(String, SequenceGraph)], label: &str) -> Picture {
    let panels = graphs.iter().map(|(title, graph)| {
        // A run begins at 0, and the panels have no room for large marks.
        let mut panel = graph.panel(title, SMALL, false);
        panel.x = Axis::new("", Mapping::Linear, (0.0, graph.times().1), 8);
        panel
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
    (segment.peer == host && segment.ack > 0).then(|| Mark {
        at_s: event.at.as_micros() as f64 / 1e6,
        item: segment.ack,
        kind: Kind::LostBack,
        attempt: 0,
    })
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
        let events = [
            event(0, 0, sent(0, 0)),
            event(0, 1, sent(0, 0)),
            event(
                100,
                0,
                SimEvent::Lost {
                    item: 0,
                    attempt: 0,
                },
            ),
            event(2_000_000, 0, sent(0, 1)),
            event(
                2_700_000,
                0,
                SimEvent::Answered {
                    item: 0,
                    attempts: 2,
                },
            ),
            event(2_700_000, 0, sent(1, 0)),
        ];
        SequenceGraph::of("Block number", &events, 0)
    }

    #[test]
    fn a_trace_becomes_the_marks_of_one_host() {
        let kinds: Vec<Kind> = graph().marks.iter().map(|m| m.kind).collect();
        assert_eq!(
            kinds,
            [
                Kind::First,
                Kind::Lost,
                Kind::Again,
                Kind::Answered,
                Kind::First
            ]
        );
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
        let sent = |seq, again| SimEvent::Segment {
            segment: tag(0, seq, 256, 1),
            again,
        };
        let events = [
            event(0, 2, sent(1, false)),
            event(
                0,
                2,
                SimEvent::SegmentLost {
                    segment: tag(0, 1, 256, 1),
                },
            ),
            event(
                1,
                2,
                SimEvent::Segment {
                    segment: tag(0, 257, 0, 1),
                    again: false,
                },
            ),
            event(
                2,
                2,
                SimEvent::Segment {
                    segment: tag(1, 1, 256, 1),
                    again: false,
                },
            ),
            event(3, 2, sent(1, true)),
            event(
                4,
                0,
                SimEvent::SegmentArrived {
                    segment: tag(2, 1, 256, 1),
                },
            ),
            event(
                5,
                2,
                SimEvent::SegmentArrived {
                    segment: tag(0, 18, 0, 257),
                },
            ),
            event(
                6,
                0,
                SimEvent::SegmentLost {
                    segment: tag(2, 18, 0, 513),
                },
            ),
        ];
        let graph = SequenceGraph::of_stream(&events, 2, 0);
        let marks: Vec<_> = graph
            .marks
            .iter()
            .map(|m| (m.kind, m.item, m.attempt))
            .collect();
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
        assert!(
            svg.contains("acknowledged") && !svg.contains(">answered<"),
            "{svg}"
        );
        assert!(svg.contains("<title>") && !graph.still("a label").0.contains("<title>"));
    }

    #[test]
    fn every_mark_says_what_it_is() {
        let svg = graph().picture("a label").0;
        assert!(
            svg.contains("<title>Block number 0: sent again at 2.000 s (transmission 2)</title>")
        );
        assert!(svg.contains(
            "<title>Block number 0: lost on the way at 0.000 s (transmission 1)</title>"
        ));
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

    #[test]
    fn thousands_of_marks_share_one_element() {
        let mark = |item| Mark {
            at_s: 0.0,
            item,
            kind: Kind::First,
            attempt: 0,
        };
        let marks = (0..=TOOLTIPS_MAX as u32).map(mark).collect();
        let graph = SequenceGraph {
            y_label: "Block".to_owned(),
            answered: "answered",
            marks,
        };
        assert!(!graph.picture("a label").0.contains("<title>"));
    }

    #[test]
    fn nothing_is_a_figure_too() {
        let empty = SequenceGraph {
            y_label: "Block".to_owned(),
            answered: "answered",
            marks: Vec::new(),
        };
        assert!(!empty.picture("a label").0.contains("NaN"));
    }
}
