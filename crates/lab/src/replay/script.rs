//! Scripts as text: one event a line.

use std::fmt;

use carob_cc::TransmissionParameters;
use carob_cc::time::Duration;

use crate::scenario::keys::distance;

/// The most events a script may have.
pub const EVENTS_MAX: usize = 10_000;
/// The longest round trip or pause.
pub const TIME_MAX: Duration = Duration::from_secs(7 * 24 * 3_600);
/// The most transmissions of an exchange that may be lost before one arrives.
pub const LOST_MAX: u8 = TransmissionParameters::MAX_RETRANSMIT_LIMIT;

/// Syntax of a line and its meaning, for help texts.
pub const VOCABULARY: &[(&str, &str)] = &[
    ("rtt 400 ms", "an exchange, answered after that time"),
    ("400 ms", "the same"),
    (
        "lost 2, rtt 400 ms",
        "two transmissions are lost; the third is answered after that time",
    ),
    ("fail", "an exchange of which every transmission is lost"),
    ("idle 5 min", "a pause"),
    (
        "notify, rtt 400 ms",
        "a NON notification; as a CON, which a controller may make it, acknowledged then",
    ),
    (
        "rtt 6 s, known",
        "the reply names the transmission that it answers",
    ),
    ("rtt 400 ms x 10", "ten times the same, with any event"),
    (
        "rtt 400 ms to 2 s x 9",
        "nine exchanges from fast to slow, in equal steps",
    ),
    (
        "phase slow drift",
        "a name for what follows, in tables and figures",
    ),
];

/// One thing that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// An exchange that is answered, unless the controller gives it up before that.
    Answered {
        /// Transmissions that are lost, the first ones.
        lost: u8,
        /// Time from the first transmission that is not lost to its answer.
        rtt: Duration,
        /// The answer identifies its transmission.
        known: bool,
    },
    /// An exchange of which every transmission is lost.
    Failed,
    /// A notification that is sent as NON unless the controller requests confirmation.
    Notification {
        /// Time until it is acknowledged, if it leaves as CON.
        rtt: Duration,
    },
    /// A pause.
    Idle(Duration),
}

impl fmt::Display for Event {
    /// As a script has it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Answered { lost, rtt, known } => {
                if *lost > 0 {
                    write!(f, "lost {lost}, ")?;
                }
                write!(f, "rtt {rtt}")?;
                f.write_str(if *known { ", known" } else { "" })
            }
            Self::Failed => f.write_str("fail"),
            Self::Notification { rtt } => write!(f, "notify, rtt {rtt}"),
            Self::Idle(pause) => write!(f, "idle {pause}"),
        }
    }
}

/// An event and its line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scripted {
    /// The event.
    pub event: Event,
    /// The group: consecutive events of one line have the same number.
    pub group: usize,
    /// The place of its phase in [`Script::phases`].
    pub phase: Option<usize>,
}

/// A script: events in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script {
    /// The events, at most [`EVENTS_MAX`].
    pub events: Vec<Scripted>,
    /// Names of its phases.
    pub phases: Vec<String>,
}

/// Parse error: position, token found, token expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptError {
    /// The file.
    pub file: String,
    /// Line, counted from 1.
    pub line: usize,
    /// The text found.
    pub found: String,
    /// The text expected.
    pub expected: String,
}

impl fmt::Display for ScriptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            file,
            line,
            found,
            expected,
        } = self;
        write!(f, "{file}:{line}: found {found}, expected {expected}")
    }
}

impl std::error::Error for ScriptError {}

