//! Replays as tables for people.

use carob_cc::time::Duration;

use super::{Event, Outcome, Run, Script, Step};
use crate::text::TextTable;

/// The most controllers side by side in one table of events.
const SIDE_BY_SIDE: usize = 4;
/// The most rows of a short table.
const ROWS_MAX: usize = 60;

/// Legend of the columns of [`totals`].
pub const TOTAL_COLUMNS: &str = "Times are in seconds, took without the script's pauses; spurious are \
transmissions although an earlier one was about to be answered.";

/// Legend of the columns of [`events`], for those that need one.
pub fn event_columns(script: &Script, runs: &[Run]) -> String {
    let steps = || runs.iter().flat_map(|run| &run.steps);
    let told = (script.events.iter()).any(|s| matches!(s.event, Event::Notification { .. }));
    let spurious = steps().any(|step| step.spurious > 0);
    let given_up = steps().any(|step| step.outcome == Outcome::GivenUp);
    let rto = runs.iter().any(keeps_rto);
    let marks: Vec<&str> = [(spurious, "! some spurious"), (given_up, "✗ given up")]
        .iter()
        .filter(|(shown, _)| *shown)
        .map(|(_, mark)| *mark)
        .collect();
    let mut text = "Under each controller the first timer in seconds".to_owned();
    if told {
        text += " (+ how long a notification was held back)";
    }
    text += if rto {
        ", × transmissions"
    } else {
        " and × transmissions"
    };
    if !marks.is_empty() {
        text += " (";
        text += &marks.join(", ");
        text += ")";
    }
    text += if rto { " and the RTO afterwards." } else { "." };
    text
}

/// Returns true if a controller has an RTO to show.
fn keeps_rto(run: &Run) -> bool {
    run.steps.iter().any(|step| step.rto.is_some())
}

/// The events down, the controllers across, as many in each table as fit into `columns` characters;
/// also returns the number of events left out.
///
/// Short tables have the first and last event of each group and each event with several
/// transmissions, at most 60 rows.
pub fn events(
    script: &Script,
    runs: &[Run],
    all: bool,
    columns: Option<usize>,
) -> (Vec<TextTable>, usize) {
    let shown = rows(script, runs, all);
    let mut tables: Vec<TextTable> = Vec::new();
    let mut rest = runs;
    while !rest.is_empty() {
        let fits = |count: &usize| {
            let table = block(script, &rest[..*count], &shown);
            columns.is_none_or(|columns| table.width() <= columns)
        };
        let count = (1..=SIDE_BY_SIDE.min(rest.len()))
            .rev()
            .find(fits)
            .unwrap_or(1);
        tables.push(block(script, &rest[..count], &shown));
        rest = &rest[count..];
    }
    (tables, script.events.len() - shown.len())
}

/// The events that are shown, under some of the controllers.
fn block(script: &Script, runs: &[Run], shown: &[usize]) -> TextTable {
    let mut header = vec![">#".to_owned()];
    if !script.phases.is_empty() {
        header.push("phase".to_owned());
    }
    header.push("event".to_owned());
    for run in runs {
        header.extend([format!(">{}", run.algorithm), "×".to_owned()]);
        if keeps_rto(run) {
            header.push(">RTO".to_owned());
        }
    }
    let mut table = TextTable::new(header);
    let numbers = script.numbers();
    let mut phase = None;
    for &index in shown {
        let scripted = &script.events[index];
        let number = numbers[index].map_or_else(String::new, |n| n.to_string());
        let mut cells = vec![number];
        if !script.phases.is_empty() {
            let known = phase.replace(scripted.phase) == Some(scripted.phase);
            let name = scripted.phase.filter(|_| !known);
            cells.push(name.map_or_else(String::new, |place| script.phases[place].clone()));
        }
        cells.push(scripted.event.to_string());
        for run in runs {
            let step = &run.steps[index];
            cells.extend([first_timer(step), transmissions(step)]);
            if keeps_rto(run) {
                cells.push(step.rto.map_or_else(String::new, seconds));
            }
        }
        table.add(cells);
    }
    table
}

