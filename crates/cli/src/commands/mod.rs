//! Commands, one file each.

#[cfg(feature = "analyze")]
pub(crate) mod analyze;
#[cfg(feature = "bench")]
pub(crate) mod bench;
pub(crate) mod cc;
mod discover;
pub(crate) mod lab;
pub(crate) mod manual;
mod observe;
mod operator;
mod ping;
#[cfg(feature = "proxy")]
mod proxy;
mod reference;
mod request;
pub(crate) mod serve;
mod stop;
#[cfg(any(feature = "dtls", feature = "tls"))]
mod tls;
pub(crate) mod trial;

use std::future::Future;
use std::io::IsTerminal as _;
use std::net::Ipv6Addr;
use std::time::Duration;

use carob::client::RequestBuilder;
use carob::{Client, Code, Config, Error, OptionNumber, ShutdownOutcome, Uri};

use crate::args::{self, Command, GroupArgs, MessageArgs, NetworkArgs, TransmissionArgs};
use crate::failure::{Failure, Kind, Outcome};
use crate::monitor::Monitor;
use crate::printer;

/// Runs a command to its end; without one, the lab's comparison for NB-IoT.
pub(crate) fn run(command: Option<Command>) -> Outcome {
    let Some(command) = command else {
        return settle(lab::default());
    };
    #[cfg(any(feature = "dtls", feature = "tls"))]
    if !is_local(&command)
        && let Err(failure) = tls::log_keys()
    {
        return settle(Err(failure));
    }
    match command {
        Command::Get(args) => until_interrupted(request::ask(Code::GET, args)),
        Command::Delete(args) => until_interrupted(request::ask(Code::DELETE, args)),
        Command::Put(args) => until_interrupted(request::send(Code::PUT, args)),
        Command::Post(args) => until_interrupted(request::send(Code::POST, args)),
        Command::Fetch(args) => until_interrupted(request::send(Code::FETCH, args)),
        Command::Patch(args) => until_interrupted(request::send(Code::PATCH, args)),
        Command::Ipatch(args) => until_interrupted(request::send(Code::IPATCH, args)),
        Command::Discover(args) => until_interrupted(discover::run(args)),
        Command::Observe(args) => on_runtime(observe::run(args)),
        Command::Ping(args) => until_interrupted(ping::run(args)),
        Command::Try(args) => on_runtime(trial::run(*args)),
        #[cfg(feature = "bench")]
        Command::Bench(args) => on_runtime(bench::run(*args)),
        Command::Serve(args) if args.sockets > 1 => {
            let mut threads = tokio::runtime::Builder::new_multi_thread();
            threads.worker_threads(args.sockets.min(carob::server::SOCKETS_MAX));
            on(&mut threads, serve::run(args))
        }
        Command::Serve(args) => on_runtime(serve::run(args)),
        #[cfg(feature = "proxy")]
        Command::Proxy(args) => on_runtime(proxy::run(*args)),
        Command::Cc { command } => settle(cc::run(&command)),
        #[cfg(feature = "analyze")]
        Command::Analyze(args) => settle(analyze::run(&args)),
        Command::Lab { command } => settle(lab::run(command)),
        Command::Setup(setup) => settle(manual::run(&setup, args::command())),
    }
}

/// Returns true for commands that open no socket.
#[cfg(any(feature = "dtls", feature = "tls"))]
fn is_local(command: &Command) -> bool {
    match command {
        #[cfg(feature = "analyze")]
        Command::Analyze(_) => true,
        Command::Cc { .. } | Command::Lab { .. } | Command::Setup(_) => true,
        _ => false,
    }
}

fn settle(result: Result<Outcome, Failure>) -> Outcome {
    result.unwrap_or_else(Outcome::Failed)
}

/// Runs on one thread: the work is the socket's, and one thread does it fastest.
fn on_runtime(command: impl Future<Output = Result<Outcome, Failure>>) -> Outcome {
    on(&mut tokio::runtime::Builder::new_current_thread(), command)
}

fn on(
    runtime: &mut tokio::runtime::Builder,
    command: impl Future<Output = Result<Outcome, Failure>>,
) -> Outcome {
    let runtime = match runtime.enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            return Failure::new(Kind::Network, format_args!("cannot start: {error}")).into();
        }
    };
    let outcome = settle(runtime.block_on(command));
    // A thread that waits for stdin would otherwise hold up the end.
    runtime.shutdown_background();
    outcome
}

/// Runs a command that Ctrl-C ends.
fn until_interrupted(command: impl Future<Output = Result<Outcome, Failure>>) -> Outcome {
    on_runtime(async {
        tokio::select! {
            outcome = command => outcome,
            Ok(()) = tokio::signal::ctrl_c() => Ok(Outcome::Interrupted),
        }
    })
}

/// A client as the options describe it, watched.
fn client(
    args: &NetworkArgs,
    monitor: &Monitor,
    settings: impl FnOnce(Config) -> Config,
) -> Result<Client, Failure> {
    let with_controller = args::timed(args.choice.cc.as_deref())?;
    let timed = adjusted(with_controller, &args.transmission);
    monitor.begin(&timed, args.transmission.any());
    let settings = settings(monitor.of_client(timed));
    #[cfg(any(feature = "dtls", feature = "tls"))]
    let settings = settings.tls(tls::of_client(&args.tls)?);
    #[cfg(feature = "dtls")]
    let settings = settings.dtls(tls::dtls_of_client(&args.psk)?);
    Ok(Client::builder().config(settings).open()?)
}

