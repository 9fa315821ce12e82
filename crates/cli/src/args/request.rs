//! Arguments of the commands that send requests.

use std::path::PathBuf;
use std::time::Duration;

use carob::{BlockSize, ContentFormat, NoResponse, OptionNumber, TransmissionParameters};

use super::values::{self, OptionValue, Tag};
use crate::formats;

/// Congestion controller.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Network")]
pub(crate) struct ChoiceArgs {
    /// Congestion controller [default: default]
    ///
    /// `carob cc list` explains all.
    #[arg(long, value_name = "NAME")]
    pub(crate) cc: Option<String>,
}

/// Transmission parameters (RFC 7252 4.8) that override the controller's.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Network")]
pub(crate) struct TransmissionArgs {
    /// Maximum outstanding exchanges per peer (NSTART) [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) nstart: Option<u16>,
    /// First timeout without an RTT estimate (ACK_TIMEOUT) [default: 2s]
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    pub(crate) ack_timeout: Option<Duration>,
    /// Maximum retransmissions of a message (MAX_RETRANSMIT) [default: 4, or the controller's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8)
        .range(..=i64::from(TransmissionParameters::MAX_RETRANSMIT_LIMIT)))]
    pub(crate) max_retransmit: Option<u8>,
    /// Longest timer of a retransmission [default: none, or the controller's]
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    pub(crate) rto_max: Option<Duration>,
}

impl TransmissionArgs {
    /// Returns true if any is set.
    pub(crate) fn any(&self) -> bool {
        let Self {
            nstart,
            ack_timeout,
            max_retransmit,
            rto_max,
        } = self;
        nstart.is_some() || ack_timeout.is_some() || max_retransmit.is_some() || rto_max.is_some()
    }
}

/// Transport, security and timeout of requests.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Network")]
pub(crate) struct NetworkArgs {
    #[command(flatten)]
    pub(crate) choice: ChoiceArgs,
    #[command(flatten)]
    pub(crate) transmission: TransmissionArgs,
    /// Time limit of each request or ping, such as 5s or 400ms
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    pub(crate) deadline: Option<Duration>,
    #[cfg(any(feature = "dtls", feature = "tls"))]
    #[command(flatten)]
    pub(crate) tls: TlsArgs,
    #[cfg(feature = "dtls")]
    #[command(flatten)]
    pub(crate) psk: PskArgs,
}

#[cfg(feature = "dtls")]
/// The key shared with a server.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "DTLS pre-shared key (coaps), instead of certificates")]
pub(crate) struct PskArgs {
    /// Identity of the pre-shared key
    ///
    /// The key is in --psk-file, or in the environment variable CAROB_PSK.
    #[arg(long, value_name = "NAME")]
    pub(crate) psk_identity: Option<String>,
    /// File with the pre-shared key
    ///
    /// The file has a line IDENTITY:KEY for each key. A key that begins with 0x is hexadecimal.
    #[arg(long, value_name = "FILE")]
    pub(crate) psk_file: Option<PathBuf>,
}

#[cfg(any(feature = "dtls", feature = "tls"))]
/// TLS and DTLS: trust anchors and this end's certificate.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "TLS and DTLS (coaps, coaps+tcp, coaps+ws)")]
pub(crate) struct TlsArgs {
    /// Trusted CA certificates (PEM) instead of the system's
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
    /// Client certificate (PEM); over TLS, its chain may follow
    #[arg(long, value_name = "FILE", requires = "key")]
    pub(crate) cert: Option<PathBuf>,
    /// Private key of the certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub(crate) key: Option<PathBuf>,
}

/// Options of multicast and broadcast requests.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Multicast")]
pub(crate) struct GroupArgs {
    /// Waiting time for multicast responses [default: --deadline, or 8s]
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    pub(crate) gather: Option<Duration>,
    /// Interface for multicast requests, such as eth0
    #[arg(long, value_name = "INTERFACE")]
    pub(crate) interface: Option<String>,
    /// Hop limit (TTL) of multicast requests [default: the system's, 1]
    #[arg(long, value_name = "N")]
    pub(crate) hops: Option<u8>,
}

/// Use of Q-Block1 and Q-Block2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum QBlock {
    /// Block1 and Block2.
    Off,
    /// Q-Block with servers that support it.
    Auto,
    /// Q-Block.
    On,
}

