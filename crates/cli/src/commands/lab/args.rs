//! What can be typed after `carob lab`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Subcommand;

use crate::args::duration;

const RUN_EXAMPLES: &str = "\
Examples:
  carob lab run thesis/long --seeds 200
  carob lab run thesis/long-1c-high-2500 --algorithm default,cocoa-03
  carob lab run thesis/long-1c-high-2500 --seed 7
  carob lab run 'thesis/long-1c-*-2500' --algorithm all
  carob lab run thesis/long --set 'extra_delay=10-20 ms' --set error=high --json
  carob lab run thesis/long-1c-high-2500 --algorithm cocoa-03 --set cc.k_weak=4
  carob lab run nonobserve/gprs-60s-100S5n --aggregate
  carob lab run thesis/long-1c-none-28200 --algorithm tcp-newreno,tcp-bbr1
  carob lab run thesis/long-1c-none-28200 --algorithm tcp-newreno --set tcp.sack=true
  carob lab run thesis/long-1c-low-14100 --algorithm tcp-bbr1 --seed 1 --pcap bbr.pcapng

`carob lab keys` lists every key that --set takes, `carob lab show NAME` those of a scenario.";

const EMULATE_EXAMPLES: &str = "\
Examples:
  sudo carob lab emulate thesis/long-1c-none-inf --seeds 5
  sudo carob lab emulate 'thesis/long-1c-none-*' --algorithm tcp-newreno --limit 10min --json

All runs go at once, and take as long as they take: error-free transfers of the thesis 5 minutes, those
with errors up to 75. Results are refused if packets were late: the 99th percentile must not exceed 2 ms.";

const CLAIMS_EXAMPLES: &str = "\
Examples:
  carob lab claims
  carob lab claims thesis --json
  carob lab claims thesis --part long --fresh --seeds 20

A claim holds if every check of its rule does (papers/STUDY/rules/), holds-partly if at least half
do; below that it fails if one fails, and else is undecided.";

/// The verbs of the lab.
#[derive(Debug, Subcommand)]
pub(crate) enum LabCommand {
    /// List the scenarios, study by study
    List {
        /// Print a JSON array
        #[arg(long)]
        json: bool,
    },
    /// Explain a scenario or one of its cells: every setting and where it comes from
    Show {
        /// A scenario, one of its cells, or a TOML file
        name: String,
        /// Change a setting first, as for `run`
        #[arg(long, value_name = "KEY=VALUE")]
        set: Vec<String>,
        /// Other algorithms than the scenario's own
        #[arg(long, value_name = "NAMES", value_delimiter = ',')]
        algorithm: Vec<String>,
        /// Print a JSON object
        #[arg(long)]
        json: bool,
        /// Draw the wireless network as SVG instead: nodes, links, and RPL's tree before the traffic
        #[arg(long, conflicts_with = "json")]
        topology: bool,
        /// Seed of the run whose tree is drawn; the scenario's first without
        #[arg(long, value_name = "SEED", requires = "topology")]
        seed: Option<u64>,
    },
    /// Run a scenario: a table, and a report with figures
    #[command(after_help = RUN_EXAMPLES)]
    Run(RunArgs),
    /// Run a scenario in real time over the kernel's sockets, its links emulated (Linux, root)
    #[command(after_help = EMULATE_EXAMPLES)]
    Emulate(EmulateArgs),
    /// Show a study's printed tables beside ours
    Reproduce(ReproduceArgs),
    /// Judge what the studies claim by our runs
    #[command(after_help = CLAIMS_EXAMPLES)]
    Claims(ClaimsArgs),
    /// List the keys of scenario files and --set
    Keys {
        /// As the document docs/scenario-keys.md
        #[arg(long)]
        markdown: bool,
    },
}

