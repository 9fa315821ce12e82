//! Fault: restarts of clients, as after a power failure.
//!
//! A client loses its endpoint with all exchanges, controllers and transfers, and sends from another
//! port. When it is up again it sends its outstanding requests again.

use carob_cc::time::Duration;

use super::{FaultError, check_times, drawn};
use crate::app::Application;
use crate::engine::Engine;
use crate::net::Network;
use crate::spec::Span;
use crate::trace::SimEvent;

/// Restarts of clients that send requests in datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientRestarts {
    /// Time of a client's first restart, drawn uniformly (stream `"fault/client_restart"`, client).
    pub first: Span,
    /// Time from a restart to the next; zero for a single one.
    pub interval: Duration,
    /// Time that a restart takes. Datagrams that arrive meanwhile are lost, and requests that become
    /// due are sent at its end.
    pub down: Duration,
}

impl ClientRestarts {
    pub(super) fn check(&self, time_limit: Duration) -> Result<(), FaultError> {
        let names = ["client_restart", "client_restart_interval"];
        check_times(names, self.first.high, self.interval, self.down, time_limit)
    }

    pub(super) fn first_of(&self, seed: u64, client: u32) -> Duration {
        drawn(seed, "fault/client_restart", client, self.first)
    }
}

impl<N: Network> Engine<'_, N> {
    /// Restarts a client. Returns the time to its next restart.
    pub(super) fn restart_client(
        &mut self,
        application: &mut dyn Application<N>,
        client: u32,
    ) -> Duration {
        let Some(ClientRestarts { interval, down, .. }) = self.spec.faults.client_restarts else {
            return Duration::ZERO;
        };
        self.trace.add(self.now, client, SimEvent::Restarted);
        self.hosts[client as usize].down_until = self.now + down;
        application.on_restart(self, client);
        interval
    }
}
