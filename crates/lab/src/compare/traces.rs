//! Traces of the link of a comparison.

use std::path::Path;
use std::sync::Arc;

use carob_cc::ratio::Ratio;
use carob_sim::link::{DirectionSpec, LinkTrace, Replay, TraceEnd, TraceStart};
use serde::{Serialize, Serializer};

use super::CompareError;
use super::link::Link;
use super::written_link::WrittenLink;
use crate::link_trace::{is_text, read_value};
use crate::scenario::value::{Values, table};

/// A trace with the name of its file.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedTrace {
    /// Path of the file, or `in place`.
    pub name: String,
    /// Its text, if given instead of a path.
    pub text: Option<Arc<str>>,
    /// Its series.
    pub trace: Arc<LinkTrace>,
}

impl Serialize for NamedTrace {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.name)
    }
}

/// Traces of both directions. A run begins at a place of them that its seed draws.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LinkTraces {
    /// Towards the devices.
    pub down: Option<NamedTrace>,
    /// From the devices.
    pub up: Option<NamedTrace>,
    /// True if the link has its own numbers after the end of a trace, which repeats otherwise.
    pub is_cut: bool,
}

impl LinkTraces {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.down.is_none() && self.up.is_none()
    }

    /// Reads the files that a link names; paths are relative to the link's file.
    pub(super) fn read(link: &str, written: &WrittenLink) -> Result<Self, CompareError> {
        let folder = Path::new(link).parent().unwrap_or(Path::new(""));
        let named = |key: &str| {
            let Some(path) = written.get(key) else {
                return Ok(None);
            };
            let source = read_value(path, folder).map_err(|why| {
                CompareError::of(
                    format_args!("{link}: {key}: {why}"),
                    "a trace is a CSV with time_ms and rate_kbit_s, delay_ms or loss_percent, or \
                     Mahimahi's lines of milliseconds",
                )
            })?;
            Ok(Some(NamedTrace {
                text: is_text(path).then(|| path.into()),
                name: source.name,
                trace: source.trace,
            }))
        };
        let is_cut = match written.get("trace.end") {
            None | Some("loop") => false,
            Some("cut") => true,
            Some(other) => {
                return Err(CompareError::of(
                    format_args!("{link}: trace.end is \"{other}\""),
                    "trace.end takes loop or cut",
                ));
            }
        };
        Ok(Self {
            down: named("trace.down")?,
            up: named("trace.up")?,
            is_cut,
        })
    }

    fn each(&self) -> impl Iterator<Item = &NamedTrace> {
        self.down.iter().chain(&self.up)
    }

    /// Whether a trace has losses.
    pub(super) fn has_loss(&self) -> bool {
        self.each().any(|one| one.trace.has_loss())
    }

    /// Whether a trace has rates.
    pub(super) fn has_rate(&self) -> bool {
        self.each().any(|one| one.trace.has_rate())
    }

    /// Whether a trace has delays.
    pub(super) fn has_delay(&self) -> bool {
        self.each().any(|one| one.trace.has_delay())
    }

    /// Whether traces replace rates, delays and losses, down and up.
    pub(super) fn replaced(&self) -> [[bool; 2]; 3] {
        let both = [self.down.as_ref(), self.up.as_ref()];
        let of =
            |has: fn(&LinkTrace) -> bool| both.map(|one| one.is_some_and(|one| has(&one.trace)));
        [
            of(LinkTrace::has_rate),
            of(LinkTrace::has_delay),
            of(LinkTrace::has_loss),
        ]
    }

    /// The same with other delays and losses.
    pub(super) fn scaled(&self, delay: Ratio, loss: Ratio) -> Self {
        let scaled = |one: &NamedTrace| NamedTrace {
            name: one.name.clone(),
            // The text has the values before scaling.
            text: None,
            trace: Arc::new(one.trace.scaled(delay, loss)),
        };
        Self {
            down: self.down.as_ref().map(scaled),
            up: self.up.as_ref().map(scaled),
            is_cut: self.is_cut,
        }
    }

    /// Adds their keys to the values of a scenario; paths are unchanged.
    pub(super) fn set_in(&self, values: &mut Values) {
        for (key, one) in [("down.trace", &self.down), ("up.trace", &self.up)] {
            if let Some(one) = one {
                let end = if self.is_cut { "cut" } else { "loop" };
                let own = [
                    (key, one.text.as_deref().unwrap_or(&one.name).into()),
                    ("trace_end", end.into()),
                    ("trace_start", "drawn".into()),
                ];
                values.extend(table("link", own));
            }
        }
    }

    /// The end of a line about the link.
    pub(super) fn about(&self) -> String {
        let of = |name: &str, one: &Option<NamedTrace>| {
            let one = one.as_ref();
            one.map(|one| format!(", trace {name} {}", one.name))
        };
        let both = [of("down", &self.down), of("up", &self.up)];
        both.into_iter().flatten().collect()
    }
}

