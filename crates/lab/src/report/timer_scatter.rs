//! The timers of a crowd in the order in which they began, and beside them how the exchanges were
//! answered: Figure 6 of Lee et al. 2016.

use carob_sim::spec::RunRecord;

use super::chart::{Axis, Chart, Layer, Panel, Part};
use super::picture::Picture;
use super::scale::{Mapping, number};
use super::shapes::Shape;
use crate::timer_log::{self, Entry, Fate, LOGGED_MAX, SETTLING};

/// Height of a row's panels, and the widths of both.
const AREA: f64 = 150.0;
const WIDTHS: [f64; 2] = [440.0, 270.0];

/// Ends of timers, with the class of their marks and the name in the legend.
const FATES: [(Fate, &str, &str); 3] = [
    (
        Fate::Answered,
        "flow-first c0",
        "answered before it expired",
    ),
    (
        Fate::Lost,
        "flow-first c3",
        "expired: the transmission was lost",
    ),
    (
        Fate::Early,
        "flow-first c1",
        "expired: the response was on its way",
    ),
];

/// The first timers of a run.
#[derive(Clone, Debug, Default)]
pub(super) struct TimerScatter {
    entries: Vec<Entry>,
}

impl TimerScatter {
    /// The timers of a run whose events were recorded.
    pub(super) fn of(record: &RunRecord) -> Self {
        let mut entries = timer_log::of(record);
        entries.truncate(LOGGED_MAX);
        Self { entries }
    }

    /// In a few words.
    pub(super) fn summary(&self) -> String {
        let early = self.entries.iter().filter(|e| e.fate == Fate::Early);
        let early = early.count() as f64 / self.entries.len().max(1) as f64;
        let all = self.entries.len();
        let suit = match timer_log::suitable_after(&self.entries) {
            0 => "they suit from the first on".to_owned(),
            never if never == all => "they never suit".to_owned(),
            after => {
                let before = self.entries[..after].iter();
                let requests = before.filter(|entry| entry.copy == 0).count();
                format!("they suit after {after}, {requests} requests")
            }
        };
        format!(
            "of {} timers {:.0} % ran out too early; {suit}",
            number(all as f64, 0),
            early * 100.0
        )
    }

    fn longest(&self) -> f64 {
        let seconds = self.entries.iter().map(seconds);
        seconds.fold(1.0, f64::max)
    }

    fn scatter(&self) -> Vec<Layer> {
        let layer = |(fate, class, name): (Fate, &str, &str)| {
            let own = self.entries.iter().zip(1..);
            let own = own.filter(|(entry, _)| entry.fate == fate);
            let dots = own.map(|(entry, line)| (f64::from(line), seconds(entry)));
            let dots = Part::Marks(class.to_owned(), Shape::Dot, 0.0, dots.collect());
            Layer::new(name).part(dots)
        };
        FATES.map(layer).into()
    }

    /// The share of all successes that there was after each line, and the line from its value after
    /// [`SETTLING`].
    fn successes(&self) -> Vec<Layer> {
        let is_success = |entry: &&Entry| entry.fate == Fate::Answered;
        let all = self.entries.iter().filter(is_success).count() as f64;
        if all == 0.0 {
            return Vec::new();
        }
        let mut reached = 0.0;
        let shares = self.entries.iter().zip(1_u32..).map(|(entry, line)| {
            reached += f64::from(u8::from(is_success(&entry)));
            (f64::from(line), reached / all)
        });
        let shares: Vec<_> = shares.collect();
        let mut even = Layer::new("evenly after 400 timers");
        if self.entries.len() > SETTLING {
            let end = (self.entries.len() as f64, 1.0);
            even = even.part(Part::span("link-wait", shares[SETTLING - 1], end));
        }
        let shares = Part::Line("rto".to_owned(), vec![shares]);
        vec![even, Layer::new("answers, of all").part(shares)]
    }
}

fn seconds(entry: &Entry) -> f64 {
    entry.timeout.as_micros() as f64 / 1e6
}

/// Several runs below each other on the same axes, as one figure.
pub(super) fn scatters(runs: &[(String, TimerScatter)], label: &str) -> Picture {
    let most = |of: &dyn Fn(&TimerScatter) -> f64| {
        let all = runs.iter().map(|(_, run)| of(run));
        all.fold(1.0, f64::max)
    };
    let lines = (0.0, most(&|of| of.entries.len() as f64));
    let longest = most(&TimerScatter::longest);
    let linear = Mapping::Linear;
    let panels = runs.iter().flat_map(|(title, run)| {
        let timers = Panel {
            title: title.clone(),
            x: Axis::new("", linear, lines, 6),
            y: Axis::new("Timer (s)", linear, (0.0, longest), 5),
            layers: run.scatter(),
            ..Panel::default()
        };
        let answers = Panel {
            x: Axis::new("", linear, lines, 4),
            y: Axis::new("Share of answers", linear, (0.0, 1.0), 4),
            layers: run.successes(),
            ..Panel::default()
        };
        [timers, answers]
    });
    let chart = Chart {
        label: label.to_owned(),
        columns: 2,
        height: AREA,
        widths: WIDTHS.into(),
        right: 16.0,
        x_label: "Timers begun".to_owned(),
        panels: panels.collect(),
        ..Chart::default()
    };
    chart.picture()
}

#[cfg(test)]
mod tests {
    use carob_cc::time::{Duration, Instant};

    use super::*;

    fn run(fates: &[Fate]) -> (String, TimerScatter) {
        let entry = |fate: &Fate| Entry {
            at: Instant::ZERO,
            timeout: Duration::from_secs(2),
            copy: 0,
            fate: *fate,
        };
        let entries = fates.iter().map(entry).collect();
        ("a run".to_owned(), TimerScatter { entries })
    }

    #[test]
    fn every_timer_is_a_mark_by_what_became_of_it() {
        let fates = [
            Fate::Answered,
            Fate::Early,
            Fate::Answered,
            Fate::Lost,
            Fate::Open,
        ];
        let svg = scatters(&[run(&fates)], "a label").0;
        let marks = |class: &str| {
            let begin = format!("<path class=\"{class}\"");
            let paths = svg.split(&begin).skip(1);
            let data = paths.map(|path| path.split("/>").next().unwrap_or_default());
            data.map(|data| data.matches("h0").count()).sum::<usize>()
        };
        // One more each in the legend.
        assert_eq!(marks("flow-first c0"), 3);
        assert_eq!(marks("flow-first c1"), 2);
        assert_eq!(marks("flow-first c3"), 2);
        assert!(!svg.contains("NaN"));
    }

    #[test]
    fn a_summary_says_when_timers_suit_and_nothing_is_a_figure_too() {
        let of = |fates: &[Fate]| run(fates).1.summary();
        let right = of(&[Fate::Answered; 200]);
        assert_eq!(
            right,
            "of 200 timers 0 % ran out too early; they suit from the first on"
        );
        let late = [&[Fate::Early; 300][..], &[Fate::Answered; 700]].concat();
        assert!(
            of(&late).ends_with("30 % ran out too early; they suit after 290, 290 requests"),
            "{}",
            of(&late)
        );
        assert!(of(&[Fate::Early; 300]).ends_with("they never suit"));
        assert!(!scatters(&[run(&[])], "none").0.contains("NaN"));
    }
}
