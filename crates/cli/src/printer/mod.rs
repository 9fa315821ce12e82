//! Output: bodies and JSON on stdout, everything else on stderr.

mod body;
mod cbor;
mod controllers;
mod layout;
mod observation;
mod response;
mod style;
mod timing;
mod wire;

use std::io::{self, IsTerminal as _, Write as _};
use std::net::SocketAddr;
use std::time::Duration;

use carob::AmplificationLimit;
use carob_proto::is_unprintable;
use serde::Serialize;
use serde_json::json;

use crate::failure::Failure;
use crate::output;
use crate::program::program;

use style::{BAD, FAINT, STRONG, paint};

pub(crate) use body::body;
pub(crate) use controllers::{Controller, FOOTNOTE, controller, controllers, family};
pub(crate) use observation::States;
pub(crate) use response::{Answer, Report, Silence};
pub(crate) use response::{code, refusal, uri};
pub(crate) use timing::{Parameters, PeerState, Timing, millis, parameters, time, timing};
pub(crate) use wire::message;

/// Prints a line on stdout, in colour if enabled. Errors are kept for the command's end.
fn line(text: &str) {
    let _ = writeln!(output::coloured(), "{text}");
}

/// Prints running text on stdout, with line breaks for the width of a terminal.
fn prose(text: &str) {
    line(&output::fitted(text));
}

/// Prints running text on stderr, in colour if enabled.
fn note(text: &str) {
    let text = output::fitted_to_stderr(text);
    let _ = writeln!(anstream::stderr().lock(), "{text}");
}

/// Prints highlighted text on stdout.
pub(crate) fn strong(text: &str) {
    prose(&paint(STRONG, text));
}

/// Prints a value as one line of JSON, or several on a terminal.
pub(crate) fn json(value: &impl Serialize) {
    let text = if io::stdout().is_terminal() {
        serde_json::to_string_pretty(value)
    } else {
        serde_json::to_string(value)
    };
    line(&text.expect("the values printed have text keys and finite numbers"));
}

/// Prints a failure and its hint.
pub(crate) fn failure(failure: &Failure) {
    let name = format!("{}:", program().name);
    note(&format!("{} {}", paint(BAD, name), failure.message));
    if let Some(hint) = &failure.hint {
        note(&format!("  hint: {hint}"));
    }
}

/// The same for programs.
pub(crate) fn failure_json(uri: &str, failure: &Failure, timing: Option<&Timing>) {
    let mut object = json!({ "uri": uri, "error": failure.message, "hint": failure.hint });
    if let Some(timing) = timing {
        object["timing"] = json!(timing);
    }
    json(&object);
}

/// The answer to a ping.
pub(crate) fn pong(uri: &str, round_trip: Duration) {
    line(&format!("{uri} responds: {}", time(round_trip)));
}

/// The same for programs.
pub(crate) fn pong_json(uri: &str, round_trip: Duration, timing: Option<&Timing>) {
    let mut object = json!({ "uri": uri, "rtt_ms": millis(round_trip) });
    if let Some(timing) = timing {
        object["timing"] = json!(timing);
    }
    json(&object);
}

/// Links in the link format, a line each: line breaks are no part of it, and programs that read it
/// pass over them.
pub(crate) fn links<'a>(links: impl Iterator<Item = &'a str>) {
    let all = links.collect::<Vec<_>>().join(",\n");
    if io::stdout().is_terminal() {
        line(&harmless(&all));
    } else {
        line(&all);
    }
}

/// Escapes terminal control characters, except line breaks.
pub(crate) fn harmless(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_unprintable(c) && c != '\n' {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}

/// Text that has its line breaks.
pub(crate) fn text(text: &str) {
    let _ = write!(output::bytes(), "{text}");
}

/// A table, laid out for the width of a terminal.
pub(crate) fn table(table: &carob_lab::text::TextTable) {
    let _ = write!(output::coloured(), "{}", output::laid_out(table, 0));
}

/// Prints the member of a group that sent the following response, and its time.
pub(crate) fn member(peer: SocketAddr, after: Duration) {
    let text = format!("{peer} after {}:", time(after));
    line(&paint(FAINT, text));
}

/// The server's ready line: where it takes datagrams, and then connections; and on stderr, whom it
/// holds to the amplification limit and where its metrics are.
pub(crate) fn listening(
    uris: &[String],
    limit: &AmplificationLimit,
    metrics: Option<&str>,
    as_json: bool,
) {
    let mut stdout = output::bytes();
    let [first, others @ ..] = uris else {
        return;
    };
    let prefixes = |on: bool| -> Vec<String> {
        let rules = limit.rules().filter(|(_, is)| *is == on);
        rules.map(|(prefix, _)| prefix.to_string()).collect()
    };
    let (held, free) = (prefixes(true), prefixes(false));
    let _ = if as_json {
        let limit = json!({ "on": &held, "off": &free });
        let mut object = json!({ "listening": first, "amplification_limit": limit });
        if !others.is_empty() {
            object["also"] = json!(others);
        }
        if let Some(metrics) = metrics {
            object["metrics"] = json!(metrics);
        }
        writeln!(stdout, "{object}")
    } else {
        writeln!(stdout, "listening on {}", uris.join(", "))
    };
    let _ = stdout.flush();
    drop(stdout);
    if as_json {
        return;
    }
    let or_none = |list: &[String]| match list {
        [] => "no prefix".to_owned(),
        list => list.join(", "),
    };
    if let Some(metrics) = metrics {
        note(&format!("metrics: {metrics}"));
    }
    if *limit == AmplificationLimit::default() {
        note("amplification limit: on for global addresses");
    } else {
        let (held, free) = (or_none(&held), or_none(&free));
        note(&format!(
            "amplification limit: on for {held}; off for {free}"
        ));
    }
}

/// A datagram that was too long to be received.
pub(crate) fn oversized(at: Duration, peer: SocketAddr) {
    let when = paint(FAINT, format_args!("{:9.4}", at.as_secs_f64()));
    let text = paint(BAD, "a datagram longer than 4096 bytes, not received");
    note(&format!("{when} ← {peer} {text}"));
}

/// A remark in passing.
pub(crate) fn remark(text: &str) {
    note(&format!("{}: {text}", program().name));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_that_change_the_direction_of_text_are_not_printed() {
        assert_eq!(harmless("a\u{202e}b\nc"), "a\\u{202e}b\nc");
        assert_eq!(harmless("\x1b[31mé\u{5d0}"), "\\u{1b}[31mé\u{5d0}");
    }
}
