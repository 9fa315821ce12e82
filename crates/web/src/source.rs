//! The scenario that a request names: a link with traffic, a built-in scenario, or a text; a trace that a user opens.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::rc::Rc;

use carob_lab::compare::{CLIENTS_MAX, Link, Question, Traffic, WrittenLink};
use carob_lab::link_trace;
use carob_lab::link_trace::is_text;
use carob_lab::run::{Plan, Selection};
use carob_lab::scenario::{Scenario, builtin};
use carob_sim::spec::NetworkSpec;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::error::CallError;

/// Name of the file that a text is saved as.
const FILE: &str = "link.toml";

/// Specification of a run.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Source {
    /// A link and its traffic.
    link: Option<LinkForm>,
    /// Name of a built-in scenario.
    scenario: Option<String>,
    /// Settings of the scenario, as `--set` has them.
    #[serde(default)]
    set: Vec<String>,
    /// Controllers; the scenario's if empty.
    #[serde(default)]
    algorithms: Vec<String>,
    /// One cell of the scenario; all if none.
    cell: Option<String>,
}

/// A link and its traffic, as `carob lab compare` takes them. Unset numbers are the built-in link's.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct LinkForm {
    /// A built-in link; all numbers are needed without one.
    name: Option<String>,
    down: Option<String>,
    up: Option<String>,
    rtt: Option<String>,
    jitter: Option<String>,
    loss: Option<String>,
    loss_burst: Option<String>,
    buffer: Option<String>,
    mtu: Option<String>,
    /// Trace in the place of rate, delay and loss towards the devices: its text, or the name of an attached file.
    trace_down: Option<String>,
    /// The same from the devices.
    trace_up: Option<String>,
    /// `firmware`, `command`, `telemetry` or `observe`.
    traffic: String,
    clients: u32,
    /// Requests at once.
    burst: Option<u32>,
    /// Bytes of a download.
    size: Option<u32>,
    /// Block size in bytes; the largest that fits a packet if none.
    block: Option<u16>,
    /// NSTART; 1 if none.
    nstart: Option<u16>,
}

impl LinkForm {
    fn numbers(&self) -> WrittenLink {
        WrittenLink::default()
            .with("down", self.down.clone())
            .with("up", self.up.clone())
            .with("rtt", self.rtt.clone())
            .with("jitter", self.jitter.clone())
            .with("loss", self.loss.clone())
            .with("loss_burst", self.loss_burst.clone())
            .with("buffer", self.buffer.clone())
            .with("mtu", self.mtu.clone())
            .with("trace.down", self.trace_down.clone())
            .with("trace.up", self.trace_up.clone())
    }

    fn link(&self) -> Result<Link, CallError> {
        let numbers = self.numbers();
        let Some(name) = &self.name else {
            return Ok(Link::read("the link", &numbers)?);
        };
        let built_in = WrittenLink::built_in(name).ok_or_else(|| {
            CallError::new(
                format_args!("unknown link \"{name}\""),
                "choose one of the list",
            )
        })?;
        Ok(Link::read(name, &built_in.changed(name, &numbers)?)?)
    }

    /// The question of `carob lab compare`.
    pub(crate) fn question(&self) -> Result<Question, CallError> {
        let name = &self.traffic;
        let mut traffic = Traffic::named(name).ok_or_else(|| {
            CallError::new(
                format_args!("unknown traffic \"{name}\""),
                "choose one of the list",
            )
        })?;
        if !(1..=CLIENTS_MAX).contains(&self.clients) {
            let what = format_args!("{} clients", self.clients);
            let remedy = format!("choose 1 to {CLIENTS_MAX}");
            return Err(CallError::new(what, &remedy));
        }
        traffic.clients = self.clients;
        traffic.burst = self.burst.unwrap_or(1).clamp(1, 1_000);
        traffic.size = self.size.unwrap_or(traffic.size).clamp(1, 1 << 24);
        Ok(Question::new(self.link()?, traffic))
    }

    /// Its scenario file.
    fn text(&self, algorithms: &[String], seeds: u64) -> Result<String, CallError> {
        let question = self.question()?;
        let mut settings = question.default_coap();
        settings.block = self.block.unwrap_or(settings.block);
        let names: Vec<&str> = algorithms.iter().map(String::as_str).collect();
        let text = question.scenario_text(&names, &settings, seeds);
        // Searches have NSTART 1 alone; runs of the page may have more.
        let nstart = format!("nstart = {}\n", self.nstart.unwrap_or(1));
        Ok(text.replacen("nstart = 1\n", &nstart, 1))
    }

    /// Names of the files that its scenario and commands need.
    fn files(&self) -> Vec<&str> {
        let both = self.trace_down.iter().chain(&self.trace_up);
        let mut names: Vec<&str> = both
            .map(String::as_str)
            .filter(|name| !is_text(name))
            .collect();
        names.dedup();
        names
    }

