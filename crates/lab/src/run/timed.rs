//! Times by which algorithms are compared: of whole flows, or of single responses.

use carob_sim::spec::{FlowRecord, RunRecord};

use super::rows::{EachRow, Row};
use crate::metrics::{self, Metric, Metrics};
use crate::statistics::{Statistic, Statistics};

/// Shares done this near to each other leave times comparable.
const COMPARABLE: f64 = 0.01;

/// The time of a flow or of a response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Timed {
    /// From a flow's first request to its last response.
    #[default]
    Flows,
    /// From a request to its response: flows of periodic requests last as long under each algorithm.
    Responses,
    /// The mean of those in a run: where a run has more responses than are kept one by one.
    RunMeans,
}

impl Timed {
    /// Kind of several rows: responses if all rows have this kind and any has several responses.
    pub(crate) fn of(rows: &[Row]) -> Self {
        Self::common(rows.iter().map(|row| (row.timed, &row.metrics)))
    }

    /// The same of rows of single runs.
    pub(crate) fn of_each(rows: &[EachRow]) -> Self {
        Self::common(rows.iter().map(|row| (row.timed, &row.metrics)))
    }

    fn common<'a>(mut all: impl Iterator<Item = (Self, &'a Metrics)> + Clone) -> Self {
        let has = |timed: Self, metrics: &Metrics| metrics.contains_key(timed.metric().name);
        let has_any = all.clone().any(|(_, metrics)| has(Self::RunMeans, metrics));
        let is_kept = all
            .clone()
            .all(|(_, metrics)| has(Self::Responses, metrics) || !has(Self::RunMeans, metrics));
        match (
            has_any && all.all(|(timed, _)| timed == Self::Responses),
            is_kept,
        ) {
            (false, _) => Self::Flows,
            (true, true) => Self::Responses,
            (true, false) => Self::RunMeans,
        }
    }

    pub(crate) fn metric(self) -> Metric {
        match self {
            Self::Flows => metrics::FCT_S,
            Self::Responses => metrics::RESPONSE_TIME_S,
            Self::RunMeans => metrics::RESPONSE_S,
        }
    }

    /// Statistics of a row's times.
    pub(crate) fn times(self, row: &Row) -> Option<&Statistics> {
        row.metrics.get(self.metric().name)
    }

    /// The same of one run.
    pub(crate) fn times_of(self, row: &EachRow) -> Option<&Statistics> {
        row.metrics.get(self.metric().name)
    }

    /// Percentiles that tables show.
    pub(crate) fn percentiles(self) -> [Statistic; 3] {
        match self {
            Self::Responses => [Statistic::P50, Statistic::P95, Statistic::P99],
            Self::Flows | Self::RunMeans => [Statistic::P10, Statistic::P50, Statistic::P90],
        }
    }

    /// The share of flows or requests that have such a time.
    pub(crate) fn done(self, row: &Row) -> Option<f64> {
        let metric = match self {
            Self::Flows => metrics::SUCCESS_RATIO,
            Self::Responses | Self::RunMeans => metrics::ANSWERED_RATIO,
        };
        Some(row.metrics.get(metric.name)?.mean)
    }

    /// The note on times of those alone that completed.
    pub(crate) fn incomplete(self) -> &'static str {
        match self {
            Self::Flows => "! not every transfer completed; of those that did.",
            Self::Responses | Self::RunMeans => {
                "! not every request was answered; of those that were."
            }
        }
    }

    /// Returns true if a row's share done is within a point of the largest in its cell: times of
    /// rows with less work done measure its easier part only.
    pub(crate) fn is_comparable(self, row: &Row, rows: &[Row]) -> bool {
        let of_cell = rows.iter().filter(|other| other.scenario == row.scenario);
        let best = of_cell
            .filter_map(|other| self.done(other))
            .fold(0.0, f64::max);
        self.done(row).is_none_or(|done| done >= best - COMPARABLE)
    }

    /// The mean time of a run in seconds; none if a flow did not complete, or without a response.
    pub(crate) fn of_run(self, record: &RunRecord) -> Option<f64> {
        match self {
            Self::Flows => {
                let all = record.flows.iter().map(FlowRecord::completion);
                let sum: u64 = all.map(|c| Some(c?.as_micros())).sum::<Option<u64>>()?;
                (sum > 0).then(|| sum as f64 / 1e6 / record.flows.len() as f64)
            }
            Self::Responses | Self::RunMeans => {
                let mean = record.responses.mean()?.as_micros();
                (mean > 0).then(|| mean as f64 / 1e6)
            }
        }
    }

    /// The name of the times, such as `Flow completion time`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Flows => "Flow completion time",
            Self::Responses => "Response time",
            Self::RunMeans => "Mean response time of a run",
        }
    }

    /// One of the times, such as `Completion time`.
    pub(crate) fn noun(self) -> &'static str {
        match self {
            Self::Flows => "Completion time",
            Self::Responses | Self::RunMeans => "Response time",
        }
    }

    /// The times as a heading, such as `Completion times`.
    pub(crate) fn heading(self) -> String {
        format!("{}s", self.noun())
    }

    /// The times in a sentence, such as `completion times`.
    pub(crate) fn plural(self) -> String {
        self.heading().to_lowercase()
    }

    /// The words for a difference of means where a table has other statistics.
    pub(crate) fn on_average(self) -> &'static str {
        match self {
            Self::Flows => "",
            Self::Responses | Self::RunMeans => " on average",
        }
    }

    /// The times in a sentence, with their unit of work.
    pub(crate) fn of_what(self) -> &'static str {
        match self {
            Self::Flows => "flow completion times",
            Self::Responses => "response times",
            Self::RunMeans => "mean response times of runs",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_count_only_if_all_rows_have_periodic_requests() {
        let statistics = Statistics::of(&[1.5]).expect("a value");
        let row = |timed| Row {
            timed,
            metrics: [metrics::RESPONSE_S, metrics::RESPONSE_TIME_S]
                .map(|metric| (metric.name, statistics))
                .into(),
            ..Row::default()
        };
        let [flows, responses] = [Timed::Flows, Timed::Responses].map(row);
        let unanswered = Row {
            metrics: Metrics::new(),
            ..responses.clone()
        };
        assert_eq!(Timed::of(&[]), Timed::Flows);
        assert_eq!(
            Timed::of(std::slice::from_ref(&unanswered)),
            Timed::Flows,
            "or one request each"
        );
        assert_eq!(
            Timed::of(&[unanswered, responses.clone()]),
            Timed::Responses
        );
        let mut many = responses.clone();
        many.metrics.remove(metrics::RESPONSE_TIME_S.name);
        assert_eq!(Timed::of(&[responses.clone(), many]), Timed::RunMeans);
        assert_eq!(Timed::of(&[responses, flows]), Timed::Flows);
    }
}
