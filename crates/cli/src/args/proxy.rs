//! Arguments of `carob proxy`.

use std::net::SocketAddr;
#[cfg(any(feature = "dtls", feature = "tls"))]
use std::path::PathBuf;
use std::time::Duration;

use carob::proxy::Allow;
use carob::{BlockSize, Prefix};

use super::{ListenArgs, OperatorArgs, WatchArgs, values};

/// Arguments of `carob proxy`.
#[derive(Debug, clap::Args)]
pub(crate) struct ProxyArgs {
    /// Path prefix and its origin: /kitchen=coap://192.0.2.7
    #[arg(long, value_name = "PATH=URI", value_parser = route)]
    pub(crate) route: Vec<(String, String)>,
    /// Allowed origins of the forward-proxy: [SCHEME://]HOST[:PORT] [default: none]
    #[arg(long, value_name = "PATTERN")]
    pub(crate) allow: Vec<Allow>,
    /// Further name of the proxy; its addresses are known
    #[arg(long, value_name = "NAME")]
    pub(crate) host: Vec<String>,
    /// Name of the proxy in the response that ends a loop (5.08)
    #[arg(long, value_name = "NAME", default_value = "carob")]
    pub(crate) id: String,
    /// Hop-Limit of requests without one
    #[arg(long, value_name = "HOPS", default_value_t = 16, value_parser = clap::value_parser!(u8).range(1..))]
    pub(crate) hop_limit: u8,
    /// Address to listen on, at port 5683 unless given
    ///
    /// [::] accepts IPv4, too. Port 0 selects a free port.
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = "[::]:5683",
        value_parser = super::values::coap_address,
        help_heading = "Client side"
    )]
    pub(crate) bind: String,
    #[command(flatten)]
    pub(crate) listen: ListenArgs,
    /// Congestion controller towards clients
    ///
    /// `carob cc list` explains all. [default: default]
    #[arg(long, value_name = "NAME", help_heading = "Client side")]
    pub(crate) cc: Option<String>,
    /// Prefix of clients behind one slow link that share a congestion budget
    ///
    /// The clients are those with this prefix, or all clients without one. May be repeated; the
    /// longest matching prefix applies.
    #[arg(long, value_name = "PREFIX", num_args = 0..=1, require_equals = true, default_missing_value = "all",
          value_parser = values::aggregate, help_heading = "Client side")]
    pub(crate) aggregate: Vec<Prefix>,
    /// Maximum block size towards clients
    #[arg(long, value_name = "BYTES", value_parser = values::block_size, help_heading = "Client side")]
    pub(crate) block_size: Option<BlockSize>,
    #[command(flatten)]
    pub(crate) origin: OriginArgs,
    #[command(flatten)]
    pub(crate) limit: LimitArgs,
    #[command(flatten)]
    pub(crate) operator: OperatorArgs,
    /// Print the ready line as a JSON object
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) watch: WatchArgs,
}

/// Options of requests to origins.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Origin side")]
pub(crate) struct OriginArgs {
    /// Congestion controller towards origins
    ///
    /// For one origin: 192.0.2.7:5683=fasor.
    #[arg(long, value_name = "[ADDRESS=]NAME", value_parser = controller)]
    pub(crate) origin_cc: Vec<(Option<SocketAddr>, String)>,
    /// Maximum block size towards origins
    #[arg(long, value_name = "BYTES", value_parser = values::block_size)]
    pub(crate) origin_block_size: Option<BlockSize>,
    /// Time limit of an origin's response, such as 5s; 5.04 after it
    #[arg(long, value_name = "TIME", value_parser = values::duration, default_value = "100s")]
    pub(crate) patience: Duration,
    #[cfg(any(feature = "dtls", feature = "tls"))]
    /// Trusted CA certificates (PEM) of origins instead of the system's
    #[arg(long, value_name = "FILE")]
    pub(crate) origin_ca: Option<PathBuf>,
    #[cfg(any(feature = "dtls", feature = "tls"))]
    /// Certificate towards origins (PEM); over TLS, its chain may follow
    #[arg(long, value_name = "FILE", requires = "origin_key")]
    pub(crate) origin_cert: Option<PathBuf>,
    #[cfg(any(feature = "dtls", feature = "tls"))]
    /// Private key of that certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "origin_cert")]
    pub(crate) origin_key: Option<PathBuf>,
    #[cfg(feature = "dtls")]
    /// Identity of the key shared with origins over DTLS
    ///
    /// The key is in --origin-psk-file, or in the environment variable CAROB_PSK.
    #[arg(long, value_name = "NAME")]
    pub(crate) origin_psk_identity: Option<String>,
    #[cfg(feature = "dtls")]
    /// File with the keys shared with origins
    ///
    /// The file has a line IDENTITY:KEY for each. A key that begins with 0x is hexadecimal.
    #[arg(long, value_name = "FILE")]
    pub(crate) origin_psk_file: Option<PathBuf>,
}

/// Limits of the proxy.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Limits")]
pub(crate) struct LimitArgs {
    /// Maximum requests in progress at origins; 5.03 above it
    #[arg(long, value_name = "N", default_value_t = 1_024)]
    pub(crate) requests: usize,
    /// Maximum requests in progress at one origin; 5.03 above it
    #[arg(long, value_name = "N", default_value_t = 256)]
    pub(crate) requests_of_origin: usize,
    /// Maximum size of a body in bytes; 4.13 or 5.02 above it
    ///
    /// 4.13 for the body of a request, 5.02 for the body of a response.
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 20)]
    pub(crate) body_bytes: usize,
    /// Maximum observations at origins
    ///
    /// Above the limit a registration is forwarded as a plain GET.
    #[arg(long, value_name = "N", default_value_t = 1_024)]
    pub(crate) observations: usize,
    /// Maximum observations at origins for one client
    #[arg(long, value_name = "N", default_value_t = 128)]
    pub(crate) observations_of_client: usize,
    /// Maximum responses in the cache; 0 disables it
    #[arg(long, value_name = "N", default_value_t = 4_096)]
    pub(crate) cache_entries: usize,
    /// Maximum size of the cache in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 16 << 20)]
    pub(crate) cache_bytes: usize,
    /// Cache and share secure responses, too
    ///
    /// Only for proxies all of whose clients have the same authorization.
    #[arg(long)]
    pub(crate) share_secure: bool,
    /// Maximum requests in progress of one client; 5.03 above it
    #[arg(long, value_name = "N", default_value_t = 512)]
    pub(crate) requests_of_client: usize,
    /// Other limit towards clients, such as request_rate=50
    ///
    /// `carob serve --limits` lists all. May be repeated.
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
    if uri.starts_with("http://") || uri.starts_with("https://") {
        return Err(format!(
            "{uri}: translation to HTTP is not supported; an origin is a CoAP URI"
        ));
    }
    let parsed: Result<carob::Uri, _> = uri.parse();
    parsed.map_err(|error| format!("{uri}: {error}"))?;
    Ok((path.to_owned(), uri.to_owned()))
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
        let http = route("/a=http://h/").expect_err("it is no CoAP URI");
        assert!(http.contains("HTTP is not supported"), "{http}");
        assert_eq!(controller("fasor"), Ok((None, "fasor".into())));
        let of_one = controller("[::1]:5683=fasor").map(|(address, _)| address.is_some());
        assert_eq!(of_one, Ok(true));
        assert!(controller("h=fasor").is_err());
    }
}
