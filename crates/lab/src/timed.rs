//! Times by which algorithms are compared: of whole flows, or of single responses.

use carob_sim::spec::{FlowRecord, RunRecord};

use crate::delivery::Metrics;
use crate::metrics::{self, Metric};
use crate::run::{EachRow, Row};
use crate::statistics::Statistics;

/// The time of a flow or of a response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Timed {
    /// From a flow's first request to its last response.
    #[default]
    Flows,
    /// From a request to its response: flows of periodic requests last as long under each algorithm.
    Responses,
}

impl Timed {
    /// That of some rows: of responses, if it is so for all of them and any has several responses.
    pub(crate) fn of(rows: &[Row]) -> Self {
        Self::common(rows.iter().map(|row| (row.timed, &row.metrics)))
    }

    /// The same of rows of single runs.
    pub(crate) fn of_each(rows: &[EachRow]) -> Self {
        Self::common(rows.iter().map(|row| (row.timed, &row.metrics)))
    }

    fn common<'a>(mut all: impl Iterator<Item = (Self, &'a Metrics)> + Clone) -> Self {
        let name = Self::Responses.metric().name;
        let has_any = all.clone().any(|(_, metrics)| metrics.contains_key(name));
        if has_any && all.all(|(timed, _)| timed == Self::Responses) {
            Self::Responses
        } else {
            Self::Flows
        }
    }

    fn metric(self) -> Metric {
        match self {
            Self::Flows => metrics::FCT_S,
            Self::Responses => metrics::RESPONSE_S,
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

    /// The share of flows or requests that have such a time.
    pub(crate) fn done(self, row: &Row) -> Option<f64> {
        let metric = match self {
            Self::Flows => metrics::SUCCESS_RATIO,
            Self::Responses => metrics::ANSWERED_RATIO,
        };
        Some(row.metrics.get(metric.name)?.mean)
    }

    /// The mean time of a run in seconds; none if a flow did not complete, or without a response.
    pub(crate) fn of_run(self, record: &RunRecord) -> Option<f64> {
        match self {
            Self::Flows => {
                let all = record.flows.iter().map(FlowRecord::completion);
                let sum: u64 = all.map(|c| Some(c?.as_micros())).sum::<Option<u64>>()?;
                (sum > 0).then(|| sum as f64 / 1e6 / record.flows.len() as f64)
            }
            Self::Responses => {
                let mean = record.responses.mean()?.as_micros();
                (mean > 0).then(|| mean as f64 / 1e6)
            }
        }
    }

    /// The name of the times, such as `Flow completion time`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Flows => "Flow completion time",
            Self::Responses => "Mean response time of a run",
        }
    }

    /// One of the times, such as `Completion time`.
    pub(crate) fn noun(self) -> &'static str {
        match self {
            Self::Flows => "Completion time",
            Self::Responses => "Response time",
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

    /// The times in a sentence, with what they are of.
    pub(crate) fn of_what(self) -> &'static str {
        match self {
            Self::Flows => "flow completion times",
            Self::Responses => "mean response times of runs",
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
            metrics: [(metrics::RESPONSE_S.name, statistics)].into(),
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
        assert_eq!(Timed::of(&[responses, flows]), Timed::Flows);
    }
}
