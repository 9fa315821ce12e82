//! Box plots of a study's tables: measured values beside the published percentiles, a figure for each
//! number of clients and error rate, as the study has them.

use std::fmt::Write as _;

use super::explained::Drawn;
use crate::reproduce::MeasuredRuns;
use carob_lab::expected::{Comparison, tally};
use carob_lab::report::Mapping;
use carob_lab::report::{BoxMark, BoxPlot, Published};
use carob_lab::statistics::Statistic;
use carob_lab::study::Study;
use carob_lab::summary::distinct;

/// A box plot for each number of clients and error rate, in the order of print; and how they are
/// read.
pub fn completion_times(
    study: &Study,
    measured: &MeasuredRuns,
    comparisons: &[Comparison],
) -> (String, Vec<Drawn>) {
    let run: Vec<&Comparison> = comparisons
        .iter()
        .filter(|c| c.measured.is_some())
        .collect();
    // One colour per algorithm in all figures.
    let series = distinct(run.iter().map(|c| c.label()));
    let kinds = distinct(run.iter().map(|c| (value(c, "clients"), value(c, "error"))));
    let mut reading = None;
    let figures = kinds
        .into_iter()
        .map(|(clients, error)| {
            let of_kind =
                |c: &&&Comparison| value(c, "clients") == clients && value(c, "error") == error;
            let rows: Vec<&Comparison> = run.iter().filter(of_kind).copied().collect();
            let plot = plot(study, measured, &rows, series.clone());
            let what = match clients.as_str() {
                "1" => "one client".to_owned(),
                "4" => "four clients".to_owned(),
                n => format!("{n} clients"),
            };
            let mut caption = agreement(&rows);
            let flows = plot.boxes.iter().map(|b| b.statistics.n);
            if let (Some(least), Some(most)) = (flows.clone().min(), flows.max()) {
                let n = if least == most {
                    least.to_string()
                } else {
                    format!("{least} to {most}")
                };
                // Writing to a String cannot fail.
                let _ = write!(caption, " Flows in a box: {n}.");
            }
            if plot.mapping() == Mapping::Logarithmic {
                caption += " The vertical axis is logarithmic.";
            }
            reading.get_or_insert_with(|| plot.reading());
            let title = format!("Flow completion time of {what}, error {error}.");
            Drawn {
                id: format!("fct-{clients}c-{error}"),
                picture: plot.picture(&title),
                title,
                caption,
            }
        })
        .collect();
    (reading.unwrap_or_default(), figures)
}

/// Agreement of medians with the published ones, one sentence.
fn agreement(rows: &[&Comparison]) -> String {
    let medians = rows.iter().filter(|c| c.statistic == Statistic::P50);
    let tally = tally(medians.clone().copied());
    // By ratio, so that half and double are equally far.
    let away = |ratio: f64| ratio.ln().abs();
    let ratios = medians.filter_map(|c| Some((*c, c.ratio()?)));
    let farthest = ratios.max_by(|(_, a), (_, b)| away(*a).total_cmp(&away(*b)));
    let farthest = farthest.map_or_else(String::new, |(c, ratio)| {
        format!(
            "; the farthest from print is {} in {}, {ratio:.3} of it",
            c.label(),
            c.expected.cell
        )
    });
    format!(
        "{} of {} medians are within tolerance{farthest}.",
        tally.holds, tally.run
    )
}

/// The value of a row's key, such as `error`.
fn value(c: &Comparison, key: &str) -> String {
    let found = c.expected.row.iter().find(|(k, _)| *k == key);
    found.map_or_else(String::new, |(_, value)| value.clone())
}

/// A group for each buffer, those over UDP first.
fn plot(
    study: &Study,
    measured: &MeasuredRuns,
    rows: &[&Comparison],
    mut series: Vec<String>,
) -> BoxPlot {
    let group = |c: &Comparison| {
        let buffer = value(c, "buffer");
        let buffer = if buffer == "inf" {
            "infinite buffer".to_owned()
        } else {
            format!("{buffer} B")
        };
        let over_tcp = c.expected.algorithm.starts_with("tcp-");
        let transport = if over_tcp { "TCP" } else { "UDP" };
        (buffer, transport.to_owned())
    };
    let mut groups = distinct(rows.iter().map(|c| group(c)));
    groups.sort_by_key(|(_, transport)| transport == "TCP");
    let used = |name: &String| rows.iter().any(|c| c.label() == *name);
    while series.pop_if(|last| !used(last)).is_some() {}
    let mut boxes: Vec<BoxMark> = Vec::new();
    for c in rows {
        let own = group(c);
        let place = groups.iter().position(|g| *g == own).unwrap_or_default();
        let label = c.label();
        let index = series.iter().position(|s| *s == label).unwrap_or_default();
        let row = measured.rows.iter().find(|row| {
            row.cell == c.expected.cell && row.algorithm == c.expected.algorithm && row.set == c.set
        });
        // There is a comparison for each statistic, and a box for all of them.
        let drawn = boxes.iter().any(|b| b.group == place && b.series == index);
        if let (Some(row), false) = (row, drawn) {
            boxes.push(BoxMark {
                group: place,
                series: index,
                statistics: row.fct_s,
                published: Some(Published::of(&c.expected)),
            });
        }
    }
    BoxPlot {
        name: "Flow completion time".to_owned(),
        groups,
        series,
        boxes,
        published_label: study.citation(),
        ..BoxPlot::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::papers;
    use crate::reproduce::{self, thesis_tolerances};

    #[test]
    fn each_published_table_has_a_figure_with_a_box_per_row() {
        let study = papers::study("thesis").expect("there is one");
        let measured = MeasuredRuns::stored();
        let all = reproduce::compare(&papers::thesis_fct(), &measured.rows, &thesis_tolerances());
        let (reading, figures) = completion_times(&study, &measured, &all);
        let ids: Vec<&str> = figures.iter().map(|f| f.id.as_str()).collect();
        let expected = [
            "1c-none",
            "4c-none",
            "1c-low",
            "1c-medium",
            "1c-high",
            "4c-low",
        ];
        assert_eq!(ids, expected.map(|id| format!("fct-{id}")));
        assert!(reading.contains("Pesola 2020"), "{reading}");
        let caption = &figures[0].caption;
        assert!(caption.contains("the farthest from print is tcp-bbr1 in long-1c-none-2500"));
        let layers = figures
            .iter()
            .map(|f| f.picture.0.split_once("class=\"layers\""));
        let boxes: usize = layers
            .map(|parts| parts.expect("a panel").1.matches("class=\"box ").count())
            .sum();
        assert_eq!(boxes, measured.rows.len());
        let published = figures
            .iter()
            .map(|f| f.picture.0.matches("printed-mark").count());
        // With a key in each legend.
        assert_eq!(
            published.sum::<usize>(),
            measured.rows.len() + figures.len()
        );
    }
}
