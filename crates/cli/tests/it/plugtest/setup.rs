//! Configuration of the clients and servers of the plugtests.

use std::time::Duration;

use carob::{BlockSize, Config, TransmissionParameters};

use super::observed::Ticking;
use super::{programs, resources};
use crate::interop::clients::{Client, Implementation};
use crate::interop::library::{self, block_on};

/// Interval of changes; the plugtests suggest five seconds.
pub(crate) const TICK: Duration = Duration::from_millis(400);

/// The servers' block size, as the plugtests suggest, so that large resources take several blocks.
pub(crate) const SERVER_BLOCK: u16 = 64;

/// Configuration of a case.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    /// Largest block size of the client.
    pub(crate) block: u16,
    /// Early negotiation: the first GET has Block2 (RFC 7959 2.4).
    pub(crate) early: bool,
    /// The client uses empty tokens.
    pub(crate) empty_token: bool,
    /// Short timeouts, for cases that wait for them.
    pub(crate) impatient: bool,
}

impl Setup {
    pub(crate) const PLAIN: Self = Self {
        block: SERVER_BLOCK,
        early: false,
        empty_token: false,
        impatient: false,
    };

    pub(crate) const IMPATIENT: Self = Self {
        impatient: true,
        ..Self::PLAIN
    };

    pub(crate) const EARLY: Self = Self {
        early: true,
        ..Self::PLAIN
    };

    /// ACK_TIMEOUT in milliseconds and MAX_RETRANSMIT.
    pub(crate) fn timers(self) -> (u32, u8) {
        if self.impatient { (150, 3) } else { (2_000, 4) }
    }

    fn config(self, block: u16) -> Config {
        let (ack_timeout, max_retransmit) = self.timers();
        let mut parameters = TransmissionParameters::DEFAULT;
        parameters.ack_timeout = carob_cc::time::Duration::from_millis(ack_timeout.into());
        parameters.max_retransmit = max_retransmit;
        let size = BlockSize::from_bytes_at_most(block.into()).expect("a block size");
        Config::new().block_size(size).parameters(parameters)
    }

    pub(crate) fn client(self, of: Implementation) -> Client {
        match of {
            Implementation::Carob => {
                let config = self.config(self.block).engine(move |config| {
                    config.negotiate_early = self.early;
                    if self.empty_token {
                        config.token_length = 0;
                    }
                });
                Client::Library(library::client(config))
            }
            Implementation::Of(peer) => Client::Program(programs::Client::open(peer, self)),
        }
    }

    /// Starts Carob's server with the plugtest resources, unless the port is in use.
    pub(crate) fn serve(self, port: u16) -> Option<(carob::Server, Ticking)> {
        let builder = carob::Server::builder()
            .bind(format!("127.0.0.1:{port}"))
            .config(self.config(SERVER_BLOCK));
        block_on(async {
            let (builder, ticking) = resources::all(builder, TICK);
            Some((builder.start().await.ok()?, ticking))
        })
    }

    /// The command for such a server in a plugtest program.
    pub(crate) fn serve_command(self, port: u16) -> String {
        let (ack_timeout, max_retransmit) = self.timers();
        let tick = TICK.as_millis();
        format!("serve {port} {tick} {ack_timeout} {max_retransmit}")
    }
}
