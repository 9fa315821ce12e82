//! What can be typed after `carob proxy`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use carob::proxy::Allow;
use carob::{BlockSize, Prefix, TransmissionProfile};

use super::{ListenArgs, OperatorArgs, WatchArgs, values};

/// What a proxy can be told.
#[derive(Debug, clap::Args)]
pub(crate) struct ProxyArgs {
    /// Take what begins with PATH here to what begins with URI there: /kitchen=coap://192.0.2.7
    #[arg(long, value_name = "PATH=URI", value_parser = route)]
    pub(crate) route: Vec<(String, String)>,
    /// Ask these for whoever names them: [SCHEME://]HOST[:PORT]; without it, nobody
    #[arg(long, value_name = "PATTERN")]
    pub(crate) allow: Vec<Allow>,
    /// A name that leads to this proxy; its addresses are known
    #[arg(long, value_name = "NAME")]
    pub(crate) host: Vec<String>,
    /// What it calls itself in the answer that ends a loop (5.08)
    #[arg(long, value_name = "NAME", default_value = "carob")]
    pub(crate) id: String,
    /// The Hop-Limit of requests that come without one
    #[arg(long, value_name = "HOPS", default_value_t = 16, value_parser = clap::value_parser!(u8).range(1..))]
    pub(crate) hop_limit: u8,
    /// Where to listen, at port 5683 unless given; [::] takes IPv4 too, and port 0 any that is free
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = "[::]:5683",
        value_parser = super::values::coap_address,
        help_heading = "Side of the clients"
    )]
    pub(crate) bind: String,
    #[command(flatten)]
    pub(crate) listen: ListenArgs,
    /// The congestion controller towards clients (`carob cc list` explains all) [default: default, or the
    /// profile's]
    #[arg(long, value_name = "NAME", help_heading = "Side of the clients")]
    pub(crate) cc: Option<String>,
    /// What suits the link to the clients: nb-iot, lte-m, thread or lan (`carob profiles` explains all);
    /// other options go over it
    #[arg(long, value_name = "NAME", value_parser = values::profile, help_heading = "Side of the clients")]
    pub(crate) profile: Option<TransmissionProfile>,
    /// Give all peers with this prefix, or without one all there are, one budget in front of their
    /// controllers, for those behind one slow link; several may be given, the longest counts
    #[arg(long, value_name = "PREFIX", num_args = 0..=1, require_equals = true, default_missing_value = "all",
          value_parser = values::aggregate, help_heading = "Side of the clients")]
    pub(crate) aggregate: Vec<Prefix>,
    /// The largest block to send to clients or take from them
    #[arg(long, value_name = "BYTES", value_parser = values::block_size, help_heading = "Side of the clients")]
    pub(crate) block_size: Option<BlockSize>,
    #[command(flatten)]
    pub(crate) origin: OriginArgs,
    #[command(flatten)]
    pub(crate) limit: LimitArgs,
    #[command(flatten)]
    pub(crate) operator: OperatorArgs,
    /// Print the line that says it listens as a JSON object
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) watch: WatchArgs,
}

/// How origins are asked.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Side of the origins")]
pub(crate) struct OriginArgs {
    /// The congestion controller towards origins, or towards one: 192.0.2.7:5683=fasor
    #[arg(long, value_name = "[ADDRESS=]NAME", value_parser = controller)]
    pub(crate) origin_cc: Vec<(Option<SocketAddr>, String)>,
    /// What suits the link to the origins, or to one: 192.0.2.7:5683=nb-iot. --origin-cc for the same
    /// and other options go over it; blocks are those of all origins
    #[arg(long, value_name = "[ADDRESS=]NAME", value_parser = profile)]
    pub(crate) origin_profile: Vec<(Option<SocketAddr>, TransmissionProfile)>,
    /// The largest block to send to origins or ask them for
    #[arg(long, value_name = "BYTES", value_parser = values::block_size)]
    pub(crate) origin_block_size: Option<BlockSize>,
    /// Give an origin up after this long (5.04), such as 5s
    #[arg(long, value_name = "TIME", value_parser = values::duration, default_value = "100s")]
    pub(crate) patience: Duration,
    /// Trust origins with certificates of this PEM file instead of the system's
    #[arg(long, value_name = "FILE")]
    pub(crate) origin_ca: Option<PathBuf>,
    /// The proxy's own certificate for origins, with those that vouch for it (PEM)
    #[arg(long, value_name = "FILE", requires = "origin_key")]
    pub(crate) origin_cert: Option<PathBuf>,
    /// The key of that certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "origin_cert")]
    pub(crate) origin_key: Option<PathBuf>,
    /// The name of the key that the proxy shares with origins over DTLS; the key itself is in
    /// --origin-psk-file, or in the environment as CAROB_PSK
    #[arg(long, value_name = "NAME")]
    pub(crate) origin_psk_identity: Option<String>,
    /// A file of such keys, a line IDENTITY:KEY for each; what begins with 0x is hexadecimal
    #[arg(long, value_name = "FILE")]
    pub(crate) origin_psk_file: Option<PathBuf>,
}

