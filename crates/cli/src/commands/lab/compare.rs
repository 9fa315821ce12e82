//! `carob lab compare`: which configuration for a link and its traffic.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Instant;

use carob_lab::compare::{
    Answer, BUILT_IN, CLIENTS_MAX, CompareError, Component, LEFT_OUT, Link, Progress, Question,
    TRAFFIC, Timers, Traffic, TrafficKind, WrittenLink, digits,
};
use carob_lab::text::{Emphasis, TextTable};

use super::next;
use super::output::{self, command_lines, quoted, raw, say, say_table};
use super::source::read_file;
use crate::args::lab::{CompareArgs, LinkNumbers};
#[cfg(feature = "analyze")]
use crate::commands::analyze;
use crate::commands::stop;
use crate::failure::{Failure, Kind, Outcome};
#[cfg(not(feature = "analyze"))]
use crate::features;
use crate::printer;
use crate::program::registry;

/// The link without options.
const LINK_DEFAULT: &str = "nb-iot";

pub(super) fn run(args: &CompareArgs) -> Result<Outcome, Failure> {
    let question = Question::new(link(args)?, traffic(args)?)
        .weighted(&args.weight)
        .map_err(|error| wrong(&error))?
        .seeded(args.first_seed)
        .registered(registry());
    let bar = output::progress(0);
    let began = Instant::now();
    let is_stopped = stop::flag_of_interrupt()?;
    let answer = output::with_threads(args.threads, || {
        let progress = |step| match step {
            Progress::Planned(runs) => bar.inc_length(runs as u64),
            Progress::Made => bar.inc(1),
        };
        question.answer_until(&progress, is_stopped)
    })?;
    bar.finish_and_clear();
    let answer = match answer {
        Err(_) if is_stopped.load(Ordering::Relaxed) => {
            eprintln!("carob: interrupted before every controller had run");
            return Ok(Outcome::Interrupted);
        }
        answer => answer.map_err(|error| wrong(&error))?,
    };
    let outcome = if answer.is_complete() {
        Outcome::Done
    } else {
        Outcome::Interrupted
    };
    if let Some(file) = &args.report {
        let words: Vec<String> = args.words().iter().map(|word| quoted(word)).collect();
        let html = answer.report(words.join(" ")).html();
        std::fs::write(file, html).map_err(|error| Failure::file("write", file, &error))?;
    }
    if args.json {
        raw(serde_json::to_string(&answer).map_err(|e| Failure::new(Kind::Usage, e))?);
        return Ok(outcome);
    }
    show(args, &answer, &output::took(began.elapsed()));
    Ok(outcome)
}

fn wrong(error: &CompareError) -> Failure {
    Failure::new(Kind::Usage, error).hint(&error.remedy)
}

fn is_toml(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|end| end == "toml")
}

/// The link of the options: a built-in one, a file, a capture or numbers, which override its values.
fn link(args: &CompareArgs) -> Result<Link, Failure> {
    let numbers = written(&args.numbers);
    let is_own = numbers.get("down").or(numbers.get("up")).is_some();
    let name = match &args.link {
        Some(name) => name,
        None if is_own => {
            return Link::read("the link", &numbers).map_err(|error| wrong(&error));
        }
        None if numbers.is_traced() => return of_traces(numbers).map_err(|error| wrong(&error)),
        None => LINK_DEFAULT,
    };
    let is_changed = !numbers.is_empty();
    let changed = named(name)?
        .changed(name, &numbers)
        .map_err(|error| wrong(&error))?;
    let mut link = Link::read(name, &changed).map_err(|error| wrong(&error))?;
    if is_changed {
        link.name += ", changed";
    }
    Ok(link)
}

/// The link of traces; the default link has the rates that they lack.
fn of_traces(numbers: WrittenLink) -> Result<Link, CompareError> {
    let link = Link::read("the link", &numbers);
    if link.is_ok() {
        return link;
    }
    let default = WrittenLink::built_in(LINK_DEFAULT).unwrap_or_default();
    let rate = |way| default.get(way).map(str::to_owned);
    let numbers = numbers.with("down", rate("down")).with("up", rate("up"));
    Link::read("the link", &numbers)
}