/// The places of the events that are shown.
fn rows(script: &Script, runs: &[Run], all: bool) -> Vec<usize> {
    let group = |index: usize| script.events.get(index).map(|scripted| scripted.group);
    let of_interest = |index: &usize| {
        let index = *index;
        let is_first = index == 0 || group(index) != group(index - 1);
        let is_last = group(index) != group(index + 1);
        let eventful = |run: &Run| run.steps[index].timers.len() > 1;
        all || is_first || is_last || runs.iter().any(eventful)
    };
    let most = if all { usize::MAX } else { ROWS_MAX };
    let indices = 0..script.events.len();
    indices.filter(of_interest).take(most).collect()
}

fn first_timer(step: &Step) -> String {
    match step.timers.first() {
        Some(timer) => seconds(*timer),
        None if step.waited.is_zero() => "–".to_owned(),
        None => format!("+{}", seconds(step.waited)),
    }
}

fn transmissions(step: &Step) -> String {
    let mark = match step.outcome {
        Outcome::Idle => return String::new(),
        Outcome::GivenUp => "✗",
        _ if step.spurious > 0 => "!",
        _ => "",
    };
    format!("{}{mark}", step.timers.len().max(1))
}

/// Table of the totals of each controller's run.
pub fn totals(runs: &[Run]) -> TextTable {
    let mut table = TextTable::new([
        "controller",
        ">took s",
        ">sent",
        ">retransmissions",
        ">spurious",
        ">given up",
        ">longest timer s",
    ]);
    table.optional(&["given up", "longest timer s"]);
    for run in runs {
        let totals = run.totals();
        let took = totals.elapsed.saturating_sub(totals.idle);
        table.add(vec![
            run.algorithm.clone(),
            seconds(took),
            totals.transmissions.to_string(),
            totals.retransmissions.to_string(),
            totals.spurious.to_string(),
            totals.given_up.to_string(),
            seconds(totals.longest_timer),
        ]);
    }
    table
}

