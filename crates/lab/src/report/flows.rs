//! Time-sequence graphs of several flows in one, a colour each.

use carob_sim::trace::Event;

use super::frame::{COLOURS, DrawKey, Frame, Key, WIDTH, left_margin, legend};
use super::scale::{Mapping, Scale};
use super::sequence::{Kind, Mark, SequenceGraph};
use super::shapes::{cross, plus, point, square, triangle};
use super::svg::Svg;

/// Time-sequence graphs of the flows of a run, drawn over each other.
#[derive(Clone, Debug)]
pub struct FlowsGraph {
    /// One per flow, in the order of their clients.
    pub flows: Vec<SequenceGraph>,
}

/// Path data of a mark around a point.
type Outline = Box<dyn Fn((f64, f64)) -> String>;

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

    /// The figure as an SVG element; without tooltips.
    pub fn svg(&self, label: &str) -> String {
        const HEIGHT: f64 = 460.0;
        let mut svg = Svg::default();
        let legend_height = self.legend(&mut svg);
        let (top, bottom) = (14.0 + legend_height, HEIGHT - 52.0);
        let widest = |ranges: &mut dyn Iterator<Item = (f64, f64)>| {
            ranges.fold((f64::INFINITY, 0.0_f64), |(low, high), (from, to)| {
                (low.min(from), high.max(to))
            })
        };
        let marked = || self.flows.iter().filter(|flow| !flow.marks.is_empty());
        let (mut items, mut times) = (
            widest(&mut marked().map(SequenceGraph::items)),
            widest(&mut marked().map(SequenceGraph::times)),
        );
        if marked().next().is_none() {
            (items, times) = ((0.0, 1.0), (0.0, 1.0));
        }
        let y = Scale::new(Mapping::Linear, items, 6, (bottom, top));
        let frame = Frame {
            left: left_margin(&y),
            right: WIDTH - 16.0,
            top,
            bottom,
        };
        let x = Scale::new(Mapping::Linear, times, 8, (frame.left, frame.right));
        let y_label = self.flows.first().map_or("", |flow| flow.y_label.as_str());
        frame.y_axis(&mut svg, &y, y_label);
        frame.x_axis(&mut svg, &x, "Time (s)");
        self.draw(&mut svg, &x, &y);
        svg.finish(WIDTH, HEIGHT, label)
    }

    fn has(&self, kind: Kind) -> bool {
        let mut marks = self.flows.iter().flat_map(|flow| &flow.marks);
        marks.any(|mark| mark.kind == kind)
    }

    fn legend(&self, svg: &mut Svg) -> f64 {
        let mut draws: Vec<(String, Box<DrawKey>)> = Vec::new();
        for k in 0..self.flows.len() {
            let class = format!("flow-first c{}", k % COLOURS);
            draws.push((
                format!("flow {}", k + 1),
                Box::new(move |svg, (x, y)| svg.line(&class, (x - 6.0, y), (x + 6.0, y))),
            ));
        }
        let marks: [(Kind, &str, Box<DrawKey>); 5] = [
            (
                Kind::Again,
                "retransmission",
                Box::new(|svg, at| svg.path("flow-key", &triangle(at, SIZE))),
            ),
            (
                Kind::Full,
                "dropped by a full buffer",
                Box::new(|svg, at| svg.path("flow-full", &square(at, SIZE))),
            ),
            (
                Kind::Lost,
                "lost on the way",
                Box::new(|svg, at| svg.path("seq-lost", &cross(at, SIZE))),
            ),
            (
                Kind::LostBack,
                "lost on the way back",
                Box::new(|svg, at| svg.path("seq-back", &plus(at, SIZE))),
            ),
            (
                Kind::Answered,
                "acknowledged",
                Box::new(|svg, (x, y)| svg.line("seq-answered", (x - 9.0, y), (x + 9.0, y))),
            ),
        ];
        for (kind, label, draw) in marks {
            if self.has(kind) {
                draws.push((label.to_owned(), draw));
            }
        }
        let keys: Vec<Key<'_>> = draws
            .iter()
            .map(|(label, draw)| Key {
                label,
                draw: draw.as_ref(),
            })
            .collect();
        legend(svg, 64.0, 14.0, WIDTH - 16.0, &keys)
    }

    /// Lines of all flows first, then their marks; what needs attention is drawn last, on top.
    fn draw(&self, svg: &mut Svg, x: &Scale, y: &Scale) {
        let at = |m: &Mark| (x.at(m.at_s), y.at(f64::from(m.item)));
        let flows = || self.flows.iter().enumerate();
        for (k, flow) in flows() {
            if let Some(data) = flow.answered_line(x, y) {
                svg.path(&format!("flow-line c{}", k % COLOURS), &data);
            }
        }
        let path = |flow: &SequenceGraph, kind: Kind, shape: &dyn Fn((f64, f64)) -> String| {
            let marks = flow.marks.iter().filter(|mark| mark.kind == kind);
            marks.map(|mark| shape(at(mark))).collect::<String>()
        };
        let coloured: [(Kind, &str, Outline); 2] = [
            (Kind::First, "flow-first", Box::new(point)),
            (Kind::Again, "flow-again", Box::new(|p| triangle(p, SIZE))),
        ];
        for (kind, class, shape) in &coloured {
            for (k, flow) in flows() {
                let data = path(flow, *kind, shape);
                if !data.is_empty() {
                    svg.path(&format!("{class} c{}", k % COLOURS), &data);
                }
            }
        }
        let plain: [(Kind, &str, Outline); 3] = [
            (Kind::Full, "flow-full", Box::new(|p| square(p, SIZE))),
            (Kind::Lost, "seq-lost", Box::new(|p| cross(p, SIZE))),
            (Kind::LostBack, "seq-back", Box::new(|p| plus(p, SIZE))),
        ];
        for (kind, class, shape) in &plain {
            let data: String = flows().map(|(_, flow)| path(flow, *kind, shape)).collect();
            if !data.is_empty() {
                svg.path(class, &data);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        .svg("a label");
        assert!(svg.contains(">flow 2<") && svg.contains("flow-first c1"));
        assert!(!svg.contains("retransmission"), "a legend of what is shown");
        let none = FlowsGraph { flows: Vec::new() }.svg("a label");
        assert!(!none.contains("NaN") && !none.contains("inf"), "{none}");
    }
}
