//! `carob bench`: loads a server and measures its answers. The crate `carob-bench` does both; here are options and output.

mod plan;
mod print;

use std::io;
use std::time::{Duration, Instant};

use carob::{Error, Uri};
use carob_bench::{Load, Plan, Report, Running, Verdict};

use super::stop::Stop;
use crate::args::bench::BenchArgs;
use crate::failure::{Failure, Kind, Outcome};
use crate::printer;

/// Interval at which the threads are checked for their end.
const LOOK: Duration = Duration::from_millis(20);

/// Loads the server, and prints the results.
pub(crate) async fn run(args: BenchArgs) -> Result<Outcome, Failure> {
    let outcome = load(&args).await;
    if args.json
        && let Err(failure) = &outcome
    {
        printer::failure_json(&args.uri, failure, None);
    }
    outcome
}

async fn load(args: &BenchArgs) -> Result<Outcome, Failure> {
    let plan = plan::of(args)?;
    if let Some(pid) = args.server_pid
        && !carob_bench::has_process(pid)
    {
        let text = format!("--server-pid: there is no process {pid} to look at");
        return Err(Failure::new(Kind::Usage, text).hint("`pgrep NAME` finds a server's number"));
    }
    let uri = plan.target.uri.clone();
    let failed = |error| cannot(error, &uri);
    let load = Load::new(plan, args.server_pid).map_err(failed)?;
    let mut stop = Stop::listen()?;
    let mut interrupted = false;
    let starting = load.clone();
    let mut starting = tokio::task::spawn_blocking(move || starting.start());
    let started = tokio::select! {
        started = &mut starting => started,
        () = stop.asked() => {
            interrupted = true;
            load.stop();
            starting.await
        }
    };
    let started = started.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
    let running = started.map_err(failed)?;
    interrupted |= watch(&load, &running, &mut stop).await;
    let results = running.join(interrupted).map_err(failed)?;
    let (plan, report) = (load.plan(), &results.report);
    if args.json {
        printer::json(report);
    } else {
        print::table(plan, report);
    }
    if let Some(path) = &args.histogram {
        std::fs::write(path, results.distribution)
            .map_err(|error| Failure::file("write", path, &error))?;
    }
    Ok(if interrupted {
        Outcome::Interrupted
    } else {
        outcome(plan, report, results.verdict)
    })
}

/// Shows progress until all threads have ended; whether Ctrl-C ended them.
async fn watch(load: &Load, running: &Running, stop: &mut Stop) -> bool {
    let progress = print::Progress::new(load.plan());
    let began = Instant::now();
    let mut interrupted = false;
    while !running.is_finished() {
        tokio::select! {
            () = stop.asked(), if !interrupted => {
                interrupted = true;
                load.stop();
            }
            () = tokio::time::sleep(LOOK) => {}
        }
        progress.show(began.elapsed(), load.progress());
    }
    progress.end();
    interrupted
}

/// The outcome of the command.
fn outcome(plan: &Plan, report: &Report, verdict: Verdict) -> Outcome {
    let uri = &plan.target.uri;
    match verdict {
        Verdict::Refused(code) => {
            print::refused(plan, code);
            Outcome::Response(code)
        }
        Verdict::NoAnswer(matched_none) => no_answer(plan, report, matched_none).into(),
        Verdict::Failed(error) => {
            let text = format_args!("{uri}: no request succeeded: {}", error.words());
            Failure::new(Kind::Network, text).into()
        }
        Verdict::Done => Outcome::Done,
    }
}

fn no_answer(plan: &Plan, report: &Report, matched_none: bool) -> Failure {
    let uri = &plan.target.uri;
    let seconds = plan.timeout.as_secs_f64();
    let failure = Failure::new(
        Kind::NoAnswer,
        format_args!("{uri} answered no request within {seconds} s"),
    );
    match &report.unreachable {
        Some(said) => failure.hint(format_args!("the network reports: {said}")),
        None if matched_none => failure
            .hint("responses arrived, but none matched its request; the counts name the kinds"),
        None => failure.hint("the host may be off, filtered or asleep, or the path very lossy"),
    }
}

/// The failure to get a socket, a session or a thread for a load on `uri`.
fn cannot(error: io::Error, uri: &Uri) -> Failure {
    let error = match error.downcast::<Error>() {
        Ok(no_session) => return Failure::of_request(no_session, &uri.to_string(), 0),
        Err(error) => error,
    };
    let failure = Failure::new(
        Kind::Network,
        format_args!("cannot load the server: {error}"),
    );
    match error.kind() {
        io::ErrorKind::AddrInUse => failure.hint("no source port is free; use fewer --ports"),
        io::ErrorKind::NetworkUnreachable | io::ErrorKind::HostUnreachable => {
            failure.hint("check the address and the route to it")
        }
        _ if is_too_many_files(&error) => {
            failure.hint("use fewer --ports, or allow more open files: `ulimit -n`")
        }
        _ => failure,
    }
}

#[cfg(unix)]
fn is_too_many_files(error: &io::Error) -> bool {
    use nix::errno::Errno;
    let number = error.raw_os_error();
    [Errno::EMFILE, Errno::ENFILE]
        .map(|errno| Some(errno as i32))
        .contains(&number)
}

#[cfg(not(unix))]
fn is_too_many_files(_: &io::Error) -> bool {
    false
}
