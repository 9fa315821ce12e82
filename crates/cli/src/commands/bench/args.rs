//! What can be typed after `carob bench`.

use std::path::PathBuf;
use std::time::Duration;

use carob::{BlockSize, TransmissionProfile};
use clap::ValueEnum;
use serde::Serialize;

use crate::args::{PskArgs, TlsArgs, block_size, duration, profile, token_length};

/// What `carob bench` can be told.
#[derive(Debug, clap::Args)]
pub(crate) struct BenchArgs {
    /// What to ask: coap://HOST[:PORT]/PATH[?QUERY], or coaps://
    #[arg(value_name = "URI")]
    pub(crate) uri: String,
    /// What to do with it
    #[arg(short, long, value_name = "MODE", default_value = "get")]
    pub(crate) mode: Mode,

    /// Requests outstanding at a time, spread evenly over the ports [default: one a port; with
    /// --rate at most 1024]; or handshakes at a time [default: 16; with --rate at most 256]
    #[arg(long, value_name = "W", help_heading = "Load")]
    pub(crate) outstanding: Option<u32>,
    /// Source ports; observers, or bodies in parallel, in the modes that have them [default: 16]
    #[arg(long, value_name = "S", help_heading = "Load")]
    pub(crate) ports: Option<u32>,
    /// Open loop: start this many requests per second, such as 5000/s, whatever comes back
    #[arg(long, value_name = "RATE", value_parser = rate, help_heading = "Load")]
    pub(crate) rate: Option<f64>,
    /// The open loop's arrival times [default: constant]
    #[arg(long, value_name = "TIMES", requires = "rate", help_heading = "Load")]
    pub(crate) arrivals: Option<Arrivals>,
    /// Seed of Poisson arrival times
    #[arg(long, value_name = "N", default_value = "1", help_heading = "Load")]
    pub(crate) seed: u64,
    /// How long to measure [default: 10s unless --requests is given]
    #[arg(long, value_name = "TIME", value_parser = duration, help_heading = "Load")]
    pub(crate) duration: Option<Duration>,
    /// How long to run before measuring [default: 1s, or 0s with --requests]
    #[arg(long, value_name = "TIME", value_parser = warm_up, help_heading = "Load")]
    pub(crate) warm_up: Option<Duration>,
    /// Stop after this many requests, bodies, rounds or handshakes
    #[arg(long, value_name = "N", help_heading = "Load")]
    pub(crate) requests: Option<u64>,
    /// Threads that generate load; the ports are spread over them
    #[arg(long, value_name = "N", default_value = "1", help_heading = "Load")]
    pub(crate) threads: u32,

    /// Send requests as NON: not repeated if lost
    #[arg(long, help_heading = "Request")]
    pub(crate) non: bool,
    /// The body to send (post, upload)
    #[arg(
        long,
        value_name = "TEXT",
        conflicts_with = "bytes",
        help_heading = "Request"
    )]
    pub(crate) payload: Option<String>,
    /// The length of the body to send (post, upload)
    #[arg(long, value_name = "N", help_heading = "Request")]
    pub(crate) bytes: Option<usize>,
    /// The method that uploads [default: put]
    #[arg(long, value_name = "METHOD", help_heading = "Request")]
    pub(crate) method: Option<Method>,
    /// The largest block to send or ask for, in bytes
    #[arg(long, value_name = "BYTES", value_parser = block_size, help_heading = "Request")]
    pub(crate) block_size: Option<BlockSize>,
    /// The length of tokens, in bytes; those of more than 8 go to a server that takes them (RFC 8974)
    #[arg(long, value_name = "BYTES", value_parser = token_length, default_value = "4", help_heading = "Request")]
    pub(crate) token_length: u16,
    /// POST to this URI and take the time until every observer was notified, round after round
    #[arg(long, value_name = "URI", help_heading = "Request")]
    pub(crate) trigger: Option<String>,

    /// The congestion controller (see `carob cc list`) [default: default, or the profile's]
    #[arg(long, value_name = "NAME", help_heading = "Message layer")]
    pub(crate) cc: Option<String>,
    /// What suits a kind of link: nb-iot, lte-m, thread or lan (see `carob profiles`); other options go
    /// over it
    #[arg(long, value_name = "NAME", value_parser = profile, help_heading = "Message layer")]
    pub(crate) profile: Option<TransmissionProfile>,
    /// NSTART: blocks of a body that may be in flight (block) [default: 1; otherwise what
    /// --outstanding needs]
    #[arg(long, value_name = "N", help_heading = "Message layer")]
    pub(crate) nstart: Option<u16>,
    /// A request without an answer, or a handshake without an end, for this long has failed [default: 10s; 60s for bodies]
    #[arg(long, value_name = "TIME", value_parser = duration, help_heading = "Message layer")]
    pub(crate) timeout: Option<Duration>,
    /// Messages from one source port before a fresh one takes its place
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
    /// Write the latencies' percentile distribution, in microseconds, to a file
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) histogram: Option<PathBuf>,
    /// Report the CPU time per request of this process, the server on this machine (Linux)
    #[arg(long, value_name = "PID", help_heading = "Output")]
    pub(crate) server_pid: Option<u32>,

    #[command(flatten)]
    pub(crate) tls: TlsArgs,
    #[command(flatten)]
    pub(crate) psk: PskArgs,
}

/// What is done with the resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Mode {
    /// GET it
    Get,
    /// POST a small body to it
    Post,
    /// Observe it, and time the notifications
    Observe,
    /// Download it block by block
    Block,
    /// Upload a body to it block by block
    Upload,
    /// Make DTLS sessions with its server, one after the other, and ask nothing
    Handshake,
}

impl Mode {
    /// Whether a request is a body of many messages.
    pub(crate) fn moves_bodies(self) -> bool {
        matches!(self, Self::Block | Self::Upload)
    }
}

/// When requests of the open loop are meant to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Arrivals {
    /// At equal distances
    Constant,
    /// At random, like those of many independent clients
    Poisson,
}

/// How a body is uploaded.
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
        return Err(format!("at most {FASTEST}/s can be asked for"));
    }
    Ok(rate)
}

/// The highest rate that may be asked for: more than any one machine's sockets carry.
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
    fn a_rate_is_per_second_unless_it_says_otherwise() {
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
