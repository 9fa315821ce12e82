//! Fault: rebinding of a client's address by a network address translator (RFC 4787 4.3).
//!
//! The mapping has expired or the translator has restarted: from then on the server sees the client's
//! datagrams come from another port, and datagrams to the previous port are lost. The client does not
//! notice. To the server the address is a new peer, without the duplicates, controllers and transfers of
//! the previous address.

use carob_cc::time::Duration;

use super::{FaultError, check_times, drawn};
use crate::engine::Engine;
use crate::net::Network;
use crate::spec::Span;
use crate::trace::SimEvent;

/// Rebinding of the addresses of clients. Datagrams only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rebindings {
    /// Time of a client's first rebinding, drawn uniformly (stream `"fault/rebinding"`, client). With
    /// equal bounds all clients are rebound at once, as by the restart of a shared translator.
    pub first: Span,
    /// Time from a rebinding to the next; zero for a single one.
    pub interval: Duration,
}

impl Rebindings {
    pub(super) fn check(&self, time_limit: Duration) -> Result<(), FaultError> {
        let names = ["rebinding", "rebinding_interval"];
        let lasts = Duration::ZERO;
        check_times(names, self.first.high, self.interval, lasts, time_limit)
    }

    pub(super) fn first_of(&self, seed: u64, client: u32) -> Duration {
        drawn(seed, "fault/rebinding", client, self.first)
    }
}

impl<N: Network> Engine<'_, N> {
    /// Gives a client another port in the eyes of servers. Returns the time to its next rebinding.
    pub(super) fn rebind(&mut self, client: u32) -> Duration {
        self.trace.add(self.now, client, SimEvent::Rebound);
        self.hosts[client as usize].takes_next_port();
        let rebindings = self.spec.faults.rebindings;
        rebindings.map_or(Duration::ZERO, |rebindings| rebindings.interval)
    }
}
