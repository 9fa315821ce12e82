//! The settings of a load.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use carob::dtls::ClientSessions;
use carob::{BlockSize, TransmissionParameters};
use carob_proto::codec::Uri;
use carob_proto::congestion::CongestionControl;
use carob_proto::endpoint::{BodyMode, Config, RequestConfig, Tracing};
use carob_proto::message::Request;
use clap::ValueEnum;
use serde::Serialize;

/// The most messages from one source port: Message IDs that are free within EXCHANGE_LIFETIME.
pub const PORT_MESSAGES_MAX: u32 = 64_000;
/// Messages of the server's that a port remembers to know their repetitions. At it, the oldest is
/// forgotten, and its repetition counts as late.
const REMEMBERED: usize = 1_024;

/// Kind of load on the resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// GET it
    Get,
    /// POST a small body to it
    Post,
    /// Download it block by block
    Block,
    /// Upload a body to it block by block
    Upload,
}

impl Mode {
    /// Returns true if a request is a body of many messages.
    pub fn moves_bodies(self) -> bool {
        matches!(self, Self::Block | Self::Upload)
    }
}

/// Arrival process of the open loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Arrivals {
    /// Constant intervals
    Constant,
    /// Random, as from many independent clients
    Poisson,
}

/// When requests start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// When one before has ended.
    Closed,
    /// At scheduled times.
    Open {
        /// Requests per second.
        rate: f64,
        /// Arrival process.
        arrivals: Arrivals,
        /// Seed of Poisson arrivals.
        seed: u64,
    },
}

/// A resource of a server.
#[derive(Clone, Debug)]
pub struct Target {
    /// Its URI.
    pub uri: Uri,
    /// Address of the server.
    pub address: SocketAddr,
    /// Credentials; none over coap.
    pub secure: Option<Secure>,
}

/// Credentials of sessions with a server.
#[derive(Clone, Debug)]
pub struct Secure {
    /// Sessions with these credentials.
    pub sessions: Arc<ClientSessions>,
    /// Name that a certificate must have, other than the address.
    pub name: Option<Arc<str>>,
}

/// The load as planned.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Kind of requests.
    pub mode: Mode,
    /// The loaded resource.
    pub target: Arc<Target>,
    /// The request, whole.
    pub request: Request,
    /// Sent as CON.
    pub confirmable: bool,
    /// Times of requests.
    pub pace: Pace,
    /// Requests under way at most.
    pub outstanding: usize,
    /// Source ports at a time.
    pub ports: usize,
    /// Threads, among which ports are divided.
    pub threads: usize,
    /// Time before the measured one.
    pub warm_up: Duration,
    /// Time measured; `None` to go by `requests` alone.
    pub duration: Option<Duration>,
    /// Requests or bodies after which the load ends.
    pub requests: Option<u64>,
    /// Time after which a request or a handshake fails.
    pub timeout: Duration,
    /// Name of the congestion controller.
    pub controller: String,
    /// The congestion controller.
    pub choice: CongestionControl,
    /// Outstanding exchanges of a port (NSTART).
    pub nstart: u16,
    /// Largest blocks.
    pub block_size: Option<BlockSize>,
    /// Bytes of the tokens of requests.
    pub token_length: u16,
    /// Messages after which a source port is replaced.
    pub port_messages: u32,
}

impl Plan {
    /// The engine's settings for one source port.
    pub fn config(&self) -> Config {
        let mut config = Config::default();
        let mut parameters = TransmissionParameters::DEFAULT;
        if let CongestionControl::Registered(entry) = &self.choice {
            parameters = entry.suggested.apply(parameters);
        }
        parameters.nstart = self.nstart;
        config.parameters = parameters;
        config.controller = self.choice.clone();
        config.token_length = self.token_length;
        config.trace = Tracing::Exchanges;
        config.limits.dedup_idempotent = REMEMBERED;
        config.limits.queue = config.limits.queue.max(self.outstanding);
        if let Some(size) = self.block_size {
            config.block_size = size;
            config.negotiate_early = self.mode == Mode::Block;
        }
        config
    }

    /// Configuration of each request.
    pub(crate) fn sending(&self) -> RequestConfig {
        let mut sending = RequestConfig::default();
        sending.confirmable = self.confirmable;
        sending.deadline = Some(self.timeout.into());
        if self.mode == Mode::Block {
            // So that bodies of any size can be read.
            sending.response_body = BodyMode::Streamed;
        }
        sending
    }

    /// Returns true if anything goes through DTLS sessions.
    pub(crate) fn is_secured(&self) -> bool {
        self.target.secure.is_some()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use carob::Code;

    /// One GET at a time on each of 16 ports for 10 s.
    pub(crate) fn plan() -> Plan {
        let uri = Uri::parse("coap://127.0.0.1/hello").expect("a URI");
        let choice = CongestionControl::default();
        Plan {
            mode: Mode::Get,
            request: Request::new(Code::GET),
            target: Arc::new(Target {
                uri,
                address: "127.0.0.1:5683".parse().expect("an address"),
                secure: None,
            }),
            confirmable: true,
            pace: Pace::Closed,
            outstanding: 16,
            ports: 16,
            threads: 1,
            warm_up: Duration::from_secs(1),
            duration: Some(Duration::from_secs(10)),
            requests: None,
            timeout: Duration::from_secs(10),
            controller: choice.name().to_owned(),
            choice,
            nstart: 1,
            block_size: None,
            token_length: 4,
            port_messages: 60_000,
        }
    }
}