/// The link of a name: a built-in one, a file or a capture.
fn named(name: &str) -> Result<WrittenLink, Failure> {
    if is_toml(name) {
        let text = read_file(Path::new(name))?;
        return WrittenLink::from_file(name, &text).map_err(|error| wrong(&error));
    }
    if Path::new(name).extension().is_some_and(|end| end == "csv") {
        return Ok(WrittenLink::default().with("mesh", Some(name.to_owned())));
    }
    if let Some(built_in) = WrittenLink::built_in(name) {
        return Ok(built_in);
    }
    #[cfg(feature = "analyze")]
    if let Some(link) = analyze::link_of_capture(name)? {
        return Ok(link);
    }
    #[cfg(not(feature = "analyze"))]
    if Path::new(name).is_file() {
        return Err(features::missing("link from a capture", "analyze"));
    }
    let of = |is_validated| {
        let names = BUILT_IN
            .iter()
            .filter(|link| link.is_validated == is_validated);
        names.map(|link| link.name).collect::<Vec<_>>().join(", ")
    };
    let hint = format!(
        "measured links are {}; not validated are {}; a file of your own ends in .toml (a mesh in .csv), or is a capture; `carob lab compare` takes \
             --down and --up too",
        of(true),
        of(false)
    );
    Err(Failure::new(Kind::Usage, format_args!("unknown link \"{name}\"")).hint(hint))
}

/// The settings of a scenario that has this link.
pub(super) fn settings_of(name: &str) -> Result<Vec<String>, Failure> {
    let link = Link::read(name, &named(name)?).map_err(|error| wrong(&error))?;
    link.settings().map_err(|error| wrong(&error))
}

/// The numbers of the options. Traces are relative to the working directory, also where the link is a
/// file of another.
fn written(numbers: &LinkNumbers) -> WrittenLink {
    let absolute = |path: &Option<String>| {
        let path = path.as_ref()?;
        let absolute = std::path::absolute(path).map(|path| path.display().to_string());
        Some(absolute.unwrap_or_else(|_| path.clone()))
    };
    WrittenLink::default()
        .with("down", numbers.down.clone())
        .with("up", numbers.up.clone())
        .with("rtt", numbers.rtt.clone())
        .with("jitter", numbers.jitter.clone())
        .with("loss", numbers.loss.clone())
        .with("loss_burst", numbers.loss_burst.clone())
        .with("buffer", numbers.buffer.clone())
        .with("mtu", numbers.mtu.clone())
        .with("trace.down", absolute(&numbers.trace_down))
        .with("trace.up", absolute(&numbers.trace_up))
        .with("trace.end", numbers.trace_end.clone())
}

fn traffic(args: &CompareArgs) -> Result<Traffic, Failure> {
    let name = &args.traffic;
    let mut traffic = if is_toml(name) {
        Traffic::from_file(name, &read_file(Path::new(name))?).map_err(|error| wrong(&error))?
    } else {
        Traffic::named(name).ok_or_else(|| {
            let known: Vec<&str> = TRAFFIC.iter().map(|(name, ..)| *name).collect();
            let hint = format!(
                "traffic is {}; a file of your own ends in .toml",
                known.join(", ")
            );
            Failure::new(Kind::Usage, format_args!("unknown traffic \"{name}\"")).hint(hint)
        })?
    };
    traffic.cells = args.clients.div_ceil(args.cell.unwrap_or(args.clients));
    traffic.clients = args.clients.div_ceil(traffic.cells);
    if traffic.clients > CLIENTS_MAX {
        let message = format_args!(
            "--clients {} is more than {CLIENTS_MAX} on one link",
            args.clients
        );
        return Err(Failure::new(Kind::Usage, message)
            .hint("--cell N divides them among cells with a link each, such as --cell 200"));
    }
    traffic.burst = args.burst;
    traffic.sleepy_us = args.sleepy.map_or(0, |time| {
        u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
    });
    if let Some(size) = args.size {
        traffic.size = size;
    }
    Ok(traffic)
}

fn table(answer: &Answer) -> TextTable {
    let header = [
        "controller",
        "settings",
        ">mean s",
        ">slow s",
        ">failed",
        ">spur.",
        ">cost",
    ];
    let mut table = TextTable::new(header);
    let is_blockwise = answer.traffic.is_blockwise();
    let mut places: Vec<usize> = (0..answer.ranked.len()).collect();
    places.sort_by(|a, b| {
        let cost = |place: &usize| answer.ranked[*place].cost.value;
        cost(a).total_cmp(&cost(b))
    });
    for place in places {
        let one = &answer.ranked[place];
        let mark = match one.configuration.transfer.needs() {
            _ if place == answer.recommended => "*",
            Some(_) => "+",
            None => "",
        };
        let measured = &one.measured;
        table.add(vec![
            one.configuration.controller.to_owned(),
            one.configuration.settings(is_blockwise),
            digits(measured.time_s),
            digits(measured.tail_s),
            format!("{:.1} %", measured.undelivered * 100.0),
            format!("{:.2}", measured.spurious),
            format!("{:.2}{mark}", one.cost.value),
        ]);
        if place == answer.recommended {
            for column in 0..header.len() {
                table.emphasise(column, Emphasis::Best);
            }
        }
    }
    table
}

