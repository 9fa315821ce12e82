//! Arguments of `carob bench`.

use std::path::PathBuf;
use std::time::Duration;

use carob::BlockSize;
use carob_bench::{Arrivals, Mode};
use clap::ValueEnum;

use super::values::{block_size, duration, token_length};
use super::{PskArgs, TlsArgs};

/// Arguments of `carob bench`.
#[derive(Debug, clap::Args)]
pub(crate) struct BenchArgs {
    /// Resource to load: coap://HOST[:PORT]/PATH[?QUERY], or coaps://
    #[arg(value_name = "URI")]
    pub(crate) uri: String,
    /// Kind of requests
    #[arg(short, long, value_name = "MODE", default_value = "get")]
    pub(crate) mode: Mode,

    /// Maximum outstanding requests [default: one a port, or 1024 with --rate]
    ///
    /// They are spread evenly over the ports.
    #[arg(long, value_name = "W", help_heading = "Load")]
    pub(crate) outstanding: Option<u32>,
    /// Number of source ports, or of parallel bodies [default: 16]
    #[arg(long, value_name = "S", help_heading = "Load")]
    pub(crate) ports: Option<u32>,
    /// Rate of requests, such as 5000/s (open loop)
    #[arg(long, value_name = "RATE", value_parser = rate, help_heading = "Load")]
    pub(crate) rate: Option<f64>,
    /// Arrival process of the open loop [default: constant]
    #[arg(long, value_name = "TIMES", requires = "rate", help_heading = "Load")]
    pub(crate) arrivals: Option<Arrivals>,
    /// Seed of Poisson arrivals
    #[arg(long, value_name = "N", default_value = "1", help_heading = "Load")]
    pub(crate) seed: u64,
    /// Duration of the measurement [default: 10s unless --requests is given]
    #[arg(long, value_name = "TIME", value_parser = duration, help_heading = "Load")]
    pub(crate) duration: Option<Duration>,
    /// Warm-up time before the measurement [default: 1s, or 0s with --requests]
    #[arg(long, value_name = "TIME", value_parser = warm_up, help_heading = "Load")]
    pub(crate) warm_up: Option<Duration>,
    /// Number of requests or bodies
    #[arg(long, value_name = "N", help_heading = "Load")]
    pub(crate) requests: Option<u64>,
    /// Number of threads that generate load; ports are divided among them
    #[arg(long, value_name = "N", default_value = "1", help_heading = "Load")]
    pub(crate) threads: u32,

    /// Send requests as NON, without retransmission
    #[arg(long, help_heading = "Request")]
    pub(crate) non: bool,
    /// Request body (post, upload)
    #[arg(
        long,
        value_name = "TEXT",
        conflicts_with = "bytes",
        help_heading = "Request"
    )]
    pub(crate) payload: Option<String>,
    /// Length of the request body in bytes (post, upload)
    #[arg(long, value_name = "N", help_heading = "Request")]
    pub(crate) bytes: Option<usize>,
    /// Method of uploads [default: put]
    #[arg(long, value_name = "METHOD", help_heading = "Request")]
    pub(crate) method: Option<Method>,
    /// Maximum block size
    #[arg(long, value_name = "BYTES", value_parser = block_size, help_heading = "Request")]
    pub(crate) block_size: Option<BlockSize>,
    /// Token length in bytes
    ///
    /// Tokens of more than 8 bytes need a server with RFC 8974.
    #[arg(long, value_name = "BYTES", value_parser = token_length, default_value = "4", help_heading = "Request")]
    pub(crate) token_length: u16,

    /// Congestion controller [default: default]
    ///
    /// `carob cc list` explains all.
    #[arg(long, value_name = "NAME", help_heading = "Message layer")]
    pub(crate) cc: Option<String>,
    /// Maximum outstanding exchanges of a port (NSTART)
    ///
    /// In the mode block these are blocks of a body in flight. [default: 1 for block; otherwise as
    /// --outstanding needs]
    #[arg(long, value_name = "N", help_heading = "Message layer")]
    pub(crate) nstart: Option<u16>,
    /// Time limit of requests and handshakes [default: 10s; 60s for bodies]
    #[arg(long, value_name = "TIME", value_parser = duration, help_heading = "Message layer")]
    pub(crate) timeout: Option<Duration>,
    /// Messages after which a source port and its DTLS session are replaced
    #[arg(
        long,
        value_name = "N",
        default_value = "60000",
        help_heading = "Message layer"
    )]
    pub(crate) port_messages: u32,

    /// Print one JSON object
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
    /// File for the percentile distribution of latencies (us)
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) histogram: Option<PathBuf>,
    /// Local server process whose CPU time per request is reported (Linux)
    #[arg(long, value_name = "PID", help_heading = "Output")]
    pub(crate) server_pid: Option<u32>,

    #[command(flatten)]
    pub(crate) tls: TlsArgs,
    #[command(flatten)]
    pub(crate) psk: PskArgs,
}

/// Method of an upload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Method {
    /// PUT
    Put,
    /// POST
    Post,
}

/// `5000/s`, `5000`, `90/min`; in requests per second.
fn rate(text: &str) -> Result<f64, String> {
    let wrong = || "expected requests per time, such as 5000/s or 90/min".to_owned();
    let (number, per) = text.split_once('/').unwrap_or((text, "s"));
    let seconds = match per.trim() {
        "s" => 1.0,
        "min" => 60.0,
        _ => return Err(wrong()),
    };
    let number: f64 = number.trim().parse().map_err(|_| wrong())?;
    let rate = number / seconds;
    if !rate.is_finite() || rate <= 0.0 {
        return Err(wrong());
    }
    if rate > FASTEST {
        return Err(format!("expected a rate of at most {FASTEST}/s"));
    }
    Ok(rate)
}

/// The highest rate accepted: more than any one machine's sockets carry.
const FASTEST: f64 = 10e6;

/// A time; none at all is one, too.
fn warm_up(text: &str) -> Result<Duration, String> {
    match text.trim() {
        "0" | "0s" => Ok(Duration::ZERO),
        other => duration(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_is_per_second_by_default() {
        assert_eq!(rate("5000/s"), Ok(5_000.0));
        assert_eq!(rate("2.5"), Ok(2.5));
        assert_eq!(rate("90/min"), Ok(1.5));
        for wrong in ["", "0", "-1/s", "5/h", "nan", "inf", "1e9/s", "fast"] {
            assert!(rate(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_warm_up_may_be_left_out() {
        assert_eq!(warm_up("0s"), Ok(Duration::ZERO));
        assert_eq!(warm_up("500ms"), Ok(Duration::from_millis(500)));
        assert!(warm_up("5").is_err());
    }
}
