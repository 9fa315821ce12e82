//! Groups of clients on one link: those that are measured, and others that share it with them.

use carob_cc::TransmissionParameters;

use crate::spec::{ControllerSpec, RunSpec, Transport, Workload};

/// Clients that share a link with those that are measured. They begin when these do, and have a
/// server of their own beside the other's, so that no server is between the two.
#[derive(Clone, Debug)]
pub struct Group {
    /// How many.
    pub clients: u32,
    /// What carries their messages.
    pub transport: Transport,
    /// What they do.
    pub workload: Workload,
    /// Transmission parameters of both ends, over datagrams.
    pub transmission: TransmissionParameters,
    /// The congestion controller of both ends, over datagrams.
    pub controller: ControllerSpec,
}

/// What is known of a group, be it the measured one or another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind<'a> {
    /// Its number: 0 for those that are measured.
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
    pub(crate) fn kinds(&self) -> Vec<Kind<'_>> {
        let mut kinds = vec![Kind {
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
            kinds.push(Kind {
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
        kinds
    }
}
