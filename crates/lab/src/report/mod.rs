//! Reports: figures drawn as SVG here, inline in one HTML file that is complete without scripts.
//!
//! A report opens from a file with no network: style and script are inline, dark pages follow the
//! reader's setting. The script sorts and filters tables, shows values, hides series, changes scales, zooms, and saves
//! figures. [`FIGURES`] is the table of figures; all with axes are a chart. The plotting crates looked at fit none of
//! them: none draws boxes from given percentiles (they want raw values and fix whiskers at 1.5 quartile
//! ranges), a second set of percentiles beside a box, or colours that follow the page.

mod boxplot;
mod chart;
mod comparison;
mod depth;
mod distribution;
mod figures;
mod intervals;
mod lines;
mod link_use;
mod look;
mod matrix;
mod metric;
mod node_timeline;
mod notifications;
mod page;
mod resolved;
mod scale;
mod sequence;
mod series;
mod shapes;
mod svg;
mod timers;
mod topology;
mod transfers;

pub use boxplot::{BoxMark, BoxPlot, Published};
pub use comparison::{Subject, comparison};
pub use distribution::distribution;
pub use figures::{FIGURES, Figure};
pub use intervals::{PairedGroup, PairedRow, PairedRows};
pub use lines::{SweptFigure, SweptLine, SweptPanel};
pub use look::{colour, looks};
pub use matrix::{DependenceRow, dependence_figure};
pub use page::{Details, FigureBlock, Report, Section};
pub use resolved::Picture;
pub use scale::{Mapping, number};
pub use sequence::{FlowsGraph, Kind, Mark, SequenceGraph, TOOLTIPS_MAX};
pub use series::series;
pub use timers::{Point, TimerTrace, timers};
pub use topology::{Network, quiet_network, topology_figure};

/// The style of figures, with the colours pages use too.
const FIGURE_STYLE: &str = include_str!("figure.css");
/// The style of pages around figures.
const PAGE_STYLE: &str = include_str!("page.css");
/// Sorting, filters, tooltips, series to hide, scales, zoom and downloads of pages.
const PAGE_SCRIPT: &str = include_str!("page.js");
