//! `carob lab run`.

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::Path;
use std::time::Instant;

use carob_lab::export;
use carob_lab::metrics::Metric;
use carob_lab::published::Print;
use carob_lab::report::{Figure, Subject, comparison};
use carob_lab::run::{Outcome as Runs, Plan, Recording, Row, Selection};
use carob_lab::scenario::{Cell, builtin};
use carob_lab::summary;

use super::capture;
use super::compare;
use super::next;
use super::output::{self, json_lines, quoted, raw, say, say_table};
use super::source::Source;
use super::stream;
use crate::args::lab::RunArgs;
use crate::failure::{Failure, Kind, Outcome};
use crate::program::program;

/// The most lines of a table of cells and algorithms that also has its medians side by side.
const LINES_MAX: usize = 40;

/// Setting of `--aggregate`.
const AGGREGATE: &str = "workload.aggregate=on";

/// Runs a scenario.
pub fn run(args: &RunArgs) -> Result<Outcome, Failure> {
    let mut expanded = args.clone();
    if args.aggregate {
        expanded.set.push(AGGREGATE.to_owned());
    }
    if let Some(name) = &args.link {
        expanded.set.splice(0..0, compare::settings_of(name)?);
    }
    let args = &expanded;
    let name = args.name.as_deref().unwrap_or(builtin::DEFAULT);
    let source = Source::open(name, &args.set, &args.algorithm)?;
    let plan = plan(args, &source)?;
    if stream::is_of(args) {
        return stream::run(args, &plan);
    }
    let bar = output::progress(plan.jobs().len());
    let began = Instant::now();
    let runs = output::with_threads(args.threads, || {
        plan.execute(carob_sim::run, |_, _| bar.inc(1))
    })?;
    bar.finish_and_clear();
    let runs = runs.map_err(|e| Failure::new(Kind::Usage, e))?;
    let took = output::took(began.elapsed());
    let print = (program().published)();
    let rows = runs.rows();
    if let Some(path) = &args.log {
        write_log(path, &runs).map_err(|error| Failure::file("write", path, &error))?;
    }
    if let Some(path) = &args.pcap {
        write_capture(path, &runs)?;
    }
    let quiet = args.json || args.csv || args.svg.is_some();
    show(args, &source, &runs, &rows, &print, &took);
    if let Some(kind) = args.svg {
        raw(drawn(kind, &runs, &print, args.metric)?.trim_end());
    }
    let report_name = output::report_name(name, args.seed, &args.set);
    output::report(&args.report, &report_name, quiet, || {
        let subject = Subject {
            name,
            outcome: &runs,
            set: &args.set,
            command: command(args, name, &[]),
        };
        comparison(&subject, &print).map_err(|e| Failure::new(Kind::Usage, e))
    })?;
    if !quiet {
        next::print(args, name, &source, &runs, &rows, &print);
    }
    Ok(Outcome::Done)
}

/// The runs requested.
pub(super) fn plan<'a>(args: &RunArgs, source: &'a Source) -> Result<Plan<'a>, Failure> {
    let selection = Selection {
        cell: source.cell.clone(),
        everywhere: source.cell.is_some() && !args.algorithm.is_empty(),
        seed: args.seed,
        seeds: args.seeds,
        record: Recording {
            log: if args.log.is_some() {
                Recording::LOG_MAX
            } else {
                0
            },
            packets: if args.pcap.is_some() {
                Recording::PACKETS_MAX
            } else {
                0
            },
            ..Recording::default()
        },
    };
    Plan::new(&source.scenario, &selection).map_err(|e| Failure::new(Kind::Usage, e))
}

/// A figure as a standalone file.
fn drawn(
    figure: &Figure,
    runs: &Runs<'_>,
    print: &Print,
    metric: Option<&'static Metric>,
) -> Result<String, Failure> {
    let svg = figure.svg(runs, print, metric);
    let svg = svg.map_err(|why| Failure::new(Kind::Usage, why))?;
    let needs = figure.needs;
    let missing = || {
        Failure::new(
            Kind::Usage,
            format_args!("nothing to draw: it needs {needs}"),
        )
    };
    svg.ok_or_else(missing)
}

/// Writes the packets of the one run that was made.
fn write_capture(path: &Path, runs: &Runs<'_>) -> Result<(), Failure> {
    let mut all = runs.runs();
    let (Some((job, record)), None) = (all.next(), all.next()) else {
        let several = "a capture is of one run, and this makes several";
        return Err(Failure::new(Kind::Usage, several)
            .hint("name one cell and, with --algorithm, one algorithm"));
    };
    let about = format!(
        "{}, {}, seed {}",
        job.cell.name, job.algorithm.name, job.seed
    );
    capture::write(path, &record, &about)
}

