//! What can be typed after the commands that talk to a server.

use std::path::PathBuf;
use std::time::Duration;

use carob::{
    BlockSize, ContentFormat, NoResponse, OptionNumber, TransmissionParameters, TransmissionProfile,
};

use super::values::{self, OptionValue, Tag};
use crate::formats;

/// How messages are timed.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Network")]
pub(crate) struct ChoiceArgs {
    /// The congestion controller (`carob cc list` explains all) [default: default, or the profile's]
    #[arg(long, value_name = "NAME")]
    pub(crate) cc: Option<String>,
    /// What suits a kind of link: nb-iot, lte-m, thread or lan, each with a controller, timers and a block
    /// size (`carob profiles` explains all); --cc and other explicit options override it
    #[arg(long, value_name = "NAME", value_parser = values::profile)]
    pub(crate) profile: Option<TransmissionProfile>,
}

/// Transmission parameters (RFC 7252 4.8) that override those of the profile or controller.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Network")]
pub(crate) struct TransmissionArgs {
    /// Allow this many outstanding exchanges with a peer (NSTART) [default: 1, or the profile's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) nstart: Option<u16>,
    /// Set the first timeout without an RTT estimate (ACK_TIMEOUT) [default: 2s, or the profile's]
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    pub(crate) ack_timeout: Option<Duration>,
    /// Retransmit a message at most this often (MAX_RETRANSMIT) [default: 4, or the profile's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8)
        .range(..=i64::from(TransmissionParameters::MAX_RETRANSMIT_LIMIT)))]
    pub(crate) max_retransmit: Option<u8>,
}

impl TransmissionArgs {
    /// Whether any is given.
    pub(crate) fn any(&self) -> bool {
        self.nstart.is_some() || self.ack_timeout.is_some() || self.max_retransmit.is_some()
    }
}

/// How to reach the other side, whatever is asked of it.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Network")]
pub(crate) struct NetworkArgs {
    #[command(flatten)]
    pub(crate) choice: ChoiceArgs,
    #[command(flatten)]
    pub(crate) transmission: TransmissionArgs,
    /// Give up after this long, such as 5s or 400ms
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    pub(crate) deadline: Option<Duration>,
    #[command(flatten)]
    pub(crate) tls: TlsArgs,
    #[command(flatten)]
    pub(crate) psk: PskArgs,
}

/// The key that we share with a server.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "DTLS (coaps) with a pre-shared key, in the place of certificates")]
pub(crate) struct PskArgs {
    /// The name of the key that both sides know; the key itself is in --psk-file, or in the
    /// environment as CAROB_PSK
    #[arg(long, value_name = "NAME")]
    pub(crate) psk_identity: Option<String>,
    /// A file of keys, a line IDENTITY:KEY for each; what begins with 0x is hexadecimal
    #[arg(long, value_name = "FILE")]
    pub(crate) psk_file: Option<PathBuf>,
}

/// Whom to trust over TLS and DTLS, and who we are.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "TLS and DTLS (coaps, coaps+tcp, coaps+ws)")]
pub(crate) struct TlsArgs {
    /// Trust the certificates of this PEM file instead of the system's
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
    /// Our own certificate, with those that vouch for it (PEM)
    #[arg(long, value_name = "FILE", requires = "key")]
    pub(crate) cert: Option<PathBuf>,
    /// The key of our certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub(crate) key: Option<PathBuf>,
}

/// How a group is asked: a multicast address, or the broadcast address.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Groups (multicast)")]
pub(crate) struct GroupArgs {
    /// How long to take the answers of a group; 8s unless told, or --deadline
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    pub(crate) gather: Option<Duration>,
    /// Write to the group by this interface, such as eth0
    #[arg(long, value_name = "INTERFACE")]
    pub(crate) interface: Option<String>,
    /// How many networks the request may cross, ours included; the system says 1
    #[arg(long, value_name = "N")]
    pub(crate) hops: Option<u8>,
}

/// How messages leave.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Network")]
pub(crate) struct MessageArgs {
    /// Send as NON: not repeated if lost
    #[arg(long)]
    pub(crate) non: bool,
    /// Ask this forward-proxy for it: SCHEME://HOST[:PORT]
    #[arg(long, value_name = "URI")]
    pub(crate) proxy: Option<String>,
    /// The largest block to send or ask for: 16, 32, 64, 128, 256, 512 or 1024
    #[arg(long, value_name = "BYTES", value_parser = values::block_size)]
    pub(crate) block_size: Option<BlockSize>,
    /// The length of tokens, in bytes, 0 to 1024; those of more than 8 go to servers that take them
    /// (RFC 8974), others get 8 [default: 8]
    #[arg(long, value_name = "BYTES", value_parser = values::token_length)]
    pub(crate) token_length: Option<u16>,
    /// The option in which fasor-option and others count retransmissions, if not 65052
    #[arg(long, value_name = "NUMBER", value_parser = values::count_option)]
    pub(crate) count_option: Option<OptionNumber>,
}

/// What to tell of how it went.
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "What happens on the wire")]
pub(crate) struct WatchArgs {
    /// Show each message as a line on stderr; -vv shows its bytes too
    #[arg(short, long, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
    /// Write an event log, a line of JSON for each protocol event; `-` is stderr
    #[arg(long, value_name = "FILE")]
    pub(crate) log: Option<PathBuf>,
    /// Write a capture (pcapng) that Wireshark reads
    #[arg(long, value_name = "FILE")]
    pub(crate) pcap: Option<PathBuf>,
}

