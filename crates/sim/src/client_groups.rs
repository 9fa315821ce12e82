//! Client groups on one link: the measured one, and cross traffic.

use carob_cc::TransmissionParameters;

use crate::spec::{ControllerSpec, RunSpec, Transport, Workload};

/// A group of clients that share the link with the measured ones. They start at the same time, and
/// have a separate server, so that groups compete only for the link.
#[derive(Clone, Debug)]
pub struct ClientGroup {
    /// Number of clients.
    pub clients: u32,
    /// Transport of their messages.
    pub transport: Transport,
    /// Their workload.
    pub workload: Workload,
    /// Transmission parameters of both ends, over datagrams.
    pub transmission: TransmissionParameters,
    /// The congestion controller of both ends, over datagrams.
    pub controller: ControllerSpec,
}

/// A group, the measured one or another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GroupSpec<'a> {
    /// Its number: 0 for the measured one.
    pub(crate) number: u32,
    /// Its first client.
    pub(crate) first: u32,
    pub(crate) clients: u32,
    pub(crate) transport: &'a Transport,
    pub(crate) workload: &'a Workload,
    pub(crate) transmission: &'a TransmissionParameters,
    pub(crate) controller: &'a ControllerSpec,
}

impl RunSpec {
    /// All clients, of every group.
    pub fn all_clients(&self) -> u32 {
        let others = self.others.iter().map(|group| group.clients);
        others.fold(self.clients, u32::saturating_add)
    }

    /// Every group, the measured one first.
    pub(crate) fn groups(&self) -> Vec<GroupSpec<'_>> {
        let mut groups = vec![GroupSpec {
            number: 0,
            first: 0,
            clients: self.clients,
            transport: &self.transport,
            workload: &self.workload,
            transmission: &self.transmission,
            controller: &self.controller,
        }];
        let mut first = self.clients;
        for (group, number) in self.others.iter().zip(1..) {
            groups.push(GroupSpec {
                number,
                first,
                clients: group.clients,
                transport: &group.transport,
                workload: &group.workload,
                transmission: &group.transmission,
                controller: &group.controller,
            });
            first = first.saturating_add(group.clients);
        }
        groups
    }
}