impl Script {
    /// Reads a script; `file` is what errors call it.
    pub fn read(file: &str, text: &str) -> Result<Self, ScriptError> {
        let error = |line: usize, (found, expected): Unexpected| ScriptError {
            file: file.to_owned(),
            line,
            found,
            expected,
        };
        let mut script = Self::default();
        for (index, text) in text.lines().enumerate() {
            let number = index + 1;
            let text = text.split('#').next().unwrap_or_default().trim();
            if let Some(name) = phase_name(text) {
                script.phases.push(name.map_err(|why| error(number, why))?);
                continue;
            }
            let events = line(text).map_err(|why| error(number, why))?;
            if script.events.len().saturating_add(events.len()) > EVENTS_MAX {
                let expected = format!("at most {EVENTS_MAX} events");
                return Err(error(number, ("one event more".to_owned(), expected)));
            }
            script
                .events
                .extend(events.into_iter().map(|event| Scripted {
                    event,
                    group: number,
                    phase: script.phases.len().checked_sub(1),
                }));
        }
        if script.events.is_empty() {
            let expected = "at least one, such as rtt 400 ms".to_owned();
            let last = text.lines().count().max(1);
            return Err(error(last, ("no event".to_owned(), expected)));
        }
        Ok(script)
    }

    /// The number of each event, counted from 1; pauses have none.
    pub fn numbers(&self) -> Vec<Option<usize>> {
        let mut last = 0;
        let number = |scripted: &Scripted| {
            let counts = !matches!(scripted.event, Event::Idle(_));
            last += usize::from(counts);
            counts.then_some(last)
        };
        self.events.iter().map(number).collect()
    }
}

/// The text found and the text expected.
type Unexpected = (String, String);

/// The name after `phase` at the beginning of a line.
fn phase_name(text: &str) -> Option<Result<String, Unexpected>> {
    let rest = text.strip_prefix("phase")?;
    if rest.starts_with(|c: char| !c.is_whitespace()) {
        return None;
    }
    let name = rest.split_whitespace().collect::<Vec<_>>().join(" ");
    Some(if name.is_empty() || name.contains(char::is_control) {
        Err((END.to_owned(), "the name of a phase".to_owned()))
    } else {
        Ok(name)
    })
}

const END: &str = "the end of the line";
const A_TIME: &str = "a time with its unit, such as 400 ms";

/// The events of a line.
fn line(text: &str) -> Result<Vec<Event>, Unexpected> {
    let words = text.split([' ', '\t', ',']).filter(|word| !word.is_empty());
    let mut words = Words {
        words: words.collect(),
        at: 0,
    };
    let Some(first) = words.peek() else {
        return Ok(Vec::new());
    };
    let begins_with_time = first.starts_with(|c: char| c.is_ascii_digit());
    if !begins_with_time {
        words.at += 1;
    }
    let event = match first {
        _ if begins_with_time => words.round_trip(0)?,
        "rtt" => words.round_trip(0)?,
        "lost" => {
            let lost = words.count(LOST_MAX.into())? as u8;
            words.expect("rtt")?;
            words.round_trip(lost)?
        }
        "fail" => Event::Failed,
        "idle" => Event::Idle(words.time()?),
        "notify" => {
            words.expect("rtt")?;
            let rtt = words.time()?;
            Event::Notification { rtt }
        }
        other => return Err(unknown(other)),
    };
    let end = match event {
        Event::Answered { lost: 0, .. } if words.take("to") => Some(words.time()?),
        _ => None,
    };
    let times = words.times(end.is_some())?;
    words.end()?;
    let of = |k: usize| match (event, end) {
        (Event::Answered { lost, rtt, known }, Some(end)) => Event::Answered {
            lost,
            rtt: between(rtt, end, k, times - 1),
            known,
        },
        _ => event,
    };
    Ok((0..times).map(of).collect())
}

/// The `k`-th of equal steps from one time to another, `steps` being the last.
fn between(from: Duration, to: Duration, k: usize, steps: usize) -> Duration {
    // Times are at most a week: with a factor of 10,000 they stay below 2^63.
    let part = |time: Duration, parts: usize| time.as_micros() * parts as u64;
    Duration::from_micros((part(from, steps - k) + part(to, k)) / steps as u64)
}

fn unknown(word: &str) -> Unexpected {
    let known = ["rtt", "lost", "fail", "idle", "notify", "phase"];
    let near = known
        .into_iter()
        .map(|known| (distance(word, known), known))
        .min()
        .filter(|(distance, _)| *distance <= word.chars().count().div_ceil(3))
        .map(|(_, near)| format!("; did you mean {near}?"))
        .unwrap_or_default();
    let expected = format!("{} or a time{near}", known.join(", "));
    (quoted(word), expected)
}

