//! Arguments of `carob lab` for the included studies, and for studies in folders.

use std::path::PathBuf;

use super::{ThreadArgs, at_least_one};

pub(super) const CLAIMS_EXAMPLES: &str = "\
Examples:
  carob lab claims
  carob lab claims thesis --json
  carob lab claims thesis --part long --fresh --seeds 20

A claim holds if every check of its rule does (papers/STUDY/rules/), holds-partly if at least half
do; below that it fails if one fails, and else is undecided.";

pub(super) const JUDGE_HELP: &str = "\
The folder:
  study.toml        optional: short_name, authors, year, title
  scenarios/*.toml  the scenarios that values and rules speak of
  expected.csv      cell,algorithm,metric,statistic,value
  tolerances.toml   how far a measured value may be off, such as [default] p50 = \"5 %\"
  rules/*.toml      claims with their rules

Example:
  carob lab judge my-study --seeds 20";

pub(super) const CALIBRATE_HELP: &str = "\
Examples:
  carob lab calibrate retrycount
  carob lab calibrate retrycount --fresh
  carob lab calibrate my-study

A folder of your own has open.toml and baseline.toml beside the files that `carob lab judge` takes.
open.toml lists settings with plausible values, baseline.toml facts about default CoAP. Points that a
fact excludes are left out; findings are judged at the others.";

/// Arguments of `carob lab reproduce`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ReproduceArgs {
    /// The study's short name (see `carob lab list`)
    pub(crate) study: String,
    /// Run everything again instead of printing the stored results
    #[arg(long)]
    pub(crate) fresh: bool,
    /// Runs of each cell and algorithm; implies --fresh
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub(crate) seeds: Option<u64>,
    /// Override of a setting of the wireless scenarios; implies --fresh
    #[arg(long, value_name = "KEY=VALUE", conflicts_with_all = ["markdown", "keep"])]
    pub(crate) set: Vec<String>,
    /// Print one JSON object per published value, a line each
    #[arg(long)]
    pub(crate) json: bool,
    /// Print the stored results as a document (papers/thesis/reproduction.md)
    #[arg(long, hide_short_help = true, conflicts_with_all = ["json", "fresh", "seeds", "keep"])]
    pub(crate) markdown: bool,
    /// File for the results, in the format of stored results
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub(crate) keep: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) threads: ThreadArgs,
}

/// Which claims to judge and how to show it.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ClaimsArgs {
    /// The study's short name (see `carob lab list`) [default: all with claims]
    pub(crate) study: Option<String>,
    /// Part of the study whose claims are evaluated, such as `short`
    #[arg(long, value_name = "NAME")]
    pub(crate) part: Option<String>,
    /// Run everything again instead of printing the stored verdicts
    #[arg(long)]
    pub(crate) fresh: bool,
    /// Runs of each cell and algorithm; implies --fresh
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub(crate) seeds: Option<u64>,
    /// Override of a setting of all scenarios, as for `run`
    #[arg(
        long,
        value_name = "KEY=VALUE",
        conflicts_with = "keep",
        requires = "part"
    )]
    pub(crate) set: Vec<String>,
    /// Print one JSON object per claim, a line each, with every check
    #[arg(long)]
    pub(crate) json: bool,
    /// Print the stored verdicts as the document papers/thesis/claims.md
    #[arg(long, hide_short_help = true, conflicts_with_all = ["json", "fresh", "seeds", "keep"])]
    pub(crate) markdown: bool,
    /// Folder for the verdicts, as files of stored verdicts
    #[arg(
        long,
        value_name = "FOLDER",
        hide_short_help = true,
        requires = "study"
    )]
    pub(crate) keep: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) threads: ThreadArgs,
}

/// Arguments of `carob lab judge`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct JudgeArgs {
    /// The study's folder
    pub(crate) folder: PathBuf,
    /// Runs of each cell and algorithm [default: the scenarios' maximum]
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub(crate) seeds: Option<u64>,
    /// Override of a setting of all scenarios, as for `run`
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Print one JSON object per expected value and claim, a line each
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) threads: ThreadArgs,
}

/// Arguments of `carob lab calibrate`.
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is an option of the command line"
)]
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct CalibrateArgs {
    /// A study's short name, or the folder of a study of your own
    pub(crate) study: PathBuf,
    /// Run everything again instead of printing the stored result
    #[arg(long)]
    pub(crate) fresh: bool,
    /// Number of points sampled first; implies --fresh [default: as in open.toml]
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub(crate) points: Option<u64>,
    /// Print one JSON object: every point with its facts and findings
    #[arg(long)]
    pub(crate) json: bool,
    /// Print the page as Markdown
    #[arg(long, conflicts_with = "json")]
    pub(crate) markdown: bool,
    /// Folder for the result, as a file of stored results
    #[arg(long, value_name = "FOLDER", hide_short_help = true)]
    pub(crate) keep: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) threads: ThreadArgs,
}
