//! A chart for a phone: stacked panels, names above their rows, crowded categories in several panels.

use super::axis::Ticks;
use super::{Chart, Layer, Panel, Part, Shared};
use crate::report::picture::Layout;
use crate::report::svg::{lines_of, text_width};

/// Room for a panel without its axis, and on its right.
const ROOM: f64 = 300.0;
const RIGHT: f64 = 12.0;
/// Width of a mark among several of one category, at least.
const MARK: f64 = 12.0;
/// The greatest number of stacked panels; in the wide layout they are side by side.
const STACKED_MAX: usize = 4;
/// Heights beside those of the wide layout: of rows with names above them, of squares, of others; and the least.
const ROWS: f64 = 1.7;
const SQUARES: f64 = 0.65;
const OTHERS: f64 = 0.72;
const HEIGHT_MIN: f64 = 96.0;

impl Chart {
    /// The chart in the narrow layout; its axes are shared already.
    pub(super) fn narrow(mut self) -> Self {
        self.layout = Layout::Narrow;
        self.right = RIGHT;
        let factor = match self.panels.first() {
            Some(panel) if panel.has_rows() => ROWS,
            Some(panel) if !panel.y.is_of_numbers() && self.together => 1.0,
            Some(panel) if !panel.y.is_of_numbers() => SQUARES,
            _ => OTHERS.max(HEIGHT_MIN / self.height.max(1.0)),
        };
        self.height *= factor.min(ROWS);
        let columns = self.columns.max(1);
        if self.shared == Shared::Rows {
            // Panels of a column belong together.
            let mut by_column: Vec<(usize, Panel)> = self.panels.into_iter().enumerate().collect();
            by_column.sort_by_key(|(place, _)| place % columns);
            self.panels = by_column.into_iter().map(|(_, panel)| panel).collect();
        }
        if !self.together {
            let are_many = columns > 2 && self.panels.len() > STACKED_MAX;
            self.columns = if are_many && self.shared == Shared::Both {
                2
            } else {
                1
            };
            self.widths.clear();
        }
        self.panels = self.panels.into_iter().flat_map(Panel::split).collect();
        self.label_once();
        for panel in &mut self.panels {
            panel.x.shorten(ROOM / self.columns.max(1) as f64);
            for layer in &mut panel.layers {
                layer.drop_needless();
            }
        }
        self
    }

    /// Names a vertical axis that several panels have above the first of them alone.
    fn label_once(&mut self) {
        let Some(label) = self.panels.first().map(|panel| panel.y.label.clone()) else {
            return;
        };
        let is_common = self.panels.iter().all(|panel| panel.y.label == label);
        if self.y_label.is_empty() && self.panels.len() > 1 && is_common {
            self.y_label = label;
            for panel in &mut self.panels {
                panel.y.label.clear();
            }
        }
    }
}

impl Panel {
    /// Returns true for a panel of rows with names over numbers; the names are above the rows.
    pub(super) fn has_rows(&self) -> bool {
        !self.y.is_of_numbers() && self.x.is_of_numbers()
    }

    /// Panels for parts of its categories, where they have no room beside each other.
    fn split(mut self) -> Vec<Self> {
        let Ticks::Categories(ticks) = &self.x.ticks else {
            return vec![self];
        };
        if !self.y.is_of_numbers() || ticks.len() < 2 {
            return vec![self];
        }
        let most = self.categories_max();
        let outer = std::mem::take(&mut self.x.outer);
        let has_room = |(from, to, text): &(f64, f64, String)| {
            let span = (to - from) / ticks.len() as f64 * ROOM;
            text_width(text) * 1.1 <= span - 8.0
        };
        if ticks.len() <= most && outer.iter().all(has_room) {
            self.x.outer = outer;
            return vec![self];
        }
        let name = |at: f64| {
            let mut spans = outer.iter();
            let span = spans.find(|(from, to, _)| (*from..*to).contains(&at));
            span.map_or("", |(_, _, text)| text.as_str())
        };
        let places: Vec<f64> = ticks.iter().map(|tick| tick.at).collect();
        let mut parts = Vec::new();
        for group in places.chunk_by(|a, b| name(*a) == name(*b)) {
            let count = group.len().div_ceil(most);
            for part in group.chunks(group.len().div_ceil(count)) {
                let ends = (part[0] - 0.5, part[part.len() - 1] + 0.5);
                parts.push(self.part(ends, name(part[0])));
            }
        }
        parts
    }

