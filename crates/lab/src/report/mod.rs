//! Reports: figures drawn as SVG here, inline in one HTML file that is complete without scripts.
//!
//! A report opens from a file with no network: style and script are inline, dark pages follow the
//! reader's setting. The script sorts and filters tables, shows values, hides series, changes scales, zooms, and saves
//! figures. [`FIGURES`] is the table of figures of runs; all with axes are a chart.

mod boxplot;
mod chart;
mod comparison;
mod depth;
mod distribution;
mod figures;
mod intervals;
mod lines;
mod look;
mod metric;
mod node_timeline;
mod page;
mod scale;
mod sequence;
mod series;
mod svg;
mod timers;
mod topology;
mod transfers;

pub use comparison::{Subject, comparison};
pub use distribution::distribution;
pub use figures::{FIGURES, Figure};
pub use intervals::{PairedGroup, PairedRow, PairedRows};
pub use lines::{SweptFigure, SweptLine, SweptPanel};
pub use look::{colour, looks};
pub use page::{Details, FigureBlock, Report, Section};
pub use scale::{Mapping, number};
pub use series::series;
pub use svg::Picture;
pub use timers::{TimerTrace, timers};
pub use topology::topology;

/// The style of figures, with the colours pages use too.
const FIGURE_STYLE: &str = include_str!("figure.css");
/// The style of pages around figures.
const PAGE_STYLE: &str = include_str!("page.css");
/// Sorting, filters, tooltips, series to hide, scales, zoom and downloads of pages.
const PAGE_SCRIPT: &str = include_str!("page.js");
