//! What can be typed after `carob cc`.

use std::fmt::Write as _;
use std::path::PathBuf;

use carob_lab::replay::{EVENTS_MAX, VOCABULARY};
use clap::{ArgGroup, Subcommand, ValueEnum};

const TRACE_EXAMPLES: &str = "\
Examples:
  carob cc trace --demo
  carob cc trace --demo -a 'cocoa*' --set cc.k_weak=4 --figure weak.svg
  printf 'rtt 400 ms x 5\\nlost 2, rtt 400 ms\\nidle 1 min\\nrtt 400 ms\\n' | carob cc trace -
  carob get coap://localhost/large -o large.bin --log get.jsonl && carob cc trace get.jsonl
  carob lab run thesis/long-1c-high-2500 -a cocoa-001 --seed 7 --log lab.jsonl
  carob cc trace lab.jsonl -a default,cocoa-001 --json

A file says what the path does, one event a line; # begins a remark:
";

const TRACE_RULES: &str = "
An exchange begins when the one before is over. A lost copy is followed by the next when its timer
runs out, which is the controller's own; an answer that takes longer than the timer finds further
copies on their way. A log does not say which copies were lost: those that were never answered are
taken for lost, the first ones first.";

/// What follows the options of `carob cc trace`.
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

/// What can be asked about controllers.
#[derive(Debug, Subcommand)]
pub(crate) enum CcCommand {
    /// List the controllers
    List {
        /// Print a JSON array
        #[arg(long)]
        json: bool,
        /// As the document docs/controllers.md
        #[arg(long, hide = true, conflicts_with = "json")]
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
    /// Show the timers that controllers set for given round trips and losses
    Trace(TraceArgs),
}

/// What to replay and how to show it.
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is an option of the command line"
)]
#[derive(Clone, Debug, Default, clap::Args)]
#[command(group = ArgGroup::new("input").required(true).args(["file", "demo"]))]
pub(crate) struct TraceArgs {
    /// Round trips, losses and pauses, one a line, or an event log (--log); `-` is stdin
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// A built-in story: drift, losses, a late answer, a full buffer, silence
    #[arg(long)]
    pub(crate) demo: bool,
    /// Controllers (see `carob cc list`), patterns such as 'cocoa*', or all; without it those that
    /// differ most
    #[arg(short, long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) algorithm: Vec<String>,
    /// Change a constant or a transmission parameter: cc.k_weak=4, max_retransmit=20, rto_max='60 s'
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Where in its range every random draw is
    #[arg(
        long,
        value_name = "PLACE",
        value_enum,
        default_value_t,
        conflicts_with = "seed"
    )]
    pub(crate) dither: Place,
    /// Draw at random from this seed instead, the same for every controller
    #[arg(long, value_name = "SEED")]
    pub(crate) seed: Option<u64>,
    /// Of a log with several senders, the one with this in its name
    #[arg(long, value_name = "TEXT")]
    pub(crate) from: Option<String>,
    /// Every event in the table, however uneventful
    #[arg(long)]
    pub(crate) each: bool,
    /// Print one JSON object per controller, a line each
    #[arg(long, conflicts_with = "csv")]
    pub(crate) json: bool,
    /// Print comma-separated values, a line per controller and event
    #[arg(long)]
    pub(crate) csv: bool,
    /// Print the figure
    #[arg(long, hide = true, conflicts_with_all = ["json", "csv"])]
    pub(crate) svg: bool,
    /// Write the figure to this SVG file instead of ./reports/trace-NAME.svg (with --json and --csv
    /// there is none without this)
    #[arg(long, value_name = "FILE")]
    pub(crate) figure: Option<PathBuf>,
    /// Write no figure
    #[arg(long, conflicts_with = "figure")]
    pub(crate) no_figure: bool,
}

/// A place in a range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Place {
    /// Its shortest time
    Low,
    /// Half way, so that controllers are compared and not luck
    #[default]
    Middle,
    /// Its longest time
    High,
}
