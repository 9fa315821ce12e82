//! The recommendation of `carob lab compare`.

use std::fmt::Display;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use carob_lab::compare::{
    BUILT_IN, BURST_MAX, CLIENTS_MAX, CompareError, Link, Question, SIZE_MAX, TRAFFIC, Traffic,
    WrittenLink,
};
use pyo3::prelude::*;

use crate::errors;
use crate::scenario::POLL;

/// A link and its traffic, as the options of `carob lab compare`.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Asked {
    /// A built-in link, or a TOML file.
    link: Option<String>,
    /// Numbers of the link by their keys.
    numbers: Vec<(String, String)>,
    traffic: String,
    clients: u32,
    burst: u32,
    size: Option<u32>,
    first_seed: u64,
}

impl Asked {
    fn link(&self) -> Result<Link, CompareError> {
        let line = |(key, value): &(String, String)| format!("{key} = {value:?}\n");
        let lines: String = self.numbers.iter().map(line).collect();
        let numbers = WrittenLink::from_file("numbers", &format!("[link]\n{lines}"))?;
        let Some(name) = &self.link else {
            return Link::read("the link", &numbers);
        };
        let written = if Path::new(name).extension().is_some_and(|end| end == "toml") {
            let text = std::fs::read_to_string(name);
            WrittenLink::from_file(name, &text.map_err(|error| wrong(name, error))?)?
        } else {
            let known: Vec<&str> = BUILT_IN.iter().map(|link| link.name).collect();
            let unknown = || {
                wrong(
                    name,
                    format_args!("choose a .toml file, {}", known.join(", ")),
                )
            };
            WrittenLink::built_in(name).ok_or_else(unknown)?
        };
        Link::read(name, &written.changed(name, &numbers)?)
    }

    fn question(&self) -> Result<Question, CompareError> {
        let known: Vec<&str> = TRAFFIC.iter().map(|(name, ..)| *name).collect();
        let unknown = || wrong(&self.traffic, format_args!("choose {}", known.join(", ")));
        let mut traffic = Traffic::named(&self.traffic).ok_or_else(unknown)?;
        (traffic.clients, traffic.burst) = (self.clients, self.burst);
        traffic.size = self.size.unwrap_or(traffic.size);
        let limits = [
            ("clients", traffic.clients, CLIENTS_MAX),
            ("burst", traffic.burst, BURST_MAX),
            ("size", traffic.size, SIZE_MAX),
        ];
        for (name, value, most) in limits {
            if !(1..=most).contains(&value) {
                return Err(CompareError {
                    what: format!("{name} {value} is out of range"),
                    remedy: format!("choose 1 to {most}"),
                });
            }
        }
        Ok(Question::new(self.link()?, traffic).seeded(self.first_seed))
    }
}

fn wrong(name: &str, remedy: impl Display) -> CompareError {
    CompareError {
        what: format!("unknown or unreadable: \"{name}\""),
        remedy: remedy.to_string(),
    }
}

/// Searches for the recommendation for a link and its traffic. Returns JSON with the keys of
/// `carob lab compare --json`, and the words of the answer.
#[pyfunction]
pub(crate) fn recommend(py: Python<'_>, asked: Asked) -> PyResult<(String, Vec<String>)> {
    let wrong = |error: CompareError| errors::scenario(&error, &error.remedy);
    let question = asked.question().map_err(wrong)?;
    let is_stopped = AtomicBool::new(false);
    let answer = std::thread::scope(|scope| {
        let search = scope.spawn(|| question.answer_until(&|_| {}, &is_stopped));
        while !search.is_finished() {
            py.detach(|| std::thread::park_timeout(POLL));
            if let Err(error) = py.check_signals() {
                is_stopped.store(true, Ordering::Relaxed);
                return Err(error);
            }
        }
        let answer = search.join();
        answer.map_err(|_| errors::CarobError::new_err("a run panicked"))
    })?;
    let answer = answer.map_err(wrong)?;
    let text = serde_json::to_string(&answer);
    let text = text.map_err(|error| errors::CarobError::new_err(error.to_string()))?;
    Ok((text, answer.words()))
}