/// Returns whether the recommended controller takes state from one small request to the next.
fn learns_from_requests(answer: &Answer) -> bool {
    let traffic = &answer.traffic;
    let controller = answer.recommended().configuration.controller;
    controller != "default" && !traffic.is_blockwise() && !traffic.is_observe()
}

/// The trial of the recommended controller beside default CoAP, of requests alone.
fn trial(answer: &Answer) -> Option<String> {
    let traffic = &answer.traffic;
    if traffic.is_observe() {
        return None;
    }
    let traffic = match traffic.kind {
        TrafficKind::Telemetry => " --traffic telemetry",
        _ if traffic.is_blockwise() => " --traffic firmware",
        _ => "",
    };
    let controllers = match answer.recommended().configuration.controller {
        "default" | "carob" => String::new(),
        other => format!(" --cc default,{other}"),
    };
    Some(format!(
        "carob try coap://SERVER/PATH{traffic}{controllers}"
    ))
}

/// Percentiles of times, and the bytes of a device.
fn details(answer: &Answer) -> TextTable {
    let mut table = TextTable::new([
        "controller",
        "settings",
        ">p50 s",
        ">p95 s",
        ">p99 s",
        ">sent B",
        ">rec. B",
        ">neigh. s",
    ]);
    let clients = f64::from(answer.traffic.clients);
    for one in &answer.ranked {
        let all = &one.measured;
        table.add(vec![
            one.configuration.controller.to_owned(),
            one.configuration.settings(answer.traffic.is_blockwise()),
            digits(all.p50_s),
            digits(all.p95_s),
            digits(all.p99_s),
            format!("{:.0}", all.bytes_up / clients),
            format!("{:.0}", all.bytes_down / clients),
            digits(all.harm_s),
        ]);
    }
    table
}

fn show(args: &CompareArgs, answer: &Answer, took: &str) {
    let out = |text: &str| say(text);
    out(&format!(
        "Link: {}: {}",
        answer.link.name,
        answer.link.about()
    ));
    out(&format!("Traffic: {}", answer.traffic.about()));
    out(&format!("{} runs in {took}\n", answer.runs));
    for (place, sentence) in answer.words().iter().enumerate() {
        if place == 0 {
            printer::strong(sentence);
        } else {
            out(sentence);
        }
    }
    say("");
    say_table(&table(answer), 0);
    say("");
    let is_blockwise = answer.traffic.is_blockwise();
    let blocks = if is_blockwise {
        " B: block size, 1024 B unless set."
    } else {
        ""
    };
    let weights: Vec<String> = Component::ALL
        .iter()
        .filter(|one| answer.weights.of(**one) > 0.0)
        .map(|one| format!("{} {:.0} %", one.name(), answer.weights.of(*one) * 100.0))
        .collect();
    let mut with_peer = answer.ranked.iter();
    let with_peer = with_peer.any(|one| one.configuration.transfer.needs().is_some());
    let with_peer = if with_peer {
        " + needs Q-Block or CoAP over TCP at the peer."
    } else {
        ""
    };
    out(&format!(
        "* recommended.{with_peer} slow s: mean of the slowest 5 %. spur.: spurious retransmissions per \
         exchange. cost: weighted geometric mean of ratios to default CoAP: {}.{blocks} ACK: ACK_TIMEOUT; with \
         9 s MAX_RETRANSMIT is 5, with 4 s 6, with 1 s 8, and timers are of at most 32 s.\n",
        weights.join(", ")
    ));
    let best = &answer.recommended().configuration;
    if answer.recommended > 0 {
        say("Settings for the command line, the library, and firmware (carob-cc alone):");
        say(format_args!("  {}", answer.recommended().command));
        for line in best.rust(is_blockwise) {
            raw(format_args!("  {line}"));
        }
        say(format_args!("  {}\n", best.firmware()));
        if learns_from_requests(answer) {
            say(
                "Make all requests with one client: the controller learns from each, and a new client knows nothing.\n",
            );
        }
    }
    if let Some(place) = answer.with_peer {
        say("With support at the peer:");
        say(format_args!("  {}\n", answer.ranked[place].command));
    }
    if args.all {
        let mut all = TextTable::new(["controller", ">cost"]);
        for (name, cost) in &answer.controllers {
            all.add(vec![(*name).to_owned(), format!("{cost:.2}")]);
        }
        say(format_args!(
            "Percentiles of {} of all runs, and what a device sends and receives in a run:",
            answer.percentiles_of()
        ));
        say_table(&details(answer), 0);
        say("");
        say("All controllers with the parameters of RFC 7252:");
        say_table(&all, 0);
        say("");
        say("Left out:");
        for (name, why) in LEFT_OUT {
            say(format_args!("  {name:<18}{why}"));
        }
        say("");
    }
    if let Some(file) = &args.report {
        say(format_args!("Report: {}\n", file.display()));
    }
    next(args, answer);
}

