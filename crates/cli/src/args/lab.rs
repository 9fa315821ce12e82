//! Arguments of `carob lab`.

use std::path::PathBuf;
use std::time::Duration;

use carob_lab::compare::{BURST_MAX, CLIENTS_MAX, Component, SIZE_MAX};
use carob_lab::metrics::Metric;
use carob_lab::report::{FIGURES, Figure};
use clap::Subcommand;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

use super::values::{at_least_one, duration};

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

const NEW_EXAMPLES: &str = "\
Examples:
  carob lab new meters && carob lab run meters.toml
  carob lab new slower --from thesis/long

A scenario without `study`, `family`, `cell` and `about` has the name of its file.";

const COMPARE_EXAMPLES: &str = "\
Examples:
  carob lab compare --link lte-m --traffic command
  carob lab compare --link nb-iot --traffic telemetry --clients 100
  carob lab compare --down 60kbit/s --up 20kbit/s --rtt 1.5s --loss 5% --buffer 14kB
  carob lab compare --link my-link.toml --traffic firmware --weight harm=40

A link file has a table [link] with down, up, rtt, jitter, loss, loss_burst, buffer and mtu, as the
options; a traffic file has a table [workload] with the keys of scenario files (`carob lab keys`).
Other intervals, or devices that all start at once: docs/compare.md#traffic.";

#[cfg(feature = "emulate")]
const EMULATE_EXAMPLES: &str = "\
Examples:
  sudo carob lab emulate thesis/long-1c-none-inf --seeds 5
  sudo carob lab emulate 'thesis/long-1c-none-*' --algorithm tcp-newreno --limit 10min --json

All runs go at once, and take as long as they take: error-free transfers of the thesis 5 minutes, those
with errors up to 75. Results are refused if packets were late: the 99th percentile must not exceed 2 ms.";

const SWEEP_HELP: &str = "\
The file:
  title = \"Rates\"
  about = \"Completion times;\"
  scenario = \"carob/default\"
  seeds = 20
  [parameters]
  \"down.rate\" = { from = \"20 kbit/s\", to = \"60 kbit/s\", steps = 5 }
  [[column]]
  name = \"median, s\"
  quantities = [\"p50(fct_s, default, default-none)\"]
  decimals = 1

[[row]] with label and set adds a row of its own.";

/// The verbs of the lab.
#[derive(Debug, Subcommand)]
pub(crate) enum LabCommand {
    /// Recommend a controller and its settings for a link and its traffic
    #[command(after_long_help = COMPARE_EXAMPLES)]
    Compare(Box<CompareArgs>),
    /// List the scenarios, study by study
    List {
        /// Print a JSON array
        #[arg(long)]
        json: bool,
    },
    /// Explain a scenario or one of its cells: every setting and its source
    Show {
        /// A scenario, one of its cells, or a TOML file
        name: String,
        /// Override of a setting, as for `run`
        #[arg(long, value_name = "KEY=VALUE")]
        set: Vec<String>,
        /// Algorithms instead of the scenario's
        #[arg(long, value_name = "NAMES", value_delimiter = ',')]
        algorithm: Vec<String>,
        /// Print a JSON object
        #[arg(long)]
        json: bool,
        /// Draw the wireless network as SVG: nodes, links and initial RPL tree
        #[arg(long, conflicts_with = "json")]
        topology: bool,
        /// Seed of the run whose tree is drawn [default: the first]
        #[arg(long, value_name = "SEED", requires = "topology")]
        seed: Option<u64>,
    },
    /// Write a scenario file to begin with
    #[command(after_long_help = NEW_EXAMPLES)]
    New(NewArgs),
    /// Run a scenario: a table, and a report with figures
    #[command(after_long_help = RUN_EXAMPLES)]
    Run(RunArgs),
    #[cfg(feature = "emulate")]
    /// Run a scenario in real time over emulated links and kernel sockets (Linux, root)
    #[command(after_long_help = EMULATE_EXAMPLES)]
    Emulate(EmulateArgs),
    /// Run a sweep file: rows of settings, columns of quantities
    #[command(after_long_help = SWEEP_HELP)]
    Sweep(SweepArgs),
    /// List the metrics of results: name, unit and meaning
    Metrics {
        /// Print one JSON object per metric, a line each
        #[arg(long, conflicts_with = "csv")]
        json: bool,
        /// Print comma-separated values
        #[arg(long)]
        csv: bool,
        /// Print the document docs/reference/lab-metrics.md
        #[arg(long, hide_short_help = true, conflicts_with_all = ["json", "csv"])]
        markdown: bool,
    },
    /// List the figures: name, content and needed data
    Figures {
        /// Print one JSON object per figure, a line each
        #[arg(long)]
        json: bool,
    },
    /// List the keys of scenario files and --set
    Keys {
        /// Print the document docs/scenario-keys.md
        #[arg(long)]
        markdown: bool,
    },
}

/// Arguments of `carob lab new`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct NewArgs {
    /// Name of the file; .toml is added
    pub(crate) name: PathBuf,
    /// Scenario to copy, without its published values
    #[arg(long, value_name = "SCENARIO")]
    pub(crate) from: Option<String>,
}

