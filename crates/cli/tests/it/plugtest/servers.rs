//! Servers with the plugtest resources: Carob's and the peers' programs.

use std::time::Duration;

use carob::{BlockSize, Config};
use tokio::time::sleep;

use super::observed::Ticking;
use super::program::{self, Task};
use super::resources;
use super::setup::{SERVER_BLOCK, Setup};
use crate::interop::clients::Client as Who;
use crate::process::free_port;

/// Interval of changes; the plugtests suggest five seconds.
pub(crate) const TICK: Duration = Duration::from_millis(400);

/// Attempts to bind a port, and the pause in between.
const TRIES: u32 = 100;
const WAIT: Duration = Duration::from_millis(10);

/// A running server, stopped on drop.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) port: u16,
    who: Who,
    setup: Setup,
    running: Option<Running>,
}

#[derive(Debug)]
enum Running {
    Ours(
        carob::Server,
        #[allow(dead_code, reason = "held so that it goes on")] Ticking,
    ),
    Theirs(Task),
}

impl Server {
    pub(crate) async fn start(who: Who, setup: Setup) -> Self {
        let mut server = Self {
            port: free_port(),
            who,
            setup,
            running: None,
        };
        // Another test may take the port before the peer's program binds it.
        for _ in 0..TRIES {
            if server.run().await {
                return server;
            }
            server.port = free_port();
        }
        panic!("every port that was free is taken");
    }

    /// Starts the server; returns false if its port is in use.
    async fn run(&mut self) -> bool {
        let port = self.port;
        let running = match self.who {
            Who::Carob => ours(port, self.setup).await,
            Who::Of(peer) => {
                let (ack, retransmissions) = self.setup.timers();
                let tick = TICK.as_millis();
                let command = format!("serve {port} {tick} {ack} {retransmissions}");
                let mut told = program::of(peer).tell(&command);
                if !told.is_ready().await {
                    return false;
                }
                Running::Theirs(told)
            }
        };
        self.running = Some(running);
        true
    }

    /// Replaces the server by a new one without state.
    pub(crate) async fn reboot(&mut self) {
        if let Some(Running::Theirs(mut told)) = self.running.take() {
            told.add("close");
            told.until("closed").await;
        }
        for _ in 0..TRIES {
            if self.run().await {
                return;
            }
            sleep(WAIT).await;
        }
        panic!("port {} does not become free", self.port);
    }

    /// Number of observers; known for Carob's server only.
    pub(crate) async fn observers(&self) -> Option<usize> {
        match &self.running {
            Some(Running::Ours(server, _)) => {
                let usage = server.client().usage().await;
                Some(usage.expect("the server runs").observers)
            }
            _ => None,
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(Running::Theirs(told)) = &self.running {
            told.add("close");
        }
    }
}

/// Starts Carob's server. The port may still be in use by a server that has just stopped.
async fn ours(port: u16, setup: Setup) -> Running {
    let size = BlockSize::from_bytes_at_most(SERVER_BLOCK.into()).expect("a block size");
    for _ in 0..TRIES {
        let settings = Config::new()
            .block_size(size)
            .parameters(setup.parameters());
        let builder = carob::Server::builder()
            .bind(format!("127.0.0.1:{port}"))
            .config(settings);
        let (builder, ticking) = resources::all(builder, TICK);
        if let Ok(server) = builder.start().await {
            return Running::Ours(server, ticking);
        }
        sleep(WAIT).await;
    }
    panic!("port {port} does not become free");
}
