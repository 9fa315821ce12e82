//! Replays for programs.

use carob_cc::time::Duration;
use serde::Serialize;
use serde_json::{Value, json};

use super::{Dither, Outcome, Run, Script, Step};
use crate::csv;

/// The result of an event, as the machine interface has it.
#[derive(Debug, Serialize)]
struct Row<'a> {
    /// Its number, counted from 1; a pause has none.
    event: Option<usize>,
    phase: Option<&'a str>,
    /// As a script has it.
    what: String,
    /// When the first transmission left or the pause began.
    at_s: f64,
    /// Delay by the controller before that, in seconds.
    waited_s: f64,
    took_s: f64,
    outcome: &'static str,
    transmissions: usize,
    lost: u8,
    spurious: u8,
    /// The first timer.
    rto_init_s: Option<f64>,
    /// The timers of all transmissions.
    timers_s: Vec<f64>,
    /// The overall RTO afterwards.
    rto_s: Option<f64>,
}

impl<'a> Row<'a> {
    fn of(script: &'a Script, index: usize, event: Option<usize>, step: &Step) -> Self {
        let scripted = &script.events[index];
        Self {
            event,
            phase: scripted.phase.map(|place| script.phases[place].as_str()),
            what: scripted.event.to_string(),
            at_s: step.began.as_micros() as f64 / 1e6,
            waited_s: seconds(step.waited),
            took_s: seconds(step.took()),
            outcome: match step.outcome {
                Outcome::Answered => "answered",
                Outcome::GivenUp => "given-up",
                Outcome::Unconfirmed => "unconfirmed",
                Outcome::Idle => "idle",
            },
            transmissions: match step.outcome {
                Outcome::Idle => 0,
                _ => step.timers.len().max(1),
            },
            lost: step.lost,
            spurious: step.spurious,
            rto_init_s: step.timers.first().copied().map(seconds),
            timers_s: step.timers.iter().copied().map(seconds).collect(),
            rto_s: step.rto.map(seconds),
        }
    }
}

fn seconds(time: Duration) -> f64 {
    time.as_micros() as f64 / 1e6
}

fn rows<'a>(script: &'a Script, run: &'a Run) -> impl Iterator<Item = Row<'a>> {
    let steps = run.steps.iter().zip(script.numbers()).enumerate();
    steps.map(|(index, (step, number))| Row::of(script, index, number, step))
}

/// A run as an object: the algorithm, the random draws, totals, every event.
pub fn object(script: &Script, run: &Run, dither: Dither) -> Value {
    let totals = run.totals();
    let (dither, seed) = match dither {
        Dither::Low => (Some("low"), None),
        Dither::Middle => (Some("middle"), None),
        Dither::High => (Some("high"), None),
        Dither::Seed(seed) => (None, Some(seed)),
    };
    json!({
        "algorithm": run.algorithm,
        "dither": dither,
        "seed": seed,
        "elapsed_s": seconds(totals.elapsed),
        "idle_s": seconds(totals.idle),
        "transmissions": totals.transmissions,
        "retransmissions": totals.retransmissions,
        "spurious": totals.spurious,
        "given_up": totals.given_up,
        "longest_timer_s": seconds(totals.longest_timer),
        "events": rows(script, run).collect::<Vec<_>>(),
    })
}

/// All runs as comma-separated values, a line for each algorithm and event; several timers are
/// separated by spaces.
pub fn csv(script: &Script, runs: &[Run]) -> String {
    let header = [
        "algorithm",
        "event",
        "phase",
        "what",
        "at_s",
        "waited_s",
        "took_s",
        "outcome",
        "transmissions",
        "lost",
        "spurious",
        "rto_init_s",
        "timers_s",
        "rto_s",
    ];
    let optional = |value: Option<f64>| value.map_or_else(String::new, |v| v.to_string());
    let lines = runs.iter().flat_map(|run| {
        rows(script, run).map(|row| {
            let timers: Vec<String> = row.timers_s.iter().map(f64::to_string).collect();
            vec![
                run.algorithm.clone(),
                row.event.map_or_else(String::new, |n| n.to_string()),
                row.phase.unwrap_or_default().to_owned(),
                row.what,
                row.at_s.to_string(),
                row.waited_s.to_string(),
                row.took_s.to_string(),
                row.outcome.to_owned(),
                row.transmissions.to_string(),
                row.lost.to_string(),
                row.spurious.to_string(),
                optional(row.rto_init_s),
                timers.join(" "),
                optional(row.rto_s),
            ]
        })
    });
    csv::text(std::iter::once(header.map(str::to_owned).to_vec()).chain(lines))
}

#[cfg(test)]
mod tests {
    use super::*;
    use carob_cc::TransmissionParameters;
    use carob_sim::spec::ControllerSpec;

    #[test]
    fn both_forms_have_every_event() {
        let text = "phase a, b\nrtt 3 s\nidle 1 s";
        let script = Script::read("a.txt", text).expect("a script");
        let controller = ControllerSpec::new("default", []).expect("a controller");
        let parameters = TransmissionParameters::DEFAULT;
        let run = Run::of(&script, &controller, &parameters, Dither::Low);

        let object = object(&script, &run, Dither::Low);
        assert_eq!(
            (&object["dither"], &object["seed"]),
            (&"low".into(), &Value::Null)
        );
        assert_eq!(object["algorithm"], "default");
        assert_eq!(
            (&object["spurious"], &object["elapsed_s"]),
            (&1.into(), &4.0.into())
        );
        let first = &object["events"][0];
        assert_eq!(first["timers_s"], json!([2.0, 4.0]));
        assert_eq!(
            (&first["phase"], &first["rto_s"]),
            (&"a, b".into(), &Value::Null)
        );

        let table = csv::Table::read(&csv(&script, &[run])).expect("valid");
        assert_eq!(table.len(), 2);
        assert_eq!(table.cell(0, "phase"), Some("a, b"));
        assert_eq!(table.cell(0, "timers_s"), Some("2 4"));
        assert_eq!(table.cell(1, "outcome"), Some("idle"));
        assert_eq!(table.number(1, "transmissions"), Some(0.0));
        assert_eq!(
            (table.cell(0, "event"), table.cell(1, "event")),
            (Some("1"), Some(""))
        );
    }
}