/// What to run and how to show it.
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is an option of the command line"
)]
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct RunArgs {
    /// A scenario (thesis/long), one of its cells (thesis/long-1c-none-2500) or those that a
    /// pattern fits (thesis/long-1c-*-2500), or a TOML file; without it a small comparison that
    /// takes seconds
    pub(crate) name: Option<String>,
    /// Algorithms instead of the scenario's own: controllers over UDP (see `carob cc list`), and
    /// tcp-newreno, tcp-cubic and tcp-bbr1 over TCP; cocoa-* is every one whose name fits, all is
    /// every one over UDP
    #[arg(short, long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) algorithm: Vec<String>,
    /// Runs per cell and algorithm
    #[arg(long, value_name = "N", value_parser = crate::args::at_least_one)]
    pub(crate) seeds: Option<u64>,
    /// One run only, with this seed; the report draws it
    #[arg(long, value_name = "SEED", conflicts_with = "seeds")]
    pub(crate) seed: Option<u64>,
    /// Change a setting; units are written, as in 'down.rate=60 kbit/s'
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Give a notifying server one budget for all its clients: short for --set workload.aggregate=on
    #[arg(long)]
    pub(crate) aggregate: bool,
    /// Write every protocol event of the run as a line of JSON, in the form of `carob serve --log`;
    /// host 0 is the first client, the server comes last
    #[arg(long, value_name = "FILE", requires = "seed")]
    pub(crate) log: Option<PathBuf>,
    /// Write the packets of the run as a capture (pcapng) that Wireshark reads, at virtual times, as
    /// the clients see them over UDP and the server over TCP
    #[arg(long, value_name = "FILE", requires = "seed")]
    pub(crate) pcap: Option<PathBuf>,
    /// Print one JSON object per cell and algorithm, a line each
    #[arg(long, conflicts_with = "csv")]
    pub(crate) json: bool,
    /// Print comma-separated values, a line per metric
    #[arg(long)]
    pub(crate) csv: bool,
    /// Print a figure as an SVG file: the box plot, the link over time, what comes of a crowd as it
    /// grows, its timers, or who gives way to whom
    #[arg(long, hide = true, value_name = "FIGURE", num_args = 0..=1,
          default_missing_value = "boxes", conflicts_with_all = ["json", "csv"])]
    pub(crate) svg: Option<Figure>,
    /// Keep every run that is done in this file, and take from it those that are there: a sweep that
    /// was killed goes on where it stopped
    #[arg(long, value_name = "FILE", conflicts_with_all = ["log", "pcap"])]
    pub(crate) journal: Option<PathBuf>,
    /// One object, line or row per run, with its seed and trace hash
    #[arg(long)]
    pub(crate) each: bool,
    /// Add hashes of scenario and traces, which tell whether two programs did the same
    #[arg(long)]
    pub(crate) hash: bool,
    #[command(flatten)]
    pub(crate) report: ReportArgs,
    #[command(flatten)]
    pub(crate) threads: ThreadArgs,
}

/// A figure of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Figure {
    /// Completion times.
    Boxes,
    /// What crowds make of the link.
    Link,
    /// Throughput and success against the number of clients.
    Clients,
    /// The timers of all clients of a crowd.
    Timers,
    /// Pairs of algorithms on a shared link.
    Mix,
    /// What arrives of notifications.
    Pdr,
    /// A notifying server's timeouts in the beginning.
    Rto,
    /// What wireless networks carry against what they are offered.
    Load,
    /// A node's routes and timers over time.
    Circle,
    /// Hops and neighbours of a wireless network's nodes.
    Depth,
}

/// What study to compare with and how to show it.
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is an option of the command line"
)]
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ReproduceArgs {
    /// The study's short name (see `carob lab list`)
    pub(crate) study: String,
    /// Run everything again instead of showing the results kept with the program
    #[arg(long)]
    pub(crate) fresh: bool,
    /// Runs per cell and algorithm; implies --fresh
    #[arg(long, value_name = "N", value_parser = crate::args::at_least_one)]
    pub(crate) seeds: Option<u64>,
    /// Change a setting of every scenario behind tables of wireless networks, as for `run`; implies
    /// --fresh
    #[arg(long, value_name = "KEY=VALUE", conflicts_with_all = ["markdown", "figures", "svg", "keep"])]
    pub(crate) set: Vec<String>,
    /// Print one JSON object per printed value, a line each
    #[arg(long)]
    pub(crate) json: bool,
    /// Print the results kept with the program as a document (docs/reproduction.md)
    #[arg(long, hide = true, conflicts_with_all = ["json", "fresh", "seeds", "keep"])]
    pub(crate) markdown: bool,
    /// Print the document docs/thesis-figures.md
    #[arg(long, hide = true, conflicts_with_all = ["json", "fresh", "seeds", "keep", "markdown"])]
    pub(crate) figures: bool,
    /// Print one of its figures as an SVG file
    #[arg(long, hide = true, value_name = "NAME", conflicts_with_all = ["json", "fresh", "seeds", "keep", "markdown", "figures"])]
    pub(crate) svg: Option<String>,
    /// Write the results as the file that is kept with the program
    #[arg(long, value_name = "FILE", hide = true)]
    pub(crate) keep: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) report: ReportArgs,
    #[command(flatten)]
    pub(crate) threads: ThreadArgs,
}

