//! What can be typed.

mod values;

use std::path::PathBuf;
use std::time::Duration;

use carob::{BlockSize, ContentFormat};
use clap::{Parser, Subcommand};

use crate::commands::lab::LabCommand;
use crate::failure::EXIT_CODES;
use crate::formats;

pub(crate) use values::{authority, controller, nearest};

const EXAMPLES: &str = "\
Examples:
  carob get coap://device.example/temperature
  carob get coap://[::1]/large -o large.bin --cc cocoa-03
  carob put coap://localhost/notes.txt 'remember the milk'
  carob put coap://localhost/firmware.bin --file firmware.bin
  journalctl -n 5 | carob post coap://localhost/echo -
  carob discover device.example --filter 'rt=temperature*'
  carob ping coap://192.0.2.7
  carob serve --dir ./public
  carob cc list
  carob lab run thesis/long";

/// CoAP with congestion control you can choose. Without a command: a comparison of controllers in
/// the lab that takes seconds.
#[derive(Debug, Parser)]
#[command(
    name = "carob",
    version,
    after_help = const_format(),
    max_term_width = 100
)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

fn const_format() -> String {
    format!("{EXAMPLES}\n\n{EXIT_CODES}")
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Read a resource
    #[command(after_help = EXIT_CODES)]
    Get(RequestArgs),
    /// Create or replace a resource
    #[command(after_help = EXIT_CODES)]
    Put(SendArgs),
    /// Send something to a resource and show its answer
    #[command(after_help = EXIT_CODES)]
    Post(SendArgs),
    /// Delete a resource
    #[command(after_help = EXIT_CODES)]
    Delete(RequestArgs),
    /// List what a host offers
    #[command(after_help = EXIT_CODES)]
    Discover(DiscoverArgs),
    /// Ask whether a CoAP endpoint is there
    #[command(after_help = EXIT_CODES)]
    Ping(PingArgs),
    /// Serve demo resources, and files if given a folder
    #[command(after_help = EXIT_CODES)]
    Serve(ServeArgs),
    /// List and explain the congestion controllers
    #[command(after_help = EXIT_CODES)]
    Cc {
        #[command(subcommand)]
        command: CcCommand,
    },
    /// Experiments on a simulated network: scenarios, reports, the studies' tables
    Lab {
        #[command(subcommand)]
        command: LabCommand,
    },
}

/// What every exchange can be told.
#[derive(Debug, clap::Args)]
pub(crate) struct ExchangeArgs {
    /// What to ask: coap://HOST[:PORT]/PATH[?QUERY]
    #[arg(value_name = "URI")]
    pub(crate) uri: String,
    /// The congestion controller (see `carob cc list`)
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub(crate) cc: String,
    /// Give up after this long, such as 5s or 400ms
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    pub(crate) deadline: Option<Duration>,
    /// Print one JSON object instead of the body
    #[arg(long)]
    pub(crate) json: bool,
    /// Show code, options and timing on stderr
    #[arg(short, long)]
    pub(crate) verbose: bool,
}

/// What every request can be told.
#[derive(Debug, clap::Args)]
pub(crate) struct RequestArgs {
    #[command(flatten)]
    pub(crate) exchange: ExchangeArgs,
    /// Write the response's body to a file
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// The format to ask for: json, cbor, text, link, ..., a media type or a number
    #[arg(long, value_name = "FORMAT", value_parser = formats::parse)]
    pub(crate) accept: Option<ContentFormat>,
    /// The largest block to send or ask for, in bytes
    #[arg(long, value_name = "BYTES", value_parser = values::block_size)]
    pub(crate) block_size: Option<BlockSize>,
    /// Send as NON: not repeated if lost
    #[arg(long)]
    pub(crate) non: bool,
}

/// What requests with a body can be told.
#[derive(Debug, clap::Args)]
pub(crate) struct SendArgs {
    #[command(flatten)]
    pub(crate) request: RequestArgs,
    /// The body; `-` reads it from stdin
    #[arg(value_name = "PAYLOAD", conflicts_with = "file")]
    pub(crate) payload: Option<String>,
    /// Send a file as the body
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// The format of the body: see --accept
    #[arg(long, value_name = "FORMAT", value_parser = formats::parse)]
    pub(crate) format: Option<ContentFormat>,
}

/// What a discovery can be told.
#[derive(Debug, clap::Args)]
pub(crate) struct DiscoverArgs {
    /// Whom to ask: HOST[:PORT], or a URI, whose path may name another list than
    /// /.well-known/core
    #[arg(value_name = "HOST")]
    pub(crate) host: String,
    /// Only what matches, such as rt=temperature*, href=/sensors/* or obs; of several, all must
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) filter: Vec<String>,
    /// Print links as they are, a line each
    #[arg(long, conflicts_with = "json")]
    pub(crate) raw: bool,
    /// The congestion controller (see `carob cc list`)
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub(crate) cc: String,
    /// Give up after this long, such as 5s or 400ms
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    pub(crate) deadline: Option<Duration>,
    /// Print a JSON array instead of a table
    #[arg(long)]
    pub(crate) json: bool,
}

/// What a ping can be told.
#[derive(Debug, clap::Args)]
pub(crate) struct PingArgs {
    #[command(flatten)]
    pub(crate) exchange: ExchangeArgs,
}

/// What the server can be told.
#[derive(Debug, clap::Args)]
pub(crate) struct ServeArgs {
    /// Where to listen; [::] takes IPv4 too
    #[arg(long, value_name = "ADDRESS", default_value = "[::]:5683")]
    pub(crate) bind: String,
    /// Serve the files of this folder; links are not followed
    #[arg(long, value_name = "FOLDER")]
    pub(crate) dir: Option<PathBuf>,
    /// Let clients PUT and DELETE files
    #[arg(long, requires = "dir")]
    pub(crate) writable: bool,
    /// The congestion controller (see `carob cc list`)
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub(crate) cc: String,
    /// Print the ready line as a JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// What can be asked about controllers.
#[derive(Debug, Subcommand)]
pub(crate) enum CcCommand {
    /// List them
    List {
        /// Print a JSON array
        #[arg(long)]
        json: bool,
        /// As the document docs/controllers.md
        #[arg(long, hide = true, conflicts_with = "json")]
        markdown: bool,
    },
    /// Explain one: its source and constants
    Show {
        /// Its name
        name: String,
        /// Print a JSON object
        #[arg(long)]
        json: bool,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_definition_is_consistent() {
        Args::command().debug_assert();
    }
}