    /// The command that recommends a configuration for it.
    fn command(&self) -> String {
        let mut words = String::new();
        let traces = [("down", &self.trace_down), ("up", &self.trace_up)];
        let mut options = String::new();
        for (direction, trace) in traces {
            let Some(trace) = trace else { continue };
            let mut name = trace.clone();
            if is_text(trace) {
                name = format!("{direction}.csv");
                // A String takes every write.
                let _ = writeln!(words, "cat > {name} <<'EOF'\n{}\nEOF", trace.trim_end());
            }
            let _ = write!(options, " --trace-{direction} {}", quoted(&name));
        }
        words.push_str("carob lab compare");
        let numbers = [
            ("link", &self.name),
            ("down", &self.down),
            ("up", &self.up),
            ("rtt", &self.rtt),
            ("jitter", &self.jitter),
            ("loss", &self.loss),
            ("loss-burst", &self.loss_burst),
            ("buffer", &self.buffer),
            ("mtu", &self.mtu),
        ];
        for (option, value) in numbers {
            if let Some(value) = value {
                // A String takes every write.
                let _ = write!(words, " --{option} {}", quoted(value));
            }
        }
        words += &options;
        let _ = write!(words, " --traffic {}", quoted(&self.traffic));
        let counts = [
            ("clients", (self.clients != 1).then_some(self.clients)),
            ("burst", self.burst),
            ("size", self.size),
        ];
        for (option, count) in counts {
            if let Some(count) = count {
                let _ = write!(words, " --{option} {count}");
            }
        }
        words
    }
}

/// A scenario with the text and the name that it was read from.
pub(crate) struct Read {
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) scenario: Scenario,
}

thread_local! {
    /// The last source and its scenario: a page runs it again and again.
    static LAST: RefCell<Option<(String, Rc<Read>)>> = const { RefCell::new(None) };
}

impl Source {
    /// Reads it, or returns the cached result for the same source.
    pub(crate) fn read(&self) -> Result<Rc<Read>, CallError> {
        let key = serde_json::to_string(self).unwrap_or_default();
        let last = LAST.with_borrow(|last| {
            let same = last.as_ref().filter(|(of, _)| *of == key);
            same.map(|(_, read)| read.clone())
        });
        if let Some(read) = last {
            return Ok(read);
        }
        let read = Rc::new(self.read_anew(1)?);
        LAST.set(Some((key, read.clone())));
        Ok(read)
    }

    fn read_anew(&self, seeds: u64) -> Result<Read, CallError> {
        let (name, text) = match (&self.link, &self.scenario) {
            (Some(form), _) => (FILE.to_owned(), form.text(&self.algorithms, seeds)?),
            (None, Some(name)) => {
                let (file, _) = builtin::find(name).ok_or_else(|| unknown(name))?;
                (file.name.to_owned(), file.text.to_owned())
            }
            (None, None) => return Err(CallError::new("no scenario", "choose a link")),
        };
        let algorithms = match &self.link {
            None if !self.algorithms.is_empty() => Some(&self.algorithms[..]),
            _ => None,
        };
        let scenario = Scenario::with_algorithms(&name, &text, &self.set, algorithms)?;
        Ok(Read {
            name,
            text,
            scenario,
        })
    }

