//! Notes beside the names of controllers.

use crate::replay::tables::seconds;
use crate::replay::{Run, Totals};
use crate::report::svg::text_width;

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
