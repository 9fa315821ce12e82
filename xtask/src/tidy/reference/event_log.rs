//! The page and the JSON Schema of event logs, from the events' declaration in `carob-proto`.

use std::fmt::Write as _;

use anyhow::{Result, ensure};
use serde_json::{Map, Value, json};

use super::{Tree, source};

const EVENTS: &str = "crates/proto/src/trace/mod.rs";

/// One kind of event.
#[derive(Debug, Default, PartialEq)]
struct Event {
    name: String,
    about: String,
    members: Vec<Member>,
}

/// One member of an event's object.
#[derive(Debug, PartialEq)]
struct Member {
    key: String,
    about: String,
    kind: &'static str,
    optional: bool,
}

/// Members of every event.
const COMMON: [(&str, &str, &str); 3] = [
    (
        "at_us",
        "integer",
        "Time in microseconds since the start of the endpoint's clock.",
    ),
    ("peer", "string", "Address and port of the peer."),
    ("event", "string", "The kind of event."),
];

pub(super) fn page(tree: &Tree) -> Result<String> {
    let mut page = String::from(
        "# Event log\n\n\
         For programs that read `--log` of `carob get`, `serve`, `proxy` or `carob lab run`. Prerequisite: JSON lines.\n\
         Generated from the events of the engine, and `handshake_failed` of the command; `cargo xtask generate` rewrites it.\n\n\
         Each line is an object. Sockets and simulator write the same form. Numbers are integers, times are in microseconds, and\n\
         unknown values are omitted. The [JSON Schema](event-log.schema.json) describes a line.\n\n\
         Members of every event:\n\n| member | type | meaning |\n|---|---|---|\n",
    );
    for (key, kind, about) in COMMON {
        writeln!(page, "| `{key}` | {kind} | {about} |")?;
    }
    page.push_str("\n| event | meaning | further members |\n|---|---|---|\n");
    let mut events = events(source(tree, EVENTS)?)?;
    events.push(handshake_failed());
    for event in &events {
        let members: Vec<String> = event
            .members
            .iter()
            .map(|member| format!("`{}`", member.key))
            .collect();
        writeln!(
            page,
            "| `{}` | {} | {} |",
            event.name,
            event.about,
            members.join(", ")
        )?;
    }
    page.push_str(
        "\n## Members of single events\n\n| event | member | type | meaning |\n|---|---|---|---|\n",
    );
    for event in &events {
        for member in &event.members {
            let optional = if member.optional { ", optional" } else { "" };
            writeln!(
                page,
                "| `{}` | `{}` | {}{optional} | {} |",
                event.name, member.key, member.kind, member.about
            )?;
        }
    }
    page.push_str("\nNext: [analysis of a capture](../analyze.md).\n");
    Ok(page)
}

pub(super) fn schema(tree: &Tree) -> Result<String> {
    let mut variants = Vec::new();
    let mut events = events(source(tree, EVENTS)?)?;
    events.push(handshake_failed());
    for event in events {
        let mut properties = Map::new();
        let mut required = Vec::new();
        for (key, kind, about) in COMMON {
            let mut property = json!({ "type": kind, "description": about });
            if key == "event" {
                property = json!({ "const": event.name });
            }
            properties.insert(key.to_owned(), property);
            required.push(Value::from(key));
        }
        for member in event.members {
            let property = json!({ "type": member.kind, "description": member.about });
            if !member.optional {
                required.push(Value::from(member.key.as_str()));
            }
            properties.insert(member.key, property);
        }
        variants.push(json!({
            "type": "object",
            "description": event.about,
            "properties": properties,
            "required": required,
            "additionalProperties": false,
        }));
    }
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A line of Carob's event log",
        "oneOf": variants,
    });
    Ok(serde_json::to_string_pretty(&schema)? + "\n")
}