/// What is shown of answers.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct ShowArgs {
    /// Print a JSON object for each answer, with all there is to tell
    #[arg(long)]
    pub(crate) json: bool,
    /// Tell times, retransmissions and timers, on stderr or in the JSON object
    #[arg(long)]
    pub(crate) timing: bool,
}

/// What is done with a body that comes back.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct BodyArgs {
    /// Write the body to a file, which appears only when it is complete
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Print the body as it came, on a terminal too
    #[arg(long, conflicts_with = "json")]
    pub(crate) raw: bool,
}

/// Which representation is asked for.
#[derive(Debug, clap::Args)]
pub(crate) struct SelectArgs {
    /// The format to ask for: json, cbor, text, link, ..., a media type or a number
    #[arg(long, value_name = "FORMAT", value_parser = formats::parse)]
    pub(crate) accept: Option<ContentFormat>,
    /// Add an option, such as 65000=0x01 or Hop-Limit=16; what does not begin with 0x is text, or a
    /// number if the option is one
    #[arg(long, value_name = "NUMBER=VALUE", value_parser = values::option)]
    pub(crate) option: Vec<OptionValue>,
}

/// Under which conditions a request is to be carried out.
#[derive(Debug, clap::Args)]
pub(crate) struct ConditionArgs {
    /// A state that is known already: if it is still the same, the answer has no body (2.03)
    #[arg(long, value_name = "HEX", value_parser = values::etag)]
    pub(crate) etag: Vec<Vec<u8>>,
    /// Only if the resource is in this state, or exists at all
    #[arg(long, value_name = "HEX|any", value_parser = values::tag)]
    pub(crate) if_match: Vec<Tag>,
    /// Only if the resource does not exist
    #[arg(long)]
    pub(crate) if_none_match: bool,
}

/// Where a request's body comes from, and what it is.
#[derive(Debug, clap::Args)]
pub(crate) struct ContentArgs {
    /// Send a file as the body
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// The body's format, if its file's extension does not tell it: see --accept
    #[arg(long, value_name = "FORMAT", value_parser = formats::parse)]
    pub(crate) format: Option<ContentFormat>,
}

/// What every request can be told.
#[derive(Debug, clap::Args)]
pub(crate) struct RequestArgs {
    #[command(flatten)]
    pub(crate) select: SelectArgs,
    #[command(flatten)]
    pub(crate) condition: ConditionArgs,
    /// Ask for no response, or for none of these classes: 2xx, 4xx, 5xx
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

/// What requests without a body can be told.
#[derive(Debug, clap::Args)]
pub(crate) struct AskArgs {
    /// What to ask for: coap://HOST[:PORT]/PATH[?QUERY]; several are asked for one after the other
    #[arg(value_name = "URI", required = true)]
    pub(crate) uris: Vec<String>,
    #[command(flatten)]
    pub(crate) request: RequestArgs,
}

/// What requests with a body can be told.
#[derive(Debug, clap::Args)]
pub(crate) struct SendArgs {
    /// Where to send it: coap://HOST[:PORT]/PATH[?QUERY]
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
    #[arg(long, help_heading = "Output", conflicts_with = "json")]
    pub(crate) raw: bool,
    /// Print a JSON array instead of a table; of a group, an object for each member
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) network: NetworkArgs,
    #[command(flatten)]
    pub(crate) group: GroupArgs,
    #[command(flatten)]
    pub(crate) watch: WatchArgs,
}

/// What an observation can be told.
#[derive(Debug, clap::Args)]
pub(crate) struct ObserveArgs {
    /// What to observe: coap://HOST[:PORT]/PATH[?QUERY]
    #[arg(value_name = "URI")]
    pub(crate) uri: String,
    /// Stop after this many states
    #[arg(long, value_name = "N", value_parser = values::at_least_one)]
    pub(crate) count: Option<u64>,
    /// Stop after this long, such as 10s or 5min
    #[arg(long = "for", value_name = "TIME", value_parser = values::duration)]
    pub(crate) time: Option<Duration>,
    #[command(flatten)]
    pub(crate) select: SelectArgs,
    /// Print a line of JSON for each event: state, stale, ended
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
    /// Print each state as it came, and nothing between them
    #[arg(long, help_heading = "Output", conflicts_with = "json")]
    pub(crate) raw: bool,
    #[command(flatten)]
    pub(crate) network: NetworkArgs,
    #[command(flatten)]
    pub(crate) message: MessageArgs,
    #[command(flatten)]
    pub(crate) watch: WatchArgs,
}

/// What a ping can be told.
#[derive(Debug, clap::Args)]
pub(crate) struct PingArgs {
    /// Whom to ask: coap://HOST[:PORT]; several are asked one after the other
    #[arg(value_name = "URI", required = true)]
    pub(crate) uris: Vec<String>,
    #[command(flatten)]
    pub(crate) show: ShowArgs,
    #[command(flatten)]
    pub(crate) network: NetworkArgs,
    #[command(flatten)]
    pub(crate) watch: WatchArgs,
}
