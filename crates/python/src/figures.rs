//! Report figures of runs, sweeps and comparisons.

use std::collections::BTreeMap;

use carob_lab::metrics::{METRICS, Metric};
use carob_lab::report::{
    self, FIGURES, Figure, Mapping, PairedGroup, PairedRow, PairedRows, SweptFigure, SweptLine,
    SweptPanel,
};
use carob_lab::run::EachRow;
use carob_lab::statistics::Statistics;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::compare::{Keys, keys_of, place_of, take_key};
use crate::errors;

/// The most panels of a figure.
const PANELS_MAX: usize = 24;

/// SVG, title and caption.
pub(crate) type Drawn = (String, String, String);

/// A row of a figure of differences: heading, name, name for its look, (value, low, high), text.
type Row = (String, String, String, (f64, f64, f64), String);

/// Names of the figures of runs, their content, and needed data.
#[pyfunction]
pub(crate) fn figures() -> Vec<(&'static str, &'static str, &'static str)> {
    let all = FIGURES.iter();
    all.map(|one| (one.name, one.about, one.needs)).collect()
}

/// Colour and index of the marker of each name of a figure, no two alike.
#[pyfunction]
pub(crate) fn looks(names: Vec<String>) -> Vec<(&'static str, usize)> {
    let looks = report::looks(names.iter().map(String::as_str)).into_iter();
    looks
        .map(|(colour, marker)| (report::colour(colour), marker))
        .collect()
}

/// The drawing of a figure of reports with a name.
pub(crate) fn named(name: &str) -> PyResult<&'static Figure> {
    let figure = FIGURES.iter().find(|figure| figure.name == name);
    figure.ok_or_else(|| {
        let all: Vec<&str> = FIGURES.iter().map(|figure| figure.name).collect();
        let all = all.join(", ");
        PyValueError::new_err(format!("unknown figure \"{name}\"; there are {all}"))
    })
}

/// Rows with intervals around no difference, as SVG. Rows with the same heading are neighbours.
#[pyfunction]
pub(crate) fn difference_figure(label: String, rows: Vec<Row>) -> String {
    let mut groups: Vec<PairedGroup> = Vec::new();
    for (heading, name, look, (value, low, high), text) in rows {
        let row = PairedRow {
            tip: format!("{name}: {text}"),
            name,
            look,
            value,
            interval: (low, high),
            text,
        };
        match groups.last_mut() {
            Some(group) if group.heading == heading => group.rows.push(row),
            _ => groups.push(PairedGroup {
                heading,
                rows: vec![row],
            }),
        }
    }
    let rows = PairedRows {
        label,
        mapping: Mapping::Linear,
        baseline: 0.0,
        groups,
    };
    rows.picture().on_white()
}

/// Means of a metric against a key, by panel and name.
#[pyclass(frozen, module = "carob")]
pub(crate) struct Swept {
    figure: SweptFigure,
    seeds: usize,
}

/// A panel for Python: its title, and names with (place, mean, half of the interval).
type PanelRows = (String, Vec<(String, Vec<(usize, f64, f64)>)>);

impl Swept {
    /// Groups runs by a key: its values are positions on the axis, algorithms lines, other keys panels.
    pub(crate) fn of(
        rows: impl Iterator<Item = EachRow>,
        metric: &str,
        over: &str,
    ) -> PyResult<Self> {
        let unit = METRICS.iter().find(|known| known.name == metric);
        let unit = unit.map_or("", |known| known.unit);
        let mut grouped = Grouped::default();
        for row in rows {
            grouped.add(&row, metric, over)?;
        }
        if grouped.values.is_empty() {
            return Err(PyValueError::new_err(format!("no run has {metric}")));
        }
        let panels = grouped.panels();
        if panels.len() > PANELS_MAX {
            let what = format!(
                "{} combinations of other keys, and a figure has {PANELS_MAX} panels\n\
                 hint: run fewer cells, or use table()",
                panels.len()
            );
            return Err(PyValueError::new_err(what));
        }
        let unit = match unit {
            "1" => String::new(),
            unit => format!(" ({unit})"),
        };
        Ok(Self {
            seeds: grouped.seeds(),
            figure: SweptFigure {
                key: over.to_owned(),
                values: grouped.values,
                label: format!("{metric}{unit}"),
                panels,
            }
            .in_order(),
        })
    }
}

