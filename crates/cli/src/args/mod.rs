//! What can be typed.

#[cfg(test)]
mod fuzzing;
mod help;
mod proxy;
mod request;
mod values;

use std::path::PathBuf;

use carob::{Group, OptionNumber, Prefix, TransmissionProfile};
use clap::{Parser, Subcommand};
use clap_complete::Shell;

use crate::commands::bench::BenchArgs;
use crate::commands::cc::CcCommand;
use crate::commands::lab::LabCommand;

pub(crate) use help::command;
pub(crate) use proxy::ProxyArgs;
pub(crate) use request::{
    AskArgs, BodyArgs, ChoiceArgs, ConditionArgs, ContentArgs, DiscoverArgs, GroupArgs,
    MessageArgs, NetworkArgs, ObserveArgs, PingArgs, PskArgs, RequestArgs, SelectArgs, SendArgs,
    TlsArgs, TransmissionArgs, WatchArgs,
};
pub(crate) use values::{
    Tag, aggregate, amplification_limit, at_least_one, authority, block_size, controller,
    count_option, did_you_mean, duration, limit, profile, timed, token_length,
};

/// CoAP with congestion control you can choose: a client, a server, and a lab that measures.
#[derive(Debug, Parser)]
#[command(name = "carob", version, max_term_width = 100)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Read a resource
    Get(AskArgs),
    /// Create or replace a resource
    Put(SendArgs),
    /// Send something to a resource and show its answer
    Post(SendArgs),
    /// Delete a resource
    Delete(AskArgs),
    /// Read a resource, or a part of it that the body describes (RFC 8132)
    Fetch(SendArgs),
    /// Change a part of a resource (RFC 8132)
    Patch(SendArgs),
    /// Change a part of a resource, where twice is as good as once (iPATCH, RFC 8132)
    Ipatch(SendArgs),
    /// List what a host offers (RFC 6690)
    Discover(DiscoverArgs),
    /// Follow a resource: print each state as it comes (RFC 7641)
    Observe(ObserveArgs),
    /// Ask whether a CoAP endpoint is there
    Ping(PingArgs),
    /// Serve demo resources, and files if given a folder
    Serve(ServeArgs),
    /// Ask servers for others: a forward-proxy, a reverse-proxy, or both (RFC 7252 5.7)
    Proxy(Box<ProxyArgs>),
    /// Load a server and measure its answers
    Bench(Box<BenchArgs>),
    /// List, explain and compare the congestion controllers
    Cc {
        #[command(subcommand)]
        command: CcCommand,
    },
    /// List the transmission profiles, or explain one: what suits a kind of link, and why
    Profiles(ProfilesArgs),
    /// Experiments on a simulated network: scenarios, reports, the studies' tables
    Lab {
        #[command(subcommand)]
        command: LabCommand,
    },
    /// Print a script that completes commands and options in a shell
    Completions {
        /// Which shell
        shell: Shell,
    },
    /// Print the manual page, or write those of all commands to a folder
    Man {
        /// Write a page for each command here
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
    },
}

/// What can be asked about transmission profiles.
#[derive(Debug, clap::Args)]
pub(crate) struct ProfilesArgs {
    /// Explain this one
    #[arg(value_name = "NAME", value_parser = values::profile)]
    pub(crate) name: Option<TransmissionProfile>,
    /// Print a JSON array, with all reasons
    #[arg(long)]
    pub(crate) json: bool,
    /// As the document docs/profiles.md
    #[arg(long, hide = true, conflicts_with_all = ["json", "name"])]
    pub(crate) markdown: bool,
}

/// Where a server takes connections.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Connections (RFC 8323)")]
pub(crate) struct ListenArgs {
    /// Take TCP connections (coap+tcp), too, here or at [::]:5683
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = "[::]:5683",
          value_parser = values::coap_address)]
    pub(crate) tcp: Option<String>,
    /// Take TLS connections (coaps+tcp), too, here or at [::]:5684; needs --cert and --key
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = "[::]:5684",
          value_parser = values::coaps_address, requires = "cert")]
    pub(crate) tls: Option<String>,
    /// Take WebSockets (coap+ws), too, here or at [::]:80
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = "[::]:80",
          value_parser = values::http_address)]
    pub(crate) ws: Option<String>,
    /// Take WebSockets over TLS (coaps+ws), too, here or at [::]:443; needs --cert and --key
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = "[::]:443",
          value_parser = values::https_address, requires = "cert")]
    pub(crate) wss: Option<String>,
    /// Take datagrams secured by DTLS (coaps), too, here or at [::]:5684; needs --psk-file, or --cert
    /// and --key
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = "[::]:5684",
          value_parser = values::coaps_address)]
    pub(crate) dtls: Option<String>,
    /// The keys of clients over DTLS, a line IDENTITY:KEY for each; what begins with 0x is
    /// hexadecimal
    #[arg(long, value_name = "FILE", requires = "dtls")]
    pub(crate) psk_file: Option<PathBuf>,
    /// The server's certificate, with those that vouch for it (PEM)
    #[arg(long, value_name = "FILE", requires = "key")]
    pub(crate) cert: Option<PathBuf>,
    /// The key of the certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub(crate) key: Option<PathBuf>,
    /// Only take TLS and DTLS clients with a certificate of these (PEM), or with a key
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub(crate) client_ca: Option<PathBuf>,
}

