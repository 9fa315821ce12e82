//! `carob cc trace`: the timers of controllers on a given sequence of round trips.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use carob_lab::replay::{DEMO, Dither, Event, Run, Script, Subject, SubjectError, export, tables};
use carob_lab::report::series;

use crate::args::cc::{Place, TraceArgs};
use crate::commands::lab::output::{self, json_lines, raw, say, say_table, suggest};
use crate::failure::{Failure, Kind, Outcome};
use crate::printer;
use crate::program::registry;

/// The largest script, in bytes.
const FILE_BYTES_MAX: u64 = 64 << 20;
/// The most controllers whose events are printed by default.
const TABLED_MAX: usize = 8;

pub(super) fn run(args: &TraceArgs) -> Result<Outcome, Failure> {
    let input = Input::open(args)?;
    let subjects =
        Subject::registered(registry(), &args.algorithm, &args.set).map_err(|e| unknown(&e))?;
    let dither = match (args.seed, args.dither) {
        (Some(seed), _) => Dither::Seed(seed),
        (None, Place::Low) => Dither::Low,
        (None, Place::Middle) => Dither::Middle,
        (None, Place::High) => Dither::High,
    };
    let script = &input.script;
    let runs: Vec<Run> = subjects.iter().map(|s| s.run(script, dither)).collect();
    let drawn = || {
        let picture = series(script, &runs, "Timers of controllers, event by event");
        picture.standalone()
    };
    if args.svg {
        raw(drawn().trim_end());
        return Ok(Outcome::Done);
    }
    if args.json {
        json_lines(runs.iter().map(|run| export::object(script, run, dither)));
    } else if args.csv {
        raw(export::csv(script, &runs).trim_end());
    } else {
        tell(args, &input, &runs, dither);
    }
    figure(args, &input, drawn)?;
    if args.demo && args.algorithm.is_empty() && !args.json && !args.csv {
        say("\nNext:");
        suggest([
            (
                "carob cc trace --demo -a all",
                "every controller, as small multiples",
            ),
            (
                "carob cc trace FILE",
                "your own round trips: --help has the words",
            ),
        ]);
    }
    Ok(Outcome::Done)
}

/// A script and its origin.
struct Input {
    /// `demo`, `stdin` or the file as it was typed.
    name: String,
    script: Script,
}

impl Input {
    fn open(args: &TraceArgs) -> Result<Self, Failure> {
        let (name, text) = match &args.file {
            None => ("demo".to_owned(), DEMO.to_owned()),
            Some(path) if path == Path::new("-") => {
                let text = read(io::stdin().lock(), Path::new("stdin"))?;
                ("stdin".to_owned(), text)
            }
            Some(path) => {
                let file = File::open(path).map_err(|e| Failure::file("read", path, &e))?;
                (path.display().to_string(), read(file, path)?)
            }
        };
        let script = Script::read(&name, &text).map_err(|error| {
            let hint = "`carob cc trace --help` lists the words";
            Failure::new(Kind::Usage, error).hint(hint)
        })?;
        Ok(Self { name, script })
    }

    /// `44 exchanges, 1 pause`.
    fn size(&self) -> String {
        let count = |is: fn(&Event) -> bool| {
            let events = self.script.events.iter().map(|scripted| &scripted.event);
            events.filter(|event| is(event)).count()
        };
        let exchanges = count(|e| matches!(e, Event::Answered { .. } | Event::Failed));
        let told = count(|e| matches!(e, Event::Notification { .. }));
        let pauses = count(|e| matches!(e, Event::Idle(_)));
        let all = [
            (exchanges, "exchange"),
            (told, "notification"),
            (pauses, "pause"),
        ];
        let parts: Vec<String> = (all.iter().filter(|(n, _)| *n > 0))
            .map(|(n, what)| format!("{n} {what}{}", if *n == 1 { "" } else { "s" }))
            .collect();
        parts.join(", ")
    }

    /// Stem of the figure's file name.
    fn stem(&self) -> &str {
        let stem = Path::new(&self.name).file_stem();
        stem.and_then(|stem| stem.to_str()).unwrap_or("script")
    }
}

fn read(from: impl Read, path: &Path) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    from.take(FILE_BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| Failure::file("read", path, &error))?;
    let shown = path.display();
    if bytes.len() as u64 > FILE_BYTES_MAX {
        let most = FILE_BYTES_MAX >> 20;
        let message = format!("{shown}: found more than {most} MiB, expected at most that");
        return Err(Failure::new(Kind::Usage, message).hint("shorten the script"));
    }
    String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        let line = error.as_bytes()[..valid].split(|b| *b == b'\n').count();
        let message = format!("{shown}:{line}: found bytes that are no text, expected UTF-8");
        Failure::new(Kind::Usage, message)
    })
}

fn tell(args: &TraceArgs, input: &Input, runs: &[Run], dither: Dither) {
    let draws = match dither {
        Dither::Low => "the low end of its range".to_owned(),
        Dither::Middle => "the middle of its range".to_owned(),
        Dither::High => "the high end of its range".to_owned(),
        Dither::Seed(seed) => format!("what seed {seed} gives"),
    };
    let (name, size) = (&input.name, input.size());
    say(format_args!("{name}: {size}; every random draw is {draws}"));
    if runs.len() <= TABLED_MAX || args.each {
        let (tables, left_out) =
            tables::events(&input.script, runs, args.each, crate::output::columns());
        for table in tables {
            say("");
            say_table(&table, 0);
        }
        say(tables::event_columns(&input.script, runs));
        if left_out > 0 {
            say(format_args!("{left_out} more events: --each shows them."));
        }
    } else {
        say(format_args!(
            "Event by event: in the figure; with at most {TABLED_MAX} controllers (-a) or --each in tables."
        ));
    }
    let totals = tables::totals(runs);
    say("");
    say_table(&totals, 0);
    say(tables::TOTAL_COLUMNS);
}

/// Writes the figure and prints its path; with --json, only if a file was named.
fn figure(args: &TraceArgs, input: &Input, draw: impl Fn() -> String) -> Result<(), Failure> {
    let quiet = args.json || args.csv;
    if args.no_figure || (quiet && args.figure.is_none()) {
        return Ok(());
    }
    let default = || output::default_file(&format!("trace-{}", input.stem()), "svg");
    let file = args.figure.clone().unwrap_or_else(default);
    match output::write(&file, &draw()) {
        Ok(()) if quiet => {}
        Ok(()) => say(format_args!("\nFigure: {}", file.display())),
        Err(error) if args.figure.is_some() => return Err(Failure::file("write", &file, &error)),
        // The figure was not requested, and the table is there.
        Err(error) => {
            let shown = file.display();
            printer::remark(&format!("no figure: cannot write {shown}: {error}"));
        }
    }
    Ok(())
}

fn unknown(error: &SubjectError) -> Failure {
    let failure = Failure::new(Kind::Usage, error);
    match error {
        SubjectError::Name { .. } => failure.hint("`carob cc list` explains all"),
        SubjectError::Set { .. } => {
            failure.hint("`carob cc show NAME` has a controller's constants")
        }
    }
}
