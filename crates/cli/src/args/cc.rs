//! Arguments of `carob cc`.

use std::fmt::Write as _;
use std::path::PathBuf;

use carob_lab::replay::{EVENTS_MAX, VOCABULARY};
use clap::{ArgGroup, Subcommand, ValueEnum};

const TRACE_EXAMPLES: &str = "\
Examples:
  carob cc trace --demo
  carob cc trace --demo -a 'cocoa*' --set cc.k_weak=4 --figure weak.svg
  printf 'rtt 400 ms x 5\\nlost 2, rtt 400 ms\\nidle 1 min\\nrtt 400 ms\\n' | carob cc trace -

A file has the events of a path, one a line; # begins a comment:
";

const TRACE_RULES: &str = "
An exchange begins when the one before has ended. A lost transmission is followed by the next one
after the controller's timeout; a reply slower than the timeout causes spurious retransmissions.

`carob analyze` runs controllers beside the sender of a capture or event log.";

const NEW_EXAMPLES: &str = "\
Examples:
  carob cc new my-cc
  carob cc new my-cc --path controllers/my-cc --carob ~/carob

The crate has a small working controller, a test of the contract that controllers keep, and a program
with all commands of carob that also takes the new name.";

/// Arguments of `carob cc new`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct NewArgs {
    /// The controller's name, and the crate's
    pub(crate) name: String,
    /// Folder for the crate [default: NAME]
    #[arg(long, value_name = "DIR")]
    pub(crate) path: Option<PathBuf>,
    /// Checkout of carob that the crate depends on
    ///
    /// Default: the checkout that contains the current folder, else the version of this program in the
    /// package registry.
    #[arg(long, value_name = "DIR")]
    pub(crate) carob: Option<PathBuf>,
}

/// The text after the options of `carob cc trace`.
pub(crate) fn trace_help() -> String {
    let mut text = TRACE_EXAMPLES.to_owned();
    let width = VOCABULARY.iter().map(|(line, _)| line.len()).max();
    let width = width.unwrap_or_default();
    for (line, meaning) in VOCABULARY {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  {line:width$}  {meaning}");
    }
    let _ = writeln!(text, "At most {EVENTS_MAX} events.");
    text + TRACE_RULES
}

/// Commands about controllers.
#[derive(Debug, Subcommand)]
pub(crate) enum CcCommand {
    /// List the controllers
    List {
        /// Print a JSON array
        #[arg(long)]
        json: bool,
        /// Print the document docs/controllers.md
        #[arg(long, hide_short_help = true, conflicts_with = "json")]
        markdown: bool,
    },
    /// Explain a controller: its source and constants
    Show {
        /// The controller's name
        name: String,
        /// Print a JSON object
        #[arg(long)]
        json: bool,
    },
    /// Write a crate with a controller of your own, which runs in the lab
    #[command(after_long_help = NEW_EXAMPLES)]
    New(NewArgs),
    /// Show the timers that controllers set for given round trips and losses
    Trace(TraceArgs),
}

/// Arguments of `carob cc trace`.
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is an option of the command line"
)]
#[derive(Clone, Debug, Default, clap::Args)]
#[command(group = ArgGroup::new("input").required(true).args(["file", "demo"]))]
pub(crate) struct TraceArgs {
    /// A script of round trips, losses and pauses; `-` is stdin
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Run a built-in script: drift, losses, a late reply, a full buffer, silence
    #[arg(long)]
    pub(crate) demo: bool,
    /// Controllers to trace [default: those that differ most]
    ///
    /// Names (see `carob cc list`), patterns such as 'cocoa*', or all.
    #[arg(short, long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) algorithm: Vec<String>,
    /// Override of a constant or a transmission parameter: cc.k_weak=4
    ///
    /// Other examples: max_retransmit=20, rto_max='60 s'.
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Place of every random draw in its range
    #[arg(
        long,
        value_name = "PLACE",
        value_enum,
        default_value_t,
        conflicts_with = "seed"
    )]
    pub(crate) dither: Place,
    /// Seed of random draws instead of --dither, common to all controllers
    #[arg(long, value_name = "SEED")]
    pub(crate) seed: Option<u64>,
    /// Print every event in the table
    #[arg(long)]
    pub(crate) each: bool,
    /// Print one JSON object per controller, a line each
    #[arg(long, conflicts_with = "csv")]
    pub(crate) json: bool,
    /// Print comma-separated values, a line per controller and event
    #[arg(long)]
    pub(crate) csv: bool,
    /// Print the figure
    #[arg(long, hide_short_help = true, conflicts_with_all = ["json", "csv"])]
    pub(crate) svg: bool,
    /// File for the figure [default: ./reports/trace-NAME.svg]
    ///
    /// With --json and --csv there is no figure unless this option is given.
    #[arg(long, value_name = "FILE")]
    pub(crate) figure: Option<PathBuf>,
    /// Write no figure
    #[arg(long, conflicts_with = "figure")]
    pub(crate) no_figure: bool,
}

/// A place in a range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Place {
    /// The shortest time
    Low,
    /// The middle, so that a comparison does not depend on chance
    #[default]
    Middle,
    /// The longest time
    High,
}
