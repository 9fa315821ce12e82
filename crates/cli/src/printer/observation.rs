//! The states of a resource that is observed, as they come.

use std::io::{self, IsTerminal as _, Write as _};
use std::time::Duration;

use carob::{OptionNumber, Reply};
use serde::Serialize;

use super::body::{in_a_line, shown};
use super::response::Answer;
use super::style::{FAINT, STRONG, paint};
use super::{body, failure, millis, remark};
use crate::clock::Utc;
use crate::failure::Failure;
use crate::output;

/// Prints notifications: for people, for programs that read lines, or as JSON.
pub(crate) struct States<'a> {
    uri: &'a str,
    form: Form,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// Each state with its time and number.
    Terminal,
    /// Each state in a line.
    Lines,
    /// The bytes as they came.
    Raw,
    Json,
}

/// Something that happened, as the machine interface has it.
#[derive(Serialize)]
struct Event<'a> {
    /// `state`, `stale` or `ended`.
    #[serde(rename = "event")]
    name: &'static str,
    uri: &'a str,
    time: String,
    /// The number the server gave the state (RFC 7641 3.4).
    #[serde(skip_serializing_if = "Option::is_none")]
    observe: Option<u32>,
    #[serde(flatten)]
    answer: Option<Answer>,
    /// Since the registration.
    #[serde(skip_serializing_if = "Option::is_none")]
    after_ms: Option<f64>,
    /// The last round-trip time that is certain.
    #[serde(skip_serializing_if = "Option::is_none")]
    rtt_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
    /// The side that ended it: `server` or `client`.
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<&'static str>,
}

impl<'a> States<'a> {
    pub(crate) fn new(uri: &'a str, json: bool, raw: bool) -> Self {
        let form = match (json, raw) {
            (true, _) => Form::Json,
            (_, true) => Form::Raw,
            _ if io::stdout().is_terminal() => Form::Terminal,
            _ => Form::Lines,
        };
        Self { uri, form }
    }

    /// Prints a notification. An error means that the reader has closed the pipe.
    pub(crate) fn state(&self, reply: &Reply, round_trip: Option<Duration>) -> io::Result<()> {
        match self.form {
            Form::Json => print_event(&Event {
                rtt_ms: round_trip.map(millis),
                ..self.answered("state", reply)
            }),
            Form::Raw => print(reply.bytes()),
            Form::Lines => {
                let mut text = in_a_line(reply, reply.bytes()).into_owned();
                if !text.ends_with(b"\n") {
                    text.push(b'\n');
                }
                print(&text)
            }
            Form::Terminal => {
                let time = paint(FAINT, Utc::now().time_of_day());
                let number = observe_number(reply).map(|number| format!(" #{number}"));
                let number = paint(STRONG, number.unwrap_or_default());
                let mut out = output::coloured();
                match shown(reply, reply.bytes()) {
                    Some(text) if text.trim_end().contains('\n') => {
                        writeln!(out, "{time}{number}\n{}", text.trim_end())
                    }
                    Some(text) => writeln!(out, "{time}{number} {}", text.trim_end()),
                    None => {
                        writeln!(out, "{time}{number}")?;
                        drop(out);
                        body(reply, reply.bytes());
                        Ok(())
                    }
                }
            }
        }
    }

    /// Reports that the last notification is stale, perhaps because a renewal of the observation
    /// failed.
    pub(crate) fn stale(&self, why: Option<&Failure>) -> io::Result<()> {
        if self.form == Form::Json {
            return print_event(&Event {
                error: why.map(|why| &*why.message),
                ..self.plain("stale")
            });
        }
        match why {
            None => remark("stale: no notification within Max-Age; registering again"),
            Some(why) => failure(&Failure {
                message: format!("stale, and asking again failed: {}", why.message),
                ..Failure::new(why.kind, "")
            }),
        }
        Ok(())
    }

    /// The observation is over. The server's last word, if it is that.
    pub(crate) fn ended(&self, last: Option<&Reply>) -> io::Result<()> {
        if self.form != Form::Json {
            return Ok(());
        }
        print_event(&match last {
            Some(reply) => Event {
                by: Some("server"),
                ..self.answered("ended", reply)
            },
            None => Event {
                by: Some("client"),
                ..self.plain("ended")
            },
        })
    }

    fn answered(&self, name: &'static str, reply: &Reply) -> Event<'_> {
        Event {
            observe: observe_number(reply),
            answer: Some(Answer::new(reply, reply.peer).with_payload(reply.bytes())),
            after_ms: Some(millis(reply.after)),
            ..self.plain(name)
        }
    }

    fn plain(&self, name: &'static str) -> Event<'_> {
        Event {
            name,
            uri: self.uri,
            time: Utc::now().with_millis(),
            observe: None,
            answer: None,
            after_ms: None,
            rtt_ms: None,
            error: None,
            by: None,
        }
    }
}

fn print_event(event: &Event<'_>) -> io::Result<()> {
    let mut text = serde_json::to_string(event)?;
    text.push('\n');
    print(text.as_bytes())
}

fn observe_number(reply: &Reply) -> Option<u32> {
    reply.options.uint(OptionNumber::OBSERVE)
}

/// Prints and flushes, so that a reader gets each line at once.
fn print(bytes: &[u8]) -> io::Result<()> {
    let mut stdout = output::bytes();
    stdout.write_all(bytes)?;
    stdout.flush()
}