/// What a server tells those who look after it.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "For operators")]
pub(crate) struct OperatorArgs {
    /// Tell Prometheus what is counted, at http://ADDRESS/metrics: here, or at 127.0.0.1:9683.
    /// Whoever reaches it can read it
    #[cfg(feature = "prometheus")]
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = "127.0.0.1:9683")]
    pub(crate) metrics: Option<std::net::SocketAddr>,
    /// Also serve metrics to requests whose Host has this name; may be repeated
    ///
    /// Addresses and localhost are always served, other names are refused (421): a web page could
    /// have its own name lead to this host and read the metrics through a browser.
    #[cfg(feature = "prometheus")]
    #[arg(long, value_name = "NAME", requires = "metrics")]
    pub(crate) metrics_host: Vec<String>,
    /// Tell at this path how the server fares, such as /health: ok or overloaded (5.03), its uptime,
    /// how full its tables are; to everybody who asks
    #[arg(long, value_name = "PATH", value_parser = values::path)]
    pub(crate) health: Option<String>,
}

/// What nothing may exceed.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Limits")]
pub(crate) struct ServeLimitArgs {
    /// Set a limit, such as observers=1000, request_rate=50 or body_bytes=16MiB; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = limit)]
    pub(crate) limit: Vec<(String, usize)>,
    /// List all limits, their defaults and what happens at each, and do not serve
    #[arg(long)]
    pub(crate) limits: bool,
    /// That list as a page
    #[arg(long, hide = true, requires = "limits")]
    pub(crate) markdown: bool,
}

/// What the server can be told.
#[derive(Debug, clap::Args)]
pub(crate) struct ServeArgs {
    /// Serve the files of this folder; links are not followed
    #[arg(long, value_name = "FOLDER")]
    pub(crate) dir: Option<PathBuf>,
    /// Let clients PUT and DELETE files; these can be observed, too
    #[arg(long, requires = "dir")]
    pub(crate) writable: bool,
    /// Serve dotfiles and folders such as .git, too
    #[arg(long, requires = "dir")]
    pub(crate) hidden: bool,
    /// Where to listen, at port 5683 unless given; [::] takes IPv4 too, and port 0 any that is free
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = "[::]:5683",
        value_parser = values::coap_address,
        help_heading = "Network"
    )]
    pub(crate) bind: String,
    /// Take datagrams over this many sockets at the same port, on a thread each, among which the system
    /// shares the peers (Linux); each has tables of its own, so that all take so many times the memory
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Network")]
    pub(crate) sockets: usize,
    /// Be in this group, such as 224.0.1.187 or ff02::fd%eth0 (All CoAP Nodes); may be repeated
    #[arg(long, value_name = "GROUP[%INTERFACE]", help_heading = "Network")]
    pub(crate) join: Vec<Group>,
    #[command(flatten)]
    pub(crate) listen: ListenArgs,
    #[command(flatten)]
    pub(crate) choice: ChoiceArgs,
    /// The option in which clients may count retransmissions, if not 65052
    #[arg(long, value_name = "NUMBER", value_parser = count_option, help_heading = "Network")]
    pub(crate) count_option: Option<OptionNumber>,
    /// Give all peers with this prefix, or without one all there are, one budget in front of their
    /// controllers, for those behind one slow link; several may be given, the longest counts
    #[arg(long, value_name = "PREFIX", num_args = 0..=1, require_equals = true, default_missing_value = "all",
          value_parser = aggregate, help_heading = "Network")]
    pub(crate) aggregate: Vec<Prefix>,
    /// Whether sources with this prefix get at most three times their bytes until they have shown
    /// where they are, such as 10.0.0.0/8=on; several may be given, the longest counts
    /// [default: on for global addresses]
    #[arg(long, value_name = "PREFIX=on|off", value_parser = amplification_limit, help_heading = "Network")]
    pub(crate) amplification_limit: Vec<(Prefix, bool)>,
    #[command(flatten)]
    pub(crate) operator: OperatorArgs,
    #[command(flatten)]
    pub(crate) limits: ServeLimitArgs,
    /// Print the line that says it listens as a JSON object
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) watch: WatchArgs,
}
