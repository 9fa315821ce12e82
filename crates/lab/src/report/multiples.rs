//! Several runs side by side on the same axes.

use super::frame::{Frame, WIDTH, left_margin};
use super::link_use::{LinkUse, Y_RATE};
use super::scale::{Mapping, Scale};
use super::sequence::SequenceGraph;
use super::svg::Svg;
use super::timers::{TimerTrace, Y_LABEL};

/// One run among others.
#[derive(Clone, Debug)]
pub struct Panel<T> {
    /// Its distinction, such as its algorithm.
    pub title: String,
    /// The figure in it.
    pub content: T,
}

/// Height of a panel's drawing area.
const AREA: f64 = 190.0;
/// Room above a panel for its title.
const TITLE: f64 = 26.0;
/// Room below a row of panels for tick labels.
const TICKS: f64 = 34.0;
/// Size of marks in panels, which have no room for large ones.
const MARKS: f64 = 0.5;
/// Between panels of a row.
const GAP: f64 = 26.0;

/// Time-sequence graphs on common axes, as one SVG element.
pub fn sequences(panels: &[Panel<SequenceGraph>], label: &str) -> String {
    let mut svg = Svg::default();
    // The legend is of all marks, as a graph without losses lacks their key.
    let mut all = panels.first().map_or_else(
        || SequenceGraph {
            y_label: String::new(),
            answered: "answered",
            marks: Vec::new(),
        },
        |p| p.content.clone(),
    );
    for panel in panels.iter().skip(1) {
        all.marks.extend(&panel.content.marks);
    }
    let top = 14.0 + all.legend(&mut svg);
    let axes = Axes {
        x: (0.0, all.times().1),
        y: all.items(),
        mapping: Mapping::Linear,
        label: all.y_label.clone(),
    };
    grid(svg, &axes, top, panels, label, |graph, svg, x, y| {
        graph.draw(svg, x, y, MARKS, false);
    })
}

/// RTO traces on common axes, as one SVG element.
pub fn timers(panels: &[Panel<TimerTrace>], label: &str) -> String {
    let mut svg = Svg::default();
    let mut all = TimerTrace::default();
    for TimerTrace { rto, rto_init, rtt } in panels.iter().map(|p| &p.content) {
        all.rto.extend(rto);
        all.rto_init.extend(rto_init);
        all.rtt.extend(rtt);
    }
    let top = 14.0 + all.legend(&mut svg);
    let axes = Axes {
        x: (0.0, all.end()),
        y: all.values().unwrap_or((0.1, 10.0)),
        mapping: Mapping::Logarithmic,
        label: Y_LABEL.to_owned(),
    };
    grid(svg, &axes, top, panels, label, |trace, svg, x, y| {
        trace.draw(svg, x, y, false);
    })
}

/// Link use of crowds on common axes, as one SVG element.
pub(super) fn link_uses(panels: &[Panel<LinkUse>], label: &str) -> String {
    let mut svg = Svg::default();
    let top = 14.0 + LinkUse::legend(&mut svg);
    let most =
        |of: &dyn Fn(&LinkUse) -> f64| panels.iter().map(|p| of(&p.content)).fold(0.0, f64::max);
    let axes = Axes {
        x: (0.0, most(&LinkUse::end)),
        y: (0.0, most(&|of| of.rate_kbps)),
        mapping: Mapping::Linear,
        label: Y_RATE.to_owned(),
    };
    let longest = most(&LinkUse::longest_wait);
    grid(svg, &axes, top, panels, label, |of, svg, x, y| {
        of.draw(svg, x, y, longest);
    })
}

/// Scales that all panels share.
struct Axes {
    x: (f64, f64),
    y: (f64, f64),
    mapping: Mapping,
    label: String,
}

fn grid<T>(
    mut svg: Svg,
    axes: &Axes,
    top: f64,
    panels: &[Panel<T>],
    label: &str,
    draw: impl Fn(&T, &mut Svg, &Scale, &Scale),
) -> String {
    let columns = if panels.len() > 1 { 2 } else { 1 };
    let rows = panels.len().div_ceil(columns).max(1);
    let margin = left_margin(&Scale::new(axes.mapping, axes.y, 5, (1.0, 0.0)));
    let right = WIDTH - 16.0;
    let width = (right - margin - GAP * (columns as f64 - 1.0)) / columns as f64;
    let step = TITLE + AREA + TICKS;
    for (k, panel) in panels.iter().enumerate() {
        let (row, column) = (k / columns, k % columns);
        let left = margin + (width + GAP) * column as f64;
        let area_top = top + step * row as f64 + TITLE;
        let frame = Frame {
            left,
            right: left + width,
            top: area_top,
            bottom: area_top + AREA,
        };
        let y = Scale::new(axes.mapping, axes.y, 5, (frame.bottom, frame.top));
        let ticks = if columns > 1 { 4 } else { 8 };
        let x = Scale::new(Mapping::Linear, axes.x, ticks, (frame.left, frame.right));
        svg.text("axis strong", (left, area_top - 9.0), &panel.title);
        if column == 0 {
            frame.y_axis(&mut svg, &y, &axes.label);
        } else {
            frame.y_grid(&mut svg, &y);
        }
        frame.x_axis(&mut svg, &x, "");
        draw(&panel.content, &mut svg, &x, &y);
    }
    let bottom = top + step * rows as f64;
    svg.text(
        "axis middle",
        (f64::midpoint(margin, right), bottom + 8.0),
        "Time (s)",
    );
    svg.finish(WIDTH, bottom + 20.0, label)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Kind, Mark};

    fn panel(title: &str, end: f64) -> Panel<SequenceGraph> {
        let mark = |at_s, item, kind| Mark {
            at_s,
            item,
            kind,
            attempt: 0,
        };
        Panel {
            title: title.to_owned(),
            content: SequenceGraph {
                answered: "answered",
                y_label: "Block number".to_owned(),
                marks: vec![
                    mark(1.0, 0, Kind::First),
                    mark(end - 1.0, 9, Kind::First),
                    mark(end, 9, Kind::Answered),
                ],
            },
        }
    }

    #[test]
    fn panels_share_their_axes() {
        let svg = sequences(&[panel("slow", 100.0), panel("fast", 50.0)], "a label");
        assert!(svg.contains(">slow<") && svg.contains(">fast<"));
        // The tick of the longest run is in both panels.
        assert_eq!(svg.matches(">100<").count(), 2, "{svg}");
    }

    #[test]
    fn no_panels_and_empty_panels_are_figures_too() {
        let empty = Panel {
            title: String::new(),
            content: TimerTrace::default(),
        };
        for svg in [sequences(&[], "none"), timers(&[empty], "empty")] {
            assert!(svg.starts_with("<svg") && !svg.contains("NaN"), "{svg}");
        }
    }
}
