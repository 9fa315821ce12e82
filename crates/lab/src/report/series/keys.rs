//! Surroundings of the panels: the legend, the names of phases, notes beside titles.

use super::panel::{cap, cross, rung};
use super::{Drawing, KEYS_LEFT, letter};
use crate::replay::tables::seconds;
use crate::replay::{Outcome, Run, Step, Totals};
use crate::report::frame::{DrawKey, Key, WIDTH, legend};
use crate::report::svg::{Svg, text_width};

/// Draws the legend of the marks in use; returns its height.
pub(super) fn marks_key(svg: &mut Svg, runs: &[Run]) -> f64 {
    let any = |is: fn(&Step) -> bool| runs.iter().flat_map(|run| &run.steps).any(is);
    let all: [(bool, &str, &DrawKey); 8] = [
        (true, "round trip", &|svg, (x, y)| {
            svg.rect("trip", x - 8.0, y - 4.0, 16.0, 9.0);
            svg.line("trip-top", (x - 8.0, y - 4.0), (x + 8.0, y - 4.0));
        }),
        (true, "first timer", &|svg, at| {
            svg.circle("first", at, 3.0);
        }),
        (
            any(|step| step.timers.len() > 1),
            "timers after it",
            &|svg, (x, y)| {
                svg.line("stroke", (x, y - 7.0), (x, y + 7.0));
                svg.path("rung", &rung((x, y - 3.0), 4.0));
                svg.path("rung", &rung((x, y + 3.0), 4.0));
            },
        ),
        (any(|step| step.lost > 0), "copy lost", &|svg, at| {
            svg.path("lost", &cross(at, 3.2));
        }),
        (
            any(|step| step.spurious > 0),
            "spurious copy",
            &|svg, (x, y)| {
                svg.line("stroke", (x, y - 7.0), (x, y + 7.0));
                svg.path("spurious", &rung((x, y), 4.5));
            },
        ),
        (
            any(|step| step.outcome == Outcome::GivenUp),
            "given up",
            &|svg, at| {
                svg.path("given-up", &cap(at, 4.5));
            },
        ),
        (
            any(|step| step.outcome == Outcome::Unconfirmed),
            "NON, held back for",
            &|svg, at| svg.circle("unconfirmed", at, 3.0),
        ),
        (
            any(|step| step.outcome == Outcome::Idle),
            "pause",
            &|svg, (x, y)| {
                svg.rect("pause", x - 4.0, y - 7.0, 8.0, 14.0);
            },
        ),
    ];
    let keys: Vec<Key<'_>> = all
        .iter()
        .filter(|(shown, ..)| *shown)
        .map(|&(_, label, draw)| Key { label, draw })
        .collect();
    legend(svg, KEYS_LEFT, 14.0, WIDTH - 10.0, &keys)
}

/// The names of the phases by their letters; gives its height.
pub(super) fn phases_key(svg: &mut Svg, drawing: &Drawing<'_>, top: f64) -> f64 {
    if !drawing.has_letters() {
        return 0.0;
    }
    let (left, right) = (KEYS_LEFT, WIDTH - 10.0);
    let (mut x, mut y) = (left, top + 4.0);
    for (place, name) in drawing.script.phases.iter().enumerate() {
        let width = 13.0 + text_width(name) * 1.05 + 16.0;
        if x + width > right + 16.0 && x > left {
            (x, y) = (left, y + 18.0);
        }
        svg.text("letter strong", (x, y + 4.0), &letter(place));
        svg.text("tick", (x + 13.0, y + 4.0), name);
        x += width;
    }
    y + 14.0 - top
}

/// Notes beside the names of controllers: a text for each run, and an explanation.
pub(super) struct Notes {
    pub(super) texts: Vec<String>,
    pub(super) reading: &'static str,
}

impl Notes {
    /// As much as every panel has room for.
    pub(super) fn of(runs: &[Run], titles: &[String], width: f64) -> Self {
        type Form = (fn(&Totals) -> String, &'static str);
        const FORMS: [Form; 3] = [
            (
                |t| {
                    let took = seconds(t.elapsed.saturating_sub(t.idle));
                    let (again, spurious) = (t.retransmissions, t.spurious);
                    format!("{again} retransmissions, {spurious} spurious, {took} s")
                },
                "Beside a name: retransmissions, those of them that were spurious, and how long \
                 all exchanges took, pauses left out.",
            ),
            (
                |t| {
                    format!(
                        "{} retransmissions, {} spurious",
                        t.retransmissions, t.spurious
                    )
                },
                "Beside a name: retransmissions, and those of them that were spurious.",
            ),
            (
                |t| format!("{} ({})", t.retransmissions, t.spurious),
                "Beside a name: retransmissions, in brackets those of them that were spurious.",
            ),
        ];
        for (form, reading) in FORMS {
            let texts: Vec<String> = runs.iter().map(|run| form(&run.totals())).collect();
            let fits = |(title, note): (&String, &String)| {
                text_width(title) * 1.15 + text_width(note) + 16.0 <= width
            };
            if titles.iter().zip(&texts).all(fits) {
                return Self { texts, reading };
            }
        }
        Self {
            texts: vec![String::new(); runs.len()],
            reading: "",
        }
    }
}