/// The event that the command adds to those of the engine (`crates/cli/src/monitor/handshakes.rs`).
fn handshake_failed() -> Event {
    let member = |key: &str, about: &str, optional| Member {
        key: key.to_owned(),
        about: about.to_owned(),
        kind: "string",
        optional,
    };
    Event {
        name: "handshake_failed".to_owned(),
        about: "A handshake of a client over DTLS, TLS or WebSocket failed (`carob serve`, `carob proxy`).".to_owned(),
        members: vec![
            member("scheme", "URI scheme of the transport.", false),
            member(
                "identity",
                "Pre-shared key identity that the client named, not authenticated, with escapes.",
                true,
            ),
            member("reason", "The reason, as on stderr.", false),
        ],
    }
}

/// The variants of `enum TraceEvent` with their documentation.
fn events(text: &str) -> Result<Vec<Event>> {
    let mut found: Vec<Event> = Vec::new();
    let mut about = String::new();
    let inside = text
        .lines()
        .skip_while(|line| !line.contains("enum TraceEvent"))
        .skip(1)
        .take_while(|line| *line != "}");
    for line in inside {
        let line = line.trim();
        if let Some(doc) = line.strip_prefix("///") {
            if !about.is_empty() {
                about.push(' ');
            }
            about.push_str(doc.trim());
        } else if let Some((name, kind)) = line.strip_suffix(',').and_then(|l| l.split_once(": ")) {
            let about = without_links(&std::mem::take(&mut about));
            if let Some(event) = found.last_mut() {
                event.members.push(member(name, kind, about)?);
            }
        } else if line.starts_with(|c: char| c.is_ascii_uppercase()) {
            let name = line.trim_end_matches([' ', '{', ',']);
            found.push(Event {
                name: snake_case(name),
                about: without_links(&std::mem::take(&mut about)),
                members: Vec::new(),
            });
        }
    }
    ensure!(!found.is_empty(), "{EVENTS} has no events");
    Ok(found)
}

fn member(name: &str, kind: &str, about: String) -> Result<Member> {
    let inner = kind
        .strip_prefix("Option<")
        .map(|kind| kind.trim_end_matches('>'));
    let (key, json) = match inner.unwrap_or(kind) {
        "Duration" => (format!("{name}_us"), "integer"),
        "u8" | "u16" | "u32" | "u64" | "MessageId" => (name.to_owned(), "integer"),
        "Type" => ("type".to_owned(), "string"),
        "Kind" | "Code" => (name.to_owned(), "string"),
        other => anyhow::bail!("{EVENTS}: members of type {other} have no form in JSON"),
    };
    Ok(Member {
        key,
        about,
        kind: json,
        optional: inner.is_some(),
    })
}

/// Documentation without links to items, whose names stay.
fn without_links(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("[`") {
        let Some((name, after)) = after.split_once("`]") else {
            break;
        };
        let after = after
            .strip_prefix('(')
            .and_then(|after| after.split_once(')'))
            .map_or(after, |(_, after)| after);
        plain.push_str(before);
        write!(plain, "`{name}`").expect("a string takes any text");
        rest = after;
    }
    plain + rest
}

fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    for c in name.chars() {
        if c.is_ascii_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.push(c.to_ascii_lowercase());
    }
    snake
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "pub enum TraceEvent {\n    /// Sent, see\n    /// [`X`](crate::X).\n    \
        SentAgain {\n        /// The type.\n        kind: Type,\n        /// Its timer.\n        \
        timeout: Option<Duration>,\n    },\n    /// Gone.\n    Gone,\n}\n";

    #[test]
    fn events_have_the_names_and_members_of_their_json() {
        let found = events(SOURCE).unwrap();
        assert_eq!(found[0].name, "sent_again");
        assert_eq!(found[0].about, "Sent, see `X`.");
        let keys: Vec<_> = found[0].members.iter().map(|m| m.key.as_str()).collect();
        assert_eq!(keys, ["type", "timeout_us"]);
        assert!(found[0].members[1].optional);
        assert_eq!(
            (found[1].name.as_str(), found[1].about.as_str()),
            ("gone", "Gone.")
        );
    }

    #[test]
    fn a_member_without_a_form_in_json_is_an_error() {
        assert!(events("pub enum TraceEvent {\n    A {\n        x: Peer,\n    },\n}\n").is_err());
    }
}