impl From<QBlock> for carob::QBlockMode {
    fn from(mode: QBlock) -> Self {
        match mode {
            QBlock::Off => Self::Off,
            QBlock::Auto => Self::Auto,
            QBlock::On => Self::On,
        }
    }
}

/// Options of messages: type, proxy, blocks and tokens.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Network")]
pub(crate) struct MessageArgs {
    /// Send as NON, without retransmission
    #[arg(long)]
    pub(crate) non: bool,
    /// Q-Block1 and Q-Block2 (RFC 9177) for large bodies
    ///
    /// `on` presumes that the server supports them; `auto` tests it with the first body and else uses
    /// Block1 and Block2. Over UDP and DTLS. Bodies are then held in memory, not streamed.
    #[arg(long, value_name = "MODE", default_value = "off")]
    pub(crate) q_block: QBlock,
    /// Forward-proxy for the requests: SCHEME://HOST[:PORT]
    #[arg(long, value_name = "URI")]
    pub(crate) proxy: Option<String>,
    /// Maximum block size: 16, 32, 64, 128, 256, 512 or 1024
    #[arg(long, value_name = "BYTES", value_parser = values::block_size)]
    pub(crate) block_size: Option<BlockSize>,
    /// Token length in bytes, 0 to 1024 [default: 8]
    ///
    /// Servers without support of longer tokens (RFC 8974) get tokens of 8 bytes.
    #[arg(long, value_name = "BYTES", value_parser = values::token_length)]
    pub(crate) token_length: Option<u16>,
    /// Option number of the retransmission count [default: 65052]
    ///
    /// fasor-option and other controllers with a retransmission count use it.
    #[arg(long, value_name = "NUMBER", value_parser = values::count_option)]
    pub(crate) count_option: Option<OptionNumber>,
}

/// Diagnosis: messages, event log and capture.
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Diagnosis")]
pub(crate) struct WatchArgs {
    /// Show each message as a line on stderr; -vv shows its bytes too
    #[arg(short, long, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
    /// Event log to write, a line of JSON for each event; `-` is stderr
    #[arg(long, value_name = "FILE")]
    pub(crate) log: Option<PathBuf>,
    /// Capture to write, for Wireshark (pcapng)
    #[arg(long, value_name = "FILE")]
    pub(crate) pcap: Option<PathBuf>,
}

/// Format of responses.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct ShowArgs {
    /// Print a JSON object for each response, with all details
    #[arg(long)]
    pub(crate) json: bool,
    /// Show times, retransmissions and timers, on stderr or in the JSON object
    #[arg(long)]
    pub(crate) timing: bool,
}

/// Destination and format of a response's body.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct BodyArgs {
    /// File for the body, which appears only when it is complete
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Print the body unchanged, on a terminal too
    #[arg(long, conflicts_with = "json")]
    pub(crate) raw: bool,
}

/// The representation requested.
#[derive(Debug, clap::Args)]
pub(crate) struct SelectArgs {
    /// Accepted format: json, cbor, text, link, ..., media type or number
    #[arg(long, value_name = "FORMAT", value_parser = formats::parse)]
    pub(crate) accept: Option<ContentFormat>,
    /// Additional option, such as 65000=0x01 or Hop-Limit=16
    ///
    /// A value that begins with 0x is hexadecimal. Any other is a number if the option's format is
    /// uint, otherwise text.
    #[arg(long, value_name = "NUMBER=VALUE", value_parser = values::option)]
    pub(crate) option: Vec<OptionValue>,
}

/// Conditions of a request.
#[derive(Debug, clap::Args)]
pub(crate) struct ConditionArgs {
    /// Entity tag of the representation to validate (2.03 if current)
    #[arg(long, value_name = "HEX", value_parser = values::etag)]
    pub(crate) etag: Vec<Vec<u8>>,
    /// Required entity tag of the resource, or any: it must exist
    #[arg(long, value_name = "HEX|any", value_parser = values::tag)]
    pub(crate) if_match: Vec<Tag>,
    /// Require that the resource does not exist
    #[arg(long)]
    pub(crate) if_none_match: bool,
}

/// Source and format of a request's body.
#[derive(Debug, clap::Args)]
pub(crate) struct ContentArgs {
    /// File with the body
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Format of the body, as for --accept
    ///
    /// Needed if the body's file has no known extension.
    #[arg(long, value_name = "FORMAT", value_parser = formats::parse)]
    pub(crate) format: Option<ContentFormat>,
}

