//! Arguments of all commands.

#[cfg(feature = "bench")]
pub(crate) mod bench;
pub(crate) mod cc;
mod complete;
#[cfg(test)]
mod fuzzing;
mod help;
pub(crate) mod lab;
#[cfg(feature = "proxy")]
mod proxy;
mod request;
mod values;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use carob::{Group, OptionNumber, Prefix};
use clap::{ColorChoice, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use serde::Serialize;

#[cfg(feature = "bench")]
use bench::BenchArgs;
use cc::CcCommand;
use lab::LabCommand;

pub(crate) use complete::{names as completed_names, with_names};
pub(crate) use help::command;
pub use help::with_long_help;
#[cfg(feature = "proxy")]
pub(crate) use proxy::ProxyArgs;
#[cfg(feature = "dtls")]
pub(crate) use request::PskArgs;
#[cfg(any(feature = "dtls", feature = "tls"))]
pub(crate) use request::TlsArgs;
pub(crate) use request::{
    AskArgs, BodyArgs, ChoiceArgs, ConditionArgs, ContentArgs, DiscoverArgs, GroupArgs,
    MessageArgs, NetworkArgs, ObserveArgs, PingArgs, QBlock, RequestArgs, SelectArgs, SendArgs,
    TransmissionArgs, WatchArgs,
};
pub use values::at_least_one;
#[cfg(any(feature = "bench", feature = "proxy"))]
pub(crate) use values::controller;
pub(crate) use values::{Tag, authority, timed};

/// CoAP with congestion control you can choose: a client, a server, and a lab that measures.
#[derive(Debug, Parser)]
#[command(name = "carob", version, max_term_width = 100)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    #[command(flatten)]
    color: ColorArgs,
}

/// Colours of a program's output.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct ColorArgs {
    /// Colours: auto, always or never
    ///
    /// With auto, output has colours on a terminal, unless NO_COLOR is set.
    #[arg(
        long,
        global = true,
        value_name = "WHEN",
        default_value = "auto",
        hide_default_value = true,
        hide_possible_values = true,
        help_heading = "Global options"
    )]
    color: ColorChoice,
}

/// The colours that `--color` selects in these words, before they are parsed: errors of the parser
/// have colours, too.
pub(crate) fn color_of(words: impl Iterator<Item = OsString>) -> ColorChoice {
    let mut words = words.take_while(|word| word != "--");
    let mut value = None;
    while let Some(word) = words.next() {
        let word = word.to_string_lossy().into_owned();
        if word == "--color" {
            value = words.next().map(|word| word.to_string_lossy().into_owned());
        } else if let Some(text) = word.strip_prefix("--color=") {
            value = Some(text.to_owned());
        }
    }
    let choice = value.and_then(|text| ColorChoice::from_str(&text, false).ok());
    choice.unwrap_or_default()
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Read a resource
    Get(AskArgs),
    /// Create or replace a resource
    Put(SendArgs),
    /// Send a body to a resource and print its response
    Post(SendArgs),
    /// Delete a resource
    Delete(AskArgs),
    /// Read a resource or a part that the body describes (RFC 8132)
    Fetch(SendArgs),
    /// Change a part of a resource (RFC 8132)
    Patch(SendArgs),
    /// Change a part of a resource idempotently (iPATCH, RFC 8132)
    Ipatch(SendArgs),
    /// List the resources of a host (RFC 6690)
    Discover(DiscoverArgs),
    /// Observe a resource and print each representation (RFC 7641)
    Observe(ObserveArgs),
    /// Ping a CoAP endpoint
    Ping(PingArgs),
    /// Serve demo resources, and files if given a folder
    Serve(ServeArgs),
    #[cfg(feature = "proxy")]
    /// Run a forward-proxy, a reverse-proxy, or both (RFC 7252 5.7)
    Proxy(Box<ProxyArgs>),
    /// Compare controllers on a real server, by paired requests
    Try(Box<TryArgs>),
    #[cfg(feature = "bench")]
    /// Generate load on a server and measure its responses
    Bench(Box<BenchArgs>),
    /// List, explain and compare the congestion controllers
    Cc {
        #[command(subcommand)]
        command: CcCommand,
    },
    #[cfg(feature = "analyze")]
    /// Analyse a capture: round trips, losses, retransmissions, its link
    Analyze(AnalyzeArgs),
    /// Run experiments on simulated networks
    Lab {
        #[command(subcommand)]
        command: LabCommand,
    },
    #[command(flatten)]
    Setup(SetupCommand),
}

