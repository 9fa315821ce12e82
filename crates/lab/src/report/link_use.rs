//! Use of the link towards a crowd: useful bytes, and those of spurious retransmissions.

use std::fmt::Write as _;

use carob_cc::time::Duration;
use carob_sim::spec::RunRecord;

use super::frame::{DrawKey, Key, WIDTH, legend};
use super::scale::Scale;
use super::svg::{Svg, short};

/// The span of time that each step of the figure stands for.
pub(super) const BIN: Duration = Duration::from_secs(10);
/// Label of the vertical axis.
pub(super) const Y_RATE: &str = "Link towards the clients (kbit/s)";

/// A link over time.
#[derive(Clone, Debug, Default)]
pub(super) struct LinkUse {
    pub(super) rate_kbps: f64,
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
    /// That of a run with bins of [`BIN`].
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

    /// When the last bin ends, in seconds.
    pub(super) fn end(&self) -> f64 {
        self.steps.len() as f64 * BIN.as_micros() as f64 / 1e6
    }

    /// The longest that a packet waited, in seconds.
    pub(super) fn longest_wait(&self) -> f64 {
        self.steps
            .iter()
            .map(|step| step.wait_s)
            .fold(0.0, f64::max)
    }

    /// Draws it; the line of waits reaches the top at `longest`.
    pub(super) fn draw(&self, svg: &mut Svg, x: &Scale, y: &Scale, longest: f64) {
        let useful: Vec<f64> = self.steps.iter().map(|step| step.useful_kbps).collect();
        let all = self.steps.iter().map(|s| s.useful_kbps + s.useless_kbps);
        let all: Vec<f64> = all.collect();
        svg.path(
            "link-useful",
            &area(x, y, &vec![0.0; useful.len()], &useful),
        );
        svg.path("link-useless", &area(x, y, &useful, &all));
        if longest > 0.0 {
            let scaled = self
                .steps
                .iter()
                .map(|s| s.wait_s / longest * self.rate_kbps);
            svg.path("link-wait", &steps(x, y, &scaled.collect::<Vec<_>>()));
        }
    }

    /// The legend; gives its height.
    pub(super) fn legend(svg: &mut Svg) -> f64 {
        let square = |class: &'static str| {
            move |svg: &mut Svg, (x, y): (f64, f64)| svg.rect(class, x - 7.0, y - 5.0, 14.0, 10.0)
        };
        let (useful, useless) = (square("link-useful"), square("link-useless"));
        let wait = |svg: &mut Svg, (x, y): (f64, f64)| {
            svg.line("link-wait", (x - 9.0, y), (x + 9.0, y));
        };
        let all: [(&str, &DrawKey); 3] = [
            ("useful", &useful),
            ("spurious copies", &useless),
            ("longest wait in the queue", &wait),
        ];
        let keys: Vec<Key<'_>> = all
            .iter()
            .map(|&(label, draw)| Key { label, draw })
            .collect();
        legend(svg, 64.0, 14.0, WIDTH - 16.0, &keys)
    }
}

/// Steps of one height per bin as path data.
fn steps(x: &Scale, y: &Scale, heights: &[f64]) -> String {
    let mut data = String::new();
    for (k, height) in heights.iter().enumerate() {
        let place = |bin: usize| short(x.at(bin as f64 * BIN.as_micros() as f64 / 1e6));
        let letter = if k == 0 { 'M' } else { 'L' };
        // Writing to a String cannot fail.
        let _ = write!(
            data,
            "{letter}{} {}H{}",
            place(k),
            short(y.at(*height)),
            place(k + 1)
        );
    }
    data
}

/// SVG path of the area between two rows of steps.
fn area(x: &Scale, y: &Scale, low: &[f64], high: &[f64]) -> String {
    let mut data = steps(x, y, high);
    for (k, height) in low.iter().enumerate().rev() {
        let place = |bin: usize| short(x.at(bin as f64 * BIN.as_micros() as f64 / 1e6));
        let _ = write!(
            data,
            "L{} {}H{}",
            place(k + 1),
            short(y.at(*height)),
            place(k)
        );
    }
    if !data.is_empty() {
        data.push('Z');
    }
    data
}

#[cfg(test)]
mod tests {
    use carob_sim::spec::Bin;

    use super::*;
    use crate::report::scale::Mapping;

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
        assert!((of.end() - 10.0).abs() < 1e-9);
    }

    #[test]
    fn areas_lie_on_each_other_and_nothing_is_a_figure_too() {
        let of = LinkUse::of(&record(&[(37_500, 0, 1), (37_500, 37_500, 5)]), 30_000);
        let x = Scale::new(Mapping::Linear, (0.0, 20.0), 2, (0.0, 200.0));
        let y = Scale::new(Mapping::Linear, (0.0, 30.0), 3, (300.0, 0.0));
        let mut svg = Svg::default();
        of.draw(&mut svg, &x, &y, 5.0);
        let text = svg.finish(200.0, 300.0, "a label");
        assert!(
            text.contains("M0 0H100L100 300H200L200 300H100L100 300H0Z"),
            "{text}"
        );
        assert!((of.longest_wait() - 5.0).abs() < 1e-9);
        let mut svg = Svg::default();
        LinkUse::default().draw(&mut svg, &x, &y, 0.0);
        assert!(!svg.finish(200.0, 300.0, "").contains("NaN"));
    }
}