#[pymethods]
impl Swept {
    #[getter]
    fn key(&self) -> &str {
        &self.figure.key
    }

    #[getter]
    fn values(&self) -> Vec<String> {
        self.figure.values.clone()
    }

    /// Numbers of the values, their unit, and true for a logarithmic axis; none for other values.
    #[getter]
    fn numbers(&self) -> Option<(Vec<f64>, &str, bool)> {
        let (numbers, unit) = self.figure.numbers()?;
        let wide = SweptFigure::mapping(&numbers) == Mapping::Logarithmic;
        Some((numbers, unit, wide))
    }

    /// Metric with its unit.
    #[getter]
    fn label(&self) -> &str {
        &self.figure.label
    }

    #[getter]
    fn panels(&self) -> Vec<PanelRows> {
        let line = |line: &SweptLine| (line.name.clone(), line.points.clone());
        let panels = self.figure.panels.iter();
        let panels =
            panels.map(|panel| (panel.title.clone(), panel.lines.iter().map(line).collect()));
        panels.collect()
    }

    /// The figure as SVG, title and caption.
    fn figure(&self) -> Drawn {
        let SweptFigure { key, label, .. } = &self.figure;
        let title = format!("{label} against {key}");
        let caption = match self.seeds {
            1 => "One seed".to_owned(),
            seeds => format!("Means of {seeds} seeds with intervals of 95 % (Student's t)"),
        };
        (self.figure.picture().on_white(), title, caption)
    }
}

/// Values of a metric by the other keys, algorithm and place.
#[derive(Default)]
struct Grouped {
    values: Vec<String>,
    panels: Vec<(Keys, Lines)>,
}

type Lines = Vec<(String, BTreeMap<usize, Vec<f64>>)>;

impl Grouped {
    fn add(&mut self, row: &EachRow, metric: &str, over: &str) -> PyResult<()> {
        let mut keys = keys_of(row);
        let value = take_key(&mut keys, over, "draw over")?;
        let name = keys.remove("algorithm").unwrap_or_else(|| value.clone());
        let Some(statistics) = row.metrics.get(metric) else {
            return Ok(());
        };
        let place = place_of(&mut self.values, |known| *known == value, || value.clone());
        let panel = place_of(
            &mut self.panels,
            |known| known.0 == keys,
            || (keys.clone(), Vec::new()),
        );
        let lines = &mut self.panels[panel].1;
        let line = place_of(
            lines,
            |known| known.0 == name,
            || (name.clone(), BTreeMap::new()),
        );
        lines[line]
            .1
            .entry(place)
            .or_default()
            .push(statistics.mean);
        Ok(())
    }

    /// The most runs of a point.
    fn seeds(&self) -> usize {
        let lines = self.panels.iter().flat_map(|(_, lines)| lines);
        let points = lines.flat_map(|(_, points)| points.values().map(Vec::len));
        points.max().unwrap_or(0)
    }

    fn panels(&self) -> Vec<SweptPanel> {
        let first = self.panels.first().map(|(keys, _)| keys);
        let varies = |key: &String| {
            let mut all = self.panels.iter();
            all.any(|(keys, _)| keys.get(key) != first.and_then(|first| first.get(key)))
        };
        let line = |(name, points): &(String, BTreeMap<usize, Vec<f64>>)| SweptLine {
            name: name.clone(),
            points: (points.iter())
                .filter_map(|(place, all)| {
                    let statistics = Statistics::of(all)?;
                    Some((*place, statistics.mean, statistics.ci95))
                })
                .collect(),
        };
        let panel = |(keys, lines): &(Keys, Lines)| {
            let named = keys.iter().filter(|(key, _)| varies(key));
            let named: Vec<String> = named.map(|(key, value)| format!("{key} {value}")).collect();
            SweptPanel {
                title: named.join(", "),
                lines: lines.iter().map(line).collect(),
            }
        };
        self.panels.iter().map(panel).collect()
    }
}

/// A figure of reports of one scenario; none where runs lack its data.
pub(crate) fn of_reports(
    figure: &Figure,
    outcome: &carob_lab::run::Outcome<'_>,
    metric: Option<&'static Metric>,
) -> PyResult<Option<Drawn>> {
    let block = figure.block(outcome, &carob_studies::papers::published(), metric);
    let block = block.map_err(|error| errors::scenario(error, ""))?;
    Ok(block.map(|block| (block.picture.on_white(), block.title, block.caption)))
}