/// The verbs that describe the command line to shells and `man`.
#[derive(Debug, Subcommand)]
pub enum SetupCommand {
    /// Print a script that completes commands, options and names
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print the manual page, or write all pages to a folder
    Man {
        /// Folder for a page of each command
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
        /// Print the reference of commands and options as a page
        #[arg(long, conflicts_with = "dir")]
        markdown: bool,
    },
}

/// Arguments of `carob try`.
#[derive(Debug, clap::Args)]
pub(crate) struct TryArgs {
    /// Resource: coap://HOST[:PORT]/PATH[?QUERY]
    #[arg(value_name = "URI")]
    pub(crate) uri: String,
    /// Controllers to compare; the first is the baseline
    #[arg(
        long,
        value_name = "NAMES",
        value_delimiter = ',',
        default_value = "default,carob"
    )]
    pub(crate) cc: Vec<String>,
    /// Traffic: command (GET), telemetry (POST, 64 B) or firmware (large GET)
    ///
    /// firmware is a GET of a large resource, in blocks.
    #[arg(
        long,
        value_name = "TRAFFIC",
        default_value = "command",
        hide_possible_values = true
    )]
    pub(crate) traffic: TrialTraffic,
    /// Maximum requests with each controller [default: 100, or 20 for firmware]
    ///
    /// One more request with each controller comes first and does not count.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=100_000))]
    pub(crate) pairs: Option<u32>,
    /// Minimum time between the starts of two requests
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = values::duration)]
    pub(crate) interval: Duration,
    /// Time after which no request begins
    #[arg(long, value_name = "TIME", default_value = "900s", value_parser = values::duration)]
    pub(crate) within: Duration,
    /// Begin without a question
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// Prefix of the capture, PREFIX.pcapng, and the fitted link, PREFIX.toml
    #[arg(short, long, value_name = "PREFIX", default_value = "carob-try")]
    pub(crate) output: String,
    /// Print a JSON object
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) transmission: TransmissionArgs,
    /// Time after which a request is given up, such as 60s
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    pub(crate) deadline: Option<Duration>,
    #[cfg(any(feature = "dtls", feature = "tls"))]
    #[command(flatten)]
    pub(crate) tls: TlsArgs,
    #[cfg(feature = "dtls")]
    #[command(flatten)]
    pub(crate) psk: PskArgs,
}

/// Requests of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum TrialTraffic {
    /// GET of a small resource
    Command,
    /// POST of 64 B
    Telemetry,
    /// GET of a large resource, in blocks
    Firmware,
}

/// Arguments of `carob analyze`.
#[cfg(feature = "analyze")]
#[derive(Debug, clap::Args)]
pub(crate) struct AnalyzeArgs {
    /// Captures (pcap, pcapng) or event logs (--log of carob)
    ///
    /// Several files are captures of the same peers at several places, or one after the other.
    #[arg(required = true, value_name = "FILES")]
    pub(crate) files: Vec<PathBuf>,
    /// UDP port to read as CoAP; may be repeated
    ///
    /// Without it, these are port 5683 and any other on which a request begins.
    #[arg(long, value_name = "PORT")]
    pub(crate) port: Vec<u16>,
    /// Text in the addresses of peers to analyse
    #[arg(long, value_name = "TEXT")]
    pub(crate) peer: Option<String>,
    /// Side of the devices behind the link [default: the one with more hosts]
    #[arg(long, value_name = "SIDE")]
    pub(crate) devices: Option<DeviceSide>,
    /// File with pre-shared keys to decrypt DTLS, a line IDENTITY:KEY each
    ///
    /// The handshake must be in the capture. A key that begins with 0x is hexadecimal.
    #[arg(long, value_name = "FILE")]
    pub(crate) psk_file: Option<PathBuf>,
    /// Key log (SSLKEYLOGFILE) to decrypt DTLS sessions
    ///
    /// Lines begin with CLIENT_RANDOM. The handshake must be in the capture.
    #[arg(long, value_name = "FILE")]
    pub(crate) keylog: Option<PathBuf>,
    /// File for the fitted link, for `carob lab compare --link`
    #[arg(long, value_name = "FILE.toml")]
    pub(crate) link_file: Option<PathBuf>,
    /// File for a page with figures
    #[arg(long, value_name = "FILE.html")]
    pub(crate) report: Option<PathBuf>,
    /// Show all controllers, also those unfit for use
    #[arg(long)]
    pub(crate) all: bool,
    /// Print a JSON object
    #[arg(long, conflicts_with = "all")]
    pub(crate) json: bool,
}