/// Options of every request.
#[derive(Debug, clap::Args)]
pub(crate) struct RequestArgs {
    #[command(flatten)]
    pub(crate) select: SelectArgs,
    #[command(flatten)]
    pub(crate) condition: ConditionArgs,
    /// Suppressed classes of responses: 2xx, 4xx, 5xx; all without a value
    #[arg(
        long,
        value_name = "CLASSES",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "all",
        value_parser = values::no_response
    )]
    pub(crate) no_response: Option<NoResponse>,
    #[command(flatten)]
    pub(crate) body: BodyArgs,
    #[command(flatten)]
    pub(crate) show: ShowArgs,
    #[command(flatten)]
    pub(crate) network: NetworkArgs,
    #[command(flatten)]
    pub(crate) message: MessageArgs,
    #[command(flatten)]
    pub(crate) group: GroupArgs,
    #[command(flatten)]
    pub(crate) watch: WatchArgs,
}

/// Arguments of requests without a body.
#[derive(Debug, clap::Args)]
pub(crate) struct AskArgs {
    /// Resources, one after the other: coap://HOST[:PORT]/PATH[?QUERY]
    #[arg(value_name = "URI", required = true)]
    pub(crate) uris: Vec<String>,
    #[command(flatten)]
    pub(crate) request: RequestArgs,
}

/// Arguments of requests with a body.
#[derive(Debug, clap::Args)]
pub(crate) struct SendArgs {
    /// Resource: coap://HOST[:PORT]/PATH[?QUERY]
    #[arg(value_name = "URI")]
    pub(crate) uri: String,
    /// The body; `-` reads it from stdin
    #[arg(value_name = "PAYLOAD", conflicts_with = "file")]
    pub(crate) payload: Option<String>,
    #[command(flatten)]
    pub(crate) content: ContentArgs,
    #[command(flatten)]
    pub(crate) request: RequestArgs,
}

/// Arguments of `carob discover`.
#[derive(Debug, clap::Args)]
pub(crate) struct DiscoverArgs {
    /// HOST[:PORT], or a URI with the path of a list [default path: /.well-known/core]
    #[arg(value_name = "HOST")]
    pub(crate) host: String,
    /// Link filter: rt=temperature*, href=/sensors/* or obs
    ///
    /// May be repeated; a link must match all filters.
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) filter: Vec<String>,
    /// Print links unchanged, a line each
    #[arg(long, help_heading = "Output", conflicts_with = "json")]
    pub(crate) raw: bool,
    /// Print a JSON array instead of a table
    ///
    /// For a multicast request, an object for each member.
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) network: NetworkArgs,
    #[command(flatten)]
    pub(crate) group: GroupArgs,
    #[command(flatten)]
    pub(crate) watch: WatchArgs,
}

/// Arguments of `carob observe`.
#[derive(Debug, clap::Args)]
pub(crate) struct ObserveArgs {
    /// Resource: coap://HOST[:PORT]/PATH[?QUERY]
    #[arg(value_name = "URI")]
    pub(crate) uri: String,
    /// Number of representations after which the command ends
    #[arg(long, value_name = "N", value_parser = values::at_least_one)]
    pub(crate) count: Option<u64>,
    /// Time after which the command ends, such as 10s or 5min
    #[arg(long = "for", value_name = "TIME", value_parser = values::duration)]
    pub(crate) time: Option<Duration>,
    #[command(flatten)]
    pub(crate) select: SelectArgs,
    /// Print a line of JSON for each event: state, stale, ended
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
    /// Print each representation unchanged, without separators
    #[arg(long, help_heading = "Output", conflicts_with = "json")]
    pub(crate) raw: bool,
    #[command(flatten)]
    pub(crate) network: NetworkArgs,
    #[command(flatten)]
    pub(crate) message: MessageArgs,
    #[command(flatten)]
    pub(crate) watch: WatchArgs,
}

/// Arguments of `carob ping`.
#[derive(Debug, clap::Args)]
pub(crate) struct PingArgs {
    /// Endpoints: HOST[:PORT], or a URI; pinged one after the other
    #[arg(value_name = "HOST", required = true)]
    pub(crate) hosts: Vec<String>,
    #[command(flatten)]
    pub(crate) show: ShowArgs,
    #[command(flatten)]
    pub(crate) network: NetworkArgs,
    #[command(flatten)]
    pub(crate) watch: WatchArgs,
}