/// Arguments of `carob lab run`.
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is an option of the command line"
)]
#[derive(Clone, Debug, Default, clap::Args)]
pub struct RunArgs {
    /// A scenario, a cell, a pattern of cells, or a TOML file
    ///
    /// Examples: thesis/long, thesis/long-1c-none-2500, thesis/long-1c-*-2500. Without it, a small
    /// comparison runs for seconds.
    pub(crate) name: Option<String>,
    /// Algorithms instead of the scenario's
    ///
    /// Controllers over UDP (see `carob cc list`), and tcp-newreno, tcp-cubic, tcp-bbr1 and tcp-bbr3
    /// over TCP. Patterns such as cocoa-* select all that match; all selects every controller over UDP.
    #[arg(short, long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) algorithm: Vec<String>,
    /// Runs of each cell and algorithm
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub(crate) seeds: Option<u64>,
    /// Seed of a single run, which the report draws
    #[arg(long, value_name = "SEED", conflicts_with = "seeds")]
    pub(crate) seed: Option<u64>,
    /// Link of the runs: nb-iot, 3g, starlink, ..., a TOML file, or a capture
    ///
    /// As for `carob lab compare`, meshes apart. Its values take the place of the scenario's; --set overrides them.
    #[arg(long, value_name = "LINK")]
    pub(crate) link: Option<String>,
    /// Override of a setting, with units: 'down.rate=60 kbit/s'
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Share one congestion budget among all clients of a notifying server
    ///
    /// Short for --set workload.aggregate=on.
    #[arg(long)]
    pub(crate) aggregate: bool,
    /// Event log of the run, a line of JSON for each protocol event
    ///
    /// The format is as of `carob serve --log`. Host 0 is the first client, the last host the
    /// server.
    #[arg(long, value_name = "FILE", requires = "seed")]
    pub(crate) log: Option<PathBuf>,
    /// Capture of the run's packets for Wireshark (pcapng)
    ///
    /// Times are virtual. The capture is at the clients over UDP and at the server over TCP.
    #[arg(long, value_name = "FILE", requires = "seed")]
    pub(crate) pcap: Option<PathBuf>,
    /// Print one JSON object per cell and algorithm, a line each
    #[arg(long, conflicts_with = "csv")]
    pub(crate) json: bool,
    /// Print comma-separated values, a line per metric
    #[arg(long)]
    pub(crate) csv: bool,
    /// Figure to print as SVG
    ///
    /// The standalone file looks the same in every program. `carob lab figures` lists the data that each
    /// figure needs.
    #[arg(long, value_name = "FIGURE", num_args = 0..=1, value_parser = figure_parser(),
          default_missing_value = "boxes", conflicts_with_all = ["json", "csv"])]
    pub(crate) svg: Option<&'static Figure>,
    /// Metric of the figures bars and cdf
    ///
    /// `carob lab metrics` lists all.
    #[arg(long, value_name = "METRIC", requires = "svg", value_parser = metric)]
    pub(crate) metric: Option<&'static Metric>,
    /// Print one object, line or row per run, with its seed and trace hash
    #[arg(long)]
    pub(crate) each: bool,
    /// Add hashes of scenario and traces, to compare two programs
    #[arg(long)]
    pub(crate) hash: bool,
    #[command(flatten)]
    pub(crate) report: ReportArgs,
    #[command(flatten)]
    pub(crate) threads: ThreadArgs,
}

/// A metric by its name.
fn metric(name: &str) -> Result<&'static Metric, String> {
    let unknown = || format!("no metric \"{name}\": `carob lab metrics` lists all");
    Metric::named(name).ok_or_else(unknown)
}

/// The names of figures of runs, with their content.
fn figure_parser() -> impl TypedValueParser<Value = &'static Figure> {
    let names = FIGURES
        .iter()
        .map(|figure| PossibleValue::new(figure.name).help(figure.about));
    PossibleValuesParser::new(names)
        .try_map(|name| Figure::named(&name).ok_or_else(|| format!("no figure \"{name}\"")))
}