/// Side of the devices.
#[cfg(feature = "analyze")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DeviceSide {
    /// Devices are clients
    Clients,
    /// Devices are servers
    Servers,
}

/// Addresses on which a server accepts connections.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Connections (RFC 8323)")]
pub(crate) struct ListenArgs {
    /// Address for TCP connections (coap+tcp) [default address: [::]:5683]
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = "[::]:5683",
          value_parser = values::coap_address)]
    pub(crate) tcp: Option<String>,
    #[cfg(feature = "tls")]
    /// Address for TLS connections (coaps+tcp) [default address: [::]:5684]
    ///
    /// Needs --cert and --key.
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = "[::]:5684",
          value_parser = values::coaps_address, requires = "cert")]
    pub(crate) tls: Option<String>,
    #[cfg(feature = "websocket")]
    /// Address for WebSockets (coap+ws) [default address: [::]:80]
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = "[::]:80",
          value_parser = values::http_address)]
    pub(crate) ws: Option<String>,
    #[cfg(feature = "websocket")]
    /// Host whose web pages may open WebSockets; may be repeated
    ///
    /// Web pages of the server's own host are always accepted, if they reach it by an address, localhost
    /// or one of these names. Where a name is given, other clients, which send no Origin, have to reach it so,
    /// too.
    #[arg(long, value_name = "NAME")]
    pub(crate) ws_origin: Vec<String>,
    #[cfg(all(feature = "tls", feature = "websocket"))]
    /// Address for WebSockets over TLS (coaps+ws) [default address: [::]:443]
    ///
    /// Needs --cert and --key.
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = "[::]:443",
          value_parser = values::https_address, requires = "cert")]
    pub(crate) wss: Option<String>,
    #[cfg(feature = "dtls")]
    /// Address for DTLS sessions (coaps) [default address: [::]:5684]
    ///
    /// Needs --psk-file, or --cert and --key.
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = "[::]:5684",
          value_parser = values::coaps_address)]
    pub(crate) dtls: Option<String>,
    #[cfg(feature = "dtls")]
    /// File with the pre-shared keys of DTLS clients
    ///
    /// The file has a line IDENTITY:KEY for each client. A key that begins with 0x is hexadecimal.
    #[arg(long, value_name = "FILE", requires = "dtls")]
    pub(crate) psk_file: Option<PathBuf>,
    #[cfg(any(feature = "dtls", feature = "tls"))]
    /// Server certificate (PEM); over TLS, its chain may follow
    #[arg(long, value_name = "FILE", requires = "key")]
    pub(crate) cert: Option<PathBuf>,
    #[cfg(any(feature = "dtls", feature = "tls"))]
    /// Private key of the certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub(crate) key: Option<PathBuf>,
    #[cfg(any(feature = "dtls", feature = "tls"))]
    /// CA certificates (PEM) of clients, which must present a certificate
    ///
    /// Applies to TLS and DTLS. Clients with a pre-shared key need none.
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub(crate) client_ca: Option<PathBuf>,
}

/// Interfaces for operators: metrics and health.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Operation")]
pub(crate) struct OperatorArgs {
    /// Address for Prometheus metrics over HTTP [default address: 127.0.0.1:9683]
    ///
    /// The path is /metrics. There is no access control.
    #[cfg(feature = "metrics")]
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = "127.0.0.1:9683")]
    pub(crate) metrics: Option<std::net::SocketAddr>,
    /// Further name in Host for which metrics are served; may be repeated
    ///
    /// Addresses and localhost are always served. Other names are rejected (421): a web page could
    /// resolve its own name to this host and read the metrics through a browser (DNS rebinding).
    #[cfg(feature = "metrics")]
    #[arg(long, value_name = "NAME", requires = "metrics")]
    pub(crate) metrics_host: Vec<String>,
    /// Path of the server's health resource, such as /health
    ///
    /// The response is ok, or overloaded (5.03), with the uptime and the utilisation of tables.
    /// There is no access control.
    #[arg(long, value_name = "PATH", value_parser = values::path)]
    pub(crate) health: Option<String>,
}