/// Seconds with the digits that matter: 0.0017, 0.85, 12.50, 312.5.
pub(crate) fn seconds(time: Duration) -> String {
    let value = time.as_micros() as f64 / 1e6;
    let decimals = match time.as_micros() {
        1..10_000 => 4,
        0..100_000_000 => 2,
        100_000_000..1_000_000_000 => 1,
        _ => 0,
    };
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::Dither;
    use carob_cc::TransmissionParameters;
    use carob_sim::spec::ControllerSpec;

    fn runs(script: &Script, names: &[&str]) -> Vec<Run> {
        let parameters = TransmissionParameters::DEFAULT;
        let run = |name: &&str| {
            let controller = ControllerSpec::new(name, []).expect("a controller");
            Run::of(script, &controller, &parameters, Dither::Low)
        };
        names.iter().map(run).collect()
    }

    fn script(text: &str) -> Script {
        Script::read("a.txt", text).expect("a script")
    }

    #[test]
    fn a_row_has_first_timer_and_rto_of_each_controller() {
        let script =
            script("rtt 1 s\nlost 1, rtt 1 s\nrtt 3.5 s\nfail\nidle 1 min\nnotify, rtt 1 s");
        let runs = runs(&script, &["default", "cocoa-03"]);
        let (tables, left_out) = events(&script, &runs, false, None);
        assert_eq!((tables.len(), left_out), (1, 0));
        let rows: Vec<String> = tables[0].rows().iter().map(|row| row.join("|")).collect();
        // The first round trip makes (2 + 1 + 4 x 0.5) / 2 of 2 s.
        assert_eq!(rows[0], "1|rtt 1 s|2.00|1|2.00|1|2.50");
        assert!(
            rows[1].starts_with("2|lost 1, rtt 1 s|2.00|2|2.50|2|"),
            "{}",
            rows[1]
        );
        assert!(rows[2].starts_with("3|rtt 3.5 s|2.00|2!|"), "{}", rows[2]);
        assert!(rows[3].starts_with("4|fail|2.00|5✗|"), "{}", rows[3]);
        assert!(rows[4].starts_with("|idle 60 s|–||–||"), "{}", rows[4]);
        assert!(
            rows[5].starts_with("5|notify, rtt 1 s|–|1|–|1|"),
            "{}",
            rows[5]
        );
    }

    #[test]
    fn short_table_has_group_ends_and_eventful_rows() {
        let script = script("phase calm\nrtt 1 s x 9\nrtt 1 s to 3 s x 9\nphase end\nfail");
        let (tables, left_out) = events(&script, &runs(&script, &["default"]), false, None);
        let table = &tables[0];
        let numbers: Vec<&str> = table.rows().iter().map(|row| row[0].as_str()).collect();
        // Round trips above 2 s are eventful: from the sixth step of the ramp on.
        assert_eq!(numbers, ["1", "9", "10", "15", "16", "17", "18", "19"]);
        assert_eq!(left_out, 11);
        let phases: Vec<&str> = table.rows().iter().map(|row| row[1].as_str()).collect();
        assert_eq!(phases, ["calm", "", "", "", "", "", "", "end"]);
        let (all, left_out) = events(&script, &runs(&script, &["default"]), true, None);
        assert_eq!((all[0].rows().len(), left_out), (19, 0));
    }

    #[test]
    fn notifications_are_shown_with_their_delay() {
        let script = script("notify, rtt 1 s x 2");
        let (tables, _) = events(&script, &runs(&script, &["observe-static"]), true, None);
        let table = &tables[0];
        assert_eq!((&*table.rows()[0][2], &*table.rows()[1][2]), ("–", "+3.00"));
    }

    #[test]
    fn many_controllers_share_out_over_tables_of_the_same_events() {
        let script = script("rtt 1 s x 9\nrtt 2.5 s\nfail");
        // Only under the last of them is the long round trip eventful.
        let names = ["cocoa-03", "cocoa-03", "cocoa-03", "cocoa-03", "default"];
        let (tables, _) = events(&script, &runs(&script, &names), false, None);
        assert_eq!(tables.len(), 2);
        let numbers = |table: &TextTable| -> Vec<String> {
            table.rows().iter().map(|row| row[0].clone()).collect()
        };
        assert_eq!(numbers(&tables[0]), numbers(&tables[1]));
        assert_eq!(tables[1].header().count(), 4);
    }

    #[test]
    fn the_columns_are_explained_as_far_as_needed() {
        let explained = |text: &str, names: &[&str]| {
            let script = script(text);
            event_columns(&script, &runs(&script, names))
        };
        assert_eq!(
            explained("rtt 1 s", &["default"]),
            "Under each controller the first timer in seconds and × transmissions."
        );
        assert_eq!(
            explained("rtt 3 s\nfail\nnotify, rtt 1 s", &["default", "cocoa-03"]),
            "Under each controller the first timer in seconds (+ how long a notification was held \
             back), × transmissions (! some spurious, ✗ given up) and the RTO afterwards."
        );
    }

    #[test]
    fn totals_exclude_idle_time() {
        let script = script("rtt 3.5 s\nidle 1 min\nfail");
        let table = totals(&runs(&script, &["default"]));
        // 3.5 s with a transmission too many, then 2 + 4 + 8 + 16 + 32 s.
        let row = ["default", "65.50", "7", "5", "1", "1", "32.00"];
        assert_eq!(table.rows()[0], row);
    }

    #[test]
    fn seconds_have_the_digits_that_matter() {
        let of = |micros| seconds(Duration::from_micros(micros));
        let all = [
            0,
            170,
            9_999,
            10_000,
            850_000,
            99_990_000,
            312_500_000,
            4_000_000_000,
        ]
        .map(of);
        let expected = [
            "0.00", "0.0002", "0.0100", "0.01", "0.85", "99.99", "312.5", "4000",
        ];
        assert_eq!(all, expected);
    }
}
