//! The timers of a crowd in the order in which they began, and beside them how the exchanges were
//! answered: Figure 6 of Lee et al. 2016.

use std::fmt::Write as _;

use carob_sim::spec::RunRecord;

use super::frame::{DrawKey, Frame, Key, WIDTH, legend};
use super::multiples::Panel;
use super::scale::{Mapping, Scale, number};
use super::shapes::point;
use super::svg::{Svg, short};
use crate::timer_log::{self, Entry, Fate, LOGGED_MAX, SETTLING};

/// Height of a row's drawing areas.
const AREA: f64 = 150.0;
/// Room above a row for its title, and below it for tick labels.
const AROUND: (f64, f64) = (30.0, 34.0);
/// The share of the width that the timers have.
const TIMERS: f64 = 0.6;
/// Room for an axis and its label.
const MARGIN: f64 = 64.0;

/// Ends of timers, with the class of their marks and the name in the legend.
const FATES: [(Fate, &str, &str); 3] = [
    (
        Fate::Answered,
        "flow-first c0",
        "answered before it ran out",
    ),
    (Fate::Lost, "flow-first c3", "ran out: the copy was lost"),
    (
        Fate::Early,
        "flow-first c1",
        "ran out: the answer was to come",
    ),
];

/// The first timers of a run.
#[derive(Clone, Debug, Default)]
pub(super) struct TimerScatter {
    entries: Vec<Entry>,
}

impl TimerScatter {
    /// Those of a run whose events were recorded.
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

    fn scatter(&self, svg: &mut Svg, x: &Scale, y: &Scale) {
        for (fate, class, _) in FATES {
            let own = self.entries.iter().zip(1..);
            let own = own.filter(|(entry, _)| entry.fate == fate);
            let data: String = own
                .map(|(entry, line)| point((x.at(f64::from(line)), y.at(seconds(entry)))))
                .collect();
            if !data.is_empty() {
                svg.path(class, &data);
            }
        }
    }

    /// The share of all successes that there was after each line.
    fn successes(&self, svg: &mut Svg, x: &Scale, y: &Scale) {
        let is_success = |entry: &&Entry| entry.fate == Fate::Answered;
        let all = self.entries.iter().filter(is_success).count() as f64;
        if all == 0.0 {
            return;
        }
        let (mut reached, mut at_settling, mut data) = (0.0, 0.0, String::new());
        let mut last = None;
        for (entry, line) in self.entries.iter().zip(1_u32..) {
            reached += f64::from(u8::from(is_success(&entry)));
            if line as usize == SETTLING {
                at_settling = reached / all;
            }
            let place = (short(x.at(f64::from(line))), short(y.at(reached / all)));
            if last.as_ref() == Some(&place) {
                continue;
            }
            let letter = if data.is_empty() { 'M' } else { 'L' };
            // Writing to a String cannot fail.
            let _ = write!(data, "{letter}{} {}", place.0, place.1);
            last = Some(place);
        }
        if self.entries.len() > SETTLING {
            let from = (x.at(SETTLING as f64), y.at(at_settling));
            svg.line(
                "link-wait",
                from,
                (x.at(self.entries.len() as f64), y.at(1.0)),
            );
        }
        svg.path("rto", &data);
    }
}

fn seconds(entry: &Entry) -> f64 {
    entry.timeout.as_micros() as f64 / 1e6
}

/// Several runs below each other on the same axes, as one SVG element.
pub(super) fn scatters(panels: &[Panel<TimerScatter>], label: &str) -> String {
    let mut svg = Svg::default();
    let top = 14.0 + keys(&mut svg);
    let right = WIDTH - 16.0;
    let split = MARGIN + (right - MARGIN) * TIMERS;
    let most = |of: &dyn Fn(&TimerScatter) -> f64| {
        let all = panels.iter().map(|panel| of(&panel.content));
        all.fold(1.0, f64::max)
    };
    let lines = most(&|of| of.entries.len() as f64);
    let longest = most(&TimerScatter::longest);
    let step = AROUND.0 + AREA + AROUND.1;
    let linear = Mapping::Linear;
    for (row, panel) in panels.iter().enumerate() {
        let area_top = top + step * row as f64 + AROUND.0;
        let frame = |left, right| Frame {
            left,
            right,
            top: area_top,
            bottom: area_top + AREA,
        };
        svg.text("axis strong", (MARGIN, area_top - 11.0), &panel.title);
        let timers = frame(MARGIN, split);
        let y = Scale::new(linear, (0.0, longest), 5, (timers.bottom, timers.top));
        let x = Scale::new(linear, (0.0, lines), 6, (timers.left, timers.right));
        timers.y_axis(&mut svg, &y, "Timer (s)");
        timers.x_axis(&mut svg, &x, "");
        panel.content.scatter(&mut svg, &x, &y);
        let answered = frame(split + MARGIN, right);
        let y = Scale::new(linear, (0.0, 1.0), 4, (answered.bottom, answered.top));
        let x = Scale::new(linear, (0.0, lines), 4, (answered.left, answered.right));
        answered.y_axis(&mut svg, &y, "Share of answers");
        answered.x_axis(&mut svg, &x, "");
        panel.content.successes(&mut svg, &x, &y);
    }
    let bottom = top + step * panels.len().max(1) as f64;
    for middle in [
        f64::midpoint(MARGIN, split),
        f64::midpoint(split + MARGIN, right),
    ] {
        svg.text("axis middle", (middle, bottom + 8.0), "Timers begun");
    }
    svg.finish(WIDTH, bottom + 20.0, label)
}

fn keys(svg: &mut Svg) -> f64 {
    let dots = FATES.map(|(_, class, label)| {
        let draw = move |svg: &mut Svg, at: (f64, f64)| svg.path(class, &point(at));
        (label, Box::new(draw) as Box<DrawKey>)
    });
    let line = |class: &'static str| -> Box<DrawKey> {
        Box::new(move |svg, (x, y)| svg.line(class, (x - 9.0, y), (x + 9.0, y)))
    };
    let lines = [
        ("answers, of all", line("rto")),
        ("evenly after 400 timers", line("link-wait")),
    ];
    let all: Vec<(&str, Box<DrawKey>)> = dots.into_iter().chain(lines).collect();
    let keys: Vec<Key<'_>> = all
        .iter()
        .map(|(label, draw)| Key { label, draw })
        .collect();
    legend(svg, MARGIN, 14.0, WIDTH - 16.0, &keys)
}

#[cfg(test)]
mod tests {
    use carob_cc::time::{Duration, Instant};

    use super::*;

    fn panel(fates: &[Fate]) -> Panel<TimerScatter> {
        let entry = |fate: &Fate| Entry {
            at: Instant::ZERO,
            timeout: Duration::from_secs(2),
            copy: 0,
            fate: *fate,
        };
        Panel {
            title: "a run".to_owned(),
            content: TimerScatter {
                entries: fates.iter().map(entry).collect(),
            },
        }
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
        let svg = scatters(&[panel(&fates)], "a label");
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
        let of = |fates: &[Fate]| panel(fates).content.summary();
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
        assert!(!scatters(&[panel(&[])], "none").contains("NaN"));
    }
}