impl Link {
    /// Puts its traces into the directions of a run.
    pub(super) fn replay(&self, down: &mut DirectionSpec, up: &mut DirectionSpec) {
        let end = if self.traces.is_cut {
            TraceEnd::Cut
        } else {
            TraceEnd::Loop
        };
        for (spec, one) in [(down, &self.traces.down), (up, &self.traces.up)] {
            spec.replay = one.as_ref().map(|one| Replay {
                trace: one.trace.clone(),
                end,
                // From one common beginning, all seeds would meet the same part of a long trace.
                start: TraceStart::Drawn,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Question, Traffic};
    use super::*;
    use crate::run::{Plan, Selection};
    use crate::scenario::Scenario;

    #[test]
    fn a_written_trace_is_in_the_scenario() {
        let trace = "time_ms,rate_kbit_s,loss_percent\n0,40,0\n5000,80,5\n";
        let written = WrittenLink::default()
            .with("down", Some("60 kbit/s".to_owned()))
            .with("trace.up", Some(trace.to_owned()));
        let link = Link::read("a link", &written).expect("a link");
        let about = link.about();
        assert!(about.contains("trace up in place"), "{about}");
        // The trace has rate and loss; the delay is the link's.
        assert!(
            about.starts_with("60 kbit/s down, round trip 100 ms, 0 % lost"),
            "{about}"
        );
        let question = Question::new(link, Traffic::named("command").expect("known"));
        let text = question.scenario_text(&["default"], &question.default_coap(), 2);
        assert!(text.contains("trace = \"\"\"\ntime_ms,"), "{text}");
        let scenario = Scenario::read("a.toml", &text, &[]).expect("a scenario");
        let plan = Plan::new(&scenario, &Selection::default()).expect("a plan");
        let link = crate::testing::link(plan.spec(&plan.jobs()[0])).link;
        assert_eq!(link.up.replay.expect("a trace").trace.rows(), 2);
    }

    #[test]
    fn a_link_file_names_traces_beside_it() {
        let folder = std::env::temp_dir().join(format!("carob-link-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let csv = "time_ms,rate_kbit_s,delay_ms,loss_percent\n0,40,300,0\n5000,80,200,5\n";
        std::fs::write(folder.join("up.csv"), csv).expect("a file");
        std::fs::write(folder.join("bad.csv"), "time_ms,delay_ms\n0,x\n").expect("a file");
        let file = folder.join("link.toml").display().to_string();
        let read =
            |keys: &str| Link::from_file(&file, &format!("[link]\ndown = \"60 kbit/s\"\n{keys}"));
        let link = read("trace.up = \"up.csv\"").expect("a link");
        assert_eq!(link.up_bps, 60_000);
        let whole = read("trace.up = \"up.csv\"\ntrace.down = \"up.csv\"").expect("a link");
        assert!(
            whole.about().starts_with("buffers 64000 B"),
            "{}",
            whole.about()
        );
        assert!(link.about().contains("trace up ") && link.traces.has_loss());
        let bad = read("trace.up = \"bad.csv\"").expect_err("no trace");
        assert!(bad.what.contains("bad.csv:2: delay_ms"), "{bad}");
        let end = read("trace.up = \"up.csv\"\ntrace.end = \"stop\"").expect_err("no end");
        assert!(end.remedy.contains("loop or cut"));
        let mut traffic = Traffic::named("firmware").expect("known");
        traffic.size = 8_192;
        let answer = Question::new(link, traffic)
            .answer(&|_| {})
            .expect("possible");
        assert!(answer.neighbours.contains(&"half the loss".to_owned()));
        let _ = std::fs::remove_dir_all(&folder);
    }
}