    /// The most categories of a panel that have room for their marks and names.
    fn categories_max(&self) -> usize {
        let ticks = self.x.ticks.texts();
        let count = |at: f64| {
            let items = self.layers.iter().flat_map(|layer| &layer.items);
            let own = items.filter(|item| {
                let mut parts = item.parts.iter().filter_map(Part::place);
                !item.tip.is_empty() && parts.any(|x| (x - at).abs() < 0.5)
            });
            own.count()
        };
        let members = ticks.iter().map(|tick| count(tick.at)).max().unwrap_or(0);
        if members < 2 {
            return usize::MAX;
        }
        let words = ticks.iter().flat_map(|tick| tick.text.split([' ', '\n']));
        let widest = words.map(text_width).fold(0.0, f64::max);
        let each = (MARK * members as f64).max(widest + 4.0);
        ((ROOM / each) as usize).max(1)
    }

    /// The part between two ends of the horizontal axis, with a name in its title.
    fn part(&self, (from, to): (f64, f64), name: &str) -> Self {
        let mut part = self.clone();
        let texts = [&self.title[..], name].into_iter();
        let texts: Vec<&str> = texts.filter(|text| !text.is_empty()).collect();
        part.title = texts.join(", ");
        part.x.range = (from, to);
        part.x.keep(|at| at > from && at < to);
        part.letters.retain(|(at, _)| *at > from && *at < to);
        for layer in &mut part.layers {
            layer.keep((from, to));
        }
        part
    }
}

impl Layer {
    /// Keeps what is between two ends of the horizontal axis, or reaches over all of it.
    fn keep(&mut self, ends: (f64, f64)) {
        for item in &mut self.items {
            for part in &mut item.parts {
                part.keep(ends);
            }
            item.parts.retain(|part| !part.is_empty());
        }
        self.items.retain(|item| !item.parts.is_empty());
    }

    /// Leaves out turned texts, which have no room, and rectangles without colour.
    fn drop_needless(&mut self) {
        let is_needed = |part: &Part| match part {
            Part::Text(_, _, _, is_turned) => !is_turned,
            Part::Rect(_, _, _, strength) => strength.is_none_or(|strength| strength >= 0.005),
            _ => true,
        };
        for item in &mut self.items {
            item.parts.retain(is_needed);
        }
        self.items.retain(|item| !item.parts.is_empty());
    }
}

impl Part {
    /// A value of the horizontal axis at which it is.
    fn place(&self) -> Option<f64> {
        let x = match self {
            Self::Marks(_, _, _, at) | Self::Area(_, at) => at.first()?.0,
            Self::Line(_, runs) => runs.first()?.first()?.0,
            Self::Rect(_, from, to, _) => f64::midpoint(from.0, to.0),
            Self::Rects(_, all) => all.first().map(|(from, to)| f64::midpoint(from.0, to.0))?,
            Self::Text(_, at, _, _) => at.0,
        };
        x.is_finite().then_some(x)
    }

    fn keep(&mut self, (from, to): (f64, f64)) {
        let inside = |x: f64| x.is_infinite() || (x > from && x < to);
        match self {
            Self::Marks(_, _, _, at) => at.retain(|at| inside(at.0)),
            Self::Line(_, runs) => runs.retain(|run| run.iter().all(|at| inside(at.0))),
            Self::Area(_, at) => {
                if !at.iter().all(|at| inside(at.0)) {
                    at.clear();
                }
            }
            Self::Rect(class, a, b, _) => {
                if !inside(f64::midpoint(a.0, b.0)) {
                    *self = Self::Area(std::mem::take(class), Vec::new());
                }
            }
            Self::Rects(_, all) => all.retain(|(a, b)| inside(f64::midpoint(a.0, b.0))),
            Self::Text(class, at, _, _) => {
                if !inside(at.0) {
                    *self = Self::Area(std::mem::take(class), Vec::new());
                }
            }
        }
    }
}