/// Config with the transmission parameters of the command line.
pub(crate) fn adjusted(settings: Config, args: &TransmissionArgs) -> Config {
    if !args.any() {
        return settings;
    }
    settings.adjust_parameters(|parameters| {
        if let Some(nstart) = args.nstart {
            parameters.nstart = nstart;
        }
        if let Some(timeout) = args.ack_timeout {
            parameters.ack_timeout = micros(timeout);
        }
        if let Some(most) = args.max_retransmit {
            parameters.max_retransmit = most;
        }
        if let Some(cap) = args.rto_max {
            parameters.rto_max = Some(micros(cap));
        }
    })
}

/// A time as controllers have it.
fn micros(time: Duration) -> carob_cc::time::Duration {
    carob_cc::time::Duration::from_micros(u64::try_from(time.as_micros()).unwrap_or(u64::MAX))
}

/// URI of a host; without a scheme the scheme is `coap`.
fn with_scheme(host: &str) -> String {
    if host.contains("://") {
        host.to_owned()
    } else if host.parse::<Ipv6Addr>().is_ok() {
        format!("coap://[{host}]")
    } else {
        format!("coap://{host}")
    }
}

/// Refuses a pre-shared key for requests that use none of it: only `coaps` does.
#[cfg(feature = "dtls")]
fn check_keys(network: &NetworkArgs, proxy: Option<&str>, uris: &[String]) -> Result<(), Failure> {
    let psk = &network.psk;
    let option = match (&psk.psk_identity, &psk.psk_file) {
        (Some(_), _) => "--psk-identity",
        (None, Some(_)) => "--psk-file",
        (None, None) => return Ok(()),
    };
    let peers: Vec<&str> = match proxy {
        Some(proxy) => vec![proxy],
        None => uris.iter().map(String::as_str).collect(),
    };
    let secured = |uri: &&str| {
        uri.get(..6)
            .is_some_and(|text| text.eq_ignore_ascii_case("coaps:"))
    };
    match peers.iter().find(|uri| !secured(uri)) {
        Some(uri) if !peers.iter().any(secured) => {
            let text = format!("{option} needs a coaps:// URI: {uri} uses no pre-shared key");
            Err(Failure::new(Kind::Usage, text).hint("coaps:// is CoAP over DTLS, at port 5684"))
        }
        _ => Ok(()),
    }
}

/// A build without DTLS has no pre-shared keys.
#[cfg(not(feature = "dtls"))]
#[expect(clippy::unnecessary_wraps, reason = "as in a build with DTLS")]
fn check_keys(_: &NetworkArgs, _: Option<&str>, _: &[String]) -> Result<(), Failure> {
    Ok(())
}

/// Requests and messages that a server cut off when it stopped.
fn cut_off(finish: &ShutdownOutcome) -> String {
    let ShutdownOutcome::Aborted {
        handlers,
        requests,
        exchanges,
    } = finish
    else {
        return "stopped".to_owned();
    };
    let counted = [
        (handlers + requests, "request"),
        (*exchanges, "unacknowledged message"),
    ];
    let counted = counted.iter().filter(|(count, _)| *count > 0);
    let counted: Vec<String> = counted
        .map(|(count, name)| format!("{count} {name}{}", if *count == 1 { "" } else { "s" }))
        .collect();
    if counted.is_empty() {
        return "stopped before everything was finished".to_owned();
    }
    format!("stopped with {} under way", counted.join(" and "))
}

/// Config with the options of multicast requests.
fn to_groups(mut settings: Config, args: &GroupArgs) -> Config {
    if let Some(interface) = &args.interface {
        settings = settings.group_interface(interface);
    }
    if let Some(hops) = args.hops {
        settings = settings.group_hops(hops);
    }
    settings
}

/// Config with the message options of the command line.
fn messages(settings: Config, args: &MessageArgs) -> Config {
    let mut settings = counted(settings, args.count_option);
    if let Some(length) = args.token_length {
        settings = settings.token_length(length);
    }
    match args.block_size {
        Some(size) => settings
            .block_size(size)
            .engine(|config| config.negotiate_early = true),
        None => settings,
    }
}

/// A request through the proxy of the command line.
fn via(request: RequestBuilder, args: &MessageArgs) -> RequestBuilder {
    match &args.proxy {
        Some(proxy) => request.via(proxy),
        None => request,
    }
}

/// Config with the option that counts retransmissions, if one was set.
fn counted(settings: Config, option: Option<OptionNumber>) -> Config {
    match option {
        Some(number) => settings.retransmission_count_option(number),
        None => settings,
    }
}

/// Does the same for each URI, one after the other; the command ends as the worst of them.
///
/// With `titled`, a terminal shows each URI before its answer.
async fn each(
    uris: &[String],
    titled: bool,
    one: impl AsyncFn(&str) -> Result<Outcome, Failure>,
) -> Result<Outcome, Failure> {
    if let [uri] = uris {
        return one(uri).await;
    }
    // One that cannot be understood is found before anything is sent.
    for uri in uris {
        Uri::parse(uri).map_err(|source| Error::Uri {
            uri: uri.clone(),
            source,
        })?;
    }
    let titled = titled && std::io::stdout().is_terminal();
    let mut worst = 0;
    for uri in uris {
        if titled {
            printer::uri(uri);
        }
        let outcome = settle(one(uri).await);
        if let Outcome::Failed(failure) = &outcome {
            printer::failure(failure);
        }
        worst = worst.max(outcome.number());
    }
    Ok(Outcome::Told(worst))
}
