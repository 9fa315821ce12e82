//! `carob bench`: loads a server and measures its answers.
//!
//! `plan` has the settings, `worker` sends requests and bodies on ports
//! (`ports`, `port`) that drive the protocol engine over separate sockets: the library's client
//! costs half as much again for each request as the server that it would load. Over coaps a port has
//! a DTLS session (`session`). `counters` and `window` count, `report` and `print` format the results.

mod answers;
mod args;
mod arrivals;
mod body;
mod control;
mod counters;
mod cpu;
mod entropy;
mod pace;
mod plan;
mod port;
mod ports;
mod print;
mod report;
mod session;
mod slots;
mod socket;
mod source_ports;
mod window;
mod worker;

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use carob::{Error, Uri};

use control::Control;
use counters::{Counters, ErrorKind};
use plan::Plan;
use ports::Clock;
use report::Report;
use source_ports::SourcePorts;
use window::Outcome as Measured;
use worker::Worker;

use super::stop::Stop;
use crate::failure::{Failure, Kind, Outcome};
use crate::printer;

pub(crate) use args::BenchArgs;

/// Interval at which the threads are checked for their end.
const LOOK: Duration = Duration::from_millis(20);

type Running = JoinHandle<io::Result<Measured>>;

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
    let plan = Arc::new(Plan::new(args)?);
    if let Some(pid) = args.server_pid
        && cpu::of_process(pid).is_none()
    {
        let text = format!("--server-pid: there is no process {pid} to look at");
        return Err(Failure::new(Kind::Usage, text).hint("`pgrep NAME` finds a server's number"));
    }
    socket::raise_socket_limit();
    let config = plan.config();
    let fresh = SourcePorts::new(config.parameters.exchange_lifetime().into());
    let fresh = fresh.map_err(|error| cannot(error, &plan.target.uri))?;
    let control = Arc::new(Control::new(plan.threads, fresh, args.server_pid));
    let mut stop = Stop::listen()?;
    let mut interrupted = false;
    let threads = {
        let (of_plan, of_control) = (Arc::clone(&plan), Arc::clone(&control));
        let start = move || start(&of_plan, &of_control);
        let mut starting = tokio::task::spawn_blocking(start);
        let started = tokio::select! {
            started = &mut starting => started,
            () = stop.asked() => {
                interrupted = true;
                control.stop();
                starting.await
            }
        };
        let started = started.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
        started.map_err(|error| cannot(error, &plan.target.uri))?
    };
    interrupted |= watch(&plan, &control, &threads, &mut stop).await;
    let mut measured: Option<Measured> = None;
    for thread in threads {
        let of_thread = thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            .map_err(|error| cannot(error, &plan.target.uri))?;
        match &mut measured {
            Some(all) => all.add(of_thread),
            None => measured = Some(of_thread),
        }
    }
    let mut measured = measured.unwrap_or_default();
    measured.settle();
    let latency = measured.measured.latency.clone();
    let ending = ending(&plan, &measured, interrupted);
    let recurred = control.source_ports.recurred();
    let mut report = Report::new(&plan, measured, recurred, args.server_pid);
    report.interrupted = interrupted;
    if args.json {
        printer::json(&report);
    } else {
        print::table(&plan, &report);
    }
    if let Some(path) = &args.histogram {
        std::fs::write(path, print::distribution(&latency))
            .map_err(|error| Failure::file("write", path, &error))?;
    }
    Ok(ending)
}

/// Opens the ports and starts the threads, all on one clock.
fn start(plan: &Arc<Plan>, control: &Arc<Control>) -> io::Result<Vec<Running>> {
    // All ports are open, and have their sessions, before the clock starts, so that this delays
    // nothing.
    let workers: io::Result<Vec<Worker>> = (0..plan.threads)
        .map(|thread| Worker::open(Arc::clone(plan), Arc::clone(control), thread))
        .collect();
    let clock = Clock::start();
    workers?
        .into_iter()
        .map(|worker| {
            let control = Arc::clone(control);
            let load = move || {
                let outcome = worker.run(clock);
                if outcome.is_err() {
                    // The other threads would measure something else than was requested.
                    control.stop();
                }
                outcome
            };
            thread::Builder::new().name("load".to_owned()).spawn(load)
        })
        .collect()
}

/// Shows progress until all threads have ended; whether Ctrl-C ended them.
async fn watch(plan: &Plan, control: &Control, threads: &[Running], stop: &mut Stop) -> bool {
    let progress = print::Progress::new(plan);
    let began = Instant::now();
    let mut interrupted = false;
    while !threads.iter().all(JoinHandle::is_finished) {
        tokio::select! {
            () = stop.asked(), if !interrupted => {
                interrupted = true;
                control.stop();
            }
            () = tokio::time::sleep(LOOK) => {}
        }
        progress.show(began.elapsed(), control.progress());
    }
    progress.end();
    interrupted
}

/// The outcome of the command.
fn ending(plan: &Plan, measured: &Measured, interrupted: bool) -> Outcome {
    if interrupted {
        return Outcome::Interrupted;
    }
    let counters = &measured.measured;
    if counters.answered > 0 || counters.errors() == 0 {
        return Outcome::Done;
    }
    let refusal = counters.refusals().max_by_key(|(_, count)| *count);
    let silent: u64 = [ErrorKind::Timeout, ErrorKind::Unreachable]
        .into_iter()
        .map(|error| counters.failures_of(error))
        .sum();
    match refusal {
        Some((code, count)) if count >= silent => {
            print::refused(plan, code);
            Outcome::Response(code)
        }
        _ if silent * 2 >= counters.errors() => no_answer(plan, measured).into(),
        _ => wrong_answers(plan, counters).into(),
    }
}

fn no_answer(plan: &Plan, measured: &Measured) -> Failure {
    let uri = &plan.target.uri;
    let seconds = plan.timeout.as_secs_f64();
    let failure = Failure::new(
        Kind::NoAnswer,
        format_args!("{uri} answered no request within {seconds} s"),
    );
    match &measured.traffic.unreachable {
        Some(said) => failure.hint(format_args!("the network reports: {said}")),
        None if measured.traffic.wrong() > 0 => failure
            .hint("responses arrived, but none matched its request; the counts name the kinds"),
        None => failure.hint("the host may be off, filtered or asleep, or the path very lossy"),
    }
}

fn wrong_answers(plan: &Plan, counters: &Counters) -> Failure {
    let error = ErrorKind::ALL
        .into_iter()
        .max_by_key(|error| counters.failures_of(*error))
        .unwrap_or(ErrorKind::NotTaken);
    let uri = &plan.target.uri;
    let text = format_args!("{uri}: no request succeeded: {}", error.words());
    Failure::new(Kind::Network, text)
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
