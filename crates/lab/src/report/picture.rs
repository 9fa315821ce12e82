//! A figure as an SVG element.

use super::resolved::{self, Pages};

/// Width of every figure in user units; the page scales it.
pub(super) const WIDTH: f64 = 860.0;

/// A figure as an SVG element for an HTML page, with a tooltip for each mark that has one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Picture(pub String);

impl Picture {
    /// An SVG file for light and dark pages.
    pub fn standalone(&self) -> String {
        resolved::resolved(&self.0, Pages::LightAndDark)
    }

    /// An SVG file on a white ground, for any viewer.
    pub fn on_white(&self) -> String {
        resolved::resolved(&self.0, Pages::Any)
    }
}