/// What to emulate and how to show it.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct EmulateArgs {
    /// A scenario (thesis/long), one of its cells (thesis/long-1c-none-2500) or those that a
    /// pattern fits, or a TOML file
    pub(crate) name: String,
    /// Algorithms instead of the scenario's own, as for `run`
    #[arg(short, long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) algorithm: Vec<String>,
    /// Runs per cell and algorithm, all at once, each with a link of its own [default: 20]
    #[arg(long, value_name = "N", value_parser = crate::args::at_least_one)]
    pub(crate) seeds: Option<u64>,
    /// Change a setting, as for `run`
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Cut off flows that are not done by then, such as 10min
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) limit: Option<Duration>,
    /// Write the packets at both ends of all links (pcapng)
    #[arg(long, value_name = "FILE")]
    pub(crate) pcap: Option<PathBuf>,
    /// Print one JSON object per cell and algorithm, a line each
    #[arg(long, conflicts_with = "csv")]
    pub(crate) json: bool,
    /// Print comma-separated values, a line per metric
    #[arg(long)]
    pub(crate) csv: bool,
    /// One object, line or row per run, with its seed
    #[arg(long)]
    pub(crate) each: bool,
}

/// Which claims to judge and how to show it.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ClaimsArgs {
    /// A study's short name (see `carob lab list`); without it, all that have rules
    pub(crate) study: Option<String>,
    /// Only the claims of this part of a study, such as `short`
    #[arg(long, value_name = "NAME")]
    pub(crate) part: Option<String>,
    /// Run everything again instead of showing the verdicts kept with the program
    #[arg(long)]
    pub(crate) fresh: bool,
    /// Runs per cell and algorithm; implies --fresh
    #[arg(long, value_name = "N", value_parser = crate::args::at_least_one)]
    pub(crate) seeds: Option<u64>,
    /// Change a setting of all scenarios, as for `run`, and judge what comes of it
    #[arg(
        long,
        value_name = "KEY=VALUE",
        conflicts_with = "keep",
        requires = "part"
    )]
    pub(crate) set: Vec<String>,
    /// Keep every run that is done in this file, and take from it those that are there: a sweep that
    /// was killed goes on where it stopped
    #[arg(long, value_name = "FILE")]
    pub(crate) journal: Option<PathBuf>,
    /// Print one JSON object per claim, a line each, with every check
    #[arg(long)]
    pub(crate) json: bool,
    /// Print the verdicts kept with the program as the document docs/claims.md
    #[arg(long, hide = true, conflicts_with_all = ["json", "fresh", "seeds", "keep"])]
    pub(crate) markdown: bool,
    /// Write the verdicts to this folder, as the files that are kept with the program
    #[arg(long, value_name = "FOLDER", hide = true, requires = "study")]
    pub(crate) keep: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) threads: ThreadArgs,
}

/// Where the report goes.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct ReportArgs {
    /// Write the report to this file instead of ./reports/NAME.html (with --json and --csv there
    /// is none without this)
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// Write no report
    #[arg(long, conflicts_with = "report")]
    pub(crate) no_report: bool,
}

/// How many threads run it.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub(crate) struct ThreadArgs {
    /// Threads to run on; the outcome does not depend on it [default: one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,
}