/// Writes the protocol events of all runs, each line with its run and host before the event.
fn write_log(path: &Path, runs: &Runs<'_>) -> io::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    for (job, record) in runs.runs() {
        for (host, trace) in &record.log {
            let line = trace.json().to_string();
            let of = serde_json::json!({
                "cell": job.cell.name,
                "algorithm": job.algorithm.name,
                "host": host,
            });
            // Two objects made one.
            let of = of.to_string();
            writeln!(file, "{},{}", of.trim_end_matches('}'), &line[1..])?;
        }
    }
    file.flush()
}

pub(super) fn show(
    args: &RunArgs,
    source: &Source,
    runs: &Runs<'_>,
    rows: &[Row],
    print: &Print,
    took: &str,
) {
    if args.json {
        if args.each {
            json_lines(runs.each());
        } else if args.hash {
            json_lines(rows.iter().map(Row::hashed));
        } else {
            json_lines(rows);
        }
        return;
    }
    if args.svg.is_some() {
        return;
    }
    if args.csv {
        let text = if args.each {
            export::each_csv(&runs.each())
        } else {
            export::rows_csv(rows)
        };
        raw(text.trim_end());
        return;
    }
    let scenario = &source.scenario;
    say(format_args!(
        "{}: {}",
        scenario.title(&source.name),
        scenario.about()
    ));
    for line in network(runs) {
        say(line);
    }
    let count = match runs.plan().jobs().len() {
        1 => "one run".to_owned(),
        n => format!("{n} runs"),
    };
    say(format_args!("{count} in {took}\n"));
    if args.each || args.seed.is_some() {
        say_table(&summary::each_table(&runs.each()), 0);
        say("");
    } else {
        let medians = summary::medians(rows);
        // Tables that are too long to read are in the report.
        if medians.is_none() || rows.len() <= LINES_MAX || args.hash {
            say_table(&summary::table(rows, print, args.hash), 0);
            say("");
            say(format_args!("{}\n", summary::columns(rows)));
            if summary::serves(rows) {
                say(format_args!("{}\n", summary::SERVED_COLUMNS));
            }
        }
        if let Some(medians) = medians {
            say_table(&medians, 0);
            say("");
        }
    }
    for sentence in summary::reading(runs) {
        say(sentence);
    }
}

/// The network, workload, server and faults that were simulated, a line each.
fn network(runs: &Runs<'_>) -> Vec<String> {
    let mut cells: Vec<&Cell> = Vec::new();
    for job in runs.plan().jobs() {
        if cells
            .last()
            .is_none_or(|last| !std::ptr::eq(*last, job.cell))
        {
            cells.push(job.cell);
        }
    }
    let facts = runs.plan().scenario().network(&cells);
    // Buffer, MTU and losses share a line.
    let mut lines: Vec<String> = Vec::new();
    for (name, value) in &facts {
        let fact = format!("{name}: {value}");
        match lines.last_mut() {
            Some(line) if ["MTU", "Packet loss"].contains(&name.as_str()) => {
                line.push_str(". ");
                line.push_str(&fact);
            }
            _ => lines.push(fact),
        }
    }
    lines
}

/// The command of this program that repeats a run as `name`, with `more` settings.
pub(super) fn command(args: &RunArgs, name: &str, more: &[&str]) -> String {
    let algorithms = Some(args.algorithm.join(",")).filter(|names| !names.is_empty());
    let number = |value: Option<u64>| value.map(|number| number.to_string());
    let mut options = vec![
        ("--algorithm", algorithms),
        ("--seeds", number(args.seeds)),
        ("--seed", number(args.seed)),
    ];
    options.extend(args.set.iter().map(|set| ("--set", Some(set.clone()))));
    options.extend(more.iter().map(|&set| ("--set", Some(set.to_owned()))));
    let options = options
        .into_iter()
        .filter_map(|(option, value)| Some([option.to_owned(), value?]));
    let words: Vec<String> = [name.to_owned()]
        .into_iter()
        .chain(options.flatten())
        .collect();
    let quoted: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    format!("{} {}", program().run, quoted.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_that_repeats_a_run_is_quoted_for_a_shell() {
        let args = RunArgs {
            algorithm: vec!["default".to_owned(), "cocoa-03".to_owned()],
            seeds: Some(5),
            set: vec!["down.rate=60 kbit/s".to_owned()],
            ..RunArgs::default()
        };
        assert_eq!(
            command(&args, "thesis/long", &[]),
            "carob lab run thesis/long --algorithm default,cocoa-03 --seeds 5 --set 'down.rate=60 kbit/s'"
        );
    }
}