/// Resource limits.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Limits")]
pub(crate) struct ServeLimitArgs {
    /// Resource limit, such as observers=1000; may be repeated
    ///
    /// Other examples: request_rate=50, body_bytes=16MiB. `carob serve --limits` lists all.
    #[arg(long, value_name = "NAME=VALUE", value_parser = values::limit)]
    pub(crate) limit: Vec<(String, usize)>,
    /// List all limits with their defaults and behaviour, and exit
    #[arg(long)]
    pub(crate) limits: bool,
    /// Print the list as a page
    #[arg(long, hide_short_help = true, requires = "limits")]
    pub(crate) markdown: bool,
}

/// Arguments of `carob serve`.
#[derive(Debug, clap::Args)]
#[allow(clippy::struct_excessive_bools, reason = "options of a command line")]
pub(crate) struct ServeArgs {
    /// Folder with files to serve; symbolic links are not followed
    #[arg(long, value_name = "FOLDER")]
    pub(crate) dir: Option<PathBuf>,
    /// Allow PUT and DELETE of files, which can then be observed
    #[arg(long, requires = "dir")]
    pub(crate) writable: bool,
    /// Serve dotfiles, too, and folders such as .git
    #[arg(long, requires = "dir")]
    pub(crate) hidden: bool,
    /// Address to listen on, at port 5683 unless given
    ///
    /// [::] accepts IPv4, too. Port 0 selects a free port.
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = "[::]:5683",
        value_parser = values::coap_address,
        help_heading = "Network"
    )]
    pub(crate) bind: String,
    /// Number of sockets that receive datagrams at one port (Linux)
    ///
    /// Each socket has a thread, and the system distributes the peers. Each has separate tables,
    /// so memory multiplies by the number of sockets.
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Network")]
    pub(crate) sockets: usize,
    /// Multicast group to join; may be repeated
    ///
    /// All CoAP Nodes are 224.0.1.187 and ff02::fd%eth0.
    #[arg(long, value_name = "GROUP[%INTERFACE]", help_heading = "Network")]
    pub(crate) join: Vec<Group>,
    #[command(flatten)]
    pub(crate) listen: ListenArgs,
    #[command(flatten)]
    pub(crate) choice: ChoiceArgs,
    #[command(flatten)]
    pub(crate) transmission: TransmissionArgs,
    /// Option number of the retransmission count [default: 65052]
    #[arg(long, value_name = "NUMBER", value_parser = values::count_option, help_heading = "Network")]
    pub(crate) count_option: Option<OptionNumber>,
    /// Prefix of peers behind one slow link that share a congestion budget
    ///
    /// The peers are those with this prefix, or all peers without one. May be repeated; the longest
    /// matching prefix applies.
    #[arg(long, value_name = "PREFIX", num_args = 0..=1, require_equals = true, default_missing_value = "all",
          value_parser = values::aggregate, help_heading = "Network")]
    pub(crate) aggregate: Vec<Prefix>,
    /// Anti-amplification limit of a prefix, such as 10.0.0.0/8=on
    ///
    /// Responses to unvalidated sources are limited to three times the received bytes. May be
    /// repeated; the longest matching prefix applies. [default: on for global addresses]
    #[arg(long, value_name = "PREFIX=on|off", value_parser = values::amplification_limit, help_heading = "Network")]
    pub(crate) amplification_limit: Vec<(Prefix, bool)>,
    /// Reject Q-Block1 and Q-Block2 (RFC 9177)
    ///
    /// Clients then use Block1 and Block2. RFC 9177 recommends against Q-Block without DTLS.
    #[arg(long, help_heading = "Network")]
    pub(crate) no_q_block: bool,
    #[command(flatten)]
    pub(crate) operator: OperatorArgs,
    #[command(flatten)]
    pub(crate) limits: ServeLimitArgs,
    /// Print the ready line as a JSON object
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) watch: WatchArgs,
}