/// What the proxy may hold.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Limits")]
pub(crate) struct LimitArgs {
    /// Requests that wait for origins; beyond: 5.03
    #[arg(long, value_name = "N", default_value_t = 1_024)]
    pub(crate) requests: usize,
    /// Requests that wait for one origin; beyond: 5.03
    #[arg(long, value_name = "N", default_value_t = 256)]
    pub(crate) requests_of_origin: usize,
    /// Bytes of a body; beyond: 4.13 for requests, 5.02 for responses
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 20)]
    pub(crate) body_bytes: usize,
    /// Resources that are observed at origins; others are read once
    #[arg(long, value_name = "N", default_value_t = 1_024)]
    pub(crate) observations: usize,
    /// Of those, resources that one client began to observe
    #[arg(long, value_name = "N", default_value_t = 128)]
    pub(crate) observations_of_client: usize,
    /// Responses that the cache keeps; 0 keeps none
    #[arg(long, value_name = "N", default_value_t = 4_096)]
    pub(crate) cache_entries: usize,
    /// Bytes that the cache keeps
    #[arg(long, value_name = "BYTES", default_value_t = 16 << 20)]
    pub(crate) cache_bytes: usize,
    /// Keep and share what is asked for securely and from secure origins, too: only where every
    /// client may see what any other may
    #[arg(long)]
    pub(crate) share_secure: bool,
    /// Requests of one client that wait for origins; beyond: 5.03
    #[arg(long, value_name = "N", default_value_t = 512)]
    pub(crate) requests_of_client: usize,
    /// Set another limit of the side of the clients, such as request_rate=50; `carob serve --limits`
    /// lists them; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = values::limit)]
    pub(crate) limit: Vec<(String, usize)>,
}

/// `PATH=URI`.
fn route(text: &str) -> Result<(String, String), String> {
    let wrong = "expected PATH=URI, such as /kitchen=coap://192.0.2.7";
    let (path, uri) = text.split_once('=').ok_or(wrong)?;
    if !path.starts_with('/') {
        return Err(wrong.into());
    }
    let parsed: Result<carob::Uri, _> = uri.parse();
    parsed.map_err(|error| format!("{uri}: {error}"))?;
    Ok((path.to_owned(), uri.to_owned()))
}

/// `NAME` or `ADDRESS=NAME`, of a profile.
fn profile(text: &str) -> Result<(Option<SocketAddr>, TransmissionProfile), String> {
    let (address, name) = controller(text)?;
    Ok((address, values::profile(&name)?))
}

/// `NAME` or `ADDRESS=NAME`.
fn controller(text: &str) -> Result<(Option<SocketAddr>, String), String> {
    let Some((address, name)) = text.split_once('=') else {
        return Ok((None, text.to_owned()));
    };
    let address = address.parse();
    let address =
        address.map_err(|_| "expected NAME or ADDRESS:PORT=NAME, such as 192.0.2.7:5683=fasor")?;
    Ok((Some(address), name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_and_controllers_of_origins_are_read() {
        let read = route("/a/b=coap://h/x?y=z").map(|(path, uri)| path + " " + &uri);
        assert_eq!(read.as_deref(), Ok("/a/b coap://h/x?y=z"));
        for wrong in ["/a", "a=coap://h", "/a=h", "/a=http://h/"] {
            assert!(route(wrong).is_err(), "{wrong}");
        }
        assert_eq!(controller("fasor"), Ok((None, "fasor".into())));
        let of_one = controller("[::1]:5683=fasor").map(|(address, _)| address.is_some());
        assert_eq!(of_one, Ok(true));
        assert!(controller("h=fasor").is_err());
        assert_eq!(profile("lan"), Ok((None, TransmissionProfile::Lan)));
        let of_one = profile("[::1]:5683=thread").map(|(address, _)| address.is_some());
        assert_eq!(of_one, Ok(true));
        assert!(profile("[::1]:5683=fasor").is_err());
    }
}
