//! A figure in two layouts: for pages, and for a phone or a column of print.

use super::resolved::{self, Pages};

/// Layouts of a figure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layout {
    /// 860 units: a page, or the width of a sheet.
    #[default]
    Wide,
    /// 360 units: a phone, or a column of print. Panels are stacked.
    Narrow,
}

impl Layout {
    /// Width of every figure in user units; the page scales it.
    pub(super) fn width(self) -> f64 {
        match self {
            Self::Wide => 860.0,
            Self::Narrow => 360.0,
        }
    }

    pub(super) fn is_narrow(self) -> bool {
        self == Self::Narrow
    }
}

/// A figure as SVG elements for an HTML page, which shows the one that fits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Picture {
    /// The layout for pages, with a tooltip for each mark that has one.
    pub wide: String,
    /// The layout for phones; its marks refer to the tooltips of the other by their number.
    pub narrow: String,
}

impl Picture {
    /// A figure by the function that draws a layout.
    pub(super) fn of(draw: impl Fn(Layout) -> String) -> Self {
        Self {
            wide: draw(Layout::Wide),
            narrow: draw(Layout::Narrow),
        }
    }

    fn layout(&self, layout: Layout) -> &str {
        match layout {
            Layout::Wide => &self.wide,
            Layout::Narrow => &self.narrow,
        }
    }

    /// The figure as a file of its own: an SVG element whose colours are attributes, for light and dark pages.
    pub fn standalone(&self, layout: Layout) -> String {
        resolved::resolved(self.layout(layout), Pages::LightAndDark)
    }

    /// The figure as a file of its own in light colours on white, for notebooks and papers.
    pub fn on_white(&self, layout: Layout) -> String {
        resolved::resolved(self.layout(layout), Pages::Any)
    }
}
