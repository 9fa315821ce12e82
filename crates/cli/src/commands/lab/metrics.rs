//! `carob lab metrics`: the dictionary of results.

use carob_lab::csv;
use carob_lab::metrics::METRICS;
use serde_json::json;

use super::output::{json_lines, say};
use crate::failure::Outcome;

pub(super) fn run(json: bool, csv: bool) -> Outcome {
    if json {
        json_lines(METRICS.iter().map(
            |metric| json!({ "name": metric.name, "unit": metric.unit(), "meaning": metric.about }),
        ));
        return Outcome::Done;
    }
    if csv {
        let head = ["name", "unit", "meaning"].map(str::to_owned).to_vec();
        let rows = METRICS.iter().map(|metric| {
            [metric.name, metric.unit(), metric.about]
                .map(str::to_owned)
                .to_vec()
        });
        say(csv::text(std::iter::once(head).chain(rows)).trim_end());
        return Outcome::Done;
    }
    for metric in METRICS {
        let unit = match metric.unit() {
            "1" => String::new(),
            unit => format!(" ({unit})"),
        };
        say(format_args!("{}{unit}\n    {}", metric.name, metric.about));
    }
    Outcome::Done
}
