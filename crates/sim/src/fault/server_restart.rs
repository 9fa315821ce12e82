//! Fault: restarts of servers.
//!
//! A server loses its endpoint: the duplicates it remembers, its observers, the bodies it puts
//! together, its receive queue. Its address stays. So it executes a request again whose response was
//! lost, and does not know the blocks that came before.

use carob_cc::time::Duration;

use super::{FaultError, check_times};
use crate::app::Application;
use crate::engine::Engine;
use crate::net::Network;
use crate::trace::SimEvent;

/// Restarts of the servers of all groups, at the same times. Datagrams only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerRestarts {
    /// Time of the first restart.
    pub first: Duration,
    /// Time from a restart to the next; zero for a single one.
    pub interval: Duration,
    /// Time that a restart takes. Datagrams that arrive meanwhile are lost.
    pub down: Duration,
}

impl ServerRestarts {
    pub(super) fn check(&self, time_limit: Duration) -> Result<(), FaultError> {
        let names = ["server_restart", "server_restart_interval"];
        check_times(names, self.first, self.interval, self.down, time_limit)
    }
}

impl<N: Network> Engine<'_, N> {
    /// Restarts a server. Returns the time to its next restart.
    pub(super) fn restart_server(
        &mut self,
        application: &mut dyn Application<N>,
        server: u32,
    ) -> Duration {
        let Some(ServerRestarts { interval, down, .. }) = self.spec.faults.server_restarts else {
            return Duration::ZERO;
        };
        self.trace.add(self.now, server, SimEvent::Restarted);
        self.hosts[server as usize].down_until = self.now + down;
        self.forget_queue(server);
        application.on_restart(self, server);
        interval
    }
}
