//! Use of the link towards a crowd: useful bytes, and bytes of spurious retransmissions.

use carob_cc::time::Duration;
use carob_sim::spec::RunRecord;

use super::chart::{At, Axis, Chart, Layer, Panel, Part, steps};
use super::resolved::Picture;
use crate::compare::digits;

/// Time span of a step of the figure.
pub(super) const BIN: Duration = Duration::from_secs(10);

/// A link over time.
#[derive(Clone, Debug, Default)]
pub(super) struct LinkUse {
    rate_kbps: f64,
    steps: Vec<Step>,
}

/// One bin.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Step {
    useful_kbps: f64,
    useless_kbps: f64,
    wait_s: f64,
}

impl LinkUse {
    /// Link use of a run with bins of [`BIN`].
    pub(super) fn of(record: &RunRecord, rate_bps: u64) -> Self {
        // Bits over milliseconds are kbit/s.
        let span = BIN.as_micros() as f64 / 1e3;
        let step = |bin: &carob_sim::spec::Bin| Step {
            useful_kbps: (bin.carried - bin.useless) as f64 * 8.0 / span,
            useless_kbps: bin.useless as f64 * 8.0 / span,
            wait_s: bin.wait.as_micros() as f64 / 1e6,
        };
        Self {
            rate_kbps: rate_bps as f64 / 1e3,
            steps: record.bins.iter().map(step).collect(),
        }
    }

    /// The longest that a packet waited, in seconds.
    pub(super) fn longest_wait(&self) -> f64 {
        self.steps
            .iter()
            .map(|step| step.wait_s)
            .fold(0.0, f64::max)
    }

    /// The use among others; the line of waits reaches the top at `longest`.
    fn panel(&self, title: &str, longest: f64) -> Panel {
        let width = BIN.as_micros() as f64 / 1e6;
        let end = self.steps.len() as f64 * width;
        let line = |of: &dyn Fn(&Step) -> f64| {
            let at = (0..).map(|k| f64::from(k) * width);
            steps(at.zip(self.steps.iter().map(of)), end)
        };
        let area = |class: &str, top: Vec<At>, base: Vec<At>| {
            let corners = top.into_iter().chain(base.into_iter().rev());
            Part::Area(class.to_owned(), corners.collect())
        };
        let useful = line(&|step| step.useful_kbps);
        let all = line(&|step| step.useful_kbps + step.useless_kbps);
        let floor = vec![(0.0, 0.0), (end, 0.0)];
        let mut layers = vec![
            Layer::new("useful").part(area("link-useful", useful.clone(), floor)),
            Layer::new("spurious retransmissions").part(area("link-useless", all, useful)),
        ];
        if longest > 0.0 {
            let waits = line(&|step| step.wait_s / longest * self.rate_kbps);
            let name = format!("longest wait in the queue (top: {} s)", digits(longest));
            layers.push(Layer::new(&name).part(Part::line("link-wait", waits)));
        }
        let y = Axis::linear("Link towards the clients (kbit/s)", 5).within(0.0, self.rate_kbps);
        Panel::new(Axis::linear("", 8), y, layers).titled(title)
    }
}

/// Link use of crowds on common axes, each with its title, as one figure.
pub(super) fn link_uses(runs: &[(String, LinkUse)], label: &str) -> Picture {
    let longest = runs.iter().map(|(_, of)| of.longest_wait());
    let longest = longest.fold(0.0, f64::max);
    let panels = runs.iter().map(|(title, of)| of.panel(title, longest));
    Chart::over_time(label, panels.collect()).picture()
}

#[cfg(test)]
mod tests {
    use carob_sim::spec::Bin;

    use super::*;

    fn record(bins: &[(u64, u64, u64)]) -> RunRecord {
        let bin = |&(carried, useless, wait): &(u64, u64, u64)| Bin {
            carried,
            useless,
            wait: Duration::from_secs(wait),
            ..Bin::default()
        };
        RunRecord {
            bins: bins.iter().map(bin).collect(),
            ..RunRecord::default()
        }
    }

    #[test]
    fn bytes_of_a_bin_are_a_rate() {
        // 37,500 bytes in 10 s are 30 kbit/s.
        let of = LinkUse::of(&record(&[(37_500, 12_500, 3)]), 30_000);
        let [step] = of.steps[..] else {
            panic!("one bin")
        };
        assert!((step.useful_kbps - 20.0).abs() < 1e-9);
        assert!((step.useless_kbps - 10.0).abs() < 1e-9);
    }

    #[test]
    fn areas_lie_on_each_other_and_nothing_is_a_figure_too() {
        let of = LinkUse::of(&record(&[(37_500, 0, 1), (37_500, 37_500, 5)]), 30_000);
        assert!((of.longest_wait() - 5.0).abs() < 1e-9);
        let layers = of.panel("a", 5.0).layers;
        let class = "link-useless".to_owned();
        let corners = [(0.0, 30.0), (20.0, 30.0)];
        let base = [(20.0, 0.0), (10.0, 0.0), (10.0, 30.0), (0.0, 30.0)];
        let area = Part::Area(class, [&corners[..], &base].concat());
        assert_eq!(layers[1], Layer::new("spurious retransmissions").part(area));
        let svg = link_uses(&[("none".to_owned(), LinkUse::default())], "a label").0;
        assert!(svg.contains(">none<") && !svg.contains("NaN"), "{svg}");
    }
}
