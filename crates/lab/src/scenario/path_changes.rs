//! Changes of a path over time, from the keys `link.changes`, `link.down.changes` and
//! `link.up.changes`.
//!
//! A text has statements separated by `;`, each `WHAT [from TIME] [to TIME | for TIMES]
//! [every TIMES] [over TIME]`.

use std::iter::once;

use carob_cc::ratio::Ratio;
use carob_cc::time::Duration;
use carob_sim::distribution::TimeDistribution;
use carob_sim::link::{Effect, Level, PathChange};
use carob_sim::random::Probability;

use super::cell::Cell;
use super::error::ScenarioError;
use super::impossible;
use super::value::{Kind, Value, read_distribution};

keys! {
    /// Keys of changes of the path.
    pub(super) KEYS;

    "link.changes", Text, -,
        "Changes of rate, delay and loss over time, in both directions, in statements separated by `;`: `rate`, `delay`, `loss` or `outage`, then `from`, `to` or `for`, `every` and `over` with times, as in `rate / 10 from 6 s to 60 s` (docs/link-physics.md).";
    "link.down.changes", Text, -,
        "The same towards the constrained side alone, after those of `link.changes`.";
    "link.up.changes", Text, -,
        "The same from the constrained side alone, after those of `link.changes`.";
}

/// The most statements of a text.
const STATEMENTS_MAX: usize = 64;

/// Words that begin a part of a statement.
const PARTS: [&str; 5] = ["from", "to", "for", "every", "over"];

/// The changes of a direction: changes of both directions, then of this one.
pub(super) fn of(cell: &Cell, direction: &str) -> Result<Vec<PathChange>, ScenarioError> {
    let own = format!("link.{direction}.changes");
    let mut changes = Vec::new();
    for (path, is_shared) in [("link.changes", true), (own.as_str(), false)] {
        if !cell.has(path) {
            continue;
        }
        let place = cell.place(path);
        let refused = |why: String| impossible(place, format!("{path}: {why}"));
        let read = read(cell.text(path)?, is_shared).map_err(refused)?;
        let has_rates = |change: &PathChange| matches!(change.effect, Effect::Rate(_));
        let trace = cell.traces.get(direction);
        if read.iter().any(has_rates) && trace.is_some_and(|t| t.mean_rate_bps().is_some()) {
            let why = format!(
                "it changes the rate, and link.{direction}.trace has the rate; change it there"
            );
            return Err(refused(why));
        }
        changes.extend(read);
    }
    Ok(changes)
}

/// Reads a text.
///
/// # Errors
///
/// The statement and its fault.
fn read(text: &str, is_shared: bool) -> Result<Vec<PathChange>, String> {
    let statements: Vec<&str> = text.split(';').map(str::trim).collect();
    if statements.len() > STATEMENTS_MAX {
        return Err(format!("at most {STATEMENTS_MAX} statements"));
    }
    let one = |statement: &&str| {
        let change = statement_of(statement, is_shared)?;
        change.check()?;
        Ok(change)
    };
    let named =
        |statement: &&str| one(statement).map_err(|why: String| format!("\"{statement}\": {why}"));
    statements.iter().map(named).collect()
}

fn statement_of(text: &str, is_shared: bool) -> Result<PathChange, String> {
    let (what, parts) = split(text)?;
    let part = |name: &str| {
        parts
            .iter()
            .find(|(word, _)| *word == name)
            .map(|(_, v)| &**v)
    };
    let time = |name: &str| part(name).map(|value| time_of(name, value)).transpose();
    let times = |name: &str| part(name).map(|value| times_of(name, value)).transpose();
    let from = time("from")?;
    let lasts = match (time("to")?, times("for")?) {
        (Some(_), Some(_)) => return Err("\"to\" and \"for\" both say when it ends".to_owned()),
        (Some(to), None) => {
            let lasts = to.saturating_sub(from.unwrap_or_default());
            Some(TimeDistribution::constant(lasts))
        }
        (None, lasts) => lasts,
    };
    Ok(PathChange {
        effect: effect_of(what)?,
        from,
        lasts,
        every: times("every")?,
        over: time("over")?.unwrap_or_default(),
        is_shared,
    })
}

/// A part of a statement: the word that begins it, and its value.
type Part<'a> = (&'a str, String);

/// A statement's beginning, and its parts by the words that begin them.
fn split(text: &str) -> Result<(&str, Vec<Part<'_>>), String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut parts: Vec<Part<'_>> = Vec::new();
    for word in &words {
        if let Some(name) = PARTS.iter().find(|name| *name == word) {
            if parts.iter().any(|(known, _)| known == name) {
                return Err(format!("\"{name}\" is there twice"));
            }
            parts.push((name, String::new()));
        } else if let Some((_, value)) = parts.last_mut() {
            let space = if value.is_empty() { "" } else { " " };
            value.extend(once(space).chain(once(*word)));
        }
    }
    let is_part = |word: &str| PARTS.contains(&word);
    let end = words.iter().position(|word| is_part(word));
    let what = end.map_or(text, |end| match end {
        0 => "",
        end => {
            let last = words[end - 1];
            let at = last.as_ptr().addr() - text.as_ptr().addr() + last.len();
            &text[..at]
        }
    });
    Ok((what, parts))
}