/// Arguments of `carob lab compare`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct CompareArgs {
    /// Link: nb-iot, 3g, starlink, thread, ..., or a file [default: nb-iot]
    ///
    /// Measured: nb-iot, nb-iot-connected, nb-iot-deep, 3g, starlink, tsch, lorawan, thread, thread-marina, thread-pint. Not validated by
    /// measurements: lte-m, gprs, umts, lan.
    ///
    /// A file is TOML or a capture. The link of a capture (pcap, pcapng, or --log ending in .jsonl) is fitted to its round trips, as
    /// `carob analyze` shows. --down, --rtt, --loss and the others override its values.
    #[arg(long, value_name = "LINK")]
    pub(crate) link: Option<String>,
    /// Traffic: firmware, command, telemetry, observe, or a TOML file
    #[arg(long, value_name = "TRAFFIC", default_value = "firmware")]
    pub(crate) traffic: String,
    /// Number of devices that share the link
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) clients: u32,
    /// Devices per cell, each cell with a link of its own
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(CLIENTS_MAX)))]
    pub(crate) cell: Option<u32>,
    /// Requests that each device sends at once (telemetry, command)
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=i64::from(BURST_MAX)))]
    pub(crate) burst: u32,
    /// Poll interval of sleepy devices, such as 20s
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) sleepy: Option<Duration>,
    /// Firmware size in bytes [default: 102400]
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..=i64::from(SIZE_MAX)))]
    pub(crate) size: Option<u32>,
    /// Weight of a cost, in percent of the others
    ///
    /// Costs are time, tail, undelivered, spurious, bytes and harm. May be repeated.
    #[arg(long, value_name = "NAME=PERCENT", value_parser = weight)]
    pub(crate) weight: Vec<(Component, f64)>,
    /// Show the costs of all controllers, and which are left out
    #[arg(long)]
    pub(crate) all: bool,
    /// First seed of the last stage
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    pub(crate) first_seed: u64,
    /// Print a JSON object
    #[arg(long, conflicts_with = "all")]
    pub(crate) json: bool,
    /// File for an HTML report
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) threads: ThreadArgs,
    #[command(flatten)]
    pub(crate) numbers: LinkNumbers,
}

impl Default for CompareArgs {
    /// A firmware download of one device over NB-IoT.
    fn default() -> Self {
        Self {
            link: None,
            numbers: LinkNumbers::default(),
            traffic: "firmware".to_owned(),
            clients: 1,
            cell: None,
            burst: 1,
            sleepy: None,
            size: None,
            weight: Vec::new(),
            all: false,
            first_seed: 1,
            json: false,
            report: None,
            threads: ThreadArgs::default(),
        }
    }
}

/// A link in numbers.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Your own link")]
pub(crate) struct LinkNumbers {
    /// Rate towards the devices, such as 60kbit/s
    #[arg(long, value_name = "RATE")]
    pub(crate) down: Option<String>,
    /// Rate from the devices
    #[arg(long, value_name = "RATE")]
    pub(crate) up: Option<String>,
    /// Round-trip time, without transmission times [default: 100ms]
    #[arg(long, value_name = "TIME")]
    pub(crate) rtt: Option<String>,
    /// Maximum random delay added in each direction [default: 0s]
    ///
    /// The delay is drawn from 0 to this.
    #[arg(long, value_name = "TIME")]
    pub(crate) jitter: Option<String>,
    /// Packet loss in each direction [default: 0%]
    #[arg(long, value_name = "SHARE")]
    pub(crate) loss: Option<String>,
    /// Mean length of a run of losses, in packets or as a time [default: 1]
    ///
    /// For traffic with pauses it is a time, such as 300ms: a run of packets would last for minutes.
    #[arg(long, value_name = "NUMBER|TIME")]
    pub(crate) loss_burst: Option<String>,
    /// Buffer size in each direction [default: 64kB]
    #[arg(long, value_name = "BYTES")]
    pub(crate) buffer: Option<String>,
    /// Largest packet (MTU), headers included [default: 1280B]
    #[arg(long, value_name = "BYTES")]
    pub(crate) mtu: Option<String>,
    /// Trace of rate, delay and loss towards the devices
    #[arg(long, value_name = "FILE")]
    pub(crate) trace_down: Option<String>,
    /// Trace of rate, delay and loss from the devices
    #[arg(long, value_name = "FILE")]
    pub(crate) trace_up: Option<String>,
    /// Behaviour at the end of a trace: loop, or cut [default: loop]
    #[arg(long, value_name = "END")]
    pub(crate) trace_end: Option<String>,
}

