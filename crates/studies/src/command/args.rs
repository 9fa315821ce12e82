//! Arguments of `carob-studies`.

use std::path::PathBuf;

use carob_cli::parts::{
    ColorArgs, EmulateArgs, RunArgs, SetupCommand, SweepArgs, ThreadArgs, at_least_one,
    with_long_help,
};
use clap::{CommandFactory as _, Parser, Subcommand};

const EXAMPLES: &str = "\
Examples:
  carob-studies claims thesis
  carob-studies reproduce thesis
  carob-studies run thesis/long-1c-medium-2500 --seeds 10

`carob-studies COMMAND --help` explains a command and has more examples.";

const RUN_EXAMPLES: &str = "\
Example:
  carob-studies run thesis/long --svg boxes > long.svg

The options are those of `carob lab run`, whose help has more examples.";

const SWEEP_HELP: &str = "\
The file has title, about, study, part and seeds, and for each row of the table [[row]] with label and
set. Each of claims has a column with its verdict, each [[number]] with claim, check and name one with
a value. docs/sweeps.md has an example. Sweeps of quantities: `carob lab sweep`.";

const CLAIMS_EXAMPLES: &str = "\
Examples:
  carob-studies claims
  carob-studies claims thesis --json
  carob-studies claims thesis --part long --fresh --seeds 20

A claim holds if every check of its rule does (papers/STUDY/rules/), holds-partly if at least half
do; below that it fails if one fails, and else is undecided.";

const JUDGE_HELP: &str = "\
The folder:
  study.toml        optional: short_name, authors, year, title
  scenarios/*.toml  the scenarios that values and rules speak of
  expected.csv      cell,algorithm,metric,statistic,value
  tolerances.toml   how far a measured value may be off, such as [default] p50 = \"5 %\"
  rules/*.toml      claims with their rules

Example:
  carob-studies judge my-study --seeds 20";

const CALIBRATE_HELP: &str = "\
Examples:
  carob-studies calibrate retrycount
  carob-studies calibrate retrycount --fresh
  carob-studies calibrate my-study

A folder of your own has open.toml and baseline.toml beside the files that `carob-studies judge` takes.
open.toml lists settings with plausible values, baseline.toml facts about default CoAP. Points that a
fact excludes are left out; findings are judged at the others.";

/// Studies of CoAP congestion control: published values, claims, calibration.
#[derive(Debug, Parser)]
#[command(name = "carob-studies", version, max_term_width = 100)]
pub(super) struct Args {
    #[command(subcommand)]
    pub(super) command: Command,
    #[command(flatten)]
    color: ColorArgs,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Run a scenario: a table with published values, and a report with figures
    #[command(after_long_help = RUN_EXAMPLES)]
    Run(RunArgs),
    /// Run a scenario in real time over emulated links and kernel sockets (Linux, root)
    Emulate(EmulateArgs),
    /// Compare a study's published values with measured ones
    Reproduce(ReproduceArgs),
    /// Evaluate the claims of the studies by simulation runs
    #[command(after_long_help = CLAIMS_EXAMPLES)]
    Claims(ClaimsArgs),
    /// Run a sweep file over the claims of a part of a study
    #[command(after_long_help = SWEEP_HELP)]
    Sweep(SweepArgs),
    /// Run and judge a study of your own, a folder
    #[command(after_long_help = JUDGE_HELP)]
    Judge(JudgeArgs),
    /// Choose a study's open settings by its baseline facts, then judge its findings
    #[command(after_long_help = CALIBRATE_HELP)]
    Calibrate(CalibrateArgs),
    #[command(flatten)]
    Setup(SetupCommand),
}

/// The definition of the command line.
pub(super) fn command() -> clap::Command {
    with_long_help(Args::command()).after_help(EXAMPLES)
}

/// Arguments of `carob-studies reproduce`.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct ReproduceArgs {
    /// The study's short name (see `carob lab list`)
    pub(super) study: String,
    /// Run everything again instead of printing the stored results
    #[arg(long)]
    pub(super) fresh: bool,
    /// Runs of each cell and algorithm; implies --fresh
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub(super) seeds: Option<u64>,
    /// Override of a setting of the wireless scenarios; implies --fresh
    #[arg(long, value_name = "KEY=VALUE", conflicts_with_all = ["markdown", "keep"])]
    pub(super) set: Vec<String>,
    /// Print one JSON object per published value, a line each
    #[arg(long)]
    pub(super) json: bool,
    /// Print the stored results as a document (papers/thesis/reproduction.md)
    #[arg(long, hide_short_help = true, conflicts_with_all = ["json", "fresh", "seeds", "keep"])]
    pub(super) markdown: bool,
    /// File for the results, in the format of stored results
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub(super) keep: Option<PathBuf>,
    #[command(flatten)]
    pub(super) threads: ThreadArgs,
}

/// Which claims to judge and how to show it.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct ClaimsArgs {
    /// The study's short name (see `carob lab list`) [default: all with claims]
    pub(super) study: Option<String>,
    /// Part of the study whose claims are evaluated, such as `short`
    #[arg(long, value_name = "NAME")]
    pub(super) part: Option<String>,
    /// Run everything again instead of printing the stored verdicts
    #[arg(long)]
    pub(super) fresh: bool,
    /// Runs of each cell and algorithm; implies --fresh
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub(super) seeds: Option<u64>,
    /// Override of a setting of all scenarios, as for `run`
    #[arg(
        long,
        value_name = "KEY=VALUE",
        conflicts_with = "keep",
        requires = "part"
    )]
    pub(super) set: Vec<String>,
    /// Print one JSON object per claim, a line each, with every check
    #[arg(long)]
    pub(super) json: bool,
    /// Print the stored verdicts as the document papers/thesis/claims.md
    #[arg(long, hide_short_help = true, conflicts_with_all = ["json", "fresh", "seeds", "keep"])]
    pub(super) markdown: bool,
    /// Folder for the verdicts, as files of stored verdicts
    #[arg(
        long,
        value_name = "FOLDER",
        hide_short_help = true,
        requires = "study"
    )]
    pub(super) keep: Option<PathBuf>,
    #[command(flatten)]
    pub(super) threads: ThreadArgs,
}

/// Arguments of `carob-studies judge`.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct JudgeArgs {
    /// The study's folder
    pub(super) folder: PathBuf,
    /// Runs of each cell and algorithm [default: the scenarios' maximum]
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub(super) seeds: Option<u64>,
    /// Override of a setting of all scenarios, as for `run`
    #[arg(long, value_name = "KEY=VALUE")]
    pub(super) set: Vec<String>,
    /// Print one JSON object per expected value and claim, a line each
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) threads: ThreadArgs,
}

/// Arguments of `carob-studies calibrate`.
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is an option of the command line"
)]
#[derive(Clone, Debug, clap::Args)]
pub(super) struct CalibrateArgs {
    /// A study's short name, or the folder of a study of your own
    pub(super) study: PathBuf,
    /// Run everything again instead of printing the stored result
    #[arg(long)]
    pub(super) fresh: bool,
    /// Number of points sampled first; implies --fresh [default: as in open.toml]
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub(super) points: Option<u64>,
    /// Print one JSON object: every point with its facts and findings
    #[arg(long)]
    pub(super) json: bool,
    /// Print the page as Markdown
    #[arg(long, conflicts_with = "json")]
    pub(super) markdown: bool,
    /// Folder for the result, as a file of stored results
    #[arg(long, value_name = "FOLDER", hide_short_help = true)]
    pub(super) keep: Option<PathBuf>,
    #[command(flatten)]
    pub(super) threads: ThreadArgs,
}
