//! Time-sequence graphs of several flows in one, a colour each.

use carob_sim::trace::Event;

use super::chart::{Axis, Chart, Layer, Panel, Part};
use super::look::COLOURS;
use super::picture::Picture;
use super::scale::Mapping;
use super::sequence::{KINDS, Kind, SequenceGraph, Style};
use super::shapes::Shape;

/// Time-sequence graphs of the flows of a run, drawn over each other.
#[derive(Clone, Debug)]
pub struct FlowsGraph {
    /// One per flow, in the order of their clients.
    pub flows: Vec<SequenceGraph>,
}

/// Where several flows share a figure there is little room for marks.
const SIZE: f64 = 0.75;

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
        let part = |flow: &SequenceGraph| flow.between(from_s, to_s);
        Self {
            flows: self.flows.iter().map(part).collect(),
        }
    }

    /// The figure in both layouts; without tooltips.
    pub fn picture(&self, label: &str) -> Picture {
        let empty = Panel {
            x: Axis::new("", Mapping::Linear, (0.0, 1.0), 8),
            y: Axis::new("", Mapping::Linear, (0.0, 1.0), 6),
            ..Panel::default()
        };
        let marked = self.flows.iter().filter(|flow| !flow.marks.is_empty());
        let own = marked.map(|flow| flow.panel("", SIZE, false));
        let axes = own.reduce(|axes, other| axes.join(&other)).unwrap_or(empty);
        let panel = Panel {
            layers: self.layers(),
            ..axes
        };
        Chart::over_time(label, vec![panel]).picture()
    }

    /// Lines of all flows and first transmissions in a colour each, then their other marks; what needs attention
    /// is on top.
    fn layers(&self) -> Vec<Layer> {
        let flows = || (0..).zip(&self.flows);
        let colour = |class: &str, k: usize| format!("{class} c{}", k % COLOURS);
        let mut layers: Vec<Layer> = flows()
            .map(|(k, flow)| {
                let line = Part::Line(colour("flow-line", k), vec![flow.answered_line()]);
                let first = flow.places(Kind::First);
                let first = Part::Marks(colour("flow-first", k), Shape::Dot, 0.0, first);
                Layer::new(&format!("flow {}", k + 1)).item("", vec![line, first])
            })
            .collect();
        for Style(kind, name, _, class, shape, radius) in KINDS.into_iter().skip(1) {
            let layer = flows().fold(Layer::new(name), |layer, (k, flow)| {
                let class = match kind {
                    Kind::Again => colour("flow-again", k),
                    Kind::Full => "flow-full".to_owned(),
                    _ => class.to_owned(),
                };
                layer.part(Part::Marks(class, shape, SIZE * radius, flow.places(kind)))
            });
            layers.push(layer);
        }
        layers
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Mark;

    #[test]
    fn flows_have_distinct_colours_and_none_is_a_valid_figure() {
        let mark = Mark {
            at_s: 1.0,
            item: 1,
            kind: Kind::First,
            attempt: 0,
        };
        let flow = SequenceGraph {
            y_label: "Sequence number (B)".to_owned(),
            answered: "acknowledged",
            marks: vec![mark],
        };
        let svg = FlowsGraph {
            flows: vec![flow.clone(), flow],
        }
        .picture("a label")
        .0;
        assert!(svg.contains(">flow 2<") && svg.contains("flow-first c1"));
        assert!(!svg.contains("retransmission"), "a legend of what is shown");
        let none = FlowsGraph { flows: Vec::new() }.picture("a label").0;
        assert!(!none.contains("NaN") && !none.contains("inf"), "{none}");
    }
}