/// Lines of a text for a room in pixels, with its own line ends.
pub(super) fn broken(text: &str, room: f64) -> String {
    let lines = text.split('\n').flat_map(|line| lines_of(line, room));
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::super::Axis;
    use super::*;
    use crate::report::scale::Mapping;
    use crate::report::shapes::Shape;

    fn grouped(outer: &[&str], members: usize) -> Chart {
        let groups = outer.iter().flat_map(|outer| {
            ["one", "two", "three"].map(|inner| (inner.to_owned(), (*outer).to_owned()))
        });
        let mut layers = Vec::new();
        for member in 0..members {
            let mut layer = Layer::new(&format!("series {member}"));
            for at in 0..3 * outer.len() {
                let x = at as f64 + 0.2 + 0.6 * member as f64 / members as f64;
                let mark = Part::Marks("mark".to_owned(), Shape::Square, 3.0, vec![(x, 1.0)]);
                layer = layer.item(&format!("tip {member} {at}"), vec![mark]);
            }
            layers.push(layer);
        }
        let panel = Panel {
            x: Axis::grouped(groups),
            y: Axis::new("Time (s)", Mapping::Linear, (0.0, 2.0), 5),
            layers,
            ..Panel::default()
        };
        Chart::of("a label", panel)
    }

    #[test]
    fn crowded_categories_have_a_panel_for_each_group() {
        let narrow = grouped(&["loss 1 %", "loss 5 %"], 6).picture().narrow;
        assert_eq!(narrow.matches("class=\"panel\"").count(), 2, "{narrow}");
        assert!(narrow.contains(">loss 5 %<") && narrow.contains("viewBox=\"0 0 360 "));
        for number in 0..36 {
            let tip = format!("data-tip=\"{number}\"");
            assert_eq!(narrow.matches(&tip).count(), 1, "{number}: {narrow}");
        }
        assert!(!narrow.contains("<title>") && !narrow.contains("NaN"));
    }

    #[test]
    fn few_categories_stay_in_one_panel() {
        let picture = grouped(&["loss 1 %"], 2).picture();
        assert_eq!(picture.narrow.matches("class=\"panel\"").count(), 1);
        assert_eq!(picture.wide.matches("<title>").count(), 6);
    }

    #[test]
    fn names_of_rows_are_above_them() {
        let mark = |y| Part::Marks("mark".to_owned(), Shape::Square, 3.0, vec![(1.0, y)]);
        let panel = Panel {
            x: Axis::new("Ratio", Mapping::Linear, (0.0, 2.0), 6),
            y: Axis::given("", (40.0, 0.0), vec![(10.0, "a long name".to_owned())]),
            beside: vec![(10.0, "1.0 (0.9 to 1.1)".to_owned())],
            layers: vec![Layer::new("").part(mark(10.0))],
            ..Panel::default()
        };
        let narrow = Chart::of("a label", panel).picture().narrow;
        let height = |text: &str| {
            let (before, _) = narrow.split_once(&format!(">{text}<")).expect("a text");
            let at = before.rsplit_once(" y=\"").expect("its place").1;
            at.split('"')
                .next()
                .expect("a number")
                .parse::<f64>()
                .expect("a number")
        };
        let data = narrow.split("d=\"M").nth(1).expect("a mark");
        let mark: f64 = data
            .split(['m', ' '])
            .nth(1)
            .expect("its place")
            .parse()
            .expect("a number");
        assert!(height("a long name") < mark, "{narrow}");
        assert!((height("1.0 (0.9 to 1.1)") - height("a long name")).abs() < 1e-9);
    }
}