/// Prints what may be run next.
fn next(args: &CompareArgs, answer: &Answer) {
    let words: Vec<String> = args.words().iter().map(|word| quoted(word)).collect();
    let other = CompareArgs {
        traffic: if args.traffic == "command" {
            "telemetry"
        } else {
            "command"
        }
        .to_owned(),
        size: None,
        ..args.clone()
    };
    let other: Vec<String> = other.words().iter().map(|word| quoted(word)).collect();
    let trial = trial(answer).map(|trial| {
        let about = if answer.recommended().configuration.timers == Timers::Rfc7252 {
            "the choice on a real server, by paired requests"
        } else {
            "the controllers on a real server, by paired requests with ACK_TIMEOUT 2 s"
        };
        (trial, about)
    });
    let mut lines = vec![
        (
            format!("{} --all", words.join(" ")),
            "the costs of all controllers",
        ),
        (other.join(" "), "the same link, other traffic"),
        (
            "carob lab compare --down 60kbit/s --up 20kbit/s --rtt 1.5s --loss 5%".to_owned(),
            "a link of your own",
        ),
    ];
    lines.extend(trial);
    lines.extend([
        (
            "carob lab run carob/default".to_owned(),
            "an experiment, with a report",
        ),
        (
            "carob --help".to_owned(),
            "client, server and the rest of the lab",
        ),
    ]);
    say("Next:");
    for (command, about) in lines.iter().skip(usize::from(args.all)) {
        raw(command_lines(command));
        say(format_args!("      {about}"));
    }
    next::path();
}

#[cfg(test)]
mod tests {
    use carob_lab::compare::{Configuration, Link, Timers, Transfer, WrittenLink, controllers};
    use clap::Parser as _;

    use super::{named, of_traces};
    use crate::args::Args;

    #[test]
    fn traces_without_a_rate_have_that_of_the_default_link() {
        let traced = |text: &str| WrittenLink::default().with("trace.down", Some(text.to_owned()));
        let link = of_traces(traced("time_ms,delay_ms\n0,300\n1000,500\n")).expect("a link");
        assert_eq!((link.down_bps, link.up_bps), (30_000, 60_000));
        let wrong = of_traces(traced("time_ms,delay_ms\n0,x\n")).expect_err("no trace");
        assert!(wrong.what.contains("delay_ms"), "{wrong}");
    }

    #[test]
    fn a_table_of_links_is_a_mesh() {
        let written = named("none/links.csv").expect("a name");
        assert_eq!(written.get("mesh"), Some("none/links.csv"));
        assert!(Link::read("none/links.csv", &written).is_err());
    }

    #[test]
    fn options_of_each_configuration_parse() {
        for controller in controllers() {
            for timers in [
                Timers::Rfc7252,
                Timers::NineSeconds,
                Timers::FourSeconds,
                Timers::OneSecond,
            ] {
                let configuration = Configuration {
                    controller,
                    block: 256,
                    timers,
                    transfer: Transfer::Block,
                };
                let q_block = Configuration {
                    transfer: Transfer::QBlock,
                    ..configuration
                };
                for options in [configuration.options(true), q_block.options(true)] {
                    let words = ["carob", "get"].into_iter().chain(options.split(' '));
                    let parsed = Args::try_parse_from(words.chain(["coap://[::1]/"]));
                    assert!(parsed.is_ok(), "{options}: {parsed:?}");
                }
            }
        }
    }
}
