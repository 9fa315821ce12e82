//! What the verbs do, one file each.

pub(crate) mod cc;
mod controllers;
mod discover;
pub(crate) mod lab;
mod ping;
pub(crate) mod request;
mod serve;
mod stop;

use std::future::Future;

use carob::{Client, Code, Settings};

use crate::args::{self, CcCommand, Command, ExchangeArgs};
use crate::failure::{Failure, Kind, Outcome};

/// Runs a command to its end; without one, the lab's default comparison.
pub(crate) fn run(command: Option<Command>) -> Outcome {
    let Some(command) = command else {
        return settle(lab::default());
    };
    match command {
        Command::Get(args) => until_interrupted(request::run(Code::GET, args, None)),
        Command::Delete(args) => until_interrupted(request::run(Code::DELETE, args, None)),
        Command::Put(args) => until_interrupted(request::send(Code::PUT, args)),
        Command::Post(args) => until_interrupted(request::send(Code::POST, args)),
        Command::Discover(args) => until_interrupted(discover::run(args)),
        Command::Ping(args) => until_interrupted(ping::run(args)),
        Command::Serve(args) => on_runtime(serve::run(args)),
        Command::Cc {
            command: CcCommand::List { markdown: true, .. },
        } => controllers::document(),
        Command::Cc {
            command: CcCommand::List { json, .. },
        } => cc::list(json),
        Command::Cc {
            command: CcCommand::Show { name, json },
        } => settle(cc::show(&name, json)),
        Command::Lab { command } => settle(lab::run(command)),
    }
}

fn settle(result: Result<Outcome, Failure>) -> Outcome {
    result.unwrap_or_else(Outcome::Failed)
}

/// Runs on one thread: the work is the socket's, and one thread does it fastest.
fn on_runtime(command: impl Future<Output = Result<Outcome, Failure>>) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = match runtime {
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

/// A client as the options describe it.
fn client(
    args: &ExchangeArgs,
    settings: impl FnOnce(Settings) -> Settings,
) -> Result<Client, Failure> {
    let with_controller = Settings::new().controller(args::controller(&args.cc)?);
    Ok(Client::builder()
        .settings(settings(with_controller))
        .open()?)
}
