//! Faults: the engine schedules and applies them, on any network.
//!
//! An application only defines the loss of a host's state in a restart and its continuation
//! (`Application::on_restart`). Without faults no event is scheduled and no random number drawn.

use carob_cc::time::Duration;

use super::application::{Application, Applications};
use super::network::Network;
use super::{Engine, Event};
use crate::spec::{ClientRestarts, Faults, ServerRestarts};
use crate::trace::SimEvent;

/// A fault of a host.
#[derive(Clone, Copy, Debug)]
pub(crate) enum HostFault {
    ClientRestart,
    ServerRestart,
    Rebinding,
}

impl<N: Network> Engine<'_, N> {
    /// Schedules the first fault of each host.
    pub(crate) fn schedule_faults(&mut self) {
        let Faults {
            client_restarts,
            server_restarts,
            rebindings,
            ..
        } = self.spec.faults;
        for number in 0..self.hosts.len() as u32 {
            if self.hosts[number as usize].is_server() {
                if let Some(restarts) = server_restarts {
                    self.schedule_fault(HostFault::ServerRestart, number, restarts.first);
                }
                continue;
            }
            if let Some(restarts) = client_restarts {
                let first = restarts.first_of(self.spec.seed, number);
                self.schedule_fault(HostFault::ClientRestart, number, first);
            }
            if let Some(rebindings) = rebindings {
                let first = rebindings.first_of(self.spec.seed, number);
                self.schedule_fault(HostFault::Rebinding, number, first);
            }
        }
    }

    fn schedule_fault(&mut self, fault: HostFault, host: u32, after: Duration) {
        let at = self.now + after;
        self.queue.push(at, Event::Fault { fault, host });
    }

    /// Applies a fault of a host, and schedules its next.
    pub(crate) fn on_fault(
        &mut self,
        applications: &mut Applications<N>,
        fault: HostFault,
        host: u32,
    ) {
        let number = self.hosts[host as usize].application;
        let application = &mut *applications[usize::from(number)];
        let interval = match fault {
            HostFault::ClientRestart => self.restart_client(application, host),
            HostFault::ServerRestart => self.restart_server(application, host),
            HostFault::Rebinding => self.rebind(host),
        };
        if !interval.is_zero() {
            self.schedule_fault(fault, host, interval);
        }
    }

    /// Restarts a client. Returns the time to its next restart.
    fn restart_client(&mut self, application: &mut dyn Application<N>, client: u32) -> Duration {
        let Some(ClientRestarts { interval, down, .. }) = self.spec.faults.client_restarts else {
            return Duration::ZERO;
        };
        self.trace.add(self.now, client, SimEvent::Restarted);
        self.hosts[client as usize].down_until = self.now + down;
        application.on_restart(self, client);
        interval
    }

    /// Restarts a server. Returns the time to its next restart.
    fn restart_server(&mut self, application: &mut dyn Application<N>, server: u32) -> Duration {
        let Some(ServerRestarts { interval, down, .. }) = self.spec.faults.server_restarts else {
            return Duration::ZERO;
        };
        self.trace.add(self.now, server, SimEvent::Restarted);
        self.hosts[server as usize].down_until = self.now + down;
        self.forget_queue(server);
        application.on_restart(self, server);
        interval
    }

    /// Gives a client another port in the eyes of servers. Returns the time to its next rebinding.
    fn rebind(&mut self, client: u32) -> Duration {
        self.trace.add(self.now, client, SimEvent::Rebound);
        // Only the address that others see: a client is not informed of a new NAT mapping.
        self.hosts[client as usize].takes_next_port();
        let rebindings = self.spec.faults.rebindings;
        rebindings.map_or(Duration::ZERO, |rebindings| rebindings.interval)
    }

    /// Returns whether the link is out.
    pub(crate) fn is_link_out(&self) -> bool {
        let outages = self.spec.faults.outages;
        outages.is_some_and(|outages| outages.has(self.now))
    }
}
