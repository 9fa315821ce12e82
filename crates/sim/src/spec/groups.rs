//! Client groups on one link: the measured one, and cross traffic.

use carob_cc::TransmissionParameters;

use super::controller::ControllerSpec;
use super::workload::{Transport, Workload};

/// The maximum number of clients of a run.
pub const CLIENTS_MAX: u32 = 4_096;

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