impl CompareArgs {
    /// The command that repeats it.
    pub(crate) fn words(&self) -> Vec<String> {
        let mut words: Vec<String> = ["carob", "lab", "compare"].map(str::to_owned).to_vec();
        let mut add = |option: &str, value: Option<&str>| {
            if let Some(value) = value {
                words.extend([option.to_owned(), value.to_owned()]);
            }
        };
        add("--link", self.link.as_deref());
        let LinkNumbers {
            down,
            up,
            rtt,
            jitter,
            loss,
            loss_burst,
            buffer,
            mtu,
            trace_down,
            trace_up,
            trace_end,
        } = &self.numbers;
        add("--down", down.as_deref());
        add("--up", up.as_deref());
        add("--rtt", rtt.as_deref());
        add("--jitter", jitter.as_deref());
        add("--loss", loss.as_deref());
        add("--loss-burst", loss_burst.as_deref());
        add("--buffer", buffer.as_deref());
        add("--mtu", mtu.as_deref());
        add("--trace-down", trace_down.as_deref());
        add("--trace-up", trace_up.as_deref());
        add("--trace-end", trace_end.as_deref());
        if self.traffic != "firmware" {
            add("--traffic", Some(&self.traffic));
        }
        let number = |n: u64, default: u64| (n != default).then(|| n.to_string());
        add("--clients", number(self.clients.into(), 1).as_deref());
        add("--cell", self.cell.map(|cell| cell.to_string()).as_deref());
        add("--burst", number(self.burst.into(), 1).as_deref());
        let sleepy = self.sleepy.map(|time| format!("{}ms", time.as_millis()));
        add("--sleepy", sleepy.as_deref());
        add("--size", self.size.map(|size| size.to_string()).as_deref());
        for (component, weight) in &self.weight {
            add(
                "--weight",
                Some(&format!("{}={}", component.name(), weight * 100.0)),
            );
        }
        add("--first-seed", number(self.first_seed, 1).as_deref());
        words
    }
}

/// A weight such as `time=60`, as a share of 1.
fn weight(text: &str) -> Result<(Component, f64), String> {
    let names = Component::ALL.map(Component::name).join(", ");
    let wrong = || format!("expected a name and percent, such as time=60; names are {names}");
    let (name, percent) = text.split_once('=').ok_or_else(wrong)?;
    let component = Component::ALL.into_iter().find(|one| one.name() == name);
    let percent: f64 = percent
        .trim_end_matches('%')
        .trim()
        .parse()
        .map_err(|_| wrong())?;
    let component = component.filter(|_| percent >= 0.0).ok_or_else(wrong)?;
    Ok((component, percent / 100.0))
}

#[cfg(feature = "emulate")]
/// Arguments of `carob lab emulate`.
#[derive(Clone, Debug, clap::Args)]
pub struct EmulateArgs {
    /// A scenario, a cell, a pattern of cells, or a TOML file
    ///
    /// Examples: thesis/long, thesis/long-1c-none-2500, thesis/long-1c-*-2500.
    pub(crate) name: String,
    /// Algorithms instead of the scenario's, as for `run`
    #[arg(short, long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) algorithm: Vec<String>,
    /// Runs of each cell and algorithm, in parallel [default: 20]
    ///
    /// Each run has a separate link.
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub(crate) seeds: Option<u64>,
    /// Override of a setting, as for `run`
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Time after which flows are aborted, such as 10min
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) limit: Option<Duration>,
    /// Capture of the packets at both ends of all links (pcapng)
    #[arg(long, value_name = "FILE")]
    pub(crate) pcap: Option<PathBuf>,
    /// Print one JSON object per cell and algorithm, a line each
    #[arg(long, conflicts_with = "csv")]
    pub(crate) json: bool,
    /// Print comma-separated values, a line per metric
    #[arg(long)]
    pub(crate) csv: bool,
    /// Print one object, line or row per run, with its seed
    #[arg(long)]
    pub(crate) each: bool,
}

/// Arguments of `carob lab sweep`.
#[derive(Clone, Debug, clap::Args)]
pub struct SweepArgs {
    /// The sweep file
    pub file: PathBuf,
    /// Print one JSON object per row, a line each
    #[arg(long, conflicts_with = "csv")]
    pub(crate) json: bool,
    /// Print comma-separated values, a line per quantity
    #[arg(long)]
    pub(crate) csv: bool,
    /// Number of threads.
    #[command(flatten)]
    pub threads: ThreadArgs,
}

/// Where the report goes.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct ReportArgs {
    /// File for the report [default: ./reports/NAME.html]
    ///
    /// With --json and --csv there is no report unless this option is given.
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// Write no report
    #[arg(long, conflicts_with = "report")]
    pub(crate) no_report: bool,
}

/// Number of threads.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct ThreadArgs {
    /// Number of threads [default: one per core]
    ///
    /// Results do not depend on it.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,
}