fn quoted(text: &str) -> String {
    /// A line of a file that is no script at all need not be shown in full.
    const SHOWN_MAX: usize = 40;
    let mut shown: String = text
        .chars()
        .take(SHOWN_MAX)
        .flat_map(char::escape_debug)
        .collect();
    if text.chars().nth(SHOWN_MAX).is_some() {
        shown.push('…');
    }
    format!("\"{shown}\"")
}

/// The words of a line, one after the other.
struct Words<'a> {
    words: Vec<&'a str>,
    at: usize,
}

impl<'a> Words<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.words.get(self.at).copied()
    }

    fn next(&mut self) -> Option<&'a str> {
        let word = self.peek()?;
        self.at += 1;
        Some(word)
    }

    /// Takes this word, if it is next.
    fn take(&mut self, word: &str) -> bool {
        let is_next = self.peek() == Some(word);
        self.at += usize::from(is_next);
        is_next
    }

    fn found(word: Option<&str>) -> String {
        word.map_or_else(|| END.to_owned(), quoted)
    }

    fn expect(&mut self, word: &str) -> Result<(), Unexpected> {
        if self.take(word) {
            return Ok(());
        }
        Err((Self::found(self.peek()), format!("{word} and a time")))
    }

    /// A time, with or without a space before its unit.
    fn time(&mut self) -> Result<Duration, Unexpected> {
        let Some(first) = self.next() else {
            return Err((END.to_owned(), A_TIME.to_owned()));
        };
        let mut text = first.to_owned();
        if first.ends_with(|c: char| c.is_ascii_digit()) {
            let unit = self.peek().unwrap_or_default();
            if ["us", "ms", "s", "min", "h"].contains(&unit) {
                self.at += 1;
                text = format!("{first} {unit}");
            }
        }
        let time: Duration = text
            .parse()
            .map_err(|_| (quoted(&text), A_TIME.to_owned()))?;
        if time.is_zero() || time > TIME_MAX {
            let days = TIME_MAX.as_secs() / (24 * 3_600);
            let expected = format!("a time longer than 0 and of at most {} h", days * 24);
            return Err((quoted(&text), expected));
        }
        Ok(time)
    }

    fn round_trip(&mut self, lost: u8) -> Result<Event, Unexpected> {
        let rtt = self.time()?;
        let known = self.take("known");
        Ok(Event::Answered { lost, rtt, known })
    }

    fn count(&mut self, most: usize) -> Result<usize, Unexpected> {
        let word = self.next();
        let count = word.and_then(|word| word.parse().ok());
        let wrong = || {
            let expected = format!("a whole number from 1 to {most}");
            (Self::found(word), expected)
        };
        count
            .filter(|count| (1..=most).contains(count))
            .ok_or_else(wrong)
    }

    /// Reads the repetition count: `x 10`.
    fn times(&mut self, ramp: bool) -> Result<usize, Unexpected> {
        if self.take("x") {
            let count = self.count(EVENTS_MAX)?;
            if ramp && count < 2 {
                let expected = "x and a number of at least 2 after a time to another".to_owned();
                return Err((quoted("x 1"), expected));
            }
            return Ok(count);
        }
        if ramp {
            let expected = "x and a number after a time to another, such as x 9".to_owned();
            return Err((Self::found(self.peek()), expected));
        }
        Ok(1)
    }

    fn end(&self) -> Result<(), Unexpected> {
        match self.peek() {
            None => Ok(()),
            more => Err((Self::found(more), format!("{END}, or x and a number"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Script, String> {
        Script::read("a.txt", text).map_err(|error| error.to_string())
    }

    fn events(text: &str) -> Vec<String> {
        let script = read(text).expect("a script");
        script.events.iter().map(|s| s.event.to_string()).collect()
    }

    #[test]
    fn every_line_of_the_vocabulary_is_read_and_written_alike() {
        for (line, _) in VOCABULARY.iter().filter(|(l, _)| !l.starts_with("phase")) {
            let all = events(line);
            let again = events(&all.join("\n"));
            assert_eq!(all, again, "{line}");
        }
        assert_eq!(events("400ms"), ["rtt 400 ms"]);
        assert_eq!(
            events("lost 2 rtt 1.5s known # why"),
            ["lost 2, rtt 1.5 s, known"]
        );
        assert_eq!(events("idle 5 min"), ["idle 300 s"]);
        assert_eq!(
            events("notify rtt 1 s x 2"),
            ["notify, rtt 1 s", "notify, rtt 1 s"]
        );
    }

    #[test]
    fn a_ramp_has_both_its_ends_and_equal_steps() {
        assert_eq!(
            events("rtt 400 ms to 1 s x 4"),
            ["rtt 400 ms", "rtt 600 ms", "rtt 800 ms", "rtt 1 s"]
        );
        assert_eq!(events("2 s to 1 s x 2"), ["rtt 2 s", "rtt 1 s"]);
    }

    #[test]
    fn lines_are_groups_and_phases_have_names() {
        let script =
            read("400 ms\n\nphase  slow  drift # so\nrtt 1 s x 2\nfail").expect("a script");
        assert_eq!(script.phases, ["slow drift"]);
        let places: Vec<_> = script.events.iter().map(|s| (s.group, s.phase)).collect();
        assert_eq!(
            places,
            [(1, None), (4, Some(0)), (4, Some(0)), (5, Some(0))]
        );
    }

    #[test]
    fn script_errors_have_the_position() {
        let wrong = |text| read(text).expect_err(text);
        assert_eq!(
            wrong("rtt 1 s\nrtt 400"),
            "a.txt:2: found \"400\", expected a time with its unit, such as 400 ms"
        );
        assert_eq!(
            wrong("lots 2, rtt 1 s"),
            "a.txt:1: found \"lots\", expected rtt, lost, fail, idle, notify, phase or a time; \
             did you mean lost?"
        );
        for (text, expected) in [
            ("", "found no event, expected at least one"),
            ("# nothing\n", "a.txt:1: found no event"),
            (
                "lost 1",
                "found the end of the line, expected rtt and a time",
            ),
            ("lost 31, rtt 1 s", "expected a whole number from 1 to 30"),
            ("idle 0 s", "expected a time longer than 0"),
            ("idle 169 h", "of at most 168 h"),
            (
                "rtt 1 s to 2 s",
                "expected x and a number after a time to another",
            ),
            ("rtt 1 s to 2 s x 1", "of at least 2"),
            (
                "rtt 1 s twice",
                "found \"twice\", expected the end of the line",
            ),
            ("fail x 0", "expected a whole number from 1 to 10000"),
            (
                "fail x 9999\nfail\nfail",
                "a.txt:3: found one event more, expected at most 10000",
            ),
            ("phase", "expected the name of a phase"),
            ("idle", "found the end of the line, expected a time"),
            ("lost 1, rtt 1 s to 2 s x 2", "found \"to\""),
        ] {
            let said = wrong(text);
            assert!(said.contains(expected), "{text}: {said}");
        }
    }

    #[test]
    fn truncated_and_shuffled_scripts_do_not_panic() {
        let story = super::super::DEMO;
        for (end, _) in story.char_indices() {
            let _ = read(&story[..end]);
        }
        let words = [
            "rtt", "lost", "x", "to", "known", "2", "1 s", "¼ s", "phase", ",", "#",
        ];
        for a in words {
            for b in words {
                for c in words {
                    let _ = read(&format!("{a} {b} {c}"));
                    let _ = read(&format!("rtt 1 s {a} {b}{c}"));
                }
            }
        }
    }

    #[test]
    fn the_story_is_a_script() {
        let script = read(super::super::DEMO).expect("a script");
        assert!(script.phases.len() > 5 && script.events.len() > 30);
    }
}