fn time_of(name: &str, value: &str) -> Result<Duration, String> {
    let wrong = || format!("\"{name}\" takes a time such as \"6 s\", not \"{value}\"");
    value.parse().map_err(|_| wrong())
}

fn times_of(name: &str, value: &str) -> Result<TimeDistribution, String> {
    let takes = Kind::Distribution;
    read_distribution(value).ok_or_else(|| format!("\"{name}\" takes {takes}, not \"{value}\""))
}

fn effect_of(what: &str) -> Result<Effect, String> {
    let (name, value) = what.split_once(' ').unwrap_or((what, ""));
    let value = value.trim();
    let wrong = |takes: &str| format!("{name} takes {takes}, not \"{value}\"");
    match name {
        "outage" if value.is_empty() => Ok(Effect::Loss(Probability::ALWAYS)),
        "outage" => Err(format!("outage takes no value, not \"{value}\"")),
        "rate" => {
            let rate = |text: &str| match Value::read(Kind::Rate, text)? {
                Value::Rate(bps) => Some(bps),
                _ => None,
            };
            let takes = "a rate such as \"6 kbit/s\", \"x 0.5\", \"/ 10\" or \"+ 6 kbit/s\"";
            level_of(value, rate)
                .map(Effect::Rate)
                .ok_or_else(|| wrong(takes))
        }
        "delay" => {
            let delay = |text: &str| Some(text.parse::<Duration>().ok()?.as_micros());
            let takes = "a time such as \"3 s\", \"x 10\", \"/ 2\" or \"+ 5 s\"";
            level_of(value, delay)
                .map(Effect::Delay)
                .ok_or_else(|| wrong(takes))
        }
        "loss" => match Value::read(Kind::Percent, value) {
            Some(Value::Percent(ppm)) => Ok(Effect::Loss(Probability::ppm(ppm))),
            _ => Err(wrong("a share such as \"30 %\"")),
        },
        _ => Err(format!("\"{name}\" is not rate, delay, loss or outage")),
    }
}

fn level_of(text: &str, value: impl Fn(&str) -> Option<u64>) -> Option<Level> {
    if let Some(factor) = text.strip_prefix('x') {
        return factor.trim().parse().ok().map(Level::Times);
    }
    if let Some(divisor) = text.strip_prefix('/') {
        let divisor: Ratio = divisor.trim().parse().ok()?;
        return (divisor.of(1_000_000) > 0).then(|| Level::Times(divisor.inverse()));
    }
    if let Some(more) = text.strip_prefix('+') {
        return value(more.trim()).map(Level::Plus);
    }
    value(text).map(Level::Value)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn one(text: &str) -> PathChange {
        let all = read(text, false).expect(text);
        assert_eq!(all.len(), 1, "{text}");
        all[0]
    }

    #[test]
    fn statements_are_read_with_all_their_parts() {
        let change = one("rate / 10 from 6 s to 60 s over 2 s");
        assert_eq!(change.effect, Effect::Rate(Level::Times(Ratio::new(1, 10))));
        assert_eq!((change.from, change.over), (Some(s(6)), s(2)));
        assert_eq!(change.lasts, Some(TimeDistribution::constant(s(54))));
        let change = one("delay + 5 s from 20 s for 1-3 s every exponential 1 min");
        assert_eq!(change.effect, Effect::Delay(Level::Plus(5_000_000)));
        let [low, high] = [s(1), s(3)];
        assert_eq!(change.lasts, Some(TimeDistribution::Uniform { low, high }));
        assert_eq!(change.every, Some(TimeDistribution::Exponential(s(60))));
        let change = one("outage for 3 s every 60 s");
        assert_eq!(change.effect, Effect::Loss(Probability::ALWAYS));
        assert_eq!(change.from, None);
        let all = read("rate 6 kbit/s from 6 s; loss 30 % from 1 s to 2 s", true);
        let all = all.expect("two");
        assert_eq!(all[0].effect, Effect::Rate(Level::Value(6_000)));
        assert_eq!(all[1].effect, Effect::Loss(Probability::ppm(300_000)));
        assert!(all.iter().all(|change| change.is_shared));
        let change = one("rate x 0.5");
        assert_eq!(change.effect, Effect::Rate(Level::Times(Ratio::new(5, 10))));
        assert_eq!((change.from, change.lasts), (None, None));
    }

    #[test]
    fn faults_name_the_statement_and_the_part() {
        for (text, expected) in [
            ("", "\"\": \"\" is not rate, delay, loss or outage"),
            ("speed / 10", "\"speed\" is not rate, delay"),
            ("rate 6 kbs from 6 s", "not \"6 kbs\""),
            ("rate / 0", "not \"/ 0\""),
            ("delay 3 from 6 s", "not \"3\""),
            ("loss 3 from 6 s", "a share such as"),
            ("outage 3 s", "no value"),
            (
                "outage from 6",
                "\"from\" takes a time such as \"6 s\", not \"6\"",
            ),
            ("outage for soon", "not \"soon\""),
            ("outage from 1 s from 2 s", "\"from\" is there twice"),
            ("outage from 1 s to 2 s for 1 s", "both say when it ends"),
            ("outage from 2 s to 1 s", "takes some time"),
            ("rate 0 bit/s from 2 s", "nothing would ever arrive"),
            ("rate / 2; loss 2", "\"loss 2\": "),
        ] {
            let why = read(text, false).expect_err(text);
            assert!(why.contains(expected), "{why}");
        }
    }
}
