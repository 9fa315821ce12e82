//! Client groups of a run: the measured one, and cross traffic.

use carob_cc::TransmissionParameters;

use super::RunSpec;
use super::controller::ControllerSpec;
use super::workload::{Transport, Workload};
use crate::random::Span;

/// The maximum number of clients of a run.
pub const CLIENTS_MAX: u32 = 4_096;

/// A group of clients with a server endpoint of their own, so that groups compete only for the network,
/// and for the time of the server's machine if that has a service time.
#[derive(Clone, Debug)]
pub struct ClientGroup {
    /// Number of clients, each with its own flow.
    pub clients: u32,
    /// The span of their start times, drawn uniformly on the stream (`"client/start"`, client).
    pub start: Span,
    /// Transport of their messages.
    pub transport: Transport,
    /// Their workload.
    pub workload: Workload,
    /// Transmission parameters of both ends, with profile, scenario and command line applied.
    /// Datagrams only.
    pub transmission: TransmissionParameters,
    /// The congestion controller of both ends. Datagrams only.
    pub controller: ControllerSpec,
}

impl ClientGroup {
    /// Clients that start at once and send datagrams, with the parameters of RFC 7252 and the
    /// stack's default controller.
    pub fn new(clients: u32, workload: Workload) -> Self {
        Self {
            clients,
            start: Span::default(),
            transport: Transport::Datagrams,
            workload,
            transmission: TransmissionParameters::DEFAULT,
            controller: ControllerSpec::default(),
        }
    }
}

/// A group with its place in a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Group<'a> {
    /// Its number: 0 for the measured one.
    pub(crate) number: u32,
    /// Its first client.
    pub(crate) first: u32,
    pub(crate) spec: &'a ClientGroup,
}

impl<'a> Group<'a> {
    /// The groups of a run, the measured one first.
    pub(crate) fn all(run: &'a RunSpec) -> Vec<Self> {
        let (mut all, mut first) = (Vec::new(), 0);
        for (spec, number) in run.groups().zip(0..) {
            all.push(Self {
                number,
                first,
                spec,
            });
            first += spec.clients;
        }
        all
    }
}