    /// The runs of one seed, or of a number of seeds.
    pub(crate) fn plan<'a>(
        &self,
        read: &'a Read,
        seed: Option<u64>,
        seeds: Option<u64>,
    ) -> Result<Plan<'a>, CallError> {
        Ok(Plan::new(
            &read.scenario,
            &Selection {
                cell: self.cell.clone(),
                everywhere: self.cell.is_some() && !self.algorithms.is_empty(),
                seed,
                seeds,
                ..Selection::default()
            },
        )?)
    }

    /// Cells, algorithms and facts of the scenario; the same as a command, a file and Python.
    pub(crate) fn check(&self, seeds: u64) -> Result<Value, CallError> {
        let read = self.read_anew(seeds)?;
        let scenario = &read.scenario;
        let plan = self.plan(&read, None, Some(1))?;
        let cells: Vec<_> = match &self.cell {
            Some(name) => scenario.cells_like(name),
            None => scenario.cells().iter().collect(),
        };
        let first = &plan.jobs()[0];
        let spec = plan.spec(first);
        Ok(json!({
            "name": read.name,
            "about": scenario.about(),
            "hash": format!("{:016x}", scenario.hash()),
            "cells": scenario.cells().iter().map(|cell| &cell.name).collect::<Vec<_>>(),
            "algorithms": scenario.algorithms().iter().map(|one| &one.name).collect::<Vec<_>>(),
            "jobs_per_seed": plan.jobs().len(),
            "seeds": scenario.seeds(),
            "first_seed": scenario.first_seed(),
            "network": scenario.network(&cells),
            "mesh": matches!(spec.network, NetworkSpec::Mesh(_)),
            "command": self.command(&read, seeds),
            "compare": self.link.as_ref().map(LinkForm::command),
            "text": self.file(&read),
            "files": self.link.as_ref().map_or(Vec::new(), LinkForm::files),
            "python": self.python(&read, seeds),
        }))
    }

    /// The command that makes the same runs.
    fn command(&self, read: &Read, seeds: u64) -> String {
        if self.link.is_some() {
            let text = &read.text;
            return format!(
                "cat > {FILE} <<'EOF'\n{}\nEOF\ncarob lab run {FILE} --seeds {seeds}",
                text.trim_end()
            );
        }
        let mut words = format!("carob lab run {}", quoted(&self.cell_name(read)));
        if !self.algorithms.is_empty() {
            // A String takes every write.
            let _ = write!(words, " --algorithm {}", quoted(&self.algorithms.join(",")));
        }
        let _ = write!(words, " --seeds {seeds}");
        for set in &self.set {
            let _ = write!(words, " --set {}", quoted(set));
        }
        words
    }

    /// The scenario, or one of its cells, as the command names it.
    fn cell_name(&self, read: &Read) -> String {
        let study = read.name.split('/').next().unwrap_or_default();
        match &self.cell {
            Some(cell) => format!("{study}/{cell}"),
            None => read.name.clone(),
        }
    }

    /// The scenario file; settings and cell of a built-in one are in a comment at the top.
    fn file(&self, read: &Read) -> String {
        if self.link.is_some() {
            return read.text.clone();
        }
        let mut text = format!("# {}: save it as own.toml. The same runs:\n", read.name);
        let mut command = "carob lab run own.toml".to_owned();
        for set in &self.set {
            // A String takes every write.
            let _ = write!(command, " --set {}", quoted(set));
        }
        let _ = writeln!(text, "# {command}");
        text + &read.text
    }

    /// The same runs in Python.
    fn python(&self, read: &Read, seeds: u64) -> String {
        let literal = |text: &str| serde_json::to_string(text).unwrap_or_default();
        let mut text = "import carob\n\n".to_owned();
        if self.link.is_some() {
            // The text of a scenario has no backslash and no three quotes.
            let file = read.text.trim_end();
            let _ = write!(
                text,
                "text = '''\n{file}\n'''\nscenario = carob.Scenario({}, text=text)\n",
                literal(FILE)
            );
        } else {
            let mut arguments = literal(&read.name);
            if !self.algorithms.is_empty() {
                let _ = write!(
                    arguments,
                    ", algorithms={}",
                    literal(&self.algorithms.join(","))
                );
            }
            let _ = write!(text, "scenario = carob.scenario({arguments})");
            if !self.set.is_empty() {
                let pairs = self.set.iter().filter_map(|set| set.split_once('='));
                let pairs: Vec<String> = pairs
                    .map(|(key, value)| format!("{}: {}", literal(key), literal(value)))
                    .collect();
                let _ = write!(text, ".set({{{}}})", pairs.join(", "));
            }
            text.push('\n');
        }
        let cell = self.cell.as_ref();
        let cell = cell.map_or(String::new(), |cell| format!("cell={}, ", literal(cell)));
        let _ = write!(
            text,
            "runs = scenario.run({cell}seeds={seeds})\nprint(runs.summary())\n"
        );
        text
    }
}

fn unknown(name: &str) -> CallError {
    let near = builtin::nearest(name).map(|near| format!("did you mean \"{near}\"? "));
    let remedy = near.unwrap_or_default() + "choose a scenario of the list";
    CallError::new(format_args!("unknown scenario \"{name}\""), &remedy)
}

/// A word for a shell.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./,=:%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// The most steps of a drawing.
const STEPS_MAX: usize = 64;

/// Attaches a trace under the name of its file. Returns its means over `steps` steps: its length in seconds, and lists
/// of kbit/s, ms and percent. A list is empty if the trace lacks that column.
pub(crate) fn attach(name: &str, text: &str, count: usize) -> Result<Value, CallError> {
    let source = link_trace::attach(name, text).map_err(|why| {
        CallError::new(
            format_args!("{name}: {why}"),
            "choose a CSV with time_ms and rate_kbit_s, delay_ms or loss_percent, or Mahimahi's lines of milliseconds",
        )
    })?;
    let trace = &source.trace;
    let steps = trace.steps(count.clamp(1, STEPS_MAX));
    let rate: Vec<f64> = steps
        .iter()
        .filter_map(|row| Some(row.rate_bps? as f64 / 1e3))
        .collect();
    let delay: Vec<f64> = (steps.iter())
        .filter_map(|row| Some(row.delay?.as_micros() as f64 / 1e3))
        .collect();
    let loss: Vec<f64> = (steps.iter())
        .filter_map(|row| Some((row.loss?.as_f64() * 1e6).round() / 1e4))
        .collect();
    Ok(json!({
        "seconds": trace.length().as_micros() as f64 / 1e6,
        "hash": format!("{:016x}", source.hash), "rows": trace.rows(),
        "rate": rate, "delay": delay, "loss": loss,
    }))
}
